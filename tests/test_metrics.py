"""Scores: by hand, against scipy as an oracle, and blind to the labels' names."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linear_sum_assignment

from clusterbook import metrics

NAMES = ("acc", "nmi", "ari", "ami", "homogeneity", "completeness", "v_measure")
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


def test_contingency_by_hand():
    table = metrics.contingency(["cat", "dog", "cat", "cat", "eel"], [-1, 7, -1, 7, 2])
    assert table.tolist() == [[2, 0, 1], [0, 0, 1], [0, 1, 0]]      # cat, dog, eel; -1, 2, 7


@quick
@given(tables.filter(lambda table: table.any()))
@example(np.random.default_rng(0).integers(0, 40, (51, 12)))        # many clusters: another path
def test_matching_is_one_to_one_and_as_good_as_scipys(table):
    pairs = metrics.match(table)
    assert pairs.shape == (min(table.shape), 2)
    assert len(set(pairs[:, 0])) == len(set(pairs[:, 1])) == min(table.shape)
    assert (pairs[:-1, 0] < pairs[1:, 0]).all()
    rows, columns = linear_sum_assignment(table, maximize=True)
    best = table[rows, columns].sum()
    assert table[tuple(pairs.T)].sum() == best
    assert metrics.accuracy(*vectors(table)) == pytest.approx(best / table.sum(), abs=1e-15)


@pytest.mark.parametrize(("y_true", "y_pred", "expected"), [
    ([0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2], 4 / 6),            # more clusters than classes
    ([0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1], 4 / 6),            # fewer
    (*vectors([[5, 4], [4, 0]]), 8 / 13),       # a greedy matching takes the 5 first
    # TELL's released code says 0.1 with cluster 0 empty: it shifts the labels after matching them.
    (np.repeat(np.arange(10), 10), np.repeat(np.maximum(np.arange(10), 1), 10), 0.9),
])
def test_accuracy_by_hand(y_true, y_pred, expected):
    assert metrics.accuracy(y_true, y_pred) == pytest.approx(expected, abs=1e-15)


def test_the_information_scores_by_hand():
    # Table [[2, 1], [0, 1]]: three of class 0 (two in cluster 0), one of class 1.
    y_true, y_pred = [0, 0, 0, 1], [0, 0, 1, 1]
    classes = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    clusters = math.log(2)
    mutual = (0.5 * math.log(0.5 / (0.75 * 0.5)) + 0.25 * math.log(0.25 / (0.75 * 0.5))
              + 0.25 * math.log(0.25 / (0.25 * 0.5)))
    # Every pair of partitions of these sizes has this table, so AMI and ARI are those of chance: 0.
    h, c, mean = mutual / classes, mutual / clusters, (classes + clusters) / 2
    expected = 3 * 2 / 6        # pairs: 1 together in both, 3 in the classes, 2 in clusters, of 6
    wanted = {"acc": 0.75, "nmi": mutual / mean, "ami": 0.0, "homogeneity": h, "completeness": c,
              "v_measure": 2 * h * c / (h + c), "ari": (1 - expected) / (5 / 2 - expected)}
    found = metrics.scores(y_true, y_pred)
    assert found == pytest.approx(wanted, abs=1e-12)
    assert found["nmi"] != pytest.approx(mutual / math.sqrt(classes * clusters), abs=1e-4)
    assert all(type(value) is float for value in found.values()) and tuple(found) == NAMES


def test_ami_by_hand():
    # The second partition refines the first: MI is log 2. Of six ways to place its pair, two lie
    # within a class, and four leave half of that: expected are 2/3 log 2. The entropies are log 2
    # and 3/2 log 2, their mean is 5/4.
    assert metrics.ami([0, 0, 1, 1], [0, 0, 1, 2]) == pytest.approx((1 - 2 / 3) / (5 / 4 - 2 / 3))


@quicker
@given(label_pairs(), st.randoms(use_true_random=False))
def test_scores_know_no_names_or_order_and_their_symmetry(pair, random):
    y_true, y_pred = pair
    expected, turned = metrics.scores(y_true, y_pred), metrics.scores(y_pred, y_true)
    order = random.sample(range(len(y_true)), len(y_true))
    names = np.array(random.sample([-3, 0, 1, 4, 5, 17, 250, 1000], 8))
    words = np.array(["one", "two", "", "four", "fünf", "6", "-7", "eight"], dtype=object)
    for renamed in (metrics.scores(y_true[order], names[y_pred][order]),
                    metrics.scores(words[y_true].tolist(), y_pred / 7),
                    turned | {"homogeneity": turned["completeness"],
                              "completeness": turned["homogeneity"]}):
        assert renamed == pytest.approx(expected, abs=1e-9)
    assert expected["v_measure"] == pytest.approx(expected["nmi"], abs=1e-9)
    assert expected["acc"] >= 1 / max(len(set(labels)) for labels in pair) - 1e-12
    assert metrics.scores(y_true, 10 - y_true) == pytest.approx(dict.fromkeys(NAMES, 1.0), abs=1e-9)


@pytest.mark.parametrize(("y_true", "y_pred", "says"), [
    ([0, 1], [0, 1, 1], r"inconsistent numbers of samples: \[2, 3\]"), ([], [], "0 sample"),
    ([[0, 1]], [[0, 1]], r"shape \(1, 2\)"), ([0.0, np.nan], [0, 1], "y_true contains NaN"),
    (["a", np.nan], [0, 1], "y_true contains NaN or"), ([0, 1], ["a", None], "y_pred contains NaN"),
    ([0, 1], [0.0, np.inf], "y_pred contains infinity"),
])
def test_wrong_label_vectors_are_refused(y_true, y_pred, says):
    for score in (metrics.contingency, metrics.nmi, metrics.scores):
        with pytest.raises(ValueError, match=says):
            score(y_true, y_pred)


def test_the_scores_without_labels_by_hand():
    X = np.array([[0.0, 0.0], [0.0, 2.0], [10.0, 0.0], [10.0, 2.0]])
    # Each sample: 2 from its own cluster's other one, 10 and √104 from the other cluster's two.
    other = (10 + math.sqrt(104)) / 2
    assert metrics.silhouette(X, ["left", "left", "right", "right"]) == pytest.approx(
        (other - 2) / other, abs=1e-12)
    assert metrics.davies_bouldin(X, [-1, -1, 4, 4]) == pytest.approx((1 + 1) / 10, abs=1e-12)


def test_what_another_processor_may_change_is_less_than_two_points():
    """A record with a score raised by two points is named by clusterbook verify."""
    for score in ("acc", "kmeans_nmi", "test_accuracy", "ari", "silhouette", "f1"):
        assert 0 < metrics.allowed(score, 0.95) < 0.02
    assert metrics.allowed("global_gates", 32.0) == pytest.approx(0.32)
    assert metrics.allowed("pruned_network_cut", 9.1) < 0.5
    for measured in ("seconds_per_epoch", "share_of_time", "idc_memory_mb"):
        assert metrics.allowed(measured, 1.0) == np.inf, "of this machine, not of the method"
