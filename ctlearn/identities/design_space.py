"""The design space: what a choice forbids, and how often a memory may turn round."""

from typing import Any

import numpy as np

from ctlearn import memory
from ctlearn.identities.engine import Sides, identity
from ctlearn.inner import Linear, Training
from ctlearn.mixers import (
    delta_rule,
    gated_delta_rule,
    kimi_delta_attention,
    recursive_least_squares,
    ttt_linear,
)
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import exp
from ctlearn.supplies import Supply

CHAPTER = "17_the_design_space"


def _turn(supply: Supply, d: int) -> np.ndarray:
    """Two reflections: a matrix with R R' = I that is not its own transpose."""
    u, w = supply.unit("u", 2, d)
    unit = np.eye(d, dtype=int)
    return (unit - 2 * np.outer(u, u)) @ (unit - 2 * np.outer(w, w))


def _token(supply: Supply, d_k: int, d_v: int) -> dict[str, Any]:
    """One token of the gated delta rule, and the state before it."""
    shapes = {"q": (d_k,), "k": (d_k,), "v": (d_v,), "S": (d_k, d_v)}
    x: dict[str, Any] = {n: supply.real(n, *shape) for n, shape in shapes.items()}
    x["beta"] = supply.rate("b", 1)[0]
    x["log_decay"] = supply.log_decay("a", 1)[0]
    return x


def _at_one(letter: str, said: Any) -> dict[str, Any]:
    """A letter with an index, which has a value at token 1."""
    return {letter: np.array([said])}


def _printed_turn(supply: Supply, d_k: int, d_v: int) -> Numbers:
    x, R = _token(supply, d_k, d_v), _turn(supply, d_k)
    o, S = gated_delta_rule.step(**x)
    turned = {"q": R.T @ x["q"], "k": R.T @ x["k"], "S": R.T @ x["S"]}
    o_turned, S_turned = gated_delta_rule.step(**(x | turned))
    letters = _at_one(r"\alpha", exp(x["log_decay"])) | _at_one(r"\beta", x["beta"])
    letters |= {
        "S": Rows(np.array([x["S"], S]), first=0),
        r"\tilde{S}": Rows(np.array([turned["S"], S_turned]), first=0),
    }
    letters |= _at_one("v", x["v"])
    for name, before, after in (
        ("k", x["k"], turned["k"]),
        ("q", x["q"], turned["q"]),
        ("o", o, o_turned),
    ):
        letters |= _at_one(name, before) | _at_one(rf"\tilde{{{name}}}", after)
    return Numbers(letters | {"R": R}, {"t": range(1, 2)})


_SAME_ANSWERS = "both are the answer, which is what is stated"
TURNED = AsPrinted(
    numbers=_printed_turn,
    worlds=("rationals", "floats"),
    equivalent={
        r"R R^\top → R^\top R (line 2, column 68)": "a square matrix that does either",
        r"\tilde{o} → o (line 4, column 1)": _SAME_ANSWERS,
        r"o → \tilde{o} (line 4, column 47)": _SAME_ANSWERS,
    },
)


@identity(
    title="Where all channels fade alike, keys and queries may be turned together",
    statement=r"\tilde{k}_t = R^\top k_t, \quad \tilde{q}_t = R^\top q_t, \quad"
    r" R R^\top = I \;\Rightarrow\; \tilde{S}_t = R^\top S_t, \quad \tilde{o}_t = o_t",
    source="ours",
    equations=("eq-turned-together",),
    printed={"eq-turned-together": TURNED},
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "channels fade each at a rate of its own": {"apart": True},
        "keys are stretched as well": {"stretch": 2},
        "queries stay as they were": {"asked": False},
        "the state is turned the other way": {"back": True},
    },
)
def keys_may_turn(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    apart: bool = False,
    stretch: int = 1,
    asked: bool = True,
    back: bool = False,
) -> dict[str, Sides]:
    """From any state and from the turned one, one token: for every T by induction."""
    x, R = _token(supply, d_k, d_v), _turn(supply, d_k)
    step = kimi_delta_attention.step if apart else gated_delta_rule.step
    if apart:
        x["log_decay"] = supply.log_decay("g", d_k)

    def after(S: np.ndarray) -> Sides:
        o, S_one = step(**(x | {"S": S}))
        turned = {"q": R.T @ x["q"] if asked else x["q"]}
        turned |= {"k": stretch * (R.T @ x["k"]), "S": R.T @ S}
        o_other, S_other = step(**(x | turned))
        moved = (R if back else R.T) @ S_one
        return np.append(moved.ravel(), o), np.append(S_other.ravel(), o_other)

    return {"base": after(0 * x["S"]), "step": after(x["S"])}


