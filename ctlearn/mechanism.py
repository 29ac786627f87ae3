"""Mechanism: what a mixer declares about itself, from which all else is drawn.

A file in `ctlearn/mixers/` defines the forms `step`, `recurrent`, `parallel` and
`chunkwise`, those that exist, and ends in its MECHANISM: tests, tables and pages find
it there. A member of the family of `ctlearn.memory` says its `step` and its `write`,
and `family_forms` makes the other forms of them; of another mechanism's step and its
like for a chunk, `chunk_forms` does.
"""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, Literal, TypedDict, get_args, get_type_hints

import numpy as np

from ctlearn import memory
from ctlearn.scalars import minus_infinity
from ctlearn.shapes import GLOSSARY, Shape, checked
from ctlearn.supplies import Supply

FORMS = ("step", "recurrent", "parallel", "chunkwise")
Inputs = dict[str, Any]


class Write(TypedDict, total=False):
    """What a member of the family does with its tokens, in `ctlearn.memory`'s letters.

    k [T, d_k], z [T, d_v], e [T, d_k], log_decay [T] or [T, d_k]; what is left out
    does not happen. `read_first` says that the erased answer is read before forgetting.
    """

    k: np.ndarray
    z: np.ndarray
    e: np.ndarray
    log_decay: np.ndarray
    read_first: bool


def family_forms(
    step: Callable,
    write: Callable[..., Write],
    ask: Callable[..., np.ndarray] | None = None,
) -> tuple[Callable, Callable, Callable]:
    """`recurrent`, `parallel` and `chunkwise` of a member of the family.

    `recurrent` folds the step, which is stated as its source states it. The other two
    are `ctlearn.memory`'s plans, of what the member writes, read with q or with what
    `ask` makes of it. That they agree is what the ledger proves.
    """

    def question(q: Any, gates: Inputs) -> Any:
        return q if ask is None else ask(q, **_taken(ask, gates))

    def recurrent(q: Any, *kv: Any, S: Any = None, **gates: Any) -> Any:
        """One token after another, O(T d_k d_v)."""
        S = memory.initial_state(q, kv[-1], S)
        return memory.scan(step, q, *kv, S=S, **gates)

    def parallel(q: Any, *kv: Any, S: Any = None, **gates: Any) -> Any:
        """All tokens at once, O(T^2 (d_k + d_v))."""
        written = write(*kv, **_taken(write, gates))
        return memory.parallel(question(q, gates), **written, S=S)

    def chunkwise(
        q: Any, *kv: Any, S: Any = None, chunk_size: int = 64, **gates: Any
    ) -> Any:
        """Parallel inside a chunk of C, recurrent between: O(T (C d + d_k d_v))."""
        written = write(*kv, **_taken(write, gates))
        return memory.chunkwise(
            question(q, gates), **written, S=S, chunk_size=chunk_size
        )

    return _as_forms(step, recurrent, parallel, chunkwise)


def chunk_forms(
    step: Callable, chunk: Callable, start: Callable
) -> tuple[Callable, Callable, Callable]:
    """`recurrent`, `parallel` and `chunkwise` of a mechanism outside the family.

    `chunk` does for some tokens at once what `step` does for one, from the state before
    them; `start(k, v, S)` makes that state at the first token, of S or None, and is
    also handed what it asks for of the other arguments.
    """

    def begin(kv: Any, S: Any, others: Inputs) -> Any:
        return start(kv[0], kv[-1], S, **_taken(start, others))

    def recurrent(q: Any, *kv: Any, S: Any = None, **others: Any) -> Any:
        """One token after another."""
        return memory.scan(step, q, *kv, S=begin(kv, S, others), **others)

    def parallel(q: Any, *kv: Any, S: Any = None, **others: Any) -> Any:
        """All tokens at once."""
        return chunk(q, *kv, S=begin(kv, S, others), **others)

    def chunkwise(
        q: Any, *kv: Any, S: Any = None, chunk_size: int = 64, **others: Any
    ) -> Any:
        """Parallel inside a chunk of C, recurrent between."""
        S, v = begin(kv, S, others), kv[-1]
        o = np.empty((len(v), v.shape[-1]), dtype=v.dtype)
        names, own = inspect.signature(step).parameters, getattr(step, "own_shapes", {})
        given = dict(zip(names, (q, *kv), strict=False)) | others
        for first in range(0, len(o), chunk_size):
            c = slice(first, first + chunk_size)
            here = {
                name: x[c] if memory.has_rows(name, given, own) else x
                for name, x in given.items()
            }
            o[c], S = chunk(**here, S=S)
        return o, S

    return _as_forms(step, recurrent, parallel, chunkwise)


