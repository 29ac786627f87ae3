"""LaCT with a linear map: linear attention whose mask is shifted by a whole chunk.

Every token of a chunk is answered before the chunk is learned from. Without Muon,
momentum and lengths, what remains is a mask.
"""

from typing import Any

import numpy as np

from ctlearn import inner
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.tokens import flat, tokens
from ctlearn.inner import Linear
from ctlearn.mixers import lact, linear_attention
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import exp, log
from ctlearn.supplies import Supply

CHAPTER = "13_deep_memories"


def _inputs(supply: Supply, T: int, d_k: int, d_v: int) -> dict[str, Any]:
    """LaCT's inputs for a linear map, of which the first rate counts, without Muon."""
    q, k, v = tokens(supply, T, d_k, d_v)
    beta = supply.rate("beta", T)
    return {
        **{"q": q, "k": k, "v": v, "beta": np.repeat(beta[:, None], 3, axis=1)},
        **{"log_mu": log(0 * beta), "muon": ()},
        "S": lact.State.start(Linear(supply.real("W", d_k, d_v)), keep_lengths=False),
    }


def _chunks(T: int, b: int) -> np.ndarray:
    """The chunk of each token, counted from zero."""
    return np.arange(T) // b


def _printed_mask(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x = _inputs(supply, T, d_k, d_v)
    o, _ = lact.recurrent(**x, inner_batch=2)
    before = (_chunks(T, 2)[:, None] > _chunks(T, 2)).astype(int) * x["q"][0, 0] ** 0
    letters = {"Q": x["q"], "K": x["k"], "V": x["v"], "O": o, "B": before}
    return Numbers(letters | {r"\beta": x["beta"][:, 0], "W_0": x["S"].f.W})


@identity(
    title="With a linear map it is linear attention to the chunks before",
    statement=r"O = Q W_0 + \left(Q K^\top \odot B\right) \mathrm{Diag}(\beta) V",
    source="ours; zhang2025lact applies before it updates",
    citations=("zhang2025lact",),
    equations=("eq-chunks-before",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-chunks-before"),
        AsPrinted(numbers=_printed_mask, at={"floats": {"T": 5}}),
    ),
    chapter=CHAPTER,
    mutants={
        "a token sees those before it in its chunk": {"within": True},
        "a chunk sees itself whole": {"own": 1},
        "the rates are left out": {"weighed": False},
        "the last chunk is learned from although it is not full": {"late": 1},
    },
    at={"rationals": {"T": 5}, "floats": {"T": 11}},
)
def block_mask(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    within: bool = False,
    own: int = 0,
    weighed: bool = True,
    late: int = 0,
) -> dict[str, Sides]:
    """Chunks of 1, 2 and 3 tokens, from any start; B is one where the chunk is earlier.

    A last chunk that is not full has been answered, and waits in the state.
    """
    x = _inputs(supply, T, d_k, d_v)
    q, k, W, sides = x["q"], x["k"], x["S"].f.W, {}
    v = x["beta"][:, :1] * x["v"] if weighed else x["v"]
    for b in (1, 2, 3):
        o, S = lact.recurrent(**x, inner_batch=b)
        chunk = _chunks(T, b)
        B = (chunk[:, None] + own > chunk).astype(int)
        B = np.tri(T, k=-1, dtype=int) if within else B
        full = min(T // b + late, 1 + (T - 1) // b) * b
        right = flat(q @ W + (q @ k.T * B) @ v, W + k[:full].T @ v[:full])
        sides[f"chunks of {b}"] = flat(o, S.f.W), right
    return sides


def _printed_strict(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x = _inputs(supply, T, d_k, d_v)
    o, _ = lact.recurrent(**x, inner_batch=1)
    letters = {name: x[name] for name in "qkv"} | {"o": o, r"\beta": x["beta"][:, 0]}
    index = {"t": range(1, T + 1), "j": range(1, T + 1)}
    return Numbers(letters | {"W_0": x["S"].f.W}, index)


@identity(
    title="In chunks of one token it is linear attention that does not see the token",
    statement=r"o_t = W_0^\top q_t + \sum_{j=1}^{t-1} \beta_j (k_j^\top q_t) v_j",
    source="ours",
    citations=("zhang2025lact",),
    printed={STATEMENT: AsPrinted(numbers=_printed_strict)},
    chapter=CHAPTER,
    mutants={
        "the token sees itself": {"own": True},
        "the rates are left out": {"weighed": False},
        "the objective is made small": {"sign": -1},
    },
)
def strictly_causal(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    own: bool = False,
    weighed: bool = True,
    sign: int = 1,
) -> dict[str, Sides]:
    """A token from any state: linear attention reads the state before its own write."""
    x = _inputs(supply, 1, d_k, d_v)
    W = x["S"].f.W
    o, S = lact.recurrent(**x, inner_batch=1)
    v = sign * (x["beta"][:, :1] * x["v"] if weighed else x["v"])
    read, after = linear_attention.recurrent(x["q"], x["k"], v, S=W)
    empty = {n: x[n][:0] for n in ("q", "k", "v", "beta", "log_mu")}
    _, start = lact.recurrent(**x | empty, inner_batch=1)
    return {
        "base": (start.f.W, W),
        "step": (flat(o, S.f.W), flat(read if own else x["q"] @ W, after)),
    }


def _two_chunks(supply: Supply, d_k: int, d_v: int) -> tuple[Any, ...]:
    """Four tokens in two chunks, with momentum, and the sums that each has gathered."""
    x = _inputs(supply, 4, d_k, d_v)
    x["log_mu"] = supply.log_decay("mu", 4)
    D = [
        x["k"][c].T @ (x["beta"][c, :1] * x["v"][c]) for c in np.split(np.arange(4), 2)
    ]
    return x, np.array(D), lact.recurrent(**x, inner_batch=2)[1]


def _printed_momentum(supply: Supply, d_k: int, d_v: int) -> Numbers:
    x, D, S = _two_chunks(supply, d_k, d_v)
    letters = {"W_0": x["S"].f.W, "W_2": S.f.W, "D": D, r"\mu": exp(x["log_mu"])}
    return Numbers(letters)


@identity(
    title="With momentum a chunk is learned once more, by the next chunk's mean gate",
    statement=r"W_2 = W_0 + D_1 + \left(D_2 + \frac{\mu_3 + \mu_4}{2} D_1\right)",
    source="zhang2025lact, its released code; the sum is ours",
    citations=("zhang2025lact",),
    printed={STATEMENT: AsPrinted(numbers=_printed_momentum)},
    chapter=CHAPTER,
    mutants={
        "the first chunk's gates": {"first": 0},
        "the gates are added": {"count": 1},
        "the chunk is not learned again": {"again": 0},
    },
)
def momentum(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    first: int = 2,
    count: int = 2,
    again: int = 1,
) -> Sides:
    """Two chunks of two tokens, a linear map without Muon."""
    x, D, S = _two_chunks(supply, d_k, d_v)
    gate = exp(x["log_mu"])[first : first + 2].sum() / count
    return S.f.W, x["S"].f.W + D[0] + D[1] + again * gate * D[0]


def _printed_scaled(supply: Supply, d: int) -> Numbers:
    G, c = 1e6 * supply.real("G", d, d), 1 + supply.positive("c", 1)[0]
    return Numbers({"G": G, "c": c, r"\mathrm{Muon}": inner.newton_schulz})


@identity(
    title="Under Muon a common step size cancels",
    statement=r"\mathrm{Muon}(c G) = \mathrm{Muon}(G)",
    source="zhang2025lact; the step is Newton and Schulz's",
    citations=("zhang2025lact", "jordan2024muon"),
    worlds=("floats",),
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_scaled,
            worlds=("floats",),
            equivalent={
                "c → nothing (line 1, column 15)": "both sides are then one text"
            },
        )
    },
    chapter=CHAPTER,
    mutants={
        "one token's rate alone is doubled": {"alone": True},
        "the sign changes": {"sign": -1},
        "no step of Muon": {"plain": True},
    },
)
def common_rate(
    supply: Supply,
    N: int,
    d: int,
    *,
    alone: bool = False,
    sign: int = 1,
    plain: bool = False,
) -> Sides:
    """The released iteration on a sum of outer products, and on a thousand times it.

    What is added to the length before it divides is below rounding there.
    """
    k, v = supply.real("k", N, d), supply.real("v", N, d)
    rates = np.full((N, 1), 1e6 * sign)
    rates[:1] = 2e6 if alone else rates[:1]
    sums = k.T @ (1e9 * v), k.T @ (rates * v)
    if plain:
        return sums
    one, other = (inner.newton_schulz(D, inner.MUON_LACT) for D in sums)
    return one, other
