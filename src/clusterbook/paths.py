"""Where things are, in a checkout or a wheel; what a run asks; progress bars; atomic writes.

Data files are where ``CLUSTERBOOK_DATA`` says. A run writes figures, records and checkpoints only
where the environment says so: ``clusterbook run --figures DIR`` sets ``CLUSTERBOOK_FIGURES``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from .checks import InputError

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
    """Whether the time that ``clusterbook run --for`` gave this run is over."""
    return time.time() >= float(os.environ.get("CLUSTERBOOK_UNTIL", "inf"))


def look(kind: str, default: str = "") -> str:
    """What this run asked of its figures: ``only`` these, or a ``format``, ``width``, ``style``."""
    return os.environ.get(f"CLUSTERBOOK_{kind.upper()}") or default


def run_context() -> dict[str, Any]:
    """Chapter, profile, parameters and times of ``clusterbook run``; empty outside of it.

    ``changed`` has the parameters that are not at the notebook's defaults. ``output`` is the name
    of the executed notebook, if it is kept; tables in ``asked("tables")`` begin with it.
    """
    return json.loads(os.environ.get("CLUSTERBOOK_RUN", "{}"))


def seen() -> bool:
    """Whether this is a live notebook of Jupyter or Colab, and no run of ``clusterbook run``."""
    return not run_context() and bool(os.environ.keys() & {"JPY_SESSION_NAME", "COLAB_RELEASE_TAG"})


def bar(work: int | Iterable[Any], description: str = "", *, progress: bool | None = None,
        **options: Any) -> Any:
    """A progress bar of tqdm's with the time left, on stderr; *options* go to tqdm.

    *work* is a number of steps (call ``update``), or what to loop over. By default it is shown in a
    terminal and in a live notebook of Jupyter or Colab, unless ``CLUSTERBOOK_PROGRESS`` is ``on``,
    ``off`` or the path of a terminal to show it in.
    """
    from tqdm import tqdm  # late, because short commands need no bar

    choice = os.environ.get("CLUSTERBOOK_PROGRESS", "") if progress is None else ""
    if os.path.isabs(choice):           # of `clusterbook run`, whose own bar stays above this one
        progress, options = True, {"file": _terminal(choice), "position": 1, **options}
    elif progress is None:              # where a notebook is executed unattended, no mark is left
        progress = choice == "on" or (sys.stderr.isatty() or seen()) and choice != "off"
    steps = {"iterable": work} if hasattr(work, "__iter__") else {"total": work}
    options = {"leave": False, "dynamic_ncols": True, "file": sys.stderr, **options}
    return tqdm(desc=description, disable=not progress, **steps, **options)


@cache
def _terminal(path: str) -> TextIO:
    return open(path, "a", encoding="utf-8")        # appends: a file of that name loses nothing


def as_csv(frame: Any, **options: Any) -> str:
    """A pandas table as CSV, without its index; *options* go to its ``to_csv``.

    A text that a spreadsheet would run as a formula begins with an apostrophe, which it hides.
    """
    def harmless(cell: Any) -> Any:
        runs = isinstance(cell, str) and re.match(r"[=+@\t\r]|-(?![\d.]+$)", cell)
        return f"'{cell}" if runs else cell

    return frame.rename(columns=harmless).map(harmless).to_csv(
        index=False, lineterminator="\n", **options)


def write_atomically(path: Path, *parts: bytes, noun: str = "the file",
                     temporary: Path | None = None) -> None:
    """Replace a file by one with the given content, or leave it as it was; make its folder.

    *temporary* is written first and then renamed; by default it is of this process, beside *path*.
    With a fixed name, what a killed process left is replaced by the next. Raises InputError, which
    calls the file *noun*, if it can't be written, or is a folder or a device.
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
