"""Images to cluster, as an array or read from files, and their augmentation.

For clustering nothing is random: resize, crop the middle. For training a random part of the image
is resized, and mirrored half of the time. Images from files go through torchvision's transforms, as
in the released code; images in one tensor through batched forms of the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from math import log
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

from ..datasets.folders import GRAY, find_images, opened, refuse_deep
from ..errors import InputError

Statistics = tuple[Tensor, Tensor]

#: Mean and standard deviation of ImageNet's red, green and blue, of pixels in [0, 1].
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
#: Bounds of the area and of the aspect ratio of crops: torchvision's defaults, so the paper's.
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
_TO_FLOATS = (v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.ToPureTensor())


# ---------------------------------------------------------------------- transforms of one image


def clustering_transform(size: int | Sequence[int] = 224, resize: int | None = 256) -> v2.Compose:
    """Resize the short side, crop the middle: pixels in [0, 1], not yet normalized.

    *size*, an int or (height, width), is of the crop; without *resize* the crop just fits in. Takes
    a PIL image, or a tensor (channels, height, width) of bytes or of floats in [0, 1].
    """
    return v2.Compose([*_middle(size, resize), *_TO_FLOATS])


def training_transform(size: int | Sequence[int] = 224, scale: Sequence[float] | None = SCALE,
                       flip: bool = True, resize: int | None = 256) -> v2.Compose:
    """Resize a random part, mirror it half of the time: pixels in [0, 1], not yet normalized.

    It draws from torch's global generator. *scale* bounds the part of the image's area; None crops
    the middle as `clustering_transform` does, which has *size* and *resize*.
    """
    crop = _middle(size, resize) if scale is None else [v2.RandomResizedCrop(size, tuple(scale))]
    mirror = [v2.RandomHorizontalFlip()] if flip else []
    return v2.Compose([*crop, *mirror, *_TO_FLOATS])


def _middle(size: int | Sequence[int], resize: int | None) -> list[v2.Transform]:
    size = (size, size) if isinstance(size, int) else tuple(size)
    return [v2.Resize(resize or max(size)), v2.CenterCrop(size)]


# ------------------------------------------------------------- transforms of images in one tensor


def normalize(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Each channel, (n_samples, channels, ...), less its mean, over its standard deviation."""
    shape = (-1, *[1] * (images.ndim - 2))
    return (images - mean.view(shape)) / std.view(shape)


def augment(images: Tensor, generator: torch.Generator, scale: Sequence[float] | None = SCALE,
            flip: bool = True) -> Tensor:
    """A random part of each image, resized, and mirrored half of the time.

    *images* and the result have shape (n, channels, height, width); *generator* is on the CPU;
    *scale* bounds the part of the area, and None takes the whole image.
    """
    n, _, height, width = images.shape
    mirrored = torch.rand(n, generator=generator) < 0.5 if flip else torch.zeros(n, dtype=bool)
    mirrored = mirrored.to(images.device)
    if scale is None:
        return torch.where(mirrored[:, None, None, None], images.flip(3), images)
    boxes = random_boxes(n, height, width, generator, scale)
    return crop_and_resize(images, boxes.to(images.device), mirrored)


