"""The gradients of a chunk's scores, whatever decays: products of what it writes.

    dP = do R'  for j <= i,   dM = -dX R'  for j < i,   dz = beta dX,   dbeta = dX . z

with the letters of `scan`; M are the scores of e, before beta. Every tile of channels
decays them at its own rates, and so they are stored, once for all of them.
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


@triton.jit(do_not_specialize=["T"])
def channel_scores_kernel(
    z, beta, R, do, dX, dP, dM, dz, dbeta, T, H, d_v: tl.constexpr, C: tl.constexpr,
    V: tl.constexpr, LATE: tl.constexpr,
):  # fmt: skip
    """Of a chunk a program, dP and dM [B, H, chunks, C, C], zero for all other pairs.

    Rows are those of readers and columns those of keys in `channel_gradients`. A
    program reads tiles [C, V] of do, R and, if anything is erased, of dX; with beta
    also of z and dX, and then it writes dz [B, T, H, d_v] and the values' share of
    dbeta [B, T, H]. What is None is neither read nor written.
    """
    chunks = tl.cdiv(T, C)
    pair = (tl.program_id(0) // chunks).to(tl.int64)
    i = tl.arange(0, C)
    rows = (tl.program_id(0) % chunks) * C + i
    R, do, dX = of_head(R, pair, H), of_head(do, pair, H), of_head(dX, pair, H)
    # what may be None stands alone, for Triton 3.6
    beta = of_head(beta, pair, H)
    z = of_head(z, pair, H)
    dz = of_head(dz, pair, H)
    dbeta = of_head(dbeta, pair, H)
    key, reader = (i + C - 1) % C, (i + LATE) % C
    rows_k, rows_e = rows - i + key, rows - i + reader
    rate = column_of(beta, rows, T)
    b_dP, b_dM = tl.zeros([C, C], tl.float32), tl.zeros([C, C], tl.float32)
    b_dbeta = tl.zeros([C], tl.float32)
    for tile in range(0, tl.cdiv(d_v, V)):
        values = tl.cast(tile, tl.int32) * V + tl.arange(0, V)
        written = tl.trans(rows_of(R, rows_k, values, T, d_v))
        b_dP += dot(rows_of(do, rows, values, T, d_v), written)
        if dM is not None:
            b_dM -= dot(rows_of(dX, rows_e, values, T, d_v), written)
        if dz is not None:
            b_dX = rows_of(dX, rows, values, T, d_v).to(tl.float32)
            b_z = rows_of(z, rows, values, T, d_v).to(tl.float32)
            b_dbeta += tl.sum(b_dX * b_z, 1)
            store_rows(dz, rate * b_dX, rows, values, T, d_v)
    at = tl.program_id(0).to(tl.int64) * (C * C) + square(C)
    b_dP = tl.where(i[:, None] >= key[None, :], b_dP, 0.0)
    tl.store(dP + at, b_dP.to(dP.dtype.element_ty))
    if dM is not None:
        b_dM = tl.where(reader[:, None] > key[None, :], b_dM, 0.0)
        tl.store(dM + at, b_dM.to(dM.dtype.element_ty))
    store_column(dbeta, b_dbeta, rows, T)
