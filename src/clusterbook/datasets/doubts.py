"""What a table that can be read may still not mean: notes that ask."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
_MONTH = r"(jan|feb|m[aä]?r|apr|ma[yi]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-z]*"
#: SEPT2 and MARCH1 become dates in a spreadsheet, and 2310009E13 a number.
_DATE = re.compile(rf"\d{{1,2}}[-. ]+{_MONTH}|{_MONTH}[-. ]+\d{{1,2}}|\d{{4}}-\d\d-\d\d( [\d:]+)?|"
                   r"\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d[.,]\d+e[+]\d+", re.IGNORECASE)
_CODED = re.compile(
    r"(.*[\W_])?(sub)?(type|class|group|cluster|stage|grade|diagnosis|outcome|status|condition|"
    r"treatment|arm|cohort|batch|response|species|sex|gender)([\W_]*\d+)?", re.IGNORECASE)
_FOR_MISSING = (-9, -99, -999, -9999, -99999, 99, 999, 9999, 99999)


def of(frame: pd.DataFrame, table: pd.DataFrame, ids: Sequence[str] | None, named_by: str | None,
       is_turned: bool) -> list[str]:
    """Notes on the features as read (*frame*) and as 32-bit numbers (*table*).

    *ids* name the rows, and stood in a column *named_by*.
    """
    ids = ids or ()
    found = [not is_turned and _rows(table, ids, named_by or ""), _dates([*table.columns, *ids]),
             _precision(frame, table), *_codes_for_missing(table), _coded(table)]
    return [note for note in found if note]


def _look_like(pattern: re.Pattern, names: Sequence[str]) -> bool:
    return len(names) > 0 and sum(map(bool, map(pattern.fullmatch, names))) >= 0.6 * len(names)


def _rows(table: pd.DataFrame, ids: Sequence[str], named_by: str) -> str:
    """Whether features may stand in rows, and samples in columns."""
    rows, width = table.shape
    stems = {match[1] for match in map(_SYMBOL.fullmatch, ids) if match}  # TP, GAPDH; not one P
    ends = sum(name[-1:].isdigit() for name in ids)
    are_symbols = _look_like(_SYMBOL, ids) and 2 * len(stems) > rows and 5 * ends > rows
    why = [f"rows look like genes ({listed(ids[:2])})"] * (are_symbols or _look_like(_GENE, ids))
    why += [f"rows are named by {named_by!r}"] * bool(_OF_GENES.search(named_by))
    why += [f"columns look like samples ({listed(table.columns[:2])})"] * _look_like(
        _SAMPLE, [*table.columns])
    return why and (
        f"{rows:,} rows, {width:,} columns: are rows samples? {' and '.join(why)}; if each row is "
        f"a feature, turn the table with {option('transpose', True)}")


def _dates(names: Sequence[str]) -> str:
    dates = [name for name in names if _DATE.fullmatch(name)]
    return dates and (f"names look like dates or rounded numbers: {listed(dates)}; if they were "
                      "names of genes, a spreadsheet has changed them, such as SEPT2 to 2-Sep")


def _precision(frame: pd.DataFrame, table: pd.DataFrame) -> str:
    size, spread = table.abs().max(), table.max() - table.min()
    lost = []
    for name in frame.columns.intersection(size.index[(size > 2**24) | (size > 800 * spread)]):
        kept, given = table[name].nunique(), frame[name].nunique()
        if kept < 0.99 * given:
            lost.append(f"{name} ({kept:,} of {given:,} values left)")
    return lost and (f"loses precision as 32-bit numbers: {listed(lost)}; subtract what all values "
                     "share, or leave it out if it names rows")


def _codes_for_missing(table: pd.DataFrame) -> list[str]:
    notes = []
    for code in _FOR_MISSING:
        hits = pd.Series((table.to_numpy() == code).sum(axis=0), table.columns)
        for name in hits.index[hits > 0]:
            rest = table[name][table[name] != code]
            is_far = (rest - code).abs().min() > rest.max() - rest.min()
            hits[name] *= is_far or code < 0 <= rest.min()
        if hits.any():
            columns = listed(hits.index[hits > 0])
            notes.append(f"{code} occurs {hits.sum():,} times, in {columns}; if it means a "
                         f"missing value, declare {option('missing', [str(code)])}")
    return notes


def _coded(table: pd.DataFrame) -> str:
    """Columns of few whole numbers beside measured ones, or with a name of groups."""
    rows, width = table.shape
    few = {name: table[name].nunique() for name in table
           if (width <= 200 or _CODED.fullmatch(name)) and not (table[name] % 1).any()}
    few = {name: n for name, n in few.items() if 1 < n <= min(10, rows / 3)}
    few = {name: n for name, n in few.items() if _CODED.fullmatch(name)
           or n > 2 and 4 * len(few) <= width}
    return few and (f"few whole numbers, taken for amounts: "
                    f"{listed(f'{name} ({n} values)' for name, n in few.items())}; if they are "
                    f"codes of groups, use {option('labels', next(iter(few)))}, or leave them out "
                    "of features")
