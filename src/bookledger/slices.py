"""The cells of a notebook that one figure needs, found from the names that they read and bind.

A cell is kept if it binds or may change what a later one that is kept reads. In doubt it is kept:
calls for their effect (``model.fit(X)``), guards that raise, the notebook's functions that do so,
seeds and settings of modules count as changes. An object under two names is not followed.
``tests/alone`` compares each figure with the whole run.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from symtable import symtable

import nbformat

_ALL = "*"      # stands for every name, of what sets something for all that follows
_FIGURE = re.compile(r"\bshow\(.*?\bname='([\w-]+)'", re.S)
_GENERATOR = re.compile(r"= [\w.]*(default_rng|Generator)\(")
_RECORDS = re.compile(r"\bevidence\.(recorded|arrays|model_file)\b")
_SETS = re.compile(r"seed|\bset_|filter|\buse")
_SHOWS = re.compile(r"(figures|evidence)\.\w+|show|display|print")


@dataclass(frozen=True)
class Drawn:
    """A figure of a chapter, and what drawing it takes."""

    name: str
    cells: tuple[int, ...]          # their places in the notebook
    parameters: tuple[str, ...]     # that it depends on, in the chapter's order
    recorded: bool                  # drawn from records, and no parameter changes it


@dataclass
class _Statement:
    """A statement: the names that it reads, surely binds, and may bind or change; its figures."""

    cell: int
    read: set[str]
    sure: set[str]
    changed: set[str]
    shows: Collection[str] = ()
    recorded: bool = False


def figures(notebook: nbformat.NotebookNode, parameters: Collection[str]) -> dict[str, Drawn]:
    """Every figure that a notebook shows under a literal name, in its order."""
    statements, found = _statements(notebook), {}
    cells = [[*parts] for _, parts in groupby(statements, lambda one: one.cell)]
    for shown in statements:
        for name in shown.shows:
            kept, _ = _needed(name, cells)
            _, names = _needed(name, [[part] for part in statements])
            reached = tuple(one for one in parameters if one in names)
            found[name] = Drawn(name, tuple(sorted(kept)), reached, shown.recorded and not reached)
    return found


def alone(notebook: nbformat.NotebookNode, wanted: Collection[Drawn]) -> nbformat.NotebookNode:
    """A notebook's title, its parameters, and the cells that these figures need."""
    needed = {0}.union(*(one.cells for one in wanted))
    return nbformat.from_dict({**notebook, "cells": [
        cell for place, cell in enumerate(notebook.cells)
        if place in needed or "parameters" in cell.metadata.get("tags", [])]})


def _needed(name: str, groups: Sequence[Sequence[_Statement]]) -> tuple[set[int], set[str]]:
    """The cells of the groups of statements that a figure needs, and all names that these read
    from elsewhere.
    """
    kept, needed = set(), {_ALL}
    for group in reversed(groups):
        if any(name in part.shows or kept and part.changed & needed for part in group):
            kept.add(group[0].cell)
            for part in reversed(group):
                needed = needed - part.sure | part.read
    return kept, needed


def _statements(notebook: nbformat.NotebookNode) -> list[_Statement]:
    """The statements of the code cells but the parameters', with what they read and change."""
    found, fixed, changing, advance, recorded = [], {*dir(builtins)}, set(), set(), set()
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type != "code" or "parameters" in cell.metadata.get("tags", []):
            continue
        try:
            body = _Lazy().visit(ast.parse(cell.source)).body
        except SyntaxError:         # a magic command
            found.append(_Statement(place, set(), set(), {_ALL}))
            continue
        for node in body:
            text, part = ast.unparse(node), _Statement(place, *_names(node))
            found.append(part)
            part.recorded = bool(_RECORDS.search(text) or part.read & recorded)
            recorded |= part.changed if part.recorded else set()
            advance |= part.changed if _GENERATOR.search(text) else set()   # whenever it is read
            if isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef | ast.FunctionDef):
                fixed |= part.changed
            changed = {*_changed(node, fixed, changing, node is body[-1])}
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                part.shows = _FIGURE.findall(text)
                part.changed |= {_ALL if name in fixed else name for name in changed}
            elif changed & {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}:
                changing |= part.changed        # itself it changes nothing, but where it is called
            part.changed |= part.read & advance
    return found


class _Lazy(ast.NodeTransformer):
    """Makes generators of comprehensions, whose names `symtable` counts among those around them
    since Python 3.12.
    """

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.AST:
        return self.generic_visit(ast.GeneratorExp(node.elt, node.generators))

    visit_SetComp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        pair = ast.Tuple([node.key, node.value], ast.Load())
        return self.generic_visit(ast.GeneratorExp(pair, node.generators))


def _names(node: ast.stmt) -> tuple[set[str], set[str], set[str]]:
    """The names that a statement reads, surely binds, and may bind."""
    read, bound, tables = set(), set(), [symtable(ast.unparse(node), "a cell", "exec")]
    for table in tables:            # its own, and those of the functions inside it
        tables += table.get_children()
        for symbol in table.get_symbols():
            if table.get_type() == "module" or symbol.is_global():
                if symbol.is_referenced() or isinstance(node, ast.AugAssign):
                    read.add(symbol.get_name())
                if symbol.is_assigned() or symbol.is_imported():
                    bound.add(symbol.get_name())
    maybe = isinstance(node, ast.For | ast.If | ast.Match | ast.Try | ast.While)
    return read, set() if maybe else {*bound}, bound


def _changed(node: ast.stmt, fixed: set[str], changing: set[str], last: bool) -> Iterator[str]:
    """The variables whose objects a statement may change; a fixed name is one that gets a setting.
    """
    for part in ast.walk(node):
        match part:
            case ast.Attribute() | ast.Subscript() if not isinstance(part.ctx, ast.Load):
                yield _root(part, fixed)
            case ast.AugAssign(target) | ast.Call(ast.Attribute(target, attr="fit")):
                yield _root(target, fixed)
            case ast.Assert(test) | ast.If(test, [*_, ast.Raise()]):
                yield from {_root(each, fixed) for each in ast.walk(test)} - fixed
            case ast.Expr(ast.Call(func)) if not _SHOWS.fullmatch(ast.unparse(func)):
                yield from {_root(each, fixed) for each in part.value.args} - fixed
                # The last call of a cell is displayed.
                if not last or _SETS.search(ast.unparse(func)) or _root(func, fixed) not in fixed:
                    yield _root(func, fixed)
            case ast.Call(ast.Name(name), args) if name in changing:
                yield from {_root(each, fixed) for each in args} - fixed


def _root(node: ast.AST, fixed: Collection[str]) -> str:
    """The variable that ``a.b[c].d()`` is a part of; none of what a fixed function returns."""
    called = False
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
        called |= isinstance(node, ast.Call)
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) and not (called and node.id in fixed) else ""
