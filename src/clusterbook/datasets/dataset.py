"""What a data set is: samples and labels, where they are from, and how to know them again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError


@dataclass(frozen=True)
class Source:
    """Where a data set is from, and how to know that it is the right one.

    Attributes
    ----------
    name, title, label : str
        The name to ask for, what it is, and what tables and figures call it (the name if empty).
    n_samples, n_features, n_classes : int
        The shape of ``X`` and the number of classes in ``y`` (0 if there are no labels).
    license, citation, address : str
        The terms as far as the source states them, what to cite, and the page that it is from.
    loader : callable
        ``loader(source, home)`` reads the verified files under ``home`` into a `Dataset`.
    embedded_in : str or None
        The installed package that contains or generates it; None if it is read from files.
    files : mapping of str to str
        SHA-256 by path, relative to the data folder; empty for an embedded data set.
    size : int
        Bytes of these files on disk.
    urls : sequence of str
        Where each file is, ``{}`` for its name, in the order to try; ``{}.gz`` is unpacked. Empty
        if embedded, or if the files can't be downloaded in this form.
    by_hand : str
        What to put where, relative to the data folder, if there is no download.
    folders : sequence of str
        Folders that may stand in the place of the files; their loader verifies them by `content`.
    content : str or None
        What `content` gives for the loaded data; None where nobody has loaded them yet.
    """

    name: str
    title: str
    n_samples: int
    n_features: int
    n_classes: int
    license: str
    citation: str
    address: str
    loader: Callable[[Source, Path], Dataset] = field(repr=False)
    label: str = ""
    embedded_in: str | None = None
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    size: int = 0
    urls: Sequence[str] = field(default=(), repr=False)
    by_hand: str = ""
    folders: Sequence[str] = ()
    content: str | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples and their labels, with what is known about them.

    Attributes
    ----------
    X : ndarray of float32, shape (n_samples, n_features)
        C-contiguous. Images are flattened and lie in [0, 1]; tables are in their own units.
    y : ndarray of int64, shape (n_samples,), or None
        Class of each sample, an index into ``classes``; None for a person's own table without
        labels (`clusterbook.datasets.read`), never for a data set of the table.
    classes : tuple of str
        The name of each class; empty without labels.
    source : Source
        Where the data are from.
    image_shape : tuple of int or None
        (channels, height, width) of a row of ``X``; None for a table.
    feature_names : tuple of str or None
        One name per column of a table; None for images.
    train_size : int or None
        The first ``train_size`` rows are the source's own training part; None if it has no split.
    rows : ndarray of int64 or None
        Of a sample of a folder, the place of each image among all of the folder; else None.
    ids : tuple of str or None
        The identifier of each row of a person's own table, if a column was named for them.
    notes : tuple of str
        What was done to a person's own table when it was read, one sentence each.
    """

    X: np.ndarray = field(repr=False)
    y: np.ndarray | None = field(repr=False)
    classes: tuple[str, ...]
    source: Source
    image_shape: tuple[int, int, int] | None = None
    feature_names: tuple[str, ...] | None = None
    train_size: int | None = None
    rows: np.ndarray | None = field(default=None, repr=False)
    ids: tuple[str, ...] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    def split(
        self, random_state: int = 0, test_share: float = 0.2
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
        """A training and a test part, in scikit-learn's order.

        The source's own split if it has one, whatever the arguments; else a random one that keeps
        the proportions of the classes, if there are labels.

        Parameters
        ----------
        random_state : int
            Seed of the random split.
        test_share : float
            Share of the samples in the test part of a random split, between 0 and 1.

        Returns
        -------
        X_train, X_test, y_train, y_test : ndarray
            The last two are None without labels.

        Raises
        ------
        InputError
            The share is not between 0 and 1, or leaves no room for a sample of each class.

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
    """Whether a data set can be used right now.

    Attributes
    ----------
    state : {"embedded", "here", "missing", "damaged"}
        Part of a package; on disk and verified (folders only when loaded); not (all) on disk; on
        disk with other content.
    folder : Path or None
        The data folder that was looked into; None for an embedded data set.
    files : tuple of str
        The missing or damaged files, relative to that folder.
    """

    state: Literal["embedded", "here", "missing", "damaged"]
    folder: Path | None = None
    files: tuple[str, ...] = ()


def content(dataset: Dataset) -> str:
    """The SHA-256 (hexadecimal) of ``X`` and ``y``: of types, shapes and every value.

    Without labels, of ``X`` alone. A record keeps it, and the table holds what each data set must
    have.

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
    """Labels as they come, to the class of each row and the classes' names, in sorted order.

    Parameters
    ----------
    labels : array-like with n_samples values
        All numbers or all text; whole floats are named as integers.

    Returns
    -------
    y : ndarray of int64, shape (n_samples,)
    classes : tuple of str

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
