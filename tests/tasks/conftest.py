"""What the tasks' tests share: when a mean of draws agrees with a published one."""

from collections.abc import Callable

import numpy as np
import pytest


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
