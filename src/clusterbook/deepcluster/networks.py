"""Images and their augmentation, the networks that see them, and linear probes on frozen layers.

Augmentation is torchvision's or, for images in one tensor, a batched form. A network has
`features`, the representation before its last ReLU, which is clustered, and `layers`, for probes.
Layers and first weights of AlexNet and VGG-16 are those of the released code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isqrt, log, prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from .. import checks, training
from ..checks import InputError
from . import distributed

if TYPE_CHECKING:       # torchvision is imported for folders only: it takes as long as torch
    from ..datasets.own import Folder

__all__ = ["AlexNet", "ConvNet", "Sobel", "VGG16", "augment", "clustering_transform",
           "training_transform"]
#: Mean and standard deviation of ImageNet's red, green and blue, of pixels in [0, 1].
IMAGENET = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
#: Bounds of the area and of the aspect ratio of crops: torchvision's defaults, so the paper's.
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
#: Most activations kept of a layer for a probe; AlexNet's are those of ``eval_linear.py``.
MOST_NUMBERS = 9600
#: Weight of a probe's squared weights, and rounds of its L-BFGS.
PENALTY, MAX_ITER = 1e-3, 1000


def clustering_transform(size: int | Sequence[int] = 224, resize: int | None = 256) -> Callable:
    """Resize the short side, crop the middle: pixels in [0, 1], not yet normalized.

    *size*, an int or (height, width), is of the crop; without *resize* the crop just fits in.
    """
    from torchvision.transforms import v2

    size = (size, size) if isinstance(size, int) else tuple(size)
    return v2.Compose([v2.Resize(resize or max(size)), v2.CenterCrop(size), *_to_floats()])


def training_transform(size: int | Sequence[int] = 224, scale: Sequence[float] | None = SCALE,
                       flip: bool = True, resize: int | None = 256) -> Callable:
    """Resize a random part, mirror it half of the time; draws from torch's global generator.

    *scale* bounds the part of the area; None crops the middle as `clustering_transform` does.
    """
    from torchvision.transforms import v2

    crop = (clustering_transform(size, resize) if scale is None
            else v2.RandomResizedCrop(size, tuple(scale)))
    return v2.Compose([crop, v2.RandomHorizontalFlip(0.5 * flip), *_to_floats()])


def _to_floats() -> list[Callable]:
    from torchvision.transforms import v2

    return [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.ToPureTensor()]


def normalize(images: Tensor, statistics: Tensor) -> Tensor:
    """Each channel, (n_samples, channels, ...), less its mean, over its standard deviation."""
    mean, std = statistics.to(images.device).view(2, -1, *[1] * (images.ndim - 2))
    return (images - mean) / std


def augment(images: Tensor, generator: torch.Generator, scale: Sequence[float] | None = SCALE,
            flip: bool = True) -> Tensor:
    """A random part of each image, (n, channels, height, width), resized, and mirrored for half.

    *scale* bounds the part of the area, and None takes the whole image. *generator* is on the CPU.
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
    """Top, left, height and width of parts of images, int64, (n, 4).

    They are distributed as those of torchvision's ``RandomResizedCrop``: the first of ten draws
    that fits is placed at random, else the largest part in the middle is taken.
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

    *statistics*, (2, channels), are mean and deviation of each channel; by default of the images.
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
        rows = torch.arange(len(self), device=self.device) if rows is None else rows
        for part in rows.to(self.device).split(batch_size):
            images = self.images[part]
            if generator is not None and images.ndim == 4:
                # All of it in each process, so that their random numbers stay the same.
                images = augment(images, generator, self.scale, self.flip)
            yield images if generator is None else distributed.part(images)


class FolderImages:
    """The images of a folder, of the network's input *shape*, read in batches.

    All are read once at first; raises InputError if one can't be.
    """

    def __init__(self, folder: Folder, shape: tuple[int, ...], statistics: Tensor | None, *,
                 scale: Sequence[float] | None, flip: bool, resize: int | None, num_workers: int,
                 device: torch.device) -> None:
        if shape[0] not in (1, 3):
            raise InputError(f"images from files have 1 or 3 channels, not {shape[0]}")
        if resize is not None and resize < max(shape[1:]):
            raise InputError(f"resize={resize} is smaller than what is cropped then, "
                             f"{shape[1]} x {shape[2]} pixels")
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
            seeds = training.seeds(generator, items.shape)
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


# ------------------------------------------------------------------------------------ the networks


class Sobel(nn.Module):
    """The mean over channels, then two fixed edge filters: (n, channels, h, w) to (n, 2, h, w)."""

    def __init__(self) -> None:
        super().__init__()
        across = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
        self.register_buffer("filters", torch.stack([across, across.T])[:, None])

    def forward(self, images: Tensor) -> Tensor:
        """The two edge images of each."""
        return functional.conv2d(images.mean(1, keepdim=True), self.filters, padding=1)


class Network(nn.Module):
    """Base of the networks; raises InputError for images with a side below `smallest`."""

    def __init__(self, image_shape: Sequence[int] = (3, 224, 224), sobel: bool = True) -> None:
        super().__init__()
        channels, *size = checks.image_shape(image_shape)
        if min(size) < self.smallest:
            raise InputError(f"{type(self).__name__} needs images of at least {self.smallest} x "
                             f"{self.smallest} pixels, but these have {size[0]} x {size[1]}")
        self.edges = Sobel() if sobel else nn.Identity()
        convolutions, dense = self._parts(2 if sobel else channels, size)
        self.convolutions, self.dense = nn.Sequential(*convolutions), nn.Sequential(*dense)
        initialize(self)
        self.to(memory_format=torch.channels_last)

    def features(self, images: Tensor) -> Tensor:
        """The representation before its last ReLU, (n_samples, n_features)."""
        return self.dense(self.convolutions(self._inputs(images)).flatten(1))

    def forward(self, images: Tensor) -> Tensor:
        """The ReLU of the features, which a classifier is put on."""
        return functional.relu(self.features(images))

    def layers(self, images: Tensor) -> list[Tensor]:
        """Activations of each convolutional layer after its ReLU, (n_samples, channels, h, w)."""
        found, images = [], self._inputs(images)
        for part in self.convolutions:
            images = part(images)
            if isinstance(part, nn.ReLU):
                found.append(images)
        return found

    @property
    def n_layers(self) -> int:
        """The number of convolutional layers."""
        return sum(isinstance(part, nn.ReLU) for part in self.convolutions)

    def _inputs(self, images: Tensor) -> Tensor:
        # Convolutions are faster on a CPU with a pixel's channels adjacent in memory.
        return self.edges(images).contiguous(memory_format=torch.channels_last)


class ConvNet(Network):
    """A small network for images of 8 x 8 to 64 x 64 pixels; not from the paper.

    Blocks of 32, 64, 128 and, from 16 pixels on, 256 channels: convolution, pooling (but in the
    last), batch normalization and ReLU; then the mean over 2 x 2 parts, and one linear layer.
    """

    n_features, smallest = 256, 8

    def __init__(self, image_shape: Sequence[int], sobel: bool = True) -> None:
        super().__init__(image_shape, sobel)
        # With the released code's 0.01 so small a network would take epochs to start learning.
        nn.init.kaiming_normal_(self.dense[0].weight)

    def _parts(self, inputs: int, size: Sequence[int]) -> tuple[list, list]:
        found = []
        for width in (32, 64, 128) if min(size) < 16 else (32, 64, 128, 256):
            convolution, *others = _block(inputs, width, 3, padding=1)
            found += [convolution, nn.MaxPool2d(2), *others]
            inputs = width
        del found[-3]                                       # the last block does not pool
        return [*found, nn.AdaptiveAvgPool2d(2)], [nn.Linear(4 * inputs, self.n_features)]


class AlexNet(Network):
    """AlexNet of 96-256-384-384-256 filters with batch normalization and dropout."""

    n_features, smallest = 4096, 63

    def _parts(self, inputs: int, size: Sequence[int]) -> tuple[list, list]:
        convolutions = [
            *_block(inputs, 96, 11, stride=4, padding=2), nn.MaxPool2d(3, 2),
            *_block(96, 256, 5, padding=2), nn.MaxPool2d(3, 2),
            *_block(256, 384, 3, padding=1),
            *_block(384, 384, 3, padding=1),
            *_block(384, 256, 3, padding=1), nn.MaxPool2d(3, 2),
        ]
        # The last pooling's pixels are 32 apart, and each sees 63.
        area = prod((side - 31) // 32 for side in size)
        return convolutions, [nn.Dropout(0.5), *_dense(256 * area)]


class VGG16(Network):
    """VGG-16 with batch normalization."""

    n_features, smallest = 4096, 32

    def _parts(self, inputs: int, size: Sequence[int]) -> tuple[list, list]:
        convolutions = []
        for width, repeats in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(repeats):
                convolutions += _block(inputs, width, 3, padding=1)
                inputs = width
            convolutions.append(nn.MaxPool2d(2))
        return convolutions, _dense(512 * prod(side // 32 for side in size))


def _block(inputs: int, outputs: int, size: int, **options: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, size, **options), distributed.BatchNorm2d(outputs),
            nn.ReLU(inplace=True)]


def _dense(inputs: int) -> list[nn.Module]:
    return [nn.Linear(inputs, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(4096, 4096)]


def initialize(module: nn.Module) -> None:
    """Draw the first weights of convolutions and linear layers as the released code does."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            std = (0.01 if isinstance(part, nn.Linear)
                   else sqrt(2 / (prod(part.kernel_size) * part.out_channels)))
            nn.init.normal_(part.weight, 0, std)
            nn.init.zeros_(part.bias)


