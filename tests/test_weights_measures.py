"""What clusters do on data: planted networks, literal counts, and nulls that are nulls."""

from collections import Counter
from math import log2

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

from clusterbook.checks import InputError
from clusterbook.classifier import MLP
from clusterbook.training import seeded
from clusterbook.weights import Neurons, measures, network_test, null_tests
from clusterbook.weights.measures import activation_clusters, agreement_test, information, lesions


def random_network(seed: int, sizes=(5, 7, 4, 6, 3), **options):
    """A network, samples, and classes of which it knows three quarters."""
    with seeded(seed):
        made = MLP(sizes, **options)
    with torch.no_grad():
        for layer in made.linear:
            layer.weight.mul_(4)                 # so that neurons matter more than biases
    X = np.random.default_rng(seed).standard_normal((80, sizes[0]))
    y = made.hidden(X)[-1].argmax(1).numpy()
    y[::4] = np.random.default_rng(seed).integers(0, sizes[-1], len(y[::4]))
    return made, X, y


def observed(labels, classes=None, activity=None) -> Neurons:
    labels = np.asarray(labels)
    n = len(labels)
    activity = np.random.default_rng(0).random((20, n)) if activity is None else activity
    classes = np.arange(len(activity)) % 2 if classes is None else classes
    return Neurons(activity, classes, labels, np.arange(n) < n // 2)


@pytest.mark.parametrize("layer", [1, 2])
def test_rows_are_a_layers_outputs_and_columns_its_inputs(layer):
    made, X, y = random_network(0, bias=True, dropout=0.5)
    n_rows, n_columns = made.weights(layer).shape
    after = [i for i, module in enumerate(made) if isinstance(module, torch.nn.ReLU)]
    made.eval()
    columns, rows = (torch.nn.Sequential(*list(made)[:after[i] + 1])(torch.tensor(X).float())
                     for i in (layer - 1, layer))
    made.train()                                  # dropout must not reach into what is measured
    found = measures.neurons(made, X, y, layer, np.zeros(n_rows, int), np.ones(n_columns, int))
    assert np.array_equal(found.activity[:, found.is_row], rows.detach())
    assert np.array_equal(found.activity[:, ~found.is_row], columns.detach())
    assert found.labels.tolist() == [0] * n_rows + [1] * n_columns
    clusters = np.zeros(n_rows, int), np.ones(n_columns, int)
    for wrong, classes, says in ((3, y, "layer 3 does not lie between two hidden layers"),
                                 (layer, y[1:], "inconsistent numbers of samples")):
        with pytest.raises(ValueError, match=says):
            measures.neurons(made, X, classes, wrong, *clusters)
    for classes in (y.astype(str), y + 1, y - 1):
        with pytest.raises(InputError, match=r"whole numbers from 0 to \d, the indices"):
            measures.neurons(made, X, classes, layer, *clusters)
    other = torch.nn.Sequential(*made)
    for call in (lambda: measures.neurons(other, X, y, layer, *clusters),
                 lambda: measures.quality(other, X, y), lambda: measures.clusterability(other)):
        with pytest.raises(InputError, match="must be a clusterbook.classifier.MLP, not a Seq"):
            call()
    with pytest.raises(InputError, match="at least two; this network has 1"):
        measures.neurons(MLP([10, 8, 2]), X, y, 1, *clusters)


def test_a_neuron_that_never_changes_is_not_alive_whatever_the_rounding():
    activity = np.random.default_rng(0).random((30_001, 5), dtype=np.float32)
    activity[:, 1] = 0
    activity[:, 2] = 0.1                     # a bias without weights: its float32 deviation is
    assert activity[:, 2].std() > 0          # a rounding error
    preferred = measures.preferred_class(activity, np.arange(len(activity)) % 3)
    for found in (preferred, activation_clusters(activity[:500], 2, 0)):
        assert (found < 0).tolist() == [0, 1, 1, 0, 0]
    # The largest mean prefers a class, not the largest sum.
    activity = np.array([[1, 0, 2], [1, 0, 2], [1, 0, 2], [2, 0, 2], [0, 1, 2], [0, 0, 2]])
    assert measures.preferred_class(activity, np.array([3, 3, 3, 7, 9, 9])).tolist() == [7, 9, -1]
    # Neurons that fire together, or opposite, make one cluster.
    rng = np.random.default_rng(1)
    causes, sign = np.arange(12) % 3, rng.choice([-1, 1], 12)
    scale = 10.0 ** rng.integers(-2, 3, 12)
    activity = (rng.standard_normal((300, 3))[:, causes] * sign
                + 0.3 * rng.standard_normal((300, 12))) * scale + 5
    assert adjusted_rand_score(causes, activation_clusters(activity, 3, 0)) == 1


def test_agreement_is_the_ami_of_the_neurons_that_have_both_labels():
    labels, other = np.array([0, 0, 1, 1, 2, 2, -1, 0]), np.array([5, 5, 5, 6, 6, -1, 5, -1])
    test = agreement_test(observed(labels), other, n_shuffles=5)
    expected = adjusted_mutual_info_score([0, 0, 1, 1, 2], [5, 5, 5, 6, 6])
    assert test.value == pytest.approx(expected, abs=1e-12) and test.larger
    side = np.repeat([0, 1], 10)            # a difference between the sides alone is none
    test = agreement_test(observed(side), side + 3, n_shuffles=19, random_state=0)
    assert test.value == pytest.approx(1) and (test.z, test.p) == (0, 1)


def entropy(values) -> float:
    return -sum(n / len(values) * log2(n / len(values)) for n in Counter(values).values())


@pytest.mark.parametrize(("n", "bins"), [(40, 10), (30, 2)])
def test_information_is_the_sum_of_entropies_less_the_joint_one(n, bins):
    rng = np.random.default_rng(n)
    classes = rng.integers(0, 5, n)
    activity = rng.random((n, 3)) + 0.3 * classes[:, None]
    level = [sum(row) for row in activity.tolist()]
    ranked = sorted(level)
    bin_of = [ranked.index(value) * bins // n for value in level]       # equal counts by rank
    pairs = list(zip(classes.tolist(), bin_of, strict=True))
    expected = entropy(classes.tolist()) + entropy(bin_of) - entropy(pairs)
    assert information(activity, classes, bins=bins) == pytest.approx(expected, abs=1e-9)


def test_random_sets_have_a_clusters_size_on_each_side():
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, -1, 0, 1, 1, 1, 1, 1, 1, 1, -1, -1])
    rows = np.arange(20) < 10
    sets = measures._with_random_sets(observed(labels), 600, 0)
    assert list(sets) == [0, 1] and np.array_equal(sets[0][0], labels == 0)
    drawn = sets[0][1:]
    assert (drawn[:, rows].sum(1) == 4).all() and (drawn[:, ~rows].sum(1) == 1).all()
    assert not drawn[:, labels < 0].any()
    np.testing.assert_allclose(drawn.mean(0)[:9], 4 / 9, atol=0.08)              # all alike


