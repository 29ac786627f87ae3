"""Marking a folder of submissions: several at a time, and each one once.

What is found is written down submission by submission, so that a run which was broken
off goes on where it was, and a submission that breaks costs nobody else anything. All
are judged on inputs drawn from one seed, which is kept with the results.
"""

import contextlib
import csv
import hashlib
import itertools
import json
import os
import secrets
import stat
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from ctlearn.course.assignments import Handed, make_folder
from ctlearn.course.exercise import Exercise
from ctlearn.course.judge import Verdict, verdicts
from ctlearn.course.locked import locked
from ctlearn.course.sandbox import LARGEST, LIMITS, File, Limits

ENDINGS = (".ipynb", ".py")
FOUND, MARKS, REPORTS = "found.jsonl", "marks.csv", "reports"
MISTAKES = "mistakes.csv"
# Of many files in the place of one, how many are named.
SHOWN = 4
# Bytes of a name from which on it is cut.
LONG = 200
# Folders in one another; walking through them takes a call each.
DEEP = 50
# What a kernel's inputs are drawn from must be below.
SEEDS = 2**63


class HandedIn(NamedTuple):
    """A student's file; None if there is none that counts, and `says` why.

    `unread` are folders of theirs that cannot be read.
    """

    student: str
    file: Path | None
    says: str = ""
    unread: tuple[str, ...] = ()

    def digest(self) -> str:
        """What the file's bytes are; another one is another submission."""
        data = self.says.encode() if self.file is None else self.file.read_bytes()
        return hashlib.sha256(data).hexdigest()


class Result(NamedTuple):
    """A submission, marked."""

    student: str
    file: str
    digest: str
    verdicts: tuple[Verdict, ...]


class Marked(NamedTuple):
    """What a run came to.

    `failed` could not be marked, by no fault of theirs; `strangers` handed something in
    and were handed nothing.
    """

    results: tuple[Result, ...]
    failed: tuple[tuple[str, str], ...]
    strangers: tuple[str, ...]


def handed_in(folder: Path, handed: Handed) -> list[HandedIn]:
    """A file for each student who was handed something, or handed something in.

    A submission is a notebook or a module that has the student's name, or is alone in a
    folder of that name, at any depth. A link is none: it may lead anywhere.

    Raises ValueError if the folder is none, or is empty.
    """
    if not folder.is_dir():
        raise ValueError(f"folder: {folder} is none")
    known = {legible(student): student for student in handed.sheets if student}
    found: dict[str, list[Path]] = {student: [] for student in known.values()}
    unread: dict[str, list[str]] = {}
    for entry in sorted(folder.iterdir()):
        alone = entry.suffix.lower() in ENDINGS and not is_folder(entry)
        if entry.name.startswith(".") or not (alone or entry.is_dir()):
            continue
        name = legible(entry.stem if alone else entry.name)
        student = known.get(name, name)
        lost = unread.setdefault(student, [])
        files = files_in(entry, lost) if is_folder(entry) else [entry]
        found.setdefault(student, []).extend(files)
    if not found:
        raise ValueError(f"folder: {folder} has no notebook and no module in it")
    return [
        _one(student, files)._replace(unread=tuple(unread.get(student, ())))
        for student, files in sorted(found.items())
    ]


def is_folder(path: Path) -> bool:
    """Whether it is a folder, and no link to one."""
    return path.is_dir() and not path.is_symlink()


def files_in(folder: Path, unread: list[str]) -> list[Path]:
    """What may be a submission below a folder; folders not to be read go to `unread`.

    What is hidden is left out. What lies below too many folders is not read.
    """

    def lost(error: OSError) -> None:
        unread.append(f"{type(error).__name__}: {error.filename}")

    found = []
    for place, folders, files in os.walk(folder, onerror=lost):
        links = [x for x in folders if (Path(place) / x).is_symlink()]
        folders[:] = [name for name in folders if name[0] != "."]
        if folders and len(Path(place).relative_to(folder).parts) >= DEEP:
            unread.append(f"more than {DEEP} folders in one another")
            folders.clear()
        paths = (Path(place) / name for name in (*files, *links) if name[0] != ".")
        found += [path for path in paths if path.suffix.lower() in ENDINGS]
    return sorted(found)


def _one(student: str, files: list[Path]) -> HandedIn:
    if not files:
        return HandedIn(student, None, "Nothing was handed in.")
    if len(files) > 1:
        names = [legible(file.name) for file in files[:SHOWN]]
        if len(files) > SHOWN:
            names.append(f"{len(files) - SHOWN} more")
        return HandedIn(
            student, None, f"There are {' and '.join(names)}; which counts?"
        )
    (file,) = files
    name, about = legible(file.name), file.lstat()
    if not stat.S_ISREG(about.st_mode):
        return HandedIn(student, None, f"{name} is a link, or no plain file.")
    if about.st_size > LARGEST:
        return HandedIn(student, None, f"{name} is too large.")
    return HandedIn(student, file)


