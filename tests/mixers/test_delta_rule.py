"""The delta rule's two other settings: DPFP features, and negative eigenvalues."""

import numpy as np
import pytest

from ctlearn.features import dpfp, sum_to_one
from ctlearn.mixers import delta_rule
from ctlearn.supplies import Floats


@pytest.mark.parametrize("beta", [0.5, 1.0, 1.9, 2.0])
def test_eigenvalues_of_what_the_state_meets(beta):
    k = Floats(0).unit("k", 1, 6)[0]
    _, met = delta_rule.step(k, k, np.zeros(6), beta=beta, S=np.eye(6))
    wanted = [1 - beta, *[1] * 5]
    np.testing.assert_allclose(np.linalg.eigvalsh(met), wanted, rtol=0, atol=1e-14)


def test_long_keys_blow_up_and_unit_keys_at_1_9_do_not():
    supply = Floats(0)
    k, v = supply.unit("k", 200, 6), supply.real("v", 200, 4)
    _, S = delta_rule.recurrent(k, k, v, beta=np.full(200, 1.9))
    assert np.abs(S).max() < 100
    with np.errstate(over="ignore", invalid="ignore"):
        _, S = delta_rule.recurrent(k, 100 * k, v, beta=np.full(200, 1.9))
    assert not np.isfinite(S).all()


def test_dpfp_tells_more_pairs_apart_than_keys_have_channels(record_property):
    """Twelve pairs in four channels; DPFP-3 makes 24 features of them.

    No linear map of the bare keys gets nearer than least squares does. The delta rule
    on the features gets there by being told again and again.
    """
    supply = Floats(0)
    k, v = supply.unit("k", 12, 4), supply.unit("v", 12, 5)
    best = ((k @ np.linalg.lstsq(k, v)[0] - v) ** 2).sum(axis=1).mean()
    features = sum_to_one(dpfp(k, nu=3))
    assert features.shape == (12, 24)
    S, beta = None, np.full(12, 1 / (features**2).sum(axis=1).max())
    for _ in range(1000):
        _, S = delta_rule.chunkwise(features, features, v, beta=beta, S=S)
    told = ((features @ S - v) ** 2).sum(axis=1).mean()
    assert best > 0.3
    assert told < 1e-6
    record_property("12 pairs in 4 channels", f"at best {best:.2f}, DPFP-3 {told:.1g}")


def test_keys_without_a_common_feature_do_not_disturb_one_another():
    """Every quadrant of the plane has a feature of its own."""
    k = dpfp(np.array([[1.0, 2.0], [-1.0, 2.0], [-1.0, -2.0], [1.0, -2.0]]))
    assert np.array_equal((k > 0).sum(axis=0), np.ones(4))
    k, v = sum_to_one(k), Floats(0).real("v", 4, 3)
    o, S = delta_rule.recurrent(k, k, v, beta=np.ones(4))
    np.testing.assert_allclose(k @ S, v, rtol=0, atol=1e-15)
    np.testing.assert_allclose(o, v, rtol=0, atol=1e-15)


def test_a_full_step_on_shared_features_stops_short_of_the_value():
    k, v = np.full((1, 4), 0.25), np.ones((1, 1))
    o, _ = delta_rule.recurrent(k, k, v, beta=np.ones(1))
    assert o.item() == 0.25


def test_dpfp_sees_nothing_in_signs_that_alternate():
    """With one roll every product then has a zero in it, so there is no sum to use."""
    x = np.array([[1.0, -2.0, 3.0]])
    assert not dpfp(x).any()
    assert dpfp(x, nu=2).any()
    with pytest.raises(ValueError, match=r"^x: expected features with a sum above 0"):
        sum_to_one(dpfp(x))
