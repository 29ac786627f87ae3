"""From a tree to numbers: both sides of a printed equation, on symbols or floats.

Vectors are columns, and a row times a column is a number. Shapes are inferred on the
way, and one that does not fit is an error with its place. Indices count from 1, as the
book does, and never wrap around.
"""

import contextlib
import functools
import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from lark import Token, Tree

from ctlearn import scalars
from ctlearn.printed import functions
from ctlearn.printed.functions import Identity
from ctlearn.printed.parse import Node, PrintedError, parse, span

Scope = Mapping[str, Any]
RELATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    r"\ne": operator.ne,
    r"\le": operator.le,
    r"\ge": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
COMBINE = {
    r"\sum": functions.plus,
    r"\prod": functions.times,
    r"\min": functions.smaller,
    r"\max": functions.larger,
}
EMPTY = {r"\sum": 0, r"\prod": 1}


@dataclass(frozen=True)
class Rows:
    """An array whose first index is not 1: `Rows(S, first=0)` holds S_0, S_1, …"""

    array: Any
    first: int


@dataclass(frozen=True)
class Numbers:
    r"""What the letters of an equation stand for.

    `letters` gives each letter, as it is printed, a number, an array or a function:
    `{"k": k, "d_k": 3, r"\phi": elu_plus_one}`. An index takes a row: with k of shape
    [N, d_k], k_i is a column of d_k numbers. `indices` says over which numbers an index
    runs where the equation does not. `draws` is what an expectation averages over: for
    each draw, the letters that change.
    """

    letters: Mapping[str, Any]
    indices: Mapping[str, range] = field(default_factory=dict)
    draws: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Comparison:
    """Two neighbours in a chain of relations, and the index values they are at."""

    left: Any
    relation: str
    right: Any
    at: Mapping[str, int]


