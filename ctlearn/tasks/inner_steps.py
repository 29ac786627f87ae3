"""Inner steps: a layer trains a network on pairs, and is then asked for all of them.

Of NAMES names TOLD are told, each with a value y of D standard normal numbers. The
pairs are one mini-batch, on which f is trained by some gradient steps:

    q, k   = unit vectors along SiLU(W_q x), SiLU(W_k x),   x = E[name],   v = W_v y
    f(x)   = W_1'(silu(W_0'x) * (W_2'x))             FEATURES numbers go through W_1
    f     <- f - eta grad of sum_j loss(f(k_j), v_j)             so many inner steps
    answer = W_o'f(q)

W_q to W_o, E, the start of f and eta are learned across mini-batches, f anew in each of
them. There are fewer features than pairs, so that no memory of fixed features can be
right about all of them: see the two floors. Errors are squared, and divided so that
answering zero scores 1. Every seed's layer is trained beside the others, on its own
mini-batches.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlearn.inner import each
from ctlearn.layers.lact import Coefficients, GatedUnit, newton_schulz
from ctlearn.tasks.training import ON_A_PROCESSOR, Setting, cut, on, one_cycle, setting

NAMES, TOLD, D, FEATURES = 24, 16, 16, 12
# What a step size is at most; all three matrices together run away at the larger one.
LARGEST_RATE = {"last": 2.0, "all": 0.1}
TESTED = 256

Weights = dict[str, Tensor]


class Learner(NamedTuple):
    """How f is trained.

    On half the squared error if `squared`, else on the dot product -v'z; in its last
    matrix, or if `deep` in all three. The layer around it is trained for so many inner
    `steps`. `uphill` turns every step round. `muon` are Newton and Schulz's
    coefficients, if any; `keeps_lengths` brings each unit's weights back to the length
    they started with, after every step.
    """

    squared: bool = False
    deep: bool = False
    steps: int = 1
    uphill: bool = False
    keeps_lengths: bool = False
    muon: Coefficients = ()


class Lessons(NamedTuple):
    """Names [seeds, n, TOLD] that are told, and their values [seeds, n, TOLD, D]."""

    names: Tensor
    values: Tensor


class Tested(NamedTuple):
    """Errors and inner losses, each [counts, seeds], of some numbers of inner steps."""

    errors: Tensor
    losses: Tensor


class Last(NamedTuple):
    """A learner of one matrix W [..., FEATURES, D]: the features are fixed."""

    W: Tensor

    def read(self, x: Tensor) -> Tensor:
        """Answer [..., n, D] to features [..., n, FEATURES]."""
        return x @ self.W

    def gradient(self, x: Tensor, g: Tensor, rates: Tensor) -> "Last":
        """Sum of x_j g_j', times the second of the rates [..., 3]."""
        return Last((rates[..., 1:2] * x).mT @ g)


def draw(seeds: int, n: int, names: int, generator: torch.Generator) -> Lessons:
    """Draw n mini-batches for each seed, of some of the first `names` in any order."""
    order = torch.rand(seeds, n, names, generator=generator).argsort(-1)
    shape = (seeds, n, TOLD, D)
    return Lessons(order[..., :TOLD], torch.randn(shape, generator=generator))


def initial_weights(seeds: int, generator: torch.Generator) -> Weights:
    """The weights of `seeds` layers, in the first axis."""

    def normal(rows: int, columns: int, deviation: float = 1.0) -> Tensor:
        drawn = torch.randn(seeds, rows, columns, generator=generator)
        return (deviation * drawn).requires_grad_()

    inward = D**-0.5
    return {
        "names": normal(NAMES, D),
        **{name: normal(D, D, inward) for name in "qkvo"},
        "W_0": normal(D, FEATURES, inward),
        "W_1": normal(FEATURES, D, FEATURES**-0.5),
        "W_2": normal(D, FEATURES, inward),
        "rates": torch.zeros(seeds, 3).requires_grad_(),
    }


def trained(
    f: Any, k: Tensor, v: Tensor, rates: Tensor, how: Learner, steps: int
) -> Any:
    """Take so many steps on one mini-batch of keys and values."""
    lengths = each(_lengths, f)
    for _ in range(steps):
        g = v - f.read(k) if how.squared else v
        learned = f.gradient(k, -g if how.uphill else g, rates)
        f = each(lambda w, d: w + newton_schulz(d, how.muon), f, learned)
        if how.keeps_lengths:
            f = each(lambda w, n: w / _lengths(w) * n, f, lengths)
    return f


