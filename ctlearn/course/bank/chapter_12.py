"""Exercises of chapter 12, test-time training layers."""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Causal, Limit, PassesState, Untouched, Values

BY_TOKEN = ("q", "k", "v", "beta")


def start_alone(q, k, v, beta, W, inner_batch):
    """A linear model in training, which answers from the start of each mini-batch.

    q and k [T, d_k], v [T, d_v], beta [T], W [d_k, d_v] before the first token,
    inner_batch the tokens of a mini-batch. Returns o [T, d_v] and the last W.
    """
    o = np.empty_like(v)
    for start in range(0, len(beta), inner_batch):
        c = slice(start, start + inner_batch)
        o[c] = q[c] @ W
        W = W + (beta[c, None] * k[c]).T @ (v[c] - k[c] @ W)
    return o, W


def training(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Tokens, and a model to start from."""
    own = {name: n for name, n in sizes.items() if name != "inner_batch"}
    drawn = draws.sequence(rng, **own)
    others = {"W": drawn["S"], "inner_batch": sizes["inner_batch"]}
    return draws.picked(drawn, *BY_TOKEN) | others


BATCHES = (
    {"T": 6, "d_k": 3, "d_v": 2, "inner_batch": 3},
    {"T": 7, "d_k": 4, "d_v": 4, "inner_batch": 4},
    {"T": 3, "d_k": 2, "d_v": 3, "inner_batch": 5},
    {"T": 4, "d_k": 2, "d_v": 1, "inner_batch": 1},
    {"T": 0, "d_k": 2, "d_v": 3, "inner_batch": 2},
)
START = Exercise(
    key="12.only-start",
    label="ex-only-start",
    title="Only the start",
    statement=r"""
A linear model $W$, $d_k \times d_v$, is trained while it reads, by mini-batches of
`inner_batch` tokens. Within a mini-batch all slopes of half the squared error,
$\tfrac{1}{2} \lVert W^\top k_j - v_j \rVert^2$, are taken at the $W$ with which the
mini-batch began, and token $j$ counts with the step size $\beta_j$. The steps of a
mini-batch together make the start of the next.

As in layers with large chunks, every question of a mini-batch is answered by that first
$W$, and no step of its own mini-batch is seen. The last mini-batch may be short; its
steps are made, too. Return all answers, $T \times d_v$, and the model after the last
step. There may be no tokens.
""",
    reference=start_alone,
    returns=("o", "W"),
    draw=training,
    shapes=BATCHES,
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        Limit(
            "with step sizes of zero nothing is learned",
            here=lambda x: x | {"beta": 0 * x["beta"]},
            wanted=lambda x: (x["q"] @ x["W"], x["W"]),
        ),
        Limit(
            "mini-batches of one token are the delta rule, asked before it writes",
            here=lambda x: x | {"inner_batch": 1},
        ),
    ),
    mistakes=(
        Mistake(
            "answers after the steps",
            slip(
                start_alone,
                ("        o[c] = q[c] @ W\n", ""),
                ("k[c] @ W)\n", "k[c] @ W)\n        o[c] = q[c] @ W\n"),
            ),
            "Change the last token of a mini-batch and look at the answer to its "
            "first. Training looks wonderful like this, and generation is poor.",
        ),
        Mistake(
            "the steps so far are seen",
            slip(
                start_alone,
                (
                    "o[c] = q[c] @ W",
                    "seen = np.tril(q[c] @ k[c].T)\n"
                    "        error = beta[c, None] * (v[c] - k[c] @ W)\n"
                    "        o[c] = q[c] @ W + seen @ error",
                ),
            ),
            "This is the layer's usual plan, update and then apply. What does a "
            "question see here of its own mini-batch?",
        ),
        Mistake(
            "slopes where the last step has led",
            slip(
                start_alone,
                (
                    "        W = W + (beta[c, None] * k[c]).T @ (v[c] - k[c] @ W)\n",
                    "        for rate, x, y in zip(beta[c], k[c], v[c], strict=True):\n"
                    "            W = W + rate * np.outer(x, y - W.T @ x)\n",
                ),
            ),
            "At which model are the slopes of a mini-batch taken? Tell one pair twice "
            "within one.",
        ),
        Mistake(
            "a mean over the mini-batch",
            slip(
                start_alone,
                ("(v[c] - k[c] @ W)", "(v[c] - k[c] @ W) / len(k[c])"),
            ),
            "Is a token's step smaller in a mini-batch of many? Read again what the "
            "steps of one are together.",
        ),
        Mistake(
            "a short mini-batch makes no steps",
            slip(
                start_alone,
                (
                    "        W = W +",
                    "        if len(k[c]) < inner_batch:\n"
                    "            break\n"
                    "        W = W +",
                ),
            ),
            "What has been learned from the tokens at the end that do not fill a "
            "mini-batch?",
        ),
    ),
    hint="A mini-batch is two lines: all its answers, then all its steps. Which model "
    "stands in both?",
    minutes=15,
    marks=3,
)


def learn(q, k, v, beta, W, total, seen, inner_batch):
    """A linear model in training, which can be stopped at any token and go on.

    q and k [T, d_k], v [T, d_v], beta [T]. The state is W [d_k, d_v], the model at the
    start of the mini-batch, total [d_k, d_v], the steps since, summed, and seen, the
    tokens since, below inner_batch. Returns o [T, d_v] and the new W, total and seen.
    """
    o = np.empty_like(v)
    for t in range(len(beta)):
        total = total + beta[t] * np.outer(k[t], v[t] - W.T @ k[t])
        o[t] = (W + total).T @ q[t]
        seen = seen + 1
        if seen == inner_batch:
            W, total, seen = W + total, np.zeros_like(W), 0
    return o, W, total, seen


def resumed(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Tokens, and a training in the midst of a mini-batch."""
    drawn = training(rng, sizes)
    seen = int(rng.integers(sizes["inner_batch"]))
    total = draws.state(rng, sizes["d_k"], sizes["d_v"]) * (seen > 0)
    state = {"W": drawn["W"], "total": total, "seen": seen}
    others = {"inner_batch": drawn["inner_batch"]}
    return draws.picked(drawn, *BY_TOKEN) | state | others


RESUME = Exercise(
    key="12.resume",
    label="ex-bug-resume",
    title="Right after 16 and 32",
    statement=r"""
A server reads a prompt with a model that is trained by mini-batches, and goes on from
its state when the user types. Prompts of 16 and 32 tokens pass every test, with
mini-batches of 16; with one of 20 the answers are wrong from token 21 on. Mend it.

Within a mini-batch all slopes of half the squared error are taken at the model $W$ with
which it began. Token $j$'s step is $\beta_j k_j (v_j - W^\top k_j)^\top$, and a token
is answered by $W$ plus all steps of its mini-batch so far, its own among them. $W$ plus
all steps of a full mini-batch is the $W$ of the next. The state that comes in may be in
the midst of a mini-batch: `total` is the sum of the steps since it began, and `seen`
the number of its tokens. A state that has just filled a mini-batch is at the start of
the next, with `total` zero and `seen` 0. There may be no tokens.
""",
    reference=learn,
    returns=("o", "W", "total", "seen"),
    draw=resumed,
    shapes=BATCHES,
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        PassesState(BY_TOKEN, states=("W", "total", "seen")),
    ),
    mistakes=(
        Mistake(
            "starts a mini-batch afresh",
            slip(learn, ("    o = ", "    total, seen = 0 * total, 0\n    o = ")),
            "What does the state hold in the midst of a mini-batch, and how much of "
            "it is used here?",
        ),
        Mistake(
            "the count is forgotten",
            slip(learn, ("    o = ", "    seen = 0\n    o = ")),
            "The steps are kept now. Where does the mini-batch end that was begun "
            "before the call?",
        ),
        Mistake(
            "the steps are forgotten",
            slip(learn, ("    o = ", "    total = 0 * total\n    o = ")),
            "The mini-batch ends at the right place now. What has become of the pairs "
            "that were read before the call?",
        ),
        Mistake(
            "slopes at the model as it is",
            slip(learn, ("v[t] - W.T @ k[t]", "v[t] - (W + total).T @ k[t]")),
            "This is the delta rule. At which model are the slopes of a mini-batch "
            "taken?",
        ),
        Mistake(
            "answers without its own step",
            slip(
                learn,
                ("        o[t] = (W + total).T @ q[t]\n", ""),
                (
                    "        total = ",
                    "        o[t] = (W + total).T @ q[t]\n        total = ",
                ),
            ),
            "Is a token's own step in its answer?",
        ),
        Mistake(
            "mini-batches are a token too long",
            slip(learn, ("seen == inner_batch", "seen > inner_batch")),
            "How many tokens has a mini-batch read when its steps are put into the "
            "model?",
        ),
    ),
    begins="starts a mini-batch afresh",
    hint="Split a sequence at every position, not only at round ones, and compare. "
    "What must the second half be told besides the weights?",
    minutes=20,
    marks=3,
)

EXERCISES = (START, RESUME)
