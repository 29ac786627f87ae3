"""Triangular inverses: doubling, blocks, Newton, and a key whose powers explode."""

from math import comb

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Supply
from ctlearn.tasks import triangular_inverse

CHAPTER = "08_the_delta_rule_in_parallel"


def _any_square(supply: Supply, N: int, d: int) -> Numbers:
    return Numbers({"L": supply.real("L", d, d), "N": N})


def _doubling_free(*, sign: int = -1, power: int = 2) -> Sides:
    import sympy

    L = sympy.Symbol("L", commutative=False)
    return (1 + L) * (1 + sign * L) * (1 + L**power) * (1 + L**4), 1 - L**8


@identity(
    title="Doubling: a few products are the inverse, because a power of L is zero",
    statement=r"(I + L) \left(\prod_{j=0}^{N-1} (I + (-L)^{2^j})\right) = I - L^{2^N}",
    source="ours; the geometric series",
    equations=("eq-doubling",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-doubling"),
        AsPrinted(
            numbers=_any_square,
            at={"symbols": {"N": 2}, "rationals": {"N": 2}, "floats": {"N": 2}},
            equivalent={
                r"(I + L) \left(\prod_{j=0}^{N-1} (I + (-L)^{2^j})\right) → "
                r"(\prod_{j=0}^{N-1} (I + (-L)^{2^j})\right) \left(I + L) "
                "(line 1, column 1)": "powers of L commute",
            },
        ),
    ),
    chapter=CHAPTER,
    mutants={
        "the first power has the other sign": {"sign": 1},
        "the second power is the third": {"power": 3},
        "one product too few": {"last": 0},
    },
    free=_doubling_free,
    at={"symbols": {"C": 5}, "rationals": {"C": 7}, "floats": {"C": 8}},
)
def doubling(
    supply: Supply, C: int, *, sign: int = -1, power: int = 2, last: int = 1
) -> dict[str, Sides]:
    """Up to eight tokens: the package's two inverses of any strictly lower L."""
    L = np.tril(supply.real("L", C, C), -1)
    unit, squared = np.eye(C, dtype=L.dtype), L
    for _ in range(power - 1):
        squared = squared @ L
    fourth = L @ L @ L @ L
    product = (unit + sign * L) @ (unit + squared) @ (unit + last * fourth)
    return {
        "doubling": (triangular_inverse.by_doubling(L), product),
        "substitution": (triangular_inverse.by_substitution(L), product),
    }


def _two_blocks(supply: Supply, C: int, N: int) -> Numbers:
    """Two diagonal blocks that have inverses, and any corner below them."""
    L = np.tril(supply.real("L", C + N, C + N), -1)
    whole = np.eye(C + N, dtype=L.dtype) + L
    letters = {"A": whole[:C, :C], "B": whole[C:, C:], "L": whole[C:, :C]}
    return Numbers(letters | {r"\mathbf{0}": np.zeros((C, N), dtype=int)})


def _blocks_free(*, sign: int = -1, turned: bool = False) -> Sides:
    """The corner below of the product of the matrix and its inverse: zero."""
    import sympy

    A, B, L = sympy.symbols("A B L", commutative=False)
    corner = A**-1 * L * B**-1 if turned else B**-1 * L * A**-1
    return L * A**-1 + B * sign * corner, 0 * L


