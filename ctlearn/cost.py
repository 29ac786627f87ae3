"""What remembering costs: bytes kept, and multiplications done, as formulas.

Bytes are those of the arrays themselves, `nbytes`; an allocator may take more. Each
operation is one multiplication with its addition, and no plan is credited for the half
of a causal matrix that it computes and masks. One head, unless `heads` says more; d_k
and d_v are the sizes after any feature map. Sizes are whole numbers of at least 0.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from typing import NamedTuple, TypeVar

from ctlearn.buckets import levels_after

_Layer = TypeVar("_Layer")

BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


def cache_bytes(
    T: int, d_k: int, d_v: int, *, heads: int = 1, dtype: str = "float32"
) -> int:
    """Key-value cache after T tokens: each head keeps T keys and T values.

    `heads` counts all heads of all layers that keep a cache of their own. Raises
    KeyError for a dtype that `BYTES` lacks.
    """
    return heads * T * (d_k + d_v) * BYTES[dtype]


def state_bytes(
    d_k: int,
    d_v: int,
    *,
    heads: int = 1,
    normaliser: bool = False,
    dtype: str = "float32",
) -> int:
    """A state [d_k, d_v] for each head, whatever T; `normaliser` adds a column."""
    return heads * d_k * (d_v + int(normaliser)) * BYTES[dtype]


def window_bytes(
    T: int,
    d_k: int,
    d_v: int,
    *,
    window: int,
    heads: int = 1,
    dtype: str = "float32",
) -> int:
    """A cache of the last `window` pairs, which is a cache until it is full."""
    return cache_bytes(min(T, window), d_k, d_v, heads=heads, dtype=dtype)


def latent_bytes(
    T: int, d_latent: int, *, layers: int = 1, dtype: str = "float32"
) -> int:
    """Latent attention after T tokens: one vector for all heads of a layer.

    `d_latent` counts all its entries: what keys and values are made of, and the
    channels that know positions.
    """
    return cache_bytes(T, d_latent, 0, heads=layers, dtype=dtype)


def levels_bytes(
    T: int, d_k: int, d_v: int, *, heads: int = 1, dtype: str = "float32"
) -> int:
    """Log-linear attention after T tokens: a state for each level (`ctlearn.buckets`).

    Levels that are empty are counted, for an array of all levels has room for them.
    """
    return state_bytes(d_k, d_v, heads=levels_after(T) * heads, dtype=dtype)


def convolution_bytes(channels: int, *, width: int = 4, dtype: str = "float32") -> int:
    """A short convolution: the last width - 1 inputs of each channel."""
    return channels * (width - 1) * BYTES[dtype]


def stack_bytes(T: int, pattern: Sequence[Callable[[int], int]], n_layers: int) -> int:
    """Layers after T tokens; layer i keeps what `pattern[i % len(pattern)]` says of T.

    The patterns are those of `ctlearn.layers.hybrid`. Raises ValueError for an empty
    one.
    """
    return sum(layer(T) for layer in _repeated(pattern, n_layers))


def _repeated(pattern: Sequence[_Layer], n_layers: int) -> Iterator[_Layer]:
    """So many layers, the pattern again and again."""
    if not pattern:
        raise ValueError("pattern: expected at least one layer, got none")
    return islice(cycle(pattern), n_layers)


def equal_bytes(d_k: int, d_v: int) -> float:
    """Number of tokens after which cache and state take the same room."""
    return d_k * d_v / (d_k + d_v)


def recurrent_operations(T: int, d_k: int, d_v: int) -> int:
    """T writes of one outer product and T reads of the state."""
    return 2 * T * d_k * d_v


def parallel_operations(T: int, d_k: int, d_v: int) -> int:
    """T x T scores, and their product with the values; no state comes in or goes out.

    A state that does both costs 2 T d_k d_v more.
    """
    return T * T * (d_k + d_v)


def chunkwise_operations(T: int, d_k: int, d_v: int, chunk_size: int) -> int:
    """Each chunk: parallel inside, and one read and one write of the state.

    The last chunk may be shorter. With chunk_size >= T this is the parallel plan with
    a state. Raises ValueError for a chunk_size below 1.
    """
    if chunk_size < 1:
        raise ValueError(f"chunk_size: expected at least 1, got {chunk_size}")
    whole, rest = divmod(T, chunk_size)
    inside = (whole * chunk_size**2 + rest**2) * (d_k + d_v)
    return inside + 2 * T * d_k * d_v


def softmax_step_operations(t: int, d_k: int, d_v: int) -> int:
    """One query against a cache of t pairs; each is read once."""
    return t * (d_k + d_v)


def latent_step_operations(t: int, rank: int) -> int:
    """One head's query against t tokens of latent attention, and its answer.

    The maps from latent numbers to keys and values are applied to the query and to the
    answer instead, which is paid once a token, as any projection is, and not counted.
    """
    return 2 * t * rank


def delta_step_operations(d_k: int, d_v: int) -> int:
    """One token of a delta rule: ask at the key, write, ask at the query."""
    return 3 * d_k * d_v


def log_linear_step_operations(t: int, d_k: int, d_v: int) -> int:
    """Token t of log-linear attention: write one state, read and weigh every level."""
    return d_k * d_v + levels_after(t) * (d_k + 1) * d_v


def recurrent_numbers(d_k: int, d_v: int) -> int:
    """Working memory of the recurrent plan: the state alone."""
    return d_k * d_v


def prefix_states_numbers(T: int, d_k: int, d_v: int) -> int:
    """A state for every token at once, as a cumulative sum of outer products keeps."""
    return T * d_k * d_v


def parallel_numbers(T: int) -> int:
    """Working memory of the parallel plan: its T x T scores."""
    return T * T


def chunkwise_numbers(d_k: int, d_v: int, chunk_size: int) -> int:
    """Working memory of the chunkwise plan: one chunk's scores and one state."""
    return chunk_size**2 + d_k * d_v


