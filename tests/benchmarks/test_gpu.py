"""The GPU's table: what is said without a GPU, and how the table is made with one.

No GPU is timed here: the times come from a clock that is told them.
"""

import ast
import contextlib
import importlib.metadata
import importlib.util
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
pytest.importorskip("triton", reason='no Triton: pip install "ctlearn[torch]" on Linux')

from ctlearn.kernels import assembler, launch, memory  # noqa: E402

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"
DEVICE = "cuda" if memory.COMPILED else "cpu"


@pytest.fixture(scope="module")
def gpu():
    """The script as a module, and the path as it was."""
    before = list(sys.path)
    spec = importlib.util.spec_from_file_location("gpu", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


@pytest.fixture
def asked(gpu, monkeypatch):
    """The script's answer to arguments."""

    def ask(*arguments):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
        return gpu.main()

    return ask


def clock(*milliseconds):
    """A timer that makes the calls and is told how long they took."""
    told = itertools.cycle(milliseconds)

    def timer(prepare, call):
        call(prepare())
        return next(told)

    return timer


def test_without_a_gpu_it_says_what_it_would_do(gpu):
    hidden = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-P", SCRIPT],
        env=os.environ | hidden,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "finds no GPU: nothing is run, timed or written here" in said
    for shape in (*gpu.SHAPES, *gpu.DECODED):
        assert f"B={shape.B} T={shape.T} H={shape.H}" in said
    for form in (*gpu.FORMS, *gpu.DECODERS):
        assert f"{form.mechanism} {form.name}" in said
    assert "of which 30, 37, 38, 39, 40, 41 need a GPU" in said
    assert "forward 1.0 ms and backward 3.5 ms" in said
    assert "For Hopper, Triton here has ptxas" in said
    assert f"fla-core=={importlib.metadata.version('fla-core')}" in said
    prose = [x for x in done.stdout.splitlines() if "/" not in x and x[:1] != " "]
    assert max(map(len, prose)) <= 88


def test_a_file_that_was_asked_for_is_missed(asked, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert asked("--out", tmp_path / "table.md") == 1
    assert "nothing is run" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.fixture
def on_a_gpu(gpu, monkeypatch):
    """All steps, small, but what only a GPU can do; the tests' result can be set."""
    # asked once, and so before there seems to be another GPU
    launch.here()
    shape = gpu.Shape(1, 9, 2)
    forms = [f for f in gpu.FORMS if f.library == "ctlearn" and f.mechanism == gpu.GDN]
    forms.append(gpu.FORMS[-1])
    decoders = [f for f in gpu.DECODERS if f.mechanism == gpu.LINEAR][:1]
    tables = ((forms, (shape,)), (decoders, (gpu.Shape(2, 1, 2),)))
    properties = {"name": "Some GPU", "multi_processor_count": 9, "total_memory": 2**34}
    device = type("Properties", (), properties)
    for name, value in {
        "MAIN": shape,
        "TABLES": tables,
        "WHERE": {"device": DEVICE, "dtype": "float32"},
        "Events": lambda: lambda prepare, call: 2.0,
        "ceilings": lambda *_, **__: gpu.Ceilings(1e12, 1e14, 1e13),
        "peers_compiling": contextlib.nullcontext,
        "run_tests": lambda: None,
    }.items():
        monkeypatch.setattr(gpu, name, value)
    monkeypatch.setattr(sys.modules["measuring"], "D", 16)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: device)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(assembler, "choose", lambda: assembler.Ptxas("/x", (13, 1)))
    return forms


def test_the_table_is_written(asked, on_a_gpu, tmp_path, capsys):
    assert asked("--rounds", 1, "--out", tmp_path / "table.md") == 0
    printed = capsys.readouterr().out
    assert "not timed" not in printed
    for number in range(1, 5):
        assert f"s] {number}. " in printed
    written = (tmp_path / "table.md").read_text().splitlines()
    heads, rule, row, attention, decoded, blank, *lines = written
    places = [len(x.split("|")) for x in (heads, rule, row, attention, decoded)]
    assert places == [13] * 5
    assert "torch: scaled_dot_product_attention | 1 | 9 | 2" in attention
    assert not blank
    names = [cell.strip() for cell in heads.split("|")[1:-1]]
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    found = dict(zip(names, cells, strict=True))
    assert found["form"] == "ctlearn: memory.chunkwise"
    assert (found["B"], found["T"], found["H"]) == ("1", "9", "2")
    assert float(found["error"]) < 2e-5
    assert found["forward"] == found["backward"] == found["both"] == "2.000"
    assert float(found["% floor"]) == pytest.approx(
        100 * float(found["floor"]) / 2, abs=1
    )
    assert "| 2.000 |  |  |" in decoded
    text = "\n".join(lines)
    assert "Some GPU, 9 multiprocessors, 16 GiB" in text
    assert f"torch {torch.__version__}" in text
    assert "ptxas 13.1 (/x)" in text
    assert "commit " in text
    assert "forward 2.000 of 1.0 ms, backward 2.000 of 3.5 ms" in text
    for direction in ("forward", "backward"):
        assert f"Going {direction}, our kernels of the gated delta rule " in text


def test_what_is_wrong_or_refused_is_not_timed(gpu, asked, on_a_gpu, tmp_path, capsys):
    form = on_a_gpu[0]
    late = gpu.Form(form.mechanism, form.function, gpu.ours(read_first=True))
    odd = gpu.Form(form.mechanism, form.function, gpu.ours(chunk_size=3))
    on_a_gpu += [late, odd]
    assert asked("--rounds", 1, "--out", tmp_path / "table.md") == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count("Not timed: ") == 2
    assert "o is off by" in printed
    assert "ValueError: chunk_size: expected 16, 32 or 64, got 3" in printed
    assert not list(tmp_path.iterdir())


def test_nothing_is_timed_where_a_kernel_is_wrong(
    gpu, asked, on_a_gpu, monkeypatch, capsys
):
    def fail():
        raise gpu.MeasureError("A kernel is wrong.")

    monkeypatch.setattr(gpu, "run_tests", fail)
    assert asked() == 1
    said = capsys.readouterr()
    assert "A kernel is wrong." in said.err
    assert "s] 3. " not in said.out


def test_a_median_is_of_runs_in_turn_and_not_of_the_first(gpu):
    seen = []
    timed = {
        "a": (lambda: "for a", lambda given: seen.append(given)),
        "b": (lambda: "for b", lambda given: seen.append(given)),
    }
    timer = clock(90.0, 80.0, 1.0, 10.0, 3.0, 30.0, 2.0, 20.0)
    medians = sys.modules["measuring"].medians
    assert medians(timer, timed, rounds=3) == {"a": 2.0, "b": 20.0}
    assert seen == ["for a", "for b"] * 4


def test_forward_backward_and_both_are_timed(gpu):
    """What is told is how often the form was called before a call and in it."""
    measuring, calls = sys.modules["measuring"], []
    form = gpu.Form(gpu.GDN, "ctlearn.layers.memory:chunkwise", gpu.ours())
    x, do = measuring.inputs(form.mechanism, measuring.Shape(1, 2, 1))

    def call(x):
        calls.append(torch.is_grad_enabled())
        return measuring.called(form)(x)

    for name, (prepare, timed) in measuring.timed_calls(call, x, do).items():
        prepared = prepare()
        before = len(calls)
        timed(prepared)
        assert (before, calls) == {
            "forward": (0, [False]),
            "backward": (1, [True]),
            "both": (0, [True]),
        }[name]
        calls.clear()


def test_ceilings_and_floors():
    """A copy reads and writes; a product of n^3 makes 2 n^3 operations."""
    measuring = sys.modules["measuring"]
    found = measuring.ceilings(
        clock(2.0, 4.0, 8.0), 3, size=10, moved=10**6, device="cpu"
    )
    assert found == measuring.Ceilings(1e9, 5e5, 2.5e5)
    limits = measuring.Ceilings(copied=1e9, bfloat16=1e12, float32=1.0)
    assert limits.floor(moved=5e6, operations=1e9) == pytest.approx(5.0)
    assert limits.floor(moved=5e6, operations=9e9) == pytest.approx(9.0)


def test_what_must_be_moved_is_counted_once():
    """Three inputs and the outputs in float32, gates, and the last state."""
    measuring = sys.modules["measuring"]
    x, _ = measuring.inputs("gated delta rule", measuring.Shape(2, 3, 5))
    found = {"o": x["v"].clone(), "S": torch.zeros(2, 5, 128, 128)}
    tokens = 2 * 3 * 5
    wanted = 4 * (4 * 128 * tokens + 2 * tokens + 2 * 5 * 128 * 128)
    assert measuring.least_moved(x, found) == wanted


def test_the_peers_take_what_they_are_given(gpu):
    """By their text: to import them takes longer than all else here."""
    try:
        peers = importlib.metadata.distribution("fla-core")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("no peers: `make test` installs tests/peers/requirements.txt")
    forms = [f for f in (*gpu.FORMS, *gpu.DECODERS) if f.library == "fla"]
    assert len(forms) == 6
    for form in forms:
        module, name = form.function.split(":")
        folder = Path(peers.locate_file(module.replace(".", "/")))
        trees = (ast.parse(file.read_text()) for file in sorted(folder.glob("*.py")))
        functions = (n for tree in trees for n in ast.walk(tree))
        function = next(
            n for n in functions if isinstance(n, ast.FunctionDef) and n.name == name
        )
        taken = [a.arg for a in function.args.args]
        shape = sys.modules["measuring"].Shape(1, 1, 1)
        x, _ = sys.modules["measuring"].inputs(form.mechanism, shape)
        arguments, named = form.call(x)
        assert taken[: len(arguments)] == ["q", "k", "v"]
        assert set(named) <= set(taken), name
