"""What happens to an image before the network sees it: when it is clustered, and when it trains.

For clustering nothing is random: resize, crop the middle. For training a random part of the image
is resized, and mirrored half of the time. Pictures from files go through torchvision's transforms,
as in the released code; images in one tensor through batched forms of the same, with boxes of the
same distribution and the same pixels for a box.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import torch
from torch import Tensor
from torchvision.transforms import v2

#: Mean and standard deviation of ImageNet's red, green and blue, of pixels in [0, 1].
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
#: torchvision's default, and so the paper's: parts of 8 to 100 % of the area.
SCALE = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
_ATTEMPTS = 10


def clustering_transform(size: int | Sequence[int] = 224, resize: int | None = 256) -> v2.Compose:
    """Scale the short side, crop the middle: pixels in [0, 1], not yet normalized.

    Parameters
    ----------
    size : int or (height, width)
        Of what is cropped, in pixels.
    resize : int, optional
        Length of the short side before; by default so that the crop just fits in.

    Returns
    -------
    Compose
        From a picture, or a tensor (channels, height, width) of bytes or of floats in [0, 1], to a
        tensor of floats in [0, 1].
    """
    size = (size, size) if isinstance(size, int) else tuple(size)
    scale = v2.Resize(max(size) if resize is None else resize)
    return v2.Compose([scale, v2.CenterCrop(size), *_to_floats()])


def training_transform(size: int | Sequence[int] = 224, scale: Sequence[float] | None = SCALE,
                       flip: bool = True, resize: int | None = 256) -> v2.Compose:
    """Resize a random part, mirror it half of the time: pixels in [0, 1], not yet normalized.

    Parameters
    ----------
    size : int or (height, width)
        Of the result, in pixels.
    scale : (float, float), optional
        Smallest and largest part of the image's area; None crops the middle as for clustering.
    flip : bool
        Whether images are mirrored; digits must not be.
    resize : int, optional
        As for `clustering_transform`, where *scale* is None.

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


def normalize(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Each channel, (n_samples, channels, ...), less its mean, over its standard deviation."""
    shape = (-1, *[1] * (images.ndim - 2))
    return (images - mean.view(shape)) / std.view(shape)


# ------------------------------------------------------------------------- images in one tensor


def random_boxes(n: int, height: int, width: int, generator: torch.Generator,
                 scale: Sequence[float] = SCALE, ratio: Sequence[float] = RATIO) -> Tensor:
    """Random parts of images, distributed as torchvision's ``RandomResizedCrop`` has them.

    An area is uniform in *scale*, the logarithm of an aspect ratio in *ratio*; of ten such the
    first that fits into the image is placed in it at random. Where none does, it is the largest
    part in the middle whose ratio is in bounds.

    Parameters
    ----------
    n : int
        Boxes.
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
    # What torchvision falls back on.
    own = width / height
    last_w = round(height * ratio[1]) if own > ratio[1] else width
    last_h = round(width / ratio[0]) if own < ratio[0] else height
    middle = torch.tensor([(height - last_h) // 2, (width - last_w) // 2, last_h, last_w])
    return torch.where(fits.any(1)[:, None], torch.stack([top, left, h, w], 1), middle)


def crop_and_resize(images: Tensor, boxes: Tensor, mirrored: Tensor) -> Tensor:
    """Blow each image's box up to the image's size, and mirror some.

    Between pixels it is linear, and beyond a box's border its edge goes on, as in torchvision.

    Parameters
    ----------
    images : Tensor of shape (n, channels, height, width)
    boxes : Tensor of int64, shape (n, 4)
        Top, left, height, width of each.
    mirrored : Tensor of bool, shape (n,)

    Returns
    -------
    Tensor
        As *images*.
    """
    top, left, h, w = boxes.to(images).unbind(1)
    across = _weights(left, w, images.shape[3])
    across = torch.where(mirrored[:, None, None], across.flip(1), across)
    down = _weights(top, h, images.shape[2])
    return down[:, None] @ images @ across.transpose(1, 2)[:, None]


def _weights(begin: Tensor, length: Tensor, size: int) -> Tensor:
    """How much of each old pixel is in each new one, (n, size, size)."""
    pixel = torch.arange(size, dtype=begin.dtype, device=begin.device)
    position = (pixel + 0.5) * (length / size)[:, None] - 0.5
    position = torch.minimum(position.clamp(min=0), length[:, None] - 1) + begin[:, None]
    return (1 - (position[:, :, None] - pixel).abs()).clamp_(min=0)


def augment(images: Tensor, generator: torch.Generator, scale: Sequence[float] | None = SCALE,
            flip: bool = True) -> Tensor:
    """A random part of each image, resized, and mirrored half of the time.

    Parameters
    ----------
    images : Tensor of shape (n, channels, height, width)
        On any device.
    generator : torch.Generator
        On the CPU.
    scale : (float, float), optional
        Smallest and largest part of the area; None takes the whole image.
    flip : bool

    Returns
    -------
    Tensor
        As *images*.
    """
    n, _, height, width = images.shape
    mirrored = torch.rand(n, generator=generator) < 0.5 if flip else torch.zeros(n, dtype=bool)
    mirrored = mirrored.to(images.device)
    if scale is None:
        return torch.where(mirrored[:, None, None, None], images.flip(3), images)
    boxes = random_boxes(n, height, width, generator, scale)
    return crop_and_resize(images, boxes.to(images.device), mirrored)
