"""Kernelised delta rule (KLMS): the delta rule in the space of a kernel's functions.

    f_t = f_{t-1} + kappa(k_t, .) u_t,   u_t = beta_t (v_t - f_{t-1}(k_t))
    o_t = f_t(q_t) = sum_{j<=t} kappa(k_j, q_t) u_j

One step of gradient descent on ||f(k_t) - v_t||^2 / 2 in the kernel's space, for each
token once. f is linear in features that need not be written down: what is kept is what
was seen, each key with the u that was added there. So all u come of one masked solve,

    (I + tril(Diag(beta) kappa(K, K), -1)) U = Diag(beta) V

where kernel ridge attention, with the same kernel, has a system for each token: this is
one pass over the tokens, that the solution. The error at k_t is multiplied by
1 - beta_t kappa(k_t, k_t): with beta in [0, 2 / kappa(k, k)] no step makes f's distance
to a function that has all the values any larger. kappa(a, b) = exp(a'b) by default, as
in kernel ridge attention, for which kappa(k, k) is e at unit keys.
[liu2008klms, from memory, whose step size is constant; wang2025ttr on kernels]
"""

from typing import Any, NamedTuple

import numpy as np

from ctlearn.features import orthonormal
from ctlearn.mechanism import Cell, Inputs, Limit, Mechanism, Place, chunk_forms
from ctlearn.memory import copied_state, solve_unit_lower
from ctlearn.mixers.kernel_ridge_attention import Kernel, exponential
from ctlearn.shapes import checked_step


class Expansion(NamedTuple):
    """The function f as a sum over what was seen: keys K [t, d_k], and U [t, d_v]."""

    K: np.ndarray
    U: np.ndarray

    def read(self, x: np.ndarray, kernel: Kernel) -> np.ndarray:
        """Answer [n, d_v] to the rows of x [n, d_k]."""
        return kernel(x, self.K) @ self.U

    def extend(self, k: np.ndarray, u: np.ndarray) -> "Expansion":
        """The function with u [C, d_v] added at keys k [C, d_k]."""
        return Expansion(np.concatenate([self.K, k]), np.concatenate([self.U, u]))


@checked_step
def step(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    kernel: Kernel = exponential,
    beta: Any,
    S: Expansion,
) -> tuple[np.ndarray, Expansion]:
    """Read at the key, compare, add the error there, read: 2 t (d_k + d_v)."""
    u = beta * (v - S.read(k[None], kernel))
    S = S.extend(k[None], u)
    return S.read(q[None], kernel)[0], S


def _chunk(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    kernel: Kernel = exponential,
    beta: np.ndarray,
    S: Expansion,
) -> tuple[np.ndarray, Expansion]:
    """The errors of C tokens by one masked solve, their answers by a masked product."""
    L = np.tril(beta[:, None] * kernel(k, k), -1)
    u = solve_unit_lower(L, beta[:, None] * (v - S.read(k, kernel)))
    seen, S = len(S.K), S.extend(k, u)
    return np.tril(kernel(q, S.K), seen) @ S.U, S


def _nothing(k: np.ndarray, v: np.ndarray, S: Expansion | None) -> Expansion:
    """The function that is zero, or a copy of S."""
    if S is None:
        return Expansion(k[:0].copy(), v[:0].copy())
    return copied_state(S, Expansion, k, v, K=("t", "d_k"), U=("t", "d_v"))


recurrent, parallel, chunkwise = chunk_forms(step, _chunk, _nothing)


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The dot product of each row of a with each of b."""
    return a @ b.T


def _apart(x: Inputs) -> Inputs:
    """Keys of which none is like another, and one step size for all."""
    alike = {"k": orthonormal(x["k"]), "beta": 0 * x["beta"] + x["beta"][:1]}
    return x | alike | {"kernel": _dot}


# for unit keys a step of this size shrinks the error at them under the kernel's e
INPUTS = {"q": "unit", "k": "unit", "v": "real", "beta": "small"}
MECHANISM = Mechanism(
    module=__name__,
    title="Kernelised delta rule (KLMS)",
    citations=("liu2008klms", "wang2025ttr"),
    inputs=INPUTS,
    place=Place(
        cell=Cell(
            "kernel expansion", "squared error", "one step", "every token", "none"
        ),
        function_class="the kernel's function space",
        objective="half the squared error",
        optimiser="stochastic gradient descent, step size beta",
        schedule="every token, one sample",
        control="none: the cache grows",
        state="T * (d_k + d_v)",
    ),
    limits=(
        Limit(
            target="delta_rule",
            when="the kernel is the dot product",
            setting=r"\kappa(a, b) = a^\top b",
            here=lambda x: x | {"kernel": _dot},
            there=lambda x: {name: x[name] for name in ("q", "k", "v", "beta")},
        ),
        Limit(
            target="kernel_ridge_attention",
            whole=True,
            worlds=("rationals", "floats"),
            when="no key is like another and beta = 1 / (kappa(k, k) + lambda)",
            setting=r"\kappa(k_i, k_j) = 0 \; (i \ne j), \;"
            r" \beta_i = 1 / (\kappa(k_i, k_i) + \lambda)",
            here=_apart,
            there=lambda x: {
                **{name: x[name] for name in ("q", "k", "v", "kernel")},
                "ridge": 1 / x["beta"][0] - 1,
            },
        ),
    ),
    variants={
        "the dot product": {
            "inputs": INPUTS | {"beta": "rate"},
            "constants": {"kernel": _dot},
        },
    },
)
