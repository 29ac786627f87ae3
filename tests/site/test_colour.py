"""Letters are coloured by role, and nothing else is touched."""

import re
from pathlib import Path

import pytest
from docutils import nodes

ROOT = Path(__file__).resolve().parents[2]
ROLES = {
    **{"k": "key", "v": "value", "S": "state", r"\alpha": "decay", "e": "error"},
    r"\kappa": "error",
    **{"b": "decay", "i": "decay", "n": "state", "r": "decay"},
}


@pytest.fixture
def coloured(tool):
    """The function under test, with a few roles."""
    return lambda tex: tool("colour").coloured(tex, ROLES)


@pytest.mark.parametrize(
    ("plain", "with_classes"),
    [
        ("k", r"\class{ctl-key}{k}"),
        ("k_t", r"\class{ctl-key}{k}_{\class{ctl-key}{t}}"),
        (
            r"k_{t-1}^\top",
            r"\class{ctl-key}{k}_{\class{ctl-key}{t-1}}^\top",
        ),
        (r"k^\top_t", r"\class{ctl-key}{k}^\top_{\class{ctl-key}{t}}"),
        (r"\bar{S}_t", r"\class{ctl-state}{\bar{S}}_{\class{ctl-state}{t}}"),
        (r"\hat v", r"\class{ctl-value}{\hat v}"),
        (r"\alpha_t", r"\class{ctl-decay}{\alpha}_{\class{ctl-decay}{t}}"),
        (r"\frac k v", r"\frac {\class{ctl-key}{k}} {\class{ctl-value}{v}}"),
        (r"\sqrt k v", r"\sqrt {\class{ctl-key}{k}} \class{ctl-value}{v}"),
        (r"x^k", r"x^{\class{ctl-key}{k}}"),
        (r"\exp(k)", r"\exp(\class{ctl-key}{k})"),
        (r"b_t", r"\class{ctl-decay}{b}_{\class{ctl-decay}{t}}"),
        (r"n_{t-1}", r"\class{ctl-state}{n}_{\class{ctl-state}{t-1}}"),
        (r"b_1", r"\class{ctl-decay}{b}_{\class{ctl-decay}{1}}"),
        (r"e_t", r"\class{ctl-error}{e}_{\class{ctl-error}{t}}"),
        (r"\hat\kappa", r"\class{ctl-error}{\hat\kappa}"),
    ],
)
def test_a_letter_is_coloured_with_its_subscript(coloured, plain, with_classes):
    assert coloured(plain) == with_classes


@pytest.mark.parametrize(
    "tex",
    [
        "d_k",
        "d_{k}",
        r"\mathbb{R}^{d_k \times d_v}",
        r"\text{keys and values, a v}",
        r"\operatorname{vec} x",
        r"\begin{aligned} x \end{aligned}",
        r"\begin{array}{rcl} x \end{array}",
        r"\label{eq-key}",
        r"\kappa + \vec x + \varepsilon",
        r"\sum_{k \le t} x",
        r"e^{x} + i + r + b T",
        r"b_c + b_{s} + n_\ell + n_{h} + n_{\mathrm{t}}",
        r"\kappa_{tj}",
        r"\mathrm{value}",
        "",
    ],
)
def test_everything_else_is_left_alone(coloured, tex):
    assert coloured(tex) == tex


def test_braces_stay_balanced_and_the_formula_is_the_same(coloured):
    tex = r"S_t = \Bigl(\tfrac{k_t v_t^\top}{\|k_t\|^2}\Bigr)_i + \bar S_{t-1}^\top k'"
    out = coloured(tex)
    assert out.count("{") == out.count("}")
    bare = re.sub(r"\\class\{ctl-\w+\}", "", out)
    assert re.sub(r"[{}\s]", "", bare) == re.sub(r"[{}\s]", "", tex)


def test_the_letters_come_from_the_glossary(tool):
    roles = tool("colour").letters()
    assert roles["k"] == "key"
    assert roles["S"] == "state"
    assert roles[r"\alpha"] == "decay"
    assert {"T", "t", "x", "c"}.isdisjoint(roles)


def test_what_makes_keys_is_a_key_and_no_state(tool):
    colour = tool("colour")
    out = colour.coloured(r"W_K + W_0", colour.letters())
    key, state = r"\class{ctl-key}", r"\class{ctl-state}"
    assert out == f"{key}{{W}}_{{{key}{{K}}}} + {state}{{W}}_{{{state}{{0}}}}"


def test_a_borrowed_letter_wears_no_colour(tool):
    colour = tool("colour")
    roles = colour.letters_in("19_a_chapter", colour.letters())
    assert colour.coloured(r"p_t + z_c + \beta_1", roles) == r"p_t + z_c + \beta_1"
    assert colour.coloured(r"\beta_t", roles) != r"\beta_t"
    assert colour.letters_in("index", colour.letters()) == colour.letters()


def test_what_is_borrowed_would_wear_a_colour(tool):
    colour = tool("colour")
    chapters = {x.name[:2] for x in (ROOT / "notebooks").glob("*.ipynb")}
    assert colour.BORROWED.keys() <= chapters
    for borrowed in colour.BORROWED.values():
        assert {x.partition("_")[0] for x in borrowed} <= colour.letters().keys()


def test_a_formula_elsewhere_is_still_its_chapters(tool):
    chapter_of, formula = tool("colour").chapter_of, nodes.math_block("", "a_j")
    nodes.section("", nodes.paragraph("", "", formula))
    assert chapter_of(formula, "notebooks/15_x") == "15_x"
    formula.parent.parent["html"] = {"data-chapter": "16_y"}
    assert chapter_of(formula, "book/summary") == "16_y"
