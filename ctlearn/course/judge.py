"""Verdicts on what is handed in.

`judge` draws inputs, asks the submission in its sandbox, and compares with a reference
that is computed here and now. It must run where no student's code does: in the grader's
own process, or, for somebody whose session may have replaced what this relies on, in a
fresh one (`apart`).
"""

import contextlib
import secrets
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ctlearn.course.bank import exercises
from ctlearn.course.exercise import (
    Answer,
    Asked,
    Exercise,
    Inputs,
    Mistake,
    Stopped,
    text_of,
)
from ctlearn.course.kernels import KernelBox
from ctlearn.course.properties import Untouched, examine, listed
from ctlearn.course.runner.child import private
from ctlearn.course.runner.messages import pack
from ctlearn.course.sandbox import (
    LIMITS,
    START,
    Child,
    Limits,
    Sandbox,
    Submitted,
    Text,
    serving,
)

# Columns of a verdict in print: what fits a page's column of code.
WIDTH = 80
# What an answer lacks that raised an exception, as `examine` names it.
RAN = "an answer"
# What to think about where an argument was written into, whatever is asked.
KEEP = "The caller may still need what you were given. Which line writes into it?"


class Verdict(NamedTuple):
    """Whether an exercise is solved, and what is to be said.

    `kind` is "passed"; or "wrong", if a property is lacking; or what stopped it:
    "error", "shape" or "missing" is the function's own, "time", "memory", "output",
    "crash" and "forbidden" are its process's. `says` tells shapes and, but for one of a
    kernel, no number that is right; `hint` what to think about where the answer is
    wrong; and `mistake` the name of the mistake that was recognised, if one was.
    """

    key: str
    passed: bool
    kind: str
    says: str
    hint: str = ""
    mistake: str = ""

    def __repr__(self) -> str:
        first = f"{'Passed.' if self.passed else 'Not yet.'} {self.says}"
        told = [first, *([self.hint] if self.hint else [])]
        return "\n".join(textwrap.fill(text, WIDTH) for text in told)


def judge(
    exercise: Exercise,
    submission: Submitted,
    seed: int | None = None,
    limits: Limits = LIMITS,
) -> Verdict:
    """The verdict on one exercise; inputs are drawn anew each time, unless seeded.

    Raises RuntimeError where it cannot be judged, such as a kernel without Triton.
    """
    (verdict,) = verdicts([exercise], submission, seed, limits)
    return verdict


def verdicts(
    wanted: Iterable[Exercise],
    submission: Submitted,
    seed: int | None = None,
    limits: Limits = LIMITS,
) -> Iterator[Verdict]:
    """Verdicts on several exercises of one submission, in order; limits are for each.

    They share a process as long as nothing stops it and they may import the same.
    Raises RuntimeError if there can be none.
    """
    seed = secrets.randbits(32) if seed is None else seed
    with contextlib.ExitStack() as opened:
        box: Sandbox | KernelBox | None = None
        shared: Any = None
        for exercise in wanted:
            own = (bool(exercise.puzzle), exercise.uses)
            # what stopped while it was loaded would only do so again
            lost = box and box.stopped and getattr(box, "loaded", True)
            if box is None or shared != own or lost:
                opened.close()
                box, shared = boxed(exercise, submission, limits), own
                opened.enter_context(box)
            box.renew()
            yield verdict_on(exercise, box, seed)


def boxed(
    exercise: Exercise, submission: Submitted, limits: Limits
) -> Sandbox | KernelBox:
    """What the exercise is judged in."""
    if exercise.puzzle:
        return KernelBox(submission, limits)
    return Sandbox(submission, exercise.uses, limits)


