"""Clusters of a network's neurons, found in its weights, and how good they are.

- `coclustering`: a layer, or all layers, as a bipartite graph; its clustering, normalized cut and
  null model;
- `measures`: what the clusters do on data, and all measures of one trained network.

`clusterbook.classifier` trains the networks. Everything except `measures` imports without torch.
"""

from importlib import import_module
from typing import Any

from .coclustering import (
    NullTest,
    WeightCoclustering,
    bipartite,
    degree_scale,
    network_test,
    normalized_cut,
    null_test,
    null_tests,
    partition,
    planted_blocks,
    separate_kmeans,
    share_inside,
    shuffle,
)

_NEED_TORCH = ["Lesions", "Neurons", "Quality", "activation_clusters", "agreement_test",
               "clusterability", "information", "information_tests", "lesions", "neurons",
               "preferred_class", "quality"]

__all__ = ["NullTest", "WeightCoclustering", "bipartite", "degree_scale", "network_test",
           "normalized_cut", "null_test", "null_tests", "partition", "planted_blocks",
           "separate_kmeans", "share_inside", "shuffle", *_NEED_TORCH]


def __getattr__(name: str) -> Any:
    """Load `measures`, and with it torch, on first use."""
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".measures", __name__), name)
