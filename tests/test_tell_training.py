"""TELL's training against the released algorithm, its options, history and snapshots."""

import pickle
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from _fits import everything, same, weights
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from clusterbook import TELL, training
from clusterbook.checks import InputError
from clusterbook.tell import ClusterLayer, ConvAutoencoder, DenseAutoencoder

PIXELS = load_digits().data
PIXELS = (PIXELS / 16).astype(np.float32)
X = PIXELS[:200]                                        # three batches of 64, and 8 are left out
K, SIZE, HIDDEN, ALPHA = 10, 5, (16, 12), 1e-3
CNN = {"network": "cnn", "image_shape": (1, 8, 8)}
FCN = {"network": "fcn", "image_shape": (1, 8, 8), "hidden": HIDDEN}
NONE = {"network": "none"}


def tell(epochs=4, **options):
    settings = {"n_clusters": K, "embedding_size": SIZE, "batch_size": 64, "random_state": 0,
                "device": "cpu"}
    return TELL(**{**settings, "epochs": epochs, **options})


def released(side, size):
    """The released network for images of one channel, in its order: encoder and decoder."""
    down, up, flip, pixels = [], [], nn.ConvTranspose2d, side // 4
    for n, m, stride in ((1, 16, 1), (16, 32, 2), (32, 32, 1), (32, 16, 2)):
        down += [nn.Conv2d(n, m, 3, stride, padding=1), nn.BatchNorm2d(m), nn.ReLU()]
    for n, m, stride in ((16, 32, 2), (32, 32, 1), (32, 16, 2)):
        up += [flip(n, m, 3, stride, padding=1, output_padding=stride - 1), nn.BatchNorm2d(m),
               nn.ReLU()]
    encoder = [*down, nn.Flatten(), nn.Linear(16 * pixels ** 2, 256), nn.ReLU(),
               nn.Linear(256, size)]
    decoder = [nn.Linear(size, 256), nn.ReLU(), nn.Linear(256, 16 * pixels ** 2),
               nn.Unflatten(1, (16, pixels, pixels)), *up, flip(16, 1, 3, padding=1), nn.Sigmoid()]
    return encoder, decoder


class Literal(nn.Module):
    """The released network, its layers one by one, with another's first weights."""

    def __init__(self, kind, side=8, size=SIZE, given=None):
        super().__init__()
        self.shape = (1, side, side) if kind == "cnn" else (64,)
        if kind == "cnn":
            encoder, decoder = released(side, size)
        else:
            a, b = HIDDEN
            encoder = [nn.Dropout(0.2), nn.Linear(64, a), nn.ReLU(), nn.Dropout(0.2),
                       nn.Linear(a, b), nn.ReLU(), nn.Dropout(0.2), nn.Linear(b, SIZE)]
            decoder = [nn.Linear(SIZE, b), nn.ReLU(), nn.Linear(b, a), nn.ReLU(),
                       nn.Linear(a, 64), nn.Sigmoid()]
        self.encoder, self.decoder = nn.Sequential(*encoder), nn.Sequential(*decoder)
        self.cluster_layer = nn.Linear(size, K, bias=False)
        if given is not None:
            self.load_state_dict({name: tensor.clone() for name, tensor
                                  in zip(self.state_dict(), given, strict=True)})
        self.to(memory_format=torch.contiguous_format)

    def encode(self, x):
        return functional.normalize(self.encoder(x.reshape(-1, *self.shape)))

    def decode(self, z):
        return self.decoder(z).flatten(1)


@contextmanager
def first_weights(kind):
    """The released network with the weights and random numbers that the library begins with."""
    with training.seeded(0) as generator:
        network = (ConvAutoencoder((1, 8, 8), SIZE) if kind == "cnn"
                   else DenseAutoencoder(64, HIDDEN, SIZE))
        layer = ClusterLayer(K, SIZE, ALPHA)
        with torch.random.fork_rng([]):                         # its own first weights do not count
            net = Literal(kind, given=[*network.state_dict().values(), layer.weight.detach()])
        yield net, generator


