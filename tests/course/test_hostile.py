"""Submissions that mean harm, or do it: each ends soon, with its verdict, unpassed."""

import sys
import time
from pathlib import Path

import pytest

from ctlearn.course import bank, judge
from ctlearn.course.exercise import Exercise, slip
from ctlearn.course.properties import Untouched, Values
from ctlearn.course.sandbox import Limits, Text

# For what does not end; and for the rest, on a busy machine.
LIMITS = Limits(seconds=0.5, memory=2**28, output=2**20)
PATIENT = LIMITS._replace(seconds=20)
BANK = Path(bank.__file__).with_name("chapter_07.py")


def double(x):
    """Twice x [n]."""
    return 2 * x


def asked(name, uses=()):
    """The exercise to double an array, under any name."""
    reference = slip(double)
    reference.__name__ = name
    return Exercise(
        key=f"00.{name}",
        title="Double it",
        statement="Double it.",
        reference=reference,
        returns=("y",),
        draw=lambda rng, sizes: {"x": rng.normal(size=sizes["n"])},
        shapes=({"n": 3}, {"n": 1}),
        properties=(Values(), Untouched()),
        mistakes=(),
        hint="Add it to itself.",
        minutes=1,
        marks=1,
        uses=uses,
    )


# What leaves its process as it is: all of them are asked of one. A body, or a whole
# text that defines double.
CALM = {
    "right": ("passed", "return x + x"),
    "calls by a name of its own": ("passed", "return helper(x)"),
    "starts wrong after three calls": (
        "wrong",
        "calls.append(0)\nreturn x * (2 + (len(calls) > 3))",
    ),
    "stores what it was given": ("wrong", "calls.append(x)\nreturn 2 * calls[0]"),
    "changes its input": ("wrong", "x *= 2\nreturn x"),
    "returns the input changed later": ("wrong", "y = 2 * x\nx[:] = 0\nreturn y"),
    "NaN everywhere": ("wrong", "return x * np.nan"),
    "complex": ("wrong", "return 2 * x + 0j"),
    "half precision": ("wrong", "return (2 * x).astype(np.float16)"),
    "another shape": ("wrong", "return 2 * x[:, None]"),
    "thirty axes": ("wrong", "return (2 * x).reshape(1, *[1] * 30, -1)"),
    "no values": ("wrong", "return np.empty((0, 10**15))"),
    "None": ("wrong", "return None"),
    "a large integer": ("wrong", "return 10**400"),
    "infinite": ("wrong", "return float('inf')"),
    "an integer too large to be told": ("shape", "return 10**5000"),
    "two values": ("shape", "return 2 * x, 2 * x"),
    "a list": ("shape", "return list(2 * x)"),
    "a list of lists": ("shape", "return [[1], [1, 2]]"),
    "a list in itself": ("shape", "y = []\ny.append(y)\nreturn y"),
    "a long list": ("shape", "return [0] * 10**6"),
    "a generator": ("shape", "return (2 * y for y in x)"),
    "a string": ("shape", "return '2x'"),
    "a dictionary": ("shape", "return {'y': 2 * x}"),
    "the function itself": ("shape", "return np.sum"),
    "object dtype": ("shape", "return np.full(3, None)"),
    "dates": ("shape", "return x.astype('M8[s]')"),
    "a structure": ("shape", "return x.view('f4,f4')"),
    "a matrix": ("shape", "return np.matrix(2 * x)"),
    "a masked array": ("shape", "return np.ma.array(2 * x)"),
    "what says that it is an array": ("shape", "return Liar()"),
    "what says that it is a tuple": ("shape", "return Liar.of(tuple)"),
    "a subclass of arrays": ("shape", "return (0 * x).view(Subclass)"),
    "a subclass of numbers": ("shape", "return Number(1)"),
    "a subclass of tuples": ("shape", "return Pair((2 * x,))"),
    "raises SystemExit": ("error", "raise SystemExit(0)"),
    "exits": ("error", "sys.exit(0)"),
    "raises KeyboardInterrupt": ("error", "raise KeyboardInterrupt"),
    "raises an exception of its own": ("error", "raise Own"),
    "recursion without end": ("error", "return double_(x)"),
    "gets at C by NumPy": ("error", "return x.ctypes._ctypes.string_at(0)"),
    "has a signal run its code": (
        "error",
        "import signal\nsignal.signal(signal.SIGALRM, print)",
    ),
    "has a signal run its code, by what is below": (
        "error",
        "import _signal\n_signal.signal(_signal.SIGALRM, print)",
    ),
    "has garbage run its code": ("error", "import gc\ngc.enable()"),
    "looks whether garbage is collected": (
        "wrong",
        "import gc\nreturn 2 * x if gc.isenabled() else x",
    ),
    "makes a module anew": (
        "error",
        "del sys.modules['_signal']\nimport _signal",
    ),
    "complains at length": ("error", "raise ValueError('a' * 2**21)"),
    "gives a terminal orders": ("error", "raise ValueError('\\x1b[2J\\0')"),
    "changes arrays' methods": ("error", "np.ndarray.__eq__ = lambda *_: True"),
    "starts a thread": (
        "error",
        "import threading\nthreading.Thread(target=double).start()",
    ),
    "makes a pipe elsewhere": (
        "error",
        "import posix\nposix.mkfifo('mine')",
    ),
    "makes a pipe elsewhere, and finds how among others": (
        "error",
        "import os\n"
        "next(f for f in os.supports_dir_fd if f.__name__ == 'mkfifo')('mine')",
    ),
    "signals without a word": (
        "error",
        "import os, signal\nsignal.pidfd_send_signal(os.pidfd_open(os.getppid()), 0)",
    ),
    "slows its parent down": (
        "error",
        "import os\nos.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
    ),
    "sets the clock": (
        "error",
        "import time\ntime.clock_settime(time.CLOCK_REALTIME, time.time())",
    ),
    "chooses its parent's processor": (
        "error",
        "import os\nos.sched_setaffinity(os.getppid(), {0})",
    ),
    "asks": ("error", "return input()"),
    "one file too large": ("error", "open('a', 'wb').write(bytes(2**23))"),
    "a large view of little": ("output", "return np.broadcast_to(x[0], (10**12,))"),
    "imports the reference": (
        "forbidden",
        "from ctlearn.course.bank import chapter_07",
    ),
    "imports by a function": (
        "forbidden",
        "import importlib\nimportlib.import_module('ctlearn.memory')",
    ),
    "reads a package": (
        "forbidden",
        "import pkgutil\npkgutil.get_data('ctlearn.course.bank', 'draws.py')",
    ),
    "imports ctypes": ("forbidden", "import ctypes\nctypes.string_at(0)"),
    "imports subprocess": ("forbidden", "import subprocess"),
    "imports multiprocessing": ("forbidden", "import multiprocessing"),
    "imports socket": ("forbidden", "import socket"),
    "imports a library": ("forbidden", "import sympy"),
    "reads lines": (
        "error",
        f"import linecache\nreturn linecache.getlines({str(BANK)!r})[9]",
    ),
    "looks through frames": (
        "wrong",
        "f = sys._getframe()\nwhile f.f_back: f = f.f_back\nreturn 3 * x",
    ),
    "deletes its folder": (
        "wrong",
        "import os, shutil\nshutil.rmtree(os.getcwd())\nreturn x",
    ),
}
# Where memory has a limit, that is.
if sys.platform == "linux":
    CALM |= {
        "asks for a terabyte": ("memory", "return np.ones(2**37) * x[0]"),
        "asks again and again": ("memory", "y = [0]\nwhile True: y += y"),
    }
