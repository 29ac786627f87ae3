"""TTT-Linear through its mini-batches: forward.

    Z  = K W + b,   G = the slope at Z of half the squared distance of f(K) from V
    Z' = Q W + b - P beta G,   P_ij = r_i (q_i'k_j + 1) for j <= i,   o = f(Q) at Z'
    W <- W - r_b K' beta G,   b <- b - r_b sum beta G

f(x) is the linear map's answer, or x + LN of it. All of G is taken at the W that the
mini-batch began with. What a learner gets wrong early it goes on from, so that all of
it is float32, exact products included.
"""

from ctlearn.kernels.exact import exact_tall_dot
from ctlearn.kernels.layer_norm import slope, standard
from ctlearn.kernels.required import tl, triton
from ctlearn.kernels.tiles import column_of, of_head, rows_of, store_rows


@triton.jit
def mini_batch_of(n, b: tl.constexpr, C: tl.constexpr, T):
    """The rows of mini-batch n; behind its b tokens T, which is outside."""
    i = tl.arange(0, C)
    return tl.where(i < b, tl.cast(n, tl.int32) * b + i, T)


@triton.jit
def wide_rows(x, rows, columns, T, d: tl.constexpr):
    """`rows_of` in float32."""
    return rows_of(x, rows, columns, T, d).to(tl.float32)


@triton.jit
def factor_rows(x, rows, columns, T, d: tl.constexpr):
    """`rows_of` for `exact_dot`: in bfloat16 if that is what it is, else float32."""
    tile = rows_of(x, rows, columns, T, d)
    return tile if tile.dtype == tl.bfloat16 else tile.to(tl.float32)


@triton.jit
def reader_rates(x, b: tl.constexpr, C: tl.constexpr):
    """[C, 1]: what each token of a mini-batch sees of its steps; 1 without x."""
    i = tl.arange(0, C)
    if x is None:
        r = tl.full([C], 1.0, tl.float32)
    else:
        r = tl.load(x + i, mask=i < b, other=0.0).to(tl.float32)
    return r[:, None]


@triton.jit
def last_of(r, b: tl.constexpr):
    """Row b - 1 of r [C, 1]: the rate at which the whole mini-batch is learned."""
    i = tl.arange(0, r.shape[0])[:, None]
    return tl.sum(tl.where(i == b - 1, r, 0.0))


@triton.jit
def is_full(n, b: tl.constexpr, T):
    """1 if mini-batch n has all its tokens, else 0: then nothing is learned yet."""
    return tl.where((tl.cast(n, tl.int32) + 1) * b <= T, 1.0, 0.0)


@triton.jit
def seen_pairs(q, k, bias):
    """[C, C]: q_i'k_j, and 1 more with a bias, of the tokens j that i sees."""
    i = tl.arange(0, q.shape[0])
    pairs = exact_tall_dot(q, tl.trans(k))
    if bias is not None:
        pairs += 1.0
    return tl.where(i[:, None] >= i[None, :], pairs, 0.0)


@triton.jit(do_not_specialize=["T"])
def ttt_linear_scan_kernel(
    tokens, reader_rate, norm, W, bias, o, last, last_bias, before, before_bias, T, H,
    d_k: tl.constexpr, d_v: tl.constexpr, b: tl.constexpr, C: tl.constexpr,
    K: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Outputs o [B, T, H, d_v], last W [B, H, d_k, d_v] and bias, or all of them.

    A program takes one head through all mini-batches, W [K, V] and b [1, V] staying in
    registers. It reads q, k, v and beta, a tile of C >= b rows each, once; r [b]; gain
    and shift [2, d_v] if there is a norm. Backward asks for the W and the bias before
    each mini-batch, [B x H x mini-batches, d_k or 1, d_v], in the place of o. In the
    view of a bias it is the row of a matrix; in that of gain and shift they are two.
    """
    pair, one = tl.program_id(0).to(tl.int64), tl.arange(0, 1)
    q, k = of_head(tokens[0], pair, H), of_head(tokens[1], pair, H)
    v, beta = of_head(tokens[2], pair, H), of_head(tokens[3], pair, H)
    o, norm = of_head(o, pair, H), of_head(norm, pair, H)
    channels, values = tl.arange(0, K), tl.arange(0, V)
    b_W = wide_rows(of_head(W, pair, H), channels, values, d_k, d_v)
    b_bias = tl.zeros([1, V], tl.float32)
    if bias is not None:
        b_bias += wide_rows(of_head(bias, pair, H), one, values, 1, d_v)
    if norm is not None:
        gain = wide_rows(norm, one, values, 2, d_v)
        shift = wide_rows(norm, one + 1, values, 2, d_v)
    r = reader_rates(reader_rate, b, C)
    batches = tl.cdiv(T, b)
    for n in range(0, batches):
        if before is not None:
            here = of_head(before, pair * batches + n, 1)
            store_rows(here, b_W, channels, values, d_k, d_v)
            if bias is not None:
                here = of_head(before_bias, pair * batches + n, 1)
                store_rows(here, b_bias, one, values, 1, d_v)
        rows = mini_batch_of(n, b, C, T)
        b_k = factor_rows(k, rows, channels, T, d_k)
        b_v = wide_rows(v, rows, values, T, d_v)
        b_beta = column_of(beta, rows, T)
        b_z = exact_tall_dot(b_k, b_W) + b_bias
        if norm is None:
            b_g = b_z - b_v
        else:
            b_g = slope(b_z, b_v - b_k.to(tl.float32), gain, shift, d_v)
        b_g *= b_beta
        if o is not None:
            b_q = factor_rows(q, rows, channels, T, d_k)
            b_P = r * seen_pairs(b_q, b_k, bias)
            b_o = exact_tall_dot(b_q, b_W) + b_bias - exact_tall_dot(b_P, b_g)
            if norm is not None:
                x, _ = standard(b_o, d_v)
                b_o = b_q.to(tl.float32) + gain * x + shift
            store_rows(o, b_o, rows, values, T, d_v)
        b_g *= last_of(r, b) * is_full(n, b, T)
        b_W -= exact_tall_dot(tl.trans(b_k), b_g)
        if bias is not None:
            b_bias -= tl.sum(b_g, 0)[None, :]
    if last is not None:
        store_rows(of_head(last, pair, H), b_W, channels, values, d_k, d_v)
        if bias is not None:
            here = of_head(last_bias, pair, H)
            store_rows(here, b_bias, one, values, 1, d_v)
