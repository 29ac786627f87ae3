"""Rounding: the delta rule in chunks, with one quantity at a time in half precision.

Tensors come in bfloat16, as layers hand them to kernels; that loss is not counted. The
truth is the float64 recurrence of the same numbers. All sums are float32, and at each
place that is named the float32 number is replaced by the nearest bfloat16:

    solution     X + A X, A = (I + L)^{-1} - I rounded as a factor of the product only
    ones too     (I + A) X with I + A rounded, and so X as a factor, too
    scores       Q K' before it multiplies
    writes       R as a factor of both its products
    state read   S as a factor of Q S and of K S
    state        S itself, as it is carried from chunk to chunk
    system       L, before it is solved

Without erasing, the memory adds beta v at k: linear attention.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from ctlearn.tasks.recall import keys_with_cosine

PLACES = (
    "scores",
    "writes",
    "solution",
    "ones too",
    "state read",
    "state",
    "system",
)
# What the kernels of this package round in half precision.
KERNELS = ("scores", "writes", "solution", "state read")


class Stream(NamedTuple):
    """Tokens of several seeds; q, k [seeds, T, d], v [seeds, T, d], beta [seeds, T]."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    beta: np.ndarray


def half(x: np.ndarray) -> np.ndarray:
    """The nearest bfloat16, ties to even, as float32; x is finite."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + even) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def draw(seeds: Collection[int], T: int, d: int, *, cosine: float) -> Stream:
    """Unit keys with this mean cosine, normal queries and values, rates in (0, 1)."""
    parts = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        k = keys_with_cosine(rng, T, d, cosine)
        q, v = rng.standard_normal((2, T, d))
        parts.append((q / np.sqrt(d), k, v, rng.uniform(0, 1, T)))
    return Stream(*(half(np.array(x)) for x in zip(*parts, strict=True)))


def recurrence(x: Stream, *, erase: bool = True) -> np.ndarray:
    """The truth: outputs in float64, token by token, from an empty state."""
    q, k, v, beta = (a.astype("float64") for a in x)
    S = np.zeros((len(q), q.shape[-1], v.shape[-1]))
    o = np.empty_like(v)
    for t in range(q.shape[1]):
        told = (k[:, t, None] @ S)[:, 0] if erase else 0
        S += k[:, t, :, None] * (beta[:, t, None] * (v[:, t] - told))[:, None]
        o[:, t] = (q[:, t, None] @ S)[:, 0]
    return o


def chunkwise(
    x: Stream, places: Collection[str] = (), *, C: int = 64, erase: bool = True
) -> np.ndarray:
    """Outputs in float32, with some of `PLACES` rounded; T is a multiple of C.

    Raises ValueError for a place of another name.
    """
    if unknown := set(places) - set(PLACES):
        raise ValueError(f"places: expected some of {PLACES}, got {sorted(unknown)}")

    def at(place: str, y: np.ndarray) -> np.ndarray:
        return half(y) if place in places else y

    q, k, v, beta = x
    S = np.zeros((len(q), q.shape[-1], v.shape[-1]), dtype=np.float32)
    o, one = np.empty_like(v), np.eye(C, dtype=np.float32)
    for start in range(0, q.shape[1], C):
        Q, K, V = (y[:, start : start + C] for y in (q, k, v))
        rate = beta[:, start : start + C, None]
        S_read = at("state read", S)
        R = X = rate * (V - K @ S_read if erase else V)
        if erase:
            L = at("system", np.tril(rate * (K @ K.swapaxes(1, 2)), -1))
            inverse = np.linalg.inv(one + L)
            if "ones too" in places:
                R = half(inverse) @ half(X)
            else:
                R = X + at("solution", inverse - one) @ at("solution", X)
        written = at("writes", R)
        scores = at("scores", np.tril(Q @ K.swapaxes(1, 2)))
        o[:, start : start + C] = Q @ S_read + scores @ written
        S = at("state", S + K.swapaxes(1, 2) @ written)
    return o


def errors(
    x: Stream,
    places: Collection[str] = (),
    *,
    C: int = 64,
    erase: bool = True,
    blocks: int = 1,
) -> np.ndarray:
    """Relative errors of the outputs [seeds, blocks], in root mean square.

    The tokens are parted into `blocks` of one length, in order.
    """
    truth = recurrence(x, erase=erase)
    off = chunkwise(x, places, C=C, erase=erase) - truth
    seeds, T, d = off.shape
    squares = (
        (y.reshape(seeds, blocks, T // blocks * d) ** 2).mean(axis=2)
        for y in (off, truth)
    )
    return np.sqrt(np.divide(*squares))
