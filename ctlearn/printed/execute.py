"""Run an equation as it is printed, and then with every slip its text can have."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ctlearn.printed.evaluate import RELATIONS, Comparison, Evaluation, Numbers
from ctlearn.printed.functions import Misfit
from ctlearn.printed.mutants import mutants
from ctlearn.printed.parse import PrintedError
from ctlearn.scalars import TOLERANCE, is_exact
from ctlearn.supplies import Supply

Draw = tuple[Supply, Mapping[str, int]]


@dataclass(frozen=True, kw_only=True)
class AsPrinted:
    """What is needed to run a printed equation.

    `numbers` draws, from a supply and sizes, what its letters stand for. `worlds` are
    the supplies in which it can be asked, the last one that in which its slips are
    tried. `at` overrides sizes, by world. `equivalent` gives, for each slip that leaves
    the equation true, the reason.
    """

    numbers: Callable[..., Numbers]
    worlds: tuple[str, ...] = ("symbols", "rationals", "floats")
    at: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    equivalent: Mapping[str, str] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes that `numbers` asks for."""
        return tuple(inspect.signature(self.numbers).parameters)[1:]


@dataclass(frozen=True)
class Executed:
    """What running an equation as printed showed.

    `slips` counts the mutants of its text, which an equality has; `survivors` names
    those that leave it true.
    """

    worlds: tuple[str, ...]
    slips: int
    survivors: tuple[str, ...]
    failures: tuple[str, ...]

    @property
    def told(self) -> str:
        """What was run, in words derived from it."""
        worlds = ", ".join(self.worlds) or "nothing"
        noticed = self.slips - len(self.survivors)
        slips = f"{noticed} of {self.slips} slips noticed"
        if not self.slips:
            slips = "no equality, so no slips are tried"
        return f"executed as printed, on {worlds}; {slips}"


def execute(tex: str, how: AsPrinted, draws: Iterable[Draw]) -> Executed:
    """Run the text on every draw, and its slips on the last."""
    worlds, failures = [], []
    supply, evaluation = None, None
    for supply, sizes in draws:
        exact = supply.world != "floats"
        try:
            evaluation = Evaluation(tex, how.numbers(supply, **sizes), exact=exact)
            wrong = _wrong(evaluation, supply)
        except PrintedError as error:
            return Executed((), 0, (), (str(error),))
        worlds += [supply.world] if supply.world not in worlds else []
        failures += [f"{supply.world}: {wrong}"] if wrong else []
    assert supply is not None
    assert evaluation is not None
    # what is only bounded may well stay so with a slip
    slips = mutants(evaluation) if evaluation.states_equality else []
    survivors = tuple(
        slip.change for slip in slips if not _fails(slip.tex, evaluation, supply)
    )
    failures += [
        f"slip goes unnoticed: {x}" for x in survivors if x not in how.equivalent
    ]
    failures += [
        f"slip is noticed after all: {x}" for x in how.equivalent if x not in survivors
    ]
    return Executed(tuple(worlds), len(slips), survivors, tuple(failures))


def refuted(tex: str, how: AsPrinted, draws: Iterable[Draw]) -> tuple[str, ...]:
    """The worlds on whose numbers a text does not hold, if it fails in all of them.

    Shapes that do not fit are a way to fail. Raises PrintedError if the text cannot be
    read, or names what has no value there, for then it says nothing to refute.
    """
    fails: dict[str, bool] = {}
    for supply, sizes in draws:
        numbers = how.numbers(supply, **sizes)
        evaluation = Evaluation(tex, numbers, exact=supply.world != "floats")
        try:
            wrong = bool(_wrong(evaluation, supply))
        except PrintedError as error:
            if not isinstance(error.__cause__, Misfit):
                raise
            wrong = True
        fails[supply.world] = fails.get(supply.world, True) and wrong
    return tuple(fails) if all(fails.values()) else ()


def _wrong(evaluation: Evaluation, supply: Supply) -> str:
    """What does not hold, in words; nothing if all of the equation does."""
    held = 0
    for comparison in evaluation.comparisons():
        if not _holds(comparison, supply):
            at = ", ".join(f"{name} = {value}" for name, value in comparison.at.items())
            return f"{comparison.relation} does not hold{at and ' at ' + at}"
        held += 1
    return "" if held else "there is nothing to compare"


def _holds(comparison: Comparison, supply: Supply) -> bool:
    left, relation, right = comparison.left, comparison.relation, comparison.right
    if relation in ("=", r"\ne"):
        equal = supply.difference(left, right).equal
        return equal == (relation == "=")
    if not is_exact(left) and relation in (r"\le", r"\ge"):
        # rounding may push a bound that is met exactly a little over
        slack = TOLERANCE[np.dtype("float64")] * np.maximum(1, np.abs(right))
        right = right + slack if relation == r"\le" else right - slack
    return bool(np.all(RELATIONS[relation](left, right)))


def _fails(tex: str, evaluation: Evaluation, supply: Supply) -> bool:
    """Whether another text fails on the same numbers."""
    try:
        other = Evaluation(tex, evaluation.numbers, exact=evaluation.exact)
        with np.errstate(all="ignore"):  # a fraction upside down may divide by zero
            return bool(_wrong(other, supply))
    except PrintedError:
        return True
