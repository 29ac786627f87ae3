"""Which mechanisms a check runs: read from its code, so that no list is kept.

A check runs a mechanism if it, or a helper in `ctlearn.identities` that it names, names
the mechanism's module, one of its functions, or its `Mechanism`.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ctlearn.mechanism import Mechanism
from ctlearn.mixers import mechanisms

_CHECKS = __name__.rpartition(".")[0]


def mechanisms_of(claim: Callable) -> tuple[str, ...]:
    """The names of the mechanisms that a claim runs, in order."""
    files = {mechanism.module: name for name, mechanism in mechanisms().items()}
    found: set[str | None] = set()
    seen: set[int] = set()
    rest: list[Any] = [claim]
    while rest:
        x = rest.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        if isinstance(x, Mechanism):
            found.add(x.name)
        elif isinstance(x, ModuleType):
            found.add(files.get(x.__name__))
        elif isinstance(x, FunctionType) and x.__module__.startswith(_CHECKS):
            rest += _named(x)
        elif isinstance(x, FunctionType):
            found.add(files.get(x.__module__))
        elif isinstance(x, partial):
            rest.append(x.func)
        elif isinstance(x, Mapping):
            rest += x.values()
    return tuple(sorted(name for name in found if name))


def _named(function: FunctionType) -> Iterator[Any]:
    """What a function holds or names, and its inner functions with it."""
    for cell in function.__closure__ or ():
        yield cell.cell_contents
    for code in _codes(function.__code__):
        for name in code.co_names:
            if name in function.__globals__:
                yield function.__globals__[name]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inside in code.co_consts:
        if isinstance(inside, CodeType):
            yield from _codes(inside)
