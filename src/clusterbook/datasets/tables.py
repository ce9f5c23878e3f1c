"""One's own table, read with pandas, as a `Dataset`."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import loadmat

from ..checks import one_of
from ..errors import InputError, unknown
from .dataset import SHOWN, Dataset, Source, absolute, as_classes, listed

_MISSING = ["", "?", "NA", "N/A", "na", "n/a", "NaN", "nan", "NULL", "null", "#N/A", "<NA>"]
_LABELS = ("label", "class", "target", "y")
_IDENTIFIER = re.compile(r"index|unnamed: \d+|(.*[\W_])?(id|sample|patient|subject)([\W_]*id)?",
                         re.IGNORECASE)
_MOST = 50  # values of a text column that become features


def read(
    path: str | os.PathLike[str], *, labels: str | None = None,
    features: Sequence[str] | None = None, constant: str = "drop", id_column: str | None = None,
    text: str = "refuse", impute: str | None = None,
) -> Dataset:
    """Read one's own table; warns of assumptions and changes, and keeps them in ``notes``.

    Parameters
    ----------
    path : str or path
        A .csv, .tsv, .xlsx, .parquet, .npz or .mat file; a relative path begins where ``clusterbook
        run`` was typed, otherwise in the current folder. CSV files (.csv or .tsv, also .gz) have
        commas, semicolons or tabs, and decimal points, or commas unless these separate the values.
        The first row has the names; if it holds numbers alone, other than 0, 1, 2 …, it is a
        sample, and the columns are called ``column 1`` and so on. Of an Excel file, the first sheet
        is read. An .npz or MATLAB file has the samples as ``X`` or as its only two-dimensional
        array, labels in an array of their own, and perhaps ``feature_names``.
    labels : str, optional
        Column with the class of each row, text or numbers; by default the one called ``label``,
        ``class``, ``target`` or ``y``, in any case, if there is one.
    features : list of str, optional
        Columns to use, in this order; by default all others.
    constant : {"drop", "keep"}
        Drop or keep columns with one value only.
    id_column : str, optional
        Column with a name for each row; kept as ``ids``, never a feature.
    text : {"refuse", "one-hot"}
        Refuse columns of text, or replace each by 0/1 features ``column=value`` (at most 50).
    impute : {None, "median"}
        Refuse missing values, or fill them with the column's median (text with ``missing``).

    Raises
    ------
    InputError
        If the file can't be read or its data can't be clustered.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "flowers.csv"
    ...     _ = file.write_text("plant,length,width,kind\\nA1,1.5,2,rose\\nA2,2.5,3,lily\\n")
    ...     flowers = read(file, labels="kind", id_column="plant")
    >>> flowers.X.tolist(), flowers.feature_names, flowers.ids
    ([[1.5, 2.0], [2.5, 3.0]], ('length', 'width'), ('A1', 'A2'))
    >>> flowers.y.tolist(), flowers.classes
    ([1, 0], ('lily', 'rose'))
    """
    one_of("setting of constant", constant, ("drop", "keep"))
    one_of("setting of text", text, ("refuse", "one-hot"))
    one_of("setting of impute", impute or "none", ("none", "median"))
    if isinstance(features, str):
        raise InputError(f"features must be a list of names: features=[{features!r}]")
    file, reader = _located(path)
    notes: list[str] = []
    try:
        frame = reader(file, (labels, id_column), notes)
        frame.columns = [str(name).strip() for name in frame]
        _refuse("columns of the same name", frame.columns.value_counts() - 1, "rename them")
        label, y, classes = _labels(frame, labels, id_column, features)
        ids = None if id_column is None else _identifiers(frame[id_column])
        if features is None:
            features = [name for name in frame if name not in (label, id_column)]
            _refuse_identifiers(frame[features])
        table = _features(frame[list(features)], text, impute, constant, notes)
    except Exception as error:  # a damaged file can break its reader anywhere
        reason = "".join(one if one.isprintable() else " " for one in str(error))
        raise InputError(f"the table {file} can't be read: {reason}") from error
    for note in notes:
        warnings.warn(note, stacklevel=2)
    source = Source(file.name, f"a table of one's own, {file.name}", *table.shape, len(classes),
                    "your own")
    return Dataset(np.ascontiguousarray(table, dtype=np.float32), y, classes, source,
                   feature_names=tuple(table), ids=ids, notes=tuple(notes))


def _located(path: str | os.PathLike[str]) -> tuple[Path, Callable]:
    """The file and its reader."""
    file = absolute(path)
    if not os.path.exists(file):
        tables = sorted(one.name for one in file.parent.glob("*") if one.suffix.lower() in _READERS)
        raise InputError(f"there is no file {file}; tables in its folder: "
                         f"{listed(nearest(file.name, tables)) or 'none'}")
    reader = _READERS.get(Path(file.name.casefold().removesuffix(".gz")).suffix)
    if reader is None:
        raise InputError(f"{file} is not a .csv, .tsv, .xlsx, .parquet, .npz or .mat file: save "
                         "the table as CSV; datasets.load reads the book's data sets and images")
    return file, reader


# Each reader takes the file, the names of labels and identifiers, and the notes.


def _read_csv(file: Path, named: Sequence[str | None], notes: list[str]) -> pd.DataFrame:
    data = file.read_bytes()
    if file.suffix.casefold() == ".gz":
        data = gzip.decompress(data)
    try:
        marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = data.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252")
        notes.append(f"{file.name} is not UTF-8 and was read as Windows-1252: look at its "
                     "accented letters")
    if "\0" in text:
        raise InputError("it is not text")
    text = io.StringIO(text, newline=None).read()  # line ends become \n
    separator, decimal = _separator(text), "."
    number = rf'(^|{separator})\s*"?[-+]?\d*,\d+(e[-+]?\d+)?"?\s*($|{separator})'
    if separator != "," and re.search(number, text, re.MULTILINE | re.IGNORECASE):
        decimal = ","
        notes.append("numbers were read with decimal commas: 1,5 is one and a half")
    ids = named[1]
    frame = _with_names(lambda header: pd.read_csv(
        io.StringIO(text), sep=separator, decimal=decimal, header=header, skipinitialspace=True,
        keep_default_na=False, na_values=_MISSING, low_memory=False,
        dtype={ids: str} if ids else None))
    with_points = [name for name, column in frame.items()
                   if name != ids and is_text(column) and not is_text(_cleaned(column))]
    if decimal == "," and with_points:
        raise InputError(f"decimal commas, but points in {listed(with_points)}: use one decimal "
                         "mark, and no thousands separators")
    return frame


def _separator(text: str) -> str:
    """A tab, a semicolon or else a comma; refuses ragged rows, which pandas would fill up.

    It cuts the first two rows into equally many cells, more than one. A comma comes last because it
    may be a decimal mark.
    """
    rows = [row for row in re.sub(r'"[^"]*"', "quoted", text).split("\n") if row.strip()]
    if not rows:
        raise InputError("it is empty")
    fits = [one for one in "\t;," if rows[0].count(one) == rows[:2][-1].count(one) > 0]
    separator = fits[0] if fits else max("\t;,", key=rows[0].count)
    width = rows[0].count(separator)
    for i, row in enumerate(rows):
        if row.count(separator) != width:
            raise InputError(f"row {i + 1:,} is ragged: {row.count(separator) + 1:,} instead of "
                             f"{width + 1:,} values; put text with a separator in quotes")
    return separator


def _with_names(parse: Callable[[int | None], pd.DataFrame]) -> pd.DataFrame:
    """A table with names from its first row, or with numbers if that is a sample."""
    frame = parse(0)
    cells = [str(name).replace(",", ".") for name in frame]
    numbers = pd.to_numeric(cells, errors="coerce")
    if np.isnan(numbers).any() or list(numbers) == list(range(len(cells))):
        return frame
    frame = parse(None)
    return frame.set_axis([f"column {i + 1}" for i in range(len(cells))], axis=1)


def _read_excel(file: Path, named: Sequence[str | None], notes: list[str]) -> pd.DataFrame:
    with pd.ExcelFile(file, engine="openpyxl") as book:
        sheet, *others = book.sheet_names
        frame = _with_names(lambda header: pd.read_excel(
            book, header=header, dtype=object, keep_default_na=False, na_values=_MISSING))
    if others:
        notes.append(f"only the first sheet ({sheet!r}) was read; other sheets: {listed(others)}")
    frame = frame.dropna(how="all").dropna(how="all", axis=1)
    return frame.reset_index(drop=True).infer_objects()


def _read_parquet(file: Path, named: Sequence[str | None], notes: list[str]) -> pd.DataFrame:
    frame = pd.read_parquet(file, engine="pyarrow")
    return frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()


def _read_arrays(file: Path, named: Sequence[str | None], notes: list[str]) -> pd.DataFrame:
    """The samples, with the arrays of labels and identifiers as further columns."""
    if file.suffix.casefold() == ".mat":
        arrays = {name: one.toarray() if hasattr(one, "toarray") else one
                  for name, one in loadmat(file).items() if not name.startswith("__")}
    else:
        arrays = dict(np.load(file, allow_pickle=False))
    matrices = [name for name, one in arrays.items() if one.ndim == 2 and min(one.shape) > 1]
    if "X" not in arrays and len(matrices) != 1:
        raise InputError(f"call the samples X, shape (rows, features), among {listed(arrays)}")
    frame = pd.DataFrame(arrays.pop("X" if "X" in arrays else matrices[0]))
    names = arrays.pop("feature_names", [f"column {i + 1}" for i in frame])
    frame.columns = [str(np.squeeze(name)) for name in np.ravel(names)]
    for name, one in arrays.items():
        if name in named or name.casefold() in _LABELS:
            if one.size != len(frame):
                raise InputError(f"{name} has shape {one.shape}, expected a value for each of "
                                 f"{len(frame):,} rows")
            # A text in a cell of MATLAB is an array.
            frame[name] = [np.squeeze(cell).item() for cell in one.ravel()]
    return frame


_READERS = {".csv": _read_csv, ".tsv": _read_csv, ".xlsx": _read_excel, ".parquet": _read_parquet,
            ".npz": _read_arrays, ".mat": _read_arrays}



def _labels(
    frame: pd.DataFrame, name: str | None, id_column: str | None, features: Sequence[str] | None
) -> tuple[str | None, np.ndarray | None, tuple[str, ...]]:
    """The name of the labels, given or found, the class of each row, and the classes' names."""
    named = [one for one in (name, id_column, *(features or ())) if one is not None]
    for one in named:
        if one not in frame:
            raise unknown("column", one, nearest(one, frame))
    found = [one for one in frame if one.casefold() in _LABELS and one not in named]
    if name is None and len(found) > 1:
        raise InputError(f"several columns could be labels ({listed(found)}): name one in labels")
    if name is None and not found:
        return None, None, ()
    name = name or found[0]
    values = _cleaned(frame[name])
    if gaps := values.isna().sum():
        raise InputError(f"missing values in {name!r} ({gaps:,}): label or remove these rows")
    return name, *as_classes(values.to_numpy())


