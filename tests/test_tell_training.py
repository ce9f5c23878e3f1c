"""TELL's training against the released algorithm, the estimator's contract, and exact resume."""

from __future__ import annotations

import json
import pickle
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn
from torch.nn import functional
from torch.optim.optimizer import register_optimizer_step_pre_hook

from clusterbook import TELL, metrics, training
from clusterbook.errors import InputError
from clusterbook.tell import ClusterLayer, ConvAutoencoder, DenseAutoencoder
from clusterbook.training import Checkpoint

PIXELS, CLASSES = load_digits(return_X_y=True)
PIXELS = (PIXELS / 16).astype(np.float32)
X, Y = PIXELS[:200], CLASSES[:200]                      # three batches of 64, and 8 are left out
K, SIZE, HIDDEN, ALPHA = 10, 5, (16, 12), 1e-3
CNN = {"network": "cnn", "image_shape": (1, 8, 8)}
FCN = {"network": "fcn", "image_shape": (1, 8, 8), "hidden": HIDDEN}
NONE = {"network": "none"}


def tell(epochs=4, **options):
    settings = {"n_clusters": K, "embedding_size": SIZE, "batch_size": 64, "random_state": 0,
                "device": "cpu"}
    return TELL(**{**settings, "epochs": epochs, **options})


def weights(model):
    """Everything that was learnt, by name."""
    return {**{f"network.{name}": part for name, part in model.network_.state_dict().items()},
            "centers": model.layer_.weight.detach()}


def same_weights(a, b):
    a, b = weights(a), weights(b)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def ends_alike(a, b):
    """Whether two models are the same bit for bit, with all that they remember."""
    return (same_weights(a, b) and a.history_.rows == b.history_.rows and a.loss_ == b.loss_
            and np.array_equal(a.labels_, b.labels_))


# --- the released algorithm, literally ----------------------------------------------------------


class Literal(nn.Module):
    """The released network, its layers one by one, with another's first weights.

    Its images lie in memory as in the released code, and torch's own batch normalization works on
    them; the library's lie there with channels last.
    """

    def __init__(self, kind, network, centers):
        super().__init__()
        self.shape = (1, 8, 8) if kind == "cnn" else (64,)
        if kind == "cnn":
            encoder, decoder = [], [nn.Linear(SIZE, 256), nn.ReLU(), nn.Linear(256, 64),
                                    nn.Unflatten(1, (16, 2, 2))]
            for inputs, outputs, stride in ((1, 16, 1), (16, 32, 2), (32, 32, 1), (32, 16, 2)):
                encoder += [nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs),
                            nn.ReLU()]
            encoder += [nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, SIZE)]
            for inputs, outputs, stride in ((16, 32, 2), (32, 32, 1), (32, 16, 2)):
                decoder += [nn.ConvTranspose2d(inputs, outputs, 3, stride, 1, stride - 1),
                            nn.BatchNorm2d(outputs), nn.ReLU()]
            decoder += [nn.ConvTranspose2d(16, 1, 3, 1, 1), nn.Sigmoid()]
        else:
            a, b = HIDDEN
            encoder = [nn.Dropout(0.2), nn.Linear(64, a), nn.ReLU(), nn.Dropout(0.2),
                       nn.Linear(a, b), nn.ReLU(), nn.Dropout(0.2), nn.Linear(b, SIZE)]
            decoder = [nn.Linear(SIZE, b), nn.ReLU(), nn.Linear(b, a), nn.ReLU(),
                       nn.Linear(a, 64), nn.Sigmoid()]
        self.encoder, self.decoder = nn.Sequential(*encoder), nn.Sequential(*decoder)
        self.cluster_layer = nn.Linear(SIZE, K, bias=False)
        given = [*network.state_dict().values(), centers]
        self.load_state_dict({name: tensor.clone() for name, tensor
                              in zip(self.state_dict(), given, strict=True)})
        self.to(memory_format=torch.contiguous_format)

    def encode(self, x):
        return functional.normalize(self.encoder(x.reshape(-1, *self.shape)))

    def decode(self, z):
        return self.decoder(z).reshape(-1, 64)


@contextmanager
def first_weights(kind):
    """The released network with the weights and random numbers that the library begins with."""
    with training.seeded(0) as generator:
        network = (ConvAutoencoder((1, 8, 8), SIZE) if kind == "cnn"
                   else DenseAutoencoder(64, HIDDEN, SIZE))
        layer = ClusterLayer(K, SIZE, ALPHA)
        with torch.random.fork_rng([]):                         # its own first weights do not count
            net = Literal(kind, network, layer.weight.detach())
        yield net, generator


