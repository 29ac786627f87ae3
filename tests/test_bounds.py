"""Bounds under attack: whoever looks for a number that passes one finds none.

Every bound of the ledger is asked of numbers that hypothesis picks, which likes zeros,
twins and extremes, and of a search that walks to where the bound is closest. What the
search reaches is printed, so that a bound too loose to say anything shows.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctlearn.identities import identities
from ctlearn.identities.engine import identity
from ctlearn.supplies import Supply, float_difference

BOUNDS = {
    name: claim
    for name, claim in identities().items()
    if claim.kind == "bound" and "floats" in claim.worlds
}
SIZES = {"T": 4, "C": 3, "N": 4, "d_k": 3, "d_v": 2, "d": 3}
every_bound = pytest.mark.parametrize("claim", BOUNDS.values(), ids=BOUNDS)


class Chosen(Supply):
    """Floats that somebody else chooses: `numbers` are any, drawn in turn."""

    world = "floats"

    def __init__(self, numbers):
        self._numbers = numbers

    def real(self, name, *shape):
        """The next numbers."""
        return np.array(self._numbers(int(np.prod(shape)))).reshape(shape)

    def rate(self, name, *shape):
        """The next, bent into the range of the other floats."""
        return 0.05 + 0.9 / (1 + np.exp(-self.real(name, *shape)))

    def positive(self, name, *shape):
        """The exponentials of the next."""
        return np.exp(self.real(name, *shape))

    def difference(self, left, right):
        """As for all floats."""
        return float_difference(left, right)


def room(claim, supply):
    """The least of right - left, relative to the sizes of both, over all parts."""
    sizes = {name: SIZES[name] for name in claim.sizes}
    sides = claim.claim(supply, **sizes)
    gaps = []
    for left, right in (sides if isinstance(sides, dict) else {"": sides}).values():
        left, right = np.asarray(left, float), np.asarray(right, float)
        assert np.isfinite(left).all()
        assert np.isfinite(right).all()
        scale = np.maximum(1, np.maximum(np.abs(left), np.abs(right)))
        gaps.append(float(np.min((right - left) / scale)))
    return min(gaps)


def closest(claim, seed, steps=150):
    """The least room that a walk finds which keeps every step that brings it closer."""
    rng = np.random.default_rng(seed)
    here: list[float] = []

    def at(numbers):
        used = 0

        def give(n):
            nonlocal used
            while len(numbers) < used + n:
                # the first run learns how many numbers the claim asks for
                numbers.append(float(rng.standard_normal()))
            used += n
            return numbers[used - n : used]

        return room(claim, Chosen(give))

    best = at(here)
    width = 1.0
    for _ in range(steps):
        there = list(np.array(here) + width * rng.standard_normal(len(here)))
        found = at(there)
        if found < best:
            here, best, width = there, found, min(2.0, 1.5 * width)
        else:
            width = max(1e-3, 0.9 * width)
    return best


@every_bound
def test_a_search_finds_no_number_that_passes(claim, record_property):
    found = min(closest(claim, seed) for seed in range(3))
    record_property("bounds", {"bound": claim.name, "closest": f"{found:.1e}"})
    assert found >= -1e-12


@every_bound
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(data=st.data())
def test_picked_numbers_do_not_pass(claim, data):
    number = st.one_of(
        st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5]),
        st.floats(-6, 6, allow_subnormal=False),
    )

    def give(n):
        return data.draw(st.lists(number, min_size=n, max_size=n))

    assert room(claim, Chosen(give)) >= -1e-12


@pytest.mark.parametrize("slack", [0.0, 0.5])
def test_a_bound_that_is_sometimes_passed_is_found_out(slack):
    """A cosine above 0.9 needs a walk: three random draws do not show it."""

    def cosine(supply, d):
        x, y = supply.real("x", d), supply.real("y", d)
        lengths = np.linalg.norm(x) * np.linalg.norm(y)
        return np.array([x @ y / lengths]), np.array([0.9 + slack])

    claim = identity(
        name="x", title="x", statement="0", source="ours", kind="bound", mutants={}
    )(cosine)
    assert (closest(claim, 0) < 0) == (slack == 0)
