"""One layer, one step: points, the line that a gradient step fits to them, and a layer.

Points (x_i, y_i) are the context. A line is W = (slope, intercept), and says W'k at
the key k = (c x, 1), where c is the scale in which inputs arrive. From a start W_0

    W = W_0 + (eta / N) sum_i k_i (y_i - W_0'k_i)

is one step down the mean of half the squared errors. The self-attention layer that is
constructed for it, without a softmax, answers any question the same, and never forms W.
[vonoswald2023, proposition 1]
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctlearn import plots
from ctlearn.explore.draws import GOLDEN, PLASTIC, spread
from ctlearn.explore.explorable import Explorable, number, several, whole
from ctlearn.mixers import constructed_attention

_MOST_POINTS = 10
_HIGHEST = 2.0
_NOTHING = 1e-20  # of a slope's square: the start is the best line
_FLAT = 1e-6  # of the keys' singular values: a direction that they do not have


def compute(
    *,
    points: int = 8,
    step: float = 1.0,
    scale: float = 1.0,
    slope: float = 0.0,
    intercept: float = 0.0,
    question: float = 0.7,
    places: Sequence[float] = (),
    levels: Sequence[float] = (),
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    `step` is eta, `slope` and `intercept` are W_0, and `places` and `levels` replace x
    and y of the first points; x is in [-1, 1], whatever the scale. Returns, for
    N = points:

    places, values [N], stepped [2] (W), best [2] (least squares: of all that fit alike
    the shortest), largest (the larger eigenvalue of the mean of k k': from some starts
    a step above 2 / largest climbs), best_step (the step size that is best from here;
    None at the bottom), losses [3] (mean of half the squared errors at W_0, W and
    best), starting, answer, layer and fitted (what W_0, W, the attention layer and best
    say to the question), gap (between step and layer, the largest at the question and
    the two ends), shares [N] (what each token adds to the answer of W_0).
    """
    at = spread(points, GOLDEN, 1.0, places)
    line = 0.8 * spread(points, GOLDEN, 1.0, ()) + 0.4
    values = np.round(line + spread(points, PLASTIC, 0.4, ()), 2)
    values[: len(levels)] = levels[:points]
    k, v = _keys(scale, at), values[:, None]
    asked = _keys(scale, np.array([question, -1.0, 1.0]))
    W_0 = np.array([[slope], [intercept]])
    errors = v - k @ W_0
    W = W_0 + step / points * k.T @ errors
    best = np.linalg.lstsq(k, v, rcond=_FLAT)[0]
    layer = constructed_attention.predict(asked, k, v, W_0=W_0, eta=step)
    descent = (k.T @ errors / points)[:, 0]
    size = descent @ descent
    losses = [float(((v - k @ one) ** 2).mean() / 2) for one in (W_0, W, best)]
    return {
        "places": at,
        "values": values,
        "stepped": W[:, 0],
        "best": best[:, 0],
        "largest": float(np.linalg.eigvalsh(k.T @ k / points)[-1]),
        "best_step": (
            float(size / ((k @ descent) ** 2).mean()) if size > _NOTHING else None
        ),
        "losses": losses,
        "starting": float((asked @ W_0)[0, 0]),
        "answer": float((asked @ W)[0, 0]),
        "layer": float(layer[0, 0]),
        "fitted": float((asked @ best)[0, 0]),
        "gap": float(np.abs(layer - asked @ W).max()),
        "shares": step / points * (k @ asked[0]) * errors[:, 0],
    }


def _keys(scale: float, places: np.ndarray) -> np.ndarray:
    """Keys (c x, 1) of places x: [n, 2]."""
    return np.column_stack([scale * places, np.ones_like(places)])


class OneLayerOneStep(Explorable):
    """The explorable of the tenth chapter; its settings are `compute`'s."""

    title = "One layer, one step"

    step = number(1.0, 0.0, 2.0, 0.05, "step size $η$", role="rate")
    scale = number(1.0, 0.25, 4.0, 0.25, "input scale $c$", role="size", log=True)
    points = whole(8, 1, _MOST_POINTS, "points $N$", role="size")
    question = number(0.7, -1.0, 1.0, 0.01, "question $x$", role="query")
    slope = number(0.0, -3.0, 3.0, 0.05, "start: slope", role="state")
    intercept = number(0.0, -2.0, 2.0, 0.05, "start: intercept", role="state")
    places = several(-1, 1, _MOST_POINTS)
    levels = several(-_HIGHEST, _HIGHEST, _MOST_POINTS)

    def figure(self) -> plots.Figure:
        """The points with three lines, and what each token adds to the answer."""
        x = self.numbers()
        fig, (plane, shares) = plots.figure(5.6, 3.0, columns=2, width_ratios=[1.5, 1])
        ends = _keys(self.scale, np.array([-1.0, 1.0]))
        start = np.array([self.slope, self.intercept])
        lines = [("start", start, "state", "--"), ("best", x["best"], "size", ":")]
        for name, W, role, dash in [*lines, ("step", x["stepped"], "output", "-")]:
            plane.plot([-1, 1], ends @ W, color=plots.colour(role), ls=dash)
            plots.label(plane, 1, ends[1] @ W, name, role)
        plane.plot(x["places"], x["values"], "o", color=plots.colour("value"))
        plane.plot(self.question, x["answer"], "D", color=plots.colour("output"))
        plane.set(xlim=(-1, 1), ylim=(-_HIGHEST, _HIGHEST), xlabel="x", title="y")
        count = np.arange(1, self.points + 1)
        shares.barh(count, x["shares"], color=plots.colour("value"))
        shares.set(ylim=(self.points + 0.6, 0.4), yticks=count, ylabel="token")
        shares.set(title="added to the answer")
        return plots.show(
            fig,
            alt=(
                f"Two panels for {self.points} points. Left, the points in the plane "
                "with three lines: the start, the line after one step, which answers "
                f"{x['answer']:.2f} at x = {self.question:g}, and the best line, which "
                f"answers {x['fitted']:.2f}. Right, a bar for each token: what it adds "
                "to the answer."
            ),
            caption=(
                "Every token adds its own part of the gradient step, and the sum is "
                "what the attention layer answers."
            ),
        )
