"""What the site serves itself: maths, fonts, palette, style and scripts.

Third-party files are copied from `book/node_modules` (fetched by `npm ci` from the lock
file) and trimmed to what a page can ask for. Nothing is asked of another host.
"""

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError
from sphinx.util.typing import ExtensionMetadata

from ctlearn.plots import PALETTE

BOOK = Path(__file__).resolve().parents[1]
MODULES = BOOK / "node_modules"
THEME = BOOK / "theme"

# the page's own files; a script that only one kind of page needs is added by its owner
STYLES = ("fonts.css", "palette.css", "book.css", "boxes.css", "print.css")
SCRIPTS = ("book.js",)

FAMILIES = ("source-serif-4", "source-sans-3", "source-code-pro")
SUBSETS = ("latin", "latin-ext", "greek")
MATHJAX_FILES = (
    "tex-chtml.js",
    "input/tex/extensions/html.js",
    "a11y/assistive-mml.js",
)


def prepare(app: Sphinx, config: Config) -> None:
    """Fill a folder beside the output and name it as a static folder.

    A book's own `_static/` would not do: every script in it is put on every page.
    """
    if not MODULES.is_dir():
        raise ExtensionError(
            "book/node_modules is missing: run `make book`, or `npm ci` in book/"
        )
    folder = Path(app.outdir).parent / ".site"
    folder.mkdir(parents=True, exist_ok=True)
    copy_mathjax(folder / "mathjax")
    write(folder / "fonts.css", copy_fonts(folder / "fonts"))
    write(folder / "palette.css", palette_css())
    for source in THEME.iterdir():
        copy(source, folder / source.name)
    config.html_static_path.append(str(folder))
    for name in STYLES:
        # after the theme's own style sheet, which is written at 500
        app.add_css_file(name, priority=600)
    for name in SCRIPTS:
        app.add_js_file(name, loading_method="defer")


def copy(source: Path, target: Path) -> None:
    """Copy a file unless the target is already the same age or younger."""
    if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def write(target: Path, text: str) -> None:
    """Write a file unless it already says this."""
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


def copy_mathjax(target: Path) -> None:
    r"""The TeX to HTML component, the `\class` extension and the woff fonts."""
    source = MODULES / "mathjax" / "es5"
    for name in MATHJAX_FILES:
        copy(source / name, target / name)
    copy(MODULES / "mathjax" / "LICENSE", target / "LICENSE")
    for font in (source / "output/chtml/fonts/woff-v2").glob("*.woff"):
        copy(font, target / "output/chtml/fonts/woff-v2" / font.name)


def copy_fonts(target: Path) -> str:
    """Copy the subsets that this book's letters come from; the style sheet for them."""
    rules = []
    for family in FAMILIES:
        package = MODULES / "@fontsource-variable" / family
        copy(package / "LICENSE", target / f"{family}-LICENSE")
        for sheet in ("wght.css", "wght-italic.css"):
            text = (package / sheet).read_text(encoding="utf-8")
            for rule in re.findall(r"@font-face\s*\{.*?\}", text, re.DOTALL):
                name = re.search(r"files/([\w-]+\.woff2)", rule)
                if name is None or not name[1].startswith(
                    tuple(f"{family}-{subset}-wght" for subset in SUBSETS)
                ):
                    continue
                copy(package / "files" / name[1], target / name[1])
                rules.append(rule.replace("./files/", "fonts/"))
    return "\n".join(rules) + "\n"


def palette_css() -> str:
    """One variable and one class for each role, in both colour schemes.

    The page's scheme is in `data-theme`; without scripts it is the reader's system's.
    """
    light = "".join(f"  --ctl-{role}: {c['light']};\n" for role, c in PALETTE.items())
    dark = "".join(f"  --ctl-{role}: {c['dark']};\n" for role, c in PALETTE.items())
    classes = "".join(
        f".ctl-{role} {{ color: var(--ctl-{role}); }}\n" for role in PALETTE
    )
    return (
        f":root {{\n{light}}}\n"
        f'html[data-theme="dark"] {{\n{dark}}}\n'
        f"@media print {{\nhtml:root[data-theme] {{\n{light}}}\n}}\n"
        f"{classes}"
    )


def setup(app: Sphinx) -> ExtensionMetadata:
    """Run once the configuration is known."""
    app.connect("config-inited", prepare)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
