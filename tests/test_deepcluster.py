"""DeepCluster as a whole: its epochs, its estimator, its images, resume."""

from __future__ import annotations

import json
import random
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

from clusterbook import datasets, deepcluster, training
from clusterbook.checkpoints import Checkpoint
from clusterbook.deepcluster import ConvNet, DeepCluster, clustering, estimator, fit_reduction
from clusterbook.deepcluster.images import ArrayImages, ImageFiles
from clusterbook.errors import InputError

DIGITS = datasets.load("digits")
X, Y, SHAPE = DIGITS.X[:150], DIGITS.y[:150], DIGITS.image_shape


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


class Items(Dataset):
    """Images one by one, each with a target; some can't be read."""

    def __init__(self, images=None, broken=()):
        self.images = torch.from_numpy(X).view(-1, *SHAPE) if images is None else images
        self.broken = broken

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
    settings = {"n_clusters": 3, "n_components": 2, "epochs": 1, "image_shape": (3, 16, 16),
                "batch_size": 4}
    return deep(**{**settings, **options})


def everything(model):
    """All that a fit leaves, but for seconds."""
    rows = [{k: v for k, v in row.items() if "seconds" not in k} for row in model.history_.rows]
    return {**{name: tensor.tolist() for name, tensor in model.network_.state_dict().items()},
            "labels": model.labels_.tolist(), "centers": model.cluster_centers_.tolist(),
            "assignments": model.assignments_.tolist(), "rows": rows}


# --- the algorithm ------------------------------------------------------------------------------


