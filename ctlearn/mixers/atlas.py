"""ATLAS: the Omega rule with momentum, whose steps Muon gives one strength.

    P_t = mu_t P_{t-1} - sum_{t-w<i<=t} eta_i grad ||M(phi(k_i)) - v_i||^2
    M_t = alpha_t M_{t-1} + beta_t muon(P_t),   o_t = M_t(phi(q_t))

mu and alpha in [0, 1], eta and beta in (0, 1). The source weighs pair i at token t by a
gamma_i^(t), here by eta_i, which is kept with the pair. `muon` are the coefficients of
Newton and Schulz's iteration, which gives all directions of P one strength: its size
cancels, and beta is the step. A bias takes its P as it is; without coefficients, all
weights do. phi, M and the gradients' place are as in the Omega rule.

On a mini-batch all gradients and momenta are known at once, and the iteration runs on
all of them together. M goes token by token, for with Muon it is no sum of gradients.
[behrouz2025atlas, eqs. 32, 33, from secondary sources; they differ on the step size]
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ctlearn import inner, windows
from ctlearn.features import identity, taylor
from ctlearn.inner import MUON, Momentum, each
from ctlearn.mechanism import Inputs, Limit, Mechanism
from ctlearn.memory import decay_between
from ctlearn.mixers.normalised_linear_attention import FeatureMap
from ctlearn.mixers.omega_rule import PLACE
from ctlearn.scalars import exp, minus_infinity
from ctlearn.shapes import checked_step
from ctlearn.windows import Replay, begin_with

Array = np.ndarray


@checked_step(log_decay=("T",))
def step(  # noqa: PLR0913 - as many letters as the update has
    q: Array,
    k: Array,
    v: Array,
    *,
    phi: FeatureMap = identity,
    window: int,
    log_decay: Any,
    log_mu: Any,
    eta: Any,
    beta: Any,
    muon: tuple = MUON,
    S: Replay,
    inner_batch: int = 1,
) -> tuple[Array, Replay]:
    """Go over the window, move, answer: 2 (w + 2) d_k d_v and Muon, if M is linear."""
    model, pairs = S.model, S.pairs.extend(k[None], v[None], np.reshape(eta, 1))
    pairs = pairs.last(window)
    gradient = pairs.gradient(model.at, phi)
    P = each(lambda p, d: exp(log_mu) * p - d, model.P, gradient)
    move = inner.of_one_strength(P, muon)
    M = each(lambda m, d: exp(log_decay) * m + beta * d, model.M, move)
    return M.read(phi(q)), Replay(model.advance(M, P, 1, inner_batch), pairs)


def block(  # noqa: PLR0913 - as many letters as the update has
    q: Array,
    k: Array,
    v: Array,
    *,
    phi: FeatureMap = identity,
    window: int,
    log_decay: Array,
    log_mu: Array,
    eta: Array,
    beta: Array,
    muon: tuple = MUON,
    S: Replay,
    inner_batch: int = 1,
) -> tuple[Array, Replay]:
    """Some tokens of one mini-batch: all their gradients, momenta and moves at once."""
    model, pairs = S.model, S.pairs.extend(k, v, eta)
    x, g = pairs.slopes(model.at, phi)
    m = decay_between(log_mu, k)[..., 0]
    G = m[1:, 1:] @ pairs.windows(len(k), window)
    P = inner.after(model.at, x, g, G, [(m[1:, 0], model.P)])
    move = inner.of_one_strength(P, muon)
    M, o, alpha, asked = model.M, np.empty_like(v), exp(log_decay), phi(q)
    for i in range(len(k)):
        M = each(lambda m, d, i=i: alpha[i] * m + beta[i] * d[i], M, move)
        o[i] = M.read(asked[i])
    P = each(lambda p: p[-1].copy(), P)
    model = model.advance(M, P, len(k), inner_batch)
    return o, Replay(model, pairs.last(window))


recurrent, chunkwise = inner.inner_forms(step, block, begin_with(Momentum))
INPUTS = {"q": "real", "k": "unit", "v": "real", "log_decay": "log_decay [T]"}
INPUTS |= {"log_mu": "log_decay [T]", "eta": "small", "beta": "small"}
CONSTANTS = {"window": 4, "inner_batch": 3}
PLACE = replace(
    PLACE,
    cell=replace(PLACE.cell, optimiser="momentum"),
    optimiser="gradient descent with momentum and Muon, step sizes beta",
    state=PLACE.state.replace("2", "3"),
)


def _without_momentum(x: Inputs) -> Inputs:
    none = 0 * x["log_mu"] + minus_infinity(x["log_mu"])
    return x | {"beta": x["beta"] ** 0, "log_mu": none}


def _kept(x: Inputs, *names: str, **others: Any) -> Inputs:
    return {name: x[name] for name in ("q", "k", "v", "log_decay", *names)} | others


MECHANISM = Mechanism(
    module=__name__,
    title="ATLAS: the Omega rule with Muon",
    citations=("behrouz2025atlas",),
    inputs=INPUTS | {"beta": "rate"},
    constants=CONSTANTS | {"muon": ()},
    place=PLACE,
    chapter="13_deep_memories",
    opening=windows.empty_window_first,
    symbolic_tokens=3,
    limits=(
        Limit(
            target="omega_rule",
            when="beta = 1, without momentum or Muon, and that one has eta for beta",
            setting=r"\mu_t = 0, \; \beta_t = 1, \; \beta_t^\prime = \eta_t",
            here=_without_momentum,
            there=lambda x: _kept(x, *CONSTANTS, beta=x["eta"]),
        ),
        Limit(
            target="titans",
            when="w = 1 and beta = 1, without Muon, and that one has eta for beta",
            setting=r"w = 1, \; \beta_t = 1, \; \beta_t^\prime = \eta_t",
            here=lambda x: x | {"window": 1, "beta": x["beta"] ** 0},
            there=lambda x: _kept(x, "log_mu", "inner_batch", beta=x["eta"]),
        ),
    ),
    variants={
        "with Muon on polynomial features": {
            "constants": {"window": 4, "phi": taylor},
            "limits": (),
            "place": PLACE.of("linear map of features", "(1 + d_k + d_k**2) * d_v"),
            "exempt": inner.NOT_RATIONAL,
        },
        "a perceptron": windows.perceptron_variant(Momentum)
        | {"inputs": INPUTS, "place": PLACE.of("network", "7 * (d_k + d_v + 1) + d_v")},
    },
)
