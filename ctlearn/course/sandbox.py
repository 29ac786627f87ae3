"""A student's code, called in a process of its own, with limits.

    with Sandbox(Function(mine)) as box:
        answer = box.call("strength", {"q": q, "k": k})

The child (`ctlearn.course.runner`) gets inputs and returns outputs, by value. It holds
no reference, and nothing is compared in it. It has a clock, a limit of memory, a limit
of what it prints and returns, an empty folder, no environment, and no way to start
another process or to read what is not Python's, NumPy's or named in `uses`; `runner`
says how, and what that is worth against somebody who has time.

On Linux all of it holds. On macOS and Windows memory is not limited: their systems have
no limit of address space that they keep to.
"""

import contextlib
import importlib.util
import json
import os
import queue
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol, Self

import ctlearn
from ctlearn.course.exercise import Answer, Inputs, Stopped
from ctlearn.course.runner.fence import MARK, REFUSED
from ctlearn.course.runner.messages import Unfit, pack, unpack
from ctlearn.course.runner.submission import one, plain

# Seconds for Python and what is imported before a student's code is: a cold disk.
START = 120
# Bytes of a file that is handed in: a notebook with figures is smaller.
LARGEST = 2**25
# Cells of code in a notebook.
MANY = 5000
# Letters of what is said of a submission.
LONGEST = 600
# What a bare environment must hold nevertheless: where libraries and Windows are.
KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


class Limits(NamedTuple):
    """Seconds for all calls of one judgement; bytes of memory, and of output.

    Memory is what may be had besides that of Python and its modules. Output is what is
    printed, and, counted apart, what a call returns.
    """

    seconds: float = 10.0
    memory: int = 2**30
    output: int = 2**23


LIMITS = Limits()


class Submitted(Protocol):
    """What can be handed in."""

    def payload(self) -> dict[str, Any]:
        """What the child is sent; raises Stopped if there is nothing to be sent."""


class Function(NamedTuple):
    """A function of a notebook or a session, whatever its name is."""

    function: Callable

    def payload(self) -> dict[str, Any]:
        """The function by value, with what it names of its own module.

        Raises Stopped if it has something that cannot be sent, and ImportError
        without cloudpickle.
        """
        try:
            import cloudpickle
        except ImportError as missing:
            raise ImportError(
                'checking needs cloudpickle: pip install "ctlearn[course]"'
            ) from missing
        module = _own_module(self.function)
        try:
            if module is not None:
                cloudpickle.register_pickle_by_value(module)
            return {"function": cloudpickle.dumps(self.function)}
        except Exception as error:  # whatever an object does when it is pickled
            says = f"Your function cannot be taken out of its session: {error}"
            raise Stopped("missing", printable(says[:300])) from error
        finally:
            if module is not None:
                cloudpickle.unregister_pickle_by_value(module)


def _own_module(function: Any) -> ModuleType | None:
    """The student's own module that a function is from, if there is one.

    A session's functions are pickled by value anyhow. Of a library's only the name is
    sent, and of ctlearn's own that finds nothing.
    """
    name = str(getattr(function, "__module__", None))
    libraries = {"__main__", "ctlearn", "numpy", *sys.stdlib_module_names}
    return None if name.partition(".")[0] in libraries else sys.modules.get(name)


class Text(NamedTuple):
    """The text of a module."""

    text: str

    def payload(self) -> dict[str, Any]:
        """The text as one cell."""
        return {"cells": [self.text.encode()]}


class File(NamedTuple):
    """A file that was handed in: a module, or a notebook."""

    path: Path

    def payload(self) -> dict[str, Any]:
        """A module's bytes, or the cells of code of a notebook; nothing is run here.

        Raises Stopped if there is no such file, or it cannot be read as what it is
        called.
        """
        path = Path(self.path)
        if not path.is_file():
            raise Stopped("missing", f"There is no file {path.name}.")
        if path.stat().st_size > LARGEST:
            raise Stopped("missing", f"{path.name} is too large.")
        data = path.read_bytes()
        if path.suffix.lower() != ".ipynb":
            return {"cells": [data]}
        try:
            held = [x for x in json.loads(data)["cells"] if x["cell_type"] == "code"]
            # a text with half a letter in it is for Python to refuse
            cells = ["".join(x["source"]).encode("utf-8", "replace") for x in held]
        except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError):
            says = f"{path.name} cannot be read as a notebook."
            raise Stopped("missing", says) from None
        if len(cells) > MANY:
            raise Stopped("missing", f"{path.name} has {len(cells)} cells of code.")
        return {"cells": cells}


