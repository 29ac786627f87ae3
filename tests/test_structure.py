"""The rules of the tree: packages, names, layers, citations."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(
    [*(ROOT / "ctlearn").rglob("*.py"), *(ROOT / "kernels" / "src").rglob("*.py")]
)
MIXERS = sorted((ROOT / "ctlearn" / "mixers").glob("[!_]*.py"))

# Imports go down: a module may import from its own rank (its own folder) and below.
RANKS = (
    {"scalars", "shapes"},
    {"buckets", "cost", "counting", "features", "inner", "memory", "objectives"}
    | {"supplies", "systems", "waves", "windows"},
    {"composed", "mechanism", "printed"},
    {"mixers"},
    {"identities", "tasks", "explore", "kernels", "layers", "plots", "listing"}
    | {"train"},
    {"course"},
    {"__main__"},
)


def tracked(root: Path) -> list[Path]:
    """The files that git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout
    files = [root / name for name in names.decode().split("\0") if name]
    return [file for file in files if file.is_file()]


def imported(tree: ast.AST) -> set[str]:
    """The parts of ctlearn that a module imports, as their first names."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "ctlearn":
            names |= {f"ctlearn.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    parts = {name.split(".")[1] for name in names if name.startswith("ctlearn.")}
    return {part for part in parts if not part.startswith("__")}


def rank(name: str) -> int:
    """The layer of the part `name` of ctlearn."""
    ranks = [i for i, names in enumerate(RANKS) if name in names]
    assert ranks, f"RANKS should say in which layer {name} stands"
    return ranks[0]


def cited_keys(text: str) -> set[str]:
    """Words of the form surnameYEAR, which is how every BibTeX key here is made."""
    return set(re.findall(r"\b[a-z]{2,}(?:19|20)\d\d[a-z]*\b", text))


def test_the_listed_packages_are_the_folders():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    tree = {
        ".".join(init.parent.relative_to(ROOT).parts)
        for init in (ROOT / "ctlearn").rglob("__init__.py")
    }
    assert set(settings["tool"]["setuptools"]["packages"]) == {
        *tree,
        "ctlearn.kernels",
    }


def test_every_folder_of_the_package_with_python_in_it_is_a_package():
    folders = {module.parent for module in MODULES}
    assert [f for f in folders if not (f / "__init__.py").exists()] == []


@pytest.mark.parametrize("safe", [True, False])
def test_import_kernels_from_the_root_is_never_ours(safe):
    assert not (ROOT / "kernels" / "__init__.py").exists()
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    if safe:
        environment["PYTHONSAFEPATH"] = "1"
    code = (
        "import importlib.util as u, json; s = u.find_spec('kernels');"
        "print(json.dumps([s.origin, list(s.submodule_search_locations)] if s else 0))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        check=True,
    ).stdout
    found = json.loads(out)
    if found:
        # Without a safe path any folder is a namespace; it must be an empty one.
        origin, locations = found
        assert origin is None or not Path(origin).is_relative_to(ROOT / "kernels")
        assert not safe or str(ROOT / "kernels") not in locations


def test_kernels_are_found_as_a_part_of_the_package():
    code = "import ctlearn.kernels as k; print(k.__file__)"
    command = [sys.executable, "-P", "-c", code]
    out = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert Path(out.strip()).samefile(ROOT / "kernels" / "src" / "__init__.py")


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(ROOT)))
def test_module_says_what_it_is(module):
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
    assert docstring
    assert docstring[0] == docstring[0].strip()


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(ROOT)))
def test_imports_go_down(module):
    if not module.is_relative_to(ROOT / "ctlearn"):
        own = len(RANKS)
    else:
        name = module.relative_to(ROOT / "ctlearn").parts[0].removesuffix(".py")
        own = 0 if name == "__init__" else rank(name)
    tree = ast.parse(module.read_text(encoding="utf-8"))
    above = {name for name in imported(tree) if rank(name) > own}
    assert above == set()


@pytest.mark.parametrize("mixer", MIXERS, ids=lambda m: m.stem)
def test_mixer_is_short(mixer):
    assert len(mixer.read_text(encoding="utf-8").splitlines()) <= 150


def test_no_file_is_named_by_an_abbreviation():
    """`git ls-files '*delta_rule*'` shows all there is of a mechanism."""
    from ctlearn import mixers

    # the field's name of a mechanism stands in its title, in brackets
    titles = " ".join(m.title for m in mixers.mechanisms().values())
    short = {name.lower() for name in re.findall(r"\((\w+)\)", titles)}
    assert short
    assert [f for f in tracked(ROOT) if short & set(re.split(r"\W|_", f.stem))] == []


def test_every_cited_work_is_in_the_bibliography(bibtex_keys):
    missing = {}
    for file in tracked(ROOT):
        if file.suffix in {".py", ".md", ".ipynb"} and "tests" not in file.parts:
            unknown = cited_keys(file.read_text(encoding="utf-8")) - bibtex_keys
            if unknown:
                missing[str(file.relative_to(ROOT))] = unknown
    assert missing == {}


def test_a_key_that_is_in_no_bibliography_is_seen(bibtex_keys):
    assert cited_keys("as in [nobody1999, eq. 3; other2024two]") - bibtex_keys == {
        "nobody1999",
        "other2024two",
    }


def test_no_path_of_a_machine_is_in_the_tree():
    places = "|".join(["home", "root", "tmp", "work", "Users", "private"])
    path = re.compile(rf"(?<![\w.:])/({places})/\w")
    found = {}
    for file in tracked(ROOT):
        if file.suffix in {".py", ".md", ".ipynb", ".js", ".json", ".yml", ".toml", ""}:
            lines = file.read_text(encoding="utf-8").splitlines()
            hits = [line[:120] for line in lines if path.search(line)]
            if hits:
                found[str(file.relative_to(ROOT))] = hits
    assert found == {}
