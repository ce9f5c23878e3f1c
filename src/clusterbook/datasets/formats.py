"""What a file of one's own holds, read with pandas, scipy or anndata, before it is questioned."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import loadmat

from ..checks import InputError, one_of
from .dataset import listed, option

KINDS = (".csv", ".tsv", ".txt", ".gct", ".xlsx", ".parquet", ".npz", ".mat", ".h5ad")
MISSING = ["", "?", "NA", "N/A", "na", "n/a", "NaN", "nan", "NULL", "null", "#N/A", "<NA>"]
LABELS = ("label", "class", "target", "y")
_SEPARATORS = {"\t": "tab", ";": "semicolon", ",": "comma", "|": "bar", " ": "space"}
_NUMBER = re.compile(r"[-+]?(\d+[.,]?\d*|[.,]\d+)(e[-+]?\d+)?", re.IGNORECASE)
_DECIMAL = re.compile(r"[-+]?\d*([.,])\d+(e[-+]?\d+)?", re.IGNORECASE)
_REMARK = re.compile(r"""[ "']*[#!%]""")
csv.field_size_limit(2**31 - 1)  # a line without the right separator is one cell


@dataclass
class Cells:
    """The columns of a file and what was understood of them; its reader fills them in."""

    missing: Collection[str]  #: texts that stand for missing values
    sheet: str | None  #: of a workbook, or layer of an .h5ad file
    named: Collection[str | None]  #: columns of labels and identifiers, where they were given
    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    ids: Sequence[str] | None = None  #: names of the rows, if they are in no column
    named_by: str | None = None  #: column of these names, if the file says so
    beside: Sequence[str] = ()  #: columns about the rows, which are no features
    decimal: str = "."
    is_turned: bool = False  #: whether samples stood in columns, or the format says what they are
    facts: dict[str, str] = field(default_factory=lambda: {
        "a row is": "a sample: a line of the file, and no name speaks against it"})
    notes: list[str] = field(default_factory=list)


def fill(cells: Cells, file: Path) -> None:
    """Read a file; raises InputError, or what a reader raises for a damaged file."""
    kind = Path(file.stem if file.suffix == ".gz" else file).suffix.casefold()
    if kind not in KINDS:
        raise InputError(f"save it as {', '.join(KINDS[:-1])} or {KINDS[-1]}; datasets.load reads "
                         "the book's data sets and images")
    if cells.sheet and kind not in (".xlsx", ".h5ad"):
        raise InputError("sheet is for .xlsx and .h5ad files; leave it out")
    if kind == ".xlsx":
        _workbook(file, cells)
    elif kind == ".parquet":
        frame = pd.read_parquet(file)
        cells.frame = frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()
    elif kind == ".npz":
        with np.load(file, allow_pickle=False) as arrays:
            cells.frame = _from_arrays(dict(arrays), cells.named)
    elif kind == ".mat":
        cells.frame = _from_arrays(loadmat(file), cells.named)
    elif kind == ".h5ad":
        _annotated(file, cells)
    else:
        text = _decoded(file, cells.notes)
        reader = _gct if text.startswith(("#1.2", "#1.3")) else (
            _series_matrix if "!series_matrix_table_begin" in text else _delimited)
        reader(text, cells)
    cells.frame = _cleaned(cells.frame, cells.missing)


def texts(frame: pd.DataFrame) -> np.ndarray:
    """Which columns have anything but numbers, or numbers as text."""
    return np.array([kind.kind not in "biuf" for kind in frame.dtypes], dtype=bool)


def _cleaned(frame: pd.DataFrame, missing: Collection[str]) -> pd.DataFrame:
    """Numbers, then texts without spaces around them; NaN for what is missing."""
    is_text = texts(frame)
    words = frame.loc[:, is_text]
    # As one column: a table may have 20,000.
    cells = pd.Series([cell.strip() if isinstance(cell, str) else cell
                       for cell in words.to_numpy(object).ravel()], dtype=object)
    values = cells.mask(cells.isin(missing)).to_numpy().reshape(words.shape)
    words = pd.DataFrame(values, words.index, words.columns, dtype=object)
    return pd.concat([frame.loc[:, ~is_text], words], axis=1)


def number(cell: str) -> bool:
    """Whether a cell is a number, with either decimal mark."""
    return bool(_NUMBER.fullmatch(cell))


