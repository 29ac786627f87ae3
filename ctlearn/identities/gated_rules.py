"""Gated delta rules: what one token does, in which order, and what a reset takes."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ctlearn.identities.delta_rule import token
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.histories import rated, states
from ctlearn.identities.tokens import at_right_angle
from ctlearn.mixers import (
    comba,
    delta_rule,
    gated_delta_rule,
    gated_delta_rule_2,
    kimi_delta_attention,
    rwkv7,
)
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import exp, log, minus_infinity
from ctlearn.supplies import Supply

CHAPTER = "09_gated_delta_rules"
GATED = ("yang2025gated",)
Array = np.ndarray


def _gated(supply: Supply, d_k: int, d_v: int) -> tuple[Any, ...]:
    """A key, a value, a rate, a decay and a state, none of them zero."""
    k, v, beta, S = token(supply, d_k, d_v)
    return k, v, beta, supply.rate("alpha", 1)[0], S


def _sequence(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Tokens of the gated delta rule, its states from any first one, its outputs."""
    x = rated(supply, T, d_k, d_v) | {"log_decay": supply.log_decay("a", T)}
    S = supply.real("S", d_k, d_v)
    ends, alpha = states(gated_delta_rule.recurrent, S, **x), exp(x["log_decay"])
    o, _ = gated_delta_rule.recurrent(**x, S=S)
    faded = alpha[:, None, None] * ends[:-1]
    letters = {name: x[name] for name in "qkv"} | {"o": o, r"\bar{S}": faded}
    letters |= {r"\alpha": alpha, r"\beta": x["beta"], "S": Rows(ends, first=0)}
    return Numbers(letters, {"t": range(1, T + 1)})


def _read_first(k: Array, v: Array, **given: Any) -> Array:
    """The state after a token that is compared before the memory fades."""
    return comba.step(k, k, v, p=k, correction=0, **given)[1]


def _two_orders(supply: Supply, d_k: int, d_v: int) -> Numbers:
    """One token from any state: after the gated delta rule, and after reading first."""
    k, v, beta, alpha, S = _gated(supply, d_k, d_v)
    given = {"log_decay": log(alpha), "beta": beta, "S": S}
    first = gated_delta_rule.step(k, k, v, **given)[1]
    second = _read_first(k, v, **given)
    u = at_right_angle(supply.real("u", d_k), k)
    letters = {"k": k, "v": v, r"\beta": beta, r"\alpha": alpha, "u": u}
    return Numbers(letters | {"S": Rows(np.array([S, first]), first=0), "R_1": second})


ONE = AsPrinted(numbers=_two_orders)


def _map_free(*, erase: int = 1, fades: int = 0, read_first: bool = False) -> Sides:
    import sympy

    k, kt, vt, S = sympy.symbols("k k^T v^T S", commutative=False)
    alpha, beta = sympy.symbols("alpha beta")
    faded = alpha * S
    seen = S if read_first else faded
    left = faded + beta * k * (vt - kt * seen)
    write = alpha**fades * beta * k * vt
    return left, alpha * (1 - erase * beta * k * kt) * S + write


@identity(
    title="Fade, compare, write: the same as a map of the state",
    statement=r"S_t = \alpha_t (I - \beta_t k_t k_t^\top) S_{t-1}"
    r" + \beta_t k_t v_t^\top",
    source="yang2025gated, the gated delta rule",
    citations=GATED,
    equations=("def-gated-delta-rule", "eq-gated-map"),
    printed={
        STATEMENT: AsPrinted(numbers=_sequence),
        "def-gated-delta-rule": AsPrinted(numbers=_sequence),
        "eq-gated-map": AsPrinted(numbers=_sequence),
    },
    chapter=CHAPTER,
    mutants={
        "the error is taken before fading": {"read_first": True},
        "what is written fades, too": {"fades": 1},
        "twice too much is erased": {"erase": 2},
        "nothing is erased": {"erase": 0},
    },
    free=_map_free,
)
def one_token(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    erase: int = 1,
    fades: int = 0,
    read_first: bool = False,
) -> Sides:
    """The reference from any state, against the transition and the write."""
    k, v, beta, alpha, S = _gated(supply, d_k, d_v)
    given = {"log_decay": log(alpha), "beta": beta, "S": S}
    if read_first:
        after = _read_first(k, v, **given)
    else:
        _, after = gated_delta_rule.step(k, k, v, **given)
    kept = alpha * (S - erase * beta * np.outer(k, k @ S))
    return after, kept + alpha**fades * beta * np.outer(k, v)


