"""What clusters do on data: planted networks, literal counts, and nulls that are nulls."""

from __future__ import annotations

from collections import Counter
from math import log2

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

from clusterbook.classifier import MLP
from clusterbook.errors import InputError
from clusterbook.training import seeded
from clusterbook.weights import (
    Lesions,
    Neurons,
    NullTest,
    activation_clusters,
    agreement_test,
    clusterability,
    information,
    information_tests,
    lesions,
    measures,
    network_test,
    neurons,
    null_tests,
    preferred_class,
    quality,
)


def random_network(seed: int, sizes=(5, 7, 4, 6, 3), **options):
    """A network, samples, and classes of which it knows three quarters."""
    with seeded(seed):
        made = MLP(sizes, **options)
    with torch.no_grad():
        for layer in made.linear:
            layer.weight.mul_(4)                 # so that neurons matter more than biases
    X = np.random.default_rng(seed).standard_normal((80, sizes[0]))
    y = made.hidden(torch.tensor(X, dtype=torch.float32))[-1].argmax(1).numpy()
    y[::4] = np.random.default_rng(seed).integers(0, sizes[-1], len(y[::4]))
    return made, X, y


def observed(labels, classes=None, activity=None, is_row=None) -> Neurons:
    labels = np.asarray(labels)
    n = len(labels)
    rng = np.random.default_rng(0)
    activity = rng.random((20, n)) if activity is None else np.asarray(activity)
    is_row = np.arange(n) < n // 2 if is_row is None else np.asarray(is_row)
    return Neurons(activity, np.arange(len(activity)) % 2 if classes is None else classes, labels,
                   is_row)


# --- the neurons on both sides of a layer -----------------------------------------------------


@pytest.mark.parametrize("layer", [1, 2])
def test_rows_are_a_layers_outputs_and_columns_its_inputs(layer):
    made, X, y = random_network(0, bias=True, dropout=0.5)
    seen = []
    for module in made:
        if isinstance(module, torch.nn.ReLU):
            module.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    made.eval()(torch.tensor(X, dtype=torch.float32))
    n_rows, n_columns = made.weights(layer).shape
    made.train()                                  # dropout must not reach into what is measured
    found = neurons(made, X, y, layer, np.zeros(n_rows, int), np.ones(n_columns, int))
    assert np.array_equal(found.activity[:, found.is_row], seen[layer].detach())
    assert np.array_equal(found.activity[:, ~found.is_row], seen[layer - 1].detach())
    assert found.labels.tolist() == [0] * n_rows + [1] * n_columns
    assert np.array_equal(found.classes, y)


@pytest.mark.parametrize(("layer", "n_rows", "n_columns", "n", "says"), [
    (0, 7, 5, 80, "layer 0 does not lie between two hidden layers; this network's layers 1 to 2"),
    (3, 3, 6, 80, "layer 3 does not lie"),
    (1, 7, 4, 80, r"inconsistent numbers of samples: \[4, 7\]"),
    (1, 4, 6, 80, r"inconsistent numbers of samples: \[11, 10\]"),
    (1, 4, 7, 79, r"inconsistent numbers of samples: \[80, 79\]"),
])
def test_labels_and_classes_that_do_not_fit_are_refused(layer, n_rows, n_columns, n, says):
    made, X, y = random_network(0)
    with pytest.raises(ValueError, match=says):
        lesions(made, X, y[:n], layer, np.zeros(n_rows, int), np.zeros(n_columns, int))


def test_a_neuron_that_never_changes_is_not_alive_whatever_the_rounding():
    activity = np.random.default_rng(0).random((30_001, 5), dtype=np.float32)
    activity[:, 1] = 0
    activity[:, 2] = 0.1                     # a bias without weights: its float32 deviation is
    assert activity[:, 2].std() > 0          # a rounding error
    classes = np.arange(len(activity)) % 3
    assert (preferred_class(activity, classes) < 0).tolist() == [0, 1, 1, 0, 0]
    found = activation_clusters(activity[:500], 2, 0)
    assert (found < 0).tolist() == [0, 1, 1, 0, 0]


