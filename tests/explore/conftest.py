"""What the tests of explorables share: node, and a page of the static site."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ctlearn.explore.explorable import Explorable, collect
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


# A page's document, as far as a module draws with it.
DOCUMENT = """
class Part {
  constructor(tag) { Object.assign(this, { tag, attributes: {}, parts: [] }); }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener() {}
  append(...parts) { this.parts.push(...parts); }
}
globalThis.document = {
  createElement: (tag) => new Part(tag),
  createElementNS: (_, tag) => new Part(tag),
};
const flat = (part) => part instanceof Part ? [part, ...part.parts.flatMap(flat)] : [];
const text = (part) => part instanceof Part ? part.parts.map(text).join("") : part;
const points = ({ tag, attributes }) => tag !== "path" ? [] :
  attributes.d.split(/[ML]/).slice(1).map((point) => point.split(" ").map(Number));
const say = (s, width) => {
  const numbers = compute(s);
  const { head, rows: body } = rows(numbers, s);
  const view = { settings: () => s, width, pointed: null, id: 1 };
  return {
    numbers,
    facts: readouts(numbers, s).map(([name, , text]) => [name, text]),
    sentence: sentence(numbers, s),
    rows: body.map((row) => Object.fromEntries(row.map((x, i) => [head[i], x]))),
    pictures: draw(numbers, view).map((picture) => flat(picture).map((part) =>
      ({ tag: part.tag, ...part.attributes, points: points(part), text: text(part) }))),
  };
};
"""


@pytest.fixture(scope="session")
def said(node: Callable[[str], Any]) -> Callable[..., SimpleNamespace]:
    """What an explorable shows at some settings, on a stage of 700 pixels.

    `numbers` are the module's own, which are NumPy's (test_same_numbers.py); `facts`
    has the numbers that each read-out tells, by its name; `sentence` and `rows` have
    what is told in words and in the table. `pictures` has a list of shapes for each
    picture: its attributes, its text, and for a path its points. `marks` has the place
    of each chart's mark, and the points of the chart's first line.
    """

    def say(cls: type[Explorable], **settings: Any) -> SimpleNamespace:
        asked = json.dumps(cls(**settings).settings)
        run = f"console.log(JSON.stringify(say({asked}, 700)));"
        shown = SimpleNamespace(**node(cls.module() + DOCUMENT + run))
        shown.facts = {name: numbers_in(text) for name, text in shown.facts}
        parts = [part for picture in shown.pictures for part in picture]
        shown.texts = [part["text"] for part in parts if part["tag"] == "text"]
        shown.marks = []
        for picture in shown.pictures:
            lines = [x["points"] for x in picture if "x-line" in x.get("class", "")]
            marks = [[x["cx"], x["cy"]] for x in picture if x.get("r") == 4.5]
            shown.marks += [(mark, lines[0]) for mark in marks]
        return shown

    return say


@pytest.fixture(scope="session")
def told() -> Callable[[float], Any]:
    """A number as a read-out has it: two decimals, or three digits."""
    return lambda *numbers: pytest.approx(numbers, rel=6e-3, abs=6e-3)


def numbers_in(text: str) -> list[float]:
    """The numbers in a text, with signs and powers of ten as they are written there."""
    found = re.findall(r"(−?\d+(?:\.\d+)?)(?:·10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?", text)
    plain = str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789")
    return [float(f"{x}e{power or 0}".translate(plain)) for x, power in found]


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


@contextmanager
def visits(chromium: Any, site: str) -> Iterator[Callable[..., Any]]:
    """Open pages; at the end, see that nothing failed and nobody else was asked."""
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
def visit(chromium: Any, site: str) -> Iterator[Callable[..., Any]]:
    """Open a page of the site, for one test."""
    with visits(chromium, site) as start:
        yield start


@pytest.fixture
def phone(visit: Callable[..., Any]) -> Callable[..., Any]:
    """Open a page of the site as a phone does, under a finger."""
    size = {"width": 360, "height": 800}
    return partial(visit, viewport=size, has_touch=True)


@pytest.fixture(scope="module", params=collect())
def opened(request: Any, chromium: Any, site: str) -> Iterator[tuple[str, Any]]:
    """The name of an explorable, and its page, for all tests of a module."""
    with visits(chromium, site) as start:
        yield request.param, start(f"{request.param}.html")


@pytest.fixture
def picture_width() -> Callable[[Any, str], float]:
    """The width of the picture that holds a handle, in its own pixels."""

    def width(page: Any, handle: str) -> float:
        one = page.locator(f"svg:has([data-drag='{handle}'])")
        return one.bounding_box()["width"]

    return width


@pytest.fixture
def expect_fact() -> Callable[[Any, str, str], None]:
    """Wait until a read-out of the page shows a text."""

    def expect(page: Any, name: str, text: str) -> None:
        fact = page.locator(".x-facts div", has_text=name).locator("dd")
        fact.filter(has_text=re.compile(f"^{re.escape(text)}$")).wait_for()

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
