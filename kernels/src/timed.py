"""The ladder's times on a GPU: as stored, or measured here.

`python -m ctlearn.kernels.timed` prints the table, and with --store keeps what it has
measured in timed.json, from where the book has it. Without a GPU nothing is measured:
what was stored is printed, and what was not is "not measured". What is wrong is not
timed: each rung is first held to the float64 recurrence.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

STORED = Path(__file__).with_name("timed.json")
RUNGS = ("recurrent", "naive_chunkwise", "chunkwise")
# A relative error of outputs above this is no rounding of bfloat16.
ALLOWED = 6e-3


def stored(file: Path = STORED) -> dict[str, Any]:
    """What was measured: a machine, a shape, and milliseconds by rung, or None."""
    return json.loads(file.read_text(encoding="utf-8"))


def has_gpu() -> bool:
    """Whether torch finds one that it can use."""
    from ctlearn.kernels.required import torch

    return torch.cuda.is_available()


def measured(
    shape: dict[str, Any],
    *,
    device: str = "cuda",
    bench: Callable[[Callable], float] | None = None,
) -> dict[str, float]:
    """Milliseconds of each rung, median of many; raises RuntimeError if one is wrong.

    `bench` times a call, on a GPU with its cache emptied before each.
    """
    from ctlearn.kernels import delta_rule
    from ctlearn.kernels.required import torch, triton
    from ctlearn.layers import memory

    bench = bench or (lambda call: triton.testing.do_bench(call, return_mode="median"))

    def tokens(T: int) -> dict[str, Any]:
        rng = torch.Generator().manual_seed(0)
        size = shape["B"], T, shape["H"], shape["d"]
        drawn = {n: torch.randn(*size, generator=rng) for n in ("q", "k", "v")}
        drawn["k"] = torch.nn.functional.normalize(drawn["k"], dim=-1)
        drawn["beta"] = torch.rand(*size[:3], generator=rng)
        kind = getattr(torch, shape["dtype"])
        return {n: x.to(device, kind) for n, x in drawn.items()}

    few, all_of_them = tokens(min(shape["T"], 130)), tokens(shape["T"])
    wide = {n: x.double() for n, x in few.items()}
    rate = wide.pop("beta")[..., None]
    wide |= {"e": rate * wide["k"], "z": rate * wide.pop("v")}
    right, _ = memory.recurrent(**wide)
    found = {}
    for rung in RUNGS:
        form = getattr(delta_rule, rung)
        off = form(**few)[0].double() - right
        if not off.norm() <= ALLOWED * right.norm():
            raise RuntimeError(f"{rung}: its outputs are wrong, and it is not timed")
        found[rung] = float(bench(lambda form=form: form(**all_of_them)))
    return found


def times() -> dict[str, Any]:
    """As `stored`, of this machine's GPU if it has one.

    In a process of its own, in which kernels are compiled. Raises RuntimeError with
    what it said if that fails.
    """
    if not has_gpu():
        return stored()
    command = [sys.executable, "-m", "ctlearn.kernels.timed", "--json"]
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    run = subprocess.run(
        command, env=environment, capture_output=True, check=False, text=True
    )
    if run.returncode:
        raise RuntimeError(run.stderr)
    return json.loads(run.stdout)


def lines(found: dict[str, Any]) -> list[str]:
    """The table, a rung a line."""
    shape = ", ".join(f"{n} = {x}" for n, x in found["shape"].items())
    rows = [f"{found['machine'] or 'no GPU was at hand'}; {shape}"]
    for rung, ms in found["milliseconds"].items():
        rows.append(f"{rung:16} {'not measured' if ms is None else f'{ms:.3f} ms'}")
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Measure if there is a GPU, print, and store if asked to."""
    parser = argparse.ArgumentParser(description="Time the ladder on a GPU.")
    parser.add_argument("--store", action="store_true", help="keep it in timed.json")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    options = parser.parse_args(arguments)
    found = stored()
    if has_gpu():
        from ctlearn.kernels.required import torch

        found["machine"] = torch.cuda.get_device_name()
        found["milliseconds"] = measured(found["shape"])
        if options.store:
            STORED.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    text = json.dumps(found) if options.json else "\n".join(lines(found))
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
