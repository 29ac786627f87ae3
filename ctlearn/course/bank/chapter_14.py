"""Exercises of chapter 14, is it linear attention?"""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Causal, Limit, Untouched, Values


def value_weights(k, beta):
    """How much of each value the delta rule answers to each key, in the end.

    k [T, d_k], beta [T]; the state is zero before the first token. Returns A [T, T],
    for which A V holds the answers to all keys once all pairs have been written.
    """
    S = np.zeros((k.shape[1], len(k)))
    for t, key in enumerate(k):
        value = np.eye(len(k))[t]
        S = S + beta[t] * np.outer(key, value - S.T @ key)
    return k @ S


WEIGHTS = Exercise(
    key="14.two-tests",
    label="ex-two-tests",
    title="Two tests that look alike",
    statement=r"""
The delta rule writes a pair by $S' = S + \beta_t k_t (v_t - S^\top k_t)^\top$, and
answers a key $k$ with $S^\top k$. For given keys and strengths the answers are linear
in the values. Return the matrix $A$, $T \times T$, of that map: once all $T$ pairs have
been written, from an empty state, the answers to all the keys are $A V$, for any values
$V$ with a row for each pair. There may be no pairs.

With it the two tests of the chapter are short. Replacing values by zero keeps $A$ and
drops columns from the sum. Leaving pairs out makes another $A$, from the keys and
strengths that are left.
""",
    reference=value_weights,
    returns=("A",),
    draw=lambda rng, sizes: draws.picked(draws.tokens(rng, **sizes), "k", "beta"),
    shapes=draws.SEQUENCES,
    properties=(
        Values(),
        Untouched(),
        Limit(
            "a single pair weighs its strength times the square of its key",
            here=lambda x: {name: a[:1] for name, a in x.items()},
            wanted=lambda x: x["beta"][:, None] * (x["k"] @ x["k"].T),
        ),
        Limit(
            "what is not written weighs nothing",
            here=lambda x: x | {"beta": 0 * x["beta"]},
            wanted=lambda x: 0 * (x["k"] @ x["k"].T),
        ),
    ),
    mistakes=(
        Mistake(
            "the weights of linear attention",
            slip(value_weights, ("value - S.T @ key", "value")),
            "A pair with the value zero still does something in the delta rule. Where "
            "is that in your weights?",
        ),
        Mistake(
            "transpose",
            slip(value_weights, ("return k @ S", "return (k @ S).T")),
            "Which index is that of the question, and which that of the value?",
        ),
        Mistake(
            "the answers as they are given",
            slip(
                value_weights,
                ("    S = np", "    o = np.zeros((len(k), len(k)))\n    S = np"),
                ("key)\n", "key)\n        o[t] = key @ S\n"),
                ("return k @ S", "return o"),
            ),
            "These answers are given on the way. When are the keys asked here?",
        ),
        Mistake(
            "every strength is one",
            slip(value_weights, ("beta[t] * ", "")),
            "What does a pair of strength zero weigh?",
        ),
        Mistake(
            "the earlier pair corrects the later",
            slip(value_weights, ("enumerate(k)", "reversed(list(enumerate(k)))")),
            "Of two pairs with one key, which value is left in the end?",
        ),
    ),
    hint="What are the answers if one value is a one and all the others are zero?",
    minutes=20,
    marks=3,
)


def as_linear_attention(q, k, v, eta, W_1, W_2):
    """A network in training, written down as linear attention.

    q and k [T, d_k], v [T, d_v], eta [T]; the network is tanh(x W_1) W_2, with W_1
    [d_k, d_h] and W_2 [d_h, d_v]. Returns the queries' features, asked [T, d_h], the
    keys' features, keys [T, d_h], and what each step adds to W_2 beside them,
    written [T, d_v].
    """
    asked, keys = np.empty((2, len(eta), len(W_2)))
    written = np.empty_like(v)
    for t, rate in enumerate(eta):
        x = np.tanh(k[t] @ W_1)
        u = -rate * (x @ W_2 - v[t])
        keys[t], written[t] = x, u
        W_1 = W_1 + np.outer(k[t], W_2 @ u * (1 - x**2))
        W_2 = W_2 + np.outer(x, u)
        asked[t] = np.tanh(q[t] @ W_1)
    return asked, keys, written


