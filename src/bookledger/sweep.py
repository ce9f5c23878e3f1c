"""Run a chapter over a grid of parameters and seeds, and draw what was measured.

joblib makes the runs, in processes of this machine or of a Dask cluster. Each hands back its
record, which is written here: the machines of a cluster need no common folder. A finished run is
not made again.
"""

import itertools
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
from matplotlib.figure import Figure

from clusterbook import figures
from clusterbook.checks import InputError, one_of
from clusterbook.figures.showing import save
from clusterbook.paths import as_csv, bar, write_atomically

from . import config, execution, parameters, runs
from .machine import version_of
from .parameters import Chapter, Parameter, number_range
from .records import Record, read_record
from .runs import Run

_ANSWERS = 10       # seconds within which a Dask scheduler has to answer and to have a worker
_CAPTION = ("Every dot is a run. The line is the mean over seeds, and the bar reaches one "
            "standard deviation (with n − 1) to both sides. Between the points nothing was "
            "measured.")


def sweep(name: str, overrides: Mapping[str, str], *, metrics: Sequence[str] = (),
          workers: int | None = None, scheduler: str | None = None, **others: Any) -> list[str]:
    """Run a chapter over a grid and draw what was measured; a line for each thing done.

    The arguments are those of ``clusterbook sweep --help``; *overrides* has the values of each
    parameter as typed (see `values_of`), and *others* are those of `grid`.

    Raises InputError before anything runs, or for an unknown metric after all runs; and
    ChapterError if runs failed, after all others were made and drawn.
    """
    planned = grid(name, overrides, **others)
    runs.own_folder(planned.output, "runs")
    (planned.output / "runs").mkdir(exist_ok=True)      # it marks the folder, if every run fails
    found = {folder: record for folder, run in planned.runs.items()
             if (record := runs.recorded(run))}
    missing = {folder: run for folder, run in planned.runs.items() if folder not in found}
    failed = {}
    if missing:
        with _cluster(scheduler) if scheduler else nullcontext():
            failed = _make_all(planned, missing, found, workers, bool(scheduler))
    said = [f"{len(planned.runs)} runs: {len(missing) - len(failed)} made, "
            f"{len(planned.runs) - len(missing)} were there already, {len(failed)} failed",
            *draw(planned, found, metrics)]
    if failed:
        raise execution.ChapterError("\n  ".join([
            f"{len(failed)} of {len(planned.runs)} runs failed; the others are in "
            f"{planned.output}, and the same command makes only these again",
            *(f"{planned.title(folder)}: {failed[folder]}" for folder in planned.runs
              if folder in failed), *said[1:]]))
    return said


# --- the runs of a sweep -----------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """The runs of a sweep, by the names of their folders in ``runs``."""

    chapter: Chapter
    output: Path
    swept: Sequence[str]        # the parameters with several values: the x axis, and the lines
    runs: Mapping[str, Run]

    def title(self, folder: str) -> str:
        """What tells a run from the others: ``rate 0.1, seed 0``."""
        values = self.runs[folder].values
        return ", ".join(f"{name} {values[name]}" for name in (*self.swept, "seed")
                         if name in values)


def grid(name: str, overrides: Mapping[str, str], *, profile: str | None = None,
         seeds: Sequence[int] | None = None, output: Path | None = None) -> Grid:
    """Plan a sweep: every combination of the typed values with every seed.

    The first parameter with several values is the x axis. A chapter's own list of further seeds
    (``seeds``) is empty, unless the profile or the user sets it: each run is one training.

    Raises InputError for invalid input.
    """
    chapter = parameters.read(name)
    chosen = chapter.profile(profile)
    base = chapter.values(chosen)
    if "seed" in overrides:
        raise InputError("the seeds of a sweep are given with --seeds, for example --seeds 0-4")
    varied = {one: values_of(chapter.parameter(one), text) for one, text in overrides.items()}
    swept = [one for one, values in varied.items() if len(values) > 1]
    if not 1 <= len(swept) <= 2:
        raise InputError("a sweep needs one or two parameters with several values: -p rate 0.1,1")
    if "seeds" in base and "seeds" not in {*overrides, *(chosen.values if chosen else ())}:
        base["seeds"] = []
    if not seeds and "seed" in base:
        seeds = [base["seed"]]
    if seeds:
        varied["seed"] = parameters.distinct_seeds(chapter, seeds)
    output, planned = output or Path("-".join(["sweep", profile or name, *swept])), {}
    for values in itertools.product(*varied.values()):
        run = Run(chapter, chosen, base | dict(zip(varied, values, strict=True)))
        given = sorted((one, run.values[one]) for one in overrides)
        folder = f"{run.name}-{_digest(given)}"
        planned[folder] = replace(run, records=output / "runs" / folder)
    return Grid(chapter, output, swept, planned)


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


def _digest(value: Any) -> str:
    return config.sha256(repr(value).encode())[:12]


# --- making them -------------------------------------------------------------------------------


