"""Errata: defects of papers, code and documents, with the sources in which they were found.

``data/errata/README.md`` describes the keys of both files.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, Strict, model_validator
from pydantic.dataclasses import dataclass as model

from clusterbook.checks import one_of

from . import config
from .claims import STRICT, Id, load_claims, read_folder
from .views import WIDTH, View, html, wrapped

GRADES = {"number": "changes a published number", "text": "changes what the text says",
          "slip": "typo or slip"}


@model(frozen=True, config=STRICT)
class Source:
    """A text or repository with errata, an entry of ``data/sources/<work>.yaml``.

    ``kind`` is ``paper``; ``code``, released by the authors; ``document``, by others; or
    ``library``, an implementation that others install. ``commit`` or ``read`` says which version
    was read, ``offers`` what it offers or lacks and how that is used here, and ``sent`` the day on
    which its authors were sent a letter.
    """

    id: Id
    work: str
    kind: Literal["paper", "code", "document", "library"]
    name: str
    url: str | None = None
    commit: Annotated[str, Field(pattern="^[0-9a-f]{40}$")] | None = None
    read: str | None = None
    authors: str | None = None
    sent: date | None = None
    offers: Annotated[dict[str, str], Strict(False)] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _says_which_version(self) -> Source:
        if not (self.commit or self.read):
            raise ValueError("commit or read", "read")
        return self

    @property
    def version(self) -> str:
        """What was read: a commit, a version, or both."""
        return "; ".join(filter(None, (self.commit and f"commit {self.commit[:7]}", self.read)))


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
    grade: Literal["number", "text", "slip"]
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

    @model_validator(mode="after")
    def _is_demonstrated_or_says_why_not(self) -> Erratum:
        if bool(self.checks) == bool(self.not_demonstrated):
            raise ValueError("either checks or not_demonstrated", "not_demonstrated")
        return self


def load_sources(folder: Path | str | None = None) -> dict[str, Source]:
    """Every source of a folder (default: the book's), by id; see `load_claims`."""
    found = read_folder(folder or config.root() / "data" / "sources", Source, "source", "work")
    return {one.id: one for one in sorted(found, key=lambda one: config.book().order(one.work))}


def load_errata(folder: Path | str | None = None) -> list[Erratum]:
    """Every erratum of a folder (default: the book's), by work and line; see `load_claims`."""
    found = read_folder(folder or config.root() / "data" / "errata", Erratum, "erratum", "work")
    return sorted(found, key=lambda one: config.book().order(one.work))


# --- views


def errata(work: str | None = None, *, demonstrated: bool = True) -> View:
    """The table of all errata, or of one work's: tell, idc, deepcluster or weights.

    Without *demonstrated*, those that no check demonstrates, in full, because nothing else on the
    page tells of them. Raises InputError for an unknown work.
    """
    rows = load_errata()
    if work is not None:
        one_of("work with errata", work, {row.work for row in rows})
        rows = [row for row in rows if row.work == work]
    if not demonstrated:
        return _in_full([row for row in rows if not row.checks])
    rows.sort(key=lambda row: (config.book().order(row.work), list(GRADES).index(row.grade)))
    caption = counts(rows)
    lines = [f"{row.id} ({GRADES[row.grade]}): {row.title}" for row in rows]
    groups = {name: list(group) for name, group in groupby(rows, key=lambda row: row.work)}
    return View(tuple(rows),
                "\n".join([textwrap.fill(f"{caption}.", WIDTH), "", *map(wrapped, lines)]),
                html("errata", groups=groups, caption=caption, counts=counts, grades=GRADES,
                     sources=load_sources()))


def erratum(id: str) -> View:
    """One erratum in full, with links to its claims and chapters; InputError if it is unknown."""
    known = {found.id: found for found in load_errata()}
    one_of("erratum", id, known)
    return _in_full([known[id]])


def source_table() -> View:
    """The texts and repositories that were read, what each offers, and the letters sent."""
    rows = load_sources().values()
    sent = [f"{row.name} ({row.sent})" for row in rows if row.sent]
    letters = f"Letters sent to authors: {', '.join(sent) or 'none'}."
    lines = [f"{row.name} ({row.version})" + "".join(
        f"\n    {what}: {used}" for what, used in row.offers.items()) for row in rows]
    text = [wrapped(line) for line in "\n".join(lines).splitlines()]
    return View(tuple(rows), "\n".join([*text, "", letters]),
                html("sources", rows=rows, letters=letters))


def counts(rows: Sequence[Erratum]) -> str:
    """``79 errata: 20 change a published number, …; 60 demonstrated by a cell, 4 reported``."""
    of = Counter(row.grade for row in rows)
    grades = (f"{of['number']} in a published number, {of['text']} in what the text says, "
              f"{of['slip']} typos or slips")
    return (f"{len(rows)} errat{'um' if len(rows) == 1 else 'a'}: {grades}; "
            f"{sum(bool(row.checks) for row in rows)} demonstrated by a cell, "
            f"{sum(bool(row.reported) for row in rows)} reported")


def _in_full(rows: Sequence[Erratum]) -> View:
    claims = {claim.id: claim for claim in load_claims()}
    known, texts, shown = load_sources(), [], []
    for row in rows:
        source = known[row.source]
        parts = {"Where": f"{source.name} ({source.version}): {row.where}",
                 "Source": row.stands, "Correct": row.right, "Changes": row.changes,
                 "No demonstration": row.not_demonstrated, "Reported": row.reported or "no"}
        parts = {name: text for name, text in parts.items() if text is not None}
        shown.append(html("erratum", row=row, parts=parts, grade=GRADES[row.grade],
                          claims=[claims[i] for i in row.claims]))
        if row.claims:
            parts["Claims"] = ", ".join(row.claims)
        lines = [f"{row.id} ({GRADES[row.grade]}): {row.title}", *(
            f"  {name}: {text}" for name, text in parts.items())]
        texts.append("\n".join(map(wrapped, lines)))
    return View(tuple(rows), "\n\n".join(texts), "\n".join(shown))
