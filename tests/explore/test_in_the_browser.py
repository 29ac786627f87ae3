"""Explorables under the hand: mouse, touch, keyboard, and the page's address.

The static page holds `memory_interference` twice: as it is, and for two keys in the
plane. What is shown is compared with NumPy.
"""

import re

import pytest

from ctlearn.explore.memory_interference import compute

pytestmark = pytest.mark.browser

COPY = {"permissions": ["clipboard-read", "clipboard-write"]}


def explorable(page, which=0):
    return page.locator(".explorable").nth(which)


def shown(one, name):
    """The text of a read-out."""
    return one.locator(".x-facts div", has_text=name).locator("dd").inner_text()


def expect_error(one, **settings):
    """Wait until the read-out shows NumPy's error at these settings."""
    text = f"{compute(**settings)['error']:.2f}"
    fact = one.locator(".x-facts div", has_text="recall error").locator("dd")
    fact.filter(has_text=re.compile(f"^{re.escape(text)}$")).wait_for()


def address_of(page, pattern):
    page.wait_for_function(f"new RegExp({pattern!r}).test(location.hash)")
    return page.evaluate("location.hash")


def centre(locator):
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_it_comes_to_life_and_shows_numpys_numbers(visit):
    page = visit()
    one = explorable(page)
    numbers = compute()
    assert shown(one, "recall error") == f"{numbers['error']:.2f}"
    assert shown(one, "mean of 32") == f"{numbers['average'][-1]:.2f}"
    assert shown(one, "theory") == f"{numbers['theory'][-1]:.2f}"
    assert one.locator("figure, noscript").count() == 0
    one.get_by_text("Numbers behind the picture").click()
    cells = one.locator("tbody tr td:nth-child(2)")
    cells.first.wait_for()
    assert cells.all_inner_texts() == [f"{error:.4f}" for error in numbers["errors"]]


def test_a_page_without_explorables_has_no_host(visit, site):
    page = visit()
    host = "script[src*='explore/host.js']"
    assert page.locator(host).count() == 1
    page.goto(f"{site}other.html")
    assert page.locator(host).count() == 0


def test_without_scripts_a_figure_stands_in(chromium, site):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site)
    assert page.locator(".explorable figure svg[role=img]").count() == 2
    assert page.locator(".explorable noscript p").last.is_visible()
    context.close()


def test_keyboard(visit):
    page = visit()
    one = explorable(page)
    one.get_by_label("key size").focus()
    page.keyboard.press("ArrowRight")
    expect_error(one, d_k=9)
    one.get_by_label("add", exact=True).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect_error(one, d_k=9, rule="delta")
    one.get_by_role("button", name="reset").focus()
    page.keyboard.press("Enter")
    one.get_by_text("pair 0 of 8").wait_for()
    # the button has nothing more to do, and keeps the focus
    assert page.evaluate("document.activeElement.textContent") == "reset"
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect_error(one, d_k=9, rule="delta", written=1)


def test_every_control_is_reached_by_tab(visit):
    page = visit()
    one = explorable(page, 1)
    one.get_by_role("button", name="copy link").focus()
    reached = set()
    for _ in range(20):
        reached.add(page.evaluate(
            "(document.activeElement.name || document.activeElement.dataset.drag ||"
            " document.activeElement.textContent)"
        ))  # fmt: skip
        page.keyboard.press("Tab")
    controls = {"d_k", "pairs", "similarity", "seed", "pair", "start over", "play"}
    assert controls | {"reset", "key-0", "key-1"} <= reached


def test_a_key_is_turned_by_keyboard(visit):
    page = visit()
    one = explorable(page, 1)
    before = compute(d_k=2, pairs=2)["keys"][1]
    handle = one.get_by_label("direction of key 2")
    angle = int(handle.get_attribute("aria-valuenow"))
    handle.focus()
    page.keyboard.press("ArrowUp")
    one.locator(f"[aria-valuenow='{angle + 5}']").wait_for()
    # the handle is drawn anew, and still the one in focus
    page.keyboard.press("ArrowUp")
    one.locator(f"[aria-valuenow='{angle + 10}']").wait_for()
    other = int(one.get_by_label("direction of key 1").get_attribute("aria-valuenow"))
    expect_error(one, d_k=2, pairs=2, angles=[other, angle + 10])
    assert before.shape == (2,)


def test_mouse(visit):
    page = visit()
    one = explorable(page)
    one.get_by_label("decay, then add").click()
    expect_error(one, rule="decay")
    row = one.locator("rect[data-pick='3']")
    row.hover()
    one.locator("rect.x-asked[data-pick='3']").wait_for()
    one.get_by_role("button", name="start over").hover()
    one.locator("rect.x-asked[data-pick='1']").wait_for()
    row.click()
    one.get_by_text("Pair 3 comes back").wait_for()
    assert address_of(page, "pair=3") == "#memory_interference?rule=decay&pair=3"
    one.get_by_role("button", name="start over").click()
    expect_error(one)


def test_a_key_is_turned_by_mouse(visit):
    page = visit("#memory_interference-2?angles=0,30")
    one = explorable(page, 1)
    one.locator(".x-stage").scroll_into_view_if_needed()
    ring = one.locator(".x-ring").bounding_box()
    x, y = centre(one.get_by_label("direction of key 2").locator(".x-knob"))
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 10, y - 20)
    page.mouse.move(ring["x"] + ring["width"] / 2, ring["y"] - 20)
    page.mouse.up()
    one.locator("[data-drag='key-1'][aria-valuenow='90']").wait_for()
    expect_error(one, d_k=2, pairs=2, angles=[0, 90])
    # let go means let go
    page.mouse.move(x, y)
    page.wait_for_timeout(100)
    assert one.locator("[data-drag='key-1'][aria-valuenow='90']").count() == 1


