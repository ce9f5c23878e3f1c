"""Co-clustering of weights: planted truth, literal transcriptions, and a null model that is one."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.cluster import SpectralCoclustering
from sklearn.metrics import adjusted_rand_score as ari
from sklearn.utils.estimator_checks import parametrize_with_checks

from clusterbook import weights
from clusterbook.errors import InputError
from clusterbook.weights import (
    NullTest,
    WeightCoclustering,
    coclustering,
    normalized_cut,
    nulls,
    share_inside,
)

# Checks of scikit-learn that the estimator fails, each with its reason.
EXPECTED_FAILURES: dict[str, str] = {}


def planted(n_rows: int, n_columns: int, k: int, seed: int, *, off_block: float = 0.3):
    """Signed weights with known clusters, made independently of the library's own generator."""
    rng = np.random.default_rng(seed)
    rows, columns = np.arange(n_rows) * k // n_rows, np.arange(n_columns) * k // n_columns
    rng.shuffle(rows)
    rng.shuffle(columns)
    W = rng.standard_normal((n_rows, n_columns))
    W[rows[:, None] != columns] *= off_block
    return W, rows, columns


def as_one(row_labels, column_labels) -> np.ndarray:
    """Rows and columns in one vector: equal partitions of it mean equal *paired* clusters."""
    return np.concatenate([row_labels, column_labels])


def same_partition(a, b) -> bool:
    pairs = set(zip(np.asarray(a).tolist(), np.asarray(b).tolist(), strict=True))
    return len(pairs) == len({x for x, _ in pairs}) == len({y for _, y in pairs})


def literal_normalized_cut(W, row_labels, column_labels) -> Fraction:
    """Σ cut(X, rest) / vol(X) over the bipartite graph's full adjacency, edge by edge, exactly."""
    n, m = len(W), len(W[0])
    labels = [*row_labels, *column_labels]
    edge = [[Fraction(0)] * (n + m) for _ in range(n + m)]
    for i in range(n):
        for j in range(m):
            edge[i][n + j] = edge[n + j][i] = abs(Fraction(W[i][j]))
    total = Fraction(0)
    for cluster in set(labels) - {-1}:
        inside = [v for v in range(n + m) if labels[v] == cluster]
        outside = [v for v in range(n + m) if labels[v] != cluster]
        cut = sum((edge[u][v] for u in inside for v in outside), Fraction(0))
        volume = sum((edge[u][v] for u in inside for v in range(n + m)), Fraction(0))
        total += cut / volume if volume else 0
    return total


# --- the graph --------------------------------------------------------------------------------


def test_degree_scaling_by_hand():
    A = np.array([[1.0, 3.0, 0.0], [0.0, 5.0, 0.0]])
    expected = [[1 / np.sqrt(4 * 1), 3 / np.sqrt(4 * 8), 0], [0, 5 / np.sqrt(5 * 8), 0]]
    np.testing.assert_allclose(weights.degree_scale(A), expected, rtol=1e-15)
    assert A[0, 1] == 3.0


def test_the_first_singular_value_of_a_degree_scaled_graph_is_1():
    A = np.abs(planted(20, 30, 3, 0)[0])
    values = np.linalg.svd(weights.degree_scale(A), compute_uv=False)
    assert values[0] == pytest.approx(1, abs=1e-12) and values[1] < 1


