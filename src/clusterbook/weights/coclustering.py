r"""Co-clustering of a network's weights: which output neurons go with which input neurons.

A layer's weight matrix :math:`W \in \mathbb{R}^{n \times m}` (rows: outputs, columns: inputs, as in
torch) is a bipartite graph: neurons are vertices and :math:`A = |W|` holds the weights of the
edges. So is the whole network, with the neurons of even layers as rows and those of odd layers as
columns. Spectral co-clustering (I. S. Dhillon, "Co-clustering documents and words using bipartite
spectral graph partitioning", KDD 2001) gives rows and columns one common set of labels; the
normalized cut measures how much weight runs between clusters, and a null model of shuffled weights
whether that is remarkably little (D. Filan et al., "Clusterability in neural networks",
arXiv:2103.03386, 2021).

Differences from the authors' code
----------------------------------
- One k-means clusters rows and columns; the notebook that this chapter repeats runs two, whose
  labels are unrelated.
- A neuron without weights belongs to no cluster (label -1); there its degree is inverted.
- The first k pairs of singular vectors are used. Dhillon drops the first, which says nothing about
  clusters, and keeps about log2(k) others.
- Each neuron's row of singular vectors is scaled to unit length, so that its degree does not decide
  its cluster. Dhillon divides it by the root of the degree.
- After k-means, rows and columns move while the normalized cut gets smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from scipy.sparse.linalg import svds
from sklearn.base import BaseEstimator, BiclusterMixin
from sklearn.cluster import KMeans
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import validate_data
from threadpoolctl import threadpool_limits

from ..checks import InputError, as_random_state, as_seed, whole
from ..paths import bar

__all__ = ["NullTest", "WeightCoclustering", "bipartite", "degree_scale", "network_test",
           "normalized_cut", "null_tests", "partition", "planted_blocks", "separate_kmeans",
           "share_inside", "shuffle"]


def degree_scale(A: np.ndarray) -> np.ndarray:
    r"""Scale weights *A* (n_rows, n_columns), not negative: :math:`D_r^{-1/2} A D_c^{-1/2}`.

    A row or column without weight stays 0. The largest singular value is 1.
    """
    rows, columns = (1 / np.sqrt(np.where(degrees > 0, degrees, np.inf))
                     for degrees in (A.sum(1), A.sum(0)))
    return A * rows[:, None] * columns


def normalized_cut(W: ArrayLike, row_labels: ArrayLike, column_labels: ArrayLike) -> float:
    r"""Normalized cut of a co-clustering: the weight between clusters, in units of their volumes.

    .. math:: \sum_c \frac{\mathrm{cut}(c)}{\mathrm{vol}(c)}, \qquad
       \mathrm{vol}(c) = \sum_{i \in c} d_i, \qquad
       \mathrm{cut}(c) = \mathrm{vol}(c) - 2 \sum_{i, j \in c} |W_{ij}|,

    over clusters *c* of rows and columns together, with the degrees :math:`d` of all neurons, as in
    the code of Filan et al.: 0 if no weight runs between clusters, and about ``n_clusters - 1`` for
    a partition that is unrelated to the weights. *W* has shape (n_rows, n_columns), the labels
    (n_rows,) and (n_columns,); -1 is a neuron that belongs to no cluster.
    """
    A, rows, columns = _graph(W, row_labels, column_labels)
    degree_rows, degree_columns = A.sum(1), A.sum(0)
    total = 0.0
    for c in np.union1d(rows, columns):
        in_rows, in_columns = rows == c, columns == c
        volume = degree_rows[in_rows].sum() + degree_columns[in_columns].sum()
        if c >= 0 and volume > 0:
            total += 1 - 2 * A[np.ix_(in_rows, in_columns)].sum() / volume
    return total


def share_inside(W: ArrayLike, row_labels: ArrayLike, column_labels: ArrayLike,
                 *, power: int = 1) -> float:
    r"""Share of the weight that runs inside clusters: :math:`\sum_\mathrm{in}|W|^p / \sum|W|^p`.

    With ``power=2`` the *clusterability* of Golechha et al. (arXiv:2409.15747); about
    ``1 / n_clusters`` for equal clusters that are unrelated to the weights. See `normalized_cut`.
    """
    A, rows, columns = _graph(W, row_labels, column_labels)
    A = A**power
    inside = (rows[:, None] == columns) & (rows[:, None] >= 0)
    return A[inside].sum() / A.sum()


def _graph(W: ArrayLike, row_labels: ArrayLike, column_labels: ArrayLike):
    A = np.abs(as_weights(W))
    check_consistent_length(A, row_labels)
    check_consistent_length(A.T, column_labels)
    return A, np.asarray(row_labels), np.asarray(column_labels)


def as_weights(W: ArrayLike) -> np.ndarray:
    """The weights as a float64 matrix; raises ValueError if they are none, not finite or all 0."""
    if hasattr(W, "named_modules"):
        layers = [name for name, part in W.named_modules() if type(part).__name__ == "Linear"]
        one = ".".join(filter(None, ["model", *layers[-1:], "weight"]))
        raise InputError(f"a {type(W).__name__} is no matrix of weights; give that of a layer"
                         + f", such as {one}" * bool(layers))
    if issparse(W):
        raise InputError("a sparse matrix of weights is not supported: give W.toarray()")
    if hasattr(W, "detach"):        # a torch parameter; numpy has no bfloat16
        W = W.detach().cpu().double()
    if len(shape := np.shape(W)) not in (0, 2):
        raise InputError(f"weights must be a matrix (n_outputs, n_inputs), not of shape "
                         f"{tuple(shape)}: " + ("a bias has no connections" if len(shape) == 1 else
                                                "of a convolution, give W.flatten(1)"))
    W = check_array(W, dtype=np.float64, input_name="weights")
    if not W.any():
        raise InputError("all weights are 0: there is no graph to cluster")
    return W


def bipartite(layers: Sequence[ArrayLike]) -> np.ndarray:
    """All layers' absolute weights as one matrix: neurons of even layers × neurons of odd layers.

    *layers* are matrices (n_outputs, n_inputs), from the inputs on, which are layer 0. Raises
    ValueError if there is none, a layer's weights are all 0, or two layers do not fit.
    """
    matrices = [np.abs(layer) for layer in _consecutive(layers)]
    sizes = [matrices[0].shape[1], *map(len, matrices)]
    blocks = [[np.zeros((even, odd)) for odd in sizes[1::2]] for even in sizes[::2]]
    for i, matrix in enumerate(matrices):
        # Matrix i leads from layer i of the neurons to layer i + 1.
        blocks[(i + 1) // 2][i // 2] = matrix.T if i % 2 == 0 else matrix
    return np.block(blocks)


def _consecutive(layers: Sequence[ArrayLike]) -> list[np.ndarray]:
    """The weights of layers, each of which takes what the one before it gives."""
    matrices = [as_weights(layer) for layer in layers]
    if not matrices:
        raise InputError("there are no layers; give matrices of shape (n_outputs, n_inputs)")
    for i, (one, following) in enumerate(pairwise(matrices)):
        if len(one) != following.shape[1]:
            raise InputError(f"layer {i} has {len(one)} outputs, but layer {i + 1} takes "
                             f"{following.shape[1]}; give matrices of shape (n_outputs, n_inputs)")
    return matrices


#: Up to about this many neurons a full SVD is as fast as a truncated one, without a random start.
FULL_SVD = 256
Labels = tuple[np.ndarray, np.ndarray]


class WeightCoclustering(BiclusterMixin, BaseEstimator):
    """Spectral co-clustering of a weight matrix: rows and columns share one set of clusters.

    The first ``n_clusters`` singular vectors of the degree-scaled absolute weights, each neuron's
    row of them scaled to unit length, one k-means over rows and columns, then rounds in which all
    rows and all columns move, as long as the normalized cut gets smaller: a local search, after
    which moves of single neurons can still make it smaller.

    Raises ValueError for weights that are no matrix, not finite or all 0, and too many clusters.

    Parameters
    ----------
    n_clusters : int, default=2
        At most the number of rows and of columns with weights.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    row_labels_, column_labels_ : ndarray of shape (n_rows,) and (n_columns,)
        Cluster of each output and input neuron; -1 if its weights are all 0.
    rows_, columns_ : bool ndarray of shape (n_clusters, n_rows) and (n_clusters, n_columns)
        The same as indicator matrices, as in scikit-learn's biclusters.
    normalized_cut_ : float

    Examples
    --------
    >>> import numpy as np
    >>> from clusterbook import WeightCoclustering
    >>> W = np.kron(np.eye(2), np.ones((3, 2))) + 0.1
    >>> found = WeightCoclustering(n_clusters=2, random_state=0).fit(W)
    >>> bool((found.row_labels_[:3] == found.column_labels_[0]).all())
    True
    """

    def __init__(self, n_clusters: int = 2, *, random_state=None):
        self.n_clusters = n_clusters
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: None = None) -> WeightCoclustering:
        """Co-cluster a weight matrix *X* (n_rows, n_columns), signed or not; *y* is ignored."""
        A = np.abs(as_weights(X))
        labels = _spectral(A, self.n_clusters, self.random_state)
        validate_data(self, X, skip_check_array=True)           # sets n_features_in_
        self.row_labels_, self.column_labels_ = labels
        clusters = np.arange(self.n_clusters)[:, None]
        self.rows_ = self.row_labels_ == clusters
        self.columns_ = self.column_labels_ == clusters
        self.normalized_cut_ = normalized_cut(A, self.row_labels_, self.column_labels_)
        return self


def partition(A: np.ndarray, n_clusters: int = 12, *, n_init: int = 25,
              random_state=None) -> Labels:
    """Spectral clustering of a graph from `bipartite`, as in scikit-learn's `SpectralClustering`.

    One k-means with *n_init* starts (25 in the code of Filan et al.) over the singular vectors of
    the degree-scaled matrix, divided by the roots of the degrees. Labels and errors are those of
    `WeightCoclustering`.
    """
    A = np.abs(as_weights(A))
    return _spectral(A, n_clusters, random_state, n_init, unit_length=False)


@threadpool_limits.wrap(limits=1)       # small work: with more threads a busy machine stalls it
def _spectral(A: np.ndarray, k: int, random_state, n_init: int = 10,
              unit_length: bool = True) -> Labels:
    """One k-means over the rows and columns that have weights; the labels of the others are -1.

    With *unit_length* as in `WeightCoclustering`, otherwise as in `partition`.
    """
    live_rows, live_columns = A.any(1), A.any(0)
    whole("n_clusters", k, 1)
    n_rows, n_columns = live_rows.sum(), live_columns.sum()
    if k > min(n_rows, n_columns):
        raise InputError(f"n_clusters={k} is too many for weights with n_samples = {n_rows} live "
                         f"rows and n_features = {n_columns} live columns")
    rows, columns = np.full(len(A), -1), np.full(A.shape[1], -1)
    A, rng = A[np.ix_(live_rows, live_columns)], as_random_state(random_state)
    neurons = np.vstack(singular_vectors(degree_scale(A), k, rng))    # (n_rows + n_columns, k)
    roots = np.sqrt(np.concatenate([A.sum(1), A.sum(0)]))             # of the degrees
    length = np.linalg.norm(neurons, axis=1) if unit_length else roots
    neurons /= np.where(length > 0, length, 1)[:, None]
    labels = KMeans(k, n_init=n_init, random_state=rng).fit(neurons).labels_
    found = labels[:n_rows], labels[n_rows:]
    if unit_length:
        found = _refine(A, *found, k)
    rows[live_rows], columns[live_columns] = found
    return rows, columns


def _refine(A: np.ndarray, rows: np.ndarray, columns: np.ndarray, k: int) -> Labels:
    """Move neurons to the cluster that takes the most of their weight per volume.

    A simplified weighted kernel k-means (Dhillon, Guan and Kulis, IEEE TPAMI 29(11), 2007), without
    the term of a cluster's own weight: rows and columns in turn, while the normalized cut gets
    smaller.
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


