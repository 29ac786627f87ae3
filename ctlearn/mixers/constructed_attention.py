"""Linear self-attention constructed as a gradient step: the context, learned at once.

    S_t = W_0 + sum_{j<=t} beta_j k_j (v_j - W_0'k_j)',   o_t = S_t' q_t

One step of gradient descent from W_0 on sum_j beta_j ||W'k_j - v_j||^2 / 2, and the new
map is read. Every error is taken at W_0, so nothing is sequential. The paper has one
context of N pairs and beta = eta / N; here each prefix is a context and N stays as it
is. `None` for S starts from W_0.

In the paper the step is a layer on tokens e = (x, y), for x = k, y = v:

    e_j <- e_j + P sum_i (W_V e_i) (W_K e_i)' W_Q e_j       sum over the context

    W_K = W_Q = [I 0; 0 0],  W_V = [0 0; W_0' -I],  P = (eta / N) I

moves each y_j to y_j - dW'x_j, dW being the step. A query enters with -W_0'x for y and
leaves with minus the prediction (W_0 + dW)'x. GD++ has W_V = [I 0; W_0' -I] and
P = Diag(-gamma I, (eta / N) I), and so moves x_j to (I - gamma X'X) x_j too; without
gamma its P W_V, all that counts, is that above. The paper's W_0 and X are transposed.
[vonoswald2023, eqs. 2-4, proposition 1 and appendices A.1 and A.10]
"""

from typing import Any, NamedTuple

import numpy as np

from ctlearn import memory
from ctlearn.features import orthonormal
from ctlearn.inner import Linear, Training
from ctlearn.mechanism import Cell, Inputs, Limit, Mechanism, Place, Write, chunk_forms
from ctlearn.shapes import checked_step


@checked_step
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    W_0: np.ndarray,
    beta: Any,
    S: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Compare with the start, write the error, answer: 3 d_k d_v multiplications."""
    S = S + beta * np.outer(k, v - W_0.T @ k)
    return S.T @ q, S


def write(k: np.ndarray, v: np.ndarray, *, W_0: np.ndarray, beta: np.ndarray) -> Write:
    """Write what W_0 gets wrong, erase nothing."""
    return Write(k=k, z=beta[:, None] * (v - k @ W_0))


def _chunk(q: Any, k: Any, v: Any, *, W_0: Any, beta: Any, S: Any) -> Any:
    """C errors at once, and the one memory's parallel plan."""
    return memory.parallel(q, **write(k, v, W_0=W_0, beta=beta), S=S)


def _initial_state(k: Any, v: Any, S: Any, W_0: np.ndarray) -> np.ndarray:
    return memory.initial_state(k, v, W_0 if S is None else S)


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, _initial_state)


class Layer(NamedTuple):
    """A linear self-attention layer of one head: its four matrices, each [d, d]."""

    W_K: np.ndarray
    W_Q: np.ndarray
    W_V: np.ndarray
    P: np.ndarray

    def run(self, tokens: np.ndarray, context: np.ndarray) -> np.ndarray:
        """The tokens [n, d] after the layer, which attend to the context [N, d]."""
        q, k, v = tokens @ self.W_Q.T, context @ self.W_K.T, context @ self.W_V.T
        return tokens + (q @ k.T) @ v @ self.P.T


def constructed(W_0: np.ndarray, eta: Any, N: int, gamma: Any = 0) -> Layer:
    """The layer that takes the step of size eta on N pairs; with gamma that of GD++."""
    d_k, d_v = W_0.shape
    I_x, I_y = np.eye(d_k, dtype=W_0.dtype), np.eye(d_v, dtype=W_0.dtype)
    zeros = np.zeros_like(W_0)
    W_K = np.block([[I_x, zeros], [zeros.T, 0 * I_y]])
    W_V = np.block([[I_x, zeros], [W_0.T, -I_y]])
    P = np.block([[-gamma * I_x, zeros], [zeros.T, eta / N * I_y]])
    return Layer(W_K, W_K.copy(), W_V, P)


def predict(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, W_0: np.ndarray, eta: Any
) -> np.ndarray:
    """What the layer answers to queries q [n, d_k], of which none is in the context."""
    context = np.concatenate([k, v], axis=1)
    asking = np.concatenate([q, -q @ W_0], axis=1)
    asked = constructed(W_0, eta, len(k)).run(asking, context)
    return -asked[:, q.shape[1] :]


def _from_the_start(x: Inputs) -> Inputs:
    return {name: x[name] for name in ("q", "k", "v", "beta")} | {"S": x["W_0"]}


MECHANISM = Mechanism(
    module=__name__,
    title="Linear self-attention constructed as a gradient step",
    citations=("vonoswald2023",),
    inputs={"q": "real", "k": "real", "v": "real", "W_0": "real", "beta": "rate"},
    place=Place(
        cell=Cell("linear map", "squared error", "one step", "whole history", "none"),
        function_class="linear map",
        objective="half the squared error",
        optimiser="gradient descent, one step from a learned start",
        schedule="all pairs of the context at once, at the start",
        control="none",
        state="d_k * d_v",
    ),
    chapter="10_a_gradient_step_in_the_tokens",
    limits=(
        Limit(
            target="linear_attention",
            when="the other starts from W_0 and is given beta (v - W_0'k)",
            setting=r"S_0 = W_0, \; v_t^\prime = \beta_t (v_t - W_0^\top k_t)",
            here=None,
            there=lambda x: {
                **{"q": x["q"], "k": x["k"], "S": x["W_0"]},
                "v": x["beta"][:, None] * (x["v"] - x["k"] @ x["W_0"]),
            },
        ),
        Limit(
            target="ttt_linear",
            when="the other starts from W_0 and takes all tokens as one mini-batch",
            setting=r"f(x) = W^\top x, \; b \ge T",
            here=None,
            there=lambda x: (
                _from_the_start(x)
                | {"S": Training.start(Linear(x["W_0"])), "inner_batch": len(x["q"])}
            ),
        ),
        Limit(
            target="delta_rule",
            whole=True,
            when="the keys are orthogonal and the other starts from W_0",
            setting=r"k_i^\top k_j = 0 \; (i \ne j)",
            here=lambda x: x | {"k": orthonormal(x["k"])},
            there=_from_the_start,
        ),
    ),
)
