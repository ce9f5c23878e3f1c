r"""DeepCluster as an estimator, and one training of it (sections 3.2 to 3.4 of the paper).

An epoch is

1. the features of all images, not augmented, before the last ReLU, in evaluation mode;
2. PCA, whitening, length 1 (`fit_reduction`, `reduce`);
3. k-means: pseudo-labels :math:`y_n` (Eq. 2, `kmeans`);
4. a new classifier :math:`g_W`, because the clusters' numbers mean nothing;
5. steps of gradient descent on :math:`\frac1N \sum_n \ell(g_W(f_\theta(x_n)), y_n)` (Eq. 1), with
   cross-entropy :math:`\ell`, on augmented images, equally many of each cluster (`epoch_indices`).

After the last epoch the final network's features are clustered once more. Of several processes
(`distributed`) each has consecutive images to cluster, and a part of each batch of training.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn import functional

from .. import checks, training
from ..base import DeepClusterer, as_tensor
from ..checks import InputError
from ..metrics import accuracy, nmi
from . import clustering, distributed, networks
from .clustering import Clusters, Reduction, epoch_indices
from .networks import IMAGENET, ArrayImages, FolderImages

Images = ArrayLike | str | os.PathLike

#: Images that the PCA is fitted to; of more a random part, so that not all features are held.
PCA_SAMPLES = 100_000


@dataclass(repr=False, eq=False)
class DeepCluster(DeepClusterer):
    """Visual features learned by alternating k-means and training on its labels.

    Images are an array, (n_samples, n_features), of rows of ``image_shape`` with pixels in [0, 1];
    or the path of a folder, which is read batch by batch, resized and cropped to ``image_shape``.
    Memory holds the features of at most 100,000 images, the reduced ones of all, and all labels.

    Parameters
    ----------
    n_clusters : int
        :math:`k`: 10,000 in the paper for the 1,000 classes of ImageNet.
    network : {"convnet", "alexnet", "vgg16"} or callable
        See `networks`; or a function from the image shape to a module with ``features(images)``,
        before its last ReLU, and their number ``n_features``; for probes of layers, ``n_layers``
        and ``layers(images)``, a list of their outputs.
    image_shape, sobel : tuple of int, bool
        (channels, height, width), with None for a network of your own that takes vectors; whether
        the named networks see edges, as in the paper, or the pixels.
    n_components, whiten, normalize : int or None, bool, bool
        Dimensions that PCA keeps (None: all); scale each to variance 1, and each image to length 1.
    reassign_empty, renew_classifier : bool
        Fill empty clusters with part of another one; start each epoch with a new classifier.
    sampling : {"uniform", "natural"}
        Draw equally many images of each cluster in an epoch, or each image once.
    epochs, batch_size : int
        500 epochs in the paper.
    learning_rate, momentum, weight_decay : float
        Of gradient descent; the classifier's has no momentum.
    crop_scale, flip : (float, float) or None, bool
        Smallest and largest part of an image's area in training (None: the whole); mirror half of
        the images in training, which is not for digits.
    resize, num_workers : int or None, int
        Pixels of the short side of images from files before the middle is cropped, 256 for 224 in
        the paper (None: as few as the crop needs); processes that read them.
    pixel_statistics : {"data", "imagenet"}
        Whose mean and deviation of each channel normalize the pixels; ImageNet's in the paper.
    random_state, device, threads, checkpoint, progress
        See `base.DeepClusterer`.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        By the final network.
    cluster_centers_, inertia_ : ndarray of shape (n_clusters, n_components), float
        In the space of `transform`; the sum of squared distances to them.
    history_ : History
        Per epoch ``loss`` (mean cross-entropy in nats); of the clusters that it learned
        ``inertia`` (mean squared distance), ``active`` (number of nonempty ones), ``smallest``,
        ``largest``, ``sizes``, and `geometric_nmi` and `churn` to the epoch before,
        ``nmi_previous`` and ``churn``; ``nmi_labels`` if ``fit`` was given classes;
        ``feature_seconds``, ``clustering_seconds`` (with PCA), ``training_seconds``.
    assignments_ : ndarray of int32, shape (epochs + 1, n_samples)
        The labels that each epoch learned, then ``labels_``.
    network_, reduction_ : Module, Reduction
    pixel_mean_, pixel_std_ : Tensor of shape (channels,), or (n_features,) for vectors

    Examples
    --------
    >>> from clusterbook import DeepCluster, datasets
    >>> data = datasets.load("digits")
    >>> model = DeepCluster(20, image_shape=data.image_shape, n_components=32, epochs=1, flip=False,
    ...                     random_state=0).fit(data.X)
    >>> model.labels_.shape, model.transform(data.X).shape, model.assignments_.shape
    ((1797,), (1797, 32), (2, 1797))
    """

    _choices = {"sampling": clustering.SAMPLINGS, "pixel_statistics": ("data", "imagenet")}
    _least = {"batch_size": 2, "epochs": 0, "num_workers": 0}
    _positive = ("learning_rate",)

    n_clusters: int = 100
    _: KW_ONLY
    network: str | Callable[..., nn.Module] = "convnet"
    image_shape: tuple[int, int, int] | None = None
    sobel: bool = True
    n_components: int | None = 256
    whiten: bool = True
    normalize: bool = True
    reassign_empty: bool = True
    sampling: str = "uniform"
    renew_classifier: bool = True
    epochs: int = 200
    batch_size: int = 256
    learning_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 1e-5
    crop_scale: tuple[float, float] | None = (0.08, 1.0)
    flip: bool = True
    resize: int | None = None
    pixel_statistics: str = "data"
    num_workers: int = 0

    def fit(self, X: Images, y: ArrayLike | None = None) -> DeepCluster:
        """Train, and cluster the images; classes *y*, (n_samples,), only add to ``history_``.

        Raises ValueError for a setting, images or a checkpoint that can't be used.
        """
        self._check_settings()
        checks.rows(X, takes_shape=True)
        # A network of the caller's may have statistics of its own of a batch.
        with distributed.together(self, X, alone=not isinstance(self.network, str)):
            return self._fit(X, y)

    def _fit(self, X: Images, y: ArrayLike | None) -> DeepCluster:
        rank, size = distributed.here.rank, distributed.here.size
        if size > 1 and (self.random_state is None or self.batch_size < size):
            raise InputError(f"{size} processes need random_state, such as 0, and at least "
                             f"batch_size={size}")
        imagenet = self.pixel_statistics == "imagenet"
        images = self._images(X, self._shape(), IMAGENET if imagenet else None,
                              training.resolve_device(self.device), fitting=True)
        n, device = len(images), images.device
        with self._fitting(images, y, images.shape, *images.content) as (generator, train):
            network = networks.build(self.network, images.shape, self.sobel).to(device)
            head = nn.Linear(network.n_features, self.n_clusters).to(device)
            networks.initialize(head)
            optimizer = torch.optim.SGD(
                [{"params": network.parameters(), "momentum": self.momentum},
                 {"params": head.parameters()}],                    # without momentum
                lr=self.learning_rate, weight_decay=self.weight_decay)
            assignments = nn.Module()           # its one buffer is kept in checkpoints
            assignments.register_buffer("labels", torch.zeros(1 if rank else self.epochs + 1, n,
                                                              dtype=torch.int))
            state = {"network": network, "head": head, "optimizer": optimizer,
                     **({} if rank else {"assignments": assignments})}
            row, started = {}, 0.0          # of the current epoch

            def batches(epoch: int, size: int) -> Iterator[tuple[Tensor, Tensor]]:
                """Cluster, then yield the epoch's pseudo-labels with their images."""
                nonlocal row, started
                clusters, _, spent = self._cluster(network, images, generator)  # steps 1 to 3
                labels = clusters.labels.cpu()
                if not rank:                    # the first process alone keeps what is reported
                    assignments.labels[epoch - 1] = labels
                    row = {"inertia": clusters.inertia / n, **spent,
                           **describe(assignments.labels[:epoch].numpy(), self.n_clusters, y)}
                if self.renew_classifier and epoch > 1:                         # step 4
                    networks.initialize(head)
                distributed.same(*network.parameters(), *head.parameters())
                distributed.own_noise(generator)
                order = epoch_indices(labels, n, generator, self.sampling)      # step 5
                network.train()
                started = _seconds(device)
                yield from zip(clusters.labels[order.to(device)].split(size),
                               images.batches(size, order, generator), strict=True)

            def step(_epoch: int, labels: Tensor, part: Tensor) -> dict[str, Tensor]:
                """A step of network and classifier on the pseudo-labels (Eq. 1)."""
                own = distributed.part(labels)
                features = functional.relu(network.features(part))
                loss = functional.cross_entropy(head(features), own)            # Eq. 1
                loss = loss * (len(own) / len(labels))      # 1, or the share of this process
                optimizer.zero_grad()
                loss.backward()
                distributed.sum_gradients([*network.parameters(), *head.parameters()])
                optimizer.step()
                return {"loss": distributed.total(loss.detach())}

            history = train(
                # Of this tensor, `train` needs the length and the device only.
                step, (torch.arange(n, device=device),), epochs=self.epochs, batches=batches,
                # Batch normalization needs two images, each process one.
                drop_last=0 < n % self.batch_size < max(2, size), state=state,
                on_epoch=lambda *_: {**row, "training_seconds": _seconds(device) - started})
            clusters, reduction, _ = self._cluster(network, images, generator)
        assignments.labels[-1] = clusters.labels.cpu()
        self.history_ = history
        self.labels_, self.assignments_ = clusters.labels.cpu().numpy(), assignments.labels.numpy()
        self._take(network.eval(), images.shape, images.statistics, reduction, clusters.centers,
                   clusters.inertia)
        return self

    def _cluster(self, network: nn.Module, images: ArrayImages | FolderImages,
                 generator: torch.Generator) -> tuple[Clusters, Reduction, dict[str, float]]:
        """Steps 1 to 3 for all images, and the seconds that they took."""
        n, options = len(images), {"whiten": self.whiten, "normalize": self.normalize}
        started = _seconds(images.device)

        def outputs(rows: Tensor) -> Iterator[Tensor]:
            own = distributed.part(rows)
            return networks.outputs(network, images.batches(self.batch_size, own))

        everything = torch.arange(n)
        if n <= PCA_SAMPLES:
            features = torch.cat(list(outputs(everything)))
            computed = _seconds(images.device)
            fitted = clustering.fit_reduction(features, self.n_components, **options)
            reduced = clustering.reduce(features, fitted)
        else:           # a second pass over all images holds the reduced features only
            rows = torch.randperm(n, generator=generator)[:PCA_SAMPLES].sort().values
            fitted = clustering.fit_reduction(outputs(rows), self.n_components, **options)
            reduced = torch.cat([clustering.reduce(part, fitted) for part in outputs(everything)])
            computed = _seconds(images.device)
        clusters = clustering.kmeans(reduced, self.n_clusters, reassign_empty=self.reassign_empty,
                                     seed=int(training.seeds(generator)))
        clusters.labels = distributed.rows(clusters.labels)
        return clusters, fitted, {"feature_seconds": computed - started,
                                  "clustering_seconds": _seconds(images.device) - computed}

    def _checkpoint(self, *about: Any) -> Any:
        own = None if distributed.here.rank else super()._checkpoint(*about)
        return own if distributed.here.size == 1 else distributed.CheckpointOfFirst(own)

    # ----------------------------------------------------------------------------- the fitted model

    def features(self, X: Images) -> np.ndarray:
        """The network's features before its last ReLU, shape (n_samples, n_features)."""
        return torch.cat(list(self._outputs(X))).cpu().numpy()

    def _embedding(self, X: Images) -> Tensor:
        return torch.cat([clustering.reduce(part, self.reduction_) for part in self._outputs(X)])

    def _assign(self, embedding: Tensor) -> Tensor:
        centers = as_tensor(self.cluster_centers_, embedding.device)
        return clustering.assign(embedding, centers)[0]

    def _outputs(self, X: Images, *layer: int | str) -> Iterator[Tensor]:
        check_is_fitted(self)
        images = self._images(X, self.shape_, torch.stack([self.pixel_mean_, self.pixel_std_]),
                              self.reduction_.mean.device)
        return networks.outputs(self.network_, images.batches(self.batch_size), *layer)

    def linear_probe(self, X: Images, y: ArrayLike, *, layer: int | str = "features",
                     X_test: Images | None = None, y_test: ArrayLike | None = None,
                     test_size: float = 0.2, most_numbers: int = networks.MOST_NUMBERS) -> float:
        """Accuracy, from 0 to 1, of a linear classifier on a frozen layer (section 4.2).

        *layer* is a convolutional one, from 1, averaged to about *most_numbers* per image, or
        ``"features"``, after the last ReLU. Without *X_test* and *y_test* a stratified random share
        *test_size* of *X* is used for testing, the same for every model.
        """
        check_is_fitted(self)
        known = ["features", *range(1, getattr(self.network_, "n_layers", 0) + 1)]
        if layer not in known:
            raise InputError(f"layer must be one of {known}, not {layer!r}")
        if (X_test is None) != (y_test is None):
            raise InputError("X_test and y_test go together: give both, or neither")

        def seen(images: Images) -> Tensor:
            return torch.cat([part.cpu() for part in self._outputs(images, layer, most_numbers)])

        x = seen(X)
        if X_test is None:
            x, x_test, y, y_test = train_test_split(x, np.asarray(y), test_size=test_size,
                                                    random_state=0, stratify=y)
        else:
            x_test = seen(X_test)
        return networks.linear_accuracy(x, y, x_test, y_test)

    def _take(self, network: nn.Module, shape: Any, statistics: Any, reduction: Reduction,
              centers: Tensor, inertia: float) -> None:
        self.network_, self.reduction_, self.inertia_ = network, reduction, inertia
        self.shape_, self.n_features_in_ = tuple(shape), math.prod(shape)
        self.pixel_mean_, self.pixel_std_ = statistics
        self.cluster_centers_ = centers.cpu().numpy()
        self._n_features_out = len(reduction.components)
        self._fit_settings = self._settings()

    def _fitted(self) -> dict[str, Any]:
        return {"shape": list(self.shape_), "statistics": [self.pixel_mean_, self.pixel_std_],
                "reduction": asdict(self.reduction_), "inertia": self.inertia_,
                "centers": torch.from_numpy(self.cluster_centers_),
                "weights": self.network_.state_dict()}

    def _restore(self, stored: Mapping[str, Any]) -> nn.Module:
        if isinstance(self.network, str) and self.network not in networks.NETWORKS:
            raise InputError(f"its network {self.network!r} is a function, which a file can't "
                             "hold: load(path, network=...) takes it")
        self._take(networks.build(self.network, stored["shape"], self.sobel), stored["shape"],
                   stored["statistics"], Reduction(**stored["reduction"]), stored["centers"],
                   stored["inertia"])
        return self.network_

    def _shape(self) -> tuple[int, ...] | None:
        """The shape of an image; None if a network of the caller's takes rows as they are."""
        if self.image_shape is None and callable(self.network):
            return None
        return checks.image_shape(self.image_shape)

    def _images(self, X: Images, shape: tuple[int, ...] | None, statistics: Tensor | None,
                device: torch.device, fitting: bool = False) -> ArrayImages | FolderImages:
        """The images as the network sees them."""
        augmented = {"scale": self.crop_scale, "flip": self.flip}
        if isinstance(X, str | os.PathLike):
            from ..datasets.own import Folder  # on first use, because it takes torchvision

            if shape is None:
                raise InputError("images of a folder need image_shape, such as (3, 64, 64)")
            return FolderImages(Folder(X, least=1 + fitting), shape, statistics, **augmented,
                                resize=self.resize, device=device, num_workers=self.num_workers)
        X = self._validated(X, fitting)
        return ArrayImages(as_tensor(X, device).view(-1, *(shape or X.shape[1:])), statistics,
                           **augmented)

    def _step_size(self, n_samples: int, shape: tuple[int, ...]) -> int:
        """Multiply-adds of a training step; raises InputError for too few or too small images."""
        device = "meta" if isinstance(self.network, str) else "cpu"
        with training.seeded(0), torch.device(device):
            network = networks.build(self.network, shape, self.sobel)
            clustering.check_components(self.n_components, n_samples, network.n_features)
            two = training.multiply_adds(network.eval().features, (2, *shape), device)
        # Forward and backward are three passes, and clustering is one more.
        return 4 * two * min(self.batch_size, n_samples) // 2

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.pixel_statistics == "imagenet" and (self._shape() or ())[:1] != (3,):
            raise InputError("pixel_statistics='imagenet' needs images of 3 channels")
        try:
            smallest, largest = (1, 1) if self.crop_scale is None else self.crop_scale
            possible = 0 < smallest <= largest <= 1
        except (TypeError, ValueError):             # no pair, or not of numbers
            possible = False
        if not possible:
            raise InputError("crop_scale must be None or the smallest and largest part of an "
                             f"image's area, such as (0.08, 1.0), not {self.crop_scale!r}")


def geometric_nmi(first: ArrayLike, second: ArrayLike) -> float:
    r"""Normalized mutual information as in the paper: :math:`I(A;B) / \sqrt{H(A) H(B)}`."""
    return nmi(first, second, mean="geometric")


def churn(previous: ArrayLike, labels: ArrayLike) -> float:
    """The share of images whose cluster changed, after the best matching of the clusters."""
    return 1 - accuracy(previous, labels)


def describe(assignments: np.ndarray, n_clusters: int, y: ArrayLike | None) -> dict[str, Any]:
    """The history's numbers of the last of several clusterings, (n_clusterings, n_samples)."""
    labels = assignments[-1]
    sizes = np.bincount(labels, minlength=n_clusters)
    row = {"active": (sizes > 0).sum(), "smallest": sizes[sizes > 0].min(),
           "largest": sizes.max(), "sizes": sizes}
    if len(assignments) > 1:
        previous = assignments[-2]
        row |= {"nmi_previous": geometric_nmi(previous, labels), "churn": churn(previous, labels)}
    if y is not None:
        row["nmi_labels"] = geometric_nmi(y, labels)
    return row


def _seconds(device: torch.device) -> float:
    """A clock, read when the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
