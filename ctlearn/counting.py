"""Count the multiplications that a form does, from the very code that runs.

Arrays of a kind of their own go through the form and keep a tally of what NumPy is
asked to multiply. Two things are counted apart:

products   matrix and outer products, one multiplication for each term of each sum
scalings   products entry by entry, with masks and decays of ones too

Each goes with at most one addition. Sums, divisions, roots and exponentials are not
counted, nor what is done to single numbers or between arrays that no input is in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Tally:
    """How many multiplications were done so far."""

    products: int = 0
    scalings: int = 0


def count(form: Callable, *arguments: Any, **named: Any) -> Tally:
    """Run a form on arrays, or tuples of arrays, and count what it multiplies."""
    tally = Tally()
    given = {name: _watched(x, tally) for name, x in named.items()}
    form(*(_watched(x, tally) for x in arguments), **given)
    return tally


class _Counted(np.ndarray):
    """An array whose products are tallied; what is made of it is one, too."""

    tally: Any = None

    def __array_finalize__(self, parent: Any) -> None:
        self.tally = getattr(parent, "tally", None)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> Any:
        result = getattr(ufunc, method)(*_plain(inputs), **_plain(options))
        if ufunc is np.matmul:
            self.tally.products += np.size(result) * np.shape(inputs[0])[-1]
        elif ufunc is np.multiply and method == "outer":
            self.tally.products += np.size(result)
        elif ufunc in (np.multiply, np.square, np.power) and method == "__call__":
            self.tally.scalings += np.size(result)
        return _watched(result, self.tally)

    def __array_function__(
        self, function: Callable, types: Any, arguments: Any, options: Any
    ) -> Any:
        result = function(*_plain(arguments), **_plain(options))
        if function is np.outer:
            self.tally.products += result.size
        return _watched(result, self.tally)


def _watched(x: Any, tally: Tally) -> Any:
    """Arrays as counted ones, inside tuples too; anything else as it is."""
    if isinstance(x, tuple):
        parts = [_watched(part, tally) for part in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    if not isinstance(x, np.ndarray):
        return x
    counted = x.view(_Counted)
    counted.tally = tally
    return counted


def _plain(x: Any) -> Any:
    """The same with plain arrays, so that NumPy does not come back here."""
    if isinstance(x, _Counted):
        return x.view(np.ndarray)
    if isinstance(x, dict):
        return {name: _plain(part) for name, part in x.items()}
    if isinstance(x, list | tuple) and not hasattr(x, "_fields"):
        return type(x)(_plain(part) for part in x)
    return x