@identity(
    title="At the key the old answer fades and is erased; across it, it only fades",
    statement=r"S_1^\top k = \alpha (1 - \beta k^\top k) S_0^\top k"
    r" + \beta k^\top k v, \qquad k^\top u = 0, \qquad S_1^\top u = \alpha S_0^\top u",
    source="ours; elementary",
    citations=GATED,
    equations=("eq-two-erasers",),
    printed=dict.fromkeys((STATEMENT, "eq-two-erasers"), ONE),
    chapter=CHAPTER,
    mutants={
        "at the key nothing fades": {"fades": 0},
        "the key's length does not matter": {"length": 0},
        "across the key nothing fades": {"across": 0},
        "the new value fades": {"new": 1},
    },
)
def two_erasers(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    fades: int = 1,
    length: int = 1,
    across: int = 1,
    new: int = 0,
) -> dict[str, Sides]:
    """The reference, asked at its key and at a right angle to it."""
    k, v, beta, alpha, S = _gated(supply, d_k, d_v)
    u = at_right_angle(supply.real("u", d_k), k)
    o, after = gated_delta_rule.step(k, k, v, log_decay=log(alpha), beta=beta, S=S)
    share = beta * (k @ k) ** length
    told = alpha**fades * (1 - share) * (S.T @ k) + alpha**new * share * v
    return {"at": (o, told), "across": (after.T @ u, alpha**across * (S.T @ u))}


def _orthonormal(supply: Supply, d: int) -> Array:
    """Unit vectors [d, d] at right angles: the axes, mirrored at a random plane."""
    w = supply.unit("w", 1, d)[0]
    return np.eye(d, dtype=int) * w[0] ** 0 - 2 * np.outer(w, w)


def _directions(supply: Supply, N: int, d_k: int) -> Numbers:
    """The first N of d_k keys at right angles, each erased in full."""
    k = _orthonormal(supply, d_k)[:N]
    return Numbers({"k": k, r"\beta": k[:, 0] ** 0, "N": N, "d_k": d_k})


FEW = {"rationals": {"N": 2, "d_k": 5}, "floats": {"N": 3, "d_k": 7}}
AT_RIGHT_ANGLES = AsPrinted(numbers=_directions, worlds=("rationals", "floats"), at=FEW)


def _emptied(k: Array, S: Array, beta: Any) -> Array:
    """What tokens of value zero leave of a state by the delta rule."""
    nothing = np.zeros((len(k), S.shape[1]), dtype=S.dtype)
    return delta_rule.recurrent(k, k, nothing, beta=beta, S=S)[1]


def _one_direction_more(*, halves: int = 2) -> Sides:
    """Q is the sum so far; the new key is at a right angle to all of it, k'Q = 0."""
    import sympy

    Q, k, kt = sympy.symbols("Q k k^T", commutative=False)
    left = sympy.expand((1 - sympy.Rational(halves, 2) * k * kt) * (1 - Q))
    return left.subs(kt * Q, 0), 1 - (Q + k * kt)


@identity(
    title="The delta rule clears its memory by one write for each direction",
    statement=r"\prod_{i=1}^{N} (I - k_i k_i^\top) ="
    r" I - \sum_{i=1}^{N} k_i k_i^\top",
    source="ours; elementary",
    citations=("yang2024deltanet",),
    equations=("eq-cleared",),
    printed=dict.fromkeys((STATEMENT, "eq-cleared"), AT_RIGHT_ANGLES),
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "one direction is left out": {"missing": 1},
        "half of each is left": {"halves": 1},
        "keys of length two": {"longer": 2},
    },
    free=_one_direction_more,
)
def cleared(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    missing: int = 0,
    halves: int = 2,
    longer: int = 1,
) -> dict[str, Sides]:
    """Any state, by as many zeros as the key has entries; and by one decay of zero."""
    k, S = longer * _orthonormal(supply, d_k), supply.real("S", d_k, d_v)
    k, one = k[missing:], S[0, 0] ** 0
    beta = np.full(len(k), halves * one / 2)
    given = {"log_decay": minus_infinity(S), "beta": 0 * one, "S": S}
    _, reset = gated_delta_rule.step(k[0], k[0], 0 * S[0], **given)
    return {"writes": (_emptied(k, S, beta), 0 * S), "decay": (reset, 0 * S)}


