"""Exercises of chapter 3, three plans."""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import (
    Causal,
    Limit,
    PassesState,
    Unchanged,
    Untouched,
    Values,
)

BY_TOKEN = ("q", "k", "v")


def two_passes(q, k, v, chunk_size):
    """Linear attention in chunks: first all states, then all answers.

    q and k [T, d_k], v [T, d_v]; chunk_size C divides T. Returns the state before each
    of the N = T / C chunks, before [N, d_k, d_v], and o [T, d_v].
    """
    Q, K, V = (x.reshape(-1, chunk_size, x.shape[1]) for x in (q, k, v))
    across = K.swapaxes(1, 2)
    written = across @ V
    before = np.cumsum(written, axis=0) - written
    o = Q @ before + np.tril(Q @ across) @ V
    return before, o.reshape(v.shape)


def whole_chunks(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Tokens that fill their chunks."""
    drawn = draws.in_chunks(draws.tokens, rng, sizes)
    return draws.picked(drawn, *BY_TOKEN, "chunk_size")


TWO_PASSES = Exercise(
    key="03.two-passes",
    label="ex-two-level",
    title="Chunks of chunks",
    statement=r"""
Compute linear attention in chunks of `chunk_size` tokens, in two passes. The first
makes the state before every chunk, as a stack of $N = T / C$ matrices $d_k \times d_v$;
the state before the first chunk is zero. The second makes all answers, each chunk by
itself from its own state: $o_t$ is the sum of $(q_t^\top k_j) v_j$ over all $j \le t$.

Return the stack and the answers, $T \times d_v$. The chunk size divides $T$. No loop is
needed: `K.reshape(T // C, C, d)` is a stack of chunks.
""",
    reference=two_passes,
    returns=("before", "o"),
    draw=whole_chunks,
    shapes=(
        {"T": 6, "d_k": 4, "d_v": 2, "chunk_size": 3},
        {"T": 8, "d_k": 3, "d_v": 3, "chunk_size": 2},
        {"T": 3, "d_k": 2, "d_v": 3, "chunk_size": 3},
        {"T": 4, "d_k": 2, "d_v": 1, "chunk_size": 1},
        {"T": 1, "d_k": 1, "d_v": 2, "chunk_size": 1},
    ),
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        Limit(
            "one chunk starts from nothing",
            here=lambda x: x | {"chunk_size": len(x["k"])},
        ),
    ),
    mistakes=(
        Mistake(
            "a chunk's own pairs are in its state",
            slip(two_passes, (" - written", "")),
            "Each chunk starts from the sum before it. What is the state before the "
            "first?",
        ),
        Mistake(
            "the states are not summed",
            slip(
                two_passes,
                (
                    "np.cumsum(written, axis=0) - written",
                    "np.concatenate([0 * written[:1], written[:-1]])",
                ),
            ),
            "What does the third chunk know of the first?",
        ),
        Mistake(
            "one state in every place",
            slip(
                two_passes,
                (
                    "np.cumsum(written, axis=0) - written",
                    "np.tile(written.sum(axis=0), (len(written), 1, 1))",
                ),
            ),
            "Every entry of your stack is the last state. Was each entry a matrix of "
            "its own when it was put there, or is it one that went on changing?",
        ),
        Mistake(
            "no mask inside a chunk",
            slip(two_passes, ("np.tril(Q @ across)", "(Q @ across)")),
            "Change the last token of a chunk, and look at the answer to its first.",
        ),
        Mistake(
            "a token's own pair is left out",
            slip(two_passes, ("np.tril(Q @ across)", "np.tril(Q @ across, -1)")),
            "Is a token's own pair in its answer? Look at the diagonal.",
        ),
        Mistake(
            "the past is forgotten",
            slip(two_passes, ("Q @ before + ", "")),
            "Your first chunk is right. From what do the others start?",
        ),
        Mistake(
            "tokens are dealt out in turn",
            slip(
                two_passes,
                (
                    "x.reshape(-1, chunk_size, x.shape[1])",
                    "x.reshape(chunk_size, -1, x.shape[1]).swapaxes(0, 1)",
                ),
            ),
            "Which tokens are in your first chunk? The first C, or every N-th?",
        ),
    ),
    hint="A running sum adds up what the chunks write. Does it hold, at a chunk, what "
    "was written before that chunk, or what the chunk writes as well?",
    minutes=20,
    marks=3,
)


def retention(q, k, v, gamma, S, chunk_size):
    """Retention, chunk_size tokens at a time.

    q and k [T, d_k], v [T, d_v], gamma a number in (0, 1), S [d_k, d_v] the state
    before the first token. Returns o [T, d_v] and the state after the last, [d_k, d_v].
    """
    o = np.empty_like(v)
    for start in range(0, len(v), chunk_size):
        c = slice(start, start + chunk_size)
        i = np.arange(len(v[c]))
        D = np.tril(gamma ** abs(i[:, None] - i))
        o[c] = gamma ** (i + 1)[:, None] * (q[c] @ S) + (q[c] @ k[c].T * D) @ v[c]
        late = gamma ** i[::-1, None]
        S = gamma ** len(i) * S + (late * k[c]).T @ v[c]
    return o, S


def fading(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Tokens, a decay that may be so strong that its powers are rounded to zero."""
    own = {name: n for name, n in sizes.items() if name != "strong"}
    drawn = draws.in_chunks(draws.sequence, rng, own)
    drawn["gamma"] = 1e-90 if "strong" in sizes else rng.uniform(0.5, 0.95)
    return draws.picked(drawn, *BY_TOKEN, "gamma", "S", "chunk_size")


RATIO = (
    ("        D = np", "        powers = gamma ** (i + 1)\n        D = np"),
    ("gamma ** abs(i[:, None] - i)", "powers[:, None] / powers[None, :]"),
)
NOMINAL = (
    ("i[::-1, None]", "(chunk_size - 1 - i)[:, None]"),
    ("gamma ** len(i)", "gamma**chunk_size"),
)
RETENTION = Exercise(
    key="03.retention",
    label="ex-short-chunk",
    title="Retention in a hurry",
    statement=r"""
This plan for retention passed its author's tests, which ran 128 tokens in chunks of 32
and compared all outputs. It has two faults. Mend both.

Retention keeps a share $\gamma$ of the state at every token:
$S_t = \gamma S_{t-1} + k_t v_t^\top$ and $o_t = S_t^\top q_t$. It starts from the state
that is handed in. The number of tokens need not be a multiple of the chunk size, and
may be 0; the decay may be so strong that its powers are rounded to zero, and all
results must be numbers. Return all answers and the last state. Do not write into what
you were given.
""",
    reference=retention,
    returns=("o", "S"),
    draw=fading,
    shapes=(
        *draws.IN_CHUNKS,
        {"T": 9, "d_k": 2, "d_v": 2, "chunk_size": 6, "strong": 1},
    ),
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        PassesState(BY_TOKEN),
        Unchanged(
            "the size of a chunk changes nothing",
            lambda x: x | {"chunk_size": x["chunk_size"] + 1},
        ),
    ),
    mistakes=(
        Mistake(
            "both faults",
            slip(retention, *RATIO, *NOMINAL),
            "One fault needs a length that the tests do not have, and shows in the "
            "state alone. The other needs a decay so strong that a power of it is "
            "rounded to zero.",
        ),
        Mistake(
            "a ratio of powers",
            slip(retention, *RATIO),
            "The state after a short chunk is right now. What is the ratio of two "
            "powers that have both been rounded to zero?",
        ),
        Mistake(
            "the nominal end of the chunk",
            slip(retention, *NOMINAL),
            "The mask is right now. How many tokens has the last chunk, and by how "
            "much has the state faded after them?",
        ),
        Mistake(
            "the writes do not fade on the way out",
            slip(retention, ("(late * k[c]).T", "k[c].T")),
            "How much is left of the first token's write when the chunk is over?",
        ),
        Mistake(
            "the state is read a step too fresh",
            slip(retention, ("gamma ** (i + 1)[:, None]", "gamma ** i[:, None]")),
            "How often has the state faded when the first token of a chunk reads it?",
        ),
    ),
    begins="both faults",
    hint="Try a length that is no multiple of the chunk, and compare states. Then try "
    "a decay whose powers are rounded to zero.",
    minutes=20,
    marks=3,
)

EXERCISES = (TWO_PASSES, RETENTION)
