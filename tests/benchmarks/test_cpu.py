"""The CPU's table: that it is printed, not what it says."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "cpu.py"


def test_the_table_is_printed_at_small_sizes():
    sizes = ["--lengths", "64", "128", "--heads", "1", "--size", "8", "--rounds", "1"]
    done = subprocess.run(
        [sys.executable, "-P", SCRIPT, *sizes], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    title, _, heads, *rows = done.stdout.splitlines()
    assert title.startswith("B=1 H=1 D=8 float32; medians of 1 runs")
    columns = ["mechanism", "form", "T", "ms", "us/token", "% sgemm", "x ours"]
    places = [heads.index(name) for name in [*columns, "extra MB"]]
    assert places == sorted(places)
    marked = [row for row in rows if " * " in row]
    assert len(marked) == 2 * len(["gated delta rule", "linear attention"])
    for row in marked:
        milliseconds, token, share, ratio, _ = row.split()[-5:]
        assert float(milliseconds) > 0
        assert float(token) > 0
        assert int(share) >= 0
        assert ratio == "1.00"
    assert len([row for row in rows if "scaled_dot_product_attention" in row]) == 2
    end = done.stdout.partition("sgemm 2048^3: ")[2]
    assert "GFLOP/s" in end
    assert "one thread used; load" in end
    assert "torch" in end
