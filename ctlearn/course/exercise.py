"""An exercise: what is asked, what is right, and what people write instead.

Records only; `ctlearn.course.properties` says when an answer is right. A wrong answer
that is known is the reference's own text with a slip in it (`slip`), so that no second
copy of a reference exists that could drift from it.
"""

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

Inputs = dict[str, Any]
Sizes = dict[str, int]


class Answer(NamedTuple):
    """What a function returned, and what its inputs held when it had run."""

    value: Any
    inputs: Inputs


class Stopped(Exception):
    """A call that gave no answer.

    `kind` is "error" where the function raised an exception, and it may be called
    again; else a word for what was done to it: "time", "memory", "output", "crash",
    "forbidden", "missing". `says` is a sentence for its author.
    """

    def __init__(self, kind: str, says: str) -> None:
        super().__init__(kind, says)
        self.kind, self.says = kind, says


# Calls what is judged with a copy of these inputs, by name; raises Stopped.
Asked = Callable[[Inputs], Answer]


class Broken(NamedTuple):
    """A property that an answer lacks: its name, and where that was seen."""

    name: str
    says: str


class Property(Protocol):
    """What a right answer must hold to."""

    @property
    def name(self) -> str:
        """What is asked for, in words that fit a sentence."""

    def broken(
        self, asked: Asked, exercise: "Exercise", rng: np.random.Generator
    ) -> Broken | None:
        """Where the answer lacks it, or None. Inputs are drawn from `rng`."""


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people give.

    `says` is what to think about, and never the answer.
    """

    name: str
    function: Callable
    says: str


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """An exercise that can be marked.

    key         the chapter and a word, "07.strength"
    label       the exercise box of the notebook that asks it; empty if none does
    statement   Markdown, complete without the chapter at hand
    reference   the right function; its signature and docstring are the student's too
    returns     a name for each value that it returns, "o", "S"
    draw        inputs by argument name, of a generator and one of `shapes`: NumPy
                arrays of float64 or int64, Python numbers, or None
    shapes      sizes by name to draw inputs at, small and odd ones among them
    properties  what an answer must hold to
    mistakes    three wrong answers at least
    begins      the name of the mistake whose text the student is given to mend
    uses        modules that an answer may import, besides Python's own and NumPy
    hint        what to think about where no mistake is recognised
    minutes, marks    how long it takes, and what it is worth
    puzzle      of a kernel, its name in `ctlearn.kernels.puzzles`
    """

    key: str
    title: str
    statement: str
    reference: Callable
    returns: tuple[str, ...]
    draw: Callable[[np.random.Generator, Sizes], Inputs]
    shapes: tuple[Sizes, ...]
    properties: tuple[Property, ...]
    mistakes: tuple[Mistake, ...]
    hint: str
    minutes: int
    marks: int
    label: str = ""
    begins: str = ""
    uses: tuple[str, ...] = ()
    puzzle: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "statement", self.statement.strip())

    @property
    def name(self) -> str:
        """The name of the function that is asked for."""
        return self.reference.__name__

    @property
    def chapter(self) -> int:
        """The chapter that it belongs to."""
        return int(self.key.partition(".")[0])

    @functools.cached_property
    def stub(self) -> str:
        """The text that the student starts from."""
        if self.begins:
            (given,) = (m for m in self.mistakes if m.name == self.begins)
            return head(self.reference) + body(given.function)
        empty = "pass" if self.puzzle else "raise NotImplementedError"
        return f"{head(self.reference)}    {empty}\n"

    @property
    def solution(self) -> str:
        """The text of the reference."""
        return text_of(self.reference)


@functools.cache
def text_of(function: Callable) -> str:
    """The function's source, without indentation around it."""
    kept = getattr(function, "text", None)
    return kept or textwrap.dedent(inspect.getsource(function))


def head(function: Callable) -> str:
    """Its text up to the end of its docstring."""
    return "".join(text_of(function).splitlines(True)[: _docstring_end(function)])


def body(function: Callable) -> str:
    """Its text after the docstring."""
    return "".join(text_of(function).splitlines(True)[_docstring_end(function) :])


@functools.cache
def _docstring_end(function: Callable) -> int:
    definition = ast.parse(text_of(function)).body[0]
    assert isinstance(definition, ast.FunctionDef)
    end = definition.body[0].end_lineno
    assert end is not None
    return end


def slip(function: Callable, *changes: tuple[str, str]) -> Callable:
    """The function with other words in its body: each `(old, new)` in turn.

    Raises ValueError unless the body has `old` exactly once.
    """
    return from_text(head(function) + slipped(body(function), *changes), function)


def slipped(text: str, *changes: tuple[str, str]) -> str:
    """The text with other words in it; raises ValueError as `slip` does."""
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"{text.count(old)} times {old!r} in\n{text}")
        text = text.replace(old, new)
    return text


def from_text(text: str, like: Callable) -> Callable:
    """The function that the text defines, among the names that `like` sees."""
    defined: dict[str, Any] = {}
    name = f"<a form of {like.__name__}>"
    exec(compile(text, name, "exec"), like.__globals__, defined)
    (function,) = defined.values()
    function.text = text
    return function
