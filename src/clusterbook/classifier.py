r"""The networks whose weights are clustered: small classifiers, trained in several ways.

By default without biases and by plain gradient descent, as in the original notebook. Four additions
are known or claimed to make clusters appear: dropout, an L1 penalty, pruning by magnitude (Filan et
al., arXiv:2103.03386), and a loss for blocks (Golechha et al., arXiv:2409.15747).

Differences from the authors' code
----------------------------------
The original notebook sets no seed; here one seed decides everything. Filan et al. train with
TensorFlow, where a pruned weight may come back if one step makes it large again; here it stays 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils import check_X_y
from torch import Tensor, nn

from . import paths, training
from .checkpoints import Checkpoint, code_hash, fingerprint
from .checks import InputError, as_seed, number, one_of, whole, wholes


class MLP(nn.Sequential):
    """A multilayer perceptron with ReLU between its layers.

    Parameters
    ----------
    widths : sequence of int
        Number of inputs, of each hidden layer's neurons, and of classes.
    dropout : float
        Share of each hidden layer's neurons that a training step leaves out.
    init : {"torch", "glorot"}
        First weights: torch's own, uniform up to 1/sqrt(inputs); or TensorFlow's, uniform up to
        sqrt(6 / (inputs + outputs)), with biases at 0.
    """

    def __init__(self, widths: Sequence[int], *, bias: bool = False, dropout: float = 0.0,
                 init: str = "torch"):
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
    def hidden(self, X: ArrayLike, *, off: Mapping[int, ArrayLike] | None = None) -> list[Tensor]:
        """The outputs of every hidden layer after ReLU, then the network's own output.

        *X* has shape (n_samples, n_features), each result (n_samples, n_neurons). *off* maps hidden
        layers, from 0, to masks (n_neurons,) of the neurons that are switched off (held at 0).
        """
        weight, outputs = self.linear[0].weight, []
        X = X if isinstance(X, Tensor) else np.array(X)         # a data frame, too
        X = torch.as_tensor(X, dtype=weight.dtype, device=weight.device)
        for i, layer in enumerate(self.linear):
            X = layer(X)
            if i < len(self.linear) - 1:
                X = X.relu()
            if off and i in off:
                X = X.masked_fill(torch.as_tensor(off[i], device=X.device), 0.0)
            outputs.append(X)
        return outputs


def train_classifier(
    X: ArrayLike, y: ArrayLike, X_test: ArrayLike, y_test: ArrayLike, *,
    hidden: Sequence[int] = (128, 128), bias: bool = False, init: str = "torch", epochs: int = 5,
    optimizer: str = "sgd", learning_rate: float = 1e-3, batch_size: int = 64,
    dropout: float = 0.0, l1: float = 0.0, blocks: int = 0, block_weight: float = 0.0,
    pruning_epochs: int = 0, random_state: int | None = None, device: str = "auto",
    threads: int | None = None, checkpoint: str | Path | None = None, progress: bool | None = None,
) -> tuple[MLP, training.History]:
    """Train an `MLP` as a classifier on cross-entropy.

    Returns the network, and per epoch ``loss`` (mean of the training batches, in nats) and
    ``accuracy`` (on the test samples). Raises ValueError for bad data or a setting out of range.

    Parameters
    ----------
    X, y, X_test, y_test : array-like of shape (n_samples, n_features) and (n_samples,)
        Scaled samples, and their classes, 0 to n_classes - 1.
    hidden, bias, init, dropout
        Numbers of neurons in the hidden layers; see `MLP` for the others.
    epochs, batch_size : int
        Passes over the data before any pruning, and samples per step.
    optimizer, learning_rate : {"sgd", "adam"}, float
        Plain gradient descent, or Adam with torch's defaults.
    l1 : float
        Weight of the penalty on the sum of all absolute weights.
    blocks, block_weight : int, float
        With both, ``block_weight`` times the mean `block_share` of the layers between hidden
        layers, for that many equal blocks, is subtracted from the loss.
    pruning_epochs : int
        Further epochs, with a fresh optimizer, in which `prune` sets weights to 0 for good.
    random_state, device, threads, checkpoint, progress
        As of the estimators.
    """
    device = training.resolve_device(device)
    X, y = _samples(X, y, device)
    X_test, y_test = _samples(X_test, y_test, device)
    if X.shape[1] != X_test.shape[1]:
        raise InputError(f"X has {X.shape[1]} features, but X_test has {X_test.shape[1]}")
    wholes("hidden", hidden)
    whole("batch_size", batch_size, 1)
    for name, value in (("pruning_epochs", pruning_epochs), ("blocks", blocks)):
        whole(name, value)
    for name, value in (("l1", l1), ("block_weight", block_weight), ("dropout", dropout),
                        ("learning_rate", learning_rate)):
        number(name, value, zero=True)
    if dropout >= 1:
        raise InputError(f"dropout must be below 1, not {dropout!r}: it leaves no neuron")
    optimizers = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    one_of("optimizer", optimizer, tuple(optimizers))
    if blocks and block_weight and len(hidden) < 2:
        raise InputError(f"blocks need at least two hidden layers, not {len(hidden)}")
    if checkpoint is not None and random_state is None:
        raise InputError("a checkpoint needs random_state, such as 0, to go on from it later")
    random_state = as_seed(random_state)
    settings = {"hidden": list(hidden), "bias": bias, "init": init, "epochs": epochs,
                "optimizer": optimizer, "learning_rate": learning_rate, "batch_size": batch_size,
                "dropout": dropout, "l1": l1, "blocks": blocks, "block_weight": block_weight,
                "pruning_epochs": pruning_epochs, "random_state": random_state}
    widths = [X.shape[1], *hidden, int(max(y.max(), y_test.max())) + 1]
    with torch.device("meta"):
        forward = training.multiply_adds(MLP(widths).hidden, (min(batch_size, len(X)), X.shape[1]))
    with (training.threads(3 * forward, threads, checkpoint) as n_threads,
          training.seeded(random_state, device) as generator):
        if checkpoint is not None:
            checkpoint = Checkpoint(
                checkpoint, parameters={**settings, "threads": n_threads},
                data=fingerprint(X, y, X_test, y_test),
                code=code_hash(Path(__file__).parent))
        network = MLP(widths, bias=bias, dropout=dropout, init=init).to(device)
        n_batches = math.ceil(len(X) / batch_size)

        def train(stage: str, n_epochs: int) -> training.History:
            updates = optimizers[optimizer](network.parameters(), lr=learning_rate)
            taken: Counter[int] = Counter()             # steps of each epoch

            def step(epoch: int, batch: Tensor, classes: Tensor) -> dict[str, Tensor]:
                if stage == "pruning":
                    prune(network.linear, (epoch - 1) * n_batches + taken[epoch],
                          pruning_epochs * n_batches)
                    taken[epoch] += 1
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
                state={"network": network, "optimizer": updates},
                on_epoch=lambda *_: {"accuracy": float(
                    (network.hidden(X_test)[-1].argmax(1) == y_test).float().mean())},
                checkpoint=checkpoint, stop=paths.time_is_up, stage=stage, progress=progress)

        history = train("training", epochs)
        if pruning_epochs:
            history = history + train("pruning", pruning_epochs)
    return network.eval(), history


def block_share(weight: Tensor, blocks: int) -> Tensor:
    r"""Share of the squared weight inside equal diagonal blocks, a differentiable scalar.

    :math:`\sum_{ij\ \mathrm{in\ a\ block}} W_{ij}^2 / \sum_{ij} W_{ij}^2`, the *clusterability* of
    Golechha et al. (arXiv:2409.15747), of *weight* (n_outputs, n_inputs); ``1 / blocks`` for
    weights without structure.
    """
    rows, columns = (torch.arange(n, device=weight.device) * blocks // n for n in weight.shape)
    squares = weight.square()
    return (squares * (rows[:, None] == columns)).sum() / squares.sum()


@torch.no_grad()
def prune(layers: Sequence[nn.Linear], step: int, total: int) -> None:
    r"""Set the smallest weights of each layer to 0, at every tenth step and at the last of *total*.

    After a share :math:`t` of the steps, a share :math:`s(t) = 0.9 - 0.4\,(1 - t)^3` of the
    weights is 0: from 50% to 90%, as in the code of Filan et al.
    """
    last = step == total - 1
    if step % 10 and not last:
        return
    t = 1.0 if last else step / total
    share = 0.9 + (0.5 - 0.9) * (1 - t) ** 3
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
