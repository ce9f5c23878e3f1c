r"""What clusters of neurons do: the information that they carry, and what is lost without them.

The normalized cut looks at weights only. Here the same clusters are held against what the neurons
do on data, each time beside a null model, because chance alone makes each of them positive:

- clusters of *activations*: do neurons that are tied together fire together?
- the neurons' *preferred classes*: do neurons of a cluster answer to the same digits?
- the *information* about the class in how active a cluster is;
- *lesions*: which classes are lost when a cluster is switched off?

Agreement is measured by the adjusted mutual information (AMI), which is 0 on average for unrelated
labels whatever their number; plain normalized mutual information grows with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.cluster import SpectralClustering
from sklearn.metrics import mutual_info_score
from sklearn.utils import check_random_state

from .. import metrics
from ..classifier import MLP
from ..errors import InputError
from .nulls import NullTest, check_shuffles


@dataclass(frozen=True)
class Neurons:
    """The neurons on both sides of a layer of weights, as they behave on data.

    Attributes
    ----------
    activity : ndarray of shape (n_samples, n_neurons)
        After ReLU. Rows of the weight matrix (outputs) first, then its columns (inputs).
    classes : ndarray of shape (n_samples,)
    labels : ndarray of shape (n_neurons,)
        The cluster of each neuron; -1 for none.
    is_row : bool ndarray of shape (n_neurons,)
        On which side of the layer a neuron stands.
    """

    activity: np.ndarray
    classes: np.ndarray
    labels: np.ndarray
    is_row: np.ndarray

    @property
    def alive(self) -> np.ndarray:
        """Neurons that belong to a cluster and are not constant on the data."""
        return (self.labels >= 0) & (_varies(self.activity))


def _varies(activity: np.ndarray) -> np.ndarray:
    # The range: the deviation of a constant float32 column is a rounding error above 0.
    return np.ptp(activity, axis=0) > 0


def neurons(network: MLP, X: ArrayLike, y: ArrayLike, layer: int, row_labels: ArrayLike,
            column_labels: ArrayLike) -> Neurons:
    """Run data through a network and collect the neurons on both sides of a layer.

    Parameters
    ----------
    network : MLP
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    layer : int
        A layer of weights between two hidden layers of neurons.
    row_labels, column_labels : array-like
        Clusters of the layer's outputs and inputs.

    Raises
    ------
    InputError
        If the layer does not lie between two hidden layers, or labels do not fit it.
    """
    if not 1 <= layer < len(network.linear) - 1:
        raise InputError(f"layer {layer} does not lie between two hidden layers; this network's "
                         f"layers 1 to {len(network.linear) - 2} do")
    device = network.linear[0].weight.device
    outputs = network.hidden(torch.as_tensor(np.asarray(X), dtype=torch.float32, device=device))
    rows, columns = (outputs[i].cpu().numpy() for i in (layer, layer - 1))
    if (len(row_labels), len(column_labels)) != (rows.shape[1], columns.shape[1]):
        raise InputError(f"layer {layer} has {rows.shape[1]} outputs and {columns.shape[1]} "
                         f"inputs; {len(row_labels)} row labels and {len(column_labels)} column "
                         "labels do not fit")
    if len(y) != len(rows):
        raise InputError(f"there are {len(rows)} samples but {len(y)} classes")
    labels = np.concatenate([row_labels, column_labels])
    is_row = np.arange(len(labels)) < rows.shape[1]
    return Neurons(np.hstack([rows, columns]), np.asarray(y), labels, is_row)


# ---------------------------------------------------------------- do they fire together?


def activation_clusters(activity: np.ndarray, n_clusters: int, random_state=None) -> np.ndarray:
    """Cluster neurons by what they do: spectral clustering of their absolute correlations.

    Parameters
    ----------
    activity : ndarray of shape (n_samples, n_neurons)
    n_clusters : int
    random_state : int, RandomState instance or None

    Returns
    -------
    ndarray of shape (n_neurons,)
        -1 for a neuron that is constant.
    """
    varies = _varies(activity)
    labels = np.full(activity.shape[1], -1)
    if not 1 <= n_clusters < varies.sum():
        raise InputError(f"{n_clusters} clusters of {varies.sum()} neurons that are not constant: "
                         "there must be at least 1, and fewer than neurons")
    similarity = np.abs(np.corrcoef(activity[:, varies], rowvar=False))
    labels[varies] = SpectralClustering(n_clusters, affinity="precomputed",
                                        random_state=random_state).fit(similarity).labels_
    return labels


def preferred_class(activity: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The class on which each neuron is most active on average, in its own units.

    Parameters
    ----------
    activity : ndarray of shape (n_samples, n_neurons)
    classes : ndarray of shape (n_samples,)

    Returns
    -------
    ndarray of shape (n_neurons,)
        -1 for a neuron that is constant.

    Examples
    --------
    >>> preferred_class(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([0, 1]))
    array([0, 1])
    """
    names = np.unique(classes)
    means = np.stack([activity[classes == c].mean(0) for c in names])
    return np.where(_varies(activity), names[means.argmax(0)], -1)


