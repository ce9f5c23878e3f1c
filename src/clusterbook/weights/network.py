r"""The whole network as one graph: the test of Filan et al. (arXiv:2103.03386).

Neurons of all layers, inputs and outputs included, are vertices; :math:`|w|` is the weight of an
edge; biases are ignored; neurons without weights belong to no cluster. Spectral clustering cuts the
graph into ``n_clusters`` pieces (12 in their runs), and its normalized cut is compared with those
of networks whose weights were shuffled within each layer.

Every edge joins an even layer to an odd one, so the graph is bipartite: a matrix with the neurons
of even layers as rows and those of odd layers as columns. Its singular vectors are the eigenvectors
of the graph, found several times faster.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from ..checks import as_seed
from ..errors import InputError
from ..progress import bar
from .coclustering import (
    NullTest,
    as_weights,
    check_clusters,
    check_shuffles,
    degree_scale,
    normalized_cut,
    shuffle,
    singular_vectors,
)


def bipartite(layers: Sequence[ArrayLike]) -> np.ndarray:
    """All layers' absolute weights as one matrix: neurons of even layers × neurons of odd layers.

    *layers* are weight matrices (n_outputs, n_inputs), from the inputs on, which are layer 0 of the
    neurons. Raises InputError if there is none, two do not fit, or all weights of one are 0.

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
    for i, (before, after) in enumerate(itertools.pairwise(matrices)):
        if after.shape[1] != len(before):
            raise InputError(f"layer {i + 1} has {after.shape[1]} inputs, but layer {i} has "
                             f"{len(before)} outputs")
    sizes = [matrices[0].shape[1], *map(len, matrices)]
    start = [sum(sizes[i % 2 : i : 2]) for i in range(len(sizes))]    # within its side
    A = np.zeros((sum(sizes[::2]), sum(sizes[1::2])))
    for i, matrix in enumerate(matrices):
        # Matrix i leads from layer i of the neurons to layer i + 1.
        even, odd = (i, i + 1) if i % 2 == 0 else (i + 1, i)
        block = matrix.T if i % 2 == 0 else matrix
        A[start[even] : start[even] + sizes[even], start[odd] : start[odd] + sizes[odd]] = block
    return A


def partition(A: np.ndarray, n_clusters: int = 12, *, n_init: int = 25,
              random_state=None) -> tuple[np.ndarray, np.ndarray]:
    """Spectral clustering of a graph from `bipartite`, as in scikit-learn's `SpectralClustering`.

    The leading eigenvectors of the degree-scaled graph, divided by the roots of the degrees (not
    scaled to unit length, as in `WeightCoclustering`), and one k-means over all vertices, with
    *n_init* starts (25 in the code of Filan et al.).

    Returns the labels of rows (n_rows,) and columns (n_columns,), -1 for a neuron without weights.
    Raises InputError for more clusters than rows or columns with weights.
    """
    rng = check_random_state(random_state)
    live_rows, live_columns = A.any(1), A.any(0)
    check_clusters(n_clusters, live_rows.sum(), live_columns.sum())
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
    """Test whether the whole network's cut is smaller than those of networks with shuffled layers.

    Neurons without weights are left out before shuffling, as in the code of Filan et al. With
    *keep_zeros* only the non-zero weights are shuffled, so that the pattern of a pruned network
    stays. For *layers* see `bipartite`, for *n_init* `partition`, for the others `null_tests`.

    Raises InputError for fewer than 2 shuffles, and as `bipartite` and `partition`.
    """
    check_shuffles(n_shuffles)
    seed = as_seed(random_state)
    rng = check_random_state(seed)

    def best(matrices: Sequence[ArrayLike]) -> float:
        graph = bipartite(matrices)
        return normalized_cut(graph, *partition(graph, n_clusters, n_init=n_init,
                                                random_state=seed))

    value = best(layers)
    layers = _without_isolated(layers)
    shuffles = bar(range(n_shuffles), "shuffled networks", progress=progress)
    null = [best([shuffle(layer, rng, keep_zeros=keep_zeros) for layer in layers])
            for _ in shuffles]
    return NullTest(value, np.array(null))
