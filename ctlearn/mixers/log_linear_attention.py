"""Log-linear attention: the older tokens are, the more of them share a state.

    S_t^(l) = sum_{s: level(t, s) = l} alpha_{s+1} ... alpha_t k_s v_s'
    o_t = sum_l lambda_t^(l) (S_t^(l))' q_t,   alpha_t in [0, 1], lambda_t^(l) > 0

level(t, s), for tokens counted from 0, is the number of binary digits of t XOR s
(`ctlearn.buckets`): level 0 is the token itself, level l >= 1 is empty or 2^(l-1)
tokens, and a query weighs each level as it likes. T tokens need log2(T) + 1 levels,
rounded up. The source builds on Mamba-2, whose write is Delta_t v_t, and its layer
makes lambda_t^(l) a softplus. [guo2025loglinear, as released code counts the levels]
"""

from typing import Any

import numpy as np

from ctlearn.buckets import Buckets, carried, read, start, weighed
from ctlearn.mechanism import Cell, Limit, Mechanism, Place, chunk_forms
from ctlearn.memory import decay_between
from ctlearn.scalars import exp
from ctlearn.shapes import checked_step


@checked_step(log_decay=("T",))
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: Any,
    levels: np.ndarray,
    S: Buckets,
) -> tuple[np.ndarray, Buckets]:
    """Merge, forget, write level 0, read all n levels: 3 n d_k d_v multiplications."""
    B = exp(log_decay) * carried(S, levels)
    B[0] = np.outer(k, v)
    return read(q, levels, B, S)


def _chunk(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: np.ndarray,
    levels: np.ndarray,
    S: Buckets,
) -> tuple[np.ndarray, Buckets]:
    """C tokens as one product under two masks, and the levels before them."""
    D = decay_between(log_decay, k)
    return weighed(
        levels,
        S,
        asked=D[1:, 0] * q,
        weights=(q @ k.T) * D[1:, 1:, 0],
        kept=D[-1, 0, 0],
        written=D[-1, 1:] * k,
        z=v,
    )


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, start)


MECHANISM = Mechanism(
    module=__name__,
    title="Log-linear attention",
    citations=("guo2025loglinear",),
    inputs={
        **{"q": "real", "k": "real", "v": "real"},
        **{"log_decay": "log_decay [T]", "levels": "positive [T, 9]"},
    },
    place=Place(
        cell=Cell(
            "bank of linear maps", "dot product", "one step", "every token", "one rate"
        ),
        function_class="bank of linear maps, one for each level of age",
        objective="dot product",
        optimiser="gradient descent, step size 1",
        schedule="every token",
        control="decay, one rate for the head; old tokens share a map with more others",
        state="(max(T - 1, 0).bit_length() + 1) * d_k * d_v + 1",
    ),
    chapter="15_hybrids",
    exempt={"test_documents_in_one_row": "levels are counted from the row's start"},
    limits=(
        Limit(
            target="gated_linear_attention",
            when="every level weighs 1",
            setting=r"\lambda_t^{(\ell)} = 1",
            here=lambda x: x | {"levels": x["levels"] ** 0},
            there=lambda x: {n: x[n] for n in ("q", "k", "v", "log_decay")},
        ),
    ),
)