def _identifiers(column: pd.Series) -> tuple[str, ...]:
    ids = _texts(column)
    if (wrong := ids.isna() | ids.duplicated()).any():
        raise InputError(f"missing or repeated identifiers, the first in row {wrong.argmax() + 1:,}"
                         f": each row needs another one in {column.name!r}")
    return tuple(ids)


def _refuse_identifiers(frame: pd.DataFrame) -> None:
    for name, column in frame.items():
        if _IDENTIFIER.fullmatch(name) and column.is_unique and not (is_text(column)
                                                                     or (column % 1).any()):
            raise InputError(f"identifiers in {name!r}: name it as id_column, or in features")


def _features(
    frame: pd.DataFrame, text: str, impute: str | None, constant: str, notes: list[str]
) -> pd.DataFrame:
    """The features, float32: columns of numbers, then those made of text."""
    rows, width = frame.shape
    if rows < 2 or width < 1:
        raise InputError(f"too small to cluster (rows: {rows:,}, features: {width:,}): expected "
                         "two rows or more, and a feature beside the labels")
    frame = frame.apply(_cleaned)
    texts = [name for name, column in frame.items() if is_text(column)]
    numbers, words = frame.drop(columns=texts), frame[texts]
    if texts and text == "refuse":
        shown = [f"{name} (such as {words[name].dropna().iloc[0][:40]})" for name in texts]
        raise InputError(f"text in {len(texts):,} of {width:,} columns: {listed(shown)}; name "
                         "labels, id_column or features, write numbers without units, or make "
                         "text features with text='one-hot'")
    distinct = words.nunique()
    _refuse("text with too many distinct values for text='one-hot'",
            distinct[distinct > min(_MOST, rows - 1)],
            f"expected at most {_MOST}, and fewer than rows: name id_column, or the features")
    missing = frame.isna().sum()
    if impute is None:
        _refuse("missing values", missing, "fill them with impute='median', or remove these rows "
                "or columns")
    with np.errstate(over="ignore"):  # what is too large becomes infinite
        numbers = numbers.astype(np.float32)
    numbers = numbers.fillna(numbers.median())
    _refuse("infinite values (or beyond 3.4e38), or no value at all", (~np.isfinite(numbers)).sum(),
            "correct them, or remove these rows or columns")
    if missing.any():
        notes.append(f"missing values filled in: {missing.sum():,}, in columns "
                     f"{listed(missing[missing > 0].index)}; numbers with the column's median, "
                     "text with 'missing'")
    if texts:
        notes.append(f"text became features of 0 and 1: {listed(texts)}")
        words = pd.get_dummies(words.fillna("missing"), prefix_sep="=", dtype=np.float32)
    table = pd.concat([numbers, words], axis=1)
    _refuse("columns of the same name", table.columns.value_counts() - 1, "rename them")
    varies = table.max() != table.min()
    if constant == "drop" and not varies.all():
        notes.append("columns with one value only were left out: "
                     f"{listed(table.columns[~varies])}; constant='keep' keeps them")
        table = table.loc[:, varies]
        if not varies.any():
            raise InputError(f"no feature is left, because {notes[-1]}")
    return table


