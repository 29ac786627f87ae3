"""Every figure says what is seen to one who cannot see it.

A picture without an alternative text, or with the hash of its file for one, is a
warning. What the theme's own pages get wrong is set right by `theme/book.js`.
"""

import re
from html.parser import HTMLParser

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata

logger = logging.getLogger(__name__)

# what a build names a notebook's picture after
HASH = re.compile(r"[0-9a-f]{32,}")
# elements that never close
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source"}


def named(alt: str) -> bool:
    """Whether an alternative text is one."""
    return bool(alt.strip()) and not HASH.search(alt)


class Pictures(HTMLParser):
    """Collects what is wrong with the pictures in a piece of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        # for every open element, whether what is in it is already spoken for
        self.spoken: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at a picture; remember what an enclosing element already says."""
        values = {name: value or "" for name, value in attrs}
        label = named(values.get("aria-label", ""))
        hidden = values.get("aria-hidden") == "true"
        spoken = hidden or (values.get("role") == "img" and label)
        inside = any(done for _, done in self.spoken)
        if tag == "img" and not (inside or hidden or named(values.get("alt", ""))):
            self.faults.append("an <img> without an alternative text")
        if tag == "svg" and not (inside or spoken):
            self.faults.append('an <svg> without role="img" and an aria-label')
        if tag not in VOID:
            self.spoken.append((tag, spoken))

    def handle_endtag(self, tag: str) -> None:
        """Close the element, and what was left open inside it."""
        for position in range(len(self.spoken) - 1, -1, -1):
            if self.spoken[position][0] == tag:
                del self.spoken[position:]
                break


def faults(html: str) -> list[str]:
    """What is wrong with the pictures of `html`, one sentence each."""
    pictures = Pictures()
    pictures.feed(html)
    return pictures.faults


def check(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Warn of every picture of a page that says nothing."""
    if app.builder.format != "html":
        return
    for image in doctree.findall(nodes.image):
        if not named(image.get("alt", "")):
            logger.warning(
                "%s: a figure without an alternative text",
                image.get("uri", ""),
                location=(docname, image.line),
            )
    for raw in doctree.findall(nodes.raw):
        if "html" in raw.get("format", ""):
            for fault in faults(raw.astext()):
                logger.warning("%s", fault, location=(docname, raw.line))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Look at each page as it is written."""
    app.connect("doctree-resolved", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
