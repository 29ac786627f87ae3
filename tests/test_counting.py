"""The counter of multiplications: it counts, and changes nothing."""

import numpy as np
import pytest

from ctlearn.counting import Tally, count
from ctlearn.mixers import delta_rule, linear_attention, softmax_attention
from ctlearn.mixers.softmax_attention import Cache

A, B = np.ones((2, 3)), np.ones((3, 4))
x, y = np.ones(3), np.ones(4)


@pytest.mark.parametrize(
    ("form", "products", "scalings"),
    [
        (lambda a, b: a @ b, 2 * 3 * 4, 0),
        (lambda a, b: a[0] @ b, 3 * 4, 0),
        (lambda a, b: a[0] @ b[:, 0], 3, 0),
        (lambda a, b: np.outer(a[0], b[0]), 3 * 4, 0),
        (lambda a, b: np.multiply.outer(a[0], b[0]), 3 * 4, 0),
        (lambda a, b: 2 * a, 0, 6),
        (lambda a, b: a**2, 0, 6),
        (lambda a, b: a + a - a / 3, 0, 0),
        (lambda a, b: np.exp(a).sum(), 0, 0),
        # what is made of a counted array is one
        (lambda a, b: np.tril(a.copy()) @ np.concatenate([b, b])[:3], 24, 0),
        (lambda a, b: np.where(a > 0, a, 0) * 2, 0, 6),
    ],
)
def test_what_is_counted(form, products, scalings):
    assert count(form, A, B) == Tally(products, scalings)


def test_what_no_input_is_in_is_not_counted():
    assert count(lambda a: A @ B, A) == Tally(0, 0)


def test_in_place_operations_count_and_write():
    done = []

    def form(a):
        a *= 3
        done.append(np.asarray(a))

    assert count(form, A.copy()) == Tally(0, 6)
    assert (done[0] == 3).all()


def test_states_of_several_arrays_are_counted_too():
    T, d_k, d_v = 4, 3, 2
    S = Cache(np.ones((5, d_k)), np.ones((5, d_v)))
    q = np.ones((T, d_k))
    tally = count(softmax_attention.parallel, q, q, np.ones((T, d_v)), S=S)
    assert tally.products == T * (T + 5) * (d_k + d_v)


@pytest.mark.parametrize("mixer", [linear_attention, delta_rule, softmax_attention])
def test_a_form_does_the_same_while_it_is_counted(mixer):
    from ctlearn.supplies import Floats

    inputs = mixer.MECHANISM.draw(Floats(0), 5, 3, 4)
    before = {name: a.copy() for name, a in inputs.items()}
    out = []

    def form(**given):
        out.append(mixer.recurrent(**given)[0])

    assert count(form, **inputs).products > 0
    np.testing.assert_array_equal(np.asarray(out[0]), mixer.recurrent(**inputs)[0])
    assert all((inputs[name] == before[name]).all() for name in inputs)
