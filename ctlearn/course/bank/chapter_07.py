"""Exercises of chapter 7, the delta rule."""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Causal, Limit, PassesState, Untouched, Values


def known(x: Inputs) -> Inputs | None:
    """The value is what the state answers already."""
    return x | {"v": x["S"].T @ x["k"]}


def no_key(x: Inputs) -> Inputs:
    """A key of zeros."""
    return x | {"k": 0 * x["k"]}


def write(k, v, beta, S):
    """The state after one write of the delta rule.

    k [d_k], v [d_v], beta a number, S [d_k, d_v]. Returns a new state [d_k, d_v].
    """
    return S + beta * np.outer(k, v - S.T @ k)


ADDED = "beta * np.outer(k, v - S.T @ k)"
WRITE = Exercise(
    key="07.strength",
    label="ex-bug-strength",
    title="It passes at full strength",
    statement=r"""
A colleague's write of the delta rule passes all her tests, which use keys of length
one, $\beta = 1$ and many random streams. Mend it.

The function takes a memory `S`, $d_k \times d_v$, which answers a key $k$ by
$S^\top k$, and writes the value $v$ at the key $k$ with strength $\beta$, as the delta
rule does. It returns the new state and leaves the one it was given as it was. A key may
have any length; a key of zeros writes nothing.
""",
    reference=write,
    returns=("S",),
    draw=lambda rng, sizes: draws.picked(
        draws.token(rng, **sizes), "k", "v", "beta", "S"
    ),
    shapes=draws.ONE,
    properties=(
        Values(),
        Untouched(),
        Limit(
            "a memory that already answers v at k is not changed by being told so",
            here=known,
            wanted=lambda x: x["S"],
        ),
        Limit(
            "a write of strength 0 changes nothing",
            here=lambda x: x | {"beta": 0.0},
            wanted=lambda x: x["S"],
        ),
        Limit("a key of zeros writes nothing", here=no_key, wanted=lambda x: x["S"]),
    ),
    mistakes=(
        Mistake(
            "no strength in the erasure",
            slip(
                write,
                (f"S + {ADDED}", "S - np.outer(k, S.T @ k) + beta * np.outer(k, v)"),
            ),
            "Tell one pair again and again with a small strength. What should the "
            "answer at its key tend to, and what does yours tend to?",
        ),
        Mistake(
            "no strength in the write",
            slip(write, (ADDED, "np.outer(k, v - beta * S.T @ k)")),
            "Set the strength to 0. What should be left to do?",
        ),
        Mistake(
            "sign",
            slip(write, ("S + ", "S - ")),
            "Tell a memory one pair, and compare its answers before and after. Which "
            "of the two should be nearer to the value?",
        ),
        Mistake(
            "nothing is erased",
            slip(write, ("v - S.T @ k", "v")),
            "Tell a memory a pair that it knows already. What does it say then?",
        ),
        Mistake(
            "divided by the key's square",
            slip(write, ("beta *", "beta / (k @ k) *")),
            "That is another rule, for which the strength is a share of the error. "
            "What is asked for here may be timid at short keys.",
        ),
        Mistake(
            "in place",
            slip(write, ("return S +", "S +="), (" @ k)", " @ k)\n    return S")),
            "The caller may still need the state that you were given. Where does your "
            "sum go?",
        ),
    ),
    begins="no strength in the erasure",
    hint="Write the same pair again and again with a small strength. What should the "
    "answer tend to?",
    minutes=10,
    marks=2,
)


def delta_step(q, k, v, beta, S):
    """One token of the delta rule: read, compare, write the error, answer.

    q and k [d_k], v [d_v], beta a number, S [d_k, d_v] the state before the token.
    Returns o [d_v], the answer to q, and the state after the token, [d_k, d_v].
    """
    S = S + beta * np.outer(k, v - S.T @ k)
    return S.T @ q, S