def test_touch(phone):
    page = phone("#memory_interference-2?angles=0,30")
    one = explorable(page, 1)
    one.get_by_label("delta", exact=True).tap()
    expect_error(one, d_k=2, pairs=2, angles=[0, 30], rule="delta")
    one.locator("rect[data-pick='2']").last.tap()
    one.get_by_text("Pair 2 comes back").wait_for()
    handle = one.get_by_label("direction of key 2").locator(".x-knob")
    one.locator(".x-ring").scroll_into_view_if_needed()
    ring = one.locator(".x-ring").bounding_box()
    top = ring["x"] + ring["width"] / 2, ring["y"]
    finger = page.context.new_cdp_session(page)
    for kind, points in [
        ("touchStart", [centre(handle)]),
        ("touchMove", [(top[0] + 40, top[1] + 5)]),
        ("touchMove", [top]),
        ("touchEnd", []),
    ]:
        at = [{"x": x, "y": y} for x, y in points]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})
    one.locator("[data-drag='key-1'][aria-valuenow='90']").wait_for()
    expect_error(one, d_k=2, pairs=2, angles=[0, 90], rule="delta")


def test_steps_and_play(visit):
    page = visit()
    one = explorable(page)
    one.get_by_role("button", name="reset").click()
    one.get_by_text("pair 0 of 8").wait_for()
    one.get_by_text("Nothing is written yet").wait_for()
    one.get_by_role("button", name="step").click()
    expect_error(one, written=1)
    one.get_by_role("button", name="play").click()
    one.get_by_text("pair 3 of 8").wait_for()
    one.get_by_role("button", name="pause").click()
    count = one.locator(".x-count").inner_text()
    page.wait_for_timeout(900)
    assert one.locator(".x-count").inner_text() == count


def test_play_does_not_move_for_those_who_ask_for_less_motion(visit):
    page = visit("#memory_interference?written=0", reduced_motion="reduce")
    one = explorable(page)
    one.get_by_text("pair 0 of 8").wait_for()
    one.get_by_role("button", name="play").click()
    one.get_by_text("pair 8 of 8").wait_for(timeout=500)


def test_the_address_is_restored(visit):
    page = visit("#memory_interference?rule=delta&d_k=5&beta=0.5&written=4")
    settings = {"rule": "delta", "d_k": 5, "beta": 0.5, "written": 4}
    expect_error(explorable(page), **settings)
    page.reload()
    expect_error(explorable(page), **settings)
    # the other one on the page is as it was
    expect_error(explorable(page, 1), d_k=2, pairs=2)


def test_a_link_in_the_prose_sets_the_figure(visit):
    page = visit()
    page.locator("#tilted").click()
    expect_error(explorable(page, 1), d_k=2, pairs=2, angles=[0, 30])


def test_nonsense_in_the_address_does_no_harm(visit):
    address = "#memory_interference?d_k=900&pairs=many&rule=magic&angles=x&junk=1&seed="
    expect_error(explorable(visit(address)), d_k=32)


def test_a_setting_can_be_copied(visit):
    page = visit("#memory_interference?d_k=4", **COPY)
    one = explorable(page)
    one.get_by_label("delta", exact=True).click()
    expect_error(one, d_k=4, rule="delta")
    one.get_by_role("button", name="copy link").click()
    one.get_by_text("copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.endswith("#memory_interference?rule=delta&d_k=4")
    one.get_by_text("The same in Python").click()
    one.get_by_role("button", name="copy", exact=True).click()
    page.wait_for_function("navigator.clipboard.readText().then((t) => t[0] === 'f')")
    code = page.evaluate("navigator.clipboard.readText()")
    scope: dict = {}
    exec(code.replace("memory_interference.compute", "x = memory_interference.compute"),
         scope)  # fmt: skip
    assert f"{scope['x']['error']:.2f}" == shown(one, "recall error")


def test_controls_that_do_not_matter_are_off(visit):
    one = explorable(visit())
    assert one.get_by_label("decay α").is_disabled()
    assert one.get_by_label("write strength").is_disabled()
    one.get_by_label("delta", exact=True).click()
    expect_error(one, rule="delta")
    assert one.get_by_label("write strength").is_enabled()


def test_a_key_drawn_anew_forgets_how_it_was_turned(visit):
    page = visit("#memory_interference-2?angles=0,30")
    one = explorable(page, 1)
    expect_error(one, d_k=2, pairs=2, angles=[0, 30])
    one.get_by_label("draw").focus()
    page.keyboard.press("ArrowRight")
    expect_error(one, d_k=2, pairs=2, seed=2)


def test_a_page_that_stops_drawing_still_speaks_without_a_fault(visit):
    """A hidden page gets no frames, but its timers run; `visit` counts page errors."""
    page = visit()
    page.evaluate(
        """() => {
          const slider = document.querySelector(".explorable input[type=range]");
          const turn = (by) => {
            slider.value = Number(slider.value) + by;
            slider.dispatchEvent(new Event("input", { bubbles: true }));
          };
          turn(1);
          return new Promise((done) => requestAnimationFrame(() =>
            requestAnimationFrame(() => {
              window.requestAnimationFrame = () => 0;
              turn(1);
              setTimeout(done, 400);
            })));
        }"""
    )
