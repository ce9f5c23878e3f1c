"""A person's own table, read with pandas into the form that every data set has.

`read` finds the file, a reader of its kind makes a data frame of it, and `_features` checks what
the frame holds. Nothing is guessed or filled in without a note.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import warnings
import zlib
from collections import Counter, UserDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import paths
from ..errors import InputError, unknown
from .dataset import Dataset, Source, as_classes
from .loaders import matlab_arrays
from .table import SOURCES

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 5  # names in an error
_LABELS = ("label", "class", "target", "y")  # names that are taken for the labels' by themselves
_IDENTIFIER = re.compile(r"(.*[\W_])?(id|sample|patient|subject)([\W_]*id)?")
_MISSING = ("", "na", "n/a", "nan", "null", "?", "#n/a", "<na>")
_MOST = 50  # values of a text column that become features
_KINDS = "a .csv, .tsv, .xlsx, .parquet, .npz or .mat file"


def read(
    path: str | os.PathLike[str],
    *,
    labels: str | None = None,
    features: Sequence[str] | None = None,
    constant: str = "drop",
    id_column: str | None = None,
    text: str = "refuse",
    impute: str | None = None,
) -> Dataset:
    """A table of one's own, from a .csv, .tsv, .xlsx, .parquet, .npz or .mat file.

    A CSV file (.csv or .tsv, also with .gz) is separated by commas, semicolons or tabs, and its
    decimal mark is a point or a comma. It has a row of names above its rows; without one, if the
    first row holds numbers alone, the columns are called ``column 1`` and so on (a first row of
    0, 1, 2 … is taken for names). So is the first sheet of an Excel file. An .npz or MATLAB file
    has the samples as ``X`` or as its only two-dimensional array, may have ``feature_names``, and
    has labels and identifiers in arrays of their own.

    Parameters
    ----------
    path : str or path
        The file. A relative path begins where the person stands who typed ``clusterbook run``,
        otherwise in the current folder.
    labels : str, optional
        The column with the class of each row, text or numbers. By default the one that is called
        ``label``, ``class``, ``target`` or ``y``, in capitals or not; if there is none, the data
        set has no labels.
    features : sequence of str, optional
        The columns to use, in this order; by default all others. A column that is named here is
        a feature, whatever its name.
    constant : {"drop", "keep"}
        What to do with columns that hold one value only.
    id_column : str, optional
        The column that names each row; kept as ``ids``, and no feature.
    text : {"refuse", "one-hot"}
        What to do with columns of text: refuse them, or make a feature of 0 and 1 of each value,
        called ``column=value``, after the other features; at most 50 values for each column.
    impute : {None, "median"}
        What to do with missing values: refuse them, or fill them in with the column's median, in
        a column of text with a value of its own, ``missing``.

    Returns
    -------
    Dataset
        Its ``notes`` say what was done to the table. Without labels ``y`` is None. Its source's
        name is the file's name, and its content is not known beforehand.

    Raises
    ------
    InputError
        The file is missing, of another kind, damaged or too small; a name of a column is missing,
        repeated or unknown; a column holds text, identifiers, missing or infinite values; the
        identifiers are not unique; or no column is left.

    Warns
    -----
    UserWarning
        Each note.

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
    asked = {"constant": constant, "text": text, "impute": impute}
    for setting, known in (("constant", ("drop", "keep")), ("text", ("refuse", "one-hot")),
                           ("impute", (None, "median"))):  # fmt: skip
        if asked[setting] not in known:
            raise unknown(f"setting of {setting}", asked[setting], map(str, known))
    if isinstance(features, str):
        raise InputError(f"features must be a list of names, as in features=[{features!r}]")
    file, reader = _located(path)
    shown, notes = _printable(file), []
    frame, aside = reader(file, id_column, notes)
    _check_names(shown, frame.columns)
    # In a file of arrays, labels and identifiers stand beside the samples.
    columns = frame if aside is None else aside
    ids = None if id_column is None else _ids(shown, columns, id_column, labels, features)
    label = _label_name(shown, [name for name in columns if name != id_column], labels, features)
    classes: pd.Series | None = None
    if label is not None:
        classes = _cleaned(columns[label])
        _check_labels(shown, label, classes, guessed=labels is None)
    if features is not None:
        _known(shown, "features", features, frame)
        chosen = list(dict.fromkeys(features))
    else:
        apart = (label, id_column) if aside is None else ()
        chosen = [name for name in frame if name not in apart]
    names, X = _features(shown, frame[chosen], features, notes, **asked)
    y, class_names = (None, ()) if classes is None else as_classes(classes.to_numpy())
    settings = {"labels": labels, "features": features, "id_column": id_column, **asked}
    source = Source(
        name=_printable(file.name),
        title=f"a table of one's own, {_printable(file.name)}",
        n_samples=len(X),
        n_features=len(names),
        n_classes=len(class_names),
        license="your own",
        citation="your own",
        address=shown,
        loader=partial(_read_again, file=file, settings=settings),
    )
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return Dataset(X, y, class_names, source, feature_names=names, ids=ids, notes=tuple(notes))


