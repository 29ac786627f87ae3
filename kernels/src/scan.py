"""The memory through its chunks, forward: states, errors and outputs.

    X  = beta (z - (E from the start) S),   R = X + A X        what is written
    o  = (Q from the start) S + P R,   P_ij = sum_c q_ic k_jc D_ijc   for j <= i
    S' = (whole decay) S + (K up to the end)' R

A is (I + L)^{-1} - I. Neither its product with E nor that with z is needed, and so
neither is stored. The state stays in registers, in float32, for all of T.
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
def scan_kernel(
    tokens, S, A, P, o, last, R, before, T, H, d_k: tl.constexpr, d_v: tl.constexpr,
    C: tl.constexpr, K: tl.constexpr, V: tl.constexpr, G: tl.constexpr,
    LATE: tl.constexpr,
):  # fmt: skip
    """Outputs o [B, T, H, d_v] and last state [B, H, d_k, d_v], or R and all states.

    A program takes V value columns of one head through all chunks. It reads q, k, z, e
    (k where there is none) and the gates, in tiles of C rows, each once; A [B, H,
    chunks, C, C] if anything is erased; P, of the same shape, if decays are vectors:
    G is K then, 1 where they are scalars, 0 where there are none. Backward asks for
    R [B, T, H, d_v] and the states before the chunks, [B x H x chunks, d_k, d_v], in
    the place of o. In the view of a state, channels stand where tokens do.
    """
    tiles, chunks = tl.cdiv(d_v, V), tl.cdiv(T, C)
    pair = (tl.program_id(0) // tiles).to(tl.int64)
    q, k = of_head(tokens[0], pair, H), of_head(tokens[1], pair, H)
    e = of_head(tokens[3], pair, H)
    log_decay = of_head(tokens[4], pair, H)
    beta = of_head(tokens[5], pair, H)
    z = of_head(tokens[2], pair, H)
    o = of_head(o, pair, H)
    R = of_head(R, pair, H)
    i, channels = tl.arange(0, C), tl.arange(0, K)
    values = (tl.program_id(0) % tiles) * V + tl.arange(0, V)
    b_S = tl.zeros([K, V], tl.float32)
    if S is not None:
        first = of_head(S, pair, H)
        b_S += rows_of(first, channels, values, d_k, d_v).to(tl.float32)
    # what the chunks share is computed in each, and so not kept in registers
    for n in tl.range(0, chunks, disable_licm=True):
        start = start_of(n, C, T)
        rows = start + i
        at = (pair * chunks + n) * (C * C) + square(C)
        b_k = rows_of(k, rows, channels, T, d_k)
        g = gates_of(log_decay, start, 0, C, G, T, d_k)
        since = since_start(g, G)
        if o is not None:
            b_q = rows_of(q, rows, channels, T, d_k)
            if P is None:
                b_P = dot(b_q, tl.trans(b_k)) * between(g, rows, G, 0)
                b_P = b_P.to(b_q.dtype)
        b_R = rows_of(z, rows, values, T, d_v).to(tl.float32)
        if A is not None:
            b_e, kept = b_k, since
            if e is not None:
                b_e = rows_of(e, rows, channels, T, d_k)
            if LATE:
                earlier = gates_of(log_decay, start, -1, C, G, T, d_k)
                kept = since_start(earlier, G)
            b_R -= scaled_dot(b_e, kept, b_S)
        b_R *= column_of(beta, rows, T)
        if A is not None:
            b_R += dot(tl.load(A + at), b_R)
        if o is not None:
            if P is not None:
                b_P = tl.load(P + at)
            b_o = scaled_dot(b_q, since, b_S)
            store_rows(o, b_o + dot(b_P, b_R), rows, values, T, d_v)
        if R is not None:
            store_rows(R, b_R, rows, values, T, d_v)
        if before is not None:
            here = of_head(before, pair * chunks + n, 1)
            store_rows(here, b_S, channels, values, d_k, d_v)
        following = gates_of(log_decay, start, 1, C, G, T, d_k)
        if G > 0:
            b_S *= tl.exp(tl.sum(g, 0))[:, None]
        b_S += scaled_dot_of_rows(b_k, until_end(following, G), b_R)
    if last is not None:
        store_rows(of_head(last, pair, H), b_S, channels, values, d_k, d_v)
