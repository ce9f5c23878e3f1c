"""Images and their augmentation, by torchvision's transforms or, in one tensor, batched forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import log
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torchvision.transforms import v2

from ..checks import InputError
from ..datasets.folders import Folder
from . import distributed

#: Mean and standard deviation of ImageNet's red, green and blue, of pixels in [0, 1].
IMAGENET = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
#: Bounds of the area and of the aspect ratio of crops: torchvision's defaults, so the paper's.
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
_TO_FLOATS = (v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.ToPureTensor())


def clustering_transform(size: int | Sequence[int] = 224, resize: int | None = 256) -> v2.Compose:
    """Resize the short side, crop the middle: pixels in [0, 1], not yet normalized.

    *size*, an int or (height, width), is of the crop; without *resize* the crop just fits in. Takes
    a PIL image, or a tensor (channels, height, width) of bytes or of floats in [0, 1].
    """
    size = (size, size) if isinstance(size, int) else tuple(size)
    return v2.Compose([v2.Resize(resize or max(size)), v2.CenterCrop(size), *_TO_FLOATS])


def training_transform(size: int | Sequence[int] = 224, scale: Sequence[float] | None = SCALE,
                       flip: bool = True, resize: int | None = 256) -> v2.Compose:
    """Resize a random part, mirror it half of the time; draws from torch's global generator.

    *scale* bounds the part of the area; None crops the middle as `clustering_transform` does.
    """
    crop = (clustering_transform(size, resize) if scale is None
            else v2.RandomResizedCrop(size, tuple(scale)))
    return v2.Compose([crop, v2.RandomHorizontalFlip(0.5 * flip), *_TO_FLOATS])


def normalize(images: Tensor, statistics: Tensor) -> Tensor:
    """Each channel, (n_samples, channels, ...), less its mean, over its standard deviation."""
    mean, std = statistics.to(images.device).view(2, -1, *[1] * (images.ndim - 2))
    return (images - mean) / std


def augment(images: Tensor, generator: torch.Generator, scale: Sequence[float] | None = SCALE,
            flip: bool = True) -> Tensor:
    """A random part of each image, (n, channels, height, width), resized, and mirrored for half.

    *scale* bounds the part of the area, and None takes the whole image. As in torchvision the edge
    is repeated beyond a part's border. *generator* is on the CPU.
    """
    n, _, height, width = images.shape
    mirrored = torch.rand(n, generator=generator) < 0.5 if flip else torch.zeros(n, dtype=bool)
    mirrored = mirrored.to(images.device)
    if scale is None:
        return torch.where(mirrored[:, None, None, None], images.flip(3), images)
    top, left, h, w = random_boxes(n, height, width, generator, scale).to(images).unbind(1)
    down, across = _weights(top, h, height), _weights(left, w, width)
    across = torch.where(mirrored[:, None, None], across.flip(1), across)
    return down[:, None] @ images @ across.transpose(1, 2)[:, None]


def random_boxes(n: int, height: int, width: int, generator: torch.Generator,
                 scale: Sequence[float] = SCALE) -> Tensor:
    """Random parts of images, distributed as those of torchvision's ``RandomResizedCrop``.

    The area is uniform in *scale*, the logarithm of the aspect ratio in `RATIO`; the first of ten
    draws that fits is placed at random, else the largest part in the middle is taken. Returns top,
    left, height and width, int64, (n, 4).
    """
    area, shape, position = torch.rand(3, n, 10, generator=generator, dtype=torch.float64)
    area = height * width * (scale[0] + (scale[1] - scale[0]) * area)
    shape = torch.exp(log(RATIO[0]) + (log(RATIO[1]) - log(RATIO[0])) * shape)
    widths, heights = (area * shape).sqrt().round().long(), (area / shape).sqrt().round().long()
    fits = (0 < widths) & (widths <= width) & (0 < heights) & (heights <= height)
    first = fits.long().argmax(1, keepdim=True)
    w, h = widths.gather(1, first)[:, 0], heights.gather(1, first)[:, 0]
    top = (position[:, 0] * (height - h + 1)).long()
    left = (position[:, 1] * (width - w + 1)).long()
    last_h, last_w = min(height, round(width / RATIO[0])), min(width, round(height * RATIO[1]))
    middle = torch.tensor([(height - last_h) // 2, (width - last_w) // 2, last_h, last_w])
    return torch.where(fits.any(1)[:, None], torch.stack([top, left, h, w], 1), middle)


def _weights(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Linear interpolation, (n, size, size): the weight of each old pixel in each new one."""
    pixel = torch.arange(size, dtype=start.dtype, device=start.device)
    position = (pixel + 0.5) * (length / size)[:, None] - 0.5
    position = torch.minimum(position.clamp(min=0), length[:, None] - 1) + start[:, None]
    return (1 - (position[:, :, None] - pixel).abs()).clamp_(min=0)


