"""Exercises of chapter 4, interference."""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Limit, Unchanged, Untouched, Values


def without_common(q, k):
    """Queries and keys without what the keys have in common, of length one.

    q [n, d_k], k [N, d_k], at least two keys. Returns q [n, d_k] and k [N, d_k].
    """
    common = k.mean(axis=0)
    q, k = q - common, k - common
    q = q / np.linalg.norm(q, axis=1)[:, None]
    k = k / np.linalg.norm(k, axis=1)[:, None]
    return q, k


def shared(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Unit keys and queries with a direction in common."""
    n, N, d_k = sizes["n"], sizes["N"], sizes["d_k"]
    rows = rng.standard_normal(d_k) + rng.standard_normal((n + N, d_k))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return {"q": rows[:n], "k": rows[n:]}


COMMON = Exercise(
    key="04.common",
    label="ex-common-part",
    title="Take off what all have in common",
    statement=r"""
Keys that share a direction leak into each other. Take off what they have in common:
subtract their mean from every key, and scale it to length one again. Treat the queries
so that a query that was equal to a key is equal to what has become of that key.

Return the queries, $n \times d_k$, and the keys, $N \times d_k$. There are two
different keys at least, and there may be no query. Do not write into what you were
given.
""",
    reference=without_common,
    returns=("q", "k"),
    draw=shared,
    shapes=(
        {"n": 4, "N": 6, "d_k": 3},
        {"n": 3, "N": 3, "d_k": 4},
        {"n": 0, "N": 2, "d_k": 2},
    ),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "a query that is a key stays one", here=lambda x: x | {"q": x["k"].copy()}
        ),
        Unchanged(
            "a vector that is added to all of them does not matter",
            lambda x: {name: a + 0.3 for name, a in x.items()},
        ),
    ),
    mistakes=(
        Mistake(
            "the queries are left alone",
            slip(without_common, ("q - common, k - common", "q, k - common")),
            "Ask for a key that is stored. Through what does the common direction "
            "come back in?",
        ),
        Mistake(
            "the queries' own mean",
            slip(without_common, ("q - common,", "q - q.mean(axis=0),")),
            "Let a query be equal to a key. Is it equal to what has become of the key?",
        ),
        Mistake(
            "lengths are left as they are",
            slip(
                without_common,
                ("    q = q / np.linalg.norm(q, axis=1)[:, None]\n", ""),
                ("    k = k / np.linalg.norm(k, axis=1)[:, None]\n", ""),
            ),
            "How long is a key once a part of it has been taken off?",
        ),
        Mistake(
            "a mean over the channels",
            slip(without_common, ("k.mean(axis=0)", "k.mean(axis=1).mean()")),
            "What keys have in common is a direction. What shape has their mean?",
        ),
        Mistake(
            "the direction is projected out",
            slip(
                without_common,
                (
                    "    q, k = q - common, k - common\n",
                    "    c = common / np.linalg.norm(common)\n"
                    "    q, k = q - np.outer(q @ c, c), k - np.outer(k @ c, c)\n",
                ),
            ),
            "This takes off more than the mean: all that lies along it, also where "
            "keys differ. Is that what is asked?",
        ),
    ),
    hint="The query must have in common with the key it looks for what that key still "
    "has. What was taken off the key?",
    minutes=10,
    marks=2,
)


def recall_error(k, v):
    """The error of recall, as a multiple of that of answering zero.

    k [N, d_k], v [N, d_v]; all pairs are added into one state, and each key is asked
    for. Returns a number.
    """
    missing = k @ (k.T @ v) - v
    return (missing**2).sum() / (v**2).sum()


ERROR = Exercise(
    key="04.error",
    label="ex-thousand-pairs",
    title="A thousand pairs in 64 dimensions",
    statement=r"""
A report adds 1000 random pairs into one state of 64 dimensions, asks for every key, and
finds an error of 0.23, "a quarter of the signal". By the theory it should be almost
sixteen times the signal. Mend the measure.

The error is the sum of the squares of what is missing, over all pairs and channels,
divided by the same sum for a memory that answers zero. There is one pair at least, and
values may have any length.
""",
    reference=recall_error,
    returns=("error",),
    draw=lambda rng, sizes: {
        "k": draws.keys(rng, sizes["N"], sizes["d_k"]),
        "v": rng.standard_normal((sizes["N"], sizes["d_v"])),
    },
    shapes=(
        {"N": 6, "d_k": 4, "d_v": 3},
        {"N": 4, "d_k": 4, "d_v": 4},
        {"N": 1, "d_k": 3, "d_v": 2},
        {"N": 2, "d_k": 1, "d_v": 1},
    ),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "keys of zeros answer zero, and have the error 1",
            here=lambda x: x | {"k": 0 * x["k"]},
            wanted=lambda x: 1.0,
        ),
        Unchanged(
            "the unit in which values are measured does not matter",
            lambda x: x | {"v": 10 * x["v"]},
        ),
    ),
    mistakes=(
        Mistake(
            "a mean over all entries",
            slip(
                recall_error,
                ("(missing**2).sum() / (v**2).sum()", "(missing**2).mean()"),
            ),
            "What does this code give for an answer of zero? An error needs its "
            "baseline beside it.",
        ),
        Mistake(
            "a mean over the pairs",
            slip(recall_error, ("(v**2).sum()", "len(v)")),
            "This is right for values of length one. Measure the values in another "
            "unit.",
        ),
        Mistake(
            "a length for a square",
            slip(
                recall_error,
                (
                    "(missing**2).sum() / (v**2).sum()",
                    "np.linalg.norm(missing) / np.linalg.norm(v)",
                ),
            ),
            "Is the error a sum of squares, or the root of one?",
        ),
        Mistake(
            "the mean of the pairs' errors",
            slip(
                recall_error,
                (
                    "(missing**2).sum() / (v**2).sum()",
                    "((missing**2).sum(axis=1) / (v**2).sum(axis=1)).mean()",
                ),
            ),
            "Here a pair with a short value counts as much as one with a long value. "
            "When is the sum taken, before the division or after?",
        ),
        Mistake(
            "the answers, not what is missing",
            slip(recall_error, ("k @ (k.T @ v) - v", "k @ (k.T @ v)")),
            "What is the error of a memory that answers rightly?",
        ),
    ),
    begins="a mean over all entries",
    hint="What does this code give for an answer of zero?",
    minutes=10,
    marks=2,
)

EXERCISES = (COMMON, ERROR)