def full_batches(x, generator, size=64):
    order = torch.randperm(len(x), generator=generator)
    for start in range(0, len(x) - size + 1, size):
        yield x[order[start:start + size]]


def one_hot_of_the_nearest(logits):
    delta = torch.zeros(logits.shape)
    for i in range(len(logits)):
        delta[i, torch.argmax(functional.softmax(logits[i].detach(), dim=0))] = 1
    return delta


def literal_training(kind, epochs, *, normalize=True, optimizer=torch.optim.Adadelta, weight=0.01):
    """The released loop; the network as it ends, and each epoch's two losses."""
    rows = []
    with first_weights(kind) as (net, generator):
        steps = optimizer(net.parameters())
        for epoch in range(epochs):
            net.train()
            seen = []
            for batch in full_batches(torch.tensor(X), generator):
                z = net.encode(batch)
                logits = net.cluster_layer(z.detach() if epoch % 2 == 0 else z)
                delta = one_hot_of_the_nearest(logits)
                clustering = weight / ALPHA * (2 * ALPHA - delta * logits).mean()
                reconstruction = nn.MSELoss()(net.decode(z), batch)
                steps.zero_grad()
                (reconstruction + clustering).backward()
                W = net.cluster_layer.weight
                if epoch % 2:
                    net.cluster_layer.zero_grad()
                elif normalize:
                    W.grad = functional.normalize(W.grad, dim=1) * 0.2 * ALPHA
                nearest = torch.cdist(z.detach().double(), (W.detach() / (2 * ALPHA)).double())
                seen.append((reconstruction.item(), nearest.amin(1).square().mean().item()))
                steps.step()
                W.data = functional.normalize(W.data, dim=1) * 2 * ALPHA
            rows.append(np.mean(seen, axis=0))
    return net, np.array(rows)


def literal_centers(W, z, generator, epochs):
    """Spherical k-means in small batches: the released step of the centers on fixed samples."""
    W = nn.Parameter(W.clone())
    steps = torch.optim.Adadelta([W])
    for _ in range(epochs):
        for batch in full_batches(z, generator):
            literal_center_step(W, batch, steps)
    return W.detach()


def literal_center_step(W, batch, steps):
    logits = batch @ W.T
    loss = 0.01 / ALPHA * (2 * ALPHA - one_hot_of_the_nearest(logits) * logits).mean()
    steps.zero_grad()
    loss.backward()
    W.grad = functional.normalize(W.grad, dim=1) * 0.2 * ALPHA
    steps.step()
    W.data = functional.normalize(W.data, dim=1) * 2 * ALPHA


def assert_close(found, expected, atol=1e-6):
    torch.testing.assert_close(found, expected, rtol=0, atol=atol, check_stride=False)


@pytest.mark.parametrize(("options", "epochs", "atol"), [
    pytest.param(FCN, 4, 1e-6, id="fcn-4"),
    # Batch normalization of so few pixels makes rounding grow from step to step.
    pytest.param(CNN, 1, 2e-5, id="cnn-1"), pytest.param(CNN, 2, 5e-4, id="cnn-2"),
])
def test_a_whole_fit_is_the_released_algorithm(options, epochs, atol):
    """Batches, their order, weights and running statistics."""
    ours = tell(epochs, **options).fit(X)
    net, rows = literal_training(options["network"], epochs)
    for name, expected in zip(("reconstruction", "clustering"), rows.T, strict=True):
        np.testing.assert_allclose(ours.history_.column(name)[1], expected, rtol=0, atol=atol)
    for found, expected in zip(weights(ours).values(), net.state_dict().values(), strict=True):
        assert_close(found, expected, atol=atol)
    assert_close(torch.tensor(ours.cluster_centers_),
                 net.cluster_layer.weight.detach() / (2 * ALPHA), atol=10 * atol)


@pytest.mark.parametrize(("options", "literal"), [
    ({"normalize_gradients": False}, {"normalize": False}),
    ({"optimizer": "adam"}, {"optimizer": torch.optim.Adam}),
    ({"clustering_weight": 0.5}, {"weight": 0.5}),
])
def test_each_option_changes_what_it_says(options, literal):
    ours = tell(4, **FCN, **options).fit(X)
    net, _ = literal_training("fcn", 4, **literal)
    usual, _ = literal_training("fcn", 4)
    for found, expected in zip(weights(ours).values(), net.state_dict().values(), strict=True):
        assert_close(found, expected, atol=5e-6)
    # With Adam centers move by more than their length: their directions are compared too.
    assert_close(torch.tensor(ours.cluster_centers_),
                 net.cluster_layer.weight.detach() / (2 * ALPHA), atol=1e-4)
    assert not torch.allclose(usual.encoder[1].weight, net.encoder[1].weight, atol=1e-4) or (
        not torch.allclose(usual.cluster_layer.weight, net.cluster_layer.weight, atol=1e-5))