def full_batches(x, generator, size=64):
    order = torch.randperm(len(x), generator=generator)
    return list(x[order].split(size))[:len(x) // size]


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


def literal_centers(W, batches):
    """Spherical k-means in small batches: the released step of the centers on fixed samples."""
    W = nn.Parameter(W.detach().clone())
    steps = torch.optim.Adadelta([W])
    for batch in batches:
        logits = batch @ W.T
        loss = 0.01 / ALPHA * (2 * ALPHA - one_hot_of_the_nearest(logits) * logits).mean()
        steps.zero_grad()
        loss.backward()
        W.grad = functional.normalize(W.grad, dim=1) * 0.2 * ALPHA
        steps.step()
        W.data = functional.normalize(W.data, dim=1) * 2 * ALPHA
    return W.detach() / (2 * ALPHA)


def assert_close(found, expected, atol=1e-6):
    torch.testing.assert_close(found, expected, rtol=0, atol=atol, check_stride=False)


@pytest.mark.parametrize(("options", "epochs", "atol", "literal"), [
    (FCN, 4, 1e-6, {}), ({**FCN, "normalize_gradients": False}, 4, 5e-6, {"normalize": False}),
    ({**FCN, "optimizer": "adam"}, 4, 1e-5, {"optimizer": torch.optim.Adam}),
    ({**FCN, "clustering_weight": 0.5}, 4, 5e-6, {"weight": 0.5}),
    # Batch normalization of so few pixels makes rounding grow from step to step.
    (CNN, 1, 2e-5, {}), (CNN, 2, 5e-4, {})],
    ids=["fcn", "unnormalized", "adam", "weight", "cnn-1", "cnn-2"])
def test_a_whole_fit_is_the_released_algorithm(options, epochs, atol, literal):
    """Batches, their order, weights and running statistics."""
    ours = tell(epochs, **options).fit(X)
    net, rows = literal_training(options["network"], epochs, **literal)
    for name, expected in zip(("reconstruction", "clustering"), rows.T, strict=True):
        np.testing.assert_allclose(ours.history_.column(name)[1], expected, rtol=0, atol=atol)
    for found, expected in zip(weights(ours).values(), net.state_dict().values(), strict=True):
        assert_close(found, expected, atol=atol)
    assert_close(torch.tensor(ours.cluster_centers_),
                 net.cluster_layer.weight.detach() / (2 * ALPHA), atol=10 * atol)


def test_two_stages_are_an_autoencoder_and_then_centers_on_its_embedding():
    ours = tell(2, **FCN, training="two-stage").fit(X)
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
        centers = literal_centers(net.cluster_layer.weight, (
            batch for _ in range(2) for batch in full_batches(z, generator)))
    assert_close(torch.tensor(ours.transform(X)), z, atol=5e-6)
    assert_close(torch.tensor(ours.cluster_centers_), centers, atol=2e-5)
    np.testing.assert_allclose(ours.history_.column("reconstruction")[1], rows, atol=1e-6)


@pytest.mark.parametrize("options", [
    {"image_shape": (1, 8, 8)}, {}, {**FCN, "training": "two-stage"}, NONE], ids=str)
def test_fitted_attributes_agree(options):
    model = tell(2, **options).fit(X)
    labels, z, centers = model.labels_, model.transform(X), model.cluster_centers_
    assert labels.dtype == np.int64 and np.array_equal(model.predict(X), labels)
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1, atol=1e-6)
    distances = np.square(z[:, None].astype(float) - centers).sum(2)
    assert np.array_equal(labels, distances.argmin(1))
    assert model.loss_ == pytest.approx(distances.min(1).mean(), abs=1e-5)
    decoded = model.reconstruct_centers()
    assert decoded.shape == (K, 64) and (options != NONE or np.array_equal(decoded, centers))
    pickled = pickle.loads(pickle.dumps(model))
    assert same(pickled, model) and np.array_equal(pickled.predict(X), labels)


