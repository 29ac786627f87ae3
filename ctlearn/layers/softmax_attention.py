"""A layer of softmax attention, with rotary positions.

Queries and keys are linear in x; pairs of their channels turn by base^(-2i / d_k)
radians a token, and queries are divided by sqrt(d_k). Nothing is convolved, normed or
gated. [vaswani2017, section 3.2; base 10,000 is that of rotary embeddings]
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ctlearn.layers import attention
from ctlearn.layers.mixer import Mixer
from ctlearn.layers.rotation import rotary_angles


class SoftmaxAttention(Mixer):
    """`base` None leaves positions out: the layer then knows no order but the mask's.

    `mix` is `ctlearn.layers.attention.softmax_attention` or one like it.
    """

    normed = False

    def __init__(
        self,
        d_model: int,
        *,
        base: float | None = 10000.0,
        mix: Callable = attention.softmax_attention,
        **sizes: Any,
    ):
        super().__init__(d_model, mix=mix, **sizes)
        self.base = base

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Any]:
        """Queries of the scale that softmax wants, and by how much channels turn."""
        given = {"q": q * self.d_k**-0.5, "k": k, "v": v}
        if self.base is not None:
            given["angle"] = rotary_angles(self.d_k, self.base, q)
        return given

    def write(self, k: Tensor, v: Tensor, **others: Any) -> dict[str, Any]:
        """As it is: the cache keeps keys and values."""
        return {"k": k, "v": v, **others}
