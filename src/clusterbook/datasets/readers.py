"""What each kind of file holds: a data frame of samples, and where labels and identifiers are.

A reader, ``reader(file, id_column, notes)``, gives both as a pair; they are the same frame unless
the file has arrays. What it had to assume, it adds to the notes.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import zlib
from collections import UserDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from .loaders import matlab_arrays

if TYPE_CHECKING:
    import pandas as pd

    _Read = tuple[pd.DataFrame, Mapping[str, pd.Series]]

MISSING = ("", "na", "n/a", "nan", "null", "?", "#n/a", "<na>")
SHOWN = 5  # names in an error


# --- CSV ---------------------------------------------------------------------------------------


def _read_csv(file: Path, id_column: str | None, notes: list[str]) -> _Read:
    import pandas as pd

    text = _text(file, notes)
    separator, first, start = _head(text)
    if not first:
        _check_rows(file, text, separator)
        raise _empty(file)
    names, is_sample = _names(first, id_column)
    data = text if is_sample else text[start:]
    marks = {case(mark) for mark in MISSING for case in (str, str.upper, str.title)} | {"NaN"}
    settings = {
        "sep": separator, "header": None, "skipinitialspace": True, "low_memory": False,
        "keep_default_na": False, "na_values": sorted(marks),
        "dtype": {names.index(id_column): str} if id_column in names else None,
    }  # fmt: skip
    try:
        frame = pd.read_csv(io.StringIO(data), **settings)
        if any(True for _ in _decimals(frame, ",", separator)):
            frame = pd.read_csv(io.StringIO(data), decimal=",", **settings)
            if points := list(_decimals(frame, ".", separator)):
                raise InputError(
                    f"{printable(file)} has decimal commas, and points in "
                    f"{listed(names[i] for i in points)}; expected one decimal mark, and no "
                    "thousands separators: write all numbers alike"
                )
            notes.append("numbers were read with decimal commas: 1,5 is one and a half")
    except pd.errors.EmptyDataError:
        frame = pd.DataFrame(columns=range(len(names)))
    except pd.errors.ParserError as error:
        _check_rows(file, text, separator)
        raise _unreadable(file, error, "save the table as CSV again") from error
    # pandas fills up short rows, and accepts a quote in the middle of a cell.
    if frame.shape[1] != len(names) or '"' in text or frame.iloc[:, -1].isna().any():
        _check_rows(file, text, separator)
    if frame.shape[1] != len(names):
        raise _unreadable(file, "its rows differ in length", "save the table as CSV again")
    frame = frame.set_axis(names, axis=1)
    return frame, frame


def _text(file: Path, notes: list[str]) -> str:
    """What a text file says, plain or compressed: UTF-8, UTF-16 with its mark, or Windows-1252."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error.strerror, "make it readable") from error
    try:
        if file.suffix.casefold() == ".gz":
            data = gzip.decompress(data)
        marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = data.decode("utf-16" if marked else "utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(file, f"it is no gzip file, or damaged ({error})",
                          "compress it again") from error  # fmt: skip
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace").replace("\ufffd", "\0")
        notes.append(f"{printable(file.name)} is not UTF-8 and was read as Windows-1252: look at "
                     "its accented letters")  # fmt: skip
    if re.search("[\x00-\x08\x0e-\x1f]", text):
        raise _unreadable(file, "it is not text", "save the table as CSV in UTF-8")
    if re.match(r"\s*<(!doctype|html|head|body|table|\?xml)\b", text, flags=re.IGNORECASE):
        raise _unreadable(file, "it is a web page (HTML or XML)", "download the table itself")
    return text


def _head(text: str) -> tuple[str, list[str], int]:
    """The separator, the first row, and where the second one begins.

    The separator cuts the first two rows into equally many cells, more than one; a tab or a
    semicolon before a comma, which may be a decimal mark.
    """
    found = []
    for place, separator in enumerate(",;\t"):
        stream = io.StringIO(text, newline="")
        rows = filter(None, _csv_rows(stream, separator))
        first, second, start = [], [], 0
        with suppress(csv.Error):  # it comes again, with its line
            first = next(rows, [])
            start = stream.tell()
            second = next(rows, first)
        fits = len(first) == len(second) > 1
        found.append(((fits, place if fits else len(first)), separator, first, start))
    return max(found)[1:]


