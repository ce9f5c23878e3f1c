"""Measures of interpretability (section 5.1 of the paper), and their released forms.

The released ones have defects that change their values, so each measure here is a corrected one,
and ``original=True``, where there is one, gives what the released code computes, for comparison
with published numbers.

Gates are arrays of shape (n_samples, n_features), in [0, 1], open above 0. The measures raise
ValueError for shapes that do not fit, and InputError where their value is not defined.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import LinearSVC

from .. import training
from ..checks import InputError
from ..metrics import accuracy, contingency

__all__ = ["as_in_table_1", "cluster_features", "diversity", "faithfulness", "generalizability",
           "greedy_accuracy", "integrated_gradients", "open_features", "selection_f1", "uniqueness"]
KEPT = 15               # features of a sample, |S| in Table 1 of the paper


def open_features(gates: ArrayLike, *, original: bool = False, batch_size: int = 100) -> float:
    """The mean number of open gates of a sample.

    With *original* the released code's ``local_gates``: in each batch of *batch_size* rows, in
    order, the (lower) median of the samples' *sums* of gates; the mean over batches.
    """
    gates = _gates(gates)
    if not original:
        return float((gates > 0).sum(1).mean())
    sums = gates.sum(1)
    batches = np.split(sums, range(batch_size, len(sums), batch_size))
    # torch's median is the lower one
    return float(np.mean([np.quantile(batch, 0.5, method="lower") for batch in batches]))


def cluster_features(gates: ArrayLike, labels: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The features that are open in the median of each cluster's samples.

    Returns the labels that occur, sorted, and an array of bool, (n_clusters, n_features).
    """
    gates, labels = _gates(gates, labels), np.asarray(labels)
    clusters = np.unique(labels)
    return clusters, np.array([np.median(gates[labels == k], axis=0) > 0 for k in clusters])


def diversity(gates: ArrayLike, labels: ArrayLike, *, original: bool = False,
              n_clusters: int | None = None) -> float:
    r"""Mean dissimilarity of the features of different clusters.

    .. math:: 1 - \frac2{K(K-1)} \sum_{k<l} \frac{|S_k \cap S_l|}{|S_k \cup S_l|}

    with the features :math:`S_k` of `cluster_features`: 0 if all clusters use the same, 1 if no
    two share one. The paper's formula is twice this number minus 1. In the *original* form the sum
    runs over all ordered pairs, each cluster with itself included, and is divided by
    :math:`K(K-1)`, for *n_clusters* or as many as occur.
    """
    clusters, selected = cluster_features(gates, labels)
    if original and n_clusters is not None:
        if not set(clusters) <= set(range(n_clusters)):
            raise InputError(f"labels must be whole numbers from 0 to n_clusters - 1 = "
                             f"{n_clusters - 1}, not {clusters.tolist()}")
        occurring, selected = selected, np.zeros((n_clusters, selected.shape[1]), dtype=bool)
        selected[clusters.astype(int)] = occurring
    K = len(selected)
    counts = selected.astype(np.int64)
    shared = counts @ counts.T
    union = counts.sum(1)[:, None] + counts.sum(1) - shared
    if K < 2 or (not original and (counts.sum(1) == 0).sum() > 1):
        raise InputError("diversity needs at least two clusters, and no two without an open "
                         "feature; leave one out, or lower the sparsity")
    jaccard = shared / np.maximum(union, 1)
    if original:
        return float(1 - jaccard.sum() / (K * (K - 1)))
    return float(1 - jaccard[np.triu_indices(K, 1)].mean())