@pytest.mark.parametrize("seed", range(6))
def test_the_normalized_cut_is_its_definition(seed):
    rng = np.random.default_rng(seed)
    n, m, k = rng.integers(2, 12), rng.integers(2, 12), rng.integers(1, 5)
    W = rng.standard_normal((n, m)) * (rng.random((n, m)) < 0.8)
    W[0, 0] = 1.0
    rows, columns = rng.integers(-1, k, n), rng.integers(-1, k, m)
    expected = float(literal_normalized_cut(W.tolist(), rows.tolist(), columns.tolist()))
    assert normalized_cut(W, rows, columns) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("W", "rows", "columns", "cut", "share"),
    [
        ([[3, -1], [1, 3]], [0, 1], [0, 1], 2 * (1 - 6 / 8), 6 / 8),
        ([[3, -1], [1, 3]], [0, 1], [1, 0], 2 * (1 - 2 / 8), 2 / 8),
        ([[2, 0], [0, -5]], [1, 0], [1, 0], 0, 1),                 # no weight between: no cut
        ([[2, 0], [0, 5]], [1, 0], [0, 1], 2, 0),                  # nothing but weight between
        ([[1, 2, 3]], [0], [0, 0, 0], 0, 1),
        ([[1, 2, 3]], [0], [0, 0, 1], (1 - 2 * 3 / 9) + 1, 1 / 2),  # a cluster of columns alone
        ([[4, 1], [1, 4], [9, 9]], [0, 1, -1], [0, 1], 2 * (1 - 8 / (5 + 14)), 8 / 28),
    ],
)
def test_cut_and_share_by_hand(W, rows, columns, cut, share):
    assert normalized_cut(W, rows, columns) == pytest.approx(cut, abs=1e-12)
    assert share_inside(W, rows, columns) == pytest.approx(share, abs=1e-12)


def test_the_share_of_squares_is_the_published_clusterability():
    W = [[3, -1], [1, 3]]
    assert share_inside(W, [0, 1], [0, 1], power=2) == pytest.approx(18 / 20, abs=1e-12)


@pytest.mark.parametrize("k", [2, 4, 12])
def test_random_labels_cut_about_k_minus_1_and_hold_about_1_over_k(k):
    rng = np.random.default_rng(k)
    W = rng.standard_normal((240, 180))
    rows, columns = rng.permutation(np.arange(240) % k), rng.permutation(np.arange(180) % k)
    assert normalized_cut(W, rows, columns) == pytest.approx(k - 1, rel=0.02)
    assert share_inside(W, rows, columns) == pytest.approx(1 / k, rel=0.05)


def test_unassigned_neurons_are_in_no_cluster():
    W = np.ones((4, 4))
    assert share_inside(W, [-1] * 4, [-1] * 4) == 0
    assert normalized_cut(W, [-1] * 4, [-1] * 4) == 0


# --- the clustering ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [2, 4, 8])
def test_planted_blocks_are_found(k, seed):
    W, rows, columns = weights.planted_blocks(128, 96, k, random_state=seed)
    W *= np.random.default_rng(seed).choice([-1.0, 1.0], W.shape)
    found = WeightCoclustering(k, random_state=seed).fit(W)
    assert ari(rows, found.row_labels_) >= 0.99
    assert ari(columns, found.column_labels_) >= 0.99
    # Paired: row cluster i goes with column cluster i.
    assert ari(as_one(rows, columns), as_one(found.row_labels_, found.column_labels_)) >= 0.99
    truth = share_inside(W, rows, columns)
    assert truth == pytest.approx(1 / (1 + 0.3 * (k - 1)), rel=0.05)
    share = share_inside(W, found.row_labels_, found.column_labels_)
    assert share == pytest.approx(truth, rel=0.01)
    assert found.normalized_cut_ == pytest.approx(normalized_cut(W, rows, columns), rel=0.01)


def test_how_much_weight_a_neuron_has_does_not_decide_its_cluster():
    W, rows, columns = planted(64, 48, 3, 0, off_block=0.1)
    rng = np.random.default_rng(1)
    W *= 10 ** rng.uniform(-1.5, 1.5, (64, 1)) * 10 ** rng.uniform(-1.5, 1.5, 48)
    found = WeightCoclustering(3, random_state=0).fit(W)
    assert ari(as_one(rows, columns), as_one(found.row_labels_, found.column_labels_)) == 1


def test_the_generator_of_planted_blocks_plants_what_it_says():
    W, rows, columns = weights.planted_blocks(60, 45, 4, off_block=0.0, random_state=0)
    assert W.shape == (60, 45) and np.bincount(rows).tolist() == [15] * 4
    assert np.bincount(columns).tolist() == [12, 11, 11, 11]
    assert np.array_equal(W > 0, rows[:, None] == columns)
    assert np.any(np.diff(rows) < 0)
    faint, again_rows, _ = weights.planted_blocks(60, 45, 4, off_block=0.3, random_state=0)
    assert np.array_equal(rows, again_rows)
    inside = rows[:, None] == columns
    np.testing.assert_array_equal(faint[inside], W[inside])
    assert faint[~inside].mean() == pytest.approx(0.3 * np.sqrt(2 / np.pi), rel=0.05)


