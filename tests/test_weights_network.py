"""The whole network as one graph, held against the full symmetric adjacency, edge by edge."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score as ari

from clusterbook import weights
from clusterbook.weights import bipartite, coclustering, network_test, normalized_cut, partition

SIZES = (12, 9, 7, 8, 5)


def noise(seed: int, sizes=SIZES) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((b, a)) for a, b in zip(sizes, sizes[1:], strict=False)]


def planted(seed: int, k: int, sizes=SIZES, *, off: float = 0.02):
    """Signed weights with known clusters: layers of weights, and labels of each layer's neurons."""
    rng = np.random.default_rng(seed)
    labels = [rng.permutation(np.arange(n) % k) for n in sizes]
    layers = [np.where(after[:, None] == before, 1, off) * rng.choice([-1, 1], (b, a))
              * rng.uniform(0.5, 1.5, (b, a))
              for before, after, a, b in zip(labels, labels[1:], sizes, sizes[1:], strict=False)]
    return layers, labels


def adjacency(layers) -> np.ndarray:
    """The symmetric graph of all neurons, one layer after the other, one edge at a time."""
    sizes = [len(layers[0][0]), *map(len, layers)]
    start = np.cumsum([0, *sizes])
    edges = np.zeros((start[-1], start[-1]))
    for i, layer in enumerate(layers):
        for out in range(sizes[i + 1]):
            for inp in range(sizes[i]):
                a, b = start[i] + inp, start[i + 1] + out
                edges[a, b] = edges[b, a] = abs(layer[out][inp])
    return edges


def in_order(row_labels, column_labels, sizes=SIZES) -> np.ndarray:
    """The labels of the bipartite matrix as those of neurons, one layer after the other."""
    sides, at, found = (list(row_labels), list(column_labels)), [0, 0], []
    for i, size in enumerate(sizes):
        found += sides[i % 2][at[i % 2] : at[i % 2] + size]
        at[i % 2] += size
    assert at == [len(row_labels), len(column_labels)]
    return np.array(found)


# --- the graph --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_layers", [1, 2, 3, 4])
def test_the_matrix_holds_every_edge_of_the_graph_once(n_layers):
    sizes, layers = SIZES[: n_layers + 1], noise(0)[:n_layers]
    n_even, n_odd = sum(sizes[::2]), sum(sizes[1::2])
    order = in_order(range(n_even), range(n_even, n_even + n_odd), sizes)
    A = bipartite(layers)
    full = np.block([[np.zeros((n_even, n_even)), A], [A.T, np.zeros((n_odd, n_odd))]])
    assert np.array_equal(full[np.ix_(order, order)], adjacency(layers))


@pytest.mark.parametrize(("layers", "says"), [
    ([np.ones((3, 2)), np.ones((2, 4))], "must match exactly"),
    ([np.ones((3, 2)), np.ones((2, 3)), np.ones((4, 1))], "must match exactly"),
    ([np.ones((3, 2)), np.zeros((2, 3))], "all weights are 0"),
])
def test_layers_that_are_no_network_are_refused(layers, says):
    with pytest.raises(ValueError, match=says):
        bipartite(layers)


# --- the partition ----------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "seed", "loud"), [(2, 0, False), (4, 2, False), (3, 5, True)])
def test_partition_and_cut_are_those_of_the_full_symmetric_graph(k, seed, loud):
    layers, planted_labels = planted(seed, k, off=0.1 if loud else 0.02)
    if loud:    # without the division by the roots of the degrees these are clusters of their own
        layers[0] *= 10 ** np.random.default_rng(6).uniform(-1, 1, (SIZES[1], 1))
    edges, A = adjacency(layers), bipartite(layers)
    theirs = SpectralClustering(k, affinity="precomputed", eigen_solver="arpack", n_init=25,
                                random_state=0).fit(edges).labels_
    rows, columns = partition(A, k, random_state=0)
    assert ari(theirs, in_order(rows, columns)) == 1
    assert loud or ari(theirs, np.concatenate(planted_labels)) == 1
    literal = sum(edges[theirs == c][:, theirs != c].sum() / edges[theirs == c].sum()
                  for c in range(k))
    assert normalized_cut(A, rows, columns) == pytest.approx(literal, abs=1e-12)
    assert 0.01 < literal < 1


