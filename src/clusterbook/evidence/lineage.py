"""Which code replaced which without changing a number: ``data/lineage.yaml``.

A record keeps the hash of the code that made it, and is never edited. Where that code was changed
in ways that compute the same, an entry says so: the chapter, the hash before and after, the commit,
and how it was shown. ``python tests/golden OLD NEW --lineage`` shows it and prints the entries.
Entries follow on one another; what does not lead to the present code is as if it were not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from .. import paths
from .entries import read_file

Lineage = Mapping[tuple[str, str], str]
"""(chapter, hash) to the hash of the code that replaced it."""

_KEYS = ("chapter", "old", "new", "commit", "says")


def load_lineage(path: Path | None = None) -> Lineage:
    """Every replacement in a file, by default the book's; none where there is no such file.

    Raises
    ------
    InputError
        For an entry that is no such entry, is about a chapter that is unknown, stands twice, or
        leads back to where it begins; the message names file and line.
    """
    known = tuple(paths.chapters()) if path is None else None   # an old file may have had others
    path = paths.root() / "data" / "lineage.yaml" if path is None else path
    return _read(path, path.stat().st_mtime_ns, known) if path.is_file() else {}


def leads(lineage: Lineage, chapter: str, old: str, new: str | None) -> bool:
    """Whether *old* is *new*, or was replaced by it, directly or through others."""
    code: str | None = old
    while code is not None and code != new:
        code = lineage.get((chapter, code))
    return code is not None


@cache
def _read(path: Path, _changed: int, known: tuple[str, ...] | None) -> Lineage:
    found: dict[tuple[str, str], str] = {}
    for entry in read_file(path, "replacement"):
        entry.keys_within(_KEYS)
        entry.required(_KEYS)
        for key in _KEYS:
            entry.text(key)
        if known is not None:
            entry.word("chapter", known)
        for key, digits in (("old", 64), ("new", 64), ("commit", 40)):
            if not re.fullmatch(rf"[0-9a-f]{{{digits}}}", entry.values[key]):
                raise entry.error(f"{key} must be a hash of {digits} hexadecimal digits", key)
        chapter, old, new = (entry.values[key] for key in ("chapter", "old", "new"))
        if (chapter, old) in found:
            raise entry.error("this code was replaced already by an entry above", "old")
        if leads(found, chapter, new, old):
            raise entry.error("this leads back to the code that it replaces", "new")
        found[chapter, old] = new
    return found

