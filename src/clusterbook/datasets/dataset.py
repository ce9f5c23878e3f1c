"""What a data set is: samples and labels, where they are from, and how to know them again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError


@dataclass(frozen=True)
class Source:
    """Where a data set is from, and how to know that it is the right one."""

    #: What to ask for.
    name: str
    title: str
    n_samples: int
    n_features: int
    #: Classes in ``y``, 0 without labels.
    n_classes: int
    #: The terms, as far as the source states them.
    license: str
    #: What to cite.
    citation: str
    #: The page that it is from.
    address: str
    #: ``loader(source, home)`` reads the verified files under ``home`` into a `Dataset`.
    loader: Callable[[Source, Path], Dataset] = field(repr=False)
    #: The short name, for tables and figures.
    label: str = ""
    #: The package that contains or generates it; None if it is read from files.
    embedded_in: str | None = None
    #: SHA-256 by path, relative to the data folder.
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: Bytes of these files on disk.
    size: int = 0
    #: Mirrors, ``{}`` for a file's name; from ``{}.gz`` it is unpacked. Empty without a download.
    urls: Sequence[str] = field(default=(), repr=False)
    #: What to put where in the data folder, if it is neither embedded nor downloaded.
    by_hand: str = ""
    #: Folders that may stand in the place of the files; their loader verifies them by `content`.
    folders: Sequence[str] = ()
    #: What `content` gives for the loaded data; None where nobody has loaded them yet.
    content: str | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples and their labels, with what is known about them."""

    #: float32, shape (n_samples, n_features), C-contiguous. Images are flattened and lie in [0, 1];
    #: tables are in their own units.
    X: np.ndarray = field(repr=False)
    #: int64, shape (n_samples,), indices into ``classes``; None for one's own data without labels.
    y: np.ndarray | None = field(repr=False)
    #: The name of each class; empty without labels.
    classes: tuple[str, ...]
    source: Source
    #: (channels, height, width) of a row of ``X``; None for a table.
    image_shape: tuple[int, int, int] | None = None
    #: One name per column of a table; None for images.
    feature_names: tuple[str, ...] | None = None
    #: The first so many rows are the source's own training part; None if it has no split.
    train_size: int | None = None
    #: Of a sample of a folder, the place of each image among all of the folder; else None.
    rows: np.ndarray | None = field(default=None, repr=False)
    #: The identifier of each row of one's own table, if a column was named for them.
    ids: tuple[str, ...] | None = field(default=None, repr=False)
    #: What was done to one's own table when it was read, one sentence each.
    notes: tuple[str, ...] = ()

    def split(
        self, random_state: int = 0, test_share: float = 0.2
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
        """X_train, X_test, y_train, y_test; the last two are None without labels.

        The source's own split if it has one, whatever the arguments; else a random one with
        *test_share* (between 0 and 1) of the samples in the test part, which keeps the proportions
        of the classes. Raises InputError if the share leaves no room for a sample of each class.

        Examples
        --------
        >>> from clusterbook import datasets
        >>> X_train, X_test, y_train, y_test = datasets.load("wine").split(random_state=0)
        >>> X_train.shape, X_test.shape
        ((142, 13), (36, 13))
        """
        if (n := self.train_size) is not None:
            return self.X[:n], self.X[n:], self.y[:n], self.y[n:]
        from sklearn.model_selection import train_test_split

        try:
            # float: scikit-learn would read an integer as a number of samples
            train, test = train_test_split(
                np.arange(len(self.X)),
                test_size=float(test_share),
                random_state=random_state,
                stratify=self.y,
            )
        except ValueError as error:
            raise InputError(
                f"data set {self.source.name!r} ({len(self.X)} samples, {len(self.classes)} "
                f"classes) can't be split with test_share={test_share} ({error}): expected a share "
                "between 0 and 1 that puts a sample of each class into both parts, such as 0.2"
            ) from error
        if self.y is None:
            return self.X[train], self.X[test], None, None
        return self.X[train], self.X[test], self.y[train], self.y[test]


@dataclass(frozen=True)
class Status:
    """Whether a data set can be used right now."""

    #: Part of a package; on disk and verified (folders only when loaded); not (all) on disk; on
    #: disk with other content.
    state: Literal["embedded", "here", "missing", "damaged"]
    #: The data folder that was looked into; None for an embedded data set.
    folder: Path | None = None
    #: The missing or damaged files, relative to that folder.
    files: tuple[str, ...] = ()


def own_source(
    what: str, name: str, address: str, X: np.ndarray, classes: Sequence[str],
    read: Callable[[], Dataset],
) -> Source:  # fmt: skip
    """The source of a person's own data, which *read* reads again."""
    return Source(name, f"{what} of one's own, {name.removeprefix('folder:')}", *X.shape,
                  len(classes), "your own", "your own", address, partial(_again, read=read))


def _again(source: Source, home: Path, *, read: Callable[[], Dataset]) -> Dataset:
    return read()


def content(dataset: Dataset) -> str:
    """The SHA-256 (hexadecimal) of ``X`` and ``y``: of types, shapes and every value.

    Without labels, of ``X`` alone. A record keeps it, and the catalog what each data set must have.

    Examples
    --------
    >>> from clusterbook import datasets
    >>> wine = datasets.load("wine")
    >>> content(wine) == wine.source.content
    True
    """
    digest = hashlib.sha256()
    for array in (dataset.X, dataset.y):
        if array is None:
            continue
        array = np.asarray(array)
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        # Seen as bytes where it lies: `tobytes` would copy what may be most of the memory.
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return digest.hexdigest()


def as_classes(labels: ArrayLike) -> tuple[np.ndarray, tuple[str, ...]]:
    """The class of each row, int64, and the classes' names, in sorted order.

    *labels* are all numbers or all text; whole floats are named as integers.

    Examples
    --------
    >>> as_classes([10.0, 9.0, 9.0])
    (array([1, 0, 0]), ('9', '10'))
    """
    distinct, y = np.unique(np.asarray(labels).ravel(), return_inverse=True)
    return y.astype(np.int64), tuple(_class_name(value) for value in distinct.tolist())


def _class_name(value: object) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)
