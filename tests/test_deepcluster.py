"""DeepCluster as a whole: its epochs, its estimator, its images, resume."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset, TensorDataset

import clusterbook
from clusterbook import datasets, training
from clusterbook.checkpoints import Checkpoint
from clusterbook.deepcluster import (
    ConvNet,
    DeepCluster,
    assign,
    churn,
    epoch_indices,
    estimator,
    fit_reduction,
    geometric_nmi,
    kmeans,
    reduce,
)
from clusterbook.deepcluster.images import ArrayImages, ImageFiles, StreamedImages
from clusterbook.errors import InputError

DIGITS = datasets.load("digits")
X, Y, SHAPE = DIGITS.X[:150], DIGITS.y[:150], DIGITS.image_shape
SWITCHES = [{"whiten": False}, {"normalize": False}, {"renew_classifier": False},
            {"sampling": "natural"}, {"sobel": False}, {"crop_scale": None}, {"flip": True},
            {"n_components": 4}, {"n_clusters": 6}, {"learning_rate": 0.01}, {"momentum": 0.0},
            {"weight_decay": 0.1}, {"batch_size": 50}, {"kmeans_max_iter": 1},
            {"kmeans_n_init": 10}, {"pca_samples": 60}, {"pixel_statistics": ((0.1,), (0.2,))}]


def deep(**options):
    settings = {"n_clusters": 8, "image_shape": SHAPE, "n_components": 16, "epochs": 2,
                "batch_size": 64, "flip": False, "random_state": 0, "device": "cpu"}
    return DeepCluster(**{**settings, **options})


class Vectors(nn.Module):
    """A network for rows that are no images."""

    n_features = 16

    def __init__(self, shape):
        super().__init__()
        self.layer = nn.Linear(shape[0], 16)

    def features(self, rows):
        return self.layer(rows)


class Pictures(Dataset):
    """Images of an array, one by one, each with a target."""

    def __init__(self, rows=X, broken=(), as_pictures=False):
        self.images = torch.from_numpy(rows).view(-1, *SHAPE)
        self.broken, self.as_pictures = broken, as_pictures

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        if index in self.broken:
            raise OSError("the disk is gone")
        return self.images[index], -1


@pytest.fixture
def folder(tmp_path):
    """Two folders of five color images, 70 x 80 pixels each."""
    rng = np.random.default_rng(0)
    for i in range(10):
        path = tmp_path / "images" / ("cats" if i < 5 else "dogs") / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (70, 80, 3), dtype=np.uint8)).save(path)
    (tmp_path / "images" / "notes.txt").write_text("no image")
    return tmp_path / "images"


def from_folder(**options):
    return deep(n_clusters=3, n_components=2, epochs=1, image_shape=(3, 16, 16), batch_size=4,
                **options)


def weights(model):
    return model.network_.state_dict()


def same(one, other):
    mine, theirs = weights(one), weights(other)
    return (mine.keys() == theirs.keys() and all(torch.equal(mine[k], theirs[k]) for k in mine)
            and np.array_equal(one.labels_, other.labels_)
            and np.array_equal(one.cluster_centers_, other.cluster_centers_))


def without_seconds(history):
    return [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in history.rows]


# --- the algorithm ------------------------------------------------------------------------------


def test_an_epoch_is_the_released_algorithm(monkeypatch):
    """Against the steps written out: which images, which classes, both optimizers, new heads."""
    labels, orders, seen = [], [], []
    found = DeepCluster._cluster

    def clustered(*args):
        result = found(*args)
        labels.append(result[0].labels.clone())
        return result

    def indices(*args):
        orders.append(epoch_indices(*args))
        return orders[-1]

    def trained(images, rows, batch_size, generator):
        for part in rows.split(batch_size):
            seen.append(part)
            yield images.images[part]

    monkeypatch.setattr(DeepCluster, "_cluster", clustered)
    monkeypatch.setattr(estimator, "epoch_indices", indices)
    monkeypatch.setattr(ArrayImages, "for_training", trained)
    heads = []
    renew = estimator.renew
    monkeypatch.setattr(estimator, "renew", lambda head: (renew(head), heads.append(
        [p.detach().clone() for p in head.parameters()])))
    ours = deep(epochs=3, weight_decay=1e-2).fit(X)

    with training.seeded(0):
        network = ConvNet(SHAPE)
    images = torch.from_numpy(X).view(-1, *SHAPE)
    images = (images - images.mean()) / images.std(correction=0)
    body = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-2)
    assert len(heads) == 3 and len(seen) == 9
    for epoch in range(3):
        network.eval()
        with torch.no_grad():
            features = network.features(images)
        # The clusters of this epoch are of this network, reduced, and near its own centers.
        reduced = reduce(features, fit_reduction(features, 16))
        means = torch.stack([reduced[labels[epoch] == j].mean(0) for j in range(8)])
        assert (assign(reduced, means)[0] == labels[epoch]).float().mean() > 0.9
        head = nn.Linear(network.n_features, 8)
        with torch.no_grad():
            for mine, theirs in zip(head.parameters(), heads[epoch], strict=True):
                mine.copy_(theirs)
        top = torch.optim.SGD(head.parameters(), lr=0.05, weight_decay=1e-2)
        network.train()
        for rows in seen[3 * epoch: 3 * epoch + 3]:
            loss = nn.CrossEntropyLoss()(head(torch.relu(network.features(images[rows]))),
                                         labels[epoch][rows])
            body.zero_grad(), top.zero_grad()
            loss.backward()
            body.step(), top.step()
        np.testing.assert_array_equal(ours.assignments_[epoch], labels[epoch])
    for name, tensor in network.state_dict().items():
        torch.testing.assert_close(weights(ours)[name], tensor, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(ours.assignments_[3], ours.labels_)


def test_a_renewed_classifier_begins_at_the_released_codes_weights():
    head = nn.Linear(500, 400)
    with training.seeded(0):
        estimator.renew(head)
    assert head.weight.std().item() == pytest.approx(0.01, rel=0.01) and not head.bias.any()


def test_the_classifier_is_renewed_each_epoch_unless_asked(monkeypatch):
    calls = []
    renew = estimator.renew
    monkeypatch.setattr(estimator, "renew", lambda head: (renew(head), calls.append(1)))
    deep(epochs=4).fit(X)
    assert len(calls) == 4
    deep(epochs=4, renew_classifier=False).fit(X)
    assert len(calls) == 5


def test_each_epochs_k_means_begins_elsewhere(monkeypatch):
    seeds = []
    monkeypatch.setattr(estimator, "kmeans", lambda *args, **options: (
        seeds.append(options["seed"]), kmeans(*args, **options))[1])
    for seed in (0, 0, 1):
        deep(epochs=2, random_state=seed).fit(X)
    assert len(set(seeds[:3])) == 3 and seeds[:3] == seeds[3:6]
    assert not set(seeds[:3]) & set(seeds[6:])


def test_features_are_computed_in_evaluation_mode_and_training_is_not(monkeypatch):
    modes = []
    features = ConvNet.features
    monkeypatch.setattr(ConvNet, "features", lambda self, images: (
        images.is_meta or modes.append((self.training, torch.is_grad_enabled())),
        features(self, images))[1])
    deep(epochs=1).fit(X)
    assert modes == [(False, False)] * 3 + [(True, True)] * 3 + [(False, False)] * 3


def test_safeguards_hold_against_what_they_are_for():
    """Many equal images: natural sampling shows the largest cluster most, uniform sampling not."""
    seen = {}
    for sampling in ("uniform", "natural"):
        model = deep(sampling=sampling, epochs=1).fit(X)
        labels = torch.from_numpy(model.assignments_[0]).long()
        drawn = epoch_indices(labels, 150, torch.Generator().manual_seed(0), sampling)
        seen[sampling] = np.bincount(labels[drawn], minlength=8)
    assert seen["uniform"].max() - seen["uniform"].min() <= 1
    assert np.array_equal(seen["natural"], np.bincount(labels, minlength=8))


@pytest.mark.parametrize("options", SWITCHES, ids=lambda options: next(iter(options)))
def test_every_setting_changes_what_is_learnt(options, plain=[]):   # noqa: B006
    if not plain:
        plain.append(weights(deep().fit(X)))
    found = weights(deep(**options).fit(X))
    last = "dense.0.weight"
    assert not torch.equal(found[last], plain[0][last])


# --- what is reported ---------------------------------------------------------------------------


def test_the_history_tells_of_the_clusters_that_each_epoch_learned():
    model = deep(epochs=3).fit(X, Y)
    assert model.assignments_.shape == (4, 150) and model.assignments_.dtype == np.int32
    for t, row in enumerate(model.history_.rows):
        labels = model.assignments_[t]
        sizes = np.bincount(labels, minlength=8)
        assert row["sizes"] == sizes.tolist() and row["active"] == (sizes > 0).sum() == 8
        assert (row["smallest"], row["largest"]) == (sizes.min(), sizes.max())
        assert row["nmi_labels"] == pytest.approx(geometric_nmi(Y, labels))
        assert 0 < row["loss"] < 4 and 0 < row["inertia"] < 1
        assert min(row["feature_seconds"], row["clustering_seconds"],
                   row["training_seconds"]) > 0
        if t:
            before = model.assignments_[t - 1]
            assert row["nmi_previous"] == pytest.approx(geometric_nmi(before, labels))
            assert row["churn"] == pytest.approx(churn(before, labels)) and row["churn"] > 0
        else:
            assert not {"nmi_previous", "churn"} & set(row)
    epochs, sizes = model.history_.column("sizes")
    assert sizes.shape == (3, 8) and epochs.tolist() == [1, 2, 3]


def test_classes_influence_nothing():
    with_classes, without = deep().fit(X, Y), deep().fit(X)
    assert same(with_classes, without)
    assert not any("nmi_labels" in row for row in without.history_.rows)


def test_assignments_need_not_be_kept():
    kept, last = deep(epochs=3).fit(X), deep(epochs=3, keep_assignments=False).fit(X)
    assert np.array_equal(last.assignments_, kept.assignments_[-2:]) and same(kept, last)
    assert without_seconds(kept.history_) == without_seconds(last.history_)


def test_what_was_learnt_fits_together():
    model = deep().fit(X)
    assert np.array_equal(model.predict(X), model.labels_)
    assert np.array_equal(deep().fit_predict(X), model.labels_)
    z, features = model.transform(X), model.features(X)
    assert z.shape == (150, 16) and features.shape == (150, 256) and features.min() < 0
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1, rtol=1e-5)
    distances = ((z[:, None] - model.cluster_centers_) ** 2).sum(2)
    assert np.array_equal(distances.argmin(1), model.labels_)
    assert model.inertia_ == pytest.approx(distances.min(1).sum(), rel=1e-3)
    assert np.array_equal(model.used_images_, np.arange(150))


def test_it_learns_digits():
    before, after = (deep(n_clusters=20, n_components=32, epochs=e, crop_scale=(0.5, 1.0),
                          batch_size=32).fit(DIGITS.X[:600], DIGITS.y[:600]) for e in (0, 8))
    loss = after.history_.column("loss")[1]
    assert loss[-1] < 0.7 * loss[0]
    stays = after.history_.column("nmi_previous")[1]
    assert stays[-1] > stays[0]
    assert len(before.history_) == 0 and before.assignments_.shape == (1, 600)


# --- randomness, and what is left alone ----------------------------------------------------------


def test_the_seed_decides_everything_and_another_gives_another():
    one, two, other = (deep(random_state=s).fit(X) for s in (3, 3, 4))
    assert same(one, two) and not same(one, other)
    assert without_seconds(one.history_) == without_seconds(two.history_)
    assert not np.array_equal(one.labels_, other.labels_)


def test_the_callers_random_numbers_are_left_alone(folder):
    torch.manual_seed(1), np.random.seed(1), random.seed(1)             # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    model = deep().fit(X)
    model.linear_probe(X, Y, layer=1)
    from_folder().fit(folder).predict(folder)
    assert torch.equal(torch.get_rng_state(), before[0]) and random.getstate() == before[2]
    assert np.array_equal(np.random.get_state()[1], before[1])          # noqa: NPY002


def test_nothing_is_printed_or_warned_and_data_are_left_alone(capfd, recwarn):
    rows = X.copy()
    deep().fit(rows).predict(rows)
    assert np.array_equal(rows, X) and not len(recwarn)
    assert capfd.readouterr() == ("", "")


def test_a_single_last_image_is_left_out():
    model = deep(batch_size=50).fit(X[:101])
    assert len(model.labels_) == 101


# --- images ---------------------------------------------------------------------------------------


def test_an_array_and_a_data_set_give_the_same():
    array, streamed = deep().fit(X), deep().fit(Pictures())
    torch.testing.assert_close(array.pixel_mean_, streamed.pixel_mean_)
    np.testing.assert_array_equal(array.assignments_[0], streamed.assignments_[0])
    np.testing.assert_allclose(array.features(X), array.features(Pictures()), atol=1e-5)
    np.testing.assert_array_equal(array.predict(Pictures()), array.labels_)
    plain = {"crop_scale": None, "epochs": 1}       # nothing is random but the order
    array, streamed = deep(**plain).fit(X), deep(**plain).fit(Pictures())
    np.testing.assert_allclose(array.features(X), streamed.features(X), atol=1e-3)


def test_workers_change_nothing(folder):
    alone, helped = from_folder().fit(folder), from_folder(num_workers=2).fit(folder)
    assert same(alone, helped)


def test_a_folder_is_read_in_order_with_its_classes(folder):
    files = ImageFiles(folder)
    assert len(files) == 10 and files.classes == ("cats", "dogs")
    assert files.targets.tolist() == [0] * 5 + [1] * 5 and files.name(0) == "cats/0.png"
    model = from_folder().fit(folder, files.targets)
    assert model.labels_.shape == (10,) and "nmi_labels" in model.history_.rows[0]
    assert 0 <= model.linear_probe(folder, layer=1, test_size=0.4) <= 1
    flat = ImageFiles(folder / "cats")
    assert flat.classes == () and flat.targets is None and flat.name(0) == "0.png"
    with pytest.raises(InputError, match="needs the images' classes"):
        model.linear_probe(folder / "cats", layer=1)


def test_a_folder_holds_the_images_that_the_data_set_of_it_has(folder, tmp_path):
    with pytest.warns(UserWarning, match="left out: 'notes.txt'"):
        files, data = ImageFiles(folder), datasets.load(f"folder:{folder}", image_size=8)
    assert len(files) == len(data.X) and files.classes == data.classes
    np.testing.assert_array_equal(files.targets, data.y)
    Image.new("RGB", (20, 20)).save(folder / "flat.png")
    with pytest.raises(InputError, match="beside images in subfolders"):
        ImageFiles(folder)


def test_an_image_of_more_than_8_bits_is_named_not_clipped(folder):
    Image.fromarray(np.full((20, 20), 5000, dtype=np.uint16)).save(folder / "dogs" / "deep.png")
    with pytest.raises(InputError, match=r"dogs/deep.png \(more than 8 bits a channel"):
        from_folder().fit(folder)


def test_an_unreadable_image_is_named_and_refused_or_skipped(folder):
    (folder / "cats" / "2.png").write_bytes((folder / "cats" / "1.png").read_bytes()[:200])
    (folder / "dogs" / "7.png").write_text("no image at all")
    with pytest.raises(InputError, match=r"2 of 10 images can't be read: cats/2.png \(.*\), "
                                         r"dogs/7.png \(.*unreadable='skip'"):
        from_folder().fit(folder)
    with pytest.warns(UserWarning, match=r"2 of 10 images can't be read and are left out: cats/2"):
        model = from_folder(unreadable="skip").fit(folder, np.arange(10) % 2)
    assert model.used_images_.tolist() == [0, 1, 3, 4, 5, 6, 8, 9] and len(model.labels_) == 8
    with pytest.raises(InputError, match="image 3 .the disk is gone."):
        deep().fit(Pictures(broken=(3,)))


def test_gray_and_color_mixed_are_refused_or_converted(folder):
    Image.new("L", (40, 40), 100).save(folder / "cats" / "gray.png")
    with pytest.raises(InputError, match="the images are 1 gray and 10 color, such as cats/gray"):
        from_folder().fit(folder)
    assert len(from_folder(color="convert").fit(folder).labels_) == 11
    gray = from_folder(color="convert").set_params(image_shape=(1, 16, 16)).fit(folder)
    assert gray.pixel_mean_.shape == (1,)
    with pytest.raises(InputError, match="sees gray images .* but the images are 1 gray and 10"):
        from_folder().set_params(image_shape=(1, 16, 16)).fit(folder)
    with pytest.raises(InputError, match="sees color images .* but the images are 150 gray"):
        deep(image_shape=(3, 8, 8)).fit(Pictures())


@pytest.mark.parametrize(("item", "says"), [
    (torch.full((1, 8, 8), torch.nan), "NaN or infinite"), (torch.full((1, 8, 8), 3.0), "leave"),
    (torch.zeros(8, 8), "shape is"), ("text", "neither a PIL image nor a tensor")])
def test_items_that_are_no_images_are_refused(item, says):
    class Items(Dataset):
        def __len__(self):
            return 20

        def __getitem__(self, index):
            return item

    with pytest.raises(InputError, match=f"20 of 20 images can't be read: image 0 .*{says}"):
        deep().fit(Items())


def test_bytes_and_pictures_are_images_too():
    rows = torch.from_numpy((X * 255).round().astype(np.uint8)).view(-1, *SHAPE)
    streamed = StreamedImages(TensorDataset(rows), SHAPE)
    floats = StreamedImages(TensorDataset(rows.float() / 255), SHAPE)
    one, two = (next(images.for_clustering(50)) for images in (streamed, floats))
    torch.testing.assert_close(one, two)
    assert streamed.fingerprint() != StreamedImages(TensorDataset(rows[:-1]), SHAPE).fingerprint()


def test_folders_that_are_none_are_refused(tmp_path):
    with pytest.raises(InputError, match="there is no folder .*nowhere"):
        from_folder().fit(tmp_path / "nowhere")
    with pytest.raises(InputError, match="has no images"):
        from_folder().fit(str(tmp_path))


def test_the_papers_network_takes_a_tiny_folder(folder):
    model = DeepCluster(3, network="alexnet", n_components=4, epochs=1, batch_size=5, resize=256,
                        pixel_statistics="imagenet", random_state=0, device="cpu").fit(folder)
    assert model.features(folder).shape == (10, 4096) and model.transform(folder).shape == (10, 4)
    assert model.pixel_mean_.tolist() == pytest.approx([0.485, 0.456, 0.406])
    assert np.array_equal(model.predict(folder), model.labels_)
    assert np.isfinite(model.history_.rows[0]["loss"])


# --- refused before training ----------------------------------------------------------------------


@pytest.mark.parametrize(("options", "says"), [
    ({"n_clusters": 151}, "n_clusters=151 exceeds n_samples=150; ask for fewer"),
    ({"n_components": 151}, "n_components=151 exceeds n_samples=150; ask for fewer"),
    ({"n_components": 0}, "n_components must be a whole number of at least 1, not 0"),
    ({"n_clusters": 2.5}, "n_clusters must be a whole number of at least 1, not 2.5"),
    ({"batch_size": 1}, "batch_size must be a whole number of at least 2, not 1"),
    ({"epochs": -1}, "epochs must be"), ({"learning_rate": 0}, "learning_rate must be .* above 0"),
    ({"momentum": "x"}, "momentum must be a number"), ({"whiten": 1}, "whiten must be True or"),
    ({"sampling": "unifrom"}, "no sampling 'unifrom'; did you mean 'uniform'"),
    ({"kmeans_backend": "fais"}, "did you mean 'faiss'"), ({"network": "alex"}, "no network"),
    ({"image_shape": (1, 8, 9)}, "image_shape .* has 72 values, but X has 64 features"),
    ({"image_shape": None}, "needs image_shape"), ({"image_shape": 8}, "must be three positive"),
    ({"image_shape": (4, 4, 4)}, "at least 8 x 8 pixels, but these have 4 x 4"),
    ({"network": "alexnet"}, "AlexNet needs images of at least 63 x 63"),
    ({"crop_scale": (0.5, 2.0)}, "crop_scale must be None or"),
    ({"pixel_statistics": "imagnet"}, "did you mean 'imagenet'"),
    ({"pixel_statistics": ((0.5, 0.5), (1, 1))}, "means and deviations of 1 channels"),
    ({"random_state": "x"}, "random_state must be"),
    ({"resize": 0}, "resize must be a whole number of at least 1, not 0"),
    ({"unreadable": "maybe"}, "no unreadable 'maybe'"),
    ({"checkpoint": "x.pt", "random_state": None}, "a checkpoint needs random_state")])
def test_a_setting_out_of_range_is_refused_before_training(options, says, monkeypatch):
    monkeypatch.setattr(DeepCluster, "_train", None)
    with pytest.raises(InputError, match=says):
        deep(**options).fit(X)


@pytest.mark.parametrize(("rows", "says"), [
    (np.where(np.eye(150, 64) > 0, np.nan, X), "NaN"), (2 * X, r"pixels must lie in \[0, 1\]"),
    (np.full((150, 64), "red"), "could not convert string to float"), (X[:1], "minimum of 2")])
def test_data_that_are_no_images_are_refused(rows, says, monkeypatch):
    monkeypatch.setattr(DeepCluster, "_train", None)
    with pytest.raises(ValueError, match=says):
        deep().fit(rows)


def test_classes_must_be_one_an_image(monkeypatch):
    monkeypatch.setattr(DeepCluster, "_train", None)
    with pytest.raises(InputError, match="one class for each of the 150 images"):
        deep().fit(X, Y[:-1])


def test_without_faiss_its_backend_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(InputError, match="faiss is not installed"):
        deep(kmeans_backend="faiss").fit(X)


# --- the contract ---------------------------------------------------------------------------------


SMALL = DeepCluster(3, network=Vectors, n_components=2, epochs=2, batch_size=16, normalize=False,
                    kmeans_n_init=3, random_state=0, device="cpu")


@parametrize_with_checks([SMALL])
@pytest.mark.filterwarnings("ignore:batch_size 16 is larger than the data")
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_before_fit_it_says_so(tmp_path):
    for ask in (deep().predict, deep().transform, deep().features,
                lambda rows: deep().linear_probe(rows, Y), lambda _: deep().save(tmp_path / "m")):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            ask(X)


def test_the_constructor_only_stores_and_fitting_changes_no_setting():
    shape = list(SHAPE)
    model = deep(image_shape=shape)
    before = {name: repr(value) for name, value in model.get_params().items()}
    model.fit(X)
    assert {name: repr(value) for name, value in model.get_params().items()} == before
    assert model.image_shape is shape and not hasattr(clone(model), "network_")
    assert list(model.get_feature_names_out()) == [f"deepcluster{i}" for i in range(16)]


def test_the_book_offers_it():
    assert clusterbook.DeepCluster is DeepCluster is clusterbook.deepcluster.DeepCluster
    assert {"DeepCluster", "deepcluster"} <= set(dir(clusterbook))


# --- probes ---------------------------------------------------------------------------------------


def test_a_probe_reads_classes_from_each_layer():
    rows, classes = DIGITS.X[:600], DIGITS.y[:600]
    model = deep(epochs=1).fit(rows)
    for layer in (1, 3, "features"):
        given = model.linear_probe(rows[:450], classes[:450], layer=layer, X_test=rows[450:],
                                   y_test=classes[450:])
        assert 0.7 < given <= 1
    split = model.linear_probe(rows, classes, layer=1)
    assert split == model.linear_probe(rows, classes, layer=1) and 0.7 < split <= 1
    fewer = model.linear_probe(rows, classes, layer=1, most_numbers=32)
    assert fewer < split
    shuffled = np.random.default_rng(0).permutation(classes)
    assert model.linear_probe(rows, shuffled, layer=1) < 0.3
    for layer in (0, 4, "conv1", True):
        with pytest.raises(InputError, match="there is no layer"):
            model.linear_probe(rows, classes, layer=layer)


def test_a_probe_leaves_the_network_as_it_is():
    model = deep().fit(X)
    before = {k: v.clone() for k, v in weights(model).items()}
    model.linear_probe(X, Y, layer=2)
    assert all(torch.equal(before[k], v) for k, v in weights(model).items())
    images = torch.from_numpy(X[:5]).view(-1, *SHAPE)
    seen = (images - model.pixel_mean_) / model.pixel_std_
    with torch.no_grad():
        expected = functional.relu(model.network_.features(seen))
    np.testing.assert_allclose(functional.relu(torch.from_numpy(model.features(X[:5]))), expected,
                               atol=1e-5)


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"whiten": False, "n_components": None,
                                          "pixel_statistics": ((0.3,), (0.5,))}])
def test_a_saved_model_comes_back(tmp_path, options):
    model = deep(**options).fit(X)
    model.save(tmp_path / "model.pt")
    back = DeepCluster.load(tmp_path / "model.pt", device="cpu")
    assert np.array_equal(back.predict(X), model.labels_)
    np.testing.assert_array_equal(back.transform(X), model.transform(X))
    assert back.linear_probe(X, Y, layer=1) == model.linear_probe(X, Y, layer=1)
    assert back.get_params()["image_shape"] == SHAPE and back.inertia_ == model.inertia_


def test_a_network_of_ones_own_is_given_again(tmp_path):
    rows = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
    model = clone(SMALL).fit(rows)
    model.save(tmp_path / "model.pt")
    with pytest.raises(InputError, match="made by a function; give it again"):
        DeepCluster.load(tmp_path / "model.pt")
    back = DeepCluster.load(tmp_path / "model.pt", network=Vectors, device="cpu")
    assert np.array_equal(back.predict(rows), model.labels_)


def test_files_that_hold_no_model_are_refused(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        DeepCluster.load(tmp_path / "model.pt")
    (tmp_path / "model.pt").write_text("no model")
    with pytest.raises(InputError, match="no model that DeepCluster.save wrote"):
        DeepCluster.load(tmp_path / "model.pt")


# --- resume ---------------------------------------------------------------------------------------


RUNS = {
    # Three steps an epoch of arrays; seeds of streamed images and dropout are drawn anew.
    "array": ({"epochs": 4}, False, [1, 5, 12]),
    "streamed": ({"epochs": 3, "flip": True, "keep_assignments": False}, True, [4, 8]),
    "one classifier": ({"epochs": 3, "renew_classifier": False, "pca_samples": 60}, False, [7]),
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kill_9_loses_nothing(tmp_path):
    """Each run is killed at each of its deaths, started again, and ends like one never stopped."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, __file__, str(tmp_path)], env=environment, check=True,
                          capture_output=True, text=True, timeout=600)
    for name, report in json.loads(done.stdout).items():
        deaths = RUNS[name][2]
        assert report["signals"] == [signal.SIGKILL] * len(deaths) + [0], name
        assert report["end"] == report["whole"], name
        # Nothing that was finished is done again.
        total = 3 * RUNS[name][0]["epochs"]
        assert report["steps"] == total - (deaths[-1] - 1) // 3 * 3, name


