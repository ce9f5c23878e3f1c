"""Run a chapter over a grid of parameters and seeds, and draw what was measured.

joblib makes the runs, in processes of this machine or of a Dask cluster. Each hands back its
record, which is written here: the machines of a cluster need no common folder. A finished run is
not made again.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import re
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
from matplotlib.figure import Figure

from clusterbook import figures
from clusterbook.checks import InputError, one_of
from clusterbook.figures.showing import save
from clusterbook.paths import bar, write_atomically

from . import config, execution, parameters, runs
from .machine import version_of
from .parameters import MOST_VALUES, Chapter, Parameter, number_range
from .records import Record, read_record
from .runs import Run

_ANSWERS = 10       # seconds within which a Dask scheduler has to answer
_RESUMES = "the same command makes only the runs that are missing"
_CAPTION = ("Every dot is a run. The line is the mean over seeds, and the bar reaches one "
            "standard deviation (with n − 1) to both sides. Between the points nothing was "
            "measured.")


def sweep(name: str, overrides: Mapping[str, str], *, profile: str | None = None,
          seeds: Sequence[int] | None = None, metrics: Sequence[str] = (),
          workers: int | None = None, scheduler: str | None = None,
          output: Path | None = None) -> list[str]:
    """Run a chapter over a grid and draw what was measured; a line for each thing done.

    The arguments are those of ``clusterbook sweep --help``; *overrides* has the values of each
    parameter as typed (see `values_of`).

    Raises InputError before anything runs, or for an unknown metric after the first record; and
    ChapterError if runs failed, after all others were made and drawn.
    """
    planned = grid(name, overrides, profile=profile, seeds=seeds)
    if workers is not None and (scheduler is not None or workers < 1):
        raise InputError("--workers is at least 1, and not for a cluster, which has its own")
    output = output or Path("-".join(["sweep", profile or name, *planned.swept]))
    if output.is_dir() and any(output.iterdir()) and not (output / "runs").is_dir():
        raise InputError(f"{output} holds files, but not of a sweep; name a new folder")
    runs.writable(output / "runs")
    found = {}
    for folder, run in planned.runs.items():
        path = next((output / "runs" / folder).glob("*-seed*.json"), None)
        if path and (record := runs.recorded(run, path)):
            found[folder] = record
    _refuse_unknown(metrics, found)
    missing = {folder: run for folder, run in planned.runs.items() if folder not in found}
    failed = {}
    if missing:
        try:
            with _backend(scheduler, min(workers or joblib.cpu_count(), len(missing))):
                failed = _make_all(missing, output / "runs", found, metrics)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_RESUMES) from None
        except BrokenExecutor:
            raise execution.ChapterError("a process of the sweep was killed, probably because "
                                         f"memory was full; {_RESUMES}") from None
    said = [f"{len(planned.runs)} runs: {len(missing) - len(failed)} made, "
            f"{len(planned.runs) - len(missing)} were there already, {len(failed)} failed",
            *draw(output, planned, found, metrics)]
    if failed:
        raise execution.ChapterError("\n  ".join([
            f"{len(failed)} of {len(planned.runs)} runs failed; the others are in {output}, and "
            "the same command makes only these again",
            *(f"{folder}: {failed[folder]}" for folder in planned.runs if folder in failed)]))
    return said


# --- the runs of a sweep -----------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """The runs of a sweep, by the names of their folders."""

    chapter: Chapter
    given: Mapping[str, list[Any]]      # parameter → the values that were typed
    swept: Sequence[str]                # those with several values: the x axis, and the lines
    runs: Mapping[str, Run]


def grid(name: str, overrides: Mapping[str, str], *, profile: str | None = None,
         seeds: Sequence[int] | None = None) -> Grid:
    """Plan a sweep: every combination of the typed values with every seed.

    The first parameter with several values is the x axis. A chapter's own list of further seeds
    (``seeds``) is empty, unless the profile or the user sets it: each run is one training.

    Raises InputError for invalid input.
    """
    chapter = parameters.read(name)
    chosen = chapter.profile(profile)
    base, known = chapter.values(chosen), chapter.parameters
    if "seed" in overrides:
        raise InputError("the seeds of a sweep are given with --seeds, for example --seeds 0-4")
    given = {one: values_of(chapter.parameter(one), text) for one, text in overrides.items()}
    swept = [one for one, values in given.items() if len(values) > 1]
    if not 1 <= len(swept) <= 2:
        raise InputError("a sweep needs one or two parameters with several values, for example "
                         "-p alpha 1e-4,1e-3")
    if "seeds" in known and "seeds" not in {*overrides, *(chosen.values if chosen else ())}:
        base["seeds"] = []
    varied = dict(given)
    if seeds or "seed" in known:
        chapter.parameter("seed")       # refuses a chapter without it
        varied["seed"] = list(dict.fromkeys(seeds or [base["seed"]]))
    count = math.prod(map(len, varied.values()))
    if count > MOST_VALUES:
        raise InputError(f"this sweep has {count:,} runs; give fewer values or seeds, for at most "
                         f"{MOST_VALUES:,}")
    planned = {}
    for values in itertools.product(*varied.values()):
        run = Run(chapter, chosen, {**base, **dict(zip(varied, values, strict=True))})
        planned[_folder(run, {one: run.values[one] for one in given})] = run
    return Grid(chapter, given, swept, planned)


def values_of(parameter: Parameter, text: str) -> list[Any]:
    """The values that were typed for a parameter of a sweep.

    They are separated by commas; by semicolons where a value has commas itself: always for a list
    parameter, and wherever there is a semicolon, also at the end. Integers may be a range.

    Examples
    --------
    >>> values_of(Parameter("k", "int", 2, "", "", ""), "2-4,8")
    [2, 3, 4, 8]
    >>> values_of(Parameter("ks", "list[int]", [], "", "", ""), "1,2;[];5")
    [[1, 2], [], [5]]
    """
    comma = ";" if ";" in text or parameter.type.startswith("list") else ","
    parts = [part.strip() for part in text.removesuffix(";").split(comma)]
    if parameter.type == "int":
        parts = [one for part in parts for one in number_range(part)]
    values = [parameters.from_text(parameter, part) for part in parts]
    return [value for i, value in enumerate(values) if value not in values[:i]]


def _folder(run: Run, values: Mapping[str, Any]) -> str:
    """The name of a run's folder: profile or chapter, seed, and a digest of the typed values."""
    digest = hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()[:12]
    return f"{run.name}-{digest}"