class Evaluation:
    """One equation on one set of numbers.

    `exact` says that the numbers are SymPy's, so that literals are to be, too. `shapes`
    remembers, for each place in the text, the shape of what stood there last.

    Raises
    ------
    PrintedError
        Here, if the text is outside the grammar; from `comparisons`, if a letter has no
        value, an index is out of range, or shapes do not fit.
    """

    def __init__(self, tex: str, numbers: Numbers, *, exact: bool) -> None:
        self.tex = tex
        self.tree = parse(tex)
        self.numbers = numbers
        self.exact = exact
        self.shapes: dict[tuple[int, int], tuple[int, ...]] = {}

    @property
    def states_equality(self) -> bool:
        """Whether every relation of the equation, guards aside, is an equality."""
        chains = [chain for row in _trees(self.tree) for chain in _trees(row)]
        return not any(
            _is(x, "RELATION")
            for chain in chains
            if not self._is_guard(chain)
            for x in chain.children
        )

    def comparisons(self) -> Iterator[Comparison]:
        """Every relation of the equation, for every value of its free indices."""
        before: Node | None = None
        for row in _trees(self.tree):
            guards = [chain for chain in _trees(row) if self._is_guard(chain)]
            for chain in _trees(row):
                if chain in guards:
                    continue
                parts = [part for part in chain.children if not _is(part, "AMP")]
                if isinstance(parts[0], Token):
                    if before is None:
                        raise self._error("nothing stands left of this", parts[0])
                    parts.insert(0, before)
                before = parts[-1]
                yield from self._chain(parts, guards)

    def _chain(self, parts: list[Node], guards: list[Node]) -> Iterator[Comparison]:
        free = sorted(set().union(*map(self._free, [*parts, *guards])))
        for values in itertools.product(*(self.numbers.indices[x] for x in free)):
            at = dict(zip(free, values, strict=True))
            if not all(self._holds(guard, at) for guard in guards):
                continue
            sides = [self.value(part, at) for part in parts[::2]]
            for i, relation in enumerate(parts[1::2]):
                with self._place(relation):
                    left, right = functions.alike(sides[i], sides[i + 1])
                yield Comparison(left, str(relation), right, at)

    # indices

    def _is_guard(self, chain: Node) -> bool:
        """A chain of inequalities between indices says for which the others hold."""
        letters = {str(x) for x in chain.scan_values(lambda x: _is(x, "LETTER"))}
        equals = any(_is(x, "EQUALS") for x in chain.children)
        return not equals and letters <= set(self.numbers.indices)

    def _holds(self, chain: Node, scope: Scope) -> bool:
        """Whether a chain of relations between numbers is true."""
        lists = [[self.value(x, scope)] for x in _trees(chain)]
        relations = [x for x in chain.children if _is(x, "EQUALS", "RELATION")]
        return _all_related(lists, relations)

    def _free(self, node: Node) -> set[str]:
        """The index letters of a node that no sum inside it binds."""
        indices = set(self.numbers.indices)
        if isinstance(node, Token):
            return {str(node)} & indices if node.type == "LETTER" else set()
        if node.data == "indexed" and self._name(node) in self.numbers.letters:
            return set()
        inside = set().union(*map(self._free, node.children))
        if node.data == "over":
            return inside - self._free(_child(node, "range"))
        if node.data == "raised" and _is_table(node.children[0]):
            return inside - self._free(_child(node.children[0], "subscript"))
        return inside

    def _scopes(self, node: Node, scope: Scope) -> Iterator[Scope]:
        r"""The scopes through which the range below a \sum, \max … runs."""
        ranged = _child(node, "range")
        lists = [part.children for part in _trees(ranged)]
        relations = [x for x in ranged.children if isinstance(x, Token)]
        counted = relations == ["="]
        if counted:
            names = [self._letter_of(x) for x in lists[0]]
            last = node.children[-2]
            runs = [self._run(lists[1][0], last, scope)] * len(names)
        else:
            names = sorted(self._free(ranged) - set(scope))
            runs = [self.numbers.indices[name] for name in names]
        for values in itertools.product(*runs):
            inner = {**scope, **dict(zip(names, values, strict=True))}
            if counted or _all_related(
                [[self.value(x, inner) for x in part] for part in lists], relations
            ):
                yield inner

    def _run(self, first: Node, last: Node, scope: Scope) -> range:
        return range(self._whole(first, scope), self._whole(last, scope) + 1)

    def _whole(self, node: Node, scope: Scope) -> int:
        value = self.value(node, scope)
        if np.ndim(value) or int(value) != value:
            raise self._error(f"a whole number is expected, not {value}", node)
        return int(value)

    def _letter_of(self, node: Node) -> str:
        """The letter that a node is, with its subscript and marks, and no more."""
        name = self._name(node)
        if name is None:
            raise self._error("one letter is expected here", node)
        return name

    def _name(self, node: Node) -> str | None:
        if isinstance(node, Token):
            return None
        if node.data in ("sum", "product") and len(node.children) == 1:
            return self._name(node.children[0])
        if node.data == "letter":
            # \bar v is \bar{v}
            letter = "".join(node.children[0].split())
            return re.sub(r"^(\\(?:bar|hat|tilde))(\\?\w+)$", r"\1{\2}", letter)
        is_marked = node.data == "raised" and _is_mark(node.children[1])
        if node.data != "indexed" and not is_marked:
            return None
        base, script = node.children
        name = self._name(base)
        tokens = "".join(script.scan_values(lambda x: isinstance(x, Token)))
        return name and f"{name}{'^' if is_marked else '_'}{tokens}"

    # letters

    def _has(self, name: str | None, scope: Scope) -> bool:
        return name is not None and (name in scope or name in self.numbers.letters)

    def _held(self, name: str, scope: Scope) -> Any:
        found = scope[name] if name in scope else self.numbers.letters[name]
        return self._literal(found) if isinstance(found, int) else found

    def _literal(self, number: Any) -> Any:
        if not self.exact:
            return float(number)
        import sympy

        return sympy.Rational(str(number))

    def _shown(self, found: Any, node: Node) -> Any:
        """A value as it is computed with: vectors are columns, functions take them."""
        if callable(found):
            return functions.of_columns(found)
        if isinstance(found, Rows | list) or np.ndim(found) > 2:
            raise self._error("an index is missing here", node)
        if np.ndim(found) == 1:
            return found[:, None]
        return found

    def _at(self, array: Any, script: Node, scope: Scope) -> Any:
        """What stands in an array at the indices of a subscript."""
        first = array.first if isinstance(array, Rows) else 1
        array = array.array if isinstance(array, Rows) else array
        places: list[Any] = []
        for part in _parts(script):
            size = len(array) if not places else np.shape(array)[len(places)]
            inside = range(first, first + size)
            whole = isinstance(part, Tree) and part.data == "slice"
            ends = part.children if whole else [part]
            ends = [self._whole(end, scope) for end in ends]
            if not set(ends) <= set(inside):
                here = f"{inside.start} to {inside.stop - 1}"
                raise self._error(f"{ends[-1]} is not an index from {here}", part)
            at = ends[0] - first
            places.append(slice(at, ends[-1] - first + 1) if whole else at)
            first = 1
        return self._shown(
            array[places[0]] if isinstance(array, list) else array[tuple(places)],
            script,
        )

    # values: one method for each rule of the grammar

    def value(self, node: Node, scope: Scope) -> Any:
        """What a node stands for: a number, a matrix, or a function."""
        assert isinstance(node, Tree)
        with self._place(node):
            found = getattr(self, f"_{node.data}")(node, scope)
        if not callable(found) and not isinstance(found, Identity):
            self.shapes[span(node)] = np.shape(found)
        return found

    def _values(self, node: Node, scope: Scope) -> list[Any]:
        return [self.value(child, scope) for child in _trees(node)]

    def _sum(self, node: Node, scope: Scope) -> Any:
        total, sign = None, "+"
        for child in node.children:
            if isinstance(child, Token):
                sign = str(child)
                continue
            term = self.value(child, scope)
            if sign == "-":
                term = functions.times(self._literal(-1), term)
            total = term if total is None else functions.plus(total, term)
        return total

    def _product(self, node: Node, scope: Scope) -> Any:
        factors, waiting = [], list(node.children)
        while waiting:
            found = self.value(waiting.pop(0), scope)
            if callable(found) and waiting:
                found = self._applied(found, waiting.pop(0), scope)
            factors.append(found)
        return functools.reduce(functions.times, factors)

    def _hadamard(self, node: Node, scope: Scope) -> Any:
        return functools.reduce(functions.entrywise, self._values(node, scope))

    def _kronecker(self, node: Node, scope: Scope) -> Any:
        return functools.reduce(functions.kronecker, self._values(node, scope))

    def _quotient(self, node: Node, scope: Scope) -> Any:
        return functions.divided(*self._values(node, scope))

    _fraction = _quotient

    def _over(self, node: Node, scope: Scope) -> Any:
        sign, term = str(node.children[0]), node.children[-1]
        if sign == r"\lim":
            return self._limit(node, term, scope)
        values = [self.value(term, inner) for inner in self._scopes(node, scope)]
        if not values and sign not in EMPTY:
            raise self._error("the range is empty", node)
        if not values:
            return self._literal(EMPTY[sign])
        return functools.reduce(COMBINE[sign], values)

    def _limit(self, node: Node, term: Node, scope: Scope) -> Any:
        import sympy

        (letter,), (goal,) = (part.children for part in _trees(_child(node, "range")))
        variable = sympy.Symbol("x", positive=True)
        goal = self.value(goal, {r"\infty": sympy.oo})
        value = self.value(term, {**scope, self._letter_of(letter): variable})
        return functions.each(lambda x: sympy.limit(x, variable, goal), value)

    def _expectation(self, node: Node, scope: Scope) -> Any:
        return self._expected(node.children[1], scope)

    def _expected(self, node: Node, scope: Scope) -> Any:
        """The mean of what follows; a script comes after if that is in brackets."""
        if node.data in SCRIPTED and _stem(node).data == "group":
            inner = self._expected(node.children[0], scope)
            return getattr(self, f"_{node.data}")(node, scope, inner)
        values = [self.value(node, {**scope, **draw}) for draw in self.numbers.draws]
        total = functools.reduce(functions.plus, values)
        return functions.divided(total, self._literal(len(values)))

    def _call(self, node: Node, scope: Scope) -> Any:
        name = node.children[0].partition("{")[2].rstrip("}")
        function = functions.NAMED[name or node.children[0][1:]]
        return self._applied(function, node.children[1], scope)

    def _applied(self, function: Callable, node: Node, scope: Scope) -> Any:
        """A function of the brackets that follow it, whose own script comes after."""
        table = node.data == "raised" and _is_table(node.children[0])
        if node.data in SCRIPTED and _stem(node).data == "group" and not table:
            inner = self._applied(function, node.children[0], scope)
            return getattr(self, f"_{node.data}")(node, scope, inner)
        inside = _trees(node) if node.data == "group" else [node]
        arguments = [self.value(x, scope) for x in inside]
        if any(callable(x) or isinstance(x, Identity) for x in arguments):
            raise self._error("a function is asked of a number or a matrix", node)
        return self._shown(function(*arguments), node)

    def _letter(self, node: Node, scope: Scope) -> Any:
        name = self._letter_of(node)
        if self._has(name, scope):
            return self._shown(self._held(name, scope), node)
        if name == "I":
            return Identity(self._literal(1))
        raise self._error(f"{name} has no value", node)

    def _number(self, node: Node, scope: Scope) -> Any:
        return self._literal(node.children[0])

    def _group(self, node: Node, scope: Scope) -> Any:
        if len(node.children) > 1:
            raise self._error("one value is expected in these brackets", node)
        return self.value(node.children[0], scope)

    def _indexed(self, node: Node, scope: Scope, base: Any = None) -> Any:
        stem, script = node.children
        if base is None and self._has(self._name(node), scope):
            return self._shown(self._held(self._letter_of(node), scope), node)
        if base is None and self._has(self._name(stem), scope):
            base = self._held(self._letter_of(stem), scope)
        return self._at(
            self.value(stem, scope) if base is None else base, script, scope
        )

    def _raised(self, node: Node, scope: Scope, base: Any = None) -> Any:
        stem, script = node.children
        if base is None and self._has(self._name(node), scope):
            return self._shown(self._held(self._letter_of(node), scope), node)
        if base is None and _is_table(stem):
            return self._table(stem, script, scope)
        marks = {str(x) for x in script.children if isinstance(x, Token)}
        if base is None and _is_mark(script) and r"\top" not in marks:
            return self._marked(node, scope)
        base = self.value(stem, scope) if base is None else base
        if r"\top" in marks:
            base = functions.inverse(base) if "-" in marks else base
            return functions.transposed(base)
        exponent = script.children[-1]
        if r"\otimes" in marks:
            return functions.kronecker_power(base, self._whole(exponent, scope))
        return functions.power(base, self.value(exponent, scope))

    def _marked(self, node: Node, scope: Scope) -> Any:
        r"""A letter with a mark and an index, such as the \beta^\prime of token t."""
        stem, script = node.children
        if stem.data == "indexed":
            name = f"{self._name(stem.children[0])}^{script.children[0]}"
            if self._has(name, scope):
                return self._at(self._held(name, scope), stem.children[1], scope)
        raise self._error(f"{self._name(node) or 'this'} has no value", node)

    def _table(self, stem: Node, last: Node, scope: Scope) -> Any:
        """The matrix of what stands in brackets, for every i and j of the range."""
        term, script = stem.children
        *letters, first = _trees(script)
        run = self._run(first, last.children[-1], scope)
        row, column = (self._letter_of(letter) for letter in letters)
        return np.array(
            [[self.value(term, {**scope, row: i, column: j}) for j in run] for i in run]
        )

    def _factorial(self, node: Node, scope: Scope, base: Any = None) -> Any:
        return self._literal(math.factorial(self._whole(node.children[0], scope)))

    def _binomial(self, node: Node, scope: Scope) -> Any:
        return self._literal(math.comb(*(self._whole(x, scope) for x in _trees(node))))

    def _root(self, node: Node, scope: Scope) -> Any:
        return scalars.sqrt(self.value(node.children[-1], scope))

    def _norm(self, node: Node, scope: Scope) -> Any:
        (inside,) = self._values(node, scope)
        return functions.norm(inside)

    def _absolute(self, node: Node, scope: Scope) -> Any:
        (inside,) = self._values(node, scope)
        return abs(inside)

    def _blocks(self, node: Node, scope: Scope) -> Any:
        lines = [self._values(line, scope) for line in _trees(_child(node, "cells"))]
        return np.block([[np.atleast_2d(x) for x in line] for line in lines])

    def _cases(self, node: Node, scope: Scope) -> Any:
        for case in _trees(node):
            value, *conditions = _trees(case)
            if all(self._holds(condition, scope) for condition in conditions):
                return self.value(value, scope)
        raise self._error("none of the cases applies", node)

    # errors

    @contextlib.contextmanager
    def _place(self, node: Node) -> Iterator[None]:
        """Give what goes wrong inside the place of the node."""
        try:
            yield
        except PrintedError:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise self._error(str(error), node) from error

    def _error(self, wrong: str, node: Node) -> PrintedError:
        return PrintedError(wrong, self.tex, span(node)[0])


