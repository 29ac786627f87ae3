"""Recursive least squares (RLS): the delta rule with the best matrix for its step.

    g_t = P_{t-1} k_t / (lambda + k_t' P_{t-1} k_t)
    S_t = S_{t-1} + g_t (v_t - S_{t-1}' k_t)',   o_t = S_t' q_t
    P_t = (P_{t-1} - g_t k_t' P_{t-1}) / lambda

At every token S_t is the exact minimum of sum_i lambda^(t-i) ||S'k_i - v_i||^2 plus
lambda^t rho ||S||^2, and P_t is the inverse of its curvature,
sum_i lambda^(t-i) k_i k_i' + lambda^t rho I.
lambda in (0, 1] forgets, the ridge rho > 0 starts P at I / rho and fades with the rest.
In directions that no key visits P grows by 1 / lambda at every token ("wind-up"), until
rounding is all that is left there.
A filter's own output is S_{t-1}' k_t; here any query is answered after the correction.
[plackett1950 without forgetting, with it a form common to books on adaptive filters;
both from memory]
"""

from typing import Any, NamedTuple

import numpy as np

from ctlearn import memory
from ctlearn.mechanism import Cell, Limit, Mechanism, Place
from ctlearn.scalars import exp
from ctlearn.shapes import checked, checked_step

Array = np.ndarray


class State(NamedTuple):
    """What is kept: S [d_k, d_v], and P [d_k, d_k], the inverse of the keys' moment."""

    S: Array
    P: Array


@checked_step
def step(
    q: Array, k: Array, v: Array, *, log_forget: Any, ridge: Any, S: State
) -> tuple[Array, State]:
    """Find the gain, correct, answer: 3 d_k^2 + 3 d_k d_v; `ridge` is in S already."""
    gain, P = _gain(k, S.P, exp(log_forget))
    S = State(S.S + np.outer(gain, v - S.S.T @ k), P)
    return S.S.T @ q, S


@checked
def recurrent(
    q: Array,
    k: Array,
    v: Array,
    *,
    log_forget: Any,
    ridge: Any,
    S: State | None = None,
) -> tuple[Array, State]:
    """One token after another, O(T d_k (d_k + d_v))."""
    S = _initial_state(k, v, ridge, S)
    return memory.scan(step, q, k, v, log_forget=log_forget, ridge=ridge, S=S)


@checked
def chunkwise(
    q: Array,
    k: Array,
    v: Array,
    *,
    log_forget: Any,
    ridge: Any,
    S: State | None = None,
    chunk_size: int = 64,
) -> tuple[Array, State]:
    """Every gain first, O(T d_k^2), since gains see no values; then the one memory."""
    S = _initial_state(k, v, ridge, S)
    gains, P = np.empty_like(k), S.P
    for t in range(len(k)):
        gains[t], P = _gain(k[t], P, exp(log_forget))
    o, S_end = memory.chunkwise(q, gains, v, e=k, S=S.S, chunk_size=chunk_size)
    return o, State(S_end, P)


def _gain(k: Array, P: Array, kept: Any) -> tuple[Array, Array]:
    """The gain at one key, and P after it, symmetric to the bit."""
    Pk = P @ k
    gain = Pk / (kept + k @ Pk)
    return gain, (P - np.outer(Pk, Pk) / (kept + k @ Pk)) / kept


def _initial_state(k: Array, v: Array, ridge: Any, S: State | None) -> State:
    """Zeros and I / ridge, or a copy of `S`."""
    d_k = k.shape[1]
    if S is None:
        P = np.eye(d_k, dtype=k.dtype) / ridge
        return State(memory.initial_state(k, v), P.astype(k.dtype))
    return memory.copied_state(S, State, k, v, S=("d_k", "d_v"), P=("d_k", "d_k"))


MECHANISM = Mechanism(
    module=__name__,
    title="Recursive least squares (RLS)",
    citations=("plackett1950",),
    inputs={
        **{"q": "real", "k": "real", "v": "real"},
        **{"log_forget": "log_decay", "ridge": "positive"},
    },
    chapter="11_test_time_regression",
    place=Place(
        cell=Cell(
            "linear map", "squared error", "closed form", "whole history", "one rate"
        ),
        function_class="linear map",
        objective="decayed sum of squared errors, with a ridge that fades",
        optimiser="closed form, carried along: a matrix for a step size",
        schedule="the whole history, at every token",
        control="decay of what was seen, one constant",
        state="d_k * d_v + d_k * d_k",
    ),
    symbolic_tokens=2,
    limits=(
        Limit(
            target="mesa_net",
            when="nothing is forgotten, and that one weights all alike",
            setting=r"\lambda = 1, \; \gamma_t = \beta_t = 1, \; \Lambda = \rho I",
            here=lambda x: x | {"log_forget": 0 * x["log_forget"]},
            there=lambda x: {
                **{name: x[name] for name in ("q", "k", "v")},
                "log_decay": 0 * x["k"][:, 0],
                "beta": np.ones(len(x["k"]), dtype=x["k"].dtype),
                "ridges": np.full(x["k"].shape[1], x["ridge"], dtype=x["k"].dtype),
            },
            worlds=("rationals", "floats"),
        ),
    ),
)
