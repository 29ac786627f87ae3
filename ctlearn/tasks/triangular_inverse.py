"""Triangular inverses: (I + L)^{-1} for a chunk of the delta rule, and what rounds it.

    L_ij = beta k_i'k_j for j < i, else 0;   C tokens, L [C, C]

Substitution goes row by row. The others are matrix products: doubling multiplies
I - L + L^2 - ... out of the powers L^(2^j), as L^C = 0; blocks are substituted and then
merged; Newton's iteration corrects a guess. All are exact in exact numbers. In float32
doubling is not usable: with cosines c between keys the powers' entries grow with C
about as (1 + beta c)^C and must cancel, while the inverse itself stays small.
"""

from collections.abc import Callable, Iterable

import numpy as np

from ctlearn.memory import solve_unit_lower
from ctlearn.tasks.plans import relative_error
from ctlearn.tasks.recall import keys_with_cosine


def draw(
    seed: int,
    C: int,
    d: int,
    *,
    cosine: float,
    beta: float = 1.0,
    dtype: str = "float32",
) -> np.ndarray:
    """L [C, C] for unit keys with this mean cosine."""
    k = keys_with_cosine(np.random.default_rng(seed), C, d, cosine)
    return np.tril(beta * (k @ k.T), -1).astype(dtype)


def errors(
    method: Callable[[np.ndarray], np.ndarray],
    seeds: Iterable[int],
    C: int,
    d: int,
    *,
    cosine: float,
    beta: float = 1.0,
) -> np.ndarray:
    """Relative error of a method in float32, for each seed.

    The truth is substitution in float64 of the same, rounded, L: what is measured is
    the method's own error.
    """
    found = []
    for seed in seeds:
        L = draw(seed, C, d, cosine=cosine, beta=beta)
        found.append(relative_error(method(L), by_substitution(L.astype("float64"))))
    return np.array(found)


def by_substitution(L: np.ndarray) -> np.ndarray:
    """Row by row, each from those above: C^2 (C - 1) / 2 multiplications in C steps."""
    return solve_unit_lower(L, _unit(L))


def by_doubling(L: np.ndarray) -> np.ndarray:
    """(I - L)(I + L^2)(I + L^4)...: two products in each of log2 C steps."""
    power, inverse, terms = -L, _unit(L) - L, 2
    while terms < len(L):
        power = power @ power
        inverse = inverse + inverse @ power
        terms *= 2
    return inverse


def by_blocks(L: np.ndarray, size: int = 16) -> np.ndarray:
    """Substitute in diagonal blocks of at most `size` rows; merge two blocks at a time.

    With inverses A and B of the diagonal blocks, the corner below A is -B L_21 A.
    """
    if len(L) <= size:
        return by_substitution(L)
    half = size * ((len(L) + size) // (2 * size))
    A, B = by_blocks(L[:half, :half], size), by_blocks(L[half:, half:], size)
    inverse = np.zeros_like(L)
    inverse[:half, :half], inverse[half:, half:] = A, B
    inverse[half:, :half] = -B @ (L[half:, :half] @ A)
    return inverse


def by_newton(L: np.ndarray, steps: int) -> np.ndarray:
    """X <- X (2 I - (I + L) X) from I - L: exact after log2 C - 1 steps.

    What is left over is computed anew in each step, so a step also repairs what the
    ones before it rounded. In float32 that takes one to four steps more.
    """
    X = _unit(L) - L
    for _ in range(steps):
        X = X @ (2 * _unit(L) - X - L @ X)
    return X


def largest_power(L: np.ndarray) -> float:
    """The largest entry among the powers L^(2^j) that doubling multiplies."""
    power, largest = L, np.abs(L).max()
    for _ in range((len(L) - 1).bit_length() - 1):
        power = power @ power
        largest = max(largest, np.abs(power).max())
    return float(largest)


def _unit(L: np.ndarray) -> np.ndarray:
    return np.eye(len(L), dtype=L.dtype)
