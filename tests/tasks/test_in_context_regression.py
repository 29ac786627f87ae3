"""In-context regression: its tasks, and the best steps on them exactly."""

from fractions import Fraction

import numpy as np
import pytest

from ctlearn.tasks import in_context_regression as regression


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


@pytest.mark.parametrize(("d", "N"), [(2, 1), (2, 2), (3, 2)])
def test_the_best_steps_are_those_of_the_moments(d, N):
    """A E[H^2] = E[H], and what is left, by expanding H over symmetric coordinates."""
    sympy = pytest.importorskip("sympy")
    X = sympy.Matrix(N, d, sympy.symbols(f"x:{N * d}"))
    square = np.array([Fraction(c + 1, 3) for c in range(d)])
    fourth = np.array([Fraction((c + 2) ** 2, 5) for c in range(d)])
    moments = {0: 1, 2: square, 4: fourth}

    def mean(term):
        total = sympy.Integer(0)
        for powers, factor in sympy.Poly(term, *X).terms():
            if not any(power % 2 for power in powers):
                for i, power in enumerate(powers):
                    factor *= np.broadcast_to(moments[power], d)[i % d]
                total += factor
        return total

    H = X.T * X
    first, second = H.applyfunc(mean), (H * H).applyfunc(mean)
    eta, error = regression.best_steps(N, square, fourth)
    A = first * second.inv()
    assert sympy.diag(*(eta / N)) == A
    weights = sympy.diag(*square)
    assert error == (weights * (sympy.eye(d) - A * first)).trace()


def test_equal_coordinates_have_one_best_step():
    square, fourth = regression.uniform_moments(np.full(3, 0.7))
    steps, error = regression.best_steps(5, square, fourth)
    eta, wanted = regression.best_step(3, 5, square[0], fourth[0])
    assert steps == pytest.approx(np.full(3, eta))
    assert error == pytest.approx(wanted)


def test_steps_of_their_own_beat_one_for_all():
    widths = [0.5, 0.8, 1.2, 1.6]
    tasks = regression.draw(4, 20_000, 8, 4, widths)
    steps, error = regression.best_steps(
        8, *regression.uniform_moments(np.array(widths))
    )
    found = regression.errors(regression.one_step(tasks, steps), tasks)
    assert abs(found.mean() - error) < 3 * found.std() / len(found) ** 0.5
    for c in range(4):
        other = steps * np.where(np.arange(4) == c, 1.1, 1)
        worse = regression.errors(regression.one_step(tasks, other), tasks)
        assert worse.mean() > found.mean()
    one = [regression.one_step(tasks, eta) for eta in np.linspace(0.3, 3, 28)]
    assert min(regression.errors(u, tasks).mean() for u in one) > 1.1 * error


def test_mirrored_tasks_have_the_same_rules():
    tasks = regression.draw(6, 3, 4, 2)
    both = tasks.mirrored()
    assert np.array_equal(both.x[3:], -tasks.x)
    assert both.y == pytest.approx(np.einsum("nid,nd->ni", both.x, both.w))
    steps = regression.one_step(both, 0.5)
    assert steps[:3] == pytest.approx(steps[3:])
