"""Deep memories: what a network of layers learns in its context, beside a matrix.

    matrix       W'k
    features     W'gelu(W_1'k + b_1), with W_1 and b_1 drawn, and never trained
    perceptron   W_2'gelu(W_1'k + b_1), all of it trained

W_1 and b_1 start as standard normal numbers and all else as zeros. In a model an outer
loop trains that start; here nothing does. A mini-batch is answered by the memory that
the one before it has left, and then learned from, for g the slopes of ||f(k) - v||^2:

    P <- mu P - sum of g,   f <- f + beta muon(P)

Token by token and without Muon this is `ctlearn.mixers.titans` without decay. Momentum
is kept from one mini-batch to the next, as in LaCT, rather than by the token.

A perceptron is given keys sqrt(d_h) long, and a W_1 that much smaller. It says the
same, but one step size then suits both layers: otherwise the first layer moves its
answers d_h times less than the second, and learns little more than fixed features do.

Sequences and settings run side by side: [settings, sequences] in front of all answers.
Which setting is reported is chosen on sequences of their own, for every memory by the
same rule: see `best`.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ctlearn.layers import inner, lact
from ctlearn.layers.inner import Affine
from ctlearn.layers.lact import Coefficients, newton_schulz
from ctlearn.tasks import future_pairs
from ctlearn.tasks.recall import Facts, unit_vectors

# added to the seeds of what is reported, for what it is tuned on
_APART = 1_000_000

KINDS = ("matrix", "features", "perceptron")


class Setting(NamedTuple):
    """A step size, and what the momentum keeps of itself."""

    beta: float
    mu: float = 0.0


class Lessons(NamedTuple):
    """Pairs to tell, k [n, T, d_k] and v [n, T, d_v], and pairs to ask about."""

    k: Tensor
    v: Tensor
    asked: Tensor
    answers: Tensor

    @classmethod
    def of(cls, facts: Sequence[Facts]) -> "Lessons":
        """The sequences that NumPy's tasks have drawn, all of one size."""
        return cls(*(torch.tensor(np.stack(x)) for x in zip(*facts, strict=True)))


class Trial(NamedTuple):
    """Sequences on which a setting is chosen, and others that are reported."""

    tuning: Lessons
    told: Lessons

    @classmethod
    def of(
        cls, draw: Callable[[int], Facts], seeds: Sequence[int], tuning: int
    ) -> "Trial":
        """Draw those reported from `seeds`, below a million, and `tuning` others.

        The others are in single precision, which is enough for a choice.
        """
        others = Lessons.of([draw(_APART + i) for i in range(tuning)])
        told = Lessons.of([draw(seed) for seed in seeds])
        return cls(Lessons(*(x.float() for x in others)), told)


