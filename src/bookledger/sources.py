"""Errata: defects of papers, code and documents, with the sources in which they were found.

``data/errata/README.md`` describes the keys of both files.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

from markupsafe import Markup
from pydantic import Field, Strict
from pydantic.dataclasses import dataclass as model
from pydantic_core import to_json

from clusterbook import __version__
from clusterbook.checks import one_of

from . import config
from .claims import STRICT, Id, load_claims, read_folder
from .records import load_records
from .verdicts import priced
from .views import Table, View, assessed, every_claim, html

GRADES = {"number": "concerns a published number", "text": "concerns a statement or code",
          "slip": "typo or slip", "today": "no error, due to newer libraries"}


@model(frozen=True, config=STRICT)
class Source:
    """A text or repository with errata, an entry of ``data/sources/<work>.yaml``.

    ``kind`` is ``paper``; ``code``, released by the authors; ``document``, by others; or
    ``library``, an implementation that others install. ``commit`` or ``read`` says which version
    was read, ``offers`` what it offers or lacks and how that is used here, ``rerun`` what of it we
    ran, for a letter, and ``sent`` the day on which its authors were sent one.
    """

    id: Id
    work: str
    kind: Literal["paper", "code", "document", "library"]
    name: str
    url: str | None = None
    commit: Annotated[str, Field(pattern="^[0-9a-f]{40}$")] | None = None
    read: str | None = None
    authors: str | None = None
    rerun: str | None = None
    sent: date | None = None
    offers: Annotated[dict[str, str], Strict(False)] = Field(default_factory=dict)

    @property
    def version(self) -> str:
        """What was read, a commit, a version, or both."""
        return "; ".join(filter(None, (self.commit and f"commit {self.commit[:7]}", self.read)))

    @property
    def link(self) -> str:
        """Its address, of a repository that of the commit that was read."""
        return f"{self.url}/tree/{self.commit}" if self.commit else self.url


@model(frozen=True, config=STRICT)
class Erratum:
    """One defect, an entry of ``data/errata/<work>.yaml``; the fields are the keys of the file.

    Its ``grade`` is one of `GRADES`. ``stands`` and ``right`` are the wrong and the right
    statement, ``changes`` says which published numbers change, ``reported`` where it was reported.
    Expectations of the page `errata` demonstrate it (``checks``), or ``not_demonstrated`` says why
    no code can. It ``replaces`` entries that were merged into it.
    """

    id: Id
    work: str
    grade: Literal["number", "text", "slip", "today"]
    title: str
    source: str
    where: str
    stands: str
    right: str
    changes: str
    reported: str | None = None
    claims: Annotated[tuple[str, ...], Strict(False)] = ()
    checks: Annotated[tuple[str, ...], Strict(False)] = ()
    not_demonstrated: str | None = None
    replaces: Annotated[tuple[str, ...], Strict(False)] = ()


def load_sources(folder: Path | str | None = None) -> dict[str, Source]:
    """Every source of a folder (default: the book's), by id; see `load_claims`."""
    return {one.id: one for one in read_folder(Source, "sources", folder)}


def load_errata(folder: Path | str | None = None) -> list[Erratum]:
    """Every erratum of a folder (default: the book's), by work and line; see `load_claims`."""
    return read_folder(Erratum, "errata", folder)


# --- views


def errata(work: str | None = None) -> View:
    """The table of all errata by work, or of one work's, whose rows lead to the entries.

    Raises InputError for an unknown work.
    """
    rows, sources = load_errata(), load_sources()
    if work is not None:
        one_of("work with errata", work, {row.work for row in rows})
        rows = [row for row in rows if row.work == work]
    rows.sort(key=lambda row: (config.book().order(row.work), list(GRADES).index(row.grade)))
    link = Markup('<a href="audit/{0.work}.html#erratum-{0.id}">{0.title}</a> '
                  '<div class="cb-source">{1}: {0.where}</div>').format
    parts: list[str | Table] = [counts(rows)] if work is None else []
    if work is None and config.book().first_errata:
        known, cells = {row.id: row for row in rows}, []
        for id in config.book().first_errata:
            row = config.pick("erratum", id, known)
            cells.append([link(row, sources[row.source].name), row.stands, row.right, row.changes])
        parts.append(Table("Those that matter most", ["Erratum", "In the source", "Correct",
                                                      "Changes"], cells,
                           "cb-errata cb-in-full"))
    for name, group in groupby(rows, key=lambda row: row.work):
        found = list(group)
        caption = f"{config.book().method(name)}: {counts(found)}"
        cells = [[link(row, sources[row.source].name), GRADES[row.grade],
                  "in code" if row.checks else "no", "yes" if row.reported else "no"]
                 for row in found]
        parts.append(Table(caption, ["Erratum", "Grade", "Demonstrated", "Reported"], cells,
                           "cb-errata", folded=True))
    return View(tuple(rows), parts)


def erratum(*ids: str) -> View:
    """Errata in full, with links to their claims; InputError for an unknown one."""
    known, sources = {row.id: row for row in load_errata()}, load_sources()
    claims, parts = {claim.id: claim for claim in load_claims()}, []
    for id in ids:
        row = config.pick("erratum", id, known)
        parts.append(html("erratum", row, sources[row.source], GRADES[row.grade],
                          [claims[one] for one in row.claims]))
    return View(tuple(known[id] for id in ids), parts)


def source_table() -> View:
    """The texts and repositories that were read, what each offers, and the letters sent."""
    rows = tuple(load_sources().values())
    offer = Markup("<div><strong>{}</strong>: {}</div>").format
    link = Markup('<a href="{0.link}">{0.name}</a>').format
    cells = [[link(row) if row.url else row.name, row.version,
              Markup("").join(offer(*one) for one in row.offers.items())] for row in rows]
    sent = [f"{row.name} ({row.sent})" for row in rows if row.sent]
    return View(rows, [
        Table("What was read", ["Source", "Version", "What it offers"], cells),
        f"Letters sent to authors: {', '.join(sent) or 'none'}."])


def counts(rows: Sequence[Erratum]) -> str:
    """``77 errata: 16 concern a number, 41 a statement, 18 are typos or slips, …; …``."""
    of = Counter(row.grade for row in rows)
    return (f"{len(rows)} errat{'um' if len(rows) == 1 else 'a'}: {of['number']} concern a number, "
            f"{of['text']} a statement, {of['slip']} are typos or slips"
            + f", {of['today']} are due to newer libraries" * (of["today"] > 0) + "; "
            f"{sum(bool(row.checks) for row in rows)} demonstrated in code, "
            f"{sum(bool(row.reported) for row in rows)} already public")


def as_json() -> bytes:
    """Claims, verdicts and errata as JSON; keys as in ``data/claims``."""
    rows = every_claim()
    return priced(to_json({
        "title": config.book().title, "version": __version__, "summary": assessed(rows),
        "claims": [vars(claim) | {"verdict": verdict} for claim, verdict in rows],
        "errata": load_errata(), "sources": list(load_sources().values()),
    }, by_alias=False).decode(), load_records()).encode()