def random_boxes(n: int, height: int, width: int, generator: torch.Generator,
                 scale: Sequence[float] = SCALE) -> Tensor:
    """Random parts of images, distributed as those of torchvision's ``RandomResizedCrop``.

    The area is uniform in *scale*, the logarithm of the aspect ratio in `RATIO`; the first of ten
    draws that fits into the image is placed at random. If none fits, it is the largest part in the
    middle whose ratio is in bounds. Returns top, left, height and width of each, int64, (n, 4).
    """
    area, shape, place = torch.rand(3, n, 10, generator=generator, dtype=torch.float64)
    area = height * width * (scale[0] + (scale[1] - scale[0]) * area)
    shape = torch.exp(log(RATIO[0]) + (log(RATIO[1]) - log(RATIO[0])) * shape)
    widths, heights = (area * shape).sqrt().round().long(), (area / shape).sqrt().round().long()
    fits = (0 < widths) & (widths <= width) & (0 < heights) & (heights <= height)
    first = fits.long().argmax(1, keepdim=True)
    w, h = widths.gather(1, first)[:, 0], heights.gather(1, first)[:, 0]
    down, right = place[:, 0], place[:, 1]
    top, left = (down * (height - h + 1)).long(), (right * (width - w + 1)).long()
    last_w = min(width, round(height * RATIO[1]))
    last_h = min(height, round(width / RATIO[0]))
    middle = torch.tensor([(height - last_h) // 2, (width - last_w) // 2, last_h, last_w])
    return torch.where(fits.any(1)[:, None], torch.stack([top, left, h, w], 1), middle)


def crop_and_resize(images: Tensor, boxes: Tensor, mirrored: Tensor) -> Tensor:
    """Each image's box, resized to the image's size, and mirrored for some.

    Interpolation is linear, and repeats the edge beyond a box's border, as in torchvision. *images*
    and the result have shape (n, channels, height, width), *boxes* (n, 4), *mirrored* (n,).
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
    """Images in one tensor, on the device; of two dimensions only, they are not augmented.

    *statistics* are mean and deviation of each channel, by default those of the images; *scale* and
    *flip* are `augment`'s. ``content`` is what tells these images from others.
    """

    def __init__(self, images: Tensor, statistics: Statistics | None = None, *,
                 scale: Sequence[float] | None = None, flip: bool = False) -> None:
        if statistics is None:
            sums = sum(torch.stack([part.double().sum(0), part.double().square().sum(0)])
                       for part in images.split(1024))
            sums = sums.flatten(2).sum(2) if images.ndim == 4 else sums
            statistics = _of_sums(sums.cpu().numpy(), images[:, 0].numel())
        self.statistics = statistics
        self.images = normalize(images, *(part.to(images.device) for part in statistics))
        self.content = (self.images, *statistics)
        self.shape, self.device = tuple(images.shape[1:]), images.device
        self.scale, self.flip = scale, flip

    def __len__(self) -> int:
        """The number of images."""
        return len(self.images)

    def for_clustering(self, batch_size: int, rows: Tensor | None = None) -> Iterator[Tensor]:
        """All images, or some, in order and not augmented, in batches."""
        rows = torch.arange(len(self)) if rows is None else rows
        return (self.images[part] for part in rows.to(self.device).split(batch_size))

    def for_training(self, rows: Tensor, batch_size: int, generator: torch.Generator
                     ) -> Iterator[Tensor]:
        """The images of these rows, in batches, augmented by numbers of *generator*."""
        for images in self.for_clustering(batch_size, rows):
            yield augment(images, generator, self.scale, self.flip) if images.ndim == 4 else images


class StreamedImages(Dataset):
    """Images of a data set, read in batches when they are needed.

    Its items are PIL images or tensors (channels, height, width), or tuples that begin with one.
    *shape* is (channels, height, width) of the network's input; see `ArrayImages`,
    `training_transform` and `DeepCluster` for the rest. All images are read once, before any
    training; raises InputError if one can't be used.
    """

    def __init__(self, dataset: Dataset, shape: tuple[int, ...],
                 statistics: Statistics | None = None, *, scale: Sequence[float] | None = None,
                 flip: bool = False, resize: int | None = None, num_workers: int = 0,
                 device: torch.device | str = "cpu", color: str = "refuse") -> None:
        self.dataset, self.shape, self.device = dataset, shape, torch.device(device)
        self._num_workers = num_workers
        convert = v2.Grayscale() if shape[0] == 1 else v2.RGB()
        self._convert = convert if color == "convert" else v2.Identity()
        self._plain = clustering_transform(shape[1:], resize)
        self._random = training_transform(shape[1:], scale, flip, resize)
        sums = self._sums()
        n_pixels = len(dataset) * shape[1] * shape[2]
        self.statistics = statistics or _of_sums(sums.sum(0), n_pixels)
        self.content = (sums,)

    def __len__(self) -> int:
        """The number of images."""
        return len(self.dataset)

    def __getitem__(self, asked: tuple[int, int | None]) -> Tensor:
        """An image for clustering, or for training with this seed; workers call it."""
        index, seed = asked
        image = self.dataset[index]
        image = image[0] if isinstance(image, tuple | list) else image
        if isinstance(image, Image.Image):
            refuse_deep(image)
            image = image.convert("L" if image.mode in GRAY else "RGB")
        image = self._convert(image)
        if seed is None:
            return self._plain(image)
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(seed)
            return self._random(image)

    def for_clustering(self, batch_size: int, rows: Tensor | None = None) -> Iterator[Tensor]:
        """All images, or some, in order and not augmented, in batches."""
        rows = range(len(self)) if rows is None else rows.tolist()
        return self._batches([(row, None) for row in rows], batch_size)

    def for_training(self, rows: Tensor, batch_size: int, generator: torch.Generator
                     ) -> Iterator[Tensor]:
        """The images of these rows, in batches, augmented by numbers of *generator*."""
        # A seed for each image, so that its augmentation does not depend on the worker.
        seeds = torch.randint(2**31, (len(rows),), generator=generator).tolist()
        return self._batches(list(zip(rows.tolist(), seeds, strict=True)), batch_size)

    def _batches(self, items: Sequence[tuple[int, int | None]], batch_size: int
                 ) -> Iterator[Tensor]:
        mean, std = (part.to(self.device) for part in self.statistics)
        for batch in self._loader(self, items, batch_size, torch.stack):
            yield normalize(batch.to(self.device, non_blocking=True), mean, std)

    def _loader(self, dataset: Dataset, items: Sequence[Any], batch_size: int,
                collate: Callable[[list], Any]) -> DataLoader:
        batches = [items[i:i + batch_size] for i in range(0, len(items), batch_size)]
        # The loader draws a number to seed its workers; it must not be the caller's.
        return DataLoader(dataset, batch_sampler=batches, num_workers=self._num_workers,
                          collate_fn=collate, generator=torch.Generator().manual_seed(0))

    def _sums(self) -> np.ndarray:
        """Sums of pixels and of their squares, (n_samples, 2, channels); refuses broken images."""
        loader = self._loader(_Sums(self), range(len(self)), 64, list)
        found = [sums for batch in loader for sums in batch]
        names = getattr(self.dataset, "names", range(len(self)))
        broken = [f"{names[i]} ({sums})" for i, sums in enumerate(found) if isinstance(sums, str)]
        if broken:
            raise InputError(f"{len(broken)} of {len(self)} images can't be used: "
                             f"{', '.join(broken[:5])}; repair or remove them")
        return np.stack(found)


class ImageFiles(Dataset):
    """The images in a folder, or in one subfolder per class, as `datasets.load` finds them.

    ``names`` are their paths below the folder, sorted by class, then by name.
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        found = find_images(folder)
        self.names, self.files = found.names, found.files

    def __len__(self) -> int:
        """The number of files."""
        return len(self.files)

    def __getitem__(self, index: int) -> Image.Image:
        """The image, gray or in color as it is."""
        with opened(self.files[index]) as image:
            return image.convert("L" if image.mode in GRAY else "RGB")


class _Sums(Dataset):
    """For each image the sums of its pixels and of their squares, or what is wrong with it."""

    def __init__(self, images: StreamedImages) -> None:
        self.images = images

    def __getitem__(self, index: int) -> str | np.ndarray:
        try:
            pixels = self.images[index, None].double().flatten(1)
        except Exception as error:      # a data set may raise anything; the caller is told
            return str(error).split("\n")[0] or type(error).__name__
        if len(pixels) != self.images.shape[0]:
            return (f"{len(pixels)} channels instead of {self.images.shape[0]}; color='convert' "
                    "converts them")
        if not -0.001 < pixels.min() <= pixels.max() < 1.001:       # resizing rounds
            return "pixels outside [0, 1]; return images that are not normalized"
        return torch.stack([pixels.sum(1), pixels.square().sum(1)]).numpy()


def _of_sums(sums: np.ndarray, count: int) -> Statistics:
    """Mean and deviation of each channel, float32, from sums of pixels and of their squares."""
    mean = sums[0] / count
    variance = np.maximum(sums[1] / count - mean**2, 0)
    std = np.where(variance > 1e-12, np.sqrt(variance), 1)      # a constant channel becomes 0
    return torch.from_numpy(mean).float(), torch.from_numpy(std).float()
