"""A constant, or a line, fitted around the query: what attention answers, and does not.

Softmax attention's weights belong to pairs; the best constant for them is its answer,
the best affine function's height at the query that of local linear attention.
"""

from typing import Any, NamedTuple

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.mixers import local_linear_attention, softmax_attention
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import exp, is_exact, log
from ctlearn.supplies import Supply
from ctlearn.systems import solve

CHAPTER = "06_a_tiny_model"
LINES = "11_test_time_regression"

EXACT = ("rationals", "floats")


def _scores(supply: Supply, n: int) -> np.ndarray:
    """Scores whose exponentials are rational wherever numbers are exact."""
    return log(supply.positive("w", n))


def _constant(s: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The reference's answer, given its scores: keys of one number, and the query 1."""
    asked = np.ones((len(v), 1), dtype=v.dtype)
    return softmax_attention.parallel(asked, s[:, None], v)[0][-1]


def _square(x: np.ndarray) -> Any:
    return (x * x).sum(axis=-1)


def _printed_constant(supply: Supply, T: int, d_v: int) -> Numbers:
    s, v, c = _scores(supply, T), supply.real("v", T, d_v), supply.real("c", d_v)
    letters = {"s": s, "v": v, "c": c, "o": _constant(s, v), "t": T}
    letters[r"\ell"] = exp(s).sum()
    return Numbers(letters, {"j": range(1, T + 1)})


@identity(
    title="Attention is the best constant: another costs more by its squared distance",
    statement=r"\sum_{j=1}^{t} \exp(s_j) \lVert v_j - c \rVert^2 ="
    r" \sum_{j=1}^{t} \exp(s_j) \lVert v_j - o \rVert^2"
    r" + \left(\sum_{j=1}^{t} \exp(s_j)\right) \lVert c - o \rVert^2",
    source="wang2025ttr, locally weighted squares; the excess is ours",
    citations=("wang2025ttr",),
    equations=("eq-best-constant",),
    printed={
        "eq-best-constant": AsPrinted(
            numbers=_printed_constant, at={"symbols": {"T": 2, "d_v": 2}}
        ),
    },
    chapter=CHAPTER,
    mutants={
        "the plain mean": {"plain": True},
        "the weights do not multiply the excess": {"weighed": False},
        "the excess is taken off": {"sign": -1},
    },
)
def best_constant(
    supply: Supply,
    N: int,
    d_v: int,
    *,
    plain: bool = False,
    weighed: bool = True,
    sign: int = 1,
) -> Sides:
    """What any answer c costs, against what softmax attention's answer does."""
    s, v, c = _scores(supply, N), supply.real("v", N, d_v), supply.real("c", d_v)
    o = v.sum(axis=0) / N if plain else _constant(s, v)
    weights = exp(s)
    excess = (weights.sum() if weighed else 1) * _square(c - o)
    costs = [np.asarray(weights @ _square(v - x)) for x in (c, o)]
    return costs[0], costs[1] + sign * excess


class _Fit(NamedTuple):
    """Weights w [N] of sum one, k - q as d [N, d_k], values, a ridge, the answer o."""

    w: np.ndarray
    d: np.ndarray
    v: np.ndarray
    ridge: Any
    o: np.ndarray


def _fit(k: np.ndarray, q: np.ndarray, v: np.ndarray, w: np.ndarray, r: Any) -> _Fit:
    """The reference's fit, whose weights are its own in floats.

    Exact numbers take the weights given: quotients of exponentials do not end.
    """
    if not is_exact(k):
        # the reference asks for a ridge above 0; this one is below rounding
        r = r or 1e-16
        asked = np.broadcast_to(q, k.shape)
        w = exp(k @ q - (k @ q).max())
        o = local_linear_attention.parallel(asked, k, v, ridge=r)[0][-1]
        return _Fit(w / w.sum(), k - q, v, r, o)
    w = w / w.sum()
    centre, height = w @ k, w @ v
    away = w[:, None] * (k - centre)
    C = away.T @ (k - centre) + r * np.eye(k.shape[1], dtype=int)
    return _Fit(w, k - q, v, r, height + (away.T @ v).T @ solve(C, q - centre))


def _drawn(supply: Supply, N: int, d_k: int, d_v: int) -> _Fit:
    k, q, v = (supply.real(n, *s) for n, s in _shapes(N, d_k, d_v))
    return _fit(k, q, v, supply.positive("w", N), supply.rate("r", 1)[0])


def _shapes(N: int, d_k: int, d_v: int) -> list[tuple[str, tuple[int, ...]]]:
    return [("k", (N, d_k)), ("q", (d_k,)), ("v", (N, d_v))]


def _normal(x: _Fit, ridge: Any) -> tuple[Any, ...]:
    """Weighted means of d, v, dd' and dv', and the slopes that solve for them."""
    d, v, weighed = x.w @ x.d, x.w @ x.v, x.w[:, None] * x.d
    A, R = weighed.T @ x.d, weighed.T @ x.v
    C = A - np.outer(d, d) + ridge * np.eye(len(d), dtype=int)
    M = np.array([solve(C, column) for column in (R - np.outer(d, v)).T]).T
    return d, v, A, R, M


def _printed_line(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    x = _drawn(supply, N, d_k, d_v)
    d, v, A, R, M = _normal(x, x.ridge)
    means = {r"\bar{d}": d, r"\bar{v}": v, "A": A, "R": R, r"\lambda": x.ridge}
    fields = {"w": x.w, "d": x.d, "v": x.v, "o": x.o, "M": M, "N": N}
    return Numbers(means | fields)


@identity(
    title="Local linear attention is the height of a weighted ridge fit at the query",
    statement=r"\bar{d} = \sum_{j=1}^{N} w_j d_j, \quad"
    r" \bar{v} = \sum_{j=1}^{N} w_j v_j, \quad"
    r" o = \bar{v} - M^\top \bar{d}, \quad"
    r" \bar{d}\, o^\top + \left(\sum_{j=1}^{N} w_j d_j d_j^\top + \lambda I\right) M ="
    r" \sum_{j=1}^{N} w_j d_j v_j^\top",
    source="wang2025ttr, local linear regression; the ridge is ours",
    citations=("wang2025ttr",),
    worlds=EXACT,
    equations=("eq-local-line",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-local-line"),
        AsPrinted(numbers=_printed_line, worlds=EXACT, at={"floats": {"N": 7}}),
    ),
    chapter=LINES,
    mutants={
        "the mean distance is added": {"sign": -1},
        "the ridge presses the height too": {"height": 1},
        "the slope is not used": {"sign": 0},
        "twice the ridge": {"ridges": 2},
    },
    at={"rationals": {"N": 4, "d_k": 2}},
)
def intercept(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    sign: int = 1,
    height: int = 0,
    ridges: int = 1,
) -> dict[str, Sides]:
    """The answer, and the normal equations of height and slopes [1 + d_k, d_v]."""
    x = _drawn(supply, N, d_k, d_v)
    d, v, A, R, M = _normal(x, ridges * x.ridge)
    design = np.block([[np.ones((1, 1), dtype=int), d[None]], [d[:, None], A]])
    pressed = x.ridge * np.diag([height] + [1] * d_k)
    fitted = np.concatenate([x.o[None], M])
    return {
        "height": (x.o, v - sign * M.T @ d),
        "normal equations": ((design + pressed) @ fitted, np.block([[v[None]], [R]])),
    }


def _printed_affine(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    k, q, _ = (supply.real(n, *s) for n, s in _shapes(N, d_k, d_v))
    W, b = supply.real("W", d_k, d_v), supply.real("b", d_v)
    x = _fit(k, q, k @ W + b, supply.positive("w", N), 0 * q[0])
    letters = {"v": x.v, "W": W, "k": k, "q": q, "b": b, "o": x.o}
    return Numbers(letters, {"j": range(1, N + 1)})


@identity(
    title="Without a ridge an affine map is answered exactly, wherever it is asked",
    statement=r"v_j = W^\top k_j + b, \quad o = W^\top q + b",
    source="wang2025ttr, for local polynomials; elementary",
    citations=("wang2025ttr",),
    worlds=EXACT,
    equations=("eq-affine",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-affine"),
        AsPrinted(
            numbers=_printed_affine,
            worlds=EXACT,
            at={"rationals": {"N": 5, "d_k": 2}, "floats": {"N": 7, "d_k": 2}},
        ),
    ),
    chapter=LINES,
    mutants={
        "values that bend": {"bent": 1},
        "a ridge": {"ridge": 1},
        "the map's value at zero is left out": {"shift": 0},
    },
    at={"rationals": {"N": 5, "d_k": 2}, "floats": {"N": 20, "d_k": 3}},
)
def affine(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    bent: int = 0,
    ridge: int = 0,
    shift: int = 1,
) -> Sides:
    """Any affine map of more keys than d_k + 1, asked anywhere."""
    k, q, _ = (supply.real(n, *s) for n, s in _shapes(N, d_k, d_v))
    W, b = supply.real("W", d_k, d_v), supply.real("b", d_v)
    v = k @ W + b + bent * (k * k) @ W
    x = _fit(k, q, v, supply.positive("w", N), 0 * q[0] + ridge)
    return x.o, q @ W + shift * b


def _line(supply: Supply) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys 0 and 1 with themselves for values, asked at 2."""
    one = supply.real("one", 1)[0] ** 0
    k = one * np.array([[0], [1]])
    return k, one * np.full(1, 2), k


def _printed_outside(supply: Supply) -> Numbers:
    k, q, v = _line(supply)
    o = softmax_attention.parallel(np.broadcast_to(q, k.shape), k, v)[0][-1, 0]
    fit = _fit(k, q, v, exp(k[:, 0] * q[0]), 0 * q[0]).o[0]
    return Numbers({"k": k[:, 0], "v": v[:, 0], "q": q[0], "o": o, r"\hat{o}": fit})


@identity(
    title="A mean of values cannot go on as a line does",
    kind="counterexample",
    statement=r"v_1 = k_1 = 0, \quad v_2 = k_2 = 1, \quad q = 2, \quad"
    r" o = \frac{\exp(2)}{1 + \exp(2)} \ne 2 = \hat{o}",
    source="ours",
    citations=("wang2025ttr", "mcdermott2026"),
    worlds=EXACT,
    printed={STATEMENT: AsPrinted(numbers=_printed_outside, worlds=EXACT)},
    chapter=CHAPTER,
    mutants={
        "a line is fitted": {"line": True},
        "both values are two": {"constant": True},
        "one pair alone, of value two": {"alone": True},
    },
)
def outside(
    supply: Supply, *, line: bool = False, constant: bool = False, alone: bool = False
) -> Sides:
    """Attention answers 0.88 where the values' line is at 2."""
    k, q, v = _line(supply)
    v = 0 * v + 2 if constant else v
    k, v = (k[1:], v[1:] + 1) if alone else (k, v)
    if line:
        return _fit(k, q, v, exp(k[:, 0] * q[0]), 0 * q[0]).o, q
    return softmax_attention.parallel(np.broadcast_to(q, k.shape), k, v)[0][-1], q
