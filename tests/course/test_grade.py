"""A folder is marked once, whatever breaks: a submission, a line, the run itself."""

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

nbformat = pytest.importorskip("nbformat", reason='pip install "ctlearn[course]"')

from ctlearn.course import grade as grading  # noqa: E402
from ctlearn.course.assignments import Handed, handed, whole_chapter  # noqa: E402
from ctlearn.course.bank import exercises  # noqa: E402
from ctlearn.course.export import export  # noqa: E402
from ctlearn.course.grade import FOUND, MARKS, MISTAKES, REPORTS, grade  # noqa: E402
from ctlearn.course.judge import Verdict  # noqa: E402
from ctlearn.course.sandbox import Limits  # noqa: E402

KEYS = ("07.slope", "07.strength")
HANDED = Handed("chapter-07", {"": KEYS})
SHORT = Limits(seconds=2.0)


def module(**changed):
    """A module with the right answers, but for those given by name."""
    texts = {exercises()[k].name: exercises()[k].solution for k in KEYS} | changed
    return "import numpy as np\n\n" + "\n\n".join(texts.values())


RIGHT = module()
WRONG = module(write=exercises()["07.strength"].stub)
ENDLESS = module(slope="def slope(k, v, S):\n    while True:\n        pass\n")
BROKEN = "def slope(k, v, S:\n"


def rows(out):
    with (out / MARKS).open(newline="", encoding="utf-8") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def lines(out):
    return (out / FOUND).read_text(encoding="utf-8").splitlines()


@pytest.fixture
def folder(tmp_path):
    """Submissions in both shapes, a broken one among them."""
    inside = tmp_path / "in"
    (inside / "dora" / "deep").mkdir(parents=True)
    (inside / "ann.py").write_text(RIGHT)
    (inside / "bob.py").write_text(WRONG)
    (inside / "cem.py").write_text(ENDLESS)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(RIGHT)])
    nbformat.write(notebook, inside / "dora" / "deep" / "-mine.ipynb")
    (inside / "eve.py").write_text(BROKEN)
    (inside / "@fay.ipynb").write_text("{")
    kept = inside / "dora" / ".ipynb_checkpoints"
    kept.mkdir()
    for file in (kept / "mine-checkpoint.ipynb", inside / "dora" / ".mine.py"):
        file.write_text("{")
    (inside / ".hidden.py").write_text(RIGHT)
    (inside / "=sum.py").write_text(RIGHT)
    (inside / "notes.txt").write_text("nothing")
    return inside


def test_a_folder_is_marked(folder, tmp_path):
    out = tmp_path / "out"
    marked = grade(folder, HANDED, out, seed=1, limits=SHORT)
    assert not marked.failed
    assert not marked.strangers
    found = rows(out)
    wanted = {"ann": 4, "bob": 2, "cem": 2, "dora": 4, "eve": 0, "'@fay": 0, "'=sum": 4}
    assert {who: int(row["marks"]) for who, row in found.items()} == wanted
    assert {row["of"] for row in found.values()} == {"4"}
    assert found["dora"]["file"] == "'-mine.ipynb"
    mistakes = (out / MISTAKES).read_text(encoding="utf-8")
    assert "07.slope,'@fay,missing" in mistakes
    first = [line.partition(",")[0] for line in mistakes.splitlines()[1:]]
    assert first == sorted(first)
    assert (found["bob"]["07.slope"], found["bob"]["07.strength"]) == ("2", "0")
    bob = (out / REPORTS / "bob.md").read_text(encoding="utf-8")
    begun = exercises()["07.strength"]
    (mistake,) = (x for x in begun.mistakes if x.name == begun.begins)
    assert "**2 of 4 marks.**" in bob
    assert mistake.says in bob
    cem = (out / REPORTS / "cem.md").read_text(encoding="utf-8")
    assert "does not end" in cem
    # again: nothing is asked anew, and nothing is written twice
    before = lines(out)
    assert grade(folder, HANDED, out) == marked
    assert lines(out) == before


