"""A layer of sliding-window attention: softmax attention to the last `window` tokens.

All else is as in `softmax_attention`. The window counts the token itself.
[beltagy2020, section 3.1, from memory]
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ctlearn.layers import attention
from ctlearn.layers.softmax_attention import SoftmaxAttention


class SlidingWindowAttention(SoftmaxAttention):
    """`mix` is `ctlearn.layers.attention.sliding_window_attention` or one like it."""

    def __init__(
        self,
        d_model: int,
        *,
        window: int,
        mix: Callable = attention.sliding_window_attention,
        **sizes: Any,
    ):
        super().__init__(d_model, mix=mix, **sizes)
        self.window = window

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Any]:
        """Those of softmax attention, and the window."""
        return super().inputs(x, q, k, v) | {"window": self.window}
