"""Training on key-value pairs is linear attention (the KV-binding view), and where not.

A learner f(x) = W'phi(x), whose last layer W has no bias, takes a gradient step at each
token, in all its weights. Whatever moves phi, the step adds phi(k) g' to W, where g is
minus the step size times the loss's slope at f(k). So the answers are those of linear
attention whose features change with time. [liu2026, from its abstract and notes]
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ctlearn import inner
from ctlearn.identities.engine import Sides, identity
from ctlearn.inner import GatedUnit, Linear, each, silu
from ctlearn.mixers import linear_attention
from ctlearn.supplies import Supply

Slope = Callable[[np.ndarray, np.ndarray], np.ndarray]
_SLOPES: dict[str, Slope] = {
    "dot product": lambda z, v: -v,
    "half the squared error": lambda z, v: z - v,
    "log cosh of the error": lambda z, v: np.tanh(z - v),
}


class _History(NamedTuple):
    """A training as linear attention sees it, and what the learner itself answered.

    `asked` and `early` [T, d_h] are the features of each query after and before its
    token's step, `stored` [T, d_h] those of each key before it, `g` [T, d_v] the slopes
    times minus the step size, `W` the last layer's start and `o` [T, d_v] the answers.
    """

    asked: np.ndarray
    early: np.ndarray
    stored: np.ndarray
    g: np.ndarray
    W: np.ndarray
    o: np.ndarray


def _any_features(supply: Supply, T: int, d_v: int, mu: np.ndarray) -> _History:
    """Any features at any time and any slopes: only the last layer is trained."""
    asked, early, stored = (supply.real(name, T, 2) for name in ("a", "b", "f"))
    g, W = supply.real("g", T, d_v), supply.real("W", 2, d_v)
    now, P, o = W, 0 * W, np.empty_like(g)
    for t in range(T):
        P = mu[t] * P + np.outer(stored[t], g[t])
        now = now + P
        o[t] = now.T @ asked[t]
    return _History(asked, early, stored, g, W, o)


def _gated_unit(
    supply: Supply, T: int, d_k: int, d_v: int, mu: np.ndarray, slope: Slope
) -> _History:
    """A SwiGLU whose three matrices all learn, with momentum mu."""
    q, k = supply.unit("q", T, d_k), supply.unit("k", T, d_k)
    v, eta = supply.real("v", T, d_v), supply.rate("eta", T) / 4
    f = each(lambda w: 4 * w, inner.drawn(GatedUnit, supply, d_k, 5, d_v))
    W, P = f.W_1, inner.zeros_like(f)
    asked, early, stored = np.empty((3, T, 5))
    g, o = np.empty((2, T, d_v))
    for t in range(T):
        stored[t], early[t] = _features(f, k[t]), _features(f, q[t])
        g[t] = -eta[t] * slope(f.read(k[t]), v[t])
        kept = mu[t]
        P = each(lambda p, d, kept=kept: kept * p + d, P, f.gradient(k[t], g[t]))
        f = each(np.add, f, P)
        asked[t], o[t] = _features(f, q[t]), f.read(q[t])
    return _History(asked, early, stored, g, W, o)


def _features(f: GatedUnit, x: np.ndarray) -> np.ndarray:
    return silu(x @ f.W_0) * (x @ f.W_2)


def _histories(
    supply: Supply, T: int, d_k: int, d_v: int, mu: np.ndarray
) -> dict[str, _History]:
    """By loss; where numbers are exact one stands for all, as its slopes are free."""
    if supply.world != "floats":
        return {"any": _any_features(supply, T, d_v, mu)}
    return {
        loss: _gated_unit(supply, T, d_k, d_v, mu, slope)
        for loss, slope in _SLOPES.items()
    }


@identity(
    title="For any loss the last layer's slope is its input times the loss's slope",
    statement=r"\nabla_W \, \ell(W^\top \phi) ="
    r" \phi \left(\nabla_z \, \ell(z) \big|_{z = W^\top \phi}\right)^\top",
    source="the chain rule",
    worlds=("symbols",),
    mutants={
        "the slope at another answer": {"shift": 1},
        "the input is doubled": {"scale": 2},
    },
)
def last_layer(
    supply: Supply, d_k: int, d_v: int, *, shift: int = 0, scale: int = 1
) -> Sides:
    """SymPy's derivative of a function that is nowhere defined, entry by entry."""
    import sympy

    phi, W = supply.real("f", d_k), supply.real("W", d_k, d_v)
    z, loss = supply.real("z", d_v), sympy.Function("loss")
    there = dict(zip(z, phi @ W + shift, strict=True))
    slopes = [sympy.diff(loss(*z), entry).subs(there, simultaneous=True) for entry in z]
    whole = loss(*(phi @ W))
    left = np.array([sympy.diff(whole, entry) for entry in W.flat])
    return left.reshape(W.shape), scale * np.outer(phi, slopes)


