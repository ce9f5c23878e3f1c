"""DeepCluster as a whole: its epochs, its estimator, its images."""

import copy

import numpy as np
import pytest
import torch
from _fits import everything, generators, written
from PIL import Image
from torch import nn

from clusterbook import datasets, deepcluster, training
from clusterbook.checks import InputError
from clusterbook.deepcluster import DeepCluster, clustering, estimator, networks
from clusterbook.deepcluster.networks import ArrayImages, ConvNet

DIGITS = datasets.load("digits")
X, Y, SHAPE = DIGITS.X[:150], DIGITS.y[:150], DIGITS.image_shape


def deep(**options):
    settings = {"n_clusters": 8, "image_shape": SHAPE, "n_components": 16, "epochs": 2,
                "batch_size": 64, "flip": False, "random_state": 0, "device": "cpu"}
    return DeepCluster(**{**settings, **options})


IMAGES = torch.from_numpy(X).view(-1, *SHAPE)
FOLDER = {"n_clusters": 3, "n_components": 2, "epochs": 1, "image_shape": (3, 16, 16),
          "batch_size": 4}


@pytest.fixture
def folder(tmp_path):
    """Two folders of five images in color and one in gray."""
    rng = np.random.default_rng(0)
    for i in range(12):
        path = tmp_path / "images" / ("cats" if i < 6 else "dogs") / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (70, 80, 3) if i % 6 else (40, 40), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    return tmp_path / "images"


