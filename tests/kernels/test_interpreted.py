"""What the interpreter is taught, what it shows of a launch, and how a page begins."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
pytest.importorskip("triton", reason='no Triton: pip install "ctlearn[torch]" on Linux')

from ctlearn.kernels import interpreted, puzzle_solutions  # noqa: E402

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def test_bfloat16_is_rounded_to_the_nearest():
    x = np.random.default_rng(0).standard_normal(999).astype(np.float32)
    x[:3] = np.nan, np.inf, 1 + 2.0**-8  # a tie
    x[3] = np.uint32(0x7FFFFFFF).view(np.float32)  # NaN, and no number above it
    found = interpreted.widened(interpreted.narrowed(x))
    torch_says = torch.from_numpy(x).bfloat16().float().numpy()
    assert np.array_equal(found, torch_says, equal_nan=True)


@pytest.mark.skipif(not INTERPRETED, reason="a GPU has such arithmetic")
def test_arithmetic_on_bfloat16_is_refused():
    """The interpreter would compute with the bits."""
    from ctlearn.kernels.first import first_kernel

    x = [torch.ones(16, 16, dtype=torch.bfloat16) for _ in range(4)]
    with pytest.raises(Exception, match="arithmetic on bfloat16"):
        first_kernel[(1,)](*x, torch.empty(16, 16), 16, 16, 16, K=16, V=16)


def test_a_number_that_is_touched_twice_is_one_number():
    """Loaded twice, or loaded and stored."""
    loads, stores = ([np.array(x, np.uint64)] for x in ([8, 8, 12], [12, 16]))
    launch = interpreted.Launch("kernel", (1,), loads, stores, [])
    assert (len(launch.read()), len(launch.written()), launch.numbers()) == (3, 2, 3)


def test_a_tensor_that_is_left_out_ends_where_it_ends():
    x = torch.zeros(2)
    at = np.uint64(x.data_ptr()) + np.arange(-4, 12, 4, dtype=np.int64).astype("uint64")
    launch = interpreted.Launch("kernel", (1,), [at], [], [])
    assert (launch.numbers(), launch.numbers(x)) == (4, 2)


@pytest.mark.skipif(not INTERPRETED, reason="only the interpreter shows addresses")
def test_a_launch_is_counted():
    """Two programs of fade, of which each loads its rows once."""
    x, g, y = torch.ones(20, 5), torch.zeros(20), torch.empty(20, 5)
    with interpreted.watched() as launches:
        puzzle_solutions.fade[(2,)](x, g, y, 20, 5, C=16, D=16)
    (launch,) = launches
    assert (launch.kernel, launch.grid, launch.products) == ("fade", (2,), [])
    assert (len(launch.read()), len(launch.written())) == (120, 100)
    assert launch.numbers() == 220
    assert launch.numbers(x) == 120
    assert torch.equal(x, y)


@pytest.mark.skipif(not INTERPRETED, reason="only the interpreter shows addresses")
def test_products_are_counted_and_what_is_out_of_bounds_is_not_looked_at():
    x = [torch.ones(16, 16) for _ in range(5)]
    start = x[0].data_ptr()

    def first(addresses):
        return addresses - start < 4 * 256

    with interpreted.watched(first) as launches:
        puzzle_solutions.state[(1,)](*x, 16, 16, 16, C=16, K=16, V=16)
    assert launches[0].products == [16**3] * 4
    # k and v are seen as zeros, and nothing is written
    assert all(torch.equal(a, torch.ones(16, 16)) for a in x)
    with interpreted.watched() as launches:
        puzzle_solutions.state[(1,)](*x, 16, 16, 16, C=16, K=16, V=16)
    assert torch.equal(x[4], torch.full((16, 16), 16.0))


def process(code, **variables):
    """What a process prints, its environment changed."""
    kept = {n: x for n, x in os.environ.items() if n != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", code]
    run = subprocess.run(
        command, env=kept | variables, capture_output=True, check=False, text=True
    )
    return run.stdout.strip() or run.stderr.strip().splitlines()[-1]


def test_a_page_begins_before_triton():
    begin = "from ctlearn.kernels import interpreted; print(interpreted.begin())"
    assert process(begin) == "Kernels are interpreted."
    assert "begin before it" in process(f"import triton; {begin}")


def test_without_triton_the_cells_that_follow_are_left_out(monkeypatch):
    """As on Windows and macOS, in a notebook."""
    from IPython.core.interactiveshell import InteractiveShell

    find = importlib.util.find_spec

    def without(name):
        return None if name == "triton" else find(name)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    shell = InteractiveShell.instance()
    begin = "from ctlearn.kernels import interpreted; said = interpreted.begin()"
    try:
        for cell in (begin, "ran = True; 1 / 0"):
            assert shell.run_cell(cell, silent=True).success
        names = shell.user_ns
    finally:
        InteractiveShell.clear_instance()
    assert names["said"].startswith("There is no Triton here; it is made for Linux.")
    assert "ran" not in names


def test_the_first_kernel_is_the_delta_rule(device):
    """With tiles that are too large for the last columns."""
    from ctlearn.kernels.first import first_kernel
    from ctlearn.mixers import delta_rule

    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, 9, 5))
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    v, beta = rng.standard_normal((9, 20)), rng.uniform(0, 1, 9)
    x = [torch.tensor(a, dtype=torch.float32, device=device) for a in (q, k, v, beta)]
    o = torch.full((9, 20), torch.nan, device=device)
    first_kernel[(2,)](*x, o, 9, 5, 20, K=16, V=16)
    right = delta_rule.recurrent(q, k, v, beta=beta)[0]
    assert np.abs(o.cpu().numpy() - right).max() < 1e-5


def test_these_tests_find_nan_where_nothing_was_written(monkeypatch):
    assert torch.empty(3).isnan().all()
    assert torch.empty_like(torch.zeros(2)).isnan().all()
    monkeypatch.undo()
    with torch.device("meta"):
        assert torch.empty(1).is_meta


@pytest.mark.skipif(not INTERPRETED, reason="only the interpreter shows addresses")
def test_the_first_kernel_touches_nothing_beyond_its_tensors():
    from ctlearn.kernels.first import first_kernel

    shapes = (9, 5), (9, 5), (9, 20), (9,), (9, 20)
    x = [torch.ones(shape) for shape in shapes]
    with interpreted.watched() as launches:
        first_kernel[(2,)](*x, 9, 5, 20, K=16, V=16)
    assert launches[0].numbers(*x) == 0
    assert launches[0].numbers() == sum(one.numel() for one in x)
