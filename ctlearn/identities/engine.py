"""The engine: a claim is run in several worlds, and shown able to fail.

A claim builds two sides from a supply of numbers (`ctlearn.supplies`). On free symbols
an equality is a proof at those sizes; with the parts `base` and `step`, where the step
starts from an arbitrary symbolic state, it is a proof for every length; a `free` form
in noncommutative algebra is a proof for every dimension. Exact rationals and float64
repeat the claim at sizes that symbols cannot reach.

Each claim names mutants: keyword arguments that put a wrong constant, a dropped
transpose or a swapped order in the place of the right one. A mutant must make the check
fail, or the check proves nothing.

Kinds, and what a check of each asks for:

identity         the two sides are equal
limit            they are equal, one of them a limit that is taken on the way
bound            the left side is at most the right, entry by entry
counterexample   they differ: an exact small instance against a tempting claim
erratum          the part `printed` differs, the part `corrected` is equal

Where a claim says what the letters of its equation in the book stand for, that equation
is run, too, from the text that is printed (`ctlearn.printed`). So is what an erratum's
source prints, which must fail on the numbers on which the statement holds.
"""

import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ctlearn.printed import pages
from ctlearn.printed.execute import AsPrinted, Executed, execute, refuted
from ctlearn.scalars import is_exact
from ctlearn.supplies import Difference, Floats, Rationals, Supply, Symbols

KINDS = ("identity", "limit", "bound", "counterexample", "erratum")
# among what is `printed`, the text that the ledger shows rather than a page of the book
STATEMENT = "statement"
WORLDS = ("rationals", "symbols", "floats")  # cheapest first

Sides = tuple[Any, Any]
Claim = Callable[..., Sides | dict[str, Sides]]

# Sizes that differ from one another, so that a dropped transpose shows.
_AT_SYMBOLS = {"T": 4, "C": 3, "N": 3, "d_k": 2, "d_v": 3, "d": 2}
_AT_FLOATS = {"T": 65, "C": 16, "N": 20, "d_k": 12, "d_v": 10, "d": 12}
# a printed equation is read token by token, for every index, with all its slips
_PRINTED_AT_SYMBOLS = {"T": 3, "C": 2, "N": 3, "d_k": 2, "d_v": 3, "d": 2}
_PRINTED_AT_FLOATS = {"T": 5, "C": 3, "N": 5, "d_k": 4, "d_v": 3, "d": 4}
_RATIONAL_DRAWS = 3


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A claim and all that is needed to check, print and place it.

    `name` is topic and claim, as `delta-rule-one-gradient-step`; by default it is made
    of the claim's module and function. `statement` is TeX. `equations` are the labels
    in the book that the claim proves, and `printed` says of those that are executed as
    printed what their letters stand for; under STATEMENT, that of `statement`.
    `mutants` maps what is wrong to the keyword arguments of the claim that make it so.
    `at` overrides the sizes for symbols and for floats; `worlds` leaves out a world
    where the claim cannot be asked.
    """

    title: str
    kind: str
    statement: str
    source: str
    claim: Claim
    mutants: Mapping[str, Mapping[str, Any]]
    as_printed: str = ""
    name: str = ""
    citations: tuple[str, ...] = ()
    equations: tuple[str, ...] = ()
    printed: Mapping[str, AsPrinted] = field(default_factory=dict)
    chapter: str = ""
    worlds: tuple[str, ...] = WORLDS
    at: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    free: Callable[..., Sides] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind: expected one of {KINDS}, got {self.kind!r}")
        unknown = set(self.worlds) - set(WORLDS)
        if unknown or not self.worlds:
            raise ValueError(f"worlds: expected some of {WORLDS}, got {self.worlds}")
        if bool(self.as_printed) != (self.kind == "erratum"):
            raise ValueError(
                f"as_printed: expected the source's text of an erratum, and of no "
                f"other kind, got {self.as_printed!r} of kind {self.kind!r}"
            )
        texts = {STATEMENT, *self.equations}
        if not set(self.printed) <= texts:
            raise ValueError(f"printed: expected some of {texts}, got {self.printed}")
        if not self.name:
            topic = self.claim.__module__.rpartition(".")[2]
            name = f"{topic}-{self.claim.__name__}".replace("_", "-")
            object.__setattr__(self, "name", name)

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes that the claim asks for: its positional parameters after supply."""
        parameters = inspect.signature(self.claim).parameters.values()
        named = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        return tuple(named[1:])

    @property
    def place(self) -> tuple[str, int]:
        """File, from the package's folder, and line of the claim."""
        return (
            self.claim.__module__.replace(".", "/") + ".py",
            self.claim.__code__.co_firstlineno,
        )


