"""The contestants weigh the same, carry the same, and survive a file."""

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
safetensors = pytest.importorskip(
    "safetensors.torch", reason='no safetensors: pip install "ctlearn[torch]"'
)

from ctlearn.layers.gated_delta_rule import GatedDeltaRule  # noqa: E402
from ctlearn.train.contestants import (  # noqa: E402
    CONTESTANTS,
    Saved,
    Shape,
    Window,
    carried_bytes,
    load,
    save,
    weights,
)

A = 83


@pytest.mark.parametrize("contestant", CONTESTANTS)
@pytest.mark.parametrize("shape", [Shape(), Shape(d_model=128, n_layers=4, n_heads=4)])
def test_contestants_weigh_the_same_within_two_thousandths(shape, contestant):
    wanted = weights(shape._replace(contestant="states").build(A))
    own = weights(shape._replace(contestant=contestant).build(A))
    assert abs(own - wanted) < 2e-3 * wanted


def after(contestant, T):
    """The bytes that a model carries after T characters."""
    model = Shape(contestant).build(A)
    with torch.no_grad():
        return carried_bytes(model(torch.zeros(1, T, dtype=torch.long))[1])


def test_states_windows_and_the_hybrid_carry_the_same_at_any_length():
    # two layers: a state of 2 heads, and 3 inputs of a convolution of 3 x 64 channels
    wanted = 2 * 4 * (2 * 32 * 32 + 3 * 3 * 64)
    for contestant in ("states", "windows", "hybrid"):
        assert {after(contestant, T) for T in (16, 17, 100)} == {wanted}
    assert after("windows", 15) < wanted
    # attention keeps 128 numbers a character and layer
    assert after("attention", 100) == 2 * 4 * (100 * 128 + 3 * 3 * 64)
    assert after("states, no convolution", 100) == 2 * 4 * 2 * 32 * 32
    assert after("attention, no convolution", 100) == 2 * 4 * 100 * 128


@pytest.mark.parametrize("contestant", CONTESTANTS)
def test_what_stands_around_a_memory_is_the_same_for_all(contestant):
    around = {"qkv", "convolution", "norm", "gate", "out"}
    if "no convolution" in contestant:
        around.remove("convolution")
    for block in Shape(contestant).build(A).hybrid.blocks:
        parts = dict(block.mixer.named_children())
        assert around <= set(parts) <= around | {"rate", "passing"}
        assert isinstance(parts["norm"], torch.nn.RMSNorm)


def test_a_hybrid_has_a_state_and_then_a_window():
    kinds = [type(x.mixer) for x in Shape("hybrid").build(A).hybrid.blocks]
    assert kinds == [GatedDeltaRule, Window]


def test_a_model_survives_a_file(tmp_path):
    torch.manual_seed(0)
    shape, alphabet = Shape(d_model=16, n_heads=1, d_head=8), 'abc\n"é'
    model = shape.build(len(alphabet))
    save(tmp_path / "m.safetensors", Saved(model, shape, alphabet))
    again = load(tmp_path / "m.safetensors")
    assert (again.shape, again.alphabet) == (shape, alphabet)
    tokens = torch.arange(6)[None]
    assert torch.equal(again.model(tokens)[0], model(tokens)[0])


def test_a_file_of_another_hand_is_refused(tmp_path):
    safetensors.save_file({"x": torch.zeros(1)}, tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match="was not written by `save`"):
        load(tmp_path / "x.safetensors")
