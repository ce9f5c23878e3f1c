"""Run a chapter over a grid of parameters and seeds, and draw what was measured.

Each run is a process of its own, on this machine or on a Dask worker, and hands back its record,
which is written here. So the machines of a cluster need no common folder. A finished run is not
made again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import sys
import tempfile
import textwrap
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from .. import __version__, evidence, figures
from ..errors import InputError, unknown
from ..evidence.records import Record, as_record, plain, read_record
from ..evidence.verdicts import is_stale, present_code, present_data
from ..evidence.views import spread
from ..figures.showing import LIST, save
from ..fingerprint import fingerprint
from ..paths import write_atomically
from ..progress import bar
from . import parameters, runs, sheet
from .parameters import Chapter, Parameter, Table, own_file
from .runs import Run

MOST_LINES = 8      # in a figure, one for each color
_ANSWERS = 10       # seconds within which a Dask scheduler has to answer
_ADDRESS = re.compile(r"(\w+://)?[^/\s]+:\d{1,5}")
_TITLES = {
    "acc": "accuracy (ACC)",
    "nmi": "normalized mutual information (NMI)",
    "ari": "adjusted Rand index (ARI)",
    "ami": "adjusted mutual information (AMI)",
}


class SweepError(RuntimeError):
    """Some runs of a sweep failed; the message names each with its error."""


def sweep(name: str, typed: Mapping[str, str], *, profile: str | None = None,
          seeds: Sequence[int] | None = None, metrics: Sequence[str] = (),
          workers: int | None = None, scheduler: str | None = None, output: Path | None = None,
          progress: bool = False) -> list[str]:
    """Run a chapter over a grid and draw what was measured; see ``clusterbook sweep --help``.

    Parameters
    ----------
    name, typed, profile, seeds
        See `grid`.
    metrics : sequence of str
        Drawn; by default the chapter's main metric.
    workers : int, optional
        Runs at a time on this machine, each with one thread; by default one per core.
    scheduler : str, optional
        The address of a Dask scheduler, whose workers make the runs instead.
    output : Path, optional
        The folder of everything that is written; by default named after what is swept.
    progress : bool
        Show a bar over runs.

    Returns
    -------
    list of str
        A line for each thing done.

    Raises
    ------
    InputError
        For invalid input, before anything runs; for an unknown metric, after the first record.
    SweepError
        If runs failed, after all others were made and drawn.
    """
    planned = grid(name, typed, profile=profile, seeds=seeds)
    if workers is not None and (scheduler is not None or workers < 1):
        raise InputError("--workers is a number of processes on this machine, at least 1; a Dask "
                         "cluster has its own")
    if scheduler is not None and not _ADDRESS.fullmatch(scheduler):
        raise InputError(f"{scheduler!r} is no address of a Dask scheduler; one looks like "
                         "tcp://192.168.0.5:8786")
    output = output or Path("-".join(["sweep", profile or name, *planned.swept]))
    sheet.refuse_figures(output)
    _refuse_table(output / "sweep.csv")
    runs.writable(output / "runs")
    try:
        found, failed, made = _made(planned, metrics, workers, scheduler, output, progress)
    finally:
        for folder in (output / "runs", output):
            with suppress(OSError):         # not empty
                folder.rmdir()
    there = len(planned.runs) - made
    said = [f"{len(planned.runs)} runs: {made - len(failed)} made"
            + (f", {there} were there already" if there else "")
            + (f", {len(failed)} failed" if failed else "")]
    words = runs.command("sweep", name, profile, typed, seeds, metric=list(metrics),
                         workers=workers, scheduler=scheduler, output=output)
    said += draw(output, planned, found, failed, metrics, words)
    if failed:
        others = f"the others are in {output}, and " if found else ""
        raise SweepError("\n".join([
            f"{len(failed)} of {len(planned.runs)} runs failed; {others}the same command makes "
            "only these again", *(f"  {run}: {error}" for run, error in failed.items())]))
    return said


# --- the runs of a sweep -----------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """The runs of a sweep, by the names of their folders."""

    chapter: Chapter
    given: Mapping[str, list[Any]]              # parameter → the values that were typed
    seeds: tuple[int, ...]                      # empty where the chapter has none
    runs: Mapping[str, Run]

    @property
    def swept(self) -> list[str]:
        """The parameters with several values: that of the x axis, and that of the lines, if any."""
        return [name for name, values in self.given.items() if len(values) > 1]

    def point(self, run: Run) -> tuple[Any, ...]:
        """The swept values of a run."""
        values = (run.values[name] for name in self.swept)
        return tuple(tuple(value) if isinstance(value, list) else value for value in values)

    def meaning(self, name: str) -> str:
        """A parameter's name and meaning, for an axis."""
        return textwrap.fill(f"{name}: {self.chapter.parameters[name].meaning}", 76)