@dataclass(frozen=True)
class Result:
    """What running one identity showed.

    It holds the identity's name rather than the identity, whose claim may be a closure
    that cannot travel between processes. `gaps` says, by world and part, how far apart
    the two sides were; `refuted` are the worlds in which the text that an erratum's
    source prints was run, and failed.
    """

    name: str
    methods: tuple[str, ...]
    gaps: Mapping[str, Mapping[str, str]]
    mutants: Mapping[str, bool]
    printed: Mapping[str, Executed]
    refuted: tuple[str, ...]
    failures: tuple[str, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """True if the claim held wherever it ran and every mutant was caught."""
        return not self.failures


def identity(**declared: Any) -> Callable[[Claim], Identity]:
    """Declare the decorated claim as an `Identity`; see there for what to give."""

    def declare(claim: Claim) -> Identity:
        return Identity(claim=claim, **{"kind": "identity", **declared})

    return declare


def run(claim: Identity) -> Result:
    """Check the claim in all its worlds, and each of its mutants until it is caught."""
    start = time.perf_counter()
    methods, gaps, failures = [], {}, []
    for world in claim.worlds:
        try:
            trials = [
                _trial(claim, supply, at)
                for supply, at in _supplies(world, claim.sizes, claim.at)
            ]
        except Exception as error:  # one broken claim must not hide the others
            failures.append(f"{world}: {type(error).__name__}: {error}")
            continue
        failures += [f"{world}: {trial.fault}" for trial in trials if trial.fault]
        methods.append(_method(world, trials))
        gaps[world] = trials[0].gaps
    if claim.free is not None:
        fault = _free_fault(claim, {})
        failures += [f"any dimension: {fault}"] if fault else []
        methods.append("any dimension, in noncommutative algebra")
    mutants = {
        name: _is_caught(claim, change) for name, change in claim.mutants.items()
    }
    failures += [f"mutant survives: {name}" for name, hit in mutants.items() if not hit]
    if claim.free is not None and not any(
        _free_fault(claim, change) for change in _free_mutants(claim)
    ):
        failures.append("any dimension: no mutant makes it fail")
    try:
        printed, wrong = _as_printed(claim), _misprint(claim)
    except Exception as error:
        printed, wrong = {}, ()
        failures.append(f"as printed: {type(error).__name__}: {error}")
    for label, executed in printed.items():
        failures += [f"{label} as printed: {fault}" for fault in executed.failures]
    if claim.as_printed and STATEMENT in printed and not wrong:
        failures.append("what the source prints holds")
    return Result(
        claim.name,
        tuple(methods),
        gaps,
        mutants,
        printed,
        wrong,
        tuple(failures),
        time.perf_counter() - start,
    )


@dataclass(frozen=True)
class _Trial:
    """One run of a claim: where, on which parts, how far apart, and what was wrong."""

    at: Mapping[str, int]
    gaps: Mapping[str, str]
    gap: str
    fault: str


def _trial(
    claim: Identity,
    supply: Supply,
    at: Mapping[str, int],
    change: Mapping[str, Any] | None = None,
) -> _Trial:
    sides = claim.claim(supply, **at, **(change or {}))
    parts = sides if isinstance(sides, dict) else {"": sides}
    faults, gaps = [], {}
    for part, (left, right) in parts.items():
        wanted = _wanted(claim.kind, part)
        if wanted == "at most":
            gap = _room(np.asarray(left), np.asarray(right))
        else:
            gap = supply.difference(np.asarray(left), np.asarray(right))
        if gap.equal != (wanted != "different"):
            where = part or "the sides"
            faults.append(f"{where}: not {wanted} ({gap.text}) at {dict(at)}")
        gaps[part] = gap
    texts = {part: gap.text for part, gap in gaps.items()}
    return _Trial(at, texts, _told(claim.kind, gaps), "; ".join(faults))


def _wanted(kind: str, part: str) -> str:
    if kind == "bound":
        return "at most"
    if kind == "counterexample" or (kind == "erratum" and part == "printed"):
        return "different"
    return "equal"


def _told(kind: str, gaps: Mapping[str, Difference]) -> str:
    """The gaps of all parts in a few words."""
    if kind == "erratum":
        return ", ".join(f"{part} off by {gap.text}" for part, gap in gaps.items())
    if kind == "bound":
        return f"closest approach {min(gaps.values(), key=lambda gap: gap.size).text}"
    return f"difference {max(gaps.values(), key=lambda gap: gap.size).text}"


def _room(left: np.ndarray, right: np.ndarray) -> Difference:
    """Whether left <= right everywhere, and the smallest room that is left."""
    room = np.min(right - left)
    # rounding may push a bound that is met exactly a little over
    slack = 0 if is_exact(room) else 1e-12 * max(1.0, float(np.max(np.abs(right))))
    return Difference(bool(room >= -slack), float(room), f"{float(room):.2g}")


def _as_printed(claim: Identity) -> dict[str, Executed]:
    """The claim's statement and equations, run from their text where it is at hand."""
    texts = {label: equation.tex for label, equation in pages.printed().items()}
    texts[STATEMENT] = claim.statement
    return {
        label: execute(texts[label], how, printed_draws(how))
        for label, how in claim.printed.items()
        if label in texts
    }


def _misprint(claim: Identity) -> tuple[str, ...]:
    """The worlds in which what an erratum's source prints fails, if it can be run."""
    if not claim.as_printed or STATEMENT not in claim.printed:
        return ()
    how = claim.printed[STATEMENT]
    return refuted(claim.as_printed, how, printed_draws(how))


def printed_draws(how: AsPrinted) -> Iterable[tuple[Supply, Mapping[str, int]]]:
    """The supplies, with sizes, on which a printed equation is run."""
    small = {"symbols": _PRINTED_AT_SYMBOLS, "floats": _PRINTED_AT_FLOATS}
    for world in how.worlds:
        yield from _supplies(world, how.sizes, how.at, **small)


def sides(claim: Identity) -> tuple[str, Mapping[str, int], dict[str, Sides]]:
    """Both sides of each part, in the world that shows most, and its sizes."""
    world = max(claim.worlds, key=("floats", "rationals", "symbols").index)
    supply, at = next(iter(_supplies(world, claim.sizes, claim.at)))
    found = claim.claim(supply, **at)
    return world, at, found if isinstance(found, dict) else {"": found}


def _supplies(
    world: str,
    sizes: Iterable[str],
    overrides: Mapping[str, Mapping[str, int]],
    *,
    symbols: Mapping[str, int] = _AT_SYMBOLS,
    floats: Mapping[str, int] = _AT_FLOATS,
) -> Iterable[tuple[Supply, Mapping[str, int]]]:
    at = overrides.get(world, {})
    if world == "symbols":
        yield Symbols(), {size: at.get(size, symbols[size]) for size in sizes}
    elif world == "floats":
        yield Floats(0), {size: at.get(size, floats[size]) for size in sizes}
    else:
        rng = np.random.default_rng(0)
        for seed in range(_RATIONAL_DRAWS):
            drawn = {size: int(rng.integers(2, 6)) for size in sizes}
            yield Rationals(seed), drawn | dict(at)


def _method(world: str, trials: list[_Trial]) -> str:
    """Say in words what was run, from what was run."""
    at = trials[-1].at
    sizes = ", ".join(f"{name} = {size}" for name, size in at.items())
    where = f" at {sizes}" if sizes else ""
    if world == "symbols":
        if {"base", "step"} <= set(trials[0].gaps):
            return f"induction, from an arbitrary symbolic state{where}"
        return f"symbols{where}"
    if world == "rationals":
        largest = {name: max(trial.at[name] for trial in trials) for name in at}
        sizes = ", ".join(f"{name} ≤ {size}" for name, size in largest.items())
        where = f" at random {sizes}" if sizes else ""
        return f"exact rationals{where}, {len(trials)} draws"
    return f"float64{where}, {trials[0].gap}"


def _is_caught(claim: Identity, change: Mapping[str, Any]) -> bool:
    """Whether some world fails under the change; misfitting shapes count as failing."""
    for world in WORLDS:
        if world not in claim.worlds:
            continue
        for supply, at in _supplies(world, claim.sizes, claim.at):
            try:
                if _trial(claim, supply, at, change).fault:
                    return True
            except ValueError:
                return True
    return False


def _free_fault(claim: Identity, change: Mapping[str, Any]) -> str:
    import sympy

    assert claim.free is not None
    left, right = claim.free(**change)
    gap = sympy.expand(left - right)
    return "" if gap == 0 else f"the sides differ by {gap}"


def _free_mutants(claim: Identity) -> list[Mapping[str, Any]]:
    assert claim.free is not None
    accepted = set(inspect.signature(claim.free).parameters)
    return [change for change in claim.mutants.values() if set(change) <= accepted]
