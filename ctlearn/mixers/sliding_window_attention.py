"""Sliding-window attention (SWA): a softmax over the last w tokens, all else gone.

    o_t = sum_{t-w<j<=t} exp(q_t'k_j) v_j / sum_{t-w<j<=t} exp(q_t'k_j)

The window counts the token itself: with w = 1 the output is the token's own value.
Other code counts the tokens before it (FlashAttention's window (w-1, 0)), or means w
of those by a window of w. The state is a ring buffer of w pairs. What one layer cannot
see, L layers reach: L (w-1) + 1 tokens. [beltagy2020, section 3.1, from memory]

Persistent tokens, whose keys K_p and values V_p are given and never leave, are seen by
every query beside its window: what a task needs, or a place for a query to rest on that
finds nothing. [behrouz2025titans, eqs. 26 and 27]
"""

from typing import Any

import numpy as np

from ctlearn.features import softmax_feature
from ctlearn.mechanism import Cell, Limit, Mechanism, Place, chunk_forms
from ctlearn.mixers.softmax_attention import Cache, extend, initial_cache
from ctlearn.scalars import minus_infinity
from ctlearn.shapes import checked_step
from ctlearn.windows import in_window


@checked_step
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    K_p: np.ndarray | None = None,
    V_p: np.ndarray | None = None,
    window: int,
    S: Cache,
) -> tuple[np.ndarray, Cache]:
    """Append one pair, drop the oldest, compare with what is left: w (d_k + d_v)."""
    S = _last(window, extend(S, k[None], v[None]))
    seen = extend(persistent(K_p, V_p, S), *S)
    return softmax_feature(seen.K @ q) @ seen.V, S


def chunk(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    K_p: np.ndarray | None = None,
    V_p: np.ndarray | None = None,
    window: int,
    S: Cache,
) -> tuple[np.ndarray, Cache]:
    """C tokens and the buffer before them in one banded matrix, C + w wide."""
    S = extend(S, k, v)
    always = persistent(K_p, V_p, S)
    scores = np.where(in_window(len(k), len(S.K), window), q @ S.K.T, minus_infinity(q))
    scores = np.concatenate([q @ always.K.T, scores], axis=1)
    return softmax_feature(scores) @ extend(always, *S).V, _last(window, S)


def persistent(K_p: Any, V_p: Any, S: Cache) -> Cache:
    """What every query sees; nothing, for a cache like S, if neither is given."""
    if (K_p is None) != (V_p is None):
        raise ValueError("K_p and V_p: expected both or neither, got one")
    return Cache(S.K[:0], S.V[:0]) if K_p is None else Cache(K_p, V_p)


def _last(window: int, S: Cache) -> Cache:
    return Cache(S.K[-window:], S.V[-window:])


recurrent, parallel, chunkwise = chunk_forms(step, chunk, initial_cache)


MECHANISM = Mechanism(
    module=__name__,
    title="Sliding-window attention (SWA)",
    citations=("beltagy2020", "behrouz2025titans"),
    inputs={"q": "real", "k": "real", "v": "real"},
    constants={"window": 3},
    place=Place(
        cell=Cell("local fit", "local error", "closed form", "window", "eviction"),
        function_class="non-parametric: a weighted mean of what is in the window",
        objective="locally weighted squared error",
        optimiser="closed form",
        schedule="the last w tokens, for every query anew",
        control="eviction: what leaves the window is gone",
        state="min(T, window) * (d_k + d_v)",
    ),
    chapter="15_hybrids",
    limits=(
        Limit(
            target="softmax_attention",
            when="the window is no shorter than the sequence",
            setting=r"w \ge T",
            here=lambda x: x | {"window": len(x["q"])},
            there=lambda x: {name: x[name] for name in ("q", "k", "v")},
        ),
    ),
    variants={
        "with persistent tokens": {
            "inputs": dict.fromkeys(("q", "k", "v"), "real")
            | {"K_p": "real [2, d_k]", "V_p": "real [2, d_v]"},
        },
    },
)
