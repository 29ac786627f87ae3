"""The ways out of the child process, closed before a student's code runs.

An audit hook ends the process at the first thing that is refused, with a word to the
parent, so that catching an exception is no help. Nothing of a student's may run inside
the hook, where it could see the hook's frame: the hook raises no exception, asks its
arguments nothing but by the methods of plain types, and finds copies of the builtins;
there are no signal handlers, and garbage is collected only between calls. `seal` takes
this module out of reach.

It is a fence, not a wall. Code that forges bytecode, or writes to its process's memory
past an array, can take the hook away, and then read what the user that runs it can
read. Strangers' code belongs in a container besides.
"""

import _imp
import _thread
import builtins
import contextlib
import functools
import gc
import importlib
import linecache
import math
import os
import signal
import sys
import threading
import time
from os import _exit, getcwd, stat, write
from pathlib import Path
from typing import Any

from .refusing import Finder, no_lines, refuse

# What functions here find as builtins: a copy, which nobody else can change.
globals()["__builtins__"] = dict(vars(builtins))

# The exit status of a process that the hook ended.
REFUSED = 66
# The first byte of the hook's own message, which a packed one never has.
MARK = b"!"
# How often a submission may change files, and bytes of each: disks are shared.
CHANGED, FILE_BYTES = 1000, 2**18
# And how many folders: one in another in another is cleared away level by level.
FOLDERS = 100
DESCRIPTORS = 64
# What may be done below a folder; what is free is not counted.
NONE, READ, WRITE, FREE = 0, 1, 2, 3
WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
FOLDED = sys.platform in ("win32", "darwin")
WINDOWS = sys.platform == "win32"

# Python's own modules with which one goes round the events below.
HIDDEN = frozenset(
    {
        "_ctypes",
        "_curses",
        "_dbm",
        "_gdbm",
        "_interpchannels",
        "_interpqueues",
        "_interpreters",
        "_multiprocessing",
        "_posixshmem",
        "_posixsubprocess",
        "_remote_debugging",
        "_socket",
        "_sqlite3",
        "_testcapi",
        "_testinternalcapi",
        "_tkinter",
        "_xxinterpchannels",
        "_xxsubinterpreters",
        "ctypes",
        "dbm",
        "multiprocessing",
        "nis",
        "ossaudiodev",
        "readline",
        "socket",
        "spwd",
        "sqlite3",
        "subprocess",
    }
)
# Audit events that end the process: whole families, and some of others.
FAMILIES = frozenset(
    {"_winapi", "ctypes", "fcntl", "pty", "socket", "sqlite3", "syslog", "winreg"}
)
EVENTS = {
    "cpython.PyInterpreterState_New": "starts another interpreter",
    "gc.get_objects": "looks for what others hold",
    "gc.get_referents": "looks for what others hold",
    "gc.get_referrers": "looks for what others hold",
    "os.exec": "starts a process",
    "os.fork": "starts a process",
    "os.forkpty": "starts a process",
    "os.kill": "sends a signal",
    "os.killpg": "sends a signal",
    "os.link": "makes a link",
    "os.posix_spawn": "starts a process",
    "os.spawn": "starts a process",
    "os.startfile": "starts a process",
    "os.symlink": "makes a link",
    "os.system": "starts a process",
    "resource.prlimit": "changes its limits",
    "resource.setrlimit": "changes its limits",
    "subprocess.Popen": "starts a process",
    "sys.addaudithook": "watches its process",
    "sys.remote_exec": "runs code elsewhere",
}
# Events whose first arguments are paths that change, and how many are.
CHANGES = {
    "os.chflags": 1,
    "os.chmod": 1,
    "os.chown": 1,
    "os.mkdir": 1,
    "os.remove": 1,
    "os.removexattr": 1,
    "os.rename": 2,
    "os.rmdir": 1,
    "os.setxattr": 1,
    "os.truncate": 1,
    "os.utime": 1,
}
# Functions that tell no event, and reach past the process or its folder, run code in
# the midst of other code, or make the likes of these anew.
UNHEARD = {
    _imp: ("create_builtin",),
    _thread: ("start_joinable_thread", "start_new", "start_new_thread"),
    os: (
        "chroot",
        "memfd_create",
        "mkfifo",
        "mknod",
        "pidfd_open",
        "sched_setaffinity",
        "sched_setparam",
        "sched_setscheduler",
        "setns",
        "setpriority",
        "unshare",
    ),
    gc: ("enable",),
    signal: ("pidfd_send_signal", "signal"),
    threading: ("_start_joinable_thread", "_start_new_thread"),
    time: ("clock_settime", "clock_settime_ns"),
}


