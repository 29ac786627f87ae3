"""Matrix LSTM (mLSTM): linear attention with writes of any strength, and a normaliser.

    C_t = f_t C_{t-1} + i_t k_t v_t',   n_t = f_t n_{t-1} + i_t k_t
    o_t = C_t' q_t / max(|n_t' q_t|, 1),   f_t in [0, 1],  i_t = exp(any real number)

The write strength i has no upper bound, so C and n may overflow though o does not. The
state is therefore kept relative to exp(m), the largest weight so far:

    m_t = max(log f_t + m_{t-1}, log i_t),   S_t = exp(-m_t) C_t,  S.n = exp(-m_t) n_t
    o_t = S_t' q_t / max(|S.n' q_t|, exp(-m_t))

Any m gives the same o, and sequences start at m = 0. n'q may be
negative, hence the bars; the floor of 1 is not free of scale. A layer divides q by
sqrt(d_k), adds 1e-6 to the denominator and caps the gates softly; this does not.
[beck2024xlstm, as its authors' kernels have it]
"""

from typing import Any, NamedTuple

import numpy as np

from ctlearn.mechanism import Cell, Mechanism, Place, chunk_forms
from ctlearn.memory import copied_state, initial_state, log_decay_between
from ctlearn.scalars import exp, shift
from ctlearn.shapes import checked_step


class State(NamedTuple):
    """S [d_k, d_v] and n [d_k], both relative to exp(m), and m []."""

    S: np.ndarray
    n: np.ndarray
    m: np.ndarray


@checked_step(log_decay=("T",))
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: Any,
    log_write: Any,
    S: State,
) -> tuple[np.ndarray, State]:
    """Find the larger of the two weights, forget and write relative to it."""
    m = shift(np.stack([log_decay + S.m, log_write], axis=-1))
    kept, written = exp(log_decay + S.m - m), exp(log_write - m)
    S = State(kept * S.S + written * np.outer(k, v), kept * S.n + written * k, m)
    return S.S.T @ q / np.maximum(np.abs(S.n @ q), exp(-m)), S


def _chunk(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    log_decay: np.ndarray,
    log_write: np.ndarray,
    S: State,
) -> tuple[np.ndarray, State]:
    """Weigh the state and every token by one exponential, relative to the largest.

    Row i of the weights stands behind token i, row 0 before the first; column 0 is the
    incoming state's, column j is token j's.
    """
    entered = np.concatenate([np.reshape(S.m, 1), log_write])
    exponents = log_decay_between(log_decay)[:, :, 0] + entered
    m = shift(exponents)
    weights = exp(exponents - m[:, None])
    old, scores = weights[1:, 0], (q @ k.T) * weights[1:, 1:]
    norm = old * (q @ S.n) + scores.sum(axis=1)
    o = old[:, None] * (q @ S.S) + scores @ v
    written = weights[-1, 1:, None] * k
    kept = weights[-1, 0]
    last = m[-1:].reshape(())  # an array, where m[-1] of exact numbers is none
    S = State(kept * S.S + written.T @ v, kept * S.n + written.sum(axis=0), last)
    return o / np.maximum(np.abs(norm), exp(-m[1:]))[:, None], S


def _initial_state(k: np.ndarray, v: np.ndarray, S: State | None) -> State:
    if S is None:
        zeros = initial_state(k, v)
        return State(zeros, np.zeros(len(zeros), k.dtype), np.zeros((), k.dtype))
    return copied_state(S, State, k, v, S=("d_k", "d_v"), n=("d_k",), m=())


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, _initial_state)


MECHANISM = Mechanism(
    module=__name__,
    title="Matrix LSTM (mLSTM)",
    citations=("beck2024xlstm",),
    chapter="05_forgetting",
    inputs={
        **{"q": "real", "k": "real", "v": "real"},
        **{"log_decay": "log_decay [T]", "log_write": "real"},
    },
    place=Place(
        cell=Cell(
            "ratio of linear maps", "dot product", "one step", "every token", "one rate"
        ),
        function_class="ratio of two linear maps, floored",
        objective="dot product",
        optimiser="gradient descent, a step size without bound",
        schedule="every token",
        control="decay, one rate for the head, from the data",
        state="d_k * d_v + d_k + 1",
    ),
    exempt={"test_plans_agree_on_symbols": "whether the floor binds is not known"},
)
