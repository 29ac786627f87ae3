"""Training on key-value pairs is linear attention (the KV-binding view), and where not.

A learner f(x) = W'phi(x), whose last layer W has no bias, takes a gradient step at each
token, in all its weights. Whatever moves phi, the step adds phi(k) u' to W, where u is
minus the step size times the loss's slope at f(k). So the answers are those of linear
attention whose features change with time. [liu2026, from its abstract and notes]
"""

from typing import Any, NamedTuple

import numpy as np

from ctlearn import inner
from ctlearn.identities.engine import Sides, identity
from ctlearn.identities.tokens import flat
from ctlearn.inner import GatedUnit, Linear, each
from ctlearn.mixers import lact, linear_attention
from ctlearn.printed import AsPrinted, Numbers, Rows
from ctlearn.supplies import Supply
from ctlearn.tasks import two_views
from ctlearn.tasks.two_views import SLOPES

CHAPTER = "14_is_it_linear_attention"
LIU = ("liu2026",)


class _History(NamedTuple):
    """A training as linear attention sees it, and what the learner itself answered.

    `asked` and `early` [T, d_h] are the features of each query after and before its
    token's step, `stored` [T, d_h] those of each key before it, `u` [T, d_v] the slopes
    times minus the step size, W [T + 1, d_h, d_v] the last layer before the first token
    and after each, and `o` [T, d_v] the answers.
    """

    asked: np.ndarray
    early: np.ndarray
    stored: np.ndarray
    u: np.ndarray
    W: np.ndarray
    o: np.ndarray


def _any_features(supply: Supply, T: int, d_v: int, mu: np.ndarray) -> _History:
    """Any features at any time and any slopes: only the last layer is trained."""
    asked, early, stored = (supply.real(name, T, 2) for name in ("a", "b", "f"))
    u, W = supply.real("g", T, d_v), [supply.real("W", 2, d_v)]
    P, o = 0 * W[0], np.empty_like(u)
    for t in range(T):
        P = mu[t] * P + np.outer(stored[t], u[t])
        W.append(W[-1] + P)
        o[t] = W[-1].T @ asked[t]
    return _History(asked, early, stored, u, np.array(W), o)


def _unit(supply: Supply, d_k: int, d_v: int) -> GatedUnit:
    return each(lambda w: 4 * w, inner.drawn(GatedUnit, supply, d_k, 5, d_v))


def _gated_unit(
    supply: Supply, T: int, d_k: int, d_v: int, mu: np.ndarray, loss: str
) -> _History:
    """A SwiGLU whose three matrices all learn, with momentum mu."""
    x = _tokens(supply, T, d_k, d_v)
    slope = SLOPES[loss]
    views = two_views.train(_unit(supply, d_k, d_v), **x, slope=slope, mu=mu)
    before = zip(views.learners[:-1], x["q"], strict=True)
    early = np.array([two_views.features(*pair) for pair in before])
    W = np.array([f.W_1 for f in views.learners])
    return _History(views.asked, early, views.stored, views.written, W, views.answers)


def _tokens(supply: Supply, T: int, d_k: int, d_v: int) -> dict[str, np.ndarray]:
    q, k = supply.unit("q", T, d_k), supply.unit("k", T, d_k)
    v, eta = supply.real("v", T, d_v), supply.rate("eta", T) / 4
    return {"q": q, "k": k, "v": v, "eta": eta}


def _histories(
    supply: Supply, T: int, d_k: int, d_v: int, mu: np.ndarray
) -> dict[str, _History]:
    """By loss; where numbers are exact one stands for all, as its slopes are free."""
    if supply.world != "floats":
        return {"any": _any_features(supply, T, d_v, mu)}
    return {loss: _gated_unit(supply, T, d_k, d_v, mu, loss) for loss in SLOPES}


def _printed_slope(supply: Supply, d_k: int, d_v: int) -> Numbers:
    letters = {"s": supply.real("s", d_v), "x": supply.real("x", d_k)}
    return Numbers(letters | {"E": supply.real("E", d_k, d_v)})


