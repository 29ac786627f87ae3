"""Inner learners in torch: small networks that a layer trains while it reads.

    f_i = f_0 - r_i sum_{j<=i} beta_j grad l_j(f_0),   o_i = f_i(q_i)

    q, k [B, T, H, d_k], v, o [B, T, H, d_v], beta [B, T, H], reader_rate [b],
    norm [H, 2, d_v]

The letters and the mini-batch of b tokens are those of `ctlearn.mixers.ttt_linear` and
`ttt_mlp`, which say what is computed. A learner is its layers, with a gelu between two
of them; token j leaves in each its input x_j and the loss's slope g_j behind it, and
token i, which comes to a layer with y_i, is answered there

    W'y_i + b - r_i sum_{j<=i} beta_j (x_j'y_i + 1) g_j.

This dual form needs no f_i but the last, so a mini-batch is a few products of matrices,
and only the mini-batches are taken in turn. The gradients are autograd's.

A state holds the learner at the start of a mini-batch and the tokens of it so far. They
are read again with those that follow: to fetch the weights takes longer than to
multiply them by a few more rows, and the tokens count themselves. Half precision is
computed in float32; o is in the dtype of v, a learner in float32.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlearn.layers.arguments import check, check_kind, wide
from ctlearn.layers.memory import chunked, unchunked
from ctlearn.shapes import check_shape


class Affine(NamedTuple):
    """One layer, x W + b: W [..., d_in, d_out], and b [..., d_out] or None."""

    W: Tensor
    b: Tensor | None = None

    def read(self, x: Tensor) -> Tensor:
        """Answer [..., n, d_out] to the rows of x [..., n, d_in]."""
        return x @ self.W if self.b is None else x @ self.W + self.b[..., None, :]

    def read_after(self, y: Tensor, x: Tensor, g: Tensor, steps: Tensor) -> Tensor:
        """Answer the rows of y, row i after steps_ij of every token j: x_j and g_j."""
        return self.read(y) - self.moved(y, x, g, steps)

    def moved(self, y: Tensor, x: Tensor, g: Tensor, steps: Tensor) -> Tensor:
        """By how much those steps move the answers to y."""
        pairs = y @ x.mT if self.b is None else y @ x.mT + 1
        return (steps * pairs) @ g

    def after(self, x: Tensor, g: Tensor) -> "Affine":
        """The layer after one step of every token."""
        b = None if self.b is None else self.b - g.sum(-2)
        return Affine(self.W - x.mT @ g, b)


class Training(NamedTuple):
    """A learner in training by mini-batches.

    f are its layers, W [B, H, d_in, d_out] and b [B, H, d_out], at the start of the
    mini-batch of whose tokens k, v and beta [B, n, H, ...] are those already read.
    """

    f: tuple[Affine, ...]
    k: Tensor
    v: Tensor
    beta: Tensor

    @classmethod
    def start(cls, f: Sequence[Affine], k: Tensor, v: Tensor) -> "Training":
        """A learner about to read its first token, which is like those of k and v."""
        return cls(tuple(f), k[:, :0], v[:, :0], k[:, :0, :, 0])


class Tokens(NamedTuple):
    """What comes with tokens."""

    q: Tensor
    k: Tensor
    v: Tensor
    beta: Tensor


def chunkwise(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    beta: Tensor,
    reader_rate: Tensor | None = None,
    norm: Tensor | None = None,
    S: Training | None = None,
    inner_batch: int = 16,
) -> tuple[Tensor, Training]:
    """Mini-batches in turn, in the dual form: O(T (b d_k + b d_v + d_k d_v)) a layer.

    Without S the learner is one layer of zeros, without b. With `norm` it answers
    f(x) = x + LN(...), else the last layer's output itself. torch.compile sees every
    mini-batch as operations of its own, and so takes time in T / b.

    Raises
    ------
    TypeError
        S is no `Training`, or an argument is no floating-point tensor, or of another
        dtype or device than q (all but k and v may be float32 where q is of half
        precision).
    ValueError
        A shape does not fit, or `inner_batch` is below 1.
    """
    S, tokens = resumed(
        Tokens(q, k, v, beta), S, reader_rate, norm, inner_batch=inner_batch
    )
    o, f = _mini_batches(tokens, S.f, reader_rate, norm, inner_batch)
    return paused(o, tokens, f, q.shape[1], inner_batch)


def resumed(
    tokens: Tokens,
    S: Training | None,
    reader_rate: Tensor | None,
    norm: Tensor | None,
    *,
    inner_batch: int,
) -> tuple[Training, Tokens]:
    """The state to begin with, and all tokens since the start of its mini-batch.

    Raises what `chunkwise` does.
    """
    q, k, v, beta = tokens
    check(q=q, k=k, v=v, beta=beta, inner_batch=inner_batch)
    S = Training.start([zeros(k, v)], k, v) if S is None else S
    if not torch.compiler.is_compiling():
        _check_state(S, k, v)
        _check_layer(reader_rate, norm, k, v, inner_batch)
    n = S.k.shape[1]
    if n:
        # what the tokens that were read before ask again is not answered
        q = F.pad(q, (0, 0, 0, 0, n, 0))
        k, v = torch.cat([S.k, k], 1), torch.cat([S.v, v], 1)
        beta = torch.cat([S.beta, beta], 1)
    return S, Tokens(q, k, v, beta)


def paused(
    o: Tensor, tokens: Tokens, f: tuple[Affine, ...], T: int, inner_batch: int
) -> tuple[Tensor, Training]:
    """The answers to the last T tokens, and the state: f and its mini-batch so far."""
    seen = tokens.k.shape[1]
    rest = (x[:, seen - seen % inner_batch :].clone() for x in tokens[1:])
    return o[:, seen - T :], Training(f, *rest)


def zeros(k: Tensor, v: Tensor) -> Affine:
    """A layer that knows nothing, without b, in the dtype of the sums."""
    B, _, H, d_k = k.shape
    return Affine(k.new_zeros(B, H, d_k, v.shape[-1], dtype=wide(k.dtype)))


def layer_norm(z: Tensor, norm: Tensor) -> Tensor:
    """Gain (z - mean) / sqrt(variance + 1e-6) + shift, along the last axis.

    norm [..., 2, d] holds gain and shift, for the rows of z [..., n, d].
    """
    gain, shift = norm.split(1, -2)
    return gain * _standard(z)[0] + shift


def slope(z: Tensor, k: Tensor, v: Tensor, norm: Tensor | None) -> Tensor:
    """The slope at z of half the squared distance of what is answered to k from v."""
    if norm is None:
        return z - v
    gain, shift = norm.split(1, -2)
    x, deviation = _standard(z)
    g = gain * (gain * x + shift - (v - k))
    along = (g * x).mean(-1, keepdim=True)
    return (g - g.mean(-1, keepdim=True) - x * along) / deviation


def _standard(z: Tensor) -> tuple[Tensor, Tensor]:
    """Of mean 0 and variance 1 in the last axis, and what was divided by."""
    z = z - z.mean(-1, keepdim=True)
    deviation = (z.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    return z / deviation, deviation


def _mini_batches(
    tokens: Tokens,
    f: tuple[Affine, ...],
    reader_rate: Tensor | None,
    norm: Tensor | None,
    b: int,
) -> tuple[Tensor, tuple[Affine, ...]]:
    """The answers to all tokens, and the learner after the last whole mini-batch."""
    (B, T, H, _), dtype = tokens.k.shape, wide(tokens.k.dtype)
    # copies, so that no result shares memory with what was given
    f = each(f, lambda x: x.to(dtype).flatten(0, 1).clone())
    z: list[Tensor] = []
    if T:
        q, k, v, beta = (chunked(x.to(dtype), b) for x in tokens)
        r = q.new_ones(b) if reader_rate is None else reader_rate.to(dtype)
        steps = (r[:, None] * beta[..., None, :]).tril()
        norm = None if norm is None else norm.to(dtype).repeat(B, 1, 1)
    for n in range(-(-T // b)):
        x, g = backward(f, k[n], v[n], norm)
        z.append(_read_after(f, q[n], x, g, steps[n]))
        if (n + 1) * b <= T:
            rate = r[-1] * beta[n][..., None]
            f = tuple(
                layer.after(x_l, rate * g_l)
                for layer, x_l, g_l in zip(f, x, g, strict=True)
            )
    f = each(f, lambda x: x.unflatten(0, (B, H)))
    if not z:
        return torch.zeros_like(tokens.v), f
    o = torch.stack(z) if norm is None else q + layer_norm(torch.stack(z), norm)
    return unchunked(o, B, T).to(tokens.v.dtype), f


def backward(
    f: tuple[Affine, ...], k: Tensor, v: Tensor, norm: Tensor | None
) -> tuple[list[Tensor], list[Tensor]]:
    """What the tokens bring to every layer, and their losses' slopes behind it."""
    x, z = [k], [f[0].read(k)]
    for layer in f[1:]:
        x.append(gelu(z[-1]))
        z.append(layer.read(x[-1]))
    g = [slope(z[-1], k, v, norm)]
    for layer, before in zip(f[:0:-1], z[-2::-1], strict=True):
        back = g[0] @ layer.W.mT
        g.insert(0, torch.ops.aten.gelu_backward(back, before, approximate="tanh"))
    return x, g


