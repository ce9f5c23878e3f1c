"""What a notebook shows of the book's evidence; one object a notebook, made in its first cell.

Verdicts are no part of it: the directive ``view`` (`pages`) shows them as they are at the build.
"""

from __future__ import annotations

from typing import Any

from .checks import UNMADE, Checked, check, drawn, refuses
from .provenance import origin
from .records import Line, arrays, model_file, record, recorded
from .views import table


class Page:
    """The evidence of one page: ``evidence = bookledger.page("tell")``.

    It keeps the outcomes of the page's checks, which its record holds. Functions that need no page
    are at hand under their names: `recorded`, `arrays`, `model_file`, `origin`, `table`, `refuses`.
    """

    arrays, model_file, recorded = map(staticmethod, (arrays, model_file, recorded))
    origin, refuses, table = map(staticmethod, (origin, refuses, table))

    def __init__(self, name: str) -> None:
        self.name = name
        self.outcomes: dict[str, bool] = {}     # a check that failed once stays failed

    def check(self, id: str, value: Any, *more: Any) -> Checked:
        """Compare what this run measured with what is expected of it; see `checks.check`."""
        line = check(id, value, *more)
        if not line.startswith(UNMADE):
            self.outcomes[id] = self.outcomes.get(id, True) and bool(line)
        return line

    def drawn(self) -> Checked:
        """Compare what the page's figures draw with what is expected; see `checks.drawn`."""
        return drawn(self.name)

    def record(self, metrics: Any, **about: Any) -> Line:
        """Write a record of this run, its checks among it, if it was asked for one.

        See `records.record`.
        """
        return record(metrics, checks=self.outcomes, **about)


page = Page
