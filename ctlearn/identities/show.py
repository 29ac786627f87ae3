"""One identity, or one printed equation, whole, as text for the terminal."""

from typing import Any

import numpy as np

from ctlearn.identities import identities
from ctlearn.identities.engine import Identity, printed_draws, run, sides
from ctlearn.printed import pages
from ctlearn.printed.evaluate import Evaluation


def show(name: str) -> str:
    """All there is to say of one identity, and both sides where they show most.

    Raises KeyError if there is none of that name.
    """
    claim = _found(name)
    result = run(claim)
    file, line = claim.place
    world, at, parts = sides(claim)
    return "\n".join(
        [
            f"{claim.name}: {claim.title}",
            "",
            f"kind       {claim.kind}",
            f"statement  {claim.statement}",
            *([f"source has {claim.as_printed}"] if claim.as_printed else []),
            f"source     {claim.source} {', '.join(claim.citations)}".rstrip(),
            f"check      {file}:{line}",
            *(f"in book    {label}{_file(label)}" for label in claim.equations),
            *(f"run        {method}" for method in result.methods),
            *(f"printed    {label}: {x.told}" for label, x in result.printed.items()),
            *(
                f"equivalent {slip}: {claim.printed[label].equivalent.get(slip, '?')}"
                for label, x in result.printed.items()
                for slip in x.survivors
            ),
            *(f"fails      the source's text, on {x}" for x in result.refuted),
            *(
                f"mutant     {mutant}: {'caught' if caught else 'SURVIVES'}"
                for mutant, caught in result.mutants.items()
            ),
            *(f"FAILS      {failure}" for failure in result.failures),
            "",
            f"Both sides, in {world} at {_sizes(at)}:",
            *(
                f"\n{part or 'left'}:\n{_short(left)}\nagainst:\n{_short(right)}"
                for part, (left, right) in parts.items()
            ),
        ]
    )


def show_latex(name: str) -> str:
    """The statement, and each of its equations as it stands in the book.

    Raises KeyError if there is no identity of that name.
    """
    claim = _found(name)
    book = pages.printed()
    return "\n".join(
        [
            claim.statement,
            *(
                f"\n% {label}{_file(label)}\n{book[label].tex}"
                for label in claim.equations
                if label in book
            ),
        ]
    )


def show_equation(label: str) -> str:
    """How a printed equation is read: its text, its tree, and both sides of it.

    Raises KeyError if the book has no such label, or its equation is not executed.
    """
    place = pages.printed().get(label)
    if place is None:
        raise KeyError(
            f"no equation is labelled {label} in the book, or it is not here"
        )
    how = next(
        (c.printed[label] for c in identities().values() if label in c.printed), None
    )
    if how is None:
        raise KeyError(f"{label} is not executed as printed")
    *_, (supply, at) = printed_draws(how)
    numbers, exact = how.numbers(supply, **at), supply.world != "floats"
    evaluation = Evaluation(place.tex, numbers, exact=exact)
    comparisons = list(evaluation.comparisons())
    return "\n".join(
        [
            f"{label}{_file(label)}",
            f"\n{place.tex}\n",
            evaluation.tree.pretty(),
            *(
                f"{str(list(shape)) if shape else 'number':<10} {place.tex[start:end]}"
                for (start, end), shape in sorted(evaluation.shapes.items())
            ),
            f"\nBoth sides, in {supply.world} at {_sizes(at)}:",
            *(
                f"\n{_sizes(one.at)}:\n{_short(one.left)}\n{one.relation}\n"
                f"{_short(one.right)}"
                for one in comparisons
            ),
        ]
    )


def _found(name: str) -> Identity:
    if name not in identities():
        raise KeyError(f"no identity named {name}")
    return identities()[name]


def _file(label: str) -> str:
    place = pages.printed().get(label)
    return f", {place.file.name}" if place else ""


def _sizes(at: Any) -> str:
    return ", ".join(f"{name} = {size}" for name, size in at.items()) or "no sizes"


def _short(value: Any) -> str:
    """A value to print, cut where it would fill the screen."""
    text = str(np.asarray(value))
    return text if len(text) < 1500 else f"{text[:1500]} …"
