"""Traffic: what a plan moves between a chip and its memory, and the floor under it.

A plan is a few launches. What is kept within a launch stays on the chip; what one hands
to the next goes to memory and comes back. So a launch moves each tensor that it reads
or writes, once at least. Per token and head that is a count of numbers; a chunk's
square matrix has C numbers a token, and a state before each chunk d_k d_v / C.

No time is shorter than what the bytes take at the memory's speed, nor than what the
multiplications take at the processor's [williams2009]. The machine is assumed: that of
`ctlearn.kernels.report`, and beside its units for matrices those for single numbers.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from ctlearn import cost

BANDWIDTH, PEAK = 4.3e12, 790e12  # bytes, and operations on matrices, a second
NUMBERS_PEAK = 67e12  # operations on single float32 numbers a second [nvidia2024]

# By plan: its launches, and the tensors that each reads or writes.
PLANS: dict[str, dict[str, str]] = {
    "recurrent": {"recurrent": "q k v beta o"},
    "naive_chunkwise": {
        "inverse": "k beta A",
        "writes": "k v beta A W U",
        "states": "k W U R before",
        "outputs": "q k R before o",
    },
    "chunkwise": {"inverse": "k beta A", "scan": "q k v beta A o"},
    # with a decay g, summed in place of itself: five launches, and a matrix that is
    # filled with zeros first
    "flash-linear-attention": {
        "sums of g": "g G",
        "zeros": "A",
        "inverse": "k G beta A",
        "writes": "k v G beta A W U",
        "states": "k W U G R before",
        "outputs": "q k G R before o",
    },
    "chunkwise, with decay": {"inverse": "k g beta A", "scan": "q k v g beta A o"},
    # other mechanisms, each in one launch that stores nothing on the way
    "linear_attention": {"scan": "q k v o"},
    "softmax_attention": {"attention": "q k v o"},
    # a launch for every token; a state is read and written back, a cache is read
    "decode_state": {"step": "q k v beta S S o"},
    "decode_cache": {"step": "q k v cache o"},
}
# The delta rule's own; and those whose products are of vectors.
RUNGS = ("recurrent", "naive_chunkwise", "chunkwise")
VECTORS = ("recurrent", "decode_state", "decode_cache")


class Sizes(NamedTuple):
    """Channels of keys and values, tokens of a chunk, value columns of a program.

    And T, the tokens of a sequence, which count where there is a cache.
    """

    d_k: int = 128
    d_v: int = 128
    C: int = 64
    V: int = 32
    T: int = 8192


class Machine(NamedTuple):
    """Bytes a second; operations a second on matrices, and on single numbers."""

    bandwidth: float = BANDWIDTH
    peak: float = PEAK
    numbers_peak: float = NUMBERS_PEAK


def numbers(tensors: Iterable[str], sizes: Sizes) -> Fraction:
    """Numbers of half precision a token and head, all of the tensors together.

    A decay, its running sum and a state that is decoded from are single precision, and
    so count twice.
    """
    d_k, d_v, C, _, T = sizes
    each: dict[str, Any] = dict.fromkeys("qkW", d_k) | dict.fromkeys("vURo", d_v)
    each |= {"beta": 1, "g": 2, "G": 2, "A": C, "before": Fraction(d_k * d_v, C)}
    each |= {"S": 2 * d_k * d_v, "cache": T * (d_k + d_v)}
    return sum((Fraction(each[name]) for name in tensors), Fraction(0))


def bytes_moved(
    plan: str, sizes: Sizes | None = None, *, plans: Mapping[str, dict] = PLANS
) -> float:
    """Bytes a token and head, each tensor once for each launch that touches it."""
    launches, sizes = plans[plan], sizes or Sizes()
    return float(
        sum(
            cost.BYTES["bfloat16"] * numbers(x.split(), sizes)
            for x in launches.values()
        )
    )


def multiplications(plan: str, sizes: Sizes | None = None) -> float:
    """Multiplications of a plan a token and head, products of matrices alone.

    The triangular system's own are left out: a few thousand a token, in float32. In
    "chunkwise" and "linear_attention" every program, of V value columns, multiplies
    Q K' again. Softmax attention asks the tokens before and the token itself, in the
    mean over T of them; its exponentials are not counted.
    """
    d_k, d_v, C, V, T = sizes or Sizes()
    states, scores = cost.delta_step_operations(d_k, d_v), d_k * -(-d_v // V)
    return {
        "recurrent": states,
        "naive_chunkwise": states + C * (3 * d_k + 2 * d_v),
        "chunkwise": states + C * (d_k + scores + 2 * d_v),
        "linear_attention": 2 * d_k * d_v + C * (scores + d_v),
        "softmax_attention": cost.softmax_step_operations(T + 1, d_k, d_v) / 2,
        "decode_state": states,
        "decode_cache": cost.softmax_step_operations(T, d_k, d_v),
    }[plan]


def roofline(
    moved: float, operations: float, *, bandwidth: float = BANDWIDTH, peak: float = PEAK
) -> float:
    """Seconds that bytes and operations take at least, if both go on at once."""
    return max(moved / bandwidth, operations / peak)


def floors(
    sizes: Sizes | None = None,
    *,
    plans: Iterable[str] = RUNGS,
    machine: Machine | None = None,
) -> dict[str, tuple[float, float, float]]:
    """By plan: bytes, operations (two a multiplication), picoseconds a token and head.

    Products of vectors go at the speed of single numbers.
    """
    bandwidth, peak, numbers_peak = machine or Machine()
    found = {}
    for plan in plans:
        moved, work = bytes_moved(plan, sizes), 2.0 * multiplications(plan, sizes)
        roof = numbers_peak if plan in VECTORS else peak
        time = roofline(moved, work, bandwidth=bandwidth, peak=roof)
        found[plan] = moved, work, 1e12 * time
    return found
