r"""What the features go through before they are clustered: PCA, whitening, length 1.

With the features' mean :math:`\mu` and covariance :math:`U \Lambda U^\top`,

.. math:: z = \Lambda_d^{-1/2} U_d^\top (f - \mu), \qquad \hat z = z / \lVert z \rVert

where :math:`d` are the dimensions that are kept: 256 in the paper.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral

import torch
from torch import Tensor
from torch.nn import functional

from ..errors import InputError

#: A component with less than this part of the largest variance is rounding noise, and becomes 0.
NOISE = 1e-10
#: Rows that are held in double precision at once.
HELD_ROWS = 4096


@dataclass
class Reduction:
    """A fitted PCA.

    Attributes
    ----------
    mean : Tensor of shape (n_features,)
    components : Tensor of shape (n_components, n_features)
        Unit vectors, that of the largest variance first; the largest entry of each is positive.
    variances : Tensor of shape (n_components,)
        Of the features along each component (divided by n_samples - 1).
    spectrum : Tensor of shape (n_features,) or (n_samples,), the smaller
        The variances along all components, also those that are left out.
    whiten, normalize : bool
        What `reduce` does after the projection.
    """

    mean: Tensor
    components: Tensor
    variances: Tensor
    spectrum: Tensor
    whiten: bool = True
    normalize: bool = True


def fit_reduction(features: Tensor | Iterable[Tensor], n_components: int | None = 256, *,
                  whiten: bool = True, normalize: bool = True) -> Reduction:
    """Fit a PCA to features, or to batches of them that pass by once.

    Parameters
    ----------
    features : Tensor of shape (n_samples, n_features), or iterable of such
        Of batches only the sum of their outer products is held, 8 bytes times n_features².
        A tensor of fewer rows than features takes no such matrix.
    n_components : int, optional
        Dimensions that are kept; by default all. 256 in the paper.
    whiten, normalize : bool
        See `reduce`.

    Returns
    -------
    Reduction
        On the features' device, float32, computed in float64.

    Raises
    ------
    InputError
        If there are fewer samples or features than components, or features that are not finite.

    Examples
    --------
    >>> features = torch.randn(100, 5, generator=torch.Generator().manual_seed(0))
    >>> z = reduce(features, fit_reduction(features, 3, normalize=False))
    >>> z.shape, z.std(0).round(decimals=3).tolist()
    (torch.Size([100, 3]), [1.0, 1.0, 1.0])
    """
    if isinstance(features, Tensor) and 1 < len(features) < features.shape[1]:
        mean, spectrum, directions = _by_svd(features)
        kept = check_components(n_components, *features.shape)
    else:
        mean, spectrum, directions, n = _by_covariance(
            features.split(HELD_ROWS) if isinstance(features, Tensor) else features)
        kept = check_components(n_components, n, len(mean))
    components = directions[:kept]
    largest = components.gather(1, components.abs().argmax(1, keepdim=True))
    components = components * largest.sign()
    return Reduction(mean.float(), components.float().contiguous(), spectrum[:kept].float(),
                     spectrum.float(), whiten, normalize)


def _by_covariance(batches: Iterable[Tensor]) -> tuple[Tensor, Tensor, Tensor, int]:
    """Mean, variances and directions, largest first, and how many samples there were."""
    n, origin, total, outer = 0, None, 0.0, 0.0
    for batch in batches:
        rows = batch.to(torch.float64 if batch.device.type != "mps" else torch.float32)
        if origin is None:                  # near the mean, so that squares lose no digits
            origin = rows.mean(0)
        rows = rows - origin
        n, total, outer = n + len(rows), total + rows.sum(0), outer + rows.T @ rows
    if origin is None:
        raise InputError("there are no features to reduce")
    _check_finite(outer)
    shift = total / n
    covariance = (outer - n * torch.outer(shift, shift)) / max(n - 1, 1)
    variances, vectors = torch.linalg.eigh(covariance)
    return origin + shift, variances.flip(0).clamp_(min=0), vectors.flip(1).T, n


def _by_svd(features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same of fewer samples than features: as many directions as samples."""
    _check_finite(features)
    rows = features.to(torch.float64 if features.device.type != "mps" else torch.float32)
    mean = rows.mean(0)
    _, lengths, directions = torch.linalg.svd(rows - mean, full_matrices=False)
    return mean, lengths.square() / (len(rows) - 1), directions


def _check_finite(values: Tensor) -> None:
    if not bool(torch.isfinite(values).all()):
        raise InputError("features must be finite to be reduced, but some are NaN or infinite; "
                         "look for extreme values in the data, or lower the learning rate")


def reduce(features: Tensor, fitted: Reduction) -> Tensor:
    """Project features, bring each component to variance 1, and each sample to length 1.

    The last two as far as *fitted* has ``whiten`` and ``normalize``. A component that carries only
    rounding noise becomes 0, and a sample of length 0 stays 0: there is never a NaN.

    Parameters
    ----------
    features : Tensor of shape (n_samples, n_features)
    fitted : Reduction

    Returns
    -------
    Tensor of shape (n_samples, n_components)
    """
    rotation = fitted.components.T
    if fitted.whiten:
        real = fitted.variances > NOISE * fitted.spectrum[0].clamp(min=torch.finfo().tiny)
        rotation = rotation * torch.where(real, fitted.variances, 1).rsqrt() * real
    # Features far from the origin would lose digits if the mean were taken off last.
    z = torch.cat([(part - fitted.mean) @ rotation for part in features.split(HELD_ROWS)])
    return functional.normalize(z, dim=1) if fitted.normalize else z


def check_components(n_components: int | None, n_samples: int, n_features: int) -> int:
    """The number of components to keep; raises InputError if there can't be as many."""
    if n_components is None:
        return min(n_features, n_samples)
    if not isinstance(n_components, Integral) or isinstance(n_components, bool) or n_components < 1:
        raise InputError("n_components must be None or a whole number of at least 1, not "
                         f"{n_components!r}")
    if n_components > n_samples:
        raise InputError(f"{n_components} dimensions can't be found in n_samples={n_samples}; set "
                         "n_components to fewer than there are images")
    if n_components > n_features:
        raise InputError(f"{n_components} dimensions can't be kept of the network's {n_features} "
                         "features; set n_components to at most as many")
    return int(n_components)
