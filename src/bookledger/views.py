"""Views of claims and verdicts, as text and as HTML: scorecard, result box, verdict tables."""

from __future__ import annotations

import math
import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from clusterbook.checks import one_of
from clusterbook.errors import InputError
from clusterbook.figures.steps import ENVIRONMENT

from . import config
from .claims import Claim, Comparison, Statistic, load_claims
from .records import MANIFEST, git, load_json, load_records
from .templates import MACROS
from .verdicts import WORDS, Verdict, count, judge, stale_among

Row = tuple[Claim, Verdict]

WIDTH = 100
"""Columns of a terminal that the plain text fits in."""

_COLUMNS = (31, 26, 23, 14)     # claim, the source, ours, verdict: with gaps of two, `WIDTH`
# Of each word: a step down is a regression.
_STANDING = {"reproduced": 3, "confirmed": 3, "refuted": 3, "indicative": 2, "inconclusive": 1,
             "not reproduced": 1, "demonstration fails": 1, "cannot compare": 1,
             "not attempted": 0}
_OF_RESULTS = {"reproduced": ("reproduced", "confirmed"), "indicative": ("indicative",),
               "inconclusive": ("inconclusive", "demonstration fails"),
               "missed": ("not reproduced", "refuted"), "not comparable": ("cannot compare",),
               "not run": ("not attempted",)}
_OF_SENTENCES = {"confirmed": ("reproduced", "confirmed", "indicative"),
                 "open": ("inconclusive", "demonstration fails", "cannot compare", "not attempted"),
                 "contradicted": ("not reproduced", "refuted")}
_GROUPS = {"Headline results": _OF_RESULTS, "Other results": _OF_RESULTS,
           "Sentences of the text": _OF_SENTENCES, "Claims of other people": _OF_SENTENCES}
_USUAL = ("mean", "single", None)     # statistics that go without saying
_IS = {">": "larger", "<": "smaller", ">=": "at least as large", "<=": "at most as large"}
_CUT = 4    # tolerances; what lies further from the published number is drawn at the edge
_FOLDED = 8     # more claims than this would stand between a reader and the chapter


@dataclass(frozen=True, repr=False)
class View:
    """Rows of something; displays as HTML on a page and as text elsewhere."""

    rows: tuple[Any, ...]
    text: str
    html: str

    def __repr__(self) -> str:
        """The plain text."""
        return self.text

    def _repr_html_(self) -> str:
        return self.html


class Scorecard(View):
    """Claims and their verdicts; ``rows`` are pairs of both."""

    def summary(self) -> View:
        """How the claims of each work stand: results, sentences, and other people's apart."""
        works = {config.book().method(chapter): standing(rows)
                 for chapter, rows in by_chapter(self.rows).items()}
        lines = [f"{work}: {'; '.join(f'{group}: {text}' for group, text in found.items())}"
                 for work, found in works.items()]
        return View(self.rows, "\n".join([assessed(self.rows), *lines]), html(
            "summary", sentence=assessed(self.rows), works=works, heads=[*_GROUPS]))

    def words(self) -> dict[str, str]:
        """Claim → verdict word, which `regressions` of a later scorecard takes."""
        return {claim.id: verdict.word for claim, verdict in self.rows}

    def regressions(self, previous: Mapping[str, str]) -> list[str]:
        """A line for each claim whose verdict fell since *previous* (`at_last_tag`), or is gone.

        Down is from reproduced, confirmed or refuted to indicative, from there to inconclusive,
        not reproduced or cannot compare, and from anything to not attempted.
        """
        now = self.words()
        return [f"{name}: {before} → {now.get(name, 'no longer a claim')}"
                for name, before in previous.items()
                if _STANDING.get(now.get(name), -1) < _STANDING[before]]


