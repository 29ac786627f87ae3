"""Lookup: turn a question among a few keys, and see a mean become a lookup.

Facts (k_i, v_i) have keys on a circle and values in the plane. A query q in direction
`angle` is put to two memories, the file (the key-value cache) and the matrix,

    cache   sum_i exp(scale q'k_i) v_i / sum_i exp(scale q'k_i)
    matrix  S' q,   S = sum_i k_i v_i'

and the matrix's answer is also given times the one factor that serves all facts best.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctlearn import cost, plots
from ctlearn.explore.explorable import Explorable, number, several, whole
from ctlearn.tasks.two_memories import ask_cache, ask_state

_MOST_FACTS = 12


def compute(
    *,
    facts: int = 5,
    scale: float = 4.0,
    angle: int = 55,
    angles: Sequence[float] = (),
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    `angle` is the direction of the query and `angles` those of the first keys, in
    degrees; without them the keys lie spread around the circle. Returns, for N = facts:

    directions [N] (degrees), keys [N, 2], values [N, 2], query [2], scores [N]
    (cosines with the query), weights [N] (the cache's, their sum is 1), cache [2],
    matrix [2] and rescaled [2] (the answers), factor (between matrix and rescaled),
    items (how many facts the cache really reads: 1 / sum of squared weights),
    errors [N, 3] (squared distance from its value when a fact's own key asks: cache,
    matrix, rescaled), recall [3] (their means), cache_bytes and matrix_bytes (float32).
    """
    # close to the golden angle, which spreads any number of directions evenly
    directions = (200.0 + 137 * np.arange(facts)) % 360 - 180
    given = np.asarray(angles[:facts], dtype=float)
    directions[: len(given)] = given
    k, v = _unit(directions), _values(facts)
    q = _unit(np.array([float(angle)]))
    # with the unit matrix for values the answer is the weights themselves
    weights = ask_cache(k, np.eye(facts), q, scale)[0]
    recalled = ask_state(k, v, k)
    factor = float((recalled * v).sum() / (recalled * recalled).sum())
    answers = np.stack([ask_cache(k, v, k, scale), recalled, factor * recalled])
    errors = ((answers - v) ** 2).sum(axis=2).T
    return {
        "directions": directions,
        "keys": k,
        "values": v,
        "query": q[0],
        "scores": k @ q[0],
        "weights": weights,
        "cache": ask_cache(k, v, q, scale)[0],
        "matrix": ask_state(k, v, q)[0],
        "factor": factor,
        "rescaled": factor * ask_state(k, v, q)[0],
        "items": float(1 / (weights**2).sum()),
        "errors": errors,
        "recall": errors.mean(axis=0),
        "cache_bytes": cost.cache_bytes(facts, 2, 2),
        "matrix_bytes": cost.state_bytes(2, 2),
    }


def _unit(degrees: np.ndarray) -> np.ndarray:
    """Directions [n, 2] of length one."""
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def _values(facts: int) -> np.ndarray:
    """Points [facts, 2] in the square from -1 to 1, well apart however many."""
    # multiples of 1/g and 1/g^2, g the real root of g^3 = g + 1, fill a square evenly
    steps = np.outer(np.arange(1, facts + 1), [0.7548776662, 0.5698402910])
    return np.round(2 * ((0.5 + steps) % 1) - 1, 2)


class Lookup(Explorable):
    """The explorable of the first chapter; its settings are `compute`'s."""

    title = "A mean becomes a lookup"

    facts = whole(5, 1, _MOST_FACTS, "facts $N$", role="size")
    scale = number(4.0, 0.0, 64.0, 0.5, "scale $τ$", role="rate")
    angle = whole(55, -180, 180, "question $q$ in °", role="query")
    angles = several(-180, 180, _MOST_FACTS)

    def figure(self) -> plots.Figure:
        """The values in their plane, and the answers of the two memories."""
        x = self.numbers()
        fig, (values, weights) = plots.figure(5.6, 2.9, columns=2)
        for value, weight in zip(x["values"], x["weights"], strict=True):
            pull = np.stack([value, x["cache"]]).T
            values.plot(*pull, color=plots.INK, ls="-", lw=4 * weight, alpha=0.35)
        for i, value in enumerate(x["values"], 1):
            colour = plots.colour("value")
            values.plot(*value, "o", color=colour)
            plots.label(values, value[0], value[1], str(i), "value", va="bottom")
        answers = [("cache", "D", "output"), ("rescaled", "s", "state")]
        for (name, sign, role), text in zip(answers, ["file", "matrix"], strict=True):
            values.plot(*x[name], sign, color=plots.colour(role))
            plots.label(values, x[name][0], x[name][1], text, role, va="top")
        values.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1], title="values and answers")
        values.set_aspect("equal")
        count = np.arange(1, self.facts + 1)
        weights.barh(count, x["weights"], color=plots.colour("query"))
        weights.set(ylim=(self.facts + 0.6, 0.4), xlim=(0, 1), yticks=count)
        weights.set(xlabel="weight", ylabel="fact", title="what the file reads")
        most = int(x["weights"].argmax())
        return plots.show(
            fig,
            alt=(
                f"Two panels for {self.facts} facts. Left, their values as numbered "
                "points in the plane; the file's answer is a mean of them, the "
                "matrix's answer lies apart. Right, a bar for the weight of each fact: "
                f"the largest, of fact {most + 1}, is {x['weights'][most]:.2f}."
            ),
            caption=(
                "What the file answers is a mean of the values it holds. The larger "
                "the scale, the nearer this mean is to a single one of them."
            ),
        )
