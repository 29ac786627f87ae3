"""The ledger, and the engine behind it: what is false must not pass."""

import json

import numpy as np
import pytest

from ctlearn.identities import identities
from ctlearn.identities.__main__ import entry, main
from ctlearn.identities.engine import KINDS, STATEMENT, identity, run
from ctlearn.identities.pairings import PAIRINGS
from ctlearn.identities.touched import mechanisms_of
from ctlearn.printed import AsPrinted, Numbers
from ctlearn.supplies import Floats

every_identity = pytest.mark.parametrize(
    "claim", identities().values(), ids=lambda claim: claim.name
)


@pytest.fixture(scope="module")
def ledger(tool, root):
    """What the build that came before found, if it ran this very code; else nothing."""
    build = tool("build")
    if not build.is_proved(build.digest(root, build.CODE)):
        return {}
    return {x["name"]: x for x in json.loads(build.LEDGER.read_text())["entries"]}


@every_identity
def test_holds_and_every_mutant_is_caught(claim, ledger):
    found = ledger.get(claim.name) or entry(run(claim))
    assert found["passed"], "\n".join(found["failures"])
    assert {x["name"] for x in found["mutants"]} == set(claim.mutants) != set()
    assert all(x["killed"] for x in found["mutants"])


def test_every_pairing_is_of_a_limit():
    limits = {name for name, claim in identities().items() if claim.kind == "limit"}
    assert set(PAIRINGS) <= limits


# What no single step can prove, each with the reason.
NOT_BY_INDUCTION = {
    "constructed-attention-becomes-delta-rule": "batch-and-online-orthogonal-keys",
    "delta-rule-becomes-linear-attention": "batch-and-online-orthogonal-keys",
    "kernel-ridge-attention-becomes-mesa-net": "inverses of growing systems",
    "kernelised-delta-rule-becomes-kernel-ridge-attention": "growing systems, too",
    "lact-beside-window-becomes-sliding-window-attention": "floats: lengths are roots",
    "recursive-least-squares-becomes-mesa-net": "test-time-regression-matrix-gain",
}


def test_limits_are_proved_by_induction():
    """From any two states that are a pair, one token at a time."""
    apart = set()
    for name, claim in identities().items():
        if claim.kind == "limit" and "becomes" in name:
            sizes = {"T": 1, "d_k": 2, "d_v": 2}
            parts = claim.claim(Floats(0), **sizes)
            if not {"base", "step"} <= set(parts):
                apart.add(name)
    assert apart == set(NOT_BY_INDUCTION)


@every_identity
def test_declaration(claim, bibtex_keys, root):
    assert claim.kind in KINDS
    assert claim.title
    assert claim.statement
    assert claim.source
    assert set(claim.citations) <= bibtex_keys
    assert all(label.startswith(("eq-", "def-")) for label in claim.equations)
    if claim.chapter:
        assert (root / "notebooks" / f"{claim.chapter}.ipynb").exists()
    assert (root / claim.place[0]).exists()


def test_a_label_is_claimed_once():
    labels = [label for claim in identities().values() for label in claim.equations]
    assert len(labels) == len(set(labels))


def planted(claim, **declared):
    """Declare a claim that is not in the ledger."""
    given = {"title": "planted", "statement": "0 = 0", "source": "ours", "name": "x"}
    return identity(**{**given, **declared})(claim)


def add_one(supply, d, *, off=0):
    x = supply.real("x", d)
    return x + 1, 1 + x + off


def test_a_true_claim_passes_with_its_mutant():
    result = run(planted(add_one, mutants={"off by one": {"off": 1}}))
    assert result.passed
    assert result.mutants == {"off by one": True}
    assert result.methods == (
        "exact rationals at random d ≤ 5, 3 draws",
        "symbols at d = 2",
        "float64 at d = 12, difference 0",
    )


def test_a_mutant_that_changes_nothing_fails():
    result = run(planted(add_one, mutants={"no change": {"off": 0}}))
    assert result.failures == ("mutant survives: no change",)


