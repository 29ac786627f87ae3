"""What the tests of explorables share: node, and a page of the static site."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ctlearn.explore.explorable import collect
from ctlearn.explore.memory_interference import MemoryInterference


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Run the text of a module in node; what it prints as JSON."""
    beside = Path(sys.executable).with_name("node")
    program = str(beside) if beside.exists() else shutil.which("node")
    if program is None:
        pytest.skip('no node: pip install "ctlearn[book]"')
    folder = tmp_path_factory.mktemp("node")

    def run(module: str) -> Any:
        file = folder / "module.mjs"
        file.write_text(module, encoding="utf-8")
        done = subprocess.run(
            [program, str(file)], capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def site(
    root: Path,
    tool: Callable[[str], Any],
    serve: Callable[[Path], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    """The address of a site: a page of two explorables, one of each, one of none."""
    pytest.importorskip("sphinx", reason='no Sphinx: pip install "ctlearn[book]"')
    source = tmp_path_factory.mktemp("site")
    extensions = str(root / "book" / "_ext")
    (source / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {extensions!r})\n"
        'extensions = ["explorables"]\nhtml_theme = "basic"\nlanguage = "en"\n'
        'exclude_patterns = ["out"]\n'
    )
    palette = tool("assets").palette_css()
    dark = 'html[data-theme="dark"] body {background: #14181e; color: #dde1e6}'
    head = [
        f"<style>{' '.join((palette + dark).split())}</style>",
        '<meta name="viewport" content="width=device-width">',
    ]
    two = [
        MemoryInterference()._repr_html_(),
        '<p><a id="tilted" href="#memory_interference-2?angles=0,30">tilt</a></p>',
        MemoryInterference(d_k=2, pairs=2)._repr_html_(),
    ]

    def page(name: str, parts: list[str], end: str = "") -> None:
        raw = "".join(f"\n.. raw:: html\n\n   {part}\n" for part in head + parts)
        (source / f"{name}.rst").write_text(f"Page\n====\n{raw}{end}")

    explorables = collect()
    names = "".join(f"   {name}\n" for name in ["other", *explorables])
    page("index", two, f"\n.. toctree::\n\n{names}")
    page("other", ["<p>Nothing reacts here.</p>"])
    for name, cls in explorables.items():
        page(name, [cls()._repr_html_()])
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html"]
    subprocess.run([*command, str(source), str(source / "out")], check=True)
    # browsers ask for it unasked
    (source / "out" / "favicon.ico").touch()
    return serve(source / "out")


@pytest.fixture
def visit(chromium: Any, site: str) -> Iterator[Callable[..., Any]]:
    """Open the page; at the end, see that nothing failed and nobody else was asked."""
    contexts, faults = [], []

    def watch(request: Any) -> None:
        if not request.url.startswith((site, "data:")):
            faults.append(f"asked {request.url}")

    def start(address: str = "", **options: Any) -> Any:
        size = {"width": 1280, "height": 900}
        context = chromium.new_context(**{"viewport": size} | options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", watch)
        page.on("requestfailed", lambda request: faults.append(request.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "console",
            lambda message: message.type == "error" and faults.append(message.text),
        )
        page.goto(site + address, wait_until="load")
        # no explorable is left that still waits for its module
        page.wait_for_function(
            "!document.querySelector('.explorable:not(:has(.x-stage svg))')"
        )
        return page

    yield start
    # closing a page may cut a request short, which is no fault
    found = list(faults)
    for context in contexts:
        context.close()
    assert not found


@pytest.fixture
def expect_fact() -> Callable[[Any, str, str], None]:
    """Wait until a read-out of the page shows a text."""

    def expect(page: Any, name: str, text: str) -> None:
        fact = page.locator(".x-facts div", has_text=name).locator("dd")
        fact.filter(has_text=re.compile(f"^{re.escape(text)}$")).wait_for(timeout=5000)

    return expect


@pytest.fixture
def drag() -> Callable[[Any, str, tuple[float, float]], None]:
    """Drag a handle to a point of its picture, in the picture's own pixels."""

    def move(page: Any, handle: str, to: tuple[float, float]) -> None:
        one = page.locator(f"[data-drag='{handle}']")
        one.scroll_into_view_if_needed()
        knob = one.locator(".x-knob").bounding_box()
        picture = one.locator("xpath=ancestor::*[name()='svg']").bounding_box()
        page.mouse.move(knob["x"] + knob["width"] / 2, knob["y"] + knob["height"] / 2)
        page.mouse.down()
        page.mouse.move(picture["x"] + to[0] + 5, picture["y"] + to[1] + 5)
        page.mouse.move(picture["x"] + to[0], picture["y"] + to[1])
        page.mouse.up()

    return move
