"""How numbers, seeds, times and tables are written as text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest

WIDTH = 100
"""Columns of a terminal that a table fits in."""
_GAP = "  "
_INDENT = "    "
_MOST_COLUMNS = 4       # that are cut to fit; more would be too narrow to read


def count(n: int, noun: str) -> str:
    """A number with its noun: ``1 seed``, ``3 seeds``."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def seed_list(seeds: Iterable[int]) -> str:
    """Seeds with their noun: ``seed 3``, ``seeds 1, 4``, ``seeds 0–4``."""
    found = sorted(set(seeds))
    if len(found) > 2 and found == list(range(found[0], found[-1] + 1)):
        return f"seeds {found[0]}–{found[-1]}"
    return f"seed{'s' if len(found) > 1 else ''} {', '.join(map(str, found))}"


def spread(mean: float, sd: float | None) -> str:
    """Mean ± standard deviation, both with as many decimals as the deviation's two digits need.

    Three where it is zero.

    Examples
    --------
    >>> spread(10.0243, 0.0171), spread(0.8, 0)
    ('10.024 ± 0.017', '0.800 ± 0.000')
    """
    if sd is None:
        return f"{mean:.4g}"
    decimals = min(max(1 - math.floor(math.log10(sd)), 0), 6) if sd else 3
    return f"{mean:.{decimals}f} ± {sd:.{decimals}f}"


def duration(seconds: float) -> str:
    """A time in the largest unit that fits, two digits: ``45 s``, ``12 min``, ``1.4 h``.

    Examples
    --------
    >>> [duration(seconds) for seconds in (8.24, 59.7, 745, 5040, 36000)]
    ['8.2 s', '60 s', '12 min', '1.4 h', '10 h']
    """
    size, unit = (3600, "h") if seconds >= 3600 else (60, "min") if seconds >= 60 else (1, "s")
    amount = seconds / size
    return f"{amount:.{1 if amount < 9.95 else 0}f} {unit}"


def paragraph(text: str) -> str:
    """Text in lines that fit a terminal, the later ones indented."""
    return textwrap.fill(text, WIDTH, subsequent_indent=_INDENT)


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of texts below their heads, aligned, in lines of at most `WIDTH` characters.

    A row of a single text, such as a remark on the row above it, is indented and takes the whole
    width. Where more than four columns are too wide, each row is a paragraph: its first text, and
    below it, never broken, the others with their heads.

    Examples
    --------
    >>> print(columns(["claim", "ours"], [["a", "0.5"], ["a remark"], ["b-c", "0.25"]]))
    claim  ours
    a      0.5
        a remark
    b-c    0.25
    """
    aligned = [row for row in [heads, *rows] if len(row) > 1]
    widths = [max(1, *map(len, column)) for column in zip(*aligned, strict=True)]
    room = WIDTH - len(_GAP) * (len(widths) - 1)
    if sum(widths) > room and len(widths) > _MOST_COLUMNS:
        return "\n\n".join(
            f"\n{_INDENT}".join([first, *(f"{head}: {text}" for head, text in
                                          zip(heads[1:], others, strict=True) if text)])
            for first, *others in rows)
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    lines = []
    for row in [heads, *rows] if any(heads) else rows:
        if len(row) == 1:
            lines.append(textwrap.indent(textwrap.fill(row[0], WIDTH - len(_INDENT)), _INDENT))
            continue
        cells = map(textwrap.wrap, row, widths)
        lines += [_GAP.join(map(str.ljust, parts, widths)).rstrip()
                  for parts in zip_longest(*cells, fillvalue="")]
    return "\n".join(lines)
