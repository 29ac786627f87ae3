"""One file a mechanism; `mechanisms()` collects them by walking this package."""

import functools
import importlib
import pkgutil
from collections.abc import Iterator

from ctlearn.mechanism import Mechanism


@functools.cache
def mechanisms() -> dict[str, Mechanism]:
    """Every mechanism by name, in alphabetical order."""
    found = {}
    for entry in pkgutil.iter_modules(__path__):
        if entry.name == "__main__":
            continue
        module = importlib.import_module(f"{__name__}.{entry.name}")
        found[entry.name] = module.MECHANISM
    return found


def branches() -> Iterator[tuple[Mechanism, str, int]]:
    """The family tree, depth first: a mechanism, its setting, its depth.

    A mechanism hangs from the first of its limits, which is the one it becomes under
    the mildest setting; one without limits is a root. The setting is in words, and
    empty for a root.
    """
    every = mechanisms()

    def below(target: str, depth: int) -> Iterator[tuple[Mechanism, str, int]]:
        for mechanism in every.values():
            if mechanism.limits and mechanism.limits[0].target == target:
                yield mechanism, mechanism.limits[0].when, depth
                yield from below(mechanism.name, depth + 1)

    for mechanism in every.values():
        if not mechanism.limits:
            yield mechanism, "", 0
            yield from below(mechanism.name, 1)
