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
refuted             a statement of the source that can't hold, as a check demonstrates
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
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Literal, get_args

from pydantic import Field
from pydantic.dataclasses import dataclass as model

from .. import datasets, paths
from ..errors import InputError
from ..fingerprint import fingerprint
from .checks import COMPARE
from .claims import STRICT, Claim, read_file, statistic
from .records import Record

Word = Literal["reproduced", "confirmed", "indicative", "inconclusive", "not reproduced",
               "refuted", "cannot compare", "not attempted"]
WORDS: tuple[Word, ...] = get_args(Word)
"""The vocabulary, in the order in which counts are given."""
ENOUGH_SEEDS = 3
"""With fewer seeds nothing counts as reproduced, and nothing as not reproduced."""


@dataclass(frozen=True)
class Verdict:
    """The answer of the records to a claim.

    ``word`` is one of `WORDS`, ``reason`` a sentence. ``ours`` is the source's statistic of our
    runs, or for a trend the share of seeds in which it holds; ``mean``, ``sd`` and ``interval``
    (the 95 % t-interval of the mean) are of the compared quantity over ``n`` seeds (for a check,
    ``n`` runs). ``stale`` says whether a record was made by other code, or from other data, than
    the present ones; ``records`` names those that were compared.
    """

    word: Word
    reason: str
    ours: float | None = None
    mean: float | None = None
    sd: float | None = None
    n: int = 0
    interval: tuple[float, float] | None = None
    stale: bool = False
    records: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The word, with ``(stale)`` behind it where the code or the data have changed since."""
        return f"{self.word} (stale)" if self.stale else self.word


@dataclass(frozen=True)
class Finding:
    """The outcome of comparing a claim with records, before it is put in a word."""

    within: bool                        # within the tolerance; the relation or the check holds
    text: str
    used: Sequence[Record]
    caveats: Sequence[str]              # each keeps it from being reproduced
    n: int                              # seeds; runs of a check
    needed: int = 1                     # of them
    wide: bool = False                  # the interval of the mean is wider than the tolerance
    lacking: int = 0                    # runs that did not measure it
    ours: float | None = None
    numbers: Sequence[float] = ()       # the compared quantity, by seed


def judge(claim: Claim, records: Iterable[Record], *, lineage: Lineage | None = None,
          fingerprints: Mapping[str, str] | None = None,
          contents: Mapping[str, str] | None = None) -> Verdict:
    """The verdict on a claim, by those of the records that are of its chapter and profile.

    A record is stale when its code is neither the chapter's in *fingerprints* nor leads to it by
    *lineage*, or its data differ from those of that name in *contents* (data that are not named
    there make nothing stale). By default all three are the book's present ones.
    """
    if claim.cannot_compare is not None:
        return Verdict("cannot compare", claim.cannot_compare)
    ours = sorted((record for record in records if record.chapter == claim.chapter),
                  key=lambda record: (record.profile, record.seed))
    if fingerprints is None:
        fingerprints = present_code([claim.chapter]) if ours else {}
    contents = present_data() if contents is None else contents
    lineage = load_lineage() if lineage is None else lineage
    stale = {record.name for record in ours if is_stale(record, fingerprints, contents, lineage)}
    found = _compare_runs(claim, ours) if claim.check is None else _read_check(claim, ours, stale)
    if found is None:
        return Verdict("not attempted", claim.not_attempted or _missing(claim, ours))
    return Verdict(
        _word(claim.kind, found), _reason(found), ours=found.ours, n=found.n,
        mean=fmean(found.numbers) if found.numbers else None,
        sd=stdev(found.numbers) if len(found.numbers) > 1 else None,
        interval=t_interval(found.numbers),
        stale=any(record.name in stale for record in found.used),
        records=tuple(record.name for record in found.used))


def _word(kind: str, found: Finding) -> Word:
    """The first word of the vocabulary whose rule applies."""
    by_check = kind in ("exact", "source-error")
    if not by_check and found.within and found.n >= found.needed and not found.caveats:
        return "reproduced"
    if kind == "exact" and found.within:
        return "confirmed"
    if not by_check and found.within:
        return "indicative"
    if not found.within and (found.n < found.needed or found.wide):
        return "inconclusive"
    if not found.within:
        return "not reproduced"
    return "refuted"


def _reason(found: Finding) -> str:
    parts = [found.text]
    if found.n < found.needed:
        parts.append(f"{count(found.n, 'seed')} instead of at least {found.needed}")
    elif found.wide and not found.within:
        parts.append("half the 95 % interval is more than the tolerance")
    parts += found.caveats
    if found.lacking:
        parts.append(f"{count(found.lacking, 'run')} of this profile did not measure it")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _compare_runs(claim: Claim, ours: Sequence[Record]) -> Finding | None:
    """The runs of the claim's profile against its value, difference or trend."""
    how = statistic(claim.statistic or "mean")
    profile = [record for record in ours if record.profile == claim.profile]
    second = claim.minus if claim.minus is not None else claim.than
    used, rows, pairs = [], [], []
    for record in profile:
        row = how.row(record.metrics, record.history) or {}
        other = row.get(second) if isinstance(second, str) else second
        if row.get(claim.metric) is None or (other is None and second is not None):
            continue
        used.append(record)
        rows.append(row)
        pairs.append((row[claim.metric], other))
    if not used:
        return None
    compared = {"used": used, "n": len(used), "lacking": len(profile) - len(used),
                "caveats": _caveats(claim, profile, used)}

    if claim.kind == "trend":
        # The two numbers are compared, not their difference with zero: a difference is rounded.
        held = sum(COMPARE[claim.relation](*pair) for pair in pairs)
        share = held / len(pairs)
        return Finding(share == 1 if claim.holds_in == "all" else share > 0.5,
                       f"it holds in {held} of {count(len(pairs), 'seed')}", ours=share,
                       needed=ENOUGH_SEEDS, numbers=[number for number, _ in pairs], **compared)

    numbers = [number if other is None else number - other for number, other in pairs]
    compared |= {"needed": max(ENOUGH_SEEDS, how.seeds), "numbers": numbers}
    if how.name == "standard deviation" and len(numbers) < 2:
        return Finding(False, "one seed has no standard deviation", **compared)
    result = how.of(list(zip(rows, numbers, strict=True)))
    distance = abs(result - claim.value)
    # A number at the very edge is within, whatever binary fractions make of the decimals.
    within = distance <= claim.tolerance or math.isclose(
        distance, claim.tolerance, rel_tol=0, abs_tol=1e-12 * abs(claim.value))
    text = (f"the {'mean' if how.name == 'single' else how.name} is {result:.4g}, "
            f"{'within' if within else 'not within'} {claim.tolerance} of {claim.value}")
    wide = False
    if how.is_mean and (interval := t_interval(numbers)):
        low, high = interval
        wide = (high - low) / 2 > claim.tolerance
        text = f"{text} (95 % interval {low:.4g} to {high:.4g})"
    return Finding(within, text, ours=result, wide=wide, **compared)