def test_an_epoch_is_the_released_algorithm(monkeypatch):
    """Against the steps written out: which images, which classes, both optimizers, new heads."""
    found, seeds, seen, heads = [], [], [], []
    kmeans, initialize, batches = clustering.kmeans, networks.initialize, ArrayImages.batches

    def clustered(*args, **options):
        seeds.append(options["seed"])
        found.append(kmeans(*args, **options))
        return found[-1]

    def batched(images, batch_size, rows=None, generator=None):
        for part in [] if generator is None else rows.split(batch_size):
            seen.append(part)
        return batches(images, batch_size, rows)                # without augmentation

    def initialized(module):
        initialize(module)
        if isinstance(module, nn.Linear):
            heads.append(copy.deepcopy(module))

    monkeypatch.setattr(clustering, "kmeans", clustered)
    monkeypatch.setattr(ArrayImages, "batches", batched)
    monkeypatch.setattr(networks, "initialize", initialized)
    ours = deep(epochs=3, weight_decay=1e-2).fit(X)

    with training.seeded(0):
        network = ConvNet(SHAPE)
    images = (IMAGES - IMAGES.mean()) / IMAGES.std(correction=0)
    body = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-2)
    assert len(heads) == 3 and len(seen) == 9           # each epoch has a new classifier
    assert len(set(seeds)) == 4                         # and k-means, another seed
    assert heads[0].weight.std().item() == pytest.approx(0.01, rel=0.1)
    shown = torch.bincount(found[0].labels[torch.cat(seen[:3])])
    assert shown.sum() == 150 and shown.max() - shown.min() <= 1        # uniform over the clusters
    for epoch in range(3):
        labels = found[epoch].labels
        network.eval()
        with torch.no_grad():
            features = network.features(images)
        # The clusters of this epoch are of this network, reduced, and near its own centers.
        reduced = deepcluster.reduce(features, deepcluster.fit_reduction(features, 16))
        means = torch.stack([reduced[labels == j].mean(0) for j in range(8)])
        assert (clustering.assign(reduced, means)[0] == labels).float().mean() > 0.9
        head = heads[epoch]
        top = torch.optim.SGD(head.parameters(), lr=0.05, weight_decay=1e-2)
        network.train()
        for rows in seen[3 * epoch: 3 * epoch + 3]:
            logits = head(torch.relu(network.features(images[rows])))
            loss = nn.CrossEntropyLoss()(logits, labels[rows])
            body.zero_grad(), top.zero_grad()
            loss.backward()
            body.step(), top.step()
        np.testing.assert_array_equal(ours.assignments_[epoch], labels)
    assert ours.history_.rows[-1]["loss"] < ours.history_.rows[0]["loss"]
    for name, tensor in network.state_dict().items():
        torch.testing.assert_close(ours.network_.state_dict()[name], tensor, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(ours.assignments_[3], ours.labels_)


def test_features_are_computed_in_evaluation_mode_and_training_is_not(monkeypatch):
    modes, features = [], ConvNet.features
    monkeypatch.setattr(ConvNet, "features", lambda self, images: (
        images.is_meta or modes.append((self.training, torch.is_grad_enabled(), len(images))),
        features(self, images))[1])
    deep(epochs=1, batch_size=50).fit(X[:101])
    clustered = [(False, False, 50), (False, False, 50), (False, False, 1)]
    assert modes == [*clustered, (True, True, 50), (True, True, 50), *clustered]


def test_more_images_than_pca_samples_are_reduced_by_a_random_part(monkeypatch):
    monkeypatch.setattr(estimator, "PCA_SAMPLES", 60)
    taken, fit = [], clustering.fit_reduction
    monkeypatch.setattr(clustering, "fit_reduction", lambda batches, *args, **options: (
        taken.append(torch.cat(batches := list(batches))), fit(batches, *args, **options))[1])
    model = deep().fit(X)
    rows = torch.cdist(taken[-1], torch.from_numpy(model.features(X))).argmin(1)
    assert [*map(len, taken)] == [60] * 3 and len(set(rows.tolist())) == 60 and rows.max() > 100
    assert model.transform(X).shape == (150, 16)


def test_a_clustering_is_compared_with_the_previous_one():
    first, previous, last = [0, 0, 1, 1, 2], [0, 1, 0, 1, 1], [2, 1, 2, 1, 1]
    row = estimator.describe(np.array([first, previous, last]), 3, y=last)
    assert row.pop("sizes").tolist() == [0, 3, 2]
    # The same two clusters under other names; with the first it shares less.
    assert row == pytest.approx({"active": 2, "smallest": 2, "largest": 3, "nmi_previous": 1,
                                 "churn": 0, "nmi_labels": 1})
    row = estimator.describe(np.array([previous, first]), 3, y=None)
    assert row["churn"] == pytest.approx(3 / 5)                     # two can be matched


def test_a_probe_reads_classes_and_is_tested_on_a_fifth_of_each(monkeypatch):
    model, seen = deep(epochs=1).fit(X), []
    assert 0.4 < model.linear_probe(DIGITS.X[:400], DIGITS.y[:400], layer=3) <= 1
    for layer in (0, 4, "conv1"):
        with pytest.raises(InputError, match=r"layer must be one of \['features', 1, 2, 3\], not"):
            model.linear_probe(X, Y, layer=layer)
    monkeypatch.setattr(networks, "linear_accuracy", lambda *parts: seen.append(parts) or 0.5)
    with pytest.raises(InputError, match="X_test and y_test go together"):
        model.linear_probe(X, Y, X_test=X)
    model.linear_probe(X[:100], np.arange(100) % 5)
    (_, y, _, y_test), = seen
    assert np.bincount(y).tolist() == [16] * 5 and np.bincount(y_test).tolist() == [4] * 5


def test_an_array_and_files_give_the_same_and_leave_random_numbers_alone(tmp_path):
    rows = np.round(X * 255) / np.float32(255)
    files, quiet = written(tmp_path / "images", rows), {"crop_scale": None, "epochs": 1}
    before = generators()
    array, streamed = deep(**quiet).fit(rows), deep(**quiet).fit(files)
    streamed.linear_probe(files, Y, layer=1)
    assert generators() == before
    torch.testing.assert_close(array.pixel_mean_, streamed.pixel_mean_)
    np.testing.assert_array_equal(array.assignments_[0], streamed.assignments_[0])
    np.testing.assert_allclose(array.features(rows), array.features(files), atol=1e-5)
    np.testing.assert_allclose(array.features(rows), streamed.features(rows), atol=1e-3)


def test_a_folder_is_read_in_order_by_any_number_of_workers(folder):
    classes = datasets.find_images(folder).labels()[0]
    alone, helped = (deep(**FOLDER, num_workers=n).fit(folder, classes) for n in (0, 2))
    assert everything(alone) == everything(helped)
    held = datasets.load(f"folder:{folder}", image_size=16)         # the same middle squares
    assert np.corrcoef(alone.features(folder).ravel(), alone.features(held.X).ravel())[0, 1] > 0.99
    (folder / "cats/02.png").write_bytes((folder / "cats/01.png").read_bytes()[:200])
    with pytest.raises(InputError, match=r"1 of 12 images can't be used: cats/02.png \(.*\); rep"):
        deep(num_workers=2).fit(folder)
    (folder / "cats/02.png").unlink()
    for options, says in (({"resize": 15}, "resize=15 is smaller than what is cropped .* 16 x 16"),
                          ({"image_shape": (2, 16, 16)}, "have 1 or 3 channels, not 2")):
        with pytest.raises(InputError, match=says):
            deep(**{**FOLDER, **options}).fit(folder)
    gray = deep(**{**FOLDER, "epochs": 0, "image_shape": (1, 16, 16), "resize": 24}).fit(folder)
    assert gray.pixel_mean_.shape == (1,) and np.array_equal(gray.predict(folder), gray.labels_)
    (folder.parent / "new").mkdir()
    (folder / "cats/01.png").rename(folder.parent / "new" / "one.png")
    assert len(gray.predict(folder.parent / "new")) == 1, "a folder of one image"
