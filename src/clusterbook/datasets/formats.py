"""What a file of one's own holds, read with pandas, scipy or anndata, before it is questioned."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import loadmat

from ..checks import InputError, one_of
from .dataset import listed, option

KINDS = (".csv", ".tsv", ".txt", ".gct", ".xlsx", ".parquet", ".npz", ".mat", ".h5ad")
MISSING = ("", "?", "NA", "N/A", "na", "n/a", "NaN", "nan", "NULL", "null", "#N/A", "<NA>")
LABELS = ("label", "class", "target", "y")
#: First bytes that no text has; a column may be called PK or PAR1.
_HEADS = {b"PK\3\4": (".xlsx", ".npz"), b"PAR1\x15": (".parquet",),
          b"\x89HDF": (".h5ad", ".mat")}
_OLE = b"\xd0\xcf\x11\xe0"
_SEPARATORS = {"\t": "tab", ";": "semicolon", ",": "comma", "|": "bar", " ": "space"}
_NUMBER = re.compile(r"[-+]?(\d+[.,]?\d*|[.,]\d+)(e[-+]?\d+)?\s*", re.IGNORECASE)
_DECIMAL = re.compile(r"[-+]?\d*([.,])\d+(e[-+]?\d+)?\s*", re.IGNORECASE)
_REMARK = re.compile(r"""[ "']*[#!%]""")
_MINUS = "\N{MINUS SIGN}"  # of a typesetter, instead of a hyphen
_DECIDING = 20  #: so many first rows decide on separator, width and names
csv.field_size_limit(2**31 - 1)  # a line without the right separator is one cell


@dataclass
class Cells:
    """What was understood of a file; its reader fills it in."""

    #: its index has names of the rows, if they are known, and the name of their column
    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    beside: Sequence[str] = ()  #: columns about the rows, which are no features
    decimal: str = "."
    is_turned: bool = False  #: whether samples stood in columns, or the format says what they are
    facts: dict[str, str] = field(default_factory=lambda: {
        "a row is": "a line of the file, taken for a sample"})
    notes: list[str] = field(default_factory=list)


def read(file: Path, sheet: str | None) -> Cells:
    """Read a file; raises InputError, or what a reader raises for a damaged file.

    *sheet* is that of a workbook, or the layer of an .h5ad file.
    """
    cells, kind = Cells(), Path(f"{file}".removesuffix(".gz")).suffix.casefold()
    if kind not in KINDS:
        raise InputError(f"save it as {', '.join(KINDS[:-1])} or {KINDS[-1]}; datasets.load reads "
                         "the book's data sets and images")
    if sheet and kind not in (".xlsx", ".h5ad"):
        raise InputError("sheet is for .xlsx and .h5ad files; leave it out")
    _check_content(file, kind)
    if kind == ".xlsx":
        _workbook(file, sheet, cells)
    elif kind == ".parquet":
        frame = pd.read_parquet(file)
        cells.frame = frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()
    elif kind == ".npz":
        with np.load(file, allow_pickle=False) as arrays:
            _arrays(dict(arrays), cells)
    elif kind == ".mat":
        _arrays(loadmat(file), cells)
    elif kind == ".h5ad":
        _annotated(file, sheet, cells)
    else:
        text = _decoded(file, cells.notes)
        reader = _gct if text.startswith(("#1.2", "#1.3")) else (
            _series_matrix if "!series_matrix_table_begin" in text else _delimited)
        reader(text, cells)
    return cells


def _check_content(file: Path, kind: str) -> None:
    """Raise InputError for a file that by its first bytes is not what its name says."""
    with file.open("rb") as opened:
        head = opened.read(5)
    if head.startswith(_OLE):
        raise InputError("it is an .xls workbook, or one with a password; save it as .xlsx, "
                         "without a password")
    kinds = next((kinds for start, kinds in _HEADS.items() if head.startswith(start)), ())
    if kinds and kind not in kinds:
        raise InputError(f"its name ends in {kind}, but its first bytes are those of "
                         f"{' or '.join(kinds)} files; rename it")
    if not kinds and any(kind in others for others in _HEADS.values()) and kind != ".mat":
        raise InputError(f"its name ends in {kind}, but its first bytes are not those of such "
                         "files; if it is text, name it .csv")


