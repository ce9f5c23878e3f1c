"""A fitted `DeepCluster` in a file, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from sklearn.base import clone

from .. import training
from ..checkpoints import as_json, load_model, save_model
from ..errors import InputError
from .networks import build
from .reduction import Reduction

if TYPE_CHECKING:
    from .estimator import DeepCluster

_NOT_STORED = ("checkpoint", "random_state", "device", "progress", "num_workers")
_TUPLES = ("image_shape", "crop_scale")


def write(model: DeepCluster, path: str | Path) -> None:
    """Settings and weights to a file of torch's format."""
    settings = {name: value for name, value in model.get_params().items()
                if name not in _NOT_STORED}
    if not isinstance(settings["network"], str):
        settings["network"] = None              # a function is no data; `read` is given it again
    save_model(path, "DeepCluster", {
        "settings": as_json(settings), "shape": list(model.shape_),
        "statistics": [model.pixel_mean_, model.pixel_std_], "reduction": asdict(model.reduction_),
        "centers": torch.from_numpy(model.cluster_centers_), "inertia": model.inertia_,
        "weights": model.network_.state_dict()})


def read(kind: type[DeepCluster], path: str | Path, device: str,
         network: Callable[..., Any] | None) -> DeepCluster:
    """The model in a file of `write`; raises InputError if there is none."""
    place = training.resolve_device(device)

    def make(stored: dict[str, Any]) -> DeepCluster:
        settings = json.loads(stored["settings"])
        settings |= {name: tuple(settings[name]) for name in _TUPLES if settings[name] is not None}
        settings["network"] = settings["network"] or network
        if settings["network"] is None:
            raise InputError("its network was made by a function; give it again by network=")
        model = clone(kind(**settings, device=device))
        with training.seeded(0):        # the first weights, soon replaced, draw random numbers
            model.network_ = build(model.network, stored["shape"], model.sobel)
        model.network_.load_state_dict(stored["weights"])
        model.network_.to(place).eval()
        model._adopt_state(tuple(stored["shape"]), stored["statistics"],
                           Reduction(**stored["reduction"]), stored["centers"], stored["inertia"])
        return model

    return load_model(path, "DeepCluster", place, make)
