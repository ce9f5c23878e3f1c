"""What came of a sweep: a table, a figure a metric, and a page over both."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from urllib.parse import quote

import numpy as np

from .. import evidence, figures
from ..errors import InputError
from ..evidence.records import Record
from ..evidence.views import duration, spread
from ..figures.showing import LIST, save
from ..paths import write_atomically
from . import parameters, sheet
from .grid import Grid

_MAIN = ("acc", "nmi", "ari")
_TITLES = {
    "acc": "accuracy (ACC)", "nmi": "normalized mutual information (NMI)",
    "ari": "adjusted Rand index (ARI)", "ami": "adjusted mutual information (AMI)",
}  # fmt: skip


def write(output: Path, planned: Grid, found: Mapping[str, Record], failed: Mapping[str, str],
          metrics: Sequence[str], command: Sequence[str]) -> list[str]:
    """Write ``sweep.csv``, a figure a metric, and ``index.html``.

    Parameters
    ----------
    output : Path
        The folder.
    planned : Grid
        The runs.
    found, failed : mapping
        Name of a run → its record, or its error.
    metrics : sequence of str
        What is drawn; by default `main_metric`.
    command : sequence of str
        The words of the command, for the page.

    Returns
    -------
    list of str
        What was written, a line each.
    """
    write_atomically(output / "sweep.csv", table(planned, found, failed).encode())
    said = [f"table: {output / 'sweep.csv'}"]
    records = [found[run.name] for run in planned.runs if run.name in found]
    metrics = list(metrics) or [main_metric(record) for record in records[:1]]
    (output / LIST).unlink(missing_ok=True)
    tables = []
    for metric in metrics:
        if not any(metric in record.metrics for record in records):
            continue
        name = re.sub(r"[^\w-]+", "-", metric)
        points = _points(planned, found, metric)
        save(_figure(planned, points, metric), output, name, *_told(planned, points, metric))
        said.append(f"figure: {output / name}.png and .svg")
        tables.append(_summary_table(planned, points, metric))
    tables.append(_run_table(output, planned, found, failed, metrics))
    settings = sheet.settings(planned.chapter, _settings(planned))
    if failed:
        settings = (f"<p><strong>{len(failed)} of {len(planned.runs)} runs failed.</strong> The "
                    f"last table has their errors.</p>\n{settings}")
    title = sheet.title_of(parameters.notebook_path(planned.chapter))
    page = sheet.write(
        output, title=f"{title}: a sweep of {' and '.join(planned.swept)}", command=command,
        settings=settings, parts={"": output},
        tables="\n".join(tables))
    return [*said, f"contact sheet: {page}"]


def main_metric(record: Record) -> str:
    """A chapter's main metric: agreement with the labels, else what its first claim is about."""
    claimed = [claim.metric for claim in evidence.load_claims() if claim.chapter == record.chapter]
    for metric in (*_MAIN, *claimed, *record.metrics):
        if metric in record.metrics:
            return metric
    raise InputError(f"the records of {record.chapter} have no metrics; there is nothing to draw")