STEP = Exercise(
    key="07.delta-step",
    title="Read, compare, write the error",
    statement=r"""
Write one token of the delta rule. The state $S$ is $d_k \times d_v$ and answers a key
$k$ by $S^\top k$. The token reads what the state says at $k$, compares it with the
value $v$, and writes the error at $k$ with strength $\beta$. Only then is the query $q$
asked: $o = S^\top q$ with the state after the write.

Return $o$ and the new state, in this order, and leave the state you were given as it
was. Keys have any length, and $\beta$ is between 0 and 2.
""",
    reference=delta_step,
    returns=("o", "S"),
    draw=lambda rng, sizes: draws.picked(
        draws.token(rng, **sizes), "q", "k", "v", "beta", "S"
    ),
    shapes=draws.ONE,
    properties=(
        Values(),
        Untouched(),
        Limit(
            "a pair that is known is not written again",
            here=known,
            wanted=lambda x: (x["S"].T @ x["q"], x["S"]),
        ),
        Limit(
            "at strength 1 and a key of length 1 the memory then answers v",
            here=lambda x: (
                x | dict.fromkeys("qk", x["k"] / np.linalg.norm(x["k"])) | {"beta": 1.0}
            ),
        ),
        Limit(
            "a key of zeros writes nothing",
            here=no_key,
            wanted=lambda x: (x["S"].T @ x["q"], x["S"]),
        ),
    ),
    mistakes=(
        Mistake(
            "sign",
            slip(delta_step, ("S = S +", "S = S -")),
            "Tell a memory one pair, and compare its answers before and after. Which "
            "of the two should be nearer to the value?",
        ),
        Mistake(
            "reads before it writes",
            slip(
                delta_step,
                ("S = S +", "new = S +"),
                ("return S.T @ q, S", "return S.T @ q, new"),
            ),
            "Ask for the key that is being told, with strength 1. Should the answer "
            "be what was known before, or what has just been said?",
        ),
        Mistake(
            "transpose",
            slip(delta_step, ("v - S.T @ k", "v - S @ k")),
            "Which axis of the state has the size of a key? No error message tells "
            "where keys and values have the same size.",
        ),
        Mistake(
            "nothing is erased",
            slip(delta_step, ("v - S.T @ k", "v")),
            "This adds. What does a memory say of a pair that it is told twice?",
        ),
        Mistake(
            "no strength in the erasure",
            slip(
                delta_step,
                (ADDED, "(beta * np.outer(k, v) - np.outer(k, S.T @ k))"),
            ),
            "Set the strength to 0. What should happen to the state?",
        ),
        Mistake(
            "the error at the query",
            slip(delta_step, ("v - S.T @ k", "v - S.T @ q")),
            "The value belongs to one of the two vectors. At which of them can it be "
            "compared with what the memory says?",
        ),
    ),
    hint="Say the three acts one after another: what does the memory hold at the key, "
    "by how much is that off, and where does the difference go?",
    minutes=10,
    marks=2,
)


def delta_rule(q, k, v, beta, S):
    """The delta rule over a sequence, one token after another.

    q and k [T, d_k], v [T, d_v], beta [T], S [d_k, d_v] the state before the first
    token. Returns o [T, d_v] and the state after the last token, [d_k, d_v].
    """
    o = np.empty_like(v)
    for t in range(len(beta)):
        S = S + beta[t] * np.outer(k[t], v[t] - S.T @ k[t])
        o[t] = S.T @ q[t]
    return o, S


