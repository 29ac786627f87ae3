"""Exact regression at test time: ridge, recursive least squares, conjugate gradients.

MesaNet answers with the best linear map for what it has read. Its sums are H of keys
with keys and S of keys with values, in which what is older may weigh less.
"""

from typing import Any

import numpy as np

from ctlearn import memory
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.slopes import slope
from ctlearn.identities.tokens import flat, mesa_inputs, tokens
from ctlearn.mixers import (
    gated_linear_attention,
    mesa_net,
    recursive_least_squares,
)
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import exp, log
from ctlearn.supplies import Supply
from ctlearn.systems import solve

CHAPTER = "11_test_time_regression"
EXACT = ("rationals", "floats")


def _moment(supply: Supply, d: int) -> np.ndarray:
    """Any symmetric matrix; positive definite where numbers have a sign."""
    A = supply.real("H", d, d)
    if supply.world == "symbols":
        return np.tril(A) + np.tril(A, -1).T
    return A @ A.T + np.eye(d, dtype=int)


def _square(x: np.ndarray) -> Any:
    return (x * x).sum()


def _printed_ridge(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """The map that MesaNet has after all tokens: its answers to the unit queries."""
    x = mesa_inputs(supply, T, d_k, d_v)
    _, S = mesa_net.recurrent(**x)
    unit = np.eye(d_k, dtype=int) * x["ridges"][0] ** 0
    W = np.array([S.S.T @ solve(S.H + np.diag(x["ridges"]), row) for row in unit])
    letters = {"k": x["k"], "v": x["v"], "q": x["q"], "W": W, "t": T}
    gates = {r"\gamma": exp(x["log_decay"]), r"\beta": x["beta"]}
    letters["o"] = mesa_net.recurrent(**x)[0]
    letters |= gates | {r"\lambda": x["ridges"], r"\Lambda": np.diag(x["ridges"])}
    return Numbers(letters, {"j": range(1, T + 1)})


def _printed_sums(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Tokens, MesaNet's two sums after each, and its answers."""
    x = mesa_inputs(supply, T, d_k, d_v)
    kept = {name: x[name] for name in ("q", "k", "v", "log_decay", "beta")}
    ends = [
        mesa_net.recurrent(**{n: y[:t] for n, y in kept.items()}, ridges=x["ridges"])[1]
        for t in range(T + 1)
    ]
    sums = {n: Rows(np.array([getattr(S, n) for S in ends]), first=0) for n in "SH"}
    letters = {name: x[name] for name in "qkv"} | sums
    letters |= {r"\gamma": exp(x["log_decay"]), r"\beta": x["beta"]}
    letters |= {"o": mesa_net.recurrent(**x)[0], r"\Lambda": np.diag(x["ridges"])}
    return Numbers(letters, {"t": range(1, T + 1)})


def _free_ridge(*, own: int = 0, ridges: int = 1) -> Sides:
    """The slope after one more pair in any dimension; letters do not commute."""
    import sympy

    names = "H S W k k^T v^T Lambda"
    H, S, W, k, k_T, v_T, ridge = sympy.symbols(names, commutative=False)
    gamma, beta = sympy.symbols("gamma beta")
    new = gamma**own * beta * k * (k_T * W - v_T)
    slope = gamma * (H * W - S) + new + ridges * ridge * W
    after = (gamma * H + beta * k * k_T + ridge) * W
    return slope, after - (gamma * S + beta * k * v_T)


@identity(
    title="MesaNet answers with ridge regression on all it has read, older pairs less",
    statement=r"\sum_{j=1}^{t} \left(\prod_{r=j+1}^{t} \gamma_r\right)"
    r" \beta_j k_j (W^\top k_j - v_j)^\top + \mathrm{Diag}(\lambda) W = 0, \quad"
    r" o_t = W^\top q_t",
    source="vonoswald2025mesanet, in secondary reading",
    citations=("vonoswald2025mesanet", "wang2025ttr"),
    equations=("def-mesa", "eq-best-map"),
    printed=dict.fromkeys(
        (STATEMENT, "eq-best-map"),
        AsPrinted(
            numbers=_printed_ridge, worlds=EXACT, at={"rationals": {"T": 3, "d_k": 2}}
        ),
    )
    | {
        "def-mesa": AsPrinted(
            numbers=_printed_sums, worlds=EXACT, at={"rationals": {"T": 2, "d_k": 2}}
        )
    },
    chapter=CHAPTER,
    free=_free_ridge,
    mutants={
        "the newest loss fades, too": {"own": 1},
        "the errors are not weighed by beta": {"weighed": False},
        "the losses are not halved": {"half": 1},
        "the ridge is twice as high": {"ridges": 2},
    },
)
def ridge_regression(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    own: int = 0,
    weighed: bool = True,
    half: int = 2,
    ridges: int = 1,
) -> dict[str, Sides]:
    """The slope at any W: faded, and with one more loss, it is (H + Lambda) W - S.

    So it is zero where the reference's map is. The ridge does not fade, and is what
    the slope starts from.
    """
    x = mesa_inputs(supply, 1, d_k, d_v)
    H, S, W = (
        _moment(supply, d_k),
        supply.real("S", d_k, d_v),
        supply.real("W", d_k, d_v),
    )
    gamma, beta = exp(x["log_decay"])[0], x["beta"][0] if weighed else 1
    token = {name: x[name][0] for name in ("q", "k", "v", "log_decay", "beta")}
    state = mesa_net.State(S, H)
    _, after = mesa_net.step(**token, ridges=x["ridges"], S=state)
    own_loss = slope(lambda W: _square(W.T @ x["k"][0] - x["v"][0]) / half, W)
    pressed = ridges * x["ridges"][:, None] * W
    left = gamma * (H @ W - S) + gamma**own * beta * own_loss + pressed
    empty = {name: array[:0] for name, array in x.items() if name != "ridges"}
    none = mesa_net.recurrent(**empty, ridges=x["ridges"])[1]
    return {
        "base": (none.H @ W - none.S, 0 * W),
        "step": (left, after.H @ W - after.S + x["ridges"][:, None] * W),
    }


def _printed_gain(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Exact minima after every token, by MesaNet's sums and a solve."""
    _, k, v = tokens(supply, T, d_k, d_v)
    rho = supply.positive("rho", 1)[0]
    H = [rho * np.eye(d_k, dtype=int)]
    for row in k:
        H.append(H[-1] + np.outer(row, row))
    S = [(k[:t].T @ v[:t]).T for t in range(T + 1)]
    S = [np.array([solve(h, row) for row in s]).T for h, s in zip(H, S, strict=True)]
    unit = np.eye(d_k, dtype=int) * rho**0
    P = [np.array([solve(h, row) for row in unit]) for h in H]
    letters = {
        name: Rows(np.array(x), first=0) for name, x in (("S", S), ("W", S), ("P", P))
    }
    return Numbers(letters | {"k": k, "v": v}, {"t": range(1, T + 1)})


def _free_gain(*, one: int = 1) -> Sides:
    """The new H times the new P, and that is 1, both times 1 + k'Pk, which is s + 1."""
    import sympy

    H, P, k, k_T = sympy.symbols("H P k k^T", commutative=False)
    s = sympy.Symbol("s")
    after = (one + s) * P - P * k * k_T * P
    product = sympy.expand((H + k * k_T) * after).subs(H * P, 1)
    return product.subs(k_T * P * k, s), one + s + 0 * P


@identity(
    title="The minimum moves by a delta rule whose step size is a matrix",
    statement=r"S_t = S_{t-1} + \frac{P_{t-1} k_t}{1 + k_t^\top P_{t-1} k_t}"
    r" (v_t - S_{t-1}^\top k_t)^\top, \quad"
    r" P_t = (P_{t-1}^{-1} + k_t k_t^\top)^{-1}",
    source="plackett1950",
    citations=("plackett1950", "wang2025ttr"),
    equations=("eq-matrix-gain",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-matrix-gain"),
        AsPrinted(
            numbers=_printed_gain,
            worlds=EXACT,
            at={"rationals": {"T": 2, "d_k": 2, "d_v": 2}},
        ),
    ),
    chapter=CHAPTER,
    free=_free_gain,
    mutants={
        "the one is missing": {"one": 0},
        "the erased answer is not weighed": {"erase": 0},
        "the moment forgets": {"fade": True},
    },
)
def matrix_gain(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    one: int = 1,
    erase: int = 1,
    fade: bool = False,
) -> dict[str, Sides]:
    """A step of the one memory at the gain, from any state P that inverts H.

    Where H S holds the pairs' sum before it does so after: multiplied by the new H, the
    new state is the old sum and the new pair.
    """
    q, k, v = (x[0] for x in tokens(supply, 1, d_k, d_v))
    P, S = _moment(supply, d_k), supply.real("S", d_k, d_v)
    H_times = _inverse_of(P)
    gain = P @ k / (one + k @ P @ k)
    _, after = memory.step(q, gain, v, e=erase * k, S=S)
    kept = log(np.asarray(S[0, 0] ** 0 / (2 if fade else 1)))
    rho = supply.positive("rho", 1)[0]
    state = recursive_least_squares.State(S, P)
    _, theirs = recursive_least_squares.step(q, k, v, log_forget=kept, ridge=1, S=state)
    unit = np.eye(d_k, dtype=int)
    new = H_times(after) + np.outer(k, k @ after)
    inverted = H_times(theirs.P) + np.outer(k, k @ theirs.P)
    none = recursive_least_squares.recurrent(
        q[None][:0], k[None][:0], v[None][:0], log_forget=kept, ridge=rho
    )
    return {
        "base": (flat(none[1].S, rho * none[1].P), flat(0 * S, unit)),
        "step": (
            flat(after, new, inverted),
            flat(theirs.S, H_times(S) + np.outer(k, v), unit),
        ),
    }


def _inverse_of(P: np.ndarray) -> Any:
    return lambda X: np.array([solve(P, column) for column in X.T]).T


def _forgetful(supply: Supply, T: int, d_k: int, d_v: int) -> tuple[Any, ...]:
    """Tokens, the log of one forgetting factor and the ridge at the start."""
    q, k, v = tokens(supply, T, d_k, d_v)
    return q, k, v, supply.log_decay("lambda", 1)[0], supply.positive("rho", 1)[0]


def _mesa_with(
    x: tuple[Any, ...], faded: Any, T: int, *, forget: int = 1
) -> tuple[np.ndarray, Any]:
    """MesaNet of one decay for all, whose ridge is rho times `faded`."""
    q, k, v, log_lambda, rho = x
    return mesa_net.recurrent(
        q,
        k,
        v,
        log_decay=np.repeat(forget * log_lambda, T),
        beta=np.ones(T, dtype=k.dtype),
        ridges=np.repeat(rho * faded, k.shape[1]),
    )


def _printed_fading(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x = _forgetful(supply, T, d_k, d_v)
    q, k, v, log_lambda, rho = x
    o, _ = recursive_least_squares.recurrent(q, k, v, log_forget=log_lambda, ridge=rho)
    S = _mesa_with(x, 1, T)[1]
    letters = {"H": S.H, "G": S.S, "S": S.S}
    letters |= {r"\lambda": exp(log_lambda), r"\rho": rho}
    return Numbers(letters | {"q": q, "o": o, "T": T})


@identity(
    title="Recursive least squares that forgets is MesaNet with a ridge that fades",
    statement=r"o_T = G^\top (H + \lambda^T \rho I)^{-1} q_T",
    source="ours; both forms are in every book on adaptive filters",
    citations=("plackett1950", "vonoswald2025mesanet"),
    equations=("eq-fading-ridge",),
    worlds=EXACT,
    printed=dict.fromkeys(
        (STATEMENT, "eq-fading-ridge"),
        AsPrinted(
            numbers=_printed_fading,
            worlds=EXACT,
            at={"rationals": {"T": 2, "d_k": 2, "d_v": 2}},
        ),
    ),
    chapter=CHAPTER,
    mutants={
        "a ridge that stays": {"fades": 0},
        "a ridge that fades once too little": {"late": 1},
        "only the ridge fades": {"forget": 0},
    },
    at={"rationals": {"T": 3, "d_k": 2}, "floats": {"T": 6, "d_k": 3}},
)
def fading_ridge(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    fades: int = 1,
    late: int = 0,
    forget: int = 1,
) -> Sides:
    """The last answers; MesaNet is given the ridge that is left at that time."""
    x = _forgetful(supply, T, d_k, d_v)
    q, k, v, log_lambda, rho = x
    o, _ = recursive_least_squares.recurrent(q, k, v, log_forget=log_lambda, ridge=rho)
    faded = exp(np.asarray(log_lambda * fades * (T - late)))
    return o[-1], _mesa_with(x, faded, T, forget=forget)[0][-1]


def _one_pair_twice(supply: Supply) -> tuple[Any, ...]:
    """Key, value and query 1, twice, forgetting a half, with the ridge 1."""
    one = supply.real("one", 1)[0] ** 0
    ones = one * np.ones((2, 1), dtype=int)
    return ones, ones, ones, log(np.asarray(one / 2)), one


def _both(x: tuple[Any, ...], *, fades: bool = False) -> tuple[Any, Any]:
    """The last answers of recursive least squares and of MesaNet."""
    q, k, v, log_lambda, rho = x
    o, _ = recursive_least_squares.recurrent(q, k, v, log_forget=log_lambda, ridge=rho)
    faded = exp(2 * log_lambda) if fades else 1
    return o[-1], _mesa_with(x, faded, len(k))[0][-1]


def _printed_mesa(supply: Supply) -> Numbers:
    theirs, ours = _both(_one_pair_twice(supply))
    return Numbers({r"\hat{o}": theirs[0], "o": ours[0]})


@identity(
    title="MesaNet with decay is not recursive least squares with forgetting",
    kind="counterexample",
    statement=r"\hat{o} = \frac{3/2}{3/2 + 1/4} = \frac{6}{7} \ne"
    r" \frac{3}{5} = \frac{3/2}{3/2 + 1} = o",
    source="ours",
    citations=("vonoswald2025mesanet", "plackett1950"),
    worlds=EXACT,
    printed={STATEMENT: AsPrinted(numbers=_printed_mesa, worlds=EXACT)},
    chapter=CHAPTER,
    mutants={
        "nothing is forgotten": {"forget": 0},
        "MesaNet's ridge fades": {"fades": True},
        "the values are zero": {"value": 0},
    },
)
def mesa_is_not_recursive(
    supply: Supply, *, forget: int = 1, fades: bool = False, value: int = 1
) -> Sides:
    """Its ridge stays where that of recursive least squares is forgotten."""
    q, k, v, log_lambda, rho = _one_pair_twice(supply)
    return _both((q, k, value * v, forget * log_lambda, rho), fades=fades)


def _printed_step(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x = mesa_inputs(supply, T, d_k, d_v)
    o, S = mesa_net.recurrent(**x, steps=1)
    letters = {"q": x["q"], "o": o, "S": S.S, "H": S.H, "t": T}
    return Numbers(
        letters | {r"\lambda": x["ridges"], r"\Lambda": np.diag(x["ridges"])}
    )


@identity(
    title="One step of conjugate gradients is gated linear attention, times a number",
    statement=r"o_t = \frac{q_t^\top q_t}{q_t^\top (H + \mathrm{Diag}(\lambda)) q_t}"
    r" S^\top q_t",
    source="ours; elementary",
    citations=("vonoswald2025mesanet",),
    equations=("eq-one-cg-step",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-one-cg-step"),
        AsPrinted(numbers=_printed_step, at={"symbols": {"T": 2}}),
    ),
    chapter=CHAPTER,
    mutants={
        "the number is left out": {"number": False},
        "the ridge is left out of the number": {"ridges": 0},
        "the values are not weighed": {"weighed": False},
        "two steps": {"steps": 2},
    },
    at={"symbols": {"T": 2}},
)
def one_step(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    number: bool = True,
    ridges: int = 1,
    weighed: bool = True,
    steps: int = 1,
) -> Sides:
    """From zero; the number depends on the query and on all keys."""
    x = mesa_inputs(supply, T, d_k, d_v)
    o, S = mesa_net.recurrent(**x, steps=steps)
    q, rows = x["q"][-1], np.repeat(x["log_decay"][:, None], d_k, axis=1)
    values = x["beta"][:, None] * x["v"] if weighed else x["v"]
    read, _ = gated_linear_attention.recurrent(x["q"], x["k"], values, log_decay=rows)
    scale = q @ q / (q @ (S.H + ridges * np.diag(x["ridges"])) @ q)
    return o[-1], (scale if number else 1) * read[-1]


@identity(
    title="As many steps of conjugate gradients as the key has entries are exact",
    statement=r"o_t = S^\top (H + \mathrm{Diag}(\lambda))^{-1} q_t",
    source="vonoswald2025mesanet; a property of conjugate gradients",
    citations=("vonoswald2025mesanet",),
    worlds=EXACT,
    printed={
        STATEMENT: AsPrinted(
            numbers=lambda supply, T, d_v: _printed_arrived(supply, T, 2, d_v),
            worlds=EXACT,
            at={"rationals": {"T": 3, "d_v": 2}},
        )
    },
    chapter=CHAPTER,
    mutants={
        "one step fewer": {"fewer": 1},
        "another ridge": {"ridges": 2},
        "the keys' moment alone": {"ridges": 0},
    },
    at={"rationals": {"T": 4, "d_k": 3}, "floats": {"T": 12, "d_k": 3}},
)
def arrives(
    supply: Supply, T: int, d_k: int, d_v: int, *, fewer: int = 0, ridges: int = 1
) -> Sides:
    """d_k steps from zero, and a solve; floats only need them up to rounding."""
    x = mesa_inputs(supply, T, d_k, d_v)
    o, S = mesa_net.recurrent(**x, steps=d_k - fewer)
    H = S.H + ridges * np.diag(x["ridges"])
    return o[-1], S.S.T @ solve(H, x["q"][-1])


def _printed_arrived(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x = mesa_inputs(supply, T, d_k, d_v)
    o, S = mesa_net.recurrent(**x, steps=d_k)
    letters = {"q": x["q"], "o": o, "S": S.S, "H": S.H, "t": T}
    return Numbers(letters | {r"\lambda": x["ridges"]})
