r"""IDC as an estimator: two trainings in two stages each; the second freezes the encoder.

==================  ============================================  ================================
stage               trained networks                              loss
==================  ============================================  ================================
``reconstruction``  autoencoder                                   four reconstruction errors
``gated``           autoencoder, gating network                   these, with gates; sparsity; rate
``clustering``      clustering head                               compression of the embeddings
``global``          the head; auxiliary classifier, global gates  this; cross-entropy, sparsity
==================  ============================================  ================================
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn import functional

from .. import training
from ..base import DeepClusterer, as_tensor
from ..checks import InputError
from ..metrics import davies_bouldin, scores, silhouette
from . import losses
from .interpretability import greedy_accuracy, open_features
from .losses import Best, Model, adam, descend

SCORED_SAMPLES = 2000       # at most, drawn at random, for silhouette and Davies–Bouldin index


@dataclass(eq=False, repr=False)
class IDC(DeepClusterer):
    r"""Interpretable deep clustering: clusters, and the features that each sample needs for them.

    Names and defaults are those of the authors' configuration for MNIST. Scale tables first, to
    mean 0 and standard deviation 1, or to [0, 1].

    Parameters
    ----------
    n_clusters, batch_size : int
        A smaller last batch is left out.
    epochs, ae_pretrain_epochs, ae_non_gated_epochs, start_global_gates_training_on_epoch : int
        Passes over the data in all four stages; how many of these train the autoencoder; how many
        of those come first, without gates; and the epoch after which auxiliary classifier and
        global gates train too.
    mask_percentage, latent_noise_std : float
        Fraction of inputs masked in the third reconstruction, and standard deviation of the noise
        of mean 1 that multiplies embeddings in the fourth; 0 leaves the term out.
    gtcr_loss, gtcr_projection_dim : bool, int or None
        Whether the coding rate of the gates is in the loss, so that samples differ in their gates;
        and the dimension of a random projection of the gates for it, for many features.
    gtcr_eps, eps : float
        Precision :math:`\epsilon` of that coding rate, and of the one that the head compresses.
    use_gating, gates_hidden_dim : bool, int
        Whether there are local gates (else all are 1); hidden width of their network.
    encdec, clustering_head, aux_classifier : sequence of int; int for a single hidden width
        Widths of the autoencoder's layers, the embedding in the middle; hidden width of the
        clustering head, after the size of the embedding or alone; and of the auxiliary classifier.
    tau : float
        Temperature of the Gumbel-softmax; for short trainings take 1.
    local_gates_lambda, global_gates_lambda, gtcr_lambda : float
        Weights of the sparsity of the local gates (the final one: good if few gates are open while
        ``gated`` in the history is still near ``clean``) and of the global gates, and of the coding
        rate of the local gates.
    lr_pretrain, lr_clustering, lr_aux_classifier : float
        First learning rates of Adam for autoencoder with local gates, and for the head; that of
        plain gradient descent for auxiliary classifier and global gates.
    form : {"released", "paper"}
        See `losses.FORMS`. The paper's losses are sums over features where the code's are means,
        so weights differ accordingly.
    batch_norm : {"drifting", "gated", "mixed"}
        Statistics of the frozen encoder while the head trains: each batch's own, as released; those
        of all gated samples, which is faster; or the averages that the first training leaves.
    select : {"loss", "silhouette", "last"}
        The epoch whose networks are kept, never by classes: of the evaluated epochs of the last
        stage the one with the smallest compression or the largest silhouette, of at most 2,000
        samples (the last if none has one); or the last of all.
    constant_columns : {"drop", "keep"}
        Leave constant columns out, with a warning and gates of 0; or keep them, as released.
    evaluate_every : int
        Epochs between two evaluations on all samples, which the history shows.
    random_state, device, threads, checkpoint, progress
        See `base.DeepClusterer`.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
    used_features_ : ndarray of bool, shape (n_features,)
        Which columns were not left out as constant.
    history_ : History
        Per epoch the parts of the loss; of evaluated epochs from the gated stage on also
        ``overall``, the epoch over all stages, and sums of local gates and numbers of open ones; in
        the last two stages also those of global gates, ``occupied``, the number of clusters with
        samples, ``silhouette`` and ``davies_bouldin`` of the embeddings (of at most 2,000 random
        samples, the same in each epoch), and `metrics.scores` with ``acc_greedy`` if ``fit`` was
        given classes.
    global_gates_ : ndarray of shape (n_clusters, n_features)
        The clusters' own gates, from 0 to 1.
    kept_epoch_, compression_ : int, float
        The epoch, over all stages, whose networks, ``model_``, were kept; the head's loss in it.

    Examples
    --------
    >>> from clusterbook import IDC
    >>> from clusterbook.datasets import make_synthetic
    >>> X, y, informative = make_synthetic(200, random_state=0)
    >>> model = IDC(4, encdec=[16, 4, 16], clustering_head=[4, 16], aux_classifier=16,
    ...             gates_hidden_dim=16, epochs=6, ae_pretrain_epochs=4, ae_non_gated_epochs=2,
    ...             start_global_gates_training_on_epoch=5, random_state=0).fit(X)
    >>> model.labels_.shape, model.transform(X).shape, model.local_gates(X).shape
    ((200,), (200, 4), (200, 13))
    """

    _choices = {"form": (*losses.FORMS,), "batch_norm": ("drifting", "gated", "mixed"),
                "select": ("loss", "silhouette", "last"), "constant_columns": ("drop", "keep")}
    _least = {"batch_size": 2, "epochs": 0, "ae_non_gated_epochs": 0, "ae_pretrain_epochs": 0,
              "start_global_gates_training_on_epoch": 0}
    _positive = ("gtcr_eps", "eps", "tau", "lr_pretrain", "lr_clustering", "lr_aux_classifier")

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

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> IDC:
        """Train all stages on *X*, (n_samples, n_features).

        Classes *y*, (n_samples,), only add scores to ``history_``. Raises ValueError for settings,
        data or a checkpoint that do not fit.
        """
        self._check_settings()
        X = self._validated(X, fitting=True)
        used = self._columns_to_use(X)
        epochs = self._stage_epochs()
        if not epochs["global"]:
            missing = "" if epochs["clustering"] else "the clustering head and "
            warnings.warn(f"{missing}the global gates are not trained: with epochs={self.epochs}, "
                          f"no epoch comes after ae_pretrain_epochs={self.ae_pretrain_epochs} and "
                          "start_global_gates_training_on_epoch="
                          f"{self.start_global_gates_training_on_epoch}", UserWarning,
                          stacklevel=2)
        samples = as_tensor(X[:, used], training.resolve_device(self.device))
        with self._fitting(samples, y, samples.shape[1], X) as (_, train):
            model = self._new_model(samples.shape[1]).to(samples.device)
            steps = max(1, len(samples) // self.batch_size)

            # First training: the autoencoder, then together with the local gates
            networks = nn.ModuleList([part for part in (model.autoencoder, model.gating) if part])
            optimizer, schedule = adam(networks.parameters(), self.lr_pretrain,
                                       self.ae_pretrain_epochs * steps)
            state = {"networks": networks, "optimizer": optimizer, "schedule": schedule}

            def reconstruction_step(_epoch: int, batch: Tensor) -> dict[str, Tensor]:
                terms = self._reconstruction(model, batch)
                descend(sum(terms.values()), optimizer, schedule)
                return terms

            def gated_step(epoch: int, batch: Tensor) -> dict[str, Tensor]:
                weight = losses.sparsity_weight(epoch, epochs["gated"], self.local_gates_lambda)
                loss, terms = self._sparse_loss(model, batch, weight)
                descend(loss, optimizer, schedule)
                return terms

            history = train(reconstruction_step, (samples,), state=state, drop_last=True,
                            epochs=epochs["reconstruction"], stage="reconstruction")
            history += train(gated_step, (samples,), state=state, drop_last=True,
                             epochs=epochs["gated"], stage="gated", on_epoch=self._when_due(
                                 history, lambda *_: self._count_open(model.local_gates(samples))))

            # The local gates are frozen from here on, so computed once
            gates = model.eval().local_gates(samples)
            gated, counts = samples * gates, self._count_open(gates)
            if self.batch_norm == "gated":
                model.calibrate(gated)
            # As released, the frozen encoder uses each batch's own statistics, and its running
            # averages drift, so each batch is embedded anew; otherwise all samples only once.
            drifts = self.batch_norm == "drifting"
            inputs = gated if drifts else model.embed(gated)

            # Second training: the clustering head, then together with the global gates
            head_optimizer, head_schedule = adam(model.head.parameters(), self.lr_clustering,
                                                 (self.epochs - self.ae_pretrain_epochs) * steps)
            gates_optimizer = torch.optim.SGD(
                [*model.auxiliary.parameters(), model.global_gates.weight], self.lr_aux_classifier)
            best, last = Best(model), "global" if epochs["global"] else "clustering"
            state = {"head": model.head, "optimizer": head_optimizer, "schedule": head_schedule,
                     "best": best, **({"autoencoder": model.autoencoder} if drifts else {})}

            def head_step(batch: Tensor) -> tuple[Tensor, Tensor]:
                """The loss of the head in this step, and the clusters before it."""
                with torch.no_grad():
                    z = model.autoencoder.encoder(batch) if drifts else batch
                logits = model.head(z)
                loss = self._head_loss(z, logits)
                descend(loss, head_optimizer, head_schedule)
                return loss, logits.argmax(1)

            def clustering_step(_epoch: int, batch: Tensor) -> dict[str, Tensor]:
                return {"compression": head_step(batch)[0]}

            def global_step(_epoch: int, batch: Tensor, batch_gated: Tensor) -> dict[str, Tensor]:
                compression, labels = head_step(batch)
                loss, terms = self._global_loss(model, batch_gated, labels)
                descend(loss, gates_optimizer)
                return {"compression": compression, **terms}

            def evaluate(overall: int, row: dict[str, Any]) -> dict[str, Any]:
                found = counts | self._evaluate(
                    model, model.embed(gated) if drifts else inputs, y)
                if self.select != "last" and row["stage"] == last:
                    best.offer(overall, -row["compression"] if self.select == "loss"
                               else found.get("silhouette", float("-inf")), model)
                return found

            history += train(clustering_step, (inputs,), state=state, drop_last=True,
                             epochs=epochs["clustering"], stage="clustering",
                             on_epoch=self._when_due(history, evaluate))
            state |= {"auxiliary": model.auxiliary, "global_gates": model.global_gates,
                      "auxiliary optimizer": gates_optimizer}
            history += train(global_step, (inputs, gated), state=state, drop_last=True,
                             epochs=epochs["global"], stage="global",
                             on_epoch=self._when_due(history, evaluate))

            if best.epoch:
                model = best.model
            embedding = model.eval().embed(samples * model.local_gates(samples))
            self.labels_ = model.cluster(embedding).cpu().numpy()
        self.history_, kept = history, int(best.epoch) or self.epochs
        row = next((row for row in history.rows if row.get("overall") == kept), {})
        self.used_features_ = used
        self._take(model, kept, row.get("compression", float("nan")))
        return self

    def _columns_to_use(self, X: np.ndarray) -> np.ndarray:
        varying = X.max(0) > X.min(0)
        if not varying.any():
            raise InputError("all columns of X are constant; add columns that vary")
        used = varying | (self.constant_columns == "keep")
        if not used.all():
            warnings.warn(f"{(~varying).sum()} of {len(varying)} columns are constant and left "
                          "out, so that their gates are 0; constant_columns='keep' keeps them",
                          UserWarning, stacklevel=3)
        return used

    def _stage_epochs(self) -> dict[str, int]:
        plain = self.ae_non_gated_epochs if self.use_gating else self.ae_pretrain_epochs
        begins = min(max(self.start_global_gates_training_on_epoch, self.ae_pretrain_epochs),
                     self.epochs)
        return {"reconstruction": plain, "gated": self.ae_pretrain_epochs - plain,
                "clustering": begins - self.ae_pretrain_epochs, "global": self.epochs - begins}

    def _when_due(self, before: training.History, evaluate: Callable) -> Callable:
        """An ``on_epoch`` that evaluates if the epoch, counted from *before* on, is due."""
        def on_epoch(epoch: int, row: dict[str, Any]) -> dict[str, Any]:
            overall = len(before) + epoch
            if overall % self.evaluate_every and overall not in (self.ae_pretrain_epochs,
                                                                 self.epochs):
                return {}
            return {"overall": overall, **evaluate(overall, row)}

        return on_epoch

    def _evaluate(self, model: Model, z: Tensor, y: ArrayLike | None) -> dict[str, Any]:
        """Numbers of global gates and clusters, of all embeddings *z*; scores if there are *y*."""
        labels, gates = model.cluster(z).cpu().numpy(), model.global_gates.matrix()
        found = {"occupied": len(np.unique(labels)), "global_gates": gates.sum(1).mean(),
                 "open_global_gates": (gates > 0).sum(1).float().mean(),
                 **internal_scores(z, labels)}
        if y is not None:
            found |= {**scores(y, labels), "acc_greedy": greedy_accuracy(y, labels)}
        return found

    def _reconstruction(self, model: Model, X: Tensor, gates: Tensor | None = None
                        ) -> dict[str, Tensor]:
        return losses.reconstruction_terms(
            model.autoencoder, X, gates, masked=self.mask_percentage, noise=self.latent_noise_std,
            error=losses.FORMS[self.form].error)

    def _sparse_loss(self, model: Model, X: Tensor, weight: float
                     ) -> tuple[Tensor, dict[str, Tensor]]:
        r""":math:`\mathcal L_\mathrm{sparse}` and its terms; *weight* is :math:`\lambda(t)`."""
        form, mu = losses.FORMS[self.form], model.gating(X)
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

    def _head_loss(self, z: Tensor, logits: Tensor) -> Tensor:
        memberships = losses.gumbel_softmax(logits, self.tau)                           # Eq. 5
        return losses.FORMS[self.form].compression(z.detach(), memberships, self.eps)   # Eq. 6

    def _global_loss(self, model: Model, gated: Tensor, labels: Tensor
                     ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of classifier and global gates, and its terms; the head's *labels* are given."""
        form, mu = losses.FORMS[self.form], model.global_gates(labels)
        logits = model.auxiliary(gated * losses.stochastic_gates(mu, form.noise))
        terms = {"cross_entropy": functional.cross_entropy(logits, labels),
                 "global_regularizer": form.regularizer(mu)}
        loss = terms["cross_entropy"] + self.global_gates_lambda * terms["global_regularizer"]
        return loss, terms

    def _count_open(self, gates: Tensor) -> dict[str, float]:
        """The original's measure of local gates, and the number that are open."""
        values = gates.cpu().numpy()
        return {"local_gates": open_features(values, original=True, batch_size=self.batch_size),
                "open_local_gates": open_features(values)}

    # ----------------------------------------------------------------------- the fitted model

    @property
    def global_gates_(self) -> np.ndarray:
        """Gates of the clusters without noise, (n_clusters, n_features); they begin near 0.5."""
        return self._widened(self.model_.global_gates.matrix())

    def local_gates(self, X: ArrayLike) -> np.ndarray:
        """The gates of each sample without noise, shape (n_samples, n_features), from 0 to 1."""
        samples = self._samples(X)
        return self._widened(self.model_.local_gates(samples))

    @torch.no_grad()
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """The head's probability of each cluster, shape (n_samples, n_clusters)."""
        z = self._embedding(X)
        return self.model_.head(z).softmax(1).cpu().numpy()

    def _embedding(self, X: ArrayLike) -> Tensor:
        samples = self._samples(X)
        return self.model_.embed(samples * self.model_.local_gates(samples))

    def _assign(self, embedding: Tensor) -> Tensor:
        return self.model_.cluster(embedding)

    def _samples(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        return as_tensor(self._validated(X)[:, self.used_features_],
                         self.model_.global_gates.weight.device)

    def _widened(self, values: Tensor) -> np.ndarray:
        wide = np.zeros((len(values), self.n_features_in_), dtype=np.float32)
        wide[:, self.used_features_] = values.cpu().numpy()
        return wide

    def _new_model(self, n_features: int) -> Model:
        encdec, head, auxiliary = listed = [np.ravel(widths).tolist() for widths in (
            self.encdec, self.clustering_head, self.aux_classifier)]
        embedding = encdec[len(encdec) // 2:][:1]
        if (not all(isinstance(width, int) and width > 0 for widths in listed for width in widths)
                or not (encdec and head) or head[:-1] not in ([], embedding)
                or len(auxiliary) != 1):
            raise InputError("encdec, clustering_head and aux_classifier must be positive whole "
                             "numbers, the head's [embedding, hidden] with the middle one of "
                             f"encdec, and the classifier's [hidden], not {listed}")
        return Model(n_features, self.n_clusters, encdec,
                     gates=self.gates_hidden_dim if self.use_gating else None,
                     head=head[-1], auxiliary=auxiliary[0], projection=self.gtcr_projection_dim)

    def _take(self, model: Model, kept_epoch: int, compression: float) -> None:
        self.model_, self.kept_epoch_, self.compression_ = model, kept_epoch, compression
        self._n_features_out = model.autoencoder.embedding_size
        self._fit_settings = self._settings()

    def _fitted(self) -> dict[str, Any]:
        return {"used": self.used_features_.tolist(), "kept_epoch": self.kept_epoch_,
                "compression": self.compression_, "weights": self.model_.state_dict()}

    def _restore(self, stored: Mapping[str, Any]) -> Model:
        self.used_features_, self.n_features_in_ = np.array(stored["used"]), len(stored["used"])
        self._take(self._new_model(sum(stored["used"])), stored["kept_epoch"],
                   stored["compression"])
        return self.model_

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.mask_percentage >= 1:
            raise InputError("mask_percentage is a fraction from 0 to below 1")
        if not self.ae_non_gated_epochs <= self.ae_pretrain_epochs <= self.epochs:
            raise InputError(
                f"ae_non_gated_epochs={self.ae_non_gated_epochs}, ae_pretrain_epochs="
                f"{self.ae_pretrain_epochs} and epochs={self.epochs} must not decrease, because "
                f"each includes the one before; for so many epochs give for example "
                f"ae_non_gated_epochs={self.epochs // 10}, ae_pretrain_epochs={self.epochs // 2}, "
                f"start_global_gates_training_on_epoch={3 * self.epochs // 4}")


def internal_scores(embeddings: Tensor, labels: np.ndarray) -> dict[str, float]:
    """Silhouette and Davies–Bouldin index, where there are at least two clusters."""
    values = embeddings.cpu().numpy()
    if len(labels) > SCORED_SAMPLES:                    # the same rows each time
        rows = np.random.default_rng(0).choice(len(labels), SCORED_SAMPLES, replace=False)
        values, labels = values[rows], labels[rows]
    if not 2 <= len(np.unique(labels)) < len(labels):
        return {}
    return {"silhouette": silhouette(values, labels),
            "davies_bouldin": davies_bouldin(values, labels)}
