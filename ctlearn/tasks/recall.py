"""Recall: store N key-value pairs, then ask for each of them.

The memory is one matrix S [d_k, d_v], read as S'k. What comes back for a stored key
is its value plus every other value, each in proportion to the cosine between the keys.
Errors are squared, and divided so that answering zero scores 1.
"""

import math
from collections.abc import Callable

import numpy as np

from ctlearn.features import identity
from ctlearn.mixers import linear_attention
from ctlearn.mixers.normalised_linear_attention import FeatureMap


def unit_vectors(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Rows [n, d] of length one, each direction as likely as any other."""
    x = rng.standard_normal((n, d))
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


def _share_below_zero(variance: float) -> float:
    """Of a normal number with mean 1."""
    return math.erfc(1 / math.sqrt(2 * variance)) / 2
