"""Every chapter on machines like Colab's.

    python tests/environments [oldest] [newest] [colab] [kaggle]
    python tests/environments image [--row "Colab's own image"]

Each environment is a fresh one with what such a machine has, in the oldest or the newest versions
that pyproject.toml allows or in those of colab.txt and kaggle.txt, and without `LEFT_OUT`; *image*
is the Python that runs this script, as it is. Every chapter runs in an empty folder, and its
bootstrap cell installs the library from a clone of this checkout's last commit. Where every check
held, --row writes date and versions to a row of book/runtimes.csv. Gigabytes are installed.
"""

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from packaging.requirements import Requirement

from bookledger import config
from bookledger.execution import failed_checks
from clusterbook import paths

CHECKOUT = paths.checkout()
HOSTED = ("ipykernel", "nbclient")              # what runs a notebook there, in any version
LEFT_OUT = ("clusterbook", "jupyter_book", "munkres", "nbval", "papermill")
HERE = Path(__file__).parent
FILES = {kind: HERE / f"{kind}.txt" for kind in ("colab", "kaggle")}     # "# Python 3.13", packages
KINDS = ["oldest", "newest", *FILES, "image"]
ROWS = CHECKOUT / "book" / "runtimes.csv"       # what book/rerun.md shows
SHOWN = ("python", "torch", "numpy", "scikit_learn")     # versions in a row
VERSIONS = """
import importlib.metadata as m, json, sys
names = {d.metadata["Name"].lower().replace("-", "_"): d.version for d in m.distributions()}
print(json.dumps(names | {"python": sys.version.split()[0]}))
"""


def requirements(kind: str) -> list[Requirement]:
    """What the environment has: a file's versions; the library's list, oldest or newest."""
    if kind in FILES:
        lines = FILES[kind].read_text(encoding="utf-8").splitlines()
        return [Requirement(line) for line in lines if not line.startswith("#")]
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [Requirement(text) for text in project["dependencies"]]
    wanted = [one for one in wanted if one.name not in (*LEFT_OUT, "pooch")]
    if kind == "newest":
        return wanted
    lowest = {one.name: next(s.version for s in one.specifier if s.operator == ">=")
              for one in wanted}
    return [Requirement(f"{name}=={version}.*") for name, version in lowest.items()]


def versions(python: Path) -> dict[str, str]:
    """The version of every package that a Python has."""
    return json.loads(subprocess.run([python, "-c", VERSIONS], check=True, capture_output=True,
                                     text=True).stdout)


def environment(kind: str, folder: Path) -> Path:
    """Make a clean environment, unless it is this one, and say what is in it; its Python."""
    python = Path(sys.executable)
    if kind != "image":
        base = sys.executable
        if kind in FILES:
            name = FILES[kind].read_text(encoding="utf-8").split()[2]
            base = shutil.which(f"python{name}") or sys.exit(f"{kind}: there is no python{name}")
        subprocess.run([base, "-m", "venv", folder], check=True)
        python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
        for packages in (["--upgrade", "pip"], [*map(str, requirements(kind)), *HOSTED]):
            subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    found = versions(python)
    there = sorted(set(LEFT_OUT) & set(found))
    assert kind == "image" or not there, f"no clean environment: {', '.join(there)} came along"
    names = [one.name.lower().replace("-", "_") for one in requirements(kind)]
    print(f"{kind}: " + ", ".join(f"{name} {found.get(name, 'absent')}"
                                  for name in ("python", *names)), flush=True)
    return python


def run(chapter: str, python: Path, library: str, cache: Path) -> list[str]:
    """Run a chapter from top to bottom in an empty folder; what went wrong."""
    notebook = nbformat.read(CHECKOUT / "notebooks" / f"{chapter}.ipynb", as_version=4)
    for cell in notebook.cells:
        if "bootstrap" in cell.metadata.get("tags", []):
            cell.source, found = re.subn("(?m)^LIBRARY = .*$", f'LIBRARY = "{library}"',
                                         cell.source)
            assert found == 1, f"the bootstrap cell of {chapter} names no library"
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    variables = {name: value for name, value in os.environ.items()
                 if not name.startswith(("CLUSTERBOOK_", "PYTHON", "VIRTUAL_ENV"))}
    variables |= {"COLAB_RELEASE_TAG": "like-colab", "MPLBACKEND": "Agg",
                  "XDG_CACHE_HOME": str(cache),
                  "PATH": f"{python.parent}{os.pathsep}{variables['PATH']}"}
    with tempfile.TemporaryDirectory(prefix="empty-") as empty:
        file = Path(empty, f"{chapter}.ipynb")
        nbformat.write(notebook, file)
        done = subprocess.run(
            [python, "-m", "jupyter", "execute", "--inplace", "--kernel_name=python3", file.name],
            cwd=empty, env=variables, capture_output=True, text=True, check=False)
        if done.returncode:
            return [line for line in done.stderr.splitlines() if line.strip()][-12:]
        return failed_checks(nbformat.read(file, as_version=4))


def trial(kind: str, folder: Path, row: str | None) -> int:
    """Run every chapter in a kind of environment; the number of things that went wrong."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=CHECKOUT, check=True,
                            capture_output=True, text=True).stdout.strip()
    subprocess.run(["git", "clone", "--quiet", "--bare", str(CHECKOUT), folder / "address"],
                   check=True)
    library = f"clusterbook @ git+{(folder / 'address').as_uri()}@{commit}"
    python, wrong = environment(kind, folder / "environment"), 0
    before = versions(python)
    for chapter in config.chapters():
        begun = time.perf_counter()
        faults = run(chapter, python, library, folder / "cache")
        wrong += bool(faults)
        print(f"    {chapter}: {'failed' if faults else 'every check holds'} "
              f"({time.perf_counter() - begun:.0f} s)", *faults, sep="\n        ", flush=True)
    after = versions(python)
    for name in sorted({*before, *after} - {"clusterbook", "munkres"}):
        if before.get(name) != after.get(name):
            wrong += 1
            print(f"    a bootstrap cell changed the environment: {name} "
                  f"{before.get(name, 'absent')} became {after.get(name, 'absent')}")
    if row and not wrong:
        with ROWS.open(encoding="utf-8", newline="") as file:
            rows = {name: rest for name, *rest in csv.reader(file)}
        day = f"{datetime.now(UTC):%d %B %Y}".lstrip("0")
        rows[row] = [day, *(after[name] for name in SHOWN)]
        with ROWS.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([name, *rows[name]] for name in rows)
    return wrong


def main() -> int:
    """Run every chapter in each kind of environment; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="tests/environments")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--row", help="the row of book/runtimes.csv to write")
    options = parser.parse_args()
    kinds = options.kinds or KINDS[:-1]
    if not set(kinds) <= set(KINDS) or options.row and len(kinds) > 1:
        parser.error(f"KIND is one of {', '.join(KINDS)}; --row takes one")
    wrong = 0
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix="clusterbook-") as folder:
            wrong += trial(kind, Path(folder), options.row)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
