"""A layer around a memory: all that the mechanisms share, written once.

    q, k, v = split(convolution(W x))      heads of d_k, d_k and d_v channels
    o, S    = mix(of q, k, v and gates)    what a mechanism is
    y       = W_O (norm(o) * squash(gate(x)))

A mechanism is a small subclass. It says by `width`, `normed` and `squash` which of
these parts it has, by `inputs` what its update is given, in the letters of its file in
`ctlearn.mixers`, and by `write` what that means to the one memory. The function that
runs is an argument: `mix` is any form of `ctlearn.layers.memory`, or one like it, and
unless given the one that suits the tensors' device (`ctlearn.layers.by_device`).

x, y [B, T, d_model]; q, k [B, T, H, d_k], v, o [B, T, H, d_v]. With grouped value heads
each query and key head serves `n_value_heads / n_heads` heads of values, whose number
is then H. A token that brings `n_h` keys and values has that many times H heads of
them, pair after pair.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ctlearn.layers.by_device import chunkwise
from ctlearn.layers.convolution import Convolution


class State(NamedTuple):
    """What a mixer carries on: the convolution's last inputs or None, the memory."""

    recent: Tensor | None
    S: Any


class Mixer(nn.Module, ABC):
    """forward(x, state) -> (y, state), so that a sequence may come in pieces.

    Raises
    ------
    ValueError
        A size is below 1, `n_value_heads` is no multiple of `n_heads`, or d_v is not
        d_k where it must be.
    """

    # whether a value must be as long as a key
    square: ClassVar[bool] = False
    # tokens that the short convolution sees; 0 for none
    width: ClassVar[int] = 0
    # whether values go through the convolution too, as queries and keys do
    values_convolved: ClassVar[bool] = True
    # whether each head's answer is divided by its root mean square
    normed: ClassVar[bool] = True
    # what the output gate's logits go through; None for no gate
    squash: ClassVar[Callable[[Tensor], Tensor] | None] = None

    def __init__(
        self,
        d_model: int,
        *,
        n_heads: int,
        d_k: int,
        d_v: int,
        n_value_heads: int | None = None,
        n_h: int = 1,
        mix: Callable = chunkwise,
    ):
        super().__init__()
        n_value_heads = n_heads if n_value_heads is None else n_value_heads
        sizes = {"d_model": d_model, "n_heads": n_heads, "d_k": d_k, "d_v": d_v}
        sizes |= {"n_value_heads": n_value_heads, "n_h": n_h}
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name}: expected at least 1, got {size}")
        if n_value_heads % n_heads:
            raise ValueError(
                f"n_value_heads: expected a multiple of n_heads = {n_heads}, "
                f"got {n_value_heads}"
            )
        if self.square and d_v != d_k:
            raise ValueError(f"d_v: expected d_k = {d_k}, got {d_v}")
        self.n_heads, self.n_value_heads = n_heads, n_value_heads
        self.d_k, self.d_v, self.n_h, self.mix = d_k, d_v, n_h, mix
        keys, values = n_heads * d_k, n_value_heads * d_v
        self.sizes = [keys, n_h * keys, n_h * values]
        self.qkv = nn.Linear(d_model, sum(self.sizes), bias=False)
        self.convolved = sum(self.sizes if self.values_convolved else self.sizes[:2])
        self.convolution = (
            Convolution(self.convolved, self.width) if self.width else None
        )
        self.norm = nn.RMSNorm(d_v, eps=1e-5) if self.normed else nn.Identity()
        if self.squash is not None:
            self.gate = nn.Linear(d_model, values, bias=False)
        self.out = nn.Linear(values, d_model, bias=False)

    @abstractmethod
    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """The arguments of the mechanism's update but for S, by name, q among them."""

    @abstractmethod
    def write(self, *kv: Any, **gates: Any) -> dict[str, Tensor]:
        """The arguments of `mix` but for q and S, of the inputs but for q."""

    def start(self, B: int) -> Any:
        """S before the first token of B sequences: None where nothing is learned."""
        return None

    def answer(self, q: Tensor, S: Any, **inputs: Tensor) -> tuple[Tensor, Any]:
        """What the mechanism makes of its inputs: o, and S after the last token."""
        return self.mix(q, **self.write(**inputs), S=S)

    def read(self, o: Tensor, x: Tensor, v: Tensor) -> Tensor:
        """The layer's output, of the memory's answers."""
        o, squash = self.norm(o), type(self).squash
        if squash is not None:
            o = o * squash(self.gate(x)).view_as(o)
        return self.out(o.flatten(2))

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """The outputs, and the state to hand in with the tokens that follow."""
        recent, S = (None, self.start(len(x))) if state is None else state
        seen, q, k, v, recent = self.project(x, recent)
        o, S = self.answer(S=S, **self.inputs(seen, q, k, v))
        return self.read(o, x, v), State(recent, S)

    def project(self, x: Tensor, recent: Tensor | None) -> tuple[Any, ...]:
        """What gates see, q, k and v, and what the next call must know of x."""
        qkv = self.qkv(x)
        if self.convolution is not None:
            plain = qkv[..., self.convolved :]
            qkv, recent = self.convolution(qkv[..., : self.convolved], recent)
            qkv = qkv if self.values_convolved else torch.cat([qkv, plain], -1)
        q, k, v = qkv.split(self.sizes, -1)
        q, k = map(self.serving_all, (q, k))
        return x, q, k, v.unflatten(-1, (-1, self.d_v)), recent

    def serving_all(self, x: Tensor) -> Tensor:
        """The heads of x, once for every head of values that they serve."""
        x, times = x.unflatten(-1, (-1, self.d_k)), self.n_value_heads // self.n_heads
        return x if times == 1 else torch.repeat_interleave(x, times, 2)
