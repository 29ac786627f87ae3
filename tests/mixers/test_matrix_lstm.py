"""The stabilised matrix LSTM is the plain one, and does not overflow."""

import numpy as np

from ctlearn.mixers import gated_linear_attention, matrix_lstm, mechanisms
from ctlearn.mixers import normalised_linear_attention as normalised
from ctlearn.supplies import Floats

MLSTM = mechanisms()["matrix_lstm"]


def plain(q, k, v, log_decay, log_write):
    """The recurrence without m."""
    C, n, outputs = np.zeros((q.shape[1], v.shape[1])), np.zeros(q.shape[1]), []
    for t in range(len(q)):
        f, i = np.exp(log_decay[t]), np.exp(log_write[t])
        C, n = f * C + i * np.outer(k[t], v[t]), f * n + i * k[t]
        outputs.append(C.T @ q[t] / max(abs(n @ q[t]), 1))
    return np.array(outputs)


def test_the_stabiliser_changes_nothing():
    x = MLSTM.draw(Floats(0), 40, 5, 3)
    np.testing.assert_allclose(matrix_lstm.recurrent(**x)[0], plain(**x), atol=1e-12)
    np.testing.assert_allclose(matrix_lstm.parallel(**x)[0], plain(**x), atol=1e-12)


def test_another_start_of_the_stabiliser_changes_nothing():
    x = MLSTM.draw(Floats(1), 20, 5, 3)
    empty = matrix_lstm.State(np.zeros((5, 3)), np.zeros(5), np.array(7.0))
    np.testing.assert_allclose(
        matrix_lstm.chunkwise(**x, S=empty)[0],
        matrix_lstm.recurrent(**x)[0],
        atol=1e-12,
    )


def test_writes_of_any_strength_stay_finite_and_agree():
    x = MLSTM.draw(Floats(2), 130, 5, 3)
    x["log_write"] *= 1000
    with np.errstate(over="raise", invalid="raise"):
        o, S = matrix_lstm.recurrent(**x)
        o_chunk, S_chunk = matrix_lstm.chunkwise(**x, chunk_size=16)
    assert np.isfinite(o).all()
    np.testing.assert_allclose(o_chunk, o, atol=1e-9)
    np.testing.assert_allclose(S_chunk.S, S.S, atol=1e-9)
    # what the plain recurrence would have had to hold
    assert x["log_write"].max() > np.log(np.finfo(float).max)


def test_minus_infinity_starts_anew():
    """Case 4, and a token that neither keeps nor writes."""
    x = MLSTM.draw(Floats(3), 12, 5, 3)
    x["log_decay"][4] = -np.inf
    rest = {name: a[4:] for name, a in x.items()}
    for form in (matrix_lstm.recurrent, matrix_lstm.parallel):
        np.testing.assert_allclose(
            form(**x)[0][4:], matrix_lstm.recurrent(**rest)[0], atol=1e-12
        )
    x["log_write"][4] = -np.inf
    for form in (matrix_lstm.recurrent, matrix_lstm.parallel):
        o, _ = form(**x)
        assert np.array_equal(o[4], np.zeros(3))
        assert np.isfinite(o).all()


def test_it_is_a_ratio_of_two_gated_linear_attentions():
    x = MLSTM.draw(Floats(4), 20, 5, 3)
    write = np.exp(x["log_write"])[:, None]
    values = np.concatenate([write * x["v"], write], axis=1)
    decay = x["log_decay"][:, None] + np.zeros((1, 5))
    both, _ = gated_linear_attention.parallel(x["q"], x["k"], values, log_decay=decay)
    ratio = both[:, :-1] / np.maximum(np.abs(both[:, -1:]), 1)
    np.testing.assert_allclose(matrix_lstm.recurrent(**x)[0], ratio, atol=1e-12)


def test_on_positive_features_above_the_floor_it_is_normalised_linear_attention():
    x = MLSTM.draw(Floats(5), 20, 5, 3)
    q, k = 1 + np.abs(x["q"]), 1 + np.abs(x["k"])
    zeros = np.zeros(20)
    o, _ = matrix_lstm.chunkwise(q, k, x["v"], log_decay=zeros, log_write=zeros)
    expected, _ = normalised.parallel(q, k, x["v"], phi=lambda x: x)
    np.testing.assert_allclose(o, expected, atol=1e-12)


def test_the_floor_is_not_free_of_scale():
    x = MLSTM.draw(Floats(6), 20, 5, 3)
    o, _ = matrix_lstm.recurrent(**x)
    louder, _ = matrix_lstm.recurrent(**(x | {"log_write": x["log_write"] + 3}))
    assert np.abs(louder - o).max() > 0.1
