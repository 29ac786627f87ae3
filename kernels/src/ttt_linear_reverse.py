"""The gradient of TTT-Linear from its last mini-batch to its first: what waits.

    E = K dW + db,   dU <- dU - r_b E,   dG = beta dU,   dbeta = dU . G
    dZ, dV and dK of a norm's key = the slope's way back of dG
    dK <- dK + dZ W' - r_b U dW',   dr_b = -sum E . U
    dW <- dW + Q' dZ' + K' dZ,   db <- db + sum (dZ' + dZ)

with the letters of `ttt_linear_local`, which began dU and dK. dW and db are those
behind the mini-batch until the last line, which makes them those before it. r_b counts
as 0 where a mini-batch is not full.
"""

from ctlearn.kernels.exact import exact_dot
from ctlearn.kernels.layer_norm import slope, slope_backward
from ctlearn.kernels.required import tl, triton
from ctlearn.kernels.tiles import column_of, of_head, store_column, store_rows
from ctlearn.kernels.ttt_linear_scan import (
    factor_rows,
    is_full,
    last_of,
    mini_batch_of,
    reader_rates,
    wide_rows,
)


@triton.jit(do_not_specialize=["T"])
def ttt_linear_reverse_kernel(
    tokens, reader_rate, norm, before, dlast, dlast_bias, z, dz, du, dk_own,
    dk, dv, dbeta, dr, dnorm, dW, dbias, T, H,
    d_k: tl.constexpr, d_v: tl.constexpr, b: tl.constexpr, C: tl.constexpr,
    K: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Gradients dk, dv, dbeta of the tokens, dW and dbias of the first W and bias.

    A program takes one head through all mini-batches, from behind, dW [K, V] and db
    [1, V] staying in registers. It reads a tile of q, k, v, beta and of what
    `ttt_linear_local_kernel` wrote, the W before each mini-batch, and the gradients of
    the last W and bias. Its share of dr_b is [B, H], that of the norm [B, 2, H, d_v].
    """
    pair, one = tl.program_id(0).to(tl.int64), tl.arange(0, 1)
    q, k = of_head(tokens[0], pair, H), of_head(tokens[1], pair, H)
    v, beta = of_head(tokens[2], pair, H), of_head(tokens[3], pair, H)
    z, dz, du = of_head(z, pair, H), of_head(dz, pair, H), of_head(du, pair, H)
    dk, dv, dbeta = of_head(dk, pair, H), of_head(dv, pair, H), of_head(dbeta, pair, H)
    dk_own, norm = of_head(dk_own, pair, H), of_head(norm, pair, H)
    dnorm = of_head(dnorm, pair, H)
    channels, values = tl.arange(0, K), tl.arange(0, V)
    b_dW = wide_rows(of_head(dlast, pair, H), channels, values, d_k, d_v)
    b_db = tl.zeros([1, V], tl.float32)
    if dlast_bias is not None:
        b_db += wide_rows(of_head(dlast_bias, pair, H), one, values, 1, d_v)
    if norm is not None:
        gain = wide_rows(norm, one, values, 2, d_v)
        shift = wide_rows(norm, one + 1, values, 2, d_v)
        b_dgain, b_dshift = tl.zeros([V], tl.float32), tl.zeros([V], tl.float32)
    r, batches = last_of(reader_rates(reader_rate, b, C), b), tl.cdiv(T, b)
    b_dr = 0.0
    for back in range(0, batches):
        n = batches - 1 - tl.cast(back, tl.int32)
        rows, full = mini_batch_of(n, b, C, T), is_full(n, b, T)
        b_k = factor_rows(k, rows, channels, T, d_k)
        b_y = wide_rows(v, rows, values, T, d_v)
        b_z = wide_rows(z, rows, values, T, d_v)
        b_beta = column_of(beta, rows, T)
        if norm is None:
            b_g = b_z - b_y
        else:
            b_y -= b_k.to(tl.float32)
            b_g = slope(b_z, b_y, gain, shift, d_v)
        b_u = b_beta * b_g
        # all that needs dW first, so that it and its parts are not kept for long
        ahead = full * (exact_dot(b_k, b_dW) + b_db)
        b_dk = wide_rows(dk_own, rows, channels, T, d_k)
        b_dk -= exact_dot(r * full * b_u, tl.trans(b_dW))
        b_dr -= tl.sum(ahead * b_u)
        b_dz = wide_rows(dz, rows, values, T, d_v)
        b_dW += exact_dot(tl.trans(factor_rows(q, rows, channels, T, d_k)), b_dz)
        if dlast_bias is not None:
            b_db += tl.sum(b_dz, 0)[None, :]
        b_du = wide_rows(du, rows, values, T, d_v) - r * ahead
        store_column(dbeta, tl.sum(b_du * b_g, 1), rows, T)
        b_dz = b_beta * b_du
        if norm is None:
            b_dy = -b_dz
        else:
            b_dz, b_dy, by_gain, by_shift = slope_backward(
                b_dz, b_z, b_y, gain, shift, d_v
            )
            b_dgain += tl.sum(by_gain, 0)
            b_dshift += tl.sum(by_shift, 0)
            b_dk -= b_dy
        store_rows(dv, b_dy, rows, values, T, d_v)
        if dlast_bias is not None:
            b_db += tl.sum(b_dz, 0)[None, :]
        b_dW += exact_dot(tl.trans(b_k), b_dz)
        here = of_head(before, pair * batches + n, 1)
        b_W = wide_rows(here, channels, values, d_k, d_v)
        b_dk += exact_dot(b_dz, tl.trans(b_W))
        store_rows(dk, b_dk, rows, channels, T, d_k)
    store_rows(of_head(dW, pair, H), b_dW, channels, values, d_k, d_v)
    if dbias is not None:
        store_rows(of_head(dbias, pair, H), b_db, one, values, 1, d_v)
    if dr is not None:
        tl.store(dr + pair, b_dr)
    if norm is not None:
        store_rows(dnorm, b_dgain[None, :], one, values, 2, d_v)
        store_rows(dnorm, b_dshift[None, :], one + 1, values, 2, d_v)
