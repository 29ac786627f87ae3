"""Static optimum: layers that fit their inner lessons ever better, and what they say.

In-context regression by one layer whose lessons are made of its own tokens. A token is
e = (x, y), D_X numbers and D_Y that follow from them by a rule, y = w'x / sqrt(D_X)
and noise, with w drawn anew for every sequence. The question is (x, 0). For each of h
heads, with D / h channels of keys and of values,

    k = W_k e,   v = W_v e,   S fitted to S'k = v on all tokens,   o = S'W_q (x, 0)

and W_o makes the answer of the heads side by side. S is the result of some gradient
steps from zero, of a size of one over the norm of the mean of k k', so that none runs
away, or of ridge regression. If W_k can be inverted, a perfect fit of one head is the
same for every sequence (`eq-static-map`).

Losses and errors are squared, and divided so that answering zero scores 1. All kinds of
layers with as many heads are trained side by side, on the same sequences.
[mcdermott2026, section 5]
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ctlearn.tasks.training import Setting, cut, on, one_cycle, setting

D_X, D_Y, TOKENS, LATER = 6, 2, 48, 16
D = D_X + D_Y
NOISE = 0.3
TESTED = 512

Weights = dict[str, Tensor]


class Kind(NamedTuple):
    """How a layer fits its lessons: by `steps`, a power of 2, or where 0 by a ridge.

    The ridge is a multiple of the mean square of the keys' entries. `free` says whether
    W_k is trained; it stays a rotation if not.
    """

    steps: int = 0
    ridge: float = 0.0
    free: bool = False


class Lessons(NamedTuple):
    """Moments of tokens told and of later ones, questions, and what is wanted.

    The moments are means of e e', [seeds, n, D, D]; asked [seeds, n, D_X] and wanted
    [seeds, n, D_Y].
    """

    told: Tensor
    later: Tensor
    asked: Tensor
    wanted: Tensor


class Found(NamedTuple):
    """For each kind and seed: error of the answers, and losses on both moments.

    `past` is the inner loss on the tokens that were fitted, `future` that on later
    tokens of the same sequence. `condition` is that of W_k: its largest stretch over
    its least.
    """

    error: Tensor
    past: Tensor
    future: Tensor
    condition: Tensor


def draw(seeds: int, n: int, generator: torch.Generator) -> Lessons:
    """Draw n sequences for each seed."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(seeds, n, *shape, generator=generator)

    w, x = normal(D_X, D_Y) / math.sqrt(D_X), normal(TOKENS + LATER, D_X)
    e = torch.cat([x, x @ w + NOISE * normal(TOKENS + LATER, D_Y)], -1)
    parts = e[:, :, :TOKENS], e[:, :, TOKENS:]
    told, later = (part.mT @ part / part.shape[2] for part in parts)
    asked = normal(D_X)
    return Lessons(told, later, asked, (asked[..., None, :] @ w)[..., 0, :])


def fit(G: Tensor, C: Tensor, kind: Kind) -> Tensor:
    """S of the means G of k k' and C of k v', by gradient steps or by a ridge.

    (I - eta G)^n makes as many steps as there were, so that their number is doubled
    in one go.
    """
    one = torch.eye(G.shape[-1], dtype=G.dtype, device=G.device)
    if not kind.steps:
        size = G.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
        return torch.linalg.solve(G + kind.ridge * size * one, C)
    eta = torch.linalg.matrix_norm(G, keepdim=True).reciprocal()
    S, left = eta * C, one - eta * G
    for _ in range(kind.steps.bit_length() - 1):
        S, left = S + left @ S, left @ left
    return S


def initial_weights(layers: int, generator: torch.Generator) -> Weights:
    """Weights of so many layers, in the first axis.

    W_k and W_v are rotations at first, W_q is W_k, and W_o turns values back.
    """
    drawn = torch.randn(2, layers, D, D, generator=generator)
    k, v = torch.linalg.qr(drawn).Q
    weights = {"q": k.clone(), "k": k.clone(), "v": v.clone(), "o": v.mT.clone()}
    return {name: w.requires_grad_() for name, w in weights.items()}


