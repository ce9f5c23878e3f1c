"""One run of a sweep, in a process of its own.

A run changes the process that it is in: papermill moves to another folder, and the notebook learns
from environment variables what to do. So runs side by side are processes side by side. `work`
starts one and hands back what it left; a thread calls it on this machine, a task on a Dask worker,
which may share no folder with the machine that asked.

A process ends with the one that started it, however that ended: it reads its standard input, which
is then closed, stops its kernel and removes its temporary folder.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import paths
from ..errors import InputError

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_GRACE = 20.0       # seconds for a kernel to end before its process does
_running: dict[subprocess.Popen, str] = {}
_stopped: set[str] = set()


@dataclass(frozen=True)
class Job:
    """A run, as it is handed to a process."""

    sweep: str                          # which sweep it belongs to, see `stop`
    about: Mapping[str, Any]            # see `runs.context`
    notebook: str                       # its source: the same wherever the run is made
    checkpoints: str                    # name of the folder that they are kept in


@dataclass(frozen=True)
class Outcome:
    """What came of a run."""

    files: Mapping[str, bytes] = field(default_factory=dict)    # by their endings
    error: str = ""                                             # one line
    died: bool = False                                          # its process or its kernel


def work(job: Job) -> Outcome:
    """Make a run in a process with one thread, and wait for it."""
    environment = {**os.environ, **dict.fromkeys(_THREADS, "1")}
    if environment.get("CLUSTERBOOK_DATA"):
        environment["CLUSTERBOOK_DATA"] = str(paths.data_home().resolve())
    folder = job.about["folder"]
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            # -P: the folder that a person stands in is no place to import from.
            [sys.executable, "-P", "-m", __name__], env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=complaints, start_new_session=True,
            cwd=folder if Path(folder).is_dir() else None)
        _running[process] = job.sweep
        try:
            if job.sweep in _stopped:
                _close(process)
            process.stdin.write(json.dumps(asdict(job)).encode() + b"\n")
            process.stdin.flush()
            answer = process.stdout.read()
            process.wait()                                  # it may still have to say what failed
        except (BrokenPipeError, ValueError):               # it has ended, or `stop` came first
            answer = b""
        finally:
            _running.pop(process, None)
            _close(process)
            status = process.wait()
        if answer:
            return _outcome(json.loads(answer))
        complaints.seek(0)
        lines = complaints.read().decode(errors="replace").strip().splitlines()
    if status < 0:
        return Outcome(error=f"its process was killed by signal {-status}; most often the memory "
                             "did not suffice", died=True)
    return Outcome(error=lines[-1] if lines else f"its process ended with status {status}")


def stop(sweep: str) -> None:
    """End the runs of a sweep that this process has started, and those that it would start."""
    _stopped.add(sweep)
    for process, of in list(_running.items()):
        if of == sweep:
            _close(process)


def _close(process: subprocess.Popen) -> None:
    try:
        process.stdin.close()
    except BrokenPipeError:                                 # what was not yet written
        pass


def _outcome(answer: Mapping[str, Any]) -> Outcome:
    files = {ending: base64.b64decode(text) for ending, text in answer["files"].items()}
    return Outcome(files, answer["error"], answer["died"])


# --- in the process of the run ---------------------------------------------------------------


def main() -> None:
    """Read a job from the standard input, make its run, write what came of it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)    # also where the shell ignores it
    job = Job(**json.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    with os.fdopen(os.dup(1), "wb") as answer:
        os.dup2(2, 1)                                           # nothing else gets between
        outcome = _run(job)
        files = {ending: base64.b64encode(content).decode()
                 for ending, content in outcome.files.items()}
        answer.write(json.dumps({**asdict(outcome), "files": files}).encode())


def _end_with_the_input() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)                         # as if somebody pressed Ctrl-C
    time.sleep(_GRACE)
    os._exit(130)


def _run(job: Job) -> Outcome:
    from . import runs  # heavy: papermill

    with tempfile.TemporaryDirectory(prefix="clusterbook-") as folder:
        source = Path(folder) / f"{job.about['chapter']}.ipynb"
        source.write_text(job.notebook, encoding="utf-8")
        records = Path(folder) / "records"
        places = {"records": records, "checkpoints": runs.checkpoints() / job.checkpoints}
        try:
            runs.one(source, job.about, None, places, None)
        except (InputError, runs.ChapterError) as error:
            return Outcome(error=str(error).splitlines()[0],
                           died=isinstance(error, runs.KernelDied))
        return Outcome({path.suffix: path.read_bytes() for path in records.glob("[!.]*")})


if __name__ == "__main__":
    main()
