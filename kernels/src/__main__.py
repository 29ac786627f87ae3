"""Print the static report: `python -m ctlearn.kernels`."""

from ctlearn.kernels import report

print("gated delta rule, bfloat16, d_k = d_v = 128, chunks of 64; no GPU is asked")
print(
    f"{'kernel':16} {'target':8} {'registers':>9} {'spilled':>8} {'shared':>8} "
    f"{'matrix':>7} {'of registers':>12}"
)
for name in report.sources():
    for target in report.TARGETS:
        found = report.figures(name, target)
        print(
            f"{name:16} {target.name:8} {found.registers:9} {found.spilled:8} "
            f"{found.shared:8} {found.matrix_instructions:7} {found.from_registers:12}",
            flush=True,
        )
moved = report.traffic()
print(
    f"forward, a token and head: {moved['once']} bytes if each kernel touches each of "
    f"its tensors once, {moved['read']} as its tiles ask "
    f"({moved['read'] / moved['once']:.2f} times), "
    f"{moved['multiplications']} multiplications"
)
