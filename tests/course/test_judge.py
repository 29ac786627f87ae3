"""The judge: what is right passes, what is wrong is told and recognised."""

import itertools
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ctlearn import course, scalars
from ctlearn.course import judge, sandbox
from ctlearn.course.bank import exercises
from ctlearn.course.exercise import Exercise, Mistake, Stopped, slip, text_of
from ctlearn.course.properties import Untouched, Values
from ctlearn.course.runner.messages import unpack
from ctlearn.course.sandbox import Function, Limits, Text

LIMITS = Limits(seconds=20, memory=2**28, output=2**20)
KEY = "07.delta-step"


def plus(x):
    """One more than x [n]."""
    return x + 1


def exercise(uses=(), draw=lambda rng, sizes: {"x": rng.normal(size=sizes["n"])}):
    """The exercise to add one."""
    return Exercise(
        key="00.plus",
        title="One more",
        statement="Add one.",
        reference=plus,
        returns=("y",),
        draw=draw,
        shapes=({"n": 3}, {"n": 1}),
        properties=(Values(), Untouched()),
        mistakes=(Mistake("sign", slip(plus, ("+", "-")), "Which way is up?"),),
        hint="Count.",
        minutes=1,
        marks=1,
        uses=uses,
    )


def test_a_verdict_says_what_is_lacking_and_what_to_think_about():
    wanted = exercise()
    minus = text_of(wanted.mistakes[0].function)
    sine = "import numpy as np\ndef plus(x): return np.sin(x)"
    written = "def plus(x):\n    x += 1\n    return x"
    stops = "def plus(x): return y"
    right, sign, other, kept, stopped = (
        judge.judge(wanted, Text(text), limits=LIMITS)
        for text in (text_of(plus), minus, sine, written, stops)
    )
    assert right == ("00.plus", True, "passed", "Right at n = 3; n = 1.", "", "")
    assert repr(right) == "Passed. Right at n = 3; n = 1."
    says = "y is wrong, first in row 0 (counted from 0), at n = 3."
    assert sign[1:] == (False, "wrong", says, "Which way is up?", "sign")
    assert other[1:] == (False, "wrong", says, "Count.", "")
    assert repr(other) == f"Not yet. {says}\nCount."
    # the exercise's own hint would lead astray
    assert kept.says == "Your function writes into its argument x, at n = 3."
    assert kept.hint == judge.KEEP
    assert (stopped.kind, stopped.hint) == ("error", "")


def test_inputs_are_new_each_time_unless_they_are_seeded():
    drawn = []

    def draw(rng, sizes):
        drawn.append(rng.normal(size=sizes["n"]))
        return {"x": drawn[-1]}

    for seed in (0, 0, None, None):
        # memorised answers are of no use: none of the inputs comes again
        judge.judge(exercise(draw=draw), Text(text_of(plus)), seed, LIMITS)
    runs = np.array([x[0] for x in drawn]).reshape(4, -1)
    assert (runs[0] == runs[1]).all()
    assert len(np.unique(runs[1:])) == runs[1:].size


@pytest.fixture
def started(monkeypatch):
    """The children that were started, as they come."""
    children = []

    class Counted(sandbox.Child):
        def __init__(self, *arguments):
            children.append(self)
            super().__init__(*arguments)

    monkeypatch.setattr(sandbox, "Child", Counted)
    return children


def test_one_process_serves_several_exercises_until_it_is_stopped(started):
    text = "import os\ncalls = []\ndef plus(x):\n    calls.append(0)\n"
    text += "    if len(calls) == 9: os._exit(0)\n    return x + 1\n"
    wanted = [exercise(), exercise(), exercise(), exercise(uses=("ctlearn.scalars",))]
    found = []
    for verdict in judge.verdicts(wanted, Text(text), limits=LIMITS):
        found.append(verdict.kind)
        assert sum(child.process.returncode is None for child in started) <= 1
    # eight calls each: the ninth of the first process ends it, and nobody else
    assert found == ["passed", "crash", "passed", "passed"]
    assert len(started) == 3
    assert all(child.process.returncode is not None for child in started)


def test_each_exercise_has_the_seconds_of_its_own(monkeypatch):
    # a clock by which a call takes a second: eight for each exercise, one to load
    clock = SimpleNamespace(monotonic=itertools.count().__next__)
    monkeypatch.setattr(sandbox, "time", clock)
    limits = LIMITS._replace(seconds=12)
    found = judge.verdicts([exercise()] * 2, Text(text_of(plus)), limits=limits)
    assert [v.kind for v in found] == ["passed", "passed"]


def test_of_several_things_that_are_lacking_the_first_is_told():
    text = "def plus(x):\n    x -= 1\n    return x"
    verdict = judge.judge(exercise(), Text(text), limits=LIMITS)
    assert verdict.says.startswith("y is wrong")


class Told:
    """What says of each text what it is given, in the place of a box of kernels."""

    def __init__(self, *says):
        self.submission, self.says = Text("mine"), list(says)
        self.renewed = 0

    def renew(self):
        self.renewed += 1

    def examine(self, puzzle, seed):
        says = self.says.pop(0)
        if isinstance(says, Stopped):
            raise says
        return False, says


