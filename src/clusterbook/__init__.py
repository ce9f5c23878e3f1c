"""Interpretable deep clustering, reproduced: the library behind the book.

The classes below load on first use, so that ``import clusterbook`` and the command stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:       # for type checkers and editors
    from .deepcluster import DeepCluster as DeepCluster
    from .idc import IDC as IDC
    from .tell import TELL as TELL
    from .tell import ClusterLayer as ClusterLayer
    from .weights import WeightCoclustering as WeightCoclustering

__version__ = "0.1.0"

_HOME = {"ClusterLayer": "tell", "DeepCluster": "deepcluster", "IDC": "idc", "TELL": "tell",
         "WeightCoclustering": "weights"}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
