"""Mechanism: what a mixer declares about itself, from which all else is drawn.

A file in `ctlearn/mixers/` defines the forms `step`, `recurrent`, `parallel`,
`chunkwise` (those that exist) and, if it belongs to the family of `ctlearn.memory`,
`write`, and ends in its MECHANISM. Tests, tables and pages find it there.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypedDict

import numpy as np

from ctlearn.shapes import GLOSSARY
from ctlearn.supplies import Supply

FORMS = ("step", "recurrent", "parallel", "chunkwise")
Inputs = dict[str, Any]


class Write(TypedDict, total=False):
    """What a member of the family does with its tokens, in `ctlearn.memory`'s letters.

    k [T, d_k], z [T, d_v], e [T, d_k], log_decay [T] or [T, d_k]; what is left out
    does not happen.
    """

    k: np.ndarray
    z: np.ndarray
    e: np.ndarray
    log_decay: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Place:
    """A mechanism's place in the design space.

    `state` counts the numbers kept for one head after T tokens: a formula in T, d_k
    and d_v that Python can evaluate.
    """

    function_class: str
    objective: str
    optimiser: str
    schedule: str
    control: str
    state: str

    def state_numbers(self, T: int, d_k: int, d_v: int) -> int:
        """How many numbers the state holds after T tokens."""
        return int(eval(self.state, {}, {"T": T, "d_k": d_k, "d_v": d_v}))


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A setting under which a mechanism is another one.

    `target` is the other's name; `when` says the setting in words, `setting` in TeX.
    `here` turns a draw of this mechanism's inputs into inputs at the limit, and
    `there` turns those into the other mechanism's inputs.
    """

    target: str
    when: str
    setting: str
    here: Callable[[Inputs], Inputs] = field(repr=False)
    there: Callable[[Inputs], Inputs] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """A mixer.

    `inputs` gives, for each argument in order, the domain it is drawn from (see
    `ctlearn.supplies`). `citations` are BibTeX keys, the source of the update first.
    """

    module: str
    title: str
    citations: tuple[str, ...]
    inputs: Mapping[str, str]
    place: Place
    limits: tuple[Limit, ...] = ()

    @property
    def name(self) -> str:
        """The stem of the file."""
        return self.module.rpartition(".")[2]

    @property
    def source(self) -> ModuleType:
        """The module that defines the forms."""
        return sys.modules[self.module]

    @property
    def forms(self) -> dict[str, Callable]:
        """The forms that exist, by name; each returns (o, S)."""
        found = {name: getattr(self.source, name, None) for name in FORMS}
        return {name: form for name, form in found.items() if form is not None}

    @property
    def write(self) -> Callable[..., Write] | None:
        """For members of the family: the write that the inputs after q amount to."""
        return getattr(self.source, "write", None)

    def draw(self, supply: Supply, T: int, d_k: int, d_v: int) -> Inputs:
        """Inputs for T tokens, each from its domain, in the glossary's last shape."""
        sizes = {"T": T, "d_k": d_k, "d_v": d_v}
        return {
            name: supply.draw(
                name, domain, *(sizes[letter] for letter in GLOSSARY[name].shapes[-1])
            )
            for name, domain in self.inputs.items()
        }
