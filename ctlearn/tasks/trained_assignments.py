"""Trained assignments: can a small state learn to run programs that never end?

A line sets a variable to a number, x <- c, or adds one to it, x <- x + c; numbers are
counted modulo MODULUS, and variables are 0 at first. After each line one variable is
asked for. Layers are those of `ctlearn.tasks.trained_tracking`, with a query for each
variable; they differ in how many steps of the delta rule a line takes, and how strong.
Beside them is a GRU whose state has as many numbers,

    r, z = sigmoid of x_r + U_r h + b_r and of x_z + U_z h + b_z
    h   <- z h + (1 - z) tanh(x_n + r (U_n h + b_n))

with x_r, x_z and x_n learned for each line, and the same network behind its state. A
window of the last lines is right where the variable was set in it, and else guesses.

All learn on programs of which the share SETS of the lines sets, and are tested on more
of that kind, and on others where lines set more RARELY: what a variable holds then
comes from further back.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlearn.tasks import trained_tracking
from ctlearn.tasks.trained_tracking import HEADS, HIDDEN, D, Kind, learn, strengths
from ctlearn.tasks.training import Setting, on, setting

VARIABLES, MODULUS, LENGTH = 3, 3, 24
SETS, RARELY = 0.2, 0.02  # shares of lines that set
LINES = 2 * VARIABLES * MODULUS
STATE = HEADS * D * D  # numbers that a layer's state has
KINDS = {
    "one step, strength up to 1": Kind(1, 1.0),
    "one step, strength up to 2": Kind(1, 2.0),
    "two steps, strength up to 2": Kind(2, 2.0),
}
GRU = "GRU"


class Programs(NamedTuple):
    """Lines, the variables asked for and their values, each [n, T]."""

    line: Tensor
    asked: Tensor
    wanted: Tensor


class Right(NamedTuple):
    """Shares of right answers at each line of new programs, [names, seeds, tested].

    `usual` where as many lines set as in training, `rare` where RARELY one does.
    """

    usual: Tensor
    rare: Tensor


def draw(n: int, T: int, generator: torch.Generator, *, sets: float = SETS) -> Programs:
    """Programs of T lines, the share `sets` of which set, with a question behind each.

    All numbers are as likely, and so are all variables.
    """

    def random(most: int) -> Tensor:
        return torch.randint(most, (n, T), generator=generator)

    adds = torch.rand(n, T, generator=generator) >= sets
    target, number, asked = random(VARIABLES), random(MODULUS), random(VARIABLES)
    held, wanted = torch.zeros(n, VARIABLES, dtype=torch.long), torch.empty_like(asked)
    for t in range(T):
        at = target[:, t : t + 1]
        told = held.gather(1, at) * adds[:, t : t + 1] + number[:, t : t + 1]
        held.scatter_(1, at, told % MODULUS)
        wanted[:, t] = held.gather(1, asked[:, t : t + 1])[:, 0]
    return Programs((adds * VARIABLES + target) * MODULUS + number, asked, wanted)


def window_ceiling(window: int, *, sets: float = SETS) -> float:
    """The best share of right answers of a window of so many lines, late in a program.

    All numbers are alike for a variable that was not set in it, since each line that
    adds may have added any. `sets` is the share of lines that set.
    """
    unset = (1 - sets / VARIABLES) ** window
    return 1 - unset + unset / MODULUS


def gru_weights(layers: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Weights of so many GRUs, in the first axis."""

    def normal(*shape: int, deviation: float) -> Tensor:
        drawn = torch.randn(layers, *shape, generator=generator)
        return (deviation * drawn).requires_grad_()

    inward = STATE**-0.5
    return {
        "x": normal(LINES, 3 * STATE, deviation=1.0),
        "U": normal(STATE, 3 * STATE, deviation=inward),
        "U_0": torch.zeros(layers, 1, 3 * STATE).requires_grad_(),
        "in": normal(STATE, HIDDEN, deviation=inward),
        "in_0": normal(VARIABLES, HIDDEN, deviation=1.0),
        "out": normal(HIDDEN, MODULUS, deviation=HIDDEN**-0.5),
        "out_0": torch.zeros(layers, 1, MODULUS).requires_grad_(),
    }


def gru(weights: dict[str, Tensor], line: Tensor, asked: Tensor) -> Tensor:
    """Logits [layers, n, T, MODULUS] of lines and questions [layers, n, T]."""
    layers, n, T = line.shape
    layer = torch.arange(layers)[:, None]
    h, states = torch.zeros(layers, n, STATE), []
    for t in range(T):
        x = weights["x"][layer, line[:, :, t]]
        seen = torch.baddbmm(weights["U_0"], h, weights["U"])
        (x_r, x_z, x_n), (h_r, h_z, h_n) = x.chunk(3, -1), seen.chunk(3, -1)
        z = torch.sigmoid(x_z + h_z)
        h = z * h + (1 - z) * torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
        states.append(h)
    read = torch.stack(states, 2).flatten(1, 2) @ weights["in"]
    hidden = F.relu(read + weights["in_0"][layer, asked.flatten(1)])
    logits = torch.baddbmm(weights["out_0"], hidden, weights["out"])
    return logits.view(layers, n, T, MODULUS)


def train(
    names: Iterable[str],
    *,
    steps: int = 750,
    rate: float = 0.05,
    batch: int = 16,
    tested: int = 512,
    seed: int = 0,
    where: Setting | None = None,
    show: Callable[[range], Iterable[int]] = iter,
) -> Right:
    """Train, and say how often each layer is right at each line of new programs.

    `names` are some of KINDS, which are trained side by side, or GRU alone. Programs
    have LENGTH lines in training, and 64 for each seed have `tested`. `seed` sets all
    that is drawn; `show` may show how far the steps are. `where` is what this machine
    can do if it is not given. Raises ValueError for GRU beside others, and KeyError for
    a name that is unknown.
    """
    where, names = where or setting(), list(names)
    if GRU in names and len(names) > 1:
        raise ValueError(f"names: expected {GRU!r} alone, got {names}")
    kinds = [KINDS[name] for name in names if name != GRU]
    with on(where):
        generator, layers = where.generator(seed), len(names) * where.seeds
        if kinds:
            weights = trained_tracking.initial_weights(
                LINES, MODULUS, layers, generator, VARIABLES
            )
        else:
            weights = gru_weights(layers, generator)

        def answered(n: int, T: int, sets: float) -> tuple[Tensor, Tensor]:
            drawn = draw(layers * n, T, generator, sets=sets)
            line, asked, wanted = (x.view(layers, n, T) for x in drawn)
            if not kinds:
                return gru(weights, line, asked), wanted
            beta = strengths(weights, kinds)
            return trained_tracking.layer(weights, beta, line, asked), wanted

        def lesson() -> tuple[Tensor, Tensor]:
            return answered(batch, LENGTH, SETS)

        longer = steps * where.longer
        learn(weights, lesson, steps=longer, rate=rate, show=show)
        found = []
        with torch.no_grad():
            for sets in (SETS, RARELY):
                logits, wanted = answered(64, tested, sets)
                right = (logits.argmax(-1) == wanted).float().mean(1)
                found.append(right.view(len(names), where.seeds, tested).cpu())
        return Right(*found)
