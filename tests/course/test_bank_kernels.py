"""The bank's kernels: a solution passes, and what is known to be wrong does not."""

import os

import pytest

pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
pytest.importorskip("triton", reason='no Triton: pip install "ctlearn[torch]" on Linux')

from ctlearn.course import judge
from ctlearn.course.bank import exercises
from ctlearn.course.kernels import KernelBox
from ctlearn.course.mutants import mutated
from ctlearn.course.sandbox import Limits, Text
from ctlearn.kernels import puzzles

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("puzzles are judged in the interpreter", allow_module_level=True)

KERNELS = {key: x for key, x in exercises().items() if x.puzzle}
# All mutants of the four take half a minute, and 313 of 327 are noticed. Here, every
# so many of them are tried.
STRIDE = 9

each = pytest.mark.parametrize("exercise", KERNELS.values(), ids=KERNELS)


@pytest.fixture(scope="module")
def box():
    with KernelBox(Text(""), Limits(seconds=20)) as opened:
        yield opened


@pytest.fixture
def ask(box):
    """What is said of a text that is handed in for a puzzle."""

    def asked(exercise, text):
        box.submission = Text(text)
        box.renew()
        return box.examine(exercise.puzzle, 0)

    return asked


def test_every_puzzle_has_an_exercise_and_its_arguments():
    assert {x.puzzle for x in KERNELS.values()} == set(puzzles.PUZZLES)
    for exercise in KERNELS.values():
        asked = puzzles.PUZZLES[exercise.puzzle].signature()
        head = exercise.stub.partition('"""')[0]
        assert " ".join(asked.split()) in " ".join(head.split()).replace(", ):", "")
        assert exercise.name == exercise.puzzle


@each
def test_a_solution_passes_and_a_stub_does_not(exercise, ask):
    assert ask(exercise, exercise.solution)[0]
    assert not ask(exercise, exercise.stub)[0]


@each
def test_mistakes_do_not_pass_and_are_known_by_their_numbers(exercise, ask, box):
    said = [ask(exercise, mistake.function.text) for mistake in exercise.mistakes]
    assert len(said) >= 3
    assert not any(passed for passed, _ in said)
    # a mask or NaN is told by itself, and two may have their first number in common
    known = [
        mistake
        for mistake, told in zip(exercise.mistakes, said, strict=True)
        if " instead of " in told[1] and said.count(told) == 1
    ]
    box.submission = Text(known[-1].function.text)
    verdict = judge.verdict_on(exercise, box, 0)
    assert (verdict.mistake, verdict.hint) == (known[-1].name, known[-1].says)


def test_slips_in_kernels_are_noticed(ask):
    every = [(x, text) for x in KERNELS.values() for text in mutated(x.reference)]
    some = every[::STRIDE]
    left = [text for exercise, text in some if ask(exercise, text)[0]]
    assert len(left) <= 0.1 * len(some), left
