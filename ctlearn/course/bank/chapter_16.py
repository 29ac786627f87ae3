"""Exercises of chapter 16, a lifetime of context."""

import numpy as np

from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Limit, Untouched, Values


def program(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """A program of random lines, and a question."""
    T, n = sizes["T"], sizes["n"]
    terms = np.zeros((T, n), dtype=np.int64)
    for line in terms:
        # a quarter of the lines set a number; some name a variable twice
        for i in rng.integers(n, size=int(rng.integers(4))):
            line[i] += 1
    asked = int(rng.integers(n))
    target = rng.integers(n, size=T)
    if T:
        # what is asked is set near the end, from something, lest nearly all be dead
        last = T - 1 - rng.integers(min(T, 3))
        target[last] = asked
        terms[last, rng.integers(n)] += 1
    return {"target": target, "terms": terms, "asked": asked}


SHAPES = (
    {"T": 12, "n": 3},
    {"T": 15, "n": 4},
    {"T": 20, "n": 3},
    {"T": 40, "n": 5},
    {"T": 8, "n": 4},
    {"T": 3, "n": 2},
    {"T": 1, "n": 1},
    {"T": 0, "n": 2},
)
PROGRAM = r"""
A program has $T$ lines and $n$ variables, numbered from 0. Line $t$ sets the variable
`target[t]` to a sum in which variable $i$ stands `terms[t, i]` times, 0 or more, and
perhaps a number. Its right side is read before its target is set, and may name the
target. In the end one variable, `asked`, is asked for.
"""


def pruned(target, terms, asked):
    """The lines of a program without which the answer would be another.

    target [T], whole numbers; terms [T, n], how often each variable stands on the right
    of each line; asked, a whole number. Returns target [kept] and terms [kept, n] of
    the lines kept.
    """
    needed, kept = {asked}, []
    for t in reversed(range(len(target))):
        if target[t] in needed:
            needed.remove(target[t])
            needed.update(np.flatnonzero(terms[t]))
            kept.append(t)
    order = kept[::-1]
    return target[order], terms[order]


def nothing_named(x: Inputs) -> Inputs:
    """Every line sets a number."""
    return x | {"terms": 0 * x["terms"]}


def all_named(x: Inputs) -> Inputs | None:
    """Every line sets a number but the last, which names all variables."""
    if not len(x["target"]):
        return None
    named = nothing_named(x) | {"asked": int(x["target"][-1])}
    named["terms"][-1] = 1
    return named


def itself_named(x: Inputs, times: int) -> Inputs:
    """Every line names its target, so many times, and nothing else."""
    own = times * np.eye(x["terms"].shape[1], dtype=np.int64)
    return x | {"terms": own[x["target"]]}


PRUNE = Exercise(
    key="16.prune",
    label="ex-prune",
    title="A file that is never read",
    statement=PROGRAM
    + r"""
Leave out all lines that are dead: those whose value the answer does not depend on,
whatever the numbers are. Return the targets and the terms of the lines that are left,
in their order. A program may have no lines, and none may be left.
""",
    reference=pruned,
    returns=("target", "terms"),
    draw=program,
    shapes=SHAPES,
    properties=(
        Values(),
        Untouched(),
        Limit(
            "of lines that set numbers, the last to set what is asked is left",
            here=nothing_named,
        ),
        Limit(
            "if the answer is a sum of all variables, the last to set each is left",
            here=all_named,
        ),
        Limit(
            "if every line adds a number to a variable, all that add to what is asked "
            "are left",
            here=lambda x: itself_named(x, times=1),
        ),
    ),
    mistakes=(
        Mistake(
            "what is overwritten stays needed",
            slip(pruned, ("            needed.remove(target[t])\n", "")),
            "A line sets what is needed. Are the lines that set it before still "
            "needed?",
        ),
        Mistake(
            "a line's own target is lost",
            slip(
                pruned,
                ("            needed.remove(target[t])\n", ""),
                (
                    "terms[t]))\n",
                    "terms[t]))\n            needed.remove(target[t])\n",
                ),
            ),
            "What of a line that names its own target on its right side, such as x <- "
            "x + 1? Which of the two comes first on the way back?",
        ),
        Mistake(
            "what the lines name is forgotten",
            slip(pruned, ("            needed.update(np.flatnonzero(terms[t]))\n", "")),
            "The answer is a sum of other variables. What must be known of those?",
        ),
        Mistake(
            "read forwards",
            slip(pruned, ("reversed(range(len(target)))", "range(len(target))")),
            "In which direction can be known what will be needed?",
        ),
        Mistake(
            "in the order of the walk",
            slip(pruned, ("order = kept[::-1]", "order = kept")),
            "The lines are right. Would the program that you return still run?",
        ),
    ),
    hint="Walk back from the question with the set of what is needed. What does a "
    "line take out of it, what does it put in, and in which order?",
    minutes=20,
    marks=3,
)


def paths(target, terms, asked):
    """In how many ways what each line sets reaches the answer.

    target [T], whole numbers; terms [T, n], how often each variable stands on the right
    of each line; asked, a whole number. Returns whole numbers [T], 0 for a dead line.
    """
    reaches = np.eye(terms.shape[1], dtype=int)[asked]
    found = np.empty(len(target), dtype=int)
    for t in range(len(target))[::-1]:
        found[t] = reaches[target[t]]
        reaches[target[t]] = 0
        reaches += found[t] * terms[t]
    return found


CLEARS = Exercise(
    key="16.paths",
    label="ex-never-clears",
    title="A walk that never clears",
    statement=PROGRAM
    + r"""
A colleague counts in how many ways what each line sets reaches the answer: a line that
stands twice in a sum which is asked for counts 2, and a dead line 0. She walks back
from the question, with a count for each variable. Her test programs set every variable
once, and all pass. Mend it. A program may have no lines.
""",
    reference=paths,
    returns=("paths",),
    draw=program,
    shapes=SHAPES,
    properties=(
        Values(),
        Untouched(),
        Limit(
            "of lines that set numbers, the last to set what is asked counts once",
            here=nothing_named,
        ),
        Limit(
            "if every line doubles a variable, a line that counts has twice the ways "
            "of the next one",
            here=lambda x: itself_named(x, times=2),
        ),
    ),
    mistakes=(
        Mistake(
            "the target keeps its count",
            slip(paths, ("        reaches[target[t]] = 0\n", "")),
            "When the line of a variable is passed on the way back, which lines "
            "before it can still reach the answer through that variable?",
        ),
        Mistake(
            "a line's own target is lost",
            slip(
                paths,
                ("        reaches[target[t]] = 0\n", ""),
                (
                    "        reaches += found[t] * terms[t]\n",
                    "        reaches += found[t] * terms[t]\n"
                    "        reaches[target[t]] = 0\n",
                ),
            ),
            "What of a line that names its own target, such as x <- x + 1? Which of "
            "the two acts comes first on the way back?",
        ),
        Mistake(
            "live or dead",
            slip(paths, ("found[t] * terms[t]", "(found[t] > 0) * (terms[t] > 0)")),
            "This says whether a line counts. In how many ways does x reach x + x?",
        ),
        Mistake(
            "read forwards",
            slip(paths, ("range(len(target))[::-1]", "range(len(target))")),
            "In which direction can be known what reaches the answer?",
        ),
        Mistake(
            "what the lines name is forgotten",
            slip(paths, ("        reaches += found[t] * terms[t]\n", "")),
            "The answer is a sum of other variables. Who has set those?",
        ),
    ),
    begins="the target keeps its count",
    hint="Take a program whose first and third line set the same variable. What does "
    "the walk have to do with a count when it passes the line of its variable?",
    minutes=15,
    marks=2,
)

EXERCISES = (PRUNE, CLEARS)
