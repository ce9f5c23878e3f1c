r"""DeepCluster as an estimator, and one training of it (sections 3.2 to 3.4 of the paper).

An epoch is

1. the features of all images, not augmented, before the last ReLU, in evaluation mode;
2. PCA, whitening, length 1 (`fit_reduction`, `reduce`);
3. k-means: pseudo-labels :math:`y_n` (Eq. 2, `kmeans`);
4. a new classifier :math:`g_W`, because the clusters' numbers mean nothing: weights of deviation
   0.01, biases 0;
5. augmented images, equally many of each cluster (`epoch_indices`), and for each batch a step of
   gradient descent, with momentum for the network only, on Eq. 1,

   .. math:: \min_{\theta, W} \frac1N \sum_n \ell\left(g_W(f_\theta(x_n)), y_n\right)

with :math:`\ell` the cross-entropy. After the last epoch the final network's features are clustered
once more.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from .. import checks, training
from ..base import DeepClusterer, as_tensor
from ..checkpoints import fingerprint
from ..errors import InputError, unknown
from ..metrics import contingency
from . import clustering, networks
from .clustering import Clusters, Reduction, epoch_indices
from .images import IMAGENET, ArrayImages, ImageFiles, Statistics, StreamedImages

Images = ArrayLike | Dataset | str | os.PathLike
Source = ArrayImages | StreamedImages

#: Images that the PCA is fitted to; of more a random part, so that not all features are held.
PCA_SAMPLES = 100_000
_CHOICES = {"sampling": clustering.SAMPLINGS, "color": ("refuse", "convert"),
            "pixel_statistics": ("data", "imagenet")}
_WHOLE = {"n_clusters": 1, "epochs": 0, "batch_size": 2, "num_workers": 0}


@dataclass(repr=False, eq=False)
class DeepCluster(DeepClusterer):
    """Visual features from alternating k-means with training on its labels.

    Images are an array, (n_samples, n_features), of rows of ``image_shape`` with pixels in [0, 1];
    a `torch.utils.data.Dataset` of PIL images or tensors (or of tuples that begin with one); or the
    path of a folder. The last two are read batch by batch, resized and cropped.

    Parameters
    ----------
    n_clusters : int
        :math:`k`: 10,000 in the paper for the 1,000 classes of ImageNet.
    network : {"convnet", "alexnet", "vgg16"} or callable
        See `networks`; or a function from the image shape to a module with ``features(images)``,
        before its last ReLU, their number ``n_features``, and, for probes, ``layers(images)``.
    image_shape : tuple of int
        (channels, height, width). With None, rows of an array are vectors, for a network of your
        own, and are not augmented.
    sobel : bool
        Whether the named networks see edges, as in the paper, or the pixels.
    n_components, whiten, normalize : int or None, bool, bool
        Dimensions that PCA keeps (None: all); scale each to variance 1, and each image to length 1.
    reassign_empty : bool
        Fill empty clusters with part of another one.
    sampling : {"uniform", "natural"}
        Draw equally many images of each cluster in an epoch, or each image once.
    renew_classifier : bool
        Start each epoch with a new classifier.
    epochs, batch_size : int
        200 epochs in the released code, 500 in the paper. A last batch of one image is left out.
    learning_rate, momentum, weight_decay : float
        Of gradient descent; the classifier's has no momentum, as in the released code.
    crop_scale : (float, float), optional
        Smallest and largest part of an image's area in training; None takes the whole.
    flip : bool
        Mirror half of the images in training; not for digits.
    resize : int, optional
        Pixels of the short side of images from files before the middle is cropped: 256 for 224 in
        the paper; by default as few as the crop needs.
    pixel_statistics : {"data", "imagenet"}
        Whose mean and deviation of each channel normalize the pixels; ImageNet's in the paper.
    color : {"refuse", "convert"}
        For images from files with other channels than ``image_shape``.
    num_workers : int
        Processes that read files; their number changes no result.
    random_state : int, RandomState instance or None
        Decides first weights, k-means, the order of the images, their augmentation and dropout.
    device, threads, checkpoint, progress
        As in `TELL`.

    Attributes
    ----------
    labels_ : ndarray of int64, shape (n_samples,)
        Cluster of each image, by the final network.
    cluster_centers_ : ndarray of shape (n_clusters, n_components)
        In the space of `transform`; ``inertia_`` is the sum of squared distances to them.
    history_ : History
        Per epoch ``loss`` (mean cross-entropy in nats); of the clusters that it learned
        ``inertia`` (mean squared distance), ``active`` (number of nonempty ones), ``smallest``,
        ``largest`` and ``sizes``; from the second on ``nmi_previous``, with the epoch before, and
        ``churn``; ``nmi_labels`` if ``fit`` was given classes; ``feature_seconds``,
        ``clustering_seconds`` (with PCA), ``training_seconds``. NMI is `geometric_nmi`.
    assignments_ : ndarray of int32, shape (epochs + 1, n_samples)
        The labels that each epoch learned, then ``labels_``.
    network_, reduction_ : Module, Reduction
    pixel_mean_, pixel_std_ : Tensor of shape (channels,)

    Notes
    -----
    Memory, beyond the network's and the images': the features of at most 100,000 images, the
    reduced ones of all, and all epochs' labels, 4 bytes a number, and that of `kmeans`.

    References
    ----------
    M. Caron, P. Bojanowski, A. Joulin and M. Douze, "Deep Clustering for Unsupervised Learning of
    Visual Features", ECCV 2018.

    Examples
    --------
    >>> from clusterbook import datasets
    >>> data = datasets.load("digits")
    >>> model = DeepCluster(20, image_shape=data.image_shape, n_components=32, epochs=1, flip=False,
    ...                     random_state=0).fit(data.X)
    >>> model.labels_.shape, model.transform(data.X).shape, model.assignments_.shape
    ((1797,), (1797, 32), (2, 1797))
    """

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
    color: str = "refuse"
    num_workers: int = 0
    random_state: Any = None
    device: str = "auto"
    threads: int | None = None
    checkpoint: str | Path | None = None
    progress: bool | None = None

    _silent = (*DeepClusterer._silent, "num_workers")
    _removed = {"keep_assignments": True, "kmeans_backend": "torch", "kmeans_max_iter": 20,
                "kmeans_n_init": 1, "pca_samples": 100_000, "unreadable": "refuse"}

    def fit(self, X: Images, y: ArrayLike | None = None) -> DeepCluster:
        """Train, and cluster the images; classes *y*, (n_samples,), only add to ``history_``.

        Raises InputError before training for a setting out of range, images that can't be used or
        are too few or too small, or a checkpoint of another run.
        """
        self._check_settings()
        device, seed = training.resolve_device(self.device), training.as_seed(self.random_state)
        images = self._images(X, device)
        n = len(images)
        step_size = self._step_size(n, images.shape)
        if y is not None:
            contingency(y, np.zeros(n, dtype=int))          # refuses what could not be scored
        with (training.threads(step_size, self.threads, self.checkpoint) as number,
              training.seeded(seed, device) as generator):
            network = networks.build(self.network, images.shape, self.sobel).to(device)
            head = nn.Linear(network.n_features, self.n_clusters).to(device)
            renew(head)
            options = {"lr": self.learning_rate, "weight_decay": self.weight_decay}
            optimizer = torch.optim.SGD(network.parameters(), momentum=self.momentum, **options)
            head_optimizer = torch.optim.SGD(head.parameters(), **options)      # without momentum
            assignments = nn.Module()           # its one buffer is kept in checkpoints
            assignments.register_buffer("labels", torch.zeros(self.epochs + 1, n, dtype=torch.int))
            row, targets, batches, started = {}, None, None, 0.0    # of the current epoch

            def start_epoch(epoch: int) -> None:
                nonlocal row, targets, batches, started
                clusters, _, row = self._cluster(network, images, generator)    # steps 1 to 3
                labels = clusters.labels.cpu()
                assignments.labels[epoch - 1] = labels
                row |= clustering.describe(assignments.labels[:epoch], self.n_clusters, y)
                if self.renew_classifier and epoch > 1:                         # step 4
                    renew(head)
                order = epoch_indices(labels, n, generator, self.sampling)      # step 5
                targets = clusters.labels[order.to(device)]
                batches = images.for_training(order, self.batch_size, generator)
                network.train()
                started = _seconds(device)

            def step(_epoch: int, rows: Tensor) -> dict[str, Tensor]:
                """A step of network and classifier on the pseudo-labels (Eq. 1)."""
                features = functional.relu(network.features(next(batches)))
                loss = functional.cross_entropy(head(features), targets[rows])  # Eq. 1
                optimizer.zero_grad()
                head_optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                head_optimizer.step()
                return {"loss": loss}

            self.history_ = training.train(
                step, (torch.arange(n, device=device),), epochs=self.epochs,
                batch_size=self.batch_size, generator=generator,
                shuffle=False,                              # `start_epoch` shuffles
                drop_last=n % self.batch_size == 1,         # batch normalization needs two images
                state={"network": network, "optimizer": optimizer, "head": head,
                       "head_optimizer": head_optimizer, "assignments": assignments},
                on_epoch_start=start_epoch,
                on_epoch=lambda *_: {**row, "training_seconds": _seconds(device) - started},
                checkpoint=self._checkpoint(fingerprint(*images.content), seed, number),
                progress=self.progress, description="DeepCluster")
            clusters, reduction, _ = self._cluster(network, images, generator)
        assignments.labels[-1] = clusters.labels.cpu()
        self.network_, self.labels_ = network.eval(), clusters.labels.cpu().numpy()
        self.assignments_ = assignments.labels.numpy()
        self._set_state(images.shape, images.statistics, reduction, clusters.centers,
                        clusters.inertia)
        return self

    def _cluster(self, network: nn.Module, images: Source, generator: torch.Generator
                 ) -> tuple[Clusters, Reduction, dict[str, float]]:
        """Features, PCA and k-means of all images; what the history says of them."""
        started, n = _seconds(images.device), len(images)
        options = {"whiten": self.whiten, "normalize": self.normalize}
        if n <= PCA_SAMPLES:
            batches = images.for_clustering(self.batch_size)
            features = torch.cat(list(networks.features(network, batches)))
            computed = _seconds(images.device)
            fitted = clustering.fit_reduction(features, self.n_components, **options)
            reduced = clustering.reduce(features, fitted)
        else:           # a second pass over all images holds the reduced features only
            rows = torch.randperm(n, generator=generator)[:PCA_SAMPLES].sort().values
            batches = images.for_clustering(self.batch_size, rows)
            fitted = clustering.fit_reduction(networks.features(network, batches),
                                              self.n_components, **options)
            batches = images.for_clustering(self.batch_size)
            reduced = torch.cat([clustering.reduce(part, fitted)
                                 for part in networks.features(network, batches)])
            computed = _seconds(images.device)
        clusters = clustering.kmeans(reduced, self.n_clusters, reassign_empty=self.reassign_empty,
                                     seed=int(torch.randint(2**31, (), generator=generator)))
        return clusters, fitted, {"inertia": clusters.inertia / n,
                                  "feature_seconds": computed - started,
                                  "clustering_seconds": _seconds(images.device) - computed}

    def _set_state(self, shape: tuple[int, ...], statistics: Statistics, reduction: Reduction,
                   centers: Tensor, inertia: float) -> None:
        self.shape_, self.n_features_in_ = tuple(shape), math.prod(shape)
        self.pixel_mean_, self.pixel_std_ = statistics
        self.reduction_, self.inertia_ = reduction, inertia
        self.cluster_centers_ = centers.cpu().numpy()

    def predict(self, X: Images) -> np.ndarray:
        """The nearest center of each image, shape (n_samples,)."""
        reduced = torch.from_numpy(self.transform(X))
        return clustering.assign(reduced, torch.from_numpy(self.cluster_centers_))[0].numpy()

    def transform(self, X: Images) -> np.ndarray:
        """The reduced features, which are clustered, shape (n_samples, n_components)."""
        reduced = [clustering.reduce(part, self.reduction_) for part in self._features(X)]
        return torch.cat(reduced).cpu().numpy()

    def features(self, X: Images) -> np.ndarray:
        """The network's features before its last ReLU, shape (n_samples, n_features)."""
        return torch.cat(list(self._features(X))).cpu().numpy()

    def _features(self, X: Images) -> Iterator[Tensor]:
        batches = self._images(X).for_clustering(self.batch_size)
        return networks.features(self.network_, batches)

    def linear_probe(self, X: Images, y: ArrayLike, *, layer: int | str = "features",
                     X_test: Images | None = None, y_test: ArrayLike | None = None,
                     test_size: float = 0.2, most_numbers: int = networks.MOST_NUMBERS) -> float:
        """Accuracy, from 0 to 1, of a linear classifier on a frozen layer (section 4.2).

        Raises InputError for an unknown layer.

        Parameters
        ----------
        X, y : images and classes
        layer : int or "features"
            A convolutional layer, from 1; or the representation, after its ReLU.
        X_test, y_test : images and classes, optional
            To measure the accuracy on; by default a random share ``test_size`` of *X*, stratified.
        most_numbers : int
            A layer is averaged until at most this many numbers are left of an image.
        """
        check_is_fitted(self)
        known = ["features", *range(1, getattr(self.network_, "n_layers", 0) + 1)]
        if layer not in known:
            raise unknown("layer", layer, map(str, known))

        def activations(images: Images) -> Tensor:
            batches = self._images(images).for_clustering(self.batch_size)
            return networks.activations(self.network_, batches, layer, most_numbers)

        x = activations(X)
        if X_test is None:
            x, x_test, y, y_test = train_test_split(x, np.asarray(y), test_size=test_size,
                                                    random_state=0, stratify=y)
        else:
            x_test = activations(X_test)
        return networks.linear_accuracy(x, y, x_test, y_test)

    def _fitted(self) -> dict[str, Any]:
        return {"shape": list(self.shape_), "statistics": [self.pixel_mean_, self.pixel_std_],
                "reduction": asdict(self.reduction_), "inertia": self.inertia_,
                "centers": torch.from_numpy(self.cluster_centers_),
                "weights": self.network_.state_dict()}

    def _restore(self, stored: Mapping[str, Any]) -> nn.Module:
        if isinstance(self.network, str) and self.network not in networks.NETWORKS:
            raise InputError(f"its network was made by a function, {self.network}; give it again "
                             "by network=")
        self.network_ = networks.build(self.network, stored["shape"], self.sobel)
        self._set_state(stored["shape"], stored["statistics"], Reduction(**stored["reduction"]),
                        stored["centers"], stored["inertia"])
        return self.network_

    def _images(self, X: Images, device: torch.device | None = None) -> Source:
        """The images to fit on a device, or as the fitted network sees them."""
        fitting = device is not None
        if not fitting:
            check_is_fitted(self)
            device = next(self.network_.parameters()).device
            shape, statistics = self.shape_, (self.pixel_mean_, self.pixel_std_)
        else:
            shape = None if self.image_shape is None else checks.image_shape(self.image_shape)
            statistics = None
            if self.pixel_statistics == "imagenet":
                if shape is None or shape[0] != 3:
                    raise InputError("pixel_statistics='imagenet' needs images of 3 channels")
                statistics = torch.tensor(IMAGENET[0]), torch.tensor(IMAGENET[1])
        if shape is None and isinstance(self.network, str):
            raise InputError("DeepCluster needs image_shape, the (channels, height, width) of the "
                             "network's input")
        augmentation = {"scale": self.crop_scale, "flip": self.flip}
        data = ImageFiles(X) if isinstance(X, str | os.PathLike) else X
        if isinstance(data, Dataset):
            return StreamedImages(data, shape, statistics, resize=self.resize, color=self.color,
                                  num_workers=self.num_workers, device=device, **augmentation)
        data = validate_data(self, data, dtype=np.float32, order="C", reset=fitting,
                             ensure_min_samples=2 if fitting else 1)
        shape = shape or data.shape[1:]
        if len(shape) == 3:
            checks.pixels(data, shape)
        return ArrayImages(as_tensor(data, device).view(-1, *shape), statistics, **augmentation)

    def _step_size(self, n_samples: int, shape: tuple[int, ...]) -> int:
        """Multiply-adds of a training step; raises InputError for too few or too small images."""
        if self.n_clusters > n_samples:
            raise InputError(f"n_clusters={self.n_clusters} exceeds n_samples={n_samples}")
        device = "meta" if isinstance(self.network, str) else "cpu"
        with torch.device(device), training.seeded(0):
            network = networks.build(self.network, shape, self.sobel)
            clustering.check_components(self.n_components, n_samples, network.n_features)
            two = training.multiply_adds(network.eval().features, (2, *shape), device)
        # Forward and backward are three passes, and clustering is one more.
        return 4 * two * min(self.batch_size, n_samples) // 2

    def _check_settings(self) -> None:
        for name, known in _CHOICES.items():
            checks.one_of(name, getattr(self, name), known)
        for name, least in _WHOLE.items():
            checks.whole(name, getattr(self, name), least)
        if self.resize is not None:
            checks.whole("resize", self.resize, 1)
        for name in ("learning_rate", "momentum", "weight_decay"):
            checks.number(name, getattr(self, name), zero=name != "learning_rate")
        smallest, largest = self.crop_scale or (1, 1)
        if not 0 < smallest <= largest <= 1:
            raise InputError("crop_scale must be None or the smallest and largest part of an "
                             f"image's area, such as (0.08, 1.0), not {self.crop_scale!r}")

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        if callable(self.network):
            settings["network"] = f"{self.network.__module__}.{self.network.__qualname__}"
        return settings

    @property
    def _n_features_out(self) -> int:
        return len(self.reduction_.components)


def renew(head: nn.Linear) -> None:
    """New first weights of a classifier, as in the released code: deviation 0.01, biases 0."""
    nn.init.normal_(head.weight, 0, 0.01)
    nn.init.zeros_(head.bias)


def _seconds(device: torch.device) -> float:
    """A clock, read when the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
