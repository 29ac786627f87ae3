"""LaCT beside a sliding window, in torch: near tokens are seen, all others learned.

    q, k [B, T, H, d_k], v, zeta, o [B, T, H, d_v], log_mu [B, T, H], beta [B, T, H, 3]

What is computed is stated in `ctlearn.mixers.lact_beside_window`, the two parts in
`ctlearn.layers.attention` and `ctlearn.layers.lact`.

The layer: queries and keys are linear in x and normed over all heads together; for the
window pairs of their channels turn by 500000^(-2i / d_k) radians a token, and queries
are divided by sqrt(d_k). The network is given what `lact` makes of the same queries,
keys and values, and

    zeta = sqrt(d_v) rho * silu(W_g x)    rho [d_v] is 1 at the start

All else is as in `lact`. Released models have windows and mini-batches of 2048 tokens,
and fewer heads for the network than for the window, which here have the same.
[zhang2025lact; the numbers are those of its code]
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.inner import MUON_LACT
from ctlearn.layers import lact
from ctlearn.layers.attention import sliding_window_attention
from ctlearn.layers.beside import State
from ctlearn.layers.gates import unit
from ctlearn.layers.lact import Coefficients, LaCT
from ctlearn.layers.rotation import rotary_angles

BASE = 500000.0


def chunkwise(  # noqa: PLR0913 - those of the two, and how their answers are added
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    window: int,
    angle: Tensor | None = None,
    bent: tuple[Tensor, Tensor, Tensor] | None = None,
    log_mu: Tensor,
    beta: Tensor,
    zeta: Tensor,
    muon: Coefficients = MUON_LACT,
    S: State | None = None,
    inner_batch: int = 2048,
) -> tuple[Tensor, State]:
    """What the window answers plus zeta times what the network does, of length one.

    The network is given `bent` in the place of q, k and v, if it is not None; `angle`
    turns the window's. The state is `State(memory, cache)`.

    Raises what the two raise.
    """
    f, cache = (None, None) if S is None else S
    y, cache = sliding_window_attention(q, k, v, window=window, angle=angle, S=cache)
    training = {"log_mu": log_mu, "beta": beta, "muon": muon}
    tokens = (q, k, v) if bent is None else bent
    m, f = lact.chunkwise(*tokens, **training, S=f, inner_batch=inner_batch)
    return y + zeta * unit(m), State(f, cache)


class LaCTBesideWindow(LaCT):
    """`window` counts the token itself; `mix` is `chunkwise` or one like it."""

    normed = False

    def __init__(
        self,
        d_model: int,
        *,
        window: int = 2048,
        mix: Callable = chunkwise,
        **others: Any,
    ):
        super().__init__(d_model, mix=mix, **others)
        H, self.window = self.n_value_heads, window
        self.norms = nn.ModuleList(nn.RMSNorm(H * self.d_k, eps=1e-5) for _ in "qk")
        self.gain = nn.Parameter(torch.ones(self.d_v))

    def start(self, B: int) -> State:
        """The learned network, and nothing in the window."""
        return State(super().start(B), None)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Any]:
        """What the window sees, what the network is given, zeta, and the training."""
        q, k = (
            norm(a.flatten(2)).view_as(a)
            for norm, a in zip(self.norms, (q, k), strict=True)
        )
        scale = self.d_v**0.5 * F.silu(self.scale(x))
        return {
            **{"q": q * self.d_k**-0.5, "k": k, "v": v, "window": self.window},
            "angle": rotary_angles(self.d_k, BASE, q),
            "bent": self.bent(q, k, v),
            "zeta": scale[..., None] * self.gain,
            **self.gates(x),
        }

    def read(self, o: Tensor, x: Tensor, v: Tensor) -> Tensor:
        """All heads together."""
        return self.out(o.flatten(2))
