"""The engine of a reproducibility book: what the sources say, what our runs measured, what holds.

A claim is a statement of a source; a record holds the measurements of a run; `verdicts` compares
them, `views` shows every claim with its verdict. A chapter makes a `page`, which checks its default
run. What the engine has to know of its book stands in ``book/ledger.toml`` (`config.Book`).
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "checks": "Expectation load_expectations refuses",
    "claims": "Claim Comparison load_claims",
    "notebook": "Page origin page table",
    "records": "Record arrays attestations load_records model_file recorded",
    "sources": "Erratum errata erratum load_errata load_sources source_table",
    "verdicts": "WORDS Verdict judge",
    "views": "View result scorecard status under_way verdicts",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used, so that the command stays quick."""
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
