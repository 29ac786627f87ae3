"""Say plainly why this Python cannot set up the book, or nothing if it can.

Run by the Makefile before anything else. It is kept to syntax that very old Pythons
read, since those are the ones that must get the message and not a syntax error.
"""

import sys

OLDEST = (3, 11)


def complaint(version, executable, modules):
    """One message, or None.

    `version` is (major, minor), `modules` the names that can be imported.
    """
    if version < OLDEST:
        return (
            "%s is Python %d.%d, and the book needs %d.%d or newer.\n"
            "Install one, or name one that you have:  make book PYTHON=python3.12"
            % ((executable,) + version + OLDEST)
        )
    missing = [name for name in ("venv", "ensurepip") if name not in modules]
    if missing:
        return (
            "%s lacks the standard module %s, so no environment can be made.\n"
            "On Debian and Ubuntu:  apt install python3-venv"
            % (executable, " and ".join(missing))
        )
    return None


def importable(names):
    """Those of `names` that this Python can import."""
    found = []
    for name in names:
        try:
            __import__(name)
        except ImportError:
            continue
        found.append(name)
    return found


if __name__ == "__main__":
    message = complaint(
        tuple(sys.version_info[:2]), sys.executable, importable(["venv", "ensurepip"])
    )
    if message:
        sys.exit(message)
