"""Every kernel compiles for four kinds of GPU, within what they have, without one."""

import ast
import functools
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
triton = pytest.importorskip(
    "triton", reason='no Triton: pip install "ctlearn[torch]" on Linux'
)

from ctlearn.kernels import launch, report  # noqa: E402

TARGETS = [target.name for target in report.TARGETS]
# What does not fit into registers, in bytes a thread. What is not listed here spills
# nothing, and none may come to spill more. sm_80 alone takes the operands of products
# from registers, of which the five accumulators of a chunk's gradients leave too few,
# however narrow the tiles; a scan by channel lacks two.
SPILLED = {"sm_80": {"gradients": 152, "scan by channel": 8}}
# Where another Triton lies; book/tools/setup.py puts it there.
OTHER = Path(sys.prefix) / "other-triton"


def compiled(code, *arguments, **variables):
    """What a process prints in which kernels are compiled, not interpreted."""
    environment = {n: x for n, x in os.environ.items() if n != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment | variables,
        capture_output=True,
        check=False,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@functools.cache
def figures(*names, **variables):
    """Triton's version, and its figures by target and kernel; all if none is named."""
    return report.elsewhere(names, **variables)


def kernel(name):
    """The name of the kernel that is launched as a source."""
    return name.partition(",")[0].removesuffix(" by channel")


@pytest.mark.parametrize("target", report.TARGETS, ids=TARGETS)
def test_every_kernel_compiles_and_fits(target):
    """Case 39: its shared memory is within the target's, and so are its registers."""
    version, found = figures()
    found = found[target.name]
    assert version == triton.__version__
    assert set(found) == set(report.sources(target.name))
    for name, x in found.items():
        assert x.shared <= target.shared, name
        assert x.programs >= 1, name
        assert x.spilled <= SPILLED.get(target.name, {}).get(name, 0), name
        # none, or of sixteen rows only, or in float32: all others are of 64 rows
        few = kernel(name) in ("pairs", "recurrent") or name == "inverse, by channel"
        assert few or x.products, name
        assert bool(x.wgmma) == (target.name == "sm_90" and not few), name
        assert x.example.startswith("wgmma.mma_async") == bool(x.wgmma), name
        # the sum, and maybe an operand
        assert x.example.count("{") == bool(x.wgmma) + bool(x.from_registers), name


@pytest.mark.parametrize("target", report.TARGETS, ids=TARGETS)
def test_another_triton_takes_every_kernel(target):
    """Case 43: those without a comma; and shared memory is within the target's."""
    if not OTHER.is_dir():
        pytest.skip(f"no other Triton in {OTHER}: make test puts one there")
    names = [name for name in report.sources(target.name) if "," not in name]
    version, found = figures(*names, PYTHONPATH=str(OTHER))
    assert version != triton.__version__
    assert set(found[target.name]) == set(names)
    assert max(x.shared for x in found[target.name].values()) <= target.shared


def test_the_report_is_printed(monkeypatch, capsys):
    """A line of figures by kernel and target, and of work by launch."""
    monkeypatch.setattr(report, "figures", lambda *_: report.Figures(*range(9)))
    runpy.run_module("ctlearn.kernels", run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    for name in report.sources("sm_90"):
        assert sum(line.startswith(f"{name:31} ") for line in lines) == len(TARGETS)
    assert any("forward, all" in line and " 1548 " in line for line in lines)


def test_a_forward_pass_moves_little():
    """1.7 GB at B = 8, T = 8192, H = 16, if each kernel touches each tensor once."""
    moved = report.traffic()
    assert moved["once"] * 8 * 8192 * 16 <= 1.7e9
    scan = report.work()["forward"]["scan"]
    # four programs of 32 value columns read what they share
    assert launch.launch("scan", 128, 128, "sm_90").V == 32
    assert scan.asked - scan.once == 3 * (2 * 256 + 128 + 6)
    assert report.Work(4300, 0, 0).floor() == pytest.approx(2**20 * 1e-6)
    assert report.Work(0, 0, 790e3).floor() == pytest.approx(2**20 * 1e-6)


def test_programs_that_fit_on_a_processor():
    sm_90, gfx942 = report.TARGETS[1], report.TARGETS[3]
    # 64 Ki registers an SM are 255 each of two programs of 128 threads, twice
    assert report.programs(sm_90, 255, 0, 4) == 2
    assert report.programs(sm_90, 128, 0, 4) == 4
    assert report.programs(sm_90, 32, 100 * 1024, 4) == 2
    assert report.programs(sm_90, 32, 0, 1) == 32
    assert report.programs(gfx942, 257, 0, 4) == 1
    assert report.programs(gfx942, 128, 32 * 1024, 4) == 2


def test_the_kind_of_a_gpu():
    """GPUs with less shared memory than data centres' take sm_80's choices."""
    kinds = {8: "sm_80", 9: "sm_90", 10: "sm_100", 12: "sm_80"}
    assert {major: launch.kind(major, amd=False) for major in kinds} == kinds
    assert launch.kind(9, amd=True) == "gfx942"
    named = {target for row in launch.CHOICES.values() for target in row}
    assert named - {""} <= set(TARGETS)


def test_a_cpu_is_turned_away():
    """Case 47: where kernels are compiled, and before Triton looks for a GPU."""
    code = (
        "import torch; from ctlearn.kernels import memory\n"
        "try: memory.chunkwise(*torch.zeros(3, 1, 4, 1, 16))\n"
        "except ValueError as no: print(no)\n"
    )
    assert compiled(code).startswith("k: on cpu")


def compiled_functions():
    """Every function that Triton compiles: its name, its node, its file's lines."""
    for file in sorted(Path(report.__file__).parent.glob("*.py")):
        text = file.read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and any(
                ast.unparse(x).startswith("triton.jit") for x in node.decorator_list
            ):
                yield f"{file.stem}.{node.name}", node, text.splitlines()


def test_kernels_are_short_and_say_what_they_do():
    found = {name: node for name, node, _ in compiled_functions()}
    assert len([name for name in found if name.endswith("_kernel")]) >= 6
    for name, node in found.items():
        assert ast.get_docstring(node), name
        assert node.end_lineno - node.lineno < 120, name


def test_no_two_kernels_share_six_lines():
    """Of code, one after another, blank lines left out."""
    seen = {}
    for name, node, lines in compiled_functions():
        first = node.body[1].lineno - 1
        code = [x.strip() for x in lines[first : node.end_lineno] if x.strip()]
        for i in range(len(code) - 5):
            other = seen.setdefault(tuple(code[i : i + 6]), name)
            assert other == name, f"{name} and {other}: {code[i : i + 6]}"
