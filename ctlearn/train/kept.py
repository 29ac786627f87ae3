"""What a run keeps of itself, so that it can be taken up again after it was killed.

A folder holds `run.json`, the settings, and `step-000150`, what torch's checkpoints
make of the weights, the optimiser's averages and the losses after 150 steps: each
process writes its part. It is written under another name and then renamed, so that a
folder with the right name is whole, whenever the processes were killed.
"""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from ctlearn.train.processes import Processes


class Kept:
    """The folder of one run, whose `settings` are whatever JSON can hold.

    Raises ValueError if the folder is that of a run with other settings.
    """

    def __init__(self, folder: str | Path, settings: Any, among: Processes):
        self.folder, self.among = Path(folder), among
        said = json.dumps(settings, indent=1)
        file = self.folder / "run.json"
        if file.exists() and (other := file.read_text(encoding="utf-8")) != said:
            raise ValueError(f"folder: {folder} holds another run, of {other}")
        among.meet()
        if among.rank == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            file.write_text(said, encoding="utf-8")

    def step(self) -> int:
        """How many steps were taken by what is kept; 0 if nothing is."""
        found = [int(path.name[5:]) for path in self.folder.glob("step-" + "[0-9]" * 6)]
        return max(found, default=0)

    def save(self, step: int, model: nn.Module, optimiser: Any, losses: Tensor) -> None:
        """Keep this, and then nothing older. All processes must call it."""
        part, whole = self.folder / "part", self._at(step)
        self._clear(part)
        with _quiet():
            checkpoint.save(_all(model, optimiser, losses), checkpoint_id=part)
        self.among.meet()
        if self.among.rank == 0:
            part.rename(whole)
            for older in self.folder.glob("step-*"):
                if older != whole:
                    shutil.rmtree(older)

    def load(self, model: nn.Module, optimiser: Any, losses: Tensor) -> int:
        """Put back what is kept, in place, and say after how many steps it was."""
        # nobody looks before all are here, and nobody writes before all have looked
        self.among.meet()
        step = self.step()
        self.among.meet()
        if step:
            there = _all(model, optimiser, losses)
            with _quiet():
                checkpoint.load(there, checkpoint_id=self._at(step))
            weights, averages = there["weights"], there["averages"]
            set_state_dict(
                model,
                optimiser,
                model_state_dict=weights,
                optim_state_dict=averages,
            )
        return step

    def _at(self, step: int) -> Path:
        return self.folder / f"step-{step:06}"

    def _clear(self, folder: Path) -> None:
        if self.among.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
        self.among.meet()


def _all(model: nn.Module, optimiser: Any, losses: Tensor) -> dict[str, Any]:
    """What a checkpoint holds; names of weights are those of the bare model."""
    weights, averages = get_state_dict(model, optimiser)
    return {"weights": weights, "averages": averages, "losses": losses}


class _quiet(warnings.catch_warnings):
    """One process alone is meant, and torch need not warn of it."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.filterwarnings(
            "ignore", message=".*single process", category=UserWarning
        )
