"""What a right answer must hold to, tried on inputs that are drawn anew each time.

Nothing here is a stored answer: what is wanted is computed by the reference at the
moment it is compared. An answer comes as plain arrays and numbers, from wherever it was
computed; `at_once` asks a function that may be trusted, in this process.
"""

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ctlearn.course.exercise import (
    Answer,
    Asked,
    Broken,
    Exercise,
    Inputs,
    Mistake,
    Sizes,
    Stopped,
)

# Another order of the same float64 operations is off by 1e-12 of the largest number at
# the sizes of these exercises. The second is for what should be zero.
RELATIVE, ABSOLUTE = 1e-8, 1e-12
# How often inputs are drawn at each of an exercise's shapes.
DRAWS = 2

Rng = np.random.Generator


class Finding(NamedTuple):
    """The properties that an answer lacks, and the mistake that it is, if known."""

    broken: tuple[Broken, ...]
    mistake: Mistake | None


def examine(exercise: Exercise, asked: Asked, seed: int) -> Finding:
    """Try every property; if one is lacking, look for the mistake.

    An exception of the function's own ends the trials and is told as a property that is
    lacking; any other Stopped is passed on.
    """
    rng = np.random.default_rng(seed)
    broken = tuple(lacking(exercise, asked, rng))
    return Finding(broken, recognised(exercise, asked, rng) if broken else None)


def lacking(exercise: Exercise, asked: Asked, rng: Rng) -> Iterator[Broken]:
    """The properties that an answer lacks, in order, as `examine` tells them."""
    last: Sizes = {}

    def draw(rng: Rng, sizes: Sizes) -> Inputs:
        nonlocal last
        last = sizes
        return exercise.draw(rng, sizes)

    watched = replace(exercise, draw=draw)
    for wanted in exercise.properties:
        try:
            found = wanted.broken(asked, watched, rng)
        except Stopped as stopped:
            if stopped.kind != "error":
                raise
            says = f"{stopped.says} That was at {listed(last)}."
            yield Broken("an answer", says)
            return
        if found:
            yield found


def recognised(exercise: Exercise, asked: Asked, rng: Rng) -> Mistake | None:
    """The mistake whose answers these are, on inputs of every shape.

    Where the mistake raises an exception, such as at sizes that do not fit, the
    function must raise one, too; but it must give a wrong answer somewhere.
    """
    drawn = [inputs for _, inputs in _draws(exercise, rng)]
    answers = [_outcome(asked, inputs) for inputs in drawn]
    right = [_outcome(at_once(exercise.reference), inputs) for inputs in drawn]
    pairs = zip(right, answers, strict=True)
    if all(x is None or _same_answer(mine, x) for mine, x in pairs):
        return None
    for mistake in exercise.mistakes:
        mine = [_outcome(at_once(mistake.function), inputs) for inputs in drawn]
        if all(map(_same_answer, mine, answers)):
            return mistake
    return None


def at_once(function: Callable) -> Asked:
    """Ask a function in this process: one that may be trusted."""

    def asked(inputs: Inputs) -> Answer:
        own = copy.deepcopy(inputs)
        # what is no number is told by the properties
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                value = function(**own)
            except Exception as error:
                raise Stopped("error", f"{type(error).__name__}: {error}.") from error
        return Answer(value, own)

    return asked


@dataclass(frozen=True)
class Values:
    """The reference's values."""

    name: str = "the values"

    def broken(self, asked: Asked, exercise: Exercise, rng: Rng) -> Broken | None:
        """Compare at every shape."""
        for sizes, inputs in _draws(exercise, rng):
            found = asked(inputs).value
            said = differs(found, _right(exercise, inputs), exercise.returns)
            if said:
                return Broken(self.name, f"{said} at {listed(sizes)}.")
        return None


@dataclass(frozen=True)
class Untouched:
    """The inputs hold afterwards what they held before."""

    name: str = "the inputs stay as they were"

    def broken(self, asked: Asked, exercise: Exercise, rng: Rng) -> Broken | None:
        """Compare the inputs after a call, at every shape."""
        for sizes, inputs in _draws(exercise, rng):
            after = asked(inputs).inputs
            for name, before in inputs.items():
                if not same(after.get(name), before):
                    return Broken(
                        self.name,
                        f"Your function writes into its argument {name}, "
                        f"at {listed(sizes)}.",
                    )
        return None


