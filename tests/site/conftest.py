"""What the tests of the site share: the built site, and tiny books to break."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "book" / "_build" / "html"
BOOK = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"


@pytest.fixture(scope="session")
def site() -> Path:
    """The built site; built now if it is absent or older than what it is made from."""
    builder = [sys.executable, str(ROOT / "book" / "tools" / "build.py"), "--if-stale"]
    done = subprocess.run(builder, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return BUILT


@pytest.fixture(scope="session")
def pages(site: Path) -> list[str]:
    """The address of every page of the book, relative to the site's root."""
    found = [*site.glob("book/*.html"), *site.glob("notebooks/*.html")]
    return [*sorted(p.relative_to(site).as_posix() for p in found), "search.html"]


class Visit:
    """A browser's page that can reach one server, and notes what goes wrong."""

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self.address = address
        self.faults: list[str] = []
        page.route("**/*", self._admit)
        page.on("requestfailed", lambda r: self._note(f"failed request: {r.url}"))
        page.on("response", self._look_at)
        page.on("pageerror", lambda error: self._note(f"script error: {error}"))
        page.on("console", self._listen)

    def open(self, path: str) -> None:
        """Load a page and wait until its formulas are typeset."""
        self.page.goto(self.address + path, wait_until="networkidle")
        self.page.evaluate("() => window.MathJax && MathJax.startup.promise")

    def close(self) -> None:
        """Leave the profile."""
        self.page.context.close()

    def _note(self, fault: str) -> None:
        self.faults.append(fault)

    def _admit(self, route: Any) -> None:
        if route.request.url.startswith(self.address):
            route.continue_()
            return
        self._note(f"outside request: {route.request.url}")
        route.abort()

    def _look_at(self, response: Any) -> None:
        if response.status >= 400:
            self._note(f"{response.status}: {response.url}")

    def _listen(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self._note(f"console: {message.text}")


@pytest.fixture(scope="session")
def visit(
    chromium: Any, site: Path, serve: Callable[[Path], str]
) -> Callable[..., Visit]:
    """Open a fresh browser profile of a width and a colour scheme on the site."""
    address = serve(site)

    def start(width: int = 1280, scheme: str = "light", **options: Any) -> Visit:
        size = {"width": width, "height": 900}
        # what fades in would be caught half faded
        still = {"color_scheme": scheme, "reduced_motion": "reduce"}
        context = chromium.new_context(viewport=size, **still, **options)
        return Visit(context.new_page(), address)

    return start


@pytest.fixture
def tiny_book(
    tmp_path: Path,
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Build a book of a few pages with this book's extensions and configuration.

    `pages` maps a file's path to its text, `index.md` among them; `ledger` is a list of
    entries. The result is that of the build command, with warnings as errors.
    """

    def build(
        pages: dict[str, str], ledger: list[dict[str, Any]] | None = None
    ) -> subprocess.CompletedProcess[str]:
        source = tmp_path / "book"
        shutil.rmtree(source, ignore_errors=True)
        config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
        local = config["sphinx"]["local_extensions"]
        config["sphinx"]["local_extensions"] = {
            n: str(ROOT / p) for n, p in local.items()
        }
        config["sphinx"]["config"]["ledger_path"] = "ledger.json"
        config["bibtex_bibfiles"] = [str(ROOT / p) for p in config["bibtex_bibfiles"]]
        config["logo"] = str(ROOT / config["logo"])
        config["html"]["favicon"] = str(ROOT / config["html"]["favicon"])
        contents = {
            "format": "jb-book",
            "root": "index",
            "chapters": [{"file": name} for name in pages if name != "index.md"],
        }
        texts = {
            **pages,
            "_config.yml": yaml.safe_dump(config),
            "_toc.yml": yaml.safe_dump(contents),
            "ledger.json": json.dumps({"versions": {}, "entries": ledger or []}),
        }
        for name, text in texts.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", BOOK, "build", str(source)]
        command += ["--warningiserror", "--nitpick", "--keep-going"]
        environment = os.environ | {"PYTHONSAFEPATH": "1", "NO_COLOR": "1"}
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    return build