def chunkwise_seconds(
    T: int, d: int, chunk_size: float, *, per_chunk: float, per_operation: float
) -> float:
    """Two-term model of the chunkwise plan at d_k = d_v = d: overhead and arithmetic.

    `per_chunk` and `per_operation` are seconds. Chunks are counted as T / chunk_size,
    so the curve is smooth in it.
    """
    operations = T * (2 * d * d + 2 * chunk_size * d)
    return per_chunk * T / chunk_size + per_operation * operations


def best_chunk_size(d: int, *, per_chunk: float, per_operation: float) -> float:
    """The chunk size at which that model is fastest: sqrt(per_chunk / (2 d per_op))."""
    return math.sqrt(per_chunk / (2 * per_operation * d))


def large_chunk_operations(C: int, d: int, d_h: int) -> int:
    """LaCT on a mini-batch of C tokens, without Muon: apply it, then its gradients.

    Three products with a weight matrix answer a token, six more learn from it.
    """
    return 9 * C * d * d_h


def muon_operations(d: int, d_h: int, steps: int = 5) -> int:
    """Newton and Schulz's iteration on the three matrices of a gated unit, d <= d_h."""
    return 3 * steps * (2 * d * d * d_h + d**3)


def large_chunk_numbers(C: int, d: int, d_h: int) -> int:
    """The least that a mini-batch must move: weights in and out, q, k, v in and o out.

    Whatever else is computed on the way is taken to stay where it is computed.
    """
    return 2 * 3 * d * d_h + 4 * C * d


def large_chunk_intensity(C: int, d: int, d_h: int) -> float:
    """Multiplications for each number moved; below 3 C / 2, however large d_h is."""
    return large_chunk_operations(C, d, d_h) / large_chunk_numbers(C, d, d_h)


class Sizes(NamedTuple):
    """A model's layers: heads, sizes of key and value, and what bounds a cache.

    `window` is in tokens, `rank` in numbers a token of latent attention. Cached pairs
    are in `dtype`, states in float32, as sums over many tokens should be.
    """

    heads: int
    d_k: int
    d_v: int
    window: int
    rank: int
    dtype: str = "bfloat16"


class Cost(NamedTuple):
    """What layers hold after T tokens, and what the T-th costs them.

    Bytes of a cache, bytes of states, and operations of reading and writing both.
    """

    cache: int
    state: int
    operations: int


# The dtype of a state.
_SUMS = "float32"


def full(T: int, x: Sizes) -> Cost:
    """A layer of softmax attention."""
    cache = cache_bytes(T, x.d_k, x.d_v, heads=x.heads, dtype=x.dtype)
    return Cost(cache, 0, x.heads * softmax_step_operations(T, x.d_k, x.d_v))


def windowed(T: int, x: Sizes) -> Cost:
    """A layer of softmax attention to the last `window` tokens."""
    return full(min(T, x.window), x)


def latent(T: int, x: Sizes) -> Cost:
    """A layer of latent attention."""
    cache = latent_bytes(T, x.rank, dtype=x.dtype)
    return Cost(cache, 0, x.heads * latent_step_operations(T, x.rank))


def fixed(T: int, x: Sizes) -> Cost:
    """A layer of a delta rule, behind a convolution of queries, keys and values."""
    state = state_bytes(x.d_k, x.d_v, heads=x.heads, dtype=_SUMS)
    operations = x.heads * delta_step_operations(x.d_k, x.d_v)
    return Cost(0, state + _convolution(x), operations)


def log_linear(T: int, x: Sizes) -> Cost:
    """A layer of log-linear attention, behind the same convolution."""
    state = levels_bytes(T, x.d_k, x.d_v, heads=x.heads, dtype=_SUMS)
    operations = x.heads * log_linear_step_operations(T, x.d_k, x.d_v)
    return Cost(0, state + _convolution(x), operations)


def _convolution(x: Sizes) -> int:
    return convolution_bytes(x.heads * (2 * x.d_k + x.d_v), dtype=x.dtype)


# A layer is one memory or several beside each other; a pattern of layers repeats.
Pattern = Sequence[Sequence[Callable[[int, Sizes], Cost]]]
PATTERNS: dict[str, Pattern] = {
    "softmax": [[full]],
    "latent": [[latent]],
    "every_fourth": [[fixed], [fixed], [fixed], [full]],
    "every_fourth_latent": [[fixed], [fixed], [fixed], [latent]],
    "log_linear": [[log_linear]],
    "window": [[windowed, fixed]],
    "state": [[fixed]],
}


def pattern_cost(pattern: Pattern, n_layers: int, T: int, x: Sizes) -> Cost:
    """All of `n_layers` layers, of which layer i is `pattern[i % len(pattern)]`.

    Raises ValueError for an empty pattern.
    """
    layers = _repeated(pattern, n_layers)
    parts = [memory(T, x) for layer in layers for memory in layer]
    return Cost(*(sum(numbers) for numbers in zip(*parts, strict=True)))