def uniqueness(X: ArrayLike, gates: ArrayLike, *, original: bool = False) -> float:
    r"""Mean difference of gates between nearest samples: large for fine-grained explanations.

    .. math:: \frac1N \sum_i \frac{\|w_i - w_k\|}{\|x_i - x_k\|}

    for gates *w* and the nearest neighbor *k* of sample *i*, as released; the paper takes
    the minimum of the ratio over neighbors, which is never larger. Its unit is one over the data's,
    so it can't be compared between data sets. Of equal samples the first stands for all; with
    *original* a division by 0 makes the measure NaN or infinite. The released code loops over
    exactly 10,000 samples.
    """
    X, gates = np.asarray(X, dtype=np.float64), _gates(gates, X)
    back = np.arange(len(X))
    if not original:
        X, first, back = np.unique(X, axis=0, return_index=True, return_inverse=True)
        gates = gates[first]
    if len(X) < 2:
        raise InputError("uniqueness needs two different samples")
    # As in the released code the nearest row is taken for the sample itself.
    own, other = NearestNeighbors(n_neighbors=1).fit(X).kneighbors(X, 2, return_distance=False).T
    with np.errstate(divide="ignore", invalid="ignore"):
        # Anew: distances by the dot product leave equal rows a little apart.
        ratios = (np.linalg.norm(gates[own] - gates[other], axis=1)
                  / np.linalg.norm(X[own] - X[other], axis=1))
    return float(ratios[back].mean())


def faithfulness(predict: Callable[[np.ndarray], np.ndarray], X: ArrayLike, gates: ArrayLike,
                 y: ArrayLike | None = None, *, original: bool = False) -> float:
    """Whether the clusters depend on the features that are called important.

    The correlation (Pearson's) of a feature's importance, the share of samples whose gate is open,
    with the loss of accuracy when that feature alone is set to 0.

    *predict* maps samples, (n_samples, n_features), to clusters, which are matched anew after each
    removal to the classes *y*, (n_samples,); without them, to the clusters of the whole samples.

    In the *original* form, used with classes, the features that any gate selects are removed one
    after another, the most important first, and stay out, and importance is correlated with the
    *accuracy that is left*. Both series usually fall, so it is high for almost any choice of
    features. Equally important ones are removed in the order of numpy's sort, as released. It
    depends on the processor, and changes the value noticeably if there are few samples.
    """
    X, gates = np.asarray(X), _gates(gates, X, y)
    importance = (gates > 0).mean(0)
    target = np.asarray(predict(X)) if y is None else np.asarray(y)
    order, without, left = np.arange(X.shape[1]), X.copy(), []
    if original:
        order = order[importance > 0]
        order = order[np.argsort(-importance[order])]
    with training.threads(0):       # hundreds of small predictions
        for feature in order:
            if not original:
                without = X.copy()
            without[:, feature] = 0
            left.append(accuracy(target, predict(without)))
    change = np.array(left) if original else accuracy(target, predict(X)) - np.array(left)
    if len(order) < 2 or np.ptp(importance[order]) == 0 or np.ptp(change) == 0:
        raise InputError("the importance or the change of accuracy is the same for all features, "
                         "and a constant correlates with nothing")
    return float(np.corrcoef(importance[order], change)[0, 1])


def generalizability(X_train: ArrayLike, gates_train: ArrayLike, labels_train: ArrayLike,
                     X_test: ArrayLike, gates_test: ArrayLike, labels_test: ArrayLike, *,
                     random_state: int = 0) -> float:
    """Accuracy of a linear support vector machine on gated features of new samples.

    Gates that are computed from the sample carry its cluster even where the features don't; compare
    with gates of 1, and with the features set to 1. The released form draws without a seed.
    """
    gates_train = _gates(gates_train, X_train, labels_train)
    gates_test = _gates(gates_test, X_test, labels_test)
    if len(np.unique(labels_train)) < 2:
        raise InputError("generalizability needs at least two clusters to tell apart")
    model = LinearSVC(random_state=random_state, max_iter=10_000)
    model.fit(np.asarray(X_train, dtype=np.float64) * gates_train, labels_train)
    return float(model.score(np.asarray(X_test, dtype=np.float64) * gates_test, labels_test))


