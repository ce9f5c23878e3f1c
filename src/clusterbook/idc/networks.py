"""The networks of IDC, the model that holds them, and its optimizers.

Hidden layers of autoencoder and classifiers are linear, batch normalization, ReLU. First weights
have a standard deviation of only 0.001, for which batch normalization makes up.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.optim.swa_utils import update_bn

from .losses import hard_gates

LEAST_RATE = 1e-6                           # of both cosines, as in all released configurations
_CHUNK = 4096                               # samples at a time where no gradient is needed


class Autoencoder(nn.Module):
    """Dense layers to an embedding and back.

    *widths* are those of each layer but the output. The middle one is the embedding, without
    normalization and ReLU; the two sides may differ.
    """

    def __init__(self, n_features: int, widths: Sequence[int]):
        super().__init__()
        middle = len(widths) // 2
        self.embedding_size = widths[middle]
        self.encoder = dense([n_features, *widths[:middle + 1]])
        self.decoder = dense([*widths[middle:], n_features])

    def forward(self, X: Tensor) -> Tensor:
        """Each sample, encoded and decoded: (n_samples, n_features)."""
        return self.decoder(self.encoder(X))


class GatingNetwork(nn.Module):
    r"""Local gates: maps samples to :math:`\mu`, one per feature, from -1 to 1.

    Two linear layers, each followed by tanh; at first every gate is near one half.
    """

    def __init__(self, n_features: int, hidden: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_features, hidden), nn.Tanh(),
            nn.Linear(hidden, n_features), nn.Tanh()).apply(_initialize)

    def forward(self, X: Tensor) -> Tensor:
        r""":math:`\mu` of each sample and feature."""
        return self.layers(X)


class GlobalGates(nn.Module):
    r"""Global gates: maps clusters to their :math:`\mu = \tanh(\mathrm{weight})`, from -1 to 1.

    First weights, of shape (n_clusters, n_features), have a standard deviation of 0.01.
    """

    def __init__(self, n_clusters: int, n_features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_clusters, n_features))
        nn.init.normal_(self.weight, std=0.01)

    def forward(self, labels: Tensor) -> Tensor:
        r""":math:`\mu` of each sample's cluster, (n_samples, n_features)."""
        return self.weight.tanh().index_select(0, labels)

    @torch.no_grad()
    def matrix(self) -> Tensor:
        """The gates of all clusters without noise, (n_clusters, n_features)."""
        return hard_gates(self.weight.tanh())


def dense(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers, with batch normalization and ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-2]).apply(_initialize)


def _initialize(module: nn.Module) -> None:
    """Tiny first weights; biases stay torch's own, as in the released code, by a mistake there."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.001)


class Model(nn.Module):
    """All networks: trained, saved and restored together.

    *widths* are the autoencoder's; *gates*, *head* and *auxiliary* hidden widths. Without *gates*
    all gates are 1. *projection* is the dimension of the random projection for the coding rate of
    the gates, a Gaussian matrix that keeps squared lengths on average.
    """

    def __init__(self, n_features: int, n_clusters: int, widths: Sequence[int], *,
                 gates: int | None, head: int, auxiliary: int, projection: int | None = None):
        super().__init__()
        self.gating = None if gates is None else GatingNetwork(n_features, gates)
        self.autoencoder = Autoencoder(n_features, widths)
        self.head = dense([self.autoencoder.embedding_size, head, n_clusters])
        self.auxiliary = dense([n_features, auxiliary, n_clusters])
        self.global_gates = GlobalGates(n_clusters, n_features)
        self.register_buffer("projection", None if projection is None
                             else torch.randn(n_features, projection) / projection**0.5)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """What a gated step computes of samples: four reconstructions, and the local gates."""
        return self.autoencoder(torch.cat([X] * 4)), self.local_gates(X)

    @torch.no_grad()
    def local_gates(self, X: Tensor) -> Tensor:
        """Gates of any number of samples, without noise, (n_samples, n_features)."""
        if self.gating is None:
            return torch.ones_like(X)
        return hard_gates(torch.cat([self.gating(part) for part in X.split(_CHUNK)]))

    @torch.no_grad()
    def embed(self, gated: Tensor) -> Tensor:
        """The embedding of any number of gated samples, (n_samples, embedding_size)."""
        return torch.cat([self.autoencoder.encoder(part) for part in gated.split(_CHUNK)])

    @torch.no_grad()
    def cluster(self, embedding: Tensor) -> Tensor:
        """The cluster of each embedding, (n_samples,)."""
        return self.head(embedding).argmax(1)

    def calibrate(self, gated: Tensor) -> None:
        """Set batch normalization's means and variances to those of the gated samples."""
        update_bn(gated.tensor_split(-(-len(gated) // _CHUNK)), self.autoencoder)


class Best(nn.Module):
    """A copy of a model in the epoch with the largest value; a part of the checkpoint."""

    def __init__(self, model: Model):
        super().__init__()
        self.model = copy.deepcopy(model)
        self.register_buffer("epoch", torch.tensor(0))
        self.register_buffer("value", torch.tensor(float("-inf"), dtype=torch.float64))

    def offer(self, epoch: int, value: float, model: Model) -> None:
        """Copy the weights if *value* is the largest so far."""
        if value > self.value:
            self.epoch.fill_(epoch)
            self.value.fill_(value)
            self.model.load_state_dict(model.state_dict())


def adam(parameters: Iterable[nn.Parameter], rate: float, steps: int
         ) -> tuple[torch.optim.Adam, CosineAnnealingLR]:
    """Adam, and a schedule that lowers its rate with each step along half a cosine."""
    parameters = list(parameters)
    optimizer = torch.optim.Adam(parameters, lr=rate,
                                 fused=parameters[0].device.type in ("cpu", "cuda"))
    return optimizer, CosineAnnealingLR(optimizer, T_max=max(1, steps), eta_min=LEAST_RATE)


def descend(loss: Tensor, optimizer: torch.optim.Optimizer,
            schedule: CosineAnnealingLR | None = None) -> None:
    """One step of an optimizer, and of its learning rate."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if schedule is not None:
        schedule.step()
