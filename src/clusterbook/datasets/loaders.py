"""How each data set of ``catalog.yaml`` is downloaded, verified and read, or generated."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import pickle
import tarfile
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from .. import checks
from ..errors import InputError
from ..progress import bar
from .dataset import Dataset, Source, as_classes, content

_TIMEOUT = (10, 30)  # seconds to connect, and without a byte
_DIGITS = tuple("0123456789")
_CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship",
            "truck")
_FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker",
            "Bag", "Ankle boot")


def wrong_files(source: Source, home: Path) -> dict[str, str | None]:
    """Files that can't be used, with the SHA-256 of each; None if it is missing.

    Empty if images put into *home* by hand are there instead of their archive.
    """
    wrong: dict[str, str | None] = {}
    for file, expected in source.files.items():
        path = home / file
        if path.is_file():
            with path.open("rb") as stream:
                checksum = hashlib.file_digest(stream, "sha256").hexdigest()
            if checksum != expected:
                wrong[file] = checksum
        elif not (source.by_hand and (path.parent / "train").is_dir()):
            wrong[file] = None
    return wrong


def download(source: Source, home: Path, files: Iterable[str]) -> None:
    """Download files into *home* and verify them.

    Raises InputError if there is no URL, a download fails, or *home* can't be written.
    """
    import pooch

    if not source.url:
        raise InputError(f"data set {source.name!r} has no download and is not in {home}: put "
                         f"{source.by_hand} there")
    pooch.get_logger().setLevel("WARNING")  # otherwise each download is logged to stderr
    urls = {file: source.url.format(Path(file).name) for file in source.files}
    registry = pooch.Pooch(home, "", source.files, urls, retry_if_failed=1)
    for file in files:
        try:
            registry.fetch(file, downloader=_retrieve)
        except (OSError, ValueError) as error:  # no network or space, or another SHA-256
            reason = " ".join(str(error).split())
            raise InputError(f"data set {source.name!r} is not in {home}, and {file} could not be "
                             f"downloaded ({reason}): check the network, or set CLUSTERBOOK_DATA "
                             "to a folder that has it or can be written; 'digits' needs neither"
                             ) from error


def _retrieve(url: str, output: str, registry: Any) -> None:
    """Download to the file *output* and unpack it there, for pooch to compare its SHA-256."""
    import pooch

    os.remove(output)  # created by pooch with access for this user only
    with bar(1, url.rpartition("/")[2], leave=True, unit="B", unit_scale=True) as shown:
        get = pooch.HTTPDownloader(shown, chunk_size=2**16, timeout=_TIMEOUT)
        get(url, output, registry)
    if url.endswith("-ubyte.gz"):
        with suppress(gzip.BadGzipFile, EOFError, zlib.error):  # the SHA-256 will differ
            Path(output).write_bytes(gzip.decompress(Path(output).read_bytes()))


def table(source: Source, home: Path) -> Dataset:
    """One of scikit-learn's tables, in its own units."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{source.name}")()
    X = np.ascontiguousarray(bunch.data, dtype=np.float32)
    return Dataset(X, bunch.target.astype(np.int64), tuple(map(str, bunch.target_names)), source,
                   feature_names=tuple(map(str, bunch.feature_names)))


def digits(source: Source, home: Path) -> Dataset:
    """scikit-learn's digits, whose pixels are whole numbers up to 16."""
    found = table(source, home)
    return replace(found, X=found.X / np.float32(16), image_shape=(1, 8, 8), feature_names=None)


def photographs(source: Source, home: Path) -> Dataset:
    """scikit-learn's two photographs."""
    from sklearn.datasets import load_sample_images

    bunch = load_sample_images()
    images = np.stack(bunch.images).transpose(0, 3, 1, 2)  # (2, channels, height, width)
    return _images(source, images, np.arange(2), tuple(Path(one).stem for one in bunch.filenames))


def synthetic(source: Source, home: Path) -> Dataset:
    """IDC's synthetic experiment, generated from random state 0."""
    X, y, _ = make_synthetic(random_state=0)
    names = [f"informative {i}" for i in (1, 2, 3)] + [f"nuisance {i + 1}" for i in range(10)]
    return Dataset(X, y, tuple("0123"), source, feature_names=tuple(names))


