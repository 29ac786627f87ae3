"""References with one slip in them: a checker that would not notice proves nothing.

The slips are those of people who write such functions: a sign, a dropped transpose, a
product the other way round, an argument for its neighbour, a place or a bound that is
off by one, a statement forgotten, a triangle on the wrong side. Signatures and
docstrings are left alone. None is left out because it would be hard to notice; one that
changes nothing counts as one that got by.
"""

import ast
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ctlearn.course.exercise import Exercise, from_text, text_of
from ctlearn.course.properties import at_once, lacking


class Mutant(NamedTuple):
    """A function that differs from a reference, and in words how."""

    change: str
    function: Callable


OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
# of NumPy's functions and methods, one that is taken for another
TAKEN_FOR = {
    "tril": "triu",
    "triu": "tril",
    "zeros": "ones",
    "zeros_like": "ones_like",
    "ones": "zeros",
    "sum": "mean",
    "mean": "sum",
    "cumsum": "cumprod",
    "max": "min",
    "min": "max",
    "maximum": "minimum",
    "minimum": "maximum",
    "argmax": "argmin",
    "argmin": "argmax",
}
# of two arguments, the order matters
ORDERED = {"outer", "solve", "append", "where"}
ORDERED_OPERATORS = ast.MatMult | ast.Sub | ast.Div | ast.Pow


def mutants(reference: Callable) -> list[Mutant]:
    """Every slip in the body of the function."""
    with warnings.catch_warnings():
        # Python's compiler doubts some of them, and rightly so
        warnings.simplefilter("ignore", SyntaxWarning)
        return [
            Mutant(change, from_text(text, reference))
            for text, change in mutated(reference).items()
        ]


def mutated(reference: Callable) -> dict[str, str]:
    """The texts of the mutants, and in words how each differs."""
    module = ast.parse(text_of(reference))
    definition = module.body[0]
    assert isinstance(definition, ast.FunctionDef)
    slips = _Slips(definition)
    made: dict[str, str] = {}
    for holder, key, node in _places(definition):
        for other in slips.of(node):
            holder[key] = other
            text = ast.unparse(ast.fix_missing_locations(module))
            holder[key] = node
            was, now = ast.unparse(node), ast.unparse(other)
            made.setdefault(text, f"line {node.lineno}: {was} → {now}")
    made.pop(ast.unparse(module), None)
    return made


def survivors(exercise: Exercise, made: list[Mutant], seed: int) -> list[Mutant]:
    """Those of the mutants that the exercise's properties let pass."""

    def passes(mutant: Mutant) -> bool:
        found = lacking(exercise, at_once(mutant.function), np.random.default_rng(seed))
        return next(found, None) is None

    return [mutant for mutant in made if passes(mutant)]


def _places(definition: ast.FunctionDef) -> Iterator[tuple[Any, Any, Any]]:
    """Every statement and expression after the docstring: what holds it, where, it."""
    todo: list[tuple[Any, Any]] = [
        (definition.body, i) for i in range(1, len(definition.body))
    ]
    while todo:
        holder, key = todo.pop()
        node = holder[key]
        if isinstance(node, ast.stmt | ast.expr):
            yield holder, key, node
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                todo.append((vars(node), name))
            elif isinstance(value, list):
                todo += [(value, i) for i, x in enumerate(value) if _is_node(x)]


def _is_node(x: Any) -> bool:
    return isinstance(x, ast.AST)


