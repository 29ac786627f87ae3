"""Normalised linear attention: features for the exponential, and their price."""

from typing import Any

import numpy as np

from ctlearn.features import elu_plus_one
from ctlearn.features import identity as no_map
from ctlearn.identities.engine import Sides, identity
from ctlearn.mixers import linear_attention, normalised_linear_attention
from ctlearn.mixers.normalised_linear_attention import State
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import exp, is_exact
from ctlearn.supplies import Supply

CHAPTER = "02_the_trapdoor"


def _features(
    supply: Supply, T: int, d_k: int, d_v: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positive features of queries and keys, and values."""
    return (
        supply.positive("q", T, d_k),
        supply.positive("k", T, d_k),
        supply.real("v", T, d_v),
    )


def _printed(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Tokens under the square as feature map, and what the package makes of them."""

    def phi(x: np.ndarray) -> np.ndarray:
        return x * x

    q, k, v = _features(supply, T, d_k, d_v)
    mix = normalised_linear_attention.recurrent
    o, _ = mix(q, k, v, phi=phi)
    ends = [mix(q[:t], k[:t], v[:t], phi=phi)[1] for t in range(T + 1)]
    letters = {"q": q, "k": k, "v": v, "o": o, r"\phi": phi}
    states = {
        "S": Rows(np.array([end.S for end in ends]), first=0),
        "n": Rows(np.array([end.n for end in ends]), first=0),
        "c": supply.positive("c", 1)[0],
    }
    return Numbers(letters | states, {"t": range(1, T + 1), "j": range(1, T + 1)})


PRINTED = AsPrinted(numbers=_printed, at={"symbols": {"T": 2}})


@identity(
    title="Feature attention is a recurrence with one state and one sum",
    statement=r"o_t = \frac{S_t^\top \phi(q_t)}{n_t^\top \phi(q_t)}",
    source="katharopoulos2020, eqs. 16-20",
    citations=("katharopoulos2020",),
    equations=("eq-normalised-recurrence", "def-feature-attention"),
    printed={"eq-normalised-recurrence": PRINTED, "def-feature-attention": PRINTED},
    chapter=CHAPTER,
    mutants={
        "the normaliser forgets the past": {"forget": True},
        "the normaliser sums bare keys": {"bare": True},
        "the query is not mapped below the line": {"bare_query": True},
    },
)
def normalised_recurrence(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    forget: bool = False,
    bare: bool = False,
    bare_query: bool = False,
) -> dict[str, Sides]:
    """One step of the reference from arbitrary sums over the past; phi is a square."""

    def phi(x: np.ndarray) -> np.ndarray:
        return x * x

    q, k, v = (x[0] for x in _features(supply, 1, d_k, d_v))
    S, n = supply.real("S", d_k, d_v), supply.positive("n", d_k)
    # the sums over j that the definition has above and below the line, one term on
    above = S.T @ phi(q) + (phi(q) @ phi(k)) * v
    below = n @ phi(q) + phi(q) @ (k if bare else phi(k))
    if forget:
        below = phi(q) @ phi(k)
    if bare_query:
        below = (n + phi(k)) @ q
    o, _ = normalised_linear_attention.step(q, k, v, phi=phi, S=State(S, n))
    first, _ = normalised_linear_attention.step(q, k, v, phi=phi, S=State(0 * S, 0 * n))
    return {"base": (first, v), "step": (o, above / below)}


@identity(
    title="The normaliser is what a value column of ones collects",
    statement=r"\sum_{j=1}^{t} \phi(k_j) \begin{pmatrix} v_j \\ 1 \end{pmatrix}^\top"
    r" = \begin{pmatrix} S_t & n_t \end{pmatrix}",
    source="ours",
    equations=("eq-normaliser-column",),
    printed={"eq-normaliser-column": PRINTED},
    chapter=CHAPTER,
    mutants={
        "a column of twos": {"column": 2},
        "the column decays": {"fade": True},
        "keys without their features": {"mapped": False},
    },
)
def normaliser_column(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    column: int = 1,
    fade: bool = False,
    mapped: bool = True,
) -> dict[str, Sides]:
    """Plain linear attention with one more value, against the reference."""

    def phi(x: np.ndarray) -> np.ndarray:
        return x * x

    q, k, v = _features(supply, T, d_k, d_v)
    ones = column * np.ones((T, 1), dtype=int) * v[:, :1] ** 0
    if fade:
        ones = ones * 2 ** np.arange(T)[:, None]
    o, S = linear_attention.recurrent(
        phi(q), phi(k) if mapped else k, np.concatenate([v, ones], axis=1)
    )
    reference, kept = normalised_linear_attention.recurrent(q, k, v, phi=phi)
    return {
        "state": (S, np.concatenate([kept.S, kept.n[:, None]], axis=1)),
        "output": (o[:, :-1] / o[:, -1:], reference),
    }


@identity(
    title="The length of a query's features does not matter",
    statement=r"\frac{S_t^\top (c \phi(q_t))}{n_t^\top (c \phi(q_t))} ="
    r" \frac{S_t^\top \phi(q_t)}{n_t^\top \phi(q_t)}",
    source="ours",
    equations=("eq-scale-free",),
    printed={"eq-scale-free": PRINTED},
    chapter=CHAPTER,
    mutants={
        "nothing is divided by": {"divide": False},
        "one key is scaled instead": {"key": True},
        "the first channel alone is scaled": {"channel": True},
    },
)
def scale_free(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    divide: bool = True,
    key: bool = False,
    channel: bool = False,
) -> Sides:
    """The reference with features scaled by a positive number, and without."""
    q, k, v = _features(supply, T, d_k, d_v)
    c = 1 + supply.positive("c", 1)[0]
    scaled_q, scaled_k = c * q, k
    if key:
        scaled_q, scaled_k = q, np.concatenate([c * k[:1], k[1:]])
    if channel:
        scaled_q = np.concatenate([c * q[:, :1], q[:, 1:]], axis=1)
    if not divide:
        return (
            linear_attention.recurrent(scaled_q, k, v)[0],
            linear_attention.recurrent(q, k, v)[0],
        )
    mix = normalised_linear_attention.recurrent
    return mix(scaled_q, scaled_k, v, phi=no_map)[0], mix(q, k, v, phi=no_map)[0]


@identity(
    title="With features that are never negative the answer is a mean",
    kind="bound",
    statement=r"\min_{j \le t} v_j \le o_t \le \max_{j \le t} v_j",
    source="ours",
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "a feature is negative": {"signed": True},
        "nothing is divided by": {"divide": False},
    },
)
def stays_inside(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    signed: bool = False,
    divide: bool = True,
) -> dict[str, Sides]:
    """The last output, entry by entry; the first value lies far below the others."""
    q, k, v = _features(supply, T, d_k, d_v)
    v[0] = v.min(axis=0) - 2 * (v.max(axis=0) - v.min(axis=0)) - 100
    if signed:
        k[0] = -k[1:].sum(axis=0) / 2
    mix = normalised_linear_attention if divide else linear_attention
    options: dict[str, Any] = {"phi": no_map} if divide else {}
    o, _ = mix.parallel(q, k, v, **options)
    return {"above": (v.min(axis=0), o[-1]), "below": (o[-1], v.max(axis=0))}


