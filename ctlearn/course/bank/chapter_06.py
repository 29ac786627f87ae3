"""Exercises of chapter 6, the state as a tiny model."""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Causal, Limit, Unchanged, Untouched, Values


def context(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Pairs, and a matrix to start from."""
    drawn = draws.picked(draws.sequence(rng, **sizes), "k", "v", "S")
    return {"k": drawn["k"], "v": drawn["v"], "W": drawn["S"]}


def one_step(k, v, W, eta):
    """One step of gradient descent on half the squared error of all pairs.

    k [T, d_k], v [T, d_v], W [d_k, d_v] to start from, eta the step size. Returns a
    new matrix [d_k, d_v].
    """
    return W - eta * k.T @ (k @ W - v)


STEP = Exercise(
    key="06.one-step",
    title="One step, with the half",
    statement=r"""
The loss of a matrix $W$, $d_k \times d_v$, on a context of $T$ pairs is

$$\mathcal{L}(W) = \tfrac{1}{2} \sum_{j=1}^{T} \lVert W^\top k_j - v_j \rVert^2$$

Start at the $W$ that is handed in, go one step of size $\eta$ against the slope there,
and return where that leads. All errors are those of the start; no pair is learned
before another. With no pairs, $T = 0$, there is no slope. Do not write into what you
were given.
""",
    reference=one_step,
    returns=("W",),
    draw=lambda rng, sizes: context(rng, sizes) | {"eta": rng.uniform(0.1, 1.5)},
    shapes=draws.SEQUENCES,
    properties=(
        Values(),
        Untouched(),
        Limit(
            "from zero with a step of 1 it is linear attention's state",
            here=lambda x: x | {"W": 0 * x["W"], "eta": 1.0},
            wanted=lambda x: x["k"].T @ x["v"],
        ),
        Limit(
            "a start that answers rightly stays",
            here=lambda x: x | {"v": x["k"] @ x["W"]},
            wanted=lambda x: x["W"],
        ),
        Unchanged(
            "the order of the pairs does not matter",
            lambda x: x | {"k": x["k"][::-1], "v": x["v"][::-1]},
        ),
    ),
    mistakes=(
        Mistake(
            "a step twice as long",
            slip(one_step, ("eta *", "2 * eta *")),
            "Which constant stands in front of the loss, and what becomes of it in "
            "the slope?",
        ),
        Mistake(
            "half a step",
            slip(one_step, ("eta *", "eta / 2 *")),
            "The half belongs to the loss. Is there one left in the slope?",
        ),
        Mistake(
            "a mean over the pairs",
            slip(one_step, ("(k @ W - v)", "(k @ W - v) / max(len(k), 1)")),
            "Is the loss a sum over the pairs, or a mean? Tell every pair twice.",
        ),
        Mistake(
            "up the slope",
            slip(one_step, ("W - eta", "W + eta")),
            "Is the loss lower after the step than before?",
        ),
        Mistake(
            "the start's errors are forgotten",
            slip(one_step, ("(k @ W - v)", "-v")),
            "This is right from zero. What does a start that answers rightly still "
            "have to learn?",
        ),
        Mistake(
            "pair by pair",
            slip(
                one_step,
                (
                    "    return W - eta * k.T @ (k @ W - v)",
                    "    for key, value in zip(k, v, strict=True):\n"
                    "        W = W - eta * np.outer(key, W.T @ key - value)\n"
                    "    return W",
                ),
            ),
            "This takes each slope where the last step has led, which is the next "
            "chapter's rule. At which matrix are the slopes of one step taken?",
        ),
    ),
    hint="Each pair adds its key times its error to the slope. What is the error of a "
    "pair at the start?",
    minutes=10,
    marks=2,
)


def ask_from(q, k, v, beta, W):
    """Answers of a model that starts from W and has learned the pairs so far.

    q and k [T, d_k], v [T, d_v], beta [T], W [d_k, d_v]. Returns o [T, d_v].
    """
    return q @ W + np.tril(q @ k.T) @ (beta[:, None] * (v - k @ W))


BY_TOKEN = ("q", "k", "v", "beta")


def lessons(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Tokens, and a matrix to start from."""
    drawn = draws.sequence(rng, **sizes)
    return draws.picked(drawn, *BY_TOKEN) | {"W": drawn["S"]}


START = Exercise(
    key="06.start",
    label="ex-learned-start",
    title="What a start is worth",
    statement=r"""
A model starts from a matrix $W_0$, $d_k \times d_v$, that was learned beforehand, and
makes one step against the slope of half its squared error on the pairs that it has been
told, all slopes at $W_0$. Pair $j$ counts with the step size $\beta_j$. Token $t$ is
asked when pairs $1$ to $t$ have been told, its own among them:

$$o_t = W_0^\top q_t + \sum_{j=1}^{t} \beta_j (k_j^\top q_t) (v_j - W_0^\top k_j)$$

Return the answers to all $T$ questions, $T \times d_v$; none for no tokens. Do not
write into what you were given.
""",
    reference=ask_from,
    returns=("o",),
    draw=lessons,
    shapes=draws.SEQUENCES,
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        Limit(
            "without steps it is what the start says by itself",
            here=lambda x: x | {"beta": 0 * x["beta"]},
            wanted=lambda x: x["q"] @ x["W"],
        ),
        Limit(
            "a start that knows all pairs is not changed",
            here=lambda x: x | {"v": x["k"] @ x["W"]},
            wanted=lambda x: x["q"] @ x["W"],
        ),
    ),
    mistakes=(
        Mistake(
            "the values in the place of the errors",
            slip(ask_from, ("(v - k @ W)", "v")),
            "What does a start that already knows a pair have to learn from it?",
        ),
        Mistake(
            "the errors of what was learned so far",
            slip(
                ask_from,
                (
                    "return q @ W + np.tril(q @ k.T) @ (beta[:, None] * (v - k @ W))",
                    "o = np.empty_like(v)\n"
                    "    for t in range(len(beta)):\n"
                    "        W = W + beta[t] * np.outer(k[t], v[t] - W.T @ k[t])\n"
                    "        o[t] = W.T @ q[t]\n"
                    "    return o",
                ),
            ),
            "This compares each pair with what the pairs before it have left. At which "
            "matrix does the statement take all slopes?",
        ),
        Mistake(
            "what the start says by itself is left out",
            slip(ask_from, ("q @ W + ", "")),
            "What is answered when every step size is zero?",
        ),
        Mistake(
            "the future is told as well",
            slip(ask_from, ("np.tril(q @ k.T)", "(q @ k.T)")),
            "Change the last pair, and look at the first answer.",
        ),
        Mistake(
            "a token's own pair is left out",
            slip(ask_from, ("np.tril(q @ k.T)", "np.tril(q @ k.T, -1)")),
            "Which pairs have been told when token t is asked? Look at the sum's "
            "bound.",
        ),
        Mistake(
            "the question's step size",
            slip(
                ask_from,
                (
                    "np.tril(q @ k.T) @ (beta[:, None] * (v - k @ W))",
                    "beta[:, None] * (np.tril(q @ k.T) @ (v - k @ W))",
                ),
            ),
            "Does a step size belong to the pair that is learned, or to the one who "
            "asks?",
        ),
    ),
    hint="Seen from the start, what is left to be learned of a pair? It is linear "
    "attention to that.",
    minutes=15,
    marks=2,
)


