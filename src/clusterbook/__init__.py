"""Interpretable deep clustering, reproduced: the library behind the book.

The names below load on first use, so that ``import clusterbook`` and the command stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:       # what a type checker and an editor are to know of them
    from . import datasets as datasets
    from . import deepcluster as deepcluster
    from . import figures as figures
    from . import idc as idc
    from . import metrics as metrics
    from . import tell as tell
    from . import training as training
    from . import weights as weights
    from .deepcluster import DeepCluster as DeepCluster
    from .idc import IDC as IDC
    from .tell import TELL as TELL
    from .tell import ClusterLayer as ClusterLayer
    from .weights import WeightCoclustering as WeightCoclustering

__version__ = "0.1.0"

_PUBLIC = {"ClusterLayer": "tell", "DeepCluster": "deepcluster", "IDC": "idc", "TELL": "tell",
           "WeightCoclustering": "weights"}
_MODULES = ("datasets", "deepcluster", "figures", "idc", "metrics", "tell", "training", "weights")

__all__ = ["__version__", *_PUBLIC, *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f".{_PUBLIC.get(name, name)}", __name__)
    return getattr(module, name) if name in _PUBLIC else module


def __dir__() -> list[str]:
    return sorted(__all__)
