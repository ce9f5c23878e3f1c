"""What our runs measured: one JSON file a run; beside it arrays for figures, and a small model.

A record is ``data/records/<profile>-seed<seed>.json``. It says what was run (chapter, profile, the
resolved parameters, which of them the source did not publish, seed, data), what came out (metrics,
checks, history), and with what (git commit, fingerprint of the code, versions, machine, time,
memory). It also keeps the tolerances of its profile's claims as they stood when it was made, so
that a tolerance chosen after the first run can be told from one chosen before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ConfigDict, Field, JsonValue, ValidationError, field_validator
from pydantic.dataclasses import dataclass as model
from typing_extensions import TypedDict

from .. import datasets, paths
from ..errors import InputError, unknown
from .entries import as_tuple, not_negative

Numbers = dict[str, bool | int | float]
Rows = tuple[dict[str, bool | int | float | str], ...]
_CONFIG = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Git(TypedDict):
    """The checkout's state; both None outside one."""

    __pydantic_config__ = _CONFIG
    commit: str | None
    clean: bool | None


class Machine(TypedDict):
    """What a run ran on."""

    __pydantic_config__ = _CONFIG
    cpu: str
    gpu: str | None
    cores: int
    threads: int


class Data(TypedDict):
    """The data's name, and the SHA-256 of their content (`clusterbook.datasets.content`)."""

    __pydantic_config__ = _CONFIG
    name: str
    sha256: str


@model(frozen=True, config=_CONFIG)
class Record:
    """What one run measured; see `load_records`.

    Attributes
    ----------
    parameters, assumed
        Every parameter as it was in force, and those whose settings the source did not publish.
    metrics, checks
        What was measured at the end, and whether each expectation held.
    history
        One row an epoch, to float32's seven digits.
    code
        The fingerprint of the code that can change the numbers, other than through the data.
    tolerances
        What the profile's claims allowed when the run was made, `Claim.allowed`; early records have
        the tolerance alone.
    started, seconds, peak_memory_mb
        UTC in ISO 8601; wall time; mebibytes.
    arrays
        The SHA-256 of the ``.npz`` file beside the record.
    path
        Where it was loaded from; not part of the file.
    """

    # A description says what the field must be, in an error.
    chapter: str = Field(description="a chapter's name")
    profile: str = Field(description="a profile's name")
    parameters: dict[str, JsonValue] = Field(description="a mapping of names to settings")
    assumed: tuple[str, ...] = Field(description="a list of parameters")
    seed: int = Field(description="a whole number")
    metrics: Numbers = Field(description="a mapping of names to finite numbers")
    checks: dict[str, bool] = Field(description="a mapping of names to true or false")
    history: Rows = Field(description="a list of rows of finite numbers")
    git: Git = Field(description="commit and clean")
    code: str = Field(description="a fingerprint")
    tolerances: dict[str, str | int | float] = Field(
        description="a mapping of claims to what they allow")
    versions: dict[str, str] = Field(description="a mapping of packages to versions")
    machine: Machine = Field(description="cpu, gpu, cores and threads")
    data: Data | None = Field(description="name and sha256, or null")
    started: str = Field(description="a UTC time in ISO 8601")
    seconds: int | float = Field(description="a number of seconds")
    peak_memory_mb: int | float | None = Field(description="a number of mebibytes, or null")
    arrays: str | None = Field(description="the SHA-256 of the arrays' file, or null")
    path: Path | None = None

    _lists = field_validator("assumed", "history", mode="before")(as_tuple)
    _amounts = field_validator("seed", "seconds", "peak_memory_mb")(not_negative)

    @field_validator("chapter", "profile")
    @classmethod
    def _is_name(cls, name: str) -> str:
        if not name.replace("-", "").replace("_", "").isalnum():
            raise ValueError("a name has letters, digits, - and _")
        return name

    @field_validator("history")
    @classmethod
    def _names_stages(cls, history: Rows) -> Rows:
        if any(isinstance(value, str) != (name == "stage")
               for row in history for name, value in row.items()):
            raise ValueError("the stage of training is text, and nothing else is")
        return history

    @field_validator("tolerances")
    @classmethod
    def _are_allowances(cls, tolerances: dict[str, Any]) -> dict[str, Any]:
        if any(isinstance(value, int | float) and value < 0 for value in tolerances.values()):
            raise ValueError("a tolerance can't be negative")
        return tolerances

    @field_validator("machine")
    @classmethod
    def _counts(cls, machine: Machine) -> Machine:
        if min(machine["cores"], machine["threads"]) < 0:
            raise ValueError("numbers of cores and threads can't be negative")
        return machine

    @field_validator("started")
    @classmethod
    def _is_utc(cls, text: str) -> str:
        if datetime.fromisoformat(text).utcoffset() != timedelta(0):
            raise ValueError("not a UTC time")
        return text

    @property
    def name(self) -> str:
        """The file's name without its ending: ``tell-mnist-paper-seed0``."""
        return f"{self.profile}-seed{self.seed}"


