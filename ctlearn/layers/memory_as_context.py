"""Memory as context (MAC) in torch: attention to a segment and to what it recalls.

    q, k [B, T, H, d_k], v, o [B, T, H, d_v], log_decay, log_mu, beta [B, T, H],
    K_p [H, n_p, d_k], V_p [H, n_p, d_v], W_Q, W_K [H, d_v, d_k], W_V [H, d_v, d_v]

What is computed is stated in `ctlearn.mixers.memory_as_context`: segment by segment,
for each needs the memory that the one before has left. In a segment all tokens are
taken at once, by `ctlearn.layers.titans` and torch's attention with a mask. The state
is the memory's, and a cache of the segment's pairs, two for each token.

The layer: all is as in `titans`, but that queries are of length sqrt(d_k), and that
there are `n_persistent` pairs which are learned. At the start these and the columns of
W_Q, W_K and W_V are normal with deviation d^-1/2 for d inputs.
[behrouz2025titans, eqs. 21-25, whose segments look ahead; the start is ours]
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ctlearn.layers import inner, titans
from ctlearn.layers.arguments import check, wide
from ctlearn.layers.attention import Cache, masked
from ctlearn.layers.beside import State
from ctlearn.layers.gates import unit
from ctlearn.layers.titans import Momentum, Titans
from ctlearn.shapes import check_shape


def chunkwise(  # noqa: PLR0913 - those of attention, of the memory, and between them
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    phi: Callable[[Tensor], Tensor] = unit,
    K_p: Tensor,
    V_p: Tensor,
    log_decay: Tensor,
    log_mu: Tensor,
    beta: Tensor,
    S: State | None = None,
    inner_batch: int = 64,
) -> tuple[Tensor, State]:
    """Segments of `inner_batch` tokens in turn, O(T b (d_k + d_v)) and the memory.

    Raises
    ------
    TypeError
        What `ctlearn.layers.titans.chunkwise` raises.
    ValueError
        The same, or a shape does not fit.
    """
    check(q=q, k=k, v=v, inner_batch=inner_batch)
    sizes = {"H": (k.shape[2], "k"), "d_k": (k.shape[3], "k"), "d_v": (v.shape[3], "v")}
    for name, x, shape in (
        ("W_Q", W_Q, ("H", "d_v", "d_k")),
        ("W_K", W_K, ("H", "d_v", "d_k")),
        ("W_V", W_V, ("H", "d_v", "d_v")),
        ("K_p", K_p, ("H", "n_p", "d_k")),
        ("V_p", V_p, ("H", "n_p", "d_v")),
    ):
        check_shape(name, x, (shape,), sizes)
    none = Cache(k[:, :0], v[:, :0])
    M, cache = (None, none) if S is None else S
    M = Momentum.start([inner.zeros(k, v)], k, v) if M is None else M
    # as it will be when it has learned
    M = M._replace(M=inner.each(M.M, lambda w: w.to(wide(k.dtype))))
    cache = none if cache is None else cache
    always = Cache(*(x.transpose(0, 1).expand(len(k), -1, -1, -1) for x in (K_p, V_p)))
    outputs, t = [], 0
    while t < k.shape[1]:
        new = slice(t, t + inner_batch - M.tokens.k.shape[1])
        h = _recalled(M, q[:, new])
        cache = _extended(
            cache, phi(_made(h, W_K)), k[:, new], _made(h, W_V), v[:, new]
        )
        y = _attend(q[:, new], cache, always)
        asked, key, value = phi(_made(y, W_Q)), phi(_made(y, W_K)), _made(y, W_V)
        gates = {"log_decay": log_decay, "log_mu": log_mu, "beta": beta}
        gates = {name: x[:, new] for name, x in gates.items()}
        m, M = titans.chunkwise(
            asked, key, value, **gates, S=M, inner_batch=inner_batch
        )
        outputs.append(y * m)
        t = new.stop
        if not M.tokens.k.shape[1]:
            cache = none
    o = torch.cat(outputs, 1) if outputs else torch.zeros_like(v)
    return o, State(M, Cache(*(x.clone() for x in cache)))


def _recalled(M: Momentum, q: Tensor) -> Tensor:
    """What the memory answers as the segment began."""
    x = q.to(wide(q.dtype)).transpose(1, 2)
    for i, layer in enumerate(M.M):
        x = layer.read(inner.gelu(x) if i else x)
    return x.transpose(1, 2).to(q.dtype)


def _made(x: Tensor, W: Tensor) -> Tensor:
    """Each head of x [B, T, H, d_v] by its matrix."""
    return torch.einsum("bthv,hvd->bthd", x, W)


def _extended(
    cache: Cache, recalled: Tensor, k: Tensor, values: Tensor, v: Tensor
) -> Cache:
    """The cache and, for each new token, the pair that it recalls and its own."""
    pairs = (torch.stack(x, 2).flatten(1, 2) for x in ((recalled, k), (values, v)))
    return Cache(*(torch.cat([old, x], 1) for old, x in zip(cache, pairs, strict=True)))


def _attend(q: Tensor, cache: Cache, always: Cache) -> Tensor:
    """Answers to the segment's last tokens: of two pairs each, but of none later."""
    n, T = cache.K.shape[1] // 2, q.shape[1]
    token = torch.arange(n, device=q.device)
    seen = (token <= token[n - T :, None]).repeat_interleave(2, 1)
    mask = nn.functional.pad(seen, (always.K.shape[1], 0), value=True)
    K, V = (torch.cat(pair, 1) for pair in zip(always, cache, strict=True))
    return masked(q, K, V, mask)


class MemoryAsContext(Titans):
    """A segment is `inner_batch` tokens; `mix` is `chunkwise` or one like it."""

    def __init__(
        self,
        d_model: int,
        *,
        inner_batch: int = 64,
        n_persistent: int = 4,
        mix: Callable = chunkwise,
        **others: Any,
    ):
        super().__init__(d_model, inner_batch=inner_batch, mix=mix, **others)
        H, d_k, d_v = self.n_value_heads, self.d_k, self.d_v
        shapes = {"W_Q": (d_v, d_k), "W_K": (d_v, d_k), "W_V": (d_v, d_v)}
        self.between = nn.ParameterDict(
            {name: torch.randn(H, *shape) / d_v**0.5 for name, shape in shapes.items()}
        )
        self.K_p, self.V_p = (
            nn.Parameter(torch.randn(H, n_persistent, d) / d**0.5) for d in (d_k, d_v)
        )

    def start(self, B: int) -> Any:
        """The learned memory, and nothing in the segment."""
        return State(super().start(B), None)

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Any]:
        """Those of the memory, what is made of answers, and the persistent pairs."""
        given = super().inputs(x, q, k, v) | dict(self.between.items())
        given["q"] = given["q"] * self.d_k**0.5
        return given | {"K_p": self.K_p, "V_p": self.V_p}
