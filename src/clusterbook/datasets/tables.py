"""One's own table, read with pandas, as a `Dataset`.

A reader for each kind of file returns a data frame of the samples, and the columns among which
labels and identifiers are. Everything assumed, filled in or left out is in the notes.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import paths
from ..checks import one_of
from ..errors import InputError, unknown
from .dataset import Dataset, Source, as_classes
from .loaders import SOURCES

if TYPE_CHECKING:
    import pandas as pd

    _Frame, _Column, _Columns = pd.DataFrame, pd.Series, Mapping[str, pd.Series]

SHOWN = 5  # names in an error
_MISSING = ("", "na", "n/a", "nan", "null", "?", "#n/a", "<na>")
_LABELS = ("label", "class", "target", "y")
_IDENTIFIER = re.compile(r"(.*[\W_])?(id|sample|patient|subject)([\W_]*id)?")
_MOST = 50  # values of a text column that become features
_KINDS = "a .csv, .tsv, .xlsx, .parquet, .npz or .mat file"


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
        commas, semicolons or tabs, and decimal points or commas; the first row has the names. If it
        holds numbers alone, other than 0, 1, 2 …, it is a sample, and the columns are called
        ``column 1`` and so on. Of an Excel file, the first sheet is read. An .npz or MATLAB file
        has the samples as ``X`` or as its only two-dimensional array, labels in an array of their
        own, and perhaps ``feature_names``.
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
    file, notes = _located(path), []
    with _named(file, f"can't be read as {_kind(file)}: ", Exception):  # damaged in any way
        frame, columns = _READERS[_kind(file)](file, id_column, notes)
    with _named(file, "", InputError):
        _check_names(frame.columns)
        roles = Counter([labels, id_column, *dict.fromkeys(features or ())])
        del roles[None]
        for name, count in roles.items():
            known = columns if name in (labels, id_column) else frame
            if name not in known:
                kind = "column" if known is frame else "array with a value for each row called"
                raise unknown(kind, name, nearest(name, known))
            if count > 1:
                raise InputError(f"{name!r} can be only one of labels, id_column and a feature")
        ids = None if id_column is None else _identifiers(columns[id_column])
        label, y, classes = _labels(columns, labels, roles)
        if columns is not frame:  # a file of arrays: these are not among the samples
            label = id_column = None
        chosen = [name for name in frame if name not in (label, id_column)]
        values = _features(frame[chosen if features is None else list(dict.fromkeys(features))],
                           text, impute, notes, named=features is not None)
        names, X = np.array(list(values), dtype=object), np.column_stack(list(values.values()))
        varies = X.max(axis=0) != X.min(axis=0)
        if constant == "drop" and not varies.all():
            notes.append(f"columns with one value only were left out: {listed(names[~varies])}; "
                         "constant='keep' keeps them")
            names, X = names[varies], np.ascontiguousarray(X[:, varies])
            if not len(names):
                raise InputError(f"no feature is left, because {notes[-1]}")
    for note in notes:
        warnings.warn(note, stacklevel=2)
    shown = printable(file.name)
    source = Source(shown, f"a table of one's own, {shown}", *X.shape, len(classes), "your own",
                    "your own", printable(file))
    return Dataset(X, y, classes, source, feature_names=tuple(names), ids=ids, notes=tuple(notes))


# --- files -------------------------------------------------------------------------------------


def absolute(path: str | os.PathLike[str]) -> Path:
    """The absolute path; a relative one begins where ``clusterbook run`` was typed."""
    here = Path(paths.run_context().get("folder", "."))  # a notebook runs in another folder
    return Path(os.path.abspath(here / os.path.expanduser(path)))


def _located(path: str | os.PathLike[str]) -> Path:
    file = absolute(path)
    if os.path.isdir(file):
        raise InputError(f"{printable(file)} is a folder: load images with load('folder:PATH')")
    if not os.path.exists(file) and str(path) in SOURCES:
        raise InputError(f"{path} is a data set of the book, not a file: use datasets.load")
    if not os.path.exists(file):  # unlike Path's, no error for an impossible name
        tables = nearest(file.name, sorted(one.name for one in file.parent.glob("*") if _kind(one)))
        raise InputError(f"there is no file {printable(file)}; tables in its folder: "
                         f"{listed(tables) or 'none'}")
    if not _kind(file):
        raise InputError(f"{printable(file)} is not {_KINDS}: save the table as CSV")
    return file


def _kind(file: Path) -> str | None:
    return next((kind for kind in _READERS if file.name.casefold().endswith(kind)), None)


@contextmanager
def _named(file: Path, words: str, kind: type[Exception]) -> Iterator[None]:
    """Turn errors of that kind into an InputError that names the file."""
    try:
        yield
    except kind as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise InputError(f"{printable(file)}: {words}{reason}") from error


def _read_csv(file: Path, id_column: str | None, notes: list[str]) -> tuple[_Frame, _Columns]:
    import pandas as pd

    text = _text(file, notes)
    separator, first = _head(text)
    _check_rows(text, separator, len(first))
    names, is_sample = _names(first, id_column)
    marks = {case(mark) for mark in _MISSING for case in (str, str.upper, str.title)} | {"NaN"}
    settings = {"sep": separator, "header": None if is_sample else 0, "names": range(len(names)),
                "index_col": False, "skipinitialspace": True, "low_memory": False,
                "keep_default_na": False, "na_values": sorted(marks),
                "dtype": {names.index(id_column): str} if id_column in names else None}
    frame = pd.read_csv(io.StringIO(text), **settings)
    if any(_has_decimal_commas(column, separator) for _, column in frame.items()):
        points, frame = frame, pd.read_csv(io.StringIO(text), decimal=",", **settings)
        if mixed := [names[i] for i in frame if is_text(frame[i]) and not is_text(points[i])]:
            raise InputError(f"decimal commas, but points in {listed(mixed)}: use one decimal "
                             "mark, and no thousands separators")
        notes.append("numbers were read with decimal commas: 1,5 is one and a half")
    frame = frame.set_axis(names, axis=1)
    return frame, frame


def _text(file: Path, notes: list[str]) -> str:
    """The text of a file, plain or compressed: UTF-8, UTF-16 with its mark, or Windows-1252."""
    data = file.read_bytes()
    if file.suffix.casefold() == ".gz":
        data = gzip.decompress(data)
    try:
        marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = data.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace").replace("\ufffd", "\0")
        notes.append(f"{printable(file.name)} is not UTF-8 and was read as Windows-1252: look at "
                     "its accented letters")
    if re.search("[\x00-\x08\x0e-\x1f]", text):
        raise InputError("it is not text in UTF-8")
    if re.match(r"\s*<(!doctype|html|head|body|table|\?xml)\b", text, flags=re.IGNORECASE):
        raise InputError("it is a web page (HTML or XML)")
    return io.StringIO(text, newline=None).read()  # line ends become \n


def _rows(text: str, separator: str, *, strict: bool) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True, strict=strict)


def _head(text: str) -> tuple[str, list[str]]:
    """The separator and the first row.

    The separator cuts the first two rows into equally many cells, more than one; a tab or a
    semicolon before a comma, which may be a decimal mark.
    """
    heads = {one: list(islice(filter(None, _rows(text, one, strict=False)), 2)) or [[]]
             for one in "\t;,"}
    fits = [one for one, rows in heads.items() if len(rows[0]) == len(rows[-1]) > 1]
    separator = fits[0] if fits else max(heads, key=lambda one: len(heads[one][0]))
    if not heads[separator][0]:
        raise InputError("it is empty")
    return separator, heads[separator][0]


def _check_rows(text: str, separator: str, width: int) -> None:
    """Refuse rows of several lengths, which pandas fills up, and quotes out of place."""
    rows = _rows(text, separator, strict=True)
    try:
        for row in rows:
            if len(row) != width and "".join(row).strip():
                raise InputError(f"line {rows.line_num:,} is ragged: {len(row):,} instead of "
                                 f"{width:,} values; put text with a separator in quotes")
    except csv.Error as error:
        raise InputError(f"line {rows.line_num:,}: {error}; correct its quotes") from error


def _has_decimal_commas(column: _Column, separator: str) -> bool:
    """Whether text is numbers with decimal commas, not thousands separators between commas."""
    number = re.compile(r"\s*[-+]?(\d+|\d*,\d*)(e[-+]?\d+)?\s*", flags=re.IGNORECASE)
    thousands = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")
    cells = list(map(str, column.dropna())) if is_text(column) else []
    marked = [cell for cell in cells if "," in cell]
    unclear = separator == "," and all(map(thousands.fullmatch, marked))
    return bool(marked) and not unclear and all(map(number.fullmatch, cells))


def _names(first: Sequence[object], id_column: str | None) -> tuple[list[str], bool]:
    """The columns' names, and whether the first row is a sample: numbers, but not 0, 1, 2 …"""
    cells = ["" if cell is None else str(cell).strip() for cell in first]
    numbered = [f"column {i + 1}" for i in range(len(cells))]
    with suppress(ValueError):
        numbers = [float(cell.replace(",", ".").replace("_", "x")) for cell in cells]
        counted = len(numbers) > 2 and numbers == list(range(len(numbers)))
        if not counted and not np.isnan(numbers).any():
            return numbered, True
    # R and pandas write the names of rows without a name above them.
    return [cell or (name if name == id_column else "")
            for cell, name in zip(cells, numbered, strict=True)], False


