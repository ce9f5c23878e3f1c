# ruff: noqa: F403
"""Clusters of a network's neurons, found in its weights, and how good they are.

`coclustering` has the clustering and its null model, `measures` what the clusters do on data;
`clusterbook.classifier` trains the networks. Nothing here needs torch by itself.
"""

from .coclustering import *
from .measures import *

VERSION = 1
"""The version of the method's numbers, raised when they change; see CONTRIBUTING.md."""
