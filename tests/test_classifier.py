"""The classifier whose weights are clustered: a step by hand, real digits, seeds, bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.model_selection import train_test_split

from clusterbook import datasets, training
from clusterbook.classifier import MLP, train_classifier
from clusterbook.errors import InputError


@pytest.fixture(scope="module")
def digits():
    data = datasets.load("digits")
    X_train, X_test, y_train, y_test = train_test_split(data.X, data.y, test_size=0.25,
                                                        random_state=0, stratify=data.y)
    mean, std = X_train.mean(), X_train.std()
    return (X_train - mean) / std, y_train, (X_test - mean) / std, y_test


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(0)
    return (rng.standard_normal((24, 5)), np.arange(24) % 3,
            rng.standard_normal((9, 5)), np.arange(9) % 3)


def fit(data, **options):
    return train_classifier(*data, device="cpu", progress=False, **options)


def all_weights(network: MLP) -> list[np.ndarray]:
    return [network.weights(i) for i in range(len(network.linear))]


# --- the network ------------------------------------------------------------------------------


def test_a_network_is_its_weight_matrices_with_relu_between():
    network = MLP([3, 4, 2])
    assert [tuple(p.shape) for p in network.parameters()] == [(4, 3), (2, 4)]     # and no biases
    assert network.weights(0).dtype == np.float64
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))
    by_hand = np.maximum(x.numpy() @ network.weights(0).T, 0) @ network.weights(1).T
    np.testing.assert_allclose(network(x).detach().numpy(), by_hand, atol=1e-6)


def test_weights_are_a_copy():
    network = MLP([3, 2])
    network.weights(0)[:] = 0
    assert network.weights(0).any()


@pytest.mark.parametrize("layer", [2, -1])
def test_a_layer_that_is_not_there_is_refused(layer):
    with pytest.raises(InputError, match=f"no layer {layer}; this network has layers 0 to 1"):
        MLP([3, 4, 2]).weights(layer)


@pytest.mark.parametrize("widths", [[], [4], [4, 0, 2]])
def test_widths_that_make_no_network_are_refused(widths):
    with pytest.raises(InputError, match="at least two positive numbers"):
        MLP(widths)


def test_accuracy_counts_the_largest_output_and_leaves_the_mode():
    network = MLP([2, 2])
    with torch.no_grad():
        network[0].weight.copy_(torch.eye(2))
    X = torch.tensor([[2.0, 1.0], [0.0, 1.0], [5.0, 4.0], [1.0, 3.0]])
    network.train()
    assert network.accuracy(X, torch.tensor([0, 1, 1, 1])) == 0.75
    assert network.training


# --- training ---------------------------------------------------------------------------------


def test_real_digits_are_recognized(digits):
    network, history = fit(digits, learning_rate=0.1, epochs=40, random_state=0)
    assert history.rows[-1]["accuracy"] >= 0.9
    assert history.rows[-1]["loss"] < history.rows[0]["loss"] / 5
    assert [row["epoch"] for row in history.rows] == list(range(1, 41))
    X_test, y_test = torch.tensor(digits[2]), torch.tensor(digits[3])
    assert network.accuracy(X_test, y_test) == history.rows[-1]["accuracy"]
    right = (network(X_test).detach().numpy().argmax(1) == digits[3]).mean()
    assert history.rows[-1]["accuracy"] == pytest.approx(right, abs=1e-6)
    assert [w.shape for w in all_weights(network)] == [(128, 64), (128, 128), (10, 128)]
    assert not network.training


@pytest.mark.parametrize("seed", range(3))
def test_an_untrained_network_knows_nothing(digits, seed):
    _, history = fit(digits, learning_rate=1e-12, epochs=1, random_state=seed)
    assert history.rows[0]["loss"] == pytest.approx(math.log(10), rel=0.05)
    assert history.rows[0]["accuracy"] < 0.35


def test_the_original_step_length_is_too_short_for_so_few_data(digits):
    _, history = fit(digits, random_state=0)                # SGD 1e-3, batch 64, five epochs
    assert len(history) == 5
    assert history.rows[-1]["accuracy"] < 0.5


def test_a_step_is_gradient_descent_on_the_mean_cross_entropy(small):
    X, y = np.asarray(small[0]), np.asarray(small[1])
    with training.seeded(4):
        start = MLP([5, 6, 3])
    first, second = all_weights(start)
    hidden = np.maximum(X @ first.T, 0)                                  # (24, 6)
    outputs = hidden @ second.T                                          # (24, 3)
    shares = np.exp(outputs) / np.exp(outputs).sum(1, keepdims=True)
    loss = -np.log(shares[np.arange(24), y]).mean()
    at_outputs = (shares - np.eye(3)[y]) / 24
    at_hidden = (at_outputs @ second) * (hidden > 0)
    expected = [first - 0.5 * at_hidden.T @ X, second - 0.5 * at_outputs.T @ hidden]

    network, history = fit(small, hidden=(6,), epochs=1, learning_rate=0.5, batch_size=24,
                           random_state=4)
    assert history.rows[0]["loss"] == pytest.approx(loss, abs=1e-6)
    for found, by_hand, before in zip(all_weights(network), expected, (first, second), strict=True):
        np.testing.assert_allclose(found, by_hand, atol=1e-6)
        assert np.abs(by_hand - before).max() > 1e-3


def test_an_epoch_takes_each_sample_once_in_batches(small, monkeypatch):
    sizes, seen = [], []
    entropy = torch.nn.functional.cross_entropy

    def watched(outputs, classes):
        sizes.append(len(classes))
        seen.extend(classes.tolist())
        return entropy(outputs, classes)

    monkeypatch.setattr(torch.nn.functional, "cross_entropy", watched)
    fit(small, hidden=(4,), epochs=1, batch_size=10, random_state=0)
    assert sizes == [10, 10, 4] and sorted(seen) == sorted(small[1].tolist())


def test_one_seed_one_network_and_another_seed_another(small):
    options = {"hidden": (6,), "epochs": 3, "learning_rate": 0.1, "batch_size": 8}
    one, first = fit(small, random_state=1, **options)
    torch.manual_seed(77)
    two, second = fit(small, random_state=1, **options)
    other, _ = fit(small, random_state=2, **options)
    for a, b, c in zip(all_weights(one), all_weights(two), all_weights(other), strict=True):
        assert np.array_equal(a, b) and not np.array_equal(a, c)
    assert first.rows == second.rows


def test_the_callers_random_numbers_are_left_alone(small):
    torch.manual_seed(3)
    np.random.seed(3)                                                            # noqa: NPY002
    expected = torch.rand(2).tolist(), np.random.rand(2).tolist()                # noqa: NPY002
    torch.manual_seed(3)
    np.random.seed(3)                                                            # noqa: NPY002
    fit(small, hidden=(4,), epochs=2, random_state=0)
    fit(small, hidden=(4,), epochs=1)
    assert (torch.rand(2).tolist(), np.random.rand(2).tolist()) == expected      # noqa: NPY002


def test_a_class_that_only_the_test_samples_have_has_an_output(small):
    X, y, X_test, _ = small
    network, _ = fit((X, y, X_test, [0, 1, 2, 3, 4, 0, 0, 0, 0]), hidden=(4,), epochs=1)
    assert network.weights(1).shape == (5, 4)


def test_data_are_left_alone(small):
    before = small[0].copy()
    fit(small, hidden=(4,), epochs=2, learning_rate=1.0, random_state=0)
    assert np.array_equal(small[0], before)


# --- bad input --------------------------------------------------------------------------------

GOOD = np.zeros((4, 2)), [0, 1, 0, 1], np.zeros((2, 2)), [0, 1]
NAN = np.array([[0, 0], [np.nan, 0], [0, 0], [0, 0]])


@pytest.mark.parametrize(("change", "says"), [
    ({0: NAN}, "training samples hold NaN or infinite"),
    ({0: np.nan_to_num(NAN, nan=np.inf)}, "training samples hold NaN or infinite"),
    ({0: np.full((4, 2), 1e39)}, "training samples hold NaN or infinite"),       # beyond float32
    ({2: NAN[:2]}, "test samples hold NaN or infinite"),
    ({1: [0, 1]}, r"training samples have shape \(4, 2\) and their classes \(2,\)"),
    ({3: [0, 1, 1]}, r"test samples have shape \(2, 2\) and their classes \(3,\)"),
    ({0: np.zeros((4, 2, 1))}, r"shape \(4, 2, 1\)"),
    ({2: np.zeros((2, 3))}, "training samples have 2 features, test samples 3"),
    ({0: np.zeros((0, 2)), 1: []}, "there are no training samples"),
    ({2: np.zeros((0, 2)), 3: []}, "there are no test samples"),
    ({1: [0, -1, 0, 1]}, "classes of the training samples must be whole numbers from 0"),
    ({1: [0, 0.5, 0, 1]}, "classes of the training samples must be whole numbers from 0"),
    ({3: [0, np.nan]}, "classes of the test samples must be whole numbers from 0"),
    ({1: ["a", "b", "a", "b"]}, "classes of the training samples must be whole numbers from 0"),
])
@pytest.mark.filterwarnings("error")
def test_data_that_can_not_be_learned_from_are_refused(change, says):
    data = [change.get(i, part) for i, part in enumerate(GOOD)]
    with pytest.raises(InputError, match=says):
        fit(data, hidden=(3,), epochs=1, batch_size=2)


@pytest.mark.parametrize(("options", "says"), [
    ({"epochs": -1}, "epochs"), ({"epochs": 1.5}, "epochs"), ({"batch_size": 0}, "batch_size"),
    ({"hidden": (0,)}, "widths"), ({"random_state": -1}, "random_state"),
    ({"device": "cudda"}, "device"),
])
def test_settings_that_can_not_be_are_refused(small, options, says):
    with pytest.raises(InputError, match=says):
        train_classifier(*small, progress=False, **options)


def test_a_loss_that_explodes_is_said_to():
    X = np.random.default_rng(0).standard_normal((8, 2)) * 1e18
    with pytest.raises(training.TrainingError, match="diverged"):
        fit((X, np.arange(8) % 2, X, np.arange(8) % 2), hidden=(3,), epochs=3, learning_rate=1e18,
            batch_size=4, random_state=0)
