"""Momentum delta rule in torch: one triangular system a chunk, for two matrices.

    q, k, p [B, T, H, d_k], v, o [B, T, H, d_v],
    log_decay, log_mu, eta, beta [B, T, H]

What is computed is stated in `ctlearn.mixers.momentum_delta_rule`, in whose letters
this is written. Gradients are autograd's.

The layer: queries, keys and values go through a convolution of width 4 and SiLU. Of the
queries some of the keys is taken off, and both are divided by their length; queries are
then divided by sqrt(d_k). With f and D learned, one number for each head,

    eta = 1 + tanh(W_e x / sqrt(d_model)) in (0, 2),   r = (f eta)^2
    beta = r / (1 + r) sigmoid(W_b x)
    log alpha = -log(1 + r) - exp(A_log) softplus(W_a x + b_a)
    log mu = max(-exp(M_log) softplus(W_m x + b_m), -2),   p = alpha k
    q = unit(q^0 - D k^0)

so that alpha + beta is at most 1, and the old answer is compared behind the decay.
Answers are normed, and gated by the SiLU of a linear map. At the start f is uniform in
(0, 4], D in (0, 1]; what else alpha and mu have starts as in `gated_delta_rule`.
[huang2026; the numbers are those of the flash-linear-attention layer]
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers.arguments import check, wide
from ctlearn.layers.decay import ScalarDecay
from ctlearn.layers.gates import Passing, unit
from ctlearn.layers.memory import chunked, segments, unchunked
from ctlearn.layers.mixer import Mixer
from ctlearn.shapes import check_shape

# The least that log mu may be.
LEAST = -2.0


class State(NamedTuple):
    """The memory S and its velocity M, each [B, H, d_k, d_v]."""

    S: Tensor
    M: Tensor


class Tokens(NamedTuple):
    """What comes with tokens."""

    q: Tensor
    k: Tensor
    v: Tensor
    p: Tensor
    log_decay: Tensor
    log_mu: Tensor
    eta: Tensor
    beta: Tensor


def chunkwise(  # noqa: PLR0913 - as many gates as the update has, and a size
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    log_decay: Tensor,
    log_mu: Tensor,
    p: Tensor,
    eta: Tensor,
    beta: Tensor,
    S: State | None = None,
    chunk_size: int = 32,
) -> tuple[Tensor, State]:
    """Chunks in turn, both matrices between them: O(T (C^2 + C d + d_k d_v)).

    Half precision is computed in float32, which is the state's dtype then.

    Raises
    ------
    TypeError
        What `ctlearn.layers.arguments.check` raises.
    ValueError
        The same.
    """
    tokens = Tokens(q, k, v, p, log_decay, log_mu, eta, beta)
    check(**tokens._asdict(), chunk_size=chunk_size)
    (B, _, H, d_k), d_v, dtype = k.shape, v.shape[-1], wide(k.dtype)
    if S is None:
        S = State(*(k.new_zeros(B, H, d_k, d_v) for _ in range(2)))
    for name, x in S._asdict().items():
        sizes = {"B": (B, "k"), "H": (H, "k"), "d_k": (d_k, "k"), "d_v": (d_v, "v")}
        check_shape(f"S.{name}", x, (("B", "H", "d_k", "d_v"),), sizes)
    # copies, so that no result shares memory with what was given
    S = State(*(x.to(dtype).flatten(0, 1).clone() for x in S))
    outputs = []
    for segment in segments(k, chunk_size):
        part = Tokens(*(x[:, segment].to(dtype) for x in tokens))
        o, S = _segment(part, S, chunk_size)
        outputs.append(o.to(v.dtype))
    o = torch.cat(outputs, 1) if outputs else torch.zeros_like(v)
    return o, State(*(x.unflatten(0, (B, H)) for x in S))


def _segment(tokens: Tokens, state: State, chunk_size: int) -> tuple[Tensor, State]:
    """Outputs of some chunks, and the state behind them."""
    B, T = tokens.k.shape[:2]
    q, k, v, p, log_decay, log_mu, eta, beta = (
        chunked(x, min(chunk_size, T)) for x in tokens
    )
    kept, pushed = (_between(g) for g in (log_decay, log_mu))
    # row i, column j: of the velocity at boundary j, what has moved the state by i
    moved = (kept[..., 1:] * beta[..., None, :]) @ pushed[..., 1:, :]
    G = moved[..., 1:] * eta[..., None, :]
    start, coasting = kept[..., :1], moved[..., :1]
    # above its diagonal nothing of L is looked at, nor on it
    L = (p @ k.mT) * G[..., :-1, :]
    of_S, of_M = start[..., :-1, :] * p, coasting[..., :-1, :] * p
    written = G[..., -1, :, None] * k
    velocity = (pushed[..., -1, 1:] * eta)[..., None] * k
    states, errors = [], []
    for n in range(len(k)):
        S, M = state
        u = v[n] - of_S[n] @ S + of_M[n] @ M
        u = torch.linalg.solve_triangular(L[n], u, upper=False, unitriangular=True)
        states.append(state)
        errors.append(u)
        state = State(
            start[n, :, -1:] * S - coasting[n, :, -1:] * M + written[n].mT @ u,
            pushed[n, :, -1:, :1] * M - velocity[n].mT @ u,
        )
    S, M = (torch.stack(x) for x in zip(*states, strict=True))
    o = (start[..., 1:, :] * q) @ S - (coasting[..., 1:, :] * q) @ M
    o = o + ((q @ k.mT) * G[..., 1:, :]) @ torch.stack(errors)
    return unchunked(o, B, T), state


def _between(g: Tensor) -> Tensor:
    """Kept from boundary j to boundary i of the C tokens of g: [..., C + 1, C + 1]."""
    return ScalarDecay(F.pad(g, (1, 0))).after.D


class MomentumDeltaRule(Mixer):
    """All gates are one number for each head of values."""

    width, squash = 4, F.silu

    def __init__(self, d_model: int, *, mix: Callable = chunkwise, **sizes: Any):
        super().__init__(d_model, mix=mix, **sizes)
        H = self.n_value_heads
        self.rate = nn.Linear(d_model, H, bias=False)
        self.passing = Passing(nn.Linear(d_model, H, bias=False), (H,), least=0)
        self.pushing = Passing(nn.Linear(d_model, H, bias=False), (H,), least=0)
        self.step = nn.Linear(d_model, H, bias=False)
        self.log_factor = nn.Parameter((4 * (1 - torch.rand(H))).log())
        self.log_correction = nn.Parameter((1 - torch.rand(H)).log())

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Alpha and beta share what is at most 1; p is the key behind the decay."""
        step = self.step(x).to(wide(x.dtype)) / math.sqrt(x.shape[-1])
        eta = 1 + step.tanh()
        ratio = (eta * self.log_factor.exp()).square()
        log_decay = self.passing(x) - ratio.log1p()
        q, k = unit(q - self.log_correction.exp()[:, None] * k), unit(k)
        return {
            "q": q * self.d_k**-0.5,
            "k": k,
            "v": v,
            "log_decay": log_decay,
            "log_mu": self.pushing(x).clamp(min=LEAST),
            "p": (log_decay.exp()[..., None] * k).to(k.dtype),
            "eta": eta,
            "beta": ratio / (1 + ratio) * self.rate(x).sigmoid(),
        }

    def write(self, k: Tensor, v: Tensor, **others: Any) -> dict[str, Any]:
        """As it is: the form is the mechanism's own."""
        return {"k": k, "v": v, **others}
