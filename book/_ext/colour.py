r"""Colours the letters in all maths by what they stand for.

Authors write plain TeX, `S_t = S_{t-1} + k_t v_t^\top`. Where the glossary knows a
letter, the site wraps it and its subscript in `\class{ctl-ROLE}{...}`; the style sheet
decides the shade. A letter that a chapter borrows for something else wears none there.
"""

import re
from collections.abc import Mapping

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.typing import ExtensionMetadata

from ctlearn.plots import PALETTE
from ctlearn.shapes import GLOSSARY

TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|\s+|.", re.DOTALL)

# commands whose arguments are words, names or lengths; never letters of the book
OPAQUE = {
    **dict.fromkeys(
        ["text", "textrm", "textit", "textbf", "texttt", "mathrm", "mathsf", "mathtt"],
        1,
    ),
    **dict.fromkeys(["operatorname", "operatorname*", "label", "tag", "ref"], 1),
    **dict.fromkeys(["eqref", "end", "begin", "hspace", "mathbb", "color"], 1),
    **dict.fromkeys(["class", "cssId", "style", "href", "textcolor"], 2),
}
# environments whose name is followed by a column specification
WITH_COLUMNS = {"array", "alignedat", "alignat"}
# commands that dress one letter and leave it that letter
DRESS = {
    *["bar", "hat", "tilde", "dot", "vec", "overline", "widehat", "widetilde", "check"],
    *["mathbf", "boldsymbol", "mathcal", "bm"],
}
# commands that take bare letters as arguments, where a wrapped one needs braces
BARE = {"frac", "tfrac", "dfrac", "binom", "sqrt"}
# letters with other uses too: only with a subscript are they the book's arrays
NEEDS_SUBSCRIPT = {"b", "e", "i", "n", "r", "u", "w", "z"}
# and that subscript a token: n_h counts steps, and b_c bytes
NEEDS_TOKEN = {"b", "n"}
NAMES_TOKEN = re.compile(r"[{\s]*[ijt\d]")
# and with a dress alone: a bare kappa is a kernel
NEEDS_DRESS = {r"\kappa"}
# letters that a chapter, by its number, gives a meaning of its own, some of them only
# with one subscript
BORROWED = {
    "01": [r"\Delta", "r"],
    "02": ["A", "a", "b", "p"],
    "03": ["a"],
    "04": ["D", "a", r"\theta"],
    "05": [r"\delta", "p"],
    "06": ["W_k", "W_v", "a"],
    "08": ["A", "W", "a", "b", "w"],
    "09": ["W"],
    "10": ["a", "e", "n", "p"],
    "11": ["M", "u", "w"],
    "12": ["a", "n", "p"],
    "13": ["A", "G", "a", "b", "p"],
    "14": ["A", "a"],
    "15": ["a"],
    "16": ["W_k", "a", "p", "r", "u"],
    "17": ["A", "a", "p", "r"],
    "18": ["A", "W"],
    "19": ["A", r"\beta_1", r"\beta_2", "p", "z"],
}


def letters() -> dict[str, str]:
    """The role of every letter that stands for numbers a token or the state carries.

    An entry with a subscript, `W_K`, goes before that of its letter.
    """
    roles = {}
    for symbol in GLOSSARY.values():
        base = re.search(r"(\\(?!log\b)[A-Za-z]+|[A-Za-z])(?:[_}']|$)", symbol.tex)
        if not base or not symbol.shapes or symbol.role not in PALETTE:
            continue
        # one number with a Latin letter: x and c mean too much else
        if base[1].isalpha() and symbol.shapes == ((),):
            continue
        # what makes keys is no state, though both are a W
        named = re.fullmatch(r"W_[A-Z]", symbol.tex)
        roles[symbol.tex if named else base[1]] = symbol.role
    return roles


def letters_in(chapter: str, roles: Mapping[str, str]) -> dict[str, str]:
    """The roles in a chapter, called by its file: without what it has borrowed."""
    return dict(roles) | dict.fromkeys(BORROWED.get(chapter[:2], ()), "")


def chapter_of(node: nodes.Node, page: str) -> str:
    """Whose formula a node is: a collection marks what it takes from a chapter."""
    above = node.parent
    while above is not None:
        # what is written as an element of HTML, by `markup`, has attributes there
        if chapter := above.get("html", {}).get("data-chapter"):
            return chapter
        above = above.parent
    return page.rpartition("/")[2]


def coloured(tex: str, roles: Mapping[str, str]) -> str:
    r"""`tex` with every letter of `roles` wrapped in `\class{ctl-ROLE}{...}`.

    Commands, text, names of environments and labels are left alone, and so are
    subscripts of other letters: the k of d_k is no key.
    """
    return _Colouring(TOKEN.findall(tex), roles).run()


