"""The command reads, hands out and marks, and says in one line what it cannot do."""

import os
import subprocess
import sys

import pytest

nbformat = pytest.importorskip("nbformat", reason='pip install "ctlearn[course]"')
pytest.importorskip("tqdm", reason='no tqdm: pip install "ctlearn[course]"')

from ctlearn.course.__main__ import main  # noqa: E402
from ctlearn.course.assignments import SETS, Handed  # noqa: E402
from ctlearn.course.bank import exercises  # noqa: E402
from ctlearn.course.grade import Marked  # noqa: E402


def test_all_there_is_is_listed(capsys):
    assert main(["list"]) == 0
    told = capsys.readouterr().out
    assert all(key in told for key in [*exercises(), *SETS])
    assert main(["list", "--chapter", "7"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line[:3] for line in told] == ["07."] * sum(
        k[:2] == "07" for k in exercises()
    )


def test_an_exercise_is_shown_and_checked(capsys, tmp_path):
    assert main(["show", "07.slope"]) == 0
    assert "def slope(k, v, S):" in capsys.readouterr().out
    file = tmp_path / "mine.py"
    for text, status, told in (
        (exercises()["07.slope"].stub, 1, "Not yet."),
        ("import numpy as np\n" + exercises()["07.slope"].solution, 0, "Passed."),
    ):
        file.write_text(text)
        assert main(["check", "07.slope", str(file)]) == status
        assert capsys.readouterr().out.startswith(told)


def test_a_sheet_goes_out_and_comes_back(tmp_path, capsys):
    names = tmp_path / "names.txt"
    names.write_text("ann\nbob\n")
    out = tmp_path / "out"
    words = ["export", "--set", "set-4", "--seed", "2", "--students"]
    assert main([*words, str(names), "--out", str(out)]) == 0
    made = {file.name for file in out.iterdir()}
    assert made == {"ann.ipynb", "bob.ipynb", "handed-out.json"}
    (out / "ann.ipynb").unlink()
    (out / "bob.ipynb").write_text("{")
    handed, marks = str(out / "handed-out.json"), str(tmp_path / "marks")
    assert main(["grade", str(out), "--handed", handed, "--out", marks]) == 0
    assert (tmp_path / "marks" / "marks.csv").exists()
    (out / "mallory.py").write_text("")
    assert main(["grade", str(out), "--handed", handed, "--out", marks]) == 1
    for option, wrong in (("jobs", "0"), ("seed", "-1")):
        words = ["grade", str(out), "--handed", handed, "--out", marks]
        with pytest.raises(SystemExit):
            main([*words, f"--{option}", wrong])
        assert f"error: {option}: expected" in capsys.readouterr().err


def test_a_sheet_for_instructors_has_the_solutions(tmp_path):
    words = ["export", "--chapter", "16", "--format", "markdown", "--out"]
    for reader in ("student", "instructor"):
        assert main([*words, str(tmp_path / reader), "--for", reader]) == 0
        (file,) = (tmp_path / reader).glob("*.md")
        assert ("**Hint.**" in file.read_text()) == (reader == "instructor")


def test_what_was_not_marked_is_told(monkeypatch, capsys, tmp_path):
    file = tmp_path / "handed-out.json"
    Handed("a", {}).save(file)
    words = ["grade", str(tmp_path), "--handed", str(file), "--out", str(tmp_path)]
    cases = [
        (Marked((), (), ()), 0, "0 marked"),
        (Marked((), (("ann", "no sandbox"),), ()), 1, "again: ann: no sandbox"),
        (Marked((), (), ("bob",)), 1, "nothing was handed out to them: bob"),
    ]
    left = iter(cases)
    monkeypatch.setattr("ctlearn.course.__main__.grade", lambda *_, **__: next(left)[0])
    for _, status, told in cases:
        assert main(words) == status
        assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("show 07.none", "no exercise '07.none'; there are 07."),
        ("check 07.none x.py", "no exercise '07.none'"),
        (
            "check 07.slope none.py",
            "file: expected a module or a notebook, got none.py",
        ),
        ("check 07.slope x", "file: expected a module or a notebook, got "),
        ("list --chapter 99", "chapter: expected one with exercises, got 99"),
        ("export --chapter 99 --out x", "chapter: expected one with exercises, got 99"),
        ("export --set set-9 --out x", "invalid choice: 'set-9'"),
        ("export --out x", "--chapter --set is required"),
        ("export --set project --seed 0 --out x", "set: the project is one text"),
        ("export --set set-1 --students none.txt --out x", "none.txt"),
        ("grade . --handed none.json --out x", "none.json is no list of what was"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(words, told, capsys, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        main([str(tmp_path) if word == "x" else word for word in words.split()])
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err


def test_what_stops_elsewhere_is_said_in_a_line(monkeypatch, capsys, tmp_path):
    def stop(*_, **__):
        raise errors.pop(0)

    errors = [RuntimeError("no sandbox"), KeyboardInterrupt()]
    file = tmp_path / "mine.py"
    file.touch()
    monkeypatch.setattr("ctlearn.course.__main__.judge", stop)
    with pytest.raises(SystemExit):
        main(["check", "07.slope", str(file)])
    assert "error: no sandbox" in capsys.readouterr().err
    assert main(["check", "07.slope", str(file)]) == 130
    assert capsys.readouterr().err.startswith("broken off")


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("tqdm", "grade in --handed handed.json --out marks"),
        ("nbformat", "export --chapter 7 --out sheets"),
    ],
)
def test_what_must_be_installed_is_said(module, words, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit):
        main(words.split())
    told = f'the course needs {module}: pip install "ctlearn[course]"'
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_takes_long_to_import_is_not_for_a_look():
    """To import nbformat takes longer than all that `list` does."""
    heavy = "set(sys.modules) & {'nbformat', 'jsonschema', 'torch', 'sympy'}"
    asked = f"import sys, ctlearn.course.__main__; print({heavy})"
    run = [sys.executable, "-c", asked]
    assert subprocess.check_output(run, text=True) == "set()\n"


def test_a_folder_is_no_file(capsys, tmp_path):
    file = tmp_path / "sheets"
    file.touch()
    for words in (["--chapter", "7"], ["--set", "project"]):
        with pytest.raises(SystemExit):
            main(["export", *words, "--out", str(file)])
        assert f"out: {file} is no folder" in capsys.readouterr().err


def test_it_runs_as_a_module_and_a_reader_may_go_away():
    command = [sys.executable, "-m", "ctlearn.course", "list", "--chapter", "1"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "01.merge" in run.stdout
    read, write = os.pipe()
    os.close(read)
    run = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (run.returncode, run.stderr) == (1, b"")
