"""How the verified files of each data set of the catalog are read; ``loader`` there names one."""

from __future__ import annotations

import io
import tarfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from .. import paths
from ..checks import InputError, whole
from .dataset import Dataset, Source, content, of_images


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
    n_samples: int = 3200, *, random_state: int | None = None, nuisance: float = 0.01
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """IDC's synthetic experiment: four clusters in three features, beside ten nuisance features.

    This follows the geometry of the authors' code, with other random numbers. The first feature
    separates clusters 0 and 1 from 2 and 3; the second 0 from 1; the third 2 from 3.

    Returns X, float32, shape (n_samples, 13), rows in random order, informative features first
    with mean 0 and standard deviation 1; y, int64; and *informative*, bool, shape (4, 13): the
    features that tell each cluster from the others. The clusters are equally large, or differ by
    one sample. *nuisance* is the standard deviation of the other features: 0.01 in the released
    code, 0.1 in the draft. Raises InputError for fewer than four samples.
    """
    whole("n_samples", n_samples, 4)
    rng = np.random.default_rng(random_state)
    y = np.arange(n_samples) * 4 // n_samples
    centers = np.array([[2.05, 4.30], [2.05, 0.90], [-1.53, 2.92]])
    plane = centers[np.minimum(y, 2)] + 0.5 * rng.standard_normal((len(y), 2))
    # The third blob is stretched over the range of the second feature and becomes two clusters.
    wide, (low, high) = y >= 2, (plane[y < 2, 1].min(), plane[y < 2, 1].max())
    blob = plane[wide, 1]
    plane[wide, 1] = low + (high - low) * (blob - blob.min()) / np.ptp(blob)
    # The third feature: the lower and the upper third of its range for these two, all for the rest.
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