class Memories(NamedTuple):
    """Memories of one kind, of `n` sequences at each setting.

    The layers f, their momentum P, a step size for each layer and mu, which are
    [settings * n, 1, 1], have all of them in the first axis; `drawn` is the first layer
    that each sequence was given.
    """

    kind: str
    n: int
    betas: tuple[Tensor, ...]
    mu: Tensor
    drawn: Affine
    f: tuple[Affine, ...]
    P: tuple[Affine, ...]

    def read(self, k: Tensor) -> Tensor:
        """Answers [settings, n, m, d_v] to keys [n, m, d_k]."""
        return self._apart(self._answer(self._inputs(k)))

    def learn(
        self, k: Tensor, v: Tensor, inner_batch: int, muon: Coefficients = ()
    ) -> tuple[Tensor, "Memories"]:
        """What was answered to each key before its mini-batch, and what was learned."""
        x, v, said, here = self._inputs(k), self._repeated(v), [], self
        for t in range(0, k.shape[1], inner_batch):
            batch = slice(t, t + inner_batch)
            said.append(here._answer(x[:, batch]))
            here = here._stepped(x[:, batch], v[:, batch], muon)
        return self._apart(torch.cat(said, 1)), here

    def _stepped(self, x: Tensor, v: Tensor, muon: Coefficients) -> "Memories":
        mu, passed = self.mu, inner.backward(self.f, x, v, None)
        P, f = [], []
        layers = zip(self.f, self.P, self.betas, *passed, strict=True)
        for old, moving, beta, y, g in layers:
            W = torch.baddbmm(mu * moving.W, y.mT, g, alpha=-2)
            b = None if moving.b is None else mu[..., 0] * moving.b - 2 * g.sum(-2)
            P.append(Affine(W, b))
            b = None if b is None else old.b + beta[..., 0] * b
            f.append(Affine(torch.addcmul(old.W, beta, newton_schulz(W, muon)), b))
        return self._replace(f=tuple(f), P=tuple(P))

    def _answer(self, x: Tensor) -> Tensor:
        z = self.f[0].read(x)
        for layer in self.f[1:]:
            z = layer.read(inner.gelu(z))
        return z

    def _inputs(self, k: Tensor) -> Tensor:
        """What the layers see of the keys, for every setting."""
        if self.kind == "features":
            k = inner.gelu(self.drawn.read(k))
        elif self.kind == "perceptron":
            k = k * math.sqrt(self.drawn.W.shape[-1])
        return self._repeated(k)

    def _repeated(self, x: Tensor) -> Tensor:
        return x.repeat(len(self.f[0].W) // self.n, 1, 1)

    def _apart(self, x: Tensor) -> Tensor:
        return x.unflatten(0, (-1, self.n))


def begin(
    kind: str,
    lessons: Lessons,
    settings: Sequence[Setting],
    *,
    d_h: int = 1,
    seed: int = 0,
) -> Memories:
    """Memories that know nothing, of `d_h` hidden units if they have any.

    Raises ValueError for a kind that is not among `KINDS`.
    """
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {KINDS}, got {kind!r}")
    like, (n, _, d_k) = lessons.k, lessons.k.shape
    generator = torch.Generator(like.device).manual_seed(seed)
    made = {"generator": generator, "dtype": like.dtype, "device": like.device}
    W_1, b_1 = torch.randn(n, d_k, d_h, **made), torch.randn(n, d_h, **made)
    m, width = len(settings), d_k if kind == "matrix" else d_h
    f: tuple[Affine, ...] = (Affine(like.new_zeros(m * n, width, lessons.v.shape[-1])),)
    if kind == "perceptron":
        first = Affine((W_1 / math.sqrt(d_h)).repeat(m, 1, 1), b_1.repeat(m, 1))
        f = (first, *f)
    beta, mu = (
        like.new_tensor(x).repeat_interleave(n)[:, None, None]
        for x in zip(*settings, strict=True)
    )
    P = inner.each(f, torch.zeros_like)
    return Memories(kind, n, (beta,) * len(f), mu, Affine(W_1, b_1), f, P)


def errors(said: Tensor, wanted: Tensor) -> Tensor:
    """Squared error over that of saying nothing: [settings, n], inf if it ran away."""
    missed = (said - wanted).square().sum((-1, -2))
    return (missed / wanted.square().sum((-1, -2))).nan_to_num(nan=math.inf)


def best(
    ask: Callable[[Memories, Lessons], Tensor],
    kind: str,
    trial: Trial,
    settings: Sequence[Setting],
    *,
    d_h: int = 1,
) -> np.ndarray:
    """Errors [..., n] of what is told, at settings that were chosen on other sequences.

    `ask` finds errors [..., settings, n] of the memories it is given. At each place the
    setting of least mean error over the tuning sequences is taken, so none at which one
    of them ran away, unless all did. If one that is told runs away there all the same,
    its error says so.
    """
    chosen_on = begin(kind, trial.tuning, settings, d_h=d_h, seed=1)
    at = ask(chosen_on, trial.tuning).mean(-1).argmin(-1)
    chosen, place = at.unique(return_inverse=True)
    memory = begin(kind, trial.told, [settings[i] for i in chosen.tolist()], d_h=d_h)
    found = ask(memory, trial.told)
    return found.take_along_dim(place[..., None, None], -2)[..., 0, :].cpu().numpy()


def after_passes(
    memory: Memories,
    lessons: Lessons,
    passes: Sequence[int],
    inner_batch: int,
    muon: Coefficients = (),
) -> Tensor:
    """Errors [passes, settings, n] after going so many times over what is told."""
    found = []
    for i in range(1, max(passes) + 1):
        _, memory = memory.learn(lessons.k, lessons.v, inner_batch, muon)
        if i in passes:
            found.append(_asked(memory, lessons))
    return torch.stack(found)


def after_pairs(
    memory: Memories, lessons: Lessons, counts: Sequence[int], inner_batch: int
) -> Tensor:
    """Errors [counts, settings, n] when so many of the pairs have been told, once.

    `counts` rise, in whole mini-batches.
    """
    found, t = [], 0
    for n in counts:
        _, memory = memory.learn(lessons.k[:, t:n], lessons.v[:, t:n], inner_batch)
        found.append(_asked(memory, lessons))
        t = n
    return torch.stack(found)


def on_the_way(
    memory: Memories, lessons: Lessons, inner_batch: int, muon: Coefficients = ()
) -> Tensor:
    """Errors [settings, n] of what is said of pairs before their mini-batch is told."""
    said, _ = memory.learn(lessons.k, lessons.v, inner_batch, muon)
    return errors(said, lessons.v)


def steps(largest: float, *, count: int = 14, mu: float = 0.0) -> list[Setting]:
    """Step sizes downwards from `largest` in the long run, every second one half.

    With momentum a slope is taken 1 / (1 - mu) times in the end, so beta is as much
    smaller.
    """
    return [Setting(largest * (1 - mu) / 2 ** (i / 2), mu) for i in range(count)]


def in_turn(
    rule: Callable, seed: int, T: int, d_k: int, d_v: int, *, every: int
) -> Facts:
    """Pairs of a rule that is drawn anew after so many; the last one is asked about."""
    parts = [
        future_pairs.lesson(rule, 1000 * seed + i, min(every, T - t), d_k, d_v)
        for i, t in enumerate(range(0, T, every))
    ]
    k, v = (np.concatenate(x) for x in zip(*(part[:2] for part in parts), strict=True))
    return parts[-1]._replace(k=k, v=v)


def uneven(
    seed: int, T: int, d_k: int, d_v: int, *, power: float = 1, noise: float = 0.1
) -> Facts:
    """A linear rule whose keys reach less far in each further channel, as 1 / i^power.

    Their mean square length is 1, and so is the mean square of each clean value.
    """
    rng = np.random.default_rng(seed)
    k = unit_vectors(rng, T, d_k) / np.arange(1, d_k + 1) ** power
    k = k / np.sqrt((k * k).sum(axis=1).mean())
    v = k @ rng.standard_normal((d_k, d_v))
    v = v / v.std() + noise * rng.standard_normal(v.shape)
    return Facts(k, v, k, v)


def seconds_per_token(
    inner_batch: int,
    d: int,
    d_h: int,
    *,
    muon: Coefficients = (),
    device: str = "cpu",
    repeats: int = 3,
) -> float:
    """Least time of LaCT on one whole mini-batch in float32, by the token."""
    generator = torch.Generator(device).manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        there = {"generator": generator, "device": device, "dtype": torch.float32}
        return torch.randn(shape, **there) / shape[-2] ** 0.5

    q, k, v = (drawn(1, inner_batch, 1, d) for _ in range(3))
    f = lact.GatedUnit(drawn(1, 1, d, d_h), drawn(1, 1, d_h, d), drawn(1, 1, d, d_h))
    gates = {"log_mu": q[..., 0] * 0 - 1, "beta": q[..., :3] * 0 + 0.01}
    S, least = lact.State.start(f, k, v), math.inf
    for _ in range(repeats):
        start = _now(device)
        with torch.no_grad():
            lact.chunkwise(q, k, v, **gates, muon=muon, S=S, inner_batch=inner_batch)
        least = min(least, _now(device) - start)
    return least / inner_batch


def _now(device: str) -> float:
    """The time when all that was asked of the device is done."""
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def _asked(memory: Memories, lessons: Lessons) -> Tensor:
    return errors(memory.read(lessons.asked), lessons.answers)
