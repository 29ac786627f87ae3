"""Formulas around Titans and MIRAS that fail as printed, beside those that hold.

All are in this book's letters: the state is [d_k, d_v] and read as S'q. Where a source
has its transpose, so is what is quoted. Other sources' errata stand with their topics.
"""

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.histories import (
    letters,
    omega_step,
    rated,
    states,
    titans_states,
)
from ctlearn.inner import Linear, Momentum
from ctlearn.memory import decay_between
from ctlearn.mixers import gated_delta_rule, rwkv7, titans
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import exp, minus_infinity
from ctlearn.supplies import Supply

Array = np.ndarray
CHAPTER = "13_deep_memories"


def _begun(W: Array) -> Momentum:
    return Momentum.start(Linear(W))


def _slope(x: dict[str, Array], W: Array) -> Array:
    """What Titans' memory takes off at a step of size 1."""
    none = 0 * x["beta"] + minus_infinity(x["beta"])
    rates = {"beta": x["beta"] ** 0, "log_mu": none, "log_decay": 0 * x["beta"]}
    _, S = titans.recurrent(**(x | rates), S=_begun(W))
    return W - S.M.W


def _slope_numbers(supply: Supply, d_k: int, d_v: int) -> Numbers:
    x, W = rated(supply, 1, d_k, d_v), supply.real("W", d_k, d_v)
    return Numbers({"G": _slope(x, W), "W": W, "k": x["k"][0], "v": x["v"][0]})


@identity(
    title="The slope of a squared error has a factor of two",
    kind="erratum",
    statement=r"G = 2 k (W^\top k - v)^\top",
    as_printed=r"G = k (W^\top k - v)^\top",
    source="Titans: behrouz2025titans, eq. 17, for the loss of eq. 12",
    citations=("behrouz2025titans",),
    chapter=CHAPTER,
    printed={STATEMENT: AsPrinted(numbers=_slope_numbers)},
    mutants={
        "the loss is halved, as in the appendix, where the print is right": {"half": 2},
        "a factor of four": {"factor": 4},
        "the error the other way round": {"factor": -2},
    },
)
def squared_slope(
    supply: Supply, d_k: int, d_v: int, *, half: int = 1, factor: int = 2
) -> dict[str, Sides]:
    """A learned rate takes the factor up; two texts with one rate differ by it."""
    x, W = rated(supply, 1, d_k, d_v), supply.real("W", d_k, d_v)
    G = _slope(x, W) / half
    once = np.outer(x["k"][0], x["k"][0] @ W - x["v"][0])
    return {"printed": (once, G), "corrected": (factor * once, G)}


def _sum_numbers(supply: Supply, d_k: int, d: int) -> Numbers:
    x, W = _chunk_tokens(supply, d_k, d)
    taken, c, _ = _chunk_sum(x, W)
    return Numbers({"G": taken, "c": c, "W": W, "K": x["k"], "V": x["v"]})


def _chunk_tokens(supply: Supply, d_k: int, d: int) -> tuple[dict[str, Array], Array]:
    """A mini-batch of as many tokens as a value has channels."""
    x = rated(supply, d, d_k, d)
    none = 0 * x["beta"] + minus_infinity(x["beta"])
    x |= {"log_mu": none, "log_decay": supply.log_decay("a", d)}
    return x, supply.real("W", d_k, d)


def _chunk_sum(x: dict[str, Array], W: Array) -> tuple[Array, Array, Array]:
    """What a mini-batch takes off, the tokens' weights in it, and their errors."""
    size = len(x["k"])
    _, S = titans.recurrent(**x, S=_begun(W), inner_batch=size)
    D = decay_between(x["log_decay"], x["k"])[..., 0]
    return D[-1, 0] * W - S.M.W, x["beta"] * D[-1, 1:], x["k"] @ W - x["v"]


