"""Preconditioned gated delta rule: write further where few keys have been.

    A_t = alpha'_t A_{t-1} + beta'_t k_t * k_t                      [d_k]
    r_t = log(A_t + 1e-6) - c,   P_t = x^{-r_t / (1 + |r_t|)}   in (1 / x, x)
    F_t = alpha_t S_{t-1},   S_t = F_t + beta_t (P_t * k_t) (v_t - F_t' k_t)'
    o_t = S_t' q_t

A is the diagonal of the keys' decayed second moment, so P stands between the delta rule
(P = 1) and the full inverse of least squares. The token's own key is in A before P is
taken. The spread x > 1 bounds P, 1.5 in the released code; c centres it, -0.2 there.
alpha and alpha' are in [0, 1], beta and beta' in (0, 1).
[tumma2026, as its code in flash-linear-attention has it]
"""

from typing import Any, NamedTuple

import numpy as np

from ctlearn import memory
from ctlearn.mechanism import Cell, Limit, Mechanism, Place, chunk_forms
from ctlearn.scalars import exp, log
from ctlearn.shapes import checked_step

Array = np.ndarray


class State(NamedTuple):
    """What is kept: S [d_k, d_v], and A [d_k], the sum of squared keys."""

    S: Array
    A: Array


@checked_step(log_decay=("T",))
def step(  # noqa: PLR0913 - as many gates as the update has
    q: Array,
    k: Array,
    v: Array,
    *,
    log_decay: Any,
    gram_log_decay: Any,
    gram_beta: Any,
    beta: Any,
    spread: Any,
    centre: Any,
    S: State,
) -> tuple[Array, State]:
    """Count the key, forget, compare, write at the scaled key: 4 d_k d_v."""
    A = exp(gram_log_decay) * S.A + gram_beta * k * k
    # one rate here, or one for each key channel where this step is run with more
    F = np.reshape(exp(log_decay), (-1, 1)) * S.S
    P = preconditioner(A, spread, centre)
    S = State(F + beta * np.outer(P * k, v - F.T @ k), A)
    return S.S.T @ q, S


def chunk(  # noqa: PLR0913 - as many gates as the update has
    q: Array,
    k: Array,
    v: Array,
    *,
    log_decay: Array,
    gram_log_decay: Array,
    gram_beta: Array,
    beta: Array,
    spread: Any,
    centre: Any,
    S: State,
) -> tuple[Array, State]:
    """Every P first, O(C d_k), since A asks for no answers; then the one memory."""
    P, A = np.empty_like(k), S.A
    for t in range(len(k)):
        A = exp(gram_log_decay[t]) * A + gram_beta[t] * k[t] * k[t]
        P[t] = preconditioner(A, spread, centre)
    z, e = beta[:, None] * v, beta[:, None] * k
    o, S_end = memory.parallel(q, P * k, z, e=e, log_decay=log_decay, S=S.S)
    return o, State(S_end, A)


def preconditioner(A: Array, spread: Any, centre: Any) -> Array:
    """P, by which each key channel is written less the more of it A holds."""
    r = log((10**6 * A + 1) / 10**6) - centre
    return exp(-log(spread) * r / (1 + abs(r)))


def initial_state(k: Array, v: Array, S: State | None) -> State:
    """Zeros, or a copy of `S`."""
    if S is None:
        return State(memory.initial_state(k, v), np.zeros(k.shape[1], dtype=k.dtype))
    return memory.copied_state(S, State, k, v, S=("d_k", "d_v"), A=("d_k",))


recurrent, parallel, chunkwise = chunk_forms(step, chunk, initial_state)


MECHANISM = Mechanism(
    module=__name__,
    title="Preconditioned gated delta rule",
    citations=("tumma2026",),
    inputs={
        **{"q": "real", "k": "unit", "v": "real", "log_decay": "log_decay [T]"},
        **{"gram_log_decay": "log_decay", "gram_beta": "rate", "beta": "rate"},
        **{"spread": "positive", "centre": "real"},
    },
    of_matrix=lambda S: State(S, 0 * S[:, 0]),
    place=Place(
        cell=Cell(
            "linear map",
            "squared error",
            "preconditioned step",
            "every token",
            "one rate",
        ),
        function_class="linear map",
        objective="half the squared error, linearised at the decayed state",
        optimiser="gradient descent, step size beta, with a diagonal preconditioner",
        schedule="every token, one sample, after forgetting",
        control="decay, one rate for the head, from the data",
        state="d_k * d_v + d_k",
    ),
    symbolic_tokens=2,
    limits=(
        Limit(
            target="gated_delta_rule",
            when="the spread is 1",
            setting=r"P_t = 1",
            here=lambda x: x | {"spread": x["spread"] ** 0},
            there=lambda x: {n: x[n] for n in ("q", "k", "v", "log_decay", "beta")},
        ),
    ),
)
