"""Preconditioned Kimi delta attention: its matrices, its order, a P that stays."""

import numpy as np

from ctlearn.mixers import kimi_delta_attention
from ctlearn.mixers import preconditioned_kimi_delta_attention as preconditioned
from ctlearn.mixers.preconditioned_delta_rule import State
from ctlearn.supplies import Floats, float_difference

RELEASED = {"spread": 1.5, "centre": -0.2}


def drawn(T=20):
    return preconditioned.MECHANISM.draw(Floats(0), T, 6, 5) | RELEASED


def by_matrices(x, forget_first=True):
    """Answers by the transition as a product of matrices, either factor first."""
    S, A = np.zeros((6, 5)), np.zeros(6)
    o = np.empty_like(x["v"])
    for t, (k, beta) in enumerate(zip(x["k"], x["beta"], strict=True)):
        A = np.exp(x["gram_log_decay"][t]) * A + x["gram_beta"][t] * k**2
        r = np.log(A + 1e-6) + 0.2
        at = 1.5 ** (-r / (1 + abs(r))) * k
        erase = np.eye(6) - beta * np.outer(at, k)
        fade = np.diag(np.exp(x["log_decay"][t]))
        S = (erase @ fade if forget_first else fade @ erase) @ S
        S = S + beta * np.outer(at, x["v"][t])
        o[t] = S.T @ x["q"][t]
    return o


def test_it_forgets_before_it_erases_and_scales_only_the_write():
    x = drawn()
    o, _ = preconditioned.recurrent(**x)
    assert float_difference(o, by_matrices(x)).equal
    assert 0.02 < abs(o - by_matrices(x, forget_first=False)).max() < 2


def test_a_scale_that_stays_is_a_change_of_coordinates():
    """Kimi delta attention on sqrt(P) k and sqrt(P) q, from S / sqrt(P)."""
    x = drawn()
    x |= {"gram_log_decay": np.zeros(20), "gram_beta": np.zeros(20)}
    A = np.array([0.0, 1e-3, 0.1, 0.5, 2.0, 30.0])
    start = State(Floats(1).real("S", 6, 5), A)
    o, S = preconditioned.chunkwise(**x, S=start)
    r = np.log(A + 1e-6) + 0.2
    root = np.sqrt(1.5 ** (-r / (1 + abs(r))))
    gates = {"log_decay": x["log_decay"], "beta": x["beta"]}
    there = start.S / root[:, None]
    o_there, S_there = kimi_delta_attention.chunkwise(
        root * x["q"], root * x["k"], x["v"], **gates, S=there
    )
    assert float_difference(o, o_there).equal
    assert float_difference(S.S, root[:, None] * S_there).equal
    assert np.array_equal(S.A, A)


def test_a_scale_that_moves_is_another_mechanism():
    """Not with the P it ends with, nor with that of 1, nor with the one it began at."""
    x = drawn()
    o, S = preconditioned.chunkwise(**x)
    still = x | {"gram_log_decay": np.zeros(20), "gram_beta": np.zeros(20)}
    none = np.zeros((6, 5))
    for A in (S.A, np.full(6, np.exp(-0.2)), np.zeros(6)):
        other, _ = preconditioned.chunkwise(**still, S=State(none, A))
        assert abs(o - other).max() > 0.05


def test_the_sum_of_squared_keys_does_not_fade_with_the_channels():
    x = drawn()
    _, S = preconditioned.recurrent(**x)
    _, cleared = preconditioned.recurrent(
        **(x | {"log_decay": np.full_like(x["log_decay"], -np.inf)})
    )
    assert np.array_equal(S.A, cleared.A)
    assert np.linalg.matrix_rank(cleared.S) == 1 < np.linalg.matrix_rank(S.S)
