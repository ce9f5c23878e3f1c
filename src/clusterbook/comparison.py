"""What a record of the methods side by side holds, under the names that claims and figures use."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from .metrics import ari, scores
from .weights import NullTest

#: In the order in which records keep their labels.
METHODS = ("kmeans", "ae_kmeans", "tell", "idc", "deepcluster", "deepcluster_own",
           "deepcluster_merged")
#: DeepCluster asked for more clusters than there are classes: a finer clustering, which accuracy
#: and the adjusted Rand index punish, and which agrees with no other one.
FINER = "deepcluster_own"
SCORES = ("acc", "nmi", "ari", "ami")


def of_method(name: str, labels: ArrayLike, y: ArrayLike) -> dict[str, float]:
    """The scores of a method's clusters; for a finer clustering, without those that penalize it."""
    found = scores(y, labels)
    return {score: found[score] for score in SCORES if name != FINER or score not in ("acc", "ari")}


def measurements(y: ArrayLike, labels: Mapping[str, ArrayLike], *, seconds: Mapping[str, float],
                 memory: Mapping[str, float], cuts: Mapping[str, NullTest], common_overlap: float
                 ) -> dict[str, float]:
    """All that is measured of methods on the same samples, whose classes are *y*, (n_samples,).

    *labels* has the clusters of each method by its name, in the order of the chapter; *seconds* and
    *memory* (in MiB, NaN where it was not measured) are those of its fit. Of *cuts*, the tests of
    encoders' layers, value, null mean, z and p are kept. ``agree_tell_kmeans`` is the adjusted Rand
    index of two methods.
    """
    found = {f"{name}_{score}": value for name, own in labels.items()
             for score, value in of_method(name, own, y).items()}
    found |= {f"{name}_seconds": value for name, value in seconds.items()}
    found |= {f"{name}_memory_mb": value for name, value in memory.items() if np.isfinite(value)}
    found |= {f"agree_{second}_{first}": ari(labels[second], labels[first])
              for first, second in combinations([one for one in labels if one != FINER], 2)}
    for name, test in cuts.items():
        found |= {f"{name}_z": test.z, f"{name}_p": test.p, f"{name}_value": float(test.value),
                  f"{name}_null_mean": float(test.null.mean())}
    return {**found, "common_overlap": float(common_overlap)}