def test_a_kernels_mistake_is_known_by_a_number_that_no_other_has():
    wanted = exercise()
    wanted = replace(wanted, mistakes=wanted.mistakes * 2)
    number, other = "1 instead of 2.", "1 instead of 3."
    for told, says, known in (
        ((number, other), number, wanted.mistakes[0]),
        ((number, number), number, None),
        ((other, other), number, None),
        (("a mask", "a mass"), "a mask", None),
        ((Stopped("time", ""), number), number, None),
    ):
        box = Told(*told)
        assert judge.known(wanted, box, 0, says) is known
        assert box.submission == Text("mine")
        assert box.renewed == 2 - len(box.says)


def test_a_judge_apart_has_the_seed_and_the_limits_that_it_is_given(monkeypatch):
    asked = {"key": KEY, "held": {"cells": []}, "seed": 7, "limits": (0.5, 2, 3)}
    verdict = judge.Verdict(KEY, False, "wrong", "")
    sent, given = [], []

    def judged(*arguments):
        given.append(arguments)
        return verdict

    channel = SimpleNamespace(receive=lambda: asked, send=sent.append)
    monkeypatch.setattr(judge, "private", lambda: channel)
    monkeypatch.setattr(judge, "judge", judged)
    judge.serve()
    ((wanted, held, seed, limits),) = given
    assert (wanted.key, held.payload(), seed) == (KEY, {"cells": []}, 7)
    assert limits == Limits(0.5, 2, 3)
    assert judge.Verdict(*unpack(sent[0])) == verdict


def test_what_stops_while_it_is_loaded_is_not_tried_again(started):
    text, limits = Text("while True: pass"), LIMITS._replace(seconds=0.5)
    found = list(judge.verdicts([exercise()] * 3, text, limits=limits))
    assert [v.kind for v in found] == ["time"] * 3
    assert len(started) == 1


# Answers that somebody else than the runner sends, in the name of the message that is
# being answered.
FORGED = """
import sys
import numpy as np
from runner.messages import pack

def plus(x):
    frame = sys._getframe()
    while "asked" not in frame.f_locals:
        frame = frame.f_back
    token, channel = frame.f_locals["asked"]["to"], frame.f_locals["channel"]
    packed = pack(ANSWER)
    channel.send(pack({"to": token, "changed": "", "packed": packed}))
    return x + 1
"""


@pytest.mark.parametrize(
    "answer",
    [
        "{'value': [[1], [1, 2]], 'inputs': {}}",
        "{'value': x + 1, 'inputs': {'x': [x]}}",
        "{'value': x + 1, 'inputs': 3}",
        "{'value': x + 1, 'inputs': {'x': x}}",
        "7",
    ],
)
def test_an_answer_that_the_runner_did_not_send_is_refused(answer):
    text = FORGED.replace("ANSWER", answer)
    verdict = judge.judge(exercise(), Text(text), limits=LIMITS)
    assert (verdict.passed, verdict.kind) == (False, "forbidden"), verdict


def test_a_function_that_needs_more_is_told_what_it_may_use():
    def plus(x):
        return scalars.__name__

    verdict = judge.judge(exercise(), Function(plus), limits=LIMITS)
    assert (verdict.kind, verdict.passed) == ("forbidden", False)
    assert verdict.says.startswith("Your function cannot be used by itself. Refused:")
    assert (
        verdict.hint == "An answer needs no more than Python's own modules and NumPy."
    )


def test_what_is_no_function_and_no_key_is_said_briefly():
    with pytest.raises(TypeError, match="got a ndarray"):
        course.check("07.slope", np.ones(2))
    with pytest.raises(KeyError, match=r"no exercise \['07.slope'\]"):
        course.show(["07.slope"])
    for key, near in {
        "07.slop": "there are 07.delta-step, 07.delta-rule",
        "7.slope": "there are 07.slope",
        "slope": "there are 07.slope",
        "": "a key is like",
    }.items():
        with pytest.raises(KeyError, match=re.escape(near)) as told:
            course.show(key)
        assert len(str(told.value)) < 120


def test_a_session_that_replaced_names_is_judged_from_apart(monkeypatch):
    step = exercises()[KEY].reference

    def mine(q, k, v, beta, S):
        return 0 * q, 0 * S

    def right(q, k, v, beta, S):
        S = S + beta * np.outer(k, v - S.T @ k)
        return S.T @ q, S

    # with this, the reference itself returns zeros
    monkeypatch.setitem(step.__globals__, "np", None)
    monkeypatch.setattr(np, "outer", lambda *_: 0)
    monkeypatch.setattr(np, "abs", lambda x: np.zeros(1))
    wrong, passed = (
        judge.apart(KEY, Function(f), limits=LIMITS) for f in (mine, right)
    )
    assert (wrong.passed, wrong.kind, passed.passed) == (False, "wrong", True)
    assert not re.search(r"\d\.\d", wrong.says)
    with pytest.raises(KeyError):
        judge.apart("00.none", Function(mine))
