"""The one memory in torch: batched, differentiable, in the plans of `ctlearn.memory`.

    q, k, e [B, T, H, d_k], z [B, T, H, d_v], S [B, H, d_k, d_v],
    log_decay [B, T, H] or [B, T, H, d_k], in [-inf, 0]

Each plan returns (o [B, T, H, d_v], S). The letters, the order of forgetting and
reading, and minus infinity as an exact reset are those of `ctlearn.memory`, which says
what is computed; this file says how to compute it fast. Everything is in the dtype of
q; the state may be wider.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlearn.layers.decay import decay_of

# Chunks, over batch and heads, that are worked on at once: few enough to stay in a
# processor's second-level cache, many enough to keep it busy.
CHUNKS_AT_ONCE = 32
# Blocks of the chunk's triangular system that are solved rather than merged.
BLOCK = 16


def step(
    q: Tensor,
    k: Tensor,
    z: Tensor,
    *,
    e: Tensor | None = None,
    log_decay: Tensor | None = None,
    S: Tensor,
    read_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """One token, without its axis: q, k, e [B, H, d_k], z [B, H, d_v]."""
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
    S: Tensor | None = None,
    read_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """One token after another: O(T d_k d_v), and T steps that wait for each other."""
    S = initial_state(k, z, S)
    outputs = []
    for t in range(k.shape[1]):
        o, S = step(
            q[:, t],
            k[:, t],
            z[:, t],
            e=None if e is None else e[:, t],
            log_decay=None if log_decay is None else log_decay[:, t],
            S=S,
            read_first=read_first,
        )
        outputs.append(o)
    return torch.stack(outputs, 1) if outputs else torch.zeros_like(z), S


def parallel(
    q: Tensor,
    k: Tensor,
    z: Tensor,
    *,
    e: Tensor | None = None,
    log_decay: Tensor | None = None,
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
        S=S,
        read_first=read_first,
        chunk_size=max(1, k.shape[1]),
    )


def chunkwise(
    q: Tensor,
    k: Tensor,
    z: Tensor,
    *,
    e: Tensor | None = None,
    log_decay: Tensor | None = None,
    S: Tensor | None = None,
    read_first: bool = False,
    chunk_size: int = 64,
) -> tuple[Tensor, Tensor]:
    """Chunks in turn, the state between them: O(T (C d_k + C d_v + d_k d_v)).

    The tokens are taken in segments of as many chunks as stay in cache. In a segment,
    all that does not need the state is done for all chunks at once; then the state
    passes through them, at two products a chunk; then all outputs are read at once.
    """
    S = initial_state(k, z, S)
    tokens, outputs = Tokens(q, k, z, e, log_decay), []
    for segment in segments(k, chunk_size):
        o, S = forward_segment(tokens.part(segment), S, read_first, chunk_size)
        outputs.append(o)
    return torch.cat(outputs, 1) if outputs else torch.zeros_like(z), S


class Tokens(NamedTuple):
    """What comes with tokens; e and log_decay may be None."""

    q: Tensor
    k: Tensor
    z: Tensor
    e: Tensor | None
    log_decay: Tensor | None

    def part(self, segment: slice) -> "Tokens":
        """Those of some tokens."""
        return Tokens(*(None if x is None else x[:, segment] for x in self))

    def chunked(self, C: int) -> "Tokens":
        """Each as [B, H, chunks, C, ...]."""
        return Tokens(*(None if x is None else chunked(x, C) for x in self))


def segments(k: Tensor, chunk_size: int) -> list[slice]:
    """The tokens of [B, T, H, d] in runs of as many chunks as stay in cache."""
    B, T, H, _ = k.shape
    length = chunk_size * max(1, CHUNKS_AT_ONCE // max(1, B * H))
    return [slice(start, start + length) for start in range(0, T, length)]


def forward_segment(
    tokens: Tokens, S: Tensor, read_first: bool, chunk_size: int
) -> tuple[Tensor, Tensor]:
    """Outputs and state of some chunks."""
    T = tokens.k.shape[1]
    q, k, z, e, log_decay = tokens.chunked(min(chunk_size, T))
    D = decay_of(log_decay, k)
    u = z
    if e is not None:
        seen = D.before if read_first else D.after
        A = inverse_unit_lower(seen.pairs(e, k))
        u, Y = A @ z, A @ seen.from_start(e)
    written = D.to_end(k).mT
    states, errors = [], []
    for n in range(k.shape[2]):
        u_n = u[:, :, n]
        if e is not None:
            u_n = u_n - Y[:, :, n] @ S
        states.append(S)
        errors.append(u_n)
        S = D.whole(n, S) + written[:, :, n] @ u_n
    o = D.after.from_start(q) @ torch.stack(states, 2)
    o = o + D.after.pairs(q, k) @ torch.stack(errors, 2)
    return unchunked(o, T), S


def chunked(x: Tensor, C: int) -> Tensor:
    """[B, T, H, ...] as [B, H, chunks, C, ...]; zeros behind the last token, which
    write nothing and forget nothing.
    """
    short = -x.shape[1] % C
    if short:
        x = F.pad(x, (0, 0) * (x.dim() - 2) + (0, short))
    return x.unflatten(1, (-1, C)).movedim(3, 1).contiguous()


def unchunked(x: Tensor, T: int) -> Tensor:
    """The first T tokens of [B, H, chunks, C, d] as [B, T, H, d]."""
    return x.movedim(1, 3).flatten(1, 2)[:, :T]


def inverse_unit_lower(L: Tensor) -> Tensor:
    """(I + L)^{-1}, where L [..., C, C] counts below its diagonal alone.

    Blocks of sixteen rows are solved; two neighbours of one size then make one of
    twice: [[A, 0], [X, B]]^{-1} has -B^{-1} X A^{-1} below its diagonal.
    """
    C = L.shape[-1]
    size = min(BLOCK, C)
    full = size << max(0, (C - 1) // size).bit_length()
    if full > C:
        L = F.pad(L, (0, full - C, 0, full - C))
    eye = torch.eye(size, dtype=L.dtype, device=L.device)
    A = torch.linalg.solve_triangular(
        _blocks(L, size), eye, upper=False, unitriangular=True
    )
    while size < full:
        size *= 2
        upper, lower = A.unflatten(-3, (-1, 2)).unbind(-3)
        X = _blocks(L, size)[..., size // 2 :, : size // 2]
        corner = -(lower @ (X @ upper))
        A = torch.cat(
            [F.pad(upper, (0, size // 2)), torch.cat([corner, lower], -1)], -2
        )
    return A[..., 0, :C, :C]


def _blocks(L: Tensor, size: int) -> Tensor:
    """The blocks on the diagonal of L [..., n size, n size]: [..., n, size, size]."""
    tiles = L.unflatten(-1, (-1, size)).unflatten(-3, (-1, size))
    return tiles.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)


def initial_state(k: Tensor, z: Tensor, S: Tensor | None) -> Tensor:
    """`S`, or zeros [B, H, d_k, d_v] in the dtype of k."""
    if S is not None:
        return S
    B, _, H, d_k = k.shape
    return k.new_zeros(B, H, d_k, z.shape[-1])
