"""Run a chapter over a grid of parameters and seeds, and draw what was measured.

Each run is made on this machine or by a Dask worker, and hands back its record, which is written
here. So the machines of a cluster need no common folder. A finished run is not made again.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import sys
import tempfile
import textwrap
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .. import figures
from ..checks import one_of
from ..errors import InputError
from ..evidence.records import Record, read_record
from ..evidence.versions import version_of
from ..evidence.views import spread
from ..figures.showing import LIST, save
from ..paths import write_atomically
from ..progress import bar
from ..settings import MOST_VALUES, number_range
from . import parameters, runs, sheet
from .parameters import Chapter, Parameter
from .runs import ChapterError, Run

MOST_LINES = 8      # in a figure, one for each color
_ANSWERS = 10       # seconds within which a Dask scheduler has to answer
_MAIN = ("acc", "test_accuracy", "nmi", "ari")      # drawn by default: the first that is there
_CAPTION = ("Every dot is a run. The line is the mean over seeds, and the bar reaches one "
            "standard deviation (with n − 1) to both sides. Between the points nothing was "
            "measured.")


def sweep(name: str, overrides: Mapping[str, str], *, profile: str | None = None,
          seeds: Sequence[int] | None = None, metrics: Sequence[str] = (),
          workers: int | None = None, scheduler: str | None = None, output: Path | None = None,
          command: str = "") -> list[str]:
    """Run a chapter over a grid and draw what was measured; a line for each thing done.

    The arguments are those of ``clusterbook sweep --help``: *overrides* has the values of each
    parameter as typed (see `values_of`), and *command* is what was typed in all.

    Raises InputError before anything runs, or for an unknown metric after the first record; and
    ChapterError if runs failed, after all others were made and drawn.
    """
    planned = grid(name, overrides, profile=profile, seeds=seeds)
    if workers is not None and (scheduler is not None or workers < 1):
        raise InputError("--workers is at least 1, and not for a cluster, which has its own")
    output = output or Path("-".join(["sweep", profile or name, *planned.swept]))
    sheet.refuse_others(planned.chapter, None, output)
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
        pool = _cluster(scheduler) if scheduler else runs.processes(
            min(workers or runs.cores(), len(missing)))
        failed = _make_all(missing, pool, output / "runs", found, metrics)
    said = [f"{len(planned.runs)} runs: {len(missing) - len(failed)} made, "
            f"{len(planned.runs) - len(missing)} were there already, {len(failed)} failed"]
    errors = [f"{run}: {failed[run]}" for run in planned.runs if run in failed]
    said += draw(output, planned, found, metrics, errors, command)
    if failed:
        raise ChapterError("\n  ".join([
            f"{len(failed)} of {len(planned.runs)} runs failed; the others are in {output}, and "
            "the same command makes only these again", *errors]))
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
    if len(given[swept[-1]]) > MOST_LINES and len(swept) == 2:
        raise InputError(f"the second parameter is drawn as lines, {MOST_LINES} at most, and "
                         f"{swept[1]} has {len(given[swept[1]])} values; name it first")
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
        in_order = {one: run.values[one] for one in known if one in given}      # not as typed
        planned[_folder(run, in_order)] = run
    return Grid(chapter, given, swept, planned)


def values_of(parameter: Parameter, text: str) -> list[Any]:
    """The values that were typed for a parameter of a sweep.

    They are separated by commas; by semicolons where a value has commas itself: always for a list
    parameter, and wherever there is a semicolon, also at the end. Integers may be a range.

    Examples
    --------
    >>> values_of(Parameter("alpha", "float", 0.1, "", "", ""), "1e-3,1e-2")
    [0.001, 0.01]
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
    """The name of a run's folder; with a digest where its words alone may mean other values."""
    head, seed, number = run.name.partition("-seed")
    words = [value if isinstance(value, str) else repr(value).strip("[]").replace(" ", "")
             for value in values.values()]
    text = "-".join([head, *map("{}={}".format, values, words)]) + seed + number
    safe = re.sub(r"[^a-z0-9.,=+_-]+", "_", text.lower()).replace("..", "_")[:140]
    return safe if safe == text else f"{safe}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


