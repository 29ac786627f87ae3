"""The gradient of TTT-Linear, what each mini-batch knows of it by itself.

With the letters of `ttt_linear_scan`, U = beta G and A_ij = q_i'k_j + 1 for j <= i:

    dZ' = the norm's way back of do,   dA_ij = -r_i (dZ' U')_ij for j <= i
    dQ = dZ' W' + dA K,   dr_i = -sum_j (dZ' U')_ij A_ij
    dU <- -(r A)' dZ',   dK <- dA' Q

With a norm do is added to dQ. What dU and dK lack comes from the mini-batches behind.
"""

from ctlearn.kernels.exact import exact_tall_dot
from ctlearn.kernels.layer_norm import slope, standard, straight
from ctlearn.kernels.required import tl, triton
from ctlearn.kernels.tiles import column_of, of_head, store_rows
from ctlearn.kernels.ttt_linear_scan import (
    factor_rows,
    mini_batch_of,
    reader_rates,
    seen_pairs,
    wide_rows,
)


@triton.jit(do_not_specialize=["T"])
def ttt_linear_local_kernel(
    tokens, reader_rate, norm, before, before_bias, do, z, dz, du, dq, dk, dr, dnorm,
    T, H, d_k: tl.constexpr, d_v: tl.constexpr, b: tl.constexpr, C: tl.constexpr,
    K: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Z, dZ', dU [B, T, H, d_v] and dK [B, T, H, d_k] in float32, and dq.

    A program takes one mini-batch of one head: it reads a tile of C >= b rows of q, k,
    v, beta and do each, the W and the bias that `ttt_linear_scan_kernel` had there, r,
    and gain and shift. Its share of dr is [B x H x mini-batches, b], that of the norm
    [B x H x mini-batches, 2, d_v].
    """
    batches = tl.cdiv(T, b)
    batch = tl.program_id(0).to(tl.int64)
    pair, n = batch // batches, (batch % batches).to(tl.int32)
    q, k = of_head(tokens[0], pair, H), of_head(tokens[1], pair, H)
    v, beta = of_head(tokens[2], pair, H), of_head(tokens[3], pair, H)
    i, channels, values = tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    rows, one = mini_batch_of(n, b, C, T), tl.arange(0, 1)
    r = reader_rates(reader_rate, b, C)
    b_W = wide_rows(of_head(before, batch, 1), channels, values, d_k, d_v)
    b_bias = tl.zeros([1, V], tl.float32)
    if before_bias is not None:
        b_bias += wide_rows(of_head(before_bias, batch, 1), one, values, 1, d_v)
    b_q = factor_rows(q, rows, channels, T, d_k)
    b_k = factor_rows(k, rows, channels, T, d_k)
    b_v = wide_rows(v, rows, values, T, d_v)
    b_dz = wide_rows(of_head(do, pair, H), rows, values, T, d_v)
    b_z = exact_tall_dot(b_k, b_W) + b_bias
    store_rows(of_head(z, pair, H), b_z, rows, values, T, d_v)
    b_A = seen_pairs(b_q, b_k, before_bias)
    b_dq = tl.zeros([C, K], tl.float32)
    if norm is None:
        b_u = column_of(beta, rows, T) * (b_z - b_v)
    else:
        norm = of_head(norm, pair, H)
        gain = wide_rows(norm, one, values, 2, d_v)
        shift = wide_rows(norm, one + 1, values, 2, d_v)
        b_g = slope(b_z, b_v - b_k.to(tl.float32), gain, shift, d_v)
        b_u = column_of(beta, rows, T) * b_g
        answer = exact_tall_dot(b_q, b_W) + b_bias - exact_tall_dot(r * b_A, b_u)
        x, over = standard(answer, d_v)
        share = of_head(dnorm, batch, 1)
        store_rows(share, tl.sum(b_dz * x, 0)[None, :], one, values, 2, d_v)
        store_rows(share, tl.sum(b_dz, 0)[None, :], one + 1, values, 2, d_v)
        b_dq += b_dz
        b_dz = over * straight(gain * b_dz, x, d_v)
    store_rows(of_head(dz, pair, H), b_dz, rows, values, T, d_v)
    b_du = -exact_tall_dot(tl.trans(r * b_A), b_dz)
    store_rows(of_head(du, pair, H), b_du, rows, values, T, d_v)
    b_dA = -exact_tall_dot(b_dz, tl.trans(b_u))
    b_dA = tl.where(i[:, None] >= i[None, :], b_dA, 0.0)
    if dr is not None:
        tl.store(dr + batch * b + i, tl.sum(b_dA * b_A, 1), mask=i < b)
    b_dA *= r
    b_dq += exact_tall_dot(b_dz, tl.trans(b_W)) + exact_tall_dot(b_dA, b_k)
    store_rows(of_head(dq, pair, H), b_dq, rows, channels, T, d_k)
    b_dk = exact_tall_dot(tl.trans(b_dA), b_q)
    store_rows(of_head(dk, pair, H), b_dk, rows, channels, T, d_k)
