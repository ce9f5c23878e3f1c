"""IDC's parts: gates, losses and networks, each against its literal transcription in float64."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import norm
from torch import nn
from torch.nn import functional

from clusterbook import IDC
from clusterbook.idc import losses
from clusterbook.idc.losses import gumbel_softmax, hard_gates, open_probability, stochastic_gates
from clusterbook.idc.networks import Autoencoder, GatingNetwork, GlobalGates

TINY = {"n_clusters": 3, "encdec": [8, 6, 2, 7], "clustering_head": 5, "aux_classifier": 5,
        "gates_hidden_dim": 4}


@pytest.fixture(autouse=True)
def seed():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def random(*shape, **options):
    return torch.rand(*shape, dtype=torch.float64, **options)


def value_and_gradients(loss, *tensors):
    tensors = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    value = loss(*tensors)
    return (value.detach(), *torch.autograd.grad(value, tensors))


def agree(found, literal, tolerance=1e-10):
    """Whether values and gradients agree, and there is something to agree on."""
    for fast, slow in zip(found, literal, strict=True):
        scale = float(slow.abs().max())
        assert scale > 1e-6
        torch.testing.assert_close(fast, slow, rtol=0, atol=tolerance * max(scale, 1))


def test_a_gate_is_one_half_and_mu_clipped_with_a_gradient_between():
    mu = torch.tensor([-0.9, -0.5, -0.3, 0.0, 0.2, 0.9], requires_grad=True)
    gates = hard_gates(mu)
    torch.testing.assert_close(gates, torch.tensor([0, 0, 0.2, 0.5, 0.7, 1]))
    assert torch.equal(stochastic_gates(mu, 0.0), gates)
    gates.sum().backward()
    assert mu.grad[[0, 2, 3, 4, 5]].tolist() == [0, 1, 1, 1, 0]


@pytest.mark.parametrize("noise", [0.25, 0.5])
def test_noise_of_gates_has_its_standard_deviation_before_clipping(noise):
    for center in (-0.6, 0.0, 0.3):
        gates = stochastic_gates(torch.full((100_000,), center), noise).double()
        for share, probability in (((gates == 0), norm.cdf(-(center + 0.5) / noise)),
                                   ((gates == 1), 1 - norm.cdf((0.5 - center) / noise)),
                                   ((gates < 0.5), norm.cdf(-center / noise))):
            assert share.double().mean().item() == pytest.approx(probability, abs=0.006)
        assert open_probability(torch.tensor(center), noise).item() == pytest.approx(
            1 - norm.cdf(-(center + 0.5) / noise), abs=1e-6)


def test_gating_networks_begin_near_one_half_and_stay_between_their_bounds():
    network = GatingNetwork(50, 40)
    mu = network(torch.rand(20, 50))
    assert mu.shape == (20, 50) and mu.abs().max() < 0.3
    assert network(1e6 * torch.randn(20, 50)).abs().max() <= 1
    gates = GlobalGates(10, 784)
    assert gates.matrix().sum(1).mean().item() == pytest.approx(392, abs=1)  # as it was published
    labels = torch.tensor([3, 3, 0])
    torch.testing.assert_close(hard_gates(gates(labels)), gates.matrix()[labels])


@pytest.mark.parametrize(("regularizer", "sigma"), [
    (losses.regularizer_released, 1), (losses.regularizer_paper, 0.5)])
def test_regularizers_are_the_literal_ones(regularizer, sigma):
    def literal(mu):
        total = sum(0.5 - 0.5 * torch.erf(-(m + 0.5) / (math.sqrt(2) * sigma))
                    for row in mu for m in row)
        return total / (mu.numel() if sigma == 1 else len(mu))

    mu = 2 * random(7, 5) - 1
    agree(value_and_gradients(regularizer, mu), value_and_gradients(literal, mu))
    assert (value_and_gradients(regularizer, mu)[1] > 0).all()  # a step downhill closes every gate


def test_the_weight_of_sparsity_rises_along_half_a_cosine():
    weights = [losses.sparsity_weight(epoch, 290, 3.0) for epoch in range(1, 291)]
    # The released code counts from 0, begins after the epochs 0 to 10, and ends at 300.
    released = [0.5 * 3.0 * (1 + math.cos((t - 300) * math.pi / 290)) for t in range(11, 301)]
    assert weights == pytest.approx(released, abs=1e-12)


def literal_rate(gates, eps, projection=None):
    """As it is written: the determinant of a matrix as large as there are features."""
    if projection is not None:
        gates = gates @ projection
    m, d = gates.shape
    matrix = torch.eye(d, dtype=gates.dtype)
    for sample in gates:
        matrix = matrix + d / (m * eps) * torch.outer(sample, sample)
    return 0.5 * torch.logdet(matrix)


@pytest.mark.parametrize(("shape", "dimensions", "eps"), [
    ((6, 17), None, 0.3), ((17, 6), None, 1.0), ((8, 8), None, 1.0), ((1, 5), None, 0.3),
    ((5, 1), None, 1.0), ((8, 20), 3, 1.0), ((8, 20), 9, 0.3), ((8, 20), 40, 1.0)])
def test_the_coding_rate_is_the_literal_one_on_either_side(shape, dimensions, eps):
    gates, matrix = random(*shape), None
    if dimensions:
        matrix = losses.random_projection(shape[1], dimensions).double()
    agree(value_and_gradients(lambda g: losses.total_coding_rate(g, eps, matrix), gates),
          value_and_gradients(lambda g: literal_rate(g, eps, matrix), gates))


def test_a_random_projection_keeps_squared_lengths_on_average():
    gates, matrix = torch.rand(50, 30), losses.random_projection(30, 4000)
    ratio = (gates @ matrix).square().sum(1) / gates.square().sum(1)
    assert ratio.mean().item() == pytest.approx(1, abs=0.02)


def test_the_loss_is_minus_the_rate_of_a_sample_and_wants_samples_to_differ():
    gates = random(6, 17)
    assert losses.gate_coding_loss(gates, 1.0).item() == pytest.approx(
        -literal_rate(gates, 1.0).item() / 6)
    alike = torch.tensor([[1, 1, 0, 0, 0, 0, 0, 0]] * 4).double()
    apart = torch.eye(4).repeat_interleave(2, 1).double()
    assert losses.gate_coding_loss(apart, 1.0) < losses.gate_coding_loss(alike, 1.0)
    # Two orthogonal directions of length √2 each: 4 x 1/2 log(1 + 8/4 x 2).
    assert losses.total_coding_rate(apart, 1.0).item() == pytest.approx(4 * math.log(5) / 2)
    assert losses.total_coding_rate(alike, 1.0).item() == pytest.approx(math.log(1 + 2 * 8) / 2)


def test_the_coding_rate_is_accurate_in_float32_at_the_size_of_images():
    gates = stochastic_gates(0.1 * torch.randn(100, 784))
    exact = value_and_gradients(lambda g: losses.total_coding_rate(g, 1.0), gates.double())
    found = value_and_gradients(lambda g: losses.total_coding_rate(g, 1.0), gates)
    assert found[0].item() == pytest.approx(exact[0].item(), rel=1e-6)
    error = (found[1].double() - exact[1]).norm() / exact[1].norm()
    assert error < 1e-4                             # the full determinant: some 1e-3


def test_a_matrix_without_a_factorization_gives_nan_and_no_error():
    assert losses.total_coding_rate(torch.tensor([[float("nan"), 1.0]]), 1.0).isnan()
    assert losses._logdet_of_identity_plus(torch.tensor([[-3.0, 0], [0, 1]])).isnan()


def literal_compression(z, memberships, eps):
    """The released code's formula, one cluster and one sample at a time."""
    m, p = z.shape
    total = 0
    for k in range(memberships.shape[1]):
        size = memberships[:, k].sum() + 1e-8
        matrix = torch.eye(p, dtype=z.dtype)
        for i in range(m):
            h = z[i] / z[i].norm()
            matrix = matrix + p / (size * eps) * memberships[i, k] * torch.outer(h, h)
        total = total + size / (2 * m) * torch.logdet(matrix)
    return total / p


