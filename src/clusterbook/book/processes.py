"""Calls in processes of their own, on this machine or on a Dask worker.

Runs side by side are processes side by side, so that one that dies takes no other along. Each ends
when its standard input is closed: by `stop`, or because the process that started it is gone.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import joblib

from ..errors import InputError
from .runs import ChapterError

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_GRACE = 20.0       # seconds for a kernel to end before its process does
_SERVE = "from clusterbook.book import processes; processes._serve()"
_running: dict[subprocess.Popen, str] = {}      # process -> its owner
_stopped: set[str] = set()


def cores() -> int:
    """The number of cores that this process may use."""
    return joblib.cpu_count()


@contextmanager
def processes(number: int, threads: str = "1") -> Iterator[Callable[..., Future]]:
    """Yield a function that submits calls to so many processes; none is left after the block."""
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
    """Call a function in a process of its own; return its result or raise its error.

    Errors other than InputError and ChapterError, and the death of the process, are raised as
    ChapterError.
    """
    # -P: nothing is imported from the user's folder.
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, **dict.fromkeys(_THREADS, threads)})
    _running[process] = owner
    answer = b""
    try:
        if owner not in _stopped:
            process.stdin.write(pickle.dumps((function, arguments)))
            process.stdin.flush()
            answer = process.stdout.read()
    except (BrokenPipeError, ValueError):       # it has ended, or `stop` came first
        pass
    finally:
        del _running[process]
        _close(process)
        status = process.wait()
    if not answer:
        raise ChapterError(f"its process was killed by signal {-status}; probably out of memory"
                           if status < 0 else f"its process ended with exit status {status}")
    result = pickle.loads(answer)
    if isinstance(result, Exception):
        raise result
    return result


def stop(owner: str) -> None:
    """End the processes of an owner, and those that it would start."""
    _stopped.add(owner)
    for process, other in list(_running.items()):
        if other == owner:
            _close(process)


def _close(process: subprocess.Popen) -> None:
    with suppress(BrokenPipeError):             # of what was not yet written
        process.stdin.close()


def _serve() -> None:
    """In the process itself: read a call, make it, write its result or error."""
    signal.signal(signal.SIGINT, signal.default_int_handler)    # also where the shell ignores it
    function, arguments = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    with os.fdopen(os.dup(1), "wb") as answer:
        os.dup2(2, 1)                           # nothing else is printed there
        try:
            result = function(*arguments)
        except (InputError, ChapterError) as error:
            result = error
        except Exception as error:
            result = ChapterError(f"{type(error).__name__}: {error}")
        answer.write(pickle.dumps(result))


def _end_with_the_input() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)         # like Ctrl-C
    time.sleep(_GRACE)
    os._exit(130)
