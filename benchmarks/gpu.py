"""The kernels on a GPU: held to float64 there, then timed, in one table: `make gpu`.

Without a GPU it says what it would do, and does none of it. What is wrong is not timed.
Times are the GPU's own, between two events; calls are queued behind writes that empty
its cache, so that neither the cache nor Python is measured.

    error       the largest of outputs, last state and gradients against float64, each
                relative to the norm of what is right
    forward     median milliseconds of one call; `backward` of its gradients alone, and
                `both` of one after the other
    floor       milliseconds for what any form must move or multiply going forward: its
                inputs and outputs once, at the speed of a copy, or the products of
                chunks of 64, at that of one large product; both measured in this run
    % floor     the floor's share of `forward`
"""

import argparse
import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

# a script's own folder is not searched where paths are safe
sys.path.insert(0, str(Path(__file__).parent))

from common import (
    CHANNEL,
    GDN,
    LINEAR,
    SOFTMAX,
    Form,
    aligned,
    gated,
    heads_first,
    ours,
    plain,
    versions,
)
from measuring import (
    Ceilings,
    D,
    Events,
    Row,
    Shape,
    called,
    ceilings,
    inputs,
    measured,
    results,
)

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "kernels"
# What shows itself on a GPU alone, and what needs none.
ON_A_GPU, WITHOUT = TESTS / "test_on_a_gpu.py", TESTS / "test_report.py"

MAIN = Shape(8, 8192, 16)
SHAPES = (MAIN, Shape(1, 8192, 16), Shape(4, 2048, 16))
# one token and a state: few sequences wait for latency, many for memory
DECODED = (Shape(8, 1, 16), Shape(256, 1, 16))
# Milliseconds, for the gated delta rule at the main shape, on an H200.
GOALS = {"forward": 1.0, "backward": 3.5}

MEMORY, FLA = "ctlearn.kernels.memory", "fla.ops"
GDN_PEER, CHANNEL_PEER = f"{FLA}.gated_delta_rule", f"{FLA}.kda"
LINEAR_PEER = f"{FLA}.linear_attn"
SCALE_OF_ONE = gated(scale=1.0)
PLAIN = plain(normalize=False, output_final_state=True)
FORMS = (
    Form(LINEAR, f"{MEMORY}:chunkwise", ours()),
    Form(LINEAR, f"{LINEAR_PEER}:chunk_linear_attn", PLAIN),
    Form(GDN, f"{MEMORY}:chunkwise", ours()),
    Form(GDN, f"{GDN_PEER}:chunk_gated_delta_rule", SCALE_OF_ONE),
    Form(CHANNEL, f"{MEMORY}:chunkwise", ours()),
    Form(CHANNEL, f"{CHANNEL_PEER}:chunk_kda", SCALE_OF_ONE),
    Form(SOFTMAX, "torch.nn.functional:scaled_dot_product_attention", heads_first),
)
DECODERS = (
    Form(LINEAR, f"{MEMORY}:recurrent", ours()),
    Form(LINEAR, f"{LINEAR_PEER}:fused_recurrent_linear_attn", PLAIN),
    Form(GDN, f"{MEMORY}:recurrent", ours()),
    Form(GDN, f"{GDN_PEER}:fused_recurrent_gated_delta_rule", SCALE_OF_ONE),
    Form(CHANNEL, f"{MEMORY}:recurrent", ours()),
    Form(CHANNEL, f"{CHANNEL_PEER}:fused_recurrent_kda", SCALE_OF_ONE),
)
WHERE = {"device": "cuda", "dtype": "bfloat16"}
TABLES = ((FORMS, SHAPES), (DECODERS, DECODED))
# What a machine without a network lacks beside torch and Triton.
CARRIED = ["fla-core", "einops", "pytest", "iniconfig", "packaging", "pluggy"]
CARRIED += ["pygments", "pytest-xdist", "execnet"]


class MeasureError(Exception):
    """The table cannot be made; the message says why, and what can be done."""


def cases(*files: Path) -> str:
    """The numbers of the cases that tests name, as text."""
    text = " ".join(file.read_text(encoding="utf-8") for file in files)
    named = re.findall(r"\bCases? ((?:\d+(?:, | and )?)+)", text)
    numbers = {int(n) for group in named for n in re.findall(r"\d+", group)}
    return ", ".join(map(str, sorted(numbers)))


def steps() -> list[str]:
    """What is done, in order."""
    tests = sorted(set(TESTS.glob("test_*.py")) - {WITHOUT})
    return [
        "On Hopper, take a ptxas that is new enough, or stop.",
        "Run tests/kernels compiled: every kernel in every configuration against "
        f"float64, and cases {cases(*tests)}, of which {cases(ON_A_GPU)} need a GPU.",
        "Time a copy of 2 GiB, and products 8192^3 of bfloat16 and of float32.",
        f"Hold each form to float64, in bfloat16 with heads of {D}, and time it.",
    ]


