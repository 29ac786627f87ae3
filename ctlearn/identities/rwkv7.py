"""RWKV-7 in chunks: two write directions, and old answers that depend on each other."""

import numpy as np

from ctlearn import memory
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.parallel_forms import OWN_IS_ZERO
from ctlearn.mixers import rwkv7
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.supplies import Supply


def _tokens(supply: Supply, C: int, d_k: int, d_v: int) -> dict[str, np.ndarray]:
    x = {name: supply.real(name, C, d_k) for name in ("q", "k", "kappa")}
    x |= {"v": supply.real("v", C, d_v), "a": supply.rate("w", C, d_k)}
    return x | {"log_decay": supply.log_decay("a", C, d_k)}


def _printed(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    """Tokens of RWKV-7, the package's states, and the answers at the removal keys."""
    x, S = _tokens(supply, C, d_k, d_v), supply.real("S", d_k, d_v)
    states = [
        rwkv7.recurrent(**{name: array[:t] for name, array in x.items()}, S=S)[1]
        for t in range(C + 1)
    ]
    old = [S_t.T @ kappa for S_t, kappa in zip(states, x["kappa"], strict=False)]
    between = memory.decay_between(x["log_decay"], x["k"])
    letters = {"k": x["k"], "v": x["v"], "a": x["a"], r"\kappa": x["kappa"]}
    letters |= {"r": np.array(old), r"\gamma'": between[:-1, 0], "D'": between[:-1, 1:]}
    S_t = {"S": Rows(np.array(states), first=0)}
    return Numbers(letters | S_t, {"t": range(1, C + 1)})


@identity(
    title="RWKV-7 in chunks is exact: its old answers solve a triangular system",
    statement=r"r_t = S_{t-1}^\top \kappa_t, \qquad r_t = S_0^\top"
    r" \mathrm{Diag}(\gamma'_t) \kappa_t + \sum_{j=1}^{t-1}"
    r" (\kappa_t^\top \mathrm{Diag}(D'_{t,j}) k_j) v_j - \sum_{j=1}^{t-1}"
    r" (\kappa_t^\top \mathrm{Diag}(D'_{t,j}) (a_j \odot \kappa_j)) r_j",
    source="ours; for diagonal plus low rank as peng2025goose has it",
    citations=("peng2025goose",),
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed,
            equivalent={
                "-1 → nothing (line 1, column 101)": OWN_IS_ZERO,
                "-1 → nothing (line 1, column 168)": OWN_IS_ZERO,
            },
        )
    },
    mutants={
        "the memory gives up twice as much": {"change": "a"},
        "the value is written twice": {"change": "v"},
        "the decay squared": {"change": "log_decay"},
        "the removal key is the write key": {"tied": True},
    },
    at={"symbols": {"C": 3, "d_v": 2}},
)
def chunk(
    supply: Supply,
    C: int,
    d_k: int,
    d_v: int,
    *,
    change: str = "",
    tied: bool = False,
) -> dict[str, Sides]:
    """No token, and C tokens from any state; kappa and a are free, of any length."""
    x, S = _tokens(supply, C, d_k, d_v), supply.real("S", d_k, d_v)
    altered = x | {change: 2 * x[change]} if change else x
    altered = altered | {"kappa": x["k"]} if tied else altered
    none = {name: array[:0] for name, array in x.items()}
    o, after = rwkv7.recurrent(**x, S=S)
    o_chunk, after_chunk = rwkv7.parallel(**altered, S=S)
    return {
        "base": (rwkv7.recurrent(**none, S=S)[1], rwkv7.parallel(**none, S=S)[1]),
        "step": (after, after_chunk),
        "outputs": (o, o_chunk),
    }
