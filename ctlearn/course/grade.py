"""Marking a folder of submissions: several at a time, and each one once.

What is found is written down submission by submission, so that a run which was broken
off goes on where it was, and a submission that breaks costs nobody else anything. All
are judged on inputs drawn from one seed, which is kept with the results.
"""

import csv
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from ctlearn.course.assignments import Handed
from ctlearn.course.exercise import Exercise
from ctlearn.course.judge import Verdict, verdicts
from ctlearn.course.sandbox import File, Limits

ENDINGS = (".ipynb", ".py")
FOUND, MARKS, REPORTS = "found.jsonl", "marks.csv", "reports"


class HandedIn(NamedTuple):
    """A student's file; None if there is none, or more than one, and `says` which."""

    student: str
    file: Path | None
    says: str = ""

    def digest(self) -> str:
        """What the file's bytes are; another one is another submission."""
        data = b"" if self.file is None else self.file.read_bytes()
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
    folder of that name, at any depth.

    Raises ValueError if the folder is none, or is empty.
    """
    if not folder.is_dir():
        raise ValueError(f"folder: {folder} is none")
    found: dict[str, list[Path]] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            files = (x for x in entry.rglob("*") if x.suffix in ENDINGS)
            parts = ((x, x.relative_to(entry).parts) for x in files)
            shown = (x for x, names in parts if not any(n[0] == "." for n in names))
            found.setdefault(entry.name, []).extend(sorted(shown))
        elif entry.suffix in ENDINGS:
            found.setdefault(entry.stem, []).append(entry)
    for student in handed.sheets:
        if student:
            found.setdefault(student, [])
    if not found:
        raise ValueError(f"folder: {folder} has no notebook and no module in it")
    return [_one(student, files) for student, files in sorted(found.items())]


def _one(student: str, files: list[Path]) -> HandedIn:
    if len(files) == 1:
        return HandedIn(student, files[0])
    names = " and ".join(file.name for file in files)
    says = f"There are {names}; which counts?" if files else "Nothing was handed in."
    return HandedIn(student, None, says)


def grade(
    folder: Path,
    handed: Handed,
    out: Path,
    *,
    jobs: int = 2,
    seed: int | None = None,
    limits: Limits = Limits(),  # noqa: B008  an immutable record
    show: Callable[[Iterable, int], Iterable] = lambda done, n: done,
) -> Marked:
    """Mark all submissions in a folder, and write marks and reports to `out`.

    What is in `out` already is kept, if it is of the same file and the same sheet. The
    seed is drawn at the first run. `show` may show how far they are. Raises ValueError
    for another seed than the first run's, and as `handed_in` does.
    """
    out.mkdir(parents=True, exist_ok=True)
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
    write_reports(out / REPORTS, results, handed)
    return Marked(results, tuple(failed), strangers)


def _same(result: Result, each: HandedIn, handed: Handed) -> bool:
    """Whether a result is of this file and of what the student was asked."""
    keys = [exercise.key for exercise in handed.of(each.student) or ()]
    told = [verdict.key for verdict in result.verdicts]
    return told == keys and result.digest == each.digest()


def _marked(
    waiting: list[HandedIn],
    handed: Handed,
    jobs: int,
    seed: int,
    limits: Limits,
    show: Callable[[Iterable, int], Iterable],
) -> Iterator[tuple[HandedIn, Result | Exception]]:
    """Results as they come. Threads are enough: the work is done by child processes."""
    with ThreadPoolExecutor(jobs) as workers:
        futures = {
            workers.submit(
                mark, each, handed.of(each.student) or (), seed, limits
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
            workers.shutdown(cancel_futures=True)


def mark(
    each: HandedIn, exercises: tuple[Exercise, ...], seed: int, limits: Limits
) -> Result:
    """The verdicts on one submission."""
    name = "" if each.file is None else each.file.name
    if each.file is None:
        found = [Verdict(x.key, False, "missing", each.says) for x in exercises]
    else:
        found = list(verdicts(exercises, File(each.file), seed, limits))
    return Result(each.student, name, each.digest(), tuple(found))


def begun(out: Path, handed: Handed, seed: int | None) -> tuple[int, dict[str, Result]]:
    """The seed and the results of runs before, the last of each student.

    Raises ValueError if `out` is of another assignment or another seed.
    """
    file = out / FOUND
    held = lines_of(file) if file.exists() else []
    if not held:
        seed = secrets.randbits(32) if seed is None else seed
        head = json.dumps({"name": handed.name, "seed": seed})
        file.write_text(head + "\n", encoding="utf-8")
        return seed, {}
    first, *rest = held
    if first["name"] != handed.name:
        raise ValueError(f"out: {out} has the marks of {first['name']}")
    if seed not in (None, first["seed"]):
        raise ValueError(f"seed: {out} was begun with {first['seed']}, got {seed}")
    before = {}
    for student, name, digest, found in rest:
        told = tuple(Verdict(*verdict) for verdict in found)
        before[student] = Result(student, name, digest, told)
    return first["seed"], before


def lines_of(file: Path) -> list[Any]:
    """What was written down, line by line; raises ValueError if it is damaged.

    A last line without an end was being written when a run was ended. It is taken away,
    and what it says is done again.
    """
    whole, end, _ = file.read_bytes().rpartition(b"\n")
    file.write_bytes(whole + end)
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
    beside = file.with_suffix(".part")
    with beside.open("w", newline="", encoding="utf-8") as table:
        rows = csv.writer(table)
        rows.writerow(["student", "file", "marks", "of", *keys])
        for result in results:
            marks, asked = sheets[result.student], handed.of(result.student) or ()
            of = sum(exercise.marks for exercise in asked)
            each = [marks.get(key, "") for key in keys]
            names = (plain(result.student), plain(result.file))
            rows.writerow([*names, sum(marks.values()), of, *each])
    os.replace(beside, file)


def plain(name: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@")) else name


def write_reports(folder: Path, results: tuple[Result, ...], handed: Handed) -> None:
    """A page for each student: what was found, and what to think about."""
    folder.mkdir(exist_ok=True)
    for result in results:
        text = report(result, handed)
        (folder / f"{result.student}.md").write_text(text, encoding="utf-8")


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
        if verdict.hint and not verdict.passed:
            lines.append(verdict.hint)
    return "\n\n".join(lines) + "\n"
