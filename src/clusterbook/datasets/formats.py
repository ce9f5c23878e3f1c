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
_HEAD = 20  # rows that decide on separator, width and names


@dataclass
class Cells:
    """The columns of a file and what was understood of them; a reader fills them in."""

    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    missing: Sequence[str] = ()  #: texts that stand for missing values
    ids: Sequence[str] | None = None  #: names of the rows, where the format has them
    named_by: str | None = None  #: the column of these names, as R leaves it without a name
    beside: Sequence[str] = ()  #: columns about the rows, which are no features
    decimal: str = "."
    is_turned: bool = False  #: whether the format says itself what a sample is
    facts: dict[str, str] = field(default_factory=lambda: {
        "a row is": "a line of the file, taken for a sample"})
    notes: list[str] = field(default_factory=list)


def opened(file: Path, sheet: str | None, named: Collection[str | None], missing: Sequence[str]
           ) -> Cells:
    """The columns of a file, with NaN for what is *missing*: these texts, and the usual ones.

    Those *named*, for labels and identifiers, are looked for in it. Raises InputError, or what a reader raises for a damaged file.
    """
    cells = Cells(missing=[*MISSING, *missing])
    kind = Path(file.stem if file.suffix == ".gz" else file).suffix.casefold()
    if sheet and kind not in (".xlsx", ".h5ad"):
        raise InputError("sheet is for .xlsx and .h5ad files; leave it out")
    if kind in (".csv", ".tsv", ".txt", ".gct"):
        text = _decoded(file, cells.notes)
        special = _gct if text.startswith(("#1.2", "#1.3")) else (
            _series_matrix if "!series_matrix_table_begin" in text else _delimited)
        special(text, cells)
    elif kind == ".xlsx":
        _workbook(file, sheet, cells)
    elif kind == ".parquet":
        frame = pd.read_parquet(file)
        cells.frame = frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()
    elif kind == ".npz":
        with np.load(file, allow_pickle=False) as arrays:
            cells.frame = _from_arrays(dict(arrays), named)
    elif kind == ".mat":
        cells.frame = _from_arrays(loadmat(file), named)
    elif kind == ".h5ad":
        _annotated(file, sheet, cells)
    else:
        raise InputError(f"save it as {', '.join(KINDS[:-1])} or {KINDS[-1]}; datasets.load reads "
                         "the book's data sets and images")
    if kind in (".parquet", ".npz", ".mat", ".h5ad"):
        cells.frame = _cleaned(cells.frame, cells.missing)
    return cells


def texts(frame: pd.DataFrame) -> list[str]:
    """The columns that have anything but numbers, or numbers as text."""
    return [name for name, kind in frame.dtypes.items() if kind.kind not in "biuf"]


def _cleaned(frame: pd.DataFrame, missing: Sequence[str]) -> pd.DataFrame:
    """The cells without spaces around them, and NaN for what is missing."""
    frame = frame.astype(dict.fromkeys(texts(frame), object))
    frame = frame.map(lambda cell: cell.strip() if isinstance(cell, str) else cell)
    return frame.mask(is_missing) if (is_missing := frame.isin(missing)).any(axis=None) else frame


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
    text = column.astype("string").str.strip()
    truth = text.str.casefold().map({"true": 1.0, "false": 0.0}).astype(float)
    if decimal == ",":
        text = text.mask(text.str.contains(".", regex=False)).str.replace(",", ".")
    return pd.to_numeric(text, errors="coerce").astype("Float64").astype(float).fillna(truth)


