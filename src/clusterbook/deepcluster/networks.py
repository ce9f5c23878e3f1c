"""The networks: fixed Sobel filters, AlexNet and VGG-16 with batch normalization, a small one.

Each has `features`, the representation before its last ReLU, which is what is clustered; and
`layers`, what each convolutional layer answers, for probes. A classifier stands on the ReLU of the
features. Layers and first weights of AlexNet and VGG-16 are those of the released code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt
from numbers import Integral

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..batchnorm import BatchNorm2d
from ..errors import InputError, unknown


class Sobel(nn.Module):
    """Gray, then two fixed edge filters: (n, 1 or 3, h, w) to (n, 2, h, w).

    An image's gray is the mean of its channels; a gray one goes to the filters directly. As in the
    released code a pixel beyond the border is 0, which after normalization is the mean. Nothing
    here is trained.
    """

    def __init__(self) -> None:
        super().__init__()
        across = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
        self.register_buffer("filters", torch.stack([across, across.T])[:, None])

    def forward(self, images: Tensor) -> Tensor:
        """The two edge images of each, without a gradient to the filters."""
        return functional.conv2d(images.mean(1, keepdim=True), self.filters, padding=1)


class Network(nn.Module):
    """What the networks share.

    Attributes
    ----------
    n_features : int
        Size of the representation.
    n_layers : int
        Convolutional layers.
    """

    n_features: int

    def __init__(self, image_shape: Sequence[int], sobel: bool, smallest: int) -> None:
        super().__init__()
        channels, height, width = checked_shape(image_shape)
        if min(height, width) < smallest:
            raise InputError(f"{type(self).__name__} takes images of at least {smallest} x "
                             f"{smallest} pixels, but these have {height} x {width}; make them "
                             "larger, or take another network")
        if sobel and channels not in (1, 3):
            raise InputError("Sobel filters take images of 1 or 3 channels, but these have "
                             f"{channels}; set sobel=False")
        self.edges = Sobel() if sobel else nn.Identity()
        self.n_inputs = 2 if sobel else channels
        self.convolutions = nn.Sequential()
        self.dense = nn.Sequential()

    def features(self, images: Tensor) -> Tensor:
        """The representation before its last ReLU, (n_samples, n_features)."""
        return self.dense(self.convolutions(self._seen(images)).flatten(1))

    def forward(self, images: Tensor) -> Tensor:
        """What a classifier is put on: the ReLU of the features."""
        return functional.relu(self.features(images))

    def layers(self, images: Tensor) -> list[Tensor]:
        """What each convolutional layer answers after its ReLU, (n_samples, channels, h, w)."""
        found, images = [], self._seen(images)
        for part in self.convolutions:
            images = part(images)
            if isinstance(part, nn.ReLU):
                found.append(images)
        return found

    @property
    def n_layers(self) -> int:
        """The number of convolutional layers."""
        return sum(isinstance(part, nn.ReLU) for part in self.convolutions)

    def _seen(self, images: Tensor) -> Tensor:
        # With its channels beside each other an image is convolved faster on a CPU.
        return self.edges(images).contiguous(memory_format=torch.channels_last)

    def _begin(self) -> None:
        """The first weights of the released code."""
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.normal_(part.weight, 0, sqrt(2 / (prod(part.kernel_size)
                                                          * part.out_channels)))
            elif isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, 0, 0.01)
            if isinstance(part, nn.Conv2d | nn.Linear):
                nn.init.zeros_(part.bias)
        self.to(memory_format=torch.channels_last)


class ConvNet(Network):
    """A small network for images of 8 x 8 to 64 x 64 pixels; not of the paper.

    Blocks of a 3 x 3 convolution, pooling to half the size in all but the last, batch normalization
    and ReLU; the last answers are averaged to 2 x 2, from where one linear layer leads to the
    features. Pooling first leaves a quarter of the numbers to normalize.

    Parameters
    ----------
    image_shape : tuple of int
        (channels, height, width), at least 8 x 8.
    sobel : bool
        Whether it sees the edges or the pixels.
    widths : sequence of int
        Channels of the blocks; images below 16 pixels leave the last one out.
    n_features : int

    Examples
    --------
    >>> network = ConvNet((1, 8, 8))
    >>> images = torch.rand(5, 1, 8, 8)
    >>> network.features(images).shape, [tuple(a.shape[1:]) for a in network.layers(images)]
    (torch.Size([5, 256]), [(32, 4, 4), (64, 2, 2), (128, 2, 2)])
    """

    def __init__(self, image_shape: Sequence[int], sobel: bool = True,
                 widths: Sequence[int] = (32, 64, 128, 256), n_features: int = 256) -> None:
        super().__init__(image_shape, sobel, smallest=8)
        widths = tuple(widths)[: 3 if min(image_shape[1:]) < 16 else None]
        parts: list[nn.Module] = []
        inputs = self.n_inputs
        for width in widths:
            convolution, *rest = _block(inputs, width, 3, padding=1)
            last = len(parts) == 4 * (len(widths) - 1)
            parts += [convolution, *([] if last else [nn.MaxPool2d(2)]), *rest]
            inputs = width
        if min(image_shape[1:]) >> (len(widths) - 1) > 2 or image_shape[1] != image_shape[2]:
            parts.append(nn.AdaptiveAvgPool2d(2))
        self.convolutions = nn.Sequential(*parts)
        self.dense = nn.Sequential(nn.Linear(4 * inputs, n_features))
        self.n_features = n_features
        self._begin()
        # At the released code's 0.01 so small a network would take epochs to begin to learn.
        nn.init.kaiming_normal_(self.dense[0].weight)


class AlexNet(Network):
    """AlexNet of 96-256-384-384-256 filters with batch normalization and dropout.

    Parameters
    ----------
    image_shape : tuple of int
        (channels, height, width), at least 63 x 63; 224 x 224 in the paper.
    sobel : bool
        Whether it sees the edges, as in the paper, or the pixels.
    """

    n_features = 4096

    def __init__(self, image_shape: Sequence[int] = (3, 224, 224), sobel: bool = True) -> None:
        super().__init__(image_shape, sobel, smallest=63)
        self.convolutions = nn.Sequential(
            *_block(self.n_inputs, 96, 11, stride=4, padding=2), nn.MaxPool2d(3, 2),
            *_block(96, 256, 5, padding=2), nn.MaxPool2d(3, 2),
            *_block(256, 384, 3, padding=1),
            *_block(384, 384, 3, padding=1),
            *_block(384, 256, 3, padding=1), nn.MaxPool2d(3, 2),
        )
        self.dense = nn.Sequential(
            nn.Dropout(0.5), nn.Linear(256 * _area(self, image_shape), 4096), nn.ReLU(inplace=True),
            nn.Dropout(0.5), nn.Linear(4096, 4096),
        )
        self._begin()


class VGG16(Network):
    """VGG-16 with batch normalization.

    Parameters
    ----------
    image_shape : tuple of int
        (channels, height, width), at least 32 x 32; 224 x 224 in the paper.
    sobel : bool
        Whether it sees the edges, as in the paper, or the pixels.
    """

    n_features = 4096

    def __init__(self, image_shape: Sequence[int] = (3, 224, 224), sobel: bool = True) -> None:
        super().__init__(image_shape, sobel, smallest=32)
        parts: list[nn.Module] = []
        inputs = self.n_inputs
        for width, repeats in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(repeats):
                parts += _block(inputs, width, 3, padding=1)
                inputs = width
            parts.append(nn.MaxPool2d(2))
        self.convolutions = nn.Sequential(*parts)
        self.dense = nn.Sequential(
            nn.Linear(512 * _area(self, image_shape), 4096), nn.ReLU(inplace=True),
            nn.Dropout(0.5), nn.Linear(4096, 4096),
        )
        self._begin()


NETWORKS: dict[str, type[Network]] = {"convnet": ConvNet, "alexnet": AlexNet, "vgg16": VGG16}


def build(network: str | Callable[..., nn.Module], image_shape: Sequence[int], sobel: bool = True
          ) -> nn.Module:
    """The network of that name, or what a function of the image shape makes.

    Raises
    ------
    InputError
        If there is no such network, it takes no such images, or what the function makes has no
        ``features`` and ``n_features``.
    """
    if isinstance(network, str):
        if network not in NETWORKS:
            raise unknown("network", network, NETWORKS)
        return NETWORKS[network](image_shape, sobel=sobel)
    if not callable(network):
        raise InputError(f"network must be a name or a function of the image shape that makes a "
                         f"module, not {network!r}")
    made = network(tuple(image_shape))
    if (not isinstance(made, nn.Module) or not callable(getattr(made, "features", None))
            or not isinstance(getattr(made, "n_features", None), Integral)):
        raise InputError("what network makes must be a module with features(images), the "
                         "representation before its last ReLU, and its size n_features")
    return made


def checked_shape(image_shape: Sequence[int]) -> tuple[int, int, int]:
    """(channels, height, width); raises InputError for anything else."""
    try:
        channels, height, width = image_shape
        whole = all(isinstance(size, Integral) and not isinstance(size, bool) and size > 0
                    for size in image_shape)
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise InputError("image_shape must be three positive whole numbers, (channels, height, "
                         f"width), not {image_shape!r}")
    return int(channels), int(height), int(width)


def _block(inputs: int, outputs: int, size: int, **options: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, size, **options), BatchNorm2d(outputs),
            nn.ReLU(inplace=True)]


@torch.no_grad()
def _area(network: Network, image_shape: Sequence[int]) -> int:
    """Pixels of what the convolutions leave of an image, found without computing it."""
    height, width = image_shape[1:]
    for part in network.convolutions:
        if isinstance(part, nn.Conv2d | nn.MaxPool2d):
            size, stride, padding = (value if isinstance(value, tuple) else (value, value)
                                     for value in (part.kernel_size, part.stride, part.padding))
            height = (height + 2 * padding[0] - size[0]) // stride[0] + 1
            width = (width + 2 * padding[1] - size[1]) // stride[1] + 1
    return height * width
