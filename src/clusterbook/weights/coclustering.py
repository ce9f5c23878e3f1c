r"""Co-clustering of a network's weights: which output neurons go with which input neurons.

A layer's weight matrix :math:`W \in \mathbb{R}^{n \times m}` (rows: outputs, columns: inputs, as
torch stores it) is read as a bipartite graph: neurons are vertices and :math:`A = |W|` holds the
weights of the edges. Spectral co-clustering [1]_ gives rows and columns one common set of labels;
the normalized cut says how much weight runs between clusters [2]_; and a null model of shuffled
weights (`clusterbook.weights.nulls`) says whether that is less than they would show in any order.

Differences from the authors' code
----------------------------------
The notebook that this chapter repeats clusters left and right singular vectors by two separate
k-means runs, so that its label *i* of the rows has nothing to do with its label *i* of the columns;
here one k-means sees both. It inverts the degrees, which fails on a neuron without weights; here
such a neuron belongs to no cluster (label -1). It keeps the singular vectors as they are; here
each neuron's row of them is scaled to unit length, so that its degree does not decide its cluster.

References
----------
.. [1] I. S. Dhillon, "Co-clustering documents and words using bipartite spectral graph
   partitioning", KDD 2001.
.. [2] D. Filan et al., "Clusterability in neural networks", arXiv:2103.03386, 2021.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import svds
from sklearn.base import BaseEstimator, BiclusterMixin
from sklearn.cluster import KMeans, SpectralCoclustering
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ..errors import InputError, unknown

# --------------------------------------------------------------------------------- the graph


def degree_scale(A: np.ndarray) -> np.ndarray:
    r"""Scale a bipartite graph's weights by the degrees: :math:`D_r^{-1/2} A D_c^{-1/2}`.

    Parameters
    ----------
    A : ndarray of shape (n_rows, n_columns)
        Edge weights, not negative.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Singular values lie in [0, 1] and the first is 1. A row or column without weight stays 0.
    """
    return A * _inverse_root(A.sum(1))[:, None] * _inverse_root(A.sum(0))


def _inverse_root(degrees: np.ndarray) -> np.ndarray:
    root = np.sqrt(degrees)
    return np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)


def normalized_cut(W: ArrayLike, row_labels: ArrayLike, column_labels: ArrayLike) -> float:
    r"""Normalized cut of a co-clustering: the weight between clusters, in units of their volumes.

    .. math:: \sum_c \frac{\mathrm{cut}(c)}{\mathrm{vol}(c)}, \qquad
       \mathrm{vol}(c) = \sum_{i \in c} d_i, \qquad
       \mathrm{cut}(c) = \mathrm{vol}(c) - 2 \sum_{i, j \in c} |W_{ij}|,

    over clusters *c* of rows and columns together, with the degrees :math:`d` of all neurons
    (Filan et al., section 3). 0 for blocks without any weight between them; about
    ``n_clusters - 1`` for a partition that has nothing to do with the weights.

    Parameters
    ----------
    W : array-like of shape (n_rows, n_columns)
        Weights; their absolute values are the edges.
    row_labels : array-like of shape (n_rows,)
    column_labels : array-like of shape (n_columns,)
        Cluster of each row and column; -1 for a neuron that belongs to none.

    Returns
    -------
    float
        Between 0 and the number of clusters.

    Examples
    --------
    >>> float(normalized_cut([[3, 1], [1, 3]], [0, 1], [0, 1]))
    0.5
    """
    A, rows, columns = _graph(W, row_labels, column_labels)
    degree_rows, degree_columns = A.sum(1), A.sum(0)
    total = 0.0
    for c in np.union1d(rows, columns):
        if c < 0:
            continue
        in_rows, in_columns = rows == c, columns == c
        volume = degree_rows[in_rows].sum() + degree_columns[in_columns].sum()
        if volume > 0:
            total += 1 - 2 * A[np.ix_(in_rows, in_columns)].sum() / volume
    return total


def share_inside(W: ArrayLike, row_labels: ArrayLike, column_labels: ArrayLike,
                 *, power: int = 1) -> float:
    r"""Share of the weight that runs inside clusters: :math:`\sum_\mathrm{in}|W|^p / \sum|W|^p`.

    With ``power=2`` this is the *clusterability* of Golechha et al. (arXiv:2409.15747). About
    ``1 / n_clusters`` for equal clusters that have nothing to do with the weights.

    Examples
    --------
    >>> float(share_inside([[3, -1], [1, 3]], [0, 1], [0, 1]))
    0.75
    """
    A, rows, columns = _graph(W, row_labels, column_labels)
    A = A**power
    inside = (rows[:, None] == columns) & (rows[:, None] >= 0)
    return A[inside].sum() / A.sum()


def _graph(W: ArrayLike, row_labels: ArrayLike, column_labels: ArrayLike):
    A = np.abs(as_weights(W))
    rows, columns = np.asarray(row_labels), np.asarray(column_labels)
    if rows.shape != A.shape[:1] or columns.shape != A.shape[1:]:
        raise InputError(f"a matrix of shape {A.shape} needs {A.shape[0]} row labels and "
                         f"{A.shape[1]} column labels, not {rows.shape} and {columns.shape}")
    return A, rows, columns


def as_weights(W: ArrayLike) -> np.ndarray:
    """The weights as a float64 matrix, or an `InputError` that says why they are none."""
    W = np.asarray(W, dtype=np.float64)
    if W.ndim != 2:
        raise InputError(f"a layer's weights must be a matrix (outputs × inputs); this array has "
                         f"{W.ndim} dimensions")
    if not np.isfinite(W).all():
        raise InputError(f"the weights hold {int((~np.isfinite(W)).sum())} values that are NaN or "
                         "inf; a network that diverged has no clusters")
    if not W.any():
        raise InputError("all weights are 0: there is no graph to cluster")
    return W


# ---------------------------------------------------------------------------- the clustering

# A full SVD is as fast as a truncated one up to about this many neurons, and has no random start.
FULL_SVD = 256


class WeightCoclustering(BiclusterMixin, BaseEstimator):
    """Spectral co-clustering of a weight matrix: rows and columns share one set of clusters.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters; at most the number of rows and of columns that carry weight.
    method : {"joint", "dhillon"}, default="joint"
        "joint": the first ``n_clusters`` singular vectors of the degree-scaled absolute weights,
        each neuron's row of them scaled to unit length, one k-means over rows and columns, and a
        few rounds of moving single neurons while that makes the normalized cut smaller.
        "dhillon": scikit-learn's `SpectralCoclustering` with ``svd_method="randomized"``, which
        keeps 1 + ceil(log2 n_clusters) vectors, drops the first and scales by the degrees again.
    n_init : int, default=10
        Starts of k-means, of which the tightest is kept.
    random_state : int, RandomState instance or None, default=None
        Decides the starts of k-means and of the truncated decomposition.

    Attributes
    ----------
    row_labels_ : ndarray of shape (n_rows,)
        Cluster of each row (output neuron); -1 for a dead neuron, one whose weights are all 0.
    column_labels_ : ndarray of shape (n_columns,)
        Cluster of each column (input neuron), from the same set of clusters.
    rows_, columns_ : ndarray of shape (n_clusters, n_rows) and (n_clusters, n_columns)
        The same as indicator matrices, as scikit-learn's biclusters have them.
    normalized_cut_ : float
        Of the labels on the fitted weights.
    n_features_in_ : int
        Number of columns.

    Raises
    ------
    InputError
        For weights that are not a matrix, hold NaN, or are all 0; for more clusters than live
        rows or columns.

    See Also
    --------
    sklearn.cluster.SpectralCoclustering : Dhillon's algorithm, on the matrix as it is.

    Examples
    --------
    >>> W = np.kron(np.eye(2), np.ones((3, 2))) + 0.1
    >>> found = WeightCoclustering(n_clusters=2, random_state=0).fit(W)
    >>> bool((found.row_labels_[:3] == found.column_labels_[0]).all())
    True
    """

    def __init__(self, n_clusters: int = 2, method: str = "joint", *, n_init: int = 10,
                 random_state=None):
        self.n_clusters = n_clusters
        self.method = method
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, X: ArrayLike, y=None) -> WeightCoclustering:
        """Co-cluster a weight matrix.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Weights, signed or not.
        y : ignored
        """
        methods = {"joint": _joint, "dhillon": _dhillon}
        if self.method not in methods:
            raise unknown("method", self.method, methods)
        try:
            X = validate_data(self, X, dtype=np.float64, ensure_all_finite=False, allow_nd=True)
        except ValueError as error:
            reason = str(error).splitlines()[0].rstrip(":")
            raise InputError(f"these weights can't be clustered: {reason}") from None
        A = np.abs(as_weights(X))
        live_rows, live_columns = A.any(1), A.any(0)
        check_clusters(self.n_clusters, int(live_rows.sum()), int(live_columns.sum()))
        found = methods[self.method](A[np.ix_(live_rows, live_columns)], self.n_clusters,
                                     self.n_init, self.random_state)
        self.row_labels_ = np.full(A.shape[0], -1)
        self.column_labels_ = np.full(A.shape[1], -1)
        self.row_labels_[live_rows], self.column_labels_[live_columns] = found
        clusters = np.arange(self.n_clusters)[:, None]
        self.rows_ = self.row_labels_ == clusters
        self.columns_ = self.column_labels_ == clusters
        self.normalized_cut_ = normalized_cut(A, self.row_labels_, self.column_labels_)
        return self


def check_clusters(n_clusters: int, n_rows: int, n_columns: int) -> None:
    """Refuse more clusters than rows or columns with weights."""
    whole = isinstance(n_clusters, (int, np.integer)) and not isinstance(n_clusters, bool)
    if not whole or n_clusters < 1:
        raise InputError(f"n_clusters must be a whole number of at least 1, not {n_clusters!r}")
    if n_clusters > min(n_rows, n_columns):
        raise InputError(
            f"n_clusters={n_clusters} is more than the weights allow: with n_samples = {n_rows} "
            f"live rows and n_features = {n_columns} live columns there can be at most "
            f"{min(n_rows, n_columns)} clusters"
        )


def _joint(A: np.ndarray, k: int, n_init: int, random_state) -> tuple[np.ndarray, np.ndarray]:
    rng = check_random_state(random_state)
    left, right = singular_vectors(degree_scale(A), k, rng)
    neurons = np.vstack([left, right])                                # (n_rows + n_columns, k)
    length = np.linalg.norm(neurons, axis=1, keepdims=True)
    neurons = np.divide(neurons, length, out=np.zeros_like(neurons), where=length > 0)
    with warnings.catch_warnings():
        # Fewer distinct neurons than clusters: the labels say so by themselves.
        warnings.filterwarnings("ignore", message="Number of distinct clusters")
        labels = KMeans(k, n_init=n_init, random_state=rng).fit(neurons).labels_
    return _refine(A, labels[: len(A)], labels[len(A):], k)


def _refine(A: np.ndarray, rows: np.ndarray, columns: np.ndarray, k: int
            ) -> tuple[np.ndarray, np.ndarray]:
    """Move neurons to where most of their weight goes, as long as the normalized cut gets smaller.

    k-means sees each neuron by k coordinates; its edges tell more. A neuron goes to the cluster
    that takes the most of its weight per volume, rows and columns in turn: weighted kernel k-means
    for the normalized cut (Dhillon, Guan and Kulis, IEEE TPAMI 29(11), 2007).
    """
    degrees = A.sum(1), A.sum(0)
    cut = normalized_cut(A, rows, columns)
    while True:
        moved = [rows, columns]
        for side, edges in ((0, A), (1, A.T)):
            volume = np.bincount(moved[0], degrees[0], k) + np.bincount(moved[1], degrees[1], k)
            taken = edges @ np.eye(k)[moved[1 - side]]                # (n_neurons, k)
            moved[side] = np.argmax(taken / np.where(volume > 0, volume, np.inf), axis=1)
        smaller = normalized_cut(A, *moved)
        if not smaller < cut or any(len(np.unique(labels)) < k for labels in moved):
            return rows, columns
        cut, (rows, columns) = smaller, moved


def _dhillon(A: np.ndarray, k: int, n_init: int, random_state) -> tuple[np.ndarray, np.ndarray]:
    if k == 1:
        # No vector is left after the first; scikit-learn fails there.
        return np.zeros(A.shape[0], dtype=int), np.zeros(A.shape[1], dtype=int)
    # An int stays one: scikit-learn seeds the decomposition and k-means with it, each anew.
    # svd_method="arpack" drops the wrong vector: scikit-learn issue 12863.
    model = SpectralCoclustering(k, svd_method="randomized", n_init=n_init,
                                 random_state=random_state)
    model.fit(A)
    return model.row_labels_, model.column_labels_


def singular_vectors(A: np.ndarray, k: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """The first k left and right singular vectors as columns, largest singular value first."""
    if min(A.shape) <= FULL_SVD or k >= min(A.shape) - 1:
        left, _, right = np.linalg.svd(A, full_matrices=False)
        left, right = left[:, :k], right[:k].T
    else:
        left, values, right = svds(A, k=k, v0=rng.standard_normal(min(A.shape)))
        largest_first = values.argsort()[::-1]
        left, right = left[:, largest_first], right[largest_first].T
    # A pair of singular vectors has no sign of its own; one fixed choice makes runs repeatable.
    sign = np.sign(left[np.abs(left).argmax(0), np.arange(k)])
    return left * sign, right * sign


def separate_kmeans(W: ArrayLike, n_clusters: int = 2, random_state: int = 42):
    """The original notebook's recipe: one k-means for rows, another one for columns.

    Kept to show what is wrong with it: the two runs number their clusters independently, so a row
    and a column of the same label have nothing to do with each other.

    Parameters
    ----------
    W : array-like of shape (n_rows, n_columns)
    n_clusters : int
    random_state : int
        Of both runs; equal seeds do not pair their labels.

    Returns
    -------
    row_labels : ndarray of shape (n_rows,)
    column_labels : ndarray of shape (n_columns,)
    """
    A = np.abs(as_weights(W))
    check_clusters(n_clusters, *A.shape)
    left, right = singular_vectors(degree_scale(A), n_clusters, check_random_state(0))
    # The original's svds returns the vectors in ascending order of their singular values.
    return tuple(KMeans(n_clusters, random_state=random_state).fit(vectors[:, ::-1]).labels_
                 for vectors in (left, right))


def planted_blocks(n_rows: int, n_columns: int, n_clusters: int, *, off_block: float = 0.3,
                   random_state=None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights with clusters that are known: absolute Gaussians, smaller outside the blocks.

    Parameters
    ----------
    n_rows, n_columns, n_clusters : int
    off_block : float
        Scale of the weights between clusters; 1 inside.
    random_state : int, RandomState instance or None

    Returns
    -------
    W : ndarray of shape (n_rows, n_columns)
        In random order of rows and columns.
    row_labels : ndarray of shape (n_rows,)
    column_labels : ndarray of shape (n_columns,)
        The planted clusters, as equal in size as the numbers allow.
    """
    rng = check_random_state(random_state)
    rows = rng.permutation(np.arange(n_rows) % n_clusters)
    columns = rng.permutation(np.arange(n_columns) % n_clusters)
    scale = np.where(rows[:, None] == columns, 1.0, off_block)
    return np.abs(rng.standard_normal((n_rows, n_columns))) * scale, rows, columns
