"""How each data set of ``catalog.yaml`` is read: from verified files or from a package's copy."""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ..errors import InputError
from .dataset import Dataset, Source, as_classes, content
from .synthetic import make_synthetic

_DIGITS = tuple("0123456789")
_CIFAR10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
_FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
    "Ankle boot",
)  # fmt: skip


# --- embedded in scikit-learn ------------------------------------------------------------------


def table(source: Source, home: Path) -> Dataset:
    """One of scikit-learn's tables, in its own units."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{source.name}")()
    return Dataset(
        X=np.ascontiguousarray(bunch.data, dtype=np.float32),
        y=bunch.target.astype(np.int64),
        classes=tuple(str(name) for name in bunch.target_names),
        source=source,
        feature_names=tuple(str(name) for name in bunch.feature_names),
    )


def digits(source: Source, home: Path) -> Dataset:
    """scikit-learn's digits, whose pixels are whole numbers up to 16."""
    found = table(source, home)
    return replace(found, X=found.X / np.float32(16), image_shape=(1, 8, 8), feature_names=None)


def photographs(source: Source, home: Path) -> Dataset:
    """scikit-learn's two photographs."""
    from sklearn.datasets import load_sample_images

    bunch = load_sample_images()
    images = np.stack(bunch.images).transpose(0, 3, 1, 2)  # (2, channels, height, width)
    names = tuple(Path(name).stem for name in bunch.filenames)
    return _images(source, images, np.arange(len(images)), names)


# --- generated ---------------------------------------------------------------------------------


def synthetic(source: Source, home: Path) -> Dataset:
    """IDC's synthetic experiment, as its generator draws it from random state 0."""
    X, y, informative = make_synthetic(random_state=0)
    matter = int(informative.any(axis=0).sum())
    numbered = [("informative", matter), ("nuisance", X.shape[1] - matter)]
    return Dataset(
        X=X,
        y=y,
        classes=tuple(str(number) for number in range(len(informative))),
        source=source,
        feature_names=tuple(f"{kind} {i + 1}" for kind, count in numbered for i in range(count)),
    )


# --- MNIST and Fashion-MNIST -------------------------------------------------------------------


def mnist(source: Source, home: Path) -> Dataset:
    """Training and test digits from the four IDX files."""
    train_images, train_labels, test_images, test_labels = (
        _read_idx(home / file) for file in source.files
    )
    images = np.concatenate([train_images, test_images])[:, np.newaxis]
    labels = np.concatenate([train_labels, test_labels])
    found = _images(source, images, labels, _DIGITS)
    return replace(found, train_size=len(train_labels))


def mnist10k(source: Source, home: Path) -> Dataset:
    """The first 10,000 training digits, from the same files."""
    images, labels = (_read_idx(home / file)[:10_000] for file in list(source.files)[:2])
    return _images(source, images[:, np.newaxis], labels, _DIGITS)


def fashion_mnist(source: Source, home: Path) -> Dataset:
    """Training and test pictures, in files of the same names and form as MNIST's."""
    return replace(mnist(source, home), classes=_FASHION)


def _read_idx(path: Path) -> np.ndarray:
    """Bytes in the IDX format: two zeros, a type, the number of axes, their lengths, the values."""
    found = np.fromfile(path, dtype=np.uint8)
    start = 4 + 4 * int(found[3])
    return found[start:].reshape(found[4:start].view(">i4").tolist())


# --- CIFAR-10 ----------------------------------------------------------------------------------


def cifar10(source: Source, home: Path) -> Dataset:
    """The official images: the archive's five training batches in order, then the test batch."""
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    batches = {}
    with tarfile.open(_file(source, home), "r|gz") as archive:
        for member in archive:
            if (name := member.name.rpartition("/")[2]) in names:
                # A pickle can run anything, but the archive's SHA-256 says that it is the official
                # one. Python 2 wrote it, so its keys are bytes here.
                batches[name] = pickle.load(archive.extractfile(member), encoding="bytes")
    pixels = np.concatenate([batches[name][b"data"] for name in names])
    labels = np.concatenate([batches[name][b"labels"] for name in names])
    found = _images(source, pixels.reshape(-1, 3, 32, 32), labels, _CIFAR10)
    return replace(found, train_size=len(labels) - len(batches["test_batch"][b"labels"]))


