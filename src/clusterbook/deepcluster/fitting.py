r"""One training of DeepCluster: cluster, learn the clusters, and again.

An epoch is

1. the features of all images, not augmented, before the last ReLU, in evaluation mode;
2. PCA, whitening, length 1 (`reduction`);
3. k-means (`kmeans`): pseudo-labels :math:`y_n` (Eq. 2 of the paper);
4. a classifier :math:`g_W` on top begins anew, because the clusters' numbers mean nothing: weights
   of deviation 0.01, biases 0, moved by plain gradient descent, the network's by momentum;
5. augmented images, as many of each cluster (`sampling`), and a step for each batch along (Eq. 1)

   .. math:: \min_{\theta, W} \frac1N \sum_n \ell\left(g_W(f_\theta(x_n)), y_n\right)

with :math:`\ell` the cross-entropy. After the last epoch the images are clustered once more: these
are the clusters of the network as it is at the end. All random numbers come from one generator,
which a checkpoint keeps, but for dropout's, which are torch's own, kept too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, eye_array, hstack
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from sklearn.metrics import normalized_mutual_info_score
from torch import Tensor, nn
from torch.nn import functional

from .. import training
from ..checkpoints import Checkpoint
from .images import ArrayImages, StreamedImages
from .kmeans import Clusters, kmeans
from .networks import build
from .reduction import Reduction, check_components, fit_reduction, reduce
from .sampling import epoch_indices

if TYPE_CHECKING:
    from .estimator import DeepCluster

Images = ArrayImages | StreamedImages


class Assignments:
    """The pseudo-labels of each epoch so far; a checkpoint keeps them.

    Without *keep* only the last ones, to compare the next with.
    """

    def __init__(self, keep: bool) -> None:
        self._keep = keep
        self.of_epochs: list[Tensor] = []

    def add(self, labels: Tensor) -> None:
        """Take the labels of the next epoch."""
        self.of_epochs = [*(self.of_epochs if self._keep else []), labels.cpu().int()]

    @property
    def last(self) -> np.ndarray | None:
        """The labels that were added last."""
        return self.of_epochs[-1].numpy() if self.of_epochs else None

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"labels": list(self.of_epochs)}

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Put back what a checkpoint kept."""
        self.of_epochs = list(stored["labels"])


@dataclass
class Run:
    """One training from its first weights to its end."""

    network: nn.Module
    reduction: Reduction
    clusters: Clusters
    history: training.History
    assignments: np.ndarray                 # (epochs + 1, n_samples), the last are the labels


def train(settings: DeepCluster, images: Images, image_shape: tuple[int, ...],
          y: ArrayLike | None, seed: int, kept: Checkpoint | None) -> Run:
    """Train from the first weights that *seed* gives; *y* is for the history only."""
    device = images.device
    with training.seeded(seed, device) as generator:
        network = build(settings.network, image_shape, settings.sobel).to(device)
        check_components(settings.n_components, len(images), network.n_features)
        head = nn.Linear(network.n_features, settings.n_clusters).to(device)
        renew(head)
        options = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
        steps = torch.optim.SGD(network.parameters(), momentum=settings.momentum, **options)
        head_steps = torch.optim.SGD(head.parameters(), **options)      # without momentum
        assignments = Assignments(settings.keep_assignments)
        now = _Epoch(device)

        def begin(epoch: int) -> None:
            clusters, _, now.seconds = cluster(settings, network, images, generator)
            now.previous, now.inertia = assignments.last, clusters.inertia / len(images)
            assignments.add(clusters.labels)
            if settings.renew_classifier and epoch > 1:
                renew(head)
            labels = clusters.labels.cpu()
            order = epoch_indices(labels, len(labels), generator, settings.sampling)
            now.targets = clusters.labels[order.to(device)]
            now.batches = images.for_training(order, batch_size, generator)
            network.train()
            now.restart()

        def step(_epoch: int, rows: Tensor) -> dict[str, Tensor]:
            loss = functional.cross_entropy(head(functional.relu(network.features(
                next(now.batches)))), now.targets[rows])
            steps.zero_grad()
            head_steps.zero_grad()
            loss.backward()
            steps.step()
            head_steps.step()
            return {"loss": loss}

        def observe(_epoch: int, _row: dict[str, Any]) -> dict[str, Any]:
            seconds = {**now.seconds, "training_seconds": now.elapsed()}
            return {"inertia": now.inertia, **described(
                assignments.last, now.previous, settings.n_clusters, y), **seconds}

        batch_size = min(settings.batch_size, len(images))
        history = training.train(
            step, (torch.arange(len(images), device=device),), epochs=settings.epochs,
            batch_size=batch_size, generator=generator, shuffle=False,    # `begin` shuffles
            # A batch of one image has nothing to be normalized by.
            drop_last=len(images) % batch_size == 1,
            state={"network": network, "optimizer": steps, "head": head,
                   "head_optimizer": head_steps, "assignments": assignments},
            on_epoch_start=begin, on_epoch=observe, checkpoint=kept, progress=settings.progress,
            description="DeepCluster")
        clusters, reduction, _ = cluster(settings, network, images, generator)
    network.eval()
    every = [*assignments.of_epochs, clusters.labels.cpu().int()]
    return Run(network, reduction, clusters, history, torch.stack(every).numpy())


