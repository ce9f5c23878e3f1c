"""What a notebook shows of the book's evidence; one object a notebook, made in its first cell.

Verdicts are no part of it: the directive ``view`` (`pages`) shows them as they are at the build.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from .checks import UNMADE, Checked, check, drawn, refuses
from .records import Line, Record, arrays, model_file, record, recorded
from .verdicts import count, seed_list
from .views import Table, View, took
from .wording import duration


def origin(*runs: Any, seed: int | Iterable[int] | None = None, seconds: float = 0.0) -> str:
    """Where the numbers of a figure come from: live or recorded, the seeds, the time.

    *runs* are trained estimators (live), records, or sequences of either. Without a trained
    estimator, *seed* (one or several) says that a figure is live, and *seconds* how long it took.

    Examples
    --------
    >>> origin(seed=0)
    'live · seed 0'
    """
    every = [run for one in runs for run in (one if isinstance(one, (tuple, list)) else [one])]
    live = [run for run in every if not isinstance(run, Record)]
    parts = []
    if live or seed is not None:
        seconds += sum(run.history_.seconds for run in live if hasattr(run, "history_"))
        seeds = [run.random_state for run in live] or (
            [seed] if isinstance(seed, int) else seed)
        parts.append(["live", seed_list(seeds), *([duration(seconds)] if seconds else [])])
    records = sorted({run.name: run for run in every if isinstance(run, Record)}.values(),
                     key=lambda record: (record.profile, record.seed))
    profiles = {profile: list(group) for profile, group in groupby(
        records, key=lambda record: record.profile)}
    if len(profiles) > 2:
        parts.append([f"recorded {next(iter(profiles))} and {len(profiles) - 1} more profiles",
                      count(len(records), "run")])
        profiles = {}
    for profile, found in profiles.items():
        parts.append([f"recorded {profile}", seed_list(record.seed for record in found),
                      took(found) + (" per seed on average" if len(found) > 1 else "")])
    return "; ".join(map(" · ".join, parts))


def table(rows: Mapping[str, Mapping[str, ArrayLike]], caption: str, *, digits: int = 3,
          best: Callable[..., str] | None = max,
          live: Callable[[str, str], bool] | None = None) -> View:
    """A table of measured numbers, of several values their mean ± standard deviation.

    *rows* maps names to columns to numbers, one or one per seed; what a row lacks, or is NaN, is a
    dash. The *best* mean of each column (``max``, ``min`` or None) is in bold if it differs from
    each other one by more than the larger of both standard deviations; a single run never is.
    Cells for whose row and column *live* is true are of this run. They begin with ≈, and nbval
    leaves them out; it compares the rest.
    """
    heads = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells: dict[str, list[str]] = {name: [name] for name in rows}
    for column in heads:
        values = {name: np.ravel(row.get(column, [])).astype(float) for name, row in rows.items()}
        means = {name: float(found.mean()) for name, found in values.items()
                 if found.size and np.isfinite(found).all()}
        spreads = {name: found.std(ddof=1) if found.size > 1 else math.inf
                   for name, found in values.items()}
        top = best(means, key=means.get) if best and means else None
        others = [abs(means[name] - means[top]) > max(spreads[name], spreads[top])
                  for name in means if top not in (None, name)]
        for name, found in values.items():
            sd = f" ± {spreads[name]:.{digits}f}" if found.size > 1 else ""
            text = f"{means[name]:z.{digits}f}{sd}".replace("-", "−") if name in means else "–"
            if name in means and live and live(name, column):
                text = f"≈{text}"
            bold = name == top and others and all(others)
            cells[name].append(Markup("<strong>{}</strong>").format(text) if bold else text)
    caption += " (≈: live)" if live else ""
    shown = Table(caption, ["", *map(str, heads)], [*cells.values()], "cb-scores")
    return View(tuple(rows.items()), [shown])


class Page:
    """The evidence of one page: ``evidence = bookledger.page("tell")``.

    It keeps the outcomes of the page's checks, which its record holds. Functions that need no page
    are at hand under their names: `recorded`, `arrays`, `model_file`, `origin`, `table`, `refuses`.
    """

    arrays, model_file, recorded = map(staticmethod, (arrays, model_file, recorded))
    origin, refuses, table = map(staticmethod, (origin, refuses, table))

    def __init__(self, name: str) -> None:
        self.name = name
        self.outcomes: dict[str, bool] = {}     # a check that failed once stays failed

    def check(self, id: str, value: Any, *more: Any) -> Checked:
        """Compare what this run measured with what is expected of it; see `checks.check`."""
        line = check(id, value, *more)
        if not line.startswith(UNMADE):
            self.outcomes[id] = self.outcomes.get(id, True) and bool(line)
        return line

    def say(self, text: str) -> None:
        """Show Markdown that ``clusterbook run`` prints too: what a run of the page is for."""
        from IPython.display import Markdown, display

        display(Markdown(text), metadata={"clusterbook": {"said": text}})

    def drawn(self) -> Checked:
        """Compare what the page's figures draw with what is expected; see `checks.drawn`."""
        return drawn(self.name)

    def record(self, metrics: Any, **about: Any) -> Line:
        """Write a record of this run, its checks among it, if it was asked for one.

        See `records.record`.
        """
        return record(metrics, checks=self.outcomes, **about)


page = Page