@identity(
    title="Training on key–value pairs is linear attention with features that move",
    statement=r"o_t = \left(W_0 + \sum_{j=1}^{t} \phi_{j-1}(k_j) g_j^\top\right)^\top"
    r" \phi_t(q_t), \quad g_j = -\eta_j \nabla_z \, \ell_j(z) \big|_{z = f_{j-1}(k_j)}",
    source="liu2026",
    citations=("liu2026",),
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

    Exact numbers and symbols leave the features free; floats train a SwiGLU.
    """
    sides = {}
    for loss, x in _histories(supply, T, d_k, d_v, np.zeros(T, dtype=int)).items():
        asked = x.early if early else x.asked
        S = start * x.W
        o, _ = linear_attention.recurrent(asked, x.stored, x.g, S=S)
        missed = (1 - own) * (asked * x.stored).sum(axis=1)[:, None] * x.g
        sides[loss] = o - missed, x.o
    return sides


@identity(
    title="With momentum a pair's weight depends on who reads it",
    statement=r"o_t = W_0^\top \phi_t(q_t) + \sum_{j=1}^{t} c_{tj}"
    r" \left(\phi_t(q_t)^\top \phi_{j-1}(k_j)\right) g_j, \quad"
    r" c_{tj} = \sum_{i=j}^{t} \prod_{r=j+1}^{i} \mu_r",
    source="liu2026",
    citations=("liu2026",),
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
    """A masked product, in which no state is left, against the learner."""
    mu = supply.rate("mu", T)
    products = np.array(
        [
            [mu[j + first : i + 1].prod() if j <= i else 0 for j in range(T)]
            for i in range(T)
        ]
    )
    c = np.cumsum(products, axis=0) if summed else products
    c = c if reader else np.tril(np.broadcast_to(c[-1], c.shape))
    return {
        loss: (x.asked @ x.W + (x.asked @ x.stored.T * c) @ x.g, x.o)
        for loss, x in _histories(supply, T, d_k, d_v, mu).items()
    }


@identity(
    title="Gradient ascent is descent on negated values, for the dot product",
    statement=r"\ell = -v^\top z: \quad o(\eta, -v) = o(-\eta, v), \quad"
    r" W_0 = 0 \;\Rightarrow\; o(-\eta, v) = -o(\eta, v)",
    source="liu2026",
    citations=("liu2026",),
    worlds=("rationals", "floats"),
    mutants={
        "the squared error": {"loss": "half the squared error"},
        "a last layer that has learned before": {"start": 1},
    },
    at={"floats": {"T": 12}},
)
def ascent(
    supply: Supply,
    T: int,
    d_k: int,
    d_v: int,
    *,
    loss: str = "dot product",
    start: int = 0,
) -> dict[str, Sides]:
    """A linear map in exact numbers, a SwiGLU in floats; all their weights learn."""
    q, k, v = (supply.real(n, T, d) for n, d in (("q", d_k), ("k", d_k), ("v", d_v)))
    eta = supply.small("eta", T)
    kind = GatedUnit if supply.world == "floats" else Linear
    f = inner.drawn(kind, supply, d_k, 5, d_v)
    blank = Linear(start * f[0]) if kind is Linear else f._replace(W_1=start * f.W_1)

    def answers(f: Any, eta: np.ndarray, v: np.ndarray) -> np.ndarray:
        o = np.empty_like(v)
        for t in range(T):
            g = -eta[t] * _SLOPES[loss](f.read(k[t]), v[t])
            f = each(np.add, f, f.gradient(k[t], g))
            o[t] = f.read(q[t])
        return o

    return {
        "any start": (answers(f, -eta, v), answers(f, eta, -v)),
        "from zero": (answers(blank, -eta, v), -answers(blank, eta, v)),
    }


@identity(
    title="Muon gives a batch values that know of each other",
    statement=r"G = \sum_j \phi_j g_j^\top: \quad a G + b\, G G^\top G ="
    r" \sum_j \phi_j \left((a I + b\, G^\top G)\, g_j\right)^\top",
    source="ours; the step is Newton and Schulz's",
    citations=("liu2026", "jordan2024muon"),
    mutants={
        "each value knows its own token alone": {"alone": True},
        "the features are mixed instead": {"swapped": True},
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
) -> Sides:
    """A cubic step for any a and b; one of fifth degree adds a power more."""
    phi, g = supply.real("f", N, d), supply.real("g", N, d)
    a, b = supply.real("ab", 2)
    G, one = phi.T @ g, np.eye(d, dtype=int)
    if swapped:
        return a * G + b * G @ G.T @ G, phi.T @ (g @ (a * one + b * G @ G.T))
    known = [np.outer(x, y) for x, y in zip(phi, g, strict=True)] if alone else [G] * N
    values = [(a * one + b * K.T @ K) @ y for K, y in zip(known, g, strict=True)]
    return a * G + b * G @ G.T @ G, phi.T @ np.array(values)


@identity(
    title="With Muon a pair of no overlap changes another pair's answer",
    kind="counterexample",
    statement=r"\phi_1 = \begin{pmatrix} 1 \\ 0 \end{pmatrix}, \;"
    r" \phi_2 = \begin{pmatrix} 0 \\ 1 \end{pmatrix}, \;"
    r" g_1 = \begin{pmatrix} 1 \\ 0 \end{pmatrix}, \;"
    r" g_2 = \begin{pmatrix} 3 \\ 5/4 \end{pmatrix}: \quad"
    r" o(\phi_1) = \begin{pmatrix} 3/5 \\ -4/5 \end{pmatrix} \text{ instead of }"
    r" \begin{pmatrix} 1 \\ 0 \end{pmatrix}",
    source="ours",
    citations=("liu2026", "jordan2024muon"),
    worlds=("rationals", "floats"),
    mutants={
        "plain gradient descent": {"muon": False},
        "slopes of no overlap either": {"across": 0},
    },
)
def muon_outside(supply: Supply, *, muon: bool = True, across: int = 3) -> Sides:
    """The answer at phi_1 after a batch of both pairs, and after the first alone.

    Exactly, Muon takes the nearest orthogonal matrix; in floats it is the iteration.
    """
    one = supply.real("one", 1)[0] ** 0
    both = np.array([[one, 0 * one], [across * one, 5 * one / 4]])
    first = both * np.array([[1], [0]])
    if not muon:
        return both[0], first[0]
    if supply.world == "floats":
        return inner.newton_schulz(both)[0], inner.newton_schulz(first)[0]
    # the nearest rotation to a matrix of positive determinant is along G + adj(G)'
    adjugate = np.array([[both[1, 1], -both[1, 0]], [-both[0, 1], both[0, 0]]])
    turned = both + adjugate
    return turned[0] / (turned[0] @ turned[0]) ** (one / 2), first[0]
