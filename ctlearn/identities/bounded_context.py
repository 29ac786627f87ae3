"""What a bounded state keeps of a context, and what it cannot answer.

Of [mcdermott2026], in this book's letters: windows, heads, the optimum that ignores the
prompt, the rank of a state, and evicted assignments.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.mixers import linear_attention, sliding_window_attention
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.printed.functions import inverse, rank
from ctlearn.supplies import Supply
from ctlearn.systems import solve

CHAPTER = "06_a_tiny_model"
LATER = "16_a_lifetime_of_context"

Array = np.ndarray


def _stream(supply: Supply, T: int, d_k: int, d_v: int, mark: str = "") -> list[Array]:
    sizes = {"q": d_k, "k": d_k, "v": d_v}
    return [supply.real(name + mark, T, d) for name, d in sizes.items()]


def _window_numbers(supply: Supply, T: int, C: int, d_k: int, d_v: int) -> Numbers:
    q, k, v = _stream(supply, T, d_k, d_v)
    o, _ = sliding_window_attention.recurrent(q, k, v, window=C)
    letters = {"q": q, "k": k, "v": v, "o": o, "w": C}
    return Numbers(letters, {"t": range(C, T + 1)})


@identity(
    title="A window is a fixed number of parameters: nothing older can be told apart",
    statement=r"o_t = \frac{1}{\sum_{j=t-w+1}^{t} \exp(q_t^\top k_j)}"
    r" \sum_{j=t-w+1}^{t} \exp(q_t^\top k_j) v_j",
    source="mcdermott2026, eq. 7",
    citations=("mcdermott2026",),
    chapter=LATER,
    printed={
        STATEMENT: AsPrinted(
            numbers=_window_numbers,
            worlds=("symbols", "floats"),
            at={"symbols": {"T": 3, "C": 2, "d_k": 1, "d_v": 1}},
        )
    },
    mutants={
        "the window's oldest pair differs, too": {"late": 1},
        "a state of one pair less": {"fewer": 1},
        "keys are kept and no values": {"values": 0},
    },
    at={"symbols": {"T": 3, "C": 2, "d_k": 1, "d_v": 1}},
)
def window(
    supply: Supply,
    T: int,
    C: int,
    d_k: int,
    d_v: int,
    *,
    late: int = 0,
    fewer: int = 0,
    values: int = 1,
) -> dict[str, Sides]:
    """Two streams whose last C pairs agree: one answer, one state, of C (d_k + d_v)."""
    q, k, v = _stream(supply, T + C, d_k, d_v)
    other = [x.copy() for x in (k, v)]
    for x, changed in zip(other, _stream(supply, T, d_k, d_v, "u")[1:], strict=True):
        x[: T + late] = np.concatenate([changed, changed])[: T + late]
    o, S = sliding_window_attention.recurrent(q, k, v, window=C)
    again, same = sliding_window_attention.recurrent(q, *other, window=C)
    kept = S.K.size + S.V.size
    return {
        "answer": (again[-1], o[-1]),
        "state": (np.concatenate(same, axis=1), np.concatenate(S, axis=1)),
        "size": _counts(supply, kept, (C - fewer) * (d_k + values * d_v)),
    }


def _counts(supply: Supply, left: int, right: int) -> Sides:
    """Two whole numbers among the supply's own, so that it can compare them."""
    one = supply.positive("one", 1) ** 0
    return left * one, right * one


def _heads(supply: Supply, N: int, T: int, d_k: int, d_v: int) -> list[Array]:
    """Queries, keys and values of N heads: [N, T, d]."""
    sizes = {"q": d_k, "k": d_k, "v": d_v}
    return [supply.real(name, N, T, d) for name, d in sizes.items()]


