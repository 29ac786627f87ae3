"""Kernels that solve `ctlearn.kernels.puzzles`, one for each.

Each is written for contiguous float32 arrays, and masks whatever its tiles have too
much of.
"""

from ctlearn.kernels.required import tl, triton


@triton.jit
def fade(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    """Row t is exp(g_t) times that of x: C rows a program."""
    rows = tl.program_id(0) * C + tl.arange(0, C)
    columns = tl.arange(0, D)
    inside = (rows < T)[:, None] & (columns < d)[None, :]
    at = rows[:, None] * d + columns[None, :]
    kept = tl.exp(tl.load(g + rows, mask=rows < T, other=0.0))
    tile = tl.load(x + at, mask=inside, other=0.0)
    tl.store(y + at, kept[:, None] * tile, mask=inside)


@triton.jit
def decays(g, D, C, N: tl.constexpr):
    """D_ij = exp(g_{j+1} + ... + g_i): the argument is masked, then summed."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    rows = tl.load(g + tl.arange(0, N), mask=tl.arange(0, N) < C, other=0.0)
    since = tl.cumsum(tl.where(i > j, rows[:, None], 0.0), 0)
    kept = tl.where(i >= j, tl.exp(since), 0.0)
    tl.store(D + i * C + j, kept, mask=(i < C) & (j < C))


@triton.jit
def state(
    q, k, v, o, S, T, d_k, d_v, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr
):
    """Linear attention in chunks of C; the state stays in registers throughout."""
    i, columns, values = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    b_S = tl.zeros([K, V], tl.float32)
    for start in range(0, T, C):
        rows = start + i
        keys = (rows < T)[:, None] & (columns < d_k)[None, :]
        at = rows[:, None] * d_k + columns[None, :]
        b_q = tl.load(q + at, mask=keys, other=0.0)
        b_k = tl.load(k + at, mask=keys, other=0.0)
        told = (rows < T)[:, None] & (values < d_v)[None, :]
        out = rows[:, None] * d_v + values[None, :]
        b_v = tl.load(v + out, mask=told, other=0.0)
        scores = tl.dot(b_q, tl.trans(b_k), input_precision="ieee")
        scores = tl.where(i[:, None] >= i[None, :], scores, 0.0)
        b_o = tl.dot(b_q, b_S, input_precision="ieee")
        b_o += tl.dot(scores, b_v, input_precision="ieee")
        tl.store(o + out, b_o, mask=told)
        b_S += tl.dot(tl.trans(b_k), b_v, input_precision="ieee")
    held = (columns < d_k)[:, None] & (values < d_v)[None, :]
    tl.store(S + columns[:, None] * d_v + values[None, :], b_S, mask=held)


@triton.jit
def tile(x, rows, columns, height, width):
    """[rows, columns] of a matrix of this height and width, zero outside it."""
    inside = (rows < height)[:, None] & (columns < width)[None, :]
    return tl.load(x + rows[:, None] * width + columns[None, :], mask=inside, other=0.0)


@triton.jit
def chunk(
    q, k, v, beta, A, S, o, last, C, d_k, d_v,
    N: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """X = beta (V - K S), R = X + A X, o = Q S + tril(Q K') R, last = S + K' R."""
    i, columns, values = tl.arange(0, N), tl.arange(0, K), tl.arange(0, V)
    b_k, b_S = tile(k, i, columns, C, d_k), tile(S, columns, values, d_k, d_v)
    rate = tl.load(beta + i, mask=i < C, other=0.0)[:, None]
    b_X = tile(v, i, values, C, d_v) - tl.dot(b_k, b_S, input_precision="ieee")
    b_X *= rate
    b_R = b_X + tl.dot(tile(A, i, i, C, C), b_X, input_precision="ieee")
    b_q = tile(q, i, columns, C, d_k)
    scores = tl.dot(b_q, tl.trans(b_k), input_precision="ieee")
    scores = tl.where(i[:, None] >= i[None, :], scores, 0.0)
    b_o = tl.dot(b_q, b_S, input_precision="ieee")
    b_o += tl.dot(scores, b_R, input_precision="ieee")
    told = (i < C)[:, None] & (values < d_v)[None, :]
    tl.store(o + i[:, None] * d_v + values[None, :], b_o, mask=told)
    b_S += tl.dot(tl.trans(b_k), b_R, input_precision="ieee")
    held = (columns < d_k)[:, None] & (values < d_v)[None, :]
    tl.store(last + columns[:, None] * d_v + values[None, :], b_S, mask=held)
