r"""How good clusters of neurons are: what they do on data, and all measures of one network.

Each measure stands beside a null model, because chance alone makes it positive: do the neurons
of a cluster fire together, prefer the same classes and tell the class; which are lost without them?
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import SpectralClustering
from sklearn.metrics import mutual_info_score
from sklearn.utils import check_consistent_length

from .. import metrics
from ..checks import InputError, as_random_state, whole
from .coclustering import NullTest, WeightCoclustering, network_test, null_tests

__all__ = ["Lesions", "Neurons", "Quality", "clusterability", "information", "lesions",
           "measurements", "neurons", "of_way", "quality"]


@dataclass(frozen=True)
class Neurons:
    """Activity of the neurons on both sides of a layer: rows (outputs), then columns (inputs)."""

    activity: np.ndarray        #: (n_samples, n_neurons), after ReLU
    classes: np.ndarray         #: (n_samples,)
    labels: np.ndarray          #: (n_neurons,), the cluster of each neuron, -1 for none
    is_row: np.ndarray          #: (n_neurons,), bool


def neurons(network, X: ArrayLike, y: ArrayLike, layer: int, row_labels: ArrayLike,
            column_labels: ArrayLike) -> Neurons:
    """Run data through a network and collect the neurons on both sides of a layer of weights.

    *network* is a `clusterbook.classifier.MLP`, *X* (n_samples, n_features), *y* (n_samples,) are
    classes, indices of its outputs, the labels (n_outputs,) and (n_inputs,). Raises InputError
    for another network or other classes, and unless the layer lies between two hidden ones,
    ValueError if lengths do not fit.
    """
    _check(network)
    if len(network.linear) < 3:
        raise InputError("weights between two hidden layers need at least two; this network has "
                         f"{len(network.linear) - 1}")
    if not 1 <= layer < len(network.linear) - 1:
        raise InputError(f"layer {layer} does not lie between two hidden layers; this network's "
                         f"layers 1 to {len(network.linear) - 2} do")
    classes, n_classes = np.asarray(y), network.linear[-1].out_features
    if classes.dtype.kind not in "iub" or not np.isin(classes, range(n_classes)).all():
        raise InputError(f"y must hold whole numbers from 0 to {n_classes - 1}, the indices of the "
                         "network's outputs")
    outputs = network.hidden(np.asarray(X))
    rows, columns = (outputs[i].cpu().numpy() for i in (layer, layer - 1))
    for data, given in ((rows, y), (rows.T, row_labels), (columns.T, column_labels)):
        check_consistent_length(data, given)
    labels = np.concatenate([row_labels, column_labels])
    return Neurons(np.hstack([rows, columns]), classes, labels,
                   np.arange(len(labels)) < len(row_labels))


def _varies(activity: np.ndarray) -> np.ndarray:
    # The deviation of a constant float32 column is a rounding error above 0.
    return np.ptp(activity, axis=0) > 0


def activation_clusters(activity: np.ndarray, n_clusters: int, random_state=None) -> np.ndarray:
    """Spectral clustering of the neurons by the absolute correlations of their activities.

    *activity*, (n_samples, n_neurons), gives labels (n_neurons,), -1 for a constant neuron. Raises
    InputError unless there are more varying neurons than clusters.
    """
    varies = _varies(activity)
    labels = np.full(activity.shape[1], -1)
    if not 1 <= n_clusters < varies.sum():
        raise InputError(f"n_clusters={n_clusters} must be at least 1 and below the number of "
                         f"neurons that are not constant, {varies.sum()}")
    similarity = np.abs(np.corrcoef(activity[:, varies], rowvar=False))
    labels[varies] = SpectralClustering(n_clusters, affinity="precomputed",
                                        random_state=random_state).fit(similarity).labels_
    return labels


def preferred_class(activity: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The class of each neuron's largest mean activity, (n_neurons,); -1 for a constant neuron."""
    names = np.unique(classes)
    means = np.stack([activity[classes == c].mean(0) for c in names])
    return np.where(_varies(activity), names[means.argmax(0)], -1)


def agreement_test(found: Neurons, other: np.ndarray, *, n_shuffles: int = 50, random_state=None
                   ) -> NullTest:
    """Adjusted mutual information between the weight clusters and other labels (n_neurons,).

    The null permutes the other labels within each side, so that a mere difference between the
    sides does not count as agreement. Neurons with -1 in either labeling are left out.
    """
    whole("n_shuffles", n_shuffles, 2)
    rng = as_random_state(random_state)
    used = (found.labels >= 0) & (other >= 0)
    labels, other, is_row = found.labels[used], other[used], found.is_row[used]
    null = []
    for _ in range(n_shuffles):
        mixed = other.copy()
        for side in (is_row, ~is_row):
            mixed[side] = rng.permutation(mixed[side])
        null.append(metrics.ami(labels, mixed))
    return NullTest(metrics.ami(labels, other), np.array(null), larger=True)


