"""The hash of the code that can change a chapter's numbers.

A record of changed code is stale. Only what runs counts: each module's syntax tree is hashed
without comments, docstrings and layout, to the same hash under every Python version. Data count by
their content, not by the code that loads them: a record keeps the SHA-256 of the arrays.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import resolve_name
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from . import _PUBLIC, paths
from .errors import InputError, unknown

ALWAYS = ("metrics", "training")
"""Modules that count for every chapter: the scores and the training loop."""

EXCLUDED = ("book", "cli", "datasets", "errors", "evidence", "figures", "fingerprint", "paths",
            "progress")
"""Modules, neither hashed nor followed, that can't change a number other than through the data."""

_PACKAGE = Path(paths.__file__).resolve().parent
_NAME = _PACKAGE.name
_parsed = cache(ast.parse)
# Only some versions of Python write these, or they never change what runs.
_SKIPPED_FIELDS = {"ctx", "kind", "type_comment", "type_ignores"}


def fingerprint(chapter: str) -> str:
    """The SHA-256 (hexadecimal) of the code that can change a chapter's numbers.

    It covers the chapter's module, the modules that its notebook imports, the metrics, the training
    loop, and whatever of clusterbook these import in turn, but for `EXCLUDED`. *chapter* is the
    name of its notebook, of its module, or of both.

    Raises InputError if there is neither such a module nor such a notebook.
    """
    modules = _modules()
    notebook = paths.root() / "notebooks" / f"{chapter}.ipynb"
    start = {chapter, *ALWAYS} & modules.keys()
    if notebook.is_file():
        start |= _imports_of_cells(code_cells(notebook), modules)
    elif chapter not in modules:
        raise unknown("method module", chapter, (n for n in modules if n and "." not in n))
    return hash_modules(reached(start))


def modules_of(sources: Iterable[str]) -> set[str]:
    """The clusterbook modules that notebook cells import, directly or through others.

    Names are relative to the package (``"weights"``, ``"evidence.claims"``).

    Examples
    --------
    >>> "figures" in modules_of(["from clusterbook import figures"])
    True
    """
    return reached(_imports_of_cells(sources, _modules()), excluded=())


def reached(start: Iterable[str], *, excluded: Iterable[str] = EXCLUDED) -> set[str]:
    """These modules and those that they import in turn, also inside functions.

    The package's own ``__init__`` holds the version and lazy names: it is looked through.
    """
    modules, seen, waiting = _modules(), set(), list(start)
    while waiting:
        name = waiting.pop()
        if not name or name in seen or name.split(".")[0] in excluded:
            continue
        seen.add(name)
        parent = name.rpartition(".")[0]                # importing a.b runs a's __init__ too
        home = name if modules[name].name == "__init__.py" else parent
        waiting += [parent, *_imports(modules[name].read_bytes(), home, modules)]
    return seen


def code_cells(notebook: Path) -> list[str]:
    """The source of every code cell of a notebook file."""
    try:
        cells = json.loads(notebook.read_bytes())["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{notebook} is not a notebook: JSON with a list of cells") from None


def hash_modules(names: Iterable[str]) -> str:
    """The SHA-256 (hexadecimal) of clusterbook modules, whatever their order."""
    modules = _modules()
    digest = hashlib.sha256()
    for name in sorted(set(names)):
        digest.update(f"{name} {hash_source(modules[name].read_bytes())}\n".encode())
    return digest.hexdigest()


@cache
def hash_source(source: str | bytes) -> str:
    """The SHA-256 (hexadecimal) of what a piece of Python does, without comments and docstrings.

    Examples
    --------
    >>> hash_source("x = 1  # one") == hash_source("x=1")
    True
    >>> hash_source("x = 1") == hash_source("x = 2")
    False
    """
    digest = hashlib.sha256()
    for token in _tokens(_parsed(source)):
        digest.update(token.encode() + b"\0")
    return digest.hexdigest()


def _tokens(node: Any) -> Iterator[str]:
    """A syntax tree as a stream of words that all Python versions agree on."""
    if isinstance(node, list):
        yield from ("[", *chain.from_iterable(map(_tokens, node)), "]")
    elif not isinstance(node, ast.AST):
        # `repr` leaves printable characters as they are, and versions disagree on which those are.
        yield f"{type(node).__name__}:{ascii(node)}"
    else:
        yield type(node).__name__
        for field, value in sorted(ast.iter_fields(node)):
            if isinstance(node, ast.JoinedStr) and field == "values":
                value = _merged(value)
            if isinstance(value, list):                 # docstrings, of attributes too
                value = [item for item in value if not (
                    isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)
                    and isinstance(item.value.value, str))]
            if field not in _SKIPPED_FIELDS and value is not None and value != []:
                yield f".{field}"
                yield from _tokens(value)
        yield "."


def _merged(values: list[ast.expr]) -> list[ast.expr]:
    """The parts of an f-string with neighboring pieces of text joined; versions cut them apart."""
    parts: list[ast.expr] = []
    for is_text, run in groupby(values, lambda value: isinstance(value, ast.Constant)):
        if not is_text:
            parts += run
        elif text := "".join(value.value for value in run):
            parts.append(ast.Constant(text))
    return parts


def _modules() -> dict[str, Path]:
    """Every module of the package: its name relative to the package, and its file."""
    return {".".join(path.relative_to(_PACKAGE).with_suffix("").parts).removesuffix("__init__")
            .removesuffix("."): path for path in _PACKAGE.rglob("*.py")}


def _imports(source: str | bytes, home: str, modules: dict[str, Path]) -> set[str]:
    """The package's modules that Python in the subpackage *home* imports, anywhere in it."""
    here, found = f"{_NAME}.{home}".strip("."), set()
    for node in ast.walk(_parsed(source)):
        if isinstance(node, ast.Import):                # without "as", all of it is at hand
            found |= {alias.name if alias.asname and "." in alias.name
                      else f"{alias.name.partition('.')[0]}.*" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), here)
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    if f"{_NAME}.*" in found:
        return set(modules)
    inner = {name.removeprefix(f"{_NAME}.") for name in found if name.startswith(f"{_NAME}.")}
    return {_PUBLIC.get(name, name) for name in inner} & modules.keys()


def _imports_of_cells(cells: Iterable[str], modules: dict[str, Path]) -> set[str]:
    """The package's modules that notebook cells import; magics and other languages do not."""
    found = set()
    for source in cells:
        python = re.sub(r"^([ \t]*)[%!].*", r"\1pass", source, flags=re.M)
        with contextlib.suppress(SyntaxError):          # a cell that can't run imports nothing
            found |= _imports(python, "", modules)
    return found
