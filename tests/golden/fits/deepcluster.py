"""Short fits of DeepCluster, its probe and its k-means."""

from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch

import clusterbook
from clusterbook.deepcluster import clustering

from . import CLASSES, DIGITS, USUAL

COLORS = np.random.default_rng(0).random((80, 3 * 16 * 16), dtype=np.float32)


def deepcluster(X: Any = DIGITS, y: np.ndarray | None = CLASSES, **settings: Any) -> Any:
    usual = {**USUAL, "n_clusters": 12, "image_shape": (1, 8, 8) if X is DIGITS else (3, 16, 16),
             "n_components": 16, "epochs": 2, "batch_size": 64, "flip": False}
    y = None if y is None else y[:len(X)]
    model = clusterbook.DeepCluster(**usual | settings).fit(X, y)
    return {"model": model, "predicted": model.predict(X), "reduced": model.transform(X),
            "features": model.features(X)}


def deepcluster_probe() -> Any:
    model = deepcluster()["model"]
    probed = {layer: model.linear_probe(DIGITS, CLASSES, layer=layer)
              for layer in (1, 2, "features")}
    small = model.linear_probe(DIGITS[:200], CLASSES[:200], X_test=DIGITS[200:],
                               y_test=CLASSES[200:], layer=1, most_numbers=64)
    return {**probed, "averaged": small}


def kmeans_from_afar(**settings: Any) -> Any:
    """k-means of which half of the first centers are far from all samples."""
    X = torch.from_numpy(DIGITS).to(torch.get_default_dtype())
    first = torch.cat([X[:6], X[:6] + 100])
    with mock.patch.object(clustering, "plus_plus", lambda *_: first.clone()):
        return clustering.kmeans(X, len(first), **settings)


def big_network(name: str, **settings: Any) -> Any:
    """AlexNet and VGG-16 as they are made: the weights, and features of a few images."""
    X = np.random.default_rng(2).random((4, 3 * 64 * 64), dtype=np.float32)
    return deepcluster(X, None, network=name, image_shape=(3, 64, 64), n_clusters=2,
                       n_components=2, batch_size=4, **settings)


FITS = {
    "deepcluster: digits": partial(deepcluster, epochs=3),
    "deepcluster: colors": partial(deepcluster, COLORS),
    "deepcluster: no Sobel": partial(deepcluster, sobel=False),
    "deepcluster: colors, no Sobel": partial(deepcluster, COLORS, sobel=False),
    "deepcluster: not whitened": partial(deepcluster, whiten=False),
    "deepcluster: not of length 1": partial(deepcluster, normalize=False),
    "deepcluster: all dimensions": partial(deepcluster, n_components=None),
    "deepcluster: natural sampling": partial(deepcluster, sampling="natural"),
    "deepcluster: empty clusters stay": partial(kmeans_from_afar, reassign_empty=False),
    "deepcluster: empty clusters": kmeans_from_afar,
    "deepcluster: one classifier": partial(deepcluster, renew_classifier=False),
    "deepcluster: whole images": partial(deepcluster, crop_scale=None),
    "deepcluster: mirrored": partial(deepcluster, COLORS, flip=True, crop_scale=(0.5, 0.9)),
    "deepcluster: ImageNet's statistics": partial(deepcluster, COLORS,
                                                  pixel_statistics="imagenet"),
    "deepcluster: other descent": partial(deepcluster, learning_rate=0.1, momentum=0.5,
                                          weight_decay=1e-3),
    "deepcluster: no epochs": partial(deepcluster, epochs=0),
    "deepcluster: a batch of one left out": partial(deepcluster, batch_size=23),
    "deepcluster: AlexNet": partial(big_network, "alexnet", epochs=1),
    "deepcluster: VGG-16": partial(big_network, "vgg16", epochs=0),
    "deepcluster: probe": deepcluster_probe,
}
