"""Mamba (S6): every entry of the state fades at a rate of its own, set by a time step.

    S_t[c, j] = exp(A[c, j] Delta_t[j]) S_{t-1}[c, j] + k_t[c] Delta_t[j] v_t[j]
    o_t = S_t' q_t,   A <= 0,   Delta_t > 0

Each value channel j is a state space model of its own with d_k modes, input v[j] and
output o[j]; all share k and q. In the source's letters q, k and v are C, B and x. The
decay is exact for a time step, the write takes Euler's rule, as the released code has
it (`s4d` holds the input still). A decay that differs by row and by column leaves no
matrix product to compute a chunk with; Mamba-2 gave it up for one number a head.
A layer puts a convolution of width 4 and SiLU before v, makes Delta a softplus, starts
A at -1, ..., -d_k in every channel, adds a multiple of v_t to o_t and gates the sum by
SiLU; none of that is here. [gu2023mamba, algorithm 2, from memory]
"""

import numpy as np

from ctlearn.mechanism import Cell, Inputs, Limit, Mechanism, Place, chunk_forms
from ctlearn.memory import decay_between, initial_state
from ctlearn.scalars import exp
from ctlearn.shapes import checked_step


@checked_step(A=("d_k", "d_v"), delta=("T", "d_v"))
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    A: np.ndarray,
    delta: np.ndarray,
    S: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Let Delta pass, write, answer: 4 d_k d_v multiplications and the exponentials."""
    S = exp(A * delta) * S + np.outer(k, delta * v)
    return S.T @ q, S


def _chunk(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    A: np.ndarray,
    delta: np.ndarray,
    S: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Every state of the chunk from every write before it, O(C^2 d_k d_v)."""
    written = k[:, :, None] * (delta * v)[:, None]
    boundaries = len(k) + 1
    D = decay_between(A * delta[:, None], k)
    D = D.reshape(boundaries, boundaries, *S.shape)
    states = D[:, 0] * S + (D[:, 1:] * written).sum(axis=1)
    return (q[:, :, None] * states[1:]).sum(axis=1), states[-1].copy()


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, initial_state)


def _one_step_size(x: Inputs) -> Inputs:
    """The same Delta for all value channels."""
    return x | {"delta": 0 * x["delta"] + x["delta"][:, :1]}


MECHANISM = Mechanism(
    module=__name__,
    title="Mamba (S6)",
    citations=("gu2023mamba",),
    inputs={
        **{"q": "real", "k": "real", "v": "real"},
        **{"A": "log_decay [d_k, d_v]", "delta": "positive [T, d_v]"},
    },
    place=Place(
        cell=Cell(
            "linear map", "dot product", "one step", "every token", "rate by entry"
        ),
        function_class="linear map",
        objective="dot product",
        optimiser="gradient descent, step size Delta",
        schedule="every token",
        control="decay, a rate for each entry, tied to the write through Delta",
        state="d_k * d_v",
    ),
    limits=(
        Limit(
            target="mamba2",
            when="A is one number and Delta the same for all value channels",
            setting=r"A_{cj} = A, \; \Delta_{tj} = \Delta_t",
            here=lambda x: _one_step_size(x) | {"A": 0 * x["A"] + x["A"][0, 0]},
            there=lambda x: x | {"A": x["A"][0, 0], "delta": x["delta"][:, 0]},
        ),
        Limit(
            target="gated_linear_attention",
            when="A and Delta are the same for all value channels, and that one is "
            "given the log decays A Delta and the values Delta v",
            setting=r"A_{cj} = A_c, \; \Delta_{tj} = \Delta_t, \; \alpha_{tc} ="
            r" \exp(A_c \Delta_t), \; v_t^{\text{there}} = \Delta_t v_t",
            here=lambda x: _one_step_size(x) | {"A": 0 * x["A"] + x["A"][:, :1]},
            there=lambda x: {
                **{"q": x["q"], "k": x["k"], "v": x["delta"] * x["v"]},
                "log_decay": x["delta"][:, :1] * x["A"][:, 0],
            },
        ),
    ),
)
