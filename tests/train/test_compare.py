"""The stored comparison is of the settings that the code has, and can be filled."""

import json

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn.train import compare  # noqa: E402
from ctlearn.train.compare import CONTESTANTS, SEEDS, Measured, Stored  # noqa: E402
from ctlearn.train.contestants import Shape  # noqa: E402
from ctlearn.train.evaluate import bits_by_place  # noqa: E402
from ctlearn.train.run import Run  # noqa: E402
from ctlearn.train.text import plays  # noqa: E402

SMALL = Run(steps=3, B=2, T=16)


def test_what_is_stored_has_every_run_at_the_settings_of_today():
    stored = Stored()
    for contestant in CONTESTANTS:
        assert stored.best_rate(contestant) in compare.RATES
        bits = stored.bits(contestant)
        assert len(bits) == len(SEEDS)
        assert len(set(bits)) == len(SEEDS)


def test_the_best_rate_is_inside_the_grid():
    """A grid whose edge is best would not be known to hold the best."""
    stored = Stored()
    best = {contestant: stored.best_rate(contestant) for contestant in CONTESTANTS}
    assert not set(best.values()) & {compare.RATES[0], compare.RATES[-1]}, best


def test_a_stored_run_comes_again():
    """To a hundredth of a bit, where the spread of seeds is four."""
    try:
        text = plays()
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    stored = Stored()
    rate = stored.best_rate("windows")
    run = stored.run._replace(rate=rate, seed=3)
    model = compare.trained(text, Shape("windows"), run)
    found, before = compare.measure(model, text, run), stored.at("windows", rate, 3)
    assert found.bits == pytest.approx(before.bits, abs=0.01)
    assert found.by_place == pytest.approx(before.by_place, abs=0.05)


def test_octaves_of_places():
    means = compare.octaves(torch.arange(70.0))
    assert means == [7.5, 23.5, 47.5, 66.5]


def test_what_was_held_out_is_measured_at_both_lengths(text, shape, monkeypatch):
    monkeypatch.setattr(compare, "LONG", 64)
    model = compare.trained(text, shape, SMALL)
    found = compare.measure(model, text, SMALL)
    short, long = (bits_by_place(model, text.held_out, T, most=256) for T in (16, 64))
    assert found.bits == pytest.approx(short.mean().item())
    whole = [long[:, span].mean().item() for span in (slice(16), slice(32, 64))]
    assert [found.by_place[i] for i in (0, -1)] == pytest.approx(whole)


def test_a_run_is_made_once_and_comes_again(text, shape, tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "LONG", 64)  # the text is short
    file = tmp_path / "measured.json"
    stored = Stored(file, shape, SMALL)
    with pytest.raises(KeyError):
        stored.at("hybrid", 0.01, 5)
    found = stored.add(text, "hybrid", 0.01, 5)
    held = json.loads(file.read_text())
    held["runs"]["hybrid"]["0.01"]["5"][0] = -1.0
    file.write_text(json.dumps(held))
    assert Stored(file, shape, SMALL).add(text, "hybrid", 0.01, 5).bits == -1.0
    other = Stored(tmp_path / "other.json", shape, SMALL)
    assert other.add(text, "hybrid", 0.01, 5) == found
    for contestant, rate, seed in (("hybrid", 0.02, 5), ("hybrid", 0.01, 6)):
        assert other.add(text, contestant, rate, seed).bits != found.bits
    with pytest.raises(ValueError, match="other settings"):
        Stored(file, shape, SMALL._replace(steps=4))


def test_rates_are_chosen_at_a_seed_that_is_not_counted(monkeypatch, text, tmp_path):
    assert compare.TUNED_AT not in SEEDS

    def add(self, text, contestant, rate, seed):
        # the second rate is best where it is asked, and worse elsewhere
        good = (rate == compare.RATES[1]) == (seed == compare.TUNED_AT)
        bits = Measured(1.0 if good else 2.0, [])
        runs = self.held["runs"].setdefault(contestant, {})
        runs.setdefault(f"{rate:g}", {})[str(seed)] = bits
        return bits

    monkeypatch.setattr(Stored, "add", add)
    stored = Stored(tmp_path / "x.json")
    lines = list(stored.fill(text, seeds=range(2)))
    assert len(lines) == len(CONTESTANTS) * (len(compare.RATES) + 2)
    assert stored.bits("hybrid", range(2)) == [2.0, 2.0]
