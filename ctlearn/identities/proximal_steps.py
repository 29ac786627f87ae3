"""What each write is the best answer to: stay near the last state, and err less.

Each step is the exact minimum of a quadratic cost. For any E the cost at S_t + E is the
cost at S_t plus squares of E: so no other state is as good.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.slopes import slope
from ctlearn.identities.tokens import tokens
from ctlearn.mixers import delta_rule, longhorn, normalised_least_mean_squares
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.supplies import Supply

Cost = Callable[[np.ndarray], Any]
CHAPTER = "11_test_time_regression"
TRACE = "a trace is the same in the other order"


def _square(x: np.ndarray) -> Any:
    return (x * x).sum()


def _draw(supply: Supply, d_k: int, d_v: int) -> dict[str, Any]:
    """A token, the state before it, and a way away from the state after it."""
    q, k, v = (x[0] for x in tokens(supply, 1, d_k, d_v))
    return {
        **{"q": q, "k": k, "v": v},
        **{"S": supply.real("S", d_k, d_v), "E": supply.real("E", d_k, d_v)},
        "beta": supply.rate("beta", 1)[0],
    }


def _away(cost: Cost, S: np.ndarray, E: np.ndarray, squares: Any) -> Sides:
    """What a state away from S costs, against S's own cost and the squares."""
    return np.asarray(cost(S + E)), np.asarray(cost(S) + squares)


def _letters(x: dict[str, Any], S: np.ndarray) -> dict[str, Any]:
    letters = {name: x[name] for name in ("k", "v", "E")}
    return letters | {"S": Rows(np.array([x["S"], S]), first=0)}


def _longhorn(supply: Supply, d_k: int, d_v: int) -> tuple[Any, ...]:
    x, beta = _draw(supply, d_k, d_v), supply.rate("beta", d_v)
    S = longhorn.step(x["q"], x["k"], x["v"], beta=beta, S=x["S"])[1]
    return x, beta, S


def _printed_longhorn(supply: Supply, d_k: int, d_v: int) -> Numbers:
    x, beta, S = _longhorn(supply, d_k, d_v)
    before, after = (R.T @ x["k"] - x["v"] for R in (x["S"], S))
    errors = {"e": Rows(np.array([before, after]), first=0)}
    return Numbers(_letters(x, S) | errors | {r"\beta": beta})


@identity(
    title="Longhorn jumps to the minimum of loss and distance together",
    statement=r"\lVert S_1 + E - S_0 \rVert^2"
    r" + (e_1 + E^\top k)^\top \mathrm{Diag}(\beta) (e_1 + E^\top k) ="
    r" \lVert S_1 - S_0 \rVert^2 + e_1^\top \mathrm{Diag}(\beta) e_1"
    r" + \lVert E \rVert^2 + k^\top E\, \mathrm{Diag}(\beta) E^\top k, \quad"
    r" e_1 = S_1^\top k - v",
    source="liu2024longhorn; the excess is ours",
    citations=("liu2024longhorn",),
    printed={STATEMENT: AsPrinted(numbers=_printed_longhorn)},
    chapter=CHAPTER,
    mutants={
        "the explicit step of the delta rule": {"explicit": True},
        "the loss is halved and the distance is not": {"half": 2},
        "the distance alone is exceeded": {"seen": 0},
    },
)
def longhorn_minimum(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    explicit: bool = False,
    half: int = 1,
    seen: int = 1,
) -> Sides:
    """A step size of its own in each value channel, keys of any length."""
    x, beta, S = _longhorn(supply, d_k, d_v)
    k, v, E = x["k"], x["v"], x["E"]
    if explicit:
        S = x["S"] + np.outer(k, beta * (v - x["S"].T @ k))

    def cost(R: np.ndarray) -> Any:
        return _square(R - x["S"]) + beta @ (R.T @ k - v) ** 2 / half

    return _away(cost, S, E, _square(E) + seen * beta @ (E.T @ k) ** 2)


def _free_error(*, implicit: bool = True, sign: int = 1) -> Sides:
    """One channel's beta for all, any key: e is the error's row where it arrives."""
    import sympy

    S, e, k, k_T = sympy.symbols("S e k k^T", commutative=False)
    beta = sympy.Symbol("beta")
    v_T = k_T * S - e
    before = k_T * (S + beta * k * e) - v_T
    return before, (1 + sign * (beta if implicit else 0) * k_T * k) * e


