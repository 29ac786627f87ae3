"""What holds for every explorable on its page: reach, width, access, address."""

from itertools import product

import pytest

from ctlearn.explore.explorable import collect

pytestmark = pytest.mark.browser
EXPLORABLES = collect()
every = pytest.mark.parametrize("name", EXPLORABLES)
TWO_FRAMES = (
    "() => new Promise((done) => requestAnimationFrame(() =>"
    " requestAnimationFrame(done)))"
)


def shown(page):
    """All read-outs of the page's explorable, and its sentence once it is said."""
    page.wait_for_timeout(400)
    return page.locator(".x-facts, .x-sentence").all_inner_texts()


@every
def test_every_control_and_handle_is_reached_by_tab(visit, name):
    page = visit(f"{name}.html")
    reached = set()
    page.get_by_role("button", name="copy link").focus()
    for _ in range(40):
        reached.add(page.evaluate(
            "(document.activeElement.name || document.activeElement.dataset.drag ||"
            " document.activeElement.textContent)"
        ))  # fmt: skip
        page.keyboard.press("Tab")
    wanted = set(page.evaluate(
        "[...document.querySelectorAll('.explorable :is(input:not(:disabled),"
        " [data-drag])')].map((one) => one.name || one.dataset.drag)"
    ))  # fmt: skip
    assert wanted <= reached
    assert len(wanted) >= 3


@every
def test_each_slider_changes_what_is_shown_or_is_off(visit, name):
    page = visit(f"{name}.html")
    for slider in page.locator(".x-slider input").all():
        if slider.is_disabled():
            continue
        before = page.locator(".x-stage").inner_html()
        value = slider.input_value()
        slider.focus()
        page.keyboard.press("ArrowRight")
        if slider.input_value() == value:  # it stood at its end
            page.keyboard.press("ArrowLeft")
        assert slider.input_value() != value
        page.wait_for_function(
            "(before) => document.querySelector('.x-stage').innerHTML !== before",
            arg=before,
        )


@every
def test_each_handle_moves_by_arrow_key(visit, name):
    page = visit(f"{name}.html")
    handles = page.locator("[data-drag]").evaluate_all(
        "(all) => all.map((one) => one.dataset.drag)"
    )
    for handle in handles:
        one = page.locator(f"[data-drag='{handle}']")
        before = one.get_attribute("aria-valuenow")
        one.focus()
        page.keyboard.press("ArrowUp")
        page.wait_for_function(
            "([handle, before]) => document.querySelector(`[data-drag='${handle}']`)"
            ".getAttribute('aria-valuenow') !== before",
            arg=[handle, before],
        )
        assert page.evaluate("document.activeElement.dataset.drag") == handle


@every
def test_a_link_restores_all_that_is_shown(visit, name):
    page = visit(f"{name}.html")
    for slider in page.locator(".x-slider input").all():
        if slider.is_enabled():
            slider.focus()
            page.keyboard.press("ArrowLeft")
            page.keyboard.press("ArrowLeft")
    for radios in page.locator(".x-radios").all():
        radios.locator("label").last.click()
    now = shown(page)
    link = page.evaluate("location.hash")
    assert link.startswith(f"#{name}?")
    assert shown(visit(f"{name}.html{link}")) == now


@every
def test_keys_pressed_in_it_are_no_commands_to_what_lies_around(visit, name):
    """JupyterLab takes letters and arrows for commands to the notebook."""
    page = visit(f"{name}.html")
    page.evaluate(
        "() => { window.heard = [];"
        " document.onkeydown = (event) => window.heard.push(event.key); }"
    )
    page.locator(".x-slider input").first.focus()
    for key in ("ArrowDown", "a", "Enter", "Control+k"):
        page.keyboard.press(key)
    assert page.evaluate("window.heard") == ["Control", "k"]


@every
def test_lists_are_set_as_ours_where_the_page_floats_them(visit, name):
    """JupyterLab has such a rule for the lists in outputs."""
    page = visit(f"{name}.html")
    rule = ".document dt {float: left; width: 20%} .document dd {float: left}"
    page.add_style_tag(content=rule)
    term, told = (
        page.locator(f".x-facts {tag}").first.bounding_box() for tag in ("dt", "dd")
    )
    assert told["y"] >= term["y"] + term["height"]
    assert told["x"] == term["x"]


@every
def test_it_is_accessible(visit, root, name):
    axe = root / "book" / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.exists():
        pytest.skip("no axe-core: npm ci in book/")
    # handles to turn, and a play half-way: each takes the settings that it has
    page = visit(f"{name}.html#{name}?d_k=2&pairs=4&written=3&read=3&step=3")
    page.add_script_tag(path=str(axe))
    for summary in page.locator("summary").all():
        summary.click()
    page.locator("tbody tr").first.wait_for()
    for width, scheme in product((360, 1280), ("light", "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        page.evaluate(f"document.documentElement.dataset.theme = '{scheme}'")
        page.evaluate(TWO_FRAMES)  # one to see the new width, and one to draw for it
        overflow = page.evaluate(
            "[...document.querySelectorAll('.explorable')].some((one) =>"
            " one.scrollWidth > one.clientWidth)"
        )
        assert not overflow, width
        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
        run = "(tags) => axe.run('.explorable', {runOnly: tags})"
        found = page.evaluate(run, tags)["violations"]
        faults = [(x["id"], [n["html"] for n in x["nodes"]]) for x in found]
        assert not faults, (width, scheme)
