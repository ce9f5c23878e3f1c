"""Views of the evidence, as text and as HTML: scorecard, verdicts of a chapter, status, errata."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import groupby
from operator import ge
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal, NamedTuple
from zipfile import ZipFile

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure
from pydantic import Strict, model_validator
from pydantic.dataclasses import dataclass as model

from .. import figures, paths
from ..checks import one_of
from ..errors import InputError
from .claims import STRICT, Claim, Seen, load_claims, read_folder
from .records import METHODS, Record, git, load_records
from .templates import MACROS
from .verdicts import WORDS, Lineage, Verdict, count, is_stale, judge, load_lineage, present_code

Row = tuple[Claim, Verdict]

WIDTH = 100
"""Columns of a terminal that the plain text fits in."""
REPLACED = "recorded by earlier code, shown to be bit-identical on short runs"

_COLUMNS = (33, 24, 23, 14)     # claim, the source, ours, verdict: with gaps of two, `WIDTH`
# Of each word: a step down is a regression; the colors can be told from each other in gray too.
_STANDING = {"reproduced": 3, "confirmed": 3, "refuted": 3, "indicative": 2, "inconclusive": 1,
             "not reproduced": 1, "cannot compare": 1, "not attempted": 0}
_COLORS = dict(zip(WORDS, ("#009E73", "#0072B2", "#B5D99C", "#F0E442", "#D55E00", "#8E3B73",
                           "#B8BEC7", "#FFFFFF"), strict=True))
_CHAPTER_PAGE = "../notebooks/{chapter}.html"
_FOLDED = 8     # more claims than this would stand between a reader and the chapter


@dataclass(frozen=True, repr=False)
class View:
    """Rows of something; displays as HTML on a page and as text elsewhere."""

    rows: tuple
    text: str
    html: str

    def __repr__(self) -> str:
        """The plain text."""
        return self.text

    def _repr_html_(self) -> str:
        return self.html


@dataclass(frozen=True)
class Scorecard:
    """Claims and their verdicts; prints as text, displays as a table."""

    rows: tuple[Row, ...]

    def __str__(self) -> str:
        """Plain text of at most 100 columns, by chapter, with the counts at the end."""
        parts = [f"{chapter}: {counts_line(rows)}\n\n{text_table(rows)}"
                 for chapter, rows in by_chapter(self.rows).items()]
        return "\n\n".join([*parts, counts_line(self.rows)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        caption = f"What holds: {counts_line(self.rows)}"
        return html("scorecard", rows=self.rows, caption=caption, address=_CHAPTER_PAGE)

    def counts(self) -> dict[str, dict[str, int]]:
        """Chapter → verdict → number of claims; stale ones apart, as ``reproduced (stale)``."""
        return {chapter: counted(rows) for chapter, rows in by_chapter(self.rows).items()}

    def figure(self) -> Figure:
        """A bar a work, divided by verdict; stale verdicts are hatched."""
        stale = {f"{word} (stale)": color for word, color in _COLORS.items()}
        return figures.stacked_bars(self.counts(), quantity="claims", colors=_COLORS | stale,
                                    hatched=list(stale))

    def describe(self) -> str:
        """The same as `figure` in words: ``tell: 108 claims: 5 reproduced, …``."""
        return "; ".join(f"{chapter}: {counts_line(rows)}"
                         for chapter, rows in by_chapter(self.rows).items())

    def words(self) -> dict[str, str]:
        """Claim → verdict word, which `regressions` of a later scorecard takes."""
        return {claim.id: verdict.word for claim, verdict in self.rows}

    def regressions(self, previous: Mapping[str, str]) -> list[str]:
        """A line for each claim whose verdict fell since *previous*, or that is gone.

        *previous* is from `at_last_tag`. Down is from reproduced, confirmed or refuted to
        indicative, from there to inconclusive, not reproduced or cannot compare, and from anything
        to not attempted.
        """
        now, found = self.words(), []
        for name, before in previous.items():
            if name not in now:
                found.append(f"{name}: {before} → no longer a claim")
            elif _STANDING[now[name]] < _STANDING[before]:
                found.append(f"{name}: {before} → {now[name]}")
        return found


def scorecard(claims: Iterable[Claim] | None = None, records: Iterable[Record] | None = None, *,
              fingerprints: Mapping[str, str] | None = None,
              contents: Mapping[str, str] | None = None,
              lineage: Lineage | None = None) -> Scorecard:
    """Every claim with its verdict, ordered by chapter as the claims' files are.

    All arguments default to the book's own; for the last three see `judge`.
    """
    claims = load_claims() if claims is None else claims
    records = load_records() if records is None else list(records)
    if fingerprints is None:
        fingerprints = present_code(record.chapter for record in records)
    present = {"fingerprints": fingerprints, "contents": contents, "lineage": lineage}
    return Scorecard(tuple((claim, judge(claim, records, **present))
                           for claim in sorted(claims, key=lambda claim: claim.chapter)))


def say(what: str | Iterable[str], *, here: bool = True) -> View:
    """The verdicts of a chapter, of a claim, or of several claims in the order given.

    Displays the counts and one row for each claim. With *here*, links stay on this page (the
    claims' chapter); otherwise they lead to that chapter. Raises InputError for a name that is
    neither a chapter nor a claim.
    """
    claims = {claim.id: claim for claim in load_claims()}
    chapters = {claim.chapter for claim in claims.values()} | set(paths.chapters())
    if isinstance(what, str) and what in chapters:
        chosen = [claim for claim in claims.values() if claim.chapter == what]
    elif isinstance(what, str):
        one_of("chapter or claim", what, [*chapters, *claims])
        chosen = [claims[what]]
    else:
        names = list(what)
        for name in names:
            one_of("claim", name, claims)
        chosen = [claims[name] for name in names]
    wanted = {claim.chapter for claim in chosen}
    records = [record for record in load_records() if record.chapter in wanted]
    fingerprints = present_code(record.chapter for record in records)
    rows = tuple((claim, judge(claim, records, fingerprints=fingerprints)) for claim in chosen)
    counts = counts_line(rows)
    return View(rows, f"{counts}\n\n{text_table(rows)}" if rows else counts,
                html("said", rows=rows, caption=counts, folded=len(rows) > _FOLDED,
                     address="" if here else _CHAPTER_PAGE))


def at_last_tag() -> dict[str, str] | None:
    """Claim → verdict word at the checkout's last git tag; None where there is no tag.

    Claims, records and code are read from git and judged as they stood then. Raises InputError when
    today's rules do not allow the tag's claims or records.
    """
    root = paths.checkout()
    tag = git(root, "describe", "--tags", "--abbrev=0") if root else None
    if not tag:
        return None
    wanted = ("data/claims", "data/records", "data/lineage.yaml", "src/clusterbook")
    there = [name for name in wanted if git(root, "ls-tree", "--name-only", tag, name)]
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if there:
            git(root, "archive", f"--output={folder / 'tag.zip'}", tag, *there)
            ZipFile(folder / "tag.zip").extractall(folder)
        try:
            claims = load_claims(folder / "data" / "claims")
            records = load_records(folder / "data" / "records")
            lineage = load_lineage(folder / "data" / "lineage.yaml")
        except InputError as error:
            raise InputError(f"the tag {tag} can't be compared with: {error}") from error
        code = present_code((record.chapter for record in records),
                            folder / "src" / "clusterbook")
        # The content of the tag's data sets can't be known without running its code.
        return scorecard(claims, records, fingerprints=code, contents={}, lineage=lineage).words()


# --- verdicts as text


def by_chapter(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each chapter."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[0].chapter, []).append(row)
    return found


def counts_line(rows: Sequence[Row]) -> str:
    """The number of claims, and with each verdict: ``7 claims: 3 reproduced, …``."""
    parts = ", ".join(f"{n} {label}" for label, n in counted(rows).items())
    return count(len(rows), "claim") + (f": {parts}" if parts else "")


def counted(rows: Iterable[Row]) -> dict[str, int]:
    """The number of claims with each verdict, in the vocabulary's order.

    Stale verdicts are counted apart, under ``reproduced (stale)`` and so on.
    """
    found = Counter(verdict.label for _, verdict in rows)
    labels = [label for word in WORDS for label in (word, f"{word} (stale)")]
    return {label: found[label] for label in labels if found[label]}


def measured(claim: Claim, verdict: Verdict) -> str:
    """The result of our runs, with mean ± standard deviation over seeds; a dash without runs."""
    if verdict.n == 0:
        return "–"
    if claim.check is not None:
        return count(verdict.n, "run")
    seeds = count(verdict.n, "seed")
    over = f"{spread(verdict.mean, verdict.sd)} ({seeds})"
    if claim.kind == "trend":
        return f"holds in {round(verdict.ours * verdict.n)} of {seeds}, {over}"
    if claim.statistic in ("mean", "single") or verdict.ours is None:
        return over
    return f"{verdict.ours:.4g} ({claim.statistic}), mean {over}"


def spread(mean: float, sd: float | None) -> str:
    """Mean ± standard deviation, both with as many decimals as the deviation's two digits need.

    Examples
    --------
    >>> spread(10.0243, 0.0171)
    '10.024 ± 0.017'
    """
    if not sd:
        return f"{mean:.4g}" + ("" if sd is None else " ± 0")
    decimals = min(max(1 - math.floor(math.log10(sd)), 0), 6)
    return f"{mean:.{decimals}f} ± {sd:.{decimals}f}"


def text_table(rows: Sequence[Row]) -> str:
    """Plain text of at most `WIDTH` columns: one line a claim (more where it wraps), reasons below.

    The reason is left out where the word says it all: *reproduced* and *confirmed*.
    """
    lines = _aligned("claim", "the source", "ours", "verdict")
    for claim, verdict in rows:
        lines += _aligned(claim.id, claim.stated, measured(claim, verdict), verdict.label)
        if verdict.label not in ("reproduced", "confirmed"):
            lines += textwrap.wrap(verdict.reason, WIDTH - 4, initial_indent="    ",
                                   subsequent_indent="    ")
    return "\n".join(lines)


def _aligned(*cells: str) -> list[str]:
    """One row of text, each cell wrapped within its column."""
    wrapped = [textwrap.wrap(cell, width) for cell, width in zip(cells, _COLUMNS, strict=True)]
    return ["  ".join((lines[i] if i < len(lines) else "").ljust(width)
                      for lines, width in zip(wrapped, _COLUMNS, strict=True)).rstrip()
            for i in range(max(map(len, wrapped)))]


def runs(names: Iterable[str]) -> str:
    """Records by profile and seed: ``tell-mnist-paper, seeds 0–4``.

    Examples
    --------
    >>> runs(["tell-digits-seed0", "tell-digits-seed1", "tell-digits-seed5"])
    'tell-digits, seeds 0–1, 5'
    """
    return "; ".join(f"{profile}, seed{'s' if len(seeds) > 1 else ''} {_ranges(seeds)}"
                     for profile, seeds in seeds_of(names).items())


def seeds_of(names: Iterable[str]) -> dict[str, list[int]]:
    """The seeds of each profile among records, in order."""
    seeds: dict[str, list[int]] = {}
    for name in names:
        profile, _, seed = name.rpartition("-seed")
        seeds.setdefault(profile, []).append(int(seed))
    return {profile: sorted(found) for profile, found in seeds.items()}


def _ranges(seeds: Sequence[int]) -> str:
    """Whole numbers in order, neighbors drawn together."""
    parts = []
    for _, group in groupby(enumerate(seeds), key=lambda pair: pair[1] - pair[0]):
        found = [seed for _, seed in group]
        parts.append(str(found[0]) if len(found) == 1 else f"{found[0]}–{found[-1]}")
    return ", ".join(parts)


# --- recorded profiles: cost, machine, code


class Profile(NamedTuple):
    """The recorded runs of one profile, in words; ``cells`` are by the heads of the columns."""

    name: str
    chapter: str
    seeds: list[int]
    parameters: dict[str, str]
    cells: dict[str, str]


def status(records: Iterable[Record] | None = None) -> View:
    """Every profile of some records (default: the book's): its settings, cost, machine and code."""
    records = load_records() if records is None else list(records)
    code = present_code(record.chapter for record in records)
    profiles = []
    for (chapter, name), group in groupby(records, key=lambda r: (r.chapter, r.profile)):
        found = list(group)
        since = ""
        if any(is_stale(record, code) for record in found):
            since = ", stale"
        elif any(record.code != code.get(chapter) for record in found):
            since = f", {REPLACED}"
        parameters = {
            key: ("none" if value in ([], None, "") else str(value))
            + (" (assumed)" if key in found[0].assumed else "")
            for key, value in found[0].parameters.items() if key != "seed"}
        profiles.append(Profile(name, chapter, [record.seed for record in found], parameters,
                                described(found, since)))
    return View(
        tuple(profiles),
        "\n\n".join("\n".join([profile.name, *(f"    {head}: {cell}"
                                               for head, cell in profile.cells.items())])
                    for profile in profiles),
        html("status", caption=f"{len(profiles)} recorded profiles",
             heads=["Profile", *(profiles[0].cells if profiles else ())],
             groups=groupby(profiles, key=lambda profile: profile.chapter)))


def described(records: Sequence[Record], since: str = "") -> dict[str, str]:
    """Cost, machine and code of the runs of a profile; *since* is said of the code."""
    memory = [r.peak_memory_mb for r in records if r.peak_memory_mb is not None]
    kept = [f"seed {record.seed}, {file.stat().st_size / 1e6:.1f} MB" for record in records
            if record.path and (file := record.path.with_suffix(".pt")).is_file()]

    def each(of: Callable[[Record], str]) -> str:
        return "; ".join(dict.fromkeys(map(of, records)))

    return {
        "Seeds": " ".join(str(record.seed) for record in records),
        "Time, a seed": took(records),
        "Peak memory": f"{max(memory):,.0f} MiB" if memory else "not known",
        "Machine": each(_machine),
        "Versions": each(_versions),
        "Date": each(lambda record: record.started[:10]),
        "Code": each(_commit) + since,
        "Trained model": "; ".join(kept) or "not kept",
    }


def took(records: Sequence[Record]) -> str:
    """The mean wall time of some runs, in words.

    Early records of resumed runs have the time of their last piece only; their training's own
    clock, which goes on over the pieces, is a lower bound.
    """
    seconds = [record.seconds for record in records]
    trained = [record.metrics.get("seconds_per_epoch", 0) * record.parameters.get("epochs", 0)
               for record in records]
    mean = duration(fmean(map(max, seconds, trained)))
    return mean if all(map(ge, seconds, trained)) else f"more than {mean}"


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


def _machine(record: Record) -> str:
    machine = record.machine
    return (f"{machine['gpu'] or machine['cpu']}, threads: {machine['threads']}, "
            f"cores: {machine['cores']}")


def _versions(record: Record) -> str:
    shown = ("python", "torch", "numpy", "scikit-learn")
    return ", ".join(f"{name} {record.versions[name]}" for name in shown if name in record.versions)


def _commit(record: Record) -> str:
    if record.git["commit"] is None:
        return "no commit"
    return record.git["commit"][:8] + ("" if record.git["clean"] else ", changed")


# --- errata: defects of papers, released code and documents


@model(frozen=True, config=STRICT)
class Erratum:
    """One defect, an entry of ``data/errata/<work>.yaml``; the fields are the keys of the file.

    ``kind`` is ``paper``; ``code``, released by the authors; ``document``, by others; or
    ``library``, an implementation that others install. ``stands`` and ``right`` are the wrong and
    the right statement, ``changes`` says which published numbers change, ``reported`` where it was
    reported (or ``no``). An expectation of the page `errata` demonstrates it (``check``), or
    ``not_demonstrated`` says why no code can.
    """

    id: str
    work: str
    title: str
    kind: Literal["paper", "code", "document", "library"]
    where: str
    seen: Seen
    stands: str
    right: str
    changes: str
    reported: str | Literal[False]      # YAML reads a bare `no` as false
    claims: Annotated[tuple[str, ...], Strict(False)] = ()
    check: str | None = None
    not_demonstrated: str | None = None

    @model_validator(mode="after")
    def _is_demonstrated_or_says_why_not(self) -> Erratum:
        if (self.check is None) == (self.not_demonstrated is None):
            raise ValueError("either check, which demonstrates it, or not_demonstrated, which says "
                             "why none does", "not_demonstrated")
        return self


def load_errata(folder: Path | str | None = None) -> list[Erratum]:
    """Every erratum of a folder (default: the book's), by work and line.

    Raises InputError, beginning with the file and the line, for an entry that is not valid.
    """
    found = read_folder(folder or paths.root() / "data" / "errata", Erratum, "erratum", "work")
    return sorted(found, key=lambda erratum: list(METHODS).index(erratum.work)
                  if erratum.work in METHODS else len(METHODS))


def errata(work: str | None = None, *, demonstrated: bool | None = None) -> View:
    """The table of all errata, or of one work's: tell, idc, deepcluster or weights.

    With *demonstrated*, only those that a check demonstrates; with False only the others, in full,
    because nothing else on the page tells of them. Raises InputError for an unknown work.
    """
    rows = load_errata()
    works = {erratum.work for erratum in rows}
    if work is not None:
        one_of("work with errata", work, works)
    rows = [row for row in rows if work in (None, row.work)
            and demonstrated in (None, row.check is not None)]
    if demonstrated is False:
        return _in_full(rows)
    lines = (f"{row.id} ({row.kind}{', by a cell' if row.check else ''}): {row.title}"
             for row in rows)
    groups = {work: list(group) for work, group in groupby(rows, key=lambda row: row.work)}
    return View(
        tuple(rows),
        "\n".join([textwrap.fill(f"{_kinds(rows)}.", WIDTH), "", *(
            textwrap.fill(line, WIDTH, subsequent_indent="    ") for line in lines)]),
        html("errata", groups=groups, caption=_kinds(rows), counts=_kinds))


def erratum(id: str) -> View:
    """One erratum in full, with links to its claims and chapters; InputError if it is unknown."""
    known = {found.id: found for found in load_errata()}
    one_of("erratum", id, known)
    return _in_full([known[id]])


def _in_full(rows: Sequence[Erratum]) -> View:
    claims = {claim.id: claim for claim in load_claims()}
    shown = [html("erratum", row=row, parts=_parts(row), claims=[claims[id] for id in row.claims])
             for row in rows]
    return View(tuple(rows), "\n\n".join(map(_text, rows)), "\n".join(shown))


def _kinds(rows: Sequence[Erratum]) -> str:
    """``70 errata: 30 in papers, …; 50 demonstrated by a cell, 9 reported``."""
    of = Counter(erratum.kind for erratum in rows)
    words = {"paper": "in papers", "code": "in released code", "document": "in documents",
             "library": "in libraries"}
    kinds = ", ".join(f"{of[kind]} {where}" for kind, where in words.items() if of[kind])
    shown = sum(erratum.check is not None for erratum in rows)
    reported = sum(bool(erratum.reported) for erratum in rows)
    total = f"{len(rows)} errat" + ("um" if len(rows) == 1 else "a")
    return f"{total}: {kinds}; {shown} demonstrated by a cell, {reported} reported"


def _parts(erratum: Erratum) -> dict[str, str]:
    """The paragraphs about an erratum, by the names that a reader sees."""
    seen = {"paper": "read in the paper", "repository": "read in the repository",
            "second-hand": "read second-hand"}[erratum.seen]
    parts = {"Where": f"{erratum.where} ({seen})", "Stands there": erratum.stands,
             "Right": erratum.right, "Changes": erratum.changes}
    if erratum.not_demonstrated is not None:
        parts["No demonstration"] = erratum.not_demonstrated
    return parts | {"Reported": erratum.reported or "no"}


def _text(erratum: Erratum) -> str:
    parts = _parts(erratum)
    if erratum.claims:
        parts["Claims"] = ", ".join(erratum.claims)
    return "\n".join([f"{erratum.id} ({erratum.kind}): {erratum.title}", *(
        textwrap.fill(f"{name}: {text}", WIDTH, initial_indent="  ", subsequent_indent="    ")
        for name, text in parts.items())])


# --- HTML


def html(view: str, **values: object) -> str:
    """A macro of `templates` as HTML that is well-formed XML too, with all text escaped."""
    return getattr(_templates(), view)(**values).rstrip("\n")


@cache
def _templates() -> Any:
    def escaped(value: object) -> object:
        # Markup's own entities for quotes are others than the standard library's.
        return value if hasattr(value, "__html__") else Markup(escape(str(value)))

    environment = Environment(undefined=StrictUndefined, autoescape=True, finalize=escaped,
                              trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {"by_chapter": by_chapter, "counted": counted, "runs": runs,
                            "counts_line": counts_line, "measured": measured, "seeds_of": seeds_of}
    return environment.from_string(MACROS).module