class Child:
    """A process that answers messages, with a clock; closing it kills its group.

    `code` is Python, run isolated in `folder`, which is its home, too. What it prints
    and each of its answers is `output` bytes at most.
    """

    def __init__(self, code: str, folder: str, output: int) -> None:
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        environment |= dict.fromkeys(("HOME", "TMPDIR", "TEMP", "TMP"), folder)
        # one thread each: many are judged beside one another
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-X", "utf8", "-c", code],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        pipes = (self.process.stdin, self.process.stdout, self.process.stderr)
        self.pipes = [pipe for pipe in pipes if pipe is not None]
        self.stdin, stdout, stderr = self.pipes
        self.output = output
        self.printed = bytearray()
        self.came: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.threads = [
            threading.Thread(target=work, args=(pipe,), daemon=True)
            for work, pipe in (
                (self._listen, stdout),
                (self._overhear, stderr),
            )
        ]
        for thread in self.threads:
            thread.start()

    def ask(self, message: Any, seconds: float) -> Any:
        """The answer to a message; raises Stopped if there is none in that time."""
        # a child that does not read must not stop the parent
        data = pack(message)
        threading.Thread(target=self._write, args=(data,), daemon=True).start()
        try:
            data = self.came.get(timeout=max(seconds, 0))
        except queue.Empty:
            raise Stopped("time", "It did not end in time.") from None
        if isinstance(data, Stopped):
            raise data
        if data is None:
            raise self._ended()
        if data.startswith(MARK):
            says = f"It {data[1:].decode('utf-8', 'replace')[:300]}"
            raise Stopped("forbidden", printable(f"{says}, which is not allowed."))
        try:
            return unpack(data)
        except ValueError:
            raise forged() from None

    def close(self) -> None:
        """End it and all that it started; nothing to do the second time."""
        if self.process.returncode is not None:
            return  # its number may be another's by now
        with contextlib.suppress(OSError):
            if os.name == "nt":
                self.process.kill()
            else:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for thread in self.threads:
            # not for ever: somebody who got away may hold the other end
            thread.join(timeout=1)
        for pipe in self.pipes:
            with contextlib.suppress(OSError):
                pipe.close()

    def _ended(self) -> Stopped:
        """What the end of a process says."""
        self.close()
        status = self.process.returncode
        if status == REFUSED:
            return Stopped("forbidden", "It does what is not allowed.")
        if status == -getattr(signal, "SIGXCPU", 0):
            return Stopped("time", "It did not end in time.")
        names = {-x.value: x.name for x in signal.Signals}
        how = names.get(status, f"exit status {status}")
        return Stopped("crash", f"It ended its process ({how}).")

    def _write(self, data: bytes) -> None:
        left = memoryview(len(data).to_bytes(8, "big") + data)
        with contextlib.suppress(OSError, ValueError):
            while left:
                left = left[self.stdin.write(left) :]

    def _listen(self, pipe: Any) -> None:
        """Put each frame into the queue, and None at the end."""
        with contextlib.suppress(OSError, ValueError, EOFError):
            while True:
                size = int.from_bytes(_exactly(pipe, 8), "big")
                # what it is packed in needs a little more
                if size > self.output + 2**20:
                    self.came.put(Stopped("output", "It returns too much."))
                    break
                self.came.put(_exactly(pipe, size))
        self.came.put(None)

    def _overhear(self, pipe: Any) -> None:
        """Keep what is printed, up to a limit."""
        with contextlib.suppress(OSError, ValueError):
            while text := pipe.read(2**16):
                self.printed += text
                if len(self.printed) > self.output:
                    self.came.put(Stopped("output", "It prints too much."))
                    break


def _exactly(pipe: Any, size: int) -> bytes:
    """So many bytes; raises EOFError if there are fewer."""
    read = bytearray()
    while len(read) < size:
        more = pipe.read(min(size - len(read), 2**20))
        if not more:
            raise EOFError
        read += more
    return bytes(read)


def printable(text: str) -> str:
    """A child's words on one line, without what a terminal would take for orders."""
    return "".join(x if x.isprintable() else " " for x in text)


def forged() -> Stopped:
    """What is said of a message that the runner did not write."""
    says = "It writes into the channel by which it is judged, which is not allowed."
    return Stopped("forbidden", says)


