"""Each mechanism's own update is the one memory with other letters; and its limits.

Nothing is listed here: every mechanism that says how it writes, and every limit that a
mechanism declares, becomes an entry because it exists.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ctlearn import memory
from ctlearn.identities.engine import Identity, Sides
from ctlearn.identities.pairings import PAIRINGS
from ctlearn.mechanism import Inputs, Limit, Mechanism, Write
from ctlearn.mixers import mechanisms
from ctlearn.supplies import Supply, Symbols


def entries() -> list[Identity]:
    """One entry for each member of the family, one for each limit."""
    every = mechanisms().values()
    members = [_membership(mechanism) for mechanism in every if mechanism.write]
    limits = [
        _limit(mechanism, limit) for mechanism in every for limit in mechanism.limits
    ]
    return members + limits


def _short(mechanism: Mechanism) -> str:
    """The title without what the field calls it in brackets."""
    return mechanism.title.partition(" (")[0]


def _draw(mechanism: Mechanism, supply: Supply, T: int, d_k: int, d_v: int) -> Inputs:
    """Inputs from their domains; symbols need no lengths of one."""
    return mechanism.draw(supply, T, d_k, d_v, free=isinstance(supply, Symbols))


def _membership(mechanism: Mechanism) -> Identity:
    def claim(
        supply: Supply, d_k: int, d_v: int, *, change: Callable = lambda write: write
    ) -> dict[str, Sides]:
        inputs = _draw(mechanism, supply, 1, d_k, d_v)
        written = change(mechanism.written(inputs))
        nothing = mechanism.rows(inputs, slice(0))
        _, start = mechanism.forms["recurrent"](**nothing)
        parts = {}
        for part, S in (("base", start), ("step", supply.real("S", d_k, d_v))):
            _, own = mechanism.forms["recurrent"](**inputs, S=S)
            _, family = memory.recurrent(inputs["q"], **written, S=S)
            parts[part] = own, family
        return parts

    return Identity(
        name=f"{mechanism.name.replace('_', '-')}-fills-the-one-memory",
        title=f"{_short(mechanism)} is the one memory with other letters",
        kind="identity",
        statement=_statement(mechanism),
        source="each side as its source states it",
        citations=mechanism.citations,
        claim=claim,
        mutants=_write_mutants(mechanism),
    )


def _statement(mechanism: Mechanism) -> str:
    """The family's step with the letters that this mechanism leaves out removed."""
    written = _written(mechanism)
    kept = "S_{t-1}"
    if "log_decay" in written:
        scalar = written["log_decay"].ndim == 1
        decay = r"\alpha_t" if scalar else r"\mathrm{Diag}(\alpha_t)"
        kept = f"{decay} S_{{t-1}}"
    read = r"S_{t-1}^\top"
    if "log_decay" in written and not written.get("read_first"):
        read = rf"({kept})^\top"
    erased = f" - {read} e_t" if "e" in written else ""
    u = rf"(z_t{erased})^\top" if erased else r"z_t^\top"
    return rf"S_t = {kept} + k_t {u}"


def _write_mutants(mechanism: Mechanism) -> dict[str, dict[str, Any]]:
    def without(name: str) -> Callable:
        return lambda write: {key: x for key, x in write.items() if key != name}

    def twice(name: str) -> Callable:
        return lambda write: write | {name: 2 * write[name]}

    def turned(write: Write) -> Write:
        return write | {"read_first": not write.get("read_first")}

    mutants = {
        "the value is written twice": {"change": twice("z")},
        "the key is twice as long": {"change": twice("k")},
    }
    written = _written(mechanism)
    if "e" in written:
        mutants["nothing is erased"] = {"change": without("e")}
        mutants["twice too much is erased"] = {"change": twice("e")}
    if "log_decay" in written:
        mutants["nothing is forgotten"] = {"change": without("log_decay")}
    if {"e", "log_decay"} <= set(written):
        mutants["forgets and reads in the other order"] = {"change": turned}
    return mutants


def _written(mechanism: Mechanism) -> Write:
    return mechanism.written(_draw(mechanism, Symbols(), 1, 1, 1))


def _holding(mechanism: Mechanism, S: Any, matrix: np.ndarray) -> Any:
    """A state like S that answers from the matrix alone, or None if there is none."""
    if mechanism.of_matrix is not None:
        return mechanism.of_matrix(matrix)
    return matrix if isinstance(S, np.ndarray) and S.ndim == 2 else None