class _Slips:
    """What may stand in the place of a node, in a function with these names."""

    def __init__(self, definition: ast.FunctionDef) -> None:
        given = definition.args
        names = [x.arg for x in (*given.args, *given.kwonlyargs)]
        self.neighbour = dict(zip(names, [*names[1:], names[0]], strict=True))
        loops = [x.target for x in ast.walk(definition) if isinstance(x, ast.For)]
        self.counters = {
            x.id for loop in loops for x in ast.walk(loop) if isinstance(x, ast.Name)
        }

    def of(self, node: ast.AST) -> Iterator[ast.AST]:
        """Each slip at this node, as a node of its own."""
        found = getattr(self, f"_{type(node).__name__.lower()}", None)
        return iter(()) if found is None else found(node)

    # one method for each kind of node in which a slip is made

    def _binop(self, node: ast.BinOp) -> Iterator[ast.AST]:
        other = OPERATORS.get(type(node.op))
        if other is not None:
            yield ast.BinOp(node.left, other(), node.right)
        if isinstance(node.op, ORDERED_OPERATORS):
            yield ast.BinOp(node.right, node.op, node.left)
        # a factor or a term forgotten
        yield node.left
        yield node.right

    def _unaryop(self, node: ast.UnaryOp) -> Iterator[ast.AST]:
        yield node.operand

    def _compare(self, node: ast.Compare) -> Iterator[ast.AST]:
        other = OPERATORS.get(type(node.ops[0]))
        if other is not None:
            yield ast.Compare(node.left, [other(), *node.ops[1:]], node.comparators)

    def _boolop(self, node: ast.BoolOp) -> Iterator[ast.AST]:
        yield ast.BoolOp(OPERATORS[type(node.op)](), node.values)

    def _attribute(self, node: ast.Attribute) -> Iterator[ast.AST]:
        if node.attr == "T":
            yield node.value
        elif node.attr in TAKEN_FOR:
            yield ast.Attribute(node.value, TAKEN_FOR[node.attr], node.ctx)

    def _constant(self, node: ast.Constant) -> Iterator[ast.AST]:
        number: Any = node.value
        if type(number) in (int, float):
            yield ast.Constant(number + 1)
            yield ast.Constant(number - 1)

    def _name(self, node: ast.Name) -> Iterator[ast.AST]:
        if not isinstance(node.ctx, ast.Load):
            return
        if node.id in self.neighbour:
            yield ast.Name(self.neighbour[node.id], node.ctx)
        if node.id in self.counters:
            yield ast.BinOp(node, ast.Add(), ast.Constant(1))
            yield ast.BinOp(node, ast.Sub(), ast.Constant(1))

    def _call(self, node: ast.Call) -> Iterator[ast.AST]:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else ""
        if len(node.args) == 1:
            # the function forgotten
            yield node.args[0]
        elif len(node.args) == 2 and name in ORDERED:
            yield ast.Call(function, node.args[::-1], node.keywords)

    def _for(self, node: ast.For) -> Iterator[ast.AST]:
        # the other way round; what is looped over may be no sequence
        back = ast.Call(ast.Name("list", ast.Load()), [node.iter], [])
        turned = ast.Slice(step=ast.UnaryOp(ast.USub(), ast.Constant(1)))
        order = ast.Subscript(back, turned, ast.Load())
        yield ast.For(node.target, order, node.body, node.orelse)
        yield ast.Pass()

    def _if(self, node: ast.If) -> Iterator[ast.AST]:
        yield ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)

    def _ifexp(self, node: ast.IfExp) -> Iterator[ast.AST]:
        yield ast.IfExp(node.test, node.orelse, node.body)

    def _assign(self, node: ast.Assign) -> Iterator[ast.AST]:
        yield ast.Pass()

    def _augassign(self, node: ast.AugAssign) -> Iterator[ast.AST]:
        other = OPERATORS.get(type(node.op))
        if other is not None:
            yield ast.AugAssign(node.target, other(), node.value)
        yield ast.Pass()

    def _expr(self, node: ast.Expr) -> Iterator[ast.AST]:
        yield ast.Pass()

    def _return(self, node: ast.Return) -> Iterator[ast.AST]:
        if isinstance(node.value, ast.Tuple):
            turned = ast.Tuple(node.value.elts[::-1], ast.Load())
            yield ast.Return(turned)
