"""What the three kinds of files hold: .csv, .npz and .mat, each as names, numbers and labels."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..errors import InputError
from .columns import as_number, check_names, chosen, label_name, listed


@dataclass
class Table:
    """What a file holds before it was judged; missing numbers are NaN."""

    names: list[str]  # of the columns of X
    X: np.ndarray | None = None  # (n_samples, n_features), float32
    label_name: str | None = None
    labels: np.ndarray | None = None  # (n_samples,), numbers or text
    text: dict[str, str] = field(default_factory=dict)  # what a column of X holds instead


def _unreadable(file: Path, why: object, todo: str) -> InputError:
    return InputError(f"{file} can't be read as {file.suffix.lower()}: {why}; {todo}")


# --- CSV ---------------------------------------------------------------------------------------


def _read_csv(file: Path, labels: str | None, features: Sequence[str] | None) -> Table:
    try:
        # -sig: a byte order mark, as Excel writes it, is no part of the first name.
        with file.open(encoding="utf-8-sig", newline="") as stream:
            return _parsed(file, stream, labels, features)
    except UnicodeDecodeError as error:
        raise _unreadable(file, f"it is not UTF-8 ({error.reason})", "save it as UTF-8") from error
    except OSError as error:
        raise _unreadable(file, error.strerror, "make it readable") from error


def _parsed(
    file: Path, stream: TextIO, labels: str | None, features: Sequence[str] | None
) -> Table:
    rows = _rows(file, stream)
    first = next(rows, None)
    if first is None:
        raise InputError(f"{file} is empty; a row of names and a row per sample were expected")
    names = [name.strip() for name in first]
    if _is_sample(first):
        names = [f"column {i + 1}" for i in range(len(first))]
        rows = chain([first], rows)
    check_names(file, names)
    label = label_name(file, names, labels, features)
    columns = chosen(file, [name for name in names if name != label], features)
    table = Table(columns, label_name=label)
    return _filled(table, rows, {name: place for place, name in enumerate(names)})


def _filled(table: Table, rows: Iterable[list[str]], places: Mapping[str, int]) -> Table:
    """The table with its rows, cells by their places in a row."""
    columns = [places[name] for name in table.names]
    numbers, labels = [], []
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused later
        for row in rows:
            numbers.append(_numbers([row[i] for i in columns], table))
            if table.label_name is not None:
                labels.append(row[places[table.label_name]].strip())
    table.X = np.array(numbers, dtype=np.float32).reshape(len(numbers), len(columns))
    table.labels = np.array(labels, dtype=str) if table.label_name is not None else None
    return table


def _rows(file: Path, stream: TextIO) -> Iterator[list[str]]:
    """The rows of a CSV file but for blank lines; all are of one length."""
    reader = csv.reader(stream, delimiter=_delimiter(stream), skipinitialspace=True, strict=True)
    width = 0
    try:
        for row in filter(None, reader):
            width = width or len(row)
            if len(row) != width:
                raise InputError(
                    f"line {reader.line_num:,} of {file} is ragged: {len(row):,} instead of "
                    f"{width:,} values; expected one per column: put text that holds a separator "
                    "in double quotes, and nothing between two separators for a missing value"
                )
            yield row
    except csv.Error as error:
        where = f"line {reader.line_num:,}: {error}"
        raise _unreadable(file, where, "put that line right, double quotes above all") from error


def _delimiter(stream: TextIO) -> str:
    """The separator that gives most columns, in two rows alike if there is one that does."""
    fits = {}
    for delimiter in ",;\t":
        rows = filter(None, csv.reader(stream, delimiter=delimiter, skipinitialspace=True))
        widths = [0]
        with suppress(csv.Error):  # it comes again, with its line
            widths = [len(row) for row in islice(rows, 2)] or [0]
        fits[delimiter] = (widths[0] > 1 and widths[0] == widths[-1], widths[0])
        stream.seek(0)
    return max(fits, key=fits.__getitem__)


def _is_sample(first: Sequence[str]) -> bool:
    """Whether a first row holds numbers alone, and other ones than 0, 1, 2 … to count columns."""
    numbers = [as_number(cell) for cell in first]
    counted = len(numbers) > 2 and numbers == list(range(len(numbers)))
    return not counted and all(number is not None and number == number for number in numbers)


def _numbers(cells: list[str], table: Table) -> np.ndarray:
    """The numbers of a row as float32; where there is text, the table keeps the first of it."""
    try:
        if "_" not in "".join(cells):  # see as_number
            return np.fromiter(map(float, cells), dtype=np.float32, count=len(cells))
    except ValueError:  # a missing value, or text
        pass
    numbers = [as_number(cell) for cell in cells]
    for name, number, cell in zip(table.names, numbers, cells, strict=True):
        if number is None:
            table.text.setdefault(name, cell.strip()[:40])
    return np.array(numbers, dtype=np.float32)  # None becomes NaN


# --- arrays: .npz and .mat ---------------------------------------------------------------------


def matlab_arrays(file: Path) -> dict[str, Any]:
    """The variables of a MATLAB file, as SciPy gives them."""
    from scipy.io import loadmat

    return {name: one for name, one in loadmat(file).items() if not name.startswith("__")}


def _read_mat(file: Path, labels: str | None, features: Sequence[str] | None) -> Table:
    try:
        found = {name: _from_matlab(one) for name, one in matlab_arrays(file).items()}
    except Exception as error:  # a damaged file can break its reader anywhere
        todo = "save it again with save('file.mat', 'X', 'Y', '-v7')"
        raise _unreadable(file, " ".join(str(error).split()), todo) from error
    return _from_arrays(file, found, labels, features)


def _from_matlab(one: Any) -> np.ndarray:
    """A variable as NumPy would hold it: not sparse, text instead of cells."""
    array = one.toarray() if hasattr(one, "toarray") else np.asarray(one)
    if array.dtype == object and all(np.size(cell) == 1 for cell in array.flat):
        return np.array([str(np.squeeze(cell)) for cell in array.flat])
    return array


def _read_npz(file: Path, labels: str | None, features: Sequence[str] | None) -> Table:
    try:
        with np.load(file, allow_pickle=False) as loaded:
            found = {name: loaded[name] for name in loaded.files}
    except Exception as error:  # a damaged file can break its reader anywhere
        todo = "save plain numbers and text with numpy.savez(file, X=X, y=y), no Python objects"
        raise _unreadable(file, " ".join(str(error).split()), todo) from error
    return _from_arrays(file, found, labels, features)


def _from_arrays(
    file: Path,
    arrays: Mapping[str, np.ndarray],
    labels: str | None,
    features: Sequence[str] | None,
) -> Table:
    samples = _samples_name(file, arrays)
    X = arrays[samples]
    names = [f"column {i + 1}" for i in range(X.shape[1])]
    if "feature_names" in arrays:
        names = [str(name).strip() for name in arrays["feature_names"].ravel().tolist()]
    if len(names) != X.shape[1]:
        raise InputError(
            f"{file} has {len(names):,} feature_names for {X.shape[1]:,} columns of {samples}; "
            "expected one each"
        )
    check_names(file, names)
    label = label_name(file, [name for name in arrays if name != samples], labels, ())
    table = Table(chosen(file, names, features), label_name=label)
    places = {name: place for place, name in enumerate(names)}
    with np.errstate(over="ignore"):
        table.X = X[:, [places[name] for name in table.names]].astype(np.float32)
    if label is not None:
        table.labels = _labels(file, label, arrays[label], len(X))
    return table


def _labels(file: Path, name: str, labels: np.ndarray, n_samples: int) -> np.ndarray:
    """One label a row, from a vector or, as MATLAB has them, a matrix of one column or row."""
    long = max(labels.shape, default=0)
    if labels.size != n_samples or long != n_samples or labels.dtype.kind not in "biufU":
        raise InputError(
            f"{name} in {file} has shape {labels.shape} and type {labels.dtype}: expected one "
            f"number or text for each of {n_samples:,} rows"
        )
    return labels.ravel()


def _samples_name(file: Path, arrays: Mapping[str, np.ndarray]) -> str:
    """The array that holds the samples: X, or the only one that could."""
    matrices = [name for name, one in arrays.items() if one.ndim == 2 and min(one.shape) > 1]
    name = "X" if "X" in arrays else matrices[0] if len(matrices) == 1 else None
    if name is None:
        raise InputError(
            f"{file} does not say which array holds the samples (its arrays: "
            f"{listed(arrays) or 'none'}): call it X, shape (rows, features)"
        )
    if (one := arrays[name]).ndim != 2 or one.dtype.kind not in "biuf":
        raise InputError(
            f"{name} in {file} has shape {one.shape} and type {one.dtype}: expected real numbers "
            "of shape (rows, features)"
        )
    return name


READERS = {".csv": _read_csv, ".npz": _read_npz, ".mat": _read_mat}
"""Each kind's reader: ``reader(file, labels, features)`` gives a `Table`."""
