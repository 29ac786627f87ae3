"""In-context regression: the best step exactly, and the layer that training finds."""

from fractions import Fraction

import numpy as np
import pytest

from ctlearn.tasks import in_context_regression as regression

SEEDS = range(5)


@pytest.fixture(scope="module")
def tested():
    """20 000 tasks on which everything is judged."""
    return regression.draw(2026, 20_000, 10, 10)


@pytest.fixture(scope="module")
def trained():
    """A layer for each seed."""
    return [regression.train(seed, 10, 10) for seed in SEEDS]


@pytest.mark.parametrize(
    ("half_width", "exact", "printed"),
    [
        (1, ("50/33", "490/297"), (1.5152, 1.6498)),
        ("1/2", ("200/33", "245/594"), (6.0606, 0.4125)),
    ],
)
def test_the_best_step_and_what_it_leaves(half_width, exact, printed):
    """T3: d = N = 10, as fractions; half the width makes the step four times as long.

    The second is the code's width; the paper's figure shows half that error, 0.206.
    """
    found = regression.best_step(
        10, 10, *regression.uniform_moments(Fraction(half_width))
    )
    assert found == tuple(map(Fraction, exact))
    assert tuple(round(float(x), 4) for x in found) == printed


@pytest.mark.parametrize(("d", "N"), [(1, 3), (2, 2), (3, 1)])
def test_the_best_step_by_integration(d, N):
    """Integrate the error over all inputs and queries, as a polynomial in eta."""
    sympy = pytest.importorskip("sympy")
    eta, h = sympy.symbols("eta h", positive=True)
    X = sympy.Matrix(N, d, sympy.symbols(f"x:{N * d}"))
    x = sympy.Matrix(sympy.symbols(f"q:{d}"))
    # E over w of (w'r)^2 is r'r
    left = x - eta / N * X.T * (X * x)
    variables = [*X, *x]
    total = sympy.Integer(0)
    for powers, factor in sympy.Poly((left.T * left)[0], *variables).terms():
        if not any(power % 2 for power in powers):
            total += factor * sympy.prod(h**p / sympy.Integer(p + 1) for p in powers)
    best = sympy.solve(total.diff(eta), eta)
    found = regression.best_step(d, N, *regression.uniform_moments(h))
    assert len(best) == 1
    assert sympy.simplify(best[0] - found[0]) == 0
    assert sympy.simplify(total.subs(eta, best[0]) - found[1]) == 0


@pytest.mark.parametrize("half_width", [1.0, 0.5])
def test_the_best_step_on_drawn_tasks(half_width):
    tasks = regression.draw(0, 20_000, 10, 10, half_width)
    moments = regression.uniform_moments(half_width)
    eta, error = regression.best_step(10, 10, *moments)
    found = regression.errors(regression.one_step(tasks, eta), tasks)
    assert abs(found.mean() - error) < 3 * found.std() / len(found) ** 0.5
    for other in (0.9 * eta, 1.1 * eta):
        worse = regression.errors(regression.one_step(tasks, other), tasks)
        assert worse.mean() > found.mean()


def test_errors_are_means_over_queries():
    tasks = regression.draw(1, 1, 4, 3, 0.7)
    u = np.array([[0.3, -0.2, 1.0]])
    x = np.random.default_rng(0).uniform(-0.7, 0.7, (200_000, 3))
    squares = (x @ (tasks.w - u)[0]) ** 2
    spread = squares.std() / len(x) ** 0.5
    assert abs(regression.errors(u, tasks)[0] - squares.mean()) < 4 * spread


def test_the_constructed_layer_is_one_step():
    tasks = regression.draw(2, 5, 6, 4)
    layer = regression.constructed(4, 6, 1.3)
    assert np.allclose(layer.learned(tasks), regression.one_step(tasks, 1.3))
    assert layer.step_matrix() == pytest.approx(1.3 / 6 * np.eye(4))


def test_slopes_are_those_of_differences():
    rng = np.random.default_rng(3)
    tasks = regression.draw(3, 7, 5, 3)
    layer = regression.Layer(rng.standard_normal(4), rng.standard_normal((4, 3)))
    _, slopes = regression.loss(layer, tasks)
    for weights, slope in zip(layer, slopes, strict=True):
        for i in np.ndindex(weights.shape):
            kept, values = weights[i], []
            for moved in (1e-5, -1e-5):
                weights[i] = kept + moved
                values.append(regression.loss(layer, tasks)[0])
            weights[i] = kept
            numerical = (values[0] - values[1]) / 2e-5
            assert slope[i] == pytest.approx(numerical, rel=1e-6, abs=1e-6)


def test_training_finds_the_step(trained, tested, record_property):
    """T3: every seed ends at the best step of gradient descent.

    Elsewhere one layer, trained with drawn queries for 3000 steps, reached an error of
    1.6530 where the best step leaves 1.6498, with 0.1519 on the diagonal where eta/N is
    0.1515, and less than 0.002 off it. Both errors here are of the same tasks, so that
    their difference is known far better than either.
    """
    eta, error = regression.best_step(10, 10, *regression.uniform_moments(1))
    step = regression.errors(regression.one_step(tested, eta), tested)
    diagonals = []
    for layer in trained:
        excess = regression.errors(layer.learned(tested), tested) - step
        standard_error = excess.std() / len(excess) ** 0.5
        # no layer beats the best step, and each is at least as near as that one was
        assert excess.mean() > -3 * standard_error
        assert error + excess.mean() < 1.6530
        matrix = layer.step_matrix()
        diagonals.append(np.diag(matrix).mean())
        assert abs(matrix - np.diag(np.diag(matrix))).max() < 0.002
        # what the construction has as zeros
        assert abs(layer.p[:-1]).max() < 0.02 * abs(layer.p[-1])
        record_property(
            "trained layer",
            f"{error + excess.mean():.4f}, diagonal {diagonals[-1]:.4f}",
        )
    # what an entry spreads, over entries and runs, bounds what a run's mean does
    spread = np.std([np.diag(layer.step_matrix()) for layer in trained])
    assert spread < 0.001
    for wanted in (0.1519, eta / 10):
        assert abs(np.array(diagonals) - wanted).max() < 3 * spread


def test_the_trained_layer_knows_a_rate_and_no_rule_for_it(trained):
    """At twice the inputs' size both fail alike: the step it learned is then too large.

    With eta fixed the error is E[x^2] E tr (I - eta A)^2 at the new moments.
    """
    tasks = regression.draw(5, 20_000, 10, 10, 2.0)
    eta, _ = regression.best_step(10, 10, *regression.uniform_moments(1))
    step = regression.errors(regression.one_step(tasks, eta), tasks).mean()
    square, fourth = regression.uniform_moments(2)
    best, least = regression.best_step(10, 10, square, fourth)
    # a parabola in eta, which leaves 10 E[x^2] at 0 and the least error at the best
    theory = least + (10 * square - least) * (1 - eta / best) ** 2
    assert step == pytest.approx(theory, rel=0.03)
    for layer in trained:
        found = regression.errors(layer.learned(tasks), tasks).mean()
        assert found == pytest.approx(step, rel=0.03)
    assert step > 10 * square


def test_progress_is_reported_and_a_seed_repeats():
    seen = []
    first = regression.train(
        7, 3, 2, steps=30, batch=8, report=lambda step, loss: seen.append((step, loss))
    )
    second = regression.train(7, 3, 2, steps=30, batch=8)
    assert np.array_equal(first.M, second.M)
    assert [step for step, _ in seen] == list(range(30))