def grid(name: str, typed: Mapping[str, str], *, profile: str | None = None,
         seeds: Sequence[int] | None = None) -> Grid:
    """Plan a sweep: every combination of the typed values with every seed.

    A chapter's own list of further seeds (``seeds``) is empty, unless the profile or the person
    sets it: each run is one training.

    Parameters
    ----------
    name : str
        The chapter.
    typed : mapping
        Parameter → its values, see `values_of`; the first with several values is the x axis.
    profile : str, optional
        A named parameter set to begin with.
    seeds : sequence of int, optional
        Values of ``seed``.

    Raises
    ------
    InputError
        For invalid input.
    """
    chapter = parameters.read(name)
    chosen = chapter.profile(profile)
    base = chapter.values(chosen)
    known = chapter.parameters
    for one in typed:
        if one not in known:
            raise unknown(f"parameter of {name}", one, known)
    if "seed" in typed:
        raise InputError("the seeds of a sweep are given with --seeds, for example --seeds 0-4")
    if seeds is not None and "seed" not in known:
        raise InputError(f"{name} has no parameter 'seed'; --seeds can't repeat it")
    given = {one: values_of(known[one], text) for one, text in typed.items()}
    _refuse_undrawable(given)
    if "seeds" in known and "seeds" not in {*typed, *(chosen.values if chosen else ())}:
        base["seeds"] = []
    seeds = tuple(dict.fromkeys(seeds)) if seeds else (base["seed"],) if "seed" in known else ()
    count = math.prod(map(len, given.values())) * max(len(seeds), 1)
    if count > parameters.MOST_VALUES:
        raise InputError(f"this sweep has {count:,} runs; at most {parameters.MOST_VALUES:,} can "
                         "be asked for: give fewer values or seeds")
    planned = {}
    for values in itertools.product(*given.values()):
        own = dict(zip(given, values, strict=True))
        in_order = {one: own[one] for one in known if one in own}   # not as they were typed
        for seed in seeds or (None,):
            run = Run(chapter, chosen, {**base, **own, **({} if seed is None else {"seed": seed})})
            planned[_folder(profile or name, in_order, seed)] = run
    return Grid(chapter, given, seeds, planned)


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
    several = parameters.is_list(parameter)
    semicolon = ";" in text or several
    parts = [part.strip() for part in text.removesuffix(";").split(";" if semicolon else ",")]
    if parameter.type == "int":
        parts = [one for part in parts for one in parameters.number_range(part)]
    values: list[Any] = []
    for part in parts:
        if not part and not several:
            raise InputError(f"{parameter.name} has an empty value in {text!r}")
        value = parameters.from_text(parameter, part)
        if value in values:
            raise InputError(f"{parameter.name} has the value {value!r} twice")
        values.append(value)
    return values


def _refuse_undrawable(given: Mapping[str, Sequence[Any]]) -> None:
    swept = [name for name, values in given.items() if len(values) > 1]
    if not swept:
        raise InputError("a sweep needs a parameter with several values, for example "
                         "-p alpha 1e-4,1e-3; `clusterbook run` makes one run, or one per seed")
    if len(swept) > 2:
        raise InputError(f"a sweep draws at most two parameters with several values, and "
                         f"{', '.join(swept)} have: give one value to all but two")
    if len(swept) == 2 and len(given[swept[1]]) > MOST_LINES:
        raise InputError(f"the second parameter is drawn as lines, {MOST_LINES} at most, and "
                         f"{swept[1]} has {len(given[swept[1]])} values; name it first")


def _folder(head: str, given: Mapping[str, Any], seed: int | None) -> str:
    """The name of a run's folder; with a digest where its words alone may mean other values."""
    words = {name: value if isinstance(value, str) else repr(value).strip("[]").replace(" ", "")
             for name, value in given.items()}
    text = "-".join([head, *(f"{name}={word}" for name, word in words.items()),
                     *([] if seed is None else [f"seed{seed}"])])
    files = [str(file.resolve()) for file in map(own_file, given.values()) if file]
    safe = re.sub(r"[^a-z0-9.,=+_-]+", "_", text.lower()).replace("..", "_")[:140]
    if safe == text and not files:
        return safe
    return f"{safe}_{hashlib.sha256(repr([text, files]).encode()).hexdigest()[:8]}"


# --- making them -------------------------------------------------------------------------------