def _read_again(source: Source, home: Path, *, file: Path, settings: Mapping[str, Any]) -> Dataset:
    """The loader of a person's table, in the form of the loaders of the book's data sets."""
    return read(file, **settings)


# --- which file --------------------------------------------------------------------------------


def absolute(path: str | os.PathLike[str]) -> Path:
    """The path that a person means, who may stand elsewhere than the process."""
    # A notebook runs in a folder of its own; a relative path means the person's.
    here = Path(paths.run_context().get("folder", "."))
    return Path(os.path.abspath(here / os.path.expanduser(path)))


def _located(path: str | os.PathLike[str]) -> tuple[Path, Any]:
    """The file that was meant, and the reader of its kind."""
    file = absolute(path)
    shown = _printable(file)
    if os.path.isdir(file):
        raise InputError(
            f"{shown} is a folder; {_KINDS} was expected (load('folder:PATH') loads a folder of "
            "images)"
        )
    if not os.path.exists(file):  # unlike Path's, no error for a name that can't be
        if str(path) in SOURCES:
            raise InputError(
                f"{str(path)!r} is a data set of the book and not a file: load it with "
                f"datasets.load({str(path)!r}), which has no labels or features to choose"
            )
        raise InputError(f"there is no file {shown}{_neighbors(file)}")
    reader = _reader(file)
    if reader is None:
        raise InputError(
            f"{shown} ends in {file.suffix or 'nothing'!r}; {_KINDS} was expected: save the table "
            "as CSV, which every spreadsheet and statistics program can"
        )
    return file, reader


def _neighbors(file: Path) -> str:
    """What to look at when a file is missing: files of its folder with a similar name."""
    try:
        tables = [_printable(one.name) for one in file.parent.iterdir() if _reader(one)]
    except OSError as error:
        return f", and its folder can't be listed ({error.strerror}); check the path"
    if near := similar(file.name, tables):
        return f"; did you mean {near}?"
    others = f" (tables there: {listed(sorted(tables))})" if tables else ""
    return f"; check the path and its ending{others}"


def _unreadable(file: Path, why: object, todo: str) -> InputError:
    kind = next(kind for kind in READERS if file.name.casefold().endswith(kind))
    why = " ".join(str(why).split())
    return InputError(f"{_printable(file)} can't be read as {kind}: {why}; {todo}")


# --- CSV ---------------------------------------------------------------------------------------


