"""The built site in a browser that can reach nothing but the site."""

import pytest

AXE = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")


@pytest.fixture(scope="session")
def axe(root):
    """The source of the accessibility checker."""
    file = root / "book" / "node_modules" / "axe-core" / "axe.min.js"
    return file.read_text(encoding="utf-8")


def violations(page, axe):
    """What axe finds on a page, a line for each place."""
    page.evaluate(axe)
    found = page.evaluate(
        "tags => axe.run(document, {runOnly: {type: 'tag', values: tags}})", list(AXE)
    )
    return [
        f"{rule['id']}: {place['target']} {place['html'][:120]}"
        for rule in found["violations"]
        for place in rule["nodes"]
    ]


def test_every_page_loads_by_itself(visit, pages):
    browser = visit()
    for path in pages:
        browser.open(path)
        assert browser.page.title(), path
    assert browser.faults == []


def test_the_root_leads_to_the_front_page(visit):
    browser = visit()
    browser.open("")
    browser.page.wait_for_url("**/book/index.html")
    assert browser.faults == []


def test_every_formula_is_typeset(visit, pages):
    browser = visit()
    typeset = 0
    for path in pages:
        browser.open(path)
        written = browser.page.locator("article .math").count()
        done = browser.page.locator("article .math mjx-container").count()
        assert done >= written, path
        assert browser.page.locator("mjx-merror").count() == 0, path
        typeset += done
    assert typeset > 20


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_axe_finds_no_violation(visit, pages, axe, width, scheme):
    browser = visit(width, scheme)
    found = {}
    for path in pages:
        browser.open(path)
        for fold in browser.page.locator("article details").all():
            fold.evaluate("fold => { fold.open = true; }")
        # a box that scrolls is given its keyboard stop after it is laid out
        browser.page.wait_for_timeout(100)
        found[path] = violations(browser.page, axe)
    assert {path: faults for path, faults in found.items() if faults} == {}


def test_axe_sees_what_is_wrong(visit, axe):
    browser = visit()
    browser.open("book/index.html")
    browser.page.evaluate(
        "document.querySelector('article').insertAdjacentHTML("
        "'beforeend', '<p style=\"color: #bbb\">pale</p><button></button>')"
    )
    found = " ".join(violations(browser.page, axe))
    assert "color-contrast" in found
    assert "button-name" in found


def test_the_start_of_a_long_equation_is_in_sight(visit, pages):
    browser = visit(360)
    cut = """() => [...document.querySelectorAll("div.math")].filter(box => {
        const formula = box.querySelector("mjx-math");
        return formula.getBoundingClientRect().left < box.getBoundingClientRect().left;
    }).map(box => box.textContent.slice(0, 60))"""
    for path in pages:
        browser.open(path)
        assert browser.page.evaluate(cut) == [], path


def test_nothing_is_wider_than_a_phone(visit, pages):
    browser = visit(360)
    wide = []
    for path in pages:
        browser.open(path)
        if browser.page.evaluate("document.documentElement.scrollWidth") > 360:
            wide.append(path)
    assert wide == []


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
    assert shown == sorted(shown, key=str.casefold)
    kind = rows.first.get_attribute("data-kind")
    page.get_by_label("Kind").select_option(kind)
    visible = page.locator("table.ledger tbody tr:visible")
    assert {row.get_attribute("data-kind") for row in visible.all()} == {kind}
    assert browser.faults == []

    bare = visit(java_script_enabled=False)
    bare.page.goto(bare.address + "book/ledger.html")
    assert bare.page.locator("table.ledger tbody tr:visible").count() == count
    assert bare.page.locator("table.ledger button").count() == 0


def test_a_badge_leads_to_its_entry(visit, pages):
    browser = visit()
    for path in pages:
        browser.open(path)
        for badge in browser.page.locator("a.verdict").all():
            target = badge.get_attribute("href").partition("#")[2]
            assert target.startswith("ledger-")
    browser.open("book/ledger.html")
    anchors = browser.page.locator("table.ledger tbody tr[id^=ledger-]")
    assert anchors.count() == browser.page.locator("table.ledger tbody tr").count()


def test_print_unfolds_and_leaves_the_machinery_out(visit):
    browser = visit()
    browser.open("book/notation.html")
    browser.page.emulate_media(media="print")
    assert not browser.page.locator(".bd-sidebar-primary").is_visible()
    assert not browser.page.locator(".bd-header-article").is_visible()
    assert browser.page.locator("article h1").is_visible()