def layer(
    weights: Weights, how: Learner, lessons: Lessons, steps: int, told: slice
) -> tuple[Tensor, Tensor]:
    """Answers [seeds, n, TOLD, D] for all names when some were told, and inner losses.

    The loss [seeds] is the mean of that on which f was trained, over all pairs.
    """
    seeds, n, _ = lessons.names.shape

    def W(name: str) -> Tensor:
        return weights[name][:, None].expand(-1, n, -1, -1)

    x = weights["names"][torch.arange(seeds)[:, None, None], lessons.names]
    q, k = (F.normalize(F.silu(x @ W(name)), dim=-1) for name in "qk")
    v, unit = lessons.values @ W("v"), GatedUnit(W("W_0"), W("W_1"), W("W_2"))
    f: Any = unit
    if not how.deep:
        q, k = (F.silu(x @ unit.W_0) * (x @ unit.W_2) for x in (q, k))
        f = Last(unit.W_1)
    largest = LARGEST_RATE["all" if how.deep else "last"]
    rates = largest * weights["rates"].sigmoid()[:, None, None]
    f = trained(f, k[:, :, told], v[:, :, told], rates, how, steps)
    z = f.read(k)
    losses = (z - v).square().sum(-1) / 2 if how.squared else -(z * v).sum(-1)
    return f.read(q) @ W("o"), losses.mean((1, 2))


ALL = slice(None)


def train(
    how: Learner,
    *,
    names: int = NAMES,
    turned: bool = False,
    rate: float = 0.04,
    batch: int = 16,
    updates: int = 300,
    seed: int = 0,
    where: Setting | None = None,
) -> Weights:
    """Train layers on mini-batches drawn anew, which tell some of the first `names`.

    `turned` begins with minus W_v. Adam, its rate up and down in one cycle. `seed` sets
    all that is drawn, `where` is what this machine can do if it is not given.
    """
    where = where or setting()
    with on(where):
        generator = where.generator(seed)
        weights = initial_weights(where.seeds, generator)
        if turned:
            weights["v"].data.neg_()
        for _ in one_cycle([(weights.values(), rate)], updates * where.longer):
            lessons = draw(where.seeds, batch, names, generator)
            answers, _ = layer(weights, how, lessons, how.steps, ALL)
            # a sum over seeds, so that each sees its own mean
            _errors(answers, lessons).sum().backward()
            cut(weights.values())
        return {name: w.detach().cpu() for name, w in weights.items()}


@torch.no_grad()
def ask(
    weights: Weights,
    how: Learner,
    counts: Sequence[int],
    *,
    names: int = NAMES,
    seed: int = 0,
) -> Tested:
    """Errors and inner losses after each of these numbers of inner steps."""
    lessons = _tests(weights, names, seed)
    with on(ON_A_PROCESSOR):
        said = [layer(weights, how, lessons, steps, ALL) for steps in counts]
    errors = [_errors(answers, lessons) for answers, _ in said]
    return Tested(torch.stack(errors), torch.stack([losses for _, losses in said]))


@torch.no_grad()
def superposition_gap(weights: Weights, how: Learner, *, seed: int = 0) -> Tensor:
    """How far what two halves teach is from adding up to what the whole does, [seeds].

    The root mean square of the difference, as a share of that of what the whole does.
    """
    lessons = _tests(weights, NAMES, seed)
    parts = (ALL, slice(TOLD // 2), slice(TOLD // 2, None), slice(0))
    with on(ON_A_PROCESSOR):
        whole, first, second, nothing = (
            layer(weights, how, lessons, how.steps, told)[0] for told in parts
        )
    apart = (whole - nothing) - (first - nothing) - (second - nothing)
    return apart.square().mean((1, 2, 3)).sqrt() / (
        (whole - nothing).square().mean((1, 2, 3)).sqrt()
    )


def attention_floor(names: int, told: int, features: int) -> float:
    """The least mean error of linear attention on `features` <= `names` fixed features.

    Its answer to a name is a sum of the values told, each times a number that is set by
    the two names. The numbers are a matrix of rank `features`, whose trace is held up
    by its squares: what is right about one's own value is paid for by other values.
    """
    others = (told - 1) / (names - 1)
    return 1 - 1 / (1 - others + others * names / features)


def regression_floor(told: int, features: int) -> float:
    """The least mean error of any weights on fixed features: what they cannot reach."""
    return max(0.0, 1 - features / told)


def _tests(weights: Weights, names: int, seed: int) -> Lessons:
    # not the numbers that a training with this seed begins with
    generator = torch.Generator().manual_seed(seed + 1_000_000)
    return draw(len(weights["names"]), TESTED, names, generator)


def _errors(answers: Tensor, lessons: Lessons) -> Tensor:
    """The mean square error of each seed, as a share of that of answering zero."""
    missed, whole = (answers - lessons.values).square(), lessons.values.square()
    return missed.sum((1, 2, 3)) / whole.sum((1, 2, 3))


def _lengths(w: Tensor) -> Tensor:
    """Those of the columns, which are the units' weights."""
    return torch.linalg.vector_norm(w, dim=-2, keepdim=True)
