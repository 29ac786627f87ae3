"""One equation, three plans: recurrent, parallel and chunkwise, and what they cost."""

from typing import Any

import numpy as np

from ctlearn import cost
from ctlearn.identities.engine import Sides, identity
from ctlearn.mixers import linear_attention
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import sqrt
from ctlearn.supplies import Supply

CHAPTER = "03_three_plans"


def _tokens(supply: Supply, T: int, d_k: int, d_v: int) -> tuple[np.ndarray, ...]:
    q, k = supply.real("q", T, d_k), supply.real("k", T, d_k)
    return q, k, supply.real("v", T, d_v), supply.real("S", d_k, d_v)


def _flat(o: np.ndarray, S: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ravel(o), np.ravel(S)])


def _printed(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Tokens, and the package's outputs and states from an arbitrary first state."""
    q, k, v, S = _tokens(supply, T, d_k, d_v)
    o, _ = linear_attention.recurrent(q, k, v, S=S)
    ends = np.array(
        [linear_attention.recurrent(q[:t], k[:t], v[:t], S=S)[1] for t in range(T + 1)]
    )
    tokens = {"q": q, "k": k, "v": v, "o": o, "S": Rows(ends, first=0), "S_T": ends[T]}
    whole = {"Q": q, "K": k, "V": v, "O": o, "M": np.tril(np.ones((T, T), dtype=int))}
    index = range(1, T + 1)
    return Numbers(tokens | whole, {"t": index, "s": index, "j": index})


def _printed_chunks(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    """Three chunks, and what the package's recurrence leaves at their boundaries."""
    q, k, v, S = _tokens(supply, 3 * C, d_k, d_v)
    o, _ = linear_attention.recurrent(q, k, v, S=S)
    ends = [
        linear_attention.recurrent(q[:t], k[:t], v[:t], S=S)[1]
        for t in range(0, 3 * C + 1, C)
    ]
    chunks = {
        name: np.split(x, 3) for name, x in {"Q": q, "K": k, "V": v, "O": o}.items()
    }
    letters = {"S": Rows(np.array(ends), first=0)}
    mask = {"M": np.tril(np.ones((C, C), dtype=int))}
    return Numbers(chunks | letters | mask, {"n": range(1, 4)})


PRINTED = AsPrinted(numbers=_printed)


@identity(
    title="The state is the initial state plus all that was written",
    statement=r"S_t = S_0 + \sum_{j=1}^{t} k_j v_j^\top",
    source="ours",
    citations=("katharopoulos2020",),
    equations=("eq-unrolled",),
    printed={"eq-unrolled": PRINTED},
    chapter=CHAPTER,
    mutants={
        "a write is counted twice": {"times": 2},
        "the initial state is lost": {"keep": 0},
        "read before writing": {"read": 0},
    },
)
def unrolled(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    times: int = 1,
    keep: int = 1,
    read: int = 1,
) -> dict[str, Sides]:
    """`before` is any sum of earlier writes, so one step is a proof for every t."""
    q, k, v, S = _tokens(supply, 1, d_k, d_v)
    before = supply.real("P", d_k, d_v)
    written = np.outer(k[0], v[0])
    after = keep * S + before + times * written
    o = (S + before + read * written).T @ q[0]
    nothing = linear_attention.recurrent(q[:0], k[:0], v[:0], S=S)
    return {
        "base": (_flat(*nothing), np.ravel(keep * S)),
        "step": (
            _flat(*linear_attention.step(q[0], k[0], v[0], S=S + before)),
            _flat(o, after),
        ),
    }


@identity(
    title="All tokens at once: scores, a mask, values",
    statement=(r"O = Q S_0 + (Q K^\top \odot M) V, \qquad S_T = S_0 + K^\top V"),
    source="ours",
    citations=("katharopoulos2020", "yang2024gla"),
    equations=("eq-plan-parallel",),
    printed={"eq-plan-parallel": PRINTED},
    chapter=CHAPTER,
    mutants={
        "a token cannot read itself": {"diagonal": -1},
        "the next token is read": {"diagonal": 1},
        "the initial state is lost": {"keep": 0},
        "queries and keys exchanged": {"exchange": True},
    },
)
def parallel(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    diagonal: int = 0,
    keep: int = 1,
    exchange: bool = False,
) -> Sides:
    """The recurrence, against the formula with its mask."""
    q, k, v, S = _tokens(supply, T, d_k, d_v)
    scores = k @ q.T if exchange else q @ k.T
    M = np.tril(np.ones((T, T), dtype=int), diagonal)
    o = keep * (q @ S) + (scores * M) @ v
    return _flat(*linear_attention.recurrent(q, k, v, S=S)), _flat(o, S + k.T @ v)


def _two_tokens_free(*, again: bool = False) -> Sides:
    """Token 2 of a chunk, with vectors and matrices that have no size."""
    import sympy

    q, S, k_1, v_1, k_2, v_2 = sympy.symbols("q S k_1 v_1 k_2 v_2", commutative=False)
    carried = S + k_1 * v_1 if again else S
    return (
        q * (S + k_1 * v_1 + k_2 * v_2),
        q * carried + (q * k_1) * v_1 + (q * k_2) * v_2,
    )


@identity(
    title="A query reads the state at any earlier boundary, and the pairs since then",
    statement=(
        r"o_t = S_s^\top q_t + \sum_{j=s+1}^{t} (q_t^\top k_j) v_j \quad (s \le t)"
    ),
    source="ours",
    equations=("eq-across-a-boundary",),
    printed={"eq-across-a-boundary": PRINTED},
    chapter=CHAPTER,
    mutants={
        "the token before the boundary is read again": {"again": True},
        "the first token after the boundary is missed": {"late": 1},
        "the boundary state is a token old": {"stale": 1},
    },
    free=_two_tokens_free,
)
def across_a_boundary(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    again: bool = False,
    late: int = 0,
    stale: int = 0,
) -> dict[str, Sides]:
    """Every boundary s, and every token from s on."""
    q, k, v, S = _tokens(supply, T, d_k, d_v)
    o, _ = linear_attention.recurrent(q, k, v, S=S)
    parts = {}
    for s in range(1, T):
        upto = s - stale
        _, S_s = linear_attention.recurrent(q[:upto], k[:upto], v[:upto], S=S)
        first = s - again + late
        read = [
            S_s.T @ q[t] + (q[t] @ k[first : t + 1].T) @ v[first : t + 1]
            for t in range(s, T)
        ]
        parts[f"s = {s}"] = (o[s:], np.array(read, dtype=o.dtype))
    return parts


@identity(
    title="Chunkwise is exact, for every chunk size and a shorter last chunk",
    statement=(
        r"O_{[n]} = Q_{[n]} S_{[n-1]} + (Q_{[n]} K_{[n]}^\top \odot M) V_{[n]}, "
        r"\qquad S_{[n]} = S_{[n-1]} + K_{[n]}^\top V_{[n]}"
    ),
    source="ours",
    citations=("sun2023retnet", "yang2024gla"),
    equations=("eq-plan-chunkwise",),
    printed={"eq-plan-chunkwise": AsPrinted(numbers=_printed_chunks)},
    chapter=CHAPTER,
    mutants={
        "the chunk reads the state it leaves": {"state": "after"},
        "the chunk reads no state": {"state": "none"},
        "no mask inside the chunk": {"diagonal": 9},
        "the last, shorter chunk is dropped": {"ragged": False},
    },
    at={"floats": {"T": 23}},
)
def chunkwise(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    state: str = "before",
    diagonal: int = 0,
    ragged: bool = True,
) -> dict[str, Sides]:
    """The recurrence, against the two lines of the plan, for C = 1 up to T + 1."""
    q, k, v, S_0 = _tokens(supply, T, d_k, d_v)
    whole = _flat(*linear_attention.recurrent(q, k, v, S=S_0))
    parts = {}
    for C in range(1, T + 2):
        S, o = S_0, 0 * v
        for start in range(0, T if ragged else T - T % C, C):
            c = slice(start, start + C)
            after = S + k[c].T @ v[c]
            seen = {"before": S, "after": after, "none": 0 * S}[state]
            o[c] = q[c] @ seen + np.tril(q[c] @ k[c].T, diagonal) @ v[c]
            S = after
        parts[f"C = {C}"] = (whole, _flat(o, S))
    return parts


@identity(
    title="Chunks of one token are the recurrence",
    kind="limit",
    statement=(
        r"S_{t-1}^\top q_t + (q_t^\top k_t) v_t"
        r" = \left(S_{t-1} + k_t v_t^\top\right)^\top q_t"
    ),
    source="ours",
    equations=("eq-chunk-of-one",),
    printed={"eq-chunk-of-one": PRINTED},
    chapter=CHAPTER,
    mutants={
        "the token reads itself twice": {"own": 2},
        "the token does not read itself": {"own": 0},
        "the outer product the other way round": {"turned": True},
    },
)
def chunk_of_one(
    supply: Supply, d: int, *, own: int = 1, turned: bool = False
) -> Sides:
    """One token, from an arbitrary state."""
    q, k, v, S = _tokens(supply, 1, d, d)
    q, k, v = q[0], k[0], v[0]
    written = np.outer(v, k) if turned else np.outer(k, v)
    return S.T @ q + own * (q @ k) * v, (S + written).T @ q


@identity(
    title="One chunk of T tokens is the parallel plan",
    kind="limit",
    statement=r"C \ge T: \quad O_{[1]} = Q S_0 + (Q K^\top \odot M) V",
    source="ours",
    chapter=CHAPTER,
    mutants={
        "one token too few in the chunk": {"last": -1},
        "the initial state is lost": {"keep": 0},
        "the initial state is read twice": {"keep": 2},
    },
)
def chunk_of_all(
    supply: Supply, T: int, d_k: int, d_v: int, *, last: int = 0, keep: int = 1
) -> Sides:
    """A chunk larger than the sequence, and one of exactly its length."""
    q, k, v, S = _tokens(supply, T, d_k, d_v)
    n = T + last
    return (
        _flat(*linear_attention.parallel(q, k, v, S=S)),
        _flat(
            linear_attention.chunkwise(q[:n], k[:n], v[:n], S=keep * S, chunk_size=n)[
                0
            ],
            linear_attention.chunkwise(q, k, v, S=keep * S, chunk_size=T + 3)[1],
        ),
    )


def _printed_cost(supply: Supply) -> Numbers:
    """The chapter's model of the time, and its best chunk size."""
    a, b, d, T, C = (supply.positive(name, 1)[0] for name in ("a", "b", "d", "T", "C"))
    best = sqrt(a / (2 * b * d))

    def seconds(chunk_size: Any) -> Any:
        return cost.chunkwise_seconds(T, d, chunk_size, per_chunk=a, per_operation=b)

    letters = {"a": a, "b": b, "d": d, "T": T, "C": C}
    return Numbers(letters | {r"C^\star": best, r"\rho": seconds})


COST = AsPrinted(numbers=_printed_cost, worlds=("symbols", "floats"))


@identity(
    title="What a chunk size other than the best one costs",
    statement=(
        r"\rho(C) - \rho(C^\star) = 2 b d T \frac{(C - C^\star)^2}{C}, "
        r"\qquad a = 2 b d C^{\star 2}"
    ),
    source="ours, under the two-term model of the chapter",
    equations=("eq-wrong-chunk-size", "def-two-terms"),
    printed={"eq-wrong-chunk-size": COST, "def-two-terms": COST},
    chapter=CHAPTER,
    mutants={
        "overhead a quarter of what balances": {"balance": 4},
        "the square is not divided by C": {"divided": False},
        "the inner products are counted once": {"products": 1},
    },
)
def wrong_chunk_size(
    supply: Supply, *, balance: int = 1, divided: bool = True, products: int = 2
) -> Sides:
    """Any overhead and speed, with the best size as the free letter."""
    b, d, T, C, best = (
        supply.positive(name, 1)[0] for name in ("b", "d", "T", "C", "B")
    )
    a = 2 * b * d * best**2 / balance
    model = {"per_chunk": a, "per_operation": b}
    gap = cost.chunkwise_seconds(T, d, C, **model)
    gap = gap - cost.chunkwise_seconds(T, d, best, **model)
    square = (C - best) ** 2 / (C if divided else 1)
    return np.array([gap]), np.array([products * b * d * T * square])


@identity(
    title="At the best chunk size the overhead equals the work inside the chunk",
    statement=(
        r"C^\star = \sqrt{\frac{a}{2 b d}} \;\Rightarrow\;"
        r" \frac{a}{C^\star} = 2 b d C^\star"
    ),
    source="ours, under the two-term model of the chapter",
    equations=("eq-best-chunk-size", "def-best-chunk-size"),
    printed={"eq-best-chunk-size": COST, "def-best-chunk-size": COST},
    chapter=CHAPTER,
    worlds=("symbols", "floats"),
    mutants={
        "the factor of two is forgotten": {"factor": 1},
        "no square root": {"rooted": False},
        "the size squared": {"size_power": 2},
    },
)
def best_chunk_size(
    supply: Supply, *, factor: int = 2, rooted: bool = True, size_power: int = 1
) -> Sides:
    """The two terms that depend on C, at the size that the formula gives."""
    a, b, d = (supply.positive(name, 1) for name in ("a", "b", "d"))
    ratio = a / (factor * b * d)
    best = sqrt(ratio) if rooted else ratio
    return a / best, 2 * b * d * best**size_power


@identity(
    title="No chunk size is faster than the model's least time",
    kind="bound",
    statement=r"2 b d T (d + 2 C^\star) \le \rho(C)",
    source="ours, by the inequality of the two means",
    equations=("eq-least-time",),
    printed={"eq-least-time": AsPrinted(numbers=_printed_cost, worlds=("floats",))},
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "one more overhead": {"overheads": 3},
        "twice the overhead": {"overheads": 4},
        "the carried state is counted twice": {"carried": 2},
    },
)
def least_time(supply: Supply, *, overheads: int = 2, carried: int = 1) -> Sides:
    """Many chunk sizes, the best one among them."""
    b, d, T, best = (supply.positive(name, 1)[0] for name in ("b", "d", "T", "B"))
    C = np.append(supply.positive("C", 12), best)
    model = {"per_chunk": 2 * b * d * best**2, "per_operation": b}
    times = np.array([cost.chunkwise_seconds(T, d, c, **model) for c in C])
    return 2 * b * d * T * (carried * d + overheads * best) + 0 * C, times


def _printed_sizes(supply: Supply) -> Numbers:
    """Any sizes, and the number of tokens at which the package's counts are even."""
    d_k, d_v, T = (supply.positive(name, 1)[0] for name in ("d_k", "d_v", "T"))
    even = 2 * cost.equal_bytes(d_k, d_v)
    return Numbers({"d_k": d_k, "d_v": d_v, "T": T, r"t^\star": even})


SIZES = AsPrinted(numbers=_printed_sizes)


@identity(
    title="When reading a cache costs as much as updating and reading a state",
    statement=(
        r"t^\star = \frac{2 d_k d_v}{d_k + d_v}"
        r" \;\Rightarrow\; t^\star (d_k + d_v) = 2 d_k d_v"
    ),
    source="ours",
    equations=("eq-cache-or-state", "def-even-count"),
    printed={"eq-cache-or-state": SIZES, "def-even-count": SIZES},
    chapter=CHAPTER,
    mutants={
        "only the read is counted": {"touched": 1},
        "the state is copied too": {"touched": 3},
        "the values are not read": {"values": 0},
        "the values are read twice": {"values": 2},
    },
)
def cache_or_state(supply: Supply, *, touched: int = 2, values: int = 1) -> Sides:
    """Any sizes; the harmonic mean of d_k and d_v."""
    d_k, d_v = (supply.positive(name, 1) for name in ("d_k", "d_v"))
    t = 2 * d_k * d_v / (d_k + d_v)
    return t * (d_k + values * d_v), touched * d_k * d_v


@identity(
    title="Prefix sums of states keep more than a table of scores until T = d_k d_v",
    statement=r"T d_k d_v - T^2 = T (d_k d_v - T)",
    source="ours",
    equations=("eq-prefix-room",),
    printed={"eq-prefix-room": SIZES},
    chapter=CHAPTER,
    mutants={
        "one state for all tokens": {"states": 0},
        "two states for each token": {"states": 2},
        "half of the table": {"table": 2},
        "a third of the table": {"table": 3},
    },
)
def prefix_room(supply: Supply, *, states: int = 1, table: int = 1) -> Sides:
    """The numbers that each keeps, at any sizes."""
    T, d_k, d_v = (supply.positive(name, 1)[0] for name in ("T", "d_k", "d_v"))
    sums = cost.prefix_states_numbers(T**states, d_k, d_v)
    scores = cost.parallel_numbers(T) / table
    return np.array([sums - scores]), np.array([T * (d_k * d_v - T)])
