"""Other people's libraries, and what it is to agree with one."""

import importlib.util
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# The libraries by the module that is imported, with the distribution it is from.
DISTRIBUTIONS = {"fla": "fla-core", "torch": "torch", "transformers": "transformers"}
# Largest difference, relative to the largest value, that two ways to compute in
# float32 may show; ours is computed in float64. It is not loosened for anyone: a peer
# that cannot reach it has a test of its own among those that are known to be wrong.
AGREEMENT = 2e-6


@pytest.fixture(scope="session")
def peer() -> Iterator[Callable[..., Any]]:
    """Call "module:function" of another library with NumPy arrays, and be given some.

    flash-linear-attention has a process, all others share one in which it is not found.
    """
    # its files import Triton, though the functions asked here do not use it
    needed = [*DISTRIBUTIONS, "triton"]
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(
            f"no {', '.join(missing)} to compare with: `make test` installs what "
            "tests/peers/requirements.txt lists"
        )
    processes: dict[str, subprocess.Popen] = {}

    def call(function: str, **arguments: Any) -> Any:
        hidden = [] if function.startswith("fla.") else ["fla"]
        process = processes.get(str(hidden)) or subprocess.Popen(
            [sys.executable, "-P", Path(__file__).with_name("process.py"), *hidden],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        processes[str(hidden)] = process
        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump((function, arguments), process.stdin)
        process.stdin.flush()
        result, fault = pickle.load(process.stdout)
        assert not fault, fault
        return result

    yield call
    for process in processes.values():
        process.communicate()


@pytest.fixture(scope="session")
def gap() -> Callable[[Any, Any], float]:
    """How far apart two lists of arrays are, relative to the second's largest values.

    Axes of size one do not count. What is not finite is infinitely far.
    """

    def measure(theirs: list[np.ndarray], ours: list[np.ndarray]) -> float:
        gaps = []
        for a, b in zip(theirs, ours, strict=True):
            a, b = np.squeeze(a), np.squeeze(b)
            assert a.shape == b.shape
            gaps.append(np.abs(a - b).max() / np.abs(b).max())
        largest = float(np.max(gaps))
        return np.inf if np.isnan(largest) else largest

    return measure


def named(mechanism: str, function: str) -> dict[str, str]:
    """What a row of a table begins with."""
    module, _, name = function.partition(":")
    distribution = DISTRIBUTIONS[module.partition(".")[0]]
    peer = f"{distribution} {version(distribution)}"
    return {"mechanism": mechanism, "peer": peer, "function": name}


@pytest.fixture
def agrees(gap, record_property) -> Callable[..., None]:
    """Hold a peer's arrays to ours, and put the difference into the table."""

    def hold(mechanism: str, function: str, theirs: list, ours: list) -> None:
        difference = gap(theirs, ours)
        row = {"largest relative difference": f"{difference:.1e}"}
        record_property("agreement with peers", named(mechanism, function) | row)
        assert difference <= AGREEMENT

    return hold


@pytest.fixture
def differs(gap, record_property) -> Callable[..., None]:
    """Show that a peer is wrong, that ours is not, and that the fault is the one named.

    `truth` is a recurrence in float64 that neither of them wrote; the peer is at least
    `least` away from it, and ours no further than `allowed`. `with_fault` is the truth
    with the fault put in, with which the peer agrees, where it is known so well.
    """

    def hold(  # noqa: PLR0913 - a row and what proves it
        mechanism: str,
        function: str,
        fault: str,
        *,
        theirs: list,
        ours: list,
        truth: list,
        least: float,
        allowed: float = 1e-12,
        with_fault: list | None = None,
    ) -> None:
        errors = {"theirs": gap(theirs, truth), "ours": gap(ours, truth)}
        texts = {n: f"{x:.1e}" if np.isfinite(x) else "NaN" for n, x in errors.items()}
        row = named(mechanism, function) | {"what is wrong": fault} | texts
        record_property("peers that are known to be wrong", row)
        assert errors["theirs"] >= least > AGREEMENT
        assert errors["ours"] <= allowed
        assert with_fault is None or gap(theirs, with_fault) <= AGREEMENT

    return hold