def test_the_original_recipe_finds_the_blocks_but_does_not_pair_them():
    shares = []
    for seed in range(6):
        W, rows, columns = planted(64, 48, 4, seed)
        found_rows, found_columns = weights.separate_kmeans(W, 4)
        assert ari(rows, found_rows) >= 0.9 and ari(columns, found_columns) >= 0.9
        shares.append(share_inside(W, found_rows, found_columns))
    truth = share_inside(W, rows, columns)
    assert np.mean(shares) < 0.75 * truth


def test_what_is_learned_fits_together():
    W, _, _ = planted(40, 30, 3, 1)
    model = WeightCoclustering(3, random_state=0).fit(W)
    assert model.rows_.shape == (3, 40) and model.columns_.shape == (3, 30)
    assert np.array_equal(model.rows_.argmax(0), model.row_labels_)
    assert np.array_equal(model.columns_.argmax(0), model.column_labels_)
    assert (model.rows_.sum(0) == 1).all() and (model.columns_.sum(0) == 1).all()
    assert model.n_features_in_ == 30
    assert model.normalized_cut_ == normalized_cut(W, model.row_labels_, model.column_labels_)
    rows, columns = model.get_indices(1)
    assert np.array_equal(rows, np.flatnonzero(model.row_labels_ == 1))
    assert np.array_equal(columns, np.flatnonzero(model.column_labels_ == 1))


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_dhillon_is_scikit_learns_label_for_label(k, seed):
    # Noise: any difference in a vector, a scale or a start would show.
    W = np.random.default_rng(seed).standard_normal((40, 30))
    ours = WeightCoclustering(k, "dhillon", random_state=seed).fit(W)
    theirs = SpectralCoclustering(k, svd_method="randomized", random_state=seed).fit(np.abs(W))
    assert np.array_equal(ours.row_labels_, theirs.row_labels_)
    assert np.array_equal(ours.column_labels_, theirs.column_labels_)


@pytest.mark.parametrize("method", ["joint", "dhillon"])
def test_dead_neurons_belong_to_no_cluster_and_change_nothing(method):
    W, rows, columns = planted(40, 30, 2, 3)
    dead_rows, dead_columns = [0, 7, 39], [2, 29]
    W[dead_rows], W[:, dead_columns] = 0, 0
    live_rows = np.setdiff1d(np.arange(40), dead_rows)
    live_columns = np.setdiff1d(np.arange(30), dead_columns)
    whole = WeightCoclustering(2, method, random_state=0).fit(W)
    part = WeightCoclustering(2, method, random_state=0).fit(W[np.ix_(live_rows, live_columns)])
    assert (whole.row_labels_[dead_rows] == -1).all()
    assert (whole.column_labels_[dead_columns] == -1).all()
    assert np.array_equal(whole.row_labels_[live_rows], part.row_labels_)
    assert np.array_equal(whole.column_labels_[live_columns], part.column_labels_)
    assert whole.normalized_cut_ == pytest.approx(part.normalized_cut_, abs=1e-12)
    assert not whole.rows_[:, dead_rows].any() and not whole.columns_[:, dead_columns].any()
    assert ari(rows[live_rows], whole.row_labels_[live_rows]) >= 0.99


@pytest.mark.parametrize("method", ["joint", "dhillon"])
def test_the_order_of_neurons_decides_nothing_but_names(method):
    W, _, _ = planted(48, 36, 2, 5)
    rng = np.random.default_rng(0)
    row_order, column_order = rng.permutation(48), rng.permutation(36)
    before = WeightCoclustering(2, method, random_state=0).fit(W)
    after = WeightCoclustering(2, method, random_state=0).fit(W[np.ix_(row_order, column_order)])
    assert same_partition(
        as_one(before.row_labels_[row_order], before.column_labels_[column_order]),
        as_one(after.row_labels_, after.column_labels_))
    assert after.normalized_cut_ == pytest.approx(before.normalized_cut_, abs=1e-12)


