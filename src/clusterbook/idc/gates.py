r"""Stochastic gates: which features of a sample, or of a cluster, are let through.

A gate is a number in [0, 1] that multiplies a feature (Eq. 1 of the paper),

.. math:: z = \min(\max(\tfrac12 + \mu + \epsilon, 0), 1), \quad
          \epsilon \sim \mathcal N(0, \sigma^2),

with a learned :math:`\mu \in (-1, 1)`. In training the noise makes gates open and close at random,
so that a gate near the edge has a gradient; afterwards there is none, and a gate is what its
:math:`\mu` says: closed from :math:`-\tfrac12` down, fully open from :math:`\tfrac12` up.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

#: Standard deviation of a gate's noise: the released code draws N(0, 0.5²) and takes half of it.
RELEASED_NOISE = 0.25
#: The same in the paper.
PAPER_NOISE = 0.5
#: Standard deviation of a linear layer's first weights in all networks of the released code.
INITIAL_STD = 0.001


def stochastic_gates(mu: Tensor, noise: float = RELEASED_NOISE) -> Tensor:
    r"""Gates with fresh noise, as training sees them (Eq. 1 of the paper).

    Parameters
    ----------
    mu : Tensor of any shape
    noise : float
        Standard deviation :math:`\sigma` of the noise.

    Returns
    -------
    Tensor of the same shape
        From 0 to 1. The gradient with respect to *mu* is 1 where a gate is strictly between,
        else 0.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> gates = stochastic_gates(torch.zeros(10_000))
    >>> print(f"{gates.mean():.2f} {(gates == 0).float().mean():.3f}")
    0.50 0.023
    """
    return hard_gates(mu + noise * torch.randn_like(mu))


def hard_gates(mu: Tensor) -> Tensor:
    r"""Gates without noise, as inference sees them: :math:`\tfrac12 + \mu`, clipped to [0, 1].

    Examples
    --------
    >>> hard_gates(torch.tensor([-0.75, 0.0, 0.25, 1.0]))
    tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """
    return (mu + 0.5).clamp(0, 1)


def open_probability(mu: Tensor, sigma: float) -> Tensor:
    r"""The probability that a gate with noise *sigma* is above 0: :math:`\Phi((\mu + ½)/\sigma)`.

    This is what the sparsity penalty counts (Eq. 3 of the paper, with :math:`\sigma = 0.5`). The
    released code evaluates it with :math:`\sigma = 1` although its gates have 0.25: for
    :math:`\mu` in (-1, 1) the value then lies between 0.309 and 0.933, and no gate ever counts as
    closed.

    Examples
    --------
    >>> open_probability(torch.tensor([-1.0, 0.0, 1.0]), sigma=1.0)
    tensor([0.3085, 0.6915, 0.9332])
    """
    return 0.5 * torch.erfc(-(mu + 0.5) / (sigma * math.sqrt(2)))


class GatingNetwork(nn.Module):
    r"""Local gates: a sample to its own :math:`\mu`, one per feature.

    Two linear layers, each followed by tanh. The first weights are tiny, so that at first every
    gate is near one half.

    Parameters
    ----------
    n_features, hidden : int

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
            nn.Linear(hidden, n_features), nn.Tanh())
        self.layers.apply(initialize)

    def forward(self, X: Tensor) -> Tensor:
        r""":math:`\mu` of each sample and feature, (n_samples, n_features), between -1 and 1."""
        return self.layers(X)


class GlobalGates(nn.Module):
    r"""Global gates: each cluster has its own :math:`\mu`, one per feature.

    Parameters
    ----------
    n_clusters, n_features : int

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


def initialize(module: nn.Module) -> None:
    """Give a linear layer tiny first weights; its biases stay torch's own, as in the released code.

    There biases were meant to start at 0, by a condition that never holds.
    """
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=INITIAL_STD)