# --- the test ---------------------------------------------------------------------------------


def test_the_value_and_the_null_are_cuts_of_the_same_search():
    layers = noise(3)
    test = network_test(layers, 3, n_shuffles=3, random_state=7)
    A = bipartite(layers)
    assert test.value == normalized_cut(A, *partition(A, 3, random_state=7))
    rng = np.random.RandomState(7)
    for cut in test.null:
        A = bipartite([weights.shuffle(layer, rng) for layer in layers])
        assert cut == normalized_cut(A, *partition(A, 3, random_state=7))
    assert not test.larger
    again = network_test(layers, 3, n_shuffles=3, random_state=7)
    assert (again.value, again.null.tolist()) == (test.value, test.null.tolist())
    assert network_test(layers, 3, n_shuffles=3, random_state=8).null.tolist() != test.null.tolist()


def watched(monkeypatch, layers, **options) -> list[list[np.ndarray]]:
    """The networks that a test clusters: first the network, then its shuffles."""
    seen = []
    monkeypatch.setattr(coclustering, "bipartite", lambda layers: [seen.append(layers),
                                                              bipartite(layers)][1])
    network_test(layers, 2, n_shuffles=4, random_state=0, **options)
    return seen


def pruned(seed: int) -> list[np.ndarray]:
    """A network with most weights 0, two inputs and one hidden neuron without any."""
    layers = [np.where(np.abs(layer) > 1, layer, 0) for layer in noise(seed)]
    layers[0][:, [0, 4]] = 0
    layers[0][3] = 0
    layers[1][:, 3] = 0
    layers[1][2] = 0                  # has weights to the next layer: not isolated
    return layers


@pytest.mark.parametrize("keep_zeros", [False, True])
def test_weights_are_shuffled_within_their_layer_among_connected_neurons(monkeypatch, keep_zeros):
    layers = pruned(1)
    assert layers[2][:, 2].any()
    before = [layer.copy() for layer in layers]
    first, *shuffles = watched(monkeypatch, layers, keep_zeros=keep_zeros)
    assert all(map(np.array_equal, first, before)) and all(map(np.array_equal, layers, before))
    live = np.split(adjacency(layers).any(0), np.cumsum(SIZES)[:-1])
    assert not live[0][[0, 4]].any() and not live[1][3] and live[2][2]
    connected = [layer[live[i + 1]][:, live[i]] for i, layer in enumerate(layers)]
    alike = []
    for shuffled in shuffles:
        for mixed, layer in zip(shuffled, connected, strict=True):
            assert mixed.shape == layer.shape
            assert np.array_equal(np.sort(mixed, axis=None), np.sort(layer, axis=None))
            assert not np.array_equal(mixed, layer)
            alike.append(np.array_equal(mixed != 0, layer != 0))
    assert all(alike) if keep_zeros else not any(alike)


def test_isolated_neurons_change_neither_value_nor_null():
    layers = noise(4)
    test = network_test(layers, 2, n_shuffles=3, random_state=0)
    layers[0] = np.insert(layers[0], [0, 3, 3], 0.0, axis=1)
    layers[2] = np.insert(layers[2], 1, 0.0, axis=0)
    layers[3] = np.insert(layers[3], 1, 0.0, axis=1)
    padded = network_test(layers, 2, n_shuffles=3, random_state=0)
    assert padded.value == pytest.approx(test.value, abs=1e-9)
    np.testing.assert_allclose(padded.null, test.null, atol=1e-9)