def scorecard() -> Scorecard:
    """Every claim of the book with its verdict: the headline claims first, the others by work."""
    rows = judged(sorted(load_claims(), key=lambda claim: config.book().order(claim.chapter)))
    headline = [row for row in rows if row[0].tier == "headline"]
    plotted = {chapter: [(claim, *pair) for claim, verdict in found
                         for pair in numbers(claim, verdict)[0] if offsets(*pair)]
               for chapter, found in by_chapter(headline).items()}
    others = by_chapter(row for row in rows if row[0].tier != "headline")
    groups = {"Headline claims": headline} | {
        f"{config.book().method(chapter)}: supporting and minor claims": found
        for chapter, found in others.items()}
    parts = [f"{name}: {counts_line(found)}\n\n{text_table(found)}"
             for name, found in groups.items() if found]
    kept = manifest_line()
    text = [assessed(rows), wrapped(kept), *parts, counts_line(rows)]
    return Scorecard(rows, "\n\n".join(text), html(
        "scorecard", sentence=assessed(rows), kept=kept, plotted=plotted, headline=headline,
        others=others))


def manifest_line() -> str:
    """Whether the records are those that the manifest lists, and which are not."""
    records = load_records()
    listed = load_json(config.root() / "data" / "records" / MANIFEST)
    wrong = [record.name for record in records if record.doubts] + [
        name for name in (file.removesuffix(".json") for file in listed if file.endswith(".json"))
        if name not in {record.name for record in records}]
    return f"{count(len(records), 'record')}; " + (
        f"in doubt, or not those of the manifest: {', '.join(sorted(wrong))}." if wrong else
        "each matches its checksum in data/records/manifest.json.")


def judged(claims: Sequence[Claim]) -> tuple[Row, ...]:
    """The claims with their verdicts."""
    chapters = {claim.chapter for claim in claims}
    records = [record for record in load_records() if record.chapter in chapters]
    stale = stale_among(records)
    return tuple((claim, judge(claim, records, stale)) for claim in claims)


def assessed(rows: Sequence[Row]) -> str:
    """How the headline results stand, and then the other kinds of claims, in a few sentences."""
    groups = grouped(rows)
    parts = [f"{group}, {len(found)}: {text}" for group, text in standing(rows).items()
             if (found := groups[group])]
    return f"{'. '.join(parts)}."


