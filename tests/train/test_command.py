"""The command learns a file, goes on, and writes."""

import pytest

torch = pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')

from ctlearn.train import __main__ as command  # noqa: E402
from ctlearn.train.contestants import load  # noqa: E402


def test_it_learns_a_file_and_writes(tmp_path, shape, capsys):
    file = tmp_path / "own.txt"
    file.write_text("so it goes " * 60)
    out = tmp_path / "mine"
    words = ["learn", "--text", str(file), "--out", str(out), "--steps", "40"]
    words += ["--B", "4", "--T", "16", "--rate", "0.02", "--every", "20"]
    for name, value in shape._asdict().items():
        words += [f"--{name}", str(value)]
    command.main(words)
    said = capsys.readouterr().out
    assert "bits a character on what was held out" in said
    saved = load(out / "model.safetensors")
    assert saved.shape == shape
    file_of = str(out / "model.safetensors")
    command.main(["write", file_of, "so it", "--n", "17", "--temperature", "0"])
    assert capsys.readouterr().out == "so it goes so it goes \n"


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