def _made(planned: Grid, metrics: Sequence[str], workers: int | None, scheduler: str | None,
          output: Path, progress: bool) -> tuple[dict[str, Record], dict[str, str], int]:
    """Every run's record or error, by its folder; and the number of runs that were begun."""
    code = present_code([planned.chapter.name])
    found = {folder: record for folder, run in planned.runs.items()
             if (record := _finished(output / "runs" / folder, run, code))}
    _refuse_unknown(metrics, found)
    missing = [folder for folder in planned.runs if folder not in found]
    failed: dict[str, str] = {}
    if not missing:
        return found, failed, 0
    pool = _cluster(scheduler, planned.chapter.name) if scheduler else runs.processes(
        min(workers or runs.cores(), len(missing)))
    with pool as submit, bar(len(missing), unit="run", progress=progress) as shown:
        sheet.clear(output)
        pending = {submit(_make, run): folder for folder, run in _jobs(planned, missing, code)}
        for future in as_completed(pending):
            folder = pending[future]
            try:
                found[folder] = _kept(output / "runs" / folder, future.result(), code)
            except SweepError:
                raise
            except (Exception, CancelledError) as error:
                failed[folder] = _in_a_line(error)
                shown.write(f"{folder} failed: {failed[folder]}", file=sys.stderr)
            shown.update()
            _refuse_unknown(metrics, found)
    in_order = {folder: failed[folder] for folder in planned.runs if folder in failed}
    return found, in_order, len(missing)


def _jobs(planned: Grid, folders: Sequence[str], code: Mapping[str, str]
          ) -> Iterator[tuple[str, Run]]:
    """The runs as they are handed to processes: without stored outputs, with checkpoints."""
    for cell in planned.chapter.notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    for folder in folders:
        run = planned.runs[folder]
        key = json.dumps([run.values, code], sort_keys=True).encode()
        digest = hashlib.sha256(key).hexdigest()[:16]
        yield folder, replace(run, checkpoints=f"sweep-{planned.chapter.name}-{digest}")


def _make(run: Run) -> dict[str, bytes]:
    """In a process of its own: make a run, and return the files of its record by their endings."""
    with tempfile.TemporaryDirectory(prefix="clusterbook-") as folder:
        runs.make(replace(run, records=Path(folder, "records")))
        return {path.suffix: path.read_bytes() for path in Path(folder).glob("records/[!.]*")}


def _kept(folder: Path, files: Mapping[str, bytes], code: Mapping[str, str]) -> Record:
    """Write the files of a run's record, the record itself last."""
    if ".json" not in files:
        raise SweepError("a run left no record: its notebook does not call evidence.record, so "
                         "there is nothing to draw")
    record = as_record(json.loads(files[".json"]), f"the record of {folder.name}")
    if record.code != code.get(record.chapter):
        raise runs.ChapterError("it was made by other code than this machine's")
    for ending in sorted(files, key=lambda ending: ending == ".json"):
        write_atomically(folder / f"{record.name}{ending}", files[ending])
    return record


def _in_a_line(error: BaseException) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    if isinstance(error, InputError | runs.ChapterError):
        return first
    return f"{type(error).__name__}: {first}"


def _finished(folder: Path, run: Run, code: Mapping[str, str]) -> Record | None:
    """The record of a run, if its parameters, code and data are today's."""
    for path in folder.glob("*.json"):
        record = read_record(path)
        if record.parameters == plain(run.values) and not is_stale(
                record, code, present_data()) and not _touched_since(record, run.values):
            return record
    return None


def _touched_since(record: Record, values: Mapping[str, Any]) -> bool:
    """Whether a file of the person's own, which has no checksum, was written since."""
    begun = datetime.fromisoformat(record.started).timestamp()
    return any(one.stat().st_mtime >= begun for path in map(own_file, values.values()) if path
               for one in [path, *path.rglob("*")] if one.exists())


def _refuse_unknown(metrics: Sequence[str], found: Mapping[str, Record]) -> None:
    for record in list(found.values())[:1] if metrics else ():
        shipped = (r.metrics for r in evidence.load_records() if r.chapter == record.chapter)
        known = set(record.metrics).union(*shipped)
        for metric in metrics:
            if metric not in known:
                raise unknown(f"metric in the records of {record.chapter}", metric, record.metrics)


def _refuse_table(path: Path) -> None:
    if path.exists() and not sheet.begins_with(path, "run,", ",seconds,error"):
        raise InputError(f"{path} is no table of a sweep and would be overwritten by one; name "
                         "another folder")


