"""The house: a module imports only from floors below its own, and nothing goes in a circle."""

from __future__ import annotations

import ast
from pathlib import Path

from clusterbook import paths

PACKAGE = Path(paths.__file__).resolve().parent
#: From the ground up; names on one floor do not import each other.
FLOORS = (
    ("errors",), ("checks", "paths"), ("metrics", "figures", "progress", "fingerprint"),
    ("batchnorm", "footprint", "checkpoints"), ("datasets", "training"), ("base",),
    ("classifier", "tell", "idc", "deepcluster"), ("weights",), ("evidence",), ("book",), ("cli",),
)
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}


def modules() -> dict[str, Path]:
    """Every module by its name in the package, ``__init__`` as the package itself."""
    return {".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"):
            path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE
            or path.stem != "__init__"}


def imports(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The modules that one imports when it is imported, those for type checkers included."""
    home = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    found = set()
    for node in top_level(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = home[:len(home) - node.level + 1] + (node.module or "").split(".")
            base = [part for part in base if part]
            for alias in node.names:
                whole = ".".join([*base, alias.name])
                found.add(whole if whole in known else ".".join(base))
    return {one for one in found if one in known and one != name}


def top_level(tree: ast.Module):
    """Statements that run at import: not those inside functions."""
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            waiting += node.body + getattr(node, "orelse", [])


KNOWN = modules()
GRAPH = {name: imports(name, path, KNOWN) for name, path in KNOWN.items()}


def test_every_module_imports_from_floors_below_its_own():
    assert {name.split(".")[0] for name in KNOWN} == set(FLOOR)
    for name, needed in GRAPH.items():
        part = name.split(".")[0]
        others = {one.split(".")[0] for one in needed} - {part}
        assert not [one for one in others if FLOOR[one] >= FLOOR[part]], name


def test_nothing_goes_in_a_circle():
    left = {name: set(needed) for name, needed in GRAPH.items()}
    # What needs nothing, and what nothing needs, is in no circle; nor is it when these are gone.
    while free := {name for name in left if not left[name]
                   or not any(name in needed for needed in left.values())}:
        left = {name: needed - free for name, needed in left.items() if name not in free}
    assert not left, f"these import each other: {sorted(left)}"
