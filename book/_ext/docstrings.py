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


def readable(lines: list[str]) -> list[str]:
    """Turn footnotes, whose numbers are unique on a page, into a list; join attributes' names."""
    text = re.sub(r"^(\s*)\.\. \[(\d+)\] ", r"\1\2. ", "\n".join(lines), flags=re.MULTILINE)
    before, section, after = re.sub(r"\[(\d+)\]_", r"[\1]", text).partition("Attributes\n---")
    # "low, high : float" is taken for one name.
    after = re.sub(r"(?m)^\w+(, \w+)+(?= : )", lambda found: found[0].replace(", ", ","), after)
    return f"{before}{section}{after}".split("\n")


def rows(method: str) -> list[tuple[int, str, str, str, int]]:
    """The first equation, all of them, function, file and line, where a docstring begins with them.

    A sentence names them by ``Eq. 13``, ``Eqs. 7 and 8`` or ``Eqs. 4 to 6``.
    """
    package, found = Path(clusterbook.__file__).parent, []
    for path in (package / method).rglob("*.py"):
        file = path.relative_to(package.parent).as_posix()
        for name, node in _defined(ast.parse(path.read_text(encoding="utf-8"))):
            begins = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
            if named := re.findall(r"Eqs?\. (\d+(?: (?:and|to) \d+)?)", begins):
                first = int(named[0].split()[0])
                found.append((first, ", ".join(named), name, file, node.lineno))
    return sorted(found)


def _defined(tree: ast.AST, within: str = "") -> Iterator[tuple[str, Any]]:
    for node in ast.iter_child_nodes(tree):
        inside = within
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield within + node.name, node
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
            lines += [f"| {named} | `{name}` | `{file}`, {line} |"
                      for _, named, name, file, line in rows(method)]
            lines.append("")
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive, and the rewriting before napoleon reads the sections."""
    def rewrite(app, what, name, obj, options, lines) -> None:
        lines[:] = readable(lines)

    def sign(app, what, name, obj, options, signature, returns) -> tuple[str, str] | None:
        return (signature.replace("<factory>", "..."), returns) if signature else None

    app.add_directive("equations", Equations)
    app.connect("autodoc-process-docstring", rewrite, priority=400)
    app.connect("autodoc-process-signature", sign)
    return {"version": "1.0", "parallel_read_safe": True, "parallel_write_safe": True}