BY_TOKEN = ("q", "k", "v", "beta")
SEQUENCE = Exercise(
    key="07.delta-rule",
    title="The delta rule over a sequence",
    statement=r"""
Run the delta rule over $T$ tokens. Token $t$ writes the error of the state at $k_t$
with strength $\beta_t$, and is then answered: $o_t = S_t^\top q_t$ with the state after
its own write. The state $S$ that is handed in, $d_k \times d_v$, is the one before the
first token, and need not be zero.

Return all answers, $T \times d_v$, and the last state. With no tokens at all, $T = 0$,
there are no answers and the state is the one that came in. Do not write into what you
were given.
""",
    reference=delta_rule,
    returns=("o", "S"),
    draw=lambda rng, sizes: draws.sequence(rng, **sizes),
    shapes=draws.SEQUENCES,
    properties=(Values(), Untouched(), Causal(BY_TOKEN), PassesState(BY_TOKEN)),
    mistakes=(
        Mistake(
            "sign",
            slip(delta_rule, ("S = S +", "S = S -")),
            "Tell a memory one pair again and again. Where do its answers go?",
        ),
        Mistake(
            "reads before it writes",
            slip(
                delta_rule,
                ("        o[t] = S.T @ q[t]\n", ""),
                ("        S = S", "        o[t] = S.T @ q[t]\n        S = S"),
            ),
            "Look at one token from an empty state, with the query equal to the key. "
            "Should it be answered with zero?",
        ),
        Mistake(
            "starts from nothing",
            slip(delta_rule, ("    o = ", "    S = 0 * S\n    o = ")),
            "Cut a sequence in two. From what should the second half start?",
        ),
        Mistake(
            "all errors at the first state",
            slip(
                delta_rule,
                ("    o = ", "    first = S\n    o = "),
                ("v[t] - S.T", "v[t] - first.T"),
            ),
            "What does the second of two equal pairs find in the memory, if the first "
            "was written with strength 1?",
        ),
        Mistake(
            "one strength for all",
            slip(delta_rule, ("beta[t] *", "beta.mean() *")),
            "Let one token alone have strength 0. Which token then writes nothing?",
        ),
        Mistake(
            "nothing is erased",
            slip(delta_rule, ("v[t] - S.T @ k[t]", "v[t]")),
            "This adds. What does a memory say of a pair that it is told twice?",
        ),
        Mistake(
            "in place",
            slip(delta_rule, ("S = S + beta[t]", "S += beta[t]")),
            "The values are right, but the caller may still need the state that you "
            "were given. Does your loop make a new one?",
        ),
    ),
    hint="One token is three lines: read at the key, write the error, answer. In "
    "which order, and what does the next token start from?",
    minutes=15,
    marks=3,
)


def slope(k, v, S):
    """The slope, in S, of half the squared error at one pair.

    k [d_k], v [d_v], S [d_k, d_v]. Returns the slope, [d_k, d_v].
    """
    return np.outer(k, S.T @ k - v)


SLOPE = Exercise(
    key="07.slope",
    title="Input times error",
    statement=r"""
The loss of a state $S$, $d_k \times d_v$, on one pair is half the squared error,

$$\ell(S) = \tfrac{1}{2} \lVert S^\top k - v \rVert^2$$

Return its slope: the matrix, of the shape of $S$, of what the loss gains for each entry
of $S$ that grows. A step *against* it is the delta rule.
""",
    reference=slope,
    returns=("slope",),
    draw=lambda rng, sizes: draws.picked(draws.token(rng, **sizes), "k", "v", "S"),
    shapes=draws.ONE,
    properties=(
        Values(),
        Untouched(),
        Limit(
            "the slope is zero where the answer is right",
            here=known,
            wanted=lambda x: 0 * x["S"],
        ),
        Limit(
            "the slope is zero at a key of zeros",
            here=no_key,
            wanted=lambda x: 0 * x["S"],
        ),
    ),
    mistakes=(
        Mistake(
            "sign",
            slip(slope, ("S.T @ k - v", "v - S.T @ k")),
            "This is the way down. Which way does a slope point?",
        ),
        Mistake(
            "a factor of 2",
            slip(slope, ("np.outer", "2 * np.outer")),
            "By how much does the loss grow if a single entry grows by a thousandth? "
            "Read its first factor again.",
        ),
        Mistake(
            "a mean over the channels",
            slip(slope, ("S.T @ k - v", "(S.T @ k - v) / len(v)")),
            "Is the loss a sum over the channels of the value, or a mean?",
        ),
        Mistake(
            "transpose",
            slip(slope, ("k, S.T @ k - v", "S.T @ k - v, k")),
            "The entry in row i and column j takes part in one answer. In which, and "
            "by what is it multiplied there?",
        ),
        Mistake(
            "the value is not compared",
            slip(slope, ("S.T @ k - v", "-v")),
            "What is the slope where the answer is right already?",
        ),
    ),
    hint="The weight in row i and column j takes part in a single answer. What is it "
    "multiplied by there, and what is that answer charged with?",
    minutes=10,
    marks=2,
)


