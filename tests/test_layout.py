"""The house: two packages; a module imports only from floors below its own, never in a circle."""

from __future__ import annotations

import ast
import builtins
import doctest
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from _support import CHECKOUT, PACKAGE, without_settings

#: The methods: subpackages with a VERSION. They stand on one floor, unless a later one names them.
METHODS = [path.parent.name for path in sorted(PACKAGE.glob("*/__init__.py"))
           if re.search(r"(?m)^VERSION = ", path.read_text(encoding="utf-8"))]
#: From the ground up; names on one floor do not import each other. The library, with which a
#: chapter teaches, knows nothing of the engine.
FLOORS = {
    "clusterbook": (
        ("checks",), ("paths",),
        ("metrics", "figures", "checkpoints", "rules"),
        ("table",), ("datasets", "training"), ("base",),
        ("classifier", *METHODS), ("weights",), ("comparison", "labeling"),
        ("__main__",)),
    "bookledger": (
        ("config",), ("claims", "machine", "slices"), ("checks",), ("records",), ("verdicts",),
        ("wording",), ("views",), ("notebook", "parameters", "pieces", "sources"), ("execution",),
        ("outputs", "runs"), ("pages", "sweep", "verify"), ("build",), ("cli",)),
}
#: Tracked files that may be larger than 2 MB, up to 10: executed notebooks with their pictures,
#: trained networks, the checkpoint of a run of days.
LARGE = ("*.ipynb", "data/records/*.pt", "data/records/under-way/*/*")
FLOOR = {f"{package}.{name}": number for package, floors in FLOORS.items()
         for number, names in enumerate(floors) for name in names}
#: Every module by its whole name, ``__init__`` as the package itself.
MODULES = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
    ".__init__"): path for package in FLOORS
    for path in sorted((PACKAGE.parent / package).rglob("*.py"))}


def imports(name: str, inside: bool = False) -> set[str]:
    """The modules of both packages that one imports when it is imported; or also *inside* it."""
    home = name.split(".") if MODULES[name].stem == "__init__" else name.split(".")[:-1]
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    found, waiting = set(), [*ast.walk(tree)] if inside else list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef) and not inside:
            waiting += node.body + getattr(node, "orelse", [])
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            base = home[:len(home) - node.level + 1] * bool(node.level)
            base = [*base, *filter(None, [node.module])]
            for alias in node.names:
                whole = ".".join([*base, alias.name])
                found.add(whole if whole in MODULES else ".".join(base))
    return found & set(MODULES) - {name, *FLOORS}


DOCUMENTED = (ast.ClassDef, ast.FunctionDef)
GRAPH = {name: imports(name) for name in MODULES if name not in FLOORS}


def test_every_module_imports_from_floors_below_its_own():
    part = {name: ".".join(name.split(".")[:2]) for name in GRAPH}
    assert not set(part.values()) - set(FLOOR), "give it a floor in FLOORS of tests/test_layout.py"
    assert not set(FLOOR) - set(part.values()), "FLOORS names what is gone"
    assert sum(map(len, GRAPH.values())) > 100
    for name, needed in GRAPH.items():
        package, own = name.split(".")[0], part[name]
        others = {part[one] for one in needed if one.startswith(f"{package}.")} - {own}
        assert not [one for one in others if FLOOR[one] >= FLOOR[own]], name


def test_the_library_never_imports_the_engine():
    for name in MODULES:
        if name.startswith("clusterbook"):
            assert "bookledger" not in MODULES[name].read_text(encoding="utf-8"), name


def test_the_engine_knows_no_method_and_no_metric():
    """Their names stand in book/ledger.toml, and where code needs them it asks there."""
    names = re.compile(
        r"\b(TELL|IDC|DeepCluster|deepcluster|idc|k-?means|silhouette|nmi|clustering)")
    for name, path in MODULES.items():
        if name.startswith("bookledger"):
            nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
            told = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}   # docstrings
            assert not [node.value for node in nodes if isinstance(node, ast.Constant)
                        and id(node) not in told and names.search(str(node.value))], name
    templates = [*PACKAGE.with_name("bookledger").glob("*.j2")]
    assert templates and not [file for file in templates
                              if names.search(file.read_text(encoding="utf-8"))]


