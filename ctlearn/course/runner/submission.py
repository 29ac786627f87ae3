"""A submission: a student's functions by name, and what stopped on the way to them."""

import ast
import contextlib
import pickle
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from .messages import NUMBERS, TooMuch, Unfit, described, pack
from .refusing import Refused

# Values that a function may return at once.
MANY = 16


class Submission:
    """A student's functions, and what stopped on the way to them."""

    def __init__(self) -> None:
        self.module = types.ModuleType("submission")
        sys.modules["submission"] = self.module
        self.only: Any = None
        self.pickled = False
        self.files: dict[str, str] = {}
        self.futures: list[ast.stmt] = []
        self.stopped: list[tuple[str, str]] = []

    def load(self, payload: dict[str, Any]) -> None:
        """Take the function that was pickled, or run cells of text in order."""
        try:
            if "function" in payload:
                self.pickled = True
                self.only = pickle.loads(payload["function"])
                code = getattr(self.only, "__code__", None)
                self.files[getattr(code, "co_filename", "")] = ""
            for i, cell in enumerate(payload.get("cells", ()), 1):
                where = f" of cell {i}" if len(payload["cells"]) > 1 else ""
                self.files[f"<cell {i}>"] = where
                self.run(cell, f"<cell {i}>")
        except BaseException as error:
            self.stopped.append(self.told(error))

    def run(self, cell: bytes, file: str) -> None:
        """Each statement by itself: one that stops is remembered, and costs no other.

        SystemExit and KeyboardInterrupt are passed on.
        """
        try:
            body = list(parsed(cell, file))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self.stopped.append(self.told(error))
            return
        for statement in body:
            if isinstance(statement, ast.ImportFrom):
                # from here on they hold, in the cells that follow, too
                self.futures += [statement] * (statement.module == "__future__")
            tree = ast.Module([*self.futures, statement], [])
            try:
                code = compile(tree, file, "exec", dont_inherit=True)
                exec(code, vars(self.module))
            except Exception as error:
                self.stopped.append(self.told(error))

    def call(self, name: str, inputs: dict[str, Any], limit: int) -> dict[str, Any]:
        """What the function returns and its inputs afterwards, or why there is none."""
        function = self.only
        if function is None and name not in vars(self.module):
            return {"stopped": self.missing(name)}
        try:
            if function is None:
                function = vars(self.module)[name]
            value = function(**inputs)
            return {"packed": pack({"value": plain(value), "inputs": inputs}, limit)}
        except Unfit as what:
            says = f"Your function returns {what}; plain arrays are asked for."
            return {"stopped": ("shape", says)}
        except TooMuch:
            return {"stopped": ("output", "Your function returns too many numbers.")}
        except BaseException as error:
            kind, says = self.told(error)
            if isinstance(error, NameError) and self.stopped:
                says += f" Before that: {self.stopped[0][1]}"
            return {"stopped": (kind, f"Your function stops. {says}")}

    def missing(self, name: str) -> tuple[str, str]:
        """Why there is no function of this name."""
        says = f"There is no function {name}."
        if self.pickled:
            says = "Your function cannot be used by itself."
        if not self.stopped:
            return "missing", says
        kind, first = self.stopped[0]
        # a text may define others in spite of what stopped; a pickle holds only one
        refused = kind == "forbidden" and not self.files
        return ("forbidden" if refused else "missing"), f"{says} {first}"

    def told(self, error: BaseException) -> tuple[str, str]:
        """The kind of an exception, and a sentence that says what and where it was."""
        kind, said = "error", "an exception"
        # its class may be a student's, and run code when it is asked
        with contextlib.suppress(BaseException):
            kinds = {MemoryError: "memory", Refused: "forbidden"}
            kind = next((kinds[x] for x in type(error).__mro__ if x in kinds), kind)
            said = type(error).__name__[:40]
            said += f": {' '.join(str(error)[:1000].split())[:200]}".rstrip(": ")
        where = ""
        at = error.__traceback__
        while at is not None:
            file = at.tb_frame.f_code.co_filename
            if file in self.files:
                where = f" (line {at.tb_lineno}{self.files[file]})"
            at = at.tb_next
        return kind, f"{said}{where}."


def parsed(cell: bytes, file: str) -> Iterator[ast.stmt]:
    """The statements of a text; lines that only IPython knows are left out.

    Raises SyntaxError, or what else deep brackets and strange bytes come to.
    """
    try:
        yield from ast.parse(cell, file).body
        return
    except SyntaxError:
        lines = cell.decode("utf-8", "replace").splitlines()
    for i, line in enumerate(lines):
        bare = line.strip()
        if bare.startswith(("%", "!", "?")) or bare.endswith("?"):
            lines[i] = line.partition(bare)[0] + "pass"
    yield from ast.parse("\n".join(lines), file).body


def plain(value: Any) -> Any:
    """A returned value, if it is an array or a number, or a few of them.

    Raises Unfit. A list of lists is none: it has no shape and no dtype.
    """
    if not issubclass(type(value), tuple | list):
        return one(value)
    # by the types' own methods: a subclass may have others
    kind = tuple if issubclass(type(value), tuple) else list
    items = list(kind.__iter__(value))
    if len(items) > MANY:
        raise Unfit("a long list")
    return kind(map(one, items))


def one(value: Any) -> Any:
    """A value, if it is an array, a number, or None; raises Unfit."""
    if value is None or type(value) in (bool, int, float, complex, np.ndarray):
        return value
    if type(value) in NUMBERS:
        return value.item()
    raise Unfit(described(value))
