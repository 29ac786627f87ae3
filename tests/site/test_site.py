"""The built site in a browser that can reach nothing but the site."""

import json
import re
from itertools import product

import pytest

from ctlearn.mixers import mechanisms

pytestmark = pytest.mark.browser

WIDTHS = (360, 1280)

# A row of a table, a formula, code, an entry of the summary or a letter of the index
# goes if what stood before it has all the kinds of element that it has: axe would say
# of it what it says of them. A kind is a tag, class and style, the names of all
# attributes, whether there is text, and the kinds of all that it stands in. Of a
# formula's parts those count that have their own colour.
REPEATED = """() => {
    const own = e => [
        e.tagName, e.getAttribute("class"), e.getAttribute("style"),
        e.getAttributeNames().sort(), e.textContent.trim() !== "",
    ].join(" ");
    const seen = new Set(), kinds = new Map();
    const kind = e => {
        if (!e || e.tagName === "ARTICLE") return "";
        if (!kinds.has(e)) kinds.set(e, `${kind(e.parentElement)} ${own(e)}`);
        return kinds.get(e);
    };
    const parts = `article :is(tbody tr, .math, .highlight pre > span, .highlight pre,
        .key-equation, dl.glossary)`;
    for (const part of document.querySelectorAll(parts)) {
        const inner = part.querySelectorAll(":not(mjx-container *), [class*=ctl-]");
        const here = [part, ...inner].map(kind);
        if (here.every(x => seen.has(x))) part.remove();
        here.forEach(x => seen.add(x));
    }
}"""

# formulas that a page cannot show, and those whose start is out of sight
FORMULAS = """() => {
    const boxes = [...document.querySelectorAll("article .math")];
    const formula = box => box.querySelector("mjx-math");
    const left = place => place.getBoundingClientRect().left;
    const words = boxes => boxes.map(box => box.textContent.slice(0, 80));
    const displayed = boxes.filter(box => box.matches("div") && formula(box));
    return {
        written: boxes.length,
        bare: words(boxes.filter(box => !formula(box))),
        wrong: [...document.querySelectorAll("mjx-merror")].length,
        cut: words(displayed.filter(box => left(formula(box)) < left(box))),
    };
}"""


@pytest.fixture(scope="class")
def survey(request, visit, pages, violations):
    """What is wrong with half of the pages, by kind and width; axe in both schemes.

    A page is loaded once, as on a phone, and then given the screen's width.
    """
    browser = visit(WIDTHS[0])
    page = browser.page
    found = {}
    for path in pages[request.cls.first :: 2]:
        browser.faults.clear()
        widen(page, WIDTHS[0])
        browser.open(path)
        page.evaluate(
            "document.querySelectorAll('article details').forEach(f => f.open = true)"
        )
        for width in WIDTHS:
            widen(page, width)
            found[path, width] = {
                "faults": list(browser.faults),
                "title": page.title(),
                "wider": page.evaluate("document.documentElement.scrollWidth") - width,
                "axe": [],
                **page.evaluate(FORMULAS),
            }
        # what axe says of a row it says of the next hundred like it
        page.evaluate(REPEATED)
        for width, scheme in product(WIDTHS, ("light", "dark")):
            widen(page, width)
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function(
                "scheme => document.documentElement.dataset.theme === scheme",
                arg=scheme,
            )
            again = scheme == "dark"
            found[path, width]["axe"] += violations(page, of_colour=again)
    yield found
    browser.close()


def widen(page, width):
    """Give the page that width; a box that scrolls then has its keyboard stop."""
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(100)


def ailing(survey, kind):
    """The pages on which something of a kind is wrong, and what."""
    return {path: facts[kind] for path, facts in survey.items() if facts[kind]}


class OfEveryPage:
    """What holds of every page, of those that a class below says."""

    def test_every_page_loads_by_itself(self, survey):
        assert ailing(survey, "faults") == {}
        assert all(facts["title"] for facts in survey.values())

    def test_every_formula_is_typeset_from_its_start(self, survey):
        for kind in ("bare", "wrong", "cut"):
            assert ailing(survey, kind) == {}
        assert sum(facts["written"] for facts in survey.values()) > 20

    def test_no_page_is_wider_than_the_screen(self, survey):
        assert ailing(survey, "wider") == {}

    def test_axe_finds_no_violation(self, survey):
        assert ailing(survey, "axe") == {}


