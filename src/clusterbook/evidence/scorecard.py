"""Every claim of the book with its verdict: as a page, in the terminal, in a chapter."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib.figure import Figure

from .. import figures, paths
from ..errors import InputError, unknown
from .claims import Claim, load_claims
from .lineage import Lineage, load_lineage
from .provenance import git
from .records import Record, load_records
from .tables import Row, count, counts_line, html_table, text_table
from .verdicts import WORDS, judge, present_code

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
        return html_table(self.rows, caption, whole=True, address=_CHAPTER_PAGE)

    def by_chapter(self) -> dict[str, list[Row]]:
        """The rows of each chapter."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row[0].chapter, []).append(row)
        return found

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
        """The claims that stand worse than before, and those that are no longer listed.

        Down is from reproduced, confirmed or refuted to indicative, from there to inconclusive, not
        reproduced or cannot compare, and from anything to not attempted.

        Parameters
        ----------
        previous : dict of str to str
            Claim → verdict word, such as `at_last_tag` gives.

        Raises
        ------
        InputError
            For a word that is no verdict.
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

    Parameters
    ----------
    claims : iterable of Claim, optional
        By default the book's.
    records : iterable of Record, optional
        By default the book's.
    fingerprints : dict of str to str, optional
        The present code of each chapter; by default computed.
    contents : dict of str to str, optional
        The present content of each data set; by default that of the table.
    lineage : dict, optional
        Which code replaced which and computes the same; by default the book's.
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
        caption = counts_line(self.rows)
        if not self.rows:
            return f'<p class="cb-say">{caption}</p>'
        # The caption says the counts.
        table = html_table(self.rows, caption, address=self.address)
        if len(self.rows) > _FOLDED:
            table = f"<details>\n<summary>{caption}. Show them.</summary>\n{table}\n</details>"
        return f'<div class="cb-say">\n{table}\n</div>'


def say(what: str | Iterable[str], *, here: bool = True) -> Said:
    """A chapter's verdicts, or those of the claims named, drawn from the records.

    Parameters
    ----------
    what : str or iterable of str
        A chapter's name, a claim's id, or several ids, shown in that order.
    here : bool
        Whether this is the page of the claims' chapter, so that their links stay on it; elsewhere
        they lead there.

    Returns
    -------
    Said
        Displays the counts and one row a claim; the same wherever claims, records and code are
        the same.

    Raises
    ------
    InputError
        When there is no such chapter or claim.
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
    """Claim → verdict word as the checkout's last git tag had it; None where there is no tag.

    Claims, records and code are read from git, and judged as they stood then.

    Raises
    ------
    InputError
        When the tag's claims or records are not what today's rules allow.
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