def _read_after(
    f: tuple[Affine, ...], q: Tensor, x: list[Tensor], g: list[Tensor], steps: Tensor
) -> Tensor:
    """What the last layer answers to q, each row after its own steps."""
    y = f[0].read_after(q, x[0], g[0], steps)
    for layer, x_l, g_l in zip(f[1:], x[1:], g[1:], strict=True):
        y = layer.read_after(gelu(y), x_l, g_l, steps)
    return y


def gelu(x: Tensor) -> Tensor:
    """Gelu by its usual approximation, with a tanh."""
    return F.gelu(x, approximate="tanh")


def each(
    f: tuple[Affine, ...], function: Callable[[Tensor], Tensor]
) -> tuple[Affine, ...]:
    """The learner with every tensor passed through a function."""
    return tuple(
        Affine(function(layer.W), None if layer.b is None else function(layer.b))
        for layer in f
    )


def _check_layer(
    reader_rate: Tensor | None,
    norm: Tensor | None,
    k: Tensor,
    v: Tensor,
    inner_batch: int,
) -> None:
    """Raise unless what is not by token fits it."""
    (*_, H, d_k), d_v = k.shape, v.shape[-1]
    for name, x in (("reader_rate", reader_rate), ("norm", norm)):
        if x is not None:
            check_kind(name, x, ("k", k), also_wide=True)
    if reader_rate is not None and reader_rate.shape != (inner_batch,):
        raise ValueError(
            f"reader_rate: expected [inner_batch] = [{inner_batch}], "
            f"got shape {tuple(reader_rate.shape)}"
        )
    if norm is None:
        return
    if d_k != d_v:
        raise ValueError(
            f"norm: expected None, for with a norm k is added to what is {d_v} long, "
            f"and k is {d_k} long"
        )
    if norm.shape != (H, 2, d_v):
        raise ValueError(
            f"norm: expected [H, 2, d_v] = [{H}, 2, {d_v}], "
            f"got shape {tuple(norm.shape)}"
        )


