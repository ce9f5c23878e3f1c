"""Images to cluster: an array that is held whole, or files and data sets that are read in passing.

Both kinds give batches in two ways, in order and as they are for clustering, and in any order and
augmented for training; both are normalized by the same means and deviations.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..checkpoints import fingerprint
from ..datasets.folders import GRAY, find_images, opened, refuse_deep
from ..errors import InputError
from .transforms import augment, clustering_transform, normalize, training_transform

Statistics = tuple[Tensor, Tensor]
_NAMES = {1: "gray", 3: "color"}


class ArrayImages:
    """Images in one tensor, on the device, where they stay.

    Parameters
    ----------
    images : Tensor of shape (n_samples, channels, height, width), or (n_samples, n_features)
        Rows of the latter kind are vectors, which are not augmented.
    statistics : (mean, deviation), optional
        Of each channel; by default those of the images.
    scale, flip
        See `transforms.augment`.
    """

    def __init__(self, images: Tensor, statistics: Statistics | None = None, *,
                 scale: Sequence[float] | None = None, flip: bool = False) -> None:
        self.statistics = _of_array(images) if statistics is None else statistics
        self.images = normalize(images, *(part.to(images.device) for part in self.statistics))
        self.scale, self.flip, self.device = scale, flip, images.device

    def __len__(self) -> int:
        """The number of images."""
        return len(self.images)

    def for_clustering(self, batch_size: int, rows: Tensor | None = None) -> Iterator[Tensor]:
        """All images, or some, in order and not augmented, in batches."""
        if rows is None:
            yield from self.images.split(batch_size)
        else:
            for part in rows.to(self.device).split(batch_size):
                yield self.images[part]

    def for_training(self, rows: Tensor, batch_size: int, generator: torch.Generator
                     ) -> Iterator[Tensor]:
        """The images of these rows, in batches, augmented by numbers of *generator*."""
        for part in rows.to(self.device).split(batch_size):
            images = self.images[part]
            yield augment(images, generator, self.scale, self.flip) if images.ndim == 4 else images

    def fingerprint(self) -> str:
        """SHA-256 of the images' content."""
        return fingerprint(self.images, *self.statistics)


