"""Parallel forms: many dependent writes as a triangular system, and its inverse."""

from typing import Any

import numpy as np

from ctlearn import memory
from ctlearn.identities.delta_rule import sequence
from ctlearn.identities.engine import STATEMENT, Identity, Sides, identity
from ctlearn.mixers import delta_rule
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import exp
from ctlearn.supplies import Supply

YANG = ("yang2024deltanet",)
CHAPTER = "08_the_delta_rule_in_parallel"


def ut_transform(
    k: np.ndarray, beta: np.ndarray, D: np.ndarray | None = None
) -> np.ndarray:
    """(I + tril(diag(beta) K K' * D, -1))^{-1} diag(beta), [C, C]; D = 1 if None."""
    overlap = k @ k.T if D is None else (k @ k.T) * D
    L = np.tril(beta[:, None] * overlap, -1)
    return memory.solve_unit_lower(L, np.diag(beta))


def _chunk(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    """A chunk of the delta rule: its tokens, its matrices, and what comes out.

    P_t is the product of the first t transitions, taken token by token; the rows w_t
    are what each takes off it.
    """
    x = sequence(supply, C, d_k, d_v).letters
    k, beta, v, q = x["k"], x[r"\beta"], x["v"], supply.real("q", C, d_k)
    S = x["S"].array
    T = ut_transform(k, beta)
    o, after = delta_rule.recurrent(q, k, v, beta=beta, S=S[0])
    errors = [v_t - S_t.T @ k_t for v_t, S_t, k_t in zip(v, S, k, strict=False)]
    u = beta[:, None] * np.array(errors)
    letters = {**x, "T": T, "K": k, "V": v, "Q": q, "O": o, "C": C, "S_C": after}
    letters |= {
        "u": u,
        "U": u,
        "W": T @ k,
        "M": np.tril(np.ones((C, C), dtype=k.dtype)),
    }
    L = np.tril(beta[:, None] * (k @ k.T), -1)
    letters |= {"L": L, "X": memory.solve_unit_lower(L, np.eye(C, dtype=int) + 0 * L)}
    products, taken = [np.eye(d_k, dtype=int) + 0 * np.outer(k[0], k[0])], []
    for k_t, rate in zip(k, beta, strict=True):
        taken.append(rate * k_t @ products[-1])
        products.append(products[-1] - np.outer(k_t, taken[-1]))
    letters |= {"w": np.array(taken), "P": Rows(np.array(products), first=0)}
    return Numbers(letters, {"t": range(1, C + 1)})


# why a sum over the tokens before may run to the token itself
OWN_IS_ZERO = "the decay to just before a token is zero for its own write"
TOKENS = AsPrinted(numbers=_chunk)
CHUNK = {STATEMENT: TOKENS}


def _wy_free(*, sign: int = 1, rate: bool = True) -> Sides:
    import sympy

    k, kt, W = sympy.symbols("k k^T W", commutative=False)
    beta = sympy.Symbol("beta")
    row = -sign * beta * kt * W + (beta if rate else 1) * kt
    return (1 - beta * k * kt) * (1 - W), 1 - (W + k * row)


@identity(
    title="A product of writes is the identity less one product of rank C",
    statement=r"T = (I + \mathrm{tril}(\mathrm{Diag}(\beta) K K^\top, -1))^{-1}"
    r" \mathrm{Diag}(\beta), \qquad \prod_{t=1}^{C}"
    r" (I - \beta_{C+1-t} k_{C+1-t} k_{C+1-t}^\top) = I - K^\top T K",
    source="yang2024deltanet (the WY representation), from memory",
    citations=(*YANG, "bischof1987", "schreiber1989"),
    equations=("def-transitions", "eq-two-transitions", "eq-wy", "eq-wy-matrix"),
    printed=CHUNK
    | dict.fromkeys(("def-transitions", "eq-wy", "eq-wy-matrix"), TOKENS)
    | {
        "eq-two-transitions": AsPrinted(
            numbers=_chunk,
            equivalent={
                r"k_2^\top k_1 → k_1 k_2^\top (line 4, column 24)": "w_1 is along k_1"
            },
        )
    },
    chapter=CHAPTER,
    mutants={
        "earlier tokens add instead of taking away": {"sign": -1},
        "the new token has no rate of its own": {"rate": False},
        "the new token comes first": {"first": True},
    },
    free=_wy_free,
)
def wy(
    supply: Supply,
    C: int,
    d_k: int,
    *,
    sign: int = 1,
    rate: bool = True,
    first: bool = False,
) -> dict[str, Sides]:
    """One more token behind any K and T: a proof for every C; and the reference."""
    keys, T = supply.real("K", C, d_k), supply.real("T", C, C)
    k, beta = supply.real("k", d_k), supply.rate("b", 1)[0]
    rates = supply.rate("r", C)
    unit = np.eye(d_k, dtype=int)
    one, before = unit - beta * np.outer(k, k), unit - keys.T @ T @ keys
    row = -sign * beta * (k @ keys.T) @ T
    corner = np.array([[beta if rate else beta**0]])
    grown = np.block([[T, np.zeros((C, 1), dtype=T.dtype)], [row[None], corner]])
    longer = np.concatenate([keys, k[None]])
    nothing = np.zeros((C, d_k), dtype=k.dtype)
    _, whole = delta_rule.recurrent(keys, keys, nothing, beta=rates, S=unit + 0 * one)
    return {
        "base": (unit - keys[:0].T @ T[:0, :0] @ keys[:0], unit + 0 * one),
        "step": (
            before @ one if first else one @ before,
            unit - longer.T @ grown @ longer,
        ),
        "reference": (whole, unit - keys.T @ ut_transform(keys, rates) @ keys),
    }


@identity(
    title="What the tokens of a chunk write solves one triangular system",
    statement=r"u_t = \beta_t (v_t - S_{t-1}^\top k_t), \qquad U = T (V - K S_0),"
    r" \qquad S_t = S_0 + \sum_{j=1}^{t} k_j u_j^\top",
    source="yang2024deltanet (the UT transform), from memory",
    citations=(*YANG, "joffrain2006"),
    equations=("def-overlaps", "eq-writes", "eq-system", "eq-keys-system"),
    printed=CHUNK
    | dict.fromkeys(("def-overlaps", "eq-writes", "eq-system"), TOKENS)
    | {"eq-keys-system": TOKENS},
    chapter=CHAPTER,
    mutants={
        "the token's own key is in the system": {"diagonal": 0},
        "the rates are left out of the system": {"rated": False},
        "the start is not read": {"start": 0},
    },
)
def ut(
    supply: Supply,
    C: int,
    d_k: int,
    d_v: int,
    *,
    diagonal: int = -1,
    rated: bool = True,
    start: int = 1,
) -> Sides:
    """What the reference writes from any state, put into the system."""
    x = _chunk(supply, C, d_k, d_v).letters
    k, v, beta, S = x["k"], x["v"], x[r"\beta"][:, None], x["S"].array[0]
    L = np.tril((beta if rated else 1) * (k @ k.T), diagonal)
    return x["U"] + L @ x["U"], beta * (v - start * k @ S)


@identity(
    title="A chunk of the delta rule is four products with its two small matrices",
    statement=r"W = T K, \qquad O = Q S_0 + (Q K^\top \odot M) (T V - W S_0), \qquad"
    r" S_C = S_0 + K^\top (T V - W S_0)",
    source="yang2024deltanet, its chunkwise form, from memory",
    citations=YANG,
    equations=("eq-without-state", "eq-delta-chunk", "eq-chunk-step"),
    printed=CHUNK
    | dict.fromkeys(("eq-without-state", "eq-delta-chunk", "eq-chunk-step"), TOKENS),
    chapter=CHAPTER,
    mutants={
        "a token does not read its own write": {"diagonal": -1},
        "the old answers are not taken off": {"erase": 0},
        "the rate is applied twice": {"twice": True},
    },
)
def chunk(
    supply: Supply,
    C: int,
    d_k: int,
    d_v: int,
    *,
    diagonal: int = 0,
    erase: int = 1,
    twice: bool = False,
) -> dict[str, Sides]:
    """The recurrence from any state, against the products."""
    x = _chunk(supply, C, d_k, d_v).letters
    q, k, S = x["Q"], x["k"], x["S"].array[0]
    v = x[r"\beta"][:, None] * x["v"] if twice else x["v"]
    u = x["T"] @ v - erase * x["W"] @ S
    return {
        "outputs": (x["O"], q @ S + np.tril(q @ k.T, diagonal) @ u),
        "state": (x["S_C"], S + k.T @ u),
    }


def _erased_elsewhere(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    """A chunk whose tokens erase along e and write z, and what they write in turn."""
    q, k, e = (supply.real(name, C, d_k) for name in "qke")
    z, S = supply.real("z", C, d_v), supply.real("S", d_k, d_v)
    e = e / 2
    now, written = S, []
    for t in range(C):
        written.append(z[t] - now.T @ e[t])
        now = now + np.outer(k[t], written[-1])
    letters = {"K": k, "E": e, "Z": z, "S_0": S, "U": np.array(written), "Q": q}
    return Numbers(letters)


@identity(
    title="Erase along one vector, write another row: the same triangular system",
    statement=r"(I + \mathrm{tril}(E K^\top, -1)) U = Z - E S_0",
    source="ours; the generalised delta rule without decay",
    citations=YANG,
    equations=("eq-any-erase",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-any-erase"), AsPrinted(numbers=_erased_elsewhere)
    ),
    chapter=CHAPTER,
    mutants={
        "overlaps of keys with what is erased": {"turned": True},
        "the token's own key is in the system": {"diagonal": 0},
        "the start is not read": {"start": 0},
    },
)
def any_erase(
    supply: Supply,
    C: int,
    d_k: int,
    d_v: int,
    *,
    turned: bool = False,
    diagonal: int = -1,
    start: int = 1,
) -> dict[str, Sides]:
    """The package's recurrence from any state, against the system and its writes."""
    x = _erased_elsewhere(supply, C, d_k, d_v).letters
    k, e, z, u, S = x["K"], x["E"], x["Z"], x["U"], x["S_0"]
    _, after = memory.recurrent(x["Q"], k, z, e=e, S=S)
    overlaps = k @ e.T if turned else e @ k.T
    return {
        "system": (u + np.tril(overlaps, diagonal) @ u, z - start * e @ S),
        "state": (after, S + k.T @ u),
    }


def _pair_of_chunks(supply: Supply, C: int, N: int, d_k: int) -> Numbers:
    """Two chunks' keys and matrices T, of the chunks and of both at once."""
    k, beta = supply.real("k", C + N, d_k), supply.rate("b", C + N)
    parts = {
        f"{name}_{i}": x
        for i, c in ((1, slice(C)), (2, slice(C, None)))
        for name, x in (("K", k[c]), ("T", ut_transform(k[c], beta[c])))
    }
    zeros = {r"\mathbf{0}": np.zeros((C, N), dtype=int)}
    return Numbers(parts | zeros | {"K": k, "T": ut_transform(k, beta)})


def _merge_free(*, sign: int = -1, turned: bool = False) -> Sides:
    import sympy

    A, At, B, Bt, S, T = sympy.symbols("A A^T B B^T S T", commutative=False)
    corner = T * A * Bt * S if turned else T * B * At * S
    merged = At * S * A + Bt * T * B + sign * Bt * corner * A
    return (1 - Bt * T * B) * (1 - At * S * A), 1 - merged


@identity(
    title="Two chunks merge: a corner holds what the second undoes of the first",
    statement=r"T = \begin{pmatrix} T_1 & \mathbf{0} \\"
    r" -T_2 K_2 K_1^\top T_1 & T_2 \end{pmatrix}, \qquad"
    r" I - K^\top T K = (I - K_2^\top T_2 K_2) (I - K_1^\top T_1 K_1)",
    source="yang2024deltanet's products, merged; ours",
    citations=YANG,
    printed={STATEMENT: AsPrinted(numbers=_pair_of_chunks)},
    chapter=CHAPTER,
    mutants={
        "the corner has the other sign": {"sign": 1},
        "the chunks in the other order": {"turned": True},
        "there is no corner": {"sign": 0},
    },
    free=_merge_free,
    at={"symbols": {"C": 2, "N": 1}},
)
def merge(
    supply: Supply, C: int, N: int, d_k: int, *, sign: int = -1, turned: bool = False
) -> Sides:
    """The matrix of C + N tokens, against the blocks of C and of N."""
    x = _pair_of_chunks(supply, C, N, d_k).letters
    overlap = x["K_1"] @ x["K_2"].T if turned else x["K_2"] @ x["K_1"].T
    corner = sign * x["T_2"] @ overlap @ x["T_1"]
    blocks = [[x["T_1"], x[r"\mathbf{0}"]], [corner, x["T_2"]]]
    return x["T"], np.block(blocks)


def _one_more(order: str, statement: str, read_first: bool) -> Identity:
    """One token more behind a chunk that is a sum of decayed writes."""

    def claim(
        supply: Supply,
        C: int,
        d_k: int,
        d_v: int,
        *,
        other_order: bool = False,
        own: bool = False,
        stale: bool = False,
    ) -> dict[str, Sides]:
        k, u = supply.real("k", C, d_k), supply.real("u", C, d_v)
        left, kept = supply.rate("D", C, d_k), supply.rate("c", d_k)
        S, log_decay = supply.real("S", d_k, d_v), supply.log_decay("a", d_k)
        alpha = exp(log_decay)
        q, key, e = (supply.real(name, d_k) for name in "qxe")
        z = supply.real("z", d_v)

        def state(by: Any) -> np.ndarray:
            return (by * kept)[:, None] * S + (by * left * k).T @ u

        seen = state(1 if read_first != other_order else alpha)
        new = z - seen.T @ e
        after = state(1 if stale else alpha) + np.outer(
            alpha * key if own else key, new
        )
        told = memory.step(
            q, key, z, e=e, log_decay=log_decay, S=state(1), read_first=read_first
        )
        start = memory.recurrent(
            k[:0], k[:0], u[:0], e=k[:0], log_decay=k[:0], S=S, read_first=read_first
        )[1]
        return {
            "base": (start, S),
            "step": (told[1], after),
            "read": (told[0], after.T @ q),
        }

    def numbers(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
        return _decayed(supply, C, d_k, d_v, read_first)

    return Identity(
        name=f"parallel-forms-one-more-token-{order}",
        title="A state is the start and the writes, each decayed since; one token more"
        + (", reading first" if read_first else ", forgetting first"),
        kind="identity",
        statement=statement,
        source="ours, for the family; yang2025gated and kimi2025 have its cases",
        citations=("yang2025gated", "kimi2025"),
        claim=claim,
        mutants={
            "the memory reads in the other order": {"other_order": True},
            "a write fades at its own token": {"own": True},
            "the older writes do not fade": {"stale": True},
        },
        printed={
            STATEMENT: AsPrinted(
                numbers=numbers,
                at={"symbols": {"C": 2, "d_k": 2, "d_v": 2}},
                equivalent=(
                    {"-1 → nothing (line 1, column 66)": OWN_IS_ZERO}
                    if read_first
                    else {}
                ),
            )
        },
    )


def _decayed(supply: Supply, C: int, d_k: int, d_v: int, read_first: bool) -> Numbers:
    """Tokens of the family, what each writes, and the decays between boundaries.

    D' decays up to just before a token, and gamma' from the start to there.
    """
    q, k, e = (supply.real(name, C, d_k) for name in "qke")
    z, log_decay = supply.real("z", C, d_v), supply.log_decay("a", C, d_k)
    start = supply.real("S", d_k, d_v)
    e = e / 2
    S, writes = start, []
    for t in range(C):
        kept = exp(log_decay[t])[:, None] * S
        writes.append(z[t] - (S if read_first else kept).T @ e[t])
        S = kept + np.outer(k[t], writes[-1])
    o, _ = memory.recurrent(
        q, k, z, e=e, log_decay=log_decay, S=start, read_first=read_first
    )
    between = memory.decay_between(log_decay, k)
    letters = {"q": q, "k": k, "e": e, "z": z, "o": o, "S_0": start}
    letters |= {"u": np.array(writes), r"\gamma": between[1:, 0], "D": between[1:, 1:]}
    letters |= {r"\gamma'": between[:-1, 0], "D'": between[:-1, 1:]}
    return Numbers(letters, {"t": range(1, C + 1)})


def _system(mark: str) -> str:
    return (
        rf"u_t = z_t - S_0^\top \mathrm{{Diag}}(\gamma{mark}_t) e_t"
        rf" - \sum_{{j=1}}^{{t-1}} (e_t^\top \mathrm{{Diag}}(D{mark}_{{t,j}}) k_j) u_j,"
        r" \qquad o_t = S_0^\top \mathrm{Diag}(\gamma_t) q_t"
        r" + \sum_{j=1}^{t} (q_t^\top \mathrm{Diag}(D_{t,j}) k_j) u_j"
    )


one_more_decay_first = _one_more("decay-first", _system(""), read_first=False)
one_more_read_first = _one_more("read-first", _system("'"), read_first=True)


def _gated(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    """The triangular matrix with decay and without, and the decays from the start."""
    k, beta, v = supply.real("k", C, d_k), supply.rate("b", C), supply.real("v", C, d_v)
    between = memory.decay_between(supply.log_decay("a", C), k)[..., 0]
    T, T_g = ut_transform(k, beta), ut_transform(k, beta, between[1:, 1:])
    return Numbers({"K": k, "V": v, "T": T, "T_g": T_g, r"\gamma": between[1:, 0]})


@identity(
    title="Decay conjugates the matrix of a chunk, so W can do without it",
    statement=r"T_g = \mathrm{Diag}(\gamma) T \, \mathrm{Diag}(\gamma)^{-1}, \qquad"
    r" T_g \, \mathrm{Diag}(\gamma) K = \mathrm{Diag}(\gamma) T K",
    source="yang2025gated, its chunkwise form",
    citations=("yang2025gated",),
    printed={STATEMENT: AsPrinted(numbers=_gated)},
    chapter=CHAPTER,
    mutants={
        "on one side alone": {"right": 0},
        "on the other sides": {"left": -1, "right": 1},
        "squared": {"left": 2},
    },
)
def conjugated(
    supply: Supply, C: int, d_k: int, *, left: int = 1, right: int = -1
) -> dict[str, Sides]:
    """Both matrices by forward substitution."""
    x = _gated(supply, C, d_k, 1).letters
    gamma = x[r"\gamma"]
    T = gamma[:, None] ** left * x["T"] * gamma**right
    return {
        "T": (x["T_g"], T),
        "W": (x["T_g"] @ (gamma[:, None] * x["K"]), T @ (gamma[:, None] * x["K"])),
    }


def _with_and_without(k: np.ndarray, beta: np.ndarray, decay: Any) -> Sides:
    """The matrix of two tokens with this decay between them, and that of none."""
    D = np.array([[decay**0, 0 * decay], [decay, decay**0]])
    return ut_transform(k, beta, D), ut_transform(k, beta)


def _halved(supply: Supply) -> Numbers:
    """Two tokens of one key, step size 1, and a decay of 1/2 between them."""
    one = supply.positive("c", 1)[0] ** 0
    ones = np.array([one, one])
    T_g, T = _with_and_without(ones[:, None], ones, one / 2)
    return Numbers({"T_g": T_g, "T": T, "V": ones[:, None]})


@identity(
    title="U takes the matrix with the decay: without it half a value is lost",
    kind="counterexample",
    statement=r"T_g V = \begin{pmatrix} 1 \\ \tfrac{1}{2} \end{pmatrix} \ne"
    r" \begin{pmatrix} 1 \\ 0 \end{pmatrix} = T V",
    source="ours; against: the matrix without decay will do, as it does for W",
    citations=("yang2025gated",),
    printed={STATEMENT: AsPrinted(numbers=_halved, worlds=("rationals",))},
    worlds=("rationals",),
    chapter=CHAPTER,
    mutants={
        "nothing decays": {"halves": 2},
        "the keys are at a right angle": {"overlap": 0},
        "nothing is written": {"beta": 0},
    },
)
def decay_is_needed(
    supply: Supply, *, halves: int = 1, overlap: int = 1, beta: int = 1
) -> Sides:
    """Two tokens of one key and one value, step size 1, decay 1/2 at each."""
    one = supply.positive("c", 1)[0] ** 0
    k = np.array([[one, 0 * one], [overlap * one, (1 - overlap) * one]])
    v = np.array([[one], [one]])
    T_g, T = _with_and_without(k, beta * v[:, 0], halves * one / 2)
    return T_g @ v, T @ v
