"""A person's own table, read with pandas into the form that every data set has.

`read` finds the file, the reader of its kind makes a data frame of it, and `_features` turns that
into numbers. Nothing is assumed or filled in without a note.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import paths
from ..errors import InputError, unknown
from .dataset import Dataset, as_classes, own_source
from .loaders import SOURCES
from .readers import MISSING, SHOWN, is_text, listed, printable, reader_of

if TYPE_CHECKING:
    import pandas as pd

_LABELS = ("label", "class", "target", "y")  # names that are taken for the labels' by themselves
_IDENTIFIER = re.compile(r"(.*[\W_])?(id|sample|patient|subject)([\W_]*id)?")
_MOST = 50  # values of a text column that become features
_SETTINGS = {
    "constant": ("drop", "keep"), "text": ("refuse", "one-hot"), "impute": (None, "median"),
}  # fmt: skip
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
    """A person's own table, from a .csv, .tsv, .xlsx, .parquet, .npz or .mat file.

    CSV files (.csv or .tsv, also .gz) are separated by commas, semicolons or tabs, with decimal
    points or commas. The first row holds the names; if it holds numbers alone, other than
    0, 1, 2 …, it is a sample, and the columns are called ``column 1`` and so on. Of an Excel file
    the first sheet is read. An .npz or MATLAB file has the samples as ``X`` or as its only
    two-dimensional array, may have ``feature_names``, and has labels in an array of their own.

    A relative *path* begins where ``clusterbook run`` was typed, otherwise in the current folder.
    *labels* is the column with the class of each row, text or numbers; by default the one called
    ``label``, ``class``, ``target`` or ``y``, in capitals or not, if there is one. *features* are
    the columns to use, in this order, whatever their names suggest; by default all others.
    *id_column* names the rows; it is kept as ``ids`` and is never a feature.

    *constant* says whether to "drop" or "keep" columns that hold one value only; *text*, whether to
    "refuse" columns of text or to replace each by 0/1 features ``column=value`` (at most 50), after
    the other features ("one-hot"); *impute*, whether to refuse missing values (None) or to fill
    them with the column's "median", in a column of text with the value ``missing``.

    X has shape (n_samples, n_features), y is None without labels, and ``notes`` say what was
    assumed or changed; each is also a UserWarning. Raises InputError if the file can't be read, or
    holds what can't be clustered.

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
    for setting, value in asked.items():
        if value not in _SETTINGS[setting]:
            raise unknown(f"setting of {setting}", value, map(str, _SETTINGS[setting]))
    if isinstance(features, str):
        raise InputError(f"features must be a list of names, as in features=[{features!r}]")
    file, reader = _located(path)
    shown, notes = printable(file), []
    frame, columns = reader(file, id_column, notes)
    _check_names(shown, frame.columns)
    ids = None if id_column is None else _ids(shown, columns, id_column, labels, features)
    label = _label_name(shown, [name for name in columns if name != id_column], labels, features)
    y, classes = None, ()
    if label is not None:
        values = _cleaned(columns[label])
        _check_labels(shown, label, values, guessed=labels is None)
        if values.dtype.kind == "f" and (values.abs() >= 2**53).any():
            values = columns[label].astype(str)  # floats would merge such labels
        y, classes = as_classes(values.to_numpy())
    # In a file of arrays, labels and identifiers are no columns of the samples.
    apart = (label, id_column) if columns is frame else ()
    chosen = [name for name in frame if name not in apart]
    if features is not None:
        _check_known(shown, "features", features, frame)
        chosen = list(dict.fromkeys(features))
    names, X = _features(shown, frame, chosen, notes, named=features is not None, **asked)
    again = partial(read, file, labels=labels, features=features, id_column=id_column, **asked)
    source = own_source("a table", printable(file.name), shown, X, classes, again)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return Dataset(X, y, classes, source, feature_names=names, ids=ids, notes=tuple(notes))


# --- which file --------------------------------------------------------------------------------


def absolute(path: str | os.PathLike[str]) -> Path:
    """The path that a person means, who may stand elsewhere than the process."""
    # A notebook runs in a folder of its own; a relative path means the person's.
    here = Path(paths.run_context().get("folder", "."))
    return Path(os.path.abspath(here / os.path.expanduser(path)))


def _located(path: str | os.PathLike[str]) -> tuple[Path, Any]:
    """The file that was meant, and the reader of its kind."""
    file = absolute(path)
    shown = printable(file)
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
    reader = reader_of(file)
    if reader is None:
        raise InputError(
            f"{shown} ends in {file.suffix or 'nothing'!r}; {_KINDS} was expected: save the table "
            "as CSV, which every spreadsheet and statistics program can"
        )
    return file, reader


