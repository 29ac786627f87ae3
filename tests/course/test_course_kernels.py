"""Kernel exercises: of a submission only kernels are run, and they must compute."""

import importlib.util
import inspect
import signal
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
pytest.importorskip("triton", reason='no Triton: pip install "ctlearn[torch]" on Linux')
import os

from ctlearn.course import judge, kernels
from ctlearn.course.exercise import Exercise, Stopped
from ctlearn.course.kernels import KernelBox
from ctlearn.course.sandbox import Function, Limits, Text
from ctlearn.kernels import puzzle_solutions

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("puzzles are judged in the interpreter", allow_module_level=True)

# A kernel's first launch imports more of Triton.
LIMITS = Limits(seconds=10)
SOLUTIONS = inspect.getsource(puzzle_solutions)
FADE = inspect.getsource(puzzle_solutions.fade.fn)
FIRST = "def fade(x, g, y, T, d, C: tl.constexpr, D: tl.constexpr):"


def changed(old, new):
    """The solution of fade with one thing in it changed."""
    assert FADE.count(old) == 1
    return FADE.replace(old, new)


# What is handed in, whether it passes, and a word of what is said.
CASES = {
    "the solution": (FADE, True, "Right at"),
    "among code that would stop": (
        f"raise SystemExit\nimport nobody\n{FADE}\nopen('ran', 'w')\ndef half(:",
        False,
        "no function fade",
    ),
    "among code that would stop, but can be read": (
        f"raise SystemExit\nimport nobody\n{FADE}\nopen('ran', 'w')",
        True,
        "Right at",
    ),
    "with a helper and a constant": (
        "ONE = tl.constexpr(1)\n"
        "@triton.jit\ndef risen(x):\n    return tl.exp(x) * ONE\n"
        + changed("tl.exp(", "risen("),
        True,
        "Right at",
    ),
    "the last of two counts": (
        FADE + changed("kept[:, None] * tile", "tile"),
        False,
        "y is wrong",
    ),
    "nothing": ("", False, "no function fade"),
    "a plain function": (FADE.replace("@triton.jit\n", ""), False, "no function fade"),
    "writes nothing": (f"@triton.jit\n{FIRST}\n    pass", False, "nothing is written"),
    "asks the reference": (
        "from ctlearn.kernels import puzzles\n"
        f"@triton.jit\n{FIRST}\n    puzzles.faded(x, g)",
        False,
        "cannot use puzzles",
    ),
    "imports": (
        f"@triton.jit\n{FIRST}\n    import os",
        False,
        "has no import",
    ),
    "a second decorator": (f"@print\n{FADE}", False, "nothing else"),
    "a decorator that is called": (
        changed("@triton.jit", "@triton.jit(print(1))"),
        False,
        "nothing else",
    ),
    "a default that is called": (
        changed("D: tl.constexpr)", "D: tl.constexpr = print(1))"),
        False,
        "numbers for defaults",
    ),
    "an annotation that is called": (
        changed("T, d, C", "T: print(1), d, C"),
        False,
        "no annotation",
    ),
    "a default by name that is called": (
        changed("D: tl.constexpr)", "*, D: tl.constexpr = print(1))"),
        False,
        "numbers for defaults",
    ),
    "an annotation by place that is called": (
        changed("fade(x, g", "fade(x: print(1), /, g"),
        False,
        "no annotation",
    ),
    "what it returns is called": (
        changed("D: tl.constexpr):", "D: tl.constexpr) -> print(1):"),
        False,
        "no annotation",
    ),
    "any number of arguments": (
        "@triton.jit\ndef fade(*a, C: tl.constexpr, D: tl.constexpr):\n    pass",
        False,
        "names all",
    ),
    "Triton's own compiler": (
        changed("rows = ", "triton.compile(x)\n    rows = "),
        False,
        "triton.compile",
    ),
    "another language": (
        f"tl = tl.constexpr(3)\n{changed('tl.exp(', 'tl.core.print(')}",
        False,
        "cannot use tl.core",
    ),
    "a helper that is no kernel": (
        "@triton.jit\n@print\ndef risen(x):\n    return tl.exp(x)\n"
        + changed("tl.exp(", "risen("),
        False,
        "cannot use risen",
    ),
    "a helper that is no kernel, and no more": (
        "@triton.jit\n@print\ndef risen(x):\n    return tl.exp(x)\n",
        False,
        "no function fade",
    ),
    "a pattern, which reads what it likes": (
        changed("rows = ", "match x:\n        case tl.tensor(T=C): pass\n    rows = "),
        False,
        "has no match",
    ),
    "what Triton has from Python": (
        changed("rows = ", "tl.math.wraps(x, ('__init__',), ())(y)\n    rows = "),
        False,
        "cannot use tl.math.wraps",
    ),
    "brackets": ("(" * 10**5, False, "no function fade"),
    "stops": (
        changed("rows = ", "tl.static_assert(C < 0, '\x1b[2J')\n    rows = "),
        False,
        "stops",
    ),
}


