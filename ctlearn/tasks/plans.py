"""Execution plans side by side: how long, how much memory, how far apart.

What the clock says depends on the machine and on what else runs on it, so times are the
least of several and only large factors mean anything. Bytes and rounding errors repeat.
"""

import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ctlearn.mixers.softmax_attention import Cache


def tokens(T: int, d: int, *, seed: int = 0, dtype: str = "float64") -> np.ndarray:
    """Random q, k and v, stacked [3, T, d]; keys and queries of length about one."""
    qkv = np.random.default_rng(seed).standard_normal((3, T, d))
    qkv[:2] /= np.sqrt(d)
    return qkv.astype(dtype)


def seconds(call: Callable[..., object], *inputs: Any, **options: Any) -> float:
    """The least time of several calls: three at least, and 50 ms of them.

    Other processes can only add time, so the least is the one to compare.
    """
    call(*inputs, **options)
    least, spent, tries = np.inf, 0.0, 0
    while tries < 3 or spent < 0.05:
        start = time.perf_counter()
        call(*inputs, **options)
        took = time.perf_counter() - start
        least, spent, tries = min(least, took), spent + took, tries + 1
    return least


def peak_bytes(call: Callable[..., object], *inputs: Any, **options: Any) -> int:
    """The most bytes of new arrays that a call held at once, its result included."""
    tracemalloc.start()
    try:
        call(*inputs, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def relative_error(o: np.ndarray, exact: np.ndarray) -> float:
    """Root mean squared error of o, relative to the root mean square of `exact`."""
    return float(np.sqrt(((o - exact) ** 2).mean() / (exact**2).mean()))


def fit_two_terms(
    first: Sequence[float], second: Sequence[float], measured: Sequence[float]
) -> tuple[float, float]:
    """A and b that bring a * first + b * second closest to `measured`, relatively.

    Relative, so that a short time counts as much as a long one.
    """
    terms = np.stack([first, second], axis=1) / np.asarray(measured)[:, None]
    a, b = np.linalg.lstsq(terms, np.ones(len(terms)), rcond=None)[0]
    return float(a), float(b)


def prefix_sums(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Causal linear attention, with a state for every token in memory.

    Right, and how it is often written first; kept to show what it costs.
    """
    states = np.cumsum(k[:, :, None] * v[:, None, :], axis=0)
    return np.einsum("tk,tkv->tv", q, states)


def read_cache(q: np.ndarray, S: Cache) -> np.ndarray:
    """One query's linear attention from a cache of t pairs: t (d_k + d_v) products."""
    return (S.K @ q) @ S.V


def crossing(x: np.ndarray, above: np.ndarray, below: np.ndarray) -> float:
    """The first x from which `above` stays above `below`; infinity if there is none."""
    ahead = np.asarray(above) > np.asarray(below)
    stays = np.flip(np.logical_and.accumulate(np.flip(ahead)))
    return float(x[np.argmax(stays)]) if stays.any() else np.inf
