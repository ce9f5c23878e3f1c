"""The autoencoders of the paper (section 4.2), none at all, and the model with its cluster layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from .. import checks
from ..batchnorm import BatchNorm2d
from ..errors import InputError
from .layer import ClusterLayer, squared_distance

_CHUNK = 4096                               # samples at a time where no gradient is needed


class Autoencoder(nn.Module):
    """An `encoder` to unit vectors of `embedding_size` numbers, and a `decoder` back to samples."""

    def encode(self, X: Tensor) -> Tensor:
        """The embedding of samples, images flattened: unit vectors, (n_samples, embedding_size)."""
        z = self.encoder(X)
        return functional.normalize(z.float() if z.dtype == torch.bfloat16 else z, dim=1)

    def decode(self, z: Tensor) -> Tensor:
        """The samples that *z* stands for, (n_samples, n_features)."""
        return self.decoder(z)


class ConvAutoencoder(Autoencoder):
    """Four convolutions and two linear layers, mirrored; the images halve twice.

    Batch normalization and ReLU follow each convolution but the decoder's last, which ends in a
    sigmoid, so that pixels lie in [0, 1]. Raises InputError unless *image_shape* is (channels,
    height, width) with height and width divisible by 4.

    Examples
    --------
    >>> network = ConvAutoencoder((1, 28, 28))
    >>> z = network.encode(torch.rand(2, 784))
    >>> z.shape, network.decode(z).shape
    (torch.Size([2, 10]), torch.Size([2, 784]))
    """

    def __init__(self, image_shape: Sequence[int], embedding_size: int = 10):
        super().__init__()
        channels, height, width = checks.image_shape(image_shape)
        if height % 4 or width % 4:
            raise InputError("the images' height and width must be divisible by 4, but are "
                             f"{height} and {width}; pad or crop them, or take network='fcn'")
        small = (16, height // 4, width // 4)
        encoder = [nn.Unflatten(1, (channels, height, width)), _ChannelsLast()]
        for inputs, outputs, stride in ((channels, 16, 1), (16, 32, 2), (32, 32, 1), (32, 16, 2)):
            encoder += [nn.Conv2d(inputs, outputs, 3, stride, padding=1),
                        BatchNorm2d(outputs), nn.ReLU(inplace=True)]
        encoder += [nn.Flatten(), nn.Linear(prod(small), 256), nn.ReLU(),
                    nn.Linear(256, embedding_size)]
        decoder = [nn.Linear(embedding_size, 256), nn.ReLU(), nn.Linear(256, prod(small)),
                   nn.Unflatten(1, small), _ChannelsLast()]
        for inputs, outputs, stride in ((16, 32, 2), (32, 32, 1), (32, 16, 2)):
            decoder += [nn.ConvTranspose2d(inputs, outputs, 3, stride, padding=1,
                                           output_padding=stride - 1),
                        BatchNorm2d(outputs), nn.ReLU(inplace=True)]
        decoder += [nn.ConvTranspose2d(16, channels, 3, padding=1), nn.Sigmoid(), nn.Flatten()]
        self.embedding_size = embedding_size
        self.encoder, self.decoder = nn.Sequential(*encoder), nn.Sequential(*decoder)
        self.to(memory_format=torch.channels_last)


class _ChannelsLast(nn.Module):
    """The memory format in which convolutions are faster on a CPU."""

    def forward(self, images: Tensor) -> Tensor:
        return images.contiguous(memory_format=torch.channels_last)


class DenseAutoencoder(Autoencoder):
    """Linear layers with ReLU between them, mirrored: the paper's FCN, 500-500-2000-10.

    *hidden* are the neurons of the encoder's hidden layers; *dropout* is the rate before each of
    its layers. The output ends in a *sigmoid*, for pixels, or is linear, for tables.
    """

    def __init__(self, n_features: int, hidden: Sequence[int] = (500, 500, 2000),
                 embedding_size: int = 10, dropout: float = 0.2, sigmoid: bool = True):
        super().__init__()
        for width in hidden:
            checks.whole("each of hidden", width, 1)
        if not 0 <= dropout < 1:
            raise InputError(f"dropout must be a number from 0 to below 1, not {dropout!r}")
        widths = [n_features, *hidden, embedding_size]
        down, up = [], []
        for inputs, outputs in pairwise(widths):
            down += [nn.Dropout(dropout), nn.Linear(inputs, outputs), nn.ReLU()]
        for inputs, outputs in pairwise(widths[::-1]):
            up += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.embedding_size = embedding_size
        self.encoder = nn.Sequential(*down[:-1])
        self.decoder = nn.Sequential(*up[:-1], *([nn.Sigmoid()] if sigmoid else []))


class FixedFeatures(Autoencoder):
    """No network: samples are only brought to length 1 (Table 5 of the paper)."""

    def __init__(self, n_features: int):
        super().__init__()
        self.embedding_size = n_features
        self.encoder = self.decoder = nn.Identity()


class Model(nn.Module):
    """An autoencoder and its cluster layer: what is trained, saved and restored together."""

    def __init__(self, network: Autoencoder, layer: ClusterLayer):
        super().__init__()
        self.network, self.layer = network, layer

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The samples decoded, and the logits of their embeddings."""
        z = self.network.encode(X)
        return self.network.decode(z), self.layer.logits(z)

    @torch.no_grad()
    def embed(self, X: Tensor) -> Tensor:
        """The embedding of any number of samples, (n_samples, embedding_size)."""
        return torch.cat([self.network.encode(part) for part in X.split(_CHUNK)])

    @torch.no_grad()
    def assign(self, z: Tensor) -> tuple[np.ndarray, float]:
        """The nearest center of each embedding, and the mean squared distance to it."""
        logits = self.layer.logits(z)
        return logits.argmax(1).cpu().numpy(), float(squared_distance(logits, self.layer.alpha))
