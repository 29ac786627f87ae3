"""What a machine trains: five layers of each kind on a processor, more on a GPU.

The chapters' training cells are the same everywhere: what they call asks `setting()`,
and draws and trains inside `on(...)` it, one turn of `one_cycle` or `descent` after
another.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch


class Setting(NamedTuple):
    """Where to train, how many seeds side by side, and how many times as long."""

    device: str
    seeds: int
    longer: int

    def generator(self, seed: int) -> torch.Generator:
        """Random numbers on that device."""
        return torch.Generator(self.device).manual_seed(seed)


ON_A_PROCESSOR = Setting("cpu", seeds=5, longer=1)
ON_A_GPU = Setting("cuda", seeds=20, longer=4)


def setting() -> Setting:
    """The larger one where there is a GPU."""
    return ON_A_GPU if torch.cuda.is_available() else ON_A_PROCESSOR


@contextmanager
def on(given: Setting) -> Iterator[None]:
    """New tensors on its device, and one thread on a processor.

    At the sizes of the chapters a second thread is in the way.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    # named as the default too, a processor would still be asked for in every call
    there = nullcontext() if given.device == "cpu" else torch.device(given.device)
    try:
        with there:
            yield
    finally:
        torch.set_num_threads(before)


def descent(
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    steps: int,
    show: Callable[[range], Iterable[int]] = iter,
) -> Iterator[int]:
    """Take a step after each turn of a loop, which leaves the gradients, and count.

    They are cleared before each turn. `show` may show how far the steps are.
    """
    for step in show(range(steps)):
        optimiser.zero_grad()
        yield step
        optimiser.step()
        schedule.step()


def one_cycle(
    groups: Sequence[tuple[Iterable[torch.Tensor], float]],
    steps: int,
    show: Callable[[range], Iterable[int]] = iter,
) -> Iterator[int]:
    """The same by Adam, each group of weights at a rate that goes up and down once.

    The rate given is the highest. Raises ValueError for a number of steps below 0.
    """
    rates = [rate for _, rate in groups]
    adam = torch.optim.Adam(
        [{"params": list(weights)} for weights, _ in groups], betas=(0.9, 0.99)
    )
    # a cycle of no steps is refused, and no training is not
    cycle = torch.optim.lr_scheduler.OneCycleLR(adam, rates, steps or 1)
    return descent(adam, cycle, steps, show)


def cut(weights: Iterable[torch.Tensor]) -> None:
    """Shorten each layer's gradient, over all its weights, to length 1 at most.

    The first axis of every weight counts layers that are trained side by side.
    """
    slopes = [w.grad for w in weights if w.grad is not None]
    squares = torch.stack([g.square().flatten(1).sum(1) for g in slopes]).sum(0)
    shorter = squares.sqrt().clamp(min=1).reciprocal()
    for g in slopes:
        g *= shorter.view(-1, *[1] * (g.ndim - 1))