class StreamedImages:
    """Images of a data set, read and prepared in passing; one batch a worker is held.

    Parameters
    ----------
    dataset : Dataset
        Its items are pictures or tensors (channels, height, width), or tuples that begin with such.
    image_shape : tuple of int
        (channels, height, width) of what the network sees.
    statistics : (mean, deviation), optional
        Of each channel; by default those of the images as they are for clustering.
    scale, flip, resize
        See `transforms.training_transform`.
    num_workers : int
        Processes that read; 0 reads here. Their number changes nothing but the time.
    device : torch.device
    unreadable : {"refuse", "skip"}
        What to do where an image can't be read.
    color : {"refuse", "convert"}
        What to do where an image has other channels than *image_shape*.

    Attributes
    ----------
    rows : ndarray of int64
        Places in the data set of the images that are used.

    Raises
    ------
    InputError
        If an image can't be read, or has other channels, and is to be refused: all are read once,
        before any training.
    """

    def __init__(self, dataset: Dataset, image_shape: Sequence[int],
                 statistics: Statistics | None = None, *, scale: Sequence[float] | None = None,
                 flip: bool = False, resize: int | None = None, num_workers: int = 0,
                 device: torch.device | str = "cpu", unreadable: str = "refuse",
                 color: str = "refuse") -> None:
        channels, *size = image_shape
        self._plain = clustering_transform(size, resize)
        self._random = training_transform(size, scale, flip, resize)
        self._items = _Items(dataset, channels, color == "convert")
        self._num_workers, self.device = num_workers, torch.device(device)
        self.rows, moments = self._scan(unreadable)
        pixels = size[0] * size[1]
        self.statistics = statistics or _of_moments(moments.sum(0), len(self.rows) * pixels)
        self._print = fingerprint(moments, self.rows)

    def __len__(self) -> int:
        """The number of images that are used."""
        return len(self.rows)

    def for_clustering(self, batch_size: int, rows: Tensor | None = None) -> Iterator[Tensor]:
        """All images, or some, in order and not augmented, in batches."""
        rows = self.rows if rows is None else self.rows[rows.cpu().numpy()]
        items = [(int(row), None) for row in rows]
        return self._batches(_Prepared(self._items, self._plain), items, batch_size)

    def for_training(self, rows: Tensor, batch_size: int, generator: torch.Generator
                     ) -> Iterator[Tensor]:
        """The images of these rows, in batches, augmented by numbers of *generator*."""
        # A seed for each image: what becomes of it does not depend on the worker that reads it.
        seeds = torch.randint(2**31, (len(rows),), generator=generator).tolist()
        items = list(zip(self.rows[rows.cpu().numpy()].tolist(), seeds, strict=True))
        return self._batches(_Prepared(self._items, self._random), items, batch_size)

    def fingerprint(self) -> str:
        """SHA-256 of which images are used, and of the sums of their pixels and their squares."""
        return self._print

    def _batches(self, prepared: Dataset, items: list, batch_size: int) -> Iterator[Tensor]:
        pieces = [items[i:i + batch_size] for i in range(0, len(items), batch_size)]
        mean, std = (part.to(self.device) for part in self.statistics)
        for batch in self._loader(prepared, pieces, torch.stack):
            yield normalize(batch.to(self.device, non_blocking=True), mean, std)

    def _loader(self, dataset: Dataset, pieces: list, collate: Any) -> DataLoader:
        # The loader draws a number to seed its workers; it must not be the caller's.
        return DataLoader(dataset, batch_sampler=pieces, num_workers=self._num_workers,
                          collate_fn=collate, generator=torch.Generator().manual_seed(0))

    def _scan(self, unreadable: str) -> tuple[np.ndarray, np.ndarray]:
        """The rows to use, and of each the sums of its channels and of their squares."""
        n = len(self._items)
        if not n:
            raise InputError("the data set has no images")
        pieces = [list(range(i, min(i + 64, n))) for i in range(0, n, 64)]
        found = [image for part in self._loader(_Scanned(self._items, self._plain), pieces, list)
                 for image in part]
        broken = [i for i, image in enumerate(found) if isinstance(image, str)]
        if broken:
            named = _listed([f"{self._items.name(i)} ({found[i]})" for i in broken])
            if unreadable == "refuse":
                raise InputError(f"{len(broken)} of {n} images can't be read: {named}; remove or "
                                 "repair them, or leave them out by unreadable='skip'")
            warnings.warn(f"{len(broken)} of {n} images can't be read and are left out: {named}",
                          UserWarning, stacklevel=6)
        rows = np.array([i for i, image in enumerate(found) if not isinstance(image, str)],
                        dtype=np.int64)
        if not len(rows):
            raise InputError(f"none of the {n} images can be read")
        self._check_channels(rows, [found[i][0] for i in rows])
        return rows, np.stack([found[i][1] for i in rows])

    def _check_channels(self, rows: np.ndarray, channels: Sequence[int]) -> None:
        wanted = self._items.channels
        other = [i for i, count in zip(rows, channels, strict=True) if count != wanted]
        if other and not self._items.convert:
            kinds = {count: channels.count(count) for count in sorted(set(channels))}
            counted = " and ".join(f"{many} {_NAMES.get(count, f'of {count} channels')}"
                                   for count, many in kinds.items())
            raise InputError(
                f"the network sees {_NAMES.get(wanted, f'{wanted}-channel')} images "
                f"(image_shape begins with {wanted}), but the images are {counted}, such as "
                f"{_listed([self._items.name(i) for i in other], 3)}; convert them by "
                "color='convert', or set image_shape to what they are")


class ImageFiles(Dataset):
    """The images in a folder, or in one subfolder per class, as `datasets.load` finds them.

    Parameters
    ----------
    folder : str or Path

    Attributes
    ----------
    paths : tuple of Path
        Sorted by class, then by name.
    classes : tuple of str
        The subfolders' names; () if the folder is flat.
    targets : ndarray of int64, or None
        The class of each image.

    Raises
    ------
    InputError
        As `datasets.folders.find_images`.
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        found = find_images(folder)
        self.folder, self.paths = found.folder, found.files
        self.targets, self.classes = found.labels()

    def __len__(self) -> int:
        """The number of files."""
        return len(self.paths)

    def __getitem__(self, index: int) -> Image.Image:
        """The picture, gray or in color as it is."""
        with opened(self.paths[index]) as image:
            return image.convert("L" if image.mode in GRAY else "RGB")

    def name(self, index: int) -> str:
        """The file's path below the folder."""
        return str(self.paths[index].relative_to(self.folder))


