"""The learner's file: kept, never lost, never written over when it is damaged."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ctlearn import course
from ctlearn.course import check, show
from ctlearn.course.bank import exercises
from ctlearn.course.judge import Verdict
from ctlearn.course.progress import ProgressError, place, progress, record

KEY = "07.strength"


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    path = tmp_path / "a folder" / "progress.json"
    monkeypatch.setenv("CTLEARN_PROGRESS", str(path))
    return path


def test_nothing_is_solved_at_first(file):
    assert progress() == {}
    assert not file.exists()
    assert f"Chapter 7: 0 of {sum(k[:2] == '07' for k in exercises())}" in repr(
        progress()
    )


def test_tries_are_counted_and_the_first_success_is_kept(file):
    record(KEY, False)
    assert progress()[KEY] == (1, None)
    assert f"· {KEY}" in repr(progress())
    record(KEY, True)
    first = progress()[KEY].solved
    assert first is not None
    assert f"✓ {KEY}" in repr(progress())
    earlier = "2001-02-03T04:05:06+00:00"
    file.write_text(file.read_text().replace(first, earlier))
    record(KEY, True)
    record(KEY, False)
    assert progress()[KEY] == (4, earlier)


def test_what_a_newer_version_knows_is_kept(file):
    record("99.unheard-of", True)
    record(KEY, False)
    assert set(progress()) == {"99.unheard-of", KEY}


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"\xff\xfe",
        b'{"format": 2, "exercises": {}}',
        b'{"format": 1}',
        b'{"format": 1, "exercises": ' + b"[" * 10**5,
        b'{"format": 1, "exercises": {"07.strength": 3}}',
        b'{"format": 1, "exercises": {"07.strength": {"tries": "x", "solved": null}}}',
        b'{"format": 1, "exercises": {"07.strength": {"tries": 1, "solved": 5}}}',
    ],
)
def test_a_damaged_file_is_told_and_left_alone(file, damaged):
    file.parent.mkdir()
    file.write_bytes(damaged)
    for act in (progress, lambda: record(KEY, True)):
        with pytest.raises(ProgressError, match="left as it is") as told:
            act()
        assert str(file) in str(told.value)
    assert file.read_bytes() == damaged


def test_a_write_that_breaks_off_leaves_the_old_file(file, monkeypatch):
    record(KEY, True)
    before = file.read_bytes()

    def broken(number):
        beside.extend(os.listdir(file.parent))
        raise OSError("no space left")

    beside: list[str] = []

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(ProgressError, match="cannot be written"):
        record(KEY, False)
    assert file.read_bytes() == before
    assert set(os.listdir(file.parent)) == {file.name, f".{file.name}.lock"}
    # on the same disk, so that the one takes the other's place in one act
    assert len(beside) == 3


def test_a_folder_in_its_place_is_told(file):
    file.mkdir(parents=True)
    with pytest.raises(ProgressError, match="cannot be read"):
        progress()


def test_the_file_can_be_read_by_others(file):
    record(KEY, True)
    held = json.loads(file.read_text())
    assert held["exercises"][KEY]["tries"] == 1


def test_it_is_in_the_home_folder_unless_named(monkeypatch):
    monkeypatch.delenv("CTLEARN_PROGRESS")
    monkeypatch.setenv("HOME", os.sep + "somewhere")
    monkeypatch.setenv("USERPROFILE", os.sep + "somewhere")
    assert place().parts[-3:] == ("somewhere", ".ctlearn", "progress.json")


def test_without_a_home_it_is_said_what_to_name(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("CTLEARN_PROGRESS")
    monkeypatch.setattr(Path, "home", homeless)
    for act in (progress, lambda: record(KEY, True)):
        with pytest.raises(ProgressError, match="Name a file by CTLEARN_PROGRESS"):
            act()


def write(k, v, beta, S):
    return S - beta * np.outer(k, v - S.T @ k)


def test_a_check_says_what_to_think_about_and_is_counted(file):
    verdict = check(KEY, write)
    assert (verdict.passed, verdict.mistake) == (False, "sign")
    assert repr(verdict).startswith("Not yet. S is wrong")
    assert progress()[KEY] == (1, None)
    verdict = check(KEY, lambda k, v, beta, S: S + beta * np.outer(k, v - S.T @ k))
    assert verdict.passed
    assert progress()[KEY].solved


def test_where_nbgrader_marks_nothing_is_counted(file, monkeypatch):
    verdict = Verdict(KEY, True, "passed", "")
    monkeypatch.setattr(course, "apart", lambda *_: verdict)
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert check(KEY, write) is verdict
    assert not file.exists()
    monkeypatch.delenv("NBGRADER_EXECUTION")
    assert check(KEY, write) is verdict
    assert progress()[KEY].solved


def test_a_check_answers_even_if_progress_cannot_be_kept(file):
    file.parent.mkdir()
    file.write_text("{")
    with pytest.warns(UserWarning, match="left as it is") as told:
        assert not check(KEY, write).passed
    assert told[0].filename == __file__


def test_a_key_that_there_is_not_is_told_with_those_near():
    for asked in (show, lambda key: check(key, write)):
        with pytest.raises(KeyError, match=r"07.strengths.*07.strength"):
            asked("07.strengths")


def test_show_tells_all_that_is_needed():
    exercise = exercises()[KEY]
    shown = show(KEY)
    for part in (exercise.title, exercise.statement, exercise.stub):
        assert part in shown
    assert repr(shown) == shown._repr_markdown_() == shown


def test_notebooks_that_finish_at_once_lose_no_try():
    text = "from ctlearn.course.progress import record\n"
    text += f"for _ in range(20):\n    record({KEY!r}, False)\n"
    runs = [subprocess.Popen([sys.executable, "-c", text]) for _ in range(3)]
    assert [run.wait() for run in runs] == [0, 0, 0]
    assert progress()[KEY].tries == 60
