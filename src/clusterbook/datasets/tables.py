"""One's own table, read with pandas, as a `Dataset`."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import warnings
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import loadmat

from ..checks import one_of
from ..errors import InputError, unknown
from .dataset import SHOWN, Dataset, Source, absolute, as_classes, listed

_MISSING = ["", "?", "NA", "N/A", "na", "n/a", "NaN", "nan", "NULL", "null", "#N/A", "<NA>"]
_LABELS = ("label", "class", "target", "y")
_IDENTIFIER = re.compile(r"(?i)index|unnamed: \d+|(.*[\W_])?(id|sample|patient|subject)([\W_]*id)?")


def read_table(
    path: str | os.PathLike[str], *, labels: str | None = None,
    features: Sequence[str] | None = None, id_column: str | None = None, text: str = "refuse",
    impute: str | None = None,
) -> Dataset:
    """One's own table; `clusterbook.datasets.read` has the parameters."""
    one_of("setting of text", text, ("refuse", "one-hot"))
    one_of("setting of impute", impute or "none", ("none", "median"))
    file, notes = absolute(path), []
    if not os.path.exists(file):
        near = listed(sorted(one.name for one in file.parent.glob("*") if one.suffix in _READERS))
        raise InputError(f"there is no file {file}; tables in its folder: {near or 'none'}")
    reader = _READERS.get(Path(file.name.casefold().removesuffix(".gz")).suffix)
    if reader is None:
        raise InputError(f"{file} is not a .csv, .tsv, .xlsx, .parquet, .npz or .mat file: save "
                         "the table as CSV; datasets.load reads the book's data sets and images")
    try:
        frame = reader(file, (labels, id_column), notes)
        y, classes, ids, frame = _divided(frame, labels, id_column, features)
        table = _features(frame, text, impute, notes)
    except Exception as error:  # a damaged file can break its reader anywhere
        reason = "".join(one if one.isprintable() else " " for one in str(error))
        raise InputError(f"the table {file} can't be read: {reason}") from error
    for note in notes:
        warnings.warn(note, stacklevel=3)
    source = Source(file.name, f"a table of one's own, {file.name}", *table.shape, len(classes),
                    "your own")
    return Dataset(np.ascontiguousarray(table, dtype=np.float32), y, classes, source,
                   feature_names=tuple(table), ids=ids, notes=tuple(notes))


# Each reader takes the file, the names of labels and identifiers, and the notes.


def _read_csv(file: Path, named: Sequence[str | None], notes: list[str]) -> pd.DataFrame:
    data = file.read_bytes()
    if file.suffix.casefold() == ".gz":
        data = gzip.decompress(data)
    try:
        marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))    # as Excel saves it
        text = data.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252")
        notes.append(f"{file.name} is not UTF-8 and was read as Windows-1252")
    # What cuts the first two rows into equally many cells; a comma may also be a decimal mark.
    rows = [row for row in re.sub(r'"[^"]*"', "", text).split("\n") if row.strip()][:2] or [""]
    fits = [one for one in "\t;," if rows[0].count(one) == rows[-1].count(one) > 0]
    separator, decimal = fits[0] if fits else max("\t;,", key=rows[0].count), "."
    number = rf'(^|{separator})\s*"?[-+]?\d*,\d+(e[-+]?\d+)?"?\s*($|{separator})'
    if separator != "," and re.search(number, text, re.MULTILINE | re.IGNORECASE):
        decimal = ","
        notes.append("numbers were read with decimal commas: 1,5 is one and a half")
    # pandas only warns where rows have more values than the first.
    with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
        return _with_names(named, lambda **settings: pd.read_csv(
            io.StringIO(text), sep=separator, decimal=decimal, index_col=False,
            skipinitialspace=True, low_memory=False, **settings))


def _read_excel(file: Path, named: Sequence[str | None], notes: list[str]) -> pd.DataFrame:
    with pd.ExcelFile(file, engine="openpyxl") as book:
        frame = _with_names(named, lambda **settings: pd.read_excel(book, **settings))
    return frame.dropna(how="all").dropna(how="all", axis=1).reset_index(drop=True)


def _with_names(named: Sequence[str | None], parse: Callable[..., pd.DataFrame]) -> pd.DataFrame:
    """A table with names from its first row, or with numbers if that is a sample."""
    settings = {"keep_default_na": False, "na_values": _MISSING,
                "dtype": {named[1]: str} if named[1] else None}  # 007 stays 007
    frame = parse(header=0, **settings)
    cells = [str(name).replace(",", ".") for name in frame]
    numbers = pd.to_numeric(cells, errors="coerce")
    if np.isnan(numbers).any() or list(numbers) == list(range(len(cells))):
        return frame
    return parse(header=None, **settings).rename(columns=lambda i: f"column {i + 1}")


def _read_parquet(file: Path, named: Sequence[str | None], notes: list[str]) -> pd.DataFrame:
    frame = pd.read_parquet(file)
    return frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()


