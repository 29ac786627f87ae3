"""What the tests of the site share: the built site, and tiny books to break."""

import json
import multiprocessing
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
# What a build runs in a process of its own, forked from one that has it all imported.
BOOK = """
import os, sys
log = os.open(path, os.O_CREAT | os.O_WRONLY)
os.dup2(log, 1)
os.dup2(log, 2)
os.environ |= {"PYTHONSAFEPATH": "1", "NO_COLOR": "1"}
sys.stdout, sys.stderr = (open(n, "w", buffering=1, closefd=False) for n in (1, 2))
from jupyter_book.cli.main import main
main(arguments)
"""


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
        # watched and not routed, which would load everything anew for every page
        page.on("request", self._look_where)
        page.on("requestfailed", lambda r: self._note(f"failed request: {r.url}"))
        page.on("response", self._look_at)
        page.on("pageerror", lambda error: self._note(f"script error: {error}"))
        page.on("console", self._listen)

    def open(self, path: str) -> None:
        """Load a page and wait until its formulas are typeset."""
        self.page.goto(self.address + path, wait_until="networkidle")
        # until its script has run, MathJax is no more than its settings
        self.page.wait_for_function("() => !window.MathJax || MathJax.startup?.promise")
        self.page.evaluate("() => window.MathJax && MathJax.startup.promise")

    def close(self) -> None:
        """Leave the profile."""
        self.page.context.close()

    def _note(self, fault: str) -> None:
        self.faults.append(fault)

    def _look_where(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self._note(f"outside request: {request.url}")

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


@pytest.fixture(scope="session")
def forks() -> Any:
    """Processes that start with what builds a book imported, which takes seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["jupyter_book.cli.main", "myst_nb.sphinx_ext"])
    return context


@pytest.fixture
def tiny_book(
    tmp_path: Path, forks: Any
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
        arguments = ["build", str(source), "--warningiserror", "--nitpick"]
        arguments += ["--keep-going"]
        log = tmp_path / "build.log"
        log.unlink(missing_ok=True)
        given = {"path": str(log), "arguments": arguments}
        process = forks.Process(target=exec, args=(BOOK, given))
        process.start()
        process.join()
        said = log.read_text(encoding="utf-8")
        return subprocess.CompletedProcess(arguments, process.exitcode, said, "")

    return build