def _texts(column: pd.Series) -> pd.Series:
    """A column as stripped text, None where a value is missing."""
    text = column.astype(object).map(lambda cell: str(cell).strip(), na_action="ignore")
    return text.mask(column.isna() | text.isin(_MISSING), None)


def _cleaned(column: pd.Series) -> pd.Series:
    """A column as numbers if all its values are, otherwise as stripped text."""
    if not is_text(column):
        return column
    text = _texts(column)
    try:
        numbers = pd.to_numeric(text)
    except (ValueError, OverflowError):
        return text
    return text if is_text(numbers) else numbers


def is_text(column: pd.Series) -> bool:
    """Whether a column has anything but numbers, or numbers as text."""
    return column.dtype.kind not in "biuf"



def _refuse(what: str, counts: pd.Series, todo: str) -> None:
    """Raise InputError if a column has a count above 0; those with the highest are named."""
    if counts.any():
        worst = counts[counts > 0].sort_values(ascending=False, kind="stable")
        columns = listed(f"{name} ({count:,})" for name, count in worst.items())
        raise InputError(f"{what}, counted by column: {columns}; {todo}")


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names nearest to one in any case, or else the first ones."""
    plain = {one.casefold(): one for one in known}
    near = get_close_matches(str(name).casefold(), plain, n=SHOWN)
    return [plain[one] for one in near or islice(plain, SHOWN)]
