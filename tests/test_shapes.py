"""The glossary and the checks that are read off it."""

import re

import numpy as np
import pytest
import sympy

from ctlearn.shapes import GLOSSARY, check, checked, checked_step

ROLES = {"key", "value", "query", "state", "output", "error", "decay", "rate", "size"}


def test_every_entry_is_complete_and_its_shapes_are_known():
    for name, symbol in GLOSSARY.items():
        assert symbol.name == name
        assert symbol.tex
        assert symbol.meaning
        assert symbol.role in ROLES
        for shape in symbol.shapes:
            assert all(GLOSSARY[letter].role == "size" for letter in shape)


def test_shapes_read_as_a_reader_writes_them():
    assert GLOSSARY["q"].shape_text() == "[T, d_k]"
    assert GLOSSARY["log_decay"].shape_text() == "[T] or [T, d_k]"


def test_a_letter_means_one_size():
    q, k = np.ones((5, 3)), np.ones((4, 3))
    sentence = "k: T is 4 but q has T = 5 (expected [T, d_k], got shape (4, 3))"
    with pytest.raises(ValueError, match=re.escape(sentence)):
        check({"q": q, "k": k})


def test_names_outside_the_glossary_and_none_are_left_alone():
    check({"q": np.ones((2, 3)), "S": None, "read_first": True, "anything": "at all"})


def test_both_decay_shapes_are_read():
    q = np.ones((4, 3))
    check({"q": q, "log_decay": np.zeros(4)})
    check({"q": q, "log_decay": np.zeros((4, 3))})
    with pytest.raises(ValueError, match=r"log_decay: expected \[T\] or \[T, d_k\]"):
        check({"q": q, "log_decay": np.zeros((4, 3, 1))})


@pytest.mark.parametrize("bad", [0.5, np.nan, np.inf])
def test_decays_that_grow_or_are_not_numbers_are_refused(bad):
    with pytest.raises(ValueError, match=r"log_decay: expected values in \[−∞, 0\]"):
        check({"log_decay": np.array([0.0, -np.inf, bad])})


def test_symbolic_decays_of_unknown_sign_pass_and_positive_numbers_do_not():
    unknown = np.array([sympy.Symbol("g"), -sympy.oo, sympy.Integer(0)], dtype=object)
    check({"log_decay": unknown})
    with pytest.raises(ValueError, match=r"got a positive one"):
        check({"log_decay": np.array([sympy.Rational(1, 2)], dtype=object)})


def test_steps_see_one_token():
    @checked_step
    def step(q, *, log_gamma, S):
        return q

    step(np.ones(3), log_gamma=-0.5, S=np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"^q: expected \[d_k\]"):
        step(np.ones((4, 3)), log_gamma=-0.5, S=np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"^log_gamma: expected values"):
        step(np.ones(3), log_gamma=0.5, S=np.ones((3, 2)))


def test_a_checked_form_keeps_its_name_and_signature():
    @checked
    def form(q, k):
        """Do nothing."""
        return q, k

    assert form.__name__ == "form"
    assert form.__doc__ == "Do nothing."
    with pytest.raises(TypeError, match=r"missing a required argument"):
        form(np.ones((2, 2)))


@pytest.mark.parametrize("bad", [-1.0, np.nan])
def test_rates_that_have_a_sign_are_held_to_it(bad):
    with pytest.raises(ValueError, match=r"^ridge: expected a number above 0, got"):
        check({"ridge": bad})
    with pytest.raises(ValueError, match=r"^delta: expected numbers at least 0, got"):
        check({"delta": np.array([1.0, bad])})
    check({"delta": np.zeros(2), "eps": 0.0})
    with pytest.raises(ValueError, match=r"^ridge: expected a number above 0, got 0"):
        check({"ridge": 0.0})


def test_no_sign_is_asked_of_a_symbol():
    x, zero = sympy.Symbol("x", real=True), sympy.Integer(0)
    check({"ridge": x})
    with pytest.raises(ValueError, match=r"^ridge: expected a number above 0, got 0"):
        check({"ridge": zero})
