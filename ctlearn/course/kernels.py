"""Kernel exercises: what is taken of a submission is the text of its kernels.

Nothing of a student's is run but kernels, and those only where
`ctlearn.kernels.puzzles` finds that they say nothing but what Triton compiles. The text
is taken apart without running it; decorators, defaults and annotations, which Python
would run when it defines a function, are those of a plain kernel or it is not taken.
What is left runs interpreted, under the sandbox's limits, in a fresh process. The
puzzle's own judge watches what it touches and computes what is right afterwards.
"""

import ast
import importlib
import importlib.util
import inspect
import itertools
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ctlearn.course.exercise import Stopped
from ctlearn.course.runner.child import ending, private
from ctlearn.course.runner.fence import limit
from ctlearn.course.runner.messages import pack
from ctlearn.course.runner.submission import parsed
from ctlearn.course.sandbox import (
    LONGEST,
    Box,
    Function,
    Limits,
    Submitted,
    printable,
    serving,
)
from ctlearn.kernels import interpreted

# What a kernel may ask of Triton itself; `tl` is the puzzles' own concern.
OF_TRITON = ("cdiv", "next_power_of_2")
HEAD = "import triton\nimport triton.language as tl\n"

Cells = list[bytes]


class KernelBox(Box):
    """A child process that judges kernels; of a submission it takes the text."""

    def __init__(self, submission: Submitted, limits: Limits) -> None:
        if importlib.util.find_spec("triton") is None:
            raise RuntimeError(
                'kernels are judged where Triton is: pip install "ctlearn[torch]" on '
                "Linux"
            )
        own = ("ctlearn", "numpy", "torch", "triton")
        super().__init__(serving(__name__, own), {}, limits)
        self.submission = submission

    def examine(self, puzzle: str, seed: int) -> tuple[bool, str]:
        """Whether the submission's kernel solves the puzzle, and what is to be said.

        The kernel has the puzzle's name, unless it was handed in by itself. Raises
        Stopped.
        """
        name, cells = texts(self.submission, puzzle)
        asked = {"puzzle": puzzle, "name": name, "cells": cells, "seed": seed}
        reply = self.ask(asked)
        # a kernel may have words of its own for what stops it
        return reply["passed"], printable(reply["says"][:LONGEST])


def texts(submission: Submitted, name: str) -> tuple[str, Cells]:
    """The kernel's name and the text it is in; raises Stopped if there is none."""
    if not isinstance(submission, Function):
        return name, submission.payload()["cells"]
    kernel: Any = submission.function
    found: dict[str, str] = {}
    try:
        gather(kernel, found)
    except (OSError, TypeError) as error:
        says = "A kernel is a function with @triton.jit in front of it."
        raise Stopped("missing", says) from error
    return kernel.fn.__name__, [text.encode() for text in found.values()]


def gather(kernel: Any, found: dict[str, str]) -> None:
    """Collect the text of a kernel and of all that it calls.

    Raises TypeError for what is no kernel, and OSError if its text is not to be had.
    """
    function = getattr(kernel, "fn", None)
    if not inspect.isfunction(function):
        raise TypeError("no kernel")
    found[function.__name__] = ""
    around = inspect.getclosurevars(function)
    for name, value in {**around.globals, **around.nonlocals}.items():
        if hasattr(value, "fn") and name not in found:
            gather(value, found)
        elif type(value).__name__ == "constexpr":
            found[name] = f"{name} = tl.constexpr({value.value!r})"
    found[function.__name__] = textwrap.dedent(inspect.getsource(function))


def kernels_in(cells: Cells) -> Iterator[ast.FunctionDef | ast.Assign]:
    """The definitions of kernels, and of constants for them; nothing is run."""
    for cell in cells:
        try:
            body = list(parsed(cell, "<cell>"))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for statement in body:
            match statement:
                case ast.FunctionDef(decorator_list=decorators):
                    if "jit" in " ".join(map(ast.unparse, decorators)):
                        yield statement
                case ast.Assign([ast.Name()], ast.Call(called, [ast.Constant()], [])):
                    if ast.unparse(called) == "tl.constexpr":
                        yield statement


def beside_kernel(kernel: ast.FunctionDef) -> str:
    """What Python would run when it defines this kernel, or a name it must not have."""
    arguments = kernel.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    said = [ast.unparse(x.annotation) for x in every if x.annotation]
    defaults = [*arguments.defaults, *filter(None, arguments.kw_defaults)]
    if [ast.unparse(x) for x in kernel.decorator_list] != ["triton.jit"]:
        return "has @triton.jit in front of it, and nothing else"
    if arguments.vararg or arguments.kwarg or getattr(kernel, "type_params", []):
        return "names all its arguments"
    if kernel.returns or set(said) - {"tl.constexpr"}:
        return "has no annotation but tl.constexpr"
    if not all(isinstance(x, ast.Constant) for x in defaults):
        return "has numbers for defaults"
    for node in ast.walk(kernel):
        match node:
            case ast.Attribute(ast.Name("triton"), name) if name not in (
                "jit",
                *OF_TRITON,
            ):
                return f"does not use triton.{name}"
    return ""


def module_of(cells: Cells, name: str) -> str:
    """The text of a module of the kernel and of what it may call.

    Raises LookupError, with a sentence, if there is no such kernel, or if Python would
    run more than a kernel when it defines it.
    """
    found: dict[str, ast.FunctionDef | ast.Assign] = {}
    fault = f"There is no function {name} with @triton.jit."
    for statement in kernels_in(cells):
        if isinstance(statement, ast.Assign):
            (target,) = statement.targets
            found[ast.unparse(target)] = statement
            continue
        unfit = beside_kernel(statement)
        if not unfit:
            found[statement.name] = statement
        elif statement.name == name:
            fault = f"A kernel {unfit}."
    if not isinstance(found.get(name), ast.FunctionDef):
        raise LookupError(fault)
    kept = [x for n, x in found.items() if n not in ("tl", "triton")]
    return HEAD + "\n\n".join(map(ast.unparse, kept)) + "\n"


def judged(asked: dict[str, Any], file: Path) -> dict[str, Any]:
    """What the puzzle's judge says of the kernel, whose text is written to the file."""
    from ctlearn.kernels import puzzles

    try:
        text = module_of(asked["cells"], asked["name"])
        file.write_text(text, encoding="utf-8")
        defined: dict[str, Any] = {"__name__": file.stem}
        exec(compile(text, str(file), "exec"), defined)
        kernel = defined[asked["name"]]
        passed, says = puzzles.check(asked["puzzle"], kernel, asked["seed"])
    except (LookupError, SyntaxError, RecursionError) as fault:
        passed, says = False, str(fault.args[0])
    return {"passed": passed, "says": says}


def serve() -> None:
    """In the child: judge what is sent, until there is no more."""
    channel = private()
    settings = channel.receive()
    interpreted.begin()
    importlib.import_module("ctlearn.kernels.puzzles")
    limit(settings["memory"], settings["seconds"])
    channel.send(pack("ready"))
    for count in itertools.count():
        asked = channel.receive()
        # Triton reads a kernel's text where its file is
        file = Path(settings["folder"]) / f"kernels_{count}.py"
        with ending(asked["seconds"]):
            reply = judged(asked, file)
        channel.send(pack({"to": asked["to"], **reply}))