def _check_state(S: Any, k: Tensor, v: Tensor) -> None:
    """Raise unless S is a state for such tokens."""
    if not isinstance(S, Training):
        raise TypeError(f"S: expected a Training, got {type(S).__name__}")
    sizes: dict[str, tuple[int, str]] = {}
    for name, x, d in (("k", k, "d_k"), ("v", v, "d_v")):
        check_shape(name, x, (("B", "T", "H", d),), sizes)
    for name, x, shape in (
        ("S.k", S.k, ("B", "n", "H", "d_k")),
        ("S.v", S.v, ("B", "n", "H", "d_v")),
        ("S.beta", S.beta, ("B", "n", "H")),
    ):
        check_kind(name, x, ("k", k), also_wide=True)
        check_shape(name, x, (shape,), sizes)
    for i, layer in enumerate(S.f):
        for name, x in layer._asdict().items():
            if x is not None:
                check_kind(f"S.f[{i}].{name}", x, ("k", k), also_wide=True)
    check_layers("S.f", S.f, sizes)


def check_layers(
    name: str, f: tuple[Affine, ...], sizes: dict[str, tuple[int, str]]
) -> None:
    """Raise unless the layers fit one another, and the sizes that are known."""
    between = ["d_k", *(f"d_{i}" for i in range(1, len(f))), "d_v"]
    for i, (layer, pair) in enumerate(zip(f, pairwise(between), strict=True)):
        check_shape(f"{name}[{i}].W", layer.W, (("B", "H", *pair),), sizes)
        if layer.b is not None:
            check_shape(f"{name}[{i}].b", layer.b, (("B", "H", pair[1]),), sizes)
