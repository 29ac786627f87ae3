"""RetNet: rotation by absolute positions is rotation by distance."""

import numpy as np
import pytest

from ctlearn.mixers import retnet
from ctlearn.supplies import Floats, float_difference


def test_weights_depend_on_distance_alone():
    """O_t = sum of gamma^l (R^l q)'k v, with the pairs as complex numbers."""
    x = retnet.MECHANISM.draw(Floats(0), 12, 4, 3)
    x["angle"] = retnet.rotary_angles(4)
    o, _ = retnet.recurrent(**x)
    q, k = (x[n][:, 0::2] + 1j * x[n][:, 1::2] for n in ("q", "k"))
    expected = np.zeros_like(o)
    for t in range(12):
        for s in range(t + 1):
            turned = np.exp(1j * (t - s) * x["angle"]) * q[t]
            weight = np.exp(x["log_gamma"] * (t - s)) * (turned * k[s].conj()).real
            expected[t] += weight.sum() * x["v"][s]
    assert float_difference(o, expected).equal


def test_rotary_angles_fall_from_one():
    assert retnet.rotary_angles(4) == pytest.approx([1, 0.01])
    assert retnet.rotary_angles(5).shape == (2,)


def test_more_pairs_than_channels_are_refused():
    x = retnet.MECHANISM.draw(Floats(0), 3, 4, 3)
    with pytest.raises(ValueError, match=r"^angle: d_r is 3 but d_k = 4 has no more"):
        retnet.parallel(**(x | {"angle": np.ones(3)}))
