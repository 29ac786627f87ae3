"""A batch of all tokens, one by one, again and again, or fading: what each step is.

A linear map W answers W'k. A batch step goes against the sum of all slopes at one
place; online steps go one token at a time, each slope taken where the last has led.
"""

from functools import partial
from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.slopes import dot, slopes, squared
from ctlearn.identities.tokens import at_right_angle, states, tokens
from ctlearn.mixers import delta_rule, gated_linear_attention, linear_attention
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import exp
from ctlearn.supplies import Supply
from ctlearn.systems import solve

CHAPTER = "06_a_tiny_model"


def _printed_online(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Online steps on the dot product, from any start, each slope where it is taken."""
    _, k, v = tokens(supply, T, d_k, d_v)
    W, G = [supply.real("W", d_k, d_v)], []
    for t in range(T):
        G.append(slopes(dot, W[-1], k[t : t + 1], v[t : t + 1])[0])
        W.append(W[-1] - G[-1])
    letters = {"k": k, "v": v, "W": Rows(np.array(W), first=0), "g": np.array(G)}
    return Numbers(letters, {"t": range(1, T + 1), "j": range(1, T + 1)})


def _free_dot(*, loss: str = "dot", size: int = 1) -> Sides:
    """The slope at any W, whose transposed letters are letters of their own."""
    import sympy

    W, k, k_T, v_T = sympy.symbols("W k k^T v^T", commutative=False)
    error = k_T * W - v_T if loss == "squared" else -v_T
    return W + k * v_T, W - size * k * error


@identity(
    title="For the dot product the slope does not see the state: online is batch",
    statement=r"g_t = -k_t v_t^\top, \quad"
    r" W_t = W_{t-1} - g_t = W_0 + \sum_{j=1}^{t} k_j v_j^\top",
    source="mcdermott2026, eqs. 8 and 9, the Hebbian rule",
    citations=("mcdermott2026",),
    equations=("eq-online-dot",),
    printed={
        "eq-online-dot": AsPrinted(numbers=_printed_online),
    },
    free=_free_dot,
    chapter=CHAPTER,
    mutants={
        "the squared error": {"loss": "squared"},
        "a step size of 2": {"size": 2},
        "the dot product is made small": {"size": -1},
    },
)
def hebbian(
    supply: Supply, d_k: int, d_v: int, *, loss: str = "dot", size: int = 1
) -> dict[str, Sides]:
    """A step from any state, and the slope at another one."""
    q, k, v = tokens(supply, 1, d_k, d_v)
    W, other = supply.real("W", d_k, d_v), supply.real("X", d_k, d_v)
    cost = dot if loss == "dot" else squared
    here, there = (slopes(cost, at, k, v)[0] for at in (W, other))
    layer = linear_attention.step(q[0], k[0], v[0], S=W)[1]
    nothing = linear_attention.recurrent(q[:0], k[:0], v[:0], S=W)[1]
    return {
        "base": (nothing, W),
        "step": (layer, W - size * here),
        "elsewhere": (here, there),
    }


def _printed_orthogonal(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    _, k, v = tokens(supply, T, d_k, d_v)
    for t in range(1, T):
        for earlier in k[:t]:
            k[t] = at_right_angle(k[t], earlier)
    W_0, beta = supply.real("W_0", d_k, d_v), supply.rate("beta", T)
    ends = states(partial(delta_rule.recurrent, S=W_0), T, k, k, v, beta=beta)
    letters = {"S": ends, "W_0": W_0, r"\beta": beta, "k": k, "v": v}
    return Numbers(
        letters, {"t": range(1, T + 1), "i": range(1, T + 1), "j": range(1, T + 1)}
    )


@identity(
    title="With orthogonal keys, squared errors too: online is batch",
    statement=r"S_t = W_0 + \sum_{j=1}^{t} \beta_j k_j (v_j - W_0^\top k_j)^\top,"
    r" \quad k_i^\top k_j = 0 \quad (i < j)",
    source="ours; elementary",
    citations=("schlag2021", "vonoswald2023"),
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_orthogonal,
            worlds=("rationals",),
            at={"rationals": {"T": 3, "d_k": 3, "d_v": 2}},
        )
    },
    mutants={
        "the keys are not orthogonal": {"across": False},
        "the error is not the start's": {"known": False},
        "the step counts twice": {"size": 2},
    },
)
def orthogonal_keys(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    across: bool = True,
    known: bool = True,
    size: int = 1,
) -> dict[str, Sides]:
    """A write at any key at which the state still answers as W_0, then at the others.

    Such states are W_0 and any matrix whose columns are across the key. That what is
    across a key answers as before keeps it so for the keys to come.
    """
    q, k, v = tokens(supply, 1, d_k, d_v)
    W_0, beta = supply.real("W_0", d_k, d_v), supply.rate("beta", 1)[0]
    N, x = supply.real("N", d_k, d_v), supply.real("x", d_k)
    if known:
        N = at_right_angle(N, k[0])
    if across:
        x = at_right_angle(x, k[0])
    written = size * beta * np.outer(k[0], v[0] - k[0] @ W_0)
    write = {"q": q[0], "k": k[0], "v": v[0], "beta": beta}
    first = delta_rule.step(**write, S=W_0)[1]
    S = W_0 + N
    after = delta_rule.step(**write, S=S)[1]
    return {
        "base": (first, W_0 + written),
        "step": (after, S + written),
        "others": (x @ after, x @ S),
    }


def _two_values(supply: Supply) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One key twice, with the values 1 and 3, and the step size of a unit key."""
    one = supply.real("one", 1)[0] ** 0
    return one * np.ones((2, 1), dtype=int), one * np.array([[1], [3]]), one / 2


def _printed_two(supply: Supply) -> Numbers:
    k, v, eta = _two_values(supply)
    online = delta_rule.recurrent(k, k, v, beta=np.full(2, 2 * eta))[1]
    batch = linear_attention.recurrent(k, k, v)[1]
    letters = {"k": k[:, 0], "v": v[:, 0], "W_2": online[0, 0], "S_2": batch[0, 0]}
    return Numbers(letters)


@identity(
    title="On squared errors a batch is not the same tokens one by one",
    kind="counterexample",
    statement=r"k_1 = k_2 = 1, \quad v_1 = 1, \quad v_2 = 3, \quad"
    r" S_2 = v_1 + v_2 = 4 \ne 3 = v_2 = W_2",
    source="ours",
    citations=("sun2024ttt",),
    worlds=("rationals",),
    printed={STATEMENT: AsPrinted(numbers=_printed_two)},
    chapter=CHAPTER,
    mutants={
        "keys at a right angle": {"apart": True},
        "the dot product": {"loss": "dot"},
        "one token": {"length": 1},
    },
)
def differ(
    supply: Supply, *, apart: bool = False, loss: str = "squared", length: int = 2
) -> Sides:
    """The slopes at zero together, and each where the step before has led."""
    k, v, eta = _two_values(supply)
    if apart:
        k = k[0, 0] * np.eye(2, dtype=int)
    cost = squared if loss == "squared" else dot
    W = zero = np.zeros((k.shape[1], 1), dtype=k.dtype)
    for t in range(length):
        W = W - eta * slopes(cost, W, k[t : t + 1], v[t : t + 1])[0]
    return W, -eta * slopes(cost, zero, k[:length], v[:length]).sum(axis=0)


def _batch(W: np.ndarray, k: np.ndarray, v: np.ndarray, eta: Any) -> np.ndarray:
    return W - eta * slopes(squared, W, k, v).sum(axis=0)


def _printed_more(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    _, k, v = tokens(supply, T, d_k, d_v)
    eta, W = supply.rate("eta", 1)[0], [np.zeros((d_k, d_v), dtype=k.dtype)]
    for _ in range(3):
        W.append(_batch(W[-1], k, v, eta))
    letters = {"K": k, "V": v, r"\eta": eta, "W": Rows(np.array(W), first=0)}
    return Numbers(letters, {"n": range(1, 4)})


def _free_more(*, factor: int = 2, add: int = 1) -> Sides:
    """Any A stands for the steps before; K and its transpose do not commute."""
    import sympy

    A, K, K_T, V = sympy.symbols("A K K^T V", commutative=False)
    eta = sympy.Symbol("eta")
    W = A * K_T * V
    changed = (1 - factor * eta * K_T * K) * A + add * 2 * eta
    return W - 2 * eta * K_T * (K * W - V), changed * K_T * V


@identity(
    title="More batch steps are linear attention for a changed query",
    statement=r"W_n = 2 \eta \sum_{m=0}^{n-1} (I - 2 \eta K^\top K)^m K^\top V",
    source="ours; elementary",
    printed={
        STATEMENT: AsPrinted(numbers=_printed_more, worlds=("rationals", "floats"))
    },
    free=_free_more,
    chapter=CHAPTER,
    mutants={
        "the moment of the keys counts once": {"factor": 1},
        "the newest step adds nothing": {"add": 0},
        "the newest step adds twice": {"add": 2},
    },
    at={"symbols": {"N": 2}},
)
def more_steps(
    supply: Supply, N: int, d_k: int, d_v: int, *, factor: int = 2, add: int = 1
) -> dict[str, Sides]:
    """A step from A K'V for any A; the first is from A = 0, linear attention itself."""
    q, k, v = tokens(supply, N, d_k, d_v)
    eta, A = supply.rate("eta", 1)[0], supply.real("A", d_k, d_k)
    KV = linear_attention.recurrent(q, k, v)[1]
    one = np.eye(d_k, dtype=int)

    def changed(A: np.ndarray) -> np.ndarray:
        return (one - factor * eta * k.T @ k) @ A + add * 2 * eta * one

    return {
        "base": (_batch(0 * KV, k, v, eta), changed(0 * A) @ KV),
        "step": (_batch(A @ KV, k, v, eta), changed(A) @ KV),
    }


def _printed_towards(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    _, k, _ = tokens(supply, T, d_k, d_v)
    best, eta = supply.real("B", d_k, d_v), supply.rate("eta", 1)[0]
    noise = supply.real("N", T, d_v)
    # values whose best map is known: what is added is at right angles to all keys
    noise = noise - k @ np.array([solve(k.T @ k, x) for x in (k.T @ noise).T]).T
    v, W = k @ best + noise, [supply.real("W", d_k, d_v)]
    for _ in range(3):
        W.append(_batch(W[-1], k, v, eta))
    letters = {"K": k, "V": v, r"\eta": eta, r"W^\star": best}
    return Numbers(letters | {"W": Rows(np.array(W), first=0)}, {"n": range(1, 4)})


def _printed_halved(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """The same steps, where the slope is that of half the squared errors."""
    found = _printed_towards(supply, T, d_k, d_v)
    letters = {**found.letters, r"\eta": 2 * found.letters[r"\eta"]}
    return Numbers(letters, found.indices)


def _free_towards(*, factor: int = 2) -> Sides:
    """One step in any dimension, where K'V is K'K times the best map."""
    import sympy

    W, best, K, K_T = sympy.symbols("W W^* K K^T", commutative=False)
    eta = sympy.Symbol("eta")
    after = W - 2 * eta * (K_T * K * W - K_T * K * best)
    return after - best, (1 - factor * eta * K_T * K) * (W - best)


@identity(
    title="Batch steps bring any start towards the least squares, by one matrix a step",
    statement=r"K^\top K W^\star = K^\top V, \quad"
    r" W_n - W^\star = (I - 2 \eta K^\top K)^n (W_0 - W^\star)",
    source="ours; elementary",
    equations=("eq-batch-steps",),
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_towards,
            worlds=("rationals", "floats"),
            at={"rationals": {"T": 4, "d_k": 2, "d_v": 2}},
        ),
        "eq-batch-steps": AsPrinted(
            numbers=_printed_halved,
            worlds=("rationals", "floats"),
            at={"rationals": {"T": 4, "d_k": 2, "d_v": 2}},
        ),
    },
    free=_free_towards,
    chapter=CHAPTER,
    mutants={
        "the moment of the keys counts once": {"factor": 1},
        "towards another map": {"away": 1},
        "the step is left out": {"factor": 0},
    },
    at={"symbols": {"N": 2}},
)
def towards(
    supply: Supply, N: int, d_k: int, d_v: int, *, factor: int = 2, away: int = 0
) -> dict[str, Sides]:
    """A step from any W; n steps are the same matrix n times.

    The values are those of any best map: what else values hold is at right angles to
    the keys, and no slope has it.
    """
    _, k, _ = tokens(supply, N, d_k, d_v)
    eta, W = supply.rate("eta", 1)[0], supply.real("W", d_k, d_v)
    best = supply.real("B", d_k, d_v)
    after = _batch(W, k, k @ best, eta)
    shrink = np.eye(d_k, dtype=int) - factor * eta * k.T @ k
    goal = best + away
    return {
        "base": (_batch(goal, k, k @ best, eta), goal),
        "step": (after - goal, shrink @ (W - goal)),
    }


def _printed_fading(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    q, k, v = tokens(supply, T, d_k, d_v)
    fading = supply.log_decay("alpha", T)
    rows = np.repeat(fading[:, None], d_k, axis=1)
    ends = states(gated_linear_attention.recurrent, T, q, k, v, log_decay=rows)
    G = slopes(squared, np.zeros((d_k, d_v), dtype=k.dtype), k, v)
    letters = {"S": ends, "G": G, r"\alpha": exp(fading)}
    return Numbers(letters, {"t": range(1, T + 1), "j": range(1, T + 1)})


def _free_fading(*, own: int = 0, power: int = 1) -> Sides:
    """A pair more, of any size; letters do not commute, alpha does."""
    import sympy

    S, k, v_T = sympy.symbols("S k v^T", commutative=False)
    alpha = sympy.Symbol("alpha")
    slope = 2 * k * (0 - v_T)
    new = alpha**own * slope / 2
    return alpha * S + k * v_T, alpha**power * S - new


@identity(
    title="Gated linear attention is one step on losses that fade",
    statement=r"S_t = -\frac{1}{2} \sum_{j=1}^{t}"
    r" \left(\prod_{r=j+1}^{t} \alpha_r\right) G_j",
    source="wang2025ttr, geometric weights",
    citations=("wang2025ttr", "yang2024gla"),
    printed={STATEMENT: AsPrinted(numbers=_printed_fading)},
    free=_free_fading,
    mutants={
        "a token's own loss fades with it": {"own": 1},
        "the losses fade twice as fast": {"power": 2},
        "nothing fades": {"power": 0},
    },
)
def fading_losses(
    supply: Supply, d_k: int, d_v: int, *, own: int = 0, power: int = 1
) -> dict[str, Sides]:
    """All earlier losses weigh alpha times what they did, and one more comes in."""
    q, k, v = tokens(supply, 1, d_k, d_v)
    S, fading = supply.real("S", d_k, d_v), supply.log_decay("alpha", 1)
    alpha, half = exp(fading)[0], S[0, 0] ** 0 / 2
    rows = np.repeat(fading, d_k)
    layer = gated_linear_attention.step(q[0], k[0], v[0], log_decay=rows, S=S)[1]
    new = -half * slopes(squared, 0 * S, k, v)[0]
    nothing = np.zeros((0, d_k), dtype=k.dtype)
    empty = gated_linear_attention.recurrent(q[:0], k[:0], v[:0], log_decay=nothing)
    return {
        "base": (empty[1], 0 * S),
        "step": (layer, alpha**power * S + alpha**own * new),
    }