def agreement_test(found: Neurons, other: np.ndarray, *, n_permutations: int = 200,
                   random_state=None) -> NullTest:
    """AMI between the weight clusters and another labeling of the same neurons.

    The null permutes the other labels among the neurons of one side, so that a difference between
    the two sides alone is no agreement.

    Parameters
    ----------
    found : Neurons
    other : ndarray of shape (n_neurons,)
        Activation clusters or preferred classes; -1 is left out.
    n_permutations : int
    random_state : int, RandomState instance or None

    Returns
    -------
    NullTest
        Large values are the remarkable ones.
    """
    check_shuffles(n_permutations)
    rng = check_random_state(random_state)
    used = found.alive & (other >= 0)
    labels, other, is_row = found.labels[used], other[used], found.is_row[used]
    if len(labels) < 2:
        raise InputError("fewer than two neurons are alive: there is nothing to compare")
    null = []
    for _ in range(n_permutations):
        mixed = other.copy()
        for side in (is_row, ~is_row):
            mixed[side] = rng.permutation(mixed[side])
        null.append(metrics.ami(labels, mixed))
    return NullTest(metrics.ami(labels, other), np.array(null), larger=True)


# ---------------------------------------------------------------- what do they know?


def information(activity: np.ndarray, classes: np.ndarray, *, bins: int = 10) -> float:
    """Mutual information between how active a set of neurons is and the class, in bits.

    The set's activity, the mean over its neurons, is cut into bins of equal counts.

    Parameters
    ----------
    activity : ndarray of shape (n_samples, n_neurons)
    classes : ndarray of shape (n_samples,)
    bins : int

    Returns
    -------
    float
        At most log2 of the number of classes or of bins. Never below 0, and above 0 by chance.

    Examples
    --------
    >>> round(information(np.array([[0.0], [0.0], [9.0], [9.0]]), np.array([3, 3, 5, 5])), 6)
    1.0
    """
    level = activity.mean(1)
    edges = np.unique(np.quantile(level, np.linspace(0, 1, bins + 1)[1:-1]))
    return float(mutual_info_score(classes, np.searchsorted(edges, level)) / np.log(2))


def information_tests(found: Neurons, *, n_random: int = 50, random_state=None
                      ) -> dict[int, NullTest]:
    """What each cluster's activity tells about the class, beside random sets of the same size.

    Parameters
    ----------
    found : Neurons
    n_random : int
        Random sets per cluster, with as many neurons of each side as the cluster has.
    random_state : int, RandomState instance or None

    Returns
    -------
    dict of int to NullTest
        By cluster, in bits; large values are the remarkable ones.
    """
    check_shuffles(n_random)
    rng = check_random_state(random_state)
    tests = {}
    for c in np.unique(found.labels[found.labels >= 0]):
        members = found.labels == c

        def bits(chosen: np.ndarray) -> float:
            return information(found.activity[:, chosen], found.classes)

        null = [bits(_random_set(found, members, rng)) for _ in range(n_random)]
        tests[int(c)] = NullTest(bits(members), np.array(null), larger=True)
    return tests


# ---------------------------------------------------------------- what is lost without them?


@dataclass(frozen=True)
class Lesions:
    """Accuracy by class with clusters switched off.

    Attributes
    ----------
    whole : ndarray of shape (n_classes,)
        Of the whole network.
    without : ndarray of shape (n_clusters, n_classes)
        With each cluster switched off.
    random : ndarray of shape (n_clusters, n_random, n_classes)
        With random sets of the cluster's size switched off.
    """

    whole: np.ndarray
    without: np.ndarray
    random: np.ndarray

    @property
    def drop(self) -> np.ndarray:
        """What each class loses without each cluster, (n_clusters, n_classes)."""
        return self.whole - self.without

    @property
    def excess(self) -> np.ndarray:
        """What it loses beyond the mean of the random sets, (n_clusters, n_classes)."""
        return self.random.mean(1) - self.without

    def test(self, summary: Callable[[np.ndarray], np.ndarray], cluster: int) -> NullTest:
        """A summary of the losses by class (mean, range …) beside those of the random sets."""
        return NullTest(float(summary(self.drop[cluster])),
                        np.array([summary(row) for row in self.whole - self.random[cluster]]),
                        larger=True)


def lesions(network: MLP, X: ArrayLike, y: ArrayLike, layer: int, row_labels: ArrayLike,
            column_labels: ArrayLike, *, n_random: int = 50, random_state=None) -> Lesions:
    """Switch off one cluster after the other, and random sets of the same size.

    Parameters
    ----------
    network, X, y, layer, row_labels, column_labels
        See `neurons`.
    n_random : int
        Random sets per cluster, with as many neurons of each side as the cluster has.
    random_state : int, RandomState instance or None

    Returns
    -------
    Lesions
    """
    check_shuffles(n_random)
    rng = check_random_state(random_state)
    found = neurons(network, X, y, layer, row_labels, column_labels)
    device = network.linear[0].weight.device
    X = torch.as_tensor(np.asarray(X), dtype=torch.float32, device=device)
    classes = np.unique(found.classes)

    def by_class(off: np.ndarray) -> np.ndarray:
        masks: list[np.ndarray | None] = [None] * (layer + 1)
        masks[layer], masks[layer - 1] = off[found.is_row], off[~found.is_row]
        right = network.hidden(X, off=masks)[-1].argmax(1).cpu().numpy() == found.classes
        return np.array([right[found.classes == c].mean() for c in classes])

    without, random = [], []
    for c in np.unique(found.labels[found.labels >= 0]):
        members = found.labels == c
        without.append(by_class(members))
        random.append([by_class(_random_set(found, members, rng)) for _ in range(n_random)])
    whole = by_class(np.zeros(len(found.labels), dtype=bool))
    return Lesions(whole, np.array(without), np.array(random))


def _random_set(found: Neurons, members: np.ndarray, rng) -> np.ndarray:
    """A random set of neurons with as many of each side as *members* has."""
    chosen = np.zeros(len(members), dtype=bool)
    for side in (found.is_row, ~found.is_row):
        places = np.flatnonzero(side & (found.labels >= 0))
        chosen[rng.choice(places, int((members & side).sum()), replace=False)] = True
    return chosen
