"""Coursework: the exercises of the book that ask for code, and what marks them.

    show("07.delta-step")           what is asked, and the function to begin with
    check("07.delta-step", mine)    whether it is right; if not, what to think about
    progress()                      what is solved

An answer is tried on inputs that are drawn anew each time, and compared with a
reference that is computed then. It runs in a process of its own.
"""

import difflib
import os
import warnings
from collections.abc import Callable

from ctlearn.course.bank import exercises
from ctlearn.course.exercise import Exercise
from ctlearn.course.judge import Verdict, apart
from ctlearn.course.progress import ProgressError, progress, record
from ctlearn.course.sandbox import Function

__all__ = ["check", "exercises", "progress", "show"]


# nbgrader sets this in the notebooks that it runs.
MARKING = "NBGRADER_EXECUTION"


class Shown(str):
    """Markdown that a notebook renders, and anything else prints."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        return str(self)


def show(key: str) -> Shown:
    """What the exercise asks, and the text to begin with.

    Raises KeyError, with the keys of the chapter, for a key that there is not.
    """
    exercise = find(key)
    return Shown(
        f"**{exercise.key} {exercise.title}**, about {exercise.minutes} minutes\n\n"
        f"{exercise.statement}\n\n```python\n{exercise.stub}```"
    )


def check(key: str, function: Callable) -> Verdict:
    """The verdict on a function of yours; a try is counted in your progress.

    Where nbgrader runs a notebook, it is not: the progress would be the instructor's. A
    progress file that cannot be kept is told by a warning. Raises KeyError, with the
    keys of the chapter, for a key that there is not, TypeError for no function,
    RuntimeError for a kernel where there is no Triton, and ImportError without the
    packages of `ctlearn[course]`.
    """
    find(key)
    if not callable(function):
        kind = type(function).__name__
        raise TypeError(f"function: expected one that was defined, got a {kind}")
    verdict = apart(key, Function(function))
    if MARKING in os.environ:
        return verdict
    try:
        record(key, verdict.passed)
    except ProgressError as error:
        warnings.warn(str(error), stacklevel=2)
    return verdict


def find(key: str) -> Exercise:
    """The exercise of that key; raises KeyError, with the keys that are near."""
    every = exercises()
    if not isinstance(key, str) or key not in every:
        near = [x for x in every if x[:2] == str(key)[:2]]
        near = near or difflib.get_close_matches(str(key), every)
        others = f"there are {', '.join(near)}" if near else "a key is like 07.slope"
        raise KeyError(f"no exercise {key!r}; {others}")
    return every[key]
