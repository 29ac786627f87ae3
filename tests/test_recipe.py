"""The page that adds a mechanism: its files, followed to the letter, are enough."""

import os
import re
import subprocess
import sys

import pytest

PAGE = "book/adding_a_mechanism.md"
STEM = "two_rate_delta_rule"
FOLDERS = ("mixers", "layers")
# What the page promises, asked in a process of its own, where the folders of mixers and
# of layers have one file more. The tests collect what they are asked of, so they find
# it, too. What compiles a whole layer is left to the layers that are there.
PROMISES = """
import sys
import pytest
from ctlearn import layers, mixers
mixers.__path__.append(sys.argv[1])
layers.__path__.append(sys.argv[2])
from ctlearn.identities import identities
from ctlearn.identities.engine import run
from ctlearn.explore.workbench import Workbench
from ctlearn.mixers import branches, mechanisms
from ctlearn.mixers.__main__ import main
from ctlearn.tasks import four_jobs
name = "two_rate_delta_rule"
print("collected", name in mechanisms())
print("in the tree", [d for m, _, d in branches() if m.name == name])
proofs = [x for n, x in identities().items() if n.startswith("two-rate")]
print("proofs", sum(run(x).passed for x in proofs), "of", len(proofs))
row, plain = (four_jobs.table()[n] for n in (name, "gated_delta_rule"))
print("at the jobs", all(row[job] <= plain[job] + 1e-9 for job in plain))
print("on the page", Workbench.module().count("Two-rate delta rule"))
main()
files = ("tests/test_mixers.py", "tests/tasks/test_fingerprints.py",
         "tests/tasks/test_four_jobs.py", "tests/layers/test_mixer.py")
chosen = f"{name} and not one_graph"
sys.exit(pytest.main([*files, "-q", "-k", chosen, "-p", "no:cacheprovider", "-n", "0"]))
"""


@pytest.fixture(scope="module")
def followed(root, tmp_path_factory):
    """What a process prints in which the page was followed, and its exit status."""
    text = (root / PAGE).read_text(encoding="utf-8")
    codes = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    files = []
    for part, code in zip(FOLDERS, codes, strict=True):
        assert f"`ctlearn/{part}/{STEM}.py`" in text
        files.append(tmp_path_factory.mktemp(part) / f"{STEM}.py")
        files[-1].write_text(code, encoding="utf-8")
    command = [sys.executable, "-c", PROMISES, *(str(x.parent) for x in files)]
    done = subprocess.run(
        command,
        cwd=root,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout, done.returncode, files


def test_the_file_is_found_by_all(followed):
    out, _, _ = followed
    assert "collected True" in out
    assert re.search(r"in the tree \[\d\]", out)
    assert "proofs 2 of 2" in out
    assert "at the jobs True" in out
    assert re.search(r"on the page [1-9]", out)
    assert "Two-rate delta rule  if the rates are equal" in out


def test_the_common_tests_pass(followed):
    out, status, _ = followed
    assert status == 0, out[-3000:]
    (passed,) = re.findall(r"^(\d+) passed", out, re.MULTILINE)
    assert int(passed) > 50


@pytest.mark.parametrize("part", FOLDERS)
def test_a_file_is_as_files_are_here(followed, part, root):
    file = followed[2][FOLDERS.index(part)]
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 150
    for command in (["check"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command]
        config = ["--config", str(root / "pyproject.toml")]
        done = subprocess.run(
            [*ruff, *config, str(file)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
