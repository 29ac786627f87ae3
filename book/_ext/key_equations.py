"""The summary: equations that a reader wants on one sheet, with their badges.

The directive `key-equations` is given labels, each with a line of what it says.
Formula, number and badges are the chapter's own, so the sheet cannot drift from it.
"""

from itertools import groupby
from pathlib import Path

from badges import equation_badges
from docutils import nodes
from ledger import math, parsed
from markup import build
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from ctlearn.printed import pages
from ctlearn.printed.pages import Printed


class KeyEquations(SphinxDirective):
    """The named equations under their chapters, in the order of the book."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """A heading for each chapter, and its equations."""
        said = dict(line.split(": ", 1) for line in self.content if line.strip())
        root = Path(self.env.srcdir)
        printed = pages.printed(root)
        unknown = sorted(said.keys() - printed.keys())
        if unknown:
            raise self.error(f"no page has the equations {', '.join(unknown)}")
        chosen = [printed[label] for label in printed if label in said]
        shown: list[nodes.Node] = []
        for file, equations in groupby(chosen, key=lambda x: x.file):
            self.env.note_dependency(str(file))
            shown.append(self.heading(file.relative_to(root).with_suffix("")))
            shown += [self.entry(x, said[x.label]) for x in equations]
        return [build("div", *shown, class_="key-equations")]

    def heading(self, page: Path) -> nodes.Node:
        """The chapter's number and title, which leads to it."""
        number = page.name.partition("_")[0].lstrip("0")
        (words,) = parsed(self, f"{number} {{doc}}`/{page.as_posix()}`")
        return build("h3", nodes.inline("", "", *words.children))

    def entry(self, equation: Printed, words: str) -> nodes.Node:
        """The formula; beside it its number, which leads to it, badges and words."""
        formula = build("div", *parsed(self, math(equation.tex)), class_="formula")
        (said,) = parsed(self, f"{{eq}}`{equation.label}` {words}")
        link, *rest = said.children
        badges = equation_badges("", label=equation.label)
        beside = nodes.paragraph("", "", link, nodes.Text(" "), badges, *rest)
        chapter = equation.file.stem
        return build(
            "div", formula, beside, class_="key-equation", data_chapter=chapter
        )


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    for extension in ("badges", "markup"):
        app.setup_extension(extension)
    app.add_directive("key-equations", KeyEquations)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
