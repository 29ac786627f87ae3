"""Why softmax has no such door: its kernel has full rank, features have their width."""

import itertools
import math
from typing import Any

import numpy as np

from ctlearn.features import quadratic, taylor
from ctlearn.identities.engine import Sides, identity
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import exp, is_exact
from ctlearn.supplies import Supply

CHAPTER = "02_the_trapdoor"


def _rank(rows: Any) -> np.ndarray:
    """The rank of exact numbers, as an array of one."""
    import sympy

    return np.asarray(sympy.Integer(sympy.Matrix(rows).rank()))


def _whole(x: np.ndarray) -> np.ndarray:
    """Distinct whole-numbered rows near those of x."""
    import sympy

    rows = np.array([sympy.floor(value) for value in x.flat]).reshape(x.shape)
    seen: set = set()
    for row in rows:
        while tuple(row) in seen:
            row[0] += 1
        seen.add(tuple(row))
    return rows


def _exp_kernel(z: np.ndarray) -> np.ndarray:
    """exp(k_i'k_j) for keys k = sqrt(log 2) z: powers of two, exactly."""
    import sympy

    scores = z @ z.T
    powers = [sympy.Integer(2) ** s for s in scores.flat]
    return np.array(powers, dtype=object).reshape(scores.shape)


def _printed_features(supply: Supply, N: int, d: int) -> Numbers:
    """More queries and keys than the feature map is wide."""
    Q, K = (supply.real(name, d * d + N, d) for name in ("Q", "K"))
    return Numbers({"Q": Q, "K": K, r"\phi": quadratic, r"d_\phi": d * d})


@identity(
    title="A kernel of features has at most the rank of its width",
    kind="bound",
    statement=r"\operatorname{rank}\left(\phi(Q) \phi(K)^\top\right) \le d_\phi",
    source="ours; elementary",
    equations=("eq-feature-rank",),
    printed={
        "eq-feature-rank": AsPrinted(numbers=_printed_features, worlds=("rationals",))
    },
    chapter=CHAPTER,
    worlds=("rationals",),
    mutants={
        "one dimension fewer": {"spare": 1},
        "the exponential of the scores": {"exponential": True},
        "the square of the scores": {"square": True},
    },
    at={"rationals": {"N": 5, "d": 2}},
)
def feature_rank(
    supply: Supply,
    N: int,
    d: int,
    *,
    spare: int = 0,
    exponential: bool = False,
    square: bool = False,
) -> Sides:
    """Features are any numbers: what map they came from does not matter."""
    q, k = supply.positive("q", N, d), supply.positive("k", N, d)
    kernel = (q @ k.T) ** 2 if square else q @ k.T
    if exponential:
        kernel = _exp_kernel(_whole(q))
    return _rank(kernel), np.asarray(d - spare)


def _printed_keys(supply: Supply, N: int, d: int) -> Numbers:
    """More distinct keys than they have channels; their scores are logs of 2, 4, …"""
    import sympy

    z = _whole(supply.real("z", N, d))
    return Numbers({"K": sympy.sqrt(sympy.log(2)) * z, "N": N})


@identity(
    title="The exponential's kernel has full rank on distinct keys",
    statement=r"\operatorname{rank}\left(\exp(K K^\top)\right) = N",
    source="ours; the general proof is in the text",
    equations=("eq-full-rank",),
    printed={
        "eq-full-rank": AsPrinted(
            numbers=_printed_keys,
            worlds=("rationals",),
            at={"rationals": {"N": 4, "d": 2}},
        )
    },
    chapter=CHAPTER,
    worlds=("rationals",),
    mutants={
        "two keys coincide": {"twins": True},
        "three terms of its series": {"terms": 3},
        "the scores themselves": {"terms": 0},
    },
    at={"rationals": {"N": 8, "d": 2}},
)
def full_rank(
    supply: Supply, N: int, d: int, *, twins: bool = False, terms: int | None = None
) -> Sides:
    """Keys sqrt(log 2) z with whole z, so that every entry is a power of two."""
    z = _whole(supply.real("z", N, d))
    if twins:
        z[1] = z[0]
    scores = z @ z.T
    if terms is None:
        kernel = _exp_kernel(z)
    elif terms == 0:
        kernel = scores
    else:
        kernel = sum(scores**p / math.factorial(p) for p in range(terms))
    return _rank(kernel), np.asarray(N)


