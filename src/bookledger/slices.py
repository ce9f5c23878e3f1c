"""The part of a notebook that one figure needs, found from what its statements read and change.

A statement is kept if it binds or changes what a later one that is kept reads. Methods called for
their effect (``model.fit(X)``), guards that raise, arguments of the notebook's own functions and
settings of modules count as changes. ``tests/alone`` compares each figure with the whole run.
"""

from __future__ import annotations

import ast
import builtins
import dis
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from types import CodeType

import nbformat

_SHOWS = re.compile(r"(figures|evidence)\.\w+|show|display|print")
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_MAYBE = ast.If | ast.While | ast.Try | ast.Match


@dataclass(frozen=True)
class Drawn:
    """A figure of a chapter, and what drawing it takes."""

    name: str
    lines: dict[int, set[int]]      # by the place of their cell in the notebook
    parameters: tuple[str, ...]     # that it depends on, in the chapter's order
    recorded: bool                  # drawn from records, and no parameter changes it


@dataclass
class _Statement:
    """A statement of a cell, with the names that it reads, binds, surely binds and changes."""

    node: ast.stmt
    cell: int
    last: bool                                              # its value is displayed
    read: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    sure: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    shows: set[str] = field(default_factory=set)            # the names of figures
    alike: set[str] = field(default_factory=set)            # names of one object, or its parts
    sets: bool = False                                      # something for all that follows


def figures(notebook: nbformat.NotebookNode, parameters: Collection[str]) -> dict[str, Drawn]:
    """Every figure that a notebook shows under a literal name, in its order."""
    statements = _statements(notebook.cells)
    return {name: _drawn(name, statements, parameters)
            for statement in statements for name in sorted(statement.shows)}


def alone(notebook: nbformat.NotebookNode, wanted: Collection[Drawn]) -> nbformat.NotebookNode:
    """A notebook's title, its parameters, and the lines that these figures need."""
    kept = deepcopy(notebook)
    for place, cell in enumerate(kept.cells):
        lines = set().union(*(one.lines.get(place, set()) for one in wanted))
        if place and "parameters" not in cell.metadata.get("tags", []):
            cell.source = "\n".join(line for number, line in enumerate(cell.source.split("\n"), 1)
                                    if number in lines)
    kept.cells = [cell for cell in kept.cells if cell.source]
    return kept


def _drawn(name: str, statements: Sequence[_Statement], parameters: Collection[str]) -> Drawn:
    needed, lines, source = set(), {}, ""
    last = max(i for i, one in enumerate(statements) if name in one.shows)
    for one in reversed(statements[:last + 1]):
        if name in one.shows or one.sets or (one.bound | one.changed) & needed:
            needed = needed - one.sure | one.read
            decorated = [each.lineno for each in getattr(one.node, "decorator_list", [])]
            lines.setdefault(one.cell, set()).update(
                range(min([one.node.lineno, *decorated]), one.node.end_lineno + 1))
            source += ast.unparse(one.node)
    reached = tuple(one for one in parameters if one in needed)
    recorded = not reached and re.search(r"\bevidence\.(recorded|arrays|model_file)\b", source)
    return Drawn(name, lines, reached, bool(recorded))


