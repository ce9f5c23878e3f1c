"""Settings: which there are, what they may be, and the original's configuration files.

The original's keys stand in sections; here a key of a section is one name, ``lr.pretrain`` is
``lr_pretrain``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from ..errors import InputError, unknown
from .losses import COMPRESSIONS, ERRORS, REGULARIZERS
from .networks import embedding_place

if TYPE_CHECKING:
    from .estimator import IDC

CHOICES: dict[str, tuple[str, ...]] = {
    "regularizer": tuple(REGULARIZERS),
    "reconstruction": tuple(ERRORS),
    "compression": tuple(COMPRESSIONS),
    "batch_norm": ("drifting", "gated", "mixed"),
    "select": ("loss", "silhouette", "last"),
    "precision": ("float32", "bfloat16"),
    "constant_columns": ("drop", "keep"),
}
_WHOLE = {"n_clusters": 1, "batch_size": 2, "epochs": 0, "seeds": 1, "ae_non_gated_epochs": 0,
          "ae_pretrain_epochs": 0, "start_global_gates_training_on_epoch": 0,
          "gates_hidden_dim": 1, "evaluate_every": 1}
_POSITIVE = ("gtcr_eps", "eps", "tau", "lr_pretrain", "lr_clustering", "lr_aux_classifier")
_NOT_NEGATIVE = ("latent_noise_std", "gate_noise", "local_gates_lambda", "global_gates_lambda",
                 "gtcr_lambda", "sched_pretrain_min_lr", "sched_clustering_min_lr")
_SWITCHES = ("gtcr_loss", "use_gating", "validate")

# The keys of the original's files and the setting that each is.
_SECTIONS = {"lr": ("pretrain", "clustering", "aux_classifier"),
             "sched": ("pretrain_min_lr", "clustering_min_lr")}
_KEYS = {
    "num_clusters": "n_clusters",
    **{key: key for key in (
        "batch_size", "epochs", "seeds", "ae_non_gated_epochs", "ae_pretrain_epochs",
        "start_global_gates_training_on_epoch", "mask_percentage", "latent_noise_std",
        "gtcr_loss", "gtcr_projection_dim", "gtcr_eps", "eps", "use_gating", "gates_hidden_dim",
        "encdec", "clustering_head", "tau", "aux_classifier", "local_gates_lambda",
        "global_gates_lambda", "gtcr_lambda", "save_seed_checkpoints", "validate")},
    **{f"{section}.{key}": f"{section}_{key}"
       for section, keys in _SECTIONS.items() for key in keys},
    "trainer.max_epochs": "epochs",
    "trainer.check_val_every_n_epoch": "evaluate_every",
    "trainer.accelerator": "device",
}
_DATA_KEYS = ("dataset", "data_dir", "scaler", "filepath_samples")
_ACCELERATORS = {"cpu": "cpu", "cuda": "cuda", "gpu": "auto", "auto": "auto"}


# ------------------------------------------------------------------------------------- files


def read_config(path: str | Path) -> tuple[dict[str, Any], list[str]]:
    """The settings in a file of the original's form, and the keys that mean nothing here.

    Parameters
    ----------
    path : str or Path
        A YAML file.

    Returns
    -------
    settings : dict
        Keywords of `IDC`.
    ignored : list of str
        The data keys, because samples come from whoever calls ``fit``; and what Lightning's trainer
        takes beyond ``max_epochs``, ``check_val_every_n_epoch`` and ``accelerator``.

    Raises
    ------
    InputError
        If there is no such file, it is not YAML of that form, has a key that the original does not
        know, or two numbers of epochs.
    """
    settings: dict[str, Any] = {}
    ignored = []
    for key, value in _pairs(_content(path), path):
        if key in _KEYS:
            name, value = _KEYS[key], _value(key, value)
            if settings.get(name, value) != value:
                raise InputError(f"the configuration {path} has {settings[name]} and {value} "
                                 f"{name}; the original trains for trainer.max_epochs, so make "
                                 "the two equal")
            settings[name] = value
        elif key in _DATA_KEYS or key.startswith("trainer."):
            ignored.append(key)
        else:
            raise unknown(f"key in the configuration {path},", key, [*_KEYS, *_DATA_KEYS])
    return settings, ignored


def _content(path: str | Path) -> Mapping[Any, Any]:
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no configuration file {path}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"the configuration {path} can't be read ({error}); it must be a YAML "
                         "file") from error
    if not isinstance(content, Mapping):
        raise InputError(f"the configuration {path} must be keys with values, as the original's "
                         f"cfg_mnist.yaml is, but is {type(content).__name__}")
    return content


def _pairs(content: Mapping[Any, Any], path: str | Path) -> list[tuple[str, Any]]:
    pairs = []
    for key, value in content.items():
        if key in (*_SECTIONS, "trainer"):
            if not isinstance(value, Mapping):
                raise InputError(f"{key} in the configuration {path} must have keys of its own, "
                                 f"indented below it, but is {value!r}")
            pairs += [(f"{key}.{name}", inner) for name, inner in value.items()]
        else:
            pairs.append((str(key), value))
    return pairs


def _value(key: str, value: Any) -> Any:
    """What a key's value means: YAML 1.1 takes 1e-3, which has no point, for a text."""
    if key == "trainer.accelerator":
        if value not in _ACCELERATORS:
            raise unknown("accelerator", value, _ACCELERATORS)
        return _ACCELERATORS[value]
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