def error_after(k, v, passes):
    """The error that is left after so many passes of the delta rule over the pairs.

    k [N, d_k] with rows of length one, v [N, d_v], passes a whole number, 0 or more.
    Returns a number.
    """
    S = np.zeros((k.shape[1], v.shape[1]))
    for _ in range(passes):
        for key, value in zip(k, v, strict=True):
            S = S + np.outer(key, value - S.T @ key)
    return ((k @ S - v) ** 2).sum() / (v**2).sum()


def pairs(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Pairs with unit keys."""
    return {
        "k": draws.unit(rng, sizes["N"], sizes["d_k"]),
        "v": rng.standard_normal((sizes["N"], sizes["d_v"])),
        "passes": sizes["passes"],
    }


PASSES = Exercise(
    key="07.passes",
    label="ex-passes",
    title="How many passes?",
    statement=r"""
Let the delta rule read the same $N$ pairs several times, each time in their order, as
Kaczmarz's method reads the equations of a linear system. All writes have $\beta = 1$,
keys have length one, and the state is zero before the first pass.

Return the error that is left in the end. Ask the last state for all $N$ keys, add up
the squares of what is missing over all pairs and all channels, and divide by the same
sum for a memory that answers zero. So no pass at all gives 1.
""",
    reference=error_after,
    returns=("error",),
    draw=pairs,
    shapes=(
        {"N": 6, "d_k": 5, "d_v": 3, "passes": 1},
        {"N": 4, "d_k": 4, "d_v": 4, "passes": 3},
        {"N": 5, "d_k": 3, "d_v": 2, "passes": 2},
        {"N": 1, "d_k": 2, "d_v": 1, "passes": 1},
        {"N": 3, "d_k": 2, "d_v": 2, "passes": 0},
    ),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "an answer of zero has the error 1",
            here=lambda x: x | {"passes": 0},
            wanted=lambda x: 1.0,
        ),
        Limit(
            "keys at right angles need one pass",
            here=lambda x: (
                x | {"k": np.eye(*x["k"].shape), "passes": 1}
                if len(x["k"]) <= x["k"].shape[1]
                else None
            ),
            wanted=lambda x: 0.0,
        ),
    ),
    mistakes=(
        Mistake(
            "every pass starts anew",
            slip(
                error_after,
                ("    S = np.zeros((k.shape[1], v.shape[1]))\n", ""),
                (
                    "        for key",
                    "        S = np.zeros((k.shape[1], v.shape[1]))\n        for key",
                ),
                ("    for _", "    S = np.zeros((k.shape[1], v.shape[1]))\n    for _"),
            ),
            "This is the error after one pass, however many are asked for. What does "
            "the second pass find in the memory, and which pair does it read first?",
        ),
        Mistake(
            "a mean over the entries",
            slip(error_after, (".sum() / (v**2).sum()", ".mean()")),
            "What does your function say of a memory that always answers zero? An "
            "error needs its baseline beside it.",
        ),
        Mistake(
            "the values are added",
            slip(error_after, ("value - S.T @ key", "value")),
            "This adds. What would the error be after a thousand passes?",
        ),
        Mistake(
            "no square",
            slip(
                error_after,
                ("((k @ S - v) ** 2).sum()", "np.linalg.norm(k @ S - v)"),
                ("(v**2).sum()", "np.linalg.norm(v)"),
            ),
            "Is the error a length, or the square of one?",
        ),
    ),
    hint="The state goes on from pass to pass, and is asked only when the last pass "
    "is over. What has it to answer if there is no pass at all?",
    minutes=20,
    marks=3,
)

EXERCISES = (STEP, SEQUENCE, SLOPE, PASSES, WRITE)
