"""How kernels are launched: one small table, and why.

Nothing is tuned at run time: a choice depends on the head's sizes alone, so that a
result does, too.
"""

from typing import NamedTuple


class Launch(NamedTuple):
    """Columns of the tiles of keys and of values, and Triton's own options.

    For attention also the rows of a tile: C of queries and N of keys.
    """

    K: int
    V: int
    how: dict[str, int]
    C: int = 0
    N: int = 0


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
    if kernel == "attention":
        # the more queries share a tile of keys, the less often keys are read
        return Launch(K, V, {"num_warps": 8, "num_stages": 2}, C=128, N=64)
    if kernel == "attention queries":
        # a query brings q, do and dq: more of them spill on an A100
        return Launch(K, V, {"num_warps": 4, "num_stages": 2}, C=64, N=32)
    if kernel == "attention keys":
        # dk and dv fill the registers, which leaves none to load ahead into: two
        # programs on a processor wait in turn
        return Launch(K, V, {"num_warps": 4, "num_stages": 1}, C=32, N=64)
    if kernel == "attention in float32":
        # exact products of float32 are sums of vectors, which take registers for both
        # their operands
        return Launch(K, V, {"num_warps": 8, "num_stages": 1}, C=32, N=32)
    if kernel == "writes":
        return Launch(K, V, {"num_warps": 4, "num_stages": 2})
    if kernel == "outputs":
        return Launch(K, min(64, V), {"num_warps": 4, "num_stages": 2})
    # few columns, so that there are enough programs and the state stays in registers
    return Launch(K, min(32, V), {"num_warps": 4, "num_stages": 2})