def _rank(M: Array) -> Any:
    import sympy

    exact = M.dtype == object
    return np.asarray(sympy.Matrix(M).rank() if exact else np.linalg.matrix_rank(M))


@identity(
    title="Fewer writes than directions leave something of a full memory",
    kind="bound",
    statement=r"\operatorname{rank}\left(\prod_{i=1}^{N}"
    r" (I - \beta_i k_i k_i^\top)\right) \ge d_k - N",
    source="ours; Sylvester's inequality",
    citations=("yang2024deltanet",),
    equations=("eq-writes-needed",),
    printed=dict.fromkeys((STATEMENT, "eq-writes-needed"), AT_RIGHT_ANGLES),
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "each write takes two directions": {"each": 2},
        "one direction more is left": {"more": 1},
        "a decay of zero on the way": {"kept": 0},
    },
    at=FEW,
)
def writes_needed(
    supply: Supply, N: int, d_k: int, *, each: int = 1, more: int = 0, kept: int = 1
) -> dict[str, Sides]:
    """From the unit matrix, at any unit keys and at keys at right angles."""
    tight = _orthonormal(supply, d_k)[: each * N]
    parts = {}
    for name, k in (("any", supply.unit("k", N, d_k)), ("right angles", tight)):
        unit = np.eye(d_k, dtype=int) * k[0, 0] ** 0
        left = kept * _emptied(k, unit, k[:, 0] ** 0)
        parts[name] = np.asarray(unit[0, 0] * (d_k - N + more)), _rank(left)
    return parts


def _gap_free(*, rate: int = 1, rest: str = "1-a") -> Sides:
    import sympy

    k, kt, vt, S = sympy.symbols("k k^T v^T S", commutative=False)
    alpha, beta = sympy.symbols("alpha beta")
    read_first = alpha * S + beta * k * (vt - kt * S)
    decay_first = alpha * S + beta * k * (vt - alpha * kt * S)
    more = {"1-a": 1 - alpha, "a": alpha, "1": 1}[rest]
    return read_first - decay_first, -(beta**rate) * more * k * kt * S


@identity(
    title="Reading first erases what fading would have taken anyway, once more",
    statement=r"R_1 - S_1 = -\beta (1 - \alpha) k (S_0^\top k)^\top, \qquad"
    r" R_1^\top k = (\alpha - \beta k^\top k) S_0^\top k + \beta k^\top k v",
    source="ours; elementary",
    citations=("yang2025gated", "hu2025comba"),
    equations=("eq-order-gap", "eq-read-first-answer"),
    printed=dict.fromkeys((STATEMENT, "eq-order-gap", "eq-read-first-answer"), ONE),
    chapter=CHAPTER,
    mutants={
        "the rate is squared": {"rate": 2},
        "what is kept in the place of what is lost": {"rest": "a"},
        "no decay": {"rest": "1"},
    },
    free=_gap_free,
)
def order_gap(
    supply: Supply, d_k: int, d_v: int, *, rate: int = 1, rest: str = "1-a"
) -> dict[str, Sides]:
    """Comba with p = k and no correction, against the gated delta rule."""
    x = _two_orders(supply, d_k, d_v).letters
    k, v, alpha, beta = (x[name] for name in ("k", "v", r"\alpha", r"\beta"))
    S, first = x["S"].array
    more = {"1-a": 1 - alpha, "a": alpha, "1": alpha**0}[rest]
    square = k @ k
    after = (alpha - beta * square) * (S.T @ k) + beta * square * v
    return {
        "states": (x["R_1"] - first, -(beta**rate) * more * np.outer(k, S.T @ k)),
        "answer": (x["R_1"].T @ k, after),
    }


def _cut(supply: Supply, d_k: int, d_v: int) -> Numbers:
    """The same with a decay of zero: after both orders."""
    k, v, beta, S = token(supply, d_k, d_v)
    given = {"log_decay": minus_infinity(S), "beta": beta, "S": S}
    first = gated_delta_rule.step(k, k, v, **given)[1]
    second = _read_first(k, v, **given)
    letters = {"k": k, "v": v, r"\beta": beta, "S": Rows(np.array([S, first]), first=0)}
    return Numbers(letters | {"R_1": second})


