"""Scores: by hand, against scipy and scikit-learn as oracles, and blind to the labels' names."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linear_sum_assignment

from clusterbook import metrics
from clusterbook.errors import InputError

AGAINST_LABELS = ("accuracy", "nmi", "ari", "ami", "homogeneity", "completeness", "v_measure")
NAMES = {"acc", "nmi", "ari", "ami", "homogeneity", "completeness", "v_measure"}

quick = settings(max_examples=60, deadline=None, database=None)
quicker = settings(quick, max_examples=15)            # all scores, several times each
tables = hnp.arrays(np.int64, st.tuples(st.integers(1, 7), st.integers(1, 7)),
                    elements=st.integers(0, 30))


@st.composite
def label_pairs(draw):
    """Two label vectors of one length, with any number of classes and clusters, some unused."""
    n = draw(st.integers(2, 40))
    return tuple(np.array(draw(st.lists(st.integers(0, draw(st.integers(0, 7))),
                                        min_size=n, max_size=n))) for _ in range(2))


def vectors(table) -> tuple[np.ndarray, np.ndarray]:
    """Labels whose contingency table is the given one (rows and columns without samples vanish)."""
    rows, columns = np.indices(np.shape(table))
    counts = np.ravel(table)
    return np.repeat(rows.ravel(), counts), np.repeat(columns.ravel(), counts)


# --- the table and the matching ---------------------------------------------------------------


def test_contingency_by_hand():
    table = metrics.contingency(["cat", "dog", "cat", "cat", "eel"], [-1, 7, -1, 7, 2])
    # Rows: cat, dog, eel; columns: -1, 2, 7.
    assert table.tolist() == [[2, 0, 1], [0, 0, 1], [0, 1, 0]]
    assert table.dtype == np.int64


@quick
@given(tables.filter(lambda table: table.any()))
def test_matching_is_one_to_one_and_as_good_as_scipys(table):
    pairs = metrics.match(table)
    assert pairs.shape == (min(table.shape), 2)
    assert len(set(pairs[:, 0])) == len(set(pairs[:, 1])) == min(table.shape)
    assert (pairs[:-1, 0] < pairs[1:, 0]).all()
    rows, columns = linear_sum_assignment(table, maximize=True)
    best = table[rows, columns].sum()
    assert table[tuple(pairs.T)].sum() == best
    assert metrics.accuracy(*vectors(table)) == pytest.approx(best / table.sum(), abs=1e-15)


@pytest.mark.parametrize("shape", [(60, 60), (51, 12), (8, 70)])
def test_more_than_fifty_clusters_take_another_path_to_the_same_result(shape, monkeypatch):
    table = np.random.default_rng(0).integers(0, 40, shape)
    with monkeypatch.context() as patched:
        patched.setattr(metrics, "Munkres", None)
        fast = metrics.match(table)
        assert len(fast) == min(shape)
    monkeypatch.setattr(metrics, "linear_sum_assignment", None)
    assert metrics.match(np.eye(50, dtype=int)).tolist() == [[i, i] for i in range(50)]
    monkeypatch.setattr(metrics, "_MUNKRES_LIMIT", 100)
    slow = metrics.match(table)
    assert slow.shape == fast.shape
    assert table[tuple(slow.T)].sum() == table[tuple(fast.T)].sum()


# --- accuracy, where released code goes wrong ---------------------------------------------------


@pytest.mark.parametrize("empty", [0, 4, 9])
def test_accuracy_does_not_depend_on_which_cluster_is_empty(empty):
    # TELL's released code says 0.1 with cluster 0 empty: it shifts the labels after matching them.
    y = np.repeat(np.arange(10), 10)
    assert metrics.accuracy(y, np.where(y == empty, (empty + 1) % 10, y)) == 0.9


@pytest.mark.parametrize(
    ("y_true", "y_pred", "expected"),
    [
        ([0, 0, 1, 1], [1, 1, 0, 0], 1.0),
        ([0, 0, 1, 1], [7, 7, 3, 7], 3 / 4),
        ([0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2], 4 / 6),         # more clusters than classes
        ([0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1], 4 / 6),         # fewer
        ([0, 1, 2, 3], [5, 5, 5, 5], 1 / 4),
        ([0, 0, 0, 0], [0, 1, 2, 3], 1 / 4),
        # A greedy matching takes the 5 first and ends with 5 + 0 of 13; the best has 4 + 4.
        (*vectors([[5, 4], [4, 0]]), 8 / 13),
        ([3], [8], 1.0),
    ],
)
def test_accuracy_by_hand(y_true, y_pred, expected):
    assert metrics.accuracy(y_true, y_pred) == pytest.approx(expected, abs=1e-15)


# --- all scores against labels ------------------------------------------------------------------


def test_the_information_scores_by_hand():
    # Table [[2, 1], [0, 1]]: three of class 0 (two in cluster 0), one of class 1.
    y_true, y_pred = [0, 0, 0, 1], [0, 0, 1, 1]
    classes = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    clusters = math.log(2)
    mutual = (0.5 * math.log(0.5 / (0.75 * 0.5)) + 0.25 * math.log(0.25 / (0.75 * 0.5))
              + 0.25 * math.log(0.25 / (0.25 * 0.5)))
    found = metrics.scores(y_true, y_pred)
    assert found["acc"] == 0.75 and all(type(value) is float for value in found.values())
    assert found["nmi"] == pytest.approx(mutual / ((classes + clusters) / 2), abs=1e-12)
    assert found["nmi"] != pytest.approx(mutual / math.sqrt(classes * clusters), abs=1e-4)
    assert found["homogeneity"] == pytest.approx(mutual / classes, abs=1e-12)
    assert found["completeness"] == pytest.approx(mutual / clusters, abs=1e-12)
    h, c = found["homogeneity"], found["completeness"]
    assert found["v_measure"] == pytest.approx(2 * h * c / (h + c), abs=1e-12)
    # Pairs of samples: 1 together in both, 3 in the classes, 2 in the clusters, of 6.
    expected = 3 * 2 / 6
    assert found["ari"] == pytest.approx((1 - expected) / ((3 + 2) / 2 - expected), abs=1e-12)


def test_ami_is_the_mutual_information_less_what_chance_gives():
    y_true, y_pred = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])

    def entropy(*labels):
        _, counts = np.unique(np.column_stack(labels), axis=0, return_counts=True)
        return -(counts / counts.sum() * np.log(counts / counts.sum())).sum()

    def mutual(a, b):
        return entropy(a) + entropy(b) - entropy(a, b)

    chance = np.mean([mutual(y_true, y_pred[list(order)])
                      for order in itertools.permutations(range(4))])
    bound = (entropy(y_true) + entropy(y_pred)) / 2
    assert metrics.ami(y_true, y_pred) == pytest.approx(
        (mutual(y_true, y_pred) - chance) / (bound - chance), abs=1e-12)


@quicker
@given(label_pairs(), st.randoms(use_true_random=False))
def test_no_score_depends_on_the_names_of_clusters_or_the_order_of_samples(pair, random):
    y_true, y_pred = pair
    expected = metrics.scores(y_true, y_pred)
    assert set(expected) == NAMES
    names = random.sample([-3, 0, 1, 4, 5, 17, 250, 1000], 8)
    order = random.sample(range(len(y_true)), len(y_true))
    renamed = metrics.scores(y_true[order], np.array(names)[y_pred][order])
    assert renamed == pytest.approx(expected, abs=1e-9)
    renamed = metrics.scores(np.array(names)[y_true], y_pred)
    assert renamed == pytest.approx(expected, abs=1e-9)


def test_texts_floats_and_negative_numbers_are_labels_too():
    y_true, y_pred = np.arange(30) % 4, np.arange(30) % 7
    expected = metrics.scores(y_true, y_pred)
    words = np.array(["one", "two", "", "four", "fünf", "6", "-7", "eight"])
    assert metrics.scores(words[y_true], -y_pred - 1) == pytest.approx(expected, abs=1e-9)
    assert metrics.scores((y_true / 7).tolist(), words.astype(object)[y_pred].tolist()) == (
        pytest.approx(expected, abs=1e-9))


@quicker
@given(label_pairs())
def test_which_scores_are_symmetric(pair):
    y_true, y_pred = pair
    for score in (metrics.accuracy, metrics.nmi, metrics.ari, metrics.ami, metrics.v_measure):
        assert score(y_true, y_pred) == pytest.approx(score(y_pred, y_true), abs=1e-9)
    assert metrics.homogeneity(y_true, y_pred) == pytest.approx(
        metrics.completeness(y_pred, y_true), abs=1e-9)
    assert metrics.v_measure(*pair) == pytest.approx(metrics.nmi(*pair), abs=1e-9)
    assert metrics.accuracy(*pair) >= 1 / max(len(set(y_true)), len(set(y_pred))) - 1e-12


@quicker
@given(label_pairs())
def test_equal_partitions_score_1_in_everything(pair):
    found = metrics.scores(pair[0], 10 - pair[0])
    assert found == pytest.approx(dict.fromkeys(NAMES, 1.0), abs=1e-9)


@pytest.mark.parametrize(("y_true", "y_pred", "says"), [
    ([0, 1], [0, 1, 1], "y_true has 2 labels and y_pred 3"),
    ([], [], "y_true must be a vector"),
    ([[0, 1]], [[0, 1]], r"shape \(1, 2\)"),
    ([0.0, np.nan], [0, 1], "y_true holds labels that are NaN"),
    ([0, 1], [0.0, np.inf], "y_pred holds labels that are NaN"),
    (["a", None], [0, 1], "y_true holds labels that are NaN"),
])
def test_wrong_label_vectors_are_refused(y_true, y_pred, says):
    for name in AGAINST_LABELS:
        with pytest.raises(InputError, match=says):
            getattr(metrics, name)(y_true, y_pred)


# --- without labels -----------------------------------------------------------------------------

X = np.array([[0.0, 0.0], [0.0, 2.0], [10.0, 0.0], [10.0, 2.0]])


def test_silhouette_by_hand():
    # Each sample: 2 from its own cluster's other one, 10 and √104 from the other cluster's two.
    other = (10 + math.sqrt(104)) / 2
    assert metrics.silhouette(X, ["left", "left", "right", "right"]) == pytest.approx(
        (other - 2) / other, abs=1e-12)
    # Crosswise each is 10 from its own cluster's other one, 2 and √104 from the other cluster's.
    other = (2 + math.sqrt(104)) / 2
    assert metrics.silhouette(X, [0, 1, 0, 1]) == pytest.approx((other - 10) / 10, abs=1e-12)


def test_davies_bouldin_by_hand():
    assert metrics.davies_bouldin(X, [-1, -1, 4, 4]) == pytest.approx((1 + 1) / 10, abs=1e-12)
    assert metrics.davies_bouldin(X, [0, 1, 0, 1]) == pytest.approx((5 + 5) / 2, abs=1e-12)


def test_a_silhouette_of_a_sample_repeats_and_a_sample_of_all_is_all():
    rng = np.random.default_rng(0)
    points, labels = rng.standard_normal((60, 3)), np.arange(60) % 3
    first = metrics.silhouette(points, labels, sample_size=30, random_state=1)
    assert first == metrics.silhouette(points, labels, sample_size=30, random_state=1)
    assert first != metrics.silhouette(points, labels, sample_size=30, random_state=2)
    assert metrics.silhouette(points, labels, sample_size=60) == metrics.silhouette(points, labels)
    assert metrics.silhouette(points, labels, sample_size=99) == metrics.silhouette(points, labels)


@pytest.mark.parametrize("score", [metrics.silhouette, metrics.davies_bouldin])
@pytest.mark.parametrize(("points", "labels"), [
    (X, [0, 0, 0, 0]), (X, [0, 1, 2, 3]), (X, [0, 1, 1]),
    (np.where(X == 2, np.nan, X), [0, 0, 1, 1])])
def test_scores_without_labels_refuse_data_without_a_definition(score, points, labels):
    with pytest.raises(ValueError):
        score(points, labels)
