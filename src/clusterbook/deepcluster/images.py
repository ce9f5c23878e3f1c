"""Images to cluster, as an array or read from files, and their augmentation.

For clustering nothing is random: resize, crop the middle. For training a random part of the image
is resized, and mirrored half of the time. Images from files go through torchvision's transforms, as
in the released code; images in one tensor through batched forms of the same, with boxes of the same
distribution and the same pixels for a box. Both are normalized by the same means and deviations.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from math import log
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

from ..checkpoints import fingerprint
from ..datasets.folders import GRAY, find_images, opened, refuse_deep
from ..errors import InputError

Statistics = tuple[Tensor, Tensor]

#: Mean and standard deviation of ImageNet's red, green and blue, of pixels in [0, 1].
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
#: Smallest and largest part of the area: torchvision's default, and so the paper's.
SCALE = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
_ATTEMPTS = 10
_NAMES = {1: "gray", 3: "color"}


# ---------------------------------------------------------------------- transforms of one image


def clustering_transform(size: int | Sequence[int] = 224, resize: int | None = 256) -> v2.Compose:
    """Resize the short side, crop the middle: pixels in [0, 1], not yet normalized.

    Parameters
    ----------
    size : int or (height, width)
        Of the crop, in pixels.
    resize : int, optional
        Length of the short side before; by default so that the crop just fits in.

    Returns
    -------
    Compose
        From a PIL image, or a tensor (channels, height, width) of bytes or of floats in [0, 1], to
        a tensor of floats in [0, 1].
    """
    size = (size, size) if isinstance(size, int) else tuple(size)
    scale = v2.Resize(max(size) if resize is None else resize)
    return v2.Compose([scale, v2.CenterCrop(size), *_to_floats()])


def training_transform(size: int | Sequence[int] = 224, scale: Sequence[float] | None = SCALE,
                       flip: bool = True, resize: int | None = 256) -> v2.Compose:
    """Resize a random part, mirror it half of the time: pixels in [0, 1], not yet normalized.

    Parameters
    ----------
    size, resize
        See `clustering_transform`; *resize* is for *scale* None.
    scale : (float, float), optional
        Smallest and largest part of the image's area; None crops the middle as for clustering.
    flip : bool
        Whether images are mirrored; digits must not be.

    Returns
    -------
    Compose
        It draws from torch's global generator.
    """
    size = (size, size) if isinstance(size, int) else tuple(size)
    mirror = [v2.RandomHorizontalFlip()] if flip else []
    if scale is None:
        return v2.Compose([clustering_transform(size, resize), *mirror])
    return v2.Compose([v2.RandomResizedCrop(size, scale=tuple(scale), ratio=RATIO, antialias=True),
                       *mirror, *_to_floats()])


def _to_floats() -> list[v2.Transform]:
    return [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.ToPureTensor()]


# ------------------------------------------------------------- transforms of images in one tensor


def normalize(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Each channel, (n_samples, channels, ...), less its mean, over its standard deviation."""
    shape = (-1, *[1] * (images.ndim - 2))
    return (images - mean.view(shape)) / std.view(shape)


def augment(images: Tensor, generator: torch.Generator, scale: Sequence[float] | None = SCALE,
            flip: bool = True) -> Tensor:
    """A random part of each image, resized, and mirrored half of the time.

    Parameters
    ----------
    images : Tensor of shape (n, channels, height, width)
        On any device; the result has their shape.
    generator : torch.Generator
        On the CPU.
    scale : (float, float), optional
        Smallest and largest part of the area; None takes the whole image.
    flip : bool
    """
    n, _, height, width = images.shape
    mirrored = torch.rand(n, generator=generator) < 0.5 if flip else torch.zeros(n, dtype=bool)
    mirrored = mirrored.to(images.device)
    if scale is None:
        return torch.where(mirrored[:, None, None, None], images.flip(3), images)
    boxes = random_boxes(n, height, width, generator, scale)
    return crop_and_resize(images, boxes.to(images.device), mirrored)