SCRIPTED = ("indexed", "raised", "factorial")


def _trees(node: Node) -> list[Node]:
    return [child for child in node.children if isinstance(child, Tree)]


def _child(node: Node, rule: str) -> Node:
    return next(child for child in _trees(node) if child.data == rule)


def _is(node: Node, *types: str) -> bool:
    return isinstance(node, Token) and node.type in types


def _is_mark(script: Node) -> bool:
    r"""Whether a superscript is a mark, such as \star, and no exponent."""
    return len(script.children) == 1 and _is(script.children[0], "MARK")


def _is_table(node: Node) -> bool:
    """Whether the subscript counts: the entries of a matrix, (x_{ij})_{i,j=1}."""
    return node.data == "indexed" and any(
        _is(x, "EQUALS") for x in node.children[1].children
    )


def _stem(node: Node) -> Node:
    """What a chain of scripts stands on."""
    while node.data in SCRIPTED:
        node = node.children[0]
    return node


def _parts(script: Node) -> list[Node]:
    """The indices in a subscript; letters side by side are one index each."""
    parts: list[Node] = []
    for part in _trees(script):
        inside = part
        while inside.data in ("sum", "product") and len(inside.children) == 1:
            inside = inside.children[0]
        parts += inside.children if inside.data == "product" else [inside]
    return parts


def _all_related(lists: list[list[Any]], relations: Sequence[str]) -> bool:
    """Whether neighbouring lists are related, each with each."""
    return all(
        bool(RELATIONS[relation](a, b))
        for i, relation in enumerate(map(str, relations))
        for a, b in itertools.product(lists[i], lists[i + 1])
    )
