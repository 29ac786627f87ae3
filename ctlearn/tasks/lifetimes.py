"""Lifetimes: a stream of any length, learned in one pass and in constant memory.

    v_t = W'k_t + noise,   k_t of length one,   and W is replaced once, half-way through

as in `ctlearn.tasks.streams`, but the stream is made a block at a time and dropped, so
that nothing grows with it but what a learner keeps. Two learners with a state of the
same size read it: the delta rule at a constant rate, and linear attention, which adds,
read at the scale that is best for a rule that has never changed. Errors are mean
squares over all keys there are, against clean values: answering zero scores 1 on
average.
"""

import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ctlearn.mixers import delta_rule
from ctlearn.tasks.future_pairs import best_step
from ctlearn.tasks.recall import unit_vectors

Array = np.ndarray
_MEMORY = Path("/proc/self/statm")


class Block(NamedTuple):
    """Some tokens of a stream: k [T, d_k], v [T, d_v], and their rule W [d_k, d_v]."""

    k: Array
    v: Array
    W: Array


class Moment(NamedTuple):
    """What holds after so many tokens.

    The errors of the learners, the seconds that they took for the last block, the bytes
    of one learner's state, and those that the whole process holds.
    """

    tokens: int
    delta: float
    added: float
    seconds: float
    state: int
    held: int


def stream(
    seed: int, tokens: int, *, d: int = 16, noise: float = 0.5, block: int = 1000
) -> Iterator[Block]:
    """Blocks of float32, d_k = d_v = d; half of the blocks follow a second rule.

    They are small, since what they weigh comes and goes in what the process holds.
    """
    rng = np.random.default_rng(seed)
    rules = rng.standard_normal((2, d, d), dtype="float32")
    for start in range(0, tokens, block):
        n, W = min(block, tokens - start), rules[int(2 * start >= tokens)]
        k = unit_vectors(rng, n, d).astype("float32")
        yield Block(k, k @ W + noise * rng.standard_normal((n, d), dtype="float32"), W)


def live(blocks: Iterator[Block], *, beta: float, noise: float) -> Iterator[Moment]:
    """Read blocks one by one, and say after each how things stand.

    `noise` is that of the stream, by which linear attention sets its scale. It is not
    asked for each token, so its sum is made of a block's products at once.
    """
    delta = total = None
    tokens = 0
    for k, v, W in blocks:
        start = time.perf_counter()
        rates = np.full(len(k), beta, dtype=k.dtype)
        _, delta = delta_rule.chunkwise(k, k, v, beta=rates, S=delta)
        total = k.T @ v if total is None else total + k.T @ v
        took = time.perf_counter() - start
        tokens += len(k)
        fitted = best_step(tokens, k.shape[1], noise) * total
        yield Moment(
            tokens,
            float(((delta - W) ** 2).mean()),
            float(((fitted - W) ** 2).mean()),
            took,
            delta.nbytes,
            held(),
        )


def held() -> int:
    """Bytes of memory that this process holds.

    By the system's account where it gives one in /proc; elsewhere by Python's own,
    which begins at the first call.
    """
    if _MEMORY.exists():
        import resource

        return int(_MEMORY.read_text().split()[1]) * resource.getpagesize()
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    return tracemalloc.get_traced_memory()[0]


def cache_bytes(tokens: int, d: int, width: int = 4) -> int:
    """What as many keys and values of size d weigh, `width` bytes a number."""
    return 2 * tokens * d * width