# --- activations and preferred classes --------------------------------------------------------


def test_neurons_that_fire_together_or_opposite_make_one_cluster():
    rng = np.random.default_rng(1)
    causes, sign = np.arange(12) % 3, rng.choice([-1, 1], 12)
    scale = 10.0 ** rng.integers(-2, 3, 12)
    activity = (rng.standard_normal((300, 3))[:, causes] * sign
                + 0.3 * rng.standard_normal((300, 12))) * scale + 5
    assert adjusted_rand_score(causes, activation_clusters(activity, 3, 0)) == 1


@pytest.mark.parametrize("n_clusters", [0, 4, 9])
def test_fewer_changing_neurons_than_clusters_are_refused(n_clusters):
    activity = np.random.default_rng(0).random((9, 6))
    activity[:, :2] = 1
    with pytest.raises(InputError, match=f"n_clusters={n_clusters} .* not constant, 4"):
        activation_clusters(activity, n_clusters)


def test_the_preferred_class_has_the_largest_mean_not_the_largest_sum():
    classes = np.array([3, 3, 3, 7, 9, 9])
    activity = np.array([[1, 0, 2], [1, 0, 2], [1, 0, 2], [2, 0, 2], [0, 1, 2], [0, 0, 2]])
    assert preferred_class(activity, classes).tolist() == [7, 9, -1]


# --- agreement --------------------------------------------------------------------------------


def test_agreement_is_the_ami_of_the_neurons_that_have_both_labels():
    labels, other = np.array([0, 0, 1, 1, 2, 2, -1, 0]), np.array([5, 5, 5, 6, 6, -1, 5, -1])
    test = agreement_test(observed(labels), other, n_shuffles=5)
    expected = adjusted_mutual_info_score([0, 0, 1, 1, 2], [5, 5, 5, 6, 6])
    assert test.value == pytest.approx(expected, abs=1e-12) and test.larger


def test_equal_labels_agree_and_the_null_does_not():
    labels = np.random.default_rng(0).permutation(np.arange(40) % 4)
    test = agreement_test(observed(labels), labels + 1, n_shuffles=49, random_state=0)
    assert test.value == pytest.approx(1) and test.p == test.smallest_p == 0.02
    assert test.z > 5 and abs(test.null.mean()) < 0.05


def test_a_difference_between_the_sides_alone_is_no_agreement():
    side = np.repeat([0, 1], 10)
    test = agreement_test(observed(side), side + 3, n_shuffles=19, random_state=0)
    assert test.value == pytest.approx(1) and (test.z, test.p) == (0, 1)


# --- information ------------------------------------------------------------------------------


def entropy(values) -> float:
    return -sum(n / len(values) * log2(n / len(values)) for n in Counter(values).values())