@identity(
    title="Its error is divided by 1 + beta k'k, however long the key",
    statement=r"S_1 = S_0 - k\, e_1^\top \mathrm{Diag}(\beta), \quad"
    r" e_0 = \left(I + k^\top k\, \mathrm{Diag}(\beta)\right) e_1",
    source="liu2024longhorn; elementary",
    citations=("liu2024longhorn",),
    equations=("eq-implicit-step",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-implicit-step"), AsPrinted(numbers=_printed_longhorn)
    ),
    chapter=CHAPTER,
    free=_free_error,
    mutants={
        "the slope is taken where the step starts": {"implicit": False},
        "the key's length does not count": {"length": 0},
        "the error is divided by 1 - beta k'k": {"sign": -1},
    },
)
def longhorn_error(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    implicit: bool = True,
    length: int = 1,
    sign: int = 1,
) -> dict[str, Sides]:
    """An implicit step goes against the slope at the place where it arrives."""
    x, beta, S = _longhorn(supply, d_k, d_v)
    k, v = x["k"], x["v"]
    before, after = (R.T @ k - v for R in (x["S"], S))
    taken = beta * (after if implicit else before)
    return {
        "step": (S, x["S"] - np.outer(k, taken)),
        "error": (before, (1 + sign * beta * (k @ k) ** length) * after),
    }


def _printed_inverse(supply: Supply, d_k: int) -> Numbers:
    k, beta = supply.real("k", d_k), supply.rate("beta", 1)
    eps = longhorn.step_size(beta, k)
    return Numbers({"k": k, r"\beta": beta[0], r"\varepsilon": eps[0]})


def _free_inverse(*, sign: int = 1, length: int = 1) -> Sides:
    """Both sides times 1 + beta s, where s = k'k and kk'kk' = s kk'."""
    import sympy

    P = sympy.Symbol("P", commutative=False)
    beta, s = sympy.symbols("beta s")
    product = (1 + beta * P) * (1 + beta * s**length - sign * beta * P)
    return sympy.expand(product).subs(P**2, s * P), 1 + beta * s**length + 0 * P


@identity(
    title="The explicit step that an implicit one amounts to, by Sherman and Morrison",
    statement=r"\varepsilon = \frac{\beta}{1 + \beta k^\top k}, \quad"
    r" (I + \beta k k^\top)^{-1} = I - \varepsilon k k^\top",
    source="liu2024longhorn; Sherman and Morrison's formula",
    citations=("liu2024longhorn",),
    equations=("eq-longhorn-rate",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-longhorn-rate"), AsPrinted(numbers=_printed_inverse)
    ),
    chapter=CHAPTER,
    free=_free_inverse,
    mutants={
        "the update is added": {"sign": -1},
        "as if every key were a unit vector": {"length": 0},
        "the explicit step itself": {"explicit": True},
    },
)
def sherman_morrison(
    supply: Supply, d_k: int, *, sign: int = 1, length: int = 1, explicit: bool = False
) -> Sides:
    """The reference's step size in a matrix, against the inverse."""
    k, beta = supply.real("k", d_k), supply.rate("beta", 1)
    eps = longhorn.step_size(beta, k)[0] if length else (beta / (1 + beta))[0]
    eps = beta[0] if explicit else eps
    one = np.eye(d_k, dtype=int)
    kept = one - sign * eps * np.outer(k, k)
    return (one + beta[0] * np.outer(k, k)) @ kept, one + 0 * kept


def _printed_delta(supply: Supply, d_k: int, d_v: int) -> Numbers:
    x = _draw(supply, d_k, d_v)
    S = delta_rule.step(x["q"], x["k"], x["v"], beta=x["beta"], S=x["S"])[1]
    G = np.outer(x["k"], x["S"].T @ x["k"] - x["v"])
    return Numbers(_letters(x, S) | {"G": G, r"\beta": x["beta"]})