def everything(model):
    """All that a fit leaves, in a form that one process can hand to another."""
    digest = hashlib.sha256()
    for name, tensor in weights(model).items():
        digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return {"weights": digest.hexdigest(), "labels": model.labels_.tolist(),
            "centers": model.cluster_centers_.tolist(), "rows": without_seconds(model.history_),
            "assignments": model.assignments_.tolist()}


def doomed(folder, options, streamed, done, at):
    """Fit in this process until SIGKILL strikes before a step, *done* steps being on disk."""
    number, step = [0], torch.optim.SGD.step

    def counted(self, *args):
        if "momentum" in self.param_groups[0] and self.param_groups[0]["momentum"]:
            number[0] += 1
            if done + number[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)
        return step(self, *args)

    torch.optim.SGD.step = counted
    model = deep(**options, checkpoint=folder / "run.pt").fit(Pictures() if streamed else X, Y)
    (folder / "end.json").write_text(json.dumps({"end": everything(model), "steps": number[0]}))


def nursery(root):
    """Import torch once, fork one child after the other, and report how each of them ended."""
    torch.set_num_threads(1)
    Checkpoint.due = property(lambda _self: True)
    reports = {}
    for name, (options, streamed, deaths) in RUNS.items():
        folder = root / name
        folder.mkdir()
        whole = everything(deep(**options).fit(Pictures() if streamed else X, Y))
        report = {"signals": [], "whole": whole}
        for before, at in zip([0, *deaths], [*deaths, None], strict=True):
            child = os.fork()
            if child == 0:
                doomed(folder, options, streamed, max(before - 1, 0) // 3 * 3, at)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            report["signals"].append(os.WTERMSIG(status) if os.WIFSIGNALED(status) else status)
        reports[name] = {**report, **json.loads((folder / "end.json").read_text())}
    print(json.dumps(reports))


@pytest.mark.parametrize(("changed", "says"), [
    ({"whiten": False}, "the parameter 'whiten' was true and is now false"),
    ({"random_state": 1}, "the parameter 'seed' was 0 and is now 1")])
def test_another_runs_checkpoint_is_refused_before_training(tmp_path, changed, says):
    path = tmp_path / "run.pt"
    deep(checkpoint=path, epochs=1).fit(X)
    with pytest.raises(InputError, match=says):
        deep(checkpoint=path, epochs=1, **changed).fit(X)
    with pytest.raises(InputError, match="the data differs"):
        deep(checkpoint=path, epochs=1).fit(X[::-1])
    assert same(deep(checkpoint=path, epochs=1).fit(X), deep(epochs=1).fit(X))


if __name__ == "__main__":
    nursery(Path(sys.argv[1]))
