"""Traffic: what three kernels of one rule move and multiply, and the roofline."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ctlearn import memory
from ctlearn.counting import count
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.mixers import delta_rule
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Floats, Supply
from ctlearn.tasks import rounding, traffic

CHAPTER = "18_from_equation_to_kernel"
# sizes are whole numbers, and the largest of two is none of symbols
COUNTED = ("rationals", "floats")


def _machine(supply: Supply, N: int) -> Numbers:
    """N plans' bytes and operations, one machine's speeds, and the floors.

    The last plan waits for the memory, the others for the processor.
    """
    b, n = supply.positive("b", N), supply.positive("n", N)
    w, f = supply.positive("w", 1)[0], supply.positive("f", 1)[0]
    share = np.array([n_i * w / f for n_i in n])
    b = np.array([*(share[:-1] * (b / (b + 1))[:-1]), share[-1] * (b[-1] + 1)])
    t = [
        traffic.roofline(b_i, n_i, bandwidth=w, peak=f)
        for b_i, n_i in zip(b, n, strict=True)
    ]
    letters = {"m": b, "f": n, r"\bar{m}": w, r"\bar{f}": f, "t": np.array(t)}
    return Numbers(letters, {"i": range(1, N + 1)})


@identity(
    title="At the floor the speed is the processor's, or the memory's times intensity",
    statement=r"t_i = \max(m_i / \bar{m}, f_i / \bar{f}), \qquad"
    r" \frac{f_i}{t_i} = \min\left(\bar{f}, \bar{m} \frac{f_i}{m_i}\right)",
    source="williams2009, section 3",
    citations=("williams2009",),
    worlds=COUNTED,
    equations=("def-roofline", "eq-roofline"),
    printed=dict.fromkeys(
        (STATEMENT, "def-roofline", "eq-roofline"),
        AsPrinted(numbers=_machine, worlds=COUNTED),
    ),
    chapter=CHAPTER,
    mutants={
        "the faster of the two decides": {"bound": min},
        "the two take turns": {"bound": lambda *x: sum(x)},
        "memory alone": {"bound": lambda b, n: b},
    },
)
def roofline(supply: Supply, N: int, *, bound: Callable = max) -> Sides:
    """Speed from time, against the lower of two roofs."""
    x = _machine(supply, N).letters
    w, f, plans = x[r"\bar{m}"], x[r"\bar{f}"], list(zip(x["m"], x["f"], strict=True))
    speeds = [n / bound(b / w, n / f) for b, n in plans]
    return np.array(speeds), np.array([min(f, w * n / b) for b, n in plans])


def _exact(supply: Supply, x: Fraction) -> Any:
    """The fraction among the supply's numbers."""
    one = supply.positive("one", 1)[0] ** 0
    return one * x.numerator / x.denominator


