"""A chapter over a grid of parameters and seeds: on the processors of this machine, or on Dask.

Each run is a process of its own (``clusterbook.book.worker``) and hands back its record, which is
written here, whole or not at all; so it does not matter where a run was made, how often it had to
be begun, or whether that machine shares a folder with this one. A finished run is not made again.
What becomes of the records is in ``clusterbook.book.summary``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import nbformat

from .. import __version__, evidence
from ..errors import InputError, unknown
from ..evidence.records import Record, as_record, plain, read_record
from ..evidence.verdicts import is_stale, present_code, present_data
from ..fingerprint import fingerprint
from ..paths import write_atomically
from . import ours, parameters, runs, sheet, summary, worker
from .grid import Grid, Run, grid, own_file
from .reading import read_notebook

_ANSWERS = 10       # seconds within which a scheduler has to answer
_PATIENCE = 60      # seconds without a result after which a cluster is looked at
_ADDRESS = re.compile(r"(\w+://)?[^/\s]+:\d{1,5}")


class SweepError(RuntimeError):
    """Some runs of a sweep failed; the message names each with its error."""


def sweep(chapter: str, texts: Mapping[str, str], *, profile: str | None = None,
          seeds: Sequence[int] | None = None, metrics: Sequence[str] = (),
          workers: int | None = None, scheduler: str | None = None, output: Path | None = None,
          progress: bool = False) -> list[str]:
    """Run a chapter over a grid and draw what was measured; see ``clusterbook sweep --help``.

    Parameters
    ----------
    chapter, texts, profile, seeds
        See `~clusterbook.book.grid.grid`.
    metrics : sequence of str
        What is drawn; by default the chapter's main metric.
    workers : int, optional
        Runs at a time on this machine, each with one thread; one per processor by default.
    scheduler : str, optional
        The address of a Dask scheduler, whose workers make the runs instead.
    output : Path, optional
        The folder of everything that is written; by default named by what is swept.
    progress : bool
        Show a bar over runs.

    Returns
    -------
    list of str
        What was done, a line each.

    Raises
    ------
    InputError
        For anything that is wrong in what was asked, before anything runs; for a metric that the
        records don't have, as soon as there is one.
    SweepError
        If runs failed, after all others were made and drawn.
    """
    planned = grid(chapter, texts, profile=profile, seeds=seeds)
    if workers is not None and (scheduler is not None or workers < 1):
        raise InputError("--workers is a number of processes on this machine, at least 1; a Dask "
                         "cluster has its own")
    if scheduler is not None and not _ADDRESS.fullmatch(scheduler):
        raise InputError(f"{scheduler!r} is no address of a Dask scheduler; one looks like "
                         "tcp://192.168.0.5:8786")
    output = output or Path("-".join(["sweep", profile or chapter, *planned.swept]))
    ours.refuse_figures(output)
    ours.refuse_table(output / "sweep.csv")
    for run in planned.runs:
        ours.refuse_record(output / "runs" / run.name,
                           f"{profile or f'{chapter}-default'}-seed{run.values.get('seed')}")
    runs.writable(output / "runs")
    try:
        return _swept(planned, seeds, metrics, workers, scheduler, output, progress)
    finally:
        for folder in (output / "runs", output):
            with suppress(OSError):         # not empty
                folder.rmdir()


def _swept(planned: Grid, seeds: Sequence[int] | None, metrics: Sequence[str],
           workers: int | None, scheduler: str | None, output: Path, progress: bool) -> list[str]:
    """Make the runs that are not there, and draw what was measured; see `sweep`."""
    chapter = planned.chapter
    code = present_code([chapter])
    found = {run.name: record for run in planned.runs
             if (record := _finished(output, run, code)) is not None}
    for record in list(found.values())[:1]:
        _refuse_unknown(metrics, record)
    to_do = [run for run in planned.runs if run.name not in found]
    skipped, failed = len(found), {}
    if to_do:
        where = _cluster(scheduler, chapter) if scheduler else _processes(workers, len(to_do))
        jobs = _jobs(planned, to_do, code)
        with where as pool:
            sheet.clear(output)
            for run, outcome in _made(pool, jobs, progress):
                record, error = _kept(output, run, outcome, code)
                if record is None:
                    failed[run.name] = error
                    continue
                if not found:
                    _refuse_unknown(metrics, record)
                found[run.name] = record
    said = [f"{len(planned.runs)} runs: {len(to_do) - len(failed)} made"
            + (f", {skipped} were there already" if skipped else "")
            + (f", {len(failed)} failed" if failed else "")]
    said += summary.write(output, planned, found, failed, metrics, _command(
        planned, seeds, metrics, workers, scheduler, output))
    if failed:
        lines = [f"  {run.name}: {failed[run.name]}" for run in planned.runs if run.name in failed]
        others = f"the others are in {output}, and " if found else ""
        raise SweepError("\n".join([
            f"{len(failed)} of {len(planned.runs)} runs failed; {others}the same command makes "
            "only these again", *lines]))
    return said


def _command(planned: Grid, seeds: Sequence[int] | None, metrics: Sequence[str],
             workers: int | None, scheduler: str | None, output: Path) -> list[str]:
    words = runs.command("sweep", planned.chapter, planned.profile, planned.texts, seeds)
    for option, value in (("--metric", metrics), ("--workers", workers), ("--scheduler", scheduler),
                          ("--output", output)):
        if value:
            words += [option, *map(str, value if option == "--metric" else [value])]
    return words


# --- what is there -----------------------------------------------------------------------------


def _finished(output: Path, run: Run, code: Mapping[str, str]) -> Record | None:
    """The record of a run, if it is there and its parameters, code and data are today's."""
    for path in (output / "runs" / run.name).glob("*.json"):
        record = read_record(path)
        if record.parameters == plain(run.values) and not is_stale(
                record, code, present_data()) and not _touched_since(record, run.values):
            return record
    return None


