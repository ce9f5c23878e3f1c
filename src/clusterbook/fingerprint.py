"""The hash of the code that can change a chapter's numbers.

A record keeps the hash of the code that made it; when the code changes, the record is stale. Only
what runs counts: each module is parsed and its syntax tree is hashed without comments, docstrings,
layout and positions, so that prose may change freely. The hash is the same under every Python
version: the walk below skips whatever one version's ``ast`` writes and another's leaves out.

Data count by their content and not by the code that loads them: what a loader does to a run is in
the arrays that it returns, and a record keeps the SHA-256 of those. So a new data set makes no
record stale, and changed data do, whatever changed them (`clusterbook.evidence.judge`).

The same mechanism tells the book's build which modules a notebook depends on.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from . import paths
from .errors import InputError, unknown

ALWAYS = ("metrics", "training")
"""Modules that count for every chapter: the scores and the training loop."""

EXCLUDED = (
    "book", "cli", "datasets", "downloads", "errors", "evidence", "figures", "fingerprint", "io",
    "paths",
)  # fmt: skip
"""Modules that can't change a number, or only through data, whose content a record keeps.

They are neither hashed nor followed.
"""

_PACKAGE = Path(paths.__file__).resolve().parent
_NAME = _PACKAGE.name
# Only some versions write these, or they never change what runs.
_SKIPPED_FIELDS = {"ctx", "kind", "type_comment", "type_ignores"}


def fingerprint(chapter: str, *, package: Path | None = None) -> str:
    """The SHA-256 (hexadecimal) of the code that can change a chapter's numbers.

    It covers the chapter's module and what its notebook imports, whatever of clusterbook these
    import in turn (also inside functions), and always the metrics and the training loop; never the
    data sets (a record has their content's own SHA-256), figures, evidence or the book.

    Parameters
    ----------
    chapter : str
        The chapter's name: of its notebook, of its module, or of both.
    package : Path, optional
        The folder of the ``clusterbook`` package to read; the imported one by default.

    Raises
    ------
    InputError
        When there is neither such a module nor such a notebook.
    """
    modules = _modules(package or _PACKAGE)
    notebook = paths.root() / "notebooks" / f"{chapter}.ipynb"
    start = {name for name in (chapter, *ALWAYS) if name in modules}
    if package is None and notebook.is_file():
        for source in code_cells(notebook):
            start |= _imports_of(source, modules)
    elif chapter not in modules:
        named = [name for name in modules if name and "." not in name]
        raise unknown("method module", chapter, named)
    return hash_modules(_closure(start, modules, EXCLUDED), package=package)


def modules_of(sources: Iterable[str], *, package: Path | None = None) -> set[str]:
    """The clusterbook modules that the given source code imports, directly or through others.

    Names are relative to the package (``"weights"``, ``"evidence.claims"``). Lines that begin with
    ``%`` or ``!`` are skipped; code that does not parse imports nothing, because it can't run.

    Examples
    --------
    >>> "figures" in modules_of(["from clusterbook import figures"])
    True
    """
    modules = _modules(package or _PACKAGE)
    start: set[str] = set()
    for source in sources:
        start |= _imports_of(source, modules)
    return _closure(start, modules, ())


def code_cells(notebook: Path) -> list[str]:
    """The source of every code cell of a notebook file."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{notebook} is not a notebook: it is not JSON with a list of cells, each "
                         "with its type and source") from None


def _imports_of(source: str, modules: dict[str, Path]) -> set[str]:
    try:
        return _imports(ast.parse(_without_magics(source)), "", modules)
    except SyntaxError:
        return set()


def hash_modules(names: Iterable[str], *, package: Path | None = None) -> str:
    """The SHA-256 (hexadecimal) of the named clusterbook modules, in whatever order they are named.

    Raises
    ------
    InputError
        When clusterbook has no such module.
    """
    modules = _modules(package or _PACKAGE)
    digest = hashlib.sha256()
    for name in sorted(set(names)):
        if name not in modules:
            raise unknown("module", name, filter(None, modules))
        digest.update(f"{name} {hash_source(_read(modules[name]))}\n".encode())
    return digest.hexdigest()


