"""`python -m ctlearn.course`: read an exercise, hand out, mark.

    python -m ctlearn.course list [--chapter 7]
    python -m ctlearn.course show 07.strength
    python -m ctlearn.course check 07.strength FILE
    python -m ctlearn.course export --set set-3 --seed 1 --students FILE --out handed
    python -m ctlearn.course grade FOLDER --handed handed/handed-out.json --out marks

A sheet is for students unless `--for instructor` is said, which adds the solutions.
Marking that was broken off goes on if the same command is given again.
"""

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from ctlearn.course import find, show
from ctlearn.course.assignments import SETS, draw, handed, roster, whole_chapter
from ctlearn.course.bank import exercises
from ctlearn.course.export import FORMATS, PROJECT, export, export_project
from ctlearn.course.grade import MARKS, grade
from ctlearn.course.judge import judge
from ctlearn.course.sandbox import File


def main(words: list[str] | None = None) -> int:
    """Do what the words of the command line say; 1 if something did not pass."""
    parser = _parser()
    given = parser.parse_args(words)
    try:
        status = given.do(given)
        print(end="", flush=True)
        return status
    except KeyboardInterrupt:
        print("broken off", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # whoever reads has enough, and Python would complain of it at its end, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ImportError as missing:
        says = f'the course needs {missing.name}: pip install "ctlearn[course]"'
        parser.error(says)
    except (ValueError, OSError, KeyError, RuntimeError) as error:
        parser.error(str(error.args[0] if isinstance(error, KeyError) else error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ctlearn.course",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("list", help="all exercises and sets")
    one.set_defaults(do=_list)
    one.add_argument("--chapter", type=int)
    two = commands.add_parser("show", help="what an exercise asks")
    two.set_defaults(do=_show)
    two.add_argument("key")
    three = commands.add_parser("check", help="the verdict on a module or a notebook")
    three.set_defaults(do=_check)
    three.add_argument("key")
    three.add_argument("file", type=Path)
    four = commands.add_parser("export", help="write an assignment")
    four.set_defaults(do=_export)
    which = four.add_mutually_exclusive_group(required=True)
    which.add_argument("--chapter", type=int, help="all exercises of a chapter")
    which.add_argument(
        "--set", choices=[*SETS, PROJECT], help="a problem set, or the final project"
    )
    four.add_argument("--format", choices=FORMATS, help="notebook by default")
    readers = ("student", "instructor")
    four.add_argument("--for", dest="reader", choices=readers, default="student")
    four.add_argument("--seed", type=int, help="what sheets are drawn from")
    four.add_argument("--students", type=Path, help="a file of names, one on a line")
    four.add_argument("--out", type=Path, required=True, help="a folder")
    five = commands.add_parser("grade", help="mark a folder of submissions")
    five.set_defaults(do=_grade)
    five.add_argument("folder", type=Path)
    five.add_argument("--handed", type=Path, required=True, help="handed-out.json")
    five.add_argument("--out", type=Path, required=True, help="a folder")
    five.add_argument("--jobs", type=int, default=2, help="at a time (2 by default)")
    five.add_argument("--seed", type=int, help="what inputs are drawn from")
    return parser


def _list(given: argparse.Namespace) -> int:
    every = given.chapter is None
    some: Iterable = exercises().values()
    if not every:
        some = draw(whole_chapter(given.chapter)).exercises
    for exercise in some:
        worth = f"{exercise.marks} marks  {exercise.minutes:3} min"
        print(f"{exercise.key:24} {worth}  {exercise.title}")
    if every:
        print()
        for name, each in SETS.items():
            print(f"{name:24} {each.title}. {each.about}")
        print(f"{PROJECT:24} A memory of your own, with a rubric.")
    return 0


def _show(given: argparse.Namespace) -> int:
    print(show(given.key))
    return 0


def _check(given: argparse.Namespace) -> int:
    exercise = find(given.key)
    if not given.file.is_file():
        raise ValueError(f"file: expected a module or a notebook, got {given.file}")
    verdict = judge(exercise, File(given.file))
    print(verdict)
    return 0 if verdict.passed else 1


def _export(given: argparse.Namespace) -> int:
    for file in _written(given):
        print(file)
    return 0


def _written(given: argparse.Namespace) -> list[Path]:
    if given.set == PROJECT:
        if given.format or given.students or given.seed is not None:
            raise ValueError("set: the project is one text for all, in Markdown")
        return export_project(given.out)
    return export(
        SETS[given.set] if given.set else whole_chapter(given.chapter),
        given.out,
        form=given.format or "notebook",
        reader=given.reader,
        seed=given.seed,
        students=roster(given.students) if given.students else (),
    )


def _grade(given: argparse.Namespace) -> int:
    from tqdm import tqdm

    def progress(done: Iterable, n: int) -> Iterable:
        return tqdm(done, total=n, unit="submission", disable=None)

    marked = grade(
        given.folder,
        handed(given.handed),
        given.out,
        jobs=given.jobs,
        seed=given.seed,
        show=progress,
    )
    print(f"{len(marked.results)} marked: {given.out / MARKS}")
    for student, why in marked.failed:
        print(f"not marked, the same command tries again: {student}: {why}")
    for student in marked.strangers:
        print(f"not marked, since nothing was handed out to them: {student}")
    return 1 if marked.failed or marked.strangers else 0


if __name__ == "__main__":
    sys.exit(main())
