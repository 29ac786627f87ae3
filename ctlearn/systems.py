"""Linear systems: solved alike on floats, rationals and symbols, by formulas alone.

All matrices are positive definite, so that no pivot has to be looked for, and no
square root is taken: what is rational stays rational.
"""

from collections.abc import Callable

import numpy as np

from ctlearn.memory import solve_unit_lower
from ctlearn.scalars import is_exact


def factor(A: np.ndarray) -> np.ndarray:
    """L and p of A = L Diag(p) L', in one array: p on the diagonal, L below it.

    A [n, n] is positive definite and L unit lower triangular: Cholesky's factor
    without its square roots. Above the diagonal the array is zero.
    """
    packed = np.tril(A)
    for j in range(len(A)):
        column = packed[j + 1 :, j] / packed[j, j]
        packed[j + 1 :, j + 1 :] -= np.tril(np.outer(column, packed[j + 1 :, j]))
        packed[j + 1 :, j] = column
    return packed


def extend_factor(packed: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The factor of a matrix that has grown: of its new rows [m, n + m], from the old.

    `packed` [n, n] is the factor of the corner that was there before.
    """
    n = len(packed)
    cross = solve_unit_lower(packed, rows[:, :n].T).T
    left = cross / np.diag(packed)
    corner = factor(rows[:, n:] - left @ cross.T)
    return np.block([[packed, np.zeros_like(cross.T)], [left, corner]])


def solve(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """X with A x = b, for positive definite A [..., d, d] and b [..., d]."""
    A, x = A.copy(), b.copy()
    d = b.shape[-1]
    for i in range(d):
        multiple = A[..., i + 1 :, i] / A[..., i, i, None]
        A[..., i + 1 :, :] -= multiple[..., None] * A[..., i, None, :]
        x[..., i + 1 :] -= multiple * x[..., i, None]
    for i in reversed(range(d)):
        known = (A[..., i, i + 1 :] * x[..., i + 1 :]).sum(axis=-1)
        x[..., i] = (x[..., i] - known) / A[..., i, i]
    return x


def conjugate_gradients(
    apply: Callable[[np.ndarray], np.ndarray], b: np.ndarray, steps: int
) -> np.ndarray:
    """Steps of conjugate gradients from zero towards x with A x = b, row by row.

    b [n, d] holds a right side in each row, and `apply` multiplies row i by the
    positive definite matrix of row i. d steps suffice, but for rounding; a row that
    has arrived stays where it is.
    """
    x, rest, direction = np.zeros_like(b), b, b
    size = (rest * rest).sum(axis=1)
    for _ in range(steps):
        image = apply(direction)
        length = _ratio(size, (direction * image).sum(axis=1))
        x = x + length[:, None] * direction
        rest = rest - length[:, None] * image
        size, before = (rest * rest).sum(axis=1), size
        direction = rest + _ratio(size, before)[:, None] * direction
    return x


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A over b, and 0 where both are: nothing is left to correct."""
    if not is_exact(b):
        return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
    return np.array([0 if y == 0 else x / y for x, y in zip(a, b, strict=True)], object)
