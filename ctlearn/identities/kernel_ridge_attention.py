"""Kernel ridge attention: its equation, its two ends, and what it is not.

A[i, j] = kappa(k_i, k_j) holds the kernel of the keys. With a ridge the fit misses each
value by the ridge times that pair's coefficient.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ctlearn.features import quadratic
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.tokens import tokens
from ctlearn.mixers import (
    kernel_ridge_attention,
    kernelised_delta_rule,
    mesa_net,
    softmax_attention,
)
from ctlearn.mixers.kernel_ridge_attention import exponential
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import sqrt
from ctlearn.supplies import Supply
from ctlearn.systems import solve

CHAPTER = "11_test_time_regression"
EXACT = ("rationals", "floats")


def _cube(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A kernel that is rational, and of full rank on as many keys as checks draw."""
    return (1 + a @ b.T) ** 3


def _ask(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, ridge: Any, kernel: Callable
) -> np.ndarray:
    """The reference's answers to all queries after the last pair."""
    last = [np.broadcast_to(x, k.shape) for x in q]
    form = partial(kernel_ridge_attention.parallel, ridge=ridge, kernel=kernel)
    return np.array([form(asked, k, v)[0][-1] for asked in last])


def _printed_equation(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    q, k, v = tokens(supply, T, d_k, d_v)
    ridge = supply.positive("r", 1)[0]
    root = sqrt(np.asarray(ridge**0 * d_k))

    def scaled(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return exponential(a / root, b)

    letters = {"Q": q, "K": k, "V": v, "d_k": d_k, r"\lambda": ridge}
    return Numbers(letters | {"O": _ask(q, k, v, ridge, scaled)})


@identity(
    title="Kernel ridge attention, as it is printed: one solve with the keys' kernel",
    statement=r"O = \exp(\frac{Q K^\top}{\sqrt{d_k}})"
    r" \left(\exp(\frac{K K^\top}{\sqrt{d_k}}) + \lambda I\right)^{-1} V",
    source="mcdermott2026, eq. 6; wang2025ttr, in secondary reading",
    citations=("mcdermott2026", "wang2025ttr"),
    worlds=EXACT,
    equations=("eq-kernel-ridge",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-kernel-ridge"),
        AsPrinted(numbers=_printed_equation, worlds=("floats",)),
    ),
    chapter=CHAPTER,
    mutants={
        "the ridge is left out": {"ridges": 0},
        "the queries' kernel is inverted": {"of_queries": True},
        "the rows are divided by their sums": {"divided": True},
    },
    at={"rationals": {"T": 3, "d_k": 2}, "floats": {"T": 6}},
)
def equation(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    ridges: int = 1,
    of_queries: bool = False,
    divided: bool = False,
) -> Sides:
    """The reference's growing factor, against the formula, for a rational kernel.

    The statement itself is run with the exponential, in floats.
    """
    q, k, v = tokens(supply, T, d_k, d_v)
    ridge = supply.positive("r", 1)[0]
    kernel = _cube if supply.world == "rationals" else exponential
    k, q = k / 4, q / 4
    rows = kernel(q, k)
    A = kernel(q, q) if of_queries else kernel(k, k)
    A = A + ridges * ridge * np.eye(T, dtype=int)
    rows = rows / rows.sum(axis=1)[:, None] if divided else rows
    weights = np.array([solve(A, row) for row in rows])
    return _ask(q, k, v, ridge, kernel), weights @ v


def _free_push(*, left: int = 1, right: int = 1) -> Sides:
    """Both sides without their inverses: K and its transpose do not commute."""
    import sympy

    K, K_T = sympy.symbols("K K^T", commutative=False)
    ridge = sympy.Symbol("lambda")
    return K_T * (K * K_T + left * ridge), (K_T * K + right * ridge) * K_T


def _printed_push(supply: Supply, N: int, d_k: int) -> Numbers:
    k, ridge = supply.real("k", N, d_k), supply.positive("r", 1)[0]
    return Numbers({"K": k, r"\lambda": ridge})


@identity(
    title="A ridge passes through: one matrix of pairs, or one of channels",
    statement=r"K^\top (K K^\top + \lambda I)^{-1} ="
    r" (K^\top K + \lambda I)^{-1} K^\top",
    source="ours; the push-through identity",
    citations=("wang2025ttr",),
    worlds=EXACT,
    equations=("eq-push-through",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-push-through"), AsPrinted(numbers=_printed_push, worlds=EXACT)
    ),
    chapter=CHAPTER,
    free=_free_push,
    mutants={
        "a ridge of pairs alone": {"right": 0},
        "a ridge of channels alone": {"left": 0},
        "the ridges differ": {"right": 2},
    },
)
def push_through(
    supply: Supply, N: int, d_k: int, *, left: int = 1, right: int = 1
) -> Sides:
    """Any number of pairs, more or fewer than channels."""
    k, ridge = supply.real("k", N, d_k), supply.positive("r", 1)[0]
    by_pairs = k @ k.T + left * ridge * np.eye(N, dtype=int)
    by_channels = k.T @ k + right * ridge * np.eye(d_k, dtype=int)
    return k.T @ by_pairs, by_channels @ k.T


def _printed_features(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    q, k, v = tokens(supply, T, d_k, d_v)
    ridge = supply.positive("r", 1)[0]
    o, _ = kernel_ridge_attention.recurrent(
        q, k, v, ridge=ridge, kernel=lambda a, b: (a @ b.T) ** 2
    )
    letters = {"q": q, "k": k, "v": v, "o": o, r"\lambda": ridge, r"\phi": quadratic}
    return Numbers(letters, {"t": range(1, T + 1), "j": range(1, T + 1)})


@identity(
    title="A kernel of features is ridge regression on the features",
    statement=r"o_t = \left(\sum_{j=1}^{t} \phi(k_j) v_j^\top\right)^\top"
    r" \left(\sum_{j=1}^{t} \phi(k_j) \phi(k_j)^\top + \lambda I\right)^{-1}"
    r" \phi(q_t)",
    source="ours; the linear kernel is a limit that the mechanism declares",
    citations=("wang2025ttr", "vonoswald2025mesanet"),
    worlds=EXACT,
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_features,
            worlds=EXACT,
            at={"rationals": {"T": 2, "d_k": 2}, "floats": {"T": 4, "d_k": 2}},
        )
    },
    chapter=CHAPTER,
    mutants={
        "the kernel is not squared": {"power": 1},
        "the ridge is squared": {"ridge_power": 2},
        "the features of the keys alone": {"asked": False},
    },
    at={"rationals": {"T": 3, "d_k": 2}, "floats": {"T": 9, "d_k": 3}},
)
def features(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    power: int = 2,
    ridge_power: int = 1,
    asked: bool = True,
) -> Sides:
    """Products of two channels, whose kernel is the square of the dot product."""
    q, k, v = tokens(supply, T, d_k, d_v)
    ridge = 1 + supply.positive("r", 1)[0]
    o, _ = kernel_ridge_attention.recurrent(
        q, k, v, ridge=ridge, kernel=lambda a, b: (a @ b.T) ** power
    )
    ones = 0 * k[:, 0] + 1
    read, _ = mesa_net.recurrent(
        quadratic(q if asked else k),
        quadratic(k),
        v,
        log_decay=0 * ones,
        beta=ones,
        ridges=np.repeat(ridge**ridge_power, d_k**2),
    )
    return o, read


def _printed_residual(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    _, k, v = tokens(supply, T, d_k, d_v)
    ridge, A = supply.positive("r", 1)[0], _cube(k, k)
    o = _ask(k, k, v, ridge, _cube)
    return Numbers({"V": v, "O": o, "A": A, r"\lambda": ridge})


def _free_residual(*, power: int = 1, sign: int = 1) -> Sides:
    """For any number of pairs, whose values are those of coefficients C."""
    import sympy

    A, C = sympy.symbols("A C", commutative=False)
    ridge = sympy.Symbol("lambda")
    V = (A + ridge) * C
    return sign * (V - A * C), ridge**power * C


@identity(
    title="What the fit misses of a value is the ridge times the pair's coefficient",
    statement=r"V - O = \lambda (A + \lambda I)^{-1} V",
    source="ours; the normal equations of kernel ridge regression",
    citations=("wang2025ttr",),
    worlds=EXACT,
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_residual,
            worlds=EXACT,
            at={"rationals": {"T": 3, "d_k": 2}, "floats": {"T": 4}},
        )
    },
    free=_free_residual,
    chapter=CHAPTER,
    mutants={
        "the coefficient alone": {"power": 0},
        "the ridge squared": {"power": 2},
        "the fit exceeds the value": {"sign": -1},
    },
    at={"rationals": {"T": 3, "d_k": 2}, "floats": {"T": 6}},
)
def residual(
    supply: Supply, T: int, d_k: int, d_v: int, *, power: int = 1, sign: int = 1
) -> Sides:
    """The reference asked at all its keys, after all of them."""
    _, k, v = tokens(supply, T, d_k, d_v)
    k, ridge = k / 4, supply.positive("r", 1)[0]
    A = _cube(k, k) + ridge * np.eye(T, dtype=int)
    coefficients = np.array([solve(A, column) for column in v.T]).T
    missed = sign * (v - _ask(k, k, v, ridge, _cube))
    return missed, ridge**power * coefficients


