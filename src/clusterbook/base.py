"""The base of the estimators: settings, the start of a fit, prediction, files, memory of a fit."""

from __future__ import annotations

import inspect
import io
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn import base
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from . import checks, paths, training
from .checkpoints import Checkpoint, as_json, code_hash, fingerprint
from .checks import InputError
from .metrics import contingency

#: Settings that no longer exist, with the one value that the networks in data/records have.
FORMER = {
    "color": "convert", "compile": False, "compression": "released", "gate_noise": 0.25,
    "keep_assignments": True, "kmeans_backend": "torch", "kmeans_max_iter": 20, "kmeans_n_init": 1,
    "learning_rate": None, "n_init": 1, "pca_samples": 100_000, "precision": "float32",
    "reconstruction": "mse", "regularizer": "released", "sched_clustering_min_lr": 1e-6,
    "sched_pretrain_min_lr": 1e-6, "seeds": 1, "unreadable": "refuse", "validate": True}

_SEEN = ("n_features_in_", "feature_names_in_")     # of the samples of the last fit


@dataclass(repr=False, eq=False)
class DeepClusterer(base.ClassNamePrefixFeaturesOutMixin, base.TransformerMixin, base.ClusterMixin,
                    base.BaseEstimator):
    """Base of the estimators that train a network; the constructor only stores its arguments.

    An estimator adds settings, ``n_clusters`` and ``batch_size`` among them, and ``fit``;
    ``_embedding(X)`` and ``_assign(embedding)``, two tensors for `transform` and `predict`;
    ``_new_model(n_features)``, with random first weights; and ``_fitted()``, what `save` stores:
    ``weights``, and what ``_restore(stored)`` needs to make a network for `load`.

    Parameters
    ----------
    random_state : int, RandomState instance or None
        Decides first weights, all noise and the order of the samples.
    device, threads, checkpoint, progress
        See `resolve_device`, `threads` and `train` of `training`.
    """

    #: Parameters that do not decide the result, or only together with others.
    _silent: ClassVar[tuple[str, ...]] = ("checkpoint", "progress", "device", "random_state",
                                           "num_workers")
    #: Parameters that are one of some names; the least value of a whole number, if not 1; and the
    #: numbers that can't be 0.
    _choices: ClassVar[dict[str, Sequence[str]]] = {}
    _least: ClassVar[dict[str, int]] = {"epochs": 0}
    _positive: ClassVar[tuple[str, ...]] = ()

    _: KW_ONLY
    random_state: Any = None
    device: str = "auto"
    threads: int | None = None
    checkpoint: str | Path | None = None
    progress: bool | None = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]  # the network's, whatever comes
        return tags

    # ------------------------------------------------------------------------- the start of a fit

    def _check_settings(self) -> None:
        """Raise InputError for an unknown name, a wrong type, or a number that is out of range."""
        for parameter in fields(self):
            name, value = parameter.name, getattr(self, parameter.name)
            if name in self._choices:
                checks.one_of(name, value, self._choices[name])
            elif parameter.type == "int" or parameter.type == "int | None" and value is not None:
                checks.whole(name, value, self._least.get(name, 1))
            elif parameter.type == "float":
                checks.number(name, value, zero=name not in self._positive)
            elif parameter.type == "Sequence[int]":
                checks.wholes(name, value)
            elif parameter.type == "bool" and not isinstance(value, bool | np.bool_):
                raise InputError(f"{name} must be True or False, not {value!r}")

    def _validated(self, X: ArrayLike, fitting: bool = False) -> np.ndarray:
        """Finite samples in float32; pixels in [0, 1] where there is an ``image_shape``."""
        if isinstance(X, Tensor):       # one may need a gradient, and numpy has no bfloat16
            X = X.detach().cpu()
            X = X.float() if X.dtype == torch.bfloat16 else X
        if issparse(X):
            raise InputError("X is a sparse matrix, and networks take dense ones: give X.toarray()")
        checks.rows(X, hasattr(self, "image_shape"))
        seen_by = base.clone(self) if fitting else self     # a refused fit leaves a model as it was
        given, X = X, validate_data(seen_by, X, dtype=np.float32, order="C", reset=fitting,
                                    ensure_min_samples=2 if fitting else 1)
        if getattr(self, "image_shape", None) is not None:
            checks.pixels(X, checks.image_shape(self.image_shape))
        if fitting:
            flat = np.asarray(given)[:, X.max(0) == X.min(0)].astype(float)
            if (np.ptp(flat, axis=0) > 1e-12 * np.abs(flat).max(0)).any():      # not by rounding
                warnings.warn("a column of X varies too little beside its size, and is constant in "
                              "single precision: subtract its mean, or scale X, in double "
                              "precision first", UserWarning, stacklevel=3)
            self._seen = {name: value for name, value in vars(seen_by).items() if name in _SEEN}
        return X

    @contextmanager
    def _fitting(self, samples: Any, y: ArrayLike | None, shape: Any, *content: Any
                 ) -> Iterator[tuple[torch.Generator, Callable[..., training.History]]]:
        """Threads, random numbers and checkpoint of a fit; yields the generator, and `train`.

        *shape* is that of a sample, for ``_step_size``; *content* tells these samples from others.
        """
        n, seen = len(samples), vars(self).pop("_seen", {})
        if self.n_clusters > n:
            raise InputError(f"n_clusters={self.n_clusters} exceeds n_samples={n}; ask for fewer")
        if y is not None:
            contingency(y, np.zeros(n, dtype=int))          # refuses what could not be scored
        seed, step_size = checks.as_seed(self.random_state), self._step_size(n, shape)
        with (training.threads(step_size, self.threads, self.checkpoint) as number,
              training.seeded(seed, samples.device) as generator):
            yield generator, partial(
                training.train, batch_size=self.batch_size, generator=generator,
                checkpoint=self._checkpoint(content, seed, number, y), stop=paths.time_is_up,
                progress=self.progress)
        for name in _SEEN:
            vars(self).pop(name, None)
        vars(self).update(seen)

    def _step_size(self, n_samples: int, n_features: int) -> int:
        """Multiply-adds of a training step; backward takes twice as many as forward."""
        with training.seeded(0), torch.device("meta"):
            model = self._new_model(n_features)
        return 3 * training.multiply_adds(model, (min(self.batch_size, n_samples), n_features))

    def _settings(self) -> dict[str, Any]:
        """The parameters that decide the result, but for the seed, in types that JSON knows."""
        return {name: _told(value) for name, value in self.get_params().items()
                if name not in self._silent}

    def _checkpoint(self, content: Sequence[Any], seed: int, threads: int,
                    y: ArrayLike | None = None) -> Checkpoint | None:
        """The checkpoint, if one is asked for; InputError without a ``random_state``."""
        if self.checkpoint is None:
            return None
        if self.random_state is None:
            raise InputError("a checkpoint needs random_state, such as 0, to go on from it later")
        folders = {Path(inspect.getfile(kind)).parent for kind in type(self).__mro__
                   if kind.__module__.startswith(f"{__package__}.")}
        return Checkpoint(self.checkpoint, data=fingerprint(*content),
                          y=fingerprint(() if y is None else np.unique(y, return_inverse=True)[1]),
                          code=code_hash(*folders),
                          parameters={**self._settings(), "seed": seed, "threads": threads})

    # ----------------------------------------------------------------------- the fitted estimator

    def fit_predict(self, X: Any, y: ArrayLike | None = None) -> np.ndarray:
        """The clusters of the samples that ``fit`` was given, shape (n_samples,)."""
        return self.fit(X, y).labels_           # scikit-learn's leaves y out

    def predict(self, X: Any) -> np.ndarray:
        """The cluster of each sample, shape (n_samples,)."""
        return self._assign(self._embedding(X)).cpu().numpy()

    def transform(self, X: Any) -> np.ndarray:
        """The embedding of each sample, which is clustered, shape (n_samples, n_dimensions)."""
        return self._embedding(X).cpu().numpy()

    def save(self, path: str | Path) -> None:
        """Write settings and weights to a file; see `load`.

        The settings are those of the fit, also if some were changed after it. Raises InputError if
        the file can't be written, and leaves it as it was.
        """
        check_is_fitted(self)
        buffer = io.BytesIO()
        names = getattr(self, "feature_names_in_", None)
        torch.save({"clusterbook": type(self).__name__, "settings": as_json(self._fit_settings),
                    "feature_names": names if names is None else [*map(str, names)],
                    **self._fitted()}, buffer)
        # A link stays a link.
        paths.write_atomically(Path(path).resolve(), buffer.getbuffer(), noun="the model")

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", **settings: Any) -> Self:
        """A fitted model from a file of `save`, without labels, history and optimizers.

        *settings* are those that a file can't hold, such as a function that makes a network.
        Raises InputError if the file is missing, is not a model, or has other settings or weights.
        """
        found = training.resolve_device(device)
        for name in settings:
            checks.one_of(f"parameter of {cls.__name__}", name, cls.__dataclass_fields__)
        try:
            stored = torch.load(path, map_location=found, weights_only=True)
            if stored["clusterbook"] != cls.__name__:
                raise ValueError(f"it holds {stored['clusterbook']!r}")
            kept = {name: tuple(value) if isinstance(value, list) else value
                    for name, value in json.loads(stored["settings"]).items()
                    if name in cls.__dataclass_fields__ or FORMER.get(name, ...) != value}
            estimator = cls(**{**kept, **settings}, device=device)
            with training.seeded(0):        # the first weights, soon replaced, are drawn at random
                network = estimator._restore(stored)
            network.load_state_dict(stored["weights"])
            network.to(found).eval()
            if names := stored.get("feature_names"):
                estimator.feature_names_in_ = np.array(names, dtype=object)
            return estimator
        except InputError as error:
            raise InputError(f"{path} can't be loaded: {error}") from error
        except Exception as error:                      # torch reports damage by half a dozen types
            reason = getattr(error, "strerror", None) or checks.said(error).partition("\n")[0]
            raise InputError(f"{path} is no model that {cls.__name__}.save wrote ({reason}); name "
                             "another file, or fit and save anew") from error


