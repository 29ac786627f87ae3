"""The log-linear gated delta rule: what the levels weigh, and what they do not."""

import numpy as np

from ctlearn.buckets import level
from ctlearn.mixers import gated_delta_rule, log_linear_gated_delta_rule
from ctlearn.supplies import Floats, float_difference

MECHANISM = log_linear_gated_delta_rule.MECHANISM


def masks(x):
    """The decay mask, and the levels' weights, each entry by its definition."""
    T = len(x["q"])
    D, weights = np.zeros((T, T)), np.zeros((T, T))
    for t in range(T):
        for s in range(t + 1):
            D[t, s] = np.exp(x["log_decay"][s + 1 : t + 1].sum())
            weights[t, s] = x["levels"][t, level(t, s)]
    return D, weights


def test_the_levels_weigh_what_each_value_contributes():
    """O = (P (I + L)^{-1} Diag(beta) * Lambda) V; Lambda on P alone is another map."""
    x = MECHANISM.draw(Floats(0), 20, 6, 5)
    D, weights = masks(x)
    P, beta = (x["q"] @ x["k"].T) * D, x["beta"][:, None]
    L = np.tril(beta * (x["k"] @ x["k"].T) * D, -1)
    A = np.linalg.inv(np.eye(20) + L)
    o, _ = log_linear_gated_delta_rule.recurrent(**x)
    expected = (P @ A * weights) @ (beta * x["v"])
    assert float_difference(o, expected).equal
    on_scores = (P * weights) @ A @ (beta * x["v"])
    assert abs(o - on_scores).max() > 0.1


def test_the_levels_add_up_to_the_gated_delta_rules_state():
    x = MECHANISM.draw(Floats(1), 45, 6, 5)
    _, S = log_linear_gated_delta_rule.chunkwise(**x, chunk_size=7)
    del x["levels"]
    _, whole = gated_delta_rule.recurrent(**x)
    assert float_difference(S.S.sum(axis=0), whole).equal


def test_a_key_written_anew_is_erased_at_every_level():
    """With beta = 1 nothing older than the last write at a unit key is read there."""
    x = MECHANISM.draw(Floats(2), 20, 6, 5)
    x |= {"beta": np.ones(20), "q": x["k"]}
    x["levels"][:, 0] = 0
    o, _ = log_linear_gated_delta_rule.parallel(**x)
    assert abs(o).max() < 1e-12