def table(planned: Grid, found: Mapping[str, Record], failed: Mapping[str, str]) -> str:
    """A row a run: what was asked for, how long it took, everything that was measured."""
    measured = sorted({metric for record in found.values() for metric in record.metrics})
    asked = [*planned.given, *(["seed"] if planned.seeds else [])]
    own = ["run", *asked, "seconds", "error"]
    # A metric of the same name as a parameter is told from it.
    heads = [*own, *(f"{metric} (metric)" if metric in own else metric for metric in measured)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    for run in planned.runs:
        record = found.get(run.name)
        writer.writerow([
            run.name, *(run.values[name] for name in asked), record.seconds if record else "",
            failed.get(run.name, ""),
            *((record.metrics.get(metric, "") if record else "") for metric in measured)])
    return text.getvalue()


# --- figures -----------------------------------------------------------------------------------


def _points(planned: Grid, found: Mapping[str, Record], metric: str
            ) -> dict[tuple[Any, ...], list[float]]:
    """A combination of swept values → the metric in its runs; those without any are left out."""
    points = {}
    for point in planned.points():
        records = [found[run.name] for run in planned.runs
                   if run.name in found and planned.point(run) == point]
        values = [record.metrics[metric] for record in records if metric in record.metrics]
        if values:
            points[_hashable(point)] = values
    return points


def _hashable(point: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in point)


def _figure(planned: Grid, points: Mapping[tuple[Any, ...], list[float]], metric: str):
    first, *second = planned.swept
    scale = axis_scale(planned.given[first])
    in_order = sorted(points, key=lambda point: point[0]) if scale in ("linear", "log") else points
    lines: dict[str, list] = {}
    for point in in_order:
        runs = points[point]
        line = _text(point[1]) if second else ""
        place = point[0] if scale in ("linear", "log") else _text(point[0])
        deviation = stdev(runs) if len(runs) > 1 else None
        lines.setdefault(line, []).append((place, runs, fmean(runs), deviation))
    if second:                                          # in the order in which they were typed
        asked = map(_text, planned.given[second[0]])
        lines = {line: lines[line] for line in asked if line in lines}
    return figures.response(
        lines, x=_meaning(planned, first), y=_TITLES.get(metric, metric), scale=scale,
        seeds=_seeds(points), lines_are=_meaning(planned, second[0]) if second else "")


def axis_scale(values: Sequence[Any]) -> str:
    """How a parameter's values lie on an axis; see `clusterbook.figures.response`.

    Numbers that span a decade lie on a logarithmic axis if that spaces them at least as evenly.
    Where one of them is 0 they stand in equal steps, because no logarithm takes it.

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
    spans = len(positive) > 1 and positive[-1] >= 10 * positive[0] and (
        _unevenness(np.log(positive)) <= _unevenness(positive))
    if not spans or numbers[0] < 0:
        return "linear"
    return "log" if len(positive) == len(numbers) else "steps"


def _unevenness(places: np.ndarray) -> float:
    gaps = np.diff(places)
    return round(float(gaps.std() / gaps.mean()), 6)


def _told(planned: Grid, points: Mapping[tuple[Any, ...], list[float]], metric: str
          ) -> tuple[str, str]:
    """Text and caption of a figure."""
    first, *second = planned.swept
    values = ", ".join(_text(value) for value in planned.given[first])
    each = f", a line for each {second[0]}" if second else ""
    alt = (f"The metric {metric} against the parameter {first}, at {values}{each}; the table below "
           "has the numbers.")
    several = any(len(runs) > 1 for runs in points.values())
    what = (f"Every dot is a run; {_seeds(points)} a point. "
            + ("The line is their mean, and the band or bar reaches one standard deviation to "
               "both sides (with n − 1 in its denominator). " if several else
               "One run a point shows no spread: give several with `--seeds`. "))
    return alt, what + "Between the points nothing was measured."


def _seeds(points: Mapping[tuple[Any, ...], list[float]]) -> str:
    counts = sorted({len(runs) for runs in points.values()})
    many = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    return f"{many} seed" + ("" if counts == [1] else "s")


def _meaning(planned: Grid, name: str) -> str:
    meaning = parameters.read(planned.chapter)[name].meaning
    return textwrap.fill(f"{name}: {meaning}", 76)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return short if float(short := f"{value:g}") == value else repr(value)
    return ", ".join(map(_text, value)) or "none" if isinstance(value, list | tuple) else str(value)


# --- the page ----------------------------------------------------------------------------------


def _settings(planned: Grid) -> dict[str, Any]:
    shown = {name: sheet.Several(values) if len(values) > 1 else values[0]
             for name, values in planned.given.items()}
    seeds = planned.seeds
    if seeds:
        shown["seed"] = sheet.Several(seeds) if len(seeds) > 1 else seeds[0]
    return {name: shown.get(name, value) for name, value in planned.runs[0].values.items()}


def _summary_table(planned: Grid, points: Mapping[tuple[Any, ...], list[float]], metric: str
                   ) -> str:
    rows = [[*map(_text, point), str(len(runs)),
             spread(fmean(runs), stdev(runs) if len(runs) > 1 else None),
             f"{min(runs):.4g}", f"{max(runs):.4g}"] for point, runs in points.items()]
    heads = [*planned.swept, "runs", "mean ± standard deviation", "smallest", "largest"]
    return sheet.table(f"{metric}, over the runs of each combination", heads, rows)


def _run_table(output: Path, planned: Grid, found: Mapping[str, Record],
               failed: Mapping[str, str], metrics: Sequence[str]) -> str:
    rows, links = [], {}
    for run in planned.runs:
        record = found.get(run.name)
        seed = [str(run.values["seed"])] if planned.seeds else []
        measured = [f"{record.metrics[metric]:.4g}" if record and metric in record.metrics else "–"
                    for metric in metrics]
        rows.append([run.name, *(_text(value) for value in planned.point(run)), *seed, *measured,
                     duration(record.seconds) if record else "–", _checks(record),
                     failed.get(run.name, "")])
        if record:
            links[run.name] = quote(f"runs/{run.name}/{record.name}.json")
    heads = ["run", *planned.swept, *(["seed"] if planned.seeds else []), *metrics, "time",
             "failed checks", "error"]
    if not failed:
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    return ("<p>All that was measured is in <a href=\"sweep.csv\">sweep.csv</a>; a run's record is "
            "behind its name.</p>" + sheet.table("Every run", heads, rows, links=links))


def _checks(record: Record | None) -> str:
    if record is None or not record.checks:
        return "–"
    return f"{sum(not held for held in record.checks.values())} of {len(record.checks)}"