@identity(
    title="The delta rule minimises the linearised loss and the distance",
    statement=r"G = k (S_0^\top k - v)^\top, \quad"
    r" \frac{1}{2} \lVert S_1 + E - S_0 \rVert^2"
    r" + \beta \operatorname{tr}(G^\top (S_1 + E)) ="
    r" \frac{1}{2} \lVert S_1 - S_0 \rVert^2 + \beta \operatorname{tr}(G^\top S_1)"
    r" + \frac{1}{2} \lVert E \rVert^2",
    source="ours; the proximal form of a gradient step",
    citations=("wang2025ttr",),
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_delta,
            equivalent={
                r"G^\top (S_1 + E) → (S_1 + E) G^\top (line 1, column 104)": TRACE,
                r"G^\top S_1 → S_1 G^\top (line 1, column 188)": TRACE,
            },
        )
    },
    chapter=CHAPTER,
    mutants={
        "the distance is not halved": {"half": 1},
        "the loss itself": {"linear": False},
        "the slope is climbed": {"sign": -1},
    },
)
def linearised(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    half: int = 2,
    linear: bool = True,
    sign: int = 1,
) -> Sides:
    """The loss's slope at the last state is all that the step knows of it."""
    x = _draw(supply, d_k, d_v)
    k, v, S, beta = (x[name] for name in ("k", "v", "S", "beta"))
    new = delta_rule.step(x["q"], k, v, beta=beta, S=S)[1]

    def loss(R: np.ndarray) -> Any:
        return _square(R.T @ k - v) / 2

    G = sign * slope(loss, S)

    def cost(R: np.ndarray) -> Any:
        pull = (G * R).sum() if linear else loss(R)
        return _square(R - S) / half + beta * pull

    return _away(cost, new, x["E"], _square(x["E"]) / half)


def _overshoot(supply: Supply, *, length: int = 2, value: int = 1) -> tuple[Any, Any]:
    """Errors at a key after a step of strength 1 from zero: explicit, and implicit."""
    one = supply.real("one", 1) ** 0
    k, v, S = length * one, value * one, 0 * one[:, None]
    explicit = delta_rule.step(k, k, v, beta=one[0], S=S)[1]
    implicit = longhorn.step(k, k, v, beta=one, S=S)[1]
    return explicit.T @ k - v, implicit.T @ k - v


def _printed_overshoot(supply: Supply) -> Numbers:
    explicit, implicit = _overshoot(supply)
    return Numbers({"e": explicit[0], r"\hat{e}": implicit[0], "k": 2, "v": 1})


@identity(
    title="At a long key the explicit step overshoots; the implicit one does not",
    kind="counterexample",
    statement=r"e = k (k v) - v = 3 \ne"
    r" -\frac{1}{5} = k \frac{k v}{1 + k^2} - v = \hat{e}",
    source="ours",
    citations=("liu2024longhorn",),
    worlds=("rationals", "floats"),
    printed={
        STATEMENT: AsPrinted(numbers=_printed_overshoot, worlds=("rationals", "floats"))
    },
    chapter=CHAPTER,
    mutants={
        "nothing is to be learned": {"value": 0},
        "a key of zero": {"length": 0},
    },
)
def overshoots(supply: Supply, *, length: int = 2, value: int = 1) -> Sides:
    """From zero the error is -1: one step makes it 3, the other -1/5."""
    return _overshoot(supply, length=length, value=value)


def _printed_strong(supply: Supply, d_k: int) -> Numbers:
    return Numbers({"k": supply.real("k", d_k)})


@identity(
    title="However strong, it goes no further than to the projection",
    kind="limit",
    statement=r"\lim_{\beta \to \infty} \frac{\beta}{1 + \beta k^\top k} ="
    r" \frac{1}{k^\top k}",
    source="ours; the projection is nagumo1967's",
    citations=("liu2024longhorn", "nagumo1967"),
    worlds=("rationals",),
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_strong,
            worlds=("rationals",),
            equivalent=dict.fromkeys(
                (
                    "1 → nothing (line 1, column 38)",
                    "1 → 2 (line 1, column 38)",
                ),
                "it vanishes beside what grows",
            ),
        )
    },
    chapter=CHAPTER,
    mutants={
        "a strength of one": {"reached": False},
        "one half of the projection": {"mu": 2},
        "the key's length, not its square": {"root": True},
    },
)
def strong(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    reached: bool = True,
    mu: int = 1,
    root: bool = False,
) -> Sides:
    """The state after one token, as its strength grows, and after NLMS's."""
    import sympy

    x = _draw(supply, d_k, d_v)
    k = x["k"]
    k[0] = 2 + k[0] ** 2  # a zero key has no projection
    strength = sympy.Symbol("beta", positive=True)
    beta = np.repeat(strength, d_v)
    S = longhorn.step(x["q"], k, x["v"], beta=beta, S=x["S"])[1]
    given = {"mu": k[0] ** 0 / mu, "eps": 0 * k[0], "S": x["S"]}
    if root:
        given["eps"] = sympy.sqrt(k @ k) - k @ k
    projected = normalised_least_mean_squares.step(x["q"], k, x["v"], **given)[1]

    def end(y: Any) -> Any:
        y = sympy.together(y)
        return sympy.limit(y, strength, sympy.oo) if reached else y.subs(strength, 1)

    return np.array([end(y) for y in S.ravel()]).reshape(S.shape), projected