def as_numbers(column: pd.Series, decimal: str) -> pd.Series:
    """A column's numbers, True and False being 1 and 0; NaN where a cell has none."""
    if column.dtype.kind in "biuf":
        return column
    with suppress(TypeError, ValueError):  # most columns have nothing else
        if decimal == ".":
            return pd.to_numeric(column).astype(float)
    text = column.astype("string")
    truth = text.str.casefold().map({"true": 1.0, "false": 0.0}).astype(float)
    if decimal == ",":
        text = text.mask(text.str.contains(".", regex=False)).str.replace(",", ".")
    return pd.to_numeric(text, errors="coerce").astype("Float64").astype(float).fillna(truth)


def turn(cells: Cells, name: str | None) -> None:
    """Make columns rows; new names are in a column *name*, or in the first one of text.

    Other columns of text are about the former rows, and left out with a note.
    """
    if cells.is_turned:
        raise InputError("its samples are rows already; leave out transpose")
    frame, name = cells.frame, name or cells.named_by
    about = [one for one in frame if one != name and 2 * as_numbers(
        frame[one], cells.decimal).count() < frame[one].count()]
    name = name or next(iter(about), None)
    names = frame[name] if name else [f"row {i + 1}" for i in frame.index]
    if left_out := [one for one in about if one != name]:
        cells.notes.append(f"columns of text about the features were left out: {listed(left_out)}")
    table = frame.drop(columns={name, *about}.difference([None])).T
    cells.ids, cells.named_by, cells.is_turned = [*table.index], None, True
    cells.facts["a row is"] = f"a column of the file, by {option('transpose', True)}"
    cells.frame = table.set_axis(identifiers(names), axis=1).reset_index(drop=True)


def identifiers(names: Sequence[str]) -> tuple[str, ...]:
    """The names as text; InputError if one is missing or comes twice."""
    column = pd.Series(names)
    if (wrong := column.isna() | column.duplicated()).any():
        row = int(wrong.to_numpy().argmax())
        raise InputError(f"row {row + 1:,}: identifier missing or repeated, {column.iloc[row]}")
    return tuple(map(str, column))


# ------------------------------------------------------------------------------------- text files


def _decoded(file: Path, notes: list[str]) -> str:
    data = file.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # as Excel saves it
        return data.decode("utf-16")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        notes.append(f"{file.name} is not UTF-8 and was read as Windows-1252")
        return data.decode("cp1252")


def _rows(lines: Sequence[str], separator: str) -> list[list[str]]:
    """The first lines cut into cells: they decide on separator, width and names."""
    reader = csv.reader(lines[:20], delimiter=separator, skipinitialspace=True)
    return [[cell.strip() for cell in row] for row in reader]


def _width(lines: Sequence[str], separator: str) -> tuple[int, int]:
    """How many of the first lines have equally many cells, at least two, and how many cells."""
    widths = Counter(map(len, _rows(lines, separator)))
    return max(((rows, width) for width, rows in widths.items() if width > 1), default=(0, 1))


def _has_number(row: Sequence[str]) -> bool:
    return any(map(number, row))


def _delimited(text: str, cells: Cells, separator: str = "") -> int:
    """Read the table among the lines; returns the number of lines above it, without empty ones."""
    lines = [line for line in io.StringIO(text, newline=None) if line.strip()]
    if told := re.fullmatch(r'"?sep=(.)"?\s*', "".join(lines[:1])):
        separator, lines[0] = told[1], f"#{lines[0]}"
    plain = [line for line in lines if not _REMARK.match(line)]
    separator = separator or max(_SEPARATORS, key=lambda one: _width(plain, one)[0])
    width = _width(plain, separator)[1]

    def is_row(line: str, following: str) -> bool:
        """Also if it begins with a mark, as "#SampleID,a,b" above numbers."""
        if not _REMARK.match(line):
            return bool(line.strip(f'{separator}" \n'))
        alike = line.count(separator) == width - 1 > 0
        return alike and _has_number(*_rows([following], separator))

    kept = [line for line, following in zip(lines, [*lines[1:], "0"], strict=False)
            if is_row(line, following)]
    kept = kept[_top(_rows(kept, separator), width):]
    inside = {*kept}
    if skipped := [line.strip() for line in lines if line not in inside]:
        cells.notes.append(f"lines that are no part of the table were skipped: {len(skipped):,}, "
                           f"such as {skipped[0][:60]!r}")
    if kept:
        _named(kept, separator, width, cells)
    return lines.index(kept[0]) if kept else 0


def _top(rows: Sequence[Sequence[str]], width: int) -> int:
    """Which of the first rows begins the table; a title or remarks are less filled."""
    filled = [sum(map(bool, row)) for row in rows]
    full = filled.index(width) if width in filled else 0
    if [*map(_has_number, rows[full:full + 2])] == [False, True] and rows[0][0]:
        return full
    return next((i for i, n in enumerate(filled) if 2 * n >= width), 0)


