r"""The losses as pure functions, each beside its equation in the paper.

The first training minimizes, with :math:`\lambda(t)` rising (`sparsity_weight`),

.. math:: \mathcal L_\mathrm{sparse} = \mathcal L_\mathrm{recon} + \lambda_\mathrm{gtcr}
          \mathcal L_\mathrm{gtcr} + \lambda(t) \mathcal L_\mathrm{reg},

the second `compression_released` or `compression_paper` of the clustering head.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from .gates import PAPER_NOISE, open_probability
from .networks import Autoencoder, apply_apart

# ------------------------------------------------------------------------------- reconstruction


def absolute_error(decoded: Tensor, X: Tensor) -> Tensor:
    r"""The paper's reconstruction error: :math:`\|x - \hat x\|_1`, the mean over samples.

    Examples
    --------
    >>> absolute_error(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 0.0]]))
    tensor(3.)
    """
    return (decoded - X).abs().sum(1).mean()


#: The released code's reconstruction error, by the name of the setting, and the paper's.
ERRORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": functional.mse_loss, "l1": absolute_error}


def reconstruction_terms(
    network: Autoencoder, X: Tensor, *, gates: Tensor | None = None, mask: Tensor | None = None,
    latent: Tensor | None = None, error: Callable[[Tensor, Tensor], Tensor] = functional.mse_loss,
) -> dict[str, Tensor]:
    r"""The four reconstruction terms, whose sum is :math:`\mathcal L_\mathrm{recon}`.

    Parameters
    ----------
    network : Module
        The autoencoder. In training mode batch normalization sees each of the four kinds of input
        by itself.
    X : Tensor of shape (n_samples, n_features)
    gates : Tensor of shape (n_samples, n_features), optional
        Without them all gates are 1, and the gated term equals the clean one.
    mask : Tensor of shape (n_samples, n_features), optional
        0 where an input is blotted out; without it that term is left out.
    latent : Tensor of shape (n_samples, embedding_size), optional
        What multiplies the embedding; without it that term is left out.
    error : callable

    Returns
    -------
    dict of scalars
        ``clean``, ``gated``, and where asked for ``masked`` and ``latent``: the error against *X*
        of what was decoded from each.

    Examples
    --------
    >>> X = torch.rand(6, 4)
    >>> list(reconstruction_terms(Autoencoder(4, [3]), X, mask=torch.ones_like(X)))
    ['clean', 'gated', 'masked']
    """
    inputs = {"clean": X}
    if gates is not None:
        inputs["gated"] = X * gates
    if mask is not None:
        inputs["masked"] = X * mask
    codes = dict(zip(inputs, apply_apart(network.encoder, *inputs.values()), strict=True))
    if latent is not None:              # the embedding of X itself, which needs no second pass
        codes["latent"] = codes["clean"] * latent
    decoded = apply_apart(network.decoder, *codes.values())
    terms = {name: error(part.to(X.dtype), X) for name, part in zip(codes, decoded, strict=True)}
    return {"clean": terms["clean"], "gated": terms["clean"], **terms}


def random_mask(X: Tensor, share: float) -> Tensor:
    """0 for a random *share* of the inputs, each by its own draw, and 1 for the others.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> print(f"{random_mask(torch.zeros(100, 100), 0.9).mean():.1f}")
    0.1
    """
    return (torch.rand_like(X) >= share).to(X.dtype)


# ---------------------------------------------------------------------------------------- gates


def regularizer_released(mu: Tensor) -> Tensor:
    r"""The released code's sparsity penalty: the mean of :math:`\Phi(\mu + ½)`.

    The mean runs over samples and features, and :math:`\sigma` is 1, whatever the gates' noise is.

    Parameters
    ----------
    mu : Tensor of shape (n_samples, n_features)
        Between -1 and 1.

    Returns
    -------
    Tensor
        A scalar from 0.309 to 0.933.

    Examples
    --------
    >>> regularizer_released(torch.full((2, 3), -1.0))
    tensor(0.3085)
    """
    return open_probability(mu, 1.0).mean()


def regularizer_paper(mu: Tensor, sigma: float = PAPER_NOISE) -> Tensor:
    r"""The expected number of open gates of a sample (Eq. 3 of the paper), the mean over samples.

    .. math:: \mathcal L_\mathrm{reg} = \frac1N \sum_i \sum_d
              \Phi\Big(\frac{\mu_{id} + ½}\sigma\Big)

    Examples
    --------
    >>> regularizer_paper(torch.full((2, 100), -0.5))
    tensor(50.)
    """
    return open_probability(mu, sigma).sum(1).mean()


#: The two penalties by the name of the setting.
REGULARIZERS: dict[str, Callable[[Tensor], Tensor]] = {
    "released": regularizer_released, "paper": regularizer_paper}


def sparsity_weight(epoch: int, epochs: int, weight: float) -> float:
    r""":math:`\lambda(t)`: the penalty's weight rises from near 0 to *weight* along half a cosine.

    Parameters
    ----------
    epoch : int
        From 1 to *epochs*, the epochs of training with gates.
    epochs : int
    weight : float
        What the last epoch has.

    Examples
    --------
    >>> [round(sparsity_weight(epoch, 4, 1.0), 3) for epoch in (1, 2, 3, 4)]
    [0.146, 0.5, 0.854, 1.0]
    """
    return weight * 0.5 * (1 - math.cos(math.pi * epoch / epochs))


def total_coding_rate(gates: Tensor, eps: float, projection: Tensor | None = None) -> Tensor:
    r"""How many directions the gates of a batch take up, in nats.

    .. math:: R = \tfrac12 \log\det\Big(I_d + \frac{d}{m\epsilon} G^\top G\Big)
                = \tfrac12 \log\det\Big(I_m + \frac{d}{m\epsilon} G G^\top\Big)

    for *m* samples of *d* gates. The two sides are equal (Sylvester's identity); the smaller
    matrix is the one that is built, and factored by Cholesky: its smallest eigenvalue is 1.

    Parameters
    ----------
    gates : Tensor of shape (n_samples, n_features)
    eps : float
    projection : Tensor of shape (n_features, n_dimensions), optional
        Multiplies the gates first; *d* is then its number of columns. See `random_projection`.

    Returns
    -------
    Tensor
        A scalar; NaN where rounding leaves the matrix without a factorization, which a training
        reports as what it is.

    Notes
    -----
    The paper's Eq. 4 has :math:`z_i^\top z_i` of single samples, whose rate counts open gates and
    nothing else; its code has the rate of the batch, which is large when samples differ in their
    gates. It also grows when gates open, and so works against the sparsity penalty.

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


def random_projection(n_features: int, n_dimensions: int) -> Tensor:
    """A Gaussian matrix that keeps squared lengths on average: variance ``1 / n_dimensions``.

    Drawn once, before training. Shape (n_features, n_dimensions).
    """
    return torch.randn(n_features, n_dimensions) / math.sqrt(n_dimensions)


def gate_coding_loss(gates: Tensor, eps: float, projection: Tensor | None = None) -> Tensor:
    r""":math:`\mathcal L_\mathrm{gtcr} = -R / m`: small when samples differ in their gates (Eq. 4).

    Parameters and shapes as in `total_coding_rate`.
    """
    return -total_coding_rate(gates, eps, projection) / len(gates)


# ----------------------------------------------------------------------------------- clustering


def compression_released(z: Tensor, memberships: Tensor, eps: float) -> Tensor:
    r"""The mean coding rate within clusters, as the released code has it.

    .. math:: \frac1p \sum_k \frac{n_k}{2m} \log\det\Big(I_p + \frac{p}{n_k\epsilon}
              \sum_i \pi_{ik} h_i h_i^\top\Big), \quad n_k = \sum_i \pi_{ik}

    with :math:`h = z / \|z\|`: the second half of the rate reduction MCR² (Yu et al., 2020).

    Parameters
    ----------
    z : Tensor of shape (n_samples, embedding_size)
        Of any length; brought to length 1.
    memberships : Tensor of shape (n_samples, n_clusters)
        :math:`\pi`, rows that sum to 1.
    eps : float

    Returns
    -------
    Tensor
        A scalar, at least 0.

    Examples
    --------
    >>> z = torch.tensor([[2.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
    >>> right, wrong = torch.tensor([[1.0, 0], [1, 0], [0, 1]]), torch.tensor([[1.0, 0], [0, 1], [1, 0]])
    >>> print(f"{compression_released(z, right, 1.0):.3f} {compression_released(z, wrong, 1.0):.3f}")
    0.275 0.323
    """  # noqa: E501
    moments, sizes = _cluster_moments(z, memberships)
    p = z.shape[1]
    rates = _logdet_of_identity_plus(p / (sizes * eps)[:, None, None] * moments)
    return (sizes * rates).sum() / (2 * len(z) * p)


def compression_paper(z: Tensor, memberships: Tensor, eps: float) -> Tensor:
    r"""The sum of the clusters' coding rates, without weights (Eq. 6 of the paper).

    .. math:: \mathcal L_\mathrm{head} = \sum_k \tfrac12 \log\det(I_p + \lambda_2
              \mathbb E_{h \in H_k} h^\top h), \quad \lambda_2 = p / \epsilon

    The paper prints :math:`\lambda_2 = p\,(B\epsilon)`, surely meant as a quotient. Beside an
    expectation the batch size :math:`B` would count twice, so it is left out here; and *h* has
    length 1, without which :math:`\epsilon` has no scale. Neither can be read off the paper.

    Parameters and shapes as in `compression_released`; a cluster without members counts 0.

    Examples
    --------
    >>> z = torch.tensor([[2.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
    >>> compression_paper(z, torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 1.0)
    tensor(1.0986)
    """
    moments, sizes = _cluster_moments(z, memberships)
    return 0.5 * _logdet_of_identity_plus(
        z.shape[1] / (sizes * eps)[:, None, None] * moments).sum()


#: The two forms by the name of the setting.
COMPRESSIONS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "released": compression_released, "paper": compression_paper}


def _cluster_moments(z: Tensor, memberships: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of outer products (n_clusters, p, p), and the clusters' sizes (n_clusters,)."""
    h = functional.normalize(z, dim=1)
    weighted = memberships.T[:, None, :] * h.T          # (n_clusters, p, n_samples)
    # An empty cluster has moments 0; the released code's tiny number keeps 0 / 0 away.
    return weighted @ h, memberships.sum(0) + 1e-8


def _logdet_of_identity_plus(A: Tensor) -> Tensor:
    """``log det(I + A)`` of symmetric matrices without negative eigenvalues, (..., n, n)."""
    eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    # cholesky_ex reports failure in a tensor: raising an error would wait for the device.
    factor, failed = torch.linalg.cholesky_ex(eye + A)
    logdet = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return torch.where(failed == 0, logdet, math.nan)
