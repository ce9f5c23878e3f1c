r"""Gates and losses of IDC as pure functions, each under its equation, in the paper's order.

A gate is a number in [0, 1] that multiplies a feature. Where the paper and its released code
differ there are two functions, and `FORMS` has those of each form. Samples, gates and their
:math:`\mu` have shape (n_samples, n_features) unless said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["gumbel_softmax", "hard_gates", "open_probability", "stochastic_gates",
           "total_coding_rate"]

# ----------------------------------------------------------------------------------- gates, Eq. 1


def stochastic_gates(mu: Tensor, noise: float = 0.25) -> Tensor:
    r"""Gates with fresh noise, as in training (Eq. 1 of the paper).

    .. math:: z = \min(\max(\tfrac12 + \mu + \epsilon, 0), 1), \quad
              \epsilon \sim \mathcal N(0, \sigma^2)

    The gradient in :math:`\mu` is 1 where the gate is strictly between 0 and 1, otherwise 0: the
    noise is what lets a closed gate learn. Its standard deviation is 0.5 in the paper, and 0.25 in
    the released code, which draws N(0, 0.5²) and halves it.
    """
    return hard_gates(mu + noise * torch.randn_like(mu))


def hard_gates(mu: Tensor) -> Tensor:
    r"""Gates without noise, as after training: :math:`\tfrac12 + \mu`, clipped to [0, 1]."""
    return (mu + 0.5).clamp(0, 1)


# --------------------------------------------------------------------------------- reconstruction


def absolute_error(decoded: Tensor, X: Tensor) -> Tensor:
    r"""The paper's reconstruction error: :math:`\|x - \hat x\|_1`, the mean over samples."""
    return (decoded - X).abs().sum(1).mean()


def reconstruction_terms(
    network: nn.Module, X: Tensor, gates: Tensor | None = None, *, masked: float = 0,
    noise: float = 0, error: Callable[[Tensor, Tensor], Tensor] = functional.mse_loss,
) -> dict[str, Tensor]:
    r"""The four reconstruction errors by name, whose sum is :math:`\mathcal L_\mathrm{recon}`.

    Batch normalization has separate statistics for each kind of input. Without gates the gated term
    equals the clean one. *network* is a `networks.Autoencoder`; *masked* the fraction of inputs set
    to 0 in the third term, and *noise* the standard deviation of the factors of the embedding in
    the fourth; at 0 the term is absent.
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


# -------------------------------------------------------------------------------- sparsity, Eq. 3


def open_probability(mu: Tensor, sigma: float) -> Tensor:
    r"""The probability that a gate with noise *sigma* is above 0: :math:`\Phi((\mu + ½)/\sigma)`.

    The released code takes :math:`\sigma = 1`, although its gates have 0.25: no gate ever counts as
    closed, since the value lies between 0.309 and 0.933.
    """
    return 0.5 * torch.erfc(-(mu + 0.5) / (sigma * math.sqrt(2)))


def regularizer_released(mu: Tensor) -> Tensor:
    r"""The released code's sparsity penalty: the mean of :math:`\Phi(\mu + ½)`."""
    return open_probability(mu, 1.0).mean()


def regularizer_paper(mu: Tensor) -> Tensor:
    r"""The expected number of open gates of a sample (Eq. 3 of the paper), the mean over samples.

    .. math:: \mathcal L_\mathrm{reg} = \frac1N \sum_i \sum_d
              \Phi\Big(\frac{\mu_{id} + ½}\sigma\Big), \quad \sigma = ½
    """
    return open_probability(mu, 0.5).sum(1).mean()


def sparsity_weight(epoch: int, epochs: int, weight: float) -> float:
    r""":math:`\lambda(t)`: rises from near 0 to *weight* along half a cosine.

    *epoch* runs from 1 to *epochs*, the number of epochs with gates.
    """
    return weight * 0.5 * (1 - math.cos(math.pi * epoch / epochs))


# ---------------------------------------------------------------- coding rate of the gates, Eq. 4


def total_coding_rate(gates: Tensor, eps: float, projection: Tensor | None = None) -> Tensor:
    r"""The coding rate of a batch of gates, in nats: large if they span many directions.

    .. math:: R = \tfrac12 \log\det\Big(I_d + \frac{d}{m\epsilon} G^\top G\Big)
                = \tfrac12 \log\det\Big(I_m + \frac{d}{m\epsilon} G G^\top\Big)

    for *m* samples of *d* gates. The two are equal (Sylvester's identity), and the smaller matrix
    is used. The rate also grows when gates open. It is NaN where rounding leaves the matrix without
    a factorization. A *projection*, (n_features, n_dimensions), multiplies the gates first.

    The paper's Eq. 4 has :math:`z_i^\top z_i` of single samples, whose rate only counts open gates.

    Examples
    --------
    >>> total_coding_rate(torch.eye(2), eps=1.0)        # 1/2 log det(2 I)
    tensor(0.6931)
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


# ------------------------------------------------------------------------- clustering, Eqs. 5, 6


def gumbel_softmax(logits: Tensor, tau: float) -> Tensor:
    r"""Memberships: a softmax of noisy log-probabilities (Eq. 5 of the paper).

    :math:`\mathrm{softmax}((\log\pi + g) / \tau)` with Gumbel noise *g*; rows sum to 1.

    Logits have shape (n_samples, n_clusters). Near a temperature *tau* of 0 rows are one-hot; at
    the published 100 they are nearly uniform unless logits are in the hundreds.
    """
    gumbel = -(-torch.rand_like(logits).log()).log()
    return ((logits.log_softmax(1) + gumbel) / tau).softmax(1)


def compression_released(z: Tensor, memberships: Tensor, eps: float) -> Tensor:
    r"""The mean coding rate within clusters, as the released code has it.

    .. math:: \frac1p \sum_k \frac{n_k}{2m} \log\det\Big(I_p + \frac{p}{n_k\epsilon}
              \sum_i \pi_{ik} h_i h_i^\top\Big), \quad n_k = \sum_i \pi_{ik}

    with :math:`h = z / \|z\|`: the second half of the rate reduction MCR² (Yu et al., 2020).

    Embeddings *z*, (n_samples, embedding_size), are of any length; memberships :math:`\pi`,
    (n_samples, n_clusters), have rows that sum to 1.
    """
    logdets, sizes = _cluster_logdets(z, memberships, eps)
    return (sizes * logdets).sum() / (2 * len(z) * z.shape[1])


def compression_paper(z: Tensor, memberships: Tensor, eps: float) -> Tensor:
    r"""The sum of the clusters' coding rates, without weights (Eq. 6 of the paper).

    .. math:: \mathcal L_\mathrm{head} = \sum_k \tfrac12 \log\det(I_p + \lambda_2
              \mathbb E_{h \in H_k} h^\top h), \quad \lambda_2 = p / \epsilon

    The paper prints :math:`\lambda_2 = p\,(B\epsilon)`, surely meant as a quotient. Beside an
    expectation the batch size :math:`B` would count twice, so it is left out; and *h* has length 1,
    without which :math:`\epsilon` has no scale. Arguments as in `compression_released`.
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


# --------------------------------------------------------------------------------- the two forms


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
