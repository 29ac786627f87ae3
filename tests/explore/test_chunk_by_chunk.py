"""Chunk by chunk: every step's numbers are the recurrence's, and the reference's."""

import json

import numpy as np
import pytest

from ctlearn.explore.chunk_by_chunk import ChunkByChunk, compute
from ctlearn.mixers import delta_rule


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("similarity", [0.0, 0.6, 1.0])
def test_every_step_has_the_recurrences_numbers(beta, similarity):
    x = compute(beta=beta, similarity=similarity)
    assert max(x["gaps"]) < 1e-11
    for ours, theirs in (("u", "writes"), ("o", "answers"), ("states", "memories")):
        np.testing.assert_allclose(x[ours], x[theirs], atol=1e-11)


def test_the_reference_agrees():
    x = compute(beta=0.7)
    q, k, v = (x[name] for name in ("queries", "keys", "values"))
    beta = np.full(8, 0.7)
    o, S = delta_rule.chunkwise(q, k, v, beta=beta, chunk_size=4)
    np.testing.assert_allclose(x["o"], o)
    np.testing.assert_allclose(x["states"][2], S)


def test_the_inverse_is_one_and_lower():
    x = compute(similarity=0.8)
    for rows in (slice(4), slice(4, 8)):
        L, inverse = x["L"][rows], x["inverse"][rows]
        np.testing.assert_allclose((np.eye(4) + L) @ inverse, np.eye(4), atol=1e-12)
        assert not np.triu(L).any()
        assert not np.triu(inverse, 1).any()


def test_with_one_key_a_write_replaces_the_one_before_it():
    """So the inverse has ones on its diagonal and minus ones below, and no more."""
    x = compute(similarity=1.0, beta=1.0)
    expected = np.eye(4) - np.eye(4, k=-1)
    np.testing.assert_allclose(x["inverse"][:4], expected, atol=1e-12)


def test_a_module_that_solves_the_wrong_system_is_off(node):
    """The gaps are measured, and a wrong sign shows in them."""
    module = ChunkByChunk.module()
    right = "plus([sum], [x], -row[j])"
    assert module.count(right) == 1
    settings = json.dumps(compute.__kwdefaults__)
    run = f"console.log(JSON.stringify(compute({settings})))"
    gaps = node(module.replace(right, "plus([sum], [x], row[j])") + run)["gaps"]
    assert gaps[0] < 1e-12
    assert min(gaps[1:5]) > 1e-3


def test_steps_and_chunks():
    places = [(compute(step=n)["chunk"], compute(step=n)["stage"]) for n in range(11)]
    assert places[0] == (0, 0)
    assert places[1:6] == [(1, n) for n in range(1, 6)]
    assert places[6:] == [(2, n) for n in range(1, 6)]


def test_what_is_told_is_of_the_chunk_at_work(said, told):
    shown = said(ChunkByChunk, step=8)
    x, facts = shown.numbers, shown.facts
    L, inverse = (x[name][4:8] for name in ("L", "inverse"))
    assert facts["chunk"] == [2, 2]
    assert facts["largest of $L$"] == told(np.abs(L).max())
    assert facts["largest of the inverse"] == told(np.abs(inverse).max())
    assert facts["off from the recurrence"] == [float(f"{max(x['gaps'][:8]):.0e}")]
    off = [text for text in shown.texts if text.startswith("off by")]
    plain = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
    for text, gap in zip(off, x["gaps"][5:8], strict=True):
        there = text.removeprefix("off by ").translate(plain).replace("·10⁻", "e-")
        assert float(there) == float(f"{gap:.0e}")
    assert shown.sentence.startswith("Chunk 2. The writes u")
    picks = [part.get("data-pick") for card in shown.pictures[2:] for part in card]
    assert [pick for pick in picks if pick] == [6, 7, 8, 9, 10]


@pytest.mark.browser
def test_steps_by_touch_and_what_they_fill(phone, expect_fact):
    address = "chunk_by_chunk.html#chunk_by_chunk?step=0"
    page = phone(address)
    page.get_by_text("an empty state").wait_for()
    step = page.get_by_role("button", name="step")
    for known in range(1, 6):
        step.tap()
        page.get_by_text(f"step {known} of 10").wait_for()
        assert page.get_by_text("off by").count() == known
    step.tap()
    expect_fact(page, "chunk", "2 of 2")
    page.get_by_text("off by").nth(0).wait_for()
    assert page.get_by_text("off by").count() == 1


@pytest.mark.browser
def test_a_matrix_is_pointed_at(visit, expect_fact):
    page = visit("chunk_by_chunk.html#chunk_by_chunk?step=5")
    page.locator("rect[data-pick='2']").click()
    page.get_by_text("step 2 of 10").wait_for()
    largest = np.abs(compute()["inverse"][:4]).max()
    expect_fact(page, "largest of the inverse", f"{largest:.2f}")
    page.get_by_text("Numbers behind the picture").click()
    writes = page.locator("tbody tr").nth(6).locator("td").nth(2).inner_text()
    told = [float(text.replace("−", "-")) for text in writes.split()]
    np.testing.assert_allclose(told, compute()["u"][6], atol=6e-5)


def test_the_figure_says_how_far_the_recurrence_is():
    assert f"to {max(compute()['gaps']):.0e}" in ChunkByChunk().figure().alt
