"""DeepCluster's parts against torchvision, scikit-learn and literal forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import ks_2samp
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import normalized_mutual_info_score
from sklearn.preprocessing import normalize as unit_length
from torch import nn
from torch.nn import functional
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as pictures

from clusterbook import training
from clusterbook.deepcluster import AlexNet, ConvNet, Sobel, clustering, images, networks
from clusterbook.deepcluster.clustering import epoch_indices, fit_reduction, reduce, split_empty
from clusterbook.errors import InputError


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def blobs(n, d, k, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    centers = 2 * rng.standard_normal((k, d))
    X = centers[rng.integers(k, size=n)] + spread * rng.standard_normal((n, d))
    return torch.from_numpy(X.astype(np.float32))


def picture(height, width):
    rng = np.random.default_rng(0)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


# --- transforms -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(40, 60), (60, 40), (224, 224), (300, 256)])
def test_clustering_transform_scales_the_short_side_and_crops_the_middle(size):
    image = picture(*size)
    short = 64 * np.array(size) / min(size)
    literal = image.resize((int(short[1]), int(short[0])), Image.Resampling.BILINEAR)
    top, left = (round((side - 56) / 2) for side in (literal.height, literal.width))
    literal = literal.crop((left, top, left + 56, top + 56))
    found = images.clustering_transform(56, 64)(image)
    assert found.shape == (3, 56, 56) and found.dtype == torch.float32
    np.testing.assert_allclose(found.permute(1, 2, 0), np.asarray(literal) / 255, atol=1e-6)


@pytest.mark.parametrize(("size", "scale"), [
    ((32, 32), (0.08, 1.0)), ((12, 40), (0.08, 1.0)), ((40, 12), (0.9, 1.0))])
def test_random_boxes_are_distributed_as_torchvisions(size, scale):
    n = 1500
    ours = images.random_boxes(n, *size, seeded(), scale).numpy()
    theirs = v2.RandomResizedCrop(8, scale=scale)
    with training.seeded(1):
        rows = [theirs.make_params([torch.empty(1, *size)]) for _ in range(n)]
    theirs = np.array([[row[key] for key in ("top", "left", "height", "width")] for row in rows])
    top, left, height, width = ours.T
    assert (ours >= 0).all()
    assert (top + height <= size[0]).all() and (left + width <= size[1]).all()
    areas = (height * width, theirs[:, 2] * theirs[:, 3])
    for mine, their in (*zip(ours.T, theirs.T, strict=True), areas):
        assert ks_2samp(mine, their, method="asymp").pvalue > 1e-3


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (2, 9, 14)])
def test_crops_have_the_pixels_of_torchvisions(shape):
    n = 40
    rows = torch.rand(n, *shape, generator=seeded(1))
    boxes = images.random_boxes(n, *shape[1:], seeded(2))
    mirrored = torch.arange(n) % 2 == 1
    found = images.crop_and_resize(rows, boxes, mirrored)
    for image, box, mirror, mine in zip(rows, boxes.tolist(), mirrored, found, strict=True):
        literal = pictures.resized_crop(image, *box, list(shape[1:]), antialias=True)
        literal = pictures.horizontal_flip(literal) if mirror else literal
        torch.testing.assert_close(mine, literal, atol=2e-6, rtol=0)


def test_half_of_the_images_are_mirrored_unless_flip_is_off():
    rows = torch.rand(2000, 1, 8, 8, generator=seeded())
    found = images.augment(rows, seeded(), scale=None)
    mirrored = (found != rows).flatten(1).any(1)
    assert 0.45 < mirrored.float().mean() < 0.55
    assert torch.equal(found[mirrored], pictures.horizontal_flip(rows[mirrored]))
    assert torch.equal(images.augment(rows, seeded(), None, flip=False), rows)
    one, two, other = (images.augment(rows, seeded(seed)) for seed in (5, 5, 6))
    assert torch.equal(one, two) and not torch.equal(one, other)


# --- networks ---------------------------------------------------------------------------------


def test_sobel_is_gray_and_two_fixed_filters():
    rows = torch.rand(2, 3, 9, 7)
    gray = functional.conv2d(rows, torch.full((1, 3, 1, 1), 1 / 3))
    kernels = torch.tensor([[[[1.0, 0, -1], [2, 0, -2], [1, 0, -1]]],
                            [[[1.0, 2, 1], [0, 0, 0], [-1, -2, -1]]]])
    layer = Sobel()
    torch.testing.assert_close(layer(rows), functional.conv2d(gray, kernels, padding=1))
    torch.testing.assert_close(layer(gray), layer(rows))
    assert not list(layer.parameters()) and "filters" in layer.state_dict()


@pytest.mark.parametrize(("network", "widths", "side", "layers"), [
    (AlexNet, [96, 256, 384, 384, 256], 95, [23, 11, 5, 5, 5]),
    (networks.VGG16, [64, 64, 128, 128, 256, 256, 256, *[512] * 6], 32,
     [32, 32, 16, 16, 8, 8, 8, 4, 4, 4, 2, 2, 2])])
def test_the_papers_networks(network, widths, side, layers):
    with training.seeded(0), torch.no_grad():
        made = network((3, side, side)).eval()
        found = made.layers(torch.rand(1, 3, side, side))
        features = made.features(torch.rand(2, 3, side, side))
    assert [a.shape[1:] for a in found] == list(zip(widths, layers, layers, strict=True))
    assert features.shape == (2, made.n_features) == (2, 4096) and features.min() < 0
    linear = [part for part in made.dense if isinstance(part, nn.Linear)]
    assert linear[1].weight.std().item() == pytest.approx(0.01, rel=0.01)
    first = made.convolutions[0]
    n = first.kernel_size[0] ** 2 * first.out_channels
    assert first.in_channels == 2
    assert first.weight.std().item() == pytest.approx((2 / n) ** 0.5, rel=0.2)
    dropouts = [part.p for part in made.dense if isinstance(part, nn.Dropout)]
    assert dropouts == ([0.5, 0.5] if network is AlexNet else [0.5])
    with torch.device("meta"):
        for size in (made.smallest, 224):
            assert network((1, size, size))(torch.rand(2, 1, size, size)).shape == (2, 4096)


@pytest.mark.parametrize(("shape", "sobel"), [
    ((1, 8, 8), True), ((1, 9, 15), False), ((3, 16, 16), False), ((3, 64, 64), True)])
def test_the_small_network_takes_images_of_8_to_64_pixels(shape, sobel):
    network = ConvNet(shape, sobel=sobel).eval()
    rows = torch.rand(3, *shape)
    assert network.features(rows).shape == (3, network.n_features)
    layers = network.layers(rows)
    assert len(layers) == network.n_layers == (3 if min(shape[1:]) < 16 else 4)
    assert all(bool((a >= 0).all()) for a in layers)
    torch.testing.assert_close(network(rows), functional.relu(network.features(rows)))
    assert not torch.isnan(network.train().features(rows)).any()


@pytest.mark.parametrize(("network", "shape", "says"), [
    ("convnet", (1, 7, 30), "ConvNet needs images of at least 8 x 8 pixels, but these have 7 x 30"),
    ("alexnet", (3, 62, 224), "AlexNet needs images of at least 63 x 63"),
    ("convnet", (4, 8, 8), "Sobel filters need images of 1 or 3 channels"),
    ("convnet", (8, 8), "image_shape must be three positive whole numbers"),
    ("convnets", (1, 8, 8), "there is no network 'convnets'; did you mean 'convnet'"),
])
def test_networks_refuse_unsuitable_images_and_other_names(network, shape, says):
    with pytest.raises(InputError, match=says):
        networks.build(network, shape)


# --- reduction --------------------------------------------------------------------------------


def correlated(n=600, d=40):
    rng = np.random.default_rng(0)
    turned = np.linalg.qr(rng.standard_normal((d, d)))[0] * np.linspace(1, 10, d)[:, None]
    X = rng.standard_normal((n, d)) @ turned + 10 * rng.standard_normal(d)
    return torch.from_numpy(X.astype(np.float32))


@pytest.mark.parametrize(("n", "kept", "whiten", "normalize"), [
    (600, 1, True, True), (600, 12, True, True), (600, 12, False, True), (600, 12, True, False),
    (600, 40, False, False), (25, 20, True, True)])
def test_reduction_is_scikit_learns_pca_and_normalization(n, kept, whiten, normalize):
    X = correlated(n)
    literal = PCA(kept, whiten=whiten, svd_solver="full").fit(X.double().numpy())
    expected = literal.transform(X.double().numpy())
    expected = unit_length(expected) if normalize else expected
    for features in (X, iter(X.split(77))):             # at once, and in batches
        fitted = fit_reduction(features, kept, whiten=whiten, normalize=normalize)
        found = reduce(X, fitted).numpy()
        np.testing.assert_allclose(found, expected * np.sign((found * expected).sum(0)),
                                   atol=1e-4 if normalize else 1e-3)
        np.testing.assert_allclose(fitted.variances, literal.explained_variance_, rtol=1e-4)
        assert (fitted.components.gather(1, fitted.components.abs().argmax(1, keepdim=True))
                > 0).all()                              # signs do not depend on the solver
    assert len(fit_reduction(X, None).components) == min(n, 40)


def test_rows_at_the_mean_and_constant_features_give_no_nan():
    X = correlated(100, 10)
    X[:, 3] = 0
    X[:, 5] = X[:, 4]
    fitted = fit_reduction(X, 10)
    z = reduce(torch.cat([X, fitted.mean[None]]), fitted)
    assert torch.isfinite(z).all() and z[-1].norm() < 1e-3
    np.testing.assert_allclose(z[:-1].norm(dim=1), 1, atol=1e-5)
    assert z[:-1].abs().amax(0)[8:].max() == 0               # noise is not scaled up
    same = torch.ones(5, 3)
    assert torch.equal(reduce(same, fit_reduction(same, 2)), torch.zeros(5, 2))


@pytest.mark.parametrize(("X", "kept", "says"), [
    (torch.rand(5, 10), 6, "n_components=6 exceeds n_samples=5"),
    (torch.rand(20, 10), 11, "n_components=11 exceeds .* the network's n_features=10"),
    (torch.rand(20, 10), 2.0, "n_components must be a whole number of at least 1"),
    (torch.tensor([[1.0, torch.nan], [2, 3], [4, 5]]), 1, "NaN or infinite"),
    (torch.full((3, 5), torch.inf), 1, "NaN or infinite")])
def test_reduction_refuses_bad_input(X, kept, says):
    with pytest.raises(InputError, match=says):
        fit_reduction(X, kept)


# --- k-means ----------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [64, clustering.HELD_DISTANCES])
def test_assignment_is_to_the_nearest_center(held, monkeypatch):
    monkeypatch.setattr(clustering, "HELD_DISTANCES", held)
    X, centers = blobs(1000, 7, 5), blobs(30, 7, 5, 1)
    labels, distances = clustering.assign(X, centers)
    literal = torch.cdist(X.double(), centers.double()).square()
    torch.testing.assert_close(distances.double(), literal.min(1).values, rtol=1e-3, atol=1e-3)
    assert torch.equal(labels, literal.argmin(1))


@pytest.mark.parametrize(("n_init", "spread"), [(1, 1.0), (4, 4.0)])
def test_inertia_is_scikit_learns(n_init, spread):
    X = blobs(1500, 8, 20, spread=spread)
    ours = np.mean([clustering.kmeans(X, 20, n_init=n_init, max_iter=300, seed=s).inertia
                    for s in range(5)])
    theirs = np.mean([KMeans(20, n_init=n_init, random_state=s).fit(X.numpy()).inertia_
                      for s in range(5)])
    assert ours <= 1.02 * theirs


def test_labels_centers_and_inertia_of_kmeans_are_consistent():
    X = blobs(500, 6, 9)
    found = clustering.kmeans(X, 9, seed=1)
    labels, distances = clustering.assign(X, found.centers)
    assert torch.equal(labels, found.labels)
    assert found.inertia == pytest.approx(float(distances.double().sum()), rel=1e-4)
    converged = clustering.kmeans(X, 9, max_iter=300, seed=1)
    assert converged.n_iter < 300 and converged.inertia <= found.inertia * (1 + 1e-6)
    for j in range(9):
        torch.testing.assert_close(converged.centers[j], X[converged.labels == j].mean(0),
                                   atol=1e-4, rtol=0)
    far = clustering.kmeans(X + 3000, 9, seed=1)           # as exact far from the origin
    assert far.inertia == pytest.approx(found.inertia, rel=1e-2)
    torch.testing.assert_close(far.centers - 3000, found.centers, atol=0.02, rtol=0)


def test_kmeans_follows_from_its_seed():
    X = blobs(400, 5, 8, spread=3)
    before = torch.get_rng_state()
    one, two, other = (clustering.kmeans(X, 8, max_iter=3, seed=s) for s in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.centers, two.centers) and not torch.equal(one.centers, other.centers)
    best = clustering.kmeans(X, 8, max_iter=3, n_init=8)
    assert best.inertia < one.inertia
    equal = clustering.kmeans(torch.ones(6, 2), 3)
    assert torch.isfinite(equal.centers).all() and equal.inertia == pytest.approx(0, abs=1e-6)
    assert len(clustering.kmeans(X[:30], 30).labels.unique()) == 30


def test_an_empty_cluster_takes_part_of_a_random_other_one():
    X = blobs(300, 4, 3, spread=0.5)
    labels = torch.arange(300) % 3 + 2                      # 0 and 1 are empty
    centers = torch.stack([X[labels == j].mean(0) if j > 1 else torch.zeros(4) for j in range(5)])
    found = [split_empty(X, labels, centers, seeded(s)) for s in range(20)]
    assert all(bool((torch.bincount(new, minlength=5) > 0).all()) for new in found)
    assert {int(labels[new == 0][0]) for new in found} == {2, 3, 4}
    for new in found:
        assert set(new[new != labels].tolist()) == {0, 1}       # nothing else changed its cluster
    assert torch.equal(labels, torch.arange(300) % 3 + 2)


def test_a_cluster_is_split_across_a_plane_through_its_center():
    X = torch.randn(400, 4, generator=seeded()) + 5
    new = split_empty(X, torch.ones(400, dtype=torch.int64), torch.ones(2, 4), seeded(1))
    one, two = X[new == 0], X[new == 1]
    assert min(len(one), len(two)) > 150
    apart = (one.mean(0) - two.mean(0)).sign()
    assert ((one - X.mean(0)) @ apart > 0).all() and ((two - X.mean(0)) @ apart <= 0).all()


def test_clusters_do_not_stay_empty_unless_asked(monkeypatch):
    X = blobs(200, 3, 4, spread=0.1)
    bad = torch.cat([X[:4], 1000 + torch.arange(6.0)[:, None].expand(6, 3)])
    monkeypatch.setattr(clustering, "_plus_plus", lambda *_: bad.clone())
    counted, means = [], clustering._means
    monkeypatch.setattr(clustering, "_means", lambda *args: (
        counted.append(len(args[1].unique())), means(*args))[1])
    assert (torch.bincount(clustering.kmeans(X, 10).labels, minlength=10) > 0).all()
    assert set(counted) == {10}                             # in every round, not only at the end
    kept = clustering.kmeans(X, 10, reassign_empty=False)
    assert (torch.bincount(kept.labels, minlength=10) > 0).sum() == 4
    assert torch.isfinite(kept.centers).all()


@pytest.mark.parametrize(("X", "k", "options", "says"), [
    (torch.rand(3, 2), 4, {}, "n_clusters=4 exceeds n_samples=3"),
    (torch.rand(3, 2), 0, {}, "n_clusters must be a whole number of at least 1, not 0"),
    (torch.rand(3, 2), 2, {"n_init": 0}, "n_init must be"),
    (torch.rand(3, 2), 2, {"max_iter": 1.5}, "max_iter must be"),
    (torch.tensor([[0.0], [torch.nan]]), 1, {}, "NaN or infinite")])
def test_kmeans_refuses_bad_input(X, k, options, says):
    with pytest.raises(InputError, match=says):
        clustering.kmeans(X, k, **options)


# --- sampling ---------------------------------------------------------------------------------


SIZES = [3635, 1178, 586, 288, 208, 105]
UNEQUAL = torch.repeat_interleave(torch.arange(6), torch.tensor(SIZES))


def test_uniform_sampling_draws_each_cluster_equally_often():
    labels = UNEQUAL[torch.randperm(6000, generator=seeded(1))]
    drawn = epoch_indices(labels, 6000, seeded())
    assert torch.bincount(labels[drawn]).tolist() == [1000] * 6
    times = torch.bincount(drawn, minlength=6000)
    for j, size in enumerate(SIZES):            # each image of a cluster about as often
        low, high = 1000 // size, -(-1000 // size)
        assert set(times[labels == j].tolist()) == {low, high}
    batch = torch.bincount(labels[drawn[:600]])     # in any part of the epoch
    assert (batch / 100 - 1).abs().max() < 0.35


def test_natural_sampling_draws_each_image_once():
    drawn = epoch_indices(UNEQUAL, 6000, seeded(), "natural")
    assert torch.equal(drawn.sort().values, torch.arange(6000))
    assert not torch.equal(drawn, torch.arange(6000))


@pytest.mark.parametrize("n_draws", [1, 5, 100, 103])
def test_empty_clusters_are_left_out_and_the_rest_shared(n_draws):
    labels = torch.tensor([0] * 50 + [7] * 3 + [9])
    drawn = epoch_indices(labels, n_draws, seeded())
    counts = torch.bincount(labels[drawn], minlength=10)
    assert len(drawn) == n_draws and counts[[0, 7, 9]].max() - counts[[0, 7, 9]].min() <= 1
    assert set(counts.nonzero()[:, 0].tolist()) <= {0, 7, 9}


# --- comparing clusterings, and probes -----------------------------------------------------------


def test_nmi_is_normalized_by_the_geometric_mean():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, 200), rng.integers(0, 20, 200) // 2
    joint = np.histogram2d(a, b, (3, 10))[0] / 200
    pa, pb = joint.sum(1), joint.sum(0)
    mutual = np.nansum(joint * np.log(np.where(joint > 0, joint / np.outer(pa, pb), 1)))
    literal = mutual / np.sqrt((pa * np.log(pa)).sum() * (pb * np.log(pb)).sum())
    assert clustering.geometric_nmi(a, b) == pytest.approx(literal)
    assert abs(clustering.geometric_nmi(a, b) - normalized_mutual_info_score(a, b)) > 1e-4


@pytest.mark.parametrize(("shape", "numbers"), [
    ((96, 55, 55), 9600), ((256, 27, 27), 9216), ((384, 13, 13), 9600), ((256, 13, 13), 9216),
    ((32, 4, 4), 512)])
def test_layers_are_pooled_to_the_papers_numbers(shape, numbers):
    assert networks.pooled(torch.rand(2, *shape)).shape == (2, numbers)


@pytest.mark.parametrize("penalty", [networks.PENALTY, 1.0])
def test_the_probe_is_logistic_regression(penalty, monkeypatch):
    monkeypatch.setattr(networks, "PENALTY", penalty)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6)).astype(np.float32) * [1, 10, 1, 1, 0.1, 1] + 3
    y = np.array(["a", "b", "c"])[(X @ rng.standard_normal((6, 3))
                                   + 3 * rng.standard_normal((400, 3))).argmax(1)]
    train, test = (torch.from_numpy(part.astype(np.float32)) for part in (X[:300], X[300:]))
    z = (X - X[:300].mean(0)) / X[:300].std(0)
    theirs = LogisticRegression(C=1 / (penalty * 300), max_iter=2000).fit(z[:300], y[:300])
    predicted = theirs.predict(z[300:])
    assert networks.linear_accuracy(train, y[:300], test, predicted) >= 0.99
    assert networks.linear_accuracy(train, y[:300], test, y[300:]) > 0.5
    assert networks.linear_accuracy(train, y[:300], test, np.full(100, "z")) == 0