def _read_excel(file: Path, id_column: str | None, notes: list[str]) -> tuple[_Frame, _Columns]:
    import pandas as pd

    with pd.ExcelFile(file, engine="openpyxl") as book:
        sheet, *others = book.sheet_names
        cells = pd.read_excel(book, header=None, dtype=object, keep_default_na=False,
                              na_values=[""])
    if others:
        notes.append(f"only the first sheet ({sheet!r}) was read; other sheets: {listed(others)}")
    cells = cells.dropna(how="all").dropna(how="all", axis=1)
    if cells.empty:
        raise InputError("it is empty")
    names, is_sample = _names(cells.iloc[0].where(cells.iloc[0].notna(), None), id_column)
    frame = cells.iloc[0 if is_sample else 1:].reset_index(drop=True).set_axis(names, axis=1)
    return frame, frame


def _read_parquet(file: Path, id_column: str | None, notes: list[str]) -> tuple[_Frame, _Columns]:
    import pandas as pd

    frame = pd.read_parquet(file, engine="pyarrow")
    if not isinstance(frame.index, pd.RangeIndex):  # names of rows
        frame = frame.reset_index()
    frame = frame.set_axis([str(name).strip() for name in frame.columns], axis=1)
    return frame, frame


def _read_mat(file: Path, id_column: str | None, notes: list[str]) -> tuple[_Frame, _Columns]:
    from scipy.io import loadmat

    arrays = {}
    for name, one in loadmat(file).items():
        one = one.toarray() if hasattr(one, "toarray") else np.asarray(one)
        if one.dtype == object and all(np.size(cell) == 1 for cell in one.flat):  # cells of text
            one = np.array([str(np.squeeze(cell)) for cell in one.flat])
        if not name.startswith("__"):
            arrays[name] = one
    return _from_arrays(arrays)


