"""Every kernel compiles for four kinds of GPU, within what they have, without one."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason='no Triton: pip install "ctlearn[torch]" on Linux')

# What does not yet fit into registers: bytes a thread on NVIDIA, registers on AMD. A
# kernel that is not listed spills nothing, and none may come to spill more.
SPILLED = {
    "sm_80": {
        "scan": 264,
        "reverse": 40,
        "gradients": 616,
        "pairs": 8,
        "scan by channel": 912,
    },
    "sm_90": {"scan": 96, "reverse": 48, "scan by channel": 632},
    "sm_100": {"pairs": 16, "scan by channel": 744},
    "gfx942": {"reverse": 324, "gradients": 17},
}
ASK = """
import json, sys
from ctlearn.kernels import report
target = next(t for t in report.TARGETS if t.name == sys.argv[1])
found = {name: report.figures(name, target)._asdict() for name in report.sources()}
print(json.dumps({"shared": target.shared, "found": found}))
"""


def compiled(code, *arguments):
    """What a process prints in which kernels are compiled, not interpreted."""
    environment = {n: x for n, x in os.environ.items() if n != "TRITON_INTERPRET"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        check=True,
        text=True,
    ).stdout


@pytest.mark.parametrize("target", SPILLED)
def test_every_kernel_compiles_and_fits(target):
    """Case 39: its shared memory is within the target's."""
    answer = json.loads(compiled(ASK, target))
    found = answer["found"]
    assert len(found) == 7
    for name, figures in found.items():
        assert figures["shared"] <= answer["shared"], name
        assert figures["spilled"] <= SPILLED[target].get(name, 0), name
        assert bool(figures["matrix_instructions"]) == (name != "recurrent"), name


def test_a_forward_pass_moves_little():
    """1.7 GB at B = 8, T = 8192, H = 16, if each kernel touches each tensor once."""
    code = "from ctlearn.kernels import report; print(report.traffic()['once'])"
    assert int(compiled(code)) * 8 * 8192 * 16 <= 1.7e9


def test_a_cpu_is_turned_away():
    """Case 47: where kernels are compiled, and before Triton looks for a GPU."""
    code = (
        "import torch; from ctlearn.kernels import memory\n"
        "try: memory.chunkwise(*torch.zeros(3, 1, 4, 1, 16))\n"
        "except ValueError as no: print(no)\n"
    )
    assert compiled(code).startswith("k: on cpu")