def singular_vectors(A: np.ndarray, k: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """The first k left and right singular vectors as columns, largest singular value first."""
    if min(A.shape) <= FULL_SVD or k >= min(A.shape) - 1:
        left, _, right = np.linalg.svd(A, full_matrices=False)
    else:
        left, values, right = svds(A, k=k, v0=rng.standard_normal(min(A.shape)))
        largest_first = values.argsort()[::-1]
        left, right = left[:, largest_first], right[largest_first]
    # The sign of a pair of singular vectors is arbitrary; fixing it makes runs repeatable.
    left, right = svd_flip(left[:, :k], right[:k])
    return left, right.T


def separate_kmeans(W: ArrayLike, n_clusters: int = 2, random_state: int = 42):
    """The original notebook's recipe, whose labels, (n_rows,) and (n_columns,), are unrelated."""
    A = np.abs(as_weights(W))
    left, right = singular_vectors(degree_scale(A), n_clusters, np.random.RandomState(0))
    # The original's svds returns the vectors in ascending order of their singular values.
    return tuple(KMeans(n_clusters, random_state=random_state).fit(vectors[:, ::-1]).labels_
                 for vectors in (left, right))


def planted_blocks(n_rows: int, n_columns: int, n_clusters: int, *, off_block: float = 0.3,
                   random_state=None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights with known clusters: absolute Gaussians of scale 1 inside, *off_block* outside.

    Returns the weights (n_rows, n_columns), and the clusters of rows (n_rows,) and columns
    (n_columns,), of equal sizes to within one.
    """
    rng = as_random_state(random_state)
    rows = rng.permutation(np.arange(n_rows) % n_clusters)
    columns = rng.permutation(np.arange(n_columns) % n_clusters)
    scale = np.where(rows[:, None] == columns, 1.0, off_block)
    return np.abs(rng.standard_normal((n_rows, n_columns))) * scale, rows, columns


def shuffle(W: ArrayLike, random_state=None, *, keep_zeros: bool = False) -> np.ndarray:
    """Permute a layer's weights, with *keep_zeros* only those that are not 0 (Filan et al.)."""
    W = as_weights(W).copy()
    rng = as_random_state(random_state)
    permuted = W != 0 if keep_zeros else np.ones(W.shape, dtype=bool)
    W[permuted] = rng.permutation(W[permuted])
    return W


def _without_isolated(layers: Sequence[ArrayLike]) -> list[np.ndarray]:
    """The layers without the neurons that have no weights on either side."""
    matrices = _consecutive(layers)
    into, out = [m.any(1) for m in matrices], [m.any(0) for m in matrices]
    kept = [out[0], *(i | o for i, o in zip(into, out[1:], strict=False)), into[-1]]
    return [m[np.ix_(after, before)]
            for m, before, after in zip(matrices, kept, kept[1:], strict=False)]


# The same quantity summed in another order is a tie.
_equal = partial(np.isclose, rtol=1e-9, atol=1e-12)


@dataclass(frozen=True)
class NullTest:
    """A *value* of the network, and *null* (n_shuffles,) under a null model.

    *larger* tells whether large values are the remarkable ones, not small ones.
    """

    value: float
    null: np.ndarray
    larger: bool = False

    @cached_property
    def z(self) -> float:
        """The effect size: value minus the null's mean, in the null's standard deviations (n - 1).

        Where small values are the remarkable ones, as of a cut, a remarkable z is negative.
        """
        if _equal(self.null, self.null[0]).all():
            distance = self.value - self.null[0]
            return 0.0 if _equal(distance, 0) else float(np.copysign(np.inf, distance))
        return float((self.value - self.null.mean()) / self.null.std(ddof=1))

    @cached_property
    def p(self) -> float:
        """Share of values at least as remarkable, (r + 1) / (n + 1), the network's own counted."""
        beyond = self.null >= self.value if self.larger else self.null <= self.value
        beyond |= _equal(self.null, self.value)
        return float((1 + beyond.sum()) / (1 + len(self.null)))

    @property
    def smallest_p(self) -> float:
        """The smallest p-value that so many shuffles allow."""
        return 1 / (1 + len(self.null))


def null_tests(W: ArrayLike, n_clusters: int = 2, *, n_shuffles: int = 50, random_state=None
               ) -> dict[str, NullTest]:
    """Test whether a layer's best clusters beat those of its own weights in random order.

    The layer, without its dead neurons, and every shuffle are clustered alike, as by Filan et al.
    Returns the tests ``cut`` (normalized cut), ``share`` and ``share_of_squares`` (of
    the absolute and the squared weight inside clusters). Raises InputError for fewer than 2
    shuffles, and as `WeightCoclustering`.
    """
    seed = as_seed(random_state)

    def measured(layers: Sequence[np.ndarray]) -> dict[str, float]:
        (weights,) = layers
        found = WeightCoclustering(n_clusters, random_state=seed).fit(weights)
        labels = found.row_labels_, found.column_labels_
        return {"cut": normalized_cut(weights, *labels), "share": share_inside(weights, *labels),
                "share_of_squares": share_inside(weights, *labels, power=2)}

    # The network's own value too, so that both sums have the same terms in the same order.
    return _against_shuffles(measured, _without_isolated([W]), n_shuffles, seed)


def network_test(layers: Sequence[ArrayLike], n_clusters: int = 12, *, n_shuffles: int = 50,
                 keep_zeros: bool = False, n_init: int = 25, random_state=None) -> NullTest:
    """Test whether the whole network's cut is smaller than those of networks with shuffled layers.

    The test of Filan et al., with 12 clusters in their runs: `partition` cuts the graph of all
    neurons that have weights. For *layers* see `bipartite`, for *keep_zeros* `shuffle`, for errors
    `null_tests`.
    """
    seed, layers = as_seed(random_state), list(layers)

    def measured(layers: Sequence[ArrayLike]) -> dict[str, float]:
        graph = bipartite(layers)
        labels = partition(graph, n_clusters, n_init=n_init, random_state=seed)
        return {"cut": normalized_cut(graph, *labels)}

    return _against_shuffles(measured, layers, n_shuffles, seed, keep_zeros)["cut"]


def _against_shuffles(measured, layers: Sequence[ArrayLike], n_shuffles: int, seed: int,
                      keep_zeros: bool = False) -> dict[str, NullTest]:
    """What is measured of layers, beside the same of shuffles of their connected neurons."""
    whole("n_shuffles", n_shuffles, 2)
    rng, connected, own = as_random_state(seed), _without_isolated(layers), measured(layers)
    try:
        null = [measured([shuffle(layer, rng, keep_zeros=keep_zeros) for layer in connected])
                for _ in bar(range(n_shuffles), "shuffles")]
    except InputError as error:
        raise InputError(f"a shuffle of the weights can't be clustered: {error}; ask for fewer "
                         "clusters") from None
    return {name: NullTest(value, np.array([one[name] for one in null]), larger=name != "cut")
            for name, value in own.items()}
