"""LaCT (large-chunk test-time training) in torch: apply a network, then train it.

    q, k [B, T, H, d_k], v, o [B, T, H, d_v], log_mu [B, T, H], beta [B, T, H, 3]

What is computed is stated in `ctlearn.mixers.lact`: a mini-batch is answered by the
network that the one before has left, and then all of it trains that network, at once.
So nothing is decayed and nothing masked: all is products of large matrices, and the
gradients are autograd's. A state holds the network at the start of a mini-batch and
the tokens of it so far, which wait to be learned from. Half precision is computed in
float32.

The layer: queries and keys are linear in x, and stretched and moved channel by channel;
they and the values go through SiLU, and queries and keys are divided by their length.

    beta_m = softplus(W_m x + b_m + c),   softplus(c) = 0.001,   mu = sigmoid(W_mu x)
    y = W_O (norm(o) * silu(W_g x))       one number of W_g x for each head

At the start the stretch is 1 and the shift 0, and W_0, W_1 and W_2 are normal with
deviation d^-1/2 for layers of d inputs; all are learned. Released models have 4 heads
and mini-batches of 2048 tokens. [zhang2025lact; the numbers are those of its code,
which also turns queries and keys by their position, so that the network knows the
origin, and says that it works without]
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.inner import MUON_LACT
from ctlearn.layers.arguments import check, check_kind, wide
from ctlearn.layers.gates import unit
from ctlearn.layers.mixer import Mixer
from ctlearn.shapes import check_shape

# The step sizes that a layer starts near.
FIRST_RATE = 1e-3
Coefficients = Sequence[tuple[float, float, float]]


class GatedUnit(NamedTuple):
    """(silu(x W_0) * (x W_2)) W_1: SwiGLU, W_0 and W_2 [..., d_k, d_h], W_1 back."""

    W_0: Tensor
    W_1: Tensor
    W_2: Tensor

    def read(self, x: Tensor) -> Tensor:
        """Answer [..., n, d_v] to the rows of x [..., n, d_k]."""
        return (F.silu(x @ self.W_0) * (x @ self.W_2)) @ self.W_1

    def gradient(self, x: Tensor, v: Tensor, beta: Tensor) -> "GatedUnit":
        """That of the sum of f(x)'v, token by token times beta [..., n, 3]."""
        gate, value = x @ self.W_0, x @ self.W_2
        s = gate.sigmoid()
        open_, back = gate * s, v @ self.W_1.mT
        slope = s + open_ * (1 - s)
        first, second, third = beta.split(1, -1)
        return GatedUnit(
            (first * x).mT @ (back * value * slope),
            (second * open_ * value).mT @ v,
            (third * x).mT @ (back * open_),
        )

    def each(self, function: Callable, *others: "GatedUnit") -> "GatedUnit":
        """Made weight by weight, of this one's and of theirs."""
        return GatedUnit(*(function(*w) for w in zip(self, *others, strict=True)))


class Tokens(NamedTuple):
    """What the network learns from."""

    k: Tensor
    v: Tensor
    log_mu: Tensor
    beta: Tensor


class State(NamedTuple):
    """A network f in training by mini-batches.

    `before` is what it last learned, `lengths` those that its units' weights are kept
    at, or None, and `tokens` those of the mini-batch that have been read.
    """

    f: GatedUnit
    before: GatedUnit
    lengths: GatedUnit | None
    tokens: Tokens

    @classmethod
    def start(
        cls, f: GatedUnit, k: Tensor, v: Tensor, *, keep_lengths: bool = True
    ) -> "State":
        """A network about to read its first token, which is like those of k and v."""
        lengths = f.each(_lengths) if keep_lengths else None
        k, v, log_mu = k[:, :0], v[:, :0], k[:, :0, :, 0]
        beta = log_mu[..., None].expand(-1, -1, -1, 3)
        return cls(f, f.each(torch.zeros_like), lengths, Tokens(k, v, log_mu, beta))


