"""Which exercises a learner has solved, in one file that the learner owns.

The file is ~/.ctlearn/progress.json, or what the environment variable CTLEARN_PROGRESS
names. It is replaced as a whole at every change, so that a power cut leaves the old one
or the new one. A file that cannot be read is never written over.
"""

import contextlib
import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ctlearn.course.bank import exercises
from ctlearn.course.locked import locked

PLACE = "CTLEARN_PROGRESS"
FORMAT = 1
# What may come of a file that holds something else.
FAULTS = (AttributeError, LookupError, RecursionError, TypeError, ValueError)


class ProgressError(Exception):
    """The file is there and cannot be understood, or cannot be written."""


class Record(NamedTuple):
    """An exercise so far: how often it was tried, and when first solved, if it was."""

    tries: int
    solved: str | None


class Progress(dict[str, Record]):
    """Records by key; shown chapter by chapter, with what is still to do."""

    def __repr__(self) -> str:
        chapters: dict[int, list[str]] = {}
        for key, exercise in exercises().items():
            record = self.get(key, Record(0, None))
            mark = "✓" if record.solved else "·" if record.tries else " "
            line = f"  {mark} {key:24} {exercise.title}"
            chapters.setdefault(exercise.chapter, []).append(line)
        shown = []
        for chapter, lines in chapters.items():
            solved = sum(line.startswith("  ✓") for line in lines)
            shown += [f"Chapter {chapter}: {solved} of {len(lines)} solved", *lines]
        return "\n".join(shown)


def place() -> Path:
    """Where the file is, or will be; raises ProgressError without a home folder."""
    named = os.environ.get(PLACE)
    if named:
        return Path(named)
    try:
        return Path.home() / ".ctlearn" / "progress.json"
    except RuntimeError as error:
        says = f"Your progress has no place: {error}. Name a file by {PLACE}."
        raise ProgressError(says) from error


def progress() -> Progress:
    """What the file says; empty if there is none.

    Raises ProgressError if it cannot be understood.
    """
    try:
        text = place().read_text(encoding="utf-8")
    except FileNotFoundError:
        return Progress()
    except (OSError, UnicodeDecodeError) as error:
        raise ProgressError(_said("cannot be read", error)) from error
    try:
        held = json.loads(text)
        if held["format"] != FORMAT:
            raise ValueError(f"its format is {held['format']}, expected {FORMAT}")
        return Progress({key: _record(x) for key, x in held["exercises"].items()})
    except FAULTS as error:
        raise ProgressError(_said("is damaged", error)) from error


def record(key: str, passed: bool) -> None:
    """Count a try of an exercise, and keep the time when it was solved first.

    Raises ProgressError, and leaves the file alone, if it cannot be understood.
    """
    path = place()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # two notebooks may finish at once
        with locked(path.with_name(f".{path.name}.lock"), wait=True):
            _replace(path, _counted(key, passed))
    except OSError as error:
        raise ProgressError(_said("cannot be written", error)) from error


def _counted(key: str, passed: bool) -> str:
    """The file's text with one more try."""
    held = progress()
    tries, solved = held.get(key, Record(0, None))
    if passed and solved is None:
        solved = datetime.now(UTC).isoformat(timespec="seconds")
    held[key] = Record(tries + 1, solved)
    records = {key: x._asdict() for key, x in held.items()}
    return json.dumps({"format": FORMAT, "exercises": records}, indent=1)


def _replace(path: Path, text: str) -> None:
    """Write beside the file, then put that in its place in one act."""
    number, beside = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise


def _record(held: dict[str, Any]) -> Record:
    found = Record(**held)
    if type(found.tries) is not int or not isinstance(found.solved, str | None):
        raise ValueError(f"{held} is no record of an exercise")
    return found


def _said(what: str, error: Exception) -> str:
    return (
        f"Your progress file {place()} {what} ({type(error).__name__}: {error}). It "
        f"has been left as it is: mend it, move it away, or name another by {PLACE}."
    )
