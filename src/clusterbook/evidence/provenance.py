"""Where numbers come from, as views and as data.

Views of recorded profiles, runs under way and amendments, and the origins of figures; claims with
their verdicts as JSON, in an RO-Crate; trained networks with cards.
"""

from __future__ import annotations

import json
import mimetypes
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from operator import ge
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import yaml

from .. import __version__, datasets, paths
from ..figures.steps import ENVIRONMENT
from .claims import METHODS
from .records import Record, Runs, load_json, load_records, profile_of
from .sources import load_errata, load_sources
from .templates import CARD
from .verdicts import count, seed_list, stale_among
from .views import View, assessed, html, scorecard, wrapped

TITLE = "Interpretable Deep Clustering, Reproduced"


class Profile(NamedTuple):
    """The recorded runs of one profile, in words; ``cells`` are by the heads of the columns."""

    name: str
    chapter: str
    seeds: list[int]
    parameters: dict[str, str]
    cells: dict[str, str]


def status() -> View:
    """Every recorded profile: its settings, cost, machine and code."""
    records = load_records()
    stale, profiles = stale_among(records), []
    for (chapter, name), group in groupby(records, key=lambda r: (r.chapter, r.profile)):
        found = list(group)
        cells = described(found)
        if any(record.name in stale for record in found):
            cells["Code"] += ", stale"
        parameters = {
            key: ("none" if value in ([], None, "") else str(value))
            + (" (assumed)" if key in found[0].assumed else "")
            for key, value in found[0].parameters.items() if key != "seed"}
        profiles.append(Profile(name, chapter, [record.seed for record in found], parameters,
                                cells))
    text = "\n\n".join("\n    ".join([profile.name, *map(": ".join, profile.cells.items())])
                       for profile in profiles)
    return View(tuple(profiles), text, html(
        "status", caption=f"{len(profiles)} recorded profiles",
        heads=["Profile", *(profiles[0].cells if profiles else ())],
        groups=groupby(profiles, key=lambda profile: profile.chapter)))