@identity(
    title="A decay of zero clears a memory that fades first, not one that reads first",
    kind="limit",
    statement=r"S_1 = \beta k v^\top, \qquad"
    r" R_1 = \beta k v^\top - \beta k (S_0^\top k)^\top",
    source="ours",
    citations=("yang2025gated", "hu2025comba"),
    equations=("eq-cut",),
    printed=dict.fromkeys((STATEMENT, "eq-cut"), AsPrinted(numbers=_cut)),
    chapter=CHAPTER,
    mutants={
        "reading first clears, too": {"left": 0},
        "fading first keeps something": {"kept": 1},
        "the first pair is not written": {"write": 0},
    },
)
def cut(
    supply: Supply, d_k: int, d_v: int, *, left: int = 1, kept: int = 0, write: int = 1
) -> dict[str, Sides]:
    """One token at which log alpha is minus infinity."""
    x = _cut(supply, d_k, d_v).letters
    k, v, beta, (S, first) = x["k"], x["v"], x[r"\beta"], x["S"].array
    written, old = write * beta * np.outer(k, v), beta * np.outer(k, S.T @ k)
    return {
        "fading first": (first, written - kept * old),
        "reading first": (x["R_1"], written - left * old),
    }


def _family(supply: Supply, d_k: int, d_v: int) -> Numbers:
    """One token of each of the relatives, with all their letters, from any state."""
    k, v, beta, S = token(supply, d_k, d_v)
    alpha, b, w = supply.rate("a", d_k), supply.rate("c", d_k), supply.rate("w", d_v)
    kappa, rate = supply.real("x", d_k), supply.rate("r", d_k)
    p, q, share = supply.real("p", d_k), supply.real("q", d_k), supply.rate("y", 1)[0]
    decay = {"log_decay": log(alpha), "S": S}
    flat = {"log_decay": log(alpha[0]), "S": S}
    compared = comba.step(q, k, v, p=p, beta=beta, correction=share, **flat)
    ends = {
        "S_1": kimi_delta_attention.step(k, k, v, beta=beta, **decay)[1],
        "S_2": gated_delta_rule_2.step(k, k, v, b=b, w=w, **decay)[1],
        "S_3": compared[1],
        "o": compared[0],
        "S_4": rwkv7.step(k, k, v, kappa=kappa, a=rate, **decay)[1],
    }
    letters = {"k": k, "v": v, r"\beta": beta, r"\alpha": alpha, "b": b, "w": w}
    letters |= {"p": p, "q": q, r"\delta": share, "a": rate, r"\hat{\kappa}": kappa}
    return Numbers(letters | ends | {"S": S, "e": b, r"\alpha_1": alpha[0]})


RELATIVES = AsPrinted(numbers=_family)


def _relative(
    name: str, title: str, equations: tuple[str, ...], statement: str, cited: str
) -> Callable:
    """What all definitions of relatives have in common."""
    return identity(
        name=f"gated-rules-{name}",
        title=title,
        statement=statement,
        source=f"{cited}, its update",
        citations=(cited,),
        equations=equations,
        printed=dict.fromkeys((STATEMENT, *equations), RELATIVES),
        chapter=CHAPTER,
        mutants={
            "nothing is erased": {"erase": 0},
            "nothing fades": {"fade": 0},
            "the other order": {"turned": True},
        },
    )


def _by_hand(
    x: Mapping[str, Any], erased: Array, read: Array, write: Array, first: bool
) -> Callable[..., Array]:
    """S after fading by alpha, erasing what is read at a row, and writing."""

    def update(alpha: Any, *, erase: int, fade: int, turned: bool) -> Array:
        kept = (alpha**fade + 0 * x["k"])[:, None] * x["S"]
        seen = kept if first != turned else x["S"]
        return kept - erase * np.outer(erased, seen.T @ read) + write

    return update


@_relative(
    "kimi",
    "Kimi delta attention fades each key channel by a rate of its own",
    ("def-kimi",),
    r"S_1 = (I - \beta k k^\top) \, \mathrm{Diag}(\alpha) S + \beta k v^\top",
    "kimi2025",
)
def kimi(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    erase: int = 1,
    fade: int = 1,
    turned: bool = False,
) -> Sides:
    """The reference, by hand."""
    x = _family(supply, d_k, d_v).letters
    k, beta = x["k"], x[r"\beta"]
    told = _by_hand(x, beta * k, k, beta * np.outer(k, x["v"]), True)
    change = {"erase": erase, "fade": fade, "turned": turned}
    return x["S_1"], told(x[r"\alpha"], **change)


