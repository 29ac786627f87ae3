"""Exercises of chapter 15, hybrids."""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Causal, Limit, Unchanged, Untouched, Values


def far_below(x: Inputs) -> Inputs | None:
    """All exact pairs have scores far below zero."""
    scores = x["K"] @ x["q"]
    turned = x["K"] * np.where(scores > 0, -1, 1)[:, None]
    return x | {"K": 1000 * turned} if len(scores) else None


def nothing_else(x: Inputs) -> Inputs | None:
    """The linear memory is empty, and not all exact pairs are rounded to zero."""
    if not len(x["K"]):
        return None
    side = 1 if (x["K"] @ x["q"]).max() > 0 else -1
    return x | {"K": side * x["K"], "S": 0 * x["S"], "n": 0 * x["n"]}


def answered(q, K, V, S, n):
    """What LoLA answers: one mean over pairs kept exactly and a linear memory.

    q [d_k]; K [m, d_k] and V [m, d_v], the pairs kept; S [d_k, d_v] and n [d_k], the
    sums of the others' features times values, and of their features. Returns o [d_v].
    """
    scores = K @ q
    largest = scores.max(initial=0.0)
    weights = np.exp(scores - largest)
    features = np.maximum(q, 0) + np.exp(np.minimum(q, 0))
    linear = np.exp(-largest) * features
    return (weights @ V + linear @ S) / (weights.sum() + linear @ n)


def hybrid(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """A question, exact pairs, and a linear memory of positive features."""
    m, d_k, d_v = sizes["m"], sizes["d_k"], sizes["d_v"]
    F = rng.uniform(0.2, 1.5, (6, d_k))
    sharp = 40 if "sharp" in sizes else 1
    return {
        "q": sharp * rng.standard_normal(d_k),
        "K": sharp * rng.standard_normal((m, d_k)),
        "V": rng.standard_normal((m, d_v)),
        "S": F.T @ rng.standard_normal((6, d_v)),
        "n": F.sum(axis=0),
    }


LITERAL = Exercise(
    key="15.lola",
    label="ex-literal",
    title="LoLA to the letter",
    statement=r"""
LoLA answers a question $q$ by one mean over two kinds of pairs. The $m$ pairs that are
kept exactly, those of the window and those held, have the weights $\exp(q^\top k_j)$.
All others are in a linear memory, $S = \sum_j \phi(k_j) v_j^\top$ and
$n = \sum_j \phi(k_j)$, and have the weights $\phi(q)^\top \phi(k_j)$, with
$\phi(x) = \mathrm{elu}(x) + 1$, that is $x + 1$ above zero and $\exp(x)$ below.

$$
o = \frac{\sum_j \exp(q^\top k_j) v_j + S^\top \phi(q)}
{\sum_j \exp(q^\top k_j) + n^\top \phi(q)}
$$

Return $o$. There may be no pair that is kept exactly, or none in the linear memory, but
there is one somewhere. The scores may be so large that their exponentials overflow, or,
beside a linear memory, so far below zero that they vanish, and the answer must be
numbers all the same.
""",
    reference=answered,
    returns=("o",),
    draw=hybrid,
    shapes=(
        {"m": 4, "d_k": 3, "d_v": 2},
        {"m": 3, "d_k": 4, "d_v": 4},
        {"m": 5, "d_k": 3, "d_v": 2, "sharp": 1},
        {"m": 0, "d_k": 2, "d_v": 3},
    ),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "an empty linear memory leaves softmax attention",
            here=nothing_else,
        ),
        Limit(
            "exact pairs with scores far below zero leave the linear memory alone",
            here=far_below,
        ),
        Unchanged(
            "the order of the exact pairs does not matter",
            lambda x: x | {"K": x["K"][::-1], "V": x["V"][::-1]},
        ),
    ),
    mistakes=(
        Mistake(
            "relative to nothing",
            slip(answered, ("scores.max(initial=0.0)", "0.0")),
            "What is the exponential of a score of 1000? A factor that all weights "
            "have in common may be chosen freely.",
        ),
        Mistake(
            "the linear part is not rescaled",
            slip(answered, ("np.exp(-largest) * features", "features")),
            "You have divided some of the weights by a number. Have you divided all "
            "of them by it?",
        ),
        Mistake(
            "two means, added",
            slip(
                answered,
                (
                    "(weights @ V + linear @ S) / (weights.sum() + linear @ n)",
                    "weights @ V / weights.sum() + linear @ S / (linear @ n)",
                ),
            ),
            "Let all values be 1. What is a mean of ones?",
        ),
        Mistake(
            "the normaliser of the exact pairs alone",
            slip(answered, ("weights.sum() + linear @ n", "weights.sum()")),
            "Which weights does the sum above the line have, and which the one below "
            "it?",
        ),
        Mistake(
            "no features",
            slip(answered, ("np.maximum(q, 0) + np.exp(np.minimum(q, 0))", "q")),
            "What was written to the linear memory were features of keys. What must a "
            "question be turned into?",
        ),
    ),
    hint="It is one mean. What do you divide all weights by, so that the largest of "
    "them is one, and which weights are all?",
    minutes=20,
    marks=3,
)


