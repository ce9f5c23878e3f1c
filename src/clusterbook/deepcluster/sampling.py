"""The images of an epoch: as many of each cluster, or each image once.

A cluster that holds most images would teach the network to answer with that cluster: the second
trivial solution of the paper (section 3.3). Its cure is to sample uniformly over pseudo-labels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import unknown

SAMPLINGS = ("uniform", "natural")


def epoch_indices(labels: Tensor, n_draws: int, generator: torch.Generator,
                  sampling: str = "uniform") -> Tensor:
    """The images of an epoch, in the order of training.

    Parameters
    ----------
    labels : Tensor of int64, shape (n_samples,)
        The pseudo-labels, on the CPU.
    n_draws : int
        How many images; `train` takes n_samples.
    generator : torch.Generator
        On the CPU.
    sampling : {"uniform", "natural"}
        As many images of each cluster that has any, to within one; or images at random, whatever
        their cluster: each as often as any other, to within one.

    Returns
    -------
    Tensor of int64, shape (n_draws,)
        Of a cluster that is larger than its share different images, at random; of a smaller one
        each image as often as any other, to within one.

    Raises
    ------
    InputError
        For another name of sampling.

    Notes
    -----
    The released ``UnifLabelSampler`` is meant to do the same, but its indices count images in the
    order of the data set, while the data set that it is used on is ordered by cluster: what is
    drawn has nearly the shares that the clusters have. Of a small cluster it draws with
    replacement, so that some images come often and others never.

    Examples
    --------
    >>> labels = torch.tensor([0] * 90 + [1] * 10)
    >>> drawn = epoch_indices(labels, 100, torch.Generator().manual_seed(0))
    >>> torch.bincount(labels[drawn]).tolist()
    [50, 50]
    """
    if sampling not in SAMPLINGS:
        raise unknown("sampling", sampling, SAMPLINGS)
    if sampling == "natural":
        labels = torch.zeros_like(labels)
    shuffled = torch.randperm(len(labels), generator=generator)
    _, clusters, sizes = labels[shuffled].unique(return_inverse=True, return_counts=True)
    by_cluster = shuffled[clusters.argsort(stable=True)]        # within a cluster at random
    begins = sizes.cumsum(0) - sizes
    shares = torch.full_like(sizes, n_draws // len(sizes))
    shares[torch.randperm(len(sizes), generator=generator)[:n_draws % len(sizes)]] += 1
    of = torch.repeat_interleave(torch.arange(len(sizes)), shares)
    rank = torch.arange(n_draws) - (shares.cumsum(0) - shares)[of]
    drawn = by_cluster[begins[of] + rank % sizes[of]]
    return drawn[torch.randperm(n_draws, generator=generator)]