def chunkwise(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    log_mu: Tensor,
    beta: Tensor,
    muon: Coefficients = MUON_LACT,
    S: State | None = None,
    inner_batch: int = 2048,
) -> tuple[Tensor, State]:
    """Mini-batches in turn: O(T d_h (d_k + d_v)), and Muon once for each.

    Without S the network is one of zeros, which never learns.

    Raises
    ------
    TypeError
        What `ctlearn.layers.arguments.check` raises, or S is no `State`.
    ValueError
        A shape does not fit, or `inner_batch` is below 1.
    """
    check(q=q, k=k, v=v, log_mu=log_mu, inner_batch=inner_batch)
    tokens, dtype = Tokens(k, v, log_mu, beta), wide(k.dtype)
    S = State.start(_zeros(k, v), k, v) if S is None else S
    if not torch.compiler.is_compiling():
        check_kind("beta", beta, ("q", q), also_wide=True)
        _check_state(S, tokens)

    def copied(weights: GatedUnit) -> GatedUnit:
        """So that no result shares memory with what was given."""
        return weights.each(lambda w: w.to(dtype).clone())

    f, before = copied(S.f), copied(S.before)
    lengths = None if S.lengths is None else copied(S.lengths)
    outputs, waiting, t = [], S.tokens, 0
    while t < k.shape[1]:
        n = waiting.k.shape[1]
        new = slice(t, t + inner_batch - n)
        outputs.append(f.read(q[:, new].to(dtype).transpose(1, 2)).transpose(1, 2))
        if n:
            pairs = zip(waiting, tokens, strict=True)
            waiting = Tokens(*(torch.cat([old, x[:, new]], 1) for old, x in pairs))
        else:
            waiting = Tokens(*(x[:, new] for x in tokens))
        t += inner_batch - n
        if waiting.k.shape[1] == inner_batch:
            f, before = _trained(f, before, lengths, waiting, muon)
            waiting = Tokens(*(x[:, :0] for x in tokens))
    o = torch.cat(outputs, 1).to(v.dtype) if outputs else torch.zeros_like(v)
    return o, State(f, before, lengths, Tokens(*(x.clone() for x in waiting)))


def _trained(
    f: GatedUnit,
    before: GatedUnit,
    lengths: GatedUnit | None,
    tokens: Tokens,
    muon: Coefficients,
) -> tuple[GatedUnit, GatedUnit]:
    """One step on a whole mini-batch: momentum, Muon, lengths."""
    k, v, log_mu, beta = (x.to(f.W_0.dtype).transpose(1, 2) for x in tokens)
    mean = log_mu.exp().mean(-1)[..., None, None]
    learned = f.gradient(k, v, beta).each(lambda d, old: d + mean * old, before)
    W = f.each(lambda w, d: w + newton_schulz(d, muon), learned)
    if lengths is not None:
        W = W.each(
            lambda w, n: w / (_lengths(w) + 1e-5)[..., None, :] * n[..., None, :],
            lengths,
        )
    return W, learned


def newton_schulz(G: Tensor, coefficients: Coefficients) -> Tensor:
    """As `ctlearn.inner.newton_schulz`, or G itself without coefficients."""
    if not coefficients:
        return G
    X = G / (torch.linalg.matrix_norm(G, keepdim=True) + 1e-7)
    tall = X.shape[-2] > X.shape[-1]
    X = X.mT if tall else X
    for a, b, c in coefficients:
        A = X @ X.mT
        X = a * X + (b * A + c * (A @ A)) @ X
    return X.mT if tall else X


def _lengths(W: Tensor) -> Tensor:
    """Those of the columns, which are the units' weights."""
    return torch.linalg.vector_norm(W, dim=-2)


def _zeros(k: Tensor, v: Tensor) -> GatedUnit:
    (B, _, H, d_k), d_v = k.shape, v.shape[-1]
    sizes = ((d_k, d_k), (d_k, d_v), (d_k, d_k))
    return GatedUnit(*(k.new_zeros(B, H, *d, dtype=wide(k.dtype)) for d in sizes))


