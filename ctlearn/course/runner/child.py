"""The child's main loop: it makes ready, seals itself, and answers messages."""

import contextlib
import gc
import importlib
import math
import os
import signal
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from .messages import Channel, pack
from .submission import Submission

# Modules of which a replaced name is told, besides those that are imported.
WATCHED = ("builtins", "math", "numpy", "numpy.fft", "numpy.linalg", "numpy.random")


def private() -> Channel:
    """The parent's channel under new numbers; the third pipe gets what is printed."""
    channel = Channel(os.dup(0), os.dup(1))
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return channel


@contextlib.contextmanager
def ending(seconds: float) -> Iterator[None]:
    """Have the system end this process if the block does not end long before.

    The parent's clock is stricter; this is for when there is no parent any more.
    """
    alarm = getattr(signal, "alarm", None)
    if alarm is None:  # Windows
        yield
        return
    alarm(math.ceil(seconds) + 5)
    yield
    alarm(0)


def stand_in() -> None:
    """Let a notebook's own calls of `check` do nothing."""
    course = types.ModuleType("ctlearn.course")
    for name in ("check", "exercises", "progress", "show"):
        setattr(course, name, lambda *_, **__: None)
    package = sys.modules.setdefault("ctlearn", types.ModuleType("ctlearn"))
    for module in (package, course):
        # a package, so that what is asked for in it is refused by name
        vars(module).setdefault("__path__", [])
    vars(package)["course"] = sys.modules["ctlearn.course"] = course


class Watched:
    """Modules as they were, to tell whether a name in them was replaced.

    `finder` is set when there is one, which must stay where modules are found.
    """

    finder: Any = None

    def __init__(self, imports: list[str]) -> None:
        names = {*WATCHED, *imports}
        for name in names:
            importlib.import_module(name)
        names |= {name for name in sys.modules if name.startswith("ctlearn.")}
        self.before = {
            name: (sys.modules[name], dict(vars(sys.modules[name])))
            for name in sorted(names)
        }

    def changed(self) -> str:
        """The first name that is no longer what it was; empty if all are."""
        if not any(finder is self.finder for finder in sys.meta_path):
            return "sys.meta_path"
        for name, (module, held) in self.before.items():
            if sys.modules.get(name) is not module:
                return name
            now = vars(module)
            for inner, value in held.items():
                if now.get(inner, self) is not value:
                    return f"{name}.{inner}"
        return ""


def main() -> None:
    """Answer messages until there are no more."""
    channel = private()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    settings = channel.receive()
    sys.path += [path for path in settings["places"] if path not in sys.path]
    # for `from numpy import *`: what it would load only then may be refused
    np.__all__ = [name for name in np.__all__ if name in vars(np)]
    watched = Watched(settings["imports"])
    stand_in()
    importlib.import_module(f"{__package__}.fence").seal(channel.target, settings)
    watched.finder = sys.meta_path[0]
    # what is there already need not be looked through each time
    gc.freeze()
    submission = Submission()
    channel.send(pack("sealed"))
    while True:
        asked = channel.receive()
        found: dict[str, Any] = {}
        with ending(asked["seconds"]):
            if "load" in asked:
                submission.load(asked["load"])
            else:
                limit = settings["output"]
                found = submission.call(asked["call"], asked["inputs"], limit)
        channel.send(pack({"to": asked["to"], "changed": watched.changed(), **found}))
        del asked, found
        gc.collect()
