"""Exercises of chapter 10, a gradient step in the tokens."""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Limit, Unchanged, Untouched, Values


def spectrum(rng: np.random.Generator, sizes: Sizes) -> np.ndarray:
    """Eigenvalues, above zero and of about one."""
    return rng.uniform(0.1, 2, sizes["m"])


def best_loops(spectrum, sizes, n):
    """The least that n steps of one size leave, and the size.

    spectrum [m], eigenvalues above 0; sizes, step sizes to try, in any order; n, how
    often the step is made, 1 or more. Returns the share that is left, and the step
    size: two numbers.
    """
    left = ((1 - sizes[:, None] * spectrum) ** (2 * n)).mean(axis=1)
    best = left.argmin()
    return left[best], sizes[best]


def looped(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Eigenvalues, step sizes on both sides of the best, and a number of loops.

    So many step sizes that the best for one loop, or for the worst direction, is
    another than the best.
    """
    tried = rng.uniform(0.05, 2.5, sizes["tried"])
    return {"spectrum": spectrum(rng, sizes), "sizes": tried, "n": sizes["n"]}


LOOPS = Exercise(
    key="10.loops",
    label="ex-one-layer-in-a-loop",
    title="One layer in a loop",
    statement=r"""
A constructed layer makes one gradient step of size $\eta$ on the pairs of a context.
Along an eigenvector of $\frac{1}{N} \sum_j k_j k_j^\top$ with the eigenvalue $z$ it
multiplies what is missing by $1 - \eta z$, so that $n$ loops multiply it by
$(1 - \eta z)^n$. The error that is left is the *square* of that factor, averaged over
the spectrum, which is all the eigenvalues.

Of the step sizes that are given, return what the best one leaves, and that step size.
The same size is used in all $n$ loops.
""",
    reference=best_loops,
    returns=("left", "size"),
    draw=looped,
    shapes=(
        {"m": 6, "tried": 60, "n": 3},
        {"m": 4, "tried": 40, "n": 1},
        {"m": 5, "tried": 50, "n": 4},
        {"m": 1, "tried": 4, "n": 2},
    ),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "one eigenvalue is learned at once by the step that is its inverse",
            here=lambda x: (
                x | {"spectrum": x["spectrum"][:1], "sizes": 1 / x["spectrum"][:1]}
            ),
            wanted=lambda x: (0.0, x["sizes"][0]),
        ),
    ),
    mistakes=(
        Mistake(
            "the factor, not its square",
            slip(best_loops, ("** (2 * n)", "** n")),
            "With an odd number of loops your share may be negative. Is what is left "
            "a factor, or the square of one?",
        ),
        Mistake(
            "one loop",
            slip(best_loops, ("** (2 * n)", "** 2")),
            "How many loops are these? Does it help to use the layer more often?",
        ),
        Mistake(
            "the mean before the power",
            slip(
                best_loops,
                (
                    "((1 - sizes[:, None] * spectrum) ** (2 * n)).mean(axis=1)",
                    "(1 - sizes[:, None] * spectrum).mean(axis=1) ** (2 * n)",
                ),
            ),
            "Each direction is learned at a pace of its own. What is averaged over "
            "them?",
        ),
        Mistake(
            "the worst direction",
            slip(best_loops, (".mean(axis=1)", ".max(axis=1)")),
            "This finds the step that is safest for the worst direction, and tells "
            "what is left there. What is the error made of?",
        ),
        Mistake(
            "the worst step",
            slip(best_loops, ("argmin", "argmax")),
            "Does the best step leave most, or least?",
        ),
    ),
    hint="What does one loop multiply what is missing along an eigenvector by, and "
    "what do n loops? An error is a mean of squares.",
    minutes=15,
    marks=2,
)


def two_steps_leave(spectrum):
    """The least share that two gradient steps leave, each with a rate of its own.

    spectrum [m], eigenvalues above 0, each as likely as any other. Returns a number.
    """
    powers = np.stack([spectrum, spectrum**2], axis=1)
    best = np.linalg.lstsq(powers, np.ones_like(spectrum))[0]
    missing = powers @ best - 1
    return missing @ missing / len(spectrum)


BASELINE = Exercise(
    key="10.baseline",
    label="ex-unfair-baseline",
    title="Better than gradient descent",
    statement=r"""
A report trains two layers and compares them with two steps of gradient descent at their
best rate. But two layers may choose two rates. Mend the baseline.

A step of rate $\eta$ multiplies what is missing along an eigenvector with the
eigenvalue $z$ by $1 - \eta z$. Return the least mean, over the spectrum that is given,
of the square of what two steps leave, when each has a rate of its own. It must be right
to eight digits, so a grid of rates will not do.
""",
    reference=two_steps_leave,
    returns=("left",),
    draw=lambda rng, sizes: {"spectrum": spectrum(rng, sizes)},
    shapes=({"m": 9}, {"m": 4}, {"m": 3}, {"m": 2}),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "two eigenvalues are learned by two steps",
            here=lambda x: {"spectrum": x["spectrum"][:2]},
            wanted=lambda x: 0.0,
        ),
        Unchanged(
            "the unit of the eigenvalues does not matter",
            lambda x: {"spectrum": 3 * x["spectrum"]},
        ),
    ),
    mistakes=(
        Mistake(
            "one rate for both",
            slip(
                two_steps_leave,
                (
                    "    powers = np.stack([spectrum, spectrum**2], axis=1)\n",
                    "    rates = np.linspace(0, 2, 401)[:, None] / spectrum.mean()\n",
                ),
                (
                    "    best = np.linalg.lstsq(powers, np.ones_like(spectrum))[0]\n",
                    "",
                ),
                ("    missing = powers @ best - 1\n", ""),
                (
                    "missing @ missing / len(spectrum)",
                    "((1 - rates * spectrum) ** 4).mean(axis=1).min()",
                ),
            ),
            "How many numbers may two layers choose, and how many has this baseline?",
        ),
        Mistake(
            "the second rate after the first",
            slip(
                two_steps_leave,
                (
                    "    powers = np.stack([spectrum, spectrum**2], axis=1)\n"
                    "    best = np.linalg.lstsq(powers, np.ones_like(spectrum))[0]\n"
                    "    missing = powers @ best - 1\n",
                    "    missing = np.ones_like(spectrum)\n"
                    "    for _ in range(2):\n"
                    "        step = spectrum * missing\n"
                    "        rate = step @ missing / (step @ step)\n"
                    "        missing = missing - rate * step\n",
                ),
            ),
            "You choose the first rate as if no step came after it. Is the best step "
            "also the best first of two?",
        ),
        Mistake(
            "one step",
            slip(two_steps_leave, ("[spectrum, spectrum**2]", "[spectrum]")),
            "Of which degree is the polynomial that two steps make?",
        ),
        Mistake(
            "three steps",
            slip(
                two_steps_leave,
                ("[spectrum, spectrum**2]", "[spectrum, spectrum**2, spectrum**3]"),
            ),
            "Of which degree is the polynomial that two steps make?",
        ),
        Mistake(
            "free at zero",
            slip(
                two_steps_leave,
                ("[spectrum, spectrum**2]", "[spectrum**0, spectrum, spectrum**2]"),
            ),
            "What is left where the eigenvalue is zero, whatever the rates are?",
        ),
        Mistake(
            "the sum, not the mean",
            slip(two_steps_leave, (" / len(spectrum)", "")),
            "What is left of everything, if no step is made at all? It should be one.",
        ),
        Mistake(
            "the second step without the first",
            slip(two_steps_leave, ("[spectrum, spectrum**2]", "[spectrum**2]")),
            "Multiply two factors out. Which powers of the eigenvalue appear?",
        ),
    ),
    begins="one rate for both",
    hint="Multiply the factors of the two steps out: they are a polynomial of the "
    "eigenvalue that is 1 at zero. How many of its numbers can be chosen, and how does "
    "the mean depend on them? (Rates that give the best ones exist.)",
    minutes=25,
    marks=3,
)


def answer(q, k, v, W, eta):
    """What a model answers to q after one step on the pairs of the context.

    q [d_k], k [N, d_k], v [N, d_v], W [d_k, d_v] to start from, eta the step size. The
    step is on the mean over the N pairs of half the squared error. Returns o [d_v].
    """
    return q @ W + eta / len(k) * (q @ k.T) @ (v - k @ W)


def asked(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """A context, a question, a start and a step."""
    N, d_k, d_v = sizes["N"], sizes["d_k"], sizes["d_v"]
    return {
        "q": rng.standard_normal(d_k),
        "k": draws.keys(rng, N, d_k),
        "v": rng.standard_normal((N, d_v)),
        "W": draws.state(rng, d_k, d_v),
        "eta": rng.uniform(0.2, 1.5),
    }


ITSELF = Exercise(
    key="10.sees-itself",
    label="ex-sees-itself",
    title="A question that sees itself",
    statement=r"""
A layer of linear attention carries out one gradient step: it answers a question $q$ as
a model would that starts from $W$, $d_k \times d_v$, and makes one step of size $\eta$
down

$$\frac{1}{N} \sum_{j=1}^{N} \tfrac{1}{2} \lVert W^\top k_j - v_j \rVert^2$$

on the $N$ pairs of the context. To save a mask, a colleague lets the question's token
attend to itself. As a token the question is a pair, too, with what the model would
answer, its sign turned, in the place of the value. With $W = 0$ all tests pass. Mend
it: only the context is learned from. A context has one pair at least.
""",
    reference=answer,
    returns=("o",),
    draw=asked,
    shapes=(
        {"N": 5, "d_k": 3, "d_v": 2},
        {"N": 4, "d_k": 4, "d_v": 4},
        {"N": 1, "d_k": 2, "d_v": 1},
    ),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "a start that knows the context is asked as it is",
            here=lambda x: x | {"v": x["k"] @ x["W"]},
            wanted=lambda x: x["q"] @ x["W"],
        ),
        Limit(
            "from zero it is linear attention, times the step over N",
            here=lambda x: x | {"W": 0 * x["W"]},
        ),
        Unchanged(
            "every pair told twice is the same context",
            lambda x: x | {name: np.tile(x[name], (2, 1)) for name in "kv"},
        ),
    ),
    mistakes=(
        Mistake(
            "the question is learned from",
            slip(
                answer,
                (
                    "    return",
                    "    N, value = len(k), -q @ W\n"
                    "    k, v = np.vstack([k, q]), np.vstack([v, value])\n"
                    "    return",
                ),
                ("eta / len(k)", "eta / N"),
            ),
            "Which value does the question's own token carry, and what does the model "
            "think it gets wrong there? A test at a zero start proves nothing here.",
        ),
        Mistake(
            "the values in the place of the errors",
            slip(answer, ("(v - k @ W)", "v")),
            "What has a start that already knows the context to learn?",
        ),
        Mistake(
            "a sum over the pairs",
            slip(answer, ("eta / len(k)", "eta")),
            "Is the loss a sum over the pairs or their mean? Tell every pair twice.",
        ),
        Mistake(
            "what the start says is left out",
            slip(answer, ("q @ W + ", "")),
            "What is the answer if the step has the size zero?",
        ),
        Mistake(
            "up the slope",
            slip(answer, ("q @ W + ", "q @ W - ")),
            "Ask for a key of the context. Is the answer nearer to its value after "
            "the step than before?",
        ),
    ),
    begins="the question is learned from",
    hint="What does the layer make of the question's token, if it takes it for a pair?",
    minutes=15,
    marks=2,
)

EXERCISES = (LOOPS, BASELINE, ITSELF)
