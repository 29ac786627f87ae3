"""The command learns a file, keeps what it has, and writes."""

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn.train import __main__ as command  # noqa: E402
from ctlearn.train.contestants import load  # noqa: E402
from ctlearn.train.evaluate import bits_by_place  # noqa: E402
from ctlearn.train.text import own  # noqa: E402


def words_for(file, out, shape):
    words = ["learn", "--text", str(file), "--out", str(out), "--steps", "40"]
    words += ["--B", "4", "--T", "16", "--rate", "0.02", "--every", "20"]
    for name, value in shape._asdict().items():
        words += [f"--{name}", str(value)]
    return words


def test_it_learns_a_file_and_writes(tmp_path, shape, capsys):
    file = tmp_path / "own.txt"
    file.write_text("so it goes " * 60 + "as it went " * 7)
    out = tmp_path / "mine"
    command.main(words_for(file, out, shape))
    said = capsys.readouterr().out
    saved = load(out / "model.safetensors")
    assert saved.shape == shape
    held_out = own(file).held_out
    bits = bits_by_place(saved.model, held_out, 16, most=256).mean()
    assert f"\n{bits:.3f} bits a character on what was held out" in said
    assert [x.name for x in out.glob("step-*")] == ["step-000040"]
    file_of = str(out / "model.safetensors")
    command.main(["write", file_of, "so it", "--n", "17", "--temperature", "0"])
    assert capsys.readouterr().out == "so it goes so it goes \n"
    command.main(["write", file_of, "so it", "--n", "17", "--temperature", "9"])
    assert not capsys.readouterr().out.startswith("so it goes so")


def test_a_text_that_cannot_be_measured_is_refused_before_it_is_learned(
    tmp_path, shape
):
    file = tmp_path / "own.txt"
    file.write_text("so it goes " * 14)
    with pytest.raises(ValueError, match=r"^T: expected below 16"):
        command.main(words_for(file, tmp_path / "mine", shape))
    assert not (tmp_path / "mine").exists()


def test_the_comparison_is_printed_run_by_run(monkeypatch, capsys):
    class Stored:
        def fill(self, text):
            assert text == "plays"
            yield "one"
            yield "two"

    monkeypatch.setattr(command, "Stored", Stored)
    monkeypatch.setattr(command.texts, "plays", lambda: "plays")
    command.main(["compare"])
    assert capsys.readouterr().out == "one\ntwo\n"
