"""One process at a time: a lock that the system lets go of when its holder ends."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked(file: Path, *, wait: bool) -> Iterator[None]:
    """Hold a lock, of which `file` is the sign; it is made where it is missing.

    Raises OSError if somebody else holds it, without `wait`, or if it cannot be made.
    """
    with file.open("w") as held:
        if sys.platform == "win32":
            import msvcrt

            kind = msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK
            msvcrt.locking(held.fileno(), kind, 1)
        else:
            import fcntl

            fcntl.flock(held, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
