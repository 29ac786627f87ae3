"""Scans: every state of a linear recurrence from pairs that are combined in any tree.

    S_t = A_t S_{t-1} + B_t        A_t [d_k, d_k], B_t [d_k, d_v]

A pair (A, B) is the step S -> A S + B; two steps in turn are again such a step. So T
pairs can be combined two at a time, in log2 T rounds instead of T. The order of the
factors matters as soon as the A are matrices. [blelloch1990]
"""

from collections.abc import Callable

import numpy as np

Pair = tuple[np.ndarray, np.ndarray]


def combine(first: Pair, second: Pair) -> Pair:
    """The step that is `first` and then `second`; pairs may be stacked, [n, ., .]."""
    (A, B), (A_next, B_next) = first, second
    return A_next @ A, A_next @ B + B_next


def combine_swapped(first: Pair, second: Pair) -> Pair:
    """The same with the factors of A in reading order: right for numbers alone."""
    (A, B), (A_next, B_next) = first, second
    return A @ A_next, A_next @ B + B_next


def steps(k: np.ndarray, v: np.ndarray, beta: np.ndarray) -> Pair:
    """The delta rule's pairs: A [T, d_k, d_k] and B [T, d_k, d_v]."""
    left = beta[:, None, None] * k[:, :, None]
    unit = np.eye(k.shape[1], dtype=k.dtype)
    return unit - left * k[:, None], left * v[:, None]


def in_rounds(rule: Callable[[Pair, Pair], Pair], A: np.ndarray, B: np.ndarray) -> Pair:
    """All T prefixes in log2 T rounds; the B of each is the state from an empty one.

    In every round each pair is combined with the one that stands a power of two before
    it, which by then sums up as many tokens. [hillis1986]
    """
    A, B = A.copy(), B.copy()
    apart = 1
    while apart < len(A):
        first, second = (A[:-apart], B[:-apart]), (A[apart:], B[apart:])
        A[apart:], B[apart:] = rule(first, second)
        apart *= 2
    return A, B


def in_turn(rule: Callable[[Pair, Pair], Pair], A: np.ndarray, B: np.ndarray) -> Pair:
    """All T prefixes, each from the one before it: T - 1 combinations."""
    found = [(A[0], B[0])]
    for pair in zip(A[1:], B[1:], strict=True):
        found.append(rule(found[-1], pair))
    return np.stack([A for A, _ in found]), np.stack([B for _, B in found])