def _read_npz(file: Path, id_column: str | None, notes: list[str]) -> tuple[_Frame, _Columns]:
    with np.load(file, allow_pickle=False) as loaded:
        return _from_arrays(dict(loaded))


def _from_arrays(arrays: dict[str, np.ndarray]) -> tuple[_Frame, _Columns]:
    """The samples, and the other arrays with one value for each of them."""
    import pandas as pd

    matrices = [name for name, one in arrays.items() if one.ndim == 2 and min(one.shape) > 1]
    samples = "X" if "X" in arrays else matrices[0] if len(matrices) == 1 else None
    if samples is None:
        raise InputError(f"call the samples X, shape (rows, features), among {listed(arrays)}")
    X = arrays.pop(samples)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise InputError(f"{samples} has shape {X.shape} and type {X.dtype}, expected real numbers "
                         "of shape (rows, features)")
    numbered = np.array([f"column {i + 1}" for i in range(X.shape[1])])
    names = [str(name).strip() for name in arrays.pop("feature_names", numbered).ravel()]
    columns = {}
    for name, one in arrays.items():
        if one.size == max(one.shape, default=0) == len(X) and one.dtype.kind in "biufU":
            columns[name] = pd.Series(one.ravel())
        elif name.casefold() in _LABELS:
            raise InputError(f"{name} has shape {one.shape} and type {one.dtype}, expected a "
                             f"number or text for each of {len(X):,} rows")
    return pd.DataFrame(X, columns=names), columns