@contextmanager
def _cluster(scheduler: str) -> Iterator[None]:
    """Let joblib use a Dask cluster; if a worker dies, another takes over."""
    from distributed import Client
    from distributed.comm import get_address_host_port

    try:
        get_address_host_port(scheduler)        # a client of no address ends with a traceback
        client = Client(scheduler, timeout=_ANSWERS, set_as_default=False)
        client.wait_for_workers(1, timeout=_ANSWERS)
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler with a worker answers at {scheduler!r}: {error}; dask "
                         "worker ADDRESS starts a worker at tcp://192.168.0.5:8786") from None
    with client, joblib.parallel_config("dask", client=client) as used:
        # With one thread in the whole cluster joblib would make the runs on this machine.
        used["backend"].effective_n_jobs = lambda n_jobs: max(2, sum(client.ncores().values()))
        yield


def _make_all(planned: Grid, missing: Mapping[str, Run], found: dict[str, Record],
              workers: int | None, cluster: bool) -> dict[str, str]:
    """Make the missing runs; enter the records into *found*, and return the errors."""
    failed, code = {}, version_of(planned.chapter.name)
    calls = [(folder, run, code) for folder, run in missing.items()]
    with (bar(len(missing), unit="run") as shown,
          execution.side_by_side(_made, calls, workers, cluster) as ended):
        for folder, files, error in ended:
            run = missing[folder]
            for name, content in (files or {}).items():         # the record is the last
                write_atomically(run.records / name, content)
            if not error and (record := read_record(run.record)).code != code:
                error = (f"that machine runs another version of the method ({record.code}, "
                         f"not {code})")
            if error:
                failed[folder] = error.splitlines()[0]
                shown.write(f"{planned.title(folder)} failed: {failed[folder]}", file=sys.stderr)
            else:
                found[folder] = record
            shown.update()
    return failed


def _made(name: str, run: Run, code: str, folder: Path, variables: Mapping[str, str]
          ) -> dict[str, bytes]:
    """Make a run where it is called: the content of its files, the record as the last."""
    # An interrupted run of other parameters, code or folder has another checkpoint.
    key = _digest([sorted(run.values.items()), run.folder, code])
    runs.make(replace(run, records=folder, variables=variables,
                      checkpoint=f"sweep-{run.chapter.name}-{key}"))
    recorded = sorted(folder.glob("*-seed*"), key=lambda path: path.suffix == ".json")
    return {path.name: path.read_bytes() for path in recorded}


# --- drawing what was measured -----------------------------------------------------------------


def draw(planned: Grid, found: Mapping[str, Record], metrics: Sequence[str] = ()) -> list[str]:
    """Write ``sweep.csv`` and a figure for each metric; lines for the terminal, with the means.

    *found* has the records by their runs' folders. *metrics* are drawn, by default the book's main
    metric or, without it, another score.
    """
    table, output = frame(planned, found), planned.output
    write_atomically(output / "sweep.csv", as_csv(table).encode())
    said = [f"table: {output / 'sweep.csv'}"]
    known = list(dict.fromkeys(name for record in found.values() for name in record.metrics))
    usual = [metric for metric in (*config.book().metrics.main, *known) if metric in known]
    for metric in found and (metrics or usual[:1]):
        one_of("metric of these runs", metric, known)
        name = re.sub(r"[^\w-]+", "-", metric)
        alt = (f"The metric {metric} against the parameter {' and '.join(planned.swept)}; "
               "sweep.csv has the numbers.")
        save(figure(planned, table, metric), output, name, alt, _CAPTION)
        means = table.groupby(planned.swept, sort=False)[metric].agg(["count", "mean", "std"])
        said += [f"figure: {output / name}.png and .svg", *means.to_string().splitlines()]
    return said


def frame(planned: Grid, found: Mapping[str, Record]) -> pd.DataFrame:
    """A row for each run: what differs, seconds, and every metric of another name."""
    rows = []
    for folder, run in planned.runs.items():
        row = {"run": folder} | {
            name: str(value) if isinstance(value, list) else value
            for name, value in run.values.items() if name in (*planned.swept, "seed")}
        if record := found.get(folder):
            row = {**row, "seconds": record.seconds, **record.metrics} | row
        rows.append(row)
    return pd.DataFrame(rows)


@figures.styled
def figure(planned: Grid, table: pd.DataFrame, metric: str) -> Figure:
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
        axis.set_xticks(range(len(names)), map(str, names))
    elif at.min() > 0 and at.max() > 10 * at.min():
        figures.logarithmic(axis)
    lines = table[second[0]].map(str) if second else pd.Series("", table.index)
    for (name, runs_of), color in zip(table[metric].groupby(lines, sort=False),
                                      itertools.cycle(figures.COLORS)):
        points = runs_of.groupby(at).agg(["mean", "std"])
        axis.plot(at[runs_of.index], runs_of, "o", color=color, alpha=0.5, markersize=4)
        axis.errorbar(points.index, points["mean"], points["std"], color=color, capsize=4,
                      label=name, linestyle=joined, marker="_", markersize=12)
    meanings = [f"{name}: {planned.chapter.parameters[name].meaning}" for name in planned.swept]
    axis.set(xlabel=textwrap.fill(meanings[0], 76), ylabel=metric)
    if second:
        drawn.legend(loc="outside upper left", title=textwrap.fill(meanings[1], 76), ncols=4)
    return drawn
