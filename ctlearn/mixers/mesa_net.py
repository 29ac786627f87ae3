"""MesaNet: at every token, the answer of the best linear map for the past.

    H_t = gamma_t H_{t-1} + beta_t k_t k_t',   S_t = gamma_t S_{t-1} + beta_t k_t v_t'
    o_t = S_t' (H_t + Diag(Lambda))^{-1} q_t

That is W'q_t for the W which minimises the beta-weighted, decayed sum of
||W'k_i - v_i||^2 plus a ridge Lambda that does not decay: recursive least squares with
forgetting lets the ridge fade, and is another mechanism unless gamma = 1. gamma is
passed as its log; beta in (0, 1) and Lambda > 0. The inverse is solved for exactly, or
by conjugate gradients from zero, of which d_k steps suffice. No hidden scale on q.
[vonoswald2025mesanet, as its authors' code in flash-linear-attention has it; that code
adds 1e-5 to the gradients' denominators, which costs it digits, and decodes from
q / (diag H + Lambda) where it trains from zero, so that few steps give two answers]
"""

from typing import Any, NamedTuple

import numpy as np

from ctlearn import memory
from ctlearn.mechanism import Cell, Mechanism, Place, chunk_forms
from ctlearn.scalars import exp
from ctlearn.shapes import checked_step
from ctlearn.systems import conjugate_gradients, solve


class State(NamedTuple):
    """The two sums: S [d_k, d_v] of keys with values, H [d_k, d_k] of keys."""

    S: np.ndarray
    H: np.ndarray


@checked_step(log_decay=("T",))
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: Any,
    beta: Any,
    ridges: np.ndarray,
    steps: int | None = None,
    S: State,
) -> tuple[np.ndarray, State]:
    """Update both sums, solve for the query; `steps` of None solves exactly."""
    kept = exp(log_decay)
    H = kept * S.H + beta * np.outer(k, k)
    S = State(kept * S.S + beta * np.outer(k, v), H)
    if steps is None:
        x = solve(H + np.diag(ridges), q)
    else:
        x = conjugate_gradients(lambda p: p @ H + ridges * p, q[None], steps)[0]
    return S.S.T @ x, S


def _chunk(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: np.ndarray,
    beta: np.ndarray,
    ridges: np.ndarray,
    steps: int | None = None,
    S: State,
) -> tuple[np.ndarray, State]:
    """Solve for all queries, then read as gated linear attention does.

    Conjugate gradients need no H_t: its products with the directions p_t are a gated
    linear attention too, of keys with keys.
    """
    D = memory.decay_between(log_decay, k)[:, :, 0]
    written = beta[:, None] * k
    if steps is None:
        pairs = (written[:, :, None] * k[:, None, :]).reshape(len(k), S.H.size)
        sums = np.outer(D[1:, 0], S.H.ravel()) + D[1:, 1:] @ pairs
        x = solve(sums.reshape(-1, *S.H.shape) + np.diag(ridges), q)
    else:
        x = conjugate_gradients(_products(D, k, written, ridges, S), q, steps)
    o = D[1:, :1] * (x @ S.S) + (x @ written.T * D[1:, 1:]) @ v
    left = (D[-1, 1:, None] * written).T
    return o, State(D[-1, 0] * S.S + left @ v, D[-1, 0] * S.H + left @ k)


def _products(
    D: np.ndarray, k: np.ndarray, written: np.ndarray, ridges: np.ndarray, S: State
) -> Any:
    def apply(p: np.ndarray) -> np.ndarray:
        old = D[1:, :1] * (p @ S.H)
        return old + (p @ written.T * D[1:, 1:]) @ k + ridges * p

    return apply


def _initial_state(k: np.ndarray, v: np.ndarray, S: State | None) -> State:
    if S is None:
        return State(memory.initial_state(k, v), memory.initial_state(k, k))
    return memory.copied_state(S, State, k, v, S=("d_k", "d_v"), H=("d_k", "d_k"))


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, _initial_state)


MECHANISM = Mechanism(
    module=__name__,
    title="MesaNet",
    citations=("vonoswald2025mesanet",),
    inputs={
        **{"q": "real", "k": "unit", "v": "real", "log_decay": "log_decay [T]"},
        **{"beta": "rate", "ridges": "positive"},
    },
    chapter="11_test_time_regression",
    place=Place(
        cell=Cell(
            "linear map", "squared error", "closed form", "whole history", "one rate"
        ),
        function_class="linear map",
        objective="half the squared error, decayed, with a ridge",
        optimiser="closed form, or conjugate gradients",
        schedule="the whole history, at every token",
        control="decay of both sums, one rate for the head; the ridge stays",
        state="d_k * d_v + d_k**2",
    ),
    symbolic_tokens=2,
)
