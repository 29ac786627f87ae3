"""The composed memory: what has a name is what the name says, and nothing crosses."""

import itertools
from typing import Any

import numpy as np
import pytest

from ctlearn import composed
from ctlearn.composed import LOOK, RIDGE, Choices, run
from ctlearn.mechanism import CHOICES
from ctlearn.mixers import mechanisms
from ctlearn.supplies import Floats

T, D_K, D_V = 20, 4, 3
BETA, KEEP = 0.7, 0.9
G = np.log(KEEP)


@pytest.fixture(scope="module")
def tokens():
    supply = Floats(0)
    shapes = {"q": (T, D_K), "k": (T, D_K), "v": (T, D_V)}
    x = {name: supply.real(name, *shape) for name, shape in shapes.items()}
    return x | {"k": x["k"] / np.linalg.norm(x["k"], axis=1, keepdims=True)}


def each(x):
    return np.full(T, x)


CHANNELS = np.tile(G * np.linspace(0, 2, D_K), (T, 1))
RLS: dict[str, Any] = {"ridge": RIDGE, "log_forget": 0.0}
NAMED = {
    "linear_attention": (Choices(objective="dot"), {}),
    "retention": (Choices(objective="dot", control="rate"), {"log_gamma": G}),
    "gated_linear_attention": (
        Choices(objective="dot", control="channels"),
        {"log_decay": CHANNELS},
    ),
    "delta_rule": (Choices(), {"beta": each(BETA)}),
    "gated_delta_rule": (
        Choices(control="rate"),
        {"beta": each(BETA), "log_decay": each(G)},
    ),
    "kimi_delta_attention": (
        Choices(control="channels"),
        {"beta": each(BETA), "log_decay": CHANNELS},
    ),
    "ttt_linear": (
        Choices(schedule="batch"),
        {"beta": each(BETA), "inner_batch": LOOK},
    ),
    "omega_rule": (
        Choices(schedule="window"),
        {"beta": each(BETA / 2), "log_decay": each(0.0), "window": LOOK}
        | {"inner_batch": 1},
    ),
    "recursive_least_squares": (Choices(optimiser="newton"), RLS),
}


@pytest.mark.parametrize("name", NAMED)
def test_what_has_a_name_is_what_it_says(name, tokens):
    choices, others = NAMED[name]
    mechanism = mechanisms()[name]
    beta = 1.0 if choices.optimiser == "newton" else BETA
    ours = run(**tokens, choices=choices, keep=KEEP, beta=beta)
    theirs, _ = mechanism.forms["recurrent"](**tokens, **others)
    # these have no rate, and a memory that only adds has any that its reader likes
    scale = BETA if choices.objective == "dot" else 1.0
    np.testing.assert_allclose(ours, scale * theirs, rtol=0, atol=1e-12)
    # both are declared with a rate, which is one here
    if name not in ("omega_rule", "recursive_least_squares"):
        assert choices.cell in mechanisms()[name].cells


@pytest.mark.parametrize("choices", list(composed.every())[::7], ids=" ".join)
def test_memories_side_by_side_do_not_meet(choices, tokens):
    rates = {"beta": np.array([0.3, 1.1]), "keep": np.array([0.8, 1.0])}
    both = run(**tokens, choices=choices, **rates)
    for i, o in enumerate(both):
        alone = run(**tokens, choices=choices, **{n: r[i] for n, r in rates.items()})
        np.testing.assert_allclose(o, alone, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("choices", list(composed.every())[::7], ids=" ".join)
def test_the_future_is_not_read(choices, tokens):
    later = {name: x.copy() for name, x in tokens.items()}
    for x in later.values():
        x[13:] += 1
    before, after = (run(**x, choices=choices, beta=0.3) for x in (tokens, later))
    assert np.array_equal(before[:13], after[:13])
    assert not np.allclose(before[13:], after[13:])


def test_choices_make_different_memories_but_where_no_slope_waits(tokens):
    """A dot product is climbed alike from wherever its mini-batch began."""
    runs = {c: run(**tokens, choices=c, keep=0.8) for c in composed.every()}
    for (one, o), (other, o_other) in itertools.combinations(runs.items(), 2):
        twins = (
            one.objective == other.objective == "dot"
            and one._replace(schedule="batch") == other._replace(schedule="batch")
            and "window" not in (one.schedule, other.schedule)
        )
        assert (np.abs(o - o_other).max() < 1e-9) == twins, (one, other)


def test_the_words_are_those_of_the_map():
    for axis, options in composed.OPTIONS.items():
        assert set(options.values()) <= set(CHOICES[axis])
    assert Choices().cell == mechanisms()["delta_rule"].place.cell
    lived_in = {cell for mechanism in mechanisms().values() for cell in mechanism.cells}
    assert len(lived_in & {choices.cell for choices in composed.every()}) >= 9


def test_a_capped_slope_is_never_longer():
    z, v = np.array([[3.0, 4.0], [0.1, 0.2]]), np.zeros((2, 2))
    lengths = np.linalg.norm(composed.slope(z, v, "capped"), axis=1)
    assert lengths == pytest.approx([composed.CAP, np.hypot(0.1, 0.2)])
