"""How each data set of ``catalog.yaml`` is downloaded, verified and read, or generated."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import pickle
import tarfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
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


# --- files and downloads -----------------------------------------------------------------------


def wrong_files(source: Source, home: Path) -> dict[str, str | None]:
    """Files that can't be used, with the SHA-256 of each; None if it is missing.

    Empty if the data set's folders are there instead of its files.
    """
    found = {file: _sha256(home / file) for file in source.files}
    if source.folders and not any(found.values()):
        if all((home / folder).is_dir() for folder in source.folders):
            return {}
    return {file: checksum for file, checksum in found.items() if checksum != source.files[file]}


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"the file {path} can't be read ({error.strerror}): make it readable, or "
                         "set CLUSTERBOOK_DATA to another folder") from error


def refuse_damaged(source: Source, home: Path, wrong: Mapping[str, str | None]) -> None:
    """Raise InputError for a file with another checksum; remove it if there is a download."""
    for file, checksum in wrong.items():
        path, todo = home / file, f"fetch it again with `clusterbook data {source.name}`"
        if checksum is None:
            continue
        if source.urls:
            with suppress(OSError):
                path.unlink()
                todo = f"it was removed: {todo}"
        else:  # put there by hand
            todo = f"move it away and put {source.by_hand} from {source.address} in {home}"
        raise InputError(f"the file {path} is damaged: its SHA-256 is {checksum}, expected "
                         f"{source.files[file]}; {todo}")


def download(source: Source, home: Path, files: Iterable[str]) -> None:
    """Download files into *home*, each from the first URL that serves it with the right SHA-256.

    Raises InputError if there is no URL, every URL failed, or *home* can't be written.
    """
    import pooch
    from requests.exceptions import RequestException

    if not source.urls:
        raise InputError(f"data set {source.name!r} has no download and is not in {home}: put "
                         f"{source.by_hand} from {source.address} there, or set CLUSTERBOOK_DATA "
                         "to a folder that has it")
    pooch.get_logger().setLevel("WARNING")  # otherwise each download is logged to stderr
    for file in files:
        failures = []
        for url in source.urls:
            mirror = pooch.Pooch(home, "", source.files, {file: url.format(Path(file).name)},
                                 retry_if_failed=1)
            try:
                mirror.fetch(file, downloader=partial(_retrieve, packed=url.endswith("{}.gz")))
                break
            except (RequestException, ValueError) as error:  # ValueError: another SHA-256
                cause = error.args[0] if error.args else error
                cause = " ".join(str(getattr(cause, "reason", cause)).split())
                failures.append(cause.partition(". ")[0])
            except OSError as error:
                raise InputError(f"data set {source.name!r} can't be stored in {home} "
                                 f"({error.strerror or error}): set CLUSTERBOOK_DATA to a folder "
                                 "that can be written") from error
        else:
            raise InputError(f"data set {source.name!r} is not in {home}, and {file} could not be "
                             f"downloaded ({'; '.join(failures)}): check the network, or set "
                             "CLUSTERBOOK_DATA to a folder that has it; 'digits' needs neither")


def _retrieve(url: str, output: str, pooch_: Any, *, packed: bool) -> None:
    """Download to the file *output* and unpack it there, for pooch to compare its SHA-256."""
    import pooch

    os.remove(output)  # created by pooch with access for this user only
    with bar(1, url.rpartition("/")[2], leave=True, unit="B", unit_scale=True) as shown:
        pooch.HTTPDownloader(shown, chunk_size=2**16, timeout=_TIMEOUT)(url, output, pooch_)
    if packed:
        with suppress(gzip.BadGzipFile, EOFError, zlib.error):  # the SHA-256 will differ
            Path(output).write_bytes(gzip.decompress(Path(output).read_bytes()))


# --- one loader for each kind of data set ------------------------------------------------------


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
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    batches = {}
    with tarfile.open(home / next(iter(source.files)), "r|gz") as archive:
        for member in archive:
            if (name := member.name.rpartition("/")[2]) in names:
                # Unpickling can run any code, but the SHA-256 is that of the official archive.
                # Python 2 wrote it, so keys are bytes.
                batches[name] = pickle.load(archive.extractfile(member), encoding="bytes")
    pixels = np.concatenate([batches[name][b"data"] for name in names])
    labels = np.concatenate([batches[name][b"labels"] for name in names])
    found = _images(source, pixels.reshape(-1, 3, 32, 32), labels, _CIFAR10)
    return replace(found, train_size=len(labels) - len(batches["test_batch"][b"labels"]))


def cifar10_jpeg(source: Source, home: Path) -> Dataset:
    """The images as JPEG files, from their archive or, if that is missing, from their folders.

    Raises InputError if the folders have other content.
    """
    archive = home / next(iter(source.files))
    if archive.is_file():
        with tarfile.open(archive, "r|xz") as members:
            return _from_jpegs(source, {member.name: members.extractfile(member).read()
                                        for member in members if member.isfile()})
    found = {path.relative_to(archive.parent).as_posix(): path.read_bytes()
             for folder in source.folders for path in (home / folder).glob("*/*.jpg")}
    with suppress(OSError, ValueError):  # not an image, or of another size or class
        data = _from_jpegs(source, found)
        if content(data) == source.content:
            return data
    folders = " and ".join(str(home / folder) for folder in source.folders)
    raise InputError(f"the {len(found):,} images in {folders} are not the {source.n_samples:,} of "
                     f"{source.address}: put {source.by_hand} in {home} again, and nothing else")


def _from_jpegs(source: Source, jpegs: Mapping[str, bytes]) -> Dataset:
    """Images named ``train/ship/0001.jpg``: the training part first, then by class and number."""
    from PIL import Image

    names = sorted(jpegs, key=lambda name: (not name.startswith("train/"), name))
    labels = np.array([_CIFAR10.index(name.split("/")[1]) for name in names])
    images = np.empty((len(names), 3, 32, 32), dtype=np.uint8)
    for image, name in zip(images, names, strict=True):
        pixels = np.asarray(Image.open(io.BytesIO(jpegs[name]), formats=["JPEG"]))
        image[:] = pixels.transpose(2, 0, 1)  # (channels, height, width)
    found = _images(source, images, labels, _CIFAR10)
    return replace(found, train_size=sum(name.startswith("train/") for name in names))


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


_LOADERS = {loader.__name__: loader for loader in (
    cifar10, cifar10_jpeg, digits, fashion_mnist, mnist, mnist10k, photographs, scikit_feature,
    synthetic, table)}
_ENTRIES = yaml.safe_load(Path(__file__).with_name("catalog.yaml").read_text(encoding="utf-8"))
SOURCES = {name: Source(name=name, **{**entry, "loader": _LOADERS[entry["loader"]]})
           for name, entry in _ENTRIES.items()}
"""The data sets of the book by name, in the order of the catalog."""
