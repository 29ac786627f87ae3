"""Exercises of chapter 8, the delta rule in parallel."""

import numpy as np

from ctlearn.course.bank import draws
from ctlearn.course.exercise import Exercise, Inputs, Mistake, Sizes, slip
from ctlearn.course.properties import (
    Causal,
    Limit,
    PassesState,
    Unchanged,
    Untouched,
    Values,
)

CHUNKS = (
    {"T": 6, "d_k": 4, "d_v": 2, "chunk_size": 3},
    {"T": 8, "d_k": 3, "d_v": 3, "chunk_size": 4},
    {"T": 3, "d_k": 2, "d_v": 3, "chunk_size": 3},
    {"T": 2, "d_k": 3, "d_v": 1, "chunk_size": 1},
    {"T": 1, "d_k": 1, "d_v": 2, "chunk_size": 1},
)


def idle_last(x: Inputs) -> Inputs | None:
    """The last of some tokens has the strength 0."""
    return x | {"beta": np.append(x["beta"][:-1], 0.0)} if len(x["beta"]) else None


def ones(x: Inputs) -> Inputs:
    """A chunk for each token."""
    return x | {"chunk_size": 1}


def whole_chunks(rng: np.random.Generator, sizes: Sizes, *names: str) -> Inputs:
    """Tokens that fill their chunks, and the size of a chunk."""
    drawn = draws.in_chunks(draws.tokens, rng, sizes)
    return draws.picked(drawn, *names, "chunk_size")


def combine(A_1, B_1, A_2, B_2):
    """Two steps of a state as one: first S = A_1 S + B_1, then S = A_2 S + B_2.

    A_1 and A_2 [d_k, d_k], B_1 and B_2 [d_k, d_v]. Returns A [d_k, d_k] and
    B [d_k, d_v] with which S = A S + B does what both do.
    """
    return A_2 @ A_1, A_2 @ B_1 + B_2


