"""Memory interference: write pairs into one matrix, and see what comes back.

Pairs (k_i, v_i) are written into S in turn by one of three rules,

    add     S_i = S_{i-1} + k_i v_i'
    decay   S_i = alpha S_{i-1} + k_i v_i'
    delta   S_i = S_{i-1} + beta k_i (v_i - S_{i-1}' k_i)'

and S' k_i is compared with v_i. Keys have length 1. At similarity 0 they point in
independent directions, and addition has the mean-square recall error (n - 1) / d_k.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctlearn import memory, plots
from ctlearn.explore.draws import directions, normal
from ctlearn.explore.explorable import Explorable, choice, number, several, whole
from ctlearn.scalars import log

D_V = 8
SEEDS = 32
_MOST_PAIRS = 24
_KEYS, _VALUES, _SHARED = range(3)


def compute(  # noqa: PLR0913 - one argument a control of the figure
    *,
    rule: str = "add",
    d_k: int = 8,
    pairs: int = 8,
    similarity: float = 0.0,
    alpha: float = 0.9,
    beta: float = 1.0,
    seed: int = 1,
    written: int = _MOST_PAIRS,
    pair: int = 1,
    angles: Sequence[float] = (),
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    `written` of the pairs have been written (all, if it is larger), `pair` is the one
    whose numbers are put in words. For d_k = 2, `angles` in degrees replace the
    directions of the first keys. Returns, for n = pairs:

    keys [n, d_k], values [n, 8], gram [n, n] (cosines), state [d_k, 8],
    returned [n, 8], errors [written] (mean square over the value's entries),
    curve [n] (mean error of the first m pairs once m are written), average and spread
    [n] (mean and standard deviation of the curve over 32 further draws),
    theory [n] (empty where (m - 1) / d_k does not apply), error (at `written`; None
    if nothing is) and cosine (the mean over two different keys; None for one pair).
    """
    written = min(written, pairs)
    k, v = _draw(seed, d_k, pairs, similarity, angles)
    states = states_of(k, v, rule, alpha, beta)
    state = states[written]
    returned = k @ state
    curve = _curve(k, v, states)
    curves = []
    for other in range(seed + 1, seed + 1 + SEEDS):
        keys, values = _draw(other, d_k, pairs, similarity, angles)
        again = states_of(keys, values, rule, alpha, beta)
        curves.append(_curve(keys, values, again))
    gram = k @ k.T
    independent = rule == "add" and similarity == 0 and not (d_k == 2 and angles)
    return {
        "keys": k,
        "values": v,
        "gram": gram,
        "state": state,
        "returned": returned,
        "errors": ((returned - v) ** 2).mean(axis=1)[:written],
        "curve": curve,
        "average": np.mean(curves, axis=0),
        "spread": np.std(curves, axis=0),
        "theory": np.arange(pairs) / d_k if independent else np.empty(0),
        "error": float(curve[written - 1]) if written else None,
        "cosine": (
            float((gram.sum() - pairs) / (pairs * (pairs - 1))) if pairs > 1 else None
        ),
    }


def _draw(
    seed: int, d_k: int, pairs: int, similarity: float, angles: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Keys [pairs, d_k] of length 1, and values [pairs, 8]."""
    k = directions(seed, _KEYS, _SHARED, pairs, d_k, similarity)
    if d_k == 2:
        turned = np.radians(np.asarray(angles[:pairs], dtype=float))
        k[: len(turned)] = np.stack([np.cos(turned), np.sin(turned)], axis=1)
    return k, normal(seed, _VALUES, pairs, D_V)


def states_of(
    k: np.ndarray, v: np.ndarray, rule: str, alpha: float, beta: float
) -> list[np.ndarray]:
    """The memory before the first pair and after each: pairs + 1 states."""
    states = [np.zeros((k.shape[1], v.shape[1]))]
    for k_i, v_i in zip(k[:, None], v[:, None], strict=True):
        S = states[-1]
        if rule == "delta":
            _, S = memory.recurrent(k_i, k_i, beta * v_i, e=beta * k_i, S=S)
        else:
            forget = log(np.array([alpha])) if rule == "decay" else None
            _, S = memory.recurrent(k_i, k_i, v_i, log_decay=forget, S=S)
        states.append(S)
    return states


def _curve(k: np.ndarray, v: np.ndarray, states: list[np.ndarray]) -> np.ndarray:
    """The mean error of all pairs written so far, after each write: [pairs]."""
    written = range(1, len(k) + 1)
    return np.array([((k[:m] @ states[m] - v[:m]) ** 2).mean() for m in written])


class MemoryInterference(Explorable):
    """The explorable of the chapter on interference; its settings are `compute`'s."""

    title = "Memory interference"

    rule = choice({"add": "add", "decay": "decay, then add", "delta": "delta"}, "Rule")
    d_k = whole(8, 2, 32, "key size $d_k$", role="key")
    pairs = whole(8, 1, _MOST_PAIRS, "pairs $N$", role="size")
    similarity = number(0.0, 0.0, 1.0, 0.05, "key similarity", role="key")
    alpha = number(
        0.9, 0.5, 1.0, 0.01, "decay $α$", role="decay", when={"rule": "decay"}
    )
    beta = number(
        1.0, 0.0, 2.0, 0.05, "write strength $β$", role="rate", when={"rule": "delta"}
    )
    seed = whole(1, 1, 999, "draw", role="size")
    pair = whole(1, 1, _MOST_PAIRS, "ask with pair", role="query", most="pairs")
    written = whole(_MOST_PAIRS, 0, _MOST_PAIRS, "pair", end="pairs", verb="write")
    angles = several(-360, 360, _MOST_PAIRS)

    def figure(self) -> plots.Figure:
        """Crosstalk, and the error as pairs are written."""
        x = self.numbers()
        fig, (keys, errors) = plots.figure(5.6, 2.7, columns=2, width_ratios=[1, 1.3])
        plots.state_matrix(
            keys, x["gram"], role="key", limit=1, title="crosstalk",
            xlabel="pair", ylabel="pair",
        )  # fmt: skip
        count = np.arange(1, self.pairs + 1)
        line = {"color": plots.colour("error"), "marker": "o"}
        errors.plot(count, x["curve"], ls=plots.LINES["error"], **line)
        if len(x["theory"]):
            errors.plot(count, x["theory"], color=plots.INK, ls=":")
            plots.label(errors, count[-1], x["theory"][-1], "theory")
        errors.set(xlabel="pairs written", title="recall error", ylim=(0, None))
        errors.xaxis.get_major_locator().set_params(integer=True)
        last = x["curve"][-1]
        return plots.show(
            fig,
            alt=(
                f"Two panels for {self.pairs} pairs with keys of size {self.d_k}. "
                "Left, the cosines between all keys as a matrix with ones on its "
                "diagonal. Right, the mean-square recall error against the number of "
                f"pairs written: it ends at {last:.2f}."
            ),
            caption=(
                "Every pair that is written leaks into the answers of the others, in "
                "proportion to the cosine between their keys."
            ),
        )
