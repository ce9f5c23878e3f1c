"""Samples with their labels and source, their checksum, and words that all readers share."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .. import paths

if TYPE_CHECKING:       # heavy, and for one's own table only
    import pandas as pd

#: How the name of a folder of images begins.
PREFIX = "folder:"

@dataclass(frozen=True)
class Source:
    """Where a data set comes from: an entry of ``catalog.yaml``, or one's own file or folder."""

    name: str
    title: str
    size: str = ""  #: samples × features, classes, and bytes of the files or package with the data
    license: str = "your own"  #: as far as the source states it
    label: str = ""  #: short name for tables and figures
    loader: str = ""  #: function of `loaders` that reads the verified files
    classes: Sequence[str] = ()  #: names of images' classes
    n_samples: int | None = None  #: how many of the files' samples are taken; None for all
    train_size: int | None = None  #: length of the source's training part, which comes first
    files: Mapping[str, str] = field(default_factory=dict, repr=False)  #: path to SHA-256
    url: str = ""  #: of the download, ``{}`` for a file's name; MNIST's are unpacked
    by_hand: str = ""  #: what to copy into the files' folder, if there is no download
    content: str | None = field(default=None, repr=False)  #: `content` of the loaded data, if known


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples, labels and their description."""

    #: float32, shape (n_samples, n_features), C-contiguous; images flattened, pixels in [0, 1]
    X: np.ndarray = field(repr=False)
    #: int64, shape (n_samples,), indices into ``classes``; None without labels
    y: np.ndarray | None = field(repr=False)
    classes: tuple[str, ...]
    source: Source
    image_shape: tuple[int, int, int] | None = None  #: (channels, height, width); None for a table
    feature_names: tuple[str, ...] | None = None  #: one for each column of a table
    #: indices of these images among all of the folder's
    rows: np.ndarray | None = field(default=None, repr=False)
    ids: tuple[str, ...] | None = field(default=None, repr=False)  #: names of a table's rows
    #: columns about the rows of one's own table that are not features, such as obs of .h5ad
    beside: pd.DataFrame | None = field(default=None, repr=False)
    texts: tuple[str, ...] = ()  #: columns of text that became features of 0 and 1
    notes: tuple[str, ...] = ()  #: assumptions and changes made in reading one's own table
    #: what was understood of one's own table, such as its separator and what a row is
    understood: Mapping[str, str] = field(default_factory=dict, repr=False)

    def summary(self) -> dict[str, str]:
        """What was loaded and how it was read, with notes that ask, for a person before a run."""
        rows, width = self.X.shape
        asked = {f"note {i + 1}": note for i, note in enumerate(self.notes)}
        return {"loaded": f"{rows:,} rows × {width:,} features",
                "labels": f"{len(self.classes):,} classes" if self.classes else "none",
                **self.understood, **asked}

    def split(self, random_state: int = 0
              ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
        """X_train, X_test, y_train, y_test; the last two are None without labels.

        The source's own split if it has one; otherwise a random one with 20% of the samples in
        the test part, stratified by class.
        """
        from sklearn.model_selection import train_test_split

        train, test = slice(self.source.train_size), slice(self.source.train_size, None)
        if self.source.train_size is None:
            train, test = train_test_split(np.arange(len(self.X)), test_size=0.2,
                                           random_state=random_state, stratify=self.y)
        labels = (None, None) if self.y is None else (self.y[train], self.y[test])
        return self.X[train], self.X[test], *labels


def of_images(source: Source, pixels: np.ndarray, y: ArrayLike | None, classes: Sequence[str],
              rows: np.ndarray | None = None) -> Dataset:
    """Images as bytes, shape (n_samples, channels, height, width), scaled to [0, 1]."""
    X = np.divide(pixels.reshape(len(pixels), -1), np.float32(255), dtype=np.float32, order="C")
    y = None if y is None else np.asarray(y, dtype=np.int64)
    return Dataset(X, y, tuple(classes), source, image_shape=pixels.shape[1:], rows=rows)


def content(dataset: Dataset) -> str:
    """The SHA-256 (hexadecimal) of ``X`` and any labels ``y``: types, shapes and values."""
    digest = hashlib.sha256()
    for array in (dataset.X, dataset.y):
        if array is not None:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()


def as_classes(labels: ArrayLike) -> tuple[np.ndarray, tuple[str, ...]]:
    """The class of each row, int64, and the names of the classes in sorted order.

    *labels* are all numbers or all text; whole floats are named as integers.
    """
    distinct, y = np.unique(np.asarray(labels).ravel(), return_inverse=True)
    names = [int(one) if isinstance(one, float) and one.is_integer() else one
             for one in distinct.tolist()]
    return y.astype(np.int64), tuple(map(str, names))


def absolute(path: str | os.PathLike[str]) -> Path:
    """The absolute path; a relative one begins where ``clusterbook run`` was typed."""
    here = Path(paths.run_context().get("folder", "."))  # a notebook runs in another folder
    return Path(os.path.abspath(here / os.path.expanduser(path)))


def listed(names: Iterable[object]) -> str:
    """The first five names, quoted, and how many more there are."""
    names = [repr(str(name)) for name in names]
    return ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


#: Whether `option` spells as the command does, as in a run of ``clusterbook run``.
TYPED: ContextVar[bool] = ContextVar("TYPED", default=False)


def option(name: str, value: object) -> str:
    """An option as it is spelled where it is read: ``text='one-hot'`` or ``-p text one-hot``."""
    if not TYPED.get() and not paths.run_context():
        return f"{name}={value!r}"
    typed = ",".join(value) if isinstance(value, list) else str(value)
    return f"-p {name} " + (typed if re.fullmatch(r"[\w./+-]+", typed) else f'"{typed}"')
