"""The child process: what goes in and out, and what is around it."""

import json
import os
import signal
import sys
import tempfile
import threading

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ctlearn import memory
from ctlearn.course import sandbox
from ctlearn.course.exercise import Stopped
from ctlearn.course.runner import fence
from ctlearn.course.runner.child import ending
from ctlearn.course.runner.messages import CODES, HEAD, TooMuch, Unfit, pack, unpack
from ctlearn.course.runner.submission import Submission
from ctlearn.course.sandbox import File, Function, Limits, Sandbox, Text

LIMITS = Limits(seconds=5, memory=2**28, output=2**20)

numbers = arrays.arrays(
    st.sampled_from([np.dtype(code) for code in CODES]),
    arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | numbers
)
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


def alike(x, y):
    """Whether two values are of the same types and hold the same."""
    if type(x) is not type(y):
        return False
    if isinstance(x, np.ndarray):
        same = x.dtype == y.dtype and x.shape == y.shape
        return same and x.tobytes() == y.tobytes()
    if isinstance(x, list | tuple):
        return len(x) == len(y) and all(map(alike, x, y))
    if isinstance(x, dict):
        return list(x) == list(y) and all(map(alike, x.values(), y.values()))
    return repr(x) == repr(y)


@given(values)
@settings(max_examples=60, deadline=None)
def test_a_message_arrives_as_it_was_sent(value):
    assert alike(unpack(pack(value)), value)


@given(values, st.data())
@settings(max_examples=60, deadline=None)
def test_a_damaged_message_is_a_value_or_no_message(value, data):
    damaged = bytearray(pack(value))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        pack(unpack(bytes(damaged)))
    except ValueError as error:
        assert str(error).startswith("no message")  # noqa: PT017


HEADS = (
    b"",
    b"[" * 10**5,
    b'{"array": ["|O", [1]]}',
    b'{"array": ["<f8", [-1, -8]]}',
    b'{"array": ["<f8", [0, 1e400]]}',
    b'{"array": ["<f8", 3]}',
    b'{"array": []}',
    b'{"bytes": -1}',
    b'{"bytes": 1.5}',
    b'{"complex": ["a", 1]}',
    b'{"dict": {"a": 1}}',
    b'{"dict": [[1]]}',
    b'{"tuple": 3}',
    b'{"other": 3}',
    b"9" * 5000,
    b" " * HEAD + b"1",
)


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head[:24].decode())
def test_what_is_no_message_is_a_value_error(head):
    for data in (len(head).to_bytes(8, "big") + head, pack(1) + head[:1] + b"1"):
        with pytest.raises(ValueError, match="no message"):
            unpack(data)


def test_what_cannot_be_sent_is_told():
    for value in (object(), np.full(2, None), np.ma.array([1.0]), {1: {2}}):
        with pytest.raises(Unfit, match=r"^a(n array of object| value of the type)"):
            pack(value)
    with pytest.raises(TooMuch):
        pack(np.broadcast_to(1.0, (10**9, 10**9)), limit=10**6)
    with pytest.raises(TooMuch):
        pack(list(range(10**6)))
    with pytest.raises(TooMuch):
        pack([np.zeros(10)] * 9, limit=700)


def test_the_longest_folder_that_fits_decides():
    rights = fence.longest_first(
        {"/a": fence.READ, "/a/b": fence.NONE, "/a/b/c": fence.WRITE}
    )
    expected = {
        "/a/x": fence.READ,
        "/a": fence.READ,
        "/ab": fence.NONE,
        "/a/b/x": fence.NONE,
        "/a/b/c/x": fence.WRITE,
        "/a/./b//c/x": fence.WRITE,
        # what is above a link lies elsewhere
        "/a/x/../y": fence.NONE,
        "/a/b/c/../x": fence.NONE,
        "/../../a/x": fence.NONE,
    }
    assert {path: fence.right(rights, path) for path in expected} == expected


def test_from_a_folder_that_is_gone_nothing_may_be_done(monkeypatch):
    def gone():
        raise FileNotFoundError

    monkeypatch.setattr(fence, "getcwd", gone)
    assert fence.right(fence.longest_first({"/": fence.WRITE}), "a") == fence.NONE


