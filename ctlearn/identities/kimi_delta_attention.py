"""Kimi delta attention: what its report prints of it, and what it says of others."""

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.histories import letters, rated, states
from ctlearn.memory import decay_between, solve_unit_lower
from ctlearn.mixers import kimi_delta_attention, longhorn
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import exp
from ctlearn.supplies import Supply

Array = np.ndarray


def _longhorn_numbers(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x, S = rated(supply, T, d_k, d_v), supply.real("S", d_k, d_v)
    rates = x | {"beta": np.repeat(x["beta"][:, None], d_v, axis=1)}
    return letters(x, states(longhorn.recurrent, S, **rates))


@identity(
    title="Longhorn writes with the step that it erases with",
    kind="erratum",
    statement=r"S_t = \left(I - \frac{\beta_t}{1 + \beta_t k_t^\top k_t} k_t k_t^\top"
    r"\right) S_{t-1} + \frac{\beta_t}{1 + \beta_t k_t^\top k_t} k_t v_t^\top",
    as_printed=r"S_t = \left(I - \frac{\beta_t}{1 + \beta_t k_t^\top k_t} k_t k_t^\top"
    r"\right) S_{t-1} + \beta_t k_t v_t^\top",
    source="Kimi Linear: kimi2025, table 7, the row of Longhorn",
    citations=("kimi2025", "liu2024longhorn"),
    printed={STATEMENT: AsPrinted(numbers=_longhorn_numbers)},
    mutants={
        "a key of zero, where the print is right": {"length": 0},
        "the factor twice": {"power": 2},
        "the erased part without the factor": {"erase": 0},
    },
    at={"symbols": {"d_k": 2, "d_v": 2}},
)
def longhorn_write(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    length: int = 1,
    power: int = 1,
    erase: int = 1,
) -> dict[str, Sides]:
    """One token from any state; what is printed overshoots the value by beta k'k."""
    x, S = rated(supply, 1, d_k, d_v), supply.real("S", d_k, d_v)
    k, v, beta = length * x["k"], x["v"], x["beta"]
    rates = np.repeat(beta[:, None], d_v, axis=1)
    _, after = longhorn.recurrent(x["q"], k, v, beta=rates, S=S)
    k, v, beta = k[0], v[0], beta[0]
    smaller = 1 / (1 + beta * (k @ k))
    kept = S - beta * smaller**erase * np.outer(k, k @ S)
    return {
        "printed": (kept + beta * np.outer(k, v), after),
        "corrected": (kept + beta * smaller**power * np.outer(k, v), after),
    }


def _kimi_numbers(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    """One chunk of Kimi delta attention, in the letters of the report's equation 9."""
    x = _kimi_tokens(supply, C, d_k, d_v)
    S = supply.real("S", d_k, d_v)
    _, after = kimi_delta_attention.recurrent(**x, S=S)
    W, U, kept, left = _kimi_chunk(x)
    letters = {"S": S, r"S^\prime": after, "W": W, "U": U, "V": x["v"]}
    return Numbers(letters | {r"\gamma_C": kept, r"\bar{K}": left * x["k"]})


def _kimi_tokens(supply: Supply, C: int, d_k: int, d_v: int) -> dict[str, Array]:
    x = rated(supply, C, d_k, d_v)
    return x | {"k": x["k"] / 3, "log_decay": supply.log_decay("a", C, d_k)}


def _kimi_chunk(x: dict[str, Array], *, rated: int = 1) -> tuple[Array, ...]:
    """W, U, what a chunk keeps, and what is left of each key at its end."""
    k, beta = x["k"], x["beta"][:, None] ** rated
    D = decay_between(x["log_decay"], k)
    L = beta * np.tril((k[:, None] * k * D[1:, 1:]).sum(axis=2), -1)
    W = solve_unit_lower(L, beta * D[1:, 0] * k)
    return W, solve_unit_lower(L, beta * x["v"]), D[-1, 0], D[-1, 1:]


@identity(
    title="A chunk writes what is left of its values, not the values",
    kind="erratum",
    statement=r"S^\prime = \mathrm{Diag}(\gamma_C) S + \bar{K}^\top (U - W S)",
    as_printed=r"S^\prime = \mathrm{Diag}(\gamma_C) S + \bar{K}^\top V",
    source="Kimi Linear: kimi2025, listing 8b, line 29; listing 1 and eq. 9 have "
    "U - W S",
    citations=("kimi2025",),
    printed={STATEMENT: AsPrinted(numbers=_kimi_numbers)},
    mutants={
        "no rate in the chunk's inverse, as in the listing's line 20": {"rated": 0},
        "the state's answers are not taken off": {"answers": 0},
        "the values instead, as printed": {"values": True},
    },
    at={"symbols": {"C": 2}},
)
def chunk_writes_values(
    supply: Supply,
    C: int,
    d_k: int,
    d_v: int,
    *,
    rated: int = 1,
    answers: int = 1,
    values: bool = False,
) -> dict[str, Sides]:
    """The report's recurrence, from any state, against what the listing leaves."""
    x, S = _kimi_tokens(supply, C, d_k, d_v), supply.real("S", d_k, d_v)
    _, after = kimi_delta_attention.recurrent(**x, S=S)
    W, U, kept, left = _kimi_chunk(x, rated=rated)
    written = x["v"] if values else U - answers * W @ S
    return {
        "printed": (kept[:, None] * S + (left * x["k"]).T @ x["v"], after),
        "corrected": (kept[:, None] * S + (left * x["k"]).T @ written, after),
    }


def _two_numbers(supply: Supply, d_k: int, d_v: int) -> Numbers:
    x, alpha = _two_tokens(supply, d_k, d_v)
    o, _ = kimi_delta_attention.recurrent(**x)
    letters = {name: x[name] for name in "qkv"} | {"o": o, r"\alpha": alpha}
    return Numbers(letters)


def _two_tokens(supply: Supply, d_k: int, d_v: int) -> tuple[dict[str, Array], Array]:
    """Two tokens of rate 1, for the report's table leaves the rates out."""
    x = rated(supply, 2, d_k, d_v)
    log_decay = supply.log_decay("a", 2, d_k)
    return x | {"beta": x["beta"] ** 0, "log_decay": log_decay}, exp(log_decay)


@identity(
    title="What came before is decayed, then erased from: the two do not commute",
    kind="erratum",
    statement=r"o_2 = \left(q_2^\top (I - k_2 k_2^\top) \mathrm{Diag}(\alpha_2) k_1"
    r"\right) v_1 + (q_2^\top k_2) v_2",
    as_printed=r"o_2 = \left(q_2^\top \mathrm{Diag}(\alpha_2) (I - k_2 k_2^\top) k_1"
    r"\right) v_1 + (q_2^\top k_2) v_2",
    source="Kimi Linear: kimi2025, the table of section 6.1, for two tokens; eq. 1 is "
    "right",
    citations=("kimi2025",),
    printed={STATEMENT: AsPrinted(numbers=_two_numbers)},
    mutants={
        "one decay for all channels, where they do commute": {"same": True},
        "the first token does not decay": {"decays": 0},
        "nothing is erased": {"erased": 0},
    },
)
def unrolled_order(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    same: bool = False,
    decays: int = 1,
    erased: int = 1,
) -> dict[str, Sides]:
    """The second output, against the product of the table for a single step."""
    x, _ = _two_tokens(supply, d_k, d_v)
    if same:
        x["log_decay"] = 0 * x["log_decay"] + x["log_decay"][:, :1]
    o, _ = kimi_delta_attention.recurrent(**x)
    alpha, (q, k) = exp(x["log_decay"][1]), (x["q"][1], x["k"])
    first = alpha * (k[0] - k[1] * (k[1] @ k[0]))
    faded = alpha**decays * k[0]
    then = faded - erased * k[1] * (k[1] @ faded)
    own = (q @ k[1]) * x["v"][1]
    return {
        "printed": ((q @ first) * x["v"][0] + own, o[1]),
        "corrected": ((q @ then) * x["v"][0] + own, o[1]),
    }
