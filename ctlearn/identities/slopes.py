"""Losses that are at most quadratic, and their slopes, exact in every world."""

from collections.abc import Callable
from typing import Any

import numpy as np

Loss = Callable[[np.ndarray, np.ndarray, np.ndarray], Any]


def slope(loss: Callable[[np.ndarray], Any], at: np.ndarray) -> np.ndarray:
    """The slope of a loss at an array, entry by entry.

    The loss is quadratic, so half the difference between one step forward and one back
    is its slope exactly.
    """
    found = np.empty_like(at)
    for entry in np.ndindex(at.shape):
        away = np.zeros_like(at)
        away[entry] = at[entry] ** 0
        found[entry] = (loss(at + away) - loss(at - away)) / 2
    return found


def squared(W: np.ndarray, k: np.ndarray, v: np.ndarray) -> Any:
    """The squared error of W at a pair: ||W'k - v||^2."""
    return ((k @ W - v) ** 2).sum()


def dot(W: np.ndarray, k: np.ndarray, v: np.ndarray) -> Any:
    """Minus the dot product of W's answer at a pair with the value."""
    return -((k @ W) * v).sum()


def slopes(loss: Loss, W: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The slope at W of the loss of each of T pairs: [T, d_k, d_v]."""

    def of_pair(k: np.ndarray, v: np.ndarray) -> np.ndarray:
        return slope(lambda W: loss(W, k, v), W)

    each = [of_pair(*pair) for pair in zip(k, v, strict=True)]
    return np.array(each).reshape(len(k), *W.shape)