def test_only_symbols_catch_what_holds_at_the_numbers_drawn():
    """A product of all fractions that rationals can draw vanishes on each of them."""

    def claim(supply, d, *, off=0):
        x = supply.real("x", d)
        if supply.world == "floats":
            return 0 * x, 0 * x + off
        tops, bottoms = range(-9, 10), range(1, 6)
        ratios = {float(a / b): (a, b) for a in tops for b in bottoms}
        product = np.ones(d, dtype=object)
        for a, b in list(ratios.values())[:: 1 if supply.world == "rationals" else 20]:
            product = product * (b * x - a)
        return product, 0 * x + off

    result = run(planted(claim, mutants={"off": {"off": 1}}))
    assert [failure.split(":")[0] for failure in result.failures] == ["symbols"]


def test_only_rationals_catch_what_holds_at_the_symbols_sizes():
    def claim(supply, d, *, off=0):
        x = supply.real("x", d)
        wrong = (d - 2) * (d - 12)
        return x, x + wrong + off

    result = run(planted(claim, mutants={"off": {"off": 1000}}))
    assert {failure.split(":")[0] for failure in result.failures} == {"rationals"}


def test_only_floats_catch_what_fails_at_large_sizes():
    def claim(supply, d, *, off=0):
        x = supply.real("x", d)
        return x, x + int(d > 6) + off

    result = run(planted(claim, mutants={"off": {"off": 1}}))
    assert [failure.split(":")[0] for failure in result.failures] == ["floats"]


def test_nan_is_a_difference():
    def claim(supply, d, *, off=0):
        x = supply.real("x", d)
        return x + off, np.nan * x

    result = run(planted(claim, mutants={"off": {"off": 1}}, worlds=("floats",)))
    assert result.failures


def test_a_claim_that_raises_is_reported_and_does_not_stop_the_run():
    def claim(supply, d):
        raise KeyError("no such letter")

    result = run(planted(claim, mutants={}, worlds=("floats",)))
    assert result.failures == ("floats: KeyError: 'no such letter'",)


def test_base_and_step_are_both_checked():
    def claim(supply, d, *, base=0, step=0):
        x = supply.real("x", d)
        return {"base": (x, x + base), "step": (x, x + step)}

    mutants = {"base": {"base": 1}, "step": {"step": 1}}
    result = run(planted(claim, mutants=mutants))
    assert result.passed
    assert "induction, from an arbitrary symbolic state at d = 2" in result.methods


@pytest.mark.parametrize("off", [0, 1])
def test_a_counterexample_must_differ(off):
    def claim(supply, d, *, gap=off):
        x = supply.real("x", d)
        return x, x + gap

    mutants = {"the tempting claim is true": {"gap": 0}}
    result = run(planted(claim, kind="counterexample", mutants=mutants))
    assert result.passed == bool(off)


def test_an_erratum_needs_both_its_parts():
    def claim(supply, d, *, printed=1, corrected=0):
        x = supply.real("x", d)
        return {"printed": (x, x + printed), "corrected": (x, x + corrected)}

    mutants = {"printed is right": {"printed": 0}, "still wrong": {"corrected": 1}}
    declared = {"kind": "erratum", "as_printed": "0 = 1", "mutants": mutants}
    result = run(planted(claim, **declared))
    assert result.passed
    assert result.gaps["rationals"] == {"printed": "-1", "corrected": "0"}


@pytest.mark.parametrize("factor", [1, 2])
def test_what_an_erratum_prints_is_run_and_must_fail(factor):
    def claim(supply, d, *, again=0):
        x = supply.real("x", d)
        return {"printed": (x + 1, x), "corrected": (x, x + again)}

    def numbers(supply, d):
        return Numbers({"x": supply.real("x", d)})

    result = run(
        planted(
            claim,
            kind="erratum",
            statement=r"x^\top x = \lVert x \rVert^2",
            as_printed=rf"x^\top x = {factor} \lVert x \rVert^2",
            printed={STATEMENT: AsPrinted(numbers=numbers, worlds=("floats",))},
            mutants={"again": {"again": 1}},
        )
    )
    assert result.passed == (factor == 2)
    assert result.refuted == (("floats",) if factor == 2 else ())


@pytest.mark.parametrize(("kind", "text"), [("erratum", ""), ("identity", "0 = 1")])
def test_errata_alone_say_what_their_source_prints(kind, text):
    with pytest.raises(ValueError, match=r"^as_printed: expected the source's text"):
        planted(add_one, mutants={}, kind=kind, as_printed=text)


