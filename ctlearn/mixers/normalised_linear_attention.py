"""Normalised linear attention: a weighted mean of the values, from a fixed-size state.

    S_t = S_{t-1} + phi(k_t) v_t',   n_t = n_{t-1} + phi(k_t)
    o_t = S_t' phi(q_t) / (n_t' phi(q_t))

Softmax attention with exp(q'k) replaced by phi(q)'phi(k). The normaliser n is what one
more value column, of ones, would collect. For features that are never negative the
weights of the mean are non-negative and sum to one. [katharopoulos2020, eqs. 4-9; its
code adds 1e-6 to the denominator, this does not]
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ctlearn.features import elu_plus_one
from ctlearn.mechanism import Cell, Mechanism, Place
from ctlearn.memory import scan
from ctlearn.mixers import linear_attention
from ctlearn.scalars import is_exact
from ctlearn.shapes import check_shape, checked, checked_step

FeatureMap = Callable[[np.ndarray], np.ndarray]


class State(NamedTuple):
    """What is kept: S [d_phi, d_v], and n [d_phi], the sum of the keys' features."""

    S: np.ndarray
    n: np.ndarray


@checked_step
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    phi: FeatureMap = elu_plus_one,
    S: State,
) -> tuple[np.ndarray, State]:
    """Write one pair, answer one query: 2 d_phi d_v multiplications."""
    S = State(S.S + np.outer(phi(k), v), S.n + phi(k))
    return _divide(S.S.T @ phi(q), S.n @ phi(q)), S


@checked
def recurrent(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    phi: FeatureMap = elu_plus_one,
    S: State | None = None,
) -> tuple[np.ndarray, State]:
    """One token after another, O(T d_phi d_v)."""
    return scan(step, q, k, v, S=initial_state(phi(k), v, S), phi=phi)


@checked
def parallel(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    phi: FeatureMap = elu_plus_one,
    S: State | None = None,
) -> tuple[np.ndarray, State]:
    """Every query against every key, O(T^2 (d_phi + d_v))."""
    q, k = phi(q), phi(k)
    S = initial_state(k, v, S)
    weights = np.tril(q @ k.T)
    o = _divide(q @ S.S + weights @ v, (q @ S.n + weights.sum(axis=1))[:, None])
    return o, State(S.S + k.T @ v, S.n + k.sum(axis=0))


@checked
def chunkwise(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    phi: FeatureMap = elu_plus_one,
    S: State | None = None,
    chunk_size: int = 64,
) -> tuple[np.ndarray, State]:
    """Linear attention on features, with a value column of ones for the normaliser."""
    q, k = phi(q), phi(k)
    S = initial_state(k, v, S)
    ones = np.ones((len(v), 1), dtype=v.dtype)
    o, S_n = linear_attention.chunkwise(
        q,
        k,
        np.concatenate([v, ones], axis=1),
        S=np.concatenate([S.S, S.n[:, None]], axis=1),
        chunk_size=chunk_size,
    )
    return _divide(o[:, :-1], o[:, -1:]), State(S_n[:, :-1].copy(), S_n[:, -1].copy())


def initial_state(k: np.ndarray, v: np.ndarray, S: State | None) -> State:
    """Zeros, or a copy of `S`, for features k [T, d_phi] and values v [T, d_v]."""
    if S is None:
        zeros = linear_attention.initial_state(k, v)
        return State(zeros, np.zeros(k.shape[1], dtype=k.dtype))
    if not isinstance(S, State):
        raise TypeError(f"S: expected a State(S, n), got {type(S).__name__}")
    sizes = {"d_phi": (k.shape[1], "phi(k)"), "d_v": (v.shape[1], "v")}
    check_shape("S.S", S.S, (("d_phi", "d_v"),), sizes)
    check_shape("S.n", S.n, (("d_phi",),), sizes)
    return State(S.S.copy(), S.n.copy())


def _divide(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    if not is_exact(denominator) and np.any(denominator == 0):
        raise ValueError(
            "phi: a query's features meet none of the keys', so there is nothing to "
            "take a mean of; use a feature map that is positive everywhere"
        )
    return numerator / denominator


MECHANISM = Mechanism(
    module=__name__,
    title="Normalised linear attention",
    citations=("katharopoulos2020",),
    chapter="02_the_trapdoor",
    inputs={"q": "real", "k": "real", "v": "real"},
    place=Place(
        cell=Cell(
            "ratio of linear maps", "dot product", "one step", "every token", "none"
        ),
        function_class="ratio of two linear maps of features",
        objective="dot product",
        optimiser="gradient descent, step size 1",
        schedule="every token, which is the same as all at once",
        control="none",
        state="d_k * d_v + d_k",
    ),
)
