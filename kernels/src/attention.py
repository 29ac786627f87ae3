"""Softmax and sliding-window attention in Triton, with the weight that each answer has.

    s_ij = q_i' k_j,   o_i = sum_j exp(s_ij - lse_i) v_j,   lse_i = log sum_j exp(s_ij)

    q [B, T, H, d_k], k [B, t, H_k, d_k], v [B, t, H_k, d_v], o [B, T, H, d_v],
    lse [B, T, H], in float32

over the keys j that query i may see. Nothing is scaled: a layer scales q. H is a
multiple of H_k, and query head h reads key head h // (H / H_k). `attend` is one kernel
forward and two backward; `softmax_attention` and `sliding_window_attention` put a cache
before it, as those of `ctlearn.layers.attention` do.
"""

from typing import Any

from ctlearn.kernels.attention_backward import keys_kernel, queries_kernel
from ctlearn.kernels.attention_forward import attention_kernel
from ctlearn.kernels.launch import Launch, launch
from ctlearn.kernels.memory import checked, view
from ctlearn.kernels.required import Tensor, torch, triton
from ctlearn.layers.arguments import check_kind
from ctlearn.layers.attention import Cache, extended, turned
from ctlearn.shapes import check_shape, check_size


def softmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    angle: Tensor | None = None,
    S: Cache | None = None,
) -> tuple[Tensor, Cache]:
    """`ctlearn.layers.attention.softmax_attention` by `attend`: the same arguments."""
    S = extended(q, k, v, S)
    q, K = turned(q, S.K, angle)
    return attend(q, K, S.V)[0], S


def sliding_window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    window: int,
    angle: Tensor | None = None,
    S: Cache | None = None,
) -> tuple[Tensor, Cache]:
    """`ctlearn.layers.attention.sliding_window_attention` by `attend`."""
    S = extended(q, k, v, S)
    q, K = turned(q, S.K, angle)
    return attend(q, K, S.V, window=window)[0], S.last(window)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    window: int | None = None,
    first: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Answers o and their lse, both differentiable; no array of T x t is stored.

    Query i is at place `first` + i, where key j is at place j: by default the queries
    are the last T of the t tokens. It sees keys up to its place, the last `window` of
    them if there is one, which is at least 1. If it sees none, o is zero and lse minus
    infinity. q, k and v are of one dtype, float32, float16 or bfloat16; scores, sums
    and lse are float32.

    Raises
    ------
    TypeError
        dtypes or devices differ, or `window` or `first` is no integer.
    ValueError
        A shape does not fit, H is no multiple of H_k, or `window` is below 1.
    """
    _check(q, k, v, window, first)
    T, t = q.shape[1], k.shape[1]
    first = t - T if first is None else first
    # longer than any distance, it is none
    if window is not None and window >= first + T:
        window = None
    trained = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    return forward(q, k, v, window, first, trained)[:2]


def merged(*parts: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The (o, lse) of all keys, from those of each part of them.

        lse = log sum_n exp(lse_n),   o = sum_n exp(lse_n - lse) o_n

    The parts may lie in different memories, or be worked on at once.
    """
    lse = torch.logsumexp(torch.stack([weight for _, weight in parts]), 0)
    shift = torch.where(lse.isinf(), 0, lse)
    o = sum((weight - shift).exp()[..., None] * answer for answer, weight in parts)
    return o.to(parts[0][0].dtype), lse


def _check(
    q: Tensor, k: Tensor, v: Tensor, window: int | None, first: int | None
) -> None:
    if torch.compiler.is_compiling():
        return
    sizes: dict[str, tuple[int, str]] = {}
    checked(k=k)
    for name, x, shape in (
        ("k", k, ("B", "t", "H_k", "d_k")),
        ("q", q, ("B", "T", "H", "d_k")),
        ("v", v, ("B", "t", "H_k", "d_v")),
    ):
        check_kind(name, x, ("k", k))
        check_shape(name, x, (shape,), sizes)
    H, H_k = q.shape[2], k.shape[2]
    if H % H_k:
        raise ValueError(f"q: expected a multiple of k's H_k = {H_k} heads, got {H}")
    if first is not None:
        check_size("first", first, least=-(2**31))
    if window is not None:
        check_size("window", window, least=1)