def _printed_heavy(supply: Supply, N: int, d_v: int) -> Numbers:
    k, v, q = supply.real("k", N, 2), supply.real("v", N, d_v), supply.real("q", 2)
    return Numbers({"A": _cube(k, k), "b": _cube(k, q[None])[:, 0], "V": v})


@identity(
    title="Under a heavy ridge it is attention without the normaliser, and fades",
    kind="limit",
    statement=r"\lim_{\lambda \to \infty} \lambda V^\top (A + \lambda I)^{-1} b ="
    r" V^\top b",
    source="ours",
    citations=("wang2025ttr", "mcdermott2026"),
    worlds=("rationals",),
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_heavy,
            worlds=("rationals",),
            at={"rationals": {"N": 2, "d_v": 1}},
        )
    },
    chapter=CHAPTER,
    mutants={
        "divided by the sum of the weights": {"divided": True},
        "the answer itself, which fades": {"power": 0},
        "the ridge stays at one": {"reached": False},
    },
    at={"rationals": {"T": 2, "d_k": 2, "d_v": 1}},
)
def heavy_ridge(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    divided: bool = False,
    power: int = 1,
    reached: bool = True,
) -> Sides:
    """The reference with a symbol for its ridge, times it, as it grows."""
    import sympy

    q, k, v = tokens(supply, T, d_k, d_v)
    ridge = sympy.Symbol("lambda", positive=True)
    o = ridge**power * _ask(q[-1:], k, v, ridge, exponential)[0]
    weights = exponential(k, q[-1:])[:, 0]
    right = weights @ v / (weights.sum() if divided else 1)

    def end(x: Any) -> Any:
        x = sympy.together(x)
        return sympy.limit(x, ridge, sympy.oo) if reached else x.subs(ridge, 1)

    return np.array([end(x) for x in o]), right


