"""Many writes of the delta rule: what is left of each, of repeats, and of blow-ups."""

from typing import Any

import numpy as np

from ctlearn.identities.delta_rule import CHAPTER, sequence, token
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.mixers import (
    delta_rule,
    linear_attention,
    normalised_least_mean_squares,
)
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import sqrt
from ctlearn.supplies import Supply


def _left(k: np.ndarray, beta: np.ndarray, S: np.ndarray) -> np.ndarray:
    """What tokens of value zero, in turn, leave of a state."""
    nothing = np.zeros((len(k), S.shape[1]), dtype=k.dtype)
    return delta_rule.recurrent(k, k, nothing, beta=beta, S=S)[1]


@identity(
    title="What is left of each write is what the later ones let through",
    statement=r"S_T = \left(\prod_{i=1}^{T}"
    r" (I - \beta_{T+1-i} k_{T+1-i} k_{T+1-i}^\top)\right) S_0"
    r" + \sum_{j=1}^{T} \left(\prod_{i=1}^{T-j}"
    r" (I - \beta_{T+1-i} k_{T+1-i} k_{T+1-i}^\top)\right) \beta_j k_j v_j^\top",
    source="yang2024deltanet, its unrolled recurrence, from memory",
    citations=("yang2024deltanet",),
    printed={STATEMENT: AsPrinted(numbers=sequence)},
    mutants={
        "a write passes through its own erasure": {"own": True},
        "the later writes come first": {"turned": True},
        "the start is not erased": {"start": False},
        "writes fade by nothing": {"fading": False},
    },
    at={"symbols": {"T": 2}},
)
def unrolled(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    own: bool = False,
    turned: bool = False,
    start: bool = True,
    fading: bool = True,
) -> dict[str, Sides]:
    """One more token on a sum of what T writes have left: a proof for every T.

    `now` [T + 1, d_k, d_k] holds arbitrary transitions up to now, from each boundary.
    """
    k, v, beta, S = token(supply, d_k, d_v)
    now = supply.real("A", T + 1, d_k, d_k)
    keys, values = supply.real("w", T, d_k), supply.real("z", T, d_v)
    outer = [np.outer(*pair) for pair in zip(keys, values, strict=True)]
    so_far = now[0] @ S + sum(A @ x for A, x in zip(now[1:], outer, strict=True))
    step = np.eye(d_k, dtype=int) - beta * np.outer(k, k)
    later = [A @ step if turned else step @ A for A in now]
    kept = (later if start else now)[0] @ S
    terms = zip((later if fading else now)[1:], outer, strict=True)
    written = (step if own else np.eye(d_k, dtype=int)) @ (beta * np.outer(k, v))
    _, after = delta_rule.step(k, k, v, beta=beta, S=so_far)
    rates = supply.rate("c", T)
    none = (x[:0] for x in (keys, keys, values))
    _, before = delta_rule.recurrent(*none, beta=rates[:0], S=S)
    return {
        "base": (before, S),
        "step": (after, kept + sum(A @ x for A, x in terms) + written),
    }