def legible(name: str) -> str:
    """A name for tables and pages: composed, with escapes for what is not printed."""
    composed = unicodedata.normalize("NFC", name)
    return "".join(x if x.isprintable() else repr(x)[1:-1] for x in composed)


@contextlib.contextmanager
def alone(out: Path) -> Iterator[None]:
    """Keep others from writing there; the system lets go if the process ends.

    Raises ValueError if somebody else is at it.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(out / ".lock", wait=False))
        except OSError as error:
            says = f"out: another run is writing to {out}"
            raise ValueError(says) from error
        yield


def grade(
    folder: Path,
    handed: Handed,
    out: Path,
    *,
    jobs: int = 2,
    seed: int | None = None,
    limits: Limits = LIMITS,
    show: Callable[[Iterable, int], Iterable] = lambda done, n: done,
) -> Marked:
    """Mark all submissions in a folder, and write marks and reports to `out`.

    What is in `out` already is kept, if it is of the same file and the same sheet. The
    seed is drawn at the first run. `show` may show how far they are. Raises ValueError
    for less than one job, for a seed that is none or another than the first run's, for
    an `out` that is no folder, lies among the submissions, is damaged, or to which
    another run is writing, and as `handed_in` does.
    """
    if jobs < 1:
        raise ValueError(f"jobs: expected 1 or more, got {jobs}")
    if seed is not None and not 0 <= seed < SEEDS:
        raise ValueError(f"seed: expected 0 or more, and less than 2^63, got {seed}")
    make_out(folder, out)
    with alone(out):
        seed, before = begun(out, handed, seed)
        every = handed_in(folder, handed)
        strangers = tuple(x.student for x in every if handed.of(x.student) is None)
        done: dict[str, Result] = {}
        waiting = []
        for each in every:
            if each.student in strangers:
                continue
            result = before.get(each.student)
            if result and _same(result, each, handed):
                done[each.student] = result
            else:
                waiting.append(each)
        failed: list[tuple[str, str]] = []
        with (out / FOUND).open("a", encoding="utf-8") as kept:
            for each, made in _marked(waiting, handed, jobs, seed, limits, show):
                if isinstance(made, Exception):
                    failed.append((each.student, f"{type(made).__name__}: {made}"))
                    continue
                done[each.student] = made
                kept.write(json.dumps(made) + "\n")
                kept.flush()
                os.fsync(kept.fileno())
        results = tuple(done[name] for name in sorted(done))
        write_marks(out / MARKS, results, handed)
        write_mistakes(out / MISTAKES, results)
        write_reports(out / REPORTS, results, handed)
    return Marked(results, tuple(failed), strangers)


def make_out(folder: Path, out: Path) -> None:
    """Make `out`; raises ValueError if it is a file, or lies among the submissions."""
    if out.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"out: {out} lies among the submissions")
    make_folder(out)


def _same(result: Result, each: HandedIn, handed: Handed) -> bool:
    """Whether a result is of this file and of what the student was asked."""
    keys = [exercise.key for exercise in handed.of(each.student) or ()]
    told = [verdict.key for verdict in result.verdicts]
    try:
        return told == keys and result.digest == each.digest()
    except OSError:  # marking it anew tells what is the matter
        return False


def _marked(
    waiting: list[HandedIn],
    handed: Handed,
    jobs: int,
    seed: int,
    limits: Limits,
    show: Callable[[Iterable, int], Iterable],
) -> Iterator[tuple[HandedIn, Result | Exception]]:
    """Results as they come. Threads are enough: the work is done by child processes."""
    ended = threading.Event()
    with ThreadPoolExecutor(jobs) as workers:
        futures = {
            workers.submit(
                mark, each, handed.of(each.student) or (), seed, limits, ended
            ): each
            for each in waiting
        }
        try:
            for future in show(as_completed(futures), len(futures)):
                try:
                    yield futures[future], future.result()
                except Exception as error:  # of one submission; the others go on
                    yield futures[future], error
        finally:
            ended.set()
            workers.shutdown(cancel_futures=True)


def mark(
    each: HandedIn,
    exercises: tuple[Exercise, ...],
    seed: int,
    limits: Limits,
    ended: threading.Event,
) -> Result:
    """The verdicts on one submission; raises OSError if it cannot be read.

    When the run has `ended`, and nobody waits for the result, no more is asked.
    """
    if each.unread:
        raise OSError(", ".join(each.unread))
    # first of all: what is handed in from here on is another submission
    digest = each.digest()
    name = "" if each.file is None else legible(each.file.name)
    if each.file is None:
        found = [Verdict(x.key, False, "missing", each.says) for x in exercises]
    else:
        made = verdicts(exercises, File(each.file), seed, limits)
        found = list(itertools.takewhile(lambda _: not ended.is_set(), made))
    return Result(each.student, name, digest, tuple(found))


def begun(out: Path, handed: Handed, seed: int | None) -> tuple[int, dict[str, Result]]:
    """The seed and the results of runs before, the last of each student.

    Raises ValueError if `out` is damaged, or of another assignment or another seed.
    """
    file = out / FOUND
    held = lines_of(file) if file.exists() else []
    if not held:
        seed = secrets.randbits(32) if seed is None else seed
        head = json.dumps({"name": handed.name, "seed": seed})
        file.write_text(head + "\n", encoding="utf-8")
        return seed, {}
    try:
        first, *rest = held
        name, drawn = str(first["name"]), int(first["seed"])
        before = {}
        for student, file_name, digest, found in rest:
            told = tuple(Verdict(*verdict) for verdict in found)
            before[str(student)] = Result(student, file_name, digest, told)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"out: {file} is damaged: {error}") from error
    if name != handed.name:
        raise ValueError(f"out: {out} has the marks of {name}")
    if seed not in (None, drawn):
        raise ValueError(f"seed: {out} was begun with {drawn}, got {seed}")
    return drawn, before


def lines_of(file: Path) -> list[Any]:
    """What was written down, line by line; raises ValueError if it is damaged.

    A last line without an end was being written when a run was ended. It is taken away,
    and what it says is done again.
    """
    whole, end, broken = file.read_bytes().rpartition(b"\n")
    if broken:
        os.truncate(file, len(whole + end))
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError as error:
        raise ValueError(f"out: {file} is damaged: {error}") from error


def won(result: Result, handed: Handed) -> dict[str, int]:
    """Marks by exercise."""
    asked = handed.of(result.student) or ()
    pairs = zip(asked, result.verdicts, strict=True)
    return {x.key: x.marks if verdict.passed else 0 for x, verdict in pairs}


def write_marks(file: Path, results: tuple[Result, ...], handed: Handed) -> None:
    """A table: a row for each student, a column for each exercise that anyone has."""
    sheets = {result.student: won(result, handed) for result in results}
    keys = sorted({key for marks in sheets.values() for key in marks})
    rows: list[list[Any]] = [["student", "file", "marks", "of", *keys]]
    for result in results:
        marks, asked = sheets[result.student], handed.of(result.student) or ()
        of = sum(exercise.marks for exercise in asked)
        each = [marks.get(key, "") for key in keys]
        names = (plain(result.student), plain(result.file))
        rows.append([*names, sum(marks.values()), of, *each])
    write_table(file, rows)


def write_mistakes(file: Path, results: tuple[Result, ...]) -> None:
    """A table: a row for each answer that is not right, with the mistake, if known."""
    rows = [["exercise", "student", "kind", "mistake", "says"]]
    for result in results:
        for verdict in result.verdicts:
            if not verdict.passed:
                found = (verdict.kind, verdict.mistake, verdict.says)
                names = (verdict.key, result.student)
                rows.append([plain(x) for x in (*names, *found)])
    write_table(file, [rows[0], *sorted(rows[1:])])


def write_table(file: Path, rows: list[list[Any]]) -> None:
    """Write rows for a spreadsheet, whole or not at all."""
    beside = file.with_suffix(".part")
    with beside.open("w", newline="", encoding="utf-8") as table:
        csv.writer(table).writerows(rows)
    os.replace(beside, file)


def plain(name: str) -> str:
    """Words that no spreadsheet takes for a formula."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@")) else name


def write_reports(folder: Path, results: tuple[Result, ...], handed: Handed) -> None:
    """A page for each student: what was found, and what to think about."""
    folder.mkdir(exist_ok=True)
    for result in results:
        file = folder / f"{short(result.student)}.md"
        file.write_text(report(result, handed), encoding="utf-8")


def short(name: str) -> str:
    """A name that a file can have, with an ending."""
    if len(os.fsencode(name)) < LONG:
        return name
    return f"{name[: LONG // 5]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def report(result: Result, handed: Handed) -> str:
    """One student's page."""
    asked, marks = handed.of(result.student) or (), won(result, handed)
    of = sum(exercise.marks for exercise in asked)
    lines = [
        f"# {result.student}: {handed.name}",
        f"**{sum(marks.values())} of {of} marks.** {result.file}".rstrip(),
    ]
    for exercise, verdict in zip(asked, result.verdicts, strict=True):
        lines += [
            f"## {exercise.title} ({exercise.key})",
            f"{marks[exercise.key]} of {exercise.marks} marks. {verdict.says}",
        ]
        if verdict.hint:
            lines.append(verdict.hint)
    return "\n\n".join(lines) + "\n"
