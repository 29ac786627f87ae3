"""What the coursework pages print from the package: exercises, sets, mistakes.

The directives `exercises`, `problem-sets` and `mistakes` write Markdown from the bank,
so that an exercise which is added is on the pages, and no number on them can be stale.
"""

import hashlib

from docutils import nodes
from ledger import parsed
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from ctlearn.course.assignments import SETS, ProblemSet
from ctlearn.course.bank import exercises
from ctlearn.course.exercise import Exercise


def asked_in() -> dict[str, str]:
    """By key, the set that asks an exercise, and whether it is drawn."""
    found: dict[str, str] = {}
    for i, problems in enumerate(SETS.values(), 1):
        found |= dict.fromkeys(problems.keys, f"{i}")
        # on one line, also in a narrow column
        drawn = f"{i},\N{NO-BREAK SPACE}drawn"
        found |= {key: drawn for pool in problems.pools for key in pool.keys}
    return found


def linked(exercise: Exercise) -> str:
    """The title, which leads to the chapter's box where there is one."""
    if not exercise.label:
        return exercise.title
    return f"{{ref}}`{exercise.title} <{exercise.label}>`"


def table() -> str:
    """All exercises in the order of the book."""
    sets = asked_in()
    columns = ("key", "exercise", "minutes", "marks", "set")
    rows = [columns, ("---",) * len(columns)]
    for key, x in exercises().items():
        numbers = (f"{x.minutes}", f"{x.marks}", sets.get(key, "–"))
        rows.append((f"`{key}`", linked(x), *numbers))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def named(keys: tuple[str, ...]) -> str:
    """Keys as a list in a sentence."""
    return ", ".join(f"`{key}`" for key in keys)


def described(i: int, problems: ProblemSet) -> str:
    """An entry of a list of definitions: what a set asks, and of whom."""
    least, most = problems.minutes
    numbers = ("none", "one", "two", "three")
    pools = [f"{numbers[pool.n]} of {named(pool.keys)}" for pool in problems.pools]
    return (
        f"Set {i}, {problems.title} (`{problems.name}`)\n"
        f": {problems.about} Everybody is asked {named(problems.keys)}, and "
        f"{', and '.join(pools)}. {problems.marks} marks, {least} to {most} minutes."
    )


def sets() -> str:
    """The problem sets as a list of definitions."""
    return "\n\n".join(described(i, x) for i, x in enumerate(SETS.values(), 1))


def mistakes() -> str:
    """By chapter, folded: the mistakes that are recognised, and what is said of them.

    A chapter is folded since nobody reads them all.
    """
    parts = []
    for chapter in sorted({x.chapter for x in exercises().values()}):
        own = [x for x in exercises().values() if x.chapter == chapter]
        n = sum(len(x.mistakes) for x in own)
        said = [f"<details>\n<summary>Chapter {chapter}: {n} mistakes</summary>"]
        for x in own:
            told = "\n".join(f"- *{m.name}*: {m.says}" for m in x.mistakes)
            said += [f"`{x.key}`, {x.title}", told]
        parts.append("\n\n".join([*said, "</details>"]))
    return "\n\n".join(parts)


class FromTheBank(SphinxDirective):
    """Markdown that is made when the page is read."""

    def run(self) -> list[nodes.Node]:
        """What the directive of this name prints."""
        return parsed(self, PRINTED[self.name]())


PRINTED = {"exercises": table, "problem-sets": sets, "mistakes": mistakes}


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives; another bank means other pages."""
    app.setup_extension("ledger")
    text = "".join(make() for make in PRINTED.values())
    digest = hashlib.sha256(text.encode()).hexdigest()
    app.add_config_value("coursework_digest", digest, "env")
    for name in PRINTED:
        app.add_directive(name, FromTheBank)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
