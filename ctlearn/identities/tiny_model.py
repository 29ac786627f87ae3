"""The state as a model of the context: what one step teaches it about pairs to come.

A pair's key has length one and favours no direction. What is used of that is the mean
of k k', which is I / d_k; so keys are drawn here from the rows of an orthogonal matrix,
whose mean it is, and noise from a vector and its negative.
"""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from ctlearn.identities.engine import Sides, identity
from ctlearn.identities.slopes import slopes, squared
from ctlearn.identities.tokens import flat, states, tokens
from ctlearn.mixers import linear_attention
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Supply

CHAPTER = "06_a_tiny_model"


def half(W: np.ndarray, k: np.ndarray, v: np.ndarray) -> Any:
    """Half the squared error of W at a pair."""
    return squared(W, k, v) / 2


def _printed_slope(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Tokens, any W, and the slope there of the half squared errors so far."""
    _, k, v = tokens(supply, T, d_k, d_v)
    W = supply.real("W", d_k, d_v)
    Gamma = np.cumsum(slopes(half, W, k, v), axis=0)
    letters = {"k": k, "v": v, "W": W, r"\Gamma": Gamma}
    return Numbers(letters, {"t": range(1, T + 1)})


@identity(
    title="The slope of the context's loss is a sum of keys times errors",
    statement=r"\Gamma_t = \sum_{j=1}^{t} k_j (W^\top k_j - v_j)^\top",
    source="ours; elementary",
    equations=("eq-context-slope",),
    printed={"eq-context-slope": AsPrinted(numbers=_printed_slope)},
    chapter=CHAPTER,
    mutants={
        "the loss is not halved": {"times": 2},
        "the errors the other way round": {"sign": -1},
        "what W answers is left out": {"answered": 0},
    },
    at={"floats": {"T": 6, "d_k": 4, "d_v": 3}},
)
def context_slope(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    times: int = 1,
    sign: int = 1,
    answered: int = 1,
) -> Sides:
    """The slope, by differences that are exact for a quadratic, at any W."""
    _, k, v = tokens(supply, T, d_k, d_v)
    W = supply.real("W", d_k, d_v)
    total = times * slopes(half, W, k, v).sum(axis=0)
    return total, k.T @ (sign * (answered * k @ W - v))


def _printed_step(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Linear attention, and the slope at zero of the half squared errors so far."""
    q, k, v = tokens(supply, T, d_k, d_v)
    ends = states(linear_attention.recurrent, T, q, k, v)
    zero = np.zeros((d_k, d_v), dtype=k.dtype)
    Gamma = np.cumsum(slopes(half, zero, k, v), axis=0)
    letters = {"q": q, "k": k, "v": v, "S": ends, r"\Gamma": Gamma}
    letters[r"\eta"] = supply.rate("eta", 1)[0]
    return Numbers(letters, {"t": range(1, T + 1), "j": range(1, T + 1)})


def _free_step(*, times: int = 1, sign: int = 1, start: int = 0) -> Sides:
    """One more token's part of the step, of any size; letters do not commute."""
    import sympy

    S, W, k, k_T, v_T = sympy.symbols("S W k k^T v^T", commutative=False)
    eta = sympy.Symbol("eta")
    slope = times * k * (start * k_T * W - v_T)
    return eta * (S + k * v_T), eta * S - sign * eta * slope


@identity(
    title="One step from zero on half the squared errors is linear attention, scaled",
    statement=r"-\eta \Gamma_t = \eta S_t, \quad"
    r" (-\eta \Gamma_t)^\top q_t = \eta \sum_{j=1}^{t} (k_j^\top q_t) v_j",
    source="sun2024ttt, theorem 1, for half their loss and any step size",
    citations=("sun2024ttt",),
    equations=("eq-one-step-from-zero",),
    printed={"eq-one-step-from-zero": AsPrinted(numbers=_printed_step)},
    chapter=CHAPTER,
    free=_free_step,
    mutants={
        "the loss is not halved": {"times": 2},
        "the loss is climbed": {"sign": -1},
        "the step starts elsewhere": {"start": 1},
    },
)
def one_step(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    times: int = 1,
    sign: int = 1,
    start: int = 0,
) -> dict[str, Sides]:
    """Where the step so far is eta S, for any S, one more pair adds its own slope."""
    q, k, v = tokens(supply, 1, d_k, d_v)
    S, eta = supply.real("S", d_k, d_v), supply.rate("eta", 1)[0]
    W = start * supply.real("W", d_k, d_v)
    o, after = linear_attention.step(q[0], k[0], v[0], S=S)
    new = eta * S - sign * eta * times * slopes(half, W, k, v)[0]
    nothing = linear_attention.recurrent(q[:0], k[:0], v[:0])[1]
    return {
        "base": (eta * nothing, -eta * slopes(half, 0 * S, k[:0], v[:0]).sum(axis=0)),
        "step": (flat(eta * after, eta * o), flat(new, new.T @ q[0])),
    }


def directions(supply: Supply, d: int) -> np.ndarray:
    """Orthonormal rows [d, d]: the axes in a mirror."""
    u = supply.unit("u", 1, d)[0]
    return np.eye(d, dtype=int) - 2 * np.outer(u, u)


def _size(W: np.ndarray) -> Any:
    return (W * W).sum()


def _printed_pairs(supply: Supply, T: int) -> Numbers:
    """All sequences of t keys in the plane and signs of the noise, and their states."""
    w, s = supply.real("w", 2), supply.rate("s", 1)[0]
    # a rule of one value channel, and another channel that holds noise alone
    W = np.stack([w, 0 * w], axis=1)
    # of the length s |W| / sqrt(d_k), without a root
    n = s * np.array([w[0] + w[1], w[0] - w[1]]) / 2
    draws = []
    for keys in itertools.product(directions(supply, 2), repeat=T):
        for signs in itertools.product((1, -1), repeat=T):
            k = np.array(keys)
            v = k @ W + np.multiply.outer(np.array(signs), n)
            draws.append({"S_t": linear_attention.recurrent(k, k, v)[1]})
    m, c = 2 * (1 + s * s) - 1, supply.real("c", 1)[0]
    return Numbers({"W": W, "m": m, "d_k": 2, "t": T, "c": c}, draws=draws)


PAIRS = AsPrinted(
    numbers=_printed_pairs,
    worlds=("rationals", "floats"),
    at={"rationals": {"T": 3}, "floats": {"T": 3}},
)


@identity(
    title="What a sum of pairs holds of their rule, and how large it is, on average",
    statement=r"\mathbb{E} \operatorname{tr}(W^\top S_t) ="
    r" \frac{t}{d_k} \lVert W \rVert^2, \quad"
    r" \mathbb{E} \lVert S_t \rVert^2 = \frac{t (m + t)}{d_k^2} \lVert W \rVert^2,"
    r" \quad m = d_k (1 + s^2) - 1",
    source="ours",
    equations=("eq-rule-moments",),
    printed={
        "eq-rule-moments": replace(
            PAIRS,
            equivalent={
                r"W^\top S_t → S_t W^\top (line 2, column 30)": "a trace is the same "
                "for both orders of its factors"
            },
        )
    },
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "keys of one direction": {"spread": False},
        "noise that does not change its sign": {"signs": (1, 1)},
        "m without its minus one": {"less": 0},
        "the noise counts twice": {"noises": 2},
    },
    at={"rationals": {"d_v": 2}, "floats": {"d_v": 3}},
)
def moments(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    spread: bool = True,
    signs: tuple[int, int] = (1, -1),
    less: int = 1,
    noises: int = 1,
) -> dict[str, Sides]:
    """One more pair, from any state; and that both formulas grow by what it adds."""
    W, S = supply.real("W", d_k, d_v), supply.real("S", d_k, d_v)
    n, rows = supply.real("n", d_v), directions(supply, d_k)
    rows = rows if spread else np.repeat(rows[:1], d_k, axis=0)
    found = [S + np.outer(k, k @ W + sign * n) for k in rows for sign in signs]
    count = 2 * d_k
    mean = sum(np.array([(W * X).sum(), _size(X)]) for X in found) / count
    held, size = (W * S).sum(), _size(W)
    grown = _size(S) + (2 * held + size) / d_k + noises * (n @ n)
    t, s = supply.positive("t", 1)[0], supply.rate("s", 1)[0]

    def formulas(t: Any) -> np.ndarray:
        m = d_k * (1 + s * s) - less
        return np.array([t * size / d_k, t * (m + t) * size / d_k**2])

    # noise of the mean square s^2 |W|^2 / d_k
    held, whole = formulas(t)
    next_whole = whole + (2 * held + size) / d_k + noises * s * s * size / d_k
    return {
        "base": (formulas(0 * t), np.zeros(2, dtype=W.dtype)),
        "step": (mean, np.array([(W * S).sum() + size / d_k, grown])),
        "formulas": (formulas(t + 1), np.array([held + size / d_k, next_whole])),
    }


