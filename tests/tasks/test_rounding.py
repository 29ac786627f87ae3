"""The delta rule with one quantity rounded: the truth, and where digits are lost."""

import numpy as np
import pytest

from ctlearn.mixers import delta_rule, linear_attention
from ctlearn.tasks import rounding

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')


def test_half_precision_is_torch_s():
    x = np.random.default_rng(0).standard_normal(9999).astype(np.float32)
    x[:2] = 1 + 2.0**-8, 1 + 3 * 2.0**-8  # ties, to even
    assert np.array_equal(rounding.half(x), torch.from_numpy(x).bfloat16().float())


def test_the_truth_is_the_recurrence_of_the_package():
    x = rounding.draw((3, 4), 40, 8, cosine=0.2)
    for seed, found in enumerate(rounding.recurrence(x)):
        q, k, v, beta = (a[seed].astype("float64") for a in x)
        assert np.allclose(found, delta_rule.recurrent(q, k, v, beta=beta)[0])


def test_without_erasing_it_is_linear_attention():
    x = rounding.draw((3,), 40, 8, cosine=0.2)
    q, k, v, beta = (a[0].astype("float64") for a in x)
    right, _ = linear_attention.recurrent(q, k, beta[:, None] * v)
    assert np.allclose(rounding.recurrence(x, erase=False)[0], right)
    off = rounding.errors(x, C=8, erase=False, blocks=5)
    assert off.shape == (1, 5)
    assert off.max() < 1e-6


def test_without_rounding_a_float32_is_left():
    x = rounding.draw((0, 1), 128, 16, cosine=0.3)
    assert rounding.errors(x, C=32).max() < 1e-6


@pytest.mark.parametrize("place", rounding.PLACES)
def test_each_place_is_rounded_by_itself(place):
    """By some thousandths, and by no more."""
    x = rounding.draw((0, 1), 128, 16, cosine=0.3)
    off = rounding.errors(x, [place], C=32)
    assert (off > 1e-4).all()
    assert (off < 3e-2).all()


def test_a_place_that_there_is_not_is_named():
    x = rounding.draw((0,), 16, 8, cosine=0.0)
    with pytest.raises(ValueError, match=r"^places: expected some of"):
        rounding.chunkwise(x, ["stat"], C=16)
