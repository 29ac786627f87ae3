"""Keeps punctuation on the line of the formula that it follows, and code in one piece.

A typeset formula is a box to the browser, which may break the line on either side of
it and so leave a full stop to begin the next one. In code it may break behind any
hyphen, also between the two of `--text`.
"""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.typing import ExtensionMetadata

CLOSING = re.compile(r"[.,;:!?)\]’”…]+|-(?=\w)|’s\b")
# Letters of a word of code that fit every line of a phone.
WHOLE = 22


class Spacing(SphinxPostTransform):
    """Puts each inline formula and the punctuation after it into one unbroken span.

    Code whose words are all short gets the class `whole`.
    """

    default_priority = 260
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        """Join every formula with what closes it, and mark the code that fits."""
        for code in self.document.findall(nodes.literal):
            if all(len(word) <= WHOLE for word in code.astext().split()):
                code["classes"].append("whole")
        for formula in list(self.document.findall(nodes.math)):
            after = formula.next_node(siblings=True, descend=False)
            if not isinstance(after, nodes.Text):
                continue
            closing = CLOSING.match(after)
            if closing is None:
                continue
            parent = formula.parent
            joined = nodes.inline("", "", classes=["unbroken"])
            parent.replace(after, nodes.Text(after[closing.end() :]))
            parent.replace(formula, joined)
            joined += [formula, nodes.Text(closing[0])]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the transform."""
    app.add_post_transform(Spacing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