def _heads_numbers(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Two heads: their last queries and answers, and their states as the source's."""
    q, k, v = _heads(supply, 2, T, d_k, d_v)
    done = [linear_attention.recurrent(*x) for x in zip(q, k, v, strict=True)]
    letters = {
        "q": q[:, -1],
        "y": np.array([o[-1] for o, _ in done]),
        r"\theta": [S.T for _, S in done],
        "O": np.zeros((d_v, d_k), dtype=int),
    }
    return Numbers(letters)


@identity(
    title="Heads side by side are a block-diagonal map of all their queries",
    kind="erratum",
    statement=r"\begin{pmatrix} y_1 \\ y_2 \end{pmatrix} = \begin{pmatrix}"
    r" \theta_1 & O \\ O & \theta_2 \end{pmatrix}"
    r" \begin{pmatrix} q_1 \\ q_2 \end{pmatrix}",
    as_printed=r"\begin{pmatrix} y_1 \\ y_2 \end{pmatrix} = \begin{pmatrix}"
    r" \theta_1 & O \\ O & \theta_2 \end{pmatrix}",
    source="mcdermott2026, eq. 14, whose third member lacks the queries, for two heads",
    citations=("mcdermott2026",),
    chapter=LATER,
    printed={STATEMENT: AsPrinted(numbers=_heads_numbers)},
    mutants={
        "one state for all heads": {"shared": True},
        "every head sees the first one's query": {"query": 0},
        "the blocks in the other order": {"turned": True},
    },
    at={"symbols": {"N": 2, "T": 2}, "floats": {"N": 4, "T": 12}},
)
def heads(
    supply: Supply,
    N: int,
    T: int,
    d_k: int,
    d_v: int,
    *,
    shared: bool = False,
    query: int | None = None,
    turned: bool = False,
) -> dict[str, Sides]:
    """The rows of the matrix itself, summed, for the member that lacks the queries."""
    q, k, v = _heads(supply, N, T, d_k, d_v)
    done = [linear_attention.recurrent(*x) for x in zip(q, k, v, strict=True)]
    y = np.concatenate([o[-1] for o, _ in done])
    blocks = np.zeros((N * d_v, N * d_k), dtype=y.dtype)
    order = range(N)[::-1] if turned else range(N)
    for i in range(N):
        S = done[0 if shared else order[i]][1]
        blocks[i * d_v : (i + 1) * d_v, i * d_k : (i + 1) * d_k] = S.T
    asked = np.concatenate([q[i if query is None else query, -1] for i in range(N)])
    return {"printed": (blocks.sum(axis=1), y), "corrected": (blocks @ asked, y)}


def _blocks_numbers(supply: Supply) -> Numbers:
    h, d_k = supply.positive("h", 1)[0], supply.positive("d", 1)[0]
    return Numbers({"h": h, "d_k": d_k, "d_v": d_k, "d": h * d_k})


@identity(
    title="More heads are fewer parameters: of one state the diagonal blocks are kept",
    statement=r"h d_k d_v = \frac{d^2}{h}",
    source="mcdermott2026, eqs. 13 and 14",
    citations=("mcdermott2026",),
    equations=("eq-fewer-parameters",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-fewer-parameters"), AsPrinted(numbers=_blocks_numbers)
    ),
    chapter=LATER,
    mutants={
        "all blocks are kept": {"kept": "all"},
        "the blocks below the diagonal": {"kept": "below"},
        "as many parameters as one head": {"power": 0},
    },
    at={"symbols": {"N": 2, "T": 2}, "floats": {"N": 4, "T": 12}},
)
def fewer_parameters(
    supply: Supply, N: int, T: int, d: int, *, kept: str = "diagonal", power: int = 1
) -> dict[str, Sides]:
    """N heads of d channels, against one head of N d channels, masked by blocks."""
    q, k, v = _heads(supply, N, T, d, d)
    states = [linear_attention.recurrent(*x)[1] for x in zip(q, k, v, strict=True)]
    wide = [np.concatenate(list(x), axis=1) for x in (q, k, v)]
    _, one = linear_attention.recurrent(*wide)
    masks = {"diagonal": np.eye(N), "all": np.ones((N, N)), "below": np.eye(N, k=-1)}
    mask = np.kron(masks[kept], np.ones((d, d))).astype(int)
    whole = np.zeros_like(one)
    for i, S in enumerate(states):
        whole[i * d : (i + 1) * d, i * d : (i + 1) * d] = S
    width, parameters = N * d, sum(S.size for S in states)
    return {
        "states": (one * mask, whole),
        "parameters": _counts(supply, parameters * N**power, width**2),
    }


def _static_numbers(supply: Supply, T: int, d: int, d_v: int) -> Numbers:
    x, W_k, W_v = _projected(supply, T, d, d_v)
    letters = {"W_k": W_k, "W_v": W_v, "k": x @ W_k.T, "v": x @ W_v.T}
    return Numbers(letters, {"t": range(1, T + 1)})


def _projected(supply: Supply, T: int, d: int, d_v: int) -> tuple[Array, Array, Array]:
    x, W_v = supply.real("x", T, d), supply.real("Wv", d_v, d)
    return x, supply.real("Wk", d, d), W_v


def _static_free(*, turned: bool = False) -> Sides:
    """The map of keys to values, with matrices of any size."""
    import sympy

    W_k, W_v, x = sympy.symbols("W_k W_v x", commutative=False)
    found = W_k**-1 * W_v if turned else W_v * W_k**-1
    return found * (W_k * x), W_v * x


@identity(
    title="Where keys hold all of a token, the best map ignores the prompt",
    statement=r"W_v W_k^{-1} k_t = v_t",
    source="mcdermott2026, eq. 15",
    citations=("mcdermott2026",),
    equations=("eq-static-map",),
    printed={
        "eq-static-map": AsPrinted(numbers=_static_numbers),
    },
    chapter=CHAPTER,
    mutants={
        "the projections in the other order": {"turned": True},
        "a projection that is not inverted": {"inverted": False},
        "values that the tokens do not hold": {"noise": 1},
    },
    worlds=("rationals", "floats"),
    at={"floats": {"d": 4}},
    free=_static_free,
)
def static_optimum(
    supply: Supply,
    d: int,
    d_v: int,
    *,
    turned: bool = False,
    inverted: bool = True,
    noise: int = 0,
) -> dict[str, Sides]:
    """Least squares on two prompts gives one map, which no prompt has a part in."""
    _, W_k, W_v = _projected(supply, d, d, d_v)
    undone = inverse(W_k) if inverted else W_k
    best = (undone @ W_v[:, :1] if turned else W_v @ undone).T
    found = {}
    for prompt in ("first", "second"):
        x = supply.real(prompt, 3 * d, d)
        k, v = x @ W_k.T, x @ W_v.T + noise * supply.real(prompt + "n", 3 * d, d_v)
        S = np.stack([_exact_solve(k, column) for column in v.T], axis=1)
        found[prompt] = (S, best)
    return found


def _exact_solve(k: Array, y: Array) -> Array:
    """The w with k w = y, by the normal equations."""
    return solve(k.T @ k, k.T @ y)


def _left_numbers(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    K, Theta = supply.real("K", T, d_k), supply.real("Theta", d_k, d_v)
    ridge, one = supply.positive("lambda", 1)[0], np.eye(d_k, dtype=int)
    V = K @ Theta
    H = K.T @ K + ridge * one
    letters = {"K": K, "V": V, r"\Theta": Theta, r"\lambda": ridge, "H": H}
    return Numbers(letters | {"S": _ridge_fit(K, V, ridge)})


def _ridge_fit(K: Array, V: Array, ridge: Any) -> Array:
    """The map of keys to values that ridge regression finds."""
    H = K.T @ K + ridge * np.eye(K.shape[1], dtype=int)
    return np.stack([solve(H, K.T @ v) for v in V.T], axis=1)


def _left_free(*, sign: int = 1, ridge: int = 1) -> Sides:
    """With matrices of any size: K'K is H less the ridge."""
    import sympy

    H, Theta = sympy.symbols("H Theta", commutative=False)
    lam = sympy.Symbol("lambda")
    fitted = H**-1 * (H - lam) * Theta
    return fitted, Theta - sign * ridge * lam * H**-1 * Theta


@identity(
    title="What a ridge fit keeps of its prompt is what it has not learned",
    statement=r"H = K^\top K + \lambda I, \quad V = K \Theta, \quad"
    r" S = H^{-1} K^\top V = \Theta - \lambda H^{-1} \Theta, \quad"
    r" V - K S = \lambda K H^{-1} \Theta",
    source="ours; elementary",
    citations=("mcdermott2026",),
    equations=("eq-left-of-prompt",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-left-of-prompt"),
        AsPrinted(
            numbers=_left_numbers,
            worlds=("rationals", "floats"),
            at={"rationals": {"T": 4, "d_k": 2, "d_v": 2}},
        ),
    ),
    free=_left_free,
    chapter=LATER,
    worlds=("rationals", "floats"),
    mutants={
        "the prompt adds to the fit": {"sign": -1},
        "twice the ridge": {"ridge": 2},
        "values that the keys do not hold": {"noise": 1},
    },
    at={"floats": {"T": 9, "d_k": 4}},
)
def left_of_prompt(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    sign: int = 1,
    ridge: int = 1,
    noise: int = 0,
) -> dict[str, Sides]:
    """The fit to values that are linear in their keys, and what it is off by."""
    K, Theta = supply.real("K", T, d_k), supply.real("Theta", d_k, d_v)
    lam = supply.positive("lambda", 1)[0]
    V = K @ Theta + noise * supply.real("n", T, d_v)
    S = _ridge_fit(K, V, lam)
    H = K.T @ K + lam * np.eye(d_k, dtype=int)
    left = ridge * lam * np.stack([solve(H, x) for x in Theta.T], axis=1)
    return {
        "fit": (S, Theta - sign * left),
        "loss": (V - K @ S, sign * K @ left),
    }


@identity(
    title="Where keys leave a channel out, the best map is the prompt's",
    kind="counterexample",
    statement=r"k_t = \begin{pmatrix} 1 & 0 \end{pmatrix} x_t, \;"
    r" v_t = \begin{pmatrix} 0 & 1 \end{pmatrix} x_t: \quad"
    r" x_1 = \begin{pmatrix} 1 \\ 2 \end{pmatrix} \Rightarrow \theta^\star = 2, \quad"
    r" x_1 = \begin{pmatrix} 1 \\ 5 \end{pmatrix} \Rightarrow \theta^\star = 5",
    source="ours; the condition of mcdermott2026, eq. 15, is needed",
    citations=("mcdermott2026",),
    worlds=("rationals", "floats"),
    chapter=CHAPTER,
    mutants={
        "values read what the keys read": {"read": 0},
        "the prompts agree": {"second": 2},
    },
)
def prompt_optimum(supply: Supply, *, read: int = 1, second: int = 5) -> Sides:
    """One token, one key channel of two: least squares on either prompt."""
    one = supply.real("one", 1)[0] ** 0
    best = []
    for last in (2, second):
        x = np.array([one, last * one])
        best.append(_exact_solve(x[None, :1], x[read : read + 1]))
    return best[0], best[1]


def _reflection(supply: Supply, name: str, d: int) -> Array:
    """An orthogonal matrix, rational in what is drawn."""
    u = supply.unit(name, 1, d)[0]
    return np.eye(d, dtype=int) - 2 * np.outer(u, u)


def _stored(supply: Supply, N: int, *, line: bool, again: bool) -> Array:
    """A state that returns N orthogonal values at N orthogonal keys, and more."""
    keys, values = _reflection(supply, "u", N + 1), _reflection(supply, "w", N + 1)
    lengths = supply.positive("l", N)[:, None]
    keys, values = keys[:N], lengths * values[:N]
    if line:
        values = lengths * values[:1]
    if again:
        keys = 0 * keys + keys[:1]
    return keys.T @ values


def _rank_numbers(supply: Supply, N: int) -> Numbers:
    return Numbers({"S": _stored(supply, N, line=False, again=False), "N": N})


@identity(
    title="A state that returns N orthogonal values at N orthogonal keys has rank N",
    kind="bound",
    statement=r"N \le \operatorname{rank}(S)",
    source="mcdermott2026, section 4.2",
    citations=("mcdermott2026",),
    chapter=LATER,
    worlds=("rationals", "floats"),
    printed={
        STATEMENT: AsPrinted(numbers=_rank_numbers, worlds=("rationals", "floats"))
    },
    mutants={
        "the values lie on one line": {"line": True},
        "the keys are one key": {"again": True},
        "one pair more": {"more": 1},
    },
)
def rank_many(
    supply: Supply, N: int, *, line: bool = False, again: bool = False, more: int = 0
) -> Sides:
    """Orthogonal keys alone need no rank: with one value, rank 1 stores them all."""
    S = _stored(supply, N, line=line, again=again)
    return np.asarray(N + more), np.asarray(rank(S))


Line = tuple[str, Sequence[str], Any]


def _answers(program: Sequence[Line]) -> Mapping[str, Any]:
    """Run assignments in order: each sets a name to a sum of names and a number."""
    held: dict[str, Any] = {}
    for name, terms, number in program:
        held[name] = sum((held[term] for term in terms), start=number)
    return held


@identity(
    title="Evict any assignment that is still used, and the query cannot be answered",
    kind="counterexample",
    statement=r"x \leftarrow a, \; y \leftarrow x + b, \; x \leftarrow c, \;"
    r" z \leftarrow y + x \;\Rightarrow\; z = a + b + c; \quad"
    r" 5 + 5 + 3 = 13 \ne 14 = 5 + 5 + 4",
    source="mcdermott2026, section 3",
    citations=("mcdermott2026",),
    chapter=LATER,
    mutants={
        "the query is for y": {"asked": "y"},
        "y does not use x, so its first value is dead": {"used": ()},
        "the evicted number is no other": {"apart": 0},
    },
)
def evicted_assignment(
    supply: Supply, *, asked: str = "z", used: Sequence[str] = ("x",), apart: int = 1
) -> dict[str, Sides]:
    """Two streams that agree on all that is kept, and differ in what was evicted.

    So no function of what is kept gives both answers. Where numbers are counted modulo
    m the same two streams differ still, unless m divides the difference.
    """
    numbers = list(supply.real("n", 3))
    gap = apart * supply.positive("gap", 1)[0]
    one = gap**0

    def answer(numbers: Sequence[Any]) -> Array:
        a, b, c = numbers
        program = [("x", (), a), ("y", used, b), ("x", (), c), ("z", "yx", 0 * a)]
        return np.asarray(_answers(program)[asked])

    def changed(i: int, numbers: Sequence[Any], by: Any) -> list[Any]:
        return [n + by * int(i == j) for j, n in enumerate(numbers)]

    source = [5 * one, 5 * one, 3 * one]
    return {
        **{
            f"without assignment {i + 1}": (
                answer(numbers),
                answer(changed(i, numbers, gap)),
            )
            for i in range(3)
        },
        "the source's numbers": (answer(source), answer(changed(2, source, apart))),
    }


@identity(
    title="Modulo 2 an assignment can be used, evicted, and not missed",
    statement=r"x \leftarrow a, \; z \leftarrow x + x \;\Rightarrow\;"
    r" z \equiv 0 \pmod 2",
    source="ours; the exception to mcdermott2026, section 3, which is strict over the "
    "integers",
    citations=("mcdermott2026",),
    chapter=LATER,
    worlds=("rationals",),
    mutants={
        "modulo 3": {"modulus": 3},
        "x is added once": {"times": 1},
        "x is added three times": {"times": 3},
    },
)
def modular_exception(supply: Supply, *, modulus: int = 2, times: int = 2) -> Sides:
    """Every a that there is modulo 6, against the answer without it."""
    program = [[("x", (), a), ("z", "x" * times, 0)] for a in range(6)]
    answers = [_answers(lines)["z"] % modulus for lines in program]
    return np.array(answers, dtype=object), np.zeros(6, dtype=object)
