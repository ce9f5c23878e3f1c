"""Claims, records and verdicts: what the sources say, what our runs measured, what holds.

A claim (`load_claims`) says what a source states; a record (`record`, `load_records`) says what a
run measured; `judge` compares them, and `scorecard` lists every claim with its verdict. A chapter
shows its own with `say`, and checks its default run with `check`. An erratum (`load_errata`,
`errata`, `erratum`) is a defect of a source, with the check that demonstrates it.
"""

from __future__ import annotations

from ..fingerprint import fingerprint
from .checks import Expectation, check, load_expectations
from .claims import Claim, load_claims
from .errata import Errata, Erratum, errata, erratum, load_errata
from .profiles import Status, status
from .recording import record
from .records import Record, Runs, arrays, load_records, model_file, recorded
from .verdicts import WORDS, Verdict, judge
from .views import Scorecard, at_last_tag, say, scorecard

__all__ = [
    "WORDS",
    "Claim",
    "Errata",
    "Erratum",
    "Expectation",
    "Record",
    "Runs",
    "Scorecard",
    "Status",
    "Verdict",
    "arrays",
    "at_last_tag",
    "check",
    "errata",
    "erratum",
    "fingerprint",
    "judge",
    "load_claims",
    "load_errata",
    "load_expectations",
    "load_records",
    "model_file",
    "record",
    "recorded",
    "say",
    "scorecard",
    "status",
]