def _csv_rows(stream: io.StringIO, separator: str) -> Any:
    return csv.reader(stream, delimiter=separator, skipinitialspace=True, strict=True)


def _check_rows(file: Path, text: str, separator: str) -> None:
    """Refuse rows of several lengths and quotes out of place, with their line."""
    rows = _csv_rows(io.StringIO(text, newline=""), separator)
    width = 0
    try:
        for row in filter(None, rows):
            width = width or len(row)
            if len(row) != width:
                raise InputError(
                    f"line {rows.line_num:,} of {printable(file)} is ragged: {len(row):,} instead "
                    f"of {width:,} values; expected one per column: put text that holds a "
                    "separator in double quotes, and nothing between two separators for a missing "
                    "value"
                )
    except csv.Error as error:
        where = f"line {rows.line_num:,}: {error}"
        raise _unreadable(file, where, "put that line right, double quotes above all") from error


def _decimals(frame: pd.DataFrame, mark: str, separator: str) -> Iterator[int]:
    """The columns of text that is numbers with this decimal mark.

    If commas separate the cells, a column of cells such as "1,234" may have thousands separators,
    and is left alone.
    """
    number = re.compile(rf"\s*[-+]?(\d+|\d*[{mark}]\d*)(e[-+]?\d+)?\s*", flags=re.IGNORECASE)
    thousands = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")
    for place, column in frame.items():
        cells = list(map(str, column.dropna())) if is_text(column) else []
        if all(map(number.fullmatch, cells)):
            marked = [cell for cell in cells if mark in cell]
            unclear = separator == "," and all(map(thousands.fullmatch, marked))
            if marked and not unclear:
                yield place


def _names(first: Sequence[object], id_column: str | None) -> tuple[list[str], bool]:
    """The columns' names, and whether the first row has none because it is a sample itself.

    A sample holds numbers alone, and other ones than 0, 1, 2 … to count the columns.
    """
    cells = ["" if cell is None else str(cell).strip() for cell in first]
    numbered = [f"column {i + 1}" for i in range(len(cells))]
    numbers = []
    with suppress(ValueError):
        numbers = [float(cell.replace(",", ".").replace("_", "x")) for cell in cells]
    counted = len(numbers) > 2 and numbers == list(range(len(numbers)))
    if len(numbers) < len(cells) or counted or np.isnan(numbers).any():
        # An identifier may have no name, as R and pandas write the names of rows.
        places = zip(cells, numbered, strict=True)
        return [cell or (name if name == id_column else "") for cell, name in places], False
    return numbered, True


# --- Excel and parquet, .npz and .mat ----------------------------------------------------------


