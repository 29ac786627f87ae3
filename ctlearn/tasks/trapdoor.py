"""How far the brackets move: kernels, ranks and masks.

A sum over pairs can be folded into a state if its weights are a product of something
of the query and something of the key: a matrix of low rank. The functions here measure
how far the weights of softmax attention, of feature maps and of masks are from that.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ctlearn.features import positive_random
from ctlearn.mixers.normalised_linear_attention import FeatureMap


def draw(seed: int, N: int, d: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """N queries and N keys [N, d] whose scores have this spread around 0.

    Entries are independent and normal; queries and keys are equally long.
    """
    size = spread**0.5 * d**-0.25
    q, k = size * np.random.default_rng(seed).standard_normal((2, N, d))
    return q, k


def softmax_weights(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The weights [n, N] that n queries give to N keys; every row sums to one."""
    scores = q @ k.T
    return _rows_to_one(np.exp(scores - scores.max(axis=1, keepdims=True)))


def feature_weights(q: np.ndarray, k: np.ndarray, phi: FeatureMap) -> np.ndarray:
    """The same for normalised linear attention with feature map `phi`."""
    return _rows_to_one(phi(q) @ phi(k).T)


def left_over(weights: np.ndarray) -> np.ndarray:
    """What the best matrix of rank r = 0, 1, … leaves of the squared weights.

    A share of the whole, so the first entry is 1 and the last one 0. No state with r
    rows can leave less, whatever it does with these queries and keys.
    """
    # squared singular values; rounding may leave the smallest below zero
    energy = np.maximum(np.linalg.eigvalsh(weights @ weights.T), 0)
    rest = np.append(np.cumsum(energy)[::-1], 0)
    return rest / energy.sum()


def missed(weights: np.ndarray, other: np.ndarray) -> float:
    """The share of the squared weights that is missed by other weights."""
    return float(((weights - other) ** 2).sum() / (weights**2).sum())


def missed_at_best_scale(
    q: np.ndarray,
    k: np.ndarray,
    phi: FeatureMap,
    scales: Sequence[float] = (0.5, 0.7, 1, 1.4, 2, 3, 4),
) -> float:
    """What feature map `phi` misses of softmax's weights, at the best of the scales.

    A scale multiplies what goes into the map, queries and keys alike.
    """
    weights = softmax_weights(q, k)
    return min(
        missed(weights, feature_weights(scale * q, scale * k, phi)) for scale in scales
    )


def missed_by_random_features(
    m: int, seed: int, *, N: int = 256, d: int = 16, spread: float = 0.25
) -> float:
    """What m positive random features miss of the weights, for one draw of all."""
    q, k = draw(seed, N, d, spread)
    # a seed of its own: the directions know nothing of the queries and keys
    directions = np.random.default_rng([seed, m]).standard_normal((m, d))
    found = feature_weights(q, k, lambda x: positive_random(x, directions))
    return missed(softmax_weights(q, k), found)


def width_needed(
    N: int, spread: float, seeds: Sequence[int], *, d: int = 16, share: float = 0.1
) -> np.ndarray:
    """The least rank that leaves at most `share` of the weights, for each seed."""
    rests = [left_over(softmax_weights(*draw(seed, N, d, spread))) for seed in seeds]
    return np.array([int(np.argmax(rest <= share)) for rest in rests])


def weight_on_own_key(
    k: np.ndarray, phi: FeatureMap | None, scales: Sequence[float]
) -> float:
    """The mean weight that a key, as a question, gives to itself, at its best scale.

    `phi` None is softmax attention. Keys and questions are multiplied by each of the
    scales in turn, and the best is reported.
    """
    best = 0.0
    for scale in scales:
        x = scale * k
        weights = softmax_weights(x, x) if phi is None else feature_weights(x, x, phi)
        best = max(best, float(np.trace(weights)) / len(k))
    return best


def _causal(weight: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable:
    """A mask [T, T] from a weight of (token, earlier token), zero for later ones."""

    def mask(T: int) -> np.ndarray:
        i, j = np.indices((T, T))
        return np.where(j <= i, weight(i, j), 0.0)

    return mask


MASKS: dict[str, Callable[[int], np.ndarray]] = {
    "everything before": _causal(lambda i, j: np.ones(i.shape)),
    "decay, 0.9 a token": _causal(lambda i, j: 0.9 ** (i - j)),
    "documents of 16 tokens": _causal(lambda i, j: (i // 16 == j // 16) * 1.0),
    "two decays added": _causal(lambda i, j: 0.9 ** (i - j) + 0.5 ** (i - j)),
    "the last 8 tokens": _causal(lambda i, j: (i - j < 8) * 1.0),
    "one over the distance": _causal(lambda i, j: 1 / (1 + abs(i - j))),
    "ones and zeros at random": _causal(
        lambda i, j: 1.0 * (np.random.default_rng(0).random(i.shape) < 0.5)
    ),
}


def states_needed(mask: np.ndarray, error: float = 1e-9) -> int:
    """How many matrices a single pass must carry to apply a causal mask [T, T].

    After token t the later queries see the earlier pairs through the block of rows
    from t and columns up to t. What they need of the pairs is as much as that block's
    rank, and no less. Singular values below `error` times the largest count as zero.
    """
    most = 0
    for t in range(len(mask)):
        values = np.linalg.svd(mask[t:, : t + 1], compute_uv=False)
        most = max(most, int((values > error * values[0]).sum()))
    return most


def masked_scan(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, A: np.ndarray, B: np.ndarray
) -> np.ndarray:
    """Linear attention under the causal mask A B' in one pass, with r states.

    A and B are [T, r]: each state writes with its own strength B[t], and the query of
    token t mixes what it reads from them by A[t].
    """
    S = np.zeros((A.shape[1], k.shape[1], v.shape[1]), dtype=v.dtype)
    o = np.empty_like(v)
    for t in range(len(q)):
        S = S + B[t][:, None, None] * np.outer(k[t], v[t])
        o[t] = A[t] @ (q[t] @ S)
    return o


def _rows_to_one(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum(axis=1, keepdims=True)
