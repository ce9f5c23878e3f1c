"""What a table that can be read may still not mean: notes that ask."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from .dataset import listed, option

_SAMPLE = re.compile(
    r"(gsm|[sed]r[rsx]|sam[ned]a?)\d+.*|tcga-\w\w-.*|(.*[\W_])?(sample|patient|subject|donor|"
    r"control|ctrl|case|tumou?r|normal|(un)?treated|mock|wt|ko|rep(licate)?|mouse)s?[\W_]*\d+.*",
    re.IGNORECASE)
_GENE = re.compile(
    r"ENS[A-Z]*[GTP]\d{6,}.*|\d+(_[a-z])*_at|ILMN_\d+|cg\d{6,}|rs\d{3,}|[NX][MR]_\d+.*|"
    r"hsa-(mir|let).*|(gene|probe|otu|asv)[\W_]*\d+", re.IGNORECASE)
_SYMBOL = re.compile(r"([A-Z]{2,6})[A-Z0-9-]*")
_OF_GENES = re.compile(r"gene|probe|symbol|ensembl|transcript|protein|id_ref|feature|entrez|hgnc|"
                       r"\botu|\basv|taxon|cpg|mirna", re.IGNORECASE)
_MONTH = r"(jan|feb|m[aä]r|apr|ma[yi]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-z]*"
#: SEPT2 and MARCH1 become dates in a spreadsheet, and 2310009E13 a number.
_DATE = re.compile(rf"\d{{1,2}}[-. ]+{_MONTH}|{_MONTH}[-. ]+\d{{1,2}}|\d{{4}}-\d\d-\d\d( [\d:]+)?|"
                   r"\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d[.,]\d+e[+]\d+", re.IGNORECASE)
_CODED = re.compile(
    r"(.*[\W_])?(sub)?(type|class|group|cluster|stage|grade|diagnosis|outcome|status|condition|"
    r"treatment|arm|cohort|batch|response|species|sex|gender)([\W_]*\d+)?", re.IGNORECASE)
_FOR_MISSING = (-9, -99, -999, -9999, -99999, 99, 999, 9999, 99999)


def all_of(frame: pd.DataFrame, table: pd.DataFrame, ids: Sequence[str] | None, named_by: str
           ) -> list[str]:
    """Notes on the features as read (*frame*) and as 32-bit numbers (*table*).

    *ids* name the rows of a table that was not turned, by a column *named_by*; otherwise None.
    """
    numbers = frame[[name for name in frame if name in table]]
    found = [_rows(table, ids, named_by), _dates(table, ids), _precision(numbers, table),
             *_codes_for_missing(table), _coded(table)]
    return [note for note in found if note]


def _look_like(pattern: re.Pattern, names: Sequence[str]) -> bool:
    return len(names) > 0 and sum(map(bool, map(pattern.fullmatch, names))) >= 0.6 * len(names)


def _are_symbols(names: Sequence[str]) -> bool:
    """Whether names may be of genes: TP53, GAPDH, not P001, P002."""
    stems = {match[1] for match in map(_SYMBOL.fullmatch, names) if match}
    ends = [name for name in names if name[-1:].isdigit()]
    return _look_like(_SYMBOL, names) and 2 * len(stems) > len(names) and 5 * len(ends) > len(names)


def _rows(table: pd.DataFrame, ids: Sequence[str] | None, named_by: str) -> str:
    """Whether features may stand in rows, and samples in columns."""
    rows, width = table.shape
    if ids is None:
        return ""
    why = [f"rows look like genes ({listed(ids[:2])})"] * (
        _look_like(_GENE, ids) or _are_symbols(ids))
    why = why or [f"rows are named by {named_by!r}"] * bool(_OF_GENES.search(named_by))
    why += [f"columns look like samples ({listed(table.columns[:2])})"] * _look_like(
        _SAMPLE, [*table.columns])
    return why and (f"{rows:,} rows, {width:,} columns: are rows samples? {' and '.join(why)}; if "
                    f"each row is a feature, turn the table with {option('transpose', True)}")


def _dates(table: pd.DataFrame, ids: Sequence[str] | None) -> str:
    dates = [name for name in (*table.columns, *(ids or ())) if _DATE.fullmatch(name)]
    return dates and (f"names look like dates or rounded numbers: {listed(dates)}; if they were "
                      "names of genes, a spreadsheet has changed them, such as SEPT2 to 2-Sep")


def _precision(numbers: pd.DataFrame, table: pd.DataFrame) -> str:
    size, spread = table.abs().max(), table.max() - table.min()
    lost = []
    for name in table.columns[(size > 2**24) | (size > 800 * spread)].intersection(numbers.columns):
        kept, given = table[name].nunique(), numbers[name].nunique()
        if kept < 0.99 * given:
            lost.append(f"{name} ({kept:,} of {given:,} values left)")
    return lost and (f"loses precision as 32-bit numbers: {listed(lost)}; subtract what all values "
                     "share, or leave it out if it names rows")


def _codes_for_missing(table: pd.DataFrame) -> list[str]:
    notes = []
    for code in _FOR_MISSING:
        hits = (table == code).sum()
        columns = []
        for name in hits[hits > 0].index:
            rest = table[name][table[name] != code]
            far = rest.empty or (rest - code).abs().min() > rest.max() - rest.min()
            if len(rest) and (far or code < 0 <= rest.min()):
                columns.append(name)
        if columns:
            notes.append(f"{code} stands in {hits[columns].sum():,} cells of {listed(columns)}; if "
                         f"it means a missing value, declare {option('missing', [str(code)])}")
    return notes


def _coded(table: pd.DataFrame) -> str:
    """Columns of few whole numbers beside measured ones, or with a name of groups."""
    rows, width = table.shape
    near = [name for name in table if width <= 200 or _CODED.fullmatch(name)]
    few = {name: table[name].nunique() for name in near if not (table[name] % 1).any()}
    few = {name: n for name, n in few.items() if 1 < n <= min(10, rows / 3)}
    shown = [f"{name} ({n} values)" for name, n in few.items() if _CODED.fullmatch(name)
             or n > 2 and 4 * len(few) <= width]
    return shown and (f"few whole numbers, taken for amounts: {listed(shown)}; if they are codes of "
                      f"groups, use {option('labels', shown[0].rpartition(' (')[0])}, or leave them "
                      "out of features")