def test_no_module_is_longer_than_450_lines_and_nothing_goes_in_a_circle():
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in MODULES.items()}
    assert len(lengths) > 40 and max(lengths.values()) <= 450, max(lengths, key=lengths.get)
    # Imports inside functions count too; the error names the circle.
    TopologicalSorter({name: imports(name, inside=True) for name in GRAPH}).prepare()


@pytest.mark.slow
def test_what_needs_no_network_needs_no_torch_and_data_and_help_nothing_heavy():
    heavy = {"torch", "torchvision", "sklearn", "scipy", "matplotlib", "pandas", "pooch"}
    for code, unwanted in (
            ("import bookledger\nfrom clusterbook import datasets, figures, metrics, weights\n"
             "bookledger.page, weights.quality", {"torch"}), ("import clusterbook.datasets", heavy),
            ("import clusterbook.deepcluster", {"torchvision"}),
            ("from bookledger.cli import main\nmain(['--help'])", heavy | {"numpy", "yaml"})):
        code += f"\nimport sys\nprint(sorted({unwanted} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert done.stdout.splitlines()[-1:] == ["[]"], code


#: Windows as far as Linux can play it: no POSIX, and files and consoles in an old encoding. Other
#: people's modules are imported before; they have what they need on each system.
WINDOWS = """
import importlib, os, signal, sys
names = sys.argv[1:]
for name in names:
    importlib.import_module(name)
for name in [name for name in sys.modules if name.startswith(("clusterbook", "bookledger"))]:
    del sys.modules[name]
for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
for module, gone in (
        (os, "fork getpgid getuid killpg mkfifo nice O_NOCTTY sched_getaffinity sync ttyname"),
        (signal, "SIGALRM SIGHUP SIGKILL SIGUSR1")):
    for name in gone.split():
        delattr(module, name)
for name in names:
    importlib.import_module(name)
from bookledger.execution import _terminal
from bookledger.cli import main
from bookledger.machine import machine, peak_memory_mb
assert _terminal() == "off" and machine()["cores"] and peak_memory_mb() is None
for command in ("scorecard", "data", "parameters tell"):
    assert main(command.split()) == 0, command
"""


@pytest.mark.slow
def test_nothing_needs_posix_and_files_and_consoles_may_have_an_old_encoding():
    names = [name for name in MODULES if "__main__" not in name]
    done = subprocess.run(
        [sys.executable, "-c", WINDOWS, *names], capture_output=True, check=False,
        env=without_settings() | {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C",
                                  "PYTHONIOENCODING": "cp1252"})
    assert done.returncode == 0, done.stderr.decode("cp1252")[-2000:]


def test_no_large_file_is_tracked_without_a_reason():
    if not (CHECKOUT / ".git").exists():
        pytest.skip("git knows nothing of an unpacked archive")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True,
                             text=True, check=True).stdout.split("\0")[:-1]
    for path in filter(Path.is_file, map(CHECKOUT.joinpath, tracked)):
        may = 10_000_000 if any(map(path.match, LARGE)) else 2_000_000
        assert path.stat().st_size <= may, f"kept in the history for ever: {path}"


def test_every_example_can_be_copied():
    """Under the heading Examples; pytest runs each inside its module, which has all its names."""
    examples = 0
    for name, path in MODULES.items():
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for node in nodes if name.startswith("clusterbook") else ():
            text = isinstance(node, DOCUMENTED) and ast.get_docstring(node) or ""
            if "\nExamples\n" not in text:
                continue
            code = "".join(one.source for one in doctest.DocTestParser().get_examples(text))
            used = [one for one in ast.walk(ast.parse(code)) if isinstance(one, ast.Name)]
            given = {one.id for one in used if isinstance(one.ctx, ast.Store)} | {
                alias.asname or alias.name.partition(".")[0] for one in ast.walk(ast.parse(code))
                if isinstance(one, ast.Import | ast.ImportFrom) for alias in one.names}
            assert {one.id for one in used} <= given | {*dir(builtins)}, f"{name}: {node.name}"
            examples += 1
    assert examples >= 6
