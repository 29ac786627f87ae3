"""Two views: one stream, read by training and by linear attention.

Training takes `inner` gradient steps at every token, in all weights of f, and answers

    f(x) = W' phi(x)

where phi is x itself, or the gated hidden units silu(x W_0) * (x W_2), which learn too,
at a tenth of the rate.
Linear attention is handed every step as a pair, the features phi(k) as they were before
the step for a key and g = -eta (slope of the loss at f(k)) for a value, and adds:

    S <- S + phi(k) g',   answers S' phi(q)

with the features as they are now. W starts from nothing, so that S is W, and both views
answer the same, until something other than a step moves W: here, bringing each
unit's weights back to the length they started with. [liu2026, from its abstract]
"""

from typing import Any

import numpy as np

from ctlearn import plots
from ctlearn.explore.draws import at_one_cosine, normal, unit
from ctlearn.explore.explorable import Explorable, choice, number, whole
from ctlearn.inner import GatedUnit, Linear, each, silu, with_lengths
from ctlearn.mixers import linear_attention

TOKENS, D_V = 4, 2
_VALUES = ((0.9, 0.4), (-0.4, 0.9), (-0.8, -0.5), (0.5, -0.8))
_MOST_STEPS = 4
# Of the learned features: how many, the length of each one's weights, and their share
# of the rate. The draw is one that gives the four keys features of lengths near one.
_HIDDEN, _LENGTH, _SHARE, _DRAW = 5, 2.0, 0.1, 71


