"""What holds for every explorable on its page: reach, width, access, address.

The page is opened once for all these tests, and each starts it over.
"""

from itertools import product

import pytest

pytestmark = pytest.mark.browser
TWO_FRAMES = (
    "() => new Promise((done) => requestAnimationFrame(() =>"
    " requestAnimationFrame(done)))"
)
# texts of a picture that lie on each other, where neither can be moved away by hand
ON_EACH_OTHER = """() => [...document.querySelectorAll('svg')].flatMap((svg) => {
    const all = [...svg.querySelectorAll('text')];
    const texts = all.filter((one) => !one.closest('.x-handle'));
    const boxes = texts.map((one) => one.getBoundingClientRect());
    const both = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 5;
    return texts.flatMap((one, i) => texts.slice(i + 1).flatMap((other, j) =>
        both(boxes[i], boxes[i + 1 + j]) ? [[one, other].map((x) => x.textContent)] : []
    ));
})"""


@pytest.fixture
def name(opened):
    return opened[0]


@pytest.fixture
def page(opened):
    """The page as it was when it was opened, and its address too."""
    name, page = opened
    page.get_by_role("button", name="start over").click()
    page.wait_for_function(f"['', '#{name}'].includes(location.hash)")
    page.evaluate(TWO_FRAMES)  # it is drawn in the next one
    return page


def shown(page):
    """All read-outs of the page's explorable, and its sentence once it is said."""
    page.wait_for_timeout(400)
    return page.locator(".x-facts, .x-sentence").all_inner_texts()


def test_every_control_and_handle_is_reached_by_tab(page):
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


def test_each_slider_changes_what_is_shown_or_is_off(page):
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


def test_each_handle_moves_by_key_and_further_by_page(page):
    now = (
        "(handle) => Number(document.querySelector(`[data-drag='${handle}']`)"
        ".getAttribute('aria-valuenow'))"
    )
    handles = page.locator("[data-drag]").evaluate_all(
        "(all) => all.map((one) => one.dataset.drag)"
    )
    for handle in handles:
        one = page.locator(f"[data-drag='{handle}']")
        values = [page.evaluate(now, handle)]
        one.focus()
        for key in ("ArrowUp", "PageDown"):
            page.keyboard.press(key)
            page.wait_for_function(
                f"([handle, before]) => ({now})(handle) !== before",
                arg=[handle, values[-1]],
            )
            values.append(page.evaluate(now, handle))
            assert page.evaluate("document.activeElement.dataset.drag") == handle
        start, higher, lower = values
        assert lower < start < higher


def test_a_link_restores_all_that_is_shown(page, name):
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
    page.get_by_role("button", name="start over").click()
    assert shown(page) != now
    page.evaluate("(link) => { location.hash = link; }", link)
    assert shown(page) == now


def test_keys_pressed_in_it_are_no_commands_to_what_lies_around(page):
    """JupyterLab takes letters and arrows for commands to the notebook."""
    page.evaluate(
        "() => { window.heard = [];"
        " document.onkeydown = (event) => window.heard.push(event.key); }"
    )
    page.locator(".x-slider input").first.focus()
    for key in ("ArrowDown", "a", "Enter", "Control+k"):
        page.keyboard.press(key)
    assert page.evaluate("window.heard") == ["Control", "k"]


def test_lists_are_set_as_ours_where_the_page_floats_them(page):
    """JupyterLab has such a rule for the lists in outputs."""
    rule = ".document dt {float: left; width: 20%} .document dd {float: left}"
    style = page.add_style_tag(content=rule)
    term, told = (
        page.locator(f".x-facts {tag}").first.bounding_box() for tag in ("dt", "dd")
    )
    style.evaluate("(style) => style.remove()")
    assert told["y"] >= term["y"] + term["height"]
    assert told["x"] == term["x"]


def test_it_is_accessible_and_its_texts_lie_apart(page, violations, name):
    # handles to turn, and a play half-way: each takes the settings that it has
    half_way = f"#{name}?d_k=2&pairs=4&written=3&read=3&step=3"
    page.evaluate("(link) => { location.hash = link; }", half_way)
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
        assert page.evaluate(ON_EACH_OTHER) == [], width
        again = scheme == "dark"
        found = violations(page, ".explorable", of_colour=again)
        assert found == [], (width, scheme)
