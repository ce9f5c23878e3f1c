"""What a record of DeepCluster holds, under the names that claims and figures use."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import ArrayLike

from ..metrics import nmi, scores
from ..training import History
from .estimator import DeepCluster

__all__ = ["effective_clusters", "measurements", "neighbors_of_a_class", "of_collapse",
           "of_number", "share_of_time"]
NEIGHBORS = 500         # images whose nearest neighbor is looked at


def share_of_time(history: History) -> float:
    """The share of a training's time that features and clustering took; the rest were steps."""
    spent = {name: history.column(f"{name}_seconds")[1].sum()
             for name in ("feature", "clustering", "training")}
    return float((spent["feature"] + spent["clustering"]) / sum(spent.values()))


def neighbors_of_a_class(model: DeepCluster, X: ArrayLike, y: ArrayLike) -> float:
    """The share of the first 500 images whose nearest neighbor, of all others, has their class.

    Distances are those of the reduced features; *X* has shape (n_samples, n_features).
    """
    z, y = torch.from_numpy(np.asarray(model.transform(X))), np.asarray(y)
    apart = torch.cdist(z[:NEIGHBORS], z)
    apart.fill_diagonal_(torch.inf)
    return float((y[apart.argmin(1).numpy()] == y[:NEIGHBORS]).mean())


def effective_clusters(sizes: ArrayLike) -> float:
    """The exponential of the entropy of the clusters' shares: as many equal clusters."""
    shares = np.array([size for size in sizes if size]) / np.sum(sizes)
    return float(np.exp(-(shares * np.log(shares)).sum()))


def of_collapse(history: History | None) -> dict[str, float]:
    """Measures at the end of a training that may collapse; None stands for one that diverged."""
    if history is None:
        return {"diverged": 1}
    last = history.rows[-1]
    return {"diverged": 0, "clusters": effective_clusters(last["sizes"]), "nmi": last["nmi_labels"]}


def of_number(model: DeepCluster, y: ArrayLike, labels: ArrayLike, probe: float
              ) -> dict[str, float]:
    """What is measured of a training with another number of clusters."""
    scored = scores(y, labels)
    return {"ami": scored["ami"], "nmi": scored["nmi"], "probe": probe,
            "consecutive": model.history_.column("nmi_previous")[1][-1]}


def measurements(
    model: DeepCluster, y: ArrayLike, labels: ArrayLike, *, baselines: Mapping[str, ArrayLike],
    probes: Mapping[str, Mapping[int | str, float]], neighbors: Mapping[str, float],
    variants: Mapping[str, ArrayLike], numbers: Mapping[int, Mapping[str, float]],
    collapses: Mapping[str, Mapping[str, float]],
) -> dict[str, float]:
    """All that is measured of a fitted *model*, for the classes *y* of the images.

    Its scores, by the *labels* of the images that are compared; what the history ends with; and the
    share of time outside of steps. Beside these stand labels of `baselines`, by ``kmeans``,
    ``ae_kmeans`` and ``untrained``, and of *variants*; the accuracy of linear *probes* by layer, of
    ``untrained``, ``trained`` and ``supervised`` networks; *neighbors* (`neighbors_of_a_class`) of
    the first two; what was measured for other *numbers* of clusters; and `of_collapse`.
    """
    last, consecutive = model.history_.rows[-1], model.history_.column("nmi_previous")[1]
    found = {
        **scores(y, labels), "loss": last["loss"], "churn_last": last["churn"],
        "active": last["active"], "nmi_previous_first": consecutive[0],
        "nmi_previous_last": consecutive[-1], "nmi_previous_best": max(consecutive),
        "share_of_time": share_of_time(model.history_),
        "seconds_per_epoch": model.history_.seconds / model.epochs}
    for whose, prefix in (("trained", ""), ("untrained", "untrained_"),
                          ("supervised", "supervised_")):
        found |= {f"{prefix}probe_{layer}": value for layer, value in probes[whose].items()}
        found[f"{prefix}probe_best"] = max(probes[whose].values())
        if whose in neighbors:
            found[f"{prefix}neighbors"] = neighbors[whose]
    found["probe_gain"] = found["probe_best"] - found["untrained_probe_best"]
    for name, other in baselines.items():
        scored = scores(y, other)
        kept = ("nmi",) if name == "untrained" else ("nmi", "ami", "homogeneity")
        found |= {f"{name}_{score}": scored[score] for score in kept}
    found |= {f"{name}_nmi": nmi(y, other) for name, other in variants.items()}
    found |= {f"k{k}_{what}": value for k, row in numbers.items() for what, value in row.items()}
    return found | {f"collapse_{name}_{what}": value for name, row in collapses.items()
                    for what, value in row.items()}
