"""Short fits of TELL."""

from functools import partial
from typing import Any

import numpy as np

import clusterbook

from . import CLASSES, DIGITS, TABLE, USUAL


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


FITS = {
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
