"""Lifelong context: which objective gives which rule.

Of [mcdermott2026], in this book's letters: the state is [d_k, d_v] and read as S'q, the
transpose of the source's theta. What a bounded state keeps is in `bounded_context`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.histories import omega_step, rated
from ctlearn.mixers import delta_rule, linear_attention
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import exp
from ctlearn.supplies import Supply

Array = np.ndarray
CHAPTER = "16_a_lifetime_of_context"
CYCLIC = "a trace is the same for both orders of its factors"


def _pair(supply: Supply, d_k: int, d_v: int) -> tuple[Array, ...]:
    """A pair, a rate, a state, and any change of it."""
    x = rated(supply, 1, d_k, d_v)
    S, X = supply.real("S", d_k, d_v), supply.real("X", d_k, d_v)
    return x["k"], x["v"], x["beta"], S, X


def _hebbian_numbers(supply: Supply, d_k: int, d_v: int) -> Numbers:
    k, v, _, S, X = _pair(supply, d_k, d_v)
    _, after = linear_attention.recurrent(k, k, v, S=S)
    return Numbers({"k": k[0], "v": v[0], "S": S, "X": X, "G": S - after})


@identity(
    title="The dot product for an objective gives linear attention",
    statement=r"-v^\top (S + X)^\top k + v^\top S^\top k = \operatorname{tr}(G^\top X)",
    source="mcdermott2026, eqs. 8 and 9, the Hebbian rule, and eq. 10",
    citations=("mcdermott2026",),
    chapter=CHAPTER,
    printed={
        STATEMENT: AsPrinted(
            numbers=_hebbian_numbers,
            equivalent={r"G^\top X → X G^\top (line 1, column 62)": CYCLIC},
        )
    },
    mutants={
        "the slope the other way round": {"sign": -1},
        "half the objective": {"scale": 2},
        "the slope depends on the state": {"state": 1},
    },
)
def hebbian_objective(
    supply: Supply, d_k: int, d_v: int, *, sign: int = 1, scale: int = 1, state: int = 0
) -> dict[str, Sides]:
    """G is what the package's rule takes off the state; X is any change of it."""
    k, v, _, S, X = _pair(supply, d_k, d_v)
    nothing, _ = linear_attention.recurrent(k[:0], k[:0], v[:0], S=S)
    _, after = linear_attention.recurrent(k, k, v, S=S)
    G = sign * (S - after) + state * S
    change = -(v[0] @ ((S + X).T @ k[0])) + v[0] @ (S.T @ k[0])
    return {
        "base": (nothing, np.empty_like(v[:0])),
        "step": (np.asarray(change), np.asarray(scale * (G * X).sum())),
    }


def _delta_numbers(supply: Supply, d_k: int, d_v: int) -> Numbers:
    k, v, beta, S, X = _pair(supply, d_k, d_v)
    _, after = delta_rule.recurrent(k, k, v, beta=beta, S=S)
    G = (S - after) / beta[0]
    return Numbers({"k": k[0], "v": v[0], "S": S, "X": X, "G": G})


@identity(
    title="Half the squared error for an objective gives the delta rule",
    statement=r"\frac{1}{2} \lVert (S + X)^\top k - v \rVert^2"
    r" - \frac{1}{2} \lVert S^\top k - v \rVert^2"
    r" = \operatorname{tr}(G^\top X) + \frac{1}{2} \lVert X^\top k \rVert^2",
    source="mcdermott2026, eqs. 8 and 9, the delta rule, with the square",
    citations=("mcdermott2026",),
    chapter=CHAPTER,
    printed={
        STATEMENT: AsPrinted(
            numbers=_delta_numbers,
            at={"symbols": {"d_k": 2, "d_v": 2}},
            equivalent={r"G^\top X → X G^\top (line 1, column 111)": CYCLIC},
        )
    },
    mutants={
        "the squared error, not its half": {"scale": 2},
        "the slope at an empty state": {"seen": 0},
        "no second order": {"second": 0},
    },
)
def delta_objective(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    scale: int = 1,
    seen: int = 1,
    second: int = 1,
) -> Sides:
    """G is what the package's step takes off the state, divided by its rate."""
    k, v, beta, S, X = _pair(supply, d_k, d_v)
    _, after = delta_rule.recurrent(k, k, v, beta=beta, S=seen * S)
    G = (seen * S - after) / beta[0]

    def loss(W: Array) -> Any:
        error = W.T @ k[0] - v[0]
        return scale * (error @ error) / 2

    moved = X.T @ k[0]
    right = (G * X).sum() + second * (moved @ moved) / 2
    return np.asarray(loss(S + X) - loss(S)), np.asarray(right)


