"""Exercises of chapter 19, your own context learner."""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Causal, Limit, PassesState, Untouched, Values


def cost_by_place(afresh, carried, length):
    """What a beginning costs, at each place of a stretch, in bits.

    afresh and carried [T], losses in nats of the same characters, read in stretches
    that begin anew and in one go; length divides T. Returns bits [length].
    """
    bits = (afresh - carried) / np.log(2)
    return bits.reshape(-1, length).mean(axis=0)


def losses(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Losses of the same characters, read in two ways."""
    T = sizes["stretches"] * sizes["length"]
    drawn = {name: rng.uniform(0.5, 4, T) for name in ("afresh", "carried")}
    return drawn | {"length": sizes["length"]}


CARRY = Exercise(
    key="19.carry",
    label="ex-carry",
    title="One state for a whole play",
    statement=r"""
A text was read twice by one model: in stretches of `length` characters, each of which
began with nothing remembered, and in one go with the state carried on. For every
character there is the loss in nats, minus the natural logarithm of the probability that
it was given.

Return for each place in a stretch, from its first character to its last, how many
*bits* the beginning afresh has cost there, on average over all stretches. A bit is what
halves a probability. `length` divides the number of characters.
""",
    reference=cost_by_place,
    returns=("bits",),
    draw=losses,
    shapes=(
        {"stretches": 3, "length": 4},
        {"stretches": 4, "length": 4},
        {"stretches": 1, "length": 5},
        {"stretches": 6, "length": 1},
    ),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "what is read alike costs nothing",
            here=lambda x: x | {"afresh": x["carried"].copy()},
            wanted=lambda x: np.zeros(x["length"]),
        ),
        Limit(
            "half the probability is one bit",
            here=lambda x: x | {"afresh": x["carried"] + np.log(2)},
            wanted=lambda x: np.ones(x["length"]),
        ),
    ),
    mistakes=(
        Mistake(
            "nats",
            slip(cost_by_place, (" / np.log(2)", "")),
            "How many nats does it cost if a probability is halved, and how many bits?",
        ),
        Mistake(
            "the wrong way from nats to bits",
            slip(cost_by_place, ("/ np.log(2)", "* np.log(2)")),
            "A nat is what divides a probability by e. Is that more than one bit, or "
            "less?",
        ),
        Mistake(
            "a mean for each stretch",
            slip(
                cost_by_place,
                (
                    "reshape(-1, length).mean(axis=0)",
                    "reshape(length, -1).mean(axis=1)",
                ),
            ),
            "Which characters are averaged: those of one stretch, or those at one "
            "place?",
        ),
        Mistake(
            "places and stretches exchanged",
            slip(
                cost_by_place,
                (
                    "reshape(-1, length).mean(axis=0)",
                    "reshape(-1, length).T.mean(axis=0)",
                ),
            ),
            "How many numbers do you return if there are three stretches of four?",
        ),
        Mistake(
            "sign",
            slip(cost_by_place, ("afresh - carried", "carried - afresh")),
            "A larger loss is a worse guess. Which of the two ways should cost more?",
        ),
        Mistake(
            "the ratio",
            slip(cost_by_place, ("(afresh - carried)", "(afresh / carried)")),
            "A loss is a logarithm. How are two of them compared?",
        ),
    ),
    hint="Write the losses in rows, one for each stretch. Along which axis do you "
    "average?",
    minutes=10,
    marks=2,
)


def two_rates(q, k, v, log_decay, beta, eta, S):
    """A memory that erases by one rate and writes by another.

    q and k [T, d_k], v [T, d_v], log_decay, beta and eta [T], S [d_k, d_v] the state
    before the first token. Returns o [T, d_v] and the last state, [d_k, d_v].
    """
    o = np.empty_like(v)
    for t in range(len(log_decay)):
        S = np.exp(log_decay[t]) * S
        S = S + np.outer(k[t], eta[t] * v[t] - beta[t] * (S.T @ k[t]))
        o[t] = S.T @ q[t]
    return o, S


BY_TOKEN = ("q", "k", "v", "log_decay", "beta", "eta")


def several(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Tokens with two rates and a decay, and a state before them."""
    rates = {
        "log_decay": draws.log_decays(rng, sizes["T"]),
        "eta": rng.uniform(0, 2, sizes["T"]),
    }
    return draws.picked(draws.sequence(rng, **sizes) | rates, *BY_TOKEN, "S")


MIXER = Exercise(
    key="19.two-rates",
    label="ex-own-mixer",
    title="A memory with two rates",
    statement=r"""
The recipe's mechanism fades, erases by one rate and writes by another:

$$
\bar{S}_t = \alpha_t S_{t-1}, \qquad
S_t = \bar{S}_t - \beta_t k_t (\bar{S}_t^\top k_t)^\top + \eta_t k_t v_t^\top, \qquad
o_t = S_t^\top q_t
$$

with $\alpha_t$ the exponential of `log_decay[t]`. Run it over $T$ tokens from the state
that is handed in, and return all answers, $T \times d_v$, and the last state. A text
that is read in two pieces must give what it gives in one, where a piece may have no
tokens. With $\eta = \beta$ it is the gated delta rule.
""",
    reference=two_rates,
    returns=("o", "S"),
    draw=several,
    shapes=draws.SEQUENCES,
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        PassesState(BY_TOKEN),
        Limit(
            "without erasing it is a fading sum",
            here=lambda x: x | {"beta": 0 * x["beta"]},
        ),
        Limit(
            "without writing nothing comes of an empty state",
            here=lambda x: x | {"eta": 0 * x["eta"], "S": 0 * x["S"]},
            wanted=lambda x: (0 * x["v"], x["S"]),
        ),
    ),
    mistakes=(
        Mistake(
            "one rate for both",
            slip(two_rates, ("eta[t] * v[t]", "beta[t] * v[t]")),
            "This is the gated delta rule. What does the other rate do?",
        ),
        Mistake(
            "the rates exchanged",
            slip(
                two_rates,
                (
                    "eta[t] * v[t] - beta[t] * (S.T @ k[t])",
                    "beta[t] * v[t] - eta[t] * (S.T @ k[t])",
                ),
            ),
            "Set the rate of writing to zero. Is anything written?",
        ),
        Mistake(
            "reads before it fades",
            slip(
                two_rates,
                ("        S = np.exp(log_decay[t]) * S\n", ""),
                ("        S = S + ", "        S = np.exp(log_decay[t]) * S + "),
            ),
            "Which state is asked for what is to be erased: that before it has faded, "
            "or after?",
        ),
        Mistake(
            "answers before it writes",
            slip(
                two_rates,
                ("        o[t] = S.T @ q[t]\n", ""),
                (
                    "        S = S + np",
                    "        o[t] = S.T @ q[t]\n        S = S + np",
                ),
            ),
            "Is a token's own pair in its answer? Look at the index of the state that "
            "is asked.",
        ),
        Mistake(
            "a logarithm for a decay",
            slip(two_rates, ("np.exp(log_decay[t])", "log_decay[t]")),
            "What is kept of the state where the number that is given is zero?",
        ),
        Mistake(
            "starts from nothing",
            slip(two_rates, ("    o = ", "    S = 0 * S\n    o = ")),
            "Cut a text in two. From what should the second half start?",
        ),
        Mistake(
            "a token's own write fades",
            slip(
                two_rates,
                ("        S = np.exp(log_decay[t]) * S\n", ""),
                (
                    "        o[t] =",
                    "        S = np.exp(log_decay[t]) * S\n        o[t] =",
                ),
            ),
            "At which strength does a pair enter an empty state, if its own gate is "
            "small?",
        ),
    ),
    hint="Three things happen to the state, one after the other. Which state does "
    "each of them begin with, and after which is the question asked?",
    minutes=15,
    marks=3,
)


