"""Records of our runs: one JSON file a run; beside it arrays for figures, and a small model.

A record is ``data/records/<profile>-seed<seed>.json``: what was run (chapter, profile, parameters,
seed, data), what was measured (metrics, checks, history), and with what (commit, version of the
method, packages, machine, time, memory). It keeps its profile's claims as they stood, so that what
was chosen after the first run can be told from what was chosen before.

A notebook's last cell calls `record`, which writes only where ``clusterbook run --record`` asked
for it; `recorded` gives other cells the records that they show.
"""

import ast
import io
import json
import math
import os
import platform
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.metadata import version
from numbers import Number
from pathlib import Path, PureWindowsPath
from typing import Annotated, Any

import numpy as np
from pydantic import ConfigDict, Field, JsonValue, Strict
from pydantic.dataclasses import dataclass as model

from clusterbook import __version__, paths
from clusterbook.checks import InputError
from clusterbook.paths import write_atomically

from . import config
from .checks import Line, as_it_stands
from .claims import load_claims
from .config import sha256
from .machine import machine, peak_memory_mb

MANIFEST = "manifest.json"
HELD = "claims-held.json"
"""The claims as they stood at the commits of records that were written before records held them."""
MODEL_LIMIT = 10_000_000
"""Bytes; the weights of a larger model stay where they were trained."""

Name = Annotated[str, Field(pattern=r"^[\w-]+$")]
Whole = Annotated[int, Field(ge=0)]
Amount = Annotated[int | float, Field(ge=0)]


@model(frozen=True, config=ConfigDict(extra="forbid", strict=True, allow_inf_nan=False))
class Record:
    """The outcome of one run; see `load_records`.

    ``tolerances`` is of early records only, whose claims stand in the file `HELD`; so is a hash as
    ``code``. ``path`` and ``doubts``, what keeps it from reproducing anything, are not in the file.
    """

    chapter: Name
    profile: Name
    parameters: dict[str, JsonValue]        # every one, as it was in force
    assumed: Annotated[tuple[str, ...], Strict(False)]      # those that the source did not publish
    seed: Whole
    metrics: dict[str, bool | int | float]
    checks: dict[str, bool]                 # whether each expectation held
    history: Annotated[tuple[dict[str, bool | int | float | str], ...], Strict(False)]  # by epoch
    git: dict[str, str | bool | None]       # commit, and whether the checkout was clean
    code: str                               # the version of the method: `machine.version_of`
    versions: dict[str, str]
    machine: dict[str, str | Whole | None]  # see `machine.machine`
    data: dict[str, str] | None             # name, and sha256 of the content
    started: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\+00:00|Z)$")]
    seconds: Amount                         # wall time, summed over the pieces of a run
    peak_memory_mb: Amount | None           # mebibytes
    arrays: str | None                      # SHA-256 of the .npz file beside it
    taken_from: str | None = None           # the longer run of which this is the beginning
    claims: dict[str, str] = field(default_factory=dict)    # `checks.as_it_stands`, by id
    tolerances: dict[str, str | Amount] = field(default_factory=dict)
    path: Path | None = None
    doubts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The file's name without its ending, such as ``tell-mnist-paper-seed0``."""
        return f"{self.profile}-seed{self.seed}"

    def column(self, name: str, epoch: str = "epoch") -> tuple[np.ndarray, np.ndarray]:
        """Epochs, or what else *epoch* counts, and values of a recorded quantity, where it is."""
        rows = [row for row in self.history if name in row]
        return np.array([row[epoch] for row in rows]), np.array([row[name] for row in rows])


# --- reading


def load_records(folder: Path | str | None = None) -> list[Record]:
    """Every record of a folder (default: the book's), by chapter, profile and seed.

    Raises InputError for a file that is no record, with its name and what is wrong with it.
    """
    folder = Path(folder or config.root() / "data" / "records")
    files = [*folder.glob("*.json"), *_profiles().glob("*.toml")]
    return [*_read_all(folder, tuple(sorted((file, file.stat().st_mtime_ns) for file in files)))]


@lru_cache(1)
def _read_all(folder: Path, _written: tuple[tuple[Path, int], ...]) -> list[Record]:
    """What is read again only if a file was written since: a page asks for records many times."""
    listed, held = config.load_json(folder / MANIFEST), config.load_json(folder / HELD)
    records = [read_record(path, listed, held) for path in folder.glob("*-seed*.json")]
    return sorted(records, key=lambda record: (record.chapter, record.profile, record.seed))


