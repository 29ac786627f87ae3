"""The page of mechanisms, printed from what each declares about itself.

The directive `family-tree` draws which mechanism becomes which; the directive
`mechanisms` gives each a section: its own words, its place in the design space, and the
settings at which it is another one, each with its check in the ledger.
"""

import hashlib
import inspect
import re

from docutils import nodes
from ledger import chapter_page, parsed
from markup import build
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from ctlearn.identities.family import limit_name
from ctlearn.mechanism import Limit, Mechanism
from ctlearn.mixers import branches, mechanisms


def anchor(mechanism: Mechanism) -> str:
    """The id of a mechanism's section."""
    return f"mechanism-{nodes.make_id(mechanism.name)}"


def short(mechanism: Mechanism) -> str:
    """The title without what the field calls it in brackets."""
    return mechanism.title.partition(" (")[0]


def link(mechanism: Mechanism) -> nodes.Element:
    """A link to a mechanism's section of this page."""
    return build("a", nodes.Text(short(mechanism)), href=f"#{anchor(mechanism)}")


class FamilyTree(SphinxDirective):
    """A nested list, which the style sheet draws as a tree."""

    def run(self) -> list[nodes.Node]:
        """Every mechanism under the one that it becomes first."""
        open_lists = [build("ul", class_="family-tree")]
        for mechanism, _, depth in branches():
            while len(open_lists) > depth + 1:
                open_lists.pop()
            if len(open_lists) <= depth:
                deeper = build("ul")
                open_lists[-1].children[-1].append(deeper)
                open_lists.append(deeper)
            open_lists[-1].append(self.leaf(mechanism))
        return [open_lists[0]]

    def leaf(self, mechanism: Mechanism) -> nodes.Element:
        """One mechanism: a link to its section, what it takes to go up, its chapter."""
        parts = [link(mechanism)]
        if mechanism.limits:
            (setting,) = parsed(self, f"if ${mechanism.limits[0].setting}$")
            parts.append(build("span", *setting.children, class_="setting"))
        page = chapter_page(self.env, mechanism.chapter)
        if page:
            (chapter,) = parsed(self, f"chapter {{doc}}`/{page}`")
            words = nodes.inline("", "", *chapter.children)
            parts.append(build("span", words, class_="chapter"))
        return build("li", *parts)


class Mechanisms(SphinxDirective):
    """A section for each mechanism."""

    def run(self) -> list[nodes.Node]:
        """All sections, in the order of the tree."""
        return [self.section(mechanism) for mechanism, _, _ in branches()]

    def section(self, mechanism: Mechanism) -> nodes.section:
        """What the file says, then what its object declares."""
        section = nodes.section(ids=[anchor(mechanism)])
        section += nodes.title("", mechanism.title)
        section += parsed(self, self.words(mechanism))
        section += self.facts(mechanism)
        if mechanism.limits:
            becomes = [self.limit(mechanism, limit) for limit in mechanism.limits]
            section += build("ul", *becomes)
        return section

    def words(self, mechanism: Mechanism) -> str:
        """The module's docstring as Markdown, its BibTeX keys as citations."""
        words = inspect.cleandoc(mechanism.source.__doc__ or "")
        for key in mechanism.citations:
            words = re.sub(rf"\b{key}\b", f"{{cite:t}}`{key}`", words)
        # the recurrences are indented, which Markdown reads as code
        return words

    def facts(self, mechanism: Mechanism) -> nodes.Element:
        """The place in the design space, as names and values."""
        pairs: list[tuple[str, list[nodes.Node]]] = []
        for choice, value in mechanism.place.words().items():
            as_code = choice == "state"
            node = nodes.literal("", value) if as_code else nodes.Text(value)
            pairs.append((choice.replace("_", " "), [node]))
        page = chapter_page(self.env, mechanism.chapter)
        if page:
            pairs.append(("chapter", parsed(self, f"{{doc}}`/{page}`")))
        pairs.append(
            ("in code", [nodes.literal("", f"ctlearn.mixers.{mechanism.name}")])
        )
        parts: list[nodes.Node] = []
        for name, shown in pairs:
            parts += [build("dt", nodes.Text(name)), build("dd", *shown)]
        return build("dl", *parts, class_="design-space")

    def limit(self, mechanism: Mechanism, limit: Limit) -> nodes.Element:
        """One line: the other mechanism, the setting, the proof."""
        target = mechanisms()[limit.target]
        entry = limit_name(mechanism, limit)
        (rest,) = parsed(self, f"if ${limit.setting}$ ({{ledger}}`check <{entry}>`).")
        words = nodes.inline("", "", nodes.Text(" "), *rest.children)
        return build("li", nodes.Text("It is "), link(target), words)


def described() -> str:
    """All that the page prints, to notice when it changes."""
    every = mechanisms().values()
    settings = [[(x.target, x.setting) for x in m.limits] for m in every]
    return f"{[(m.source.__doc__, m.title, m.place) for m in every]}{settings}"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives; other mechanisms mean another page."""
    for extension in ("markup", "ledger"):
        app.setup_extension(extension)
    digest = hashlib.sha256(described().encode()).hexdigest()
    app.add_config_value("mechanisms_digest", digest, "env")
    app.add_directive("family-tree", FamilyTree)
    app.add_directive("mechanisms", Mechanisms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