_READERS = {
    ".csv": _read_csv, ".csv.gz": _read_csv, ".tsv": _read_csv, ".tsv.gz": _read_csv,
    ".xlsx": _read_excel, ".parquet": _read_parquet, ".npz": _read_npz, ".mat": _read_mat}


# --- columns -----------------------------------------------------------------------------------


def _check_names(names: Sequence[str]) -> None:
    if nameless := [f"column {i + 1}" for i, name in enumerate(names) if not name]:
        raise InputError(f"columns without a name ({listed(nameless)}): name or remove them, or "
                         "name one as id_column")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(f"several columns of the same name ({listed(twice)}): rename them")


def _identifiers(column: _Column) -> tuple[str, ...]:
    ids = column.astype(object).map(lambda cell: str(cell).strip())
    wrong = column.isna() | ids.str.casefold().isin(_MISSING) | ids.duplicated()
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(f"missing or repeated identifiers ({int(wrong.sum()):,}, the first in row "
                         f"{at + 1:,}, {ids[at]!r}): each row needs another one")
    return tuple(ids)


def _labels(
    columns: _Columns, name: str | None, roles: Mapping[str, int]
) -> tuple[str | None, np.ndarray | None, tuple[str, ...]]:
    """The name of the labels, the class of each row, and the classes' names."""
    found = [one for one in columns if one.casefold() in _LABELS and one not in roles]
    if name is None and len(found) > 1:
        raise InputError(f"several columns could be labels ({listed(found)}): name one in labels")
    guess = found[0] if name is None and found else None
    if (label := name or guess) is None:
        return None, None, ()
    values = _cleaned(columns[label])
    _refuse("missing values", {label: values.isna().sum()}, "label these rows, or remove them")
    if values.dtype.kind == "f":
        if guess and (values % 1 != 0).any():
            raise InputError(f"measurements in {label!r}: name it in features or in labels")
        if (values.abs() >= 2**53).any():
            values = columns[label].astype(str)  # floats would merge such labels
    return label, *as_classes(values.to_numpy())


