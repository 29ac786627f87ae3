"""Softmax attention: keep every pair, and answer with a weighted mean of the values.

    o_t = sum_{j<=t} exp(q_t'k_j) v_j / sum_{j<=t} exp(q_t'k_j)

The state is the key-value cache: all keys and values so far. A layer divides q by
sqrt(d_k); nothing is scaled here. [vaswani2017, eq. 1; the streaming form is
milakov2018's, over blocks as in dao2022]
"""

from typing import Any, NamedTuple

import numpy as np

from ctlearn.mechanism import Cell, Mechanism, Place
from ctlearn.memory import copied_state, scan
from ctlearn.scalars import exp, minus_infinity, shift
from ctlearn.shapes import checked, checked_step


class Cache(NamedTuple):
    """The key-value cache: K [t, d_k] and V [t, d_v], one row for each token read."""

    K: np.ndarray
    V: np.ndarray


@checked_step
def step(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, S: Cache
) -> tuple[np.ndarray, Cache]:
    """Append one pair, compare the query with all t of them: t (d_k + d_v)."""
    S = extend(S, k[None], v[None])
    scores = S.K @ q
    weights = exp(scores - shift(scores))
    return weights @ S.V / weights.sum(), S


@checked
def recurrent(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, S: Cache | None = None
) -> tuple[np.ndarray, Cache]:
    """One token after another with a growing cache, O(T^2 (d_k + d_v))."""
    return scan(step, q, k, v, S=initial_cache(k, v, S))


@checked
def parallel(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, S: Cache | None = None
) -> tuple[np.ndarray, Cache]:
    """All scores in one masked matrix, O(T^2 (d_k + d_v))."""
    S = extend(initial_cache(k, v, S), k, v)
    scores = _causal(q @ S.K.T, first_query=len(S.K) - len(k), first_key=0)
    weights = exp(scores - shift(scores)[:, None])
    return weights @ S.V / weights.sum(axis=1, keepdims=True), S


@checked
def chunkwise(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    S: Cache | None = None,
    chunk_size: int = 64,
) -> tuple[np.ndarray, Cache]:
    """A chunk of queries reads the cache block by block: no T x T array is formed."""
    S = extend(initial_cache(k, v, S), k, v)
    o = np.empty_like(v)
    cached = len(S.K) - len(k)
    for start in range(0, len(k), chunk_size):
        queries = q[start : start + chunk_size]
        mean = RunningMean(minus_infinity(q), 0, 0)
        for first in range(0, cached + start + len(queries), chunk_size):
            block = slice(first, first + chunk_size)
            scores = _causal(queries @ S.K[block].T, cached + start, first)
            mean = mean.absorb(scores, S.V[block])
        o[start : start + chunk_size] = mean.read()
    return o, S


class RunningMean(NamedTuple):
    """A softmax-weighted mean that sees its scores block by block.

    For each of C queries: the largest score so far, the sum of the weights relative to
    it, and the weighted sum of the values [C, d_v]; scalars before the first block.
    When a larger score arrives, what was summed before is rescaled to it.
    [milakov2018, algorithm 3]
    """

    largest: Any
    weight: Any
    total: Any

    def absorb(self, scores: np.ndarray, V: np.ndarray) -> "RunningMean":
        """Take in one block of scores [C, n] and values [n, d_v]."""
        largest = np.maximum(self.largest, shift(scores))
        rescale = exp(self.largest - largest)
        weights = exp(scores - largest[:, None])
        return RunningMean(
            largest,
            rescale * self.weight + weights.sum(axis=1),
            rescale[:, None] * self.total + weights @ V,
        )

    def read(self) -> np.ndarray:
        """The mean [C, d_v] of what was absorbed."""
        return self.total / self.weight[:, None]


def _causal(scores: np.ndarray, first_query: int, first_key: int) -> np.ndarray:
    """Minus infinity wherever a key comes after its query."""
    query = first_query + np.arange(scores.shape[0])
    key = first_key + np.arange(scores.shape[1])
    return np.where(key <= query[:, None], scores, minus_infinity(scores))


def initial_cache(k: np.ndarray, v: np.ndarray, S: Cache | None) -> Cache:
    """An empty cache, or a copy of `S`."""
    if S is None:
        return Cache(k[:0].copy(), v[:0].copy())
    return copied_state(S, Cache, k, v, K=("t", "d_k"), V=("t", "d_v"))


def extend(S: Cache, k: np.ndarray, v: np.ndarray) -> Cache:
    """The cache with pairs k [C, d_k], v [C, d_v] behind those it holds."""
    return Cache(np.concatenate([S.K, k]), np.concatenate([S.V, v]))


MECHANISM = Mechanism(
    module=__name__,
    title="Softmax attention",
    citations=("vaswani2017", "milakov2018", "dao2022"),
    chapter="01_two_ways_to_remember",
    inputs={"q": "real", "k": "real", "v": "real"},
    place=Place(
        cell=Cell("local fit", "local error", "closed form", "whole history", "none"),
        function_class="non-parametric: a weighted mean of what was seen",
        objective="locally weighted squared error",
        optimiser="closed form",
        schedule="the whole prefix, for every query anew",
        control="none: the cache grows",
        state="T * (d_k + d_v)",
    ),
)
