"""Recall: store N key-value pairs, then ask for each of them.

The memory is one matrix S [d_k, d_v], read as S'k. What comes back for a stored key
is its value plus every other value, each in proportion to the cosine between the keys.
Errors are squared, and divided so that answering zero scores 1.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ctlearn.features import identity
from ctlearn.mixers import delta_rule, linear_attention, retention
from ctlearn.mixers.normalised_linear_attention import FeatureMap
from ctlearn.tasks.two_memories import ask_cache


class Facts(NamedTuple):
    """Pairs in the order they are told, and what is asked in the end.

    k [T, d_k] and v [T, d_v] are told; `asked` [n, d_k] are the keys of the questions
    and `answers` [n, d_v] what should come back.
    """

    k: np.ndarray
    v: np.ndarray
    asked: np.ndarray
    answers: np.ndarray


class Tuned(NamedTuple):
    """A memory at its best: the setting, the scale and each draw's error [draws]."""

    setting: Any
    scale: float
    errors: np.ndarray


def unit_vectors(
    rng: np.random.Generator, n: int, d: int, deviations: Any = 1.0
) -> np.ndarray:
    """Rows [n, d] of length one, each direction as likely as any other.

    Unless the `deviations` [d] that coordinates have before they are normalised differ.
    """
    x = rng.standard_normal((n, d)) * deviations
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def keys_with_cosine(
    rng: np.random.Generator, n: int, d: int, cosine: float
) -> np.ndarray:
    """Unit keys [n, d] that share a direction: two of them have this cosine on average.

    A key is sqrt(c) w + sqrt(1 - c) x, with w common to all and x a random direction
    at right angles to w. Needs d of at least 2.
    """
    if not 0 <= cosine <= 1:
        raise ValueError(f"cosine: expected a number in [0, 1], got {cosine}")
    shared = unit_vectors(rng, 1, d)
    own = rng.standard_normal((n, d))
    own -= own @ shared.T * shared
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    return np.sqrt(cosine) * shared + np.sqrt(1 - cosine) * own


def in_rounds(rng: np.random.Generator, n: int, rounds: int) -> np.ndarray:
    """An order for `bindings`: every key once a round, shuffled in each."""
    return np.concatenate([rng.permutation(n) for _ in range(rounds)])


def bindings(
    rng: np.random.Generator,
    order: np.ndarray,
    d_k: int,
    d_v: int,
    cosine: float = 0.0,
) -> Facts:
    """Bind key order[t] to a new value at every token t; ask for each latest value.

    `order` [T] holds the numbers of keys, 0 upwards, and may repeat them. Values are
    of length one, and so are keys, of this mean cosine; a key that is never bound is
    not asked for.
    """
    n = int(order.max()) + 1
    if cosine:
        keys = keys_with_cosine(rng, n, d_k, cosine)
    else:
        keys = unit_vectors(rng, n, d_k)
    v = unit_vectors(rng, len(order), d_v)
    latest = {int(key): t for t, key in enumerate(order)}
    bound = sorted(latest)
    return Facts(keys[order], v, keys[bound], v[[latest[key] for key in bound]])


def crosstalk(k: np.ndarray, phi: FeatureMap = identity) -> np.ndarray:
    """Dot products of every two keys after the feature map [N, N], as exact as k."""
    features = phi(k)
    return features @ features.T


def cosines(k: np.ndarray, phi: FeatureMap = identity) -> np.ndarray:
    """Cosines between the features of every two different keys, [N (N - 1)]."""
    G = crosstalk(k, phi)
    length = np.sqrt(np.diag(G))
    return (G / length[:, None] / length)[~np.eye(len(k), dtype=bool)]


