"""Training: one loop for one process, for several, and for a run that was broken off.

A step is AdamW's, of gradients no longer than 1, at a rate that rises for a twentieth
of the steps and then falls along half a wave to zero. All about a step follows from its
number: which characters are read, and how fast is learned. So a run is known by its
settings, and to go on it needs the weights, the optimiser's averages, and the number.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers.arguments import wide
from ctlearn.layers.model import LanguageModel
from ctlearn.train.contestants import Shape
from ctlearn.train.kept import Kept
from ctlearn.train.processes import Processes
from ctlearn.train.text import windows


class Run(NamedTuple):
    """How to train: steps of B stretches of T characters, over all processes.

    `rate` is the highest, and `seed` sets what is read.
    """

    steps: int = 300
    B: int = 16
    T: int = 128
    rate: float = 6e-3
    seed: int = 0

    def rate_at(self, step: int) -> float:
        """The rate of a step, which is counted from 0."""
        rise = max(1, self.steps // 20)
        if step < rise:
            return self.rate * (step + 1) / rise
        done = (step - rise) / max(1, self.steps - rise)
        return self.rate * (1 + math.cos(math.pi * done)) / 2


class Setting(NamedTuple):
    """What a page trains: a model of one's own, and how."""

    shape: Shape
    run: Run


ON_A_PROCESSOR = Setting(Shape(), Run(steps=240, rate=1e-2))
ON_A_GPU = Setting(
    Shape(d_model=256, n_layers=8, n_heads=4, d_head=64),
    Run(steps=4000, B=64, T=512, rate=3e-3),
)


def setting() -> Setting:
    """The larger one where there is a GPU."""
    return ON_A_GPU if torch.cuda.is_available() else ON_A_PROCESSOR


def nats(model: nn.Module, stretches: Tensor) -> Tensor:
    """The surprise at each next character of stretches [B, T + 1], [B, T]."""
    logits, _ = model(stretches[:, :-1])
    logits = logits.to(wide(logits.dtype)).flatten(0, 1)
    told = F.cross_entropy(logits, stretches[:, 1:].flatten(), reduction="none")
    return told.view(len(stretches), -1)


def optimiser(model: nn.Module) -> torch.optim.AdamW:
    """AdamW, whose decay draws at matrices alone: a gain or a bias has no size to keep
    small.
    """
    matrices = [w for w in model.parameters() if w.dim() > 1]
    others = [w for w in model.parameters() if w.dim() <= 1]
    groups = [{"params": matrices}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), weight_decay=0.1)


def take(
    step: int, model: nn.Module, adam: torch.optim.AdamW, batch: Tensor, run: Run
) -> Tensor:
    """One step on this process's share of a batch; the mean surprise there."""
    for group in adam.param_groups:
        group["lr"] = run.rate_at(step)
    adam.zero_grad()
    loss = nats(model, batch).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    adam.step()
    return loss.detach()


def learn(
    model: LanguageModel,
    part: Tensor,
    run: Run,
    *,
    among: Processes | None = None,
    sharded: bool = False,
    keep: tuple[Kept, int] | None = None,
    show: Callable[[range], Iterable[int]] = iter,
) -> Tensor:
    """Train a model on a text; the mean surprise of each step's batch, [steps].

    `keep` says where and after how many steps at a time a run is kept; it goes on from
    what is there. `show` may show how far the steps are.
    """
    among = Processes() if among is None else among
    spread = among.spread(model, sharded=sharded)
    adam, losses = optimiser(spread), torch.zeros(run.steps, dtype=torch.float64)
    first = keep[0].load(spread, adam, losses) if keep else 0
    for step in show(range(first, run.steps)):
        batch = windows(part, run.B, run.T, seed=run.seed, step=step)
        loss = take(step, spread, adam, among.share(batch), run)
        losses[step] = among.mean(loss).cpu()
        if keep and (step + 1) % keep[1] == 0:
            keep[0].save(step + 1, spread, adam, losses)
    return losses
