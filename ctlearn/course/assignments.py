"""Assignments: which exercises are handed out together, and to whom which of them.

A set asks some exercises of everybody and draws others from pools of equal worth, so
that neighbours have different sheets and the same marks to win.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ctlearn.course.bank import exercises
from ctlearn.course.exercise import Exercise

FORMAT = 1


class Pool(NamedTuple):
    """Keys of which `n` are drawn for a student; all are worth the same."""

    n: int
    keys: tuple[str, ...]


class ProblemSet(NamedTuple):
    """A sheet of exercises: keys that all get, and pools."""

    name: str
    title: str
    about: str
    keys: tuple[str, ...]
    pools: tuple[Pool, ...]

    @property
    def marks(self) -> int:
        """What can be won on a sheet, whatever is drawn."""
        drawn = sum(pool.n * exercises()[pool.keys[0]].marks for pool in self.pools)
        return drawn + sum(exercises()[key].marks for key in self.keys)

    @property
    def minutes(self) -> tuple[int, int]:
        """How long the shortest sheet takes that can be drawn, and the longest."""
        least = most = sum(exercises()[key].minutes for key in self.keys)
        for pool in self.pools:
            each = sorted(exercises()[key].minutes for key in pool.keys)
            least, most = least + sum(each[: pool.n]), most + sum(each[-pool.n :])
        return least, most


SETS = {
    each.name: each
    for each in (
        ProblemSet(
            "set-1",
            "Two ways to remember",
            "Chapters 1 to 4: the order of two products, and what a sum keeps.",
            ("01.merge", "02.normalised", "03.two-passes", "03.retention"),
            (
                Pool(1, ("02.ramp", "04.common")),
                Pool(1, ("01.streamed", "04.error")),
            ),
        ),
        ProblemSet(
            "set-2",
            "Forgetting, and a tiny model",
            "Chapters 5 and 6: gates, chunks that fade, and a state that is fitted.",
            (
                "05.chunk",
                "05.mask",
                "06.one-step",
                "06.kernel-regression",
                "06.to-come",
            ),
            (Pool(1, ("05.gated-memory", "05.channels", "06.start")),),
        ),
        ProblemSet(
            "set-3",
            "The delta rule",
            "Chapters 7 and 8: write the error, first one by one and then in chunks.",
            ("07.delta-rule", "07.strength", "08.chunks", "08.columns"),
            (
                Pool(1, ("07.delta-step", "07.slope")),
                Pool(1, ("08.wy", "08.inverse", "08.prepare", "08.chunk-steps")),
            ),
        ),
        ProblemSet(
            "set-4",
            "Gates and errors together",
            "Chapter 9, and the last bug of chapter 8: what fades, and when.",
            ("08.fades", "09.gated-rule", "09.gated-chunk", "09.one-line"),
            (Pool(1, ("09.gated-step", "09.bridge", "09.second-rule")),),
        ),
        ProblemSet(
            "set-5",
            "Context as training data",
            "Chapters 10 to 14: solvers, fair baselines, and tests that find a leak.",
            ("10.baseline", "11.conjugate-gradients", "14.late-features"),
            (
                Pool(1, ("12.only-start", "12.resume", "13.foresight")),
                Pool(2, ("10.loops", "10.sees-itself", "11.one-hot")),
            ),
        ),
        ProblemSet(
            "set-6",
            "Building with it",
            "Chapters 15 to 19: hybrids, long lives, fair comparisons, and kernels.",
            ("15.lola", "16.prune", "18.decays"),
            (
                Pool(1, ("18.state", "18.chunk")),
                Pool(2, ("15.surprise", "16.paths", "17.fair", "19.shares")),
            ),
        ),
    )
}


class Assignment(NamedTuple):
    """A sheet as one student gets it."""

    name: str
    title: str
    about: str
    exercises: tuple[Exercise, ...]

    @property
    def marks(self) -> int:
        """What can be won."""
        return sum(exercise.marks for exercise in self.exercises)

    @property
    def minutes(self) -> int:
        """How long it takes."""
        return sum(exercise.minutes for exercise in self.exercises)


def whole_chapter(chapter: int) -> ProblemSet:
    """All exercises of a chapter as a set; raises ValueError if it has none.

    Those of equal worth are a pool, of which a sheet that is drawn lacks one.
    """
    worth: dict[int, list[str]] = {}
    for key, exercise in exercises().items():
        if exercise.chapter == chapter:
            worth.setdefault(exercise.marks, []).append(key)
    if not worth:
        raise ValueError(f"chapter: expected one with exercises, got {chapter}")
    single = tuple(keys[0] for keys in worth.values() if len(keys) == 1)
    pools = tuple(Pool(len(x) - 1, tuple(x)) for x in worth.values() if len(x) > 1)
    name, title = f"chapter-{chapter:02}", f"Exercises of chapter {chapter}"
    return ProblemSet(name, title, "", single, pools)


def draw(asked: ProblemSet, seed: int | None = None, student: str = "") -> Assignment:
    """The sheet of one student.

    Which exercises of a pool it has is drawn from the seed and the student's name and
    from nothing else. Without a seed it has every exercise of every pool, as an
    instructor wants it. Exercises come in the order of the book.
    """
    keys = set(asked.keys)
    digest = hashlib.sha256(json.dumps([asked.name, seed, student]).encode()).digest()
    rng = np.random.default_rng(list(digest))
    for pool in asked.pools:
        n = len(pool.keys) if seed is None else pool.n
        keys |= {pool.keys[i] for i in rng.permutation(len(pool.keys))[:n]}
    found = tuple(x for key, x in exercises().items() if key in keys)
    return Assignment(asked.name, asked.title, asked.about, found)


class Handed(NamedTuple):
    """What was handed out: keys for each student, or, under "", for everybody."""

    name: str
    sheets: dict[str, tuple[str, ...]]

    def save(self, file: Path) -> None:
        """Keep it beside what was handed out; grading reads it."""
        held = {"format": FORMAT, "name": self.name, "sheets": self.sheets}
        text = json.dumps(held, indent=1, ensure_ascii=False)
        file.write_text(text + "\n", encoding="utf-8")

    def of(self, student: str) -> tuple[Exercise, ...] | None:
        """The exercises of a student; None for one who was handed nothing."""
        keys = self.sheets.get(student, self.sheets.get(""))
        return None if keys is None else tuple(exercises()[key] for key in keys)


# What may come of bytes that `Handed.save` did not write.
_FAULTS = (AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)


def handed(file: Path) -> Handed:
    """What `Handed.save` wrote.

    Raises ValueError, naming the file, for anything else.
    """
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
        if held["format"] != FORMAT:
            raise ValueError(f"format {held['format']}")
        sheets = {
            str(who): tuple(map(str, keys)) for who, keys in held["sheets"].items()
        }
        name = str(held["name"])
    except _FAULTS as error:
        says = f"{file} is no list of what was handed out: {error}"
        raise ValueError(says) from error
    unknown = {key for keys in sheets.values() for key in keys} - set(exercises())
    if unknown:
        raise ValueError(f"{file} has exercises that there are not: {sorted(unknown)}")
    return Handed(name, sheets)


def roster(file: Path) -> tuple[str, ...]:
    """Students' names, one on a line, as their files will be called.

    Raises ValueError for a file that cannot be read, a name twice, or one that cannot
    be the name of a file.
    """
    try:
        # some programs begin a text with a mark of its encoding
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise ValueError(f"students: {file} cannot be read: {error}") from error
    names = [line.strip() for line in text.splitlines() if line.strip()]
    check_names(names)
    return tuple(names)


def check_names(names: Iterable[str]) -> None:
    """Raise ValueError for a name twice, or one that cannot be the name of a file."""
    seen: set[str] = set()
    for name in names:
        if name != Path(name).name or name.startswith(".") or set(name) & set('\\:*?"'):
            raise ValueError(f"students: {name!r} cannot be the name of a file")
        # as file systems and `grade` compare them
        same = unicodedata.normalize("NFC", name).casefold()
        if same in seen:
            raise ValueError(f"students: {name!r} is there twice")
        seen.add(same)


def make_folder(out: Path) -> None:
    """Make the folder `out`; raises ValueError if something else has that name."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ValueError(f"out: {out} is no folder") from error