@identity(
    title="The weights of a chunk's tokens stand between its errors and its keys",
    kind="erratum",
    statement=r"G = 2 K^\top \mathrm{Diag}(c) (K W - V)",
    as_printed=r"G = 2 K^\top (K W - V) \mathrm{Diag}(c)",
    source="Titans: behrouz2025titans, eq. 17, with its missing 2, transposed",
    citations=("behrouz2025titans",),
    chapter=CHAPTER,
    printed={STATEMENT: AsPrinted(numbers=_sum_numbers, at={"symbols": {"d": 2}})},
    mutants={
        "no weights": {"weighed": 0},
        "the weights without the decays": {"faded": 0},
        "half of it": {"factor": 1},
    },
    at={"symbols": {"d": 2}, "floats": {"d_k": 10}},
)
def chunk_weights(
    supply: Supply,
    d_k: int,
    d: int,
    *,
    weighed: int = 1,
    faded: int = 1,
    factor: int = 2,
) -> dict[str, Sides]:
    """Only where a chunk is as long as a value has channels do the shapes fit."""
    x, W = _chunk_tokens(supply, d_k, d)
    taken, c, errors = _chunk_sum(x, W)
    weights = (c if faded else x["beta"]) ** weighed
    return {
        "printed": (2 * x["k"].T @ (errors * c), taken),
        "corrected": (factor * (x["k"] * weights[:, None]).T @ errors, taken),
    }