def _features(
    frame: _Frame, text: str, impute: str | None, notes: list[str], *, named: bool
) -> dict[str, np.ndarray]:
    """The features by name, float32, each of shape (n_samples,)."""
    rows, width = frame.shape
    if rows < 2 or width < 1:
        raise InputError(f"too small to cluster (rows: {rows:,}, features: {width:,}): expected "
                         "two rows or more, and a feature beside the labels")
    columns = {name: _cleaned(column) for name, column in frame.items()}
    texts = {name: columns.pop(name) for name in frame if is_text(columns[name])}
    for name, column in columns.items():
        if not named and _IDENTIFIER.fullmatch(name.casefold()):
            if column.is_unique and (column % 1 == 0).all():
                raise InputError(f"identifiers in {name!r}: name it as id_column, or in features")
    if texts and text == "refuse":
        held = [f"{name!r} (such as {column.dropna().iloc[0][:40]!r}, {column.nunique():,} "
                "distinct)" for name, column in islice(texts.items(), SHOWN)]
        more = f" and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else ""
        raise InputError(f"text in {len(texts):,} of {width:,} columns: {', '.join(held)}{more}; "
                         "name labels, id_column or features, write numbers without units or "
                         "thousands separators, or make text features with text='one-hot'")
    distinct = {name: column.nunique() for name, column in texts.items()}
    _refuse("text with too many distinct values for text='one-hot'",
            {name: n for name, n in distinct.items() if n > _MOST or (n == rows and not named)},
            f"expected at most {_MOST}, and fewer than rows: name id_column, or the features")
    missing = {name: column.isna().sum() for name, column in (columns | texts).items()}
    if impute is None:
        _refuse("missing values", missing, "fill them with impute='median', or remove these rows "
                "or columns")
    _refuse("no value at all", {name: n for name, n in missing.items() if n == rows},
            "remove these columns")
    if any(missing.values()):
        notes.append(f"missing values filled in: {sum(missing.values()):,}, by column "
                     f"{_counted(missing)}; numbers with the column's median, text with 'missing'")
    with np.errstate(over="ignore"):  # what is too large becomes infinite
        numbers = {name: column.to_numpy(dtype=np.float32, na_value=np.nan)
                   for name, column in columns.items()}
    _refuse("infinite values (or beyond 3.4e38)",
            {name: np.isinf(column).sum() for name, column in numbers.items()},
            "correct them, or remove these rows or columns")
    for name, column in numbers.items():
        if missing[name]:
            numbers[name] = np.where(np.isnan(column), np.nanmedian(column), column)
    for name, column in texts.items():
        values = sorted(column.fillna("missing").unique())
        notes.append(f"text in {name!r} became {len(values)} features of 0 and 1")
        added = {f"{name}={one}": np.float32(column.fillna("missing") == one) for one in values}
        _check_names([*numbers, *added])
        numbers |= added
    return numbers


def _cleaned(column: _Column) -> _Column:
    """Text stripped, None where it is missing, or as numbers if all of it is."""
    import pandas as pd

    if not is_text(column):
        return column
    text = column.astype(object).map(lambda cell: str(cell).strip())
    gone = column.isna() | text.str.casefold().isin(_MISSING)
    cells = column.astype(object).mask(gone, None)
    with suppress(TypeError, ValueError):
        with suppress(OverflowError):
            numbers = pd.to_numeric(cells)
            if numbers.dtype.kind in "biuf":
                return numbers
        return cells.map(lambda cell: float(str(cell)), na_action="ignore").astype(float)
    return text.mask(gone, None)


def is_text(column: _Column) -> bool:
    """Whether a column has anything but numbers, or numbers as text."""
    return column.dtype.kind not in "biuf"


# --- in errors ---------------------------------------------------------------------------------


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names nearest to one in any case, or else the first ones."""
    plain = {str(one).casefold(): printable(one) for one in known}
    near = get_close_matches(str(name).casefold(), plain, n=SHOWN)
    return [plain[one] for one in near or islice(plain, SHOWN)]


def listed(names: Iterable[object]) -> str:
    """The first names, quoted, and how many more there are."""
    names = [repr(str(name)) for name in names]
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _counted(counts: Mapping[str, int]) -> str:
    """The columns with the highest counts, and how many more there are."""
    worst = sorted((name for name in counts if counts[name]), key=counts.__getitem__, reverse=True)
    more = f" and {len(worst) - SHOWN:,} more columns" if len(worst) > SHOWN else ""
    return ", ".join(f"{name!r} ({counts[name]:,})" for name in worst[:SHOWN]) + more


def _refuse(what: str, counts: Mapping[str, int], todo: str) -> None:
    if any(counts.values()):
        raise InputError(f"{what}, counted by column: {_counted(counts)}; {todo}")


def printable(path: str | os.PathLike[str]) -> str:
    """A path in one line that any UTF-8 stream can print."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in str(path))
