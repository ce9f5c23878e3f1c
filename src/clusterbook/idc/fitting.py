r"""One training of IDC: two networks one after the other, in four stages.

=================  ===========================================  ==================================
stage              what moves                                   what is minimized
=================  ===========================================  ==================================
``reconstruction``  autoencoder                                  four reconstruction errors
``gated``           autoencoder, gating network                  these, with gates; sparsity; rate
``clustering``      clustering head                              compression of the embeddings
``global``          the head; auxiliary classifier, global gates  these; cross-entropy, sparsity
=================  ===========================================  ==================================

One optimizer and one learning rate, falling along a cosine, serve the first two stages; another
the head in the last two. From the third stage on the weights of autoencoder and gating network are
frozen: each sample's gates are computed once, and so is its embedding, unless the encoder
normalizes each batch by itself (``batch_norm="drifting"``).

Everything here reads its settings from an `IDC` and changes nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR

from .. import training
from ..checkpoints import Checkpoint
from ..metrics import davies_bouldin, scores, silhouette
from . import losses
from .gates import stochastic_gates
from .interpretability import greedy_accuracy, open_features
from .model import Model
from .networks import gumbel_softmax

if TYPE_CHECKING:
    from .estimator import IDC

#: Silhouette and Davies–Bouldin index are computed on a random sample of this size.
JUDGED_SAMPLES = 2000


class Best:
    """The weights of the epoch that a measure without labels prefers; a checkpoint keeps them."""

    def __init__(self, parts: Mapping[str, nn.Module]):
        self._parts = parts
        self.epoch, self.value = 0, float("-inf")
        self._weights: dict[str, dict[str, Tensor]] = {}

    def offer(self, epoch: int, value: float | None) -> None:
        """Keep the weights as they are now if *value* is the largest so far."""
        if value is not None and value > self.value:
            self.epoch, self.value = epoch, value
            self._weights = {name: {key: tensor.detach().cpu().clone()
                                    for key, tensor in part.state_dict().items()}
                             for name, part in self._parts.items()}

    def restore(self) -> None:
        """Give the networks back the weights that were kept, if any were."""
        for name, weights in self._weights.items():
            self._parts[name].load_state_dict(weights)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"epoch": self.epoch, "value": self.value, "weights": self._weights}

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Put back what a checkpoint kept."""
        self.epoch, self.value = stored["epoch"], stored["value"]
        self._weights = stored["weights"]


@dataclass
class Run:
    """One training from its first weights to its end."""

    seed: int
    model: Model
    history: training.History
    labels: np.ndarray
    epoch: int                          # of all stages together
    compression: float
    silhouette: float | None


def step_size(settings: IDC, n_samples: int, n_features: int) -> int:
    """Multiply-adds of a step of the first two stages, forward and backward."""
    with torch.device("meta"), training.seeded(0):
        model = Model(settings, n_features)

    def forward(X: Tensor) -> None:
        model.autoencoder(torch.cat([X] * 4))               # four reconstructions
        if model.gating is not None:
            model.gating(X)

    batch = min(settings.batch_size, n_samples)
    return 3 * training.multiply_adds(forward, (batch, n_features))


def train(settings: IDC, X: Tensor, y: ArrayLike | None, seed: int, kept: Checkpoint | None,
          prefix: str = "") -> Run:
    """Train from the first weights that *seed* gives; *prefix* names its stages in *kept*."""
    with training.seeded(seed, X.device) as generator:
        model = Model(settings, X.shape[1]).to(X.device)

        def stage(name: str, epochs: int, step: Callable, tensors: tuple[Tensor, ...],
                  state: dict[str, Any], on_epoch: Callable) -> training.History:
            return training.train(
                step, tensors, epochs=epochs, batch_size=min(settings.batch_size, len(X)),
                generator=generator, drop_last=True, state=state, on_epoch=on_epoch,
                checkpoint=kept, stage=prefix + name, progress=settings.progress,
                description=prefix + name)

        history = _first_training(settings, model, X, stage)
        run = _second_training(settings, model, X, y, stage)
    return Run(seed, model, history + run.pop("history"), **run)