def _said(k: np.ndarray, n: int, *, beta: Any, ridge: Any, S: np.ndarray) -> Any:
    """What n tokens of one key, all of value 0, leave: fresh, stale and least squares.

    The third has seen nothing before, and believes its start as much as the ridge says.
    """
    keys = np.array([k] * n)
    nothing = np.zeros((n, S.shape[1]), dtype=keys.dtype)
    rates = np.array([beta] * n)
    _, A = delta_rule.recurrent(keys, keys, nothing, beta=rates, S=S)
    started = Training.start(Linear(S))
    _, B = ttt_linear.recurrent(
        keys, keys, nothing, beta=rates, S=started, inner_batch=n + 1
    )
    held = recursive_least_squares.State(S, np.eye(len(k), dtype=int) / ridge)
    _, C = recursive_least_squares.recurrent(
        keys, keys, nothing, log_forget=0 * beta, ridge=ridge, S=held
    )
    return A, B.f.W - B.total.W, C.S


def _flips(supply: Supply, d_k: int, d_v: int) -> dict[str, Any]:
    return {
        "k": supply.unit("k", 1, d_k)[0],
        "beta": supply.double("b", 1)[0],
        "ridge": supply.positive("r", 1)[0],
        "S": supply.real("S", d_k, d_v),
    }


def _printed_flips(supply: Supply, N: int, d_k: int, d_v: int) -> Numbers:
    x = _flips(supply, d_k, d_v)
    n = N + 1  # one token alone could not tell the three apart
    A, B, C = _said(n=n, **x)
    letters = {"k": x["k"], r"\beta": x["beta"], r"\lambda": x["ridge"], "n": n}
    return Numbers(letters | {"S_0": x["S"], "A_n": A, "B_n": B, "C_n": C})


@identity(
    title="Errors that are fresh multiply, stale ones add up, and evidence is averaged",
    statement=r"A_n^\top k = (1 - \beta)^n S_0^\top k, \quad"
    r" B_n^\top k = (1 - n \beta) S_0^\top k, \quad"
    r" C_n^\top k = \frac{\lambda}{\lambda + n} S_0^\top k",
    source="ours",
    equations=("eq-three-answers",),
    printed={
        "eq-three-answers": AsPrinted(
            numbers=_printed_flips, worlds=("rationals", "floats")
        )
    },
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "stale errors multiply, too": {"stale": False},
        "fresh errors add up": {"fresh": False},
        "the ridge counts for nothing": {"believed": 0},
        "the ridge counts twice": {"believed": 2},
    },
)
def three_answers(
    supply: Supply,
    N: int,
    d_k: int,
    d_v: int,
    *,
    stale: bool = True,
    fresh: bool = True,
    believed: int = 1,
) -> dict[str, Sides]:
    """After n tokens, as stated; after one more, from what n have left."""
    x, n = _flips(supply, d_k, d_v), N + 1
    answer = x["S"].T @ x["k"]
    many = (1 - x["beta"]) ** n, 1 - n * x["beta"]
    shares = (
        many[0] if fresh else many[1],
        many[1] if stale else many[0],
        believed * x["ridge"] / (believed * x["ridge"] + n),
    )
    left = _said(n=n, **x)
    return {
        name: (S.T @ x["k"], share * answer)
        for name, S, share in zip(
            ("fresh", "stale", "least squares"), left, shares, strict=True
        )
    }


def _printed_rates(supply: Supply, d_k: int, d_v: int) -> Numbers:
    x = _token(supply, d_k, d_v)
    letters = _at_one("k", x["k"]) | _at_one("v", x["v"])
    letters |= _at_one(r"\alpha", exp(x["log_decay"])) | _at_one(r"\beta", x["beta"])
    letters |= _at_one(r"\eta", supply.rate("e", 1)[0])
    letters["S"] = Rows(x["S"][None], first=0)
    return Numbers(letters, {"t": range(1, 2)})


@identity(
    title="To erase by one rate and write by another is to be told other values",
    statement=r"\alpha S + k (\eta v - \beta \alpha S^\top k)^\top"
    r" = \alpha S + \beta k (\tfrac{\eta}{\beta} v - \alpha S^\top k)^\top",
    source="ours; hatamizadeh2026 has a gate for each channel, which is more",
    citations=("hatamizadeh2026",),
    equations=("eq-two-rates",),
    printed={"eq-two-rates": AsPrinted(numbers=_printed_rates)},
    chapter=CHAPTER,
    mutants={
        "the value stays as it was": {"power": 0},
        "the value is divided": {"power": -1},
        "both rates erase": {"erasing": 2},
    },
)
def two_rates(
    supply: Supply, d_k: int, d_v: int, *, power: int = 1, erasing: int = 1
) -> Sides:
    """The one memory with two rates, and the gated delta rule on scaled values."""
    x, eta = _token(supply, d_k, d_v), supply.rate("e", 1)[0]
    k, v, beta = x["k"], x["v"], x["beta"]
    e = (beta if erasing == 1 else eta * beta) * k
    given = {"e": e, "log_decay": x["log_decay"], "S": x["S"]}
    _, ours = memory.step(x["q"], k, eta * v, **given)
    _, known = gated_delta_rule.step(**(x | {"v": (eta / beta) ** power * v}))
    return ours, known