@dataclass(frozen=True)
class Causal:
    """The answers up to a token do not depend on the tokens after it.

    `by_token` are the inputs that have a row for each token; `output` is what has one,
    too, among the values returned.
    """

    by_token: tuple[str, ...]
    output: str = "o"
    name: str = "the future is not read"

    def broken(self, asked: Asked, exercise: Exercise, rng: Rng) -> Broken | None:
        """Draw the last tokens anew."""
        for sizes, inputs in _draws(exercise, rng):
            tokens = len(inputs[self.by_token[0]])
            if tokens < 2:
                continue
            cut = int(rng.integers(1, tokens))
            others = exercise.draw(rng, sizes)
            changed = inputs | {
                name: np.concatenate([inputs[name][:cut], others[name][cut:]])
                for name in self.by_token
            }
            first, second = (
                _rows(_named(asked(x).value, exercise)[self.output])[:cut]
                for x in (inputs, changed)
            )
            if not same(first, second):
                return Broken(
                    self.name,
                    f"The first {cut} of {tokens} answers change when the tokens after "
                    f"them do, at {listed(sizes)}.",
                )
        return None


@dataclass(frozen=True)
class PassesState:
    """Two calls, the state handed from the first to the second, equal one.

    `states` are names of arguments and of values returned; `by_token` and `output` are
    as for `Causal`, and a function need not have an `output`.
    """

    by_token: tuple[str, ...]
    output: str = "o"
    states: tuple[str, ...] = ("S",)
    name: str = "a state can be handed on"

    def broken(self, asked: Asked, exercise: Exercise, rng: Rng) -> Broken | None:
        """Cut the tokens in two at a random place."""
        for sizes, inputs in _draws(exercise, rng):
            tokens = len(inputs[self.by_token[0]])
            cut = int(rng.integers(0, tokens + 1))
            rows = {name: inputs[name] for name in self.by_token}
            before = inputs | {name: x[:cut] for name, x in rows.items()}
            after = inputs | {name: x[cut:] for name, x in rows.items()}
            head = _named(asked(before).value, exercise)
            right = _named(_right(exercise, before), exercise)
            # what is no state is told by `Values`, and cannot be handed on
            if any(_unlike(head[x], right[x]) for x in self.states):
                return None
            whole = _named(asked(inputs).value, exercise)
            handed = {name: _as(inputs[name], head[name]) for name in self.states}
            tail = _named(asked(after | handed).value, exercise)
            agree = {name: same(tail[name], whole[name]) for name in self.states}
            if self.output in exercise.returns:
                first, last = np.split(_rows(whole[self.output]), [cut])
                pairs = (head, first), (tail, last)
                agree[self.output] = all(same(x[self.output], y) for x, y in pairs)
            for name, agrees in agree.items():
                if not agrees:
                    return Broken(
                        self.name,
                        f"{name} differs when {tokens} tokens are read as {cut} and "
                        f"{tokens - cut}, at {listed(sizes)}.",
                    )
        return None


@dataclass(frozen=True)
class Limit:
    """Something that is known of special inputs.

    `here` turns a draw into inputs of that kind, or gives None where it cannot;
    `wanted` says the answer for them, and may be left to the reference.
    """

    name: str
    here: Callable[[Inputs], Inputs | None]
    wanted: Callable[[Inputs], Any] | None = None

    def broken(self, asked: Asked, exercise: Exercise, rng: Rng) -> Broken | None:
        """Compare at every shape."""
        for sizes, inputs in _draws(exercise, rng):
            at = self.here(copy.deepcopy(inputs))
            if at is None:
                continue
            right = self.wanted(copy.deepcopy(at)) if self.wanted else None
            right = _right(exercise, at) if right is None else right
            said = differs(asked(at).value, right, exercise.returns)
            if said:
                text = f"It should hold that {self.name}. {said} at {listed(sizes)}."
                return Broken(self.name, text)
        return None


@dataclass(frozen=True)
class Unchanged:
    """The answer to a draw is the answer to what `other` makes of it."""

    name: str
    other: Callable[[Inputs], Inputs]

    def broken(self, asked: Asked, exercise: Exercise, rng: Rng) -> Broken | None:
        """Compare the two at every shape."""
        for sizes, inputs in _draws(exercise, rng):
            first = asked(inputs).value
            second = asked(self.other(copy.deepcopy(inputs))).value
            said = differs(second, first, exercise.returns)
            if said:
                text = f"It should hold that {self.name}. {said} at {listed(sizes)}."
                return Broken(self.name, text)
        return None


def listed(sizes: Sizes) -> str:
    """Sizes in words."""
    return ", ".join(f"{name} = {n}" for name, n in sizes.items())


