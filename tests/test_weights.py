"""Co-clustering of weights: planted truth, the graph edge by edge, and the null model."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score as ari
from sklearn.utils.estimator_checks import parametrize_with_checks
from torchvision.models import resnet18

from clusterbook import weights
from clusterbook.weights import NullTest, WeightCoclustering, bipartite, coclustering, network_test
from clusterbook.weights.coclustering import normalized_cut, partition, share_inside

SIZES = (12, 9, 7, 8, 5)


def planted(seed: int, k: int, sizes=SIZES, *, off: float = 0.02):
    """Signed weights with known clusters: layers of weights, and labels of each layer's neurons."""
    rng = np.random.default_rng(seed)
    labels = [rng.permutation(np.arange(n) % k) for n in sizes]
    layers = [np.where(after[:, None] == before, 1, off) * rng.choice([-1, 1], (b, a))
              * rng.uniform(0.5, 1.5, (b, a))
              for before, after, a, b in zip(labels, labels[1:], sizes, sizes[1:], strict=False)]
    return layers, labels


def one_layer(n_rows: int, n_columns: int, k: int, seed: int, off: float = 0.3):
    """A planted layer, and the labels of its rows and columns in one vector."""
    (W,), (columns, rows) = planted(seed, k, (n_columns, n_rows), off=off)
    return W, np.concatenate([rows, columns])


def labels_of(model: WeightCoclustering) -> np.ndarray:
    """Rows and columns in one vector: equal partitions of it mean equal *paired* clusters."""
    return np.concatenate([model.row_labels_, model.column_labels_])


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


def literal_cut(edges: np.ndarray, labels: np.ndarray) -> float:
    """Σ cut(X, rest) / vol(X) over the full graph."""
    total = 0.0
    for cluster in set(labels.tolist()) - {-1}:
        inside = labels == cluster
        if volume := edges[inside].sum():
            total += edges[inside][:, ~inside].sum() / volume
    return total


@pytest.mark.parametrize("seed", range(3))
def test_cut_and_share_are_their_definitions(seed):
    rng = np.random.default_rng(seed)
    n, m, k = rng.integers(2, 12), rng.integers(2, 12), rng.integers(1, 5)
    W = rng.standard_normal((n, m)) * (rng.random((n, m)) < 0.8)
    W[0, 0] = 1.0
    rows, columns = rng.integers(-1, k, n), rng.integers(-1, k, m)
    expected = literal_cut(adjacency([W]), np.concatenate([columns, rows]))
    assert normalized_cut(W, rows, columns) == pytest.approx(expected, abs=1e-12)
    for power in (1, 2):
        inside = sum(abs(W[i, j]) ** power for i in range(n) for j in range(m)
                     if rows[i] == columns[j] != -1)
        share = inside / (abs(W) ** power).sum()
        assert share_inside(W, rows, columns, power=power) == pytest.approx(share, abs=1e-12)


def test_a_neurons_degree_does_not_decide_its_cluster_and_moving_neurons_makes_the_cut_smaller(
        monkeypatch):
    W, truth = one_layer(64, 48, 3, 0, off=0.1)
    rng = np.random.default_rng(1)
    W *= 10 ** rng.uniform(-1.5, 1.5, (64, 1)) * 10 ** rng.uniform(-1.5, 1.5, 48)
    faint = [weights.planted_blocks(40, 30, 3, off_block=0.6, random_state=s)[0] for s in range(5)]
    moved = [WeightCoclustering(3, random_state=0).fit(W).normalized_cut_ for W in faint]
    # The moves repair degrees; k-means alone must not need it.
    monkeypatch.setattr(coclustering, "_refine", lambda A, rows, columns, k: (rows, columns))
    assert ari(truth, labels_of(WeightCoclustering(3, random_state=0).fit(W))) > 0.95
    for W, cut in zip(faint, moved, strict=True):
        assert cut < WeightCoclustering(3, random_state=0).fit(W).normalized_cut_ - 1e-3


