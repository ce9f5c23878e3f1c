"""Progress bars, where a person watches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from numbers import Integral
from typing import Any, TextIO

from tqdm import tqdm

from .errors import InputError, unknown


def bar(work: int | Iterable[Any], description: str = "", *, progress: bool | None = None,
        **options: Any) -> tqdm:
    """A progress bar with the time left, on stderr.

    Parameters
    ----------
    work : int or iterable
        A number of steps (call ``update``), or what to loop over.
    description : str
    progress : bool, optional
        Whether to show it; by default ``CLUSTERBOOK_PROGRESS`` decides: ``on``, ``off``, the path
        of a terminal, or ``auto``, which shows it in a terminal or a live notebook, never under
        pytest or where a notebook is executed unattended.
    **options
        Given to tqdm.

    Examples
    --------
    >>> sum(bar(range(4), "adding", progress=False))
    6
    """
    choice = os.environ.get("CLUSTERBOOK_PROGRESS", "auto") if progress is None else ""
    if os.path.isabs(choice):           # of `clusterbook run`, whose own bar stays above this one
        progress, options = True, {"file": _terminal(choice), "position": 1, **options}
    elif progress is None:
        progress = _watched(choice)
    steps = {"total": work} if isinstance(work, Integral) else {"iterable": work}
    settings = {"desc": description, "leave": False, "dynamic_ncols": True, "file": sys.stderr}
    return tqdm(**{**steps, **settings, **options, "disable": not progress})


@lru_cache(maxsize=1)
def _terminal(path: str) -> TextIO:
    flags = os.O_WRONLY | getattr(os, "O_NOCTTY", 0)    # a wrong path makes or empties no file
    try:
        handle = os.open(path, flags)
        os.get_terminal_size(handle)
        return os.fdopen(handle, "w", encoding="utf-8")
    except OSError as error:
        raise InputError(f"CLUSTERBOOK_PROGRESS is {path!r}, which is no terminal "
                         f"({error.strerror}); set it to off") from None


def _watched(choice: str) -> bool:
    if choice not in ("on", "off", "auto"):
        raise unknown("setting of CLUSTERBOOK_PROGRESS", choice, ["on", "off", "auto"])
    if choice != "auto":
        return choice == "on"
    if "CLUSTERBOOK_RUN" in os.environ or "PYTEST_CURRENT_TEST" in os.environ:
        return False
    return sys.stderr.isatty() or _live_notebook()


def _live_notebook() -> bool:
    """Whether a frontend started this kernel; papermill, nbval and nbconvert leave no mark."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython import get_ipython

    return (
        "JPY_SESSION_NAME" in os.environ  # Jupyter Server: JupyterLab, Notebook, Binder
        or "COLAB_RELEASE_TAG" in os.environ
        or os.environ.get("KAGGLE_KERNEL_RUN_TYPE") == "Interactive"
        or "__vsc_ipynb_file__" in getattr(get_ipython(), "user_ns", {})  # VS Code
    )