def _bytes(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    sizes = traffic.Sizes(d_k, d_v, C)
    letters: dict[str, Any] = {"C": C, "d_k": d_k, "d_v": d_v}
    for i, rung in enumerate(("recurrent", "naive_chunkwise", "chunkwise"), 1):
        launches = traffic.PLANS[rung].values()
        told = traffic.numbers(" ".join(launches).split(), sizes)
        letters[f"m_{i}"] = _exact(supply, 2 * told)
    return Numbers(letters)


RUNG_BYTES = (
    r"m_1 = 2 (2 d_k + 2 d_v + 1), \qquad"
    r" m_2 = 2 (7 d_k + 6 d_v + 2 C + 2 d_k d_v / C + 2), \qquad"
    r" m_3 = 2 (3 d_k + 2 d_v + 2 C + 2)"
)


@identity(
    title="What each rung of the ladder moves, a token and head",
    statement=RUNG_BYTES,
    source="ours; counted, and held to the addresses that the kernels touch",
    worlds=COUNTED,
    equations=("eq-rung-bytes",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-rung-bytes"),
        AsPrinted(numbers=_bytes, worlds=COUNTED, at={"floats": {"C": 7, "d_k": 5}}),
    ),
    chapter=CHAPTER,
    at={"floats": {"C": 7, "d_k": 5}},
    mutants={
        "keys are read by one launch only": {"without": "k"},
        "states are not stored": {"without": "before"},
        "the solved matrix stays on the chip": {"without": "A"},
        "outputs cost nothing": {"without": "o"},
    },
)
def rung_bytes(
    supply: Supply, C: int, d_k: int, d_v: int, *, without: str = ""
) -> dict[str, Sides]:
    """The tensors of all launches together, against the sums by kind."""
    one = supply.positive("one", 1) ** 0
    sizes, state = traffic.Sizes(d_k, d_v, C), Fraction(2 * d_k * d_v, C)
    wanted = {
        "recurrent": Fraction(2 * d_k + 2 * d_v + 1),
        "naive_chunkwise": 7 * d_k + 6 * d_v + 2 * C + state + 2,
        "chunkwise": Fraction(3 * d_k + 2 * d_v + 2 * C + 2),
    }
    sides = {}
    for rung, sum_of_kinds in wanted.items():
        launches = [x.split() for x in traffic.PLANS[rung].values()]
        kept = [[n for n in names if n != without] for names in launches]
        told = sum(traffic.numbers(names, sizes) for names in kept)
        scale = one * C
        sides[rung] = (scale * int(told * C), scale * int(sum_of_kinds * C))
    return sides


def _given(C: int, d_k: int, d_v: int) -> tuple[np.ndarray, ...]:
    """A chunk's q, k, v, the solved matrix without its ones, and the state before."""
    numbers = Floats(0)
    q, k = numbers.real("q", C, d_k), numbers.real("k", C, d_k)
    L = np.tril(k @ k.T, -1)
    A = memory.solve_unit_lower(L, np.eye(C)) - np.eye(C)
    return q, k, numbers.real("v", C, d_v), A, numbers.real("S", d_k, d_v)


def _naive(q: Any, k: Any, v: Any, A: Any, S: Any) -> None:
    """The second rung's products."""
    k @ k.T, A @ k, A @ v
    R = v - k @ S
    q @ S + np.tril(q @ k.T) @ R, k.T @ R


def _fused(q: Any, k: Any, v: Any, A: Any, S: Any, programs: int) -> None:
    """The third rung's, a program for some columns of the values."""
    k @ k.T
    for columns in np.split(np.arange(v.shape[1]), programs):
        part, own = v[:, columns], S[:, columns]
        R = A @ (part - k @ own)
        q @ own + np.tril(q @ k.T) @ R, k.T @ R


def _work(C: int, d_k: int, d_v: int, p: int) -> list[int]:
    """Multiplications of the three rungs in a chunk, counted."""
    x = _given(C, d_k, d_v * p)
    q, k, v, _, S = x
    ones = np.ones(C)
    first = count(delta_rule.recurrent, q, k, v, beta=ones, S=S)
    return [first.products, count(_naive, *x).products, count(_fused, *x, p).products]


def _work_numbers(supply: Supply, C: int, d_k: int, d_v: int, N: int) -> Numbers:
    counted = _work(C, d_k, d_v, N)
    letters: dict[str, Any] = {"C": C, "d_k": d_k, "d_v": d_v * N, "g": N}
    letters |= {
        f"f_{i}": _exact(supply, Fraction(2 * n, C)) for i, n in enumerate(counted, 1)
    }
    return Numbers(letters)


WORK = AsPrinted(
    numbers=_work_numbers, worlds=COUNTED, at={"floats": {"C": 7, "d_k": 5, "N": 3}}
)


@identity(
    title="What each rung multiplies, with g programs to a head",
    statement=r"f_1 = 6 d_k d_v, \qquad f_2 = 6 d_k d_v + 2 C (3 d_k + 2 d_v),"
    r" \qquad f_3 = 6 d_k d_v + 2 C ((1 + g) d_k + 2 d_v)",
    source="ours; counted, but for the triangular system",
    worlds=COUNTED,
    equations=("eq-rung-work",),
    printed=dict.fromkeys((STATEMENT, "eq-rung-work"), WORK),
    chapter=CHAPTER,
    at={"floats": {"C": 7, "d_k": 5, "N": 3}},
    mutants={
        "scores are shared by all programs": {"shared": True},
        "the state is not read at the keys": {"state": 2},
        "no product with the solved matrix": {"values": 1},
    },
)
def rung_work(
    supply: Supply,
    C: int,
    d_k: int,
    d_v: int,
    N: int,
    *,
    shared: bool = False,
    state: int = 3,
    values: int = 2,
) -> dict[str, Sides]:
    """NumPy's products, against the sums that the package reports."""
    one = supply.positive("one", 1) ** 0
    counted, wide = _work(C, d_k, d_v, N), d_v * N
    sizes = traffic.Sizes(d_k, wide, C, d_v)
    whole, scores = state * d_k * wide, 2 if shared else 1 + N
    told = {
        "recurrent": whole,
        "naive_chunkwise": whole + C * (3 * d_k + values * wide),
        "chunkwise": whole + C * (scores * d_k + values * wide),
    }
    sides = {}
    for n, (rung, by_hand) in zip(counted, told.items(), strict=True):
        sides[rung] = (n * one, C * by_hand * one)
        sides[f"{rung}, reported"] = (
            n * one,
            C * traffic.multiplications(rung, sizes) * one,
        )
    return sides


def _one_chunk(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    """A chunk's tokens and matrices, and what the recurrence writes in it."""
    k, v, beta = supply.real("k", C, d_k), supply.real("v", C, d_v), supply.rate("b", C)
    S = supply.real("S", d_k, d_v)
    L = np.tril(beta[:, None] * (k @ k.T), -1)
    A = memory.solve_unit_lower(L, np.eye(C, dtype=int) + 0 * L) - np.eye(C, dtype=int)
    now, written = S, []
    for k_t, v_t, rate in zip(k, v, beta, strict=True):
        written.append(rate * (v_t - now.T @ k_t))
        now = now + np.outer(k_t, written[-1])
    rated = beta[:, None] * k, beta[:, None] * v
    W, U = (y + A @ y for y in rated)
    X = beta[:, None] * (v - k @ S)
    letters = {"K": k, "V": v, r"\beta": beta, "S": S, "A": A, "W": W, "U": U, "X": X}
    return Numbers(letters | {"R": np.array(written)})


def _free(*, ones: int = 1, state: int = 1) -> Sides:
    import sympy

    A, b, V, K, S = sympy.symbols("A b V K S", commutative=False)
    X = b * (V - state * K * S)
    return (1 + A) * b * V - (1 + A) * b * K * S, ones * X + A * X


@identity(
    title="Errors first, then one product with the solved matrix, in the place of two",
    statement=r"X = \mathrm{Diag}(\beta) (V - K S), \qquad R = U - W S = X + A X",
    source="ours; the split is that of kernels which solve, then scan",
    equations=("eq-one-product",),
    printed=dict.fromkeys((STATEMENT, "eq-one-product"), AsPrinted(numbers=_one_chunk)),
    chapter=CHAPTER,
    free=_free,
    mutants={
        "the ones are forgotten": {"ones": 0},
        "the state is not read": {"state": 0},
        "the state is added": {"state": -1},
    },
)
def one_product(
    supply: Supply, C: int, d_k: int, d_v: int, *, ones: int = 1, state: int = 1
) -> dict[str, Sides]:
    """What the recurrence writes in a chunk from any state, against both forms."""
    x = _one_chunk(supply, C, d_k, d_v).letters
    X = x[r"\beta"][:, None] * (x["V"] - state * x["K"] @ x["S"])
    return {
        "two products": (x["R"], x["U"] - x["W"] @ x["S"]),
        "one": (x["R"], ones * X + x["A"] @ X),
    }


def _rounded(supply: Supply) -> Numbers:
    x = supply.real("x", 1).astype("float32").astype("float64")
    half = rounding.half(x).astype("float64")
    return Numbers({"x": x[0], r"\hat{x}": half[0]})


@identity(
    title="Half precision keeps eight digits of two: off by a 256th at most",
    kind="bound",
    statement=r"\left| \hat{x} - x \right| \le 2^{-8} \left| x \right|",
    source="elementary; of bfloat16, to the nearest",
    worlds=("floats",),
    equations=("eq-half",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-half"), AsPrinted(numbers=_rounded, worlds=("floats",))
    ),
    chapter=CHAPTER,
    mutants={
        "truncated": {"truncated": True},
        "nine digits": {"digits": 9},
        "rounded, and rounded up": {"more": True},
    },
)
def half(
    supply: Supply, *, truncated: bool = False, digits: int = 8, more: bool = False
) -> Sides:
    """Every size within an octave, and every octave of a few."""
    x = np.outer(2.0 ** np.arange(-5, 6), np.linspace(1, 2, 999)).ravel()
    x = np.concatenate([x, -x]).astype(np.float32)
    found = rounding.half(x)
    if truncated:
        found = (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    if more:
        found = np.nextafter(found, np.float32(np.inf)) + 2.0**-7 * np.abs(x)
    off = np.abs(found.astype("float64") - x)
    return off, 2.0**-digits * np.abs(x.astype("float64"))