def test_the_mechanisms_of_a_check_are_read_from_its_code():
    found = {name: mechanisms_of(c.claim) for name, c in identities().items()}
    assert found["delta-rule-eigenvalues"] == ("delta_rule",)
    assert found["titans-becomes-comba"] == ("comba", "titans")
    assert found["interference-welch"] == ()


def test_a_bound_is_tight_to_the_last_fraction():
    def claim(supply, d, *, less=0):
        x = supply.positive("x", d)
        return x, x - less

    worlds = ("rationals", "floats")
    bound = planted(claim, kind="bound", worlds=worlds, mutants={"lower": {"less": 1}})
    result = run(bound)
    assert result.passed
    assert result.methods[1].endswith("closest approach 0")


def test_a_free_form_is_checked_and_must_be_able_to_fail():
    import sympy

    a, b = sympy.symbols("a b", commutative=False)

    def free(off=0):
        return (a + b) * (a - b), a * a - a * b + b * a - b * b + off

    def commuting(off=0):
        return (a + b) * (a - b), a * a - b * b + off

    mutants = {"off": {"off": 1}}
    assert run(planted(add_one, mutants=mutants, free=free)).passed
    assert not run(planted(add_one, mutants=mutants, free=commuting)).passed
    deaf = run(planted(add_one, mutants=mutants, free=lambda: (a, a)))
    assert deaf.failures == ("any dimension: no mutant makes it fail",)


def test_unknown_kinds_and_worlds_are_refused():
    with pytest.raises(ValueError, match=r"^kind: expected one of"):
        planted(add_one, mutants={}, kind="theorem")
    with pytest.raises(ValueError, match=r"^worlds: expected some of"):
        planted(add_one, mutants={}, worlds=("integers",))


def test_command_prints_writes_and_exits(tmp_path, capsys):
    file = tmp_path / "ledger.json"
    assert main(["memory-decay-composes", "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "1 of 1 identities hold, 2 of 2 mutants caught." in printed
    (entry,) = json.loads(file.read_text())["entries"]
    assert entry["name"] == "memory-decay-composes"
    assert entry["passed"]
    assert entry["file"] == "ctlearn/identities/memory.py"
    assert entry["gaps"]["symbols"] == dict.fromkeys(("span", "parts", "diagonal"), "0")
    assert entry["as_printed"] == ""
    assert entry["mechanisms"] == {}


def test_command_fails_when_an_identity_fails(monkeypatch, capsys):
    false = planted(lambda supply: (np.zeros(1), np.ones(1)), mutants={"m": {}})
    monkeypatch.setitem(identities(), "x", false)
    assert main(["x", "--jobs", "1"]) == 1
    assert "0 of 1 identities hold" in capsys.readouterr().out


def test_command_names_an_unknown_identity(capsys):
    with pytest.raises(SystemExit):
        main(["no-such-claim"])
    assert "no identity named no-such-claim" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sound", "broken"),
    [
        ("kept + np.outer(k, u)", "kept - np.outer(k, u)"),
        ("z - seen.T @ e", "z + seen.T @ e"),
        ("z - (seen[:, 0] * e) @ S", "z + (seen[:, 0] * e) @ S"),
        ("b[i] - L[i, :i] @ x[:i]", "b[i] + L[i, :i] @ x[:i]"),
        ("(after[:, 0] * q) @ S + pairs", "(after[:, 0] * q) @ S - pairs"),
        ("* S + (D[-1, 1:] * k).T @ u", "* S - (D[-1, 1:] * k).T @ u"),
        ("boundary[:, None] > boundary", "boundary[:, None] >= boundary"),
        ("before if read_first else after", "after if read_first else before"),
    ],
)
def test_one_broken_sign_in_the_memory_turns_the_ledger_red(monkeypatch, sound, broken):
    """The references are what is proved: break one, and a proof fails."""
    from ctlearn import memory

    with open(memory.__file__, encoding="utf-8") as file:
        source = file.read()
    assert source.count(sound) == 1
    altered: dict = {"__name__": "ctlearn.memory"}
    exec(compile(source.replace(sound, broken), memory.__file__, "exec"), altered)
    for name in ("step", "recurrent", "parallel", "chunkwise", "decay_between"):
        monkeypatch.setattr(memory, name, altered[name])
    topic = [c for c in identities().values() if c.name.startswith("memory-")]
    assert any(not run(claim).passed for claim in topic)