@pytest.mark.parametrize("layer", [1, 2])
def test_a_lesion_is_a_network_without_these_neurons_outgoing_weights(layer):
    made, X, y = random_network(2, bias=True)
    n_rows, n_columns = made.weights(layer).shape
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(np.arange(n_rows) % 3) - 1, rng.integers(-1, 2, n_columns)
    found = lesions(made, X, layer, measures.neurons(made, X, y, layer, rows, columns),
                    n_shuffles=2, random_state=0)
    weights = [made.weights(i) for i in range(4)]
    biases = [linear.bias.detach().numpy() for linear in made.linear]

    def by_class(cluster):
        cut = [w.copy() for w in weights]
        cut[layer + 1][:, rows == cluster] = 0             # what the outputs send on
        cut[layer][:, columns == cluster] = 0              # what the inputs send on
        h = X.astype(np.float32)
        for i, (w, b) in enumerate(zip(cut, biases, strict=True)):
            h = h @ w.T + b
            h = np.maximum(h, 0) if i < 3 else h
        return [np.mean(h.argmax(1)[y == c] == c) for c in range(3)]

    assert found.whole.tolist() == by_class(99)
    assert found.without.tolist() == [by_class(0), by_class(1)]
    assert (found.without != found.whole).any(1).all()
    assert found.random.shape == (2, 2, 3)


def test_clusterability_has_a_second_null_for_pruned_networks():
    made, _, _ = random_network(0)
    null = {"n_shuffles": 5, "random_state": 1}
    scale = {"layer": 2, "n_clusters": 2, "network_clusters": 3, "n_init": 2, **null}
    assert not any("kept" in name for name in measures.clusterability(made, **scale))
    with torch.no_grad():
        for layer in made.linear:
            layer.weight[layer.weight.abs() < 0.5] = 0
    found = measures.clusterability(made, **scale)
    test = network_test([made.weights(i) for i in range(4)], 3, n_init=2, keep_zeros=True, **null)
    assert found["network_cut_kept_null_mean"] == pytest.approx(test.null.mean())
    assert found["layer_cut"] == null_tests(made.weights(2), 2, **null)["cut"].value


def test_a_shuffle_that_has_too_few_neurons_is_named_as_one():
    with pytest.raises(InputError, match="a shuffle of the weights .* ask for fewer clusters"):
        null_tests(np.eye(4), 4, random_state=0)
