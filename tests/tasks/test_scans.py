"""Scans: one rule is right in every tree, the other only where factors commute."""

import numpy as np
import pytest

from ctlearn.mixers import delta_rule
from ctlearn.supplies import Rationals
from ctlearn.tasks import scans


def tokens(T, d_k=3, d_v=2):
    supply = Rationals(T)
    k, v = supply.real("k", T, d_k), supply.real("v", T, d_v)
    return k, v, supply.rate("b", T)


def states(k, v, beta):
    """The recurrence's, after each token."""
    ends = range(1, len(k) + 1)
    runs = [delta_rule.recurrent(k[:t], k[:t], v[:t], beta=beta[:t]) for t in ends]
    return np.stack([S for _, S in runs])


@pytest.mark.parametrize("scan", [scans.in_rounds, scans.in_turn])
@pytest.mark.parametrize("T", [1, 2, 3, 5, 8])
def test_the_rule_gives_every_state_in_every_tree(scan, T):
    k, v, beta = tokens(T)
    A, B = scans.steps(k, v, beta)
    whole, ends = scan(scans.combine, A, B)
    assert np.array_equal(ends, states(k, v, beta))
    left = [np.eye(3, dtype=object)]
    for A_t in A:
        left.append(A_t @ left[-1])
    assert np.array_equal(whole, np.stack(left[1:]))


def test_swapped_factors_show_only_where_a_second_operand_sums_up_several_tokens():
    k, v, beta = tokens(8)
    A, B = scans.steps(k, v, beta)
    wanted = states(k, v, beta)
    assert np.array_equal(scans.in_turn(scans.combine_swapped, A, B)[1], wanted)
    wrong = scans.in_rounds(scans.combine_swapped, A, B)[1] != wanted
    assert wrong.any(axis=(1, 2)).tolist() == [False] * 2 + [True] * 6


def test_numbers_and_keys_at_right_angles_do_not_show_the_swap():
    k, v, beta = tokens(6)
    axes = np.eye(3, dtype=object)[[0, 1, 2, 1, 0, 2]]
    for A, B in (
        scans.steps(axes, v, beta),
        (beta[:, None, None] * np.eye(3, dtype=object), scans.steps(k, v, beta)[1]),
    ):
        right, swapped = (
            scans.in_rounds(rule, A, B)[1]
            for rule in (scans.combine, scans.combine_swapped)
        )
        assert np.array_equal(right, swapped)


def test_inputs_are_left_alone():
    k, v, beta = tokens(4)
    A, B = scans.steps(k, v, beta)
    before = A.copy(), B.copy()
    scans.in_rounds(scans.combine, A, B)
    assert np.array_equal(A, before[0])
    assert np.array_equal(B, before[1])
