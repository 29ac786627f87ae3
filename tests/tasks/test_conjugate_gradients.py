"""Conjugate gradients: exact after as many steps as there are channels, not before."""

import numpy as np
import pytest

from ctlearn.tasks import conjugate_gradients

SEEDS = range(40)


def test_six_channels_take_six_steps(record_property):
    """T5: the errors of one draw elsewhere, of which only d_k = 6 is given.

    Ours are 20 tokens with mild gates and a ridge of 1/2. Each of the four numbers is
    within two deviations of the logs of single draws, and the sixth step is exact.
    """
    found = np.array(
        [
            conjugate_gradients.errors(
                conjugate_gradients.draw(seed, 20, 6, ridge=0.5), range(1, 8)
            )
            for seed in SEEDS
        ]
    )
    logs = np.log(found[:, :4])
    wanted = np.log([0.48, 0.17, 0.028, 0.0038])
    assert (abs(logs.mean(axis=0) - wanted) < 2 * logs.std(axis=0, ddof=1)).all()
    assert found[:, 4].min() > 1e-6
    assert found[:, 5:].max() < 1e-13
    middle = ", ".join(f"{error:.2g}" for error in np.median(found[:, :6], axis=0))
    record_property("conjugate gradients, six steps", middle)


@pytest.mark.parametrize("d", [2, 4, 8])
def test_as_many_steps_as_channels(d):
    for seed in range(10):
        inputs = conjugate_gradients.draw(seed, 40, d, ridge=0.5)
        last, exact = conjugate_gradients.errors(inputs, [d - 1, d])
        assert exact < 1e-12
        assert last > 1e-8


def test_a_heavier_ridge_needs_fewer_steps():
    """The condition number is at most 1 + trace(H) / ridge, which the ridge lowers.

    Answers shrink as the ridge grows, so errors are multiplied by it.
    """
    means = [
        np.mean(
            [
                conjugate_gradients.errors(
                    conjugate_gradients.draw(seed, 40, 16, ridge=ridge), [4]
                )
                * ridge
                for seed in range(10)
            ]
        )
        for ridge in (0.1, 1, 10)
    ]
    assert means == sorted(means, reverse=True)
    assert means[2] < means[0] / 100
