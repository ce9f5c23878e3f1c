r"""K-means for features of many images: pseudo-labels of an epoch (Eq. 2 of the paper).

.. math::

    \min_C \frac1N \sum_n \min_{y_n} \lVert f_\theta(x_n) - C y_n \rVert^2
    \quad\text{with}\quad y_n \in \{0, 1\}^k,\ y_n^\top 1_k = 1

The released code takes faiss, with centers that begin at random images. Here they begin by
k-means++ [1]_, which finds clusters that are tighter by a tenth and more, in plain torch on any
device; faiss is there for whoever has it (``backend="faiss"``).

References
----------
.. [1] D. Arthur and S. Vassilvitskii, "k-means++: The Advantages of Careful Seeding", SODA 2007.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, unknown

#: Distances that are held at once: 4 bytes each, so that they stay in a core's cache.
HELD_DISTANCES = 2**18
#: The first centers are chosen among this many random points, or `PER_CLUSTER` times k if larger.
SEEDED_ON, PER_CLUSTER = 8192, 8
#: Rounds on these points alone before all samples take part: each spares about one of those.
FIRST_ROUNDS = 10
#: How far the two halves of a split cluster begin from its center, relative to its length.
PERTURBATION = 1 / 1024
BACKENDS = ("torch", "faiss")


@dataclass
class Clusters:
    """What k-means found.

    Attributes
    ----------
    labels : Tensor of int64, shape (n_samples,)
        The nearest center of each sample.
    centers : Tensor of shape (n_clusters, n_features)
    inertia : float
        Sum of squared distances of the samples to their centers.
    n_iter : int
        Rounds that were done.
    """

    labels: Tensor
    centers: Tensor
    inertia: float
    n_iter: int


def kmeans(X: Tensor, n_clusters: int, *, n_init: int = 1, max_iter: int = 20, tol: float = 0.0,
           reassign_empty: bool = True, backend: str = "torch", seed: int = 0) -> Clusters:
    r"""Cluster the rows of *X*.

    Parameters
    ----------
    X : Tensor of shape (n_samples, n_features)
        float32, on any device.
    n_clusters : int
    n_init : int
        Starts, of which the one with the smallest inertia is kept.
    max_iter : int
        Rounds of assigning all samples and moving centers; 20 in the released code.
    tol : float
        Stop when the centers' squared movements add up to at most this times the mean variance of
        a feature, as scikit-learn has it (1e-4 there); 0 stops only when no sample changes its
        cluster. Not for faiss.
    reassign_empty : bool
        Whether an empty cluster takes part of another one, as the paper has it: a random cluster's
        center is perturbed, and its samples are divided between the two. Otherwise an empty cluster
        stays where it is. faiss always splits.
    backend : {"torch", "faiss"}
        faiss begins with random samples, as in the released code, and does all rounds.
    seed : int
        Decides everything.

    Returns
    -------
    Clusters
        Of clusters that were split until none is empty; only where samples are equal (fewer
        different ones than clusters) can some stay empty.

    Raises
    ------
    InputError
        For fewer samples than clusters, a setting out of range, or faiss where it is not installed.

    Notes
    -----
    Beyond *X* itself the peak, for N samples of d features, is about

    .. math:: 4 \left(m (d + 3 \log k + 6) + 5 k d + 3 N + \max(2^{18}, 256 k)\right) + 16 N
              \ \text{bytes, with}\ m = \min(N, \max(8192, 8 k)),

    and 4 N d more where the features' mean is far from the origin: neither N × k × d nor N × k
    numbers are ever held. For 200,000 × 256 and k = 1,000 that is 21 MB beside the features'
    205 MB; for 1.3 million and k = 10,000 it is 190 MB beside 1.3 GB. The same seed gives the same
    clusters on a CPU; on a GPU sums are added up in any order.

    Examples
    --------
    >>> X = torch.tensor([[0.0], [0.1], [5.0], [5.1]])
    >>> found = kmeans(X, 2)
    >>> round(found.inertia, 3), bool(found.labels[0] == found.labels[1] != found.labels[2])
    (0.01, True)
    """
    _check(X, n_clusters, n_init, max_iter, tol, backend)
    if backend == "faiss":
        return _by_faiss(X, n_clusters, n_init, max_iter, seed)
    generator = torch.Generator().manual_seed(seed)
    # Differences of squares lose digits far from the origin, so the origin moves to the middle.
    middle = X.mean(0)
    if float(middle.square().sum()) > 1e-3 * float(_mean_variance(X, middle)) * X.shape[1]:
        X = X - middle
    else:                               # a copy would be for nothing
        middle = torch.zeros_like(middle)
    enough = tol * float(_mean_variance(X, X.mean(0))) if tol else 0.0
    best: Clusters | None = None
    for _ in range(n_init):
        found = _one_start(X, n_clusters, max_iter, enough, reassign_empty, generator)
        if best is None or found.inertia < best.inertia:
            best = found
    best.centers += middle
    return best


def assign(X: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest center of each row, int64, and the squared distance to it, both (n_samples,).

    Only `HELD_DISTANCES` distances are held at once.
    """
    return _nearest(X, centers, _lengths(X))