def _read_check(claim: Claim, ours: Sequence[Record], stale: set[str]) -> Finding | None:
    """The outcomes of the claim's check in the runs; stale ones only where no fresh one is."""
    checked = [record for record in ours
               if claim.check in record.checks and claim.profile in (None, record.profile)]
    if not checked:
        return None
    used = [record for record in checked if record.name not in stale] or checked
    failed = [record.name for record in used if not record.checks[claim.check]]
    outcome = f"holds in {count(len(used), 'run')}"
    if failed:
        outcome = f"fails in {len(failed)} of {count(len(used), 'run')}, such as {failed[0]}"
    return Finding(not failed, f"the check {claim.check} {outcome}", used, _uncommitted(used),
                   len(used))


def _missing(claim: Claim, ours: Sequence[Record]) -> str:
    """Why nothing was compared."""
    if claim.profile is None and not ours:
        return f"No run of the chapter {claim.chapter} is recorded."
    if claim.profile is not None and all(record.profile != claim.profile for record in ours):
        return f"No run is recorded at the profile {claim.profile}."
    at = f"of the profile {claim.profile}" if claim.profile else f"of {claim.chapter}"
    return f"No recorded run {at} has what the claim compares ({claim.check or claim.metric})."


def _caveats(claim: Claim, profile: Sequence[Record], used: Sequence[Record]) -> list[str]:
    """Reasons why a result within tolerance is not reproduced."""
    found = []
    if assumed := sorted({name for record in used for name in record.assumed}):
        found.append(f"the source does not give {', '.join(assumed)}")
    if claim.differs is not None:
        found.append(f"other than in the source: {claim.differs}")
    found += _uncommitted(used)
    if claim.tolerance is not None:
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


# --- stale records


def is_stale(record: Record, fingerprints: Mapping[str, str],
             contents: Mapping[str, str] | None = None, lineage: Lineage | None = None) -> bool:
    """Whether a record's code or data are no longer the present ones; see `judge`."""
    contents = present_data() if contents is None else contents
    lineage = load_lineage() if lineage is None else lineage
    if not leads(lineage, record.chapter, record.code, fingerprints.get(record.chapter)):
        return True
    known = contents.get(record.data["name"]) if record.data else None
    return known is not None and known != record.data["sha256"]


def present_code(chapters: Iterable[str], package: Path | None = None) -> dict[str, str]:
    """The fingerprint of each chapter's present code; a chapter without a module is left out."""
    found = {}
    for chapter in sorted(set(chapters)):
        with suppress(InputError):
            found[chapter] = fingerprint(chapter, package=package)
    return found


def present_data() -> dict[str, str]:
    """The content of each data set as the table has it; one whose content is unknown is left out.

    Examples
    --------
    >>> sorted(present_data())[:2]
    ['allaml', 'breast_cancer']
    """
    return {source.name: source.content for source in datasets.catalog() if source.content}


Lineage = Mapping[tuple[str, str], str]
"""(chapter, hash) to the hash of the code that replaced it."""


@model(frozen=True, config=STRICT)
class Replacement:
    """Code that was changed without changing what it computes: an entry of ``data/lineage.yaml``.

    ``old`` and ``new`` are its hashes, ``says`` how it was shown: ``python tests/golden OLD NEW
    --lineage`` shows it and prints the entry. Records, which keep the old hash, are never edited.
    """

    chapter: str
    old: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    new: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    commit: Annotated[str, Field(pattern="^[0-9a-f]{40}$")]
    says: str


def load_lineage(path: Path | None = None) -> Lineage:
    """Every replacement in a file, by default the book's; none where there is no such file.

    Raises InputError, beginning with the file and the line, for an entry that is not valid,
    duplicate, or leading back to where it begins.
    """
    path = paths.root() / "data" / "lineage.yaml" if path is None else path
    found: dict[tuple[str, str], str] = {}
    for entry in read_file(path, Replacement, "replacement") if path.is_file() else ():
        read = entry.model
        if (read.chapter, read.old) in found:
            raise entry.error("this code was replaced already by an entry above", "old")
        if leads(found, read.chapter, read.new, read.old):
            raise entry.error("this leads back to the code that it replaces", "new")
        found[read.chapter, read.old] = read.new
    return found


def leads(lineage: Lineage, chapter: str, old: str, new: str | None) -> bool:
    """Whether *old* is *new*, or was replaced by it, directly or through others."""
    code: str | None = old
    while code is not None and code != new:
        code = lineage.get((chapter, code))
    return code is not None