def _neighbors(file: Path) -> str:
    """What to look at when a file is missing: files of its folder with a similar name."""
    try:
        tables = [printable(one.name) for one in file.parent.iterdir() if reader_of(one)]
    except OSError as error:
        return f", and its folder can't be listed ({error.strerror}); check the path"
    if near := similar(file.name, tables):
        return f"; did you mean {near}?"
    others = f" (tables there: {listed(sorted(tables))})" if tables else ""
    return f"; check the path and its ending{others}"


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


def _check_known(file: str, setting: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    if missing := [name for name in names if name not in set(known)]:
        near = similar(missing[0], known)
        hint = f"did you mean {near}?" if near else f"expected one of {listed(known) or 'none'}"
        raise InputError(f"{file} has no {missing[0]!r}, which {setting} names; {hint}")


def _label_name(
    file: str, known: Sequence[str], labels: str | None, features: Sequence[str] | None
) -> str | None:
    """The name that was asked for, or the one that says so itself."""
    if labels is not None:
        _check_known(file, "labels", [labels], known)
        if labels in (features or ()):
            raise _twice(file, labels, "the labels", "a feature")
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
    _check_known(file, "id_column", [name], columns)
    if name == labels or name in (features or ()):
        raise _twice(file, name, "id_column", "the labels" if name == labels else "a feature")
    cells = columns[name].astype(object)
    ids = cells.map(lambda cell: str(cell).strip())
    missing = cells.isna() | ids.str.casefold().isin(MISSING)
    for wrong, what in ((missing, "missing"), (ids.duplicated(), "repeated")):
        if wrong.any():
            at = int(np.argmax(wrong))
            first = f"row {at + 1:,}" + (f", {ids[at]!r}" if what == "repeated" else "")
            raise InputError(
                f"{file} has {what} identifiers in {name!r} ({int(wrong.sum()):,}, the first in "
                f"{first}); expected a different one in each row: correct them, or leave out "
                "id_column and this column"
            )
    return tuple(ids)


def _twice(file: str, name: str, one: str, other: str) -> InputError:
    return InputError(f"{name!r} of {file} can't be both {one} and {other}: remove it from one")


# --- features ----------------------------------------------------------------------------------


def _features(
    file: str, frame: pd.DataFrame, chosen: Sequence[str], notes: list[str], *,
    named: bool, constant: str, text: str, impute: str | None,
) -> tuple[tuple[str, ...], np.ndarray]:  # fmt: skip
    """The features' names and X, float32, shape (n_samples, n_features)."""
    rows = len(frame)
    if rows < 2 or not chosen:
        raise InputError(
            f"{file} is too small to cluster (rows: {rows:,}, features: {len(chosen):,}); expected "
            "two rows or more below the names, and a feature or more beside the labels"
        )
    numbers, texts = {}, {}
    for name, column in frame[chosen].items():
        column = _cleaned(column)
        if is_text(column):
            texts[name] = column
        else:
            numbers[name] = _float32(column)
            if not named and _IDENTIFIER.fullmatch(name.casefold()) and _is_counted(column):
                raise InputError(
                    f"{file} has a different whole number in each row of {name!r}, which looks "
                    f"like an identifier: name it as id_column={name!r}, or in features if it is "
                    "one"
                )
    if texts:
        _check_texts(file, texts, len(chosen), text, named)
    missing = {name: int(np.isnan(column).sum()) for name, column in numbers.items()}
    missing |= {name: int(column.isna().sum()) for name, column in texts.items()}
    if missing := {name: n for name, n in missing.items() if n}:
        if impute is None:
            raise _gaps(file, "missing values", missing, "fill them with impute='median', remove "
                        "these rows, or leave these columns out")  # fmt: skip
        if empty := [name for name, n in missing.items() if n == rows]:
            raise InputError(
                f"{file} has no value at all in {listed(empty)}; expected at least one to impute "
                "from: remove these columns, or leave them out by naming the others as features"
            )
        notes.append(
            f"missing values filled in: {sum(missing.values()):,}, by column {_counted(missing)}; "
            "numbers with the column's median, text with 'missing'"
        )
    for name, column in texts.items():
        column = column.fillna("missing")
        values = sorted(column.unique())
        notes.append(f"text in {name!r} became {len(values)} features of 0 and 1")
        added = {f"{name}={value}": _float32(column == value) for value in values}
        _check_names(file, [*numbers, *added])
        numbers |= added
    names, X = np.array(list(numbers), dtype=object), np.column_stack(list(numbers.values()))
    if infinite := {name: int(n) for name, n in zip(names, np.isinf(X).sum(0), strict=True) if n}:
        raise _gaps(file, "infinite values (or beyond 3.4e38)", infinite,
                    "correct them, remove these rows, or leave these columns out")  # fmt: skip
    if missing:
        X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    varies = X.max(axis=0) != X.min(axis=0)
    if constant == "drop" and not varies.all():
        if not varies.any():
            raise InputError(
                f"no feature of {file} is left, because each holds one value only "
                f"({listed(names)}); expected rows that differ, or constant='keep'"
            )
        notes.append(f"columns that hold one value only were left out: {listed(names[~varies])} "
                     f"of {Path(file).name}; constant='keep' keeps them")  # fmt: skip
        names, X = names[varies], X[:, varies]
    return tuple(names), np.ascontiguousarray(X)


def _cleaned(column: pd.Series) -> pd.Series:
    """Text without spaces around it, or as numbers where all of it is; None where it is missing."""
    import pandas as pd

    if not is_text(column):
        return column
    cells = [
        None if gone or str(cell).strip().casefold() in MISSING else cell
        for cell, gone in zip(column.tolist(), column.isna(), strict=True)
    ]
    try:
        with suppress(OverflowError):
            numbers = pd.to_numeric(pd.Series(cells, dtype=object))
            if numbers.dtype != object:
                return numbers
        # Integers too long for 64 bits.
        return pd.Series([np.nan if cell is None else float(str(cell)) for cell in cells])
    except (TypeError, ValueError):
        cells = [cell if cell is None else str(cell).strip() for cell in cells]
        return pd.Series(cells, dtype=object)


def _float32(column: pd.Series) -> np.ndarray:
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
        return column.to_numpy(dtype=np.float32, na_value=np.nan)


def _is_counted(column: pd.Series) -> bool:
    """Whether each row has another whole number."""
    return bool(column.is_unique and (column % 1 == 0).all())


def _check_texts(
    file: str, texts: Mapping[str, pd.Series], columns: int, text: str, named: bool
) -> None:
    """Refuse text, or text that can't be features of 0 and 1."""
    # Of thousands of text columns, as in a damaged table, only those that are named are counted.
    judged = islice(texts.items(), SHOWN if text == "refuse" else None)
    values = {name: column.nunique() for name, column in judged}
    unique = [name for name, n in values.items() if n == len(texts[name]) and not named]
    if text == "refuse":
        held = [f"{name!r} (such as {texts[name].dropna().iloc[0][:40]!r}, {n:,} distinct)"
                for name, n in values.items()]  # fmt: skip
        more = f" and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else ""
        hint = f" ({listed(unique)}: all values differ)" if unique else ""
        raise InputError(
            f"{file} has text in {len(texts):,} of {columns:,} columns: {', '.join(held)}{more}; "
            "expected numbers without units or thousands separators: name the labels' column as "
            f"labels, an identifier as id_column{hint}, or the columns to use as features, or "
            "turn text into features of 0 and 1 with text='one-hot'"
        )
    many = [name for name, n in values.items() if n > _MOST]
    if wrong := {name: values[name] for name in [*unique, *many]}:
        raise InputError(
            f"{file} has text with too many distinct values for text='one-hot', counted by column: "
            f"{_counted(wrong)}; expected at most {_MOST}, and fewer than rows: name an identifier "
            "as id_column, or leave these columns out by naming the others as features"
        )


def _gaps(file: str, what: str, counts: Mapping[str, int], todo: str) -> InputError:
    return InputError(f"{file} has {what}, counted by column: {_counted(counts)}; {todo}")


# --- in errors ---------------------------------------------------------------------------------


def similar(name: str, known: Iterable[str]) -> str:
    """The known names nearest to one, however they are capitalized, for an error; '' if none."""
    plain = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), plain, n=3, cutoff=0.6)
    return " or ".join(repr(plain[one]) for one in near)


def _counted(counts: Mapping[str, int]) -> str:
    """The columns with the highest counts, and how many more there are."""
    worst = sorted(counts, key=counts.__getitem__, reverse=True)
    more = f" and {len(worst) - SHOWN:,} more columns" if len(worst) > SHOWN else ""
    return ", ".join(f"{name!r} ({counts[name]:,})" for name in worst[:SHOWN]) + more