def test_an_epoch_is_the_released_algorithm(monkeypatch):
    """Against the steps written out: which images, which classes, both optimizers, new heads."""
    found, seen, heads = [], [], []
    cluster, renew = DeepCluster._cluster, estimator.renew

    def trained(images, rows, batch_size, generator):
        for part in rows.split(batch_size):
            seen.append(part)
            yield images.images[part]

    monkeypatch.setattr(DeepCluster, "_cluster", lambda *args: (
        found.append(cluster(*args)), found[-1])[1])
    monkeypatch.setattr(ArrayImages, "for_training", trained)
    monkeypatch.setattr(estimator, "renew", lambda head: (renew(head), heads.append(
        [p.detach().clone() for p in head.parameters()])))
    ours = deep(epochs=3, weight_decay=1e-2).fit(X)

    with training.seeded(0):
        network = ConvNet(SHAPE)
    images = torch.from_numpy(X).view(-1, *SHAPE)
    images = (images - images.mean()) / images.std(correction=0)
    body = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-2)
    assert len(heads) == 3 and len(seen) == 9           # each epoch has a new classifier
    weight, bias = heads[0]
    assert weight.std().item() == pytest.approx(0.01, rel=0.1) and not bias.any()
    shown = torch.bincount(found[0][0].labels[torch.cat(seen[:3])])
    assert shown.sum() == 150 and shown.max() - shown.min() <= 1        # uniform over the clusters
    for epoch in range(3):
        labels = found[epoch][0].labels
        network.eval()
        with torch.no_grad():
            features = network.features(images)
        # The clusters of this epoch are of this network, reduced, and near its own centers.
        reduced = deepcluster.reduce(features, fit_reduction(features, 16))
        means = torch.stack([reduced[labels == j].mean(0) for j in range(8)])
        assert (deepcluster.assign(reduced, means)[0] == labels).float().mean() > 0.9
        head = nn.Linear(network.n_features, 8)
        with torch.no_grad():
            for mine, theirs in zip(head.parameters(), heads[epoch], strict=True):
                mine.copy_(theirs)
        top = torch.optim.SGD(head.parameters(), lr=0.05, weight_decay=1e-2)
        network.train()
        for rows in seen[3 * epoch: 3 * epoch + 3]:
            loss = nn.CrossEntropyLoss()(head(torch.relu(network.features(images[rows]))),
                                         labels[rows])
            body.zero_grad(), top.zero_grad()
            loss.backward()
            body.step(), top.step()
        np.testing.assert_array_equal(ours.assignments_[epoch], labels)
    assert ours.history_.rows[-1]["loss"] < ours.history_.rows[0]["loss"]
    for name, tensor in network.state_dict().items():
        torch.testing.assert_close(ours.network_.state_dict()[name], tensor, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(ours.assignments_[3], ours.labels_)


def test_kmeans_of_each_epoch_has_another_seed(monkeypatch):
    seeds, kmeans = [], clustering.kmeans
    monkeypatch.setattr(clustering, "kmeans", lambda *args, **options: (
        seeds.append(options["seed"]), kmeans(*args, **options))[1])
    for seed in (0, 0, 1):
        deep(epochs=1, random_state=seed).fit(X)
    assert len(set(seeds)) == 4 and seeds[:2] == seeds[2:4]


def test_features_are_computed_in_evaluation_mode_and_training_is_not(monkeypatch):
    modes, features = [], ConvNet.features
    monkeypatch.setattr(ConvNet, "features", lambda self, images: (
        images.is_meta or modes.append((self.training, torch.is_grad_enabled(), len(images))),
        features(self, images))[1])
    deep(epochs=1, batch_size=50).fit(X[:101])
    clustered = [(False, False, 50), (False, False, 50), (False, False, 1)]
    assert modes == [*clustered, (True, True, 50), (True, True, 50), *clustered]


@pytest.fixture(scope="module")
def plain():
    return deep().fit(X)


@pytest.mark.parametrize("options", [
    {"whiten": False}, {"normalize": False}, {"renew_classifier": False}, {"sampling": "natural"},
    {"sobel": False}, {"crop_scale": None}, {"flip": True}, {"n_components": 4}, {"n_clusters": 6},
    {"learning_rate": 0.01}, {"momentum": 0.0}, {"weight_decay": 0.1}, {"random_state": 1}],
    ids=lambda options: next(iter(options)))
def test_every_setting_changes_the_weights(options, plain):
    last = "dense.0.weight"
    found = deep(**options).fit(X).network_.state_dict()[last]
    assert not torch.equal(found, plain.network_.state_dict()[last])


def test_more_images_than_pca_samples_are_reduced_by_a_random_part(monkeypatch, plain):
    monkeypatch.setattr(estimator, "PCA_SAMPLES", 60)
    rows, fit = [], fit_reduction
    monkeypatch.setattr(clustering, "fit_reduction", lambda batches, *args, **options: (
        rows.append(sum(map(len, batches := list(batches)))), fit(batches, *args, **options))[1])
    model = deep().fit(X)
    assert rows == [60] * 3 and model.transform(X).shape == (150, 16)
    assert not torch.equal(model.reduction_.mean, plain.reduction_.mean)


# --- results ------------------------------------------------------------------------------------


def test_the_history_describes_the_clusters_that_each_epoch_learned(plain):
    model = deep().fit(X, Y)
    assert model.assignments_.shape == (3, 150) and model.assignments_.dtype == np.int32
    for t, row in enumerate(model.history_.rows):
        labels = model.assignments_[t]
        sizes = np.bincount(labels, minlength=8)
        assert row["sizes"] == sizes.tolist() and row["active"] == (sizes > 0).sum() == 8
        assert (row["smallest"], row["largest"]) == (sizes.min(), sizes.max())
        assert row.pop("nmi_labels") == pytest.approx(deepcluster.geometric_nmi(Y, labels))
        assert 0 < row["loss"] < 4 and 0 < row["inertia"] < 1
        assert min(row["feature_seconds"], row["clustering_seconds"], row["training_seconds"]) > 0
        if t:
            before = model.assignments_[t - 1]
            assert row["nmi_previous"] == pytest.approx(deepcluster.geometric_nmi(before, labels))
            assert 0 < row["churn"] == pytest.approx(deepcluster.churn(before, labels))
    assert everything(model) == everything(plain)           # classes influence nothing


def test_predict_transform_and_features_agree_with_the_fit(plain):
    z, features = plain.transform(X), plain.features(X)
    assert np.array_equal(plain.predict(X), plain.labels_)
    assert z.shape == (150, 16) and features.shape == (150, 256) and features.min() < 0
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1, rtol=1e-5)
    distances = ((z[:, None] - plain.cluster_centers_) ** 2).sum(2)
    assert np.array_equal(distances.argmin(1), plain.labels_)
    assert plain.inertia_ == pytest.approx(distances.min(1).sum(), rel=1e-3)
    assert list(plain.get_feature_names_out()) == [f"deepcluster{i}" for i in range(16)]
    seen = (torch.from_numpy(X).view(-1, *SHAPE) - plain.pixel_mean_) / plain.pixel_std_
    with torch.no_grad():
        np.testing.assert_allclose(features, plain.network_.features(seen), atol=1e-5)


