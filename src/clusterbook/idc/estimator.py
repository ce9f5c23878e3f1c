"""IDC as an estimator: settings, and what can be asked of a trained model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
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
)
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from .. import training
from ..checkpoints import Checkpoint
from ..errors import InputError
from ..fingerprint import hash_modules
from ..metrics import contingency
from . import fitting, storage
from .config import (
    check_columns,
    check_finite,
    check_settings,
    column_names,
    hidden_size,
    read_config,
    varying_columns,
)
from .networks import embedding_place

# The code that a checkpoint belongs to, and the settings that change no result.
_MODULES = ["idc.config", "idc.fitting", "idc.gates", "idc.interpretability", "idc.losses",
            "idc.model", "idc.networks", "metrics", "training"]
_SILENT = ("checkpoint", "device", "progress", "random_state", "save_seed_checkpoints")


class IDC(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    r"""Interpretable deep clustering: clusters, and the features that each sample needs for them.

    Parameters that the original's configuration has carry its names, with ``lr.pretrain`` written
    ``lr_pretrain``, and the defaults of its MNIST configuration. Scale tables first, to mean 0 and
    standard deviation 1, or to [0, 1].

    Parameters
    ----------
    n_clusters : int
        ``num_clusters`` in a configuration.
    batch_size : int
        Samples of a step; at least 2. A smaller last batch is left out.
    epochs : int
        Passes over the data in all four stages together.
    seeds : int
        Independent trainings, the *i*-th with ``random_state + i``. ``runs_`` has all of them. The
        model that is kept is the one with the largest silhouette if ``select`` says so, else that
        with the smallest final compression.
    ae_non_gated_epochs : int
        First epochs, in which the autoencoder trains without gates.
    ae_pretrain_epochs : int
        Epochs of the autoencoder in all, those included; then the clustering head begins.
    start_global_gates_training_on_epoch : int
        After this many epochs auxiliary classifier and global gates train too.
    mask_percentage : float
        Share of the inputs that are blotted out in the masked reconstruction, from 0 to below 1;
        0 leaves the term out.
    latent_noise_std : float
        Standard deviation of the noise of mean 1 that multiplies embeddings in the fourth
        reconstruction; 0 leaves the term out.
    gtcr_loss : bool
        Whether the coding rate of the gates is in the loss, so that samples differ in their
        features. The released code never reads the key.
    gtcr_projection_dim : int, optional
        Dimension that a random projection brings the gates to for that loss; for many features.
    gtcr_eps : float
        Precision :math:`\epsilon` of that coding rate.
    eps : float
        Precision of the coding rate that the clustering head compresses.
    use_gating : bool
        Whether there are local gates; without them all are 1, and global gates train as before.
        The released code never reads the key.
    gates_hidden_dim : int
        Hidden width of the gating network.
    encdec : sequence of int
        Widths of the autoencoder's layers, the embedding in the middle.
    clustering_head : sequence of int, or int
        Size of the embedding and hidden width of the clustering head; or only the latter.
    tau : float
        Temperature of the Gumbel-softmax. At the published 100 memberships are nearly uniform until
        logits are in the hundreds, which takes a wide head and many steps; for short trainings
        take 1.
    aux_classifier : sequence of int, or int
        Hidden width of the auxiliary classifier.
    local_gates_lambda : float
        Weight that the sparsity of the local gates has at last, :math:`\lambda(t)`. It is right
        where few gates are open while ``gated`` in the history is still near ``clean``.
    global_gates_lambda : float
        Weight of the sparsity of the global gates.
    gtcr_lambda : float
        Weight of the coding rate of the gates.
    lr_pretrain, lr_clustering : float
        First learning rates of Adam, for autoencoder with local gates and for the head.
    lr_aux_classifier : float
        Learning rate of plain gradient descent, for classifier and global gates.
    sched_pretrain_min_lr, sched_clustering_min_lr : float
        Where the first two fall to along a cosine.
    save_seed_checkpoints : bool or path
        A folder, or True for the present one: each training's model is written there as
        ``idc-seed<seed>.pt``, for `load`. (There the key ends in an error.)
    validate : bool
        Whether classes, if ``fit`` is given any, are used for scores in ``history_``.
    gate_noise : float
        Standard deviation of the gates' noise: 0.25 in the released code, 0.5 in the paper.
    regularizer : {"released", "paper"}
        Sparsity of gates: the mean of :math:`\Phi(\mu + ½)`, or Eq. 3's sum over features of
        :math:`\Phi((\mu + ½)/0.5)`, which is a number of features: weights differ accordingly.
    reconstruction : {"mse", "l1"}
        The released code's mean squared error of a feature, or the paper's L1 norm of a sample.
    compression : {"released", "paper"}
        The head's loss: see `losses.compression_released` and `losses.compression_paper`.
    batch_norm : {"drifting", "gated", "mixed"}
        What the encoder, whose weights are frozen, normalizes by while the head trains: each batch
        by itself, while the running averages go on, as in the released code; or, everything frozen
        and faster, the means of the gated samples, computed once; or the averages that the first
        stages leave, of clean, gated and masked inputs.
    select : {"loss", "silhouette", "last"}
        Which epoch's networks are kept, never by classes: of the evaluated epochs of the last stage
        the one with the smallest compression, or with the largest silhouette; or the last of all.
        The released code reports the epoch with the best accuracy, which needs the classes; the
        paper speaks of the silhouette, which also prefers epochs with fewer clusters.
    constant_columns : {"drop", "keep"}
        What becomes of columns that have one value only. They are left out of training, with a
        warning, and their gates are 0; or they are treated as all others, as in the released code.
    evaluate_every : int
        Epochs between two evaluations on all samples, which the history shows;
        ``trainer.check_val_every_n_epoch`` in a configuration.
    precision : {"float32", "bfloat16"}
        Of autoencoder and gating network in training; bfloat16 is coarser.
    random_state : int, RandomState instance or None
        Decides first weights, all noise and the order of the samples.
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
    used_features_ : ndarray of bool, shape (n_features,)
        The columns that were not left out as constant.
    global_gates_ : ndarray of shape (n_clusters, n_features)
        Gates of the clusters, from 0 to 1; near 0.5, where they begin, if they were not trained.
    history_ : History
        Per epoch the parts of the loss. Where it was evaluated (the rows with ``overall``, the
        epoch over all stages): ``local_gates`` and ``open_local_gates`` (the original's measure,
        see `interpretability.open_features`, and the number that are open), the same for global
        gates, ``occupied`` (clusters that have samples), ``silhouette`` and ``davies_bouldin`` of
        the embeddings (of 2,000 samples at most); and all of `metrics.scores` with
        ``acc_greedy`` if ``fit`` was given classes.
    kept_epoch_ : int
        The epoch, over all stages, whose networks were kept.
    compression_ : float
        The head's loss in that epoch; NaN if none was evaluated.
    runs_ : list of dict
        Per training ``seed``, ``kept_epoch``, ``compression``, ``silhouette`` and ``history``.
    model_ : Module
        All networks.

    Notes
    -----
    The same ``random_state`` gives the same labels on the same machine with the same versions and
    number of threads, which follows the size of a step and not the machine (see `training`); on a
    GPU as far as its kernels are deterministic.

    References
    ----------
    .. [1] J. Svirsky, O. Lindenbaum, "Interpretable Deep Clustering for Tabular Data", ICML 2024.

    Examples
    --------
    >>> from clusterbook.datasets import make_synthetic
    >>> X, y, informative = make_synthetic(50, random_state=0)
    >>> model = IDC(4, encdec=[16, 4, 16], clustering_head=[4, 16], aux_classifier=16,
    ...             gates_hidden_dim=16, epochs=6, ae_pretrain_epochs=4, ae_non_gated_epochs=2,
    ...             start_global_gates_training_on_epoch=5, random_state=0).fit(X)
    >>> model.labels_.shape, model.transform(X).shape, model.local_gates(X).shape
    ((200,), (200, 4), (200, 13))
    """

    def __init__(
        self, n_clusters: int = 10, *, batch_size: int = 100, epochs: int = 700, seeds: int = 1,
        ae_non_gated_epochs: int = 10, ae_pretrain_epochs: int = 300,
        start_global_gates_training_on_epoch: int = 400, mask_percentage: float = 0.9,
        latent_noise_std: float = 0.01, gtcr_loss: bool = True,
        gtcr_projection_dim: int | None = None, gtcr_eps: float = 1.0, eps: float = 0.1,
        use_gating: bool = True, gates_hidden_dim: int = 784,
        encdec: Sequence[int] = (512, 512, 2048, 10, 2048, 512, 512),
        clustering_head: Sequence[int] | int = (10, 2048), tau: float = 100.0,
        aux_classifier: Sequence[int] | int = (2048,), local_gates_lambda: float = 1.0,
        global_gates_lambda: float = 1e-4, gtcr_lambda: float = 0.01, lr_pretrain: float = 1e-3,
        lr_clustering: float = 1e-2, lr_aux_classifier: float = 1e-2,
        sched_pretrain_min_lr: float = 1e-6, sched_clustering_min_lr: float = 1e-6,
        save_seed_checkpoints: bool | str | Path = False, validate: bool = True,
        gate_noise: float = 0.25, regularizer: str = "released", reconstruction: str = "mse",
        compression: str = "released", batch_norm: str = "drifting", select: str = "loss",
        constant_columns: str = "drop", evaluate_every: int = 10, precision: str = "float32",
        random_state: Any = None, device: str = "auto", threads: int | None = None,
        checkpoint: str | Path | None = None, progress: bool | None = None,
    ):
        self.n_clusters = n_clusters
        self.batch_size = batch_size
        self.epochs = epochs
        self.seeds = seeds
        self.ae_non_gated_epochs = ae_non_gated_epochs
        self.ae_pretrain_epochs = ae_pretrain_epochs
        self.start_global_gates_training_on_epoch = start_global_gates_training_on_epoch
        self.mask_percentage = mask_percentage
        self.latent_noise_std = latent_noise_std
        self.gtcr_loss = gtcr_loss
        self.gtcr_projection_dim = gtcr_projection_dim
        self.gtcr_eps = gtcr_eps
        self.eps = eps
        self.use_gating = use_gating
        self.gates_hidden_dim = gates_hidden_dim
        self.encdec = encdec
        self.clustering_head = clustering_head
        self.tau = tau
        self.aux_classifier = aux_classifier
        self.local_gates_lambda = local_gates_lambda
        self.global_gates_lambda = global_gates_lambda
        self.gtcr_lambda = gtcr_lambda
        self.lr_pretrain = lr_pretrain
        self.lr_clustering = lr_clustering
        self.lr_aux_classifier = lr_aux_classifier
        self.sched_pretrain_min_lr = sched_pretrain_min_lr
        self.sched_clustering_min_lr = sched_clustering_min_lr
        self.save_seed_checkpoints = save_seed_checkpoints
        self.validate = validate
        self.gate_noise = gate_noise
        self.regularizer = regularizer
        self.reconstruction = reconstruction
        self.compression = compression
        self.batch_norm = batch_norm
        self.select = select
        self.constant_columns = constant_columns
        self.evaluate_every = evaluate_every
        self.precision = precision
        self.random_state = random_state
        self.device = device
        self.threads = threads
        self.checkpoint = checkpoint
        self.progress = progress

    @classmethod
    def from_config(cls, path: str | Path, **settings: Any) -> IDC:
        """An estimator with the settings of a file of the original's form.

        Parameters
        ----------
        path : str or Path
            A YAML file such as the original's ``cfg_mnist.yaml``. Keys that it leaves out have
            their defaults here. ``trainer.max_epochs`` is ``epochs``,
            ``trainer.check_val_every_n_epoch`` is ``evaluate_every``, and ``trainer.accelerator``
            is the device ("gpu" takes one where there is one). Constant columns are kept, as the
            original keeps them. A warning names the keys that mean nothing here: those of the data,
            which ``fit`` is given, and the rest of ``trainer``.
        **settings
            Keywords of `IDC` that the file lacks, or that take the place of its own.

        Returns
        -------
        IDC

        Raises
        ------
        InputError
            If the file can't be read, or has a key that the original does not know.
        """
        found, ignored = read_config(path)
        if ignored:
            warnings.warn(f"{path}: ignored, because they mean nothing here: {', '.join(ignored)}; "
                          "samples are given to fit", UserWarning, stacklevel=2)
        return cls(**{"constant_columns": "keep", **found, **settings})

    # ------------------------------------------------------------------------------- fitting

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> IDC:
        """Train all stages.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            At least two samples.
        y : array-like of shape (n_samples,), optional
            Classes, only to write scores into ``history_``: nothing is trained on them, and no
            epoch or run is chosen by them.

        Returns
        -------
        IDC

        Raises
        ------
        InputError
            If a setting is out of range, the data are not finite numbers or all constant, or the
            checkpoint belongs to another run.
        """
        X = self._checked(X, reset=True)
        check_settings(self, len(X))
        if y is not None:
            contingency(y, np.zeros(len(X), dtype=int))     # refuses what could not be scored
        if self.batch_size > len(X):
            warnings.warn(f"batch_size {self.batch_size} is larger than the data; all {len(X)} "
                          "samples make one batch", UserWarning, stacklevel=2)
        place, folder = training.resolve_device(self.device), self._folder()
        first = training.as_seed(self.random_state)
        step, runs = fitting.step_size(self, len(X), int(self.used_features_.sum())), []
        with training.threads(step, self.threads, self.checkpoint) as number:
            data, kept = _tensor(X[:, self.used_features_], place), self._kept(X, first, number)
            for i in range(self.seeds):
                prefix = f"seed {i + 1}: " if self.seeds > 1 else ""
                runs.append(fitting.train(self, data, y if self.validate else None,
                                          (first + i) % 2**32, kept, prefix))
                if folder is not None:
                    copy(self)._adopt(runs[-1]).save(folder / f"idc-seed{runs[-1].seed}.pt")
        self.runs_ = [{"seed": run.seed, "kept_epoch": run.epoch, "compression": run.compression,
                       "silhouette": run.silhouette, "history": run.history} for run in runs]
        return self._adopt(min(runs, key=self._rank))

    def _adopt(self, run: fitting.Run) -> IDC:
        self.model_, self.history_, self.labels_ = run.model, run.history, run.labels
        self.kept_epoch_, self.compression_ = run.epoch, run.compression
        return self

    def _rank(self, run: fitting.Run) -> float:
        if self.select == "silhouette":
            return float("inf") if run.silhouette is None else -run.silhouette
        return run.compression

    # ----------------------------------------------------------------------- what was learnt

    @property
    def global_gates_(self) -> np.ndarray:
        """Gates of the clusters without noise, shape (n_clusters, n_features)."""
        if not hasattr(self, "model_"):
            raise AttributeError("this IDC has no global_gates_ yet; call fit first")
        return self._widened(self.model_.global_gates.matrix())

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The cluster of each sample, shape (n_samples,)."""
        embedding = self._embedding(X)
        return self.model_.cluster(embedding).cpu().numpy()

    def transform(self, X: ArrayLike) -> np.ndarray:
        """The embedding of each gated sample, shape (n_samples, embedding_size), of any length."""
        return self._embedding(X).cpu().numpy()

    def local_gates(self, X: ArrayLike) -> np.ndarray:
        """The gates of each sample without noise, shape (n_samples, n_features), from 0 to 1."""
        samples = self._samples(X)
        return self._widened(self.model_.local_gates(samples))

    @torch.no_grad()
    def reconstruct(self, X: ArrayLike) -> np.ndarray:
        """What the autoencoder makes of each gated sample, shape (n_samples, n_features).

        Columns that were left out as constant are 0.
        """
        embedding = self._embedding(X)
        return self._widened(self.model_.autoencoder.decoder(embedding))

    def selected_features(self, cluster: int, threshold: float = 0.0) -> np.ndarray:
        """The features whose global gate is above a threshold, those with the widest gate first.

        Global gates begin near 0.5, open: where they were hardly trained, all features are
        selected, and the order says little. `interpretability.cluster_features` selects by the
        local gates of a cluster's samples instead.

        Parameters
        ----------
        cluster : int
            From 0 to ``n_clusters`` - 1.
        threshold : float
            From 0, a gate that is open at all, to below 1.

        Returns
        -------
        ndarray of int64
            Columns of ``X``.

        Raises
        ------
        InputError
            If there is no such cluster, or the threshold is out of range.
        """
        check_is_fitted(self)
        if not isinstance(cluster, int | np.integer) or not 0 <= cluster < self.n_clusters:
            raise InputError(f"there is no cluster {cluster!r}; they are 0 to "
                             f"{self.n_clusters - 1}")
        if not 0 <= threshold < 1:
            raise InputError("a gate lies between 0 and 1, so a threshold must lie from 0 to "
                             f"below 1, not at {threshold!r}")
        gates = self.global_gates_[cluster]
        order = np.argsort(-gates, kind="stable")
        return order[gates[order] > threshold]

    def save(self, path: str | Path) -> None:
        """Write settings and weights to a file; see `load`.

        Raises InputError if the file can't be written; what was there stays.
        """
        check_is_fitted(self)
        storage.write(self, path)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> IDC:
        """A model from a file of `save`: it predicts, transforms and shows its gates.

        Raises
        ------
        InputError
            If the file is not there, is no such file, or its weights are those of another network.
        """
        return storage.read(cls, path, training.resolve_device(device), device)

    # ----------------------------------------------------------------------------- inside

    def hidden_sizes(self) -> dict[str, int]:
        """Hidden widths of the clustering head and the auxiliary classifier."""
        embedding = self.encdec[embedding_place(self.encdec)]
        return {"clustering_head": hidden_size("clustering_head", self.clustering_head, embedding),
                "aux_classifier": hidden_size("aux_classifier", self.aux_classifier)}

    def _embedding(self, X: ArrayLike) -> Tensor:
        samples = self._samples(X)
        return self.model_.embed(samples * self.model_.local_gates(samples))

    def _samples(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        X = self._checked(X, reset=False)[:, self.used_features_]
        return _tensor(X, self.model_.global_gates.weight.device)

    def _widened(self, values: Tensor) -> np.ndarray:
        """Values of all columns from those of the used ones, 0 for the others."""
        wide = np.zeros((len(values), self.n_features_in_), dtype=np.float32)
        wide[:, self.used_features_] = values.cpu().numpy()
        return wide

    def _checked(self, X: ArrayLike, *, reset: bool) -> np.ndarray:
        """Samples as float32; raises InputError for text, and for NaN and infinite values."""
        check_columns(X)
        names = column_names(X)
        if hasattr(X, "notna"):                         # of pandas; NumPy can't read its NA
            X = X.where(X.notna(), np.nan)
        X = validate_data(self, X, reset=reset, dtype=np.float32, order="C",
                          ensure_all_finite=False, ensure_min_samples=2 if reset else 1)
        check_finite(X, names)
        if reset:
            self.used_features_ = (varying_columns(X, names) if self.constant_columns == "drop"
                                   else np.ones(X.shape[1], dtype=bool))
        return X

    def _folder(self) -> Path | None:
        """Where each training's model is to be written; made before training."""
        if self.save_seed_checkpoints is False:
            return None
        folder = Path("." if self.save_seed_checkpoints is True else self.save_seed_checkpoints)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"save_seed_checkpoints names {folder}, which can't be made a folder "
                             f"({error.strerror or error}); name another") from error
        return folder

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]  # the networks', whatever comes
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.model_.autoencoder.embedding_size

    def _kept(self, X: np.ndarray, seed: int, threads: int) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        if self.random_state is None:
            raise InputError("a checkpoint needs random_state, such as 0: without one every run "
                             "has another seed, and none could go on from another's file")
        settings = {name: value for name, value in self.get_params().items() if name not in _SILENT}
        return Checkpoint(self.checkpoint,
                          parameters={**settings, "seed": seed, "threads": threads},
                          data=training.fingerprint(X), code=hash_modules(_MODULES))


def _tensor(X: np.ndarray, place: torch.device) -> Tensor:
    return torch.as_tensor(X if X.flags.writeable else X.copy(), device=place)