def _check_state(S: Any, tokens: Tokens) -> None:
    """Raise unless S is a state for such tokens, and the step sizes are three."""
    if not isinstance(S, State):
        raise TypeError(f"S: expected a State(f, before, …), got {type(S).__name__}")
    sizes: dict[str, tuple[int, str]] = {}
    shapes = {"k": ("d_k",), "v": ("d_v",), "log_mu": (), "beta": ("3",)}
    for name, d in shapes.items():
        x, old = getattr(tokens, name), getattr(S.tokens, name)
        check_shape(name, x, (("B", "T", "H", *d),), sizes)
        check_shape(f"S.tokens.{name}", old, (("B", "n", "H", *d),), sizes)
    pairs = {"W_0": ("d_k", "d_h"), "W_1": ("d_h", "d_v"), "W_2": ("d_k", "d_h")}
    for part in ("f", "before"):
        for name, pair in pairs.items():
            W = getattr(getattr(S, part), name)
            check_shape(f"S.{part}.{name}", W, (("B", "H", *pair),), sizes)


class LaCT(Mixer):
    """`inner_batch` tokens train a network of `d_hidden` units, d_k unless given.

    It sees nothing of the mini-batch that it is in: see `lact_beside_window`. `mix` is
    `chunkwise` or one like it.
    """

    def __init__(
        self,
        d_model: int,
        *,
        inner_batch: int = 2048,
        d_hidden: int | None = None,
        muon: Coefficients = MUON_LACT,
        mix: Callable = chunkwise,
        **sizes: Any,
    ):
        super().__init__(d_model, mix=mix, **sizes)
        H, d_k, d_v = self.n_value_heads, self.d_k, self.d_v
        d_h = d_k if d_hidden is None else d_hidden
        self.inner_batch, self.muon = inner_batch, muon
        self.stretch = nn.Parameter(torch.ones(2, H, d_k))
        self.shift = nn.Parameter(torch.zeros(2, H, d_k))
        self.rates, self.momentum = nn.Linear(d_model, 3 * H), nn.Linear(d_model, H)
        self.scale = nn.Linear(d_model, H)
        pairs = ((d_k, d_h), (d_h, d_v), (d_k, d_h))
        self.W = nn.ParameterList(torch.randn(H, m, n) / m**0.5 for m, n in pairs)

    def start(self, B: int) -> Any:
        """The learned start, once for every sequence."""
        f = GatedUnit(*(w.expand(B, *w.shape) for w in self.W))
        H, d_k, d_v = self.n_value_heads, self.d_k, self.d_v
        k, v = (self.stretch.new_zeros(B, 0, H, d) for d in (d_k, d_v))
        return State.start(f, k, v)

    def bent(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the network is asked and trained with."""
        asked = torch.stack([q, k], -3) * self.stretch + self.shift
        q, k = unit(F.silu(asked)).unbind(-3)
        return q, k, F.silu(v)

    def gates(self, x: Tensor) -> dict[str, Any]:
        """Step sizes above 0, log mu below, and how the network is trained."""
        x_wide = wide(x.dtype)
        rates = self.rates(x).to(x_wide).unflatten(-1, (-1, 3))
        first = math.log(math.expm1(FIRST_RATE))
        return {
            "log_mu": F.logsigmoid(self.momentum(x).to(x_wide)),
            "beta": F.softplus(rates + first),
            "muon": self.muon,
            "inner_batch": self.inner_batch,
        }

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Any]:
        """Keys of length one, step sizes and momentum."""
        q, k, v = self.bent(q, k, v)
        return {"q": q, "k": k, "v": v, **self.gates(x)}

    def write(self, k: Tensor, v: Tensor, **others: Any) -> dict[str, Any]:
        """As it is: the network is given its examples."""
        return {"k": k, "v": v, **others}

    def read(self, o: Tensor, x: Tensor, v: Tensor) -> Tensor:
        """Norm each head's answers, and scale them by one number."""
        o = self.norm(o) * F.silu(self.scale(x))[..., None]
        return self.out(o.flatten(2))