# ------------------------------------------------------------------------------------- checks


def hidden_size(name: str, value: Any, n_inputs: int | None = None) -> int:
    """The hidden width of the head (``[inputs, hidden]``) or of the classifier (``[hidden]``).

    A bare number is the hidden width too.

    Raises
    ------
    InputError
        If it has another form, or the head's inputs are not the embedding's *n_inputs*.
    """
    widths = [value] if isinstance(value, Integral) else value
    form = "[hidden]" if n_inputs is None else "[inputs, hidden]"
    allowed = (1,) if n_inputs is None else (1, 2)
    if not _are_widths(widths) or len(widths) not in allowed:
        raise InputError(f"{name} must be {form}, positive whole numbers, not {value!r}")
    if len(widths) == 2 and widths[0] != n_inputs:
        raise InputError(f"{name} expects embeddings of size {widths[0]}, but the middle one of "
                         f"encdec is {n_inputs}; make the two equal")
    return int(widths[-1])


def check_settings(settings: IDC, n_samples: int) -> None:
    """Refuse, before any training, what can't be trained.

    Raises
    ------
    InputError
        It names the setting, what it must be and what it is.
    """
    for name, known in CHOICES.items():
        if getattr(settings, name) not in known:
            raise unknown(name, getattr(settings, name), known)
    _check_numbers(settings)
    for name in _SWITCHES:
        if not isinstance(getattr(settings, name), bool):
            raise InputError(f"{name} must be True or False, not {getattr(settings, name)!r}")
    if not isinstance(settings.save_seed_checkpoints, bool | str | Path):
        raise InputError("save_seed_checkpoints must be a folder, True for the present one, or "
                         f"False, not {settings.save_seed_checkpoints!r}")
    _check_widths(settings)
    _check_epochs(settings)
    if settings.n_clusters > n_samples:
        raise InputError(f"{settings.n_clusters} clusters can't be made of n_samples={n_samples}; "
                         "ask for fewer")


def _check_numbers(settings: IDC) -> None:
    for name, least in _WHOLE.items():
        value = getattr(settings, name)
        if not _is_whole(value, least):
            why = (": batch normalization needs two samples to compare"
                   if name == "batch_size" and value == 1 else "")
            raise InputError(f"{name} must be a whole number of at least {least}, not "
                             f"{value!r}{why}")
    size = settings.gtcr_projection_dim
    if size is not None and not _is_whole(size, 1):
        raise InputError("gtcr_projection_dim must be None or a whole number of at least 1, not "
                         f"{size!r}")
    for name in (*_POSITIVE, *_NOT_NEGATIVE):
        value, floor = getattr(settings, name), "above" if name in _POSITIVE else "at least"
        if not _is_number(value) or value < 0 or (name in _POSITIVE and value == 0):
            raise InputError(f"{name} must be a number {floor} 0, not {value!r}")
    share = settings.mask_percentage
    if not _is_number(share) or not 0 <= share < 1:
        raise InputError("mask_percentage is the share of the inputs that are blotted out, from 0 "
                         f"to below 1, not {share!r}; the published one is 0.9")


def column_names(X: Any) -> list[str] | None:
    """The names of a table's columns; None for an array, which has none."""
    return [str(name) for name in X.columns] if hasattr(X, "columns") else None


