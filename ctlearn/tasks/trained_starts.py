"""Trained starts: what a learner with a hidden layer may know before it reads a pair.

A sequence tells points on a circle, x = (cos, sin) of an angle, and values that are
waves with two periods round the circle, in D_V channels, each with a height and a phase
of its own, drawn anew for each sequence. No part of such a wave is linear in the point,
and the mean over all sequences is zero.

The learner is gelu(x W_1 + b_1) W_2 + b_2, that of TTT-MLP without norm and residual,
and reads mini-batches of 8. Its inner steps move both layers, or the last one alone;
then the hidden layer is a slow feature map before a learner that is linear. A start is
random, with W_2 and b_2 zero, or taught: four slow weights that are trained through the
inner steps on the mean square of what the answers miss. Several seeds are trained side
by side.

Values have mean square 1, so answering zero scores 1.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ctlearn.layers import inner
from ctlearn.layers.inner import Affine, Training
from ctlearn.tasks.training import Setting, cut, on, one_cycle, setting

HIDDEN, D_V, T = 24, 2, 24
PERIODS = 2
INNER_BATCH = 8


class Start(NamedTuple):
    """Weights of seeds side by side: W_1 [seeds, 2, HIDDEN] and so on."""

    W_1: Tensor
    b_1: Tensor
    W_2: Tensor
    b_2: Tensor


class Waves(NamedTuple):
    """Points x [seeds, n, T + 1, 2] and values y [seeds, n, T + 1, D_V]."""

    x: Tensor
    y: Tensor


def draw(seeds: int, n: int, generator: torch.Generator) -> Waves:
    """Draw n sequences for each seed."""
    angle = 2 * math.pi * torch.rand(seeds, n, T + 1, 1, generator=generator)
    waves = torch.cat([f(PERIODS * angle) for f in (torch.cos, torch.sin)], -1)
    y = waves @ torch.randn(seeds, n, 2, D_V, generator=generator)
    return Waves(torch.cat([angle.cos(), angle.sin()], -1), y)


def random_start(seeds: int, generator: torch.Generator) -> Start:
    """Hidden units that bend at random places of the circle, and answers of zero."""
    units = 1.5 * torch.randn(seeds, 3, HIDDEN, generator=generator)
    last = torch.zeros(seeds, HIDDEN + 1, D_V)
    return Start(units[:, :2], units[:, 2] / 2, last[:, 1:], last[:, 0])


def missed(start: Start, told: Waves, beta: float, *, both: bool) -> Tensor:
    """Mean square of what is missed before each pair but the first: [seeds, n, T].

    `both` says whether inner steps move both layers, or the last alone.
    """
    x, layers = told.x, [Affine(start.W_1, start.b_1), Affine(start.W_2, start.b_2)]
    if not both:
        first, *layers = layers
        x = inner.gelu(first.read(x.flatten(1, 2))).view(*x.shape[:-1], HIDDEN)
    # seeds stand where heads do: [n, T, seeds, ...]
    k, q, v = (
        rows.permute(1, 2, 0, 3)
        for rows in (x[:, :, :-1], x[:, :, 1:], told.y[:, :, :-1])
    )
    rates = torch.full_like(k[..., 0], beta)
    f = inner.each(tuple(layers), lambda w: w.expand(len(k), *w.shape))
    S = Training.start(f, k, v)._replace(beta=rates[:, :0])
    o, _ = inner.chunkwise(q, k, v, beta=rates, S=S, inner_batch=INNER_BATCH)
    return (o.permute(2, 0, 1, 3) - told.y[:, :, 1:]).square().mean(-1)


def teach(
    *,
    both: bool,
    beta: float = 0.05,
    rate: float = 0.06,
    steps: int = 300,
    batch: int = 8,
    seed: int = 0,
    where: Setting | None = None,
) -> Start:
    """Starts that are trained on sequences which are never seen twice.

    `seed` sets all that is drawn; after 0 steps a start is still random. Adam, its rate
    up and down in one cycle. `where` is what this machine can do if it is not given.
    """
    where = where or setting()
    with on(where):
        generator = where.generator(seed)
        start = Start(
            *(w.requires_grad_() for w in random_start(where.seeds, generator))
        )
        for _ in one_cycle([(start, rate)], steps * where.longer):
            told = draw(where.seeds, batch, generator)
            missed(start, told, beta, both=both).mean((1, 2)).sum().backward()
            cut(start)
        return Start(*(w.detach().cpu() for w in start))


@torch.no_grad()
def errors(
    start: Start, betas: Sequence[float], *, both: bool, seed: int = 0
) -> tuple[float, Tensor]:
    """The best of some step sizes for all seeds, and the errors there [seeds, T].

    On 128 sequences for each seed, others than those of training, the step size chosen
    on 128 others again; divided by the mean square of what each seed's sequences tell.
    """
    told, tuning = (
        draw(len(start.W_1), 128, torch.Generator().manual_seed(apart + seed))
        for apart in (1_000_000, 2_000_000)
    )

    def left(on: Waves, beta: float) -> Tensor:
        size = on.y[:, :, 1:].double().square().mean((1, 2, 3))[:, None]
        return missed(start, on, beta, both=both).double().mean(1) / size

    best = min(betas, key=lambda b: left(tuning, b).mean().nan_to_num(math.inf))
    return best, left(told, best)
