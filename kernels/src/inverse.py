"""The chunk's triangular system: what each token must know of the others' writes.

    L_ij = beta_i sum_c e_ic k_jc D_ijc   for j < i,    A = (I + L)^{-1} - I

Diagonal blocks of sixteen rows are solved by substitution, all at once. Then two
neighbours make one of twice the size: [[U, 0], [X, W]]^{-1} has -W^{-1} X U^{-1} below
its diagonal. All of it is float32, exact products included: powers of L, which would
be quicker, lose every digit where keys are alike. The ones on the diagonal are left out
of A, so that what they multiply is not rounded to a narrow operand.
"""

from ctlearn.kernels.required import tl, triton
from ctlearn.kernels.tiles import (
    between,
    column_of,
    dot,
    gates_of,
    of_head,
    rows_of,
    square,
)


@triton.jit
def diagonal_blocks(L, N: tl.constexpr, size: tl.constexpr):
    """The N blocks of `size` rows on the diagonal of L: [N, size, size]."""
    tiles = tl.reshape(L, [N, size, N, size])
    n = tl.arange(0, N)
    same = n[:, None] == n[None, :]
    return tl.sum(tl.where(same[:, None, :, None], tiles, 0.0), 2)


@triton.jit
def substituted(L, N: tl.constexpr):
    """Inverses of N blocks of sixteen rows, [N, 16, 16], row after row."""
    i = tl.arange(0, 16)
    one = (i[:, None] == i[None, :]).to(tl.float32)
    A = tl.broadcast_to(one[None, :, :], [N, 16, 16])
    for row in range(1, 16):
        here = (i == row)[None, :, None]
        weights = tl.sum(tl.where(here, L, 0.0), 1)
        change = tl.sum(weights[:, :, None] * A, 1)
        A = tl.where(here, A - change[:, None, :], A)
    return A


@triton.jit
def corner_blocks(L, N: tl.constexpr, size: tl.constexpr):
    """What lies below the diagonal in N blocks of two `size` rows, [N, size, size]."""
    tiles = tl.reshape(diagonal_blocks(L, N, 2 * size), [N, 2, size, 2, size])
    half = tl.arange(0, 2)
    lower = (half[:, None] == 1) & (half[None, :] == 0)
    picked = tl.where(lower[None, :, None, :, None], tiles, 0.0)
    return tl.sum(tl.sum(picked, 3), 1)


@triton.jit
def merged(A, L, N: tl.constexpr, size: tl.constexpr):
    """N inverses of twice `size` rows out of 2 N, [N, 2 size, 2 size]."""
    pairs = tl.permute(tl.reshape(A, [N, 2, size, size]), [0, 2, 3, 1])
    upper, lower = tl.split(pairs)
    X = tl.dot(corner_blocks(L, N, size), upper, input_precision="ieee")
    corner = -tl.dot(lower, X, input_precision="ieee")
    top = tl.join(upper, tl.zeros([N, size, size], tl.float32))
    bottom = tl.join(corner, lower)
    both = tl.permute(tl.join(top, bottom), [0, 4, 1, 3, 2])
    return tl.reshape(both, [N, 2 * size, 2 * size])


@triton.jit
def inverse(L, C: tl.constexpr):
    """(I + L)^{-1} of a strictly lower triangular L [C, C], C being 16, 32 or 64."""
    A = substituted(diagonal_blocks(L, C // 16, 16), C // 16)
    if C >= 32:
        A = merged(A, L, C // 32, 16)
    if C >= 64:
        A = merged(A, L, C // 64, 32)
    return tl.reshape(A, [C, C])


@triton.jit(do_not_specialize=["T"])
def inverse_kernel(
    tokens, L, A, T, H, d_k: tl.constexpr, C: tl.constexpr, K: tl.constexpr,
    G: tl.constexpr, LATE: tl.constexpr,
):  # fmt: skip
    """A [B, H, chunks, C, C] of a chunk a program.

    Reads k, e (k where there is none), beta and a scalar decay, a tile [C, K] of each;
    or, where decays are vectors, L of the same shape as A, without beta. LATE is 1 if
    what is erased is read before the memory forgets. Writes A.
    """
    chunks = tl.cdiv(T, C)
    start = (tl.program_id(0) % chunks) * C
    pair = (tl.program_id(0) // chunks).to(tl.int64)
    k = of_head(tokens[1], pair, H)
    e = of_head(tokens[3], pair, H)
    beta = of_head(tokens[5], pair, H)
    log_decay = of_head(tokens[4], pair, H)
    rows = start + tl.arange(0, C)
    at = tl.program_id(0).to(tl.int64) * (C * C) + square(C)
    if L is None:
        channels = tl.arange(0, K)
        b_k = rows_of(k, rows, channels, T, d_k)
        b_e = b_k
        if e is not None:
            b_e = rows_of(e, rows, channels, T, d_k)
        g = gates_of(log_decay, start, -LATE, C, G, T, d_k)
        b_L = dot(b_e, tl.trans(b_k)) * between(g, rows, G, LATE)
    else:
        b_L = tl.load(L + at)
    b_L *= column_of(beta, rows, T)
    i = tl.arange(0, C)
    b_L = tl.where(i[:, None] > i[None, :], b_L, 0.0)
    b_A = tl.where(i[:, None] > i[None, :], inverse(b_L, C), 0.0)
    tl.store(A + at, b_A.to(A.dtype.element_ty))
