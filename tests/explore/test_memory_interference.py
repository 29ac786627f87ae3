"""Memory interference: its random numbers, and what theory says of the others."""

import json

import numpy as np
import pytest

from ctlearn.explore import draws
from ctlearn.explore.memory_interference import MemoryInterference, compute


def test_the_generator_is_the_same_in_both_languages(node):
    module = MemoryInterference.module()
    places = [(1, 0, 5, 7), (2**31, 3, 24, 32), (999, 1, 1, 9)]
    run = f"console.log(JSON.stringify({json.dumps(places)}.map((p) => normal(...p))))"
    theirs = node(module + run)
    for place, numbers in zip(places, theirs, strict=True):
        np.testing.assert_allclose(draws.normal(*place), numbers, rtol=0, atol=1e-12)


def test_the_generator_is_normal():
    x = draws.normal(7, 2, 300, 300)
    count = x.size
    assert abs(x.mean()) < 4 / count**0.5
    assert abs((x**2).mean() - 1) < 4 * (2 / count) ** 0.5
    assert abs((x**4).mean() - 3) < 4 * (96 / count) ** 0.5
    for y in (x[1:] * x[:-1], x[:, 1:] * x[:, :-1], x * draws.normal(8, 2, 300, 300)):
        assert abs(y.mean()) < 4 / y.size**0.5


def test_a_longer_draw_begins_like_a_shorter_one():
    assert (draws.normal(3, 1, 9, 8)[:4, :5] == draws.normal(3, 1, 4, 5)).all()


def test_a_module_that_decays_in_another_order_has_other_numbers(node):
    """So the comparison of modules with NumPy (test_same_numbers.py) can fail."""
    right = "kept * x + key[i] * change[j]"
    module = MemoryInterference.module()
    assert module.count(right) == 1
    wrong = module.replace(right, "kept * (x + key[i] * change[j])")
    settings = compute.__kwdefaults__ | {"rule": "decay", "angles": []}
    run = f"console.log(JSON.stringify(compute({json.dumps(settings)})))"
    theirs = node(wrong + run)
    assert np.abs(compute(rule="decay")["state"] - theirs["state"]).max() > 1e-3


def test_setting_a_trait_changes_the_numbers():
    widget = MemoryInterference(d_k=2)
    widget.set_state({"angles": [0, 30], "pairs": 2})
    assert widget.numbers()["gram"][0, 1] == pytest.approx(np.cos(np.pi / 6))


def test_what_leaks_is_the_cosine():
    """Two keys thirty degrees apart: each answer holds the other's value, by cosine."""
    x = compute(d_k=2, pairs=2, angles=[0, 30])
    v = x["values"]
    np.testing.assert_allclose(x["returned"][0], v[0] + np.cos(np.pi / 6) * v[1])


def test_orthogonal_keys_are_recalled_exactly():
    for rule in ("add", "delta"):
        x = compute(d_k=2, pairs=2, angles=[20, 110], rule=rule)
        assert x["error"] < 1e-30


def test_the_delta_rule_recalls_the_last_pair_exactly():
    x = compute(rule="delta", d_k=4, pairs=12, similarity=0.6)
    assert x["errors"][-1] < 1e-30
    assert x["errors"][0] > 0.01


def test_independent_keys_have_the_error_of_theory():
    x = compute(d_k=16, pairs=12)
    four_standard_errors = 4 * x["spread"] / 32**0.5
    assert (np.abs(x["average"] - x["theory"]) <= four_standard_errors + 1e-12).all()
    assert x["theory"][-1] == 11 / 16


def test_theory_is_given_only_where_it_holds():
    assert len(compute()["theory"]) == 8
    assert not len(compute(similarity=0.05)["theory"])
    assert not len(compute(rule="delta")["theory"])
    assert not len(compute(d_k=2, angles=[0.0])["theory"])
    assert len(compute(d_k=3, angles=[0.0])["theory"])


def test_equal_keys_at_similarity_one():
    x = compute(similarity=1.0)
    np.testing.assert_allclose(x["gram"], 1)
    assert x["cosine"] == pytest.approx(1)


def test_nothing_written():
    x = compute(written=0)
    assert x["error"] is None
    assert len(x["errors"]) == 0
    assert not x["state"].any()


def test_one_pair_alone():
    x = compute(pairs=1)
    assert x["cosine"] is None
    assert x["error"] < 1e-30


def test_every_error_and_cosine_is_told_by_its_name(said, told):
    shown = said(MemoryInterference, written=5, pair=2)
    x, facts = shown.numbers, shown.facts
    assert facts["recall error"] == told(x["error"])
    assert facts["mean of 32 draws"] == told(x["average"][4])
    assert facts["theory $(n−1)/d_k$"] == told(4 / 8)
    assert facts["mean cosine"] == told(x["cosine"])
    near = max((0, 2, 3, 4), key=lambda i: abs(x["gram"][1][i]))
    said_so = f"most like its own is key {near + 1}, at cosine {x['gram'][1][near]:.2f}"
    assert said_so.replace("-", "−") in shown.sentence
    assert f"Pair 2 comes back with error {x['errors'][1]:.2f}" in shown.sentence
    assert [row["error"] for row in shown.rows][5:] == ["not written"] * 3


def test_the_mark_lies_on_the_curve_of_this_draw(said):
    ((mark, curve),) = said(MemoryInterference, written=5).marks
    assert mark == curve[4]


def test_the_figure_says_what_it_shows():
    widget = MemoryInterference(pairs=5)
    alt = widget.figure().alt
    assert alt.startswith("Two panels for 5 pairs")
    assert f"{widget.numbers()['curve'][-1]:.2f}" in alt