@identity(
    title="After t pairs and one step of the best size the error is m / (m + t)",
    statement=r"\mathbb{E} \lVert c S_t - W \rVert^2 = \left(\frac{m}{m + t}"
    r" + \frac{t (m + t)}{d_k^2} \left(c - \frac{d_k}{m + t}\right)^2\right)"
    r" \lVert W \rVert^2",
    source="ours",
    equations=("eq-future-error",),
    printed={"eq-future-error": PAIRS},
    chapter=CHAPTER,
    mutants={
        "the best step is d_k / t": {"best_m": 0},
        "the error goes with the root": {"power": 2},
        "the step does not count its excess": {"excess": 0},
    },
)
def future_error(
    supply: Supply, d: int, *, best_m: int = 1, power: int = 1, excess: int = 1
) -> Sides:
    """The two moments put into the square, for any m, t and c, and d_k = d."""
    m, t = supply.positive("m", 1), supply.positive("t", 1)
    c = supply.real("c", 1)
    error = 1 - 2 * c * t / d + c**2 * t * (m + t) / d**2
    best = d / (best_m * m + t)
    least = (m / (m + t)) ** power
    return error, least + excess * t * (m + t) / d**2 * (c - best) ** 2


def _printed_no_rule(supply: Supply, d_v: int) -> Numbers:
    v, a = supply.real("v", d_v), supply.real("a", d_v)
    return Numbers({"a": a, r"\bar{v}": v}, draws=[{"v": v}, {"v": -v}])


@identity(
    title="Where a value is as likely as its negative, any answer costs its own square",
    statement=r"\mathbb{E} \lVert a - v \rVert^2 ="
    r" \lVert a \rVert^2 + \mathbb{E} \lVert v \rVert^2",
    source="ours; elementary",
    equations=("eq-no-rule",),
    printed={
        "eq-no-rule": AsPrinted(
            numbers=_printed_no_rule,
            equivalent={
                "- → + (line 1, column 22)": "its negative is as likely as the value"
            },
        )
    },
    chapter=CHAPTER,
    mutants={
        "the value is known": {"signs": (1, 1)},
        "the answer counts twice": {"times": 2},
        "a good answer gains": {"times": -1},
    },
)
def no_rule(
    supply: Supply, d_v: int, *, signs: tuple[int, int] = (1, -1), times: int = 1
) -> Sides:
    """The answer is fixed before the value's sign is."""
    v, a = supply.real("v", d_v), supply.real("a", d_v)
    costs = [np.asarray(_size(a - sign * v)) for sign in signs]
    return costs[0] + costs[1], np.asarray(2 * times * _size(a) + 2 * _size(v))
