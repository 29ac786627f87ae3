"""Factored decay: products of queries and keys when every channel fades at its rate.

    P_ij = sum_c q_ic k_jc exp(sum of log_decay over (j, i])   for j <= i, else 0

As one matrix product, (q exp(G)) (k exp(-G))' with G the running sum, it costs no
[C, C, d_k] array, but exp(-G) grows with every token and overflows: a channel that
fades by exp(-5) a token passes float32's range after 18 of them. In sub-chunks both
factors decay towards a token between them, and only the small diagonal blocks are
computed pair by pair. [yang2024gla, section 4.3]
"""

import numpy as np

from ctlearn.memory import decay_between, pairs
from ctlearn.scalars import exp


def draw(
    seed: int, C: int, d: int, strongest: float, dtype: str = "float32"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries and unit keys [C, d] and log_decay [C, d], uniform in (-strongest, 0)."""
    rng = np.random.default_rng(seed)
    q, k = rng.standard_normal((2, C, d))
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    log_decay = -rng.uniform(0, strongest, (C, d))
    return q.astype(dtype), k.astype(dtype), log_decay.astype(dtype)


def by_differences(log_decay: np.ndarray) -> np.ndarray:
    """What is kept between boundaries [C+1, C+1], as running sums would have it.

    The digits of every decay behind a strong one are lost, and behind one of minus
    infinity nothing is a number; above the diagonal it grows. `log_decay` is [C].
    """
    G = np.concatenate([np.zeros(1, log_decay.dtype), np.cumsum(log_decay)])
    with np.errstate(over="ignore", invalid="ignore"):
        return exp(G[:, None] - G)


def pairwise(q: np.ndarray, k: np.ndarray, log_decay: np.ndarray) -> np.ndarray:
    """The definition [C, C]: every pair with a decay of its own, none above 1."""
    return pairs(q, k, decay_between(log_decay, k)[1:, 1:])


def factored(q: np.ndarray, k: np.ndarray, log_decay: np.ndarray) -> np.ndarray:
    """One matrix product [C, C], which overflows where the decay is strong."""
    G = np.cumsum(log_decay, axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.tril((q * exp(G)) @ (k * exp(-G)).T)


def sub_chunked(
    q: np.ndarray, k: np.ndarray, log_decay: np.ndarray, size: int = 16
) -> np.ndarray:
    """Blocks of `size` rows: earlier keys by one matrix product, own ones by pairs.

    Queries decay since the token before the block, and keys up to that token. Both
    factors are at most 1, and both exponents are sums over the tokens between.
    """
    P = np.zeros((len(q), len(q)), dtype=q.dtype)
    for start in range(0, len(q), size):
        block = slice(start, start + size)
        P[block, block] = pairwise(q[block], k[block], log_decay[block])
        since = np.cumsum(log_decay[block], axis=0)
        until = np.cumsum(log_decay[1:start][::-1], axis=0)[::-1]
        earlier = k[:start].copy()
        earlier[:-1] *= exp(until)
        P[block, :start] = (q[block] * exp(since)) @ earlier.T
    return P
