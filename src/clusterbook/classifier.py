"""A small classifier without biases: the network whose weights are clustered.

The multilayer perceptron of the notebook that the chapter *Weight co-clustering* repeats: fully
connected layers without biases, ReLU between them, trained by stochastic gradient descent on
cross-entropy.

Differences from the authors' code
----------------------------------
The data live in one tensor on the device instead of passing through a loader one by one; the loss
and the steps are the same. The original sets no seed; here one seed decides everything.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from . import training
from .errors import InputError


class MLP(nn.Sequential):
    """A bias-free multilayer perceptron with ReLU between its layers.

    Without biases a layer is its weight matrix and nothing else.

    Parameters
    ----------
    widths : sequence of int
        Number of inputs, of each hidden layer's neurons, and of classes.

    Examples
    --------
    >>> MLP([64, 128, 128, 10]).weights(1).shape
    (128, 128)
    """

    def __init__(self, widths: Sequence[int]):
        if len(widths) < 2 or min(widths) < 1:
            raise InputError(f"widths must be at least two positive numbers, not {list(widths)}")
        layers: list[nn.Module] = []
        for inputs, outputs in zip(widths, widths[1:], strict=False):
            layers += [nn.Linear(inputs, outputs, bias=False), nn.ReLU()]
        super().__init__(*layers[:-1])

    def weights(self, layer: int) -> np.ndarray:
        """The weight matrix of a layer, counted from 0: float64, shape (n_outputs, n_inputs)."""
        linear = [module for module in self if isinstance(module, nn.Linear)]
        if not 0 <= layer < len(linear):
            raise InputError(f"there is no layer {layer}; this network has layers 0 to "
                             f"{len(linear) - 1}")
        return linear[layer].weight.detach().cpu().numpy().astype(np.float64)

    @torch.no_grad()
    def accuracy(self, X: torch.Tensor, y: torch.Tensor) -> float:
        """Share of the samples whose largest output is their class."""
        was_training = self.training
        self.eval()
        right = (self(X).argmax(1) == y).float().mean().item()
        self.train(was_training)
        return right


def train_classifier(
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike,
    y_test: ArrayLike,
    *,
    hidden: Sequence[int] = (128, 128),
    epochs: int = 5,
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    random_state: int | None = None,
    device: str = "auto",
    checkpoint: training.Checkpoint | None = None,
    progress: bool | None = None,
) -> tuple[MLP, training.History]:
    """Train an `MLP` as a classifier by plain stochastic gradient descent on cross-entropy.

    Parameters
    ----------
    X, X_test : array-like of shape (n_samples, n_features)
        Training and test samples, already scaled as the network shall see them.
    y, y_test : array-like of shape (n_samples,)
        Classes, 0 to n_classes - 1.
    hidden : sequence of int
        Number of neurons in each hidden layer.
    epochs, learning_rate, batch_size
        Passes over the data, step length, samples per step.
    random_state : int, RandomState instance or None
        Decides initialization and the order of the samples.
    device : str
        "auto" takes a GPU where there is one.
    checkpoint, progress
        See `clusterbook.training.train`.

    Returns
    -------
    MLP, History
        The network, and per epoch ``loss`` (mean cross-entropy of the training batches, in nats)
        and ``accuracy`` (on the test samples).

    Raises
    ------
    InputError
        If samples hold NaN or infinite values, classes are not whole numbers from 0, or lengths
        do not fit.
    """
    place = training.resolve_device(device)
    X, y = _samples(X, y, "training", place)
    X_test, y_test = _samples(X_test, y_test, "test", place)
    if X.shape[1] != X_test.shape[1]:
        raise InputError(f"training samples have {X.shape[1]} features, test samples "
                         f"{X_test.shape[1]}")
    widths = [X.shape[1], *hidden, int(max(y.max(), y_test.max())) + 1]
    with training.seeded(random_state, place) as generator:
        network = MLP(widths).to(place)
        optimizer = torch.optim.SGD(network.parameters(), lr=learning_rate)

        def step(_epoch: int, batch: torch.Tensor, classes: torch.Tensor) -> dict:
            loss = nn.functional.cross_entropy(network(batch), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return {"loss": loss.detach()}

        history = training.train(
            step, (X, y), epochs=epochs, batch_size=batch_size, generator=generator,
            state={"network": network, "optimizer": optimizer},
            on_epoch=lambda _epoch, _row: {"accuracy": network.accuracy(X_test, y_test)},
            checkpoint=checkpoint, progress=progress, description="classifier",
        )
    return network, history


def _samples(X: ArrayLike, y: ArrayLike, which: str, device: torch.device):
    y = np.asarray(y)
    if y.dtype.kind not in "buif" or not (np.isfinite(y) & (y >= 0) & (y == np.floor(y))).all():
        raise InputError(f"the classes of the {which} samples must be whole numbers from 0")
    X = torch.as_tensor(np.asarray(X), dtype=torch.float32, device=device)
    y = torch.as_tensor(y, dtype=torch.int64, device=device)
    if X.ndim != 2 or y.ndim != 1 or len(X) != len(y):
        raise InputError(f"the {which} samples have shape {tuple(X.shape)} and their classes "
                         f"{tuple(y.shape)}; expected (n, n_features) and (n,)")
    if not len(X):
        raise InputError(f"there are no {which} samples")
    if not torch.isfinite(X).all():
        raise InputError(f"the {which} samples hold NaN or infinite values; remove or fill them")
    return X, y