def verdict_on(exercise: Exercise, box: Sandbox | KernelBox, seed: int) -> Verdict:
    """The verdict on what is in the box."""
    not_yet = Verdict(exercise.key, False, "wrong", "")
    try:
        if isinstance(box, KernelBox):
            passed, says = box.examine(exercise.puzzle, seed)
            if passed:
                return Verdict(exercise.key, True, "passed", says)
            wrong = not_yet._replace(says=says, hint=exercise.hint)
            return told(wrong, known(exercise, box, seed, says))
        broken, mistake = examine(exercise, fitting(exercise, box), seed)
    except Stopped as stopped:
        stopped_by = not_yet._replace(kind=stopped.kind, says=stopped.says)
        if stopped.kind == "forbidden":
            allowed = " and ".join(("Python's own modules", "NumPy", *exercise.uses))
            return stopped_by._replace(hint=f"An answer needs no more than {allowed}.")
        return stopped_by
    if not broken:
        tried = "; ".join(listed(sizes) for sizes in exercise.shapes)
        return Verdict(exercise.key, True, "passed", f"Right at {tried}.")
    first = broken[0]
    wrong = not_yet._replace(says=first.says, hint=exercise.hint)
    if first.name == RAN:
        wrong = wrong._replace(kind="error", hint="")
    elif first.name == Untouched.name:
        wrong = wrong._replace(hint=KEEP)
    return told(wrong, mistake)


def told(verdict: Verdict, mistake: Mistake | None) -> Verdict:
    """The verdict with what to think about, if the mistake is known."""
    if mistake is None:
        return verdict
    return verdict._replace(hint=mistake.says, mistake=mistake.name)


def known(exercise: Exercise, box: KernelBox, seed: int, says: str) -> Mistake | None:
    """The one mistake of which the same is said: a wrong number, at the same place.

    What is said without a number, of a mask or of NaN, many kernels have in common.
    """
    if " instead of " not in says:
        return None
    submission, found = box.submission, []
    try:
        for mistake in exercise.mistakes:
            box.submission = Text(text_of(mistake.function))
            box.renew()
            if box.examine(exercise.puzzle, seed) == (False, says):
                found.append(mistake)
    except Stopped:
        # the submission has its verdict, whatever becomes of this
        return None
    finally:
        box.submission = submission
    return found[0] if len(found) == 1 else None


def fitting(exercise: Exercise, box: Sandbox) -> Asked:
    """The submission's function, which must not return a list where one value is due.

    Arrays of many shapes in a list are no array, and cannot be compared with one.
    """

    def asked(inputs: Inputs) -> Answer:
        answer = box.call(exercise.name, inputs)
        if len(exercise.returns) == 1 and isinstance(answer.value, list | tuple):
            kind = type(answer.value).__name__
            wanted = f"{exercise.returns[0]}, one array or number, is asked for"
            raise Stopped("shape", f"Your function returns a {kind} where {wanted}.")
        return answer

    return asked


class Sent(NamedTuple):
    """A submission that was packed elsewhere."""

    held: dict[str, Any]

    def payload(self) -> dict[str, Any]:
        """What was packed."""
        return self.held


def apart(
    key: str,
    submission: Submitted,
    seed: int | None = None,
    limits: Limits = LIMITS,
) -> Verdict:
    """The verdict on an exercise of the bank, of a judge in a fresh process.

    Whatever this session has done to NumPy, to ctlearn or to the numbers' printing does
    not reach it. Raises KeyError for a key that there is not, and
    RuntimeError as `judge` does.
    """
    exercise = exercises()[key]
    if exercise.puzzle:  # these have a fresh process anyhow
        return judge(exercise, submission, seed, limits)
    try:
        held = submission.payload()
    except Stopped as stopped:
        return Verdict(key, False, stopped.kind, stopped.says)
    asked = {"key": key, "held": held, "seed": seed, "limits": tuple(limits)}
    code = serving(__name__, ("ctlearn", "numpy", "cloudpickle"))
    with tempfile.TemporaryDirectory() as folder:
        child = Child(code, folder, limits.output)
        try:
            return Verdict(*child.ask(asked, 2 * START + limits.seconds))
        except Stopped as stopped:
            said = child.printed.decode("utf-8", "replace")[-2000:]
            raise RuntimeError(f"no judge: {stopped.says}\n{said}") from stopped
        finally:
            child.close()


def serve() -> None:
    """In the fresh process: one verdict."""
    channel = private()
    asked = channel.receive()
    limits = Limits(*asked["limits"])
    exercise, held = exercises()[asked["key"]], Sent(asked["held"])
    channel.send(pack(tuple(judge(exercise, held, asked["seed"], limits))))