def training(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Tokens, step sizes and a network."""
    T, d_k, d_h, d_v = (sizes[name] for name in ("T", "d_k", "d_h", "d_v"))
    drawn = draws.tokens(rng, T, d_k, d_v)
    return draws.picked(drawn, "q", "k", "v") | {
        "eta": drawn["beta"],
        "W_1": draws.state(rng, d_k, d_h),
        "W_2": draws.state(rng, d_h, d_v),
    }


LATE = Exercise(
    key="14.late-features",
    label="ex-bug-late-features",
    title="Right at small rates",
    statement=r"""
A network $f(x) = \tanh(x W_1)\, W_2$ learns from every token by one step of size
$\eta_t$ down $\tfrac{1}{2} \lVert f(k_t) - v_t \rVert^2$, in both layers, and is then
asked $q_t$. It is linear attention with a start,

$$o_t = W_2^\top \tilde{q}_t + \sum_{j=1}^{t} (\tilde{k}_j^\top \tilde{q}_t) u_j$$

with the first $W_2$, where $\tilde{q}_t$ and $\tilde{k}_t$ are features of the query
and the key, and $u_t$ is what the step adds. A colleague records them, and with step
sizes of 0.001 the two sides agree to four digits. She puts the rest down to float32.
Mend it: the two sides are equal at any step size. Both layers' slopes are taken at the
network before the step.

Return $\tilde{q}$ and $\tilde{k}$, $T \times d_h$, and $u$, $T \times d_v$. There may
be no tokens.
""",
    reference=as_linear_attention,
    returns=("asked", "keys", "written"),
    draw=training,
    shapes=(
        {"T": 5, "d_k": 3, "d_h": 4, "d_v": 2},
        {"T": 4, "d_k": 3, "d_h": 3, "d_v": 3},
        {"T": 1, "d_k": 2, "d_h": 3, "d_v": 1},
        {"T": 0, "d_k": 2, "d_h": 3, "d_v": 2},
    ),
    properties=(
        Values(),
        Untouched(),
        Causal(("q", "k", "v", "eta"), output="asked"),
        Limit(
            "with steps of zero nothing is written",
            here=lambda x: x | {"eta": 0 * x["eta"]},
        ),
    ),
    mistakes=(
        Mistake(
            "the keys' features are late",
            slip(
                as_linear_attention,
                ("keys[t], written[t] = x, u", "written[t] = u"),
                (
                    "asked[t] = np.tanh(q[t] @ W_1)",
                    "keys[t], asked[t] = np.tanh(k[t] @ W_1), np.tanh(q[t] @ W_1)",
                ),
            ),
            "With which features was the outer product formed that the step added? "
            "Compare the two sides at two step sizes.",
        ),
        Mistake(
            "the queries' features are early",
            slip(
                as_linear_attention,
                ("        asked[t] = np.tanh(q[t] @ W_1)\n", ""),
                (
                    "        x = np",
                    "        asked[t] = np.tanh(q[t] @ W_1)\n        x = np",
                ),
            ),
            "By which network is the query of a token answered, that before its step "
            "or that after?",
        ),
        Mistake(
            "the features stay",
            slip(
                as_linear_attention,
                ("        W_1 = W_1 + np.outer(k[t], W_2 @ u * (1 - x**2))\n", ""),
            ),
            "How many layers learn?",
        ),
        Mistake(
            "the values in the place of the errors",
            slip(as_linear_attention, ("-rate * (x @ W_2 - v[t])", "rate * v[t]")),
            "This is right for the dot product as a loss. What is the slope of the "
            "squared error?",
        ),
        Mistake(
            "the first layer's slope at the new second layer",
            slip(
                as_linear_attention,
                ("        W_2 = W_2 + np.outer(x, u)\n", ""),
                (
                    "        W_1 = W_1",
                    "        W_2 = W_2 + np.outer(x, u)\n        W_1 = W_1",
                ),
            ),
            "Both slopes belong to one network. Which of its layers has moved already "
            "when you take the second?",
        ),
    ),
    begins="the keys' features are late",
    hint="Which of the two must be recorded before the step, because the outer "
    "product was formed with it?",
    minutes=20,
    marks=3,
)

EXERCISES = (WEIGHTS, LATE)
