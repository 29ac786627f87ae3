"""Two processes of torchrun do what one does, and go on after one was killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from torch.distributed import checkpoint  # noqa: E402

from ctlearn.train.kept import Kept  # noqa: E402
from ctlearn.train.processes import Processes  # noqa: E402
from ctlearn.train.run import Run, learn  # noqa: E402

RUN = Run(steps=30, B=4, T=24, rate=1e-2)
EVERY, KILLED_AT = 12, 17


@pytest.fixture(scope="module")
def together(own_file, shape, tmp_path_factory):
    """The folder in which two processes trained three times, the last time twice."""
    folder = tmp_path_factory.mktemp("together")
    words = ["--text", str(own_file), "--every", str(EVERY)]
    for settings in (shape, RUN):
        for name, value in settings._asdict().items():
            words += [f"--{name}", str(value)]
    worker = str(Path(__file__).with_name("worker.py"))
    killed = torchrun(worker, str(KILLED_AT), str(folder), *words)
    assert killed.returncode != 0
    assert "exitcode: -9" in killed.stderr, killed.stderr[-3000:]
    assert not (folder / "broken" / "losses.pt").exists()
    again = torchrun(worker, "-1", str(folder), *words)
    assert again.returncode == 0, again.stderr[-3000:]
    assert again.stderr.count(f"/{RUN.steps - EVERY} ") > 0  # steps of the bar
    return folder


def torchrun(*words):
    """Two processes of one thread, on this machine's own address."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return subprocess.run(
        [*command, "--nproc-per-node=2", "--monitor-interval=0.1", *words],
        env=os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def losses(together, name):
    return torch.load(together / name / "losses.pt")


@pytest.fixture(scope="module")
def alone(text, shape):
    """The losses of one process at the same batches, in float64 as the worker's are."""
    return learn(model_of(shape, text, RUN.seed), text.learned, RUN)


def model_of(shape, text, seed):
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(seed)
    model = shape.build(len(text.alphabet))
    torch.set_default_dtype(torch.float32)
    return model


def test_two_processes_have_the_loss_curve_of_one(together, alone, record_property):
    copies = losses(together, "copies")
    assert alone[0] - alone[-1] > 0.5
    gap = (copies - alone).abs().max().item()
    record_property("loss of two processes, from one", f"{gap:.0e} in float64")
    assert gap < 1e-4
    assert not torch.equal(copies, alone)


def test_a_run_that_was_killed_ends_where_an_unbroken_one_does(together):
    assert torch.equal(losses(together, "broken"), losses(together, "copies"))
    models = [together / name / "model.safetensors" for name in ("broken", "copies")]
    assert models[0].read_bytes() == models[1].read_bytes()


def test_parts_of_weights_are_trained_as_copies_are(together):
    copies, sharded = (losses(together, name) for name in ("copies", "sharded"))
    assert (copies - sharded).abs().max() < 1e-4


def test_each_process_keeps_a_part_of_weights_that_are_in_parts(together):
    for name, parts in (("copies", 1), ("sharded", 2)):
        kept = checkpoint.FileSystemReader(together / name / f"step-{2 * EVERY:06}")
        stored = kept.read_metadata().state_dict_metadata["weights.embedding.weight"]
        assert len(stored.chunks) == parts


def test_one_process_goes_on_with_what_two_have_kept_in_parts(
    together, alone, text, shape
):
    folder = together / "sharded"
    read = [text.alphabet, len(text.learned), len(text.held_out)]
    kept = Kept(folder, [shape, RUN, read], Processes())
    assert kept.step() == 2 * EVERY
    # other weights than those that are kept
    model = model_of(shape, text, RUN.seed + 1)
    again = learn(model, text.learned, RUN, keep=(kept, RUN.steps + 1))
    assert torch.equal(again[: 2 * EVERY], losses(together, "sharded")[: 2 * EVERY])
    assert (again - alone).abs().max() < 1e-4
