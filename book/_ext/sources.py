"""The code of the checks as pages of the site, so that a row of the ledger leads to it.

No repository address is known, and a link to a file on this machine would be dead; so
the site carries each file once, with an anchor at every line.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import ledger
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.util.typing import ExtensionMetadata


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each file in which a check of the ledger stands."""
    for file in dict.fromkeys(entry["file"] for entry in ledger.entries(app)):
        source = ledger.ROOT / file
        if source.exists():
            body = listing(app, source.read_text(encoding="utf-8"))
            title = f"<h1><code>{Path(file).name}</code></h1>"
            context = {"title": Path(file).name, "body": title + body}
            yield ledger.source_page(file), context, "page.html"


def listing(app: Sphinx, source: str) -> str:
    """Python in colour, every line with an anchor and its number."""
    builder = cast(StandaloneHTMLBuilder, app.builder)
    shown = builder.highlighter.highlight_block(source, "python")
    start, _, rest = shown.partition("<pre>")
    lines = rest.partition("</pre>")[0].splitlines()
    width = len(str(len(lines)))
    numbered = "\n".join(
        f'<span id="line-{i}" class="line"><span class="linenos">{i:{width}} </span>'
        f"{line}</span>"
        for i, line in enumerate(lines, 1)
    )
    # a box that scrolls must be reached by the keyboard
    return f'{start}<pre tabindex="0">{numbered}</pre></div></div>'


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the pages."""
    app.setup_extension("ledger")
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
