"""Numbers, times and what claims compare, in words; and their places in a drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from . import config
from .claims import Claim, Comparison, Statistic
from .verdicts import Verdict, count

USUAL = ("mean", "single", None)     # statistics that go without saying
_IS = {">": "larger", "<": "smaller", ">=": "at least as large", "<=": "at most as large"}
_CUT = 4    # tolerances; what lies further from the published number is drawn at the edge


def spread(mean: float, sd: float | None) -> str:
    """Mean ± standard deviation, both with as many decimals as the deviation's two digits need.

    Three where it is zero.

    Examples
    --------
    >>> spread(10.0243, 0.0171), spread(0.8, 0)
    ('10.024 ± 0.017', '0.800 ± 0.000')
    """
    if sd is None:
        return f"{mean:.4g}"
    decimals = min(max(1 - math.floor(math.log10(sd)), 0), 6) if sd else 3
    return f"{mean:.{decimals}f} ± {sd:.{decimals}f}"


def duration(seconds: float) -> str:
    """A time in the largest unit that fits, two digits: ``45 s``, ``12 min``, ``1.4 h``.

    Examples
    --------
    >>> [duration(seconds) for seconds in (8.24, 59.7, 745, 5040, 36000)]
    ['8.2 s', '60 s', '12 min', '1.4 h', '10 h']
    """
    size, unit = (3600, "h") if seconds >= 3600 else (60, "min") if seconds >= 60 else (1, "s")
    amount = seconds / size
    return f"{amount:.{1 if amount < 9.95 else 0}f} {unit}"


def section_of(claim: Claim) -> Markup:
    """A link to a claim's section, from a page one folder below the book's root.

    ``audit#ANCHOR`` is on the chapter's audit page, a bare anchor in the chapter.
    """
    page, _, anchor = claim.section.rpartition("#")
    folder, says = ("book/audit", "On the audit page") if page else ("notebooks", "In the chapter")
    return Markup('<a href="../{}/{}.html#{}">{}</a>').format(folder, claim.chapter, anchor, says)


def measured(number: Comparison, verdict: Verdict) -> str:
    """The result of our runs, with mean ± standard deviation over seeds; a dash without runs."""
    if verdict.n == 0:
        return "–"
    if number.check is not None:
        return count(verdict.n, "run")
    seeds, mean = count(verdict.n, "seed"), spread(verdict.mean, verdict.sd)
    if number.kind == "trend":
        against = f" against {verdict.than:.4g}" if isinstance(number.than, str) else ""
        return (f"{mean}{against}, {_IS[number.relation]} in {round(verdict.ours * verdict.n)} of "
                f"{seeds}")
    if number.statistic in USUAL:
        return f"{mean} ({seeds})"
    if math.isclose(verdict.ours, verdict.mean):
        return f"{mean} ({number.statistic}, {seeds})"
    return f"{verdict.ours:.4g} ({number.statistic}), mean {mean} ({seeds})"


def told_number(number: Comparison) -> str:
    """What a number is, in words, and its published value: ``F1 0.8895``."""
    def spelled(metric: str) -> str:
        words = config.book().metrics.spelled
        return " ".join(words.get(part, part) for part in metric.split("_"))

    name = number.told or spelled(number.metric) + (
        f" minus {spelled(number.minus)}" if number.minus else "")
    if number.kind != "trend":
        return f"{name} {number.value}"
    sign = {">=": "≥", "<=": "≤"}.get(number.relation, number.relation)
    if not isinstance(number.than, str):
        return f"{name} {sign} {number.than}"
    return number.told or f"{name} {sign} {spelled(number.than)}"


def compared(number: Comparison) -> str:
    """What is compared: the check, or the number in words with its tolerance or its rule."""
    if number.check is not None:
        return number.check
    return told_number(number) + (
        f" in {number.holds_in} seeds" if number.kind == "trend" else f" ± {number.tolerance}")


def named(claim: Claim, number: Comparison) -> str:
    """What is compared, after its profile where the claim's numbers have several."""
    several = len({one.profile for one in claim.compares if one.profile}) > 1
    profile = (number.profile or "").removeprefix(f"{claim.chapter}-")
    return f"{profile}: {compared(number)}" if several and profile else compared(number)


def numbers(claim: Claim, verdict: Verdict) -> tuple[list[tuple[Comparison, Verdict]], str]:
    """The numbers of a claim that were measured, with their verdicts, and a line on the others."""
    pairs = list(zip(claim.compares, verdict.parts, strict=True))
    found = [pair for pair in pairs if pair[1].n]
    rest = [compared(number) for number, part in pairs if not part.n and number.stated != "–"]
    more = f" and {len(rest) - 2} more" if len(rest) > 2 else ""
    return found, ", ".join(rest[:2]) + more


def offsets(number: Comparison, verdict: Verdict
            ) -> tuple[float, Sequence[float], Sequence[float]] | None:
    """How far ours, its interval's ends and the seeds lie from the published number, in tolerances.

    None where no number was measured; the interval is that of a mean only, and a single seed is
    left out.
    """
    if verdict.ours is None or number.value is None or not number.tolerance:
        return None
    ends = verdict.interval if Statistic(number.statistic).is_mean and verdict.interval else ()
    seeds = verdict.values if len(verdict.values) > 1 else ()
    (ours,), ends, seeds = ([(value - number.value) / number.tolerance for value in values]
                            for values in ([verdict.ours], ends, seeds))
    return ours, ends, seeds


def drawn(offset: float) -> float:
    """The place of an offset in a strip of 200 units, the published number in its middle."""
    return round(100 + 100 * max(-_CUT, min(_CUT, offset)) / _CUT, 1)
