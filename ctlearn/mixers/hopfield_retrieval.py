"""Modern Hopfield retrieval: let a question settle among the stored keys, then read.

    x <- K_t' softmax(tau K_t x)   J - 1 times, from x = q_t
    o_t = V_t' softmax(tau K_t x)                              K_t, V_t: tokens <= t

Each step lowers the energy x'x / 2 - log(sum_j exp(tau k_j'x)) / tau, or leaves it.
One step is softmax attention at inverse temperature tau. Where keys lie well apart and
tau is large, x settles on the nearest key, after one step but for an exponentially
small rest; where they do not, on a mean of the keys around it. With values equal to
keys it is the retrieval of the source. [ramsauer2021, eqs. 2-3, from memory]
"""

from typing import Any

import numpy as np

from ctlearn.features import softmax_feature
from ctlearn.mechanism import Cell, Limit, Mechanism, Place, chunk_forms
from ctlearn.mixers.softmax_attention import Cache, extend, initial_cache
from ctlearn.scalars import minus_infinity
from ctlearn.shapes import checked_step


@checked_step
def step(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, tau: Any, steps: int, S: Cache
) -> tuple[np.ndarray, Cache]:
    """Store one pair, settle, read: J t (d_k + d_v)."""
    S = extend(S, k[None], v[None])
    for _ in range(steps - 1):
        q = softmax_feature(tau * (S.K @ q)) @ S.K
    return softmax_feature(tau * (S.K @ q)) @ S.V, S


def _chunk(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, tau: Any, steps: int, S: Cache
) -> tuple[np.ndarray, Cache]:
    """C questions settle at once, each among the tokens up to its own."""
    S = extend(S, k, v)
    seen = np.tri(len(k), len(S.K), len(S.K) - len(k), dtype=bool)

    def weights(x: np.ndarray) -> np.ndarray:
        scores = tau * (x @ S.K.T)
        return softmax_feature(np.where(seen, scores, minus_infinity(q)))

    for _ in range(steps - 1):
        q = weights(q) @ S.K
    return weights(q) @ S.V, S


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, initial_cache)


MECHANISM = Mechanism(
    module=__name__,
    title="Modern Hopfield retrieval",
    citations=("ramsauer2021",),
    inputs={"q": "real", "k": "real", "v": "real"},
    constants={"tau": 2, "steps": 2},
    place=Place(
        cell=Cell("local fit", "local error", "several steps", "whole history", "none"),
        function_class="non-parametric: a weighted mean near a fixed point",
        objective="the energy, by the question; squared error, by the answer",
        optimiser="concave-convex descent, J steps",
        schedule="the whole prefix, for every query anew",
        control="none: the cache grows",
        state="T * (d_k + d_v)",
    ),
    limits=(
        Limit(
            target="softmax_attention",
            when="one step is taken",
            setting=r"J = 1, \; q \leftarrow \tau q",
            here=lambda x: x | {"steps": 1},
            there=lambda x: {"q": x["tau"] * x["q"], "k": x["k"], "v": x["v"]},
        ),
    ),
)
