"""The one memory: its plans agree for every length, split and reset."""

from collections.abc import Callable

import numpy as np

from ctlearn import memory
from ctlearn.identities.engine import STATEMENT, Identity, Sides, identity
from ctlearn.identities.histories import rated
from ctlearn.mixers import gated_delta_rule
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.scalars import exp, minus_infinity
from ctlearn.supplies import Supply


def _tokens(supply: Supply, T: int, d_k: int, d_v: int) -> dict[str, np.ndarray]:
    """Inputs of the memory with everything that it can do, and vector decay."""
    return {
        "q": supply.real("q", T, d_k),
        "k": supply.real("k", T, d_k),
        "z": supply.real("z", T, d_v),
        "e": supply.real("e", T, d_k) / 4,
        "log_decay": supply.log_decay("a", T, d_k),
    }


def _flat(o: np.ndarray, S: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ravel(o), np.ravel(S)])


def _printed_chunk(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    """A chunk in which all channels fade alike, and what its tokens write in turn.

    D' and Gamma' are the decays to just before a token.
    """
    x, S = _tokens(supply, C, d_k, d_v), supply.real("S", d_k, d_v)
    alpha = exp(x["log_decay"][:, 0])
    between = memory.decay_between(x["log_decay"][:, 0], x["k"])[..., 0]
    letters = {"E": x["e"], "K": x["k"], "Q": x["q"], "Z": x["z"], "S": S}
    for mark, seen in (("", slice(1, None)), ("'", slice(None, -1))):
        letters[f"D{mark}"] = between[seen, 1:]
        letters[rf"\Gamma{mark}"] = between[seen, :1] + 0 * x["k"]
        now, written = S, []
        for t in range(C):
            read = now if mark else alpha[t] * now
            written.append(x["z"][t] - read.T @ x["e"][t])
            now = alpha[t] * now + np.outer(x["k"][t], written[-1])
        letters[f"U{mark}"] = np.array(written)
    index = range(1, C + 1)
    letters |= {r"\alpha": alpha, "M": between[1:, 1:] ** 0}
    return Numbers(letters, {"i": index, "j": index, "l": index})


def _chunk_claim(read_first: bool) -> Callable[..., dict[str, Sides]]:
    def claim(
        supply: Supply,
        C: int,
        d_k: int,
        d_v: int,
        *,
        other_order: bool = False,
        change: str = "",
    ) -> dict[str, Sides]:
        x = _tokens(supply, C, d_k, d_v)
        S = supply.real("S", d_k, d_v)
        empty = {name: array[:0] for name, array in x.items()}
        altered = x | {change: 2 * x[change]} if change else x
        order = read_first != other_order
        return {
            "base": (
                _flat(*memory.recurrent(**empty, S=S, read_first=read_first)),
                _flat(*memory.parallel(**empty, S=S, read_first=order)),
            ),
            "step": (
                _flat(*memory.recurrent(**x, S=S, read_first=read_first)),
                _flat(*memory.parallel(**altered, S=S, read_first=order)),
            ),
        }

    return claim


def _chunkwise_is_exact(
    name: str,
    order: str,
    statement: str,
    read_first: bool,
    equations: tuple[str, ...] = (),
) -> Identity:
    return Identity(
        name=f"memory-chunkwise-is-exact-{name}",
        title=f"A chunk of C tokens is C steps, {order}",
        kind="identity",
        statement=statement,
        source="ours, for the family; yang2024deltanet has it without decay",
        citations=("yang2024deltanet", "yang2025gated"),
        equations=equations,
        claim=_chunk_claim(read_first),
        printed=dict.fromkeys(
            (STATEMENT, *equations),
            AsPrinted(
                numbers=_printed_chunk,
                equivalent=(
                    {"- → + (line 1, column 46)": "D' is zero on the diagonal, too"}
                    if read_first
                    else {}
                ),
            ),
        ),
        mutants={
            "the memory reads in the other order": {"other_order": True},
            "the erase direction doubled": {"change": "e"},
            "the written row doubled": {"change": "z"},
            "the decay squared": {"change": "log_decay"},
        },
        at={"symbols": {"C": 3}},
    )


chunkwise_decay_first = _chunkwise_is_exact(
    "decay-first",
    "where the error is taken after forgetting",
    r"\left(I + \mathrm{tril}((E K^\top) \odot D, -1)\right) U"
    r" = Z - (\Gamma \odot E) S",
    read_first=False,
    equations=("eq-decayed-chunk",),
)
chunkwise_read_first = _chunkwise_is_exact(
    "read-first",
    "where the error is taken before forgetting",
    r"\left(I + \mathrm{tril}((E K^\top) \odot D', -1)\right) U'"
    r" = Z - (\Gamma' \odot E) S",
    read_first=True,
)


@identity(
    title="Split a sequence anywhere: the pieces give what the whole gives",
    statement=r"(o_{1:T}, S_T) = \left(o_{1:s}, o_{s+1:T}, S_T\right)",
    source="ours",
    mutants={
        "the state is dropped at the split": {"carry": False},
        "the second piece starts a token late": {"late": 1},
    },
    at={"symbols": {"T": 3}},
)
def split(
    supply: Supply, T: int, d_k: int, d_v: int, *, carry: bool = True, late: int = 0
) -> Sides:
    """One pass, against a chunkwise prefill and then token by token."""
    x = _tokens(supply, T, d_k, d_v)
    s = T // 2
    first = {name: array[:s] for name, array in x.items()}
    second = {name: array[s + late :] for name, array in x.items()}
    o_first, S = memory.chunkwise(**first, chunk_size=2)
    o_second, S = memory.recurrent(**second, S=S if carry else None)
    return (
        _flat(*memory.recurrent(**x)),
        np.concatenate([np.ravel(o_first), _flat(o_second, S)]),
    )


@identity(
    title="A decay of zero starts a new sequence, exactly",
    statement=r"\alpha_s = 0 \;\Rightarrow\; o_t = S_{s:t}^\top q_t \quad (t \ge s)",
    source="ours; packed documents need no list of lengths",
    mutants={
        "one token early": {"shift": -1},
        "a tiny decay instead of none": {"boundary": -1},
    },
    at={"symbols": {"T": 3}},
)
def reset(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    shift: int = 0,
    boundary: int | None = None,
) -> Sides:
    """From the boundary on, outputs and state are those of a fresh memory."""
    x = _tokens(supply, T, d_k, d_v)
    s = T // 2
    x["log_decay"] = x["log_decay"].copy()
    x["log_decay"][s] = minus_infinity(x["q"]) if boundary is None else boundary
    fresh = {name: array[s + shift :] for name, array in x.items()}
    o, S = memory.chunkwise(**x, S=supply.real("S", d_k, d_v), chunk_size=T)
    o_fresh, S_fresh = memory.recurrent(**fresh)
    return _flat(o[s + shift :], S), _flat(o_fresh, S_fresh)


@identity(
    title="What is kept over a span is the product of what is kept over its parts",
    statement=r"D_{ij} = D_{il} D_{lj} \quad (i \ge l \ge j), \qquad D_{ii} = 1",
    source="ours",
    printed={
        STATEMENT: AsPrinted(
            numbers=_printed_chunk,
            equivalent={
                "i → j (line 1, column 31)": "it is said of fewer spans",
                "j → i (line 1, column 43)": "it is said of fewer spans",
            },
        )
    },
    mutants={
        "a token counted in both parts": {"overlap": 1},
        "logs multiplied": {"combine": np.multiply},
    },
)
def decay_composes(
    supply: Supply,
    C: int,
    d_k: int,
    *,
    overlap: int = 0,
    combine: Callable = np.add,
) -> dict[str, Sides]:
    """The table of decays between boundaries, against products of single decays."""
    g = supply.log_decay("a", C, d_k)
    D = memory.decay_between(g, g)
    middle = C // 2 + 1
    total = combine(g[:middle].sum(axis=0), g[middle - overlap :].sum(axis=0))
    return {
        "span": (D[C, 0], exp(total)),
        "parts": (D[C, 0], D[C, middle - overlap] * D[middle, 0]),
        "diagonal": (
            D[np.arange(C + 1), np.arange(C + 1)],
            1 + 0 * D[0, 0] + 0 * D[:, 0],
        ),
    }


def _printed_orders(supply: Supply, d_k: int, d_v: int) -> Numbers:
    """One token of one rate and one decay, and any state."""
    x = {name: supply.real(name, d_k) for name in "k"} | {"v": supply.real("v", d_v)}
    rates = {r"\alpha": supply.rate("a", 1)[0], r"\beta": supply.rate("b", 1)[0]}
    return Numbers(x | rates | {"S": supply.real("S", d_k, d_v)})


def _bridge_free(*, rate_power: int = -1, value_power: int = 1) -> Sides:
    import sympy

    S, k, kt, vt = sympy.symbols("S k k^T v^T", commutative=False)
    alpha, beta = sympy.symbols("alpha beta", positive=True)
    rate = beta * alpha**rate_power
    read_first = (alpha - beta * k * kt) * S + beta * k * vt
    decay_first = alpha * (1 - rate * k * kt) * S
    return read_first, decay_first + rate * k * alpha**value_power * vt


@identity(
    title="Reading first is decaying first with rescaled rates and values",
    statement=(
        r"\left(\alpha I - \beta k k^\top\right) S + \beta k v^\top"
        r" = \alpha \left(I - \tfrac{\beta}{\alpha} k k^\top\right) S"
        r" + \tfrac{\beta}{\alpha} k (\alpha v)^\top"
    ),
    source="ours; the forms are yang2025gated's and wang2025ttr's",
    citations=("yang2025gated", "wang2025ttr"),
    equations=("eq-bridge",),
    printed=dict.fromkeys((STATEMENT, "eq-bridge"), AsPrinted(numbers=_printed_orders)),
    chapter="09_gated_delta_rules",
    mutants={
        "values not rescaled": {"value_power": 0},
        "rates not rescaled": {"rate_power": 0},
        "rates rescaled the wrong way": {"rate_power": 1},
    },
    free=_bridge_free,
    at={"symbols": {"T": 2}},
)
def order_bridge(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    rate_power: int = -1,
    value_power: int = 1,
) -> Sides:
    """The two orders of forgetting and reading are one family, reparametrised."""
    q, k = supply.real("q", T, d_k), supply.real("k", T, d_k) / 3
    v, beta = supply.real("v", T, d_v), supply.rate("beta", T, 1)
    log_decay = supply.log_decay("a", T)
    alpha = exp(log_decay)[:, None]
    decay = {"log_decay": log_decay}
    read_first = memory.recurrent(q, k, beta * v, e=beta * k, **decay, read_first=True)
    rate = beta * alpha**rate_power
    value = v * alpha**value_power
    decay_first = memory.recurrent(q, k, rate * value, e=rate * k, **decay)
    return _flat(*read_first), _flat(*decay_first)


def _printed_turned(supply: Supply, d_k: int, d_v: int) -> Numbers:
    """One token of the family, the state before and after, and both turned round."""
    x = _tokens(supply, 1, d_k, d_v)
    S = supply.real("S", d_k, d_v)
    o, after = memory.recurrent(**x, S=S)
    letters = {name: x[name][0] for name in ("q", "k", "z", "e")} | {"o": o[0]}
    letters |= {r"\alpha": exp(x["log_decay"][0]), "H_0": S.T, "H_1": after.T}
    return Numbers(letters)


@identity(
    title="With the axes of the state exchanged, as papers print it, products turn",
    statement=r"H_1 = H_0 \, \mathrm{Diag}(\alpha) (I - e k^\top) + z k^\top, \qquad"
    r" o = H_1 q",
    source="the convention of yang2024deltanet and yang2025gated, H = S'",
    citations=("yang2024deltanet", "yang2025gated"),
    printed={STATEMENT: AsPrinted(numbers=_printed_turned)},
    mutants={
        "the erasure is not turned": {"turned": False},
        "the decay stays on the left": {"left": True},
        "the write is not turned": {"written": False},
    },
)
def axes_exchanged(
    supply: Supply,
    d: int,
    *,
    turned: bool = True,
    left: bool = False,
    written: bool = True,
) -> Sides:
    """As many key channels as value channels, so that no shape tells them apart."""
    x, S = _tokens(supply, 1, d, d), supply.real("S", d, d)
    _, after = memory.recurrent(**x, S=S)
    k, e, z, alpha = x["k"][0], x["e"][0], x["z"][0], exp(x["log_decay"][0])
    kept = alpha[:, None] * S.T if left else S.T * alpha
    kept = kept - kept @ (np.outer(e, k) if turned else np.outer(k, e))
    return after.T, kept + (np.outer(z, k) if written else np.outer(k, z))


@identity(
    title="Reading before forgetting is not reading after, with the same rates",
    kind="counterexample",
    statement=(r"\alpha I - \beta k k^\top \ne \alpha \left(I - \beta k k^\top\right)"),
    source="ours; several texts print one under the other's name",
    citations=("yang2025gated",),
    printed={STATEMENT: AsPrinted(numbers=_printed_orders)},
    worlds=("rationals",),
    mutants={
        "nothing is forgotten": {"forget": 0},
        "nothing is erased": {"erase": 0},
    },
)
def orders_differ(supply: Supply, *, forget: int = 1, erase: int = 1) -> Sides:
    """Two tokens in two dimensions are enough."""
    x = _tokens(supply, 2, 2, 2)
    x["log_decay"] = forget * x["log_decay"]
    x["e"] = erase * x["e"]
    S = supply.real("S", 2, 2)
    before = memory.recurrent(**x, S=S, read_first=True)
    return _flat(*before), _flat(*memory.recurrent(**x, S=S))


def _gated_tokens(supply: Supply, C: int, d_k: int, d_v: int) -> dict[str, np.ndarray]:
    log_decay = supply.log_decay("a", C)
    return rated(supply, C, d_k, d_v) | {"log_decay": log_decay}


def _gated_chunk(
    x: dict[str, np.ndarray], S: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The decays inside one chunk, those since its start, and what it writes."""
    k, beta = x["k"], x["beta"][:, None]
    between = memory.decay_between(x["log_decay"], k)[..., 0]
    D, gamma = between[1:, 1:], between[1:, 0]
    L = np.tril(beta * (k @ k.T) * D, -1)
    wrong = x["v"] - (gamma[:, None] * k) @ S
    return D, gamma, memory.solve_unit_lower(L, beta * wrong)


def _gated_chunk_numbers(supply: Supply, C: int, d_k: int, d_v: int) -> Numbers:
    x, S = _gated_tokens(supply, C, d_k, d_v), supply.real("S", d_k, d_v)
    o, _ = gated_delta_rule.recurrent(**x, S=S)
    D, gamma, U = _gated_chunk(x, S)
    masks = {"D": D, "M": np.tril(np.ones((C, C), dtype=int))}
    letters = {"O": o, "Q": x["q"], "K": x["k"], "S": S, "U": U, r"\gamma": gamma}
    return Numbers(letters | masks)


@identity(
    title="The last line of a gated chunk takes the decay mask, not the binary one",
    kind="erratum",
    statement=r"O = \mathrm{Diag}(\gamma) Q S + (Q K^\top \odot D) U",
    as_printed=r"O = \mathrm{Diag}(\gamma) Q S + (Q K^\top \odot M) U",
    source="yang2025gated, section 3.3, the output of a chunk",
    citations=("yang2025gated",),
    equations=("eq-gated-chunk",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-gated-chunk"), AsPrinted(numbers=_gated_chunk_numbers)
    ),
    chapter="09_gated_delta_rules",
    mutants={
        "nothing decays, so the printed line is right": {"forget": 0},
        "the state is read without decay": {"decayed_read": False},
        "the decay mask is applied twice": {"power": 2},
    },
    at={"symbols": {"C": 2}},
)
def gated_chunk_output(
    supply: Supply,
    C: int,
    d_k: int,
    d_v: int,
    *,
    forget: int = 1,
    decayed_read: bool = True,
    power: int = 1,
) -> dict[str, Sides]:
    """One chunk of the gated delta rule from an arbitrary state, both ways."""
    x, S = _gated_tokens(supply, C, d_k, d_v), supply.real("S", d_k, d_v)
    x["log_decay"] = forget * x["log_decay"]
    o, _ = gated_delta_rule.recurrent(**x, S=S)
    D, gamma, U = _gated_chunk(x, S)
    q, scores = x["q"], x["q"] @ x["k"].T
    read = (gamma[:, None] * q if decayed_read else q) @ S
    return {
        "printed": (read + np.tril(scores) @ U, o),
        "corrected": (read + (scores * D**power) @ U, o),
    }