@pytest.mark.parametrize("method", ["joint", "dhillon"])
def test_signs_decide_nothing(method):
    W = np.random.default_rng(6).standard_normal((30, 30))
    flipped = W * np.random.default_rng(7).choice([-1.0, 1.0], W.shape)
    a = WeightCoclustering(3, method, random_state=0).fit(W)
    b = WeightCoclustering(3, method, random_state=0).fit(flipped)
    assert np.array_equal(a.row_labels_, b.row_labels_)
    assert np.array_equal(a.column_labels_, b.column_labels_)


def test_the_scale_of_the_weights_decides_nothing():
    W = np.random.default_rng(6).standard_normal((30, 24))
    a = WeightCoclustering(3, random_state=0).fit(W)
    b = WeightCoclustering(3, random_state=0).fit(W * 2.0**-40)
    assert np.array_equal(a.row_labels_, b.row_labels_)
    assert a.normalized_cut_ == pytest.approx(b.normalized_cut_, rel=1e-12)


@pytest.mark.parametrize("method", ["joint", "dhillon"])
def test_the_transpose_of_a_layer_that_is_not_square_swaps_rows_and_columns(method):
    W, rows, columns = planted(60, 36, 2, 2)
    upright = WeightCoclustering(2, method, random_state=0).fit(W)
    lying = WeightCoclustering(2, method, random_state=0).fit(W.T)
    assert upright.row_labels_.shape == lying.column_labels_.shape == (60,)
    assert upright.column_labels_.shape == lying.row_labels_.shape == (36,)
    assert same_partition(as_one(upright.row_labels_, upright.column_labels_),
                          as_one(lying.column_labels_, lying.row_labels_))
    assert upright.normalized_cut_ == pytest.approx(lying.normalized_cut_, abs=1e-12)
    assert ari(as_one(rows, columns), as_one(upright.row_labels_, upright.column_labels_)) == 1


@pytest.mark.parametrize("shape", [(50, 50), (64, 40), (40, 64)])
def test_the_truncated_decomposition_is_the_full_one(shape, monkeypatch):
    A = weights.degree_scale(np.abs(planted(*shape, 4, 0)[0]))
    full = coclustering.singular_vectors(A, 4, np.random.RandomState(0))
    monkeypatch.setattr(coclustering, "FULL_SVD", 8)
    asked = []
    svds = coclustering.svds
    monkeypatch.setattr(coclustering, "svds", lambda *a, **o: asked.append(o["k"]) or svds(*a, **o))
    truncated = coclustering.singular_vectors(A, 4, np.random.RandomState(1))
    assert asked == [4]
    for a, b in zip(full, truncated, strict=True):
        assert a.shape == b.shape and a.shape[1] == 4
        np.testing.assert_allclose(a, b, atol=1e-8)        # in order, and of one sign


def test_the_singular_vectors_are_pairs_in_descending_order():
    A = weights.degree_scale(np.abs(planted(30, 20, 3, 0)[0]))
    left, right = coclustering.singular_vectors(A, 3, np.random.RandomState(0))
    values = np.linalg.svd(A, compute_uv=False)[:3]
    np.testing.assert_allclose(A @ right, left * values, atol=1e-12)
    np.testing.assert_allclose(left.T @ left, np.eye(3), atol=1e-12)


def test_a_layer_above_the_limit_gives_the_same_clusters(monkeypatch):
    W, rows, columns = planted(70, 60, 3, 0)
    full = WeightCoclustering(3, random_state=0).fit(W)
    monkeypatch.setattr(coclustering, "FULL_SVD", 10)
    truncated = WeightCoclustering(3, random_state=0).fit(W)
    assert same_partition(as_one(full.row_labels_, full.column_labels_),
                          as_one(truncated.row_labels_, truncated.column_labels_))
    again = WeightCoclustering(3, random_state=0).fit(W)
    assert np.array_equal(truncated.row_labels_, again.row_labels_)


