"""Numbers, times and what claims compare, in words; and their places in a drawing."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

from . import config
from .checks import load_expectations
from .claims import Claim, Comparison, Statistic
from .verdicts import Verdict, count

_IS = {">": "larger", "<": "smaller", ">=": "at least as large", "<=": "at most as large"}


def spread(mean: float, sd: float | None) -> str:
    """Mean ± standard deviation, both with as many decimals as the deviation's two digits need.

    Numbers that are all equal have none.

    Examples
    --------
    >>> spread(10.0243, 0.0171), spread(0.8, 0)
    ('10.024 ± 0.017', '0.8')
    """
    if not sd:
        return f"{mean:.4g}"
    decimals = min(max(1 - math.floor(math.log10(sd)), 0), 6)
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


def so_far(name: str, report: Mapping[str, Any]) -> str:
    """How far a training is by its last report: its epoch, its pace, the time that is left."""
    left = (report["epochs"] - report["epoch"]) * report["seconds_an_epoch"]
    stage = f", {report['stage']}" if report["stage"] else ""
    return (f"{name}{stage}: epoch {report['epoch']:,} of {report['epochs']:,}, "
            f"{duration(report['seconds_an_epoch'])} an epoch, "
            + (f"{duration(left)} of computing left" if left else "finished"))


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
        holds = "holds" if verdict.word != "demonstration fails" else "does not always hold"
        return f"{holds} in {count(verdict.n, 'run')}"
    seeds, mean = count(verdict.n, "seed"), spread(verdict.mean, verdict.sd)
    if number.kind == "trend":
        against = f" against {verdict.than:.4g}" if isinstance(number.than, str) else ""
        held = round(verdict.ours * verdict.n)
        if verdict.n == 1:
            return f"{mean}{against}, {'' if held else 'not '}{_IS[number.relation]} ({seeds})"
        return f"{mean}{against}, {_IS[number.relation]} in {held or 'none'} of {seeds}"
    if verdict.sd == 0:
        seeds = f"the same in {seeds}"
    elif number.kind == "value" and (verdict.sd or 0) > number.tolerance:  # the mean tells little
        near = sum(abs(seed - number.value) <= number.tolerance for seed in verdict.values)
        seeds += f", {near} within tolerance"
    if verdict.ours is None:
        return f"none from {seeds}"
    if (number.statistic in ("mean", "single", None)     # goes without saying
            or verdict.n == 1 < Statistic(number.statistic).seeds):
        return f"{mean} ({seeds})"
    if math.isclose(verdict.ours, verdict.mean):
        return f"{mean} ({number.statistic}, {seeds})"
    return f"{verdict.ours:.4g} ({number.statistic}), mean {mean} ({seeds})"


def spelled(metric: str) -> str:
    """A metric's key in words."""
    words = config.book().metrics.spelled
    return " ".join(words.get(part, part) for part in metric.split("_"))


def compared(number: Comparison) -> str:
    """What is compared: what the check shows, or the number with its tolerance or its rule."""
    if number.check is not None:
        shown = {one.id: one.says for one in load_expectations()}
        return f"our check: {shown.get(number.check, number.check)}"
    name = number.told or spelled(number.metric) + (
        f" minus {spelled(number.minus)}" if number.minus else "")
    if number.kind != "trend":
        return f"{name} {number.value} ± {number.tolerance}"
    of_text = isinstance(number.than, str)
    if not (number.told and of_text):       # words for both sides have the relation in them
        sign = {">=": "≥", "<=": "≤"}.get(number.relation, number.relation)
        name += f" {sign} {spelled(number.than) if of_text else number.than}"
    return f"{name} in {number.holds_in} seeds"


def numbers(claim: Claim, verdict: Verdict) -> tuple[list[tuple[Comparison, Verdict]], str]:
    """The numbers of a claim that were measured, with their verdicts, and a line on the others."""
    pairs = list(zip(claim.compares, verdict.parts, strict=True))
    found = [pair for pair in pairs if pair[1].n]
    rest = [compared(number) for number, part in pairs if not part.n and number.stated != "–"]
    more = f" and {len(rest) - 2} more" if len(rest) > 2 else ""
    return found, ", ".join(rest[:2]) + more


def drawing(number: Comparison, verdict: Verdict) -> dict[str, Any] | None:
    """The drawing of our numbers around the published one; None where no number was measured.

    It has 200 units, 25 for a tolerance, with the published number in the middle. *ours* lies
    *offset* tolerances from it.
    """
    if verdict.ours is None or not number.tolerance:
        return None

    def place(value: float) -> float:
        return round(min(max(100 + 25 * (value - number.value) / number.tolerance, 0), 200), 1)

    offset = (verdict.ours - number.value) / number.tolerance
    return {"offset": offset, **marks(number, verdict, place)}


def marks(number: Comparison, verdict: Verdict, place: Callable[[float], float] = float
          ) -> dict[str, Any]:
    """The places of our number, of its interval's ends, if it is a mean, and of several seeds."""
    ours = verdict.mean if number.kind == "trend" else verdict.ours
    ends = verdict.interval if Statistic(number.statistic or "mean").is_mean else None
    return {"ours": None if ours is None else place(ours), "ends": [*map(place, ends or ())],
            "seeds": [*map(place, verdict.values)] if verdict.n > 1 else []}