def shares(batch, size):
    """The rows that each of some processes reads, and how many different ones in all.

    batch [B, T], whole numbers; size, the number of processes, divides B. Returns
    shares [size, B / size, T] and a number.
    """
    dealt = np.stack([batch[rank::size] for rank in range(size)])
    rows = dealt.reshape(-1, batch.shape[1])
    return dealt, len(np.unique(rows, axis=0))


def rows(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Rows of characters, the last as the first; others have as much in common.

    There are three characters, so that rows of one start, and of one sum, are many.
    """
    B = sizes["size"] * sizes["rows"]
    batch = rng.integers(3, size=(B, sizes["T"]))
    batch[-1] = batch[0]
    return {"batch": batch, "size": sizes["size"]}


SHARES = Exercise(
    key="19.shares",
    label="ex-bug-shares",
    title="Twice the machines, the same curve",
    statement=r"""
A colleague trains with several processes, which share a batch of $B$ rows and take the
mean of their gradients. The loss curve is that of one process to the last digit, and he
is pleased. Mend it: every row is read by one process. The rows are dealt out in turn,
so that process $r$ has rows $r$, $r + n$, $r + 2n$ and so on of $n$ processes, counted
from 0.

Return the shares as a stack, $n \times (B / n) \times T$, and the number that would
have shown the fault: how many different rows are read by all of them together, where
equal rows are one. $n$ divides $B$.
""",
    reference=shares,
    returns=("shares", "different"),
    draw=rows,
    shapes=(
        {"size": 3, "rows": 4, "T": 5},
        {"size": 2, "rows": 2, "T": 4},
        {"size": 1, "rows": 3, "T": 4},
        {"size": 4, "rows": 1, "T": 1},
    ),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "equal rows are one row",
            here=lambda x: x | {"batch": 0 * x["batch"] + x["batch"][:1]},
        ),
    ),
    mistakes=(
        Mistake(
            "everybody reads everything",
            slip(shares, ("batch[rank::size]", "batch")),
            "Their gradients are equal, and so is the mean. What has been bought with "
            "the second machine?",
        ),
        Mistake(
            "everybody reads the first share",
            slip(shares, ("batch[rank::size]", "batch[0::size]")),
            "How many different rows are read in all, and how many are there?",
        ),
        Mistake(
            "dealt out in blocks",
            slip(
                shares,
                (
                    "batch[rank::size] for rank in range(size)",
                    "x for x in np.split(batch, size)",
                ),
            ),
            "Every row is read once. But who gets the second row, if rows are dealt "
            "out in turn?",
        ),
        Mistake(
            "rows are counted, equal or not",
            slip(shares, ("len(np.unique(rows, axis=0))", "len(rows)")),
            "What does your number say of a batch in which all rows are the same?",
        ),
        Mistake(
            "characters are counted",
            slip(shares, ("np.unique(rows, axis=0)", "np.unique(rows)")),
            "Are different rows counted, or different characters?",
        ),
    ),
    begins="everybody reads everything",
    hint="How many different rows should all the processes together have read?",
    minutes=10,
    marks=2,
)

EXERCISES = (CARRY, MIXER, SHARES)