def _named(lines: Sequence[str], separator: str, width: int, cells: Cells) -> None:
    """Read a table that has names in its first row, or there its first sample."""
    rows = _rows(lines, separator)
    n, below = len(rows[0]), [row for row in rows[1:] if len(row) == width]
    grid = _grid(lines, separator, max(n, width))
    found = map(_DECIMAL.fullmatch, grid.to_numpy().ravel() if separator != "," else ())
    marks = Counter(one[1] for one in found if one)
    if marks[","] and marks[","] >= marks["."]:
        cells.decimal = ","
        cells.notes.append("numbers were read with decimal commas: 1,5 is one and a half")
    cells.facts |= {"separator": _SEPARATORS.get(separator, separator),
                    "decimal mark": "comma" if cells.decimal == "," else "point"}
    names, frame = [*grid.iloc[0].str.strip()], grid[1:]
    if all(map(number, rows[0])):
        if not _are_names(rows[0], below):
            names, frame = [f"column {i + 1}" for i in range(len(names))], grid
            cells.facts["names of columns"] = "none: the first row has numbers and is a sample"
        elif rows[0][0] != "0":
            cells.notes.append(f"the first row, {listed(names)}, was read as names of the columns")
    leads = [row[0] for row in below]
    is_lead = not all(map(number, leads))
    if n == width - 1 and any(row[-1] for row in below):  # as R writes names of rows
        is_lead |= separator != "," or lines[1].startswith('"') or leads == [
            str(i + 1) for i in range(len(leads))]
        names = ["", *names[:-1]]
    if n < width - 1 or n < width and not names[0] and not is_lead:
        raise InputError(f"the header does not match length of data: {n} names, {width} values in "
                         "a row; where commas are decimal marks, separate with semicolons")
    blank = [f"Unnamed: {i}" for i, name in enumerate(names) if not name]
    names = [name or f"Unnamed: {i}" for i, name in enumerate(names)]
    cells.frame = frame = frame.set_axis(names, axis=1).reset_index(drop=True)
    if is_lead and names[0] in blank:
        cells.named_by = names[0]
    if below and (empty := [name for name in blank if not frame[name].str.strip().any()]):
        cells.notes.append(f"empty columns without a name were dropped: {len(empty)}")
        cells.frame = frame.drop(columns=empty)


