"""Checks of a notebook's default run; their text is the same on every machine.

Expectations are a regression test of the book, not evidence about a source: they never appear in
the scorecard. But a claim of kind ``exact`` or ``source-error`` may name one, and every check's
outcome is part of the run's record. ``data/expectations/README.md`` describes their keys.
"""

from __future__ import annotations

import ast
import operator
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, Strict, model_validator
from pydantic.dataclasses import dataclass as model

from clusterbook import figures, paths
from clusterbook.checks import InputError

from . import config
from .claims import STRICT, Comparison, Id, read_folder

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
"""The signs of an order as functions."""
UNMADE = "not checked: "
"""The beginning of a check's line when there was nothing to compare."""


@model(frozen=True, config=STRICT)
class Expectation:
    """A statement that a default run must satisfy; the fields are the keys of the YAML file."""

    id: Id
    chapter: str
    says: str
    relation: Literal[">=", "<=", ">", "<", "equals", "between", "holds"]
    bound: Annotated[tuple[float, float], Strict(False)] | float | None = None
    tolerance: float = Field(0.0, ge=0)
    why: str | None = None

    @model_validator(mode="after")
    def _has_the_bound_of_its_relation(self) -> Expectation:
        pair = isinstance(self.bound, tuple)
        fits = {"between": pair and self.bound[0] <= self.bound[1], "holds": self.bound is None}
        if not fits.get(self.relation, not pair):
            raise ValueError("between needs the bound [low, high], holds has none, others a number")
        return self


def as_it_stands(number: Comparison) -> str:
    """All that decides a number's verdict, which records keep: ``value, mean: acc = 0.9 ± 0.02``.

    Of a check also what is expected, and a hash of the parsed code of the cell that makes it and of
    the notebook's functions that it calls.
    """
    how = f", {number.statistic}" if number.statistic else ""
    text = f"{number.kind}{how}: {number.stated}"
    if number.check is None:
        return text
    expected = next((one for one in load_expectations() if one.id == number.check), None)
    rule = expected and f"{expected.relation} {expected.bound} ± {expected.tolerance}"
    cells = {}
    for path in config.notebooks(config.root()):
        cells |= cells_of_checks(path, path.stat().st_mtime_ns)
    return f"{text}, {rule}, cell {cells.get(number.check)}"