def test_the_callers_random_numbers_are_left_alone():
    torch.manual_seed(1), np.random.seed(1), random.seed(1)             # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    deep(epochs=1).fit(Items()).linear_probe(Items(), Y, layer=1)
    assert torch.equal(torch.get_rng_state(), before[0]) and random.getstate() == before[2]
    assert np.array_equal(np.random.get_state()[1], before[1])          # noqa: NPY002


# --- images ---------------------------------------------------------------------------------------


def test_an_array_and_a_data_set_give_the_same():
    quiet = {"crop_scale": None, "epochs": 1}       # nothing is random but the order
    array, streamed = deep(**quiet).fit(X), deep(**quiet).fit(Items())
    torch.testing.assert_close(array.pixel_mean_, streamed.pixel_mean_)
    np.testing.assert_array_equal(array.assignments_[0], streamed.assignments_[0])
    np.testing.assert_allclose(array.features(X), array.features(Items()), atol=1e-5)
    np.testing.assert_allclose(array.features(X), streamed.features(X), atol=1e-3)


def test_a_folder_is_read_in_the_order_of_datasets_load(folder):
    with pytest.warns(UserWarning, match="left out: 'notes.txt'"):
        data = datasets.load(f"folder:{folder}", image_size=8)
    files = ImageFiles(folder)
    assert [name.split("/")[0] for name in files.names] == [data.classes[c] for c in data.y]
    alone, helped = (from_folder(num_workers=n).fit(folder, data.y) for n in (0, 2))
    assert everything(alone) == everything(helped)
    assert alone.labels_.shape == (10,) and "nmi_labels" in alone.history_.rows[0]
    assert 0 <= alone.linear_probe(folder, data.y, layer=1, test_size=0.4) <= 1


def test_unusable_files_are_named(folder):
    (folder / "cats" / "2.png").write_bytes((folder / "cats" / "1.png").read_bytes()[:200])
    (folder / "dogs" / "7.png").write_text("no image at all")
    Image.fromarray(np.full((20, 20), 5000, dtype=np.uint16)).save(folder / "dogs" / "8.png")
    with pytest.raises(InputError, match=r"3 of 10 images can't be used: cats/2.png \(.*\), dogs/7"
                                         r".png \(.*\), dogs/8.png \(more than 8 bits a channel"):
        from_folder().fit(folder)


def test_images_with_other_channels_are_refused_or_converted(folder):
    Image.new("L", (40, 40), 100).save(folder / "cats" / "gray.png")
    with pytest.raises(InputError, match=r"1 of 11 .*cats/gray.png \(1 channels instead of 3"):
        from_folder().fit(folder)
    assert len(from_folder(color="convert").fit(folder).labels_) == 11
    gray = from_folder(color="convert", image_shape=(1, 16, 16)).fit(folder)
    assert gray.pixel_mean_.shape == (1,)
    colored = deep(image_shape=(3, 8, 8), color="convert", epochs=0).fit(Items())
    assert colored.pixel_mean_.tolist() == pytest.approx([X.mean()] * 3, rel=1e-5)


