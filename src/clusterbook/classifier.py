r"""The networks whose weights are clustered: small classifiers, trained in several ways.

A multilayer perceptron with ReLU between its layers. By default it has no biases and is trained by
plain gradient descent, as in the notebook that the chapter repeats. Four additions are known or
claimed to make clusters appear: dropout, an L1 penalty, pruning by magnitude (Filan et al.,
arXiv:2103.03386), and a loss for blocks (Golechha et al., arXiv:2409.15747).

Differences from the authors' code
----------------------------------
The original notebook sets no seed; here one seed decides everything. Filan et al. train with
TensorFlow; its initialization and its pruning schedule are written out here. There a pruned weight
may come back if one step makes it large again; here it stays 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils import check_X_y
from torch import Tensor, nn

from . import training
from .checks import number, one_of, whole
from .errors import InputError
from .fingerprint import hash_modules

#: Steps between two updates of the pruning masks, as in the code of Filan et al.
PRUNING_INTERVAL = 10


class MLP(nn.Sequential):
    """A multilayer perceptron with ReLU between its layers.

    Without biases, the default, a layer consists of its weight matrix alone.

    Parameters
    ----------
    widths : sequence of int
        Number of inputs, of each hidden layer's neurons, and of classes.
    bias : bool
    dropout : float
        Share of each hidden layer's neurons that a training step leaves out.
    init : {"torch", "glorot"}
        First weights: torch's own, uniform up to 1/sqrt(inputs); or TensorFlow's, uniform up to
        sqrt(6 / (inputs + outputs)), with biases at 0.

    Examples
    --------
    >>> MLP([64, 128, 128, 10]).weights(1).shape
    (128, 128)
    """

    def __init__(self, widths: Sequence[int], *, bias: bool = False, dropout: float = 0.0,
                 init: str = "torch"):
        for width in widths:
            whole("a width", width, 1)
        one_of("initialization", init, ("torch", "glorot"))
        layers: list[nn.Module] = []
        for inputs, outputs in zip(widths, widths[1:], strict=False):
            layers += [nn.Linear(inputs, outputs, bias=bias), nn.ReLU(), nn.Dropout(dropout)]
        super().__init__(*layers[:-2])
        if init == "glorot":
            for layer in self.linear:
                nn.init.xavier_uniform_(layer.weight)
                if bias:
                    nn.init.zeros_(layer.bias)

    @property
    def linear(self) -> list[nn.Linear]:
        """The layers that have weights, from the inputs on."""
        return [module for module in self if isinstance(module, nn.Linear)]

    def weights(self, layer: int) -> np.ndarray:
        """The weight matrix of a layer, counted from 0: float64, shape (n_outputs, n_inputs)."""
        if not 0 <= layer < len(self.linear):
            raise InputError(f"there is no layer {layer}; this network has layers 0 to "
                             f"{len(self.linear) - 1}")
        return self.linear[layer].weight.detach().cpu().numpy().astype(np.float64)

    @torch.no_grad()
    def hidden(self, X: Tensor, *, off: Sequence[ArrayLike | None] = ()) -> list[Tensor]:
        """The outputs of every hidden layer after ReLU, then the network's own output.

        Parameters
        ----------
        X : Tensor of shape (n_samples, n_features)
        off : sequence of (None or bool array of shape (n_neurons,))
            For each hidden layer, from the first, the neurons that are switched off (held at 0).

        Returns
        -------
        list of Tensor
            Each (n_samples, n_neurons).
        """
        outputs: list[Tensor] = []
        for i, layer in enumerate(self.linear):
            X = layer(X)
            if i < len(self.linear) - 1:
                X = X.relu()
                if i < len(off) and off[i] is not None:
                    X = X.masked_fill(torch.as_tensor(off[i], device=X.device), 0.0)
            outputs.append(X)
        return outputs

    def accuracy(self, X: Tensor, y: Tensor) -> float:
        """Share of the samples whose largest output is their class."""
        return float((self.hidden(X)[-1].argmax(1) == y).float().mean())


def train_classifier(
    X: ArrayLike, y: ArrayLike, X_test: ArrayLike, y_test: ArrayLike, *,
    hidden: Sequence[int] = (128, 128), bias: bool = False, init: str = "torch", epochs: int = 5,
    optimizer: str = "sgd", learning_rate: float = 1e-3, batch_size: int = 64,
    dropout: float = 0.0, l1: float = 0.0, blocks: int = 0, block_weight: float = 0.0,
    pruning_epochs: int = 0, random_state: int | None = None, device: str = "auto",
    threads: int | None = None, checkpoint: str | Path | None = None, progress: bool | None = None,
) -> tuple[MLP, training.History]:
    """Train an `MLP` as a classifier on cross-entropy.

    Parameters
    ----------
    X, X_test : array-like of shape (n_samples, n_features)
        Training and test samples, already scaled.
    y, y_test : array-like of shape (n_samples,)
        Classes, 0 to n_classes - 1.
    hidden : sequence of int
        Number of neurons in each hidden layer.
    bias, init, dropout
        See `MLP`.
    epochs : int
        Passes over the data before any pruning.
    optimizer : {"sgd", "adam"}
        Plain gradient descent, or Adam with torch's defaults.
    learning_rate, batch_size : float, int
    l1 : float
        Weight of the penalty on the sum of all absolute weights.
    blocks, block_weight : int, float
        With both, ``block_weight`` times the mean `block_share` of the layers between hidden
        layers, for that many equal blocks, is subtracted from the loss.
    pruning_epochs : int
        Further epochs in which the smallest weights of each layer are set to 0 for good, from 50 %
        of them to 90 % (see `sparsity`), with a fresh optimizer.
    random_state : int, RandomState instance or None
        Seeds initialization, dropout and the order of the samples.
    device : str
        "auto" takes a GPU if there is one.
    threads : int, optional
        Of the CPU; by default one where steps are small, see `training.threads`.
    checkpoint : path, optional
        File for the state of training, from which a killed run resumes.
    progress : bool, optional
        Show a bar; by default only in a terminal or a live notebook.

    Returns
    -------
    MLP, History
        The network, and per epoch ``loss`` (mean of the training batches, in nats) and
        ``accuracy`` (on the test samples).

    Raises
    ------
    ValueError
        If samples are not finite, lengths do not fit, or a setting is out of range.
    """
    place = training.resolve_device(device)
    X, y = _samples(X, y, place)
    X_test, y_test = _samples(X_test, y_test, place)
    whole("batch_size", batch_size, 1)
    whole("blocks", blocks)
    whole("pruning_epochs", pruning_epochs)
    number("l1", l1, zero=True)
    optimizers = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    one_of("optimizer", optimizer, optimizers)
    if blocks and block_weight and len(hidden) < 2:
        raise InputError(f"blocks need at least two hidden layers, not {len(hidden)}")
    random_state = training.as_seed(random_state)
    settings = {"hidden": list(hidden), "bias": bias, "init": init, "epochs": epochs,
                "optimizer": optimizer, "learning_rate": learning_rate, "batch_size": batch_size,
                "dropout": dropout, "l1": l1, "blocks": blocks, "block_weight": block_weight,
                "pruning_epochs": pruning_epochs, "random_state": random_state}
    widths = [X.shape[1], *hidden, int(max(y.max(), y_test.max())) + 1]
    with torch.device("meta"):
        forward = training.multiply_adds(MLP(widths).hidden, (min(batch_size, len(X)), X.shape[1]))
    with (training.threads(3 * forward, threads, checkpoint) as n_threads,
          training.seeded(random_state, place) as generator):
        if checkpoint is not None:
            checkpoint = training.Checkpoint(
                checkpoint, parameters={**settings, "threads": n_threads},
                data=training.fingerprint(X, y, X_test, y_test),
                code=hash_modules(["classifier", "training"]))
        network = MLP(widths, bias=bias, dropout=dropout, init=init).to(place)
        n_batches = math.ceil(len(X) / batch_size)

        def train(stage: str, n_epochs: int) -> training.History:
            updates = optimizers[optimizer](network.parameters(), lr=learning_rate)
            steps = count()

            def start_epoch(epoch: int) -> None:
                nonlocal steps
                steps = count((epoch - 1) * n_batches)      # also of a resumed run

            def step(_epoch: int, batch: Tensor, classes: Tensor) -> dict[str, Tensor]:
                if stage == "pruning":
                    prune(network.linear, next(steps), pruning_epochs * n_batches)
                    masks = [layer.weight != 0 for layer in network.linear]
                loss = nn.functional.cross_entropy(network(batch), classes)
                if l1:
                    loss = loss + l1 * sum(layer.weight.abs().sum() for layer in network.linear)
                if blocks and block_weight:
                    inner = network.linear[1:-1]
                    loss = loss - block_weight / len(inner) * sum(
                        block_share(layer.weight, blocks) for layer in inner)
                updates.zero_grad()
                loss.backward()
                updates.step()
                if stage == "pruning":
                    for layer, mask in zip(network.linear, masks, strict=True):
                        layer.weight.data.mul_(mask)        # a pruned weight stays 0
                return {"loss": loss.detach()}

            return training.train(
                step, (X, y), epochs=n_epochs, batch_size=batch_size, generator=generator,
                state={"network": network, "optimizer": updates}, on_epoch_start=start_epoch,
                on_epoch=lambda _epoch, _row: {"accuracy": network.accuracy(X_test, y_test)},
                checkpoint=checkpoint, stage=stage, progress=progress, description=stage)

        history = train("training", epochs)
        if pruning_epochs:
            history = history + train("pruning", pruning_epochs)
    return network.eval(), history


def block_share(weight: Tensor, blocks: int) -> Tensor:
    r"""Share of the squared weight inside equal diagonal blocks, differentiable.

    :math:`\sum_{ij\ \mathrm{in\ a\ block}} W_{ij}^2 / \sum_{ij} W_{ij}^2`, the *clusterability* of
    Golechha et al. (arXiv:2409.15747); ``1 / blocks`` for weights without structure. *weight* has
    shape (n_outputs, n_inputs); the result is a scalar.

    Examples
    --------
    >>> block_share(torch.eye(4), 2)
    tensor(1.)
    """
    rows, columns = (torch.arange(n, device=weight.device) * blocks // n for n in weight.shape)
    squares = weight.square()
    return (squares * (rows[:, None] == columns)).sum() / squares.sum()


def sparsity(progress: float) -> float:
    r"""Share of weights that are pruned after a share *progress* of the pruning steps.

    :math:`s(t) = 0.9 - 0.4\,(1 - t)^3`, from 50 % to 90 %, as in the code of Filan et al.

    Examples
    --------
    >>> sparsity(0.0), sparsity(1.0)
    (0.5, 0.9)
    """
    return 0.9 + (0.5 - 0.9) * (1 - progress) ** 3


@torch.no_grad()
def prune(layers: Sequence[nn.Linear], step: int, total: int) -> None:
    """Set the smallest weights of each layer to 0, every tenth of *total* steps and in the last."""
    last = step == total - 1
    if step % PRUNING_INTERVAL and not last:
        return
    share = sparsity(1.0 if last else step / total)
    for layer in layers:
        size = layer.weight.abs()
        if cut := round(share * size.numel()):
            # Weights pruned before are 0 and stay below any threshold.
            layer.weight.mul_(size > size.flatten().kthvalue(cut).values)


def _samples(X: ArrayLike, y: ArrayLike, device: torch.device) -> tuple[Tensor, Tensor]:
    X, y = check_X_y(X, y, dtype=np.float32)
    if y.dtype.kind not in "buif" or not ((y >= 0) & (y == np.floor(y))).all():
        raise InputError("classes must be whole numbers from 0")
    return torch.tensor(X, device=device), torch.tensor(y, dtype=torch.int64, device=device)