def read_record(path: Path, listed: Mapping[str, str] | None = None,
                held: Mapping[str, dict[str, Any]] | None = None) -> Record:
    """One record from its file; with the manifest and the claims held, as `load_records` reads it.
    """
    file = "/".join(path.parts[-3:])
    record = as_record(config.read(path, json.loads, "a record"), file)
    if path.stem != record.name:
        raise InputError(f"{file}: the record of {record.name} must be called {record.name}.json")
    if wrong := contradicted(record):
        raise InputError(f"{file}: these metrics do not match the history: {', '.join(wrong)}")
    doubts = []
    if listed is not None and listed.get(path.name) != sha256(path.read_bytes()):
        doubts.append("a record's file differs from the manifest")
    if not record.git["clean"]:
        doubts.append("the code of a run is in no commit, or differs from its commit")
    if others := differing(record, profile_of(record.profile).get("parameters", {})):
        doubts.append(f"a run's parameters differ from its profile: {', '.join(others)}")
    return replace(record, path=path, doubts=tuple(doubts),
                   claims=record.claims or (held or {}).get(record.name, {}))


def contradicted(record: Record) -> list[str]:
    """The metrics that are not those of the history's last row.

    Where a run keeps an earlier epoch, as a parameter says that the book's file names, they may be
    those of one other row.
    """
    def differ(row: Mapping[str, Any]) -> list[str]:
        return [name for name, value in record.metrics.items()
                if name in row and not math.isclose(value, row[name], rel_tol=1e-6, abs_tol=1e-9)]

    wrong = differ(record.history[-1]) if record.history else []
    last = config.book().last_epoch
    if wrong and any(record.parameters.get(name, value) != value for name, value in last.items()):
        if any(row.keys() >= {*wrong} and not {*wrong} & {*differ(row)} for row in record.history):
            return []
    return wrong


def profile_of(name: str) -> dict[str, Any]:
    """The content of a profile; empty where the book has none. InputError if it is not TOML."""
    path = _profiles() / f"{name}.toml"
    return config.read(path, tomllib.loads, "TOML") if path.exists() else {}


def _profiles() -> Path:
    return config.root() / "notebooks" / "profiles"


def differing(record: Record, wanted: Mapping[str, Any]) -> list[str]:
    """Those of the wanted parameters of which a record has another value.

    One that the chapter got after the record was made counts as its default.
    """
    has = record.parameters
    if not wanted.keys() <= has.keys():
        has = defaults(config.root() / "notebooks" / f"{record.chapter}.ipynb") | has
    return [name for name, value in wanted.items() if name not in has or has[name] != plain(value)]


@cache
def defaults(notebook: Path) -> dict[str, Any]:
    """The default of each parameter of a notebook, in a record's form; of no notebook none.

    `bookledger.parameters` reads and checks all about them, with packages that are not in every
    installation with which a notebook shows records.
    """
    tagged = ["".join(cell["source"]) for cell in config.load_json(notebook).get("cells", [])
              if "parameters" in cell["metadata"].get("tags", [])]
    return plain({node.target.id: ast.literal_eval(node.value)
                  for source in tagged for node in ast.parse(source).body})


def as_record(values: Any, file: str) -> Record:
    """A record from its fields, each validated; *file* is its name in an error."""
    with config.mistakes_in(file):
        return Record(**values, path=None, doubts=())


class Runs(tuple[Record, ...]):
    """The recorded runs of a profile, or of several, by seed; false where there are none."""

    def metric(self, name: str) -> dict[int, float]:
        """Seed → value of a metric, of the runs that measured it."""
        return {run.seed: run.metrics[name] for run in self if name in run.metrics}

    def values(self, name: str) -> list[float]:
        """The same without the seeds."""
        return list(self.metric(name).values())

    @property
    def label(self) -> str:
        """Data, epochs and seeds for a figure's row, as ``MNIST, 30 epochs, 3 recorded seeds``."""
        if not self:
            return "no recorded run"
        data = self[0].data["name"] if self[0].data else self[0].profile
        known = config.book().catalog().get(data)
        epochs = self[0].parameters.get("epochs")
        return (f"{known.label if known else data}{f', {epochs:,} epochs' if epochs else ''}, "
                f"{len(self)} recorded seed{'s' if len(self) > 1 else ''}")

    @property
    def title(self) -> str:
        """The same with the method, as ``TELL on MNIST, 30 epochs, 3 recorded seeds``."""
        return f"{config.book().method(self[0].chapter)} on {self.label}" if self else self.label


