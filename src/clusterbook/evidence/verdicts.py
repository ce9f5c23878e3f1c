"""Claims against records: one verdict each, from a closed list of words.

==================  ============================================================================
verdict             when
==================  ============================================================================
reproduced          at least three seeds (for a best of N: at least N), within the tolerance
confirmed           an exact statement that a check shows to hold
indicative          within the tolerance, but with fewer seeds, assumed or other settings than
                    the source's, code that is in no commit, or a tolerance (or a quantity
                    compared) that the profile's first record does not hold
inconclusive        outside the tolerance, with fewer seeds, or for a mean with a 95 % interval
                    whose half width exceeds the tolerance
not reproduced      outside the tolerance with enough seeds, or a check that fails
refuted             what the source states can't hold, as a check demonstrates
cannot compare      the claim says why
not attempted       no run measured it; the claim says why and what it would cost
==================  ============================================================================

A trend is within the tolerance when it holds in all, or most, of the seeds. A verdict whose
records were made by other code than the present one, or from data with another content than the
data set of that name has now, keeps its word and is marked stale; other code that was shown to
compute the same (`load_lineage`) counts as the present one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pydantic import ValidationInfo, field_validator
from pydantic.dataclasses import dataclass as model

from .. import datasets, paths
from ..errors import InputError, unknown
from ..fingerprint import fingerprint
from .checks import COMPARE
from .claims import Claim, statistic
from .entries import STRICT, did_you_mean, read_file
from .records import Record

WORDS = (
    "reproduced",
    "confirmed",
    "indicative",
    "inconclusive",
    "not reproduced",
    "refuted",
    "cannot compare",
    "not attempted",
)
"""The vocabulary, in the order in which counts are given."""


@dataclass(frozen=True)
class Verdict:
    """What the records say about a claim.

    ``word`` is one of `WORDS`, ``reason`` a sentence. ``ours`` is the source's statistic of our
    runs, or for a trend the share of seeds in which it holds; ``mean``, ``sd`` and ``interval``
    (the 95 % t-interval of the mean) are of the compared quantity over ``n`` seeds (for a check,
    ``n`` runs). ``stale`` says whether a record was made by other code, or from other data, than
    the present ones; ``records`` names those that were compared.
    """

    word: str
    reason: str
    ours: float | None = None
    mean: float | None = None
    sd: float | None = None
    n: int = 0
    interval: tuple[float, float] | None = None
    stale: bool = False
    records: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a word outside the vocabulary."""
        if self.word not in WORDS:
            raise unknown("verdict", self.word, WORDS)

    @property
    def label(self) -> str:
        """The word, with ``(stale)`` behind it where the code or the data have changed since."""
        return f"{self.word} (stale)" if self.stale else self.word


def judge(
    claim: Claim,
    records: Iterable[Record],
    *,
    fingerprints: Mapping[str, str] | None = None,
    contents: Mapping[str, str] | None = None,
    lineage: Lineage | None = None,
) -> Verdict:
    """The verdict on a claim, by those of the records that are of its chapter and profile.

    A record is stale when its code is neither the chapter's in *fingerprints* nor leads to it by
    *lineage*, or its data differ from those of that name in *contents* (data that are not named
    there make nothing stale). By default all three are the book's present ones.
    """
    if claim.cannot_compare is not None:
        return Verdict("cannot compare", claim.cannot_compare)
    ours = [record for record in records if record.chapter == claim.chapter]
    ours.sort(key=lambda record: (record.profile, record.seed))
    if fingerprints is None:
        fingerprints = present_code([claim.chapter]) if ours else {}
    if contents is None:
        contents = present_data()
    stale = partial(is_stale, fingerprints=fingerprints, contents=contents, lineage=lineage)
    if claim.check is not None:
        return _demonstrated(claim, ours, stale)
    runs, lacking = read_runs(claim, ours)
    if not runs:
        return _nothing(claim, ours)

    n = len({run.record.seed for run in runs})
    numbers = [run.number if run.other is None else run.number - run.other for run in runs]
    used = [run.record for run in runs] + [run.partner for run in runs if run.partner]
    found = find(claim, runs, numbers)
    caveats = _caveats(claim, ours, used)
    if found.within:
        word = "reproduced" if n >= found.needed and not caveats else "indicative"
    else:
        word = "not reproduced" if n >= found.needed and not found.wide else "inconclusive"
    if n < found.needed:
        caveats = [f"{count(n, 'seed')} instead of at least {found.needed}", *caveats]
    elif found.wide and not found.within:
        caveats = ["half the 95 % interval is more than the tolerance", *caveats]
    if lacking:
        caveats.append(f"{count(lacking, 'run')} of this profile did not measure it")
    shown = numbers if claim.kind != "trend" else [run.number for run in runs]
    return Verdict(
        word,
        _sentence(found.text, caveats),
        ours=found.ours,
        mean=fmean(shown),
        sd=stdev(shown) if len(shown) > 1 else None,
        n=n,
        interval=t_interval(shown),
        stale=any(map(stale, used)),
        records=tuple(dict.fromkeys(record.name for record in used)),
    )


