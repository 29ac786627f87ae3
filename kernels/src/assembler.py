"""The assembler for Hopper, ptxas: that Triton uses one that is new enough.

A product of matrices there may take an operand from registers, which a ptxas older than
13.1 may overwrite before they are read. Triton 3.6 and 3.7 use 12.8 for Hopper, but 3.7
has 13.1 beside it; 3.9 uses 13.4. No GPU is asked.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from ctlearn.kernels.required import triton

LEAST = (13, 1)


class Ptxas(NamedTuple):
    """One of them: where it is, and its version."""

    path: str
    version: tuple[int, ...]

    def __str__(self) -> str:
        return f"ptxas {'.'.join(map(str, self.version))} ({self.path})"


class Assemblers(NamedTuple):
    """What Triton uses for Hopper, its other one, and the variable that sets the first.

    Triton passes over a variable in silence if nothing runs where it points.
    """

    own: Ptxas
    other: Ptxas
    variable: str

    def chosen(self, wanted: str | None) -> Ptxas:
        """What may be used: Triton's own unless it is too old, then the other.

        `wanted` is what the variable says, if it is set. Raises RuntimeError where
        there is none that is new enough.
        """
        if wanted and wanted != self.own.path:
            raise RuntimeError(f"{self.variable}: no ptxas runs at {wanted}")
        for ptxas in (self.own,) if wanted else (self.own, self.other):
            if ptxas.version >= LEAST:
                return ptxas
        raise RuntimeError(
            f"Hopper needs ptxas {'.'.join(map(str, LEAST))} or newer, or what kernels "
            f"compute may be wrong; Triton would use {self.own}. Triton 3.7 brings one "
            "as triton/backends/nvidia/bin/ptxas-blackwell, `pip install "
            "nvidia-cuda-nvcc` as nvidia/cu13/bin/ptxas. That one file is enough: set "
            f"{self.variable} to where it lies."
        )


def assemblers() -> Assemblers:
    """Those that Triton has here."""
    # here, so that it is `required` that says if there is no Triton
    from triton.backends.nvidia.compiler import get_ptxas

    knobs = triton.knobs.nvidia
    own, plain, other = get_ptxas(90), knobs.ptxas, knobs.ptxas_blackwell
    tools = (
        Ptxas(tool.path, tuple(map(int, tool.version.split("."))))
        for tool in (own, other)
    )
    name = "TRITON_PTXAS_PATH" if own == plain else "TRITON_PTXAS_BLACKWELL_PATH"
    return Assemblers(*tools, name)


def chosen() -> Ptxas:
    """What may be used here; raises RuntimeError, in words that say what to do."""
    found = assemblers()
    return found.chosen(os.environ.get(found.variable))


@contextlib.contextmanager
def lent() -> Iterator[None]:
    """While it lasts, Triton uses what `choose` would, or its own if none is right."""
    variable = assemblers().variable
    before = os.environ.get(variable)
    with contextlib.suppress(RuntimeError):
        choose()
    try:
        yield
    finally:
        os.environ.pop(variable, None)
        if before is not None:
            os.environ[variable] = before


def choose() -> Ptxas:
    """Have Triton use it from now on, for every GPU that it would use its own for."""
    found = assemblers()
    ptxas = found.chosen(os.environ.get(found.variable))
    if ptxas != found.own:
        os.environ[found.variable] = ptxas.path
    return ptxas
