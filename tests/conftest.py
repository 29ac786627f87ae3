"""What all tests share: the tree, the book's tools, and plain last lines.

Nothing is skipped silently: a run ends with what was skipped and how to run it, and
where everything is expected to be installed (CI=true) a skip fails the run.
"""

import importlib.util
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


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


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI, let a skip fail the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skips = reporter.stats.get("skipped") if reporter else None
    if skips and os.environ.get("CI") == "true" and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests measured (`record_property`), then what was skipped and why."""
    reporter = terminalreporter
    measured = [
        f"{name}: {value}"
        for report in reporter.stats.get("passed", [])
        for name, value in getattr(report, "user_properties", [])
    ]
    if measured:
        reporter.section("measured")
        for line in measured:
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
