"""Order of decay: three updates by hand, and how far apart their answers are."""

import numpy as np
import pytest

from ctlearn.supplies import float_difference
from ctlearn.tasks import decay_order

SEEDS = range(60)


def by_hand(inputs, update):
    """Outputs of S <- update(alpha, beta, k, S) + beta k v' as matrices."""
    S, o = np.zeros((inputs["k"].shape[1], inputs["v"].shape[1])), []
    alpha = np.exp(inputs["log_decay"])
    for t, (q, k, v) in enumerate(zip(*(inputs[n] for n in "qkv"), strict=True)):
        a = np.diag(alpha[t] * np.ones(len(k)))
        erase = inputs["beta"][t] * np.outer(k, k)
        S = update(a, erase) @ S + inputs["beta"][t] * np.outer(k, v)
        o.append(S.T @ q)
    return np.array(o)


@pytest.mark.parametrize(
    ("form", "per_channel", "update"),
    [
        (decay_order.decay_first, False, lambda a, E: (np.eye(5) - E) @ a),
        (decay_order.decay_first, True, lambda a, E: (np.eye(5) - E) @ a),
        (decay_order.read_first, False, lambda a, E: a - E),
        (decay_order.decay_last, True, lambda a, E: a @ (np.eye(5) - E)),
    ],
)
def test_each_order_is_the_matrix_it_says(form, per_channel, update):
    inputs = decay_order.draw(0, 12, 5, least=0.3, per_channel=per_channel)
    assert float_difference(form(inputs), by_hand(inputs, update)).equal


def gaps(other, per_channel):
    """Largest difference of outputs from those of decay first, for every seed."""
    found = []
    for seed in SEEDS:
        inputs = decay_order.draw(seed, 30, 6, least=0.8, per_channel=per_channel)
        found.append(abs(decay_order.decay_first(inputs) - other(inputs)).max())
    return np.array(found)


@pytest.mark.parametrize(
    ("other", "per_channel", "wanted"),
    [(decay_order.read_first, False, 0.22), (decay_order.decay_last, True, 0.098)],
)
def test_orders_differ_by_a_tenth_or_two(other, per_channel, wanted, record_property):
    """T9: one number for one draw elsewhere, of which T, d and gates are not given.

    The largest gap depends on all three, so what is compared is its order of size, for
    30 tokens, 6 channels and mild gates: within two deviations of the logs of draws.
    """
    logs = np.log(gaps(other, per_channel))
    assert abs(logs.mean() - np.log(wanted)) < 2 * logs.std(ddof=1)
    low, middle, high = np.exp(np.quantile(logs, [0.05, 0.5, 0.95]))
    record_property(
        f"gap of {other.__name__}",
        f"{middle:.3f} in the middle, 90 % in {low:.3f} to {high:.3f}; "
        f"elsewhere {wanted}",
    )


def test_one_rate_for_all_channels_commutes_with_the_erasure():
    """Decay last is decay first then, so the gap of KDA is the channels' alone."""
    inputs = decay_order.draw(3, 20, 6, least=0.2, per_channel=True)
    inputs["log_decay"] = np.repeat(inputs["log_decay"][:, :1], 6, axis=1)
    first, last = decay_order.decay_first(inputs), decay_order.decay_last(inputs)
    assert float_difference(first, last).equal


def test_without_decay_there_is_no_order():
    inputs = decay_order.draw(4, 20, 6, least=1, per_channel=False)
    first, read = decay_order.decay_first(inputs), decay_order.read_first(inputs)
    assert float_difference(first, read).equal