@pytest.mark.parametrize(("n", "bins"), [(40, 10), (60, 4), (30, 2)])
def test_information_is_the_sum_of_entropies_less_the_joint_one(n, bins):
    rng = np.random.default_rng(n)
    classes = rng.integers(0, 5, n)
    activity = rng.random((n, 3)) + 0.3 * classes[:, None]
    level = [sum(row) for row in activity.tolist()]
    ranked = sorted(level)
    bin_of = [ranked.index(value) * bins // n for value in level]       # equal counts by rank
    assert set(Counter(bin_of).values()) == {n // bins}
    pairs = list(zip(classes.tolist(), bin_of, strict=True))
    expected = entropy(classes.tolist()) + entropy(bin_of) - entropy(pairs)
    assert information(activity, classes, bins=bins) == pytest.approx(expected, abs=1e-9)


def test_many_equal_activities_share_a_bin():
    # A ReLU is silent on most samples: what is equal may not be told apart.
    classes = np.arange(100) % 2
    silent = np.zeros((100, 1))
    silent[90:, 0] = np.arange(1, 11)
    assert information(silent, classes) <= entropy((silent[:, 0] > 0).tolist()) + 1e-12
    silent[90:, 0] = classes[90:]
    expected = 1 + entropy([1] * 5 + [0] * 95) - entropy([0] * 50 + [1] * 45 + [2] * 5)
    assert information(silent, classes) == pytest.approx(expected)


def test_a_cluster_that_knows_the_class_stands_out():
    rng = np.random.default_rng(0)
    classes = np.arange(200) % 4
    activity = rng.random((200, 40))
    labels = rng.permutation(np.arange(40) % 4)
    activity[:, labels == 2] += 0.7 * (classes == 3)[:, None]
    tests = information_tests(observed(labels, classes, activity), n_shuffles=19, random_state=0)
    assert list(tests) == [0, 1, 2, 3] and all(test.larger for test in tests.values())
    assert tests[2].p == tests[2].smallest_p and tests[2].z > 1.5
    assert tests[2].value > 0.7 and tests[2].value == information(activity[:, labels == 2], classes)
    assert all(tests[c].value < 0.3 and tests[c].p > 0.5 for c in (0, 1, 3))


def test_p_is_uniform_for_unrelated_clusters():
    rng, classes, p = np.random.default_rng(3), np.arange(60) % 3, []
    activity = rng.random((60, 24)) + (rng.integers(0, 3, 24) == classes[:, None])
    for seed in range(60):
        found = observed(rng.permutation(np.arange(24) % 2), classes, activity)
        test = information_tests(found, n_shuffles=4, random_state=seed)[0]
        p.append(test.p - rng.uniform(0, 1 / 5))
    assert kstest(p, "uniform").pvalue > 0.02


def test_random_sets_have_a_clusters_size_on_each_side():
    is_row = np.arange(20) < 12
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, -1, 0, 1, 1, 1, 1, 1, -1, -1])
    sets = measures._with_random_sets(observed(labels, is_row=is_row), 600, 0)
    assert list(sets) == [0, 1] and np.array_equal(sets[0][0], labels == 0)
    drawn = sets[0][1:]
    assert (drawn[:, is_row].sum(1) == 4).all() and (drawn[:, ~is_row].sum(1) == 1).all()
    assert not drawn[:, labels < 0].any()
    share = drawn.mean(0)
    np.testing.assert_allclose(share[:11], 4 / 11, atol=0.08)                    # all alike
    np.testing.assert_allclose(share[12:18], 1 / 6, atol=0.06)


# --- lesions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", [1, 2])
def test_a_lesion_is_a_network_without_these_neurons_outgoing_weights(layer):
    made, X, y = random_network(2, bias=True)
    n_rows, n_columns = made.weights(layer).shape
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(np.arange(n_rows) % 3) - 1, rng.integers(-1, 2, n_columns)
    found = lesions(made, X, y, layer, rows, columns, n_shuffles=2, random_state=0)
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


def test_the_arithmetic_of_lesions():
    found = Lesions(whole=np.array([0.9, 0.8]), without=np.array([[0.5, 0.8]]),
                    random=np.array([[[0.7, 0.6], [0.9, 0.8], [0.8, 0.7], [0.1, 0.8]]]))
    np.testing.assert_allclose(found.drop, [[0.4, 0.0]])
    np.testing.assert_allclose(found.excess, [[0.625 - 0.5, 0.725 - 0.8]])
    (mean,), (spread,) = found.tests(np.mean), found.tests(np.ptp)
    assert mean.value == pytest.approx(0.2)
    np.testing.assert_allclose(mean.null, [0.2, 0, 0.1, 0.4])
    assert mean.p == 3 / 5                               # 0.2 is a tie, 0.4 is beyond
    assert spread.value == pytest.approx(0.4)
    np.testing.assert_allclose(spread.null, [0, 0, 0, 0.8], atol=1e-12)
    assert spread.p == 2 / 5