def _text(value: Any) -> str:
    """A parameter's value as a word of a name, a label or a table."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


# --- making them -------------------------------------------------------------------------------


@contextmanager
def _backend(scheduler: str | None, workers: int) -> Iterator[None]:
    """Let joblib use so many processes, or a Dask cluster; if a worker dies, another takes over."""
    if scheduler is None:
        with joblib.parallel_config("loky", n_jobs=workers):
            yield
        return
    from distributed import Client

    try:
        client = Client(scheduler, timeout=_ANSWERS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {scheduler!r}: {error}; an address looks "
                         "like tcp://192.168.0.5:8786") from None
    with client:
        threads = sum(client.ncores().values())
        if not threads:
            raise InputError(f"the Dask scheduler at {scheduler} has no workers; start one with: "
                             f"dask worker {scheduler}")
        with joblib.parallel_config("dask", client=client) as used:
            # With one thread in the whole cluster joblib would make the runs on this machine.
            used["backend"].effective_n_jobs = lambda n_jobs: max(2, threads)
            yield


def _make_all(missing: Mapping[str, Run], place: Path, found: dict[str, Record],
              metrics: Sequence[str]) -> dict[str, str]:
    """Make the missing runs; enter the records into *found*, and return the errors."""
    chapter = next(iter(missing.values())).chapter
    for cell in chapter.notebook.cells:         # a cluster needs no stored outputs
        if cell.cell_type == "code":
            cell.outputs = []
    failed, code = {}, version_of(chapter.name)
    # In that folder a run may still write when a sweep ends early.
    with (tempfile.TemporaryDirectory(
              prefix="clusterbook-", ignore_cleanup_errors=True) as temporary,
          warnings.catch_warnings(action="ignore"),     # joblib's, of a sweep that ends early
          bar(len(missing), unit="run") as shown,
          closing(joblib.Parallel(return_as="generator_unordered", batch_size=1)(
              joblib.delayed(_made)(folder, run, code, os.getpid(), temporary)
              for folder, run in missing.items())) as ended):
        for folder, files, error in ended:
            for name, content in files.items():         # the record is the last
                write_atomically(place / folder / name, content)
            record = next(map(read_record, (place / folder).glob("*-seed*.json")), None)
            if error or record is None or record.code != code:
                failed[folder] = error or (
                    "it left no record made by this machine's code: a notebook calls "
                    "evidence.record, all machines have one commit")
                shown.write(f"{folder} failed: {failed[folder]}", file=sys.stderr)
            else:
                found[folder] = record
            shown.update()
            _refuse_unknown(metrics, found)
    return failed


def _made(folder: str, run: Run, code: str, parent: int, temporary: str
          ) -> tuple[str, dict[str, bytes], str]:
    """Make a run where it is called: its folder's name, its files, and the error that ended it.

    The record is the last of the files. *parent* is the process of the sweep, *temporary* a folder
    of its machine, in which a run that is killed may leave files.
    """
    execution.end_with(parent)
    variables = execution.computing_with("1")
    variables |= {"TMPDIR": temporary} if os.path.isdir(temporary) else {}
    # An interrupted run of other parameters, code or folder has another checkpoint.
    key = hashlib.sha256(repr([sorted(run.values.items()), run.folder, code]).encode())
    with tempfile.TemporaryDirectory(
            prefix="clusterbook-", dir=variables.get("TMPDIR")) as records:
        try:
            runs.make(replace(run, records=Path(records), variables=variables,
                              checkpoint=f"sweep-{run.chapter.name}-{key.hexdigest()[:16]}"))
        except Exception as error:
            return folder, {}, str(error).partition("\n")[0] or type(error).__name__
        recorded = sorted(Path(records).glob("*-seed*"), key=lambda path: path.suffix == ".json")
        return folder, {path.name: path.read_bytes() for path in recorded}, ""


def _refuse_unknown(metrics: Sequence[str], found: Mapping[str, Record]) -> None:
    for record in list(found.values())[:1]:
        for metric in metrics:
            one_of(f"metric in the records of {record.chapter}", metric, record.metrics)


# --- drawing what was measured -----------------------------------------------------------------


def draw(output: Path, planned: Grid, found: Mapping[str, Record], metrics: Sequence[str] = ()
         ) -> list[str]:
    """Write ``sweep.csv`` and a figure for each metric; lines for the terminal, with the means.

    *found* has the records by their runs' folders. *metrics* are drawn, by default the book's main
    metric or, without it, another score.
    """
    table = frame(planned, found)
    csv = table.to_csv(index=False, lineterminator="\n")
    write_atomically(output / "sweep.csv", csv.encode())
    said = [f"table: {output / 'sweep.csv'}"]
    known = [metric for record in list(found.values())[:1] for metric in record.metrics]
    usual = [one for one in (*config.book().metrics.main, *known) if one in known]
    for metric in (known and metrics) or usual[:1]:
        name = re.sub(r"[^\w-]+", "-", metric)
        alt = (f"The metric {metric} against the parameter {' and '.join(planned.swept)}; "
               "sweep.csv has the numbers.")
        column = _column(planned, metric)
        save(figure(planned, table, column), output, name, alt, _CAPTION)
        means = table.groupby(planned.swept, sort=False)[column].agg(["count", "mean", "std"])
        said += [f"figure: {output / name}.png and .svg", *means.to_string().splitlines()]
    return said


def frame(planned: Grid, found: Mapping[str, Record]) -> pd.DataFrame:
    """A row for each run: its parameters, seconds, failed checks, and every metric."""
    rows = []
    for folder, run in planned.runs.items():
        row = {"run": folder} | {
            name: _text(value) if isinstance(value, list) else value
            for name, value in run.values.items() if name in {*planned.given, "seed"}}
        if record := found.get(folder):
            row |= {"seconds": record.seconds,
                    "failed checks": sum(not held for held in record.checks.values())}
            row |= {_column(planned, name): value for name, value in record.metrics.items()}
        rows.append(row)
    return pd.DataFrame(rows)


def _column(planned: Grid, metric: str) -> str:
    """The column of a metric, which may have the name of a parameter."""
    return f"{metric} (metric)" if metric in {*planned.given, "seed"} else metric


@figures.styled
def figure(planned: Grid, table: pd.DataFrame, column: str) -> Figure:
    """A metric against the first swept parameter; a line for each value of the second.

    Positive numbers that span more than a decade get a logarithmic axis. Other values than numbers
    stand at equal distances, and no line joins them.
    """
    drawn, [[axis]] = figures.blank(3.8)
    first, *second = planned.swept
    at, joined = table[first], "-"
    if not pd.api.types.is_numeric_dtype(at) or pd.api.types.is_bool_dtype(at):
        codes, names = pd.factorize(at)
        at, joined = pd.Series(codes, table.index), "none"
        axis.set_xticks(range(len(names)), map(_text, names))
    elif at.min() > 0 and at.max() > 10 * at.min():
        axis.set_xscale("log")
    lines = table[second[0]].map(_text) if second else pd.Series("", table.index)
    for (name, runs_of), color in zip(table[column].groupby(lines, sort=False),
                                      itertools.cycle(figures.COLORS)):
        points = runs_of.groupby(at).agg(["mean", "std"])
        axis.plot(at[runs_of.index], runs_of, "o", color=color, alpha=0.5, markersize=4)
        axis.errorbar(points.index, points["mean"], points["std"], color=color, capsize=4,
                      label=name, linestyle=joined, marker="_", markersize=12)
    meanings = [f"{name}: {planned.chapter.parameters[name].meaning}" for name in planned.swept]
    axis.set(xlabel=textwrap.fill(meanings[0], 76), ylabel=column)
    if second:
        drawn.legend(loc="outside upper left", title=textwrap.fill(meanings[1], 76), ncols=4)
    return drawn
