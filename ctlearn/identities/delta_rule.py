"""The delta rule: what one write does to all that was there before, and many do."""

from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.slopes import slope, squared
from ctlearn.mixers import delta_rule
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.supplies import Supply

SOURCE = "zhou2026beyond, the delta rule one line at a time"
CHAPTER = "07_the_delta_rule"


def _after(S: np.ndarray, k: np.ndarray, beta: Any) -> np.ndarray:
    """The state after a token of value zero: (I - beta kk') S."""
    nothing = 0 * S[0]
    return delta_rule.step(k, k, nothing, beta=beta, S=S)[1]


def token(supply: Supply, d_k: int, d_v: int) -> tuple[Any, ...]:
    """A key, a value, a rate and a state, none of them zero."""
    k, v, S = supply.real("k", d_k), supply.real("v", d_v), supply.real("S", d_k, d_v)
    k[0], v[0] = 1 + k[0] ** 2, 9 + v[0] ** 2
    return k, v, supply.rate("beta", 1)[0], S


def _written(supply: Supply, d_k: int, d_v: int) -> Numbers:
    """One token, the state before and after it, and vectors to ask and to move by."""
    k, v, beta, S = token(supply, d_k, d_v)
    u, E = supply.real("u", d_k), supply.real("E", d_k, d_v)
    _, after = delta_rule.step(k, k, v, beta=beta, S=S)
    letters = {"k": k, "v": v, r"\beta": beta, "u": u, "E": E, "d_k": d_k}
    letters |= {"q": u, "y": u, "c": u[0], r"\lambda": supply.real("l", 1)[0]}
    return Numbers(letters | {"S": Rows(np.array([S, after]), first=0)})


def _charged(supply: Supply, d_k: int, d_v: int) -> Numbers:
    """The same, with the loss as a function of the state."""
    x = _written(supply, d_k, d_v).letters

    def loss(S: np.ndarray) -> Any:
        return squared(S, x["k"], x["v"]) / 2

    return Numbers({**x, r"\ell": loss})


def _across(supply: Supply, d_k: int, d_v: int) -> Numbers:
    """The same, with u at a right angle to the key."""
    numbers = _written(supply, d_k, d_v)
    k, u = numbers.letters["k"], numbers.letters["u"]
    u = u - (k @ u) / (k @ k) * k
    return Numbers({**numbers.letters, "u": u, "y": u})


