"""Short fits of the classifiers whose weights are clustered, and of the clusters."""

from functools import partial
from typing import Any

import clusterbook
from clusterbook import classifier, weights

from . import CLASSES, DIGITS, USUAL


def trained(**settings: Any) -> Any:
    usual = {**USUAL, "hidden": [24, 20], "epochs": 4, "learning_rate": 0.1, "batch_size": 32}
    return classifier.train_classifier(DIGITS[:200], CLASSES[:200], DIGITS[200:], CLASSES[200:],
                                       **usual | settings)


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


FITS = {
    "classifier: plain": trained,
    "classifier: bias": partial(trained, bias=True),
    "classifier: Glorot": partial(trained, init="glorot", bias=True),
    "classifier: adam": partial(trained, optimizer="adam", learning_rate=0.01),
    "classifier: dropout": partial(trained, dropout=0.5),
    "classifier: l1": partial(trained, l1=1e-3),
    "classifier: pruned": partial(trained, pruning_epochs=4),
    "classifier: pruned, dropout": partial(trained, pruning_epochs=4, dropout=0.3),
    "classifier: blocks": partial(trained, blocks=4, block_weight=5.0),
    "weights: joint": coclustering,
    "weights: quality": quality,
    "weights: the whole network": network_graph,
}
