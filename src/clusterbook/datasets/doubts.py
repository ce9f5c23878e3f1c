"""Notes that ask whether a table, although it can be read, means what it seems to."""

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
    r"treatment|arm|cohort|batch|response|species|sex|gender|race|ethnicity|hospital|site|center|"
    r"died|dead|death|event)([\W_]*\d+)?", re.IGNORECASE)
_FEW = 10           # at most so many values are codes
_FOR_MISSING = (-9, -99, -999, -9999, -99999, 99, 999, 9999, 99999)


def of(values: pd.DataFrame, table: pd.DataFrame, ids: Sequence[str] | None, named_by: str | None,
       is_turned: bool) -> list[str]:
    """Notes on the features as numbers (*values*), float64, and as read (*table*), float32.

    *ids* name the rows, and stood in a column *named_by*.
    """
    ids = ids or ()
    found = [not is_turned and _rows(table, ids, named_by or ""), _dates([*table.columns, *ids]),
             _precision(values, table), *_codes_for_missing(table), _coded(table[[*values]]),
             _repeats(table)]
    return [note for note in found if note]


def _repeats(table: pd.DataFrame) -> str:
    """Many copies of rows, which look like groups; rows of a few codes are equal by chance."""
    repeated, of_codes = int(table.duplicated().sum()), (table.nunique() <= _FEW).all()
    return "" if of_codes or repeated < 0.1 * len(table) else (
        f"{repeated:,} of {len(table):,} rows repeat an earlier row; copies alone can look like "
        "groups, so keep one of each")


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


def _precision(values: pd.DataFrame, table: pd.DataFrame) -> str:
    spread, error = values.max() - values.min(), (values - table[[*values]]).abs().max()
    lost = [f"{name} ({table[name].nunique():,} of {values[name].nunique():,} values left)"
            for name in values.columns[(spread > 0) & (error > spread / 1000)]]
    return lost and (f"loses precision as 32-bit numbers: {listed(lost)}; subtract what all values "
                     "share, or leave it out if it names rows")


def _codes_for_missing(table: pd.DataFrame) -> list[str]:
    found: dict[int, dict[str, int]] = {}
    for name in table.columns[table.isin(_FOR_MISSING).any()]:
        for code in _FOR_MISSING:
            rest = table[name][table[name] != code]
            if len(rest) == len(table):
                continue
            if code < 0 <= rest.min() or (rest - code).abs().min() > rest.max() - rest.min():
                found.setdefault(code, {})[name] = len(table) - len(rest)
    return [f"{code} occurs {sum(columns.values()):,} times, in {listed(columns)}; if it means a "
            f"missing value, declare {option('missing', [str(code)])}"
            for code, columns in found.items()]


def _coded(table: pd.DataFrame) -> str:
    """Columns of few whole numbers with a name of groups, or a few such beside measured ones."""
    rows, width = table.shape
    named = [name for name in table if _CODED.fullmatch(name)]
    whole = table[[*table] if width <= 200 else named]
    few = whole.loc[:, (whole % 1 == 0).all()].nunique()
    few = few[(few > 1) & (few <= min(_FEW, rows / 3))].to_dict()
    few = {name: n for name, n in few.items() if name in named or n > 2 and 4 * len(few) <= width}
    return few and (
        f"few whole numbers, taken for amounts: "
        f"{listed(f'{name} ({n} values)' for name, n in few.items())}; if they are codes of "
        f"groups, use {option('labels', next(iter(few)))}, or leave them out of features")