def test_a_snapshot_is_the_model_of_its_epoch():
    model = tell(2, **CNN, snapshot_epochs=(1, 2)).fit(X)
    for epoch in (1, 2):                                                 # they disturb nothing
        then, alone = model.at(epoch), tell(epoch, **CNN).fit(X)
        assert same(then, alone) and np.array_equal(then.predict(X), alone.labels_)
    with pytest.raises(InputError, match=r"unknown snapshot of epoch: '3'.*Known: 1, 2"):
        model.at(3)
    model.at(1).partial_fit(X)                                  # a snapshot is a copy
    assert same(model.at(1), tell(1, **CNN).fit(X))


def test_two_stages_begin_at_samples_that_the_trained_autoencoder_embeds():
    model = tell(3, **FCN, training="two-stage", init="samples", clustering_weight=0.0).fit(X)
    cosines = model.cluster_centers_ @ model.transform(X).T         # with no weight, none moves
    np.testing.assert_allclose(cosines.max(1), 1, atol=1e-5)


def test_later_samples_move_the_centers_only():
    model, later = tell(2, **CNN), PIXELS[200:350]
    assert model.partial_fit(X) is model
    fitted = tell(2, **CNN).fit(X)
    assert everything(model) == everything(fitted)
    for _ in range(2):                            # the optimizer goes on where it was
        model.partial_fit(later)
    # In the order of arrival, the last batch smaller.
    batches = 2 * torch.tensor(fitted.transform(later)).split(64)
    expected = literal_centers(fitted.layer_.weight, batches)
    assert_close(torch.tensor(model.cluster_centers_), expected, atol=1e-5)
    assert same(model, fitted, "network")
    assert np.array_equal(model.labels_, model.predict(later)) and len(model.labels_) == 150
    with pytest.raises(InputError, match="optimizer"):
        fitted.set_params(optimizer="sgd").partial_fit(later)
    with pytest.raises(InputError, match="n_clusters is 4, and the model was fitted with 10"):
        model.set_params(n_clusters=4).partial_fit(later)


@pytest.mark.parametrize("options", [CNN, {**FCN, "training": "two-stage"}], ids=str)
def test_the_faster_form_is_near_the_plain_one(options):
    fine, coarse = tell(4, **options).fit(X), tell(4, **options, precision="bfloat16").fit(X)
    assert not same(fine, coarse)
    for name, near in (("reconstruction", 0.01), ("clustering", 0.1 if options == CNN else 0.01)):
        np.testing.assert_allclose(coarse.history_.column(name)[1],
                                   fine.history_.column(name)[1], rtol=0, atol=near)
    assert all(part.dtype in (torch.float32, torch.int64) for part in weights(coarse).values())
    np.testing.assert_allclose(np.linalg.norm(coarse.cluster_centers_, axis=1), 1, atol=1e-6)


def test_the_released_network_predicts_and_decodes_as_its_authors_code(tmp_path):
    with training.seeded(0):
        net, images = Literal("cnn", 28, 10), torch.rand(50, 1, 28, 28)
        net.decode(net.encode(images))                  # running averages of their own
        centers = net.eval().encode(images[:10]).detach()
        net.cluster_layer.weight.data = 2 * 0.001 * centers
    file = tmp_path / "checkpoint_3000.tar"
    torch.save({"net": net.state_dict(), "optimizer": torch.optim.Adadelta(
        net.parameters()).state_dict(), "epoch": 3000}, file)
    tell = TELL.from_released(file)
    with torch.no_grad():
        expected = torch.cdist(net.encode(images), centers).argmin(1).numpy()
        decoded = net.decode(centers).numpy()
    assert len(set(expected.tolist())) > 5
    np.testing.assert_array_equal(tell.predict(images.flatten(1).numpy()), expected)
    np.testing.assert_allclose(tell.reconstruct_centers(), decoded, atol=1e-5)
    for content in ({"net": dict(list(net.state_dict().items())[:-1])}, None):
        torch.save(content, file)
        with pytest.raises(InputError, match="is not checkpoint_3000.tar of XLearning-SCU"):
            TELL.from_released(file)
