"""Assignments: programs of which every line counts, and a state that runs them.

A line sets a variable to a sum of variables, each any number of times, and a number:

    x <- 5        y <- x + 5        x <- x + 1        z <- y + x + 0

All variables are 0 at first, and in the end one of them is asked for. A line is live if
the answer depends on what it sets. Numbers are whole and exact, or counted modulo m.

The one memory (`ctlearn.memory`) runs such programs, on a state of one column with a
row for each variable. For a line with target i and number c, and with r_t [variables]
counting how often each variable stands on its right,

    k_t = the axis of i,   z_t = c,   e_t = k_t - r_t

erases what the target held and puts in what the others hold. [mcdermott2026, section 3]
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ctlearn.mechanism import Inputs

Array = np.ndarray


class Line(NamedTuple):
    """Set variable `target` to the sum of the variables `terms` and of `number`."""

    target: int
    terms: tuple[int, ...] = ()
    number: int = 0


Program = Sequence[Line]

# x <- 5, y <- x + 5, x <- 3, z <- y + x, for the variables x, y, z [mcdermott2026]
FOUR_LINES = (Line(0, (), 5), Line(1, (0,), 5), Line(0, (), 3), Line(2, (1, 0)))


def answer(program: Program, asked: int, *, lost: int = -1, instead: Any = 0) -> Array:
    """What `asked` holds in the end.

    The line number `lost`, if there is one, sets its target to each of the numbers
    `instead`, one program run for each of them.
    """
    held: dict[int, Any] = {}
    for t, line in enumerate(program):
        told = line.number + sum(held.get(i, 0) for i in line.terms)
        held[line.target] = instead if t == lost else told
    return np.asarray(held.get(asked, 0))


def paths(program: Program, variables: int, asked: int) -> Array:
    """In how many ways what each line sets reaches the answer: whole numbers [T].

    Walking back from the question, the count of a target goes to the variables on its
    line's right side. 0 for a line that is dead.
    """
    g = np.zeros(variables, dtype=object)
    g[asked] = 1
    a = np.zeros(len(program), dtype=object)
    for t in reversed(range(len(program))):
        target, terms, _ = program[t]
        a[t], g[target] = g[target], 0
        for i in terms:
            g[i] += a[t]
    return a


def answers_left(program: Program, asked: int, lost: int, modulus: int) -> int:
    """How many answers modulo `modulus` a program may have that lacks one line.

    Found by putting in, for what the line sets, each number that it could have been.
    """
    instead = np.arange(modulus, dtype=object)
    return len(set((answer(program, asked, lost=lost, instead=instead) % modulus).flat))


def inputs(program: Program, variables: int, asked: int) -> Inputs:
    """For `ctlearn.memory`: q, k, z and e, of which each token asks for `asked`."""
    one = np.eye(variables, dtype=int).astype(object)
    k = one[[line.target for line in program]]
    z = np.array([[line.number] for line in program], dtype=object)
    right = np.array([one[list(line.terms)].sum(axis=0) for line in program])
    q = np.repeat(one[asked : asked + 1], len(program), axis=0)
    return {"q": q, "k": k, "z": z, "e": k - right}


def random_program(
    rng: np.random.Generator, lines: int, variables: int, fresh: float = 0.25
) -> list[Line]:
    """A program of random lines; the share `fresh` of them set a number.

    The others are x <- y, x <- y + c and x <- y + z alike, where y or z may be x
    itself. Numbers are from 1 to 9.
    """
    program = []
    for _ in range(lines):
        target = int(rng.integers(variables))
        number = int(rng.integers(1, 10))
        if rng.random() < fresh:
            program.append(Line(target, (), number))
            continue
        form = int(rng.integers(3))
        terms = rng.integers(variables, size=1 + (form == 2)).tolist()
        program.append(Line(target, tuple(terms), number * (form == 1)))
    return program


def missed(
    windows: Sequence[int],
    seeds: Sequence[int],
    lines: int,
    variables: int,
    fresh: float,
) -> Array:
    """Share of programs of which a window of the last lines misses a live one.

    One random program a seed, asked for one of its variables; for each number of lines
    in `windows`.
    """
    ages = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        program = random_program(rng, lines, variables, fresh)
        live = np.flatnonzero(paths(program, variables, int(rng.integers(variables))))
        # a variable that nothing has set needs no line
        ages.append(lines - live[0] if len(live) else 0)
    return (np.array(ages)[:, None] > np.asarray(windows)).mean(axis=0)
