"""Assignments as files: notebooks, nbgrader's source and release, and Markdown.

All are made of the same parts, the statement, the text to begin with, and the cell that
marks it. What is for a student holds the stub where an instructor's has the solution.

The nbgrader source is what `nbgrader generate_assignment` reads: it takes out what is
between its marks. The release is for those who hand out by other means.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ctlearn.course.assignments import (
    Assignment,
    Handed,
    ProblemSet,
    draw,
    make_folder,
)
from ctlearn.course.exercise import Exercise, body, head

Reader = Literal["student", "instructor"]
Kind = Literal["words", "program", "mark"]

IMPORTS = "import numpy as np\n{}\nfrom ctlearn.course import check\n"
OF_KERNELS = "import triton\nimport triton.language as tl\n"
# nbgrader's marks of what a student is not given
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
NBGRADER_SCHEMA = 3
# What is handed out as it stands: no part of it is drawn.
PROJECT = "project"


class Part(NamedTuple):
    """A piece of an assignment: words, the text of a program, or a cell that marks."""

    kind: Kind
    text: str
    exercise: Exercise | None = None


def parts(assignment: Assignment, reader: Reader) -> Iterator[Part]:
    """An assignment piece by piece, for students or with solutions."""
    about = f"{assignment.about}\n\n" if assignment.about else ""
    yield Part(
        "words",
        f"# {assignment.title}\n\n{about}{assignment.marks} marks, about "
        f"{assignment.minutes} minutes.\n\nEach answer is a function. `check` tries it "
        "on inputs that are drawn anew each time, and says which property it lacks; an "
        "answer that lacks one gets no marks.",
    )
    kernels = any(exercise.puzzle for exercise in assignment.exercises)
    yield Part("program", IMPORTS.format(OF_KERNELS if kernels else ""))
    for i, exercise in enumerate(assignment.exercises, 1):
        yield Part("words", asked(i, exercise), exercise)
        if reader == "instructor":
            yield Part("words", told(exercise), exercise)
        text = exercise.solution if reader == "instructor" else exercise.stub
        yield Part("program", text, exercise)
        yield Part("mark", f'check("{exercise.key}", {exercise.name})', exercise)


def asked(i: int, exercise: Exercise) -> str:
    """The heading and the statement of an exercise."""
    return (
        f"## {i}. {exercise.title}\n\n{exercise.statement}\n\n"
        f"*{exercise.marks} marks, about {exercise.minutes} minutes.*"
    )


def told(exercise: Exercise) -> str:
    """What an instructor is told besides: the hint, and the mistakes by name."""
    mistakes = "\n".join(f"- *{x.name}*: {x.says}" for x in exercise.mistakes)
    return (
        f"**Hint.** {exercise.hint}\n\n**Mistakes that are recognised.**\n\n{mistakes}"
    )


class Cell(NamedTuple):
    """A cell of a notebook; `about` is what nbgrader keeps with it."""

    kind: Kind
    text: str
    about: dict[str, Any] | None = None


def as_notebook(assignment: Assignment, reader: Reader) -> str:
    """A notebook in which each answer can be checked at once."""
    cells = [Cell(part.kind, part.text) for part in parts(assignment, reader)]
    return written(assignment, cells)


def as_nbgrader(assignment: Assignment, reader: Reader) -> str:
    """The source for nbgrader, if for an instructor, and its release for a student."""
    cells = []
    for i, part in enumerate(parts(assignment, "student")):
        exercise, text = part.exercise, part.text
        if exercise is None:
            # not locked: a student may import more
            cells.append(Cell(part.kind, text))
        elif part.kind == "words":
            if exercise.begins:
                text += f"\n\nBegin from this:\n\n{fenced(exercise.stub)}"
            about = noted(f"asked-{i:02}", solution=False, points=None)
            cells.append(Cell(part.kind, text, about))
        elif part.kind == "program":
            about = noted(exercise.key, solution=True, points=None)
            cells.append(Cell(part.kind, answered(exercise, reader), about))
        else:
            text = f"verdict = {text}\nprint(verdict)\nassert verdict.passed"
            about = noted(f"mark-{exercise.key}", solution=False, points=exercise.marks)
            cells.append(Cell(part.kind, text, about))
    return written(assignment, cells)


def fenced(text: str) -> str:
    """A program's text in Markdown."""
    return f"```python\n{text.strip()}\n```"


