"""How kernels are launched: one small table, and why.

Nothing is tuned at run time: a choice depends on the head's sizes alone, so that a
result does, too.
"""

from typing import NamedTuple


class Launch(NamedTuple):
    """Columns of the tiles of keys and of values, and Triton's own options."""

    K: int
    V: int
    how: dict[str, int]


def padded(d: int) -> int:
    """The columns of a tile that holds d channels.

    A power of two, as all tiles; and 16 at least, which is the least that a product of
    matrices takes.
    """
    return max(16, 1 << (d - 1).bit_length())


def launch(kernel: str, d_k: int, d_v: int = 1) -> Launch:
    """The choice for one kernel."""
    K, V = padded(d_k), padded(d_v)
    if kernel == "pairs":
        return Launch(K, 0, {"num_warps": 2, "num_stages": 1})
    if kernel == "recurrent":
        # a state [128, 8] takes 32 registers of each of a warp's threads
        return Launch(K, min(8, V), {"num_warps": 1, "num_stages": 1})
    if kernel == "gradients":
        # five accumulators [64, 64] are too many for the registers of four warps
        return Launch(min(64, K), min(64, V), {"num_warps": 8, "num_stages": 2})
    if kernel == "reverse":
        return Launch(K, min(32, V), {"num_warps": 8, "num_stages": 2})
    # few columns, so that there are enough programs and the state stays in registers
    return Launch(K, min(32, V), {"num_warps": 4, "num_stages": 2})
