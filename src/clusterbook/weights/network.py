r"""The whole network as one graph: the test of Filan et al. (arXiv:2103.03386).

Neurons of all layers, inputs and outputs included, are vertices; :math:`|w|` is the weight of an
edge; biases are ignored; neurons without any weight belong to no cluster. Spectral clustering cuts
the graph into ``n_clusters`` pieces (12 in their runs), and its normalized cut is held against
networks whose weights were shuffled within each layer.

Every edge joins an even layer to an odd one, so the graph is bipartite: it is one matrix with the
neurons of even layers as rows and those of odd layers as columns. The eigenvectors of the graph are
the singular vectors of that matrix, which is smaller and found several times faster.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from ..checks import as_seed
from ..errors import InputError
from ..progress import bar
from .coclustering import as_weights, check_clusters, degree_scale, normalized_cut, singular_vectors
from .nulls import NullTest, check_shuffles, shuffle


def bipartite(layers: Sequence[ArrayLike]) -> np.ndarray:
    """All layers' absolute weights as one matrix: neurons of even layers × neurons of odd layers.

    Parameters
    ----------
    layers : sequence of array-like of shape (n_outputs, n_inputs)
        Weight matrices, from the inputs on; each layer has as many inputs as the one before has
        outputs. The inputs are layer 0.

    Returns
    -------
    ndarray of shape (n_even, n_odd)

    Raises
    ------
    InputError
        If two layers do not fit, or all weights of one are 0.

    Examples
    --------
    >>> bipartite([[[1.0, -2.0]], [[3.0]]])
    array([[1.],
           [2.],
           [3.]])
    """
    matrices = [np.abs(as_weights(layer)) for layer in layers]
    if not matrices:
        raise InputError("a network needs at least one layer")
    for i, (before, after) in enumerate(zip(matrices, matrices[1:], strict=False)):
        if after.shape[1] != len(before):
            raise InputError(f"layer {i + 1} has {after.shape[1]} inputs, but layer {i} has "
                             f"{len(before)} outputs")
    sizes = [matrices[0].shape[1], *map(len, matrices)]
    start = [sum(sizes[i % 2 : i : 2]) for i in range(len(sizes))]   # within its side
    A = np.zeros((sum(sizes[::2]), sum(sizes[1::2])))
    for i, matrix in enumerate(matrices):
        # Layer i's inputs are layer i of neurons, its outputs layer i + 1.
        block = matrix.T if i % 2 == 0 else matrix
        even, odd = (i, i + 1) if i % 2 == 0 else (i + 1, i)
        A[start[even] : start[even] + sizes[even], start[odd] : start[odd] + sizes[odd]] = block
    return A


def partition(A: np.ndarray, n_clusters: int = 12, *, n_init: int = 25,
              random_state=None) -> tuple[np.ndarray, np.ndarray]:
    """Spectral clustering of a bipartite graph as scikit-learn's `SpectralClustering` does it.

    The leading eigenvectors of the degree-scaled graph, divided by the roots of the degrees (not
    scaled to unit length, as in `WeightCoclustering`), and one k-means over all vertices.

    Parameters
    ----------
    A : ndarray of shape (n_rows, n_columns)
        Edge weights, as `bipartite` returns them.
    n_clusters : int
    n_init : int
        Starts of k-means; 25 in the code of Filan et al.
    random_state : int, RandomState instance or None

    Returns
    -------
    row_labels : ndarray of shape (n_rows,)
    column_labels : ndarray of shape (n_columns,)
        -1 for a neuron without weights.

    Raises
    ------
    InputError
        If there are more clusters than rows or columns with weights.
    """
    rng = check_random_state(random_state)
    live_rows, live_columns = A.any(1), A.any(0)
    check_clusters(n_clusters, int(live_rows.sum()), int(live_columns.sum()))
    live = A[np.ix_(live_rows, live_columns)]
    vectors = np.vstack(singular_vectors(degree_scale(live), n_clusters, rng))
    degrees = np.concatenate([live.sum(1), live.sum(0)])
    found = KMeans(n_clusters, n_init=n_init, random_state=rng).fit(
        vectors / np.sqrt(degrees)[:, None]).labels_
    rows, columns = np.full(A.shape[0], -1), np.full(A.shape[1], -1)
    rows[live_rows], columns[live_columns] = found[: len(live)], found[len(live):]
    return rows, columns


def _without_isolated(layers: Sequence[ArrayLike]) -> list[np.ndarray]:
    """The layers without the neurons that have no weights on either side."""
    matrices = [as_weights(layer) for layer in layers]
    into, out = [m.any(1) for m in matrices], [m.any(0) for m in matrices]
    kept = [out[0], *(i | o for i, o in zip(into, out[1:], strict=False)), into[-1]]
    return [m[np.ix_(after, before)]
            for m, before, after in zip(matrices, kept, kept[1:], strict=False)]


def network_test(layers: Sequence[ArrayLike], n_clusters: int = 12, *, n_shuffles: int = 50,
                 keep_zeros: bool = False, n_init: int = 25,
                 random_state: int | None = None, progress: bool | None = None) -> NullTest:
    """Is the whole network's cut smaller than those of networks with shuffled layers?

    Neurons without weights are left out before shuffling, as in the code of Filan et al.: a shuffle
    would bring them back, and compare the network with larger ones.

    Parameters
    ----------
    layers : sequence of array-like of shape (n_outputs, n_inputs)
    n_clusters, n_shuffles : int
    keep_zeros : bool
        Shuffle the non-zero weights only: the pattern of a pruned network stays.
    n_init : int
        See `partition`.
    random_state : int or None
    progress : bool, optional
        Show a bar; by default only where a person watches.

    Returns
    -------
    NullTest
        Of the normalized cut; small values are the remarkable ones.

    Raises
    ------
    InputError
        For fewer than 2 shuffles, and for what `bipartite` and `partition` refuse.
    """
    check_shuffles(n_shuffles)
    seed = as_seed(random_state)
    rng = check_random_state(seed)

    def best(matrices: Sequence[ArrayLike]) -> float:
        graph = bipartite(matrices)
        labels = partition(graph, n_clusters, n_init=n_init, random_state=seed)
        return normalized_cut(graph, *labels)

    value = best(layers)
    layers = _without_isolated(layers)
    shuffles = bar(range(n_shuffles), "shuffled networks", progress=progress)
    null = [best([shuffle(layer, rng, keep_zeros=keep_zeros) for layer in layers])
            for _ in shuffles]
    return NullTest(value, np.array(null))
