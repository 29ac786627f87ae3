"""Exercises of chapter 11, test-time regression."""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Limit, Untouched, Values


def conjugate_gradients(A, b, steps):
    """Steps of conjugate gradients from zero towards the x with A x = b.

    A [d, d], symmetric and positive definite; b [d]; steps, 0 or more. Returns x [d].
    """
    x = np.zeros_like(b)
    rest = direction = b
    for _ in range(steps):
        size = rest @ rest
        if size == 0:
            break
        image = A @ direction
        length = size / (direction @ image)
        x = x + length * direction
        rest = rest - length * image
        direction = rest + rest @ rest / size * direction
    return x


def system(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """A system that is no worse than one in ten."""
    d = sizes["d"]
    Q, _ = np.linalg.qr(rng.standard_normal((d, d)))
    A = Q * rng.uniform(0.3, 3, d) @ Q.T
    return {"A": (A + A.T) / 2, "b": rng.standard_normal(d), "steps": sizes["steps"]}


GRADIENTS = Exercise(
    key="11.conjugate-gradients",
    label="ex-few-steps",
    title="How exact must the solve be?",
    statement=r"""
For every question MesaNet has a linear system $A x = b$ to solve, and makes a few steps
of conjugate gradients. It starts at $x_0 = 0$ with what is left, $r_0 = b$, and the
direction $p_0 = b$. A step is

$$
\begin{aligned}
\lambda &= \frac{r^\top r}{p^\top A p}, & x' &= x + \lambda p, \\
r' &= r - \lambda A p, & p' &= r' + \frac{r'^\top r'}{r^\top r} p
\end{aligned}
$$

Return $x$ after `steps` steps. $A$ is symmetric and positive definite. With no steps
$x$ is zero. Where nothing is left, from the start or since a step that was exact,
further steps change nothing, and the result must be numbers.
""",
    reference=conjugate_gradients,
    returns=("x",),
    draw=system,
    shapes=(
        {"d": 5, "steps": 3},
        {"d": 4, "steps": 1},
        {"d": 3, "steps": 3},
        {"d": 6, "steps": 2},
        {"d": 1, "steps": 1},
        {"d": 3, "steps": 0},
    ),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "as many steps as there are directions solve the system",
            here=lambda x: x | {"steps": len(x["b"])},
            wanted=lambda x: np.linalg.solve(x["A"], x["b"]),
        ),
        Limit(
            "where nothing is asked, nothing changes",
            here=lambda x: x | {"b": 0 * x["b"], "steps": 3},
            wanted=lambda x: x["b"],
        ),
        Limit(
            "with the unit matrix one step is enough",
            here=lambda x: x | {"A": np.eye(len(x["b"])), "steps": 3},
            wanted=lambda x: x["b"],
        ),
    ),
    mistakes=(
        Mistake(
            "every direction is what is left",
            slip(
                conjugate_gradients,
                ("rest + rest @ rest / size * direction", "rest"),
            ),
            "This is the descent along the steepest slope, and does not end. What "
            "does a new direction keep of the last one?",
        ),
        Mistake(
            "the ratio upside down",
            slip(
                conjugate_gradients, ("rest @ rest / size *", "size / (rest @ rest) *")
            ),
            "As the steps go on, less and less is left. Is your share of the last "
            "direction below 1 as a rule?",
        ),
        Mistake(
            "the length of one step for all",
            slip(
                conjugate_gradients,
                ("length = size / (direction @ image)", "length = 1 / A.trace()"),
            ),
            "Your steps are all equally long. On what does the length of a step "
            "depend in the first of the four formulas?",
        ),
        Mistake(
            "a step short",
            slip(conjugate_gradients, ("range(steps)", "range(steps - 1)")),
            "How many steps have been made if one is asked for?",
        ),
        Mistake(
            "the exact solution",
            slip(conjugate_gradients, ("range(steps)", "range(len(b))")),
            "You go on until the system is solved. How many steps are asked for?",
        ),
        Mistake(
            "up the direction",
            slip(conjugate_gradients, ("rest = rest - length", "rest = rest + length")),
            "What is left after a step should be less. Compare it with b less A x.",
        ),
    ),
    hint="Three vectors are carried from step to step. After each step, compare what "
    "is left with b less A x: they must be equal.",
    minutes=20,
    marks=3,
)


