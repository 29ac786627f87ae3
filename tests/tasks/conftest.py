"""What the tasks' tests share: agreement with published means, a layer by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ctlearn.mixers import delta_product


@pytest.fixture
def agrees(record_property: Callable[..., None]) -> Callable[..., bool]:
    """Whether the mean of our draws is the mean that another drew, within its error.

    `agrees(name, draws, wanted, drawn=6)`: `wanted` is printed as text, so that its
    last digit is known, and is the mean of `drawn` draws that we do not have. Two means
    of the same thing lie within three standard errors of each other, the spread being
    that of our draws, and printing rounds by half a digit more.
    """

    def check(name: str, draws: np.ndarray, wanted: str, drawn: int = 6) -> bool:
        mean, spread = np.mean(draws), np.std(draws, ddof=1)
        standard_error = spread * np.sqrt(1 / len(draws) + 1 / drawn)
        half_a_digit = 0.5 * 10.0 ** -len(wanted.partition(".")[2])
        record_property(name, f"{mean:.4f}, sd {spread:.4f}; elsewhere {wanted}")
        return bool(abs(mean - float(wanted)) <= 3 * standard_error + half_a_digit)

    return check


@pytest.fixture
def delta_product_of() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """A trained layer's logits [T, n] by the reference, and its last head's state.

    `w` holds its weights, `at` and `of` [T] the tokens read and those asked for.
    """

    def logits(
        w: dict[str, np.ndarray], kind: Any, at: np.ndarray, of: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        read = []
        for head in range(w["start"].shape[0]):
            k = w["k"][at, head]
            o, S = delta_product.recurrent(
                w["q"][of, head],
                (k / np.linalg.norm(k, axis=-1, keepdims=True))[:, : kind.steps],
                w["v"][at, head, : kind.steps],
                log_decay=np.zeros(len(at)),
                beta=kind.most / (1 + np.exp(-w["b"][at, head, : kind.steps])),
                S=w["start"][head],
            )
            read.append(o / np.sqrt((o**2).mean(axis=1, keepdims=True)))
        hidden = np.concatenate(read, axis=1) @ w["in"] + w["in_0"]
        return np.maximum(hidden, 0) @ w["out"] + w["out_0"], S

    return logits