def _printed_points(supply: Supply, N: int) -> Numbers:
    """Distinct numbers."""
    x, index = supply.positive("x", N), range(1, N + 1)
    if supply.world == "rationals":
        x = np.cumsum(x)
    return Numbers({"x": x, "N": N}, {"i": index, "j": index})


@identity(
    title="Keys of one number: the kernel is Vandermonde's matrix",
    statement=r"\det\left(x_j^{i-1}\right)_{i,j=1}^{N} ="
    r" \prod_{1 \le i < j \le N} (x_j - x_i)",
    source="Vandermonde's determinant",
    equations=("eq-vandermonde",),
    printed={
        "eq-vandermonde": AsPrinted(
            numbers=_printed_points,
            worlds=("symbols", "rationals"),
            at={"rationals": {"N": 4}},
        )
    },
    chapter=CHAPTER,
    mutants={
        "the differences turned round": {"sign": -1},
        "one factor is left out": {"skip": True},
        "the powers start at one": {"first": 1},
    },
    worlds=("rationals", "symbols"),
    at={"symbols": {"N": 3}},
)
def vandermonde(
    supply: Supply, N: int, *, sign: int = 1, skip: bool = False, first: int = 0
) -> Sides:
    """Queries 0, 1, 2, … and keys log x: exp(q k) is a power of x."""
    import sympy

    x = supply.positive("x", N)
    kernel = sympy.Matrix(N, N, lambda i, j: x[j] ** (i + first))
    pairs = list(itertools.combinations(range(N), 2))[int(skip) :]
    product = math.prod((sign * (x[j] - x[i]) for i, j in pairs), start=x[0] ** 0)
    if sign < 0:
        product = product if len(pairs) % 2 else -product
    return np.asarray(kernel.det(method="berkowitz")), np.asarray(product)


def _printed_powers(supply: Supply, N: int, d: int) -> Numbers:
    """Any coefficients and keys, for the first powers."""
    letters = {"c": supply.real("c", N), "k": supply.real("k", N, d), "N": N}
    return Numbers(letters, {"p": range(1, 4)})


@identity(
    title="A power of the scores is a dot product of tensor powers",
    statement=r"\sum_{i=1}^{N} \sum_{j=1}^{N} c_i c_j (k_i^\top k_j)^p ="
    r" \left\lVert \sum_{i=1}^{N} c_i k_i^{\otimes p} \right\rVert^2",
    source="ours; elementary",
    equations=("eq-tensor-powers",),
    printed={
        "eq-tensor-powers": AsPrinted(
            numbers=_printed_powers, at={"symbols": {"N": 2}, "rationals": {"N": 3}}
        )
    },
    chapter=CHAPTER,
    mutants={
        "another power on the left": {"left": 1},
        "the coefficients are squared": {"squared": True},
        "each square on its own": {"apart": True},
    },
    at={"symbols": {"N": 2}, "rationals": {"N": 4, "d": 3}},
)
def tensor_powers(
    supply: Supply,
    N: int,
    d: int,
    *,
    left: int = 0,
    squared: bool = False,
    apart: bool = False,
) -> dict[str, Sides]:
    """For the powers 0 to 3, with `quadratic` for the second."""
    c, k = supply.real("c", N), supply.real("k", N, d)
    cube = (quadratic(k)[:, :, None] * k[:, None]).reshape(N, -1)
    powers = [k[:, :1] ** 0, k, quadratic(k), cube]
    weights = c * c if squared else c
    sides = {}
    for p, tensor in enumerate(powers):
        sums = (weights[:, None] * tensor) ** 2 if apart else weights @ tensor
        right = sums.sum() if apart else sums @ sums
        sides[f"power {p}"] = (
            np.asarray(c @ (k @ k.T) ** (p + left) @ c),
            np.asarray(right),
        )
    return sides


def _printed_taylor(supply: Supply, d: int) -> Numbers:
    """Two vectors and the package's feature map."""
    return Numbers(
        {"q": supply.real("q", d), "k": supply.real("k", d), r"\phi": taylor}
    )