def kernel_regression(q, k, v, h):
    """The mean of the values, weighed by how near each key is to the question.

    q [n, d_k], k [T, d_k], v [T, d_v], h the width, above 0. Returns answers [n, d_v].
    """
    squares = ((q[:, None] - k) ** 2).sum(axis=2)
    scores = -squares / (2 * h**2)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ v / weights.sum(axis=1, keepdims=True)


def questions(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Pairs whose keys differ in length, and questions, perhaps far from all keys.

    There the width is such that several keys count, though every weight is below what
    a number can hold.
    """
    n, T, d_k, d_v = (sizes[name] for name in ("n", "T", "d_k", "d_v"))
    far = sizes.get("far", 0)
    width = far / 40 if far else rng.uniform(0.5, 2)
    return {
        "q": far + rng.standard_normal((n, d_k)),
        "k": rng.standard_normal((T, d_k)),
        "v": rng.standard_normal((T, d_v)),
        "h": 1e-3 if "narrow" in sizes else width,
    }


REGRESSION = Exercise(
    key="06.kernel-regression",
    title="A mean over neighbours",
    statement=r"""
Answer questions by kernel regression with a Gaussian of width $h$,

$$
\hat{f}(q) = \frac{\sum_j \kappa(k_j, q) v_j}{\sum_j \kappa(k_j, q)}, \qquad
\kappa(k, q) = \exp\left(-\frac{\lVert q - k \rVert^2}{2 h^2}\right)
$$

for $n$ questions, perhaps none, and $T$ pairs, at least one. Keys and questions have
any length. The width may be so small, or a question so far from all keys, that every
$\kappa$ is rounded to zero. The answer must be right all the same: it is what the
formula gives without rounding.
""",
    reference=kernel_regression,
    returns=("answers",),
    draw=questions,
    shapes=(
        {"n": 4, "T": 6, "d_k": 3, "d_v": 2},
        {"n": 3, "T": 3, "d_k": 2, "d_v": 2, "narrow": 1},
        {"n": 2, "T": 4, "d_k": 2, "d_v": 1, "far": 1600},
        {"n": 2, "T": 1, "d_k": 2, "d_v": 3},
        {"n": 0, "T": 3, "d_k": 1, "d_v": 1},
    ),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "a very narrow kernel answers with the nearest pair",
            here=lambda x: x | {"h": 1e-3},
        ),
        Limit(
            "a very wide kernel answers with the mean of all values",
            here=lambda x: x | {"h": 1e9},
            wanted=lambda x: np.tile(x["v"].mean(axis=0), (len(x["q"]), 1)),
        ),
        Unchanged(
            "the unit in which lengths are measured does not matter",
            lambda x: x | {name: 1e-4 * x[name] for name in ("q", "k", "h")},
        ),
        Unchanged(
            "the order of the pairs does not matter",
            lambda x: x | {"k": x["k"][::-1], "v": x["v"][::-1]},
        ),
    ),
    mistakes=(
        Mistake(
            "the dot product of attention",
            slip(
                kernel_regression,
                ("-squares / (2 * h**2)", "q @ k.T / h**2"),
                ("    squares = ((q[:, None] - k) ** 2).sum(axis=2)\n", ""),
            ),
            "This is softmax attention, and right for keys of one length. Of two keys "
            "that are equally near, which one does it prefer?",
        ),
        Mistake(
            "the 2 is missing",
            slip(kernel_regression, ("(2 * h**2)", "h**2")),
            "Compare your exponent with the one in the statement, factor by factor.",
        ),
        Mistake(
            "the width is not squared",
            slip(kernel_regression, ("h**2", "h")),
            "If all lengths are measured in another unit, the width is, too. Does "
            "your answer stay?",
        ),
        Mistake(
            "the distance is not squared",
            slip(kernel_regression, ("-squares /", "-np.sqrt(squares) /")),
            "How does the exponent of a Gaussian fall with the distance?",
        ),
        Mistake(
            "weights that do not sum to one",
            slip(kernel_regression, (" / weights.sum(axis=1, keepdims=True)", "")),
            "Let all values be 1. What is a mean of ones?",
        ),
        Mistake(
            "weights rounded to zero",
            slip(
                kernel_regression,
                ("scores - scores.max(axis=1, keepdims=True)", "scores"),
            ),
            "What is zero divided by zero? A factor that all weights of a question "
            "have in common may be chosen freely.",
        ),
        Mistake(
            "the nearest, where all are rounded to zero",
            slip(
                kernel_regression,
                (
                    "np.exp(scores - scores.max(axis=1, keepdims=True))",
                    "np.exp(scores)\n"
                    "    lost = weights.sum(axis=1) == 0\n"
                    "    nearest = np.eye(len(k))[squares.argmin(axis=1)]\n"
                    "    weights[lost] = nearest[lost]",
                ),
            ),
            "This is right for a narrow kernel. Of a question that is far from all "
            "keys, seen through a wide one, is one key so much nearer than the next?",
        ),
    ),
    hint="The mean stays the same if all weights of a question are multiplied by one "
    "number. Which number keeps the largest of them in sight?",
    minutes=20,
    marks=3,
)


def error_to_come(k, v):
    """The delta rule's error on pairs to come, while a sequence is read.

    k [T, d_k] with rows of length one, v [T, d_v], at least one pair. Returns a number.
    """
    S = np.zeros((k.shape[1], v.shape[1]))
    missed = 0.0
    for key, value in zip(k, v, strict=True):
        error = value - S.T @ key
        missed += error @ error
        S = S + np.outer(key, error)
    return missed / (v**2).sum()


ANSWER = """\
        error = value - S.T @ key
        missed += error @ error
        S = S + np.outer(key, error)
"""
TO_COME = Exercise(
    key="06.to-come",
    label="ex-asked-too-late",
    title="A memory that foresees everything",
    statement=r"""
A report measures the error of a delta rule with rate 1 on pairs to come, while the
sequence is read. It finds exactly zero, even for values that are drawn at random. Mend
it.

The memory is zero at first. Every pair is asked, by its key, *before* it is told; the
first pair, too. Add up the squares of what is missing over all pairs and all channels,
and divide by the same sum for answers of zero. After it has been asked, a pair is
written with strength 1. Keys have length one, and there is one pair at least.
""",
    reference=error_to_come,
    returns=("error",),
    draw=lambda rng, sizes: {
        "k": draws.unit(rng, sizes["T"], sizes["d_k"]),
        "v": rng.standard_normal((sizes["T"], sizes["d_v"])),
    },
    shapes=draws.SEQUENCES[:3],
    properties=(
        Values(),
        Untouched(),
        Limit(
            "one pair alone is not foreseen",
            here=lambda x: {name: a[:1] for name, a in x.items()},
            wanted=lambda x: 1.0,
        ),
        Limit(
            "a pair that is told again and again is missed once",
            here=lambda x: {name: 0 * a + a[:1] for name, a in x.items()},
            wanted=lambda x: 1 / len(x["k"]),
        ),
    ),
    mistakes=(
        Mistake(
            "asked after it was told",
            slip(
                error_to_come,
                (
                    ANSWER,
                    "        S = S + np.outer(key, value - S.T @ key)\n"
                    "        error = value - S.T @ key\n"
                    "        missed += error @ error\n",
                ),
            ),
            "What does the delta rule with rate 1 say of a pair that it has just been "
            "told?",
        ),
        Mistake(
            "all are asked in the end",
            slip(
                error_to_come,
                ("        missed += error @ error\n", ""),
                (
                    "    return missed / (v**2).sum()",
                    "    missed = ((k @ S - v) ** 2).sum()\n"
                    "    return missed / (v**2).sum()",
                ),
            ),
            "This is recall. Which pairs has the memory been told when you ask?",
        ),
        Mistake(
            "the last pair alone",
            slip(error_to_come, ("missed += ", "missed = ")),
            "Over how many pairs is the error a sum?",
        ),
        Mistake(
            "a mean without a baseline",
            slip(error_to_come, ("(v**2).sum()", "v.size")),
            "What does your function say of a memory that always answers zero?",
        ),
        Mistake(
            "the values are added",
            slip(error_to_come, ("np.outer(key, error)", "np.outer(key, value)")),
            "What does the rule write: the value, or what it got wrong?",
        ),
    ),
    begins="asked after it was told",
    hint="In this book a token writes before it reads. At which moment is a pair that "
    "is still to come to be asked?",
    minutes=10,
    marks=2,
)

EXERCISES = (STEP, REGRESSION, START, TO_COME)
