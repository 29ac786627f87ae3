"""HTML elements as document nodes, for what docutils has no node for."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator


class element(nodes.General, nodes.Element):
    """One HTML element: `tag`, and `attributes` that are written as they are.

    Its children are ordinary nodes, so that maths, references and code inside it are
    resolved, coloured and searched as everywhere else.
    """


def build(tag: str, *children: nodes.Node, **attributes: str) -> element:
    """An element with its children; `class_` and `data_x` become `class`, `data-x`."""
    written = {
        name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()
    }
    return element("", *children, tag=tag, html=written)


def visit(self: HTML5Translator, node: element) -> None:
    """Open the tag."""
    attributes = "".join(
        f' {name}="{self.attval(value)}"' for name, value in node["html"].items()
    )
    self.body.append(f"<{node['tag']}{attributes}>")


def depart(self: HTML5Translator, node: element) -> None:
    """Close the tag."""
    self.body.append(f"</{node['tag']}>")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the node."""
    app.add_node(element, html=(visit, depart))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
