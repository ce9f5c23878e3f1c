"""Claims, records and verdicts: what the sources say, what our runs measured, what holds.

A claim (`load_claims`) is a statement of a source; a record (`record`, `load_records`) holds the
measurements of a run; `judge` compares them, and `scorecard` lists every claim with its verdict. A
chapter shows its own with `say`, and checks its default run with `check`. An erratum
(`load_errata`, `errata`, `erratum`) is a defect of a source, with the checks that demonstrate it.
"""

from __future__ import annotations

from .checks import Expectation, check, drawn, load_expectations, refuses
from .claims import Claim, Comparison, load_claims
from .provenance import amendments, origin, status, under_way
from .records import Record, Runs, arrays, load_records, model_file, record, recorded
from .sources import Erratum, errata, erratum, load_errata, load_sources, sources
from .verdicts import WORDS, Verdict, judge
from .views import Scorecard, View, at_last_tag, cards, result, say, scorecard, table

__all__ = [
    "WORDS", "Claim", "Comparison", "Erratum", "Expectation", "Record", "Runs", "Scorecard",
    "Verdict", "View", "amendments", "arrays", "at_last_tag", "cards", "check", "drawn", "errata",
    "erratum", "judge", "load_claims", "load_errata", "load_expectations", "load_records",
    "load_sources", "model_file", "origin", "record", "recorded", "refuses", "result", "say",
    "scorecard", "sources", "status", "table", "under_way",
]
