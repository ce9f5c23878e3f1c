"""The base of the estimators: their settings, the checkpoint of a fit, and files of models."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn import base
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from . import paths, training
from .checkpoints import Checkpoint, as_json
from .errors import InputError
from .fingerprint import hash_modules, reached


class DeepClusterer(base.ClassNamePrefixFeaturesOutMixin, base.TransformerMixin, base.ClusterMixin,
                    base.BaseEstimator):
    """Base of the estimators that train a network; the constructor only stores its arguments.

    An estimator adds ``_fitted()``, what `save` stores beside the settings: ``weights``, and what
    ``_restore(stored)`` needs, which takes the stored attributes and returns a new network, whose
    weights `load` then replaces.
    """

    #: Parameters that do not decide the result, or only together with others.
    _silent: ClassVar[tuple[str, ...]] = ("checkpoint", "progress", "device", "random_state")
    #: Settings of earlier versions, which `load` accepts at these values only.
    _removed: ClassVar[dict[str, Any]] = {}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]  # the network's, whatever comes
        return tags

    def _settings(self) -> dict[str, Any]:
        """The parameters that decide the result, but for the seed, in types that JSON knows."""
        return {name: list(value) if isinstance(value, Sequence) and not isinstance(value, str)
                else value for name, value in self.get_params().items() if name not in self._silent}

    def save(self, path: str | Path) -> None:
        """Write settings and weights to a file; see `load`.

        Raises InputError if the file can't be written, and leaves it as it was.
        """
        check_is_fitted(self)
        buffer = io.BytesIO()
        torch.save({"clusterbook": type(self).__name__, "settings": as_json(self._settings()),
                    **self._fitted()}, buffer)
        # A link stays a link.
        paths.write_atomically(Path(path).resolve(), buffer.getbuffer(), noun="the model")

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", **settings: Any) -> Self:
        """A fitted model from a file of `save`, without labels and history.

        *settings* are those that a file can't hold, such as a function that makes a network.

        Raises InputError if the file is missing or no such file, if a setting that was removed
        since has another value than its default, or if the weights are of another network.
        """
        found = training.resolve_device(device)
        try:
            stored = torch.load(path, map_location=found, weights_only=True)
            if stored["clusterbook"] != cls.__name__:
                raise ValueError(f"it holds {stored['clusterbook']!r}")
            settings = {**json.loads(stored["settings"]), **settings}
            for name, value in cls._removed.items():
                if settings.pop(name, value) != value:
                    raise ValueError(f"only {name}={value!r} is still supported")
            settings = {name: tuple(value) if isinstance(value, list) else value
                        for name, value in settings.items()}
            return cls(**settings, device=device)._restored(stored, found)
        except FileNotFoundError:
            raise InputError(f"there is no file {path} to load a model from") from None
        except Exception as error:                      # torch reports damage by half a dozen types
            reason = str(error).partition("\n")[0]
            raise InputError(f"{path} is no model that {cls.__name__}.save wrote ({reason}); name "
                             "another file, or fit and save anew") from error

    def _restored(self, stored: Mapping[str, Any], device: torch.device) -> Self:
        """This model, fitted as the stored one."""
        with training.seeded(0):            # the first weights, soon replaced, draw random numbers
            network = self._restore(stored)
        network.load_state_dict(stored["weights"])
        network.to(device).eval()
        return self

    def _checkpoint(self, data: str, seed: int, threads: int) -> Checkpoint | None:
        """The checkpoint, if one is asked for, of a fit to data with that fingerprint.

        Raises InputError if no ``random_state`` is given, or nothing can be written there.
        """
        if self.checkpoint is None:
            return None
        if self.random_state is None:
            raise InputError("a checkpoint needs random_state, such as 0, to go on from it later")
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
    return base.clone(estimator).set_params(
        **{"random_state": seed, "checkpoint": paths.checkpoint(f"{name}-{seed}"), **changes})


def as_tensor(X: np.ndarray, device: torch.device) -> Tensor:
    """Samples as a tensor on the device; an array that can't be written to is copied."""
    return torch.as_tensor(X if X.flags.writeable else X.copy(), device=device)