def recorded(chapter: str, /, *profiles: str, **parameters: Any) -> Runs:
    """The recorded runs of profiles, or those that were made with the given parameters.

    A figure names the runs that it shows by their `Runs.label` or `Runs.title`.

    Give a profile, or several that differ in their seeds alone; or instead every parameter that
    decides the numbers: a record counts only if it has each of them with the same value (see
    `differing`), and is of the first profile that has. Raises InputError for neither, or for both.

    Examples
    --------
    >>> recorded("tell", "tell-mnist-30").title
    'TELL on MNIST, 30 epochs, 3 recorded seeds'
    >>> len(recorded("tell", dataset="mnist", epochs=29))
    0
    """
    if bool(profiles) == bool(parameters):
        raise InputError("recorded takes either profiles, or the parameters of a run")
    found = [record for record in load_records() if record.chapter == chapter
             and record.profile in (profiles or [record.profile])
             and not differing(record, parameters)]
    return Runs(record for record in found
                if record.profile in (profiles or [found[0].profile]))


def arrays(record: Record) -> dict[str, np.ndarray]:
    """The arrays that were recorded beside a run; empty when there are none.

    Raises InputError when the file is missing or is not the one that the run wrote.
    """
    if record.arrays is None:
        return {}
    file = record.path.with_suffix(".npz")
    if not file.is_file() or sha256(file.read_bytes()) != record.arrays:
        raise InputError(f"{file.name} is missing, or not the file that its run wrote: run it anew")
    with np.load(file, allow_pickle=False) as loaded:
        return dict(loaded)


def model_file(name: str) -> Path:
    """The file of a trained model, by its record's name: ``"tell-mnist-800-seed0"``.

    Raises InputError when the book has no such file; the message lists those it has.
    """
    kept = {path.stem: path for path in (config.root() / "data" / "records").glob("*.pt")}
    return config.pick("kept model", name, kept)


# --- run again


@model(frozen=True, config=ConfigDict(extra="forbid"))
class Attestation:
    """That somebody ran a record again: a file in ``data/verified``, by ``clusterbook verify``.

    It holds for the record's file with this SHA-256.
    """

    record: Name
    sha256: str
    by: str                                 # a name that the person gave
    started: str
    git: dict[str, str | bool | None]
    code: str
    versions: dict[str, str]
    machine: dict[str, str | Whole | None]
    equal: Whole                            # how many metrics are equal to the last bit
    differences: dict[str, tuple[float, float | None]]      # recorded; again, if it was measured
    beyond: tuple[str, ...]                 # those that differ by more than the book allows


def attestations(records: Iterable[Record]) -> list[Attestation]:
    """Those of these records, as their files are now."""
    present = {record.name: sha256(record.path.read_bytes()) for record in records}
    found = []
    for path in sorted((config.root() / "data" / "verified").glob("*.json")):
        with config.mistakes_in(f"verified/{path.name}"):
            found.append(Attestation(**config.read(path, json.loads, "an attestation")))
    return [one for one in found if present.get(one.record) == one.sha256]


# --- writing


