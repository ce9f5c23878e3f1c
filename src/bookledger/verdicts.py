"""Claims against records: one verdict each, from a closed list of words.

The scorecard page says when each word is given. Beyond that:

- A best of N needs N seeds. A trend is within the tolerance when it holds in all, or most, of them;
  its interval, that of the mean difference, should be on one side of 0.
- Doubts about our records make a hit *indicative*, and leave a miss and a refutation as they are:
  one is not what the manifest lists, not its profile's run, or of code that is in no commit; a run
  of the profile lacks what others measured; or the claim or its check has changed since the
  profile's first record.
- A claim with several numbers has the worst of their verdicts.
- A verdict keeps its word and is marked stale if its records were made by another version of the
  method than the present one, or from data with another content than the data set of that name has
  now.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import fmean, stdev
from typing import Any

from clusterbook.checks import InputError

from . import config
from .checks import COMPARE, as_it_stands
from .claims import Claim, Comparison, Statistic
from .machine import hashes, version_of
from .records import Record, profile_of

WORDS = {"reproduced": 1, "confirmed": 0, "indicative": 2, "inconclusive": 6, "not reproduced": 8,
         "demonstration fails": 7, "refuted": 9, "cannot compare": 3, "not attempted": 4,
         "not finished": 5}
"""The vocabulary, in the order in which counts are given; a claim with several numbers has the word
that has the largest number here."""
ENOUGH_SEEDS = 3
"""With fewer seeds nothing counts as reproduced, and nothing as not reproduced."""


@dataclass(frozen=True)
class Verdict:
    """The answer of the records to a claim, or to one number of it.

    ``word`` is one of `WORDS`, ``reason`` a sentence. ``ours`` is the source's statistic of our
    runs, or for a trend the share of seeds in which it holds; ``mean``, ``sd`` and ``interval``
    (the 95% t-interval of the mean) are of the compared quantity over ``n`` seeds (for a check,
    ``n`` runs), ``values`` those of the seeds. ``than`` is what a trend is compared with, or its
    mean. ``stale`` says whether a record was made by another version, or from other data, than the
    present ones; ``records`` names those that were compared. ``parts`` has the verdicts of a
    claim's numbers, in their order.
    """

    word: str
    reason: str
    ours: float | None = None
    mean: float | None = None
    sd: float | None = None
    n: int = 0
    interval: tuple[float, float] | None = None
    values: tuple[float, ...] = ()
    than: float | None = None
    stale: bool = False
    records: tuple[str, ...] = ()
    parts: tuple[Verdict, ...] = ()

    @property
    def label(self) -> str:
        """The word, with ``(stale)`` behind it where the code or the data have changed since."""
        return f"{self.word} (stale)" if self.stale else self.word


def judge(claim: Claim, records: Iterable[Record], stale: Collection[str] = (),
          begun: Collection[str] = ()) -> Verdict:
    """The verdict on a claim, by those of the records that are of its chapter.

    *stale* names the records of another version or other data than the present, see `stale_among`;
    *begun* the profiles of which a run is under way.
    """
    runs = sorted((record for record in records if record.chapter == claim.chapter),
                  key=lambda record: (record.profile, record.seed))
    parts = tuple(judge_number(number, runs, stale, begun) for number in claim.compares)
    worst = max(parts, key=lambda part: WORDS[part.word])
    told = claim.compares[parts.index(worst)].told
    if len(parts) > 1 and {part.word for part in parts} == {"confirmed"}:
        worst = replace(worst, reason=f"The {len(parts)} checks hold in "
                        f"{count(min(part.n for part in parts), 'run')}.")
    elif len(parts) > 1 and told and worst.n:       # of which number it is
        reason = f"{told}: {worst.reason[0].lower()}{worst.reason[1:]}"
        worst = replace(worst, reason=reason[0].upper() + reason[1:])
    return replace(worst, stale=any(part.stale for part in parts), parts=parts,
                   records=tuple(dict.fromkeys(name for part in parts for name in part.records)))


def judge_number(number: Comparison, records: Sequence[Record], stale: Collection[str] = (),
                 begun: Collection[str] = ()) -> Verdict:
    """The verdict on one number or statement, by those of the records that are of its profile."""
    if number.cannot_compare is not None:
        return Verdict("cannot compare", number.cannot_compare)
    runs = [record for record in records if number.profile in (None, record.profile)]
    verdict = _by_check(number, runs) if number.check else _by_numbers(number, runs)
    if verdict:
        return replace(verdict, stale=not set(stale).isdisjoint(verdict.records))
    word = "not finished" if number.profile in begun else "not attempted"
    return Verdict(word, priced(number.not_attempted or "", records) or (
        f"No recorded run{f' of {number.profile}' if number.profile else ''} has what is compared "
        f"({number.check or number.metric})."))


def _by_numbers(goal: Comparison, runs: Sequence[Record]) -> Verdict | None:
    """The verdict on a value, a difference or a trend; None if no run measured it."""
    how = Statistic(goal.statistic or "mean")
    second = goal.than if goal.kind == "trend" else goal.minus
    used, rows, pairs = [], [], []
    for run in runs:
        row = how.row(run.metrics, run.history)
        other = row.get(second) if isinstance(second, str) else second
        if goal.metric in row and (other is not None or second is None):
            used.append(run)
            rows.append(row)
            pairs.append((row[goal.metric], other or 0))
    if not used:
        return None

    n, needed, wide, reaches = len(used), max(ENOUGH_SEEDS, how.seeds), False, False
    if goal.kind == "trend":
        # The two numbers are compared, not their difference with zero: a difference is rounded.
        numbers = [number for number, _ in pairs]
        held = sum(COMPARE[goal.relation](*pair) for pair in pairs)
        ours, mean_of_others = held / n, fmean(other for _, other in pairs)
        within = ours == 1 if goal.holds_in == "all" else ours > 0.5
        reasons = [f"it holds in {held or 'none'} of {n} seeds" if n > 1 else
                   f"it {'holds' if held else 'does not hold'} in the one recorded seed"]
        if n > 1:
            low, high = t_interval([number - other for number, other in pairs])
            ends = [COMPARE[goal.relation](end, 0) for end in (low, high)]
            # One seed is enough to deny what should hold in all.
            wide, reaches = not all(ends), any(ends) and goal.holds_in != "all"
            unsure = f"the 95% interval of the mean difference is {low:.4g} to {high:.4g}"
    else:
        numbers, mean_of_others = [first - other for first, other in pairs], None
        ours = how.of(list(zip(rows, numbers, strict=True)))
        # A number at the very edge is within, whatever binary fractions make of the decimals.
        within = (ours is not None
                  and abs(ours - goal.value) <= goal.tolerance + 1e-12 * abs(goal.value))
        reasons = ["one seed has no standard deviation" if ours is None else
                   f"the {how.named(n)} {ours:.4g}, {'within' if within else 'not within'} "
                   f"{goal.tolerance} of {goal.value}"]
        if how.is_mean and n > 1:
            low, high = t_interval(numbers)
            wide = (high - low) / 2 > goal.tolerance
            low, high = within_range(goal, (low, high))
            reaches = (low <= goal.value + goal.tolerance) and (high >= goal.value - goal.tolerance)
            reasons[0] += f" (95% interval {low:.4g} to {high:.4g})"
            unsure = ("the interval is wider than the band" if within else
                      "the interval reaches into the band")

    settings, caveats = _other_settings(goal, used), _caveats(goal, runs, used)
    if n < len(runs):       # perhaps those that miss
        caveats.append(f"{count(len(runs) - n, 'run')} of this profile did not measure it")
    if within:
        word = "indicative" if n < needed or wide or settings or caveats else "reproduced"
    else:
        word = "inconclusive" if n < needed or reaches or settings else "not reproduced"
    if n < needed:
        reasons.append(f"{count(n, 'seed')} instead of the required {needed}")
    elif wide if within else reaches:
        reasons.append(unsure)
    reasons += settings + caveats
    return _verdict(word, reasons, used, ours=ours, mean=fmean(numbers), than=mean_of_others,
                    sd=stdev(numbers) if n > 1 else None, values=tuple(numbers),
                    interval=within_range(goal, t_interval(numbers)))


def _by_check(goal: Comparison, runs: Sequence[Record]) -> Verdict | None:
    """The verdict by the comparison's check: every run that made it counts, fresh or stale."""
    used = [run for run in runs if goal.check in run.checks]
    if not used:
        return None
    caveats = _caveats(goal, used, used)
    failed = [run.name for run in used if not run.checks[goal.check]]
    word, shows = "indicative" if caveats else "confirmed", ""
    outcome = f"holds in {count(len(used), 'run')}"
    if failed:
        word = "demonstration fails"
        outcome = f"fails in {len(failed)} of {count(len(used), 'run')}, such as {failed[0]}"
    elif goal.kind == "source-error":
        word, shows = "refuted", ", which refutes it,"
    return _verdict(word, [f"the check {goal.check}{shows} {outcome}", *caveats], used)