def lengths(settings: IDC) -> dict[str, int]:
    """The number of epochs of each stage; they add up to ``settings.epochs``."""
    plain = settings.ae_non_gated_epochs if settings.use_gating else settings.ae_pretrain_epochs
    begins = min(max(settings.start_global_gates_training_on_epoch, settings.ae_pretrain_epochs),
                 settings.epochs)
    return {"reconstruction": plain, "gated": settings.ae_pretrain_epochs - plain,
            "clustering": begins - settings.ae_pretrain_epochs, "global": settings.epochs - begins}


# ------------------------------------------------------------------- autoencoder and local gates


def _first_training(settings: IDC, model: Model, X: Tensor, stage: Callable) -> training.History:
    length = lengths(settings)
    moved = nn.ModuleDict({"autoencoder": model.autoencoder})
    if model.gating is not None:
        moved["gating"] = model.gating
    steps = adam(moved.parameters(), settings.lr_pretrain)
    schedule = _falling(settings, steps, len(X), settings.ae_pretrain_epochs,
                        settings.sched_pretrain_min_lr)
    state = {"networks": moved, "optimizer": steps, "schedule": schedule}

    def step(epoch: int | None, batch: Tensor) -> dict[str, Tensor]:
        weight = (None if epoch is None else
                  losses.sparsity_weight(epoch, length["gated"], settings.local_gates_lambda))
        loss, parts = sparse_loss(settings, model, batch, weight)
        steps.zero_grad()
        loss.backward()
        steps.step()
        schedule.step()
        return parts

    def observe(epoch: int, _row: dict[str, Any]) -> dict[str, float]:
        overall = length["reconstruction"] + epoch
        return ({"overall": overall, **_counted(settings, model.local_gates(X))}
                if _due(settings, overall) else {})

    return (stage("reconstruction", length["reconstruction"],
                  lambda _epoch, batch: step(None, batch), (X,), state, lambda _epoch, _row: {})
            + stage("gated", length["gated"], step, (X,), state, observe))


def sparse_loss(settings: IDC, model: Model, X: Tensor, weight: float | None
                ) -> tuple[Tensor, dict[str, Tensor]]:
    r"""The loss of the first two stages, and its parts.

    *weight* is :math:`\lambda(t)`; None stands for training without gates.
    """
    gates, penalties, loss = None, {}, 0.0
    # Torch's generator is drawn from in one order, whatever is switched off.
    with torch.autocast(X.device.type, torch.bfloat16, enabled=settings.precision == "bfloat16"):
        if weight is not None:
            mu = model.gating(X).to(X.dtype)
            gates = stochastic_gates(mu, settings.gate_noise)
            penalties["regularizer"] = losses.REGULARIZERS[settings.regularizer](mu)
        mask = losses.random_mask(X, settings.mask_percentage) if settings.mask_percentage else None
        latent = (1 + settings.latent_noise_std * torch.randn(
            len(X), model.autoencoder.embedding_size, dtype=X.dtype, device=X.device)
            if settings.latent_noise_std else None)
        parts = losses.reconstruction_terms(model.autoencoder, X, gates=gates, mask=mask,
                                            latent=latent,
                                            error=losses.ERRORS[settings.reconstruction])
    loss = sum(parts.values())
    if gates is not None:
        loss = loss + weight * penalties["regularizer"]
        if settings.gtcr_loss:
            penalties["coding_rate"] = losses.gate_coding_loss(gates, settings.gtcr_eps,
                                                               model.projection)
            loss = loss + settings.gtcr_lambda * penalties["coding_rate"]
    return loss, {name: part.detach() for name, part in {**parts, **penalties}.items()}


# -------------------------------------------------------------------- clusters and global gates


