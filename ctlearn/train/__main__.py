"""`python -m ctlearn.train`: learn a text, write in its manner, compare models.

    python -m ctlearn.train learn --out mine --steps 2000 [--text FILE]
    torchrun --nproc-per-node 2 -m ctlearn.train learn --out mine [--sharded]
    python -m ctlearn.train write mine/model.safetensors "To be, or "
    python -m ctlearn.train compare

Without a file, the text are Shakespeare's plays. A run that was broken off goes on if
the same command is given again.
"""

import argparse
from pathlib import Path

import torch
from tqdm import tqdm

from ctlearn.train import text as texts
from ctlearn.train.compare import Stored
from ctlearn.train.contestants import CONTESTANTS, Saved, Shape, load, save, weights
from ctlearn.train.evaluate import bits_by_place
from ctlearn.train.kept import Kept
from ctlearn.train.processes import processes
from ctlearn.train.run import Run, learn


def main(words: list[str] | None = None) -> None:
    """Do what the words of the command line say."""
    given = _parser().parse_args(words)
    given.do(given)


def _parser() -> argparse.ArgumentParser:
    shape, run = Shape(), Run()
    parser = argparse.ArgumentParser(prog="python -m ctlearn.train")
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("learn", help="train a model, or go on training it")
    one.set_defaults(do=_learn)
    one.add_argument("--text", type=Path, help="a file of yours; else the plays")
    one.add_argument("--out", type=Path, required=True, help="the run's folder")
    one.add_argument("--contestant", default="hybrid", choices=CONTESTANTS)
    for name in ("d_model", "n_layers", "n_heads", "d_head"):
        one.add_argument(f"--{name}", type=int, default=getattr(shape, name))
    for name in ("steps", "B", "T", "seed"):
        one.add_argument(f"--{name}", type=int, default=getattr(run, name))
    one.add_argument("--rate", type=float, default=run.rate)
    one.add_argument("--every", type=int, default=50, help="steps between keeping")
    one.add_argument("--sharded", action="store_true", help="a part of each weight")
    two = commands.add_parser("write", help="go on from a beginning")
    two.set_defaults(do=_write)
    two.add_argument("file", type=Path)
    two.add_argument("beginning")
    two.add_argument("--n", type=int, default=400, help="characters to write")
    two.add_argument("--temperature", type=float, default=0.7)
    two.add_argument("--seed", type=int, default=0)
    three = commands.add_parser("compare", help="measure what is not stored yet")
    three.set_defaults(do=_compare)
    return parser


def _learn(given: argparse.Namespace) -> None:
    text = texts.own(given.text) if given.text else texts.plays()
    shape = Shape(*(getattr(given, name) for name in Shape._fields))
    run = Run(*(getattr(given, name) for name in Run._fields))
    # what is held out is asked last; a text that is too short for it is refused first
    texts.in_turn(text.held_out, run.T, most=1)
    with processes() as among:
        torch.manual_seed(run.seed)
        model = shape.build(len(text.alphabet))
        read = [text.alphabet, len(text.learned), len(text.held_out)]
        kept = Kept(given.out, [shape, run, read], among)
        if among.rank == 0:
            print(f"{weights(model)} weights, {len(text.learned)} characters")
        losses = learn(
            model,
            text.learned,
            run,
            among=among,
            sharded=given.sharded,
            keep=(kept, given.every),
            show=lambda steps: tqdm(steps, disable=among.rank > 0),
        )
        numbers = among.whole(model)
        if among.rank == 0:
            torch.save(losses, given.out / "losses.pt")
            own = shape.build(len(text.alphabet))
            own.load_state_dict(numbers)
            save(given.out / "model.safetensors", Saved(own, shape, text.alphabet))
            bits = bits_by_place(own, text.held_out, run.T, most=256).mean()
            print(f"{bits:.3f} bits a character on what was held out")


def _write(given: argparse.Namespace) -> None:
    model, _, alphabet = load(given.file)
    tokens = texts.numbers(given.beginning, alphabet)[None]
    generator = torch.Generator().manual_seed(given.seed)
    said = model.generate(
        tokens, given.n, temperature=given.temperature, generator=generator
    )
    print("".join(alphabet[i] for i in said[0].tolist()))


def _compare(given: argparse.Namespace) -> None:
    torch.set_num_threads(1)  # so that the numbers come again
    for line in Stored().fill(texts.plays()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