def _as_forms(step: Callable, *forms: Any) -> tuple[Callable, Callable, Callable]:
    """The forms with the arguments of the step, and checked as it is."""
    *arguments, state = inspect.signature(step).parameters.values()
    state = state.replace(default=None)
    size = inspect.signature(forms[2]).parameters["chunk_size"]
    for form in forms:
        last = [state, size] if form is forms[2] else [state]
        form.__signature__ = inspect.Signature([*arguments, *last])
        form.__module__, form.__qualname__ = step.__module__, form.__name__
    recurrent, parallel, chunkwise = map(
        checked(**getattr(step, "own_shapes", {})), forms
    )
    return recurrent, parallel, chunkwise


def empty_token_first(inputs: Inputs) -> Inputs:
    """An `opening` where all arrays are by token: one in front whose rows are zero."""
    return {
        name: np.concatenate([np.zeros_like(x[:1]), x]) if np.ndim(x) else x
        for name, x in inputs.items()
    }


def _taken(function: Callable, inputs: Inputs) -> Inputs:
    """Those of the inputs that the function asks for."""
    asked = inspect.signature(function).parameters
    return {name: x for name, x in inputs.items() if name in asked}


@dataclass(frozen=True)
class Cell:
    """Five choices in the words of the map, so that mechanisms can be compared.

    What the state is as a model, what the model is trained for, by which steps, on
    which pairs each step looks, and how room is made.
    """

    function_class: Literal[
        "linear map",
        "linear map of features",
        "ratio of linear maps",
        "bank of linear maps",
        "network",
        "kernel expansion",
        "local fit",
    ]
    objective: Literal["dot product", "squared error", "another loss", "local error"]
    optimiser: Literal[
        "one step",
        "several steps",
        "momentum",
        "scaled step",
        "preconditioned step",
        "closed form",
    ]
    schedule: Literal["every token", "mini-batch", "window", "whole history"]
    control: Literal[
        "none",
        "one rate",
        "rate by channel",
        "rate by entry",
        "size",
        "eviction",
        "selection",
    ]


