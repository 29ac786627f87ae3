"""Scores of a chunk where every channel decays at its own rate.

    W_ij = sum_c x_ic y_jc D_ijc,   D_ijc = exp(sum of log decays behind j up to i)

Against the keys before its block of sixteen rows, a row's decay is the product of two
factors, one up to the block's start and one from there, so that a product of matrices
will do. Inside its block every pair has a factor of its own. No factor is above 1.
"""

from ctlearn.kernels.required import tl, triton
from ctlearn.kernels.tiles import dot, gates_of, of_head, row_of, rows_of, until_end

# Rows of a block.
BLOCK = tl.constexpr(16)


@triton.jit(do_not_specialize=["T"])
def pairs_kernel(
    x, y, log_decay, W, T, H, d_k: tl.constexpr, C: tl.constexpr, K: tl.constexpr,
    LATE: tl.constexpr,
):  # fmt: skip
    """W [B, H, chunks, C, C] of x, y and log decays [B, T, H, d_k], zero for j > i.

    A program reads sixteen rows of x, the chunk's y and gates, and writes sixteen rows
    of W. LATE leaves the decay of row i itself out; then the diagonal is not defined.
    """
    blocks = C // BLOCK
    chunks = tl.cdiv(T, C)
    chunk, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    pair = (chunk // chunks).to(tl.int64)
    x, y = of_head(x, pair, H), of_head(y, pair, H)
    log_decay = of_head(log_decay, pair, H)
    start, first = (chunk % chunks) * C, block * BLOCK
    i, j, channels = tl.arange(0, BLOCK), tl.arange(0, C), tl.arange(0, K)
    b_x = rows_of(x, start + first + i, channels, T, d_k)

    here = gates_of(log_decay, start + first, -LATE, BLOCK, K, T, d_k)
    since = tl.exp(tl.cumsum(here, 0))
    # rows of the block and behind it are left out of what happens before it
    old = tl.where(j < first, start + j, -1)
    b_y = rows_of(y, old, channels, T, d_k)
    old = tl.where(j + 1 < first, start + j + 1, -1)
    b_g = rows_of(log_decay, old, channels, T, d_k)
    keys = (until_end(b_g.to(tl.float32), K) * b_y).to(b_y.dtype)
    far = dot((since * b_x).to(b_x.dtype), tl.trans(keys))

    near = tl.zeros([BLOCK, BLOCK], tl.float32)
    passed = tl.zeros([BLOCK, K], tl.float32)
    b_x = b_x.to(tl.float32)
    for back in range(0, BLOCK):
        column = BLOCK - 1 - tl.cast(back, tl.int32)
        token = start + first + column
        y_j = row_of(y, token, channels, T, d_k)
        score = tl.sum(b_x * tl.exp(passed) * y_j[None, :], 1)
        score = tl.where(i >= column, score, 0.0)
        near = tl.where(i[None, :] == column, score[:, None], near)
        # what token `column` forgets lies behind the column before it
        g_j = row_of(log_decay, token, channels, T, d_k)
        passed += tl.where(i[:, None] - LATE >= column, g_j[None, :], 0.0)

    at = chunk.to(tl.int64) * (C * C) + (first + i)[:, None] * C
    outside = (j < first) | (j >= first + BLOCK)
    tl.store(W + at + j[None, :], far.to(W.dtype.element_ty), mask=outside[None, :])
    tl.store(W + at + (first + i)[None, :], near.to(W.dtype.element_ty))
