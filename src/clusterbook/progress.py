"""Progress bars, where a person watches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TextIO

from tqdm import tqdm

from .checks import one_of


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
    steps = {"iterable": work} if hasattr(work, "__iter__") else {"total": work}
    options = {"leave": False, "dynamic_ncols": True, "file": sys.stderr, **options}
    return tqdm(desc=description, disable=not progress, **steps, **options)


@lru_cache(maxsize=1)
def _terminal(path: str) -> TextIO:
    flags = os.O_WRONLY | getattr(os, "O_NOCTTY", 0)    # a wrong path makes or empties no file
    handle = os.open(path, flags)
    os.get_terminal_size(handle)                        # refuses what is no terminal
    return os.fdopen(handle, "w", encoding="utf-8")


def _watched(choice: str) -> bool:
    one_of("setting of CLUSTERBOOK_PROGRESS", choice, ["on", "off", "auto"])
    if choice != "auto":
        return choice == "on"
    if os.environ.keys() & {"CLUSTERBOOK_RUN", "PYTEST_CURRENT_TEST"}:
        return False
    if sys.stderr.isatty() or "ipykernel" not in sys.modules:
        return sys.stderr.isatty()
    from IPython import get_ipython

    # A Jupyter Server (JupyterLab, Notebook, Binder) or Colab; Kaggle; VS Code. What executes
    # notebooks unattended leaves no mark.
    return bool(os.environ.keys() & {"JPY_SESSION_NAME", "COLAB_RELEASE_TAG"}
                or os.environ.get("KAGGLE_KERNEL_RUN_TYPE") == "Interactive"
                or "__vsc_ipynb_file__" in getattr(get_ipython(), "user_ns", {}))
