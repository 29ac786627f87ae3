"""The ledger: every check behind the book's equations, as a table of the site.

`python -m ctlearn.identities --json` writes the file; the directive `ledger` typesets
it and the role ``{ledger}`name` `` links to one of its entries.
"""

import functools
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from markup import build
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import ReferenceRole, SphinxDirective
from sphinx.util.nodes import make_refnode
from sphinx.util.typing import ExtensionMetadata

logger = logging.getLogger(__name__)

# the letter of "d_k = 2" or "T ≤ 5"
SIZE = re.compile(r"\b([A-Za-z])(?:_([a-z]))?(?= [=≤] \d)")
ROOT = Path(__file__).resolve().parents[2]
# where the code of the checks lies; the page says so once
FOLDER = "ctlearn/identities/"
# what Sphinx notes of the page that has the table
PAGE = "ledger"
COLUMNS = ("Statement", "Kind", "How it was checked", "Mutants", "Seconds", "Where")


def path(app: Sphinx) -> Path:
    """Where the ledger of this book lies."""
    return Path(app.srcdir) / app.config.ledger_path


def entries(app: Sphinx) -> list[dict[str, Any]]:
    """The ledger's entries, or none when it has not been written."""
    file = path(app)
    return _read(file, file.stat().st_mtime_ns) if file.exists() else []


@functools.lru_cache(maxsize=1)
def _read(file: Path, _changed: int) -> list[dict[str, Any]]:
    return json.loads(file.read_text(encoding="utf-8"))["entries"]


def anchor(name: str, page: str = "ledger") -> str:
    """The id of an entry on the page of all, or of errata."""
    return f"{page}-{nodes.make_id(name)}"


def math(tex: str) -> str:
    """A displayed formula in Markdown."""
    return f"$$\n{tex}\n$$"


def source_page(file: str) -> str:
    """The page that shows a file of the checks."""
    return f"checks/{Path(file).stem}"


def source_link(env: BuildEnvironment, entry: dict[str, Any]) -> str:
    """From the page being read to the line of an entry's check."""
    builder = env.app.builder
    uri = builder.get_relative_uri(env.docname, source_page(entry["file"]))
    return f"{uri}#line-{entry['line']}"


def killed(entry: dict[str, Any]) -> str:
    """How many of an entry's mutants failed, as they should."""
    mutants = entry["mutants"]
    return f"{sum(mutant['killed'] for mutant in mutants)} of {len(mutants)}"


def verdict(entry: dict[str, Any]) -> str:
    """What was done to an entry, in one sentence."""
    told = [executed["told"] for executed in entry["printed"].values()]
    done = "; ".join([*entry["methods"], *dict.fromkeys(told)])
    return f"{'Holds' if entry['passed'] else 'Fails'}: {done}. {killed(entry)} killed."


def proved(entry: dict[str, Any]) -> bool:
    """Whether an entry was proved, rather than computed on some instances.

    One exact instance is all that a counterexample needs.
    """
    enough = ["symbols", "induction", "any dimension"]
    if entry["kind"] == "counterexample":
        enough.append("exact")
    return any(method.startswith(tuple(enough)) for method in entry["methods"])


def as_printed(entry: dict[str, Any]) -> list[str]:
    """Of each of an entry's equations, whether its own text was run."""
    told = {
        label: entry["printed"][label]["told"]
        if label in entry["printed"]
        else "a twin in code, not the printed text"
        for label in [*entry["equations"], *entry["printed"]]
    }
    if len(set(told.values())) == 1:
        return [*dict.fromkeys(told.values())]
    return [f"{label}: {words}" for label, words in told.items()]


class ledger_link(nodes.General, nodes.Inline, nodes.TextElement):
    """A link to an entry, resolved once the ledger's page is known."""


