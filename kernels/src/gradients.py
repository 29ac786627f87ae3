"""The gradients of a chunk's tokens, from those of what it writes and of its states.

    dz = beta dX,   dP = do R',   dM = -dX R',   W = dP D,   W_e = dM D_e
    dq = W k + since (do S'),           dk = W' q + W_e' (beta e) + ahead (R dS')
    d(beta e) = W_e k - since_e (dX S'),   dbeta = dX . z + d(beta e) . e

with the letters of `scan`: S stands before the chunk, dS' behind it. The gradient of a
gate sums over the pairs that the token stands between, and over no others: what a token
keeps of itself is in none of them, and cannot drown them.
"""

from ctlearn.kernels.required import tl, triton
from ctlearn.kernels.tiles import (
    between,
    column_of,
    dot,
    gates_of,
    of_head,
    rows_of,
    since_start,
    store_column,
    store_rows,
    until_end,
)


@triton.jit
def pairs_gate(over, rows, LATE: tl.constexpr):
    """[C]: for each token the sum of `over` [C, C] over the pairs it stands between.

    Of i > j, with j before the token and i not before it; with LATE, i behind it.
    """
    i, j = rows[:, None], rows[None, :]
    over = tl.where(i - LATE > j, over, 0.0)
    here = tl.cumsum(over, 0, reverse=True)
    # row r counts the pairs that end at r or later, and so is of the token before, if
    # what they see is late
    here = tl.sum(tl.where(i - LATE > j, here, 0.0), 1)
    return tl.sum(tl.where(i == j + LATE, here[:, None], 0.0), 0)


@triton.jit
def rows_gate(over, rows, LATE: tl.constexpr):
    """[C]: for each token the sum of `over` [C] over the rows that see past it."""
    seen = rows[:, None] - LATE >= rows[None, :]
    return tl.sum(tl.where(seen, over[:, None], 0.0), 0)


@triton.jit
def ends_gate(over, rows):
    """[C]: for each token the sum of `over` [C] over the rows before it."""
    return tl.sum(tl.where(rows[:, None] < rows[None, :], over[:, None], 0.0), 0)


