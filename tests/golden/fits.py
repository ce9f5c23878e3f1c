"""Short fits that between them use every stage and option of every method.

A fit is a function without arguments in `FITS`, which takes a second or two and returns anything
that `flat` can take apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits, load_wine
from torch import nn

import clusterbook
from clusterbook import classifier, training, weights
from clusterbook import idc as measures
from clusterbook.deepcluster import clustering

DIGITS = (load_digits().data[:300] / 16).astype(np.float32)
CLASSES = load_digits().target[:300]
WINE = load_wine()
TABLE = ((WINE.data - WINE.data.mean(0)) / WINE.data.std(0)).astype(np.float32)
CONSTANT = np.hstack([TABLE, np.ones((len(TABLE), 2), dtype=np.float32)])
COLORS = np.random.default_rng(0).random((80, 3 * 16 * 16), dtype=np.float32)
USUAL = {"random_state": 0, "progress": False, "device": "cpu"}


def flat(value: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """The arrays that *value* consists of, each with a name; no seconds."""
    if isinstance(value, nn.Module):
        value = dict(value.state_dict())
    elif isinstance(value, BaseEstimator):
        learned = sorted(n for n in dir(value) if n.endswith("_") and not n.startswith("_"))
        value = {n: getattr(value, n) for n in learned if hasattr(value, n)}
    elif isinstance(value, training.History):
        value = list(value.rows)
    elif dataclasses.is_dataclass(value):
        value = vars(value)
    elif isinstance(value, torch.Tensor):
        value = value.numpy(force=True)
    if isinstance(value, Mapping):
        for key, item in value.items():
            if "seconds" not in str(key):
                yield from flat(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple) and any(
            isinstance(item, Mapping | nn.Module) or hasattr(item, "shape") for item in value):
        for i, item in enumerate(value):
            yield from flat(item, f"{name}[{i}]")
    else:
        array = np.asarray("None" if value is None else value)
        if array.dtype.hasobject:
            raise TypeError(f"{name} is a {type(value).__name__}, which can't be compared")
        yield name or "value", array


def tell(X: np.ndarray = DIGITS, y: np.ndarray | None = CLASSES, **settings: Any) -> Any:
    shape = (1, 8, 8) if X is DIGITS else None
    usual = {**USUAL, "n_clusters": 10, "image_shape": shape, "epochs": 8, "batch_size": 64,
             "evaluate_every": 2}
    model = clusterbook.TELL(**usual | settings).fit(X, y)
    return {"model": model, "predicted": model.predict(X), "embedding": model.transform(X),
            "centers": model.reconstruct_centers()}


def tell_snapshots() -> Any:
    model = tell(snapshot_epochs=[1, 3])["model"]
    return {epoch: model.at(epoch).transform(DIGITS) for epoch in (1, 3)}


def tell_online(**settings: Any) -> Any:
    model = tell(DIGITS[:100], None, **settings)["model"]
    moved = []
    for start in range(100, 300, 50):
        model.partial_fit(DIGITS[start:start + 50])
        moved += [model.labels_.copy(), model.cluster_centers_.copy()]
    return moved


TELL = {
    "tell: cnn": tell,
    "tell: fcn": partial(tell, network="fcn", hidden=[300, 100], epochs=16, batch_size=30),
    "tell: fixed features": partial(tell, network="none"),
    "tell: fixed features, first centers from samples": partial(tell, network="none",
                                                                init="samples"),
    "tell: two-stage": partial(tell, training="two-stage"),
    "tell: adam": partial(tell, optimizer="adam"),
    "tell: gradients as they are": partial(tell, normalize_gradients=False),
    "tell: first centers from samples": partial(tell, init="samples"),
    "tell: bfloat16": partial(tell, precision="bfloat16"),
    "tell: other weights": partial(tell, alpha=0.01, clustering_weight=0.1, embedding_size=5),
    "tell: a batch of all": partial(tell, batch_size=1000, epochs=16),
    "tell: no epochs": partial(tell, epochs=0, init="samples"),
    "tell: a table": partial(tell, TABLE, None, n_clusters=3, hidden=[20]),
    "tell: a table, fixed features": partial(tell, TABLE, None, network="none"),
    "tell: snapshots": tell_snapshots,
    "tell: online": tell_online,
    "tell: online, adam, gradients as they are": partial(
        tell_online, optimizer="adam", normalize_gradients=False, network="none"),
}


def idc(X: np.ndarray = TABLE, y: np.ndarray | None = WINE.target, **settings: Any) -> Any:
    usual = {**USUAL, "n_clusters": 3, "encdec": [16, 4, 16], "clustering_head": [4, 16],
             "aux_classifier": 16, "gates_hidden_dim": 16, "epochs": 60, "ae_non_gated_epochs": 5,
             "ae_pretrain_epochs": 40, "start_global_gates_training_on_epoch": 50, "tau": 1.0,
             "batch_size": 50, "evaluate_every": 4, "lr_pretrain": 0.01, "lr_clustering": 0.05,
             "lr_aux_classifier": 1.0, "local_gates_lambda": 3.0}
    model = clusterbook.IDC(**usual | settings).fit(X, y)
    return {"model": model, "predicted": model.predict(X), "embedding": model.transform(X),
            "local": model.local_gates(X)}


def idc_measures() -> Any:
    X, y = TABLE + 0.5, WINE.target        # columns whose mean is not 0
    model = idc(X)["model"]
    gates, labels, half = model.local_gates(X), model.labels_, slice(0, None, 2)
    shares, selected = measures.cluster_features(gates, labels)
    found = {"shares": shares, "selected": selected, "greedy": measures.greedy_accuracy(y, labels),
             "f1": measures.selection_f1(gates > 0, np.abs(X) >= np.abs(X).mean(1)[:, None]),
             "faithfulness, classes": measures.faithfulness(model.predict, X, gates, y),
             "generalizability": measures.generalizability(
                 X[half], gates[half], labels[half], X[1::2], gates[1::2], labels[1::2])}
    for original in (False, True):
        found[f"{original}"] = {
            "open": measures.open_features(gates, original=original),
            "diversity": measures.diversity(gates, labels, original=original),
            "uniqueness": measures.uniqueness(X, gates, original=original),
            "faithfulness": measures.faithfulness(model.predict, X, gates, original=original)}
    small = {"subsets": 2, "size": 60}
    found["table 1"] = measures.as_in_table_1(model, X, y, **small)
    plain = idc(X, use_gating=False)["model"]
    found["attributions"] = measures.integrated_gradients(plain, X, kept=5)
    return found | {"table 1 without gates": measures.as_in_table_1(plain, X, y, **small)}


IDC = {
    "idc: all stages": idc,
    "idc: digits": partial(idc, DIGITS, CLASSES, n_clusters=10),
    "idc: no classes": partial(idc, y=None),
    "idc: no gates": partial(idc, use_gating=False),
    "idc: no coding rate": partial(idc, gtcr_loss=False),
    "idc: projected coding rate": partial(idc, gtcr_projection_dim=5, gtcr_eps=0.5, eps=0.2),
    "idc: batch norm gated": partial(idc, batch_norm="gated"),
    "idc: batch norm mixed": partial(idc, batch_norm="mixed"),
    "idc: select silhouette": partial(idc, select="silhouette", evaluate_every=2,
                                      lr_clustering=0.2),
    "idc: select last": partial(idc, select="last"),
    "idc: no mask": partial(idc, mask_percentage=0),
    "idc: no noise on the embedding": partial(idc, latent_noise_std=0),
    "idc: other weights": partial(idc, local_gates_lambda=0.1, global_gates_lambda=0.1,
                                  gtcr_lambda=0.1),
    "idc: the paper's form": partial(idc, form="paper"),
    "idc: constant columns dropped": partial(idc, CONSTANT),
    "idc: constant columns kept": partial(idc, CONSTANT, constant_columns="keep"),
    "idc: no global stage": partial(idc, start_global_gates_training_on_epoch=60),
    "idc: only the autoencoder": partial(idc, ae_pretrain_epochs=60),
    "idc: published temperature, other rates": partial(idc, tau=100.0, lr_clustering=0.02,
                                                       lr_aux_classifier=0.1),
    "idc: a batch of all": partial(idc, batch_size=500),
    "idc: measures": idc_measures,
}


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
    with mock.patch.object(clustering, "_plus_plus", lambda *_: first.clone()):
        return clustering.kmeans(X, len(first), **settings)


def big_network(name: str, **settings: Any) -> Any:
    """AlexNet and VGG-16 as they are made: the weights, and features of a few images."""
    X = np.random.default_rng(2).random((4, 3 * 64 * 64), dtype=np.float32)
    return deepcluster(X, None, network=name, image_shape=(3, 64, 64), n_clusters=2,
                       n_components=2, batch_size=4, **settings)


DEEPCLUSTER = {
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

# --------------------------------------------------------- classifiers, their weights, and the rest


def trained(**settings: Any) -> Any:
    usual = {**USUAL, "hidden": [24, 20], "epochs": 4, "learning_rate": 0.1, "batch_size": 32}
    return classifier.train_classifier(DIGITS[:200], CLASSES[:200], DIGITS[200:], CLASSES[200:],
                                       **usual | settings)


CLASSIFIER = {
    "classifier: plain": trained,
    "classifier: bias": partial(trained, bias=True),
    "classifier: Glorot": partial(trained, init="glorot", bias=True),
    "classifier: adam": partial(trained, optimizer="adam", learning_rate=0.01),
    "classifier: dropout": partial(trained, dropout=0.5),
    "classifier: l1": partial(trained, l1=1e-3),
    "classifier: pruned": partial(trained, pruning_epochs=4),
    "classifier: pruned, dropout": partial(trained, pruning_epochs=4, dropout=0.3),
    "classifier: blocks": partial(trained, blocks=4, block_weight=5.0),
}


def coclustering() -> Any:
    W, rows, columns = weights.planted_blocks(48, 40, n_clusters=4, random_state=0)
    model = clusterbook.WeightCoclustering(4, random_state=0)
    turned = clusterbook.WeightCoclustering(4, random_state=0).fit(W.T)
    labels = model.fit(W).row_labels_, model.column_labels_
    return {"W": W, "planted": [rows, columns], "model": model, "turned": turned,
            "cut": weights.normalized_cut(W, *labels),
            "inside": weights.share_inside(W, *labels),
            "squares": weights.share_inside(W, *labels, power=2),
            "scaled": weights.degree_scale(W),
            "separate": list(weights.separate_kmeans(W, 4))}


def quality() -> Any:
    network, _ = trained(dropout=0.5, epochs=10)
    usual = {"n_clusters": 3, "network_clusters": 4, "n_init": 2, "n_shuffles": 4,
             "random_state": 0}
    found = weights.quality(network, DIGITS[200:], CLASSES[200:], **usual)
    return {"metrics": found.metrics(), "effects": found.effects, "layer": found.layer,
            "found": found.found, "information": found.information, "lesions": found.lesions,
            "drop": found.lesions.drop, "excess": found.lesions.excess,
            "cluster": weights.clusterability(network, **usual)}


def network_graph() -> Any:
    network, _ = trained(pruning_epochs=4)
    layers = [network.weights(i) for i in range(3)]
    A = weights.bipartite(layers)
    return {"A": A, "labels": weights.partition(A, 4, n_init=3, random_state=0),
            **{f"test {keep}": weights.network_test(layers, 4, n_shuffles=3, n_init=2,
                                                    keep_zeros=keep, random_state=0)
               for keep in (False, True)}}


FITS: dict[str, Callable[[], Any]] = {
    **TELL, **IDC, **DEEPCLUSTER, **CLASSIFIER,
    "weights: joint": coclustering,
    "weights: quality": quality,
    "weights: the whole network": network_graph,
}