def check_columns(X: Any) -> None:
    """Refuse columns of text: it names those of a table, and numbers those of an array.

    Examples
    --------
    >>> try:
    ...     check_columns(np.array([[1.5, "red"], [2.5, "blue"]], dtype=object))
    ... except InputError as error:
    ...     print(error)
    the columns 1 hold text; turn them into numbers, or leave them out
    """
    names = column_names(X)
    if names is not None:
        columns = zip(names, (X[name] for name in X.columns), strict=True)
    else:
        columns = enumerate(_mixed(X).T)
    text = [str(name) for name, column in columns if not _is_numeric(column)]
    if text:
        raise InputError(f"the columns {', '.join(text)} hold text; turn them into numbers, or "
                         "leave them out")


def _mixed(X: Any) -> np.ndarray:
    """An array, or a list of rows, if it has anything but numbers; otherwise an empty one."""
    nothing = np.empty((0, 0))
    try:
        if not isinstance(X, np.ndarray | list | tuple) or np.asarray(X).dtype.kind not in "OSUT":
            return nothing
    except ValueError:                                  # rows of unequal length
        return nothing
    X = np.asarray(X, dtype=object)
    return X if X.ndim == 2 else nothing


def _is_numeric(column: Any) -> bool:
    try:
        if hasattr(column, "to_numpy"):                 # of a table: what is missing is no text
            column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            np.asarray(column, dtype=np.float64)
    except ValueError:
        return False
    except TypeError:                                   # dates, objects
        return not hasattr(column, "to_numpy")          # of an array: scikit-learn refuses them
    return True


def check_finite(X: np.ndarray, names: Sequence[str] | None = None) -> None:
    """Refuse NaN and infinite values; it counts them by column.

    Examples
    --------
    >>> try:
    ...     check_finite(np.array([[1.0, np.nan], [2.0, np.nan]]), ["height", "width"])
    ... except InputError as error:
    ...     print(str(error).partition(";")[0])
    X holds 2 missing values (NaN): 2 in column width
    """
    if np.isfinite(X).all():
        return
    bad, missing = (~np.isfinite(X)).sum(0), int(np.isnan(X).sum())
    infinite = int(bad.sum()) - missing
    kinds = [f"{number} {kind} value{'s' * (number > 1)} ({short})" for number, kind, short in
             ((missing, "missing", "NaN"), (infinite, "infinite", "inf")) if number]
    names = range(X.shape[1]) if names is None else names
    listed = [f"{bad[j]} in column {names[j]}" for j in np.flatnonzero(bad)]
    more = f" and more in {len(listed) - 5} other columns" if len(listed) > 5 else ""
    raise InputError(f"X holds {' and '.join(kinds)}: {', '.join(listed[:5])}{more}; fill them, or "
                     "leave out the rows")


def varying_columns(X: np.ndarray, names: Sequence[str] | None = None) -> np.ndarray:
    """Which columns are not constant, (n_features,) of bool; a warning names the others.

    Raises
    ------
    InputError
        If none varies.
    """
    varying = X.max(0) > X.min(0)
    constant = np.flatnonzero(~varying)
    if len(constant) == len(varying):
        raise InputError("all columns of X are constant, so there is nothing to tell its samples "
                         "apart by")
    if len(constant):
        listed = [str(j if names is None else names[j]) for j in constant[:5]]
        more = f" and {len(constant) - 5} more" if len(constant) > 5 else ""
        warnings.warn(f"{len(constant)} of {len(varying)} columns are constant and left out, so "
                      f"that their gates are 0: {', '.join(listed)}{more}; "
                      "constant_columns='keep' keeps them", UserWarning, stacklevel=4)
    return varying


def _check_widths(settings: IDC) -> None:
    widths = settings.encdec
    if not _are_widths(widths):
        raise InputError("encdec must be the widths of the autoencoder's layers, positive whole "
                         f"numbers with the embedding in the middle, not {widths!r}")
    hidden_size("clustering_head", settings.clustering_head, widths[embedding_place(widths)])
    hidden_size("aux_classifier", settings.aux_classifier)


def _check_epochs(settings: IDC) -> None:
    plain, pretraining = settings.ae_non_gated_epochs, settings.ae_pretrain_epochs
    if not plain <= pretraining <= settings.epochs:
        raise InputError("ae_non_gated_epochs are the first of the ae_pretrain_epochs, and these "
                         f"of all epochs, but the three are {plain}, {pretraining} and "
                         f"{settings.epochs}; they must not fall")


def _are_widths(widths: Any) -> bool:
    return (isinstance(widths, Sequence) and not isinstance(widths, str) and len(widths) > 0
            and all(_is_whole(width, 1) for width in widths))


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= least


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
