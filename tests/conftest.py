"""What all tests share: the tree, the book's tools, and plain last lines.

Nothing is skipped silently: a run ends with what was skipped and how to run it, and
where everything is expected to be installed (CI=true) a skip fails the run.
"""

import functools
import http.server
import importlib.util
import os
import re
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

# Without a GPU, kernels run in Triton's interpreter. Triton asks once, when it is first
# imported, which may be by any test: so here, before there is one.
if not any(Path(gpu).exists() for gpu in ("/dev/nvidiactl", "/dev/kfd")):
    os.environ.setdefault("TRITON_INTERPRET", "1")

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # no name of a host leads anywhere, whatever this machine can reach
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def tool() -> Callable[[str], ModuleType]:
    """A module of book/tools or book/_ext by its file name, neither being a package."""

    def load(name: str) -> ModuleType:
        folders = (ROOT / "book" / "tools", ROOT / "book" / "_ext")
        file = next(f / f"{name}.py" for f in folders if (f / f"{name}.py").exists())
        spec = importlib.util.spec_from_file_location(f"tool_{name}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def bibtex_keys() -> frozenset[str]:
    """The keys of book/references.bib."""
    text = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^@\w+\{\s*([^,\s]+)", text, flags=re.MULTILINE))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[[Path], str]]:
    """Serve a folder on this machine; its address."""
    servers = []

    def start(folder: Path) -> str:
        handler = functools.partial(_Quiet, directory=str(folder))
        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's Chromium."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason='no Playwright: pip install "ctlearn[dev]"'
    )
    if not CHROMIUM.exists():
        pytest.skip("no browser: apt install chromium")
    with playwright.sync_playwright() as run:
        browser = run.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def violations() -> Callable[..., list[str]]:
    """What axe finds in a part of a page, a line for each place.

    It is asked for WCAG to level AA; with `of_colour` only for what depends on colours.
    """
    file = ROOT / "book" / "node_modules" / "axe-core" / "axe.min.js"
    if not file.exists():
        pytest.skip("no axe-core: npm ci in book/")
    source = file.read_text(encoding="utf-8")
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    colours = ["color-contrast", "link-in-text-block"]

    def find(page: Any, part: str = "html", *, of_colour: bool = False) -> list[str]:
        rules = {"type": "rule", "values": colours}
        asked = rules if of_colour else {"type": "tag", "values": tags}
        # told of one place that is in order, and not of thousands
        options = {"runOnly": asked, "resultTypes": ["violations"]}
        # half a megabyte, once for each page
        if not page.evaluate("'axe' in window"):
            page.evaluate(source)
        run = "([part, options]) => axe.run(part, options)"
        found = page.evaluate(run, [part, options])["violations"]
        return [
            f"{rule['id']}: {place['target']} {place['html'][:120]}"
            for rule in found
            for place in rule["nodes"]
        ]

    return find


def _table(rows: list[dict[str, str]]) -> list[str]:
    """Rows under their columns' names, in order."""
    texts = [list(rows[0]), *sorted(list(row.values()) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(x.ljust(n) for x, n in zip(text, widths, strict=True)).rstrip()
        for text in texts
    ]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI, let a skip fail the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skips = reporter.stats.get("skipped") if reporter else None
    if skips and os.environ.get("CI") == "true" and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests measured (`record_property`), then what was skipped and why.

    A measurement that is a dict is a row, and stands with the others of its name.
    """
    reporter = terminalreporter
    measured: dict[str, list] = {}
    for report in reporter.stats.get("passed", []):
        for name, value in getattr(report, "user_properties", []):
            row = isinstance(value, dict)
            title, line = (name, value) if row else ("measured", f"{name}: {value}")
            measured.setdefault(title, []).append(line)
    for title, lines in measured.items():
        reporter.section(title)
        for line in _table(lines) if isinstance(lines[0], dict) else lines:
            reporter.write_line(line)
    reasons: dict[str, int] = {}
    for report in reporter.stats.get("skipped", []):
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        reasons[reason] = reasons.get(reason, 0) + 1
    if not reasons:
        return
    reporter.section("skipped")
    for reason, count in reasons.items():
        reporter.write_line(f"{count} x {reason}")
    if os.environ.get("CI") == "true":
        reporter.write_line("CI=true: everything should run here, so this run fails.")