# What may be done below folders, the longest first: the first that fits counts, and
# where none fits, nothing may be done.
Rights = tuple[tuple[str, int], ...]
# What the hook knows of its process: where the parent listens; what may be done with
# files; from where compiled code may be loaded; and the files and folders that were
# changed. Plain types: a class of ours could be found among the subclasses of another,
# and changed.
Kept = tuple[int, Rights, Rights, list[str], list[str]]


def hook(kept: Kept, event: str, args: tuple) -> None:
    """End the process, with a word to the parent, if what happens is refused."""
    try:
        says = fault(kept, event, args)
        if says:
            target, *_ = kept
            data = MARK + says.encode("utf-8", "replace")
            write(target, len(data).to_bytes(8, "big") + data)
            _exit(REFUSED)
    except BaseException:
        _exit(REFUSED)


def fault(kept: Kept, event: str, args: tuple) -> str:
    """What is wrong with what happens; empty if nothing is."""
    if event == "open":
        path, flags = named(args[0]), args[2]
        if path is None:
            return ""
        return opened(kept, path, flags & WRITING) if type(flags) is int else "lies"
    if event == "import":
        # compiled code lies in a file; what was made here must not be loaded
        module, path = named(args[0]), named(args[1])
        if path is None:
            return ""
        # the name before the last dot is free: only the last part must fit the file
        hidden = module is None or module.rpartition(".")[2] in HIDDEN
        _, rights, compiled, *_ = kept
        if right(rights, path) == right(compiled, path) == READ and not hidden:
            return ""
        return "loads " + path
    if event in CHANGES:
        return changing(kept, event, args)
    if event.partition(".")[0] in FAMILIES:
        return "uses " + event
    return EVENTS.get(event, "")


def changing(kept: Kept, event: str, args: tuple) -> str:
    """What is wrong with changing paths; empty if nothing is."""
    paths = [named(path) for path in args[: CHANGES[event]]]
    # a file that was opened to be read has rights and dates, too; to be made shorter it
    # must have been opened to be written
    if None in paths and event != "os.truncate":
        return "changes an open file"
    if event == "os.mkdir":
        *_, folders = kept
        folders.extend(filter(None, paths))
        if len(folders) > FOLDERS:
            return "makes too many folders"
    says = [opened(kept, path, 1) for path in paths if path is not None]
    return next(filter(None, says), "")


def opened(kept: Kept, path: str, writing: int) -> str:
    """What is wrong with opening a path, or with changing it; empty if nothing is."""
    _, rights, _, changed, _ = kept
    has = right(rights, path)
    if writing and has == WRITE:
        changed.append(path)
        return "changes too many files" if len(changed) > CHANGED else ""
    if writing and has != FREE:
        return "writes to " + path
    if has == NONE:
        return "reads " + path
    try:
        # of a path that is given from an open folder on, only the end is seen here
        is_folder = stat(path).st_mode & 0o170000 == 0o040000
    except (OSError, ValueError):
        return ""
    return "opens the folder " + path if is_folder and has != WRITE else ""


def right(rights: Rights, path: str) -> int:
    """What may be done with a path."""
    # from an open folder on, or behind a link, it leads elsewhere than it says
    if ".." in path.replace("\\", "/").split("/"):
        return NONE
    try:
        whole = absolute(path)
    except OSError:  # the folder that it starts from is gone
        return NONE
    for folder, has in rights:
        if whole == folder or whole.startswith(folder + "/"):
            return has
    return NONE


def named(path: Any) -> str | None:
    """A path as plain text; None for none, and for a descriptor that is open.

    Raises TypeError for another type: some functions take whatever holds bytes.
    """
    # by the types' own methods: a subclass, or what says that it is one, has others
    if issubclass(type(path), str):
        return str.__str__(path)
    if issubclass(type(path), bytes):
        return bytes.decode(path, "utf-8", "surrogateescape")
    if path is None or issubclass(type(path), int):
        return None
    raise TypeError