def cleaned(frame: pd.DataFrame, missing: Collection[str]) -> pd.DataFrame:
    """Texts without spaces around them, and NaN for what is *missing*."""

    def clean(texts: pd.Series) -> pd.Series:
        texts = texts.map(lambda cell: cell.strip() if isinstance(cell, str) else cell)
        return texts.mask(texts.isin(missing))

    return _in_texts(frame, clean)


def as_numbers(frame: pd.DataFrame, decimal: str) -> pd.DataFrame:
    """The numbers, float64, True and False being 1 and 0; NaN where a cell has none."""

    def convert(texts: pd.Series) -> pd.Series:
        texts = texts.map(lambda cell: cell.replace(_MINUS, "-") if isinstance(cell, str) else cell)
        truth = texts.map({"True": 1, "False": 0, "TRUE": 1, "FALSE": 0, "true": 1, "false": 0})
        if decimal == ",":
            texts = texts.mask(texts.str.contains(".", regex=False, na=False))
            texts = texts.str.replace(",", ".")
        return pd.to_numeric(texts, errors="coerce").astype(float).fillna(truth)

    return _in_texts(frame, convert).astype(float)


def _in_texts(frame: pd.DataFrame, change: Callable[[pd.Series], pd.Series]) -> pd.DataFrame:
    """Change the columns that are not of numbers, as one: a table may have 20,000."""
    texts = frame.loc[:, [not pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]]
    for name, cell in zip(texts, texts.iloc[0] if len(texts) else (), strict=False):
        if isinstance(cell, list | dict | np.ndarray):
            raise InputError(f"a cell of the column {name!r} holds a {type(cell).__name__}, not "
                             "one value; make it columns of their own, or leave it out")
    changed = change(pd.Series(texts.to_numpy(object).ravel(), dtype=object)).to_numpy()
    changed = pd.DataFrame(changed.reshape(texts.shape), texts.index, texts.columns, dtype=object)
    return pd.concat([frame.drop(columns=texts.columns), changed], axis=1)[[*frame]]


def number(cell: str) -> bool:
    """Whether a cell is a number, with either decimal mark."""
    return bool(_NUMBER.fullmatch(cell))


#: Columns of a matrix of counts that are no samples, as featureCounts writes them.
_PLACE = re.compile(r"chr(om(osome)?)?|strand", re.IGNORECASE)
_ENDS = re.compile(f"{_PLACE.pattern}|start|end", re.IGNORECASE)
_LENGTH = re.compile(r"(gene[ _]?)?length", re.IGNORECASE)


def turn(cells: Cells, name: str | None) -> None:
    """Make columns rows; new names are in a column *name*, or in the first one of text.

    Other text columns, and columns such as a gene's length, describe the former rows and are left
    out with a note.
    """
    if cells.is_turned:
        raise InputError("its samples are rows already; leave out transpose")
    frame = cells.frame
    about = frame.columns[2 * as_numbers(frame, cells.decimal).count() < frame.count()]
    are_counted = all(map(str.isdecimal, map(str, frame.index)))        # also as pandas counts rows
    if are_counted and not name and not about.empty:
        name = about[0]
    if name and name != frame.index.name:
        frame = frame.set_index(name)
    has_places = any(map(_PLACE.fullmatch, frame))      # else start and end may be samples
    if left_out := [one for one in frame if one in about or _LENGTH.fullmatch(one) or (
            has_places and _ENDS.fullmatch(one))]:
        cells.notes.append(f"columns about the features were left out: {listed(left_out)}")
    is_count = [str(one).startswith("__") for one in frame.index]       # of HTSeq: __no_feature
    if any(is_count):
        cells.notes.append(f"rows of reads without a feature were left out: "
                           f"{listed(frame.index[is_count])}")
        frame = frame.loc[[not one for one in is_count]]
    names = identifiers(frame) or [f"row {i + 1}" for i in frame.index]
    cells.frame, cells.is_turned = frame.drop(columns=left_out).set_axis(names).T, True
    cells.facts["a row is"] = f"a column of the file, by {option('transpose', True)}"


