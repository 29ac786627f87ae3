"""Local linear attention: fit a line around the query, answer with its height.

    w_tj = softmax over j <= t of q_t'k_j,   k~ = sum_j w_tj k_j,   v~ = sum_j w_tj v_j
    C = sum_j w_tj (k_j - k~)(k_j - k~)',    B = sum_j w_tj (k_j - k~)(v_j - v~)'
    o_t = v~ + B' (C + lambda I)^{-1} (q_t - k~)

Softmax attention is the best constant for these weights, this the best affine function
with a ridge on its slope: without one, values that are affine in their keys are
answered exactly, wherever the query stands. The ridge must be above 0 until d_k + 1
keys have been seen. [wang2025ttr, on local polynomial regression; the ridge is ours]
"""

from typing import Any

import numpy as np

from ctlearn.features import softmax_feature
from ctlearn.mechanism import Cell, Mechanism, Place, chunk_forms
from ctlearn.mixers.softmax_attention import Cache, extend, initial_cache
from ctlearn.scalars import minus_infinity
from ctlearn.shapes import checked_step
from ctlearn.systems import solve


@checked_step
def step(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, ridge: Any, S: Cache
) -> tuple[np.ndarray, Cache]:
    """Append one pair, fit: t (d_k^2 + d_v) and a solve of size d_k."""
    S = extend(S, k[None], v[None])
    weights = softmax_feature(S.K @ q)
    centre, height = weights @ S.K, weights @ S.V
    weighted = weights[:, None] * (S.K - centre)
    C = weighted.T @ (S.K - centre) + ridge * np.eye(len(k), dtype=k.dtype)
    B = weighted.T @ (S.V - height)
    return height + B.T @ solve(C, q - centre), S


def _chunk(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, ridge: Any, S: Cache
) -> tuple[np.ndarray, Cache]:
    """C fits at once, [C, t, d_k]; the slope meets the query before the values."""
    S = extend(S, k, v)
    seen = np.tri(len(k), len(S.K), len(S.K) - len(k), dtype=bool)
    weights = softmax_feature(np.where(seen, q @ S.K.T, minus_infinity(q)))
    centre = weights @ S.K
    away = S.K - centre[:, None]
    C = (weights[:, :, None] * away).swapaxes(1, 2) @ away
    x = solve(C + ridge * np.eye(k.shape[1], dtype=k.dtype), q - centre)
    # the weighted distances from the centre sum to zero, so v~ drops out of B
    lean = weights * (away @ x[:, :, None])[:, :, 0]
    return (weights + lean) @ S.V, S


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, initial_cache)


MECHANISM = Mechanism(
    module=__name__,
    title="Local linear attention",
    citations=("wang2025ttr",),
    inputs={"q": "real", "k": "real", "v": "real", "ridge": "positive"},
    chapter="11_test_time_regression",
    place=Place(
        cell=Cell("local fit", "local error", "closed form", "whole history", "none"),
        function_class="non-parametric: a local affine fit of what was seen",
        objective="locally weighted squared error, with a ridge on the slope",
        optimiser="closed form",
        schedule="the whole prefix, for every query anew",
        control="none: the cache grows",
        state="T * (d_k + d_v)",
    ),
    exempt=dict.fromkeys(
        ("test_plans_agree_exactly", "test_plans_agree_on_symbols"),
        "a solve in quotients of exponentials takes minutes to expand",
    ),
)
