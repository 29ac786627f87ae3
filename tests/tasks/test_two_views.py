"""Two views of a training: the learner's way, and what is kept of it."""

import numpy as np
import pytest

from ctlearn import inner
from ctlearn.inner import GatedUnit, Linear, each
from ctlearn.supplies import Floats
from ctlearn.tasks import two_views
from ctlearn.tasks.two_views import SLOPES


@pytest.fixture(params=SLOPES)
def training(request):
    """A unit, tokens, a loss and momentum, with what became of them."""
    rng, T, d = np.random.default_rng(0), 6, 3
    q, k, v = rng.standard_normal((3, T, d))
    eta, mu = rng.uniform(0.1, 0.3, (2, T))
    f, slope = inner.drawn(GatedUnit, Floats(1), d, 4, d), SLOPES[request.param]
    views = two_views.train(f, q, k, v, eta=eta, slope=slope, mu=mu)
    return f, {"q": q, "k": k, "v": v, "eta": eta, "mu": mu}, slope, views


def test_a_step_is_the_share_of_the_last_and_a_gradient(training):
    f, x, slope, views = training
    assert views.learners[0] is f
    last = inner.zeros_like(f)
    for t, (before, after) in enumerate(
        zip(views.learners[:-1], views.learners[1:], strict=True)
    ):
        g = slope(before.read(x["k"][t]), x["v"][t])
        down = before.gradient(x["k"][t], -x["eta"][t] * g)
        moved = each(np.subtract, after, before)
        for now, then, by in zip(moved, last, down, strict=True):
            assert np.allclose(now, x["mu"][t] * then + by, rtol=0, atol=1e-12)
        assert np.allclose(views.written[t], -x["eta"][t] * g)
        last = moved


def test_keys_are_kept_from_before_a_step_and_queries_from_after(training):
    _, x, _, views = training
    for t, (before, after) in enumerate(
        zip(views.learners[:-1], views.learners[1:], strict=True)
    ):
        assert np.allclose(views.stored[t] @ before.W_1, before.read(x["k"][t]))
        assert np.allclose(views.asked[t] @ after.W_1, views.answers[t])
        assert np.allclose(views.answers[t], after.read(x["q"][t]))


@pytest.mark.parametrize(
    ("loss", "of"),
    [
        ("dot product", lambda z, v: -z * v),
        ("half the squared error", lambda z, v: (z - v) ** 2 / 2),
        ("log cosh of the error", lambda z, v: np.log(np.cosh(z - v))),
    ],
)
def test_slopes_are_those_of_their_losses(loss, of):
    z, v, h = np.array([0.3, -1.2]), np.array([0.5, 0.4]), 1e-6
    found = (of(z + h, v) - of(z - h, v)) / (2 * h)
    assert np.allclose(SLOPES[loss](z, v), found, atol=1e-8)


def test_a_batch_step_takes_all_slopes_at_one_place():
    """By hand: two pairs of numbers at one key, from 1, twice."""
    k, v = np.ones((2, 1)), np.array([[3.0], [5.0]])
    f, slope = Linear(np.ones((1, 1))), SLOPES["half the squared error"]
    ends = [
        two_views.batch_steps(f, k, v, eta=0.25, slope=slope, steps=n).W[0, 0]
        for n in range(3)
    ]
    assert ends == [1, 2.5, 3.25]