@identity(
    title="For any loss the last layer's slope is its input times the loss's slope",
    statement=r"\nabla_W \, \ell(W^\top \phi) ="
    r" \phi \left(\nabla_z \, \ell(z) \big|_{z = W^\top \phi}\right)^\top",
    source="the chain rule",
    worlds=("symbols",),
    equations=("eq-any-loss",),
    printed={"eq-any-loss": AsPrinted(numbers=_printed_slope)},
    chapter=CHAPTER,
    mutants={
        "the slope at another answer": {"shift": 1},
        "the input is doubled": {"scale": 2},
        "the input is squared": {"power": 2},
    },
)
def last_layer(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    shift: int = 0,
    scale: int = 1,
    power: int = 1,
) -> Sides:
    """SymPy's derivative of a function that is nowhere defined, entry by entry."""
    import sympy

    phi, W = supply.real("f", d_k), supply.real("W", d_k, d_v)
    z, loss = supply.real("z", d_v), sympy.Function("loss")
    there = dict(zip(z, phi @ W + shift, strict=True))
    slopes = [sympy.diff(loss(*z), entry).subs(there, simultaneous=True) for entry in z]
    whole = loss(*(phi @ W))
    left = np.array([sympy.diff(whole, entry) for entry in W.flat])
    return left.reshape(W.shape), scale * np.outer(phi**power, slopes)