# --- making them -------------------------------------------------------------------------------


def _make_all(missing: Mapping[str, Run], pool: AbstractContextManager, place: Path,
              found: dict[str, Record], metrics: Sequence[str]) -> dict[str, str]:
    """Make the missing runs; enter the records into *found*, and return the errors."""
    chapter = next(iter(missing.values())).chapter
    for cell in chapter.notebook.cells:         # a cluster needs no stored outputs
        if cell.cell_type == "code":
            cell.outputs = []
    failed, code = {}, version_of(chapter.name)
    with pool as submit, bar(len(missing), unit="run") as shown:
        pending = {}
        for folder, run in missing.items():
            # An interrupted run of other parameters, code or folder has another checkpoint.
            key = hashlib.sha256(repr([sorted(run.values.items()), run.folder, code]).encode())
            named = replace(run, checkpoint=f"sweep-{chapter.name}-{key.hexdigest()[:16]}")
            pending[submit(_make, named)] = folder
        for future in as_completed(pending):
            folder = pending[future]
            try:
                for name, content in future.result().items():       # the record is the last
                    write_atomically(place / folder / name, content)
                record = next(map(read_record, (place / folder).glob("*-seed*.json")), None)
                if record is None or record.code != code:
                    raise ChapterError("it left no record made by this machine's code: a notebook "
                                       "calls evidence.record, all machines have one commit")
                found[folder] = record
            except Exception as error:          # of a run, or of the cluster
                failed[folder] = str(error).partition("\n")[0] or type(error).__name__
                shown.write(f"{folder} failed: {failed[folder]}", file=sys.stderr)
            shown.update()
            _refuse_unknown(metrics, found)
    return failed


def _make(run: Run) -> dict[str, bytes]:
    """Make a run where it is called; the files that it recorded, the record itself last."""
    with tempfile.TemporaryDirectory(prefix="clusterbook-") as folder:
        runs.make(replace(run, records=Path(folder)))
        recorded = sorted(Path(folder).glob("*-seed*"), key=lambda path: path.suffix == ".json")
        return {path.name: path.read_bytes() for path in recorded}


def _refuse_unknown(metrics: Sequence[str], found: Mapping[str, Record]) -> None:
    for record in list(found.values())[:1]:
        for metric in metrics:
            one_of(f"metric in the records of {record.chapter}", metric, record.metrics)


@contextmanager
def _cluster(address: str) -> Iterator[Callable[..., Future]]:
    """The workers of a Dask cluster; the runs of one that dies are made by another."""
    from distributed import Client

    try:
        client = Client(address, timeout=_ANSWERS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {address!r}: {error}; an address looks "
                         "like tcp://192.168.0.5:8786") from None
    with client:
        if not client.scheduler_info()["workers"]:
            raise InputError(f"the Dask scheduler at {address} has no workers; start one with: "
                             f"dask worker {address}")
        pool, owner = client.get_executor(pure=False), uuid.uuid4().hex
        try:
            yield partial(pool.submit, runs.apart, owner, "1")
        except BaseException:
            pool.shutdown(wait=False)
            if client.status == "running":
                client.run(runs.stop, owner)
            raise


# --- drawing what was measured -----------------------------------------------------------------


def draw(output: Path, planned: Grid, found: Mapping[str, Record], metrics: Sequence[str] = (),
         errors: Sequence[str] = (), command: str = "") -> list[str]:
    """Write ``sweep.csv``, a figure for each metric, and ``index.html``; a line for each file.

    *found* has the records by their runs' folders. *metrics* are drawn, by default the accuracy or,
    without it, another score. *errors* and *command* are for the page.
    """
    table = frame(planned, found)
    csv = table.to_csv(index=False, lineterminator="\n")
    write_atomically(output / sheet.TABLE, csv.encode())
    said, tables = [f"table: {output / sheet.TABLE}"], []
    (output / LIST).unlink(missing_ok=True)
    known = [metric for record in list(found.values())[:1] for metric in record.metrics]
    for metric in (known and metrics) or [one for one in (*_MAIN, *known) if one in known][:1]:
        points = _points(planned, table, metric)
        name = re.sub(r"[^\w-]+", "-", metric)
        alt = (f"The metric {metric} against the parameter {' and '.join(planned.swept)}; the "
               "table below has the numbers.")
        save(_figure(planned, points, metric), output, name, alt, _CAPTION)
        said.append(f"figure: {output / name}.png and .svg")
        rows = [[*(_text(point[name]) for name in planned.swept), str(point["count"]),
                 spread(point["mean"], point["std"])] for point in points]
        tables.append(parameters.table(f"{metric}, over the runs of each combination",
                            [*planned.swept, "runs", "mean ± standard deviation"], rows))
    page = sheet.write(
        output, title=f"{planned.chapter.title}: a sweep of {' and '.join(planned.swept)}",
        chapter=planned.chapter, values=[run.values for run in planned.runs.values()],
        parts={"": output}, command=command, problems=errors, tables=tables)
    return [*said, f"contact sheet: {page}"]


