"""Every module computes NumPy's numbers, in node and in Chromium, at any settings."""

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from ctlearn.explore.explorable import collect

SETTINGS = 100
EXPLORABLES = collect()
every = pytest.mark.parametrize("name", EXPLORABLES)


def random_setting(setting: dict[str, Any], rng: np.random.Generator) -> Any:
    """Anywhere within its limits, and often at an end, where special cases are."""
    if setting["kind"] == "choice":
        return str(rng.choice([value for value, _ in setting["options"]]))
    low, high = setting["min"], setting["max"]
    if setting["kind"] == "several":
        count = int(rng.integers(0, setting["most"] + 1)) if rng.random() < 0.5 else 0
        return [int(x) for x in rng.integers(low, high + 1, count)]
    if rng.random() < 0.3:
        return rng.choice([low, high]).item()
    if setting.get("log"):
        value = float(2 ** rng.uniform(np.log2(low), np.log2(high)))
        return round(value) if setting["kind"] == "whole" else value
    steps = int((high - low) / setting["step"] + 1e-9)
    value = low + int(rng.integers(0, steps + 1)) * setting["step"]
    return value if setting["kind"] == "whole" else round(value, 6)


def random_settings(name: str, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, len(name)])
    schema = EXPLORABLES[name].schema()
    return {setting["name"]: random_setting(setting, rng) for setting in schema}


def difference(ours: Any, theirs: Any) -> float:
    """The largest between two results of one shape, relative to what is above 1."""
    if ours is None or theirs is None:
        assert ours is theirs
        return 0.0
    ours, theirs = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    # a list of no rows does not say how long they are
    if ours.size == theirs.size == 0:
        return 0.0
    assert ours.shape == theirs.shape
    gap = np.abs(ours - theirs) / np.maximum(1, np.abs(ours))
    return float(gap.max(initial=0))


@cache
def references(name: str) -> list[dict[str, Any]]:
    """NumPy's numbers at all random settings, which are all allowed."""
    settings = [random_settings(name, seed) for seed in range(SETTINGS)]
    return [EXPLORABLES[name](**one).numbers() for one in settings]


def compare(name: str, theirs: list[Any]) -> float:
    """The largest difference from NumPy, of all numbers at all random settings."""
    worst = 0.0
    for ours, there in zip(references(name), theirs, strict=True):
        assert set(ours) == set(there)
        worst = max(worst, *(difference(ours[x], there[x]) for x in ours))
    return worst


@every
def test_the_module_equals_numpy(node, record_property, name):
    settings = json.dumps([random_settings(name, seed) for seed in range(SETTINGS)])
    run = f"console.log(JSON.stringify({settings}.map(compute)))"
    worst = compare(name, node(EXPLORABLES[name].module() + run))
    record_property(
        f"{name}: module against NumPy, {SETTINGS} settings", f"{worst:.1e}"
    )
    assert worst < 1e-6


@every
@pytest.mark.browser
def test_the_page_equals_numpy(visit, record_property, name):
    compute_there = """async ([name, settings]) => {
        const module = await import(`/_static/explore/${name}.js`);
        return settings.map(module.compute);
    }"""
    settings = [random_settings(name, seed) for seed in range(SETTINGS)]
    theirs = visit(f"{name}.html").evaluate(compute_there, [name, settings])
    worst = compare(name, theirs)
    record_property(
        f"{name}: Chromium against NumPy, {SETTINGS} settings", f"{worst:.1e}"
    )
    assert worst < 1e-6


@every
def test_the_python_line_has_the_same_numbers(node, name):
    """Pasted as it stands, with every setting that is not at its default."""
    settings = [random_settings(name, seed) for seed in range(2)]
    run = f"console.log(JSON.stringify({json.dumps(settings)}.map(python)))"
    lines = node(EXPLORABLES[name].module() + run)
    for line, there in zip(lines, references(name)[:2], strict=True):
        load, call = line.split("\n")
        scope: dict[str, Any] = {}
        exec(f"{load}\nx = {call}", scope)
        assert max(difference(scope["x"][key], there[key]) for key in there) == 0


@every
def test_the_arguments_of_compute_are_the_settings(name):
    """The Python line under a figure leaves out what has its default."""
    cls = EXPLORABLES[name]
    module = __import__(cls.__module__, fromlist=["compute"])
    defaults = module.compute.__kwdefaults__
    assert {k: list(v) if isinstance(v, tuple) else v for k, v in defaults.items()} == (
        cls().settings
    )
