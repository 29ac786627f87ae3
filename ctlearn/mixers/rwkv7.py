"""RWKV-7: erase at a removal key, and write at another key.

    S_t = Diag(alpha_t) S_{t-1} - (a_t * kappa_t) (S_{t-1}' kappa_t)' + k_t v_t'
    o_t = S_t' q_t

kappa_t is a unit row, a_t in (0, 1)^{d_k} says how much of the answer at kappa each key
channel gives up, alpha_t in [0, 1]^{d_k}. The answer is read before forgetting, so
alpha = 0 alone does not begin a new document; with a = 0 there too it does. Two
write directions, a * kappa and k, make it the family's "diagonal plus low rank" cousin:
a stands on the side that writes the erasure, where gated delta rule 2 has b on the
side that reads. In the paper q, alpha and k are r, w and k-tilde = k (1 + (a - 1) k_a),
and alpha = exp(-exp(-1/2) sigmoid(.)) > 0.545; a layer adds a bonus of the token's own
value and normalises by group. [peng2025goose; the kernels call -kappa a, and a kappa b]
"""

import numpy as np

from ctlearn.mechanism import Cell, Inputs, Limit, Mechanism, Place, chunk_forms
from ctlearn.memory import decay_between, initial_state, pairs, solve_unit_lower
from ctlearn.scalars import exp
from ctlearn.shapes import checked_step

Array = np.ndarray


@checked_step(log_decay=("T", "d_k"))
def step(
    q: Array, k: Array, v: Array, *, log_decay: Array, kappa: Array, a: Array, S: Array
) -> tuple[Array, Array]:
    """Read at kappa, forget, give up, write, answer: 5 d_k d_v multiplications."""
    old = S.T @ kappa
    S = exp(log_decay)[:, None] * S - np.outer(a * kappa, old) + np.outer(k, v)
    return S.T @ q, S


def _chunk(
    q: Array, k: Array, v: Array, *, log_decay: Array, kappa: Array, a: Array, S: Array
) -> tuple[Array, Array]:
    """One chunk: the old answers solve a triangular system, the rest are products."""
    D = decay_between(log_decay, k)
    after, before, given_up = D[1:], D[:-1], a * kappa
    L = np.tril(pairs(kappa, given_up, before[:, 1:]), -1)
    written = np.tril(pairs(kappa, k, before[:, 1:]), -1) @ v
    old = solve_unit_lower(L, (before[:, 0] * kappa) @ S + written)
    o = (after[:, 0] * q) @ S + pairs(q, k, after[:, 1:]) @ v
    o = o - pairs(q, given_up, after[:, 1:]) @ old
    left = D[-1, 1:]
    S = D[-1, 0][:, None] * S + (left * k).T @ v - (left * given_up).T @ old
    return o, S


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, initial_state)


def _opening(x: Inputs) -> Inputs:
    """Give up nothing of the old answer: nothing of it is left to be taken from."""
    a = x["a"].copy()
    a[:1] = 0
    return x | {"a": a}


def _one_direction(x: Inputs) -> Inputs:
    """Read, erase and write at kappa, by one rate and one decay a token."""
    flat = {name: 0 * x[name] + x[name][:, :1] for name in ("log_decay", "a")}
    return x | flat | {"k": flat["a"] * x["kappa"]}


MECHANISM = Mechanism(
    module=__name__,
    title="RWKV-7",
    citations=("peng2025goose",),
    inputs={
        "q": "real",
        "k": "real",
        "v": "real",
        "log_decay": "log_decay",
        "kappa": "unit",
        "a": "rate",
    },
    chapter="09_gated_delta_rules",
    place=Place(
        cell=Cell(
            "linear map", "squared error", "one step", "every token", "rate by channel"
        ),
        function_class="linear map",
        objective="squared error, the answer read and given up at kappa",
        optimiser="stochastic gradient descent, a rate for each key channel",
        schedule="every token, one sample, before forgetting",
        control="decay and giving up, one rate each for each key channel",
        state="d_k * d_v",
    ),
    symbolic_tokens=3,
    opening=_opening,
    limits=(
        Limit(
            target="comba",
            when="alpha and a each hold one number and k = a kappa, and that one "
            "reads at kappa and corrects nothing",
            setting=r"\alpha_{t,c} = \alpha_t, \; a_{t,c} = \beta_t, \; k_t = \beta_t"
            r" \hat\kappa_t, \; p_t = k_t^{\text{there}} = \hat\kappa_t, \; \delta = 0",
            here=_one_direction,
            there=lambda x: {
                **{"q": x["q"], "k": x["kappa"], "v": x["v"], "p": x["kappa"]},
                "log_decay": x["log_decay"][:, 0],
                "beta": x["a"][:, 0],
                "correction": 0,
            },
        ),
    ),
)
