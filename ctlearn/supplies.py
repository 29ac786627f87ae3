"""Supplies of numbers: the same draw as symbols, as exact rationals, or as floats.

A check asks a supply for arrays by name, shape and domain, and so runs unchanged in
three worlds. What holds on free symbols is proved at those sizes; rationals are exact
at sizes that symbols cannot reach; floats are what computers use.

Domains: `real`; `unit` (rows of length one); `rate`, in (0, 1); `small`, a sixteenth
of a rate; `double`, twice a rate; `positive`; `shares` (positive, rows of sum one);
`log_decay`, the log of a rate.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ctlearn.scalars import TOLERANCE, log


@dataclass(frozen=True)
class Difference:
    """Whether two sides are equal, and the largest gap, as a number and to print.

    The number is relative to the sides' own size for floats, and 0 or infinity for
    exact worlds, where the text holds the gap itself.
    """

    equal: bool
    size: float
    text: str


class Supply(ABC):
    """Draws arrays; subclasses say of what, and when two of them are equal."""

    world: str

    @abstractmethod
    def real(self, name: str, *shape: int) -> np.ndarray:
        """Any real numbers."""

    @abstractmethod
    def rate(self, name: str, *shape: int) -> np.ndarray:
        """Numbers strictly between 0 and 1."""

    @abstractmethod
    def positive(self, name: str, *shape: int) -> np.ndarray:
        """Numbers above 0."""

    @abstractmethod
    def difference(self, left: np.ndarray, right: np.ndarray) -> Difference:
        """Compare two arrays of one shape."""

    def small(self, name: str, *shape: int) -> np.ndarray:
        """A sixteenth of rates: step sizes at which a non-linear model stays tame."""
        return self.rate(name, *shape) / 16

    def double(self, name: str, *shape: int) -> np.ndarray:
        """Twice rates: step sizes that may turn what they meet round."""
        return 2 * self.rate(name, *shape)

    def shares(self, name: str, *shape: int) -> np.ndarray:
        """Positive rows of sum one, as features are that were divided by their sum."""
        x = self.positive(name, *shape)
        return x / x.sum(axis=-1, keepdims=True)

    def log_decay(self, name: str, *shape: int) -> np.ndarray:
        """Logs of rates."""
        return log(self.rate(name, *shape))

    def unit(self, name: str, *shape: int) -> np.ndarray:
        """Rows of length one: a stereographic projection, rational in what is drawn."""
        rows = shape[:-1]
        if shape[-1] == 1:
            return np.ones(shape, dtype=self.real(name, 1).dtype)
        x = self.real(name, *rows, shape[-1] - 1)
        square = (x * x).sum(axis=-1, keepdims=True)
        return np.concatenate([2 * x, square - 1], axis=-1) / (square + 1)

    def draw(self, name: str, domain: str, *shape: int) -> np.ndarray:
        """Draw by the name of the domain."""
        return getattr(self, domain)(name, *shape)


class Symbols(Supply):
    """Free symbols: an equality between them is a proof at these sizes."""

    world = "symbols"

    def real(self, name: str, *shape: int) -> np.ndarray:
        return self._symbols(name, shape, real=True)

    def rate(self, name: str, *shape: int) -> np.ndarray:
        # only that it is positive is used, so that log and exp undo each other
        return self._symbols(name, shape, positive=True)

    def positive(self, name: str, *shape: int) -> np.ndarray:
        return self._symbols(name, shape, positive=True)

    def difference(self, left: np.ndarray, right: np.ndarray) -> Difference:
        return _exact_difference(left, right)

    @staticmethod
    def _symbols(name: str, shape: tuple[int, ...], **assumptions: bool) -> np.ndarray:
        import sympy

        out = np.empty(shape, dtype=object)
        for index in np.ndindex(shape):
            label = "_".join([name, *map(str, index)])
            out[index] = sympy.Symbol(label, **assumptions)
        return out


class Rationals(Supply):
    """Random fractions with small parts: exact, so no tolerance is involved."""

    world = "rationals"

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def real(self, name: str, *shape: int) -> np.ndarray:
        return self._fractions(shape, -9, 10, 1, 6)

    def rate(self, name: str, *shape: int) -> np.ndarray:
        return self._fractions(shape, 1, 7, 7, 11)

    def positive(self, name: str, *shape: int) -> np.ndarray:
        return self._fractions(shape, 1, 10, 1, 6)

    def difference(self, left: np.ndarray, right: np.ndarray) -> Difference:
        return _exact_difference(left, right)

    def _fractions(
        self, shape: tuple[int, ...], low: int, high: int, least: int, most: int
    ) -> np.ndarray:
        import sympy

        out = np.empty(shape, dtype=object)
        tops = np.asarray(self._rng.integers(low, high, size=shape))
        bottoms = np.asarray(self._rng.integers(least, most, size=shape))
        for index in np.ndindex(shape):
            out[index] = sympy.Rational(int(tops[index]), int(bottoms[index]))
        return out


class Floats(Supply):
    """Standard normal floats, rates uniform in (0.05, 0.95)."""

    world = "floats"

    def __init__(self, seed: int, dtype: str = "float64") -> None:
        self._rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)

    def real(self, name: str, *shape: int) -> np.ndarray:
        return np.asarray(self._rng.standard_normal(shape)).astype(self.dtype)

    def rate(self, name: str, *shape: int) -> np.ndarray:
        return np.asarray(self._rng.uniform(0.05, 0.95, shape)).astype(self.dtype)

    def positive(self, name: str, *shape: int) -> np.ndarray:
        return np.asarray(self._rng.exponential(size=shape)).astype(self.dtype)

    def unit(self, name: str, *shape: int) -> np.ndarray:
        x = self.real(name, *shape)
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    def difference(self, left: np.ndarray, right: np.ndarray) -> Difference:
        return float_difference(left, right)


def float_difference(left: np.ndarray, right: np.ndarray) -> Difference:
    """Equal to the tolerance of the coarser dtype, relative to the values' own size."""
    left, right = np.asarray(left), np.asarray(right)
    _same_shape(left, right)
    if left.size == 0:
        return Difference(True, 0.0, "0")
    dtype = min(left.dtype, right.dtype, key=lambda dtype: dtype.itemsize)
    scale = max(1.0, float(np.abs(left).max()), float(np.abs(right).max()))
    gap = float(np.abs(left - right).max()) / scale
    # written so that NaN is a difference
    return Difference(bool(gap <= TOLERANCE[dtype]), gap, f"{gap:.1g}")


def _exact_difference(left: np.ndarray, right: np.ndarray) -> Difference:
    import sympy

    left, right = np.asarray(left, dtype=object), np.asarray(right, dtype=object)
    _same_shape(left, right)
    for a, b in zip(left.flat, right.flat, strict=True):
        gap = sympy.expand(sympy.sympify(a) - sympy.sympify(b))
        if gap != 0:
            # a quotient is zero when its numerator is
            gap = sympy.expand(sympy.fraction(sympy.together(gap))[0])
        if gap != 0:
            return Difference(False, float("inf"), sympy.sstr(gap)[:60])
    return Difference(True, 0.0, "0")


def _same_shape(left: np.ndarray, right: np.ndarray) -> None:
    if left.shape != right.shape:
        raise ValueError(f"the sides differ in shape: {left.shape} and {right.shape}")