def _second_training(settings: IDC, model: Model, X: Tensor, y: ArrayLike | None, stage: Callable
                     ) -> dict[str, Any]:
    work = _Clustering(settings, model, X, y)
    length, history, best = lengths(settings), training.History(), None
    last = "global" if length["global"] else "clustering"
    for name in ("clustering", "global"):
        parts = work.moved(name)
        state = {**parts, **work.optimizers(name)}
        if name == last and settings.select != "last":
            state["best"] = best = Best(parts)
        history = history + stage(name, length[name], work.step, work.tensors(name), state,
                                  work.observer(settings.epochs - length["global"]
                                                if name == "global"
                                                else settings.ae_pretrain_epochs, best))
    judged = [row for row in history.rows if "occupied" in row]
    if best is not None and best.epoch:
        best.restore()
        judged = [row for row in judged if row["overall"] == best.epoch]
    final = judged[-1] if judged else {}
    model.eval()
    return {"history": history, "labels": model.cluster(work.embeddings()).cpu().numpy(),
            "epoch": final.get("overall", settings.epochs),
            "compression": final.get("compression", float("nan")),
            "silhouette": final.get("silhouette")}


class _Clustering:
    """The last two stages: what they are fed, their steps, and what is seen of them.

    Gates are frozen, and so are the encoder's weights: all samples are gated once. With
    ``batch_norm="drifting"`` the encoder's normalization goes on averaging, as in the released
    code, so that each batch has to be embedded anew; otherwise all are embedded once.
    """

    def __init__(self, settings: IDC, model: Model, X: Tensor, y: ArrayLike | None):
        self._settings, self._model, self._y = settings, model.eval(), y
        gates = model.local_gates(X)
        self._counted = _counted(settings, gates)
        self._gated = X * gates
        if settings.batch_norm == "gated":
            model.calibrate(self._gated)
        self._drifts = settings.batch_norm == "drifting"
        self._inputs = self._gated if self._drifts else model.embed(self._gated)
        self._head_steps = adam(model.head.parameters(), settings.lr_clustering)
        self._schedule = _falling(settings, self._head_steps, len(X),
                                  settings.epochs - settings.ae_pretrain_epochs,
                                  settings.sched_clustering_min_lr)
        self._auxiliary_steps = torch.optim.SGD(
            [*model.auxiliary.parameters(), *model.global_gates.parameters()],
            lr=settings.lr_aux_classifier)

    def tensors(self, stage: str) -> tuple[Tensor, ...]:
        """What the head sees of each sample and, with global gates, the gated sample itself."""
        return (self._inputs,) if stage == "clustering" else (self._inputs, self._gated)

    def moved(self, stage: str) -> dict[str, nn.Module]:
        """The networks that the stage changes."""
        model = self._model
        parts: dict[str, nn.Module] = {"head": model.head}
        if self._drifts:
            parts["autoencoder"] = model.autoencoder
        if stage == "global":
            parts |= {"auxiliary": model.auxiliary, "global_gates": model.global_gates}
        return parts

    def optimizers(self, stage: str) -> dict[str, Any]:
        """What moves them."""
        found = {"optimizer": self._head_steps, "schedule": self._schedule}
        return found if stage == "clustering" else {
            **found, "auxiliary optimizer": self._auxiliary_steps}

    def embeddings(self) -> Tensor:
        """The embeddings of all samples."""
        return self._model.embed(self._gated) if self._drifts else self._inputs

    def step(self, _epoch: int, inputs: Tensor, gated: Tensor | None = None) -> dict[str, Tensor]:
        """One step of the head and, given gated samples, one of the global gates."""
        if self._drifts:
            with torch.no_grad():
                inputs = self._model.autoencoder.encoder(inputs)
        logits = self._model.head(inputs)
        compression = compression_loss(self._settings, inputs, logits)
        self._head_steps.zero_grad()
        compression.backward()
        self._head_steps.step()
        self._schedule.step()
        found = {"compression": compression.detach()}
        if gated is not None:
            loss, parts = global_loss(self._settings, self._model, gated, logits.argmax(1))
            self._auxiliary_steps.zero_grad()
            loss.backward()
            self._auxiliary_steps.step()
            found |= parts
        return found

    def observer(self, offset: int, best: Best | None) -> Callable:
        """What the history adds after an epoch; weights to keep are kept on the side."""
        def observe(epoch: int, row: dict[str, Any]) -> dict[str, Any]:
            overall = offset + epoch
            if not _due(self._settings, overall):
                return {}
            embeddings = self.embeddings()
            labels = self._model.cluster(embeddings).cpu().numpy()
            found = {"overall": overall, "occupied": len(np.unique(labels)), **self._counted,
                     **_counted_globally(self._model), **_judged(embeddings, labels)}
            if best is not None:
                best.offer(overall, -row["compression"] if self._settings.select == "loss"
                           else found.get("silhouette"))
            if self._y is not None:
                found |= scores(self._y, labels)
                found["acc_greedy"] = greedy_accuracy(self._y, labels)
            return found

        return observe


