"""Execute notebooks and store their outputs in them, as the tests expect to find them.

Run through `make outputs`, with the names of notebooks as arguments, or with none for
all. What changes from run to run without meaning is left out: times of execution, and
the state of widgets, whose picture is stored instead. Outputs that two runs print in
different pieces are joined.
"""

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
WIDGET = "application/vnd.jupyter.widget-view+json"


def clean(notebook: nbformat.NotebookNode) -> None:
    """Leave out of an executed notebook what differs between runs for no reason."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number}"
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
            for output in cell.outputs:
                output.get("data", {}).pop(WIDGET, None)


def joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """The outputs, with what was printed in several pieces in a row made one."""
    kept: list[nbformat.NotebookNode] = []
    for output in outputs:
        printed = output.output_type == "stream"
        if printed and kept and kept[-1].get("name") == output.name:
            kept[-1].text += output.text
        else:
            kept.append(output)
    return kept


def main(names: list[str]) -> int:
    """Execute and store, up to a notebook whose cell raises; then the status is 1."""
    paths = [Path(name) for name in names] or sorted(NOTEBOOKS.glob("*.ipynb"))
    for path in paths:
        start = time.perf_counter()
        print(f"{path.stem}: ", end="", flush=True)
        notebook = nbformat.read(path, as_version=4)
        where = {"metadata": {"path": str(path.parent)}}
        try:
            NotebookClient(
                notebook, timeout=120, kernel_name="python3", resources=where
            ).execute()
        except CellExecutionError as error:
            print(f"a cell raised\n{error}")
            return 1
        clean(notebook)
        nbformat.validate(notebook)
        nbformat.write(notebook, path)
        print(f"{time.perf_counter() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
