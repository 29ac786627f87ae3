"""MesaNet in torch: every token asks the best linear map for its past.

    q, k [B, T, H, d_k], v, o [B, T, H, d_v], log_decay, beta [B, T, H], ridges [H, d_k]

What is computed is stated in `ctlearn.mixers.mesa_net`. No sum H_t is formed: what
conjugate gradients ask of it is a product, for all tokens of a chunk at once. Their
steps are not recorded. With A = H_t + Diag(ridges) and A x = q,

    A y = dx,   dq = y,   dA = -y x'

so that the way back solves once more, for y, and A is its own transpose. Both solutions
are taken for exact: after too few steps the gradient is not that of what was computed.

The layer: queries and keys go through a convolution of width 4, SiLU and a division by
their length, values are linear in x, and nothing is scaled.

    log gamma = logsigmoid(W_a x + b_a),   beta = sigmoid(W_b x + b_b)
    Lambda = 1/4 + softplus(learned), which starts at 1

Answers are normed, not gated. Released models have 16 heads with d_k = d_v = 128, and
take 30 steps. [vonoswald2025mesanet; the numbers are those of its authors' layer in
flash-linear-attention]
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlearn.layers import memory
from ctlearn.layers.arguments import check, wide
from ctlearn.layers.decay import ScalarDecay
from ctlearn.layers.gates import unit
from ctlearn.layers.mixer import Mixer
from ctlearn.mixers.mesa_net import State
from ctlearn.shapes import check_shape

# The layer's ridges are above the first, and start at the second.
LEAST, FIRST = 0.25, 1.0


def chunkwise(  # noqa: PLR0913 - those of the mechanism, and a size
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    log_decay: Tensor,
    beta: Tensor,
    ridges: Tensor,
    steps: int | None = None,
    S: State | None = None,
    chunk_size: int = 32,
) -> tuple[Tensor, State]:
    """O(T J d_k (C + d_k)) for J steps; None solves exactly, O(T d_k^3).

    The state is `State(S [B, H, d_k, d_v], H [B, H, d_k, d_k])`. Half precision is
    computed in float32, which is the state's dtype then.

    Raises
    ------
    TypeError
        What `ctlearn.layers.arguments.check` raises.
    ValueError
        The same, and on the CPU a ridge that is not above 0.
    """
    _check(q, k, v, log_decay, beta, ridges, S)
    check(steps=steps, chunk_size=chunk_size)
    B, _, H, d_k = k.shape
    dtype, d_v = wide(k.dtype), v.shape[-1]
    if S is None:
        S = State(*(k.new_zeros(B, H, d_k, d, dtype=dtype) for d in (d_v, d_k)))
    sums = torch.cat([S.S, S.H], -1).to(dtype).flatten(0, 1)
    ridges = ridges.to(dtype).repeat(B, 1)[:, None]
    outputs = []
    for segment in memory.segments(k, chunk_size):
        tokens = [x[:, segment].to(dtype) for x in (q, k, v, log_decay, beta)]
        o, sums = _segment(tokens, ridges, sums, steps, chunk_size)
        outputs.append(o.to(v.dtype))
    o = torch.cat(outputs, 1) if outputs else torch.zeros_like(v)
    # copies: neither is a view of the other's memory
    parts = (x.clone() for x in sums.unflatten(0, (B, H)).split([d_v, d_k], -1))
    return o, State(*parts)


def _segment(
    tokens: list[Tensor],
    ridges: Tensor,
    sums: Tensor,
    steps: int | None,
    chunk_size: int,
) -> tuple[Tensor, Tensor]:
    """Outputs of some chunks, and the sums behind them: of values, then of keys."""
    B, T = tokens[0].shape[:2]
    C = min(chunk_size, T)
    q, k, v, log_decay, beta = (memory.chunked(x, C) for x in tokens)
    decay, written = ScalarDecay(log_decay), beta[..., None] * k
    added = decay.to_end(written).mT @ torch.cat([v, k], -1)
    before = []
    for kept, new in zip(decay.whole, added, strict=True):
        before.append(sums)
        sums = kept * sums + new
    old, H = torch.stack(before).split([v.shape[-1], k.shape[-1]], -1)
    products = _Products(decay.after.D, decay.after.since, k, written, H, ridges)
    x = products.solve(q) if steps is None else _solution(products, q, steps)
    o = decay.after.from_start(x) @ old + decay.after.pairs(x, written) @ v
    return memory.unchunked(o, B, T), sums


class _Products(NamedTuple):
    """The matrices H_t + Diag(ridges) of all tokens of some chunks."""

    D: Tensor  # [chunks, B H, C, C]: what is kept between two tokens
    since: Tensor  # [chunks, B H, C]: of what was before the chunk
    k: Tensor
    written: Tensor  # beta k
    H: Tensor  # [chunks, B H, d_k, d_k]: the sum before the chunk
    ridges: Tensor  # [B H, 1, d_k]

    def of(self, p: Tensor) -> Tensor:
        """Row t of p [chunks, B H, C, d_k] by the matrix of token t."""
        new = (p @ self.written.mT * self.D) @ self.k
        new = torch.addcmul(new, self.since[..., None], p @ self.H)
        return torch.addcmul(new, self.ridges, p)

    def solve(self, q: Tensor) -> Tensor:
        """The rows x with A_t x_t = q_t, from matrices that are formed."""
        pairs = self.written[..., :, None] * self.k[..., None, :]
        new = (self.D @ pairs.flatten(-2)).view_as(pairs)
        A = self.since[..., None, None] * self.H[..., None, :, :] + new
        return torch.linalg.solve(A + torch.diag_embed(self.ridges), q)


def _solution(products: _Products, q: Tensor, steps: int) -> Tensor:
    """What conjugate gradients make of q, with the gradients of a solution."""
    given = [x.detach() for x in products]
    x = conjugate_gradients(_Products(*given).of, q.detach(), steps)
    if not (torch.is_grad_enabled() and any(y.requires_grad for y in (q, *products))):
        return x
    # near zero; its gradients are all that a solution's are, once y is known
    rest = q - products.of(x)
    return _Solution.apply(rest, x, steps, *given)


class _Solution(torch.autograd.Function):
    """Passes x on, and back to the right side's rest the y with A y = dx."""

    @staticmethod
    def forward(
        ctx: Any, rest: Tensor, x: Tensor, steps: int, *products: Tensor
    ) -> Tensor:
        ctx.steps = steps
        ctx.save_for_backward(*products)
        return x.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dx: Tensor) -> tuple[Tensor | None, ...]:
        products = _Products(*ctx.saved_tensors)
        y = conjugate_gradients(products.of, dx, ctx.steps)
        return y, None, None, *(None for _ in products)


