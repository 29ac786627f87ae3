"""TTT-Linear (test-time training of a linear map): the state is a model in training.

    l_j(f) = ||f(k_j) - v_j||^2 / 2       how far the model f is from token j
    f_i = f_0 - r_i sum_{j<=i} beta_j grad l_j(f_0),   o_i = f_i(q_i)

Token i is the i-th of its mini-batch of `inner_batch` tokens, and every gradient of a
mini-batch is taken at f_0, where the mini-batch started: update, then apply. The last
f_i starts the next mini-batch. `inner_batch` changes the result; a chunk's size never.

The paper's plain form is f(x) = W'x and r_i = 1; it prints ||f - v||^2, and so its step
is half of this beta. The released layer has f(x) = x + LN(W'x + b), with W_0 and b_0
learned (they come in with S, an `Affine`), `norm` = the gain and shift of LN, beta_j =
sigmoid(...) / d_k, and `reader_rate` r_i = max(1/i + learned, 0), chosen by the token
that reads: an average where the paper has a sum. Its queries and keys turn (RoPE) by
the position in the mini-batch. [sun2024ttt; the layer as in its released code]
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ctlearn import inner
from ctlearn.inner import Affine, Linear, Perceptron, Training, each
from ctlearn.mechanism import Cell, Limit, Mechanism, Place
from ctlearn.shapes import checked_step


@checked_step
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    beta: Any,
    reader_rate: np.ndarray | None = None,
    norm: np.ndarray | None = None,
    S: Training,
    inner_batch: int = 16,
) -> tuple[np.ndarray, Training]:
    """Learn from one token, then answer: 5 d_k d_v multiplications if f is linear."""
    g = inner.slope(S.f.read(k), k, v, norm)
    total = each(lambda w, d: w + beta * d, S.total, S.f.gradient(k, g))
    r = 1 if reader_rate is None else reader_rate[int(S.seen)]
    f = each(lambda w, d: w - r * d, S.f, total)
    return inner.answer(f.read(q), q, norm), S.advance(total, f, 1, inner_batch)


def block(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    beta: np.ndarray,
    reader_rate: np.ndarray | None = None,
    norm: np.ndarray | None = None,
    S: Training,
    inner_batch: int = 16,
) -> tuple[np.ndarray, Training]:
    """Some tokens of one mini-batch at once, in the dual form: no f_i but the last."""
    g = inner.slope(S.f.read(k), k, v, norm)
    r = np.ones(inner_batch, dtype=k.dtype) if reader_rate is None else reader_rate
    r = r[int(S.seen) :][: len(k)]
    steps = np.tril(np.multiply.outer(r, beta))
    z = S.f.read_after(q, k, g, steps, [(1, S.f), (-r, S.total)])
    total = each(np.add, S.total, S.f.gradient(k, beta[:, None] * g))
    f = each(lambda w, d: w - r[-1] * d, S.f, total)
    return inner.answer(z, q, norm), S.advance(total, f, len(k), inner_batch)


def begin(
    k: np.ndarray,
    v: np.ndarray,
    S: Training | None,
    inner_batch: int,
    reader_rate: np.ndarray | None,
    norm: np.ndarray | None,
) -> Training:
    """A copy of S, or a linear learner that knows nothing."""
    inner.check_norm(norm, k, v)
    if reader_rate is not None and len(reader_rate) != inner_batch:
        raise ValueError(
            f"reader_rate: expected one for each of inner_batch = {inner_batch} tokens,"
            f" got {len(reader_rate)}"
        )
    return inner.begun(Training, k, v, S, (Linear, Affine, Perceptron))


recurrent, chunkwise = inner.inner_forms(step, block, begin)


def averaging_rates(inner_batch: int) -> np.ndarray:
    """1, 1/2, ..., 1/b: the released layer's `reader_rate` before it learns."""
    return 1 / np.arange(1.0, inner_batch + 1)


INPUTS = {"q": "real", "k": "unit", "v": "real", "beta": "rate"}
PLACE = Place(
    cell=Cell("linear map", "squared error", "one step", "mini-batch", "none"),
    function_class="linear map; the layer adds bias, norm and residual",
    objective="half the squared error",
    optimiser="gradient descent, step size beta, from a learned start",
    schedule="every mini-batch, at its start",
    control="none",
    state="2 * d_k * d_v + 1",
)
MECHANISM = Mechanism(
    module=__name__,
    title="TTT-Linear (test-time training of a linear map)",
    citations=("sun2024ttt",),
    chapter="12_ttt_layers",
    inputs=INPUTS,
    constants={"inner_batch": 3},
    of_matrix=lambda S: Training.start(Linear(S)),
    place=PLACE,
    limits=(
        Limit(
            target="delta_rule",
            when="f is linear and the mini-batch is one token",
            setting=r"f(x) = W^\top x, \; W_0 = 0, \; b = 1",
            here=lambda x: x | {"inner_batch": 1},
            there=lambda x: {name: x[name] for name in ("q", "k", "v", "beta")},
        ),
        Limit(
            target="linear_attention",
            when="f is linear, the mini-batch is all tokens and beta = 1",
            setting=r"f(x) = W^\top x, \; W_0 = 0, \; b = T, \; \beta_i = 1",
            here=lambda x: x | {"inner_batch": len(x["k"]), "beta": x["beta"] ** 0},
            there=lambda x: {name: x[name] for name in ("q", "k", "v")},
        ),
    ),
    variants={
        "the released layer": {
            "inputs": INPUTS
            | {
                "v": "real [T, d_k]",
                "reader_rate": "rate [3]",
                "norm": "real [2, d_k]",
            },
            "start": lambda supply, d, _: Training.start(
                Affine(supply.real("W", d, d), supply.real("b", d))
            ),
            "place": replace(PLACE, state="2 * (d_k * d_k + d_k) + 1"),
            "exempt": inner.TOO_MANY_SYMBOLS,
        },
    },
)
