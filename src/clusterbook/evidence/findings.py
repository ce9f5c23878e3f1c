"""What the runs show of a claim, before anything is held against them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .claims import Claim
from .expectations import COMPARE
from .measures import statistic, t_interval
from .records import Record

ENOUGH_SEEDS = 3
"""With fewer seeds nothing counts as reproduced, and nothing as not reproduced."""


@dataclass(frozen=True)
class Run:
    """One record as a claim reads it: the two sides of the comparison, and what selects runs."""

    record: Record
    row: Mapping[str, Any]
    number: float
    other: float | None
    partner: Record | None


@dataclass(frozen=True)
class Finding:
    """The outcome of a comparison."""

    within: bool
    wide: bool  # the interval of the mean is wider than the tolerance
    ours: float | None
    text: str
    needed: int  # seeds


def read_runs(claim: Claim, records: Sequence[Record]) -> tuple[list[Run], int]:
    """The profile's records as the claim reads them, and how many lack what it reads."""
    how = statistic(claim.statistic or "mean")
    profile = [record for record in records if record.profile == claim.profile]
    partners = {record.seed: record for record in records if record.profile == claim.against}
    second = claim.minus if claim.minus is not None else claim.than
    runs, lacking = [], 0
    for record in profile:
        partner = partners.get(record.seed) if claim.against else None
        if claim.against and partner is None:
            continue  # this seed was not run at the other profile
        row = how.row(record.metrics, record.history) or {}
        beside = how.row(partner.metrics, partner.history) or {} if partner else row
        number = row.get(claim.metric)
        other = beside.get(second) if isinstance(second, str) else None
        if number is None or (isinstance(second, str) and other is None):
            lacking += 1
            continue
        runs.append(Run(record, row, number, other, partner))
    return runs, lacking


def find(claim: Claim, runs: Sequence[Run], numbers: Sequence[float]) -> Finding:
    """What the runs show: the source's statistic against its value, or a trend seed by seed."""
    return _trend(claim, runs) if claim.kind == "trend" else _value(claim, runs, numbers)


def _value(claim: Claim, runs: Sequence[Run], numbers: Sequence[float]) -> Finding:
    """Whether a value or difference is within its tolerance."""
    how = statistic(claim.statistic)
    needed = max(ENOUGH_SEEDS, how.seeds)
    if how.name == "standard deviation" and len(runs) < 2:
        return Finding(False, False, None, "one seed has no standard deviation", needed)
    ours = how.of([(run.row, number) for run, number in zip(runs, numbers, strict=True)])
    distance = abs(ours - claim.value)
    # A number at the very edge is within, whatever binary fractions make of the decimals.
    rounding = 1e-12 * abs(claim.value)
    at_edge = math.isclose(distance, claim.tolerance, rel_tol=0, abs_tol=rounding)
    within = distance <= claim.tolerance or at_edge
    name = "mean" if how.name == "single" else how.name
    side = "within" if within else "not within"
    text = f"the {name} is {ours:.4g}, {side} {claim.tolerance} of {claim.value}"
    wide = False
    if how.is_mean and (interval := t_interval(numbers)):
        low, high = interval
        wide = (high - low) / 2 > claim.tolerance
        text = f"{text} (95 % interval {low:.4g} to {high:.4g})"
    return Finding(within, wide, ours, text, needed)


def _trend(claim: Claim, runs: Sequence[Run]) -> Finding:
    """Whether a relation holds in enough seeds."""
    # The two numbers are compared, not their difference with zero: a difference is rounded.
    pairs = [(run.number, claim.than if run.other is None else run.other) for run in runs]
    held = sum(COMPARE[claim.relation](number, bound) for number, bound in pairs)
    share = held / len(runs)
    within = share == 1 if claim.holds_in == "all" else share > 0.5
    text = f"it holds in {held} of {count(len(runs), 'seed')}"
    return Finding(within, False, share, text, ENOUGH_SEEDS)


def count(n: int, noun: str) -> str:
    """A number with its noun: ``1 seed``, ``3 seeds``."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
