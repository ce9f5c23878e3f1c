"""Linear probes: how much a classifier that is linear can read from a layer that is frozen.

What a convolutional layer answers is averaged over its neighborhood until about 9,600 numbers are
left, as in the released ``eval_linear.py``, and a multinomial logistic regression is trained on
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isqrt

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

#: Numbers that are left of a layer: AlexNet's five then give 9,600, 9,216, 9,600, 9,600, 9,216.
MOST_NUMBERS = 9600


def pooled(activations: Tensor, most: int = MOST_NUMBERS) -> Tensor:
    """Activations averaged over a square grid, (n_samples, channels * s * s).

    Parameters
    ----------
    activations : Tensor of shape (n_samples, channels, height, width)
    most : int
        The grid is the finest that leaves at most as many numbers, and no finer than the pixels.

    Examples
    --------
    >>> pooled(torch.rand(2, 96, 55, 55)).shape
    torch.Size([2, 9600])
    """
    channels, height, width = activations.shape[1:]
    side = max(1, isqrt(most // channels))
    grid = (min(side, height), min(side, width))
    return functional.adaptive_avg_pool2d(activations, grid).flatten(1)


@torch.no_grad()
def activations(network: nn.Module, batches: Iterable[Tensor], layer: int | str,
                most: int = MOST_NUMBERS) -> Tensor:
    """What a layer answers to images, pooled, (n_samples, n_numbers), on the CPU.

    *layer* is the number of a convolutional layer, from 1, or ``"features"``: the representation
    after its ReLU, on which the network's own classifier stands.
    """
    network.eval()
    if layer == "features":
        return torch.cat([functional.relu(network.features(batch)).cpu() for batch in batches])
    return torch.cat([pooled(network.layers(batch)[layer - 1], most).cpu() for batch in batches])


def linear_accuracy(train: Tensor, y: np.ndarray, test: Tensor, y_test: np.ndarray, *,
                    penalty: float = 1e-3, max_iter: int = 200) -> float:
    r"""The accuracy on *test* of a linear classifier that was trained on *train*.

    Multinomial logistic regression on standardized numbers,

    .. math:: \min_{W,b} \frac1N \sum_n -\log \mathrm{softmax}(W x_n + b)_{y_n}
              + \frac{\text{penalty}}{2} \lVert W \rVert^2

    by L-BFGS, from zeros: nothing about it is random.

    Parameters
    ----------
    train, test : Tensor of shape (n_samples, n_numbers)
    y, y_test : ndarray of shape (n_samples,)
        Classes, of any kind. A class that only *y_test* has counts as wrong.
    penalty : float
    max_iter : int

    Returns
    -------
    float
        Between 0 and 1.
    """
    classes, targets = np.unique(y, return_inverse=True)
    mean, std = train.mean(0), train.std(0, correction=0)
    scale = torch.where(std > 1e-6 * std.max().clamp(min=1e-30), std, torch.inf).reciprocal()
    x, target = (train - mean) * scale, torch.as_tensor(targets, device=train.device)
    weight = torch.zeros(len(classes), x.shape[1], device=x.device, requires_grad=True)
    bias = torch.zeros(len(classes), device=x.device, requires_grad=True)
    steps = torch.optim.LBFGS([weight, bias], max_iter=max_iter, history_size=10,
                              tolerance_grad=1e-5, tolerance_change=1e-9,
                              line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        steps.zero_grad()
        value = (functional.cross_entropy(functional.linear(x, weight, bias), target)
                 + penalty / 2 * weight.square().sum())
        value.backward()
        return value

    with torch.enable_grad():
        steps.step(loss)
    with torch.no_grad():
        answers = functional.linear((test - mean) * scale, weight, bias).argmax(1).cpu().numpy()
    return float((classes[answers] == np.asarray(y_test)).mean())
