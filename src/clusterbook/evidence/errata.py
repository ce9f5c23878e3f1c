"""What is wrong in the papers, the released code and the documents, entry by entry.

``data/errata/<work>.yaml`` is a list of entries with the keys ``id`` (beginning with the work's
name: ``tell-eq-eight``), ``title``, ``kind`` (``paper``; ``code``, released by the authors;
``document``, by others; ``library``, an implementation that others install), ``where``, ``seen``
(as in a claim), ``stands`` and ``right`` (what stands there, and what would be right), ``changes``
(in published numbers), ``claims`` (ids of claims about the same, if any), ``reported`` (``no``, or
where), and either ``check`` (the expectation of the page `errata` that demonstrates it) or
``not_demonstrated`` (why no code can).

The page `errata` shows each entry beside its demonstration.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Literal

from pydantic import field_validator, model_validator
from pydantic.dataclasses import dataclass as model

from .. import paths
from ..errors import unknown
from .claims import Claim, load_claims
from .entries import STRICT, Seen, as_tuple, mistake, read_folder, stamps
from .views import WIDTH, html

KINDS = ("paper", "code", "document", "library")
"""What an erratum stands in."""

_ORDER = ("tell", "idc", "deepcluster", "weights")  # of the book's chapters


@model(frozen=True, config=STRICT)
class Erratum:
    """One defect; the fields are the keys of the YAML file, `work` is the file's name."""

    id: str
    work: str
    title: str
    kind: Literal["paper", "code", "document", "library"]
    where: str
    seen: Seen
    stands: str
    right: str
    changes: str
    reported: str | None
    claims: tuple[str, ...] = ()
    check: str | None = None
    not_demonstrated: str | None = None

    _lists = field_validator("claims", mode="before")(as_tuple)

    @field_validator("reported", mode="before")
    @classmethod
    def _as_meant(cls, value: object) -> object:
        return None if value is False else value        # YAML reads a bare `no` as false

    @model_validator(mode="after")
    def _is_demonstrated_or_says_why_not(self) -> Erratum:
        if (self.check is None) == (self.not_demonstrated is None):
            raise mistake("either check, which demonstrates it, or not_demonstrated, which says "
                          "why none does", "not_demonstrated" if self.check else None)
        return self


@dataclass(frozen=True, repr=False)
class Errata:
    """Entries to show: as a table with a row each, or in full (``full=True``)."""

    rows: tuple[Erratum, ...]
    full: bool = False

    def __repr__(self) -> str:
        """Plain text of at most 100 columns."""
        if self.full:
            return "\n\n".join(map(_text, self.rows))
        counts = textwrap.fill(f"{_counts(self.rows)}.", WIDTH)
        return "\n".join([counts, "", *map(_line, self.rows)])

    def _repr_html_(self) -> str:
        if self.full:
            claims = _claims()
            return "\n".join(html("erratum", row=row, parts=_parts(row),
                                  claims=[claims[name] for name in row.claims])
                             for row in self.rows)
        groups = {work: list(rows) for work, rows in groupby(self.rows, key=lambda row: row.work)}
        return html("errata", groups=groups, caption=_counts(self.rows), counts=_counts)


def load_errata(folder: Path | str | None = None) -> list[Erratum]:
    """Every erratum of a folder (default: the book's), by chapter and line.

    Raises InputError, beginning with the file and the line, for an entry that is not valid.
    """
    folder = Path(folder) if folder is not None else paths.root() / "data" / "errata"
    found = [entry.read(Erratum, work=entry.chapter) for entry in read_folder(folder, "erratum")]
    return sorted(found, key=_place)


def errata(work: str | None = None, *, demonstrated: bool | None = None) -> Errata:
    """The table of all errata, or of one work's: tell, idc, deepcluster or weights.

    With *demonstrated*, only those that a check demonstrates; with False only the others, in full,
    because nothing else on the page tells of them. Raises InputError for an unknown work.
    """
    rows = list(_known().values())
    if work is not None:
        if work not in (works := {erratum.work for erratum in rows}):
            raise unknown("work with errata", work, works)
        rows = [erratum for erratum in rows if erratum.work == work]
    if demonstrated is not None:
        rows = [erratum for erratum in rows if (erratum.check is not None) == demonstrated]
    return Errata(tuple(rows), full=demonstrated is False)


def erratum(id: str) -> Errata:
    """One erratum in full, with links to its claims and chapters; InputError if it is unknown."""
    known = _known()
    if id not in known:
        raise unknown("erratum", id, known)
    return Errata((known[id],), full=True)


def _place(erratum: Erratum) -> int:
    return _ORDER.index(erratum.work) if erratum.work in _ORDER else len(_ORDER)


def _known() -> dict[str, Erratum]:
    folder = paths.root() / "data" / "errata"
    return _by_id(folder, stamps(folder))


def _claims() -> dict[str, Claim]:
    folder = paths.root() / "data" / "claims"
    return _claims_by_id(folder, stamps(folder))


# The page shows an entry in each other cell; files are read again only when one has changed.
@lru_cache(maxsize=1)
def _by_id(folder: Path, read_at: tuple) -> dict[str, Erratum]:
    return {found.id: found for found in load_errata(folder)}


@lru_cache(maxsize=1)
def _claims_by_id(folder: Path, read_at: tuple) -> dict[str, Claim]:
    return {claim.id: claim for claim in load_claims(folder)}


def _counts(rows: Sequence[Erratum]) -> str:
    """``70 errata: 30 in papers, 25 in code, …; 50 demonstrated, 9 reported``."""
    of = Counter(erratum.kind for erratum in rows)
    words = {"paper": "in papers", "code": "in released code", "document": "in documents",
             "library": "in libraries"}  # fmt: skip
    kinds = ", ".join(f"{of[kind]} {words[kind]}" for kind in KINDS if of[kind])
    shown = sum(erratum.check is not None for erratum in rows)
    reported = sum(erratum.reported is not None for erratum in rows)
    total = f"{len(rows)} errat" + ("um" if len(rows) == 1 else "a")
    return f"{total}: {kinds}; {shown} demonstrated by a cell, {reported} reported"


def _line(erratum: Erratum) -> str:
    how = ", by a cell" if erratum.check else ""
    line = f"{erratum.id} ({erratum.kind}{how}): {erratum.title}"
    return textwrap.fill(line, WIDTH, subsequent_indent="    ")


def _text(erratum: Erratum) -> str:
    parts = _parts(erratum)
    if erratum.claims:
        parts["Claims"] = ", ".join(erratum.claims)
    lines = [f"{erratum.id} ({erratum.kind}): {erratum.title}"]
    for name, text in parts.items():
        lines += textwrap.wrap(f"{name}: {text}", WIDTH, initial_indent="  ",
                               subsequent_indent="    ")  # fmt: skip
    return "\n".join(lines)


def _parts(erratum: Erratum) -> dict[str, str]:
    """What is said of an erratum, by the names that a reader sees."""
    seen = {"paper": "read in the paper", "repository": "read in the repository",
            "second-hand": "read second-hand"}[erratum.seen]  # fmt: skip
    parts = {"Where": f"{erratum.where} ({seen})", "Stands there": erratum.stands,
             "Right": erratum.right, "Changes": erratum.changes}  # fmt: skip
    if erratum.not_demonstrated is not None:
        parts["No demonstration"] = erratum.not_demonstrated
    parts["Reported"] = erratum.reported or "no"
    return parts
