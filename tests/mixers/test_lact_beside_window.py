"""LaCT beside a window: its two parts, who sees what, and what is left of either."""

import numpy as np
import pytest

from ctlearn.mixers import lact, sliding_window_attention
from ctlearn.mixers import lact_beside_window as both
from ctlearn.mixers.memory_as_layer import State
from ctlearn.supplies import Floats


def drawn(T=13, **constants):
    """Inputs, and a network of random weights before an empty cache."""
    x = both.MECHANISM.draw(Floats(0), T, 5, 4) | constants
    return x, both.drawn_start(Floats(1), 5, 4)


def test_the_released_norm_and_scale_of_the_networks_answer():
    """Attention plus rms_norm(f(q)) gain silu(scale), in torch's own functions."""
    torch = pytest.importorskip("torch")
    x, S = drawn()
    gain, scale = Floats(2).real("gain", 4), Floats(3).real("scale", 13, 1)
    silu = torch.nn.functional.silu(torch.tensor(scale)).numpy()
    x["zeta"] = np.sqrt(4) * gain * silu
    o, _ = both.chunkwise(**x, S=S)
    names = ("q", "k", "v", "log_mu", "beta", "muon", "inner_batch")
    m, _ = lact.recurrent(**{name: x[name] for name in names}, S=S.memory)
    normed = torch.nn.functional.rms_norm(
        torch.tensor(m), (4,), torch.tensor(gain), eps=1e-6 / 4
    )
    wanted = normed.numpy() * silu
    for t in range(13):
        seen = slice(max(0, t - 2), t + 1)
        weights = np.exp(x["k"][seen] @ x["q"][t])
        wanted[t] += weights @ x["v"][seen] / weights.sum()
    np.testing.assert_allclose(o, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("window", "inner_batch"), [(4, 4), (6, 4), (2, 4), (1, 6)])
def test_between_window_and_network_tokens_are_seen_only_with_a_window_as_long(
    window, inner_batch
):
    """Change one token, and see which answers change."""
    T = 13
    x, S = drawn(T, window=window, inner_batch=inner_batch)
    o, _ = both.recurrent(**x, S=S)
    seen = np.zeros((T, T), dtype=bool)
    for j in range(T):
        v = x["v"].copy()
        v[j] += 1
        changed, _ = both.recurrent(**(x | {"v": v}), S=S)
        seen[:, j] = (changed != o).any(axis=1)
    t, j = np.arange(T)[:, None], np.arange(T)
    near = (t - window < j) & (j <= t)
    learned = j < t // inner_batch * inner_batch
    assert np.array_equal(seen, near | learned)
    assert np.array_equal(seen, j <= t) == (window >= inner_batch)


def test_without_a_share_of_the_network_it_is_the_window_from_any_start():
    x, S = drawn()
    o, _ = both.chunkwise(**(x | {"zeta": 0 * x["zeta"]}), S=S)
    tokens = [x[name] for name in ("q", "k", "v")]
    y, _ = sliding_window_attention.recurrent(*tokens, window=3)
    np.testing.assert_allclose(o, y, rtol=0, atol=1e-14)
    assert np.abs(both.chunkwise(**x, S=S)[0] - y).max() > 0.1


def test_training_shows_in_the_answers():
    """Not only the weights that it starts with: without steps it answers otherwise."""
    x, S = drawn()
    o, trained = both.recurrent(**x, S=S)
    untrained, _ = both.recurrent(**(x | {"beta": 0 * x["beta"]}), S=S)
    assert np.array_equal(o[:3], untrained[:3])
    assert np.abs(o[3:] - untrained[3:]).max() > 0.01
    assert len(trained.cache.K) == 3
    assert int(trained.memory.seen) == 1


def test_a_wrong_state_is_named():
    x, S = drawn()
    with pytest.raises(TypeError, match=r"^S: expected a State\(memory, cache\)"):
        both.recurrent(**x, S=S.memory)
    with pytest.raises(TypeError, match=r"^S: expected a State\(f, total"):
        both.recurrent(**x, S=State(S.cache, S.cache))
