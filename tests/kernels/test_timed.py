"""Times of the ladder: stored, or measured here; never typed."""

import json
import os

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
pytest.importorskip("triton", reason='no Triton: pip install "ctlearn[torch]" on Linux')

from ctlearn.kernels import delta_rule, timed  # noqa: E402

SHAPE = {"B": 1, "T": 20, "H": 1, "d": 16, "dtype": "bfloat16"}
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def test_what_is_stored_is_said_and_nothing_else(tmp_path):
    file = tmp_path / "timed.json"
    found = {"machine": None, "shape": SHAPE}
    file.write_text(json.dumps(found | {"milliseconds": dict.fromkeys(timed.RUNGS)}))
    first, *rows = timed.lines(timed.stored(file))
    assert first.startswith("no GPU was at hand; B = 1")
    assert [row.split(maxsplit=1) for row in rows] == [
        [rung, "not measured"] for rung in timed.RUNGS
    ]
    milliseconds = dict.fromkeys(timed.RUNGS, 1.25)
    file.write_text(json.dumps(found | {"machine": "G", "milliseconds": milliseconds}))
    assert timed.lines(timed.stored(file))[1].split(maxsplit=1)[1] == "1.250 ms"


def test_the_stored_file_is_of_the_ladder():
    found = timed.stored()
    assert set(found["milliseconds"]) == set(timed.RUNGS)
    assert (found["machine"] is None) == (None in found["milliseconds"].values())
    assert all(hasattr(delta_rule, rung) for rung in timed.RUNGS)


def test_without_a_gpu_the_stored_table_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(timed, "has_gpu", lambda: False)
    timed.main([])
    assert capsys.readouterr().out.splitlines() == timed.lines(timed.stored())
    assert timed.times() == timed.stored()


@pytest.mark.skipif(not INTERPRETED, reason="a GPU times more than this, by make gpu")
def test_each_rung_is_held_to_the_truth_and_then_timed(monkeypatch, tmp_path):
    called = []

    def bench(call):
        called.append(call())
        return len(called)

    found = timed.measured(SHAPE, device="cpu", bench=bench)
    assert found == {rung: i + 1 for i, rung in enumerate(timed.RUNGS)}
    assert all(o.shape == (1, 20, 1, 16) for o, _ in called)
    file = tmp_path / "timed.json"
    file.write_text(json.dumps(timed.stored() | {"shape": SHAPE}))
    monkeypatch.setattr(timed, "STORED", file)
    monkeypatch.setattr(timed, "stored", lambda: json.loads(file.read_text()))
    monkeypatch.setattr(timed, "has_gpu", lambda: True)
    monkeypatch.setattr(timed, "measured", lambda shape: found)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    timed.main(["--store"])
    kept = timed.stored()
    assert (kept["machine"], kept["milliseconds"]) == ("a GPU", found)


@pytest.mark.skipif(not INTERPRETED, reason="a GPU times more than this, by make gpu")
@pytest.mark.parametrize("factor", [1.01, float("nan")])
def test_what_is_wrong_is_not_timed(monkeypatch, factor):
    right = delta_rule.recurrent
    monkeypatch.setattr(
        delta_rule, "recurrent", lambda *x, **how: (factor * right(*x, **how)[0], None)
    )
    with pytest.raises(RuntimeError, match=r"^recurrent: its outputs are wrong"):
        timed.measured(SHAPE, device="cpu", bench=lambda call: 0.0)