def identifiers(frame: pd.DataFrame) -> tuple[str, ...] | None:
    """The names of the rows, if there are any; InputError if one is missing or comes twice."""
    if isinstance(frame.index, pd.RangeIndex):
        return None
    if (wrong := frame.index.isna() | frame.index.duplicated()).any():
        row = int(wrong.argmax())
        raise InputError(f"row {row + 1:,}: identifier missing or repeated, {frame.index[row]}")
    return tuple(map(str, frame.index))


# ------------------------------------------------------------------------------------- text files


def _decoded(file: Path, notes: list[str]) -> str:
    data = file.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))      # by Excel
    with suppress(UnicodeDecodeError):
        return data.decode("utf-16" if is_utf16 else "utf-8-sig")
    notes.append(f"{file.name} is not UTF-8 and was read as Windows-1252")
    return data.decode("cp1252")


def _delimited(text: str, cells: Cells) -> None:
    lines = [*io.StringIO(text, newline=None)]
    plain = [line for line in lines if line.strip() and not _REMARK.match(line)][:_DECIDING]
    separator = max(_SEPARATORS, key=lambda one: _width(_cut(plain, one))[0])
    if told := re.fullmatch(r'"?sep=(.)"?\s*', "".join(lines[:1])):
        separator, lines[0] = told[1], "#sep="
    cells.facts["separator"] = _SEPARATORS.get(separator, separator)
    rows = _cut(lines, separator)
    if rows and rows[-1] and rows[-1][-1].endswith("\n"):
        raise InputError(f"a quotation mark is not closed, before {rows[-1][-1][:40]!r}")
    _tabular(rows, separator, cells)


def _cut(lines: Sequence[str], separator: str) -> list[list[str]]:
    if separator == " ":
        lines = [line.strip() for line in lines]
    return [*csv.reader(lines, delimiter=separator, skipinitialspace=True)]


def _width(rows: Sequence[Sequence[str]]) -> tuple[int, int]:
    """How many rows have equally many cells, at least two, and how many cells."""
    widths = Counter(map(len, rows))
    return max(((rows, width) for width, rows in widths.items() if width > 1), default=(0, 1))


def _has_number(row: Sequence[str]) -> bool:
    return any(map(number, row))


def _tabular(rows: Sequence[Sequence[str]], separator: str, cells: Cells) -> int:
    """Read the table in rows of text; returns where it begins."""
    plain = [row for row in rows if any(row) and not _REMARK.match(row[0])]
    width = _width(plain[:_DECIDING])[1]

    def is_inside(row: Sequence[str], following: Sequence[str]) -> bool:
        """Also if it begins with a mark, as "#SampleID,a,b" above numbers."""
        return any(row) and (not _REMARK.match(row[0])
                             or len(row) == width and _has_number(following))

    following = [*rows[1:], ["0"]]
    table = [i for i, row in enumerate(rows) if is_inside(row, following[i])]
    table = table[_top([rows[i] for i in table[:_DECIDING]], width):]
    others = {i for i, row in enumerate(rows) if any(row)}.difference(table)
    if others:
        cells.notes.append(f"lines that are no part of the table were skipped: {len(others):,}, "
                           f"such as {separator.join(rows[min(others)]).strip()[:60]!r}")
    if table:
        _named([rows[i] for i in table], separator, cells)
    return [*table, 0][0]


def _top(rows: Sequence[Sequence[str]], width: int) -> int:
    """Which of the first rows begins the table; a title or remarks are less filled."""
    filled = [sum(map(bool, row)) for row in rows]
    full = filled.index(width) if width in filled else 0
    if [*map(_has_number, rows[full:full + 2])] == [False, True] and rows[0][0]:
        return full
    return next((i for i, n in enumerate(filled) if 2 * n >= width), 0)


