"""Co-clustering of weights: planted truth, literal transcriptions, and the null model."""

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
    share_inside,
)

both = pytest.mark.parametrize("method", ["joint", "dhillon"])


def planted(n_rows: int, n_columns: int, k: int, seed: int, *, off_block: float = 0.3):
    """Signed weights with known clusters, made independently of the library's own generator."""
    rng = np.random.default_rng(seed)
    rows, columns = np.arange(n_rows) * k // n_rows, np.arange(n_columns) * k // n_columns
    rng.shuffle(rows)
    rng.shuffle(columns)
    W = rng.standard_normal((n_rows, n_columns))
    W[rows[:, None] != columns] *= off_block
    return W, rows, columns


def noise(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def labels_of(model: WeightCoclustering) -> np.ndarray:
    """Rows and columns in one vector: equal partitions of it mean equal *paired* clusters."""
    return np.concatenate([model.row_labels_, model.column_labels_])


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
    values = np.linalg.svd(weights.degree_scale(np.abs(noise(20, 30))), compute_uv=False)
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


@pytest.mark.parametrize(("W", "rows", "columns", "cut", "share", "of_squares"), [
    ([[3, -1], [1, 3]], [0, 1], [0, 1], 2 * (1 - 6 / 8), 6 / 8, 18 / 20),
    ([[3, -1], [1, 3]], [0, 1], [1, 0], 2 * (1 - 2 / 8), 2 / 8, 2 / 20),
    ([[2, 0], [0, -5]], [1, 0], [1, 0], 0, 1, 1),                   # no weight between clusters
    ([[2, 0], [0, 5]], [1, 0], [0, 1], 2, 0, 0),                    # only weight between clusters
    ([[1, 2, 3]], [0], [0, 0, 1], (1 - 2 * 3 / 9) + 1, 1 / 2, 5 / 14),   # a cluster of columns
    ([[4, 1], [1, 4], [9, 9]], [0, 1, -1], [0, 1], 2 * (1 - 8 / (5 + 14)), 8 / 28, 32 / 196),
    ([[1, 1], [1, 1]], [-1, -1], [-1, -1], 0, 0, 0),                # no cluster at all
])
def test_cut_and_share_by_hand(W, rows, columns, cut, share, of_squares):
    assert normalized_cut(W, rows, columns) == pytest.approx(cut, abs=1e-12)
    assert share_inside(W, rows, columns) == pytest.approx(share, abs=1e-12)
    assert share_inside(W, rows, columns, power=2) == pytest.approx(of_squares, abs=1e-12)


# --- the clustering ---------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "seed"), [(2, 0), (4, 1), (8, 2)])
def test_planted_blocks_are_found_with_paired_rows_and_columns(k, seed):
    W, rows, columns = weights.planted_blocks(128, 96, k, random_state=seed)
    W *= np.random.default_rng(seed).choice([-1.0, 1.0], W.shape)
    found = WeightCoclustering(k, random_state=seed).fit(W)
    assert ari(np.concatenate([rows, columns]), labels_of(found)) >= 0.99
    truth = share_inside(W, rows, columns)
    assert truth == pytest.approx(1 / (1 + 0.3 * (k - 1)), rel=0.05)
    share = share_inside(W, found.row_labels_, found.column_labels_)
    assert share == pytest.approx(truth, rel=0.01)
    assert found.normalized_cut_ == pytest.approx(normalized_cut(W, rows, columns), rel=0.01)


def test_a_neurons_degree_does_not_decide_its_cluster():
    W, rows, columns = planted(64, 48, 3, 0, off_block=0.1)
    rng = np.random.default_rng(1)
    W *= 10 ** rng.uniform(-1.5, 1.5, (64, 1)) * 10 ** rng.uniform(-1.5, 1.5, 48)
    # Moving single neurons repairs this; k-means alone must not need it.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coclustering, "_refine", lambda A, rows, columns, k: (rows, columns))
        found = WeightCoclustering(3, random_state=0).fit(W)
    assert ari(np.concatenate([rows, columns]), labels_of(found)) > 0.95


def test_moving_neurons_makes_the_cut_smaller(monkeypatch):
    faint = [weights.planted_blocks(40, 30, 3, off_block=0.6, random_state=s)[0] for s in range(5)]
    moved = [WeightCoclustering(3, random_state=0).fit(W).normalized_cut_ for W in faint]
    monkeypatch.setattr(coclustering, "_refine", lambda A, rows, columns, k: (rows, columns))
    for W, cut in zip(faint, moved, strict=True):
        assert cut < WeightCoclustering(3, random_state=0).fit(W).normalized_cut_ - 1e-3


def test_fitted_attributes_agree_and_global_random_state_is_unchanged():
    W, _, _ = planted(40, 30, 3, 1)
    state = np.random.get_state()[1].copy()                                      # noqa: NPY002
    model = WeightCoclustering(3, random_state=0).fit(W)
    assert np.array_equal(state, np.random.get_state()[1])                       # noqa: NPY002
    assert np.array_equal(model.rows_.argmax(0), model.row_labels_)
    assert np.array_equal(model.columns_.argmax(0), model.column_labels_)
    assert (model.rows_.sum(0) == 1).all() and (model.columns_.sum(0) == 1).all()
    assert model.normalized_cut_ == normalized_cut(W, model.row_labels_, model.column_labels_)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_dhillon_is_scikit_learns_label_for_label(k):
    for seed in range(4):                   # noise: any difference in a vector or scale would show
        W = noise(40, 30, seed=seed)
        ours = WeightCoclustering(k, "dhillon", random_state=seed).fit(W)
        theirs = SpectralCoclustering(k, svd_method="randomized", random_state=seed).fit(np.abs(W))
        assert np.array_equal(ours.row_labels_, theirs.row_labels_)
        assert np.array_equal(ours.column_labels_, theirs.column_labels_)


@both
def test_dead_neurons_belong_to_no_cluster_and_change_nothing(method):
    W, rows, columns = planted(40, 30, 2, 3)
    dead = np.isin(np.arange(70), [0, 7, 39, 42, 69])               # three rows, two columns
    W[dead[:40]], W[:, dead[40:]] = 0, 0
    whole = WeightCoclustering(2, method, random_state=0).fit(W)
    part = WeightCoclustering(2, method, random_state=0).fit(W[~dead[:40]][:, ~dead[40:]])
    assert (labels_of(whole)[dead] == -1).all()
    assert np.array_equal(labels_of(whole)[~dead], labels_of(part))
    assert whole.normalized_cut_ == pytest.approx(part.normalized_cut_, abs=1e-12)
    assert not whole.rows_[:, dead[:40]].any() and not whole.columns_[:, dead[40:]].any()
    assert ari(np.concatenate([rows, columns])[~dead], labels_of(part)) >= 0.99


@both
@pytest.mark.parametrize("change", ["order", "signs", "scale", "transpose"])
def test_order_signs_scale_and_transposition_change_only_names(method, change):
    W, rows, columns = planted(60, 36, 2, 5)
    rng = np.random.default_rng(0)
    order = rng.permutation(60), rng.permutation(36)
    before = WeightCoclustering(2, method, random_state=0).fit(W)
    other = {"order": W[np.ix_(*order)], "signs": W * rng.choice([-1.0, 1.0], W.shape),
             "scale": W * 2.0**-40, "transpose": W.T}[change]
    after = WeightCoclustering(2, method, random_state=0).fit(other)
    expected = before.row_labels_, before.column_labels_
    if change == "order":
        expected = tuple(labels[chosen] for labels, chosen in zip(expected, order, strict=True))
    assert ari(np.concatenate(expected[::-1] if change == "transpose" else expected),
               labels_of(after)) == 1
    assert after.normalized_cut_ == pytest.approx(before.normalized_cut_, rel=1e-12)
    assert ari(np.concatenate([rows, columns]), labels_of(before)) == 1


@pytest.mark.parametrize("shape", [(50, 50), (64, 40), (40, 64)])
def test_the_truncated_decomposition_is_the_full_one(shape, monkeypatch):
    W = planted(*shape, 4, 0)[0]
    A = weights.degree_scale(np.abs(W))
    full = coclustering.singular_vectors(A, 4, np.random.RandomState(0))
    values = np.linalg.svd(A, compute_uv=False)[:4]
    np.testing.assert_allclose(A @ full[1], full[0] * values, atol=1e-12)
    labels = labels_of(WeightCoclustering(4, random_state=0).fit(W))
    monkeypatch.setattr(coclustering, "FULL_SVD", 8)
    asked, svds = [], coclustering.svds
    monkeypatch.setattr(coclustering, "svds", lambda *a, **o: asked.append(o["k"]) or svds(*a, **o))
    truncated = coclustering.singular_vectors(A, 4, np.random.RandomState(1))
    assert asked == [4]
    for a, b in zip(full, truncated, strict=True):
        assert a.shape == b.shape and a.shape[1] == 4
        np.testing.assert_allclose(a, b, atol=1e-8)        # in order, and of one sign
    assert ari(labels, labels_of(WeightCoclustering(4, random_state=0).fit(W))) == 1


@both
def test_one_cluster_holds_everything(method):
    model = WeightCoclustering(1, method, random_state=0).fit(noise(5, 4))
    assert not labels_of(model).any()
    assert model.normalized_cut_ == pytest.approx(0, abs=1e-12)


@parametrize_with_checks([WeightCoclustering(random_state=0)])
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
    assert np.mean(shuffled[W != 0] == W[W != 0]) < 0.2 and np.array_equal(W, copy)
    assert np.array_equal(shuffled, weights.shuffle(W, 0, keep_zeros=keep_zeros))
    assert not np.array_equal(shuffled, weights.shuffle(W, 1, keep_zeros=keep_zeros))


def test_a_shuffle_breaks_up_rows_and_columns():
    # Permuting whole rows, or within them, would keep a row's values together.
    W = np.repeat(np.arange(1.0, 31.0), 30).reshape(30, 30)
    for matrix in (W, W.T):
        shuffled = weights.shuffle(matrix, 0)
        assert min(len(set(line)) for line in [*shuffled, *shuffled.T]) > 10


def test_z_and_p_by_hand():
    null = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    test = NullTest(2.0, null)
    assert test.z == pytest.approx((2 - 3) / np.sqrt(2.5), abs=1e-12)
    assert test.smallest_p == 1 / 6
    # 2 of 5, and the network's own, are at most 2.
    for value, larger, p in ((2, False, 3), (0, False, 1), (9, False, 6), (2, True, 5),
                             (9, True, 1)):
        assert NullTest(value, null, larger).p == p / 6


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_ties_and_nulls_without_a_spread():
    value = 0.1 + 0.2                                                         # 0.30000000000000004
    for larger, one, null, p in ((False, value, 0.3, 3), (False, 0.3, value, 3),
                                 (True, value, 0.3, 3), (True, 0.3 + 1e-6, value, 2)):
        assert NullTest(one, np.array([null, 0.5, 0.1]), larger).p == p / 4
    flat = np.array([0.3, value, 0.3])
    assert [NullTest(v, flat).z for v in (0.2, 0.3, 0.4)] == [-np.inf, 0, np.inf]
    test = weights.null_test(np.ones((6, 6)), n_shuffles=5, random_state=0)
    assert (test.z, test.p) == (0, 1)


def test_p_is_uniform_on_noise(monkeypatch):
    # p takes 1/10 … 10/10 with equal chance; less a uniform number of [0, 1/10) it is uniform on
    # (0, 1]. One start of k-means, for speed: network and shuffles have as many.
    monkeypatch.setattr(coclustering, "WeightCoclustering", partial(WeightCoclustering, n_init=1))
    rng = np.random.default_rng(0)
    values = []
    for seed in range(80):
        W = rng.standard_normal((9, 8))
        values.append(weights.null_test(W, n_shuffles=9, random_state=seed).p - rng.random() / 10)
    assert kstest(values, "uniform").pvalue > 0.01


def test_planted_blocks_stand_out_of_the_null_by_every_statistic():
    W, _, _ = planted(32, 24, 2, 0)
    tests = weights.null_tests(W, 2, n_shuffles=9, random_state=0)
    model = WeightCoclustering(2, random_state=0).fit(W)
    labels = model.row_labels_, model.column_labels_
    assert {name: (test.value, test.larger) for name, test in tests.items()} == {
        "cut": (normalized_cut(W, *labels), False), "share": (share_inside(W, *labels), True),
        "share_of_squares": (share_inside(W, *labels, power=2), True)}
    assert all(test.p == test.smallest_p == 0.1 and abs(test.z) > 5 for test in tests.values())
    again, other = (weights.null_test(W, 2, n_shuffles=9, random_state=s) for s in (0, 1))
    assert np.array_equal(again.null, tests["cut"].null)
    assert not np.array_equal(again.null, other.null)


def test_the_network_and_its_shuffles_are_clustered_alike(monkeypatch):
    seen = []
    monkeypatch.setattr(coclustering, "share_inside",
                        lambda *clustered, power=1: seen.append(clustered) or len(seen))
    W, _, _ = planted(20, 16, 2, 0)
    tests = weights.null_tests(W, 3, n_shuffles=4, random_state=0)
    assert len(seen) == 10 and np.array_equal(seen[0][0], W)
    for matrix, rows, columns in seen:
        expected = WeightCoclustering(3, random_state=0).fit(matrix)
        assert np.array_equal(rows, expected.row_labels_)
        assert np.array_equal(columns, expected.column_labels_)
    assert [tests["share"].value, *tests["share"].null] == [1, 3, 5, 7, 9]


def test_dead_neurons_are_left_out_of_the_null():
    W = noise(7, 9, seed=4)
    test = weights.null_test(W, 2, n_shuffles=3, random_state=0)
    padded = np.insert(np.insert(W, [0, 3, 3], 0.0, axis=1), 1, 0.0, axis=0)
    found = weights.null_test(padded, 2, n_shuffles=3, random_state=0)
    assert found.value == pytest.approx(test.value, abs=1e-9)
    np.testing.assert_allclose(found.null, test.null, atol=1e-9)


# --- bad input --------------------------------------------------------------------------------

W_GOOD = np.arange(1.0, 13.0).reshape(4, 3)
USES = {
    "fit": lambda W: WeightCoclustering().fit(W),
    "null_test": lambda W: weights.null_test(W, n_shuffles=2),
    "shuffle": weights.shuffle,
    "normalized_cut": lambda W: normalized_cut(W, [0, 0, 0, 1], [0, 0, 1]),
    "share_inside": lambda W: share_inside(W, [0, 0, 0, 1], [0, 0, 1]),
    "separate_kmeans": weights.separate_kmeans,
}


@pytest.mark.parametrize(("bad", "says"), [
    (np.where(W_GOOD == 5, np.nan, W_GOOD), "weights contains NaN"),
    (np.where(W_GOOD > 10, np.inf, W_GOOD), "weights contains infinity"),
    (np.zeros((4, 3)), "all weights are 0"),
    (np.ones((4, 3, 2)), "array with dim 3"),
    (np.ones(4), "Expected 2D array"),
], ids=["NaN", "inf", "zeros", "3-d", "1-d"])
def test_input_that_is_no_matrix_of_weights_is_refused(bad, says):
    for use in USES.values():
        with pytest.raises(ValueError, match=says):
            use(bad)


@pytest.mark.parametrize(("model", "W", "says"), [
    (WeightCoclustering(4), W_GOOD, "n_clusters=4 .* n_features = 3 live columns"),
    (WeightCoclustering(4), W_GOOD.T, "n_clusters=4 .* n_samples = 3 live rows"),
    (WeightCoclustering(3), W_GOOD * [1, 0, 1], "n_clusters=3 .* 2 live columns"),
    (WeightCoclustering(0), W_GOOD, "whole number of at least 1, not 0"),
    (WeightCoclustering(method="jont"), W_GOOD, "no method 'jont'; did you mean 'joint'"),
])
def test_settings_out_of_range_are_refused(model, W, says):
    with pytest.raises(InputError, match=says):
        model.fit(W)


@pytest.mark.parametrize(("rows", "columns"), [([0, 1], [0, 0, 1]), ([0, 0, 1, 1], [0, 1])])
def test_labels_that_do_not_fit_the_matrix_are_refused(rows, columns):
    for score in (normalized_cut, share_inside):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            score(W_GOOD, rows, columns)


@pytest.mark.parametrize("n_shuffles", [1, -3, 2.5])
def test_a_null_needs_a_spread(n_shuffles):
    for test, data in ((weights.null_test, W_GOOD), (weights.network_test, [W_GOOD])):
        with pytest.raises(InputError, match=rf"at least 2, not {n_shuffles}"):
            test(data, n_shuffles=n_shuffles)


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


def test_parts_that_need_no_network_need_no_torch():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True,
                          check=False)
    assert done.stdout == "so far\n", done.stderr
    assert done.stderr.splitlines()[-1] == "ImportError: torch is not here"
