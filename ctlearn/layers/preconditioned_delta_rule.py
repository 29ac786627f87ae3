"""A layer of the preconditioned gated delta rule.

    log alpha' = -exp(A'_log) softplus(W_a' x + b'),   beta' = sigmoid(W_b' x)

alpha' and beta' are one number for each head of keys and start as alpha does; c is
learned, one for each of these heads, and starts at -0.2; the spread is 1.5. All else is
as in `gated_delta_rule`. [tumma2026; the numbers are those of the
flash-linear-attention layer]
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ctlearn.layers.arguments import wide
from ctlearn.layers.gated_delta_rule import GatedDeltaRule
from ctlearn.layers.gates import Passing


class State(NamedTuple):
    """S [B, H, d_k, d_v], and A [B, H, 1, d_k], the sums of squared keys."""

    S: Tensor
    A: Tensor


class PreconditionedDeltaRule(GatedDeltaRule):
    """`spread` is what P is below, and 1 / P.

    Raises
    ------
    ValueError
        `spread` is not above 0.
    """

    def __init__(self, d_model: int, *, spread: float = 1.5, **sizes: Any):
        super().__init__(d_model, **sizes)
        if not spread > 0:
            raise ValueError(f"spread: expected a number above 0, got {spread}")
        H, self.spread = self.n_heads, spread
        self.counting = nn.Linear(d_model, H, bias=False)
        self.gram_passing = Passing(nn.Linear(d_model, H, bias=False), (H,), least=0)
        self.centre = nn.Parameter(torch.full((H,), -0.2))

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Any]:
        """Those of the gated delta rule, and of the sums of squared keys."""
        times = self.n_value_heads // self.n_heads
        of_heads = {
            "gram_log_decay": self.gram_passing(x),
            "gram_beta": self.counting(x).sigmoid(),
            "centre": self.centre,
        }
        shared = {n: a.repeat_interleave(times, -1) for n, a in of_heads.items()}
        return super().inputs(x, q, k, v) | shared | {"spread": self.spread}

    def answer(self, q: Tensor, S: State | None, **inputs: Any) -> tuple[Tensor, State]:
        """The sums first, which are a memory of one key, 1; then write at P * k."""
        S_before, A_before = (None, None) if S is None else S
        names = ("gram_log_decay", "gram_beta", "spread", "centre")
        log_decay, beta, spread, centre = (inputs.pop(name) for name in names)
        dtype = wide(q.dtype)
        log_decay, beta = log_decay.to(dtype), beta.to(dtype)
        squares = inputs["k"].to(dtype).square()
        one = torch.ones_like(squares[..., :1])
        A, A_end = self.mix(
            one, one, squares, log_decay=log_decay, beta=beta, S=A_before
        )
        r = (A + 1e-6).log() - centre[:, None]
        P = (-math.log(spread) * r / (1 + r.abs())).exp()
        written = self.write(**inputs)
        written["k"] = (P * written["k"]).to(q.dtype)
        o, S_end = self.mix(q, **written, S=S_before)
        return o, State(S_end, A_end)
