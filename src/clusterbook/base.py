"""The base of the estimators: scikit-learn's tags, their settings, and the checkpoint of a fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
    clone,
)
from torch import Tensor

from . import paths
from .checkpoints import Checkpoint
from .errors import InputError
from .fingerprint import hash_modules, reached


class DeepClusterer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Base of the estimators that train a network; the constructor only stores its arguments."""

    #: Parameters that do not decide the result, or only together with others.
    _silent: ClassVar[tuple[str, ...]] = ("checkpoint", "progress", "device", "random_state")
    #: Settings of earlier versions, which `_from_settings` accepts at these values only.
    _removed: ClassVar[dict[str, Any]] = {}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]  # the network's, whatever comes
        return tags

    def _settings(self) -> dict[str, Any]:
        """The parameters that decide the result, but for the seed, in types that JSON knows."""
        return {name: list(value) if isinstance(value, Sequence) and not isinstance(value, str)
                else value for name, value in self.get_params().items() if name not in self._silent}

    @classmethod
    def _from_settings(cls, text: str, **more: Any) -> Any:
        """An estimator with the settings of a saved one, as JSON."""
        settings = json.loads(text)
        for name, value in cls._removed.items():
            if settings.pop(name, value) != value:
                raise ValueError(f"its setting {name} is no longer supported")
        return cls(**settings, **more)

    def _checkpoint(self, data: str, seed: int, threads: int) -> Checkpoint | None:
        """The checkpoint, if one is asked for, of a fit to data with that fingerprint.

        Raises InputError if no ``random_state`` is given, or nothing can be written there.
        """
        if self.checkpoint is None:
            return None
        if self.random_state is None:
            raise InputError("a checkpoint needs random_state, such as 0: without one every start "
                             "has another seed, and none could go on from another's file")
        own = {kind.__module__.partition(".")[2] for kind in type(self).__mro__
               if kind.__module__.startswith(f"{__package__}.")}
        return Checkpoint(self.checkpoint, data=data, code=hash_modules(reached(own)),
                          parameters={**self._settings(), "seed": seed, "threads": threads})


def variant(estimator: DeepClusterer, seed: int, name: str = "main",
            **changes: Any) -> DeepClusterer:
    """An unfitted copy with a seed and other settings, and with a checkpoint if the run keeps any.

    Examples
    --------
    >>> from clusterbook import TELL
    >>> variant(TELL(10), 3, "adam", optimizer="adam")
    TELL(optimizer='adam', random_state=3)
    """
    return clone(estimator).set_params(
        **{"random_state": seed, "checkpoint": paths.checkpoint(f"{name}-{seed}"), **changes})


def as_tensor(X: np.ndarray, device: torch.device) -> Tensor:
    """Samples as a tensor on the device; an array that can't be written to is copied."""
    return torch.as_tensor(X if X.flags.writeable else X.copy(), device=device)
