"""nbgrader's own commands take what is exported, and come to the same marks."""

import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason='pip install "ctlearn[course]"')
pytest.importorskip("nbgrader", reason='no nbgrader: pip install "ctlearn[nbgrader]"')

from ctlearn.course.__main__ import main  # noqa: E402
from ctlearn.course.assignments import draw, whole_chapter  # noqa: E402
from ctlearn.course.bank import exercises  # noqa: E402
from ctlearn.course.grade import MARKS  # noqa: E402

# The page that says how: its commands are run as they stand there.
PAGE = Path(__file__).resolve().parents[2] / "book" / "teaching.md"
CHAPTER = whole_chapter(12)
NAME = CHAPTER.name


def commands():
    """What the page has an instructor type, as lists of words."""
    _, text = PAGE.read_text(encoding="utf-8").split("## With nbgrader")
    code = re.findall(r"^```sh\n(.*?)^```$", text.partition("\n## ")[0], re.M | re.S)
    return [shlex.split(line) for line in "".join(code).splitlines()]


def answered(file, solved):
    """Write solutions into a released notebook, those of the keys in `solved`."""
    notebook = nbformat.read(file, 4)
    for cell in notebook.cells:
        about = cell.metadata.get("nbgrader", {})
        key = about.get("grade_id", "").replace("-", ".", 1)
        if about.get("solution") and key in solved:
            cell.source = exercises()[key].solution
    nbformat.write(notebook, file)


def test_a_course_from_source_to_marks(tmp_path, monkeypatch):
    """By the page's own lines; students hand in between two of them."""
    monkeypatch.chdir(tmp_path)
    course, keys = tmp_path / "course", [x.key for x in draw(CHAPTER).exercises]
    make, echo, source, into, generate, autograde, table, back, given, marks = (
        commands()
    )
    assert (make, into, back) == (["mkdir", "course"], ["cd", "course"], ["cd", ".."])
    course.mkdir()
    _, text, _, file = echo
    Path(file).write_text(text)
    main(source[3:])
    places = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")
    environment = os.environ | dict.fromkeys(places, str(tmp_path / "jupyter"))
    environment |= {"CTLEARN_PROGRESS": str(tmp_path / "progress.json")}
    # nbgrader calls a program of its libraries by name
    programs = (str(Path(sys.executable).parent), os.environ["PATH"])
    environment |= {"PATH": os.pathsep.join(programs)}
    # and its libraries warn
    environment |= {"PYTHONWARNINGS": "ignore"}

    def nbgrader(words):
        assert words[:3] == ["python", "-m", "nbgrader"]
        command = [sys.executable, *words[1:]]
        run = subprocess.run(
            command,
            cwd=course,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert run.returncode == 0, run.stderr[-3000:]

    nbgrader(generate)
    released = course / "release" / NAME / f"{NAME}.ipynb"
    text = released.read_text(encoding="utf-8")
    for exercise in (exercises()[key] for key in keys):
        assert exercise.solution not in text
    assert "YOUR CODE HERE" in text
    for who, solved in {"ann": keys, "bob": keys[:1], "cem": []}.items():
        own = course / "submitted" / who / NAME
        shutil.copytree(released.parent, own)
        answered(own / f"{NAME}.ipynb", solved)
    nbgrader(autograde)
    nbgrader(table)
    with (course / "grades.csv").open(newline="", encoding="utf-8") as file:
        theirs = {
            row["student_id"]: float(row["score"]) for row in csv.DictReader(file)
        }
    # a try on the instructor's machine is nobody's progress
    assert not (tmp_path / "progress.json").exists()

    main(given[3:])
    main(marks[3:])
    with (tmp_path / marks[-1] / MARKS).open(newline="", encoding="utf-8") as file:
        ours = {row["student"]: float(row["marks"]) for row in csv.DictReader(file)}
    assert ours == theirs
    assert len(set(ours.values())) == 3