# ------------------------------------------------------------------------------------- one start


def _one_start(X: Tensor, k: int, max_iter: int, enough: float, reassign_empty: bool,
               generator: torch.Generator) -> Clusters:
    lengths = _lengths(X)
    centers = _first_centers(X, k, generator)
    before, done = None, 0
    while done < max_iter:
        done += 1
        labels, _ = _nearest(X, centers, lengths)
        counts = torch.bincount(labels, minlength=k)
        if before is not None and torch.equal(labels, before):
            break
        before = labels
        if reassign_empty and not counts.all():
            labels = split_empty(X, labels, centers, generator)
            counts = torch.bincount(labels, minlength=k)
        moved = _means(X, labels, counts, centers)
        shift = float((moved - centers).square().sum())
        centers = moved
        if shift <= enough:
            break
    labels, distances = _nearest(X, centers, lengths)
    # The last move can leave a cluster empty; only equal samples can keep it so.
    for _ in range(10 if reassign_empty else 0):
        if torch.bincount(labels, minlength=k).all():
            break
        parted = split_empty(X, labels, centers, generator)
        centers = _means(X, parted, torch.bincount(parted, minlength=k), centers)
        labels, distances = _nearest(X, centers, lengths)
    return Clusters(labels, centers, float(distances.sum(dtype=torch.float64)), done)


