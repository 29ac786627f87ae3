"""Retention: the three plans with one constant decay."""

from typing import Any

import numpy as np

from ctlearn.identities.engine import Sides, identity
from ctlearn.memory import decay_between
from ctlearn.mixers import retention
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import log
from ctlearn.supplies import Supply

CHAPTER = "03_three_plans"


def _draw(supply: Supply, T: int, d_k: int, d_v: int) -> dict:
    return {
        "q": supply.real("q", T, d_k),
        "k": supply.real("k", T, d_k),
        "v": supply.real("v", T, d_v),
        "gamma": supply.rate("gamma", 1)[0],
        "S": supply.real("S", d_k, d_v),
    }


def _recurrent(x: dict) -> np.ndarray:
    inputs = {name: x[name] for name in ("q", "k", "v", "S")}
    return _flat(*retention.recurrent(**inputs, log_gamma=log(np.array(x["gamma"]))))


def _flat(o: np.ndarray, S: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ravel(o), np.ravel(S)])


def _printed(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Tokens from an empty state, and what the package makes of them."""
    x = _draw(supply, T, d_k, d_v)
    q, k, v, gamma = (x[name] for name in ("q", "k", "v", "gamma"))
    log_gamma = log(np.array(gamma))
    o, _ = retention.recurrent(q, k, v, log_gamma=log_gamma)
    ends = [
        retention.recurrent(q[:t], k[:t], v[:t], log_gamma=log_gamma)[1]
        for t in range(T + 1)
    ]
    D = decay_between(np.repeat(log_gamma, T), k)[1:, 1:, 0]
    tokens = {"q": q, "k": k, "v": v, "o": o, "S": Rows(np.array(ends), first=0)}
    whole = {"Q": q, "K": k, "V": v, "O": o, "D": D, r"\gamma": gamma}
    index = range(1, T + 1)
    return Numbers(tokens | whole, {"t": index, "i": index, "j": index})


def _printed_chunk(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    """The second of two chunks, and the states at its boundaries."""
    x = _draw(supply, 2 * C, d_k, d_v)
    q, k, v, S = (x[name] for name in ("q", "k", "v", "S"))
    log_gamma = log(np.array(x["gamma"]))
    o, end = retention.recurrent(q, k, v, log_gamma=log_gamma, S=S)
    _, middle = retention.recurrent(q[:C], k[:C], v[:C], log_gamma=log_gamma, S=S)
    letters = {"q": q[C:], "k": k[C:], "v": v[C:], "o": o[C:], r"\gamma": x["gamma"]}
    states = Rows(np.array([S, middle, end]), first=0)
    return Numbers(letters | {"S": states, "C": C, "n": 2}, {"i": range(1, C + 1)})


PRINTED = AsPrinted(numbers=_printed)


@identity(
    title="Retention at once: the mask holds a power of the decay for each distance",
    statement=(
        r"O = (Q K^\top \odot D) V, \qquad D_{ij} = \gamma^{i-j} \quad (i \ge j)"
    ),
    source="sun2023retnet, eq. 5, without rotation",
    citations=("sun2023retnet",),
    equations=("eq-retention-parallel", "def-retention", "def-decay-mask"),
    printed=dict.fromkeys(
        ("eq-retention-parallel", "def-retention", "def-decay-mask"), PRINTED
    ),
    chapter=CHAPTER,
    mutants={
        "the token's own write fades": {"own": 1},
        "the mask does not decay": {"power": 0},
        "the decay of the key's place, not of the distance": {"distance": False},
    },
)
def parallel(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    own: int = 0,
    power: int = 1,
    distance: bool = True,
) -> Sides:
    """The recurrence from an empty state, against the masked product."""
    x = _draw(supply, T, d_k, d_v)
    x["S"] = 0 * x["S"]
    D = np.zeros((T, T), dtype=x["q"].dtype)
    for i in range(T):
        for j in range(i + 1):
            D[i, j] = x["gamma"] ** (power * ((i - j if distance else j) + own))
    o = ((x["q"] @ x["k"].T) * D) @ x["v"]
    return _recurrent(x)[: o.size], np.ravel(o)


def _chunks(
    x: dict, C: int, *, seen: int = 0, left: int = 0, nominal: bool = False
) -> np.ndarray:
    """The plan as the chapter prints it, with places i and j inside the chunk."""
    q, k, v, gamma, S = (x[name] for name in ("q", "k", "v", "gamma", "S"))
    o = 0 * v
    for start in range(0, len(q), C):
        n = min(C, len(q) - start)
        for i in range(1, n + 1):
            row = gamma ** (i + seen) * (S.T @ q[start + i - 1])
            for j in range(1, i + 1):
                score = q[start + i - 1] @ k[start + j - 1]
                row = row + gamma ** (i - j) * score * v[start + j - 1]
            o[start + i - 1] = row
        S = gamma ** (C if nominal else n) * S
        for j in range(1, n + 1):
            written = np.outer(k[start + j - 1], v[start + j - 1])
            S = S + gamma ** (n - j + left) * written
    return _flat(o, S)


@identity(
    title="Retention in chunks is exact, for every chunk size and a shorter last chunk",
    statement=(
        r"o_i = \gamma^i S_{[n-1]}^\top q_i"
        r" + \sum_{j=1}^{i} \gamma^{i-j} (q_i^\top k_j) v_j, \qquad"
        r" S_{[n]} = \gamma^C S_{[n-1]} + \sum_{j=1}^{C} \gamma^{C-j} k_j v_j^\top"
    ),
    source="sun2023retnet, eq. 7, without rotation",
    citations=("sun2023retnet",),
    equations=("eq-retention-chunkwise",),
    printed={"eq-retention-chunkwise": AsPrinted(numbers=_printed_chunk)},
    chapter=CHAPTER,
    mutants={
        "the state is read before it fades": {"seen": -1},
        "a write fades once too often": {"left": 1},
        "the last chunk fades as if it were full": {"nominal": True},
    },
    at={"symbols": {"T": 3}, "floats": {"T": 11}},
)
def chunkwise(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    seen: int = 0,
    left: int = 0,
    nominal: bool = False,
) -> dict[str, Sides]:
    """The recurrence, against the two lines of the plan, for C = 1 up to T + 1."""
    x = _draw(supply, T, d_k, d_v)
    whole = _recurrent(x)
    wrong: dict[str, Any] = {"seen": seen, "left": left, "nominal": nominal}
    return {f"C = {C}": (whole, _chunks(x, C, **wrong)) for C in range(1, T + 2)}


@identity(
    title="A shorter last chunk does not fade by the full chunk's power",
    kind="counterexample",
    statement=(
        r"S_T \ne \gamma^C S_{[n-1]} + \sum_{j=1}^{r} \gamma^{r-j} k_j v_j^\top"
        r" \quad (r < C)"
    ),
    source="ours; a fault met in released kernels",
    chapter=CHAPTER,
    worlds=("rationals",),
    mutants={
        "the last chunk is full": {"T": 4},
        "the power of what is there": {"nominal": False},
    },
)
def full_power_on_a_short_chunk(
    supply: Supply, *, T: int = 3, nominal: bool = True
) -> Sides:
    """Three tokens in chunks of two, in one dimension."""
    x = _draw(supply, T, 1, 1)
    return _recurrent(x), _chunks(x, 2, nominal=nominal)
