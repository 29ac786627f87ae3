"""The errata page: what sources print, what holds, and how far apart the two are.

The directive `errata` gives each erratum of the ledger a section. Both texts are the
entry's own, as they were run, and the numbers are those of the run.
"""

from typing import Any

from docutils import nodes
from ledger import anchor, cited, entries, math, parsed, path
from markup import build
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

# for a number to show, the world in which it says most comes first
WORLDS = {
    "floats": "in double precision",
    "rationals": "on exact fractions",
    "symbols": "as polynomials",
}


def distance(entry: dict[str, Any]) -> str:
    """How far off each text is, in a sentence, from what the run found."""
    world = next(world for world in WORLDS if world in entry["gaps"])
    gap = entry["gaps"][world]
    if world == "floats":
        return (
            f"On random numbers {WORLDS[world]}, the printed formula is off by "
            f"{gap['printed']} times the size of the values, and the corrected one by "
            f"{gap['corrected']}."
        )
    return (
        f"{WORLDS[world].capitalize()}, the printed formula is off by "
        f"`{gap['printed']}`, and the corrected one by {gap['corrected']}."
    )


def executed(entry: dict[str, Any]) -> str:
    """Which of the two texts were run themselves."""
    if not entry["refuted"]:
        return "What was compared is a twin of both texts in code."
    return "Both texts were run as they stand here: the first fails, the second holds."


class Errata(SphinxDirective):
    """A section for each erratum."""

    def run(self) -> list[nodes.Node]:
        """All of them, in the order of the ledger."""
        self.env.note_dependency(str(path(self.env.app)))
        found = [x for x in entries(self.env.app) if x["kind"] == "erratum"]
        return [self.section(entry) for entry in found]

    def section(self, entry: dict[str, Any]) -> nodes.section:
        """The source, both texts, how far off, and the way to the check."""
        section = nodes.section(ids=[anchor(entry["name"], "erratum")])
        section += nodes.title("", entry["title"])
        source = cited(entry["source"], entry["citations"])
        section += parsed(self, source[:1].upper() + source[1:] + ".")
        texts = {"as printed": entry["as_printed"], "corrected": entry["statement"]}
        for label, tex in texts.items():
            words = build("p", nodes.Text(label), class_="text-label")
            shown = [words, *parsed(self, math(tex))]
            section += build(
                "div",
                *shown,
                class_=f"erratum-text {label[:2]}",
                data_chapter=entry["chapter"],
            )
        link = f"{{ledger}}`Its row in the ledger <{entry['name']}>`"
        section += parsed(self, f"{distance(entry)} {executed(entry)} {link}.")
        return section


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.setup_extension("ledger")
    app.add_directive("errata", Errata)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
