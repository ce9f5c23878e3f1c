"""Progress bars, where a person watches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any, TextIO

from tqdm import tqdm


def bar(work: int | Iterable[Any], description: str = "", *, progress: bool | None = None,
        **options: Any) -> tqdm:
    """A progress bar with the time left, on stderr.

    Parameters
    ----------
    work : int or iterable
        A number of steps (call ``update``), or what to loop over.
    description : str
    progress : bool, optional
        Whether to show it; by default in a terminal and in a live notebook of Jupyter or Colab,
        unless ``CLUSTERBOOK_PROGRESS`` is ``on``, ``off`` or the path of a terminal to show it in.
    **options
        Given to tqdm.

    Examples
    --------
    >>> sum(bar(range(4), "adding", progress=False))
    6
    """
    choice = os.environ.get("CLUSTERBOOK_PROGRESS", "") if progress is None else ""
    if os.path.isabs(choice):           # of `clusterbook run`, whose own bar stays above this one
        progress, options = True, {"file": _terminal(choice), "position": 1, **options}
    elif progress is None:              # where a notebook is executed unattended, no mark is left
        live = sys.stderr.isatty() or os.environ.keys() & {"JPY_SESSION_NAME", "COLAB_RELEASE_TAG"}
        progress = choice == "on" or bool(live) and choice != "off"
    steps = {"iterable": work} if hasattr(work, "__iter__") else {"total": work}
    options = {"leave": False, "dynamic_ncols": True, "file": sys.stderr, **options}
    return tqdm(desc=description, disable=not progress, **steps, **options)


@cache
def _terminal(path: str) -> TextIO:
    return open(path, "a", encoding="utf-8")        # appends: a file of that name loses nothing
