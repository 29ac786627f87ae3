"""Kimi delta attention: the order of its two factors, and what its listing drops."""

import numpy as np

from ctlearn.mixers import kimi_delta_attention
from ctlearn.supplies import Floats, float_difference


def products(x, forget_first):
    """The transition as a matrix product, either factor first."""
    S = np.zeros((x["k"].shape[1], x["v"].shape[1]))
    o = np.empty_like(x["v"])
    for t, (k, beta) in enumerate(zip(x["k"], x["beta"], strict=True)):
        house = np.eye(len(k)) - beta * np.outer(k, k)
        fade = np.diag(np.exp(x["log_decay"][t]))
        S = (house @ fade if forget_first else fade @ house) @ S
        S = S + beta * np.outer(k, x["v"][t])
        o[t] = S.T @ x["q"][t]
    return o


def test_forgetting_and_erasing_do_not_commute():
    """The sheet saw 0.098 for the other order."""
    x = kimi_delta_attention.MECHANISM.draw(Floats(0), 20, 6, 5)
    o, _ = kimi_delta_attention.recurrent(**x)
    assert float_difference(o, products(x, True)).equal
    assert 0.02 < abs(o - products(x, False)).max() < 2


def test_the_listing_that_writes_values_is_not_the_mechanism():
    """Listing 8b writes v in the place of beta times the error."""
    x = kimi_delta_attention.MECHANISM.draw(Floats(0), 20, 6, 5)
    o, _ = kimi_delta_attention.recurrent(**x)
    S = np.zeros((6, 5))
    for t in range(20):
        S = np.exp(x["log_decay"][t])[:, None] * S + np.outer(x["k"][t], x["v"][t])
    assert abs(S.T @ x["q"][-1] - o[-1]).max() > 0.1


def test_strong_decays_in_one_channel_stay_finite_and_exact():
    """Case 5: a factored form would overflow where this is right."""
    for g in (-0.01, -2.0, -5.0, -20.0, -np.inf):
        x = kimi_delta_attention.MECHANISM.draw(Floats(1), 70, 6, 5)
        x["log_decay"][:, 2] = g
        for form in (kimi_delta_attention.parallel, kimi_delta_attention.chunkwise):
            o, S = form(**x)
            o_true, S_true = kimi_delta_attention.recurrent(**x)
            assert float_difference(o, o_true).equal
            assert float_difference(S, S_true).equal
