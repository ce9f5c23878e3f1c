"""What the sources say, one YAML file for each chapter, validated when it is loaded.

Every claim has ``id`` (beginning with the chapter's name: ``tell-mnist-acc``), ``says`` (the
statement, as a sentence), ``source`` (work, year, table or section), ``seen`` (who read it there:
``paper``, ``repository`` or ``second-hand``; the last needs ``where``, the document that quotes it)
and ``kind``: how it is compared, with these further keys.

================  ==============================================================================
kind              further keys
================  ==============================================================================
value             ``profile``, ``metric``, ``statistic``, ``value``, ``tolerance``, ``why``
difference        the same, and ``minus``: ``metric - minus`` is compared with ``value``
trend             ``profile``, ``metric``, ``relation``, ``than``, ``in``: ``metric relation than``
                  holds in ``all`` or ``most`` of the seeds
exact             ``check``: the expectation that a cell of the chapter settles
source-error      ``check``: demonstrates that what the source states can't hold
================  ==============================================================================

``than`` is a number or a metric; ``relation`` is one of ``<``, ``>``, ``<=``, ``>=`` (in quotes).
``why`` gives the reason for the tolerance. ``against`` names a second profile, from which ``minus``
or ``than`` is read, run by run with the same seed. ``exact`` and ``source-error`` may name a
``profile``; without one, every run of the chapter counts. ``differs`` says how the runs of a value,
difference or trend differ from the source's; such a claim is at most *indicative*.

Any claim may have ``section`` (an anchor in its chapter), and either ``cannot_compare`` (the
reason) or ``not_attempted`` (the reason and what it would cost); with these two, the keys of its
kind may be absent. Verdicts are never written here: they follow from the records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic.dataclasses import dataclass as model

from .. import paths
from ..errors import unknown
from .entries import (
    FIELD,
    STRICT,
    Seen,
    as_number,
    is_number,
    mistake,
    need,
    not_negative,
    read_folder,
)

KINDS = {
    "value": ("profile", "metric", "statistic", "value", "tolerance", "why"),
    "difference": ("profile", "metric", "minus", "statistic", "value", "tolerance", "why"),
    "trend": ("profile", "metric", "relation", "than", "in"),
    "exact": ("check",),
    "source-error": ("check",),
}
"""Each kind of claim, and the keys that it needs."""

_ALSO = {
    "value": {"differs"},
    "difference": {"against", "differs"},
    "trend": {"against", "differs"},
    "exact": {"profile"},
    "source-error": {"profile"},
}
_HINTS = {
    "verdict": "a verdict is not written, it follows from the records; what can't be compared or "
    "was not run says so under 'cannot_compare' or 'not_attempted'",
    "assumed": "settings that the source did not publish stand under 'assumed' in the profile",
}


@model(frozen=True, config=STRICT)
class Claim:
    """What a source states, and how it is compared; the fields are the keys of the YAML file.

    ``holds_in`` is the key ``in``; ``chapter`` is the file's name. What a claim lacks is None.
    """

    id: str
    chapter: str
    says: str
    source: str
    seen: Seen
    kind: Literal["value", "difference", "trend", "exact", "source-error"]
    where: str | None = None
    section: str | None = None
    profile: str | None = None
    against: str | None = None
    statistic: str | None = None
    metric: str | None = None
    minus: str | None = None
    value: int | float | None = None
    tolerance: int | float | None = None
    why: str | None = None
    relation: Literal["<", ">", "<=", ">="] | None = None
    than: int | float | str | None = None
    holds_in: Literal["all", "most"] | None = Field(None, alias="in")
    check: str | None = None
    differs: str | None = None
    cannot_compare: str | None = None
    not_attempted: str | None = None

    _amounts = field_validator("tolerance")(not_negative)

    @field_validator("relation", "than", mode="before")
    @classmethod
    def _as_meant(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse what YAML reads otherwise than it was meant."""
        if info.field_name == "relation" and value == "":
            raise ValueError(
                "relation is empty: YAML reads a bare > as a text block; write it in quotes")
        if info.field_name == "than":
            if advice := as_number(value):
                raise ValueError(f"than must be a number, not {value!r}{advice}")
            is_name = isinstance(value, str) and value.strip()
            if not (is_name or is_number(value) or value is None):
                raise ValueError(f"than must be a number or a metric's name, not {value!r}")
        return value

    @field_validator("statistic")
    @classmethod
    def _is_statistic(cls, name: str | None) -> str | None:
        return name and statistic(name).name

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Claim:
        own = {*KINDS[self.kind], *_ALSO[self.kind]}
        for key in (key for keys in (*KINDS.values(), *_ALSO.values()) for key in keys):
            if key not in own and getattr(self, FIELD.get(key, key)) is not None:
                raise mistake(f"a claim of kind {self.kind!r} has no key {key!r}", key)
        if self.cannot_compare is not None and self.not_attempted is not None:
            raise mistake("either cannot_compare or not_attempted, not both", "not_attempted")
        if self.seen == "second-hand":
            need(self, ["where"], "; second-hand names the document that quotes it")
        if self.tolerance is not None:
            need(self, ["why"], "; a tolerance needs its reason")
        started = self.metric is not None or self.check is not None
        if self.cannot_compare is None and (self.not_attempted is None or started):
            need(self, KINDS[self.kind], f", which a claim of kind {self.kind!r} needs")
        if self.against is not None:
            if self.minus is None and isinstance(self.than, int | float):
                raise mistake("against is another profile's metric, but 'than' is a number",
                              "against")
            if self.statistic is not None and not statistic(self.statistic).is_mean:
                raise mistake("a difference between two profiles is a mean over seeds; "
                              f"{self.statistic!r} would mix the runs that each profile selects",
                              "statistic")
        for key in ("profile", "against"):
            name = getattr(self, key)
            if name is not None and not name.startswith(f"{self.chapter}-"):
                raise mistake(f"{key} must begin with {self.chapter + '-'!r}, not {name!r}", key)
        return self

    @property
    def stated(self) -> str:
        """What is compared, in symbols: ``acc = 0.9516 ± 0.02``; a dash where nothing is."""
        if self.check is not None:
            return self.check
        if self.metric is None:
            return "–"
        other = self.minus if self.minus is not None else self.than
        if self.against is not None:
            other = f"{other} of {self.against}"
        if self.kind == "trend":
            return f"{self.metric} {self.relation} {other} in {self.holds_in} seeds"
        left = self.metric if self.kind == "value" else f"{self.metric} − {other}"
        return f"{left} = {self.value} ± {self.tolerance}"

    @property
    def allowed(self) -> str:
        """What is compared and how far it may be off: ``mean of acc, ± 0.02``; no value in it."""
        return f"{self.statistic} of {self.stated.partition(' = ')[0]}, ± {self.tolerance}"


