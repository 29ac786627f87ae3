"""Memora: the softmax update is the exact minimum among weights of a given sum.

Of all positive weights U of sum c it makes least

    J(U) = <g, U> + sum U log(U / W_{t-1}) / eta + sum U log(U) / a
"""

from functools import partial
from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.tokens import tokens
from ctlearn.inner import Linear
from ctlearn.mixers import memora
from ctlearn.objectives import Mirror, simplex
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import exp, log
from ctlearn.supplies import Supply

FEW = {"floats": {"d_k": 2, "d_v": 2}}


def _step(supply: Supply, d_k: int, d_v: int) -> dict[str, Any]:
    """One token of Memora: weights before and after, the loss's slope, both rates."""
    q, k, v = (x[0] for x in tokens(supply, 1, d_k, d_v))
    mass, eta, a = 1 + supply.positive("c", 1)[0], *supply.rate("r", 2)
    beta = 1 / (1 / eta + 1 / a)
    before = Mirror.start(
        Linear(log(supply.positive("w", d_k, d_v))), partial(simplex, mass=mass)
    )
    gates = {"log_decay": log(np.asarray(beta / eta)), "beta": beta, "mass": mass}
    _, after = memora.step(q, k, v, **gates, S=before)
    W = before.f.M.W
    g = np.outer(k, k @ W - v)
    return {
        **{"w": W.ravel(), "W": after.f.M.W.ravel(), "g": g.ravel()},
        **{"eta": eta, "a": a, "beta": beta, "mass": mass},
    }


def _other(supply: Supply, x: dict[str, Any]) -> np.ndarray:
    """Any other weights of the same sum."""
    U = supply.positive("u", len(x["w"]))
    return x["mass"] * U / U.sum()


def _printed_minimum(supply: Supply, d_k: int, d_v: int) -> Numbers:
    x = _step(supply, d_k, d_v)
    letters = {name: x[name] for name in ("w", "W", "g", "a")}
    letters |= {"U": _other(supply, x), "n": d_k * d_v}
    return Numbers(letters | {r"\eta": x["eta"], r"\beta": x["beta"]})


@identity(
    title="Memora's step is the exact minimum, and others cost more by their entropy",
    statement=r"\frac{1}{\beta} = \frac{1}{\eta} + \frac{1}{a}, \quad"
    r" \sum_{i=1}^{n} \left(g_i U_i + \frac{U_i}{\eta} \log(\frac{U_i}{w_i})"
    r" + \frac{U_i}{a} \log(U_i)\right) ="
    r" \sum_{i=1}^{n} \left(g_i W_i + \frac{W_i}{\eta} \log(\frac{W_i}{w_i})"
    r" + \frac{W_i}{a} \log(W_i)\right)"
    r" + \frac{1}{\beta} \sum_{i=1}^{n} U_i \log(\frac{U_i}{W_i})",
    source="behrouz2025miras, eqs. 30 and 31, reported; the excess is ours",
    citations=("behrouz2025miras", "kivinen1997"),
    chapter="13_deep_memories",
    worlds=("floats",),
    printed={
        STATEMENT: AsPrinted(numbers=_printed_minimum, worlds=("floats",), at=FEW)
    },
    mutants={
        "the plain step, without the softmax": {"plain": True},
        "the weights before": {"stay": True},
        "the entropy the other way round": {"turned": True},
        "its rate is that of the last weights alone": {"alone": True},
    },
    at={"floats": {"d_k": 5, "d_v": 4}},
)
def minimum(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    plain: bool = False,
    stay: bool = False,
    turned: bool = False,
    alone: bool = False,
) -> Sides:
    """Relative entropy is above zero, so no other such weights cost as little."""
    x = _step(supply, d_k, d_v)
    U, W, w, g = _other(supply, x), x["W"], x["w"], x["g"]
    if plain:
        W = np.abs(x["beta"] / x["eta"] * w - x["beta"] * g)
        W = x["mass"] * W / W.sum()
    W = w if stay else W

    def cost(V: np.ndarray) -> Any:
        near = (V * log(V / w)).sum() / x["eta"]
        return g @ V + near + (V * log(V)).sum() / x["a"]

    entropy = (W * log(W / U) if turned else U * log(U / W)).sum()
    rate = x["eta"] if alone else x["beta"]
    return np.asarray(cost(U)), np.asarray(cost(W) + entropy / rate)


def _printed_slopes(supply: Supply, d_k: int, d_v: int) -> Numbers:
    x = _step(supply, d_k, d_v)
    letters = {name: x[name] for name in ("w", "W", "g")} | {"c": x["mass"]}
    letters |= {r"\alpha": x["beta"] / x["eta"], r"\beta": x["beta"], "n": d_k * d_v}
    indices = {name: range(1, d_k * d_v + 1) for name in "ij"}
    return Numbers(letters, indices)


@identity(
    title="At its step every weight's cost has one slope, and the sum is kept",
    statement=r"\frac{W_i}{W_j} ="
    r" \exp(-\beta (g_i - g_j)) \frac{w_i^\alpha}{w_j^\alpha}, \quad"
    r" \sum_{i=1}^{n} W_i = c",
    source="behrouz2025miras, eqs. 30 and 31, reported",
    citations=("behrouz2025miras", "kivinen1997"),
    chapter="13_deep_memories",
    worlds=("symbols", "floats"),
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_slopes,
            worlds=("floats",),
            at=FEW,
            equivalent={
                "W → w (line 1, column 96)": "the last weights have the same sum"
            },
        )
    },
    mutants={
        "the last weights do not fade": {"power": 0},
        "the slopes are climbed": {"sign": -1},
        "the sum is one": {"one": True},
    },
    at={"symbols": {"d_k": 1, "d_v": 3}, "floats": {"d_k": 5, "d_v": 4}},
)
def stationary(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    power: int = 1,
    sign: int = 1,
    one: bool = False,
) -> dict[str, Sides]:
    """The conditions of Karush, Kuhn and Tucker, with the multiplier taken out.

    Every weight is above zero, so no bound on a weight is met.
    """
    x = _step(supply, d_k, d_v)
    W, w, g, alpha = x["W"], x["w"], x["g"], x["beta"] / x["eta"]
    kept = exp((alpha if power else 1) * log(w))
    wanted = exp(-sign * x["beta"] * (g - g[0])) * kept / kept[0]
    return {
        "slopes": (W / W[0], wanted),
        "sum": (np.asarray(W.sum()), np.asarray(1 if one else x["mass"])),
    }
