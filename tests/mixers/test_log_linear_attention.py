"""Log-linear attention: the hierarchical mask, and what the levels change."""

import numpy as np
import pytest

from ctlearn.mixers import gated_linear_attention, log_linear_attention
from ctlearn.supplies import Floats, float_difference


def by_halving(t, s):
    """The level of token s at time t, by cutting the past from its end.

    The token itself, then runs of 1, 2, 4, ... tokens where the ones of t say so.
    """
    end, i = t, 0
    if s == t:
        return 0
    while s < end:
        end, i = (end - 2**i if t >> i & 1 else end), i + 1
    return i


@pytest.mark.parametrize("T", [1, 13, 64, 65])
def test_it_is_attention_under_a_hierarchical_mask(T):
    """O = (QK' * D * Lambda) V, with every entry of both masks by its definition."""
    x = log_linear_attention.MECHANISM.draw(Floats(T), T, 6, 5)
    alpha, scores = np.exp(x["log_decay"]), x["q"] @ x["k"].T
    expected = np.zeros((T, 5))
    for t in range(T):
        for s in range(t + 1):
            weight = x["levels"][t, by_halving(t, s)] * alpha[s + 1 : t + 1].prod()
            expected[t] += weight * scores[t, s] * x["v"][s]
    for form in (log_linear_attention.recurrent, log_linear_attention.parallel):
        assert float_difference(form(**x)[0], expected).equal


def test_the_levels_add_up_to_one_state():
    x = log_linear_attention.MECHANISM.draw(Floats(0), 45, 6, 5)
    _, S = log_linear_attention.chunkwise(**x, chunk_size=7)
    del x["levels"]
    assert float_difference(
        S.S.sum(axis=0), gated_linear_attention.recurrent(**x)[1]
    ).equal


def test_a_weight_of_its_own_recalls_the_token_itself():
    """Level 0 alone: o_t = (q_t'k_t) v_t, whatever else is remembered."""
    x = log_linear_attention.MECHANISM.draw(Floats(0), 20, 6, 5)
    x["levels"] = np.eye(9)[:1].repeat(20, axis=0)
    own = (x["q"] * x["k"]).sum(axis=1, keepdims=True) * x["v"]
    assert float_difference(log_linear_attention.parallel(**x)[0], own).equal


@pytest.mark.parametrize("L", [1, 2, 3, 5])
def test_a_sequence_longer_than_the_levels_hold_is_refused(L):
    forms = log_linear_attention.MECHANISM.forms
    T = 2 ** (L - 1)
    x = log_linear_attention.MECHANISM.draw(Floats(0), T + 1, 5, 3)
    x["levels"] = x["levels"][:, :L]
    sentence = rf"^levels: expected at least {L + 1} for {T + 1} tokens, got L = {L}$"
    most = {name: a[:T] for name, a in x.items()}
    last = {name: a[T] for name, a in x.items()}
    for name in ("recurrent", "parallel", "chunkwise"):
        _, S = forms[name](**most)
        with pytest.raises(ValueError, match=sentence):
            forms[name](**x)
        with pytest.raises(ValueError, match=sentence):
            forms["step"](**last, S=S)


def test_minus_infinity_empties_every_level():
    """Case 4: what follows is answered as if nothing had been read before."""
    x = log_linear_attention.MECHANISM.draw(Floats(4), 20, 6, 5)
    x["log_decay"][11] = -np.inf
    hidden = {name: np.where(np.arange(20) < 11, 0, x[name].T).T for name in "kv"}
    for form in (log_linear_attention.recurrent, log_linear_attention.parallel):
        o, _ = form(**x)
        expected, _ = form(**(x | hidden))
        assert float_difference(o[11:], expected[11:]).equal
