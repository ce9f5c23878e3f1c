"""Views of claims and verdicts: scorecard, result box, what a chapter says; and any table.

A view is HTML on a page, which ``templates.html.j2`` makes, and text elsewhere.
"""

from __future__ import annotations

import math
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from clusterbook.checks import one_of
from clusterbook.errors import InputError
from clusterbook.figures.steps import ENVIRONMENT

from . import config, wording
from .claims import Claim, load_claims
from .formats import columns, count, paragraph
from .machine import git
from .records import MANIFEST, load_records
from .verdicts import WORDS, judge, stale_among
from .wording import USUAL, Row, by_chapter, compared, counts_line, measured, numbers, offsets

_GROUPS = {"Headline results": "result", "Other results": "result",
           "Sentences of the text": "sentence", "Claims of other people": "sentence"}
"""The kinds of claims, and the field of `verdicts.Word` that sums up their verdicts."""
_STRIPS = ("Green is our tolerance around the published number, the filled dot ours, the line its "
           "95% interval; hollow dots are seeds.")
_FOLDED = 8     # more claims than this would stand between a reader and the chapter


@dataclass(frozen=True)
class Table:
    """Cells under heads, as HTML or as text; a cell is a text, or HTML as `Markup`.

    ``groups`` maps headings, or an empty text, to rows. ``css`` has classes of the table and
    ``classes`` those of columns. Each row's first cell is its head unless ``headed`` is false, and
    the row's id if ``named``. With ``folded``, a summary, the table is in an element ``details``
    with these ``attributes``.
    """

    caption: str
    heads: Sequence[str]
    groups: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    css: str = ""
    classes: Mapping[str, str] = field(default_factory=dict)
    scrolls: bool = True
    headed: bool = True
    named: bool = False
    folded: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __html__(self) -> Markup:
        return html("table", self)

    def __str__(self) -> str:
        rows = [[*map(plain, row)] for rows in self.groups.values() for row in rows]
        below = f"\n\n{columns(self.heads, rows)}" if rows else ""
        return paragraph(self.caption) + below


def plain(cell: str) -> str:
    """A cell as text: of HTML what shows before anything is unfolded."""
    return (Markup(str(cell).partition("<details")[0]).striptags()
            if isinstance(cell, Markup) else cell)


@dataclass(frozen=True, repr=False)
class View:
    """Rows of something; displays as ``page`` in a notebook and as ``texts`` elsewhere."""

    rows: tuple[Any, ...]
    page: Markup
    texts: Sequence[str | Table]

    @property
    def html(self) -> str:
        """The HTML as an ordinary text: to `Markup` nothing can be added that is not escaped."""
        return str(self.page)

    def __repr__(self) -> str:
        """The texts and tables, in lines that fit a terminal."""
        return "\n\n".join(paragraph(text) if isinstance(text, str) else str(text)
                           for text in self.texts)

    def _repr_html_(self) -> str:
        return self.html


class Scorecard(View):
    """Claims and their verdicts; ``rows`` are pairs of both."""

    def summary(self) -> View:
        """How the claims of each work stand: results, sentences, and other people's apart."""
        lead = assessed(self.rows)
        found = Table("Claims of each work", ["Work", *_GROUPS], css="cb-summary", groups={"": [
            [config.book().method(chapter), *standing(rows).values()]
            for chapter, rows in by_chapter(self.rows).items()]})
        return View(self.rows, html("said", [found], lead), [lead, found])

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
                if name not in now or WORDS[now[name]].level < WORDS[before].level]


def scorecard() -> Scorecard:
    """Every claim of the book with its verdict: the headline claims first, the others by work."""
    rows = judged(sorted(load_claims(), key=lambda claim: config.book().order(claim.chapter)))
    headline = [row for row in rows if row[0].tier == "headline"]
    others = {f"{config.book().method(chapter)}: supporting and minor claims": found
              for chapter, found in by_chapter(row for row in rows if row not in headline).items()}
    lead, kept = assessed(rows), manifest_line()
    parts = [Markup('<p class="cb-source">{} {}</p>').format(kept, _STRIPS), plot(headline),
             verdict_table(
                 headline, counts_line(headline).replace("claim", "headline claim", 1),
                 whole=True)]
    parts += [verdict_table(found, caption, whole=True, folded=f"{caption} ({counts_line(found)})")
              for caption, found in others.items()]
    texts = [in_columns(found, f"{caption}: {counts_line(found)}")
             for caption, found in {"Headline claims": headline, **others}.items()]
    return Scorecard(rows, html("said", parts, lead), [lead, kept, *texts, counts_line(rows)])