def under_way(records: Path | None = None) -> View:
    """Runs that were stopped and go on later, as their progress files say; verdicts ignore them."""
    folder = (records or paths.root() / "data" / "records") / "under-way"
    rows = []
    for path in sorted(folder.glob("*.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        for name, at in run["trainings"].items():
            rows.append((path.stem, f"{at['stage'] or name}: epoch {at['epoch']:,} of "
                         f"{at['epochs']:,}, {duration(at['seconds_an_epoch'])} an epoch, begun "
                         f"{run['started'][:10]}"))
    text = "\n".join(map(": ".join, rows)) or "No recorded run is under way."
    return View(tuple(rows), text, html("under_way", rows=rows))


def described(records: Sequence[Record]) -> dict[str, str]:
    """Cost, machine and code of the runs of a profile."""
    memory = [r.peak_memory_mb for r in records if r.peak_memory_mb is not None]
    kept = [f"seed {record.seed}, {file.stat().st_size / 1e6:.1f} MB" for record in records
            if record.path and (file := record.path.with_suffix(".pt")).is_file()]
    machines = [f"{m['gpu'] or _processor(m)}, threads: {m['threads']}, cores: {m['cores']}"
                for m in (record.machine for record in records)]
    versions = [", ".join(f"{name} {record.versions.get(name)}"
                          for name in ("python", "torch", "numpy", "scikit-learn"))
                for record in records]
    commits = ["no commit" if record.git["commit"] is None else
               record.git["commit"][:8] + ("" if record.git["clean"] else ", changed")
               for record in records]
    return {
        "Seeds": " ".join(str(record.seed) for record in records),
        "Time, a seed": took(records),
        "Peak memory": f"{max(memory):,.0f} MiB" if memory else "not known",
        "Machine": _distinct(machines),
        "Versions": _distinct(versions),
        "Date": _distinct(record.started[:10] for record in records),
        "Code": _distinct(commits),
        "Trained model": "; ".join(kept) or "not kept",
    }


def _processor(machine: Mapping[str, Any]) -> str:
    """A processor, with the instructions that torch used where the record has them."""
    used = machine.get("instructions")
    return f"{machine['cpu']} ({'SSE' if used == 'DEFAULT' else used})" if used else machine["cpu"]


def _distinct(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(texts))


def took(records: Sequence[Record]) -> str:
    """The mean wall time of some runs, in words.

    Early records of resumed runs have the time of their last piece only; their training's own
    clock, which goes on over the pieces, is a lower bound.
    """
    seconds = [record.seconds for record in records]
    trained = [record.metrics.get("seconds_per_epoch", 0) * record.parameters.get("epochs", 0)
               for record in records]
    mean = duration(fmean(map(max, seconds, trained)))
    return mean if all(map(ge, seconds, trained)) else f"more than {mean}"


def origin(*runs: Any, seed: int | Iterable[int] | None = None, seconds: float = 0.0) -> str:
    """Where the numbers of a figure come from: live or recorded, the seeds, the time.

    *runs* are trained estimators (live), records, or sequences of either. Without a trained
    estimator, *seed* (one or several) says that a figure is live, and *seconds* how long it took.

    Examples
    --------
    >>> origin(seed=0)
    'live · seed 0'
    """
    every = [run for one in runs for run in (one if isinstance(one, (tuple, list)) else [one])]
    live = [run for run in every if not isinstance(run, Record)]
    parts = []
    if live or seed is not None:
        seconds += sum(run.history_.seconds for run in live if hasattr(run, "history_"))
        seeds = [run.random_state for run in live] or (
            [seed] if isinstance(seed, int) else seed)
        parts.append(["live", seed_list(seeds), *([duration(seconds)] if seconds else [])])
    records = sorted({run.name: run for run in every if isinstance(run, Record)}.values(),
                     key=lambda record: (record.profile, record.seed))
    profiles = list(dict.fromkeys(record.profile for record in records))
    if len(profiles) > 2:
        parts.append([f"recorded {profiles[0]} and {len(profiles) - 1} more profiles",
                      count(len(records), "run")])
        records = []
    for profile, group in groupby(records, key=lambda record: record.profile):
        found = list(group)
        parts.append([f"recorded {profile}", seed_list(record.seed for record in found),
                      took(found) + (" per seed on average" if len(found) > 1 else "")])
    return "; ".join(map(" · ".join, parts))


def duration(seconds: float) -> str:
    """A time in the largest unit that fits, two digits: ``45 s``, ``12 min``, ``1.4 h``.

    Examples
    --------
    >>> [duration(seconds) for seconds in (8.24, 59.7, 745, 5040, 36000)]
    ['8.2 s', '60 s', '12 min', '1.4 h', '10 h']
    """
    size, unit = (3600, "h") if seconds >= 3600 else (60, "min") if seconds >= 60 else (1, "s")
    amount = seconds / size
    return f"{amount:.{1 if amount < 9.95 else 0}f} {unit}"


def amendments() -> View:
    """What was changed after its profile's first record, and where each earlier claim stands now.

    From ``data/amendments/history.json``, which ``python tests/amendments`` makes from the
    repository's history.
    """
    history = load_json(paths.root() / "data" / "amendments" / "history.json")
    about = history["commits"]
    rows = []
    for one in history["changes"]:
        before, after = (word or "–" for word in one["verdicts"])
        fields = "; ".join(f"{key}: {old} → {new}" for key, (old, new) in one["fields"].items())
        rows.append((about[one["commit"]][0], one["commit"][:8], one["id"],
                     f"{one['change']}{': ' if fields else ''}{fields}", f"{before} → {after}",
                     one["reason"] or about[one["commit"]][1]))
    records = [(about[one["commit"]][0], one["commit"][:8], ", ".join(one["profiles"]),
                ", ".join(one["fields"]), about[one["commit"]][1]) for one in history["records"]]
    places = [(one["id"], one["verdict"], one["now"], one["reason"]) for one in history["places"]]
    text = "\n".join(wrapped(": ".join(row[:2]) + ": " + "; ".join(row[2:])) for row in rows)
    return View(tuple(rows), text, html("amendments", rows=rows, records=records, places=places))


# --- as data


def as_data() -> dict[str, Any]:
    """Claims, verdicts and errata, in types that JSON knows; keys as in ``data/claims``."""
    rows = scorecard().rows
    return {
        "title": TITLE, "version": __version__, "summary": assessed(rows),
        "claims": [asdict(claim) | {"verdict": asdict(verdict)} for claim, verdict in rows],
        "errata": [asdict(erratum) for erratum in load_errata()],
        "sources": [asdict(source) for source in load_sources().values()]}


def write_crate(folder: Path) -> None:
    """Write ``claims.json`` to a folder, and describe all its files as an RO-Crate.

    An RO-Crate (https://w3id.org/ro/crate/1.3) is a folder whose ``ro-crate-metadata.json``
    describes each of its files.
    """
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


def write_models(folder: Path) -> None:
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
