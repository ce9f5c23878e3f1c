r"""Clusters of a network's neurons, found in its weights, and how good they are.

The chapter *Weight co-clustering* is this package read in order:

- `coclustering`: a layer as a bipartite graph, its normalized cut, and the clustering;
- `nulls`: the same weights in random order, and what can be concluded from them;
- `network`: all layers as one graph;
- `function`: what the clusters do on data;
- `quality`: all of these for one trained network.

The networks themselves are trained by `clusterbook.classifier`.
"""

from .coclustering import (
    WeightCoclustering,
    degree_scale,
    normalized_cut,
    planted_blocks,
    separate_kmeans,
    share_inside,
)
from .function import (
    Lesions,
    Neurons,
    activation_clusters,
    agreement_test,
    information,
    information_tests,
    lesions,
    neurons,
    preferred_class,
)
from .network import bipartite, network_test, partition
from .nulls import NullTest, null_test, null_tests, shuffle
from .quality import Quality, clusterability, quality

__all__ = [
    "Lesions",
    "Neurons",
    "NullTest",
    "Quality",
    "WeightCoclustering",
    "activation_clusters",
    "agreement_test",
    "bipartite",
    "clusterability",
    "degree_scale",
    "information",
    "information_tests",
    "lesions",
    "network_test",
    "neurons",
    "normalized_cut",
    "null_test",
    "null_tests",
    "partition",
    "planted_blocks",
    "preferred_class",
    "quality",
    "separate_kmeans",
    "share_inside",
    "shuffle",
]