NETWORKS = {"convnet": ConvNet, "alexnet": AlexNet, "vgg16": VGG16}


def build(network: Any, image_shape: Sequence[int], sobel: bool = True) -> nn.Module:
    """The network of that name, or the one that a function of the image shape returns."""
    if isinstance(network, nn.Module) or getattr(network, "__module__", "").startswith(
            "torchvision."):
        raise InputError(f"{getattr(network, '__name__', type(network).__name__)} is no function "
                         "from the image shape to a module with features(images) and n_features; "
                         f"give one, or a name: {', '.join(NETWORKS)}")
    if callable(network):
        return network(tuple(image_shape))
    checks.one_of("network", network, [*NETWORKS])
    return NETWORKS[network](image_shape, sobel)


@torch.no_grad()
def outputs(network: nn.Module, batches: Iterable[Tensor], layer: int | str | None = None,
            most: int = MOST_NUMBERS) -> Iterator[Tensor]:
    """What a layer gives for each batch, in evaluation mode, (n_samples, n_numbers).

    None is the representation before its last ReLU; for others see `DeepCluster.linear_probe`.
    """
    network.eval()
    for batch in batches:
        if layer in (None, "features"):
            found = network.features(batch).float()
            yield found if layer is None else functional.relu(found)
        else:
            yield pooled(network.layers(batch)[layer - 1], most)


