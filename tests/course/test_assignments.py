"""Sheets are worth the same, come again, and are told to whoever marks them."""

import pytest

from ctlearn.course.assignments import (
    SETS,
    Handed,
    draw,
    handed,
    roster,
    whole_chapter,
)
from ctlearn.course.bank import exercises

STUDENTS = [f"student-{i}" for i in range(30)]


def keys(sheet):
    return [exercise.key for exercise in sheet.exercises]


@pytest.mark.parametrize("name", SETS)
def test_every_student_can_win_the_same(name):
    problems = SETS[name]
    for pool in problems.pools:
        assert 0 < pool.n < len(pool.keys)
        assert len({exercises()[key].marks for key in pool.keys}) == 1
    sheets = [draw(problems, 1, who) for who in STUDENTS]
    assert len({sheet.marks for sheet in sheets}) == 1
    drawn = {key for sheet in sheets for key in keys(sheet)}
    assert drawn == set(keys(draw(problems)))
    assert len({tuple(keys(sheet)) for sheet in sheets}) > 1


def test_no_exercise_is_in_two_sets():
    """So that nobody is asked twice, whatever is drawn."""
    asked = [key for problems in SETS.values() for key in keys(draw(problems))]
    assert len(asked) == len(set(asked))


def test_a_sheet_comes_again_and_is_in_the_books_order():
    sheet = draw(SETS["set-5"], 7, "ann")
    assert draw(SETS["set-5"], 7, "ann") == sheet
    assert keys(sheet) == sorted(keys(sheet), key=list(exercises()).index)
    others = {tuple(keys(draw(SETS["set-5"], seed, "ann"))) for seed in range(20)}
    assert len(others) > 1


def test_a_chapter_is_all_of_its_exercises_unless_sheets_are_drawn():
    chapters = {exercise.chapter for exercise in exercises().values()}
    for chapter in chapters:
        problems = whole_chapter(chapter)
        every = [key for key, x in exercises().items() if x.chapter == chapter]
        assert keys(draw(problems)) == every
        sheets = [draw(problems, 1, who) for who in STUDENTS]
        assert len({sheet.marks for sheet in sheets}) == 1
        assert {key for sheet in sheets for key in keys(sheet)} == set(every)
        alike = len({exercises()[key].marks for key in every}) == len(every)
        assert (len({tuple(keys(sheet)) for sheet in sheets}) == 1) is alike
    with pytest.raises(ValueError, match="got 99"):
        whole_chapter(99)


def test_what_was_handed_out_is_kept(tmp_path):
    file = tmp_path / "handed-out.json"
    Handed("a", {"ann": ("07.slope",)}).save(file)
    again = handed(file)
    assert [x.key for x in again.of("ann")] == ["07.slope"]
    assert again.of("bob") is None
    assert Handed("a", {"": ("07.slope",)}).of("bob")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "no list of what was handed out"),
        ("[]", "no list of what was handed out"),
        ('{"format": 9}', "format 9"),
        ('{"format": 1, "name": "a", "sheets": {"": ["07.none"]}}', r"\['07.none'\]"),
        ('{"format": 1, "name": "a", "sheets": {"": [["07.slope"]]}}', "there are not"),
        ("[" * 100_000, "no list of what was handed out"),
    ],
)
def test_another_file_is_refused(tmp_path, text, match):
    file = tmp_path / "handed-out.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=match):
        handed(file)


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "a\\b", "Ann"])
def test_names_that_cannot_be_told_apart_are_refused(tmp_path, name):
    file = tmp_path / "names.txt"
    file.write_text(f"ann\n\n{name}\n")
    with pytest.raises(ValueError, match="students: "):
        roster(file)
    file.write_text("ann\n\nbob \n")
    assert roster(file) == ("ann", "bob")


def test_a_list_of_names_is_text(tmp_path):
    file = tmp_path / "names.txt"
    for data in (b"ann\n\xff\n", "a\N{COMBINING ACUTE ACCENT}\n\xe1\n".encode()):
        file.write_bytes(data)
        with pytest.raises(ValueError, match="students: "):
            roster(file)
    with pytest.raises(ValueError, match=r"students: .* cannot be read"):
        roster(tmp_path)
    file.write_text("ann\nbob\n", encoding="utf-8-sig")
    assert roster(file) == ("ann", "bob")