@pytest.mark.parametrize("method", ["joint", "dhillon"])
def test_one_seed_one_result_and_the_callers_generator_is_left_alone(method):
    W = np.random.default_rng(1).standard_normal((30, 20))
    np.random.seed(5)                                                            # noqa: NPY002
    before = np.random.get_state()[1].copy()                                     # noqa: NPY002
    labels = {as_one(m.row_labels_, m.column_labels_).tobytes()
              for m in (WeightCoclustering(4, method, random_state=3).fit(W) for _ in range(2))}
    assert len(labels) == 1
    assert np.array_equal(before, np.random.get_state()[1])                      # noqa: NPY002


def test_fitting_leaves_the_weights_alone():
    W = np.random.default_rng(1).standard_normal((20, 20))
    copy = W.copy()
    WeightCoclustering(2, random_state=0).fit(W)
    weights.null_test(W, n_shuffles=2, random_state=0)
    assert np.array_equal(W, copy)


@pytest.mark.parametrize("method", ["joint", "dhillon"])
def test_one_cluster_holds_everything(method):
    W = np.random.default_rng(1).standard_normal((5, 4))
    model = WeightCoclustering(1, method, random_state=0).fit(W)
    assert not model.row_labels_.any() and not model.column_labels_.any()
    assert model.normalized_cut_ == pytest.approx(0, abs=1e-12)


