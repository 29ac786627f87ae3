"""Floats, rationals, symbols: the few functions that must know the difference.

Arrays of floats compute. Object arrays of SymPy rationals compute exactly, and object
arrays of SymPy symbols are derivations. The references run on all three unchanged;
what NumPy cannot do on objects goes through here. SymPy is imported only when an
object array is met, so that floats need NumPy alone.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

# Largest difference, relative to the larger of 1 and the values themselves, that two
# orders of summation may show. Measured worst cases are a hundredth of these.
TOLERANCE = {np.dtype("float64"): 1e-12, np.dtype("float32"): 1e-5}


def is_exact(x: Any) -> bool:
    """True for arrays of SymPy objects, which neither round nor overflow."""
    return np.asarray(x).dtype.kind == "O"


def exp(x: Any) -> Any:
    """Exponentiate each entry; minus infinity gives an exact zero in every world."""
    if not is_exact(x):
        return np.exp(x)
    import sympy

    return _each(sympy.exp, x)


def expm1(x: Any) -> Any:
    """exp(x) - 1 of each entry, with all its digits where x is near 0."""
    return exp(x) - 1 if is_exact(x) else np.expm1(x)


def cos(x: Any) -> Any:
    """Cosine of each entry; of exact numbers as exponentials, whose products expand."""
    if not is_exact(x):
        return np.cos(x)
    import sympy

    return _each(lambda a: (sympy.exp(sympy.I * a) + sympy.exp(-sympy.I * a)) / 2, x)


def sin(x: Any) -> Any:
    """Sine of each entry; of exact numbers as exponentials, whose products expand."""
    if not is_exact(x):
        return np.sin(x)
    import sympy

    def half(a: Any) -> Any:
        return (sympy.exp(sympy.I * a) - sympy.exp(-sympy.I * a)) / (2 * sympy.I)

    return _each(half, x)


def log(x: Any) -> Any:
    """Take the log of each entry; 0 gives minus infinity in every world."""
    if not is_exact(x):
        with np.errstate(divide="ignore"):
            return np.log(x)
    import sympy

    return _each(lambda a: -sympy.oo if a == 0 else sympy.log(a), x)


def sqrt(x: Any) -> Any:
    """Square root of each non-negative entry."""
    if not is_exact(x):
        return np.sqrt(x)
    import sympy

    return _each(sympy.sqrt, x)


def sign(x: Any) -> Any:
    """-1, 0 or 1 for each entry, as it is below, at or above 0."""
    if not is_exact(x):
        return np.sign(x)
    import sympy

    return _each(sympy.sign, x)


def signed_power(x: Any, n: Any) -> Any:
    """sign(x) |x|^n of each entry, for n >= 0; 0 stays 0 even for n = 0."""
    if not is_exact(x):
        return np.sign(x) * np.abs(x) ** n
    # x itself for n = 1, which SymPy does not make of sign(x) |x|
    return _each(lambda a: abs(a) ** (n - 1) * a if a != 0 else a, x)


def minus_infinity(like: np.ndarray) -> Any:
    """Minus infinity among the numbers of `like`."""
    if not is_exact(like):
        return -np.inf
    import sympy

    return -sympy.oo


def shift(scores: np.ndarray) -> np.ndarray:
    """A number for each row to subtract before exp: its largest entry, 0 if exact.

    A softmax is the same for every shift (the ledger proves it); floats need the
    largest entry to stay in range, exact numbers need none. A row without a finite
    entry gets 0.
    """
    if is_exact(scores):
        return np.zeros(scores.shape[:-1], dtype=object)
    largest = np.max(scores, axis=-1, initial=-np.inf)
    return np.where(np.isfinite(largest), largest, 0).astype(scores.dtype)


def _each(function: Callable, x: Any) -> Any:
    x = np.asarray(x)
    out = np.empty(x.shape, dtype=object)
    for index in np.ndindex(x.shape):
        out[index] = function(x[index])
    return out if x.ndim else out[()]
