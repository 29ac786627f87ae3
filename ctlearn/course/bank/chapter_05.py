"""Exercises of chapter 5, forgetting."""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import Causal, Limit, PassesState, Untouched, Values

BY_TOKEN = ("q", "k", "v", "log_decay")


def several(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Tokens with a decay each, and a state before them."""
    decays = {"log_decay": draws.log_decays(rng, sizes["T"])}
    return draws.picked(draws.sequence(rng, **sizes) | decays, *BY_TOKEN, "S")


def no_decay(x: Inputs) -> Inputs:
    """Nothing fades."""
    return x | {"log_decay": np.zeros_like(x["log_decay"])}


def gated_memory(q, k, v, log_decay, S):
    """A memory that is dimmed by one number before each token writes.

    q and k [T, d_k], v [T, d_v], log_decay [T], S [d_k, d_v] the state before the
    first token. Returns o [T, d_v] and the state after the last token, [d_k, d_v].
    """
    o = np.empty_like(v)
    for t in range(len(log_decay)):
        S = np.exp(log_decay[t]) * S + np.outer(k[t], v[t])
        o[t] = S.T @ q[t]
    return o, S


MEMORY = Exercise(
    key="05.gated-memory",
    title="One number that dims everything",
    statement=r"""
Before a token writes, its gate $\alpha_t$ multiplies the whole state:

$$S_t = \alpha_t S_{t-1} + k_t v_t^\top, \qquad o_t = S_t^\top q_t$$

The gates, from 0 to 1, are given by their logarithms, in which minus infinity is a gate
of zero. Run it over $T$ tokens from the state $S$ that is handed in, and return all
answers, $T \times d_v$, and the last state. No tokens leave the state as it came. Do
not write into what you were given.
""",
    reference=gated_memory,
    returns=("o", "S"),
    draw=several,
    shapes=draws.SEQUENCES,
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        PassesState(BY_TOKEN),
        Limit("a gate of zero begins anew", here=draws.cleared),
        Limit("with gates of one it is linear attention", here=no_decay),
    ),
    mistakes=(
        Mistake(
            "a token's own write fades",
            slip(
                gated_memory,
                ("* S + np.outer(k[t], v[t])", "* (S + np.outer(k[t], v[t]))"),
            ),
            "At which strength does a pair enter, if its own gate is small?",
        ),
        Mistake(
            "a logarithm for a gate",
            slip(gated_memory, ("np.exp(log_decay[t])", "log_decay[t]")),
            "What is given is the logarithm of the gate. What gate has the logarithm "
            "0?",
        ),
        Mistake(
            "all gates so far",
            slip(gated_memory, ("log_decay[t])", "log_decay[: t + 1].sum())")),
            "By which gates has the state been multiplied already when token t comes?",
        ),
        Mistake(
            "reads before it writes",
            slip(
                gated_memory,
                ("        o[t] = S.T @ q[t]\n", ""),
                ("        S = np", "        o[t] = S.T @ q[t]\n        S = np"),
            ),
            "Is a token's answer to know of its own pair? Look at the first token.",
        ),
        Mistake(
            "the write is shared out",
            slip(
                gated_memory,
                ("S + np.outer", "S + (1 - np.exp(log_decay[t])) * np.outer"),
            ),
            "This is a running mean, as in models that tie the write to the gate. Is "
            "anything tied here?",
        ),
        Mistake(
            "one gate for all",
            slip(gated_memory, ("np.exp(log_decay[t])", "np.exp(log_decay.mean())")),
            "If one token alone has a gate of zero, what reaches the token after it?",
        ),
        Mistake(
            "starts from nothing",
            slip(gated_memory, ("    o = ", "    S = 0 * S\n    o = ")),
            "Cut a sequence in two. From what should the second half start?",
        ),
    ),
    hint="Which of the two acts comes first at a token, and which of them does its "
    "own gate touch?",
    minutes=10,
    marks=2,
)


def decay_mask(log_decay):
    """What is left of each token's write when a later token reads.

    log_decay [T], each at most 0 or minus infinity. Returns D [T, T]; its row is the
    token that reads, its column the one that wrote.
    """
    D = np.zeros((len(log_decay), len(log_decay)))
    for j in range(len(log_decay)):
        D[j:, j] = np.exp(np.cumsum(np.append(0.0, log_decay[j + 1 :])))
    return D


def gates(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Weak gates, very strong ones among them, and some of zero."""
    T = sizes["T"]
    log_decay = draws.log_decays(rng, T)
    log_decay[1::5] = -rng.uniform(300, 900, len(log_decay[1::5]))
    log_decay[3::7] = -1e12
    log_decay[6::9] = -np.inf
    return {"log_decay": log_decay}


def inside(name: str, old: str, new: str, says: str) -> Mistake:
    """A mistake in what is summed between two tokens."""
    return Mistake(name, slip(decay_mask, (old, new)), says)


LOOP = """\
    D = np.zeros((len(log_decay), len(log_decay)))
    for j in range(len(log_decay)):
        D[j:, j] = np.exp(np.cumsum(np.append(0.0, log_decay[j + 1 :])))
"""
MASK = Exercise(
    key="05.mask",
    label="ex-mask-bug",
    title="A mask that works until it matters",
    statement=r"""
A colleague computes the decay mask of a memory with gates: for $i \ge j$ the entry
$D_{ij}$ is the product of the gates of the tokens $j+1, \dots, i$, which is what is
left of token $j$'s write when token $i$ reads, and above the diagonal it is zero. Her
tests, on gates near 1, pass. Mend it.

The gates are given as logarithms, from 0 down. Some are very strong, and the strongest
is minus infinity, a gate of zero. For all of them the mask must hold numbers between 0
and 1, and a weak gate must count in full, however strong a gate stands before it. The
diagonal is 1. There may be no token.
""",
    reference=decay_mask,
    returns=("D",),
    draw=gates,
    shapes=({"T": 16}, {"T": 7}, {"T": 3}, {"T": 1}, {"T": 0}),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "with gates of one it is the causal mask",
            here=no_decay,
            wanted=lambda x: np.tril(np.ones((len(x["log_decay"]),) * 2)),
        ),
        Limit(
            "weak gates make no trouble",
            here=lambda x: x | {"log_decay": np.maximum(x["log_decay"], -0.2)},
        ),
    ),
    mistakes=(
        Mistake(
            "masks after the exponential",
            slip(
                decay_mask,
                (
                    LOOP,
                    "    T, G = len(log_decay), np.cumsum(log_decay)\n"
                    "    causal = np.tril(np.ones((T, T)))\n"
                    "    D = np.exp(G[:, None] - G[None, :]) * causal\n",
                ),
            ),
            "What stands above the diagonal before the mask is applied? And what is "
            "infinity times zero, or minus infinity less minus infinity?",
        ),
        Mistake(
            "a difference of running sums",
            slip(
                decay_mask,
                (
                    LOOP,
                    "    G, i = np.cumsum(log_decay), np.arange(len(log_decay))\n"
                    "    later = i[:, None] >= i\n"
                    "    D = np.exp(np.where(later, G[:, None] - G, -np.inf))\n",
                ),
            ),
            "Nothing overflows any more. But how many digits of a weak gate are left "
            "in a running sum that has passed a strong one, and what is the "
            "difference of two infinities?",
        ),
        inside(
            "a token's own gate counts",
            "np.append(0.0, log_decay[j + 1 :])",
            "log_decay[j:]",
            "Does the gate of the token that wrote act on what it has just written? "
            "Look at the diagonal.",
        ),
        inside(
            "the reader's own gate is left out",
            "np.append(0.0, log_decay[j + 1 :])",
            "np.append([0.0, 0.0], log_decay[j + 1 :])[: len(log_decay) - j]",
            "Has the state faded by the gate of the token that reads, when it reads?",
        ),
        inside(
            "transpose",
            "D[j:, j]",
            "D[j, j:]",
            "Which token reads and which has written, in row i and column j?",
        ),
    ),
    begins="masks after the exponential",
    hint="Two inputs break it: one overflows above the diagonal, the other is a gate "
    "of zero. Over which tokens does the sum run, if it runs over nothing else?",
    minutes=20,
    marks=3,
)


