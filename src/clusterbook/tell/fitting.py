r"""One training of TELL: the cluster layer and the autoencoder, in turns (section 2.3).

The loss is the paper's Eq. 15 as the released code computes it,

.. math:: \mathrm{mean}\,\|x - \hat x\|^2 + \lambda\, \mathcal{L}_\mathrm{clu},

where the first mean runs over samples *and* pixels, and the second (`clustering_loss`) over samples
*and* clusters. So :math:`\lambda = 0.01` is not the :math:`\lambda` of Eq. 15, which has sums.
Epochs alternate: in the first, third, … the clustering loss moves the centers only; in the others
it moves the encoder only. The reconstruction loss moves the autoencoder in all of them.

Everything here reads its settings from a `TELL` and changes nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from .. import training
from ..checkpoints import Checkpoint
from ..metrics import scores
from .layer import ClusterLayer, clustering_loss, squared_distance
from .networks import Autoencoder, ConvAutoencoder, DenseAutoencoder, FixedFeatures

if TYPE_CHECKING:
    from .estimator import TELL

#: Each optimizer and its learning rate in the paper's experiments: torch's default.
OPTIMIZERS: dict[str, tuple[Callable[..., torch.optim.Optimizer], float]] = {
    "adadelta": (torch.optim.Adadelta, 1.0),
    "adam": (torch.optim.Adam, 1e-3),
}
_CHUNK = 4096                               # samples at a time where no gradient is needed


class Model(nn.Module):
    """An autoencoder and its cluster layer: what is trained, saved and restored together."""

    def __init__(self, network: Autoencoder, layer: ClusterLayer):
        super().__init__()
        self.network, self.layer = network, layer

    @torch.no_grad()
    def embed(self, X: Tensor) -> Tensor:
        """The embedding of samples in any number, (n_samples, embedding_size)."""
        z = X.new_empty(len(X), self.network.embedding_size)
        for start in range(0, len(X), _CHUNK):
            z[start:start + _CHUNK] = self.network.encode(X[start:start + _CHUNK])
        return z

    @torch.no_grad()
    def assign(self, X: Tensor) -> tuple[np.ndarray, float]:
        """The cluster of each sample, and the mean squared distance to its center."""
        logits = self.layer.logits(self.embed(X))
        return logits.argmax(1).cpu().numpy(), float(squared_distance(logits, self.layer.alpha))


class Snapshots:
    """Copies of a model's weights at some epochs, which a checkpoint keeps with the rest."""

    def __init__(self, model: Model, epochs: Iterable[int]):
        self._model, self._epochs = model, set(epochs)
        self.weights: dict[int, dict[str, Tensor]] = {}

    def take(self, epoch: int) -> None:
        """Copy the weights if this is one of the epochs."""
        if epoch in self._epochs:
            self.weights[epoch] = {name: tensor.detach().cpu().clone()
                                   for name, tensor in self._model.state_dict().items()}

    def state_dict(self) -> dict[int, dict[str, Tensor]]:
        """What a checkpoint keeps."""
        return dict(self.weights)

    def load_state_dict(self, stored: dict[int, dict[str, Tensor]]) -> None:
        """Put back what a checkpoint kept."""
        self.weights = dict(stored)


@dataclass
class Start:
    """One training from its first weights to its end."""

    seed: int
    model: Model
    snapshots: dict[int, dict[str, Tensor]]
    history: training.History
    labels: np.ndarray
    loss: float


def new_model(settings: TELL, n_features: int) -> Model:
    """A model with random first weights."""
    kind = settings.network
    if kind == "auto":
        kind = "fcn" if settings.image_shape is None else "cnn"
    network: Autoencoder
    if kind == "cnn":
        network = ConvAutoencoder(settings.image_shape, settings.embedding_size)
    elif kind == "fcn":
        network = DenseAutoencoder(n_features, settings.hidden, settings.embedding_size,
                                   settings.dropout, sigmoid=settings.image_shape is not None)
    else:
        network = FixedFeatures(n_features)
    return Model(network, ClusterLayer(settings.n_clusters, network.embedding_size, settings.alpha))


def step_size(settings: TELL, n_samples: int, n_features: int) -> int:
    """Multiply-adds of a training step, forward and backward."""
    with torch.device("meta"), training.seeded(0):
        model = new_model(settings, n_features)

    def forward(X: Tensor) -> None:
        z = model.network.encode(X)
        model.network.decode(z)
        model.layer.logits(z)

    batch = min(settings.batch_size, n_samples)
    return 3 * training.multiply_adds(forward, (batch, n_features))


def train(settings: TELL, X: Tensor, y: ArrayLike | None, seed: int, kept: Checkpoint | None,
          prefix: str = "") -> Start:
    """Train from the first weights that *seed* gives; *prefix* names its stages in *kept*."""
    with training.seeded(seed, X.device) as generator:
        model = new_model(settings, X.shape[1]).to(X.device)
        if settings.init == "samples":
            rows = torch.randperm(len(X), generator=generator)[: settings.n_clusters]
            model.eval()
            model.layer.reset_centers(model.embed(X[rows.to(X.device)]))
        snapshots = Snapshots(model, settings.snapshot_epochs)
        history = training.History()
        for stage in _stages(settings, model, X):
            history = history + training.train(
                stage.step, (stage.data(),), epochs=settings.epochs,
                batch_size=settings.batch_size, generator=generator, drop_last=True,
                state={"model": model, "snapshots": snapshots, "optimizer": stage.optimizer},
                on_epoch=_observer(settings, model, X, y, snapshots) if stage.clusters else None,
                checkpoint=kept, stage=prefix + stage.name, progress=settings.progress,
                description=prefix + stage.name)
    labels, loss = model.eval().assign(X)
    return Start(seed, model, snapshots.weights, history, labels, loss)


