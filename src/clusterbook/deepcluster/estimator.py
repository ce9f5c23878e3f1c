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
once more. All random numbers come from one generator, which a checkpoint keeps, but for dropout's,
which are torch's own and kept too.
"""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from numbers import Real
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
from ..checkpoints import Checkpoint, as_json, load_model, save_model
from ..errors import InputError, unknown
from ..metrics import contingency
from .clustering import (
    BACKENDS,
    SAMPLINGS,
    Clusters,
    Reduction,
    assign,
    check_components,
    churn,
    epoch_indices,
    fit_reduction,
    geometric_nmi,
    import_faiss,
    kmeans,
    reduce,
)
from .images import IMAGENET, ArrayImages, ImageFiles, Statistics, StreamedImages
from .networks import MOST_NUMBERS, activations, build, linear_accuracy

Images = ArrayLike | Dataset | str | os.PathLike
Source = ArrayImages | StreamedImages

_CHOICES = {"sampling": SAMPLINGS, "kmeans_backend": BACKENDS, "unreadable": ("refuse", "skip"),
            "color": ("refuse", "convert")}
_WHOLE = {"n_clusters": 1, "kmeans_max_iter": 1, "kmeans_n_init": 1, "epochs": 0, "batch_size": 2,
          "num_workers": 0}
_SWITCHES = ("sobel", "whiten", "normalize", "reassign_empty", "renew_classifier", "flip",
             "keep_assignments")
#: Image shapes of these networks where none is given.
_USUAL = {"alexnet": (3, 224, 224), "vgg16": (3, 224, 224)}


def renew(head: nn.Linear) -> None:
    """New first weights of a classifier, as in the released code: deviation 0.01, biases 0."""
    nn.init.normal_(head.weight, 0, 0.01)
    nn.init.zeros_(head.bias)


@torch.no_grad()
def features_of(network: nn.Module, batches: Iterator[Tensor]) -> Iterator[Tensor]:
    """The representation before the last ReLU, batch by batch, in evaluation mode."""
    network.eval()
    for batch in batches:
        yield network.features(batch).float()


class Assignments:
    """The pseudo-labels of all epochs so far, or of the last one only; a checkpoint keeps them."""

    def __init__(self, keep: bool) -> None:
        self._keep = keep
        self.of_epochs: list[Tensor] = []

    def add(self, labels: Tensor) -> None:
        """Append the labels of an epoch."""
        self.of_epochs = [*(self.of_epochs if self._keep else []), labels.int()]

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"labels": list(self.of_epochs)}

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Put back what a checkpoint kept."""
        self.of_epochs = list(stored["labels"])