def _leaves(state: Any) -> list[np.ndarray]:
    """The arrays of a state, in order."""
    if isinstance(state, tuple):
        return [array for part in state for array in _leaves(part)]
    return [np.asarray(state)]


def _doubled(state: Any) -> Any:
    """A state with all its arrays doubled; what it counts stays."""
    if isinstance(state, tuple):
        return type(state)(*map(_doubled, state))
    return 2 * state if np.ndim(state) else state


def limit_name(mechanism: Mechanism, limit: Limit) -> str:
    """The name under which the ledger holds the proof of a limit."""
    words = [mechanism.name, "becomes", limit.target, *limit.name.split()]
    return "-".join(words).replace("_", "-")


def _limit(mechanism: Mechanism, limit: Limit) -> Identity:
    target = mechanisms()[limit.target]
    reach = limit.here or (lambda inputs: inputs)
    pairing = PAIRINGS.get(limit_name(mechanism, limit))

    def answers(
        inputs: Inputs, given: Inputs, *S: Any, reached: bool, turned: bool
    ) -> list[Any]:
        """What both give for these inputs, from a state each if they are given."""
        there = limit.there(reach(inputs))
        here = reach(inputs) if reached else inputs
        if turned:
            there["q"] = there["q"][::-1]
        both = [x | {n: a for n, a in given.items() if n in x} for x in (here, there)]
        begun = [{"S": state} for state in S] or [{}, {}]
        return [
            mechanism.forms["recurrent"](**both[0] | begun[0]),
            target.forms["recurrent"](**both[1] | begun[1]),
        ]

    def claim(
        supply: Supply,
        T: int,
        d_k: int,
        d_v: int,
        *,
        reached: bool = True,
        scale: int = 1,
        turned: bool = False,
        apart: bool = False,
    ) -> dict[str, Sides]:
        inputs = _draw(mechanism, supply, T, d_k, d_v)
        change = {"reached": reached, "turned": turned}
        (o, S), (o_target, S_target) = answers(inputs, {}, **change)
        parts = {"": (np.asarray(o), scale * np.asarray(o_target))}
        shared = supply.real("S", d_k, d_v)
        token = _draw(mechanism, supply, 1, d_k, d_v)
        if pairing is not None:
            pairs = pairing.states(supply, reach(token))
            given = dict(pairing.given)
        else:
            begun = _holding(mechanism, S, shared), _holding(target, S_target, shared)
            if limit.whole or any(x is None for x in begun):
                return parts
            # both answer from one matrix, and what they answer to any query is all
            # that their matrices are: their states need no comparison
            pairs, given = [begun], {}
        names = ["step", *(f"step from pair {i}" for i in range(2, len(pairs) + 1))]
        for part, states in zip(["base", *names], [(), *pairs], strict=True):
            if apart and states:
                states = states[0], _doubled(states[1])
            (o, S), (o_target, S_target) = answers(token, given, *states, **change)
            parts[part] = np.asarray(o), scale * np.asarray(o_target)
            if pairing is not None:
                x = reach(token)
                behind = map(_leaves, (pairing.here(S, x), pairing.there(S_target, x)))
                for i, (left, right) in enumerate(zip(*behind, strict=True)):
                    parts[f"{part}, what is behind it, {i}"] = left, right
        return parts

    return Identity(
        name=limit_name(mechanism, limit),
        title=f"{_short(mechanism)}, if {limit.when}: {_short(target)}",
        kind="limit",
        statement=rf"{limit.setting} \;\Rightarrow\; "
        rf"o_t = o_t^{{\text{{{_short(target)}}}}}",
        source="ours",
        citations=mechanism.citations,
        worlds=limit.worlds,
        claim=claim,
        mutants={
            "off by a factor of two": {"scale": 2},
            **(
                {"the setting is not reached": {"reached": False}}
                if limit.here
                else {"the queries in the other order": {"turned": True}}
            ),
            **({"the states are no pair": {"apart": True}} if pairing else {}),
        },
        at={
            "symbols": {"T": min(3, mechanism.symbolic_tokens), **limit.at},
            "floats": {"T": 12},
        },
    )