def turn(cells: Cells, name: str | None = None) -> None:
    """Make rows of a table's columns, with new names from its ids, column *name*, or first text.

    Other columns of text are about the former rows, and left out with a note.
    """
    frame, names = cells.frame, cells.ids
    numbers = frame.apply(as_numbers, decimal=cells.decimal)
    is_text = numbers.isna() & frame.notna()
    about = [one for one in frame if is_text[one].mean() > 0.5 and one != name]
    if names is None:
        name = name or cells.named_by or next(iter(about), None)
        names = frame[name] if name else [f"row {i + 1}" for i in frame.index]
    if left_out := [one for one in about if one != name]:
        cells.notes.append(f"columns of text about the features were left out: {listed(left_out)}")
    samples = [one for one in frame if one not in (*about, name)]
    mixed = is_text[samples].any(axis=1)
    parts = [numbers.loc[~mixed, samples].T, frame.loc[mixed, samples].T]
    table = pd.concat(parts, axis=1).sort_index(axis=1)
    cells.frame = table.set_axis(identifiers(names), axis=1).reset_index(drop=True)
    cells.ids, cells.named_by = samples, None


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
    reader = csv.reader(lines[:_HEAD], delimiter=separator, skipinitialspace=True)
    return [[cell.strip() for cell in row] for row in reader]


def _width(lines: Sequence[str], separator: str) -> tuple[int, int]:
    """How many of the first lines have equally many cells, at least two, and how many cells."""
    widths = Counter(map(len, _rows(lines, separator)))
    return max(((rows, width) for width, rows in widths.items() if width > 1), default=(0, 1))


def _delimited(text: str, cells: Cells, separator: str = "") -> int:
    """Fill in a table with names from its first row, or with numbers if that is a sample.

    Returns the number of lines above it, without empty ones.
    """
    lines = [line for line in io.StringIO(text, newline=None) if line.strip()]
    if told := re.fullmatch(r'"?sep=(.)"?\s*', "".join(lines[:1])):
        separator, lines[0] = told[1], f"#{lines[0]}"
    plain = [line for line in lines if not _REMARK.match(line)]
    separator = separator or max(_SEPARATORS, key=lambda one: _width(plain, one)[0])
    width = _width(plain, separator)[1]

    def belongs(line: str, following: str) -> bool:
        """Whether a line is a row, such as "#SampleID,a,b" above numbers, and no remark."""
        if not _REMARK.match(line):
            return bool(line.strip(f'{separator}" \n'))
        return line.count(separator) == width - 1 > 0 and any(map(number, *_rows(
            [following], separator)))

    kept = [line for line, following in zip(lines, [*lines[1:], "0"], strict=False)
            if belongs(line, following)]
    top = _top(_rows(kept, separator), width)
    if skipped := [line.strip()[:60] for line in lines if line not in {*kept[top:]}]:
        cells.notes.append(f"lines that are no part of the table were skipped: {len(skipped):,}, "
                           f"such as {skipped[0]!r}")
    _named(kept[top:], separator, width, cells)
    return lines.index(kept[top]) if kept else 0


def _top(rows: Sequence[Sequence[str]], width: int) -> int:
    """Which of the first rows begins the table; a title or remarks are less filled."""
    filled = [sum(map(bool, row)) for row in rows]
    full = filled.index(width) if width in filled else 0
    has_number = [any(map(number, row)) for row in rows[full:full + 2]]
    if has_number == [False, True] and rows[0][0]:
        return full
    return next((i for i, cells in enumerate(filled) if 2 * cells >= width), 0)


