"""Orthogonalise: where Newton and Schulz's iteration sends each singular value.

    X = G / ||G||,   X <- a X + (b XX' + c (XX')^2) X

A step keeps the singular vectors and sends each singular value s to
a s + b s^3 + c s^5, so a diagonal G shows all there is to see. Near 0 only a counts: a
value that is small after the division is multiplied by the product of the a's, and by
no more. Muon has one (a, b, c) for all its steps, LaCT five in turn, of which the last
is repeated here when more are asked for; the cubic has (3/2, -1/2, 0).
[jordan2024muon; zhang2025lact, released code]
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctlearn import plots
from ctlearn.explore.explorable import Explorable, choice, several, whole
from ctlearn.inner import MUON, MUON_LACT, newton_schulz
from ctlearn.tasks import orthogonalisation

STEPS = 10
_MOST_VALUES = 6
_APART = 0.7  # decades from one singular value to the next
_LEAST, _GRID = 1e-5, 241
_ITERATIONS = {"muon": MUON, "lact": MUON_LACT, "cubic": ((1.5, -0.5, 0.0),)}


def compute(
    *,
    iteration: str = "muon",
    rank: int = _MOST_VALUES,
    steps: int = 5,
    decades: Sequence[float] = (),
) -> dict[str, Any]:
    """Every number of the figure at these settings.

    G has `rank` singular values, and `decades` replace the logarithms to base 10 of the
    first. Returns, for n = rank:

    singular [n] (of G), path [11, n] (of G / ||G||, and after each of ten steps, of
    which `steps` are taken), before and after [n] (the rows of path at none and at
    `steps`), grid [241] (from 1e-5 to 1), muon, lact and cubic [241] (where that many
    steps of each send the grid), growth (the product of the a's of these steps),
    smallest (which singular value is), gain (by what it is multiplied), ratios [2] (of
    the largest to the smallest, before and after).
    """
    exponents = -_APART * np.arange(rank)
    given = np.asarray(decades[:rank], dtype=float)
    exponents[: len(given)] = given
    singular = 10.0**exponents
    rows = {name: _coefficients(name, STEPS) for name in _ITERATIONS}
    chosen = rows[iteration]
    path = np.array(
        [
            np.diag(newton_schulz(np.diag(singular), chosen[:n]))
            for n in range(STEPS + 1)
        ]
    )
    before, after = path[0], path[steps]
    smallest = int(before.argmin())
    grid = np.geomspace(_LEAST, 1, _GRID)
    return {
        "singular": singular,
        "path": path,
        "before": before,
        "after": after,
        "grid": grid,
        **{n: orthogonalisation.image(grid, row[:steps]) for n, row in rows.items()},
        "growth": orthogonalisation.growth(chosen[:steps]),
        "smallest": smallest,
        "gain": float(after[smallest] / before[smallest]),
        "ratios": [float(x.max() / x.min()) for x in (before, after)],
    }


def _coefficients(iteration: str, steps: int) -> list[tuple[float, float, float]]:
    """The (a, b, c) of so many steps; the last of an iteration's own is repeated."""
    own = _ITERATIONS[iteration]
    return [own[min(i, len(own) - 1)] for i in range(steps)]


class Orthogonalise(Explorable):
    """The explorable of the thirteenth chapter; its settings are `compute`'s."""

    title = "What a step does to singular values"

    iteration = choice({"muon": "Muon", "lact": "LaCT", "cubic": "cubic"}, "Iteration")
    steps = whole(5, 0, STEPS, "steps", role="size")
    rank = whole(_MOST_VALUES, 1, _MOST_VALUES, "singular values", role="size")
    decades = several(-4, 1, _MOST_VALUES)

    def figure(self) -> plots.Figure:
        """The way of each singular value, and where the steps send all there are."""
        x = self.numbers()
        fig, (way, image) = plots.figure(5.6, 3.0, columns=2)
        for i, values in enumerate(x["path"][: self.steps + 1].T):
            last = i == x["smallest"]
            role, line = ("error", "--") if last else ("state", "-")
            way.plot(values, color=plots.colour(role), ls=line, marker=".")
        way.set(yscale="log", xlabel="steps", title="the way of each value")
        way.xaxis.get_major_locator().set_params(integer=True)
        names = {"muon": "Muon", "lact": "LaCT", "cubic": "cubic"}
        image.plot(x["grid"], x[self.iteration], color=plots.colour("state"), ls="-")
        image.plot(x["before"], x["after"], "o", color=plots.colour("state"))
        image.axhline(1, color=plots.INK, ls="-", lw=0.6, alpha=0.5)
        image.set(xscale="log", ylim=(0, 1.3), xlabel="of $G/||G||$")
        image.set(title=f"after {self.steps} steps of {names[self.iteration]}")
        smallest = x["smallest"]
        return plots.show(
            fig,
            alt=(
                f"Two panels for {self.rank} singular values. Left, their way through "
                f"{self.steps} steps, on a logarithmic axis: most come near one, and "
                f"the smallest goes from {x['before'][smallest]:.2g} to "
                f"{x['after'][smallest]:.2g}. Right, where the steps send any value "
                "from 0.00001 to one, rising to a plateau near one, with the values of "
                "the left panel on the curve."
            ),
            caption=(
                "All values above a few thousandths of the length come near one; a "
                "smaller one is multiplied, and stays small."
            ),
        )
