"""What the book states, and the proof of it: one file a mechanism or topic.

`identities()` collects them by walking this package: every module attribute that is an
`Identity`, and what a module's `entries()` returns.
"""

import functools
import importlib
import pkgutil

from ctlearn.identities.engine import Identity


@functools.cache
def identities() -> dict[str, Identity]:
    """Every identity by name, module by module, in the order in which they stand."""
    found: dict[str, Identity] = {}
    for entry in pkgutil.iter_modules(__path__):
        if entry.name == "__main__":
            continue
        module = importlib.import_module(f"{__name__}.{entry.name}")
        here = [x for x in vars(module).values() if isinstance(x, Identity)]
        here += module.entries() if hasattr(module, "entries") else []
        for claim in here:
            if claim.name in found:
                raise ValueError(f"two identities are named {claim.name}")
            found[claim.name] = claim
    return found