def test_what_is_guarded_is_so_by_any_path(tmp_path, monkeypatch):
    inside = tmp_path / "library" / "ours"
    inside.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "library")
    monkeypatch.setattr(sys, "path", [str(link), str(inside)])
    rights = fence.rights_of(str(tmp_path / "own"), [str(inside)])
    expected = {
        str(link / "a"): fence.READ,
        str(link / "ours" / "a"): fence.NONE,
        str(inside / "a"): fence.NONE,
        str(tmp_path / "own" / "a"): fence.WRITE,
    }
    assert {path: fence.right(rights, path) for path in expected} == expected


def test_events_are_refused_by_name_by_family_and_by_path(tmp_path):
    rights = fence.longest_first({str(tmp_path): fence.WRITE, "/lib": fence.READ})
    compiled = fence.longest_first({"/lib": fence.NONE, "/lib/in-use": fence.READ})
    own = 0, rights, compiled, [], []
    inside, hidden = str(tmp_path / "a"), next(iter(fence.HIDDEN))
    harmless = (
        ("open", (inside, "w", os.O_WRONLY)),
        ("open", (inside.encode(), "r", 0)),
        ("open", (7, "w", os.O_WRONLY)),
        ("import", ("m", "/lib/in-use/m.so", None)),
        ("import", ("m", None, [])),
        ("os.rename", (inside, inside + "b", -1, -1)),
        ("os.listdir", ("/",)),
        ("compile", (None, "a")),
    )
    refused = (
        ("open", ("/lib/a", "w", os.O_RDWR)),
        ("open", ("/etc/a", "r", 0)),
        ("import", ("m", inside, None)),
        ("import", ("m", "/lib/m.so", None)),
        ("import", (hidden, "/lib/in-use/m.so", None)),
        ("os.rename", (inside, "/lib/a", -1, -1)),
        ("os.remove", ("/lib/a", -1)),
        ("os.fork", ()),
        ("socket.connect", (None, "a")),
        ("ctypes.dlopen", ("a",)),
    )
    assert [fence.fault(own, *event) for event in harmless] == [""] * len(harmless)
    assert all(fence.fault(own, *event) for event in refused)


SURROUNDINGS = """
import os, sys, tempfile
def known():
    at_home = os.getcwd() == os.environ["HOME"] == tempfile.gettempdir()
    return len(os.environ), len(os.listdir()), at_home
def read():
    return len(sys.stdin.read()), len(sys.argv)
def seen():
    on_the_path = any("course" in path for path in sys.path)
    threads = int(os.environ["OMP_NUM_THREADS"])
    fence = int("runner.fence" in sys.modules)
    return int(on_the_path), fence, sys.flags.isolated, threads
def writes(x):
    with open("a", "w") as file: file.write("b")
    return len(os.listdir())
def hidden():
    os.chmod(".", 0)
    return 1
def pair(x, y=1):
    return x, [y][0]
"""


def told(box, name, **inputs):
    """The kind and the words of a call that gives no answer."""
    with pytest.raises(Stopped) as stopped:
        box.call(name, inputs)
    return stopped.value.kind, stopped.value.says


def test_the_child_has_an_empty_folder_and_a_bare_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET", "1")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Sandbox(Text(SURROUNDINGS), limits=LIMITS) as box:
        assert len(list(tmp_path.iterdir())) == 1
        variables, files, at_home = box.call("known", {}).value
        assert (files, at_home) == (0, True)
        # Python adds one for the locale
        assert variables <= 6 + 1 + len(sandbox.KEPT)
        assert box.call("read", {}).value == (0, 1)
        assert box.call("seen", {}).value == (0, 0, 1, 1)
        assert box.call("writes", {"x": None}).value == 1
        x = np.arange(3.0)
        answer = box.call("pair", {"x": x, "y": True})
        assert alike(answer.value, (x, True))
        assert alike(answer.inputs, {"x": x, "y": True})
        assert told(box, "pair", z=1)[0] == "error"
        assert told(box, "other") == ("missing", "There is no function other.")
        assert box.call("hidden", {}).value == 1
    assert box.child.process.returncode is not None
    assert list(tmp_path.iterdir()) == []
    # its number may be another's by now
    monkeypatch.setattr(os, "killpg", None)
    box.child.close()


def test_a_child_that_does_not_read_stops_nobody(tmp_path):
    child = sandbox.Child("import time; time.sleep(30)", str(tmp_path), 2**20)
    try:
        with pytest.raises(Stopped, match="in time"):
            child.ask(bytes(2**20), 0.1)
    finally:
        child.close()


