"""The listing is the function that runs."""

import numpy as np
import pytest

from ctlearn.listing import Listing
from ctlearn.mixers import linear_attention, softmax_attention


def test_a_listing_is_the_source_that_runs():
    shown = Listing(linear_attention.chunkwise)
    scope = dict(vars(linear_attention))
    exec(repr(shown), scope)
    q = np.random.default_rng(0).standard_normal((3, 5, 2))
    o, _ = scope["chunkwise"](*q, chunk_size=2)
    assert (o == linear_attention.chunkwise(*q, chunk_size=2)[0]).all()
    assert shown._repr_markdown_() == f"```python\n{shown!r}\n```"
    assert repr(shown).startswith("@checked\ndef chunkwise(")


def test_what_a_page_cannot_hold_is_refused():
    with pytest.raises(ValueError, match=r"RunningMean has \d+ lines; a page holds 25"):
        Listing(softmax_attention.RunningMean)
