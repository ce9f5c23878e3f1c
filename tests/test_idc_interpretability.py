"""Measures of gates, corrected and as released, each against a literal loop."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.svm import LinearSVC

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
    uniqueness,
)


def sparse_gates(n=60, d=12, share=0.4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, d)) * (rng.random((n, d)) < share)


def test_open_features_are_counted_and_as_released_a_median_of_sums():
    gates, half = sparse_gates(), np.full((20, 784), 0.5)
    literal = np.mean([sum(1 for gate in sample if gate > 0) for sample in gates])
    assert open_features(gates) == pytest.approx(literal)
    for batch_size in (7, 60, 100):
        medians = []
        for start in range(0, 60, batch_size):
            sums = sorted(sum(sample) for sample in gates[start:start + batch_size])
            medians.append(sums[(len(sums) - 1) // 2])      # torch takes the lower one
        found = open_features(gates, original=True, batch_size=batch_size)
        assert found == pytest.approx(sum(medians) / len(medians))
    assert open_features(half, original=True) == 392 and open_features(half) == 784


def medians(gates, labels, K):
    """The features that are open in the median of each of the clusters 0 to K - 1."""
    return [{j for j in range(gates.shape[1])
             if k in labels and np.median(gates[labels == k, j]) > 0} for k in range(K)]


def jaccard(a, b):
    return len(a & b) / len(a | b) if a | b else 0.0


def literal_released(gates, labels, K):
    sets = medians(gates, labels, K)
    return 1 - sum(jaccard(a, b) for a in sets for b in sets) / (K * (K - 1))


@pytest.mark.parametrize("K", [2, 3, 6])
def test_diversity_is_the_literal_one_in_both_forms(K):
    gates, labels = sparse_gates(share=0.6), np.arange(60) % K
    found, sets = diversity(gates, labels), medians(gates, labels, K)
    pairs = [jaccard(a, b) for a, b in itertools.combinations(sets, 2)]
    assert found == pytest.approx(1 - np.mean(pairs)) and 0 < found < 1
    assert diversity(gates, labels, original=True) == pytest.approx(
        literal_released(gates, labels, K))
    clusters, selected = cluster_features(gates, labels)
    assert clusters.tolist() == list(range(K))
    assert [set(np.flatnonzero(row)) for row in selected] == sets


def test_the_released_diversity_exceeds_its_maximum_only_with_a_featureless_cluster():
    K, rng, labels = 10, np.random.default_rng(0), np.arange(10)
    for gates, corrected, released in ((np.eye(K), 1, 0.8889), (np.ones((K, K)), 0, -0.1111)):
        assert diversity(gates, labels) == corrected
        assert diversity(gates, labels, original=True) == pytest.approx(released, abs=1e-4)
    for share in np.repeat([0.02, 0.1, 0.5], 10):
        gates = (rng.random((K, 40)) < share).astype(float)
        gates[np.arange(K), rng.integers(0, 40, K)] = 1     # no cluster without any
        assert diversity(gates, labels, original=True) <= 1 - 1 / (K - 1) + 1e-12
    empty = np.eye(K, 40)
    empty[0] = 0
    found = diversity(empty, labels, original=True)
    assert found > 1 - 1 / (K - 1) and found == pytest.approx(literal_released(empty, labels, K))
    gates, labels = np.eye(3), np.array([0, 2, 4])          # clusters that do not occur count here
    assert diversity(gates, labels) == 1
    assert diversity(gates, labels, original=True, n_clusters=5) == pytest.approx(
        literal_released(gates, labels, 5))


@pytest.mark.parametrize("original", [False, True])
def test_uniqueness_is_the_literal_one(original):
    X, gates, ratios = np.random.default_rng(1).standard_normal((60, 5)), sparse_gates(), []
    for i in range(60):
        apart = np.array([np.linalg.norm(X[i] - x) for x in X])
        near = np.argsort(apart, kind="stable")[:2]
        ratios.append(np.linalg.norm(gates[near[0]] - gates[near[1]]) / apart[near[1]])
    found = uniqueness(X, gates, original=original)
    assert found == pytest.approx(np.mean(ratios))
    assert uniqueness(10 * X, gates, original=original) == pytest.approx(found / 10)


def test_equal_samples_have_no_ratio_unless_one_stands_for_all():
    X = np.array([[0.0], [0.0], [1.0], [3.0], [3.0]])
    gates = np.array([[0.0], [0.0], [1.0], [0.0], [0.0]])
    with np.errstate(invalid="ignore"):
        assert math.isnan(uniqueness(X, gates, original=True))
    alone = [1.0, 1.0, 0.5]                                 # 0 and 1, 1 and 0, 3 and 1
    assert uniqueness(X, gates) == pytest.approx(np.mean([alone[i] for i in (0, 0, 1, 2, 2)]))


def test_very_close_samples_are_not_taken_for_the_sample_itself():
    X = np.array([[1e6, 0.0], [1e6, 1e-6], [1e6, 1.0], [0.0, 0.0]])
    gates = np.array([[0.0], [1.0], [1.0], [0.0]])
    assert uniqueness(X, gates) == pytest.approx(np.mean([1e6, 1e6, 0.0, 0.0]), rel=1e-3)


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


def test_generalizability_is_the_accuracy_of_a_linear_classifier_on_gated_features():
    X, y = make_blobs(200, 6, centers=3, cluster_std=6.0, random_state=0)
    gates = sparse_gates(200, 6, 0.5)
    model = LinearSVC(random_state=0, max_iter=10_000).fit(X[:100] * gates[:100], y[:100])
    right = sum(model.predict((X[i] * gates[i])[None])[0] == y[i] for i in range(100, 200))
    found = generalizability(X[:100], gates[:100], y[:100], X[100:], gates[100:], y[100:])
    assert found == pytest.approx(right / 100) and 0.3 < found < 1


def literal_greedy(y_true, y_pred):
    clusters, classes, right = set(y_pred), set(y_true), 0
    while clusters and classes:
        count, k, c = max((int(((y_pred == k) & (y_true == c)).sum()), k, c)
                          for k in clusters for c in classes)
        clusters, classes, right = clusters - {k}, classes - {c}, right + count
    return right / len(y_true)


def test_greedy_accuracy_is_the_literal_one_and_never_above_the_best():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        y_true, y_pred = rng.integers(0, 5, 497), rng.integers(0, 7, 497)
        found = greedy_accuracy(y_true, y_pred)
        assert found == pytest.approx(literal_greedy(y_true, y_pred))
        assert found <= metrics.accuracy(y_true, y_pred)


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


G, L = np.eye(3), np.array([0, 2, 4])


@pytest.mark.parametrize(("call", "says"), [
    *((lambda gates=gates: open_features(gates), says) for gates, says in (
        (np.ones(4), r"must be numbers of shape .* \(4,\)"), (np.ones((0, 3)), r"\(0, 3\)"),
        (np.array([[np.nan, 1.0]]), "finite"), (np.array([["a", "b"]]), "must be numbers"))),
    (lambda: diversity(G, [0, 1]), "gates of 3 samples, but 2 samples or labels"),
    (lambda: diversity(G, [0, 0, 0]), "needs at least 2"),
    (lambda: diversity(G * [[0], [0], [1]], L), "two clusters have no open feature"),
    (lambda: uniqueness(G[:2], G), "gates of 3 samples, but 2"),
    (lambda: uniqueness(np.ones((3, 2)), G), "at least 2 distinct samples"),
    (lambda: faithfulness(lambda X: X[:, 0], G, np.ones((3, 3))), "is the same for all features"),
    (lambda: faithfulness(lambda X: L, G, np.tril(G + 1)), "is the same for all features"),
    (lambda: generalizability(G, G, [0, 0, 0], G, G, L), "nothing to predict"),
    (lambda: selection_f1(G[:2], G), "must have the same shape"),
    (lambda: selection_f1([[1, 0]], [[0, 0]]), "an informative feature in each row"),
])
def test_undefined_measures_are_refused(call, says):
    with pytest.raises(InputError, match=says):
        call()
