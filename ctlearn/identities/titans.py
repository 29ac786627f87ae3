"""Titans' memory: what its momentum adds up to, and which delta rule it is not.

The surprise P gathers slopes and fades by mu, the memory M fades by alpha and moves by
P. In a mini-batch all slopes are those of its start, and every answer is a known sum.
"""

from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.histories import Surprises, titans_states
from ctlearn.identities.tokens import flat, tokens
from ctlearn.inner import Linear, Momentum
from ctlearn.memory import decay_between
from ctlearn.mixers import gated_delta_rule, momentum_delta_rule, titans
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import exp, log
from ctlearn.supplies import Supply

EXACT = ("rationals", "floats")
CHAPTER = "13_deep_memories"


def _gates(supply: Supply, T: int) -> dict[str, np.ndarray]:
    return {
        "log_decay": supply.log_decay("alpha", T),
        "log_mu": supply.log_decay("mu", T),
        "beta": supply.rate("beta", T),
    }


def _start(supply: Supply, d_k: int, d_v: int) -> Momentum:
    """A memory in motion, whose slopes are taken elsewhere."""
    weights = (supply.real(name, d_k, d_v) for name in "MPA")
    M, P, at = (Linear(W) for W in weights)
    return Momentum(M, P, at, np.zeros((), dtype=M.W.dtype))


def _named(found: Surprises) -> dict[str, Any]:
    """The letters of a memory's states and slopes."""
    x, gates = found.x, {r"\alpha": "log_decay", r"\mu": "log_mu"}
    letters = {name: exp(x[of]) for name, of in gates.items()}
    letters |= {name: x[name] for name in "kvq"} | {r"\beta": x["beta"]}
    letters |= {"W": Rows(found.M, first=0), "P": Rows(found.P, first=0)}
    return letters | {"g": list(found.G)}