def information(activity: np.ndarray, classes: np.ndarray, *, bins: int = 10) -> float:
    """Mutual information between the activity of a set of neurons and the class, in bits.

    The mean over the neurons of *activity*, (n_samples, n_neurons), is cut into bins of equal
    counts. The estimate is above 0 by chance. *classes* have shape (n_samples,).
    """
    level = activity.mean(1)
    edges = np.unique(np.quantile(level, np.linspace(0, 1, bins + 1)[1:-1]))
    return float(mutual_info_score(classes, np.searchsorted(edges, level)) / np.log(2))


def information_tests(found: Neurons, *, n_shuffles: int = 50, random_state=None
                      ) -> dict[int, NullTest]:
    """Each cluster's `information`, beside random sets of the same size on each side."""
    tests = {}
    for c, sets in _with_random_sets(found, n_shuffles, random_state).items():
        bits = [information(found.activity[:, chosen], found.classes) for chosen in sets]
        tests[c] = NullTest(bits[0], np.array(bits[1:]), larger=True)
    return tests


def _with_random_sets(found: Neurons, n_random: int, random_state) -> dict[int, np.ndarray]:
    """Each cluster's neurons as a mask, then random sets with as many neurons of each side."""
    whole("n_shuffles", n_random, 2)
    rng = as_random_state(random_state)
    sets = {}
    for c in np.unique(found.labels[found.labels >= 0]):
        members = found.labels == c
        sets[int(c)] = np.vstack([members, np.zeros((n_random, len(members)), dtype=bool)])
        for chosen in sets[int(c)][1:]:
            for side in (found.is_row, ~found.is_row):
                candidates = np.flatnonzero(side & (found.labels >= 0))
                chosen[rng.choice(candidates, (members & side).sum(), replace=False)] = True
    return sets


@dataclass(frozen=True)
class Lesions:
    """Accuracy by class with clusters switched off."""

    whole: np.ndarray           #: (n_classes,), of the whole network; classes that occur
    without: np.ndarray         #: (n_clusters, n_classes), with each cluster switched off
    random: np.ndarray          #: (n_clusters, n_random, n_classes), with random sets of its size

    @property
    def drop(self) -> np.ndarray:
        """Accuracy that each class loses without each cluster, (n_clusters, n_classes)."""
        return self.whole - self.without

    @property
    def excess(self) -> np.ndarray:
        """The loss beyond the mean of the random sets, (n_clusters, n_classes)."""
        return self.random.mean(1) - self.without

    def tests(self, summary) -> list[NullTest]:
        """A summary of each cluster's losses by class (mean, range …), beside the random sets'."""
        drops = zip(self.drop, self.whole - self.random, strict=True)
        return [NullTest(float(summary(own)), np.array(list(map(summary, random))), larger=True)
                for own, random in drops]


def lesions(network, X: ArrayLike, layer: int, found: Neurons, *, n_shuffles: int = 50,
            random_state=None) -> Lesions:
    """Switch off one cluster after the other, and *n_shuffles* random sets of the same sizes.

    *found* are the `neurons` on both sides of that layer of the network on *X*.
    """
    X, classes = np.asarray(X, dtype=np.float32), np.unique(found.classes)

    def by_class(off: np.ndarray) -> np.ndarray:
        outputs = network.hidden(X, off={layer: off[found.is_row], layer - 1: off[~found.is_row]})
        right = outputs[-1].argmax(1).cpu().numpy() == found.classes
        return np.array([right[found.classes == c].mean() for c in classes])

    sets = _with_random_sets(found, n_shuffles, random_state)
    accuracy = np.array([[by_class(chosen) for chosen in each] for each in sets.values()])
    return Lesions(by_class(np.zeros_like(found.is_row)), accuracy[:, 0], accuracy[:, 1:])