@pytest.fixture(scope="module")
def box():
    with KernelBox(Text(""), LIMITS) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES)
def test_a_text_is_judged_by_the_kernel_in_it(case, box):
    text, passed, word = CASES[case]
    box.submission = Text(text)
    box.renew()
    found = box.examine("fade", 0)
    assert found[0] == passed, found
    assert word in found[1], found
    assert found[1].isprintable()


def test_a_kernel_of_a_session_goes_with_what_it_calls(box):
    box.submission = Function(puzzle_solutions.chunk)
    box.renew()
    name, cells = kernels.texts(box.submission, "any")
    assert (name, len(cells)) == ("chunk", 2)
    assert box.examine("chunk", 0)[0]
    with pytest.raises(Stopped, match=r"with @triton\.jit"):
        kernels.texts(Function(fade), "any")


OF_A_SESSION = f"""
import triton
import triton.language as tl
ONE = tl.constexpr(1)
@triton.jit
def risen(x):
    return tl.exp(x) * ONE
    return risen(x)
{changed("tl.exp(", "risen(")}
"""


def test_a_kernels_constants_go_with_it(tmp_path):
    file = tmp_path / "session.py"
    file.write_text(OF_A_SESSION)
    spec = importlib.util.spec_from_file_location("session", file)
    session = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(session)
    name, cells = kernels.texts(Function(session.fade), "any")
    assert b"ONE = tl.constexpr(1)" in cells
    assert "ONE = tl.constexpr(1)" in kernels.module_of(cells, name)


def test_what_python_would_run_is_not_taken():
    text = CASES["a helper that is no kernel"][0]
    assert "print" in text
    assert "print" not in kernels.module_of([text.encode()], "fade")


def test_the_child_holds_itself_to_limits(monkeypatch):
    asked = {"to": "a", "seconds": 3}
    left, held = [asked, {"memory": 1, "seconds": 2, "folder": "."}], []
    channel = SimpleNamespace(receive=left.pop, send=lambda data: None)

    def judged(*_):
        held.append(round(signal.getitimer(signal.ITIMER_REAL)[0]))
        return {"passed": True, "says": ""}

    monkeypatch.setattr(kernels, "judged", judged)
    monkeypatch.setattr(kernels, "private", lambda: channel)
    monkeypatch.setattr(kernels, "limit", lambda *most: held.append(most))
    with pytest.raises(IndexError):
        kernels.serve()
    assert held == [(1, 2), 3 + 5]


def fade(x, g):
    """What a statement shows: the kernel itself has other arguments."""


def test_a_kernel_is_judged_like_any_exercise_and_an_endless_one_stops(box):
    exercise = Exercise(
        key="18.fade",
        title="Fade",
        statement="Fade it.",
        reference=fade,
        returns=("y",),
        draw=lambda rng, sizes: {},
        shapes=(),
        properties=(),
        mistakes=(),
        hint="Mask what is too much.",
        minutes=1,
        marks=1,
        puzzle="fade",
    )
    endless = changed("rows = ", "while True:\n        pass\n    rows = ")
    found = []
    for text in (FADE, FADE.replace("mask=inside", "mask=None"), endless):
        box.submission = Text(text)
        box.left = 1.5
        found.append(judge.verdict_on(exercise, box, 0))
    assert [v.kind for v in found] == ["passed", "wrong", "time"]
    assert [v.hint for v in found] == ["", exercise.hint, ""]
