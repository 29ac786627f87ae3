"""What a compiler says of every kernel, for four kinds of GPU and without any of them.

Every kernel is compiled ahead of time, with the arguments of `configurations`. What is
said of a kernel's products and bytes follows from its launch. `python -m
ctlearn.kernels` prints the tables.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ctlearn.kernels.assembler import lent
from ctlearn.kernels.configurations import B, C, D, H, T, launched, sources
from ctlearn.kernels.required import Tensor, torch, triton
from ctlearn.tasks.traffic import BANDWIDTH, PEAK


class Target(NamedTuple):
    """A kind of GPU: how to compile for it, and what it has.

    `shared` is the memory, in bytes, that a program may have; a processor (an SM, or a
    CU on AMD) has `whole` for its programs, of which each takes `taken` more than it
    asks for, and in each of its four quarters room for `warps` warps and for 512
    registers a lane.
    """

    name: str
    backend: str
    arch: int | str
    warp: int
    shared: int
    whole: int
    taken: int
    warps: int


KB = 1024
HOPPER = 90
# NVIDIA: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
# AMD: "AMD Instinct MI300 Instruction Set Architecture" for registers and local memory,
# HIP's "hardware features" for waves.
TARGETS = (
    Target("sm_80", "cuda", 80, 32, 163 * KB, 164 * KB, KB, 16),
    Target("sm_90", "cuda", 90, 32, 227 * KB, 228 * KB, KB, 16),
    Target("sm_100", "cuda", 100, 32, 227 * KB, 228 * KB, KB, 16),
    Target("gfx942", "hip", "gfx942", 64, 64 * KB, 64 * KB, 0, 8),
)


class Figures(NamedTuple):
    """Of one kernel on one target.

    `spilled` is in bytes a thread on NVIDIA and in registers a lane on AMD; `programs`
    is how many fit on a processor at once, of `warps` warps each. Of the products of
    matrices, `wgmma` are a warp group's, and of those `from_registers` take an operand
    from there; `example` is one of these, or of wgmma, as PTX has it, its registers
    counted and not named.
    """

    registers: int
    spilled: int
    shared: int
    warps: int
    programs: int
    products: int
    wgmma: int
    from_registers: int
    example: str


def typed(value: Any, path: tuple, known: dict, attributes: dict) -> Any:
    """The type of what a launch passes, as Triton sees it.

    A number that sixteen divides, as every address, is compiled as such a one, and the
    number one as itself.
    """
    if isinstance(value, tuple):
        parts = enumerate(value)
        return tuple(typed(x, (*path, i), known, attributes) for i, x in parts)
    if isinstance(value, Tensor):
        attributes[path] = [["tt.divisibility", 16]]
        return {torch.bfloat16: "*bf16", torch.float32: "*fp32"}[value.dtype]
    if not isinstance(value, int) or value == 1:
        known[path] = value
        return "constexpr"
    if value % 16 == 0:
        attributes[path] = [["tt.divisibility", 16]]
    return "i32" if abs(value) < 2**31 else "i64"


def compiled(name: str, target: Target) -> Any:
    """One kernel for one target, as it is launched."""
    kernel, arguments = sources(target.name)[name]
    signature: dict[str, Any] = {}
    known: dict[tuple, Any] = {}
    attributes: dict[tuple, Any] = {}
    for i, parameter in enumerate(kernel.params):
        value = arguments[parameter.name]
        if parameter.is_constexpr:
            known[i,], signature[parameter.name] = value, "constexpr"
        elif parameter.do_not_specialize and value is not None:
            signature[parameter.name] = "i32"
        else:
            signature[parameter.name] = typed(value, (i,), known, attributes)
    source = ASTSource(
        fn=kernel, signature=signature, constexprs=known, attrs=attributes
    )
    gpu = GPUTarget(target.backend, target.arch, target.warp)
    how = launched(name, target.name).how
    # as on a GPU, where `launch` chooses; the variable would be for sm_80, too
    assembler = lent() if target.arch == HOPPER else contextlib.nullcontext()
    with assembler:
        return triton.compile(source, target=gpu, options=how)


def figures(name: str, target: Target) -> Figures:
    """What the compiler says of it."""
    program = compiled(name, target)
    shared, warps = program.metadata.shared, program.metadata.num_warps
    if target.backend == "hip":
        text = program.asm["amdgcn"]
        numbers = dict(re.findall(r"\.(vgpr_\w*count):\s*(\d+)", text))
        registers, spilled = (int(numbers[f"vgpr_{x}count"]) for x in ("", "spill_"))
        products, wgmma, held = len(re.findall("v_mfma", text)), [], []
    else:
        usage, text = resources(program.asm["cubin"]), program.asm["ptx"]
        registers, spilled = usage["REG"], usage["STACK"]
        products = len(re.findall(r"\b(?:mma\.sync|tcgen05\.mma)\b", text))
        wgmma = re.findall(r"\bwgmma\.mma_async\b[^;]*", text)
        # a second group in braces is an operand that lies in registers
        held = [x for x in wgmma if re.search(r"\}\s*,\s*\{", x)]
    room = programs(target, registers, shared, warps)
    example = " ".join((held or wgmma or [""])[0].split())
    example = re.sub(r"\{[^{}]*\}", lambda x: f"{{{x[0].count('%')}}}", example)
    counts = products + len(wgmma), len(wgmma), len(held)
    return Figures(registers, spilled, shared, warps, room, *counts, example)


ASK = """
import json, sys, triton
from ctlearn.kernels import report
names, targets = json.loads(sys.argv[1])
found = {}
for target in report.TARGETS:
    if target.name in targets:
        some = names or report.sources(target.name)
        found[target.name] = {n: report.figures(n, target)._asdict() for n in some}