class _Epoch:
    """What an epoch's beginning hands to its steps and to its end."""

    previous: np.ndarray | None
    inertia: float
    targets: Tensor
    batches: Iterator[Tensor]
    seconds: dict[str, float]

    def __init__(self, device: torch.device) -> None:
        self._clock = clock(device)
        self._begun = 0.0

    def restart(self) -> None:
        self._begun = self._clock()

    def elapsed(self) -> float:
        return self._clock() - self._begun


def renew(head: nn.Linear) -> None:
    """Begin a classifier anew, as in the released code: weights of deviation 0.01, biases 0."""
    nn.init.normal_(head.weight, 0, 0.01)
    nn.init.zeros_(head.bias)


def clock(device: torch.device) -> Callable[[], float]:
    """Seconds, read when the device has done what it was given."""
    def read() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    return read


# ------------------------------------------------------------------------------- steps 1 to 3


def cluster(settings: DeepCluster, network: nn.Module, images: Images, generator: torch.Generator
            ) -> tuple[Clusters, Reduction, dict[str, float]]:
    """Cluster all images by what the network makes of them; the seconds that it took.

    The features of up to ``pca_samples`` images are held. Of more, the PCA is fitted to those of a
    random part, and all pass by in a second round, in which only what is reduced is held.
    """
    now = clock(images.device)
    begun, sample = now(), None
    n, most = len(images), settings.pca_samples
    if most is not None and n > most:
        sample = torch.randperm(n, generator=generator)[:most].sort().values
    held = features_of(network, images.for_clustering(settings.batch_size, sample))
    options = {"whiten": settings.whiten, "normalize": settings.normalize}
    if sample is None:
        features = torch.cat(list(held))
        computed = now()
        fitted = fit_reduction(features, settings.n_components, **options)
        reduced = reduce(features, fitted)
    else:
        fitted = fit_reduction(held, settings.n_components, **options)
        reduced = torch.cat([reduce(batch, fitted) for batch in features_of(
            network, images.for_clustering(settings.batch_size))])
        computed = now()
    found = kmeans(reduced, settings.n_clusters, n_init=settings.kmeans_n_init,
                   max_iter=settings.kmeans_max_iter, reassign_empty=settings.reassign_empty,
                   backend=settings.kmeans_backend,
                   seed=int(torch.randint(2**31, (), generator=generator)))
    return found, fitted, {"feature_seconds": computed - begun,
                           "clustering_seconds": now() - computed}


@torch.no_grad()
def features_of(network: nn.Module, batches: Iterator[Tensor]) -> Iterator[Tensor]:
    """The representation before the last ReLU, batch by batch, in evaluation mode."""
    network.eval()
    for batch in batches:
        yield network.features(batch).float()


# ------------------------------------------------------------------------- what an epoch was like


def described(labels: np.ndarray, previous: np.ndarray | None, n_clusters: int,
              y: ArrayLike | None = None) -> dict[str, Any]:
    """The history's numbers of a clustering: sizes, and what it shares with others.

    Returns
    -------
    dict
        ``active`` (clusters that have images), ``smallest`` and ``largest`` (sizes of these),
        ``sizes`` (of all clusters); ``nmi_previous`` and ``churn`` if there are *previous* labels;
        ``nmi_labels`` if there are classes *y*.
    """
    sizes = np.bincount(labels, minlength=n_clusters)
    row: dict[str, Any] = {"active": int((sizes > 0).sum()),
                           "smallest": int(sizes[sizes > 0].min()), "largest": int(sizes.max()),
                           "sizes": sizes.tolist()}
    if previous is not None:
        row |= {"nmi_previous": geometric_nmi(previous, labels), "churn": churn(previous, labels)}
    if y is not None:
        row["nmi_labels"] = geometric_nmi(y, labels)
    return row


def geometric_nmi(first: ArrayLike, second: ArrayLike) -> float:
    r"""Normalized mutual information as in the paper: :math:`I(A;B) / \sqrt{H(A) H(B)}`.

    `clusterbook.metrics.nmi` has the arithmetic mean of the entropies below the line, as
    scikit-learn has it by default since 0.22; the released script now prints that one.
    """
    return float(normalized_mutual_info_score(first, second, average_method="geometric"))


def churn(previous: ArrayLike, labels: ArrayLike) -> float:
    """The share of images whose cluster is another one, after the best matching of the clusters.

    Examples
    --------
    >>> churn([0, 0, 1, 1], [5, 5, 3, 5])
    0.25
    """
    _, rows = np.unique(previous, return_inverse=True)
    _, columns = np.unique(labels, return_inverse=True)
    n = rows.max() + 1
    counts = coo_array((np.ones(len(rows)), (rows, columns))).tocsr()   # adds up what is equal
    counts.data += 1
    # Every row can also match a column of its own, which counts as no image: none has to match.
    either = hstack([counts, eye_array(n)]).tocsr()
    matched = either[min_weight_full_bipartite_matching(either, maximize=True)]
    return 1 - float(matched.sum() - n) / len(rows)
