"""Titans' memory in torch: gradient descent with momentum and decay, by mini-batches.

    q, k [B, T, H, d_k], v, o [B, T, H, d_v], log_decay, log_mu, beta [B, T, H]

What is computed is stated in `ctlearn.mixers.titans`, in whose letters a mini-batch is
p, f and G, which do not depend on the memory. So they are found for all mini-batches at
once, and these are then taken in turn, in the dual form of `ctlearn.layers.inner`:
token i is answered, by a layer of the memory to which it comes with y_i,

    p_i M_0 y_i + f_i P_0 y_i - 2 sum_{j<=i} G_ij (x_j'y_i + 1) g_j.

The gradients are autograd's. As there, a state holds the memory at the start of a
mini-batch and the tokens of it so far, and half precision is computed in float32.

The layer: queries, keys and values go through a convolution of width 4 and SiLU,
queries and keys are divided by their length, and nothing is scaled; answers are normed,
and gated by the SiLU of a linear map.

    alpha = sigmoid(W_a x + b_a),   mu = sigmoid(W_m x + b_m)
    beta = sigmoid(W_b x + b_b) / b

The memory is linear, or a perceptron of `d_hidden` units, from a learned start.
[behrouz2025titans, section 4.4, from memory; the width of the convolution, the forms of
the gates and all that is said of the start are ours: b_a = 4 and b_m = b_b = 0, and
weights of the memory that are 0 if it is linear, else normal with deviation d^-1/2 for
layers of d inputs]
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers import inner
from ctlearn.layers.arguments import check, wide
from ctlearn.layers.decay import ScalarDecay
from ctlearn.layers.gates import unit
from ctlearn.layers.inner import Affine
from ctlearn.layers.memory import chunked, unchunked
from ctlearn.layers.mixer import Mixer
from ctlearn.shapes import check_shape

# What the logits of alpha, mu and beta start with.
KEPT, PUSHED, LEARNED = 4.0, 0.0, 0.0


class Tokens(NamedTuple):
    """What the memory learns from."""

    k: Tensor
    v: Tensor
    log_decay: Tensor
    log_mu: Tensor
    beta: Tensor


class Momentum(NamedTuple):
    """A memory that learns with momentum, by mini-batches.

    M and its momentum P are layers, W [B, H, d_in, d_out] and b [B, H, d_out] or None,
    at the start of the mini-batch of which `tokens` have been read.
    """

    M: tuple[Affine, ...]
    P: tuple[Affine, ...]
    tokens: Tokens

    @classmethod
    def start(cls, M: Sequence[Affine], k: Tensor, v: Tensor) -> "Momentum":
        """A memory at rest about to read its first token, which is like k and v."""
        none = k[:, :0, :, 0]
        P = inner.each(tuple(M), torch.zeros_like)
        return cls(tuple(M), P, Tokens(k[:, :0], v[:, :0], none, none, none))


def chunkwise(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    log_decay: Tensor,
    log_mu: Tensor,
    beta: Tensor,
    S: Momentum | None = None,
    inner_batch: int = 1,
) -> tuple[Tensor, Momentum]:
    """Mini-batches in turn: O(T (b d_k + b d_v + d_k d_v)) a layer.

    Without S the memory is one layer of zeros, without b.

    Raises
    ------
    TypeError
        What `ctlearn.layers.arguments.check` raises, or S is no `Momentum`.
    ValueError
        A shape does not fit, `inner_batch` is below 1, or a decay is positive.
    """
    tokens = Tokens(k, v, log_decay, log_mu, beta)
    check(q=q, **tokens._asdict(), inner_batch=inner_batch)
    S = Momentum.start([inner.zeros(k, v)], k, v) if S is None else S
    if not torch.compiler.is_compiling():
        _check_state(S, tokens)
    n = S.tokens.k.shape[1]
    if n:
        # what the tokens that were read before ask again is not answered
        q = F.pad(q, (0, 0, 0, 0, n, 0))
        pairs = zip(S.tokens, tokens, strict=True)
        tokens = Tokens(*(torch.cat(pair, 1) for pair in pairs))
    o, M, P = _mini_batches(q, tokens, S.M, S.P, inner_batch)
    first = q.shape[1] - q.shape[1] % inner_batch
    rest = Tokens(*(x[:, first:].clone() for x in tokens))
    return o[:, n:], Momentum(M, P, rest)


def _mini_batches(
    q: Tensor, tokens: Tokens, M: tuple[Affine, ...], P: tuple[Affine, ...], b: int
) -> tuple[Tensor, tuple[Affine, ...], tuple[Affine, ...]]:
    """The answers, and the memory and momentum after the last whole mini-batch."""
    (B, T, H, _), dtype = q.shape, wide(q.dtype)
    # copies, so that no result shares memory with what was given
    M, P = (inner.each(f, lambda x: x.to(dtype).flatten(0, 1).clone()) for f in (M, P))
    outputs: list[Tensor] = []
    if T:
        C = min(b, T)
        q, k, v, *gates = (chunked(x.to(dtype), C) for x in (q, *tokens))
        weights = _Weights.of(*gates)
    for n in range(-(-T // b)):
        w = _Weights(*(x[n] for x in weights))
        x, g = inner.backward(M, k[n], v[n], None)
        outputs.append(w.answer(q[n], M, P, x, g))
        if (n + 1) * b <= T:
            M, P = w.learned(M, P, x, g)
    M, P = (inner.each(f, lambda x: x.unflatten(0, (B, H))) for f in (M, P))
    if not outputs:
        return torch.zeros_like(tokens.v), M, P
    return unchunked(torch.stack(outputs), B, T).to(tokens.v.dtype), M, P


class _Weights(NamedTuple):
    """How much of what was, and of each token's gradient, is in M and in P.

    The last two are P's after the last token: of P_0, and of the gradients.
    """

    p: Tensor  # [..., b]
    f: Tensor  # [..., b]
    G: Tensor  # [..., b, b], twice that of the definition
    kept: Tensor  # [...]
    G_P: Tensor  # [..., b]

    @classmethod
    def of(cls, log_decay: Tensor, log_mu: Tensor, beta: Tensor) -> "_Weights":
        """For mini-batches of gates [..., b]."""
        # between boundaries, of which there is one more than tokens
        a, m = (ScalarDecay(F.pad(x, (1, 0))).after.D for x in (log_decay, log_mu))
        # what the momentum at each boundary has moved the memory by
        spread = a[..., 1:, 1:] @ m[..., 1:, :]
        twice = 2 * beta
        return cls(
            a[..., 1:, 0],
            spread[..., 0],
            spread[..., 1:] * twice[..., None, :],
            m[..., -1, 0],
            m[..., -1, 1:] * twice,
        )

    def answer(
        self,
        y: Tensor,
        M: tuple[Affine, ...],
        P: tuple[Affine, ...],
        x: list[Tensor],
        g: list[Tensor],
    ) -> Tensor:
        """What the last layer answers, row i after its own steps."""
        p, f = self.p[..., None], self.f[..., None]
        for at in range(len(M)):
            y = inner.gelu(y) if at else y
            moved = M[at].moved(y, x[at], g[at], self.G)
            y = p * M[at].read(y) + f * P[at].read(y) - moved
        return y

    def learned(
        self,
        M: tuple[Affine, ...],
        P: tuple[Affine, ...],
        x: list[Tensor],
        g: list[Tensor],
    ) -> tuple[tuple[Affine, ...], tuple[Affine, ...]]:
        """The memory and its momentum after the last token."""
        p, f, G = self.p[..., -1], self.f[..., -1], self.G[..., -1, :]
        layers = list(zip(M, P, x, g, strict=True))
        after = [
            _sum((p, M_l), (f, P_l)).after(x_l, G[..., None] * g_l)
            for M_l, P_l, x_l, g_l in layers
        ]
        behind = [
            _sum((self.kept, P_l)).after(x_l, self.G_P[..., None] * g_l)
            for _, P_l, x_l, g_l in layers
        ]
        return tuple(after), tuple(behind)


def _sum(*terms: tuple[Tensor, Affine]) -> Affine:
    """The weighted sum of layers, for weights [heads]."""
    W = sum(c[..., None, None] * layer.W for c, layer in terms)
    b = None
    if terms[0][1].b is not None:
        b = sum(c[..., None] * layer.b for c, layer in terms)
    return Affine(W, b)


def _check_state(S: Any, tokens: Tokens) -> None:
    """Raise unless S is a state for such tokens, and gates have one number a head."""
    if not isinstance(S, Momentum):
        raise TypeError(f"S: expected a Momentum, got {type(S).__name__}")
    sizes: dict[str, tuple[int, str]] = {}
    shapes = dict.fromkeys(Tokens._fields, ()) | {"k": ("d_k",), "v": ("d_v",)}
    for name, d in shapes.items():
        x, old = getattr(tokens, name), getattr(S.tokens, name)
        check_shape(name, x, (("B", "T", "H", *d),), sizes)
        check_shape(f"S.tokens.{name}", old, (("B", "n", "H", *d),), sizes)
    inner.check_layers("S.M", S.M, sizes)
    inner.check_layers("S.P", S.P, sizes)


class Titans(Mixer):
    """`inner_batch` tokens learn from one start; `mix` is `chunkwise` or one like it.

    `d_hidden` None makes the memory linear.
    """

    width, squash = 4, F.silu

    def __init__(
        self,
        d_model: int,
        *,
        inner_batch: int = 16,
        d_hidden: int | None = None,
        mix: Callable = chunkwise,
        **sizes: Any,
    ):
        super().__init__(d_model, mix=mix, **sizes)
        H, self.inner_batch = self.n_value_heads, inner_batch
        self.rates = nn.Linear(d_model, 3 * H)
        with torch.no_grad():
            self.rates.bias.view(3, H).copy_(
                torch.tensor([[KEPT], [PUSHED], [LEARNED]])
            )
        hidden = [] if d_hidden is None else [d_hidden]
        drawn = torch.randn if hidden else torch.zeros
        d = [self.d_k, *hidden, self.d_v]
        self.W = nn.ParameterList(drawn(H, m, n) / m**0.5 for m, n in pairwise(d))
        self.b = nn.ParameterList(torch.zeros(H, n) for n in d[1:] if hidden)

    def start(self, B: int) -> Momentum:
        """The learned start, once for every sequence."""
        W, b = ([x.expand(B, *x.shape) for x in part] for part in (self.W, self.b))
        M = [Affine(W_l, b[i] if b else None) for i, W_l in enumerate(W)]
        k, v = (W[0].new_zeros(B, 0, W[0].shape[1], d) for d in (self.d_k, self.d_v))
        return Momentum.start(M, k, v)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Any]:
        """Keys of length one, log alpha and log mu below zero, beta in (0, 1 / b)."""
        gates = self.rates(x).to(wide(x.dtype)).unflatten(-1, (3, -1))
        decay, mu, beta = gates.unbind(-2)
        return {
            **{"q": unit(q), "k": unit(k), "v": v, "inner_batch": self.inner_batch},
            **{"log_decay": F.logsigmoid(decay), "log_mu": F.logsigmoid(mu)},
            "beta": beta.sigmoid() / self.inner_batch,
        }

    def write(self, k: Tensor, v: Tensor, **others: Any) -> dict[str, Any]:
        """As it is: the memory is given its examples."""
        return {"k": k, "v": v, **others}
