"""Random numbers that Python and the browser draw alike.

A draw is a function of its place: seed, stream and position are mixed to a 32-bit word
by integer arithmetic that both languages do exactly, and two words make one normal
number. So the first pairs stay what they are when a pair is added, and a setting in an
address gives everybody the same picture. `common.js` holds the twin. For pictures, not
for statistics.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

# Multiples of these fill the unit interval evenly, one after another: they are one over
# the golden ratio, and one over the real root of g^3 = g + 1.
GOLDEN, PLASTIC = 0.6180339887, 0.7548776662

_WORD = np.uint64(0xFFFFFFFF)
_STEP = np.uint64(0x9E3779B9)  # 2^32 divided by the golden ratio
_FIRST = np.uint64(0x85EBCA6B)
_SECOND = np.uint64(0xC2B2AE35)


def _mix(word: Any, place: Any) -> Any:
    """Advance a word by a place and scramble it (MurmurHash3's finaliser)."""
    # 64 bits hold the product of two 32-bit words
    word = (word + _STEP * (place + np.uint64(1) & _WORD)) & _WORD
    word = (word ^ word >> np.uint64(16)) * _FIRST & _WORD
    word = (word ^ word >> np.uint64(13)) * _SECOND & _WORD
    return word ^ word >> np.uint64(16)


def uniform(seed: int, stream: int, i: Any, j: Any) -> np.ndarray:
    """Numbers in (0, 1) at positions i, j (whole numbers, broadcast together)."""
    word = np.zeros(1, dtype=np.uint64)
    for place in (seed, stream, i, j):
        word = _mix(word, np.asarray(place, dtype=np.uint64))
    return (word.astype(float) + 0.5) / 2**32


def spread(n: int, step: float, most: float, given: Sequence[float]) -> np.ndarray:
    """Numbers [n] in hundredths from -most to most, the first of them as `given`.

    Their places rise by `step`, round and round, so that a number more leaves the
    others where they are.
    """
    numbers = np.round(most * (2 * ((0.5 + step * np.arange(1, n + 1)) % 1) - 1), 2)
    numbers[: len(given)] = given[:n]
    return numbers


def directions(
    seed: int, own: int, shared: int, rows: int, columns: int, similarity: float
) -> np.ndarray:
    """Vectors [rows, columns] of length one, from streams `own` and `shared`.

    At similarity 0 they point anywhere, and at 1 in the one direction that all share.
    """
    x, towards = normal(seed, own, rows, columns), normal(seed, shared, 1, columns)
    return unit(np.sqrt(similarity) * unit(towards) + np.sqrt(1 - similarity) * unit(x))


def at_one_cosine(n: int, cosine: float) -> np.ndarray:
    """Vectors [n, n + 1] of length one, any two of them at this cosine.

    Each is made of a direction of its own, and of the last, which all share.
    """
    own = np.sqrt(1 - cosine) * np.eye(n)
    return np.column_stack([own, np.full(n, np.sqrt(cosine))])


def unit(x: np.ndarray) -> np.ndarray:
    """Rows of x brought to length one."""
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def normal(seed: int, stream: int, rows: int, columns: int) -> np.ndarray:
    """Standard normal numbers [rows, columns], by Box and Muller."""
    i, j = np.ogrid[:rows, :columns]
    radius = np.sqrt(-2 * np.log(uniform(seed, stream, i, 2 * j)))
    return radius * np.cos(2 * np.pi * uniform(seed, stream, i, 2 * j + 1))
