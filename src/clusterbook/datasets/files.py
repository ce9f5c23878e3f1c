"""A person's own table, in the form that every data set has.

A file is read as it is, or refused with everything that its owner needs to put it right: nothing
is guessed, filled in or left out in silence.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import paths
from ..errors import InputError, unknown
from .columns import SHOWN, as_classes, is_missing, label_values, listed, similar
from .dataset import Dataset, Source
from .formats import READERS, Table


def read(
    path: str | os.PathLike[str],
    *,
    labels: str | None = None,
    features: Sequence[str] | None = None,
    constant: str = "drop",
) -> Dataset:
    """A table of one's own, from a .csv, .npz or .mat file.

    A CSV file (UTF-8; separated by commas, semicolons or tabs) has a row of names above its
    numbers. Without it, if all that the first row holds are numbers, the columns are called
    ``column 1`` and so on; only a first row of 0, 1, 2 … is taken for names, as pandas writes
    them. An .npz file has the samples as ``X`` or as its only two-dimensional array, and may have
    ``feature_names``; a MATLAB file has the same (or names such as ``Y`` for the labels).

    Parameters
    ----------
    path : str or path
        The file. A relative path begins where the person stands who typed ``clusterbook run``,
        otherwise in the current folder.
    labels : str, optional
        The column of a CSV file, or the array of another file, with the class of each row: text
        or numbers. By default the one that is called ``label``, ``class``, ``target`` or ``y``,
        in capitals or not; if there is none, the data set has no labels.
    features : sequence of str, optional
        The columns to use, in this order; by default all but the labels. A column that is named
        here is not taken for the labels by its name.
    constant : {"drop", "keep"}
        What to do with columns that hold one value only: leave them out, with a warning that
        names them, or keep them.

    Returns
    -------
    Dataset
        Its ``y`` is None, and its ``classes`` are empty, if there are no labels. Its source's
        name is the file's name, and its content is not known beforehand.

    Raises
    ------
    InputError
        The file is missing, of another kind or unreadable; it is empty, ragged, or has fewer than
        two rows; names of columns are missing, equal or unknown; a column holds text, missing or
        infinite values; or no column is left.

    Warns
    -----
    UserWarning
        Constant columns were left out.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "flowers.csv"
    ...     _ = file.write_text("length,width,kind\\n1.5,2,rose\\n2.5,3,lily\\n")
    ...     flowers = read(file, labels="kind")
    >>> flowers.X.tolist(), flowers.feature_names
    ([[1.5, 2.0], [2.5, 3.0]], ('length', 'width'))
    >>> flowers.y.tolist(), flowers.classes
    ([1, 0], ('lily', 'rose'))
    """
    if constant not in ("drop", "keep"):
        raise unknown("setting of constant", constant, ("drop", "keep"))
    if isinstance(features, str):
        raise InputError(f"features must be a list of names, as in features=[{features!r}]")
    file = _located(path)
    table = READERS[file.suffix.lower()](file, labels, features)
    _check(file, table)
    _check_labels(file, table, guessed=labels is None)
    if constant == "drop" and (dropped := _drop_constant(file, table)):
        warnings.warn(
            f"columns that hold one value only were left out: {listed(dropped)} of {file.name}; "
            "constant='keep' keeps them",
            stacklevel=2,
        )
    y, classes = (None, ()) if table.labels is None else as_classes(table.labels)
    source = Source(
        name=file.name,
        title=f"a table of one's own, {file.name}",
        n_samples=len(table.X),
        n_features=len(table.names),
        n_classes=len(classes),
        license="your own",
        citation="your own",
        address=str(file),
        loader=partial(_read_again, labels=labels, features=features, constant=constant),
    )
    X = np.ascontiguousarray(table.X)
    return Dataset(X, y, classes, source, feature_names=tuple(table.names))


def _read_again(source: Source, home: Path, **settings: Any) -> Dataset:
    """The loader of a person's table, in the form of the loaders of the book's data sets."""
    return read(source.address, **settings)


# --- which file --------------------------------------------------------------------------------


def absolute(path: str | os.PathLike[str]) -> Path:
    """The path that a person means, who may stand elsewhere than the process."""
    # A notebook runs in a folder of its own; a relative path means the person's.
    here = Path(paths.run_context().get("folder", "."))
    return Path(os.path.abspath(here / Path(path).expanduser()))


def _located(path: str | os.PathLike[str]) -> Path:
    """The file that was meant: it is there, and of a kind that can be read."""
    file = absolute(path)
    if os.path.isdir(file):
        raise InputError(
            f"{file} is a folder; a .csv, .npz or .mat file was expected (load('folder:PATH') "
            "loads a folder of images)"
        )
    if not os.path.exists(file):  # unlike Path's, no error for a name that can't be
        raise InputError(f"there is no file {file}{_neighbors(file)}")
    if file.suffix.lower() not in READERS:
        raise InputError(
            f"{file} ends in {file.suffix or 'nothing'!r}; a .csv, .npz or .mat file was expected: "
            "save the table as CSV, which every spreadsheet and statistics program can"
        )
    return file


def _neighbors(file: Path) -> str:
    """What to look at when a file is missing: files of its folder with a similar name."""
    try:
        tables = [one.name for one in file.parent.iterdir() if one.suffix.lower() in READERS]
    except OSError as error:
        return f", and its folder can't be listed ({error.strerror}); check the path"
    if near := similar(file.name, tables):
        return f"; did you mean {near}?"
    others = f" (tables there: {listed(sorted(tables))})" if tables else ""
    return f"; check the path and its ending{others}"


# --- what can't be clustered -------------------------------------------------------------------


def _check(file: Path, table: Table) -> None:
    """Refuse what no method can train on."""
    rows, columns = table.X.shape
    if rows < 2 or columns < 1:
        raise InputError(
            f"{file} is too small to cluster (rows: {rows:,}, features: {columns:,}); expected two "
            "rows or more below the names, and a feature or more beside the labels"
        )
    if table.text:
        held = [f"{name!r} (such as {cell!r})" for name, cell in table.text.items()]
        more = f" and {len(held) - SHOWN:,} more" if len(held) > SHOWN else ""
        raise InputError(
            f"{file} has text in {len(held):,} of {columns:,} columns: "
            f"{', '.join(held[:SHOWN])}{more}; expected numbers, with a decimal point and no "
            "units: name the labels' column as labels, or the columns to use as features, or "
            "turn the text into numbers"
        )
    missing = _count(table.names, np.isnan(table.X))
    if table.labels is not None:
        missing += _count([table.label_name], is_missing(table.labels)[:, np.newaxis])
    _refuse(file, "missing values", missing)
    _refuse(file, "infinite values (or beyond 3.4e38)", _count(table.names, np.isinf(table.X)))


def _count(names: Sequence[str], wrong: np.ndarray) -> list[tuple[str, int]]:
    """In how many rows each column is wrong, without the columns that are right."""
    counts = wrong.sum(axis=0).tolist()
    return [(name, n) for name, n in zip(names, counts, strict=True) if n]


def _refuse(file: Path, what: str, counts: Sequence[tuple[str, int]]) -> None:
    if counts:
        shown = ", ".join(f"{name!r} ({n:,})" for name, n in counts[:SHOWN])
        more = f" and {len(counts) - SHOWN:,} more columns" if len(counts) > SHOWN else ""
        raise InputError(
            f"{file} has {what}, counted by column: {shown}{more}; expected finite numbers and a "
            "label in each row: fill them in, remove these rows, or leave these columns out by "
            "naming the others as features"
        )


def _check_labels(file: Path, table: Table, *, guessed: bool) -> None:
    """Refuse measurements that have no more than the name of labels."""
    if guessed and table.labels is not None:
        values = label_values(table.labels)
        if values.dtype.kind == "f" and (broken := values[values % 1 != 0]).size:
            raise InputError(
                f"{file} has measurements in {table.label_name!r} (such as {broken[0]:g}), which "
                "its name says to be the labels; expected text or whole numbers: name it in "
                "features if it is one, or in labels if it holds the labels all the same"
            )


def _drop_constant(file: Path, table: Table) -> list[str]:
    """Leave out the columns that hold one value only; their names."""
    varies = table.X.max(axis=0) != table.X.min(axis=0)
    dropped = [name for name, one in zip(table.names, varies, strict=True) if not one]
    if not varies.any():
        raise InputError(
            f"no feature of {file} is left, because each holds one value only "
            f"({listed(dropped)}); expected rows that differ, or constant='keep'"
        )
    if dropped:
        table.X = table.X[:, varies]
        table.names = [name for name, one in zip(table.names, varies, strict=True) if one]
    return dropped