def test_without_a_network_it_is_spherical_k_means_in_batches():
    ours = tell(3, **NONE).fit(7 * X)
    with training.seeded(0) as generator:
        W = functional.normalize(torch.empty(K, 64).uniform_(-1 / 8, 1 / 8)) * 2 * ALPHA
        z = functional.normalize(torch.tensor(X))
        expected = literal_centers(W, z, generator, 3) / (2 * ALPHA)
    assert_close(torch.tensor(ours.cluster_centers_), expected, atol=1e-5)
    assert np.array_equal(ours.labels_, (z @ expected.T).argmax(1).numpy())
    np.testing.assert_allclose(ours.transform(3 * X), z, atol=1e-6)
    assert ours.loss_ == pytest.approx((2 - 2 * (z @ expected.T).amax(1)).mean().item(), abs=1e-5)


def test_two_stages_are_an_autoencoder_and_then_centers_on_its_embedding():
    ours = tell(2, **FCN, training="two-stage", snapshot_epochs=[1, 2]).fit(X)
    first, second = ours.at(1), ours.at(2)
    for name, part in weights(first).items():
        assert torch.equal(part, weights(second)[name]) == (name != "centers")
    assert same_weights(second, ours)
    assert [(row["stage"], row["epoch"]) for row in ours.history_.rows] == [
        ("reconstruction", 1), ("reconstruction", 2), ("centers", 1), ("centers", 2)]

    x, rows = torch.tensor(X), []
    with first_weights("fcn") as (net, generator):
        steps = torch.optim.Adadelta([*net.encoder.parameters(), *net.decoder.parameters()])
        for _ in range(2):
            seen = []
            for batch in full_batches(x, generator):
                loss = (net.decode(net.encode(batch)) - batch).square().mean()
                steps.zero_grad()
                loss.backward()
                steps.step()
                seen.append(loss.item())
            rows.append(np.mean(seen))
        net.eval()
        with torch.no_grad():
            z = net.encode(x)
        centers = literal_centers(net.cluster_layer.weight.detach(), z, generator, 2) / (2 * ALPHA)
    assert_close(torch.tensor(ours.transform(X)), z, atol=5e-6)
    assert_close(torch.tensor(ours.cluster_centers_), centers, atol=2e-5)
    np.testing.assert_allclose(ours.history_.column("reconstruction")[1], rows, atol=1e-6)


# --- the contract of an estimator ---------------------------------------------------------------

TINY = {"embedding_size": 2, "epochs": 2, "batch_size": 16, "random_state": 0, "device": "cpu"}


@pytest.mark.filterwarnings("ignore:batch_size 16 is larger than the data")
@parametrize_with_checks([TELL(2, network="fcn", hidden=(8,), **TINY)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("options", "how"), [
    (CNN, "end-to-end"), (FCN, "two-stage"), (NONE, "end-to-end")], ids=["cnn", "fcn", "none"])
def test_what_was_learnt_fits_together(options, how):
    model = tell(2, **options, training=how).fit(X)
    labels = model.labels_
    assert labels.dtype == np.int64 and labels.shape == (200,)
    assert np.array_equal(model.predict(X), labels)
    z, centers = model.transform(X), model.cluster_centers_
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1, atol=1e-6)
    distances = np.square(z[:, None].astype(float) - centers).sum(2)
    assert np.array_equal(labels, distances.argmin(1))
    assert model.loss_ == pytest.approx(distances.min(1).mean(), abs=1e-5)
    assert len(model.get_feature_names_out()) == z.shape[1]
    pickled = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(pickled.reconstruct_centers(), model.reconstruct_centers())
    assert same_weights(pickled, model) and np.array_equal(pickled.predict(X), labels)


