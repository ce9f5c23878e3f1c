"""All networks of IDC in one module, and what they make of samples when training is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from . import losses
from .gates import GatingNetwork, GlobalGates, hard_gates
from .networks import Autoencoder, classifier

if TYPE_CHECKING:
    from .estimator import IDC

_CHUNK = 4096                               # samples at a time where no gradient is needed


class Model(nn.Module):
    """All networks: what is trained, saved and restored together."""

    def __init__(self, settings: IDC, n_features: int):
        super().__init__()
        k, hidden = settings.n_clusters, settings.hidden_sizes()
        self.gating = (GatingNetwork(n_features, settings.gates_hidden_dim)
                       if settings.use_gating else None)
        self.autoencoder = Autoencoder(n_features, list(settings.encdec))
        self.head = classifier(self.autoencoder.embedding_size, hidden["clustering_head"], k)
        self.auxiliary = classifier(n_features, hidden["aux_classifier"], k)
        self.global_gates = GlobalGates(k, n_features)
        size = settings.gtcr_projection_dim
        self.register_buffer(
            "projection", None if size is None else losses.random_projection(n_features, size))

    @torch.no_grad()
    def local_gates(self, X: Tensor) -> Tensor:
        """Gates of samples in any number, without noise, (n_samples, n_features)."""
        if self.gating is None:
            return torch.ones_like(X)
        return _by_chunks(lambda part: hard_gates(self.gating(part)), X)

    @torch.no_grad()
    def embed(self, gated: Tensor) -> Tensor:
        """The embedding of gated samples in any number, (n_samples, embedding_size)."""
        return _by_chunks(self.autoencoder.encoder, gated)

    @torch.no_grad()
    def cluster(self, embedding: Tensor) -> Tensor:
        """The cluster of each embedding, (n_samples,)."""
        return self.head(embedding).argmax(1)

    @torch.no_grad()
    def calibrate(self, gated: Tensor) -> None:
        """Set batch normalization's means and variances to those of the gated samples.

        The first stages leave averages over clean, gated and blotted inputs, which fit none of
        them. The released code replaces them by the way, within some batches of its second stage,
        because there the frozen encoder stays in training mode.
        """
        layers = [layer for layer in self.autoencoder.modules()
                  if isinstance(layer, nn.BatchNorm1d)]
        usual = [layer.momentum for layer in layers]
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None                       # the plain average over parts
        self.autoencoder.train()
        for part in gated.tensor_split(-(-len(gated) // _CHUNK)):
            self.autoencoder(part)
        self.autoencoder.eval()
        for layer, momentum in zip(layers, usual, strict=True):
            layer.momentum = momentum


def _by_chunks(function: Callable[[Tensor], Tensor], X: Tensor) -> Tensor:
    return torch.cat([function(part) for part in X.split(_CHUNK)])
