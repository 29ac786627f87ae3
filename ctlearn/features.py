"""Feature maps and normalisation: what is done to keys and queries before they meet.

Each works along the last axis, on floats, SymPy rationals and SymPy symbols.
"""

import numpy as np

from ctlearn.scalars import exp, is_exact, shift, sqrt


def identity(x: np.ndarray) -> np.ndarray:
    """The vector itself: plain linear attention."""
    return x


def relu(x: np.ndarray) -> np.ndarray:
    """max(x, 0): non-negative, and zero on half the line."""
    return _choose(x, x, 0 * x)


def elu_plus_one(x: np.ndarray) -> np.ndarray:
    """1 + x where x > 0, exp(x) elsewhere: positive. [katharopoulos2020, eq. 7]"""
    # exp only sees x <= 0, where it cannot overflow
    return _choose(x, x + 1, exp(-relu(-x)))


def softmax_feature(x: np.ndarray) -> np.ndarray:
    """exp(x) over its sum: positive, and every feature vector sums to one."""
    weights = exp(x - shift(x)[..., None])
    return weights / weights.sum(axis=-1, keepdims=True)


def quadratic(x: np.ndarray) -> np.ndarray:
    """All products of two channels, [d] to [d^2]: dot products are squared."""
    return (x[..., :, None] * x[..., None, :]).reshape(*x.shape[:-1], x.shape[-1] ** 2)


def dpfp(x: np.ndarray, nu: int = 1) -> np.ndarray:
    """Deterministic parameter-free projection (DPFP), [d] to [2 d nu], never negative.

    y = [relu(x), relu(-x)], times itself rolled by 1, 2, ..., nu places, one after
    another. At most half of y is above 0, so features of different keys may be
    orthogonal. `nu` is between 1 and 2 d - 1. [schlag2021]
    """
    y = np.concatenate([relu(x), relu(-x)], axis=-1)
    if not 1 <= nu < y.shape[-1]:
        raise ValueError(f"nu: expected 1 to {y.shape[-1] - 1}, got {nu}")
    rolled = [y * np.roll(y, i, axis=-1) for i in range(1, nu + 1)]
    return np.concatenate(rolled, axis=-1)


def sum_to_one(x: np.ndarray) -> np.ndarray:
    """Divide non-negative features by their sum, where a read has no normaliser.

    Then x'x is at most 1, and a delta rule of step size up to 1 never overshoots.
    Raises ValueError if the features are all zero. [schlag2021]
    """
    total = x.sum(axis=-1, keepdims=True)
    if not is_exact(total) and np.any(total == 0):
        raise ValueError("x: expected features with a sum above 0, got a sum of 0")
    return x / total


def taylor(x: np.ndarray) -> np.ndarray:
    """1, x and its products over sqrt(2), [d] to [1 + d + d^2]: 1 + s + s^2 / 2.

    So the dot product s of two vectors becomes the first three terms of exp(s), which
    are never negative.
    """
    root = sqrt(np.asarray(2, dtype=x.dtype))
    ones = np.ones((*x.shape[:-1], 1), dtype=x.dtype)
    return np.concatenate([ones, x, quadratic(x) / root], axis=-1)


def positive_random(x: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """exp(w'x - x'x / 2) / sqrt(m) for each of m directions w [m, d]: [d] to [m].

    With standard normal directions the mean of the products is exp of the dot product.
    [choromanski2021, lemma 1]
    """
    half = (x * x).sum(axis=-1, keepdims=True) / 2
    m = np.asarray(len(directions), dtype=x.dtype)
    return exp(x @ directions.T - half) / sqrt(m)


def normalise(x: np.ndarray, eps: float = 1e-6) -> np.ndarray:
    """Divide x by sqrt(x'x + eps): unit length, unless x is as short as sqrt(eps).

    The zero vector stays zero, with a finite slope of 1/sqrt(eps) there. Layers use
    this formula too. `eps` is any positive number; exact worlds want an exact one.
    """
    return x / sqrt((x * x).sum(axis=-1, keepdims=True) + eps)


def orthonormal(x: np.ndarray) -> np.ndarray:
    """Orthonormal rows in place of those of x [n, d]; rows beyond d are zero.

    They are the rows of the reflection I - 2 uu'/u'u along the first row u of x, so
    they are rational where x is. `x[0]` may not be zero.
    """
    n, d = x.shape
    rows = np.zeros_like(x)
    rows[:d] = (np.eye(d, dtype=x.dtype) - 2 * np.outer(x[0], x[0]) / (x[0] @ x[0]))[:n]
    return rows


def _choose(x: np.ndarray, positive: np.ndarray, other: np.ndarray) -> np.ndarray:
    """`positive` where x > 0, else `other`; piecewise where x is a symbol."""
    if not is_exact(x):
        return np.where(x > 0, positive, other)
    import sympy

    out = np.empty(x.shape, dtype=object)
    for i in np.ndindex(x.shape):
        out[i] = sympy.Piecewise((positive[i], x[i] > 0), (other[i], True))
    return out