@dataclass(frozen=True)
class Quality:
    """All measures of the clusters of one layer, made by `quality`."""

    clusters: WeightCoclustering            #: fitted to the layer
    found: Neurons
    layer: dict[str, NullTest]              #: see `null_tests`
    network: NullTest                       #: normalized cut of the whole network
    activations: NullTest                   #: AMI with clusters of activations
    classes: NullTest                       #: AMI with preferred classes
    information: dict[int, NullTest]        #: by cluster, in bits
    lesions: Lesions

    @property
    def effects(self) -> dict[str, float]:
        """Effect size z of each measure; positive where clusters are better than chance."""
        return {
            "normalized cut of the layer": -self.layer["cut"].z,
            "weight inside clusters": self.layer["share"].z,
            "normalized cut of the network": -self.network.z,
            "agreement with activations": self.activations.z,
            "agreement with preferred classes": self.classes.z,
            "information about the class": np.mean([test.z for test in self.information.values()]),
            "accuracy lost by a lesion": np.mean([test.z for test in self.lesions.tests(np.mean)]),
            "difference between classes": np.mean([test.z for test in self.lesions.tests(np.ptp)]),
        }

    def metrics(self) -> dict[str, float]:
        """All measures as flat numbers, with the names that claims and records use."""
        flat = _flat(self.layer, network_cut=self.network, ami_activations=self.activations,
                     ami_classes=self.classes)
        flat["information_bits"] = float(np.mean([t.value for t in self.information.values()]))
        flat |= {f"z_{name.replace(' ', '_')}": z for name, z in self.effects.items()}
        for c in range(self.clusters.n_clusters):
            flat[f"rows_in_{c}"] = int(self.clusters.rows_[c].sum())
            flat[f"columns_in_{c}"] = int(self.clusters.columns_[c].sum())
        return flat


def quality(network, X: ArrayLike, y: ArrayLike, *, layer: int = 1, n_clusters: int = 2,
            network_clusters: int = 12, n_init: int = 25, n_shuffles: int = 50,
            random_state: int = 0) -> Quality:
    """Cluster a layer's weights and measure how good the clusters are.

    *network* is a `clusterbook.classifier.MLP`; *X* (n_samples, n_features) and *y* (n_samples,),
    the indices of outputs, are test samples. *layer* gets *n_clusters*, the whole network
    *network_clusters* from *n_init* starts of k-means. Raises InputError as `null_tests`,
    `neurons` and `network_test`.
    """
    _check(network)
    weights = network.weights(layer)
    clusters = WeightCoclustering(n_clusters, random_state=random_state).fit(weights)
    found = neurons(network, X, y, layer, clusters.row_labels_, clusters.column_labels_)
    activations = activation_clusters(found.activity, n_clusters, random_state)
    preferred = preferred_class(found.activity, found.classes)
    null = {"n_shuffles": n_shuffles, "random_state": random_state}
    return Quality(clusters, found, null_tests(weights, n_clusters, **null),
                   network_test(_matrices(network), network_clusters, n_init=n_init, **null),
                   agreement_test(found, activations, **null),
                   agreement_test(found, preferred, **null), information_tests(found, **null),
                   lesions(network, X, layer, found, **null))


def clusterability(network, *, layer: int = 1, n_clusters: int = 2, network_clusters: int = 12,
                   n_init: int = 25, n_shuffles: int = 50, random_state: int = 0) -> dict:
    """How well a network's weights cluster, as flat numbers; for the parameters see `quality`.

    Where a weight is exactly 0, as in pruned networks, ``network_cut_kept`` has a null model that
    keeps the places of the zeros.
    """
    _check(network)
    null = {"n_shuffles": n_shuffles, "random_state": random_state}
    weights = _matrices(network)
    tests = {"network_cut": network_test(weights, network_clusters, n_init=n_init, **null)}
    if any((matrix == 0).any() for matrix in weights):
        tests["network_cut_kept"] = network_test(weights, network_clusters, n_init=n_init,
                                                 keep_zeros=True, **null)
    return _flat(null_tests(network.weights(layer), n_clusters, **null), **tests)


def of_way(network, history, **settings) -> dict[str, float]:
    """The `clusterability` of a network that was trained in one way, and its last accuracy."""
    return {**clusterability(network, **settings), "accuracy": history.rows[-1]["accuracy"]}


def measurements(found: Quality, history, ways: Mapping[str, Mapping[str, float]]
                 ) -> dict[str, float]:
    """All that is measured of one network; and of others, by the way in which each was trained."""
    others = {f"{way}_{name}": value for way, row in ways.items() for name, value in row.items()}
    return {"test_accuracy": history.rows[-1]["accuracy"], **found.metrics(), **others}


def _check(network) -> None:
    if not hasattr(network, "linear"):          # MLP's module would load torch
        raise InputError("network must be a clusterbook.classifier.MLP, not a "
                         f"{type(network).__name__}")


def _matrices(network) -> list[np.ndarray]:
    return [network.weights(i) for i in range(len(network.linear))]


def _flat(of_layer: dict[str, NullTest], **others: NullTest) -> dict[str, float]:
    flat: dict[str, float] = {}
    for name, test in ({f"layer_{name}": test for name, test in of_layer.items()} | others).items():
        flat |= {name: float(test.value), f"{name}_null_mean": float(test.null.mean()),
                 f"{name}_null_sd": float(test.null.std(ddof=1)), f"{name}_z": test.z,
                 f"{name}_p": test.p}
    return flat