def _demonstrated(
    claim: Claim, records: Sequence[Record], is_stale: Callable[[Record], bool]
) -> Verdict:
    """The verdict on what a check of the chapter settles."""
    checked = [
        record
        for record in records
        if claim.check in record.checks and claim.profile in (None, record.profile)
    ]
    if not checked:
        return _nothing(claim, records)
    fresh = [record for record in checked if not is_stale(record)]
    used = fresh or checked
    failed = [record.name for record in used if not record.checks[claim.check]]
    holds = not failed
    runs = count(len(used), "run")
    if holds:
        word = "refuted" if claim.kind == "source-error" else "confirmed"
        finding = f"the check {claim.check} holds in {runs}"
    else:
        word = "not reproduced"
        finding = f"the check {claim.check} fails in {len(failed)} of {runs}, such as {failed[0]}"
    return Verdict(
        word,
        _sentence(finding, _uncommitted(used)),
        n=len(used),
        stale=not fresh,
        records=tuple(record.name for record in used),
    )


def _nothing(claim: Claim, records: Sequence[Record]) -> Verdict:
    """The verdict where no run measured it."""
    if claim.not_attempted is not None:
        return Verdict("not attempted", claim.not_attempted)
    profiles = [name for name in (claim.profile, claim.against) if name is not None]
    wanting = [name for name in profiles if all(record.profile != name for record in records)]
    what = claim.check or claim.metric
    if wanting:
        reason = f"no run is recorded at the profile {wanting[0]}"
    elif claim.profile is None and not records:
        reason = f"no run of the chapter {claim.chapter} is recorded"
    else:
        at = f"of the profile {claim.profile}" if claim.profile else f"of {claim.chapter}"
        reason = f"no recorded run {at} has what the claim compares ({what})"
    return Verdict("not attempted", _sentence(reason, []))


def _caveats(claim: Claim, records: Sequence[Record], used: Sequence[Record]) -> list[str]:
    """What keeps a result within tolerance from being called reproduced."""
    found = []
    if assumed := sorted({name for record in used for name in record.assumed}):
        found.append(f"the source does not give {', '.join(assumed)}")
    if claim.differs is not None:
        found.append(f"other than in the source: {claim.differs}")
    found += _uncommitted(used)
    if claim.tolerance is not None:
        profile = [record for record in records if record.profile == claim.profile]
        first = min(profile, key=lambda record: datetime.fromisoformat(record.started))
        held = first.tolerances.get(claim.id)
        if held != (claim.allowed if isinstance(held, str) else claim.tolerance):
            was = "none" if held is None else str(held)
            found.append(f"the tolerance is younger than the first record, which holds {was}")
    return found


