"""`python -m ctlearn.identities`: run the ledger, print it, fail if anything fails."""

import argparse
import json
import platform
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import sympy
from tqdm import tqdm

from ctlearn import __version__
from ctlearn.identities import identities
from ctlearn.identities.engine import Result, run
from ctlearn.identities.show import show, show_equation, show_latex
from ctlearn.identities.touched import mechanisms_of
from ctlearn.mixers import mechanisms

SHOW = {
    "--show": (show, "NAME", "show all there is to say of one identity"),
    "--latex": (show_latex, "NAME", "print what the book shows of it"),
    "--equation": (show_equation, "LABEL", "show how an equation is run as printed"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run the identities asked for; 0 if all hold and every mutant is caught."""
    parser = argparse.ArgumentParser(
        prog="python -m ctlearn.identities", description=__doc__
    )
    parser.add_argument("names", nargs="*", help="run only these (all by default)")
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2 by default)")
    for option, (_, metavar, told) in SHOW.items():
        parser.add_argument(option, metavar=metavar, help=told)
    asked = parser.parse_args(arguments)
    for option, (display, _, _) in SHOW.items():
        if name := getattr(asked, option.removeprefix("--")):
            try:
                print(display(name))
            except KeyError as error:
                parser.error(error.args[0])
            return 0
    unknown = set(asked.names) - set(identities())
    if unknown:
        parser.error(f"no identity named {', '.join(sorted(unknown))}")
    names = asked.names or list(identities())
    results = _run_all(names, asked.jobs)
    for result in results:
        print(_row(result))
    killed = sum(sum(result.mutants.values()) for result in results)
    total = sum(len(result.mutants) for result in results)
    failed = [result for result in results if not result.passed]
    print(
        f"\n{len(results) - len(failed)} of {len(results)} identities hold, "
        f"{killed} of {total} mutants caught."
    )
    for result in failed:
        file, line = identities()[result.name].place
        print(f"\n{result.name} at {file}:{line}")
        for failure in result.failures:
            print(f"  {failure}")
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(_document(results), indent=1) + "\n")
    return 1 if failed else 0


def run_named(name: str) -> Result:
    """Run one identity by its name, which unlike its claim can be sent to a process."""
    return run(identities()[name])


def _run_all(names: list[str], jobs: int) -> list[Result]:
    progress: dict[str, Any] = {
        "total": len(names),
        "unit": "identity",
        "disable": None,  # no bar where the output is not a terminal
        "leave": False,
    }
    if jobs == 1 or len(names) == 1:
        return [run_named(name) for name in tqdm(names, **progress)]
    with ProcessPoolExecutor(jobs) as pool:
        return list(tqdm(pool.map(run_named, names), **progress))


def _row(result: Result) -> str:
    mark = "ok  " if result.passed else "FAIL"
    killed = f"{sum(result.mutants.values())}/{len(result.mutants)} mutants"
    methods = "; ".join(result.methods)
    kind = identities()[result.name].kind
    return (
        f"{mark} {result.name:<52} {kind:<14} "
        f"{killed:<12} {result.seconds:5.1f} s  {methods}"
    )


def _document(results: list[Result]) -> dict[str, Any]:
    return {
        "versions": {
            "ctlearn": __version__,
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "sympy": sympy.__version__,
        },
        "entries": [entry(result) for result in results],
    }


def entry(result: Result) -> dict[str, Any]:
    """All that the ledger holds of one identity, as JSON can hold it."""
    claim = identities()[result.name]
    file, line = claim.place
    return {
        "name": claim.name,
        "title": claim.title,
        "kind": claim.kind,
        "statement": claim.statement,
        "as_printed": claim.as_printed,
        "refuted": list(result.refuted),
        "source": claim.source,
        "citations": list(claim.citations),
        "equations": list(claim.equations),
        "printed": {
            label: {
                "worlds": list(executed.worlds),
                "told": executed.told,
                "slips": executed.slips,
                "survivors": {
                    change: claim.printed[label].equivalent.get(change, "")
                    for change in executed.survivors
                },
            }
            for label, executed in result.printed.items()
        },
        "chapter": claim.chapter,
        "mechanisms": {
            name: mechanisms()[name].title.partition(" (")[0]
            for name in mechanisms_of(claim.claim)
        },
        "methods": list(result.methods),
        "gaps": {world: dict(gaps) for world, gaps in result.gaps.items()},
        "mutants": [{"name": n, "killed": hit} for n, hit in result.mutants.items()],
        "passed": result.passed,
        "failures": list(result.failures),
        "seconds": round(result.seconds, 3),
        "file": file,
        "line": line,
    }


if __name__ == "__main__":
    sys.exit(main())