def grouped(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Claims by what they are: a result of a paper, a sentence of its text, or somebody else's."""
    groups: dict[str, list[Row]] = {group: [] for group in _GROUPS}
    for claim, verdict in rows:
        sentence = all(one.kind in ("exact", "source-error") for one in claim.compares)
        groups["Claims of other people" if claim.by == "others" else
               "Sentences of the text" if sentence else
               "Headline results" if claim.tier == "headline" else
               "Other results"].append((claim, verdict))
    return groups


def standing(rows: Iterable[Row]) -> dict[str, str]:
    """How many claims of each kind stand how: ``3 reproduced, 1 not run``; a dash for none."""
    told = {}
    for group, found in grouped(rows).items():
        words = Counter(verdict.word for _, verdict in found)
        counts = {name: sum(words[word] for word in of) for name, of in _GROUPS[group].items()}
        told[group] = ", ".join(f"{n} {name}" for name, n in counts.items() if n) or "–"
    return told


def say(what: str | Iterable[str], *, here: bool = True) -> View:
    """The verdicts of a chapter, of a claim, or of several claims in the order given.

    Displays the counts and one row for each claim. With *here*, links stay on this page (the
    claims' chapter); otherwise they lead to that chapter. Raises InputError for a name that is
    neither a chapter nor a claim.
    """
    claims, chosen = load_claims(), []
    known = {*config.chapters(), *(name for claim in claims for name in (claim.id, claim.chapter))}
    for name in [what] if isinstance(what, str) else what:
        one_of("chapter or claim", name, known)
        chosen += [claim for claim in claims if name in (claim.id, claim.chapter)]
    rows = judged(chosen)
    counts = counts_line(rows)
    return View(rows, f"{counts}\n\n{text_table(rows)}" if rows else counts,
                html("said", rows=rows, caption=counts, folded=len(rows) > _FOLDED, here=here))


def result(work: str) -> View:
    """The result box of a work: published against ours.

    One row for each headline claim, with at most four of its numbers, or what kept it from being
    measured. The last line counts all verdicts. Raises InputError for an unknown work.
    """
    claims = load_claims()
    one_of("chapter with claims", work, {claim.chapter for claim in claims})
    rows = judged([claim for claim in claims if claim.chapter == work])
    under = [path.stem.rpartition("-seed")[0] for path in
             (config.root() / "data" / "records" / "under-way").glob("*.json")]
    shown = []
    for claim, verdict in rows:
        if claim.tier == "headline":
            told = [(told_number(one), measured(one, part), one, part)
                    for one, part in numbers(claim, verdict)[0] if one.check is None]
            why = verdict.reason if verdict.word in ("cannot compare", "not attempted") else (
                "" if told else "Demonstrated in code.")
            begun = {one.profile for one in claim.compares} & set(under) if not verdict.n else ()
            shown.append((verdict, claim, told[:4], why, bool(begun)))
    lines = [" | ".join([f"{verdict.label}: {claim.says}",
                         *(f"{left} → {ours}" for left, ours, *_ in told), *filter(None, [why])])
             for verdict, claim, told, why, _ in shown]
    counted = counts_line(rows)
    return View(rows, "\n".join([*map(wrapped, lines), wrapped(counted)]), html(
        "result", shown=shown, counted=counted))


def cards(works: Mapping[str, tuple[str, str, Mapping[str, str]]]) -> View:
    """A card for each work, which leads to its chapter: picture, sentence, verdicts, run time.

    *works* maps a work's name to its sentence, its picture, a PNG in base64, and what some of its
    claims are about to their ids. Of a claim with numbers the first is shown, measured or not. The
    run time is what the chapter's first cell states. Raises InputError for an unknown id.
    """
    shown, verdicts = [], by_chapter(judged(load_claims()))
    for work, (sentence, picture, chosen) in works.items():
        rows = verdicts.get(work, [])
        found, told = {claim.id: (claim, verdict) for claim, verdict in rows}, []
        for about, name in chosen.items():
            one_of("claim", name, found)
            claim, verdict = found[name]
            one, part = (numbers(claim, verdict)[0] or [(claim.compares[0], None)])[0]
            ours = f" {part.ours:.4g}," if part and part.ours is not None else ""
            told.append((verdict, about if one.value is None else
                         f"{about}:{ours} published {one.value}"))
        counted = standing(rows)["Headline results"]
        cells = load_json(config.root() / "notebooks" / f"{work}.ipynb").get("cells", [{}])
        time = re.search(r"[*]Runtime[.][*]{2} ([^.,]*)", "".join(cells[0].get("source", "")))
        shown.append((work, config.book().method(work), sentence, told,
                      f"Headline results: {counted}", time and time[1], picture))
    text = [f"{name}: {sentence} " + "; ".join([*(f"{words} ({verdict.label})" for verdict, words
                                                  in told), counted, time or ""])
            for _, name, sentence, told, counted, time, _ in shown]
    return View(tuple(shown), "\n".join(map(wrapped, text)), html("cards", shown=shown))


def table(rows: Mapping[str, Mapping[str, ArrayLike]], caption: str, *, digits: int = 3,
          best: Callable[..., str] | None = max) -> View:
    """A table of measured numbers, of several values their mean ± standard deviation.

    *rows* maps names to columns to numbers, one or one per seed; what a row lacks, or is NaN, is a
    dash. The *best* mean of each column (``max``, ``min`` or None) is in bold if it differs from
    each other one by more than the larger of both standard deviations; a single run never is.
    """
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells: dict[str, list] = {name: [] for name in rows}
    for column in columns:
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
            text = f"{means[name]:.{digits}f}{sd}".replace("-", "−") if name in means else "–"
            cells[name].append((text, bool(name == top and others and all(others))))
    lines = [f"{name}: " + ", ".join(f"{column} {text}" for column, (text, _) in
                                     zip(columns, found, strict=True))
             for name, found in cells.items()]
    return View(tuple(rows.items()), "\n".join([caption, *lines]),
                html("scores", caption=caption, heads=["", *columns], rows=cells))


def section_of(claim: Claim, here: bool = False) -> str:
    """The address of a claim's section, from a page one folder below the book's root.

    ``audit#ANCHOR`` is on the chapter's audit page, a bare anchor in the chapter, which is this
    page if *here*.
    """
    page, _, anchor = (claim.section or "").rpartition("#")
    audit = f"../book/audit/{claim.chapter}.html"
    return f"{audit if page else '' if here else f'../notebooks/{claim.chapter}.html'}#{anchor}"


def at_last_tag() -> dict[str, str] | None:
    """Claim → verdict word at the checkout's last git tag; None where there is no tag.

    Claims and records are read from git as they stood then. Raises InputError when the tag has
    none, or when today's rules do not allow them.
    """
    root = config.checkout()
    tag = git(root, "describe", "--tags", "--abbrev=0") if root else None
    if not tag:
        return None
    with TemporaryDirectory() as temporary:
        folder, archive = Path(temporary), Path(temporary) / "tag.zip"
        try:
            if git(root, "archive", f"--output={archive}", tag, "data/claims",
                   "data/records") is None:
                raise InputError("it lacks claims or records")
            shutil.unpack_archive(archive, folder)
            claims = load_claims(folder / "data" / "claims")
            records = load_records(folder / "data" / "records")
        except InputError as error:
            raise InputError(f"the tag {tag} can't be compared with: {error}") from error
        return {claim.id: judge(claim, records).word for claim in claims}


# --- verdicts as text


def by_chapter(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each chapter, which stand together."""
    return {chapter: list(found) for chapter, found in groupby(rows, lambda row: row[0].chapter)}


def counts_line(rows: Sequence[Row]) -> str:
    """The number of claims with each verdict, stale ones apart: ``7 claims: 3 reproduced, …``."""
    found = Counter(verdict.label for _, verdict in rows)
    labels = [label for word in WORDS for label in (word, f"{word} (stale)")]
    parts = ", ".join(f"{found[label]} {label}" for label in labels if found[label])
    return count(len(rows), "claim") + (f": {parts}" if parts else "")


def measured(number: Comparison, verdict: Verdict) -> str:
    """The result of our runs, with mean ± standard deviation over seeds; a dash without runs."""
    if verdict.n == 0:
        return "–"
    if number.check is not None:
        return count(verdict.n, "run")
    seeds = count(verdict.n, "seed")
    over = f"{spread(verdict.mean, verdict.sd)} ({seeds})"
    if number.kind == "trend":
        against = f" against {verdict.than:.4g}" if isinstance(number.than, str) else ""
        return (f"{spread(verdict.mean, verdict.sd)}{against}, "
                f"{_IS[number.relation]} in {round(verdict.ours * verdict.n)} of {seeds}")
    if number.statistic in ("mean", "single") or verdict.ours is None:
        return over
    if math.isclose(verdict.ours, verdict.mean):
        return f"{spread(verdict.mean, verdict.sd)} ({number.statistic}, {seeds})"
    return f"{verdict.ours:.4g} ({number.statistic}), mean {over}"


def told_number(number: Comparison) -> str:
    """What a number is, in words, and its published value: ``F1 0.8895``."""
    name = number.told or _spelled(number.metric) + (
        f" minus {_spelled(number.minus)}" if number.minus else "")
    if number.kind != "trend":
        return f"{name} {number.value}"
    if not isinstance(number.than, str):
        return f"{name} {_sign(number)} {number.than}"
    return number.told or f"{name} {_sign(number)} {_spelled(number.than)}"


def _spelled(metric: str) -> str:
    """The key of a metric in words: ``online accuracy``."""
    spelled = config.book().metrics.spelled
    return " ".join(spelled.get(part, part) for part in metric.split("_"))


def _sign(number: Comparison) -> str:
    return {">=": "≥", "<=": "≤"}.get(number.relation, number.relation)


def numbers(claim: Claim, verdict: Verdict) -> tuple[list[tuple[Comparison, Verdict]], str]:
    """The numbers of a claim that were measured, with their verdicts, and a line on the others."""
    pairs = list(zip(claim.compares, verdict.parts, strict=True))
    rest = [compared(number) + (f" ({number.statistic})" if number.statistic not in _USUAL else "")
            for number, part in pairs if not part.n and number.stated != "–"] or (
        ["–"] if not any(part.n for part in verdict.parts) else [])
    more = f" and {len(rest) - 2} more" if len(rest) > 3 else ""
    return [pair for pair in pairs if pair[1].n], ", ".join(rest[:2] if more else rest) + more


def named(claim: Claim, number: Comparison) -> str:
    """What is compared, after its profile where the claim's numbers have several."""
    several = len({one.profile for one in claim.compares if one.profile}) > 1
    profile = number.profile.removeprefix(f"{claim.chapter}-") if number.profile else ""
    return f"{profile}: {compared(number)}" if several and profile else compared(number)


def compared(number: Comparison) -> str:
    """What is compared: the check, or the number in words with its tolerance or its rule."""
    if number.check is not None:
        return number.check
    return told_number(number) + (
        f" in {number.holds_in} seeds" if number.kind == "trend" else f" ± {number.tolerance}")


def offsets(number: Comparison, verdict: Verdict) -> list[float] | None:
    """How far ours lies from the published number, in tolerances, and the ends of its interval.

    None where no number was measured; the interval is that of a mean only.
    """
    if verdict.ours is None or number.value is None or not number.tolerance:
        return None
    ends = verdict.interval if Statistic(number.statistic).is_mean and verdict.interval else ()
    return [(value - number.value) / number.tolerance for value in (verdict.ours, *ends)]


def dots(number: Comparison, verdict: Verdict) -> list[float]:
    """The places of the seeds in a strip, where there are several; see `drawn`."""
    if number.value is None or not number.tolerance or len(verdict.values) < 2:
        return []
    return [drawn((value - number.value) / number.tolerance) for value in verdict.values]


def drawn(offset: float) -> float:
    """The place of an offset in a strip of 200 units, the published number in its middle."""
    return round(100 + 100 * max(-_CUT, min(_CUT, offset)) / _CUT, 1)


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


def text_table(rows: Sequence[Row]) -> str:
    """Plain text of at most `WIDTH` columns: a line a claim and a line each of several numbers.

    The reason of the verdict stands below; it is left out where the word says it all.
    """
    lines = _aligned("claim", "the source", "ours", "verdict")
    for claim, verdict in rows:
        measurements, rest = numbers(claim, verdict)
        if len(measurements) + bool(rest) == 1:
            found = measurements[0] if measurements else (claim.compares[0], verdict)
            lines += _aligned(claim.id, rest or found[0].stated, measured(*found), verdict.label)
        else:
            lines += _aligned(claim.id, "", "", verdict.label)
            for number, part in measurements:
                lines += _aligned(f"· {number.id.removeprefix(f'{claim.id}-')}", number.stated,
                                  measured(number, part), part.label)
            lines += _aligned("", rest, "–", "") if rest else []
        if verdict.label not in ("reproduced", "confirmed"):
            lines.append(textwrap.indent(textwrap.fill(verdict.reason, WIDTH - 8), "    "))
    return "\n".join(lines)


def _aligned(*cells: str) -> list[str]:
    """One row of text, each cell wrapped within its column."""
    wrapped = map(textwrap.wrap, cells, _COLUMNS)
    return ["  ".join(map(str.ljust, parts, _COLUMNS)).rstrip()
            for parts in zip_longest(*wrapped, fillvalue="")]


def seeds_of(names: Iterable[str]) -> dict[str, list[int]]:
    """The seeds of each profile among records, in order."""
    seeds: dict[str, list[int]] = {}
    for name in names:
        profile, _, seed = name.rpartition("-seed")
        seeds.setdefault(profile, []).append(int(seed))
    return {profile: sorted(found) for profile, found in seeds.items()}


def wrapped(text: str) -> str:
    """Text in lines that fit a terminal, the later ones indented."""
    return textwrap.fill(text, WIDTH, subsequent_indent="    ")


# --- HTML


def _escaped(value: object) -> object:
    # Markup's own entities for quotes are others than the standard library's.
    return value if hasattr(value, "__html__") else Markup(escape(str(value)))


_MACROS = ENVIRONMENT.overlay(finalize=_escaped).from_string(MACROS, {
    "compared": compared, "counts_line": counts_line, "dots": dots, "drawn": drawn,
    "measured": measured, "method": lambda chapter: config.book().method(chapter),
    "named": named, "numbers": numbers, "offsets": offsets, "section_of": section_of,
    "seeds_of": seeds_of}).module


def html(view: str, **values: object) -> str:
    """A macro of `templates` as HTML that is well-formed XML too, with all text escaped."""
    return getattr(_MACROS, view)(**values).rstrip("\n")