class TestEvenPages(OfEveryPage):
    """A class of its own, so that another process can look at the others."""

    first = 0


class TestOddPages(OfEveryPage):
    """The rest."""

    first = 1


def test_the_root_leads_to_the_front_page(visit):
    browser = visit()
    browser.open("")
    browser.page.wait_for_url("**/book/index.html")
    assert browser.faults == []
    bare = visit(java_script_enabled=False)
    html = bare.page.request.get(bare.address).text()
    assert "<title>" in html
    assert 'rel="icon"' in html


def test_letters_wear_their_colour_in_both_schemes(visit):
    shades = []
    for scheme in ("light", "dark"):
        browser = visit(scheme=scheme)
        browser.open("book/notation.html")
        letter = browser.page.locator("#letter-k mjx-container .ctl-key").first
        shades.append(letter.evaluate("e => getComputedStyle(e).color"))
        ink = browser.page.locator("article h1").first
        assert shades[-1] != ink.evaluate("e => getComputedStyle(e).color")
    assert shades[0] != shades[1]


def test_axe_sees_what_is_wrong(visit, violations):
    browser = visit()
    browser.open("book/index.html")
    browser.page.evaluate(
        "document.querySelector('article').insertAdjacentHTML("
        "'beforeend', '<p style=\"color: #bbb\">pale</p>'.repeat(2) +"
        " '<button></button>')"
    )
    rules = [place.partition(":")[0] for place in violations(browser.page)]
    assert sorted(rules) == ["button-name", "color-contrast", "color-contrast"]
    again = violations(browser.page, of_colour=True)
    assert [place.partition(":")[0] for place in again] == ["color-contrast"] * 2


@pytest.mark.parametrize(
    ("odd", "rule"),
    [
        ('<td><p style="color: #bbb">pale</p></td>', "color-contrast"),
        ('<td><p class="pale">pale</p></td>', "color-contrast"),
        ("<td><p><button></button></p></td>", "button-name"),
        ('<td><p><img src="data:," width="9"></p></td>', "image-alt"),
    ],
)
def test_of_rows_that_are_alike_the_odd_one_stays(visit, violations, odd, rule):
    plain = (
        '<td><p>text <button>name</button> <img src="data:," width="9" alt="a">'
        "</p></td>"
    )
    rows = "".join(f"<tr>{cell}</tr>" for cell in [plain] * 9 + [odd, plain])
    browser = visit()
    browser.open("book/bibliography.html")
    browser.page.add_style_tag(content=".pale {color: #bbb}")
    browser.page.evaluate(
        "rows => document.querySelector('article').insertAdjacentHTML("
        "'beforeend', `<table id=odd>${rows}</table>`)",
        rows,
    )
    browser.page.evaluate(REPEATED)
    assert browser.page.locator("#odd tr").count() == 2
    assert rule in " ".join(violations(browser.page))


def test_what_leaves_the_site_is_seen_and_goes_nowhere(visit):
    browser = visit()
    browser.open("book/index.html")
    assert browser.faults == []
    call = "fetch('https://example.org/').then(() => 'there', () => 'nowhere')"
    assert browser.page.evaluate(call) == "nowhere"
    found = " ".join(browser.faults)
    assert "outside request: https://example.org/" in found
    assert "failed request: https://example.org/" in found


def of_visible_rows(page, name):
    """An attribute of every row of the ledger that is seen, asked for at once."""
    rows = page.locator("table.ledger tbody tr:visible")
    return rows.evaluate_all(
        "(rows, name) => rows.map(r => r.getAttribute(name))", name
    )


