"""TTT-MLP (test-time training of a perceptron): a state of two layers with a gelu.

    f(x) = W_2' gelu(W_1' x + b_1) + b_2
    f_i = f_0 - r_i sum_{j<=i} beta_j grad l_j(f_0),   o_i = f_i(q_i)

All but f is TTT-Linear's: the loss, the mini-batch at whose start every gradient is
taken, the reader's rate r_i and, in the released layer, the norm and the residual
f(x) = x + LN(...). The hidden layer is four times as wide as a key. In the dual form
the second layer's keys are the hidden units of the tokens at f_0, and its queries are
what the first layer, as token i sees it, makes of q_i:

    h_j = gelu(x_j),   x_j = W_1' k_j + b_1
    g_j = the loss's slope at the second layer's output,  g'_j = (W_2 g_j) * gelu'(x_j)
    y_i = gelu(W_1' q_i + b_1 - r_i sum_{j<=i} beta_j (k_j'q_i + 1) g'_j)
    o_i = W_2' y_i + b_2 - r_i sum_{j<=i} beta_j (h_j'y_i + 1) g_j

The start is learned and comes in with S. Zeros, which stand in if S is None, teach b_2
alone. [sun2024ttt; the released base step size is a tenth of TTT-Linear's]
"""

from dataclasses import replace

import numpy as np

from ctlearn import inner
from ctlearn.inner import Perceptron, Training
from ctlearn.mechanism import Cell, Mechanism, Place
from ctlearn.mixers import ttt_linear
from ctlearn.supplies import Supply

step = ttt_linear.step


def begin(
    k: np.ndarray,
    v: np.ndarray,
    S: Training | None,
    inner_batch: int,
    reader_rate: np.ndarray | None,
    norm: np.ndarray | None,
) -> Training:
    """A copy of S, or a perceptron of zeros."""
    S = (
        Training.start(inner.zeros(Perceptron, k, v, 4 * k.shape[1]))
        if S is None
        else S
    )
    S = inner.begun(Training, k, v, S, (Perceptron,))
    return ttt_linear.begin(k, v, S, inner_batch, reader_rate, norm)


recurrent, chunkwise = inner.inner_forms(step, ttt_linear.block, begin)


def drawn_start(supply: Supply, d_k: int, d_v: int) -> Training:
    """A perceptron of small random weights, about to read its first token."""
    return Training.start(inner.drawn(Perceptron, supply, d_k, 4 * d_k, d_v))


PLACE = Place(
    cell=Cell("network", "squared error", "one step", "mini-batch", "none"),
    function_class="two layers; the released one adds norm and residual",
    objective="half the squared error",
    optimiser="gradient descent, step size beta, from a learned start",
    schedule="every mini-batch, at its start",
    control="none",
    state="2 * (4 * d_k * (d_k + d_v + 1) + d_v) + 1",
)
MECHANISM = Mechanism(
    module=__name__,
    title="TTT-MLP (test-time training of a perceptron)",
    citations=("sun2024ttt",),
    chapter="12_ttt_layers",
    inputs={"q": "real", "k": "unit", "v": "real", "beta": "small"},
    constants={"inner_batch": 3},
    place=PLACE,
    start=drawn_start,
    exempt=inner.TOO_MANY_SYMBOLS,
    variants={
        "the released layer": {
            "inputs": {
                "q": "real",
                "k": "unit",
                "v": "real [T, d_k]",
                "beta": "small",
                "reader_rate": "rate [3]",
                "norm": "real [2, d_k]",
            },
            "start": lambda supply, d, _: drawn_start(supply, d, d),
            "place": replace(PLACE, state="2 * (4 * d_k * (2 * d_k + 1) + d_k) + 1"),
        },
    },
)
