"""Retention: RetNet's rates, and that forgetting everything leaves the last token."""

import numpy as np
import pytest

from ctlearn.mixers import retention
from ctlearn.supplies import Floats, float_difference


def test_each_head_forgets_half_as_fast_as_the_one_before():
    kept = np.exp(retention.head_log_gammas(3))
    assert float_difference(kept, np.array([31 / 32, 63 / 64, 127 / 128])).equal
    with pytest.raises(ValueError, match=r"^n_heads: expected at least 1, got 0"):
        retention.head_log_gammas(0)


def test_with_nothing_kept_every_token_answers_for_itself():
    x = retention.MECHANISM.draw(Floats(0), 9, 5, 3) | {"log_gamma": -np.inf}
    own = (x["q"] * x["k"]).sum(axis=1)[:, None] * x["v"]
    for form in (retention.recurrent, retention.parallel, retention.chunkwise):
        assert float_difference(form(**x)[0], own).equal
