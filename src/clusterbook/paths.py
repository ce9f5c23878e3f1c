"""Where things are, in a checkout and in an installed wheel, and where a run may leave things.

The book's files (notebooks, profiles, claims, records) are found the same way in both; data files
live where ``CLUSTERBOOK_DATA`` says. A run leaves figures, records and checkpoints only where the
environment says so: ``clusterbook run --figures DIR`` sets ``CLUSTERBOOK_FIGURES`` for the notebook
that it executes, and a person at a notebook can set it too.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent


def checkout() -> Path | None:
    """The root of the checkout that this package comes from, or None for an installed wheel."""
    root = _PACKAGE.parents[1]
    return root if (root / "_config.yml").is_file() and (root / "notebooks").is_dir() else None


def root() -> Path:
    """The folder that holds ``notebooks/``, ``book/`` and ``data/``."""
    return checkout() or _PACKAGE / "share"


def chapters() -> list[str]:
    """The chapters' names: one notebook each."""
    return sorted(path.stem for path in (root() / "notebooks").glob("*.ipynb"))


def data_home() -> Path:
    """Where data files live: ``CLUSTERBOOK_DATA``, the checkout's ``data/``, or a user cache."""
    if named := os.environ.get("CLUSTERBOOK_DATA"):
        return Path(named).expanduser()
    if here := checkout():
        return here / "data"
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "clusterbook"


def asked(kind: str) -> Path | None:
    """The folder in which this run was asked to leave figures, records or checkpoints."""
    named = os.environ.get(f"CLUSTERBOOK_{kind.upper()}")
    return Path(named) if named else None


def run_context() -> dict[str, Any]:
    """What ``clusterbook run`` says of the run in progress: chapter, profile, parameters, times.

    ``changed`` has the parameters that are not at the notebook's defaults. ``output``, there only
    if the executed notebook is kept, is its file's name without the ending; tables that a run
    leaves in ``asked("tables")`` begin with it and a hyphen, and the command names them.

    Empty where a person, nbval or a plain Jupyter runs the notebook.
    """
    return json.loads(os.environ.get("CLUSTERBOOK_RUN", "{}"))


def checkpoint(name: str) -> Path | None:
    """The file of a training's checkpoint, where this run was asked to keep any."""
    folder = asked("checkpoints")
    return folder / f"{name}.pt" if folder else None
