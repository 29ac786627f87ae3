"""A layer of the delta rule (DeltaNet).

    beta = sigmoid(W_b x)

Keys and queries go through a convolution of width 4, SiLU and a division by their
length; values through the first two; queries are then divided by sqrt(d_k). Answers are
normed, not gated. Released models have 4 heads. [yang2024deltanet, section 3.4; the
numbers are those of the flash-linear-attention layer]
"""

from typing import Any

from torch import Tensor, nn

from ctlearn.layers.gates import unit
from ctlearn.layers.mixer import Mixer


class DeltaRule(Mixer):
    """beta is one number for each head of values."""

    width = 4

    def __init__(self, d_model: int, **sizes: Any):
        super().__init__(d_model, **sizes)
        self.rate = nn.Linear(d_model, self.n_value_heads, bias=False)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Keys of length one, beta in (0, 1)."""
        q, k = unit(q) * self.d_k**-0.5, unit(k)
        return {"q": q, "k": k, "v": v, "beta": self.rate(x).sigmoid()}

    def write(
        self, k: Tensor, v: Tensor, *, beta: Tensor, log_decay: Tensor | None = None
    ) -> dict[str, Any]:
        """Erase and write at the key, with strength beta."""
        return {"k": k, "z": v, "e": k, "log_decay": log_decay, "beta": beta}
