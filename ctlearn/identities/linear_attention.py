"""Linear attention: the brackets move, a recurrence falls out; which masks allow it."""

from typing import Any

import numpy as np

from ctlearn.identities.engine import Sides, identity
from ctlearn.mixers import linear_attention
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.supplies import Supply
from ctlearn.tasks.trapdoor import masked_scan

CHAPTER = "02_the_trapdoor"


def _tokens(supply: Supply, T: int, d_k: int, d_v: int) -> tuple[np.ndarray, ...]:
    return (
        supply.real("q", T, d_k),
        supply.real("k", T, d_k),
        supply.real("v", T, d_v),
    )


def _printed(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Tokens, and what the package makes of them: outputs, and the state after each."""
    q, k, v = _tokens(supply, T, d_k, d_v)
    o, _ = linear_attention.recurrent(q, k, v)
    ends = [linear_attention.recurrent(q[:t], k[:t], v[:t])[1] for t in range(T + 1)]
    letters = {"q": q, "k": k, "v": v, "o": o, "S": Rows(np.array(ends), first=0)}
    return Numbers(
        letters | {"Q": q, "K": k, "V": v},
        {"t": range(1, T + 1), "j": range(1, T + 1)},
    )


PRINTED = AsPrinted(numbers=_printed)


def _free_product(*, swap: bool = False, transpose: bool = True) -> Sides:
    """Three matrices of any size, as letters that do not commute."""
    import sympy

    Q, Kt, K, V = sympy.symbols("Q K^T K V", commutative=False)
    right = Q * ((V * Kt) if swap else ((Kt if transpose else K) * V))
    return (Q * Kt) * V, right


@identity(
    title="The same product with its brackets moved",
    statement=r"(Q K^\top) V = Q (K^\top V)",
    source="katharopoulos2020, section 3.2",
    citations=("katharopoulos2020",),
    equations=("eq-matrix-order",),
    printed={"eq-matrix-order": PRINTED},
    chapter=CHAPTER,
    mutants={
        "keys and values swapped": {"swap": True},
        "the keys are not transposed": {"transpose": False},
        "the scores are squared": {"power": 2},
    },
    free=_free_product,
)
def matrix_order(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    swap: bool = False,
    transpose: bool = True,
    power: int = 1,
) -> Sides:
    """Scores first, or the state first; no mask."""
    q, k, v = _tokens(supply, T, d_k, d_v)
    state = v.T @ k if swap else (k.T if transpose else k) @ v
    return (q @ k.T) ** power @ v, q @ state


@identity(
    title="Line by line: the query leaves the sum over earlier pairs",
    statement=r"\sum_{j=1}^{t} (q_t^\top k_j) v_j ="
    r" \left(\sum_{j=1}^{t} k_j v_j^\top\right)^\top q_t",
    source="katharopoulos2020, eqs. 5-6, without feature map",
    citations=("katharopoulos2020", "schlag2021"),
    equations=("eq-reassociation", "eq-brackets", "def-linear-attention", "def-state"),
    printed=dict.fromkeys(
        ("eq-reassociation", "eq-brackets", "def-linear-attention", "def-state"),
        PRINTED,
    ),
    chapter=CHAPTER,
    mutants={
        "each pair is read with its own query": {"own_query": True},
        "the state is not transposed": {"transpose": False},
        "the current token is left out": {"last": 1},
        "the scores pass through a square": {"power": 2},
    },
)
def reassociation(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    own_query: bool = False,
    transpose: bool = True,
    last: int = 0,
    power: int = 1,
) -> dict[str, Sides]:
    """The sum in the order of its definition against each line, and the reference."""
    q, k, v = _tokens(supply, T, d_k, d_v)
    pairs = list(zip(q if own_query else [q[-1]] * T, k, v, strict=True))
    compared = np.sum([(q_j @ k_j) ** power * v_j for q_j, k_j, v_j in pairs], axis=0)
    pairs = pairs[: T - last]
    back = np.sum([v_j * (k_j @ q[-1]) for _, k_j, v_j in pairs], axis=0)
    outer = np.sum([np.outer(v_j, k_j) for _, k_j, v_j in pairs], axis=0)
    state = np.sum([np.outer(k_j, v_j) for _, k_j, v_j in pairs], axis=0)
    o, S = linear_attention.recurrent(q, k, v)
    return {
        "line 1": (compared, back),
        "line 2": (compared, outer @ q[-1]),
        "line 3": (compared, (state.T if transpose else state) @ q[-1]),
        "as rows": (compared[None], q[-1:] @ (state.T if not transpose else state)),
        "reference": (compared, o[-1]),
        "its state": (state, S),
    }


@identity(
    title="One more pair is one more outer product",
    statement=r"S_t = S_{t-1} + k_t v_t^\top, \quad o_t = S_t^\top q_t",
    source="katharopoulos2020, eqs. 10-12, without feature map and normaliser",
    citations=("katharopoulos2020", "schlag2021"),
    equations=("eq-linear-recurrence", "def-fixed-state", "def-plan-recurrent"),
    printed=dict.fromkeys(
        ("eq-linear-recurrence", "def-fixed-state", "def-plan-recurrent"), PRINTED
    ),
    chapter=CHAPTER,
    mutants={
        "the state is read before it is written": {"read_first": True},
        "the new pair replaces the state": {"kept": 0},
        "key and value swap roles": {"swap": True},
    },
)
def recurrence(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    read_first: bool = False,
    kept: int = 1,
    swap: bool = False,
) -> dict[str, Sides]:
    """From an arbitrary state: what it answered to q, and the new term of the sum."""
    q, k, v = (x[0] for x in _tokens(supply, 1, d_k, d_v))
    S = supply.real("S", d_k, d_v)

    def step(S: np.ndarray) -> np.ndarray:
        new = kept * S + (np.outer(v, k) if swap else np.outer(k, v))
        return (S if read_first else new).T @ q

    reference, _ = linear_attention.step(q, k, v, S=S)
    return {
        "base": (step(0 * S), (q @ k) * v),
        "step": (step(S), S.T @ q + (q @ k) * v),
        "reference": (reference, step(S)),
    }


def _printed_mask(supply: Supply, T: int, N: int, d_k: int, d_v: int) -> Numbers:
    """A mask of rank N, and what the package's scan of N states answers under it."""
    q, k, v = _tokens(supply, T, d_k, d_v)
    a, b = supply.real("a", T, N), supply.real("b", T, N)
    o = masked_scan(q, k, v, a, b)
    letters = {"q": q, "k": k, "v": v, "a": a, "b": b, "o": o, "M": np.tril(a @ b.T)}
    return Numbers(letters, {"t": range(1, T + 1), "j": range(1, T + 1)})


@identity(
    title="A mask that is a product of rank r is r states",
    statement=r"\sum_{j=1}^{t} (a_t^\top b_j) (q_t^\top k_j) v_j ="
    r" \left(\sum_{j=1}^{t} (b_j \otimes k_j) v_j^\top\right)^\top (a_t \otimes q_t)",
    source="ours; the lower-triangular case of dao2024",
    citations=("dao2024",),
    equations=("eq-mask-features", "def-masked-attention"),
    printed=dict.fromkeys(
        ("eq-mask-features", "def-masked-attention"),
        AsPrinted(numbers=_printed_mask, at={"symbols": {"N": 2}, "floats": {"N": 2}}),
    ),
    chapter=CHAPTER,
    mutants={
        "one state for all": {"states": 1},
        "write and read strengths swapped": {"swap": True},
        "the mask acts on the future too": {"causal": False},
    },
    at={"symbols": {"T": 3, "N": 2}},
)
def mask_features(
    supply: Supply,
    T: int,
    N: int,
    d_k: int,
    d_v: int,
    *,
    states: int = 0,
    swap: bool = False,
    causal: bool = True,
) -> dict[str, Sides]:
    """Masked scores, widened keys, and the scan with N states."""
    q, k, v = _tokens(supply, T, d_k, d_v)
    A, B = supply.real("a", T, N), supply.real("b", T, N)
    mask = A @ B.T if not causal else np.tril(A @ B.T)
    masked = (q @ k.T * mask) @ v
    if states:
        A, B = A[:, :states], B[:, :states]
    if swap:
        A, B = B, A
    wide_q = (A[:, :, None] * q[:, None]).reshape(T, -1)
    wide_k = (B[:, :, None] * k[:, None]).reshape(T, -1)
    return {
        "widened": (masked, linear_attention.recurrent(wide_q, wide_k, v)[0]),
        "scan": (masked, masked_scan(q, k, v, A, B)),
    }


def _rank(rows: Any) -> int:
    """The rank of exact numbers."""
    import sympy

    return int(sympy.Matrix(rows).rank())


def _printed_rank(supply: Supply, N: int, d_k: int) -> Numbers:
    """A block of rank N, as wide as the N tokens of the past."""
    M = np.tril(np.ones((2 * N, 2 * N), dtype=object))
    M[N - 1 :, :N] = supply.real("a", N + 1, N) @ supply.real("b", N, N)
    letters = {"M": M, "I": np.eye(d_k, dtype=int), "d_k": d_k}
    return Numbers(letters | {"t": N, "T": 2 * N})


@identity(
    title="What the future needs of the past has the rank of the mask's block",
    statement=r"\operatorname{rank}\left(M_{t:T, 1:t} \otimes I\right) ="
    r" d_k \operatorname{rank}\left(M_{t:T, 1:t}\right)",
    source="ours; the lower-triangular case of dao2024",
    citations=("dao2024",),
    equations=("eq-mask-rank",),
    printed={
        "eq-mask-rank": AsPrinted(
            numbers=_printed_rank,
            worlds=("rationals",),
            at={"rationals": {"N": 3, "d_k": 2}},
            equivalent={
                r"M_{t:T, 1:t} \otimes I → I \otimes M_{t:T, 1:t} "
                "(line 1, column 26)": "the same rows and columns in another order"
            },
        )
    },
    chapter=CHAPTER,
    worlds=("rationals",),
    mutants={
        "one state too few": {"spare": 1},
        "the mask's own rank": {"whole": True},
        "the block without its corner": {"cut": True},
    },
    at={"rationals": {"N": 2, "d_k": 2}},
)
def mask_rank(
    supply: Supply,
    N: int,
    d_k: int,
    *,
    spare: int = 0,
    whole: bool = False,
    cut: bool = False,
) -> Sides:
    """Answers as a linear function of the pairs, one unit query a channel.

    The past is N + 1 tokens and so is the future; the block is a product of rank N.
    The map takes the pairs' outer products, one column of values, to all answers.
    """
    size = N + 1
    block = supply.real("a", size, N) @ supply.real("b", N, size)
    # unit queries: what a future token can read of each key channel
    answers = np.kron(block, np.eye(d_k, dtype=int))
    if whole:
        mask = np.tril(np.ones((2 * size, 2 * size), dtype=object))
        mask[size:, :size] = block
        states = _rank(mask)
    else:
        states = _rank(block[1:-1, 1:-1] if cut else block)
    return np.asarray(_rank(answers)), np.asarray(d_k * (states - spare))
