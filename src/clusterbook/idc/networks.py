"""The networks of IDC, and the model that holds them.

Hidden layers of autoencoder and classifiers are linear, batch normalization, ReLU. First weights
have a standard deviation of only 0.001, which batch normalization makes up for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .losses import hard_gates, random_projection

_CHUNK = 4096                               # samples at a time where no gradient is needed


class Autoencoder(nn.Module):
    """Dense layers to an embedding and back, of any widths.

    Parameters
    ----------
    n_features : int
    widths : sequence of int
        Neurons of each layer but the output, encoder first; the one at `embedding_index` is the
        embedding, without normalization and ReLU. The two sides may differ.

    Attributes
    ----------
    encoder, decoder : Sequential
    embedding_size : int

    Examples
    --------
    >>> network = Autoencoder(13, [8, 3, 8])
    >>> z = network.encoder(torch.rand(5, 13))
    >>> z.shape, network.decoder(z).shape
    (torch.Size([5, 3]), torch.Size([5, 13]))
    """

    def __init__(self, n_features: int, widths: Sequence[int]):
        super().__init__()
        middle = embedding_index(widths)
        self.embedding_size = widths[middle]
        self.encoder = _dense([n_features, *widths[:middle + 1]])
        self.decoder = _dense([*widths[middle:], n_features])

    def forward(self, X: Tensor) -> Tensor:
        """Each sample, encoded and decoded: (n_samples, n_features)."""
        return self.decoder(self.encoder(X))

    def encode(self, *batches: Tensor) -> tuple[Tensor, ...]:
        """The embeddings of batches of equal size; see `apply_apart`."""
        return apply_apart(self.encoder, *batches)

    def decode(self, *batches: Tensor) -> tuple[Tensor, ...]:
        """The samples that batches of embeddings stand for; see `apply_apart`."""
        return apply_apart(self.decoder, *batches)


def embedding_index(widths: Sequence[int]) -> int:
    """The index of the embedding in an autoencoder's widths.

    Examples
    --------
    >>> embedding_index([512, 512, 2048, 10, 2048, 512, 512])
    3
    """
    return len(widths) // 2


def apply_apart(layers: nn.Sequential, *batches: Tensor) -> tuple[Tensor, ...]:
    """Apply layers to several batches with separate batch-norm statistics.

    The same as one call per batch, in order, and faster: the products are of all rows together.
    Batches have shape (n_rows, n_inputs) and the same number of rows; so do the outputs.

    Examples
    --------
    >>> network = Autoencoder(4, [8, 3, 8]).encoder
    >>> small, large = apply_apart(network, torch.rand(5, 4), 9 * torch.rand(5, 4))
    >>> small.shape, large.shape
    (torch.Size([5, 3]), torch.Size([5, 3]))
    """
    rows, n_rows = torch.cat(batches), len(batches[0])
    for layer in layers:
        if isinstance(layer, nn.BatchNorm1d):
            rows = torch.cat([layer(batch) for batch in rows.split(n_rows)])
        else:
            rows = layer(rows)
    return rows.split(n_rows)


class GatingNetwork(nn.Module):
    r"""Local gates: maps a sample to its own :math:`\mu`, one per feature.

    Two linear layers, each followed by tanh; at first every gate is near one half.

    Examples
    --------
    >>> network = GatingNetwork(n_features=6, hidden=4)
    >>> hard_gates(network(torch.rand(2, 6))).shape
    torch.Size([2, 6])
    """

    def __init__(self, n_features: int, hidden: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_features, hidden), nn.Tanh(),
            nn.Linear(hidden, n_features), nn.Tanh()).apply(_initialize)

    def forward(self, X: Tensor) -> Tensor:
        r""":math:`\mu` of each sample and feature, (n_samples, n_features), between -1 and 1."""
        return self.layers(X)


class GlobalGates(nn.Module):
    r"""Global gates: each cluster has its own :math:`\mu`, one per feature.

    Attributes
    ----------
    weight : Parameter of shape (n_clusters, n_features)
        :math:`\mu = \tanh(\mathrm{weight})`; first weights have standard deviation 0.01.

    Examples
    --------
    >>> gates = GlobalGates(n_clusters=3, n_features=5)
    >>> gates(torch.tensor([2, 0])).shape, gates.matrix().shape
    (torch.Size([2, 5]), torch.Size([3, 5]))
    """

    def __init__(self, n_clusters: int, n_features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_clusters, n_features))
        nn.init.normal_(self.weight, std=0.01)

    def forward(self, labels: Tensor) -> Tensor:
        r""":math:`\mu` of each sample's cluster, (n_samples, n_features), between -1 and 1."""
        return self.weight.tanh().index_select(0, labels)

    @torch.no_grad()
    def matrix(self) -> Tensor:
        """The gates of all clusters without noise, (n_clusters, n_features)."""
        return hard_gates(self.weight.tanh())


