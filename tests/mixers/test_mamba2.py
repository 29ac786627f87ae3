"""Mamba-2: the time step stands in the write too."""

import numpy as np

from ctlearn.mixers import gated_linear_attention, mamba2
from ctlearn.supplies import Floats, float_difference


def test_dropping_the_step_from_the_write_is_another_mechanism():
    x = mamba2.MECHANISM.draw(Floats(0), 20, 6, 5)
    o, _ = mamba2.recurrent(**x)
    tokens = {name: x[name] for name in ("q", "k", "v")}
    o_untied, _ = gated_linear_attention.recurrent(
        **tokens, log_decay=x["A"] * x["delta"]
    )
    assert abs(o - o_untied).max() > 0.1


def test_the_masked_form_is_a_semiseparable_matrix():
    """Y = (C B' * exp(segment sums of A Delta)) (Delta x)."""
    x = mamba2.MECHANISM.draw(Floats(0), 20, 6, 5)
    G = np.cumsum(x["A"] * x["delta"])
    mask = np.exp(np.where(np.tri(20, dtype=bool), G[:, None] - G, -np.inf))
    y = ((x["q"] @ x["k"].T) * mask) @ (x["delta"][:, None] * x["v"])
    assert float_difference(mamba2.parallel(**x)[0], y).equal
