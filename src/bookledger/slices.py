"""What one figure of a notebook needs: cells, by the names that they read and change.

Cells are kept whole, and in doubt: calls for their effect (``model.fit(X)``), guards that raise,
seeds and settings of modules count as changes of what they name. An object under two names is not
followed. ``tests/alone`` compares each figure alone with the whole run, and draws it with other
values of what its cells read: ``book/figures.csv`` has the parameters that left it the same.
"""

import ast
import builtins
import csv
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from symtable import symtable

import nbformat

from . import config

TABLE = Path("book", "figures.csv")
COLUMNS = ("chapter", "figure", "the same with")
_ALL = "*"      # stands for every name, of what sets something for all that follows
_FIGURE = re.compile(r"""\bshow\(.*?\bname=["']([\w-]+)["']""", re.S)
_GENERATOR = re.compile(r"^(\w+) = [\w.]*(?:default_rng|Generator)\(", re.M)
_SHOWS = re.compile(r"(figures|evidence)\.\w+|show|display|print")


@dataclass(frozen=True)
class Drawn:
    """A figure of a chapter, the places of the cells that draw it, and what can change it."""

    name: str
    cells: tuple[int, ...]
    parameters: tuple[str, ...]


def figures(notebook: nbformat.NotebookNode, parameters: Collection[str],
            same: Mapping[str, Collection[str]] | None = None) -> dict[str, Drawn]:
    """Every figure that a notebook shows under a literal name, in its order.

    *same* maps a figure to the parameters that its cells read and that leave it the same.
    """
    cells, found, same = [*_cells(notebook)], {}, same or {}
    given = min((place for place, cell in enumerate(notebook.cells) if tagged(cell)), default=0)
    for name in _FIGURE.findall("\n".join(text for _, text, _, _ in cells)):
        kept, needed, later = [], {_ALL}, set()
        for place, text, read, changed in reversed(cells):
            if name in _FIGURE.findall(text) or kept and changed & needed:
                kept.insert(0, place)
                needed |= read
                if place > given:       # in cells above, the same name is no parameter
                    later |= read
        found[name] = Drawn(name, tuple(kept), tuple(
            one for one in parameters if one in later and one not in same.get(name, ())))
    return found


def tried(chapter: str) -> dict[str, list[str]]:
    """Figure → the parameters of a chapter that left it the same when they were tried."""
    if not (path := config.root() / TABLE).is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["figure"]: row["the same with"].split() for row in csv.DictReader(file)
                if row["chapter"] == chapter}


def alone(notebook: nbformat.NotebookNode, wanted: Collection[Drawn]) -> nbformat.NotebookNode:
    """A notebook's title, its parameters, and the cells that these figures need."""
    needed = {0}.union(*(one.cells for one in wanted))
    return nbformat.from_dict({**notebook, "cells": [
        cell for place, cell in enumerate(notebook.cells)
        if place in needed or tagged(cell)]})


def tagged(cell: nbformat.NotebookNode) -> bool:
    """Whether a cell gives the parameters."""
    return "parameters" in cell.metadata.get("tags", [])


def _cells(notebook: nbformat.NotebookNode) -> Iterator[tuple[int, str, set[str], set[str]]]:
    """The place and text of each code cell but the parameters', with what it reads and changes."""
    fixed, own, generators = {*dir(builtins)}, set(), set()
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type != "code" or tagged(cell):
            continue
        try:
            tree, (read, bound) = ast.parse(cell.source), _names(cell.source)
        except SyntaxError:         # a magic command
            yield place, "", set(), {_ALL}
            continue
        fixed |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)} | {
            (alias.asname or alias.name).partition(".")[0] for node in tree.body
            if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}
        own |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)
                and not any(_SHOWS.fullmatch(ast.unparse(one)) for one in node.decorator_list)
                and {*_changed(node, fixed, own)} - _locals(node)}
        generators |= {*_GENERATOR.findall(cell.source)}
        changed = bound | read & generators         # a generator advances whenever it is read
        for node in tree.body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                changed |= {*_changed(node, fixed, own)}
                if any(isinstance(part, ast.Assert | ast.Raise) for part in ast.walk(node)):
                    changed |= read - fixed
        yield place, cell.source, read, changed


class _Generators(ast.NodeTransformer):
    """Comprehensions as generators: since Python 3.12 a symbol table has the others inlined."""

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.GeneratorExp:
        """Keep what it computes, and from what."""
        self.generic_visit(node)
        return ast.GeneratorExp(node.elt, node.generators)

    visit_SetComp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> ast.GeneratorExp:
        """Keep keys and values."""
        self.generic_visit(node)
        return ast.GeneratorExp(ast.Tuple([node.key, node.value], ast.Load()), node.generators)


def _names(source: str) -> tuple[set[str], set[str]]:
    """The variables of a notebook that a cell, with the functions inside it, reads and binds."""
    source = ast.unparse(_Generators().visit(ast.parse(source)))
    read, bound, tables = set(), set(), [symtable(source, "a cell", "exec")]
    for table in tables:
        tables += table.get_children()
        for symbol in table.get_symbols():
            if table.get_type() == "module" or symbol.is_global():
                if symbol.is_referenced():
                    read.add(symbol.get_name())
                if symbol.is_assigned() or symbol.is_imported():
                    bound.add(symbol.get_name())
    return read, bound


def _locals(function: ast.FunctionDef) -> set[str]:
    """The names that are bound inside a function."""
    return {node.id for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _changed(statement: ast.stmt, fixed: Collection[str], own: Collection[str]) -> Iterator[str]:
    """The variables whose objects a statement may change, or `_ALL` if it sets something."""
    def root(node: ast.AST) -> str:
        """The variable that ``a.b[c].d()`` is a part of; none of what a fixed function returns."""
        called = False
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
            called |= isinstance(node, ast.Call)
            node = node.func if isinstance(node, ast.Call) else node.value
        name = node.id if isinstance(node, ast.Name) else ""
        return name if name not in fixed else "" if called else _ALL

    for part in ast.walk(statement):
        match part:
            case ast.Attribute() | ast.Subscript() if not isinstance(part.ctx, ast.Load):
                yield root(part)
            case ast.Call(ast.Attribute(target, attr="fit")):
                yield root(target)
            case ast.Call(ast.Name(name), args) if name in own:
                yield from {*map(root, args)} - {_ALL}
            case ast.Expr(ast.Call(func, args)) if not _SHOWS.fullmatch(ast.unparse(func)):
                yield from {*map(root, args)} - {_ALL}
                yield root(func)
