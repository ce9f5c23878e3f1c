"""List, in Markdown, the pages whose outputs differ between two builds of the book.

    python changed_pages.py BEFORE/_build/stage AFTER/_build/stage

Both are executed on one machine, so that what differs is the change's doing. Compared is what nbval
compares: every cell's output but warnings, what only counts or describes, and cells that are tagged
to be ignored; memory addresses are taken out. Figures are listed apart, by name: one that shows
seconds differs every time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat

IGNORED = {"nbval-ignore-output", "nbval-skip"}
ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


def texts(cell: nbformat.NotebookNode) -> dict[str, str]:
    """What a cell shows apart from pictures, by kind; a stream's pieces joined."""
    found: dict[str, str] = {}
    if IGNORED & set(cell.metadata.get("tags", [])):
        return found
    for output in cell.outputs:
        if output.get("name") != "stderr":
            shown = output.get("data") or {output.output_type: output.get("text", "")}
            figure = "clusterbook" in output.get("metadata", {})    # its HTML holds its pictures
            for kind, value in shown.items():
                if not (kind.startswith("image/") or figure and kind == "text/html"):
                    found[kind] = found.get(kind, "") + ADDRESS.sub("0x", str(value))
    return found


def figures(cell: nbformat.NotebookNode) -> Iterator[tuple[str, str]]:
    """The name and the picture of each figure of a cell."""
    for output in cell.outputs:
        for kind, picture in output.get("data", {}).items():
            if kind.startswith("image/"):
                yield output.metadata.get("clusterbook", {}).get("name", "without a name"), picture


def cells(page: Path) -> dict[str, nbformat.NotebookNode]:
    """A page's code cells by their identifiers."""
    notebook = nbformat.read(page, as_version=4)
    return {cell.id: cell for cell in notebook.cells if cell.cell_type == "code"}


def changes(before: Path, after: Path) -> str:
    """What differs between two states of a page, in words; empty if nothing does."""
    if not before.exists() or not after.exists():
        return "a new page" if after.exists() else "no longer there"
    old, new = cells(before), cells(after)
    drawn = [{pair for cell in side.values() for pair in figures(cell)} for side in (old, new)]
    names = sorted({name for name, _ in drawn[0] ^ drawn[1]})
    shown = [{name: texts(cell) for name, cell in side.items()} for side in (old, new)]
    count = sum(shown[0].get(name, {}) != shown[1].get(name, {}) for name in {*old, *new})
    said = [f"figure{'s' * (len(names) > 1)} " + ", ".join(names)] * bool(names)
    return "; ".join(said + [f"outputs of {count} cell{'s' * (count > 1)}"] * bool(count))


def listing(before: Path, after: Path) -> str:
    """The list of changed pages."""
    pages = sorted({page.relative_to(side) for side in (before, after)
                    for page in side.rglob("*.ipynb")})
    found = {page: changes(before / page, after / page) for page in pages}
    lines = [f"| `{page.as_posix()}` | {what} |" for page, what in found.items() if what]
    if not lines:
        return f"No output of {len(pages)} pages changes."
    return "\n".join([f"Outputs of {len(lines)} of {len(pages)} pages change:", "",
                      "| page | what differs |", "|---|---|", *lines])


if __name__ == "__main__":
    print(listing(Path(sys.argv[1]), Path(sys.argv[2])))
