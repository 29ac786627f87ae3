"""The arithmetic of printed mathematics: numbers, matrices, and shapes that must fit.

A number is a Python or SymPy number; a matrix is an array of two axes, a vector one of
one column.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ctlearn import scalars
from ctlearn.features import relu, softmax_feature


class Misfit(ValueError):
    """Shapes that do not fit, or a function asked of what it is not defined for."""


class Identity:
    """A multiple of the identity matrix, as large as what it meets."""

    def __init__(self, scale: Any) -> None:
        self.scale = scale

    def like(self, other: np.ndarray) -> np.ndarray:
        """The matrix, for a square one to be added to or compared with."""
        if np.ndim(other) != 2 or other.shape[0] != other.shape[1]:
            raise Misfit(f"I is square, and meets {told(other)}")
        return self.scale * np.eye(len(other), dtype=int)


def told(x: Any) -> str:
    """The shape of a value, for a message."""
    if callable(x):
        return "a function"
    if isinstance(x, Identity):
        return "a multiple of I"
    return f"[{', '.join(map(str, np.shape(x)))}]" if np.ndim(x) else "a number"


def alike(left: Any, right: Any) -> tuple[np.ndarray, np.ndarray]:
    """Two values as arrays of one shape; a bare 0 and a multiple of I take any."""
    if callable(left) or callable(right):
        raise Misfit(f"{told(left)} is compared with {told(right)}")
    if isinstance(left, Identity) and isinstance(right, Identity):
        return np.asarray(left.scale), np.asarray(right.scale)
    if isinstance(left, Identity) or isinstance(right, Identity):
        return _sized(left, right)
    for one, other in ((left, right), (right, left)):
        if np.ndim(one) == 0 and np.ndim(other) and one == 0:
            return np.asarray(left + 0 * right), np.asarray(right + 0 * left)
    left, right = np.asarray(left), np.asarray(right)
    if left.shape != right.shape:
        raise Misfit(f"{told(left)} is compared with {told(right)}")
    return left, right


def plus(left: Any, right: Any) -> Any:
    """The sum of two numbers, or of two matrices of one shape."""
    if isinstance(left, Identity) and isinstance(right, Identity):
        return Identity(left.scale + right.scale)
    if isinstance(left, Identity) or isinstance(right, Identity):
        left, right = _sized(left, right)
    if callable(left) or callable(right):
        raise Misfit(f"{told(left)} is added to {told(right)}")
    for one, other in ((left, right), (right, left)):
        # what an empty sum comes to
        if np.ndim(one) == 0 and one == 0:
            return other
    if np.shape(left) != np.shape(right):
        raise Misfit(f"{told(left)} is added to {told(right)}")
    return left + right


def times(left: Any, right: Any) -> Any:
    """The product of matrices, or of a number and anything."""
    if callable(left) or callable(right):
        raise Misfit(f"{told(left)} is multiplied by {told(right)}")
    if isinstance(left, Identity):
        return times(left.scale, right)
    if isinstance(right, Identity):
        return _scaled(left, right) if np.ndim(left) == 0 else left * right.scale
    if np.ndim(left) == 0 or np.ndim(right) == 0:
        return left * right
    if left.shape[1] != right.shape[0]:
        raise Misfit(f"{told(left)} is multiplied by {told(right)}")
    product = left @ right
    return product[0, 0] if product.shape == (1, 1) else product


def entrywise(left: Any, right: Any) -> Any:
    """The entrywise product of two matrices of one shape."""
    if np.ndim(left) == 0 or np.shape(left) != np.shape(right):
        raise Misfit(f"{told(left)} is multiplied entry by entry by {told(right)}")
    return left * right


def divided(left: Any, right: Any) -> Any:
    """Anything divided by a number."""
    if callable(right) or isinstance(right, Identity) or np.ndim(right):
        raise Misfit(f"{told(left)} is divided by {told(right)}")
    if isinstance(left, Identity):
        return Identity(left.scale / right)
    return left / right


def power(base: Any, exponent: Any) -> Any:
    """A number to a power; of a matrix, a whole power or the inverse."""
    if np.ndim(exponent) or isinstance(base, Identity):
        raise Misfit(f"{told(base)} is raised to {told(exponent)}")
    if np.ndim(base) == 0:
        return base**exponent
    if base.shape[0] != base.shape[1] or exponent != int(exponent):
        raise Misfit(f"{told(base)} is raised to {exponent}")
    root = inverse(base) if exponent < 0 else base
    out = np.eye(len(base), dtype=int)
    for _ in range(abs(int(exponent))):
        out = out @ root
    return out


def kronecker(left: Any, right: Any) -> Any:
    """Every entry of the left matrix times all of the right one."""
    if np.ndim(left) == 0 or np.ndim(right) == 0:
        raise Misfit(f"{told(left)} meets {told(right)} in a Kronecker product")
    return np.kron(left, right)


def kronecker_power(base: Any, exponent: int) -> Any:
    """The Kronecker product of a matrix with itself, so many times."""
    return functools.reduce(kronecker, [base] * exponent)


def transposed(x: Any) -> Any:
    """A matrix with its axes exchanged; a number is its own transpose."""
    return x if isinstance(x, Identity) or np.ndim(x) == 0 else x.T


def inverse(x: np.ndarray) -> np.ndarray:
    """The inverse of a square matrix."""
    if not scalars.is_exact(x):
        return np.linalg.inv(x)
    return np.array(_sympy(x).inv().tolist(), dtype=object)


def norm(x: Any) -> Any:
    """The Euclidean length of a vector, the Frobenius norm of a matrix."""
    return scalars.sqrt((x * x).sum()) if np.ndim(x) else abs(x)


def of_columns(function: Callable) -> Callable:
    """A function of the package, which takes vectors of one axis, on columns."""

    def apply(*arguments: Any) -> Any:
        columns = [np.ndim(x) == 2 and x.shape[1] == 1 for x in arguments]
        pairs = zip(arguments, columns, strict=True)
        return function(*(x[:, 0] if column else x for x, column in pairs))

    return apply


def each(function: Callable[[Any], Any], x: Any) -> Any:
    """A function of numbers, of each entry."""
    return np.vectorize(function, otypes=[object])(x)[()] if np.ndim(x) else function(x)


def smaller(left: Any, right: Any) -> Any:
    """The smaller of two numbers."""
    return right if _number(right) < _number(left) else left


def larger(left: Any, right: Any) -> Any:
    """The larger of two numbers."""
    return right if _number(right) > _number(left) else left


def rank(x: np.ndarray) -> int:
    """How many rows of a matrix are linearly independent."""
    return _sympy(x).rank() if scalars.is_exact(x) else int(np.linalg.matrix_rank(x))


def determinant(x: np.ndarray) -> Any:
    """The determinant of a square matrix."""
    return _sympy(x).det() if scalars.is_exact(x) else np.linalg.det(x)


def diagonal(x: np.ndarray) -> np.ndarray:
    """The diagonal matrix of a vector."""
    if np.ndim(x) != 2 or x.shape[1] != 1:
        raise Misfit(f"diag is asked of {told(x)}")
    return x * np.eye(len(x), dtype=int)


def lower_triangle(x: np.ndarray, offset: Any = 0) -> np.ndarray:
    """What stands on the diagonal `offset` and below it."""
    return np.tril(x, int(offset))


def _softmax(x: np.ndarray) -> np.ndarray:
    return softmax_feature(x[:, 0])[:, None]


def _number(x: Any) -> Any:
    if callable(x) or isinstance(x, Identity) or np.ndim(x):
        raise Misfit(f"the larger or smaller is asked of {told(x)}")
    return x


def _scaled(number: Any, identity: Identity) -> Identity:
    return Identity(number * identity.scale)


def _sized(left: Any, right: Any) -> tuple[Any, Any]:
    if isinstance(left, Identity):
        return left.like(right), right
    return left, right.like(left)


def _sympy(x: np.ndarray) -> Any:
    import sympy

    return sympy.Matrix(x)


NAMED: Mapping[str, Callable] = {
    "exp": scalars.exp,
    "log": scalars.log,
    "det": determinant,
    "cos": scalars.cos,
    "sin": scalars.sin,
    "tanh": np.tanh,
    "min": lambda *x: min(x),
    "max": lambda *x: max(x),
    "rank": rank,
    "tr": np.trace,
    "Diag": diagonal,
    "tril": lower_triangle,
    "softmax": _softmax,
    "relu": relu,
}