def _pair(supply: Supply) -> tuple[np.ndarray, ...]:
    """One pair, 1 and 1, the two queries 0 and 1, and any ridge."""
    one = supply.real("one", 1) ** 0
    return np.array([0 * one, one]), one[None], one[None], supply.positive("r", 1)[0]


def _printed_pair(supply: Supply) -> Numbers:
    q, k, v, ridge = _pair(supply)
    o = _ask(q, k, v, ridge, exponential)[:, 0]
    return Numbers({"o": o, "q": q[:, 0], "k": k[0, 0], "v": v[0, 0]})


@identity(
    title="Attention is not kernel ridge regression with a heavy ridge, or any",
    kind="counterexample",
    statement=r"\frac{o_2}{o_1} = \exp(k (q_2 - q_1)) = \exp(1) \ne 1 = \frac{v}{v}",
    source="ours",
    citations=("wang2025ttr", "mcdermott2026"),
    worlds=EXACT,
    printed={STATEMENT: AsPrinted(numbers=_printed_pair, worlds=EXACT)},
    chapter=CHAPTER,
    mutants={
        "the same query twice": {"apart": 0},
        "the answers are divided by their weights": {"divided": True},
        "a key of zero": {"key": 0},
    },
)
def not_attention(
    supply: Supply, *, apart: int = 1, divided: bool = False, key: int = 1
) -> Sides:
    """With one pair attention gives its value to all; this one gives e times as much.

    The ratio of the two answers is the same for every ridge, so no factor mends it.
    """
    q, k, v, ridge = _pair(supply)
    q, k = apart * q, key * k
    o = _ask(q, k, v, ridge, exponential)[:, 0]
    if divided:
        o = o / exponential(q, k)[:, 0]
    mean = softmax_attention.parallel(q, *(np.repeat(x, 2, axis=0) for x in (k, v)))[0]
    return o[1:] / o[0], mean[1] / mean[0]


