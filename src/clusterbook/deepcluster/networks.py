"""Networks: Sobel filters, AlexNet, VGG-16 and a small one; linear probes on frozen layers.

A network has `features`, the representation before its last ReLU, which is clustered, and `layers`,
for probes. Layers and first weights of AlexNet and VGG-16 are those of the released code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isqrt, prod, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from .. import checks
from ..checks import InputError
from .distributed import BatchNorm2d

#: Most activations kept of a layer for a probe; AlexNet's are those of ``eval_linear.py``.
MOST_NUMBERS = 9600
#: Weight of a probe's squared weights, and rounds of its L-BFGS.
PENALTY, MAX_ITER = 1e-3, 200


class Sobel(nn.Module):
    """The mean over channels, then two fixed edge filters: (n, channels, h, w) to (n, 2, h, w).

    As in the released code a pixel beyond the border is 0, which after normalization is the mean.
    """

    def __init__(self) -> None:
        super().__init__()
        across = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
        self.register_buffer("filters", torch.stack([across, across.T])[:, None])

    def forward(self, images: Tensor) -> Tensor:
        """The two edge images of each."""
        return functional.conv2d(images.mean(1, keepdim=True), self.filters, padding=1)


class Network(nn.Module):
    """Base of the networks: images of (channels, height, width), seen as edges or as pixels.

    `n_features` is the size of the representation. Raises InputError for images with a side below
    `smallest`.
    """

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
    return [nn.Conv2d(inputs, outputs, size, **options), BatchNorm2d(outputs),
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
    if callable(network):
        return network(tuple(image_shape))
    checks.one_of("network", network, NETWORKS)
    return NETWORKS[network](image_shape, sobel)


@torch.no_grad()
def outputs(network: nn.Module, batches: Iterable[Tensor], layer: int | str | None = None,
            most: int = MOST_NUMBERS) -> Iterator[Tensor]:
    """What a layer gives for each batch, in evaluation mode, (n_samples, n_numbers).

    None is the representation before its last ReLU, ``"features"`` that after it, and a number,
    from 1, a convolutional layer, `pooled`.
    """
    network.eval()
    for batch in batches:
        if layer in (None, "features"):
            found = network.features(batch).float()
            yield found if layer is None else functional.relu(found)
        else:
            yield pooled(network.layers(batch)[layer - 1], most)


def pooled(activations: Tensor, most: int) -> Tensor:
    """Activations, (n, channels, h, w), averaged over the finest grid of at most *most* numbers."""
    channels, height, width = activations.shape[1:]
    side = max(1, isqrt(most // channels))
    grid = (min(side, height), min(side, width))
    return functional.adaptive_avg_pool2d(activations, grid).flatten(1)


def linear_accuracy(train: Tensor, y: np.ndarray, test: Tensor, y_test: np.ndarray) -> float:
    r"""Accuracy on *test*, from 0 to 1, of a linear classifier trained on *train*.

    Multinomial logistic regression on standardized numbers, (n_samples, n_numbers), by L-BFGS from
    zeros: the mean of :math:`-\log \mathrm{softmax}(W x_n + b)_{y_n}` and `PENALTY` times
    :math:`\lVert W \rVert^2 / 2`. Nothing about it is random.
    """
    classes, targets = np.unique(y, return_inverse=True)
    mean, std = train.mean(0), train.std(0, correction=0)
    scale = torch.where(std > 1e-6 * std.max().clamp(min=1e-30), std, torch.inf).reciprocal()
    x, target = (train - mean) * scale, torch.as_tensor(targets)
    weight = torch.zeros(len(classes), x.shape[1], requires_grad=True)
    bias = torch.zeros(len(classes), requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=MAX_ITER, history_size=10,
                                  tolerance_grad=1e-5, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (functional.cross_entropy(functional.linear(x, weight, bias), target)
                + PENALTY / 2 * weight.square().sum())
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        predicted = functional.linear((test - mean) * scale, weight, bias).argmax(1)
    return float((classes[predicted.numpy()] == np.asarray(y_test)).mean())