@parametrize_with_checks(
    [WeightCoclustering(random_state=0), WeightCoclustering(method="dhillon", random_state=0)],
    expected_failed_checks=lambda _estimator: EXPECTED_FAILURES,
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


# --- the null model ---------------------------------------------------------------------------


@pytest.mark.parametrize("keep_zeros", [False, True])
def test_a_shuffle_has_the_same_values_in_other_places(keep_zeros):
    rng = np.random.default_rng(0)
    W = rng.standard_normal((12, 9)) * (rng.random((12, 9)) < 0.4)
    copy = W.copy()
    shuffled = weights.shuffle(W, 0, keep_zeros=keep_zeros)
    assert np.array_equal(np.sort(shuffled, axis=None), np.sort(W, axis=None))
    assert np.array_equal(shuffled != 0, W != 0) == keep_zeros
    assert np.mean(shuffled[W != 0] == W[W != 0]) < 0.2
    assert np.array_equal(W, copy)
    assert np.array_equal(shuffled, weights.shuffle(W, 0, keep_zeros=keep_zeros))
    assert not np.array_equal(shuffled, weights.shuffle(W, 1, keep_zeros=keep_zeros))


def test_a_shuffle_moves_values_between_rows_and_columns():
    # Permuting whole rows, or within them, would keep a row's values together.
    W = np.repeat(np.arange(1.0, 31.0), 30).reshape(30, 30)
    for matrix in (W, W.T):
        shuffled = weights.shuffle(matrix, 0)
        assert min(len(set(row)) for row in shuffled) > 10
        assert min(len(set(column)) for column in shuffled.T) > 10


def test_every_place_is_as_likely():
    landed = np.zeros(6)
    for seed in range(600):
        landed[weights.shuffle([[1, 0, 0], [0, 0, 0]], seed).argmax()] += 1
    # Chi-squared with 5 degrees of freedom stays below 25.7 in all but 1 of 10,000.
    assert ((landed - 100) ** 2 / 100).sum() < 25.7


def test_z_and_p_by_hand():
    test = NullTest(2.0, np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert test.z == pytest.approx((2 - 3) / np.sqrt(2.5), abs=1e-12)
    assert test.p == 3 / 6                               # 1, 2 and the network's own
    assert test.smallest_p == 1 / 6
    assert NullTest(0.0, test.null).p == test.smallest_p
    assert NullTest(9.0, test.null).p == 1
    assert NullTest(2.0, test.null, larger=True).p == 5 / 6
    assert NullTest(9.0, test.null, larger=True).p == test.smallest_p
    assert NullTest(0.5, np.zeros(50)).smallest_p == pytest.approx(0.0196, abs=1e-4)


@pytest.mark.filterwarnings("error")
def test_without_a_spread_there_is_no_effect_size():
    test = weights.null_test(np.ones((6, 6)), n_shuffles=5, random_state=0)
    assert test.z == 0 and test.p == 1
    assert NullTest(1.0, np.full(7, 1.1)).z == -np.inf
    assert NullTest(1.2, np.full(7, 1.1)).z == np.inf
    assert NullTest(1.1, np.full(7, 1.1)).z == 0


def test_p_is_uniform_on_noise(monkeypatch):
    # p takes 1/20 … 20/20 with equal chance. Less a uniform number of [0, 1/20) it is uniform on
    # (0, 1], and Kolmogorov and Smirnov's distribution, which is for continuous values, holds.
    # One start of k-means, for speed: what matters is that network and shuffles have as many.
    monkeypatch.setattr(nulls, "WeightCoclustering", partial(WeightCoclustering, n_init=1))
    rng = np.random.default_rng(0)
    values = []
    for seed in range(100):
        W = rng.standard_normal((9, 8))
        values.append(weights.null_test(W, n_shuffles=19, random_state=seed).p - rng.random() / 20)
    assert kstest(values, "uniform").pvalue > 0.01
    assert np.mean(values) == pytest.approx(0.5, abs=4 * np.sqrt(1 / 12 / 100))


def test_planted_blocks_stand_out_of_the_null():
    W, _, _ = planted(32, 24, 2, 0)
    test = weights.null_test(W, n_shuffles=19, random_state=0)
    assert test.p == test.smallest_p == 1 / 20
    assert test.z < -10
    assert test.value == WeightCoclustering(2, random_state=0).fit(W).normalized_cut_
    again = weights.null_test(W, n_shuffles=19, random_state=0)
    assert np.array_equal(test.null, again.null)
    assert not np.array_equal(test.null,
                              weights.null_test(W, n_shuffles=19, random_state=1).null)


def test_a_null_that_does_not_shuffle_finds_nothing(monkeypatch):
    W, _, _ = planted(32, 24, 2, 0)
    monkeypatch.setattr(nulls, "shuffle", lambda W, *_args, **_options: W)
    test = weights.null_test(W, n_shuffles=9, random_state=0)
    assert test.p == 1 and test.z == 0


def test_the_network_and_its_shuffles_are_clustered_alike(monkeypatch):
    seen = []

    def statistic(W, row_labels, column_labels):
        seen.append((W.copy(), row_labels, column_labels))
        return -share_inside(W, row_labels, column_labels)

    W, _, _ = planted(20, 16, 2, 0)
    W[np.abs(W) < 0.2] = 0
    monkeypatch.setitem(nulls.STATISTICS, "cut", (statistic, False))
    test = weights.null_test(W, 3, n_shuffles=4, method="dhillon", keep_zeros=True,
                             random_state=0)
    assert len(seen) == 5 and np.array_equal(seen[0][0], W)
    for matrix, rows, columns in seen:
        assert np.array_equal(matrix != 0, W != 0)
        expected = WeightCoclustering(3, "dhillon", random_state=0).fit(matrix)
        assert np.array_equal(rows, expected.row_labels_)
        assert np.array_equal(columns, expected.column_labels_)
    assert test.value == -share_inside(*seen[0])
    assert test.null.tolist() == [-share_inside(*one) for one in seen[1:]]


def test_what_is_measured_of_the_null_and_which_way_is_remarkable():
    W, _, _ = planted(32, 24, 2, 0)
    tests = weights.null_tests(W, 2, n_shuffles=9, random_state=0)
    model = WeightCoclustering(2, random_state=0).fit(W)
    labels = model.row_labels_, model.column_labels_
    assert {name: (test.value, test.larger) for name, test in tests.items()} == {
        "cut": (normalized_cut(W, *labels), False), "share": (share_inside(W, *labels), True),
        "share_of_squares": (share_inside(W, *labels, power=2), True)}
    assert all(test.p == test.smallest_p == 0.1 for test in tests.values())
    assert tests["cut"].z < -5 and tests["share"].z > 5 and tests["share_of_squares"].z > 5
    again = weights.null_test(W, 2, n_shuffles=9, random_state=0)
    assert again.value == tests["cut"].value and np.array_equal(again.null, tests["cut"].null)


# --- bad input --------------------------------------------------------------------------------

W_GOOD = np.arange(1.0, 13.0).reshape(4, 3)


@pytest.mark.parametrize("use", [
    lambda W: WeightCoclustering().fit(W),
    lambda W: weights.null_test(W, n_shuffles=2),
    lambda W: weights.shuffle(W),
    lambda W: normalized_cut(W, [0, 0, 0, 1], [0, 0, 1]),
    lambda W: share_inside(W, [0, 0, 0, 1], [0, 0, 1]),
    lambda W: weights.separate_kmeans(W),
], ids=["fit", "null_test", "shuffle", "normalized_cut", "share_inside", "separate_kmeans"])
@pytest.mark.parametrize(("bad", "says"), [
    (np.where(W_GOOD == 5, np.nan, W_GOOD), "1 values that are NaN or inf"),
    (np.where(W_GOOD > 10, np.inf, W_GOOD), "2 values that are NaN or inf"),
    (np.zeros((4, 3)), "all weights are 0"),
    (np.ones((4, 3, 2)), "must be a matrix .* 3 dimensions"),
    (np.ones(4), "must be a matrix|Expected 2D array"),
], ids=["NaN", "inf", "zeros", "3-d", "1-d"])
def test_what_is_no_matrix_of_weights_is_refused(use, bad, says):
    with pytest.raises(InputError, match=says):
        use(bad)


@pytest.mark.parametrize(("model", "W", "says"), [
    (WeightCoclustering(4), W_GOOD, "n_clusters=4 is more .* at most 3 clusters"),
    (WeightCoclustering(4), W_GOOD.T, "at most 3 clusters"),
    (WeightCoclustering(3), W_GOOD * [1, 0, 1], "2 live columns .* at most 2 clusters"),
    (WeightCoclustering(0), W_GOOD, "whole number of at least 1, not 0"),
    (WeightCoclustering(2.0), W_GOOD, r"not 2\.0"),
    (WeightCoclustering(True), W_GOOD, "not True"),
    (WeightCoclustering(method="jont"), W_GOOD, "no method 'jont'; did you mean 'joint'"),
    (WeightCoclustering(), [["a", "b"], ["c", "d"]], "these weights can't be clustered"),
    (WeightCoclustering(random_state=-1), W_GOOD, "Seed must be"),
])
def test_what_can_not_be_clustered_is_refused(model, W, says):
    with pytest.raises(ValueError, match=says):
        model.fit(W)


def test_more_clusters_than_rows_is_an_input_error():
    with pytest.raises(InputError, match="4 clusters|n_clusters=4"):
        WeightCoclustering(4).fit(W_GOOD)


@pytest.mark.parametrize(("rows", "columns"), [([0, 1], [0, 0, 1]), ([0, 0, 1, 1], [0, 1])])
def test_labels_that_do_not_fit_the_matrix_are_refused(rows, columns):
    for score in (normalized_cut, share_inside):
        with pytest.raises(InputError, match="needs 4 row labels and 3 column labels"):
            score(W_GOOD, rows, columns)


@pytest.mark.parametrize("n_shuffles", [1, 0, -3])
def test_a_null_needs_a_spread(n_shuffles):
    with pytest.raises(InputError, match=rf"at least 2 .*not {n_shuffles}"):
        weights.null_test(W_GOOD, n_shuffles=n_shuffles)


WITHOUT_TORCH = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "torchvision"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Absent())
import numpy as np
from clusterbook import datasets, evidence, figures, metrics, weights as w

W = np.random.default_rng(0).random((20, 12))
w.WeightCoclustering(2, random_state=0).fit(W)
w.null_test(W, 2, n_shuffles=3, random_state=0)
w.network_test([W, W.T], 2, n_shuffles=2, random_state=0)
print("so far")
w.lesions
"""


def test_what_needs_no_network_needs_no_torch():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True,
                          check=False)
    assert done.stdout == "so far\n", done.stderr
    assert done.stderr.splitlines()[-1] == "ImportError: torch is not here"