def _printed_recall(supply: Supply, N: int, d_v: int) -> Numbers:
    k, v = supply.real("k", N, 2), supply.real("v", N, d_v)
    return Numbers({"A": _cube(k, k), "V": v})


@identity(
    title="Without a ridge every stored value comes back, if the kernel has full rank",
    kind="limit",
    statement=r"\lim_{\lambda \to 0} A (A + \lambda I)^{-1} V = V",
    source="ours; interpolation",
    citations=("wang2025ttr",),
    worlds=("rationals",),
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_recall,
            worlds=("rationals",),
            at={"rationals": {"N": 2, "d_v": 1}},
            equivalent={
                r"A (A + \lambda I)^{-1} → (A + \lambda I)^{-1} A"
                " (line 1, column 22)": "a matrix commutes with its own inverse",
                "+ → - (line 1, column 27)": "zero has no sign",
                r"+ \lambda I → nothing (line 1, column 27)": "it is what goes to zero",
            },
        )
    },
    chapter=CHAPTER,
    mutants={
        "a ridge of one": {"ridge": 1},
        "asked beside the keys": {"beside": 1},
        "the linear kernel, of rank d_k": {"kernel": lambda a, b: a @ b.T},
    },
    at={"rationals": {"T": 3, "d_k": 2}},
)
def recall(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    ridge: int = 0,
    beside: int = 0,
    kernel: Callable = _cube,
) -> Sides:
    """Three keys in the plane, all asked again; the ridge goes to zero as a symbol."""
    import sympy

    k, v = supply.unit("k", T, d_k), supply.real("v", T, d_v)
    small = sympy.Symbol("lambda", positive=True)
    o = _ask(k + beside, k, v[:, :1], small, kernel)
    found = [sympy.together(x).subs(small, ridge) for x in o.ravel()]
    return np.array(found), v[:, 0]


def _two_overlapping(supply: Supply) -> tuple[np.ndarray, np.ndarray]:
    """Unit keys of overlap 3/5, with the values 1 and 0."""
    one = supply.real("one", 1)[0] ** 0
    k = one * np.array([[5, 0], [3, 4]]) / 5
    return k, one * np.array([[1], [0]])


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a @ b.T


def _one_pass(k: np.ndarray, v: np.ndarray, q: np.ndarray) -> np.ndarray:
    """What the kernelised delta rule answers [n, d_v] after one pass of step size 1."""
    beta = np.ones(len(k), dtype=v.dtype)
    _, f = kernelised_delta_rule.recurrent(k, k, v, beta=beta, kernel=_dot)
    return f.read(q, _dot)


def _printed_delta(supply: Supply) -> Numbers:
    k, v = _two_overlapping(supply)
    letters = {"k": k, "v": v[:, 0], "o": _one_pass(k, v, k[:1])[0, 0], "V": v}
    return Numbers(letters | {"A": k @ k.T, "b": k @ k[0]})


@identity(
    title="The delta rule in a kernel's space is not kernel ridge regression",
    kind="counterexample",
    statement=r"o = v_1 + (k_1^\top k_2) (v_2 - (k_1^\top k_2) v_1) = \frac{16}{25}"
    r" \ne 1 = V^\top A^{-1} b",
    source="ours",
    citations=("wang2025ttr",),
    worlds=EXACT,
    printed={STATEMENT: AsPrinted(numbers=_printed_delta, worlds=EXACT)},
    chapter=CHAPTER,
    mutants={
        "keys at a right angle": {"apart": True},
        "asked at the key that was written last": {"asked": 1},
        "one pair": {"pairs": 1},
    },
)
def not_delta_rule(
    supply: Supply, *, apart: bool = False, asked: int = 0, pairs: int = 2
) -> Sides:
    """One pass of step size 1 at unit keys, and the ridge gone: both recall the last.

    What was stored before has leaked out of the one, and not out of the other.
    """
    k, v = _two_overlapping(supply)
    k = k[0, 0] * np.eye(2, dtype=int) if apart else k
    k, v = k[:pairs], v[:pairs]
    A = _dot(k, k)
    return _one_pass(k, v, k[[asked]])[0], v.T @ solve(A, A[asked])
