"""From TeX to a tree, by the grammar in `grammar.lark`."""

import functools
from pathlib import Path
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

# a Tree or a Token; which of them a child is depends on the rule
Node = Any


class PrintedError(ValueError):
    """What is wrong with a printed equation, and where in its text."""

    def __init__(self, wrong: str, tex: str, position: int) -> None:
        line = tex.count("\n", 0, position) + 1
        column = position - (tex.rfind("\n", 0, position) + 1) + 1
        super().__init__(f"line {line}, column {column}: {wrong}")


@functools.cache
def _parser() -> Lark:
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True)


def parse(tex: str) -> Tree:
    """The tree of a displayed equation, whose nodes know where in `tex` they stand.

    Raises
    ------
    PrintedError
        The text is outside the grammar.
    """
    try:
        return _parser().parse(tex)
    except UnexpectedInput as error:
        at = error.pos_in_stream
        at = len(tex) if at is None else at
        found = tex[at : at + 12].split("\n")[0] or "the end"
        raise PrintedError(f"{found} is not expected here", tex, at) from None


def span(node: Node) -> tuple[int, int]:
    """Where in the text a node begins and ends."""
    place: Any = node if isinstance(node, Token) else node.meta
    return place.start_pos, place.end_pos