def make_synthetic(
    n_samples: int = 800, *, random_state: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """IDC's synthetic experiment: four clusters in three features, beside ten nuisance features.

    Svirsky & Lindenbaum, *Interpretable Deep Clustering for Tabular Data*, 2024. This follows the
    geometry of an early version of their code, with other random numbers. Nuisance features have
    standard deviation 0.01 beside informative ones of 1, so k-means hardly sees them: the 25.72 %
    that Table 2 gives it is the floor of the measure, not its score.

    The first feature separates clusters 0 and 1 from 2 and 3; the second 0 from 1; the third 2
    from 3. So two features tell each cluster from all others; the third is noise within it.

    Returns X, float32, shape (4 * n_samples, 13), rows in random order, informative features first
    with mean 0 and standard deviation 1; y, int64; and *informative*, bool, shape (4, 13): the
    features that tell each cluster from the others. *n_samples* counts those of each cluster.

    Examples
    --------
    >>> X, y, informative = make_synthetic(random_state=0)
    >>> X.shape, np.bincount(y).tolist()
    ((3200, 13), [800, 800, 800, 800])
    >>> informative[:, :4].astype(int).tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 0]]
    """
    checks.whole("n_samples", n_samples, 1)
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
    X = np.column_stack([matters, 0.01 * rng.standard_normal((len(y), 10))])
    informative = np.zeros((4, X.shape[1]), dtype=bool)
    informative[:, 0] = informative[:2, 1] = informative[2:, 2] = True
    order = rng.permutation(len(y))
    return X[order].astype(np.float32), y[order], informative


def mnist(source: Source, home: Path) -> Dataset:
    """Training and test digits from the four IDX files."""
    images, labels, test_images, test_labels = (_read_idx(home / file) for file in source.files)
    found = _images(source, np.concatenate([images, test_images])[:, np.newaxis],
                    np.concatenate([labels, test_labels]), _DIGITS)
    return replace(found, train_size=len(labels))


def mnist10k(source: Source, home: Path) -> Dataset:
    """The first 10,000 training digits, from the same files."""
    images, labels = (_read_idx(home / file)[:10_000] for file in list(source.files)[:2])
    return _images(source, images[:, np.newaxis], labels, _DIGITS)


def fashion_mnist(source: Source, home: Path) -> Dataset:
    """Training and test pictures, in files with the names and form of MNIST's."""
    return replace(mnist(source, home), classes=_FASHION)


def _read_idx(path: Path) -> np.ndarray:
    """Bytes in the IDX format: two zeros, a type, the number of axes, their lengths, the values."""
    found = np.fromfile(path, dtype=np.uint8)
    start = 4 + 4 * int(found[3])
    return found[start:].reshape(found[4:start].view(">i4").tolist())


def cifar10(source: Source, home: Path) -> Dataset:
    """The official images: the archive's five training batches in order, then the test batch."""
    (file,) = source.files
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    with tarfile.open(home / file) as archive:
        # Unpickling can run any code, but the SHA-256 is that of the official archive. Python 2
        # wrote it, so keys are bytes.
        batches = [pickle.load(archive.extractfile(f"cifar-10-batches-py/{name}"), encoding="bytes")
                   for name in names]
    pixels = np.concatenate([batch[b"data"] for batch in batches])
    labels = np.concatenate([batch[b"labels"] for batch in batches])
    found = _images(source, pixels.reshape(-1, 3, 32, 32), labels, _CIFAR10)
    return replace(found, train_size=len(labels) - len(batches[-1][b"labels"]))


def cifar10_jpeg(source: Source, home: Path) -> Dataset:
    """The images as JPEG files, from their archive or, if that is missing, from their folders.

    They are named ``train/ship/0001.jpg``: the training part comes first, then class and number.
    Raises InputError if the images are others.
    """
    from PIL import Image

    (file,) = source.files
    folder, is_verified = (home / file).parent, (home / file).is_file()
    if is_verified:
        with tarfile.open(home / file, "r|xz") as members:
            jpegs = {member.name: members.extractfile(member).read()
                     for member in members if member.isfile()}
    else:
        jpegs = {path.relative_to(folder).as_posix(): path.read_bytes()
                 for part in ("train", "test") for path in folder.glob(f"{part}/*/*.jpg")}
    names = sorted(jpegs, key=lambda name: (not name.startswith("train/"), name))
    images = np.empty((len(names), 3, 32, 32), dtype=np.uint8)
    with suppress(OSError, ValueError):  # not an image, or of another size or class
        labels = np.array([_CIFAR10.index(name.split("/")[1]) for name in names])
        for image, name in zip(images, names, strict=True):
            pixels = np.asarray(Image.open(io.BytesIO(jpegs[name]), formats=["JPEG"]))
            image[:] = pixels.transpose(2, 0, 1)  # (channels, height, width)
        found = _images(source, images, labels, _CIFAR10)
        if is_verified or content(found) == source.content:
            return replace(found, train_size=sum(name.startswith("train/") for name in names))
    raise InputError(f"the {len(names):,} images in {folder} are not the {source.n_samples:,} "
                     f"expected: put {source.by_hand} of {home} again, and nothing else")


def scikit_feature(source: Source, home: Path) -> Dataset:
    """A MATLAB file with samples ``X`` and numbered classes ``Y``; its columns have no names."""
    from scipy.io import loadmat

    matlab = loadmat(home / next(iter(source.files)))
    y, classes = as_classes(matlab["Y"])
    X = np.ascontiguousarray(matlab["X"], dtype=np.float32)
    return Dataset(X, y, classes, source,
                   feature_names=tuple(f"gene {number + 1}" for number in range(X.shape[1])))


def _images(source: Source, images: np.ndarray, y: np.ndarray, classes: tuple[str, ...]) -> Dataset:
    """Images as bytes, shape (n_samples, channels, height, width), scaled to [0, 1]."""
    flat = images.reshape(len(images), -1)
    X = np.divide(flat, np.float32(255), dtype=np.float32, order="C")
    return Dataset(X, y.astype(np.int64), classes, source, image_shape=images.shape[1:])


_ENTRIES = yaml.safe_load(Path(__file__).with_name("catalog.yaml").read_text(encoding="utf-8"))
SOURCES = {name: Source(name=name, **{**entry, "loader": globals()[entry["loader"]]})
           for name, entry in _ENTRIES.items()}
"""The data sets of the book by name, in the order of the catalog."""
