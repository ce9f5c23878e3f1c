"""The statistics that sources report, computed of our runs the same way.

A source's number is rarely "the mean": it is one run, or the best of five by loss, or the best
epoch by labels. The verdict compares like with like, so each of these is a function here.

=========================  ====================================================================
statistic                  what is computed of our runs (one per seed)
=========================  ====================================================================
mean                       the mean over seeds
single                     the source made one run; the mean over ours stands for it
median, minimum, maximum   over seeds
standard deviation         over seeds, with n - 1
best of N by SELECTOR      of the N lowest seeds, the run that the selector prefers
best epoch by SELECTOR     in each run the epoch that the selector prefers; then the mean over seeds
=========================  ====================================================================

Selectors read the metric (or history column) of the run: ``loss`` the smallest ``loss``,
``silhouette`` the largest ``silhouette``, ``labels`` the largest ``acc``: selection on ground
truth, used only where the source did.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any

from ..errors import unknown

SELECTORS: dict[str, tuple[str, Callable]] = {
    "loss": ("loss", min),
    "silhouette": ("silhouette", max),
    "labels": ("acc", max),
}
"""Selector → the metric that it reads, and which end of it is the better one."""

_OVER_SEEDS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "single": fmean,
    "median": median,
    "minimum": min,
    "maximum": max,
    "standard deviation": stdev,
}


@dataclass(frozen=True)
class Statistic:
    """One way to turn runs into the number that a source reports.

    Attributes
    ----------
    name : str
        The words of the claim, such as ``"best of 5 by loss"``.
    seeds : int
        How many seeds it takes; with fewer it is not the source's statistic.
    of : callable
        Maps the list of ``(metrics of the run, its number)``, ordered by seed, to a float.
    row : callable
        Maps a run's metrics and history to the numbers to read; None when the run lacks them.
    is_mean : bool
        Whether it is a mean over seeds, so that the t-interval of the mean applies.
    """

    name: str
    seeds: int
    of: Callable[[Sequence[tuple[Mapping[str, float], float]]], float]
    row: Callable[[Mapping[str, float], Sequence[Mapping[str, Any]]], Mapping[str, Any] | None]
    is_mean: bool


def names() -> list[str]:
    """The words that a claim's ``statistic`` may be; N is a number of at least 2."""
    best = [f"best {of} by {by}" for of in ("of N", "epoch") for by in SELECTORS]
    return [*_OVER_SEEDS, *best]


def statistic(name: str) -> Statistic:
    """The statistic of that name.

    Raises
    ------
    InputError
        When there is none; the nearest is named.

    Examples
    --------
    >>> best = statistic("best of 2 by loss")
    >>> best.of([({"loss": 0.3}, 0.81), ({"loss": 0.1}, 0.95), ({"loss": 0.0}, 0.99)])
    0.95
    """
    if name in _OVER_SEEDS:
        over = _OVER_SEEDS[name]
        is_mean = over is fmean
        at_least = 2 if over is stdev else 1
        return Statistic(name, at_least, lambda runs: over(_numbers(runs)), _metrics, is_mean)
    found = re.fullmatch(r"best (?:of (\d+)|epoch) by (\w+)", str(name))
    if found and found[2] in SELECTORS:
        column, better = SELECTORS[found[2]]
        if found[1] is None:
            row = _best_epoch(column, better)
            return Statistic(name, 1, lambda runs: fmean(_numbers(runs)), row, True)
        if (count := int(found[1])) >= 2:
            of = _best_run(count, column, better)
            return Statistic(name, count, of, _with_column(column), False)
    raise unknown("statistic", name, names())


def t_interval(numbers: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """Student's t-interval of the mean of independent numbers; None for fewer than two.

    Examples
    --------
    >>> low, high = t_interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    if len(numbers) < 2:
        return None
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    n = len(numbers)
    half = float(stdtrit(n - 1, (1 + level) / 2)) * stdev(numbers) / math.sqrt(n)
    return fmean(numbers) - half, fmean(numbers) + half


def spread(mean: float, sd: float | None) -> str:
    """Mean ± standard deviation, both with as many decimals as the deviation's two digits need.

    Examples
    --------
    >>> spread(10.0243, 0.0171)
    '10.024 ± 0.017'
    """
    if not sd:
        return f"{mean:.4g}" + ("" if sd is None else " ± 0")
    decimals = min(max(1 - math.floor(math.log10(sd)), 0), 6)
    return f"{mean:.{decimals}f} ± {sd:.{decimals}f}"


def _numbers(runs: Sequence[tuple[Mapping[str, float], float]]) -> list[float]:
    return [number for _, number in runs]


def _metrics(metrics: Mapping, history: Sequence[Mapping]) -> Mapping:
    return metrics


def _with_column(column: str) -> Callable:
    return lambda metrics, history: metrics if column in metrics else None


def _best_epoch(column: str, better: Callable) -> Callable:
    def row(metrics: Mapping, history: Sequence[Mapping]) -> Mapping | None:
        epochs = [epoch for epoch in history if column in epoch]
        return better(epochs, key=lambda epoch: epoch[column]) if epochs else None

    return row


def _best_run(count: int, column: str, better: Callable) -> Callable:
    return lambda runs: better(runs[:count], key=lambda run: run[0][column])[1]
