"""A memory and attention beside it: what the two carry on."""

from typing import Any, NamedTuple

from ctlearn.layers.attention import Cache


class State(NamedTuple):
    """The memory's state, and the cache of what attention sees; None if empty."""

    memory: Any
    cache: Cache | None