class LedgerRole(ReferenceRole):
    """Link to one entry, by its name or under other words."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """One link, to be resolved when all pages have been read."""
        node = ledger_link("", self.title, entry=self.target)
        self.set_source_info(node)
        return [node], []


class LedgerTable(SphinxDirective):
    """The table of all entries."""

    def run(self) -> list[nodes.Node]:
        """The table, which is readable without scripts and sorts with one."""
        self.env.metadata[self.env.docname][PAGE] = True
        self.env.note_dependency(str(path(self.env.app)))
        rows = [self.row(entry) for entry in entries(self.env.app)]
        if not rows:
            return []
        head = build("tr", *[build("th", nodes.Text(c), scope="col") for c in COLUMNS])
        table = build(
            "table", build("thead", head), build("tbody", *rows), class_="ledger"
        )
        return [build("div", table, class_="ledger-box")]

    def row(self, entry: dict[str, Any]) -> nodes.Node:
        """One entry: a row of the table, a card on a phone."""
        mutants = ", ".join(mutant["name"] for mutant in entry["mutants"])
        cells = (
            [
                build("strong", nodes.Text(entry["title"])),
                *self.parsed(math(entry["statement"])),
                *self.misprint(entry),
            ],
            [build("span", nodes.Text(entry["kind"]), class_=f"kind {entry['kind']}")],
            [
                build(
                    "ul",
                    *map(self.method, [*entry["methods"], *as_printed(entry)]),
                    *self.equivalents(entry),
                )
            ],
            [build("span", nodes.Text(killed(entry)), title=f"Killed: {mutants}")],
            [nodes.Text(f"{entry['seconds']:.2g}")],
            self.where(entry),
        )
        return build(
            "tr",
            *[
                build("td", *content, data_label=label)
                for label, content in zip(COLUMNS, cells, strict=True)
            ],
            id=anchor(entry["name"]),
            data_kind=entry["kind"],
            data_chapter=entry["chapter"],
            data_mechanisms=json.dumps(entry["mechanisms"]),
        )

    def misprint(self, entry: dict[str, Any]) -> list[nodes.Node]:
        """What an erratum's source has in the place of the statement."""
        if not entry["as_printed"]:
            return []
        words = build("p", nodes.Text("Printed in the source:"), class_="text-label")
        return [words, *self.parsed(math(entry["as_printed"]))]

    def equivalents(self, entry: dict[str, Any]) -> list[nodes.Node]:
        """The slips of an entry's texts that leave them true, each with the reason."""
        return [
            build("li", nodes.literal("", slip), nodes.Text(f" is no slip: {reason}"))
            for executed in entry["printed"].values()
            for slip, reason in executed["survivors"].items()
        ]

    def method(self, words: str) -> nodes.Node:
        """One way in which an entry was checked, its sizes in italics.

        They are plain HTML: hundreds of formulas would make the page slow to open.
        """
        parts: list[nodes.Node] = []
        end = 0
        for size in SIZE.finditer(words):
            parts += [
                nodes.Text(words[end : size.start()]),
                build("i", nodes.Text(size[1])),
            ]
            parts += [build("sub", nodes.Text(size[2]))] if size[2] else []
            end = size.end()
        return build("li", *parts, nodes.Text(words[end:]))

    def where(self, entry: dict[str, Any]) -> list[nodes.Node]:
        """The chapter, the source of the claim and the file of the check."""
        lines = []
        chapter = chapter_page(self.env, entry["chapter"])
        if chapter:
            lines.append(f"{{doc}}`/{chapter}`")
        lines.append(cited(entry["source"], entry["citations"]))
        code = nodes.literal("", entry["file"].removeprefix(FOLDER).removesuffix(".py"))
        href = source_link(self.env, entry)
        return [
            *self.parsed("\n\n".join(line for line in lines if line)),
            build("p", build("a", code, href=href)),
        ]

    def parsed(self, markdown: str) -> list[nodes.Node]:
        """Markdown as nodes, so that maths, citations and links work in a cell."""
        return parsed(self, markdown)


def parsed(directive: Directive, markdown: str) -> list[nodes.Node]:
    """Markdown as nodes of the page that a directive stands on."""
    container = nodes.Element()
    source = f"{directive.name} directive"
    directive.state.nested_parse(
        StringList(markdown.splitlines(), source=source),
        directive.content_offset,
        container,
    )
    return container.children


def cited(source: str, keys: list[str]) -> str:
    """A source in Markdown: keys in it become names, the others follow in brackets."""
    rest = [key for key in keys if key not in source]
    for key in set(keys) - set(rest):
        source = re.sub(rf"\b{key}\b", f"{{cite:t}}`{key}`", source)
    return f"{source} {{cite:p}}`{','.join(rest)}`".strip() if rest else source


def chapter_page(env: BuildEnvironment, stem: str) -> str | None:
    """The page that a chapter's notebook became."""
    pages = [name for name in env.found_docs if name.rpartition("/")[2] == stem]
    return pages[0] if pages else None


def page_of(env: BuildEnvironment) -> str | None:
    """The page with the table, once it is read."""
    return next((name for name, told in env.metadata.items() if PAGE in told), None)


def resolve(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Turn the links to entries into references, and warn of one to nowhere."""
    known = {entry["name"]: entry for entry in entries(app)}
    for node in list(doctree.findall(ledger_link)):
        name = node["entry"]
        page = page_of(app.env)
        text = nodes.Text(
            known[name]["title"]
            if node.astext() == name and name in known
            else node.astext()
        )
        if name not in known or page is None:
            logger.warning("no entry %r in the ledger", name, location=node)
            node.replace_self(text)
            continue
        node.replace_self(make_refnode(app.builder, docname, page, anchor(name), text))


def watch(app: Sphinx, config: Config) -> None:
    """A new ledger means new badges: let every page be read again."""
    # the seconds differ from run to run, and alone are no reason to read all pages
    content = [{**entry, "seconds": 0} for entry in entries(app)]
    config.ledger_digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()


def add_script(
    app: Sphinx, page: str, _template: str, _context: dict, _doctree: nodes.document
) -> None:
    """Sorting and filtering, on the ledger's page alone."""
    if page == page_of(app.env):
        app.add_js_file("ledger.js", loading_method="defer")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive, the role and their resolution."""
    app.setup_extension("markup")
    app.add_config_value("ledger_path", "book/_build/ledger.json", "env")
    app.add_config_value("ledger_digest", "", "env")
    app.add_node(ledger_link)
    app.add_directive("ledger", LedgerTable)
    app.add_role("ledger", LedgerRole())
    app.connect("config-inited", watch)
    app.connect("doctree-resolved", resolve)
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