def test_the_truncated_decomposition_is_the_full_one(monkeypatch):
    A = weights.degree_scale(np.abs(one_layer(64, 40, 4, 0)[0]))
    full = coclustering.singular_vectors(A, 4, np.random.RandomState(0))
    values = np.linalg.svd(A, compute_uv=False)[:4]
    assert values[0] == pytest.approx(1, abs=1e-12)     # rows and columns are scaled
    np.testing.assert_allclose(A @ full[1], full[0] * values, atol=1e-12)
    monkeypatch.setattr(coclustering, "FULL_SVD", 8)
    monkeypatch.setattr(np.linalg, "svd", None)
    truncated = coclustering.singular_vectors(A, 4, np.random.RandomState(1))
    for a, b in zip(full, truncated, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)        # in order, and of one sign


@pytest.mark.parametrize(("k", "seed", "loud"), [(4, 2, False), (3, 5, True)])
def test_graph_partition_and_cut_are_those_of_the_full_symmetric_graph(k, seed, loud):
    layers, truth = planted(seed, k, off=0.1 if loud else 0.02)
    if loud:    # without the division by the roots of the degrees these are clusters of their own
        layers[0] *= 10 ** np.random.default_rng(6).uniform(-1, 1, (SIZES[1], 1))
    edges, A = adjacency(layers), bipartite(layers)
    # Where the rows and columns of the matrix stand among the neurons, layer by layer.
    neurons = np.split(np.arange(sum(SIZES)), np.cumsum(SIZES)[:-1])
    even, odd = np.concatenate(neurons[::2]), np.concatenate(neurons[1::2])
    assert np.array_equal(edges[np.ix_(even, odd)], A)
    theirs = SpectralClustering(k, affinity="precomputed", eigen_solver="arpack", n_init=25,
                                random_state=0).fit(edges).labels_
    rows, columns = partition(A, k, random_state=0)
    assert ari(theirs[np.concatenate([even, odd])], np.concatenate([rows, columns])) == 1
    assert loud or ari(theirs, np.concatenate(truth)) == 1
    assert normalized_cut(A, rows, columns) == pytest.approx(literal_cut(edges, theirs), abs=1e-12)


@pytest.mark.parametrize("keep_zeros", [False, True])
def test_a_shuffle_has_the_same_values_in_other_places(keep_zeros):
    rng = np.random.default_rng(0)
    W = rng.standard_normal((12, 9)) * (rng.random((12, 9)) < 0.4)
    copy = W.copy()
    shuffled = weights.shuffle(W, 0, keep_zeros=keep_zeros)
    assert np.array_equal(np.sort(shuffled, axis=None), np.sort(W, axis=None))
    assert np.array_equal(shuffled != 0, W != 0) == keep_zeros
    assert np.mean(shuffled[W != 0] == W[W != 0]) < 0.2 and np.array_equal(W, copy)
    # Permuting whole rows, or within them, would keep a row's values together.
    stripes = np.repeat(np.arange(1.0, 31.0), 30).reshape(30, 30)
    shuffled = weights.shuffle(stripes, 0, keep_zeros=keep_zeros)
    assert min(len(set(line)) for line in [*shuffled, *shuffled.T]) > 10


def test_z_and_p_by_hand():
    tie, null = 0.1 + 0.2, [1, 2, 3, 4, 5]                              # 0.30000000000000004
    for value, others, larger, p in (
            (2, null, False, 3 / 6),        # 2 of 5, and the network's own, are at most 2
            (9, null, False, 1), (2, null, True, 5 / 6), (9, null, True, 1 / 6),
            (0.3, [tie, 0.5, 0.1], False, 3 / 4), (tie, [0.3, 0.5, 0.1], True, 3 / 4),
            (0.3 + 1e-6, [tie, 0.5, 0.1], True, 2 / 4)):
        assert NullTest(value, np.array(others, dtype=float), larger).p == p
    assert NullTest(2.0, np.array(null)).z == pytest.approx((2 - 3) / np.sqrt(2.5), abs=1e-12)
    flat = np.array([0.3, tie, 0.3])
    assert [NullTest(v, flat).z for v in (0.2, 0.3, 0.4)] == [-np.inf, 0, np.inf]


