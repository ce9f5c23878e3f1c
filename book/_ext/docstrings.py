"""Docstrings on the page of the library: numpydoc that Sphinx can't read, and equations."""

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


def readable(lines: list[str]) -> list[str]:
    """Turn footnotes, whose numbers are unique on a page, into a list; join attributes' names."""
    new = [re.sub(r"\[(\d+)\]_", r"[\1]", re.sub(r"^(\s*)\.\. \[(\d+)\] ", r"\1\2. ", line))
           for line in lines]
    section = ""
    for number, line in enumerate(new[:-1]):
        if new[number + 1].strip().startswith("---"):
            section = line.strip()
        elif section == "Attributes":       # "low, high : float" is taken for one name
            new[number] = re.sub(r"^(\s*)(\w+(?:, \w+)+)(?= : )",
                                 lambda found: found[0].replace(", ", ","), line)
    return new


def python(signature: str) -> str:
    """Write the defaults of a signature as Python that Sphinx can format."""
    signature = re.sub(r"<factory>|<function <lambda>>", "...", signature)
    return re.sub(r"<function (\w+)>", r"\1", signature)


def numbers(sentence: str) -> list[int]:
    """The numbers of the equations that a sentence names: ``Eq. 13``, ``Eqs. 7 and 8``."""
    found: set[int] = set()
    for first, word, last in _NAMED.findall(sentence):
        found |= set(range(int(first), int(last) + 1)) if word == "to" else {int(first)}
        found |= {int(last)} if word == "and" else set()
    return sorted(found)


def rows(method: str) -> Iterator[tuple[int, str, str, int]]:
    """Equation, file, function and line, where the first sentence of a docstring names it."""
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


class Equations(SphinxDirective):
    """The directive ``equations``: for each method, which function has which equation."""

    def run(self) -> list[nodes.Node]:
        """A table in Markdown, the language of the page, for each method."""
        lines = []
        for method, called in METHODS.items():
            lines += [f"**{called}**", "", "| Equation | Function | File and line |",
                      "|---|---|---|"]
            places: dict[tuple[str, str, int], list[str]] = {}
            for number, *place in rows(method):
                places.setdefault(tuple(place), []).append(str(number))
            lines += [f"| {', '.join(found)} | `{name}` | `{file}`, {line} |"
                      for (file, name, line), found in places.items()]
            lines.append("")
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive, and the rewriting before napoleon reads the sections."""
    def rewrite(app, what, name, obj, options, lines) -> None:
        lines[:] = readable(lines)

    def sign(app, what, name, obj, options, signature, returns) -> tuple[str, str] | None:
        return (python(signature), returns) if signature else None

    app.add_directive("equations", Equations)
    app.connect("autodoc-process-docstring", rewrite, priority=400)
    app.connect("autodoc-process-signature", sign)
    return {"version": "1.0", "parallel_read_safe": True, "parallel_write_safe": True}
