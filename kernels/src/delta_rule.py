"""The delta rule three times: a ladder from the equation to the kernels of the family.

    S_t = S_{t-1} + beta_t k_t (v_t - S_{t-1}' k_t)',   o_t = S_t' q_t

    q, k [B, T, H, d_k], v, o [B, T, H, d_v], beta [B, T, H] in [0, 2],
    S [B, H, d_k, d_v]

`recurrent` is the equation, token by token. `naive_chunkwise` makes products of
matrices of it, and stores every quantity that they have. `chunkwise` stores only what
one kernel must hand to the next. All three return the same (o, S).

Each says what a token of one head moves between the chip and its memory: every tensor
counted once for each kernel that touches it, as a count of numbers, and in bytes where
a number has two, d_k = d_v = 128 and C = 64. [yang2024deltanet, sections 3.2 and 3.3]
"""

from ctlearn.kernels import memory
from ctlearn.kernels.launch import launch, padded
from ctlearn.kernels.memory import Run, Tokens, state_view, view
from ctlearn.kernels.required import Tensor, tl, torch, triton
from ctlearn.kernels.tiles import (
    column_of,
    dot,
    of_head,
    rows_of,
    square,
    store_rows,
)


def recurrent(
    q: Tensor, k: Tensor, v: Tensor, *, beta: Tensor, S: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The equation, one token after another: `recurrent_kernel`.

    A program keeps some columns of S in registers for all T tokens. It reads each of
    q, k, v and beta and writes o: 2 d_k + 2 d_v + 1 numbers, 1026 bytes, the least of
    the three. Yet it is slow, and for two reasons: T steps wait for each other, and
    their 3 d_k d_v multiplications are sums of vectors, while the units of a GPU that
    multiply matrices stand still. It decodes, and has no gradient.
    """
    return memory.recurrent(q, k, v, e=k, beta=beta, S=S)


def naive_chunkwise(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    beta: Tensor,
    S: Tensor | None = None,
    chunk_size: int = 64,
) -> tuple[Tensor, Tensor]:
    """Products of matrices, C tokens at a time: four kernels, everything stored.

        L = strict lower triangle of diag(beta) K K',   A = (I + L)^{-1} - I
        W = (I + A) diag(beta) K,   U = (I + A) diag(beta) V
        R = U - W S,   S' = S + K' R
        o = Q S + tril(Q K') R

    K, V, Q and o are the C rows of a chunk, S and S' the states before and behind it.
    What a token of the chunk must know of the others' writes is a triangular system,
    L. `inverse_kernel` inverts it; `writes_kernel` has by it W and U, what the chunk
    would erase and write if it knew all before it; `states_kernel` takes S through the
    chunks, T / C steps in the place of T; `outputs_kernel` answers. All but the third
    do every chunk at once. W, U, R, A and all states go to memory and back:
    7 d_k + 6 d_v + 2 C + 2 d_k d_v / C + 2 numbers, 4612 bytes. It has no gradient.
    chunk_size is 16, 32 or 64.
    """
    memory.checked(chunk_size, q=q, k=k, v=v, beta=beta, S=S)
    return naive(q, k, v, beta, S, chunk_size)


def chunkwise(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    beta: Tensor,
    S: Tensor | None = None,
    chunk_size: int = 64,
) -> tuple[Tensor, Tensor]:
    """The same with A alone stored: `inverse_kernel`, then `scan_kernel`.

        X = diag(beta) (V - K S),   R = X + A X

    is R as above, since U - W S = (I + A) diag(beta) (V - K S). So neither W nor U need
    exist; and whoever holds S in registers can answer at once, so that neither R nor a
    state is stored: 3 d_k + 2 d_v + 2 C + 2 numbers, 1540 bytes. The price is that
    programs for other columns of S each multiply Q K' again. Its gradient has kernels
    of its own, which make R and the states anew.
    """
    return memory.chunkwise(q, k, v, e=k, beta=beta, S=S, chunk_size=chunk_size)


@triton.jit(do_not_specialize=["T"])
def writes_kernel(
    k, v, beta, A, W, U, T, H, d_k: tl.constexpr, d_v: tl.constexpr, C: tl.constexpr,
    K: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """W = (I + A) diag(beta) K and U = (I + A) diag(beta) V of a chunk a program.

    Reads k, v, beta and A [B, H, chunks, C, C]; writes W [B, T, H, d_k] and
    U [B, T, H, d_v], each in a tile of all its columns.
    """
    chunks = tl.cdiv(T, C)
    pair = (tl.program_id(0) // chunks).to(tl.int64)
    rows = (tl.program_id(0) % chunks) * C + tl.arange(0, C)
    b_A = tl.load(A + tl.program_id(0).to(tl.int64) * (C * C) + square(C))
    rate = column_of(of_head(beta, pair, H), rows, T)
    b_W = rate * rows_of(of_head(k, pair, H), rows, tl.arange(0, K), T, d_k)
    b_W += dot(b_A, b_W)
    store_rows(of_head(W, pair, H), b_W, rows, tl.arange(0, K), T, d_k)
    b_U = rate * rows_of(of_head(v, pair, H), rows, tl.arange(0, V), T, d_v)
    b_U += dot(b_A, b_U)
    store_rows(of_head(U, pair, H), b_U, rows, tl.arange(0, V), T, d_v)


@triton.jit(do_not_specialize=["T"])
def states_kernel(
    k, W, U, S, R, before, last, T, H, d_k: tl.constexpr, d_v: tl.constexpr,
    C: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """R = U - W S and S' = S + K' R, chunk after chunk, V columns of a head a program.

    Reads k, W, U and the first state S, or None; writes R [B, T, H, d_v], the state
    `before` each chunk [B x H x chunks, d_k, d_v] and the last, in which, as in S, a
    channel stands where a token does. The state stays in registers.
    """
    tiles, chunks = tl.cdiv(d_v, V), tl.cdiv(T, C)
    pair = (tl.program_id(0) // tiles).to(tl.int64)
    values = (tl.program_id(0) % tiles) * V + tl.arange(0, V)
    channels = tl.arange(0, K)
    k, W, U = of_head(k, pair, H), of_head(W, pair, H), of_head(U, pair, H)
    b_S = tl.zeros([K, V], tl.float32)
    if S is not None:
        b_S += rows_of(of_head(S, pair, H), channels, values, d_k, d_v).to(tl.float32)
    for n in range(0, chunks):
        rows = tl.cast(n, tl.int32) * C + tl.arange(0, C)
        here = of_head(before, pair * chunks + n, 1)
        store_rows(here, b_S, channels, values, d_k, d_v)
        b_R = rows_of(U, rows, values, T, d_v).to(tl.float32)
        b_R -= dot(rows_of(W, rows, channels, T, d_k), b_S)
        store_rows(of_head(R, pair, H), b_R, rows, values, T, d_v)
        b_S += dot(tl.trans(rows_of(k, rows, channels, T, d_k)), b_R)
    store_rows(of_head(last, pair, H), b_S, channels, values, d_k, d_v)


@triton.jit(do_not_specialize=["T"])
def outputs_kernel(
    q, k, R, before, o, T, H, d_k: tl.constexpr, d_v: tl.constexpr, C: tl.constexpr,
    K: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Outputs o = Q S + tril(Q K') R [B, T, H, d_v], a chunk and V columns a program.

    Reads q, k, R and the state `before` the chunk.
    """
    tiles, chunks = tl.cdiv(d_v, V), tl.cdiv(T, C)
    chunk = (tl.program_id(0) // tiles).to(tl.int64)
    pair, start = chunk // chunks, (chunk % chunks).to(tl.int32) * C
    rows, channels = start + tl.arange(0, C), tl.arange(0, K)
    values = (tl.program_id(0) % tiles) * V + tl.arange(0, V)
    b_q = rows_of(of_head(q, pair, H), rows, channels, T, d_k)
    b_k = rows_of(of_head(k, pair, H), rows, channels, T, d_k)
    b_P = tl.where(rows[:, None] >= rows[None, :], dot(b_q, tl.trans(b_k)), 0.0)
    b_R = rows_of(of_head(R, pair, H), rows, values, T, d_v)
    b_S = rows_of(of_head(before, chunk, 1), channels, values, d_k, d_v)
    b_o = dot(b_q, b_S) + dot(b_P.to(b_R.dtype), b_R)
    store_rows(of_head(o, pair, H), b_o, rows, values, T, d_v)


@torch.library.custom_op("ctlearn::delta_rule_naive", mutates_args=())
def naive(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    S: Tensor | None,
    chunk_size: int,
) -> tuple[Tensor, Tensor]:
    """Outputs and last state, through the four kernels."""
    run = Run(Tokens(q, k, v, None, None, beta), True, False, chunk_size)
    A, before = run.inverses(), run.states()
    W, U, R = run.rows(k), run.rows(v), run.rows(v)
    o, last = run.rows(v), run.state(k)
    d, sizes = (run.d_k, run.d_v), (run.T, run.H, run.d_k, run.d_v)
    C, K = run.C, padded(run.d_k)
    if run.chunks:
        choice = launch("writes", *d)
        writes_kernel[(run.chunks,)](
            view(k), view(v), view(beta), A, view(W), view(U),
            *sizes, C=C, K=K, V=choice.V, **choice.how,
        )  # fmt: skip
    choice = launch("states", *d)
    states_kernel[run.heads_and_tiles(choice.V)](
        view(k), view(W), view(U), view(S, state=True),
        view(R), state_view(before), view(last, state=True),
        *sizes, C=C, K=K, V=choice.V, **choice.how,
    )  # fmt: skip
    if run.chunks:
        choice = launch("outputs", *d)
        outputs_kernel[(run.chunks * triton.cdiv(run.d_v, choice.V),)](
            view(q), view(k), view(R), state_view(before), view(o),
            *sizes, C=C, K=K, V=choice.V, **choice.how,
        )  # fmt: skip
    return o, last


@naive.register_fake
def _(q, k, v, beta, S, chunk_size):
    B, _, H, d_k = k.shape
    last = (B, H, d_k, v.shape[-1])
    return v.new_empty(v.shape), k.new_empty(last, dtype=torch.float32)
