"""Samples with their labels and source, their checksum, and how those of the catalog are read."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from .. import paths
from ..checks import InputError

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
    loader: str = ""  #: function below that reads the verified files
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
    notes: tuple[str, ...] = ()  #: assumptions and changes made in reading one's own table
    #: what was understood of one's own table, such as its separator and what a row is
    understood: Mapping[str, str] = field(default_factory=dict, repr=False)

    def summary(self) -> dict[str, str]:
        """What was loaded and understood, and notes that ask, for a person to read before a run."""
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


# ---------------------------------------------------------------- the data sets of the catalog


def table(source: Source) -> Dataset:
    """One of scikit-learn's tables, in its own units."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{source.name}")()
    X = np.ascontiguousarray(bunch.data, dtype=np.float32)
    return Dataset(X, bunch.target.astype(np.int64), tuple(map(str, bunch.target_names)), source,
                   feature_names=tuple(map(str, bunch.feature_names)))


def digits(source: Source) -> Dataset:
    """scikit-learn's digits, whose pixels are whole numbers up to 16."""
    found = table(source)
    return replace(found, X=found.X / np.float32(16), image_shape=(1, 8, 8), feature_names=None)


def mnist_small(source: Source) -> Dataset:
    """500 digits of each class, drawn once from MNIST's training part by ``tests/mnist_small``."""
    with np.load(paths.root() / "data" / "mnist-small.npz") as stored:
        return of_images(source, stored["X"].reshape(-1, 1, 28, 28), stored["y"], source.classes)


def synthetic(source: Source, nuisance: float = 0.01) -> Dataset:
    """IDC's synthetic experiment, generated from random state 0."""
    X, y, _ = make_synthetic(random_state=0, nuisance=nuisance)
    names = [f"informative {i}" for i in (1, 2, 3)] + [f"nuisance {i + 1}" for i in range(10)]
    return Dataset(X, y, tuple("0123"), source, feature_names=tuple(names))


def synthetic_noisy(source: Source) -> Dataset:
    """The same table with the nuisance that the draft states in its Appendix I."""
    return synthetic(source, nuisance=0.1)


def make_synthetic(
    n_samples: int = 800, *, random_state: int | None = None, nuisance: float = 0.01
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """IDC's synthetic experiment: four clusters in three features, beside ten nuisance features.

    This follows the geometry of the authors' code, with other random numbers. The first feature
    separates clusters 0 and 1 from 2 and 3; the second 0 from 1; the third 2 from 3.

    Returns X, float32, shape (4 * n_samples, 13), rows in random order, informative features first
    with mean 0 and standard deviation 1; y, int64; and *informative*, bool, shape (4, 13): the
    features that tell each cluster from the others. *n_samples* counts those of each cluster, and
    *nuisance* is the standard deviation of the other features: 0.01 in the released code, 0.1 in
    the draft.
    """
    rng = np.random.default_rng(random_state)
    y = np.repeat(np.arange(4), n_samples)
    centers = np.array([[2.05, 4.30], [2.05, 0.90], [-1.53, 2.92]])
    plane = centers[np.minimum(y, 2)] + 0.5 * rng.standard_normal((len(y), 2))
    # The third blob is stretched over the range of the second feature and becomes two clusters.
    wide, (low, high) = y >= 2, (plane[y < 2, 1].min(), plane[y < 2, 1].max())
    blob = plane[wide, 1]
    plane[wide, 1] = low + (high - low) * (blob - blob.min()) / np.ptp(blob)
    # The third feature: half of its range for each of these two, all of it for the others.
    third = rng.random(len(y))
    third = np.where(wide, third / 2 + (y == 3), 1.5 * third)
    matters = np.column_stack([plane, third])
    matters = (matters - matters.mean(0)) / matters.std(0)
    X = np.column_stack([matters, nuisance * rng.standard_normal((len(y), 10))])
    informative = np.zeros((4, X.shape[1]), dtype=bool)
    informative[:, 0] = informative[:2, 1] = informative[2:, 2] = True
    order = rng.permutation(len(y))
    return X[order].astype(np.float32), y[order], informative


def mnist(source: Source, *files: Path) -> Dataset:
    """Training part, then test part, of IDX files: headers of 16 or 8 bytes, then bytes."""
    parts = [np.fromfile(file, dtype=np.uint8) for file in files]
    images = np.concatenate([part[16:] for part in parts[::2]]).reshape(-1, 1, 28, 28)
    labels = np.concatenate([part[8:] for part in parts[1::2]])
    return of_images(source, images[:source.n_samples], labels[:source.n_samples], source.classes)


def cifar10(source: Source, archive: Path) -> Dataset:
    """The training batches in order, then the test batch: of each image its class, then pixels."""
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    with tarfile.open(archive) as members:
        batches = [members.extractfile(f"cifar-10-batches-bin/{name}.bin").read()
                   for name in names]
    rows = np.frombuffer(b"".join(batches), dtype=np.uint8).reshape(-1, 3073)
    return of_images(source, rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0], source.classes)


def cifar10_jpeg(source: Source, archive: Path) -> Dataset:
    """JPEG files named ``train/ship/0001.jpg``, from their archive or else from their folders."""
    folder, is_verified = archive.parent, archive.is_file()
    if is_verified:
        with tarfile.open(archive, "r|xz") as members:
            jpegs = {member.name: members.extractfile(member).read()
                     for member in members if member.isfile()}
    else:
        jpegs = {path.relative_to(folder).as_posix(): path.read_bytes()
                 for path in folder.glob("t*/*/*.jpg")}
    names = sorted(jpegs, key=lambda name: (not name.startswith("train/"), name))
    with suppress(OSError, ValueError):  # not an image, or of another size or class
        images = np.stack([np.asarray(Image.open(io.BytesIO(jpegs[name]))).transpose(2, 0, 1)
                           for name in names])
        labels = [source.classes.index(name.split("/")[1]) for name in names]
        found = of_images(source, images, labels, source.classes)
        if is_verified or content(found) == source.content:
            return found
    raise InputError(f"the {len(names):,} images in {folder} are not those expected: put "
                     f"{source.by_hand} there again, and nothing else")


def scikit_feature(source: Source, file: Path) -> Dataset:
    """A MATLAB file with samples ``X`` and numbered classes ``Y``; its columns have no names."""
    from .own import read_table

    found = read_table(file)
    names = tuple(f"gene {number + 1}" for number in range(found.X.shape[1]))
    return replace(found, source=source, feature_names=names)
