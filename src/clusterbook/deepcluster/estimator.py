"""DeepCluster as an estimator: settings, and what can be asked of a trained model."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
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
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from torch.utils.data import Dataset

from .. import training
from ..checkpoints import Checkpoint
from ..errors import InputError, unknown
from ..fingerprint import hash_modules
from ..metrics import contingency
from . import fitting, probe, storage
from .config import check_settings, shape_of, statistics_of
from .images import ArrayImages, ImageFiles, StreamedImages
from .kmeans import assign
from .networks import build
from .reduction import Reduction, check_components, reduce

# The code that a checkpoint belongs to, and the settings that change no result.
_MODULES = ["batchnorm", "training", *(f"deepcluster.{name}" for name in (
    "config", "fitting", "images", "kmeans", "networks", "reduction", "sampling", "transforms"))]
_SILENT = ("checkpoint", "device", "num_workers", "progress", "random_state")

Images = ArrayLike | Dataset | str | os.PathLike


class DeepCluster(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    r"""Visual features learned by clustering them, and by learning the clusters.

    Wherever images are asked for they are an array, (n_samples, n_features), each row an image of
    ``image_shape`` with pixels in [0, 1]; or a `torch.utils.data.Dataset` of pictures or tensors
    (or of tuples that begin with such); or the path of a folder of images. The last two are read in
    passing, resized and cropped to ``image_shape``.

    Parameters
    ----------
    n_clusters : int
        :math:`k`: 10,000 in the paper for ImageNet's 1,000 classes. As many as there are classes
        are too few.
    network : {"convnet", "alexnet", "vgg16"} or callable
        See `networks`; or a function that is given the image shape and makes a module with
        ``features(images)``, before its last ReLU, their number ``n_features``, and, for probes,
        ``layers(images)``.
    image_shape : tuple of int, optional
        (channels, height, width) of what the network sees. AlexNet and VGG-16 have (3, 224, 224)
        by default. Without one, rows of an array are vectors, for a network of one's own: they are
        not augmented, and of any size.
    sobel : bool
        Whether the named networks see edges, as in the paper, or the pixels.
    n_components : int, optional
        Dimensions that PCA leaves; None leaves as many as there are.
    whiten, normalize : bool
        Whether each of these is brought to variance 1, and then each image's to length 1.
    pca_samples : int, optional
        Images that the PCA is fitted to, at random; None takes all and holds all their features.
    kmeans_max_iter, kmeans_n_init : int
        Rounds and starts of an epoch's k-means.
    kmeans_backend : {"torch", "faiss"}
        See `kmeans.kmeans`.
    reassign_empty : bool
        Whether an empty cluster takes part of another one.
    sampling : {"uniform", "natural"}
        An epoch has as many images of each cluster, or each image once.
    renew_classifier : bool
        Whether the classifier begins anew each epoch.
    epochs : int
        200 in the released code; the paper's runs have 500.
    batch_size : int
        A last batch of a single image is left out.
    learning_rate, momentum, weight_decay : float
        Of stochastic gradient descent; the classifier's has no momentum, as in the released code.
    crop_scale : (float, float), optional
        Smallest and largest part of an image's area that training takes; None takes the whole.
    flip : bool
        Whether training mirrors half of the images; not for digits.
    resize : int, optional
        Pixels of the short side, from which the middle is cropped: 256 for 224 in the paper. By
        default as few as the crop needs. Arrays are taken as they are.
    pixel_statistics : {"data", "imagenet"} or (means, deviations)
        What pixels in [0, 1] are normalized by, channel by channel; those of ImageNet in the paper.
    unreadable : {"refuse", "skip"}
        What to do where an image can't be read: all are read once before training.
    color : {"refuse", "convert"}
        What to do where an image of a folder or data set has not the channels of ``image_shape``.
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
        Cluster of each image that was used, by the network as it is at the end.
    cluster_centers_ : ndarray of shape (n_clusters, n_components)
        In the space of `transform`.
    inertia_ : float
        Sum of squared distances to them.
    history_ : History
        Per epoch ``loss`` (mean cross-entropy in nats); of the clusters that it learned ``active``
        (how many have images), ``smallest``, ``largest``, ``sizes`` (of all clusters) and
        ``inertia`` (mean squared distance); from the second on ``nmi_previous``, with the epoch
        before, and ``churn``, the share of images whose cluster changed, after the best matching;
        ``nmi_labels`` if ``fit`` was given classes; ``feature_seconds``, ``clustering_seconds``
        (with PCA) and ``training_seconds``. NMI is normalized by the geometric mean of the
        entropies, as in the paper; scikit-learn's default, and `metrics.nmi`, is by the arithmetic.
    assignments_ : ndarray of int32, shape (epochs + 1, n_samples)
        The labels that each epoch learned, and at the end ``labels_``: row 0 is of the first
        weights. With ``keep_assignments=False`` the last two rows only.
    used_images_ : ndarray of int64, shape (n_samples,)
        Places of the images used in what was given: all but those left out as unreadable.
    network_ : Module
    reduction_ : Reduction
    pixel_mean_, pixel_std_ : Tensor of shape (channels,)

    Notes
    -----
    Memory, beyond the network's and the images': the features of :math:`\min(N,
    \mathrm{pca\_samples})` images and the reduced ones of all are held, 4 bytes a number, and what
    `kmeans.kmeans` states.

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
            PCA dimensions, an image can't be read or has other channels, pixels hold NaN or leave
            [0, 1], images are smaller than the network takes, or the checkpoint belongs to another
            run.
        """
        check_settings(self)
        place, seed = training.resolve_device(self.device), training.as_seed(self.random_state)
        images, shape = self._images(X, place, fitting=True)
        step = self._check_images(images, shape)
        if y is not None:
            y = self._of_used(y, images, X)
            contingency(y, np.zeros(len(y), dtype=int))     # refuses what could not be scored
        if self.batch_size > len(images):
            warnings.warn(f"batch_size {self.batch_size} is larger than the data; all "
                          f"{len(images)} images make one batch", UserWarning, stacklevel=2)
        with training.threads(step, self.threads, self.checkpoint) as number:
            kept = self._kept(images, seed, number)
            run = fitting.train(self, images, shape, y, seed, kept)
        self.network_, self.history_, self.assignments_ = run.network, run.history, run.assignments
        self.labels_ = run.clusters.labels.cpu().numpy()
        self.used_images_ = (images.rows if isinstance(images, StreamedImages)
                             else np.arange(len(images)))
        return self._adopt_state(shape, images.statistics, run.reduction, run.clusters.centers,
                                 run.clusters.inertia)

    def _adopt_state(self, shape: tuple[int, ...], statistics: Sequence[Tensor],
                     reduction: Reduction, centers: Tensor, inertia: float) -> DeepCluster:
        self.shape_, self.n_features_in_ = shape, math.prod(shape)
        self.pixel_mean_, self.pixel_std_ = statistics
        self.reduction_, self.inertia_ = reduction, inertia
        self.cluster_centers_ = centers.cpu().numpy()
        return self

    # ----------------------------------------------------------------------- what was learnt

    def predict(self, X: Images) -> np.ndarray:
        """The cluster of each image, the nearest center's, shape (n_samples,)."""
        reduced = self._reduced(X)
        centers = torch.as_tensor(self.cluster_centers_, device=reduced.device)
        return assign(reduced, centers)[0].cpu().numpy()

    def transform(self, X: Images) -> np.ndarray:
        """The reduced features, which are clustered, shape (n_samples, n_components).

        Whitened and of length 1 as far as ``whiten`` and ``normalize`` say; `features` has them
        before.
        """
        return self._reduced(X).cpu().numpy()

    def features(self, X: Images) -> np.ndarray:
        """The network's features before its last ReLU, shape (n_samples, n_features)."""
        return torch.cat(list(self._features(X))).cpu().numpy()

    def linear_probe(self, X: Images, y: ArrayLike | None = None, *, layer: int | str = "features",
                     X_test: Images | None = None, y_test: ArrayLike | None = None,
                     test_size: float = 0.2, random_state: int = 0, penalty: float = 1e-3,
                     max_iter: int = 200, most_numbers: int = probe.MOST_NUMBERS) -> float:
        """The accuracy of a linear classifier on a frozen layer; see `probe`.

        With ``epochs=0`` it is that of a network of random weights.

        Parameters
        ----------
        X : images
        y : array-like of shape (n_samples,), optional
            Classes; those of a folder are by default the folders directly below it.
        layer : int or "features"
            A convolutional layer, from 1; or the representation, after its ReLU.
        X_test, y_test : images and classes, optional
            What the accuracy is of; by default a random part of *X*, in which classes have their
            shares.
        test_size : float
            The size of this part, relative.
        random_state : int
            Decides it.
        penalty, max_iter
            See `probe.linear_accuracy`.
        most_numbers : int
            A layer is averaged until at most so many numbers are left of an image.

        Returns
        -------
        float
            Between 0 and 1.

        Raises
        ------
        InputError
            If there is no such layer, or classes are missing or not as many as images.
        """
        check_is_fitted(self)
        self._check_layer(layer)
        x, classes = self._probed(X, y, layer, most_numbers)
        if X_test is None:
            first, last = train_test_split(np.arange(len(classes)), test_size=test_size,
                                           random_state=random_state, stratify=classes)
            x, x_test, classes, y_test = x[first], x[last], classes[first], classes[last]
        else:
            x_test, y_test = self._probed(X_test, y_test, layer, most_numbers)
        return probe.linear_accuracy(x, classes, x_test, y_test, penalty=penalty,
                                     max_iter=max_iter)

    def save(self, path: str | Path) -> None:
        """Write settings and weights to a file; see `load`.

        Raises InputError if the file can't be written; what was there stays.
        """
        check_is_fitted(self)
        storage.write(self, path)

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
        return storage.read(cls, path, device, network)

    # ----------------------------------------------------------------------------- inside

    def _reduced(self, X: Images) -> Tensor:
        return torch.cat([reduce(part, self.reduction_) for part in self._features(X)])

    def _features(self, X: Images) -> Any:
        check_is_fitted(self)
        images, _ = self._images(X, next(self.network_.parameters()).device)
        return fitting.features_of(self.network_, images.for_clustering(self.batch_size))

    def _probed(self, X: Images, y: ArrayLike | None, layer: int | str, most: int
                ) -> tuple[Tensor, np.ndarray]:
        images, _ = self._images(X, next(self.network_.parameters()).device)
        if y is None:
            y = getattr(ImageFiles(X) if isinstance(X, str | os.PathLike) else X, "targets", None)
        if y is None:
            raise InputError("a linear probe needs the images' classes, y")
        batches = images.for_clustering(self.batch_size)
        return probe.activations(self.network_, batches, layer, most), self._of_used(y, images, X)

    def _check_layer(self, layer: int | str) -> None:
        n = getattr(self.network_, "n_layers", 0)
        known = ["features", *range(1, n + 1)]
        if isinstance(layer, bool) or layer not in known:
            raise unknown("layer", layer, map(str, known))

    def _images(self, X: Images, place: torch.device, *, fitting: bool = False
                ) -> tuple[ArrayImages | StreamedImages, tuple[int, ...]]:
        """The images, and the shape of what the network sees."""
        data = ImageFiles(X) if isinstance(X, str | os.PathLike) else X
        stored = None if fitting else (self.pixel_mean_, self.pixel_std_)
        if isinstance(data, Dataset):
            shape = shape_of(self) if fitting else self.shape_
            if len(shape) != 3:
                raise InputError("a data set needs image_shape, (channels, height, width) of what "
                                 "the network is to see")
            return StreamedImages(
                data, shape, stored or statistics_of(self, shape[0]), scale=self.crop_scale,
                flip=self.flip, resize=self.resize, num_workers=self.num_workers, device=place,
                unreadable=self.unreadable, color=self.color), shape
        X = validate_data(self, X, dtype=np.float32, order="C", reset=fitting,
                          ensure_min_samples=2 if fitting else 1)
        shape = shape_of(self, X.shape[1]) if fitting else self.shape_
        if len(shape) == 3:
            _check_pixels(X)
        rows = torch.as_tensor(X if X.flags.writeable else X.copy(), device=place)
        return ArrayImages(rows.view(-1, *shape), stored or statistics_of(self, shape[0]),
                           scale=self.crop_scale, flip=self.flip), shape

    def _check_images(self, images: ArrayImages | StreamedImages, shape: tuple[int, ...]) -> int:
        """Refuse what can't be trained; the multiply-adds of a training step."""
        n = len(images)
        if n < 2:
            raise InputError(f"DeepCluster needs at least two images, but there is {n}")
        if self.n_clusters > n:
            raise InputError(f"{self.n_clusters} clusters can't be made of n_samples={n}; ask for "
                             "fewer")
        # A look at the network, which is thrown away: without numbers, or with other random ones.
        place = "meta" if isinstance(self.network, str) else "cpu"
        with torch.device(place), training.seeded(0):
            network = build(self.network, shape, self.sobel)
            check_components(self.n_components, n, network.n_features)
            two = training.multiply_adds(network.eval().features, (2, *shape), place)
        # Forward and backward are three passes; once more each image passes for its features.
        return 4 * two * min(self.batch_size, n) // 2

    def _of_used(self, y: ArrayLike, images: ArrayImages | StreamedImages, X: Any) -> np.ndarray:
        """The classes of the images that are used."""
        y = np.asarray(y)
        if isinstance(images, StreamedImages) and len(y) != len(images):
            total = len(images._items)
            if len(y) == total:
                return y[images.rows]
        if y.ndim != 1 or len(y) != len(images):
            raise InputError(f"y must be a vector with one class for each of the {len(images)} "
                             f"images, but has shape {y.shape}")
        return y

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]  # the network's, whatever comes
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.reduction_.components)

    def _kept(self, images: ArrayImages | StreamedImages, seed: int, threads: int
              ) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        if self.random_state is None:
            raise InputError("a checkpoint needs random_state, such as 0: without one every run "
                             "has another seed, and none could go on from another's file")
        settings = {name: value for name, value in self.get_params().items() if name not in _SILENT}
        if callable(self.network):
            settings["network"] = f"{self.network.__module__}.{self.network.__qualname__}"
        return Checkpoint(self.checkpoint,
                          parameters={**settings, "seed": seed, "threads": threads},
                          data=images.fingerprint(), code=hash_modules(_MODULES))


def _check_pixels(X: np.ndarray) -> None:
    low, high = float(X.min()), float(X.max())
    if low < 0 or high > 1:
        raise InputError(f"pixels must lie in [0, 1] where image_shape is set, but X runs from "
                         f"{low:g} to {high:g}; divide bytes by 255")