def _touched_since(record: Record, values: Mapping[str, Any]) -> bool:
    """Whether a file of the person's own, which no checksum is known of, was written since."""
    for path in filter(None, map(own_file, values.values())):
        begun = datetime.fromisoformat(record.started).timestamp()
        if any(one.stat().st_mtime >= begun for one in [path, *path.rglob("*")] if one.exists()):
            return True
    return False


def _refuse_unknown(metrics: Sequence[str], record: Record) -> None:
    shipped = (r.metrics for r in evidence.load_records() if r.chapter == record.chapter)
    known = set(record.metrics).union(*shipped) if metrics else set()
    for metric in metrics:
        if metric not in known:
            raise unknown(f"metric in the records of {record.chapter}", metric, record.metrics)


# --- making runs -------------------------------------------------------------------------------


class _Pool(NamedTuple):
    """Where runs are made."""

    executor: Executor
    sweep: str                          # see `worker.stop`
    is_empty: Callable[[], bool]        # whether nobody is left to make them


def _made(pool: _Pool, jobs: Mapping[str, tuple[Run, worker.Job]], progress: bool
          ) -> Iterator[tuple[Run, worker.Outcome]]:
    """Every run with what came of it, as they end; one whose process died is begun once more."""
    from tqdm import tqdm

    def begin(name: str) -> None:
        job = replace(jobs[name][1], sweep=pool.sweep)
        pending[pool.executor.submit(worker.work, job)] = name

    pending: dict[Future, str] = {}
    again: set[str] = set()
    for name in jobs:
        begin(name)
    with tqdm(total=len(jobs), unit="run", file=sys.stderr, disable=not progress) as bar:
        def tell(line: str) -> None:
            bar.write(line, file=sys.stderr)

        while pending:
            done = wait(pending, _PATIENCE, return_when=FIRST_COMPLETED).done
            if not done and pool.is_empty():
                tell("the cluster has no worker left; waiting for one (Ctrl-C stops)")
            for future in done:
                name = pending.pop(future)
                outcome = _outcome(future)
                if outcome.died and name not in again:
                    again.add(name)
                    tell(f"{name}: {outcome.error}; it is begun once more")
                    begin(name)
                    continue
                if outcome.error:
                    tell(f"{name} failed: {outcome.error}")
                bar.update()
                yield jobs[name][0], outcome


def _outcome(future) -> worker.Outcome:
    try:
        return future.result()
    except CancelledError:
        return worker.Outcome(error="the scheduler gave it up")
    except Exception as error:                      # of the cluster: a run's own is in its outcome
        first = (str(error).strip().splitlines() or [""])[0]
        return worker.Outcome(error=f"{type(error).__name__}: {first}")


