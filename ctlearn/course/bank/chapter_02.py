"""Exercises of chapter 2, the trapdoor."""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Causal, Limit, Untouched, Values

BY_TOKEN = ("q", "k", "v")


def counted(q, k, v):
    """Linear attention in which a pair counts the more the longer it is past.

    q and k [T, d_k], v [T, d_v]. Returns o [T, d_v].
    """
    S = R = np.zeros((k.shape[1], v.shape[1]))
    o = np.empty_like(v)
    for t, key in enumerate(k):
        S = S + np.outer(key, v[t])
        R = R + S
        o[t] = R.T @ q[t]
    return o


COUNTED = Exercise(
    key="02.ramp",
    label="ex-ramp-mask",
    title="A mask that counts",
    statement=r"""
Weigh pair $j$ by $t - j + 1$ when token $t$ asks: one for the newest, which is token
$t$'s own, two for the one before it, and so on.

$$o_t = \sum_{j=1}^{t} (t - j + 1) (q_t^\top k_j) v_j$$

Compute it in one pass over the tokens, with as many states of $d_k \times d_v$ as it
needs and no list of the past. Return all answers, $T \times d_v$; none for no tokens.
(Marking looks at the values; that nothing is kept, an instructor sees.)
""",
    reference=counted,
    returns=("o",),
    draw=lambda rng, sizes: draws.picked(draws.tokens(rng, **sizes), *BY_TOKEN),
    shapes=draws.SEQUENCES,
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        Limit(
            "one token alone is answered as by linear attention",
            here=lambda x: {name: a[:1] for name, a in x.items()},
            wanted=lambda x: (x["q"] * x["k"]).sum(axis=1, keepdims=True) * x["v"],
        ),
    ),
    mistakes=(
        Mistake(
            "all count alike",
            slip(counted, ("R = R + S", "R = S")),
            "This is linear attention. What does the second token weigh the first "
            "pair by?",
        ),
        Mistake(
            "one matrix under two names",
            slip(
                counted,
                ("S = S + np.outer(key, v[t])", "S += np.outer(key, v[t])"),
                ("R = R + S", "R += S"),
            ),
            "Look at both states after a single token. Are they two matrices, or one "
            "with two names?",
        ),
        Mistake(
            "the newest counts nothing",
            slip(
                counted,
                ("        R = R + S\n", ""),
                ("        S = S", "        R = R + S\n        S = S"),
            ),
            "By which number is a token's own pair weighed?",
        ),
        Mistake(
            "counted from the start",
            slip(
                counted,
                ("S = S + np.outer(key, v[t])", "S = np.outer((t + 1) * key, v[t])"),
            ),
            "Here the newest pair counts most. Which end does the ramp of the "
            "statement rise towards?",
        ),
        Mistake(
            "counted twice over",
            slip(counted, ("R = R + S", "R = 2 * R + S")),
            "Write down the weights of the first pair as time goes on: do they grow "
            "by one at each token?",
        ),
    ),
    hint="Write the weight as a dot product of a vector that depends on t and one "
    "that depends on j. Or ask by how much all weights grow from one token to the "
    "next.",
    minutes=15,
    marks=2,
)


def normalised(q, k, v):
    """Causal linear attention, each answer divided by the sum of its weights.

    q and k [T, d_k] are features, above zero; v [T, d_v]. Returns o [T, d_v].
    """
    S = np.cumsum(k[:, :, None] * v[:, None], axis=0)
    n = np.cumsum(k, axis=0)
    return np.einsum("tkv,tk->tv", S, q) / (q * n).sum(axis=1)[:, None]


def features(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Positive features and values."""
    T, d_k, d_v = sizes["T"], sizes["d_k"], sizes["d_v"]
    return {
        "q": rng.uniform(0.1, 1, (T, d_k)),
        "k": rng.uniform(0.1, 1, (T, d_k)),
        "v": rng.standard_normal((T, d_v)),
    }


NORMALISED = Exercise(
    key="02.normalised",
    label="ex-leaking-normaliser",
    title="A normaliser that knows too much",
    statement=r"""
This is meant to be causal normalised linear attention on features $q$ and $k$, all
above zero: token $t$ is answered by the mean of the values $v_1, \dots, v_t$, weighed
by $q_t^\top k_j$. It is right about the last token of every sequence that its author
tried. Mend it.

Return all answers, $T \times d_v$; none for no tokens. An answer must not change when
later tokens do, and a single token is answered by its own value.
""",
    reference=normalised,
    returns=("o",),
    draw=features,
    shapes=draws.SEQUENCES,
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        Limit(
            "equal values come back as they are",
            here=lambda x: x | {"v": 0 * x["v"] + 3},
            wanted=lambda x: x["v"],
        ),
    ),
    mistakes=(
        Mistake(
            "the normaliser knows the future",
            slip(normalised, ("np.cumsum(k, axis=0)", "k.sum(axis=0)")),
            "Change the last token only, and look at the first answer.",
        ),
        Mistake(
            "nothing is normalised",
            slip(normalised, (" / (q * n).sum(axis=1)[:, None]", "")),
            "Let all values be the same. What is their mean?",
        ),
        Mistake(
            "the normaliser is a token late",
            slip(
                normalised, ("np.cumsum(k, axis=0)", "np.cumsum(k, axis=0) - k + k[:1]")
            ),
            "Which keys have a weight in the answer to token t?",
        ),
        Mistake(
            "divided by the number of tokens",
            slip(
                normalised,
                ("(q * n).sum(axis=1)[:, None]", "np.arange(1, len(k) + 1)[:, None]"),
            ),
            "The weights are not ones. What do they sum to?",
        ),
        Mistake(
            "the sum knows the future, too",
            slip(
                normalised,
                ("np.cumsum(k, axis=0)", "k.sum(axis=0)"),
                (
                    "np.cumsum(k[:, :, None] * v[:, None], axis=0)",
                    "np.tile(k.T @ v, (len(k), 1, 1))",
                ),
            ),
            "This answers every question from all pairs. Which of them has token 1 "
            "been told?",
        ),
    ),
    begins="the normaliser knows the future",
    hint="Two sums are divided by one another. Over which tokens should each of them "
    "run?",
    minutes=10,
    marks=2,
)

EXERCISES = (COUNTED, NORMALISED)