def _read_arrays(file: Path, named: Sequence[str | None], notes: list[str]) -> pd.DataFrame:
    """The samples, with the arrays of labels and identifiers as further columns."""
    if file.suffix.casefold() == ".mat":
        arrays = {name: one.toarray() if hasattr(one, "toarray") else one
                  for name, one in loadmat(file).items() if not name.startswith("__")}
    else:
        with np.load(file, allow_pickle=False) as found:
            arrays = dict(found)
    if "X" not in arrays:
        raise InputError(f"call the samples X, shape (rows, features), among {listed(arrays)}")
    frame = pd.DataFrame(arrays.pop("X"))
    names = arrays.pop("feature_names", [f"column {i + 1}" for i in frame])
    frame.columns = [str(np.squeeze(name)) for name in np.ravel(names)]
    for name, one in arrays.items():
        if name in named or name.casefold() in _LABELS:
            # A text in a cell of MATLAB is an array.
            frame[name] = [np.squeeze(cell).item() for cell in one.ravel()]
    return frame


_READERS = {".csv": _read_csv, ".tsv": _read_csv, ".xlsx": _read_excel, ".parquet": _read_parquet,
            ".npz": _read_arrays, ".mat": _read_arrays}


def _divided(
    frame: pd.DataFrame, label: str | None, id_column: str | None, features: Sequence[str] | None
) -> tuple[np.ndarray | None, tuple[str, ...], tuple[str, ...] | None, pd.DataFrame]:
    """Labels, their classes, identifiers and features, with text stripped."""
    frame.columns = [str(name).strip() for name in frame]
    _refuse("columns of the same name", frame.columns.value_counts() - 1, "rename them")
    named = [name for name in (label, id_column, *(features or ())) if name is not None]
    for name in named:
        if name not in frame:
            raise unknown("column", name, get_close_matches(name, frame) or list(frame)[:SHOWN])
    texts = _texts(frame)
    frame[texts] = frame[texts].apply(_stripped)
    y, classes, ids = None, (), None
    found = [label] if label else [name for name in frame
                                   if name.casefold() in _LABELS and name not in named]
    if len(found) > 1:
        raise InputError(f"several columns could be labels ({listed(found)}): name one")
    for name in found:
        _refuse("missing labels", frame[found].isna().sum(), "label or remove these rows")
        y, classes = as_classes(frame[name].to_numpy())
    if id_column is not None:
        ids = tuple(map(str, frame[id_column]))
        if (wrong := frame[id_column].isna() | frame[id_column].duplicated()).any():
            raise InputError(f"the identifier of row {wrong.argmax() + 1:,} is missing or repeated")
    if features is not None:
        return y, classes, ids, frame[list(features)]
    for name in filter(_IDENTIFIER.fullmatch, frame.columns.difference([*named, *found, *texts])):
        if frame[name].is_unique and not (frame[name] % 1).any():
            raise InputError(f"identifiers in {name!r}: name it as id_column, or in features")
    return y, classes, ids, frame.drop(columns={*named, *found})


def _features(frame: pd.DataFrame, text: str, impute: str | None, notes: list[str]) -> pd.DataFrame:
    """The features, float32: columns of numbers, then those made of text."""
    rows, width = frame.shape
    if rows < 2 or width < 1:
        raise InputError(f"rows: {rows:,}, features: {width:,}; expected at least 2 and 1")
    texts = _texts(frame)
    if texts and text == "refuse":
        shown = [f"{name} (such as {''.join(frame[name].dropna()[:1])[:40]})" for name in texts]
        raise InputError(f"text in {len(texts):,} of {width:,} columns: {listed(shown)}; "
                         "name labels, id_column or features, or use text='one-hot'")
    missing = frame.isna().sum()
    if impute is None:
        _refuse("missing values", missing, "remove them, or fill them with impute='median'")
    elif missing.any():
        notes.append(f"missing values filled in: {missing.sum():,}, in columns "
                     f"{listed(missing[missing > 0].index)}, with medians or 'missing'")
    with np.errstate(over="ignore"):                      # beyond 3.4e38 becomes infinite
        table = frame.drop(columns=texts).astype(np.float32)
    table = table.fillna(table.median())
    _refuse("infinite or no values", (~np.isfinite(table)).sum(), "correct or remove them")
    if texts:
        notes.append(f"text became features of 0 and 1: {listed(texts)}")
        words = frame[texts].fillna("missing")
        table = table.join(pd.get_dummies(words, prefix_sep="=", dtype=np.float32))
    return table


def _texts(frame: pd.DataFrame) -> list[str]:
    """The columns that have anything but numbers, or numbers as text."""
    return [name for name, column in frame.items() if column.dtype.kind not in "biuf"]


def _stripped(column: pd.Series) -> pd.Series:
    """A column as stripped text, None where a value is missing."""
    text = column.astype(object).map(lambda cell: str(cell).strip(), na_action="ignore")
    return text.mask(column.isna() | text.isin(_MISSING), None)


def _refuse(what: str, counts: pd.Series, todo: str) -> None:
    """Raise InputError if a column has a count above 0; those with the highest are named."""
    if counts.any():
        worst = counts[counts > 0].sort_values(ascending=False, kind="stable")
        columns = listed(f"{name} ({count:,})" for name, count in worst.items())
        raise InputError(f"{what}, counted by column: {columns}; {todo}")
