"""The lists of packages agree, the wheel is complete, an old Python is refused, nbval compares."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib

import nbformat
import pytest
import yaml
from _support import CHECKOUT, PACKAGE
from nbformat.v4 import new_code_cell, new_notebook, new_output
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import clusterbook

# conda-forge's names of what the package index calls otherwise.
CONDA = {"pytorch-cpu": "torch", "matplotlib-base": "matplotlib"}
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
MAKE = shutil.which("make")
needs_make = pytest.mark.skipif(MAKE is None, reason="there is no make on this machine")


def declared(*extras: str) -> dict[str, SpecifierSet]:
    """Package → range in pyproject.toml: the library's own, or those of extras."""
    project = PROJECT["project"]
    lists = [project["optional-dependencies"][name] for name in extras] or [project["dependencies"]]
    found = [Requirement(line) for requirements in lists for line in requirements]
    return {canonicalize_name(requirement.name): requirement.specifier for requirement in found}


def environment() -> list:
    """What environment.yml lists: conda's lines, then pip's under one key."""
    text = (CHECKOUT / "environment.yml").read_text(encoding="utf-8")
    return yaml.safe_load(text)["dependencies"]


def conda() -> dict[str, SpecifierSet]:
    """Package → range in environment.yml, by the package index's names; tools apart."""
    *named, last = environment()
    split = [line.partition(" ") for line in [*named, *last["pip"]] if not line.startswith("--")]
    return {canonicalize_name(CONDA.get(name, name)): SpecifierSet(bounds.replace(" ", ""))
            for name, _, bounds in split if name not in ("python", "pip", "make")}


