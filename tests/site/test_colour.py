"""Letters are coloured by role, and nothing else is touched."""

import re

import pytest

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
