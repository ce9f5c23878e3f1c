"""Claims with their verdicts, and what the numbers were made with, as text and as HTML."""

from __future__ import annotations

import math
import tarfile
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from operator import ge
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from matplotlib.figure import Figure

from .. import figures, paths
from ..errors import InputError, unknown
from .claims import Claim, load_claims
from .recording import git
from .records import Record, load_records
from .verdicts import (
    WORDS,
    Lineage,
    Verdict,
    is_stale,
    judge,
    load_lineage,
    present_code,
    present_data,
)

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


Row = tuple[Claim, Verdict]

WIDTH = 100
"""Columns of a terminal that the plain text fits in."""

RECORDS = "../records/{name}.json"
"""Where a page of the book finds a record: the build puts the files beside the pages."""
STATUS = "status.html#{profile}"
"""Where the scorecard's page finds what a profile's runs were made with."""

_COLUMNS = (33, 24, 23, 14)  # claim, the source, ours, verdict: with gaps of two, `WIDTH`


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


def html_table(rows: Sequence[Row], caption: str, *, whole: bool = False, address: str = "") -> str:
    """A table that scrolls in its own box, styled by the classes ``cb-scorecard``, ``cb-verdict``.

    The verdict stands in words, so that nothing depends on color.

    Parameters
    ----------
    rows : sequence of (Claim, Verdict)
        One row each, none left out.
    caption : str
        What the table shows, for those who hear it.
    whole : bool
        Whether this is the book's scorecard: a heading row stands over each chapter's claims, each
        claim can be linked to by its id, its runs lead to their records, and the rows can be
        chosen by work, verdict and words where scripts run.
    address : str
        What stands before ``#section`` in links; ``{chapter}`` is replaced.
    """
    heads = ("Claim", "The source says", "Ours, mean ± sd", "Verdict", "Runs")
    parts = [
        f'<div class="cb-scorecard-scroll" role="region" tabindex="0" aria-label="{_q(caption)}" '
        'style="overflow-x: auto">',
        '<table class="cb-scorecard">',
        f"<caption>{_q(caption)}</caption>",
        "<thead><tr>" + "".join(f'<th scope="col">{head}</th>' for head in heads) + "</tr></thead>",
    ]
    for chapter, group in groupby(rows, key=lambda row: row[0].chapter):
        chapter_rows = list(group)
        parts.append("<tbody>")
        if whole:
            title = f"{chapter}: {counts_line(chapter_rows)}"
            parts.append(f'<tr><th scope="rowgroup" colspan="{len(heads)}">{_q(title)}</th></tr>')
        parts += [_html_row(row, address, with_id=whole) for row in chapter_rows]
        parts.append("</tbody>")
    table = "\n".join([*parts, "</table>", "</div>"])
    return _FILTER.format(table=table, works=_options(row[0].chapter for row in rows),
                          verdicts=_options(count(rows)), n=len(rows)) if whole else table


# The bar appears where scripts run. It is written without the signs that XML would read as its own.
_FILTER = """<div class="cb-filtered">
<div class="cb-filter" hidden="">
<label>Work <select><option value="">all</option>{works}</select></label>
<label>Verdict <select><option value="">all</option>{verdicts}</select></label>
<label>Words <input type="search" placeholder="such as MNIST" /></label>
<output aria-live="polite">{n} of {n} claims</output>
</div>
{table}
<script>
for (const whole of document.querySelectorAll(".cb-filtered:not([data-ready])")) {{
  whole.dataset.ready = "yes";
  const bar = whole.querySelector(".cb-filter"), [work, verdict] = bar.querySelectorAll("select");
  const words = bar.querySelector("input"), shown = bar.querySelector("output");
  const rows = [...whole.querySelectorAll("tr[data-work]")];
  const fits = row => [
    ["", row.dataset.work].includes(work.value),
    ["", row.dataset.verdict].includes(verdict.value),
    ...words.value.toLowerCase().split(" ").map(
      word => row.textContent.toLowerCase().includes(word)),
  ].every(Boolean);
  bar.oninput = () => {{
    for (const row of rows) row.hidden = !fits(row);
    for (const body of whole.querySelectorAll("tbody"))
      body.hidden = !body.querySelector("tr[data-work]:not([hidden])");
    shown.textContent = `${{rows.filter(row => !row.hidden).length}} of ${{rows.length}} claims`;
  }};
  bar.hidden = false;
}}
</script>
</div>"""


def _options(values: Iterable[str]) -> str:
    return "".join(f"<option>{_q(value)}</option>" for value in dict.fromkeys(values))


