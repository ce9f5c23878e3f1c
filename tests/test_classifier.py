"""The classifier whose weights are clustered: single steps by hand, ways of training."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import kstest

from clusterbook import classifier, training
from clusterbook.checks import InputError
from clusterbook.classifier import MLP, block_share, train_classifier

ONE_STEP = {"hidden": (6, 7, 4), "epochs": 1, "batch_size": 24, "learning_rate": 0.5,
            "random_state": 4}
RNG = np.random.default_rng(0)
SMALL = (RNG.standard_normal((24, 5)), np.arange(24) % 3,
         RNG.standard_normal((9, 5)), np.arange(9) % 3)
# Four groups of samples that are easy to tell apart.
GROUP = np.arange(240) % 4
GROUPED = 2 * np.eye(4)[GROUP].repeat(2, axis=1) + 0.5 * RNG.standard_normal((240, 8))
GROUPS = GROUPED[:160], GROUP[:160], GROUPED[160:], GROUP[160:]


def fit(data, **options):
    return train_classifier(*data, **{"device": "cpu", "progress": False, **options})


def matrices(network: MLP) -> list[np.ndarray]:
    return [network.weights(i) for i in range(len(network.linear))]


def same(one: MLP, other: MLP) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def first_weights(**more) -> list[np.ndarray]:
    """The weights before the first step: a step of length 0."""
    return matrices(fit(SMALL, **{**ONE_STEP, **more, "learning_rate": 0.0})[0])


def test_weights_are_a_copy_dropout_follows_hidden_layers_and_a_missing_one_is_refused():
    network = MLP([3, 4, 2])
    assert [tuple(p.shape) for p in network.parameters()] == [(4, 3), (2, 4)]     # and no biases
    network.weights(0)[:] = 0
    assert network.weights(0).any() and network.weights(0).dtype == np.float64
    with pytest.raises(InputError, match="no layer 2; this network has layers 0 to 1"):
        network.weights(2)
    assert network.hidden(pd.DataFrame(np.ones((5, 3))))[-1].shape == (5, 2)
    network, X = MLP([3, 20, 20, 4], dropout=0.3), torch.ones(1, 3)
    assert [getattr(part, "p", 0) for part in network] == [0, 0, 0.3, 0, 0, 0.3, 0]
    assert torch.equal(network.train().hidden(X)[-1], network.eval()(X)), "on where it measures"


@pytest.mark.parametrize(("init", "limits"), [
    ("torch", [1 / 400**0.5, 1 / 100**0.5, 1 / 200**0.5]),
    ("glorot", [(6 / 500) ** 0.5, (6 / 300) ** 0.5, (6 / 210) ** 0.5]),
])
def test_first_weights_are_uniform_up_to_the_limit(init, limits):
    with training.seeded(0):
        network = MLP([400, 100, 200, 10], init=init, bias=True)
    for layer, weight, limit in zip(network.linear, matrices(network), limits, strict=True):
        assert np.abs(weight).max() <= limit * (1 + 1e-6)
        assert kstest(weight.ravel() / limit, "uniform", (-1, 2)).pvalue > 0.001
        assert bool(layer.bias.any()) == (init == "torch")


def test_l1_takes_the_same_step_from_every_weight_towards_0():
    plain, without = fit(SMALL, **ONE_STEP, bias=True)
    network, history = fit(SMALL, **ONE_STEP, bias=True, l1=0.01)
    before = first_weights(bias=True)
    for found, other, first in zip(matrices(network), matrices(plain), before, strict=True):
        np.testing.assert_allclose(found - other, -0.5 * 0.01 * np.sign(first), atol=1e-7)
    for a, b in zip(network.linear, plain.linear, strict=True):
        assert torch.equal(a.bias, b.bias)
    penalty = 0.01 * sum(np.abs(first).sum() for first in before)
    assert history.rows[0]["loss"] - without.rows[0]["loss"] == pytest.approx(penalty, abs=1e-5)


@pytest.mark.parametrize(("shape", "blocks"), [((6, 9), 3), ((5, 7), 2)])
def test_the_share_inside_blocks_is_its_definition_in_value_and_gradient(shape, blocks):
    W = np.random.default_rng(0).standard_normal(shape)
    mask = np.equal.outer(*(np.arange(n) * blocks // n for n in shape))
    inside, everything = (W[mask] ** 2).sum(), (W**2).sum()
    weight = torch.tensor(W, requires_grad=True)
    share = block_share(weight, blocks)
    assert share.item() == pytest.approx(inside / everything, abs=1e-12)
    share.backward()
    by_hand = 2 * W * (mask - inside / everything) / everything
    np.testing.assert_allclose(weight.grad.numpy(), by_hand, atol=1e-12)


def test_a_step_for_blocks_climbs_the_mean_share_of_the_inner_layers():
    plain, without = fit(SMALL, **ONE_STEP)
    network, history = fit(SMALL, **ONE_STEP, blocks=2, block_weight=0.3)
    before, shares = first_weights(), []
    for i, (found, other) in enumerate(zip(matrices(network), matrices(plain), strict=True)):
        if i in (0, 3):                             # beside the inputs and the outputs
            assert np.array_equal(found, other)
            continue
        weight = torch.tensor(before[i], requires_grad=True)
        share = block_share(weight, 2)
        share.backward()
        shares.append(share.item())
        np.testing.assert_allclose(found - other, 0.5 * 0.3 / 2 * weight.grad, atol=1e-7)
        assert np.abs(found - other).max() > 1e-3
    assert without.rows[0]["loss"] - history.rows[0]["loss"] == pytest.approx(
        0.3 * np.mean(shares), abs=1e-6)
    for half in ({"blocks": 2}, {"block_weight": 5.0}):         # one without the other
        assert same(fit(SMALL, **ONE_STEP, **half)[0], plain)


@pytest.mark.parametrize(("optimizer", "dropout"), [("sgd", 0.0), ("adam", 0.3)])
def test_every_layer_loses_its_smallest_weights_by_the_schedule_and_for_good(
        monkeypatch, optimizer, dropout):
    shares = {0: 0.5, 34: 0.9} | {step: 0.9 - 0.4 * (1 - step / 35) ** 3 for step in (10, 20, 30)}
    zero = [None] * 3                       # the weights that were pruned before
    steps, prune, fresh, adam = [], classifier.prune, [], torch.optim.Adam

    def watched(layers, step, total):
        before = [layer.weight.detach().abs().numpy().copy() for layer in layers]
        prune(layers, step, total)
        steps.append(step)
        for i, (layer, size) in enumerate(zip(layers, before, strict=True)):
            assert zero[i] is None or not size[zero[i]].any()           # none has come back
            zero[i] = layer.weight.detach().numpy() == 0
            if step in shares:
                assert zero[i].sum() == round(shares[step] * size.size)
                assert size[zero[i]].max() <= size[~zero[i]].min()

    monkeypatch.setattr(classifier, "prune", watched)
    monkeypatch.setattr(torch.optim, "Adam", lambda *a, **o: fresh.append(1) or adam(*a, **o))
    network, history = fit(GROUPS, hidden=(12, 10), bias=True, epochs=1, pruning_epochs=7,
                           batch_size=32, optimizer=optimizer, learning_rate=0.05, l1=1e-4,
                           dropout=dropout, random_state=0)
    assert steps == list(range(35))
    assert len(fresh) == 2 * (optimizer == "adam"), "each stage has its own"
    for weight, layer in zip(matrices(network), network.linear, strict=True):
        assert (weight == 0).sum() == round(0.9 * weight.size)
        assert layer.bias.count_nonzero() == layer.bias.numel()
    assert [row["stage"] for row in history.rows] == ["training"] + 7 * ["pruning"]


WHOLE = "classes must be whole numbers from 0"
ZEROS = np.zeros((4, 2))


@pytest.mark.parametrize(("i", "part", "options", "says"), [
    (2, [[0, 0], [np.inf, 0]], {}, "X contains infinity"),
    (1, [0, 1], {}, r"inconsistent numbers of samples: \[4, 2\]"),
    (3, [0, 1, 1], {}, r"inconsistent numbers of samples: \[2, 3\]"),
    (1, [0, -1, 0, 1], {}, WHOLE), (1, [0, 0.5, 0, 1], {}, WHOLE), (1, [*"abab"], {}, WHOLE),
    (0, ZEROS, {"init": "glorott"}, "unknown initialization: 'glorott'; did you mean 'glorot'"),
    (2, [[0], [1]], {}, "X has 2 features, but X_test has 1"),
    (0, ZEROS, {"hidden": 8}, "hidden must be a list of whole numbers of at least 1, not 8"),
    (0, ZEROS, {"l1": -1e-4}, "l1 must be a number at least 0"),
    (0, ZEROS, {"blocks": -2}, "blocks must be a whole number of at least 0, not -2"),
    (0, ZEROS, {"block_weight": -1.0}, "block_weight must be a number at least 0"),
    *((0, ZEROS, {"learning_rate": rate}, "learning_rate must be a number at least 0")
      for rate in (np.nan, "a")),
    (0, ZEROS, {"dropout": 1.0}, "dropout must be below 1, not 1.0"),
    (0, ZEROS, {"optimizer": ["sgd"]}, "unknown optimizer"),
    (0, ZEROS, {"checkpoint": "run.pt"}, "a checkpoint needs random_state, such as 0"),
    (0, ZEROS, {"blocks": 2, "block_weight": 1.0}, "at least two hidden layers, not 1")])
def test_data_and_settings_that_can_not_be_used_are_refused_before_any_step(
        monkeypatch, i, part, options, says):
    monkeypatch.setattr(torch.nn.functional, "cross_entropy", lambda *_: pytest.fail("trained"))
    data = [ZEROS, [0, 1, 0, 1], ZEROS[:2], [0, 1]]
    data[i] = part
    with pytest.raises(ValueError, match=says):
        fit(data, **{"hidden": (3,), "epochs": 1, "batch_size": 2, **options})
