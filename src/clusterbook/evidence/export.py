"""The evidence as data beside the site: claims with their verdicts as JSON, in an RO-Crate.

An RO-Crate (https://w3id.org/ro/crate/1.3) is a folder whose ``ro-crate-metadata.json`` describes
each of its files.
"""

from __future__ import annotations

import json
import mimetypes
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import __version__
from .records import load_records
from .sources import load_errata, load_sources
from .views import assessed, scorecard

TITLE = "Interpretable Deep Clustering, Reproduced"


def as_data() -> dict[str, Any]:
    """Claims, verdicts and errata, in types that JSON knows; keys as in ``data/claims``."""
    rows = scorecard().rows
    return {
        "title": TITLE, "version": __version__, "summary": assessed(rows),
        "claims": [asdict(claim) | {"verdict": asdict(verdict)} for claim, verdict in rows],
        "errata": [asdict(erratum) for erratum in load_errata()],
        "sources": [asdict(source) for source in load_sources().values()]}


def write(folder: Path) -> None:
    """Write ``claims.json`` to a folder, and describe all its files as an RO-Crate."""
    from rocrate.model.contextentity import ContextEntity
    from rocrate.rocrate import ROCrate

    text = json.dumps(as_data(), indent=1, ensure_ascii=False, allow_nan=False, default=str)
    (folder / "claims.json").write_text(text, encoding="utf-8")     # dates as text
    crate = ROCrate()
    crate.name, crate.license = TITLE, "MIT"
    crate.description = ("Four works on neural clustering, rerun: each claim of their authors with "
                         "its verdict, and the records of the runs that decide it.")
    if days := [record.started[:10] for record in load_records()]:
        crate.datePublished = max(days)
    for source in load_sources().values():
        if source.kind == "paper":
            crate.root_dataset.append_to("citation", crate.add(ContextEntity(
                crate, source.url, {"@type": "ScholarlyArticle", "name": source.name})))
    for file in sorted(folder.rglob("*")):
        place = file.relative_to(folder).as_posix()
        if file.is_file() and place != crate.metadata.id:
            crate.add_file(file, place, properties={
                "name": place, "encodingFormat": mimetypes.guess_type(place)[0],
                "contentSize": str(file.stat().st_size)})
    crate.metadata.write(folder)
