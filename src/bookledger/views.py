"""Views of claims, verdicts and records: scorecard, result box, recorded profiles; and any table.

A view is HTML on a page, which ``templates.html.j2`` makes, and text elsewhere.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from markupsafe import Markup

from clusterbook.checks import one_of
from clusterbook.figures.steps import ENVIRONMENT

from . import config, wording
from .claims import Claim, Comparison, load_claims
from .records import Record, attestations, load_records, profile_of, recorded
from .verdicts import WORDS, Verdict, count, judge, seed_list, stale_among
from .wording import duration, measured, numbers, so_far, spread

Row = tuple[Claim, Verdict]

WIDTH = 100
"""Columns of a terminal that a table fits in."""
_GAP, _INDENT = "  ", "    "
_KINDS = ("Headline results", "Other results", "Statements and formulas", "Third-party claims")


@dataclass(frozen=True)
class Table:
    """Rows of cells under heads, as HTML or as text; a cell is a text, or HTML as `Markup`.

    The first cell is the row's head. ``css`` has classes of the table. If ``folded``, a click on
    the caption shows it. ``lines`` are the text, where that is not of the cells.
    """

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    css: str = ""
    folded: bool = False
    lines: Sequence[str] = ()

    def __html__(self) -> Markup:
        return html("table", self)

    def __str__(self) -> str:
        if self.lines or not self.rows:
            return "\n".join(map(paragraph, [self.caption, *self.lines]))
        rows = [[*map(plain, row)] for row in self.rows]
        return f"{paragraph(self.caption)}\n\n{columns(self.heads, rows)}"


def plain(cell: str) -> str:
    """A cell as text."""
    return cell.striptags() if isinstance(cell, Markup) else cell


def paragraph(text: str) -> str:
    """Text in lines that fit a terminal, the later ones indented; names of runs stay whole."""
    return textwrap.fill(text, WIDTH, subsequent_indent=_INDENT, break_on_hyphens=False)


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of texts below their heads, aligned.

    Where that is wider than `WIDTH`, each row is a paragraph: its first text, and below it, never
    broken, the others with their heads.
    """
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    if sum(widths) + len(_GAP) * (len(widths) - 1) <= WIDTH:
        return "\n".join(_GAP.join(map(str.ljust, row, widths)).rstrip() for row in [heads, *rows])
    return "\n\n".join(
        f"\n{_INDENT}".join([first, *(f"{head}: {text}" for head, text in
                                      zip(heads[1:], others, strict=True) if text)])
        for first, *others in rows)


@dataclass(frozen=True)
class Brief:
    """A few lines by their names, the first with the verdict on a claim."""

    lines: Mapping[str, str]
    claim: Claim
    verdict: Verdict

    def __html__(self) -> Markup:
        return html("brief", self)

    def __str__(self) -> str:
        (name, first), *others = self.lines.items()
        lines = [(name, f"{first} Verdict: {self.verdict.label}."), *others]
        return "\n".join(paragraph(f"{name}: {text}") for name, text in lines)


@dataclass(frozen=True, repr=False)
class View:
    """Rows of something, and what shows them: sentences, tables, and HTML as `Markup`."""

    rows: tuple[Any, ...]
    parts: Sequence[str | Table | Brief]

    @property
    def html(self) -> str:
        """The HTML as an ordinary text; to `Markup` nothing can be added that is not escaped."""
        return str(html("said", self.parts))

    def __repr__(self) -> str:
        """The parts as text, in lines that fit a terminal."""
        return "\n\n".join(paragraph(plain(part)) if isinstance(part, str) else str(part)
                           for part in self.parts)

    def _repr_html_(self) -> str:
        return self.html


_MACROS = ENVIRONMENT.from_string(
    Path(__file__).with_name("templates.html.j2").read_text(encoding="utf-8"), vars(wording)).module


def html(macro: str, *values: object) -> Markup:
    """A macro of the templates as HTML that is well-formed XML too, with all text escaped."""
    return getattr(_MACROS, macro)(*values).strip()


# --- claims


def every_claim(work: str | None = None) -> tuple[Row, ...]:
    """Every claim of the book, or of one work, with its verdict, by the order of the chapters.

    Raises InputError for an unknown work.
    """
    claims, records = load_claims(), load_records()
    if work is not None:
        one_of("chapter with claims", work, {claim.chapter for claim in claims})
        claims = [claim for claim in claims if claim.chapter == work]
    stale = stale_among(records)
    begun = {name.rpartition("-seed")[0] for name, _ in under_way().rows}
    return tuple((claim, judge(claim, records, stale, begun)) for claim in claims)