def conjugate_gradients(
    apply: Callable[[Tensor], Tensor], b: Tensor, steps: int
) -> Tensor:
    """As `ctlearn.systems.conjugate_gradients`, for rows b [..., d]."""
    x, rest, direction = torch.zeros_like(b), b, b
    size = rest.square().sum(-1, keepdim=True)
    for _ in range(steps):
        image = apply(direction)
        length = _ratio(size, (direction * image).sum(-1, keepdim=True))
        x = torch.addcmul(x, length, direction)
        rest = torch.addcmul(rest, length, image, value=-1)
        size, before = rest.square().sum(-1, keepdim=True), size
        direction = torch.addcmul(rest, _ratio(size, before), direction)
    return x


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    """The quotient, and 0 where b is 0: nothing is left to correct."""
    return torch.where(b > 0, a / b, 0)


def _check(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor,
    beta: Tensor,
    ridges: Tensor,
    S: State | None,
) -> None:
    check(q=q, k=k, v=v, log_decay=log_decay, beta=beta)
    sizes: dict[str, tuple[int, str]] = {}
    check_shape("k", k, (("B", "T", "H", "d_k"),), sizes)
    check_shape("v", v, (("B", "T", "H", "d_v"),), sizes)
    check_shape("log_decay", log_decay, (("B", "T", "H"),), sizes)
    check_shape("ridges", ridges, (("H", "d_k"),), sizes)
    if S is not None:
        check_shape("S.S", S.S, (("B", "H", "d_k", "d_v"),), sizes)
        check_shape("S.H", S.H, (("B", "H", "d_k", "d_k"),), sizes)
    if torch.compiler.is_compiling() or ridges.device.type != "cpu":
        return
    if not bool((ridges > 0).all()):
        bad = ridges[~(ridges > 0)][0].item()
        raise ValueError(f"ridges: expected numbers above 0, got {bad}")


class MesaNet(Mixer):
    """`steps` of conjugate gradients for every token; None solves exactly."""

    width, values_convolved = 4, False

    def __init__(
        self,
        d_model: int,
        *,
        steps: int | None = 30,
        mix: Callable = chunkwise,
        **sizes: Any,
    ):
        super().__init__(d_model, mix=mix, **sizes)
        H, self.steps = self.n_value_heads, steps
        self.decay, self.rate = nn.Linear(d_model, H), nn.Linear(d_model, H)
        # the number whose softplus is what the first ridge is above the least
        first = math.log(math.expm1(FIRST - LEAST))
        self.ridges = nn.Parameter(torch.full((H, self.d_k), first))

    def inputs(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Any]:
        """Keys of length one, log gamma below zero, beta in (0, 1), ridges above 0."""
        return {
            **{"q": unit(q), "k": unit(k), "v": v, "steps": self.steps},
            "log_decay": F.logsigmoid(self.decay(x).to(wide(x.dtype))),
            "beta": self.rate(x).sigmoid(),
            "ridges": F.softplus(self.ridges.to(wide(x.dtype))) + LEAST,
        }

    def write(self, k: Tensor, v: Tensor, **others: Any) -> dict[str, Any]:
        """As it is: the sums are the form's own."""
        return {"k": k, "v": v, **others}
