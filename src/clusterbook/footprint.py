"""The memory that fitting an estimator takes, each measured in a process of its own.

Freed memory stays with a process and its peak never falls. So one process loads the library and the
data, and a fork of it fits each estimator: the rise of the fork's peak is the memory of the fit.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from numpy.typing import ArrayLike


def peak_memory(estimators: Mapping[str, Any], X: ArrayLike) -> dict[str, float]:
    """The rise of a process's peak memory while an estimator is fitted, without that of a GPU.

    Raises RuntimeError if a fit failed, with the end of its error.

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
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", f"import {__name__} as f; f._serve()"],
                          input=pickle.dumps((dict(estimators), X)), env=environment,
                          capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"a fit failed: {done.stderr.decode(errors='replace')[-500:].strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def _serve() -> None:
    """Read estimators and data, fit each in a fork of this process, print the memory of each."""
    global _estimators, _X              # a fork has them without a copy, which would raise its peak
    _estimators, _X = pickle.load(sys.stdin.buffer)
    taken = {}
    for name in _estimators:
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as fork:
            taken[name] = fork.submit(_rise, name).result()
    sys.stdout.write(json.dumps(taken))


def _rise(name: str) -> float:
    """The rise of this process's peak of resident memory in a fit, in mebibytes."""
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _estimators[name].fit(_X)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