@pytest.mark.parametrize("test", [
    lambda made, X, y: lesions(made, X, y, 1, np.zeros(4, int), np.zeros(7, int), n_shuffles=1),
    lambda *_: information_tests(observed([0, 1]), n_shuffles=1),
    lambda *_: agreement_test(observed([0, 1]), np.zeros(2, int), n_shuffles=1),
], ids=["lesions", "information", "agreement"])
def test_a_null_needs_a_spread(test):
    with pytest.raises(InputError, match="at least 2, not 1"):
        test(*random_network(0))


# --- all measures -----------------------------------------------------------------------------

MEASURED = {"n_clusters": 2, "network_clusters": 3, "n_init": 2, "n_shuffles": 5,
            "random_state": 1, "progress": False}


def flat(test: NullTest, name: str) -> dict[str, float]:
    return {name: test.value, f"{name}_null_mean": test.null.mean(),
            f"{name}_null_sd": test.null.std(ddof=1), f"{name}_z": test.z, f"{name}_p": test.p}


def all_weights(made: MLP) -> list[np.ndarray]:
    return [made.weights(i) for i in range(len(made.linear))]


def test_all_measures_of_one_network():
    made, X, y = random_network(0)
    found = quality(made, X, y, layer=2, **MEASURED)
    labels = found.clusters.row_labels_, found.clusters.column_labels_
    lost = lesions(made, X, y, 2, *labels, n_shuffles=5, random_state=1)
    assert np.array_equal(found.lesions.random, lost.random)
    network = network_test(all_weights(made), 3, n_shuffles=5, n_init=2, random_state=1)
    bits = information_tests(found.found, n_shuffles=5, random_state=1).values()
    assert found.effects == pytest.approx({
        "normalized cut of the layer": -found.layer["cut"].z,
        "weight inside clusters": found.layer["share"].z,
        "normalized cut of the network": -network.z,
        "agreement with activations": found.activations.z,
        "agreement with preferred classes": found.classes.z,
        "information about the class": np.mean([test.z for test in bits]),
        "accuracy lost by a lesion": np.mean([test.z for test in lost.tests(np.mean)]),
        "difference between classes": np.mean([test.z for test in lost.tests(np.ptp)])})
    assert found.metrics() == pytest.approx({
        **flat(found.layer["cut"], "layer_cut"), **flat(found.layer["share"], "layer_share"),
        **flat(found.layer["share_of_squares"], "layer_share_of_squares"),
        **flat(network, "network_cut"), **flat(found.activations, "ami_activations"),
        **flat(found.classes, "ami_classes"),
        "information_bits": np.mean([test.value for test in bits]),
        **{f"z_{name.replace(' ', '_')}": z for name, z in found.effects.items()},
        **{f"{side}_in_{c}": (found_labels == c).sum() for c in range(2)
           for side, found_labels in zip(("rows", "columns"), labels, strict=True)}})


def test_clusterability_has_a_second_null_for_pruned_networks():
    made, _, _ = random_network(0)
    whole = {"n_shuffles": 5, "n_init": 2, "random_state": 1}
    expected = flat(network_test(all_weights(made), 3, **whole), "network_cut")
    for name, test in null_tests(made.weights(2), 2, n_shuffles=5, random_state=1).items():
        expected |= flat(test, f"layer_{name}")
    assert clusterability(made, layer=2, **MEASURED) == pytest.approx(expected)
    with torch.no_grad():
        for layer in made.linear:
            layer.weight[layer.weight.abs() < 0.5] = 0
    kept = network_test(all_weights(made), 3, keep_zeros=True, **whole)
    found = clusterability(made, layer=2, **MEASURED)
    assert {name: value for name, value in found.items() if "kept" in name} == pytest.approx(
        flat(kept, "network_cut_kept"))
    assert found["network_cut_null_mean"] != found["network_cut_kept_null_mean"]
