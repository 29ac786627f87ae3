"""Two memories are told the same facts and asked for each of them.

A fact is a key and a value of length one, both uniform on their spheres, so that the
answer "nothing" has an error of exactly 1. The facts of a seed are a list without end:
more facts never change the earlier ones. One memory keeps them all, the other adds
them into one matrix.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ctlearn.mixers import linear_attention
from ctlearn.mixers.softmax_attention import RunningMean


def facts(seed: int, N: int, d_k: int, d_v: int) -> tuple[np.ndarray, np.ndarray]:
    """The first N facts of a seed: keys [N, d_k] and values [N, d_v], of length one."""
    drawn = np.random.default_rng(seed).standard_normal((N, d_k + d_v))
    return _unit(drawn[:, :d_k]), _unit(drawn[:, d_k:])


def ask_cache(
    k: np.ndarray, v: np.ndarray, questions: np.ndarray, scale: float = 1.0
) -> np.ndarray:
    """What softmax attention answers [n, d_v] to questions [n, d_k] about N facts.

    Every question sees every fact. `scale` multiplies the scores.
    """
    scores = scale * questions @ k.T
    return RunningMean(-np.inf, 0, 0).absorb(scores, v).read()


def ask_state(k: np.ndarray, v: np.ndarray, questions: np.ndarray) -> np.ndarray:
    """What linear attention's state answers [n, d_v] once it has read all N facts."""
    _, S = linear_attention.chunkwise(k, k, v)
    return questions @ S


def cache_errors(
    sizes: Sequence[int], seeds: Sequence[int], *, d: int = 64, scale: float
) -> np.ndarray:
    """Mean-square error of recall from the cache, [seeds, sizes], d_k = d_v = d."""

    def ask(k: np.ndarray, v: np.ndarray) -> np.ndarray:
        return ask_cache(k, v, k, scale)

    return _errors(ask, sizes, seeds, d, rescale=False)


def state_errors(
    sizes: Sequence[int], seeds: Sequence[int], *, d: int = 64, rescale: bool
) -> np.ndarray:
    """Mean-square error of recall from the state, [seeds, sizes], d_k = d_v = d.

    With `rescale` the answers for N facts are multiplied by the one number that serves
    all seeds best, as a trained layer's output projection could.
    """
    return _errors(lambda k, v: ask_state(k, v, k), sizes, seeds, d, rescale=rescale)


def items_read(
    d_k: int, N: int, seeds: Sequence[int], *, scale: float, unit: bool
) -> np.ndarray:
    """How many of N items a softmax over random scores really reads, for each seed.

    One over the sum of the squared weights: N when all weigh the same, 1 when a single
    item has all the weight. Queries and keys are standard normal, or of length one if
    `unit`.
    """
    counts = []
    for seed in seeds:
        drawn = np.random.default_rng(seed).standard_normal((N + 1, d_k))
        vectors = _unit(drawn) if unit else drawn
        # with the unit matrix for values the answer is the weights themselves
        weights = ask_cache(vectors[1:], np.eye(N), vectors[:1], scale)
        counts.append(1 / (weights**2).sum())
    return np.array(counts)


def scale_needed(N: int, seed: int, *, d: int = 64, error: float = 0.01) -> float:
    """The scale from which the cache recalls N facts to a mean-square error.

    `error` lies in (0, 1). Found by halving an interval, to five digits. Raises
    ValueError if no scale up to 4096 is enough.
    """
    k, v = facts(seed, N, d, d)

    def recalls(scale: float) -> bool:
        return bool(((ask_cache(k, v, k, scale) - v) ** 2).sum(axis=1).mean() <= error)

    high = 1.0
    while not recalls(high):
        high *= 2
        if high > 4096:
            raise ValueError(f"error: no scale up to 4096 reaches {error}")
    low = 0.0
    while high - low > 1e-5 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if recalls(middle) else (middle, high)
    return high


def _errors(
    ask: Callable[[np.ndarray, np.ndarray], np.ndarray],
    sizes: Sequence[int],
    seeds: Sequence[int],
    d: int,
    *,
    rescale: bool,
) -> np.ndarray:
    errors = np.empty((len(seeds), len(sizes)))
    for column, N in enumerate(sizes):
        told = [facts(seed, N, d, d) for seed in seeds]
        values = np.stack([v for _, v in told])
        answers = np.stack([ask(k, v) for k, v in told])
        if rescale:
            answers *= (answers * values).sum() / (answers * answers).sum()
        errors[:, column] = ((answers - values) ** 2).sum(axis=-1).mean(axis=-1)
    return errors


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)
