"""Where things are, in a checkout and in an installed wheel; what a run asks; atomic writes.

Data files are where ``CLUSTERBOOK_DATA`` says. A run writes figures, records and checkpoints only
where the environment says so: ``clusterbook run --figures DIR`` sets ``CLUSTERBOOK_FIGURES``.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from .errors import InputError

_PACKAGE = Path(__file__).resolve().parent


def checkout() -> Path | None:
    """The root of the checkout that this package comes from, or None for an installed wheel."""
    root = _PACKAGE.parents[1]
    return root if (root / "_config.yml").is_file() and (root / "notebooks").is_dir() else None


def root() -> Path:
    """The folder that holds ``notebooks/``, ``book/`` and ``data/``."""
    return checkout() or _PACKAGE / "share"


def data_home() -> Path:
    """The folder of data files: ``CLUSTERBOOK_DATA``, the checkout's ``data/``, or a user cache."""
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


def checkpoint(name: str) -> Path | None:
    """The file of a training's checkpoint, if this run was asked to keep any."""
    folder = asked("checkpoints")
    return folder / f"{name}.pt" if folder else None


def time_is_up() -> bool:
    """Whether the time is over that ``clusterbook run --for`` gave this run."""
    return time.time() >= float(os.environ.get("CLUSTERBOOK_UNTIL", "inf"))


def look(kind: str, default: str = "") -> str:
    """What this run asked of its figures: ``only`` these, or a ``format``, ``width``, ``style``."""
    return os.environ.get(f"CLUSTERBOOK_{kind.upper()}") or default


def run_context() -> dict[str, Any]:
    """Chapter, profile, parameters and times of ``clusterbook run``; empty outside of it.

    ``changed`` has the parameters that are not at the notebook's defaults. ``output``, if the
    executed notebook is kept, is its file's name without the ending; tables that a run leaves in
    ``asked("tables")`` begin with it and a hyphen.
    """
    return json.loads(os.environ.get("CLUSTERBOOK_RUN", "{}"))


def write_atomically(path: Path, *parts: bytes, noun: str = "the file",
                     temporary: Path | None = None) -> None:
    """Replace a file by one with the given content, or leave it as it was; make its folder.

    Raises InputError if the file can't be written, or is a folder or a device.

    Parameters
    ----------
    path : Path
    *parts : bytes
        Written one after the other.
    noun : str
        The file's description in an error message.
    temporary : Path, optional
        The file that is written first and then renamed; by default one of this process beside
        *path*. With a fixed name, what a killed process left is replaced by the next.
    """
    temporary = temporary or path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is a folder" if path.is_dir() else "it is not a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"{noun} {path} can't be written ({error.strerror or error}); name a path "
                         "in a folder that you can write to, with space left") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