def pinned() -> dict[str, str]:
    """Package → version in constraints.txt."""
    found = {}
    for line in (CHECKOUT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        line = line.partition("#")[0].partition(";")[0].strip()
        if line:
            name, equals, version = line.partition("==")
            assert equals, f"constraints.txt: {line!r} is no exact version"
            assert canonicalize_name(name) not in found, f"{name} is pinned twice"
            found[canonicalize_name(name)] = version
    return found


# --- the lists agree -------------------------------------------------------------------------


def test_conda_has_the_same_packages_and_ranges():
    assert conda() == {**declared(), **declared("book", "test")}


def test_binder_finds_the_file_its_python_and_this_checkout():
    (line,) = [line for line in environment() if isinstance(line, str) and
               line.startswith("python ")]
    # Binder's builder looks for "=" and a version; otherwise it takes a Python of its own choice.
    found = re.fullmatch(r"python =(\d\.\d+)", line)
    assert found, f"{line!r} is a range, or exact to the patch"
    assert found[1] in SpecifierSet(PROJECT["project"]["requires-python"])
    assert {"pip", "make"} < set(map(str, environment()))
    assert environment()[-1]["pip"][-1] == "--editable ."
    for folder in ("binder", ".binder"):     # in either, Binder would look nowhere else
        assert not (CHECKOUT / folder).exists()


def test_every_dependency_has_a_range_and_is_pinned_inside_it():
    pins, extras = pinned(), declared("book", "test", "dask", "tables")
    for name, bounds in {**declared(), **extras}.items():
        assert pins[name] in bounds, f"{name}=={pins[name]} is outside {bounds}"
    for name, bounds in {**declared("edit"), **extras, **declared()}.items():
        assert {">="} <= {bound.operator for bound in bounds} <= {">=", "<"}, f"{name} {bounds}"
    assert not set(declared()) & set(declared("book", "test")), "the book's tools in the library"


@pytest.mark.parametrize(("name", "first", "last", "never"), [
    ("jupyter-book", "1.0.4.post1", "1.99", "2.0.0"),  # 2 ignores _config.yml
    ("munkres", "1.1.4", "1.99", "2.0.0"),  # another maintainer, a compiled extension
])
def test_bounds_that_have_a_reason(name, first, last, never):
    bounds = {**declared(), **declared("book")}[name]
    assert first in bounds and last in bounds
    assert never not in bounds


def test_continuous_integration_tests_with_make():
    run = CHECKOUT / ".ci" / "run"
    assert os.access(run, os.X_OK)
    assert run.read_text(encoding="utf-8").rstrip().endswith("\nmake test")


# --- a Python that is too old ----------------------------------------------------------------


@pytest.fixture
def makefile(tmp_path):
    """A folder with the Makefile alone, and a Python that says it is too old."""
    shutil.copy(CHECKOUT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text("")
    # It answers the check that it is asked, in the words of a real one, as 3.9 would.
    old = tmp_path / "old python"
    old.write_text(f"#!/bin/sh\nexec {sys.executable!r} - \"$2\" <<'END'\n"
                   "import sys\n"
                   "class Version(tuple): pass\n"
                   "sys.version_info = Version((3, 9, 1))\n"
                   "exec(sys.argv[1])\n"
                   "END\n")
    old.chmod(0o755)
    return tmp_path


def make(folder, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items()
            if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHON")}
    return subprocess.run([MAKE, "--no-print-directory", *arguments], cwd=folder,
                          env={**kept, **environment}, capture_output=True, text=True, timeout=60,
                          check=False)


@needs_make
@pytest.mark.parametrize("target", ["book", "test"])
def test_an_old_python_is_told_in_one_sentence(makefile, target):
    done = make(makefile, target, f"PYTHON={makefile / 'old python'}")
    assert done.returncode == 2
    sentences = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert sentences == [f"clusterbook needs Python 3.11, 3.12 or 3.13; {makefile / 'old python'} "
                         "is 3.9. Name another: make PYTHON=/path/to/python"]
    assert not (makefile / ".venv").exists()


@needs_make
def test_no_python_at_all_is_told_in_one_sentence(makefile, tmp_path):
    # A PATH with the tools that the recipe uses, and no Python.
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "test", "echo"):
        if found := shutil.which(tool):
            (tools / tool).symlink_to(found)
    done = make(makefile, "book", PATH=str(tools))
    assert done.returncode == 2
    sentences = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert len(sentences) == 1
    assert "needs Python 3.11, 3.12 or 3.13; none was found" in sentences[0]


# --- the wheel -------------------------------------------------------------------------------


def test_the_wheel_holds_what_the_library_reads(tmp_path, capsys):
    """The wheel's layout, made from pyproject.toml by hand: building one needs the network."""
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["src/clusterbook"]
    site, cache = tmp_path / "site-packages", tmp_path / "cache"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, site / "clusterbook", ignore=ignored)
    for source, target in wheel["force-include"].items():
        assert (CHECKOUT / source).exists(), f"pyproject.toml ships {source}, which is not there"
        if (CHECKOUT / source).is_dir():
            shutil.copytree(CHECKOUT / source, site / target, ignore=ignored)
        else:
            (site / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / source, site / target)

    code = """
from pathlib import Path
from clusterbook import evidence, paths
from clusterbook.book import build, parameters
print([sorted(paths.chapters()), len(evidence.load_claims()), len(evidence.load_records()),
       len(evidence.load_expectations()), len(evidence.load_errata()),
       [list(parameters.read(name).profiles()) for name in paths.chapters()],
       list(map(str, build.pages(paths.root()))), (paths.root() / "_config.yml").is_file()])
"""
    own = """
assert Path(paths.__file__).is_relative_to(Path.cwd()) and paths.checkout() is None
print(paths.data_home())
"""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("CLUSTERBOOK_")}
    done = subprocess.run(
        [sys.executable, "-c", code + own], cwd=site, capture_output=True, text=True, check=False,
        env={**environment, "PYTHONPATH": str(site), "XDG_CACHE_HOME": str(cache)})
    assert done.returncode == 0, done.stderr
    installed, home = done.stdout.splitlines()
    assert home == str(cache / "clusterbook")
    exec(code, {})
    assert installed == capsys.readouterr().out.strip(), "it reads the same as in the checkout"


def test_the_citation_names_the_packages_version_and_license():
    citation = yaml.safe_load((CHECKOUT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == clusterbook.__version__
    assert citation["license"] == PROJECT["project"]["license"]
    assert {"cff-version", "message", "title", "authors", "type"} <= set(citation)


# --- nbval ---------------------------------------------------------------------------------------


def test_a_warning_is_not_compared_and_an_output_is(tmp_path):
    shutil.copy(CHECKOUT / "conftest.py", tmp_path)
    code = "import sys\nprint('a warning', file=sys.stderr)\n1"
    cells = [new_code_cell(code, execution_count=i, outputs=[
        new_output("execute_result", {"text/plain": str(i)}, execution_count=i)]) for i in (1, 2)]
    (tmp_path / "notebooks").mkdir()
    nbformat.write(new_notebook(cells=cells), tmp_path / "notebooks" / "one.ipynb")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "--nbval", "--nbval-current-env", "notebooks"],
        cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed" in done.stdout
    assert "FAILED notebooks/one.ipynb::Cell 1" in done.stdout, "the second cell's output differs"
