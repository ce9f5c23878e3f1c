"""Short fits that between them use every stage and option of every method: a module a method.

A module has ``FITS``: by name, functions without arguments that take a second or two and return
anything that `flat` can take apart. Here is what they share.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits, load_wine
from torch import nn

from clusterbook import training

DIGITS = (load_digits().data[:300] / 16).astype(np.float32)
CLASSES = load_digits().target[:300]
WINE = load_wine()
TABLE = ((WINE.data - WINE.data.mean(0)) / WINE.data.std(0)).astype(np.float32)
USUAL = {"random_state": 0, "progress": False, "device": "cpu"}


def flat(value: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """The arrays that *value* consists of, each with a name; no seconds."""
    if isinstance(value, nn.Module):
        value = dict(value.state_dict())
    elif isinstance(value, BaseEstimator):
        learned = sorted(n for n in dir(value) if n.endswith("_") and not n.startswith("_"))
        value = {n: getattr(value, n) for n in learned if hasattr(value, n)}
    elif isinstance(value, training.History):
        value = list(value.rows)
    elif dataclasses.is_dataclass(value):
        value = vars(value)
    elif isinstance(value, torch.Tensor):
        value = value.numpy(force=True)
    if isinstance(value, Mapping):
        for key, item in value.items():
            if "seconds" not in str(key):
                yield from flat(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple) and any(
            isinstance(item, Mapping | nn.Module) or hasattr(item, "shape") for item in value):
        for i, item in enumerate(value):
            yield from flat(item, f"{name}[{i}]")
    else:
        array = np.asarray("None" if value is None else value)
        if array.dtype.hasobject:
            raise TypeError(f"{name} is a {type(value).__name__}, which can't be compared")
        yield name or "value", array
