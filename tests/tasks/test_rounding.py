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


def with_one_place_doubled(x, place, C):
    """The rule in chunks, float64, with twice the quantity that a place names."""
    q, k, v, beta = (a.astype("float64") for a in x)
    twice = {name: 2.0 if name == place else 1.0 for name in rounding.PLACES}
    S, o = np.zeros((len(q), q.shape[2], v.shape[2])), np.empty_like(v)
    for start in range(0, q.shape[1], C):
        Q, K, V = (a[:, start : start + C] for a in (q, k, v))
        rate = beta[:, start : start + C, None]
        asked = twice["state read"] * S
        X = rate * (V - K @ asked)
        L = twice["system"] * np.tril(rate * (K @ K.swapaxes(1, 2)), -1)
        # a factor of the product is doubled with the solved matrix that it meets
        solved = np.linalg.solve(np.eye(C) + L, X)
        ones = twice["ones too"] ** 2
        R = ones * X + ones * twice["solution"] ** 2 * (solved - X)
        R *= twice["writes"]
        scores = twice["scores"] * np.tril(Q @ K.swapaxes(1, 2))
        o[:, start : start + C] = Q @ asked + scores @ R
        S = twice["state"] * (S + K.swapaxes(1, 2) @ R)
    return o


@pytest.mark.parametrize("place", rounding.PLACES)
def test_each_place_is_where_its_name_says(monkeypatch, place):
    """Doubled in the place of rounded, in three chunks, by an algebra of its own."""
    x = rounding.draw((0, 1), 48, 8, cosine=0.3)
    monkeypatch.setattr(rounding, "half", lambda y: 2 * y)
    found = rounding.chunkwise(x, [place], C=16)
    right = with_one_place_doubled(x, place, 16)
    assert np.abs(found - right).max() < 1e-5 * np.abs(right).max()


def test_an_error_is_that_of_its_block_and_its_seed():
    x = rounding.draw((0, 1), 96, 8, cosine=0.3)
    truth, off = rounding.recurrence(x), rounding.chunkwise(x, ["state"], C=16)
    found = rounding.errors(x, ["state"], C=16, blocks=3)
    for seed, block in np.ndindex(2, 3):
        of_block = seed, slice(32 * block, 32 * block + 32)
        right = np.linalg.norm(off[of_block] - truth[of_block])
        right /= np.linalg.norm(truth[of_block])
        assert found[seed, block] == pytest.approx(right, rel=1e-4)


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
