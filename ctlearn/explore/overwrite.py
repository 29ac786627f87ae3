"""Overwrite: bind a key anew, and watch the old value, the new one, and bystanders.

Values are numbers, so the state is a point S of the same plane as the keys, and the
answer to a key k is how far S reaches along it, S'k. A first key is bound to the value
`old`, then each bystander to a value of its own, then the first key to `new`, by

    add     S <- S + k v
    decay   S <- alpha S + k v
    delta   S <- S + beta k (v - S'k)

A write of add or delta moves S along k: an answer at cosine c to k moves by c times as
much as the answer at k.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctlearn import plots
from ctlearn.explore.explorable import Explorable, choice, number, several, whole
from ctlearn.explore.memory_interference import states_of

_MOST_WRITES = 6
_ANGLES = (20.0, 70.0, 140.0, -120.0, -50.0)  # of the first key, then of bystanders
_VALUES = (1.0, -1.0, 1.5, 0.5)  # of bystanders


def compute(
    *,
    rule: str = "add",
    old: float = 2.0,
    new: float = -1.0,
    beta: float = 1.0,
    alpha: float = 0.7,
    writes: int = 3,
    written: int = _MOST_WRITES,
    angles: Sequence[float] = (),
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    There are `writes` - 2 bystanders, and `written` of the writes are done (all, if it
    is larger). `angles` in degrees replace the directions of the first keys. Returns,
    for m = writes - 1 keys of which the first is bound twice:

    directions [m] (degrees), keys [m, 2], cosines [m] (with the first key), path
    [writes + 1, 2] (the state before and after each write), before and answers [m]
    (S'k one write ago and now), moves [m] (their difference), bound [m] (the value
    bound last; None before), key (which was written last, None at first), misses [m]
    (answer less bound value), kept (what a write leaves of the old answer at its key).
    """
    written = min(written, writes)
    directions = np.array(_ANGLES[: writes - 1])
    given = np.asarray(angles[: writes - 1], dtype=float)
    directions[: len(given)] = given
    radians = np.radians(directions)
    keys = np.stack([np.cos(radians), np.sin(radians)], axis=1)
    order = [*range(writes - 1), 0]
    values = [old, *_VALUES[: writes - 2], new]
    path = np.array(
        states_of(keys[order], np.array(values)[:, None], rule, alpha, beta)
    )[:, :, 0]
    before, answers = keys @ path[max(written - 1, 0)], keys @ path[written]
    bound: list[float | None] = [None] * (writes - 1)
    for key, value in zip(order[:written], values[:written], strict=True):
        bound[key] = value
    return {
        "directions": directions,
        "keys": keys,
        "cosines": keys @ keys[0],
        "path": path,
        "before": before,
        "answers": answers,
        "moves": answers - before,
        "bound": bound,
        "key": order[written - 1] if written else None,
        "misses": [
            None if value is None else answer - value
            for answer, value in zip(answers, bound, strict=True)
        ],
        "kept": {"add": 1.0, "decay": alpha, "delta": 1 - beta}[rule],
    }


class Overwrite(Explorable):
    """The explorable of the seventh chapter; its settings are `compute`'s."""

    title = "One key, bound anew"

    rule = choice({"add": "add", "decay": "decay, then add", "delta": "delta"}, "Rule")
    old = number(2.0, -2.0, 2.0, 0.25, "old value", role="value")
    new = number(-1.0, -2.0, 2.0, 0.25, "new value", role="value")
    beta = number(
        1.0, 0.0, 2.0, 0.05, "strength $β$", role="rate", when={"rule": "delta"}
    )
    alpha = number(
        0.7, 0.0, 1.0, 0.05, "decay $α$", role="decay", when={"rule": "decay"}
    )
    writes = whole(3, 2, _MOST_WRITES, "writes", role="size")
    written = whole(_MOST_WRITES, 0, _MOST_WRITES, "write", end="writes", verb="do")
    angles = several(-180, 180, _MOST_WRITES - 1)

    def figure(self) -> plots.Figure:
        """The state's way through the plane, and the answers before and after."""
        x = self.numbers()
        fig, (plane, answers) = plots.figure(5.6, 2.9, columns=2)
        names = ["key", *(f"bystander {i}" for i in range(1, len(x["keys"])))]
        reach = max(2.5, 1.1 * np.linalg.norm(x["path"], axis=1).max())
        for key, name in zip(x["keys"], names, strict=True):
            plane.plot(*np.outer(key, [0, reach]), color=plots.colour("key"), ls=":")
            right, up = reach * key
            plots.label(plane, right, up, name.removeprefix("bystander "), "key")
        plane.plot(*x["path"].T, "o-", color=plots.colour("state"), ms=4)
        plane.set(xlim=(-reach, 1.2 * reach), ylim=(-reach, reach), aspect="equal")
        plane.set(xticks=[0], yticks=[0], title="the state's way")
        rows = np.arange(len(names))
        for row, (then, now) in enumerate(zip(x["before"], x["answers"], strict=True)):
            answers.plot([then, now], [row, row], color=plots.INK, ls="-", lw=1)
        answers.plot(x["before"], rows, "o", color=plots.INK, mfc="none")
        answers.plot(x["answers"], rows, "o", color=plots.colour("output"))
        for row, value in enumerate(x["bound"]):
            if value is not None:
                answers.plot(value, row, "D", color=plots.colour("value"), mfc="none")
        answers.set(ylim=(rows[-1] + 0.6, -0.6), yticks=rows, yticklabels=names)
        answers.set(title="answers, bound values (◇)")
        return plots.show(
            fig,
            alt=(
                f"Two panels for {self.writes} writes by the rule {self.rule!r}. Left, "
                f"the directions of {len(names)} keys and the way of the state from "
                "the origin. Right, for each key the answer before and after the last "
                "write and the value bound to it: the key's answer goes from "
                f"{x['before'][0]:.2f} to {x['answers'][0]:.2f}."
            ),
            caption=(
                "A write moves the state along its key, so every answer moves with it, "
                "in proportion to the cosine."
            ),
        )
