"""Kernels on a CPU: Triton's interpreter, taught bfloat16, and what a launch touches.

A notebook says `begin()` before anything imports Triton. The interpreter shows every
number that a kernel loads, multiplies and stores; it shows no time, no race, no layout
and no rounding of a GPU's own.
"""

import contextlib
import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np


def begin() -> str:
    """Interpret all kernels from here on, on any machine; says what happens.

    Where there is no Triton, the cells of a notebook that follow are left out.
    Raises RuntimeError if Triton has been imported and would compile.
    """
    if importlib.util.find_spec("triton") is None:
        leave_out_cells()
        return (
            "There is no Triton here; it is made for Linux. The cells below are left "
            "out. ctlearn.layers computes the same."
        )
    asked = os.environ.get("TRITON_INTERPRET")
    if "triton" in sys.modules and asked != "1":
        raise RuntimeError(
            "Triton has been imported and would compile: restart, and begin before it"
        )
    os.environ["TRITON_INTERPRET"] = "1"
    teach()
    return "Kernels are interpreted."


def leave_out_cells() -> None:
    """Have IPython, if that is where this runs, run nothing of what follows."""
    if "IPython" in sys.modules:
        shell = sys.modules["IPython"].get_ipython()
        if shell is not None:
            shell.input_transformers_post.append(lambda lines: [])


@functools.cache
def teach() -> None:
    """Teach the interpreter what it lacks; nothing to do the second time."""
    import triton.language as tl
    from triton.runtime import interpreter

    teach_bfloat16(interpreter, tl)
    patch_once(interpreter, tl)


def widened(bits: np.ndarray) -> np.ndarray:
    """The float32 of bfloat16 bits: they are its upper half."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrowed(x: np.ndarray) -> np.ndarray:
    """The bits of the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    # one less than half of what is dropped, and one more where what is kept is odd
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return np.where(np.isnan(x), 0x7FC0, rounded >> np.uint32(16)).astype(np.uint16)


def teach_bfloat16(interpreter: Any, tl: Any) -> None:
    """Let Triton's interpreter round to bfloat16, multiply in it, and refuse the rest.

    It holds bfloat16 as its bits. Its casts truncate, and its arithmetic, products of
    matrices too, is that of the bits as integers. Our kernels load and store bfloat16
    and multiply matrices of it; other arithmetic on it raises.
    """
    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
    cast, dot, binary = builder.cast_impl, builder.create_dot, builder.binary_op

    def is_bits(x: Any) -> bool:
        return x.dtype.scalar == tl.bfloat16

    def wide(x: Any) -> Any:
        return handle(widened(x.data), tl.float32) if is_bits(x) else x

    def new_cast(self: Any, x: Any, dtype: Any, *_: Any) -> Any:
        x = wide(x)
        if dtype.scalar == tl.bfloat16:
            return handle(narrowed(x.data), tl.bfloat16)
        return cast(self, x, dtype)

    def new_dot(self: Any, x: Any, y: Any, total: Any, *how: Any) -> Any:
        return dot(self, wide(x), wide(y), total, *how)

    def new_binary(self: Any, x: Any, y: Any, operation: Any) -> Any:
        if is_bits(x) or is_bits(y):
            raise TypeError("arithmetic on bfloat16: kernels compute in float32")
        return binary(self, x, y, operation)

    builder.cast_impl = builder.create_fp_to_fp = new_cast
    builder.create_dot, builder.binary_op = new_dot, new_binary


def patch_once(interpreter: Any, tl: Any) -> None:
    """Patch the language once a launch, and not at every call of a function.

    The calls would take longer than what is computed, as would making the table of
    dtypes at every look. Functions of ours see the language as `tl`, those of its own,
    such as `zeros`, as `core`.
    """
    look_up = interpreter._get_np_dtype
    of_scalar = functools.cache(look_up)
    interpreter._get_np_dtype = lambda x: (
        look_up(x) if x.scalar.is_ptr() else of_scalar(x.scalar)
    )
    patch = interpreter._patch_lang

    def patch_both(kernel: Any) -> Any:
        scope = patch(kernel)
        scope._changes += patch(tl.zeros.fn)._changes
        return scope

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return self.rewrite()(*arguments, **named)

    interpreter._patch_lang = patch_both
    interpreter.InterpretedFunction.__call__ = call


class Launch(NamedTuple):
    """What one launch did: addresses, in order and with repeats, and multiplications.

    `products` are those of matrices, whole tiles, padding and all.
    """

    kernel: str
    grid: tuple[int, ...]
    loads: list[np.ndarray]
    stores: list[np.ndarray]
    products: list[int]

    def read(self) -> np.ndarray:
        """Every address that was loaded, repeats included."""
        return np.concatenate([np.zeros(0, np.uint64), *self.loads])

    def written(self) -> np.ndarray:
        """Every address that was stored to, repeats included."""
        return np.concatenate([np.zeros(0, np.uint64), *self.stores])

    def numbers(self, *without: Any) -> int:
        """Numbers in memory that it touched, each once, some tensors left out."""
        touched = np.unique(np.concatenate([self.read(), self.written()]))
        for x in without:
            start = x.data_ptr()
            end = start + x.element_size() * x.numel()
            touched = touched[(touched < start) | (touched >= end)]
        return len(touched)


@contextlib.contextmanager
def watched(
    allowed: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Iterator[list[Launch]]:
    """The launches of the block that follows, as they come.

    If `allowed` is given, it says of addresses which may be looked at: from others
    zeros are loaded, and nothing is stored there.
    """
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle
    from triton.runtime.jit import KernelInterface

    launches: list[Launch] = []
    launcher, dot = KernelInterface.__getitem__, InterpreterBuilder.create_dot

    def launched(kernel: Any, grid: Any) -> Any:
        launches.append(Launch(kernel.__name__, tuple(grid), [], [], []))
        return launcher(kernel, grid)

    def seen(real: Callable, kind: str, values: int) -> Callable:
        def access(self: Any, pointers: Any, *rest: Any) -> Any:
            mask = rest[values]
            touched = pointers.data[mask.data].ravel()
            getattr(launches[-1], kind).append(touched)
            if allowed is not None:
                inside = mask.data & allowed(pointers.data)
                mask = TensorHandle(inside, mask.dtype)
            return real(self, pointers, *rest[:values], mask, *rest[values + 1 :])

        return access

    def multiplied(self: Any, x: Any, y: Any, *rest: Any) -> Any:
        launches[-1].products.append(x.data.size * y.data.shape[-1])
        return dot(self, x, y, *rest)

    places = (
        (KernelInterface, "__getitem__", launched),
        (InterpreterBuilder, "create_dot", multiplied),
        (
            InterpreterBuilder,
            "create_masked_load",
            seen(InterpreterBuilder.create_masked_load, "loads", 0),
        ),
        (
            InterpreterBuilder,
            "create_masked_store",
            seen(InterpreterBuilder.create_masked_store, "stores", 1),
        ),
    )
    before = [(place, name, getattr(place, name)) for place, name, _ in places]
    for place, name, new in places:
        setattr(place, name, new)
    try:
        yield launches
    finally:
        for place, name, old in before:
            setattr(place, name, old)
