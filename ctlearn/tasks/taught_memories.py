"""Taught memories: the memories of `deep_memories`, from a start that was trained.

A sequence has 64 pairs without a rule: keys of length one in 16 dimensions, values of
16 normal numbers. It is told once, in mini-batches of 16, and then asked for all of
them. Slow weights are trained through the inner steps on the squared errors of those
answers: the hidden layer W_1, b_1, the last layer's start, and a step size for each
layer that learns. What they learn holds for all sequences; no pair is ever seen twice.

    matrix       the step size alone: by symmetry the best start is zero
    features     all; the hidden layer stays as it is in every sequence
    perceptron   all; the hidden layer goes on learning in every sequence

All seeds are trained side by side. Answering zero scores 1.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlearn.layers import inner
from ctlearn.layers.inner import Affine
from ctlearn.tasks.deep_memories import KINDS, Memories, errors
from ctlearn.tasks.training import Setting, cut, on, one_cycle, setting

D, PAIRS, INNER_BATCH = 16, 64, 16


class Slow(NamedTuple):
    """Slow weights, [seeds, ...]: a hidden layer, a start, log step sizes [layers]."""

    W_1: Tensor
    b_1: Tensor
    W_2: Tensor
    log_beta: Tensor


class Taught(NamedTuple):
    """What teaching came to, each [seeds].

    Errors of recall as taught, and with the hidden layer held still, which are the same
    where none moves; and the `overlap` of two keys before training and after it.
    """

    moving: Tensor
    still: Tensor
    before: Tensor
    after: Tensor


def draw(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Keys [n, PAIRS, D] of length one and values of the same shape."""
    k, v = torch.randn(2, n, PAIRS, D, generator=generator)
    return F.normalize(k, dim=-1), v


def random_start(kind: str, d_h: int, seeds: int, generator: torch.Generator) -> Slow:
    """Random hidden units, and a last layer that is near zero."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(seeds, *shape, generator=generator)

    width, layers = (D if kind == "matrix" else d_h), 1 + (kind == "perceptron")
    # below a last layer of zeros no hidden layer moves in the first mini-batch
    near = 0.05 if kind == "perceptron" else 0.0
    last, hidden = near * normal(width, D), normal(D, d_h)
    log_beta = math.log(0.3 / width) + 0 * normal(layers)
    return Slow(hidden, 0 * hidden[:, 0], last, log_beta)


def memories(kind: str, slow: Slow, n: int) -> Memories:
    """One memory for each of n sequences of every seed, at the start that is taught.

    Raises ValueError for a kind that is not among `KINDS`.
    """
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {KINDS}, got {kind!r}")
    W_1, b_1, W_2, log_beta = (x.repeat_interleave(n, 0) for x in slow)
    first, last = Affine(W_1 / math.sqrt(W_1.shape[-1]), b_1), Affine(W_2)
    f = (first, last) if kind == "perceptron" else (last,)
    betas = tuple(x[:, None, None] for x in log_beta.exp().unbind(-1))
    P = inner.each(f, torch.zeros_like)
    none = torch.zeros_like(betas[0])
    return Memories(kind, len(W_1), betas, none, Affine(W_1, b_1), f, P)


def overlap(kind: str, slow: Slow, k: Tensor) -> Tensor:
    """Root mean square cosine [seeds] between what the last layer sees of two keys.

    Keys are [seeds, m, D]. Random directions in n dimensions have 1 / sqrt(n).
    """
    x = k if kind == "matrix" else inner.gelu(Affine(slow.W_1, slow.b_1).read(k))
    x, m = F.normalize(x, dim=-1), k.shape[1]
    # each key's cosine with itself is 1
    return (((x @ x.mT).square().sum((1, 2)) - m) / (m * (m - 1))).sqrt()


def recalled(memory: Memories, k: Tensor, v: Tensor) -> Tensor:
    """Errors [sequences] of all pairs after one pass."""
    _, memory = memory.learn(k, v, INNER_BATCH)
    return errors(memory.read(k), v)[0]


def teach(
    kind: str,
    d_h: int = 1,
    *,
    rate: float = 0.03,
    steps: int = 120,
    batch: int = 8,
    seed: int = 0,
    where: Setting | None = None,
) -> Taught:
    """Train the slow weights, and test on 64 sequences for each seed.

    `seed` sets all that is drawn. Adam, its rate up and down in one cycle; step sizes
    have three times that rate. `where` is what this machine can do if it is not given.
    """
    where = where or setting()
    with on(where):
        generator = where.generator(seed)
        slow = random_start(kind, d_h, where.seeds, generator)
        keys, _ = draw(where.seeds, generator)
        before = overlap(kind, slow, keys)
        slow = Slow(*(x.requires_grad_() for x in slow))
        groups = [(slow[:-1], rate), ([slow.log_beta], 3 * rate)]
        for _ in one_cycle(groups, steps * where.longer):
            k, v = draw(where.seeds * batch, generator)
            found = recalled(memories(kind, slow, batch), k, v)
            (found.sum() / batch).backward()
            cut(slow)
        with torch.no_grad():
            angles = before, overlap(kind, slow, keys)
        errors_after = _tested(kind, slow, draw(64 * where.seeds, generator))
        return Taught(*errors_after, *(x.double().cpu() for x in angles))


@torch.no_grad()
def _tested(kind: str, slow: Slow, told: tuple[Tensor, Tensor]) -> list[Tensor]:
    """Errors as taught, and with the hidden layer held still."""
    memory = memories(kind, slow, 64)
    held = memory
    if kind == "perceptron":
        held = memory._replace(betas=(0 * memory.betas[0], memory.betas[1]))
    pair = (recalled(x, *told) for x in (memory, held))
    return [x.view(-1, 64).double().mean(1).cpu() for x in pair]