def layer(
    weights: Weights, kinds: Sequence[Kind], heads: int, lessons: Lessons
) -> tuple[Tensor, Tensor, Tensor]:
    """Answers [layers, n, D_Y] and the losses past and future [layers].

    Layers are those of one kind for all seeds, then those of the next.
    """
    seeds = len(lessons.asked)

    def blocks(name: str) -> Tensor:
        """[layers, 1, heads, D, D / heads]: what makes each head's channels."""
        split = weights[name].view(-1, D, heads, D // heads)
        return split.transpose(1, 2)[:, None]

    question = torch.cat([lessons.asked, 0 * lessons.wanted], -1)[:, :, None, None]
    answers, losses = [], []
    for i, kind in enumerate(kinds):
        own = slice(i * seeds, (i + 1) * seeds)
        W_q, W_k, W_v = (blocks(name)[own] for name in "qkv")
        moments = [moment[:, :, None] for moment in (lessons.told, lessons.later)]
        G, C = (W_k.mT @ moments[0] @ W for W in (W_k, W_v))
        S = fit(G, C, kind)
        o = (question @ W_q @ S)[:, :, :, 0].flatten(2)
        answers.append(o @ weights["o"][own][:, :, :D_Y])
        missed = W_k @ S - W_v  # e'missed is what each token's fit is off by
        for moment in moments:
            off, whole = (_squares(W, moment) for W in (missed, W_v))
            losses.append(off / whole)
    return torch.cat(answers), torch.cat(losses[::2]), torch.cat(losses[1::2])


def _squares(W: Tensor, moment: Tensor) -> Tensor:
    """The mean square length of W'e over all sequences and heads, [seeds]."""
    return (W * (moment @ W)).sum((-1, -2)).mean((1, 2))


def train(
    kinds: Sequence[Kind],
    *,
    heads: int = 1,
    steps: int = 150,
    rate: float = 0.03,
    batch: int = 32,
    seed: int = 0,
    where: Setting | None = None,
    show: Callable[[range], Iterable[int]] = iter,
) -> Found:
    """Train layers of each kind, and test them on sequences that are new.

    `heads` divides D. Adam, its rate up and down in one cycle, gradients cut to length
    1 in each layer. `seed` sets all that is drawn; `show` may show how far the steps
    are. `where` is what this machine can do if it is not given.
    """
    where = where or setting()
    with on(where):
        generator = where.generator(seed)
        weights = initial_weights(len(kinds) * where.seeds, generator)
        free = torch.tensor([kind.free for kind in kinds]).repeat_interleave(
            where.seeds
        )
        groups = [(weights.values(), rate)]
        for _ in one_cycle(groups, steps * where.longer, show):
            lessons = draw(where.seeds, batch, generator)
            answers, *_ = layer(weights, kinds, heads, lessons)
            # a sum over layers, so that each sees its own mean
            _errors(answers, lessons.wanted).sum().backward()
            weights["k"].grad *= free[:, None, None]
            cut(weights.values())
        with torch.no_grad():
            lessons = draw(where.seeds, TESTED, generator)
            answers, past, future = layer(weights, kinds, heads, lessons)
            stretches = torch.linalg.cond(weights["k"])
            found = _errors(answers, lessons.wanted), past, future, stretches
        return Found(*(x.view(len(kinds), where.seeds).double().cpu() for x in found))


def _errors(answers: Tensor, wanted: Tensor) -> Tensor:
    """Of each layer, on its seed's sequences; silence has 1."""
    wanted = wanted.repeat(len(answers) // len(wanted), 1, 1)
    return (answers - wanted).square().sum((1, 2)) / wanted.square().sum((1, 2))


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's: 1 if y rises wherever x does, -1 if it falls; no two x are equal."""
    ranks = [torch.tensor(z).argsort().argsort().double() for z in (x, y)]
    return float(torch.corrcoef(torch.stack(ranks))[0, 1])
