"""Explorables on the static page: their modules, and the host where one is shown.

Each module is written as one file with what all share. The folder lies beside the
output, since every script in a book's own `_static/` would be put on every page; the
host is added to the pages that hold an explorable, and to no other.
"""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.typing import ExtensionMetadata

from ctlearn import explore
from ctlearn.explore.explorable import collect


def write_modules(app: Sphinx, config: Config) -> None:
    """Write the modules and the host, and name their folder as a static folder."""
    static = Path(app.outdir).parent / ".explore"
    folder = static / "explore"
    folder.mkdir(parents=True, exist_ok=True)
    host = Path(explore.__path__[0]) / "host.js"
    texts = {f"{name}.js": cls.module() for name, cls in collect().items()}
    texts["host.js"] = host.read_text(encoding="utf-8")
    for stale in set(folder.iterdir()) - {folder / name for name in texts}:
        stale.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    config.html_static_path.append(str(static))


def add_host(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Add the host to a page that holds an explorable."""
    if 'class="explorable"' in context.get("body", ""):
        app.add_js_file("explore/host.js", type="module")


def drop_widget_state(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Leave out what a widget manager would need: the page has none."""
    notebooks = getattr(app.env, "nb_metadata", {})
    if page in notebooks:
        notebooks[page].get("js_files", {}).pop("ipywidgets_state", None)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Modules once the configuration is known, the host page by page."""
    app.connect("config-inited", write_modules)
    app.connect("html-page-context", add_host)
    # before myst-nb, at 500, adds it to the page
    app.connect("html-page-context", drop_widget_state, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
