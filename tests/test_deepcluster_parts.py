"""DeepCluster's parts against torchvision, scikit-learn and literal forms."""

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mutual_info_score
from sklearn.preprocessing import normalize as unit_length
from torch import nn
from torch.nn import functional
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as pictures

from clusterbook import training
from clusterbook.checks import InputError
from clusterbook.deepcluster import AlexNet, clustering, geometric_nmi, networks
from clusterbook.deepcluster.clustering import epoch_indices, fit_reduction, reduce, split_empty


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def blobs(n, d, k, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    centers = 2 * rng.standard_normal((k, d))
    X = centers[rng.integers(k, size=n)] + spread * rng.standard_normal((n, d))
    return torch.from_numpy(X.astype(np.float32))


@pytest.mark.parametrize(("size", "scale"), [((12, 40), (0.08, 1.0)), ((40, 12), (0.9, 1.0))])
def test_random_boxes_are_distributed_as_torchvisions(size, scale):
    n = 1500
    ours = networks.random_boxes(n, *size, seeded(), scale).numpy()
    theirs = v2.RandomResizedCrop(8, scale=scale)
    with training.seeded(1):
        rows = [theirs.make_params([torch.empty(1, *size)]) for _ in range(n)]
    theirs = np.array([[row[key] for key in ("top", "left", "height", "width")] for row in rows])
    assert (ours >= 0).all() and (ours[:, :2] + ours[:, 2:] <= size).all()
    areas = (ours[:, 2] * ours[:, 3], theirs[:, 2] * theirs[:, 3])
    for mine, their in (*zip(ours.T, theirs.T, strict=True), areas):
        assert ks_2samp(mine, their, method="asymp").pvalue > 1e-3


@pytest.mark.parametrize("shape", [(3, 32, 32), (2, 9, 14)])
def test_augmented_images_have_the_pixels_of_torchvisions(shape):
    rows = torch.rand(400, *shape, generator=seeded(1))
    draws = seeded(2)                                   # the same: first mirrors, then boxes
    mirrored = torch.rand(400, generator=draws) < 0.5
    boxes = networks.random_boxes(400, *shape[1:], draws).tolist()
    found = networks.augment(rows, seeded(2))
    assert 0.4 < mirrored.float().mean() < 0.6
    for image, box, mirror, mine in zip(rows, boxes, mirrored, found, strict=True):
        literal = pictures.resized_crop(image, *box, list(shape[1:]), antialias=True)
        literal = pictures.horizontal_flip(literal) if mirror else literal
        torch.testing.assert_close(mine, literal, atol=2e-6, rtol=0)
    whole = networks.augment(rows, seeded(2), scale=None)
    assert torch.equal(whole[mirrored], pictures.horizontal_flip(rows[mirrored]))
    assert torch.equal(networks.augment(rows, seeded(), None, flip=False), rows)


def test_sobel_is_gray_and_two_fixed_filters():
    rows, sobel = torch.rand(2, 3, 9, 7), networks.Sobel()
    across = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
    literal = functional.conv2d(rows.sum(1, keepdim=True) / 3,
                                torch.stack([across, across.T])[:, None], padding=1)
    torch.testing.assert_close(sobel(rows), literal)
    assert not list(sobel.parameters()) and "filters" in sobel.state_dict()


@pytest.mark.parametrize(("network", "widths", "sides", "dropout"), [
    (AlexNet, [96, 256, 384, 384, 256], [55, 27, 13, 13, 13], 2),
    (networks.VGG16, [64, 64, 128, 128, 256, 256, 256, *[512] * 6],
     [224, 224, 112, 112, 56, 56, 56, 28, 28, 28, 14, 14, 14], 1)])
def test_the_papers_networks(network, widths, sides, dropout):
    with torch.device("meta"):
        layers = network().layers(torch.rand(1, 3, 224, 224))
    assert [a.shape[1:] for a in layers] == list(zip(widths, sides, sides, strict=True))
    if network is AlexNet:
        pooled = [networks.pooled(a, 9600).shape[1] for a in layers]
        assert pooled == [9600, 9216, 9600, 9600, 9216]
    with training.seeded(0), torch.no_grad():
        made = network((3, 63, 63)).eval()
        features = made.features(torch.rand(2, 3, 63, 63))
    assert features.shape == (2, made.n_features) == (2, 4096) and features.min() < 0
    linear = [part for part in made.dense if isinstance(part, nn.Linear)]
    weight = made.convolutions[0].weight                # of the two edge images
    assert linear[1].weight.std().item() == pytest.approx(0.01, rel=0.01)
    assert weight.std().item() == pytest.approx((4 / weight.numel()) ** 0.5, rel=0.2)
    assert sum(isinstance(part, nn.Dropout) for part in made.dense) == dropout


def correlated(n=600, d=40):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * np.linspace(1, 10, d) @ rng.standard_normal((d, d))
    return torch.from_numpy((X + 50 * rng.standard_normal(d)).astype(np.float32))


@pytest.mark.parametrize(("n", "kept", "whiten", "normalize"), [
    (600, 12, True, True), (600, 12, False, True), (600, 12, True, False), (25, 20, True, True)])
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
    X[:, 3], X[:, 5] = 0, X[:, 4]
    fitted = fit_reduction(X, 10)
    z = reduce(torch.cat([X, fitted.mean[None]]), fitted)
    assert torch.isfinite(z).all() and z[-1].norm() < 1e-3
    assert z[:-1].abs().amax(0)[8:].max() == 0               # noise is not scaled up
    same = torch.ones(5, 3)
    assert not reduce(same, fit_reduction(same, 2)).any()


@pytest.mark.parametrize(("call", "rows", "number", "says"), [
    (fit_reduction, torch.rand(5, 10), 6, "n_components=6 exceeds n_samples=5"),
    (fit_reduction, torch.rand(10, 5), 6, "exceeds n_samples=10 or the network's n_features=5"),
    (fit_reduction, torch.full((3, 5), torch.inf), 1, "NaN or infinite"),
    (clustering.kmeans, torch.rand(3, 2), 4, "n_clusters=4 exceeds n_samples=3"),
    (clustering.kmeans, torch.tensor([[0.0], [torch.nan]]), 1, "NaN or infinite")])
def test_bad_input_is_refused(call, rows, number, says):
    with pytest.raises(InputError, match=says):
        call(rows, number)


def test_assignment_is_to_the_nearest_center(monkeypatch):
    monkeypatch.setattr(clustering, "HELD_DISTANCES", 64)
    X, centers = blobs(1000, 7, 5), blobs(30, 7, 5, 1)
    labels, distances = clustering.assign(X, centers)
    literal = torch.cdist(X.double(), centers.double()).square()
    torch.testing.assert_close(distances.double(), literal.min(1).values, rtol=1e-3, atol=1e-3)
    assert torch.equal(labels, literal.argmin(1))


def test_kmeans_ends_at_means_and_follows_from_its_seed():
    X, before = blobs(500, 6, 9), torch.get_rng_state()
    found = clustering.kmeans(X, 9, seed=1)
    labels, distances = clustering.assign(X, found.centers)
    assert torch.equal(labels, found.labels)
    assert found.inertia == pytest.approx(float(distances.double().sum()), rel=1e-4)
    end = clustering.kmeans(X, 9, max_iter=300, seed=1)
    means = torch.stack([X[end.labels == j].mean(0) for j in range(9)])
    torch.testing.assert_close(end.centers, means, atol=1e-4, rtol=0)
    far = clustering.kmeans(X + 3000, 9, seed=1)           # as exact far from the origin
    torch.testing.assert_close(far.centers - 3000, found.centers, atol=0.02, rtol=0)
    X = blobs(400, 5, 8, spread=3)
    one, two = (clustering.kmeans(X, 8, max_iter=3, seed=0) for _ in range(2))
    assert torch.equal(one.centers, two.centers)
    assert clustering.kmeans(X, 8, max_iter=3, n_init=8).inertia < one.inertia
    assert torch.equal(torch.get_rng_state(), before)


def test_an_empty_cluster_takes_a_side_of_a_random_other_one():
    X = torch.randn(1200, 4, generator=seeded()) + 5
    labels = torch.arange(1200) % 3 + 2                     # 0 and 1 are empty
    centers = torch.stack([X[labels == j].mean(0) if j > 1 else torch.zeros(4) for j in range(5)])
    donors = set()
    for seed in range(20):
        new = split_empty(X, labels, centers, seeded(seed))
        assert len(new.unique()) == 5 and new[new != labels].max() == 1     # nothing else moved
        donor = int(labels[new == 0][0])
        if (labels[new == 1] != donor).all():               # split once, near the middle
            one, two = X[new == 0], X[new == donor]
            middle = X[labels == donor].mean(0)
            apart = (one.mean(0) - two.mean(0)).sign()
            assert ((one - middle) @ apart > 0).all() and ((two - middle) @ apart <= 0).all()
            donors.add(donor)
    assert donors == {2, 3, 4}


def test_clusters_do_not_stay_empty_unless_asked(monkeypatch):
    X = blobs(200, 3, 4, spread=0.1)
    bad = torch.cat([X[:4], 1000 + torch.arange(6.0)[:, None].expand(6, 3)])
    monkeypatch.setattr(clustering, "plus_plus", lambda *_: bad.clone())
    counted, means = [], clustering._means
    monkeypatch.setattr(clustering, "_means", lambda *args: (
        counted.append(len(args[1].unique())), means(*args))[1])
    assert len(clustering.kmeans(X, 10).labels.unique()) == 10
    assert set(counted) == {10}                             # in every round, not only at the end
    assert len(clustering.kmeans(X, 10, reassign_empty=False).labels.unique()) == 4


def test_uniform_sampling_draws_each_cluster_equally_often():
    sizes = [3635, 1178, 586, 288, 208, 105]
    labels = torch.repeat_interleave(torch.arange(6), torch.tensor(sizes))
    labels = labels[torch.randperm(6000, generator=seeded(1))]
    drawn = epoch_indices(labels, 6000, seeded())
    assert torch.bincount(labels[drawn]).tolist() == [1000] * 6
    times = torch.bincount(drawn, minlength=6000)
    for j, size in enumerate(sizes):            # each image of a cluster about as often
        assert set(times[labels == j].tolist()) == {1000 // size, -(-1000 // size)}
    batch = torch.bincount(labels[drawn[:600]])     # in any part of the epoch
    assert (batch / 100 - 1).abs().max() < 0.35
    drawn = epoch_indices(labels, 6000, seeded(), "natural")
    assert torch.equal(drawn.sort().values, torch.arange(6000))
    labels = torch.tensor([0] * 50 + [7] * 3 + [9])             # others are empty
    counts = labels[epoch_indices(labels, 103, seeded())].bincount(minlength=10)
    assert counts.sum() == 103 and counts[[0, 7, 9]].max() - counts[[0, 7, 9]].min() <= 1


def test_nmi_is_normalized_by_the_geometric_mean():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, 200), rng.integers(0, 20, 200) // 2
    literal = mutual_info_score(a, b) / np.sqrt(mutual_info_score(a, a) * mutual_info_score(b, b))
    assert geometric_nmi(a, b) == pytest.approx(literal)
    assert geometric_nmi(a[:, None], b) == pytest.approx(literal), "classes as a column"


def test_the_probe_is_logistic_regression(monkeypatch):
    monkeypatch.setattr(networks, "PENALTY", 1.0)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6)).astype(np.float32) * [1, 10, 1, 1, 0.1, 1] + 3
    logits = X @ rng.standard_normal((6, 3)) + 3 * rng.standard_normal((400, 3))
    y = np.array(["a", "b", "c"])[logits.argmax(1)]
    train, test = (torch.from_numpy(part.astype(np.float32)) for part in (X[:300], X[300:]))
    z = (X - X[:300].mean(0)) / X[:300].std(0)
    theirs = LogisticRegression(C=1 / 300, max_iter=2000).fit(z[:300], y[:300]).predict(z[300:])
    assert networks.linear_accuracy(train, y[:300], test, theirs) >= 0.99
    assert networks.linear_accuracy(train, y[:300], test, np.full(100, "z")) == 0
