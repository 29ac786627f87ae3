"""Scans: steps of a linear recurrence are composed in their order, in any tree."""

from typing import Any

import numpy as np

from ctlearn.identities.delta_rule import sequence
from ctlearn.identities.engine import Sides, identity
from ctlearn.mixers import delta_rule
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Supply
from ctlearn.tasks import scans

CHAPTER = "08_the_delta_rule_in_parallel"
THREE = {world: {"T": 3} for world in ("symbols", "rationals", "floats")}


def _steps(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Tokens, their pairs, and the package's states from an arbitrary first one."""
    numbers = sequence(supply, T, d_k, d_v)
    x = numbers.letters
    A, B = scans.steps(x["k"], x["v"], x[r"\beta"])
    return Numbers({**x, "A": A, "B": B}, numbers.indices)


def _composed_free(
    *, swapped: bool = False, first: int = 1, late: bool = False
) -> Sides:
    import sympy

    A, B, A_2, B_2, S = sympy.symbols("A B A_2 B_2 S", commutative=False)
    whole = A * A_2 if swapped else A_2 * A
    moved = first * (B if late else A_2 * B)
    return A_2 * (A * S + B) + B_2, whole * S + moved + B_2


@identity(
    title="Two steps are one step: the later factor stands on the left",
    statement=r"S_2 = (A_2 A_1) S_0 + (A_2 B_1 + B_2)",
    source="blelloch1990, with the products turned round",
    citations=("blelloch1990", "hillis1986"),
    equations=("def-steps", "eq-composed"),
    printed=dict.fromkeys(("def-steps", "eq-composed"), AsPrinted(numbers=_steps)),
    chapter=CHAPTER,
    mutants={
        "the factors in reading order": {"swapped": True},
        "the first write is lost": {"first": 0},
        "the second step does not reach the first write": {"late": True},
    },
    free=_composed_free,
    at={"symbols": {"T": 2}, "rationals": {"T": 2}},
)
def composed(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    swapped: bool = False,
    first: int = 1,
    late: bool = False,
) -> dict[str, Sides]:
    """Two tokens of the delta rule; and a scan of T, in rounds, from the empty state.

    The scan is the package's; the states are those of the recurrence.
    """
    k, v = supply.real("k", T, d_k), supply.real("v", T, d_v)
    beta, S = supply.rate("b", T), supply.real("S", d_k, d_v)
    A, B = scans.steps(k, v, beta)
    _, after = delta_rule.recurrent(k[:2], k[:2], v[:2], beta=beta[:2], S=S)
    whole = A[0] @ A[1] if swapped else A[1] @ A[0]
    moved = first * (B[0] if late else A[1] @ B[0])
    _, last = delta_rule.recurrent(k, k, v, beta=beta)
    return {
        "two": (after, whole @ S + moved + B[1]),
        "a scan": (last, scans.in_rounds(scans.combine, A, B)[1][-1]),
    }


def _associative_free(
    *, swapped: bool = False, late: bool = False, last: int = 1
) -> Sides:
    import sympy

    names = "A B A_2 B_2 A_3 B_3"
    _, B, A_2, B_2, A_3, B_3 = sympy.symbols(names, commutative=False)
    whole = A_2 * A_3 if swapped else A_3 * A_2
    tail = (B_2 if late else A_3 * B_2) + last * B_3
    return A_3 * (A_2 * B + B_2) + B_3, whole * B + tail


@identity(
    title="Three steps may be bracketed either way",
    statement=r"A_3 (A_2 B_1 + B_2) + B_3 = (A_3 A_2) B_1 + (A_3 B_2 + B_3)",
    source="blelloch1990",
    citations=("blelloch1990",),
    equations=("eq-bracketed",),
    printed={"eq-bracketed": AsPrinted(numbers=_steps, at=THREE)},
    chapter=CHAPTER,
    mutants={
        "the factors in reading order": {"swapped": True},
        "the last step does not reach the second write": {"late": True},
        "the last write is lost": {"last": 0},
    },
    free=_associative_free,
    at=THREE,
)
def bracketed(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    swapped: bool = False,
    late: bool = False,
    last: int = 1,
) -> Sides:
    """Three tokens of the delta rule, from left to right and the last two first."""
    k, v = supply.real("k", T, d_k), supply.real("v", T, d_v)
    A, B = scans.steps(k, v, supply.rate("b", T))
    first, second, third = zip(A[:3], B[:3], strict=True)
    _, left = scans.combine(scans.combine(first, second), third)
    whole = A[1] @ A[2] if swapped else A[2] @ A[1]
    return left, whole @ B[0] + (B[1] if late else A[2] @ B[1]) + last * B[2]


def _three(supply: Supply) -> Numbers:
    """Unit keys along the first axis, aslant, and along the second; step size 1."""
    A, B = _pairs(supply.positive("c", 1)[0] ** 0)
    return Numbers({"A": A, "B": B})


def _pairs(one: Any, *, second: tuple[int, int] = (3, 4), beta: int = 1) -> scans.Pair:
    k = np.array([[5, 0], list(second), [0, 5]]) * one / 5
    return scans.steps(k, k[:, :1] ** 0, beta * k[:, 0] ** 0)


@identity(
    title="With its factors in reading order, a scan moves a value to the wrong key",
    kind="counterexample",
    statement=r"A_3 A_2 B_1 = \begin{pmatrix} \tfrac{16}{25} \\ 0 \end{pmatrix} \ne"
    r" \begin{pmatrix} \tfrac{16}{25} \\ -\tfrac{12}{25} \end{pmatrix}"
    r" = A_2 A_3 B_1",
    source="ours; against: (a_1, b_1) and (a_2, b_2) make (a_1 a_2, a_2 b_1 + b_2)",
    citations=("blelloch1990",),
    equations=("eq-swapped",),
    printed={"eq-swapped": AsPrinted(numbers=_three, worlds=("rationals",))},
    chapter=CHAPTER,
    worlds=("rationals",),
    mutants={
        "the keys are at right angles": {"second": (5, 0)},
        "the second key is the third": {"second": (0, 5)},
        "nothing is erased": {"beta": 0},
    },
)
def swapped(
    supply: Supply, *, second: tuple[int, int] = (3, 4), beta: int = 1
) -> Sides:
    """What is left of the first of three writes, in both orders."""
    A, B = _pairs(supply.positive("c", 1)[0] ** 0, second=second, beta=beta)
    return A[2] @ A[1] @ B[0], A[1] @ A[2] @ B[0]
