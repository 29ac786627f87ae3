"""Sliding-window attention (SWA): a softmax over the last w tokens, all else gone.

    o_t = sum_{t-w<j<=t} exp(q_t'k_j) v_j / sum_{t-w<j<=t} exp(q_t'k_j)

The window counts the token itself: with w = 1 the output is the token's own value.
Other code counts the tokens before it (FlashAttention's window (w-1, 0)), or means w
of those by a window of w. The state is a ring buffer of w pairs. What one layer cannot
see, L layers reach: L (w-1) + 1 tokens. [beltagy2020, section 3.1, from memory]
"""

import numpy as np

from ctlearn.features import softmax_feature
from ctlearn.mechanism import Limit, Mechanism, Place, chunk_forms
from ctlearn.mixers.softmax_attention import Cache, extend, initial_cache
from ctlearn.scalars import minus_infinity
from ctlearn.shapes import checked_step
from ctlearn.windows import in_window


@checked_step
def step(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, window: int, S: Cache
) -> tuple[np.ndarray, Cache]:
    """Append one pair, drop the oldest, compare with what is left: w (d_k + d_v)."""
    S = _last(window, extend(S, k[None], v[None]))
    return softmax_feature(S.K @ q) @ S.V, S


def _chunk(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, window: int, S: Cache
) -> tuple[np.ndarray, Cache]:
    """C tokens and the buffer before them in one banded matrix, C + w wide."""
    S = extend(S, k, v)
    seen = in_window(len(k), len(S.K), window)
    scores = np.where(seen, q @ S.K.T, minus_infinity(q))
    return softmax_feature(scores) @ S.V, _last(window, S)


def _last(window: int, S: Cache) -> Cache:
    return Cache(S.K[-window:], S.V[-window:])


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, initial_cache)


MECHANISM = Mechanism(
    module=__name__,
    title="Sliding-window attention (SWA)",
    citations=("beltagy2020",),
    inputs={"q": "real", "k": "real", "v": "real"},
    constants={"window": 3},
    place=Place(
        function_class="non-parametric: a weighted mean of what is in the window",
        objective="locally weighted squared error",
        optimiser="closed form",
        schedule="the last w tokens, for every query anew",
        control="eviction: what leaves the window is gone",
        state="min(T, window) * (d_k + d_v)",
    ),
    limits=(
        Limit(
            target="softmax_attention",
            when="the window is no shorter than the sequence",
            setting=r"w \ge T",
            here=lambda x: x | {"window": len(x["q"])},
            there=lambda x: {name: x[name] for name in ("q", "k", "v")},
        ),
    ),
)