def _first_centers(X: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """Centers by k-means++; of many samples on a random part, where they also move a few times."""
    m = max(SEEDED_ON, PER_CLUSTER * k)
    if len(X) <= m:
        return _seeded(X, k, generator)
    part = X[torch.randperm(len(X), generator=generator)[:m].to(X.device)]
    centers, lengths = _seeded(part, k, generator), _lengths(part)
    for _ in range(FIRST_ROUNDS):
        labels, _ = _nearest(part, centers, lengths)
        centers = _means(part, labels, torch.bincount(labels, minlength=k), centers)
    return centers


def _seeded(X: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """First centers by greedy k-means++, (k, n_features).

    Of some candidates, drawn by their squared distance to the nearest center so far, the one that
    lowers the sum of these distances most; there are 2 + log(k), as in scikit-learn.
    """
    lengths, trials = _lengths(X), 2 + int(log(k))
    # All random numbers at once: nothing is asked of the device between two centers.
    draws = torch.rand(k, trials, generator=generator, dtype=torch.float64).to(X.device)
    chosen = torch.empty(k, dtype=torch.int64, device=X.device)
    chosen[0] = (draws[0, 0] * len(X)).long()
    closest = _squared(X, lengths, chosen[:1])[0]
    for i in range(1, k):
        heights = closest.cumsum(0, dtype=torch.float64)
        candidates = torch.searchsorted(heights, draws[i] * heights[-1]).clamp_(max=len(X) - 1)
        distances = torch.minimum(_squared(X, lengths, candidates), closest)
        best = distances.sum(1).argmin()
        closest, chosen[i] = distances[best], candidates[best]
    return X[chosen]


def _lengths(X: Tensor) -> Tensor:
    """The squared length of each row, without the squares of all numbers at once."""
    return torch.linalg.vector_norm(X, dim=1).square_()


def _squared(X: Tensor, lengths: Tensor, rows: Tensor) -> Tensor:
    """Squared distances of some rows to all, (n_rows, n_samples)."""
    return torch.addmm(lengths, X[rows], X.T, alpha=-2).add_(lengths[rows, None]).clamp_(min=0)


def _nearest(X: Tensor, centers: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    half, turned = -0.5 * centers.square().sum(1), centers.T.contiguous()
    labels = torch.empty(len(X), dtype=torch.int64, device=X.device)
    inner = torch.empty(len(X), dtype=X.dtype, device=X.device)
    size = max(256, HELD_DISTANCES // len(centers))
    held = torch.empty(min(size, len(X)), len(centers), dtype=X.dtype, device=X.device)
    for start in range(0, len(X), size):
        part = slice(start, start + size)
        rows = X[part]
        # The nearest center is the one with the largest inner product, less half its own square.
        found = torch.addmm(half, rows, turned, out=held[:len(rows)])
        torch.max(found, 1, out=(inner[part], labels[part]))
    return labels, inner.mul_(-2).add_(lengths).clamp_(min=0)


def _means(X: Tensor, labels: Tensor, counts: Tensor, centers: Tensor) -> Tensor:
    """The mean of each cluster's rows; an empty one keeps its center."""
    sums = torch.zeros_like(centers).index_add_(0, labels, X)
    return torch.where((counts > 0)[:, None], sums / counts.clamp(min=1)[:, None], centers)


def _mean_variance(X: Tensor, mean: Tensor) -> Tensor:
    """The mean over features of their variance, in pieces."""
    squares = sum((part - mean).square().sum(dtype=torch.float64) for part in X.split(2**12))
    return squares / X.numel()


def split_empty(X: Tensor, labels: Tensor, centers: Tensor, generator: torch.Generator) -> Tensor:
    """Labels in which each empty cluster has got part of a random other one.

    As in the paper: the center of a random cluster is perturbed, by a random sign of each feature,
    to either side, and its samples go to the nearer of the two.

    Parameters
    ----------
    X : Tensor of shape (n_samples, n_features)
    labels : Tensor of int64, shape (n_samples,)
    centers : Tensor of shape (n_clusters, n_features)
    generator : torch.Generator
        On the CPU.

    Returns
    -------
    Tensor of int64, shape (n_samples,)
        Without an empty cluster, where there are at least as many samples as clusters.
    """
    labels = labels.clone()
    counts = torch.bincount(labels, minlength=len(centers))
    for empty in torch.nonzero(counts == 0)[:, 0].tolist():
        donors = torch.nonzero(counts > 1)[:, 0]
        if not len(donors):
            break
        donor = int(donors[int(torch.randint(len(donors), (), generator=generator))])
        members = torch.nonzero(labels == donor)[:, 0]
        signs = torch.randint(2, (X.shape[1],), generator=generator).to(X) * 2 - 1
        # Nearer to center + p than to center - p: on the side of the plane to which p points.
        offset = PERTURBATION * centers[donor].norm() * signs
        away = (X[members] - X[members].mean(0)) @ offset > 0
        if away.all() or not away.any():                        # equal samples: any half
            away = torch.arange(len(members), device=X.device) < len(members) // 2
        labels[members[away]] = empty
        counts[empty] = away.sum()
        counts[donor] -= counts[empty]
    return labels


# ----------------------------------------------------------------------------------------- faiss


def _by_faiss(X: Tensor, k: int, n_init: int, max_iter: int, seed: int) -> Clusters:
    faiss = faiss_or_refuse()
    rows = X.detach().cpu().float().contiguous().numpy()
    # By default faiss takes 256 samples a cluster, and says so when there are fewer than 39.
    found = faiss.Kmeans(rows.shape[1], k, niter=max_iter, nredo=n_init, seed=seed % 2**31,
                         min_points_per_centroid=1, max_points_per_centroid=10_000_000)
    found.train(rows)
    distances, labels = found.index.search(rows, 1)
    return Clusters(torch.from_numpy(labels[:, 0]).to(X.device),
                    torch.from_numpy(found.centroids).to(X.device),
                    float(distances.sum(dtype="float64")), max_iter)


def faiss_or_refuse() -> Any:
    """The module faiss; raises InputError where it is not installed."""
    try:
        import faiss
    except ImportError:
        raise InputError("faiss is not installed; install it by pip install clusterbook[faiss], or "
                         "take the k-means that is built in, backend='torch'") from None
    return faiss


def _check(X: Tensor, n_clusters: int, n_init: int, max_iter: int, tol: float, backend: str
           ) -> None:
    if backend not in BACKENDS:
        raise unknown("k-means backend", backend, BACKENDS)
    for name, value in (("n_clusters", n_clusters), ("n_init", n_init), ("max_iter", max_iter)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, not {value!r}")
    if not isinstance(tol, Real) or not tol >= 0:
        raise InputError(f"tol must be a number of at least 0, not {tol!r}")
    if X.ndim != 2:
        raise InputError("k-means takes rows of features, (n_samples, n_features), not an array "
                         f"of shape {tuple(X.shape)}")
    if n_clusters > len(X):
        raise InputError(f"{n_clusters} clusters can't be made of n_samples={len(X)}; ask for "
                         "fewer")
    if not bool(torch.isfinite(X.sum(0)).all()):            # isfinite(X) would take a copy
        raise InputError("k-means can't cluster features that are NaN or infinite; look for "
                         "extreme values in the data, or lower the learning rate")
