"""TELL's parts: the layer and its losses against their definitions, the networks."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from clusterbook.checks import InputError
from clusterbook.tell import ClusterLayer, ConvAutoencoder, DenseAutoencoder, clustering_loss
from clusterbook.tell.layer import squared_distance

EVERY_ALPHA = pytest.mark.parametrize("alpha", [1e-3, 0.3, 5.0])


def literal_loss(logits, alpha):
    """The released code's loss, one sample at a time, before the factor 0.01."""
    delta = torch.zeros_like(logits)
    for i in range(len(logits)):
        delta[i, torch.argmax(functional.softmax(logits[i].detach(), dim=0))] = 1
    return (2 * alpha - delta * logits).mean() / alpha


def literal_distance(z, centers):
    """Eq. 13 as a sum of squared differences, one sample at a time; the mean over samples."""
    total = 0.0
    for sample in z:
        total = total + min((sample - center).square().sum() for center in centers)
    return total / len(z)


def unit_vectors(n, d, seed):
    generator = torch.Generator().manual_seed(seed)
    return functional.normalize(torch.randn(n, d, generator=generator, dtype=torch.float64), dim=1)


def layer_with(centers, alpha=1e-3):
    layer = ClusterLayer(*centers.shape, alpha).to(centers.dtype)
    layer.reset_centers(centers)
    return layer


@EVERY_ALPHA
def test_the_loss_is_the_literal_one_in_value_and_gradient(alpha):
    z, centers = unit_vectors(40, 6, 0), unit_vectors(7, 6, 1)
    found = []
    for loss in (clustering_loss, literal_loss):
        x, W = z.clone().requires_grad_(), (2 * alpha * centers).requires_grad_()
        value = loss(x @ W.T, alpha)
        found.append((value.detach(), *torch.autograd.grad(value, (x, W))))
    for fast, slow in zip(*found, strict=True):
        scale = float(slow.abs().max())
        torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12 * max(scale, 1))
        assert scale > 1e-3


@EVERY_ALPHA
def test_the_distance_is_the_squared_distance_to_the_nearest_center(alpha):
    z, centers = unit_vectors(40, 6, 0).requires_grad_(), unit_vectors(7, 6, 1)
    values = (squared_distance(2 * alpha * z @ centers.T, alpha), literal_distance(z, centers))
    assert values[0].item() == pytest.approx(values[1].item(), abs=1e-12)
    # The layer brings samples to length 1.
    assert layer_with(centers, alpha)(7 * z).item() == pytest.approx(values[1].item(), abs=1e-12)
    fast, slow = (torch.autograd.grad(value, z)[0] for value in values)
    # The gradients differ by the part along z, 2(z - Ω) against -2Ω: on the sphere it does nothing.
    torch.testing.assert_close(fast + 2 * z.detach() / 40, slow, rtol=0, atol=1e-12)


@EVERY_ALPHA
def test_a_normalized_step_is_a_tenth_of_the_length(alpha):
    layer = layer_with(unit_vectors(4, 6, 0), alpha)
    before = layer.weight.detach().clone()
    # The first center has many samples, the second one, the others none.
    samples = torch.cat([before[:1] + 0.2 * alpha * unit_vectors(50, 6, 1), before[1:2]])
    samples[-1] += 0.1 * alpha
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    layer(samples).backward()
    raw = layer.weight.grad.clone()
    layer.normalize_gradient()
    torch.testing.assert_close(functional.normalize(layer.weight.grad[:2]),
                               functional.normalize(raw[:2]))
    optimizer.step()
    moved = (layer.weight.detach() - before).norm(dim=1)
    assert (moved / before.norm(dim=1)).tolist() == pytest.approx([0.1, 0.1, 0, 0], rel=1e-6)
    layer.normalize_centers()
    torch.testing.assert_close(layer.centers().norm(dim=1), torch.ones(4, dtype=torch.float64))
    mean = functional.normalize(samples[:50].sum(0), dim=0)
    assert mean @ layer.centers()[0] > mean @ before[0] / (2 * alpha)


@pytest.mark.parametrize(("alpha", "temperature"), [(1e-3, 1e-4), (0.3, 3.0), (5.0, 0.1)])
def test_the_soft_assignment_is_a_softmax_of_distances(alpha, temperature):
    z, centers = unit_vectors(15, 4, 0), unit_vectors(6, 4, 1)
    layer = layer_with(centers, alpha)
    distances = (z[:, None] - centers).square().sum(2)
    found = layer.cluster(5 * z, soft=True, temperature=temperature)
    torch.testing.assert_close(found, torch.softmax(-distances / temperature, dim=1))
    assert torch.equal(layer.cluster(5 * z), distances.argmin(1))
    assert layer.cluster(z).dtype == torch.int64 and not found.requires_grad


@pytest.mark.parametrize("call", [
    lambda: ClusterLayer(2, 2, alpha=0), lambda: ClusterLayer(0, 2),
    lambda: ClusterLayer(2, 2).cluster(torch.ones(1, 2), soft=True, temperature=0),
    *(lambda centers=centers: ClusterLayer(2, 2).reset_centers(torch.tensor(centers)) for centers in
      ([[1.0, 1.0]] * 3, [[1.0, float("nan")], [0.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]])),
])
def test_arguments_out_of_range_are_refused(call):
    with pytest.raises(InputError, match="must (be|have)"):
        call()


def test_pixels_keep_their_places():
    """Rows of X are images in the order channel, row, column, on the way in and on the way out."""
    network = ConvAutoencoder((3, 8, 12)).eval()
    image, seen = torch.rand(1, 3, 8, 12), []
    first = next(layer for layer in network.encoder if isinstance(layer, nn.Conv2d))
    first.register_forward_hook(lambda _layer, given, _made: seen.append(given[0]))
    network.encode(image.reshape(1, -1))
    assert torch.equal(seen[0], image)
    last = [layer for layer in network.decoder if isinstance(layer, nn.ConvTranspose2d)][-1]
    last.register_forward_hook(lambda _layer, _given, made: seen.append(made))
    decoded = network.decode(torch.randn(1, 10))
    torch.testing.assert_close(decoded.reshape(1, 3, 8, 12), torch.sigmoid(seen[1]))


def test_the_networks_have_the_papers_sizes():
    sizes = [sum(parameter.numel() for parameter in network.parameters()) for network in (
        ConvAutoencoder((1, 28, 28)), ConvAutoencoder((3, 28, 28)), DenseAutoencoder(784))]
    assert sizes == [445_515, 446_093, 3_330_794]
