"""What a record of TELL holds, under the names that claims and figures use."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import KMeans

from ..checks import InputError
from ..metrics import ari, scores
from .estimator import TELL

ONLINE_START = 1000     # samples that centers learn from before the rest arrives (section 4.4)


def baselines(X: ArrayLike, n_clusters: int, seed: int, autoencoder: TELL | None = None
              ) -> dict[str, np.ndarray]:
    """Clusters of k-means, the best of ten starts, each of shape (n_samples,).

    ``kmeans`` of the samples *X*, (n_samples, n_features); ``kmeans_unit`` of them at length 1;
    and ``ae_kmeans`` of the embedding of an *autoencoder* that was trained without centers.
    """
    X = np.asarray(X)
    spaces = {"kmeans": X, "kmeans_unit": unit(X)}
    if autoencoder is not None:
        spaces["ae_kmeans"] = autoencoder.transform(X)
    return {name: KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(space)
            for name, space in spaces.items()}


def unit(X: ArrayLike) -> np.ndarray:
    """Each row at length 1."""
    return X / np.linalg.norm(X, axis=1, keepdims=True).clip(1e-12)


def of_variant(model: TELL, y: ArrayLike) -> dict[str, float]:
    """What is measured of a variant: all scores, the loss, and the clusters that have samples."""
    return {**scores(y, model.labels_), "loss": model.loss_,
            "occupied": len(np.unique(model.labels_))}


def online(model: TELL, X: ArrayLike, y: ArrayLike, *, start: int = ONLINE_START,
           train_size: int | None = None, seed: int = 0
           ) -> tuple[dict[str, dict[str, float]], TELL, np.ndarray]:
    """Centers learned on the last *start* samples, then moved by others as they arrive (Table 5).

    The first *train_size* samples arrive in batches, by default all but the last ones; *model* is
    not fitted, and clusters samples without a network. Returns the scores of the arriving samples
    by the moving centers, ``online``, by the centers as they were, ``online_frozen``, and by
    k-means on the same start, ``online_kmeans``; the model; and its first centers. Raises
    InputError unless *start* leaves samples to arrive.
    """
    if not 0 < start < len(X):
        raise InputError(f"the online start must be from 1 to {len(X) - 1:,}, for {len(X):,} "
                         f"samples, not {start:,}")
    X, arriving = np.asarray(X), slice(0, train_size or len(X) - start)
    new, truth = X[arriving], np.asarray(y)[arriving]
    model.fit(X[-start:])
    frozen, centers = model.predict(new), model.cluster_centers_.copy()
    size = model.batch_size
    moving = [model.partial_fit(new[i:i + size]).labels_ for i in range(0, len(new), size)]
    kmeans = KMeans(model.n_clusters, n_init=10, random_state=seed).fit(unit(X)[-start:])
    found = {"online": np.concatenate(moving), "online_frozen": frozen,
             "online_kmeans": kmeans.predict(unit(X)[arriving])}
    return {name: scores(truth, labels) for name, labels in found.items()}, model, centers


def measurements(model: TELL, y: ArrayLike, baselines: Mapping[str, ArrayLike],
                 variants: Mapping[str, Mapping[str, float]] | None = None) -> dict[str, float]:
    """All that is measured of a fitted *model*, for the classes *y* of its samples.

    Its scores; ``loss``, the mean squared distance (Eq. 13), and ``printed_loss``, the same as the
    paper's figures scale it; ``ari_4_9``, of two digits that are often merged, or of all where
    there are not ten classes; ``reconstruction``, the last epoch's mean squared error of a pixel;
    seconds an epoch. Then the scores of each of the `baselines`, as ``kmeans_acc``, and what was
    measured of each variant, as ``adam_acc``.
    """
    y, labels, history = np.asarray(y), model.labels_, model.history_
    pair = np.isin(y, (4, 9)) if len(np.unique(y)) == 10 else np.ones(len(y), dtype=bool)
    found = {**scores(y, labels), "loss": model.loss_,
             "printed_loss": 0.01 * (2 - (2 - model.loss_) / model.n_clusters),
             "occupied": len(np.unique(labels)), "ari_4_9": ari(y[pair], labels[pair]),
             "seconds_per_epoch": history.seconds / max(len(history), 1)}
    errors = [row["reconstruction"] for row in history.rows if "reconstruction" in row]
    if errors:
        found["reconstruction"] = errors[-1]
    others = {name: scores(y, other) for name, other in baselines.items()} | dict(variants or {})
    return found | {f"{name}_{score}": value for name, row in others.items()
                    for score, value in row.items()}
