"""A name to the data behind it, always in the same form; nothing else is ever loaded instead.

Small data sets are embedded in scikit-learn and need neither network nor disk. Larger ones live in
the folder that ``CLUSTERBOOK_DATA`` names (`clusterbook.paths.data_home`): they are downloaded
once, and their SHA-256 is checked before they are used. Images lie in [0, 1], one flattened image
per row; tables stay in their own units. A new data set is a row in the table below and a loader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from . import downloads, paths
from .errors import InputError, unknown


@dataclass(frozen=True)
class Source:
    """Where a data set is from, and how to know that it is the right one.

    Attributes
    ----------
    name, title : str
        The name to ask for, and what it is.
    n_samples, n_features, n_classes : int
        The shape of ``X`` and the number of classes in ``y``.
    license, citation, address : str
        The terms as far as the source states them, what to cite, and the page that it is from.
    embedded_in : str or None
        The installed package that contains it; None if it has to be downloaded.
    files : mapping of str to str
        SHA-256 by path, relative to the data folder; empty for an embedded data set.
    size : int
        Bytes of these files on disk.
    loader, download : callable
        ``loader(source, home)`` reads the verified files under ``home`` into a `Dataset`;
        ``download(folder)`` puts them under ``folder``, from the network (None if embedded).
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
    embedded_in: str | None = None
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    size: int = 0
    download: Callable[[Path], None] | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples and their labels, with what is known about them.

    Attributes
    ----------
    X : ndarray of float32, shape (n_samples, n_features)
        C-contiguous. Images are flattened and lie in [0, 1]; tables are in their own units.
    y : ndarray of int64, shape (n_samples,)
        Class of each sample, an index into ``classes``.
    classes : tuple of str
        The name of each class.
    source : Source
        Where the data are from.
    image_shape : tuple of int or None
        (channels, height, width) of a row of ``X``; None for a table.
    feature_names : tuple of str or None
        One name per column of a table; None for images.
    train_size : int or None
        The first ``train_size`` rows are the source's own training part; None if it has no split.
    """

    X: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    classes: tuple[str, ...]
    source: Source
    image_shape: tuple[int, int, int] | None = None
    feature_names: tuple[str, ...] | None = None
    train_size: int | None = None

    def split(
        self, random_state: int = 0, test_share: float = 0.2
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """A training and a test part, in scikit-learn's order.

        The source's own split if it has one, whatever the arguments; else a random one that keeps
        the proportions of the classes.

        Parameters
        ----------
        random_state : int
            Seed of the random split.
        test_share : float
            Share of the samples in the test part of a random split, between 0 and 1.

        Returns
        -------
        X_train, X_test, y_train, y_test : ndarray

        Raises
        ------
        InputError
            The share is not between 0 and 1, or leaves no room for a sample of each class.

        Examples
        --------
        >>> X_train, X_test, y_train, y_test = load("wine").split(random_state=0)
        >>> X_train.shape, X_test.shape
        ((142, 13), (36, 13))
        """
        if (n := self.train_size) is not None:
            return self.X[:n], self.X[n:], self.y[:n], self.y[n:]
        from sklearn.model_selection import train_test_split

        try:
            # float: scikit-learn would read an integer as a number of samples
            X_train, X_test, y_train, y_test = train_test_split(
                self.X,
                self.y,
                test_size=float(test_share),
                random_state=random_state,
                stratify=self.y,
            )
        except ValueError as error:
            raise InputError(
                f"data set {self.source.name!r} ({len(self.y)} samples, {len(self.classes)} "
                f"classes) can't be split with test_share={test_share} ({error}): expected a share "
                "between 0 and 1 that puts a sample of each class into both parts, such as 0.2"
            ) from error
        return X_train, X_test, y_train, y_test


@dataclass(frozen=True)
class Status:
    """Whether a data set can be used right now.

    Attributes
    ----------
    state : {"embedded", "here", "missing", "damaged"}
        Part of a package; on disk and verified; not (all) on disk; on disk with other content.
    folder : Path or None
        The data folder that was looked into; None for an embedded data set.
    files : tuple of str
        The missing or damaged files, relative to that folder.
    """

    state: Literal["embedded", "here", "missing", "damaged"]
    folder: Path | None = None
    files: tuple[str, ...] = ()


def catalog() -> tuple[Source, ...]:
    """Every data set that `load` knows, in the order of the table."""
    return tuple(_SOURCES.values())


def load(name: str, *, download: bool = True) -> Dataset:
    """The data set of that name, and never another one in its place.

    Parameters
    ----------
    name : str
        A name from `catalog`.
    download : bool
        Whether missing files may be downloaded; nothing is written if none is missing.

    Raises
    ------
    InputError
        There is no such data set, its files are missing and can't be downloaded, or one of them
        is damaged (it is removed then).

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.X.shape, digits.image_shape
    ((1797, 64), (1, 8, 8))
    """
    source, home = _source(name), _home()
    wrong = downloads.wrong_files(source, home)
    for file, found in wrong.items():
        if found is not None:
            raise downloads.remove_damaged(source, home, file, found)
    if wrong and not download:
        raise InputError(
            f"data set {name!r} is not here: {home / next(iter(wrong))} was expected, and download "
            f"is off; fetch it with `clusterbook data {name}`, or set CLUSTERBOOK_DATA to a folder "
            "that has it"
        )
    if wrong:
        downloads.download_files(source, home, wrong, progress=False)
    return source.loader(source, home)


def status(name: str) -> Status:
    """Whether the data set is embedded, here, missing or damaged; changes nothing.

    Raises
    ------
    InputError
        There is no such data set.
    """
    source, home = _source(name), _home()
    if source.embedded_in:
        return Status("embedded")
    wrong = downloads.wrong_files(source, home)
    if damaged := tuple(file for file, found in wrong.items() if found is not None):
        return Status("damaged", home, damaged)
    return Status("missing" if wrong else "here", home, tuple(wrong))


def fetch(name: str, *, progress: bool = False) -> Status:
    """Verify the data set, download what is missing or damaged, and say how things stand then.

    Parameters
    ----------
    name : str
        A name from `catalog`.
    progress : bool
        Whether to show the download's progress bars on the standard error stream.

    Raises
    ------
    InputError
        There is no such data set, the network can't be reached, what arrived is damaged (nothing
        of it is kept), or the data folder can't be written.
    """
    source, home = _source(name), _home()
    if wrong := downloads.wrong_files(source, home):
        downloads.download_files(source, home, wrong, progress=progress)
    return status(name)


def _source(name: str) -> Source:
    if name not in _SOURCES:
        raise unknown("data set", name, _SOURCES)
    return _SOURCES[name]


def _home() -> Path:
    return paths.data_home().absolute()


# --- loaders ---------------------------------------------------------------------------------


def _load_table(source: Source, home: Path) -> Dataset:
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{source.name}")()
    return Dataset(
        X=np.ascontiguousarray(bunch.data, dtype=np.float32),
        y=bunch.target.astype(np.int64),
        classes=tuple(str(name) for name in bunch.target_names),
        source=source,
        feature_names=tuple(str(name) for name in bunch.feature_names),
    )


def _load_digits(source: Source, home: Path) -> Dataset:
    table = _load_table(source, home)
    return replace(table, X=table.X / np.float32(16), image_shape=(1, 8, 8), feature_names=None)


def _load_photographs(source: Source, home: Path) -> Dataset:
    from sklearn.datasets import load_sample_images

    try:
        bunch = load_sample_images()
    except ImportError as error:
        raise InputError(
            f"data set {source.name!r} needs pillow to read its images: install it with "
            "`pip install pillow`"
        ) from error
    images = np.stack(bunch.images).transpose(0, 3, 1, 2)  # (2, channels, height, width)
    names = tuple(Path(name).stem for name in bunch.filenames)
    return _images(source, images, np.arange(len(images)), names)


def _load_mnist(source: Source, home: Path) -> Dataset:
    train_images, train_labels, test_images, test_labels = (
        _read_idx(home / file) for file in source.files
    )
    images = np.concatenate([train_images, test_images])[:, np.newaxis]
    labels = np.concatenate([train_labels, test_labels])
    digits = _images(source, images, labels, tuple("0123456789"))
    return replace(digits, train_size=len(train_labels))


def _load_mnist10k(source: Source, home: Path) -> Dataset:
    images, labels = (_read_idx(home / file)[:10_000] for file in list(source.files)[:2])
    return _images(source, images[:, np.newaxis], labels, tuple("0123456789"))


def _images(source: Source, images: np.ndarray, y: np.ndarray, classes: tuple[str, ...]) -> Dataset:
    """Images as bytes, shape (n_samples, channels, height, width), scaled to [0, 1]."""
    flat = images.reshape(len(images), -1)
    return Dataset(
        X=np.divide(flat, np.float32(255), dtype=np.float32, order="C"),
        y=y.astype(np.int64),
        classes=classes,
        source=source,
        image_shape=images.shape[1:],
    )


def _read_idx(path: Path) -> np.ndarray:
    """Bytes in the IDX format: two zeros, a type, the number of axes, their lengths, the values."""
    content = np.fromfile(path, dtype=np.uint8)
    start = 4 + 4 * int(content[3])
    return content[start:].reshape(content[4:start].view(">i4").tolist())


# --- the table: one row per data set ---------------------------------------------------------

_UCI_TERMS = "not stated in scikit-learn's copy; the page of the UCI repository has them"

_MNIST_SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}

_MNIST = Source(
    name="mnist",
    title="MNIST handwritten digits, 28 × 28 pixels, the training digits first",
    n_samples=70_000,
    n_features=784,
    n_classes=10,
    license="not stated by the source; the documentation of Keras names CC BY-SA 3.0",
    citation="LeCun et al., Gradient-based learning applied to document recognition, 1998",
    address="http://yann.lecun.com/exdb/mnist/",
    loader=_load_mnist,
    files={f"MNIST/raw/{file}": sha256 for file, sha256 in _MNIST_SHA256.items()},
    size=54_950_048,
    download=downloads.download_mnist,
)

_TABLE = (
    Source(
        name="digits",
        title="Optical recognition of handwritten digits, 8 × 8 pixels, the test part",
        n_samples=1797,
        n_features=64,
        n_classes=10,
        license=_UCI_TERMS,
        citation="Alpaydin and Kaynak, Cascading classifiers, 1998",
        address="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
        loader=_load_digits,
        embedded_in="scikit-learn",
    ),
    Source(
        name="breast_cancer",
        title="Breast cancer Wisconsin (diagnostic): cell nuclei in images of breast masses",
        n_samples=569,
        n_features=30,
        n_classes=2,
        license=_UCI_TERMS,
        citation="Street et al., Nuclear feature extraction for breast tumor diagnosis, 1993",
        address="https://archive.ics.uci.edu/dataset/17/breast+cancer+wisconsin+diagnostic",
        loader=_load_table,
        embedded_in="scikit-learn",
    ),
    Source(
        name="wine",
        title="Wine recognition: chemical analysis of wines of three cultivars",
        n_samples=178,
        n_features=13,
        n_classes=3,
        license=_UCI_TERMS,
        citation="Aeberhard et al., Comparison of classifiers in high dimensional settings, 1992",
        address="https://archive.ics.uci.edu/dataset/109/wine",
        loader=_load_table,
        embedded_in="scikit-learn",
    ),
    Source(
        name="photographs",
        title="Two color photographs, 640 × 427 pixels: a Chinese temple and a flower",
        n_samples=2,
        n_features=819_840,
        n_classes=2,
        license="CC BY 2.0",
        citation="china.jpg by danielbuechele and flower.jpg by vultilion, both on Flickr",
        address="https://scikit-learn.org/stable/datasets/loading_other_datasets.html",
        loader=_load_photographs,
        embedded_in="scikit-learn",
    ),
    _MNIST,
    replace(
        _MNIST,
        name="mnist10k",
        title="MNIST's first 10,000 training digits: what the released code of IDC uses",
        n_samples=10_000,
        loader=_load_mnist10k,
    ),
)

_SOURCES = {source.name: source for source in _TABLE}
