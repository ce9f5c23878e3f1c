r"""Gates and losses of IDC in the paper's order, each under its equation; then its networks.

A gate is a number in [0, 1] that multiplies a feature. Where the paper and its released code
differ there are two functions, and `FORMS` has those of each form. Samples, gates and their
:math:`\mu` have shape (n_samples, n_features) unless said otherwise.

Hidden layers of autoencoder and classifiers are linear, batch normalization, ReLU. Initial
weights have a standard deviation of only 0.001; batch normalization makes up for it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.optim.swa_utils import update_bn

__all__ = ["GlobalGates", "gumbel_softmax", "hard_gates", "open_probability", "stochastic_gates",
           "total_coding_rate"]
LEAST_RATE = 1e-6                           # of both cosines, as in all released configurations
_CHUNK = 4096                               # samples at a time where no gradient is needed


def stochastic_gates(mu: Tensor, noise: float = 0.25) -> Tensor:
    r"""Gates with fresh noise, as in training (Eq. 1 of the paper).

    .. math:: z = \min(\max(\tfrac12 + \mu + \epsilon, 0), 1), \quad
              \epsilon \sim \mathcal N(0, \sigma^2)

    The gradient in :math:`\mu` is 1 strictly between 0 and 1, otherwise 0: the noise is what lets a
    closed gate learn. Its standard deviation is 0.5 in the paper, 0.25 in the released code.
    """
    return hard_gates(mu + noise * torch.randn_like(mu))


def hard_gates(mu: Tensor) -> Tensor:
    r"""Gates without noise, as after training: :math:`\tfrac12 + \mu`, clipped to [0, 1]."""
    return (mu + 0.5).clamp(0, 1)


def absolute_error(decoded: Tensor, X: Tensor) -> Tensor:
    r"""The paper's reconstruction error: :math:`\|x - \hat x\|_1`, the mean over samples."""
    return (decoded - X).abs().sum(1).mean()


def reconstruction_terms(
    network: nn.Module, X: Tensor, gates: Tensor | None = None, *, masked: float = 0,
    noise: float = 0, error: Callable[[Tensor, Tensor], Tensor] = functional.mse_loss,
) -> dict[str, Tensor]:
    r"""The four reconstruction errors by name, whose sum is :math:`\mathcal L_\mathrm{recon}`.

    Without gates the gated term equals the clean one. *network* is an `Autoencoder`; *masked* the
    fraction of inputs set to 0 in the third term, *noise* the standard deviation of the factors of
    the embedding in the fourth; at 0 the term is absent.
    """
    inputs = {"clean": X}
    if gates is not None:
        inputs["gated"] = X * gates
    if masked:
        inputs["masked"] = X * (torch.rand_like(X) >= masked).to(X.dtype)
    codes = dict(zip(inputs, apply_apart(network.encoder, *inputs.values()), strict=True))
    if noise:                           # the embedding of X itself, which needs no second pass
        codes["latent"] = codes["clean"] * (1 + noise * torch.randn_like(codes["clean"]))
    decoded = apply_apart(network.decoder, *codes.values())
    terms = {name: error(part, X) for name, part in zip(codes, decoded, strict=True)}
    return {"clean": terms["clean"], "gated": terms["clean"], **terms}


def apply_apart(layers: nn.Sequential, *batches: Tensor) -> tuple[Tensor, ...]:
    """Apply layers to several batches with separate batch-norm statistics.

    The same as one call per batch, in order, but faster. All have shape (n_rows, n_inputs).
    """
    rows, n_rows = torch.cat(batches), len(batches[0])
    for layer in layers:
        if isinstance(layer, nn.BatchNorm1d):
            rows = torch.cat([layer(batch) for batch in rows.split(n_rows)])
        else:
            rows = layer(rows)
    return rows.split(n_rows)


def open_probability(mu: Tensor, sigma: float) -> Tensor:
    r"""The probability that a gate with noise *sigma* is open: :math:`\Phi((\mu + ½)/\sigma)`."""
    return 0.5 * torch.erfc(-(mu + 0.5) / (sigma * math.sqrt(2)))


def regularizer_released(mu: Tensor) -> Tensor:
    r"""The released code's sparsity penalty: the mean of :math:`\Phi(\mu + ½)`, 0.309 to 0.933."""
    return open_probability(mu, 1.0).mean()


def regularizer_paper(mu: Tensor) -> Tensor:
    r"""The expected number of open gates of a sample (Eq. 3 of the paper), the mean over samples.

    .. math:: \mathcal L_\mathrm{reg} = \frac1N \sum_i \sum_d
              \Phi\left(\frac{\mu_{id} + ½}\sigma\right), \quad \sigma = ½
    """
    return open_probability(mu, 0.5).sum(1).mean()


def sparsity_weight(epoch: int, epochs: int, weight: float) -> float:
    r""":math:`\lambda(t)`: rises to *weight* along half a cosine of *epochs*, from *epoch* 1 on."""
    return weight * 0.5 * (1 - math.cos(math.pi * epoch / epochs))


