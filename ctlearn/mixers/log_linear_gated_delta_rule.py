"""Log-linear gated delta rule: every level of age forgets and erases for itself.

    F^(l) = alpha_t S_{t-1}^(l)                        once levels have merged
    S_t^(l) = F^(l) - beta_t k_t (k_t' F^(l))   for l >= 1,   S_t^(0) = beta_t k_t v_t'
    o_t = sum_l lambda_t^(l) (S_t^(l))' q_t

The gated delta rule with its state split by the age of what was written, into the
levels of `log_linear_attention`: with all weights 1 the levels add up to its state. So
lambda weighs the entries of P (I + L)^{-1} Diag(beta), what each value contributes to
each output after all later erasing. Weighing P alone, the scores of keys at which the
whole state's errors are written, is another map. alpha, beta as in `gated_delta_rule`.
[guo2025loglinear, from memory; its released code relies on levels that erase alone]
"""

from typing import Any

import numpy as np

from ctlearn.buckets import Buckets, carried, read, start, weighed
from ctlearn.mechanism import Cell, Limit, Mechanism, Place, chunk_forms
from ctlearn.memory import decay_between, pairs, solve_unit_lower
from ctlearn.scalars import exp
from ctlearn.shapes import checked_step


@checked_step(log_decay=("T",))
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: Any,
    beta: Any,
    levels: np.ndarray,
    S: Buckets,
) -> tuple[np.ndarray, Buckets]:
    """Merge, forget, erase, write level 0, read all n levels: 4 n d_k d_v."""
    F = exp(log_decay) * carried(S, levels)
    B = F - beta * k[:, None] * (k @ F)[:, None]
    B[0] = beta * np.outer(k, v)
    return read(q, levels, B, S)


def _chunk(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: np.ndarray,
    beta: np.ndarray,
    levels: np.ndarray,
    S: Buckets,
) -> tuple[np.ndarray, Buckets]:
    """The family's chunk, with the system solved for each write and not for their sum.

    Row t of A z is the error that z leaves at token t; of a state before the chunk,
    row t of `erased` is what token t would take away.
    """
    D = decay_between(log_decay, k)
    e, after, left = beta[:, None] * k, D[1:], D[-1, 1:] * k
    L = np.tril(pairs(e, k, after[:, 1:]), -1)
    A = solve_unit_lower(L, np.eye(len(k), dtype=k.dtype))
    erased = A @ (after[:, 0] * e)
    P = pairs(q, k, after[:, 1:])
    return weighed(
        levels,
        S,
        asked=after[:, 0] * q - P @ erased,
        weights=P @ A,
        kept=D[-1, 0, 0] * np.eye(k.shape[1], dtype=k.dtype) - left.T @ erased,
        written=A.T @ left,
        z=beta[:, None] * v,
    )


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, start)


MECHANISM = Mechanism(
    module=__name__,
    title="Log-linear gated delta rule",
    citations=("guo2025loglinear",),
    inputs={
        **{"q": "real", "k": "unit", "v": "real", "log_decay": "log_decay [T]"},
        **{"beta": "rate", "levels": "positive [T, 9]"},
    },
    place=Place(
        cell=Cell(
            "bank of linear maps",
            "squared error",
            "one step",
            "every token",
            "one rate",
        ),
        function_class="bank of linear maps, one for each level of age",
        objective="half the squared error of their sum, linearised after decay",
        optimiser="stochastic gradient descent, step size beta",
        schedule="every token, one sample, after forgetting",
        control="decay, one rate for the head; old tokens share a map with more others",
        state="(max(T - 1, 0).bit_length() + 1) * d_k * d_v + 1",
    ),
    chapter="15_hybrids",
    symbolic_tokens=3,
    exempt={"test_documents_in_one_row": "levels are counted from the row's start"},
    limits=(
        Limit(
            target="gated_delta_rule",
            when="every level weighs 1",
            setting=r"\lambda_t^{(\ell)} = 1",
            here=lambda x: x | {"levels": x["levels"] ** 0},
            there=lambda x: {n: x[n] for n in ("q", "k", "v", "log_decay", "beta")},
        ),
    ),
)