def _named(lines: Sequence[str], separator: str, width: int, cells: Cells) -> None:
    """Fill in the table that begins with the first line."""
    rows = _rows(lines, separator) or [[]]
    n, below = len(rows[0]), [row for row in rows[1:] if len(row) == width]
    grid = _grid(lines, separator, max(n, width))
    marks = Counter(found[1] for found in map(_DECIMAL.fullmatch, grid.to_numpy().ravel()) if found)
    if separator != "," and marks[","] and marks[","] >= marks["."]:
        cells.decimal = ","
        cells.notes.append("numbers were read with decimal commas: 1,5 is one and a half")
    cells.facts |= {"separator": _SEPARATORS.get(separator, separator),
                    "decimal mark": "comma" if cells.decimal == "," else "point"}
    names = [str(name).strip() for name in grid.iloc[0]] if lines else []
    frame = grid[1:]
    if n and all(map(number, names[:n])):
        values = [float(name.replace(",", ".")) for name in names[:n]]
        if not _are_names(np.array(values), below):
            names, frame = [f"column {i + 1}" for i in range(len(names))], grid
            cells.facts["names of columns"] = "none: the first row has numbers and is a sample"
        elif values != [*range(n)]:
            cells.notes.append(f"the first row, {listed(names)}, was read as names of the columns")
    leads = [row[0] for row in below]
    is_lead = not all(map(number, leads))
    if n == width - 1 and any(row[-1] for row in below):  # as R writes names of rows
        is_lead |= lines[1].startswith('"') or leads == [str(i + 1) for i in range(len(leads))]
        names = ["", *names[:-1]]
    if n < width - 1 or n < width and not names[0] and not is_lead:
        raise InputError(f"the header does not match length of data: {n} names, {width} values in "
                         "a row; where commas are decimal marks, separate with semicolons")
    frame = _cleaned(frame, cells.missing).reset_index(drop=True)
    empty = [i for i, name in enumerate(names) if not name and frame.iloc[:, i].isna().all()]
    names = [name or f"Unnamed: {i}" for i, name in enumerate(names)]
    if is_lead and names[:1] == ["Unnamed: 0"]:
        cells.named_by = names[0]
    if empty and len(frame):
        cells.notes.append(f"empty columns without a name were dropped: {len(empty)}")
    cells.frame = frame.set_axis(names, axis=1).iloc[:, [
        i for i in range(len(names)) if i not in empty or frame.empty]]


def _are_names(numbers: np.ndarray, below: Sequence[Sequence[str]]) -> bool:
    """Whether a first row of numbers has names: they count, or only they are whole or in order."""
    cells = [[float(cell.replace(",", ".")) for cell in row if number(cell)] for row in below]
    if list(numbers) == list(range(len(numbers))):
        return True
    if len(below) < 2 or len(set(numbers)) < len(numbers) or (numbers < 0).any():
        return False
    steps = np.diff(numbers)
    counts = len(set(steps)) == 1 and (len(numbers) > 2 or numbers[0] == 1)
    in_order = (steps > 0).all() and (1800 <= numbers.min() <= numbers.max() <= 2100
                                      or len(steps) > 3 and not (np.diff(cells[0]) > 0).all())
    is_whole = not (numbers % 1).any() and any(cell % 1 for row in cells for cell in row)
    return bool(counts or in_order or is_whole)


def _grid(lines: Sequence[str], separator: str, width: int) -> pd.DataFrame:
    """All cells as text."""
    try:
        # pandas only warns where rows have more values than the first.
        with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
            return pd.read_csv(
                io.StringIO("".join(lines)), sep=r"\s+" if separator == " " else separator,
                header=None, names=range(width), index_col=False, dtype=object,
                skipinitialspace=True, na_filter=False, low_memory=False)
    except pd.errors.EmptyDataError:
        return pd.DataFrame(columns=range(width))
    except pd.errors.ParserError as error:
        if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error)):
            expected, line, saw = map(int, found.groups())
            raise InputError(f"row {line - 1:,} has {saw} values, expected {expected}") from error
        raise


# ----------------------------------------------------------- workbooks, arrays, and files of biology


def _workbook(file: Path, sheet: str | None, cells: Cells) -> None:
    """One sheet: the named one, or the first with numbers in two rows."""
    sheets = pd.read_excel(file, sheet_name=None, header=None, dtype=object, engine="openpyxl")
    if sheet:
        one_of("sheet", sheet, sheets)
    tables = {name: one.dropna(how="all").dropna(how="all", axis=1) for name, one in sheets.items()}
    chosen = sheet or next((name for name, one in tables.items() if one.map(
        lambda cell: number(str(cell))).any(axis=1).sum() > 1), next(iter(tables)))
    text = tables[chosen].to_csv(sep="\t", header=False, index=False)
    above = _delimited(text, cells, "\t")
    line = [*tables[chosen].index, 0][above] + 1
    cells.facts["sheet"] = f"{chosen!r} from row {line}, of {listed(sheets)}"
    if len(sheets) > 1 and not sheet:
        cells.notes.append(f"the sheet {chosen!r} was read, from row {line}; {listed(sheets)} are "
                           f"there, and {option('sheet', 'NAME')} chooses")
    del cells.facts["separator"]