def _printed_pairs(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    """A trained SwiGLU: its features as functions, and the slopes it went against."""
    x, mu = _tokens(supply, T, d_k, d_v), np.zeros(T)
    slope = SLOPES["log cosh of the error"]
    views = two_views.train(_unit(supply, d_k, d_v), **x, slope=slope, mu=mu)
    at = zip(views.learners[:-1], x["k"], x["v"], strict=True)
    s = np.array([slope(f.read(k), v) for f, k, v in at])
    maps = [lambda z, f=f: two_views.features(f, z) for f in views.learners]
    letters: dict[str, Any] = {name: x[name] for name in "qk"}
    letters |= {r"\phi": Rows(maps, first=0)}
    letters |= {r"\tilde{k}": views.stored, r"\tilde{q}": views.asked, "s": s}
    letters |= {"u": views.written, r"\eta": x["eta"]}
    return Numbers(letters, {"t": range(1, T + 1)})


def _printed_training(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    x = [*_histories(supply, T, d_k, d_v, np.zeros(T, dtype=int)).values()][-1]
    letters: dict[str, Any] = {"W": Rows(x.W, first=0), "W_0": x.W[0], "o": x.o}
    letters |= {r"\tilde{k}": x.stored, r"\tilde{q}": x.asked, "u": x.u}
    return Numbers(letters, {"t": range(1, T + 1), "j": range(1, T + 1)})


@identity(
    title="Training on key–value pairs is linear attention with features that move",
    statement=r"\tilde{k}_j = \phi_{j-1}(k_j), \quad \tilde{q}_t = \phi_t(q_t):"
    r" \quad o_t = \left(W_0 + \sum_{j=1}^{t} \tilde{k}_j u_j^\top\right)^\top"
    r" \tilde{q}_t, \quad u_j = -\eta_j \nabla_z \, \ell_j(z) \big|_{z = f_{j-1}(k_j)}",
    source="liu2026",
    citations=LIU,
    equations=("def-moving-pairs", "eq-one-write", "eq-rewriting"),
    printed={
        "def-moving-pairs": AsPrinted(numbers=_printed_pairs, worlds=("floats",)),
        "eq-one-write": AsPrinted(numbers=_printed_training),
        "eq-rewriting": AsPrinted(numbers=_printed_training),
    },
    chapter=CHAPTER,
    mutants={
        "a query is read with the features before its token's step": {"early": True},
        "a token does not see its own step": {"own": 0},
        "the last layer starts from nothing": {"start": 0},
    },
    at={"floats": {"T": 30}},
)
def trained(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    early: bool = False,
    own: int = 1,
    start: int = 1,
) -> dict[str, Sides]:
    """The package's linear attention, on what the training leaves, against the learner.

    Exact numbers and symbols leave the features free; floats train a SwiGLU. The step
    is one more token of each, from any last layer, and a proof for every T.
    """
    W, k = supply.real("X", 3, d_v), supply.real("x", 3)
    q, u = supply.real("y", 3), supply.real("z", d_v)
    answer, after = linear_attention.step(q, k, u, S=start * W)
    learned = W + Linear(W).gradient(k, u).W
    _, before = linear_attention.recurrent(*(a[None][:0] for a in (q, k, u)), S=W)
    sides = {
        "base": (before, W),
        "step": (flat(answer, after), flat(q @ learned, learned)),
    }
    for loss, x in _histories(supply, T, d_k, d_v, np.zeros(T, dtype=int)).items():
        asked = x.early if early else x.asked
        S = start * x.W[0]
        o, _ = linear_attention.recurrent(asked, x.stored, x.u, S=S)
        missed = (1 - own) * (asked * x.stored).sum(axis=1)[:, None] * x.u
        sides[loss] = o - missed, x.o
    return sides


def _weights(mu: np.ndarray, *, first: int = 1, summed: bool = True) -> np.ndarray:
    """c_tj: what a step j steps counts for whoever reads after token t."""
    T = len(mu)
    products = np.array(
        [
            [mu[j + first : i + 1].prod() if j <= i else 0 for j in range(T)]
            for i in range(T)
        ]
    )
    return np.cumsum(products, axis=0) if summed else products


def _printed_momentum(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    mu = supply.rate("mu", T)
    x = [*_histories(supply, T, d_k, d_v, mu).values()][-1]
    letters = {r"\tilde{k}": x.stored, r"\tilde{q}": x.asked, "u": x.u, "o": x.o}
    letters |= {"W_0": x.W[0], r"\mu": mu, "c": _weights(mu)}
    index = {name: range(1, T + 1) for name in "tj"}
    return Numbers(letters, index)


@identity(
    title="With momentum a pair's weight depends on who reads it",
    statement=r"o_t = W_0^\top \tilde{q}_t + \sum_{j=1}^{t} c_{tj}"
    r" \left(\tilde{k}_j^\top \tilde{q}_t\right) u_j, \quad"
    r" c_{tj} = \sum_{i=j}^{t} \prod_{r=j+1}^{i} \mu_r",
    source="liu2026",
    citations=LIU,
    equations=("eq-momentum-weights",),
    printed={"eq-momentum-weights": AsPrinted(numbers=_printed_momentum)},
    chapter=CHAPTER,
    mutants={
        "the newest momentum alone": {"summed": False},
        "the weight that the last reader gives": {"reader": False},
        "momentum also fades the step that it arrives with": {"first": 0},
    },
    at={"floats": {"T": 30}},
)
def momentum(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    summed: bool = True,
    reader: bool = True,
    first: int = 1,
) -> dict[str, Sides]:
    """A masked product, in which no state is left, against the learner.

    The step is one more token on any sums that two earlier steps have left in the last
    layer and in its momentum, and a proof for every T: the weights c of a row come from
    those of the row before, and from what is still moving.
    """
    mu = supply.rate("mu", T)
    c = _weights(mu, first=first, summed=summed)
    c = c if reader else np.tril(np.broadcast_to(c[-1], c.shape))
    sides = {
        loss: (x.asked @ x.W[0] + (x.asked @ x.stored.T * c) @ x.u, x.o)
        for loss, x in _histories(supply, T, d_k, d_v, mu).items()
    }
    c, kept = _weights(mu), np.array([mu[j + 1 :].prod() for j in range(T - 1)])
    sides["weights"] = c[-1, :-1], c[-2, :-1] + kept
    return sides | _one_more_token(supply, d_v, mu[0])


def _one_more_token(supply: Supply, d_v: int, mu: Any) -> dict[str, Sides]:
    """Two steps count c in the last layer and p in what still moves, before a token."""
    D, new, W_0 = (supply.real(*x, 2, d_v) for x in (("D", 2), ("N",), ("W",)))
    c, p = supply.real("c", 2), supply.real("p", 2)
    W, P = W_0 + np.tensordot(c, D, axes=1), np.tensordot(p, D, axes=1)
    counts, steps = np.append(c + mu * p, 1), np.array([*D, new])
    return {
        "base": (W_0 + np.tensordot(c[:0], D[:0], axes=1), W_0),
        "step": (W + mu * P + new, W_0 + np.tensordot(counts, steps, axes=1)),
    }


def _printed_constant(supply: Supply, T: int) -> Numbers:
    mu = supply.rate("mu", 1)[0]
    letters = {r"\mu": mu, "c": _weights(np.repeat(mu, T))}
    index = {name: range(1, T + 1) for name in "tj"}
    return Numbers(letters, index)


@identity(
    title="A constant momentum is a memory that keeps all, less one that fades",
    statement=r"\mu_r = \mu: \quad c_{tj} = \frac{1 - \mu^{t-j+1}}{1 - \mu}",
    source="ours; a geometric sum",
    citations=LIU,
    equations=("eq-constant-momentum",),
    printed={"eq-constant-momentum": AsPrinted(numbers=_printed_constant)},
    chapter=CHAPTER,
    mutants={
        "the newest step has faded once": {"more": 0},
        "the fading memory is added": {"sign": 1},
        "both count once": {"share": 0},
    },
)
def constant_momentum(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    more: int = 1,
    sign: int = -1,
    share: int = 1,
) -> Sides:
    """What momentum's weights answer, against two of the package's memories."""
    mu, x = supply.rate("mu", 1)[0], _any_features(supply, T, d_v, np.zeros(T, int))
    left = (x.asked @ x.stored.T * _weights(np.repeat(mu, T))) @ x.u
    kept, _ = linear_attention.recurrent(x.asked, x.stored, x.u)
    S, faded = 0 * x.W[0], np.empty_like(kept)
    for t in range(T):
        S = mu * S + np.outer(x.stored[t], x.u[t])
        faded[t] = S.T @ x.asked[t]
    return left * (1 - mu) ** share, kept + sign * mu**more * faded


def _answers(
    f: Any, x: dict[str, np.ndarray], eta: np.ndarray, v: np.ndarray, loss: str
) -> np.ndarray:
    """What a learner says that steps by eta on the values v, token by token."""
    o = np.empty_like(v)
    for t in range(len(v)):
        u = -eta[t] * SLOPES[loss](f.read(x["k"][t]), v[t])
        f = each(np.add, f, f.gradient(x["k"][t], u))
        o[t] = f.read(x["q"][t])
    return o


def _two_signs(supply: Supply, T: int, d_k: int, d_v: int) -> tuple[Any, ...]:
    """A linear map in exact numbers, a SwiGLU in floats; all their weights learn."""
    x = {n: supply.real(n, T, d) for n, d in (("q", d_k), ("k", d_k), ("v", d_v))}
    kind = GatedUnit if supply.world == "floats" else Linear
    return inner.drawn(kind, supply, d_k, 5, d_v), x, supply.small("eta", T)


def _printed_sign(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    f, x, eta = _two_signs(supply, T, d_k, d_v)

    def o(eta: np.ndarray, v: np.ndarray) -> np.ndarray:
        return _answers(f, x, eta.ravel(), v, "dot product")

    return Numbers({"o": o, r"\eta": eta, "V": x["v"]})


@identity(
    title="Gradient ascent is descent on negated values, for the dot product",
    statement=r"\ell = -v^\top z: \quad o(\eta, -v) = o(-\eta, v), \quad"
    r" W_0 = 0 \;\Rightarrow\; o(-\eta, v) = -o(\eta, v)",
    source="liu2026",
    citations=LIU,
    equations=("eq-sign",),
    printed={"eq-sign": AsPrinted(numbers=_printed_sign, at={"symbols": {"T": 2}})},
    chapter=CHAPTER,
    mutants={
        "the squared error": {"loss": "half the squared error"},
        "a last layer that has learned before": {"start": 1},
        "the values keep their sign": {"turned": 1},
    },
    at={"symbols": {"T": 2}, "floats": {"T": 12}},
)
def ascent(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    loss: str = "dot product",
    start: int = 0,
    turned: int = -1,
) -> dict[str, Sides]:
    """From any start, and from a last layer of zeros."""
    f, x, eta = _two_signs(supply, T, d_k, d_v)
    v, other = x["v"], turned * x["v"]
    if isinstance(f, Linear):
        blank = Linear(start * f.W)
    else:
        blank = f._replace(W_1=start * f.W_1)
    return {
        "any start": (_answers(f, x, -eta, v, loss), _answers(f, x, eta, other, loss)),
        "from zero": (
            _answers(blank, x, -eta, v, loss),
            -_answers(blank, x, eta, v, loss),
        ),
    }


def _printed_mixes(supply: Supply, N: int, d: int) -> Numbers:
    x, u = supply.real("f", N, d), supply.real("g", N, d)
    a, b = supply.real("ab", 2)
    letters = {r"\tilde{k}": x, "u": u, "a": a, "b": b, "B": x.T @ u, "N": N}
    return Numbers(letters, {"j": range(1, N + 1)})


@identity(
    title="Muon gives a batch values that know of each other",
    statement=r"B = \sum_j \tilde{k}_j u_j^\top: \quad a B + b\, B B^\top B ="
    r" \sum_j \tilde{k}_j \left((a I + b\, B^\top B)\, u_j\right)^\top",
    source="ours; the step is Newton and Schulz's",
    citations=("liu2026", "jordan2024muon"),
    equations=("eq-mixed-values",),
    printed={
        "eq-mixed-values": AsPrinted(numbers=_printed_mixes, at={"symbols": {"N": 2}})
    },
    chapter=CHAPTER,
    mutants={
        "each value knows its own token alone": {"alone": True},
        "the features are mixed instead": {"swapped": True},
        "the cubic part is left out of the values": {"cubic": 0},
    },
    at={"symbols": {"N": 2}},
)
def muon_mixes(
    supply: Supply,
    N: int,
    d: int,
    *,
    alone: bool = False,
    swapped: bool = False,
    cubic: int = 1,
) -> Sides:
    """A cubic step for any a and b; one of fifth degree adds a power more."""
    phi, u = supply.real("f", N, d), supply.real("g", N, d)
    a, b = supply.real("ab", 2)
    B, one = phi.T @ u, np.eye(d, dtype=int)
    if swapped:
        return a * B + b * B @ B.T @ B, phi.T @ (u @ (a * one + b * B @ B.T))
    known = [np.outer(x, y) for x, y in zip(phi, u, strict=True)] if alone else [B] * N
    values = [
        (a * one + cubic * b * X.T @ X) @ y for X, y in zip(known, u, strict=True)
    ]
    return a * B + b * B @ B.T @ B, phi.T @ np.array(values)


def _no_overlap(supply: Supply, across: int) -> tuple[np.ndarray, np.ndarray]:
    """Two keys at right angles, and the values of both."""
    one = supply.real("one", 1)[0] ** 0
    keys = one * np.array([[3, 4], [-4, 3]]) / 5
    return keys, np.array([[one, 0 * one], [across * one, 5 * one / 4]])


def _orthogonal(supply: Supply, B: np.ndarray) -> np.ndarray:
    """Exactly, Muon takes the nearest orthogonal matrix; in floats, the iteration."""
    if supply.world == "floats":
        return inner.newton_schulz(B)
    # the nearest rotation to a matrix of positive determinant is along B + adj(B)'
    adjugate = np.array([[B[1, 1], -B[1, 0]], [-B[0, 1], B[0, 0]]])
    turned = B + adjugate
    return turned / (turned[0] @ turned[0]) ** (B[0, 0] ** 0 / 2)


def _printed_overlap(supply: Supply) -> Numbers:
    keys, u = _no_overlap(supply, 3)
    W = _orthogonal(supply, keys.T @ u)
    return Numbers({r"\tilde{k}": keys, "u": u, "B": keys.T @ u, "W": W})


@identity(
    title="With Muon a pair of no overlap changes another pair's answer",
    kind="counterexample",
    statement=r"\tilde{k}_1^\top \tilde{k}_2 = 0, \quad"
    r" u_1 = \begin{pmatrix} 1 \\ 0 \end{pmatrix}, \;"
    r" u_2 = \begin{pmatrix} 3 \\ 5/4 \end{pmatrix}: \quad"
    r" W^\top \tilde{k}_1 = \begin{pmatrix} 3/5 \\ -4/5 \end{pmatrix} \ne u_1",
    source="ours",
    citations=("liu2026", "jordan2024muon"),
    worlds=("rationals", "floats"),
    equations=("eq-no-overlap",),
    printed={
        "eq-no-overlap": AsPrinted(numbers=_printed_overlap, worlds=("rationals",))
    },
    chapter=CHAPTER,
    mutants={
        "plain gradient descent": {"muon": False},
        "slopes of no overlap either": {"across": 0},
    },
)
def muon_outside(supply: Supply, *, muon: bool = True, across: int = 3) -> Sides:
    """The answer at the first key after a batch of both pairs, and after one alone."""
    keys, u = _no_overlap(supply, across)
    both, first = keys.T @ u, np.outer(keys[0], u[0])
    if not muon:
        return keys[0] @ both, keys[0] @ first
    alone = inner.newton_schulz(first) if supply.world == "floats" else first
    return keys[0] @ _orthogonal(supply, both), keys[0] @ alone


def _kept(supply: Supply, T: int, d_k: int, d_v: int) -> tuple[Any, ...]:
    """Columns that the package keeps at their lengths, and what multiplied them."""
    k, v = supply.unit("k", T, d_k), supply.real("v", T, d_v)
    beta, W = supply.rate("beta", T), [supply.real("W", d_k, d_v)]
    S, growth = lact.State.start(Linear(W[0])), []
    rates = np.repeat(beta[:, None], 3, axis=1)
    for t in range(T):
        written = S.f.W + np.outer(k[t], beta[t] * v[t])
        _, S = lact.step(
            k[t], k[t], v[t], log_mu=-np.inf, beta=rates[t], muon=(), S=S, inner_batch=1
        )
        growth.append((S.f.W / written)[0])
        W.append(S.f.W)
    return k, beta[:, None] * v, np.array(W), np.array(growth)


def _printed_lengths(supply: Supply, T: int, d_k: int, d_v: int) -> Numbers:
    k, u, W, growth = _kept(supply, T, d_k, d_v)
    letters = {r"\tilde{k}": k, "u": u, "W": Rows(W, first=0), r"\sigma": growth}
    index = {name: range(1, T + 1) for name in "tj"}
    return Numbers(letters, index)


@identity(
    title="Lengths that are kept are a decay of the value channels",
    statement=r"W_t = W_0 \prod_{r=1}^{t} \mathrm{Diag}(\sigma_r)"
    r" + \sum_{j=1}^{t} \tilde{k}_j u_j^\top \prod_{r=j}^{t} \mathrm{Diag}(\sigma_r)",
    source="ours; zhang2025lact keeps the lengths",
    citations=("zhang2025lact", "liu2026"),
    equations=("eq-kept-lengths",),
    printed={
        "eq-kept-lengths": AsPrinted(numbers=_printed_lengths, worlds=("floats",))
    },
    chapter=CHAPTER,
    mutants={
        "a write waits a token to be scaled": {"own": False},
        "the start is not scaled": {"start": False},
        "key channels are scaled": {"rows": True},
    },
)
def kept_lengths(
    supply: Supply,
    d_k: int,
    d_v: int,
    *,
    own: bool = True,
    start: bool = True,
    rows: bool = False,
) -> dict[str, Sides]:
    """One more token on any sums so far, for any factors; in floats the package's."""
    W_0, past = supply.real("W", d_k, d_v), supply.real("X", d_k, d_v)
    k, u, sigma = supply.real("k", d_k), supply.real("u", d_v), supply.rate("s", d_v)
    if supply.world == "floats":
        ks, us, W, growth = _kept(supply, 1, d_k, d_v)
        W_0, past, after = W[0], 0 * W[0], W[1]
        k, u, sigma = ks[0], us[0], growth[0]
    else:
        after = (W_0 + past + np.outer(k, u)) * sigma
    new = np.outer(k, u)
    wanted = (W_0 * sigma if start else W_0) + past * sigma
    wanted = wanted + (new * sigma if own else new)
    if rows:
        wanted = (W_0 + past + new) * supply.rate("r", d_k)[:, None]
    begun = lact.State.start(Linear(W_0), keep_lengths=False)
    return {"base": (begun.f.W, W_0), "step": (after, wanted)}
