"""The slope along a gate: three sums that are equal, and one that loses all digits."""

from typing import Any

import numpy as np

from ctlearn import memory
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.gradients import Inputs, along
from ctlearn.mixers import gated_linear_attention
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import log
from ctlearn.supplies import Supply

CHAPTER = "05_forgetting"


def _draw(supply: Supply, T: int, d_k: int, d_v: int, gates: int) -> Inputs:
    """Gated linear attention from an empty state, and the loss's slopes at outputs.

    `gates` is d_k, or 1 for one gate a token.
    """
    x = {"q": supply.real("q", T, d_k), "k": supply.real("k", T, d_k)}
    x |= {"v": supply.real("v", T, d_v), "do": supply.real("y", T, d_v)}
    return x | {"alpha": supply.rate("a", T, gates)}


def _loss(x: Inputs) -> Any:
    log_decay = log(x["alpha"] + 0 * x["k"])
    o, _ = gated_linear_attention.recurrent(x["q"], x["k"], x["v"], log_decay=log_decay)
    return (x["do"] * o).sum()


def _pairs(x: Inputs) -> np.ndarray:
    """What key j adds to the loss by query i, by channel: [T, T, d_k]."""
    D = memory.decay_between(log(x["alpha"]), x["k"])[1:, 1:]
    products = x["q"][:, None] * x["k"][None] * D
    return products * (x["do"] @ x["v"].T)[:, :, None]


def _slopes(x: Inputs) -> np.ndarray:
    """The loss's slope along the gates' logs [T, d_k] or [T, 1]."""
    return x["alpha"] * along(_loss, x, "alpha")


def _printed(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x = _draw(supply, T, d_k, d_v, 1)
    D = memory.decay_between(log(x["alpha"]), x["k"])[1:, 1:, 0]
    letters = {"p": _pairs(x).sum(axis=2), "D": D, r"\bar{g}": _slopes(x)[:, 0], "T": T}
    letters |= {name: x[name] for name in "qkv"} | {r"\bar{o}": x["do"]}
    letters |= {rf"\bar{{{name}}}": along(_loss, x, name) for name in "qk"}
    index = range(1, T + 1)
    return Numbers(letters, {"t": index, "i": index, "j": index, "r": index})


AS_PRINTED = AsPrinted(numbers=_printed, at={"symbols": {"d_v": 2}, "floats": {"T": 4}})


@identity(
    title="A gate's slope is the sum of all pairs that it stands between",
    statement=r"p_{i,j} = D_{i,j} (q_i^\top k_j) (\bar{o}_i^\top v_j), \qquad"
    r" \bar{g}_t = \sum_{i=t}^{T} \sum_{j=1}^{t-1} p_{i,j}",
    source="ours; elementary",
    equations=("eq-gate-slope",),
    printed=dict.fromkeys((STATEMENT, "eq-gate-slope"), AS_PRINTED),
    chapter=CHAPTER,
    mutants={
        "the token's own pair, too": {"own": 1},
        "queries before the gate": {"early": 1},
        "the slope along the decay, not its log": {"logs": 0},
    },
    at={"symbols": {"T": 3, "d_v": 2}, "floats": {"T": 8}},
)
def crossing_pairs(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    own: int = 0,
    early: int = 0,
    logs: int = 1,
) -> Sides:
    """One gate for each key channel, against the pairs of that channel."""
    x = _draw(supply, T, d_k, d_v, d_k)
    p = _pairs(x)
    told = [p[max(t - early, 0) :, : t + own].sum(axis=(0, 1)) for t in range(T)]
    return x["alpha"] ** logs * along(_loss, x, "alpha"), np.array(told)


def _summed_back(terms: np.ndarray) -> np.ndarray:
    """Row t: the sum of all rows from t on."""
    return np.cumsum(terms[::-1], axis=0)[::-1]


@identity(
    title="The same from row sums less column sums of the pairs of two tokens",
    statement=r"\bar{g}_t = \sum_{r=t}^{T} \left(\sum_{j=1}^{r-1} p_{r,j}"
    r" - \sum_{i=r+1}^{T} p_{i,r}\right)",
    source="ours; the stable form of the Mamba-2 kernels' gradient",
    citations=("dao2024",),
    printed={STATEMENT: AS_PRINTED},
    chapter=CHAPTER,
    mutants={
        "summed from the front": {"back": False},
        "columns less rows": {"sign": -1},
        "rows alone": {"columns": 0},
    },
    at={"symbols": {"T": 3, "d_v": 2}, "floats": {"T": 8}},
)
def strict_pairs(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    back: bool = True,
    sign: int = 1,
    columns: int = 1,
) -> Sides:
    """Without the pairs of a token and itself, which no gate stands between."""
    x = _draw(supply, T, d_k, d_v, d_k)
    p = _pairs(x) * (1 - np.eye(T, dtype=int))[:, :, None]
    terms = sign * (p.sum(axis=1) - columns * p.sum(axis=0))
    return _slopes(x), _summed_back(terms) if back else np.cumsum(terms, axis=0)


@identity(
    title="The same from the slopes along queries and keys, with no pairs at all",
    statement=r"\bar{g}_t = \sum_{r=t}^{T} (q_r^\top \bar{q}_r - k_r^\top \bar{k}_r)",
    source="yang2024gla, its slope along the gate, from memory",
    citations=("yang2024gla",),
    equations=("eq-gate-shortcut",),
    printed=dict.fromkeys((STATEMENT, "eq-gate-shortcut"), AS_PRINTED),
    chapter=CHAPTER,
    mutants={
        "summed from the front": {"back": False},
        "keys less queries": {"sign": -1},
        "queries alone": {"keys": 0},
    },
    at={"symbols": {"T": 3, "d_v": 2}, "floats": {"T": 8}},
)
def shortcut(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    back: bool = True,
    sign: int = 1,
    keys: int = 1,
) -> Sides:
    """Each token's pair with itself is in both terms, and cancels."""
    x = _draw(supply, T, d_k, d_v, d_k)
    queried, keyed = (x[name] * along(_loss, x, name) for name in "qk")
    terms = sign * (queried - keys * keyed)
    return _slopes(x), _summed_back(terms) if back else np.cumsum(terms, axis=0)


@identity(
    title="In float32 the shortcut returns 0 for a slope of 2^-25",
    kind="counterexample",
    statement=r"T = 2, \; q = k = v = \bar{o} = 1, \; \alpha_2 = 2^{-25}: \quad"
    r" \mathrm{fl}(q_2 \bar{q}_2 - k_2 \bar{k}_2) = \mathrm{fl}(1 + 2^{-25}) - 1 = 0"
    r" \ne 2^{-25} = \bar{g}_2",
    source="ours; a fault met in released kernels, with slopes off by a factor of 400",
    chapter=CHAPTER,
    worlds=("floats",),
    mutants={
        "a mild decay": {"power": 1},
        "in float64": {"dtype": "float64"},
        "by strict pairs": {"strict": True},
    },
)
def lost_digits(
    supply: Supply, *, power: int = 25, dtype: str = "float32", strict: bool = False
) -> Sides:
    """The second gate's slope, times its inverse so that it is compared with one."""
    ones = np.ones((2, 1), dtype=dtype)
    x = {"q": ones, "k": ones, "v": ones, "do": ones}
    x["alpha"] = np.array([[0.5], [0.5**power]], dtype=dtype)
    p = _pairs(x)[:, :, 0]
    q_part, k_part = p[1].sum(keepdims=True), p[1:, 1]
    slope = p[1, :1] if strict else q_part - k_part
    return slope / x["alpha"][1], ones[0]