def pooled(activations: Tensor, most: int) -> Tensor:
    """Activations, (n, channels, h, w), averaged over a grid, (n, n_numbers).

    The grid has at most the square root of ``most / channels`` cells a side, and at least one.
    """
    channels, height, width = activations.shape[1:]
    side = max(1, isqrt(most // channels))
    grid = (min(side, height), min(side, width))
    return functional.adaptive_avg_pool2d(activations, grid).flatten(1)


def linear_accuracy(train: Tensor, y: np.ndarray, test: Tensor, y_test: np.ndarray) -> float:
    r"""Accuracy on *test*, from 0 to 1, of a linear classifier trained on *train*.

    Logistic regression on standardized numbers, (n_samples, n_numbers), by L-BFGS from zeros, with
    `PENALTY` times :math:`\lVert W \rVert^2 / 2` beside the mean loss.
    """
    mean, std = train.mean(0), train.std(0, correction=0)
    scale = torch.where(std > 1e-6 * std.max().clamp(min=1e-30), std, torch.inf).reciprocal()
    # scikit-learn adds the penalty to C times the sum of the losses.
    model = LogisticRegression(C=1 / (PENALTY * len(train)), tol=1e-6, max_iter=MAX_ITER)
    model.fit(((train - mean) * scale).numpy(), y)
    return float(model.score(((test - mean) * scale).numpy(), y_test))
