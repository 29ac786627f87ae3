"""What a student's code finds in the place of what it may not have.

A function leads to all the names of its module. So these, which the code can reach, are
apart from the fence, which it must not.
"""

from typing import Any, Never


class Refused(ImportError):
    """A module that may not be imported here."""


class Finder:
    """The first to be asked for a module: it finds none, and refuses some."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self.allowed = allowed

    def find_spec(self, name: str, *_: Any) -> None:
        """Raise Refused for a module that is not Python's own, nor allowed."""
        if name.partition(".")[0] not in self.allowed:
            raise Refused(f"{name} may not be imported")


def refuse(*_: Any, **__: Any) -> Never:
    """Stand for a function that may not be called."""
    raise PermissionError("this cannot be used here")


def no_lines(*_: Any, **__: Any) -> list[str]:
    """Stand for what looks up the lines of a file."""
    return []
