"""What torchrun starts: runs of the package's command, one of which is killed.

    worker.py STEP FOLDER WORDS...

Three runs go to folders below FOLDER, all by the same words: `copies`, then `sharded`,
then `broken`. When STEP of the last is about to be taken, the process of rank 1 kills
itself. All is done in float64, for training magnifies what is rounded: in float32 two
right runs differ by some ten-thousandths after thirty steps.
"""

import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import torch

from ctlearn.train import __main__ as command
from ctlearn.train import run


def dying(last: int):
    """`windows`, of which the call for one step is the last that this process makes."""
    windows = run.windows

    def read(*given, step, **others):
        if step == last and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        return windows(*given, step=step, **others)

    return read


if __name__ == "__main__":
    last, folder, words = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    torch.set_default_dtype(torch.float64)
    with command.processes() as among:
        # a second group would read from torchrun's store what the first one left there
        command.processes = lambda: nullcontext(among)
        for name, how in (("copies", []), ("sharded", ["--sharded"])):
            if not (folder / name / "losses.pt").exists():
                command.main(["learn", "--out", str(folder / name), *how, *words])
        run.windows = dying(last)
        command.main(["learn", "--out", str(folder / "broken"), *words])
