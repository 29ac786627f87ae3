"""State tracking: parity, turns and permutations by reflections, and their number."""

import itertools
from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Identity, Sides, identity
from ctlearn.mixers import delta_product, delta_rule
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import sqrt
from ctlearn.supplies import Supply
from ctlearn.tasks.state_tracking import swaps

CHAPTER = "11_test_time_regression"


def _through(k: np.ndarray, beta: np.ndarray, S: np.ndarray) -> np.ndarray:
    """What a token of Gated DeltaProduct leaves of a state: k [n_h, d], values zero."""
    nothing = np.zeros((len(k), S.shape[1]), dtype=S.dtype)
    kept = {"log_decay": 0 * S[0, 0], "S": S}
    _, after = delta_product.step(k[0], k, nothing, beta=beta, **kept)
    return after


def _bits(supply: Supply, T: int) -> Numbers:
    """Bits, and the states of the delta rule that reflects at every one."""
    one = supply.positive("c", 1)[0] ** 0
    x = np.array([t * (t + 1) // 2 % 2 * one for t in range(1, T + 1)])
    ones = np.array([[one]] * T)
    states = [
        delta_rule.recurrent(
            ones[:t], ones[:t], 0 * ones[:t], beta=2 * x[:t], S=ones[:1]
        )[1][0, 0]
        for t in range(T + 1)
    ]
    letters = {"x": x, "S": Rows(np.array(states), first=0)}
    return Numbers(letters, {"t": range(1, T + 1)})


@identity(
    title="One reflection a one-bit follows the parity of any number of bits",
    statement=r"S_t = (1 - 2 x_t) S_{t-1}, \qquad S_0 = 1, \qquad"
    r" S_t = (-1)^{\sum_{j=1}^{t} x_j}",
    source="grazzi2025, in secondary reading",
    citations=("grazzi2025",),
    equations=("eq-parity",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-parity"), AsPrinted(numbers=_bits, at={"floats": {"T": 6}})
    ),
    chapter="07_the_delta_rule",
    mutants={
        "a write of strength 1": {"beta": 1},
        "a reflection at every zero": {"turned": True},
        "the start is lost": {"start": 0},
    },
)
def parity(
    supply: Supply, d_v: int, *, beta: int = 2, turned: bool = False, start: int = 1
) -> dict[str, Sides]:
    """From any state: a zero keeps it, a one changes its sign."""
    S = supply.real("S", 1, d_v)
    S[0, 0] = 1 + S[0, 0] ** 2
    one = S[:, 0] ** 0

    def after(bit: int) -> np.ndarray:
        rate = beta * (1 - bit if turned else bit)
        return delta_rule.step(one, one, 0 * S[0], beta=rate, S=start * S)[1]

    return {"base": (after(0), S), "step": (after(1), -S)}


def _plane(supply: Supply) -> Numbers:
    """Two unit keys in the plane, and cosine and sine of the angle between them."""
    k = supply.unit("k", 2, 2)
    c, s = k[0] @ k[1], k[0, 0] * k[1, 1] - k[0, 1] * k[1, 0]
    return Numbers({"k": k, "c": c, "s": s})


@identity(
    title="Two reflections turn the plane by twice the angle between their keys",
    statement=r"(I - 2 k_2 k_2^\top) (I - 2 k_1 k_1^\top) ="
    r" \begin{pmatrix} c^2 - s^2 & -2 c s \\ 2 c s & c^2 - s^2 \end{pmatrix},"
    r" \qquad c = k_1^\top k_2, \qquad c^2 + s^2 = 1",
    source="siems2025, in secondary reading; elementary",
    citations=("siems2025",),
    equations=("eq-two-mirrors",),
    printed=dict.fromkeys((STATEMENT, "eq-two-mirrors"), AsPrinted(numbers=_plane)),
    chapter=CHAPTER,
    mutants={
        "the angle itself": {"single": True},
        "the reflections in the other order": {"order": -1},
        "writes of strength 1": {"beta": 1},
    },
    at={"symbols": {"d_v": 1}},
)
def rotation(
    supply: Supply,
    d_v: int,
    *,
    single: bool = False,
    order: int = 1,
    beta: int = 2,
) -> Sides:
    """One token of Gated DeltaProduct with two steps, from any state of the plane."""
    x = _plane(supply).letters
    k, c, s, S = x["k"], x["c"], x["s"], supply.real("S", 2, d_v)
    turn = np.array([[c, -s], [s, c]])
    rates = np.array([beta, beta]) * c**0
    return _through(k[::order], rates, S), (turn if single else turn @ turn) @ S


def _three_turns(supply: Supply) -> Numbers:
    """The second keys of three turns, of which the last is the sum of two."""
    a, b = supply.unit("a", 1, 2)[0], supply.unit("b", 1, 2)[0]
    c = np.array([a[0] * b[0] - a[1] * b[1], a[1] * b[0] + a[0] * b[1]])
    e = np.array([a[0] ** 0, 0 * a[0]])
    J = np.diag([-e[0], e[0]])
    return Numbers({"a": a, "b": b, "c": c, "e": e, "J": J})


@identity(
    title="Turns add, so two reflections a token count modulo any number",
    statement=r"J = I - 2 e e^\top, \qquad c_1 = a_1 b_1 - a_2 b_2, \qquad"
    r" c_2 = a_2 b_1 + a_1 b_2, \qquad"
    r" (I - 2 b b^\top) J (I - 2 a a^\top) J = (I - 2 c c^\top) J",
    source="siems2025, in secondary reading; elementary",
    citations=("siems2025",),
    printed={STATEMENT: AsPrinted(numbers=_three_turns)},
    chapter=CHAPTER,
    mutants={
        "the turns are taken from one another": {"sign": -1},
        "the second turn is lost": {"second": 0},
        "one reflection a token": {"steps": 1},
    },
    at={"symbols": {"d_v": 1}},
)
def turns_add(
    supply: Supply, d_v: int, *, sign: int = 1, second: int = 1, steps: int = 2
) -> Sides:
    """Two tokens, against one whose second key stands at the sum of the half turns."""
    x, S = _three_turns(supply).letters, supply.real("S", 2, d_v)
    other = np.array([x["b"][0], sign * x["b"][1]])
    first, then, both = (np.array([x["e"], y])[:steps] for y in (x["a"], other, x["c"]))
    rates = np.array([2 * x["e"][0]] * steps)
    now = _through(then, second * rates, _through(first, rates, S))
    return now, _through(both, rates, S)


def _units(supply: Supply, N: int) -> Numbers:
    """The unit vectors, and any other."""
    x, index = supply.real("x", N), range(1, N + 1)
    u = np.eye(N, dtype=int) * supply.positive("c", 1)[0] ** 0
    return Numbers({"u": u, "x": x}, {"i": index, "j": index})


@identity(
    title="To swap two coordinates is one reflection",
    statement=r"(I - (u_i - u_j) (u_i - u_j)^\top) x ="
    r" x + (x_j - x_i) u_i + (x_i - x_j) u_j",
    source="siems2025, in secondary reading; elementary",
    citations=("siems2025",),
    equations=("eq-swap",),
    printed=dict.fromkeys((STATEMENT, "eq-swap"), AsPrinted(numbers=_units)),
    chapter=CHAPTER,
    mutants={
        "a write of strength 1": {"beta": 1},
        "the key is the sum": {"sign": 1},
        "the key is not a unit vector": {"root": 1},
    },
    at={"symbols": {"N": 4}, "rationals": {"N": 4}},
)
def swap(
    supply: Supply,
    N: int,
    d_v: int,
    *,
    beta: int = 2,
    sign: int = -1,
    root: int = 2,
) -> dict[str, Sides]:
    """Every pair of rows of any state, by the delta rule at (u_i - u_j) / sqrt(2)."""
    S = supply.real("S", N, d_v)
    one = supply.positive("c", 1)[0] ** 0
    parts = {}
    for i, j in itertools.combinations(range(N), 2):
        k = np.zeros(N, dtype=S.dtype)
        k[i], k[j] = one / sqrt(root * one), sign * one / sqrt(root * one)
        order = list(range(N))
        order[i], order[j] = j, i
        _, after = delta_rule.step(k, k, 0 * S[0], beta=beta, S=S)
        parts[f"rows {i} and {j}"] = (after, S[order])
    return parts


def _word(n: int) -> Identity:
    """All n! permutations, from an arbitrary state, so words of any length."""

    def claim(
        supply: Supply,
        *,
        spare: int = 0,
        beta: int = 2,
        turned: bool = False,
    ) -> dict[str, Sides]:
        S = supply.real("S", n, 1)
        one = supply.positive("c", 1)[0] ** 0
        found, wanted = [], []
        for permutation in itertools.permutations(range(n)):
            k = np.zeros((n - 1, n), dtype=S.dtype)
            rates = np.zeros(n - 1, dtype=S.dtype)
            pairs = swaps(np.array(permutation))[: n - 1 - spare]
            for at, (i, j) in enumerate(reversed(pairs) if turned else pairs):
                k[at, i], k[at, j] = one / sqrt(2 * one), -one / sqrt(2 * one)
                rates[at] = beta * one
            found.append(_through(k, rates, S))
            wanted.append(S[list(permutation)])
        return {"base": (found[0], S), "step": (np.array(found), np.array(wanted))}

    return Identity(
        name=f"state-tracking-permutations-of-{n}",
        title=f"{n - 1} reflections a token follow every word of permutations of {n}",
        kind="identity",
        statement=rf"S_t = P_{{\sigma_t}} S_{{t-1}} \quad (\sigma_t \in S_{n}), \qquad"
        rf" P_\sigma = \prod_{{j=1}}^{{{n - 1}}} (I - \beta_j k_j k_j^\top),"
        r" \; \beta_j \in \{0, 2\}",
        source="siems2025, in secondary reading; the construction is elementary",
        citations=("siems2025",),
        chapter=CHAPTER,
        claim=claim,
        mutants={
            "one reflection fewer": {"spare": 1},
            "writes of strength 1": {"beta": 1},
            "the swaps in the other order": {"turned": True},
        },
    )


permutations_of_3 = _word(3)
permutations_of_5 = _word(5)


def _rank(M: np.ndarray) -> int:
    import sympy

    return int(sympy.Matrix(M).rank())


def _writes(supply: Supply, N: int) -> Numbers:
    """Writes in four channels, and a permutation of five with two cycles."""
    letters = {"k": supply.real("k", N, 4), r"\beta": supply.rate("b", N), "N": N}
    P = np.eye(5, dtype=int)[[1, 2, 0, 4, 3]] * supply.positive("c", 1)[0] ** 0
    return Numbers(letters | {"P": P, "n": 5, "c": 2})


@identity(
    title="A permutation takes n less its cycles of reflections, no fewer",
    kind="bound",
    statement=r"\operatorname{rank}\left(\prod_{j=1}^{N} (I - \beta_j k_j k_j^\top)"
    r" - I\right) \le N, \qquad \operatorname{rank}(P - I) = n - c",
    source="ours; elementary. Fewer can do on states other than the permuted ones",
    citations=("siems2025",),
    equations=("eq-fewest",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-fewest"), AsPrinted(numbers=_writes, worlds=("rationals",))
    ),
    chapter=CHAPTER,
    worlds=("rationals",),
    mutants={
        "one reflection fewer": {"spare": 1},
        "the cycles are not counted": {"cycles": 0},
        "fixed points are no cycles": {"fixed": 0},
    },
)
def fewest(
    supply: Supply, *, spare: int = 0, cycles: int = 1, fixed: int = 1
) -> dict[str, Sides]:
    """Products of N drawn writes, and all permutations of four by their swaps."""
    unit = np.eye(4, dtype=int) * supply.positive("c", 1)[0] ** 0
    parts = {}
    for N in range(1, 4):
        k, beta = supply.real(f"k{N}", N, 4), supply.rate(f"b{N}", N)
        whole = _through(k, beta, unit)
        parts[f"{N} writes"] = (np.asarray(_rank(whole - unit)), np.asarray(N - spare))
    needed, made = [], []
    for permutation in itertools.permutations(range(4)):
        counted = cycles * _cycles(permutation, fixed)
        needed += [4 - counted, _rank(unit[list(permutation)] - unit)]
        made += [
            _rank(unit[list(permutation)] - unit),
            len(swaps(np.array(permutation))),
        ]
    parts["permutations"] = (np.array(needed), np.array(made) - spare)
    return parts


def _cycles(permutation: tuple[int, ...], fixed: int) -> int:
    """How many cycles there are, those of one element counted `fixed` times."""
    left, count = set(range(len(permutation))), 0
    while left:
        at, length = left.pop(), 1
        while permutation[at] in left:
            at = permutation[at]
            left.remove(at)
            length += 1
        count += 1 if length > 1 else fixed
    return count


def _strengths(supply: Supply, d_k: int) -> Numbers:
    letters = {"k": supply.unit("k", 1, d_k)[0], "x": supply.real("x", d_k)}
    return Numbers(letters | {r"\beta": supply.rate("b", 1)[0]})


BOUNDED = ("rationals", "floats")


@identity(
    title="Up to strength 1 no write turns anything round",
    kind="bound",
    statement=r"k^\top k = 1, \quad 0 \le \beta \le 1, \quad"
    r" 0 \le x^\top (I - \beta k k^\top) x",
    source="grazzi2025, in secondary reading; elementary",
    citations=("grazzi2025",),
    equations=("eq-no-flip",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-no-flip"), AsPrinted(numbers=_strengths, worlds=BOUNDED)
    ),
    chapter=CHAPTER,
    worlds=BOUNDED,
    mutants={
        "half as strong again": {"halves": 3},
        "a key twice as long": {"longer": 2},
        "a tenth is left at least": {"least": 10},
    },
)
def no_negative_eigenvalue(
    supply: Supply, d_k: int, *, halves: int = 2, longer: int = 1, least: int = 0
) -> dict[str, Sides]:
    """A drawn strength and the largest, for any x and for the key itself."""
    k, x = longer * supply.unit("k", 1, d_k)[0], supply.real("x", d_k)
    most = k[0] ** 0 * halves / 2
    zero, parts = np.asarray(0 * most), {}
    for name, beta in (("drawn", most * supply.rate("b", 1)[0]), ("most", most)):
        for seen, y in (("any", x), ("along", k)):
            after = delta_rule.step(k, k, y[:1] * 0, beta=beta, S=y[:, None])[1][:, 0]
            floor = (y @ y) * least / 10
            parts[f"{name}, {seen}"] = (zero + floor, np.asarray(y @ after))
    return parts


def _sixty_degrees(supply: Supply) -> Numbers:
    """Unit keys at 0, 60 and 120 degrees."""
    one = supply.positive("c", 1)[0] ** 0
    half, high = one / 2, sqrt(3 * one) / 2
    return Numbers({"k": np.array([[one, 0 * one], [half, high], [-half, high]])})


@identity(
    title="Three writes up to strength 1 can turn a vector round, at an eighth",
    kind="counterexample",
    statement=r"\operatorname{tr}\left((I - k_3 k_3^\top) (I - k_2 k_2^\top)"
    r" (I - k_1 k_1^\top)\right) = -\frac{1}{8} < 0",
    source="ours; against: without negative eigenvalues no product has one",
    citations=("grazzi2025",),
    printed={STATEMENT: AsPrinted(numbers=_sixty_degrees, worlds=("rationals",))},
    worlds=("rationals",),
    chapter=CHAPTER,
    mutants={
        "two writes": {"writes": 2},
        "one write": {"writes": 1},
        "the second key again": {"third": 1},
    },
)
def three_projections(supply: Supply, *, writes: int = 3, third: int = 2) -> Sides:
    """Keys at 0, 60 and 120 degrees in the plane: the trace, and its absolute value.

    The product has rank one, so its trace is its eigenvalue.
    """
    k = _sixty_degrees(supply).letters["k"][[0, 1, third]][:writes]
    unit = np.eye(2, dtype=int) * k[0, 0] ** 0
    whole: Any = delta_rule.recurrent(k, k, 0 * k, beta=k[:, 0] ** 0, S=unit)[1]
    trace = np.array([np.trace(whole)])
    return trace, abs(trace)