def frame(planned: Grid, found: Mapping[str, Record]) -> pd.DataFrame:
    """A row for each run: its parameters, seconds, failed checks, and every metric."""
    rows = []
    for folder, run in planned.runs.items():
        row = {"run": folder} | {
            name: _text(value) if isinstance(value, list) else value
            for name, value in run.values.items() if name in {*planned.given, "seed"}}
        record = found.get(folder)
        row["seconds"] = record and record.seconds
        row["failed checks"] = record and sum(not held for held in record.checks.values())
        measured = record.metrics if record else {}     # one may have the name of a parameter
        rows.append(row | {f"{name} (metric)" if name in row else name: value
                           for name, value in measured.items()})
    return pd.DataFrame(rows)


def _points(planned: Grid, table: pd.DataFrame, metric: str) -> list[dict[str, Any]]:
    """A metric's count, mean, standard deviation and values at each combination."""
    column = f"{metric} (metric)" if f"{metric} (metric)" in table else metric
    groups = table.dropna(subset=column).groupby(planned.swept, sort=False)[column]
    points = groups.agg(["count", "mean", "std", list]).reset_index()
    return points.astype(object).where(points.notna(), None).to_dict("records")


def _figure(planned: Grid, points: Sequence[Mapping[str, Any]], metric: str):
    first, *second = planned.swept
    scale = axis_scale(planned.given[first])
    numeric = scale in ("linear", "log")
    names = planned.given[second[0]] if second else [""]
    lines: dict[str, list] = {_text(name): [] for name in names}
    for point in sorted(points, key=lambda point: point[first]) if numeric else points:
        x = point[first] if numeric else _text(point[first])
        line = _text(point[second[0]]) if second else ""
        lines[line].append((x, point["list"], point["mean"], point["std"]))
    meanings = [textwrap.fill(f"{name}: {planned.chapter.parameters[name].meaning}", 76)
                for name in planned.swept]
    most = max(point["count"] for point in points)
    return figures.response(
        {line: drawn for line, drawn in lines.items() if drawn}, x=meanings[0], y=metric,
        scale=scale, seeds=f"{most} seeds", lines_are=meanings[1] if second else "")


def axis_scale(values: Sequence[Any]) -> str:
    """The scale of a parameter's axis; see `clusterbook.figures.charts.response`.

    Numbers that span a decade get a logarithmic axis if that spaces them at least as evenly; equal
    steps if one of them is 0, which has no logarithm.

    Examples
    --------
    >>> [axis_scale(v) for v in ([1e-4, 1e-3, 1e-2], [2, 8, 14, 20], [1, 2, 3], [0, 1e-3, 1])]
    ['log', 'linear', 'linear', 'steps']
    >>> axis_scale(["adam", "adadelta"])
    'names'
    """
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return "names"
    numbers = np.sort(np.asarray(values, dtype=float))
    positive = numbers[numbers > 0]
    if numbers[0] < 0 or len(positive) < 2 or positive[-1] < 10 * positive[0]:
        return "linear"
    gaps, ratios = np.diff(positive), np.diff(np.log(positive))
    if gaps.std() / gaps.mean() < ratios.std() / ratios.mean():
        return "linear"
    return "log" if len(positive) == len(numbers) else "steps"


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
