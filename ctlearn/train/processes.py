"""One process, or those that torchrun started: who reads what, and who holds what.

Several processes read equal shares of a batch. The mean of the gradients of equal
shares is the gradient of the batch, and torch forms it in one of two ways: each process
holds a copy of the model (DistributedDataParallel), or a part of every weight, which is
put together where it is needed (fully_shard). The numbers are the same.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
)
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


class Processes(NamedTuple):
    """This one's place among `size` of them, and the device that it computes on."""

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")

    def share(self, batch: Tensor) -> Tensor:
        """This process's rows of a batch that is the same for all.

        Raises ValueError if the rows cannot be shared out equally.
        """
        if len(batch) % self.size:
            raise ValueError(
                f"B: expected a multiple of {self.size} processes, got {len(batch)}"
            )
        return batch[self.rank :: self.size].to(self.device)

    def mean(self, x: Tensor) -> Tensor:
        """The mean of a number over all processes."""
        if self.size > 1:
            distributed.all_reduce(x)
        return x / self.size

    def meet(self) -> None:
        """Wait until all are here."""
        if self.size > 1:
            distributed.barrier()

    def spread(self, model: nn.Module, *, sharded: bool) -> nn.Module:
        """The model where this process computes: whole, a copy, or a part of it.

        A whole one and a part are the model itself, a copy is wrapped.
        """
        model = model.to(self.device)
        if self.size == 1:
            return model
        if not sharded:
            return DistributedDataParallel(model)
        # a warning of what in-place changes would do to a state; nothing makes any
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
        mesh = distributed.init_device_mesh(self.device.type, (self.size,))
        for block in model.hybrid.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    def whole(self, spread: nn.Module) -> dict[str, Tensor]:
        """All weights of a spread model, on the processor, under their bare names.

        All processes must ask; where weights are sharded, only the first is told.
        """
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        return get_model_state_dict(spread, options=options)


@contextmanager
def processes() -> Iterator[Processes]:
    """Those that torchrun started, or this one alone; on GPUs where there are any."""
    on_a_gpu = torch.cuda.is_available()
    if not distributed.is_torchelastic_launched():
        yield Processes(device=torch.device("cuda" if on_a_gpu else "cpu"))
        return
    device = torch.device("cpu")
    if on_a_gpu:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if on_a_gpu else "gloo")
    try:
        rank, size = distributed.get_rank(), distributed.get_world_size()
        yield Processes(rank, size, device)
    finally:
        distributed.destroy_process_group()