def load_records(folder: Path | str | None = None) -> list[Record]:
    """Every record of a folder (default: the book's), by chapter, profile and seed.

    Raises InputError for a file that is no record, with its name and what is wrong with it.
    """
    folder = Path(folder) if folder is not None else paths.root() / "data" / "records"
    records = [read_record(path) for path in folder.glob("*.json")]
    return sorted(records, key=lambda record: (record.chapter, record.profile, record.seed))


def read_record(path: Path) -> Record:
    """One record from its file; see `load_records`."""
    file = "/".join(path.parts[-3:])
    try:
        values = json.loads(path.read_text(encoding="utf-8"), parse_constant=_not_finite)
    except ValueError as error:
        raise InputError(f"{file}: not a record: {error}") from error
    record = as_record(values, file, path)
    if path.stem != record.name:
        raise InputError(f"{file}: the record of {record.name} must be called {record.name}.json")
    return record


def as_record(values: Any, file: str, path: Path | None = None) -> Record:
    """A record from its fields, each validated; *file* is what an error calls it."""
    if not isinstance(values, dict):
        raise InputError(f"{file}: not a record: a record is a mapping")
    fields = {name: field.description for name, field in Record.__pydantic_fields__.items()
              if name != "path"}
    for key in values:
        if key not in fields:
            raise InputError(f"{file}: {unknown('record field', key, fields)}")
    try:
        record = Record(**values, path=path)
    except ValidationError as error:
        key, missing = error.errors()[0]["loc"][0], error.errors()[0]["type"] == "missing"
        raise InputError(
            f"{file}: the record field {key!r} is missing" if missing and key not in values else
            f"{file}: {key} must be {fields[key]}, not {str(values[key])[:80]!r}") from None
    if not record.profile.startswith(f"{record.chapter}-"):
        raise InputError(f"{file}: the profile's name must begin with {record.chapter + '-'!r}")
    return record


@dataclass(frozen=True)
class Runs:
    """The recorded runs of one profile, by seed; false where there are none.

    Iterating gives the records; ``len`` is the number of seeds.
    """

    records: tuple[Record, ...] = ()

    def __len__(self) -> int:
        """The number of runs."""
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        """The records, by seed."""
        return iter(self.records)

    def __getitem__(self, i: int) -> Record:
        """One record, counted from 0 in the order of the seeds."""
        return self.records[i]

    def metric(self, name: str) -> dict[int, float]:
        """Seed → value of a metric, of the runs that measured it."""
        return {run.seed: run.metrics[name] for run in self.records if name in run.metrics}

    def values(self, name: str) -> list[float]:
        """The same without the seeds."""
        return list(self.metric(name).values())

    @property
    def label(self) -> str:
        """Whose runs these are, for a row of a figure: ``MNIST, 30 epochs, 3 recorded seeds``."""
        if not self.records:
            return "no recorded run"
        first = self.records[0]
        data = first.data["name"] if first.data else first.profile
        labels = {source.name: source.label for source in datasets.catalog()}
        epochs = first.parameters.get("epochs")
        return ", ".join([labels.get(data, data), *([f"{epochs} epochs"] if epochs else []),
                          f"{len(self)} recorded seed{'s' if len(self) > 1 else ''}"])

    @property
    def title(self) -> str:
        """The same with the method: ``TELL on MNIST, 30 epochs, 3 recorded seeds``."""
        if not self.records:
            return self.label
        return f"{_METHODS.get(self.records[0].chapter, self.records[0].chapter)} on {self.label}"


