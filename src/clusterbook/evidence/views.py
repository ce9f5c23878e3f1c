"""Claims with their verdicts, as text and as HTML: the scorecard, and what a chapter says."""

from __future__ import annotations

import math
import tarfile
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from jinja2 import Environment, StrictUndefined
from jinja2.environment import TemplateModule
from markupsafe import Markup
from matplotlib.figure import Figure

from .. import figures, paths
from ..errors import InputError, unknown
from .claims import Claim, load_claims
from .recording import git
from .records import Record, load_records
from .templates import MACROS
from .verdicts import WORDS, Lineage, Verdict, judge, load_lineage, present_code

Row = tuple[Claim, Verdict]

WIDTH = 100
"""Columns of a terminal that the plain text fits in."""

_COLUMNS = (33, 24, 23, 14)  # claim, the source, ours, verdict: with gaps of two, `WIDTH`

# How much each word says for a claim; a regression is a step down.
_STANDING = {
    "reproduced": 3,
    "confirmed": 3,
    "refuted": 3,
    "indicative": 2,
    "inconclusive": 1,
    "not reproduced": 1,
    "cannot compare": 1,
    "not attempted": 0,
}
# On a white ground, dark enough to be told from each other in gray too.
_COLORS = {
    "reproduced": "#009E73",
    "confirmed": "#0072B2",
    "indicative": "#B5D99C",
    "inconclusive": "#F0E442",
    "not reproduced": "#D55E00",
    "refuted": "#8E3B73",
    "cannot compare": "#B8BEC7",
    "not attempted": "#FFFFFF",
}
_CHAPTER_PAGE = "../notebooks/{chapter}.html"
_FOLDED = 8  # more claims than this would stand between a reader and the chapter


@dataclass(frozen=True)
class Regression:
    """A claim whose verdict fell; `after` is None when the claim is gone."""

    id: str
    before: str
    after: str | None

    def __str__(self) -> str:
        """The claim and both words, on one line."""
        return f"{self.id}: {self.before} → {self.after or 'no longer a claim'}"


