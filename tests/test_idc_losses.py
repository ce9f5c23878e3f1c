"""IDC's parts: gates, losses and networks, each against its literal transcription in float64."""

import math

import pytest
import torch
from scipy.stats import norm
from torch import nn
from torch.nn import functional

from clusterbook import IDC
from clusterbook.idc import losses
from clusterbook.idc.losses import hard_gates, open_probability, stochastic_gates

TINY = {"n_clusters": 3, "encdec": [8, 6, 2, 7], "clustering_head": 5, "aux_classifier": 5,
        "gates_hidden_dim": 4}


@pytest.fixture(autouse=True)
def seed():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def random(*shape):
    return torch.rand(*shape, dtype=torch.float64)


def agree(loss, literal, *tensors):
    """Whether values and gradients agree, and there is something to agree on."""
    tensors, found = [tensor.clone().requires_grad_() for tensor in tensors], []
    for function in (loss, literal):
        value = function(*tensors)
        found.append((value.detach(), *torch.autograd.grad(value, tensors)))
    for fast, slow in zip(*found, strict=True):
        assert slow.abs().max() > 1e-6
        torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)


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
    gates = random(*shape)
    matrix = random(shape[1], dimensions) if dimensions else None
    agree(lambda g: losses.gate_coding_loss(g, eps, matrix),
          lambda g: -literal_rate(g, eps, matrix) / len(gates), gates)
    assert losses.gate_coding_loss(gates * torch.nan, eps).isnan()      # and no error


def literal_compression(z, memberships, eps, paper=False):
    """The released sum over clusters, or the paper's, one sample at a time."""
    (m, p), total = z.shape, 0.0
    for k in range(memberships.shape[1]):
        size, matrix = memberships[:, k].sum() + 1e-8, torch.eye(p, dtype=z.dtype)
        for row, share in zip(z, memberships[:, k], strict=True):
            h = row / row.norm()
            matrix = matrix + p / (size * eps) * share * torch.outer(h, h)
        total = total + torch.logdet(matrix) / 2 * (1 if paper else size / (m * p))
    return total


@pytest.mark.parametrize("compression", [losses.compression_released, losses.compression_paper])
@pytest.mark.parametrize(("shape", "eps"), [((9, 4, 3), 0.1), ((5, 8, 2), 1.0)])
def test_compression_is_the_literal_one(compression, shape, eps):
    (m, p, k), paper = shape, compression is losses.compression_paper
    z, memberships = random(m, p) - 0.5, random(m, k).softmax(1)
    agree(lambda z, pi: compression(z, pi, eps),
          lambda z, pi: literal_compression(z, pi, eps, paper), z, memberships)
    memberships = functional.one_hot(torch.zeros(m, dtype=int), k).double().requires_grad_()
    value = compression(z, memberships, eps)
    alone = compression(z, memberships[:, :1], eps)             # an empty cluster costs nothing
    assert value.item() == pytest.approx(alone.item(), abs=1e-6)
    assert torch.autograd.grad(value, memberships)[0].isfinite().all()


def model_of(settings):
    model = settings._new_model(5).double().train()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model, random(9, 5)


def penalty(mu, paper):
    """The literal penalty of open gates, in either form."""
    probability = 0.5 - 0.5 * torch.erf(-(mu + 0.5) / (math.sqrt(2) * (0.5 if paper else 1)))
    return probability.sum(1).mean() if paper else probability.mean()


def noisy(mu, paper):
    return torch.clamp(0.5 + mu + (0.5 if paper else 0.25) * torch.randn_like(mu), 0, 1)


def moved(model):
    """The parts of a model that have gradients."""
    return {name.split(".")[0] for name, part in model.named_parameters() if part.grad is not None}


@pytest.mark.parametrize("options", [
    {}, {"form": "paper"}, {"gtcr_projection_dim": 3}, {"gtcr_loss": False},
    {"mask_percentage": 0.0}, {"latent_noise_std": 0.0}], ids=str)
