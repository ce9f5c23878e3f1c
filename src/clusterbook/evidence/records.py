"""What our runs measured: one JSON file a run; beside it arrays for figures, and a small model.

A record is ``data/records/<profile>-seed<seed>.json``. It says what was run (chapter, profile, the
resolved parameters, which of them the source did not publish, seed, data), what came out (metrics,
checks, history), and with what (git commit, fingerprint of the code, versions, machine, time,
memory). It also keeps the tolerances of its profile's claims as they stood when it was made, so
that a tolerance chosen after the first run can be told from one chosen before.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from .. import datasets, paths
from ..errors import InputError, unknown


@dataclass(frozen=True)
class Record:
    """What one run measured; see `load_records`.

    Attributes
    ----------
    chapter, profile : str
        What was run; the profile's name begins with the chapter's.
    parameters : dict
        Every parameter as it was in force.
    assumed : tuple of str
        The parameters whose settings the source did not publish.
    seed : int
        The seed of this run.
    metrics : dict of str to number
        What was measured at the end.
    checks : dict of str to bool
        The expectations that were checked, and whether each held.
    history : tuple of dict
        One row an epoch, to float32's seven digits.
    git : dict
        ``commit`` and ``clean``; both None outside a checkout.
    code : str
        The fingerprint of the code that can change the numbers, other than through the data.
    tolerances : dict of str to str or float
        What the profile's claims allowed when the run was made, `Claim.allowed`; early records have
        the tolerance alone.
    versions, machine : dict
        Package versions; ``cpu``, ``gpu``, ``cores``, ``threads``.
    data : dict or None
        ``name`` of the data and ``sha256`` of their content (`clusterbook.datasets.content`).
    started : str
        UTC, ISO 8601.
    seconds : float
        Wall time.
    peak_memory_mb : float or None
        The most memory held, in mebibytes.
    arrays : str or None
        The SHA-256 of the ``.npz`` file beside the record.
    path : Path or None
        Where it was loaded from; not part of the file.
    """

    chapter: str
    profile: str
    parameters: Mapping[str, Any]
    assumed: tuple[str, ...]
    seed: int
    metrics: Mapping[str, float]
    checks: Mapping[str, bool]
    history: tuple[Mapping[str, Any], ...]
    git: Mapping[str, Any]
    code: str
    tolerances: Mapping[str, str | float]
    versions: Mapping[str, str]
    machine: Mapping[str, Any]
    data: Mapping[str, str] | None
    started: str
    seconds: float
    peak_memory_mb: float | None
    arrays: str | None
    path: Path | None = None

    @property
    def name(self) -> str:
        """The file's name without its ending: ``tell-mnist-paper-seed0``."""
        return f"{self.profile}-seed{self.seed}"


def load_records(folder: Path | str | None = None) -> list[Record]:
    """Every record, ordered by chapter, profile and seed.

    Parameters
    ----------
    folder : path, optional
        The folder of the JSON files; the book's ``data/records`` by default.

    Raises
    ------
    InputError
        For a file that is no record (the message names the file and what is wrong with it).
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
    """A record from its fields, each looked at; *file* is what an error calls it."""
    if not isinstance(values, dict):
        raise InputError(f"{file}: not a record: a record is a mapping")
    for key in values:
        if key not in _FIELDS:
            raise InputError(f"{file}: {unknown('record field', key, _FIELDS)}")
    for key, (expected, holds) in _FIELDS.items():
        if key not in values:
            raise InputError(f"{file}: the record field {key!r} is missing")
        if not holds(values[key]):
            raise InputError(f"{file}: {key} must be {expected}, not {str(values[key])[:80]!r}")
    if not values["profile"].startswith(f"{values['chapter']}-"):
        raise InputError(f"{file}: the profile's name must begin with {values['chapter'] + '-'!r}")
    sequences = {key: tuple(values[key]) for key in ("assumed", "history")}
    return Record(**{**values, **sequences}, path=path)


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

    Parameters
    ----------
    chapter : str
    profile : str, optional
        Its runs, whatever they were made with.
    **parameters
        Without a profile: every parameter that decides the numbers, with the value of this run. A
        record counts only where it has each of them with the same value.

    Returns
    -------
    Runs
        None where nothing fits.

    Raises
    ------
    InputError
        For neither a profile nor a parameter, or for both.

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

    Raises
    ------
    InputError
        When the file is absent or is not the one that the run wrote.
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
    """The trained model that was kept of a recorded run.

    Parameters
    ----------
    name : str
        The record's: ``"tell-mnist-30-seed0"``.

    Raises
    ------
    InputError
        When the book has no such file; the message says which it has.
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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)  # a bool is a number here


def _is_setting(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_setting, value))
    if isinstance(value, dict):
        return all(map(_is_setting, value.values()))
    return value is None or isinstance(value, str) or _is_number(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_amount(value: Any) -> bool:
    return _is_number(value) and not isinstance(value, bool) and value >= 0


def _is_allowed(value: Any) -> bool:
    return isinstance(value, str) or _is_amount(value)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.replace("-", "").replace("_", "").isalnum()


def _is_time(value: Any) -> bool:
    with contextlib.suppress(TypeError, ValueError):
        return datetime.fromisoformat(value).utcoffset() == timedelta(0)
    return False


def _mapping(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(of(item) for item in value.values())


def _shape(**parts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def holds(value: Any) -> bool:
        return (
            isinstance(value, dict)
            and value.keys() == parts.keys()
            and all(of(value[key]) for key, of in parts.items())
        )

    return holds


def _list(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(of(item) for item in value)


def _or_null(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or of(value)


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


def _is_row(value: Any) -> bool:
    """Whether *value* is an epoch: numbers by name, and the stage of training if named."""
    return isinstance(value, dict) and all(
        isinstance(name, str) and (isinstance(item, str) if name == "stage" else _is_number(item))
        for name, item in value.items())


_TEXT, _NUMBERS = _is(str), _mapping(_is_number)
_GIT = _shape(commit=_or_null(_TEXT), clean=_or_null(_is(bool)))
_MACHINE = _shape(cpu=_TEXT, gpu=_or_null(_TEXT), cores=_is_count, threads=_is_count)
_FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "chapter": ("a chapter's name", _is_name),
    "profile": ("a profile's name", _is_name),
    "parameters": ("a mapping of names to settings", _mapping(_is_setting)),
    "assumed": ("a list of parameters", _list(_TEXT)),
    "seed": ("a whole number", _is_count),
    "metrics": ("a mapping of names to finite numbers", _NUMBERS),
    "checks": ("a mapping of names to true or false", _mapping(_is(bool))),
    "history": ("a list of rows of finite numbers", _list(_is_row)),
    "git": ("commit and clean", _GIT),
    "code": ("a fingerprint", _TEXT),
    "tolerances": ("a mapping of claims to what they allow", _mapping(_is_allowed)),
    "versions": ("a mapping of packages to versions", _mapping(_TEXT)),
    "machine": ("cpu, gpu, cores and threads", _MACHINE),
    "data": ("name and sha256, or null", _or_null(_shape(name=_TEXT, sha256=_TEXT))),
    "started": ("a UTC time in ISO 8601", _is_time),
    "seconds": ("a number of seconds", _is_amount),
    "peak_memory_mb": ("a number of mebibytes, or null", _or_null(_is_amount)),
    "arrays": ("the SHA-256 of the arrays' file, or null", _or_null(_TEXT)),
}
assert {field.name for field in fields(Record)} == {*_FIELDS, "path"}