def _printed_repeats(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    """One pair, N rates, and what the package makes of them."""
    k, v, _, S = token(supply, d_k, d_v)
    beta = supply.rate("b", N)
    keys, values = np.array([k] * N), np.array([v] * N)
    _, after = delta_rule.recurrent(keys, keys, values, beta=beta, S=S)
    one = 1
    for rate in beta:
        one = one * (1 - rate * (k @ k))
    letters = {"k": k, "v": v, r"\beta": beta, r"\beta^\star": (1 - one) / (k @ k)}
    return Numbers(letters | {"N": N, "S_0": S, "S_N": after})


REPEATS = {
    STATEMENT: AsPrinted(
        numbers=_printed_repeats, at={"symbols": {"N": 2, "d_k": 2, "d_v": 2}}
    )
}


@identity(
    title="A pair written N times is the pair written once, with one step size for all",
    statement=r"\beta^\star k^\top k = 1 - \prod_{j=1}^{N} (1 - \beta_j k^\top k),"
    r" \qquad S_N = S_0 + \beta^\star k (v - S_0^\top k)^\top",
    source="ours; siems2025 takes several steps at a token, of different keys",
    citations=("siems2025",),
    equations=("eq-said-again",),
    printed=REPEATS | {"eq-said-again": REPEATS[STATEMENT]},
    chapter="11_test_time_regression",
    mutants={
        "the step sizes add": {"added": True},
        "the key's length does not matter": {"length": 0},
        "what is left is multiplied, not what is done": {"complement": False},
    },
)
def repeated_pair(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    added: bool = False,
    length: int = 1,
    complement: bool = True,
) -> dict[str, Sides]:
    """One more write after writes of any total `done`, the share of the error mended.

    Induction over N: done starts at 0, and the state is S + done k error' / k'k.
    """
    k, v, beta, S = token(supply, d_k, d_v)
    done = supply.rate("p", 1)[0]
    square = k @ k
    error = np.outer(k, v - S.T @ k) / square
    share = beta * square**length
    after = done + share if added else 1 - (1 - done) * (1 - share)
    if not complement:
        after = done * share
    _, new = delta_rule.step(k, k, v, beta=beta, S=S + done * error)
    _, first = delta_rule.step(k, k, v, beta=beta, S=S)
    return {"base": (first, S + share * error), "step": (new, S + after * error)}


def _slanted(one: Any, cosine: Any) -> np.ndarray:
    """Two unit keys with this cosine, 3/5, 0 or 1, whose sine is rational, too."""
    sine = 4 * one / 5 if cosine == 3 * one / 5 else 1 - cosine
    return np.array([[one, 0 * one], [cosine, sine]])


def _passes(keys: np.ndarray, turns: tuple[int, ...]) -> np.ndarray:
    """The state [2, 1] after these keys in turn, all of value 1 and step size 1."""
    k = keys[list(turns)]
    ones = k[:, :1] ** 0
    return delta_rule.recurrent(k, k, ones, beta=ones[:, 0])[1]


def _two_orders(supply: Supply) -> Numbers:
    one = supply.positive("c", 1)[0] ** 0
    k = _slanted(one, 3 * one / 5)
    states = {
        "S_1122": _passes(k, (0, 0, 1, 1)),
        "S_1212": _passes(k, (0, 1, 0, 1)),
    }
    return Numbers(states | {"k": k, "v": np.array([one, one])})


@identity(
    title="Repeating each write is not a second pass",
    kind="counterexample",
    statement=r"k_1^\top k_2 = \tfrac{3}{5}, \qquad"
    r" \lVert v_1 - S_{1122}^\top k_1 \rVert = \tfrac{6}{25} \ne \tfrac{54}{625}"
    r" = \lVert v_1 - S_{1212}^\top k_1 \rVert",
    source="ours; against: writing a pair again helps to recall it",
    printed={STATEMENT: AsPrinted(numbers=_two_orders, worlds=("rationals",))},
    worlds=("rationals",),
    mutants={
        "the second pass repeats in place": {"order": (0, 0, 1, 1)},
        "the keys are at a right angle": {"cosine": 0},
        "the keys are one": {"cosine": 1},
    },
)
def repeating_is_no_pass(
    supply: Supply, *, order: tuple[int, ...] = (0, 1, 0, 1), cosine: Any = None
) -> Sides:
    """Two keys with cosine 3/5, both of value 1, step size 1: errors at the first."""
    one = supply.positive("c", 1)[0] ** 0
    repeated, passed = (0, 0, 1, 1), order
    keys = _slanted(one, 3 * one / 5 if cosine is None else cosine * one)
    errors = [1 - _passes(keys, turns).T @ keys[0] for turns in (repeated, passed)]
    return np.abs(errors[0]), np.abs(errors[1])


def _once(supply: Supply) -> Numbers:
    """The same two pairs, written once by the delta rule and by linear attention."""
    one = supply.positive("c", 1)[0] ** 0
    k = _slanted(one, 3 * one / 5)
    letters = {"k": k, "v": np.array([one, one]), "S": _passes(k, (0, 1))}
    return Numbers(letters | {"L": k.T @ letters["v"][:, None]})


@identity(
    title="One pass of the delta rule need not recall two independent pairs",
    kind="counterexample",
    statement=r"k_1^\top k_2 = \tfrac{3}{5}, \qquad"
    r" v_1 - S^\top k_1 = -\tfrac{6}{25} \ne 0, \qquad"
    r" v_1 - \tfrac{5}{8} L^\top k_1 = v_2 - \tfrac{5}{8} L^\top k_2 = 0",
    source="ours; against: the delta rule stores d_k pairs, linear attention fewer",
    citations=("yang2024deltanet",),
    printed={STATEMENT: AsPrinted(numbers=_once, worlds=("rationals",))},
    worlds=("rationals",),
    mutants={
        "the keys are at a right angle": {"cosine": 0},
        "the keys are one": {"cosine": 1},
        "the second pair is asked for": {"asked": 1},
    },
)
def one_pass(supply: Supply, *, cosine: Any = None, asked: int = 0) -> Sides:
    """Errors of the delta rule, and of linear attention with one scale for all."""
    one = supply.positive("c", 1)[0] ** 0
    c = 3 * one / 5 if cosine is None else cosine * one
    keys = _slanted(one, c)
    added = linear_attention.recurrent(keys, keys, keys[:, :1] ** 0)[1] / (1 + c)
    errors = [1 - S.T @ keys[asked] for S in (_passes(keys, (0, 1)), added)]
    return errors[0], errors[1]


def _grown(one: np.ndarray, halves: int, T: int) -> np.ndarray:
    """What T tokens of value zero leave of a state of 1 [1, 1], at one key of 1."""
    k = np.repeat(one, T, axis=0)
    return _left(k, halves * k[:, 0] / 2, one)


def _growing(supply: Supply) -> Numbers:
    one = supply.positive("c", 1, 1) ** 0
    letters = {"k": one, r"\beta": 5 * one[0, 0] / 2, "S_0": one}
    return Numbers(letters | {"S_12": _grown(one, 5, 12)})


@identity(
    title="A step size of 5/2 makes a memory of nothing grow",
    kind="counterexample",
    statement=r"\beta k^\top k = \tfrac{5}{2}, \qquad"
    r" \lVert S_{12} \rVert = \left(\tfrac{3}{2}\right)^{12} \lVert S_0 \rVert"
    r" > 129 \lVert S_0 \rVert",
    source="ours; against: a step down the slope does no harm",
    printed={STATEMENT: AsPrinted(numbers=_growing, worlds=("rationals",))},
    worlds=("rationals",),
    mutants={
        "a step size of 2": {"halves": 4},
        "no step": {"halves": 0},
        "no token": {"T": 0},
    },
)
def blow_up(supply: Supply, *, halves: int = 5, T: int = 12) -> Sides:
    """One key in one dimension, twelve tokens of value zero, from a state of 1."""
    one = supply.positive("c", 1, 1) ** 0
    return np.abs(_grown(one, halves, T)), one


@identity(
    title="Along its key a repeated token multiplies the state by one number",
    statement=r"S_N^\top k - v ="
    r" \left(\prod_{j=1}^{N} (1 - \beta_j k^\top k)\right) (S_0^\top k - v)",
    source="ours; elementary",
    printed=REPEATS,
    mutants={
        "every error is mended at once": {"power": 0},
        "the key's length does not matter": {"length": 0},
        "steps up the slope": {"sign": -1},
    },
)
def error_shrinks(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    power: int = 1,
    length: int = 1,
    sign: int = 1,
) -> dict[str, Sides]:
    """From any state that is off by any error: one token more."""
    k, v, beta, S = token(supply, d_k, d_v)
    error = S.T @ k - v
    left = 1 - sign * beta * (k @ k) ** length
    _, new = delta_rule.step(k, k, v, beta=beta, S=S)
    _, same = delta_rule.step(k, k, v, beta=0 * beta, S=S)
    return {
        "base": (same.T @ k - v, error),
        "step": (new.T @ k - v, left * power * error),
    }


def _printed_two(supply: Supply, d_k: int) -> Numbers:
    """Two keys, their rates and transitions."""
    k, beta = supply.real("k", 2, d_k), supply.rate("b", 2)
    unit = np.eye(d_k, dtype=int)
    A = [unit - beta[i] * np.outer(k[i], k[i]) for i in range(2)]
    return Numbers({"k": k, r"\beta": beta, "A": np.array(A)})


def _commutator_free(*, second: int = 1, overlap: bool = True) -> Sides:
    import sympy

    k, kt, p, pt = sympy.symbols("k k^T p p^T", commutative=False)
    a, b = sympy.symbols("a b")
    A, B = 1 - a * k * kt, 1 - b * p * pt
    middle = (kt * p, pt * k) if overlap else (1, 1)
    return A * B - B * A, a * b * (k * middle[0] * pt - second * p * middle[1] * kt)


@identity(
    title="Two writes in the other order differ by their keys' overlap",
    statement=r"A_1 A_2 - A_2 A_1 ="
    r" \beta_1 \beta_2 (k_1^\top k_2) (k_1 k_2^\top - k_2 k_1^\top)",
    source="ours; elementary",
    equations=("eq-commutator",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-commutator"), AsPrinted(numbers=_printed_two)
    ),
    chapter="08_the_delta_rule_in_parallel",
    mutants={
        "only one of the two outer products": {"second": 0},
        "a sum in the place of the difference": {"second": -1},
        "the overlap is left out": {"overlap": False},
    },
    free=_commutator_free,
)
def commutator(
    supply: Supply, d_k: int, d_v: int, *, second: int = 1, overlap: bool = True
) -> Sides:
    """Tokens of value zero read in both orders, from any state."""
    k, beta = supply.real("k", 2, d_k), supply.rate("b", 2)
    k[:, 0] = 1 + k[:, 0] ** 2
    S = supply.real("S", d_k, d_v)
    gap = _left(k[::-1], beta[::-1], S) - _left(k, beta, S)
    seen = beta[0] * beta[1] * (k[0] @ k[1] if overlap else 1)
    outer = np.outer(k[0], k[1]) - second * np.outer(k[1], k[0])
    return gap, seen * outer @ S


def _printed_projection(supply: Supply, d_k: int, d_v: int) -> Numbers:
    """The state that NLMS goes to, and how another that answers as well differs."""
    k, v, _, S = token(supply, d_k, d_v)
    _, nearest = normalised_least_mean_squares.step(k, k, v, mu=1, eps=0, S=S)
    any_state = supply.real("E", d_k, d_v)
    E = any_state - np.outer(k, any_state.T @ k) / (k @ k)
    P = np.eye(d_k, dtype=int) - np.outer(k, k) / (k @ k)
    letters = {"k": k, "v": v, r"\beta": 1 / (k @ k), "E": E, "P": P}
    return Numbers(letters | {"S": Rows(np.array([S, nearest]), first=0)})


@identity(
    title="A step of 1 / k'k projects: what stood at the key is gone, the rest is kept",
    statement=r"P = I - \frac{1}{k^\top k} k k^\top, \qquad P^2 = P, \qquad P k = 0,"
    r" \qquad S_1 = P S_0 + \frac{1}{k^\top k} k v^\top",
    source="nagumo1967; elementary",
    citations=("nagumo1967",),
    equations=("eq-new-value",),
    printed={
        "eq-new-value": AsPrinted(numbers=_printed_projection),
        STATEMENT: AsPrinted(
            numbers=_printed_projection,
            equivalent={
                "2 → 3 (line 1, column 47)": "a projection's powers are all the same",
                "0 → 1 (line 1, column 87)": "P makes the same of both states",
            },
        ),
    },
    chapter=CHAPTER,
    mutants={
        "half of the step": {"halve": 2},
        "twice the step": {"twice": 2},
        "the key's length instead of its square": {"length": 0},
    },
)
def projection(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    halve: int = 1,
    twice: int = 1,
    length: int = 1,
) -> dict[str, Sides]:
    """The delta rule with that step; twice is once; and it is NLMS's own step."""
    k, v, _, S = token(supply, d_k, d_v)
    rate = twice / (k @ k) ** length / halve
    once = delta_rule.step(k, k, v, beta=rate, S=S)[1]
    again = delta_rule.step(k, k, v, beta=rate, S=once)[1]
    kaczmarz = normalised_least_mean_squares.step(k, k, v, mu=1, eps=0, S=S)[1]
    return {"twice": (again, once), "answer": (once.T @ k, v), "NLMS": (once, kaczmarz)}


SAME_WAY_BACK = "-E is such a difference, too"


@identity(
    title="Of all states that return v at k, the projection changes least",
    statement=r"k^\top E = 0, \qquad S_1^\top k = v, \qquad"
    r" \lVert S_1 + E - S_0 \rVert^2 = \lVert S_1 - S_0 \rVert^2 + \lVert E \rVert^2",
    source="nagumo1967; Kaczmarz's projection",
    citations=("nagumo1967",),
    equations=("eq-least-change",),
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_projection,
            equivalent={"+ → - (line 1, column 56)": SAME_WAY_BACK},
            at={"symbols": {"d_v": 2}},
        ),
        "eq-least-change": AsPrinted(
            numbers=_printed_projection,
            equivalent={"+ → - (line 1, column 12)": SAME_WAY_BACK},
            at={"symbols": {"d_v": 2}},
        ),
    },
    chapter=CHAPTER,
    mutants={
        "a step of half the size": {"halve": 2},
        "a state that answers otherwise": {"free": 0},
        "the distance to the new state": {"start": 0},
    },
    at={"symbols": {"d_v": 2}},
)
def least_change(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    halve: int = 1,
    free: int = 1,
    start: int = 1,
) -> dict[str, Sides]:
    """Any other state that answers as well is S_1 + E with k'E = 0."""
    k, v, _, S = token(supply, d_k, d_v)
    new = normalised_least_mean_squares.step(k, k, v, mu=k[0] ** 0 / halve, eps=0, S=S)[
        1
    ]
    other = supply.real("E", d_k, d_v)
    other[0] = other[0] ** 2 + 3
    E = other - free * np.outer(k, other.T @ k) / (k @ k)
    here = start * S
    far, near = ((new + E - here) ** 2).sum(), ((new - here) ** 2).sum()
    return {
        "answer": ((new + E).T @ k, v),
        "distance": (np.asarray(far), np.asarray(near + (E**2).sum())),
    }