def compression_loss(settings: IDC, embeddings: Tensor, logits: Tensor) -> Tensor:
    """The loss of the clustering head (Eq. 6 of the paper); embeddings are constants."""
    memberships = gumbel_softmax(logits, settings.tau)
    return losses.COMPRESSIONS[settings.compression](embeddings.detach(), memberships, settings.eps)


def global_loss(settings: IDC, model: Model, gated: Tensor, labels: Tensor
                ) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of auxiliary classifier and global gates, and its parts.

    The classifier sees gated samples through the gates of their clusters, and is to say the
    cluster; *labels* are the head's, and constants.
    """
    mu = model.global_gates(labels)
    seen = gated * stochastic_gates(mu, settings.gate_noise)
    parts = {"cross_entropy": functional.cross_entropy(model.auxiliary(seen), labels),
             "global_regularizer": losses.REGULARIZERS[settings.regularizer](mu)}
    loss = parts["cross_entropy"] + settings.global_gates_lambda * parts["global_regularizer"]
    return loss, {name: part.detach() for name, part in parts.items()}


# ------------------------------------------------------------------------------- what all share


def adam(parameters: Iterable[Tensor], learning_rate: float) -> torch.optim.Adam:
    """Adam, all parameters in one pass where the device has such a kernel."""
    parameters = list(parameters)
    return torch.optim.Adam(parameters, lr=learning_rate,
                            fused=parameters[0].device.type in ("cpu", "cuda"))


def _falling(settings: IDC, steps: torch.optim.Optimizer, n_samples: int, epochs: int,
             least: float) -> CosineAnnealingLR:
    """The learning rate falls with each batch, along half a cosine that ends with the epochs."""
    batches = n_samples // min(settings.batch_size, n_samples)
    return CosineAnnealingLR(steps, T_max=max(1, batches * epochs), eta_min=least)


def _due(settings: IDC, overall: int) -> bool:
    return (overall % settings.evaluate_every == 0
            or overall in (settings.ae_pretrain_epochs, settings.epochs))


def _counted(settings: IDC, gates: Tensor) -> dict[str, float]:
    """The original's measure of local gates, and the number that are open."""
    values = gates.cpu().numpy()
    return {"local_gates": open_features(values, original=True, batch_size=settings.batch_size),
            "open_local_gates": open_features(values)}


def _counted_globally(model: Model) -> dict[str, float]:
    gates = model.global_gates.matrix()
    return {"global_gates": float(gates.sum(1).mean()),
            "open_global_gates": float((gates > 0).sum(1).float().mean())}


def _judged(embeddings: Tensor, labels: np.ndarray) -> dict[str, float]:
    """Silhouette and Davies–Bouldin index, where there are clusters to judge."""
    rows = np.arange(len(labels))
    if len(rows) > JUDGED_SAMPLES:                      # the same rows each time
        rows = np.random.default_rng(0).choice(rows, JUDGED_SAMPLES, replace=False)
    values, labels = embeddings.cpu().numpy()[rows], labels[rows]
    if not 2 <= len(np.unique(labels)) < len(labels):
        return {}
    return {"silhouette": silhouette(values, labels),
            "davies_bouldin": davies_bouldin(values, labels)}

