"""TELL as an estimator: settings, their checks, and what can be asked of a trained model."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from .. import training
from ..checkpoints import Checkpoint, as_json, load_model, save_model
from ..errors import InputError, unknown
from ..fingerprint import hash_modules
from ..metrics import contingency
from . import fitting
from .layer import squared_distance
from .networks import checked_shape

_CHOICES = {
    "network": ("auto", "cnn", "fcn", "none"),
    "training": ("end-to-end", "two-stage"),
    "optimizer": tuple(fitting.OPTIMIZERS),
    "init": ("kaiming", "samples"),
    "precision": ("float32", "bfloat16"),
}


class TELL(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
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
    learning_rate : float, optional
        By default 1 for Adadelta and 0.001 for Adam, as torch has them.
    normalize_gradients : bool
        Whether the gradient of each center is brought to 10 % of its weights' length.
    init : {"kaiming", "samples"}
        The first centers: random directions, as in the paper; or the embeddings of random samples.
    n_init : int
        Independent starts, of which the one with the smallest final clustering loss is kept: the
        paper's choice among five. Start *i* is the run that ``random_state + i`` would give alone.
    evaluate_every : int
        Epochs between two evaluations on all samples, which the history shows; the last epoch is
        always evaluated.
    snapshot_epochs : sequence of int
        Epochs whose weights are kept; see `at`.
    precision : {"float32", "bfloat16"}
        Of the autoencoder in training; bfloat16 is faster and coarser.
    compile : bool
        Whether torch compiles the loss: slow to start, faster after; on a GPU as a CUDA graph.
    random_state : int, RandomState instance or None
        Decides first weights, dropout and the order of the samples.
    device : str
        "auto" takes a GPU where there is one.
    threads : int, optional
        Of the CPU in ``fit``, whatever the size of a step; by default one where steps are small,
        see `training.threads`.
    checkpoint : path, optional
        Where to keep the state of training, so that a killed run goes on.
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
    starts_ : list of dict
        ``seed`` and ``loss`` of each start.
    network_, layer_ : Module
        The autoencoder and the cluster layer.

    Notes
    -----
    The same ``random_state`` gives the same labels on the same machine with the same versions and
    number of threads, which follows the size of a step and not the machine (see `training`); on a
    GPU as far as its kernels are deterministic.

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

    def __init__(
        self, n_clusters: int = 10, *, network: str = "auto",
        image_shape: tuple[int, int, int] | None = None, embedding_size: int = 10,
        hidden: Sequence[int] = (500, 500, 2000), dropout: float = 0.2, alpha: float = 1e-3,
        clustering_weight: float = 0.01, training: str = "end-to-end", epochs: int = 3000,
        batch_size: int = 256, optimizer: str = "adadelta", learning_rate: float | None = None,
        normalize_gradients: bool = True, init: str = "kaiming", n_init: int = 1,
        evaluate_every: int = 50, snapshot_epochs: Sequence[int] = (), precision: str = "float32",
        compile: bool = False, random_state: Any = None, device: str = "auto",
        threads: int | None = None, checkpoint: str | Path | None = None,
        progress: bool | None = None,
    ):
        self.n_clusters = n_clusters
        self.network = network
        self.image_shape = image_shape
        self.embedding_size = embedding_size
        self.hidden = hidden
        self.dropout = dropout
        self.alpha = alpha
        self.clustering_weight = clustering_weight
        self.training = training
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.normalize_gradients = normalize_gradients
        self.init = init
        self.n_init = n_init
        self.evaluate_every = evaluate_every
        self.snapshot_epochs = snapshot_epochs
        self.precision = precision
        self.compile = compile
        self.random_state = random_state
        self.device = device
        self.threads = threads
        self.checkpoint = checkpoint
        self.progress = progress

    # ------------------------------------------------------------------------------- fitting

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> TELL:
        """Train the network and the centers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), optional
            Classes, only to write scores into ``history_``: nothing is trained on them, and no
            start or epoch is chosen by them.

        Returns
        -------
        TELL

        Raises
        ------
        InputError
            If a setting is out of range, the data hold NaN, do not fit the image shape or leave
            [0, 1] where there is one, or the checkpoint belongs to another run.
        """
        X = validate_data(self, X, dtype=np.float32, order="C", ensure_min_samples=2)
        self._check_settings(len(X))
        self._check_images(X)
        if y is not None:
            contingency(y, np.zeros(len(X), dtype=int))  # refuses what could not be scored
        place = training.resolve_device(self.device)
        first = training.as_seed(self.random_state)
        runs = []
        size = fitting.step_size(self, *X.shape)
        with training.threads(size, self.threads, self.checkpoint) as number:
            data, kept = _tensor(X, place), self._kept(X, first, number)
            for i in range(self.n_init):
                prefix = f"start {i + 1}: " if self.n_init > 1 else ""
                runs.append(fitting.train(self, data, y, (first + i) % 2**32, kept, prefix))
        best = min(runs, key=lambda run: run.loss)
        self.starts_ = [{"seed": run.seed, "loss": run.loss} for run in runs]
        self.network_, self.layer_ = best.model.network, best.model.layer
        self.history_, self.loss_, self.labels_ = best.history, best.loss, best.labels
        self._snapshots, self._online = best.snapshots, None
        return self

    def partial_fit(self, X: ArrayLike, y: None = None) -> TELL:
        """Move the centers with samples that arrive now; the first call fits.

        The encoder stays as it is. Each batch of ``batch_size`` samples, in the order in which they
        arrive, is one step of the centers (section 4.4 and Table 5 of the paper). ``labels_`` are
        then those of these samples, assigned after the steps.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        """
        if not hasattr(self, "layer_"):
            return self.fit(X)
        if self._online is None:
            self._online = (fitting.optimizer(self, self.layer_.parameters()),
                            fitting.step_size(self, self.batch_size, self.n_features_in_))
        steps, size = self._online
        with training.threads(size, self.threads):
            z = self._embedding(X)
            for batch in z.split(self.batch_size):
                fitting.move_centers(self, self.layer_, steps, batch)
            logits = self.layer_.logits(z).detach()
            self.labels_ = logits.argmax(1).cpu().numpy()
            self.loss_ = float(squared_distance(logits, self.alpha))
        return self

    # ----------------------------------------------------------------------- what was learnt

    @property
    def cluster_centers_(self) -> np.ndarray:
        """The centers: unit vectors, shape (n_clusters, embedding_size)."""
        if not hasattr(self, "layer_"):
            raise AttributeError("this TELL has no cluster_centers_ yet; call fit first")
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
        """The samples that the centers stand for: decoded, shape (n_clusters, n_features).

        Without a network they are the centers themselves.
        """
        check_is_fitted(self)
        self.network_.eval()
        return self.network_.decode(self.layer_.centers()).cpu().numpy()

    def at(self, epoch: int) -> TELL:
        """The model as it was after an epoch of ``snapshot_epochs``: it predicts and transforms.

        Raises
        ------
        InputError
            If there is no snapshot of that epoch.
        """
        check_is_fitted(self)
        if epoch not in self._snapshots:
            raise unknown("snapshot of epoch", epoch, map(str, self._snapshots))
        return self._with(self.n_features_in_, self._snapshots[epoch], self.layer_.weight.device)

    def save(self, path: str | Path) -> None:
        """Write settings and weights to a file; see `load`.

        Raises InputError if the file can't be written; what was there stays.
        """
        check_is_fitted(self)
        model = fitting.Model(self.network_, self.layer_)
        save_model(path, "TELL", {"settings": as_json(self._settings()), "loss": self.loss_,
                                  "n_features": self.n_features_in_,
                                  "weights": model.state_dict()})

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> TELL:
        """A model from a file of `save`: it predicts, transforms and decodes.

        Raises
        ------
        InputError
            If the file is not there, is no such file, or its weights are those of another network.
        """
        place = training.resolve_device(device)

        def make(stored: dict[str, Any]) -> TELL:
            settings = json.loads(stored["settings"])
            if settings["image_shape"] is not None:
                settings["image_shape"] = tuple(settings["image_shape"])
            model = cls(**settings, device=device)._with(stored["n_features"], stored["weights"],
                                                         place)
            model.loss_ = stored["loss"]
            return model

        return load_model(path, "TELL", place, make)

    # ----------------------------------------------------------------------------- inside

    def _with(self, n_features: int, weights: dict[str, Tensor], place: torch.device) -> TELL:
        """A copy that holds these weights."""
        with training.seeded(0):            # the first weights, soon replaced, draw random numbers
            model = fitting.new_model(self, n_features)
        model.load_state_dict(weights)
        model.to(place).eval()
        other = clone(self)
        other.n_features_in_ = n_features
        other.network_, other.layer_ = model.network, model.layer
        other._snapshots, other._online = {}, None
        return other

    def _embedding(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float32, order="C", reset=False)
        self._check_images(X)
        model = fitting.Model(self.network_, self.layer_).eval()
        return model.embed(_tensor(X, self.layer_.weight.device))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]  # the network's, whatever comes
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.network_.embedding_size

    def _kept(self, X: np.ndarray, seed: int, threads: int) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        if self.random_state is None:
            raise InputError("a checkpoint needs random_state, such as 0: without one every start "
                             "has another seed, and none could go on from another's file")
        return Checkpoint(self.checkpoint, data=training.fingerprint(X),
                          parameters={**self._settings(), "seed": seed, "threads": threads},
                          code=hash_modules(["batchnorm", "tell.layer", "tell.networks",
                                             "tell.fitting", "training"]))

    def _settings(self) -> dict[str, Any]:
        """The parameters that decide the result, but for the seed, in the forms that JSON knows."""
        silent = ("checkpoint", "progress", "device", "random_state")
        return {name: list(value) if isinstance(value, Sequence) and not isinstance(value, str)
                else value for name, value in self.get_params().items() if name not in silent}

    def _check_settings(self, n_samples: int) -> None:
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)
        for name, least in (("n_clusters", 1), ("embedding_size", 1), ("epochs", 0), ("n_init", 1),
                            ("batch_size", 1), ("evaluate_every", 1)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, not "
                                 f"{value!r}")
        if self.n_clusters > n_samples:
            raise InputError(f"{self.n_clusters} clusters can't be made of n_samples={n_samples}; "
                             "ask for fewer")
        for name, floor in (("clustering_weight", "at least"), ("alpha", "above"),
                            ("learning_rate", "above")):
            value = getattr(self, name)
            if value is None and name == "learning_rate":
                continue
            if (not isinstance(value, Real) or not math.isfinite(value) or value < 0
                    or (floor == "above" and value == 0)):
                raise InputError(f"{name} must be a number {floor} 0, not {value!r}")
        if self.network == "cnn" and self.image_shape is None:
            raise InputError("the convolutional network needs image_shape, (channels, height, "
                             "width) of a row of X; or take network='fcn'")
        try:
            wrong = [e for e in self.snapshot_epochs
                     if not isinstance(e, Integral) or not 1 <= e <= self.epochs]
        except TypeError:
            wrong = self.snapshot_epochs
        if wrong:
            raise InputError("snapshot_epochs must be a list of whole numbers from 1 to the "
                             f"{self.epochs} epochs of training, but has {wrong}")

    def _check_images(self, X: np.ndarray) -> None:
        if self.image_shape is None:
            return
        shape = checked_shape(self.image_shape)
        if math.prod(shape) != X.shape[1]:
            raise InputError(f"image_shape {shape} has {math.prod(shape)} values, but X has "
                             f"{X.shape[1]} features")
        low, high = float(X.min()), float(X.max())
        if low < 0 or high > 1:
            raise InputError(f"pixels must lie in [0, 1] where image_shape is set, but X runs from "
                             f"{low:g} to {high:g}; divide bytes by 255, or leave image_shape out")


def _tensor(X: np.ndarray, place: torch.device) -> Tensor:
    return torch.as_tensor(X if X.flags.writeable else X.copy(), device=place)
