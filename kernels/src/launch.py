"""How kernels are launched: one small table by kind of GPU, and why.

Nothing is tuned at run time: a choice depends on the head's sizes and on the kind of
GPU alone, so that a result does, too. The choices are the largest tiles that fit into
the registers of every kind, as `python -m ctlearn.kernels` finds them for heads of 128
channels in bfloat16.
"""

import functools
from typing import NamedTuple

from ctlearn.kernels.assembler import choose
from ctlearn.kernels.required import torch


class Launch(NamedTuple):
    """Columns of the tiles of keys and of values, and Triton's own options.

    For attention also the rows of a tile: C of queries and N of keys.
    """

    K: int
    V: int
    how: dict[str, int]
    C: int = 0
    N: int = 0


class Choice(NamedTuple):
    """One row: warps, stages of a loop's loads, and the most columns of a tile."""

    warps: int
    stages: int
    K: int = 1 << 16
    V: int = 1 << 16
    C: int = 0
    N: int = 0


# By kernel, then by target; "" is every target that has no row of its own.
CHOICES: dict[str, dict[str, Choice]] = {
    # One tile of each tensor: nothing to load ahead. The products of 64 rows are a
    # group of four warps' on Hopper.
    "inverse": {"": Choice(4, 2)},
    # Sixteen rows a program, and a row of 128 decays a thread would be too many.
    "pairs": {"": Choice(4, 1)},
    # Few value columns, so that there are programs enough and the state [128, 32] takes
    # 32 registers of a thread. Four warps, so that a program takes half an SM's
    # registers. On sm_80 operands of products lie in registers, not in shared memory:
    # there they are shared out to eight warps. On sm_90 what loads ahead keeps is a few
    # registers too many for ptxas 13.1, which it needs.
    "scan": {
        "": Choice(4, 2, V=32),
        "sm_80": Choice(8, 2, V=32),
        "sm_90": Choice(4, 1, V=32),
    },
    # A tile of decays [64, 128] in float32 is 32 registers each of a thread of eight
    # warps, and q, k and e are scaled in registers. Loaded ahead, the tiles would take
    # most of the shared memory. On sm_90 and sm_100 a state of 32 columns is a few
    # registers too many.
    "scan by channel": {
        "": Choice(8, 1, V=32),
        "sm_90": Choice(8, 1, V=16),
        "sm_100": Choice(8, 1, V=16),
    },
    # As "scan", which it runs back.
    "reverse": {"": Choice(4, 2, V=32), "sm_80": Choice(8, 2, V=32)},
    "reverse by channel": {"": Choice(8, 1, V=32), "sm_100": Choice(8, 1, V=16)},
    # Five accumulators [64, 64] are too many for the registers of four warps. gfx942
    # loads ahead into registers, of which none are left. On sm_80, with operands in
    # registers too, there is room for tiles of half the keys, and not quite.
    "gradients": {
        "": Choice(8, 2, K=64, V=64),
        "sm_80": Choice(8, 1, K=32, V=64),
        "gfx942": Choice(8, 1, K=64, V=64),
    },
    "channel scores": {"": Choice(4, 2, V=64)},
    # Six tiles [64, 16] of float32 are held through the levels; of 32 channels they
    # spill. The loop of products is short: nothing to load ahead.
    "channel gradients": {"": Choice(4, 1, K=16, V=64)},
    # A state [128, 8] takes 32 registers of each of a warp's threads.
    "recurrent": {"": Choice(1, 1, V=8)},
    # The more queries share a tile of keys, the less often keys are read.
    "attention": {"": Choice(8, 2, C=128, N=64)},
    # A query brings q, do and dq: more of them spill on an A100.
    "attention queries": {"": Choice(4, 2, C=64, N=32)},
    # dk and dv fill the registers, which leaves none to load ahead into: two programs
    # on a processor wait in turn.
    "attention keys": {"": Choice(4, 1, C=32, N=64)},
    # Exact products of float32 are sums of vectors, which take registers for both their
    # operands: larger tiles spill kilobytes a thread on NVIDIA.
    "attention in float32": {"": Choice(8, 1, C=32, N=32)},
    # The ladder's plain kernels.
    "writes": {"": Choice(4, 2)},
    "states": {"": Choice(4, 2, V=32)},
    "outputs": {"": Choice(4, 2, V=64)},
    # W [64, 64] and what is made of it are 32 registers each of a thread of four warps.
    # On the way back dW is another: NVIDIA has fewer registers a thread than AMD. Heads
    # of 128 channels would need four times as many.
    "ttt_linear_scan": {"": Choice(4, 1)},
    "ttt_linear_local": {"": Choice(4, 1)},
    "ttt_linear_reverse": {
        "": Choice(8, 1),
        "sm_90": Choice(8, 2),
        "gfx942": Choice(4, 1),
    },
}


def padded(d: int) -> int:
    """The columns of a tile that holds d channels.

    A power of two, as all tiles; and 16 at least, which is the least that a product of
    matrices takes.
    """
    return max(16, 1 << (d - 1).bit_length())


def kind(major: int, amd: bool) -> str:
    """The target whose choices are for a GPU of this major compute capability.

    A kind of its own have data centres' Hopper and Blackwell. All other GPUs of NVIDIA,
    newer ones for desks among them, multiply as sm_80 does, and have less shared
    memory than those two.
    """
    return "gfx942" if amd else {9: "sm_90", 10: "sm_100"}.get(major, "sm_80")


@functools.cache
def here() -> str:
    """The target of this machine's GPU, and sm_90 where kernels are interpreted.

    On Hopper, Triton is given an assembler that is new enough; raises RuntimeError
    where there is none.
    """
    if not torch.cuda.is_available():
        return "sm_90"
    target = kind(torch.cuda.get_device_capability()[0], bool(torch.version.hip))
    if target == "sm_90":
        choose()
    return target


def launch(kernel: str, d_k: int, d_v: int = 1, target: str | None = None) -> Launch:
    """The choice for one kernel, on this machine's GPU unless a target is named."""
    row = CHOICES[kernel]
    choice = row.get(target or here(), row[""])
    how = {"num_warps": choice.warps, "num_stages": choice.stages}
    K, V = min(choice.K, padded(d_k)), min(choice.V, padded(d_v))
    return Launch(K, V, how, choice.C, choice.N)
