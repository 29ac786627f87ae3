"""Memory as gate (MAG) in torch: a window and Titans' memory gate each other.

    q, k [B, T, H, d_k], v, o [B, T, H, d_v], log_decay, log_mu, beta [B, T, H],
    K_p [H, n_p, d_k], V_p [H, n_p, d_v], gains [H, 2, d_v]

What is computed is stated in `ctlearn.mixers.memory_as_gate`, the two parts in
`ctlearn.layers.attention` and `ctlearn.layers.titans`.

The layer: all is as in `titans`, but that the window is given queries divided by
sqrt(d_k) and keys of any length, beside `n_persistent` pairs that are learned, and that
answers are not normed once more. At the start the gains are 1, and persistent pairs
normal with deviation d^-1/2. [behrouz2025titans, eqs. 26-28, whose memory reads the
persistent tokens as well; the start is ours]
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers import titans
from ctlearn.layers.attention import Cache, extended, windowed
from ctlearn.layers.beside import State
from ctlearn.layers.gates import unit
from ctlearn.layers.titans import Titans
from ctlearn.shapes import check_shape, check_size


def chunkwise(  # noqa: PLR0913 - those of the two, and how they gate each other
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    bent: tuple[Tensor, Tensor, Tensor] | None = None,
    K_p: Tensor,
    V_p: Tensor,
    window: int,
    log_decay: Tensor,
    log_mu: Tensor,
    beta: Tensor,
    gains: Tensor,
    S: State | None = None,
    inner_batch: int = 1,
) -> tuple[Tensor, State]:
    """silu(rho_1 * unit(y)) * silu(rho_2 * unit(m)), of the window's y and memory's m.

    The memory is given `bent` in the place of q, k and v, if it is not None.

    Raises what the two raise.
    """
    check_size("window", window, least=1)
    M, cache = (None, None) if S is None else S
    cache = extended(q, k, v, cache)
    always = _persistent(K_p, V_p, gains, k, v)
    y = windowed(q, *cache, window, always)
    gates = {"log_decay": log_decay, "log_mu": log_mu, "beta": beta}
    tokens = (q, k, v) if bent is None else bent
    m, M = titans.chunkwise(*tokens, **gates, S=M, inner_batch=inner_batch)
    y, m = (
        F.silu(rho * unit(x)) for rho, x in zip(gains.unbind(1), (y, m), strict=True)
    )
    return y * m, State(M, cache.last(window))


def _persistent(K_p: Tensor, V_p: Tensor, gains: Tensor, k: Tensor, v: Tensor) -> Cache:
    """The pairs that every query sees, for every sequence."""
    sizes = {"H": (k.shape[2], "k"), "d_k": (k.shape[3], "k"), "d_v": (v.shape[3], "v")}
    check_shape("K_p", K_p, (("H", "n_p", "d_k"),), sizes)
    check_shape("V_p", V_p, (("H", "n_p", "d_v"),), sizes)
    check_shape("gains", gains, (("H", "2", "d_v"),), sizes)
    return Cache(*(x.transpose(0, 1).expand(len(k), -1, -1, -1) for x in (K_p, V_p)))


class MemoryAsGate(Titans):
    """`window` counts the token itself; `mix` is `chunkwise` or one like it."""

    normed = False

    def __init__(
        self,
        d_model: int,
        *,
        window: int,
        n_persistent: int = 4,
        mix: Callable = chunkwise,
        **others: Any,
    ):
        super().__init__(d_model, mix=mix, **others)
        H, d_k, d_v = self.n_value_heads, self.d_k, self.d_v
        self.window = window
        self.K_p, self.V_p = (
            nn.Parameter(torch.randn(H, n_persistent, d) / d**0.5) for d in (d_k, d_v)
        )
        self.gains = nn.Parameter(torch.ones(H, 2, d_v))

    def start(self, B: int) -> Any:
        """The learned memory, and nothing in the window."""
        return State(super().start(B), None)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Any]:
        """What the window sees, what the memory is given, and how it learns."""
        given = super().inputs(x, q, k, v)
        bent = given["q"], given["k"], given["v"]
        seen = {"q": q * self.d_k**-0.5, "k": k, "bent": bent, "window": self.window}
        persistent = {"K_p": self.K_p, "V_p": self.V_p, "gains": self.gains}
        return given | seen | persistent
