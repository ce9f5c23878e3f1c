"""A fitted `IDC` in a file, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import clone

from .. import training
from ..checkpoints import as_json, load_model, save_model
from .model import Model

if TYPE_CHECKING:
    from .estimator import IDC

_NOT_STORED = ("checkpoint", "random_state", "device", "progress", "save_seed_checkpoints")


def write(model: IDC, path: str | Path) -> None:
    """Settings and weights to a file of torch's format."""
    settings = {name: value for name, value in model.get_params().items()
                if name not in _NOT_STORED}
    save_model(path, "IDC", {
        "settings": as_json(settings), "used": model.used_features_.tolist(),
        "kept_epoch": model.kept_epoch_, "compression": model.compression_,
        "weights": model.model_.state_dict()})


def read(kind: type[IDC], path: str | Path, place: torch.device, device: str) -> IDC:
    """The model in a file of `write`; raises InputError if there is none."""
    def make(stored: dict[str, Any]) -> IDC:
        model = clone(kind(**json.loads(stored["settings"]), device=device))
        with training.seeded(0):            # the first weights, soon replaced, draw random numbers
            model.model_ = Model(model, sum(stored["used"]))
        model.model_.load_state_dict(stored["weights"])
        model.model_.to(place).eval()
        model.used_features_, model.n_features_in_ = np.array(stored["used"]), len(stored["used"])
        model.kept_epoch_, model.compression_ = stored["kept_epoch"], stored["compression"]
        return model

    return load_model(path, "IDC", place, make)