def gated_chunk(q, k, v, log_decay, S):
    """One chunk of a memory with a gate, with no loop over its tokens.

    q and k [C, d_k], v [C, d_v], log_decay [C], S [d_k, d_v] the state before the
    chunk. Returns o [C, d_v] and the state after the chunk, [d_k, d_v].
    """
    G = np.cumsum(log_decay)
    D = np.tril(np.exp(G[:, None] - G))
    left = np.exp(G)[:, None]
    o = left * (q @ S) + (q @ k.T * D) @ v
    return o, left[-1] * S + (D[-1:].T * k).T @ v


CHUNK = Exercise(
    key="05.chunk",
    title="A chunk of a fading memory",
    statement=r"""
Compute one chunk of the memory $S_t = \alpha_t S_{t-1} + k_t v_t^\top$,
$o_t = S_t^\top q_t$ without a loop over its tokens. With $\gamma_t$ for what is left at
token $t$ of the state $S$ before the chunk, and $D_{ij}$ for what is left of token
$j$'s write when token $i$ reads, or zero where $j$ comes after $i$,

$$O = \mathrm{Diag}(\gamma) Q S + (Q K^\top \odot D) V$$

Return the answers, $C \times d_v$, and the state after the chunk. The gates are given
as logarithms; the chunk has one token at least, and no gate is so strong that a ratio
of two products of gates would overflow. Do not write into what you were given.
""",
    reference=gated_chunk,
    returns=("o", "S"),
    draw=several,
    shapes=draws.SEQUENCES[:3],
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        Limit("with gates of one it is linear attention", here=no_decay),
        Limit(
            "keys of zeros leave the state to fade",
            here=lambda x: x | {"k": 0 * x["k"]},
            wanted=None,
        ),
    ),
    mistakes=(
        Mistake(
            "writes do not fade on the way out",
            slip(gated_chunk, ("(D[-1:].T * k).T @ v", "k.T @ v")),
            "Hand the state on after two tokens. Has the first one's write faded when "
            "the second is done?",
        ),
        Mistake(
            "the old state is handed on unfaded",
            slip(gated_chunk, ("left[-1] * S", "S")),
            "What is left of the state before the chunk after its last token?",
        ),
        Mistake(
            "the old state is read unfaded",
            slip(gated_chunk, ("left * (q @ S)", "q @ S")),
            "What does the last token of the chunk find of the state before it?",
        ),
        Mistake(
            "a plain mask",
            slip(gated_chunk, ("(q @ k.T * D) @ v", "np.tril(q @ k.T) @ v")),
            "A write has faded when a later token of the chunk asks for it. Where "
            "does your answer know of that?",
        ),
        Mistake(
            "a token's own gate acts on its write",
            slip(gated_chunk, ("G[:, None] - G)", "G[:, None] - G + log_decay)")),
            "At which strength does a token's own pair enter its answer?",
        ),
        Mistake(
            "the decay upside down",
            slip(gated_chunk, ("G[:, None] - G", "G - G[:, None]")),
            "What is left of something is less than it was. Are your shares below 1?",
        ),
    ),
    hint="A pair of tokens is a product of two things that happen at two moments. "
    "Which gates act between them?",
    minutes=20,
    marks=3,
)


