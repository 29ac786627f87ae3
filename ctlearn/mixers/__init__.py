"""One file a mechanism; `mechanisms()` collects them by walking this package."""

import functools
import importlib
import pkgutil

from ctlearn.mechanism import Mechanism


@functools.cache
def mechanisms() -> dict[str, Mechanism]:
    """Every mechanism by name, in alphabetical order."""
    found = {}
    for entry in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{entry.name}")
        found[entry.name] = module.MECHANISM
    return found