@pytest.mark.parametrize(("items", "says"), [
    *((Items([item] * 20), f"20 of 20 images can't be used: 0 .{says}") for item, says in [
        (torch.full((1, 8, 8), torch.nan), "pixels outside"),
        (torch.full((1, 8, 8), 3.0), "pixels outside"), ("text", ""),
        (torch.zeros(3, 8, 8), "3 channels instead of 1")]),
    (Items(broken=(3,)), "1 of 150 .*: 3 .the disk is gone."),
    (Items(torch.rand(1, *SHAPE)), "n_clusters=8 exceeds n_samples=1")])
def test_items_that_are_no_images_are_refused(items, says):
    with pytest.raises(InputError, match=says):
        deep().fit(items)


def test_the_papers_network_takes_a_tiny_folder(folder):
    model = DeepCluster(3, network="alexnet", n_components=4, epochs=0, batch_size=5, resize=96,
                        image_shape=(3, 63, 63), pixel_statistics="imagenet", random_state=0,
                        device="cpu").fit(folder)
    assert model.features(folder).shape == (10, 4096) and model.transform(folder).shape == (10, 4)
    assert model.pixel_mean_.tolist() == pytest.approx([0.485, 0.456, 0.406])
    assert np.array_equal(model.predict(folder), model.labels_)


# --- refused before training ----------------------------------------------------------------------


@pytest.mark.parametrize(("options", "says"), [
    ({"n_clusters": 151}, "n_clusters=151 exceeds n_samples=150"),
    ({"n_components": 151}, "n_components=151 exceeds n_samples=150"),
    ({"n_components": 0}, "n_components must be a whole number of at least 1, not 0"),
    ({"n_clusters": 2.5}, "n_clusters must be"), ({"batch_size": 1}, "batch_size must be"),
    ({"epochs": -1}, "epochs must be"), ({"learning_rate": 0}, "learning_rate must be .* above 0"),
    ({"momentum": "x"}, "momentum must be a number"), ({"resize": 0}, "resize must be"),
    ({"sampling": "unifrom"}, "no sampling 'unifrom'; did you mean 'uniform'"),
    ({"network": "alex"}, "no network"), ({"network": "alexnet"}, "AlexNet needs images"),
    ({"image_shape": (1, 8, 9)}, "image_shape .* has 72 values, but X has 64 features"),
    ({"image_shape": None}, "needs image_shape"), ({"image_shape": 8}, "must be three positive"),
    ({"crop_scale": (0.5, 2.0)}, "crop_scale must be"),
    ({"pixel_statistics": "imagnet"}, "did you mean 'imagenet'"),
    ({"pixel_statistics": "imagenet"}, "needs images of 3 channels"),
    ({"random_state": "x"}, "random_state must be")])
def test_a_setting_out_of_range_is_refused_before_training(options, says, monkeypatch):
    monkeypatch.setattr(training, "train", None)
    with pytest.raises(InputError, match=says):
        deep(**options).fit(X)


@pytest.mark.parametrize(("rows", "y", "says"), [
    (np.where(np.eye(150, 64) > 0, np.nan, X), None, "NaN"), (X[:1], None, "minimum of 2"),
    (2 * X, None, r"pixels must lie in \[0, 1\]"), (X, Y[:-1], "one length")])
def test_bad_data_are_refused_before_training(rows, y, says, monkeypatch):
    monkeypatch.setattr(training, "train", None)
    with pytest.raises(ValueError, match=says):
        deep().fit(rows, y)


# --- the contract ---------------------------------------------------------------------------------


SMALL = DeepCluster(3, network=Vectors, n_components=2, epochs=2, batch_size=16, normalize=False,
                    random_state=0, device="cpu")


@parametrize_with_checks([SMALL])
@pytest.mark.filterwarnings("ignore:batch_size 16 is larger than the data")
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_a_probe_reads_classes_from_each_layer():
    rows, classes = DIGITS.X[:400], DIGITS.y[:400]
    model = deep(epochs=1).fit(rows)
    before = everything(model)
    probe = partial(model.linear_probe, rows, classes)
    for layer in (3, "features"):
        given = model.linear_probe(rows[:300], classes[:300], layer=layer, X_test=rows[300:],
                                   y_test=classes[300:])
        assert 0.7 < given <= 1
    split = probe(layer=1)
    assert split == probe(layer=1) and 0.7 < split <= 1 and probe(layer=1, most_numbers=32) < split
    assert everything(model) == before
    for layer in (0, 4, "conv1"):
        with pytest.raises(InputError, match="there is no layer"):
            probe(layer=layer)