@contextmanager
def _reading(file: Path, todo: str, package: str = "") -> Iterator[None]:
    """Turn whatever breaks on a damaged file, or without a package, into an InputError."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"{printable(file)} needs {package}, which is not installed: install it with `pip "
            f"install {package}`, or save the table as CSV"
        ) from error
    except Exception as error:
        raise _unreadable(file, error, todo) from error


def _read_excel(file: Path, id_column: str | None, notes: list[str]) -> _Read:
    import pandas as pd

    with (
        _reading(file, "save it again as an Excel workbook (.xlsx), or as CSV", "openpyxl"),
        pd.ExcelFile(file, engine="openpyxl") as book,
    ):
        sheet, *others = book.sheet_names
        cells = pd.read_excel(book, header=None, dtype=object, keep_default_na=False,
                              na_values=[""])  # fmt: skip
    if others:
        notes.append(f"only the first sheet ({sheet!r}) was read; other sheets: {listed(others)}")
    cells = cells.dropna(how="all").dropna(how="all", axis=1)
    if cells.empty:
        raise _empty(file)
    names, is_sample = _names(cells.iloc[0].where(cells.iloc[0].notna(), None), id_column)
    frame = cells.iloc[0 if is_sample else 1 :].reset_index(drop=True).set_axis(names, axis=1)
    return frame, frame


def _read_parquet(file: Path, id_column: str | None, notes: list[str]) -> _Read:
    import pandas as pd

    with _reading(file, "write it again as parquet, or save the table as CSV", "pyarrow"):
        frame = pd.read_parquet(file, engine="pyarrow")
        if not isinstance(frame.index, pd.RangeIndex):  # names of rows
            frame = frame.reset_index()
    frame = frame.set_axis([str(name).strip() for name in frame.columns], axis=1)
    return frame, frame


def _read_mat(file: Path, id_column: str | None, notes: list[str]) -> _Read:
    with _reading(file, "save it again with save('file.mat', 'X', 'Y', '-v7')"):
        found = {name: _from_matlab(one) for name, one in matlab_arrays(file).items()}
    return _from_arrays(file, found)


def _from_matlab(one: Any) -> np.ndarray:
    """A variable as NumPy would hold it: not sparse, text instead of cells."""
    array = one.toarray() if hasattr(one, "toarray") else np.asarray(one)
    if array.dtype == object and all(np.size(cell) == 1 for cell in array.flat):
        return np.array([str(np.squeeze(cell)) for cell in array.flat])
    return array


def _read_npz(file: Path, id_column: str | None, notes: list[str]) -> _Read:
    todo = "save plain numbers and text with numpy.savez(file, X=X, y=y), no Python objects"
    with _reading(file, todo), np.load(file, allow_pickle=False) as loaded:
        found = {name: loaded[name] for name in loaded.files}
    return _from_arrays(file, found)


def _from_arrays(file: Path, arrays: Mapping[str, np.ndarray]) -> _Read:
    import pandas as pd

    shown = printable(file)
    samples = _samples_name(shown, arrays)
    X = arrays[samples]
    names = [f"column {i + 1}" for i in range(X.shape[1])]
    if "feature_names" in arrays:
        names = [str(name).strip() for name in arrays["feature_names"].ravel().tolist()]
    if len(names) != X.shape[1]:
        raise InputError(
            f"{shown} has {len(names):,} feature_names for {X.shape[1]:,} columns of {samples}; "
            "expected one each"
        )
    others = {name: array for name, array in arrays.items() if name != samples}
    return pd.DataFrame(X, columns=names), _Vectors(others, shown, len(X))


class _Vectors(UserDict):
    """Arrays by name; one that is used must have a value for each row."""

    def __init__(self, arrays: Mapping[str, np.ndarray], file: str, n_rows: int):
        super().__init__(arrays)
        self.file, self.n_rows = file, n_rows

    def __getitem__(self, name: str) -> pd.Series:
        import pandas as pd

        array = self.data[name]
        # A vector or, as MATLAB has them, a matrix of one column or row.
        if array.size != self.n_rows or max(array.shape, default=0) != self.n_rows or (
            array.dtype.kind not in "biufU"
        ):
            raise InputError(
                f"{name} in {self.file} has shape {array.shape} and type {array.dtype}: expected "
                f"one number or text for each of {self.n_rows:,} rows"
            )
        return pd.Series(array.ravel())


def _samples_name(file: str, arrays: Mapping[str, np.ndarray]) -> str:
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


READERS = {
    ".csv": _read_csv, ".csv.gz": _read_csv, ".tsv": _read_csv, ".tsv.gz": _read_csv,
    ".xlsx": _read_excel, ".parquet": _read_parquet, ".npz": _read_npz, ".mat": _read_mat,
}  # fmt: skip
"""The reader of each kind of file; it adds to the notes."""


def reader_of(file: Path) -> Any:
    """The reader of a file, by its ending; None if there is none."""
    return next((READERS[kind] for kind in READERS if file.name.casefold().endswith(kind)), None)


# --- shared ------------------------------------------------------------------------------------


def _empty(file: Path) -> InputError:
    return InputError(f"{printable(file)} is empty; expected a row of names and the rows below it")


def _unreadable(file: Path, why: object, todo: str) -> InputError:
    kind = next(kind for kind in READERS if file.name.casefold().endswith(kind))
    why = " ".join(str(why).split())
    return InputError(f"{printable(file)} can't be read as {kind}: {why}; {todo}")


def is_text(column: pd.Series) -> bool:
    """Whether a column holds anything but numbers, or numbers that are still text."""
    return column.dtype.kind not in "biuf"


def listed(names: Iterable[str]) -> str:
    """The first names, quoted, and how many more there are."""
    names = [repr(str(name)) for name in names]
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def printable(path: str | os.PathLike[str]) -> str:
    """A path in one line that every UTF-8 stream can print, whatever its bytes."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in str(path))