def random_boxes(n: int, height: int, width: int, generator: torch.Generator,
                 scale: Sequence[float] = SCALE, ratio: Sequence[float] = RATIO) -> Tensor:
    """Random parts of images, distributed as those of torchvision's ``RandomResizedCrop``.

    The area is uniform in *scale*, the logarithm of the aspect ratio in *ratio*; the first of ten
    draws that fits into the image is placed at random. If none fits, it is the largest part in the
    middle whose ratio is in bounds.

    Parameters
    ----------
    n : int
        Number of boxes.
    height, width : int
        Of the images, in pixels.
    generator : torch.Generator
        On the CPU.
    scale, ratio : (float, float)

    Returns
    -------
    Tensor of int64, shape (n, 4)
        Top, left, height and width of each, on the CPU.
    """
    area, shape, place = torch.rand(3, n, _ATTEMPTS, generator=generator, dtype=torch.float64)
    area = height * width * (scale[0] + (scale[1] - scale[0]) * area)
    shape = torch.exp(log(ratio[0]) + (log(ratio[1]) - log(ratio[0])) * shape)
    widths, heights = (area * shape).sqrt().round().long(), (area / shape).sqrt().round().long()
    fits = (0 < widths) & (widths <= width) & (0 < heights) & (heights <= height)
    first = fits.long().argmax(1, keepdim=True)
    w, h = widths.gather(1, first)[:, 0], heights.gather(1, first)[:, 0]
    down, right = place[:, 0], place[:, 1]
    top, left = (down * (height - h + 1)).long(), (right * (width - w + 1)).long()
    # torchvision's fallback
    own = width / height
    last_w = round(height * ratio[1]) if own > ratio[1] else width
    last_h = round(width / ratio[0]) if own < ratio[0] else height
    middle = torch.tensor([(height - last_h) // 2, (width - last_w) // 2, last_h, last_w])
    return torch.where(fits.any(1)[:, None], torch.stack([top, left, h, w], 1), middle)


def crop_and_resize(images: Tensor, boxes: Tensor, mirrored: Tensor) -> Tensor:
    """Each image's box, enlarged to the image's size, and mirrored for some.

    Interpolation is linear, and repeats the edge beyond a box's border, as in torchvision.

    Parameters
    ----------
    images : Tensor of shape (n, channels, height, width)
        The result has their shape.
    boxes : Tensor of int64, shape (n, 4)
        Top, left, height, width of each.
    mirrored : Tensor of bool, shape (n,)
    """
    top, left, h, w = boxes.to(images).unbind(1)
    across = _weights(left, w, images.shape[3])
    across = torch.where(mirrored[:, None, None], across.flip(1), across)
    down = _weights(top, h, images.shape[2])
    return down[:, None] @ images @ across.transpose(1, 2)[:, None]


def _weights(start: Tensor, length: Tensor, size: int) -> Tensor:
    """The weight of each old pixel in each new one, (n, size, size)."""
    pixel = torch.arange(size, dtype=start.dtype, device=start.device)
    position = (pixel + 0.5) * (length / size)[:, None] - 0.5
    position = torch.minimum(position.clamp(min=0), length[:, None] - 1) + start[:, None]
    return (1 - (position[:, :, None] - pixel).abs()).clamp_(min=0)


# --------------------------------------------------------------------------- sources of images


class ArrayImages:
    """Images in one tensor, on the device.

    Parameters
    ----------
    images : Tensor of shape (n_samples, channels, height, width), or (n_samples, n_features)
        The latter are vectors, which are not augmented.
    statistics : (mean, deviation), optional
        Of each channel; by default those of the images.
    scale, flip
        See `augment`.

    Attributes
    ----------
    rows : ndarray of int64
        Indices of the images that are used: here all.
    n_given : int
        Number of images, used or not.
    """

    def __init__(self, images: Tensor, statistics: Statistics | None = None, *,
                 scale: Sequence[float] | None = None, flip: bool = False) -> None:
        self.statistics = _of_array(images) if statistics is None else statistics
        self.images = normalize(images, *(part.to(images.device) for part in self.statistics))
        self.scale, self.flip, self.device = scale, flip, images.device
        self.rows, self.n_given = np.arange(len(images)), len(images)

    def __len__(self) -> int:
        """The number of images that are used."""
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
    """Images of a data set, read in batches when they are needed.

    Parameters
    ----------
    dataset : Dataset
        Its items are PIL images or tensors (channels, height, width), or tuples that begin with
        one.
    image_shape : tuple of int
        (channels, height, width) of the network's input.
    statistics : (mean, deviation), optional
        Of each channel; by default those of the images as they are for clustering.
    scale, flip, resize
        See `training_transform`.
    num_workers, device, unreadable, color
        See `DeepCluster`.

    Attributes
    ----------
    rows : ndarray of int64
        Indices in the data set of the images that are used.
    n_given : int
        Number of images, used or not.

    Raises
    ------
    InputError
        If an image is unreadable, or has other channels, and is to be refused: all are read once,
        before any training.
    """

    def __init__(self, dataset: Dataset, image_shape: Sequence[int],
                 statistics: Statistics | None = None, *, scale: Sequence[float] | None = None,
                 flip: bool = False, resize: int | None = None, num_workers: int = 0,
                 device: torch.device | str = "cpu", unreadable: str = "refuse",
                 color: str = "refuse") -> None:
        channels, *size = image_shape
        convert = color == "convert"
        self._plain = _Reader(dataset, channels, convert, clustering_transform(size, resize))
        self._random = _Reader(dataset, channels, convert,
                               training_transform(size, scale, flip, resize))
        self._num_workers, self.device = num_workers, torch.device(device)
        self.n_given = len(dataset)
        self.rows, moments = self._scan(unreadable)
        pixels = size[0] * size[1]
        self.statistics = statistics or _of_moments(moments.sum(0), len(self.rows) * pixels)
        self._fingerprint = fingerprint(moments, self.rows)

    def __len__(self) -> int:
        """The number of images that are used."""
        return len(self.rows)

    def for_clustering(self, batch_size: int, rows: Tensor | None = None) -> Iterator[Tensor]:
        """All images, or some, in order and not augmented, in batches."""
        rows = self.rows if rows is None else self.rows[rows.cpu().numpy()]
        return self._batches(self._plain, [(int(row), None) for row in rows], batch_size)

    def for_training(self, rows: Tensor, batch_size: int, generator: torch.Generator
                     ) -> Iterator[Tensor]:
        """The images of these rows, in batches, augmented by numbers of *generator*."""
        # A seed for each image, so that its augmentation does not depend on the worker.
        seeds = torch.randint(2**31, (len(rows),), generator=generator).tolist()
        items = list(zip(self.rows[rows.cpu().numpy()].tolist(), seeds, strict=True))
        return self._batches(self._random, items, batch_size)

    def fingerprint(self) -> str:
        """SHA-256 of which images are used, and of the sums of their pixels and their squares."""
        return self._fingerprint

    def _batches(self, reader: Dataset, items: list, batch_size: int) -> Iterator[Tensor]:
        mean, std = (part.to(self.device) for part in self.statistics)
        for batch in self._loader(reader, items, batch_size, torch.stack):
            yield normalize(batch.to(self.device, non_blocking=True), mean, std)

    def _loader(self, reader: Dataset, items: list, batch_size: int, collate: Any) -> DataLoader:
        batches = [items[i:i + batch_size] for i in range(0, len(items), batch_size)]
        # The loader draws a number to seed its workers; it must not be the caller's.
        return DataLoader(reader, batch_sampler=batches, num_workers=self._num_workers,
                          collate_fn=collate, generator=torch.Generator().manual_seed(0))

    def _scan(self, unreadable: str) -> tuple[np.ndarray, np.ndarray]:
        """The rows to use, and for each the sums of its channels and of their squares."""
        n = self.n_given
        if not n:
            raise InputError("the data set has no images")
        loader = self._loader(_Scanner(self._plain), list(range(n)), 64, list)
        found = [image for batch in loader for image in batch]
        broken = [i for i, image in enumerate(found) if isinstance(image, str)]
        if broken:
            named = _listed([f"{self._plain.name(i)} ({found[i]})" for i in broken])
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
        wanted = self._plain.channels
        other = [i for i, count in zip(rows, channels, strict=True) if count != wanted]
        if other and not self._plain.convert:
            counted = " and ".join(
                f"{channels.count(count)} {_NAMES.get(count, f'of {count} channels')}"
                for count in sorted(set(channels)))
            raise InputError(
                f"the network sees {_NAMES.get(wanted, f'{wanted}-channel')} images "
                f"(image_shape begins with {wanted}), but the images are {counted}, such as "
                f"{_listed([self._plain.name(i) for i in other], 3)}; convert them by "
                "color='convert', or set image_shape to match them")


class ImageFiles(Dataset):
    """The images in a folder, or in one subfolder per class, as `datasets.load` finds them.

    Attributes
    ----------
    paths : tuple of Path
        Sorted by class, then by name.
    targets : ndarray of int64, or None
        The class of each image; None if the folder is flat.
    classes : tuple of str
        The subfolders' names; () if the folder is flat.
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        found = find_images(folder)
        self.folder, self.paths = found.folder, found.files
        self.targets, self.classes = found.labels()

    def __len__(self) -> int:
        """The number of files."""
        return len(self.paths)

    def __getitem__(self, index: int) -> Image.Image:
        """The image, gray or in color as it is."""
        with opened(self.paths[index]) as image:
            return image.convert("L" if image.mode in GRAY else "RGB")

    def name(self, index: int) -> str:
        """The file's path below the folder."""
        return str(self.paths[index].relative_to(self.folder))


# ------------------------------------------------------------------------- what workers compute


class _Reader(Dataset):
    """Images of a data set without targets, transformed; asked for by an index and a seed."""

    def __init__(self, dataset: Dataset, channels: int, convert: bool, transform: Any) -> None:
        self.dataset, self.channels, self.convert = dataset, channels, convert
        self.transform = transform

    def name(self, index: int) -> str:
        return (self.dataset.name(index) if isinstance(self.dataset, ImageFiles)
                else f"image {index}")

    def read(self, index: int) -> tuple[int, Any]:
        """The number of channels that an image has, and the image, converted if asked for."""
        image = self.dataset[index]
        image = image[0] if isinstance(image, tuple | list) else image
        if isinstance(image, np.ndarray):
            image = torch.as_tensor(image)
        if isinstance(image, Tensor):
            _check_tensor(image)
            return len(image), self._converted(image)
        if not isinstance(image, Image.Image):
            raise TypeError(f"it is a {type(image).__name__}, neither a PIL image nor a tensor")
        refuse_deep(image)
        channels = 1 if image.mode in GRAY else 3
        wanted = self.channels if self.convert else channels
        return channels, image.convert("L" if wanted == 1 else "RGB")

    def _converted(self, image: Tensor) -> Tensor:
        if not self.convert or len(image) == self.channels:
            return image
        if len(image) == 1:
            return image.expand(self.channels, -1, -1)
        gray = image.float().mean(0, keepdim=True)
        return gray if image.is_floating_point() else gray.round().to(image.dtype)

    def __getitem__(self, asked: tuple[int, int | None]) -> Tensor:
        index, seed = asked
        image = self.read(index)[1]
        if seed is None:
            return self.transform(image)
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(seed)
            return self.transform(image)


class _Scanner(Dataset):
    """For each image its defect, or its channels and the sums of its pixels and their squares."""

    def __init__(self, reader: _Reader) -> None:
        self.reader = reader

    def __getitem__(self, index: int) -> str | tuple[int, np.ndarray]:
        try:
            channels, image = self.reader.read(index)
            pixels = self.reader.transform(image).double().flatten(1)
        except Exception as error:      # a data set may raise anything; the caller is told
            return str(error).split("\n")[0] or type(error).__name__
        return channels, torch.stack([pixels.sum(1), pixels.square().sum(1)]).numpy()


def _check_tensor(image: Tensor) -> None:
    if image.ndim != 3:
        raise ValueError(f"its shape is {tuple(image.shape)}, not (channels, height, width)")
    if image.is_floating_point():
        if not bool(torch.isfinite(image).all()):
            raise ValueError("it has values that are NaN or infinite")
        if float(image.min()) < 0 or float(image.max()) > 1:
            raise ValueError("its pixels leave [0, 1]; return images that are not normalized")


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
