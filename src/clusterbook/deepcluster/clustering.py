r"""Pseudo-labels of DeepCluster: PCA and whitening, k-means, sampling (sections 3.2 to 3.4).

With several processes, each has consecutive rows of the data, and sums run over all of them.

Features :math:`f` with mean :math:`\mu` and covariance :math:`U \Lambda U^\top` become
:math:`z = \Lambda_d^{-1/2} U_d^\top (f - \mu)`, of 256 dimensions in the paper, then
:math:`z / \lVert z \rVert`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor
from torch.nn import functional

from .. import checks
from ..checks import InputError
from . import distributed

#: A component with less than this part of the largest variance is rounding noise, and becomes 0.
NOISE = 1e-10
#: Rows held in double precision at once.
HELD_ROWS = 4096
#: Distances held at once, 4 bytes each, so that they stay in a core's cache.
HELD_DISTANCES = 2**18
#: The first centers are chosen among this many random points, or `PER_CLUSTER` times k if larger,
#: and move on these alone for some rounds.
SEEDED_ON, PER_CLUSTER, FIRST_ROUNDS = 8192, 8, 10
SAMPLINGS = ("uniform", "natural")


@dataclass
class Reduction:
    """A fitted PCA, with what `reduce` does after the projection."""

    mean: Tensor            # (n_features,)
    components: Tensor      # (n_components, n_features), unit vectors by decreasing variance
    variances: Tensor       # (n_components,), divided by n_samples - 1
    spectrum: Tensor        # variances along all components, including those left out
    whiten: bool = True     # scale each component to variance 1, and rounding noise to 0
    normalize: bool = True  # then scale each sample to length 1, but for one of length 0


def fit_reduction(features: Tensor | Iterable[Tensor], n_components: int | None = 256, *,
                  whiten: bool = True, normalize: bool = True) -> Reduction:
    """Fit a PCA in float64 to features, (n_samples, n_features), or to batches read once.

    ``n_components=None`` keeps all dimensions. Raises InputError if there are fewer samples or
    features than components, or features are not finite.
    """
    held = sum(distributed.gathered(len(features))) if isinstance(features, Tensor) else 0
    if held > 1 and held < features.shape[1]:       # as many directions as samples
        features = distributed.rows(features)
        _check_finite(features)
        n, mean = held, features.double().mean(0)
        _, lengths, directions = torch.linalg.svd(features.double() - mean, full_matrices=False)
        spectrum = lengths.square() / (n - 1)
    else:
        n, origin, total, outer = 0, None, 0.0, 0.0
        for batch in features.split(HELD_ROWS) if isinstance(features, Tensor) else features:
            rows = batch.double()
            if origin is None:              # near the mean, so that squares lose no digits
                origin = distributed.total(rows.mean(0)) / distributed.here.size
            rows = rows - origin
            n, total, outer = n + len(rows), total + rows.sum(0), outer + rows.T @ rows
        n = sum(distributed.gathered(n))
        total, outer = distributed.total(total), distributed.total(outer)
        _check_finite(outer)
        shift = total / n
        mean, covariance = origin + shift, (outer - n * torch.outer(shift, shift)) / max(n - 1, 1)
        spectrum, directions = torch.linalg.eigh(covariance)        # by increasing variance
        spectrum, directions = spectrum.flip(0).clamp_(min=0), directions.flip(1).T
    kept = check_components(n_components, n, len(mean))
    components = directions[:kept]
    components = components * components.gather(1, components.abs().argmax(1, keepdim=True)).sign()
    found = (mean.float(), components.float().contiguous(), spectrum[:kept].float(),
             spectrum.float())
    distributed.same(*found)
    return Reduction(*found, whiten, normalize)


def _check_finite(values: Tensor) -> None:
    if not bool(torch.isfinite(values).all()):
        raise InputError("the features to cluster must be finite, but some are NaN or infinite; "
                         "look for extreme values in the data, or lower the learning rate")


def check_components(n_components: int | None, n_samples: int, n_features: int) -> int:
    """The number of components to keep; raises InputError if it exceeds samples or features."""
    kept = min(n_samples, n_features) if n_components is None else n_components
    checks.whole("n_components", kept, 1)
    if kept > min(n_samples, n_features):
        raise InputError(f"n_components={n_components} exceeds n_samples={n_samples} or the "
                         f"network's n_features={n_features}")
    return kept


def reduce(features: Tensor, fitted: Reduction) -> Tensor:
    """Project features, (n_samples, n_features), to (n_samples, n_components).

    A vector of length 0 stays as it is; none becomes NaN for that.
    """
    rotation = fitted.components.T
    if fitted.whiten:
        real = fitted.variances > NOISE * fitted.spectrum[0].clamp(min=torch.finfo().tiny)
        rotation = rotation * torch.where(real, fitted.variances, 1).rsqrt() * real
    # Features far from the origin would lose digits if the mean were subtracted last.
    z = torch.cat([(part - fitted.mean) @ rotation for part in features.split(HELD_ROWS)])
    return functional.normalize(z, dim=1) if fitted.normalize else z


@dataclass
class Clusters:
    """The result of k-means."""

    labels: Tensor          # int64, (n_samples,)
    centers: Tensor         # (n_clusters, n_features)
    inertia: float          # sum of squared distances of the samples to their centers


def kmeans(X: Tensor, n_clusters: int, *, n_init: int = 1, max_iter: int = 20,
           reassign_empty: bool = True, seed: int = 0) -> Clusters:
    r"""Cluster the rows of *X* by k-means (Eq. 2), starting from k-means++.

    .. math::

        \min_C \frac1N \sum_n \min_{y_n} \lVert x_n - C y_n \rVert^2
        \quad\text{with}\quad y_n \in \{0, 1\}^k,\ y_n^\top 1_k = 1

    *X* is float32, (n_samples, n_features). Of *n_init* starts the one with the smallest inertia is
    kept. A start ends after *max_iter* rounds, 20 in the released code, or when no sample changes
    its cluster. Empty clusters are filled by `split_empty`, or keep their center. For k-means++ see
    Arthur and Vassilvitskii, SODA 2007. On a GPU the clusters of a seed may vary.

    Raises InputError for fewer samples than clusters, features that are not finite or whose sum is
    not, or a setting out of range.
    """
    for name, value in (("n_clusters", n_clusters), ("n_init", n_init), ("max_iter", max_iter)):
        checks.whole(name, value, 1)
    n = sum(distributed.gathered(len(X)))
    if n_clusters > n:
        raise InputError(f"n_clusters={n_clusters} exceeds n_samples={n}")
    sums = distributed.total(X.sum(0))
    _check_finite(sums)                         # of X itself, isfinite would take a copy
    generator = torch.Generator().manual_seed(seed)
    # Differences of squares lose digits far from the origin, so the origin moves to the mean.
    mean = sums / n
    squares = distributed.total(sum((part - mean).square().sum(dtype=torch.float64)
                                    for part in X.split(HELD_ROWS)))
    if float(mean.square().sum()) > 1e-3 * float(squares) / n:
        X = X - mean
    else:                                       # spares a copy
        mean = torch.zeros_like(mean)
    best = min((_one_start(X, n_clusters, max_iter, reassign_empty, generator)
                for _ in range(n_init)), key=lambda found: found.inertia)
    best.centers += mean
    return best


def _one_start(X: Tensor, k: int, max_iter: int, reassign_empty: bool,
               generator: torch.Generator) -> Clusters:
    centers, before = _first_centers(X, k, generator), None
    for _ in range(max_iter):
        labels, _ = assign(X, centers)
        if before is not None and all(distributed.gathered(torch.equal(labels, before))):
            break
        before = labels
        if reassign_empty:
            labels = split_empty(X, labels, centers, generator)
        centers = _means(X, labels, centers)
    labels, distances = assign(X, centers)
    # The last move can leave a cluster empty; only equal samples can keep it so.
    for _ in range(10 if reassign_empty else 0):
        if _counts(labels, k).all():
            break
        centers = _means(X, split_empty(X, labels, centers, generator), centers)
        labels, distances = assign(X, centers)
    inertia = distributed.total(distances.sum(dtype=torch.float64))
    return Clusters(labels, centers, float(inertia))


def _first_centers(X: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """Centers by k-means++; of many samples on a random part, where they also move a few times."""
    n, m = sum(distributed.gathered(len(X))), max(SEEDED_ON, PER_CLUSTER * k)
    chosen = torch.randperm(n, generator=generator)[:m].to(X.device) if n > m else None
    part = distributed.rows(X, chosen)
    centers = plus_plus(part, k, generator)        # by each process
    distributed.same(centers)                       # on GPUs the last bits of a sum vary
    part = distributed.part(part)
    for _ in range(FIRST_ROUNDS if n > m else 0):
        centers = _means(part, assign(part, centers)[0], centers)
    return centers


def plus_plus(X: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """First centers by greedy k-means++ with 2 + log(k) candidates, as in scikit-learn."""
    lengths, trials = _lengths(X), 2 + int(log(k))

    def squared(rows: Tensor) -> Tensor:
        """Squared distances of some rows to all, (n_rows, n_samples)."""
        inner = torch.addmm(lengths, X[rows], X.T, alpha=-2)
        return inner.add_(lengths[rows, None]).clamp_(min=0)

    # All random numbers at once, so that the device is never waited for.
    draws = torch.rand(k, trials, generator=generator, dtype=torch.float64).to(X.device)
    chosen = torch.empty(k, dtype=torch.int64, device=X.device)
    chosen[0] = (draws[0, 0] * len(X)).long()
    closest = squared(chosen[:1])[0]
    for i in range(1, k):
        heights = closest.cumsum(0, dtype=torch.float64)
        candidates = torch.searchsorted(heights, draws[i] * heights[-1]).clamp_(max=len(X) - 1)
        distances = torch.minimum(squared(candidates), closest)
        best = distances.sum(1).argmin()
        closest, chosen[i] = distances[best], candidates[best]
    return X[chosen]


def assign(X: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest center of each row, int64, and the squared distance to it, both (n_samples,)."""
    # The nearest center has the largest inner product, less half its own squared length.
    half, transposed = -0.5 * centers.square().sum(1), centers.T.contiguous()
    size = max(256, HELD_DISTANCES // len(centers))
    found = [torch.addmm(half, part, transposed).max(1) for part in X.split(size)]
    inner, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
    return labels, inner.mul_(-2).add_(_lengths(X)).clamp_(min=0)


def _lengths(X: Tensor) -> Tensor:
    """The squared length of each row, without holding the squares of all numbers."""
    return torch.linalg.vector_norm(X, dim=1).square_()


def _counts(labels: Tensor, k: int) -> Tensor:
    """The number of samples of each cluster."""
    return distributed.total(torch.bincount(labels, minlength=k))


def _means(X: Tensor, labels: Tensor, centers: Tensor) -> Tensor:
    """The mean of each cluster's rows; an empty one keeps its center."""
    counts = _counts(labels, len(centers))
    sums = distributed.total(torch.zeros_like(centers).index_add_(0, labels, X))
    return torch.where((counts > 0)[:, None], sums / counts.clamp(min=1)[:, None], centers)


def split_empty(X: Tensor, labels: Tensor, centers: Tensor, generator: torch.Generator) -> Tensor:
    """Labels in which each empty cluster has received part of a random other one (section 3.3).

    A plane through the mean of the other cluster's samples cuts them in two, as if its center were
    perturbed to either side, with a random sign per feature. The generator is on the CPU.
    """
    labels = labels.clone()
    counts = _counts(labels, len(centers))
    for empty in torch.nonzero(counts == 0)[:, 0].tolist():
        donors = torch.nonzero(counts > 1)[:, 0]
        donor = int(donors[int(torch.randint(len(donors), (), generator=generator))])
        members = torch.nonzero(labels == donor)[:, 0]
        signs = torch.randint(2, (X.shape[1],), generator=generator).to(X) * 2 - 1
        mean = distributed.total(X[members].sum(0)) / counts[donor]
        away = (X[members] - mean) @ signs > 0
        moved = distributed.total(away.sum())
        if moved == counts[donor] or not moved:                 # equal samples: any half
            moved = counts[donor] // 2
            earlier = sum(distributed.gathered(len(members))[:distributed.here.rank])
            away = torch.arange(earlier, earlier + len(members), device=X.device) < moved
        labels[members[away]] = empty
        counts[empty] = moved
        counts[donor] -= moved
    return labels


def epoch_indices(labels: Tensor, n_draws: int, generator: torch.Generator,
                  sampling: str = "uniform") -> Tensor:
    """The images of an epoch in the order of training, (n_draws,) (section 3.3).

    ``"uniform"`` draws equally many images of each nonempty cluster, and each of these equally
    often; ``"natural"`` draws each image equally often; all to within one. *labels*,
    (n_samples,), are the pseudo-labels; they and the generator are on the CPU.
    """
    checks.one_of("sampling", sampling, SAMPLINGS)
    if sampling == "natural":
        labels = torch.zeros_like(labels)
    shuffled = torch.randperm(len(labels), generator=generator)
    _, clusters, sizes = labels[shuffled].unique(return_inverse=True, return_counts=True)
    by_cluster = shuffled[clusters.argsort(stable=True)]        # random within a cluster
    starts = sizes.cumsum(0) - sizes
    shares = torch.full_like(sizes, n_draws // len(sizes))
    shares[torch.randperm(len(sizes), generator=generator)[:n_draws % len(sizes)]] += 1
    of = torch.repeat_interleave(torch.arange(len(sizes)), shares)
    rank = torch.arange(n_draws) - (shares.cumsum(0) - shares)[of]
    drawn = by_cluster[starts[of] + rank % sizes[of]]
    return drawn[torch.randperm(n_draws, generator=generator)]
