"""The one memory in Triton: `ctlearn.layers.memory.chunkwise` as kernels.

    q, k, e [B, T, H, d_k], z [B, T, H, d_v], beta [B, T, H], S [B, H, d_k, d_v],
    log_decay [B, T, H] or [B, T, H, d_k], in [-inf, 0]

`beta`, which kernels take besides, erases along beta e and writes beta z without either
being stored; an e that is k itself is read once.
"""

from typing import NamedTuple

from ctlearn.kernels.inverse import inverse_kernel
from ctlearn.kernels.launch import launch, padded
from ctlearn.kernels.pairs import pairs_kernel
from ctlearn.kernels.required import Tensor, torch, triton
from ctlearn.kernels.scan import scan_kernel


def chunkwise(
    q: Tensor,
    k: Tensor,
    z: Tensor,
    *,
    e: Tensor | None = None,
    log_decay: Tensor | None = None,
    beta: Tensor | None = None,
    S: Tensor | None = None,
    read_first: bool = False,
    chunk_size: int = 64,
) -> tuple[Tensor, Tensor]:
    """Every chunk's triangular system, then a scan over the chunks: two kernels.

    A decay by channel takes two more, for the scores it decays. q, k, z and e are of
    one dtype, float32, float16 or bfloat16; sums and the last state are float32.
    chunk_size is 16, 32 or 64. Raises ValueError or TypeError for what does not fit.
    """
    checked(q, k, z, e, log_decay, beta, S, chunk_size)
    tokens = Tokens(q, k, z, None if e is k else e, log_decay, beta)
    return forward(tokens, S, e is not None, read_first, chunk_size)


class Tokens(NamedTuple):
    """What comes with tokens; e is None, too, where k takes its place."""

    q: Tensor
    k: Tensor
    z: Tensor
    e: Tensor | None
    log_decay: Tensor | None
    beta: Tensor | None


def checked(
    q: Tensor,
    k: Tensor,
    z: Tensor,
    e: Tensor | None,
    log_decay: Tensor | None,
    beta: Tensor | None,
    S: Tensor | None,
    chunk_size: int,
) -> None:
    """Raise, naming the argument, where shapes, dtypes or devices do not fit."""
    if k.dim() != 4:
        raise ValueError(f"k: expected [B, T, H, d_k], got {list(k.shape)}")
    if k.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise TypeError(f"k: expected float32, float16 or bfloat16, got {k.dtype}")
    B, T, H, d_k = k.shape
    d_v = z.shape[-1]
    expected: dict[str, tuple[Tensor | None, tuple]] = {
        "q": (q, ((B, T, H, d_k),)),
        "z": (z, ((B, T, H, d_v),)),
        "e": (e, ((B, T, H, d_k),)),
        "log_decay": (log_decay, ((B, T, H), (B, T, H, d_k))),
        "beta": (beta, ((B, T, H),)),
        "S": (S, ((B, H, d_k, d_v),)),
    }
    for name, (x, shapes) in expected.items():
        if x is None:
            continue
        if tuple(x.shape) not in shapes:
            wanted = " or ".join(str(list(shape)) for shape in shapes)
            raise ValueError(f"{name}: expected {wanted}, got {list(x.shape)}")
        if x.device != k.device:
            raise ValueError(f"{name}: on {x.device}, but k is on {k.device}")
        if name in ("q", "z", "e") and x.dtype != k.dtype:
            raise TypeError(f"{name}: {x.dtype}, but k is {k.dtype}")
        if not x.is_floating_point():
            raise TypeError(f"{name}: expected floating point, got {x.dtype}")
    if chunk_size not in (16, 32, 64):
        raise ValueError(f"chunk_size: expected 16, 32 or 64, got {chunk_size}")


