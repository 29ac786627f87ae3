"""Figures: readable on every ground, described in words, the same every time."""

import re

import numpy as np
import pytest

from ctlearn import plots
from ctlearn.shapes import GLOSSARY

pytest.importorskip("matplotlib", reason='no matplotlib: pip install "ctlearn[plots]"')

# The page's grounds, and the surfaces of boxes on it.
GROUNDS = {"light": ["#ffffff", "#f3f4f5"], "dark": ["#121212", "#14181e", "#29313d"]}


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def drawn():
    """A figure with all that the module draws."""
    fig, (left, right) = plots.figure(5.6, 2.8, columns=2)
    rng = np.random.default_rng(1)
    plots.state_matrix(left, rng.standard_normal((6, 4)), title="memory S")
    x = np.arange(1, 9)
    plots.band(right, x, x + rng.standard_normal((5, 8)), "error")
    plots.label(right, 8, 8, "recall error", "error")
    right.plot(x, x)
    right.text(2, 2, "plain text")
    right.legend(["mean"])
    right.set(xlabel="pairs", title="$S^\\top q$")
    return fig


@pytest.mark.parametrize("scheme", GROUNDS)
@pytest.mark.parametrize("role", plots.PALETTE)
def test_colours_can_be_read_as_text(role, scheme):
    for ground in GROUNDS[scheme]:
        assert contrast(plots.PALETTE[role][scheme], ground) >= 4.5


def test_every_role_of_the_glossary_has_a_colour_and_a_line():
    roles = {symbol.role for symbol in GLOSSARY.values()}
    assert roles <= set(plots.PALETTE)
    assert set(plots.LINES) == set(plots.PALETTE)


def test_roles_do_not_share_a_colour():
    for scheme in ("light", "dark"):
        assert len({tone[scheme] for tone in plots.PALETTE.values()}) == 9


def test_no_colour_is_left_hard_coded():
    svg = plots.show(drawn(), alt="Some lines.").svg
    without_variables = re.sub(r"var\(--ctl-\w+, #[0-9a-f]{6}\)", "", svg)
    assert not re.search(r"#[0-9a-fA-F]{6}\b|rgb\(|black|white", without_variables)
    assert "currentColor" in svg
    assert "var(--ctl-state, " in svg


def test_a_figure_is_drawn_the_same_every_time():
    first, second = (plots.show(drawn(), alt="Some lines.").svg for _ in range(2))
    assert first == second


def test_figures_on_one_page_share_no_id():
    fig, ax = plots.figure()
    ax.plot([1, 2], [3, 1])
    one, other = plots.show(drawn(), alt="One."), plots.show(fig, alt="Other.")
    ids = [re.findall(r' id="([^"]+)"', figure.svg) for figure in (one, other)]
    assert all(ids)
    assert not set(ids[0]) & set(ids[1])
    for figure, own in zip((one, other), ids, strict=True):
        used = re.findall(r'(?:url\(|href=")#([^)"]+)', figure.svg)
        assert set(used) == set(own)


def test_no_rule_reaches_the_page_and_no_font_is_named():
    svg = plots.show(drawn(), alt="Some lines.").svg
    assert "<style" not in svg
    assert svg.count("font-family:") == 1
    assert "DejaVu" not in svg


def test_a_power_of_ten_is_set_by_the_page_and_not_digit_by_digit():
    fig, ax = plots.figure()
    ax.set(yscale="log", ylim=(1e-6, 1e-3), ylabel="error $d_k$")
    svg = plots.show(fig, alt="An axis.").svg
    powers = re.findall(r'<text x="[^"]+" text-anchor="middle">(.*?)</text>', svg)
    read = [re.sub("<.*?>", "|", power) for power in powers]
    assert {"|10||−6|", "|10||−4|"} <= set(read)
    # the second run stands above the first, and only the group has a place
    assert all(re.fullmatch(r'.*dy="-\d.*', power) for power in powers)
    assert not any(" x=" in power for power in powers)
    assert "error" in re.sub("<.*?>", "", svg)


def test_a_figure_scales_to_its_column_and_is_small():
    svg = plots.show(drawn(), alt="Some lines.").svg
    assert "width:100%;max-width:538px" in svg
    assert len(svg) < 80_000


def test_the_largest_matrix_is_small_too():
    fig, ax = plots.figure(3, 3)
    S = np.random.default_rng(0).standard_normal((32, 32))
    plots.state_matrix(ax, S)
    assert len(plots.show(fig, alt="A matrix.").svg) < 80_000


@pytest.mark.parametrize("alt", ["", "  \n"])
def test_alt_text_is_required(alt):
    fig, _ = plots.figure()
    with pytest.raises(ValueError, match="alt is empty"):
        plots.show(fig, alt=alt)


def test_what_is_shown():
    fig, _ = plots.figure()
    shown = plots.show(fig, alt='Two "lines" <cross>.', caption="A & B.", name="cross")
    page = shown._repr_html_()
    assert 'role="img" aria-label="Two &quot;lines&quot; &lt;cross&gt;."' in page
    assert "<figcaption>A &amp; B.</figcaption>" in page
    assert '<figure class="ctl-figure" id="cross">' in page
    assert repr(shown) == 'Two "lines" <cross>.'


def test_a_colour_of_no_role_is_refused():
    fig, ax = plots.figure()
    ax.plot([1, 2], color="#1f77b4")
    with pytest.raises(ValueError, match="#1f77b4; it should be one of"):
        plots.show(fig, alt="A line.")
    with pytest.raises(ValueError, match="role is 'keys'; it should be one of key,"):
        plots.colour("keys")


@pytest.mark.parametrize(
    "S",
    [np.zeros(3), np.zeros((65, 64)), np.array([[np.nan]])],
    ids=["1d", "big", "nan"],
)
def test_a_matrix_that_cannot_be_shown(S):
    _, ax = plots.figure()
    with pytest.raises(
        ValueError, match=r"S has shape .* it should be a finite matrix"
    ):
        plots.state_matrix(ax, S)


def test_a_matrix_of_zeros_is_an_empty_frame():
    fig, ax = plots.figure()
    plots.state_matrix(ax, np.zeros((2, 3)))
    assert not ax.patches
    assert "var(--ctl-" not in plots.show(fig, alt="An empty matrix.").svg


def test_lines_differ_in_more_than_colour():
    _, ax = plots.figure()
    lines = [ax.plot([0, 1])[0] for _ in range(5)]
    assert len({line._unscaled_dash_pattern for line in lines}) == 5
    assert len({line.get_color() for line in lines}) == 5
