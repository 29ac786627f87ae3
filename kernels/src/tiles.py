"""What the kernels share: tiles in and out of memory, decays, and products.

A tensor comes as its view, (pointer, strides), or None where it is absent; a view of a
head begins at it. C is the rows of a chunk, K and V the columns of a tile of keys and
of values, all powers of two. Offsets are 64-bit. What is loaded keeps its dtype until
it is an operand; all sums are in float32.
"""

from ctlearn.kernels.required import tl, triton


@triton.jit
def of_head(x, pair, H):
    """The view of head `pair` of B x H in x [B, T, H, d] or [B, T, H].

    Nothing of nothing. Triton 3.6 can neither return None nor what holds it, nor assign
    to a tuple what holds it: what may be absent has a line of its own.
    """
    if x is None:
        return  # noqa: RET502 - see above
    else:  # noqa: RET505 - what follows must not be compiled
        return x[0] + (pair // H) * x[1][0] + (pair % H) * x[1][2], x[1]


@triton.jit
def addresses(x, rows, columns):
    """[C, D] of a head."""
    at = x[0] + rows[:, None].to(tl.int64) * x[1][1]
    return at + columns[None, :].to(tl.int64) * x[1][3]


@triton.jit
def rows_of(x, rows, columns, T, d: tl.constexpr):
    """[C, D] of a head of x [B, T, H, d]: zero outside it."""
    inside = ((rows >= 0) & (rows < T))[:, None] & (columns < d)[None, :]
    return tl.load(addresses(x, rows, columns), mask=inside, other=0.0)


@triton.jit
def row_of(x, row, columns, T, d: tl.constexpr):
    """[D] of a head of x [B, T, H, d], in float32: zero outside it."""
    at = x[0] + row.to(tl.int64) * x[1][1] + columns.to(tl.int64) * x[1][3]
    return tl.load(at, mask=(columns < d) & (row < T), other=0.0).to(tl.float32)


@triton.jit
def column_of(x, rows, T):
    """[C, 1] of a head of x [B, T, H], in float32; ones where there is no x."""
    if x is None:
        column = tl.full([rows.shape[0], 1], 1.0, tl.float32)
    else:
        inside = (rows >= 0) & (rows < T)
        at = x[0] + rows.to(tl.int64) * x[1][1]
        column = tl.load(at, mask=inside, other=0.0).to(tl.float32)[:, None]
    return column


@triton.jit
def store_rows(x, tile, rows, columns, T, d: tl.constexpr):
    """Write [C, D] into a head of x [B, T, H, d], and nothing outside it."""
    inside = (rows < T)[:, None] & (columns < d)[None, :]
    at = addresses(x, rows, columns)
    tl.store(at, tile.to(x[0].dtype.element_ty), mask=inside)


@triton.jit
def store_column(x, column, rows, T):
    """Write [C] into a head of x [B, T, H]; nothing where there is no x."""
    if x is not None:
        tl.store(x[0] + rows.to(tl.int64) * x[1][1], column, mask=rows < T)


@triton.jit
def start_of(n, C: tl.constexpr, T):
    """The first token of chunk n.

    That T is above it is known, but not to a compiler, which so does not count with it:
    it would keep a pointer a row of every tile in registers, and move them all on.
    """
    return tl.minimum(tl.cast(n, tl.int32) * C, T)


@triton.jit
def square(C: tl.constexpr):
    """Offsets of a matrix [C, C] that lies row after row."""
    i = tl.arange(0, C)
    return i[:, None] * C + i[None, :]


@triton.jit
def gates_of(x, start, by, C: tl.constexpr, G: tl.constexpr, T, d: tl.constexpr):
    """Log decays of the C tokens from `start` on, each `by` further on: [C, 1], or
    [C, G] by channel. Zero, which forgets nothing, where that is none of the C.
    """
    i = by + tl.arange(0, C)
    rows = tl.where((i >= 0) & (i < C), start + i, -1)
    g = column_of(x, rows, T) if G <= 1 else rows_of(x, rows, tl.arange(0, G), T, d)
    return g.to(tl.float32)


@triton.jit
def since_start(g, G: tl.constexpr):
    """[C, 1] or [C, G]: what each token sees of the state before the chunk."""
    if G == 0:
        kept = tl.full([g.shape[0], 1], 1.0, tl.float32)
    elif G == 1:
        # as a vector: Triton 3.6 compiles no cumulative sum of a column
        kept = tl.exp(tl.cumsum(tl.sum(g, 1), 0))[:, None]
    else:
        kept = tl.exp(tl.cumsum(g, 0))
    return kept


@triton.jit
def until_end(g, G: tl.constexpr):
    """[C, 1] or [C, G]: what the chunk's end sees of each token, whose g is the next
    token's.
    """
    if G == 0:
        kept = tl.full([g.shape[0], 1], 1.0, tl.float32)
    elif G == 1:
        kept = tl.exp(tl.cumsum(tl.sum(g, 1), 0, reverse=True))[:, None]
    else:
        kept = tl.exp(tl.cumsum(g, 0, reverse=True))
    return kept


@triton.jit
def between(g, rows, G: tl.constexpr, LATE: tl.constexpr):
    """[C, C]: what token i sees of token j, for scalar decays g [C, 1] or for none.

    An exponent sums the tokens behind j up to i. LATE leaves out i itself: then g is
    that of the token before each. Where there is nothing to sum it is zero, so that
    nothing overflows before the future is masked. The mask is made of `rows`, which a
    loop moves on, so that it is not kept in registers throughout.
    """
    i, j = rows[:, None], rows[None, :]
    kept = tl.full([rows.shape[0], rows.shape[0]], 1.0, tl.float32)
    if G > 0:
        kept = tl.exp(tl.cumsum(tl.where(i - LATE > j, g, 0.0), 0))
    return tl.where(i >= j, kept, 0.0)


@triton.jit
def dot(x, y):
    """In float32, x @ y; `y` becomes what x is.

    float16 would overflow in a state, so there it is tf32, which has float16's digits
    and float32's range.
    """
    if x.dtype == tl.float16 and y.dtype == tl.float32:
        product = tl.dot(x.to(tl.float32), y, input_precision="tf32")
    else:
        product = tl.dot(x, y.to(x.dtype), input_precision="ieee")
    return product


@triton.jit
def scaled_dot(x, factors, y):
    """(factors * x) @ y: a factor a row is taken afterwards, one a channel before."""
    if factors.shape[1] == 1:
        product = factors * dot(x, y)
    else:
        product = dot((factors * x).to(x.dtype), y)
    return product


@triton.jit
def scaled_dot_of_rows(x, factors, y):
    """(factors * x).T @ y: a factor a row is taken into y, one a channel into x."""
    if factors.shape[1] == 1:
        product = dot(tl.trans(x), factors * y)
    else:
        product = dot(tl.trans((factors * x).to(x.dtype)), y)
    return product
