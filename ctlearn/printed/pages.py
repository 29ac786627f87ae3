"""The labelled equations of the book, each from the notebook or page where it stands.

A displayed equation has its label after it: $$ … $$ (eq-recall). The label's first part
says what it is: `def-` a definition, `cited-` quoted, `eq-` a statement.
"""

import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path

LABELLED = re.compile(r"\$\$(.+?)\$\$\s*\(([\w-]+)\)", re.DOTALL)


@dataclass(frozen=True)
class Printed:
    """An equation as the book prints it, and the file in which it stands."""

    label: str
    tex: str
    file: Path


def book() -> Path | None:
    """The folder of the book's sources, where the package runs from a clone of it."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "_toc.yml").exists() else None


@functools.cache
def printed(root: Path | None = None) -> dict[str, Printed]:
    """Every labelled equation by its label; none where the book is not at hand.

    Raises
    ------
    ValueError
        Two equations have one label.
    """
    root = root or book()
    found: dict[str, Printed] = {}
    for file in [] if root is None else _files(root):
        for tex, label in LABELLED.findall(_prose(file)):
            if label in found:
                raise ValueError(f"{label}: in {found[label].file} and in {file}")
            found[label] = Printed(label, tex.strip("\n"), file)
    return found


def _files(root: Path) -> list[Path]:
    return [*sorted(root.glob("notebooks/*.ipynb")), *sorted(root.glob("book/*.md"))]


def _prose(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join(
        "".join(c["source"]) for c in cells if c["cell_type"] == "markdown"
    )