def test_the_history_has_each_epoch_and_its_evaluations():
    model = tell(5, **FCN, evaluate_every=2).fit(X, Y)
    rows = model.history_.rows
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4, 5]
    assert [row["epoch"] for row in rows if "loss" in row] == [2, 4, 5]
    assert all({"reconstruction", "clustering", "stage"} <= row.keys() for row in rows)
    last = rows[-1]
    assert last["loss"] == model.loss_
    assert last["occupied"] == len(set(model.labels_.tolist()))
    expected = metrics.scores(Y, model.labels_)
    assert {name: last[name] for name in expected} == expected
    assert rows[-1]["reconstruction"] < rows[0]["reconstruction"]
    without = tell(5, **FCN, evaluate_every=2).fit(X)           # classes influence nothing
    assert same_weights(model, without) and np.array_equal(model.labels_, without.labels_)
    assert not expected.keys() & without.history_.rows[-1].keys()


def test_first_centers_may_be_samples():
    model = tell(0, **FCN, init="samples").fit(X)
    z = model.transform(X)
    distances = np.square(model.cluster_centers_[:, None] - z).sum(2)
    nearest = distances.argmin(1)
    assert distances.min(1).max() < 1e-10 and len(set(nearest.tolist())) == 10
    assert sorted(nearest) != list(range(10))                   # drawn, not the first ones


def test_a_snapshot_is_the_model_of_its_epoch():
    model = tell(2, **CNN, snapshot_epochs=(1, 2)).fit(X)
    for epoch in (1, 2):                                                 # they disturb nothing
        then, alone = model.at(epoch), tell(epoch, **CNN).fit(X)
        assert same_weights(then, alone) and np.array_equal(then.predict(X), alone.labels_)
    with pytest.raises(InputError, match=r"no snapshot of epoch '3'.*Known: 1, 2"):
        model.at(3)
    model.at(1).partial_fit(X)                                  # a snapshot is a copy
    assert same_weights(model.at(1), tell(1, **CNN).fit(X))


# --- online -------------------------------------------------------------------------------------


def test_later_samples_move_the_centers_only():
    model, later = tell(2, **CNN), PIXELS[200:350]
    assert model.partial_fit(X) is model
    fitted = tell(2, **CNN).fit(X)
    assert ends_alike(model, fitted)
    z = torch.tensor(fitted.transform(later))
    W = nn.Parameter(fitted.layer_.weight.detach().clone())
    steps = torch.optim.Adadelta([W])
    for _ in range(2):                            # the optimizer goes on where it was
        for start in (0, 64, 128):                # in the order of arrival, the last one smaller
            literal_center_step(W, z[start:start + 64], steps)
        model.partial_fit(later)
    assert_close(torch.tensor(model.cluster_centers_), W.detach() / (2 * ALPHA), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1, atol=1e-6)
    for name, part in model.network_.state_dict().items():
        assert torch.equal(part, fitted.network_.state_dict()[name]), name
    assert np.array_equal(model.labels_, model.predict(later)) and len(model.labels_) == 150


# --- save and load ------------------------------------------------------------------------------


def test_a_saved_model_comes_back_and_the_callers_random_numbers_are_left_alone(tmp_path):
    before = torch.get_rng_state()
    options = {"network": "fcn", "hidden": [7], "snapshot_epochs": range(1, 3)}
    model, path = tell(2, **options).fit(X), tmp_path / "model.pt"
    model.save(path)
    found = TELL.load(path, device="cpu")
    assert same_weights(found, model) and found.loss_ == model.loss_
    assert np.array_equal(found.predict(X), model.labels_)
    assert found._settings() == model._settings()
    assert same_weights(found.partial_fit(PIXELS[200:300]), model.partial_fit(PIXELS[200:300]))
    assert torch.equal(model.at(1).layer_.centers().norm(dim=1).round(), torch.ones(K))
    assert torch.equal(torch.get_rng_state(), before)


def test_files_that_hold_no_model_or_a_removed_setting_are_refused(tmp_path):
    path = tmp_path / "model.pt"
    model = tell(1, **FCN, checkpoint=tmp_path / "run.pt").fit(X)
    model.save(path)
    stored = torch.load(path, weights_only=True)

    def load(name="model.pt", kind="TELL", **settings):
        content = {**stored, "clusterbook": kind,
                   "settings": json.dumps(json.loads(stored["settings"]) | settings)}
        torch.save(content, path)
        return TELL.load(tmp_path / name, device="cpu")

    assert same_weights(load(n_init=1, learning_rate=None), model)      # at their old default
    (tmp_path / "cut.pt").write_bytes(path.read_bytes()[:1000])
    for wrong, says in (
            ({"n_init": 5}, "only n_init=1 is still supported"), ({"kind": "IDC"}, "holds 'IDC'"),
            ({"hidden": [4]}, "no model that TELL.save wrote"),         # another network
            ({"name": "cut.pt"}, "cut.pt is no model"), ({"name": "run.pt"}, "run.pt is no model"),
            ({"name": "missing.pt"}, r"there is no file .*missing\.pt")):
        with pytest.raises(InputError, match=says):
            load(**wrong)


