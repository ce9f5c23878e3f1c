"""How good is a cluster? Every measure of one trained network, each beside its null model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..classifier import MLP
from .coclustering import WeightCoclustering
from .function import (
    Lesions,
    Neurons,
    activation_clusters,
    agreement_test,
    information_tests,
    lesions,
    neurons,
    preferred_class,
)
from .network import network_test
from .nulls import NullTest, null_tests


@dataclass(frozen=True)
class Quality:
    """What `quality` found out about the clusters of one layer.

    Attributes
    ----------
    clusters : WeightCoclustering
        Fitted to the layer.
    layer : dict of str to NullTest
        See `null_tests`: the layer's own weights.
    found : Neurons
        The neurons on both sides of the layer, on the data.
    activations, classes : NullTest
        AMI between the weight clusters and clusters of activations, and the preferred classes.
    information : dict of int to NullTest
        By cluster, in bits.
    lesions : Lesions
    network : NullTest
        Normalized cut of the whole network.
    """

    clusters: WeightCoclustering
    layer: dict[str, NullTest]
    found: Neurons
    activations: NullTest
    classes: NullTest
    information: dict[int, NullTest]
    lesions: Lesions
    network: NullTest

    @property
    def effects(self) -> dict[str, float]:
        """Effect size z of each measure; positive where clusters are better than chance."""
        lesion = [[self.lesions.test(summary, c).z for c in range(len(self.lesions.drop))]
                  for summary in (np.mean, np.ptp)]
        return {
            "normalized cut of the layer": -self.layer["cut"].z,
            "weight inside clusters": self.layer["share"].z,
            "normalized cut of the network": -self.network.z,
            "agreement with activations": self.activations.z,
            "agreement with preferred classes": self.classes.z,
            "information about the class": float(np.mean([t.z for t in self.information.values()])),
            "accuracy lost by a lesion": float(np.mean(lesion[0])),
            "difference between classes": float(np.mean(lesion[1])),
        }

    def metrics(self) -> dict[str, float]:
        """Everything as flat numbers, by the names that claims and records use."""
        tests = {**{f"layer_{name}": test for name, test in self.layer.items()},
                 "network_cut": self.network, "ami_activations": self.activations,
                 "ami_classes": self.classes}
        flat: dict[str, float] = {}
        for name, test in tests.items():
            flat |= as_metrics(name, test)
        flat["information_bits"] = float(np.mean([t.value for t in self.information.values()]))
        for name, effect in self.effects.items():
            flat[f"z_{name.replace(' ', '_')}"] = effect
        for side, labels in (("rows", self.clusters.row_labels_),
                             ("columns", self.clusters.column_labels_)):
            for c in range(self.clusters.n_clusters):
                flat[f"{side}_in_{c}"] = int((labels == c).sum())
        return flat


def quality(network: MLP, X: ArrayLike, y: ArrayLike, *, layer: int = 1, n_clusters: int = 2,
            network_clusters: int = 12, n_init: int = 25, n_shuffles: int = 50,
            random_state: int = 0, progress: bool | None = None) -> Quality:
    """Cluster a layer's weights and measure how good the clusters are.

    Parameters
    ----------
    network : MLP
    X, y : array-like of shape (n_samples, n_features) and (n_samples,)
        Test samples, scaled as the network was trained, and their classes.
    layer : int
        A layer of weights between two hidden layers.
    n_clusters, network_clusters : int
        Clusters of the layer, and of the whole network.
    n_init : int
        Starts of k-means for the whole network.
    n_shuffles : int
        Random versions in every null model.
    random_state : int
        Decides all of them.
    progress : bool, optional
        Show bars; by default only where a person watches.

    Returns
    -------
    Quality

    Raises
    ------
    InputError
        See `null_tests`, `neurons` and `network_test`.
    """
    weights = network.weights(layer)
    clusters = WeightCoclustering(n_clusters, random_state=random_state).fit(weights)
    labels = clusters.row_labels_, clusters.column_labels_
    found = neurons(network, X, y, layer, *labels)
    options = {"n_shuffles": n_shuffles, "random_state": random_state, "progress": progress}
    return Quality(
        clusters=clusters,
        layer=null_tests(weights, n_clusters, **options),
        found=found,
        activations=agreement_test(
            found, activation_clusters(found.activity, n_clusters, random_state),
            n_permutations=n_shuffles, random_state=random_state),
        classes=agreement_test(found, preferred_class(found.activity, found.classes),
                               n_permutations=n_shuffles, random_state=random_state),
        information=information_tests(found, n_random=n_shuffles, random_state=random_state),
        lesions=lesions(network, X, y, layer, *labels, n_random=n_shuffles,
                        random_state=random_state),
        network=network_test([network.weights(i) for i in range(len(network.linear))],
                             network_clusters, n_init=n_init, **options),
    )


def clusterability(network: MLP, *, layer: int = 1, n_clusters: int = 2, network_clusters: int = 12,
                   n_init: int = 25, n_shuffles: int = 50, random_state: int = 0,
                   progress: bool | None = None) -> dict[str, float]:
    """How well a network's weights cluster, as flat numbers: its layer, and the whole of it.

    For networks with pruned weights a second null model, ``network_cut_kept``, shuffles the
    weights that are left among their own places.

    Parameters
    ----------
    network, layer, n_clusters, network_clusters, n_init, n_shuffles, random_state, progress
        See `quality`.

    Returns
    -------
    dict of str to float
        Of each test its value, the mean and spread of its null, z and p.
    """
    options = {"n_shuffles": n_shuffles, "random_state": random_state, "progress": progress}
    whole = {**options, "n_init": n_init}
    weights = [network.weights(i) for i in range(len(network.linear))]
    flat: dict[str, float] = {}
    for name, test in null_tests(weights[layer], n_clusters, **options).items():
        flat |= as_metrics(f"layer_{name}", test)
    flat |= as_metrics("network_cut", network_test(weights, network_clusters, **whole))
    if any((matrix == 0).any() for matrix in weights):
        kept = network_test(weights, network_clusters, keep_zeros=True, **whole)
        flat |= as_metrics("network_cut_kept", kept)
    return flat


def as_metrics(name: str, test: NullTest) -> dict[str, float]:
    """A test as flat numbers."""
    return {name: float(test.value), f"{name}_null_mean": float(test.null.mean()),
            f"{name}_null_sd": float(test.null.std(ddof=1)), f"{name}_z": test.z,
            f"{name}_p": test.p}
