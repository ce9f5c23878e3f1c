r"""Clusters of a network's neurons, found in its weights, and how good they are.

The chapter *Weight co-clustering* is this package read in order:

- `coclustering`: a layer as a bipartite graph, its normalized cut, and the clustering;
- `nulls`: the same weights in random order, and what can be concluded from them;
- `network`: all layers as one graph;
- `function`: what the clusters do on data;
- `summary`: all of these for one trained network.

The networks themselves are trained by `clusterbook.classifier`. What needs no network imports
without torch.
"""

from typing import Any

from .coclustering import (
    WeightCoclustering,
    degree_scale,
    normalized_cut,
    planted_blocks,
    separate_kmeans,
    share_inside,
)
from .network import bipartite, network_test, partition
from .nulls import NullTest, null_test, null_tests, shuffle

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


def __getattr__(name: str) -> Any:
    """What needs a network, and with it torch, on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import function, summary

    found = getattr(summary, name, None) or getattr(function, name)
    globals()[name] = found
    return found
