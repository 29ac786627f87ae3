"""Gates: what fades, how fast, along which axis, and which step down a loss it is."""

import numpy as np

from ctlearn import memory
from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.mixers import gated_linear_attention, hgrn2
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import exp, log
from ctlearn.supplies import Supply

CHAPTER = "05_forgetting"


def _tokens(supply: Supply, T: int, d_k: int, d_v: int) -> dict[str, np.ndarray]:
    """Inputs of gated linear attention with one decay a token, and a state."""
    x = {"q": supply.real("q", T, d_k), "k": supply.real("k", T, d_k)}
    x |= {"v": supply.real("v", T, d_v), "log_decay": supply.log_decay("a", T)}
    return x | {"S": supply.real("S", d_k, d_v)}


def _run(x: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The package's recurrence, whose decay is one number for all channels."""
    log_decay = x["log_decay"][:, None] + 0 * x["k"]
    return gated_linear_attention.recurrent(**x | {"log_decay": log_decay})


def _gated(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Tokens, the package's outputs and states, and the decays between tokens."""
    x = _tokens(supply, T, d_k, d_v)
    starts = [{n: y[:t] if n != "S" else y for n, y in x.items()} for t in range(T + 1)]
    states = np.array([_run(start)[1] for start in starts])
    between = memory.decay_between(x["log_decay"], x["k"])[..., 0]
    alpha, D = exp(x["log_decay"]), between[1:, 1:]
    letters = {"S": Rows(states, first=0), "k": x["k"], "v": x["v"], "q": x["q"]}
    o = _run(x)[0]
    letters |= {"Q": x["q"], "K": x["k"], "V": x["v"], "O": o, "o": o, "D": D}
    letters |= {r"\alpha": alpha, r"\gamma": between[1:, 0]}
    below = np.diag(alpha[1:], -1)
    index = range(1, T + 1)
    return Numbers(letters | {"B": below}, {"t": index, "i": index, "j": index})


GATED = AsPrinted(numbers=_gated)


@identity(
    title="Every write has faded by all the gates after it",
    statement=r"S_t = \left(\prod_{r=1}^{t} \alpha_r\right) S_0"
    r" + \sum_{j=1}^{t} \left(\prod_{r=j+1}^{t} \alpha_r\right) k_j v_j^\top",
    source="yang2024gla, with one gate for all channels",
    citations=("yang2024gla",),
    equations=("eq-gated-unrolled", "def-gated-memory"),
    printed=dict.fromkeys(
        (STATEMENT, "eq-gated-unrolled", "def-gated-memory"),
        AsPrinted(numbers=_gated, at={"symbols": {"d_v": 2}}),
    ),
    chapter=CHAPTER,
    mutants={
        "a write fades by its own gate": {"own": True},
        "the start does not fade": {"start": 0},
        "gates add": {"added": True},
    },
)
def unrolled(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    own: bool = False,
    start: int = 1,
    added: bool = False,
) -> dict[str, Sides]:
    """One more token behind T writes, each faded by any amount: a proof for every T."""
    x, kept = _tokens(supply, T + 1, d_k, d_v), supply.rate("c", T + 1)
    k, v, S, alpha = x["k"], x["v"], x["S"], exp(x["log_decay"][-1])
    now = kept[0] * S + (kept[1:, None] * k[:T]).T @ v[:T]
    later = kept + alpha if added else kept * alpha
    left = (later[0] if start else kept[0]) * S + (later[1:, None] * k[:T]).T @ v[:T]
    last = {name: y[-1:] for name, y in x.items()} | {"S": now}
    none = {name: y[:0] for name, y in x.items()} | {"S": S}
    return {
        "base": (_run(none)[1], S),
        "step": (_run(last)[1], left + np.outer(k[-1], v[-1]) * (alpha if own else 1)),
    }


@identity(
    title="All tokens at once: the mask holds what is kept between two of them",
    statement=r"D_{i,j} = \prod_{r=j+1}^{i} \alpha_r \quad (i \ge j), \qquad"
    r" O = \mathrm{Diag}(\gamma) Q S_0 + (Q K^\top \odot D) V",
    source="yang2024gla; dao2024's 1-semiseparable mask",
    citations=("yang2024gla", "dao2024"),
    equations=("eq-gated-parallel", "def-gate-mask"),
    printed=dict.fromkeys((STATEMENT, "eq-gated-parallel", "def-gate-mask"), GATED),
    chapter=CHAPTER,
    mutants={
        "a write fades by its own gate": {"own": 1},
        "the start does not fade": {"start": 0},
        "the mask is binary": {"power": 0},
        "the decay of the key's place": {"place": True},
    },
    at={"symbols": {"T": 3}},
)
def mask(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    own: int = 0,
    start: int = 1,
    power: int = 1,
    place: bool = False,
) -> Sides:
    """The recurrence, against the masked product with its products written out."""
    x = _tokens(supply, T, d_k, d_v)
    alpha = exp(x["log_decay"])
    D, gamma = np.zeros((2, T, T), dtype=alpha.dtype)
    for i in range(T):
        for j in range(i + 1):
            spared = alpha[: j + 1] if place else alpha[j + 1 - own : i + 1]
            D[i, j] = np.prod(spared) ** power
        gamma[i, i] = np.prod(alpha[: i + 1]) ** start
    o = gamma @ x["q"] @ x["S"] + (x["q"] @ x["k"].T * D) @ x["v"]
    return _run(x)[0], o


@identity(
    title="The mask's inverse has two diagonals, and they are the recurrence",
    statement=r"D (I - B) = I, \qquad \gamma_t = \prod_{r=1}^{t} \alpha_r",
    source="ours; dao2024 for 1-semiseparable matrices",
    citations=("dao2024",),
    equations=("eq-inverse-mask",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-inverse-mask"),
        AsPrinted(
            numbers=_gated,
            equivalent={
                "D (I - B) → (I - B) D (line 1, column 1)": "it inverts on both sides"
            },
        ),
    ),
    chapter=CHAPTER,
    mutants={
        "the diagonal below has the other sign": {"sign": 1},
        "the gates of the token before": {"early": True},
        "no gates": {"power": 0},
    },
)
def inverse_mask(
    supply: Supply, T: int, *, sign: int = -1, early: bool = False, power: int = 1
) -> Sides:
    """The package's table of decays, times a matrix with alpha below the diagonal."""
    log_decay = supply.log_decay("a", T)
    alpha = exp(log_decay)
    unit = np.eye(T, dtype=alpha.dtype)
    D = memory.decay_between(log_decay, unit)[1:, 1:, 0]
    gates = (alpha[:-1] if early else alpha[1:]) ** power
    return D @ (unit + sign * np.diag(gates, -1)), unit


def _half_life(supply: Supply, T: int) -> Numbers:
    """A number of tokens, and the log of a decay that halves in so many."""
    return Numbers({"h": T, "g": -log(1 + supply.rate("a", 1) ** 0)[0] / T})


@identity(
    title="A decay halves what it meets in log 2 / -log alpha tokens",
    statement=r"h = -\frac{\log(2)}{g}, \qquad \exp(g)^h = \frac{1}{2}",
    source="elementary; GLA's sigmoid(x)^(1/16) halves in 16 tokens at x = 0",
    citations=("yang2024gla",),
    equations=("eq-half-life",),
    printed=dict.fromkeys((STATEMENT, "eq-half-life"), AsPrinted(numbers=_half_life)),
    chapter=CHAPTER,
    mutants={
        "one token more": {"more": 1},
        "to 1/e": {"base": 3},
        "the gate's power is forgotten": {"rooted": False},
    },
)
def half_life(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    more: int = 0,
    base: int = 2,
    rooted: bool = True,
) -> Sides:
    """T tokens of value zero, at the T-th root of a sigmoid of zero, 1/2."""
    x = _tokens(supply, T + more, d_k, d_v)
    half = supply.rate("a", 1)[0] ** 0 / base
    x["log_decay"] = log(half + 0 * x["k"][:, 0]) / (T if rooted else 1)
    x["v"] = 0 * x["v"]
    return 2 * _run(x)[1], x["S"]


def _reach(supply: Supply, T: int) -> Numbers:
    return Numbers({r"\alpha": supply.rate("a", 1)[0], "T": T})


@identity(
    title="A constant decay remembers as much as 1 / (1 - alpha) tokens without one",
    statement=r"(1 - \alpha) \sum_{j=0}^{T-1} \alpha^j = 1 - \alpha^T",
    source="elementary; the geometric series",
    equations=("eq-reach",),
    printed=dict.fromkeys((STATEMENT, "eq-reach"), AsPrinted(numbers=_reach)),
    chapter=CHAPTER,
    mutants={
        "one token too many": {"more": 1},
        "the sum is not scaled": {"scaled": False},
        "each write fades by its own gate": {"own": 1},
    },
)
def reach(
    supply: Supply, T: int, *, more: int = 0, scaled: bool = True, own: int = 0
) -> Sides:
    """T writes of 1 at the key 1, by the recurrence from nothing."""
    alpha = supply.rate("a", 1)
    ones = np.repeat(alpha**0, T + more)[:, None]
    x = {"q": ones, "k": ones, "v": ones, "log_decay": log(ones[:, 0] * alpha)}
    S = _run(x | {"S": 0 * ones[:1]})[1] * alpha[0] ** own
    return (1 - alpha if scaled else 1) * S, (1 - alpha**T)[:, None]


def _rows(supply: Supply, d: int) -> Numbers:
    letters = {r"\alpha": supply.rate("a", d), "q": supply.real("q", d)}
    letters |= {"S": supply.real("S", d, d), "k": supply.real("k", d)}
    return Numbers(letters | {r"\beta": supply.rate("b", 1)[0]})


def _by_channel(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Tokens with a gate for each key channel, and the package's states."""
    x = _tokens(supply, T, d_k, d_v)
    x |= {"log_decay": supply.log_decay("g", T, d_k)}
    starts = [{n: y[:t] if n != "S" else y for n, y in x.items()} for t in range(T + 1)]
    ends = [gated_linear_attention.recurrent(**start)[1] for start in starts]
    letters = {"S": Rows(np.array(ends), first=0), "k": x["k"], "v": x["v"]}
    return Numbers(letters | {r"\alpha": exp(x["log_decay"])}, {"t": range(1, T + 1)})


@identity(
    title="A gate on key channels fades rows, and might as well fade the question",
    statement=r"(\mathrm{Diag}(\alpha) S)^\top q = S^\top (\alpha \odot q)",
    source="yang2024gla, eq. 3; elementary",
    citations=("yang2024gla",),
    equations=("eq-gate-rows", "def-vector-gate"),
    printed={
        **dict.fromkeys((STATEMENT, "eq-gate-rows"), AsPrinted(numbers=_rows)),
        "def-vector-gate": AsPrinted(numbers=_by_channel),
    },
    chapter=CHAPTER,
    mutants={
        "columns fade": {"columns": True},
        "the question fades twice": {"power": 2},
        "nothing fades in the question": {"power": 0},
    },
)
def rows(supply: Supply, d: int, *, columns: bool = False, power: int = 1) -> Sides:
    """The reference with a value of zero, against the old state asked otherwise."""
    x, log_decay = _tokens(supply, 1, d, d), supply.log_decay("g", d)
    alpha, q, S = exp(log_decay), x["q"][0], x["S"]
    o, _ = gated_linear_attention.step(
        q, x["k"][0], 0 * x["v"][0], log_decay=log_decay, S=S
    )
    return o, alpha * (S.T @ q) if columns else S.T @ (alpha**power * q)


def _halving(supply: Supply) -> Numbers:
    """Two channels, one of which halves, of a memory of ones."""
    one = supply.positive("c", 1)[0] ** 0
    S = np.full((2, 2), one)
    return Numbers({r"\alpha": np.array([one / 2, one]), "S": S})


@identity(
    title="A gate on key channels is none on value channels",
    kind="counterexample",
    statement=r"\mathrm{Diag}(\alpha) S \ne S \, \mathrm{Diag}(\alpha)",
    source="ours; against: a vector gate forgets channels of the value",
    chapter=CHAPTER,
    citations=("yang2024gla",),
    printed={STATEMENT: AsPrinted(numbers=_halving, worlds=("rationals",))},
    worlds=("rationals",),
    mutants={
        "the channels fade alike": {"alike": True},
        "the memory is empty": {"full": 0},
        "each channel holds itself": {"off": 0},
    },
)
def rows_are_no_columns(
    supply: Supply, *, alike: bool = False, full: int = 1, off: int = 1
) -> Sides:
    """The reference on two channels, against a gate on the columns."""
    alpha, S = (_halving(supply).letters[name] for name in (r"\alpha", "S"))
    if alike:
        alpha = alpha[:1] + 0 * alpha
    S = full * np.where(np.eye(2), S, off * S)
    nothing = 0 * alpha
    _, after = gated_linear_attention.step(
        nothing, nothing, nothing, log_decay=log(alpha), S=S
    )
    return after, S * alpha


def _tied(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """Values, gates, keys that are what is forgotten, and the memory after all."""
    x, log_decay = _tokens(supply, T, d_k, d_v), supply.log_decay("g", T, d_k)
    k = 1 - exp(log_decay)
    _, S = gated_linear_attention.recurrent(x["q"], k, x["v"], log_decay=log_decay)
    letters = {"S": S, "v": x["v"], "k": k, r"\alpha": exp(log_decay)}
    sizes = {"t": T, "c": d_k, "d": d_v}
    return Numbers(letters, {name: range(1, n + 1) for name, n in sizes.items()})


@identity(
    title="Memory with a tied gate holds no more than the largest value it was shown",
    kind="bound",
    statement=r"\max_{c,d} \lvert S_{c,d} \rvert \le \max_{t,d} \lvert v_{t,d} \rvert,"
    r" \qquad k_{t,c} = 1 - \alpha_{t,c}",
    source="ours; qin2024 ties the gate",
    citations=("qin2024",),
    equations=("eq-tied-gate",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-tied-gate"),
        AsPrinted(numbers=_tied, worlds=("rationals", "floats")),
    ),
    chapter=CHAPTER,
    worlds=("rationals", "floats"),
    mutants={
        "the key is not tied": {"tied": False},
        "the memory starts full": {"start": 9},
        "half of the largest value": {"share": 2},
    },
    at={"rationals": {"T": 5}},
)
def tied_gate(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    tied: bool = True,
    start: int = 0,
    share: int = 1,
) -> Sides:
    """HGRN2 on drawn values, the first and last of which are the largest there are."""
    x = _tokens(supply, T, d_k, d_v)
    log_decay = supply.log_decay("g", T, d_k)
    v = x["v"].copy()
    v[0] = v[-1] = abs(v).max() + 0 * v[0]
    # what fades fast forgets the first value, what fades slowly sums up untied writes
    S = start * np.full((d_k, d_v), abs(v).max())
    if tied:
        _, S = hgrn2.recurrent(x["q"], v, log_decay=log_decay, S=S)
    else:
        _, S = gated_linear_attention.recurrent(
            x["q"], 1 + 0 * x["k"], v, log_decay=log_decay, S=S
        )
    return share * abs(S).max(keepdims=True), abs(v).max(keepdims=True)


@identity(
    title="Differences of prefix sums lose the decays that follow a strong one",
    kind="counterexample",
    statement=r"g = (-2^{24}, -1): \quad \mathrm{fl}(G_2 - G_1) = 0 \ne -1 = g_2,"
    r" \qquad \exp(0) - \exp(-1) \approx 0.63",
    source="ours; a fault met in released kernels",
    chapter=CHAPTER,
    worlds=("floats",),
    mutants={
        "the first decay is mild": {"strong": 1},
        "the sums are kept in float64": {"dtype": "float64"},
        "the sum runs over the segment": {"prefix": False},
    },
)
def prefix_difference(
    supply: Supply, *, strong: int = 24, dtype: str = "float32", prefix: bool = True
) -> Sides:
    """Two tokens in float32: what the second keeps, by both ways to sum."""
    g = -np.array([2**strong, 1], dtype=dtype)
    G = np.cumsum(g)
    segment = memory.log_decay_between(g)[2, 1]
    kept = exp(np.array([G[1] - G[0]]) if prefix else segment)
    return kept, memory.decay_between(g, g[:, None])[2, 1]