def _printed_rule(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    found = titans_states(supply, T, d_k, d_v)
    o = np.array([q @ M for q, M in zip(found.x["q"], found.M[1:], strict=True)])
    return Numbers(_named(found) | {"o": o}, {"t": range(1, T + 1)})


RULE = AsPrinted(numbers=_printed_rule, at={"symbols": {"T": 2}})


@identity(
    title="Titans' memory: surprise is slope with momentum, and what is kept fades",
    statement=r"g_t = 2 k_t (W_{t-1}^\top k_t - v_t)^\top, \quad"
    r" P_t = \mu_t P_{t-1} - \beta_t g_t, \quad"
    r" W_t = \alpha_t W_{t-1} + P_t, \quad o_t = W_t^\top q_t",
    source="behrouz2025titans; its loss is eq. 12, its memory eq. 13",
    citations=("behrouz2025titans",),
    equations=("def-titans",),
    printed={STATEMENT: RULE, "def-titans": RULE},
    chapter=CHAPTER,
    mutants={
        "the loss is halved": {"factor": 1},
        "the surprise is taken off": {"sign": -1},
        "momentum does not fade": {"mu_power": 0},
        "the memory moves, and then fades": {"late": 1},
        "it is read before the token has written": {"read": 0},
    },
)
def rule(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    factor: int = 2,
    sign: int = 1,
    mu_power: int = 1,
    late: int = 0,
    read: int = 1,
) -> Sides:
    """One token from any memory and any surprise."""
    x, M, P, _ = titans_states(supply, 1, d_k, d_v)
    alpha, mu = exp(x["log_decay"])[0], exp(x["log_mu"])[0] ** mu_power
    k, v, q, beta = x["k"][0], x["v"][0], x["q"][0], x["beta"][0]
    surprise = mu * P[0] - beta * factor * np.outer(k, M[0].T @ k - v)
    moved = alpha * M[0] + sign * alpha**late * surprise
    S = _start(supply, d_k, d_v)._replace(M=Linear(M[0]), P=Linear(P[0]))
    gates = {name: x[name][0] for name in ("log_decay", "log_mu", "beta")}
    o, _ = titans.step(q, k, v, **gates, S=S._replace(at=Linear(M[0])))
    return flat(M[1], o), flat(moved, (moved if read else M[0]).T @ q)


def _masks(found: Surprises) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is left of the start at each token, and the masks of both decays."""
    x = found.x
    kept, pushed = (
        decay_between(x[name], x["k"])[..., 0] for name in ("log_decay", "log_mu")
    )
    return kept[1:, 0], kept[1:, 1:], pushed[1:, 1:]


def _at_rest(supply: Supply, T: int, d_k: int, d_v: int) -> Surprises:
    """A mini-batch of all tokens: its first surprise is none."""
    return titans_states(supply, T, d_k, d_v, inner_batch=T, moving=0)


def _printed_masks(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    found = _at_rest(supply, T, d_k, d_v)
    p, D, M = _masks(found)
    letters = _named(found) | {"p": p, "D": D, "M": M}
    H = D @ M * found.x["beta"]
    ends = Rows(found.M[:-1], first=0)  # the last token's state starts the next batch
    index = {"i": range(1, T), "j": range(1, T)}
    return Numbers(letters | {"H": H, "W": ends}, index)


@identity(
    title="In a mini-batch momentum is a second decay mask, behind that of the memory",
    statement=r"H = D M \mathrm{Diag}(\beta), \quad"
    r" W_i = p_i W_0 - \sum_{j=1}^{i} H_{ij} g_j",
    source="ours; behrouz2025titans has it without momentum, from memory",
    citations=("behrouz2025titans",),
    equations=("eq-two-masks",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-two-masks"),
        AsPrinted(numbers=_printed_masks, at={"floats": {"T": 5}}),
    ),
    chapter=CHAPTER,
    mutants={
        "the masks change places": {"swapped": True},
        "the newest slope waits a token": {"own": -1},
        "the rates are read by row": {"by_row": True},
        "the start does not fade": {"stays": True},
    },
    at={"rationals": {"T": 4}, "floats": {"T": 17}},
)
def two_masks(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    swapped: bool = False,
    own: int = 0,
    by_row: bool = False,
    stays: bool = False,
) -> Sides:
    """Every state of a mini-batch, from a memory at rest; `unrolled` is any length."""
    found = _at_rest(supply, T, d_k, d_v)
    p, D, M = _masks(found)
    M = M * np.tri(T, k=own, dtype=int)
    both = M @ D if swapped else D @ M
    beta = found.x["beta"]
    H = both * (beta[:, None] if by_row else beta)
    start = np.multiply.outer(p**0 if stays else p, found.M[0])
    return found.M[1:], start - np.tensordot(H, found.G, axes=1)


def _sums(alpha: np.ndarray, mu: np.ndarray, i: int, beta: np.ndarray) -> Any:
    """p_i, f_i and row i of G, as printed, for tokens counted from 1."""

    def product(x: np.ndarray, after: int, upto: int) -> Any:
        return np.prod(x[after:upto]) if upto > after else 1

    G = [
        beta[j - 1]
        * sum(product(alpha, r, i) * product(mu, j, r) for r in range(j, i + 1))
        for j in range(1, i + 1)
    ]
    f = sum(product(alpha, r, i) * product(mu, 0, r) for r in range(1, i + 1))
    return product(alpha, 0, i), f, np.array(G, dtype=alpha.dtype)


def _printed_unrolled(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    q, k, v = tokens(supply, T, d_k, d_v)
    gates, S = _gates(supply, T), _start(supply, d_k, d_v)
    o, _ = titans.recurrent(q, k, v, **gates, S=S, inner_batch=T + 1)
    g = 2 * (k @ S.at.W - v)
    letters = {"q": q, "k": k, "o": o, "g": g, r"\beta": gates["beta"]}
    letters |= {"M_0": S.M.W, "P_0": S.P.W}
    letters |= {r"\alpha": exp(gates["log_decay"]), r"\mu": exp(gates["log_mu"])}
    return Numbers(letters, {"i": range(1, T + 1), "j": range(1, T + 1)})


@identity(
    title="Momentum unrolled: what a slope moves the memory by, to whoever reads it",
    statement=r"o_i = \left(\prod_{r=1}^{i} \alpha_r\right) M_0^\top q_i"
    r" + \sum_{r=1}^{i} \left(\prod_{s=r+1}^{i} \alpha_s\right)"
    r" \left(\prod_{s=1}^{r} \mu_s\right) P_0^\top q_i"
    r" - \sum_{j=1}^{i} \beta_j \left(\sum_{r=j}^{i}"
    r" \left(\prod_{s=r+1}^{i} \alpha_s\right) \prod_{s=j+1}^{r} \mu_s\right)"
    r" (k_j^\top q_i) g_j",
    source="ours; behrouz2025titans has it without momentum, from memory",
    citations=("behrouz2025titans",),
    printed={STATEMENT: AsPrinted(numbers=_printed_unrolled)},
    chapter=CHAPTER,
    mutants={
        "the newest slope waits a token": {"own": 0},
        "momentum does not fade": {"mu_power": 0},
        "the surprise fades by alpha, too": {"mixed": True},
        "the surprise of the token before moves the memory": {"late": True},
    },
)
def unrolled(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    own: int = 1,
    mu_power: int = 1,
    mixed: bool = False,
    late: bool = False,
) -> dict[str, Sides]:
    """A step keeps what the sums say, from sums over any number of tokens.

    Two slopes stand for all before, with any weights in M and in P; and each printed
    sum follows the recurrence of its weight, up to four tokens.
    """
    q, k, v = tokens(supply, 1, d_k, d_v)
    gates, S = _gates(supply, 1), _start(supply, d_k, d_v)
    past = supply.real("D", 2, d_k, d_v)
    (p, f, m), G, c = supply.real("p", 3), supply.real("G", 2), supply.real("c", 2)
    alpha, mu, beta = (
        exp(gates["log_decay"])[0],
        exp(gates["log_mu"])[0],
        gates["beta"][0],
    )

    def state(p: Any, f: Any, m: Any, G: Any, c: Any, D: Any) -> tuple[Any, Any]:
        M = p * S.M.W + f * S.P.W - np.tensordot(G, D, axes=1)
        return M, m * S.P.W - np.tensordot(c, D, axes=1)

    M, P = state(p, f, m, G, c, past)
    moving = S._replace(M=Linear(M), P=Linear(P))
    gate = {name: x[0] for name, x in gates.items()}
    _, after = titans.step(q[0], k[0], v[0], **gate, S=moving, inner_batch=2)
    slopes = [*past, 2 * np.outer(k[0], k[0] @ S.at.W - v[0])]
    kept = mu**mu_power * (alpha if mixed else 1)
    surprise = c if late else kept * c
    wanted = state(
        alpha * p,
        alpha * f + kept * m,
        kept * m,
        np.append(alpha * G + surprise, own * beta),
        np.append(kept * c, beta),
        np.array(slopes),
    )
    return {
        "base": (flat(*state(1, 0, 1, 0 * G, 0 * c, past)), flat(S.M.W, S.P.W)),
        "step": (flat(after.M.W, after.P.W), flat(*wanted)),
        "sums": _recurrences(supply),
    }


def _recurrences(supply: Supply) -> Sides:
    """The printed p, f and G after four tokens, against those after three."""
    gates = _gates(supply, 4)
    alpha, mu = exp(gates["log_decay"]), exp(gates["log_mu"])
    p, f, G = _sums(alpha, mu, 4, gates["beta"])
    p_3, f_3, G_3 = _sums(alpha, mu, 3, gates["beta"])
    moved = [gates["beta"][j] * np.prod(mu[j + 1 :]) for j in range(3)]
    newest = [*(alpha[3] * G_3 + np.array(moved)), gates["beta"][3]]
    return (
        flat(p, f, G),
        flat(alpha[3] * p_3, alpha[3] * f_3 + np.prod(mu), np.array(newest)),
    )


def _printed_constant(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    q, k, v = tokens(supply, T, d_k, d_v)
    gates, S = _constant(supply, T), _start(supply, d_k, d_v)
    S = S._replace(P=Linear(0 * S.P.W))
    o, _ = titans.recurrent(q, k, v, **gates, S=S, inner_batch=T + 1)
    letters = {"q": q, "k": k, "o": o, "g": 2 * (k @ S.at.W - v), "M_0": S.M.W}
    letters |= {r"\beta": gates["beta"], r"\mu": exp(gates["log_mu"][0])}
    return Numbers(letters, {"i": range(1, T + 1), "j": range(1, T + 1)})


def _constant(supply: Supply, T: int) -> dict[str, np.ndarray]:
    """Gates of one momentum for all, where nothing fades."""
    gates = _gates(supply, T)
    mu = np.repeat(gates["log_mu"][:1], T)
    return gates | {"log_decay": 0 * gates["log_decay"], "log_mu": mu}


@identity(
    title="Constant momentum makes a step up to 1 / (1 - mu) as long, in time",
    statement=r"o_i = M_0^\top q_i - \sum_{j=1}^{i} \beta_j"
    r" \frac{1 - \mu^{i-j+1}}{1 - \mu} (k_j^\top q_i) g_j",
    source="ours; a geometric series",
    citations=("behrouz2025titans",),
    printed={STATEMENT: AsPrinted(numbers=_printed_constant)},
    chapter=CHAPTER,
    mutants={
        "as if the end were reached": {"reached": True},
        "one token too many": {"more": 1},
        "momentum is left out": {"plain": True},
    },
)
def geometric(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    reached: bool = False,
    more: int = 0,
    plain: bool = False,
) -> Sides:
    """One mini-batch, from a memory at rest, without decay."""
    q, k, v = tokens(supply, T, d_k, d_v)
    gates, S = _constant(supply, T), _start(supply, d_k, d_v)
    S = S._replace(P=Linear(0 * S.P.W))
    o, _ = titans.recurrent(q, k, v, **gates, S=S, inner_batch=T + 1)
    mu = exp(gates["log_mu"][0])
    ages = np.array([T - j + more for j in range(T)])
    left = np.array([0 if reached or plain else mu**age for age in ages.tolist()])
    longer = (1 - left) / (1 if plain else 1 - mu)
    g = 2 * (k @ S.at.W - v)
    return o[-1], S.M.W.T @ q[-1] - (gates["beta"] * longer * (k @ q[-1])) @ g


def _steady(supply: Supply, T: int, d_k: int, d_v: int) -> tuple[Any, ...]:
    """A mini-batch from rest with one decay and one momentum: states and slopes."""
    q, k, v = tokens(supply, T, d_k, d_v)
    gates, W = _gates(supply, T), supply.real("W", d_k, d_v)
    for name in ("log_decay", "log_mu"):
        gates[name] = np.repeat(gates[name][:1], T)
    ends = [
        titans.recurrent(
            q[:t],
            k[:t],
            v[:t],
            **{name: x[:t] for name, x in gates.items()},
            S=Momentum.start(Linear(W)),
            inner_batch=T + 1,
        )[1].M.W
        for t in range(T + 1)
    ]
    slopes = [2 * np.outer(a, a @ W - b) for a, b in zip(k, v, strict=True)]
    alpha, mu = (exp(gates[name][0]) for name in ("log_decay", "log_mu"))
    return np.array(ends), np.array(slopes), alpha, mu, gates["beta"]


def _printed_steady(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    ends, slopes, alpha, mu, beta = _steady(supply, T, d_k, d_v)
    letters = {"W": Rows(ends, first=0), "g": list(slopes), r"\beta": beta}
    letters |= {r"\alpha": alpha, r"\mu": mu}
    return Numbers(letters, {"i": range(1, T + 1)})


@identity(
    title="With decay and momentum the weight of a slope rises and then falls",
    statement=r"W_i = \alpha^i W_0 - \sum_{j=1}^{i} \beta_j"
    r" \frac{\alpha^{i-j+1} - \mu^{i-j+1}}{\alpha - \mu} g_j",
    source="ours; the sum of a geometric series",
    citations=("behrouz2025titans",),
    equations=("eq-long-step",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-long-step"),
        AsPrinted(numbers=_printed_steady, at={"symbols": {"T": 2}}),
    ),
    chapter=CHAPTER,
    mutants={
        "the decay alone": {"rolls": 0},
        "one token too many": {"more": 1},
        "the start does not fade": {"fades": 0},
    },
    at={"symbols": {"T": 3}, "floats": {"T": 17}},
)
def rise_and_fall(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    rolls: int = 1,
    more: int = 0,
    fades: int = 1,
) -> Sides:
    """The last state of a mini-batch of one decay and one momentum."""
    ends, slopes, alpha, mu, beta = _steady(supply, T, d_k, d_v)
    ages = [T - j + more for j in range(T)]
    longer = [(alpha**n - rolls * mu**n) / (alpha - mu) for n in ages]
    taken = np.tensordot(beta * np.array(longer), slopes, axes=1)
    return ends[-1], alpha ** (fades * T) * ends[0] - taken


def _heavy(supply: Supply, d_k: int, d_v: int) -> tuple[Any, ...]:
    """Two tokens' gates, a token, and any memory and surprise before both."""
    q, k, v = tokens(supply, 2, d_k, d_v)
    gates = _gates(supply, 2)
    S = momentum_delta_rule.State(
        supply.real("S", d_k, d_v), supply.real("M", d_k, d_v)
    )
    given = {n: gates[n] for n in ("log_decay", "log_mu")} | {"p": k}
    given |= {"eta": gates["beta"], "beta": gates["beta"] ** 0}
    ends = [S]
    for t in range(2):
        token = {name: x[t] for name, x in given.items()}
        ends.append(momentum_delta_rule.step(q[t], k[t], v[t], **token, S=ends[-1])[1])
    return gates, k, v, np.array([end.S for end in ends])


def _printed_heavy(supply: Supply, d_k: int, d_v: int) -> Numbers:
    gates, k, v, S = _heavy(supply, d_k, d_v)
    letters = {"k": k, "v": v, "S": Rows(S, first=0), r"\beta": gates["beta"]}
    letters |= {r"\alpha": exp(gates["log_decay"]), r"\mu": exp(gates["log_mu"])}
    return Numbers(letters)


def _printed_ball(supply: Supply, d_k: int, d_v: int) -> Numbers:
    return Numbers(_named(titans_states(supply, 2, d_k, d_v)))


def _free_heavy(*, faded: int = 1, ahead: bool = False, sign: int = 1) -> Sides:
    """Two tokens in any dimension: M is the surprise that led from S_0 to S_1."""
    import sympy

    S_0, M, k, k_T, v_T = sympy.symbols("S_0 M k k^T v^T", commutative=False)
    alpha, last, mu, beta = sympy.symbols("alpha_2 alpha_1 mu beta")
    S_1 = last * S_0 - M
    rolled = mu * (S_1 - last**faded * S_0)
    seen = S_1 + rolled if ahead else S_1
    rule = alpha * S_1 - (mu * M + beta * k * (k_T * S_1 - v_T))
    return rule, alpha * S_1 + rolled - sign * beta * k * (k_T * seen - v_T)


@identity(
    title="The momentum delta rule is a heavy ball: it rolls on as it last moved",
    statement=r"S_2 = \alpha_2 S_1 + \mu_2 (S_1 - \alpha_1 S_0)"
    r" - \beta_2 k_2 (S_1^\top k_2 - v_2)^\top",
    source="ours; Polyak's heavy ball, where nothing fades",
    citations=("huang2026", "behrouz2025titans"),
    equations=("eq-heavy-ball",),
    printed={
        STATEMENT: AsPrinted(numbers=_printed_heavy),
        "eq-heavy-ball": AsPrinted(numbers=_printed_ball),
    },
    chapter=CHAPTER,
    free=_free_heavy,
    mutants={
        "the way it moved holds its fading": {"faded": 0},
        "the way before that": {"late": 1},
        "the slope is looked up ahead": {"ahead": True},
        "the slope is climbed": {"sign": -1},
    },
)
def heavy_ball(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    faded: int = 1,
    late: int = 0,
    ahead: bool = False,
    sign: int = 1,
) -> Sides:
    """Two tokens from any memory and surprise: the surprise is not needed."""
    gates, k, v, S = _heavy(supply, d_k, d_v)
    alpha, mu = exp(gates["log_decay"]), exp(gates["log_mu"])
    rolled = mu[1 - late] * (S[1] - alpha[0] ** faded * S[0])
    seen = S[1] + rolled if ahead else S[1]
    slope = np.outer(k[1], seen.T @ k[1] - v[1])
    return S[2], alpha[1] * S[1] + rolled - sign * gates["beta"][1] * slope


def _one_token(
    supply: Supply, *, fades: int = 2, rescaled: bool = False, rate: int = 1
) -> tuple[Any, Any]:
    """From memory 1, key 1 and value 0: Titans' answer, and the gated delta rule's."""
    x = supply.real("one", 1) ** 0
    log_decay = log(x / fades)
    S = Momentum.start(Linear(x[:, None]))
    none = log(0 * x)[0]
    v, beta = 0 * x, rate * x[0] / 4
    o, _ = titans.step(x, x, v, log_decay=log_decay[0], log_mu=none, beta=beta, S=S)
    alpha = x[0] / fades
    strength, target = (2 * beta / alpha, alpha * v) if rescaled else (2 * beta, v)
    gates = {"log_decay": log_decay[0], "beta": strength}
    return o, gated_delta_rule.step(x, x, target, **gates, S=x[:, None])[0]


def _printed_one(supply: Supply) -> Numbers:
    theirs, gated = _one_token(supply)
    return Numbers({"o": theirs[0], r"\hat{o}": gated[0]})


@identity(
    title="Titans without momentum is not the gated delta rule of the same rates",
    kind="counterexample",
    statement=r"o = \frac{1}{2} - 2 \cdot \frac{1}{4} = 0 \ne"
    r" \frac{1}{4} = \frac{1}{2} \left(1 - 2 \cdot \frac{1}{4}\right) = \hat{o}",
    source="ours; behrouz2025titans, appendix, says that it is",
    citations=("behrouz2025titans", "yang2025gated"),
    worlds=EXACT,
    printed={STATEMENT: AsPrinted(numbers=_printed_one, worlds=EXACT)},
    chapter=CHAPTER,
    mutants={
        "nothing fades": {"fades": 1},
        "it is given 2 beta / alpha and alpha v": {"rescaled": True},
        "nothing is learned": {"rate": 0},
    },
)
def not_gated_delta_rule(
    supply: Supply, *, fades: int = 2, rescaled: bool = False, rate: int = 1
) -> Sides:
    """Memory, key and query 1, value 0, alpha 1/2 and beta 1/4.

    Titans erases what was there before it faded. With other rates and values they are
    the same, a limit that the mechanism declares.
    """
    return _one_token(supply, fades=fades, rescaled=rescaled, rate=rate)


def _swinging(
    supply: Supply, d_k: int, d_v: int, *, at_the_edge: bool = False
) -> dict[str, Any]:
    """One pair told twice with one gate: the errors before, between and after."""
    k, v = supply.real("k", d_k), supply.real("v", d_v)
    mu, curvature = supply.rate("mu", 1)[0], k @ k
    beta = (1 + mu) / curvature if at_the_edge else supply.rate("beta", 1)[0]
    S = Momentum.start(Linear(supply.real("W", d_k, d_v)))
    gates = {"log_decay": 0 * mu, "log_mu": log(np.asarray(mu)), "beta": beta}
    S = S._replace(P=Linear(supply.real("P", d_k, d_v)))
    if at_the_edge:
        # it has just gone to its mirror image
        error = S.M.W.T @ k - v
        S = S._replace(P=Linear(np.outer(k, 2 * error) / curvature))
    before = S.M.W - S.P.W
    states = [before, S.M.W]
    for _ in range(2):
        _, S = titans.step(k, k, v, **gates, S=S)
        states.append(S.M.W)
    x = np.array([W.T @ k - v for W in states])
    return {"x": x, r"\mu": mu, r"\beta": beta, r"\lambda": curvature}


def _printed_swing(supply: Supply, d_k: int, d_v: int) -> Numbers:
    letters = _swinging(supply, d_k, d_v)
    x = Rows(letters.pop("x"), first=0)
    return Numbers(letters | {"x": x}, {"n": range(1, 3)})


@identity(
    title="Told the same again, an error swings, and beyond a step it swings for ever",
    statement=r"x_{n+1} = (1 + \mu - 2 \beta \lambda) x_n - \mu x_{n-1}",
    source="ours; Polyak's heavy ball on a parabola",
    citations=("behrouz2025titans",),
    equations=("eq-swing",),
    printed=dict.fromkeys((STATEMENT, "eq-swing"), AsPrinted(numbers=_printed_swing)),
    chapter=CHAPTER,
    mutants={
        "the loss is halved": {"factor": 1},
        "without the swing of before": {"back": 0},
        "the swing is not carried on": {"on": 0},
        "at the edge with half the momentum": {"edge": 2},
    },
)
def swing(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    factor: int = 2,
    back: int = 1,
    on: int = 1,
    edge: int = 1,
) -> dict[str, Sides]:
    """One pair, from any memory and surprise; at the edge, one error from its image."""
    x, mu, beta, curvature = _swinging(supply, d_k, d_v).values()
    turned = 1 + on * mu - factor * beta * curvature
    sides = {"swing": (x[2:], turned * x[1:3] - back * mu * x[:2])}
    x, mu, *_ = _swinging(supply, d_k, d_v, at_the_edge=True).values()
    return sides | {"edge": (x[1:] * edge, -x[:-1])}


def _returning(supply: Supply, N: int, *, between: bool = True) -> dict[str, Any]:
    """One key told at every N-th token, others at right angles to it in between.

    Errors at it just before it is told, three times. Without `between` the tokens there
    are left out, and the key is told again at once.
    """
    k, v = supply.real("k", 2), supply.real("v", N + 1, 1)
    aside = np.array([-k[1], k[0]])
    mu, beta = (supply.rate(name, 1)[0] for name in ("mu", "beta"))
    gates = {"log_decay": 0 * mu, "log_mu": log(np.asarray(mu)), "beta": beta}
    S = Momentum.start(Linear(supply.real("W", 2, 1)))
    S, x = S._replace(P=Linear(supply.real("P", 2, 1))), []
    for _ in range(3):
        x.append(S.M.W.T @ k - v[0])
        for t in range(N if between else 1):
            _, S = titans.step(k, aside if t else k, v[t], **gates, S=S)
    return {"x": np.array(x), r"\mu": mu, r"\beta": beta, r"\lambda": k @ k}


def _printed_returning(supply: Supply, N: int) -> Numbers:
    letters = _returning(supply, N)
    mu, beta = letters[r"\mu"], letters[r"\beta"]
    letters["x"] = Rows(letters["x"], first=0)
    letters[r"\hat{\beta}"] = beta * sum(mu**i for i in range(N))
    return Numbers(letters | {"N": N}, {"n": range(1, 2)})


@identity(
    title="A key that returns at every N-th token swings by mu^N, at a longer step",
    statement=r"x_{n+1} = (1 + \mu^N - 2 \hat{\beta} \lambda) x_n - \mu^N x_{n-1},"
    r" \quad \hat{\beta} = \beta \frac{1 - \mu^N}{1 - \mu}",
    source="ours",
    citations=("behrouz2025titans",),
    equations=("eq-rare-swing",),
    printed=dict.fromkeys(
        (STATEMENT, "eq-rare-swing"), AsPrinted(numbers=_printed_returning)
    ),
    chapter=CHAPTER,
    mutants={
        "the step is no longer": {"pushes": 1},
        "a token fewer has passed": {"fewer": 1},
        "it is told again at once": {"between": False},
    },
)
def rare_swing(
    supply: Supply,
    N: int,
    *,
    pushes: int | None = None,
    fewer: int = 0,
    between: bool = True,
) -> Sides:
    """Two rounds, from any memory and surprise."""
    x, mu, beta, curvature = _returning(supply, N, between=between).values()
    kept = mu ** (N - fewer)
    longer = beta * sum(mu**i for i in range(pushes or N))
    return x[2], (1 + kept - 2 * longer * curvature) * x[1] - kept * x[0]


def _ends(supply: Supply, *, factor: int = 2) -> tuple[Any, ...]:
    mu, beta, curvature = (supply.rate(name, 1)[0] for name in ("mu", "b", "l"))

    def c(z: Any) -> Any:
        return z * z - (1 + mu - factor * beta * curvature) * z + mu

    return c, mu, beta, curvature


def _printed_ends(supply: Supply) -> Numbers:
    c, mu, beta, curvature = _ends(supply)
    letters = {"c": c, r"\mu": mu, r"\beta": beta, r"\lambda": curvature}
    return Numbers(letters | {"z": supply.real("z", 1)[0]})


@identity(
    title="The polynomial of the swing at 1 and at -1 gives the range of safe steps",
    statement=r"c(z) = z^2 - (1 + \mu - 2 \beta \lambda) z + \mu, \quad"
    r" c(1) = 2 \beta \lambda, \quad c(-1) = 2 (1 + \mu - \beta \lambda)",
    source="ours; Jury's conditions for two roots inside the circle",
    citations=("behrouz2025titans",),
    equations=("eq-two-ends",),
    printed=dict.fromkeys((STATEMENT, "eq-two-ends"), AsPrinted(numbers=_printed_ends)),
    chapter=CHAPTER,
    mutants={
        "the loss is halved": {"factor": 1},
        "momentum is counted twice": {"twice": 2},
        "momentum narrows the range": {"twice": -1},
    },
)
def two_ends(supply: Supply, *, factor: int = 2, twice: int = 1) -> Sides:
    """Both ends, from the recurrence."""
    c, mu, beta, curvature = _ends(supply, factor=factor)
    product = beta * curvature
    return flat(c(1), c(-1)), flat(2 * product, 2 * (1 + twice * mu - product))
