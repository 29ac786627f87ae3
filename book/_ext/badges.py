"""The badge beside every labelled equation, and the rules it stands for.

The label says what an equation is: `def-` a definition, `cited-` quoted from a source,
`eq-` a statement that an entry of the ledger must claim and that must have passed. What
breaks a rule is a warning, and the build treats warnings as errors.
"""

import contextlib
from collections import defaultdict
from typing import Any, cast

import ledger
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.math import MathDomain
from sphinx.environment import BuildEnvironment
from sphinx.ext.mathjax import html_visit_displaymath
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

PLAIN = {
    "def": ("definition", "A definition: it can be followed or not, but not proved."),
    "cited": (
        "cited",
        "Quoted from the source named beside it, in the book's letters.",
    ),
}
PREFIXES = (*PLAIN, "eq")


def claims(app: Sphinx) -> dict[str, list[dict[str, Any]]]:
    """The ledger's entries by the label they claim."""
    by_label = defaultdict(list)
    for entry in ledger.entries(app):
        for label in entry["equations"]:
            by_label[label].append(entry)
    return by_label


def prefix(label: str) -> str:
    """What a label says its equation is."""
    return label.partition("-")[0]


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of every label without a claim, claim without a label, and failure."""
    equations = cast(MathDomain, env.get_domain("math")).equations
    claimed = claims(app)
    for label, (docname, _) in sorted(equations.items()):
        kind = prefix(label)
        if kind not in PREFIXES:
            logger.warning(
                "equation %s: a label starts with def-, cited- or eq-",
                label,
                location=docname,
            )
        elif kind == "eq" and label not in claimed:
            logger.warning("equation %s: no check claims it", label, location=docname)
    for label in sorted(claimed.keys() - equations.keys()):
        names = ", ".join(entry["name"] for entry in claimed[label])
        logger.warning("%s: claims equation %s, which no page has", names, label)
    for entry in ledger.entries(app):
        if not entry["passed"] or not all(m["killed"] for m in entry["mutants"]):
            logger.warning("%s: %s", entry["name"], ledger.verdict(entry))


def visit_equation(self: HTML5Translator, node: nodes.math_block) -> None:
    """An equation in a box that scrolls by itself; number and badges beside it."""
    label = node.get("label")
    if not label or node.get("nowrap"):
        self.body.append('<div class="equation">')
        try:
            html_visit_displaymath(self, node)
        except nodes.SkipNode:
            self.body.append("</div>")
            raise
    number = get_node_equation_number(self, node)
    self.body.append(self.starttag(node, "div", CLASS="equation labelled"))
    # before the formula, so that it floats beside the formula's first line
    self.body.append('<div class="equation-side">')
    self.body.append(f'<span class="eqno">({number})')
    self.add_permalink_ref(node, "Link to this equation")
    self.body.append("</span>")
    self.body.extend(badges(self, label))
    self.body.append("</div>")
    bare = nodes.math_block("", node.astext(), nowrap=False, number=None)
    with contextlib.suppress(nodes.SkipNode):
        html_visit_displaymath(self, bare)
    self.body.append("</div>\n")
    raise nodes.SkipNode


class equation_badges(nodes.General, nodes.Inline, nodes.Element):
    """The badges of an equation, by its `label`, on a page that repeats it."""


def visit_badges(self: HTML5Translator, node: equation_badges) -> None:
    """The same badges as beside the equation itself."""
    self.body.append(" ".join(badges(self, node["label"])))
    raise nodes.SkipNode


def badges(self: HTML5Translator, label: str) -> list[str]:
    """The badges of one label, as HTML."""
    app = self.builder.app
    out = []
    if prefix(label) in PLAIN:
        text, title = PLAIN[prefix(label)]
        out.append(f'<span class="verdict {text}" title="{title}">{text}</span>')
    page = ledger.page_of(app.env)
    for entry in claims(app)[label]:
        kind = "proved" if ledger.proved(entry) else "sampled"
        text = wording(entry, label, kind)
        shown = f'class="verdict {kind}" title="{self.attval(ledger.verdict(entry))}"'
        if page is None:
            out.append(f"<span {shown}>{text}</span>")
            continue
        uri = self.builder.get_relative_uri(self.builder.current_docname, page)
        target = f"{uri}#{ledger.anchor(entry['name'])}"
        out.append(f'<a {shown} href="{self.attval(target)}">{text}</a>')
    return out


def wording(entry: dict[str, Any], label: str, kind: str) -> str:
    """What a badge says: of a definition only whether the code does what it says."""
    words = [] if prefix(label) in PLAIN else [entry["kind"]]
    words += ["on instances"] if kind == "sampled" else []
    words += ["as printed"] if label in entry["printed"] else []
    return ", ".join(words) if entry["passed"] else "fails"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the check and take over how a displayed equation is written."""
    app.setup_extension("ledger")
    app.connect("env-updated", check)
    app.add_node(nodes.math_block, override=True, html=(visit_equation, None))
    app.add_node(equation_badges, html=(visit_badges, None))
    return {"parallel_read_safe": False, "parallel_write_safe": True}
