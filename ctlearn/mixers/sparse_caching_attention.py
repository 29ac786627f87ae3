"""Low-rank linear attention with sparse caching (LoLA): keep what linear memory loses.

    exact: the last w pairs, and at most m older ones;  linear: all others, in
    S = sum of phi(k_j) v_j',   n = sum of phi(k_j)

    o_t = (sum_exact exp(q_t'k_j) v_j + S' phi(q_t))
        / (sum_exact exp(q_t'k_j) + n' phi(q_t))

A pair that leaves the window and those already held compete for the m places by their
self-recall error ||S' phi(k) / (n' phi(k)) - v||^2: the m largest are held, the rest is
written to S and n for good.

The paper has eta, lambda, H and s for w, m, S and n, a trained phi, and q'k over
sqrt(d_k). Our choices: errors are taken before any rival is written and anew at every
token, an empty memory answers 0, the older of equals is held. At prefill the paper
scores whole chunks, another selection. [mcdermott2025lola, from secondary sources]
"""

import inspect
from typing import Any, NamedTuple

import numpy as np

from ctlearn.features import elu_plus_one
from ctlearn.mechanism import Cell, Limit, Mechanism, Place, chunk_forms
from ctlearn.mixers.normalised_linear_attention import FeatureMap, initial_state
from ctlearn.mixers.normalised_linear_attention import State as Linear
from ctlearn.mixers.softmax_attention import Cache, RunningMean, initial_cache
from ctlearn.scalars import minus_infinity
from ctlearn.shapes import checked_step


class State(NamedTuple):
    """S and n, the pairs held and those of the window, both in the order of arrival."""

    linear: Linear
    held: Cache
    recent: Cache


@checked_step
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    phi: FeatureMap = elu_plus_one,
    window: int,
    capacity: int,
    S: State,
) -> tuple[np.ndarray, State]:
    """Choose what stays exact, weigh all pairs, answer: m d_phi d_v for the errors.

    Given C tokens, it chooses one by one and answers at once, in one matrix of weights.
    """
    shape, q, k, v = v.shape, *map(np.atleast_2d, (q, k, v))
    K, V = map(np.concatenate, zip(S.held, S.recent, (k, v), strict=True))
    seen = len(K) - len(k) + np.arange(len(k))[:, None] >= np.arange(len(K))
    exact = np.zeros_like(seen)
    held, first, linear = np.arange(len(S.held.K)), len(S.held.K), S.linear
    for i, end in enumerate(seen.sum(axis=1)):
        rivals = np.append(held, np.arange(first, end - window))
        first = max(first, end - window)
        hard, linear = sort_out(phi(K[rivals]), V[rivals], linear, capacity)
        held = rivals[hard]
        exact[i, held] = exact[i, first:end] = True
    mixed = np.where(seen & ~exact, phi(q) @ phi(K).T, 0)
    weight = phi(q) @ S.linear.n + mixed.sum(axis=1)
    total = phi(q) @ S.linear.S + mixed @ V
    # a linear part that holds nothing must not keep the others from their own scale
    empty = (weight == 0) & (total == 0).all(axis=1)
    scale = np.where(empty, minus_infinity(q), 0).astype(q.dtype)
    scores = np.where(exact, q @ K.T, minus_infinity(q))
    o = RunningMean(scale, weight, total).absorb(scores, V).read().reshape(shape)
    return o, State(linear, Cache(K[held], V[held]), Cache(K[first:], V[first:]))


def sort_out(
    F: np.ndarray, V: np.ndarray, linear: Linear, capacity: int
) -> tuple[np.ndarray, Linear]:
    """Which pairs, features F [r, d_phi] and values V, to hold; the others written."""
    hard = np.ones(len(F), dtype=bool)
    if len(F) > capacity:
        worst_first = np.argsort(-recall_error(F, V, linear), kind="stable")
        hard[worst_first[capacity:]] = False
    easy = F[~hard]
    return hard, Linear(linear.S + easy.T @ V[~hard], linear.n + easy.sum(axis=0))


def recall_error(F: np.ndarray, V: np.ndarray, linear: Linear) -> np.ndarray:
    """||S'f / n'f - v||^2 for each of r pairs; S'f alone where n'f is 0."""
    weight = F @ linear.n
    weight = np.where(weight == 0, 1, weight)
    return ((F @ linear.S / weight[:, None] - V) ** 2).sum(axis=1)


def _initial_state(k: Any, v: Any, S: Any, phi: FeatureMap = elu_plus_one) -> State:
    if S is not None and not isinstance(S, State):
        raise TypeError(f"S: expected a State(linear, …), got {type(S).__name__}")
    linear, *pairs = S or (None, None, None)
    caches = (initial_cache(k, v, cache) for cache in pairs)
    return State(initial_state(phi(k), v, linear), *caches)


recurrent, parallel, chunkwise = chunk_forms(step, inspect.unwrap(step), _initial_state)


MECHANISM = Mechanism(
    module=__name__,
    title="Low-rank linear attention with sparse caching (LoLA)",
    citations=("mcdermott2025lola",),
    inputs={"q": "real", "k": "real", "v": "real"},
    constants={"window": 2, "capacity": 2},
    place=Place(
        cell=Cell("local fit", "local error", "closed form", "window", "selection"),
        beside=Cell(
            "ratio of linear maps", "dot product", "one step", "every token", "none"
        ),
        function_class="a weighted mean of some pairs, and a ratio of two linear maps",
        objective="locally weighted squared error; dot product",
        optimiser="closed form; gradient descent, step size 1",
        schedule="some pairs for every query anew; the others once, as they are let go",
        control="the pairs that the linear maps recall worst are held outside them",
        state="min(T, window + capacity) * (d_k + d_v) + d_k * (d_v + 1)",
    ),
    chapter="15_hybrids",
    limits=(
        Limit(
            target="softmax_attention",
            when="window and held pairs together are all tokens",
            setting=r"w + m \ge T",
            here=lambda x: x | {"capacity": max(0, len(x["q"]) - x["window"])},
            there=lambda x: {name: x[name] for name in "qkv"},
            worlds=("symbols", "floats"),
        ),
        Limit(
            target="sliding_window_attention",
            when="no pair is held and all features are zero",
            setting=r"m = 0, \; \phi(x) = 0",
            here=lambda x: x | {"capacity": 0, "phi": lambda x: 0 * x},
            there=lambda x: {name: x[name] for name in ("q", "k", "v", "window")},
        ),
    ),
    exempt={
        "test_plans_agree_on_symbols": "which pairs are held is an order of numbers"
    },
    variants={
        "nothing held": {"constants": {"window": 2, "capacity": 0}, "exempt": {}}
    },
)
