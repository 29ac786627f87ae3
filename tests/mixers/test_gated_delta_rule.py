"""Gated delta rule: the order of forgetting, resets, and the mask of its chunks."""

import numpy as np
import pytest

from ctlearn import memory
from ctlearn.mixers import comba, delta_rule, gated_delta_rule
from ctlearn.supplies import Floats, float_difference


def drawn(T, d_k=6, d_v=5, seed=0):
    return gated_delta_rule.MECHANISM.draw(Floats(seed), T, d_k, d_v)


def test_the_order_of_forgetting_by_hand():
    """Case 32: T = 2 and d = 1; the error is that of the halved state."""
    one = np.ones((2, 1))
    o, S = gated_delta_rule.recurrent(
        one,
        one,
        np.array([[4.0], [1.0]]),
        log_decay=np.log([0.5, 0.5]),
        beta=np.array([1.0, 0.5]),
    )
    # 4; then 2 + (1 - 2) / 2, where reading first would give 2 + (1 - 4) / 2
    assert o.ravel() == pytest.approx([4, 1.5])
    assert S.ravel() == pytest.approx([1.5])


def test_reading_first_is_another_map():
    """T9: the sheet saw 0.22."""
    x = drawn(20)
    o, _ = gated_delta_rule.recurrent(**x)
    o_first, _ = comba.recurrent(**x, p=x["k"], correction=0.0)
    assert 0.1 < abs(o - o_first).max() < 2


def test_a_decay_of_zero_clears_the_memory():
    x = drawn(9)
    x["log_decay"][4] = -np.inf
    rest = {name: a[4:] for name, a in x.items()}
    for form in (gated_delta_rule.recurrent, gated_delta_rule.parallel):
        o, S = form(**x)
        o_rest, S_rest = form(**rest)
        assert float_difference(o[4:], o_rest).equal
        assert float_difference(S, S_rest).equal


def test_the_plain_mask_in_the_output_of_a_chunk_is_wrong():
    """The paper's last line prints M where D is needed; the sheet saw 1.97."""
    x = drawn(12)
    q, k, v, beta = x["q"], x["k"], x["v"], x["beta"]
    D = memory.decay_between(x["log_decay"], k)[1:, 1:, 0]
    L = np.tril(beta[:, None] * (k @ k.T) * D, -1)
    u = np.linalg.solve(np.eye(12) + L, beta[:, None] * v)
    o, _ = gated_delta_rule.recurrent(**x)
    assert float_difference(o, ((q @ k.T) * D) @ u).equal
    assert abs(o - np.tril(q @ k.T) @ u).max() > 0.5


def test_ungated_pseudo_values_are_wrong():
    """(I + L)^-1 must hold the decay too; the sheet saw 0.66."""
    x = drawn(12)
    gap = [
        memory.solve_unit_lower(
            np.tril(x["beta"][:, None] * (x["k"] @ x["k"].T) * D, -1),
            x["beta"][:, None] * x["v"],
        )
        for D in (1, memory.decay_between(x["log_decay"], x["k"])[1:, 1:, 0])
    ]
    assert abs(gap[0] - gap[1]).max() > 0.1


def test_it_minimises_the_linearised_loss():
    """||S - F||^2 - 2 <S'k, beta (v - F'k)> is stationary at S_t, F = alpha S."""
    x = drawn(1)
    S = Floats(1).real("S", 6, 5)
    _, after = gated_delta_rule.recurrent(**x, S=S)
    F = np.exp(x["log_decay"][0]) * S
    k, v, beta = x["k"][0], x["v"][0], x["beta"][0]
    slope = 2 * (after - F) - 2 * np.outer(k, beta * (v - F.T @ k))
    assert abs(slope).max() < 1e-14


def test_a_vector_decay_is_refused():
    x = drawn(3)
    with pytest.raises(ValueError, match=r"^log_decay: expected \[T\], got"):
        gated_delta_rule.parallel(**(x | {"log_decay": np.zeros((3, 6))}))


def test_clearing_by_the_delta_rule_alone_takes_a_write_for_each_channel():
    S = Floats(0).real("S", 3, 2)
    keys, nothing, beta = np.eye(3), np.zeros((3, 2)), np.ones(3)
    for n in range(4):
        _, left = delta_rule.recurrent(
            keys[:n], keys[:n], nothing[:n], beta=beta[:n], S=S
        )
        assert np.linalg.matrix_rank(left) == min(2, 3 - n)
