"""Where numbers come from: recorded profiles, runs under way, amendments, the origins of figures.

And claims with their verdicts as data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from operator import ge
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from markupsafe import Markup

from clusterbook import __version__

from . import config
from .formats import count, duration, seed_list
from .records import Record, load_records
from .sources import load_errata, load_sources
from .verdicts import stale_among
from .views import Table, View, assessed, html, scorecard


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
    groups = {Markup('<a href="../notebooks/{}.html">{}</a>').format(
        chapter, config.book().method(chapter)): [
            [html("profile", profile.name, profile.parameters),
             *(profile.cells | {"Seeds": html("seeds", profile.name, profile.seeds)}).values()]
            for profile in group]
        for chapter, group in groupby(profiles, key=lambda profile: profile.chapter)}
    shown = Table(f"{len(profiles)} recorded profiles",
                  ["Profile", *(profiles[0].cells if profiles else ())], groups,
                  css="cb-status", scrolls=False, named=True)
    return View(tuple(profiles), html("table", shown), [shown])


def under_way(records: Path | None = None) -> View:
    """Runs that were stopped and go on later, as their progress files say; verdicts ignore them."""
    folder = (records or config.root() / "data" / "records") / "under-way"
    rows = []
    for path in sorted(folder.glob("*.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        for name, at in run["trainings"].items():
            rows.append((path.stem, f"{at['stage'] or name}: epoch {at['epoch']:,} of "
                         f"{at['epochs']:,}, {duration(at['seconds_an_epoch'])} an epoch, begun "
                         f"{run['started'][:10]}"))
    if not rows:
        text = "No recorded run is under way."
        return View((), Markup('<p class="cb-source">{}</p>').format(text), [text])
    items = Markup("").join(Markup("<li><code>{}</code>, {}</li>").format(*row) for row in rows)
    return View(tuple(rows), Markup('<ul class="cb-source">{}</ul>').format(items),
                [*map(": ".join, rows)])


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


def amendments() -> View:
    """What was changed after its profile's first record, and where each earlier claim stands now.

    From ``data/amendments/history.json``, which ``python tests/amendments`` makes from the
    repository's history.
    """
    history = config.load_json(config.root() / "data" / "amendments" / "history.json")
    about = history["commits"]
    changes = []
    for one in history["changes"]:
        day, subject = about[one["commit"]]
        fields = "; ".join(f"{key}: {old} → {new}" for key, (old, new) in one["fields"].items())
        changes.append((day, one["commit"][:8], one["id"],
                        f"{one['change']}{': ' if fields else ''}{fields}",
                        " → ".join(word or "–" for word in one["verdicts"]),
                        one["reason"] or subject))
    records = [(about[one["commit"]][0], one["commit"][:8], ", ".join(one["profiles"]),
                ", ".join(one["fields"]), about[one["commit"]][1]) for one in history["records"]]
    code = Markup("<code>{}</code>").format
    places = [(code(one["id"]), one["verdict"], Markup('<a href="scorecard.html#{}">{}</a>').format(
        one["id"], code(one["now"])) if one["now"] else one["reason"]) for one in history["places"]]
    tables = [
        Table("Claims, in order of time",
              ["Date", "Commit", "Claim", "Change", "Verdict", "Reason"], {"": changes},
              headed=False, folded=f"{len(changes)} changes to claims after the first record of "
                                   "their profile"),
        Table(f"Records replaced or edited, by commit ({len(records)})",
              ["Date", "Commit", "Profiles", "What differs", "Reason"], {"": records},
              headed=False),
        Table("Claims before the merge", ["Claim", "Verdict then", "Now"], {"": places},
              headed=False, folded=f"Where each of the {len(places)} claims before the merge "
                                   "stands now")]
    return View(tuple(changes), html("said", tables), tables)


def as_json() -> str:
    """Claims, verdicts and errata as JSON; keys as in ``data/claims``, dates as text."""
    rows = scorecard().rows
    return json.dumps({
        "title": config.book().title, "version": __version__, "summary": assessed(rows),
        "claims": [asdict(claim) | {"verdict": asdict(verdict)} for claim, verdict in rows],
        "errata": [asdict(erratum) for erratum in load_errata()],
        "sources": [asdict(source) for source in load_sources().values()],
    }, indent=1, ensure_ascii=False, allow_nan=False, default=str)