def _momentum_numbers(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x, M, P, G = titans_states(supply, T, d_k, d_v)
    gates = {r"\alpha": exp(x["log_decay"]), r"\mu": exp(x["log_mu"])}
    states = {"M": Rows(M, first=0), "P": Rows(P, first=0), "G": list(G)}
    return Numbers(gates | states | {r"\beta": x["beta"]}, {"t": range(1, T + 1)})


SMALL = {"symbols": {"T": 2, "d_k": 2, "d_v": 2}, "floats": {"T": 5}}
MOMENTUM = AsPrinted(numbers=_momentum_numbers, at={"symbols": {"T": 2}})


@identity(
    title="What decays is the memory before the token",
    kind="erratum",
    statement=r"M_t = \alpha_t M_{t-1} + P_t",
    as_printed=r"M_t = \alpha_t M_t + P_t",
    source="Titans: behrouz2025titans, eq. 32; its eq. 13 is right",
    citations=("behrouz2025titans",),
    chapter=CHAPTER,
    printed={STATEMENT: MOMENTUM},
    mutants={
        "the surprise is taken off": {"sign": -1},
        "the surprise of the token before": {"late": 1},
        "nothing is forgotten": {"forget": 0},
    },
    at=SMALL,
)
def decayed_memory(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    sign: int = 1,
    late: int = 0,
    forget: int = 1,
) -> dict[str, Sides]:
    """The package's states at every token."""
    x, M, P, _ = titans_states(supply, T, d_k, d_v)
    alpha = exp(forget * x["log_decay"])[:, None, None]
    return {
        "printed": (alpha * M[1:] + P[1:], M[1:]),
        "corrected": (alpha * M[:-1] + sign * P[1 - late : T + 1 - late], M[1:]),
    }


@identity(
    title="A surprise that already descends is added",
    kind="erratum",
    statement=r"M_t = \alpha_t M_{t-1} + P_t, \qquad"
    r" P_t = \mu_t P_{t-1} - \beta_t G_t",
    as_printed=r"M_t = \alpha_t M_{t-1} - P_t, \qquad"
    r" P_t = \mu_t P_{t-1} - \beta_t G_t",
    source="MIRAS: behrouz2025miras, the row of Titans in its table, reported",
    citations=("behrouz2025miras", "behrouz2025titans"),
    chapter=CHAPTER,
    printed={STATEMENT: MOMENTUM},
    mutants={
        "the surprise ascends": {"slope": 1},
        "the surprise has no momentum": {"momentum": 0},
        "a step twice as long": {"slope": -2},
    },
    at=SMALL,
)
def surprise_sign(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    slope: int = -1,
    momentum: int = 1,
) -> dict[str, Sides]:
    """With both signs negative the memory climbs the loss."""
    x, M, P, G = titans_states(supply, T, d_k, d_v)
    rates = {n: x[n][:, None, None] for n in ("log_decay", "log_mu", "beta")}
    alpha, mu = exp(rates["log_decay"]), exp(rates["log_mu"])
    surprise = momentum * mu * P[:-1] + slope * rates["beta"] * G
    return {
        "printed": (alpha * M[:-1] - P[1:], M[1:]),
        "corrected": (alpha * M[:-1] + surprise, M[1:]),
    }


def _rates_numbers(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x, S = rated(supply, T, d_k, d_v), supply.real("S", d_k, d_v)
    x |= {"log_decay": supply.log_decay("a", T)}
    ends = states(gated_delta_rule.recurrent, S, **x)
    return letters(x | {"alpha": exp(x.pop("log_decay"))}, ends)


@identity(
    title="The rate of the delta rule stands before what it writes, too",
    kind="erratum",
    statement=r"S_t = \alpha_t (I - \beta_t k_t k_t^\top) S_{t-1}"
    r" + \beta_t k_t v_t^\top",
    as_printed=r"S_t = \alpha_t (I - \beta_t k_t k_t^\top) S_{t-1} + k_t v_t^\top",
    source="MIRAS: behrouz2025miras, its delta rule with a gate, reported",
    citations=("behrouz2025miras", "yang2025gated"),
    chapter=CHAPTER,
    printed={STATEMENT: AsPrinted(numbers=_rates_numbers)},
    mutants={
        "a rate of 1, where the print is right": {"one": True},
        "the rate squared": {"power": 2},
        "what is written decays": {"fades": 1},
    },
)
def written_rate(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    one: bool = False,
    power: int = 1,
    fades: int = 0,
) -> dict[str, Sides]:
    """One token from any state; the print writes 1 / beta times too much."""
    x, S = rated(supply, 1, d_k, d_v), supply.real("S", d_k, d_v)
    x |= {"log_decay": supply.log_decay("a", 1)}
    x |= {"beta": x["beta"] ** 0} if one else {}
    _, after = gated_delta_rule.recurrent(**x, S=S)
    k, v, beta, alpha = x["k"][0], x["v"][0], x["beta"][0], exp(x["log_decay"][0])
    kept = alpha * (S - beta * np.outer(k, k @ S))
    write = np.outer(k, v)
    return {
        "printed": (kept + write, after),
        "corrected": (kept + alpha**fades * beta**power * write, after),
    }


def _rwkv7_tokens(supply: Supply, T: int, d_k: int, d_v: int) -> dict[str, Array]:
    """One rate for all channels of a token, which the print has."""
    x = rated(supply, T, d_k, d_v)
    x |= {"kappa": supply.real("kappa", T, d_k) / 2}
    x |= {"a": np.repeat(x["beta"][:, None], d_k, axis=1)}
    return x | {"log_decay": supply.log_decay("w", T, d_k)}


def _rwkv7_numbers(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x, S = _rwkv7_tokens(supply, T, d_k, d_v), supply.real("S", d_k, d_v)
    given = {name: a for name, a in x.items() if name != "beta"}
    ends = states(rwkv7.recurrent, S, **given)
    return letters(x | {"alpha": exp(x.pop("log_decay"))}, ends)


@identity(
    title="RWKV-7 erases from what has not decayed",
    kind="erratum",
    statement=r"S_t = \left(\mathrm{Diag}(\alpha_t) - (a_t \odot \kappa_t)"
    r" \kappa_t^\top\right) S_{t-1} + k_t v_t^\top",
    as_printed=r"S_t = \mathrm{Diag}(\alpha_t) \left(I - \beta_t \kappa_t"
    r" \kappa_t^\top\right) S_{t-1} + k_t v_t^\top",
    source="MIRAS: behrouz2025miras, the row of RWKV-7 in its table, reported",
    citations=("behrouz2025miras", "peng2025goose"),
    printed={
        STATEMENT: AsPrinted(numbers=_rwkv7_numbers, at={"symbols": {"T": 2, "d_v": 2}})
    },
    mutants={
        "nothing decays, where the print is right": {"forget": 0},
        "what is erased decays, too": {"early": 1},
        "the other key is erased at": {"swapped": True},
    },
)
def undecayed_erasure(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    forget: int = 1,
    early: int = 0,
    swapped: bool = False,
) -> dict[str, Sides]:
    """One token from any state, with one rate for all channels."""
    x, S = _rwkv7_tokens(supply, 1, d_k, d_v), supply.real("S", d_k, d_v)
    x["log_decay"], beta = forget * x["log_decay"], x.pop("beta")[0]
    _, after = rwkv7.recurrent(**x, S=S)
    alpha, k = exp(x["log_decay"][0])[:, None], x["k"][0]
    kappa = k if swapped else x["kappa"][0]
    erased = beta * np.outer(kappa, kappa @ S)
    write = np.outer(k, x["v"][0])
    return {
        "printed": (alpha * (S - erased) + write, after),
        "corrected": (alpha * S - alpha**early * erased + write, after),
    }


def _window_numbers(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    x, M = omega_step(supply, C, d_k, d_v)
    greek = {r"\alpha": exp(x["log_decay"])}
    greek |= dict.fromkeys((r"\beta", r"\gamma"), x["beta"])
    pairs = {"k": x["k"], "v": x["v"], "w": C}
    pairs |= dict.fromkeys("MW", Rows(M, first=C - 1))
    return Numbers(greek | pairs, {"t": range(C, C + 1)})


@identity(
    title="The Omega rule takes slopes off the memory, and takes them before the step",
    kind="erratum",
    statement=r"M_t = \alpha_t M_{t-1} - \sum_{i=t-w+1}^{t}"
    r" 2 \gamma_i k_i (M_{t-1}^\top k_i - v_i)^\top",
    as_printed=r"M_t = \alpha_t M_{t-1} - \sum_{i=t-w+1}^{t}"
    r" \gamma_i \lVert M_t^\top k_i - v_i \rVert^2",
    source="Nested Learning: behrouz2025nested, section 5, read in a translation; for "
    "the squared error",
    citations=("behrouz2025nested", "behrouz2025atlas"),
    chapter=CHAPTER,
    equations=("def-omega-rule",),
    printed=dict.fromkeys(
        (STATEMENT, "def-omega-rule"),
        AsPrinted(
            numbers=_window_numbers,
            at={
                "symbols": {"C": 2, "d_k": 2, "d_v": 2},
                "rationals": {"C": 3},
                "floats": {"C": 3},
            },
        ),
    ),
    mutants={
        "slopes after the step, as printed": {"after": 1},
        "a window of one pair less": {"narrower": 1},
        "slopes of half the loss": {"factor": 1},
    },
    at={
        "symbols": {"C": 2, "d_k": 2, "d_v": 2},
        "rationals": {"C": 3},
        "floats": {"C": 6},
    },
)
def omega_slopes(
    supply: Supply,
    C: int,
    d_k: int,
    d_v: int,
    *,
    after: int = 0,
    narrower: int = 0,
    factor: int = 2,
) -> dict[str, Sides]:
    """A loss is one number: what is printed is read as taking it off every entry."""
    x, M = omega_step(supply, C, d_k, d_v)
    alpha = exp(x["log_decay"][-1])
    k, v, gamma = (x[name][narrower:] for name in ("k", "v", "beta"))
    errors = k @ M[after] - v
    taken = factor * (gamma[:, None] * k).T @ errors
    loss = gamma @ ((k @ M[1] - v) ** 2).sum(axis=1)
    return {
        "printed": (alpha * M[0] - loss, M[1]),
        "corrected": (alpha * M[0] - taken, M[1]),
    }
