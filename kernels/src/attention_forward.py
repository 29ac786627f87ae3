"""Attention, forward: a softmax over keys that are seen block by block.

    s_ij = q_i' k_j,   m = max_j s_ij,   w = sum_j exp(s_ij - m),
    o_i = sum_j exp(s_ij - m) v_j / w,   lse_i = m + log w

A larger score than all before it rescales what was summed to it, so that no exponent is
above zero and no matrix of scores is stored. [milakov2018; dao2022, algorithm 1]
"""

from ctlearn.kernels.required import tl, triton
from ctlearn.kernels.tiles import dot, of_head, rows_of, store_column, store_rows


@triton.jit
def seen(i, j, t, window):
    """Whether a query at place i sees key j of t: the last `window` up to its own."""
    within = (j <= i) & (j < t)
    if window is not None:
        within &= i - j < window
    return within


@triton.jit
def keys_seen(first, last, N: tl.constexpr, t, window):
    """What queries at the places first to last see of t keys, in blocks of N.

    Four numbers with three parts between them: blocks of the middle part are seen whole
    by every query, those of the others must be masked.
    """
    end = tl.maximum(tl.minimum(t, last + 1), 0)
    start, whole = 0, 0
    if window is not None:
        start = tl.maximum(first - window + 1, 0) // N * N
        whole = (tl.maximum(last - window + 1, 0) + N - 1) // N * N
        whole = tl.minimum(whole, tl.maximum(start, end))
    edge = tl.maximum(tl.minimum(t, first + 1), 0) // N * N
    return start, whole, tl.maximum(edge, whole), end


@triton.jit(do_not_specialize=["T", "t", "first", "window"])
def attention_kernel(
    q, k, v, o, lost, lse, T, t, H, first, window, d_k: tl.constexpr, d_v: tl.constexpr,
    C: tl.constexpr, N: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """Outputs o [B, T, H, d_v] and lse [B, T, H], C queries of a head a program.

    Reads its queries, a tile [C, K], once, and the keys and values that any of them
    sees in tiles of N; GROUP heads of queries share a head of those. Query i is at
    place first + i of the keys. Without a window it is None. A query that sees nothing
    answers zero, with lse at minus infinity. `lost`, if it is not None, is what o loses
    by its rounding, in the same dtype: backward needs a sum of o that is no less exact
    than those it is compared with. The last queries, which see most, come first, so
    that no long program starts when all others have ended.
    """
    tiles = tl.cdiv(T, C)
    pair = (tl.program_id(0) // tiles).to(tl.int64)
    begin = (tiles - 1 - tl.program_id(0) % tiles) * C
    rows, channels, values = begin + tl.arange(0, C), tl.arange(0, K), tl.arange(0, V)
    b_q = rows_of(of_head(q, pair, H), rows, channels, T, d_k)
    k, v = of_head(k, pair // GROUP, H // GROUP), of_head(v, pair // GROUP, H // GROUP)
    final = first + tl.minimum(begin + C, T) - 1
    parts = keys_seen(first + begin, final, N, t, window)
    b_o, weight = tl.zeros([C, V], tl.float32), tl.zeros([C], tl.float32)
    largest = tl.full([C], -float("inf"), tl.float32)
    for part in tl.static_range(3):
        for n in range(parts[part], parts[part + 1], N):
            keys = tl.cast(n, tl.int32) + tl.arange(0, N)
            b_s = dot(b_q, tl.trans(rows_of(k, keys, channels, t, d_k)))
            if part != 1:
                within = seen((first + rows)[:, None], keys[None, :], t, window)
                b_s = tl.where(within, b_s, -float("inf"))
            larger = tl.maximum(largest, tl.max(b_s, 1))
            # a row that has seen nothing: minus infinity less itself is no number
            shift = tl.where(larger == -float("inf"), 0.0, larger)
            b_p, kept = tl.exp(b_s - shift[:, None]), tl.exp(largest - shift)
            b_v = rows_of(v, keys, values, t, d_v)
            b_o = kept[:, None] * b_o + dot(b_p.to(b_v.dtype), b_v)
            largest, weight = larger, kept * weight + tl.sum(b_p, 1)
    divisor = tl.where(weight > 0, weight, 1.0)
    b_o = b_o / divisor[:, None]
    store_rows(of_head(o, pair, H), b_o, rows, values, T, d_v)
    if lost is not None:
        b_o -= b_o.to(o[0].dtype.element_ty).to(tl.float32)
        store_rows(of_head(lost, pair, H), b_o, rows, values, T, d_v)
    store_column(of_head(lse, pair, H), largest + tl.log(divisor), rows, T)