def recorded(chapter: str, profile: str | None = None, /, **parameters: Any) -> Runs:
    """The recorded runs of a profile, or those that were made with the given parameters.

    The one way in which a notebook gets at records, so that what it shows is always known by what
    it was run with: name the runs in the figure by their `Runs.label` or `Runs.title`.

    Give a *profile*, or instead every parameter that decides the numbers: a record counts only if
    it has each of them with the same value. Raises InputError for neither, or for both.

    Examples
    --------
    >>> recorded("tell", "tell-mnist-30").title
    'TELL on MNIST, 30 epochs, 3 recorded seeds'
    >>> len(recorded("tell", dataset="mnist", epochs=29))
    0
    """
    if (profile is None) == (not parameters):
        raise InputError("recorded takes a profile, or the parameters of a run, and one of them")
    groups: dict[str, list[Record]] = {}
    for record in load_records():
        if record.chapter == chapter and (
                record.profile == profile if profile else all(
                    name in record.parameters and record.parameters[name] == value
                    for name, value in parameters.items())):
            groups.setdefault(record.profile, []).append(record)
    return Runs(tuple(next(iter(groups.values()), ())))


_METHODS = {"tell": "TELL", "idc": "IDC", "deepcluster": "DeepCluster",
            "weights": "weight co-clustering", "comparison": "all methods"}


def arrays(record: Record) -> dict[str, np.ndarray]:
    """The arrays that were recorded beside a run; empty when there are none.

    Raises InputError when the file is missing or is not the one that the run wrote.
    """
    if record.arrays is None:
        return {}
    if record.path is None:
        raise InputError(f"the record {record.name} was not loaded from a file")
    file = record.path.with_suffix(".npz")
    if not file.is_file():
        raise InputError(f"{file.name} is missing beside {record.path.name}; run it again")
    if sha256(file.read_bytes()) != record.arrays:
        raise InputError(f"{file.name} is not the file that {record.path.name} was written with")
    with np.load(file, allow_pickle=False) as loaded:
        return {name: loaded[name] for name in loaded.files}


def model_file(name: str) -> Path:
    """The file of a trained model that was kept, by its record's name: ``"tell-mnist-30-seed0"``.

    Raises InputError when the book has no such file; the message lists those it has.
    """
    folder = paths.root() / "data" / "records"
    kept = sorted(path.stem for path in folder.glob("*.pt"))
    if name not in kept:
        raise InputError(f"{unknown('kept model', name, kept)}; `clusterbook run` with --record "
                         "trains it and keeps its file")
    return folder / f"{name}.pt"


def sha256(content: bytes) -> str:
    """The SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def dumps(values: Mapping[str, Any]) -> str:
    """A record as JSON with one field a line and one row of history a line, keys sorted.

    So two records compare line by line, and the same values always give the same text.
    """
    lines = []
    for key in sorted(values):
        if key == "history" and values[key]:
            rows = ",\n  ".join(_dump(row) for row in values[key])
            lines.append(f'"history": [\n  {rows}\n ]')
        else:
            lines.append(f"{_dump(key)}: {_dump(values[key])}")
    return "{\n " + ",\n ".join(lines) + "\n}\n"


def _dump(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=False)


def _not_finite(constant: str) -> float:
    raise ValueError(f"{constant} is not a number that a record can hold")
