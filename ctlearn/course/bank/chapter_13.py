"""Exercises of chapter 13, deep memories."""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Causal, Limit, Unchanged, Untouched, Values

BY_TOKEN = ("q", "k", "v", "beta")


def newton_schulz(G, steps):
    """Steps of Newton and Schulz's iteration with Muon's coefficients.

    G [n, m], not zero; steps, 0 or more. Returns a matrix [n, m].
    """
    X = G / np.linalg.norm(G)
    for _ in range(steps):
        A = X @ X.T
        X = 3.4445 * X + (-4.775 * A + 2.0315 * A @ A) @ X
    return X


SCHULZ = Exercise(
    key="13.newton-schulz",
    label="ex-how-many",
    title="How many steps of the iteration?",
    statement=r"""
Muon pushes the singular values of a step towards one by an iteration that needs
products alone. Divide the matrix $G$ by the root of the sum of its squared entries, and
repeat

$$X' = a X + b (X X^\top) X + c (X X^\top)^2 X$$

with $a = 3.4445$, $b = -4.775$ and $c = 2.0315$. Return $X$ after `steps` steps;
after none it is the matrix as scaled. $G$ may have more rows than columns, or fewer,
and is not zero.
""",
    reference=newton_schulz,
    returns=("X",),
    draw=lambda rng, sizes: {
        "G": rng.standard_normal((sizes["n"], sizes["m"])) * rng.uniform(0.5, 5),
        "steps": sizes["steps"],
    },
    shapes=(
        {"n": 4, "m": 3, "steps": 2},
        {"n": 3, "m": 5, "steps": 1},
        {"n": 4, "m": 4, "steps": 3},
        {"n": 2, "m": 2, "steps": 0},
        {"n": 1, "m": 1, "steps": 1},
    ),
    properties=(
        Values(),
        Untouched(),
        Unchanged("the size of G does not matter", lambda x: x | {"G": 7 * x["G"]}),
        Limit(
            "a single number is a matrix, too",
            here=lambda x: {"G": x["G"][:1, :1], "steps": x["steps"]},
        ),
    ),
    mistakes=(
        Mistake(
            "nothing is scaled",
            slip(newton_schulz, ("G / np.linalg.norm(G)", "G + 0.0")),
            "The coefficients are made for singular values up to one. How large may "
            "those of G be?",
        ),
        Mistake(
            "scaled by the largest singular value",
            slip(newton_schulz, ("np.linalg.norm(G)", "np.linalg.norm(G, 2)")),
            "By which of a matrix's sizes do you divide, and by which does the "
            "statement? They are equal for a single row.",
        ),
        Mistake(
            "the classic iteration",
            slip(
                newton_schulz,
                (
                    "3.4445 * X + (-4.775 * A + 2.0315 * A @ A) @ X",
                    "1.5 * X - 0.5 * A @ X",
                ),
            ),
            "This converges to one, and slowly for what is small. Which coefficients "
            "does the statement have?",
        ),
        Mistake(
            "the last term in the third power",
            slip(newton_schulz, ("2.0315 * A @ A", "2.0315 * A")),
            "How many factors of X has each of the three terms?",
        ),
        Mistake(
            "the square of every entry",
            slip(newton_schulz, ("A @ A)", "A * A)")),
            "Is the square of a matrix that of its entries? For a matrix of one row "
            "it is, and nowhere else.",
        ),
        Mistake(
            "scaled at every step",
            slip(
                newton_schulz,
                ("    for _", "    X = G\n    for _"),
                ("        A = ", "        X = X / np.linalg.norm(X)\n        A = "),
                ("    X = G / np.linalg.norm(G)\n", ""),
                ("    return X", "    return X if steps else X / np.linalg.norm(X)"),
            ),
            "How often is the matrix divided by its size? Take a matrix of one row, "
            "and three steps.",
        ),
        Mistake(
            "b with its sign turned",
            slip(newton_schulz, ("-4.775", "4.775")),
            "Make some steps with a single number in the place of X, one half at "
            "first. Which of the three terms should keep it from growing?",
        ),
        Mistake(
            "the other product",
            slip(newton_schulz, ("X @ X.T", "X.T @ X")),
            "On which side of X does the product stand, and what size must it have "
            "there?",
        ),
    ),
    hint="Try it on a matrix of one row, for which it is an iteration for a single "
    "number, its length; then on a diagonal one, where each entry goes its own way.",
    minutes=10,
    marks=2,
)


def apply_then_update(q, k, v, beta, W_1, W_2, inner_batch):
    """A small network that answers a chunk, and then learns from it.

    q and k [T, d_k], v [T, d_v], beta [T]; the network is tanh(x W_1) W_2, with W_1
    [d_k, d_h] and W_2 [d_h, d_v]; inner_batch tokens make a chunk. Returns o [T, d_v]
    and the new W_1 and W_2.
    """
    o = np.empty_like(v)
    for start in range(0, len(beta), inner_batch):
        c = slice(start, start + inner_batch)
        o[c] = np.tanh(q[c] @ W_1) @ W_2
        x = np.tanh(k[c] @ W_1)
        slope = beta[c, None] * (x @ W_2 - v[c])
        back = slope @ W_2.T * (1 - x**2)
        W_1, W_2 = W_1 - k[c].T @ back, W_2 - x.T @ slope
    return o, W_1, W_2