@identity(
    title="Two inverted blocks merge: one corner is to be computed",
    statement=r"\begin{pmatrix} A & \mathbf{0} \\ L & B \end{pmatrix}^{-1} ="
    r" \begin{pmatrix} A^{-1} & \mathbf{0} \\ -B^{-1} L A^{-1} & B^{-1} \end{pmatrix}",
    source="elementary; how released kernels go from 16 rows to 64",
    equations=("eq-two-blocks",),
    printed=dict.fromkeys((STATEMENT, "eq-two-blocks"), AsPrinted(numbers=_two_blocks)),
    chapter=CHAPTER,
    mutants={
        "the corner has the other sign": {"sign": 1},
        "the blocks in the other order": {"turned": True},
        "there is no corner": {"sign": 0},
    },
    free=_blocks_free,
    at={"symbols": {"C": 4}},
)
def blocks(
    supply: Supply, C: int, *, sign: int = -1, turned: bool = False
) -> dict[str, Sides]:
    """Blocks down to one row, and of two rows, against substitution."""
    L = np.tril(supply.real("L", 2 * (C // 2), 2 * (C // 2)), -1)
    half = C // 2
    A = triangular_inverse.by_substitution(L[:half, :half])
    B = triangular_inverse.by_substitution(L[half:, half:])
    corner = sign * (A @ L[half:, :half] @ B if turned else B @ L[half:, :half] @ A)
    whole = triangular_inverse.by_substitution(L)
    return {
        "corner": (whole[half:, :half], corner),
        "one row": (triangular_inverse.by_blocks(L, 1), whole),
        "two rows": (triangular_inverse.by_blocks(L, 2), whole),
    }


def _guess(supply: Supply, d: int) -> Numbers:
    return Numbers({"A": supply.real("A", d, d), "X": supply.real("X", d, d)})


def _newton_free(*, twice: int = 2) -> Sides:
    import sympy

    A, X = sympy.symbols("A X", commutative=False)
    return 1 - A * X * (twice - A * X), (1 - A * X) * (1 - A * X)


@identity(
    title="A step of Newton's iteration squares what is left over",
    statement=r"I - A X (2 I - A X) = (I - A X)^2",
    source="Newton and Schulz; elementary",
    equations=("eq-newton",),
    printed=dict.fromkeys((STATEMENT, "eq-newton"), AsPrinted(numbers=_guess)),
    chapter=CHAPTER,
    mutants={
        "3 in the place of 2": {"twice": 3},
        "1 in the place of 2": {"twice": 1},
        "one step too few": {"late": 1},
    },
    free=_newton_free,
    at={"symbols": {"C": 5}, "rationals": {"C": 6}, "floats": {"C": 8}},
)
def newton(
    supply: Supply, C: int, *, twice: int = 2, late: int = 0
) -> dict[str, Sides]:
    """Of any guess, and of I - L, which is exact after log2 C - 1 steps."""
    A, X = supply.real("A", 2, 2), supply.real("X", 2, 2)
    unit = np.eye(2, dtype=A.dtype)
    left = unit - A @ X
    L = np.tril(supply.real("L", C, C), -1)
    steps = (C - 1).bit_length() - 1 - late
    return {
        "any guess": (unit - A @ X @ (twice * unit - A @ X), left @ left),
        "I - L": (
            triangular_inverse.by_newton(L, steps),
            triangular_inverse.by_substitution(L),
        ),
    }


def _same_key(supply: Supply, C: int) -> Numbers:
    """One unit key in C tokens, all of one rate."""
    beta = supply.rate("b", 1)[0]
    L = np.tril(np.ones((C, C), dtype=int), -1) * beta**0
    X = triangular_inverse.by_substitution(beta * L)
    index = range(1, C + 1)
    letters = {r"\beta": beta, "L": L, "X": X}
    return Numbers(letters, {"i": index, "j": index, "m": range(1, C)})


@identity(
    title="Of one key again and again the inverse is small, and powers are binomials",
    statement=r"X_{i,j} = -\beta (1 - \beta)^{i-j-1}, \qquad"
    r" (L^m)_{i,j} = \binom{i-j-1}{m-1} \quad (i > j)",
    source="ours; elementary",
    printed={STATEMENT: AsPrinted(numbers=_same_key)},
    chapter=CHAPTER,
    mutants={
        "the powers of beta": {"left": False},
        "one token too far": {"shift": 1},
        "the binomial's row is the distance": {"row": 1},
    },
)
def same_key(
    supply: Supply, C: int, *, left: bool = True, shift: int = 0, row: int = 0
) -> dict[str, Sides]:
    """Substitution of beta L, and powers of L, entry by entry below the diagonal."""
    beta = supply.rate("b", 1)[0]
    L = np.tril(np.ones((C, C), dtype=int), -1)
    X = triangular_inverse.by_substitution(beta * L)
    below = list(zip(*np.nonzero(L), strict=True))
    base = 1 - beta if left else beta
    inverse = [-beta * base ** (i - j - 1 + shift) for i, j in below]
    parts = {"inverse": (np.array([X[at] for at in below]), np.array(inverse))}
    power = np.eye(C, dtype=int)
    for m in range(1, C):
        power = power @ L
        told = [comb(int(i - j - 1 + row), m - 1) for i, j in below]
        parts[f"power {m}"] = (
            np.array([power[at] for at in below]) + 0 * beta,
            np.array(told) + 0 * beta,
        )
    return parts


def _terms(supply: Supply, C: int) -> Numbers:
    """The overlaps of one unit key in C tokens of one rate; L to the C is zero."""
    beta = supply.rate("b", 1)[0]
    L = beta * np.tril(np.ones((C, C), dtype=int), -1)
    index = range(1, C + 1)
    letters = {r"\beta": beta, "L": L, "C": C}
    return Numbers(letters, {"i": index, "j": index})


EXACT_FIRST = ("rationals", "floats")
FEW = {"rationals": {"C": 4}, "floats": {"C": 5}}
NO_PAIR = "the line then speaks of no pair of tokens, and the other line holds"


@identity(
    title="Of one key again and again, the terms cancel down from their sum",
    statement=r"\sum_{m=1}^{C} (-1)^m (L^m)_{i,j} = -\beta (1 - \beta)^{i-j-1}, \qquad"
    r" \sum_{m=1}^{C} (L^m)_{i,j} = \beta (1 + \beta)^{i-j-1} \quad (i > j)",
    source="ours; elementary",
    equations=("eq-cancelling",),
    printed={
        STATEMENT: AsPrinted(numbers=_terms, worlds=EXACT_FIRST, at=FEW),
        "eq-cancelling": AsPrinted(
            numbers=_terms,
            worlds=EXACT_FIRST,
            at=FEW,
            equivalent={
                f"{slip} (line {line}, column {column})": NO_PAIR
                for line, left in ((2, 72), (3, 64))
                for slip, column in (("i → j", left), ("j → i", left + 4))
            },
        ),
    },
    chapter=CHAPTER,
    mutants={
        "the rate is no factor": {"factor": False},
        "one token too far": {"shift": 1},
        "the signs exchanged": {"sign": -1},
    },
)
def cancelling(
    supply: Supply, C: int, *, factor: bool = True, shift: int = 0, sign: int = 1
) -> dict[str, Sides]:
    """The series with its signs, which is the inverse less I, and without them."""
    x = _terms(supply, C).letters
    beta, L = x[r"\beta"], x["L"]
    below = list(zip(*np.nonzero(np.tril(np.ones((C, C)), -1)), strict=True))
    scale = beta if factor else beta**0
    parts = {}
    for name, s in (("terms cancel", 1), ("terms add", -1)):
        inverse = triangular_inverse.by_substitution(sign * s * L)
        told = [-s * scale * (1 - s * beta) ** (i - j - 1 + shift) for i, j in below]
        parts[name] = (np.array([inverse[at] for at in below]), np.array(told))
    return parts


@identity(
    title="Entries no larger than 1 come out of powers as large as 4.7e17",
    kind="counterexample",
    statement=r"\max_{i,j} \lvert (I + L)^{-1}_{ij} \rvert = 1, \qquad"
    r" \max_{i,j} (L^{32})_{ij} = \binom{62}{31} = 465428353255261088",
    source="ours; against: what has a small inverse is safe to invert by doubling",
    worlds=("rationals",),
    chapter=CHAPTER,
    mutants={
        "a chunk of two tokens": {"C": 2},
        "the keys are at right angles": {"overlap": 0},
        "the first power alone": {"most": 1},
    },
)
def exploding_powers(
    supply: Supply, *, C: int = 64, overlap: int = 1, most: int = 32
) -> Sides:
    """Sixty-four tokens of one unit key, step size 1: the largest entries of each."""
    L = overlap * np.tril(np.ones((C, C), dtype=object), -1)
    power, largest, exponent = L, abs(L).max(), 1
    while exponent < min(most, C // 2):
        power, exponent = power @ power, 2 * exponent
        largest = max(largest, abs(power).max())
    inverse = triangular_inverse.by_substitution(L)
    smallest = abs(np.tril(inverse, -1)).max()
    return np.array([smallest]), np.array([largest])
