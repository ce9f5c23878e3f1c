"""The memory that fitting an estimator takes, each measured in a process of its own.

Freed memory stays with a process and its peak never falls. So one process loads the library and the
data, and a fork of it fits each estimator: the rise of the fork's peak is the memory of the fit.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from numpy.typing import ArrayLike


def peak_memory(estimators: Mapping[str, Any], X: ArrayLike) -> dict[str, float]:
    """The rise of a process's peak memory while an estimator is fitted, without that of a GPU.

    Raises what a fit raised.

    Parameters
    ----------
    estimators : mapping of str to estimator
        Not fitted; of importable classes, since they are sent to another process.
    X : array-like of shape (n_samples, n_features)

    Returns
    -------
    dict of str to float
        In mebibytes (2**20 bytes); NaN on systems other than Linux.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.cluster import KMeans
    >>> list(peak_memory({"two": KMeans(2, n_init=1)}, np.arange(20.0).reshape(10, 2)))
    ['two']
    """
    if not sys.platform.startswith("linux"):
        return dict.fromkeys(estimators, math.nan)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(_rises, dict(estimators), X).result()


def _rises(estimators: dict[str, Any], X: ArrayLike) -> dict[str, float]:
    global _fits                        # a fork has them without a copy, which would raise its peak
    _fits = {name: (estimator, X) for name, estimator in estimators.items()}
    taken = {}
    for name in estimators:
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as fork:
            taken[name] = fork.submit(_rise, name).result()
    return taken


def _rise(name: str) -> float:
    """The rise of this process's peak of resident memory in a fit, in mebibytes."""
    import resource  # not on Windows

    estimator, X = _fits[name]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    estimator.fit(X)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