@dataclass
class _Stage:
    """A part of training: its step, and what it is fed when it begins."""

    name: str
    step: Callable[[int, Tensor], dict[str, Tensor]]
    data: Callable[[], Tensor]
    optimizer: torch.optim.Optimizer
    clusters: bool = True


def _stages(settings: TELL, model: Model, X: Tensor) -> Iterator[_Stage]:
    if isinstance(model.network, FixedFeatures):
        yield _centers_stage(settings, model, X)
    elif settings.training == "two-stage":
        steps = optimizer(settings, model.network.parameters())
        yield _Stage("reconstruction", _reconstruction_step(settings, model, steps), lambda: X,
                     steps, clusters=False)
        yield _centers_stage(settings, model, X)
    else:
        steps = optimizer(settings, model.parameters())
        yield _Stage("training", _joint_step(settings, model, steps), lambda: X, steps)


def _joint_step(settings: TELL, model: Model, steps: torch.optim.Optimizer):
    network, layer = model.network, model.layer

    def losses(X: Tensor, moves_centers: bool) -> tuple[Tensor, Tensor, Tensor]:
        z, reconstruction = _autoencode(settings, network, X)
        logits = layer.logits(z.detach() if moves_centers else z)
        clustering = clustering_loss(logits, settings.alpha)
        return reconstruction + settings.clustering_weight * clustering, reconstruction, logits

    losses = _compiled(settings, losses, model)

    def step(epoch: int, X: Tensor) -> dict[str, Tensor]:
        moves_centers = epoch % 2 == 1
        loss, reconstruction, logits = losses(X, moves_centers)
        steps.zero_grad()
        loss.backward()
        if not moves_centers:
            layer.weight.grad = None        # the optimizer leaves the centers as they are
        elif settings.normalize_gradients:
            layer.normalize_gradient()
        steps.step()
        layer.normalize_centers()
        return {"reconstruction": reconstruction.detach(),
                "clustering": squared_distance(logits.detach(), settings.alpha)}

    return step


def _reconstruction_step(settings: TELL, model: Model, steps: torch.optim.Optimizer):
    losses = _compiled(settings, lambda X: _autoencode(settings, model.network, X)[1], model)

    def step(_epoch: int, X: Tensor) -> dict[str, Tensor]:
        loss = losses(X)
        steps.zero_grad()
        loss.backward()
        steps.step()
        return {"reconstruction": loss.detach()}

    return step


def _centers_stage(settings: TELL, model: Model, X: Tensor) -> _Stage:
    steps = optimizer(settings, model.layer.parameters())

    def step(_epoch: int, z: Tensor) -> dict[str, Tensor]:
        return {"clustering": move_centers(settings, model.layer, steps, z)}

    # A function: the embedding is asked for when the stages before have run.
    return _Stage("centers", step, lambda: model.eval().embed(X), steps)


def move_centers(settings: TELL, layer: ClusterLayer, steps: torch.optim.Optimizer,
                 z: Tensor) -> Tensor:
    """One step of the centers on fixed embeddings; the mean squared distance before it."""
    logits = layer.logits(z)
    loss = settings.clustering_weight * clustering_loss(logits, settings.alpha)
    steps.zero_grad()
    loss.backward()
    if settings.normalize_gradients:
        layer.normalize_gradient()
    steps.step()
    layer.normalize_centers()
    return squared_distance(logits.detach(), settings.alpha)


def optimizer(settings: TELL, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    """The optimizer of that name with its learning rate."""
    make, usual = OPTIMIZERS[settings.optimizer]
    return make(parameters, lr=usual if settings.learning_rate is None else settings.learning_rate)


def _autoencode(settings: TELL, network: Autoencoder, X: Tensor) -> tuple[Tensor, Tensor]:
    """The embedding, and the mean squared error of a pixel."""
    with torch.autocast(X.device.type, torch.bfloat16, enabled=settings.precision == "bfloat16"):
        z = network.encode(X)
        decoded = network.decode(z)
    return z.float(), functional.mse_loss(decoded.float(), X)


def _compiled(settings: TELL, losses: Callable, model: Model) -> Callable:
    if not settings.compile:
        return losses
    on_gpu = model.layer.weight.device.type == "cuda"
    return torch.compile(losses, mode="reduce-overhead" if on_gpu else None)


def _observer(settings: TELL, model: Model, X: Tensor, y: ArrayLike | None, snapshots: Snapshots):
    """What the history adds after an epoch; snapshots are taken on the side."""
    def observe(epoch: int, _row: dict[str, Any]) -> dict[str, Any]:
        snapshots.take(epoch)
        if epoch % settings.evaluate_every and epoch < settings.epochs:
            return {}
        labels, loss = model.assign(X)
        found = {"loss": loss, "occupied": len(np.unique(labels))}
        return found if y is None else found | scores(y, labels)

    return observe

