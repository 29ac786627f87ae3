"""Orthogonalisation: what an odd polynomial of a matrix does, and what it aims at."""

from typing import Any

import numpy as np

from ctlearn.features import orthonormal
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.inner import newton_schulz
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Supply

CHAPTER = "13_deep_memories"


def _factors(supply: Supply, N: int, d_k: int, d_v: int) -> tuple[Any, ...]:
    """U and Y of orthonormal columns and N singular values: G = U Diag(s) Y'."""
    rank = min(N, d_k, d_v)
    U, Y = _columns(supply, "U", d_k, rank), _columns(supply, "Y", d_v, rank)
    return U, Y, supply.positive("s", rank)


def _columns(supply: Supply, name: str, d: int, rank: int) -> np.ndarray:
    """Orthonormal ones, [d, rank]."""
    return orthonormal(supply.positive(name, d, d))[:rank].T


def _step(supply: Supply, G: np.ndarray, a: Any, b: Any, c: Any) -> np.ndarray:
    """The package's own step in floats; it divides by a root, which others lack."""
    if supply.world == "floats":
        size = np.linalg.norm(G) + 1e-7
        # the step is taken at G / size, so that G itself asks for other numbers
        return newton_schulz(G, ((a * size, b * size**3, c * size**5),))
    A = G @ G.T
    return a * G + (b * A + c * A @ A) @ G


def _free_step(*, odd: int = 1, fifth: int = 1) -> Sides:
    """Any sizes: letters do not commute, and U'U and Y'Y are 1."""
    import sympy

    U, U_T, Y, Y_T, S = sympy.symbols("U U^T Y Y^T Sigma", commutative=False)
    a, b, c = sympy.symbols("a b c")
    G, G_T = U * S * Y_T, Y * S * U_T
    square = G * G_T
    X = sympy.expand(a * G + b * square * G + c * square * square * G)
    X = X.subs(U_T * U, 1).subs(Y_T * Y, 1)
    moved = a * S + b * S ** (2 + odd) + fifth * c * S ** (4 + odd)
    return X, U * moved * Y_T


def _printed_step(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    U, Y, s = _factors(supply, N, d_k, d_v)
    a, b, c = supply.real("abc", 3)
    G = (U * s) @ Y.T
    letters = {"U": U, "Y": Y, r"\Sigma": np.diag(s), "G": G, "a": a, "b": b, "c": c}
    return Numbers(letters | {"X": _step(supply, G, a, b, c)})


@identity(
    title="A step of Newton and Schulz moves singular values and no singular vector",
    statement=r"G = U \Sigma Y^\top, \quad X = a G + b G G^\top G"
    r" + c G G^\top G G^\top G = U (a \Sigma + b \Sigma^3 + c \Sigma^5) Y^\top",
    source="jordan2024muon; the proof is two lines of algebra",
    citations=("jordan2024muon",),
    worlds=("rationals", "floats"),
    free=_free_step,
    equations=("eq-singular-values",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-singular-values"),
        AsPrinted(
            numbers=_printed_step,
            worlds=("rationals", "floats"),
            at={"rationals": {"N": 2, "d_k": 4, "d_v": 3}, "floats": {"N": 2}},
        ),
    ),
    chapter=CHAPTER,
    mutants={
        "the even powers": {"odd": 0},
        "the fifth power is left out": {"fifth": 0},
        "the singular vectors change sides": {"turned": True},
    },
    at={"rationals": {"N": 2, "d_k": 3, "d_v": 3}, "floats": {"N": 7}},
)
def step(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    odd: int = 1,
    fifth: int = 1,
    turned: bool = False,
) -> Sides:
    """Any coefficients, and a matrix of any rank up to N, by its own factors."""
    U, Y, s = _factors(supply, N, d_k, d_v)
    a, b, c = supply.real("abc", 3)
    X = _step(supply, (U * s) @ Y.T, a, b, c)
    moved = a * s + b * s ** (2 + odd) + fifth * c * s ** (4 + odd)
    right = (U * moved) @ Y.T
    return X, (right.T if turned else right)


@identity(
    title="Of all steps of spectral norm one, the orthogonal factor goes down fastest",
    kind="bound",
    statement=r"\operatorname{tr}(X^\top G) \le \operatorname{tr}(\Sigma)"
    r" = \operatorname{tr}((U Y^\top)^\top G), \quad \lVert X \rVert_2 \le 1",
    source="von Neumann's trace inequality",
    citations=("jordan2024muon",),
    worlds=("rationals", "floats"),
    chapter=CHAPTER,
    mutants={
        "a spectral norm of two": {"size": 2},
        "half the orthogonal factor": {"best": 2},
        "the largest singular value alone": {"largest": True},
    },
    at={"rationals": {"N": 3}, "floats": {"N": 8}},
)
def steepest(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    size: int = 1,
    best: int = 1,
    largest: bool = False,
) -> dict[str, Sides]:
    """Other steps are products of reflections and of numbers up to one."""
    U, Y, s = _factors(supply, N, d_k, d_v)
    G, rank = (U * s) @ Y.T, len(s)
    bound = s.max() if largest else s.sum()
    left, right = _columns(supply, "L", d_k, rank), _columns(supply, "R", d_v, rank)
    shares = supply.rate("r", rank)
    drawn = size * (left * shares) @ right.T
    # the best one is among them, and so the bound is met
    other = size * U @ Y.T
    return {
        "drawn": (np.asarray((drawn * G).sum()), np.asarray(bound)),
        "itself": (np.asarray((other * G).sum()), np.asarray(bound)),
        "met": (np.asarray(s.sum()), np.asarray(((U @ Y.T) * G).sum() / best)),
    }