# The words that each choice may have, in the order of the map.
CHOICES: dict[str, tuple[str, ...]] = {
    axis: get_args(words) for axis, words in get_type_hints(Cell).items()
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """A mechanism's place in the design space, in the map's words and in its own.

    `cell` is where the map has it; `beside` is the cell of the second memory of a
    hybrid. `state` counts the numbers kept for one head after T tokens: a formula in T,
    d_k, d_v and the mechanism's constants that Python can evaluate.
    """

    cell: Cell
    beside: Cell | None = None
    function_class: str
    objective: str
    optimiser: str
    schedule: str
    control: str
    state: str

    def words(self) -> dict[str, str]:
        """What the place says of each choice, and of the state, in its own words."""
        return {name: getattr(self, name) for name in (*CHOICES, "state")}

    def of(self, model: Any, numbers: str) -> "Place":
        """The place of the same mechanism with a model of another class.

        The model has so many numbers where the one of this place has d_k * d_v.
        """
        cell = replace(self.cell, function_class=model)
        state = self.state.replace("d_k * d_v", f"({numbers})")
        return replace(self, cell=cell, state=state)

    def state_numbers(self, T: int, d_k: int, d_v: int, **constants: Any) -> int:
        """How many numbers the state holds after T tokens."""
        return int(eval(self.state, {}, {"T": T, "d_k": d_k, "d_v": d_v, **constants}))


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A setting under which a mechanism is another one.

    `target` is the other's name; `when` says the setting in words, `setting` in TeX.
    `here` turns a draw of this mechanism's inputs into inputs at the limit, and is None
    where every input is at it. `there` turns those into the other mechanism's inputs.
    `name` tells two limits with one target apart. `worlds` are the supplies in which it
    is checked: all, unless symbols would take too long; `at` are sizes for symbols that
    differ from the ledger's. `whole` says that the setting
    is one of the sequence, so that a single step from any state need not agree.
    """

    target: str
    when: str
    setting: str
    here: Callable[[Inputs], Inputs] | None = field(repr=False)
    there: Callable[[Inputs], Inputs] = field(repr=False)
    name: str = ""
    worlds: tuple[str, ...] = ("rationals", "symbols", "floats")
    whole: bool = False
    at: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """A mixer.

    `inputs` gives, for each array among the arguments in order, the domain it is drawn
    from (see `ctlearn.supplies`) and, where the glossary's last shape is not the one
    meant, its shape in letters or numbers: `log_decay [T]`. `constants` are the other
    arguments that every form needs, with a value to test them at. `citations` are
    BibTeX keys, the source of the update first. `chapter` is the stem of the notebook
    that explains the mechanism, if there is one yet. `exempt` names the common tests
    that cannot be asked of this mechanism, each with the reason.

    `start`, of a supply, d_k and d_v, draws a state to start from where one of zeros
    would never learn. `of_matrix` makes the state that answers S'q, all else at rest,
    of a matrix S; a state that is one matrix needs none. `variants` are further
    settings in which the mechanism is to be tested: by name, what changes in this
    declaration. `symbolic_tokens` is how many tokens free symbols can bear before a
    check takes too long.

    A document may stand behind others in one row and be read as if alone where every
    decay is minus infinity at its first token. `opening` is what else must change in
    its inputs for that; if it adds tokens in front, their answers are nobody's.

    `told` is for a mechanism that has no place for a pair's key: it makes inputs of
    those that would tell the pair otherwise, q, k and v among them.
    """

    module: str
    title: str
    citations: tuple[str, ...]
    inputs: Mapping[str, str]
    place: Place
    limits: tuple[Limit, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    chapter: str = ""
    exempt: Mapping[str, str] = field(default_factory=dict)
    start: Callable[[Supply, int, int], Any] | None = None
    of_matrix: Callable[[np.ndarray], Any] | None = None
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    symbolic_tokens: int = 4
    opening: Callable[[Inputs], Inputs] | None = None
    told: Callable[[Inputs], Inputs] | None = None

    @property
    def settings(self) -> dict[str, "Mechanism"]:
        """The mechanism as declared and in each of its variants, by a name for each."""
        changed = {
            f"{self.name}, {name}": replace(self, variants={}, **changes)
            for name, changes in self.variants.items()
        }
        return {self.name: self} | changed

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of the map in which it stands: in any setting, on either side."""
        places = [setting.place for setting in self.settings.values()]
        sides = [cell for place in places for cell in (place.cell, place.beside)]
        return tuple(dict.fromkeys(cell for cell in sides if cell is not None))

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

    def written(self, inputs: Inputs) -> Write:
        """What a member of the family writes on these inputs."""
        assert self.write is not None
        return self.write(**_taken(self.write, inputs))

    @property
    def by_token(self) -> frozenset[str]:
        """The inputs that have a row for each token."""
        return frozenset(name for name in self.inputs if self.shape(name)[:1] == ("T",))

    @property
    def decays(self) -> frozenset[str]:
        """The inputs that say at every token what is kept."""
        return frozenset(n for n in self.by_token if GLOSSARY[n].role == "decay")

    def rows(self, inputs: Inputs, part: Any) -> Inputs:
        """Some of the tokens, an index or a slice; what holds for all tokens stays."""
        return {n: x[part] if n in self.by_token else x for n, x in inputs.items()}

    def opened(self, inputs: Inputs) -> Inputs:
        """A document's inputs for a place behind others in one row."""
        inputs = inputs if self.opening is None else self.opening(inputs)
        decays = {name: inputs[name].copy() for name in self.decays}
        for decay in decays.values():
            decay[:1] = minus_infinity(decay)
        return inputs | decays

    def draw(
        self, supply: Supply, T: int, d_k: int, d_v: int, *, free: bool = False
    ) -> Inputs:
        """Inputs for T tokens, each from its domain in its shape.

        `free` leaves rows of length one free to have any, which claims more.
        """
        sizes = {"T": T, "d_k": d_k, "d_v": d_v}
        arrays = {}
        for name, drawn in self.inputs.items():
            size = [sizes[x] if x in sizes else int(x) for x in self.shape(name)]
            domain = drawn.partition(" ")[0]
            domain = "real" if free and domain == "unit" else domain
            arrays[name] = supply.draw(name, domain, *size)
        return arrays | dict(self.constants)

    def shape(self, name: str) -> Shape:
        """The shape in which an input is drawn, in letters or numbers."""
        own = re.findall(r"\w+", self.inputs[name].partition(" ")[2])
        return tuple(own) or GLOSSARY[name].shapes[-1]
