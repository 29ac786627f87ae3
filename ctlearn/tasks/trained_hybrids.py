"""Trained hybrids: does a layer learn to use both of its memories?

A token is a key, a value and a query of 16 channels each, [k; v; q]. Values follow a
rule that is new in every sequence, v = 0.8 W'k + 0.6 n, each with a detail n of its
own. Half of the queries are the keys of the last six tokens and want the value as it
was told; the others are fresh, and want 0.8 W'q. One layer of one head answers:

    y      = softmax attention to the last w tokens
    m      = S_t'q, S_t a gated delta rule's state of d_k x 16 numbers
    g      = sigmoid(s - log(sum of the window's exp(scores))),   s = w_s x + s_0
    answer = W_o ((1 - g) y + g m)

which is one mean, in which the state counts as exp(s). Window and state have maps of
their own from tokens to q, k and v. All seeds are trained side by side, each with
weights and sequences of its own. Answering zero scores 1.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlearn.layers import memory
from ctlearn.tasks.training import Setting, cut, on, one_cycle, setting

D, T, NEAR = 16, 64, 6
RULE, DETAIL = 0.8, 0.6
FIRST = T // 2  # answers count from here on, when there is something to know


class Memory(NamedTuple):
    """Tokens in the window and key channels of the state; none of either is 0.

    `bias` is s_0 at the start. In the first half of training the window is hidden from
    a share `hidden` of the sequences, and the state answers alone.
    """

    window: int
    d_k: int
    bias: float = 0.0
    hidden: float = 0.0

    @property
    def numbers(self) -> int:
        """How many numbers it keeps."""
        return self.window * 2 * D + self.d_k * D


class Sequences(NamedTuple):
    """Tokens x [n, T, 3 D], wanted answers y [n, T, D]; [n, T]: asks for the rule."""

    x: Tensor
    y: Tensor
    rule: Tensor


MEMORIES = {
    "window": Memory(16, 0),
    "state": Memory(0, 32),
    "both": Memory(8, 16),
    "both, window hidden at times": Memory(8, 16, bias=4.0, hidden=0.5),
}


def draw(n: int, generator: torch.Generator) -> Sequences:
    """Draw n sequences, whose queries are near or fresh with equal chance."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    k, fresh = (F.normalize(normal(n, T, D), dim=-1) for _ in range(2))
    W = normal(n, D, D)
    v = RULE * k @ W + DETAIL * normal(n, T, D)
    age = torch.randint(NEAR, (n, T), generator=generator)
    rule = torch.rand(n, T, generator=generator) < 0.5
    asked = (torch.arange(T) - age).clamp(min=0)[..., None].expand_as(k)
    q = torch.where(rule[..., None], fresh, k.gather(1, asked))
    y = torch.where(rule[..., None], RULE * fresh @ W, v.gather(1, asked))
    return Sequences(torch.cat([k, v, q], -1), y, rule)


def initial_weights(
    kind: Memory, seeds: int, generator: torch.Generator
) -> dict[str, Tensor]:
    """The layer's weights, of `seeds` layers in the first axis."""

    def normal(rows: int, columns: int) -> Tensor:
        drawn = torch.randn(seeds, rows, columns, generator=generator)
        return (drawn / math.sqrt(rows)).requires_grad_()

    def constant(value: float) -> Tensor:
        return torch.full((seeds, 1, 1), value).requires_grad_()

    weights = {"out": normal(D, D)}
    if kind.window:
        weights |= {f"window_{n}": normal(3 * D, D) for n in "qkv"}
    if kind.d_k:
        weights |= {f"state_{n}": normal(3 * D, kind.d_k) for n in "qk"}
        weights |= {"state_v": normal(3 * D, D)}
        weights |= {n: normal(3 * D, 1) for n in ("beta", "alpha", "share")}
        weights |= {"beta_0": constant(0.0), "alpha_0": constant(3.0)}
        weights |= {"share_0": constant(kind.bias)}
    return weights


