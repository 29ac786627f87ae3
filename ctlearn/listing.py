"""Code on the page: a function of the package, as it stands in its file.

A page that shows a copy of a function shows, some day, what the function was. This
prints the function that the page runs.
"""

import inspect
import textwrap
from collections.abc import Callable

_MOST_LINES = 25


class Listing:
    """The source of a function or class, shown as highlighted Python.

    Raises ValueError if it has more than 25 lines, which is what a page can hold.
    """

    def __init__(self, shown: Callable) -> None:
        self.source = textwrap.dedent(inspect.getsource(inspect.unwrap(shown))).rstrip()
        lines = len(self.source.splitlines())
        if lines > _MOST_LINES:
            raise ValueError(
                f"{shown.__qualname__} has {lines} lines; a page holds {_MOST_LINES}"
            )

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.source}\n```"

    def __repr__(self) -> str:
        return self.source
