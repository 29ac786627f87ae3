"""The one memory in torch: batched, differentiable, in the plans of `ctlearn.memory`.

    q, k, e [B, T, H, d_k], z [B, T, H, d_v], S [B, H, d_k, d_v], beta [B, T, H],
    log_decay [B, T, H] or [B, T, H, d_k], in [-inf, 0]

Each plan returns (o [B, T, H, d_v], S). The letters, the order of forgetting and
reading, and minus infinity as an exact reset are those of `ctlearn.memory`, which says
what is computed; this file says how to compute it, and leaves the gradients to autograd
(`ctlearn.layers.backward` derives them). `beta` stands for beta e and beta z in the
place of e and z, which are then never stored for all tokens.

Half precision is computed in float32, a segment at a time; o is in the dtype of z, the
state in float32. Bad arguments raise what `ctlearn.layers.arguments.check` says.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlearn.layers.arguments import check, wide
from ctlearn.layers.decay import decay_of

# Tokens, over batch and heads, that are worked on at once: few enough to stay in a
# processor's caches, many enough to keep it busy.
TOKENS_AT_ONCE = 2048


class Tokens(NamedTuple):
    """What comes with tokens; the last three may be None."""

    q: Tensor
    k: Tensor
    z: Tensor
    e: Tensor | None
    log_decay: Tensor | None
    beta: Tensor | None

    def part(self, tokens: slice | int) -> "Tokens":
        """Those of some tokens."""
        return Tokens(*(None if x is None else x[:, tokens] for x in self))

    def widened(self) -> "Tokens":
        """In the dtype of the sums."""
        dtype = wide(self.q.dtype)
        return Tokens(*(None if x is None else x.to(dtype) for x in self))

    def chunked(self, C: int) -> "Tokens":
        """Each as [chunks, heads, C, ...], in the dtype of the sums."""
        return Tokens(*(None if x is None else chunked(x, C) for x in self.widened()))

    def rated(self) -> "Tokens":
        """With beta e and beta z for e and z, and no beta."""
        if self.beta is None:
            return self
        beta = self.beta[..., None]
        e = None if self.e is None else beta * self.e
        return self._replace(z=beta * self.z, e=e, beta=None)


def step(
    q: Tensor,
    k: Tensor,
    z: Tensor,
    *,
    e: Tensor | None = None,
    log_decay: Tensor | None = None,
    beta: Tensor | None = None,
    S: Tensor,
    read_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """One token, without its axis: q, k, e [B, H, d_k], z [B, H, d_v]."""
    check(q=q, k=k, z=z, e=e, log_decay=log_decay, beta=beta, S=S, per_token=True)
    o, S = _step(Tokens(q, k, z, e, log_decay, beta).widened(), _widened(S), read_first)
    return o.to(z.dtype), S


def _step(token: Tokens, S: Tensor, read_first: bool) -> tuple[Tensor, Tensor]:
    q, k, z, e, log_decay, _ = token.rated()
    kept = S
    if log_decay is not None:
        gate = log_decay[..., None] if log_decay.dim() < k.dim() else log_decay
        kept = gate.exp()[..., None] * S
    u = z
    if e is not None:
        u = z - torch.einsum("bhk,bhkv->bhv", e, S if read_first else kept)
    S = kept + k[..., :, None] * u[..., None, :]
    return torch.einsum("bhk,bhkv->bhv", q, S), S


def recurrent(
    q: Tensor,
    k: Tensor,
    z: Tensor,
    *,
    e: Tensor | None = None,
    log_decay: Tensor | None = None,
    beta: Tensor | None = None,
    S: Tensor | None = None,
    read_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """One token after another: O(T d_k d_v), and T steps that wait for each other."""
    check(q=q, k=k, z=z, e=e, log_decay=log_decay, beta=beta, S=S)
    S = initial_state(k, z, S)
    tokens, outputs = Tokens(q, k, z, e, log_decay, beta).widened(), []
    for t in range(k.shape[1]):
        o, S = _step(tokens.part(t), S, read_first)
        outputs.append(o)
    return torch.stack(outputs, 1).to(z.dtype) if outputs else torch.zeros_like(z), S


def parallel(
    q: Tensor,
    k: Tensor,
    z: Tensor,
    *,
    e: Tensor | None = None,
    log_decay: Tensor | None = None,
    beta: Tensor | None = None,
    S: Tensor | None = None,
    read_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """All tokens at once: one chunk of T, O(T^2 (d_k + d_v))."""
    return chunkwise(
        q,
        k,
        z,
        e=e,
        log_decay=log_decay,
        beta=beta,
        S=S,
        read_first=read_first,
        chunk_size=max(1, k.shape[1]),
    )


def chunkwise(  # noqa: PLR0913 - those of all plans, and a size
    q: Tensor,
    k: Tensor,
    z: Tensor,
    *,
    e: Tensor | None = None,
    log_decay: Tensor | None = None,
    beta: Tensor | None = None,
    S: Tensor | None = None,
    read_first: bool = False,
    chunk_size: int = 32,
) -> tuple[Tensor, Tensor]:
    """Chunks in turn, the state between them: O(T (C d_k + C d_v + d_k d_v)).

    The tokens are taken in segments of as many chunks as stay in cache. In a segment,
    all that does not need the state is done for all chunks at once; then the state
    passes through them, at three products a chunk; then all outputs are read at once.
    Why in chunks of 32, `ctlearn.layers.by_device` says.
    """
    check(q=q, k=k, z=z, e=e, log_decay=log_decay, beta=beta, S=S)
    check(chunk_size=chunk_size)
    B, _, H, _ = k.shape
    S = initial_state(k, z, S).flatten(0, 1)
    tokens, outputs = Tokens(q, k, z, e, log_decay, beta), []
    for segment in segments(k, chunk_size):
        o, S = _segment(tokens.part(segment), S, read_first, chunk_size)
        outputs.append(o.to(z.dtype))
    o = torch.cat(outputs, 1) if outputs else torch.zeros_like(z)
    return o, S.unflatten(0, (B, H))


def _segment(
    tokens: Tokens, S: Tensor, read_first: bool, chunk_size: int
) -> tuple[Tensor, Tensor]:
    """Outputs and state of some chunks."""
    B, T = tokens.k.shape[:2]
    q, k, z, e, log_decay, _ = tokens.chunked(min(chunk_size, T)).rated()
    D = decay_of(log_decay, k)
    if e is not None:
        seen = D.before if read_first else D.after
        L, E = seen.pairs(e, k), seen.from_start(e)
    K = D.to_end(k)
    states, written = [], []
    for n in range(len(k)):
        u = z[n]
        if e is not None:
            # of L only what is below the diagonal is looked at: what tokens of the
            # chunk have written before
            u = torch.linalg.solve_triangular(
                L[n], u - E[n] @ S, upper=False, unitriangular=True
            )
        states.append(S)
        written.append(u)
        S = D.whole[n] * S + K[n].mT @ u
    o = D.after.from_start(q) @ torch.stack(states)
    o = o + D.after.pairs(q, k) @ torch.stack(written)
    return unchunked(o, B, T), S


def segments(k: Tensor, chunk_size: int) -> list[slice]:
    """The tokens of [B, T, H, d] in runs of as many chunks as stay in cache."""
    B, T, H, _ = k.shape
    length = chunk_size * max(1, TOKENS_AT_ONCE // max(1, chunk_size * B * H))
    return [slice(start, start + length) for start in range(0, T, length)]


def chunked(x: Tensor, C: int) -> Tensor:
    """[B, T, H, ...] as [chunks, B H, C, ...], a view where that can be; zeros behind
    the last token, which write nothing and forget nothing.
    """
    B, T, H, *d = x.shape
    if T % C:
        x = F.pad(x, (0, 0) * (x.dim() - 2) + (0, -T % C))
    x = x.reshape(B, -1, C, H, *d).transpose(0, 1).transpose(2, 3)
    return x.reshape(-1, B * H, C, *d)


def unchunked(x: Tensor, B: int, T: int) -> Tensor:
    """The first T tokens of [chunks, B H, C, ...] as [B, T, H, ...]."""
    chunks, heads, C, *d = x.shape
    x = x.view(chunks, B, heads // B, C, *d).transpose(2, 3).transpose(0, 1)
    return x.reshape(B, chunks * C, heads // B, *d)[:, :T]


def initial_state(k: Tensor, z: Tensor, S: Tensor | None) -> Tensor:
    """A copy of `S`, or zeros [B, H, d_k, d_v], in the dtype of the sums."""
    if S is not None:
        return _widened(S).clone()
    B, _, H, d_k = k.shape
    return k.new_zeros(B, H, d_k, z.shape[-1], dtype=wide(k.dtype))


def _widened(S: Tensor) -> Tensor:
    return S.to(wide(S.dtype))
