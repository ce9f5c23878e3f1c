"""Batch normalization with channels last: as exact as torch's in the usual layout."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from clusterbook.batchnorm import BatchNorm2d


def images(n=256):
    torch.manual_seed(0)
    x = torch.randn(n, 16, 28, 28) + 0.7 * torch.randn(1, 16, 1, 1)
    return x.contiguous(memory_format=torch.channels_last)


def pair(channels=16):
    """Ours, and torch's in double precision, with the same weights."""
    torch.manual_seed(1)
    ours = BatchNorm2d(channels)                # its weights are torch's: see load_state_dict
    nn.init.uniform_(ours.weight, 0.5, 1.5)
    nn.init.uniform_(ours.bias)
    exact = nn.BatchNorm2d(channels).double()
    exact.load_state_dict(ours.state_dict())
    return ours, exact


def results(layer, x):
    """Output, gradients of input, weight and bias, and the running statistics."""
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    torch.manual_seed(2)
    weights = torch.randn(x.shape, dtype=torch.float64).to(x.dtype) * 1e-3 + 2e-4
    out = layer(x)
    (out * weights).sum().backward()
    return {"out": out, "images": x.grad, "weight": layer.weight.grad, "bias": layer.bias.grad,
            "mean": layer.running_mean, "variance": layer.running_var}


def error(found, exact):
    return ((found.double() - exact).abs().max() / exact.abs().max()).item()


def test_it_is_exact_where_torch_is_not():
    x = images()
    ours, exact = pair()
    expected = results(exact, x.double())
    errors = {name: error(value, expected[name]) for name, value in results(ours, x).items()}
    assert max(errors.values()) < 2e-6, errors
    assert ours.num_batches_tracked == exact.num_batches_tracked == 1


@pytest.mark.parametrize("x", [images(8).contiguous(), images(8).double()], ids=["NCHW", "double"])
def test_elsewhere_it_is_torchs_own(x):
    ours, _ = pair()
    theirs = nn.BatchNorm2d(16)
    theirs.load_state_dict(ours.state_dict())
    expected = results(theirs.to(x.dtype), x)
    for name, value in results(ours.to(x.dtype), x).items():
        assert torch.equal(value, expected[name]), name


def test_a_constant_channel_gives_its_bias():
    x = torch.full((4, 2, 3, 3), 0.3).contiguous(memory_format=torch.channels_last)
    layer, _ = pair(2)
    out = layer(x)
    assert torch.isfinite(out).all()
    assert torch.allclose(out, layer.bias[:, None, None].expand_as(out), atol=1e-3)
