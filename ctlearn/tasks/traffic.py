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

from ctlearn.cost import BYTES

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
}


class Sizes(NamedTuple):
    """Channels of keys and values, tokens of a chunk, value columns of a program."""

    d_k: int = 128
    d_v: int = 128
    C: int = 64
    V: int = 32


def numbers(tensors: Iterable[str], sizes: Sizes) -> Fraction:
    """Numbers of half precision a token and head, all of the tensors together.

    A decay and its running sum are single precision, and so count twice.
    """
    d_k, d_v, C, _ = sizes
    each: dict[str, Any] = dict.fromkeys("qkW", d_k) | dict.fromkeys("vURo", d_v)
    each |= {"beta": 1, "g": 2, "G": 2, "A": C, "before": Fraction(d_k * d_v, C)}
    return sum((Fraction(each[name]) for name in tensors), Fraction(0))


def bytes_moved(
    plan: str, sizes: Sizes | None = None, *, plans: Mapping[str, dict] = PLANS
) -> float:
    """Bytes a token and head, each tensor once for each launch that touches it."""
    launches, sizes = plans[plan], sizes or Sizes()
    return float(
        sum(BYTES["bfloat16"] * numbers(x.split(), sizes) for x in launches.values())
    )


def multiplications(plan: str, sizes: Sizes | None = None) -> int:
    """Multiplications of a plan of ours a token and head, products of matrices alone.

    The triangular system's own are left out: a few thousand a token, in float32. In
    "chunkwise" every program, of V value columns, multiplies Q K' again.
    """
    d_k, d_v, C, V = sizes or Sizes()
    states = 3 * d_k * d_v
    return {
        "recurrent": states,
        "naive_chunkwise": states + C * (3 * d_k + 2 * d_v),
        "chunkwise": states + C * (d_k + d_k * -(-d_v // V) + 2 * d_v),
    }[plan]


def roofline(
    moved: float, operations: float, *, bandwidth: float = BANDWIDTH, peak: float = PEAK
) -> float:
    """Seconds that bytes and operations take at least, if both go on at once."""
    return max(moved / bandwidth, operations / peak)


def floors(sizes: Sizes | None = None) -> dict[str, tuple[float, float, float]]:
    """By rung: bytes, operations (two a multiplication), picoseconds a token and head.

    The first rung's products are of vectors, and so at the speed of single numbers.
    """
    found = {}
    for plan in ("recurrent", "naive_chunkwise", "chunkwise"):
        moved, work = bytes_moved(plan, sizes), 2.0 * multiplications(plan, sizes)
        peak = NUMBERS_PEAK if plan == "recurrent" else PEAK
        found[plan] = moved, work, 1e12 * roofline(moved, work, peak=peak)
    return found
