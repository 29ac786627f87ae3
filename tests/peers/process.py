"""A process in which other people's functions run: NumPy in, NumPy out.

Libraries change with what is imported beside them: transformers hands its work to
flash-linear-attention where it finds it, whose kernels want a GPU. So the tests import
none, and each runs in a process of its own. The arguments name the modules that are
not to be found there. A request on standard input is a pickled ("module:function",
keyword arguments), its answer on standard output a pickled (result, fault).
"""

import importlib
import os
import pickle
import sys
import traceback
from typing import Any


def main() -> None:
    """Answer requests until standard input ends."""
    sys.modules.update(dict.fromkeys(sys.argv[1:]))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    while True:
        try:
            function, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = run(function, arguments), ""
        except Exception:
            answer = None, traceback.format_exc()
        pickle.dump(answer, answers)
        answers.flush()


def run(function: str, arguments: dict[str, Any]) -> Any:
    """Call the function on tensors, in float32 and on one core."""
    import numpy as np
    import torch

    def tensor(x: np.ndarray) -> torch.Tensor:
        return torch.tensor(x.astype(np.float32) if x.dtype == np.float64 else x)

    torch.set_num_threads(1)
    module, name = function.split(":")
    called = getattr(importlib.import_module(module), name)
    given = {n: changed(x, np.ndarray, tensor) for n, x in arguments.items()}
    return changed(called(**given), torch.Tensor, lambda x: x.detach().numpy())


def changed(x: Any, kind: type, change: Any) -> Any:
    """What x is or holds of this kind, changed."""
    if isinstance(x, kind):
        return change(x)
    if isinstance(x, (tuple, list)):
        return tuple(changed(part, kind, change) for part in x)
    return x


if __name__ == "__main__":
    main()
