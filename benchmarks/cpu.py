"""The torch forms on a CPU beside other people's, in one table: `make bench`.

One thread, CPU time, medians of runs that take turns, so that a busy machine slows all
alike. Each library runs in a process of its own: transformers hands its work to
flash-linear-attention where it finds it, whose kernels want a GPU. What a row computes
is held to what ours does before it is printed. Nothing here is a test: times depend on
the machine, which the last lines describe.

    ms          median of one call
    us/token    the same for one token of all heads
    % sgemm     the products that this plan needs, against a 2048^3 product of float32
                in the same run; smaller chunks need fewer, and may be faster at less
    x ours      its time over that of the row of its mechanism marked by a star
    extra MB    most memory held during the call, outputs aside
"""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# a script's own folder is not searched where paths are safe
sys.path.insert(0, str(Path(__file__).parent))

from common import (
    GDN,
    LINEAR,
    SOFTMAX,
    Form,
    aligned,
    drawn,
    gated,
    heads_first,
    leaves,
    operations,
    ours,
    plain,
    versions,
)

SGEMM = 2048
LIBRARIES = ("torch", "fla", "transformers")


@dataclass(frozen=True)
class Case(Form):
    """One row for every length.

    `scaled` says that it multiplies q by d^(-1/2), which cannot be turned off. `chunk`
    is the plan's chunk, 1 for token by token and 0 for all pairs of tokens.
    """

    chunk: int = 0
    scaled: bool = False
    backward: bool = False

    @property
    def form(self) -> str:
        """As the table calls it."""
        chunk = f", chunk {self.chunk}" if self.library == "ctlearn" else ""
        return f"{self.name}{chunk}{', gradients' * self.backward}"


BY_HAND = "ctlearn.layers.backward:chunkwise"
AUTOGRAD = "ctlearn.layers.memory:chunkwise"
QWEN = "transformers.models.qwen3_next.modeling_qwen3_next:torch"
FLA = "fla.ops.gated_delta_rule.naive:naive"
FLA_LINEAR = "fla.ops.linear_attn.naive:naive"
CASES = (
    Case(GDN, BY_HAND, ours(chunk_size=32), 32),
    Case(GDN, BY_HAND, ours(chunk_size=64), 64),
    Case(GDN, AUTOGRAD, ours(chunk_size=32), 32),
    Case(GDN, BY_HAND, ours(chunk_size=32), 32, backward=True),
    Case(GDN, f"{QWEN}_chunk_gated_delta_rule", gated(), 64, scaled=True),
    Case(GDN, f"{QWEN}_recurrent_gated_delta_rule", gated(), 1, scaled=True),
    Case(GDN, f"{FLA}_chunk_gated_delta_rule", gated(scale=1.0), 64),
    Case(GDN, f"{FLA}_recurrent_gated_delta_rule", gated(scale=1.0), 1),
    Case(LINEAR, BY_HAND, ours(chunk_size=32), 32),
    Case(LINEAR, BY_HAND, ours(chunk_size=64), 64),
    Case(LINEAR, BY_HAND, ours(chunk_size=32), 32, backward=True),
    Case(LINEAR, f"{FLA_LINEAR}_chunk_linear_attn", plain(), 64),
    Case(LINEAR, f"{FLA_LINEAR}_recurrent_linear_attn", plain(), 1),
    Case(SOFTMAX, "torch.nn.functional:scaled_dot_product_attention", heads_first),
)


def work() -> None:
    """Answer requests on standard input, one of JSON a line, until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        try:
            answer = measured(**json.loads(line))
        except Exception:
            answer = {"fault": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


def measured(case: int | None, T: int, H: int, d: int, memory: bool) -> dict:
    """Seconds of CPU, the mean output, and the peak of memory if it is asked for."""
    import torch

    torch.set_num_threads(1)
    if case is None:
        a, out = torch.ones(SGEMM, SGEMM), torch.empty(SGEMM, SGEMM)
        return {"seconds": timed(lambda: torch.mm(a, a, out=out))[0]}
    row = CASES[case]
    function, x = row.load(), drawn(row.mechanism, 1, T, H, d)
    if row.backward:
        return {"seconds": timed_backward(function, row, x)}
    args, named = row.call(x)

    def call() -> Any:
        with torch.no_grad():
            return function(*args, **named)

    if memory:
        return {"extra": extra_memory(call)}
    seconds, result = timed(call)
    o = result[0] if isinstance(result, tuple) else result
    mean = float(o.abs().mean()) * (d**0.5 if row.scaled else 1)
    return {"seconds": seconds, "mean": mean}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this thread, and what the call gave."""
    start = time.thread_time()
    result = call()
    return time.thread_time() - start, result


def timed_backward(function: Callable, row: Case, x: dict) -> float:
    """CPU seconds of the way back alone."""
    import torch

    x = leaves(x)
    args, named = row.call(x)
    o, _ = function(*args, **named)
    asked, do = [a for n, a in x.items() if n != "e"], torch.ones_like(o)
    return timed(lambda: torch.autograd.grad(o, asked, do))[0]


