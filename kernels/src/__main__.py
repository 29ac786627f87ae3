"""Print the static report: `python -m ctlearn.kernels`."""

import sys

from ctlearn.kernels import report
from ctlearn.kernels.configurations import B, C, D, H, T
from ctlearn.kernels.required import triton

FIGURES = "{:31} {:7} {:>9} {:>7} {:>7} {:>8} {:>5} {:>8} {:>5} {:>14}"
WORK = "{:31} {:>10} {:>8} {:>5} {:>7} {:>9}"


def progress(text: str) -> None:
    """Replace the progress line, where somebody looks."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def print_figures() -> None:
    """A line for every kernel and target."""
    print(
        f"Triton {triton.__version__}: bfloat16, d_k = d_v = {D}, chunks of {C}; "
        f"TTT-Linear: {D // 2}, mini-batches of 16.\n"
        "Spilled: bytes a thread, on gfx942 registers. Shared: bytes a program. "
        "Programs and\nwarps: how many fit on a processor (SM, CU) at once. Products: "
        "instructions that\nmultiply matrices; of those wgmma, and those of them that "
        "take an operand from\nregisters, which need ptxas 13.1 or newer.\n"
    )
    head = "kernel", "target", "registers", "spilled", "shared", "programs", "warps"
    print(FIGURES.format(*head, "products", "wgmma", "from registers"))
    names = list(report.sources(report.TARGETS[0].name))
    for n, name in enumerate(names):
        for target in report.TARGETS:
            progress(f"{n + 1} of {len(names)}: {name}, {target.name}")
            x = report.figures(name, target)
            progress("")
            fit = x.programs, x.programs * x.warps
            products = x.products, x.wgmma, x.from_registers
            numbers = x.registers, x.spilled, x.shared, *fit, *products
            print(FIGURES.format(name, target.name, *numbers), flush=True)


def print_work() -> None:
    """A line for every launch of the gated delta rule, and one for each direction."""
    print(
        "\nThe gated delta rule, by token and head: bytes if a launch touches each of "
        "its tensors once, and\nas its tiles ask; FLOPs of products of matrices. The "
        f"floor is that of B = {B}, T = {T}, H = {H} on a\nmachine that is assumed, "
        f"not measured, to copy {report.BANDWIDTH / 1e12} TB/s and to multiply "
        f"{report.PEAK / 1e12:.0f} TFLOP/s.\n"
    )
    print(
        WORK.format("launch", "bytes once", "as asked", "times", "FLOPs", "floor, ms")
    )
    for direction, launches in report.work().items():
        total = report.Work(*map(sum, zip(*launches.values(), strict=True)))
        lines = [(f"{direction}: {n}", x, x.floor()) for n, x in launches.items()]
        lines.append((f"{direction}, all", total, sum(x[2] for x in lines)))
        for name, x, floor in lines:
            times = f"{x.asked / x.once:.2f}"
            numbers = x.once, x.asked, times, x.flops, f"{floor:.3f}"
            print(WORK.format(name, *numbers))


print_figures()
print_work()