@_relative(
    "second",
    "Gated delta rule 2 erases by key channel and writes by value channel",
    ("def-second-rule",),
    r"S_2 = (I - k (b \odot k)^\top) \, \mathrm{Diag}(\alpha) S + k (w \odot v)^\top",
    "hatamizadeh2026",
)
def second(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    erase: int = 1,
    fade: int = 1,
    turned: bool = False,
) -> Sides:
    """The reference, by hand."""
    x = _family(supply, d_k, d_v).letters
    k, write = x["k"], np.outer(x["k"], x["w"] * x["v"])
    told = _by_hand(x, k, x["b"] * k, write, True)
    change = {"erase": erase, "fade": fade, "turned": turned}
    return x["S_2"], told(x[r"\alpha"], **change)


@_relative(
    "comba",
    "Comba reads first, at a place of its own, and corrects the question",
    ("def-comba",),
    r"S_3 = \alpha_1 S + \beta k (v - S^\top p)^\top, \qquad"
    r" o = S_3^\top (q - \delta p)",
    "hu2025comba",
)
def compared(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    erase: int = 1,
    fade: int = 1,
    turned: bool = False,
) -> dict[str, Sides]:
    """The reference, by hand; one decay for all channels."""
    x = _family(supply, d_k, d_v).letters
    k, beta, p = x["k"], x[r"\beta"], x["p"]
    told = _by_hand(x, beta * k, p, beta * np.outer(k, x["v"]), False)
    after = told(x[r"\alpha_1"], erase=erase, fade=fade, turned=turned)
    return {
        "state": (x["S_3"], after),
        "read": (x["o"], after.T @ (x["q"] - x[r"\delta"] * p)),
    }


@_relative(
    "rwkv7",
    "RWKV-7 reads first, erases at one key and writes at another",
    ("def-rwkv7",),
    r"S_4 = \left(\mathrm{Diag}(\alpha) - (a \odot \hat\kappa) \hat\kappa^\top\right) S"
    r" + k v^\top",
    "peng2025goose",
)
def removal(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    erase: int = 1,
    fade: int = 1,
    turned: bool = False,
) -> Sides:
    """The reference, by hand."""
    x = _family(supply, d_k, d_v).letters
    kappa, write = x[r"\hat{\kappa}"], np.outer(x["k"], x["v"])
    told = _by_hand(x, x["a"] * kappa, kappa, write, False)
    change = {"erase": erase, "fade": fade, "turned": turned}
    return x["S_4"], told(x[r"\alpha"], **change)


def _bridge_free(*, side: int = 1, sign: int = -1) -> Sides:
    """A stands for Diag(alpha), its own transpose."""
    import sympy

    A, k, et = sympy.symbols("A k e^T", commutative=False)
    erased = k * et * A if side else A * k * et
    return (1 - k * et) * A, A + sign * erased


@identity(
    title="With a rate a channel, reading first is erasing along another row",
    statement=r"(I - k e^\top) \, \mathrm{Diag}(\alpha) ="
    r" \mathrm{Diag}(\alpha) - k (\alpha \odot e)^\top",
    source="ours; elementary",
    citations=("kimi2025",),
    equations=("eq-channel-bridge",),
    printed=dict.fromkeys((STATEMENT, "eq-channel-bridge"), RELATIVES),
    chapter=CHAPTER,
    mutants={
        "the decay on the side of the key": {"side": 0},
        "what is erased is added": {"sign": 1},
        "the row stays as it is": {"power": 0},
    },
    free=_bridge_free,
)
def channel_bridge(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    side: int = 1,
    sign: int = -1,
    power: int = 1,
) -> Sides:
    """Gated delta rule 2 erases along b * k: its order turned, on any state."""
    k, v, _, S = token(supply, d_k, d_v)
    alpha, b = supply.rate("a", d_k), supply.rate("b", d_k)
    given = {"log_decay": log(alpha), "b": b, "w": v**0, "S": S}
    _, after = gated_delta_rule_2.step(k, k, v, **given)
    key, row = (k, alpha**power * b * k) if side else (alpha * k, b * k)
    return after, alpha[:, None] * S + sign * np.outer(key, S.T @ row) + np.outer(k, v)