# --------------------------------------------------------------------------- what workers do


class _Items:
    """A data set's images without their targets, with the channels asked for."""

    def __init__(self, dataset: Dataset, channels: int, convert: bool) -> None:
        self.dataset, self.channels, self.convert = dataset, channels, convert

    def __len__(self) -> int:
        return len(self.dataset)

    def name(self, index: int) -> str:
        return (self.dataset.name(index) if isinstance(self.dataset, ImageFiles)
                else f"image {index}")

    def read(self, index: int) -> tuple[int, Any]:
        """The channels that an image has, and the image with those that it is to have."""
        image = self.dataset[index]
        image = image[0] if isinstance(image, tuple | list) else image
        if isinstance(image, np.ndarray):
            image = torch.as_tensor(image)
        if isinstance(image, Tensor):
            return _checked_tensor(image), self._converted(image)
        if not isinstance(image, Image.Image):
            raise TypeError(f"it is a {type(image).__name__}, no picture and no tensor")
        refuse_deep(image)
        channels = 1 if image.mode in GRAY else 3
        if self.convert:
            channels_now, image = channels, image.convert("L" if self.channels == 1 else "RGB")
            return channels_now, image
        return channels, image.convert("L" if channels == 1 else "RGB")

    def _converted(self, image: Tensor) -> Tensor:
        if not self.convert or len(image) == self.channels:
            return image
        if len(image) == 1:
            return image.expand(self.channels, -1, -1)
        gray = image.float().mean(0, keepdim=True)
        return gray if image.is_floating_point() else gray.round().to(image.dtype)


def _checked_tensor(image: Tensor) -> int:
    if image.ndim != 3:
        raise ValueError(f"its shape is {tuple(image.shape)}, not (channels, height, width)")
    if image.is_floating_point():
        if not bool(torch.isfinite(image).all()):
            raise ValueError("it holds values that are NaN or infinite")
        if float(image.min()) < 0 or float(image.max()) > 1:
            raise ValueError("its pixels leave [0, 1]; hand out images that are not normalized")
    return len(image)


class _Prepared(Dataset):
    """Images, transformed; an item is asked for by its place and a seed."""

    def __init__(self, items: _Items, transform: Any) -> None:
        self.items, self.transform = items, transform

    def __getitem__(self, asked: tuple[int, int | None]) -> Tensor:
        index, seed = asked
        image = self.items.read(index)[1]
        if seed is None:
            return self.transform(image)
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(seed)
            return self.transform(image)


class _Scanned(Dataset):
    """For each image what is wrong with it, or its channels and the sums of its pixels."""

    def __init__(self, items: _Items, transform: Any) -> None:
        self.items, self.transform = items, transform

    def __getitem__(self, index: int) -> str | tuple[int, np.ndarray]:
        try:
            channels, image = self.items.read(index)
            pixels = self.transform(image).double().flatten(1)
        except Exception as error:      # a data set may raise anything; it is told to the caller
            return str(error).split("\n")[0] or type(error).__name__
        return channels, torch.stack([pixels.sum(1), pixels.square().sum(1)]).numpy()


# ------------------------------------------------------------------------------------- inside


def _of_array(images: Tensor) -> Statistics:
    """Mean and deviation of each channel, or of each feature of vectors, float32."""
    wide = torch.float32 if images.device.type == "mps" else torch.float64
    sums = sum(torch.stack([part.to(wide).sum(0), part.to(wide).square().sum(0)])
               for part in images.split(1024))
    pixels = images[0, 0].numel() if images.ndim == 4 else 1
    sums = sums.flatten(2).sum(2) if images.ndim == 4 else sums
    return _of_moments(sums.cpu().numpy(), len(images) * pixels)


def _of_moments(sums: np.ndarray, count: int) -> Statistics:
    mean = sums[0] / count
    variance = np.maximum(sums[1] / count - mean**2, 0)
    std = np.where(variance > 1e-12, np.sqrt(variance), 1)      # a constant channel becomes 0
    return torch.from_numpy(mean).float(), torch.from_numpy(std).float()


def _listed(names: Sequence[str], at_most: int = 5) -> str:
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more
