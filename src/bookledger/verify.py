"""Run records again and compare: a fabricated one ends elsewhere.

Nothing that is only text can show that a record is of a run. Running again can: the same profile
and seed, in a folder of its own, and then metric by metric. How far apart two processors may end is
for the book to say (``again`` in its ``ledger.toml``).
"""

import json
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from clusterbook.checks import InputError
from clusterbook.paths import bar, write_atomically

from . import config, execution, parameters, runs
from .config import sha256
from .records import Attestation, Record, load_records, read_record
from .verdicts import count, stale_among
from .views import processor

CHOSEN = 3      # records, where none is named
Allowed = Callable[[str, float], float]     # metric, recorded value → largest difference


class Differs(RuntimeError):
    """A record that was run again has other numbers."""


def verify(names: Sequence[str] = (), *, by: str | None = None) -> Iterator[str]:
    """Run records again, `CHOSEN` cheap ones by chance if none is named; a line for each.

    With *by*, the name of a person, each leaves its `Attestation` in ``data/verified``.

    Raises InputError before anything runs; at the end Differs if one differs, and ChapterError if
    one could not be run.
    """
    records = load_records()
    allowed, known = config.book().allowed(), {record.name: record for record in records}
    chosen = [config.pick("record", name, known) for name in dict.fromkeys(
        name.removesuffix(".json") for name in names)]
    if by is not None and not by.strip():
        raise InputError("--by takes the name of who runs the records again")
    chosen = chosen or by_chance(records)
    differ, failed = [], []
    with (bar(len(chosen), unit="record") as shown,
          execution.side_by_side(_again, [(record,) for record in chosen],
                                 again="the same command begins anew") as ended):
        for record, again, error in ended:
            shown.update()
            if error:
                failed.append(f"{record.name}: {error.splitlines()[0]}")
                continue
            found = compared(record, again, allowed)
            if by:
                _write(found, by)
            if found.beyond:
                differ.append(record.name)
            yield said(record, found, allowed)
    if failed:
        raise execution.ChapterError("\n  ".join(["these could not be run again:", *failed]))
    if differ:
        raise Differs(f"{', '.join(differ)}: not what a run on this machine gives")


def by_chance(records: Iterable[Record]) -> list[Record]:
    """Some records of the book's cheap profiles: of the present code, and whose data are here."""
    records, catalog = list(records), config.book().catalog()
    stale = stale_among(records)
    here = {name for name in catalog if config.book().datasets().status(name) in (
        "here", "embedded")}
    cheap = [record for record in records if record.profile in config.book().again.profiles
             and record.name not in stale and (not record.data or record.data["name"] in here)]
    if not cheap:
        raise InputError("no cheap record has its data here: fetch them with clusterbook data NAME")
    return random.sample(cheap, min(CHOSEN, len(cheap)))


def _again(record: Record, folder: Path, variables: Mapping[str, str]) -> Record:
    """The record of a run that is made again."""
    chapter = parameters.read(record.chapter)
    profile = chapter.profile(record.profile)
    values = {name: record.parameters.get(name, value)
              for name, value in chapter.values(profile).items()}
    run = runs.Run(chapter, profile, values, records=folder, variables=variables,
                   checkpoint=str(folder / "checkpoints"))
    runs.make(run)
    again = read_record(run.record)
    if again.data != record.data:
        raise InputError(f"its data {record.data['name']} have another content now")
    return again


def compared(record: Record, again: Record, allowed: Allowed) -> Attestation:
    """What differs between a record and its run made again; the name of who says so is empty.

    A metric that the run no longer has differs by more than is allowed; one that only the new run
    has is not compared.
    """
    pairs = {name: (value, again.metrics.get(name)) for name, value in record.metrics.items()
             if math.isfinite(allowed(name, value))}
    differences = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    beyond = [name for name, (old, new) in differences.items()
              if new is None or not abs(old - new) <= allowed(name, old)]
    return Attestation(
        record.name, sha256(record.path.read_bytes()), "", again.started, again.git, again.code,
        again.versions, again.machine, len(pairs) - len(differences), differences, tuple(beyond))


def said(record: Record, found: Attestation, allowed: Allowed) -> str:
    """What a comparison found, for the terminal."""
    of = f"of {count(found.equal + len(found.differences), 'number')}"
    if found.beyond:
        lines = [f"{found.record}: DIFFERS in {len(found.beyond)} {of}; recorded on "
                 f"{processor(record.machine)}, run again on {processor(found.machine)}"]
        for name in found.beyond:
            old, new = found.differences[name]
            lines.append(f"{name}: {old:.6g} recorded, "
                         + ("not measured" if new is None else f"{new:.6g} again")
                         + f", {allowed(name, old):.2g} allowed")
        return "\n    ".join(lines)
    line = f"{found.record}: agrees; {found.equal} {of} equal"
    if found.differences:
        name, (old, new) = max(found.differences.items(), key=lambda item: (
            abs(item[1][0] - item[1][1]) / allowed(item[0], item[1][0])))
        line += f", the furthest {name}: {old:.6g} recorded, {new:.6g} again"
    return line


def _write(found: Attestation, by: str) -> None:
    content = asdict(found) | {"by": by.strip()}
    when = re.sub(r"\D", "", found.started)[:14]
    folder = (config.checkout() or Path()) / "data" / "verified"
    write_atomically(folder / f"{found.record}-{when}.json",
                     (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
