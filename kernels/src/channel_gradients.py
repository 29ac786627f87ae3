"""The gradients of a chunk's tokens where every channel decays at its own rate.

Queries read the memory and what is erased is read from it, alike: x_i is q_i or
beta e_i, and W holds the scores, y_i the gradient of what is read: do_i or -dX_i.

    dx_i = since_i (S y_i) + sum_j dW_ij D_ij k_j
    dk_j = ahead_j (dS' R_j) + sum_i dW_ij D_ij x_i

with the letters of `gradients`, all of it of one channel. A gate's gradient sums the
terms of the pairs that it stands between, and no others.

Row t of the chunk is gate t: with it stand the reader whose last gate it is, q_t or e_t
(e_{t+1}, if that is read before gate t + 1), and k_{t-1}, the first key to meet it. So
the gates between reader i and row r <= i of the keys are those from r to i. Runs of
2, 4, ..., C rows are parted in the middle: keys in front of it decay up to it, readers
behind it from it on, and all pairs that part there are one product of matrices. r = i
parts in the middle of its gate. No factor is above 1 and no exponent is a difference,
so that minus infinity forgets exactly. Nor is anything taken away again from a gate's
gradient: in front of a middle it sums the keys up to its row, behind it the readers
from its row on, which is the transpose of how exponents sum gates.
"""

from ctlearn.kernels.required import tl, triton
from ctlearn.kernels.tiles import (
    column_of,
    dot,
    of_head,
    rows_of,
    square,
    store_column,
    store_rows,
)

# Its exponential is zero in float32. Minus infinity is taken for it: zero times that
# would be no number, in the products that sum exponents.
NOTHING = tl.constexpr(-256.0)


@triton.jit
def sums(which, x):
    """[C, K]: of the rows of x [C, K] that a row of `which` [C, C] names, the sum.

    A product of matrices, in all digits of float32: x is taken in three pieces of
    bfloat16, which the ones of `which` leave as they are.
    """
    ones = which.to(tl.bfloat16)
    high = x.to(tl.bfloat16)
    x -= high.to(tl.float32)
    middle = x.to(tl.bfloat16)
    low = (x - middle.to(tl.float32)).to(tl.bfloat16)
    return tl.dot(ones, high) + (tl.dot(ones, middle) + tl.dot(ones, low))


@triton.jit
def score_of(W, rows, columns, C: tl.constexpr):
    """[C, 1]: one score of each row of W [C, C], in float32."""
    return tl.load(W + rows * C + columns).to(tl.float32)[:, None]