def table(rows: list[Row]) -> list[list[str]]:
    """As text, under its heads."""
    heads = ["mechanism", "form", "B", "T", "H", "error", "forward", "backward"]
    lines = [[*heads, "both", "floor", "% floor"]]
    for row in rows:
        times = [row.times.get(name) for name in ("forward", "backward", "both")]
        texts = ["" if ms is None else f"{ms:.3f}" for ms in times]
        line = [row.form.mechanism, row.form.name, *map(str, row.shape)]
        if row.refused:
            lines.append([*line, "", "not timed", "", "", "", ""])
            continue
        share = f"{100 * row.floor / row.times['forward']:.0f}"
        lines.append([*line, f"{row.error:.1e}", *texts, f"{row.floor:.3f}", share])
    return lines


def markdown(lines: list[list[str]], words: int) -> list[str]:
    """The same as a table of Markdown, numbers to the right."""
    rules = ["---" if i < words else "---:" for i in range(len(lines[0]))]
    return [f"| {' | '.join(line)} |" for line in (lines[0], rules, *lines[1:])]


def notes(rows: list[Row], limits: Ceilings) -> list[str]:
    """What stands below the table: the measured ceilings, the goals, what refused."""
    lines = [str(limits), *plan_of_ours(limits)]
    for row in rows:
        if row.refused:
            lines.append(
                f"Not timed: {row.form.name}, {row.form.mechanism}, at {row.shape}: "
                f"{row.refused}."
            )
        elif row.ours and row.form.mechanism == GDN and row.shape == MAIN:
            goals = (f"{n} {row.times[n]:.3f} of {ms} ms" for n, ms in GOALS.items())
            lines.append(f"Of its goals on an H200 there: {', '.join(goals)}.")
    return lines


def plan_of_ours(limits: Ceilings) -> list[str]:
    """What our kernels move and multiply there, as the static report counts it."""
    from ctlearn.kernels import report
    from ctlearn.kernels.launch import here

    tokens, lines = MAIN.B * MAIN.T * MAIN.H, []
    for direction, launches in report.work(here()).items():
        once, asked, flops = map(sum, zip(*launches.values(), strict=True))
        floors = (
            limits.floor(x.once * tokens, x.flops * tokens) for x in launches.values()
        )
        lines.append(
            f"Going {direction}, our kernels of the {GDN} move {once:.0f} bytes a "
            "token and head if each launch touches each of its tensors once, "
            f"{asked:.0f} as their tiles ask, and make {flops:.0f} operations: "
            f"at least {sum(floors):.3f} ms at {MAIN}."
        )
    return lines


def machine(ptxas: str) -> list[str]:
    """Where and with what it ran."""
    import torch

    gpu = torch.cuda.get_device_properties(0)
    libraries = [m for m in ("torch", "triton", "fla") if importlib.util.find_spec(m)]
    return [
        f"{gpu.name}, {gpu.multi_processor_count} multiprocessors, "
        f"{gpu.total_memory / 2**30:.0f} GiB",
        f"Python {platform.python_version()}, {versions(libraries)}{ptxas}",
        f"commit {commit()}",
    ]