def _printed_turns(supply: Supply, d_k: int, d_v: int) -> Numbers:
    """Two unit keys; the states once the first is right, then the second, the first."""
    k, v = supply.unit("k", 2, d_k), supply.real("v", 2, d_v)
    S = supply.real("S", d_k, d_v)
    S = S + np.outer(k[0], v[0] - S.T @ k[0])
    turns = np.array([1, 0])
    states = [S]
    for t in (1, 2):
        told, one = turns[:t], k[:t, 0] ** 0
        _, after = delta_rule.recurrent(k[told], k[told], v[told], beta=one, S=S)
        states.append(after)
    return Numbers({"k": k, "v": v, "S": Rows(np.array(states), first=0)})


def _turns_free(*, power: int = 2, sign: int = 1) -> Sides:
    """Rows r of errors: v_1' = k_1'S, v_2' = k_2'S + r; the keys have length one."""
    import sympy

    k, kt, p, pt, S, r = sympy.symbols("k k^T p p^T S r", commutative=False)
    second = S + p * r
    third = second + k * (kt * S - kt * second)
    left = sympy.expand(pt * S + r - pt * third).subs(pt * p, 1)
    overlap = (pt * k) * (kt * p) if power == 2 else pt * k
    return left, sign * overlap * r


@identity(
    title="Two pairs in turn: each write moves the other's error on, by the overlap",
    statement=r"v_1 - S_1^\top k_1 = -(k_1^\top k_2) (v_2 - S_0^\top k_2), \qquad"
    r" v_2 - S_2^\top k_2 = (k_1^\top k_2)^2 (v_2 - S_0^\top k_2)",
    source="ours; Kaczmarz's projections, two of them",
    citations=("kaczmarz1937",),
    equations=("eq-taking-turns",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-taking-turns"),
        AsPrinted(numbers=_printed_turns, worlds=("rationals", "floats")),
    ),
    chapter=CHAPTER,
    # keys of length one take minutes to multiply out; the free form is the proof
    worlds=("rationals", "floats"),
    mutants={
        "an error is handed on with its sign": {"sign": -1},
        "a round multiplies by the overlap once": {"power": 1},
        "keys of length two": {"longer": 2},
        "half a step": {"halve": 2},
    },
    free=_turns_free,
)
def taking_turns(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    sign: int = 1,
    power: int = 2,
    longer: int = 1,
    halve: int = 1,
) -> dict[str, Sides]:
    """From any state that is right at the first key: the second is told, the first."""
    k, v = longer * supply.unit("k", 2, d_k), supply.real("v", 2, d_v)
    S = supply.real("S", d_k, d_v)
    S = S + np.outer(k[0], v[0] - S.T @ k[0]) / longer**2
    beta = k[0, 0] ** 0 / halve
    wrong, overlap = v[1] - S.T @ k[1], k[0] @ k[1]
    _, S = delta_rule.step(k[1], k[1], v[1], beta=beta, S=S)
    handed_on = v[0] - S.T @ k[0]
    _, S = delta_rule.step(k[0], k[0], v[0], beta=beta, S=S)
    return {
        "handed on": (handed_on, -sign * overlap * wrong),
        "a round": (v[1] - S.T @ k[1], sign * overlap**power * wrong),
    }


