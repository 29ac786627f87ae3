"""Build the book: prove the ledger, execute the notebooks, write the site.

Run with the interpreter of .venv. `--if-stale` does nothing if no input has changed
since the last build that succeeded.

What is kept between builds lies in book/_build: the ledger, and the outputs of
executed notebooks. Both are thrown away when the code they came from changes, and the
ledger when a labelled equation does; jupyter-cache alone would look at a notebook's
cells, not at the modules they import.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from ctlearn.printed import pages

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "book" / "_build"
LEDGER = BUILD / "ledger.json"
STAMP = BUILD / "ledger.stamp"

CODE = ("ctlearn", "kernels", "requirements.txt")
# Nothing that is executed asks coursework, a test sees to it: so an exercise that a
# teacher adds is on the pages at once.
UNASKED = "ctlearn/course"
PAGES = ("_config.yml", "_toc.yml", "book", "notebooks")
DERIVED = {"_build", "node_modules", "__pycache__", ".ipynb_checkpoints"}


def source_files(root: Path, names: Iterable[str]) -> list[Path]:
    """All files below `names`, sorted, without what is made from others."""
    files = []
    for name in names:
        path = root / name
        found = [path] if path.is_file() else path.rglob("*")
        files += [
            file
            for file in found
            if file.is_file() and not DERIVED & set(file.relative_to(root).parts)
        ]
    return sorted(files)


def digest(root: Path, names: Iterable[str], without: str = "") -> str:
    """A hash of the names and contents below `names`, and of this Python's version.

    What lies below the folder `without` does not count.
    """
    total = hashlib.sha256(platform.python_version().encode())
    for file in source_files(root, names):
        if without and file.is_relative_to(root / without):
            continue
        total.update(file.relative_to(root).as_posix().encode() + b"\0")
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


def equations(root: Path) -> str:
    """A hash of the labelled equations, which the ledger runs from their text."""
    texts = sorted((label, x.tex) for label, x in pages.printed(root).items())
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


def is_proved(code: str) -> bool:
    """Whether book/_build/ledger.json is of `code` and of the equations as they are."""
    if not (LEDGER.exists() and STAMP.exists()):
        return False
    return STAMP.read_text() == code + equations(ROOT)


def prove(code: str) -> bool:
    """Check all identities into book/_build/ledger.json, unless `code` is in it."""
    if is_proved(code):
        print("Identities: unchanged since they were last checked", flush=True)
        return True
    STAMP.unlink(missing_ok=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    print("Checking the identities", flush=True)
    command = [sys.executable, "-m", "ctlearn.identities", "--json", str(LEDGER)]
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        return False
    STAMP.write_text(code + equations(ROOT))
    return True


def kernel_settings() -> Path:
    """A folder of IPython settings of the book's own.

    The reader's start-up files cannot change what a page shows, and kernels do not warn
    that they talk to this machine without encryption.
    """
    folder = BUILD / "ipython"
    profile = folder / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    settings = "get_config().IPKernelApp.log_level = 'ERROR'\n"
    (profile / "ipython_kernel_config.py").write_text(settings)
    return folder


def write_site(code: str) -> bool:
    """Execute what is not in the cache for `code` and write every page anew.

    The pages are always read afresh: Sphinx repeats no warning for a page that it
    takes over from the last build, and a warning must fail every build, not the first.
    """
    cache = BUILD / f"executed-{code}"
    for old in BUILD.glob("executed-*"):
        if old != cache:
            shutil.rmtree(old)
    for made in (BUILD / ".doctrees", BUILD / "html"):
        shutil.rmtree(made, ignore_errors=True)
    strict = ["--warningiserror", "--nitpick", "--keep-going"]
    # what the console script `jupyter-book` does, without the script
    book = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", book, "build", str(ROOT)]
    command += ["--path-output", str(ROOT / "book"), *strict]
    environment = os.environ | {
        "CTLEARN_EXECUTION_CACHE": str(cache),
        "IPYTHONDIR": str(kernel_settings()),
        # in notebooks/ lies nothing to import: a kernel finds the installed package
        "PYTHONSAFEPATH": "1",
    }
    done = subprocess.run(command, env=environment, check=False)
    front = BUILD / "html" / "index.html"
    if done.returncode != 0 or not front.exists():
        return False
    # Sphinx's own leads to the front page, too, but has no title, and does not say that
    # it has no icon: a browser that looks for one finds an error
    shutil.copy(Path(__file__).with_name("root.html"), front)
    return True


def main(arguments: list[str]) -> int:
    """Build, and report how long it took; the exit status is 0 if all held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--if-stale", action="store_true")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    code, everything = digest(ROOT, CODE, UNASKED), digest(ROOT, (*CODE, *PAGES))
    stamp = BUILD / "html.stamp"
    current = stamp.exists() and stamp.read_text() == everything
    if options.if_stale and current:
        return 0
    stamp.unlink(missing_ok=True)
    if not prove(code):
        print("\nAn identity does not hold; the table above says which.")
        return 1
    if not write_site(code):
        print("\nThe book was not built; the warnings above say why.")
        return 1
    stamp.write_text(everything)
    print(
        f"\nThe book took {time.perf_counter() - start:.0f} s.\n"
        f"It lies in {BUILD / 'html'}\n"
        "To read it:  make serve"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
