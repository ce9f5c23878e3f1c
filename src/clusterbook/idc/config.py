"""The original's configuration files: which key is which setting of `IDC`.

Its keys stand in sections; here a key of a section is one name, ``lr.pretrain`` is ``lr_pretrain``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ..errors import InputError, unknown

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


def read_config(path: str | Path) -> tuple[dict[str, Any], list[str]]:
    """The settings in a YAML file of the original's form, and the keys that mean nothing here.

    Ignored are the data keys, because ``fit`` is given the samples; and what Lightning's trainer
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
    """The meaning of a key's value: YAML 1.1 reads 1e-3, which has no point, as text."""
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
