"""Hopper's assembler: the right one of two is taken, or it is said how to bring one."""

import os

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
pytest.importorskip("triton", reason='no Triton: pip install "ctlearn[torch]" on Linux')

from ctlearn.kernels import assembler, launch  # noqa: E402

OLD, NEW, NEWER = (
    assembler.Ptxas(path, version)
    for path, version in (("/old", (12, 8)), ("/new", (13, 1)), ("/newer", (13, 10)))
)


def found(own, other):
    return assembler.Assemblers(own, other, "TRITON_PTXAS_PATH")


@pytest.mark.parametrize(
    ("own", "other", "right"),
    [(OLD, NEW, NEW), (NEW, NEWER, NEW), (NEWER, OLD, NEWER)],
)
def test_its_own_is_kept_unless_it_is_too_old(own, other, right):
    """Case 40."""
    assert found(own, other).chosen(None) == right


def test_what_the_reader_chose_is_kept():
    assert found(NEWER, NEW).chosen("/newer") == NEWER


@pytest.mark.parametrize(
    ("own", "other", "wanted", "said"),
    [
        (OLD, OLD, None, r"^Hopper needs ptxas 13\.1 or newer.*ptxas 12\.8 \(/old\)"),
        (OLD, NEW, "/old", r"set TRITON_PTXAS_PATH to where it lies"),
        (OLD, NEW, "/nothing", r"^TRITON_PTXAS_PATH: no ptxas runs at /nothing$"),
    ],
)
def test_where_none_will_do_it_is_said_how_to_bring_one(own, other, wanted, said):
    """Case 40: nor is one taken that the reader did not choose."""
    with pytest.raises(RuntimeError, match=said):
        found(own, other).chosen(wanted)


def test_the_locked_triton_has_one(monkeypatch):
    """So that on Hopper nothing need be brought; and it is told to use it."""
    name = assembler.assemblers().variable
    monkeypatch.setenv(name, "")
    monkeypatch.delenv(name)
    ptxas = assembler.choose()
    assert ptxas.version >= (13, 1)
    assert assembler.assemblers().own == ptxas
    assert os.environ.get(name, ptxas.path) == ptxas.path


@pytest.mark.parametrize(
    ("tool", "variable"),
    [
        ("ptxas", "TRITON_PTXAS_PATH"),
        ("ptxas_blackwell", "TRITON_PTXAS_BLACKWELL_PATH"),
    ],
)
def test_the_variable_is_that_of_the_one_in_use(tool, variable, monkeypatch):
    """Triton 3.9 uses for Hopper the one that is named for Blackwell."""
    from triton import knobs
    from triton.backends.nvidia import compiler

    own = getattr(knobs.nvidia, tool)
    monkeypatch.setattr(compiler, "get_ptxas", lambda _: own)
    assert assembler.assemblers().variable == variable
    assert assembler.assemblers().own.path == own.path


@pytest.mark.parametrize(("major", "times"), [(8, 0), (9, 1), (10, 0)])
def test_hopper_has_it_chosen_before_a_kernel_runs(major, times, monkeypatch):
    """Case 40: the launch is asked for first."""
    chosen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (major, 0))
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(launch, "choose", lambda: chosen.append("one"))
    assert launch.here.__wrapped__() == launch.kind(major, amd=False)
    assert len(chosen) == times