class DeepCluster(DeepClusterer):
    r"""Visual features, learned by alternating k-means with training on its labels.

    Images are given as an array, (n_samples, n_features), each row an image of ``image_shape`` with
    pixels in [0, 1]; as a `torch.utils.data.Dataset` of PIL images or tensors (or of tuples that
    begin with one); or as the path of a folder of images. The last two are read batch by batch,
    resized and cropped to ``image_shape``.

    Parameters
    ----------
    n_clusters : int
        :math:`k`: 10,000 in the paper for the 1,000 classes of ImageNet.
    network : {"convnet", "alexnet", "vgg16"} or callable
        See `networks`; or a function from the image shape to a module with ``features(images)``,
        before its last ReLU, their number ``n_features``, and, for probes, ``layers(images)``.
    image_shape : tuple of int, optional
        (channels, height, width) of the network's input; (3, 224, 224) by default for AlexNet and
        VGG-16. Without one, rows of an array are vectors of any size, for a network of your own,
        and are not augmented.
    sobel : bool
        Whether the named networks see edges, as in the paper, or the pixels.
    n_components : int, optional
        Dimensions that PCA keeps; None keeps all.
    whiten, normalize : bool
        Whether each dimension is brought to variance 1, and then each image to length 1.
    pca_samples : int, optional
        Random images that the PCA is fitted to; None takes all and holds all their features.
    kmeans_max_iter, kmeans_n_init : int
        Rounds and starts of an epoch's k-means.
    kmeans_backend : {"torch", "faiss"}
        See `kmeans`.
    reassign_empty : bool
        Whether an empty cluster takes part of another one.
    sampling : {"uniform", "natural"}
        Equally many images of each cluster in an epoch, or each image once.
    renew_classifier : bool
        Whether each epoch has a new classifier.
    epochs : int
        200 in the released code, 500 in the paper's runs.
    batch_size : int
        A last batch of a single image is left out.
    learning_rate, momentum, weight_decay : float
        Of stochastic gradient descent; the classifier's has no momentum, as in the released code.
    crop_scale : (float, float), optional
        Smallest and largest part of an image's area in training; None takes the whole.
    flip : bool
        Whether training mirrors half of the images; not for digits.
    resize : int, optional
        Pixels of the short side, from which the middle is cropped: 256 for 224 in the paper. By
        default as few as the crop needs. Arrays are taken as they are.
    pixel_statistics : {"data", "imagenet"} or (means, deviations)
        The mean and deviation of each channel, of pixels in [0, 1], to normalize by; ImageNet's in
        the paper.
    unreadable : {"refuse", "skip"}
        What to do if an image can't be read: all are read once before training.
    color : {"refuse", "convert"}
        What to do if an image of a folder or data set has other channels than ``image_shape``.
    num_workers : int
        Processes that read a folder or data set; their number changes no result.
    keep_assignments : bool
        Whether all epochs' labels are kept, 4 bytes each, or the last two only.
    random_state : int, RandomState instance or None
        Decides first weights, k-means, the order of the images, their augmentation and dropout.
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
        Cluster of each image that was used, by the final network.
    cluster_centers_ : ndarray of shape (n_clusters, n_components)
        In the space of `transform`.
    inertia_ : float
        Sum of squared distances to them.
    history_ : History
        Per epoch ``loss`` (mean cross-entropy in nats); of the clusters that it learned
        ``inertia`` (mean squared distance), ``active`` (number of nonempty ones), ``smallest``,
        ``largest`` and ``sizes`` (of all); from the second on ``nmi_previous``, with the epoch
        before, and ``churn``, the share of images whose cluster changed; ``nmi_labels`` if ``fit``
        was given classes; ``feature_seconds``, ``clustering_seconds`` (with PCA) and
        ``training_seconds``. NMI is `geometric_nmi`, as in the paper.
    assignments_ : ndarray of int32, shape (epochs + 1, n_samples)
        The labels that each epoch learned, from those of the first weights on, then ``labels_``.
        With ``keep_assignments=False`` the last two rows only.
    used_images_ : ndarray of int64, shape (n_samples,)
        Indices of the images used: all but those left out as unreadable.
    network_ : Module
    reduction_ : Reduction
    pixel_mean_, pixel_std_ : Tensor of shape (channels,)

    Notes
    -----
    Memory, beyond the network's and the images': the features of :math:`\min(N,
    \mathrm{pca\_samples})` images and the reduced ones of all, 4 bytes a number, and what `kmeans`
    states.

    The same ``random_state`` gives the same labels on the same machine with the same versions and
    number of threads, which follows the size of a step and not the machine (see `training`); on a
    GPU as far as its kernels are deterministic.

    References
    ----------
    .. [1] M. Caron, P. Bojanowski, A. Joulin and M. Douze, "Deep Clustering for Unsupervised
       Learning of Visual Features", ECCV 2018.

    Examples
    --------
    >>> from clusterbook import datasets
    >>> data = datasets.load("digits")
    >>> model = DeepCluster(20, image_shape=data.image_shape, n_components=32, epochs=1, flip=False,
    ...                     random_state=0).fit(data.X)
    >>> model.labels_.shape, model.transform(data.X).shape, model.assignments_.shape
    ((1797,), (1797, 32), (2, 1797))
    """

    def __init__(
        self, n_clusters: int = 100, *, network: str | Callable[..., nn.Module] = "convnet",
        image_shape: tuple[int, int, int] | None = None, sobel: bool = True,
        n_components: int | None = 256, whiten: bool = True, normalize: bool = True,
        pca_samples: int | None = 100_000, kmeans_max_iter: int = 20, kmeans_n_init: int = 1,
        kmeans_backend: str = "torch", reassign_empty: bool = True, sampling: str = "uniform",
        renew_classifier: bool = True, epochs: int = 200, batch_size: int = 256,
        learning_rate: float = 0.05, momentum: float = 0.9, weight_decay: float = 1e-5,
        crop_scale: tuple[float, float] | None = (0.08, 1.0), flip: bool = True,
        resize: int | None = None,
        pixel_statistics: str | tuple[Sequence[float], Sequence[float]] = "data",
        unreadable: str = "refuse", color: str = "refuse", num_workers: int = 0,
        keep_assignments: bool = True, random_state: Any = None, device: str = "auto",
        threads: int | None = None, checkpoint: str | Path | None = None,
        progress: bool | None = None,
    ):
        self.n_clusters = n_clusters
        self.network = network
        self.image_shape = image_shape
        self.sobel = sobel
        self.n_components = n_components
        self.whiten = whiten
        self.normalize = normalize
        self.pca_samples = pca_samples
        self.kmeans_max_iter = kmeans_max_iter
        self.kmeans_n_init = kmeans_n_init
        self.kmeans_backend = kmeans_backend
        self.reassign_empty = reassign_empty
        self.sampling = sampling
        self.renew_classifier = renew_classifier
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.crop_scale = crop_scale
        self.flip = flip
        self.resize = resize
        self.pixel_statistics = pixel_statistics
        self.unreadable = unreadable
        self.color = color
        self.num_workers = num_workers
        self.keep_assignments = keep_assignments
        self.random_state = random_state
        self.device = device
        self.threads = threads
        self.checkpoint = checkpoint
        self.progress = progress

    _silent = (*DeepClusterer._silent, "num_workers")
    _modules = ("base", "batchnorm", "checks", "deepcluster.clustering", "deepcluster.estimator",
                "deepcluster.images", "deepcluster.networks", "training")

    # ------------------------------------------------------------------------------- fitting

    def fit(self, X: Images, y: ArrayLike | None = None) -> DeepCluster:
        """Train, and cluster the images.

        Parameters
        ----------
        X : images
            An array, a data set or a folder.
        y : array-like of shape (n_samples,), optional
            Classes, only to write ``nmi_labels`` into ``history_``: nothing is trained on them.

        Returns
        -------
        DeepCluster

        Raises
        ------
        InputError
            Before training: if a setting is out of range, there are fewer images than clusters or
            PCA dimensions, an image can't be read or has other channels, pixels are NaN or outside
            [0, 1], images are too small for the network, or the checkpoint belongs to another run.
        """
        self._check_settings()
        device, seed = training.resolve_device(self.device), training.as_seed(self.random_state)
        images, shape = self._images(X, device, fitting=True)
        step_size = self._step_size(len(images), shape)
        if y is not None:
            y = self._classes(y, images)
            contingency(y, np.zeros(len(y), dtype=int))     # refuses what could not be scored
        if self.batch_size > len(images):
            warnings.warn(f"batch_size {self.batch_size} is larger than the data; all "
                          f"{len(images)} images make one batch", UserWarning, stacklevel=2)
        with training.threads(step_size, self.threads, self.checkpoint) as number:
            checkpoint = self._checkpoint(images.fingerprint(), seed, number)
            self._train(images, shape, y, seed, checkpoint)
        self.used_images_ = images.rows
        return self

    def _train(self, images: Source, shape: tuple[int, ...], y: np.ndarray | None, seed: int,
               checkpoint: Checkpoint | None) -> None:
        """Train from the first weights that *seed* gives; *y* is for the history only."""
        device, n = images.device, len(images)
        batch_size = min(self.batch_size, n)
        with training.seeded(seed, device) as generator:
            network = build(self.network, shape, self.sobel).to(device)
            head = nn.Linear(network.n_features, self.n_clusters).to(device)
            renew(head)
            options = {"lr": self.learning_rate, "weight_decay": self.weight_decay}
            optimizer = torch.optim.SGD(network.parameters(), momentum=self.momentum, **options)
            head_optimizer = torch.optim.SGD(head.parameters(), **options)      # without momentum
            assignments = Assignments(self.keep_assignments)
            row, targets, batches, started = {}, None, None, 0.0    # of the current epoch

            def start_epoch(epoch: int) -> None:
                nonlocal row, targets, batches, started
                clusters, _, seconds = self._cluster(network, images, generator)    # steps 1 to 3
                labels, previous = clusters.labels.cpu(), assignments.of_epochs[-1:]
                row = {"inertia": clusters.inertia / n,
                       **self._describe(labels, *previous, y=y), **seconds}
                assignments.add(labels)
                if self.renew_classifier and epoch > 1:                             # step 4
                    renew(head)
                order = epoch_indices(labels, n, generator, self.sampling)          # step 5
                targets = clusters.labels[order.to(device)]
                batches = images.for_training(order, batch_size, generator)
                network.train()
                started = _seconds(device)

            def step(_epoch: int, rows: Tensor) -> dict[str, Tensor]:
                """A step of network and classifier on the pseudo-labels (Eq. 1)."""
                features = functional.relu(network.features(next(batches)))
                loss = functional.cross_entropy(head(features), targets[rows])      # Eq. 1
                optimizer.zero_grad()
                head_optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                head_optimizer.step()
                return {"loss": loss}

            def observe(_epoch: int, _row: dict[str, Any]) -> dict[str, Any]:
                return {**row, "training_seconds": _seconds(device) - started}

            history = training.train(
                step, (torch.arange(n, device=device),), epochs=self.epochs, batch_size=batch_size,
                generator=generator, shuffle=False,                 # `start_epoch` shuffles
                drop_last=n % batch_size == 1,      # batch normalization needs two images
                state={"network": network, "optimizer": optimizer, "head": head,
                       "head_optimizer": head_optimizer, "assignments": assignments},
                on_epoch_start=start_epoch, on_epoch=observe, checkpoint=checkpoint,
                progress=self.progress, description="DeepCluster")
            clusters, reduction, _ = self._cluster(network, images, generator)
        self.network_, self.history_ = network.eval(), history
        labels = clusters.labels.cpu()
        self.labels_ = labels.numpy()
        self.assignments_ = torch.stack([*assignments.of_epochs, labels.int()]).numpy()
        self._set_state(shape, images.statistics, reduction, clusters.centers, clusters.inertia)

    def _cluster(self, network: nn.Module, images: Source, generator: torch.Generator
                 ) -> tuple[Clusters, Reduction, dict[str, float]]:
        """Features, PCA and k-means of all images; the seconds that they took.

        The features of up to ``pca_samples`` images are held. Of more, the PCA is fitted to those
        of a random part, and a second pass over all images holds the reduced features only.
        """
        started, n, sample = _seconds(images.device), len(images), None
        if self.pca_samples is not None and n > self.pca_samples:
            sample = torch.randperm(n, generator=generator)[:self.pca_samples].sort().values
        batches = features_of(network, images.for_clustering(self.batch_size, sample))
        options = {"whiten": self.whiten, "normalize": self.normalize}
        if sample is None:
            features = torch.cat(list(batches))
            computed = _seconds(images.device)
            fitted = fit_reduction(features, self.n_components, **options)
            reduced = reduce(features, fitted)
        else:
            fitted = fit_reduction(batches, self.n_components, **options)
            reduced = torch.cat([reduce(batch, fitted) for batch in features_of(
                network, images.for_clustering(self.batch_size))])
            computed = _seconds(images.device)
        clusters = kmeans(reduced, self.n_clusters, n_init=self.kmeans_n_init,
                          max_iter=self.kmeans_max_iter, reassign_empty=self.reassign_empty,
                          backend=self.kmeans_backend,
                          seed=int(torch.randint(2**31, (), generator=generator)))
        return clusters, fitted, {"feature_seconds": computed - started,
                                  "clustering_seconds": _seconds(images.device) - computed}

    def _describe(self, labels: Tensor, previous: Tensor | None = None, *,
                  y: np.ndarray | None) -> dict[str, Any]:
        """The history's numbers of a clustering, compared with that before and with classes."""
        sizes = torch.bincount(labels, minlength=self.n_clusters)
        row = {"active": int((sizes > 0).sum()), "smallest": int(sizes[sizes > 0].min()),
               "largest": int(sizes.max()), "sizes": sizes.tolist()}
        if previous is not None:
            row |= {"nmi_previous": geometric_nmi(previous, labels),
                    "churn": churn(previous, labels)}
        if y is not None:
            row["nmi_labels"] = geometric_nmi(y, labels)
        return row

    def _set_state(self, shape: tuple[int, ...], statistics: Statistics, reduction: Reduction,
                   centers: Tensor, inertia: float) -> None:
        self.shape_, self.n_features_in_ = shape, math.prod(shape)
        self.pixel_mean_, self.pixel_std_ = statistics
        self.reduction_, self.inertia_ = reduction, inertia
        self.cluster_centers_ = centers.cpu().numpy()

    # ----------------------------------------------------------------------- what was learnt

    def predict(self, X: Images) -> np.ndarray:
        """The nearest center of each image, shape (n_samples,)."""
        reduced = self._reduced(X)
        centers = torch.as_tensor(self.cluster_centers_, device=reduced.device)
        return assign(reduced, centers)[0].cpu().numpy()

    def transform(self, X: Images) -> np.ndarray:
        """The reduced features, which are clustered, shape (n_samples, n_components).

        Whitened and of length 1 if ``whiten`` and ``normalize`` are on.
        """
        return self._reduced(X).cpu().numpy()

    def features(self, X: Images) -> np.ndarray:
        """The network's features before its last ReLU, shape (n_samples, n_features)."""
        return torch.cat(list(self._features(X))).cpu().numpy()

    def linear_probe(self, X: Images, y: ArrayLike | None = None, *, layer: int | str = "features",
                     X_test: Images | None = None, y_test: ArrayLike | None = None,
                     test_size: float = 0.2, random_state: int = 0, penalty: float = 1e-3,
                     max_iter: int = 200, most_numbers: int = MOST_NUMBERS) -> float:
        """Accuracy, from 0 to 1, of a linear classifier on a frozen layer (section 4.2).

        Parameters
        ----------
        X : images
        y : array-like of shape (n_samples,), optional
            Classes; by default the subfolders of a folder, or a data set's ``targets``.
        layer : int or "features"
            A convolutional layer, from 1; or the representation, after its ReLU.
        X_test, y_test : images and classes, optional
            To measure the accuracy on; by default a random part of *X*, stratified by class.
        test_size : float
            The share of this part.
        random_state : int
            Decides this part.
        penalty, max_iter
            See `networks.linear_accuracy`.
        most_numbers : int
            A layer is averaged until at most this many numbers are left of an image.

        Raises
        ------
        InputError
            If there is no such layer, or classes are missing or not as many as images.
        """
        check_is_fitted(self)
        known = ["features", *range(1, getattr(self.network_, "n_layers", 0) + 1)]
        if isinstance(layer, bool) or layer not in known:
            raise unknown("layer", layer, map(str, known))
        x, classes = self._probed(X, y, layer, most_numbers)
        if X_test is None:
            first, last = train_test_split(np.arange(len(classes)), test_size=test_size,
                                           random_state=random_state, stratify=classes)
            x, x_test, classes, y_test = x[first], x[last], classes[first], classes[last]
        else:
            x_test, y_test = self._probed(X_test, y_test, layer, most_numbers)
        return linear_accuracy(x, classes, x_test, y_test, penalty=penalty, max_iter=max_iter)

    def save(self, path: str | Path) -> None:
        """Write settings and weights to a file; see `load`.

        Raises InputError if the file can't be written; what was there stays.
        """
        check_is_fitted(self)
        # A function can't be stored: `load` is given it again.
        network = self.network if isinstance(self.network, str) else None
        save_model(path, "DeepCluster", {
            "settings": as_json({**self._settings(), "network": network}),
            "shape": list(self.shape_), "statistics": [self.pixel_mean_, self.pixel_std_],
            "reduction": asdict(self.reduction_), "inertia": self.inertia_,
            "centers": torch.from_numpy(self.cluster_centers_),
            "weights": self.network_.state_dict()})

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto",
             network: Callable[..., nn.Module] | None = None) -> DeepCluster:
        """A model from a file of `save`: it predicts, transforms and can be probed.

        *network* is the function that made the network, if one did.

        Raises
        ------
        InputError
            If the file is not there, is no such file, or its weights are those of another network.
        """
        found = training.resolve_device(device)

        def make(stored: dict[str, Any]) -> DeepCluster:
            settings = json.loads(stored["settings"])
            settings["network"] = settings["network"] or network
            if settings["network"] is None:
                raise InputError("its network was made by a function; give it again by network=")
            for name in ("image_shape", "crop_scale"):
                settings[name] = None if settings[name] is None else tuple(settings[name])
            model = cls(**settings, device=device)
            with training.seeded(0):        # the first weights, soon replaced, draw random numbers
                model.network_ = build(model.network, stored["shape"], model.sobel)
            model.network_.load_state_dict(stored["weights"])
            model.network_.to(found).eval()
            model._set_state(tuple(stored["shape"]), stored["statistics"],
                             Reduction(**stored["reduction"]), stored["centers"], stored["inertia"])
            return model

        return load_model(path, "DeepCluster", found, make)

    # ----------------------------------------------------------------------------- inside

    def _reduced(self, X: Images) -> Tensor:
        return torch.cat([reduce(part, self.reduction_) for part in self._features(X)])

    def _features(self, X: Images) -> Iterator[Tensor]:
        check_is_fitted(self)
        images, _ = self._images(X, next(self.network_.parameters()).device)
        return features_of(self.network_, images.for_clustering(self.batch_size))

    def _probed(self, X: Images, y: ArrayLike | None, layer: int | str, most: int
                ) -> tuple[Tensor, np.ndarray]:
        """The activations of a layer, and the classes."""
        images, _ = self._images(X, next(self.network_.parameters()).device)
        if y is None:
            y = getattr(ImageFiles(X) if isinstance(X, str | os.PathLike) else X, "targets", None)
        if y is None:
            raise InputError("a linear probe needs the images' classes, y")
        batches = images.for_clustering(self.batch_size)
        return activations(self.network_, batches, layer, most), self._classes(y, images)

    def _images(self, X: Images, device: torch.device, *, fitting: bool = False
                ) -> tuple[Source, tuple[int, ...]]:
        """The images, and the shape of the network's input."""
        data = ImageFiles(X) if isinstance(X, str | os.PathLike) else X
        stored = None if fitting else (self.pixel_mean_, self.pixel_std_)
        if isinstance(data, Dataset):
            shape = self._input_shape() if fitting else self.shape_
            if len(shape) != 3:
                raise InputError("a data set needs image_shape, the (channels, height, width) of "
                                 "the network's input")
            return StreamedImages(
                data, shape, stored or self._statistics(shape[0]), scale=self.crop_scale,
                flip=self.flip, resize=self.resize, num_workers=self.num_workers, device=device,
                unreadable=self.unreadable, color=self.color), shape
        X = validate_data(self, X, dtype=np.float32, order="C", reset=fitting,
                          ensure_min_samples=2 if fitting else 1)
        shape = self._input_shape(X.shape[1]) if fitting else self.shape_
        if len(shape) == 3:
            checks.pixels(X, shape)
        return ArrayImages(as_tensor(X, device).view(-1, *shape),
                           stored or self._statistics(shape[0]), scale=self.crop_scale,
                           flip=self.flip), shape

    def _classes(self, y: ArrayLike, images: Source) -> np.ndarray:
        """The classes of the images that are used."""
        y = np.asarray(y)
        if y.shape == (images.n_given,):
            y = y[images.rows]
        if y.shape != (len(images),):
            raise InputError(f"y must be a vector with one class for each of the {len(images)} "
                             f"images, but has shape {y.shape}")
        return y

    def _input_shape(self, n_features: int | None = None) -> tuple[int, ...]:
        """(channels, height, width) of the network's input, or (n_features,) for vectors."""
        named = isinstance(self.network, str)
        shape = _USUAL.get(self.network) if self.image_shape is None and named else self.image_shape
        if shape is not None:
            return checks.image_shape(shape)
        if named or n_features is None:
            raise InputError("DeepCluster needs image_shape, the (channels, height, width) of the "
                             "network's input")
        return (n_features,)

    def _statistics(self, channels: int) -> Statistics | None:
        """The given mean and deviation of each channel; None if they are those of the data."""
        given = self.pixel_statistics
        if isinstance(given, str):
            checks.one_of("pixel_statistics", given, ("data", "imagenet"))
            if given == "data":
                return None
            given = IMAGENET
            if channels == 1:                       # of gray images: the mean over colors
                given = [[sum(part) / 3] for part in IMAGENET]
        if (not isinstance(given, Sequence) or len(given) != 2
                or not all(_are_numbers(part, channels) for part in given) or min(given[1]) <= 0):
            raise InputError("pixel_statistics must be 'data', 'imagenet', or means and deviations "
                             f"of {channels} channels, not {self.pixel_statistics!r}")
        return torch.tensor(given[0]), torch.tensor(given[1])

    def _step_size(self, n_samples: int, shape: tuple[int, ...]) -> int:
        """Multiply-adds of a training step; raises InputError for too few or too small images."""
        if n_samples < 2:
            raise InputError(f"DeepCluster needs at least two images, but there is {n_samples}")
        if self.n_clusters > n_samples:
            raise InputError(f"n_clusters={self.n_clusters} exceeds n_samples={n_samples}; ask for "
                             "fewer")
        device = "meta" if isinstance(self.network, str) else "cpu"
        with torch.device(device), training.seeded(0):
            network = build(self.network, shape, self.sobel)
            check_components(self.n_components, n_samples, network.n_features)
            two = training.multiply_adds(network.eval().features, (2, *shape), device)
        # Forward and backward are three passes, and clustering is one more.
        return 4 * two * min(self.batch_size, n_samples) // 2

    def _check_settings(self) -> None:
        for name, known in _CHOICES.items():
            checks.one_of(name, getattr(self, name), known)
        for name, least in _WHOLE.items():
            checks.whole(name, getattr(self, name), least)
        for name in ("n_components", "pca_samples", "resize"):
            if getattr(self, name) is not None:
                checks.whole(name, getattr(self, name), 1)
        for name in ("learning_rate", "momentum", "weight_decay"):
            checks.number(name, getattr(self, name), zero=name != "learning_rate")
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be True or False, not {getattr(self, name)!r}")
        scale = self.crop_scale
        if scale is not None and (not _are_numbers(scale, 2) or not 0 < scale[0] <= scale[1] <= 1):
            raise InputError("crop_scale must be None or the smallest and largest part of an "
                             f"image's area, such as (0.08, 1.0), not {scale!r}")
        if self.kmeans_backend == "faiss":
            import_faiss()

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        if callable(self.network):
            settings["network"] = f"{self.network.__module__}.{self.network.__qualname__}"
        return settings

    @property
    def _n_features_out(self) -> int:
        return len(self.reduction_.components)


def _seconds(device: torch.device) -> float:
    """A clock, read when the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _are_numbers(values: Any, count: int) -> bool:
    return (isinstance(values, Sequence) and not isinstance(values, str) and len(values) == count
            and all(isinstance(value, Real) and not isinstance(value, bool)
                    and math.isfinite(value) for value in values))