@torch.enable_grad()      # also where the caller has switched gradients off
def integrated_gradients(model: BaseEstimator, X: ArrayLike, *, kept: int = KEPT, steps: int = 32
                         ) -> np.ndarray:
    """The features that a network without gates uses for each sample's cluster.

    A feature's attribution is its value times the mean gradient of the cluster's logit along the
    straight line from 0 to the sample. The *kept* largest absolute ones of each sample, divided by
    the largest, and 0 elsewhere, can be scored as gates; shape (n_samples, n_features).
    """
    if model.use_gating:
        raise InputError("the model has gates, which tell its features; give one without, fitted "
                         "with use_gating=False")
    net, samples, found = model.model_, model._samples(X), []
    for part in samples.split(1000):
        labels = net.cluster(net.embed(part))
        gradient = torch.zeros_like(part)
        for step in range(steps):
            point = (part * ((step + 0.5) / steps)).requires_grad_()
            logits = net.head(net.autoencoder.encoder(point)).gather(1, labels[:, None])
            gradient += torch.autograd.grad(logits.sum(), point)[0]
        found.append((part * gradient / steps).abs())
    values = torch.cat(found)
    largest = values.topk(min(kept, values.shape[1]), 1)
    values = torch.zeros_like(values).scatter(1, largest.indices, largest.values)
    return model._widened(values / values.amax(1, keepdim=True).clamp_min(1e-30))


def as_in_table_1(model: BaseEstimator, X: ArrayLike, y: ArrayLike, *, subsets: int = 10,
                  size: int = 1000) -> dict[str, float]:
    """Uniqueness and faithfulness as the paper's Table 1 has them, and what gates cost.

    Both are means over *subsets* of *size* different samples, left out if one is not defined.
    Faithfulness has the released form. A network without gates has its `integrated_gradients`.
    ``ungated_input_acc`` is the accuracy of a network with gates that gets whole samples. Raises
    InputError for fewer samples than the subsets have.
    """
    if len(X) < subsets * size:
        raise InputError(f"{subsets} subsets of {size:,} samples need {subsets * size:,} samples, "
                         f"not {len(X):,}; give fewer subsets or a smaller size")
    model._validated(X)             # refuses other features
    model = copy.copy(model)        # one without names, which parts of a data frame do not have
    vars(model).pop("feature_names_in_", None)
    X, y = np.asarray(X), np.asarray(y)
    gates = model.local_gates(X) if model.use_gating else integrated_gradients(model, X)
    measured: dict[str, list[float]] = {"uniqueness_1k": [], "faithfulness_1k": []}
    drawn = np.random.default_rng(0).choice(len(X), (subsets, size), replace=False)
    for rows in drawn:
        with suppress(InputError):      # all samples are equal
            measured["uniqueness_1k"].append(uniqueness(X[rows], gates[rows]))
        with suppress(InputError):      # a constant importance or accuracy correlates with nothing
            measured["faithfulness_1k"].append(
                faithfulness(model.predict, X[rows], gates[rows], y[rows], original=True))
    found = {name: float(np.mean(values)) for name, values in measured.items()
             if len(values) == subsets}
    if model.use_gating:
        net = model.model_
        ungated = net.cluster(net.embed(model._samples(X))).cpu().numpy()
        found["ungated_input_acc"] = accuracy(y, ungated)
    return found


def greedy_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """The original's accuracy: the largest overlap is matched first, then the largest of the rest.

    Never above `clusterbook.metrics.accuracy`, which finds the best matching.
    """
    left = contingency(y_true, y_pred).T                # clusters first: they decide between ties
    total, right = left.sum(), 0
    while left.size:
        cluster, label = np.unravel_index(left.argmax(), left.shape)
        right += left[cluster, label]
        left = np.delete(np.delete(left, cluster, axis=0), label, axis=1)
    return float(right / total)


def selection_f1(selected: ArrayLike, informative: ArrayLike) -> float:
    """The mean over rows of the F1 score of selected against informative features.

    Both are of bool, (n_rows, n_features); each row needs an informative feature.
    """
    selected, informative = _gates(selected, informative) > 0, np.asarray(informative) > 0
    if not informative.any(1).all():
        raise InputError("F1 is not defined for a row without an informative feature")
    hits = (selected & informative).sum(1)
    return float(np.mean(2 * hits / (selected.sum(1) + informative.sum(1))))


def _gates(gates: ArrayLike, *others: ArrayLike | None) -> np.ndarray:
    """Gates as an array; raises InputError unless they fit the *others*, samples and labels."""
    gates, shapes = np.asarray(gates), [np.shape(other) for other in others if other is not None]
    if gates.ndim != 2 or any(shape != gates.shape[:len(shape)] for shape in shapes):
        raise InputError("gates must have shape (n_samples, n_features), as the samples have, with "
                         f"a row for each label, but have shape {gates.shape}")
    return gates
