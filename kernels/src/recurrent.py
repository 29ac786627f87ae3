"""The memory token by token, all of it in registers: for decoding.

    F = Diag(decay) S,   S = F + k (beta (z - F' e))',   o = S' q

with S in the place of F before the minus sign where what is erased is read first.
"""

from ctlearn.kernels.required import tl, triton
from ctlearn.kernels.tiles import (
    column_of,
    of_head,
    row_of,
    rows_of,
    store_rows,
)


@triton.jit(do_not_specialize=["T"])
def recurrent_kernel(
    tokens, S, o, last, T, H, d_k: tl.constexpr, d_v: tl.constexpr,
    K: tl.constexpr, V: tl.constexpr, G: tl.constexpr, LATE: tl.constexpr,
    ERASE: tl.constexpr,
):  # fmt: skip
    """Outputs o [B, T, H, d_v] and last state [B, H, d_k, d_v].

    A program takes V value columns of one head through all tokens: it reads S [K, V]
    and a row of q, k, z, e (k where there is none) and the gates a token, and writes a
    row of o a token and S once. There are no products of matrices, so that K d_v
    numbers of state are the work. G is K for decays by channel, 1 for a scalar, else 0.
    """
    tiles = tl.cdiv(d_v, V)
    pair = (tl.program_id(0) // tiles).to(tl.int64)
    q, k = of_head(tokens[0], pair, H), of_head(tokens[1], pair, H)
    z = of_head(tokens[2], pair, H)
    e = of_head(tokens[3], pair, H)
    log_decay = of_head(tokens[4], pair, H)
    beta = of_head(tokens[5], pair, H)
    o = of_head(o, pair, H)
    S = of_head(S, pair, H)
    channels = tl.arange(0, K)
    values = (tl.program_id(0) % tiles) * V + tl.arange(0, V)
    b_S = tl.zeros([K, V], tl.float32)
    if S is not None:
        b_S += rows_of(S, channels, values, d_k, d_v).to(tl.float32)
    for t in range(0, T):
        token = tl.cast(t, tl.int32) + tl.arange(0, 1)
        b_k = row_of(k, token, channels, T, d_k)[:, None]
        b_u = row_of(z, token, values, T, d_v)[None, :]
        kept = b_S
        if G > 1:
            kept *= tl.exp(row_of(log_decay, token, channels, T, d_k))[:, None]
        elif G == 1:
            kept *= tl.exp(column_of(log_decay, token, T))
        if ERASE:
            b_e = b_k if e is None else row_of(e, token, channels, T, d_k)[:, None]
            b_u -= tl.sum(b_e * (b_S if LATE else kept), 0)[None, :]
        b_S = kept + b_k * (b_u * column_of(beta, token, T))
        b_q = row_of(q, token, channels, T, d_k)[:, None]
        store_rows(o, tl.sum(b_q * b_S, 0)[None, :], token, values, T, d_v)
    store_rows(of_head(last, pair, H), b_S, channels, values, d_k, d_v)