def layer(
    weights: dict[str, Tensor], kind: Memory, x: Tensor, seen: Tensor | None = None
) -> Tensor:
    """Answers [seeds, n, T, D] to x [seeds, n, T, 3 D].

    Sequences that are False in `seen` [seeds, n] do not see the window.
    """
    if kind.window:
        y, mass = _attend(weights, kind.window, x)
    if kind.d_k:
        m = _recall(weights, kind.d_k, x)
    if not kind.d_k:
        o = y
    elif not kind.window:
        o = m
    else:
        logit = _mapped(x, weights["share"]) + weights["share_0"][:, None]
        g = torch.sigmoid(logit - mass)
        if seen is not None:
            g = torch.where(seen[..., None, None], g, 1.0)
        o = (1 - g) * y + g * m
    return _mapped(o, weights["out"])


def _mapped(x: Tensor, W: Tensor) -> Tensor:
    """Each seed's x [seeds, n, T, rows] through its own matrix."""
    return (x.flatten(1, 2) @ W).unflatten(1, x.shape[1:3])


def _attend(
    weights: dict[str, Tensor], window: int, x: Tensor
) -> tuple[Tensor, Tensor]:
    """The window's mean, and the log of what its weights sum to, [..., T, 1]."""
    q, k, v = (_mapped(x, weights[f"window_{n}"]) for n in "qkv")
    late = torch.arange(T, device=x.device)
    late = late[:, None] - late
    scores = (q @ k.mT).masked_fill((late < 0) | (late >= window), -math.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1, keepdim=True)


def _recall(weights: dict[str, Tensor], d_k: int, x: Tensor) -> Tensor:
    """What the gated delta rule's state answers."""

    def heads(rows: Tensor) -> Tensor:
        return rows.flatten(0, 1)[:, :, None]

    def gate(name: str) -> Tensor:
        return _mapped(x, weights[name]) + weights[f"{name}_0"][:, None]

    q, k = (F.normalize(_mapped(x, weights[f"state_{n}"]), dim=-1) for n in "qk")
    o, _ = memory.parallel(
        heads(q),
        heads(k),
        heads(_mapped(x, weights["state_v"])),
        e=heads(k),
        beta=heads(torch.sigmoid(gate("beta")))[..., 0],
        log_decay=heads(F.logsigmoid(gate("alpha")))[..., 0],
    )
    return o[:, :, 0].unflatten(0, x.shape[:2])


def train(
    kind: Memory,
    *,
    rate: float = 0.04,
    steps: int = 400,
    batch: int = 16,
    seed: int = 0,
    where: Setting | None = None,
) -> dict[str, Tensor]:
    """Weights, trained on sequences that are never seen twice.

    `seed` sets all that is drawn. Adam, its rate up and down in one cycle, gradients
    of length 1 at most. `where` is what this machine can do if it is not given.
    """
    where = where or setting()
    with on(where):
        generator = where.generator(seed)
        weights = initial_weights(kind, where.seeds, generator)
        steps = steps * where.longer
        for step in one_cycle([(weights.values(), rate)], steps):
            drawn = _side_by_side(batch, where.seeds, generator)
            seen = torch.rand(where.seeds, batch, generator=generator) >= kind.hidden
            said = layer(weights, kind, drawn.x, seen if 2 * step < steps else None)
            missed = (said - drawn.y)[:, :, FIRST:].square()
            # a mean over all seeds: times their number, each sees its own mean
            (where.seeds * missed.mean()).backward()
            cut(weights.values())
    return {name: x.detach() for name, x in weights.items()}


@torch.no_grad()
def ask(
    weights: dict[str, Tensor], kind: Memory, *, n: int = 64, seed: int = 12345
) -> tuple[Tensor, Tensor]:
    """Errors [seeds] on n other sequences each: near queries, and fresh ones."""
    device, seeds = weights["out"].device, len(weights["out"])
    with on(Setting(device.type, seeds, longer=1)):
        generator = torch.Generator(device).manual_seed(seed)
        drawn = _side_by_side(n, seeds, generator)
        said, y, rule = (
            x[:, :, FIRST:]
            for x in (layer(weights, kind, drawn.x), drawn.y, drawn.rule)
        )
        missed, size = (said - y).square().sum(-1), y.square().sum(-1)
        errors = []
        for asked in (~rule, rule):
            wrong, whole = ((x * asked).sum((1, 2)) for x in (missed, size))
            errors.append((wrong / whole).cpu())
        return errors[0], errors[1]


def _side_by_side(n: int, seeds: int, generator: torch.Generator) -> Sequences:
    """Draw n sequences for each seed, [seeds, n, ...]."""
    return Sequences(*(x.unflatten(0, (seeds, n)) for x in draw(seeds * n, generator)))