def _read_csv(file: Path, id_column: str | None, notes: list[str]) -> tuple[pd.DataFrame, None]:
    import pandas as pd

    text = _text(file, notes)
    separator, first, start = _head(file, text)
    if not first:
        raise InputError(f"{_printable(file)} is empty; a row of names and the rows were expected")
    names, is_sample = _names(first, id_column)
    data = text if is_sample else text[start:]
    cases = {case(mark) for mark in _MISSING for case in (str, str.upper, str.title)} | {"NaN"}
    settings = {
        "sep": separator, "header": None, "skipinitialspace": True, "low_memory": False,
        "keep_default_na": False, "na_values": sorted(cases),
        "dtype": {names.index(id_column): str} if id_column in names else None,
    }  # fmt: skip
    try:
        frame = pd.read_csv(io.StringIO(data), **settings)
        if any(_has_decimal_commas(frame[column], separator) for column in _texts(frame)):
            frame = pd.read_csv(io.StringIO(data), decimal=",", **settings)
            notes.append("numbers were read with decimal commas: 1,5 is one and a half")
    except pd.errors.EmptyDataError:
        return pd.DataFrame(columns=names), None
    except ValueError as error:
        _check_rows(file, text, separator)
        raise _unreadable(file, error, "put that right, or save the table as CSV again") from error
    # pandas fills short rows up, and lets a quote stand in the middle of a cell.
    if frame.shape[1] != len(names) or '"' in text or frame.iloc[:, -1].isna().any():
        _check_rows(file, text, separator)
    return frame.set_axis(names, axis=1), None


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
        text = data.decode("cp1252", errors="replace")
        notes.append(f"{_printable(file.name)} is not UTF-8 and was read as Windows-1252: look at "
                     "its accented letters")  # fmt: skip
    if re.search("[\x00-\x08\x0e-\x1f\ufffd]", text):
        raise _unreadable(file, "it is not text", "save the table as CSV in UTF-8")
    if re.match(r"\s*<(!doctype|html|head|body|table|\?xml)\b", text, flags=re.IGNORECASE):
        raise _unreadable(file, "it is a web page (HTML or XML)", "download the table itself")
    return text


def _head(file: Path, text: str) -> tuple[str, list[str], int]:
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
                    f"line {rows.line_num:,} of {_printable(file)} is ragged: {len(row):,} instead "
                    f"of {width:,} values; expected one per column: put text that holds a "
                    "separator in double quotes, and nothing between two separators for a missing "
                    "value"
                )
    except csv.Error as error:
        where = f"line {rows.line_num:,}: {error}"
        raise _unreadable(file, where, "put that line right, double quotes above all") from error


def _has_decimal_commas(column: pd.Series, separator: str) -> bool:
    """Whether text is numbers with decimal commas.

    In a file that is separated by commas, 1,234 in quotes more likely has a thousands separator.
    """
    number = r"\s*[-+]?(\d+|\d*,\d+)(e[-+]?\d+)?\s*"
    cells = column.dropna().tolist()
    if not all(re.fullmatch(number, cell, flags=re.IGNORECASE) for cell in cells):
        return False
    broken = [cell for cell in cells if "," in cell]
    thousands = r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*"
    return separator != "," or not all(re.fullmatch(thousands, cell) for cell in broken)


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
def _reading(file: Path, todo: str) -> Iterator[None]:
    """Whatever breaks a reader of a damaged file is said in one sentence."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"{_printable(file)} needs a package that is not installed ({error.name or error}): "
            "install it with `pip install openpyxl pyarrow`, or save the table as CSV"
        ) from error
    except Exception as error:
        raise _unreadable(file, error, todo) from error


def _read_excel(file: Path, id_column: str | None, notes: list[str]) -> tuple[pd.DataFrame, None]:
    import pandas as pd

    with (
        _reading(file, "save it again as an Excel workbook (.xlsx), or as CSV"),
        pd.ExcelFile(file, engine="openpyxl") as book,
    ):
        sheet, *others = book.sheet_names
        cells = book.parse(sheet, header=None, dtype=object, keep_default_na=False, na_values=[""])
    if others:
        notes.append(f"only the first sheet ({sheet!r}) was read; the others are {listed(others)}")
    cells = cells.dropna(how="all").dropna(how="all", axis=1)
    if cells.empty:
        raise InputError(f"{_printable(file)} is empty; a row of names and the rows were expected")
    names, is_sample = _names(cells.iloc[0].where(cells.iloc[0].notna(), None), id_column)
    rows = cells.iloc[0 if is_sample else 1 :].reset_index(drop=True)
    return rows.set_axis(names, axis=1), None


def _read_parquet(file: Path, id_column: str | None, notes: list[str]) -> tuple[pd.DataFrame, None]:
    import pandas as pd

    with _reading(file, "write it again with DataFrame.to_parquet, or save the table as CSV"):
        frame = pd.read_parquet(file, engine="pyarrow")
        if not isinstance(frame.index, pd.RangeIndex):  # names of rows
            frame = frame.reset_index()
    return frame.set_axis([str(name).strip() for name in frame.columns], axis=1), None


def _read_mat(file: Path, id_column: str | None, notes: list[str]) -> Any:
    with _reading(file, "save it again with save('file.mat', 'X', 'Y', '-v7')"):
        found = {name: _from_matlab(one) for name, one in matlab_arrays(file).items()}
    return _from_arrays(file, found)


def _from_matlab(one: Any) -> np.ndarray:
    """A variable as NumPy would hold it: not sparse, text instead of cells."""
    array = one.toarray() if hasattr(one, "toarray") else np.asarray(one)
    if array.dtype == object and all(np.size(cell) == 1 for cell in array.flat):
        return np.array([str(np.squeeze(cell)) for cell in array.flat])
    return array


def _read_npz(file: Path, id_column: str | None, notes: list[str]) -> Any:
    todo = "save plain numbers and text with numpy.savez(file, X=X, y=y), no Python objects"
    with _reading(file, todo), np.load(file, allow_pickle=False) as loaded:
        found = {name: loaded[name] for name in loaded.files}
    return _from_arrays(file, found)


def _from_arrays(
    file: Path, arrays: Mapping[str, np.ndarray]
) -> tuple[pd.DataFrame, Mapping[str, pd.Series]]:
    """The samples, and beside them the other arrays, checked when they are asked for."""
    import pandas as pd

    shown = _printable(file)
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
    return pd.DataFrame(X, columns=names), _Beside(shown, others, len(X))


class _Beside(UserDict):
    """Arrays by name, each given as a column of one value for each row, or refused."""

    def __init__(self, file: str, arrays: Mapping[str, np.ndarray], n_rows: int):
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
"""Each kind's reader: ``reader(file, id_column, notes)`` gives a frame, and arrays beside it."""