@contextmanager
def _cluster(address: str, chapter: str) -> Iterator[Callable[..., Future]]:
    """The workers of a Dask cluster; the runs of one that dies are made by another."""
    from distributed import Client

    try:
        client = Client(address, timeout=_ANSWERS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {address!r}: {error}; an address looks "
                         "like tcp://192.168.0.5:8786") from None
    with client:
        _refuse_other_code(client, address, chapter)
        pool, owner = client.get_executor(pure=False), uuid.uuid4().hex
        try:
            yield lambda function, run: pool.submit(runs.apart, owner, "1", function, run)
        except BaseException:
            pool.shutdown(wait=False)
            if client.status == "running":
                client.run(runs.stop, owner)
            raise


def _refuse_other_code(client, address: str, chapter: str) -> None:
    """Compare the code of the workers: a run of other code is worth nothing."""
    # eval, because a worker without clusterbook could not read a function of ours.
    asked = ("__import__('papermill') and "
             f"__import__('clusterbook.fingerprint').fingerprint.fingerprint({chapter!r})")
    answers = client.run(eval, asked, on_error="return")
    if not answers:
        raise InputError(f"the Dask scheduler at {address} has no workers; start one with: "
                         f"dask worker {address}")
    ours = fingerprint(chapter)
    for place, theirs in answers.items():
        if isinstance(theirs, Exception):
            raise InputError(f"the Dask worker {place} can't make the runs ({theirs}); install "
                             f"clusterbook {__version__} with its extras book and dask there")
        if theirs != ours:
            raise InputError(f"the Dask worker {place} has other code for {chapter}: install the "
                             "same clusterbook on both")


# --- drawing what was measured -----------------------------------------------------------------

Points = Mapping[tuple[Any, ...], list[float]]      # swept values → the metric in their runs


def draw(output: Path, planned: Grid, found: Mapping[str, Record], failed: Mapping[str, str],
         metrics: Sequence[str], command: Sequence[str]) -> list[str]:
    """Write ``sweep.csv``, a figure for each metric, and ``index.html``.

    Parameters
    ----------
    output : Path
        The folder.
    planned : Grid
        The runs.
    found, failed : mapping
        A run's folder → its record, or its error.
    metrics : sequence of str
        Drawn; by default `main_metric`.
    command : sequence of str
        The words of the command, for the page.

    Returns
    -------
    list of str
        A line for each file.
    """
    table = frame(planned, found, failed)
    csv = table.to_csv(index=False, lineterminator="\n")
    write_atomically(output / "sweep.csv", csv.encode())
    said = [f"table: {output / 'sweep.csv'}"]
    metrics = list(metrics) or [main_metric(record) for record in list(found.values())[:1]]
    (output / LIST).unlink(missing_ok=True)
    tables = []
    for metric in metrics:
        points: dict[tuple[Any, ...], list[float]] = {}
        for folder, run in planned.runs.items():
            if folder in found and metric in found[folder].metrics:
                points.setdefault(planned.point(run), []).append(found[folder].metrics[metric])
        if points:
            name = re.sub(r"[^\w-]+", "-", metric)
            save(_figure(planned, points, metric), output, name, *_texts(planned, points, metric))
            said.append(f"figure: {output / name}.png and .svg")
            tables.append(_summary(planned, points, metric))
    links = {folder: quote(f"runs/{folder}/{record.name}.json") for folder, record in found.items()}
    cells = [[_text(value) if head in planned.given else _measured(value)
              for head, value in zip(table, row, strict=True)]
             for row in table.astype(object).to_numpy().tolist()]
    tables.append(Table("Every run, as in sweep.csv; a run's record is behind its name",
                        list(table), cells, links=links))
    values = {name: sheet.Several(values) if len(values) > 1 else values[0] for name, values in
              {**planned.given, **({"seed": planned.seeds} if planned.seeds else {})}.items()}
    page = sheet.write(
        output, title=f"{planned.chapter.title}: a sweep of {' and '.join(planned.swept)}",
        chapter=planned.chapter, values={**next(iter(planned.runs.values())).values, **values},
        parts={"": output}, command=command, tables=tables,
        failure=f"{len(failed)} of {len(planned.runs)} runs failed." if failed else "")
    return [*said, f"contact sheet: {page}"]


def main_metric(record: Record) -> str:
    """A chapter's main metric: agreement with the labels, or what its first claim is about."""
    claimed = [claim.metric for claim in evidence.load_claims() if claim.chapter == record.chapter]
    for metric in ("acc", "nmi", "ari", *claimed, *record.metrics):
        if metric in record.metrics:
            return metric
    raise InputError(f"the records of {record.chapter} have no metrics; there is nothing to draw")


