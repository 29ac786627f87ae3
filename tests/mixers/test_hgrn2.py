"""HGRN2: each row of the state is a running mean of the values."""

import numpy as np

from ctlearn.mixers import hgrn2
from ctlearn.supplies import Floats, float_difference


def test_rows_stay_between_the_values_read_and_the_start():
    x = hgrn2.MECHANISM.draw(Floats(0), 30, 6, 5)
    S = Floats(1).real("S", 6, 5)
    for t in range(30):
        seen = np.concatenate([S, x["v"][t : t + 1]])
        token = {name: a[t] for name, a in x.items()}
        _, S = hgrn2.step(**token, S=S)
        assert (seen.max(axis=0) + 1e-12 >= S).all()
        assert (seen.min(axis=0) - 1e-12 <= S).all()


def test_a_channel_that_hardly_forgets_writes_with_all_its_digits():
    x = hgrn2.MECHANISM.draw(Floats(0), 1, 2, 3)
    x["log_decay"] = np.full((1, 2), -1e-17)
    _, S = hgrn2.recurrent(**x)
    assert float_difference(S * 1e17, np.tile(x["v"], (2, 1))).equal