def _are_cells(names: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether a first row is a sample: numbers, and texts that occur again below, as classes."""
    texts = [j for j, name in enumerate(names) if not number(name)]
    return 0 < 2 * len(texts) <= len(names) and all(
        any(row[j:j + 1] == [names[j]] for row in body) for j in texts)


def _named(rows: Sequence[Sequence[str]], separator: str, cells: Cells) -> None:
    """Read a table that has names in its first row, or there its first sample."""
    names, *body = rows
    body = [row if any(row[len(names):]) else row[:len(names)] for row in body]
    all_numbers = all(map(number, names))
    if all_numbers and not _are_names(names, body[:_DECIDING]) or _are_cells(names, body):
        names, body = [f"column {i + 1}" for i in range(len(names))], [names, *body]
        cells.facts["names of columns"] = "none: the first row has numbers and is a sample"
    elif all_numbers and names[0] != "0":
        cells.notes.append(f"the first row, {listed(names)}, was read as names of the columns")
    leads = [row[0] for row in body]
    are_named = not all(map(number, leads))
    if not names[0].strip() and all(map(str.isdecimal, leads)) and len({*leads}) == len(leads):
        are_named = True        # as pandas writes an index
    if names[0] and {*map(len, body)} == {len(names) + 1} and (     # as R writes names of rows
            separator != "," or are_named or leads == [f"{i + 1}" for i in range(len(leads))]
            or any("." in cell for row in body for cell in row)):
        names, are_named = ["", *names], True
    for i, row in enumerate(body):
        if len(row) > len(names):
            raise InputError(f"row {i + 1:,} has {len(row)} values, expected {len(names)} as in "
                             "the header; where commas are decimal marks, separate with semicolons")
        row += [""] * (len(names) - len(row))
    grid = np.array(body, dtype=object).reshape(len(body), len(names))
    found = map(_DECIMAL.fullmatch, grid.ravel() if separator != "," else ())
    marks = Counter(one[1] for one in found if one)
    if marks[","] and marks[","] >= marks["."]:
        cells.decimal = ","
        cells.notes.append("numbers were read with decimal commas: 1,5 is one and a half")
    cells.facts["decimal mark"] = "comma" if cells.decimal == "," else "point"
    unnamed = {i: f"Unnamed: {i}" for i, name in enumerate(names) if not name.strip()}
    names = [unnamed.get(i, name) for i, name in enumerate(names)]
    frame = pd.DataFrame(grid, columns=names, dtype=object)     # one block is fast
    if body and (empty := [name for i, name in unnamed.items() if not any(grid[:, i])]):
        cells.notes.append(f"empty columns without a name were dropped: {len(empty)}")
        frame = frame.drop(columns=empty)
    cells.frame = frame.set_index(unnamed[0]) if are_named and 0 in unnamed else frame


def _are_names(row: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether a first row of numbers has names.

    They count, rise evenly or like years, or are whole or in order alone, that is, most rows below
    are not: a few may be so by chance.
    """
    numbers, *others = [np.array([cell.replace(",", ".") for cell in cells if number(cell)], float)
                        for cells in (row, *below)]
    if list(numbers) == list(range(len(numbers))):
        return True
    if len(others) < 2 or len(set(numbers)) < len(numbers) or (numbers < 0).any():
        return False

    def alone(holds: Callable[[np.ndarray], bool]) -> bool:
        told = [one for one in others if len(one) >= min(2, len(numbers))]  # missing cells say none
        return holds(numbers) and sum(map(holds, told)) < len(told) / 2

    steps = np.diff(numbers)
    in_order = (steps > 0).all() and (
        len(steps) == 1 and numbers[0] == 1 or len(steps) > 1 and len(set(steps)) == 1
        or 1800 <= numbers[0] < numbers[-1] <= 2100
        or len(steps) > 3 and alone(lambda one: bool((np.diff(one) > 0).all())))
    return bool(in_order or alone(lambda one: not (one % 1).any()))


# ---------------------------------------------------------- workbooks, arrays, files of biology


def _workbook(file: Path, sheet: str | None, cells: Cells) -> None:
    """The named sheet, or the first with numbers in two rows."""
    sheets = pd.read_excel(file, sheet_name=None, header=None, dtype=str, na_filter=False,
                           engine="openpyxl")
    sheets = {name: one.fillna("") for name, one in sheets.items()}     # errors, such as #N/A
    rows = {name: one.loc[:, (one != "").any()].to_numpy().tolist() for name, one in sheets.items()}
    chosen = sheet or next((name for name in rows if sum(map(_has_number, rows[name])) > 1),
                           next(iter(rows)))
    one_of("sheet", chosen, rows)
    line = _tabular(rows[chosen], "\t", cells) + 1
    cells.facts["sheet"] = f"{chosen!r} from row {line}, of {listed(rows)}"
    if len(rows) > 1 and not sheet:
        cells.notes.append(f"the sheet {chosen!r} was read, from row {line}; {listed(rows)} are "
                           f"there, and {option('sheet', 'NAME')} chooses")


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
    beside = pd.DataFrame(about, range(table.shape[1])).set_axis(table.columns)
    _put_beside(table.T, beside, cells)
    cells.facts["a row is"] = "a sample: a GEO series matrix has samples in columns"


def _gct(text: str, cells: Cells) -> None:
    """GenePattern's .gct, version 1.2 or 1.3; metadata of samples may be labels."""
    counts = map(int, text.splitlines()[1].split())
    rows, _, more, about = [*counts, 1, 0][:4]
    table = pd.read_csv(io.StringIO(text), sep="\t", skiprows=2, index_col=0, low_memory=False)
    if len(table) != about + rows:
        raise InputError(f"the file announces {rows:,} rows and has {len(table) - about:,}; it was "
                         "cut short")
    table = table.iloc[:, more:]
    _put_beside(table[about:].T, table[:about].T, cells)
    cells.facts["a row is"] = "a sample: a .gct file has samples in columns"


def _annotated(file: Path, sheet: str | None, cells: Cells) -> None:
    """AnnData's .h5ad: X, raw or a layer; the columns of obs may be labels."""
    try:
        import anndata
    except ImportError as error:
        raise InputError("an .h5ad file needs the package anndata: pip install anndata") from error
    with warnings.catch_warnings(action="ignore"):
        found = anndata.read_h5ad(file)
    layers = [name for name in found.layers if name]        # anndata 0.13 lists X among them
    known, chosen = ["X", *["raw"] * (found.raw is not None), *layers], sheet or "X"
    one_of("layer of the file", chosen, known)
    table = found.raw.to_adata() if chosen == "raw" else found
    _put_beside(table.to_df(chosen if chosen in layers else None), found.obs, cells)
    cells.facts |= {"a row is": "an observation (obs) of the .h5ad file",
                    "layer": f"{chosen!r}, of {listed(known)}"}


def _put_beside(table: pd.DataFrame, beside: pd.DataFrame, cells: Cells) -> None:
    """The samples of a format that knows what its rows are, and what differs between them."""
    beside = beside.loc[:, beside.nunique() > 1].rename(columns=str)
    cells.beside, cells.is_turned = tuple(beside), True
    cells.frame = pd.concat([table, beside], axis=1)


def _arrays(arrays: Mapping[str, np.ndarray], cells: Cells) -> None:
    """The samples, and beside them the arrays with one value for each; labels may be among them."""
    if "X" not in arrays:
        raise InputError(f"call the samples X, shape (rows, features), among {listed(arrays)}")
    X = arrays["X"]
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if X.ndim != 2 or np.iscomplexobj(X):
        raise InputError("X must have real numbers, shape (rows, features), not "
                         f"{X.dtype} of shape {X.shape}")
    frame = pd.DataFrame(X)
    names = np.ravel(arrays.get("feature_names", [f"column {i + 1}" for i in frame]))
    if len(names) != X.shape[1]:
        raise InputError(f"feature_names has {len(names)} names for {X.shape[1]} columns of X")
    frame.columns = [one.decode() if isinstance(one, bytes) else str(one) for one in (
        np.squeeze(np.asarray(name)).tolist() for name in names)]
    others = [name for name in arrays if name not in ("X", "feature_names")
              and not name.startswith("__")]                # MATLAB's header
    for name in others:
        if np.size(arrays[name]) != len(frame) and name.casefold() in LABELS:
            raise InputError(f"{name} has {np.size(arrays[name]):,} values for {len(frame):,} rows "
                             "of X; give one for each")
        if np.size(arrays[name]) == len(frame):
            # A text in a cell of MATLAB is an array.
            frame[name] = [np.squeeze(cell).item() for cell in arrays[name].ravel()]
            cells.beside = [*cells.beside, name]
    cells.frame = frame
