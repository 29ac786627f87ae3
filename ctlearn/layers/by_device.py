"""The one memory in the form that suits the tensors' device: what layers run.

Tensors on a GPU, be it CUDA's or HIP's, go to `ctlearn.kernels.memory` where Triton is
installed, all others to `ctlearn.layers.backward`. That Triton is installed decides
nothing by itself, and tensors on a CPU never reach it. On a GPU a few tokens of which
no gradient is asked go through the kernel for decoding. In half precision the two
differ: torch computes in float32 throughout, the kernels multiply in half precision and
sum in float32. They have no float64, which torch computes on every device.

Why chunks differ in length, which changes no result: larger ones need more products for
the pairs in them, smaller ones more steps from state to state. With heads of 64 and of
128 channels on one thread of a processor, the gated delta rule in torch is fastest in
chunks of 32 (those of 64 take a third longer for 64 channels), while in NumPy, whose
steps are costlier, 32 and 64 are within a tenth of each other, and 64 it is; `make
bench` times both lengths in torch. The kernels take 64: it is the least number of rows
that the matrix instructions of Hopper work on, and half as many chunks are half as many
states to store.
"""

import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ctlearn.layers import backward

# What torch calls a GPU, HIP's as CUDA's.
GPU = "cuda"
# Asked once, and without loading it.
HAS_TRITON = importlib.util.find_spec("triton") is not None
# As many tokens at once as decoding brings: one, or the few that stand for one.
FEW = 4


def chunkwise(q: Tensor, *kz: Tensor, **others: Any) -> tuple[Tensor, Tensor]:
    """The arguments are those of `ctlearn.layers.memory.chunkwise`, and what it gives.

    It raises what the form that runs raises.
    """
    return form(q.device, q.dtype, q.shape[1], **others)(q, *kz, **others)


def form(
    device: torch.device,
    dtype: torch.dtype,
    T: int,
    *,
    chunk_size: int | None = None,
    **_: Any,
) -> Callable:
    """The form that runs T tokens of a dtype on a device, given these arguments."""
    if not has_kernels(device, dtype):
        return backward.chunkwise
    # no sooner: to load it is to load Triton
    from ctlearn.kernels import memory

    # which has no gradient
    decoding = T <= FEW and chunk_size is None and not torch.is_grad_enabled()
    return memory.recurrent if decoding else memory.chunkwise


def has_kernels(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether kernels run on a device, in a dtype: on a GPU, where Triton is."""
    return device.type == GPU and dtype != torch.float64 and HAS_TRITON
