"""Automatic slips: made where there is something to slip on, and nowhere else."""

import numpy as np
import pytest

from ctlearn.course.bank import exercises
from ctlearn.course.exercise import from_text
from ctlearn.course.mutants import mutants, survivors


def made(body, arguments="a, b"):
    """The bodies of the mutants of a function with this body."""
    text = f'def f({arguments}):\n    """Say 1 + 1."""\n    {body}\n'
    function = from_text(text, made)
    found = [m.function.text.split('"""\n    ')[1] for m in mutants(function)]
    assert len(set(found)) == len(found)
    assert body not in found
    return set(found)


@pytest.mark.parametrize(
    ("body", "some"),
    [
        ("return a + 2", {"return a - 2", "return a + 3", "return a + 1", "return a"}),
        ("return a @ b", {"return b @ a", "return a * b", "return b @ b"}),
        ("return -a.T", {"return a.T", "return -a"}),
        ("return a < b", {"return a <= b"}),
        ("return a and b", {"return a or b"}),
        ("if a:\n        b = 1", {"if not a:\n        b = 1"}),
        ("return np.tril(a, -1)", {"return np.triu(a, -1)", "return np.tril(a, 1)"}),
        ("return np.exp(a)", {"return a", "return np.exp(b)"}),
        ("return np.outer(a, b)", {"return np.outer(b, a)"}),
        ("return (a, b)", {"return (b, a)"}),
        ("return a if b else 0", {"return 0 if b else a"}),
        ("a[0] += b", {"a[0] -= b", "pass", "a[1] += b", "a[-1] += b"}),
        (
            "for t in a:\n        b[t] = t",
            {
                "for t in list(a)[::-1]:\n        b[t] = t",
                "for t in a:\n        b[t + 1] = t",
                "for t in a:\n        b[t] = t - 1",
                "for t in a:\n        pass",
            },
        ),
    ],
)
def test_slips_are_made(body, some):
    assert some <= {text.rstrip() for text in made(body)}


def test_nothing_is_made_where_there_is_nothing_to_slip_on():
    assert made("return a", "a") == set()
    assert made("return True", "a") == set()


def test_a_mutant_that_changes_nothing_got_by():
    """The count is of all that were made: it says so itself."""
    exercise = exercises()["07.slope"]
    every = mutants(exercise.reference)
    same = [m._replace(function=exercise.reference) for m in every[:2]]
    assert survivors(exercise, [*every, *same], seed=0) == same


def test_a_mutant_says_where_it_differs():
    said = {m.change for m in mutants(exercises()["07.slope"].reference)}
    assert "line 6: S.T → S" in said


def test_names_of_the_module_are_seen_by_a_mutant():
    (function, *_) = [m.function for m in mutants(exercises()["07.slope"].reference)]
    assert function.__globals__["np"] is np