def _series_matrix(text: str, cells: Cells) -> None:
    """GEO's series matrix: samples become rows, and what differs between them may be labels."""
    head, _, table = text.partition("!series_matrix_table_begin")
    _delimited(table.partition("!series_matrix_table_end")[0].strip(), cells, "\t")
    if cells.frame.empty:
        raise InputError("this series matrix has no values; download the series' supplementary "
                         "file from GEO instead")
    about: dict[str, dict[int, str]] = {}
    lines = [line for line in head.splitlines() if line.startswith("!Sample_")]
    for name, *values in csv.reader(lines, delimiter="\t"):
        name = name.removeprefix("!Sample_")
        for i, value in enumerate(values):
            # One line may have the ages of some samples and the sexes of others.
            key, is_pair, rest = value.partition(": ")
            is_pair = is_pair and name.startswith("characteristics")
            about.setdefault(key if is_pair else name, {})[i] = rest if is_pair else value
    _turned(cells, "ID_REF", about, "a sample: a GEO series matrix has samples in columns, which "
            "were turned")


def _gct(text: str, cells: Cells) -> None:
    """GenePattern's .gct, version 1.2 or 1.3: samples become rows, their metadata may be labels."""
    version, counts, names, *lines = text.splitlines()
    rows, _, more, about = [*map(int, counts.split()), 1, 0][:4]
    names = names.split("\t")
    _delimited("\n".join(["\t".join(names), *lines[about:]]), cells, "\t")
    if len(cells.frame) != rows:
        raise InputError(f"the file announces {rows:,} rows and has {len(cells.frame):,}; it was "
                         "cut short")
    cells.frame = cells.frame.drop(columns=names[1:1 + more])
    metadata = {name: dict(enumerate(values[more:])) for name, *values in (
        line.split("\t") for line in lines[:about])}
    _turned(cells, names[0], metadata, f"a sample: a .gct file, {version[1:]}, has samples in "
            "columns, which were turned")


def _turned(cells: Cells, name: str, about: Mapping[str, Mapping[int, str]], a_row: str) -> None:
    """Turn a table, and put beside it what differs between samples."""
    turn(cells, name)
    beside = _cleaned(pd.DataFrame(about, index=range(len(cells.frame))), cells.missing)
    _put_beside(cells, beside.loc[:, beside.nunique() > 1])
    cells.facts["a row is"], cells.is_turned = a_row, True


def _put_beside(cells: Cells, beside: pd.DataFrame) -> None:
    cells.beside = tuple(map(str, beside))
    cells.frame = pd.concat([cells.frame, beside.set_axis([*cells.beside], axis=1)], axis=1)


def _annotated(file: Path, layer: str | None, cells: Cells) -> None:
    """AnnData's .h5ad: X, raw or a layer; the columns of obs may be labels."""
    try:
        import anndata
    except ImportError as error:
        raise InputError("an .h5ad file needs the package anndata: pip install anndata") from error
    with warnings.catch_warnings(action="ignore"):
        found = anndata.read_h5ad(file)
    known = {name: found.layers[name] for name in found.layers}
    known |= {} if found.X is None else {"X": found.X}
    known |= {} if found.raw is None else {"raw": found.raw.X}
    chosen = layer or "X"
    one_of("layer of the file", chosen, known)
    values = known[chosen]
    names = (found.raw if chosen == "raw" else found).var_names
    cells.frame = pd.DataFrame(values.toarray() if hasattr(values, "toarray") else np.asarray(
        values), columns=names.astype(str))
    cells.ids = tuple(map(str, found.obs_names))
    cells.facts["a row is"], cells.is_turned = "an observation (obs) of the .h5ad file", True
    cells.facts["layer"] = f"{chosen!r}, of {listed(known)}"
    _put_beside(cells, found.obs.reset_index(drop=True))


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