@triton.jit(do_not_specialize=["T"])
def channel_gradients_kernel(
    x, k, log_decay, beta, y, R, dW, before, after, dx, dk, dg, dbeta, T, H, B_H,
    d_k: tl.constexpr, d_v: tl.constexpr, C: tl.constexpr, K: tl.constexpr,
    V: tl.constexpr, LEVELS: tl.constexpr, LATE: tl.constexpr,
):  # fmt: skip
    """Of readers, dx and their share of dk and dg [B, T, H, d_k]: a chunk, K channels.

    For queries, x = q, y = do, and R and `after` are given: dk and dg are written, with
    what the chunk's end sees of the keys. For what is erased, x = e, y = dX, and they
    are None: dk and dg are added to. Of its channels a program reads x, k and
    log_decay, of the chunk dW [C, C] of `channel_scores`, and V columns in turn of y, R
    and the states `before` and `after` the chunk. It writes dx and, if there is dbeta,
    the channels' share of it, [shares x B, T, H]. LATE is 1 if x is read before its
    token's gate. B_H is B x H; C is 2 to the power of LEVELS.
    """
    shares, chunks = tl.cdiv(d_k, K), tl.cdiv(T, C)
    share, chunk = tl.program_id(0) % shares, (tl.program_id(0) // shares).to(tl.int64)
    pair, start = chunk // chunks, (chunk % chunks).to(tl.int32) * C
    x, k, y = of_head(x, pair, H), of_head(k, pair, H), of_head(y, pair, H)
    log_decay, before = of_head(log_decay, pair, H), of_head(before, chunk, 1)
    dx, dk, dg = of_head(dx, pair, H), of_head(dk, pair, H), of_head(dg, pair, H)
    # what may be None stands alone, for Triton 3.6
    R = of_head(R, pair, H)
    beta = of_head(beta, pair, H)
    after = of_head(after, chunk, 1)
    dbeta = of_head(dbeta, share.to(tl.int64) * B_H + pair, H)
    i, channels = tl.arange(0, C), share * K + tl.arange(0, K)
    # the last key stands before no gate and the first early reader behind none: each
    # has the row that is left, is in no pair of it, and is next to the state it meets
    key, reader = (i + C - 1) % C, (i + LATE) % C
    rows, rows_k, rows_x = start + i, start + key, start + reader

    b_dx, b_dk = tl.zeros([C, K], tl.float32), tl.zeros([C, K], tl.float32)
    whole = tl.zeros([K], tl.float32)
    for tile in range(0, tl.cdiv(d_v, V)):
        values = tl.cast(tile, tl.int32) * V + tl.arange(0, V)
        b_S = rows_of(before, channels, values, d_k, d_v)
        b_dx += dot(rows_of(y, rows_x, values, T, d_v), tl.trans(b_S))
        if R is not None:
            b_dS = rows_of(after, channels, values, d_k, d_v)
            b_dk += dot(rows_of(R, rows_k, values, T, d_v), tl.trans(b_dS))
            whole += tl.sum(b_S.to(tl.float32) * b_dS.to(tl.float32), 1)

    g = rows_of(log_decay, rows, channels, T, d_k).to(tl.float32)
    g = tl.maximum(g, NOTHING)
    b_k = rows_of(k, rows_k, channels, T, d_k)
    rate = column_of(beta, rows_x, T)
    b_x = (rate * rows_of(x, rows_x, channels, T, d_k)).to(b_k.dtype)
    kept = tl.exp(sums(i[:, None] >= i[None, :], g))
    alone = (i + LATE == C)[:, None]
    b_dx *= tl.where(alone, 1.0, kept)
    if R is None:
        b_dx = -b_dx
    b_dg = sums(i[:, None] <= i[None, :], tl.where(alone, 0.0, b_dx * b_x))
    if R is not None:
        kept = tl.exp(sums(i[:, None] <= i[None, :], g))
        alone = (i == 0)[:, None]
        b_dk *= tl.where(alone, 1.0, kept)
        b_dg += sums(i[:, None] >= i[None, :], tl.where(alone, 0.0, b_dk * b_k))
        b_dg += (whole * tl.exp(tl.sum(g, 0)))[None, :]

    dW += chunk * (C * C)
    if (R is not None) | LATE:
        # with no gate between them: keys next to their readers, readers to their keys
        b_dx += score_of(dW, i, (i + 1) % C, C) * rows_of(k, rows, channels, T, d_k)
        mates = rows if LATE else rows_k
        b_mate = column_of(beta, mates, T) * rows_of(x, mates, channels, T, d_k)
        b_dk += score_of(dW, key, i, C) * b_mate
    for level in range(0, LEVELS + 1):
        # at level 0 a row is a run of its own, in front of its middle and behind it
        # nothing is added to a row, of which a compiler does not know: or it would keep
        # all that is made of rows alone in registers, from level to level
        n = tl.cast(level, tl.int32)
        row = i + (n - tl.minimum(n, T + C))
        single = n == 0
        part = tl.where(single, 0.5, 1.0)
        run = row >> tl.where(single, 0, n - 1)
        behind = run % 2 == 1
        same, place = run[:, None] == run[None, :], tl.where(behind, row, -row)
        kept = tl.exp(part * sums(same & (place[:, None] >= place[None, :]), g))
        ends = tl.where(behind | single, run, -1)
        starts = tl.where(row > 0, tl.where(single, run, run + 1), -2)
        b_dW = tl.load(dW + square(C))
        b_dW = tl.where(ends[:, None] == starts[None, :], b_dW, 0.0).to(b_k.dtype)
        change = kept * dot(b_dW, (kept * b_k).to(b_k.dtype))
        b_dx += change
        over = change * b_x
        change = kept * dot(tl.trans(b_dW), (kept * b_x).to(b_k.dtype))
        b_dk += change
        over += change * b_k
        b_dg += part * sums(same & (place[:, None] <= place[None, :]), over)

    # the same start, of which a compiler does not know: or it would keep all pointers
    # from above in registers
    start = tl.minimum(start, T)
    rows, rows_k, rows_x = start + i, start + key, start + reader
    if R is None:
        b_dk += rows_of(dk, rows_k, channels, T, d_k)
        b_dg += rows_of(dg, rows, channels, T, d_k)
    if dbeta is not None:
        over = b_dx * rows_of(x, rows_x, channels, T, d_k)
        store_column(dbeta, tl.sum(over, 1), rows_x, T)
    store_rows(dx, column_of(beta, rows_x, T) * b_dx, rows_x, channels, T, d_k)
    store_rows(dk, b_dk, rows_k, channels, T, d_k)
    store_rows(dg, b_dg, rows, channels, T, d_k)