@triton.jit(do_not_specialize=["T"])
def gradients_kernel(
    tokens, R, do, dX, before, after, dq, dk, dz, de, dg, dbeta, T, H, B_H,
    d_k: tl.constexpr, d_v: tl.constexpr, C: tl.constexpr, K: tl.constexpr,
    V: tl.constexpr, G: tl.constexpr, LATE: tl.constexpr, ERASE: tl.constexpr,
):  # fmt: skip
    """Gradients of q, k, z, e, of scalar decays and of beta: a chunk and K channels.

    A program reads K channels of q, k and e, and V columns in turn of z, R, do, dX and
    of the states `before` and `after` the chunk. It writes dq, dk and de of its
    channels; dz, which without beta is dX, if it has the first; and its channels' share
    of dg and dbeta, which are [shares x B, T, H]. B_H is B x H. If e is None, de is
    added to dk.
    """
    shares, chunks = tl.cdiv(d_k, K), tl.cdiv(T, C)
    share = tl.program_id(0) % shares
    chunk = (tl.program_id(0) // shares).to(tl.int64)
    pair, start = chunk // chunks, (chunk % chunks).to(tl.int32) * C
    q, k = of_head(tokens[0], pair, H), of_head(tokens[1], pair, H)
    R, do, dX = of_head(R, pair, H), of_head(do, pair, H), of_head(dX, pair, H)
    z = of_head(tokens[2], pair, H)
    e = of_head(tokens[3], pair, H)
    log_decay = of_head(tokens[4], pair, H)
    beta = of_head(tokens[5], pair, H)
    dq, dk = of_head(dq, pair, H), of_head(dk, pair, H)
    de = of_head(de, pair, H)
    dz = of_head(dz, pair, H)
    before, after = of_head(before, chunk, 1), of_head(after, chunk, 1)
    shared = share.to(tl.int64) * B_H + pair
    dg = of_head(dg, shared, H)
    dbeta = of_head(dbeta, shared, H)
    rows, channels = start + tl.arange(0, C), share * K + tl.arange(0, K)
    rate = column_of(beta, rows, T)

    b_dP, b_dM = tl.zeros([C, C], tl.float32), tl.zeros([C, C], tl.float32)
    b_dq, b_dk = tl.zeros([C, K], tl.float32), tl.zeros([C, K], tl.float32)
    b_de, b_dbeta = tl.zeros([C, K], tl.float32), tl.zeros([C], tl.float32)
    whole = tl.zeros([K], tl.float32)
    for tile in range(0, tl.cdiv(d_v, V)):
        values = tl.cast(tile, tl.int32) * V + tl.arange(0, V)
        b_do = rows_of(do, rows, values, T, d_v)
        b_R = rows_of(R, rows, values, T, d_v)
        b_dX = rows_of(dX, rows, values, T, d_v)
        b_S = rows_of(before, channels, values, d_k, d_v)
        b_dS = rows_of(after, channels, values, d_k, d_v)
        b_dP += dot(b_do, tl.trans(b_R))
        b_dq += dot(b_do, tl.trans(b_S))
        b_dk += dot(b_R, tl.trans(b_dS))
        if G > 0:
            whole += tl.sum(b_S.to(tl.float32) * b_dS.to(tl.float32), 1)
        if ERASE:
            b_dM -= dot(b_dX, tl.trans(b_R))
            b_de -= dot(b_dX, tl.trans(b_S))
        if dz is not None:  # noqa: SIM102 - asked before compiling, the next is not
            if share == 0:
                b_z = rows_of(z, rows, values, T, d_v).to(tl.float32)
                b_dbeta += tl.sum(b_dX.to(tl.float32) * b_z, 1)
                store_rows(dz, rate * b_dX, rows, values, T, d_v)

    b_q = rows_of(q, rows, channels, T, d_k)
    b_k = rows_of(k, rows, channels, T, d_k)
    g = gates_of(log_decay, start, 0, C, G, T, d_k)
    D = between(g, rows, G, 0)
    W = (b_dP * D).to(b_k.dtype)
    b_dq = since_start(g, G) * b_dq
    ahead = until_end(gates_of(log_decay, start, 1, C, G, T, d_k), G)
    b_dk = ahead * b_dk
    b_dg = tl.zeros([C], tl.float32)
    if G > 0:
        b_dg += tl.sum(whole) * tl.exp(tl.sum(g))
        b_dg += rows_gate(tl.sum(b_dq * b_q, 1), rows, 0)
        b_dg += ends_gate(tl.sum(b_dk * b_k, 1), rows)
        b_dg += pairs_gate(b_dP * D * dot(b_q, tl.trans(b_k)), rows, 0)
    b_dq += dot(W, b_k)
    b_dk += dot(tl.trans(W), b_q)
    store_rows(dq, b_dq, rows, channels, T, d_k)
    if ERASE:
        b_e = b_k
        if e is not None:
            b_e = rows_of(e, rows, channels, T, d_k)
        g = gates_of(log_decay, start, -LATE, C, G, T, d_k)
        b_dM *= tl.where(rows[:, None] > rows[None, :], between(g, rows, G, LATE), 0.0)
        b_de *= since_start(g, G)
        if G > 0:
            b_dg += rows_gate(tl.sum(rate * b_de * b_e, 1), rows, LATE)
            over = rate * b_dM * dot(b_e, tl.trans(b_k))
            b_dg += pairs_gate(over, rows, LATE)
        b_de += dot(b_dM.to(b_k.dtype), b_k)
        b_dbeta += tl.sum(b_de * b_e, 1)
        b_de *= rate
        b_dk += dot(tl.trans((rate * b_dM).to(b_k.dtype)), b_e)
        if e is None:
            b_dk += b_de
        else:
            store_rows(de, b_de, rows, channels, T, d_k)
    store_rows(dk, b_dk, rows, channels, T, d_k)
    store_column(dg, b_dg, rows, T)
    store_column(dbeta, b_dbeta, rows, T)
