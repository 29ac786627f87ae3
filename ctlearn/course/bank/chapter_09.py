"""Exercises of chapter 9, gated delta rules."""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Causal, Limit, PassesState, Untouched, Values

BY_TOKEN = ("q", "k", "v", "log_decay", "beta")


def one(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """A token with a decay, and a state."""
    drawn = draws.token(rng, **sizes) | {
        "log_decay": float(draws.log_decays(rng, 1)[0])
    }
    return draws.picked(drawn, *BY_TOKEN, "S")


def several(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Tokens with decays, and a state before them."""
    decays = {"log_decay": draws.log_decays(rng, sizes["T"])}
    return draws.picked(draws.sequence(rng, **sizes) | decays, *BY_TOKEN, "S")


def unit_key(x: Inputs) -> Inputs:
    """The key has length one, and the query is the key."""
    return x | dict.fromkeys("qk", x["k"] / np.linalg.norm(x["k"]))


def gated_step(q, k, v, log_decay, beta, S):
    """One token of the gated delta rule.

    q and k [d_k], v [d_v], log_decay and beta numbers, S [d_k, d_v] the state before.
    Returns o [d_v], the answer to q, and the state after the token, [d_k, d_v].
    """
    S = np.exp(log_decay) * S
    S = S + beta * np.outer(k, v - S.T @ k)
    return S.T @ q, S


STEP = Exercise(
    key="09.gated-step",
    title="One gate, one error",
    statement=r"""
Write one token of the gated delta rule. First the whole state, $d_k \times d_v$, fades:
it is multiplied by $\alpha$, whose logarithm is `log_decay`, at most 0. What is left is
asked at the key $k$, and the error is written there with strength $\beta$. Last, the
query is answered: $o = S^\top q$ with the state after the write.

A `log_decay` of minus infinity forgets everything, and what comes out must be numbers.
Return $o$ and the new state, and leave the state you were given as it was.
""",
    reference=gated_step,
    returns=("o", "S"),
    draw=one,
    shapes=draws.ONE,
    properties=(
        Values(),
        Untouched(),
        Limit(
            "with nothing to forget it is the delta rule",
            here=lambda x: x | {"log_decay": 0.0},
        ),
        Limit(
            "a gate of zero clears the state before the write",
            # what a very small gate would leave of such a state cannot be overlooked
            here=lambda x: x | {"log_decay": -np.inf, "S": 1e300 * x["S"]},
        ),
        Limit(
            "at strength 1 and a key of length 1 it answers v, whatever the gate is",
            here=lambda x: unit_key(x) | {"beta": 1.0},
        ),
    ),
    mistakes=(
        Mistake(
            "reads before it fades",
            slip(
                gated_step,
                ("    S = np.exp(log_decay) * S\n", ""),
                ("S = S + beta", "S = np.exp(log_decay) * S + beta"),
            ),
            "Tell one pair twice at strength 1, with a gate of one half. Which state "
            "should be compared with the value: that before it has faded, or after?",
        ),
        Mistake(
            "the write fades, too",
            slip(
                gated_step,
                ("    S = np.exp(log_decay) * S\n", ""),
                ("S = S + ", "S = np.exp(log_decay) * (S + "),
                (".T @ k)", ".T @ k))"),
            ),
            "Tell a pair to an empty memory at strength 1. At which strength should "
            "it stand there afterwards?",
        ),
        Mistake(
            "a logarithm for a gate",
            slip(gated_step, ("np.exp(log_decay)", "log_decay")),
            "What is given is the logarithm of the gate. What gate has the logarithm "
            "0?",
        ),
        Mistake(
            "reads before it writes",
            slip(
                gated_step,
                ("    S = S + ", "    new = S + "),
                ("@ q, S", "@ q, new"),
            ),
            "Ask for the key that is being told, with strength 1. Should the answer "
            "be what was known before, or what has just been said?",
        ),
        Mistake(
            "nothing is erased",
            slip(gated_step, ("v - S.T @ k", "v")),
            "This is a fading sum. What does it say of a pair that it is told twice?",
        ),
        Mistake(
            "sign",
            slip(gated_step, ("S = S + ", "S = S - ")),
            "Tell an empty memory one pair. What does it answer?",
        ),
    ),
    hint="Three acts, each in a line of its own: fade, correct, answer. What does the "
    "second act find?",
    minutes=10,
    marks=2,
)


def gated_rule(q, k, v, log_decay, beta, S):
    """The gated delta rule over a sequence, one token after another.

    q and k [T, d_k], v [T, d_v], log_decay and beta [T], S [d_k, d_v] the state before
    the first token. Returns o [T, d_v] and the state after the last, [d_k, d_v].
    """
    o = np.empty_like(v)
    for t in range(len(log_decay)):
        S = np.exp(log_decay[t]) * S
        S = S + beta[t] * np.outer(k[t], v[t] - S.T @ k[t])
        o[t] = S.T @ q[t]
    return o, S


SEQUENCE = Exercise(
    key="09.gated-rule",
    title="The gated delta rule over a sequence",
    statement=r"""
Run the gated delta rule over $T$ tokens from the state $S$ that is handed in. At token
$t$ the state is multiplied by $\alpha_t$, whose logarithm is `log_decay[t]`; what is
left is compared with $v_t$ at $k_t$, and the error is written there with strength
$\beta_t$; and $o_t = S_t^\top q_t$ is answered after the write.

Minus infinity in `log_decay` begins a new document: nothing that was read before
reaches it. No tokens give no answers and the state that came in. Return all answers and
the last state. Do not write into what you were given.
""",
    reference=gated_rule,
    returns=("o", "S"),
    draw=several,
    shapes=draws.SEQUENCES,
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        PassesState(BY_TOKEN),
        Limit("a document is read as if it were alone", here=draws.cleared),
    ),
    mistakes=(
        Mistake(
            "reads before it fades",
            slip(
                gated_rule,
                ("        S = np.exp(log_decay[t]) * S\n", ""),
                ("S = S + beta", "S = np.exp(log_decay[t]) * S + beta"),
            ),
            "Tell one pair twice at strength 1, with a gate of one half. Which state "
            "should be compared with the value: that before it has faded, or after?",
        ),
        Mistake(
            "fades after it writes",
            slip(
                gated_rule,
                ("        S = np.exp(log_decay[t]) * S\n", ""),
                (
                    "        o[t] = S.T",
                    "        S = np.exp(log_decay[t]) * S\n        o[t] = S.T",
                ),
            ),
            "Does a token's own gate act on what that token writes?",
        ),
        Mistake(
            "the gate of the token before",
            slip(
                gated_rule, ("np.exp(log_decay[t])", "np.exp(log_decay[max(t - 1, 0)])")
            ),
            "Whose gate acts on the state that token t finds?",
        ),
        Mistake(
            "starts from nothing",
            slip(gated_rule, ("    o = ", "    S = 0 * S\n    o = ")),
            "Cut a sequence in two. From what should the second half start?",
        ),
        Mistake(
            "one gate for all",
            slip(gated_rule, ("np.exp(log_decay[t])", "np.exp(log_decay.mean())")),
            "If a new document begins at one token, what should those before it still "
            "find of what was read?",
        ),
        Mistake(
            "nothing is erased",
            slip(gated_rule, ("v[t] - S.T @ k[t]", "v[t]")),
            "This is a fading sum. What does it say of a pair that it is told twice?",
        ),
    ),
    hint="Fade, correct, answer, in this order, and each from what the last one left.",
    minutes=15,
    marks=3,
)


def decode(k, v, alpha, beta, S):
    """The state after one token of the gated delta rule.

    k [d_k], v [d_v], alpha in [0, 1] and beta numbers, S [d_k, d_v] the state before.
    Returns a new state [d_k, d_v].
    """
    faded = alpha * S
    return faded + beta * np.outer(k, v - faded.T @ k)


def decoded(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """A token with its gate as a number, and a state."""
    drawn = draws.token(rng, **sizes) | {"alpha": rng.uniform(0.2, 0.9)}
    return draws.picked(drawn, "k", "v", "alpha", "beta", "S")


ONE_LINE = Exercise(
    key="09.one-line",
    label="ex-one-line",
    title="One line too few",
    statement=r"""
A colleague writes a token of the gated delta rule in one line, for decoding. It agrees
with the form in chunks on random keys without decay, and with decay on keys at right
angles. But a model that is trained in chunks answers differently when it decodes. Mend
it.

The state $S$, $d_k \times d_v$, fades first: it is multiplied by $\alpha$. What is left
is asked at the key, and what it gets wrong of $v$ is written there with strength
$\beta$. Return the new state and leave the one you were given as it was.
""",
    reference=decode,
    returns=("S",),
    draw=decoded,
    shapes=draws.ONE,
    properties=(
        Values(),
        Untouched(),
        Limit(
            "where nothing fades, a pair that is known is not written again",
            here=lambda x: x | {"alpha": 1.0, "v": x["S"].T @ x["k"]},
            wanted=lambda x: x["S"],
        ),
        Limit(
            "a write of strength 0 leaves the state to fade",
            here=lambda x: x | {"beta": 0.0},
            wanted=lambda x: x["alpha"] * x["S"],
        ),
        Limit(
            "a gate of zero clears what was there",
            here=lambda x: x | {"alpha": 0.0},
            wanted=lambda x: x["beta"] * np.outer(x["k"], x["v"]),
        ),
    ),
    mistakes=(
        Mistake(
            "reads before it fades",
            slip(
                decode,
                ("    faded = alpha * S\n", ""),
                (
                    "faded + beta * np.outer(k, v - faded.T @ k)",
                    "alpha * S + beta * np.outer(k, v - S.T @ k)",
                ),
            ),
            "At which moment does the right side read the state? Tell a memory the "
            "same pair twice.",
        ),
        Mistake(
            "the write fades, too",
            slip(
                decode,
                (
                    "faded + beta * np.outer(k, v - faded.T @ k)",
                    "alpha * (S + beta * np.outer(k, v - S.T @ k))",
                ),
            ),
            "Tell a pair to an empty memory at strength 1. At which strength should "
            "it stand there afterwards?",
        ),
        Mistake(
            "what is asked has faded twice",
            slip(decode, ("v - faded.T @ k", "v - alpha * faded.T @ k")),
            "How often does the gate act on the old answer before it is compared?",
        ),
        Mistake(
            "nothing fades",
            slip(decode, ("alpha * S", "S")),
            "What is left of the state after a token of strength 0?",
        ),
        Mistake(
            "nothing is erased",
            slip(decode, ("v - faded.T @ k", "v")),
            "This is a fading sum. What does it say of a pair that it is told twice?",
        ),
    ),
    begins="reads before it fades",
    hint="Tell one pair twice at a unit key, with a gate of one half and full "
    "strength. Which answer does not depend on the gate?",
    minutes=10,
    marks=2,
)


def fading_first(v, log_decay, beta):
    """Values and strengths with which a memory that fades first does the same.

    v [T, d_v], log_decay [T], above minus infinity, and beta [T] are those of a memory
    that reads first. Returns v [T, d_v] and beta [T] for one that fades first.
    """
    alpha = np.exp(log_decay)
    return alpha[:, None] * v, beta / alpha


BRIDGE = Exercise(
    key="09.bridge",
    title="A bridge between two orders",
    statement=r"""
One memory compares before it fades,

$$R_t = \alpha_t R_{t-1} + \beta_t k_t (v_t - R_{t-1}^\top k_t)^\top$$

and another fades first: $\bar{S}_t = \alpha_t S_{t-1}$, then
$S_t = \bar{S}_t + \beta'_t k_t (v'_t - \bar{S}_t^\top k_t)^\top$. The decays are one
number a token, given as logarithms, and never zero. Return the values $v'$,
$T \times d_v$, and the strengths $\beta'$, $T$ numbers, with which the second, at the
same keys and decays and from the same state, makes the same states as the first. There
may be no token.
""",
    reference=fading_first,
    returns=("v", "beta"),
    draw=lambda rng, sizes: draws.picked(several(rng, sizes), "v", "log_decay", "beta"),
    shapes=draws.SEQUENCES,
    properties=(
        Values(),
        Untouched(),
        Limit(
            "where nothing fades, the two are one",
            here=lambda x: x | {"log_decay": 0 * x["log_decay"]},
            wanted=lambda x: (x["v"], x["beta"]),
        ),
    ),
    mistakes=(
        Mistake(
            "the wrong way across",
            slip(
                fading_first,
                (
                    "alpha[:, None] * v, beta / alpha",
                    "v / alpha[:, None], alpha * beta",
                ),
            ),
            "This makes a memory that reads first of one that fades first. What is "
            "subtracted in each of the two, in terms of the state before the token?",
        ),
        Mistake(
            "the values as they are",
            slip(fading_first, ("alpha[:, None] * v", "v")),
            "Now the erasures agree. Compare what the two write from an empty state.",
        ),
        Mistake(
            "the strengths as they are",
            slip(fading_first, ("beta / alpha", "beta")),
            "Write values of zero. Do the two erase the same share of the old answer?",
        ),
        Mistake(
            "logarithms for decays",
            slip(fading_first, ("np.exp(log_decay)", "log_decay")),
            "What is given is the logarithm of a decay. Which one has the logarithm 0?",
        ),
    ),
    hint="Multiply both out, and compare what stands before the old state, then what "
    "stands before the value.",
    minutes=15,
    marks=2,
)


def as_second_rule(v, log_decay, beta):
    """Gates with which gated delta rule 2 is Kimi delta attention that reads first.

    v [T, d_v], log_decay [T, d_k], above minus infinity, and beta [T]. Returns the
    erase gate b [T, d_k] and the write gate w [T, d_v].
    """
    rate = beta[:, None]
    return rate / np.exp(log_decay), rate + np.zeros_like(v)


def by_channel(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Values, a decay for each channel of the key, and strengths."""
    drawn = draws.tokens(rng, **sizes)
    decays = {"log_decay": draws.log_decays(rng, sizes["T"], sizes["d_k"])}
    return draws.picked(drawn | decays, "v", "log_decay", "beta")


SECOND = Exercise(
    key="09.second-rule",
    label="ex-read-first-on-the-second",
    title="Another order on the same plan",
    statement=r"""
You have a fast form of gated delta rule 2,

$$
S_t = (I - k_t (b_t \odot k_t)^\top)\, \mathrm{Diag}(\alpha_t) S_{t-1}
+ k_t (w_t \odot v_t)^\top
$$

with an erase gate $b_t$ for the channels of the key and a write gate $w_t$ for those of
the value. You need Kimi delta attention that reads first,

$$
R_t = (\mathrm{Diag}(\alpha_t) - \beta_t k_t k_t^\top) R_{t-1} + \beta_t k_t v_t^\top
$$

Return $b$, $T \times d_k$, and $w$, $T \times d_v$, with which the first computes the
second, at the same keys, values and decays. The decays are given as logarithms, and
none of them is zero. The gates may leave $[0, 1]$, and there may be no token.
""",
    reference=as_second_rule,
    returns=("b", "w"),
    draw=by_channel,
    shapes=draws.SEQUENCES,
    properties=(
        Values(),
        Untouched(),
        Limit(
            "where nothing fades, both gates are the strength",
            here=lambda x: x | {"log_decay": 0 * x["log_decay"]},
        ),
        Limit(
            "at strength 0 nothing is erased and nothing written",
            here=lambda x: x | {"beta": 0 * x["beta"]},
            wanted=lambda x: (0 * x["log_decay"], 0 * x["v"]),
        ),
    ),
    mistakes=(
        Mistake(
            "the order is ignored",
            slip(as_second_rule, ("rate / np.exp(log_decay)", "rate + 0 * log_decay")),
            "These gates make Kimi delta attention, but in which order does it read?",
        ),
        Mistake(
            "the decay upside down",
            slip(as_second_rule, ("rate / np.exp", "rate * np.exp")),
            "The state that this rule erases from has faded already. Must the gate "
            "make up for that, or repeat it?",
        ),
        Mistake(
            "everything is written",
            slip(as_second_rule, ("rate + np.zeros_like(v)", "np.ones_like(v)")),
            "What does a token of strength 0 write?",
        ),
        Mistake(
            "the write gate makes up for the decay, too",
            slip(
                as_second_rule,
                (
                    "rate + np.zeros_like(v)",
                    "rate / np.exp(log_decay).mean(axis=1, keepdims=True) + "
                    "np.zeros_like(v)",
                ),
            ),
            "A value is written after everything has faded. Which decays does it meet?",
        ),
    ),
    hint="Compare what stands before the old state. The row along which the second "
    "rule erases meets the decays before it meets the state.",
    minutes=15,
    marks=2,
)


def gated_chunk(q, k, v, log_decay, beta, S):
    """One chunk of the gated delta rule, with no loop over its tokens.

    q and k [C, d_k], v [C, d_v], log_decay and beta [C], S [d_k, d_v] the state before
    the chunk. Returns o [C, d_v] and the state after the chunk, [d_k, d_v].
    """
    G = np.cumsum(log_decay)
    D = np.tril(np.exp(G[:, None] - G))
    left, rate = np.exp(G)[:, None], beta[:, None]
    L = np.tril(rate * (k @ k.T) * D, -1)
    U = np.linalg.solve(np.eye(len(D)) + L, rate * (v - left * (k @ S)))
    o = left * (q @ S) + (q @ k.T * D) @ U
    return o, left[-1] * S + (D[-1:].T * k).T @ U


CHUNK = Exercise(
    key="09.gated-chunk",
    title="A chunk with decay",
    statement=r"""
Compute one chunk of the gated delta rule from the state $S$ before it. With $\gamma_t$
for what is left of that state at token $t$, and $D_{ij}$ for what is left of token
$j$'s write when token $i$ reads, the writes solve

$$
(I + \mathrm{tril}(\mathrm{Diag}(\beta) K K^\top \odot D, -1)) U
= \mathrm{Diag}(\beta) (V - \mathrm{Diag}(\gamma) K S)
$$

Every token fades first, then writes, then answers. Return the answers, $C \times d_v$,
and the state after the chunk. The chunk has one token at least, and no decay is so
strong that a ratio of two products of decays would overflow. Do not write into what you
were given.
""",
    reference=gated_chunk,
    returns=("o", "S"),
    draw=several,
    shapes=draws.SEQUENCES[:3],
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        Limit(
            "where nothing fades it is a chunk of the delta rule",
            here=lambda x: x | {"log_decay": 0 * x["log_decay"]},
        ),
        Limit(
            "at strength 0 the state fades, and that is all",
            here=lambda x: x | {"beta": 0 * x["beta"]},
        ),
    ),
    mistakes=(
        Mistake(
            "a plain mask in the answers",
            slip(gated_chunk, ("(q @ k.T * D) @ U", "np.tril(q @ k.T) @ U")),
            "A write has faded when a later token of the chunk asks for it. Where "
            "does your answer know of that? Some papers print it without, too.",
        ),
        Mistake(
            "a plain mask in the system",
            slip(
                gated_chunk,
                ("np.tril(rate * (k @ k.T) * D, -1)", "np.tril(rate * (k @ k.T), -1)"),
            ),
            "How much of an earlier write does a token find at its key, and have to "
            "take off?",
        ),
        Mistake(
            "the strength in the columns",
            slip(gated_chunk, ("rate * (k @ k.T) * D", "beta * (k @ k.T) * D")),
            "Along which axis does NumPy stretch the strengths? A token of strength 0 "
            "must not write anything, whatever its neighbours do.",
        ),
        Mistake(
            "the state of the chunk before does not fade",
            slip(gated_chunk, ("rate * (v - left * (k @ S))", "rate * (v - k @ S)")),
            "With what is left of the state does the last token of the chunk compare "
            "its value?",
        ),
        Mistake(
            "writes do not fade on the way out",
            slip(gated_chunk, ("(D[-1:].T * k).T @ U", "k.T @ U")),
            "Hand the state on after the first of two tokens. Has its write faded "
            "when the second is done?",
        ),
        Mistake(
            "the state is handed on unfaded",
            slip(gated_chunk, ("left[-1] * S", "S")),
            "What is left of the old state after the last token?",
        ),
        Mistake(
            "the decay upside down",
            slip(gated_chunk, ("G[:, None] - G", "G - G[:, None]")),
            "What is left of something is less than it was. Are your shares below 1?",
        ),
    ),
    hint="Look at the chunk without decay, and ask of each product of two things how "
    "much has faded between the moments at which they happen.",
    minutes=30,
    marks=4,
)

EXERCISES = (STEP, SEQUENCE, BRIDGE, CHUNK, SECOND, ONE_LINE)