def differs(found: Any, wanted: Any, names: tuple[str, ...]) -> str | None:
    """In which of the values two answers differ, the start of a sentence, or None.

    It tells places and shapes, and no value that is right.
    """
    values, right = _each(found, names), _each(wanted, names)
    if values is None or right is None:
        return _uncounted(found, names)
    for name, x, y in zip(names, values, right, strict=True):
        said = _fault(x, y)
        if said:
            return f"{name} {said}"
    return None


def _uncounted(found: Any, names: tuple[str, ...]) -> str:
    """What is wrong with how many values there are."""
    *others, last = names
    asked_for = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    many = isinstance(found, tuple | list)
    if many and len(found) == len(names):
        lacking = next(name for name, x in zip(names, found, strict=True) if x is None)
        return f"{lacking} is None"
    number = f"{len(found)} values are" if many else "One value is"
    number = "Nothing is" if found is None else number
    return f"{number} returned where {asked_for} asked for"


def same(found: Any, wanted: Any) -> bool:
    """Whether two values are equal to rounding; what is no number equals its like."""
    if found is None or wanted is None:
        return found is wanted
    if _unlike(found, wanted):
        return False
    x, y = np.asarray(found), np.asarray(wanted)
    return bool(_close(x, y).all())


def _fault(found: Any, wanted: Any) -> str | None:
    unlike = _unlike(found, wanted)
    if unlike:
        return unlike
    x, y = np.asarray(found), np.asarray(wanted)
    if x.dtype.kind == "f" and x.dtype.itemsize < y.dtype.itemsize:
        return f"is {x.dtype} where the inputs are {y.dtype}"
    wrong = ~_close(x, y) | np.isnan(x)
    if not wrong.any():
        return None
    what = "is not a number" if np.isnan(x[wrong]).any() else "is wrong"
    if x.ndim == 0:
        return what
    return f"{what}, first in row {np.argwhere(wrong)[0][0]} (counted from 0),"


def _unlike(found: Any, wanted: Any) -> str | None:
    """In which way a value cannot be compared with what is wanted."""
    x, shape = _array(found), np.shape(wanted)
    if x.dtype.kind not in "biuf":
        return "holds no real numbers"
    if x.shape != shape:
        return f"has the shape {x.shape} where {shape} is asked for"
    return None


def _as(before: Any, value: Any) -> Any:
    """A value to be handed on: a number where a number was given."""
    return type(before)(value) if isinstance(before, int | float) else value


def _rows(value: Any) -> np.ndarray:
    return np.atleast_1d(_array(value))


def _array(value: Any) -> np.ndarray:
    """The value as an array; of objects, if it has no shape."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.array(None)


def _close(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x, y = x.astype(float), y.astype(float)
    largest = np.abs(y[np.isfinite(y)]).max(initial=0)
    with np.errstate(invalid="ignore"):
        near = np.abs(x - y) <= RELATIVE * largest + ABSOLUTE
    return near | (x == y) | (np.isnan(x) & np.isnan(y))


def _each(value: Any, names: tuple[str, ...]) -> tuple | None:
    """The values one by one, or None if there are more or fewer than names."""
    values = value if isinstance(value, tuple | list) and len(names) > 1 else (value,)
    if len(values) != len(names) or any(x is None for x in values):
        return None
    return tuple(values)


def _named(value: Any, exercise: Exercise) -> Inputs:
    """The values by name; where they are not what was asked for, empty arrays."""
    values = _each(value, exercise.returns)
    if values is None:
        values = tuple(np.empty(0) for _ in exercise.returns)
    return dict(zip(exercise.returns, values, strict=True))


def _outcome(asked: Asked, inputs: Inputs) -> Answer | None:
    """The answer, or None where the function raises an exception."""
    try:
        return asked(inputs)
    except Stopped as stopped:
        if stopped.kind != "error":
            raise
        return None


def _same_answer(mine: Answer | None, theirs: Answer | None) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    return _same_values(mine.value, theirs.value) and all(
        same(theirs.inputs.get(name), x) for name, x in mine.inputs.items()
    )


def _same_values(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, tuple):
        return (
            isinstance(theirs, tuple | list)
            and len(mine) == len(theirs)
            and all(map(_same_values, mine, theirs))
        )
    return same(theirs, mine)


def _right(exercise: Exercise, inputs: Inputs) -> Any:
    return at_once(exercise.reference)(inputs).value


def _draws(exercise: Exercise, rng: Rng) -> Iterator[tuple[Sizes, Inputs]]:
    for sizes in exercise.shapes:
        for _ in range(DRAWS):
            yield sizes, exercise.draw(rng, sizes)
