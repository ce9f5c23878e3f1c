"""Batch normalization with channels last: as exact as torch's in the usual layout."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from clusterbook.batchnorm import BatchNorm2d


def images(n):
    torch.manual_seed(0)
    x = torch.randn(n, 16, 28, 28) + 0.7 * torch.randn(1, 16, 1, 1)
    return x.contiguous(memory_format=torch.channels_last)


def results(layer, x):
    """Output, gradients of input, weight and bias, and the running statistics."""
    torch.manual_seed(1)
    nn.init.uniform_(layer.weight, 0.5, 1.5)
    nn.init.uniform_(layer.bias)
    layer = layer.to(x.dtype)
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    weights = torch.randn(x.shape, dtype=torch.float64).to(x.dtype) * 1e-3 + 2e-4
    out = layer(x)
    (out * weights).sum().backward()
    return {"out": out, "images": x.grad, "weight": layer.weight.grad, "bias": layer.bias.grad,
            "mean": layer.running_mean, "variance": layer.running_var,
            "batches": layer.num_batches_tracked}


@pytest.mark.parametrize("n", [256, 2])
def test_it_is_exact_where_torch_is_not(n):
    x = images(n)
    found, exact = results(BatchNorm2d(16), x), results(nn.BatchNorm2d(16), x.double())
    errors = {name: ((found[name].double() - exact[name]).abs().max() / exact[name].abs().max())
              for name in found}
    assert max(errors.values()) < 2e-6, errors


@pytest.mark.parametrize("x", [images(8).contiguous(), images(8).double()], ids=["NCHW", "double"])
def test_elsewhere_it_is_torchs_own(x):
    found, expected = results(BatchNorm2d(16), x), results(nn.BatchNorm2d(16), x)
    for name in found:
        assert torch.equal(found[name], expected[name]), name


def test_a_constant_channel_gives_its_bias():
    x = torch.full((4, 2, 3, 3), 0.3).contiguous(memory_format=torch.channels_last)
    layer = BatchNorm2d(2)
    nn.init.uniform_(layer.bias)
    torch.testing.assert_close(layer(x), layer.bias[:, None, None].expand_as(x), atol=1e-3, rtol=0)