def _are_names(row: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether a first row of numbers has names: they count, or only they are whole or in order."""
    numbers, *others = [np.array([cell.replace(",", ".") for cell in cells if number(cell)], float)
                        for cells in (row, *below)]
    if list(numbers) == list(range(len(numbers))):
        return True
    if len(others) < 2 or len(set(numbers)) < len(numbers) or (numbers < 0).any():
        return False
    steps = np.diff(numbers)
    in_order = (steps > 0).all() and (
        len(steps) == 1 and numbers[0] == 1 or len(steps) > 1 and len(set(steps)) == 1
        or 1800 <= numbers[0] < numbers[-1] <= 2100
        or len(steps) > 3 and not (np.diff(others[0]) > 0).all())
    return bool(in_order or not (numbers % 1).any() and any((one % 1).any() for one in others))


def _grid(lines: Sequence[str], separator: str, width: int) -> pd.DataFrame:
    """All cells as text."""
    try:
        # pandas only warns where rows have more values than the first.
        with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
            return pd.read_csv(
                io.StringIO("".join(lines)), sep=r"\s+" if separator == " " else separator,
                header=None, names=range(width), index_col=False, dtype=object,
                skipinitialspace=True, na_filter=False, low_memory=False)
    except pd.errors.ParserError as error:
        if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error)):
            expected, line, saw = map(int, found.groups())
            raise InputError(f"row {line - 1:,} has {saw} values, expected {expected}") from error
        raise


# ---------------------------------------------------------- workbooks, arrays, files of biology


def _workbook(file: Path, cells: Cells) -> None:
    """The named sheet, or the first with numbers in two rows."""
    sheets = pd.read_excel(file, sheet_name=None, header=None, dtype=object, engine="openpyxl")
    tables = {name: one.dropna(how="all").dropna(how="all", axis=1) for name, one in sheets.items()}
    chosen = cells.sheet or next((name for name, one in tables.items() if one.map(
        lambda cell: number(str(cell))).any(axis=1).sum() > 1), next(iter(tables)))
    one_of("sheet", chosen, tables)
    above = _delimited(tables[chosen].to_csv(sep="\t", header=False, index=False), cells, "\t")
    line = [*tables[chosen].index, 0][above] + 1
    cells.facts["sheet"] = f"{chosen!r} from row {line}, of {listed(sheets)}"
    if len(sheets) > 1 and not cells.sheet:
        cells.notes.append(f"the sheet {chosen!r} was read, from row {line}; {listed(sheets)} are "
                           f"there, and {option('sheet', 'NAME')} chooses")
    cells.facts.pop("separator", None)


def _series_matrix(text: str, cells: Cells) -> None:
    """GEO's series matrix; what differs between samples may be labels."""
    about: dict[str, dict[int, str]] = {}
    for name, *values in csv.reader(re.findall(r"^!Sample_(.*)", text, re.M), delimiter="\t"):
        for i, value in enumerate(values):
            # One line may have the ages of some samples and the sexes of others.
            key, is_pair, rest = value.partition(": ")
            is_pair = is_pair and name.startswith("characteristics")
            about.setdefault(key if is_pair else name, {})[i] = rest if is_pair else value
    table = pd.read_csv(io.StringIO(text), sep="\t", comment="!", index_col=0, low_memory=False)
    if table.empty:
        raise InputError("this series matrix has no values; download the series' supplementary "
                         "file from GEO instead")
    _of_samples(table, about, "GEO series matrix", cells)


def _gct(text: str, cells: Cells) -> None:
    """GenePattern's .gct, version 1.2 or 1.3; metadata of samples may be labels."""
    version, counts, names, *lines = text.splitlines()
    rows, _, more, about = [*map(int, counts.split()), 1, 0][:4]
    table = pd.read_csv(io.StringIO("\n".join([names, *lines[about:]])), sep="\t", index_col=0,
                        low_memory=False).iloc[:, more:]
    if len(table) != rows:
        raise InputError(f"the file announces {rows:,} rows and has {len(table):,}; it was cut "
                         "short")
    parts = [line.split("\t") for line in lines[:about]]
    _of_samples(table, {name: dict(enumerate(values[more:])) for name, *values in parts},
                f"version {version[1:]} of .gct", cells)


def _of_samples(table: pd.DataFrame, about: Mapping[str, Mapping[int, str]], kind: str, cells: Cells
                ) -> None:
    """Turn a table that has samples in columns, and put beside it what differs between them."""
    beside = pd.DataFrame(about, index=range(table.shape[1]))
    cells.ids = tuple(map(str, table))
    _put_beside(table.T.reset_index(drop=True), beside.loc[:, beside.nunique() > 1], cells)
    cells.facts["a row is"] = f"a sample: {kind} has samples in columns, which were turned"


def _put_beside(frame: pd.DataFrame, beside: pd.DataFrame, cells: Cells) -> None:
    cells.beside, cells.is_turned = tuple(map(str, beside)), True
    cells.frame = pd.concat([frame, beside.set_axis([*cells.beside], axis=1)], axis=1)


def _annotated(file: Path, cells: Cells) -> None:
    """AnnData's .h5ad: X, raw or a layer; the columns of obs may be labels."""
    try:
        import anndata
    except ImportError as error:
        raise InputError("an .h5ad file needs the package anndata: pip install anndata") from error
    with warnings.catch_warnings(action="ignore"):
        found = anndata.read_h5ad(file)
    known = {"X": found.X, "raw": found.raw and found.raw.X, **found.layers}
    known = {name: values for name, values in known.items() if values is not None}
    chosen = cells.sheet or "X"
    one_of("layer of the file", chosen, known)
    values = known[chosen]
    frame = pd.DataFrame(values.toarray() if hasattr(values, "toarray") else np.asarray(values))
    frame.columns = (found.raw if chosen == "raw" else found).var_names.astype(str)
    _put_beside(frame, found.obs.reset_index(drop=True), cells)
    cells.ids = tuple(map(str, found.obs_names))
    cells.facts |= {"a row is": "an observation (obs) of the .h5ad file",
                    "layer": f"{chosen!r}, of {listed(known)}"}


def _from_arrays(arrays: Mapping[str, np.ndarray], named: Collection[str | None]) -> pd.DataFrame:
    """The samples, with the arrays of labels and identifiers as further columns."""
    if "X" not in arrays:
        raise InputError(f"call the samples X, shape (rows, features), among {listed(arrays)}")
    X = arrays["X"]
    frame = pd.DataFrame(X.toarray() if hasattr(X, "toarray") else X)
    names = arrays.get("feature_names", [f"column {i + 1}" for i in frame])
    frame.columns = [str(np.squeeze(name)) for name in np.ravel(names)]
    for name, array in arrays.items():
        if name in named or name.casefold() in LABELS:
            # A text in a cell of MATLAB is an array.
            frame[name] = [np.squeeze(cell).item() for cell in array.ravel()]
    return frame