def _html_row(row: Row, address: str, with_id: bool) -> str:
    claim, verdict = row
    name = f"<code>{_q(claim.id)}</code>"
    if claim.section is not None:
        link = f"{address.format(chapter=claim.chapter)}#{claim.section}"
        name = f'<a href="{_q(link)}">{name}</a>'
    seen = claim.seen if claim.where is None else f"{claim.seen}: {claim.where}"
    tolerance = "" if claim.why is None else f'<div class="cb-why">Tolerance: {_q(claim.why)}</div>'
    classes = f"cb-verdict cb-verdict-{verdict.word.replace(' ', '-')}"
    if verdict.stale:
        classes += " cb-stale"
    anchor = (f' id="{_q(claim.id)}" data-work="{claim.chapter}" data-verdict="{verdict.label}"'
              if with_id else "")  # fmt: skip
    made = _linked_runs if with_id else lambda names: _q(runs(names))
    reason = verdict.reason
    if verdict.stale:
        reason += " The code or the data have changed since these runs."
    return (
        f'<tr{anchor}><th scope="row">{name}<div class="cb-says">{_q(claim.says)}</div>'
        f'<div class="cb-source">{_q(claim.source)} ({_q(seen)})</div></th>'
        f"<td>{_q(claim.stated)}{tolerance}</td>"
        f"<td>{_q(measured(claim, verdict))}</td>"
        f'<td><span class="{classes}">{verdict.label}</span>'
        f'<div class="cb-reason">{_q(reason)}</div></td>'
        f"<td>{made(verdict.records) or _q(claim.profile or '–')}</td></tr>"
    )


def runs(names: Iterable[str]) -> str:
    """Records by profile and seed: ``tell-mnist-paper, seeds 0–4``.

    Examples
    --------
    >>> runs(["tell-digits-seed0", "tell-digits-seed1", "tell-digits-seed5"])
    'tell-digits, seeds 0–1, 5'
    """
    return "; ".join(
        f"{profile}, seed{'s' if len(found) > 1 else ''} {_ranges(found)}"
        for profile, found in _seeds_of(names).items()
    )


def _seeds_of(names: Iterable[str]) -> dict[str, list[int]]:
    """The seeds of each profile among records, in order."""
    seeds: dict[str, list[int]] = {}
    for name in names:
        profile, _, seed = name.rpartition("-seed")
        seeds.setdefault(profile, []).append(int(seed))
    return {profile: sorted(found) for profile, found in seeds.items()}


def _linked_runs(names: Iterable[str]) -> str:
    """Records by profile and seed, each leading to its file, its profile to how it was made."""
    return "; ".join(
        f'<a href="{STATUS.format(profile=profile)}">{profile}</a>, '
        f"{linked_seeds(profile, found)}"
        for profile, found in _seeds_of(names).items()
    )


def linked_seeds(profile: str, seeds: Sequence[int]) -> str:
    """``seeds 0 1 2``, each a link to its record."""
    links = [f'<a href="{RECORDS.format(name=f"{profile}-seed{seed}")}">{seed}</a>'
             for seed in seeds]  # fmt: skip
    return f"seed{'s' if len(links) > 1 else ''} {' '.join(links)}"


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


def _q(text: str) -> str:
    return escape(text, quote=True)


