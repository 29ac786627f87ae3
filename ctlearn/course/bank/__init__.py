"""The exercises, a module for each chapter that has some, in its EXERCISES."""

import functools
import importlib
import pkgutil

from ctlearn.course.exercise import Exercise


@functools.cache
def exercises() -> dict[str, Exercise]:
    """Every exercise by key, chapter by chapter and in the chapter's order."""
    found: dict[str, Exercise] = {}
    for entry in pkgutil.iter_modules(__path__):
        if not entry.name.startswith("chapter_"):
            continue
        module = importlib.import_module(f"{__name__}.{entry.name}")
        found |= {exercise.key: exercise for exercise in module.EXERCISES}
    return found
