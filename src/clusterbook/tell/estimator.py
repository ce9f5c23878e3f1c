r"""TELL as an estimator, with its training (section 2.3 of the paper).

The loss is the paper's Eq. 15 as the released code computes it,

.. math:: \mathrm{mean}\,\|x - \hat x\|^2 + \lambda\, \mathcal{L}_\mathrm{clu},

where the first mean runs over samples *and* pixels, and the second (`clustering_loss`) over samples
*and* clusters. So :math:`\lambda = 0.01` is not the :math:`\lambda` of Eq. 15, which has sums.
Epochs alternate: in the first, third, … the clustering loss moves the centers only; in the others
it moves the encoder only. The reconstruction loss moves the autoencoder in all of them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from torch.nn import functional

from .. import checks, training
from ..base import DeepClusterer, as_tensor
from ..errors import InputError, unknown
from ..metrics import contingency, scores
from .layer import ClusterLayer, clustering_loss, squared_distance
from .networks import ConvAutoencoder, DenseAutoencoder, FixedFeatures, Model

#: The paper's optimizers, at torch's learning rates: 1 and 0.001.
OPTIMIZERS = {"adadelta": torch.optim.Adadelta, "adam": torch.optim.Adam}
_CHOICES = {"network": ("auto", "cnn", "fcn", "none"), "training": ("end-to-end", "two-stage"),
            "optimizer": tuple(OPTIMIZERS), "init": ("kaiming", "samples"),
            "precision": ("float32", "bfloat16")}


@dataclass(repr=False, eq=False)
class TELL(DeepClusterer):
    r"""Interpretable neural clustering: spherical k-means in the embedding of an autoencoder.

    Parameters
    ----------
    n_clusters : int
    network : {"auto", "cnn", "fcn", "none"}
        The autoencoder: convolutional; fully connected; or none, and the samples, brought to
        length 1, are clustered as they are. "auto" is convolutional where there is an image shape.
    image_shape : tuple of int, optional
        (channels, height, width) of a row of ``X``, whose pixels must then lie in [0, 1].
    embedding_size : int
        Dimension of the embedding.
    hidden : sequence of int
        Neurons of the fully connected encoder's hidden layers.
    dropout : float
        Of the fully connected encoder, as in the released code.
    alpha : float
        Scale of the cluster layer's weights; see `ClusterLayer`.
    clustering_weight : float
        :math:`\lambda`.
    training : {"end-to-end", "two-stage"}
        Everything in turns; or the autoencoder alone for all epochs, then the centers alone, on its
        embedding, for as many again (the paper does not say for how many).
    epochs : int
        Passes over the data; 3,000 in the paper.
    batch_size : int
        A smaller last batch is left out, as in the released code.
    optimizer : {"adadelta", "adam"}
        With torch's default learning rate: 1 for Adadelta, 0.001 for Adam.
    normalize_gradients : bool
        Bring the gradient of each center to 10 % of its weights' length.
    init : {"kaiming", "samples"}
        The first centers: random directions, as in the paper; or the embeddings of random samples.
    evaluate_every : int
        Epochs between two evaluations on all samples, which the history shows; the last epoch is
        always evaluated.
    snapshot_epochs : sequence of int
        Epochs whose weights are kept; see `at`.
    precision : {"float32", "bfloat16"}
        Of the autoencoder in training; bfloat16 is faster and coarser.
    compile : bool
        Compile the loss with torch: slow to start, faster after; on a GPU as a CUDA graph.
    random_state : int, RandomState instance or None
        Decides first weights, dropout and the order of the samples.
    device : str
        "auto" takes a GPU where there is one.
    threads : int, optional
        Of the CPU in ``fit``, whatever the size of a step; by default one where steps are small,
        see `training.threads`.
    checkpoint : path, optional
        The file for the state of training, from which a killed run is resumed.
    progress : bool, optional
        Show a bar; by default only where a person watches.

    Attributes
    ----------
    labels_ : ndarray of int64, shape (n_samples,)
        Cluster of each sample that the model was fitted on.
    cluster_centers_ : ndarray of shape (n_clusters, embedding_size)
        Unit vectors.
    loss_ : float
        Mean squared distance of the embeddings to their centers at the end, from 0 to 4 (Eq. 13).
    history_ : History
        Per epoch ``reconstruction`` (mean squared error of a pixel) and ``clustering`` (as
        ``loss_``, over the epoch's batches); where it was evaluated, ``loss``, ``occupied`` (number
        of clusters that have samples), and all of `metrics.scores` if ``fit`` was given classes.
    network_, layer_ : Module
        The autoencoder and the cluster layer.

    Notes
    -----
    The same ``random_state`` gives the same labels on the same machine with the same versions and
    number of threads (see `training`); on a GPU as far as its kernels are deterministic.

    References
    ----------
    .. [1] X. Peng et al., "XAI Beyond Classification: Interpretable Neural Clustering", JMLR 23(6),
       2022.

    Examples
    --------
    >>> from clusterbook import datasets
    >>> data = datasets.load("digits")
    >>> model = TELL(10, image_shape=data.image_shape, epochs=2, random_state=0).fit(data.X)
    >>> model.labels_.shape, model.reconstruct_centers().shape
    ((1797,), (10, 64))
    """

    _removed = {"learning_rate": None, "n_init": 1}

    n_clusters: int = 10
    _: KW_ONLY
    network: str = "auto"
    image_shape: tuple[int, int, int] | None = None
    embedding_size: int = 10
    hidden: Sequence[int] = (500, 500, 2000)
    dropout: float = 0.2
    alpha: float = 1e-3
    clustering_weight: float = 0.01
    training: str = "end-to-end"
    epochs: int = 3000
    batch_size: int = 256
    optimizer: str = "adadelta"
    normalize_gradients: bool = True
    init: str = "kaiming"
    evaluate_every: int = 50
    snapshot_epochs: Sequence[int] = ()
    precision: str = "float32"
    compile: bool = False
    random_state: Any = None
    device: str = "auto"
    threads: int | None = None
    checkpoint: str | Path | None = None
    progress: bool | None = None

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> TELL:
        """Train the network and the centers on *X*, (n_samples, n_features).

        Classes *y*, (n_samples,), only add scores to ``history_``: nothing is trained on them.
        Raises InputError if a setting is out of range, the data hold NaN, do not fit the image
        shape or leave [0, 1] where there is one, or the checkpoint belongs to another run.
        """
        X = self._validated(X, ensure_min_samples=2)
        self._check_settings(len(X))
        if y is not None:
            contingency(y, np.zeros(len(X), dtype=int))  # refuses what could not be scored
        device, seed = training.resolve_device(self.device), training.as_seed(self.random_state)
        with (training.threads(self._step_size(*X.shape), self.threads, self.checkpoint) as number,
              training.seeded(seed, device) as generator):
            checkpoint = self._checkpoint(training.fingerprint(X), seed, number)
            data = as_tensor(X, device)
            model = self._new_model(X.shape[1]).to(device)
            if self.init == "samples":
                rows = torch.randperm(len(X), generator=generator)[: self.n_clusters]
                model.eval()
                model.layer.reset_centers(model.embed(data[rows.to(device)]))
            snapshots = nn.ModuleDict({str(epoch): copy.deepcopy(model)
                                       for epoch in self.snapshot_epochs})

            def observe(epoch: int, _row: dict[str, Any]) -> dict[str, Any]:
                if str(epoch) in snapshots:
                    snapshots[str(epoch)].load_state_dict(model.state_dict())
                if epoch % self.evaluate_every and epoch < self.epochs:
                    return {}
                labels, loss = model.assign(model.embed(data))
                found = {"loss": loss, "occupied": len(np.unique(labels))}
                return found if y is None else found | scores(y, labels)

            history = training.History()
            for stage, step, optimizer, samples in self._stages(model, data):
                history = history + training.train(
                    step, (samples,), epochs=self.epochs, batch_size=self.batch_size,
                    generator=generator, drop_last=True, checkpoint=checkpoint, stage=stage,
                    state={"model": model, "snapshots": snapshots, "optimizer": optimizer},
                    on_epoch=None if stage == "reconstruction" else observe,
                    progress=self.progress, description=stage)
            self.labels_, self.loss_ = model.assign(model.eval().embed(data))
        self.network_, self.layer_, self.history_ = model.network, model.layer, history
        self._snapshots, self._online = snapshots, None
        return self

    def _stages(self, model: Model, X: Tensor) -> Iterator[tuple]:
        """Name, step, optimizer and samples of each stage: one; or the autoencoder, then centers.

        The samples of the centers' stage are the embedding after the stage before it.
        """
        make_optimizer = OPTIMIZERS[self.optimizer]
        fixed = isinstance(model.network, FixedFeatures)
        if self.training == "end-to-end" and not fixed:
            optimizer = make_optimizer(model.parameters())
            yield "training", self._joint_step(model, optimizer), optimizer, X
            return
        if not fixed:
            optimizer = make_optimizer(model.network.parameters())
            yield "reconstruction", self._reconstruction_step(model, optimizer), optimizer, X
        optimizer = make_optimizer(model.layer.parameters())

        def step(_epoch: int, z: Tensor) -> dict[str, Tensor]:
            return {"clustering": self._move_centers(model.layer, optimizer, z)}

        yield "centers", step, optimizer, model.eval().embed(X)

    def _losses(self, model: Model) -> Callable:
        """The function of a batch that gives the loss of Eq. 15, its first term, and the logits."""
        def losses(X: Tensor, moves_centers: bool) -> tuple[Tensor, Tensor, Tensor]:
            bfloat16 = self.precision == "bfloat16"
            with torch.autocast(X.device.type, torch.bfloat16, enabled=bfloat16):
                z = model.network.encode(X)
                decoded = model.network.decode(z)
            reconstruction = functional.mse_loss(decoded.float(), X)
            logits = model.layer.logits(z.detach() if moves_centers else z)
            clustering = clustering_loss(logits, self.alpha)
            return reconstruction + self.clustering_weight * clustering, reconstruction, logits

        if not self.compile:
            return losses
        on_gpu = model.layer.weight.device.type == "cuda"
        return torch.compile(losses, mode="reduce-overhead" if on_gpu else None)

    def _joint_step(self, model: Model, optimizer: torch.optim.Optimizer) -> Callable:
        """A step on Eq. 15, which moves the centers or the encoder in turn (section 2.3)."""
        losses, layer = self._losses(model), model.layer

        def step(epoch: int, X: Tensor) -> dict[str, Tensor]:
            moves_centers = epoch % 2 == 1
            loss, reconstruction, logits = losses(X, moves_centers)
            optimizer.zero_grad()
            loss.backward()
            if not moves_centers:
                layer.weight.grad = None        # the optimizer leaves the centers as they are
            elif self.normalize_gradients:
                layer.normalize_gradient()
            optimizer.step()
            layer.normalize_centers()
            return {"reconstruction": reconstruction.detach(),
                    "clustering": squared_distance(logits.detach(), self.alpha)}

        return step

    def _reconstruction_step(self, model: Model, optimizer: torch.optim.Optimizer) -> Callable:
        """A step of the autoencoder alone."""
        losses = self._losses(model)

        def step(_epoch: int, X: Tensor) -> dict[str, Tensor]:
            _, reconstruction, _ = losses(X, True)
            optimizer.zero_grad()
            reconstruction.backward()
            optimizer.step()
            return {"reconstruction": reconstruction.detach()}

        return step

    def _move_centers(self, layer: ClusterLayer, optimizer: torch.optim.Optimizer,
                      z: Tensor) -> Tensor:
        """One step of the centers on fixed embeddings; the mean squared distance before it."""
        logits = layer.logits(z)
        loss = self.clustering_weight * clustering_loss(logits, self.alpha)
        optimizer.zero_grad()
        loss.backward()
        if self.normalize_gradients:
            layer.normalize_gradient()
        optimizer.step()
        layer.normalize_centers()
        return squared_distance(logits.detach(), self.alpha)

    def partial_fit(self, X: ArrayLike, y: None = None) -> TELL:
        """Move the centers with samples that arrive now; the first call fits.

        The encoder stays as it is. Each batch of ``batch_size`` samples, in the order in which they
        arrive, is one step of the centers (section 4.4 and Table 5 of the paper). ``labels_`` and
        ``loss_`` are then those of these samples, after the steps. *y* is ignored.
        """
        if not hasattr(self, "layer_"):
            return self.fit(X)
        if self._online is None:
            self._online = (OPTIMIZERS[self.optimizer](self.layer_.parameters()),
                            self._step_size(self.batch_size, self.n_features_in_))
        optimizer, size = self._online
        with training.threads(size, self.threads):
            z = self._embedding(X)
            for batch in z.split(self.batch_size):
                self._move_centers(self.layer_, optimizer, batch)
            self.labels_, self.loss_ = Model(self.network_, self.layer_).assign(z)
        return self

    def _new_model(self, n_features: int) -> Model:
        """A model with random first weights."""
        kind = self.network
        if kind == "auto":
            kind = "fcn" if self.image_shape is None else "cnn"
        if kind == "cnn":
            network = ConvAutoencoder(self.image_shape, self.embedding_size)
        elif kind == "fcn":
            network = DenseAutoencoder(n_features, self.hidden, self.embedding_size, self.dropout,
                                       sigmoid=self.image_shape is not None)
        else:
            network = FixedFeatures(n_features)
        return Model(network, ClusterLayer(self.n_clusters, network.embedding_size, self.alpha))

    def _step_size(self, n_samples: int, n_features: int) -> int:
        """Multiply-adds of a training step, forward and backward."""
        with torch.device("meta"), training.seeded(0):
            model = self._new_model(n_features)

        def forward(X: Tensor) -> None:
            z = model.network.encode(X)
            model.network.decode(z)
            model.layer.logits(z)

        return 3 * training.multiply_adds(forward, (min(self.batch_size, n_samples), n_features))

    def _check_settings(self, n_samples: int) -> None:
        """Raise InputError for settings that neither the model nor the training checks."""
        for name, known in _CHOICES.items():
            checks.one_of(name, getattr(self, name), known)
        for name in ("n_clusters", "embedding_size", "batch_size", "evaluate_every"):
            checks.whole(name, getattr(self, name), 1)
        checks.whole("epochs", self.epochs)
        checks.number("clustering_weight", self.clustering_weight, zero=True)
        if self.n_clusters > n_samples:
            raise InputError(f"n_clusters={self.n_clusters} exceeds n_samples={n_samples}")
        if not set(self.snapshot_epochs) <= set(range(1, self.epochs + 1)):
            raise InputError("snapshot_epochs must be a list of whole numbers from 1 to the "
                             f"{self.epochs} epochs of training, not {self.snapshot_epochs!r}")

    @property
    def cluster_centers_(self) -> np.ndarray:
        """The centers: unit vectors, shape (n_clusters, embedding_size)."""
        return self.layer_.centers().cpu().numpy()

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The nearest center of each sample, shape (n_samples,)."""
        z = self._embedding(X)
        return self.layer_.cluster(z).cpu().numpy()

    def transform(self, X: ArrayLike) -> np.ndarray:
        """The embedding: unit vectors, shape (n_samples, embedding_size)."""
        return self._embedding(X).cpu().numpy()

    def soft_assignment(self, X: ArrayLike, temperature: float = 0.1) -> np.ndarray:
        """How much each sample belongs to each cluster, (n_samples, n_clusters); Eqs. 7 and 8."""
        z = self._embedding(X)
        return self.layer_.cluster(z, soft=True, temperature=temperature).cpu().numpy()

    @torch.no_grad()
    def reconstruct_centers(self) -> np.ndarray:
        """The centers decoded, shape (n_clusters, n_features); without a network, themselves."""
        check_is_fitted(self)
        return self.network_.decode(self.layer_.centers()).cpu().numpy()

    def at(self, epoch: int) -> TELL:
        """The model as it was after an epoch of ``snapshot_epochs``: it predicts and transforms.

        Raises InputError if there is no snapshot of that epoch.
        """
        check_is_fitted(self)
        if str(epoch) not in self._snapshots:
            raise unknown("snapshot of epoch", epoch, self._snapshots)
        stored = {**self._fitted(), "loss": math.nan,
                  "weights": self._snapshots[str(epoch)].state_dict()}
        return clone(self)._restored(stored, self.layer_.weight.device)

    def _fitted(self) -> dict[str, Any]:
        return {"n_features": self.n_features_in_, "loss": self.loss_,
                "weights": Model(self.network_, self.layer_).state_dict()}

    def _restore(self, stored: Mapping[str, Any]) -> Model:
        model = self._new_model(stored["n_features"])
        self.n_features_in_, self.loss_ = stored["n_features"], stored["loss"]
        self.network_, self.layer_ = model.network, model.layer
        self._snapshots, self._online = {}, None
        return model

    def _embedding(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        model = Model(self.network_, self.layer_).eval()
        return model.embed(as_tensor(X, self.layer_.weight.device))

    def _validated(self, X: ArrayLike, **options: Any) -> np.ndarray:
        """Finite samples in float32, and images in [0, 1]."""
        X = validate_data(self, X, dtype=np.float32, order="C", **options)
        if self.image_shape is not None:
            checks.pixels(X, checks.image_shape(self.image_shape))
        return X

    @property
    def _n_features_out(self) -> int:
        return self.network_.embedding_size
