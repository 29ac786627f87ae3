"""S4D: a convolution and a recurrence, and what holding the input still changes."""

import numpy as np
import pytest

from ctlearn.mixers import mamba, s4d
from ctlearn.supplies import Floats, Symbols, float_difference


def complex_parts(x):
    """A and B-bar [d_k, d_v] and C [d_k] of the source, as complex numbers."""
    a = x["A"] + 1j * x["omega"]
    B = (np.exp(x["delta"] * a) - 1) / a * x["k"][:, None]
    return a, B, x["q"] * np.exp(1j * x["phase"])


def test_the_recurrence_is_a_convolution():
    """K_l = Re sum_c C_c exp(l Delta a_c) B-bar_c, summed over the lag."""
    x = s4d.MECHANISM.draw(Floats(0), 40, 6, 5)
    a, B, C = complex_parts(x)
    lags = np.arange(40)[:, None, None]
    K = np.einsum("c,lcj->lj", C, np.exp(lags * x["delta"] * a) * B).real
    o = [(K[: t + 1][::-1] * x["v"][: t + 1]).sum(axis=0) for t in range(40)]
    assert float_difference(s4d.recurrent(**x)[0], np.array(o)).equal
    assert float_difference(s4d.parallel(**x)[0], np.array(o)).equal


def test_one_entry_on_symbols():
    """No entry of the state sees another, so this is a proof at any d_k and d_v."""
    supply = Symbols()
    x = s4d.MECHANISM.draw(supply, 3, 1, 1)
    S = s4d.Waves(supply.real("re", 1, 1), supply.real("im", 1, 1))
    for chunk_size in (1, 2, 3):
        o, (re, im) = s4d.chunkwise(**x, S=S, chunk_size=chunk_size)
        expected, (re_r, im_r) = s4d.recurrent(**x, S=S)
        for a, b in ((o, expected), (re, re_r), (im, im_r)):
            assert supply.difference(a, b).equal


def test_an_answer_is_the_sum_of_its_entries_answers():
    x = s4d.MECHANISM.draw(Floats(1), 20, 6, 5)
    o, _ = s4d.recurrent(**x)
    total = np.zeros_like(o)
    for c in range(6):
        part = {n: x[n][c : c + 1] for n in ("q", "k", "A", "omega", "phase")}
        total += s4d.recurrent(**(x | part))[0]
    assert float_difference(o, total).equal


def test_eulers_rule_is_another_mechanism():
    """Mamba with S4D's constants, which differ in what one write leaves."""
    x = s4d.MECHANISM.draw(Floats(2), 20, 6, 5)
    x |= {"omega": 0 * x["omega"], "phase": 0 * x["phase"]}
    o, _ = s4d.recurrent(**x)
    rows = {n: np.repeat(x[n][None], 20, axis=0) for n in ("q", "k", "delta")}
    o_euler, _ = mamba.recurrent(v=x["v"], A=x["A"], **rows)
    assert abs(o - o_euler).max() > 0.1


def test_it_turns():
    """A single wave answers an impulse by a cosine that fades."""
    one, two_pi = np.ones(1), 2 * np.pi
    v = np.zeros((33, 1))
    v[0] = 1
    o, _ = s4d.parallel(
        one,
        one,
        v,
        A=np.array([[-0.01]]),
        omega=np.array([[two_pi / 8]]),
        phase=0 * one,
        delta=one,
    )
    # the same phase again after eight steps, and the opposite one after four
    np.testing.assert_allclose(o[8:], np.exp(-0.08) * o[:-8], atol=1e-12)
    np.testing.assert_allclose(o[4:], -np.exp(-0.04) * o[:-4], atol=1e-12)


@pytest.mark.parametrize("bad", [0.0, -np.inf])
def test_rates_that_are_none_are_refused(bad):
    x = s4d.MECHANISM.draw(Floats(3), 4, 6, 5)
    x["A"][1, 2] = bad
    with pytest.raises(ValueError, match=r"^A: expected finite values below 0, got"):
        s4d.parallel(**x)