@dataclass(frozen=True)
class Scorecard:
    """Claims and their verdicts; prints as text, displays as a table."""

    rows: tuple[Row, ...]

    def __str__(self) -> str:
        """Plain text of at most 100 columns, by chapter, with the counts at the end."""
        parts = []
        for chapter, rows in self.by_chapter().items():
            parts.append(f"{chapter}: {counts_line(rows)}\n\n{text_table(rows)}")
        return "\n\n".join([*parts, counts_line(self.rows)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        caption = f"What holds: {counts_line(self.rows)}"
        return html("scorecard", rows=self.rows, caption=caption, address=_CHAPTER_PAGE)

    def by_chapter(self) -> dict[str, list[Row]]:
        """The rows of each chapter."""
        return by_chapter(self.rows)

    def counts(self) -> dict[str, dict[str, int]]:
        """Chapter → verdict → number of claims; stale ones apart, as ``reproduced (stale)``."""
        return {chapter: count(rows) for chapter, rows in self.by_chapter().items()}

    def figure(self) -> Figure:
        """A bar a work, divided by verdict; what is stale is hatched."""
        colors = {f"{word}{mark}": color for word, color in _COLORS.items()
                  for mark in ("", " (stale)")}  # fmt: skip
        return figures.stacked_bars(
            self.counts(),
            quantity="claims",
            colors=colors,
            hatched=[label for label in colors if label.endswith("(stale)")],
        )

    def describe(self) -> str:
        """The same as `figure` in words: ``tell: 108 claims: 5 reproduced, …``."""
        parts = (f"{chapter}: {counts_line(rows)}" for chapter, rows in self.by_chapter().items())
        return "; ".join(parts)

    def words(self) -> dict[str, str]:
        """Claim → verdict word: what `regressions` of a later scorecard takes."""
        return {claim.id: verdict.word for claim, verdict in self.rows}

    def regressions(self, previous: Mapping[str, str]) -> list[Regression]:
        """The claims whose verdict fell since *previous* (see `at_last_tag`), and those now gone.

        Down is from reproduced, confirmed or refuted to indicative, from there to inconclusive, not
        reproduced or cannot compare, and from anything to not attempted. Raises InputError for a
        word that is no verdict.
        """
        now = self.words()
        found = []
        for name, before in previous.items():
            if before not in _STANDING:
                raise unknown("verdict", before, WORDS)
            after = now.get(name)
            if after is None or _STANDING[after] < _STANDING[before]:
                found.append(Regression(name, before, after))
        return found


def scorecard(
    claims: Iterable[Claim] | None = None,
    records: Iterable[Record] | None = None,
    *,
    fingerprints: Mapping[str, str] | None = None,
    contents: Mapping[str, str] | None = None,
    lineage: Lineage | None = None,
) -> Scorecard:
    """Every claim with its verdict, ordered by chapter as the claims' files are.

    All arguments default to the book's own; for the last three see `judge`.
    """
    claims = load_claims() if claims is None else list(claims)
    records = load_records() if records is None else list(records)
    if fingerprints is None:
        fingerprints = present_code(record.chapter for record in records)
    ordered = sorted(claims, key=lambda claim: claim.chapter)  # stable: keeps each file's order
    present = {"fingerprints": fingerprints, "contents": contents, "lineage": lineage}
    return Scorecard(tuple((claim, judge(claim, records, **present)) for claim in ordered))


@dataclass(frozen=True, repr=False)
class Said:
    """What `say` returns; displays as a table on a page and as text elsewhere."""

    rows: tuple[Row, ...]
    address: str = ""

    def __repr__(self) -> str:
        """The counts and one row a claim."""
        line = counts_line(self.rows)
        return f"{line}\n\n{text_table(self.rows)}" if self.rows else line

    def _repr_html_(self) -> str:
        return html("said", rows=self.rows, caption=counts_line(self.rows), address=self.address,
                    folded=len(self.rows) > _FOLDED)


def say(what: str | Iterable[str], *, here: bool = True) -> Said:
    """The verdicts of a chapter, of a claim, or of several claims in the order given.

    Displays the counts and one row for each claim. With *here*, links stay on this page (the
    claims' chapter); otherwise they lead to that chapter. Raises InputError for a name that is
    neither a chapter nor a claim.
    """
    claims = load_claims()
    by_id = {claim.id: claim for claim in claims}
    chapters = {claim.chapter for claim in claims} | set(paths.chapters())
    if isinstance(what, str) and what in chapters:
        chosen = [claim for claim in claims if claim.chapter == what]
    elif isinstance(what, str) and what not in by_id:
        raise unknown("chapter or claim", what, [*chapters, *by_id])
    else:
        ids = [what] if isinstance(what, str) else list(what)
        for name in ids:
            if name not in by_id:
                raise unknown("claim", name, by_id)
        chosen = [by_id[name] for name in ids]
    wanted = {claim.chapter for claim in chosen}
    records = [record for record in load_records() if record.chapter in wanted]
    fingerprints = present_code(record.chapter for record in records)
    rows = tuple((claim, judge(claim, records, fingerprints=fingerprints)) for claim in chosen)
    return Said(rows, "" if here else _CHAPTER_PAGE)


def at_last_tag() -> dict[str, str] | None:
    """Claim → verdict word at the checkout's last git tag; None where there is no tag.

    Claims, records and code are read from git and judged as they stood then. Raises InputError when
    today's rules do not allow the tag's claims or records.
    """
    root = paths.checkout()
    tag = git(root, "describe", "--tags", "--abbrev=0") if root else None
    if not tag:
        return None
    with TemporaryDirectory() as folder:
        there = Path(folder)
        _extract(root, tag, there)
        try:
            claims = load_claims(there / "data" / "claims")
            records = load_records(there / "data" / "records")
            lineage = load_lineage(there / "data" / "lineage.yaml")
        except InputError as error:
            raise InputError(f"the tag {tag} can't be compared with: {error}") from error
        package = there / "src" / "clusterbook"
        fingerprints = present_code((record.chapter for record in records), package)
        # What the tag's data sets held can't be known without running its code.
        return scorecard(claims, records, fingerprints=fingerprints, contents={},
                         lineage=lineage).words()


def _extract(root: Path, tag: str, folder: Path) -> None:
    """Write the tag's claims, records, their code's lineage and code into a folder."""
    wanted = ("data/claims", "data/records", "data/lineage.yaml", "src/clusterbook")
    there = [name for name in wanted if git(root, "ls-tree", "--name-only", tag, name)]
    archive = folder / "tag.tar"
    if not there or git(root, "archive", f"--output={archive}", tag, *there) is None:
        return
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            if member.isfile():
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(tar.extractfile(member).read())


def by_chapter(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each chapter."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[0].chapter, []).append(row)
    return found


def counts_line(rows: Sequence[Row]) -> str:
    """How many claims there are and how many have each verdict: ``7 claims: 3 reproduced, …``."""
    total = f"{len(rows)} claim" + ("" if len(rows) == 1 else "s")
    parts = [f"{n} {label}" for label, n in count(rows).items()]
    return f"{total}: {', '.join(parts)}" if parts else total


def count(rows: Iterable[Row]) -> dict[str, int]:
    """The number of claims with each verdict, in the vocabulary's order.

    Stale verdicts are counted apart, under ``reproduced (stale)`` and so on.
    """
    found = Counter(verdict.label for _, verdict in rows)
    labels = [label for word in WORDS for label in (word, f"{word} (stale)")]
    return {label: found[label] for label in labels if found[label]}


def measured(claim: Claim, verdict: Verdict) -> str:
    """What our runs gave, with mean ± standard deviation over seeds; a dash without runs."""
    if verdict.n == 0:
        return "–"
    if claim.check is not None:
        return f"{verdict.n} run" + ("" if verdict.n == 1 else "s")
    over = f"{spread(verdict.mean, verdict.sd)} ({_seeds(verdict.n)})"
    if claim.kind == "trend":
        return f"holds in {round(verdict.ours * verdict.n)} of {_seeds(verdict.n)}, {over}"
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
    lines = _aligned(("claim", "the source", "ours", "verdict"))
    for claim, verdict in rows:
        cells = (claim.id, claim.stated, measured(claim, verdict), verdict.label)
        lines += _aligned(cells)
        if verdict.label not in ("reproduced", "confirmed"):
            lines += textwrap.wrap(verdict.reason, WIDTH - 4, initial_indent="    ",
                                   subsequent_indent="    ")  # fmt: skip
    return "\n".join(lines)


def runs(names: Iterable[str]) -> str:
    """Records by profile and seed: ``tell-mnist-paper, seeds 0–4``.

    Examples
    --------
    >>> runs(["tell-digits-seed0", "tell-digits-seed1", "tell-digits-seed5"])
    'tell-digits, seeds 0–1, 5'
    """
    return "; ".join(
        f"{profile}, seed{'s' if len(found) > 1 else ''} {_ranges(found)}"
        for profile, found in seeds_of(names).items()
    )


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


def _aligned(cells: Sequence[str]) -> list[str]:
    """One row of text, each cell wrapped within its column."""
    wrapped = [textwrap.wrap(cell, width) for cell, width in zip(cells, _COLUMNS, strict=True)]
    height = max(len(lines) for lines in wrapped)
    return [
        "  ".join(
            (lines[i] if i < len(lines) else "").ljust(width)
            for lines, width in zip(wrapped, _COLUMNS, strict=True)
        ).rstrip()
        for i in range(height)
    ]


def _seeds(n: int) -> str:
    return f"{n} seed" if n == 1 else f"{n} seeds"


def html(view: str, **values: object) -> str:
    """A macro of `templates` as HTML that is well-formed XML too, with all text escaped."""
    return getattr(_templates(), view)(**values).rstrip("\n")


@cache
def _templates() -> TemplateModule:
    def escaped(value: object) -> object:
        # Markup's own entities for quotes are others than the standard library's.
        return value if hasattr(value, "__html__") else Markup(escape(str(value)))

    environment = Environment(undefined=StrictUndefined, autoescape=True, finalize=escaped,
                              trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {"by_chapter": by_chapter, "count": count, "counts_line": counts_line,
                            "measured": measured, "runs": runs, "seeds_of": seeds_of}
    return environment.from_string(MACROS).module