def _omega_numbers(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    x, (M, after) = omega_step(supply, C, d_k, d_v)
    X, alpha = supply.real("X", d_k, d_v), exp(x["log_decay"][-1])
    letters = {"M": M, "X": X, "G": alpha * M - after, "w": C}
    return Numbers(letters | {"k": x["k"], "v": x["v"], r"\gamma": x["beta"]})


@identity(
    title="The squared errors of a window for an objective give the Omega rule",
    statement=r"\sum_{i=1}^{w} \gamma_i \lVert (M + X)^\top k_i - v_i \rVert^2"
    r" - \sum_{i=1}^{w} \gamma_i \lVert M^\top k_i - v_i \rVert^2"
    r" = \operatorname{tr}(G^\top X) + \sum_{i=1}^{w} \gamma_i"
    r" \lVert X^\top k_i \rVert^2",
    source="mcdermott2026, eqs. 8 and 9, the Omega rule, with the squares",
    citations=("mcdermott2026", "behrouz2025atlas"),
    chapter=CHAPTER,
    printed={
        STATEMENT: AsPrinted(
            numbers=_omega_numbers,
            at={"symbols": {"d_k": 2, "d_v": 2}},
            equivalent={r"G^\top X → X G^\top (line 1, column 143)": CYCLIC},
        )
    },
    mutants={
        "the last pair alone": {"first": -1},
        "all pairs alike": {"weighed": 0},
        "half of it": {"scale": 2},
    },
    at={"symbols": {"C": 2, "d_k": 2, "d_v": 2}},
)
def omega_objective(
    supply: Supply,
    C: int,
    d_k: int,
    d_v: int,
    *,
    first: int = 0,
    weighed: int = 1,
    scale: int = 1,
) -> Sides:
    """G is what the package's step takes off the decayed memory."""
    x, (M, after) = omega_step(supply, C, d_k, d_v)
    X, alpha = supply.real("X", d_k, d_v), exp(x["log_decay"][-1])
    k, v = x["k"][first:], x["v"][first:]
    gamma = x["beta"][first:] ** weighed / scale

    def loss(W: Array) -> Any:
        return gamma @ ((k @ W - v) ** 2).sum(axis=1)

    right = ((alpha * M - after) * X).sum() + gamma @ ((k @ X) ** 2).sum(axis=1)
    return np.asarray(loss(M + X) - loss(M)), np.asarray(right)


def _slope(loss: Callable[[Array], Any], S: Array) -> Array:
    """SymPy's derivative of a loss by each entry of the state, at S."""
    import sympy

    letters = np.array(
        [sympy.Symbol(f"w{i}", real=True) for i in range(S.size)], dtype=object
    )
    whole = loss(letters.reshape(S.shape))
    there = dict(zip(letters, S.flat, strict=True))
    slopes = [sympy.diff(whole, letter).subs(there) for letter in letters]
    return np.array(slopes, dtype=object).reshape(S.shape).astype(S.dtype)


@identity(
    title="The objective of the delta rule is the square of the error's length",
    kind="erratum",
    statement=r"S_t = S_{t-1} - \beta_t \nabla_S \,"
    r" \tfrac12 \lVert S_{t-1}^\top k_t - v_t \rVert^2",
    as_printed=r"S_t = S_{t-1} - \beta_t \nabla_S \,"
    r" \lVert S_{t-1}^\top k_t - v_t \rVert",
    source="mcdermott2026, eqs. 8 and 9, whose norms are not squared",
    citations=("mcdermott2026",),
    chapter=CHAPTER,
    mutants={
        "the square, not its half": {"scale": 2},
        "an error of length 1, where the print is right": {"length": True},
        "the step climbs": {"sign": -1},
    },
    at={
        "symbols": {"d_k": 1, "d_v": 2},
        "rationals": {"d_k": 3, "d_v": 2},
        "floats": {"d_k": 4, "d_v": 3},
    },
)
def unsquared_norm(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    scale: int = 1,
    length: bool = False,
    sign: int = 1,
) -> dict[str, Sides]:
    """With the length alone every error makes a step of the same length, beta |k|."""
    k, v, beta, S, _ = _pair(supply, d_k, d_v)
    if length:
        v = (S.T @ k[0] - supply.unit("e", 1, d_v)[0])[None]
    _, after = delta_rule.recurrent(k, k, v, beta=beta, S=S)

    def square(W: Array) -> Any:
        error = W.T @ k[0] - v[0]
        return error @ error

    return {
        "printed": (S - beta[0] * _slope(lambda W: square(W) ** _half(W), S), after),
        "corrected": (
            S - sign * scale * beta[0] * _slope(lambda W: square(W) / 2, S),
            after,
        ),
    }


def _half(like: Array) -> Any:
    return like.flat[0] ** 0 / 2


def _length_numbers(supply: Supply, d_k: int, d_v: int) -> Numbers:
    k, v, beta, S, after, _ = _unsquared_step(supply, d_k, d_v)
    letters = {"k": k, "v": v, r"\beta": beta, "S": S, r"S^\prime": after}
    return Numbers(letters)


def _unsquared_step(supply: Supply, d_k: int, d_v: int) -> tuple[Any, ...]:
    """A step on the length of an error, whose length is drawn."""
    k, _, beta, S, _ = _pair(supply, d_k, d_v)
    length, direction = supply.positive("l", 1)[0], supply.unit("e", 1, d_v)[0]
    v = S.T @ k[0] - length * direction
    after = S - beta[0] * np.outer(k[0], direction)
    return k[0], v, beta[0], S, after, length


@identity(
    title="A step on the error's length shortens small errors past zero",
    statement=r"\lVert (S^\prime)^\top k - v \rVert"
    r" = \left| \lVert S^\top k - v \rVert - \beta k^\top k \right|",
    source="ours, of mcdermott2026, eq. 9 as printed",
    citations=("mcdermott2026",),
    equations=("eq-length-step",),
    chapter=CHAPTER,
    printed=dict.fromkeys(
        (STATEMENT, "eq-length-step"),
        AsPrinted(numbers=_length_numbers, worlds=("rationals", "floats")),
    ),
    worlds=("rationals", "floats"),
    mutants={
        "in proportion to the error, as the delta rule": {"whole": True},
        "as if the key had length 1": {"power": 0},
        "half as much": {"rate": 2},
    },
)
def length_step(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    whole: bool = False,
    power: int = 1,
    rate: int = 1,
) -> Sides:
    """An error shorter than beta k'k / 2 grows."""
    k, v, beta, _, after, length = _unsquared_step(supply, d_k, d_v)
    left = after.T @ k - v
    step = beta * (k @ k) ** power / rate * (length if whole else 1)
    return np.asarray(left @ left), np.asarray((length - step) ** 2)


def _omega_window_numbers(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    x, M = omega_step(supply, C, d_k, d_v, older=1)
    greek = {r"\alpha": exp(x["log_decay"]), r"\gamma": x["beta"]}
    letters = {"k": x["k"], "v": x["v"], "c": C, "M": Rows(M, first=C)}
    return Numbers(greek | letters, {"t": range(C + 1, C + 2)})


@identity(
    title="A window of c pairs begins at t - c + 1",
    kind="erratum",
    statement=r"M_t = \alpha_t M_{t-1} - \sum_{j=t-c+1}^{t}"
    r" 2 \gamma_j k_j (M_{t-1}^\top k_j - v_j)^\top",
    as_printed=r"M_t = \alpha_t M_{t-1} - \sum_{j=t-c}^{t}"
    r" 2 \gamma_j k_j (M_{t-1}^\top k_j - v_j)^\top",
    source="mcdermott2026, eq. 9, the range of its sum; eq. 7 has t - c + 1, as has "
    "ATLAS, behrouz2025atlas, eq. 9",
    citations=("mcdermott2026", "behrouz2025atlas"),
    chapter=CHAPTER,
    printed={
        STATEMENT: AsPrinted(
            numbers=_omega_window_numbers, at={"symbols": {"d_k": 2, "d_v": 2}}
        )
    },
    mutants={
        "the oldest pair weighs nothing, where the print is right": {"older": 0},
        "one pair too few": {"first": 2},
        "slopes of half the loss": {"scale": 2},
    },
    at={"symbols": {"C": 2, "d_k": 2, "d_v": 2}},
)
def omega_window(
    supply: Supply,
    C: int,
    d_k: int,
    d_v: int,
    *,
    older: int = 1,
    first: int = 1,
    scale: int = 1,
) -> dict[str, Sides]:
    """C + 1 pairs are at hand, and the package's window is C."""
    x, (M, after) = omega_step(supply, C, d_k, d_v, older=1)
    slopes = 2 * x["k"][:, :, None] * (x["k"] @ M - x["v"])[:, None]
    slopes = slopes * x["beta"][:, None, None]
    slopes[0] = older * slopes[0]
    kept = exp(x["log_decay"][-1]) * M
    return {
        "printed": (kept - slopes.sum(axis=0), after),
        "corrected": (kept - slopes[first:].sum(axis=0) / scale, after),
    }
