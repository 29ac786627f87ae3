"""Mamba: a state space model for each value channel, and decays that stay apart."""

import numpy as np
import pytest

from ctlearn.mixers import mamba, mamba2
from ctlearn.supplies import Floats, float_difference


def test_each_value_channel_is_a_state_space_model_of_its_own():
    """h_t = diag(exp(Delta A)) h_{t-1} + Delta B x_t, y_t = C'h_t, one by one."""
    x = mamba.MECHANISM.draw(Floats(0), 20, 6, 5)
    y = np.zeros((20, 5))
    for j in range(5):
        h = np.zeros(6)
        for t in range(20):
            step = x["delta"][t, j]
            transition = np.diag(np.exp(step * x["A"][:, j]))
            h = transition @ h + step * x["k"][t] * x["v"][t, j]
            y[t, j] = x["q"][t] @ h
    assert float_difference(mamba.parallel(**x)[0], y).equal


def test_one_rate_for_the_head_is_another_mechanism():
    """What Mamba-2 gives up: the mean rate in the place of each entry's."""
    x = mamba.MECHANISM.draw(Floats(0), 20, 6, 5)
    x["delta"] = x["delta"][:, :1].repeat(5, axis=1)
    o, _ = mamba.recurrent(**x)
    tied = x | {"A": x["A"].mean(), "delta": x["delta"][:, 0]}
    assert abs(o - mamba2.recurrent(**tied)[0]).max() > 0.1


@pytest.mark.parametrize("form", [mamba.recurrent, mamba.parallel])
def test_an_entry_that_keeps_nothing_is_fed_by_its_own_token_alone(form):
    """Case 4 for one entry: A = -inf clears it at every token, and only it."""
    x = mamba.MECHANISM.draw(Floats(4), 20, 6, 5)
    x["A"][2, 3] = -np.inf
    _, S = form(**x)
    assert S[2, 3] == pytest.approx(x["k"][-1, 2] * x["delta"][-1, 3] * x["v"][-1, 3])
    _, without = form(**(x | {"A": np.where(np.isinf(x["A"]), -1, x["A"])}))
    others = np.arange(30).reshape(6, 5) != 13
    assert float_difference(S[others], without[others]).equal


def test_decays_after_a_strong_one_keep_their_digits():
    """Case 2: a token that takes very long, then many that take almost no time."""
    x = mamba.MECHANISM.draw(Floats(5), 64, 6, 5)
    x["delta"][:] = 0.01
    x["delta"][20] = 1e6
    with np.errstate(over="raise", invalid="raise"):
        expected, o = mamba.recurrent(**x)[0], mamba.parallel(**x)[0]
    # the long token writes a million times more than the rest, so compare before it too
    for part in (slice(None, 20), slice(20, None)):
        scale = abs(expected[part]).max()
        assert float_difference(o[part] / scale, expected[part] / scale).equal