def hash_source(source: str) -> str:
    """The SHA-256 (hexadecimal) of what a piece of Python does, without comments and docstrings.

    Examples
    --------
    >>> hash_source("x = 1  # one") == hash_source("x=1")
    True
    >>> hash_source("x = 1") == hash_source("x = 2")
    False
    """
    digest = hashlib.sha256()
    for token in _tokens(ast.parse(source)):
        digest.update(token.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _tokens(node: Any) -> Iterator[str]:
    """A syntax tree as a stream of words that all Python versions agree on."""
    if isinstance(node, list):
        yield "["
        for item in node:
            yield from _tokens(item)
        yield "]"
    elif not isinstance(node, ast.AST):
        # `repr` leaves printable characters as they are, and versions disagree on which those are.
        yield f"{type(node).__name__}:{ascii(node)}"
    else:
        yield type(node).__name__
        for field, value in sorted(ast.iter_fields(node)):
            if isinstance(node, ast.JoinedStr) and field == "values":
                value = _merged(value)
            if isinstance(value, list):
                value = [item for item in value if not _is_bare_string(item)]
            if field in _SKIPPED_FIELDS or value is None or value == []:
                continue
            yield f".{field}"
            yield from _tokens(value)
        yield "."


def _is_bare_string(node: Any) -> bool:
    """Whether a statement is a string alone: a docstring, of a function or of an attribute."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _merged(values: list[ast.expr]) -> list[ast.expr]:
    """The parts of an f-string with neighboring pieces of text joined; versions cut them apart."""
    parts: list[ast.expr] = []
    for value in values:
        if isinstance(value, ast.Constant):
            if parts and isinstance(parts[-1], ast.Constant):
                value = ast.Constant(parts.pop().value + value.value)
            if value.value == "":
                continue
        parts.append(value)
    return parts


def _modules(package: Path) -> dict[str, Path]:
    """Every module of the package: its name relative to the package, and its file."""
    found = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        found[".".join(parts)] = path
    return found


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _closure(start: Iterable[str], modules: dict[str, Path], excluded: Iterable[str]) -> set[str]:
    """The modules reached from *start* by imports; the package's own ``__init__`` is none of them.

    That file holds the version and lazy names, so it is looked through, not counted.
    """
    barred = set(excluded)
    seen: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name in seen or name.split(".")[0] in barred or not name:
            continue
        seen.add(name)
        tree = ast.parse(_read(modules[name]))
        is_package = modules[name].name == "__init__.py"
        home = name if is_package else name.rpartition(".")[0]
        waiting += _imports(tree, home, modules)
        waiting += [name.rpartition(".")[0]]  # importing a.b runs a's __init__ too
    return seen


def _imports(tree: ast.AST, home: str, modules: dict[str, Path]) -> set[str]:
    """The package's modules that a syntax tree imports; *home* is the package it stands in."""
    found: set[str] = set()
    aliases: set[str] = set()  # the names under which the whole package is at hand
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == _NAME:
                    aliases.add(alias.asname or _NAME)
                elif alias.name.startswith(f"{_NAME}."):
                    found.add(alias.name.removeprefix(f"{_NAME}."))
                    if alias.asname is None:
                        aliases.add(_NAME)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, home)
            if base is not None:
                found |= _named(base, [alias.name for alias in node.names], modules)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in aliases:
                found |= _named("", [node.attr], modules)
    return {name for name in found if name in modules}


def _base(node: ast.ImportFrom, home: str) -> str | None:
    """The package-relative module that ``from … import`` reads; None when it is somebody else's."""
    module = node.module or ""
    if node.level == 0:
        if module == _NAME:
            return ""
        return module.removeprefix(f"{_NAME}.") if module.startswith(f"{_NAME}.") else None
    above = home.split(".") if home else []
    above = above[: len(above) - (node.level - 1)]
    return ".".join([*above, *([module] if module else [])])


def _named(base: str, names: list[str], modules: dict[str, Path]) -> set[str]:
    """The modules behind ``from base import names``: submodules, or the base itself."""
    lazy = _lazy_names(modules) if base == "" else {}
    if "*" in names and base == "":
        names = [*names, *lazy]
    found = {base}
    for name in names:
        found.add(f"{base}.{name}" if base else lazy.get(name, name))
    return found


def _lazy_names(modules: dict[str, Path]) -> dict[str, str]:
    """The names that the package's ``__init__`` loads on first use, and the modules they are in."""
    if "" not in modules:
        return {}
    for node in ast.parse(_read(modules[""])).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_PUBLIC":
            return ast.literal_eval(node.value)
    return {}


def _without_magics(source: str) -> str:
    """A notebook cell's Python: shell and magic lines become ``pass``; other languages vanish."""
    if source.lstrip().startswith("%%") and not source.lstrip().startswith(("%%time", "%%capture")):
        return ""
    lines = []
    for line in source.splitlines():
        bare = line.lstrip()
        indent = line[: len(line) - len(bare)]
        lines.append(f"{indent}pass" if bare.startswith(("%", "!")) else line)
    return "\n".join(lines)
