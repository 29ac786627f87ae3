"""The language model learns with every kind of mixer, and generates from its state."""

from functools import partial

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
safetensors = pytest.importorskip(
    "safetensors.torch", reason='no safetensors: pip install "ctlearn[torch]"'
)

import torch.nn.functional as F  # noqa: E402

from ctlearn.layers.gated_delta_rule import GatedDeltaRule  # noqa: E402
from ctlearn.layers.model import LanguageModel  # noqa: E402
from ctlearn.layers.sliding_window_attention import (  # noqa: E402
    SlidingWindowAttention,
)
from ctlearn.layers.softmax_attention import SoftmaxAttention  # noqa: E402

SIZES = {"n_heads": 1, "n_value_heads": 2, "d_k": 8, "d_v": 8}
GATED, EXACT = partial(GatedDeltaRule, **SIZES), partial(SoftmaxAttention, **SIZES)
N_TOKENS = 16


@pytest.fixture
def model():
    torch.manual_seed(0)
    stack = LanguageModel(N_TOKENS, 24, n_layers=3, pattern=[GATED, EXACT])
    return stack.double().requires_grad_(False)


@pytest.fixture
def one_thread():
    """These tensors are too small to be shared out between processors."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def prompt():
    return torch.randint(N_TOKENS, (3, 9), generator=torch.Generator().manual_seed(1))


def test_greedy_generation_is_a_pass_over_all_for_every_token(model, prompt):
    """Case 25: the state stands for all that was read."""
    generated = model.generate(prompt, 20)
    expected = prompt
    for _ in range(20):
        logits, _ = model(expected)
        expected = torch.cat([expected, logits[:, -1:].argmax(-1)], 1)
    assert torch.equal(generated, expected)


def test_sampling_follows_the_temperature(model, prompt):
    """Drawn from the softmax of the logits over it; 5 standard deviations."""
    one, draws, temperature = prompt[:1], 2000, 0.5
    shares = (model(one)[0][0, -1] / temperature).softmax(-1)
    rng = torch.Generator().manual_seed(2)
    many = model.generate(
        one.expand(draws, -1), 1, temperature=temperature, generator=rng
    )
    found = F.one_hot(many[:, -1], N_TOKENS).double().mean(0)
    allowed = 5 * (shares * (1 - shares) / draws).sqrt()
    assert ((found - shares).abs() <= allowed).all()
    assert shares.max() > 1.5 * shares.min()


def test_sampling_repeats_with_its_generator(model, prompt):
    first, second = (
        model.generate(
            prompt, 8, temperature=1.0, generator=torch.Generator().manual_seed(3)
        )
        for _ in range(2)
    )
    assert torch.equal(first, second)


def test_no_tokens_asked_for_are_none(model, prompt):
    assert torch.equal(model.generate(prompt, 0), prompt)


@pytest.mark.parametrize(
    ("names", "wrong"),
    [("n", {"n": -1}), ("temperature", {"temperature": -1.0}), ("tokens", {})],
)
def test_what_cannot_be_is_refused(model, prompt, names, wrong):
    tokens = prompt[:, :0] if names == "tokens" else prompt
    with pytest.raises(ValueError, match=f"^{names}"):
        model.generate(tokens, **({"n": 1} | wrong))


def test_weights_survive_a_file(model, prompt, tmp_path):
    file = tmp_path / "model.safetensors"
    safetensors.save_file(model.state_dict(), file)
    other = LanguageModel(N_TOKENS, 24, n_layers=3, pattern=[GATED, EXACT]).double()
    assert not torch.equal(other(prompt)[0], model(prompt)[0])
    other.load_state_dict(safetensors.load_file(file))
    assert torch.equal(other(prompt)[0], model(prompt)[0])


def recall(n=32, pairs=4):
    """Sequences key, value, key, value, ..., key, and the value of that last key."""
    rng = torch.Generator().manual_seed(4)
    keys = torch.stack([torch.randperm(8, generator=rng)[:pairs] for _ in range(n)])
    values = torch.randint(8, N_TOKENS, (n, pairs), generator=rng)
    asked = torch.randint(pairs, (n, 1), generator=rng)
    tokens = torch.stack([keys, values], -1).flatten(1)
    answers = values.gather(1, asked)[:, 0]
    return torch.cat([tokens, keys.gather(1, asked)], 1), answers


def least_loss(mixer, *, steps, enough):
    """Of two layers on the 32 sequences, in so many steps or until it is enough."""
    torch.manual_seed(0)
    model = LanguageModel(N_TOKENS, 32, n_layers=2, pattern=[mixer])
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    tokens, answers = recall()
    least = torch.inf
    for _ in range(steps):
        loss = F.cross_entropy(model(tokens)[0][:, -1], answers)
        least = min(least, loss.item())
        if least < enough:
            break
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return least


def test_two_layers_learn_32_sequences_by_heart(make, kind, one_thread):
    """Seeds 0, 1 and 2 need 21 to 37 steps, whatever the kind, but for LaCT.

    It takes 71 to 93, for it sees nothing of its mini-batch, where the question is.
    """
    mixer = partial(make, kind, **SIZES)
    assert least_loss(mixer, steps=160, enough=0.05) < 0.05


def test_layers_that_see_one_token_do_not(one_thread):
    """There are 8 last tokens and more answers: it takes a memory to learn them."""
    blind = partial(SlidingWindowAttention, window=1, **SIZES)
    assert least_loss(blind, steps=80, enough=0.05) > 0.5