def _verdict(word: str, reasons: Sequence[str], used: Sequence[Record], **numbers: Any) -> Verdict:
    text = "; ".join(reasons)
    return Verdict(word, f"{text[0].upper()}{text[1:]}.", n=len(used),
                   records=tuple(record.name for record in used), **numbers)


def _other_settings(goal: Comparison, used: Sequence[Record]) -> list[str]:
    """Settings that are not the source's: they soften a hit and a miss alike."""
    found = []
    assumed = sorted({name for record in used for name in record.assumed
                      if goal.depends_on is None or name in goal.depends_on})
    if assumed:
        more = f" and {len(assumed) - 3} others" if len(assumed) > 4 else ""
        found.append(f"settings chosen here: {', '.join(assumed[:3] if more else assumed)}{more}")
    if goal.differs is not None:
        found.append(f"differs from the source: {goal.differs}")
    return found


def _caveats(goal: Comparison, runs: Sequence[Record], used: Sequence[Record]) -> list[str]:
    """Doubts about our own runs: with them nothing is reproduced, and a miss remains a miss."""
    found = list(dict.fromkeys(doubt for record in used for doubt in record.doubts))
    first = min(runs, key=lambda record: datetime.fromisoformat(record.started))
    held = first.claims.get(goal.id)
    if held != as_it_stands(goal):
        then = f" (the record has: {held})" if held and not goal.check else ""
        found.append(f"the {'check' if goal.check else 'claim'} was added or changed after the "
                     f"first record{then}")
    listed, made = profile_of(first.profile).get("seeds"), {record.seed for record in runs}
    if listed is not None and goal.profile is not None:
        if missing := sorted(set(listed) - made):
            found.append(f"no run of the profile's {seed_list(missing)} is recorded")
        if more := sorted(made - set(listed)):
            found.append(f"not of the profile: {seed_list(more)}")
    return found