# --- files ----------------------------------------------------------------------------------------


def test_a_saved_model_comes_back(tmp_path):
    model = deep(whiten=False, n_components=None, epochs=1).fit(X)
    model.save(tmp_path / "model.pt")
    back = DeepCluster.load(tmp_path / "model.pt", device="cpu")
    assert np.array_equal(back.predict(X), model.labels_)
    np.testing.assert_array_equal(back.transform(X), model.transform(X))
    assert back.get_params()["image_shape"] == SHAPE and back.inertia_ == model.inertia_


def test_a_network_of_ones_own_is_given_again(tmp_path):
    rows = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
    model = clone(SMALL).fit(rows)
    model.save(tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"made by a function, .*Vectors; give it again"):
        DeepCluster.load(tmp_path / "model.pt")
    back = DeepCluster.load(tmp_path / "model.pt", network=Vectors, device="cpu")
    assert np.array_equal(back.predict(rows), model.labels_)


@pytest.mark.parametrize(("setting", "value", "loads"), [
    ("pca_samples", 100_000, True), ("pca_samples", 60, False), ("unreadable", "skip", False)])
def test_removed_settings_load_at_their_default_only(setting, value, loads, tmp_path, plain):
    path = tmp_path / "model.pt"
    plain.save(path)
    stored = torch.load(path, weights_only=True)
    settings = json.dumps({**json.loads(stored["settings"]), setting: value})
    torch.save({**stored, "settings": settings}, path)
    if loads:
        assert np.array_equal(DeepCluster.load(path, device="cpu").predict(X), plain.labels_)
    else:
        with pytest.raises(InputError, match=f"only {setting}=.* is still supported"):
            DeepCluster.load(path)


# --- resume ---------------------------------------------------------------------------------------


class Killed(BaseException):
    """Ends a fit like SIGKILL: nothing more is saved."""


@pytest.mark.parametrize(("options", "streamed", "deaths"), [
    # Three steps an epoch; seeds of streamed images and dropout are drawn anew.
    ({"epochs": 3}, False, [1, 5, 9]),
    ({"epochs": 2, "flip": True}, True, [5]),
    ({"epochs": 2, "renew_classifier": False}, False, [4])], ids=["array", "streamed", "one head"])
def test_a_killed_run_resumes_bit_for_bit(options, streamed, deaths, tmp_path, monkeypatch):
    images = Items() if streamed else X
    whole = everything(deep(**options).fit(images, Y))
    monkeypatch.setattr(Checkpoint, "due", True)
    cross_entropy, steps, at = functional.cross_entropy, [], None

    def counted(*args):
        if len(steps) + 1 == at:
            raise Killed
        steps.append(1)
        return cross_entropy(*args)

    monkeypatch.setattr(functional, "cross_entropy", counted)
    for at in deaths:
        with pytest.raises(Killed):
            deep(**options, checkpoint=tmp_path / "run.pt").fit(images, Y)
        del steps[(at - 1) // 3 * 3:]           # those of the epoch that was not finished
    at = None
    assert everything(deep(**options, checkpoint=tmp_path / "run.pt").fit(images, Y)) == whole
    assert len(steps) == 3 * options["epochs"]      # finished epochs are not repeated


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.pt"
    first = deep(checkpoint=path, epochs=1).fit(X)
    for rows, changed, says in (
            (X, {"whiten": False}, "the parameter 'whiten' was true and is now false"),
            (X, {"random_state": 1}, "the parameter 'seed' was 0 and is now 1"),
            (X[::-1], {}, "the data differs"), (Items(), {}, "the data differs")):
        with pytest.raises(InputError, match=says):
            deep(**{"checkpoint": path, "epochs": 1, **changed}).fit(rows)
    assert everything(deep(checkpoint=path, epochs=1).fit(X)) == everything(first)
