"""The wheel, installed elsewhere beside NumPy and nothing more."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {"anywidget", "ipywidgets", "matplotlib", "sympy", "torch", "tqdm", "triton"}


def run(python: Path | str, *arguments: str, cwd: Path) -> str:
    """What `python` prints with these arguments, outside the repository."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(python), *arguments],
        cwd=cwd,
        env=environment | {"PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel, built from a copy: a build in place leaves files behind."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "source"
    for name in ("ctlearn", "kernels"):
        shutil.copytree(ROOT / name, copy / name)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    command = ["-m", "pip", "wheel", *options, "--wheel-dir", str(folder), str(copy)]
    run(sys.executable, *command, cwd=folder)
    return next(folder.glob("ctlearn-*.whl"))


@pytest.fixture(scope="module")
def elsewhere(wheel, tmp_path_factory):
    """The interpreter of an environment that holds the wheel and NumPy."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run(python, "-c", where, cwd=folder).strip())
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    # NumPy is the one of this environment, so that no registry is asked
    for source in Path(np.__file__).parents[1].glob("numpy[.-]*"):
        shutil.copytree(source, packages / source.name)
    shutil.copytree(Path(np.__file__).parent, packages / "numpy")
    return python


def test_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {
        path.relative_to(ROOT).as_posix()
        for kind in ("*.py", "*.js", "*.css", "*.md")
        for path in (ROOT / "ctlearn").rglob(kind)
    }
    assert sources <= names
    kernels = {f"ctlearn/kernels/{name}" for name in ("__init__.py", "timed.json")}
    assert {"ctlearn/py.typed", *kernels} <= names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ctlearn"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_wheel_runs_with_numpy_alone(elsewhere, tmp_path):
    code = """
import importlib, json, pkgutil, sys
import ctlearn, ctlearn.kernels, ctlearn.memory, ctlearn.mixers, ctlearn.tasks
for found in pkgutil.iter_modules(ctlearn.mixers.__path__, "ctlearn.mixers."):
    importlib.import_module(found.name)
print(json.dumps([ctlearn.__file__, ctlearn.kernels.__file__, sorted(sys.modules)]))
"""
    file, kernels, modules = json.loads(run(elsewhere, "-c", code, cwd=tmp_path))
    assert Path(file).is_relative_to(elsewhere.parents[1])
    assert Path(kernels).is_relative_to(elsewhere.parents[1])
    assert HEAVY.isdisjoint(name.split(".")[0] for name in modules)


def test_python_m_ctlearn_runs_with_numpy_alone(elsewhere, tmp_path):
    assert np.__version__ in run(elsewhere, "-m", "ctlearn", cwd=tmp_path)


def test_import_is_quick_and_brings_nothing_heavy(tmp_path, record_property):
    code = """
import json, sys, time
start = time.process_time()  # a busy machine is no slow import
import ctlearn, ctlearn.mixers
seconds = time.process_time() - start
print(json.dumps([seconds, sorted(sys.modules)]))
"""
    runs = [json.loads(run(sys.executable, "-c", code, cwd=tmp_path)) for _ in range(3)]
    assert HEAVY.isdisjoint(name.split(".")[0] for name in runs[0][1])
    seconds = min(seconds for seconds, _ in runs)
    record_property(
        "import ctlearn, ctlearn.mixers", f"{seconds:.3f} s (0.5 s allowed)"
    )
    assert seconds < 0.5


def test_the_readme_example_runs_and_is_ten_lines_at_most(elsewhere, tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    assert len([line for line in block.splitlines() if line]) <= 10
    assert run(elsewhere, "-c", block, cwd=tmp_path) == "True\n"