def test_seconds_are_for_all_calls_until_they_are_renewed():
    text = "import time\ndef nap(): time.sleep(0.4)"
    with Sandbox(Text(text), limits=LIMITS._replace(seconds=1.0)) as box:
        box.call("nap", {})
        box.renew()
        box.call("nap", {})
        left = box.left
        kind, says = told(box, "nap") if left < 0.4 else told_late(box)
        assert (kind, says) == ("time", "It does not end within 1 s.")
        assert box.child.process.returncode is not None


def told_late(box):
    """As told, after one call more."""
    box.call("nap", {})
    return told(box, "nap")


def test_what_may_be_used_is_there_and_the_rest_is_not():
    text = """
from ctlearn import memory
from ctlearn.course import check
try:
    import ctlearn.tasks.recall
except ImportError as error:
    says = str(error)
def step(): return len(says), int(callable(memory.step)), int(check("a") is None)
"""
    with Sandbox(Text(text), ("ctlearn.memory",), LIMITS) as box:
        length, *rest = box.call("step", {}).value
    assert length == len("ctlearn.tasks may not be imported")
    assert rest == [1, 1]
    with pytest.raises(RuntimeError, match="No module named 'nosuch'"):
        Sandbox(Text(text), ("nosuch",), LIMITS).__enter__()


def test_a_large_library_may_be_used():
    pytest.importorskip("torch", reason='no torch: pip install "ctlearn[torch]"')
    text = """
import torch
def slope(x):
    w = torch.tensor(x, requires_grad=True)
    (w @ w).backward()
    return w.grad.numpy()
"""
    x = np.arange(3.0)
    with Sandbox(Text(text), ("torch",), Limits()) as box:
        assert alike(box.call("slope", {"x": x}).value, 2 * x)


def test_all_of_numpy_can_be_had_by_name():
    text = "from numpy import *\ndef mine(x): return multiply(2, linalg.norm(x))"
    with Sandbox(Text(text), limits=LIMITS) as box:
        assert box.call("mine", {"x": np.array([3.0, 4.0])}).value == 10


def notebook(folder, *cells):
    """A file of cells of code, with one of prose between them."""
    made = [{"cell_type": "code", "source": cell} for cell in cells]
    prose = {"cell_type": "markdown", "source": ["def mine(): return 0"]}
    file = folder / "handed-in.ipynb"
    file.write_text(json.dumps({"cells": [*made, prose], "nbformat": 4}))
    return File(file)


def test_a_notebook_is_its_cells_and_what_stops_costs_only_itself(tmp_path):
    cells = (
        ["%matplotlib inline\n", "import matplotlib.pyplot as plt\n", "import math"],
        "from __future__ import annotations\nfrom ctlearn.course import check\n!ls",
        "x = 1 / 0\ny = 2",
        "def mine(a: Nobody): return math.floor(a) + y\ndef lacks(): return x\nmine?",
        "check('a', mine)\nfor _ in range(2):\n    %time mine(1)\n"
        "def late(): raise ValueError(7)\ndef deep(): return late()\n",
        "%%bash\nls",
        "half a letter = '\ud800'",
    )
    # a message names its parts in a megabyte; the parts may be larger
    submission = notebook(tmp_path, *cells, "text = '" + "a" * 2**21 + "'")
    with Sandbox(submission, limits=LIMITS) as box:
        assert box.call("mine", {"a": 3.5}).value == 5
        kind, says = told(box, "lacks")
        first = "Refused: matplotlib may not be imported (line 2 of cell 1)."
        assert (kind, says.partition(" Before that: ")[2]) == ("error", first)
        none = f"There is no function other. {first}"
        assert told(box, "other") == ("missing", none)
        late = "Your function stops. ValueError: 7 (line 4 of cell 5)."
        assert told(box, "late") == told(box, "deep") == ("error", late)


