r"""k-means as a layer (section 2.2 of the paper), and the networks before it (section 4.2).

The squared distance of a sample :math:`x` to a center :math:`\Omega_j` is

.. math:: \|x - \Omega_j\|^2 = \|x\|^2 - W_j^\top x - b_j, \quad
          W_j = 2\Omega_j, \quad b_j = -\|\Omega_j\|^2

(Eqs. 4 to 6), a linear layer and a term that all clusters share. On the unit sphere it is
:math:`2 - W_j^\top x`. The released code scales the weights: :math:`W_j = 2\alpha\Omega_j`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from .. import checks
from ..checks import InputError
from ..training import BatchNorm2d

__all__ = ["ClusterLayer", "ConvAutoencoder", "DenseAutoencoder", "FixedFeatures",
           "clustering_loss", "squared_distance"]
#: A normalized gradient has this share of the length of the weights (section 4.1 of the paper).
STEP_SHARE = 0.1
#: Samples at a time where no gradient is needed.
_CHUNK = 4096


def squared_distance(logits: Tensor, alpha: float) -> Tensor:
    r"""Mean squared distance to the nearest center, :math:`2 - 2\cos` (Eq. 13 of the paper).

    A scalar from 0 to 4, up to rounding; Eq. 13 is the sum over samples. *logits*, (n_samples,
    n_clusters), are :math:`W z` with unit :math:`z` and rows of :math:`W` of length
    :math:`2\alpha`.
    """
    return 2 - logits.max(1).values.mean() / alpha


def clustering_loss(logits: Tensor, alpha: float) -> Tensor:
    r"""The clustering loss of the released code, before the factor 0.01.

    .. math:: \frac{1}{\alpha B K} \sum_{i,j} (2\alpha - \delta_{ij} W_j^\top z_i)

    with :math:`\delta_{ij} = 1` for the largest logit of a sample. The mean runs over clusters too,
    so the gradient is that of `squared_distance` divided by the number of clusters. A scalar, at
    least :math:`2 - 2/K`, of *logits* of shape (n_samples, n_clusters).
    """
    return 2 - logits.max(1).values.mean() / (alpha * logits.shape[1])


class ClusterLayer(nn.Module):
    r"""A linear layer whose rows are the cluster centers, to be put behind any encoder.

    ``weight`` is :math:`W = 2\alpha\Omega` with unit centers :math:`\Omega`. Call the layer for
    the loss; before an optimizer's step call `normalize_gradient`, after it `normalize_centers`.
    The scale *alpha* cancels in the loss and sets the length of a step: with plain gradient descent
    and learning rate 1 it is 10% of a center's length for every *alpha*; with Adadelta only while
    :math:`0.2\alpha` is small against the square root of its epsilon. Raises InputError for a size
    or *alpha* that is not positive.

    Examples
    --------
    >>> import torch
    >>> from clusterbook.tell import ClusterLayer
    >>> layer = ClusterLayer(n_clusters=2, n_features=2)
    >>> layer.reset_centers(torch.tensor([[3.0, 0.0], [0.0, 0.5]]))
    >>> z = torch.tensor([[2.0, 1.0], [0.0, 7.0]])
    >>> optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    >>> layer(z).backward()
    >>> layer.normalize_gradient()
    >>> optimizer.step()
    >>> layer.normalize_centers()
    >>> layer.centers()
    tensor([[0.9992, 0.0410],
            [0.0000, 1.0000]])
    """

    def __init__(self, n_clusters: int, n_features: int, alpha: float = 1e-3):
        super().__init__()
        checks.whole("n_clusters", n_clusters, 1)
        checks.whole("n_features", n_features, 1)
        checks.number("alpha", alpha)
        self.alpha = alpha
        self.weight = nn.Parameter(torch.empty(n_clusters, n_features))
        self.reset_centers()

    @torch.no_grad()
    def reset_centers(self, centers: Tensor | None = None) -> None:
        """Start from these centers, (n_clusters, n_features), or from Kaiming-uniform random ones.

        They are brought to unit length. Raises InputError for another shape, or if one is not
        finite or is zero.
        """
        if centers is None:
            nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))  # as torch's own linear layer
        else:
            centers = torch.as_tensor(centers)
            if (centers.shape != self.weight.shape or not torch.isfinite(centers).all()
                    or not (centers != 0).any(1).all()):
                raise InputError(f"centers must have shape {tuple(self.weight.shape)} and finite "
                                 "values, not all of a center's values 0")
            self.weight.copy_(centers / centers.abs().amax(1, keepdim=True))
        self.normalize_centers()

    @torch.no_grad()
    def normalize_centers(self) -> None:
        r"""Bring each row of the weights back to the length :math:`2\alpha`, after each step."""
        self.weight.copy_(functional.normalize(self.weight, dim=1) * (2 * self.alpha))

    @torch.no_grad()
    def normalize_gradient(self) -> None:
        """Give each center's gradient 10% of its weights' length, but for zero gradients."""
        unit = functional.normalize(self.weight.grad, dim=1)
        self.weight.grad.copy_(unit * (STEP_SHARE * 2 * self.alpha))

    @torch.no_grad()
    def centers(self) -> Tensor:
        r"""The centers :math:`\Omega = W / 2\alpha`: unit vectors, (n_clusters, n_features)."""
        return self.weight / (2 * self.alpha)

    def logits(self, z: Tensor) -> Tensor:
        r""":math:`W z` for unit *z*, (n_samples, n_clusters): the linear part of Eqs. 4 to 6."""
        return functional.linear(z, self.weight)

    def forward(self, z: Tensor) -> Tensor:
        """The `squared_distance` (Eq. 13) of *z*, (n_samples, n_features), of any length."""
        return squared_distance(self.logits(functional.normalize(z, dim=1)), self.alpha)

    @torch.no_grad()
    def cluster(self, z: Tensor, soft: bool = False, temperature: float = 0.1) -> Tensor:
        r"""The nearest center of each sample, or its soft assignment (Eqs. 7 and 8).

        *z*, (n_samples, n_features), may have any length. Returns (n_samples,) of int64; if *soft*,
        (n_samples, n_clusters): :math:`\mathrm{softmax}_j(-\|z - \Omega_j\|^2 / \tau)` with the
        *temperature* :math:`\tau` in units of squared distance, which runs from 0 to 4.
        """
        checks.number("temperature", temperature)
        logits = self.logits(functional.normalize(z, dim=1))
        # ‖z - Ω‖² = 2 - logits/α, and the 2 cancels in the softmax
        return (logits / (self.alpha * temperature)).softmax(1) if soft else logits.argmax(1)


# -------------------------------------------------------------------------------- the networks


class Autoencoder(nn.Module):
    """An ``encoder`` to unit vectors of ``embedding_size`` numbers, a ``decoder`` to samples."""

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
    sigmoid. Raises InputError unless height and width are divisible by 4.
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
        encoder += [nn.Flatten(), nn.Linear(math.prod(small), 256), nn.ReLU(),
                    nn.Linear(256, embedding_size)]
        decoder = [nn.Linear(embedding_size, 256), nn.ReLU(), nn.Linear(256, math.prod(small)),
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

    *hidden* are the widths, and *dropout* comes before each layer, of the encoder. The output ends
    in a *sigmoid*, for pixels, or is linear, for tables.
    """

    def __init__(self, n_features: int, hidden: Sequence[int] = (500, 500, 2000),
                 embedding_size: int = 10, dropout: float = 0.2, sigmoid: bool = True):
        super().__init__()
        checks.wholes("hidden", hidden)
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
        """The samples decoded, and the logits of their embeddings; counted as a step's."""
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
