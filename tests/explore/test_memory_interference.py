"""Memory interference: the page's numbers are NumPy's, and NumPy's are theory's."""

import json
from typing import Any

import numpy as np
import pytest

from ctlearn.explore import draws
from ctlearn.explore.memory_interference import MemoryInterference, compute

SETTINGS = 100


def random_settings(seed: int) -> dict[str, Any]:
    """Settings anywhere within their limits, each rule and the plane often."""
    rng = np.random.default_rng(seed)
    pairs = int(rng.integers(1, 25))
    plane = rng.random() < 0.3
    turned = int(rng.integers(0, pairs + 3)) if plane else 0
    return {
        "rule": str(rng.choice(["add", "decay", "delta"])),
        "d_k": 2 if plane else int(rng.integers(2, 33)),
        "pairs": pairs,
        "similarity": float(rng.choice([0.0, round(rng.random(), 2), 1.0])),
        "alpha": round(0.5 + rng.random() / 2, 2),
        "beta": round(2 * rng.random(), 2),
        "seed": int(rng.integers(1, 1000)),
        "written": int(rng.integers(0, 25)),
        "pair": int(rng.integers(1, 25)),
        "angles": [int(x) for x in rng.integers(-180, 181, min(turned, 24))],
    }


def largest_difference(ours: Any, theirs: Any) -> float:
    """Between two results of one shape; None matches None alone."""
    if ours is None or theirs is None:
        assert ours is theirs
        return 0.0
    ours, theirs = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    assert ours.shape == theirs.shape or ours.size == theirs.size == 0
    return float(np.abs(ours - theirs).max(initial=0))


def compare(settings: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> float:
    """The largest difference between any of their numbers and NumPy's."""
    worst = 0.0
    for ours, there in zip(settings, theirs, strict=True):
        numbers = compute(**ours)
        assert set(numbers) == set(there)
        for name, expected in numbers.items():
            worst = max(worst, largest_difference(expected, there[name]))
    return worst


def test_the_generator_is_the_same_in_both_languages(node):
    module = MemoryInterference.module()
    places = [(1, 0, 5, 7), (2**31, 3, 24, 32), (999, 1, 1, 9)]
    run = f"console.log(JSON.stringify({json.dumps(places)}.map((p) => normal(...p))))"
    theirs = node(module + run)
    for place, numbers in zip(places, theirs, strict=True):
        np.testing.assert_allclose(draws.normal(*place), numbers, rtol=0, atol=1e-12)


def test_the_generator_is_normal():
    x = draws.normal(7, 2, 300, 300)
    count = x.size
    assert abs(x.mean()) < 4 / count**0.5
    assert abs((x**2).mean() - 1) < 4 * (2 / count) ** 0.5
    assert abs((x**4).mean() - 3) < 4 * (96 / count) ** 0.5
    for y in (x[1:] * x[:-1], x[:, 1:] * x[:, :-1], x * draws.normal(8, 2, 300, 300)):
        assert abs(y.mean()) < 4 / y.size**0.5


def test_a_longer_draw_begins_like_a_shorter_one():
    assert (draws.normal(3, 1, 9, 8)[:4, :5] == draws.normal(3, 1, 4, 5)).all()


@pytest.mark.browser
def test_the_page_equals_numpy(visit, record_property):
    compute_there = """async (settings) => {
        const module = await import("/_static/explore/memory_interference.js");
        return settings.map(module.compute);
    }"""
    settings = [random_settings(seed) for seed in range(SETTINGS)]
    worst = compare(settings, visit().evaluate(compute_there, settings))
    record_property("Chromium against NumPy, 100 settings", f"{worst:.1e}")
    assert worst < 1e-6


def test_the_module_equals_numpy(node, record_property):
    settings = [random_settings(seed) for seed in range(SETTINGS)]
    run = f"console.log(JSON.stringify({json.dumps(settings)}.map(compute)))"
    worst = compare(settings, node(MemoryInterference.module() + run))
    record_property("module against NumPy, 100 settings", f"{worst:.1e}")
    assert worst < 1e-6


def test_the_comparison_notices_a_changed_module(node):
    """The test above would fail if the module decayed in another order."""
    right = "kept * S[i][j] + key[i] * change[j]"
    module = MemoryInterference.module()
    assert module.count(right) == 1
    wrong = module.replace(right, "kept * (S[i][j] + key[i] * change[j])")
    settings = compute.__kwdefaults__ | {"rule": "decay", "angles": []}
    run = f"console.log(JSON.stringify(compute({json.dumps(settings)})))"
    theirs = node(wrong + run)
    assert largest_difference(compute(rule="decay")["state"], theirs["state"]) > 1e-3


def test_the_traits_are_the_arguments():
    defaults = {k: v for k, v in compute.__kwdefaults__.items() if k != "angles"}
    assert MemoryInterference().settings == defaults | {"angles": []}


def test_setting_a_trait_changes_the_numbers():
    widget = MemoryInterference(d_k=2)
    widget.set_state({"angles": [0, 30], "pairs": 2})
    assert widget.numbers()["gram"][0, 1] == pytest.approx(np.cos(np.pi / 6))


def test_what_leaks_is_the_cosine():
    """Two keys thirty degrees apart: each answer holds the other's value, by cosine."""
    x = compute(d_k=2, pairs=2, angles=[0, 30])
    v = x["values"]
    np.testing.assert_allclose(x["returned"][0], v[0] + np.cos(np.pi / 6) * v[1])


def test_orthogonal_keys_are_recalled_exactly():
    for rule in ("add", "delta"):
        x = compute(d_k=2, pairs=2, angles=[20, 110], rule=rule)
        assert x["error"] < 1e-30


def test_the_delta_rule_recalls_the_last_pair_exactly():
    x = compute(rule="delta", d_k=4, pairs=12, similarity=0.6)
    assert x["errors"][-1] < 1e-30
    assert x["errors"][0] > 0.01


def test_independent_keys_have_the_error_of_theory():
    x = compute(d_k=16, pairs=12)
    four_standard_errors = 4 * x["spread"] / 32**0.5
    assert (np.abs(x["average"] - x["theory"]) <= four_standard_errors + 1e-12).all()
    assert x["theory"][-1] == 11 / 16


def test_theory_is_given_only_where_it_holds():
    assert len(compute()["theory"]) == 8
    assert not len(compute(similarity=0.05)["theory"])
    assert not len(compute(rule="delta")["theory"])
    assert not len(compute(d_k=2, angles=[0.0])["theory"])
    assert len(compute(d_k=3, angles=[0.0])["theory"])


def test_equal_keys_at_similarity_one():
    x = compute(similarity=1.0)
    np.testing.assert_allclose(x["gram"], 1)
    assert x["cosine"] == pytest.approx(1)


def test_nothing_written():
    x = compute(written=0)
    assert x["error"] is None
    assert len(x["errors"]) == 0
    assert not x["state"].any()


def test_one_pair_alone():
    x = compute(pairs=1)
    assert x["cosine"] is None
    assert x["error"] < 1e-30


def test_the_figure_says_what_it_shows():
    widget = MemoryInterference(pairs=5)
    alt = widget.figure().alt
    assert alt.startswith("Two panels for 5 pairs")
    assert f"{widget.numbers()['curve'][-1]:.2f}" in alt
