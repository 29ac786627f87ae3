"""The composed memory: what has a name is what the name says, and nothing crosses."""

import itertools
from typing import Any

import numpy as np
import pytest

from ctlearn import composed
from ctlearn.composed import LOOK, MOMENTUM, RIDGE, Choices, run
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
# its loss is the square without a half
TITANS: dict[str, Any] = {"beta": each(BETA / 2), "log_decay": each(G)}
TITANS |= {"log_mu": each(np.log(MOMENTUM)), "inner_batch": LOOK}
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
    "titans": (
        Choices(optimiser="momentum", schedule="batch", control="rate"),
        TITANS,
    ),
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


def test_features_are_the_keys_of_a_delta_rule(tokens):
    x = {
        name: np.hstack([np.maximum(tokens[name], 0), np.maximum(-tokens[name], 0)])
        for name in "qk"
    }
    delta_rule = mechanisms()["delta_rule"].forms["recurrent"]
    theirs, _ = delta_rule(**x, v=tokens["v"], beta=each(BETA))
    ours = run(**tokens, choices=Choices(function_class="features"), beta=BETA)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("control", ["rate", "channels"])
def test_what_newtons_steps_know_of_old_keys_fades_from_both_sides(control, tokens):
    q, k, v = (tokens[name] for name in "qkv")
    a = np.full(D_K, KEEP) if control == "rate" else KEEP ** np.linspace(0, 2, D_K)
    S, o = np.zeros((D_K, D_V)), np.empty((T, D_V))
    for t in range(T):
        old = k[: t + 1] * a ** np.arange(t, -1, -1)[:, None]
        S = a[:, None] * S
        H = old.T @ old + RIDGE * np.eye(D_K)
        S = S - BETA * np.linalg.solve(H, np.outer(k[t], S.T @ k[t] - v[t]))
        o[t] = S.T @ q[t]
    choices = Choices(optimiser="newton", control=control)
    ours = run(**tokens, choices=choices, keep=KEEP, beta=BETA)
    np.testing.assert_allclose(ours, o, rtol=0, atol=1e-10)


@pytest.mark.parametrize("function_class", ["matrix", "features"])
def test_a_closed_form_is_a_minimum_and_other_newton_steps_are_not(
    function_class, tokens
):
    """The answers of ridge regression on all pairs so far, by the words of the cell."""
    x, asked = (composed.phi(tokens[n], function_class) for n in "kq")
    fitted = np.empty((T, D_V))
    for t in range(T):
        X, V = x[: t + 1], tokens["v"][: t + 1]
        H = X.T @ X + RIDGE * np.eye(x.shape[1])
        fitted[t] = asked[t] @ np.linalg.solve(H, X.T @ V)
    for choices in composed.every():
        if choices.optimiser == "newton" and choices.function_class == function_class:
            met = np.allclose(run(**tokens, choices=choices, keep=KEEP), fitted)
            assert (choices.cell.optimiser == "closed form") == met, choices


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
