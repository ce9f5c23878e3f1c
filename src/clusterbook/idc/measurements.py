"""What a record of IDC holds, under the names that claims and figures use."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.cluster import KMeans

from ..checks import InputError
from ..metrics import scores
from . import interpretability as measure
from .estimator import IDC

LARGE = 10_000          # samples from which the paper's Table 1 is computed, on ten subsets
MOST_ROWS = 1000        # of a history: one row in so many, and each that was evaluated


def baselines(model: IDC, X: ArrayLike, seed: int) -> dict[str, np.ndarray]:
    """Clusters of k-means, the best of ten starts, each of shape (n_samples,).

    ``kmeans`` of the samples *X*, (n_samples, n_features); ``features_kmeans`` of the gated ones;
    and ``ae_kmeans`` of the embedding of whole samples, whose statistics its batch norm then has.
    """
    whole, samples = copy.deepcopy(model.model_), model._samples(X)
    whole.calibrate(samples)
    spaces = {"kmeans": X, "features_kmeans": X * model.local_gates(X),
              "ae_kmeans": whole.embed(samples).cpu().numpy()}
    return {name: KMeans(model.n_clusters, n_init=10, random_state=seed).fit_predict(space)
            for name, space in spaces.items()}


class ExplanationMeasures:
    """Four measures of an explanation, each on the same samples and the same removals.

    *model* is fitted to *X*, (n_samples, n_features). Call it with gates, of the same shape.
    """

    def __init__(self, model: IDC, X: ArrayLike):
        self.model, self.X, self.known = model, np.asarray(X), {}
        rows = np.random.default_rng(2).permutation(len(self.X))[:2000]
        n_features = self.X.shape[1]
        self.some, (self.train, self.test) = rows, np.split(rows, [len(rows) // 2])
        # Faithfulness asks for a prediction a feature.
        self.few = rows[:max(200, 40_000 // n_features) if n_features < 1000 else 20]

    def __call__(self, gates: ArrayLike) -> dict[str, float]:
        """``diversity``, ``uniqueness``, ``faithfulness``, ``generalizability``; one that is not
        defined is left out.
        """
        X, labels, found = self.X, self.model.labels_, {}
        given = {
            measure.diversity: (gates, labels),
            measure.uniqueness: (X[self.some], gates[self.some]),
            measure.faithfulness: (self._predict, X[self.few], gates[self.few]),
            measure.generalizability: (X[self.train], gates[self.train], labels[self.train],
                                       X[self.test], gates[self.test], labels[self.test])}
        for function, arguments in given.items():
            with suppress(InputError):
                found[function.__name__] = function(*arguments)
        return found

    def _predict(self, samples: np.ndarray) -> np.ndarray:
        """Remembered: every explanation is judged by the same removals of features."""
        key = hash(samples.tobytes())
        if key not in self.known:
            names = getattr(self.model, "feature_names_in_", None)
            self.known[key] = self.model.predict(
                samples if names is None else pd.DataFrame(samples, columns=names))
        return self.known[key]


def of_variant(model: IDC, X: ArrayLike, y: ArrayLike) -> dict[str, float]:
    """What is measured of a variant: scores, open gates, clusters that have samples.

    Of a network without gates on a large data set also the measures of the paper's Table 1.
    """
    found = {**scores(y, model.labels_),
             "open_local_gates": measure.open_features(model.local_gates(X)),
             "occupied": len(np.unique(model.labels_))}
    if not model.use_gating and len(X) >= LARGE:
        found |= measure.as_in_table_1(model, X, y)
    return found


def measurements(model: IDC, X: ArrayLike, y: ArrayLike, *, baselines: Mapping[str, ArrayLike],
                 explanation: Mapping[str, float], informative: ArrayLike | None = None,
                 variants: Mapping[str, Mapping[str, float]] | None = None) -> dict[str, float]:
    """All that is measured of a fitted *model*, for the classes *y* of its samples *X*.

    Its scores, with ``best_acc`` of the epoch that the classes favor, as released; numbers of gates
    and open gates; the measures of its own *explanation* (`ExplanationMeasures`), and those of the
    paper's Table 1 for a large data set; ``f1`` of the open gates where the *informative* features
    of each sample are known, (n_samples, n_features). Then three scores of each of the `baselines`,
    as ``kmeans_acc``, and what was measured of each variant, as ``no_gates_acc``.
    """
    gates, labels, rows = model.local_gates(X), model.labels_, model.history_.rows
    kept = next((row for row in rows if row.get("overall") == model.kept_epoch_),
                rows[-1] if rows else {})
    found = {
        **scores(y, labels), "acc_greedy": measure.greedy_accuracy(y, labels),
        **({"best_acc": max(known)} if (known := [row["acc"] for row in rows if "acc" in row])
           else {}),
        "compression": model.compression_, "occupied": len(np.unique(labels)),
        "local_gates": measure.open_features(gates, original=True, batch_size=model.batch_size),
        "open_local_gates": measure.open_features(gates),
        "seconds_per_epoch": model.history_.seconds / max(len(rows), 1),
        **{name: kept[name] for name in ("global_gates", "open_global_gates", "silhouette",
                                         "davies_bouldin") if name in kept},
        **{f"{name}_{score}": value for name, other in baselines.items()
           for score, value in scores(y, other).items() if score in ("acc", "nmi", "ari")},
        **explanation,
        "featureless_clusters": int((~measure.cluster_features(gates, labels)[1].any(1)).sum()),
        "diversity_original": measure.diversity(gates, labels, original=True,
                                                n_clusters=model.n_clusters)}
    if len(X) >= LARGE:
        found |= measure.as_in_table_1(model, X, y)
    if informative is not None:
        found["f1"] = measure.selection_f1(gates > 0, informative)
    return found | {f"{name}_{what}": value for name, row in (variants or {}).items()
                    for what, value in row.items()}


def thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A history of about `MOST_ROWS` rows; every epoch that was evaluated stays."""
    each = -(-len(rows) // MOST_ROWS)
    return [row for i, row in enumerate(rows) if i % each == 0 or "overall" in row]
