"""Notebooks executed side by side, on this machine or on a Dask worker.

Each is executed by a thread and by its kernel, a process of its own: one that dies takes no other
along, and all end with the process that started them.
"""

from __future__ import annotations

import logging
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import joblib

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_thread = threading.local()                     # the owner and the variables of a thread's kernels
_kernels: dict[subprocess.Popen, str] = {}      # kernel → its owner
_stopped: set[str] = set()


def cores() -> int:
    """The number of cores that this process may use."""
    return joblib.cpu_count()


@contextmanager
def processes(number: int, threads: str = "1") -> Iterator[Callable[..., Future]]:
    """Yield a function that submits calls, so many at a time; no kernel is left after the block."""
    pool, owner = ThreadPoolExecutor(number), uuid.uuid4().hex
    try:
        yield partial(pool.submit, apart, owner, threads)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        stop(owner)
        raise
    finally:
        pool.shutdown()


def apart(owner: str, threads: str, function: Callable, *arguments: Any) -> Any:
    """Call a function whose kernels compute with so many threads; `stop` of the owner ends them."""
    _thread.owner, _thread.variables = owner, dict.fromkeys(_THREADS, threads)
    return function(*arguments)


def variables() -> dict[str, str]:
    """What a kernel that this thread starts needs in its environment."""
    return getattr(_thread, "variables", {})


@contextmanager
def stoppable(kernel: subprocess.Popen) -> Iterator[None]:
    """Let `stop` kill a kernel that this thread has started."""
    _kernels[kernel] = owner = getattr(_thread, "owner", "")
    try:
        if owner in _stopped:
            kernel.kill()
        yield
    finally:
        del _kernels[kernel]


def stop(owner: str) -> None:
    """Kill the kernels of an owner, and those that it would start."""
    _stopped.add(owner)
    logging.getLogger("asyncio").setLevel("CRITICAL")   # it reports the cell that was waiting
    for kernel, other in list(_kernels.items()):
        if other == owner:
            kernel.kill()
