"""The gradient of the memory from its last chunk to its first: what waits for what.

    dR = P' do + (K up to the end) dS',   dX = (I + A)' dR
    dS = (whole decay) dS' + (Q from the start)' do - (E from the start)' beta dX

with the letters of `scan`; dS' is the gradient of the state behind the chunk. All else
is found from dX and dS', chunk by chunk.
"""

from ctlearn.kernels.required import tl, triton
from ctlearn.kernels.tiles import (
    between,
    column_of,
    dot,
    gates_of,
    of_head,
    rows_of,
    scaled_dot,
    scaled_dot_of_rows,
    since_start,
    square,
    start_of,
    store_rows,
    until_end,
)


@triton.jit(do_not_specialize=["T"])
def reverse_kernel(
    tokens, A, P, do, dlast, dX, after, dS, T, H, d_k: tl.constexpr, d_v: tl.constexpr,
    C: tl.constexpr, K: tl.constexpr, V: tl.constexpr, G: tl.constexpr,
    LATE: tl.constexpr,
):  # fmt: skip
    """The gradients dX [B, T, H, d_v], dS [B, H, d_k, d_v], and `after`
    [B x H x chunks, d_k, d_v].

    A program takes V value columns of one head through all chunks, from behind. It
    reads what `scan_kernel` reads but z and S, and do and dlast, the gradients of o and
    of the last state. It writes dX and `after`, the gradient of the state behind each
    chunk, and in the end dS, that of the first.
    """
    tiles, chunks = tl.cdiv(d_v, V), tl.cdiv(T, C)
    pair = (tl.program_id(0) // tiles).to(tl.int64)
    q, k = of_head(tokens[0], pair, H), of_head(tokens[1], pair, H)
    do, dX = of_head(do, pair, H), of_head(dX, pair, H)
    e = of_head(tokens[3], pair, H)
    log_decay = of_head(tokens[4], pair, H)
    beta = of_head(tokens[5], pair, H)
    i, channels = tl.arange(0, C), tl.arange(0, K)
    values = (tl.program_id(0) % tiles) * V + tl.arange(0, V)
    b_dS = rows_of(of_head(dlast, pair, H), channels, values, d_k, d_v).to(tl.float32)
    # what the chunks share is computed in each, and so not kept in registers
    for back in tl.range(0, chunks, disable_licm=True):
        n = chunks - 1 - tl.cast(back, tl.int32)
        start = start_of(n, C, T)
        rows = start + i
        at = (pair * chunks + n) * (C * C) + square(C)
        here = of_head(after, pair * chunks + n, 1)
        store_rows(here, b_dS, channels, values, d_k, d_v)
        b_q = rows_of(q, rows, channels, T, d_k)
        b_k = rows_of(k, rows, channels, T, d_k)
        if P is None:
            g = gates_of(log_decay, start, 0, C, G, T, d_k)
            b_P = (dot(b_q, tl.trans(b_k)) * between(g, rows, G, 0)).to(b_q.dtype)
        else:
            b_P = tl.load(P + at)
        ahead = until_end(gates_of(log_decay, start, 1, C, G, T, d_k), G)
        b_do = rows_of(do, rows, values, T, d_v)
        b_dX = dot(tl.trans(b_P), b_do) + scaled_dot(b_k, ahead, b_dS)
        if A is not None:
            b_dX += dot(tl.trans(tl.load(A + at)), b_dX)
        store_rows(dX, b_dX, rows, values, T, d_v)
        g = gates_of(log_decay, start, 0, C, G, T, d_k)
        if G > 0:
            b_dS *= tl.exp(tl.sum(g, 0))[:, None]
        b_dS += scaled_dot_of_rows(b_q, since_start(g, G), b_do)
        if A is not None:
            b_e = b_k
            if e is not None:
                b_e = rows_of(e, rows, channels, T, d_k)
            g = gates_of(log_decay, start, -LATE, C, G, T, d_k)
            b_dX *= column_of(beta, rows, T)
            b_dS -= scaled_dot_of_rows(b_e, since_start(g, G), b_dX)
    store_rows(of_head(dS, pair, H), b_dS, channels, values, d_k, d_v)