class ArrayImages:
    """Images in one tensor, on the device; of two dimensions only, they are not augmented.

    *statistics*, (2, channels), are mean and deviation of each channel; without any, those of the
    images. *scale* and *flip* are `augment`'s. ``content`` tells these images from others.
    """

    def __init__(self, images: Tensor, statistics: Tensor | None, *,
                 scale: Sequence[float] | None, flip: bool) -> None:
        if statistics is None:
            sums = sum(torch.stack([part.double().sum(0), part.double().square().sum(0)])
                       for part in images.split(1024))
            sums = sums.view(2, images.shape[1], -1).sum(2)
            statistics = _of_sums(sums.cpu(), images[:, 0].numel())
        self.statistics, self.images = statistics, normalize(images, statistics)
        self.content = (self.images, *statistics)
        self.shape, self.device = tuple(images.shape[1:]), images.device
        self.scale, self.flip = scale, flip

    def __len__(self) -> int:
        return len(self.images)

    def batches(self, batch_size: int, rows: Tensor | None = None,
                generator: torch.Generator | None = None) -> Iterator[Tensor]:
        """All images, or those of *rows*, in batches.

        With a *generator* they are augmented, and this process gets its part of each batch.
        """
        rows = torch.arange(len(self)) if rows is None else rows
        for part in rows.to(self.device).split(batch_size):
            images = self.images[part]
            if generator is not None and images.ndim == 4:
                # All of it in each process, so that their random numbers stay the same.
                images = augment(images, generator, self.scale, self.flip)
            yield images if generator is None else distributed.part(images)


class FolderImages:
    """The images of a folder, read in batches when they are needed.

    *shape* is that of the network's input, to whose channels they are converted. All are read once
    at first; raises InputError if one can't be.
    """

    def __init__(self, folder: Folder, shape: tuple[int, ...], statistics: Tensor | None, *,
                 scale: Sequence[float] | None, flip: bool, resize: int | None, num_workers: int,
                 device: torch.device) -> None:
        self.folder, self.shape, self.device = folder, shape, device
        self._num_workers = num_workers
        self._plain = clustering_transform(shape[1:], resize)
        self._random = training_transform(shape[1:], scale, flip, resize)
        own = distributed.part(torch.arange(len(self)))
        found = [sums for batch in self._loader(self._sums, own[:, None],
                                                torch.arange(len(own)).split(64)) for sums in batch]
        broken = sum(distributed.gathered([one for one in found if isinstance(one, str)]), [])
        if broken:
            raise InputError(f"{len(broken)} of {len(self)} images can't be used: "
                             f"{', '.join(broken[:5])}; repair or remove them")
        self.content = (distributed.rows(torch.stack(found)),)
        if statistics is None:
            statistics = _of_sums(sum(self.content[0]), len(self) * shape[1] * shape[2])
        self.statistics = statistics

    def __len__(self) -> int:
        return len(self.folder)

    def batches(self, batch_size: int, rows: Tensor | None = None,
                generator: torch.Generator | None = None) -> Iterator[Tensor]:
        """All images, or those of *rows*, in batches; see `ArrayImages.batches`."""
        items = (torch.arange(len(self)) if rows is None else rows)[:, None]
        batches = torch.arange(len(items)).split(batch_size)
        if generator is not None:
            # A seed for each image, so that its augmentation does not depend on the worker.
            seeds = torch.randint(2**31, items.shape, generator=generator)
            items, batches = torch.cat([items, seeds], 1), map(distributed.part, batches)
        for batch in self._loader(self._stacked, items, batches):
            yield normalize(batch.to(self.device, non_blocking=True), self.statistics)

    def _loader(self, read: Callable[[list], Any], items: Tensor, batches: Iterable[Tensor]
                ) -> DataLoader:
        """What *read*, called by the workers, makes of the items of each batch."""
        # The loader draws a number to seed its workers; it must not be the caller's.
        return DataLoader(items, batch_sampler=[batch.tolist() for batch in batches],
                          collate_fn=read, num_workers=self._num_workers,
                          generator=torch.Generator().manual_seed(0))

    def _stacked(self, items: list[Tensor]) -> Tensor:
        return torch.stack([self._image(*item.tolist()) for item in items])

    def _image(self, row: int, seed: int | None = None) -> Tensor:
        """An image for clustering, or for training with this seed."""
        image = self.folder[row][0].convert("L" if self.shape[0] == 1 else "RGB")
        if seed is None:
            return self._plain(image)
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(seed)
            return self._random(image)

    def _sums(self, items: list[Tensor]) -> list[Tensor | str]:
        """For each image the sums of its pixels and of their squares, or what is wrong with it."""
        found = []
        for row in map(int, items):
            try:
                pixels = self._image(row).double().flatten(1)
                found.append(torch.stack([pixels.sum(1), pixels.square().sum(1)]))
            except Exception as error:      # a damaged file can break its reader anywhere
                found.append(f"{self.folder.names[row]} ({error})")
        return found


def _of_sums(sums: Tensor, count: int) -> Tensor:
    """Mean and deviation of each channel, float32, from sums of pixels and of their squares."""
    mean = sums[0] / count
    variance = (sums[1] / count - mean**2).clamp(min=0)
    std = torch.where(variance > 1e-12, variance.sqrt(), 1)     # a constant channel becomes 0
    return torch.stack([mean, std]).float()
