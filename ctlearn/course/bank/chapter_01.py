"""Exercises of chapter 1, two ways to remember."""

import numpy as np

from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Limit, Unchanged, Untouched, Values


def merge(largest_a, weight_a, total_a, largest_b, weight_b, total_b):
    """Two summaries of a streamed softmax as one.

    For each of n queries: largest_a [n], the largest score that one side has seen;
    weight_a [n], the sum of its weights relative to that; total_a [n, d_v], the sum of
    its values under these weights. largest_b, weight_b and total_b are the other's.
    Returns largest [n], weight [n] and total [n, d_v] of both together.
    """
    largest = np.maximum(largest_a, largest_b)
    from_a, from_b = np.exp(largest_a - largest), np.exp(largest_b - largest)
    weight = from_a * weight_a + from_b * weight_b
    total = from_a[:, None] * total_a + from_b[:, None] * total_b
    return largest, weight, total


def summaries(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Summaries of items with scores far from zero; one side may have seen none."""
    n, d_v = sizes["n"], sizes["d_v"]
    level = rng.choice([-900.0, 900.0], (n, 1))
    drawn = {}
    for side in "ab":
        seen = sizes[f"items_{side}"]
        scores = level + 3 * rng.standard_normal((n, seen))
        largest = scores.max(axis=1, initial=-np.inf)
        weights = np.exp(scores - largest[:, None])
        drawn[f"largest_{side}"] = largest
        drawn[f"weight_{side}"] = weights.sum(axis=1)
        drawn[f"total_{side}"] = weights @ rng.standard_normal((seen, d_v))
    return drawn


def sides_exchanged(x: Inputs) -> Inputs:
    """What was the one side's is the other's."""
    other = {"a": "b", "b": "a"}
    return {name: x[name[:-1] + other[name[-1]]] for name in x}


MERGE = Exercise(
    key="01.merge",
    label="ex-merge",
    title="Merge two summaries",
    statement=r"""
Two processors have each streamed half of the items through a softmax. For each of $n$
queries a summary holds the largest score $m$ so far, the sum of the weights
$\exp(s_j - m)$, and the sum of the values under these weights. Merge the two summaries
into one, relative to the larger of the two largest scores, so that `total / weight` is
the mean over all items.

Scores may be so far above zero that their exponentials overflow, or so far below that
these are rounded to zero. Relative to the largest score, neither happens. At most one
of the sides may have seen nothing yet: its largest score is then minus infinity and its
sums are zero.
""",
    reference=merge,
    returns=("largest", "weight", "total"),
    draw=summaries,
    shapes=(
        {"n": 3, "items_a": 4, "items_b": 5, "d_v": 2},
        {"n": 2, "items_a": 1, "items_b": 1, "d_v": 2},
        {"n": 1, "items_a": 3, "items_b": 0, "d_v": 3},
        {"n": 4, "items_a": 0, "items_b": 2, "d_v": 1},
    ),
    properties=(
        Values(),
        Untouched(),
        Unchanged("it does not matter which half is first", sides_exchanged),
    ),
    mistakes=(
        Mistake(
            "nothing is rescaled",
            slip(
                merge,
                ("np.exp(largest_a - largest)", "np.ones_like(largest)"),
                ("np.exp(largest_b - largest)", "np.ones_like(largest)"),
            ),
            "To which score is each of the two sums relative, and to which the sum of "
            "both?",
        ),
        Mistake(
            "one side is taken as it is",
            slip(merge, ("np.exp(largest_b - largest)", "np.ones_like(largest)")),
            "This is right where the second side has seen the larger score. What if "
            "the first has?",
        ),
        Mistake(
            "the values are not rescaled",
            slip(
                merge,
                (
                    "from_a[:, None] * total_a + from_b[:, None] * total_b",
                    "total_a + total_b",
                ),
            ),
            "Both sums of a side are relative to its largest score. Have you brought "
            "both to the new one?",
        ),
        Mistake(
            "the wrong way round",
            slip(
                merge,
                ("np.exp(largest_a - largest)", "np.exp(largest - largest_a)"),
                ("np.exp(largest_b - largest)", "np.exp(largest - largest_b)"),
            ),
            "When a larger score appears, do old weights relative to it grow or "
            "shrink?",
        ),
        Mistake(
            "relative to nothing",
            slip(
                merge,
                ("np.exp(largest_a - largest)", "np.exp(largest_a)"),
                ("np.exp(largest_b - largest)", "np.exp(largest_b)"),
            ),
            "What is the exponential of a score of 800?",
        ),
    ),
    hint="The two sums of a side are relative to that side's largest score. Bring "
    "both sides to the larger one, as you would bring an old sum to a new largest "
    "score.",
    minutes=15,
    marks=2,
)


def streamed(scores, values):
    """The softmax-weighted mean of the values, one item after another.

    scores [n], values [n, d_v], with at least one item. Returns the mean [d_v].
    """
    largest, weight, total = scores[0], 1.0, values[0]
    for s, v in zip(scores[1:], values[1:], strict=True):
        new = max(largest, s)
        weight = np.exp(largest - new) * weight + np.exp(s - new)
        total = np.exp(largest - new) * total + np.exp(s - new) * v
        largest = new
    return total / weight


def items(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Scores far above what an exponential can hold, some far apart, and values."""
    n, d_v = sizes["n"], sizes["d_v"]
    scores = 900 + 2 * rng.standard_normal(n)
    # the first is low, and so are some that follow a high one
    scores[::3] -= sizes.get("apart", 0)
    return {"scores": scores, "values": rng.standard_normal((n, d_v))}


STREAMED = Exercise(
    key="01.streamed",
    label="ex-streaming-bug",
    title="A mean that is sometimes right",
    statement=r"""
A colleague streams a softmax: the mean of the values, weighed by the exponentials of
their scores, item by item and without keeping the items. All of her tests pass. Mend
it.

The scores may be so far above zero, or below, that an exponential cannot hold them, and
as far from each other. Return the mean over all items; the order in which they come
must not matter. Do not write into what you were given. (Marking looks at the values;
that no item is kept, an instructor sees.)
""",
    reference=streamed,
    returns=("mean",),
    draw=items,
    shapes=(
        {"n": 6, "d_v": 2},
        {"n": 3, "d_v": 3},
        {"n": 5, "d_v": 2, "apart": 4000},
        {"n": 2, "d_v": 1},
        {"n": 1, "d_v": 2},
    ),
    properties=(
        Values(),
        Untouched(),
        Unchanged(
            "the order of the items does not matter",
            lambda x: {name: a[::-1] for name, a in x.items()},
        ),
        Unchanged(
            "a number that is added to all scores does not matter",
            lambda x: x | {"scores": x["scores"] - 1800},
        ),
        Limit(
            "equal scores give the plain mean",
            here=lambda x: x | {"scores": 0 * x["scores"]},
            wanted=lambda x: x["values"].mean(axis=0),
        ),
    ),
    mistakes=(
        Mistake(
            "the values are not rescaled",
            slip(
                streamed, ("total = np.exp(largest - new) * total +", "total = total +")
            ),
            "Ask of each of the two sums what it is relative to, after the largest "
            "score has changed. Feed the same items in two orders.",
        ),
        Mistake(
            "the weights are not rescaled",
            slip(
                streamed,
                ("weight = np.exp(largest - new) * weight +", "weight = weight +"),
            ),
            "Two sums are kept. What is each of them relative to, after the largest "
            "score has changed?",
        ),
        Mistake(
            "rescaled too late",
            slip(
                streamed,
                ("        largest = new\n", ""),
                ("        weight =", "        largest = new\n        weight ="),
            ),
            "By which factor do you rescale, if the old largest score is forgotten "
            "before you need it?",
        ),
        Mistake(
            "relative to nothing",
            slip(
                streamed,
                ("new = max(largest, s)", "new = 0.0"),
                (
                    "total = scores[0], 1.0, values[0]",
                    "total = 0.0, np.exp(scores[0]), np.exp(scores[0]) * values[0]",
                ),
            ),
            "What is the exponential of a score of 900?",
        ),
        Mistake(
            "relative to a score that is not the largest",
            slip(streamed, ("new = max(largest, s)", "new = s")),
            "This is right as long as all scores are near each other. What becomes of "
            "a factor, if a score is far above the one that the sums are relative to?",
        ),
        Mistake(
            "the mean of all values",
            slip(
                streamed,
                ("+ np.exp(s - new)\n", "+ np.exp(largest - new)\n"),
                ("np.exp(s - new) * v", "np.exp(largest - new) * v"),
            ),
            "Which item's score decides how much that item counts?",
        ),
    ),
    begins="the values are not rescaled",
    hint="Ask of each of the two sums what it is relative to, after the largest score "
    "has changed.",
    minutes=15,
    marks=2,
)

EXERCISES = (MERGE, STREAMED)