def by_chapter(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each chapter, which stand together."""
    return {chapter: list(found) for chapter, found in groupby(rows, lambda row: row[0].chapter)}


def headlines(rows: Iterable[Row]) -> list[Row]:
    """The rows of headline claims."""
    return [row for row in rows if row[0].tier == "headline"]


def counted(rows: Sequence[Row]) -> str:
    """How many claims have each verdict, stale ones apart: ``3 reproduced, 1 not attempted``."""
    found = Counter(verdict.label for _, verdict in rows)
    labels = [label for word in WORDS for label in (word, f"{word} (stale)")]
    return ", ".join(f"{found[label]} {label}" for label in labels if found[label]) or "–"


def counts_line(rows: Sequence[Row]) -> str:
    """The same after their number: ``4 claims: 3 reproduced, 1 not attempted``."""
    return f"{count(len(rows), 'claim')}: {counted(rows)}"


def kind_of(claim: Claim) -> str:
    """What a claim is: a result of a paper, a sentence of its text, or somebody else's."""
    if claim.by == "others":
        return "Third-party claims"
    if all(number.kind in ("exact", "source-error") for number in claim.compares):
        return "Statements and formulas"
    return "Headline results" if claim.tier == "headline" else "Other results"


def by_kind(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each kind of claims."""
    return {kind: [row for row in rows if kind_of(row[0]) == kind] for kind in _KINDS}


def assessed(rows: Sequence[Row]) -> str:
    """How the headline results stand, and then the other kinds of claims, in a few sentences."""
    return ". ".join(f"{kind}, {len(found)}: {counted(found)}"
                     for kind, found in by_kind(rows).items() if found) + "."


def summary() -> View:
    """How the claims of each work stand: results, sentences, and other people's apart."""
    rows, works, leads = every_claim(), [], config.book().leads
    for chapter, found in by_chapter(rows).items():
        headline, *others = by_kind(found).values()
        works.append([config.book().method(chapter),
                      html("dots", headline) + counted(headline) if headline else "–",
                      *map(counted, others), leads[chapter].judged_by if chapter in leads else ""])
    return View(rows, [assessed(rows), Table(
        "Claims of each work", ["Work", *_KINDS, "Judged by"], works, "cb-summary")])


def scorecard() -> View:
    """Every claim of the book with its verdict: the headline claims first, the others by work."""
    rows = every_claim()
    counts = counts_line(headlines(rows)).replace("claim", "headline claim", 1)
    parts = [assessed(rows), run_again(), *axes(by_kind(headlines(rows))["Headline results"]),
             claim_table(counts, headlines(rows))]
    for chapter, found in by_chapter(row for row in rows if row[0].tier != "headline").items():
        parts.append(claim_table(f"{config.book().method(chapter)}: supporting and minor claims "
                                 f"({counts_line(found)})", found, folded=True))
    return View(rows, parts)


def axes(rows: Iterable[Row]) -> list[Table]:
    """Published numbers and ours on a common axis, a table for each metric that several have.

    What was not measured has no dot. A trend has what it is compared with instead of a published
    number.
    """
    groups: dict[str, list[tuple[Claim, Comparison, Verdict]]] = {}
    for claim, verdict in rows:
        for number, part in zip(claim.compares, verdict.parts, strict=True):
            if axis := _axis_of(number, part):
                groups.setdefault(axis, []).append((claim, number, part))
    tables = []
    for name, found in groups.items():
        values = []
        for _, number, part in found:
            ours, ends, seeds = wording.marks(number, part).values()
            values += [number.value, part.than, ours, *ends, *seeds]
        known = [value for value in values if value is not None]
        low, high = min(known), max(known)
        if len(found) < 2 or low == high:
            continue
        found.sort(key=lambda row: row[2].n == 0)       # what was measured first
        place = partial(_on_axis, low, high)
        cells = [[html("link_to", claim, subject(claim, number)), _published(number),
                  html("axis", place, number, part), measured(number, part),
                  html("badge", part)] for claim, number, part in found]
        ticks = html("ticks", place, _round_values(low, high))
        tables.append(Table(
            f"{name[0].upper()}{name[1:]}: ◆ published, hollow where we have no run; ▏ a bound "
            "that ours should exceed or stay below; ● our mean with its 95% interval; ○ single "
            "seeds",
            [name, "published", ticks, "ours", "verdict"], cells, "cb-axes",
            folded=bool(tables) and not any(part.n for *_, part in found),
            lines=[f"{subject(claim, number)}: {_published(number)} → {measured(number, part)}"
                   for claim, number, part in found]))
    return tables


def _axis_of(number: Comparison, part: Verdict) -> str | None:
    """The axis on which a number stands; a spread, a difference and a p-value have none."""
    if number.metric is None or number.minus or number.statistic == "standard deviation":
        return None
    words, known = number.metric.split("_"), config.book().metrics.axes
    if words[-1] in ("p", "z") or (number.value is None and not part.n):
        return None
    return next((known[word] for word in reversed(words) if word in known), None)


def _on_axis(low: float, high: float, value: float) -> float:
    return round(8 + 304 * (value - low) / (high - low), 1)


def _round_values(low: float, high: float) -> list[float]:
    """The round numbers of an axis, such as 0.4, 0.6, 0.8 for one from 0.27 to 0.95."""
    from matplotlib.ticker import MaxNLocator  # takes a quarter of a second to import

    ticks = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
    return [float(f"{tick:.6g}") for tick in ticks if low <= tick <= high]


def _published(number: Comparison) -> str:
    return "–" if number.value is None else f"{number.value:.4g}"


def subject(claim: Claim, number: Comparison) -> str:
    """What a number is of, for readers of the source: ``TELL on MNIST: FCN accuracy``."""
    data = profile_of(number.profile).get("parameters", {}).get("dataset")
    known = config.book().catalog().get(data)
    label = known.label if known else data
    told = (number.told or wording.spelled(number.metric)).removeprefix(f"{label} ")
    return f"{config.book().method(claim.chapter)}{f' on {label}' if data else ''}: {told}"


def run_again() -> str:
    """How many records were run again, and how many agreed with whom, when and on what."""
    records = load_records()
    found = attestations(records)
    if not found:
        return f"None of {len(records)} records was run again yet: clusterbook verify does that."
    made: dict[tuple[str, ...], dict[str, bool]] = {}
    for one in found:
        place = made.setdefault((one.started[:10], one.by, processor(one.machine)), {})
        place[one.record] = not one.beyond
    told = [f"{sum(agree.values())} of {len(agree)} reruns by {by} on {used}, {day}"
            for (day, by, used), agree in sorted(made.items())]
    again = {one.record for one in found}
    alone = again - {one.record for one in found if not one.beyond}
    never: dict[tuple[str, str], list[int]] = {}
    for record in records:
        if record.name in alone:
            never.setdefault((record.profile, processor(record.machine)), []).append(record.seed)
    missed = [f"{profile} ({seed_list(seeds)}, recorded on {used})"
              for (profile, used), seeds in sorted(never.items())]
    return (f"Run again: {len(again)} of {len(records)} records. All numbers of a record agreed, "
            f"within their tolerances, in {'; '.join(told)}."
            + (f" On no machine so far: {'; '.join(missed)}." if missed else ""))


def claim_table(caption: str, rows: Iterable[Row], *, brief: bool = False, folded: bool = False
                ) -> Table:
    """Claims with their verdicts and numbers; as text, a paragraph a claim.

    If *brief*, as in a result box, a claim has no details, and a reason only if it is a headline of
    which nothing was measured.
    """
    cells, lines = [], []
    for claim, verdict in rows:
        cells.append([html(macro, claim, verdict, brief) for macro in ("claim", "measurements")])
        lines.append(f"{claim.id}: {verdict.label}. {verdict.reason}")
        lines += [f"{_INDENT}{number.stated}: {measured(number, part)}" + (
            f", {part.label}" if len(claim.compares) > 1 else "")
            for number, part in numbers(claim, verdict)[0]]
    heads = ["Claim", "Published ± our tolerance → ours, mean ± SD"]
    css = "cb-claims cb-result" if brief else "cb-claims"
    return Table(caption, heads, cells, css, folded, lines)


def verdicts(work: str) -> View:
    """The verdicts on a work's claims, folded; InputError for an unknown work."""
    rows = every_claim(work)
    return View(rows, [claim_table(counts_line(rows), rows, folded=True)])


def in_brief(work: str) -> View:
    """What a work is known for: published, ours, and what is open; for a chapter's first screen.

    Raises InputError for a work without an entry under ``leads`` in the book's file.
    """
    lead, rows = config.pick("chapter with a lead", work, config.book().leads), every_claim(work)
    claim, verdict = config.pick("claim", lead.claim, {row[0].id: row for row in rows})
    runs = recorded(work, lead.profile)
    ours = ", ".join(f"{told} {spread(fmean(values), stdev(values) if len(values) > 1 else None)}"
                     for metric, told in lead.metrics.items() if (values := runs.values(metric)))
    found = by_kind(headlines(rows))["Headline results"]
    goes_on = [f" In progress: {name}{text[text.index(': epoch'):]}."
               for name, text in under_way().rows if name.startswith(f"{work}-")]
    quoted = ", as others quote it" if claim.seen == "second-hand" else ""
    lines = {"Published": f"{claim.says} ({claim.source.partition(';')[0]}{quoted}).",
             "Ours": f"{ours} ({runs.label})." if ours else "not measured.",
             "Headline results": f"{counted(found)}.{''.join(goes_on)}"}
    return View(rows, [Brief(lines, claim, verdict)])


def result(work: str) -> View:
    """The result box of a work: its headline claims, and the others folded.

    Raises InputError for an unknown work.
    """
    rows = every_claim(work)
    others = [row for row in rows if row[0].tier != "headline"]
    how = Markup('<p class="cb-source">In the drawings the published number is in the middle, the '
                 'band is our tolerance, the filled dot our number, the line its 95% interval, and '
                 'hollow dots are single seeds; an arrow is more than four tolerances away. {} '
                 '<a href="../book/scorecard.html#how-to-read-a-verdict">How to read a verdict</a>'
                 '</p>').format(assessed(rows))
    return View(rows, [claim_table("Results, claim by claim", headlines(rows), brief=True),
                       claim_table(f"The other {count(len(others), 'claim')}", others, brief=True,
                                   folded=True), how])


# --- records


def status() -> View:
    """Every recorded profile: its cost, machine and code; rows of name and cells."""
    records, rows, profiles = load_records(), [], []
    code = Markup('<code id="{0}">{0}</code>')
    stale, link = stale_among(records), Markup('<a href="../records/{0.name}.json">{0.seed}</a>')
    for name, group in groupby(records, key=lambda record: record.profile):
        found = list(group)
        cells = described(found)
        if any(record.name in stale for record in found):
            cells["Code"] += ", stale"
        profiles.append((name, cells))
        rows.append([code.format(name), Markup(" ").join(map(link.format, found)),
                     *cells.values()])
    heads = ["Profile", "Seeds", *(profiles[0][1] if profiles else ())]
    return View(tuple(profiles), [Table(count(len(profiles), "recorded profile"), heads, rows,
                                        "cb-status")])


def described(records: Sequence[Record]) -> dict[str, str]:
    """Cost, machine and code of the runs of a profile; each record has more."""
    memory = [record.peak_memory_mb for record in records if record.peak_memory_mb is not None]
    machines = [f"{processor(used)}, threads: {used['threads']}, cores: {used['cores']}"
                for used in (record.machine for record in records)]
    commits = [((record.git["commit"] or "")[:8] or "no commit") + (
        "" if record.git["clean"] else ", changed") + (
        f", seed {record.seed} from {record.taken_from}" if record.taken_from else "")
        for record in records]
    return {"Time per seed": took(records),
            "Peak memory": f"{max(memory):,.0f} MiB" if memory else "not known",
            "Machine": "; ".join(dict.fromkeys(machines)),
            "Code": "; ".join(dict.fromkeys(commits))}


def processor(used: Mapping[str, Any]) -> str:
    """The GPU of a machine, or its processor with its instructions, which early records lack."""
    kind = {"DEFAULT": "SSE"}.get(used.get("instructions"), used.get("instructions"))
    return used["gpu"] or used["cpu"] + (f" ({kind})" if kind else "")


def took(records: Sequence[Record]) -> str:
    """The mean wall time of some runs, in words.

    Early records of resumed runs have the time of their last piece only; their training's own
    clock, which goes on over the pieces, is a lower bound.
    """
    seconds = [record.seconds for record in records]
    bounds = [max(record.seconds, record.metrics.get("seconds_per_epoch", 0)
                  * record.parameters.get("epochs", 0)) for record in records]
    return ("more than " if bounds != seconds else "") + duration(fmean(bounds))


def under_way() -> View:
    """Runs that were stopped and go on later, as their progress files say."""
    folder, rows = config.root() / "data" / "records" / "under-way", []
    for path in sorted(folder.glob("*.json")):
        run = config.load_json(path)
        since = run["started"][:10]
        rows += [(path.stem, f"{so_far(name, report)}, in pieces since {since}"
                  + _last_score(report["rows"])) for name, report in run["trainings"].items()]
    return View(tuple(rows), [Table("Runs under way", ["Run", "So far"], rows) if rows else
                              "No recorded run is under way."])


def _last_score(rows: Sequence[Mapping[str, Any]]) -> str:
    """The book's main metric where these rows of a curve measured it last: a part of a sentence."""
    for row in reversed(rows):
        for metric in config.book().metrics.main:
            if metric in row:
                return f"; {wording.spelled(metric)} {row[metric]:.3f} at epoch {row['epoch']:,}"
    return ""
