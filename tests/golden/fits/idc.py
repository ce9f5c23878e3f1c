"""Short fits of IDC, and its measures."""

from functools import partial
from typing import Any

import numpy as np

import clusterbook
from clusterbook import idc as measures

from . import CLASSES, DIGITS, TABLE, USUAL, WINE

CONSTANT = np.hstack([TABLE, np.ones((len(TABLE), 2), dtype=np.float32)])


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


FITS = {
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