def compute(
    *,
    features: str = "static",
    objective: str = "dot",
    weights: str = "free",
    inner: int = 1,
    rate: float = 1.0,
    cosine: float = 0.0,
    read: int = TOKENS,
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    There are four tokens, of which `read` have been read, with keys of length one and
    any two of them at `cosine`. `objective` is "dot" for the loss -v'f(k), "turned" for
    the same with its sign turned, or "square" for half the squared error. Returns, for
    features of d units:

    keys [4, 5], values [4, 2], stored [4 inner, d] and written [4 inner, 2] (the pairs
    of linear attention, step by step), trained_state and state [d, 2] (W and S),
    trained and linear [4, 2] (what each answers to every key), gaps [4] (the largest
    difference of these after each token), times [read] (how far training's answer
    reaches along its value, in lengths of the value), errors and losses [5] (after all
    tokens, with 0 to 4 inner steps: the mean square distance of an answer from its
    value, and the mean of the loss that is trained on).
    """
    k, v = at_one_cosine(TOKENS, cosine), np.array(_VALUES)
    counts = range(_MOST_STEPS + 1)
    runs = [
        _trained(_learner(features), k, v, rate, n, objective, weights == "normalised")
        for n in counts
    ]
    stages, stored, written = runs[inner]
    sums = [
        _summed(stored[: t * inner], written[: t * inner]) for t in range(TOKENS + 1)
    ]
    trained = np.array([f.read(k) for f in stages])
    linear = np.array([_features(f, k) @ S for f, S in zip(stages, sums, strict=True)])
    ends = [run[0][-1].read(k) for run in runs]
    along = (trained[read] * v).sum(axis=1) / (v * v).sum(axis=1)
    return {
        "keys": k,
        "values": v,
        "stored": stored,
        "written": written,
        "trained_state": _last(stages[read]),
        "state": sums[read],
        "trained": trained[read],
        "linear": linear[read],
        "gaps": np.abs(trained - linear).max(axis=(1, 2))[1:],
        "times": along[:read],
        "errors": [float(((z - v) ** 2).sum(axis=1).mean()) for z in ends],
        "losses": [float(_loss(objective, z, v).mean()) for z in ends],
    }


def _learner(features: str) -> Linear | GatedUnit:
    """The learner before the first token: W is nothing, the features are drawn."""
    d_k = TOKENS + 1
    if features == "static":
        return Linear(np.zeros((d_k, D_V)))
    gate, value = (_LENGTH * unit(normal(_DRAW, n, _HIDDEN, d_k)).T for n in range(2))
    return GatedUnit(gate, np.zeros((_HIDDEN, D_V)), value)


def _last(f: Linear | GatedUnit) -> np.ndarray:
    """The weights W [d, 2] that f ends with."""
    return f.W if isinstance(f, Linear) else f.W_1


def _features(f: Linear | GatedUnit, x: np.ndarray) -> np.ndarray:
    """What the last weights of f are given at the rows of x."""
    return x if isinstance(f, Linear) else silu(x @ f.W_0) * (x @ f.W_2)


def _summed(stored: np.ndarray, written: np.ndarray) -> np.ndarray:
    """The state of linear attention after these pairs."""
    return linear_attention.recurrent(stored, stored, written)[1]


def _trained(
    f: Any, k: Any, v: Any, rate: float, steps: int, objective: str, normalised: bool
) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """The learner before the first token and after each, and the pairs of each step."""
    # weights that start from nothing are brought to length one
    lengths = each(lambda w: np.linalg.norm(w, axis=0) + ~w.any(axis=0), f)
    rates = None if isinstance(f, Linear) else np.array([[_SHARE, 1, _SHARE]])
    stages, stored, written = [f], [], []
    for k_t, v_t in zip(k, v, strict=True):
        for _ in range(steps):
            g = -rate * _slope(objective, f.read(k_t), v_t)
            stored.append(_features(f, k_t))
            written.append(g)
            f = each(np.add, f, f.gradient(k_t, g, rates))
            f = each(with_lengths, f, lengths) if normalised else f
        stages.append(f)
    pairs = np.reshape(stored, (-1, len(_last(f)))), np.reshape(written, (-1, D_V))
    return stages, *pairs


def _slope(objective: str, z: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The slope of the loss at an answer z."""
    return {"dot": -v, "turned": v, "square": z - v}[objective]


def _loss(objective: str, z: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The loss of each answer."""
    if objective == "square":
        return ((z - v) ** 2).sum(axis=1) / 2
    return (z * v).sum(axis=1) * (1 if objective == "turned" else -1)


class TwoViews(Explorable):
    """The explorable of the fourteenth chapter; its settings are `compute`'s."""

    title = "Training, or linear attention"

    features = choice({"static": "the key itself", "moving": "learned"}, "Features")
    objective = choice(
        {"dot": "dot product", "turned": "sign turned", "square": "squared error"},
        "Loss",
    )
    weights = choice({"free": "as they come", "normalised": "normalised"}, "Weights")
    inner = whole(1, 0, _MOST_STEPS, "inner steps $n$", role="size")
    rate = number(1.0, 0.0, 1.0, 0.05, "step size $η$", role="rate")
    cosine = number(0.0, 0.0, 1.0, 0.05, "key cosine", role="key")
    read = whole(TOKENS, 0, TOKENS, "token", verb="read")

    def figure(self) -> plots.Figure:
        """Values and both views' answers, and the loss that falls as answers leave."""
        x = self.numbers()
        fig, (plane, sweep) = plots.figure(5.6, 2.9, columns=2)
        for i, value in enumerate(x["values"]):
            plane.plot(*np.outer(value, [0, 4]), color=plots.INK, ls=":", lw=0.8)
            plane.plot(*value, "D", color=plots.colour("value"), mfc="none")
            plots.label(plane, value[0], value[1], str(i + 1), "value")
        plane.plot(*x["trained"].T, "o", color=plots.colour("output"))
        plane.plot(*x["linear"].T, "s", color=plots.colour("state"), mfc="none", ms=8)
        reach = max(1.2, 1.1 * float(np.abs(x["trained"]).max()))
        plane.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
        plane.set(xticks=[0], yticks=[0], title="values (◇), answers")
        for name, role, line in (("errors", "error", "-"), ("losses", "rate", "--")):
            sweep.plot(x[name], color=plots.colour(role), ls=line, marker=".")
            text = {"errors": "error", "losses": "loss"}[name]
            plots.label(sweep, _MOST_STEPS, x[name][-1], text, role)
        sweep.axvline(self.inner, color=plots.INK, lw=0.8, ls=":")
        sweep.set(xlabel="inner steps", xticks=range(_MOST_STEPS + 1))
        return plots.show(
            fig,
            alt=(
                "Two panels. Left, four values in the plane, with the answers of "
                "training as discs and those of linear attention as squares: they "
                f"differ by at most {x['gaps'][-1]:.1g}. Right, against the number of "
                "inner steps, the error of the answers, which at "
                f"{self.inner} is {x['errors'][self.inner]:.2f}, and the loss that is "
                "trained on."
            ),
            caption=(
                "Training and linear attention give one answer; with more inner steps "
                "the loss falls on while the answers pass their values."
            ),
        )
