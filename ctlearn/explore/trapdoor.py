"""Trapdoor: one sum in two orders, token by token.

    left    o_t = sum_{j<=t} w(q_t, k_j) v_j     compare with every key, then combine
    right   o_t = S_t' phi(q_t)                  fold the pairs into S, then ask once

The two agree exactly where the weight is a dot product of features, w = phi(q)'phi(k).
For the exponential, the right side has exp's series up to a degree instead, which is
the nearest that so many features come. All rules but the plain one are normalised.
"""

from collections.abc import Callable
from functools import partial
from itertools import combinations_with_replacement
from math import factorial, prod, sqrt
from typing import Any

import numpy as np

from ctlearn import cost, features, plots
from ctlearn.explore.draws import normal, unit
from ctlearn.explore.explorable import Explorable, choice, number, whole
from ctlearn.mixers import linear_attention, softmax_attention
from ctlearn.mixers import normalised_linear_attention as normalised

D_V = 3
_MOST_TOKENS = 24
_KEYS, _VALUES, _QUERIES = range(3)
_ROWS = 40  # of a larger state the figure shows the first

FeatureMap = Callable[[np.ndarray], np.ndarray]
Order = Callable[..., tuple[np.ndarray, Any]]


def compute(
    *,
    rule: str = "plain",
    tokens: int = 12,
    d_k: int = 3,
    scale: float = 2.0,
    degree: int = 2,
    seed: int = 1,
    read: int = _MOST_TOKENS,
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    Keys and queries have length one; under "softmax", `scale` multiplies the queries
    and `degree` is that of the series. `read` of the tokens have been read (all, if it
    is larger). Returns, for T = tokens and at t = read:

    keys, queries [T, d_k], values [T, 3], weights [t] (of the pairs so far, for the
    newest query), features [d_phi] (of that query), state [d_phi, 3] or, with the
    normaliser as one more column, [d_phi, 4], write (of that shape: what the newest
    pair added), left and right [3] (the two answers), gaps [T] (their largest
    difference at every token), left_operations and right_operations [T]
    (multiplications for that token, none counted for making weights and features),
    left_kept and right_kept [T] (numbers kept after it), crossing (the first token for
    which the left order multiplies more). At t = 0 there is no newest token: the state
    and the write are zero, and its other numbers are empty.
    """
    read = min(read, tokens)
    q, k = (unit(normal(seed, which, tokens, d_k)) for which in (_QUERIES, _KEYS))
    v = normal(seed, _VALUES, tokens, D_V)
    if rule == "softmax":
        q = scale * q
    phi, left, right = _orders(rule, degree)
    answers = left(q, k, v)[0]
    asked, _ = right(q, k, v)
    newest = slice(max(read - 1, 0), read)
    # with the unit matrix for values the answer is the weights themselves
    weights = left(q, k, np.eye(tokens))[0][newest, :read].reshape(-1)
    _, S = right(q[:read], k[:read], v[:read])
    state = S if rule == "plain" else np.column_stack(S)
    rows, columns = state.shape
    # the normaliser is what a value column of ones collects
    written = np.column_stack([v, np.ones(tokens)])[newest, :columns]
    t = range(1, tokens + 1)
    once = cost.recurrent_operations(1, rows, columns)
    return {
        "keys": k,
        "values": v,
        "queries": q,
        "weights": weights,
        "features": phi(q)[newest].reshape(-1),
        "state": state,
        "write": phi(k)[newest].T @ written,
        "left": answers[newest].reshape(-1),
        "right": asked[newest].reshape(-1),
        "gaps": np.abs(answers - asked).max(axis=1),
        "left_operations": [cost.softmax_step_operations(i, d_k, D_V) for i in t],
        "right_operations": [once] * tokens,
        "left_kept": [i * (d_k + D_V) for i in t],
        "right_kept": [rows * columns] * tokens,
        "crossing": once // (d_k + D_V) + 1,
    }


def _orders(rule: str, degree: int) -> tuple[FeatureMap, Order, Order]:
    """The features, and the plans that stand for the left and the right order."""
    if rule == "plain":
        return features.identity, linear_attention.parallel, linear_attention.recurrent
    maps: dict[str, FeatureMap] = {
        "elu": features.elu_plus_one,
        "square": features.quadratic,
        "softmax": partial(_series, degree=degree),
    }
    phi = maps[rule]
    left: Order = softmax_attention.parallel
    if rule != "softmax":
        left = partial(normalised.parallel, phi=phi)
    return phi, left, partial(normalised.recurrent, phi=phi)


def _series(x: np.ndarray, degree: int) -> np.ndarray:
    """All monomials up to a degree, so scaled that dot products are exp's series."""
    columns = []
    for n in range(degree + 1):
        for channels in combinations_with_replacement(range(x.shape[-1]), n):
            times = [factorial(channels.count(i)) for i in set(channels)]
            columns.append(x[..., channels].prod(axis=-1) / sqrt(prod(times)))
    return np.stack(columns, axis=-1)


class Trapdoor(Explorable):
    """The explorable of the second chapter; its settings are `compute`'s."""

    title = "Two orders of one sum"

    rule = choice(
        {"plain": "q·k", "elu": "elu + 1", "square": "(q·k)²", "softmax": "exp(τ q·k)"},
        "Weight of a pair",
    )
    tokens = whole(12, 1, _MOST_TOKENS, "tokens $T$", role="size")
    d_k = whole(3, 2, 4, "key size $d_k$", role="key")
    scale = number(
        2.0, 0.0, 8.0, 0.25, "scale $τ$", role="rate", when={"rule": "softmax"}
    )
    degree = whole(2, 0, 6, "series to degree", step=2, when={"rule": "softmax"})
    seed = whole(1, 1, 999, "draw", role="size")
    read = whole(_MOST_TOKENS, 0, _MOST_TOKENS, "token", end="tokens", verb="read")

    def figure(self) -> plots.Figure:
        """Multiplications for every token, and the state that the right order keeps."""
        x = self.numbers()
        fig, (state, work) = plots.figure(5.6, 2.8, columns=2, width_ratios=[1, 1.8])
        shown = x["state"][:_ROWS]
        plots.state_matrix(state, shown, title="state", ylabel="features")
        t = np.arange(1, self.tokens + 1)
        for side, role in (("left", "key"), ("right", "state")):
            work.plot(t, x[f"{side}_operations"], color=plots.colour(role))
            plots.label(work, t[-1], x[f"{side}_operations"][-1], side, role)
        work.set(xlabel="token", title="multiplications", ylim=(0, None))
        work.xaxis.get_major_locator().set_params(integer=True)
        return plots.show(
            fig,
            alt=(
                "Two panels. Left, the state as a matrix of "
                f"{x['state'].shape[0]} rows and {x['state'].shape[1]} columns. Right, "
                f"multiplications for each of {self.tokens} tokens: the left order's "
                "rise in proportion to the tokens read, the right order's stay at "
                f"{x['right_operations'][0]}, and the left order multiplies more from "
                f"token {x['crossing']} on."
            ),
            caption=(
                "Comparing with every key costs more with every token; asking the "
                "folded state costs the same each time."
            ),
        )
