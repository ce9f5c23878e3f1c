"""The memory that fitting an estimator takes, each measured in a process of its own.

Memory that a process has once held is not given back at once, and its peak never falls: in one
process the second of two fits would be measured with what the first has left. So one process loads
the library and the data, and for each estimator a copy of it (a fork) does nothing but fit. What
the copy's resident memory rises by, at most, is what the fit takes: arrays, networks, and whatever
code the fit is the first to load.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike


def peak_memory(estimators: Mapping[str, Any], X: ArrayLike) -> dict[str, float]:
    """How much the resident memory of a process rises, at most, while an estimator is fitted.

    Parameters
    ----------
    estimators : mapping of str to estimator
        Not fitted; of importable classes, since they are sent to another process.
    X : array-like of shape (n_samples, n_features)

    Returns
    -------
    dict of str to float
        In mebibytes (2**20 bytes); NaN where the system can't tell, which is everywhere but on
        Linux. Memory of a GPU does not count.

    Raises
    ------
    RuntimeError
        If a fit failed; the end of its error is in the message.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.cluster import KMeans
    >>> list(peak_memory({"two": KMeans(2, n_init=1)}, np.arange(20.0).reshape(10, 2)))
    ['two']
    """
    if not sys.platform.startswith("linux"):
        return dict.fromkeys(estimators, math.nan)
    # The path of this process, so that the other one finds the same classes.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", f"import {__name__} as f; f._serve()"],
                          input=pickle.dumps((dict(estimators), X)), env=environment,
                          capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"a fit failed: {done.stderr.decode(errors='replace')[-500:].strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def _serve() -> None:
    """Read estimators and data, fit each in a copy of this process, print what each took."""
    estimators, X = pickle.load(sys.stdin.buffer)
    taken = {name: _in_a_copy(each, X) for name, each in estimators.items()}
    sys.stdout.write(json.dumps(taken))


def _in_a_copy(estimator: Any, X: ArrayLike) -> float:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            before = _peak()            # of the copy: what it began with
            estimator.fit(X)
            os.write(writing, json.dumps(_peak() - before).encode())
            status = 0
        except Exception as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(status)            # nothing of the first process is closed twice
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        taken = pipe.read()
    os.waitpid(child, 0)
    if not taken:
        sys.exit(1)
    return json.loads(taken)


def _peak() -> float:
    """The most resident memory that this process has held, in mebibytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
