"""Settings: what they may be, and what they are refused for before any training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import torch

from ..errors import InputError, unknown
from .kmeans import BACKENDS, faiss_or_refuse
from .networks import checked_shape
from .sampling import SAMPLINGS
from .transforms import IMAGENET

if TYPE_CHECKING:
    from .estimator import DeepCluster

_CHOICES = {"sampling": SAMPLINGS, "kmeans_backend": BACKENDS, "unreadable": ("refuse", "skip"),
            "color": ("refuse", "convert")}
_WHOLE = {"n_clusters": 1, "kmeans_max_iter": 1, "kmeans_n_init": 1, "epochs": 0, "batch_size": 2,
          "num_workers": 0}
_SWITCHES = ("sobel", "whiten", "normalize", "reassign_empty", "renew_classifier", "flip",
             "keep_assignments")
#: The shape of what these networks see where none is given.
_USUAL = {"alexnet": (3, 224, 224), "vgg16": (3, 224, 224)}


def check_settings(settings: DeepCluster) -> None:
    """Refuse what can't be trained.

    Raises
    ------
    InputError
        It names the setting, what it must be and what it is.
    """
    for name, known in _CHOICES.items():
        if getattr(settings, name) not in known:
            raise unknown(name, getattr(settings, name), known)
    for name, least in _WHOLE.items():
        if not _is_whole(getattr(settings, name), least):
            why = (": batch normalization needs two images to compare"
                   if name == "batch_size" and getattr(settings, name) == 1 else "")
            raise InputError(f"{name} must be a whole number of at least {least}, not "
                             f"{getattr(settings, name)!r}{why}")
    for name in ("n_components", "pca_samples", "resize"):
        value = getattr(settings, name)
        if value is not None and not _is_whole(value, 1):
            raise InputError(f"{name} must be None or a whole number of at least 1, not {value!r}")
    for name in ("learning_rate", "momentum", "weight_decay"):
        value = getattr(settings, name)
        if not _is_number(value) or value < 0 or (name == "learning_rate" and value == 0):
            floor = "above" if name == "learning_rate" else "at least"
            raise InputError(f"{name} must be a number {floor} 0, not {value!r}")
    for name in _SWITCHES:
        if not isinstance(getattr(settings, name), bool):
            raise InputError(f"{name} must be True or False, not {getattr(settings, name)!r}")
    scale = settings.crop_scale
    if scale is not None and (not _are_numbers(scale, 2) or not 0 < scale[0] <= scale[1] <= 1):
        raise InputError("crop_scale must be None or the smallest and largest part of an image's "
                         f"area, such as (0.08, 1.0), not {scale!r}")
    if settings.kmeans_backend == "faiss":
        faiss_or_refuse()


def shape_of(settings: DeepCluster, n_features: int | None = None) -> tuple[int, ...]:
    """What the network sees: (channels, height, width), or (n_features,) for rows of an array.

    Raises
    ------
    InputError
        If the shape is missing, or is not that of the rows.
    """
    shape = settings.image_shape
    if shape is None and isinstance(settings.network, str):
        shape = _USUAL.get(settings.network)
    if shape is None:
        if isinstance(settings.network, str) or n_features is None:
            raise InputError("DeepCluster needs image_shape, (channels, height, width) of what the "
                             "network is to see")
        return (n_features,)
    shape = checked_shape(shape)
    if n_features is not None and math.prod(shape) != n_features:
        raise InputError(f"image_shape {shape} has {math.prod(shape)} values, but X has "
                         f"{n_features} features")
    return shape


def statistics_of(settings: DeepCluster, channels: int
                  ) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Mean and deviation of each channel that were asked for; None for those of the data.

    Raises
    ------
    InputError
        If there are not as many as channels.
    """
    asked = settings.pixel_statistics
    if isinstance(asked, str) and asked == "data":
        return None
    if isinstance(asked, str):
        if asked != "imagenet":
            raise unknown("pixel_statistics", asked, ("data", "imagenet"))
        asked = IMAGENET
        if channels == 1:                       # of gray images: the mean over colors
            asked = [[sum(part) / 3] for part in IMAGENET]
    if (not isinstance(asked, Sequence) or len(asked) != 2
            or not all(_are_numbers(part, channels) for part in asked) or min(asked[1]) <= 0):
        raise InputError("pixel_statistics must be 'data', 'imagenet', or means and deviations of "
                         f"{channels} channels, not {settings.pixel_statistics!r}")
    return torch.tensor(asked[0]), torch.tensor(asked[1])


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= least


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _are_numbers(values: Any, count: int) -> bool:
    return (isinstance(values, Sequence) and not isinstance(values, str) and len(values) == count
            and all(_is_number(value) for value in values))
