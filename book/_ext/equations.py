"""The directive ``equations``: which function of the library has which equation of a paper.

The rows come from the docstrings: a function or class whose docstring names ``Eq. 13`` or
``Eqs. 7 and 8`` in its first sentence is where that equation is computed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import clusterbook

METHODS = {"tell": "TELL", "idc": "IDC", "deepcluster": "DeepCluster"}
_NAMED = re.compile(r"Eqs?\.\s(\d+)(?:\s(and|to)\s(\d+))?")


def numbers(sentence: str) -> list[int]:
    """The numbers of the equations that a sentence names.

    Examples
    --------
    >>> numbers("The soft assignment (Eqs. 7 and 8); Eqs. 4 to 6 come before it.")
    [4, 5, 6, 7, 8]
    """
    found: set[int] = set()
    for first, word, last in _NAMED.findall(sentence):
        found |= set(range(int(first), int(last) + 1)) if word == "to" else {int(first)}
        found |= {int(last)} if word == "and" else set()
    return sorted(found)


def rows(method: str) -> Iterator[tuple[int, str, str, int]]:
    """Equation, file, function and line, in the order of the equations."""
    package = Path(clusterbook.__file__).parent
    found = []
    for path in sorted((package / method).rglob("*.py")):
        for node, name in _defined(ast.parse(path.read_text(encoding="utf-8"))):
            sentence = (ast.get_docstring(node) or "").split("\n\n")[0]
            found += [(number, path.relative_to(package.parent).as_posix(), name, node.lineno)
                      for number in numbers(sentence)]
    yield from sorted(found)


def _defined(tree: ast.AST, within: str = "") -> Iterator[tuple[Any, str]]:
    for node in ast.iter_child_nodes(tree):
        inside = within
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node, within + node.name
            inside = f"{within}{node.name}."
        yield from _defined(node, inside)


def markdown() -> str:
    """A table for each method, in the language of the page that it stands on."""
    lines = []
    for method, called in METHODS.items():
        lines += [f"**{called}**", "", "| Equation | Function | File and line |", "|---|---|---|"]
        places: dict[tuple[str, str, int], list[str]] = {}
        for number, file, name, line in rows(method):
            places.setdefault((file, name, line), []).append(str(number))
        lines += [f"| {', '.join(numbers)} | `{name}` | `{file}`, {line} |"
                  for (file, name, line), numbers in places.items()]
        lines.append("")
    return "\n".join(lines)


class Equations(SphinxDirective):
    """The tables, where the directive stands."""

    def run(self) -> list[nodes.Node]:
        """The nodes that take the directive's place."""
        return self.parse_text_to_nodes(markdown())


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("equations", Equations)
    return {"version": "1.0", "parallel_read_safe": True, "parallel_write_safe": True}