def _statements(cells: Sequence[nbformat.NotebookNode]) -> list[_Statement]:
    """The statements of all code cells but the parameters', with what they read and change."""
    found, fixed, changing, generators = [], {*dir(builtins)}, set(), set()
    for place, cell in enumerate(cells):
        if cell.cell_type == "code" and "parameters" not in cell.metadata.get("tags", []):
            source = re.sub(r"^([ \t]*)[%!].*", r"\1help.set_magic()", cell.source, flags=re.M)
            with suppress(SyntaxError):         # a cell that can't run draws nothing
                compile(source, "a cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                body = ast.parse(source).body
                found += [_Statement(node, place, node is body[-1]) for node in body]
    for one in found:
        _names(one)
        if isinstance(one.node, ast.Import | ast.ImportFrom | ast.ClassDef | _FUNCTION):
            fixed |= one.bound
        if re.search(r"= [\w.]*(default_rng|Generator)\(", ast.unparse(one.node)):
            generators |= one.bound         # which advance whenever they are read
    for one in found:
        _changes(one, fixed, changing)
        if isinstance(one.node, _FUNCTION):     # itself it changes and shows nothing
            if one.changed & {each.arg for each in ast.walk(one.node.args)
                              if isinstance(each, ast.arg)}:
                changing |= one.bound
            one.changed, one.shows = set(), set()
        one.changed |= one.read & generators
    for one in found:
        for each in found:
            if one.changed & each.alike:
                one.changed |= each.alike
    return found


def _names(one: _Statement) -> None:
    """Find what a statement reads and binds; its bytecode tells local names from others."""
    maybe = {part.id for outer in ast.walk(one.node) if isinstance(outer, _MAYBE)
             for part in ast.walk(outer)
             if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)}
    for name, stores in _accesses(compile(
            ast.Module([one.node], []), "a cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)):
        if stores:
            one.bound.add(name)
        elif name not in one.bound or name in maybe:
            one.read.add(name)
    dotted = isinstance(one.node, ast.Import) and any("." in name.name for name in one.node.names)
    if not (dotted or isinstance(one.node, ast.For | _MAYBE)):
        one.sure = one.bound - maybe


def _accesses(code: CodeType, top: bool = True) -> Iterator[tuple[str, bool]]:
    """The global names that code loads, or stores (True), in its order."""
    for step in dis.get_instructions(code):
        if isinstance(step.argval, CodeType):
            yield from _accesses(step.argval, top=False)
        elif found := re.fullmatch("(LOAD|STORE|DELETE)_(NAME|GLOBAL)", step.opname):
            if found[1] == "LOAD" or found[2] == "GLOBAL" or top:
                yield step.argval, found[1] != "LOAD"


def _changes(one: _Statement, fixed: Collection[str], changing: Collection[str]) -> None:
    """Find the objects that a statement changes, and the figures that it shows."""
    touched: list[ast.AST] = []
    for part in ast.walk(one.node):
        match part:
            case ast.Attribute() | ast.Subscript() if not isinstance(part.ctx, ast.Load):
                touched.append(part)
                one.sets |= _root(part) <= fixed
            case ast.AugAssign():
                touched.append(part.target)
            case ast.Assert() | ast.If(body=[*_, ast.Raise()]):
                touched += ast.walk(part.test)
            case ast.Expr(ast.Call(func, args)) if not _SHOWS.fullmatch(ast.unparse(func)):
                touched += [func, *args]
                one.sets |= part is one.node and _root(func, fixed) <= fixed and bool(
                    not one.last or re.search(r"seed|\bset_|filter|\buse", ast.unparse(func)))
            case ast.Call(func, args, keywords):
                name, given = ast.unparse(func), {each.arg: each.value for each in keywords}
                if name.endswith(".fit"):
                    touched.append(func)
                if name in changing:
                    touched += [*args, *given.values()]
                if name in ("figures.show", "show"):
                    one.shows |= {each.value for each in [*args[1:2], given.get("name")]
                                  if isinstance(each, ast.Constant)}
            case ast.Assign(targets=[ast.Tuple() | ast.Name() as target], value=value):
                if isinstance(target, ast.Tuple) or not isinstance(value, ast.Call):
                    one.alike |= one.bound | _root(value, fixed)    # fig, ax = plt.subplots()
    one.changed = set().union(*(_root(each, fixed) for each in touched)) - set(fixed)


def _root(node: ast.AST | None, fixed: Collection[str] = ()) -> set[str]:
    """The variable that ``a.b[c].d()`` is a part of, except of what a fixed function returns."""
    called = False
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
        called |= isinstance(node, ast.Call)
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) and not (called and node.id in fixed) else set()