def count(n: int, noun: str) -> str:
    """A number with its noun: ``1 seed``, ``3 seeds``."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def seed_list(seeds: Iterable[int]) -> str:
    """Seeds with their noun: ``seed 3``, ``seeds 1, 4``, ``seeds 0–4``."""
    found = sorted(set(seeds))
    if len(found) > 2 and found == list(range(found[0], found[-1] + 1)):
        return f"seeds {found[0]}–{found[-1]}"
    return f"seed{'s' if len(found) > 1 else ''} {', '.join(map(str, found))}"


def t_interval(numbers: Sequence[float]) -> tuple[float, float] | None:
    """Student's 95% interval of the mean of independent numbers; None for fewer than two."""
    if len(numbers) < 2:
        return None
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    n = len(numbers)
    half = float(stdtrit(n - 1, 0.975)) * stdev(numbers) / math.sqrt(n)
    return fmean(numbers) - half, fmean(numbers) + half


def within_range(goal: Comparison, interval: tuple[float, float] | None
                 ) -> tuple[float, float] | None:
    """An interval without what its metric can't be: no accuracy is above 1."""
    if interval is None or goal.kind == "difference" or goal.metric is None:
        return interval
    ranges = config.book().metrics.ranges
    low, high = ranges.get(goal.metric.rpartition("_")[2], (-math.inf, math.inf))
    return max(interval[0], low), min(interval[1], high)


def priced(text: str, records: Iterable[Record]) -> str:
    """A reason with the cost of a run in it, computed from recorded runs.

    ``{3000 epochs of tell-mnist-30}`` becomes that many epochs' core-hours, at the mean time of an
    epoch in the runs of that profile. Raises InputError where none was recorded.
    """
    def cost(found: re.Match) -> str:
        hours = [run.metrics["seconds_per_epoch"] * (run.machine["threads"] or 1) / 3600
                 for run in records
                 if run.profile == found[2] and "seconds_per_epoch" in run.metrics]
        if not hours:
            raise InputError(f"no record of {found[2]} has a time per epoch to compute a cost from")
        return f"about {int(found[1]) * fmean(hours):.0f} core-hours"

    return re.sub(r"\{(\d+) epochs of ([\w-]+)\}", cost, text)


# --- stale records


def stale_among(records: Iterable[Record]) -> set[str]:
    """The names of the records of another version, or of other data, than the present ones.

    Data whose content the catalog does not know are not compared.
    """
    records, earlier, stale = list(records), hashes(), set()
    present = {chapter: version_of(chapter) for chapter in {record.chapter for record in records}}
    contents = {name: source.content for name, source in config.book().catalog().items()
                if source.content}
    for record in records:
        same_code = earlier.get(record.code, record.code) == present[record.chapter]
        known = contents.get(record.data["name"]) if record.data else None
        if not same_code or (known is not None and known != record.data["sha256"]):
            stale.add(record.name)
    return stale
