"""`python -m ctlearn`: the report that a bug needs."""

import subprocess
import sys

import pytest

import ctlearn.__main__ as report


def test_report_names_versions_device_and_back_ends():
    run = subprocess.run(
        [sys.executable, "-m", "ctlearn"], capture_output=True, text=True, check=True
    )
    for start in ("ctlearn ", "python ", "numpy ", "torch ", "triton ", "device: "):
        assert any(line.startswith(start) for line in run.stdout.splitlines()), start
    assert run.stdout.splitlines()[-1].startswith("kernels: ")


@pytest.mark.parametrize("platform", ["darwin", "linux"])
def test_missing_back_ends_are_said_plainly(monkeypatch, platform, capsys):
    monkeypatch.setattr(report.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(report.sys, "platform", platform)
    monkeypatch.setattr(report, "EXTRAS", {"no-such-package": "nothing"})
    report.main()
    printed = capsys.readouterr().out
    assert "no-such-package not installed (nothing)" in printed
    assert "kernels: none: Triton is not installed" in printed
    assert ("not made for darwin" in printed) == (platform == "darwin")
