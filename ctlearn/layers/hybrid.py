"""A stack of blocks whose mixers follow a pattern, so that one makes up for another.

    x <- x + mixer(norm(x)),   x <- x + mlp(norm(x))

Three layers with a state of fixed size and one of attention, which recalls exactly and
pays for it with a cache, is such a pattern [kimi2025]; a stack of one kind is a pattern
of one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers.mixer import Mixer, State


class GatedPerceptron(nn.Module):
    """W_O (silu(W_g x) * W_v x), each token by itself (SwiGLU)."""

    def __init__(self, d_model: int, d_hidden: int):
        super().__init__()
        self.gate_and_value = nn.Linear(d_model, 2 * d_hidden, bias=False)
        self.out = nn.Linear(d_hidden, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., d_model] to [..., d_model]."""
        gate, value = self.gate_and_value(x).chunk(2, -1)
        return self.out(F.silu(gate) * value)


class Block(nn.Module):
    """A mixer and a perceptron, each normed in front and added to what it reads."""

    def __init__(self, d_model: int, mixer: Mixer, d_hidden: int):
        super().__init__()
        self.norm_mixer = nn.RMSNorm(d_model, eps=1e-5)
        self.mixer = mixer
        self.norm_perceptron = nn.RMSNorm(d_model, eps=1e-5)
        self.perceptron = GatedPerceptron(d_model, d_hidden)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """[B, T, d_model] to [B, T, d_model], and the mixer's state."""
        y, state = self.mixer(self.norm_mixer(x), state)
        x = x + y
        return x + self.perceptron(self.norm_perceptron(x)), state


class Hybrid(nn.Module):
    """`n_layers` blocks; the mixer of block i is made by `pattern[i % len(pattern)]`.

    `pattern` holds functions from d_model to a mixer:

        gated = partial(GatedDeltaRule, n_heads=4, d_k=32, d_v=64)
        exact = partial(SoftmaxAttention, n_heads=4, d_k=64, d_v=64)
        Hybrid(256, n_layers=8, pattern=[gated, gated, gated, exact])

    `d_hidden` is the width of the perceptrons: 8 d_model / 3 unless given, rounded up
    to a multiple of eight.

    Raises
    ------
    ValueError
        The pattern is empty, or `n_layers` is below 1.
    """

    def __init__(
        self,
        d_model: int,
        *,
        n_layers: int,
        pattern: Sequence[Callable[[int], Any]],
        d_hidden: int | None = None,
    ):
        super().__init__()
        if not pattern:
            raise ValueError("pattern: expected at least one mixer, got none")
        if n_layers < 1:
            raise ValueError(f"n_layers: expected at least 1, got {n_layers}")
        # three maps of 8/3 are as many weights as two of 4
        d_hidden = 8 * -(-d_model // 3) if d_hidden is None else d_hidden
        mixers = (pattern[i % len(pattern)](d_model) for i in range(n_layers))
        self.blocks = nn.ModuleList(Block(d_model, m, d_hidden) for m in mixers)

    def forward(
        self, x: Tensor, state: tuple[State, ...] | None = None
    ) -> tuple[Tensor, tuple[State, ...]]:
        """[B, T, d_model] to [B, T, d_model], and the states of all mixers."""
        states = (None,) * len(self.blocks) if state is None else state
        after = []
        for block, before in zip(self.blocks, states, strict=True):
            x, last = block(x, before)
            after.append(last)
        return x, tuple(after)