HELPERS = """
import numpy as np
import sys

calls = []

class Liar:
    def __array__(self, *_, **__): return np.zeros(3)
    def __eq__(self, other): return True
    def __getattr__(self, name): return self
    __class__ = np.ndarray

    @classmethod
    def of(cls, kind): return type("Liar", (cls,), {"__class__": kind})()

class Subclass(np.ndarray):
    def astype(self, *_): return self
    def tobytes(self): return b""

class Number(float):
    __class__ = float

class Pair(tuple):
    def __iter__(self): raise Own

class Meta(type):
    __name__ = property(lambda self: sys.exit())

class Own(BaseException, metaclass=Meta):
    def __str__(self): raise SystemExit

def helper(x): return 2 * x
def double_(x): return double_(x)
"""


def function(name, body):
    """The text of a function of x."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"def {name}(x):\n{lines}\n"


def test_what_a_process_lives_through_is_told_one_by_one():
    names = {f"double_{i}": case for i, case in enumerate(CALM)}
    text = HELPERS + "".join(function(n, CALM[case][1]) for n, case in names.items())
    wanted = [asked(name) for name in names]
    found = list(judge.verdicts(wanted, Text(text), limits=PATIENT))
    kinds = {c: v.kind for c, v in zip(CALM, found, strict=True)}
    assert kinds == {case: kind for case, (kind, _) in CALM.items()}
    assert [v.passed for v in found] == [v.kind == "passed" for v in found]
    assert all(v.says and v.says.isprintable() for v in found)


def at_import(text):
    """A text that does something before it defines a right function."""
    return f"{text}\n{function('double', 'return 2 * x')}"


# Writes bytes to whatever is open.
WRITE_ALL = """import os
def write_all(data):
    for n in range(3, 64):
        try: os.write(n, data)
        except OSError: pass
