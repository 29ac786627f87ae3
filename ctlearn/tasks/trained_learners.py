"""Trained learners: slow weights that are taught through an inner learner's steps.

A sequence is a task, y_t = A'x_t with x_t of length one. Its matrix shares a part with
those of all other sequences,

    A = m U + sqrt(1 - m^2) N

of which U stays and N is drawn anew. One layer of one head reads the pairs in
mini-batches, and says before each of them what its y will be:

    k_t, q_t = unit vectors along W_K'x_t and W_Q'x_{t+1},   v_t = W_V'y_t
    answer   = W_O' f_t(q_t),   f_t the inner learner after token t, from the start W_0

Slow are the four maps, one step size and the start. The loss is the mean square of what
the answers miss, and its slopes reach the slow weights through all inner steps. Many
layers are trained side by side: for every share m some start from zero and others from
a start that they learn, on the same sequences and with the same maps at first.

The entries of U and N have mean square 1, so answering zero scores 1.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlearn.layers import inner, memory
from ctlearn.layers.inner import Affine, Training
from ctlearn.tasks.training import Setting, cut, on, one_cycle, setting

D, T = 8, 32  # size of all vectors, and pairs of a sequence
STARTS = ("from zero", "from a learned start")


class Sequences(NamedTuple):
    """Inputs x and values y [layers, n, T + 1, D]."""

    x: Tensor
    y: Tensor


class Trained(NamedTuple):
    """What layers learned, each [shares, starts, seeds].

    `errors` [shares, starts, seeds, T] are their mean errors before each pair is told,
    the first pair's left out; `beta` are their step sizes.
    """

    errors: Tensor
    beta: Tensor


def shared_part(seeds: int, generator: torch.Generator) -> Tensor:
    """The matrices U [seeds, D, D], of mean square 1 each."""
    U = torch.randn(seeds, D, D, generator=generator)
    return U / U.square().mean((1, 2), keepdim=True).sqrt()


def draw(U: Tensor, shares: Tensor, n: int, generator: torch.Generator) -> Sequences:
    """Draw n sequences for each layer: layers of a seed see the same x and N."""
    seeds, layers = len(U), len(shares)

    def normal(*shape: int) -> Tensor:
        x = torch.randn(seeds, n, *shape, generator=generator)
        return x.repeat(layers // seeds, 1, 1, 1)

    m = shares[:, None, None, None]
    A = m * U.repeat(layers // seeds, 1, 1)[:, None] + (1 - m * m).sqrt() * normal(D, D)
    x = F.normalize(normal(T + 1, D), dim=-1)
    return Sequences(x, x @ A)


def initial_weights(
    seeds: int, copies: int, generator: torch.Generator
) -> dict[str, Tensor]:
    """Slow weights of `copies` layers for each seed, alike but for what they see."""

    def alike(x: Tensor) -> Tensor:
        return x.repeat(copies, 1, 1).requires_grad_()

    key, value = torch.linalg.qr(torch.randn(2, seeds, D, D, generator=generator)).Q
    maps = {"q": key, "k": key, "v": value, "o": value.mT}
    weights = {name: alike(x) for name, x in maps.items()}
    zeros = torch.zeros(seeds, D, D)
    return weights | {"start": alike(zeros), "log_beta": alike(zeros[:, :1, :1] - 1.5)}


def answers(
    weights: dict[str, Tensor], drawn: Sequences, learns: Tensor, inner_batch: int
) -> Tensor:
    """What layers say before they are told y_2, ..., y_{T+1}: [layers, n, T, D].

    `learns` [layers] is 1 for those that begin at their start, and 0 for those at zero.
    """

    def tokens(name: str, rows: Tensor) -> Tensor:
        # layers stand where heads do: [n, T, layers, D]
        return torch.einsum("lntd,lde->ntle", rows, weights[name])

    x, y = drawn
    k = F.normalize(tokens("k", x[:, :, :-1]), dim=-1)
    q = F.normalize(tokens("q", x[:, :, 1:]), dim=-1)
    v = tokens("v", y[:, :, :-1])
    beta = weights["log_beta"].exp()[:, 0, 0].expand(k.shape[:3])
    start = learns[:, None, None] * weights["start"]
    start = start.expand(len(k), *start.shape)
    if inner_batch == 1:
        o, _ = memory.chunkwise(q, k, v, e=k, beta=beta, S=start)
    else:
        S = Training.start([Affine(start)], k, v)._replace(beta=beta[:, :0])
        o, _ = inner.chunkwise(q, k, v, beta=beta, S=S, inner_batch=inner_batch)
    return torch.einsum("ntle,led->lntd", o, weights["o"])


def train(
    inner_batch: int,
    *,
    shares: tuple[float, ...] = (0.0, 0.8),
    rate: float = 0.05,
    steps: int = 160,
    batch: int = 8,
    seed: int = 0,
    where: Setting | None = None,
) -> Trained:
    """Train layers on sequences that are never seen twice, and test on 256 each.

    `seed` sets all that is drawn. Adam, its rate up and down in one cycle; the log of
    the step size has five times that rate. `where` is what this machine can do if it is
    not given.
    """
    where = where or setting()
    with on(where):
        generator = where.generator(seed)
        seeds, copies = where.seeds, len(shares) * len(STARTS)
        weights = initial_weights(seeds, copies, generator)
        U = shared_part(seeds, generator)
        m = torch.tensor(shares).repeat_interleave(len(STARTS) * seeds)
        learns = torch.tensor([0.0, 1.0]).repeat_interleave(seeds).repeat(len(shares))

        def missed(n: int) -> Tensor:
            drawn = draw(U, m, n, generator)
            said = answers(weights, drawn, learns, inner_batch)
            return (said - drawn.y[:, :, 1:]).square().mean((1, 3))

        steps *= where.longer
        *others, log_beta = weights.values()
        for _ in one_cycle([(others, rate), ([log_beta], 5 * rate)], steps):
            missed(batch).mean(1).sum().backward()
            cut(weights.values())
        with torch.no_grad():
            shape = len(shares), len(STARTS), seeds
            errors = missed(256).double().cpu().view(*shape, T)
            return Trained(errors, log_beta.exp().double().cpu().view(shape))