class Box:
    """A child process that is asked one thing after another; a context manager.

    Limits hold from one `renew` to the next. Entering raises RuntimeError if what the
    child is made of does not start.
    """

    def __init__(self, code: str, settings: dict[str, Any], limits: Limits) -> None:
        self.code, self.settings, self.limits = code, settings, limits
        # why there are no more answers
        self.stopped: Stopped | None = None

    def __enter__(self) -> Self:
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        with contextlib.ExitStack() as started:
            place = os.path.realpath(started.enter_context(folder))
            self.child = Child(self.code, place, self.limits.output)
            started.callback(self.child.close)
            try:
                settings = self.settings | self.limits._asdict() | {"folder": place}
                self.child.ask(settings, START)
            except Stopped as stopped:
                said = self.child.printed.decode("utf-8", "replace")[-2000:]
                raise RuntimeError(f"no sandbox: {stopped.says}\n{said}") from stopped
            self.closing = started.pop_all()
        self.renew()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.close()

    def renew(self) -> None:
        """Begin anew to count seconds."""
        self.left = self.limits.seconds

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """The child's answer to this message and no other; raises Stopped."""
        if self.stopped:
            raise Stopped(self.stopped.kind, self.stopped.says)
        token = secrets.token_hex(8)
        start = time.monotonic()
        try:
            message = message | {"to": token, "seconds": self.left}
            reply = self.child.ask(message, self.left)
            if not (isinstance(reply, dict) and reply.get("to") == token):
                raise forged()
        except Stopped as stopped:
            if stopped.kind == "time":
                says = f"It does not end within {self.limits.seconds:g} s."
                stopped = Stopped("time", says)
            self.stopped = stopped
            # not later: it may be busy
            self.child.close()
            raise stopped from None
        self.left -= time.monotonic() - start
        return reply


class Sandbox(Box):
    """A submission in its child process.

    `uses` are modules that the code may import besides Python's own and NumPy; what
    these import can be had through them. A submission that stops while it is loaded
    says so when it is called.
    """

    def __init__(
        self,
        submission: Submitted,
        uses: tuple[str, ...] = (),
        limits: Limits = LIMITS,
    ) -> None:
        why: Stopped | None = None
        payload: dict[str, Any] = {}
        try:
            payload = submission.payload()
        except Stopped as stopped:
            why = stopped
        imports = [*uses, *(["cloudpickle"] if "function" in payload else [])]
        settings = {
            "imports": imports,
            "places": places(("numpy", *imports)),
            "guarded": _guarded(),
        }
        super().__init__(CODE, settings, limits)
        self.payload, self.stopped, self.loaded = payload, why, False

    def __enter__(self) -> Self:
        super().__enter__()
        with contextlib.suppress(Stopped):
            self.ask({"load": self.payload})
            self.loaded = True
        return self

    def call(self, name: str, inputs: Inputs) -> Answer:
        """What the function returns for these inputs, given by name.

        Raises Stopped. If its kind is "error", "missing" or "shape", others of the
        submission's functions can still be called.
        """
        reply = self.ask({"call": name, "inputs": inputs})
        changed = printable(str(reply.get("changed"))[:100])
        if changed:
            raise Stopped("forbidden", f"It replaces {changed}, which is not its own.")
        if "packed" not in reply:
            raise _told(reply.get("stopped"))
        try:
            answer = unpack(reply["packed"])
            after = {name: one(x) for name, x in answer["inputs"].items()}
            return Answer(plain(answer["value"]), after)
        except (AttributeError, LookupError, TypeError, ValueError, Unfit):
            raise forged() from None


def _told(stopped: Any) -> Stopped:
    """Why there is no answer, as the runner tells it."""
    kinds = ("error", "forbidden", "memory", "missing", "output", "shape")
    match stopped:
        case (str(kind), str(says)) if kind in kinds:
            return Stopped(kind, printable(says[:LONGEST]))
    return forged()


def places(modules: tuple[str, ...]) -> list[str]:
    """The folders in which these modules lie, wherever this process found them."""
    found: dict[str, None] = {}
    for name in modules:
        # a module that a session has replaced has none
        with contextlib.suppress(ValueError):
            spec = importlib.util.find_spec(name.partition(".")[0])
            if spec is not None and spec.origin:
                found[os.path.abspath(Path(spec.origin).parents[1])] = None
    return list(found)


def _guarded() -> list[str]:
    """The folders of ctlearn, and of the clone that it is in, if it is in one."""
    package = Path(ctlearn.__file__).parent.resolve()
    spec = importlib.util.find_spec("ctlearn.kernels")
    kernels = spec.submodule_search_locations if spec else None
    clone = [package.parent] if (package.parent / "pyproject.toml").exists() else []
    folders = (package, *clone, *map(Path, kernels or ()))
    return [str(folder.resolve()) for folder in folders]


def serving(module: str, own: tuple[str, ...]) -> str:
    """The code of a child that is ours: it runs `serve` of a module of ctlearn."""
    return f"""
import sys
sys.path += [path for path in {places(own)!r} if path not in sys.path]
from {module} import serve
serve()
"""


# The folder above `runner` is on the path while that is imported, and no longer. NumPy
# does without ctypes, by which one would have all of C.
CODE = f"""
import sys
sys.modules["ctypes"] = None
sys.path.insert(0, {str(Path(__file__).resolve().parent)!r})
import runner.child
del sys.path[0], sys.modules["ctypes"]
runner.child.main()
"""