def network(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Tokens, and a network of two layers."""
    T, d_k, d_h, d_v = (sizes[name] for name in ("T", "d_k", "d_h", "d_v"))
    return draws.tokens(rng, T, d_k, d_v) | {
        "W_1": draws.state(rng, d_k, d_h),
        "W_2": draws.state(rng, d_h, d_v),
        "inner_batch": sizes["inner_batch"],
    }


LEARNS = "        W_1, W_2 = W_1 - k[c].T @ back, W_2 - x.T @ slope\n"
READS = "        o[c] = np.tanh(q[c] @ W_1) @ W_2\n"
FORESIGHT = Exercise(
    key="13.foresight",
    label="ex-foresight",
    title="A memory with foresight",
    statement=r"""
A memory is a small network, $f(x) = \tanh(x W_1)\, W_2$. It reads the tokens in chunks.
From a chunk it learns by one step down the sum of
$\beta_j \tfrac{1}{2} \lVert f(k_j) - v_j \rVert^2$, in both layers, with all slopes
taken at the network as it was before the chunk. A colleague speeds it up: she trains on
the chunk, and then lets the *new* network answer it. Training looks wonderful, and
generation is poor. Mend it.

A chunk has `inner_batch` tokens, the last one perhaps fewer. Its questions are answered
by the network as it was before the chunk. Return all answers, $T \times d_v$, and both
matrices after the last chunk. There may be no tokens.
""",
    reference=apply_then_update,
    returns=("o", "W_1", "W_2"),
    draw=network,
    shapes=(
        {"T": 6, "d_k": 3, "d_h": 4, "d_v": 2, "inner_batch": 3},
        {"T": 5, "d_k": 3, "d_h": 3, "d_v": 3, "inner_batch": 2},
        {"T": 2, "d_k": 2, "d_h": 3, "d_v": 1, "inner_batch": 4},
        {"T": 0, "d_k": 2, "d_h": 3, "d_v": 2, "inner_batch": 2},
    ),
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        Limit(
            "with step sizes of zero nothing is learned",
            here=lambda x: x | {"beta": 0 * x["beta"]},
            wanted=lambda x: (
                np.tanh(x["q"] @ x["W_1"]) @ x["W_2"],
                x["W_1"],
                x["W_2"],
            ),
        ),
    ),
    mistakes=(
        Mistake(
            "answers after it has learned",
            slip(apply_then_update, (READS, ""), (LEARNS, LEARNS + READS)),
            "Change a later token of the chunk. Which answers may change?",
        ),
        Mistake(
            "the first layer's slope at the new second layer",
            slip(
                apply_then_update,
                ("        back = slope @ W_2.T * (1 - x**2)\n", ""),
                (
                    LEARNS,
                    "        W_2 = W_2 - x.T @ slope\n"
                    "        W_1 = W_1 - k[c].T @ (slope @ W_2.T * (1 - x**2))\n",
                ),
            ),
            "Both slopes belong to one network. Which of its layers has moved already "
            "when you take the second?",
        ),
        Mistake(
            "the slope of tanh is left out",
            slip(apply_then_update, (" * (1 - x**2)", "")),
            "How much does a hidden unit move that is saturated?",
        ),
        Mistake(
            "only the last layer learns",
            slip(apply_then_update, ("W_1 - k[c].T @ back", "W_1")),
            "How many layers does the network have?",
        ),
        Mistake(
            "up the slope",
            slip(
                apply_then_update,
                ("(x @ W_2 - v[c])", "(v[c] - x @ W_2)"),
            ),
            "Is the loss on the chunk smaller after the step than before?",
        ),
        Mistake(
            "a mean over the chunk",
            slip(apply_then_update, ("(x @ W_2 - v[c])", "(x @ W_2 - v[c]) / len(x)")),
            "Is a token's part in the step smaller in a chunk of many? Read again what "
            "the step goes down.",
        ),
        Mistake(
            "a step for every token",
            slip(
                apply_then_update,
                ("        x = np.tanh(k[c] @ W_1)\n", ""),
                ("        slope = beta[c, None] * (x @ W_2 - v[c])\n", ""),
                ("        back = slope @ W_2.T * (1 - x**2)\n", ""),
                (
                    LEARNS,
                    "        for rate, a, b in zip(beta[c], k[c], v[c], strict=True):\n"
                    "            x = np.tanh(a @ W_1)\n"
                    "            slope = rate * (x @ W_2 - b)\n"
                    "            back = W_2 @ slope * (1 - x**2)\n"
                    "            W_1 = W_1 - np.outer(a, back)\n"
                    "            W_2 = W_2 - np.outer(x, slope)\n",
                ),
            ),
            "At which network are the slopes of a chunk taken? Tell one pair twice "
            "within one.",
        ),
        Mistake(
            "every token counts alike",
            slip(apply_then_update, ("beta[c, None] * (", "(")),
            "What does a token of step size zero teach?",
        ),
    ),
    begins="answers after it has learned",
    hint="Which network answers a chunk, and at which are its slopes taken? A change "
    "of a later token must leave the earlier answers as they were, bit for bit.",
    minutes=20,
    marks=3,
)

EXERCISES = (SCHULZ, FORESIGHT)