def sequence(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Tokens, and the package's states from an arbitrary first one."""
    k, v, beta = supply.real("k", T, d_k), supply.real("v", T, d_v), supply.rate("b", T)
    S = supply.real("S", d_k, d_v)
    states = [
        delta_rule.recurrent(k[:t], k[:t], v[:t], beta=beta[:t], S=S)[1]
        for t in range(T + 1)
    ]
    letters = {"k": k, "v": v, r"\beta": beta, "S": Rows(np.array(states), first=0)}
    return Numbers(letters | {"T": T, "S_T": states[-1]}, {"t": range(1, T + 1)})


def _told(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """The same from the package's recurrence, with queries, outputs and predictions."""
    numbers, q = sequence(supply, T, d_k, d_v), supply.real("q", T, d_k)
    x = numbers.letters
    states = x["S"].array
    o, _ = delta_rule.recurrent(q, x["k"], x["v"], beta=x[r"\beta"], S=states[0])
    predicted = np.array([S.T @ k for S, k in zip(states[:-1], x["k"], strict=True)])
    return Numbers({**x, "q": q, "o": o, r"\hat{v}": predicted}, numbers.indices)


def _unit(supply: Supply, d_k: int) -> Numbers:
    """A unit key, a step size up to 2, and a vector that it meets."""
    letters = {"k": supply.unit("k", 1, d_k)[0], "x": supply.real("x", d_k)}
    return Numbers(letters | {r"\beta": supply.double("b", 1)[0]})


def _shares(supply: Supply, d_k: int) -> Numbers:
    letters = {"k": supply.shares("k", 1, d_k)[0], "d_k": d_k}
    return Numbers(letters | {r"\beta": supply.rate("b", 1)[0]})


def _full_step(supply: Supply, d_k: int, d_v: int) -> Numbers:
    """A unit key, a step of 1, and the state after it."""
    _, v, _, S = token(supply, d_k, d_v)
    k = supply.unit("k", 1, d_k)[0]
    beta = k[0] ** 0
    _, after = delta_rule.step(k, k, v, beta=beta, S=S)
    return Numbers({"k": k, "v": v, r"\beta": beta, "S_1": after})


PRINTED = {STATEMENT: AsPrinted(numbers=_written)}
BOUNDED = ("rationals", "floats")


@identity(
    title="The slope of half the squared error is the key times the error",
    statement=r"\frac{1}{2} \lVert (S_0 + E)^\top k - v \rVert^2"
    r" = \frac{1}{2} \lVert S_0^\top k - v \rVert^2"
    r" + \operatorname{tr}(E^\top k (S_0^\top k - v)^\top)"
    r" + \frac{1}{2} \lVert E^\top k \rVert^2",
    source=SOURCE,
    citations=("zhou2026beyond",),
    equations=("eq-slope", "def-squared-error"),
    printed=PRINTED
    | dict.fromkeys(("eq-slope", "def-squared-error"), AsPrinted(numbers=_charged)),
    chapter=CHAPTER,
    mutants={
        "the loss is not halved": {"half": 1},
        "the error's other sign": {"sign": -1},
        "the slope is taken after the step": {"late": True},
        "the other outer product": {"turned": True},
    },
)
def gradient(
    supply: Supply,
    d: int,
    *,
    half: int = 2,
    sign: int = 1,
    late: bool = False,
    turned: bool = False,
) -> Sides:
    """What the reference writes, over -beta, against the loss's slope."""
    k, v, beta, S = token(supply, d, d)
    _, after = delta_rule.step(k, k, v, beta=beta, S=S)
    at = after if late else S

    found = slope(lambda S: squared(S, k, v) / half, at)
    return sign * (S - after) / beta, found.T if turned else found


def _step_free(*, keep: int = 1, erase: int = 1, turned: bool = False) -> Sides:
    import sympy

    k, kt, vt, S = sympy.symbols("k k^T v^T S", commutative=False)
    beta = sympy.Symbol("beta")
    erased = kt * k if turned else k * kt
    left = S - beta * k * (kt * S - vt)
    return left, keep * S - erase * beta * erased * S + beta * k * vt


@identity(
    title="One step down the slope, and the same as a map of the state",
    statement=r"S_t = S_{t-1} - \beta_t k_t (S_{t-1}^\top k_t - v_t)^\top"
    r" = (I - \beta_t k_t k_t^\top) S_{t-1} + \beta_t k_t v_t^\top",
    source=SOURCE + "; schlag2021, eqs. 24-25",
    citations=("zhou2026beyond", "schlag2021", "yang2024deltanet"),
    equations=("def-delta-rule", "eq-one-step", "eq-transposed"),
    printed={
        STATEMENT: AsPrinted(numbers=sequence),
        "def-delta-rule": AsPrinted(numbers=_told),
        "eq-one-step": AsPrinted(numbers=sequence),
        "eq-transposed": AsPrinted(numbers=sequence),
    },
    chapter=CHAPTER,
    mutants={
        "the old state is not kept": {"keep": 0},
        "twice too much is erased": {"erase": 2},
        "nothing is erased": {"erase": 0},
        "the key's products are turned round": {"turned": True},
    },
    free=_step_free,
)
def one_step(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    keep: int = 1,
    erase: int = 1,
    turned: bool = False,
) -> Sides:
    """The reference from any state, against the transition and the write."""
    k, v, beta, S = token(supply, d_k, d_v)
    erased = (k @ k) * S if turned else np.outer(k, k) @ S
    right = keep * S - erase * beta * erased + beta * np.outer(k, v)
    return delta_rule.step(k, k, v, beta=beta, S=S)[1], right


def _answer_free(*, fade: int = 1, halve: int = 1) -> Sides:
    import sympy

    k, kt, vt, S = sympy.symbols("k k^T v^T S", commutative=False)
    beta = sympy.Symbol("beta")
    share = beta * kt * k / halve
    after = S + beta * k * (vt - kt * S)
    return kt * after, (1 - fade * share) * kt * S + share * vt


@identity(
    title="Asked at its key, the memory has moved towards the value by beta k'k",
    statement=r"S_1^\top k = (1 - \beta k^\top k) S_0^\top k + \beta k^\top k v",
    source="ours; elementary",
    equations=("eq-answer-at-key",),
    printed=PRINTED | {"eq-answer-at-key": AsPrinted(numbers=_written)},
    chapter=CHAPTER,
    mutants={
        "the key's length does not matter": {"length": 0},
        "the old answer stays": {"fade": 0},
        "a mean of the two answers": {"halve": 2},
    },
    free=_answer_free,
)
def answer(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    length: int = 1,
    fade: int = 1,
    halve: int = 1,
) -> Sides:
    """Any key, any state."""
    k, v, beta, S = token(supply, d_k, d_v)
    share = beta * (k @ k) ** length / halve
    o, _ = delta_rule.step(k, k, v, beta=beta, S=S)
    return o, (1 - fade * share) * (S.T @ k) + share * v


@identity(
    title="At a unit key a step of 1 returns the new value, whatever was there",
    kind="limit",
    statement=r"k^\top k = \beta = 1, \qquad S_1^\top k = v",
    source=SOURCE,
    citations=("zhou2026beyond",),
    printed={STATEMENT: AsPrinted(numbers=_full_step)},
    chapter=CHAPTER,
    mutants={
        "the key is twice as long": {"longer": 2},
        "half a step": {"halve": 2},
        "a reflecting step": {"beta": 2},
    },
)
def new_value(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    longer: int = 1,
    halve: int = 1,
    beta: int = 1,
) -> Sides:
    """The reference, asked at the key it has just written."""
    _, v, _, S = token(supply, d_k, d_v)
    k = longer * supply.unit("k", 1, d_k)[0]
    rate = beta * (k @ k) ** 0 / halve
    return delta_rule.step(k, k, v, beta=rate, S=S)[0], v


def _elsewhere_free(*, rate: int = 1, overlap: bool = True) -> Sides:
    import sympy

    ut, k, kt, vt, S = sympy.symbols("u^T k k^T v^T S", commutative=False)
    beta = sympy.Symbol("beta")
    after = S + beta * k * (vt - kt * S)
    seen = ut * k if overlap else 1
    return ut * after, ut * S + beta**rate * seen * (vt - kt * S)


@identity(
    title="Every other answer moves by its key's overlap times the same error",
    statement=r"S_1^\top u = S_0^\top u + \beta (k^\top u) (v - S_0^\top k)",
    source="ours; elementary",
    equations=("eq-elsewhere",),
    printed=PRINTED | {"eq-elsewhere": AsPrinted(numbers=_written)},
    chapter=CHAPTER,
    mutants={
        "the rate is squared": {"rate": 2},
        "all answers move alike": {"overlap": False},
        "the error is taken at the question": {"own_error": True},
        "the error is taken after the write": {"late": True},
    },
    free=_elsewhere_free,
)
def elsewhere(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    rate: int = 1,
    overlap: bool = True,
    own_error: bool = False,
    late: bool = False,
) -> dict[str, Sides]:
    """Any question, and one at a right angle, which notices nothing."""
    k, v, beta, S = token(supply, d_k, d_v)
    u = supply.real("u", d_k)
    u[0] = 2 + u[0] ** 2
    o, after = delta_rule.step(u, k, v, beta=beta, S=S)
    error = v - (after if late else S).T @ (u if own_error else k)
    seen = k @ u if overlap else 1
    across = u - (k @ u) / (k @ k) * k
    moved = S.T @ across + (0 if overlap else beta * error)
    return {
        "any": (o, S.T @ u + beta**rate * seen * error),
        "at a right angle": (after.T @ across, moved),
    }


@identity(
    title="Along its key a write scales the old state, across it it does nothing",
    statement=r"k^\top u = 0, \qquad"
    r" (I - \beta k k^\top) (c k + u) = c (1 - \beta k^\top k) k + u",
    source="ours; elementary",
    equations=("eq-eigenvalues",),
    printed={
        STATEMENT: AsPrinted(numbers=_across),
        "eq-eigenvalues": AsPrinted(numbers=_across),
    },
    chapter=CHAPTER,
    mutants={
        "along the key all is lost": {"along": 0},
        "the key's length does not matter": {"length": 0},
        "across is not across": {"across": 0},
    },
)
def eigenvalues(
    supply: Supply, d_k: int, *, along: int = 1, length: int = 1, across: int = 1
) -> dict[str, Sides]:
    """States of one column, by the reference; u is any vector less its part along k."""
    k, u = supply.real("k", d_k), supply.real("u", d_k)
    # a zero key has no direction, and an orthogonal draw would hide the mutant
    k[0], u[0] = 1 + k[1] ** 2, 2 + u[1] ** 2
    beta = supply.rate("beta", 1)[0]
    square = (k @ k) ** length
    u = u - across * (k @ u) / (k @ k) * k
    return {
        "along": (_after(k[:, None], k, beta), (along - beta * square) * k[:, None]),
        "across": (_after(u[:, None], k, beta), u[:, None]),
    }


def _det(M: np.ndarray) -> Any:
    import sympy

    return np.linalg.det(M) if M.dtype.kind == "f" else sympy.Matrix(M).det()


@identity(
    title="All its eigenvalues: one is 1 - beta k'k, the others are 1",
    statement=r"\det(\lambda I - (I - \beta k k^\top)) ="
    r" (\lambda - 1)^{d_k - 1} (\lambda - 1 + \beta k^\top k)",
    source="ours; elementary",
    printed=PRINTED,
    mutants={
        "one eigenvalue of 1 too many": {"spare": 1},
        "the key's length does not matter": {"length": 0},
        "a step the other way": {"sign": -1},
    },
)
def characteristic_polynomial(
    supply: Supply, d_k: int, *, spare: int = 0, length: int = 1, sign: int = 1
) -> Sides:
    """The reference on the unit matrix gives the transition, for any lambda."""
    k, _, beta, _ = token(supply, d_k, d_k)
    unit = np.eye(d_k, dtype=k.dtype)
    lam = supply.real("l", 1)[0] + 3
    left = _det(lam * unit - _after(unit, k, beta))
    last = lam - 1 + sign * beta * (k @ k) ** length
    return np.array([left]), np.array([(lam - 1) ** (d_k - 1 + spare) * last])


def _length_free(*, second: int = 1) -> Sides:
    import sympy

    k, kt, x, xt = sympy.symbols("k k^T x x^T", commutative=False)
    beta = sympy.Symbol("beta")
    write = 1 - beta * k * kt
    erased = beta * xt * k * (2 - second * beta * kt * k) * kt * x
    return xt * write * write * x, xt * x - erased


@identity(
    title="How much shorter a write makes what it meets",
    statement=r"\lVert (I - \beta k k^\top) u \rVert^2 ="
    r" \lVert u \rVert^2 - \beta (2 - \beta k^\top k) (k^\top u)^2",
    source="ours; elementary",
    equations=("eq-length",),
    printed=PRINTED | {"eq-length": AsPrinted(numbers=_written)},
    chapter=CHAPTER,
    mutants={
        "as if every key were a unit vector": {"unit": True},
        "the first order alone": {"second": 0},
    },
    free=_length_free,
)
def length(supply: Supply, d_k: int, *, unit: bool = False, second: int = 1) -> Sides:
    """So it stretches nothing exactly where beta k'k is at most 2."""
    k, x = supply.real("k", d_k), supply.real("x", d_k)
    k[0], x[0] = 1 + k[1] ** 2, 2 + x[1] ** 2
    beta = supply.rate("beta", 1)[0]
    square = 1 if unit else k @ k
    after = _after(x[:, None], k, beta)
    right = x @ x - beta * (2 - second * beta * square) * (k @ x) ** 2
    return np.asarray((after * after).sum()), np.asarray(right)


@identity(
    title="A write of strength 2 at a unit key is a reflection: twice is never",
    statement=r"k^\top k = 1, \qquad (I - 2 k k^\top)^2 = I",
    source="grazzi2025, in secondary reading; elementary",
    citations=("grazzi2025",),
    equations=("eq-reflection",),
    printed={
        STATEMENT: AsPrinted(numbers=_unit),
        "eq-reflection": AsPrinted(numbers=_unit),
    },
    chapter=CHAPTER,
    mutants={
        "a write of strength 1": {"beta": 1},
        "a key twice as long": {"longer": 2},
    },
)
def reflection(
    supply: Supply, d_k: int, d_v: int, *, beta: int = 2, longer: int = 1
) -> Sides:
    """Any state, and the same token of value zero read twice."""
    k, S = longer * supply.unit("k", 1, d_k)[0], supply.real("S", d_k, d_v)
    return _after(_after(S, k, beta), k, beta), S


@identity(
    title="Between 0 and 2 nothing is stretched",
    kind="bound",
    statement=r"k^\top k = 1, \quad 0 \le \beta \le 2, \quad"
    r" \lVert (I - \beta k k^\top) x \rVert^2 \le \lVert x \rVert^2",
    source="ours; elementary",
    printed={STATEMENT: AsPrinted(numbers=_unit, worlds=BOUNDED)},
    worlds=BOUNDED,
    mutants={
        "half as much again": {"more": 3},
        "a key twice as long": {"longer": 2},
    },
)
def never_longer(
    supply: Supply, d_k: int, *, more: int = 2, longer: int = 1
) -> dict[str, Sides]:
    """A drawn step size and the ends of its range, with x along the key and any."""
    k = longer * supply.unit("k", 1, d_k)[0]
    x = supply.real("x", d_k)
    drawn = supply.double("beta", 1)[0] * more / 2
    sides = {}
    for name, beta in (
        ("drawn", drawn),
        ("none", 0 * drawn),
        ("most", 0 * drawn + more),
    ):
        for seen, y in (("any", x), ("along", k)):
            after = _after(y[:, None], k, beta)
            sides[f"{name}, {seen}"] = np.asarray((after**2).sum()), np.asarray(y @ y)
    return sides


@identity(
    title="Features that sum to one leave a step size of 1 no room to overshoot",
    kind="bound",
    statement=r"0 \le k, \quad \sum_{i=1}^{d_k} k_i = 1, \quad 0 \le \beta \le 1, \quad"
    r" 0 \le 1 - \beta k^\top k",
    source="ours; the normalisation is schlag2021's",
    citations=("schlag2021",),
    printed={STATEMENT: AsPrinted(numbers=_shares, worlds=BOUNDED)},
    worlds=BOUNDED,
    mutants={
        "their sum is two": {"total": 2},
        "one feature is negative": {"signed": True},
        "reflecting step sizes": {"beta": 2},
    },
)
def shares(
    supply: Supply, d_k: int, *, total: int = 1, signed: bool = False, beta: int = 1
) -> dict[str, Sides]:
    """Drawn features, and a single one, where the bound is met."""
    k = total * supply.shares("k", 1, d_k)[0]
    if signed:
        k = np.concatenate([k[:1] + 2, k[1:2] - 2, k[2:]])
    single = 0 * k
    single[0] = k.sum()
    return {
        "drawn": (np.asarray(0 * k[0]), np.asarray(1 - beta * (k @ k))),
        "single": (np.asarray(0 * k[0]), np.asarray(1 - beta * (single @ single))),
    }
