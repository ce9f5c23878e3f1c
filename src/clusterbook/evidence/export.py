"""The evidence as data: claims with their verdicts as JSON, in an RO-Crate; networks with cards.

An RO-Crate (https://w3id.org/ro/crate/1.3) is a folder whose ``ro-crate-metadata.json`` describes
each of its files.
"""

from __future__ import annotations

import json
import mimetypes
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from .. import __version__, datasets
from ..figures.steps import ENVIRONMENT
from .claims import METHODS
from .provenance import described
from .records import Runs, load_records, profile_of
from .sources import load_errata, load_sources
from .templates import CARD
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


def models(folder: Path) -> None:
    """Write each trained network to a folder of its own, with a card made from its record.

    A model hub takes such a folder as it is: ``README.md``, which begins with metadata, beside the
    weights.
    """
    card = ENVIRONMENT.overlay(autoescape=False, keep_trailing_newline=True).from_string(CARD)
    sources, records = {source.name: source for source in datasets.catalog()}, load_records()
    rows = scorecard().rows
    for record in records:
        if record.path is None or not (file := record.path.with_suffix(".pt")).is_file():
            continue
        method, data = METHODS[record.chapter], (record.data or {}).get("name", "not recorded")
        load = (f"import torch\n\nweights = torch.load(\"{file.name}\", weights_only=True)"
                if record.chapter == "weights" else
                f"from clusterbook import {method}\n\nmodel = {method}.load(\"{file.name}\")")
        scores = [{"type": name, "value": record.metrics[name]}
                  for name in ("acc", "nmi", "ari", "test_accuracy") if name in record.metrics]
        front = {
            "license": "mit", "library_name": "clusterbook", "tags": ["clustering", record.chapter],
            "model-index": [{"name": record.name, "results": [{
                "task": {"type": "clustering"}, "dataset": {"name": data, "type": data},
                "metrics": scores}]}]}
        text = card.render(
            front=yaml.safe_dump(front, sort_keys=False), record=record, load=load, title=TITLE,
            runs=Runs(one for one in records if one.profile == record.profile),
            says=profile_of(record).get("says", ""), data=sources.get(data),
            run={name: value for name, value in described([record]).items() if name != "Seeds"},
            claims=[(claim, verdict) for claim, verdict in rows
                    if any(one.profile == record.profile for one in claim.compares)])
        target = folder / record.name
        target.mkdir(parents=True)
        shutil.copy2(file, target)
        (target / "README.md").write_text(text, encoding="utf-8")
