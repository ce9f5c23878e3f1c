r"""TELL as an estimator, with its training (section 2.3 of the paper).

The loss is :math:`\mathrm{mean}\,\|x - \hat x\|^2 + \lambda\, \mathcal{L}_\mathrm{clu}`, Eq. 15
with means over samples *and* pixels, and samples *and* clusters, as in the released code. In odd
epochs the clustering loss moves the centers only, in even ones the encoder only.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn import functional

from .. import checks, training
from ..base import DeepClusterer, as_tensor
from ..checks import InputError, unknown
from ..metrics import scores
from . import layer
from .layer import Model

#: A feature that varies so many times as much as most would decide alone.
UNSCALED = 30
#: The paper's optimizers.
OPTIMIZERS = {"adadelta": torch.optim.Adadelta, "adam": torch.optim.Adam}
#: What is trained one after the other: everything in turns; or the autoencoder, then the centers.
STAGES = {"end-to-end": ("training",), "two-stage": ("reconstruction", "centers")}


@dataclass(repr=False, eq=False)
class TELL(DeepClusterer):
    r"""Interpretable neural clustering: spherical k-means in the embedding of an autoencoder.

    Samples are rows: images with pixels in [0, 1], or a table whose features are scaled before, for
    example by scikit-learn's `StandardScaler`; otherwise the feature that varies most decides.

    Parameters
    ----------
    n_clusters : int
    network : {"auto", "cnn", "fcn", "none"}
        The autoencoder: convolutional; fully connected; or none, and the samples, brought to
        length 1, are clustered as they are. "auto" is convolutional where there is an image shape.
    image_shape : tuple of int, optional
        (channels, height, width) of a row of ``X``, whose pixels must then lie in [0, 1].
    embedding_size : int
        Ignored without a network.
    hidden, dropout : sequence of int, float
        Of the fully connected encoder; see `DenseAutoencoder`.
    alpha : float
        Scale of the cluster layer's weights; see `ClusterLayer`.
    clustering_weight : float
        :math:`\lambda`.
    training : {"end-to-end", "two-stage"}
        Everything in turns; or the autoencoder for all epochs, then the centers on its embedding
        for as many again (the paper does not say for how many).
    epochs : int
        Passes over the data; 3,000 in the paper.
    batch_size : int
        A smaller last batch is left out, as in the released code.
    optimizer : {"adadelta", "adam"}
        With torch's default learning rate: 1 for Adadelta, 0.001 for Adam.
    normalize_gradients : bool
        Bring the gradient of each center to 10% of its weights' length.
    init : {"kaiming", "samples"}
        The first centers: random directions, as in the paper; or embeddings of random samples, in
        two stages by the trained autoencoder.
    evaluate_every : int
        Epochs between two evaluations on all samples; the last is always one.
    snapshot_epochs : sequence of int
        Epochs whose weights are kept; see `at`.
    precision : {"float32", "bfloat16"}
        Of the autoencoder in training; bfloat16 is faster and coarser.
    random_state, device, threads, checkpoint, progress
        See `base.DeepClusterer`.

    Attributes
    ----------
    labels_ : ndarray of int64, shape (n_samples,)
    cluster_centers_ : ndarray of shape (n_clusters, embedding_size)
        Unit vectors; without a network (n_clusters, n_features).
    loss_ : float
        Mean squared distance of the embeddings to their centers at the end, from 0 to 4: Eq. 13
        divided by the number of samples.
    history_ : History
        Per epoch ``reconstruction`` (mean squared error of a pixel) and ``clustering`` (as
        ``loss_``, over the epoch's batches); where it was evaluated, ``loss``, ``occupied``
        (clusters that have samples), and `metrics.scores` if ``fit`` was given classes.
    network_, layer_ : Module, ClusterLayer
        The autoencoder; the centers.

    Examples
    --------
    >>> from clusterbook import TELL, datasets
    >>> data = datasets.load("digits")
    >>> model = TELL(10, image_shape=data.image_shape, epochs=2, random_state=0).fit(data.X)
    >>> model.labels_.shape, model.reconstruct_centers().shape
    ((1797,), (10, 64))
    """

    _choices = {"network": ("auto", "cnn", "fcn", "none"), "training": (*STAGES,),
                "optimizer": (*OPTIMIZERS,), "init": ("kaiming", "samples"),
                "precision": ("float32", "bfloat16")}
    _positive = ("alpha",)

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

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> TELL:
        """Train the network and the centers on *X*, (n_samples, n_features).

        Classes *y*, (n_samples,), only add scores to ``history_``. Raises ValueError for settings,
        data or a checkpoint that do not fit.
        """
        self._check_settings()
        if not set(self.snapshot_epochs) <= set(range(1, self.epochs + 1)):
            raise InputError("snapshot_epochs must be whole numbers from 1 to the "
                             f"{self.epochs} epochs of training, not {self.snapshot_epochs!r}")
        X = self._validated(X, fitting=True)
        spreads = X.std(0)[np.ptp(X, axis=0) > 0]
        if (self.image_shape is None and len(spreads)
                and spreads.max() > UNSCALED * np.median(spreads)):
            warnings.warn(f"a feature varies {spreads.max() / np.median(spreads):,.0f} times as "
                          "much as most: it alone decides; scale X before, for example by "
                          "scikit-learn's StandardScaler", UserWarning, stacklevel=2)
        data = as_tensor(X, training.resolve_device(self.device))
        with self._fitting(data, y, X.shape[1], X) as (generator, train):
            model = self._new_model(X.shape[1]).to(data.device)
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
            parts = {"training": model, "reconstruction": model.network, "centers": model.layer}
            fixed = isinstance(model.network, layer.FixedFeatures)
            for stage in ("centers",) if fixed else STAGES[self.training]:
                if self.init == "samples" and stage != "reconstruction":
                    self._start_at_samples(model, data, generator)
                optimizer = OPTIMIZERS[self.optimizer](parts[stage].parameters())
                samples = model.eval().embed(data) if stage == "centers" else data
                history += train(
                    self._step(stage, model, optimizer), (samples,), epochs=self.epochs,
                    drop_last=True,
                    state={"model": model, "snapshots": snapshots, "optimizer": optimizer},
                    on_epoch=None if stage == "reconstruction" else observe,
                    stage=stage)
            self.labels_, loss = model.assign(model.eval().embed(data))
        self.history_ = history
        self._take(model, loss, snapshots)
        return self

    def _start_at_samples(self, model: Model, data: Tensor, generator: torch.Generator) -> None:
        """Let the embeddings of random samples be the centers."""
        rows = torch.randperm(len(data), generator=generator).to(data.device)
        if isinstance(model.network, layer.FixedFeatures):
            rows = rows[data.any(1)[rows]]                      # 0 has no direction
        if len(rows) < self.n_clusters:
            raise InputError(f"init='samples' needs {self.n_clusters} rows that are not 0 "
                             f"throughout, and X has {len(rows)}; choose another init")
        model.eval().layer.reset_centers(model.embed(data[rows[: self.n_clusters]]))

    def _step(self, stage: str, model: Model, optimizer: torch.optim.Optimizer) -> Callable:
        """The step of a stage on one batch; that of section 2.3 is `in_turns`."""
        centers = model.layer

        def reconstruct(X: Tensor) -> tuple[Tensor, Tensor]:
            """1. The embedding, and the first term of Eq. 15."""
            bfloat16 = self.precision == "bfloat16"
            with torch.autocast(X.device.type, torch.bfloat16, enabled=bfloat16):
                z = model.network.encode(X)
                decoded = model.network.decode(z)
            return z, functional.mse_loss(decoded.float(), X)

        def cluster(z: Tensor) -> tuple[Tensor, Tensor]:
            """2. The second term of Eq. 15, weighted, and the distance that the history shows."""
            logits = centers.logits(z)
            return (self.clustering_weight * layer.clustering_loss(logits, centers.alpha),
                    layer.squared_distance(logits.detach(), centers.alpha))

        def update(loss: Tensor, moves_centers: bool) -> None:
            """3. The optimizer's step; the centers move by a tenth of their length, or rest."""
            optimizer.zero_grad()
            loss.backward()
            if not moves_centers:
                centers.weight.grad = None          # the optimizer leaves them as they are
            elif self.normalize_gradients:
                centers.normalize_gradient()
            optimizer.step()
            centers.normalize_centers()

        def in_turns(epoch: int, X: Tensor) -> dict[str, Tensor]:
            """In odd epochs the clustering loss moves the centers, in even ones the encoder."""
            moves_centers = epoch % 2 == 1
            z, error = reconstruct(X)
            loss, distance = cluster(z.detach() if moves_centers else z)
            update(error + loss, moves_centers)
            return {"reconstruction": error, "clustering": distance}

        def autoencoder(_epoch: int, X: Tensor) -> dict[str, Tensor]:
            _, error = reconstruct(X)
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            return {"reconstruction": error}

        def only_centers(_epoch: int, z: Tensor) -> dict[str, Tensor]:
            loss, distance = cluster(z)             # of embeddings, which are fixed
            update(loss, moves_centers=True)
            return {"clustering": distance}

        return {"training": in_turns, "reconstruction": autoencoder, "centers": only_centers}[stage]

    def partial_fit(self, X: ArrayLike, y: None = None) -> TELL:
        """Move only the centers, by newly arriving samples; the first call fits.

        Each batch of ``batch_size`` samples, in the order of arrival, is one step (section 4.4 and
        Table 5 of the paper). ``labels_`` and ``loss_`` are then those of these samples. Raises
        ValueError as `fit` does.
        """
        self._check_settings()
        if not hasattr(self, "layer_"):
            return self.fit(X)
        if self.n_clusters != len(self.layer_.weight):
            raise InputError(f"n_clusters is {self.n_clusters}, and the model was fitted with "
                             f"{len(self.layer_.weight)}; set it back, or fit anew")
        if type(self._online) is not OPTIMIZERS[self.optimizer]:
            self._online = OPTIMIZERS[self.optimizer](self.layer_.parameters())
        step = self._step("centers", self._model, self._online)
        size = self._step_size(self.batch_size, self.n_features_in_)
        with (training.threads(size, self.threads), torch.inference_mode(False),
              torch.enable_grad()):
            z = self._embedding(X)
            for batch in z.split(self.batch_size):
                step(0, batch)
            self.labels_, self.loss_ = self._model.assign(z)
        return self

    # ----------------------------------------------------------------------------- the fitted model

    @classmethod
    def from_released(cls, path: str | Path, *, device: str = "auto") -> TELL:
        """The authors' network for MNIST: ``save/checkpoint_3000.tar`` of their repository.

        It has no labels, loss or history. Raises InputError if the file is missing, or holds
        anything else.
        """
        found = training.resolve_device(device)
        tell = cls(network="cnn", image_shape=(1, 28, 28), device=device)
        with training.seeded(0):            # the first weights, soon replaced, are drawn at random
            model = tell._restore({"n_features": 28 * 28, "loss": math.nan})
        try:
            # In the order of ours, under other names
            theirs = torch.load(path, map_location=found, weights_only=True)["net"]
            model.load_state_dict(dict(zip(model.state_dict(), theirs.values(), strict=True)))
        except Exception as error:          # torch reports damage by half a dozen types
            reason = checks.said(error).partition("\n")[0]
            raise InputError(f"{path} is not checkpoint_3000.tar of XLearning-SCU/2022-JMLR-TELL "
                             f"({reason})") from error
        model.to(found).eval()
        return tell

    @property
    def cluster_centers_(self) -> np.ndarray:
        """The centers, unit vectors of shape (n_clusters, embedding_size)."""
        return self.layer_.centers().cpu().numpy()

    @torch.no_grad()
    def reconstruct_centers(self) -> np.ndarray:
        """The centers decoded, (n_clusters, n_features); without a network, themselves."""
        check_is_fitted(self)
        return self.network_.decode(self.layer_.centers()).cpu().numpy()

    def at(self, epoch: int) -> TELL:
        """The model after an epoch of ``snapshot_epochs``: it predicts and decodes.

        It has no labels, loss or history. Raises InputError if there is no snapshot of the epoch.
        """
        check_is_fitted(self)
        if str(epoch) not in self._snapshots:
            raise unknown("snapshot of epoch", epoch, self._snapshots)
        then = clone(self)
        then.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            then.feature_names_in_ = self.feature_names_in_
        then._take(copy.deepcopy(self._snapshots[str(epoch)]), math.nan, {})
        then._fit_settings = self._fit_settings
        return then

    def _embedding(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        return self._model.eval().embed(as_tensor(self._validated(X), self.layer_.weight.device))

    def _assign(self, embedding: Tensor) -> Tensor:
        return self.layer_.logits(embedding).argmax(1)

    def _new_model(self, n_features: int) -> Model:
        kind = self.network
        if kind == "auto":
            kind = "fcn" if self.image_shape is None else "cnn"
        if kind == "cnn":
            network = layer.ConvAutoencoder(self.image_shape, self.embedding_size)
        elif kind == "fcn":
            network = layer.DenseAutoencoder(n_features, self.hidden, self.embedding_size,
                                             self.dropout, sigmoid=self.image_shape is not None)
        else:
            network = layer.FixedFeatures(n_features)
        centers = layer.ClusterLayer(self.n_clusters, network.embedding_size, self.alpha)
        return Model(network, centers)

    def _take(self, model: Model, loss: float, snapshots: Mapping[str, Model]) -> None:
        self._model, self.network_, self.layer_ = model, model.network, model.layer
        self.loss_, self._snapshots, self._online = loss, snapshots, None
        self._n_features_out = model.network.embedding_size
        self._fit_settings = self._settings()

    def _fitted(self) -> dict[str, Any]:
        return {"n_features": self.n_features_in_, "loss": self.loss_,
                "weights": self._model.state_dict()}

    def _restore(self, stored: Mapping[str, Any]) -> Model:
        self.n_features_in_ = stored["n_features"]
        self._take(self._new_model(self.n_features_in_), stored["loss"], {})
        return self._model
