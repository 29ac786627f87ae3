"""Momentum delta rule: the error moves a velocity, and the velocity moves the state.

    M_t = mu_t M_{t-1} + eta_t k_t (S_{t-1}' p_t - v_t)'
    S_t = alpha_t S_{t-1} - beta_t M_t,   o_t = S_t' q_t

Heavy-ball descent with forgetting: alpha and mu in [0, 1], eta and beta in (0, 1). The
answer is read at p, before forgetting, so that alpha = mu = 0 alone does not begin a
new document; with p = 0 there too it does. With p = k and beta = 1 it is Titans' memory
with a linear map. What token j wrote reaches the state at i with the weight

    G_ij = eta_j sum_{j<=r<=i} beta_r prod_{j<s<=r} mu_s prod_{r<s<=i} alpha_s

so, as in the one memory, the errors of a chunk solve one triangular system.
[huang2026, as its code in flash-linear-attention has it; the chunk form here is ours]
"""

from typing import Any, NamedTuple

import numpy as np

from ctlearn.mechanism import Cell, Inputs, Limit, Mechanism, Place, chunk_forms
from ctlearn.memory import copied_state, decay_between, initial_state, solve_unit_lower
from ctlearn.scalars import exp, minus_infinity
from ctlearn.shapes import checked_step

Array = np.ndarray


class State(NamedTuple):
    """The memory S and its velocity M, each [d_k, d_v]."""

    S: Array
    M: Array


@checked_step(log_decay=("T",))
def step(  # noqa: PLR0913 - as many gates as the update has
    q: Array,
    k: Array,
    v: Array,
    *,
    log_decay: Any,
    log_mu: Any,
    p: Array,
    eta: Any,
    beta: Any,
    S: State,
) -> tuple[Array, State]:
    """Compare at p, push the velocity, move: 5 d_k d_v multiplications."""
    M = exp(log_mu) * S.M + eta * np.outer(k, S.S.T @ p - v)
    S = State(exp(log_decay) * S.S - beta * M, M)
    return S.S.T @ q, S


def _chunk(  # noqa: PLR0913 - as many gates as the update has
    q: Array,
    k: Array,
    v: Array,
    *,
    log_decay: Array,
    log_mu: Array,
    p: Array,
    eta: Array,
    beta: Array,
    S: State,
) -> tuple[Array, State]:
    """The errors of a chunk at once: one triangular system, then products."""
    kept = decay_between(log_decay, k)[:, :, 0]
    pushed = decay_between(log_mu, k)[:, :, 0]
    # row i, column j: of the velocity at boundary j, what has moved the state by i
    moved = (kept[:, 1:] * beta) @ pushed[1:]
    G = moved[:, 1:] * eta
    start, coasting = kept[:, :1], moved[:, :1]
    known = start[:-1] * (p @ S.S) - coasting[:-1] * (p @ S.M)
    u = solve_unit_lower(np.tril((p @ k.T) * G[:-1], -1), v - known)
    o = start[1:] * (q @ S.S) - coasting[1:] * (q @ S.M) + ((q @ k.T) * G[1:]) @ u
    S_end = start[-1] * S.S - coasting[-1] * S.M + (G[-1][:, None] * k).T @ u
    M = pushed[-1, 0] * S.M - ((pushed[-1, 1:] * eta)[:, None] * k).T @ u
    return o, State(S_end, M)


def _initial_state(k: Array, v: Array, S: State | None) -> State:
    """At rest at zero, or a copy of `S`."""
    if S is None:
        return State(initial_state(k, v), initial_state(k, v))
    return copied_state(S, State, k, v, S=("d_k", "d_v"), M=("d_k", "d_v"))


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, _initial_state)


def _opening(x: Inputs) -> Inputs:
    """Compare the first value with nothing."""
    p = x["p"].copy()
    p[:1] = 0
    return x | {"p": p}


def _comba(x: Inputs) -> Inputs:
    names = ("q", "k", "v", "log_decay", "p")
    return {n: x[n] for n in names} | {"beta": x["eta"] * x["beta"], "correction": 0}


MECHANISM = Mechanism(
    module=__name__,
    title="Momentum delta rule",
    citations=("huang2026",),
    inputs={
        **{"q": "real", "k": "unit", "v": "real", "log_decay": "log_decay [T]"},
        **{"log_mu": "log_decay", "p": "unit", "eta": "rate", "beta": "rate"},
    },
    of_matrix=lambda S: State(S, 0 * S),
    place=Place(
        cell=Cell("linear map", "squared error", "momentum", "every token", "one rate"),
        function_class="linear map",
        objective="half the squared error, the answer read at p",
        optimiser="stochastic gradient descent with momentum",
        schedule="every token, one sample, before forgetting",
        control="decay, one rate for the head, from the data",
        state="2 * d_k * d_v",
    ),
    symbolic_tokens=3,
    opening=_opening,
    limits=(
        Limit(
            target="titans",
            when="p = k and beta = 1, and that one's beta is eta / 2, its memory "
            "linear and its mini-batches of one token",
            setting=r"p_t = k_t, \; \beta_t = 1, \;"
            r" \beta_t^{\text{there}} = \eta_t / 2",
            here=lambda x: x | {"p": x["k"], "beta": x["beta"] ** 0},
            there=lambda x: {
                **{n: x[n] for n in ("q", "k", "v", "log_decay", "log_mu")},
                **{"beta": x["eta"] / 2, "inner_batch": 1},
            },
        ),
        Limit(
            target="comba",
            when="the velocity keeps nothing, and that one corrects nothing",
            setting=r"\mu_t = 0, \; \beta_t^{\text{there}} = \eta_t \beta_t, \;"
            r" \delta = 0",
            here=lambda x: x | {"log_mu": x["log_mu"] + minus_infinity(x["log_mu"])},
            there=_comba,
        ),
    ),
)
