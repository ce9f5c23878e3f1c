"""How each data set of ``catalog.yaml`` is downloaded, verified and read, or generated."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import pickle
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import ArrayLike
from PIL import Image

from ..errors import InputError
from ..progress import bar
from .dataset import Dataset, Source, as_classes, content

_TIMEOUT = (10, 30)  # seconds to connect, and without a byte


def wrong_files(source: Source, home: Path) -> dict[str, str | None]:
    """Files that can't be used, with the SHA-256 of each; None if it is missing."""
    wrong: dict[str, str | None] = {}
    for file, expected in source.files.items():
        path = home / file
        checksum = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        is_by_hand = source.by_hand and (path.parent / "train").is_dir()
        if checksum != expected and (checksum or not is_by_hand):
            wrong[file] = checksum
    return wrong


def download(source: Source, home: Path, wrong: Mapping[str, str | None]) -> None:
    """Download the files into *home* that are missing or damaged, and verify them."""
    import pooch

    if wrong and not source.url:
        raise InputError(f"data set {source.name!r} has no download and is not in {home}: put "
                         f"{source.by_hand} there")
    pooch.get_logger().setLevel("WARNING")  # otherwise each download is logged to stderr
    urls = {file: source.url.format(Path(file).name) for file in source.files}
    registry = pooch.Pooch(home, "", source.files, urls, retry_if_failed=1)
    for file in wrong:
        try:
            registry.fetch(file, downloader=_retrieve)
        except Exception as error:  # no network or space, another SHA-256, a damaged archive
            reason = " ".join(str(error).split())
            raise InputError(f"data set {source.name!r} is not in {home}, and {file} could not be "
                             f"downloaded ({reason}): check the network, or set CLUSTERBOOK_DATA "
                             "to a folder that has it or can be written; 'digits' needs neither"
                             ) from error


def _retrieve(url: str, output: str, registry: Any) -> None:
    """Download to the file *output* and unpack it there; pooch compares its SHA-256 then."""
    import pooch

    os.remove(output)  # created by pooch with access for this user only
    with bar(1, Path(url).name, leave=True, unit="B", unit_scale=True) as shown:
        pooch.HTTPDownloader(shown, chunk_size=2**16, timeout=_TIMEOUT)(url, output, registry)
    if url.endswith("-ubyte.gz"):
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
    geometry of their code, with other random numbers. k-means hardly sees the
    nuisance: the 25.72 % that Table 2 gives it is the floor of the measure, not its score.

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
    """Images and labels of the training part, then of the test part, from IDX files.

    These are bytes: two zeros, a type, the number of axes, their lengths, and the values.
    """
    arrays = []
    for file in source.files:
        found = np.fromfile(home / file, dtype=np.uint8)
        start = 4 + 4 * int(found[3])
        arrays.append(found[start:].reshape(found[4:start].view(">i4").tolist()))
    images, labels = np.concatenate(arrays[::2]), np.concatenate(arrays[1::2])
    return _images(source, images[:source.n_samples, np.newaxis], labels[:source.n_samples])


def cifar10(source: Source, home: Path) -> Dataset:
    """The official images: the archive's five training batches in order, then the test batch."""
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    with tarfile.open(home / next(iter(source.files))) as archive:
        # Unpickling can run any code, but the SHA-256 is that of the official archive. Python 2
        # wrote it, so keys are bytes.
        batches = [pickle.load(archive.extractfile(f"cifar-10-batches-py/{name}"), encoding="bytes")
                   for name in names]
    pixels = np.concatenate([batch[b"data"] for batch in batches])
    labels = np.concatenate([batch[b"labels"] for batch in batches])
    return _images(source, pixels.reshape(-1, 3, 32, 32), labels)


def cifar10_jpeg(source: Source, home: Path) -> Dataset:
    """The images as JPEG files, from their archive or, if that is missing, from their folders.

    They are named ``train/ship/0001.jpg``: the training part comes first, then class and number.
    """
    archive = home / next(iter(source.files))
    if archive.is_file():
        with tarfile.open(archive, "r|xz") as members:
            jpegs = {member.name: members.extractfile(member).read()
                     for member in members if member.isfile()}
    else:
        jpegs = {path.relative_to(archive.parent).as_posix(): path.read_bytes()
                 for path in archive.parent.glob("t*/*/*.jpg")}
    names = sorted(jpegs, key=lambda name: (not name.startswith("train/"), name))
    with suppress(OSError, ValueError):  # not an image, or of another size or class
        # (n_samples, channels, height, width)
        images = np.stack([np.asarray(Image.open(io.BytesIO(jpegs[name]))).transpose(2, 0, 1)
                           for name in names])
        labels = [source.classes.index(name.split("/")[1]) for name in names]
        found = _images(source, images, labels)
        if archive.is_file() or content(found) == source.content:
            return found
    raise InputError(f"the {len(names):,} images in {archive.parent} are not those expected: put "
                     f"{source.by_hand} of {home} again, and nothing else")


def scikit_feature(source: Source, home: Path) -> Dataset:
    """A MATLAB file with samples ``X`` and numbered classes ``Y``; its columns have no names."""
    from scipy.io import loadmat

    matlab = loadmat(home / next(iter(source.files)))
    y, classes = as_classes(matlab["Y"])
    X = np.ascontiguousarray(matlab["X"], dtype=np.float32)
    return Dataset(X, y, classes, source,
                   feature_names=tuple(f"gene {number + 1}" for number in range(X.shape[1])))


def _images(source: Source, images: np.ndarray, labels: ArrayLike) -> Dataset:
    """Images as bytes, shape (n_samples, channels, height, width), scaled to [0, 1]."""
    X = np.divide(images.reshape(len(images), -1), np.float32(255), dtype=np.float32, order="C")
    classes = tuple(source.classes or map(str, range(source.n_classes)))
    return Dataset(X, np.asarray(labels, dtype=np.int64), classes, source,
                   image_shape=images.shape[1:])


_ENTRIES = yaml.safe_load(Path(__file__).with_name("catalog.yaml").read_text(encoding="utf-8"))
SOURCES = {name: Source(name=name, **entry) for name, entry in _ENTRIES.items()}
"""The data sets of the book by name, in the order of the catalog."""