def _uncommitted(records: Sequence[Record]) -> list[str]:
    if any(record.git["commit"] is None for record in records):
        return ["the code of a run is in no commit"]
    if not all(record.git["clean"] for record in records):
        return ["the code of a run differs from its commit"]
    return []


def is_stale(
    record: Record, fingerprints: Mapping[str, str], contents: Mapping[str, str],
    lineage: Lineage | None = None,
) -> bool:
    """Whether a record's code or data are no longer the present ones; see `judge`."""
    lineage = load_lineage() if lineage is None else lineage
    if not leads(lineage, record.chapter, record.code, fingerprints.get(record.chapter)):
        return True
    known = contents.get(record.data["name"]) if record.data else None
    return known is not None and known != record.data["sha256"]


def present_code(chapters: Iterable[str], package: Path | None = None) -> dict[str, str]:
    """The fingerprint of each chapter's present code; a chapter without a module is left out."""
    found = {}
    for chapter in sorted(set(chapters)):
        try:
            found[chapter] = fingerprint(chapter, package=package)
        except InputError:
            continue
    return found


def present_data() -> dict[str, str]:
    """The content of each data set as the table has it; one whose content is unknown is left out.

    Examples
    --------
    >>> sorted(present_data())[:2]
    ['allaml', 'breast_cancer']
    """
    return {source.name: source.content for source in datasets.catalog() if source.content}


def _sentence(finding: str, caveats: Sequence[str]) -> str:
    text = "; ".join([finding, *caveats])
    return f"{text[0].upper()}{text[1:]}."


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


def count(n: int, noun: str) -> str:
    """A number with its noun: ``1 seed``, ``3 seeds``."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


Lineage = Mapping[tuple[str, str], str]
"""(chapter, hash) to the hash of the code that replaced it."""


@model(frozen=True, config=STRICT)
class Replacement:
    """Code that was changed without changing what it computes: an entry of ``data/lineage.yaml``.

    ``old`` and ``new`` are its hashes, ``says`` how it was shown: ``python tests/golden OLD NEW
    --lineage`` shows it and prints the entry. Records, which keep the old hash, are never edited.
    """

    chapter: str
    old: str
    new: str
    commit: str
    says: str

    @field_validator("old", "new", "commit")
    @classmethod
    def _is_hash(cls, value: str, info: ValidationInfo) -> str:
        digits = 40 if info.field_name == "commit" else 64
        if not re.fullmatch(rf"[0-9a-f]{{{digits}}}", value):
            raise ValueError(
                f"{info.field_name} must be a hash of {digits} hexadecimal digits, not {value!r}")
        return value


def load_lineage(path: Path | None = None) -> Lineage:
    """Every replacement in a file, by default the book's; none where there is no such file.

    Raises InputError, beginning with the file and the line, for an entry that is not valid: about
    an unknown chapter, duplicate, or leading back to where it begins.
    """
    known = tuple(paths.chapters()) if path is None else None   # an old file may have had others
    path = paths.root() / "data" / "lineage.yaml" if path is None else path
    return _read(path, path.stat().st_mtime_ns, known) if path.is_file() else {}


def leads(lineage: Lineage, chapter: str, old: str, new: str | None) -> bool:
    """Whether *old* is *new*, or was replaced by it, directly or through others."""
    code: str | None = old
    while code is not None and code != new:
        code = lineage.get((chapter, code))
    return code is not None


@cache
def _read(path: Path, _changed: int, known: tuple[str, ...] | None) -> Lineage:
    found: dict[tuple[str, str], str] = {}
    for entry in read_file(path, "replacement"):
        read = entry.read(Replacement)
        if known is not None and read.chapter not in known:
            text = f"chapter can't be {read.chapter!r}"
            raise entry.error(did_you_mean(text, read.chapter, known), "chapter")
        if (read.chapter, read.old) in found:
            raise entry.error("this code was replaced already by an entry above", "old")
        if leads(found, read.chapter, read.new, read.old):
            raise entry.error("this leads back to the code that it replaces", "new")
        found[read.chapter, read.old] = read.new
    return found
