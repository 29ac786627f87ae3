"""The map of the mechanisms: the tree, and the command that prints it."""

from ctlearn.mixers import branches, mechanisms
from ctlearn.mixers.__main__ import main


def test_the_tree_holds_every_mechanism_once():
    names = [mechanism.name for mechanism, _, _ in branches()]
    assert sorted(names) == sorted(mechanisms())


def test_each_hangs_from_what_it_becomes():
    path = []
    for mechanism, when, depth in branches():
        path[depth:] = [mechanism.name]
        if depth:
            limit = mechanism.limits[0]
            assert (limit.target, limit.when) == (path[depth - 1], when)
        else:
            assert not mechanism.limits


def test_the_command_prints_every_place_and_every_limit(capsys):
    main()
    printed = " ".join(capsys.readouterr().out.split())
    for mechanism in mechanisms().values():
        assert f"[{mechanism.name}]" in printed
        assert mechanism.place.state in printed
        assert all(limit.when in printed for limit in mechanism.limits)
