"""What gates tell, in numbers: each measure, corrected and as released, against a literal loop."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from clusterbook import metrics
from clusterbook.errors import InputError
from clusterbook.idc import (
    cluster_features,
    diversity,
    faithfulness,
    generalizability,
    greedy_accuracy,
    open_features,
    selection_f1,
    stability,
    uniqueness,
)


def sparse_gates(n=60, d=12, share=0.4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, d)) * (rng.random((n, d)) < share)


# --- open features ------------------------------------------------------------------------------


def test_open_features_are_counted_one_by_one():
    gates = sparse_gates()
    literal = np.mean([sum(1 for gate in sample if gate > 0) for sample in gates])
    assert open_features(gates) == pytest.approx(literal)


@pytest.mark.parametrize("batch_size", [7, 10, 60, 100])
def test_the_originals_number_is_a_median_of_sums_and_no_count(batch_size):
    gates, medians = sparse_gates(), []
    for start in range(0, 60, batch_size):
        sums = sorted(sum(sample) for sample in gates[start:start + batch_size])
        medians.append(sums[(len(sums) - 1) // 2])          # torch takes the lower one
    found = open_features(gates, original=True, batch_size=batch_size)
    assert found == pytest.approx(sum(medians) / len(medians))
    assert found < open_features(gates)
    half = np.full((20, 784), 0.5)
    assert open_features(half, original=True) == 392 and open_features(half) == 784


# --- diversity ----------------------------------------------------------------------------------


def medians(gates, labels, k):
    return set() if k not in labels else {j for j in range(gates.shape[1])
                                          if np.median(gates[labels == k, j]) > 0}


def jaccard(a, b):
    return len(a & b) / len(a | b) if a | b else 0.0


def literal_diversity(gates, labels, clusters):
    pairs = list(itertools.combinations([medians(gates, labels, k) for k in clusters], 2))
    return 1 - sum(jaccard(a, b) for a, b in pairs) / len(pairs)


def literal_released(gates, labels, K):
    total = 0
    for k in range(K):
        for j in range(K):
            total += jaccard(medians(gates, labels, k), medians(gates, labels, j)) / (K * (K - 1))
    return 1 - total


@pytest.mark.parametrize("K", [2, 3, 6])
def test_diversity_is_the_literal_one_in_both_forms(K):
    gates, labels = sparse_gates(share=0.6), np.arange(60) % K
    found = diversity(gates, labels)
    assert found == pytest.approx(literal_diversity(gates, labels, range(K)))
    assert diversity(gates, labels, original=True) == pytest.approx(
        literal_released(gates, labels, K))
    assert 0 < found < 1
    clusters, selected = cluster_features(gates, labels)
    assert clusters.tolist() == list(range(K))
    assert [set(np.flatnonzero(row)) for row in selected] == [medians(gates, labels, k)
                                                              for k in range(K)]


def test_diversity_runs_from_0_to_1_and_the_released_form_does_not():
    apart, alike = np.eye(10), np.ones((10, 10))
    labels = np.arange(10)
    assert diversity(apart, labels) == 1 and diversity(alike, labels) == 0
    assert diversity(apart, labels, original=True) == pytest.approx(0.8889, abs=1e-4)
    assert diversity(alike, labels, original=True) == pytest.approx(-0.1111, abs=1e-4)
    assert diversity(np.eye(2), [0, 1], original=True) == 0
    assert diversity(np.eye(3), [0, 1, 2], original=True) == pytest.approx(0.5)


@pytest.mark.parametrize("K", [2, 3, 10])
def test_the_released_diversity_can_only_exceed_its_maximum_where_a_cluster_has_no_feature(K):
    rng, labels = np.random.default_rng(0), np.arange(K)
    for share in (0.02, 0.1, 0.5):
        for _ in range(50):
            gates = (rng.random((K, 40)) < share).astype(float)
            gates[np.arange(K), rng.integers(0, 40, K)] = 1     # no cluster without any
            assert diversity(gates, labels, original=True) <= 1 - 1 / (K - 1) + 1e-12
    empty = np.eye(K, 40)
    empty[0] = 0
    assert diversity(empty, labels, original=True) > 1 - 1 / (K - 1)
    assert diversity(empty, labels, original=True) == pytest.approx(
        literal_released(empty, labels, K))


def test_the_papers_formula_is_twice_diversity_minus_1():
    gates, labels = sparse_gates(share=0.6), np.arange(60) % 4
    sets = [medians(gates, labels, k) for k in range(4)]
    ordered = sum(jaccard(sets[i], sets[j]) for i in range(4) for j in range(4) if i != j)
    assert 2 * diversity(gates, labels) - 1 == pytest.approx(1 - ordered / (4 * 3 / 2))


def test_clusters_that_are_not_there_count_in_the_released_form_alone():
    gates, labels = np.eye(3), np.array([0, 2, 4])
    assert diversity(gates, labels) == 1
    assert diversity(gates, labels, original=True, n_clusters=5) == pytest.approx(
        literal_released(gates, labels, 5))
    with pytest.raises(InputError, match="from 0 to 3"):
        diversity(gates, labels, original=True, n_clusters=4)
    with pytest.raises(InputError, match="needs at least 2"):
        diversity(gates, [0, 0, 0])
    with pytest.raises(InputError, match="clusters 0, 2 have no open feature"):
        diversity(gates * [[0], [0], [1]], labels)
    with pytest.raises(InputError, match="one label per sample"):
        diversity(gates, [0, 1])


# --- uniqueness and stability -------------------------------------------------------------------


def literal_ratios(X, gates, k):
    """The released loops, over as many samples as there are: k counts the sample itself."""
    for i in range(len(X)):
        distances = np.array([np.linalg.norm(X[i] - x) for x in X])
        near = np.argsort(distances, kind="stable")[:k]
        yield [np.linalg.norm(gates[near[0]] - gates[j]) / distances[j] for j in near[1:]]


@pytest.mark.parametrize("neighbors", [1, 2, 5])
@pytest.mark.parametrize("original", [False, True])
def test_uniqueness_and_stability_are_the_literal_ones(neighbors, original):
    X = np.random.default_rng(1).standard_normal((60, 5))
    gates = sparse_gates()
    least = np.mean([min(r) for r in literal_ratios(X, gates, neighbors + 1)])
    most = np.mean([max(r) for r in literal_ratios(X, gates, neighbors + 1)])
    options = {"n_neighbors": neighbors, "original": original}
    assert uniqueness(X, gates, **options) == pytest.approx(least)
    assert stability(X, gates, **options) == pytest.approx(most)
    assert (least == most) == (neighbors == 1)


def test_equal_samples_have_no_ratio_unless_one_stands_for_all():
    X = np.array([[0.0], [0.0], [1.0], [3.0], [3.0]])
    gates = np.array([[0.0], [0.0], [1.0], [0.0], [0.0]])
    with np.errstate(invalid="ignore"):
        assert math.isnan(uniqueness(X, gates, original=True))
    alone = [1.0, 1.0, 0.5]                                 # 0 and 1, 1 and 0, 3 and 1
    assert uniqueness(X, gates) == pytest.approx(np.mean([alone[i] for i in (0, 0, 1, 2, 2)]))
    with pytest.raises(InputError, match="below the number of distinct samples, 3, not 3"):
        uniqueness(X, gates, n_neighbors=3)


def test_very_close_samples_are_not_taken_for_the_sample_itself():
    X = np.array([[1e6, 0.0], [1e6, 1e-6], [1e6, 1.0], [0.0, 0.0]])
    gates = np.array([[0.0], [1.0], [1.0], [0.0]])
    assert uniqueness(X, gates) == pytest.approx(np.mean([1e6, 1e6, 0.0, 0.0]), rel=1e-3)


def test_uniqueness_has_the_unit_of_one_over_the_datas():
    X, gates = np.random.default_rng(1).standard_normal((60, 5)), sparse_gates()
    assert uniqueness(10 * X, gates) == pytest.approx(uniqueness(X, gates) / 10)
    with pytest.raises(InputError, match="one row per sample"):
        uniqueness(X[:5], gates)


@pytest.mark.parametrize("n", [7, 100, 10_050])
def test_any_number_of_samples_is_scored(n):
    rng = np.random.default_rng(0)
    X, gates = rng.standard_normal((n, 3)), rng.random((n, 3))
    assert uniqueness(X, gates, n_neighbors=2) < stability(X, gates, n_neighbors=2)


# --- faithfulness -------------------------------------------------------------------------------


def nearest_corner(X):
    """A clustering that looks at the first two features alone."""
    return 2 * (X[:, 0] > 0.5).astype(int) + (X[:, 1] > 0.8)


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    X = rng.random((90, 6))
    shares = np.array([0.9, 0.7, 0.5, 0.3, 0.1, 0.0])
    gates = (rng.random((90, 6)) < shares) * rng.random((90, 6))
    return X, gates, rng.integers(0, 4, 90)


@pytest.mark.parametrize("labeled", [False, True])
def test_faithfulness_is_the_literal_one(table, labeled):
    X, gates, y = table
    target, drops = y if labeled else nearest_corner(X), []
    for j in range(6):
        without = X.copy()
        without[:, j] = 0
        drops.append(metrics.accuracy(target, nearest_corner(X))
                     - metrics.accuracy(target, nearest_corner(without)))
    expected = np.corrcoef([np.mean(gates[:, j] > 0) for j in range(6)], drops)[0, 1]
    assert faithfulness(nearest_corner, X, gates, y if labeled else None) == pytest.approx(expected)


def test_the_released_faithfulness_is_the_literal_one(table):
    X, gates, y = table
    counts = (gates > 0).sum(0)
    order = np.where(counts > 0)[0]
    order = order[np.argsort(-counts[counts > 0])]
    mask, left = np.ones(6), []
    for j in order:
        mask[j] = 0
        left.append(metrics.accuracy(y, nearest_corner(X * mask)))
    expected = np.corrcoef(counts[order], left)[0, 1]
    assert faithfulness(nearest_corner, X, gates, y, original=True) == pytest.approx(expected)
    assert len(order) == 5                                  # what no gate selects is never removed


def test_the_released_form_praises_features_that_do_not_matter():
    """There both series fall, whatever is removed first: a wrong order scores above the right."""
    X = np.random.default_rng(0).standard_normal((400, 6))
    X[:, 0] *= 3

    def sign(X):
        return (X @ [3, 2, 1, 0.3, 0.2, 0.1] > 0).astype(int)

    shares = np.linspace(0.1, 1, 6)
    right, wrong = (np.tile(np.arange(400)[:, None] < 400 * s, 1).astype(float)
                    for s in (shares[::-1], shares))
    assert faithfulness(sign, X, right) > 0.7 and faithfulness(sign, X, wrong) < -0.7
    released = [faithfulness(sign, X, gates, original=True) for gates in (right, wrong)]
    assert released[1] > 0.6 and released[1] > released[0] > 0


def test_a_constant_correlates_with_nothing(table):
    X, gates, _ = table
    with pytest.raises(InputError, match="importance of the features is the same throughout"):
        faithfulness(nearest_corner, X, np.ones_like(X))
    with pytest.raises(InputError, match="the accuracy is the same throughout"):
        faithfulness(lambda X: np.arange(len(X)) % 2, X, gates)
    with pytest.raises(InputError, match="they must be equal"):
        faithfulness(nearest_corner, X, gates[:, :3])


def test_predictions_are_asked_for_in_large_portions(table):
    X, gates, _ = table
    calls = []

    def counting(X):
        calls.append(len(X))
        return nearest_corner(X)

    expected = faithfulness(nearest_corner, X, gates)
    assert faithfulness(counting, X, gates) == expected
    assert len(calls) == 3 and sum(calls) == 90 * 8         # as is, twice; each of 6 removed


# --- generalizability ---------------------------------------------------------------------------


def test_generalizability_is_the_accuracy_of_a_linear_classifier_on_gated_features():
    from sklearn.svm import LinearSVC

    X, y = make_blobs(200, 6, centers=3, cluster_std=6.0, random_state=0)
    gates = sparse_gates(200, 6, 0.5)
    model = LinearSVC(random_state=0, max_iter=10_000).fit(X[:100] * gates[:100], y[:100])
    right = sum(model.predict((X[i] * gates[i])[None])[0] == y[i] for i in range(100, 200))
    found = generalizability(X[:100], gates[:100], y[:100], X[100:], gates[100:], y[100:])
    assert found == pytest.approx(right / 100) and 0.3 < found < 1


def test_gates_carry_the_cluster_even_where_features_do_not():
    labels = np.arange(60) % 3
    X, gates = np.ones((60, 3)), np.eye(3)[labels]
    parts = [(X[half], gates[half], labels[half]) for half in (slice(30), slice(30, 60))]
    assert generalizability(*parts[0], *parts[1]) == 1
    with pytest.raises(InputError, match="nothing to predict"):
        generalizability(X, gates, np.zeros(60), X, gates, labels)
    with pytest.raises(InputError, match="must be equal"):
        generalizability(X, gates[:, :2], labels, X, gates, labels)


# --- matching -----------------------------------------------------------------------------------


def literal_greedy(y_true, y_pred):
    clusters, classes, right = set(y_pred), set(y_true), 0
    while clusters and classes:
        count, k, c = max((int(((y_pred == k) & (y_true == c)).sum()), k, c)
                          for k in clusters for c in classes)
        clusters, classes, right = clusters - {k}, classes - {c}, right + count
    return right / len(y_true)


@pytest.mark.parametrize("seed", range(5))
def test_greedy_accuracy_is_the_literal_one_and_never_above_the_best(seed):
    rng = np.random.default_rng(seed)
    y_true, y_pred = rng.integers(0, 5, 997), rng.integers(0, 7, 997)
    found = greedy_accuracy(y_true, y_pred)
    assert found == pytest.approx(literal_greedy(y_true, y_pred))
    assert found <= metrics.accuracy(y_true, y_pred)


def test_the_constructed_example_of_greedy_matching():
    y_true = np.repeat([0, 0, 1], [338, 331, 331])
    y_pred = np.repeat([0, 1, 0], [338, 331, 331])
    assert greedy_accuracy(y_true, y_pred) == pytest.approx(0.338)
    assert metrics.accuracy(y_true, y_pred) == pytest.approx(0.662)


# --- what is given ------------------------------------------------------------------------------


@pytest.mark.parametrize(("gates", "says"), [
    (np.ones(4), r"shape \(4,\); expected"), (np.ones((0, 3)), r"shape \(0, 3\)"),
    (np.array([[np.nan, 1.0]]), "finite numbers"), (np.array([["a", "b"]]), "finite numbers")])
def test_what_are_no_gates_is_refused(gates, says):
    for measure in (open_features, lambda gates: cluster_features(gates, np.zeros(len(gates)))):
        with pytest.raises(InputError, match=says):
            measure(gates)


# --- selections against what is known -----------------------------------------------------------


def test_the_f1_of_a_selection_is_the_literal_one():
    rng = np.random.default_rng(0)
    selected, informative = rng.random((30, 8)) < 0.4, rng.random((30, 8)) < 0.3
    informative[:, 0] = True
    values = []
    for chosen, right in zip(selected, informative, strict=True):
        precision = (chosen & right).sum() / max(chosen.sum(), 1)
        recall = (chosen & right).sum() / right.sum()
        values.append(2 * precision * recall / (precision + recall) if precision + recall else 0)
    assert selection_f1(selected, informative) == pytest.approx(np.mean(values))
    assert selection_f1(informative, informative) == 1
    with pytest.raises(InputError, match="one row per sample or cluster"):
        selection_f1(selected[:2], informative)
    with pytest.raises(InputError, match="at least one informative"):
        selection_f1([[1, 0]], [[0, 0]])
