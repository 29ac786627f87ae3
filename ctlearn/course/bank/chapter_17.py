"""Exercises of chapter 17, the design space."""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Limit, Unchanged, Untouched, Values


def steps_seen(before, after, decay):
    """How many writes a token must have made, at least, seen from outside.

    before and after [d_k, d_v]: the answers to the queries along the axes, before a
    token and after it; decay, what the token has kept of everything. Returns a number.
    """
    return np.linalg.matrix_rank(after - decay * before, tol=1e-9)


def weak(x: Inputs) -> Inputs:
    """What was written is small along every direction, and no rounding."""
    kept = x["decay"] * x["before"]
    left, size, right = np.linalg.svd(x["after"] - kept, full_matrices=False)
    return x | {"after": kept + left * (1e-7 * (size > 1e-9)) @ right}


def token(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Answers before a token of so many writes, and after it."""
    d_k, d_v, n = sizes["d_k"], sizes["d_v"], sizes["products"]
    before, decay = draws.state(rng, d_k, d_v), rng.uniform(0.3, 0.9)
    written = rng.standard_normal((n, d_k)).T @ rng.standard_normal((n, d_v))
    return {"before": before, "after": decay * before + written, "decay": decay}


EIGHTH = Exercise(
    key="17.eighth-question",
    label="ex-eighth-question",
    title="An eighth question",
    statement=r"""
Tell a memory that makes several writes at a token from one that makes one, from
outside. It has been asked with the query along every axis, once before a token and once
after it, so that what it said are two matrices, $d_k \times d_v$, whose rows are
answers. The token has kept the share `decay` of everything, and then added a number of
outer products, each of a key and a row of values of its own.

Return how many writes there must have been at least, a whole number. A token that wrote
nothing has made 0. What is below $10^{-9}$ is rounding.
""",
    reference=steps_seen,
    returns=("writes",),
    draw=token,
    shapes=(
        {"d_k": 4, "d_v": 5, "products": 1},
        {"d_k": 4, "d_v": 4, "products": 2},
        {"d_k": 5, "d_v": 3, "products": 3},
        {"d_k": 4, "d_v": 3, "products": 0},
        {"d_k": 2, "d_v": 3, "products": 4},
    ),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "a token that only fades has written nothing",
            here=lambda x: x | {"after": x["decay"] * x["before"]},
            wanted=lambda x: 0,
        ),
        Limit("a weak write is one", here=weak),
        Unchanged(
            "the size of the values does not matter",
            lambda x: x | {"before": 5 * x["before"], "after": 5 * x["after"]},
        ),
    ),
    mistakes=(
        Mistake(
            "the decay is not taken off",
            slip(steps_seen, ("after - decay * before", "after - before")),
            "By how much do the answers change when a token writes nothing and fades?",
        ),
        Mistake(
            "the answers that have changed are counted",
            slip(
                steps_seen,
                (
                    "np.linalg.matrix_rank(after - decay * before, tol=1e-9)",
                    "(abs(after - decay * before) > 1e-9).any(axis=1).sum()",
                ),
            ),
            "One write changes every answer. Along how many value vectors does it "
            "change them?",
        ),
        Mistake(
            "one or none",
            slip(
                steps_seen,
                (
                    "np.linalg.matrix_rank(after - decay * before, tol=1e-9)",
                    "int(abs(after - decay * before).max() > 1e-9)",
                ),
            ),
            "This says whether there was a write. How would two differ from one?",
        ),
    ),
    hint="An outer product changes all answers along one value vector. What is it "
    "called, how many such products a matrix needs?",
    minutes=10,
    marks=2,
)


def advantage(hers, ours, settings):
    """By how much one memory is better than another on each job, both at their best.

    hers and ours [jobs, m], errors at each of the settings [m]. Returns [jobs], above 0
    where hers is better.
    """
    best = hers.min(axis=1), ours.min(axis=1)
    return best[1] - best[0]


def contest(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Errors of two memories; one of the settings is 1."""
    jobs, m = sizes["jobs"], sizes["m"]
    settings = np.sort(rng.uniform(0.1, 2, m))
    settings[rng.integers(m)] = 1.0
    errors = {name: rng.uniform(0, 1, (jobs, m)) for name in ("hers", "ours")}
    return errors | {"settings": settings}


ALWAYS = Exercise(
    key="17.fair",
    label="ex-always-wins",
    title="A mechanism that always wins",
    statement=r"""
A colleague has tried her memory and the usual one at several settings on several jobs,
and compares. Hers is ahead everywhere. But she takes her best setting for each job, and
the usual one at its usual setting, 1. Make the comparison fair: both memories have the
best setting for each job.

Return for each job by how much the error of hers is lower than that of ours, a negative
number where it is higher.
""",
    reference=advantage,
    returns=("advantage",),
    draw=contest,
    shapes=(
        {"jobs": 4, "m": 5},
        {"jobs": 3, "m": 3},
        {"jobs": 1, "m": 2},
        {"jobs": 2, "m": 1},
    ),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "a memory is not better than itself",
            here=lambda x: x | {"ours": x["hers"].copy()},
            wanted=lambda x: np.zeros(len(x["hers"])),
        ),
        Unchanged(
            "the order of the settings does not matter",
            lambda x: {name: a[..., ::-1] for name, a in x.items()},
        ),
    ),
    mistakes=(
        Mistake(
            "ours at the usual setting",
            slip(
                advantage,
                ("ours.min(axis=1)", "ours[:, abs(settings - 1).argmin()]"),
            ),
            "Which of the two had a number chosen for each job? Compare a memory with "
            "itself.",
        ),
        Mistake(
            "one setting for all jobs",
            slip(
                advantage,
                (
                    "hers.min(axis=1), ours.min(axis=1)",
                    "hers[:, hers.mean(axis=0).argmin()], ours[:, "
                    "ours.mean(axis=0).argmin()]",
                ),
            ),
            "This is fair, and another question. Is the setting chosen for all jobs "
            "together, or for each?",
        ),
        Mistake(
            "setting against setting",
            slip(
                advantage,
                ("return best[1] - best[0]", "return (ours - hers).mean(axis=1)"),
            ),
            "The two need not have their best at the same setting. What is compared?",
        ),
        Mistake(
            "sign",
            slip(advantage, ("best[1] - best[0]", "best[0] - best[1]")),
            "The numbers are errors. Is hers better where it is larger?",
        ),
        Mistake(
            "the best difference",
            slip(
                advantage,
                ("return best[1] - best[0]", "return (ours - hers).max(axis=1)"),
            ),
            "Here the setting is chosen at which hers looks best. Choose for each "
            "memory by itself.",
        ),
    ),
    begins="ours at the usual setting",
    hint="Give the baseline what the favourite has had: how many numbers has each "
    "been allowed to choose?",
    minutes=10,
    marks=2,
)

EXERCISES = (EIGHTH, ALWAYS)