@identity(
    title="Without a feature map, dividing by the sum does not make a mean",
    kind="counterexample",
    statement=r"\phi(x) = x, \quad q = 1, \quad k_1 = 2, \quad k_2 = -1,"
    r" \quad v_1 = 0, \quad v_2 = 3, \quad o = -3",
    source="ours",
    chapter=CHAPTER,
    worlds=("rationals",),
    mutants={
        "both keys are positive": {"second": 1},
        "the exponential is the feature map": {"mapped": True},
    },
)
def signed_weights(supply: Supply, *, second: int = -1, mapped: bool = False) -> Sides:
    """The answer, and the answer moved to the nearest point between the values."""
    import sympy

    def numbers(*x: int) -> np.ndarray:
        return np.array([[sympy.Integer(i)] for i in x], dtype=object)

    o, _ = normalised_linear_attention.recurrent(
        numbers(1, 1),
        numbers(2, second),
        numbers(0, 3),
        phi=exp if mapped else no_map,
    )
    answer = o[-1, 0]
    return np.asarray(answer), np.asarray(min(max(answer, 0), 3))


@identity(
    title="Positive features of width d_phi give at most d_phi items their own weight",
    kind="bound",
    statement=r"\sum_{i=1}^{N} \frac{\phi(q_i)^\top \phi(k_i)}"
    r"{\sum_{j=1}^{N} \phi(q_i)^\top \phi(k_j)} \le d_\phi",
    source="ours",
    equations=("eq-sharpness",),
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "softmax weights": {"softmax": True},
        "features may be negative": {"signed": True},
        "one dimension fewer": {"spare": 1},
    },
    at={"rationals": {"N": 5, "d": 2}, "floats": {"d": 4}},
)
def sharpness(
    supply: Supply,
    N: int,
    d: int,
    *,
    softmax: bool = False,
    signed: bool = False,
    spare: int = 0,
) -> dict[str, Sides]:
    """Any questions, and the case that meets the bound: as many items as features."""
    q, k = supply.positive("q", N, d), supply.positive("k", N, d)
    one = k[:1, :1] ** 0
    kernel = q @ k.T
    if softmax:
        # each question is its own key, at a high scale
        kernel = 1000 ** np.eye(N, dtype=int) * one
    if signed:
        x = np.arange(N)[:, None] * 2 - (N - 1)
        kernel = (1 + N * x * x.T) * one
    unit = np.eye(d, dtype=int) * one
    return {
        "any": (_trace(kernel), np.asarray((d - spare) * one[0, 0])),
        "met": (_trace(unit @ unit.T), np.asarray((d - spare) * one[0, 0])),
    }


def _trace(kernel: np.ndarray) -> np.ndarray:
    """The sum of the weights that the questions give to their own items."""
    weights = kernel / kernel.sum(axis=1)[:, None]
    return np.asarray(np.trace(weights))


@identity(
    title="elu + 1 is positive everywhere",
    kind="bound",
    statement=r"0 \le \phi(x)",
    source="katharopoulos2020, eq. 7",
    citations=("katharopoulos2020",),
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "the one is not added": {"shift": 1},
        "linear on both sides": {"linear": True},
    },
)
def elu_is_positive(
    supply: Supply, d: int, *, shift: int = 0, linear: bool = False
) -> Sides:
    """At a random point and at one that is certainly negative."""
    x = supply.real("x", d)
    x[0] = -3 * x[0] ** 0
    values = x + 1 if linear else _each_elu(x)
    return 0 * values, values - shift


def _each_elu(x: np.ndarray) -> np.ndarray:
    import sympy

    values = elu_plus_one(x)
    if not is_exact(values):
        return values
    return np.array([sympy.N(value, 30) for value in values], dtype=object)