def unreadable(folder):
    """Files that are none, with the kind of what is said of them."""
    deep = b'{"cells": ' + b"[" * 10**5
    contents = {
        "empty.py": b"",
        "zeros.py": bytes(9),
        "brackets.py": b"(" * 10**5,
        "half.py": b"def mine(:",
        "latin.py": "x = 'é'".encode("latin-1"),
        "deep.ipynb": deep,
        "list.ipynb": b"[]",
        "text.ipynb": b"def mine(): pass",
        "other.ipynb": b'{"cells": [{"cell_type": "code", "source": 3}]}',
        "CAPITALS.IPYNB": b"def mine(): pass",
        "cells.ipynb": json.dumps(
            {"cells": [{"cell_type": "code", "source": ""}] * (sandbox.MANY + 1)}
        ).encode(),
    }
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    with (folder / "large.py").open("wb") as file:
        file.truncate(sandbox.LARGEST + 1)
    (folder / "folder.py").mkdir()
    os.mkfifo(folder / "waits.py")
    return [*contents, "large.py", "folder.py", "waits.py", "absent.py"]


def test_a_file_that_cannot_be_read_is_missing_what_is_asked(tmp_path):
    names = unreadable(tmp_path)
    files = [tmp_path / name for name in names]
    payloads = {}
    for file in files:
        try:
            payloads[file.name] = File(file).payload()["cells"]
        except Stopped as stopped:
            assert stopped.kind == "missing"  # noqa: PT017
            assert file.name in stopped.says  # noqa: PT017
    assert set(names) - set(payloads) == {
        "deep.ipynb",
        "list.ipynb",
        "text.ipynb",
        "other.ipynb",
        "CAPITALS.IPYNB",
        "cells.ipynb",
        "large.py",
        "folder.py",
        "waits.py",
        "absent.py",
    }
    # the others are sent as they are, and Python says what is wrong with them; that
    # an editor wrote letters in a way of its own is not worth a mark
    for name, cells in payloads.items():
        submission = Submission()
        submission.load({"cells": cells})
        kind, says = submission.missing("mine")
        silent = name in ("empty.py", "latin.py")
        assert (kind, says.endswith("mine.")) == ("missing", silent)


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="no alarm on Windows")
def test_the_system_ends_what_has_no_parent_any_more():
    with ending(1.5):
        assert 6 < signal.getitimer(signal.ITIMER_REAL)[0] <= 7
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_a_process_is_limited_in_all_that_the_system_counts(monkeypatch):
    resource = pytest.importorskip("resource", reason="Windows has no such limits")
    held = {}
    monkeypatch.setattr(resource, "setrlimit", held.__setitem__)
    fence.limit(2**28, 2.0)
    most = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_CPU: 110,
        resource.RLIMIT_FSIZE: fence.FILE_BYTES,
        resource.RLIMIT_NOFILE: fence.DESCRIPTORS,
    }
    assert all(held[kind] <= (n, n) for kind, n in most.items())


def test_what_exits_is_not_read_further():
    submission = Submission()
    submission.load({"cells": [b"first = 1\nexit()\nsecond = 2", b"third = 3"]})
    assert [hasattr(submission.module, x) for x in ("first", "second", "third")] == [
        True,
        False,
        False,
    ]


def test_why_there_is_no_answer_is_told_in_words_that_there_are():
    said = [("error", "a\x1b[2J"), ("passed", "a"), ("error", 3), "error", None]
    found = [sandbox._told(x) for x in said]
    assert [x.kind for x in found] == ["error"] + ["forbidden"] * 4
    assert found[0].says == "a [2J"


GIVEN = 2.0


def helper(x):
    return GIVEN * x


def test_a_function_goes_by_value_with_what_it_names():
    shift = np.ones(2)

    def mine(x):
        return helper(x) + shift

    with Sandbox(Function(mine), limits=LIMITS) as box:
        answer = box.call("whatever its name is", {"x": np.arange(2.0)})
    assert alike(answer.value, np.array([1.0, 3.0]))
    # a session's own pickles stay as they were
    assert not cloudpickle.list_registry_pickle_by_value()


def test_a_function_that_cannot_go_is_told():
    lock = threading.Lock()
    with Sandbox(Function(lambda: lock), limits=LIMITS) as box:
        kind, says = told(box, "mine")
    assert (kind, "cannot be taken out" in says) == ("missing", True)


def test_ctlearns_own_functions_and_what_a_pickle_runs_are_refused():
    class Shell:
        def __reduce__(self):
            return os.system, ("true",)

    shell = Shell()
    for function, word in ((memory.step, "ctlearn.memory"), (lambda: shell, "process")):
        with Sandbox(Function(function), limits=LIMITS) as box:
            kind, says = told(box, "mine")
        assert (kind, word in says) == ("forbidden", True), says
