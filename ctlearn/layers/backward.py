"""The one memory with its gradients derived by hand: the second rung.

Written once more for a chunk, with X what is to be written less what is erased:

    X = z - E S,   R = (I + L)^{-1} X,   o = Q S + P R,   S' = a S + K' R

where E, Q and K are e, q and k with the decay since the chunk's start or up to its end,
a is all the chunk's decay, and L and P are the pairs of e with k and of q with k. From
the gradients do and dS':

    dR = P' do + K dS',   dX = (I + L)^{-T} dR,   dz = dX,   dL = -dX R'
    dS = a dS' + Q' do - E' dX

Only the first and the last line wait for the chunk behind. What came before a segment
is kept from the way forward; all else is computed again, so that no more is kept than
the inputs and one state a segment, and nothing of either when no gradient is asked for.

With no graph to record, products go into buffers that are there already, and the
inverse is formed in place: that is where this rung is faster than the first. Both ways
are operators of torch, which torch.compile calls and does not look into.
"""

from collections.abc import Iterable
from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ctlearn.layers.arguments import check, check_decay
from ctlearn.layers.decay import Decay, Seen, decay_of
from ctlearn.layers.memory import (
    Tokens,
    chunked,
    initial_state,
    segments,
    unchunked,
)

# Rows of the chunk's triangular system that are solved; larger blocks are merged.
BLOCK = 32


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
    """As `ctlearn.layers.memory.chunkwise`, faster, and at a fraction of the memory.

    An e that is k itself is read once, and has its gradient in that of k. Gradients are
    given once: those of gradients are the first rung's to find. Half precision is
    computed in float32 here too, both ways; gradients are in the dtypes of what was
    given.
    """
    check(q=q, k=k, z=z, e=e, log_decay=log_decay, beta=beta, S=S)
    check(chunk_size=chunk_size)
    S = initial_state(k, z, S)
    e_is_k = e is k
    given = (q, k, z, None if e_is_k else e, log_decay, beta, S)
    keep = torch.is_grad_enabled() and any(
        x is not None and x.requires_grad for x in given
    )
    o, S, _ = _forward(*given, e_is_k, read_first, chunk_size, keep)
    return o, S


