"""Preconditioned Kimi delta attention: its rates of forgetting, and a scaled write.

    A_t = alpha'_t A_{t-1} + beta'_t k_t * k_t                      [d_k]
    r_t = log(A_t + 1e-6) - c,   P_t = x^{-r_t / (1 + |r_t|)}   in (1 / x, x)
    F_t = Diag(alpha_t) S_{t-1},   alpha_t in [0, 1]^{d_k}
    S_t = F_t + beta_t (P_t * k_t) (v_t - F_t' k_t)',   o_t = S_t' q_t

The preconditioned gated delta rule with a rate for each key channel: the two share all
else. A has one rate for the head, alpha', and so does not fade with the channels that
it scales. A P that stayed the same would be a change of coordinates, Kimi delta
attention on keys and queries times sqrt(P): what is new is that P moves. x is 1.5 and
c is -0.2 in the released code; alpha' is in [0, 1], beta and beta' in (0, 1).
[tumma2026, as its code in flash-linear-attention has it; kimi2025 on the rates]
"""

import inspect
from dataclasses import replace

from ctlearn.mechanism import Limit, Mechanism, chunk_forms
from ctlearn.mixers import preconditioned_delta_rule
from ctlearn.mixers.preconditioned_delta_rule import chunk, initial_state
from ctlearn.shapes import checked_step

# by how many rates the state fades is all the same to the rest of the step
step = checked_step(log_decay=("T", "d_k"))(
    inspect.unwrap(preconditioned_delta_rule.step)
)
# and yet a check that names one of the forms is to be found under this mechanism
step.__module__ = __name__
recurrent, parallel, chunkwise = chunk_forms(step, chunk, initial_state)


_ONE_RATE = preconditioned_delta_rule.MECHANISM
MECHANISM = Mechanism(
    module=__name__,
    title="Preconditioned Kimi delta attention",
    citations=("tumma2026", "kimi2025"),
    inputs={**_ONE_RATE.inputs, "log_decay": "log_decay"},
    of_matrix=_ONE_RATE.of_matrix,
    place=replace(
        _ONE_RATE.place,
        cell=replace(_ONE_RATE.place.cell, control="rate by channel"),
        control="decay, one rate for each key channel, from the data",
    ),
    symbolic_tokens=_ONE_RATE.symbolic_tokens,
    limits=(
        Limit(
            target="kimi_delta_attention",
            when="the spread is 1",
            setting=r"P_t = 1",
            here=lambda x: x | {"spread": x["spread"] ** 0},
            there=lambda x: {n: x[n] for n in ("q", "k", "v", "log_decay", "beta")},
        ),
        Limit(
            target="preconditioned_delta_rule",
            when="alpha is the same in every channel",
            setting=r"\alpha_{t,c} = \alpha_t",
            # powers of rationals with logs in them take far longer than symbols
            worlds=("symbols", "floats"),
            here=lambda x: (
                x | {"log_decay": 0 * x["log_decay"] + x["log_decay"][:, :1]}
            ),
            there=lambda x: x | {"log_decay": x["log_decay"][:, 0]},
        ),
    ),
)