def longhorn(k, v, beta, S):
    """The state after one write of Longhorn, with one strength for all value channels.

    k [d_k], v [d_v], beta a number above 0, S [d_k, d_v]. Returns a new state.
    """
    eps = beta / (1 + beta * (k @ k))
    return S + eps * np.outer(k, v - S.T @ k)


LONGHORN = Exercise(
    key="11.one-hot",
    label="ex-one-hot",
    title="Right on one-hot keys",
    statement=r"""
Longhorn makes an implicit step: the new state is the one that makes

$$\lVert S' - S \rVert^2 + \beta \lVert S'^\top k - v \rVert^2$$

least, for any $\beta > 0$ and any key. That is a write of the error, with the step
$\epsilon = \beta / (1 + \beta k^\top k)$. To use a fast scan, a colleague writes the
erasure with a diagonal, and all tests pass. They use one-hot keys, "so that a failure
is easy to read". Mend it. Return the new state, $d_k \times d_v$, and leave the one you
were given as it was.
""",
    reference=longhorn,
    returns=("S",),
    draw=lambda rng, sizes: draws.picked(
        draws.token(rng, **sizes), "k", "v", "beta", "S"
    ),
    shapes=draws.ONE,
    properties=(
        Values(),
        Untouched(),
        Limit(
            "a pair that is known leaves the state as it is",
            here=lambda x: x | {"v": x["S"].T @ x["k"]},
            wanted=lambda x: x["S"],
        ),
        Limit(
            "a one-hot key replaces a row",
            here=lambda x: x | {"k": np.eye(len(x["k"]))[0]},
        ),
        Limit(
            "a very large strength makes the memory answer v, nearly",
            # larger ones are too much for who solves a system for the new state
            here=lambda x: x | {"beta": 1e4},
        ),
    ),
    mistakes=(
        Mistake(
            "a diagonal erasure",
            slip(
                longhorn,
                (
                    "S + eps * np.outer(k, v - S.T @ k)",
                    "(1 - eps * k**2)[:, None] * S + eps * np.outer(k, v)",
                ),
            ),
            "Which matrix has the squares of the key on its diagonal? Tell the memory "
            "a pair that it knows, at a key with two entries.",
        ),
        Mistake(
            "an explicit step",
            slip(longhorn, ("beta / (1 + beta * (k @ k))", "beta")),
            "This is the delta rule, whose strength is the step. What happens here "
            "with a very large strength, and what should?",
        ),
        Mistake(
            "no step in the write",
            slip(
                longhorn,
                (
                    "S + eps * np.outer(k, v - S.T @ k)",
                    "S - eps * np.outer(k, S.T @ k) + np.outer(k, v)",
                ),
            ),
            "How strongly do you erase the old answer, and how strongly do you write "
            "the value? Tell a memory a pair that it knows.",
        ),
        Mistake(
            "divided by the key's square alone",
            slip(longhorn, ("beta / (1 + beta * (k @ k))", "beta / (k @ k)")),
            "How much of the old answer is left when the strength is 1, however long "
            "the key is?",
        ),
        Mistake(
            "the key's length for its square",
            slip(longhorn, ("(k @ k)", "np.sqrt(k @ k)")),
            "By what is the old answer multiplied, and in which power does the key "
            "enter?",
        ),
    ),
    begins="a diagonal erasure",
    hint="A pair that is known must leave the state as it is. Try it with a key of "
    "two entries.",
    minutes=10,
    marks=2,
)

EXERCISES = (GRADIENTS, LONGHORN)