def load_claims(folder: Path | str | None = None) -> list[Claim]:
    """Every claim of a folder (default: the book's), by file and line.

    Raises InputError, beginning with the file and the line, for a claim that is not valid.
    """
    folder = Path(folder) if folder is not None else paths.root() / "data" / "claims"
    return [entry.read(Claim, _HINTS, chapter=entry.chapter)
            for entry in read_folder(folder, "claim")]


SELECTORS: dict[str, tuple[str, Callable]] = {
    "loss": ("loss", min),
    "silhouette": ("silhouette", max),
    "labels": ("acc", max),     # selection on ground truth: only where the source did
}
"""Selector → the metric (or history column) that it reads, and which end of it is the better."""

_OVER_SEEDS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "single": fmean,
    "median": median,
    "minimum": min,
    "maximum": max,
    "standard deviation": stdev,
}
_NAMES = [*_OVER_SEEDS, *(f"best {of} by {by}" for of in ("of N", "epoch") for by in SELECTORS)]


@dataclass(frozen=True)
class Statistic:
    """One way to turn runs into the number that a source reports: like is compared with like.

    =========================  ================================================================
    name                       what is computed of our runs (one per seed)
    =========================  ================================================================
    mean                       the mean over seeds
    single                     the source made one run; the mean over ours stands for it
    median, minimum, maximum   over seeds
    standard deviation         over seeds, with n - 1
    best of N by SELECTOR      of the N lowest seeds, the run that the selector prefers
    best epoch by SELECTOR     the mean over seeds of each run's epoch that the selector prefers
    =========================  ================================================================

    Attributes
    ----------
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
    def over_seeds(compute: Callable) -> Callable:
        return lambda runs: compute([number for _, number in runs])

    if name in _OVER_SEEDS:
        compute = _OVER_SEEDS[name]
        return Statistic(name, 2 if compute is stdev else 1, over_seeds(compute),
                         lambda metrics, history: metrics, compute is fmean)
    found = re.fullmatch(r"best (?:of (\d+)|epoch) by (\w+)", name)
    if found and found[2] in SELECTORS:
        column, better = SELECTORS[found[2]]

        def best_epoch(metrics: Mapping, history: Sequence[Mapping]) -> Mapping | None:
            epochs = [epoch for epoch in history if column in epoch]
            return better(epochs, key=lambda epoch: epoch[column], default=None)

        if found[1] is None:
            return Statistic(name, 1, over_seeds(fmean), best_epoch, True)
        if (n := int(found[1])) >= 2:
            return Statistic(
                name, n, lambda runs: better(runs[:n], key=lambda run: run[0][column])[1],
                lambda metrics, history: metrics if column in metrics else None, False)
    raise unknown("statistic", name, _NAMES)
