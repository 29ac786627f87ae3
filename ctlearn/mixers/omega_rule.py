"""The Omega rule: at every token, one step of descent on the last w pairs, not on one.

    M_t = alpha_t M_{t-1} - sum_{t-w<i<=t} beta_i grad ||M_{t-1}(phi(k_i)) - v_i||^2
    o_t = M_t(phi(q_t))

alpha in [0, 1], beta in (0, 1). The source weighs pair i at token t by a gamma_i^(t),
here by beta_i, which is kept with the pair. phi is the identity unless given: OmegaNet
has polynomial features, as `taylor`. M is a `Linear`, or a `Perceptron` given in S.

Gradients are taken at M_{t-1} if `inner_batch` is 1, and as in training by chunks at
the start of the mini-batch otherwise, those of older pairs in the window too. Then

    M_i = p_i M_0 - 2 sum_j G_ij grad_j,   G = A B Diag(beta)

with grad_j that of the halved loss, A_ir the product of the alphas after token r up to
i, p_i that of all up to i, and B_rj = 1 if pair j is in the window of token r, else 0:
the decay times a banded mask. [behrouz2025atlas, eqs. 9 and 10, from secondary sources;
a later paper is reported to print the update without grad and with M_t on the right]
"""

from typing import Any

import numpy as np

from ctlearn import inner, windows
from ctlearn.features import identity, taylor
from ctlearn.mechanism import Cell, Inputs, Limit, Mechanism, Place
from ctlearn.memory import decay_between
from ctlearn.mixers.normalised_linear_attention import FeatureMap
from ctlearn.mixers.titans import as_gated_delta_rule
from ctlearn.objectives import Fading
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
    beta: Any,
    S: Replay,
    inner_batch: int = 1,
) -> tuple[Array, Replay]:
    """Go over the window, answer: 2 (w + 1) d_k d_v if M is linear in the key."""
    model, pairs = S.model, S.pairs.extend(k[None], v[None], np.reshape(beta, 1))
    pairs = pairs.last(window)
    model = model.after(exp(log_decay), pairs.gradient(model.at, phi), 1, inner_batch)
    return model.M.read(phi(q)), Replay(model, pairs)


def block(  # noqa: PLR0913 - as many letters as the update has
    q: Array,
    k: Array,
    v: Array,
    *,
    phi: FeatureMap = identity,
    window: int,
    log_decay: Array,
    beta: Array,
    S: Replay,
    inner_batch: int = 1,
) -> tuple[Array, Replay]:
    """Some tokens of one mini-batch at once: p and G instead of each M_i."""
    model, pairs = S.model, S.pairs.extend(k, v, beta)
    x, g = pairs.slopes(model.at, phi)
    a = decay_between(log_decay, k)[..., 0]
    p, G = a[1:, 0], a[1:, 1:] @ pairs.windows(len(k), window)
    o = model.at.read_after(phi(q), x, g, G, [(p, model.M)])
    gradient = model.at.gradient(x, G[-1][:, None] * g)
    model = model.after(p[-1], gradient, len(k), inner_batch)
    return o, Replay(model, pairs.last(window))


recurrent, chunkwise = inner.inner_forms(step, block, begin_with(Fading))
ONE_PAIR = {"window": 1, "inner_batch": 1}


def _in_titans(x: Inputs) -> Inputs:
    none = 0 * x["log_decay"] + minus_infinity(x["log_decay"])
    return {n: a for n, a in x.items() if n != "window"} | {"log_mu": none}


PLACE = Place(
    cell=Cell("linear map", "squared error", "one step", "window", "one rate"),
    function_class="linear map, or a perceptron, of keys or their features",
    objective="squared error, summed over the window",
    optimiser="gradient descent, step sizes beta",
    schedule="every token, on the last w pairs, at the mini-batch's start",
    control="weight decay, one rate for the head, from the data",
    state="2 * d_k * d_v + 1 + min(T, window) * (d_k + d_v + 1)",
)
MECHANISM = Mechanism(
    module=__name__,
    title="The Omega rule",
    citations=("behrouz2025atlas",),
    inputs={"q": "real", "k": "unit", "v": "real"}
    | {"log_decay": "log_decay [T]", "beta": "small"},
    constants={"window": 4, "inner_batch": 3},
    of_matrix=lambda S: Replay.start(Fading.start(inner.Linear(S)), *S.shape),
    place=PLACE,
    chapter="13_deep_memories",
    opening=windows.empty_window_first,
    limits=(
        Limit(
            target="titans",
            when="w = 1, and that one has no momentum",
            setting=r"w = 1, \; \mu_t = 0",
            here=lambda x: x | {"window": 1},
            there=_in_titans,
        ),
        Limit(
            target="delta_rule",
            when="M is linear, w = 1, nothing fades, and that one has 2 beta",
            setting=r"w = b = \alpha_t = 1, \; \beta_t^\prime = 2 \beta_t",
            here=lambda x: x | ONE_PAIR | {"log_decay": 0 * x["log_decay"]},
            there=lambda x: {n: x[n] for n in "qkv"} | {"beta": 2 * x["beta"]},
        ),
        Limit(
            target="gated_delta_rule",
            when="M is linear, w = 1, and that one has 2 beta / alpha and alpha v",
            setting=r"w = b = 1, \; \beta_t^\prime = 2 \beta_t / \alpha_t, \; "
            r"v_t^\prime = \alpha_t v_t",
            here=lambda x: x | ONE_PAIR,
            there=as_gated_delta_rule,
        ),
    ),
    variants={
        "OmegaNet": {
            "constants": {"window": 4, "inner_batch": 1, "phi": taylor},
            "limits": (),
            "place": PLACE.of("linear map of features", "(1 + d_k + d_k**2) * d_v"),
            "exempt": inner.TOO_MANY_SYMBOLS,
        },
        "a perceptron": windows.perceptron_variant(Fading)
        | {"place": PLACE.of("network", "7 * (d_k + d_v + 1) + d_v")},
    },
)
