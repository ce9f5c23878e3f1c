"""What a person can change, as tables: every parameter of a chapter, and its profiles' costs."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from html import escape

from .. import evidence
from . import parameters


@dataclass(frozen=True)
class Table:
    """Rows of text under heads; prints as text, displays as a table that scrolls in its box."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    code: tuple[str, ...]       # heads of the columns that hold code

    def __str__(self) -> str:
        """A paragraph a row: its first cell, and below it the others by their heads."""
        return "\n\n".join(
            "\n".join([row[0], *(f"    {head}: {cell}" for head, cell in
                                 zip(self.heads[1:], row[1:], strict=True) if cell)])
            for row in self.rows)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [
            f'<div class="cb-scorecard-scroll" role="region" tabindex="0" '
            f'aria-label="{escape(self.caption)}">',
            f'<table class="cb-scorecard cb-options"><caption>{escape(self.caption)}</caption>',
            "<thead><tr>" + "".join(f'<th scope="col">{h}</th>' for h in self.heads)
            + "</tr></thead><tbody>",
        ]
        for row in self.rows:
            cells = [f"<code>{escape(cell)}</code>" if head in self.code and cell else escape(cell)
                     for head, cell in zip(self.heads, row, strict=True)]
            parts.append(f'<tr><th scope="row">{cells[0]}</th>'
                         + "".join(map(self._cell, self.heads[1:], cells[1:])) + "</tr>")
        return "\n".join([*parts, "</tbody></table></div>"])

    @staticmethod
    def _cell(head: str, text: str) -> str:
        if head != "Command":
            return f"<td>{text}</td>"
        # A line must not end inside an option.
        return '<td class="cb-command">' + re.sub(r"(?<= )--?\w+", r"<span>\g<0></span>",
                                                  text) + "</td>"


def parameter_table(chapter: str) -> Table:
    """Every parameter of a chapter: default, command, meaning, the paper's value, effect, type.

    Raises
    ------
    InputError
        If there is no such chapter.
    """
    rows = [
        (p.name, f"{p.default!r}",
         f"clusterbook run {chapter} -p {p.name} {_typed(p.default)} --figures out",
         p.meaning, p.paper, p.effect, parameters.type_name(p.type))
        for p in parameters.read(chapter).values()
    ]
    heads = ("Parameter", "Default", "Command", "Meaning", "In the paper", "If changed", "Type")
    return Table(f"{chapter}: {len(rows)} parameters", heads, tuple(rows),
                 ("Parameter", "Default", "Type", "Command"))


def profile_table(chapter: str) -> Table:
    """The profiles of a chapter: what each reruns, what a seed of it cost, its command.

    Raises
    ------
    InputError
        If there is no such chapter.
    """
    found = parameters.profiles(chapter)
    recorded = {profile.name: profile.cells for profile in evidence.status().rows}
    rows = [
        (profile.name, profile.says, _cost(recorded.get(profile.name)),
         ", ".join(profile.assumed) or "none",
         f"clusterbook run {chapter} --profile {profile.name} --seeds 0-4 --record out")
        for profile in found.values()
    ]
    heads = ("Profile", "What it reruns", "Cost of a seed", "Settings that no source has",
             "Command")
    return Table(f"{chapter}: {len(rows)} profiles", heads, tuple(rows), ("Profile", "Command"))


def _cost(cells: dict[str, str] | None) -> str:
    """What a seed of a recorded profile took, as the page of recorded runs has it."""
    if cells is None:
        return "not recorded"
    return "; ".join(cells[head] for head in ("Time, a seed", "Peak memory", "Machine"))


def _typed(value: object) -> str:
    """A value as it is typed in a shell."""
    return shlex.quote(value if isinstance(value, str) else repr(value).replace(" ", ""))
