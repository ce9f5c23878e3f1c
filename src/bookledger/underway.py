"""Runs that take days: a time budget, a line a minute, and what is left of each.

A recorded run has a folder of checkpoints. A training writes beside each how far it is
(`clusterbook.training`). This reads it for the log, for ``clusterbook status``, and for the
progress file that a stopped run leaves in ``under-way``, beside its records. Verdicts ignore it.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clusterbook import paths
from clusterbook.errors import InputError
from clusterbook.paths import write_atomically

from . import config
from .wording import duration

FOLDER = "under-way"
MOST_ROWS = 300         # of a training's history in a progress file
_UNITS = {"h": 3600, "m": 60, "s": 1}
_KEPT = ("chapter", "profile", "seed", "parameters", "assumed", "started", "git", "code")


def seconds(text: str) -> float:
    """The seconds in a duration such as ``2h``, ``90m`` or ``1h30m``.

    Examples
    --------
    >>> seconds("1h30m")
    5400.0
    """
    if not re.fullmatch(r"(?=.)(\d{1,4}h)?(\d{1,5}m)?(\d{1,6}s)?", text):
        raise InputError(f"--for takes a duration such as 2h, 90m or 1h30m, not {text[:60]!r}")
    return float(sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)(.)", text)))


def checkpoints() -> Path:
    """The folder of the checkpoints of recorded runs; a finished run removes its own."""
    here = config.checkout()
    return here / "_build" / "checkpoints" if here else paths.data_home() / "checkpoints"


def clock(folder: Path) -> dict[str, str | float]:
    """When a run and its present piece began (UTC, ISO 8601), and the seconds of earlier pieces.

    They are kept in a file beside the checkpoints. A stopped piece counts up to its last
    checkpoint, from which the next one resumes; without a checkpoint a run begins anew.
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    times = {"started": now, "piece": now, "earlier": 0.0}
    kept = folder / "clock.json"
    saved = [path.stat().st_mtime for path in folder.glob("*.pt")]
    if saved and kept.is_file():
        times = json.loads(kept.read_text(encoding="utf-8"))
        begun = datetime.fromisoformat(times["piece"]).timestamp()
        times["earlier"] += max(0.0, max(saved) - begun)
        times["piece"] = now
    write_atomically(kept, json.dumps(times).encode())
    return times


def reports(folder: Path) -> dict[str, dict[str, Any]]:
    """What the trainings of a run reported last, by their checkpoints' names; finished ones last.
    """
    found = {path.stem: json.loads(path.read_text(encoding="utf-8"))
             for path in sorted(folder.glob("*.json")) if path.with_suffix(".pt").exists()}
    return dict(sorted(found.items(), key=lambda report: report[1]["epoch"] == report[1]["epochs"]))


def lines(folder: Path) -> list[str]:
    """A line for each training of a run: its epoch, loss, speed, and the time that is left."""
    said = []
    for name, report in reports(folder).items():
        left = (report["epochs"] - report["epoch"]) * report["seconds_an_epoch"]
        losses = [f", {key} {value:.4g}" for key, value in report["rows"][-1].items()
                  if isinstance(value, float)]
        stage = f", {report['stage']}" if report["stage"] else ""
        said.append(f"{name}{stage}: epoch {report['epoch']:,} of {report['epochs']:,}, "
                    f"{report['seconds_an_epoch']:.3g} s an epoch, "
                    + (f"{duration(left)} left" if left else "finished") + "".join(losses[:4]))
    return said


@contextmanager
def reported(folder: Path, every: float = 60.0) -> Iterator[None]:
    """Print the lines of a run to stderr every minute; for logs, where no bar is shown."""
    over = threading.Event()

    def report() -> None:
        while not over.wait(every):
            sys.stderr.write("".join(f"{line}\n" for line in lines(folder)))

    if not sys.stderr.isatty():
        threading.Thread(target=report, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def file(records: Path, name: str) -> Path:
    """The progress file of a stopped run."""
    return records / FOLDER / f"{name}.json"


def write(path: Path, trainings: Mapping[str, Any], context: Mapping[str, Any]) -> None:
    """Write a stopped run's progress file.

    It holds what a record would (chapter, profile, seed, parameters, commit, code), and for each
    training its epochs, pace and curves, thinned to `MOST_ROWS` rows.
    """
    content = {key: context[key] for key in _KEPT if key in context} | {"trainings": {}}
    for name, report in trainings.items():
        rows = report["rows"]
        thinned = [*rows[:-1:-(-len(rows) // MOST_ROWS)], rows[-1]]
        content["trainings"][name] = report | {"rows": thinned}
    write_atomically(path, json.dumps(content, indent=1).encode())


def unfinished() -> list[str]:
    """A paragraph for each unfinished run: its trainings, and the command that resumes it."""
    said = []
    for folder in sorted({path.parent for path in checkpoints().glob("*/*.pt")}):
        profile, _, seed = folder.name.rpartition("-seed")
        resumes = (f"clusterbook run {profile.split('-')[0]} --profile {profile} --seeds {seed} "
                   "--record" if profile else "the same sweep again")
        said.append("\n    ".join([folder.name, *lines(folder), f"resume: {resumes}"]))
    return said
