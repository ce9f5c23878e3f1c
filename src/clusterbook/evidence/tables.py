"""Claims and their verdicts as text for a terminal and as HTML for a page."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby

from .claims import Claim
from .measures import spread
from .verdicts import WORDS, Verdict

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