def _printed_share(supply: Supply, d_k: int, d_v: int) -> Numbers:
    """A key of any length, NLMS's step size without a guard, and its states."""
    k, v, mu, S = token(supply, d_k, d_v)
    _, after = normalised_least_mean_squares.step(k, k, v, mu=mu, eps=0, S=S)
    letters = {"k": k, "v": v, r"\mu": mu, r"\beta": mu / (k @ k)}
    return Numbers(letters | {"S": Rows(np.array([S, after]), first=0)})


@identity(
    title="Divided by the key's square, a step mends one share of any error",
    statement=r"\beta = \frac{\mu}{k^\top k}, \qquad"
    r" v - S_1^\top k = (1 - \mu) (v - S_0^\top k)",
    source="nagumo1967; elementary",
    citations=("nagumo1967",),
    equations=("eq-share",),
    printed=dict.fromkeys((STATEMENT, "eq-share"), AsPrinted(numbers=_printed_share)),
    chapter=CHAPTER,
    mutants={
        "divided by the length, not its square": {"root": True},
        "the share is what is left": {"left": True},
        "a guard that is not small": {"guard": 1},
    },
)
def share_mended(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    root: bool = False,
    left: bool = False,
    guard: int = 0,
) -> dict[str, Sides]:
    """The NLMS reference at any key, and the delta rule with that step size."""
    k, v, mu, S = token(supply, d_k, d_v)
    k[0] = 2 + k[0]  # no key of length one, whose square is its length
    given = {"mu": mu, "eps": guard * k[0] ** 0, "S": S}
    _, after = normalised_least_mean_squares.step(k, k, v, **given)
    rate = mu / (sqrt(k @ k) if root else k @ k)
    _, same = delta_rule.step(k, k, v, beta=rate, S=S)
    error = v - S.T @ k
    kept = mu if left else 1 - mu
    return {"error": (v - after.T @ k, kept * error), "delta rule": (same, after)}
