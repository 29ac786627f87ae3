"""How large a state can become: what a write adds to its squared length."""

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.mixers import delta_rule, gated_delta_rule, linear_attention
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import log
from ctlearn.supplies import Supply

BOUNDED = ("rationals", "floats")


def _written(supply: Supply, d_k: int, d_v: int) -> Numbers:
    """A token of the delta rule with a unit key, and the states around it."""
    k, v = supply.unit("k", 1, d_k)[0], supply.real("v", d_v)
    S, beta = supply.real("S", d_k, d_v), supply.double("beta", 1)[0]
    _, after = delta_rule.step(k, k, v, beta=beta, S=S)
    return Numbers({"k": k, "v": v, r"\beta": beta, "S_0": S, "S_1": after})


@identity(
    title="What a write of the delta rule adds to the state's squared length",
    statement=r"k^\top k = 1, \qquad \lVert S_1 \rVert^2 = \lVert S_0 \rVert^2"
    r" + \frac{\beta}{2 - \beta} \lVert v \rVert^2 - \beta (2 - \beta)"
    r" \lVert S_0^\top k - \frac{1 - \beta}{2 - \beta} v \rVert^2",
    source="ours; elementary",
    printed={STATEMENT: AsPrinted(numbers=_written, worlds=BOUNDED)},
    mutants={
        "a key twice as long": {"longer": 2},
        "the old answer takes nothing off": {"off": 0},
        "the whole of the value": {"share": False},
    },
    at={"symbols": {"d_v": 1}},
)
def added(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    longer: int = 1,
    off: int = 1,
    share: bool = True,
) -> Sides:
    """A square is completed: the least that is taken off is nothing."""
    x = _written(supply, d_k, d_v).letters
    k, v, S, beta = longer * x["k"], x["v"], x["S_0"], x[r"\beta"]
    _, after = delta_rule.step(k, k, v, beta=beta, S=S)
    most = beta * (v @ v) / (2 - beta if share else 1)
    gap = S.T @ k - (1 - beta) * v / (2 - beta)
    right = (S**2).sum() + most - off * beta * (2 - beta) * (gap @ gap)
    return np.array([(after**2).sum()]), np.array([right])


def _full_steps(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    k, v = supply.unit("k", T, d_k), supply.real("v", T, d_v)
    beta = k[:, 0] ** 0
    _, S = delta_rule.recurrent(k, k, v, beta=beta)
    letters = {"k": k, "v": v, r"\beta": beta, "S": S}
    return Numbers({**letters, "T": T}, {"t": range(1, T + 1)})


@identity(
    title="With full steps the delta rule's state holds no more than all its values",
    kind="bound",
    statement=r"k_t^\top k_t = \beta_t = 1, \qquad"
    r" \lVert S \rVert^2 \le \sum_{t=1}^{T} \lVert v_t \rVert^2",
    source="ours",
    printed={STATEMENT: AsPrinted(numbers=_full_steps, worlds=BOUNDED)},
    worlds=BOUNDED,
    mutants={
        "nearly reflecting steps": {"tenths": 19},
        "keys twice as long": {"longer": 2},
        "half of the values": {"share": 2},
    },
    at={"rationals": {"T": 4, "d_k": 2}},
)
def no_more_than_shown(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    tenths: int = 10,
    longer: int = 1,
    share: int = 1,
) -> dict[str, Sides]:
    """Drawn keys, and one unit vector for each token, where the bound is met."""
    x = _full_steps(supply, T, d_k, d_v).letters
    v, rates = x["v"], tenths * x[r"\beta"] / 10
    parts = {}
    for name, unit in (("drawn", x["k"]), ("met", np.eye(T, dtype=v.dtype))):
        k = longer * unit
        _, S = delta_rule.recurrent(k, k, v, beta=rates)
        parts[name] = (np.asarray((S**2).sum()), np.asarray((v**2).sum()) / share)
    return parts


@identity(
    title="Linear attention's state grows with every repeat of one pair",
    kind="counterexample",
    statement=r"k_t = k, \; v_t = v: \quad \lVert S_{16} \rVert = 16 \ne 1"
    r" = \lVert S_{16}^{\text{delta rule}} \rVert",
    source="ours; against: unit keys and values keep a memory of unit size",
    citations=("katharopoulos2020",),
    worlds=("rationals",),
    mutants={
        "the pair comes once": {"T": 1},
        "it never comes": {"T": 0},
        "the memory is emptied between": {"keep": 0},
    },
)
def repeats_add_up(supply: Supply, *, T: int = 16, keep: int = 1) -> Sides:
    """A key and a value of 1 in one dimension."""
    ones = np.repeat(supply.positive("c", 1, 1) ** 0, T, axis=0)
    S = 0 * supply.positive("c", 1, 1)
    for one in ones:
        S = linear_attention.step(one, one, one, S=keep * S)[1]
    return S, delta_rule.recurrent(ones, ones, ones, beta=ones[:, 0])[1]


def _fading(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """The gated delta rule with one decay and one rate for all tokens."""
    k, v = supply.unit("k", T, d_k), supply.real("v", T, d_v)
    alpha, beta = supply.rate("alpha", 1)[0], supply.double("beta", 1)[0]
    given = {"log_decay": log(alpha) + 0 * k[:, 0], "beta": beta + 0 * k[:, 0]}
    _, S = gated_delta_rule.recurrent(k, k, v, **given)
    letters = {"S": S, "v": v, r"\alpha": alpha, r"\beta": beta}
    return Numbers({**letters, "T": T}, {"t": range(1, T + 1)})


@identity(
    title="With a decay the state stays bounded, however many tokens come",
    kind="bound",
    statement=r"\lVert S \rVert^2 \le \frac{\beta (1 - \alpha^{2 T})}"
    r"{(2 - \beta) (1 - \alpha^2)} \max_{t} \lVert v_t \rVert^2",
    source="ours",
    citations=("yang2025gated",),
    printed={STATEMENT: AsPrinted(numbers=_fading, worlds=BOUNDED)},
    worlds=BOUNDED,
    mutants={
        "keys twice as long": {"longer": 2},
        "half of the bound": {"share": 2},
        "one token fewer": {"fewer": 1},
    },
    at={"rationals": {"T": 4, "d_k": 2}, "floats": {"T": 12}},
)
def stays_bounded(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    longer: int = 1,
    share: int = 1,
    fewer: int = 0,
) -> dict[str, Sides]:
    """Drawn tokens, and one unit vector for each, all of one value, at full steps."""
    x, k = _fading(supply, T, d_k, d_v).letters, supply.unit("l", T, d_k)
    v, alpha, beta = x["v"], x[r"\alpha"], x[r"\beta"]
    cases = {
        "drawn": (k, v, beta),
        "met": (np.eye(T, dtype=int) * alpha**0, 0 * v + v[0], alpha**0),
    }
    parts = {}
    for name, (keys, values, rate) in cases.items():
        flat = {"log_decay": log(alpha) + 0 * v[:, 0], "beta": rate + 0 * v[:, 0]}
        _, S = gated_delta_rule.recurrent(longer * keys, longer * keys, values, **flat)
        kept = (1 - alpha ** (2 * (T - fewer))) / (1 - alpha**2)
        most = rate / (2 - rate) * kept * (values**2).sum(axis=1).max() / share
        parts[name] = (np.asarray((S**2).sum()), np.asarray(most))
    return parts