@pytest.mark.parametrize("keep_zeros", [False, True])
def test_a_network_and_its_shuffles_are_cut_alike_without_isolated_neurons(keep_zeros):
    layers = [np.where(np.abs(layer) > 1, layer, 0) for layer in planted(1, 2, off=1)[0]]
    layers[0][:, [0, 4]] = layers[1][:, [3]] = 0            # two inputs and one hidden neuron
    layers[0][3] = 0
    layers[1][2] = 0                  # has weights to the next layer: not isolated
    live = np.split(adjacency(layers).any(0), np.cumsum(SIZES)[:-1])
    connected = [layer[live[i + 1]][:, live[i]] for i, layer in enumerate(layers)]
    rng = np.random.RandomState(7)
    shuffles = [[weights.shuffle(layer, rng, keep_zeros=keep_zeros) for layer in connected]
                for _ in range(3)]
    test = network_test(layers, 2, n_shuffles=3, random_state=7, keep_zeros=keep_zeros)
    assert [test.value, *test.null] == [
        normalized_cut(A, *partition(A, 2, random_state=7))
        for A in map(bipartite, [layers, *shuffles])]
    assert not test.larger


W_GOOD = np.arange(1.0, 13.0).reshape(4, 3)


def test_half_precision_weights_are_read():
    half = torch.tensor(W_GOOD).bfloat16()
    assert (coclustering.as_weights(half) == W_GOOD).all()


@pytest.mark.parametrize(("use", "says"), [
    (lambda: normalized_cut(np.where(W_GOOD == 5, np.nan, W_GOOD), [0, 0, 0, 1], [0, 0, 1]),
     "weights contains NaN"),
    (lambda: network_test([W_GOOD.T, np.zeros((4, 3))]), "all weights are 0"),
    (lambda: WeightCoclustering().fit(torch.nn.Linear(4, 4)), "a Linear is no .* as model.weight$"),
    (lambda: WeightCoclustering().fit(resnet18()), "^a ResNet is no .* as model.fc.weight$"),
    (lambda: WeightCoclustering(4).fit(W_GOOD), "n_clusters=4 .* n_features = 3 live columns"),
    (lambda: WeightCoclustering(3).fit(W_GOOD.T * [[1], [0], [1]]), "n_clusters=3 .* 2 live rows"),
    (lambda: network_test([W_GOOD], n_shuffles=1), "at least 2, not 1"),
    (lambda: network_test([W_GOOD, W_GOOD]), "layer 0 has 4 outputs, but layer 1 takes 3"),
    (lambda: bipartite([np.ones((3, 2)), np.ones((2, 4))]), "layer 0 has 3 .* layer 1 takes 4"),
    (lambda: bipartite([]), "there are no layers"),
    (lambda: network_test(iter([W_GOOD, np.ones(4)])), r"of shape \(4,\): a bias has no"),
    (lambda: WeightCoclustering().fit(torch.nn.Conv2d(3, 8, 3).weight), "give W.flatten"),
    (lambda: WeightCoclustering().fit(csr_matrix(W_GOOD)), "give W.toarray"),
    (lambda: partition(np.where(W_GOOD == 5, np.nan, W_GOOD), 2), "weights contains NaN"),
])
def test_weights_and_settings_that_do_not_fit_are_refused(use, says):
    with pytest.raises(ValueError, match=says):
        use()


def test_layers_may_come_one_by_one_and_a_refused_refit_changes_nothing():
    layers = [W_GOOD, np.ones((2, 4))]
    assert network_test(iter(layers), 2, n_shuffles=2, random_state=0).value == network_test(
        layers, 2, n_shuffles=2, random_state=0).value
    model = WeightCoclustering(random_state=0).fit(W_GOOD)
    with pytest.raises(ValueError, match="n_clusters=4"):
        model.set_params(n_clusters=4).fit(W_GOOD.T[:, :3])
    assert model.n_features_in_ == 3 == len(model.column_labels_)


@parametrize_with_checks([WeightCoclustering(random_state=0)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)
