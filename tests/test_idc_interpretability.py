"""Measures of gates, corrected and as released, each against a literal loop."""

import itertools
import math

import numpy as np
import pytest
import torch

from clusterbook import IDC, metrics
from clusterbook.checks import InputError
from clusterbook.idc import (
    cluster_features,
    diversity,
    faithfulness,
    generalizability,
    greedy_accuracy,
    integrated_gradients,
    open_features,
    selection_f1,
    uniqueness,
)

RNG = np.random.default_rng(3)
X, Y = RNG.random((60, 6)), RNG.integers(0, 4, 60)
GATES = RNG.random((60, 6)) * (RNG.random((60, 6)) < [0.9, 0.7, 0.5, 0.3, 0.1, 0.0])
WIDE = RNG.random((60, 24)) + 2 * (np.arange(24) % 4 == Y[:, None])


def nearest_corner(X):
    """A clustering that looks at the first two features alone."""
    # By a sum, so that a feature at its mean is not one at 0: clusters are matched anew.
    return 2 * (X[:, 0] + X[:, 1] > 0.7).astype(int) + (X[:, 1] > 0.8)


@pytest.mark.parametrize("batch_size", [7, 100])
def test_open_features_are_counted_and_as_released_a_median_of_sums(batch_size):
    lower = []                                              # torch takes the lower median
    for start in range(0, 60, batch_size):
        sums = sorted(sum(sample) for sample in GATES[start:start + batch_size])
        lower.append(sums[(len(sums) - 1) // 2])
    found = open_features(GATES, original=True, batch_size=batch_size)
    assert found == pytest.approx(sum(lower) / len(lower))
    literal = np.mean([sum(1 for gate in sample if gate > 0) for sample in GATES])
    assert open_features(GATES) == pytest.approx(literal)


def medians(gates, labels, K):
    """The features that are open in the median of each of the clusters 0 to K - 1."""
    return [{j for j in range(gates.shape[1])
             if k in labels and np.median(gates[labels == k, j]) > 0} for k in range(K)]


def literal_diversity(gates, labels, K, original):
    def jaccard(a, b):
        return len(a & b) / len(a | b) if a | b else 0.0

    sets = medians(gates, labels, K)
    if original:
        return 1 - sum(jaccard(a, b) for a in sets for b in sets) / (K * (K - 1))
    return 1 - np.mean([jaccard(a, b) for a, b in itertools.combinations(sets, 2)])


def test_diversity_is_the_literal_one_in_both_forms():
    empty = np.eye(10, 40)
    empty[0] = 0
    for original, gates, labels, K in (
            (0, GATES, np.arange(60) % 3, 3), (1, GATES, np.arange(60) % 6, 6),
            (1, empty, np.arange(10), 10), (1, np.eye(3), np.array([0, 2, 4]), 5)):
        found = diversity(gates, labels, original=original, n_clusters=K)
        assert found == pytest.approx(literal_diversity(gates, labels, K, original))
    clusters, selected = cluster_features(GATES, np.arange(60) % 6)
    assert clusters.tolist() == list(range(6))
    assert [set(np.flatnonzero(row)) for row in selected] == medians(GATES, np.arange(60) % 6, 6)


@pytest.mark.parametrize("original", [False, True])
def test_uniqueness_is_the_literal_one(original):
    ratios = []
    for i in range(60):
        apart = np.array([np.linalg.norm(X[i] - x) for x in X])
        near = np.argsort(apart, kind="stable")[:2]
        ratios.append(np.linalg.norm(GATES[near[0]] - GATES[near[1]]) / apart[near[1]])
    assert uniqueness(X, GATES, original=original) == pytest.approx(np.mean(ratios))


def test_equal_samples_have_no_ratio_unless_one_stands_for_all():
    X = np.array([[0.0], [0.0], [1.0], [3.0], [3.0]])
    gates = np.array([[0.0], [0.0], [1.0], [0.0], [0.0]])
    assert math.isnan(uniqueness(X, gates, original=True))
    alone = [1.0, 1.0, 0.5]                                 # 0 and 1, 1 and 0, 3 and 1
    assert uniqueness(X, gates) == pytest.approx(np.mean([alone[i] for i in (0, 0, 1, 2, 2)]))
    X = np.array([[1e6, 0.0], [1e6, 1e-6], [1e6, 1.0], [0.0, 0.0]])     # close, but not equal
    gates = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    assert uniqueness(X, gates) == pytest.approx(np.mean([1e6, 1e6, 0.0, 0.0]), rel=1e-3)


@pytest.mark.parametrize("y", [None, Y], ids=["clusters", "classes"])
def test_faithfulness_is_the_literal_one(y):
    target, mask, falling = nearest_corner(X) if y is None else y, np.ones(6), []
    shares = (GATES > 0).mean(0)
    left = [metrics.accuracy(target, nearest_corner(X * (np.arange(6) != j))) for j in range(6)]
    drops = metrics.accuracy(target, nearest_corner(X)) - np.array(left)
    found = faithfulness(nearest_corner, X, GATES, y)
    assert found == pytest.approx(np.corrcoef(shares, drops)[0, 1])
    order = sorted(range(5), key=lambda j: -shares[j])      # no gate selects the last one
    for j in order:
        mask[j] = 0                                         # and it stays removed
        falling.append(metrics.accuracy(target, nearest_corner(X * mask)))
    found = faithfulness(nearest_corner, X, GATES, y, original=True)
    assert found == pytest.approx(np.corrcoef(shares[order], falling)[0, 1])


def test_generalizability_by_hand():
    twos, opened = np.full((4, 1), 2.0), np.array([[0], [0], [1], [1]])
    # Only the gates tell the training samples apart, and the first two test samples.
    assert generalizability(twos, opened, [0, 0, 1, 1], [[2], [2], [0]], [[1], [0], [1]],
                            [1, 0, 0]) == 1


def literal_greedy(y_true, y_pred):
    clusters, classes, right = set(y_pred), set(y_true), 0
    while clusters and classes:
        count, k, c = max((int(((y_pred == k) & (y_true == c)).sum()), k, c)
                          for k in clusters for c in classes)
        clusters, classes, right = clusters - {k}, classes - {c}, right + count
    return right / len(y_true)


@pytest.mark.parametrize("seed", range(3))
def test_greedy_accuracy_is_the_literal_one_and_never_above_the_best(seed):
    rng = np.random.default_rng(seed)
    y_true, y_pred = rng.integers(0, 5, 497), rng.integers(0, 7, 497)
    found = greedy_accuracy(y_true, y_pred)
    assert literal_greedy(y_true, y_pred) == found <= metrics.accuracy(y_true, y_pred)


def test_integrated_gradients_are_the_literal_ones_of_the_clusters_logit():
    model = IDC(4, encdec=[16, 4, 16], clustering_head=16, aux_classifier=4, use_gating=False,
                batch_size=20, epochs=40, ae_pretrain_epochs=20, ae_non_gated_epochs=2, tau=1.0,
                start_global_gates_training_on_epoch=39, random_state=1, lr_pretrain=0.01,
                select="last").fit(WIDE)
    net, expected, few = model.model_, [], WIDE[:10]
    samples = torch.tensor(few, dtype=torch.float32)
    for sample, label in zip(samples, model.predict(few), strict=True):
        def logit(point, label=label):
            return net.head(net.autoencoder.encoder(point[None]))[0, label]
        gradients = [torch.autograd.functional.jacobian(logit, sample * (step + 0.5) / 32)
                     for step in range(32)]
        expected.append((sample * torch.stack(gradients).mean(0)).abs().numpy())
    expected = np.array(expected) / np.max(expected, axis=1, keepdims=True)
    two = np.sort(expected, axis=1)[:, [-2]] <= expected
    for kept, largest in ((24, expected), (2, expected * two)):
        with torch.no_grad():
            found = integrated_gradients(model, few, kept=kept)
        np.testing.assert_allclose(found, largest, rtol=1e-3, atol=1e-5)


def test_undefined_measures_are_refused():
    for call, says in (
            (lambda: open_features(np.ones(4)), r"gates must have shape .* \(4,\)"),
            (lambda: uniqueness(X, GATES[:, :2]), r"as the samples have, .* have shape \("),
            (lambda: selection_f1(np.eye(3), np.ones((1, 3))), "gates must have shape"),
            (lambda: selection_f1(np.eye(3), np.zeros((3, 3))), "without an informative feature"),
            (lambda: diversity(np.eye(3), [0, 0, 0]), "needs at least two clusters"),
            (lambda: diversity(np.eye(3), [0, 1, 2], original=True, n_clusters=2), "from 0 to n_c"),
            (lambda: integrated_gradients(IDC(), X), "the model has gates"),
            (lambda: uniqueness(np.ones((5, 4)), np.eye(5, 4)), "needs two different samples"),
            (lambda: generalizability(X, GATES, 0 * Y, X, GATES, Y), "at least two clusters"),
            (lambda: faithfulness(lambda X: Y, X, GATES), "is the same for all features")):
        with pytest.raises(InputError, match=says):
            call()
