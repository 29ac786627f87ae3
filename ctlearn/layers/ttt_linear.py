"""A layer of TTT-Linear (test-time training of a linear map).

    f(x) = x + LN(x W + b),   beta = sigmoid(W_b x + b_b) / d_k,
    r_i = max(1 / i + learned_i, 0)

W_0, b_0 and the gain and shift of LN are learned, a head each; r_i is for all heads.
Queries and keys are linear in x, and pairs of their channels turn by 10000^(-2i / d_k)
radians a token, from the start of each mini-batch on. Answers go through a layer norm
over all heads together and are not gated. At the start W_0 and the weights of all
linear maps are normal with deviation 0.02, LN is plain, and b_0, b_b and what r_i adds
are 0. Released models have heads of 64 channels. [sun2024ttt; the layer is that of its
code around a Transformer: the one around Mamba convolves and gates as well]
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ctlearn.layers import inner
from ctlearn.layers.by_device import has_kernels
from ctlearn.layers.inner import Affine, Training
from ctlearn.layers.mixer import Mixer
from ctlearn.layers.rotation import rotary_angles, turned

# Of what is drawn at the start.
DEVIATION = 0.02


def chunkwise(q: Tensor, *kv: Tensor, S: Training, **others: Any) -> Any:
    """`ctlearn.layers.inner.chunkwise`, in its kernels where they take it all."""
    fits = len(S.f) == 1 and q.shape[-1] <= 128 and others["inner_batch"] <= 64
    if not (fits and has_kernels(q.device, q.dtype)):
        return inner.chunkwise(q, *kv, S=S, **others)
    # no sooner: to load it is to load Triton
    from ctlearn.kernels import ttt_linear

    return ttt_linear.chunkwise(q, *kv, S=S, **others)


class TTTLinear(Mixer):
    """`inner_batch` tokens learn from one start; d_v is d_k, as f adds the key.

    `mix` is `ctlearn.layers.inner.chunkwise` or one like it; unless given, on a GPU the
    kernels of `ctlearn.kernels.ttt_linear` run what they can.
    """

    square = True
    # what beta is at most, times d_k
    base: ClassVar[float] = 1.0
    # sizes of hidden layers, in keys
    hidden: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self,
        d_model: int,
        *,
        inner_batch: int = 16,
        mix: Callable = chunkwise,
        **sizes: Any,
    ):
        super().__init__(d_model, mix=mix, **sizes)
        H, d = self.n_value_heads, self.d_v
        self.inner_batch = inner_batch
        self.rate = nn.Linear(d_model, H)
        self.reader = nn.Parameter(torch.zeros(inner_batch))
        self.inner_norm = nn.Parameter(torch.stack([torch.ones(H, d)] * 2, 1))
        widths = [d, *(times * d for times in self.hidden), d]
        pairs = list(pairwise(widths))
        self.W = nn.ParameterList(torch.empty(H, *pair) for pair in pairs)
        self.b = nn.ParameterList(torch.zeros(H, d_out) for _, d_out in pairs)
        self.norm = nn.LayerNorm(H * d, eps=1e-6)
        with torch.no_grad():
            for weight in (self.qkv.weight, self.out.weight, self.rate.weight, *self.W):
                nn.init.normal_(weight, std=DEVIATION)
            self.rate.bias.zero_()
            self.inner_norm[:, 1].zero_()

    def start(self, B: int) -> Training:
        """The learned start, once for every sequence."""
        f = [
            Affine(*(x.expand(B, *x.shape) for x in layer))
            for layer in zip(self.W, self.b, strict=True)
        ]
        none = self.reader.new_zeros(B, 0, self.n_value_heads, self.d_k)
        return Training.start(f, none, none)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Any]:
        """Beta in (0, base / d_k), and what is the same for all tokens."""
        i = torch.arange(1, self.inner_batch + 1, dtype=q.dtype, device=q.device)
        return {
            "q": q,
            "k": k,
            "v": v,
            "angle": rotary_angles(self.d_k, 10000.0, q),
            "beta": self.rate(x).sigmoid() * (self.base / self.d_k),
            "reader_rate": (1 / i + self.reader).clamp(min=0),
            "norm": self.inner_norm,
            "inner_batch": self.inner_batch,
        }

    def write(self, k: Tensor, v: Tensor, **others: Any) -> dict[str, Any]:
        """As it is: the learner is given its examples."""
        return {"k": k, "v": v, **others}

    def answer(self, q: Tensor, S: Training, **inputs: Any) -> tuple[Tensor, Training]:
        """Turn queries and keys by their place in the mini-batch, then learn."""
        first, angle = S.k.shape[1], inputs.pop("angle")
        place = torch.arange(first, first + q.shape[1], device=q.device)
        by = (place % self.inner_batch)[:, None, None] * angle
        inputs["k"] = turned(inputs["k"], by)
        return super().answer(turned(q, by), S, **inputs)

    def read(self, o: Tensor, x: Tensor, v: Tensor) -> Tensor:
        """Norm all heads together."""
        return self.out(self.norm(o.flatten(2)))
