"""Documents: what is told and asked, and what gates do to a memory that reads on."""

import numpy as np
import pytest

from ctlearn.mixers import delta_rule, linear_attention
from ctlearn.supplies import float_difference
from ctlearn.tasks import documents
from ctlearn.tasks.documents import Gates

SIZES = {"documents": 3, "names": 6, "told": 4, "T": 9, "d_k": 12, "d_v": 5}


def test_every_told_name_has_its_latest_value_and_no_other_has_any():
    row = documents.draw(0, **SIZES)
    assert len(row.documents) == 3
    assert row.told.sum(axis=1).tolist() == [4, 4]
    for document in row.documents:
        latest = np.zeros((6, 5))
        for key, value in zip(document.k, document.v, strict=True):
            latest[(document.asked == key).all(axis=1)] = value
        assert (latest == document.answers).all()
    assert (row.documents[0].asked == row.documents[2].asked).all()


@pytest.mark.parametrize(
    ("beta", "rule", "rates"),
    [(None, linear_attention, {}), (0.7, delta_rule, {"beta": np.full(9, 0.7)})],
)
def test_a_reset_reads_each_document_alone(beta, rule, rates):
    row = documents.draw(1, **SIZES)
    said = documents.ask(row, Gates(beta=beta, reset=0))
    for answers, (k, v, asked, _) in zip(said, row.documents[1:], strict=True):
        _, S = rule.recurrent(k, k, v, **rates)
        assert float_difference(answers, asked @ S).equal


def test_a_late_reset_loses_what_came_before_it():
    row = documents.draw(2, **SIZES)
    (_, last) = documents.ask(row, Gates(beta=1.0, reset=3))
    k, v, asked, _ = row.documents[-1]
    _, S = delta_rule.recurrent(k[3:], k[3:], v[3:], beta=np.ones(6))
    assert float_difference(last, asked @ S).equal


def test_without_gates_the_row_is_one_document():
    row = documents.draw(3, **SIZES)
    (_, last) = documents.ask(row, Gates(alpha=0.9))
    k = np.concatenate([document.k for document in row.documents])
    v = np.concatenate([document.v for document in row.documents])
    kept = 0.9 ** np.arange(len(k))[::-1, None]
    assert float_difference(last, row.documents[-1].asked @ ((kept * k).T @ v)).equal


def test_errors_are_told_apart():
    row = documents.draw(4, **SIZES)
    silent, loud = 0 * row.answers, row.answers + 1
    assert np.allclose(documents.two_errors(silent, row), (1, 0))
    assert np.allclose(documents.two_errors(loud, row), (5, 5))


def test_gate_and_error_repair_different_faults():
    """The chapter's opening on other draws, with a margin of a tenth."""
    sizes = SIZES | {"documents": 5, "names": 16, "told": 8, "T": 24, "d_k": 64}
    rows = [documents.draw(seed, **sizes) for seed in range(20, 24)]

    def errors(**gates):
        parts = [
            documents.two_errors(documents.ask(row, Gates(**gates)), row)
            for row in rows
        ]
        return np.mean(parts, axis=0)

    both, error_alone = errors(beta=1.0, reset=0), errors(beta=1.0)
    gate_alone = errors(reset=0)
    assert error_alone[1] > both[1] + 0.3
    assert gate_alone[0] > both[0] + 0.3
