"""The one memory with its gradients derived by hand: the second rung.

Written once more for a chunk, with X what is to be written less what is erased:

    X = z - E S,   R = (I + L)^{-1} X,   o = Q S + P R,   S' = a S + K' R

where E, Q and K are e, q and k with the decay since the chunk's start or up to its end,
a is all the chunk's decay, and L and P are the pairs of e with k and of q with k. From
the gradients do and dS':

    dR = P' do + K dS',   dX = (I + L)^{-T} dR,   dz = dX,   dL = -dX R'
    dS = a dS' + Q' do - E' dX

Only this last line waits for the chunk behind it. What came before a segment is kept
from the way forward; all else is computed again, so that no more is kept than the
inputs and one state a segment.
"""

from typing import Any

import torch
from torch import Tensor

from ctlearn.layers.decay import Decay, decay_of
from ctlearn.layers.memory import (
    Tokens,
    chunked,
    forward_segment,
    initial_state,
    inverse_unit_lower,
    segments,
    unchunked,
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
    """As `ctlearn.layers.memory.chunkwise`, at a fraction of the memory to train."""
    S = initial_state(k, z, S)
    return _Chunkwise.apply(q, k, z, e, log_decay, S, read_first, chunk_size)


class _Chunkwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        q, k, z, e, log_decay, S, read_first, chunk_size = inputs
        tokens = Tokens(q, k, z, e, log_decay)
        outputs, starts = [], []
        for segment in segments(k, chunk_size):
            starts.append(S)
            o, S = forward_segment(tokens.part(segment), S, read_first, chunk_size)
            outputs.append(o)
        ctx.save_for_backward(q, k, z, e, log_decay, *starts)
        ctx.read_first, ctx.chunk_size = read_first, chunk_size
        o = torch.cat(outputs, 1) if outputs else torch.zeros_like(z)
        return o, S if outputs else S.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        do, dS = gradients
        tokens, starts = Tokens(*ctx.saved_tensors[:5]), ctx.saved_tensors[5:]
        parts = []
        todo = list(zip(segments(tokens.k, ctx.chunk_size), starts, strict=True))
        for segment, S in reversed(todo):
            here, gradients = tokens.part(segment), (do[:, segment], dS)
            found, dS = _backward_segment(
                here, S, gradients, ctx.read_first, ctx.chunk_size
            )
            parts.append(found)
        if not parts:
            return *(None if x is None else x.clone() for x in tokens), dS, None, None
        whole = [
            None if x[0] is None else torch.cat(x[::-1], 1)
            for x in zip(*parts, strict=True)
        ]
        return *whole, dS, None, None


def _backward_segment(
    tokens: Tokens,
    S: Tensor,
    gradients: tuple[Tensor, Tensor],
    read_first: bool,
    chunk_size: int,
) -> tuple[list[Tensor | None], Tensor]:
    """The gradients of the tokens and of S for some chunks."""
    do, dS = gradients
    T = do.shape[1]
    C = min(chunk_size, T)
    q, k, z, e, log_decay = tokens.chunked(C)
    do, D = chunked(do, C), decay_of(log_decay, k)
    seen = D.before if read_first else D.after
    Q, K, P = D.after.from_start(q), D.to_end(k), D.after.pairs(q, k)
    u, Y, A = z, None, None
    if e is not None:
        E = seen.from_start(e)
        A = inverse_unit_lower(seen.pairs(e, k))
        u, Y = A @ z, A @ E
    states = _forwards(u, Y, K, D, S)
    R = u if Y is None else u - Y @ states
    after_states, dS = _backwards(P.mT @ do, Q.mT @ do, Y, K, D, dS)
    dR = P.mT @ do + K @ after_states
    dX = dR if A is None else A.mT @ dR
    dq, dg = D.after.from_start_backward(q, do @ states.mT)
    dk, dg_k = D.to_end_backward(k, R @ after_states.mT)
    dq_pairs, dk_pairs, dg_pairs = D.after.pairs_backward(q, k, (do @ R.mT).tril())
    dq, dk = dq + dq_pairs, dk + dk_pairs
    gates: list[Any] = [dg, dg_k, dg_pairs, D.whole_backward(states, after_states)]
    de = None
    if e is not None:
        de, dg_e = seen.from_start_backward(e, -dX @ states.mT)
        de_pairs, dk_pairs, dg_pairs = seen.pairs_backward(e, k, -(dX @ R.mT).tril(-1))
        de, dk = de + de_pairs, dk + dk_pairs
        gates += [dg_e, dg_pairs]
    dg = None if log_decay is None else torch.stack(gates).sum(0)
    found = (dq, dk, dX, de, dg)
    return [None if x is None else unchunked(x, T) for x in found], dS


def _forwards(u: Tensor, Y: Tensor | None, K: Tensor, D: Decay, S: Tensor) -> Tensor:
    """The state before each chunk, [B, H, chunks, d_k, d_v]."""
    states = []
    for n in range(K.shape[2]):
        states.append(S)
        R = u[:, :, n] if Y is None else u[:, :, n] - Y[:, :, n] @ S
        S = D.whole(n, S) + K[:, :, n].mT @ R
    return torch.stack(states, 2)


def _backwards(
    dR: Tensor, read: Tensor, Y: Tensor | None, K: Tensor, D: Decay, dS: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradient of the state after each chunk, and that of the first.

    `dR` and `read` are what the chunk's outputs add to those of R and of S.
    """
    after = []
    for n in reversed(range(K.shape[2])):
        after.append(dS)
        here = D.whole(n, dS) + read[:, :, n]
        if Y is not None:
            here = here - Y[:, :, n].mT @ (dR[:, :, n] + K[:, :, n] @ dS)
        dS = here
    return torch.stack(after[::-1], 2), dS
