"""Kernel regression: a mean of stored values, from the nearest one to all alike.

Points (k_i, v_i) are stored as they are, and a question q is answered by

    kernel    sum_i w_i v_i / sum_i w_i,   w_i = exp(-||q - k_i||^2 / (2 h^2))
    softmax   sum_i w_i v_i / sum_i w_i,   w_i = exp(q'k_i / h^2)
    linear    c S'q,   S = sum_i k_i v_i',  with the one c that serves all points best

On a circle all keys have length 1, and softmax attention is kernel regression of width
h; with scores divided by sqrt(d_k) the width is d_k^(1/4). On a line keys differ in
length, and softmax attention favours long ones.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctlearn import plots
from ctlearn.explore.draws import GOLDEN, PLASTIC, spread
from ctlearn.explore.explorable import Explorable, choice, number, several, whole
from ctlearn.tasks.two_memories import ask_cache, ask_state

_MOST_POINTS = 10
_GRID = 121
_HIGHEST = 2.0
_NOTHING = 1e-20


def compute(
    *,
    space: str = "circle",
    points: int = 6,
    width: float = 0.5,
    question: float = 0.1,
    places: Sequence[float] = (),
    levels: Sequence[float] = (),
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    A place p from -1 to 1 stands for the direction of 180 p degrees on the circle, and
    for the number 2 p on the line. `places` and `levels` replace the places and values
    of the first points. Returns, for n = points:

    places [n], values [n], grid [121] (of places), kernel, softmax and linear [121]
    (the answers there), answers [3] (at the question: kernel, softmax, linear),
    weights [n] (of the kernel there, their sum is 1), read (how many points they
    amount to: 1 / sum of squared weights), lowest and highest (the values'), outside
    [3] (the share of the grid where an answer is no mean of the values), attention (the
    width of softmax attention among keys of length one).
    """
    at = spread(points, GOLDEN, 1.0, places)
    values = spread(points, PLASTIC, 1.5, levels)
    grid = np.linspace(-1, 1, _GRID)
    asked = np.append(grid, question)
    k, q, v = _points(space, at), _points(space, asked), values[:, None]
    scale = 1 / width**2
    # ||q - k||^2 / 2 is a score with one more entry, but for what all keys share
    long_k = np.column_stack([k, -(k**2).sum(axis=1) / 2])
    long_q = np.column_stack([q, np.ones(len(q))])
    kernel = ask_cache(long_k, v, long_q, scale)[:, 0]
    softmax = ask_cache(k, v, q, scale)[:, 0]
    recalled = ask_state(k, v, k)[:, 0]
    size = recalled @ recalled
    # writes may cancel to rounding, of which no factor makes an answer
    factor = float(recalled @ values / size) if size > _NOTHING else 0.0
    linear = factor * ask_state(k, v, q)[:, 0]
    answers = np.stack([kernel, softmax, linear])
    # with the unit matrix for values the answer is the weights themselves
    weights = ask_cache(long_k, np.eye(points), long_q[-1:], scale)[0]
    lowest, highest = values.min(), values.max()
    off = (answers < lowest - 1e-9) | (answers > highest + 1e-9)
    return {
        "places": at,
        "values": values,
        "grid": grid,
        "kernel": kernel[:-1],
        "softmax": softmax[:-1],
        "linear": linear[:-1],
        "answers": answers[:, -1],
        "weights": weights,
        "read": float(1 / (weights**2).sum()),
        "lowest": lowest,
        "highest": highest,
        "outside": off[:, :-1].mean(axis=1),
        "attention": k.shape[1] ** 0.25,
    }


def _points(space: str, at: np.ndarray) -> np.ndarray:
    """Keys or questions [n, d_k] at places from -1 to 1."""
    if space == "line":
        return 2 * at[:, None]
    return np.stack([np.cos(np.pi * at), np.sin(np.pi * at)], axis=1)


class KernelRegression(Explorable):
    """The explorable of the sixth chapter; its settings are `compute`'s."""

    title = "A mean of stored values"

    space = choice(
        {"circle": "on a circle: one length", "line": "on a line: any length"}, "Keys"
    )
    points = whole(6, 1, _MOST_POINTS, "points $N$", role="size")
    width = number(0.5, 0.05, 8.0, 0.25, "width $h$", role="rate", log=True)
    question = number(0.1, -1.0, 1.0, 0.01, "question", role="query")
    places = several(-1, 1, _MOST_POINTS)
    levels = several(-_HIGHEST, _HIGHEST, _MOST_POINTS)

    def figure(self) -> plots.Figure:
        """The three answers over all questions, and the points they are made of."""
        x = self.numbers()
        fig, ax = plots.figure(5.6, 3.0)
        ax.axhspan(x["lowest"], x["highest"], color=plots.INK, alpha=0.08, lw=0)
        curves = {"kernel": "output", "softmax": "query", "linear": "state"}
        lines = {"kernel": "-", "softmax": ":", "linear": "--"}
        for name, role in curves.items():
            style = {"color": plots.colour(role), "ls": lines[name]}
            ax.plot(x["grid"], x[name], **style)
        low, high = sorted(["kernel", "linear"], key=lambda name: x[name][-1])
        for name, side in {low: "top", high: "bottom"}.items():
            plots.label(ax, 1, x[name][-1], name, curves[name], va=side)
        ax.plot(x["places"], x["values"], "o", color=plots.colour("value"))
        ax.set(xlabel="place of the question", ylabel="answer", xlim=(-1, 1))
        ax.set(xticks=[-1, 0, 1])
        return plots.show(
            fig,
            alt=(
                f"Answers against the place of the question, for {self.points} stored "
                "points. Kernel regression passes by the points and stays within the "
                f"shaded band from {x['lowest']:.2f} to {x['highest']:.2f} of their "
                "values; linear attention is one smooth curve that misses them."
            ),
            caption=(
                "A mean of stored values never leaves their range; how many values it "
                "is a mean of is for the width to say."
            ),
        )