def _choice(kernel: str, d_k: int, v: Tensor) -> Launch:
    """All three have one choice in float32."""
    name = "attention in float32" if v.dtype == torch.float32 else kernel
    return launch(name, d_k, v.shape[-1])


@torch.library.custom_op("ctlearn::attention", mutates_args=())
def forward(
    q: Tensor, k: Tensor, v: Tensor, window: int | None, first: int, trained: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs o, lse, and what o's rounding lost if it loses and a gradient asks."""
    B, T, H, d_k = q.shape
    d_v = v.shape[-1]
    o, lse, lost = _results_like(q, k, v, window, first, trained)
    choice = _choice("attention", d_k, v)
    if o.numel():
        attention_kernel[(B * H * triton.cdiv(T, choice.C),)](
            *map(view, (q, k, v, o, lost if lost.numel() else None, lse)),
            T, k.shape[1], H, first, window, d_k, d_v,
            C=choice.C, N=choice.N, K=choice.K, V=choice.V, GROUP=H // k.shape[2],
            **choice.how,
        )  # fmt: skip
    return o, lse, lost


@forward.register_fake
def _results_like(
    q: Tensor, k: Tensor, v: Tensor, window: int | None, first: int, trained: bool
) -> tuple[Tensor, Tensor, Tensor]:
    rows = q.shape[:3]
    rounded = trained and v.dtype != torch.float32
    o, lost = (
        torch.empty((*rows, d), dtype=v.dtype, device=v.device)
        for d in (v.shape[-1], v.shape[-1] if rounded else 0)
    )
    return o, torch.empty(rows, dtype=torch.float32, device=v.device), lost


@torch.library.custom_op("ctlearn::attention_backward", mutates_args=())
def backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    lost: Tensor,
    do: Tensor,
    dlse: Tensor,
    window: int | None,
    first: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v."""
    B, T, H, d_k = q.shape
    t, H_k, d_v = v.shape[1:]
    dq, dk, dv = _gradients_like(q, k, v)
    delta = torch.empty(lse.shape, dtype=lse.dtype, device=lse.device)
    sizes = T, t, H, first, window, d_k, d_v
    choice = _choice("attention queries", d_k, v)
    if dq.numel():
        queries_kernel[(B * H * triton.cdiv(T, choice.C),)](
            *map(view, (q, k, v, o, lost if lost.numel() else None)),
            *map(view, (lse, do, dlse, delta, dq)), *sizes,
            C=choice.C, N=choice.N, K=choice.K, V=choice.V, GROUP=H // H_k,
            **choice.how,
        )  # fmt: skip
    choice = _choice("attention keys", d_k, v)
    if dk.numel():
        keys_kernel[(B * H_k * triton.cdiv(t, choice.N),)](
            *map(view, (q, k, v, lse, do, delta, dk, dv)), *sizes,
            C=choice.C, N=choice.N, K=choice.K, V=choice.V, GROUP=H // H_k,
            **choice.how,
        )  # fmt: skip
    return dq, dk, dv


@backward.register_fake
def _gradients_like(
    q: Tensor, k: Tensor, v: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    dq, dk, dv = (
        torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v)
    )
    return dq, dk, dv


def _keep(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.save_for_backward(*inputs[:3], *output)
    ctx.how = inputs[3:5]


def _gradients(ctx: Any, do: Tensor, dlse: Tensor, _: Tensor) -> tuple:
    return *backward(*ctx.saved_tensors, do, dlse, *ctx.how), None, None, None


forward.register_autograd(_gradients, setup_context=_keep)