def _source(chapter: str) -> str:
    """The chapter's notebook without its outputs."""
    notebook = read_notebook(parameters.notebook_path(chapter))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return nbformat.writes(notebook)


def _jobs(planned: Grid, to_do: Sequence[Run], code: Mapping[str, str]
          ) -> dict[str, tuple[Run, worker.Job]]:
    notebook = _source(planned.chapter)
    jobs = {}
    for run in to_do:
        key = json.dumps([run.values, code], sort_keys=True).encode()
        jobs[run.name] = run, worker.Job(
            sweep="", about=runs.context(planned.chapter, planned.profile, run.values),
            notebook=notebook,
            checkpoints=f"sweep-{planned.chapter}-{hashlib.sha256(key).hexdigest()[:16]}")
    return jobs


def _kept(output: Path, run: Run, outcome: worker.Outcome, code: Mapping[str, str]
          ) -> tuple[Record | None, str]:
    """Write what a run left; its record, or what is wrong with it."""
    if outcome.error:
        return None, outcome.error
    if ".json" not in outcome.files:
        raise SweepError(f"{run.name} ran to its end but left no record: its notebook does not "
                         "call evidence.record, so there is nothing to draw")
    values = json.loads(outcome.files[".json"])
    record = as_record(values, f"the record of {run.name}")
    if record.code != code.get(record.chapter):
        return None, "it was made by other code than this machine's"
    # The record comes last: where it is, everything beside it is too.
    folder = output / "runs" / run.name
    for ending in sorted(outcome.files, key=lambda ending: ending == ".json"):
        write_atomically(folder / f"{record.name}{ending}", outcome.files[ending])
    return record, ""


@contextmanager
def _processes(workers: int | None, n_runs: int) -> Iterator[_Pool]:
    """Processes on this machine, as many at a time as it has processors."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    pool = _Pool(ThreadPoolExecutor(min(workers or here, n_runs)), uuid.uuid4().hex, lambda: False)
    try:
        yield pool
    except BaseException:
        pool.executor.shutdown(wait=False, cancel_futures=True)
        worker.stop(pool.sweep)
        raise
    finally:
        pool.executor.shutdown()


@contextmanager
def _cluster(address: str, chapter: str) -> Iterator[_Pool]:
    """The workers of a Dask cluster; one that dies has its runs made by another."""
    from distributed import Client

    try:
        client = Client(address, timeout=_ANSWERS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {address!r}: {error}; an address looks "
                         "like tcp://192.168.0.5:8786") from None
    with client:
        _refuse_other_code(client, address, chapter)
        pool = _Pool(client.get_executor(pure=False), uuid.uuid4().hex,
                    lambda: client.status == "running" and not client.nthreads())
        try:
            yield pool
        except BaseException:
            pool.executor.shutdown(wait=False)
            if client.status == "running":
                client.run(worker.stop, pool.sweep)
            raise


_VERSION = "__import__('papermill') and __import__('clusterbook').__version__"


def _refuse_other_code(client, address: str, chapter: str) -> None:
    """Look at what the workers have installed: a run is worth nothing with other code."""
    def asked(what: Callable, *arguments: Any) -> dict[str, Any]:
        return client.run(what, *arguments, on_error="return")

    # `eval` and not a function of ours, which a worker without clusterbook could not even read.
    versions = asked(eval, _VERSION)
    if not versions:
        raise InputError(f"the Dask scheduler at {address} has no workers; start one with: "
                         f"dask worker {address}")
    for place, version in versions.items():
        if isinstance(version, ModuleNotFoundError):
            raise InputError(f"the Dask worker {place} has no {version.name}; install clusterbook "
                             f"{__version__} with its extras book and dask in its environment")
        if version != __version__:
            raise InputError(f"the Dask worker {place} has clusterbook {version}, and here is "
                             f"{__version__}: install the same on both")
    ours = fingerprint(chapter)
    for place, theirs in asked(fingerprint, chapter).items():
        if theirs != ours:
            raise InputError(f"the Dask worker {place} has clusterbook {__version__} too, but "
                             f"other code for {chapter}: install the same on both")
