"""Longhorn: an implicit step, and what its released kernel does instead."""

import numpy as np
import pytest

from ctlearn.mixers import longhorn, normalised_least_mean_squares
from ctlearn.supplies import Floats, Symbols, float_difference


def test_the_step_is_where_the_slope_vanishes():
    """On symbols: the derivative of both squares at S_t is zero, channel by channel."""
    supply = Symbols()
    x = longhorn.MECHANISM.draw(supply, 1, 2, 2)
    S = supply.real("S", 2, 2)
    _, after = longhorn.recurrent(**x, S=S)
    miss = x["beta"][0] * (after.T @ x["k"][0] - x["v"][0])
    slope = 2 * (after - S) + 2 * np.outer(x["k"][0], miss)
    assert supply.difference(slope, 0 * slope).equal


def test_long_keys_and_strong_steps_do_not_blow_up():
    x = longhorn.MECHANISM.draw(Floats(0), 200, 6, 5)
    x["k"], x["beta"], x["v"] = 100 * x["k"], 1e3 * x["beta"], 0 * x["v"]
    S = Floats(1).real("S", 6, 5)
    _, after = longhorn.recurrent(**x, S=S)
    assert np.linalg.norm(after, 2) <= np.linalg.norm(S, 2)


def test_strong_steps_tend_to_the_projection():
    """The sheet saw 2e-8."""
    x = longhorn.MECHANISM.draw(Floats(0), 20, 6, 5)
    x["beta"] = np.full((20, 5), 1e9)
    o, _ = longhorn.recurrent(**x)
    tokens = {name: x[name] for name in ("q", "k", "v")}
    o_projected, _ = normalised_least_mean_squares.recurrent(**tokens, mu=1.0, eps=0.0)
    assert abs(o - o_projected).max() < 1e-6


def test_the_diagonal_transition_of_the_released_kernel_is_another_mechanism():
    """The sheet saw 0.57."""
    x = longhorn.MECHANISM.draw(Floats(0), 20, 6, 5)
    x["k"] = x["k"] / 2
    o, _ = longhorn.recurrent(**x)
    S = np.zeros((6, 5))
    for t, k in enumerate(x["k"]):
        eps = longhorn.step_size(x["beta"][t], k)
        S = (1 - np.outer(k * k, eps)) * S + np.outer(k, eps * x["v"][t])
    assert 0.05 < abs(S.T @ x["q"][-1] - o[-1]).max() < 10


def test_value_channels_are_separate_delta_rules():
    x = longhorn.MECHANISM.draw(Floats(0), 20, 6, 5)
    o, _ = longhorn.chunkwise(**x, chunk_size=8)
    for c in range(5):
        alone = x | {name: x[name][:, [c]] for name in ("v", "beta")}
        assert float_difference(longhorn.recurrent(**alone)[0][:, 0], o[:, c]).equal


def test_a_rate_for_the_head_is_refused():
    x = longhorn.MECHANISM.draw(Floats(0), 4, 6, 5)
    with pytest.raises(ValueError, match=r"^beta: expected \[T, d_v\]"):
        longhorn.recurrent(**(x | {"beta": x["beta"][:, 0]}))