def frame(planned: Grid, found: Mapping[str, Record], failed: Mapping[str, str]) -> pd.DataFrame:
    """A row for each run: its parameters, seconds, failed checks and error, and every metric."""
    asked = [*planned.given, *(["seed"] if planned.seeds else [])]
    own = ["run", *asked, "seconds", "error", "failed checks"]
    rows = []
    for folder, run in planned.runs.items():
        row = {"run": folder, **{name: run.values[name] for name in asked},
               "seconds": None, "error": failed.get(folder, ""), "failed checks": None}
        if record := found.get(folder):
            row |= {"seconds": record.seconds,
                    "failed checks": sum(not held for held in record.checks.values())}
            # A metric may have the name of a parameter.
            row |= {f"{name} (metric)" if name in own else name: value
                    for name, value in record.metrics.items()}
        rows.append(row)
    table = pd.DataFrame(rows).astype({"failed checks": "Int64"})
    return table[own + sorted(set(table) - set(own))]


def _figure(planned: Grid, points: Points, metric: str):
    first, *second = planned.swept
    scale = axis_scale(planned.given[first])
    numeric = scale in ("linear", "log")
    lines: dict[str, list] = {_text(value): [] for value in planned.given[second[0]]} if second \
        else {"": []}
    for point in sorted(points, key=lambda point: point[0]) if numeric else points:
        measured = points[point]
        deviation = stdev(measured) if len(measured) > 1 else None
        lines[_text(point[1]) if second else ""].append(
            (point[0] if numeric else _text(point[0]), measured, fmean(measured), deviation))
    return figures.response(
        {line: drawn for line, drawn in lines.items() if drawn}, x=planned.meaning(first),
        y=_TITLES.get(metric, metric), scale=scale, seeds=_seeds(points),
        lines_are=planned.meaning(second[0]) if second else "")


def axis_scale(values: Sequence[Any]) -> str:
    """The scale of a parameter's axis; see `clusterbook.figures.response`.

    Numbers that span a decade get a logarithmic axis if that spaces them at least as evenly; equal
    steps if one of them is 0, which has no logarithm.

    Examples
    --------
    >>> [axis_scale(v) for v in ([1e-4, 1e-3, 1e-2], [2, 8, 14, 20], [1, 2, 3], [0, 1e-3, 1])]
    ['log', 'linear', 'linear', 'steps']
    >>> axis_scale(["adam", "adadelta"])
    'names'
    """
    def unevenness(places: np.ndarray) -> float:
        gaps = np.diff(places)
        return round(float(gaps.std() / gaps.mean()), 6)

    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return "names"
    numbers = np.sort(np.asarray(values, dtype=float))
    positive = numbers[numbers > 0]
    spans = len(positive) > 1 and positive[-1] >= 10 * positive[0] and (
        unevenness(np.log(positive)) <= unevenness(positive))
    if not spans or numbers[0] < 0:
        return "linear"
    return "log" if len(positive) == len(numbers) else "steps"


def _texts(planned: Grid, points: Points, metric: str) -> tuple[str, str]:
    """The alternative text and the caption of a figure."""
    first, *second = planned.swept
    values = ", ".join(_text(value) for value in planned.given[first])
    each = f", a line for each {second[0]}" if second else ""
    alt = (f"The metric {metric} against the parameter {first}, at {values}{each}; the table below "
           "has the numbers.")
    several = any(len(measured) > 1 for measured in points.values())
    spread_is = ("The line is their mean, and the band or bar reaches one standard deviation to "
                 "both sides (with n − 1 in its denominator). " if several else
                 "One run a point shows no spread: give several with `--seeds`. ")
    return alt, (f"Every dot is a run; {_seeds(points)} a point. {spread_is}Between the points "
                 "nothing was measured.")


def _seeds(points: Points) -> str:
    counts = sorted({len(measured) for measured in points.values()})
    many = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    return f"{many} seed" + ("" if counts == [1] else "s")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return short if float(short := f"{value:g}") == value else repr(value)
    return ", ".join(map(_text, value)) or "none" if isinstance(value, list | tuple) else str(value)


def _measured(value: Any) -> str:
    if pd.isna(value):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _summary(planned: Grid, points: Points, metric: str) -> Table:
    rows = [[*map(_text, point), str(len(runs)),
             spread(fmean(runs), stdev(runs) if len(runs) > 1 else None),
             f"{min(runs):.4g}", f"{max(runs):.4g}"] for point, runs in points.items()]
    heads = [*planned.swept, "runs", "mean ± standard deviation", "smallest", "largest"]
    return Table(f"{metric}, over the runs of each combination", heads, rows)