@cache
def cells_of_checks(path: Path, _written: int) -> dict[str, str]:
    """The checks of a notebook: id, and a hash of the cell that makes it and of what that calls."""
    cells = [ast.parse("".join(cell["source"])) for cell in config.load_json(path)["cells"]
             if cell["cell_type"] == "code"]
    defined = {node.name: node for cell in cells for node in cell.body
               if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    found = {}
    for cell in cells:
        code, made = [cell], []
        for part in code:       # grows while it is walked: what the cell calls, and what that calls
            for node in ast.walk(part):
                if isinstance(node, ast.Name) and defined.get(node.id, cell) not in code:
                    code.append(defined[node.id])
                elif isinstance(node, ast.Call) and ast.unparse(node.func) == "evidence.check":
                    made.append(ast.literal_eval(node.args[0]))
        called = sorted(map(_dumped, code[1:]))
        digest = config.sha256("\n".join([_dumped(cell), *called]).encode())[:12]
        found |= dict.fromkeys(made, digest)
    return found


def _dumped(node: ast.AST) -> str:
    """`ast.dump` as Python 3.11 writes it: records keep hashes of that."""
    everything = {"show_empty": True} if sys.version_info >= (3, 13) else {}
    return ast.dump(node, **everything).replace(", type_params=[]", "")    # since Python 3.12


class Line(str):
    """A line of text; a cell displays it without quotes."""

    __repr__ = str.__str__


class Checked(Line):
    """The line of a check; true only if the check was made and holds."""

    def __bool__(self) -> bool:
        return self.startswith("✓")


def load_expectations(folder: Path | str | None = None) -> list[Expectation]:
    """Every expectation of a folder (default: the book's); see `load_claims`."""
    return read_folder(Expectation, "expectations", folder)


def drawn(page: str) -> Checked:
    """Compare what the figures of a page draw with what is expected of its default run.

    ``data/expectations/drawn/<page>.json`` has the numbers of each figure (`figures.numbers`), and
    *within*: how far a mean or a spread may be off, in standard deviations over the whole panel; a
    correlation by twice as much, a number of points by that share of it, a quarter at most.
    ``python tests/drawn`` finds what other machines' rounding needs. Displays like a check.
    """
    path = config.root() / "data" / "expectations" / "drawn" / f"{page}.json"
    if not path.is_file():
        raise InputError(f"no numbers are expected of a page {page!r}: there is no {path}")
    if paths.run_context().get("changed"):
        return Checked(f"{UNMADE}what figures draw (this run has other parameters)")
    expected, found = config.load_json(path), figures.shown()
    wrong = [f"{name}: {said}" for name in sorted(expected.keys() | found.keys())
             for said in differences(expected.get(name, {}), found.get(name, {}))]
    many = f"{len(expected)} figures on this page show"
    says = f"the {many if len(expected) > 1 else 'figure on this page shows'} the expected numbers"
    return Checked(f"✗ {says} (those of the default parameters; {'; '.join(wrong[:3])})"
                   if wrong else f"✓ {says}")


def differences(expected: Mapping[str, Any], found: Mapping[str, list[float]]) -> list[str]:
    """In which series a figure draws other numbers than expected, with the largest deviation.

    A series is its number of points, then of x and y the mean and the standard deviation, and the
    correlation of both; those of a panel, named before the last colon, share their scales.
    """
    series, within = expected.get("series", {}), expected.get("within", 0)
    if series.keys() != found.keys():
        return [f"other series: {', '.join(sorted(series.keys() ^ found.keys())[:3])}"]
    wrong = []
    for name, values in series.items():
        panel = np.array([other for key, other in series.items()
                          if key.rpartition(": ")[0] == name.rpartition(": ")[0]])
        x, y = (np.sqrt(np.mean(panel[:, i + 1] ** 2) + panel[:, i].var()) for i in (1, 3))
        units = np.array([values[0], x, x, y, y, 2])
        limits = within * units + 1e-3 * np.abs(values)     # stored with four digits
        limits[0] = min(within, 0.25) * values[0]
        off = np.abs(np.subtract(found[name], values))
        if (off > limits + 1e-9).any():
            wrong.append(f"{name} is off by {np.max(off / np.maximum(units, 1e-9)):.2g}")
    return wrong


def check(id: str, value: Any, *more: Any) -> Checked:
    """Compare what a run measured with what is expected of it.

    With a bound, all values (and all elements of arrays) must satisfy it; without one, two values
    are compared with each other: ``value relation more[0]``. NaN satisfies nothing.

    Displays as ``✓`` and the expectation's sentence when it holds, else as ``✗`` with the measured
    values: a failed expectation is not an error. None, or an empty value, was not measured; the
    check then displays as ``not checked:``, never holds, and enters no record.

    Raises InputError for an unknown expectation, for a number of values that can't be compared, and
    for anything but True and False where the relation is ``holds``.
    """
    expected = config.pick("expectation", id, {one.id: one for one in load_expectations()})
    values = [np.asarray(item.detach().cpu() if hasattr(item, "detach") else item)
              for item in (value, *more)]
    if any(item.size == 0 or (item.dtype == object and None in item.flat) for item in values):
        return Checked(f"{UNMADE}{expected.says} (this run measured nothing to compare)")
    bound = True if expected.relation == "holds" else expected.bound
    pairs = [(item, bound) for item in values] if bound is not None else [values]
    if bound is True and any(item.dtype != bool for item in values):
        raise InputError(f"the expectation {id!r} takes True or False, not {value!r}")
    if bound is None and len(values) != 2:
        raise InputError(f"the expectation {id!r} needs two values to compare, not {len(values)}")
    if all(_satisfies(expected, *pair) for pair in pairs):
        return Checked(f"✓ {expected.says}")
    measured = " and ".join(np.array2string(
        item, threshold=8, separator=", ", formatter={"float_kind": "{:.4g}".format}
    ).replace("\n", "") for item in values)
    wanted = expected.relation if expected.bound is None else (
        f"{expected.relation} {expected.bound}")
    about = f" within {expected.tolerance:g}" if expected.tolerance else ""
    return Checked(f"✗ {expected.says} (measured {measured}; expected of the default parameters: "
                   f"{wanted}{about})")


def refuses(action: Callable[[], Any], *errors: type[Exception]) -> bool:
    """Whether an action ends in one of these errors, as a demonstration says."""
    try:
        action()
    except errors:
        return True
    return False


def _satisfies(expected: Expectation, value: np.ndarray, bound: Any) -> bool:
    if expected.relation == "between":
        return bool(((bound[0] <= value) & (value <= bound[1])).all())
    other = np.asarray(bound)
    if other.ndim and other.shape != value.shape:
        return False
    if expected.relation == "equals" and value.dtype.kind in "fciub":
        return np.allclose(value, other, rtol=0, atol=expected.tolerance)
    return bool(COMPARE.get(expected.relation, operator.eq)(value, other).all())