def literal_compression_of_the_paper(z, memberships, eps):
    p, total = z.shape[1], 0
    for k in range(memberships.shape[1]):
        mean = torch.zeros(p, p, dtype=z.dtype)
        for h, share in zip(functional.normalize(z, dim=1), memberships[:, k], strict=True):
            mean = mean + share * torch.outer(h, h) / (memberships[:, k].sum() + 1e-8)
        total = total + torch.logdet(torch.eye(p, dtype=z.dtype) + p / eps * mean) / 2
    return total


@pytest.mark.parametrize(("compression", "literal"), [
    (losses.compression_released, literal_compression),
    (losses.compression_paper, literal_compression_of_the_paper)])
@pytest.mark.parametrize("shape", [(9, 4, 3), (5, 8, 2)])
@pytest.mark.parametrize("eps", [0.1, 1.0])
def test_compression_is_the_literal_one(compression, literal, shape, eps):
    m, p, k = shape
    z, memberships = random(m, p) - 0.5, random(m, k).softmax(1)
    agree(value_and_gradients(lambda z, pi: compression(z, pi, eps), z, memberships),
          value_and_gradients(lambda z, pi: literal(z, pi, eps), z, memberships))


def test_an_empty_cluster_costs_nothing_and_has_a_gradient():
    z = random(6, 3)
    memberships = torch.zeros(6, 2, dtype=torch.float64)
    memberships[:, 0] = 1
    for loss in (losses.compression_released, losses.compression_paper):
        value, *gradients = value_and_gradients(lambda z, pi, loss=loss: loss(z, pi, 1.0), z,
                                                memberships)
        assert value.item() == pytest.approx(loss(z, memberships[:, :1], 1.0).item(), abs=1e-9)
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_memberships_are_the_softmax_of_noisy_log_probabilities():
    logits = random(6, 4)
    torch.manual_seed(3)
    found = gumbel_softmax(logits, 0.7)
    torch.manual_seed(3)
    uniform = torch.rand_like(logits)
    noisy = torch.log(logits.softmax(1)) - torch.log(-torch.log(uniform))
    torch.testing.assert_close(found, torch.softmax(noisy / 0.7, 1))
    torch.testing.assert_close(found.sum(1), torch.ones(6, dtype=torch.float64))