def answered(exercise: Exercise, reader: Reader) -> str:
    """The student's cell: with the solution between nbgrader's marks, or without."""
    if reader == "student":
        return exercise.stub.strip()
    solved = body(exercise.reference).strip("\n")
    return f"{head(exercise.reference)}    {BEGIN}\n{solved}\n    {END}"


def noted(name: str, *, solution: bool, points: int | None) -> dict[str, Any]:
    """What nbgrader keeps with a cell; `points` makes it one that marks."""
    held: dict[str, Any] = {
        "grade": points is not None,
        "grade_id": re.sub(r"[^0-9a-zA-Z-]", "-", name),
        "locked": not solution,
        "schema_version": NBGRADER_SCHEMA,
        "solution": solution,
        "task": False,
    }
    if points is not None:
        held["points"] = points
    return {"nbgrader": held}


def written(assignment: Assignment, cells: list[Cell]) -> str:
    """A notebook of these cells, whose ids are the same each time it is made."""
    # takes longer to import than all else that a command of the course needs
    import nbformat
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    made = []
    for i, cell in enumerate(cells):
        make = new_markdown_cell if cell.kind == "words" else new_code_cell
        name, about = f"{assignment.name}-{i:02}", cell.about or {}
        made.append(make(cell.text.strip(), id=name, metadata=about))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return nbformat.writes(new_notebook(cells=made, metadata=whole)) + "\n"


def as_markdown(assignment: Assignment, reader: Reader) -> str:
    """Text to be printed or put on a page; it marks nothing."""
    kept = [part for part in parts(assignment, reader) if part.kind != "mark"]
    return (
        "\n\n".join(
            part.text if part.kind == "words" else fenced(part.text) for part in kept
        )
        + "\n"
    )


# How a format is made, and what its files are called.
FORMATS: dict[str, tuple[Callable[[Assignment, Reader], str], str]] = {
    "notebook": (as_notebook, "ipynb"),
    "nbgrader": (as_nbgrader, "ipynb"),
    "markdown": (as_markdown, "md"),
}


def export(
    problems: ProblemSet,
    out: Path,
    *,
    form: str = "notebook",
    reader: Reader = "student",
    seed: int | None = None,
    students: tuple[str, ...] = (),
) -> list[Path]:
    """Write an assignment, or with `students` one for each; the files written.

    For students, `handed-out.json` beside them says who was asked what, which
    grading reads. Raises ValueError for students without a seed, and FileExistsError
    for a file that is there: nothing is written then.
    """
    if students and seed is None:
        raise ValueError("seed: sheets for each student are drawn from one; got none")
    make, ending = FORMATS[form]
    sheets = {who: draw(problems, seed, who) for who in students or ("",)}
    texts = {
        out / f"{who or problems.name}.{ending}": make(sheet, reader)
        for who, sheet in sheets.items()
    }
    kept = out / "handed-out.json"
    wanted = [*texts, *([kept] if reader == "student" else [])]
    make_room(out, wanted)
    for file, text in texts.items():
        file.write_text(text, encoding="utf-8")
    if reader == "student":
        keys = {who: tuple(x.key for x in s.exercises) for who, s in sheets.items()}
        Handed(problems.name, keys).save(kept)
    return wanted


def make_room(out: Path, wanted: Iterable[Path]) -> None:
    """Make the folder; raises FileExistsError if a file that is wanted is there.

    Raises ValueError as `make_folder` does.
    """
    there = [str(file) for file in wanted if file.exists()]
    if there:
        raise FileExistsError(f"out: {', '.join(there)} would be written over")
    make_folder(out)


def project() -> str:
    """What the final project asks, and by what it is marked, in Markdown."""
    return files("ctlearn.course").joinpath("project.md").read_text(encoding="utf-8")


def export_project(out: Path) -> list[Path]:
    """Write it; the file written. Raises FileExistsError as `export` does."""
    file = out / f"{PROJECT}.md"
    make_room(out, [file])
    file.write_text(project(), encoding="utf-8")
    return [file]