def cifar10_jpeg(source: Source, home: Path) -> Dataset:
    """The images as JPEG files, from their archive or, if that is not there, from their folders.

    Raises InputError if the folders hold something else.
    """
    archive = _file(source, home)
    if archive.is_file():
        return _from_jpegs(source, _packed(archive))
    try:
        found = _from_jpegs(source, _unpacked(home, source.folders))
        if (known := content(found)) == source.content:
            return found
        wrong = f"the SHA-256 of their pixels and labels is {known}, expected {source.content}"
    except (OSError, ValueError) as error:  # a file that is no image, or of another size or class
        wrong = " ".join(str(error).split())
    folders = " and ".join(str(home / folder) for folder in source.folders)
    raise InputError(
        f"the images in {folders} are not the {source.n_samples:,} of {source.address} "
        f"({wrong}): put {source.by_hand} in {home} again, all of them and nothing else"
    )


def _from_jpegs(source: Source, files: Iterable[tuple[str, bytes]]) -> Dataset:
    """Images named ``train/ship/0001.jpg``: the training part first, then by class and number."""
    from PIL import Image

    # Decoded in order, so that no image is held twice as bytes beside the samples.
    jpegs = dict(files)
    names = sorted(jpegs, key=lambda name: (not name.startswith("train/"), name))
    labels = np.array([_CIFAR10.index(name.split("/")[1]) for name in names])
    images = np.empty((len(names), 3, 32, 32), dtype=np.uint8)
    for image, name in zip(images, names, strict=True):
        pixels = np.asarray(Image.open(io.BytesIO(jpegs[name]), formats=["JPEG"]))
        image[:] = pixels.transpose(2, 0, 1)  # (channels, height, width)
    found = _images(source, images, labels, _CIFAR10)
    return replace(found, train_size=sum(name.startswith("train/") for name in names))


def _packed(archive: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive, "r|xz") as members:
        for member in members:
            if member.isfile():
                yield member.name, members.extractfile(member).read()


def _unpacked(home: Path, folders: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for folder in folders:
        for path in (home / folder).glob("*/*.jpg"):
            yield path.relative_to((home / folder).parent).as_posix(), path.read_bytes()


# --- the scikit-feature repository -------------------------------------------------------------


def matlab_arrays(file: Path) -> dict[str, Any]:
    """The variables of a MATLAB file, as SciPy gives them."""
    from scipy.io import loadmat

    return {name: one for name, one in loadmat(file).items() if not name.startswith("__")}


def scikit_feature(source: Source, home: Path) -> Dataset:
    """A MATLAB file with samples ``X`` and numbered classes ``Y``, in its own units.

    The file names neither its columns, which are counted from 1, nor its classes, which are called
    what their numbers are.
    """
    matlab = matlab_arrays(_file(source, home))
    y, classes = as_classes(matlab["Y"])
    X = np.ascontiguousarray(matlab["X"], dtype=np.float32)
    return Dataset(
        X=X,
        y=y,
        classes=classes,
        source=source,
        feature_names=tuple(f"gene {number}" for number in range(1, X.shape[1] + 1)),
    )


# --- shared ------------------------------------------------------------------------------------


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


def _file(source: Source, home: Path) -> Path:
    (file,) = source.files
    return home / file


# --- the catalog -------------------------------------------------------------------------------

_LOADERS = {loader.__name__: loader for loader in (
    cifar10, cifar10_jpeg, digits, fashion_mnist, mnist, mnist10k, photographs, scikit_feature,
    synthetic, table,
)}  # fmt: skip


def _catalog() -> dict[str, Source]:
    rows = yaml.safe_load(Path(__file__).with_name("catalog.yaml").read_text(encoding="utf-8"))
    return {name: Source(name=name, **{**row, "loader": _LOADERS[row["loader"]]})
            for name, row in rows.items()}  # fmt: skip


SOURCES = _catalog()
"""The data sets of the book by name, in the order of the catalog."""