class _Colouring:
    """One pass over the tokens of a formula."""

    def __init__(self, tokens: list[str], roles: Mapping[str, str]) -> None:
        self.tokens = tokens
        self.roles = roles
        self.at = 0

    def run(self) -> str:
        out: list[str] = []
        # arguments that a command like \frac still waits for
        bare = 0
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            command = token[1:] if token.startswith("\\") else ""
            if command in OPAQUE:
                out.append(self.opaque(command))
            elif token == "_":
                self.at += 1
                out.append("_" + self.argument())
            elif token == "^":
                self.at += 1
                out.append("^" + self.superscript())
            elif (base := self.base()) is not None:
                wrapped = self.wrapped(*base)
                out.append(f"{{{wrapped}}}" if bare else wrapped)
            else:
                self.at += 1
                out.append(token)
            if command in BARE:
                bare = 1 if command == "sqrt" else 2
            elif not token.isspace():
                bare = max(0, bare - 1) if token != "{" else 0
        return "".join(out)

    def opaque(self, command: str) -> str:
        """The command with its arguments, untouched."""
        out = [self.tokens[self.at]]
        self.at += 1
        arguments = [self.argument() for _ in range(OPAQUE[command])]
        if command == "begin" and arguments[0].strip(" {}*") in WITH_COLUMNS:
            arguments.append(self.argument())
        return "".join([*out, *arguments])

    def argument(self) -> str:
        """The next argument as written: a group, or one token with what it needs."""
        out = []
        while self.at < len(self.tokens) and self.tokens[self.at].isspace():
            out.append(self.tokens[self.at])
            self.at += 1
        if self.at == len(self.tokens):
            return "".join(out)
        token = self.tokens[self.at]
        if token == "{":
            depth = 0
            while self.at < len(self.tokens):
                token = self.tokens[self.at]
                depth += (token == "{") - (token == "}")
                out.append(token)
                self.at += 1
                if depth == 0:
                    break
            return "".join(out)
        command = token[1:] if token.startswith("\\") else ""
        if command in OPAQUE:
            return "".join([*out, self.opaque(command)])
        self.at += 1
        dressed = self.argument() if command in DRESS else ""
        return "".join([*out, token, dressed])

    def superscript(self) -> str:
        """A superscript is maths like any other: e^{q^T k} holds a query and a key."""
        raw = self.argument()
        inner = coloured(_inner(raw), self.roles)
        return raw if inner == _inner(raw) else f"{{{inner}}}"

    def base(self) -> tuple[str, str] | None:
        """The letter at this place and its role, dressed or not; moves past it."""
        start = self.at
        token = self.tokens[self.at]
        if token[1:] in DRESS and token.startswith("\\"):
            self.at += 1
            letter = _inner(self.argument()).strip()
        else:
            self.at += 1
            letter = token
        subscripted = self.tokens[self.at : self.at + 1] == ["_"]
        written = "".join(self.tokens[start : self.at])
        script = "".join(self.tokens[self.at + 1 : self.at + 4])
        other = (
            (letter in NEEDS_SUBSCRIPT and not subscripted)
            or (letter in NEEDS_TOKEN and not NAMES_TOKEN.match(script))
            or (letter in NEEDS_DRESS and written == letter)
        )
        named = letter + "".join(self.tokens[self.at : self.at + 2])
        role = self.roles.get(named, self.roles.get(letter))
        if not role or other:
            self.at = start
            return None
        return written, role

    def wrapped(self, base: str, role: str) -> str:
        """The letter in its class, and its subscript, which is part of its name.

        Two classes rather than one around both, so that a superscript stays above the
        subscript instead of behind it.
        """
        out = f"\\class{{ctl-{role}}}{{{base}}}"
        while self.tokens[self.at : self.at + 1] in (["_"], ["^"]):
            script = self.tokens[self.at]
            self.at += 1
            if script == "_":
                inner = _inner(self.argument())
                out += f"_{{\\class{{ctl-{role}}}{{{inner}}}}}"
            else:
                out += "^" + self.superscript()
        return out


def _inner(argument: str) -> str:
    """An argument without the braces around it."""
    stripped = argument.strip()
    return stripped[1:-1] if stripped.startswith("{") else stripped


class Colour(SphinxPostTransform):
    """Rewrites the maths of a page as it is written, so that sources stay plain."""

    # after myst-nb has chosen which output of a cell to show
    default_priority = 250
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        """Colour every formula of the document."""
        roles = letters()
        for kind in (nodes.math, nodes.math_block):
            for node in list(self.document.findall(kind)):
                chapter = chapter_of(node, self.env.docname)
                text = coloured(node.astext(), letters_in(chapter, roles))
                node.children = [nodes.Text(text)]
                node.rawsource = text


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the transform; other roles mean other pages."""
    app.add_config_value("colour_roles", str((letters(), BORROWED)), "env")
    app.add_post_transform(Colour)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