REPLACED = "recorded by earlier code, shown to be bit-identical on short runs"
_UNITS = ((3600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True)
class Profile:
    """The recorded runs of one profile, by seed; their code may have been replaced since."""

    records: tuple[Record, ...]
    stale: bool
    replaced: bool = False

    @property
    def name(self) -> str:
        """The profile's name."""
        return self.records[0].profile

    @property
    def chapter(self) -> str:
        """The chapter that was run."""
        return self.records[0].chapter

    def each(self, attribute: str) -> list:
        """Every value that an attribute has among the records, in their order, once."""
        found: list = []
        for record in self.records:
            value = getattr(record, attribute)
            if value not in found:
                found.append(value)
        return found

    def cells(self) -> dict[str, str]:
        """What the table shows, in words, under the heads of its columns."""
        memory = [r.peak_memory_mb for r in self.records if r.peak_memory_mb is not None]
        return {
            "Seeds": " ".join(str(record.seed) for record in self.records),
            "Time, a seed": took(self.records),
            "Peak memory": f"{max(memory):,.0f} MiB" if memory else "not known",
            "Machine": "; ".join(map(_machine, self.each("machine"))),
            "Versions": "; ".join(map(_versions, self.each("versions"))),
            "Date": "; ".join(dict.fromkeys(record.started[:10] for record in self.records)),
            "Code": "; ".join(map(_commit, self.each("git"))) + self._since(),
            "Trained model": "; ".join(self._models()) or "not kept",
        }

    def _since(self) -> str:
        """What became of the code."""
        if self.stale:
            return ", stale"
        return f", {REPLACED}" if self.replaced else ""

    def _models(self) -> Iterator[str]:
        """The seeds whose trained model lies beside its record, with the size of its file."""
        for record in self.records:
            file = record.path.with_suffix(".pt") if record.path else None
            if file and file.is_file():
                yield f"seed {record.seed}, {file.stat().st_size / 1e6:.1f} MB"


@dataclass(frozen=True)
class Status:
    """Every recorded profile; prints as text, displays as a table."""

    profiles: tuple[Profile, ...]

    def __str__(self) -> str:
        """A paragraph a profile: what the table's cells say."""
        return "\n\n".join(
            "\n".join([profile.name, *(f"    {head}: {cell}" for head, cell in shown.items())])
            for profile in self.profiles
            if (shown := profile.cells())
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads = ("Profile", *(self.profiles[0].cells() if self.profiles else ()))
        caption = f"{len(self.profiles)} recorded profiles"
        parts = [
            f'<div class="cb-scorecard-scroll" role="region" tabindex="0" aria-label="{caption}">',
            '<table class="cb-scorecard cb-status">',
            f"<caption>{caption}</caption>",
            "<thead><tr>" + "".join(f'<th scope="col">{h}</th>' for h in heads) + "</tr></thead>",
        ]
        for chapter, group in groupby(self.profiles, key=lambda profile: profile.chapter):
            parts += ["<tbody>", f'<tr><th scope="rowgroup" colspan="{len(heads)}">'
                      f'<a href="../notebooks/{chapter}.html">{chapter}</a></th></tr>']  # fmt: skip
            parts += [_row(profile) for profile in group]
            parts.append("</tbody>")
        return "\n".join([*parts, "</table>", "</div>"])


def status(records: Iterable[Record] | None = None) -> Status:
    """Every recorded profile with what its runs were made with and what they cost.

    Parameters
    ----------
    records : iterable of Record, optional
        By default the book's.
    """
    records = load_records() if records is None else list(records)
    code, data = present_code(record.chapter for record in records), present_data()
    groups = groupby(records, key=lambda record: (record.chapter, record.profile))
    found = (tuple(group) for _, group in groups)
    return Status(tuple(Profile(group, any(is_stale(r, code, data) for r in group),
                                any(r.code != code.get(r.chapter) for r in group))
                        for group in found))


def took(records: Sequence[Record]) -> str:
    """The mean wall time of some runs, in words.

    Of a run whose pieces were not added up, which early records were, its training's own clock
    tells more: it goes on over the pieces. Its time is a lower bound.
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
    size, unit = next(((s, u) for s, u in _UNITS if seconds >= s), _UNITS[-1])
    amount = seconds / size
    return f"{amount:.{1 if amount < 9.95 else 0}f} {unit}"


def _row(profile: Profile) -> str:
    shown = profile.cells()
    shown["Seeds"] = None
    seeds = linked_seeds(profile.name, [record.seed for record in profile.records])
    cells = "".join(
        f"<td>{seeds if head == 'Seeds' else escape(cell)}</td>" for head, cell in shown.items()
    )
    given = "".join(
        f"<tr><th scope='row'><code>{escape(name)}</code></th><td>{escape(_value(value))}"
        f"{' (assumed)' if name in profile.records[0].assumed else ''}</td></tr>"
        for name, value in profile.records[0].parameters.items()
        if name != "seed"
    )
    return (
        f'<tr id="{profile.name}"><th scope="row"><code>{profile.name}</code>'
        f"<details><summary>parameters</summary><table>{given}</table></details></th>{cells}</tr>"
    )


def _value(value: object) -> str:
    return "none" if value in ([], None, "") else str(value)


def _machine(machine: Mapping[str, object]) -> str:
    threads = machine["threads"]
    used = machine["gpu"] or machine["cpu"]
    return f"{used}, threads: {threads}, cores: {machine['cores']}"


def _versions(versions: Mapping[str, str]) -> str:
    shown: Sequence[str] = ("python", "torch", "numpy", "scikit-learn")
    return ", ".join(f"{name} {versions[name]}" for name in shown if name in versions)


def _commit(git: Mapping[str, object]) -> str:
    if git["commit"] is None:
        return "no commit"
    return str(git["commit"])[:8] + ("" if git["clean"] else ", changed")