def classifier(n_inputs: int, hidden: int, n_clusters: int) -> nn.Sequential:
    """One hidden layer: the clustering head on embeddings, the auxiliary classifier on samples.

    Examples
    --------
    >>> classifier(10, 32, n_clusters=4)(torch.rand(5, 10)).shape
    torch.Size([5, 4])
    """
    return _dense([n_inputs, hidden, n_clusters])


class Model(nn.Module):
    """All networks: trained, saved and restored together.

    Parameters
    ----------
    n_features, n_clusters : int
    widths : sequence of int
        Of the autoencoder.
    gates, head, auxiliary : int
        Hidden widths of the gating network, of the clustering head and of the auxiliary
        classifier; None for *gates* leaves all gates at 1.
    projection : int, optional
        Dimension of the random projection for the coding rate of the gates.
    """

    def __init__(self, n_features: int, n_clusters: int, widths: Sequence[int], *,
                 gates: int | None, head: int, auxiliary: int, projection: int | None = None):
        super().__init__()
        self.gating = None if gates is None else GatingNetwork(n_features, gates)
        self.autoencoder = Autoencoder(n_features, widths)
        self.head = classifier(self.autoencoder.embedding_size, head, n_clusters)
        self.auxiliary = classifier(n_features, auxiliary, n_clusters)
        self.global_gates = GlobalGates(n_clusters, n_features)
        self.register_buffer("projection", None if projection is None
                             else random_projection(n_features, projection))

    @torch.no_grad()
    def local_gates(self, X: Tensor) -> Tensor:
        """Gates of any number of samples, without noise, (n_samples, n_features)."""
        if self.gating is None:
            return torch.ones_like(X)
        return _by_chunks(lambda part: hard_gates(self.gating(part)), X)

    @torch.no_grad()
    def embed(self, gated: Tensor) -> Tensor:
        """The embedding of any number of gated samples, (n_samples, embedding_size)."""
        return _by_chunks(self.autoencoder.encoder, gated)

    @torch.no_grad()
    def cluster(self, embedding: Tensor) -> Tensor:
        """The cluster of each embedding, (n_samples,)."""
        return self.head(embedding).argmax(1)

    @torch.no_grad()
    def calibrate(self, gated: Tensor) -> None:
        """Set batch normalization's means and variances to those of the gated samples.

        The first training leaves averages over clean, gated and masked inputs, which fit none of
        them. The released code replaces them within some batches of its second training, because
        there the frozen encoder stays in training mode.
        """
        layers = [layer for layer in self.autoencoder.modules()
                  if isinstance(layer, nn.BatchNorm1d)]
        momenta = [layer.momentum for layer in layers]
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None                       # the plain average over parts
        self.autoencoder.train()
        for part in gated.tensor_split(-(-len(gated) // _CHUNK)):
            self.autoencoder(part)
        self.autoencoder.eval()
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum


class Best:
    """A model's weights in the epoch with the largest value; a checkpoint keeps them too."""

    def __init__(self, model: Model):
        self._model = model
        self.epoch, self.value = 0, float("-inf")
        self._weights: dict[str, Tensor] = {}

    def offer(self, epoch: int, value: float | None) -> None:
        """Copy the weights if *value* is the largest so far."""
        if value is not None and value > self.value:
            self.epoch, self.value = epoch, value
            self._weights = {name: tensor.detach().cpu().clone()
                             for name, tensor in self._model.state_dict().items()}

    def restore(self) -> None:
        """Give the model these weights back, if there are any."""
        if self._weights:
            self._model.load_state_dict(self._weights)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"epoch": self.epoch, "value": self.value, "weights": self._weights}

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Put back what a checkpoint kept."""
        self.epoch, self.value = stored["epoch"], stored["value"]
        self._weights = stored["weights"]


def _initialize(module: nn.Module) -> None:
    """Give a linear layer tiny first weights; its biases stay torch's own.

    In the released code a condition that never holds was meant to set biases to 0.
    """
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.001)


def _dense(widths: Sequence[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-2]).apply(_initialize)


def _by_chunks(function: Callable[[Tensor], Tensor], X: Tensor) -> Tensor:
    return torch.cat([function(part) for part in X.split(_CHUNK)])