def forward(
    tokens: Tokens, S: Tensor | None, erase: bool, read_first: bool, chunk_size: int
) -> tuple[Tensor, Tensor]:
    """Outputs and last state."""
    k, z = tokens.k, tokens.z
    B, T, H, d_k = k.shape
    d_v = z.shape[-1]
    o = torch.empty((B, T, H, d_v), dtype=z.dtype, device=z.device)
    last = torch.empty((B, H, d_k, d_v), dtype=torch.float32, device=z.device)
    P = scores(tokens, chunk_size) if by_channel(tokens) else None
    A = inverses(tokens, read_first, chunk_size) if erase else None
    choice = launch("scan", d_k, d_v)
    scan_kernel[(B * H * triton.cdiv(d_v, choice.V),)](
        *tokens,
        S,
        A,
        P,
        o,
        last,
        *(strides(x) for x in tokens),
        state_strides(S),
        strides(o),
        state_strides(last),
        T,
        H,
        d_k,
        d_v,
        C=chunk_size,
        K=padded(d_k),
        V=choice.V,
        G=gate_columns(tokens),
        LATE=int(read_first),
        **choice.how,
    )
    return o, last


def inverses(tokens: Tokens, read_first: bool, chunk_size: int) -> Tensor:
    """Every chunk's (I + L)^{-1} - I, [B, H, chunks, C, C]."""
    k, e = tokens.k, tokens.e
    A, L = square_tiles(k, chunk_size, k.dtype), None
    if by_channel(tokens):
        L = square_tiles(k, chunk_size, torch.float32)
        pairs(k if e is None else e, tokens, L, read_first)
    if A.numel():
        choice = launch("inverse", k.shape[-1])
        inverse_kernel[(A[..., 0, 0].numel(),)](
            k,
            e,
            tokens.log_decay,
            tokens.beta,
            L,
            A,
            strides(k),
            strides(e),
            strides(tokens.log_decay),
            strides(tokens.beta),
            *k.shape[1:],
            C=chunk_size,
            K=padded(k.shape[-1]),
            G=gate_columns(tokens),
            LATE=int(read_first),
            **choice.how,
        )
    return A


def scores(tokens: Tokens, chunk_size: int) -> Tensor:
    """Every chunk's P, the queries' scores under a decay by channel."""
    P = square_tiles(tokens.k, chunk_size, tokens.k.dtype)
    pairs(tokens.q, tokens, P, read_first=False)
    return P


def pairs(x: Tensor, tokens: Tokens, W: Tensor, read_first: bool) -> None:
    """Fill W with the scores of x and k under a decay by channel."""
    k, C = tokens.k, W.shape[-1]
    if W.numel():
        choice = launch("pairs", k.shape[-1])
        pairs_kernel[(W[..., 0, 0].numel() * (C // 16),)](
            x,
            k,
            tokens.log_decay,
            W,
            strides(x),
            strides(k),
            strides(tokens.log_decay),
            *k.shape[1:],
            C=C,
            K=padded(k.shape[-1]),
            LATE=int(read_first),
            **choice.how,
        )


def by_channel(tokens: Tokens) -> bool:
    """Whether every key channel decays at its own rate."""
    return tokens.log_decay is not None and tokens.log_decay.dim() == 4


def gate_columns(tokens: Tokens) -> int:
    """The columns of a tile of log decays, 0 where there are none."""
    if by_channel(tokens):
        return padded(tokens.k.shape[-1])
    return 0 if tokens.log_decay is None else 1


def square_tiles(k: Tensor, C: int, dtype: torch.dtype) -> Tensor:
    """Room for a matrix a chunk: [B, H, chunks, C, C]."""
    B, T, H, _ = k.shape
    return torch.empty((B, H, triton.cdiv(T, C), C, C), dtype=dtype, device=k.device)


def state_strides(S: Tensor | None) -> tuple[int, ...]:
    """Those of [B, d_k, H, d_v]: channels stand where tokens do."""
    return strides(None if S is None else S.transpose(1, 2))


def strides(x: Tensor | None) -> tuple[int, ...]:
    """Those of [B, T, H, d], zero for what is not there."""
    return (0, 0, 0, 0) if x is None else (*x.stride(), 0)[:4]
