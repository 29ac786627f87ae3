"""Models that differ in how they remember and in nothing else.

Each is a stack of blocks with one alphabet, one width and one depth. All mixers have
the same heads, the same short convolution in front of queries, keys and values, and the
same norm and gate behind the answers. What is between is a state that the gated delta
rule keeps, a window as long as takes the same room, or all that was read:

    window = d_k d_v / (d_k + d_v) tokens

So two layers with states, two with windows, and one of each carry on the same number of
bytes. The gates of the delta rule take a few weights more, and a perceptron of another
width makes up for them.
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ctlearn import cost
from ctlearn.layers.gated_delta_rule import GatedDeltaRule
from ctlearn.layers.mixer import Mixer
from ctlearn.layers.model import LanguageModel
from ctlearn.layers.sliding_window_attention import SlidingWindowAttention
from ctlearn.layers.softmax_attention import SoftmaxAttention


class Window(SlidingWindowAttention):
    """Attention to the last tokens, with all that the gated delta rule has around it.

    `window` is as long as a state of the same heads is large.
    """

    width = GatedDeltaRule.width
    normed = GatedDeltaRule.normed
    squash = F.silu

    def __init__(self, d_model: int, *, d_k: int, d_v: int, **sizes: Any):
        window = round(cost.equal_bytes(d_k, d_v))
        super().__init__(d_model, window=window, d_k=d_k, d_v=d_v, **sizes)


class Everything(SoftmaxAttention):
    """The same without an end."""

    width = GatedDeltaRule.width
    normed = GatedDeltaRule.normed
    squash = F.silu


class PlainState(GatedDeltaRule):
    """The gated delta rule without its short convolution."""

    width = 0


class PlainEverything(Everything):
    """Attention without one, as most models have it."""

    width = 0


CONTESTANTS: Mapping[str, tuple[type[Mixer], ...]] = {
    "states": (GatedDeltaRule,),
    "windows": (Window,),
    "hybrid": (GatedDeltaRule, Window),
    "attention": (Everything,),
    "states, no convolution": (PlainState,),
    "attention, no convolution": (PlainEverything,),
}
# the one whose perceptrons have the width that is asked for
MEASURE = "states"
# under which a file says what it holds
KEY = "ctlearn.train"


class Shape(NamedTuple):
    """Which contestant, and its sizes; `d_head` channels in each key and value."""

    contestant: str = "hybrid"
    d_model: int = 64
    n_layers: int = 2
    n_heads: int = 2
    d_head: int = 32

    def build(self, n_tokens: int) -> LanguageModel:
        """The model, with the weights that torch's generator draws.

        Raises KeyError for a contestant that there is not.
        """
        return self._stack(n_tokens, self.d_hidden())

    def d_hidden(self) -> int:
        """The width of perceptrons at which all contestants weigh the same.

        It is twice d_model for the measure, and for others differs by what their mixers
        weigh more or less, to the nearest whole unit.
        """
        width = 2 * self.d_model
        with torch.device("meta"):
            wanted, own = (
                weights(shape._stack(1, width))
                for shape in (self._replace(contestant=MEASURE), self)
            )
        # a unit has a weight for each channel in three maps
        return width + round((wanted - own) / (3 * self.d_model * self.n_layers))

    def _stack(self, n_tokens: int, d_hidden: int) -> LanguageModel:
        sizes: dict[str, Any] = {
            "n_heads": self.n_heads,
            "d_k": self.d_head,
            "d_v": self.d_head,
        }
        pattern = [partial(kind, **sizes) for kind in CONTESTANTS[self.contestant]]
        stack: dict[str, Any] = {"n_layers": self.n_layers, "pattern": pattern}
        return LanguageModel(n_tokens, self.d_model, d_hidden=d_hidden, **stack)


def weights(model: nn.Module) -> int:
    """How many numbers a model learns."""
    return sum(weight.numel() for weight in model.parameters())


def carried_bytes(state: Any) -> int:
    """Bytes of all arrays in a state: what a model carries from token to token."""
    if isinstance(state, Tensor):
        return state.nbytes
    return sum(map(carried_bytes, state)) if isinstance(state, tuple) else 0


class Saved(NamedTuple):
    """A model, what it was built as, and the characters that it knows."""

    model: LanguageModel
    shape: Shape
    alphabet: str


def save(file: str | Path, saved: Saved) -> None:
    """Everything in one file, `name.safetensors`, which holds numbers and no code."""
    said = json.dumps([saved.shape, saved.alphabet])
    save_file(saved.model.state_dict(), file, metadata={KEY: said})


def load(file: str | Path) -> Saved:
    """What `save` wrote.

    Raises ValueError if something else wrote the file.
    """
    with safe_open(file, framework="pt") as stored:
        said = (stored.metadata() or {}).get(KEY)
    if said is None:
        raise ValueError(f"file: {file} was not written by `save`")
    sizes, alphabet = json.loads(said)
    shape = Shape(*sizes)
    model = shape.build(len(alphabet))
    model.load_state_dict(load_file(file))
    return Saved(model, shape, alphabet)
