"""Every injected fault must be caught: by a chapter's checks, or by the unit tests that it names.

A fault of ``faults.yaml`` is applied to a copy of the checkout, and nbval compares the chapter
there with its stored outputs. Caught means that the line of a check differs, that on the numbers of
the page's figures included; another picture, or an exception, is no catch. For a fault of
``units/*.yaml`` pytest runs the tests that it names, which pass without it; with it, one fails.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import nbformat
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHECK = re.compile(r"""evidence\.(?:check\(\s*["']|(?=drawn\())([\w-]+)""")
FAULTS = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text(encoding="utf-8"))
CHAPTERS = sorted({fault["chapter"] for fault in FAULTS})
UNIT_FAULTS = [fault for path in sorted(Path(__file__).with_name("units").glob("*.yaml"))
               for fault in yaml.safe_load(path.read_text(encoding="utf-8"))]


class Outcome(NamedTuple):
    """What nbval found in a chapter: names of checks, and numbers of code cells from 0."""

    checks: tuple[str, ...] = ()    # checks whose line differs
    others: tuple[int, ...] = ()    # cells without a check whose output differs
    crashed: tuple[int, ...] = ()   # cells that raised, hung or were not run

    @property
    def verdict(self) -> str:
        return "crashed" if self.crashed else "caught" if self.checks else "missed"


def rerun(chapter: str, copy: Path) -> Outcome:
    """Compare a copy's chapter, and its audit page, with their stored outputs."""
    found = []
    for path in (f"notebooks/{chapter}.ipynb", f"book/audit/{chapter}.ipynb"):
        if (copy / path).is_file():
            code, said = run_pytest(copy, "--rootdir", ".", "--nbval-cell-timeout=300",
                                    "--junitxml=report.xml", path)
            assert code in (0, 1), said
            found.append(read(copy / "report.xml", nbformat.read(copy / path, 4), chapter))
    return Outcome(*(sum(parts, ()) for parts in zip(*found, strict=True)))


def run_tests(copy: Path, tests: Sequence[str]) -> tuple[int, str]:
    return run_pytest(copy, "-x", "-q", "-p", "no:nbval",
                      "-o", "addopts=--import-mode=importlib", *tests)


def run_pytest(copy: Path, *arguments: str) -> tuple[int, str]:
    ours = ("CLUSTERBOOK_", "PYTEST_", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", *arguments],
        cwd=copy, env={"OMP_NUM_THREADS": "1", **inherited, "PYTHONPATH": str(copy / "src")},
        capture_output=True, text=True, timeout=1200)
    return process.returncode, process.stdout + process.stderr


def read(report: Path, notebook: nbformat.NotebookNode, page: str) -> Outcome:
    """Sort the cells that did not pass into checks, others and crashes."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    cases = {int(case.get("name").removeprefix("Cell ")): case
             for case in ElementTree.parse(report).iter("testcase")}
    assert sorted(cases) == list(range(len(cells))), "nbval did not run every cell"
    checks, others, crashed = [], [], []
    for number, case in sorted(cases.items()):
        trouble = [child for child in case if child.tag in ("failure", "error")]
        if not trouble:
            continue
        if not all(re.search(rf"^Cell {number}: Cell outputs differ$", child.text or "", re.M)
                   for child in trouble):
            crashed.append(number)
        elif "".join(output.get("data", {}).get("text/plain", "") or output.get("text", "")
                     for output in cells[number].outputs).startswith("✓ "):
            checks += [page if name == "drawn" else name
                       for name in CHECK.findall(cells[number].source)]
        else:
            others.append(number)
    return Outcome(tuple(checks), tuple(others), tuple(crashed))


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """A copy of the checkout; each fault is taken back after its tests."""
    left_out = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis", "_build",
                                      "__pycache__", "*.egg-info")
    return Path(shutil.copytree(ROOT, tmp_path_factory.mktemp("copy") / "book", ignore=left_out))


@pytest.fixture(scope="session")
def without_faults(checkout):
    """What a chapter or a list of tests says without any fault; each is run once."""
    return cache(lambda what: rerun(what, checkout) if isinstance(what, str)
                 else run_tests(checkout, what))


@contextmanager
def applied(fault: Mapping[str, str], copy: Path) -> Iterator[None]:
    file = copy / fault["file"]
    text = file.read_text(encoding="utf-8")
    assert text.count(fault["old"]) == 1, (
        f"fault {fault['id']}: its old text must occur exactly once in {fault['file']}, "
        f"but occurs {text.count(fault['old'])} times")
    try:
        file.write_text(text.replace(fault["old"], fault["new"]), encoding="utf-8")
        yield
    finally:
        file.write_text(text, encoding="utf-8")
        # Python takes what it compiled of a text as long, written in the same second, for current.
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
            compiled.unlink()


def test_an_exception_in_the_copy_is_seen_and_is_no_catch(checkout):
    raises = {"id": "", "file": "src/clusterbook/__init__.py", "old": "__version__ =",
              "new": 'raise RuntimeError("the copy was imported")\n__version__ ='}
    with applied(raises, checkout):
        assert rerun(CHAPTERS[0], checkout).verdict == "crashed"
        assert "the copy was imported" in (checkout / "report.xml").read_text(encoding="utf-8")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault['chapter']}-{fault['id']}")
def test_a_check_notices(fault, checkout, without_faults, record_property):
    # A chapter that fails by itself would catch everything and show nothing.
    found = without_faults(fault["chapter"])
    assert found == Outcome(), f"the chapter fails without any fault: {found}"
    with applied(fault, checkout):
        found = rerun(fault["chapter"], checkout)
    record_property("fault", [fault["id"], found.verdict, ", ".join(
        f"cell {number}" for number in found.crashed) or ", ".join(found.checks)])
    assert found.verdict == "caught", f"{found.verdict}: {fault['breaks']}; nbval found {found}"
    unnoticed = set(fault.get("reaches", ())) - set(found.checks)
    assert not unnoticed, f"these checks should have noticed it: {sorted(unnoticed)}"


@pytest.mark.parametrize("fault", UNIT_FAULTS, ids=lambda fault: fault["id"])
def test_a_unit_test_notices(fault, checkout, without_faults, record_property):
    code, said = without_faults(tuple(fault["tests"]))
    assert code == 0, f"the tests fail without any fault:\n{said}"
    with applied(fault, checkout):
        code, said = run_tests(checkout, fault["tests"])
    failed = re.findall(r"^FAILED (\S+)", said, re.M)
    verdict = "missed" if code == 0 else "caught" if failed else "crashed"
    record_property("fault", [fault["id"], verdict, ", ".join(failed)])
    assert verdict == "caught", f"{verdict}: {fault['breaks']}\n{said}"