def plot(headline: Sequence[Row]) -> Table:
    """The headline numbers that were measured, by work, each a strip."""
    groups = {}
    for chapter, rows in by_chapter(headline).items():
        groups[config.book().method(chapter)] = [
            [Markup('<a href="#{}">{}: {}{}</a>').format(
                claim.id, number.profile.removeprefix(f"{chapter}-"), compared(number),
                "" if number.statistic in USUAL else f", {number.statistic}"),
             f"{part.ours:.4g}", html("strip", number, part)]
            for claim, verdict in rows for number, part in numbers(claim, verdict)[0]
            if offsets(number, part)]
    return Table("Headline numbers that we measured, and how far they are from the published ones",
                 ["Published ± our tolerance", "Ours", "Distance from published"], groups,
                 css="cb-plot")


def manifest_line() -> str:
    """Whether the records are those that the manifest lists, and which are not."""
    records = load_records()
    listed = config.load_json(config.root() / "data" / "records" / MANIFEST)
    missing = {name.removesuffix(".json") for name in listed if name.endswith(".json")} - {
        record.name for record in records}
    wrong = sorted([record.name for record in records if record.doubts] + [*missing])
    return f"{count(len(records), 'record')}; " + (
        f"in doubt, or not those of the manifest: {', '.join(wrong)}." if wrong else
        "each matches its checksum in data/records/manifest.json.")


def judged(claims: Sequence[Claim]) -> tuple[Row, ...]:
    """The claims with their verdicts."""
    chapters = {claim.chapter for claim in claims}
    records = [record for record in load_records() if record.chapter in chapters]
    stale = stale_among(records)
    return tuple((claim, judge(claim, records, stale)) for claim in claims)


def assessed(rows: Sequence[Row]) -> str:
    """How the headline results stand, and then the other kinds of claims, in a few sentences."""
    told = standing(rows)
    parts = [f"{group}, {len(found)}: {told[group]}"
             for group, found in grouped(rows).items() if found]
    return f"{'. '.join(parts)}."


