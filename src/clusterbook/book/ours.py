"""What a command may replace: what it wrote itself, and nothing else that a person has.

Each function looks at what lies where something is to be written, before anything runs, and raises
`InputError` where that is none of ours.
"""

from __future__ import annotations

import os
from pathlib import Path

from PIL import Image

from ..errors import InputError
from ..figures.showing import LIST, listed
from .reading import read_notebook

PAGE = "index.html"
MARK = '<meta name="generator" content="clusterbook">'      # of a contact sheet


def refuse_notebook(path: Path, source: Path) -> None:
    """Refuse a file in the place of an executed notebook, unless it has cells of *source*.

    A copy of a notebook, executed or edited, keeps the ids of its cells.
    """
    if os.path.lexists(path) and not _cell_ids(path) & _cell_ids(source):
        raise InputError(f"{path} is not a notebook of {source.stem} and would be overwritten; "
                         "name another file")


def _cell_ids(path: Path) -> set[str]:
    try:
        return {cell["id"] for cell in read_notebook(path).cells if "id" in cell}
    except InputError:
        return set()


def refuse_record(folder: Path, name: str) -> None:
    """Refuse what is no file in the place of a record, its arrays or its model.

    A JSON file that is not the record of that name is refused where a folder's records are read.
    Arrays and models are known by their names alone: a run that was killed just before its record
    was written leaves them without one, and has to go on.
    """
    for path in (folder / f"{name}{ending}" for ending in (".json", ".npz", ".pt")):
        if os.path.lexists(path) and not path.is_file():
            raise InputError(f"{path} is not a file, and a run's record goes there; name another "
                             "folder")


def refuse_page(folder: Path) -> None:
    """Refuse a page in the place of a contact sheet."""
    page = folder / PAGE
    if os.path.lexists(page) and not _begins_with(page, MARK):
        raise InputError(f"{page} is no contact sheet and would be overwritten by one; name "
                         "another folder")


def refuse_figures(folder: Path) -> None:
    """Refuse a folder for figures that has pictures, or a list of them, which no run wrote."""
    refuse_page(folder)
    others = [path for path in sorted(folder.glob("*"))
              if path.name == LIST and not _is_list(folder)
              or path.suffix in (".png", ".svg") and not _is_drawn(path)]
    if os.path.lexists(folder) and not folder.is_dir():
        others = [folder]
    if others:
        raise InputError(f"{others[0]} was not written by clusterbook and a figure might replace "
                         "it; name a folder that is empty or has figures of a run only")


def refuse_table(path: Path) -> None:
    """Refuse a file in the place of the table of a sweep."""
    if os.path.lexists(path) and not _begins_with(path, "run,", ",seconds,error"):
        raise InputError(f"{path} is no table of a sweep and would be overwritten by one; name "
                         "another folder")


def _is_list(folder: Path) -> bool:
    try:
        return all({"name", "alt", "caption"} <= entry.keys() for entry in listed(folder))
    except (OSError, ValueError, TypeError, AttributeError):
        return False


def _is_drawn(path: Path) -> bool:
    """Whether `clusterbook.figures` wrote a picture, by what it puts into the file."""
    if path.suffix == ".svg":
        return _begins_with(path, f"<dc:title>{path.stem}</dc:title>")
    try:
        with Image.open(path) as picture:
            made_by = picture.info.get("Software", "")
            return made_by.startswith("Matplotlib") and "Description" in picture.info
    except OSError:
        return False


def _begins_with(path: Path, *parts: str) -> bool:
    """Whether the beginning of a file holds all these parts."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            beginning = file.read(10_000)
    except OSError:
        return False
    return all(part in beginning for part in parts)
