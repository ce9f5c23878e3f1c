r"""IDC as an estimator: two trainings one after the other, each in two stages.

==================  ============================================  ================================
stage               trained networks                              loss
==================  ============================================  ================================
``reconstruction``  autoencoder                                   four reconstruction errors
``gated``           autoencoder, gating network                   these, with gates; sparsity; rate
``clustering``      clustering head                               compression of the embeddings
``global``          the head; auxiliary classifier, global gates  this; cross-entropy, sparsity
==================  ============================================  ================================

One optimizer, whose learning rate falls along a cosine, serves the first training and another the
head in the second, in which the weights of autoencoder and gating network are frozen.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR

from .. import checks, training
from ..base import DeepClusterer, as_tensor
from ..checkpoints import Checkpoint
from ..errors import InputError, unknown
from ..metrics import contingency, davies_bouldin, scores, silhouette
from ..training import History
from . import losses
from .interpretability import greedy_accuracy, open_features
from .networks import Best, Model

#: Silhouette and Davies–Bouldin index are computed on a random sample of this size.
SCORED_SAMPLES = 2000
#: Final learning rate of both cosines, as in all released configurations.
LEAST_RATE = 1e-6
_CHOICES = {"form": tuple(losses.FORMS), "batch_norm": ("drifting", "gated", "mixed"),
            "select": ("loss", "silhouette", "last"), "constant_columns": ("drop", "keep")}
_LEAST = {"n_clusters": 1, "batch_size": 2, "epochs": 0, "ae_non_gated_epochs": 0,
          "ae_pretrain_epochs": 0, "start_global_gates_training_on_epoch": 0,
          "gates_hidden_dim": 1, "evaluate_every": 1}
_POSITIVE = ("gtcr_eps", "eps", "tau", "lr_pretrain", "lr_clustering", "lr_aux_classifier")
_NOT_NEGATIVE = ("mask_percentage", "latent_noise_std", "local_gates_lambda",
                 "global_gates_lambda", "gtcr_lambda")
#: Keys of the original's configuration that have another name here, and those that do nothing.
_RENAMED = {"num_clusters": "n_clusters", "lr.pretrain": "lr_pretrain",
            "lr.clustering": "lr_clustering", "lr.aux_classifier": "lr_aux_classifier"}
_IGNORED = ("dataset", "data_dir", "scaler", "filepath_samples", "seeds", "save_seed_checkpoints",
            "validate", "trainer", "sched")
#: Parameters that the original does not have, or under another name.
_OWN = (*_RENAMED.values(), "form", "batch_norm", "select", "constant_columns", "evaluate_every",
        "random_state", "device", "threads", "checkpoint", "progress")


@dataclass(eq=False, repr=False)
class IDC(DeepClusterer):
    r"""Interpretable deep clustering: clusters, and the features that each sample needs for them.

    Parameters that the original's configuration has carry its names, and the defaults of its MNIST
    configuration. Scale tables first, to mean 0 and standard deviation 1, or to [0, 1].

    Parameters
    ----------
    n_clusters : int
    batch_size : int
        At least 2. A smaller last batch is left out.
    epochs : int
        Passes over the data in all four stages together.
    ae_non_gated_epochs, ae_pretrain_epochs : int
        First epochs of the autoencoder, without gates; and all its epochs, those included.
    start_global_gates_training_on_epoch : int
        After this many epochs auxiliary classifier and global gates train too.
    mask_percentage : float
        Fraction of inputs masked in the masked reconstruction; 0 leaves the term out.
    latent_noise_std : float
        Standard deviation of the noise of mean 1 that multiplies embeddings in the fourth
        reconstruction; 0 leaves the term out.
    gtcr_loss : bool
        Whether the coding rate of the gates is in the loss, so that samples differ in their gates.
    gtcr_projection_dim : int, optional
        Dimension of a random projection of the gates for that loss; for many features.
    gtcr_eps, eps : float
        Precision :math:`\epsilon` of that coding rate, and of the one that the head compresses.
    use_gating : bool
        Whether there are local gates; without them all are 1, and global gates train as before.
    gates_hidden_dim : int
        Hidden width of the gating network.
    encdec : sequence of int
        Widths of the autoencoder's layers, the embedding in the middle.
    clustering_head, aux_classifier : sequence of int, or int
        Hidden width of the clustering head, after the size of the embedding or alone; and of the
        auxiliary classifier.
    tau : float
        Temperature of the Gumbel-softmax. At the published 100 memberships stay nearly uniform for
        hundreds of epochs; for short trainings take 1.
    local_gates_lambda : float
        Final weight of the sparsity of the local gates, :math:`\lambda(t)`. It is right where few
        gates are open while ``gated`` in the history is still near ``clean``.
    global_gates_lambda, gtcr_lambda : float
        Weight of the sparsity of the global gates, and of the coding rate of the local gates.
    lr_pretrain, lr_clustering, lr_aux_classifier : float
        First learning rates of Adam, for autoencoder with local gates and for the head; that of
        plain gradient descent, for auxiliary classifier and global gates.
    form : {"released", "paper"}
        Noise of the gates and form of three losses, see `losses.FORMS`. The paper's losses are sums
        over features where the code's are means, so weights differ accordingly.
    batch_norm : {"drifting", "gated", "mixed"}
        Statistics of the frozen encoder while the head trains: each batch's own, with running
        averages that go on, as released; those of all gated samples, computed once, which is
        faster; or the averages that the first training leaves, over clean, gated and masked inputs.
    select : {"loss", "silhouette", "last"}
        The epoch whose networks are kept, never by classes: of the evaluated epochs of the last
        stage the one with the smallest compression or the largest silhouette; or the last of all.
    constant_columns : {"drop", "keep"}
        Leave columns with a single value out, with a warning, and set their gates to 0; or treat
        them as all others, as released.
    evaluate_every : int
        Epochs between two evaluations on all samples, which the history shows.
    random_state : int, RandomState instance or None
        Decides first weights, all noise and the order of the samples.
    device, threads, checkpoint, progress
        "auto" takes a GPU where there is one; threads of the CPU in ``fit``, by default one where
        steps are small (`training.threads`); a file from which a killed run resumes; whether to
        show a bar, by default only in a terminal or a live notebook.

    Attributes
    ----------
    labels_ : ndarray of int64, shape (n_samples,)
        Cluster of each sample that the model was fitted on.
    used_features_ : ndarray of bool, shape (n_features,)
        The columns that were not left out as constant.
    global_gates_ : ndarray of shape (n_clusters, n_features)
        Gates of the clusters, from 0 to 1; near 0.5, where they begin, if they were not trained.
    history_ : History
        Per epoch the parts of the loss. Rows of evaluated epochs have ``overall``, the epoch over
        all stages; ``local_gates``, ``open_local_gates`` (see `interpretability.open_features`),
        and the same for global gates; ``occupied`` (clusters that have samples); ``silhouette``
        and ``davies_bouldin`` of the embeddings (of 2,000 samples at most); and `metrics.scores`
        with ``acc_greedy`` if ``fit`` was given classes.
    kept_epoch_, compression_ : int, float
        The epoch, over all stages, whose networks were kept, and the head's loss in it; NaN if
        none was evaluated.
    model_ : Module
        All networks.

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

    _removed = {"compression": "released", "gate_noise": 0.25, "precision": "float32",
                "reconstruction": "mse", "regularizer": "released", "seeds": 1, "validate": True,
                "sched_clustering_min_lr": 1e-6, "sched_pretrain_min_lr": 1e-6}

    n_clusters: int = 10
    _: KW_ONLY
    batch_size: int = 100
    epochs: int = 700
    ae_non_gated_epochs: int = 10
    ae_pretrain_epochs: int = 300
    start_global_gates_training_on_epoch: int = 400
    mask_percentage: float = 0.9
    latent_noise_std: float = 0.01
    gtcr_loss: bool = True
    gtcr_projection_dim: int | None = None
    gtcr_eps: float = 1.0
    eps: float = 0.1
    use_gating: bool = True
    gates_hidden_dim: int = 784
    encdec: Sequence[int] = (512, 512, 2048, 10, 2048, 512, 512)
    clustering_head: Sequence[int] | int = (10, 2048)
    tau: float = 100.0
    aux_classifier: Sequence[int] | int = (2048,)
    local_gates_lambda: float = 1.0
    global_gates_lambda: float = 1e-4
    gtcr_lambda: float = 0.01
    lr_pretrain: float = 1e-3
    lr_clustering: float = 1e-2
    lr_aux_classifier: float = 1e-2
    form: str = "released"
    batch_norm: str = "drifting"
    select: str = "loss"
    constant_columns: str = "drop"
    evaluate_every: int = 10
    random_state: Any = None
    device: str = "auto"
    threads: int | None = None
    checkpoint: str | Path | None = None
    progress: bool | None = None

    @classmethod
    def from_config(cls, path: str | Path, **settings: Any) -> IDC:
        """An estimator with the settings of a YAML file such as the original's ``cfg_mnist.yaml``.

        *settings* replace the file's, and constant columns are kept, as the original keeps them. A
        warning names the keys that are ignored, such as those of the data, and ``trainer``.

        Raises InputError if the file can't be read, or has a key that the original does not know.
        """
        try:
            content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
            rates = content.pop("lr", {})               # floats, since YAML 1.1 reads 1e-3 as text
            content |= {f"lr.{name}": float(rate) for name, rate in rates.items()}
        except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
            raise InputError(f"the configuration {path} can't be read as YAML with keys and "
                             f"values: {error}") from error
        known = {name: name for name in cls().get_params() if name not in _OWN} | _RENAMED
        for key in content:
            if key not in known and key not in _IGNORED:
                raise unknown(f"key in the configuration {path},", key, known)
        ignored = [key for key in content if key in _IGNORED]
        if ignored:
            warnings.warn(f"{path}: ignored: {', '.join(ignored)}", UserWarning, stacklevel=2)
        found = {known[key]: value for key, value in content.items() if key in known}
        return cls(**{"constant_columns": "keep", **found, **settings})

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> IDC:
        """Train all stages on samples of shape (n_samples, n_features), at least two.

        Classes *y*, of shape (n_samples,), only write scores into ``history_``: nothing is trained
        on them, and no epoch is chosen by them.

        Raises InputError if a setting is out of range, the data are not finite numbers or all
        constant, or the checkpoint belongs to another run.
        """
        X = self._checked(X, reset=True)
        self._check_settings(len(X))
        size = self._step_size(len(X), int(self.used_features_.sum()))
        if y is not None:
            contingency(y, np.zeros(len(X), dtype=int))     # refuses classes that can't be scored
        if self.batch_size > len(X):
            warnings.warn(f"batch_size {self.batch_size} is larger than the data; all {len(X)} "
                          "samples make one batch", UserWarning, stacklevel=2)
        device, seed = training.resolve_device(self.device), training.as_seed(self.random_state)
        with training.threads(size, self.threads, self.checkpoint) as threads:
            checkpoint = self._checkpoint(training.fingerprint(X), seed, threads)
            self._train(as_tensor(X[:, self.used_features_], device), y, seed, checkpoint)
        return self

    def _train(self, X: Tensor, y: ArrayLike | None, seed: int, checkpoint: Checkpoint | None
               ) -> None:
        epochs, history = self._stage_epochs(), History()

        def run(stage: str, step: Callable[..., dict[str, Tensor]], tensors: tuple[Tensor, ...],
                state: dict[str, Any], evaluate: Callable[[int, dict], dict] | None = None) -> None:
            """Train one stage, and evaluate when its epoch, counted over all stages, says so."""
            nonlocal history
            before = len(history)

            def on_epoch(epoch: int, row: dict[str, Any]) -> dict[str, Any]:
                overall = before + epoch
                due = (overall % self.evaluate_every == 0
                       or overall in (self.ae_pretrain_epochs, self.epochs))
                return {"overall": overall, **evaluate(overall, row)} if due and evaluate else {}

            history += training.train(
                step, tensors, epochs=epochs[stage], batch_size=min(self.batch_size, len(X)),
                generator=generator, drop_last=True, state=state, on_epoch=on_epoch,
                checkpoint=checkpoint, stage=stage, progress=self.progress, description=stage)

        with training.seeded(seed, X.device) as generator:
            model = self._new_model(X.shape[1]).to(X.device)
            best = Best(model)
            self._first_training(model, X, run)
            self._second_training(model, X, y, best, run)
        best.restore()
        self.model_, self.history_ = model.eval(), history
        embedding = model.embed(X * model.local_gates(X))
        self.labels_ = model.cluster(embedding).cpu().numpy()
        kept = next((row for row in reversed(history.rows) if "occupied" in row
                     and best.epoch in (0, row["overall"])), {})
        self.kept_epoch_ = kept.get("overall", self.epochs)
        self.compression_ = kept.get("compression", float("nan"))

    def _stage_epochs(self) -> dict[str, int]:
        """The number of epochs of each stage; they add up to ``epochs``."""
        plain = self.ae_non_gated_epochs if self.use_gating else self.ae_pretrain_epochs
        begins = min(max(self.start_global_gates_training_on_epoch, self.ae_pretrain_epochs),
                     self.epochs)
        return {"reconstruction": plain, "gated": self.ae_pretrain_epochs - plain,
                "clustering": begins - self.ae_pretrain_epochs, "global": self.epochs - begins}

    def _adam(self, network: nn.Module, rate: float, epochs: int, n_samples: int
              ) -> tuple[torch.optim.Adam, CosineAnnealingLR]:
        """Adam, and a schedule that lowers its rate with each step along half a cosine."""
        parameters = list(network.parameters())
        optimizer = torch.optim.Adam(parameters, lr=rate,
                                     fused=parameters[0].device.type in ("cpu", "cuda"))
        steps = epochs * (n_samples // min(self.batch_size, n_samples))
        return optimizer, CosineAnnealingLR(optimizer, T_max=max(1, steps), eta_min=LEAST_RATE)

    # --------------------------------------------- first training: autoencoder, then with gates

    def _first_training(self, model: Model, X: Tensor, run: Callable[..., None]) -> None:
        networks = nn.ModuleList([model.autoencoder])
        if model.gating is not None:
            networks.append(model.gating)
        optimizer, schedule = self._adam(networks, self.lr_pretrain, self.ae_pretrain_epochs,
                                         len(X))
        state = {"networks": networks, "optimizer": optimizer, "schedule": schedule}
        gated_epochs = self._stage_epochs()["gated"]

        def reconstruction_step(_epoch: int, batch: Tensor) -> dict[str, Tensor]:
            terms = self._reconstruction(model, batch)
            descend(sum(terms.values()), optimizer, schedule)
            return terms

        def gated_step(epoch: int, batch: Tensor) -> dict[str, Tensor]:
            weight = losses.sparsity_weight(epoch, gated_epochs, self.local_gates_lambda)
            loss, terms = self._sparse_loss(model, batch, weight)
            descend(loss, optimizer, schedule)
            return terms

        run("reconstruction", reconstruction_step, (X,), state)
        run("gated", gated_step, (X,), state,
            lambda _overall, _row: self._count_open(model.local_gates(X)))

    def _reconstruction(self, model: Model, X: Tensor, gates: Tensor | None = None
                        ) -> dict[str, Tensor]:
        """The reconstruction errors of a batch, with a fresh mask and noise."""
        mask = latent = None
        if self.mask_percentage:
            mask = losses.random_mask(X, self.mask_percentage)
        if self.latent_noise_std:
            shape = (len(X), model.autoencoder.embedding_size)
            latent = 1 + self.latent_noise_std * torch.randn(shape, dtype=X.dtype, device=X.device)
        return losses.reconstruction_terms(model.autoencoder, X, gates=gates, mask=mask,
                                           latent=latent, error=losses.FORMS[self.form].error)

    def _sparse_loss(self, model: Model, X: Tensor, weight: float
                     ) -> tuple[Tensor, dict[str, Tensor]]:
        r""":math:`\mathcal L_\mathrm{sparse}` and its terms; *weight* is :math:`\lambda(t)`."""
        form = losses.FORMS[self.form]
        mu = model.gating(X)
        gates = losses.stochastic_gates(mu, form.noise)                         # Eq. 1
        terms = self._reconstruction(model, X, gates)
        loss = sum(terms.values())
        terms["regularizer"] = form.regularizer(mu)                             # Eq. 3
        loss = loss + weight * terms["regularizer"]
        if self.gtcr_loss:
            terms["coding_rate"] = losses.gate_coding_loss(gates, self.gtcr_eps,
                                                           model.projection)    # Eq. 4
            loss = loss + self.gtcr_lambda * terms["coding_rate"]
        return loss, terms

    # ------------------------------------- second training: the head, then with the global gates

    def _second_training(self, model: Model, X: Tensor, y: ArrayLike | None, best: Best,
                         run: Callable[..., None]) -> None:
        gates = model.eval().local_gates(X)                 # frozen, so computed once
        gated, counts = X * gates, self._count_open(gates)
        if self.batch_norm == "gated":
            model.calibrate(gated)
        # As released, the frozen encoder uses each batch's own statistics, and its running averages
        # drift, so each batch is embedded anew; otherwise all samples are embedded once.
        drifts = self.batch_norm == "drifting"
        inputs = gated if drifts else model.embed(gated)
        optimizer, schedule = self._adam(model.head, self.lr_clustering,
                                         self.epochs - self.ae_pretrain_epochs, len(X))
        gates_optimizer = torch.optim.SGD(
            [*model.auxiliary.parameters(), *model.global_gates.parameters()],
            self.lr_aux_classifier)
        state = {"head": model.head, **({"autoencoder": model.autoencoder} if drifts else {}),
                 "optimizer": optimizer, "schedule": schedule, "best": best}
        epochs = self._stage_epochs()
        before_last = self.epochs - (epochs["global"] or epochs["clustering"])

        def head_step(batch: Tensor) -> tuple[Tensor, Tensor]:
            with torch.no_grad():
                z = model.autoencoder.encoder(batch) if drifts else batch
            logits = model.head(z)
            loss = self._head_loss(z, logits)
            descend(loss, optimizer, schedule)
            return loss, logits.argmax(1)

        def clustering_step(_epoch: int, batch: Tensor) -> dict[str, Tensor]:
            return {"compression": head_step(batch)[0]}

        def global_step(_epoch: int, batch: Tensor, samples: Tensor) -> dict[str, Tensor]:
            compression, labels = head_step(batch)
            loss, terms = self._global_loss(model, samples, labels)
            descend(loss, gates_optimizer)
            return {"compression": compression, **terms}

        def evaluate(overall: int, row: dict[str, Any]) -> dict[str, Any]:
            z = model.embed(gated) if drifts else inputs
            labels = model.cluster(z).cpu().numpy()
            matrix = model.global_gates.matrix()
            found = {"occupied": len(np.unique(labels)), **counts,
                     "global_gates": float(matrix.sum(1).mean()),
                     "open_global_gates": float((matrix > 0).sum(1).float().mean()),
                     **internal_scores(z, labels)}
            if self.select != "last" and overall > before_last:
                best.offer(overall, -row["compression"] if self.select == "loss"
                           else found.get("silhouette"))
            if y is not None:
                found |= {**scores(y, labels), "acc_greedy": greedy_accuracy(y, labels)}
            return found

        run("clustering", clustering_step, (inputs,), state, evaluate)
        run("global", global_step, (inputs, gated), state | {
            "auxiliary": model.auxiliary, "global_gates": model.global_gates,
            "auxiliary optimizer": gates_optimizer}, evaluate)

    def _head_loss(self, z: Tensor, logits: Tensor) -> Tensor:
        """The compression that the clustering head minimizes; embeddings *z* are constants."""
        memberships = losses.gumbel_softmax(logits, self.tau)                           # Eq. 5
        return losses.FORMS[self.form].compression(z.detach(), memberships, self.eps)   # Eq. 6

    def _global_loss(self, model: Model, gated: Tensor, labels: Tensor
                     ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of auxiliary classifier and global gates, and its terms.

        The head's *labels* are constants, which the classifier predicts from gated samples times
        the gates of these clusters.
        """
        form, mu = losses.FORMS[self.form], model.global_gates(labels)
        logits = model.auxiliary(gated * losses.stochastic_gates(mu, form.noise))
        terms = {"cross_entropy": functional.cross_entropy(logits, labels),
                 "global_regularizer": form.regularizer(mu)}
        return (terms["cross_entropy"] + self.global_gates_lambda * terms["global_regularizer"],
                terms)

    def _count_open(self, gates: Tensor) -> dict[str, float]:
        """The original's measure of local gates, and the number that are open."""
        values = gates.cpu().numpy()
        return {"local_gates": open_features(values, original=True, batch_size=self.batch_size),
                "open_local_gates": open_features(values)}

    # ----------------------------------------------------------------------- the fitted model

    @property
    def global_gates_(self) -> np.ndarray:
        """Gates of the clusters without noise, shape (n_clusters, n_features)."""
        if not hasattr(self, "model_"):
            raise AttributeError("global_gates_ is available only after fit")
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
        """The reconstruction of gated samples, (n_samples, n_features); left-out columns are 0."""
        embedding = self._embedding(X)
        return self._widened(self.model_.autoencoder.decoder(embedding))

    def selected_features(self, cluster: int, threshold: float = 0.0) -> np.ndarray:
        """The columns whose global gate is above a threshold, the largest gate first.

        Global gates begin near 0.5: where they were hardly trained, all features are selected.
        `interpretability.cluster_features` selects by local gates instead.

        Raises InputError if there is no such cluster.
        """
        check_is_fitted(self)
        if cluster not in range(self.n_clusters):
            raise InputError(f"there is no cluster {cluster}; they are 0 to {self.n_clusters - 1}")
        gates = self.global_gates_[cluster]
        order = np.argsort(-gates, kind="stable")
        return order[gates[order] > threshold]

    def _fitted(self) -> dict[str, Any]:
        return {"used": self.used_features_.tolist(), "kept_epoch": self.kept_epoch_,
                "compression": self.compression_, "weights": self.model_.state_dict()}

    def _restore(self, stored: Mapping[str, Any]) -> Model:
        self.used_features_, self.n_features_in_ = np.array(stored["used"]), len(stored["used"])
        self.kept_epoch_, self.compression_ = stored["kept_epoch"], stored["compression"]
        self.model_ = self._new_model(sum(stored["used"]))
        return self.model_

    def _embedding(self, X: ArrayLike) -> Tensor:
        samples = self._samples(X)
        return self.model_.embed(samples * self.model_.local_gates(samples))

    def _samples(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        X = self._checked(X, reset=False)[:, self.used_features_]
        return as_tensor(X, self.model_.global_gates.weight.device)

    def _widened(self, values: Tensor) -> np.ndarray:
        """Values of all columns from those of the used ones, 0 for the others."""
        wide = np.zeros((len(values), self.n_features_in_), dtype=np.float32)
        wide[:, self.used_features_] = values.cpu().numpy()
        return wide

    @property
    def _n_features_out(self) -> int:
        return self.model_.autoencoder.embedding_size

    # ------------------------------------------------------------------- networks and checks

    def _new_model(self, n_features: int) -> Model:
        """A model with random first weights; raises InputError for impossible widths."""
        widths = {name: np.ravel(getattr(self, name)).tolist()
                  for name in ("encdec", "clustering_head", "aux_classifier")}
        for name, listed in widths.items():
            for width in listed or [None]:
                checks.whole(f"a width in {name}", width, 1)
        encdec, head, auxiliary = widths.values()
        embedding = encdec[len(encdec) // 2]
        if head[:-1] not in ([], [embedding]) or len(auxiliary) > 1:
            raise InputError(f"clustering_head must be [{embedding}, hidden], from the embedding's "
                             f"size in encdec, and aux_classifier [hidden], not {head} and "
                             f"{auxiliary}")
        return Model(n_features, self.n_clusters, encdec,
                     gates=self.gates_hidden_dim if self.use_gating else None,
                     head=head[-1], auxiliary=auxiliary[0], projection=self.gtcr_projection_dim)

    def _step_size(self, n_samples: int, n_features: int) -> int:
        """Multiply-adds of a step of the first training, forward and backward."""
        with torch.device("meta"), training.seeded(0):
            model = self._new_model(n_features)

        def forward(X: Tensor) -> None:
            model.autoencoder(torch.cat([X] * 4))           # four reconstructions
            if model.gating is not None:
                model.gating(X)

        return 3 * training.multiply_adds(forward, (min(self.batch_size, n_samples), n_features))

    def _checked(self, X: ArrayLike, *, reset: bool) -> np.ndarray:
        """Samples as float32; raises InputError for text, and for NaN and infinite values."""
        checks.numeric(X)
        names = checks.column_names(X)
        if hasattr(X, "notna"):                         # of pandas; NumPy can't read its NA
            X = X.where(X.notna(), np.nan)
        X = validate_data(self, X, reset=reset, dtype=np.float32, order="C",
                          ensure_all_finite=False, ensure_min_samples=2 if reset else 1)
        checks.finite(X, names)
        if reset:
            self.used_features_ = (_varying_columns(X, names) if self.constant_columns == "drop"
                                   else np.ones(X.shape[1], dtype=bool))
        return X

    def _check_settings(self, n_samples: int) -> None:
        for name, known in _CHOICES.items():
            checks.one_of(name, getattr(self, name), known)
        for name, least in _LEAST.items():
            checks.whole(name, getattr(self, name), least)
        if self.gtcr_projection_dim is not None:
            checks.whole("gtcr_projection_dim", self.gtcr_projection_dim, 1)
        for name in (*_POSITIVE, *_NOT_NEGATIVE):
            checks.number(name, getattr(self, name), zero=name in _NOT_NEGATIVE)
        if self.mask_percentage >= 1:
            raise InputError("mask_percentage is a fraction from 0 to below 1, not "
                             f"{self.mask_percentage!r}")
        if not self.ae_non_gated_epochs <= self.ae_pretrain_epochs <= self.epochs:
            raise InputError(f"ae_non_gated_epochs={self.ae_non_gated_epochs}, ae_pretrain_epochs="
                             f"{self.ae_pretrain_epochs} and epochs={self.epochs} must not "
                             "decrease: each includes the one before")
        if self.n_clusters > n_samples:
            raise InputError(f"n_clusters={self.n_clusters} exceeds n_samples={n_samples}; ask for "
                             "fewer")


def descend(loss: Tensor, optimizer: torch.optim.Optimizer,
            schedule: CosineAnnealingLR | None = None) -> None:
    """One step of an optimizer, and of its learning rate."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if schedule is not None:
        schedule.step()


def internal_scores(embeddings: Tensor, labels: np.ndarray) -> dict[str, float]:
    """Silhouette and Davies–Bouldin index, where there are at least two clusters."""
    rows = np.arange(len(labels))
    if len(rows) > SCORED_SAMPLES:                      # the same rows each time
        rows = np.random.default_rng(0).choice(rows, SCORED_SAMPLES, replace=False)
    values, labels = embeddings.cpu().numpy()[rows], labels[rows]
    if not 2 <= len(np.unique(labels)) < len(labels):
        return {}
    return {"silhouette": silhouette(values, labels),
            "davies_bouldin": davies_bouldin(values, labels)}


def _varying_columns(X: np.ndarray, names: Sequence[str] | None) -> np.ndarray:
    """Mask of the columns that are not constant; a warning names the others."""
    varying = X.max(0) > X.min(0)
    constant = np.flatnonzero(~varying)
    if not varying.any():
        raise InputError("all columns of X are constant; add columns that vary")
    if len(constant):
        listed = ", ".join(str(j if names is None else names[j]) for j in constant[:5])
        more = ", …" if len(constant) > 5 else ""
        warnings.warn(f"{len(constant)} of {len(varying)} columns are constant and left out, so "
                      f"that their gates are 0: {listed}{more}; constant_columns='keep' keeps them",
                      UserWarning, stacklevel=4)
    return varying