def grouped(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Claims by what they are: a result of a paper, a sentence of its text, or somebody else's."""
    groups: dict[str, list[Row]] = {group: [] for group in _GROUPS}
    for claim, verdict in rows:
        sentence = all(number.kind in ("exact", "source-error") for number in claim.compares)
        groups["Claims of other people" if claim.by == "others" else
               "Sentences of the text" if sentence else
               "Headline results" if claim.tier == "headline" else
               "Other results"].append((claim, verdict))
    return groups


def standing(rows: Iterable[Row]) -> dict[str, str]:
    """How many claims of each kind stand how: ``3 reproduced, 1 not run``; a dash for none."""
    told = {}
    for group, found in grouped(rows).items():
        name = {word: getattr(about, _GROUPS[group]) for word, about in WORDS.items()}
        counts = Counter(name[verdict.word] for _, verdict in found)
        told[group] = ", ".join(f"{counts[name]} {name}" for name in dict.fromkeys(name.values())
                                if counts[name]) or "–"
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
    if not rows:
        return View(rows, Markup('<p class="cb-say">{}</p>').format(counts), [counts])
    folded = f"{counts}. Show them." if len(rows) > _FOLDED else ""
    return View(rows, html("said", [verdict_table(rows, counts, here=here, folded=folded)]),
                [in_columns(rows, counts)])


def result(work: str) -> View:
    """The result box of a work: published against ours.

    One row for each headline claim, with at most four of its numbers, or what kept it from being
    measured. The last line counts all verdicts. Raises InputError for an unknown work.
    """
    claims = load_claims()
    one_of("chapter with claims", work, {claim.chapter for claim in claims})
    rows = judged([claim for claim in claims if claim.chapter == work])
    headline = [row for row in rows if row[0].tier == "headline"]
    under_way = {path.stem.rpartition("-seed")[0] for path in
                 (config.root() / "data" / "records" / "under-way").glob("*.json")}
    shown = []
    for claim, verdict in headline:
        found = [pair for pair in numbers(claim, verdict)[0] if pair[0].check is None]
        why = verdict.reason if verdict.word in ("cannot compare", "not attempted") else (
            "" if found else "Demonstrated in code.")
        begun = not verdict.n and under_way & {number.profile for number in claim.compares}
        shown.append([html("headline", claim, verdict), html("told", found[:4], why, begun)])
    box = Table("What was reproduced", ["Claim", "Published (or threshold) → ours, mean ± SD"],
                {"": shown}, css="cb-claims")
    counts = counts_line(rows)
    return View(rows, html("said", [box, html("counted", counts)], also=" cb-result"),
                [in_columns(headline, box.caption), f"In all, {counts}."])


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
            number, part = (numbers(claim, verdict)[0] or [(claim.compares[0], None)])[0]
            ours = f" {part.ours:.4g}," if part and part.ours is not None else ""
            told.append((verdict, about if number.value is None else
                         f"{about}:{ours} published {number.value}"))
        cells = config.load_json(config.root() / "notebooks" / f"{work}.ipynb").get("cells", [{}])
        time = re.search(r"[*]Runtime[.][*]{2} ([^.,]*)", "".join(cells[0].get("source", "")))
        shown.append((work, config.book().method(work), sentence, told,
                      f"Headline results: {standing(rows)['Headline results']}", time and time[1],
                      picture))
    texts = [f"{name}: {sentence} " + "; ".join(
        [*(f"{words} ({verdict.label})" for verdict, words in told), counts, time or ""])
        for _, name, sentence, told, counts, time, _ in shown]
    return View(tuple(shown), html("said", [html("card", *one) for one in shown],
                                   also=" cb-cards"), texts)


def table(rows: Mapping[str, Mapping[str, ArrayLike]], caption: str, *, digits: int = 3,
          best: Callable[..., str] | None = max) -> View:
    """A table of measured numbers, of several values their mean ± standard deviation.

    *rows* maps names to columns to numbers, one or one per seed; what a row lacks, or is NaN, is a
    dash. The *best* mean of each column (``max``, ``min`` or None) is in bold if it differs from
    each other one by more than the larger of both standard deviations; a single run never is.
    """
    heads = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells: dict[str, list[str]] = {name: [name] for name in rows}
    for column in heads:
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
            bold = name == top and others and all(others)
            cells[name].append(Markup("<strong>{}</strong>").format(text) if bold else text)
    shown = Table(caption, ["", *heads], {"": [*cells.values()]}, css="cb-scores")
    return View(tuple(rows.items()), html("said", [shown]), [shown])


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


# --- claims in tables


def verdict_table(rows: Sequence[Row], caption: str, *, whole: bool = False, here: bool = False,
                  folded: str = "") -> Markup:
    """Claims as HTML: a row for each of a claim's numbers, and what lies behind it to unfold.

    With *whole*, as on the scorecard, rows have ids and lead to records and profiles.
    """
    heads = ["Claim", "What is compared", "Ours, mean ± SD", "Distance from published"]
    return html("verdicts", Table(caption, heads, css="cb-claims", folded=folded), rows, whole,
                here)


def in_columns(rows: Sequence[Row], caption: str) -> Table:
    """Claims for a terminal: a row for each, and one for each of several measured numbers.

    The reason of the verdict stands below; it is left out where the word says it all.
    """
    cells: list[list[str]] = []
    for claim, verdict in rows:
        found, rest = numbers(claim, verdict)
        first = [claim.id, rest, "–" if rest else "", verdict.label]
        if len(found) == 1 and not rest:
            (number, part), found = found[0], []
            first[1:3] = number.stated, measured(number, part)
        cells += [first, *([f"· {number.id.removeprefix(f'{claim.id}-')}", number.stated,
                            measured(number, part), part.label] for number, part in found)]
        if verdict.label not in ("reproduced", "confirmed"):
            cells.append([verdict.reason])
    return Table(caption, ["claim", "the source", "ours", "verdict"], {"": cells})


# --- HTML

_MACROS = ENVIRONMENT.from_string(
    Path(__file__).with_name("templates.html.j2").read_text(encoding="utf-8"),
    vars(wording) | {"plain": plain}).module


def html(macro: str, *values: object, **named: object) -> Markup:
    """A macro of the templates as HTML that is well-formed XML too, with all text escaped."""
    return getattr(_MACROS, macro)(*values, **named).strip()