def autoencoder():
    """In double precision, with weights of ordinary size: the first ones are tiny."""
    network = Autoencoder(5, [6, 7, 3, 8]).double()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.5)
    return network.train()


def literal_terms(network, X, gates, mask, latent, error):
    """The four terms as the released code has them: a pass for each, the clean one twice."""
    return {"clean": error(network(X), X), "gated": error(network(X * gates), X),
            "masked": error(network(X * mask), X),
            "latent": error(network.decoder(network.encoder(X) * latent), X)}


@pytest.mark.parametrize("form", list(losses.FORMS))
def test_the_reconstruction_terms_are_the_literal_ones(form):
    network, X, gates = autoencoder(), random(9, 5), random(9, 5)
    mask, latent = (random(9, 5) > 0.6).double(), 1 + random(9, 3)
    literal = {"released": lambda out, X: ((out - X) ** 2).sum() / X.numel(),
               "paper": lambda out, X: sum((o - x).abs().sum() for o, x in zip(out, X, strict=True))
               / len(X)}[form]
    parameters = [*network.parameters(), gates.requires_grad_()]
    for name in ("clean", "gated", "masked", "latent"):
        fast, slow = (terms(network, X, gates=gates, mask=mask, latent=latent, error=error)
                      for terms, error in ((losses.reconstruction_terms, losses.FORMS[form].error),
                                           (literal_terms, literal)))
        assert list(fast) == list(slow)
        torch.testing.assert_close(fast[name], slow[name], rtol=0, atol=1e-10)
        for a, b in zip(*(torch.autograd.grad(part[name], parameters, materialize_grads=True,
                                              allow_unused=True) for part in (fast, slow)),
                        strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


def test_groups_are_normalized_by_themselves_and_averages_move_in_order():
    apart, together = autoencoder(), autoencoder()
    together.load_state_dict(apart.state_dict())
    groups = [random(9, 5), 4 * random(9, 5) - 1, torch.zeros(9, 5, dtype=torch.float64)]
    expected = [apart.encoder(group) for group in groups]
    for found, one in zip(losses.apply_apart(together.encoder, *groups), expected, strict=True):
        torch.testing.assert_close(found, one)
    for found, one in zip(together.buffers(), apart.buffers(), strict=True):
        torch.testing.assert_close(found, one)


def model_of(settings, n_features=5):
    model = settings._new_model(n_features).double().train()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


@pytest.mark.parametrize("options", [
    {}, {"form": "paper"}, {"gtcr_projection_dim": 3}, {"gtcr_loss": False},
    {"mask_percentage": 0.0}, {"latent_noise_std": 0.0}], ids=str)
def test_the_first_loss_is_the_literal_one_with_the_same_random_numbers(options):
    settings = IDC(**{**TINY, "mask_percentage": 0.4, "latent_noise_std": 0.2, "gtcr_lambda": 0.7,
                      **options})
    model, X, weight = model_of(settings), random(9, 5), 0.3
    torch.manual_seed(5)
    found, parts = settings._sparse_loss(model, X, weight)

    torch.manual_seed(5)
    mu = model.gating(X)
    paper = settings.form == "paper"
    gates = torch.clamp(0.5 + mu + (0.5 if paper else 0.25) * torch.randn_like(X), 0, 1)
    e = model.autoencoder.encoder(X)
    outputs = [model.autoencoder(X), model.autoencoder(X * gates)]
    if settings.mask_percentage:
        masked = torch.rand_like(X) < settings.mask_percentage
        outputs.append(model.autoencoder(X.masked_fill(masked, 0)))
    if settings.latent_noise_std:
        noise = 1 + settings.latent_noise_std * torch.randn_like(e)
        outputs.append(model.autoencoder.decoder(e * noise))
    loss = sum((out - X).abs().sum(1).mean() if paper else functional.mse_loss(out, X)
               for out in outputs)
    sigma = 0.5 if paper else 1
    probability = 0.5 - 0.5 * torch.erf(-(mu + 0.5) / (math.sqrt(2) * sigma))
    loss = loss + weight * (probability.sum(1).mean() if sigma == 0.5 else probability.mean())
    if settings.gtcr_loss:
        loss = loss - 0.7 * literal_rate(gates, 1.0, model.projection) / len(X)
    torch.testing.assert_close(found, loss, rtol=0, atol=1e-9)
    assert len(parts) == len(outputs) + 1 + settings.gtcr_loss
    assert torch.equal(model.local_gates(X), hard_gates(mu))    # no noise after training
    gradients = [torch.autograd.grad(value, list(model.gating.parameters()))
                 for value in (found, loss)]
    for fast, slow in zip(*gradients, strict=True):
        torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)
        assert slow.abs().max() > 1e-4