# --- resume -------------------------------------------------------------------------------------


class Stop(Exception):
    """What ends a run in the middle, without the loop's doing."""


@contextmanager
def counted_steps(stop_at=None):
    """The number of the optimizers' steps so far, in a list; one of them is not taken."""
    count = [0]

    def hook(*_):
        count[0] += 1
        if count[0] == stop_at:
            raise Stop

    handle = register_optimizer_step_pre_hook(hook)
    try:
        yield count
    finally:
        handle.remove()


RUNS = {
    "fcn": ({**FCN, "epochs": 4, "init": "samples", "snapshot_epochs": [1, 3]}, 12, 8),
    "stage 1": ({**FCN, "epochs": 2, "training": "two-stage", "snapshot_epochs": [1]}, 12, 2),
    "stage 2": ({**FCN, "epochs": 2, "training": "two-stage", "snapshot_epochs": [1]}, 12, 11),
    "none": ({**NONE, "epochs": 2, "optimizer": "adam"}, 6, 4),
}


@pytest.mark.parametrize("run", RUNS)
def test_a_run_that_fails_and_is_started_again_ends_alike(tmp_path, monkeypatch, run):
    monkeypatch.setattr(Checkpoint, "due", True)                # saves after each epoch
    options, steps, at = RUNS[run]
    with counted_steps() as counted:
        whole = tell(**options).fit(X)
    assert counted[0] == steps
    kept = {**options, "checkpoint": tmp_path / "run.pt"}
    with counted_steps(at), pytest.raises(Stop):
        tell(**kept).fit(X)
    with counted_steps() as counted:
        resumed = tell(**kept).fit(X)
    assert counted[0] == steps - (at - 1) // 3 * 3             # no epoch again, none left out
    assert ends_alike(resumed, whole) and resumed.history_.seconds > 0
    for epoch in options.get("snapshot_epochs", ()):
        assert same_weights(resumed.at(epoch), whole.at(epoch))


@pytest.mark.parametrize(("changed", "rows", "says"), [
    ({"hidden": (16, 13)}, X, r"the parameter 'hidden' was \[16, 12\] and is now \[16, 13\]"),
    ({"random_state": 1}, X, "the parameter 'seed' was 0 and is now 1"),
    ({}, PIXELS[1:201], "the data differs"),
])
def test_another_runs_checkpoint_is_refused_before_training(tmp_path, changed, rows, says):
    path = tmp_path / "run.pt"
    tell(2, **FCN, checkpoint=path).fit(X)
    before = path.read_bytes()
    with counted_steps() as counted, pytest.raises(InputError, match=says):
        tell(**{**FCN, "epochs": 2, "checkpoint": path, **changed}).fit(rows)
    assert counted[0] == 0 and path.read_bytes() == before


# --- faster forms -------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [CNN, {**FCN, "training": "two-stage"}], ids=["cnn", "stages"])
def test_bfloat16_is_near_float32(options):
    fine = tell(4, **options).fit(X)
    coarse = tell(4, **options, precision="bfloat16").fit(X)
    assert not same_weights(fine, coarse)
    for name, atol in (("reconstruction", 0.01), ("clustering", 0.1)):
        np.testing.assert_allclose(coarse.history_.column(name)[1],
                                   fine.history_.column(name)[1], rtol=0, atol=atol)
    assert all(part.dtype in (torch.float32, torch.int64) for part in weights(coarse).values())
    assert coarse.transform(X).dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(coarse.cluster_centers_, axis=1), 1, atol=1e-6)


def test_the_compiled_form_is_near_the_plain_one(monkeypatch):
    # Traced as in use; the translation to machine code, which takes seconds, is torch's own.
    compile_, forms = torch.compile, []
    monkeypatch.setattr(torch, "compile", lambda losses, mode: (
        forms.append(mode), compile_(losses, backend="eager"))[1])
    options = {**FCN, "hidden": (6,), "dropout": 0.0}
    plain = tell(2, **options).fit(X)
    compiled = tell(2, **options, compile=True).fit(X)
    for name in ("reconstruction", "clustering"):
        np.testing.assert_allclose(compiled.history_.column(name)[1],
                                   plain.history_.column(name)[1], rtol=0, atol=1e-4)
    np.testing.assert_allclose(compiled.cluster_centers_, plain.cluster_centers_, atol=1e-3)
    assert forms == [None]                                      # on a GPU "reduce-overhead"
