"""The engine of a reproducibility book: what the sources say, what our runs measured, what holds.

A claim (`load_claims`) is a statement of a source; a record (`record`, `load_records`) holds the
measurements of a run; `judge` compares them, and `scorecard` lists every claim with its verdict. A
chapter makes a `Page`, which checks its default run. An erratum
(`load_errata`, `errata`, `erratum`) is a defect of a source, with the checks that demonstrate it.

The names below load on first use, so that the command stays quick. What the engine has to know of
its book stands in ``book/ledger.toml`` (`config.Book`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:       # what a type checker and an editor are to know of them
    from .checks import Expectation as Expectation
    from .checks import load_expectations as load_expectations
    from .checks import refuses as refuses
    from .claims import Claim as Claim
    from .claims import Comparison as Comparison
    from .claims import load_claims as load_claims
    from .notebook import Page as Page
    from .notebook import origin as origin
    from .notebook import page as page
    from .notebook import table as table
    from .records import Record as Record
    from .records import Runs as Runs
    from .records import arrays as arrays
    from .records import load_records as load_records
    from .records import model_file as model_file
    from .records import recorded as recorded
    from .sources import Erratum as Erratum
    from .sources import errata as errata
    from .sources import erratum as erratum
    from .sources import load_errata as load_errata
    from .sources import load_sources as load_sources
    from .sources import source_table as source_table
    from .verdicts import WORDS as WORDS
    from .verdicts import Verdict as Verdict
    from .verdicts import judge as judge
    from .views import View as View
    from .views import result as result
    from .views import scorecard as scorecard
    from .views import status as status
    from .views import under_way as under_way
    from .views import verdicts as verdicts

_PUBLIC = {
    "checks": ("Expectation", "load_expectations", "refuses"),
    "claims": ("Claim", "Comparison", "load_claims"),
    "notebook": ("Page", "origin", "page", "table"),
    "records": ("Record", "Runs", "arrays", "load_records", "model_file", "recorded"),
    "sources": ("Erratum", "errata", "erratum", "load_errata", "load_sources", "source_table"),
    "verdicts": ("WORDS", "Verdict", "judge"),
    "views": ("View", "result", "scorecard", "status", "under_way", "verdicts"),
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
