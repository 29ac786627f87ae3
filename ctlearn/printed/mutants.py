"""Printed text with one slip in it: a check that would not notice proves nothing.

The slips are those that books have: a sign, a dropped transpose, t for t - 1, a number
off by one, a dropped factor or term, operands exchanged, a letter for another letter, a
fraction upside down, the wrong product. Slips that cannot matter are not made: numbers
commute, and are their own transpose.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from lark import Token, Tree

from ctlearn.printed.evaluate import Evaluation, Rows
from ctlearn.printed.parse import Node, span


@dataclass(frozen=True)
class Mutant:
    """A text that differs from the printed one, and in words how."""

    change: str
    tex: str


def mutants(evaluation: Evaluation) -> list[Mutant]:
    """Every slip in the text of an equation that has been evaluated."""
    made = {mutant.tex: mutant for mutant in _Slips(evaluation).all()}
    made.pop(evaluation.tex, None)
    return list(made.values())


class _Slips:
    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self.tex = evaluation.tex

    def all(self) -> Iterator[Mutant]:
        for node in self.evaluation.tree.iter_subtrees_topdown():
            slips = getattr(self, f"_{node.data}", None)
            if slips is not None:
                yield from slips(node)

    def _edited(self, old: tuple[int, int], new: str) -> Mutant:
        start, end = old
        line = self.tex.count("\n", 0, start) + 1
        column = start - self.tex.rfind("\n", 0, start)
        was = " ".join(self.tex[start:end].split())
        change = f"{was} → {new.strip() or 'nothing'} (line {line}, column {column})"
        return Mutant(change, self.tex[:start] + new + self.tex[end:])

    def _text(self, node: Node) -> str:
        start, end = span(node)
        return self.tex[start:end]

    def _is_number(self, node: Node) -> bool:
        """Whether the node was a number, as opposed to a matrix."""
        return self.evaluation.shapes.get(span(node)) == ()

    def _exchanged(self, left: Node, right: Node) -> Mutant:
        (start, middle), (after, end) = span(left), span(right)
        between = self.tex[middle:after]
        swapped = f"{self._text(right)}{between or ' '}{self._text(left)}"
        return self._edited((start, end), swapped)

    # one method for each rule of the grammar in which a slip is made

    def _sum(self, node: Node) -> Iterator[Mutant]:
        for child in node.children:
            if isinstance(child, Token):
                yield self._edited(span(child), "+" if child == "-" else "-")
        terms = [x for x in node.children if isinstance(x, Tree)]
        if len(terms) > 1:
            for i, child in enumerate(node.children):
                if isinstance(child, Tree):
                    start, end = span(child)
                    # its sign goes with it
                    if i and isinstance(node.children[i - 1], Token):
                        start = span(node.children[i - 1])[0]
                    yield self._edited((start, end), " ")

    def _product(self, node: Node) -> Iterator[Mutant]:
        factors = node.children
        if len(factors) == 1:
            return
        for factor in factors:
            yield self._edited(span(factor), " ")
        for left, right in itertools.pairwise(factors):
            # numbers commute; what is no value is a function before its brackets
            if not (self._is_number(left) or self._is_number(right)):
                yield self._exchanged(left, right)

    def _raised(self, node: Node) -> Iterator[Mutant]:
        stem, script = node.children
        if script.children[0] == r"\top" and not self._is_number(stem):
            yield self._edited((span(stem)[1], span(node)[1]), " ")

    def _fraction(self, node: Node) -> Iterator[Mutant]:
        _, top, bottom = node.children
        yield self._exchanged(top, bottom)

    def _hadamard(self, node: Node) -> Iterator[Mutant]:
        for sign in node.children:
            if isinstance(sign, Token):
                yield self._edited(span(sign), " ")

    def _kronecker(self, node: Node) -> Iterator[Mutant]:
        operands = [x for x in node.children if isinstance(x, Tree)]
        for left, right in itertools.pairwise(operands):
            yield self._exchanged(left, right)

    def _over(self, node: Node) -> Iterator[Mutant]:
        other = {
            r"\sum": r"\prod",
            r"\prod": r"\sum",
            r"\min": r"\max",
            r"\max": r"\min",
        }
        sign = node.children[0]
        if sign in other:
            yield self._edited(span(sign), other[sign])

    def _call(self, node: Node) -> Iterator[Mutant]:
        yield self._edited(span(node.children[0]), " ")

    def _number(self, node: Node) -> Iterator[Mutant]:
        (digits,) = node.children
        if digits.isdigit():
            yield self._edited(span(digits), str(int(digits) + 1))

    def _letter(self, node: Node) -> Iterator[Mutant]:
        (here,) = node.children
        for other in self._alike(str(here)):
            yield self._edited(span(here), other + " " * other.startswith("\\"))

    def _indexed(self, node: Node) -> Iterator[Mutant]:
        script = node.children[1]
        tokens = list(script.scan_values(lambda x: isinstance(x, Token)))
        if len(tokens) == 1 and tokens[0] in self.evaluation.numbers.indices:
            braced = self._text(script).startswith("{")
            before = f"{tokens[0]}-1" if braced else f"{{{tokens[0]}-1}}"
            yield self._edited(span(tokens[0]), before)

    def _alike(self, name: str) -> list[str]:
        """The other letters of the equation that are of the same kind."""
        tree, numbers = self.evaluation.tree, self.evaluation.numbers
        used = set(
            map(str, tree.scan_values(lambda x: getattr(x, "type", "") == "LETTER"))
        )
        if name in numbers.indices:
            return sorted((used & set(numbers.indices)) - {name})
        if name not in numbers.letters:
            return []
        here = numbers.letters[name]
        return sorted(
            other
            for other in used & set(numbers.letters) - {name}
            # K and k are one array, in two ways to write it
            if numbers.letters[other] is not here
            and _kind(numbers.letters[other]) == _kind(here)
        )


def _kind(held: Any) -> int | str:
    held = held.array if isinstance(held, Rows) else held
    return "function" if callable(held) else np.ndim(held)