def test_the_first_loss_is_the_literal_one_with_the_same_random_numbers(options):
    settings = IDC(**{**TINY, "mask_percentage": 0.4, "latent_noise_std": 0.2, "gtcr_lambda": 0.7,
                      **options})
    (model, X), paper = model_of(settings), settings.form == "paper"
    torch.manual_seed(5)
    found, parts = settings._sparse_loss(model, X, 0.3)

    torch.manual_seed(5)
    mu, e = model.gating(X), model.autoencoder.encoder(X)
    gates = noisy(mu, paper)
    outputs = [model.autoencoder(X), model.autoencoder(X * gates)]
    if settings.mask_percentage:
        masked = torch.rand_like(X) < settings.mask_percentage
        outputs.append(model.autoencoder(X.masked_fill(masked, 0)))
    if settings.latent_noise_std:
        noise = 1 + settings.latent_noise_std * torch.randn_like(e)
        outputs.append(model.autoencoder.decoder(e * noise))
    errors = [(out - X).abs().sum(1).mean() if paper else functional.mse_loss(out, X)
              for out in outputs]
    for fast, slow in zip(parts.values(), errors, strict=False):
        torch.testing.assert_close(fast, slow, rtol=0, atol=1e-10)
    loss = sum(errors) + 0.3 * penalty(mu, paper)
    if settings.gtcr_loss:
        loss = loss - 0.7 * literal_rate(gates, 1.0, model.projection) / len(X)
    torch.testing.assert_close(found, loss, rtol=0, atol=1e-9)
    assert len(parts) == len(outputs) + 1 + settings.gtcr_loss
    assert torch.equal(model.local_gates(X), hard_gates(mu))    # no noise after training
    parameters = [*model.gating.parameters(), *model.autoencoder.parameters()]
    gradients = (torch.autograd.grad(value, parameters, retain_graph=True)
                 for value in (found, loss))
    for fast, slow in zip(*gradients, strict=True):
        torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)


@pytest.mark.parametrize("form", list(losses.FORMS))
def test_the_heads_loss_is_the_compression_and_moves_the_head_alone(form):
    settings = IDC(**TINY, tau=0.7, eps=0.3, form=form)
    model, X = model_of(settings)
    embeddings = model.autoencoder.encoder(X.requires_grad_())
    logits = model.head(embeddings.detach())
    torch.manual_seed(5)
    found = settings._head_loss(embeddings, logits)
    torch.manual_seed(5)
    gumbel = logits.softmax(1).log() - torch.log(-torch.log(torch.rand_like(logits)))
    memberships = torch.softmax(gumbel / 0.7, 1)
    literal = literal_compression(embeddings, memberships, 0.3, form == "paper")
    torch.testing.assert_close(found, literal)
    found.backward()
    assert X.grad is None and moved(model) == {"head"}


@pytest.mark.parametrize("form", list(losses.FORMS))
def test_the_global_loss_moves_classifier_and_global_gates_alone(form):
    settings = IDC(**TINY, global_gates_lambda=2.0, form=form)
    (model, X), labels = model_of(settings), torch.arange(9) % 3
    torch.manual_seed(5)
    found, parts = settings._global_loss(model, X, labels)
    torch.manual_seed(5)
    mu = torch.tanh(model.global_gates.weight)[labels]
    gates = noisy(mu, form == "paper")
    literal = functional.cross_entropy(model.auxiliary(X * gates), labels)
    torch.testing.assert_close(found, literal + 2 * penalty(mu, form == "paper"))
    assert set(parts) == {"cross_entropy", "global_regularizer"}
    found.backward()
    assert moved(model) == {"auxiliary", "global_gates"}


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


def test_statistics_of_samples_sorted_by_group_are_those_of_all():
    groups = torch.randn(9000, 6) + 5 * (torch.arange(9000) >= 4500)[:, None]
    model = IDC(2)._new_model(6)
    model.calibrate(groups)
    first = model.autoencoder.encoder[0](groups)
    norm = next(part for part in model.autoencoder.encoder if isinstance(part, nn.BatchNorm1d))
    torch.testing.assert_close(norm.running_var, first.var(0), rtol=0.01, atol=0)