def surprise(k, v, beta):
    """How wrong a delta rule's memory is about each pair, when the pair arrives.

    k [T, d_k], v [T, d_v], beta [T]; the memory is zero at first. Returns the squared
    errors, [T].
    """
    S = np.zeros((k.shape[1], v.shape[1]))
    errors = np.empty(len(k))
    for t, key in enumerate(k):
        missing = v[t] - S.T @ key
        errors[t] = missing @ missing
        S = S + beta[t] * np.outer(key, missing)
    return errors


AFTER = (
    ("        errors[t] = missing @ missing\n", ""),
    (
        "np.outer(key, missing)\n",
        "np.outer(key, missing)\n"
        "        missing = v[t] - S.T @ key\n"
        "        errors[t] = missing @ missing\n",
    ),
)
SURPRISE = Exercise(
    key="15.surprise",
    label="ex-bug-early-write",
    title="The memory that remembers twice",
    statement=r"""
A hybrid holds the pairs that surprise its memory most, and writes every pair to the
memory by the delta rule as it arrives. A colleague's version holds the wrong ones. Mend
the measure of surprise.

The surprise of a pair is the squared error $\lVert S^\top k_t - v_t \rVert^2$ of the
memory $S$, $d_k \times d_v$, that has been told the pairs before it and not yet this
one. Then the pair is written with strength $\beta_t$, whether it surprises or not. The
memory is zero at first. Return the surprise of all pairs; there may be none.
""",
    reference=surprise,
    returns=("errors",),
    draw=lambda rng, sizes: draws.picked(draws.tokens(rng, **sizes), "k", "v", "beta"),
    # of many pairs, some surprise little
    shapes=(*draws.SEQUENCES, {"T": 25, "d_k": 5, "d_v": 1}),
    properties=(
        Values(),
        Untouched(),
        Causal(("k", "v", "beta"), output="errors"),
        Limit(
            "a memory that nothing is written to is surprised by every value in full",
            here=lambda x: x | {"beta": 0 * x["beta"]},
            wanted=lambda x: (x["v"] ** 2).sum(axis=1),
        ),
    ),
    mistakes=(
        Mistake(
            "judged after it was written",
            slip(surprise, *AFTER),
            "What is a pair's recall error just after it was written with strength 1?",
        ),
        Mistake(
            "judged in the end",
            slip(
                surprise,
                ("        errors[t] = missing @ missing\n", ""),
                ("return errors", "return ((k @ S - v) ** 2).sum(axis=1)"),
            ),
            "Which pairs has the memory been told, when a pair is judged?",
        ),
        Mistake(
            "a length for a square",
            slip(surprise, ("missing @ missing", "np.linalg.norm(missing)")),
            "Is the surprise a length, or the square of one?",
        ),
        Mistake(
            "the size of the value",
            slip(surprise, ("missing @ missing", "v[t] @ v[t]")),
            "Does a pair surprise that is told a second time?",
        ),
        Mistake(
            "the values are added",
            slip(surprise, ("np.outer(key, missing)", "np.outer(key, v[t])")),
            "What does the delta rule write: the value, or what it got wrong?",
        ),
    ),
    begins="judged after it was written",
    hint="An error must be taken by a memory that has not been written the pair. Try "
    "it with full strength.",
    minutes=10,
    marks=2,
)

EXERCISES = (LITERAL, SURPRISE)
