"""Titans' memory: what its momentum adds up to, and which delta rule it is not.

The surprise P gathers slopes and fades by mu, the memory M fades by alpha and moves by
P. In a mini-batch all slopes are those of its start, and every answer is a known sum.
"""

from typing import Any

import numpy as np

from ctlearn.identities.engine import STATEMENT, Sides, identity
from ctlearn.identities.tokens import flat, tokens
from ctlearn.inner import Linear, Momentum
from ctlearn.mixers import gated_delta_rule, momentum_delta_rule, titans
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.scalars import exp, log
from ctlearn.supplies import Supply

EXACT = ("rationals", "floats")


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
    printed={STATEMENT: AsPrinted(numbers=_printed_heavy)},
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