def _reader(file: Path) -> Any:
    """The reader of a file, by its ending; None if there is none."""
    found = [READERS[kind] for kind in READERS if file.name.casefold().endswith(kind)]
    return found[0] if found else None


# --- labels and identifiers --------------------------------------------------------------------


def _check_names(file: str, names: Sequence[str]) -> None:
    """Every column has a name of its own."""
    if nameless := [f"column {i + 1}" for i, name in enumerate(names) if not name]:
        raise InputError(
            f"{file} has columns without a name ({listed(nameless)}): name or remove them (row "
            "numbers, which pandas writes so unless told index=False, are no feature), or keep "
            f"what names the rows as id_column={nameless[0]!r}"
        )
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(
            f"{file} has several columns of the same name ({listed(twice)}): expected each once; "
            "rename or remove the others"
        )


def _known(file: str, setting: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    if missing := [name for name in names if name not in set(known)]:
        near = similar(missing[0], known)
        hint = f"did you mean {near}?" if near else f"expected one of {listed(known) or 'none'}"
        raise InputError(f"{file} has no {missing[0]!r}, which {setting} names; {hint}")


def _apart(file: str, setting: str, name: str, **others: Any) -> None:
    for other, names in others.items():
        if name in ([names] if isinstance(names, str) else names or ()):
            raise InputError(
                f"{name!r} of {file} can't be both {setting} and in {other}: take it out of one"
            )


def _label_name(
    file: str, known: Sequence[str], labels: str | None, features: Sequence[str] | None
) -> str | None:
    """The name that was asked for, or the one that says so itself."""
    if labels is not None:
        _known(file, "labels", [labels], known)
        _apart(file, "labels", labels, features=features)
        return labels
    found = [name for name in known if name.casefold() in _LABELS and name not in (features or ())]
    if len(found) > 1:
        raise InputError(
            f"{file} has more than one column that could be the labels ({listed(found)}): name "
            f"the one, as in labels={found[0]!r}"
        )
    return found[0] if found else None


def _check_labels(file: str, name: str, labels: pd.Series, *, guessed: bool) -> None:
    """Refuse rows without a label, and measurements that have no more than the name of labels."""
    if n := int(labels.isna().sum()):
        raise _gaps(file, "missing values", {name: n}, "give each row its label, or remove it")
    if guessed and labels.dtype.kind == "f" and (broken := labels[labels % 1 != 0]).size:
        raise InputError(
            f"{file} has measurements in {name!r} (such as {broken.iloc[0]:g}), which its name "
            "says to be the labels; expected text or whole numbers: name it in features if it is "
            "one, or in labels if it holds the labels all the same"
        )


def _ids(
    file: str, columns: Any, name: str, labels: str | None, features: Sequence[str] | None
) -> tuple[str, ...]:
    """The identifiers, one for each row."""
    _known(file, "id_column", [name], columns)
    _apart(file, "id_column", name, labels=labels, features=features)
    cells = columns[name].astype(object)
    missing = cells.isna() | cells.map(lambda cell: str(cell).strip() == "")
    ids = cells.map(lambda cell: str(cell).strip())
    for wrong, what in ((missing, "missing"), (ids.duplicated(), "repeated")):
        if n := int(wrong.sum()):
            at = int(np.argmax(wrong))
            value = "" if what == "missing" else f", {ids[at]!r}"
            raise InputError(
                f"{file} has {n:,} {what} identifiers in {name!r} (the first in row {at + 1:,} "
                f"below the names{value}); expected another one in each row: put them right, or "
                "leave id_column out"
            )
    return tuple(ids)


# --- features ----------------------------------------------------------------------------------


def _features(
    file: str, frame: pd.DataFrame, named: Sequence[str] | None, notes: list[str], *,
    constant: str, text: str, impute: str | None,
) -> tuple[tuple[str, ...], np.ndarray]:  # fmt: skip
    """The features' names and X as float32, or an error with what keeps them from being so."""
    import pandas as pd

    rows, columns = frame.shape
    if rows < 2 or columns < 1:
        raise InputError(
            f"{file} is too small to cluster (rows: {rows:,}, features: {columns:,}); expected two "
            "rows or more below the names, and a feature or more beside the labels"
        )
    if _texts(frame):
        frame = pd.DataFrame({name: _cleaned(column) for name, column in frame.items()})
    if named is None:
        for name in filter(lambda name: _IDENTIFIER.fullmatch(name.casefold()), frame):
            if name not in _texts(frame) and _is_counted(frame[name]):
                raise InputError(
                    f"{file} has another whole number in each row of {name!r}, which by its name "
                    f"is an identifier and no feature; keep it as id_column={name!r}, or name it "
                    "in features if it is one"
                )
    texts = _texts(frame)
    if texts:
        _check_texts(file, frame, texts, text, named)
    counts = frame.isna().sum()
    if gaps := {name: int(n) for name, n in counts[counts > 0].items()}:
        if impute is None:
            raise _gaps(file, "missing values", gaps, "fill them in with impute='median', remove "
                        "these rows, or leave these columns out")  # fmt: skip
        if empty := [name for name, n in gaps.items() if n == rows]:
            raise InputError(
                f"{file} has no value at all in {listed(empty)}, so there is no median; expected "
                "a number or more: remove these columns, or leave them out by naming features"
            )
        notes.append(f"{sum(gaps.values()):,} missing values were filled in with the median of "
                     f"their column: {_counted(gaps)}")  # fmt: skip
    if texts:
        values = {name: frame[name].nunique() for name in texts}
        frame = frame.fillna({name: "missing" for name in texts if name in gaps})
        frame = pd.get_dummies(frame, columns=texts, prefix_sep="=", dtype=np.float32)
        _check_names(file, frame.columns)
        notes.append(f"text became a feature of 0 and 1 for each value: {_counted(values)}")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
        X = np.ascontiguousarray(frame.to_numpy(dtype=np.float32, na_value=np.nan))
    infinite = dict(zip(frame, np.isinf(X).sum(axis=0).tolist(), strict=True))
    if infinite := {name: n for name, n in infinite.items() if n}:
        raise _gaps(file, "infinite values (or beyond 3.4e38)", infinite,
                    "put them right, remove these rows, or leave these columns out")  # fmt: skip
    holes = np.isnan(X)
    if holes.any():
        X = np.where(holes, np.nanmedian(X, axis=0), X)
    varies = np.ones(X.shape[1], dtype=bool)
    if constant == "drop":
        varies = X.max(axis=0) != X.min(axis=0)
    names = np.array(frame.columns, dtype=object)
    if not varies.any():
        raise InputError(
            f"no feature of {file} is left, because each holds one value only "
            f"({listed(names)}); expected rows that differ, or constant='keep'"
        )
    if not varies.all():
        notes.append(f"columns that hold one value only were left out: {listed(names[~varies])} "
                     f"of {Path(file).name}; constant='keep' keeps them")  # fmt: skip
    return tuple(names[varies]), np.ascontiguousarray(X[:, varies])


def _texts(frame: pd.DataFrame) -> list[str]:
    """The columns that hold no numbers, or not yet."""
    from pandas.api.types import is_numeric_dtype

    return [name for name, kind in frame.dtypes.items() if not is_numeric_dtype(kind)]


def _cleaned(column: pd.Series) -> pd.Series:
    """Numbers that are written as text, as numbers; other text without spaces around it.

    Marks of missing values become None. Whole numbers of any length stay exact.
    """
    import pandas as pd

    if not _texts(column.to_frame()):
        return column
    cells = [
        None if gone or str(cell).strip().casefold() in _MISSING else cell
        for cell, gone in zip(column.tolist(), column.isna(), strict=True)
    ]
    try:
        return pd.to_numeric(pd.Series(cells, dtype=object))
    except (TypeError, ValueError):
        cells = [cell if cell is None else str(cell).strip() for cell in cells]
        return pd.Series(cells, dtype=object)


def _is_counted(column: pd.Series) -> bool:
    """Whether a column has another whole number in each row."""
    return bool(column.is_unique and column.notna().all() and (column % 1 == 0).all())


def _check_texts(
    file: str, frame: pd.DataFrame, texts: Sequence[str], text: str, named: Sequence[str] | None
) -> None:
    """Refuse text that nobody asked to make features of, or that can't be."""
    values = {name: frame[name].nunique() for name in texts}
    rows = len(frame)
    unique = [name for name in texts if values[name] == rows and named is None]
    hint = f" ({listed(unique)}: another text in each row)" if unique else ""
    if text == "refuse":
        cells = {name: frame[name].dropna().iloc[0][:40] for name in texts[:SHOWN]}
        held = [f"{name!r} (such as {cell!r}, {values[name]:,} distinct)"
                for name, cell in cells.items()]  # fmt: skip
        more = f" and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else ""
        raise InputError(
            f"{file} has text in {len(texts):,} of {frame.shape[1]:,} columns: "
            f"{', '.join(held)}{more}; expected numbers, with one decimal mark and no units: name "
            f"the labels' column as labels, one that identifies the rows as id_column{hint}, or "
            "the columns to use as features, or set text='one-hot' to make features of text"
        )
    many = [name for name in texts if values[name] > _MOST]
    if wrong := {name: values[name] for name in [*unique, *many]}:
        raise InputError(
            f"{file} has columns with too many texts to make features of, counted by column: "
            f"{_counted(wrong)}; expected at most {_MOST}, and fewer than there are rows: keep an "
            "identifier as id_column, and leave other text out by naming features"
        )


def _gaps(file: str, what: str, counts: Mapping[str, int], todo: str) -> InputError:
    return InputError(f"{file} has {what}, counted by column: {_counted(counts)}; {todo}")


# --- in errors ---------------------------------------------------------------------------------


def similar(name: str, known: Iterable[str]) -> str:
    """The known names nearest to one, however they are capitalized, for an error; '' if none."""
    plain = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), plain, n=3, cutoff=0.6)
    return " or ".join(repr(plain[one]) for one in near)


def listed(names: Iterable[str]) -> str:
    """The first names, quoted, and how many more there are."""
    names = [repr(str(name)) for name in names]
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _counted(counts: Mapping[str, int]) -> str:
    """The columns with the highest counts, and how many more there are."""
    worst = sorted(counts, key=counts.__getitem__, reverse=True)
    more = f" and {len(worst) - SHOWN:,} more columns" if len(worst) > SHOWN else ""
    return ", ".join(f"{name!r} ({counts[name]:,})" for name in worst[:SHOWN]) + more


def _printable(path: str | os.PathLike[str]) -> str:
    """A path in one line that every UTF-8 stream can print, whatever its bytes."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in str(path))
