"""Kernel ridge attention (KRR): what least squares in the kernel's space would answer.

    o_t = V_t' (kappa(K_t, K_t) + lambda I)^{-1} kappa(K_t, q_t),  K_t, V_t: tokens <= t

kappa(a, b) = exp(a'b) by default: softmax attention's kernel, of which the query enters
on the right side alone. Each t has an inverse of its own, yet all come of one factor:
that of the first t tokens is a corner of that of the first T. With
kappa(K, K) + lambda I = L Diag(p) L', W = L^{-1} V and y_t = L^{-1} kappa(K, q_t),

    o_t = sum_{j<=t} (y_tj / p_j) w_j

so w_j is what v_j adds to the earlier values' prediction at k_j, and is kept in place
of v_j. The scale of kappa's diagonal sets that of lambda. Test-time regression names
ridge and kernels; the factored form is ours. [wang2025ttr, in secondary reading]
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ctlearn.mechanism import Cell, Limit, Mechanism, Place, chunk_forms
from ctlearn.memory import copied_state, solve_unit_lower
from ctlearn.scalars import exp
from ctlearn.shapes import checked_step
from ctlearn.systems import extend_factor

Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]


def exponential(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """exp(a'b) for each row of a with each of b: positive definite."""
    return exp(a @ b.T)


class Factor(NamedTuple):
    """What is kept of t tokens: K [t, d_k], W [t, d_v] and L [t, t].

    L has the unit lower triangular factor below its diagonal and the pivots on it.
    """

    K: np.ndarray
    W: np.ndarray
    L: np.ndarray


@checked_step
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    kernel: Kernel = exponential,
    ridge: Any,
    S: Factor,
) -> tuple[np.ndarray, Factor]:
    """Append a row to the factor, solve with it: O(t (t + d_k + d_v))."""
    o, S = _chunk(q[None], k[None], v[None], kernel=kernel, ridge=ridge, S=S)
    return o[0], S


def _chunk(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    kernel: Kernel = exponential,
    ridge: Any,
    S: Factor,
) -> tuple[np.ndarray, Factor]:
    """Append C rows to the factor; one masked product between two solves with it."""
    S = _append(S, k, v, kernel, ridge)
    return _read(q, S, kernel), S


def _append(S: Factor, k: np.ndarray, v: np.ndarray, kernel: Kernel, ridge: Any) -> Any:
    K, t = np.concatenate([S.K, k]), len(S.K)
    rows = kernel(k, K)
    rows[:, t:] += ridge * np.eye(len(k), dtype=k.dtype)
    L = extend_factor(S.L, rows)
    W = solve_unit_lower(L[t:, t:], v - L[t:, :t] @ S.W)
    return Factor(K, np.concatenate([S.W, W]), L)


def _read(q: np.ndarray, S: Factor, kernel: Kernel) -> np.ndarray:
    """Answers of the last tokens, of which each sees those up to itself."""
    weights = solve_unit_lower(S.L, kernel(S.K, q)).T / np.diag(S.L)
    return np.tril(weights, len(S.K) - len(q)) @ S.W


def _initial_state(k: np.ndarray, v: np.ndarray, S: Factor | None) -> Factor:
    if S is None:
        return Factor(k[:0].copy(), v[:0].copy(), np.zeros((0, 0), dtype=k.dtype))
    return copied_state(S, Factor, k, v, K=("t", "d_k"), W=("t", "d_v"), L=("t", "t"))


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, _initial_state)


MECHANISM = Mechanism(
    module=__name__,
    title="Kernel ridge attention (KRR)",
    citations=("wang2025ttr",),
    inputs={"q": "unit", "k": "unit", "v": "real", "ridge": "positive"},
    chapter="11_test_time_regression",
    place=Place(
        cell=Cell(
            "kernel expansion", "squared error", "closed form", "whole history", "none"
        ),
        function_class="the kernel's function space",
        objective="squared error with a ridge",
        optimiser="closed form",
        schedule="the whole prefix, at every token",
        control="none: the cache grows; the ridge does not forget",
        state="T * (d_k + d_v) + T**2",
    ),
    limits=(
        Limit(
            target="mesa_net",
            when="the kernel is the dot product and nothing is forgotten",
            setting=r"\kappa(a, b) = a^\top b, \; \Lambda = \lambda I, \;"
            r" \alpha_t = \beta_t = 1",
            worlds=("rationals", "floats"),
            here=lambda x: x | {"kernel": lambda a, b: a @ b.T},
            there=lambda x: {
                **{name: x[name] for name in ("q", "k", "v")},
                **{"log_decay": 0 * x["k"][:, 0], "beta": 0 * x["k"][:, 0] + 1},
                "ridges": 0 * x["k"][0] + x["ridge"],
            },
        ),
    ),
)
