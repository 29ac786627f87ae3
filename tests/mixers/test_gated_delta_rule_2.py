"""Gated delta rule 2: two gates, and a transition that may stretch."""

import itertools

import numpy as np
import pytest

from ctlearn.mixers import gated_delta_rule_2, kimi_delta_attention
from ctlearn.supplies import Floats, float_difference


def unit(*numbers):
    x = np.array(numbers, dtype=float)
    return x / np.linalg.norm(x)


def transition(k, b):
    """What one token without decay does to the state, read off the step."""
    d = len(k)
    states = []
    for i in range(d):
        _, S = gated_delta_rule_2.step(
            k,
            k,
            np.zeros(1),
            log_decay=np.zeros(d),
            b=b,
            w=np.ones(1),
            S=np.eye(d)[:, [i]],
        )
        states.append(S[:, 0])
    return np.array(states).T


def test_one_vector_in_both_gates_is_not_kimi_delta_attention():
    """The sheet saw 0.69: the value channels are then gated one by one."""
    x = gated_delta_rule_2.MECHANISM.draw(Floats(0), 20, 5, 5)
    x["w"] = x["b"].copy()
    o, _ = gated_delta_rule_2.recurrent(**x)
    names = ("q", "k", "v", "log_decay")
    beta = x["b"].mean(axis=1)
    o_kimi, _ = kimi_delta_attention.recurrent(**{n: x[n] for n in names}, beta=beta)
    assert 0.1 < abs(o - o_kimi).max() < 10


def test_the_norm_of_the_transition_is_the_formula_and_at_most_two_over_root_three():
    k = unit(3, -2, 1, 4)
    for chosen in itertools.product([0.0, 1.0], repeat=4):
        b = np.array(chosen)
        c = k @ (b * k)
        norm = np.linalg.norm(transition(k, b), 2)
        assert norm**2 == pytest.approx((2 - c + np.sqrt(4 * c - 3 * c * c)) / 2)
        assert norm <= 2 / np.sqrt(3) + 1e-12


def test_the_bound_is_reached_at_a_third():
    k, b = unit(1, 1, 1), np.array([1.0, 0, 0])
    assert np.linalg.norm(transition(k, b), 2) == pytest.approx(2 / np.sqrt(3))
    assert np.linalg.eigvals(transition(k, b)).max() == pytest.approx(1)


def test_gates_between_zero_and_one_stay_under_the_bound():
    supply = Floats(3)
    for _ in range(200):
        k, b = supply.unit("k", 4), supply.rate("b", 4)
        assert np.linalg.norm(transition(k, b), 2) <= 2 / np.sqrt(3) + 1e-12


def test_some_value_channels_are_written_while_the_others_only_fade():
    k = unit(1, 2)
    S = Floats(0).real("S", 2, 3)
    w = np.array([1.0, 0, 0])
    v = np.array([5.0, 6, 7])
    _, after = gated_delta_rule_2.step(
        k, k, v, log_decay=np.zeros(2), b=np.zeros(2), w=w, S=S
    )
    assert float_difference(after - S, np.outer(k, w * v)).equal
