"""All kinds of layers, found where they are, for the tests that hold for each."""

import importlib
import inspect
import pkgutil

import pytest


def _stem(kind):
    return kind.__module__.rpartition(".")[2]


def _kinds():
    """The mixers that are defined in a module of ctlearn.layers and can be made."""
    from ctlearn import layers
    from ctlearn.layers.mixer import Mixer

    found = set()
    for module in pkgutil.iter_modules(layers.__path__, f"{layers.__name__}."):
        members = vars(importlib.import_module(module.name)).values()
        found |= {x for x in members if isinstance(x, type) and issubclass(x, Mixer)}
    return sorted((x for x in found if not inspect.isabstract(x)), key=_stem)


def pytest_generate_tests(metafunc):
    """A test that asks for `kind` runs for each; only files that need torch do."""
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", _kinds(), ids=_stem)


@pytest.fixture(scope="session")
def kinds():
    """All kinds of layers."""
    return _kinds()


# As many as heads of 8 channels need, as few tokens as sequences of 9 can spare, and
# no Muon, which magnifies rounding in directions that so few tokens lack.
FEW = {"steps": 8, "inner_batch": 3, "muon": ()}


@pytest.fixture(scope="session")
def make():
    """Makes a layer, with the constants that its mechanism is tested at, or few."""
    from ctlearn import mixers

    mechanisms = mixers.mechanisms()

    def make(kind, d_model, **sizes):
        own = inspect.signature(kind).parameters
        few = {name: n for name, n in FEW.items() if name in own}
        constants = mechanisms[_stem(kind)].constants | few
        return kind(d_model, **constants | sizes)

    return make
