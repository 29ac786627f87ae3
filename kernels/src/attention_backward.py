"""Attention, backward: every weight again, from its score and its row's lse.

    p_ij = exp(s_ij - lse_i),   delta_i = do_i' o_i - dlse_i,
    ds_ij = p_ij (do_i' v_j - delta_i),
    dq_i = sum_j ds_ij k_j,   dk_j = sum_i ds_ij q_i,   dv_j = sum_i p_ij do_i

One kernel sums over keys, the other over queries, so that none waits to add to what
another wrote. [dao2022, appendix B.2, and the gradient of lse, dlse]
"""

from ctlearn.kernels.attention_forward import keys_seen, seen
from ctlearn.kernels.required import tl, triton
from ctlearn.kernels.tiles import (
    column_of,
    dot,
    of_head,
    rows_of,
    store_column,
    store_rows,
)


@triton.jit
def weights_and_scores(
    b_x, b_y, b_dx, b_dy, lse, delta, i, j, t, window, MASKED: tl.constexpr
):
    """Tiles of p and ds, queries x keys or keys x queries.

    x and y are q and k, dx and dy are do and v, or the other way round; lse, delta and
    the places i and keys j are columns and rows to match.
    """
    exponent = dot(b_x, tl.trans(b_y)) - lse
    if MASKED:
        exponent = tl.where(seen(i, j, t, window), exponent, -float("inf"))
    b_p = tl.exp(exponent)
    return b_p, b_p * (dot(b_dx, tl.trans(b_dy)) - delta)


@triton.jit(do_not_specialize=["T", "t", "first", "window"])
def queries_kernel(
    q, k, v, o, lost, lse, do, dlse, delta, dq, T, t, H, first, window,
    d_k: tl.constexpr, d_v: tl.constexpr, C: tl.constexpr, N: tl.constexpr,
    K: tl.constexpr, V: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Gradients dq [B, T, H, d_k], and delta [B, T, H], C queries of a head a program.

    Reads q, o, what its rounding lost or None, do, lse and dlse of its queries, and the
    keys and values that any of them sees, in tiles of N. Programs and their order are
    those of `attention_kernel`.
    """
    tiles = tl.cdiv(T, C)
    pair = (tl.program_id(0) // tiles).to(tl.int64)
    begin = (tiles - 1 - tl.program_id(0) % tiles) * C
    rows, channels, values = begin + tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    b_q = rows_of(of_head(q, pair, H), rows, channels, T, d_k)
    b_do = rows_of(of_head(do, pair, H), rows, values, T, d_v)
    b_o = rows_of(of_head(o, pair, H), rows, values, T, d_v)
    # summed as do_i' v_j is, so that where one key is seen nothing is left of ds
    products = dot(b_do, tl.trans(b_o))
    if lost is not None:
        b_lost = rows_of(of_head(lost, pair, H), rows, values, T, d_v)
        products += dot(b_do, tl.trans(b_lost))
    b_delta = tl.sum(tl.where(rows[:, None] == rows[None, :], products, 0.0), 1)
    b_delta -= tl.sum(column_of(of_head(dlse, pair, H), rows, T), 1)
    store_column(of_head(delta, pair, H), b_delta, rows, T)
    b_delta = b_delta[:, None]
    b_lse = column_of(of_head(lse, pair, H), rows, T)
    k, v = of_head(k, pair // GROUP, H // GROUP), of_head(v, pair // GROUP, H // GROUP)
    final = first + tl.minimum(begin + C, T) - 1
    parts = keys_seen(first + begin, final, N, t, window)
    b_dq = tl.zeros([C, K], tl.float32)
    for part in tl.static_range(3):
        for n in range(parts[part], parts[part + 1], N):
            keys = tl.cast(n, tl.int32) + tl.arange(0, N)
            b_k = rows_of(k, keys, channels, t, d_k)
            b_v = rows_of(v, keys, values, t, d_v)
            _, b_ds = weights_and_scores(
                b_q, b_k, b_do, b_v, b_lse, b_delta,
                (first + rows)[:, None], keys[None, :], t, window, part != 1,
            )  # fmt: skip
            b_dq += dot(b_ds.to(b_k.dtype), b_k)
    store_rows(of_head(dq, pair, H), b_dq, rows, channels, T, d_k)


@triton.jit
def queries_seeing(begin, N: tl.constexpr, C: tl.constexpr, T, t, first, window):
    """Which of T queries see any of the N keys from `begin` on, in blocks of C.

    As `keys_seen`: in the middle part every query of a block sees every one of the
    keys. There is none for a tile that goes beyond the last key.
    """
    start = tl.maximum(begin - first, 0) // C * C
    whole = (tl.maximum(begin + N - 1 - first, 0) + C - 1) // C * C
    end, edge = T, T
    if window is not None:
        end = tl.minimum(T, tl.maximum(begin + N - 1 + window - first, 0))
        edge = tl.maximum(begin + window - first, 0) // C * C
    end = tl.maximum(start, end)
    whole = tl.minimum(tl.where(begin + N > t, end, whole), end)
    return start, whole, tl.minimum(tl.maximum(edge, whole), end), end


@triton.jit(do_not_specialize=["T", "t", "first", "window"])
def keys_kernel(
    q, k, v, lse, do, delta, dk, dv, T, t, H, first, window, d_k: tl.constexpr,
    d_v: tl.constexpr, C: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    V: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Gradients dk [B, t, H / GROUP, d_k] and dv of values, N keys of a head a program.

    Reads its keys and values once, and of every head of queries that shares them those
    that see any of them, with do, lse and delta, in tiles of C.
    """
    tiles = tl.cdiv(t, N)
    pair = (tl.program_id(0) // tiles).to(tl.int64)
    begin, H_k = (tl.program_id(0) % tiles) * N, H // GROUP
    keys, channels, values = begin + tl.arange(0, N), tl.arange(0, K), tl.arange(0, V)
    b_k = rows_of(of_head(k, pair, H_k), keys, channels, t, d_k)
    b_v = rows_of(of_head(v, pair, H_k), keys, values, t, d_v)
    parts = queries_seeing(begin, N, C, T, t, first, window)
    b_dk, b_dv = tl.zeros([N, K], tl.float32), tl.zeros([N, V], tl.float32)
    for head in range(0, GROUP):
        one = pair * GROUP + head
        for part in tl.static_range(3):
            for n in range(parts[part], parts[part + 1], C):
                rows = tl.cast(n, tl.int32) + tl.arange(0, C)
                b_q = rows_of(of_head(q, one, H), rows, channels, T, d_k)
                b_do = rows_of(of_head(do, one, H), rows, values, T, d_v)
                b_lse = column_of(of_head(lse, one, H), rows, T)
                b_delta = column_of(of_head(delta, one, H), rows, T)
                b_p, b_ds = weights_and_scores(
                    b_k, b_q, b_v, b_do, tl.trans(b_lse), tl.trans(b_delta),
                    (first + rows)[None, :], keys[:, None], t, window, part != 1,
                )  # fmt: skip
                b_dv += dot(b_p.to(b_do.dtype), b_do)
                b_dk += dot(b_ds.to(b_q.dtype), b_q)
    store_rows(of_head(dk, pair, H_k), b_dk, keys, channels, t, d_k)
    store_rows(of_head(dv, pair, H_k), b_dv, keys, values, t, d_v)