def test_a_file_that_changed_is_marked_anew(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "ann.py").write_text(BROKEN)
    (folder / "bob.py").write_text(RIGHT)
    grade(folder, HANDED, out)
    assert rows(out)["ann"]["marks"] == "0"
    (folder / "ann.py").write_text(RIGHT)
    grade(folder, HANDED, out)
    assert rows(out)["ann"]["marks"] == "4"
    assert len(lines(out)) == 1 + 3


def test_another_sheet_is_marked_anew_with_the_seed_that_there_was(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    grade(folder, Handed("a", {"ann": KEYS[:1]}), out, seed=0)
    assert rows(out)["ann"]["of"] == "2"
    grade(folder, Handed("a", {"ann": KEYS}), out)
    assert rows(out)["ann"]["of"] == "4"
    assert json.loads(lines(out)[0]) == {"name": "a", "seed": 0}


def test_who_hands_in_nothing_and_who_was_asked_nothing(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    (folder / "ann").mkdir(parents=True)
    for name in ("one.py", "two.ipynb"):
        (folder / "ann" / name).write_text(RIGHT)
    (folder / "mallory.py").write_text(RIGHT)
    marked = grade(folder, Handed("a", {"ann": KEYS, "bob": KEYS[:1]}), out)
    assert marked.strangers == ("mallory",)
    found = rows(out)
    assert list(found) == ["ann", "bob"]
    assert [found["bob"][x] for x in ("marks", "of", *KEYS)] == ["0", "2", "0", ""]
    ann = (out / REPORTS / "ann.md").read_text()
    assert "There are one.py and two.ipynb; which counts?" in ann


def test_what_could_not_be_marked_is_told_and_tried_again(tmp_path, monkeypatch):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for who in ("ann", "bob"):
        (folder / f"{who}.py").write_text(RIGHT)
    honest = grading.mark

    def mark(each, *rest):
        if each.student == "ann":
            raise RuntimeError("no sandbox")
        return honest(each, *rest)

    monkeypatch.setattr(grading, "mark", mark)
    marked = grade(folder, HANDED, out)
    assert marked.failed == (("ann", "RuntimeError: no sandbox"),)
    assert list(rows(out)) == ["bob"]
    monkeypatch.undo()
    assert not grade(folder, HANDED, out).failed
    assert list(rows(out)) == ["ann", "bob"]
    assert len(lines(out)) == 1 + 2


def test_marks_of_another_kind_are_left_alone(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    with pytest.raises(ValueError, match="has no notebook and no module"):
        grade(folder, HANDED, out, seed=3)
    with pytest.raises(ValueError, match="was begun with 3, got 4"):
        grade(folder, HANDED, out, seed=4)
    with pytest.raises(ValueError, match="has the marks of chapter-07"):
        grade(folder, Handed("other", {"": KEYS}), out)
    with (out / FOUND).open("a") as file:
        file.write("damage\n")
    with pytest.raises(ValueError, match="is damaged"):
        grade(folder, HANDED, out)
    with pytest.raises(ValueError, match="is none"):
        grade(folder / "nowhere", HANDED, tmp_path / "new")


@pytest.mark.parametrize(
    ("found", "given", "told"),
    [
        ("", {"jobs": 0}, "jobs: expected 1 or more, got 0"),
        ("", {"seed": -1}, r"seed: expected 0 or more, .* got -1"),
        ("", {"seed": 2**63}, r"seed: expected 0 or more, and less than 2\^63"),
        ("3\n", {}, "is damaged"),
        ('{"name": "chapter-07"}\n', {}, "is damaged"),
        ('{"name": "chapter-07", "seed": 1}\n["ann", "ann.py"]\n', {}, "is damaged"),
        ('{"name": "chapter-07", "seed": 1}\n7\n', {}, "is damaged"),
    ],
)
def test_what_cannot_be_marked_with_is_told(found, given, told, tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "ann.py").touch()
    if found:
        out.mkdir()
        (out / FOUND).write_text(found)
    with pytest.raises(ValueError, match=told):
        grade(folder, HANDED, out, **given)
    assert out.exists() == bool(found)
    for taken in (folder / "ann.py", folder / "ann.py" / "out"):
        with pytest.raises(ValueError, match=r"out: .* is no folder"):
            grading.make_out(tmp_path / "other", taken)


def test_a_run_that_is_broken_off_asks_for_no_more(tmp_path, monkeypatch):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for who in ("ann", "bob"):
        (folder / f"{who}.py").write_text(RIGHT)
    begun, ended = [], threading.Event()

    def slow(asked, *_):
        for exercise in asked:
            begun.append(exercise.key)
            ended.wait(10)
            yield Verdict(exercise.key, True, "passed", "")

    def broken_off(done, n):
        while not begun:
            time.sleep(0.01)
        threading.Timer(0.1, ended.set).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(grading, "verdicts", slow)
    with pytest.raises(KeyboardInterrupt):
        grade(folder, HANDED, out, jobs=1, show=broken_off)
    assert begun == [KEYS[0]]
    assert len(lines(out)) == 1


def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path):
    """And a line that it was writing is written again."""
    folder, out, n = tmp_path / "in", tmp_path / "out", 12
    folder.mkdir()
    for i in range(n):
        (folder / f"s{i:02}.py").write_text(RIGHT if i % 3 else WRONG)
    told = tmp_path / "handed-out.json"
    HANDED.save(told)
    words = ["grade", folder, "--handed", told, "--out", out, "--seed", "1"]
    command = [sys.executable, "-m", "ctlearn.course", *map(str, words)]
    run = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not (out / FOUND).exists() or len(lines(out)) < 4:
        assert run.poll() is None
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    done = lines(out)
    assert 4 <= len(done) < 1 + n
    with (out / FOUND).open("a") as file:
        file.write(done[-1][:30])
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert lines(out)[: len(done)] == done
    students = [json.loads(line)[0] for line in lines(out)[1:]]
    assert sorted(students) == [f"s{i:02}" for i in range(n)]
    marks = {who: int(row["marks"]) for who, row in rows(out).items()}
    assert marks == {f"s{i:02}": 4 if i % 3 else 2 for i in range(n)}


def test_a_sheet_as_it_was_handed_out_is_no_marks_and_a_solved_one_all(tmp_path):
    problems = whole_chapter(16)
    for reader in ("student", "instructor"):
        out = tmp_path / reader
        export(problems, out, reader=reader, seed=1, students=("ann",))
    (tmp_path / "student" / "handed-out.json").rename(tmp_path / "handed.json")
    sheets = handed(tmp_path / "handed.json")
    for reader, share in (("student", 0), ("instructor", 1)):
        grade(tmp_path / reader, sheets, tmp_path / f"marks-{reader}")
        row = rows(tmp_path / f"marks-{reader}")["ann"]
        assert int(row["marks"]) == share * int(row["of"])


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of Linux")
def test_odd_files_and_names_cost_only_themselves(tmp_path):
    folder, out, sheet = tmp_path / "in", tmp_path / "out", {"": KEYS[:1]}
    long = "a" * 255
    for name in ("ann", "bob", long):
        (folder / name).mkdir(parents=True)
    os.mkfifo(folder / "ann" / "waits.py")
    (folder / "bob" / "folder.py").mkdir()
    (folder / long / "b.py").write_text(RIGHT)
    (folder / "cem.py").symlink_to(exercises()[KEYS[0]].reference.__code__.co_filename)
    (folder / "dora").symlink_to(folder / long)
    with (folder / "eve.py").open("wb") as file:
        file.truncate(2**40)
    (folder / "fay.PY").write_text(RIGHT)
    (folder / "g\n# 2 of 2.py").write_text(BROKEN)
    (folder / "Jose\u0301.py").write_text(RIGHT)
    (folder / "Zo\u00eb.py").write_text(BROKEN)
    with open(os.fsencode(folder) + b"/\xff.py", "w") as file:
        file.write(RIGHT)
    for who in ("Jos\u00e9", "Zoe\u0308"):
        sheet[who] = KEYS[:1]
    marked = grade(folder, Handed("a", sheet), out)
    assert not marked.failed
    wanted = {"fay": 2, "Jos\u00e9": 2, long: 2, "\\udcff": 2, "g\\n# 2 of 2": 0}
    wanted |= dict.fromkeys(("ann", "bob", "cem", "dora", "eve", "Zoe\u0308"), 0)
    found = rows(out)
    assert {who: int(row["marks"]) for who, row in found.items()} == wanted
    assert len(list((out / REPORTS).iterdir())) == len(wanted)
    for who in ("ann", "cem", "dora"):
        text = (out / REPORTS / f"{who}.md").read_text(encoding="utf-8")
        assert "is a link, or no plain file" in text


def test_many_files_are_not_all_named(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    (folder / "ann").mkdir(parents=True)
    for i in range(9):
        (folder / "ann" / f"{i}.py").touch()
    grade(folder, HANDED, out)
    assert "3.py and 5 more; which" in (out / REPORTS / "ann.md").read_text()


def test_a_folder_that_cannot_be_read_is_not_marked(tmp_path, monkeypatch):
    folder, out = tmp_path / "in", tmp_path / "out"
    (folder / "ann" / "closed").mkdir(parents=True)
    look = os.scandir

    def refused(path):
        if os.fspath(path).endswith("closed"):
            raise PermissionError(13, "no", path)
        return look(path)

    monkeypatch.setattr(os, "scandir", refused)
    ((who, why),) = grade(folder, HANDED, out).failed
    assert who == "ann"
    assert "PermissionError" in why
    assert "closed" in why
    assert not rows(out)
    monkeypatch.undo()
    assert not grade(folder, HANDED, out).failed


def test_folders_in_folders_cost_only_their_owner(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    (folder / "ann" / os.path.join(*"a" * (grading.DEEP + 1))).mkdir(parents=True)
    (folder / "bob").mkdir()
    marked = grade(folder, HANDED, out)
    assert marked.failed == (("ann", "OSError: more than 50 folders in one another"),)
    assert list(rows(out)) == ["bob"]


def test_what_comes_while_it_is_marked_is_marked_the_next_time(tmp_path, monkeypatch):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "ann.py").write_text(BROKEN)
    honest = grading.verdicts

    def slow(*given):
        found = list(honest(*given))
        (folder / "ann.py").write_text(RIGHT)
        return found

    monkeypatch.setattr(grading, "verdicts", slow)
    grade(folder, HANDED, out)
    assert rows(out)["ann"]["marks"] == "0"
    monkeypatch.undo()
    grade(folder, HANDED, out)
    assert rows(out)["ann"]["marks"] == "4"


def test_marks_are_written_by_one_run_and_elsewhere(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    with grading.alone(out), pytest.raises(ValueError, match="another run"):
        grade(folder, HANDED, out)
    (tmp_path / "link").symlink_to(folder)
    for inside in (folder, folder / "marks", tmp_path / "link" / "marks"):
        with pytest.raises(ValueError, match="among the submissions"):
            grade(folder, HANDED, inside)


def test_what_was_found_is_not_written_again(tmp_path):
    """A full disk would lose it."""
    file = tmp_path / FOUND
    file.write_text('{"name": 1}\n[2]\n[3')
    assert grading.lines_of(file) == [{"name": 1}, [2]]
    file.chmod(0o444)
    os.utime(file, (1, 1))
    assert grading.lines_of(file) == [{"name": 1}, [2]]
    assert file.stat().st_mtime == 1
