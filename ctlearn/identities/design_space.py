"""The design space: what a choice forbids, and how often a memory may turn round."""

from typing import Any

import numpy as np

from ctlearn.identities.engine import Sides, identity
from ctlearn.inner import Linear, Training
from ctlearn.mixers import (
    delta_rule,
    gated_delta_rule,
    kimi_delta_attention,
    recursive_least_squares,
    ttt_linear,
)
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import exp
from ctlearn.supplies import Supply

CHAPTER = ""


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


def _printed_turn(supply: Supply, d_k: int, d_v: int) -> Numbers:
    x, R = _token(supply, d_k, d_v), _turn(supply, d_k)
    o, S = gated_delta_rule.step(**x)
    turned = {"q": R.T @ x["q"], "k": R.T @ x["k"], "S": R.T @ x["S"]}
    o_turned, S_turned = gated_delta_rule.step(**(x | turned))
    letters = {"R": R, r"\alpha_t": exp(x["log_decay"]), r"\beta_t": x["beta"]}
    letters |= {"k_t": x["k"], "q_t": x["q"], "v_t": x["v"], "S_{t-1}": x["S"]}
    letters |= {r"\tilde{S}_{t-1}": R.T @ x["S"], r"\tilde{S}_t": S_turned}
    letters |= {r"\tilde{k}_t": turned["k"], r"\tilde{q}_t": turned["q"]}
    return Numbers(letters | {"S_t": S, "o_t": o, r"\tilde{o}_t": o_turned})


@identity(
    title="Where all channels fade alike, keys and queries may be turned together",
    statement=r"\tilde{k}_t = R^\top k_t, \quad \tilde{q}_t = R^\top q_t, \quad"
    r" R R^\top = I \;\Rightarrow\; \tilde{S}_t = R^\top S_t, \quad \tilde{o}_t = o_t",
    source="ours",
    equations=("eq-turned-together",),
    printed={
        "eq-turned-together": AsPrinted(
            numbers=_printed_turn, worlds=("rationals", "floats")
        )
    },
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
