"""What a compiler says of every kernel, for four kinds of GPU and without any of them.

Every kernel is compiled ahead of time as it is launched for the gated delta rule in
bfloat16, with heads of 128 channels. `python -m ctlearn.kernels` prints the table.
"""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ctlearn.kernels.gradients import gradients_kernel
from ctlearn.kernels.inverse import inverse_kernel
from ctlearn.kernels.launch import launch
from ctlearn.kernels.pairs import pairs_kernel
from ctlearn.kernels.recurrent import recurrent_kernel
from ctlearn.kernels.required import triton
from ctlearn.kernels.reverse import reverse_kernel
from ctlearn.kernels.scan import scan_kernel

D, C = 128, 64


class Target(NamedTuple):
    """A kind of GPU, and the shared memory that a program may have there, in bytes."""

    name: str
    backend: str
    arch: int | str
    warp: int
    shared: int


TARGETS = (
    Target("sm_80", "cuda", 80, 32, 163 * 1024),
    Target("sm_90", "cuda", 90, 32, 227 * 1024),
    Target("sm_100", "cuda", 100, 32, 227 * 1024),
    Target("gfx942", "hip", "gfx942", 64, 64 * 1024),
)


class Figures(NamedTuple):
    """Of one kernel on one target; `spilled` is in bytes a thread, registers on AMD."""

    registers: int
    spilled: int
    shared: int
    matrix_instructions: int
    from_registers: int


def sources() -> dict[str, tuple[Any, dict, dict]]:
    """Every kernel by name: itself, the types of its arguments, and its constants."""
    rows, state, column = seen("*bf16"), seen("*fp32"), seen("*fp32", last=0)
    scalar = (rows, rows, rows, None, column, seen("*bf16", last=0))
    vector = (rows, rows, rows, None, state, seen("*bf16", last=0))
    sizes: dict[str, Any] = {"T": "i32", "H": "i32"}
    heads = {"d_k": D, "d_v": D, "LATE": 0}

    def tiled(kernel: str, **constants: int) -> dict:
        choice = launch(kernel, D, D)
        return heads | {"K": choice.K, "V": choice.V, "C": C} | constants

    forward = {"S": state, "A": "*bf16", "o": rows, "last": state} | sizes
    forward |= {"R": None, "before": None}
    back = {"A": "*bf16", "P": None, "do": rows, "dlast": state, "dX": rows}
    back |= {"after": rows, "dS": state} | sizes
    chunk = {"R": rows, "do": rows, "dX": rows, "before": rows, "after": rows}
    chunk |= {"dq": rows, "dk": rows, "dz": rows, "de": None}
    chunk |= {"dg": column, "dbeta": column, "B_H": "i32"} | sizes
    scores = {"x": rows, "y": rows, "log_decay": state, "W": "*bf16"} | sizes
    system = {"L": None, "A": "*bf16"} | sizes
    return {
        "inverse": (
            inverse_kernel,
            {"tokens": scalar} | system,
            tiled("inverse", G=1),
        ),
        "scan": (
            scan_kernel,
            {"tokens": scalar, "P": None} | forward,
            tiled("scan", G=1),
        ),
        "reverse": (reverse_kernel, {"tokens": scalar} | back, tiled("reverse", G=1)),
        "gradients": (
            gradients_kernel,
            {"tokens": scalar} | chunk,
            tiled("gradients", G=1, ERASE=True),
        ),
        "recurrent": (
            recurrent_kernel,
            {"tokens": scalar, "S": state, "o": rows, "last": state} | sizes,
            tiled("recurrent", G=1, ERASE=True),
        ),
        "pairs": (pairs_kernel, scores, tiled("pairs")),
        "scan by channel": (
            scan_kernel,
            {"tokens": vector, "P": "*bf16"} | forward,
            tiled("scan by channel", G=D),
        ),
    }


def seen(pointer: str, last: int = 1) -> tuple:
    """The types of a view: a pointer, and strides that sixteen divides but the last."""
    return pointer, ("i64", "i64", "i64", last)


def compiled(name: str, target: Target) -> Any:
    """One kernel for one target, as it is launched."""
    kernel, arguments, constants = sources()[name]
    signature: dict[str, Any] = {}
    known: dict[tuple, Any] = {}
    attributes: dict[tuple, Any] = {}

    def typed(value: Any, path: tuple) -> Any:
        if isinstance(value, tuple):
            return tuple(typed(x, (*path, i)) for i, x in enumerate(value))
        if not isinstance(value, str):
            known[path] = value
            return "constexpr"
        if value != "i32":
            attributes[path] = [["tt.divisibility", 16]]
        return value

    for i, parameter in enumerate(kernel.arg_names):
        value = constants.get(parameter, arguments.get(parameter))
        signature[parameter] = typed(value, (i,))
    source = ASTSource(
        fn=kernel, signature=signature, constexprs=known, attrs=attributes
    )
    gpu = GPUTarget(target.backend, target.arch, target.warp)
    return triton.compile(source, target=gpu, options=launch(name, D, D).how)


def figures(name: str, target: Target) -> Figures:
    """What the compiler says of it."""
    program = compiled(name, target)
    shared = program.metadata.shared
    if target.backend == "hip":
        text = program.asm["amdgcn"]
        numbers = dict(re.findall(r"\.(vgpr_\w*count):\s*(\d+)", text))
        registers, spilled = (int(numbers[f"vgpr_{x}count"]) for x in ("", "spill_"))
        return Figures(registers, spilled, shared, text.count("v_mfma"), 0)
    usage = resources(program.asm["cubin"])
    text = program.asm["ptx"]
    matrix = re.findall(r"(?:wgmma\.mma_async|mma\.sync|tcgen05\.mma)\b", text)
    # a second group in braces is an operand that lies in registers
    held = re.findall(r"wgmma\.mma_async[^;]*?\}\s*,\s*\{", text)
    return Figures(usage["REG"], usage["STACK"], shared, len(matrix), len(held))


def resources(cubin: bytes) -> dict[str, int]:
    """Registers and stack of a program for NVIDIA, from Triton's own cuobjdump."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(tool), "--dump-resource-usage", file.name]
        out = subprocess.run(command, capture_output=True, check=True, text=True)
    return {n: int(x) for n, x in re.findall(r"(REG|STACK):(\d+)", out.stdout)}


def traffic() -> dict[str, int]:
    """Bytes and multiplications of the way forward, a token and head, by launch.

    `once` counts every tensor of a kernel once; `read` what its tiles ask for, of which
    a cache may serve what is asked for again.
    """
    narrow, gates = 2 * D, 4 + 2
    tiles = D // launch("scan", D, D).V
    shared, own = 2 * narrow + 2 * C + gates, 2 * narrow
    system = narrow + gates + 2 * C
    return {
        "once": system + shared + own,
        "read": system + tiles * shared + own,
        "multiplications": C * D + tiles * C * D + 3 * D * D + 2 * C * D,
    }