def extra_memory(call: Callable[[], Any]) -> int:
    """The most bytes held at once while it runs, less those of what it returns."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        result = call()
    held = most = 0
    events = seen.profiler.kineto_results.events()
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes() if event.name() == "[memory]" else 0
        most = max(most, held)
    outputs = result if isinstance(result, tuple) else (result,)
    return most - sum(o.untyped_storage().nbytes() for o in outputs if o is not None)


class Worker:
    """A process in which one library is found and the other is not."""

    def __init__(self, library: str) -> None:
        hidden = [x for x in ("fla", "transformers") if x != library]
        self.process = subprocess.Popen(
            [sys.executable, "-P", __file__, "--worker", *hidden],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # where peers say what they miss
            text=True,
        )

    def ask(self, **request: Any) -> dict:
        """One measurement; raises RuntimeError with the fault's own words."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"fault": "the process ended"}
        if "fault" in answer:
            raise RuntimeError(answer["fault"])
        return answer

    def close(self) -> None:
        """End it."""
        self.process.communicate()


def rounds_of(
    workers: dict[str, Worker], lengths: list[int], sizes: dict, rounds: int
) -> tuple[list[float], dict[tuple[int, int], dict]]:
    """Everything measured: seconds of sgemm, and for each row and length its own."""
    found: dict[tuple[int, int], dict] = {}
    sgemm = []
    cases = [(i, T) for T in lengths for i in range(len(CASES))]
    cases = [(i, T) for i, T in cases if CASES[i].library in workers]
    for turn in range(rounds + 1):
        for i, T in cases:
            request = {"case": i, "T": T, **sizes}
            worker = workers[CASES[i].library]
            if not turn:
                # a run that does not count, and one that is watched; a loop over
                # tokens would be watched for long, and keeps nothing
                found[i, T] = worker.ask(**request, memory=False) | {"all": []}
                if CASES[i].chunk != 1 and not CASES[i].backward:
                    found[i, T] |= worker.ask(**request, memory=True)
                continue
            found[i, T]["all"].append(worker.ask(**request, memory=False)["seconds"])
        if turn:
            request = {"case": None, "T": 0, **sizes}
            sgemm.append(workers["ctlearn"].ask(**request, memory=False)["seconds"])
    return sgemm, found


def table(
    sgemm: list[float], found: dict[tuple[int, int], dict], H: int, d: int
) -> list[list[str]]:
    """The rows as text, after checking that they computed the same."""
    peak = 2 * SGEMM**3 / statistics.median(sgemm)
    first = {case.mechanism: i for i, case in reversed(list(enumerate(CASES)))}
    rows = [
        ["mechanism", "form", "T", "ms", "us/token", "% sgemm", "x ours", "extra MB"]
    ]
    for (i, T), seen in found.items():
        case = CASES[i]
        star = first[GDN if case.mechanism == SOFTMAX else case.mechanism]
        ours = found[star, T]
        if "mean" in seen and case.mechanism != SOFTMAX:
            assert abs(seen["mean"] / ours["mean"] - 1) < 1e-4, case.form
        seconds = statistics.median(seen["all"])
        share = operations(case.mechanism, T, H, d, case.chunk) / seconds / peak
        rows.append(
            [
                case.mechanism,
                case.form + " *" * (i == star),
                str(T),
                f"{1e3 * seconds:.2f}",
                f"{1e6 * seconds / T:.2f}",
                "" if case.backward else f"{100 * share:.0f}",
                f"{seconds / statistics.median(ours['all']):.2f}",
                f"{seen['extra'] / 1e6:.1f}" if "extra" in seen else "",
            ]
        )
    return rows


def machine(libraries: list[str]) -> list[str]:
    """Where and with what it ran."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    load = os.getloadavg() if hasattr(os, "getloadavg") else ()
    return [
        f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores, "
        f"one thread used; load {' '.join(f'{x:.1f}' for x in load) or 'unknown'}",
        f"Python {platform.python_version()}, {versions(libraries)}",
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 4096, 16384])
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--size", type=int, default=64, help="of keys and values")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--worker", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        sys.modules.update(dict.fromkeys(options.worker))
        work()
        return
    missing = [m for m in LIBRARIES if not importlib.util.find_spec(m)]
    workers = {m: Worker(m) for m in LIBRARIES if m not in missing}
    there = list(workers)
    # ours and torch's own share a process
    workers["ctlearn"] = workers["torch"]
    H, d = options.heads, options.size
    sgemm, found = rounds_of(workers, options.lengths, {"H": H, "d": d}, options.rounds)
    for library in there:
        workers[library].close()
    rows = table(sgemm, found, H, d)
    print(f"B=1 H={H} D={d} float32; medians of {options.rounds} runs taken in turn\n")
    print("\n".join(aligned(rows, words=2)))
    gflops = 2 * SGEMM**3 / statistics.median(sgemm) / 1e9
    print(f"\nsgemm {SGEMM}^3: {gflops:.0f} GFLOP/s", *machine(there), sep="\n")
    if missing:
        names = ", ".join(missing)
        print(f"Not here to compare with: {names}. `make bench` adds them.")


if __name__ == "__main__":
    main()