def _told(value: Any) -> Any:
    """A setting in a type that JSON knows: a function by its name, a partial with its arguments."""
    if isinstance(value, partial):
        return f"{_told(value.func)} of {value.args} and {value.keywords}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    return getattr(value, "__qualname__", type(value).__qualname__ if callable(value) else value)


def variant(estimator: DeepClusterer, seed: int, name: str = "main",
            **changes: Any) -> DeepClusterer:
    """An unfitted copy with a seed and other settings, and with a checkpoint if the run keeps any.

    >>> from clusterbook import TELL
    >>> variant(TELL(10), 3, "adam", optimizer="adam")
    TELL(optimizer='adam', random_state=3)
    """
    return base.clone(estimator).set_params(
        **{"random_state": seed, "checkpoint": paths.checkpoint(f"{name}-{seed}"), **changes})


def peak_memory(estimators: Mapping[str, Any], X: ArrayLike) -> dict[str, float]:
    """The rise of a process's peak memory while an estimator is fitted, without that of a GPU.

    In mebibytes (2**20 bytes); NaN on systems other than Linux. *estimators* are not fitted, and of
    importable classes; *X* has shape (n_samples, n_features). Freed memory stays with a process and
    its peak never falls. So one process loads the library and the data, and a fork of it fits each
    estimator. Raises what a fit raised.
    """
    if not sys.platform.startswith("linux"):
        return dict.fromkeys(estimators, math.nan)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(_rises, dict(estimators), X).result()


def _rises(estimators: dict[str, Any], X: ArrayLike) -> dict[str, float]:
    """The rise of each fit, in a fork of this process."""
    taken, context = {}, get_context("fork")
    for name, estimator in estimators.items():
        received, sent = context.Pipe(duplex=False)
        fork = context.Process(target=_rise, args=(estimator, X, sent))
        fork.start()
        sent.close()                    # so that a fork that dies ends the wait, by EOFError
        taken[name] = received.recv()
        fork.join()
        if isinstance(taken[name], Exception):
            raise taken[name]
    return taken


def _rise(estimator: Any, X: ArrayLike, sent: Connection) -> None:
    """Send the rise of this process's peak of resident memory in a fit, in mebibytes."""
    import resource  # not on Windows

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        estimator.fit(X)
        sent.send((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10)
    except Exception as error:
        sent.send(error)


def as_tensor(X: np.ndarray, device: torch.device) -> Tensor:
    """Samples as a tensor on the device; an array that can't be written to is copied."""
    return torch.as_tensor(X if X.flags.writeable else X.copy(), device=device)