def recall(k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Add all pairs into one state, then ask for each key: [N, d_v]."""
    _, S = linear_attention.chunkwise(k, k, v)
    return k @ S


def recall_best(k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Ask the matrix with the least squared error: [N, d_v].

    No rule that ends in one matrix does better on these pairs.
    """
    S = np.linalg.lstsq(k, v, rcond=None)[0]
    return k @ S


def ask_sum(told: Facts, decay: float = 1.0) -> np.ndarray:
    """Ask a state to which all pairs were added, and of which each token kept `decay`.

    `decay` is in (0, 1].
    """
    k, v = told.k, told.v
    _, S = retention.chunkwise(k, k, v, log_gamma=np.log(decay))
    return told.asked @ S


def ask_delta(told: Facts, beta: float = 1.0, passes: int = 1) -> np.ndarray:
    """Ask a state that corrected itself by the delta rule, in so many passes."""
    k, v, S = told.k, told.v, None
    for _ in range(passes):
        _, S = delta_rule.chunkwise(k, k, v, beta=np.full(len(k), beta), S=S)
    return told.asked @ S


def ask_ridge(told: Facts, ridge: float, decay: float = 1.0) -> np.ndarray:
    """Ask the matrix with the least decayed squared error and this ridge, above 0."""
    weight = decay ** np.arange(len(told.k))[::-1, None]
    H = (weight * told.k).T @ told.k + ridge * np.eye(told.k.shape[1])
    return told.asked @ np.linalg.solve(H, (weight * told.k).T @ told.v)


def ask_softmax(told: Facts, scale: float) -> np.ndarray:
    """Ask softmax attention over all pairs, with scores multiplied by `scale`."""
    return ask_cache(told.k, told.v, told.asked, scale)


def tuned(
    ask: Callable[..., np.ndarray],
    draws: Sequence[Facts],
    settings: Sequence[Any],
    *,
    tuning: Sequence[Facts] | None = None,
    rescale: bool = True,
) -> Tuned:
    """A memory at the one setting that serves all `tuning` draws best.

    `ask(told, setting)` answers. With `rescale` its answers are first multiplied by one
    number for all draws, the best there is, as an output projection could. Without
    tuning draws the choice is made on those that are reported, which favours a memory
    with more settings.
    """
    best, chosen_on = None, draws if tuning is None else tuning
    for setting in settings:
        found = _asked(ask, chosen_on, setting, None if rescale else 1.0)
        if best is None or found.errors.mean() < best.errors.mean():
            best = found
    if best is None:
        raise ValueError("settings: expected at least one, got none")
    return best if tuning is None else _asked(ask, draws, best.setting, best.scale)


def error(answers: np.ndarray, v: np.ndarray) -> float:
    """Squared error over all pairs, divided by that of answering zero."""
    return float(((answers - v) ** 2).sum() / (v**2).sum())


def best_scale(answers: np.ndarray, v: np.ndarray) -> float:
    """The one factor on all answers that leaves the least squared error.

    Both arrays may have leading axes, so that several seeds share one factor.
    """
    return float((answers * v).sum() / (answers**2).sum())


def accuracy(answers: np.ndarray, v: np.ndarray) -> float:
    """Share of the answers [N, d_v] that score highest with their own row of v."""
    return float(((answers @ v.T).argmax(axis=1) == np.arange(len(v))).mean())


def expected_error(n: int, d_k: int, cosine: float = 0.0) -> float:
    """Mean error of `recall` over the keys of `keys_with_cosine` and random values.

    (N - 1) times the mean squared cosine of two keys: 1/d_k if they share no
    direction, c^2 + (1 - c)^2 / (d_k - 1) if their mean cosine is c > 0.
    """
    if cosine == 0:
        return (n - 1) / d_k
    return (n - 1) * (cosine**2 + (1 - cosine) ** 2 / (d_k - 1))


def expected_scaled_error(n: int, d_k: int, cosine: float = 0.0) -> float:
    """The same where all answers are scaled by the best number: x / (1 + x) for x.

    A scale c leaves (1 - c)^2 of the right values and c^2 x of the others; the best is
    1 / (1 + x).
    """
    x = expected_error(n, d_k, cosine)
    return x / (1 + x)


def expected_least_error(n: int, d_k: int) -> float:
    """Mean error of `recall_best` on random values, if the keys are independent.

    n values are projected on the d_k directions that the keys span.
    """
    return max(0.0, 1 - d_k / n)


def expected_delta_errors(n: int, d_k: int) -> np.ndarray:
    """Mean error [n] of n random pairs after one pass of the delta rule with beta 1.

    Keys are independent directions and values of length one; the pair written
    last comes last, with an error of 0. With r = 1 - 1/d_k, and s what such a write
    leaves on average of a square, the j-th error is
    2 - 2 r^(n-j) - r^n + r^j s^(n-j).
    """
    j = np.arange(1, n + 1)
    r, s = 1 - 1 / d_k, 1 - 2 * (d_k + 1) / (d_k * (d_k + 2))
    return 2 - 2 * r ** (n - j) - r**n + r**j * s ** (n - j)


def most_pairs(
    passes: Callable[[np.ndarray, np.ndarray], bool],
    rng: np.random.Generator,
    d_k: int,
    d_v: int,
    limit: int,
) -> int:
    """How many random pairs, added one by one, a memory holds; `limit` at most.

    `passes(answers, v)` judges the answers to all pairs stored so far. Found by
    bisection, so a memory that fails and then passes again with more pairs is judged
    at one of its failures.
    """
    k, v = unit_vectors(rng, limit, d_k), unit_vectors(rng, limit, d_v)
    holds, fails = 0, limit + 1
    while fails - holds > 1:
        n = (holds + fails) // 2
        if passes(recall(k[:n], v[:n]), v[:n]):
            holds = n
        else:
            fails = n
    return holds


def pairs_by_argmax(d_k: int, d_v: int, wrong: float = 0.01) -> int:
    """How many pairs a rule of thumb lets a state hold for argmax decoding.

    The gap between the score of the right value and that of another stored one has
    mean 1 and variance 1/d_k + 1/d_v + (2 N - 3)/(d_k d_v). Taken as normal, and summed
    over the N - 1 others, its failures stay below the share `wrong`.
    """
    n = 1
    while n * _share_below_zero(1 / d_k + 1 / d_v + (2 * n - 1) / (d_k * d_v)) < wrong:
        n += 1
    return n


def _asked(
    ask: Callable[..., np.ndarray],
    draws: Sequence[Facts],
    setting: Any,
    scale: float | None,
) -> Tuned:
    """Errors at a setting and a scale, or at the best scale if there is none."""
    said, answers = (
        np.stack(rows)
        for rows in zip(*((ask(x, setting), x.answers) for x in draws), strict=True)
    )
    if scale is None:
        scale = best_scale(said, answers)
    pairs = zip(scale * said, answers, strict=True)
    return Tuned(setting, scale, np.array([error(a, b) for a, b in pairs]))


def _share_below_zero(variance: float) -> float:
    """Of a normal number with mean 1."""
    return math.erfc(1 / math.sqrt(2 * variance)) / 2
