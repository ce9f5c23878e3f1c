"""What a default run of a notebook must show: checks whose text is the same on every machine.

``data/expectations/<notebook>.yaml`` is a list of entries with the keys ``id`` (beginning with the
notebook's name: ``weights-layer-accuracy``), ``says`` (what holds; the sentence that the cell
displays), ``relation`` (``>=``, ``<=``, ``>``, ``<``, ``equals``, ``between`` or ``holds``; the
signs in quotes), ``bound`` (a number, two for ``between``; absent where the cell gives the second
value), ``tolerance`` (for ``equals``: the largest absolute difference, 0 by default) and ``why``
(the reason for the bound or the tolerance).

Expectations are a regression test of the book, not evidence about a source: they never appear in
the scorecard. But a claim of kind ``exact`` or ``source-error`` may name one, and every check's
outcome is part of the run's record.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import field_validator, model_validator
from pydantic.dataclasses import dataclass as model

from .. import paths
from ..errors import InputError, unknown
from .entries import (
    STRICT,
    as_number,
    as_tuple,
    is_number,
    mistake,
    need,
    not_negative,
    read_folder,
    stamps,
)

COMPARE: dict[str, Callable] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
"""The signs of an order, and what they compute."""
UNMADE = "not checked: "
"""How the line of a check begins that had nothing to compare."""

# Every check of this process: in a notebook's kernel, those of the run.
_outcomes: dict[str, bool] = {}


@model(frozen=True, config=STRICT)
class Expectation:
    """What must hold in a default run; the fields are the keys of the YAML file."""

    id: str
    chapter: str
    says: str
    relation: Literal[">=", "<=", ">", "<", "equals", "between", "holds"]
    bound: float | tuple[float, float] | None = None
    tolerance: float = 0.0
    why: str | None = None

    _amounts = field_validator("tolerance")(not_negative)

    @field_validator("bound", mode="before")
    @classmethod
    def _is_bound(cls, bound: Any) -> Any:
        numbers = bound if isinstance(bound, list | tuple) else [bound]
        if bound is not None and not all(map(is_number, numbers)):
            raise ValueError(f"bound must be a number, or two, not {bound!r}{as_number(bound)}")
        return as_tuple(bound)

    @model_validator(mode="after")
    def _has_what_its_relation_needs(self) -> Expectation:
        if self.bound is not None or self.tolerance:
            need(self, ["why"], "; a bound or a tolerance needs its reason")
        if self.tolerance and self.relation != "equals":
            raise mistake("a tolerance belongs to the relation 'equals' only", "tolerance")
        if self.relation == "holds" and self.bound is not None:
            raise mistake("the relation 'holds' has no bound", "bound")
        if self.relation == "between":
            if not isinstance(self.bound, tuple) or self.bound[0] > self.bound[1]:
                raise mistake(f"between needs the bound [low, high], not {self.bound!r}", "bound")
        elif isinstance(self.bound, tuple):
            raise mistake(f"{self.relation} needs one bound, not {self.bound!r}", "bound")
        return self


@dataclass(frozen=True, repr=False)
class Checked:
    """The outcome of a check; displays as one line that is constant while the check holds."""

    holds: bool | None      # None where there was nothing to compare
    text: str

    def __bool__(self) -> bool:
        """Whether it was made and holds."""
        return self.holds is True

    def __repr__(self) -> str:
        """The line that a cell displays."""
        return self.text


def load_expectations(folder: Path | str | None = None) -> list[Expectation]:
    """Every expectation of a folder (default: the book's), by file and line.

    Raises InputError, beginning with the file and the line, for an entry that is not valid.
    """
    folder = Path(folder) if folder is not None else paths.root() / "data" / "expectations"
    return [entry.read(Expectation, chapter=entry.chapter)
            for entry in read_folder(folder, "expectation")]


def check(id: str, value: Any, *more: Any) -> Checked:
    """Compare what a run measured with what is expected of it, and keep the outcome.

    With a bound, all values (and all elements of arrays) must satisfy it; without one, two values
    are compared with each other: ``value relation more[0]``. NaN satisfies nothing.

    Displays as ``✓`` and the expectation's sentence when it holds, else as ``✗`` with what was
    measured: a failed expectation is not an error. None, or an empty value, was not measured; the
    check then displays as ``not checked:``, never holds, and enters no record.

    Raises InputError for an unknown expectation, for a number of values that can't be compared, and
    for anything but True and False where the relation is ``holds``.
    """
    expectation = _known(id)
    values = [np.asarray(_on_cpu(item)) for item in (value, *more)]
    if any(map(_is_missing, values)):
        return Checked(None, f"{UNMADE}{expectation.says} (this run measured nothing to compare)")
    if expectation.relation == "holds" and any(item.dtype != bool for item in values):
        raise InputError(f"the expectation {id!r} takes True or False, not {value!r}")
    pairwise = expectation.bound is None and expectation.relation != "holds"
    if pairwise and len(values) != 2:
        raise InputError(
            f"the expectation {id!r} has no bound, so check needs two values to compare, "
            f"not {len(values)}"
        )
    if pairwise:
        holds = _compare(expectation, values[0], values[1])
    else:
        holds = all(_compare(expectation, item, expectation.bound) for item in values)
    _outcomes[id] = _outcomes.get(id, True) and holds
    if holds:
        return Checked(True, f"✓ {expectation.says}")
    measured = " and ".join(_shown(item) for item in values)
    wanted = "" if pairwise else f": {_wanted(expectation)}"
    text = f"measured {measured}; expected of the default parameters{wanted}"
    return Checked(False, f"✗ {expectation.says} ({text})")


def checked() -> dict[str, bool]:
    """The checks made in this process, by name; one that failed once stays failed."""
    return dict(sorted(_outcomes.items()))


def _is_missing(value: np.ndarray) -> bool:
    return value.size == 0 or (value.dtype == object and any(item is None for item in value.flat))


def _compare(expectation: Expectation, value: np.ndarray, other: Any) -> bool:
    relation = expectation.relation
    if relation == "holds":
        return bool(np.all(value))
    if relation == "between":
        low, high = other
        return bool(np.all((low <= value) & (value <= high)))
    other = np.asarray(other)
    if other.ndim and other.shape != value.shape:
        return False
    if relation == "equals":
        if value.dtype.kind in "fciub" and other.dtype.kind in "fciub":
            return bool(np.allclose(value, other, rtol=0, atol=expectation.tolerance))
        return bool(np.all(value == other))
    return bool(np.all(COMPARE[relation](value, other)))


def _known(id: str) -> Expectation:
    folder = paths.root() / "data" / "expectations"
    # A notebook checks often; the files are read again only when one of them has changed.
    known = _by_id(folder, stamps(folder))
    if id not in known:
        raise unknown("expectation", id, known)
    return known[id]


@lru_cache(maxsize=1)
def _by_id(folder: Path, stamps: tuple) -> dict[str, Expectation]:
    return {expectation.id: expectation for expectation in load_expectations(folder)}


def _wanted(expectation: Expectation) -> str:
    if expectation.relation == "holds":
        return "true"
    if expectation.relation == "between":
        low, high = expectation.bound
        return f"between {low:g} and {high:g}"
    about = f" within {expectation.tolerance:g}" if expectation.tolerance else ""
    return f"{expectation.relation} {expectation.bound:g}{about}"


def _shown(value: np.ndarray) -> str:
    if value.ndim == 0:
        return f"{value.item():.4g}" if value.dtype.kind == "f" else str(value.item())
    if value.size <= 8:
        return np.array2string(value, precision=4, separator=", ").replace("\n", "")
    return f"an array of shape {value.shape}"


def _on_cpu(value: Any) -> Any:
    """A tensor as an array; anything else as it is."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value
