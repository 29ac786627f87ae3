"""Hybrids: what a window and a state are worth, and what they say together.

Both answer a query q: a window by a mean of the pairs in it, a state by S'q. Room is
counted in numbers or bytes, and what is known in whole pairs or in shares of a rule.
"""

from typing import Any

import numpy as np

from ctlearn import buckets, cost
from ctlearn.identities.engine import Sides, identity
from ctlearn.mixers import (
    delta_rule,
    log_linear_attention,
    sliding_window_attention,
)
from ctlearn.mixers.softmax_attention import RunningMean
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.printed.functions import inverse
from ctlearn.scalars import exp, log
from ctlearn.supplies import Supply

CHAPTER = "15_hybrids"
EXACT = ("rationals", "floats")


def _projector(K: np.ndarray) -> np.ndarray:
    """On what the columns of K span, which must be independent."""
    return K @ inverse(K.T @ K) @ K.T


def _pairs(
    supply: Supply, N: int, d_k: int, d_v: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """More keys than channels, their values, and any state at all."""
    K, V = supply.real("K", N + d_k, d_k), supply.real("V", N + d_k, d_v)
    return K, V, supply.real("S", d_k, d_v)


def _square(x: np.ndarray) -> Any:
    return (x * x).sum()


def _captured_numbers(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    K, V, S = _pairs(supply, N, d_k, d_v)
    return Numbers({"K": K, "V": V, "S": S, "P": _projector(K), "d_k": d_k})


def _captured_free(*, missed: int = 1) -> Sides:
    """Both sides before the trace, for matrices of any size; G is K'K."""
    import sympy

    K, K_T, G, V, V_T, S, S_T = sympy.symbols("K K^T G V V^T S S^T", commutative=False)
    P = K * G**-1 * K_T
    state = V_T * V - (V_T - S_T * K_T) * (V - K * S)
    span = V_T * P * P * V - missed * (V_T * P - S_T * K_T) * (P * V - K * S)
    left, right = (sympy.expand(x).subs(K_T * K, G) for x in (state, span))
    return left, right


@identity(
    title="A state captures of its values what lies in the span of its keys, at most",
    statement=r"\lVert V \rVert^2 - \lVert V - K S \rVert^2"
    r" = \lVert P V \rVert^2 - \lVert P V - K S \rVert^2,"
    r" \quad P = K (K^\top K)^{-1} K^\top, \quad \operatorname{tr}(P) = d_k",
    source="ours; Pythagoras",
    citations=("schlag2021",),
    equations=("eq-captured",),
    printed={"eq-captured": AsPrinted(numbers=_captured_numbers, worlds=EXACT)},
    free=_captured_free,
    chapter=CHAPTER,
    worlds=EXACT,
    mutants={
        "keys that are not projected on": {"inverted": False},
        "the state's own miss is not taken off": {"missed": 0},
        "one direction more": {"more": 1},
    },
)
def captured(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    inverted: bool = True,
    missed: int = 1,
    more: int = 0,
) -> dict[str, Sides]:
    """For any state, however it was come by; and the delta rule's, written to its end.

    So what is captured is at most the square of P V: values without a rule have as much
    in every direction, and P has d_k of them.
    """
    K, V, S = _pairs(supply, N, d_k, d_v)
    P = _projector(K) if inverted else K @ K.T
    beta = supply.rate("beta", len(K))
    _, written = delta_rule.recurrent(K, K, V, beta=beta)
    one = supply.positive("one", 1)[0] ** 0
    sides = {
        name: (
            _square(V) - _square(V - K @ W),
            _square(P @ V) - missed * _square(P @ V - K @ W),
        )
        for name, W in (("any state", S), ("delta rule", written))
    }
    return sides | {"directions": (np.trace(P), (d_k + more) * one)}


def _window_pairs(
    supply: Supply, N: int, d_k: int, d_v: int
) -> tuple[np.ndarray, np.ndarray]:
    """Fewer keys than channels, and the rule [N + d_k, d_v] that gave their values."""
    return supply.real("K", N, N + d_k), supply.real("W", N + d_k, d_v)


def _rule_numbers(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    K, W = _window_pairs(supply, N, d_k, d_v)
    R = _projector(K.T)
    letters = {"K": K, "V": K @ W, r"W^\star": W, "R": R, "w": N, "d_k": N + d_k}
    letters[r"\hat{W}"] = R @ W
    return Numbers(letters)


@identity(
    title="Of a rule a window knows the part along its own keys",
    statement=r"W^\star - K^\top (K K^\top)^{-1} V = (I - R) W^\star, \quad"
    r" V = K W^\star, \quad R = K^\top (K K^\top)^{-1} K, \quad"
    r" \operatorname{tr}(I - R) = d_k - w",
    source="ours; the least squares of least length",
    equations=("eq-window-rule",),
    printed={"eq-window-rule": AsPrinted(numbers=_rule_numbers, worlds=EXACT)},
    chapter=CHAPTER,
    worlds=EXACT,
    mutants={
        "values are added up, not fitted": {"fitted": False},
        "the part that is known": {"known": True},
        "one pair more": {"more": 1},
    },
)
def window_rule(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    fitted: bool = True,
    known: bool = False,
    more: int = 0,
) -> dict[str, Sides]:
    """And nothing else: another rule that differs off the keys gives the same pairs."""
    K, W = _window_pairs(supply, N, d_k, d_v)
    R, off = _projector(K.T), np.eye(K.shape[1], dtype=int)
    off = R if known else off - R
    other = W + off @ supply.real("X", *W.shape)
    found = (
        K.T @ (inverse(K @ K.T) if fitted else 1) @ (K @ W) if fitted else K.T @ K @ W
    )
    one = supply.positive("one", 1)[0] ** 0
    return {
        "missed": (W - found, off @ W),
        "the same pairs": (K @ other, K @ W),
        "directions": (np.trace(off), (d_k - more) * one),
    }


def _exact_pairs(supply: Supply, N: int, d_k: int, d_v: int) -> dict[str, Any]:
    """A query, N pairs that are kept, a state, and the weight of its answer."""
    return {
        "q": supply.real("q", d_k),
        "k": supply.real("k", N, d_k),
        "v": supply.real("v", N, d_v),
        "S": supply.real("S", d_k, d_v),
        "c": supply.positive("c", 1)[0],
    }


def _together(x: dict[str, Any]) -> dict[str, Any]:
    """The window's weights and mean, the state's share, and the one mean of both.

    The last is the package's, which takes in its scores block by block.
    """
    weights = exp(x["k"] @ x["q"])
    c, said = x["c"], (x["q"] @ x["S"])[None]
    start = RunningMean(np.array([0 * c]), np.array([c]), c * said)
    scores = (x["k"] @ x["q"])[None]
    return {
        "a": weights / weights.sum(),
        "y": weights @ x["v"] / weights.sum(),
        "g": c / (c + weights.sum()),
        "o": start.absorb(scores, x["v"]).read()[0],
    }


def _gate_numbers(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    x = _exact_pairs(supply, N, d_k, d_v)
    index = {name: range(1, N + 1) for name in "ij"}
    return Numbers(x | _together(x) | {"n": N}, index)


GATE = AsPrinted(
    numbers=_gate_numbers,
    worlds=("symbols", "floats"),
    at={"symbols": {"N": 2, "d_k": 2, "d_v": 2}},
)


@identity(
    title="One normaliser for exact pairs and a state is a gate that sets itself",
    statement=r"\frac{\sum_{j} \exp(q^\top k_j) v_j + c S^\top q}"
    r"{\sum_{j} \exp(q^\top k_j) + c} = (1 - g) y + g S^\top q",
    source="ours; the form of mcdermott2025lola, whose weight c grows",
    citations=("mcdermott2025lola",),
    equations=("def-one-mean", "eq-own-gate"),
    printed={"def-one-mean": GATE, "eq-own-gate": GATE},
    chapter=CHAPTER,
    worlds=("symbols", "floats"),
    at={"symbols": {"N": 2, "d_k": 2, "d_v": 2}},
    mutants={
        "each part has a normaliser of its own": {"apart": True},
        "the gate is the window's": {"turned": True},
        "the state counts twice": {"times": 2},
    },
)
def own_gate(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    apart: bool = False,
    turned: bool = False,
    times: int = 1,
) -> Sides:
    """The package's streaming mean, begun with the state's answer, against the gate."""
    x = _exact_pairs(supply, N, d_k, d_v)
    found = _together(x)
    weights = exp(x["k"] @ x["q"])
    said, c = x["q"] @ x["S"], times * x["c"]
    g = c / (c + weights.sum())
    y = found["y"]
    if apart:
        return found["o"], y + said
    g = 1 - g if turned else g
    return found["o"], (1 - g) * y + g * said


def _correction_numbers(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    x = _exact_pairs(supply, N, d_k, d_v)
    letters = x | _together(x) | {"n": N, r"\tilde{o}": _corrected(x)}
    return Numbers(letters, {"j": range(1, N + 1)})


def _corrected(x: dict[str, Any], *, gated: bool = True, at_key: bool = True) -> Any:
    """What the state says, and what the window adds of its errors at the keys."""
    found = _together(x)
    said, kept = x["q"] @ x["S"], x["k"] @ x["S"]
    wrong = x["v"] - (kept if at_key else said)
    return said + ((1 - found["g"]) if gated else 1) * (found["a"] @ wrong)


@identity(
    title="Pairs beside a state, or corrections to it: they differ where keys miss",
    statement=r"\tilde{o} = S^\top q + (1 - g) \sum_{j} a_j (v_j - S^\top k_j)"
    r" = o + (1 - g) S^\top \left(q - \sum_{j} a_j k_j\right)",
    source="ours",
    equations=("eq-corrections",),
    printed={
        "eq-corrections": AsPrinted(
            numbers=_correction_numbers,
            worlds=("symbols", "floats"),
            at={"symbols": {"N": 2, "d_k": 2, "d_v": 2}},
        )
    },
    chapter=CHAPTER,
    worlds=("symbols", "floats"),
    at={"symbols": {"N": 2, "d_k": 2, "d_v": 2}},
    mutants={
        "the two are one": {"gap": 0},
        "corrections count in full": {"gated": False},
        "the query's own answer is what is corrected": {"at_key": False},
    },
)
def corrections(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    gap: int = 1,
    gated: bool = True,
    at_key: bool = True,
) -> Sides:
    """The state answers, and the window adds what the state gets wrong at its keys."""
    x = _exact_pairs(supply, N, d_k, d_v)
    found = _together(x)
    a, g, o = (found[name] for name in "ago")
    missed = (1 - g) * ((x["q"] - a @ x["k"]) @ x["S"])
    return _corrected(x, gated=gated, at_key=at_key), o + gap * missed


def _log_linear(
    supply: Supply, T: int, d_k: int, d_v: int
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Tokens that do not fade, what the mechanism answers to the last, its levels."""
    q, k, v = (supply.real(n, T, d) for n, d in (("q", d_k), ("k", d_k), ("v", d_v)))
    x = {"q": q, "k": k, "v": v, "levels": supply.positive("l", T, T + 1)}
    log_decay = log(supply.positive("one", T) ** 0)
    o, S = log_linear_attention.recurrent(**x, log_decay=log_decay)
    return x, o, S.S


def _log_linear_numbers(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x, o, S = _log_linear(supply, T, d_k, d_v)
    letters = {"q": x["q"], "o": o, "S": Rows(S, first=0), "L": len(S) - 1}
    letters[r"\lambda"] = Rows(x["levels"][-1], first=0)
    return Numbers(letters, {"t": range(T, T + 1)})


def _level_numbers(supply: Supply, N: int) -> Numbers:
    counts = _level_counts(N) * supply.positive("one", 1)[0] ** 0
    return Numbers({"n": counts[1:], "L": N}, {r"\ell": range(1, N + 1)})


def _level_counts(L: int) -> np.ndarray:
    """Tokens in each level 0 to L, seen from token 2^L - 1, the first being 0."""
    t = 2**L - 1
    return np.bincount(buckets.level(t, np.arange(t + 1)), minlength=L + 1)


@identity(
    title="L levels above the token itself hold two to the L tokens",
    statement=r"n_\ell = 2^{\ell - 1}, \qquad 1 + \sum_{\ell=1}^{L} n_\ell = 2^L",
    source="guo2025loglinear, as released code counts the levels",
    citations=("guo2025loglinear",),
    equations=("def-log-linear", "eq-levels"),
    printed={
        "def-log-linear": AsPrinted(numbers=_log_linear_numbers, worlds=EXACT),
        "eq-levels": AsPrinted(numbers=_level_numbers, worlds=EXACT),
    },
    chapter=CHAPTER,
    worlds=EXACT,
    at={"floats": {"N": 9, "T": 21}},
    mutants={
        "levels as long as the level below and all before": {"first": 0},
        "one token less": {"short": 1},
        "levels of one length": {"base": 1},
    },
)
def levels(
    supply: Supply,
    N: int,
    T: int,
    d_k: int,
    d_v: int,
    *,
    first: int = 1,
    short: int = 0,
    base: int = 2,
) -> dict[str, Sides]:
    """Counted from `buckets.level`; the bytes of as many states; what is in them."""
    x, _, S = _log_linear(supply, T, d_k, d_v)
    of = buckets.level(T - 1, np.arange(T))
    summed = [x["k"][of == i].T @ x["v"][of == i] for i in range(len(S))]
    counts = _level_counts(N)
    expected = np.append(1, base ** (np.arange(1, N + 1) - first))
    one = supply.positive("one", 1)[0] ** 0
    kept = cost.levels_bytes(2**N - short, 1, 1) // cost.state_bytes(1, 1)
    return {
        "tokens": (counts * one, expected * one),
        "all": (counts.sum() * one, (2**N - short) * one),
        "states": (kept * one, (N + 1) * one),
        "sums": (S, np.array(summed)),
    }


def _measured(supply: Supply, T: int, C: int, d_k: int, d_v: int) -> dict[str, int]:
    """What the references keep: three heads of a window's pairs, and two states."""
    k, v = (np.ones((T, d), dtype="float32") for d in (d_k, d_v))
    _, cache = sliding_window_attention.recurrent(k, k, v, window=C)
    wide = k.astype("float64"), v.astype("float64")
    _, S = delta_rule.recurrent(wide[0], *wide, beta=np.full(T, 0.5))
    return {
        "cache": 3 * sum(x.nbytes for x in cache),
        "state": 2 * S.nbytes,
        "b_c": 4,
        "b_s": 8,
        "h_c": 3,
        "h_s": 2,
    }


def _budget_numbers(supply: Supply, T: int, C: int, d_k: int, d_v: int) -> Numbers:
    x = _measured(supply, T, C, d_k, d_v)
    letters = {name: x[name] for name in ("b_c", "b_s", "h_c", "h_s")}
    # as many layers of each kind as a pattern of three to one has in twelve
    letters |= {"L_c": 3, "L_s": 9, "T": T, "w": C, "d_k": d_k, "d_v": d_v}
    return Numbers(letters | {"B": 3 * x["cache"] + 9 * x["state"]})


@identity(
    title="A stack's bytes: caches up to the window's end, and states",
    statement=r"B = L_c b_c h_c (d_k + d_v) \min(T, w) + L_s b_s h_s d_k d_v",
    source="ours; measured",
    equations=("eq-budget",),
    printed={
        "eq-budget": AsPrinted(
            numbers=_budget_numbers,
            worlds=EXACT,
            at={"floats": {"T": 7, "C": 5, "d_k": 4, "d_v": 3}},
            equivalent=dict.fromkeys(
                ("T → B (line 1, column 34)", "T → w (line 1, column 34)"),
                "a window that is full does not see how many came before it",
            ),
        )
    },
    chapter=CHAPTER,
    worlds=EXACT,
    at={"floats": {"T": 17, "C": 5, "d_k": 6, "d_v": 5}},
    mutants={
        "a window that never fills": {"window": 0},
        "states in the cache's precision": {"dtype": "float32"},
        "every layer keeps a cache": {"caches": 12},
    },
)
def budget(
    supply: Supply,
    T: int,
    C: int,
    d_k: int,
    d_v: int,
    *,
    window: int = 1,
    dtype: str = "float64",
    caches: int = 3,
) -> Sides:
    """`nbytes` of the references, against the package's formulas in a pattern."""
    x = _measured(supply, T, C, d_k, d_v)
    one = supply.positive("one", 1)[0] ** 0
    ends = C if window else T + C
    cache = cost.window_bytes(T, d_k, d_v, window=ends, heads=3)
    state = cost.state_bytes(d_k, d_v, heads=2, dtype=dtype)
    pattern = [lambda T: state] * 3 + [lambda T: cache]
    kept = cost.stack_bytes(T, pattern, 12) + (caches - 3) * cache
    return (3 * x["cache"] + 9 * x["state"]) * one, kept * one


def _even_numbers(supply: Supply, d_k: int, d_v: int) -> Numbers:
    letters = {"b_c": 2, "b_s": 4, "h_c": 3, "h_s": 5, "d_k": d_k, "d_v": d_v}
    return Numbers(letters | {r"T^\star": _even(supply, d_k, d_v)})


def _even(supply: Supply, d_k: int, d_v: int) -> Any:
    """Where a cache of two bytes and three heads meets five states of four bytes."""
    one = supply.positive("one", 1)[0] ** 0
    state = cost.state_bytes(d_k, d_v, heads=5)
    return one * state / cost.cache_bytes(1, d_k, d_v, heads=3, dtype="bfloat16")


@identity(
    title="The context at which a layer's cache has grown as large as its state",
    statement=r"T^\star = \frac{b_s h_s d_k d_v}{b_c h_c (d_k + d_v)}",
    source="ours",
    equations=("eq-break-even",),
    printed={"eq-break-even": AsPrinted(numbers=_even_numbers, worlds=EXACT)},
    chapter=CHAPTER,
    worlds=EXACT,
    mutants={
        "one precision for both": {"state": 2},
        "keys alone are cached": {"values": 0},
        "as many heads of each": {"heads": 3},
    },
)
def break_even(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    state: int = 4,
    values: int = 1,
    heads: int = 5,
) -> Sides:
    """`cost.equal_bytes` of one head, times the two ratios."""
    one = supply.positive("one", 1)[0] ** 0
    even = one * state * heads * d_k * d_v
    return _even(supply, d_k, d_v), even / (2 * 3 * (d_k + values * d_v))