def total_coding_rate(gates: Tensor, eps: float, projection: Tensor | None = None) -> Tensor:
    r"""The coding rate of a batch of gates, in nats: large if they span many directions.

    .. math:: R = \tfrac12 \log\det\left(I_d + \frac{d}{m\epsilon} G^\top G\right)
                = \tfrac12 \log\det\left(I_m + \frac{d}{m\epsilon} G G^\top\right)

    for *m* samples of *d* gates; of the two, which are equal, the smaller matrix is used. NaN where
    rounding leaves it without a factorization. A *projection*, (n_features, n_dimensions),
    multiplies the gates first. The paper's Eq. 4 has :math:`z_i^\top z_i` of single samples.
    """
    if projection is not None:
        gates = gates @ projection
    m, d = gates.shape
    if m > d:
        gates = gates.T                                 # (d, m)
    gram = gates @ gates.T                              # (min(m, d), min(m, d))
    return 0.5 * _logdet_of_identity_plus(d / (m * eps) * gram)


def gate_coding_loss(gates: Tensor, eps: float, projection: Tensor | None = None) -> Tensor:
    r""":math:`\mathcal L_\mathrm{gtcr} = -R / m`, small when samples' gates differ (Eq. 4)."""
    return -total_coding_rate(gates, eps, projection) / len(gates)


def gumbel_softmax(logits: Tensor, tau: float) -> Tensor:
    r"""Memberships: a softmax of noisy log-probabilities (Eq. 5 of the paper).

    :math:`\mathrm{softmax}((\log\pi + g) / \tau)` with Gumbel noise *g*, (n_samples, n_clusters).
    Near a temperature *tau* of 0 rows are one-hot, at the published 100 nearly uniform.
    """
    gumbel = -(-torch.rand_like(logits).log()).log()
    return ((logits.log_softmax(1) + gumbel) / tau).softmax(1)


def compression_released(z: Tensor, memberships: Tensor, eps: float) -> Tensor:
    r"""The mean coding rate within clusters, as the released code has it.

    .. math:: \frac1p \sum_k \frac{n_k}{2m} \log\det\left(I_p + \frac{p}{n_k\epsilon}
              \sum_i \pi_{ik} h_i h_i^\top\right), \quad n_k = \sum_i \pi_{ik}

    with :math:`h = z / \|z\|` of embeddings *z*, (n_samples, embedding_size), and memberships
    :math:`\pi`, (n_samples, n_clusters): the second half of the rate reduction MCR² (Yu et al.,
    2020).
    """
    logdets, sizes = _cluster_logdets(z, memberships, eps)
    return (sizes * logdets).sum() / (2 * len(z) * z.shape[1])


def compression_paper(z: Tensor, memberships: Tensor, eps: float) -> Tensor:
    r"""The sum of the clusters' coding rates, without weights (Eq. 6 of the paper).

    .. math:: \mathcal L_\mathrm{head} = \sum_k \tfrac12 \log\det(I_p + \lambda_2
              \mathbb E_{h \in H_k} h^\top h), \quad \lambda_2 = p / \epsilon

    The paper prints :math:`\lambda_2 = p\,(B\epsilon)`, surely meant as a quotient; beside an
    expectation the batch size :math:`B` would count twice. No clustering has a smaller sum than one
    cluster for all samples. Arguments as in `compression_released`.
    """
    return 0.5 * _cluster_logdets(z, memberships, eps)[0].sum()


def _cluster_logdets(z: Tensor, memberships: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The clusters' ``log det``, and their sizes, both (n_clusters,)."""
    h = functional.normalize(z, dim=1)
    weighted = memberships.T[:, None, :] * h.T          # (n_clusters, p, n_samples)
    # An empty cluster has moments 0; the released code's tiny number avoids 0 / 0.
    sizes = memberships.sum(0) + 1e-8
    scale = z.shape[1] / (sizes * eps)
    return _logdet_of_identity_plus(scale[:, None, None] * (weighted @ h)), sizes


def _logdet_of_identity_plus(A: Tensor) -> Tensor:
    """``log det(I + A)`` of symmetric matrices without negative eigenvalues, (..., n, n)."""
    eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    # cholesky_ex reports failure in a tensor: raising an error would wait for the device.
    factor, failed = torch.linalg.cholesky_ex(eye + A)
    logdet = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return torch.where(failed == 0, logdet, math.nan)


class Form(NamedTuple):
    """The choices in which the paper and its released code differ."""

    noise: float                                        # standard deviation of a gate's noise
    error: Callable[[Tensor, Tensor], Tensor]           # of a reconstruction
    regularizer: Callable[[Tensor], Tensor]             # sparsity of gates
    compression: Callable[[Tensor, Tensor, float], Tensor]


FORMS = {
    "released": Form(0.25, functional.mse_loss, regularizer_released, compression_released),
    "paper": Form(0.5, absolute_error, regularizer_paper, compression_paper),
}


# ------------------------------------------------------------------------------------ the networks


class Autoencoder(nn.Module):
    """Dense layers to an embedding and back.

    *widths* are those of all layers but the output; the embedding's is in the middle.
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

    At first all lie near 0, nearer the wider the hidden layer is.
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
    r"""Global gates: maps clusters to their :math:`\mu = \tanh(\mathrm{weight})`, from -1 to 1."""

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

    *widths* are the autoencoder's; *gates* (without any all gates are 1), *head* and *auxiliary*
    hidden widths. *projection* is the dimension of a Gaussian matrix for the gates' coding rate,
    which keeps squared lengths on average.
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
        """Four reconstructions and the local gates of samples; counted as a gated step's."""
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
        """Set batch normalization's means and variances to those of the gated samples.

        Of more than 4,096 samples, the variances are means over parts of every second, third, …
        sample, so that samples sorted by group count alike.
        """
        parts = -(-len(gated) // _CHUNK)
        update_bn((gated[i::parts] for i in range(parts)), self.autoencoder)


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