def two_steps(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """Transitions that are not symmetric, and writes, both at random."""
    d_k, d_v = sizes["d_k"], sizes["d_v"]
    k, w = draws.keys(rng, 2, d_k), draws.keys(rng, 2, d_k)
    A = np.eye(d_k) - k[:, :, None] * w[:, None]
    B = rng.standard_normal((2, d_k, d_v))
    return {"A_1": A[0], "B_1": B[0], "A_2": A[1], "B_2": B[1]}


COMBINE = Exercise(
    key="08.combine",
    title="Two steps as one",
    statement=r"""
A token multiplies the state by a matrix and then adds one: $S_1 = A_1 S_0 + B_1$. The
next token does $S_2 = A_2 S_1 + B_2$. Return the pair $(A, B)$ with which one step,
$S_2 = A S_0 + B$, does what the two do. The transitions are matrices of any kind: they
need not commute, nor be symmetric as the delta rule's are.
""",
    reference=combine,
    returns=("A", "B"),
    draw=two_steps,
    shapes=draws.ONE,
    properties=(
        Values(),
        Untouched(),
        Limit(
            "a second step that clears the state leaves only what it adds",
            here=lambda x: x | {"A_2": 0 * x["A_2"]},
            wanted=lambda x: (0 * x["A_1"], x["B_2"]),
        ),
        Limit(
            "a first step that does nothing leaves the second",
            here=lambda x: (
                x | {"A_1": np.eye(len(x["A_1"])), "B_1": np.zeros_like(x["B_1"])}
            ),
            wanted=lambda x: (x["A_2"], x["B_2"]),
        ),
    ),
    mistakes=(
        Mistake(
            "the rule for numbers",
            slip(combine, ("A_2 @ A_1,", "A_1 @ A_2,")),
            "Two keys at right angles, or one key twice, cannot show this. Which of "
            "the two steps stands next to the state?",
        ),
        Mistake(
            "the first write is not carried on",
            slip(combine, ("A_2 @ B_1 +", "B_1 +")),
            "What does the second step do to what the first has written?",
        ),
        Mistake(
            "the second write is carried, too",
            slip(combine, ("A_2 @ B_1 + B_2", "A_2 @ (B_1 + B_2)")),
            "Which of the two writes was there when the second step multiplied?",
        ),
        Mistake(
            "the wrong write is carried on",
            slip(combine, ("A_2 @ B_1 + B_2", "A_1 @ B_2 + B_1")),
            "Which of the two steps happens to the other's write?",
        ),
    ),
    hint="Put the first line into the second and multiply out.",
    minutes=10,
    marks=2,
)


def product_rows(k, beta):
    """The rows w_t of the product of the transitions of T tokens.

    k [T, d_k], beta [T]. Returns W [T, d_k], for which the product, the latest token
    on the left, is the identity less the sum of the outer products of k_t and w_t.
    """
    W = np.zeros_like(k)
    for t in range(len(beta)):
        W[t] = beta[t] * (k[t] - k[t] @ k.T @ W)
    return W


ROWS = Exercise(
    key="08.wy",
    title="A product of writes is thin",
    statement=r"""
The transition of token $t$ is $I - \beta_t k_t k_t^\top$. The product of $T$ of them,
the latest on the left, is the identity less $T$ outer products,

$$P_T = I - \sum_{t=1}^{T} k_t w_t^\top$$

Return the rows $w_t^\top$ as a matrix $W$, $T \times d_k$. Row $t$ depends on the
tokens up to $t$ alone. Keys have any length; no tokens make no rows.
""",
    reference=product_rows,
    returns=("W",),
    draw=lambda rng, sizes: draws.picked(draws.tokens(rng, **sizes), "k", "beta"),
    shapes=draws.SEQUENCES,
    properties=(
        Values(),
        Untouched(),
        Causal(("k", "beta"), output="W"),
        Limit(
            "a token of strength 0 has a row of zeros",
            here=lambda x: x | {"beta": 0 * x["beta"]},
            wanted=lambda x: 0 * x["k"],
        ),
    ),
    mistakes=(
        Mistake(
            "the tokens before are not seen",
            slip(product_rows, ("(k[t] - k[t] @ k.T @ W)", "k[t]")),
            "This is right for keys at right angles. What does the second of two "
            "equal tokens still find to take off?",
        ),
        Mistake(
            "sign",
            slip(product_rows, ("k[t] - k[t]", "k[t] + k[t]")),
            "With two equal unit keys at strength 1, the second transition has "
            "nothing left to remove. What does your second row say?",
        ),
        Mistake(
            "no strength in the overlaps",
            slip(
                product_rows,
                (
                    "beta[t] * (k[t] - k[t] @ k.T @ W)",
                    "beta[t] * k[t] - k[t] @ k.T @ W",
                ),
            ),
            "Let one token have strength 0. What is its transition, and what its row?",
        ),
        Mistake(
            "the strength in the columns",
            slip(
                product_rows,
                (
                    "beta[t] * (k[t] - k[t] @ k.T @ W)",
                    "beta[t] * k[t] - beta * (k[t] @ k.T) @ W",
                ),
            ),
            "Whose strength decides how much of an earlier row token t takes off: its "
            "own, or that of the token whose row it is?",
        ),
        Mistake(
            "the keys in the place of the rows",
            slip(product_rows, ("@ k.T @ W", "@ k[:t].T @ (beta[:t, None] * k[:t])")),
            "This takes off what the earlier tokens would remove if none of them saw "
            "another. Try three equal keys.",
        ),
        Mistake(
            "the latest on the right",
            slip(
                product_rows,
                ("range(len(beta))", "reversed(range(len(beta)))"),
            ),
            "Which token acts first, and where does its matrix stand?",
        ),
    ),
    hint="The new transition takes an outer product with its key off the product so "
    "far. What stands in the row beside that key?",
    minutes=20,
    marks=3,
)


def unit_lower_inverse(L):
    """The inverse of I + L.

    L [C, C], zero on its diagonal and above. Returns a matrix [C, C].
    """
    X = np.eye(len(L))
    for i in range(len(L)):
        X[i] -= L[i] @ X
    return X


def strictly_lower(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """A matrix of overlaps."""
    C = sizes["C"]
    return {"L": np.tril(rng.standard_normal((C, C)), -1)}


INVERSE = Exercise(
    key="08.inverse",
    title="The inverse of a triangle",
    statement=r"""
Return the inverse of $I + L$ for a matrix $L$, $C \times C$, that is zero on its
diagonal and above it. Build it row by row: a row of the inverse is a row of the
identity less a combination of the rows above it. (Marking looks at the values alone.)
""",
    reference=unit_lower_inverse,
    returns=("X",),
    draw=strictly_lower,
    shapes=({"C": 5}, {"C": 8}, {"C": 2}, {"C": 1}),
    properties=(
        Values(),
        Untouched(),
        Limit(
            "nothing below the diagonal leaves the identity",
            here=lambda x: {"L": 0 * x["L"]},
            wanted=lambda x: np.eye(len(x["L"])),
        ),
        Limit(
            "with one row below the diagonal, its sign turns",
            here=lambda x: {"L": x["L"] * (np.arange(len(x["L"])) == 1)[:, None]},
            wanted=lambda x: np.eye(len(x["L"])) - x["L"],
        ),
    ),
    mistakes=(
        Mistake(
            "the first terms of the series",
            slip(
                unit_lower_inverse,
                (
                    "    for i in range(len(L)):\n        X[i] -= L[i] @ X\n",
                    "    X = X - L\n",
                ),
            ),
            "This is right for two tokens. Multiply it by I + L for three: what is "
            "left over?",
        ),
        Mistake(
            "sign",
            slip(unit_lower_inverse, ("-=", "+=")),
            "Of which matrix is this the inverse? Try it with two rows.",
        ),
        Mistake(
            "the inverse of the triangle itself",
            slip(
                unit_lower_inverse,
                (
                    "    for i in range(len(L)):\n        X[i] -= L[i] @ X\n",
                    "    X = X - np.linalg.pinv(L)\n",
                ),
            ),
            "The sum of two inverses is not the inverse of a sum.",
        ),
    ),
    hint="Multiply I + L by what you return. Where do the two products of row i and "
    "column j cancel?",
    minutes=15,
    marks=3,
)


def in_chunks(q, k, v, beta, S, chunk_size):
    """The delta rule over a sequence, chunk_size tokens at a time.

    q and k [T, d_k], v [T, d_v], beta [T], S [d_k, d_v] the state before the first
    token. Returns o [T, d_v] and the state after the last token, [d_k, d_v].
    """
    o = np.empty_like(v)
    for start in range(0, len(beta), chunk_size):
        c = slice(start, start + chunk_size)
        L = np.tril(beta[c, None] * k[c] @ k[c].T, -1)
        U = np.linalg.solve(np.eye(len(L)) + L, beta[c, None] * (v[c] - k[c] @ S))
        o[c] = q[c] @ S + np.tril(q[c] @ k[c].T) @ U
        S = S + k[c].T @ U
    return o, S


BY_TOKEN = ("q", "k", "v", "beta")
IN_CHUNKS = Exercise(
    key="08.chunks",
    title="The delta rule in chunks",
    statement=r"""
Run the delta rule over $T$ tokens, `chunk_size` of them at a time. Within a chunk that
starts from $S_0$ the writes $u_t = \beta_t (v_t - S_{t-1}^\top k_t)$ solve one
triangular system,

$$
(I + L) U = \mathrm{Diag}(\beta) (V - K S_0), \qquad
L = \mathrm{tril}(\mathrm{Diag}(\beta) K K^\top, -1)
$$

and $o_t = S_t^\top q_t$ is asked after token $t$ has written. Between chunks only the
state is handed on. $T$ need not be a multiple of the chunk size, and may be 0; keys
have any length. Return all answers and the last state, and write into nothing that you
were given. (Marking looks at the values; that there is no loop over the tokens of a
chunk, an instructor sees.)
""",
    reference=in_chunks,
    returns=("o", "S"),
    draw=lambda rng, sizes: draws.in_chunks(draws.sequence, rng, sizes),
    shapes=draws.IN_CHUNKS,
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        PassesState(BY_TOKEN),
        Unchanged(
            "the size of a chunk changes nothing",
            lambda x: x | {"chunk_size": x["chunk_size"] + 1},
        ),
    ),
    mistakes=(
        Mistake(
            "the last chunk is left out",
            slip(
                in_chunks,
                (
                    "range(0, len(beta), chunk_size)",
                    "range(0, len(beta) - chunk_size + 1, chunk_size)",
                ),
                ("np.empty_like(v)", "np.zeros_like(v)"),
            ),
            "How many tokens has the last chunk, if the chunk size does not divide T?",
        ),
        Mistake(
            "a token answers before it writes",
            slip(
                in_chunks,
                ("np.tril(q[c] @ k[c].T) @ U", "np.tril(q[c] @ k[c].T, -1) @ U"),
            ),
            "Does a token's answer know of its own write? Look at the diagonal.",
        ),
        Mistake(
            "the answers start from the state after the chunk",
            slip(
                in_chunks,
                ("        S = S + k[c].T @ U\n", ""),
                ("        o[c] =", "        S = S + k[c].T @ U\n        o[c] ="),
            ),
            "What a chunk's own tokens wrote is added to its answers by itself. Which "
            "state may an answer start from, so that nothing counts twice?",
        ),
        Mistake(
            "the values in the place of the writes",
            slip(in_chunks, ("    S = S + k[c].T @ U", "    S = S + k[c].T @ v[c]")),
            "What does a chunk add to the state: what its tokens were told, or what "
            "they wrote?",
        ),
        Mistake(
            "tokens of a chunk do not see each other",
            slip(in_chunks, ("np.eye(len(L)) + L,", "np.eye(len(L)),")),
            "Your chunks of one token are right. What does the second of two equal "
            "tokens find, if both are in one chunk?",
        ),
        Mistake(
            "the strength in the columns",
            slip(
                in_chunks,
                ("beta[c, None] * k[c] @ k[c].T", "beta[c] * (k[c] @ k[c].T)"),
            ),
            "Along which axis does NumPy stretch the strengths? A token of strength 0 "
            "must not write anything, whatever its neighbours do.",
        ),
        Mistake(
            "sign of the system",
            slip(in_chunks, ("np.eye(len(L)) + L,", "np.eye(len(L)) - L,")),
            "Token i finds what token j wrote, and takes it off. On which side of the "
            "equation does it end, and with which sign?",
        ),
        Mistake(
            "the state before the sequence for every chunk",
            slip(
                in_chunks,
                ("    o = ", "    first = S\n    o = "),
                ("k[c] @ S)", "k[c] @ first)"),
            ),
            "From which state does the second chunk start?",
        ),
    ),
    hint="Look at one chunk: what would each token write if it saw only the state "
    "before the chunk, and what does it find besides that?",
    minutes=30,
    marks=4,
)


def chunk(q, k, v, beta, S):
    """One chunk of the delta rule.

    q and k [C, d_k], v [C, d_v], beta [C], S [d_k, d_v] the state before the chunk.
    Returns o [C, d_v] and the state after the chunk, [d_k, d_v].
    """
    L = np.tril(beta[:, None] * (k @ k.T), -1)
    u = np.linalg.solve(np.eye(len(L)) + L, beta[:, None] * (v - k @ S))
    return q @ S + np.tril(q @ k.T) @ u, S + k.T @ u


COLUMNS = Exercise(
    key="08.columns",
    label="ex-beta-columns",
    title="The strength in the columns",
    statement=r"""
This chunk of the delta rule passed its author's test, on random keys and values,
against the recurrence. Her tokens all had the same strength. Mend it.

It takes a chunk of tokens and the state $S$, $d_k \times d_v$, before it, and returns
the answers, each asked after its own token has written, and the state after the chunk.
Every token has a strength $\beta_t$ of its own, between 0 and 1, and keys have any
length. A chunk may be empty. Do not write into what you were given.
""",
    reference=chunk,
    returns=("o", "S"),
    draw=lambda rng, sizes: draws.sequence(rng, **sizes),
    shapes=draws.SEQUENCES,
    properties=(
        Values(),
        Untouched(),
        Causal(BY_TOKEN),
        PassesState(BY_TOKEN),
        Limit(
            "tokens of strength 0 leave the state as it was",
            here=lambda x: x | {"beta": 0 * x["beta"]},
            wanted=lambda x: (x["q"] @ x["S"], x["S"]),
        ),
        Limit("a last token of strength 0 does not write", here=idle_last),
    ),
    mistakes=(
        Mistake(
            "the strength in the columns",
            slip(chunk, ("beta[:, None] * (k @ k.T)", "beta * (k @ k.T)")),
            "What shape has `beta`, and along which axis does NumPy stretch it? A "
            "token of strength 0 must leave the state as it was.",
        ),
        Mistake(
            "no strength in the overlaps",
            slip(chunk, ("beta[:, None] * (k @ k.T)", "k @ k.T")),
            "What does a token of strength 0 take off the writes before it?",
        ),
        Mistake(
            "no strength on the right",
            slip(chunk, ("beta[:, None] * (v - k @ S)", "v - k @ S")),
            "What does a token of strength 0 write at an empty state?",
        ),
        Mistake(
            "the strength on both sides",
            slip(
                chunk,
                ("beta[:, None] * (k @ k.T)", "beta[:, None] * (k @ k.T) * beta"),
            ),
            "The write of an earlier token has its strength in it already. How often "
            "does it count in what a later token finds?",
        ),
        Mistake(
            "a token answers before it writes",
            slip(chunk, ("np.tril(q @ k.T)", "np.tril(q @ k.T, -1)")),
            "Does a token's answer know of its own write? Look at the diagonal.",
        ),
    ),
    begins="the strength in the columns",
    hint="Which token's strength decides how much is taken off: that of the token "
    "which finds an earlier write, or that of the one which wrote it?",
    minutes=15,
    marks=2,
)


def prepare(k, v, beta, chunk_size):
    """What chunks of the delta rule can do before any state is known.

    k [T, d_k], v [T, d_v], beta [T]; chunk_size C divides T. Returns two stacks, with
    an entry for each of the N = T / C chunks: W [N, C, d_k] and Y [N, C, d_v].
    """
    C = chunk_size
    K, V, rate = (x.reshape(-1, C, x[0].size) for x in (k, v, beta))
    X = np.linalg.inv(np.eye(C) + np.tril(rate * K @ K.swapaxes(1, 2), -1))
    return X @ (rate * K), X @ (rate * V)


PREPARE = Exercise(
    key="08.prepare",
    label="ex-prepare",
    title="Prepare what need not wait",
    statement=r"""
The writes of a chunk of the delta rule are $U = Y - W S_0$, where $S_0$ is the state
before the chunk. With $L = \mathrm{tril}(\mathrm{Diag}(\beta) K K^\top, -1)$ of the
chunk's own tokens,

$$(I + L) W = \mathrm{Diag}(\beta) K, \qquad (I + L) Y = \mathrm{Diag}(\beta) V$$

Compute $W$ and $Y$ for all chunks of a sequence, as two stacks with a chunk in each
entry: $W$ is $N \times C \times d_k$ and $Y$ is $N \times C \times d_v$, where $C$ is
`chunk_size` and $T = N C$ exactly. No loop is needed: `K.reshape(T // C, C, d)` is a
stack, and `np.linalg.solve` takes a stack.
""",
    reference=prepare,
    returns=("W", "Y"),
    draw=lambda rng, sizes: whole_chunks(rng, sizes, "k", "v", "beta"),
    shapes=CHUNKS,
    properties=(
        Values(),
        Untouched(),
        Limit(
            "tokens of strength 0 prepare nothing",
            here=lambda x: x | {"beta": 0 * x["beta"]},
        ),
        Limit(
            "of one token in a chunk, both are its own times its strength", here=ones
        ),
    ),
    mistakes=(
        Mistake(
            "sign of the system",
            slip(prepare, ("np.eye(C) + ", "np.eye(C) - ")),
            "Two equal unit keys at strength 1: the second has nothing left to take "
            "off. What does your W say of it?",
        ),
        Mistake(
            "tokens stand in the wrong axis",
            slip(
                prepare,
                (
                    "x.reshape(-1, C, x[0].size)",
                    "x.reshape(C, -1, x[0].size).swapaxes(0, 1)",
                ),
            ),
            "Which tokens are in your first chunk? The first C, or every N-th?",
        ),
        Mistake(
            "no strength on the right",
            slip(prepare, ("X @ (rate * K), X @ (rate * V)", "X @ K, X @ V")),
            "What does a token of strength 0 prepare to write?",
        ),
        Mistake(
            "the strength in the columns",
            slip(
                prepare,
                ("rate * K @ K.swapaxes(1, 2)", "K @ (rate * K).swapaxes(1, 2)"),
            ),
            "Which token's strength decides how much is taken off: that of the one "
            "which finds an earlier write, or that of the one which wrote it?",
        ),
        Mistake(
            "the diagonal counts twice",
            slip(prepare, (", -1))", "))")),
            "Does a token find its own write before it has written?",
        ),
    ),
    hint="Write it for one chunk first. Then `swapaxes` turns the last two axes of a "
    "stack, and both right sides fit into one array.",
    minutes=20,
    marks=3,
)


def chunk_steps(k, v, beta, chunk_size):
    """The transition and the write of every chunk of the delta rule.

    k [T, d_k], v [T, d_v], beta [T]; chunk_size C divides T. Returns A [N, d_k, d_k]
    and B [N, d_k, d_v] for the N = T / C chunks.
    """
    C, d_k = chunk_size, k.shape[1]
    K, V, rate = (x.reshape(-1, C, x[0].size) for x in (k, v, beta))
    across = K.swapaxes(1, 2)
    X = np.linalg.inv(np.eye(C) + np.tril(rate * K @ across, -1))
    return np.eye(d_k) - across @ X @ (rate * K), across @ X @ (rate * V)


SCAN = Exercise(
    key="08.chunk-steps",
    label="ex-scan-chunks",
    title="Scan the chunks",
    statement=r"""
A chunk of the delta rule is one step of a linear recurrence: from the state $S_0$
before it, it hands on $S_C = A S_0 + B$. Return the matrices $A$, $d_k \times d_k$, and
$B$, $d_k \times d_v$, of every chunk as two stacks with a chunk in each entry. All
chunks have `chunk_size` tokens, and $T$ is a multiple of it. The transition of a token
is $I - \beta_t k_t k_t^\top$ and its write $\beta_t k_t v_t^\top$.

With these pairs `scans.in_rounds(scans.combine, A, B)` of `ctlearn.tasks` scans the
chunks.
""",
    reference=chunk_steps,
    returns=("A", "B"),
    draw=lambda rng, sizes: whole_chunks(rng, sizes, "k", "v", "beta"),
    shapes=CHUNKS,
    properties=(
        Values(),
        Untouched(),
        Limit(
            "tokens of strength 0 leave every state as it is",
            here=lambda x: x | {"beta": 0 * x["beta"]},
        ),
        Limit("of one token in a chunk, both are the token's own", here=ones),
    ),
    mistakes=(
        Mistake(
            "the first token's matrix on the left",
            slip(
                chunk_steps,
                (
                    "across @ X @ (rate * K), across",
                    "(across @ X @ (rate * K)).swapaxes(1, 2), across",
                ),
            ),
            "The product of the transitions in the wrong order is the transpose of "
            "the right one, since each is its own. Which token acts first?",
        ),
        Mistake(
            "the transition of tokens that do not see each other",
            slip(
                chunk_steps,
                ("across @ X @ (rate * K), across", "across @ (rate * K), across"),
            ),
            "Your chunks of one token are right. Is a product of two transitions the "
            "identity less the sum of what each takes off?",
        ),
        Mistake(
            "the write of tokens that do not see each other",
            slip(chunk_steps, ("across @ X @ (rate * V)", "across @ (rate * V)")),
            "What happens to the first token's write when the second token of the "
            "chunk comes?",
        ),
        Mistake(
            "sign of the system",
            slip(chunk_steps, ("np.eye(C) + ", "np.eye(C) - ")),
            "Two equal unit keys at strength 1 do together what one of them does. "
            "What does your transition do?",
        ),
        Mistake(
            "what is taken off alone",
            slip(chunk_steps, ("np.eye(d_k) - across", "across")),
            "What is the transition of a chunk that writes nothing?",
        ),
    ),
    hint="The state after a chunk is the state before it and what was written, key by "
    "key. What was written depends on the state in one term alone.",
    minutes=20,
    marks=3,
)


def prepare_gated(k, v, log_decay, beta):
    """What a chunk of the gated delta rule can do before its state is known.

    k [C, d_k], v [C, d_v], log_decay [C], at most 0, and beta [C]. Returns W [C, d_k]
    and Y [C, d_v] with which the chunk writes Y - W S from a state S.
    """
    g = np.exp(np.cumsum(log_decay))[:, None]
    L = np.tril((beta[:, None] * k) @ k.T * g / g.T, -1)
    X = np.linalg.inv(np.eye(len(L)) + L)
    return X @ (beta[:, None] * g * k), X @ (beta[:, None] * v)


def gated(rng: np.random.Generator, sizes: Sizes) -> Inputs:
    """A chunk of tokens with decays."""
    x = draws.tokens(rng, **sizes) | {"log_decay": draws.log_decays(rng, sizes["T"])}
    return draws.picked(x, "k", "v", "log_decay", "beta")


FADES = Exercise(
    key="08.fades",
    label="ex-which-decays",
    title="Which of the two fades?",
    statement=r"""
The delta rule gets a gate: before each token the state is multiplied by $\alpha_t$, the
exponential of `log_decay`, and only then does the token read, compare and write. So a
chunk of $C$ tokens that starts from the state $S$ makes the writes

$$u_t = \beta_t \left(v_t - \alpha_t S_{t-1}^\top k_t\right)$$

and they are $U = Y - W S$, where $W$, $C \times d_k$, and $Y$, $C \times d_v$, can be
prepared before the state is known. A colleague computes both halves from the overlaps
without decay, and multiplies the rows of $W$ by $\gamma_t$, which is what is left at
token $t$ of the state before the chunk. Her tests have keys at right angles, or no
decay. One of the two halves is wrong. Mend it. No decay is zero.
""",
    reference=prepare_gated,
    returns=("W", "Y"),
    draw=gated,
    shapes=draws.SEQUENCES[:3],
    properties=(
        Values(),
        Untouched(),
        Limit(
            "where nothing fades, the chunk is the delta rule's",
            here=lambda x: x | {"log_decay": 0 * x["log_decay"]},
        ),
        Limit(
            "a chunk of one token sees no other",
            here=lambda x: {name: value[:1] for name, value in x.items()},
        ),
    ),
    mistakes=(
        Mistake(
            "the values without the decay",
            slip(
                prepare_gated,
                (" * g / g.T", ""),
                ("X @ (beta[:, None] * g * k)", "g * (X @ (beta[:, None] * k))"),
            ),
            "Two tokens of one key and one value, with half of everything fading in "
            "between. How much of the value has to be written again?",
        ),
        Mistake(
            "the decay upside down",
            slip(prepare_gated, ("g / g.T", "g.T / g")),
            "An earlier write has faded when a later token meets it. Is your factor "
            "below 1?",
        ),
        Mistake(
            "the state does not fade",
            slip(prepare_gated, ("beta[:, None] * g * k", "beta[:, None] * k")),
            "What is left of the state before the chunk when the last token reads it?",
        ),
        Mistake(
            "the values fade, too",
            slip(prepare_gated, ("beta[:, None] * v", "beta[:, None] * g * v")),
            "Which gates does a value meet before it is written?",
        ),
        Mistake(
            "reads before it fades",
            slip(
                prepare_gated,
                (
                    "g = np.exp(np.cumsum(log_decay))[:, None]",
                    "h = np.exp(np.cumsum(log_decay))[:, None]\n    g = h / "
                    "np.exp(log_decay)[:, None]",
                ),
                ("g / g.T", "g / h.T"),
            ),
            "Does the gate of a token act on what that token reads? Look at the order "
            "in the statement.",
        ),
    ),
    begins="the values without the decay",
    hint="The decay between two tokens is a ratio. Write the inverse with decays as a "
    "product of three matrices, and see where the outer ones cancel.",
    minutes=25,
    marks=4,
)

EXERCISES = (COMBINE, ROWS, INVERSE, IN_CHUNKS, PREPARE, SCAN, COLUMNS, FADES)