def record(metrics: Mapping[str, float], *, checks: Mapping[str, bool],
           history: Iterable[Mapping[str, float]] = (),
           arrays: Mapping[str, np.ndarray] | None = None, data: Any = None,
           model: Any = None, threads: int = 0) -> Line:
    """Write a record of this run, if ``clusterbook run --record`` asked for it, and say so.

    *metrics* are the measurements at the end of the run, *checks* the outcomes of its checks, and
    *history* has the measurements of each epoch, one row an epoch. *arrays*, small and for figures,
    stand beside the record, and so does the trained *model*, an estimator (kept by its ``save``) or
    torch module (its ``state_dict``), if its file is under 10 MB; `model_file` finds it. *data* is
    the data set that was used. *threads* are those of the largest training, by default those of the
    model's own ``history_``.

    Raises InputError for a number that is not finite, or a field of the wrong type.
    """
    folder, run = paths.asked("records"), paths.run_context()
    threads = threads or getattr(getattr(model, "history_", None), "threads", 0)
    if folder is None or not run:
        return Line("not recorded: nothing asked for a record of this run")
    chapter = run["chapter"]
    profile = run["profile"] or f"{chapter}-default"
    piece = datetime.now(UTC) - datetime.fromisoformat(run["piece"])
    packed = io.BytesIO()
    if arrays:
        if any(np.asarray(array).dtype.hasobject for array in arrays.values()):
            raise InputError("an array holds objects; a record keeps numbers and text")
        np.savez_compressed(packed, **arrays)
    values = {
        "chapter": chapter,
        "profile": profile,
        "parameters": plain(run["parameters"]),
        "assumed": run["assumed"],
        "seed": run["seed"],
        "metrics": plain(dict(metrics)),
        "checks": dict(sorted(checks.items())),
        "history": [{name: float(f"{value:.7g}") if isinstance(value, float) else value
                     for name, value in plain(dict(row)).items()} for row in history],
        "git": run["git"],
        "code": run["code"],
        "claims": {number.id: as_it_stands(number)
                   for claim in load_claims() if claim.chapter == chapter
                   for number in claim.compares if number.profile in (None, profile)},
        "versions": {"python": platform.python_version(), "clusterbook": __version__, **{
            name: version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")}},
        "machine": machine(threads),
        "data": None if data is None else {"name": data.source.name,
                                           "sha256": config.book().datasets().content(data)},
        "started": datetime.fromisoformat(run["started"]).isoformat(timespec="seconds"),
        # A clock may be set back.
        "seconds": round(run["earlier"] + max(0.0, piece.total_seconds()), 3),
        "peak_memory_mb": peak_memory_mb(),
        "arrays": sha256(packed.getvalue()) if arrays else None,
    }
    name = as_record(values, f"the record of {profile}").name
    text, weights = f"recorded: {name}.json", folder / f"{name}.pt"
    if arrays:
        write_atomically(folder / f"{name}.npz", packed.getvalue())
    if model is not None:
        _save(model, weights)
    kept = model is not None and weights.stat().st_size <= MODEL_LIMIT
    if model is not None and not kept:
        text += f", without the trained model, which has more than {MODEL_LIMIT / 1e6:.0f} MB"
    write_atomically(folder / f"{name}.json", dumps(values).encode())   # now all it names is there
    for ending, written in ((".npz", arrays), (".pt", kept)):
        if not written:
            (folder / f"{name}{ending}").unlink(missing_ok=True)        # of an earlier run
    write_manifest(folder)
    return Line(text)


def _save(model: Any, path: Path) -> None:
    """Write a trained model to a file."""
    if hasattr(model, "save"):
        model.save(path)
    else:
        import torch  # heavy, and for a run that is recorded only

        content = io.BytesIO()
        torch.save(model.state_dict(), content)
        write_atomically(path, content.getvalue())


def write_manifest(folder: Path) -> None:
    """List every record, its arrays and its model with their SHA-256."""
    hashes = {path.name: sha256(path.read_bytes()) for path in sorted(folder.glob("*-seed*.*"))
              if path.suffix in (".json", ".npz", ".pt")}
    write_atomically(folder / MANIFEST, f"{json.dumps(hashes, indent=0)}\n".encode())


def dumps(values: Mapping[str, Any]) -> str:
    """A record as JSON with one field a line and one row of history a line, keys sorted.

    So two records compare line by line, and the same values always give the same text.
    """
    def dump(value: Any) -> str:
        return json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=False)

    fields = {key: dump(value) for key, value in sorted(values.items())}
    if rows := ",\n  ".join(map(dump, values["history"])):
        fields["history"] = f"[\n  {rows}\n ]"
    lines = ",\n ".join(f'"{key}": {text}' for key, text in fields.items())
    return f"{{\n {lines}\n}}\n"


def plain(value: Any) -> Any:
    """A value as JSON knows it; of a path in somebody's file system only the last part."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str | os.PathLike):
        path = PureWindowsPath(value)   # knows both kinds of slashes
        return path.name if path.root or str(value).startswith("~") else str(value)
    if hasattr(value, "item") and math.prod(value.shape) == 1:
        return value.item()             # of numpy or torch
    if value is None or isinstance(value, Number):
        return value
    raise InputError(f"a record can't hold {type(value).__name__}: {str(value)[:80]!r}")