def rooted(path: str) -> bool:
    """Whether a path starts from the root."""
    return path.startswith("/") or (WINDOWS and path[1:2] in (":", "\\"))


def absolute(path: str) -> str:
    """The path from the root on, without ".".

    All in small letters where the system does not tell them from capitals.
    """
    whole = path if rooted(path) else getcwd() + "/" + path
    if WINDOWS:
        whole = whole.replace("\\", "/")
    parts = [part for part in whole.split("/") if part not in ("", ".")]
    whole = "/" + "/".join(parts)
    return whole.lower() if FOLDED else whole


def rights_of(folder: str, guarded: list[str]) -> Rights:
    """What may be done where: all in the own folder, reading where modules are.

    From the guarded folders nothing is read, whatever links lead to them, but from
    places of modules below them.
    """
    readable = [*filter(None, sys.path), "/dev/urandom"]
    rights = dict.fromkeys(readable, READ)
    for path in map(Path, readable):
        for inner in map(Path, guarded):
            with contextlib.suppress(ValueError):  # it lies elsewhere
                rights[str(path / inner.relative_to(path.resolve()))] = NONE
    return longest_first(rights | {folder: WRITE, os.devnull: FREE})


def compiled_of() -> Rights:
    """Where compiled code is read: Python's own, and that of packages in use."""
    rights = {}
    for path in filter(None, sys.path):
        others = os.path.basename(path) in ("site-packages", "dist-packages")
        rights[path] = NONE if others else READ
    for module in list(sys.modules.values()):
        # torch keeps what is no module among them
        folder, name = os.path.split(str(getattr(module, "__file__", "")))
        if name == "__init__.py":
            rights[folder] = READ
    return longest_first(rights)


def longest_first(rights: dict[str, int]) -> Rights:
    """Rights by folders, as the hook goes through them."""
    found = {absolute(path): has for path, has in rights.items()}
    return tuple(sorted(found.items(), key=lambda pair: -len(pair[0])))


def limit(memory: int, seconds: float) -> None:
    """Set what the system can hold a process to; memory is limited on Linux only."""
    try:
        import resource
    except ImportError:  # Windows
        return
    wanted = {
        "RLIMIT_CORE": 0,
        # for what is left behind if the parent ends; the parent's clock is stricter
        "RLIMIT_CPU": math.ceil(50 * seconds) + 10,
        "RLIMIT_FSIZE": FILE_BYTES,
        "RLIMIT_NOFILE": DESCRIPTORS,
        "RLIMIT_NPROC": 0,
    }
    pages = "/proc/self/statm"
    if os.path.exists(pages):
        with open(pages) as file:
            held = int(file.read().split()[0]) * resource.getpagesize()
        wanted["RLIMIT_AS"] = held + memory
    for name, most in wanted.items():
        kind = getattr(resource, name, None)
        if kind is not None:
            hard = resource.getrlimit(kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            # a system may know a limit by name only
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(kind, (most, most))


def silence() -> None:
    """Put something that refuses in the place of what tells no event."""
    for name in sys.builtin_module_names:
        importlib.import_module(name)
    for module, names in UNHEARD.items():
        for name in names:
            for place in (module, sys.modules.get("posix"), sys.modules["_signal"]):
                if hasattr(place, name):
                    os.supports_dir_fd.discard(getattr(place, name))
                    setattr(place, name, refuse)
    gc.disable()


def seal(target: int, settings: dict[str, Any]) -> None:
    """Close the ways out; `target` is where the parent listens."""
    limit(settings["memory"], settings["seconds"])
    silence()
    for name in [x for x in sys.modules if x.partition(".")[0] in HIDDEN]:
        del sys.modules[name]
    loaded = {name.partition(".")[0] for name in sys.modules} - {"ctlearn", "runner"}
    allowed = (sys.stdlib_module_names | loaded) - HIDDEN
    sys.meta_path.insert(0, Finder(allowed))
    # a warning and a traceback show lines of files that are not for reading
    linecache.updatecache = no_lines
    rights = rights_of(settings["folder"], settings["guarded"])
    kept: Kept = (target, rights, compiled_of(), [], [])
    # nothing that the code can name leads here
    del sys.modules[__name__]
    del vars(sys.modules[__name__.rpartition(".")[0]])["fence"]
    sys.addaudithook(functools.partial(hook, kept))