"""
# A message that is one, and says nothing.
EMPTY = (10).to_bytes(8, "big") + (2).to_bytes(8, "big") + b"{}"
ENDLESS = "while True: pass"

# What ends its process; a kind, a word of what is said, and a text.
STORMY = {
    "endless": ("time", "0.5 s", function("double", ENDLESS)),
    "endless where no signal arrives": (
        "time",
        "",
        function("double", "sum(iter(int, 1))"),
    ),
    "endless arithmetic": ("time", "", function("double", "10**10**8")),
    "endless at import": ("time", "", at_import(ENDLESS)),
    "sleeps": ("time", "", function("double", "import time\ntime.sleep(1000)")),
    "sleeps when it is cleared away": (
        "time",
        "",
        "import time\nclass A:\n    def __del__(self): time.sleep(1000)\n"
        + function("double", "a = A()\nreturn 2 * x"),
    ),
    "ignores signals": (
        "time",
        "",
        at_import(
            "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n"
            "while True: pass"
        ),
    ),
    "swallows what is written": (
        "time",
        "",
        function("double", "import os\nos.write = lambda _, data: len(data)\nreturn x"),
    ),
    "aborts": ("crash", "SIGABRT", function("double", "import os\nos.abort()")),
    "has used up its processor's time": (
        "time",
        "",
        function("double", "import signal\nsignal.raise_signal(signal.SIGXCPU)"),
    ),
    "exits at once": (
        "crash",
        "status 0",
        function("double", "import os\nos._exit(0)"),
    ),
    "exits at once at import": (
        "crash",
        "status 0",
        at_import("import os\nos._exit(0)"),
    ),
    "reads at zero": (
        "crash",
        "SIGSEGV",
        function("double", "import faulthandler\nfaulthandler._sigsegv()"),
    ),
    # the one or the other, as Python's version has it
    "recursion past the stack": (
        "crash or error",
        "",
        "import sys\nsys.setrecursionlimit(10**9)\nclass A:\n"
        "    def __getattr__(self, n): return getattr(self, n + 'a')\n"
        + function("double", "return A().b"),
    ),
    "interrupts itself": (
        "crash",
        "SIGINT",
        function("double", "import signal\nsignal.raise_signal(signal.SIGINT)"),
    ),
    "ends by a signal that has no name": (
        "crash",
        "status",
        function("double", "import signal\nsignal.raise_signal(40)"),
    ),
    "closes all": ("crash", "", at_import("import os\nos.closerange(0, 64)")),
    "prints without end": (
        "output",
        "prints",
        function("double", "while True: print(10**5 * 'a')"),
    ),
    "writes to the channel": (
        "forbidden",
        "channel",
        WRITE_ALL + function("double", f"write_all({EMPTY})"),
    ),
    "answers before it is asked": (
        "forbidden",
        "channel",
        at_import(WRITE_ALL + f"write_all({EMPTY * 9})"),
    ),
    "announces a petabyte": (
        "output",
        "returns",
        at_import(WRITE_ALL + f"write_all({(2**50).to_bytes(8, 'big')})"),
    ),
    "forks": ("forbidden", "process", function("double", "import os\nos.fork()")),
    "forks, and catches what comes": (
        "forbidden",
        "process",
        at_import(
            "import os\nwhile True:\n    try: os.fork()\n    except BaseException: pass"
        ),
    ),
    "a shell": (
        "forbidden",
        "process",
        function("double", "import os\nos.system('true')"),
    ),
    "another program": (
        "forbidden",
        "process",
        function("double", f"import os\nos.execv({sys.executable!r}, ['a'])"),
    ),
    "spawns": (
        "forbidden",
        "process",
        function("double", "import os\nos.posix_spawn('/bin/true', ['a'], {})"),
    ),
    "kills its parent": (
        "forbidden",
        "signal",
        function("double", "import os\nos.kill(os.getppid(), 0)"),
    ),
    "takes the finder away": (
        "forbidden",
        "loads",
        function("double", "import sys\ndel sys.meta_path[0]\nimport _posixsubprocess"),
    ),
    "puts the finder out of work": (
        "forbidden",
        "reads",
        "import sys\n"
        + function(
            "double",
            "type(sys.meta_path[0]).find_spec = lambda *_: None\n"
            "sys.modules['ctlearn'].__path__ = "
            f"[{str(BANK.parents[2])!r}]\nimport ctlearn.memory",
        ),
    ),
    "has its parent signalled": (
        "forbidden",
        "fcntl",
        function("double", "import fcntl, os\nfcntl.fcntl(2, 8, os.getppid())"),
    ),
    "raises its limits": (
        "forbidden",
        "limits",
        function("double", "import resource as r\nr.setrlimit(r.RLIMIT_AS, (-1, -1))"),
    ),
    "looks at all objects": (
        "forbidden",
        "others",
        function("double", "import gc\ngc.get_objects()"),
    ),
    "makes links": (
        "forbidden",
        "link",
        function("double", "import os\nos.symlink('/etc', 'a')"),
    ),
    "many files": (
        "forbidden",
        "files",
        function("double", "while True: open('a', 'w').close()"),
    ),
    "folders in folders": (
        "forbidden",
        "folders",
        function("double", "import os\nwhile True: os.mkdir('a'), os.chdir('a')"),
    ),
    # until Python 3.13 some functions take bytes that can be changed for a path
    "removes by a path of another type": (
        "forbidden or error",
        "",
        function("double", "import os\nos.remove(bytearray(b'/no/such/file'))"),
    ),
    "changes rights of what it may read": (
        "forbidden",
        "changes",
        function(
            "double",
            "import decimal, os\nfile = os.open(decimal.__file__, 0)\n"
            "os.fchmod(file, os.fstat(file).st_mode & 0o777)",
        ),
    ),
    "removes from an open folder up": (
        "forbidden",
        "writes",
        function(
            "double",
            "import os\ntop = os.open('.', 0)\nos.mkdir('a')\nos.chdir('a')\n"
            "os.remove('../no-such-file', dir_fd=top)",
        ),
    ),
    "writes elsewhere": (
        "forbidden",
        "writes",
        function("double", "open('../a', 'w')"),
    ),
    "loads a library of its own": (
        "forbidden",
        "loads",
        function(
            "double",
            "open('a.so', 'wb').close()\n"
            "from importlib import machinery as m, util\n"
            "l = m.ExtensionFileLoader('a', 'a.so')\n"
            "l.create_module(util.spec_from_loader('a', l))",
        ),
    ),
    "loads another package's library": (
        "forbidden",
        "loads",
        function(
            "double",
            "import sys\nfrom importlib import machinery as m, util\n"
            "p = next(p for p in sys.path if p.endswith('packages')) + '/a.so'\n"
            "l = m.ExtensionFileLoader('a', p)\n"
            "l.create_module(util.spec_from_loader('a', l))",
        ),
    ),
    "loads what is hidden by another name": (
        "forbidden",
        "loads",
        function(
            "double",
            "import _hashlib\nfrom importlib import machinery as m, util\n"
            "p = _hashlib.__file__.replace('_hashlib', '_posixsubprocess')\n"
            "l = m.ExtensionFileLoader('a._posixsubprocess', p)\n"
            "l.create_module(util.spec_from_loader('a._posixsubprocess', l))",
        ),
    ),
    # each of these would run its own code where the fence's frame is seen
    "a number that is none": (
        "forbidden",
        "lies",
        "class N:\n    def __and__(self, _): return 0\n"
        + function("double", "import sys\nsys.audit('open', 'a', 'r', N())"),
    ),
    "a path that says that it is text": (
        "forbidden",
        "reads",
        "class P:\n    __class__ = str\n    def __fspath__(self): return '/a\x1b[2J'\n"
        + function("double", "open(P())"),
    ),
    "confuses the fence": (
        "forbidden",
        "",
        function("double", "import sys\nsys.audit('open')"),
    ),
}
# Ways to the reference's text, each with its path.
READS = {
    "open": "return open(p).read()",
    "bytes": "return open(p.encode()).read()",
    "a path": "import pathlib\nreturn pathlib.Path(p).read_text()",
    "a string that lies": (
        "class S(str):\n"
        "    def startswith(self, *_): return False\n"
        "    def __str__(self): return 'a'\n"
        "    def __fspath__(self): return S(p)\n"
        "return open(S(p)).read()"
    ),
    "from the folder up": "import os\nreturn open(os.path.relpath(p)).read()",
    "by links of the time zones": (
        "zones = '/usr/share/zoneinfo' + '/posix/Pacific/..' * 9 + '/..' * 3\n"
        "return open(zones + p).read()"
    ),
    "a descriptor": "import os\nos.open(p, 0)",
    "names of the fence": (
        "import linecache, os, sys\n"
        "vars(sys.modules['runner']).get('fence', os).fault = lambda *_: ''\n"
        "for f in os.mkfifo, linecache.updatecache, sys.meta_path[0].find_spec:\n"
        "    f.__globals__['fault'] = lambda *_: ''\n"
        "return open(p).read()"
    ),
    "classes of the fence": (
        "for base in object, tuple:\n"
        "    for c in base.__subclasses__():\n"
        "        if c.__module__ == 'runner.fence':\n"
        "            c.rights = property(lambda _: (('', 3),))\n"
        "return open(p).read()"
    ),
    "a folder's descriptor": (
        "import os, sys\nos.open(next(x for x in sys.path if x[-8:] == 'packages'), 0)"
    ),
    "NumPy": "return np.fromfile(p, 'u1')",
    "a loader": (
        "import importlib.machinery\n"
        "importlib.machinery.SourceFileLoader('a', p).load_module()"
    ),
    "an archive": "import zipimport\nzipimport.zipimporter(p)",
    "its own memory": "return open('/proc/self/mem', 'rb').read(1)",
    "its parent's memory": "import os\nopen(f'/proc/{os.getppid()}/mem')",
}
# What other code relies on, replaced before a right function is defined.
REPLACED = {
    "numpy.allclose": "np.allclose = lambda *_, **__: True",
    "numpy.linalg.solve": "np.linalg.solve = None",
    "numpy.random.default_rng": "np.random.default_rng = None",
    "builtins.abs": "import builtins\nbuiltins.abs = lambda _: 0",
    "numpy": "import sys, types\nsys.modules['numpy'] = types.ModuleType('numpy')",
    "sys.meta_path": "import sys\ndel sys.meta_path[0]",
    "channel": "import json\njson.dumps = lambda *_, **__: '{}'",
}


def hold(text, kind, word, uses=()):
    """Judge a text; it must not pass, and must end soon."""
    start = time.monotonic()
    limits = LIMITS if kind == "time" else PATIENT
    verdict = judge.judge(asked("double", uses), Text(text), limits=limits)
    assert verdict.kind in kind.split(" or "), verdict
    assert not verdict.passed
    assert word in verdict.says, verdict
    assert verdict.says.isprintable()
    # most of it is the start of a process on a busy machine
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("case", STORMY)
def test_what_ends_its_process_is_told(case):
    hold(STORMY[case][2], *STORMY[case][:2])


@pytest.mark.parametrize("way", READS)
def test_the_reference_cannot_be_read(way):
    text = f"import numpy as np\np = {str(BANK)!r}\n" + function("double", READS[way])
    opens = "folder" if way.startswith("a folder") else "reads"
    hold(text, "forbidden", opens)


@pytest.mark.parametrize("name", REPLACED)
def test_what_replaces_others_names_is_told(name):
    hold(at_import(f"import numpy as np\n{REPLACED[name]}"), "forbidden", name)


def test_ctlearn_cannot_be_replaced_where_it_may_be_used():
    text = at_import("from ctlearn import memory\nmemory.step = None")
    hold(text, "forbidden", "ctlearn.memory.step", uses=("ctlearn.memory",))


def test_the_clone_cannot_be_read_where_ctlearn_may_be_used(root):
    text = function("double", f"open({str(root / 'README.md')!r})")
    hold(text, "forbidden", "reads", uses=("ctlearn.memory",))


def test_nothing_waits_for_what_comes_after_the_answer():
    text = at_import("import atexit, time\natexit.register(time.sleep, 1000)")
    start = time.monotonic()
    assert judge.judge(asked("double"), Text(text), limits=PATIENT).passed
    assert time.monotonic() - start < 30