@pytest.mark.parametrize("form", list(losses.FORMS))
def test_the_heads_loss_is_the_compression_and_moves_the_head_alone(form):
    settings = IDC(**TINY, tau=1.0, eps=0.3, form=form)
    model, X = model_of(settings), random(9, 5).requires_grad_()
    embeddings = model.autoencoder.encoder(X)
    logits = model.head(embeddings.detach())
    torch.manual_seed(5)
    found = settings._head_loss(embeddings, logits)
    torch.manual_seed(5)
    literal = literal_compression if form == "released" else literal_compression_of_the_paper
    torch.testing.assert_close(found, literal(embeddings, gumbel_softmax(logits, 1.0), 0.3))
    found.backward()
    assert X.grad is None
    moved = {name.split(".")[0] for name, part in model.named_parameters() if part.grad is not None}
    assert moved == {"head"}


@pytest.mark.parametrize("form", list(losses.FORMS))
def test_the_global_loss_moves_classifier_and_global_gates_alone(form):
    settings = IDC(**TINY, global_gates_lambda=2.0, form=form)
    model, X = model_of(settings), random(9, 5)
    labels = torch.arange(9) % 3
    torch.manual_seed(5)
    found, parts = settings._global_loss(model, X, labels)
    torch.manual_seed(5)
    mu = torch.tanh(model.global_gates.weight)[labels]
    noise, sigma = (0.25, 1) if form == "released" else (0.5, 0.5)
    gates = torch.clamp(0.5 + mu + noise * torch.randn_like(mu), 0, 1)
    literal = functional.cross_entropy(model.auxiliary(X * gates), labels)
    penalty = 0.5 - 0.5 * torch.erf((-0.5 - mu) / (sigma * math.sqrt(2)))
    penalty = penalty.mean() if form == "released" else penalty.sum(1).mean()
    torch.testing.assert_close(found, literal + 2 * penalty)
    assert set(parts) == {"cross_entropy", "global_regularizer"}
    found.backward()
    moved = {name.split(".")[0] for name, part in model.named_parameters() if part.grad is not None}
    assert moved == {"auxiliary", "global_gates"}


@pytest.mark.parametrize(("widths", "linear"), [
    ([4], [(13, 4), (4, 13)]), ([8, 4], [(13, 8), (8, 4), (4, 13)]),
    ([8, 7, 4, 9], [(13, 8), (8, 7), (7, 4), (4, 9), (9, 13)])])
def test_an_autoencoder_has_any_widths(widths, linear):
    network = Autoencoder(13, widths)
    layers = [m for m in network.modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in layers] == linear
    assert isinstance(network.encoder[-1], nn.Linear) and isinstance(network.decoder[-1], nn.Linear)
    norms = [m.num_features for m in network.modules() if isinstance(m, nn.BatchNorm1d)]
    assert norms == [out for _, out in linear if out not in (4, 13)]
    assert network.embedding_size == 4 and network(torch.rand(4, 13)).shape == (4, 13)


def test_the_published_networks_have_the_published_numbers_of_weights():
    model = IDC(10)._new_model(784)
    sizes = {name: sum(p.numel() for p in part.parameters()) for name, part in
             model.named_children()}
    assert sizes["head"] == pytest.approx(47.1e3, abs=50)
    assert sizes["autoencoder"] == pytest.approx(3.5e6, abs=5e4)
    assert sizes["auxiliary"] == pytest.approx(1.6e6, abs=5e4)
    assert sizes["gating"] + sizes["global_gates"] == pytest.approx(1.2e6, abs=5e4)
    for linear in (m for m in model.modules() if isinstance(m, nn.Linear)):
        assert linear.weight.std().item() == pytest.approx(1e-3, rel=0.05)