def vector_gate(q, k, v, log_decay, S):
    """A memory in which every channel of the key fades at a rate of its own.

    q and k [T, d_k], v [T, d_v], log_decay [T, d_k], S [d_k, d_v] the state before the
    first token. Returns o [T, d_v] and the state after the last token, [d_k, d_v].
    """
    o = np.empty_like(v)
    for t in range(len(log_decay)):
        S = np.exp(log_decay[t])[:, None] * S + np.outer(k[t], v[t])
        o[t] = S.T @ q[t]
    return o, S


def by_channel(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Tokens with a decay for each channel of the key, and a state before them."""
    decays = {"log_decay": draws.log_decays(rng, sizes["T"], sizes["d_k"])}
    return draws.picked(draws.sequence(rng, **sizes) | decays, *BY_TOKEN, "S")


CHANNELS = Exercise(
    key="05.channels",
    title="A rate for each channel",
    statement=r"""
Give each channel of the key a gate of its own:
$S_t = \mathrm{Diag}(\alpha_t) S_{t-1} + k_t v_t^\top$ with $\alpha_t \in [0, 1]^{d_k}$,
given by logarithms, and $o_t = S_t^\top q_t$. The rows of the state belong to the key.
Return all answers, $T \times d_v$, and the last state, from the state that is handed
in. No tokens leave it as it came. It must be right where $d_k = d_v$, too. Do not write
into what you were given.
""",
    reference=vector_gate,
    returns=("o", "S"),
    draw=by_channel,
    shapes=draws.SEQUENCES,
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        PassesState(BY_TOKEN),
        Limit("a gate of zero begins anew", here=draws.cleared),
    ),
    mistakes=(
        Mistake(
            "the columns fade",
            slip(
                vector_gate, ("np.exp(log_decay[t])[:, None]", "np.exp(log_decay[t])")
            ),
            "Along which axis does NumPy stretch a vector, and to what do the columns "
            "of the state belong? An error message comes only where the sizes differ.",
        ),
        Mistake(
            "one rate for the token",
            slip(
                vector_gate,
                ("np.exp(log_decay[t])[:, None]", "np.exp(log_decay[t].mean())"),
            ),
            "Let one channel forget everything and another nothing. What is left of a "
            "fact?",
        ),
        Mistake(
            "a token's own write fades",
            slip(
                vector_gate,
                ("* S + np.outer(k[t], v[t])", "* (S + np.outer(k[t], v[t]))"),
            ),
            "At which strength does a pair enter, if its own gates are small?",
        ),
        Mistake(
            "the write is shared out",
            slip(
                vector_gate,
                ("np.outer(k[t], v[t])", "np.outer(1 - np.exp(log_decay[t]), v[t])"),
            ),
            "This ties the key to the gate, as HGRN2 does. What is the key here?",
        ),
        Mistake(
            "reads before it writes",
            slip(
                vector_gate,
                ("        o[t] = S.T @ q[t]\n", ""),
                ("        S = np", "        o[t] = S.T @ q[t]\n        S = np"),
            ),
            "Is a token's answer to know of its own pair? Look at the first token.",
        ),
    ),
    hint="To a reader it is as if the question had been asked more softly in the "
    "channels that fade. Which axis of the state is that?",
    minutes=15,
    marks=2,
)


def pack(q_1, v_1, log_decay_1, q_2, v_2, log_decay_2):
    """Two documents in one row for HGRN2, the second as if it were alone.

    q_1 [T_1, d_k], v_1 [T_1, d_v], log_decay_1 [T_1, d_k] of the first, and q_2, v_2,
    log_decay_2 of the second, with T_2 tokens. Returns q, v and log_decay of the row.
    """
    gap = np.zeros((1, q_1.shape[1]))
    q = np.concatenate([q_1, gap, q_2])
    v = np.concatenate([v_1, np.zeros((1, v_1.shape[1])), v_2])
    return q, v, np.concatenate([log_decay_1, gap - np.inf, log_decay_2])


def two_documents(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Queries, values and gates of two documents."""
    d_k, d_v = sizes["d_k"], sizes["d_v"]
    drawn = {}
    for n in (1, 2):
        T = sizes[f"T_{n}"]
        drawn[f"q_{n}"] = rng.standard_normal((T, d_k))
        drawn[f"v_{n}"] = rng.standard_normal((T, d_v))
        drawn[f"log_decay_{n}"] = draws.log_decays(rng, T, d_k)
    return drawn


PACK = Exercise(
    key="05.pack",
    label="ex-pack",
    title="Pack two documents",
    statement=r"""
HGRN2 keeps a share $\alpha_t$ of each row of its state and has no other key than what
it forgets: $S_t = \mathrm{Diag}(\alpha_t) S_{t-1} + (1 - \alpha_t) v_t^\top$, read as
$o_t = S_t^\top q_t$. Put two documents into one row, so that every token of either is
answered as if its document had been read alone, from an empty state. Change no token of
a document.

Return the queries, values and gates of the row, the gates as logarithms, in which minus
infinity is a gate of zero. Add as few tokens as it takes where both documents have
some, and just as many where one of them has none. Give a token that belongs to neither
document a query of zeros.
""",
    reference=pack,
    returns=("q", "v", "log_decay"),
    draw=two_documents,
    shapes=(
        {"T_1": 4, "T_2": 3, "d_k": 3, "d_v": 2},
        {"T_1": 2, "T_2": 5, "d_k": 2, "d_v": 2},
        {"T_1": 1, "T_2": 1, "d_k": 1, "d_v": 3},
        {"T_1": 0, "T_2": 2, "d_k": 2, "d_v": 1},
        {"T_1": 3, "T_2": 0, "d_k": 2, "d_v": 1},
    ),
    properties=(Values(), Untouched()),
    mistakes=(
        Mistake(
            "a gate of zero at the first token",
            slip(
                pack,
                (
                    "    gap = np.zeros((1, q_1.shape[1]))\n",
                    "    first = np.arange(len(q_2))[:, None] == 0\n",
                ),
                ("q_1, gap, q_2", "q_1, q_2"),
                ("v_1, np.zeros((1, v_1.shape[1])), v_2", "v_1, v_2"),
                (
                    "log_decay_1, gap - np.inf, log_decay_2",
                    "log_decay_1, np.where(first, -np.inf, log_decay_2)",
                ),
            ),
            "In this model the gate of a token is also its key. What does the first "
            "token of the second document write with a gate of zero?",
        ),
        Mistake(
            "nothing between the documents",
            slip(
                pack,
                ("q_1, gap, q_2", "q_1, q_2"),
                ("v_1, np.zeros((1, v_1.shape[1])), v_2", "v_1, v_2"),
                ("log_decay_1, gap - np.inf, log_decay_2", "log_decay_1, log_decay_2"),
            ),
            "What does the second document hear of the first?",
        ),
        Mistake(
            "nothing beside an empty document",
            slip(
                pack,
                ("gap = np.zeros((1,", "gap = np.zeros((min(1, len(q_1), len(q_2)),"),
                ("np.zeros((1, v_1", "np.zeros((len(gap), v_1"),
            ),
            "Two documents that have tokens are packed rightly. How many tokens does "
            "the statement want where one has none?",
        ),
        Mistake(
            "a gate of one between them",
            slip(pack, ("gap - np.inf", "gap")),
            "What is the gate whose logarithm is 0? Does it forget?",
        ),
        Mistake(
            "the token in between writes",
            slip(pack, ("np.zeros((1, v_1.shape[1]))", "np.ones((1, v_1.shape[1]))")),
            "With a gate of zero the key is one in every channel. What must be "
            "written there, so that nothing is left?",
        ),
        Mistake(
            "the token stands in front of both",
            slip(
                pack,
                ("q_1, gap, q_2", "gap, q_1, q_2"),
                (
                    "v_1, np.zeros((1, v_1.shape[1])), v_2",
                    "np.zeros((1, v_1.shape[1])), v_1, v_2",
                ),
                (
                    "log_decay_1, gap - np.inf, log_decay_2",
                    "gap - np.inf, log_decay_1, log_decay_2",
                ),
            ),
            "The row begins with an empty state anyway. Where is there something to "
            "clear?",
        ),
    ),
    hint="Which token may clear the state, if no token of a document may be changed? "
    "And what does a token with this gate write?",
    minutes=15,
    marks=3,
)

EXERCISES = (MEMORY, CHUNK, CHANNELS, PACK, MASK)