@torch.library.custom_op(
    "ctlearn::memory_chunkwise",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor z, Tensor? e, Tensor? log_decay, Tensor? beta, "
    "Tensor S, bool e_is_k, bool read_first, int chunk_size, bool keep) "
    "-> (Tensor, Tensor, Tensor)",
)
def _forward(*inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs, the last state, and if asked to keep them the segments' first."""
    tokens, (S, e_is_k, *how, keep) = Tokens(*inputs[:6]), inputs[6:]
    if e_is_k:
        tokens = tokens._replace(e=tokens.k)
    if tokens.log_decay is not None:
        check_decay("log_decay", tokens.log_decay)
    z, starts, shape = tokens.z, [], S.shape
    o = z.new_empty(z.shape)
    S = S.flatten(0, 1)
    for segment in segments(tokens.k, how[1]):
        if keep:
            starts.append(S)
        S = _forward_segment(tokens.part(segment), S, o[:, segment], *how)
    kept = torch.stack(starts) if starts else S.new_empty(0, *S.shape)
    return o, S.clone().view(shape), kept


def _forward_segment(tokens: Tokens, S: Tensor, o: Tensor, *how: Any) -> Tensor:
    """Write some chunks' outputs to o; the state behind them."""
    run = _run(tokens, S, *how)
    (q, k, *_), after, R, states = run.rated, run.D.after, run.R, run.states
    # what follows finds memory that is free, and warm in the caches
    del run
    read = torch.matmul(after.from_start(q), states[:-1])
    read.flatten(0, 1).baddbmm_(after.pairs(q, k).flatten(0, 1), R.flatten(0, 1))
    _put(read, o)
    return states[-1].clone()


@_forward.register_fake
def _(*inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    _, k, z, _, _, _, S, _, _, chunk_size, keep = inputs
    kept = len(segments(k, chunk_size)) if keep else 0
    B, H, *sizes = S.shape
    return (
        z.new_empty(z.shape),
        S.new_empty(S.shape),
        S.new_empty(kept, B * H, *sizes),
    )


def _remember(ctx: Any, inputs: tuple, output: tuple) -> None:
    *tokens, _ = inputs[:7]
    ctx.how = inputs[7:10]
    ctx.save_for_backward(*tokens, output[2])


def _gradients(ctx: Any, do: Tensor, dS: Tensor, _: Tensor) -> tuple:
    *tokens, starts = ctx.saved_tensors
    found = _backward(do, dS, *tokens, starts, *ctx.how)
    dS = found.pop()
    given = (None if x is None else found.pop(0) for x in tokens)
    return *given, dS, None, None, None, None


_forward.register_autograd(_gradients, setup_context=_remember)


@torch.library.custom_op(
    "ctlearn::memory_chunkwise_backward",
    mutates_args=(),
    schema="(Tensor do, Tensor dS, Tensor q, Tensor k, Tensor z, Tensor? e, "
    "Tensor? log_decay, Tensor? beta, Tensor starts, bool e_is_k, bool read_first, "
    "int chunk_size) -> Tensor[]",
)
def _backward(*inputs: Any) -> list[Tensor]:
    """The gradients of all tokens that were given, then that of S."""
    (do, dS), tokens = inputs[:2], Tokens(*inputs[2:8])
    (starts, e_is_k, *how), shape = inputs[8:], dS.shape
    whole = [None if x is None else x.new_empty(x.shape) for x in tokens]
    if e_is_k:
        tokens = tokens._replace(e=tokens.k)
    dS = dS.flatten(0, 1)
    todo = list(zip(segments(tokens.k, how[1]), starts, strict=True))
    for segment, S in reversed(todo):
        run = _run(tokens.part(segment), S, *how)
        found, dS = _backward_segment(run, do[:, segment], dS)
        if e_is_k:
            found[1] += found[3]
        for into, x in zip(whole, found, strict=True):
            if into is not None:
                _put(x, into[:, segment])
        # as above
        del run, found, x
    return [*(x for x in whole if x is not None), dS.clone().view(shape)]


@_backward.register_fake
def _(*inputs: Any) -> list[Tensor]:
    dS, tokens = inputs[1], inputs[2:8]
    found = [x.new_empty(x.shape) for x in tokens if x is not None]
    return [*found, dS.new_empty(dS.shape)]


class _Run(NamedTuple):
    """What the way forward through some chunks computes, in the letters above."""

    given: Tokens
    rated: Tokens
    D: Decay
    seen: Seen
    E: Tensor | None
    L: Tensor | None
    A: Tensor | None  # (I + L)^{-1}
    K: Tensor
    R: Tensor
    states: Tensor  # [chunks + 1, heads, d_k, d_v]


def _run(tokens: Tokens, S: Tensor, read_first: bool, chunk_size: int) -> _Run:
    given = tokens.chunked(min(chunk_size, tokens.k.shape[1]))
    x = _rated(given)
    D = decay_of(x.log_decay, x.k)
    seen = D.before if read_first else D.after
    E = L = A = None
    erasures: Iterable[tuple[Tensor, Tensor] | None]
    R, erasures = x.z, repeat(None)
    if x.e is not None:
        E, L = seen.from_start(x.e), seen.pairs(x.e, x.k)
        A, R = inverse_unit_lower(L), torch.empty_like(x.z)
        erasures = zip(E, A, strict=True)
    K = D.to_end(x.k)
    states = S.new_empty(len(K) + 1, *S.shape)
    states[0] = S
    X = torch.empty_like(R[0])
    chunks = zip(x.z, R, K.mT, D.whole, states, states[1:], strict=False)
    for (z, R_n, K_n, kept, S, S_next), erasure in zip(chunks, erasures, strict=False):
        if erasure:
            E_n, A_n = erasure
            torch.baddbmm(z, E_n, S, alpha=-1, out=X)
            torch.bmm(A_n, X, out=R_n)
        torch.mul(S, kept, out=S_next).baddbmm_(K_n, R_n)
    return _Run(given, x, D, seen, E, L, A, K, R, states)


def _rated(given: Tokens) -> Tokens:
    """Copies in the order of the products: beta e and beta z, and no beta."""
    rate = None if given.beta is None else given.beta[..., None]

    def rated(x: Tensor | None) -> Tensor | None:
        if x is None or rate is None:
            return x
        # into that order at once, not into that of x
        return torch.mul(x, rate, out=x.new_empty(x.shape))

    x = given._replace(z=rated(given.z), e=rated(given.e), beta=None)
    return Tokens(*(None if a is None else a.contiguous() for a in x))


def _backward_segment(run: _Run, do: Tensor, dS: Tensor) -> tuple[list[Any], Tensor]:
    """The gradients of the tokens, in chunks, and of the first state."""
    x, D, seen = run.rated, run.D, run.seen
    # once in the order of the products, of which there are four
    do = chunked(do.to(dS.dtype), x.k.shape[2]).contiguous()
    P = D.after.pairs(x.q, x.k)
    dX, d_states = _backwards(run, P.mT @ do, do, dS)
    before, after = run.states[:-1], d_states[1:]
    dq, dg = D.after.from_start_backward(x.q, do @ before.mT)
    dk, dg_k = D.to_end_backward(x.k, run.R @ after.mT)
    dP = (do @ run.R.mT).tril_()
    dg_pairs = D.after.pairs_backward(x.q, x.k, P, dP, dq, dk)
    gates = [dg, dg_k, dg_pairs, D.whole_backward(before, after)]
    de = dbeta = None
    if x.e is not None:
        de, dg_e = seen.from_start_backward(x.e, (dX @ before.mT).neg_())
        dL = (dX @ run.R.mT).neg_().tril_(-1)
        gates += [dg_e, seen.pairs_backward(x.e, x.k, run.L, dL, de, dk)]
    dz, given = dX, run.given
    if given.beta is not None:
        rate = given.beta[..., None]
        dbeta = (dX * given.z).sum(-1)
        dz = dX.mul_(rate)
        if de is not None:
            dbeta += (de * given.e).sum(-1)
            de.mul_(rate)
    dg = None if x.log_decay is None else torch.stack(gates).sum(0)
    return [dq, dk, dz, de, dg, dbeta], d_states[0].clone()


def _backwards(run: _Run, dR: Tensor, do: Tensor, dS: Tensor) -> tuple[Tensor, Tensor]:
    """dX, and the gradients of the states [chunks + 1, heads, d_k, d_v].

    `dR` is what the chunk's own outputs add to the gradient of R, completed here.
    """
    dX = dR if run.A is None else torch.empty_like(dR)
    d_states = dS.new_empty(len(dR) + 1, *dS.shape)
    Q = run.D.after.from_start(run.rated.q)
    torch.matmul(Q.mT, do, out=d_states[:-1])
    d_states[-1] = dS
    erasures: Iterable[tuple[Tensor, ...] | None] = repeat(None)
    if run.E is not None and run.A is not None:
        erasures = _from_last(run.E.mT, run.A.mT, dX)
    chunks = _from_last(run.K, run.D.whole, dR, d_states[:-1], d_states[1:])
    for (K, kept, dR_n, dS, behind), erasure in zip(chunks, erasures, strict=False):
        dR_n.baddbmm_(K, behind)
        dS.addcmul_(behind, kept)
        if erasure:
            E, A, dX_n = erasure
            torch.bmm(A, dR_n, out=dX_n)
            dS.baddbmm_(E, dX_n, alpha=-1)
    return dX, d_states


def _from_last(*given: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """The chunks of all that is given, the last chunk first."""
    return zip(*(reversed(x.unbind()) for x in given), strict=True)


def _put(x: Tensor, into: Tensor) -> None:
    """Copy [chunks, B H, C, ...] into [B, T, H, ...], once."""
    B, T, H = into.shape[:3]
    chunks, _, C, *_ = x.shape
    if chunks * C == T:
        x = x.unflatten(1, (B, H)).transpose(0, 1).transpose(2, 3)
        into.unflatten(1, (chunks, C)).copy_(x)
    else:
        into.copy_(unchunked(x, B, T))


def inverse_unit_lower(L: Tensor) -> Tensor:
    """(I + L)^{-1}, where L [..., C, C] counts below its diagonal alone.

    Up to 32 rows are solved; more are split in two, and the parts' inverses merged:
    [[A, 0], [X, B]]^{-1} has -B^{-1} X A^{-1} below its diagonal.
    """
    C = L.shape[-1]
    if C <= BLOCK:
        eye = torch.eye(C, dtype=L.dtype, device=L.device)
        # X (I + L) = I is solved in half the time of (I + L) X = I
        return torch.linalg.solve_triangular(
            L, eye, upper=False, unitriangular=True, left=False
        )
    half = BLOCK << ((C - 1) // BLOCK).bit_length() - 1
    above, below = slice(half), slice(half, C)
    A = torch.zeros_like(L)
    A[..., above, above] = one = inverse_unit_lower(L[..., above, above])
    A[..., below, below] = two = inverse_unit_lower(L[..., below, below])
    A[..., below, above] = (two @ (L[..., below, above] @ one)).neg_()
    return A
