"""What the printed book needs: columns of tables that fit the page.

A long table breaks across pages, and LaTeX then sets every column as wide as its longest line. The
columns get shares of the page instead, by how much they hold.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


def shares(rows: list[list[int]]) -> list[int]:
    """Widths of columns in per cent, from the length of each row's cells.

    A column's share follows its longest cell, within bounds: neither a long sentence nor an empty
    column decides alone.

    Examples
    --------
    >>> shares([[10, 40, 0], [12, 20, 4]])
    [22, 67, 11]
    """
    widths = [min(max(*column, 6), 36) for column in zip(*rows, strict=True)]
    return [round(100 * width / sum(widths)) for width in widths]


def fit_tables(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give the columns of every table widths, where LaTeX sets the pages."""
    if app.builder.format != "latex":
        return
    for table in doctree.findall(nodes.table):
        group = table.next_node(nodes.tgroup)
        rows = [[len(cell.astext()) for cell in row.findall(nodes.entry)]
                for row in group.findall(nodes.row)]
        columns = list(group.findall(nodes.colspec))
        if len({len(row) for row in rows}) > 1 or len(rows[0]) != len(columns):
            continue  # cells that span columns: left to LaTeX
        for column, width in zip(columns, shares(rows), strict=True):
            column["colwidth"] = width
        table["classes"] = [name for name in table["classes"] if name != "colwidths-auto"]
        table["classes"].append("colwidths-given")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the step."""
    app.connect("doctree-resolved", fit_tables)
    return {"version": "1.0", "parallel_read_safe": True, "parallel_write_safe": True}
