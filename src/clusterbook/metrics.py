"""Scores of a clustering: against labels, and without them.

A score against labels looks only at which samples share a label, never at the labels' names.
`accuracy` finds the best matching of clusters to classes by Munkres' algorithm (J. SIAM 5(1), 1957)
on a zero-padded contingency table. The released code of TELL shifts the predicted labels after it
has matched them, which is wrong where cluster 0 is empty; IDC's matches greedily.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from munkres import Munkres
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from sklearn import metrics as _sklearn
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from .checks import InputError

# Munkres is cubic in pure Python: 0.2 ms for 10 clusters, seconds for some hundred.
_MUNKRES_LIMIT = 50


def contingency(y_true: ArrayLike, y_pred: ArrayLike) -> np.ndarray:
    """Count the samples of each class in each cluster: int64, shape (n_classes, n_clusters).

    Rows and columns are in sorted order of the values that occur. *y_true* and *y_pred*, of shape
    (n_samples,), are numbers or texts, of one kind in each. Raises ValueError if they differ in
    length, are empty, are neither one-dimensional nor a single column, or hold NaN.

    >>> contingency([0, 0, 1], ["b", "b", "a"])
    array([[0, 2],
           [1, 0]])
    """
    return _sklearn.cluster.contingency_matrix(*_numbered(y_true, y_pred), dtype=np.int64)


def match(table: ArrayLike) -> np.ndarray:
    """Match rows of `contingency` to columns one to one, with the largest sum of matched counts.

    Pairs (row, column), sorted by row: shape (min(n_classes, n_clusters), 2).

    >>> match([[1, 5], [4, 6]])
    array([[0, 1],
           [1, 0]])
    """
    table = np.asarray(table)
    if max(table.shape) > _MUNKRES_LIMIT:
        return np.column_stack(linear_sum_assignment(table, maximize=True))
    padded = np.array(Munkres().pad_matrix(table.tolist()))
    pairs = np.array(sorted(Munkres().compute((padded.max() - padded).tolist())))
    return pairs[(pairs < table.shape).all(1)]


def accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Clustering accuracy (ACC): the share of samples that the best matching gets right.

    It lies between 1 / max(n_classes, n_clusters) and 1.

    >>> accuracy([0, 0, 1, 1], [7, 7, 3, 7])
    0.75
    """
    table = contingency(y_true, y_pred)
    rows, columns = match(table).T
    return float(table[rows, columns].sum() / table.sum())


def nmi(y_true: ArrayLike, y_pred: ArrayLike, *, mean: str = "arithmetic") -> float:
    """Normalized mutual information, by the *mean* of the two entropies.

    Papers before 2019 often normalize by the ``"geometric"`` one (scikit-learn's default until
    0.22). NMI grows with the number of clusters by chance alone; `ami` does not.
    """
    return float(_sklearn.normalized_mutual_info_score(*_numbered(y_true, y_pred),
                                                       average_method=mean))


def ari(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Adjusted Rand index: 1 for equal partitions, 0 on average for random ones."""
    return float(_sklearn.adjusted_rand_score(*_numbered(y_true, y_pred)))


def ami(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Mutual information adjusted for chance (AMI): 0 on average for random partitions."""
    return float(_sklearn.adjusted_mutual_info_score(*_numbered(y_true, y_pred)))


def homogeneity(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """1 where every cluster holds samples of one class only; not symmetric."""
    return float(_sklearn.homogeneity_score(*_numbered(y_true, y_pred)))


def completeness(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """1 where all samples of a class lie in one cluster; not symmetric."""
    return float(_sklearn.completeness_score(*_numbered(y_true, y_pred)))


def v_measure(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Harmonic mean of homogeneity and completeness; equal to the arithmetic `nmi`."""
    return float(_sklearn.v_measure_score(*_numbered(y_true, y_pred)))


def scores(y_true: ArrayLike, y_pred: ArrayLike) -> dict[str, float]:
    """All scores against labels, by the names that claims and records use.

    >>> scores([0, 0, 1, 1], [1, 1, 0, 0])["ari"]
    1.0
    """
    named = {"acc": accuracy, "nmi": nmi, "ari": ari, "ami": ami, "homogeneity": homogeneity,
             "completeness": completeness, "v_measure": v_measure}
    return {name: score(y_true, y_pred) for name, score in named.items()}


def silhouette(X: ArrayLike, labels: ArrayLike) -> float:
    """Mean silhouette, without labels: near 1 for tight, separate clusters, below 0 for mixed ones.

    Distances are Euclidean; *X* has shape (n_samples, n_features), *labels* (n_samples,). Raises
    ValueError unless there are 2 to n_samples - 1 clusters and X is finite.
    """
    return float(_sklearn.silhouette_score(X, labels))


def davies_bouldin(X: ArrayLike, labels: ArrayLike) -> float:
    """Davies–Bouldin index, without labels: 0 at best, larger for wide or close clusters."""
    return float(_sklearn.davies_bouldin_score(X, labels))


def _numbered(y_true: ArrayLike, y_pred: ArrayLike) -> list[np.ndarray]:
    """Both vectors, checked, with their values numbered from 0 in sorted order."""
    vectors = []
    for name, labels in (("y_true", y_true), ("y_pred", y_pred)):
        given = np.asarray(labels, dtype=None if hasattr(labels, "dtype") else object)
        if pd.isna(given).any():            # in a list of texts it would become a class
            raise InputError(f"{name} contains NaN or None; leave these samples out")
        labels = check_array(labels, ensure_2d=False, dtype=None, input_name=name)
        vectors.append(np.unique(column_or_1d(labels), return_inverse=True)[1])
    check_consistent_length(*vectors)
    return vectors


def allowed(metric: str, value: float) -> float:
    """How far a recorded metric may be from the same run's on another processor.

    A hundredth of scores, and of what is larger than 1; a twentieth of cuts, whose search may end
    elsewhere; more for standard scores and p-values: a null distribution has a few dozen shuffles.
    Infinite for times and memory, which are not compared. A network's training may still end
    elsewhere, by tenths: see the chapter on TELL.

    >>> allowed("acc", 0.9), allowed("layer_cut_z", -8.0), allowed("seconds_per_epoch", 1.0)
    (0.01, 2.0, inf)
    """
    parts = metric.split("_")
    if {"seconds", "time", "mb"} & {*parts}:
        return np.inf
    if {"z", "p"} & {parts[0], parts[-1]}:
        return max(0.25 * abs(value), 0.1)
    return (0.05 if "cut" in parts else 0.01) * max(1.0, abs(value))
