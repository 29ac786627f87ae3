"""The notation page, printed from the package's glossary."""

import hashlib

from docutils import nodes
from ledger import parsed
from markup import build
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from ctlearn.shapes import GLOSSARY, Symbol

COLUMNS = ("Letter", "In code", "Shape", "Meaning", "Elsewhere")


class Notation(SphinxDirective):
    """The table of all letters: how each is printed, typed, shaped and called."""

    def run(self) -> list[nodes.Node]:
        """One row a letter."""
        head = build("tr", *[build("th", nodes.Text(c), scope="col") for c in COLUMNS])
        rows = [self.row(symbol) for symbol in GLOSSARY.values()]
        table = build(
            "table", build("thead", head), build("tbody", *rows), class_="notation"
        )
        return [build("div", table, class_="notation-box")]

    def row(self, symbol: Symbol) -> nodes.Node:
        """One letter: a row of the table, a card on a phone."""
        meaning: list[nodes.Node] = [nodes.Text(symbol.meaning)]
        if symbol.range:
            note = nodes.Text(f"Range: {symbol.range}")
            meaning.append(build("span", note, class_="range"))
        shape = symbol.shape_text().replace("[]", "number")
        cells = (
            parsed(self, f"${symbol.tex}$"),
            [nodes.literal("", symbol.name)],
            [nodes.literal("", shape)] if shape else [],
            meaning,
            [nodes.Text(symbol.elsewhere)] if symbol.elsewhere else [],
        )
        return build(
            "tr",
            *[
                build("td", *content, data_label=label)
                for label, content in zip(COLUMNS, cells, strict=True)
            ],
            id=f"letter-{nodes.make_id(symbol.name)}",
        )


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive; another glossary means another page."""
    app.setup_extension("markup")
    digest = hashlib.sha256(repr(GLOSSARY).encode()).hexdigest()
    app.add_config_value("notation_digest", digest, "env")
    app.add_directive("notation", Notation)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
