r"""Batch normalization that is exact with channels last, where convolutions are fast on a CPU.

With channels last, torch's own batch normalization adds up all pixels of a batch one after the
other in single precision: with 200,000 of them its outputs are off by :math:`10^{-4}`. Here each
sample is summed by itself, which torch does pairwise, and the samples' sums in double precision.
Everywhere else (GPU, evaluation, other types) torch's own is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional


class BatchNorm2d(nn.BatchNorm2d):
    """`torch.nn.BatchNorm2d`, exact also for float32 on a CPU with channels last.

    Parameters, buffers and ``state_dict`` are torch's.

    Examples
    --------
    >>> images = torch.rand(8, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    >>> out = BatchNorm2d(3)(images)
    >>> bool(out.mean((0, 2, 3)).abs().max() < 1e-6)
    True
    """

    #: Adds up the sums of several processes, each with a part of the batch; here there is one.
    total = staticmethod(lambda sums: sums)

    def forward(self, images: Tensor) -> Tensor:
        """Normalize *images*, (n_samples, channels, height, width), channel by channel."""
        if not self.training or self._torch_is_exact(images):
            return super().forward(images)
        normalized, mean, variance = _Normalize.apply(images, self.weight, self.bias, self.eps,
                                                      self.total)
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance, self.momentum)
        return normalized

    def _torch_is_exact(self, images: Tensor) -> bool:
        return (images.device.type != "cpu" or images.dtype != torch.float32
                or images.numel() // images.shape[1] < 2
                or not images.is_contiguous(memory_format=torch.channels_last))


class _Normalize(torch.autograd.Function):
    """Normalization by the batch's own statistics, and its gradient; also the unbiased variance."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, bias: Tensor, eps: float,
                of_all: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        x = _rows(images)
        n = torch.full((1,), x.shape[0] * x.shape[1], dtype=torch.float64, device=x.device)
        sums = of_all(torch.cat([_total(x), _total(x * x), n]))
        total, squares, n = sums.split([x.shape[2], x.shape[2], 1])
        mean = total / n
        variance = (squares / n - mean.square()).clamp_(min=0)
        ctx.of_all = of_all
        ctx.save_for_backward(images, weight, mean, (variance + eps).rsqrt(), n)
        mean, variance = mean.float(), variance.float()
        unbiased = variance * (n / (n - 1)).float()
        ctx.mark_non_differentiable(mean, unbiased)
        # torch's evaluation form takes the statistics as given: one pass, exact.
        return (functional.batch_norm(images, mean, variance, weight, bias, False, 0.0, eps),
                mean, unbiased)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        images, weight, mean, scale, n = ctx.saved_tensors
        x, dy = _rows(images), _rows(grad.contiguous(memory_format=torch.channels_last))
        own = torch.stack([_total(dy), _total(dy * x)])
        (d_bias, d_weight), (own_bias, own_weight) = (
            (sums[0], (sums[1] - mean * sums[0]) * scale) for sums in (ctx.of_all(own), own))
        # dx = w s (dy - d_bias/n - x̂ d_weight/n) with x̂ = (x - m) s, as a dy + b x + c
        a = weight * scale
        b = -a * scale * d_weight / n
        c = -a * d_bias / n - b * mean
        dx = torch.addcmul(c.float(), dy, a.float()).addcmul_(x, b.float())
        shape = images.shape
        # The gradients of weight and bias are summed with those of all other parameters.
        return (dx.unflatten(1, shape[2:]).permute(0, 3, 1, 2), own_weight.float(),
                own_bias.float(), None, None)


def _rows(images: Tensor) -> Tensor:
    """The pixels as rows, (n_samples, n_pixels, channels): a view of images with channels last."""
    return images.permute(0, 2, 3, 1).flatten(1, 2)


def _total(x: Tensor) -> Tensor:
    """Sum over samples and pixels, float64, (channels,)."""
    return x.sum(1).double().sum(0)
