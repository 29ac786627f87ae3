"""What a torch function may be given: the glossary's shapes, with batch and heads.

An array of a row for each token, [T, d], is [B, T, H, d] here; a state [d_k, d_v] is
[B, H, d_k, d_v].
"""

from typing import Any

import torch
from torch import Tensor

from ctlearn.shapes import GLOSSARY, Shape, check_shape, check_size

# The letters whose arrays are computed with; all others, gates and states, may be in
# the wider dtype of the sums.
NARROW = ("query", "key", "value", "error")


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype of states and sums: float32 for half precision, else `dtype`."""
    return torch.promote_types(dtype, torch.float32)


def check(*, per_token: bool = False, **arguments: Any) -> None:
    """Check every argument that the glossary names and that is not None.

    `per_token` drops the axis T, for forms that see one token. Nothing is checked while
    torch.compile traces, which sees no numbers and would keep the branches.

    Raises
    ------
    TypeError
        An argument is no tensor, holds integers, or differs from the first in device,
        or in dtype (decays, rates and states may be float32 beside half precision).
    ValueError
        A shape does not fit, a size such as `chunk_size` is too small, or a decay on
        the CPU is positive or NaN.
    """
    if torch.compiler.is_compiling():
        return
    sizes: dict[str, tuple[int, str]] = {}
    first: tuple[str, Tensor] | None = None
    for name, value in arguments.items():
        symbol = GLOSSARY.get(name)
        if symbol is None or value is None:
            continue
        if symbol.role == "size":
            check_size(name, value, least=1)
            continue
        first = first or (name, value)
        check_kind(name, value, first, also_wide=symbol.role not in NARROW)
        shapes = tuple(_with_heads(shape, per_token) for shape in symbol.shapes)
        check_shape(name, value, shapes, sizes)
        if symbol.role == "decay":
            check_decay(name, value)


def check_decay(name: str, log_decay: Tensor) -> None:
    """Raise ValueError if a value is positive or NaN; asked of the CPU alone.

    Elsewhere the answer would have to be waited for.
    """
    if log_decay.device.type == "cpu" and not bool((log_decay <= 0).all()):
        bad = log_decay[~(log_decay <= 0)].flatten()[0].item()
        raise ValueError(f"{name}: expected values in [−∞, 0], got {bad}")


def check_kind(
    name: str, value: Any, first: tuple[str, Tensor], *, also_wide: bool = False
) -> None:
    """Raise TypeError for what is no tensor of floats on `first`'s device, or, unless
    it is of the wider dtype and may be, not of `first`'s dtype.
    """
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(value).__name__}")
    if not value.is_floating_point():
        raise TypeError(f"{name}: expected floating-point numbers, got {value.dtype}")
    if value.device != first[1].device:
        raise TypeError(
            f"{name}: is on {value.device} but {first[0]} on {first[1].device}"
        )
    dtype = first[1].dtype
    if value.dtype != dtype and not (also_wide and value.dtype == wide(dtype)):
        raise TypeError(
            f"{name}: dtype is {value.dtype} but {first[0]} has {dtype}; "
            "mixed dtypes are not promoted"
        )


def _with_heads(shape: Shape, per_token: bool) -> Shape:
    if shape[:1] != ("T",):
        return ("B", "H", *shape)
    return ("B", "H", *shape[1:]) if per_token else ("B", "T", "H", *shape[1:])
