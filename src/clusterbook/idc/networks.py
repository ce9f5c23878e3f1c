"""The networks but the gates: autoencoder, clustering head and auxiliary classifier.

Every hidden layer is linear, batch normalization, ReLU; the first weights are tiny (standard
deviation 0.001), which batch normalization makes up for.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .gates import initialize


class Autoencoder(nn.Module):
    """Dense layers to an embedding and back, of any widths.

    Parameters
    ----------
    n_features : int
    widths : sequence of int
        Neurons of each layer but the output, encoder first; the one at place ``len(widths) // 2``
        is the embedding, without normalization and ReLU. The two sides may differ.

    Attributes
    ----------
    encoder, decoder : Module
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
        middle = embedding_place(widths)
        self.embedding_size = widths[middle]
        self.encoder = _dense([n_features, *widths[:middle + 1]])
        self.decoder = _dense([*widths[middle:], n_features])

    def forward(self, X: Tensor) -> Tensor:
        """Each sample, encoded and decoded: (n_samples, n_features)."""
        return self.decoder(self.encoder(X))


def embedding_place(widths: Sequence[int]) -> int:
    """Which of an autoencoder's widths is its embedding.

    Examples
    --------
    >>> embedding_place([512, 512, 2048, 10, 2048, 512, 512])
    3
    """
    return len(widths) // 2


def apply_apart(layers: nn.Sequential, *groups: Tensor) -> tuple[Tensor, ...]:
    """What a network makes of several groups of rows, each normalized by itself.

    The same as one call per group, in order, and faster: the products are of all rows together.

    Parameters
    ----------
    layers : Sequential
    groups : Tensor of shape (n_rows, n_inputs)
        All with the same number of rows.

    Returns
    -------
    tuple of Tensor, each (n_rows, n_outputs)

    Examples
    --------
    >>> network = Autoencoder(4, [8, 3, 8]).encoder
    >>> small, large = apply_apart(network, torch.rand(5, 4), 9 * torch.rand(5, 4))
    >>> small.shape, large.shape
    (torch.Size([5, 3]), torch.Size([5, 3]))
    """
    rows, n_rows = torch.cat(groups), len(groups[0])
    for layer in layers:
        if isinstance(layer, nn.BatchNorm1d):
            rows = torch.cat([layer(group) for group in rows.split(n_rows)])
        else:
            rows = layer(rows)
    return rows.split(n_rows)


def classifier(n_inputs: int, hidden: int, n_clusters: int) -> nn.Sequential:
    """One hidden layer: the clustering head on embeddings, the auxiliary classifier on samples.

    Examples
    --------
    >>> classifier(10, 32, n_clusters=4)(torch.rand(5, 10)).shape
    torch.Size([5, 4])
    """
    return _dense([n_inputs, hidden, n_clusters])


def gumbel_softmax(logits: Tensor, tau: float) -> Tensor:
    r"""Memberships: a softmax of noisy log-probabilities (Eq. 5 of the paper).

    :math:`\mathrm{softmax}((\log\pi + g) / \tau)` with Gumbel noise *g*.

    Parameters
    ----------
    logits : Tensor of shape (n_samples, n_clusters)
    tau : float
        Temperature. Near 0 rows are one-hot; at the published 100 they are nearly uniform unless
        logits are in the hundreds.

    Returns
    -------
    Tensor of shape (n_samples, n_clusters)
        Rows sum to 1.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> print(f"{gumbel_softmax(torch.zeros(500, 10), tau=100.0).max():.2f}")
    0.11
    """
    gumbel = -(-torch.rand_like(logits).log()).log()
    return ((logits.log_softmax(1) + gumbel) / tau).softmax(1)


def _dense(widths: Sequence[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-2]).apply(initialize)