print(json.dumps([triton.__version__, found]))
"""


def elsewhere(
    names: Collection[str] = (),
    targets: Collection[str] = tuple(target.name for target in TARGETS),
    **variables: str,
) -> tuple[str, dict[str, dict[str, Figures]]]:
    """Triton's version, and the figures by target and kernel; all if none is named.

    In a process that compiles, whether or not kernels are interpreted in this one, with
    some variables of its environment set. Raises RuntimeError with what it said if it
    fails.
    """
    environment = {n: x for n, x in os.environ.items() if n != "TRITON_INTERPRET"}
    arguments = json.dumps([list(names), list(targets)])
    run = subprocess.run(
        [sys.executable, "-c", ASK, arguments],
        env=environment | variables,
        capture_output=True,
        check=False,
        text=True,
    )
    if run.returncode:
        raise RuntimeError(run.stderr)
    version, found = json.loads(run.stdout)
    return version, {
        target: {name: Figures(**x) for name, x in of_target.items()}
        for target, of_target in found.items()
    }


def programs(target: Target, registers: int, shared: int, warps: int) -> int:
    """How many programs fit on a processor: of 32 at most, as on all targets."""
    # registers come in eights, and a warp lies in one quarter of the processor
    a_quarter = min(target.warps, 512 // (8 * -(-registers // 8)))
    by_shared = target.whole // max(shared + target.taken, 1)
    return min(32, 4 * a_quarter // warps, by_shared)


def resources(cubin: bytes) -> dict[str, int]:
    """Registers and stack of a program for NVIDIA, from Triton's own cuobjdump."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(tool), "--dump-resource-usage", file.name]
        out = subprocess.run(command, capture_output=True, check=True, text=True)
    return {n: int(x) for n, x in re.findall(r"(REG|STACK):(\d+)", out.stdout)}


class Work(NamedTuple):
    """What a launch does for a token and head.

    `once` counts every byte of its tensors once; `asked` what its tiles ask for, of
    which a cache may serve what is asked for again. A multiplication with its addition
    is two of `flops`; those of matrices are counted, also where half of one is masked.
    """

    once: float
    asked: float
    flops: float

    def floor(self) -> float:
        """Milliseconds of all tokens and heads, if bytes and products overlap."""
        seconds = max(self.once / BANDWIDTH, self.flops / PEAK)
        return 1e3 * seconds * B * T * H


def work(target: str = "sm_90") -> dict[str, dict[str, Work]]:
    """By direction and launch, for the gated delta rule."""
    # bytes: a row of q, k, v or o; a row of a chunk's square matrix; a gate and a rate;
    # a chunk's share of a state
    row, square, gates, state = 2 * D, 2 * C, 4 + 2, 2 * D * D // C
    # a row times a chunk of rows, or times a state
    chunk, whole = 2 * C * D, 2 * D * D
    tiles = D // launched("scan", target).V
    back = D // launched("reverse", target).V
    shares = D // launched("gradients", target).K

    def scanned(own: int, shared: int, times: int, flops: int) -> Work:
        return Work(own + shared, own + times * shared, flops)

    # k and gates; A
    system = scanned(row + gates + square, 0, 1, chunk)
    every = square + gates
    return {
        "forward": {
            "inverse": system,
            # z, o; q, k
            "scan": scanned(
                2 * row, 2 * row + every, tiles, (tiles + 2) * chunk + 3 * whole
            ),
        },
        "backward": {
            "inverse": system,
            # z, R, states; k
            "scan, for gradients": scanned(
                2 * row + state, row + every, tiles, chunk + 2 * whole
            ),
            # do, dX, states; q, k
            "reverse": scanned(
                2 * row + state, 2 * row + every, back, (back + 2) * chunk + 3 * whole
            ),
            # q, k, dq, dk, z, dz, both states, shares of dg and dbeta; R, do, dX
            "gradients": scanned(
                6 * row + 2 * state + 8 * shares,
                3 * row + gates,
                shares,
                (2 * shares + 6) * chunk + 3 * whole,
            ),
        },
    }


def traffic() -> dict[str, int]:
    """Bytes and multiplications of the way forward, a token and head."""
    total = Work(*map(sum, zip(*work()["forward"].values(), strict=True)))
    once, asked, flops = map(int, total)
    return {"once": once, "read": asked, "multiplications": flops // 2}