def commit() -> str:
    """Of the tree that this file is in, and whether it has been changed since."""
    git = ["git", "-C", str(ROOT)]
    try:
        asked = [["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "-uno"]]
        head, changed = (
            subprocess.run(git + ask, capture_output=True, check=True, text=True).stdout
            for ask in asked
        )
    except (FileNotFoundError, subprocess.CalledProcessError):
        return "unknown: this is no clone"
    return head.strip() + ", with changes" * bool(changed.strip())


def plan(why: str) -> str:
    """What is said where there is no GPU."""
    lines = [f"{why}: nothing is run, timed or written here. With a GPU:", ""]
    lines += [f"{i}. {step}" for i, step in enumerate(steps(), 1)]
    for forms, shapes in TABLES:
        lines += ["", f"{'; '.join(map(str, shapes))}"]
        lines += [f"    {form.mechanism:18} {form.name}" for form in forms]
    goals = " and ".join(f"{name} {ms} ms" for name, ms in GOALS.items())
    lines += ["", f"Goals on an H200, for the {GDN} at {MAIN}: {goals}.", ""]
    lines += [ptxas_here(), "", *how_to_carry()]
    return "\n".join(wrapped(line) for line in lines)


def wrapped(line: str) -> str:
    """For a terminal; a command stays whole."""
    if line.startswith(" "):
        return line
    return textwrap.fill(line, 88, break_long_words=False, break_on_hyphens=False)


def ptxas_here() -> str:
    """What Triton would use for Hopper, and whether it would do."""
    if not importlib.util.find_spec("triton"):
        return "Triton is not installed here, and no ptxas with it."
    from ctlearn.kernels.assembler import assemblers, chosen

    own = assemblers().own
    try:
        taken = chosen()
    except RuntimeError as no:
        return str(no)
    given = "" if taken == own else f"; it is told to use {taken}"
    return f"For Hopper, Triton here has {own}{given}."


def how_to_carry() -> list[str]:
    """The commands by which wheels reach a machine without a network."""
    pins = []
    for name in CARRIED:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            pins.append(f"{name}=={importlib.metadata.version(name)}")
    return [
        "A machine with torch and Triton but no network needs these wheels, made here:",
        "    python -m pip wheel --no-deps -w wheels .",
        f"    python -m pip download --no-deps -d wheels {' '.join(pins)}",
        "and there, in the root of this tree:",
        "    python -m pip install --no-index --no-deps --target site wheels/*.whl",
        "    PYTHONPATH=site python -P benchmarks/gpu.py",
    ]


def absent() -> str:
    """Why there is no GPU to use, or nothing; raises MeasureError if there is one."""
    if not importlib.util.find_spec("torch"):
        return "torch is not installed"
    import torch

    if torch.cuda.is_available():
        return ""
    here = any(Path(gpu).exists() for gpu in ("/dev/nvidiactl", "/dev/kfd"))
    if here and not (torch.version.cuda or torch.version.hip):
        raise MeasureError(
            f"There is a GPU, but torch {torch.__version__} is built for CPUs alone: "
            "install the build for this GPU into .venv (pytorch.org says which)."
        )
    return f"torch {torch.__version__} finds no GPU"


def choose_ptxas() -> str:
    """Let Triton use one that is new enough, and name it; nothing on other GPUs."""
    import torch

    from ctlearn.kernels.assembler import choose

    if torch.version.hip or torch.cuda.get_device_capability()[0] != 9:
        return ""
    try:
        return f"; {choose()}"
    except RuntimeError as no:
        raise MeasureError(str(no)) from no


@contextlib.contextmanager
def peers_compiling() -> Iterator[None]:
    """Compile the peers' kernels meanwhile, in processes of their own.

    They try many configurations, which takes minutes; Triton keeps what is compiled.
    """
    mechanisms = {f.mechanism for f in FORMS if f.library == "fla"}
    there = importlib.util.find_spec("fla") is not None
    command, quiet = [sys.executable, "-P", __file__, "--compile"], subprocess.DEVNULL
    processes = [
        subprocess.Popen([*command, mechanism], stdout=quiet, stderr=quiet)
        for mechanism in sorted(mechanisms)
        if there
    ]
    try:
        yield
        for process in processes:
            process.wait()
    finally:
        for process in processes:
            process.terminate()


def compile_peers(mechanism: str) -> None:
    """Call each of them as it will be timed; what one refuses is said later."""
    for forms, shapes in TABLES:
        for form in forms:
            if (form.mechanism, form.library) != (mechanism, "fla"):
                continue
            for shape in shapes:
                x, do = inputs(mechanism, shape, **WHERE)
                with contextlib.suppress(Exception):
                    results(called(form), x, do)


def run_tests() -> None:
    """tests/kernels on the GPU; raises MeasureError unless all pass."""
    command = [sys.executable, "-m", "pytest", "-q", f"--ignore={WITHOUT}", str(TESTS)]
    # warnings are errors under the versions of requirements.txt; others may warn
    command += ["-W", "default"]
    if importlib.util.find_spec("xdist"):
        command += ["-n", str(max(1, (os.cpu_count() or 1) - 3))]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if status:
        raise MeasureError(
            f"The tests above did not pass (pytest says {status}): nothing is timed."
        )


def run(rounds: int) -> tuple[list[Row], list[str]]:
    """All steps: the rows, and what else is printed; raises MeasureError."""
    start, told = time.perf_counter(), iter(enumerate(steps(), 1))

    def tell() -> None:
        number, step = next(told)
        seconds = time.perf_counter() - start
        print(wrapped(f"[{seconds:.0f} s] {number}. {step}"), flush=True)

    tell()
    lines = machine(choose_ptxas())
    print("\n".join(lines))
    tell()
    with peers_compiling():
        run_tests()
    tell()
    timer = Events()
    limits = ceilings(timer, rounds, device=WHERE["device"])
    tell()
    rows = []
    for forms, shapes in TABLES:
        for shape in shapes:
            for mechanism in dict.fromkeys(form.mechanism for form in forms):
                some = [f for f in forms if f.mechanism == mechanism]
                rows += measured(some, shape, limits, timer, rounds, **WHERE)
    print(f"[{time.perf_counter() - start:.0f} s] done\n")
    return rows, [*lines, *notes(rows, limits)]


def main() -> int:
    """Make the table, or say what it would take; the exit status is 0 if that is so.

    A file that was asked for and cannot be written is a failure.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="a file for the table, in Markdown")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compile:
        compile_peers(options.compile)
        return 0
    try:
        if why := absent():
            print(plan(why))
            return int(options.out is not None)
        rows, lines = run(options.rounds)
    except MeasureError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    text = table(rows)
    print("\n".join([*aligned(text, words=2), "", *map(wrapped, lines)]))
    if any(row.refused and row.ours for row in rows):
        return 1
    if options.out:
        page = [*markdown(text, words=2), "", *(f"- {line}" for line in lines)]
        options.out.write_text("\n".join(page) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    # kernels are compiled; and the peers' are their own in Triton, whatever else is
    # installed that they would hand their work to
    os.environ |= {"TRITON_INTERPRET": "0", "FLA_DISABLE_BACKEND_DISPATCH": "1"}
    sys.exit(main())
