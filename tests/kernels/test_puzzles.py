"""The judge of kernels: what solves a puzzle passes, and what cheats does not."""

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
triton = pytest.importorskip(
    "triton", reason='no Triton: pip install "ctlearn[torch]" on Linux'
)
import os  # noqa: E402

import triton.language as tl  # noqa: E402

from ctlearn.kernels import puzzle_solutions, puzzles  # noqa: E402

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("puzzles are judged in the interpreter", allow_module_level=True)

STORED = torch.ones(32, 16)


@triton.jit
def writes_nothing(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    pass


@triton.jit
def writes_zeros(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    at = tl.program_id(0) * C * d + tl.arange(0, C * D)
    tl.store(y + at, 0.0, mask=at < T * d)


@triton.jit
def masks_nothing(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    rows, columns = tl.program_id(0) * C + tl.arange(0, C), tl.arange(0, D)
    at = rows[:, None] * d + columns[None, :]
    tl.store(y + at, tl.exp(tl.load(g + rows))[:, None] * tl.load(x + at))


@triton.jit
def loads_twice(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    rows, columns = tl.program_id(0) * C + tl.arange(0, C), tl.arange(0, D)
    inside = (rows < T)[:, None] & (columns < d)[None, :]
    at = rows[:, None] * d + columns[None, :]
    kept = tl.exp(tl.load(g + rows, mask=rows < T, other=0.0))
    half = tl.load(x + at, mask=inside) / 2 + tl.load(x + at, mask=inside) / 2
    tl.store(y + at, kept[:, None] * half, mask=inside)


@triton.jit
def writes_in_place(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    rows, columns = tl.program_id(0) * C + tl.arange(0, C), tl.arange(0, D)
    inside = (rows < T)[:, None] & (columns < d)[None, :]
    at = rows[:, None] * d + columns[None, :]
    kept = tl.exp(tl.load(g + rows, mask=rows < T, other=0.0))
    tile = kept[:, None] * tl.load(x + at, mask=inside)
    tl.store(y + at, tile, mask=inside)
    tl.store(x + at, tile, mask=inside)


@triton.jit
def forgets_the_last_rows(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    rows, columns = tl.program_id(0) * C + tl.arange(0, C), tl.arange(0, D)
    inside = (rows < T - 1)[:, None] & (columns < d)[None, :]
    at = rows[:, None] * d + columns[None, :]
    kept = tl.exp(tl.load(g + rows, mask=rows < T, other=0.0))
    tl.store(y + at, kept[:, None] * tl.load(x + at, mask=inside), mask=inside)


@triton.jit
def asks_the_reference(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    puzzles.faded(x, g)


@triton.jit
def has_stored_it(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    tl.store(y, STORED)


@triton.jit
def reaches_for_python(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    y.handle.data[:] = 1


@triton.jit
def goes_through_the_language(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    tl.core.builtins.print(x)


@triton.jit
def imports(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    import ctlearn.kernels.puzzles  # noqa: F401


@triton.jit
def helper(x):
    return puzzles.faded(x, x)


@triton.jit
def asks_through_a_helper(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    helper(x)


@triton.jit
def stops(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    tl.static_assert(C < 0, "no good")


@triton.jit
def hooked(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    pass


hooked.add_pre_run_hook(lambda x, g, y, *_, **__: y.copy_(puzzles.faded(x, g)["y"]))


@triton.jit
def takes_from_python(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    hash(x)


@triton.jit
def looks_behind_the_language(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    tl.static_assert(tl.__dict__)


@triton.jit
def looks_behind_its_functions(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    tl.static_assert(tl.math.__dict__)


@triton.jit
def has_a_function_of_its_own(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    def answer():
        return puzzles

    answer()


@triton.jit
def has_one_without_a_name(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):
    (lambda: x)()


WRONG = {
    writes_nothing: "nothing is written to y",
    writes_zeros: "y is wrong, first at",
    masks_nothing: "memory that is not its own",
    loads_twice: "loads 2.0 numbers for each of x",
    writes_in_place: "writes into its input x",
    forgets_the_last_rows: "numbers of y are NaN",
    asks_the_reference: "cannot use puzzles",
    has_stored_it: "cannot use STORED",
    reaches_for_python: "cannot use y.handle",
    goes_through_the_language: "cannot use tl.core",
    imports: "has no import",
    takes_from_python: "cannot use hash",
    looks_behind_the_language: "cannot use tl.__dict__.",
    looks_behind_its_functions: "cannot use tl.math.__dict__.",
    has_a_function_of_its_own: "defines nothing inside itself",
    has_one_without_a_name: "has no lambda",
    asks_through_a_helper: "cannot use puzzles",
    stops: "it stops",
    hooked: "nothing is written to y",
}


@pytest.mark.parametrize("name", puzzles.PUZZLES)
def test_a_solution_passes(name):
    verdict = puzzles.check(name, getattr(puzzle_solutions, name))
    assert verdict.passed, verdict.says
    assert repr(verdict).startswith("Passed. Right at ")


@pytest.mark.parametrize("kernel", WRONG, ids=lambda kernel: kernel.__name__)
def test_what_is_wrong_is_named(kernel):
    verdict = puzzles.check("fade", kernel)
    assert not verdict.passed
    assert WRONG[kernel] in verdict.says, verdict.says


def test_what_was_hung_on_a_kernel_is_not_run(monkeypatch):
    """Its text is translated anew, whatever stands where the translation is kept."""

    def told(*_, **__):
        raise AssertionError("it was run")

    monkeypatch.setitem(type(writes_nothing).rewritten_fn, writes_nothing.fn, told)
    assert "nothing is written" in puzzles.check("fade", writes_nothing).says


def test_inputs_are_drawn_anew_unless_a_seed_is_given(monkeypatch):
    seeds = []

    def draw(rng, **sizes):
        seeds.append(rng.initial_seed())
        return puzzle.draw(rng, **sizes)

    puzzle = puzzles.PUZZLES["fade"]
    monkeypatch.setitem(puzzles.PUZZLES, "fade", puzzle._replace(draw=draw))
    for seed in (None, None, 7):
        assert puzzles.check("fade", puzzle_solutions.fade, seed).passed
    one, other, given = (set(seeds[i : i + 3]) for i in (0, 3, 6))
    assert len(one) == len(other) == 1
    assert one != other
    assert given == {7}


def test_a_function_that_triton_has_not_seen_is_no_kernel():
    verdict = puzzles.check("fade", puzzles.faded)
    assert repr(verdict).startswith("Not yet. A kernel is a function with @triton.jit")


@triton.jit
def masks_late(g, D, C, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    rows = tl.load(g + tl.arange(0, N), mask=tl.arange(0, N) < C, other=0.0)
    sums = tl.cumsum(rows, 0)
    kept = tl.where(i >= j, tl.exp(sums[:, None] - sums[None, :]), 0.0)
    tl.store(D + i * C + j, kept, mask=(i < C) & (j < C))


@triton.jit
def subtracts_sums(g, D, C, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    rows = tl.load(g + tl.arange(0, N), mask=tl.arange(0, N) < C, other=0.0)
    sums = tl.cumsum(rows, 0)
    since = tl.where(i >= j, sums[:, None] - sums[None, :], float("-inf"))
    tl.store(D + i * C + j, tl.exp(since), mask=(i < C) & (j < C))


def test_an_exponential_that_overflows_is_found_although_it_is_masked():
    assert "overflows" in puzzles.check("decays", masks_late, seed=0).says


def test_decays_are_sums_and_no_differences_of_sums():
    found = [puzzles.check("decays", subtracts_sums, seed=seed) for seed in range(3)]
    assert not any(verdict.passed for verdict in found)


def changed(kernel, old, new, folder):
    """A solution with a slip in its text, as a kernel of its own."""
    import importlib.util
    import inspect

    source = inspect.getsource(kernel.fn)
    assert source.count(old) == 1
    helper = inspect.getsource(puzzle_solutions.tile.fn)
    file = folder / "slipped.py"
    head = "import triton\nimport triton.language as tl\n\n\n"
    file.write_text(f"{head}{helper}\n\n{source.replace(old, new)}")
    spec = importlib.util.spec_from_file_location("slipped", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, kernel.__name__)


SLIPS = {
    "the diagonal is masked": ("state", ">= i[None", "> i[None"),
    "the state is asked late": (
        "state",
        "b_S += tl.dot(tl.trans(b_k), b_v",
        "b_S = tl.dot(tl.trans(b_k), b_v",
    ),
    "the last chunk reads on": ("state", "keys = (rows < T)", "keys = (rows < T + 1)"),
    "the last state is doubled": (
        "state",
        "values[None, :], b_S, mask",
        "values[None, :], 2 * b_S, mask",
    ),
    "the ones are left out": ("chunk", "b_R = b_X + tl.dot", "b_R = tl.dot"),
    "the state is added": ("chunk", "C, d_v) - tl.dot", "C, d_v) + tl.dot"),
    "the rate is left out": ("chunk", "    b_X *= rate\n", ""),
    "the token before is left out": ("decays", "i > j", "i >= j"),
    "no future is masked": ("decays", "tl.where(i >= j, tl.exp(since), 0.0)", "since"),
    "decays grow": ("fade", "tl.exp(tl.load", "1 / tl.exp(tl.load"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip, tmp_path):
    name, old, new = SLIPS[slip]
    kernel = changed(getattr(puzzle_solutions, name), old, new, tmp_path)
    assert not puzzles.check(name, kernel).passed


def test_a_slip_in_a_triangular_system_spares_the_first_row(tmp_path):
    """Errors that meet A before their rates."""
    old, new = "C, C), b_X,", "C, C), b_X / tl.maximum(rate, 1e-6),"
    kernel = changed(puzzle_solutions.chunk, old, new, tmp_path)
    assert "o is wrong, first at [1, " in puzzles.check("chunk", kernel).says


def test_each_asks_for_the_parameters_that_its_solution_has():
    for name, puzzle in puzzles.PUZZLES.items():
        said = [x.partition(":")[0] for x in puzzle.signature().split(", ")]
        assert said == getattr(puzzle_solutions, name).arg_names


def test_what_is_compiled_is_not_judged(monkeypatch):
    monkeypatch.setattr(triton, "jit", lambda function: function)
    with pytest.raises(RuntimeError, match=r"interpreted\.begin\(\) first"):
        puzzles.check("fade", puzzle_solutions.fade)


def test_a_puzzle_that_there_is_not_is_refused():
    with pytest.raises(KeyError):
        puzzles.check("none", writes_nothing)