def test_the_ledger_sorts_and_filters_and_needs_no_script(visit):
    browser = visit()
    browser.open("book/ledger.html")
    page = browser.page
    rows = page.locator("table.ledger tbody tr")
    count = rows.count()
    assert count > 1
    titles = page.locator("table.ledger tbody tr td:first-child strong")
    page.get_by_role("button", name="Statement").click()
    shown = titles.all_inner_texts()
    # the browser's own order of letters, digits and signs, in a list of its own
    order = "(a, b) => a.localeCompare(b, 'en', {numeric: true})"
    assert shown == page.evaluate(f"titles => [...titles].sort({order})", shown)
    kind = rows.first.get_attribute("data-kind")
    page.get_by_label("Kind").select_option(kind)
    assert set(of_visible_rows(page, "data-kind")) == {kind}
    page.get_by_label("Kind").select_option("")
    page.get_by_label("Mechanism").select_option("delta_rule")
    found = of_visible_rows(page, "data-mechanisms")
    assert found
    assert all('"delta_rule"' in names for names in found)
    assert browser.faults == []

    bare = visit(java_script_enabled=False)
    bare.page.goto(bare.address + "book/ledger.html")
    assert bare.page.locator("table.ledger tbody tr:visible").count() == count
    assert bare.page.locator("table.ledger button").count() == 0


def test_every_badge_leads_to_an_entry(site, pages):
    ledger = (site / "book" / "ledger.html").read_text(encoding="utf-8")
    badges = 0
    for path in pages:
        html = (site / path).read_text(encoding="utf-8")
        for name in re.findall(r'<a class="verdict[^>]*href="[^"#]*#([^"]+)"', html):
            assert f'<tr id="{name}"' in ledger, path
            badges += 1
    assert badges > 0


def test_every_row_leads_to_the_line_of_its_check(site):
    ledger = (site / "book" / "ledger.html").read_text(encoding="utf-8")
    links = re.findall(r'href="\.\./(checks/[^"#]+)#(line-\d+)"', ledger)
    assert len(links) == ledger.count("<tr id=")
    for path, line in links:
        code = (site / path).read_text(encoding="utf-8")
        (shown,) = re.findall(rf'<span id="{line}".*', code)
        assert "@" in shown or "def" in shown, (path, line)


def test_every_erratum_has_its_section(site):
    entries = json.loads((site.parent / "ledger.json").read_text())["entries"]
    errata = [entry for entry in entries if entry["kind"] == "erratum"]
    assert errata
    html = (site / "book" / "errata.html").read_text(encoding="utf-8")
    for entry in errata:
        assert f'id="erratum-{entry["name"]}"' in html
        assert f'href="ledger.html#ledger-{entry["name"]}"' in html


def test_the_code_of_a_check_can_be_read(site, visit, violations):
    ledger = (site / "book" / "ledger.html").read_text(encoding="utf-8")
    address = re.search(r'href="\.\./(checks/[^"]+)"', ledger)[1]
    browser = visit()
    browser.open(address)
    line = browser.page.locator("#" + address.partition("#")[2])
    line.wait_for(state="visible")
    assert line.inner_text().strip()
    browser.page.evaluate(REPEATED)
    assert violations(browser.page) == []
    assert browser.faults == []


def test_the_family_tree_leads_to_every_mechanism(site):
    html = (site / "book" / "mechanisms.html").read_text(encoding="utf-8")
    tree = html[html.index('class="family-tree"') : html.index('id="one-by-one"')]
    linked = re.findall(r'href="#(mechanism-[\w-]+)"', tree)
    wanted = {f"mechanism-{name.replace('_', '-')}" for name in mechanisms()}
    assert sorted(linked) == sorted(wanted)
    assert all(f'id="{name}"' in html for name in wanted)


def test_print_unfolds_and_leaves_the_machinery_out(visit):
    browser = visit()
    browser.open("book/notation.html")
    browser.page.emulate_media(media="print")
    assert not browser.page.locator(".bd-sidebar-primary").is_visible()
    assert not browser.page.locator(".bd-header-article").is_visible()
    assert browser.page.locator("article h1").is_visible()


# formulas that reach beyond the column that they stand in
BEYOND = """() => {
    const right = place => place.getBoundingClientRect().right;
    const boxes = [...document.querySelectorAll(".key-equation .math")];
    const out = boxes.filter(b => right(b.querySelector("mjx-math")) > right(b) + 1);
    return [boxes.length, out.map(box => box.textContent.slice(0, 80))];
}"""


def test_the_summary_prints_on_three_sides_with_every_formula_in_its_column(visit):
    # as wide as A4 between the margins of the summary
    browser = visit(width=718)
    browser.open("book/summary.html")
    pdf = browser.page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 3
    browser.page.emulate_media(media="print")
    written, beyond = browser.page.evaluate(BEYOND)
    assert written > 50
    assert beyond == []