@identity(
    title="Three terms of the exponential are a feature map",
    statement=r"\phi(q)^\top \phi(k) = 1 + q^\top k + \frac{(q^\top k)^2}{2}",
    source="ours; elementary",
    equations=("eq-taylor",),
    printed={"eq-taylor": AsPrinted(numbers=_printed_taylor)},
    chapter=CHAPTER,
    mutants={
        "the square is not halved": {"half": False},
        "the constant is left out": {"constant": 0},
        "the linear term is left out": {"linear": 0},
    },
)
def taylor_features(
    supply: Supply, d: int, *, half: bool = True, constant: int = 1, linear: int = 1
) -> Sides:
    """The package's map against the three terms."""
    q, k = supply.real("q", d), supply.real("k", d)
    s = q @ k
    right = constant + linear * s + s * s / (2 if half else 1)
    return np.asarray(taylor(q) @ taylor(k)), np.asarray(right)


def _printed_width(supply: Supply, d_k: int) -> Numbers:
    """As many channels as there are products of at most two of d_k."""
    del supply
    pairs = d_k * (d_k + 1) // 2
    return Numbers({"d_k": d_k, "P": 2, r"d_\phi": 1 + d_k + pairs})


@identity(
    title="How wide a door of P terms is",
    statement=r"d_\phi = \binom{d_k + P}{P}",
    source="ours; elementary",
    equations=("eq-taylor-width",),
    printed={
        "eq-taylor-width": AsPrinted(numbers=_printed_width, worlds=("rationals",))
    },
    chapter=CHAPTER,
    worlds=("rationals",),
    mutants={
        "one term fewer": {"fewer": 1},
        "ordered products": {"ordered": True},
        "the constant is not counted": {"least": 1},
    },
    at={"rationals": {"d_k": 3}},
)
def taylor_width(
    supply: Supply,
    d_k: int,
    *,
    fewer: int = 0,
    ordered: bool = False,
    least: int = 0,
) -> dict[str, Sides]:
    """Count the products of at most P channels, order aside."""
    del supply
    sides = {}
    for P in range(1, 5):
        count = 0
        for p in range(least, P + 1 - fewer):
            every = itertools.combinations_with_replacement(range(d_k), p)
            count += d_k**p if ordered else sum(1 for _ in every)
        sides[f"P = {P}"] = np.asarray(count), np.asarray(math.comb(d_k + P, P))
    return sides


def _printed_scores(supply: Supply) -> Numbers:
    """One score, for several numbers of terms."""
    return Numbers({"s": supply.real("s", 1)[0]}, {"P": range(1, 5)})


@identity(
    title="What P terms of the exponential leave out",
    kind="bound",
    statement=r"\left| \exp(s) - \sum_{p=0}^{P} \frac{s^p}{p!} \right| \le"
    r" \frac{|s|^{P+1}}{(P+1)!} \exp(|s|)",
    source="Taylor's theorem",
    equations=("eq-taylor-remainder",),
    printed={
        "eq-taylor-remainder": AsPrinted(numbers=_printed_scores, worlds=("floats",))
    },
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "a term fewer is summed": {"fewer": 1},
        "without the last factor": {"factor": False},
        "one power higher": {"power": 1},
    },
)
def taylor_remainder(
    supply: Supply, d: int, *, fewer: int = 0, factor: bool = True, power: int = 0
) -> dict[str, Sides]:
    """For P = 1 to 3, at random scores and at 1/2 and 2."""
    s = supply.real("s", d) / 3
    s[:2] = [s[0] ** 0 / 2, 2 * s[1] ** 0]
    sides = {}
    for P in range(1, 4):
        terms = sum(s**p / math.factorial(p) for p in range(P + 1 - fewer))
        bound = abs(s) ** (P + 1 + power) / math.factorial(P + 1 + power)
        bound = bound * exp(abs(s)) if factor else bound
        sides[f"P = {P}"] = _numbers(abs(exp(s) - terms)), _numbers(bound)
    return sides


def _numbers(x: np.ndarray) -> np.ndarray:
    """Exact numbers with their exponentials worked out to thirty digits."""
    if not is_exact(x):
        return x
    import sympy

    return np.array([sympy.N(value, 30) for value in x], dtype=object)
