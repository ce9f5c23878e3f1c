"""Every chapter on machines like Colab's: ``python tests/environments [oldest] [newest]``.

Each environment is a fresh one with what such a machine has, in the oldest or the newest versions
that pyproject.toml allows, and without papermill, Jupyter Book, nbval, munkres or pooch. In it
every chapter runs from top to bottom in an empty folder. Its bootstrap cell installs the library
as it does from the public address; that address is a clone of this checkout's last commit here, so
pip fetches the tag and builds the wheel. Gigabytes are installed, so `make test` leaves this out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import nbformat
from packaging.requirements import Requirement

from clusterbook import paths
from clusterbook.book.runs import failed_checks

CHECKOUT = paths.checkout()
HOSTED = ("ipykernel", "nbclient")              # what runs a notebook there, in any version
LEFT_OUT = ("clusterbook", "jupyter_book", "munkres", "nbval", "papermill", "pooch")
VERSIONS = """
import importlib.metadata as m, json
names = {d.metadata["Name"].lower().replace("-", "_"): d.version for d in m.distributions()}
print(json.dumps(names))
"""


def requirements(kind: str) -> list[Requirement]:
    """What the environment has of the library's own list: lower bounds, or whatever is newest."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [Requirement(text) for text in project["dependencies"]]
    wanted = [one for one in wanted if one.name not in LEFT_OUT]
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
    """Make a clean environment and say what is in it; its Python."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    wanted = requirements(kind)
    for packages in (["--upgrade", "pip"], [*map(str, wanted), *HOSTED]):
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    found = versions(python)
    there = sorted(set(LEFT_OUT) & set(found))
    assert not there, f"{', '.join(there)} came with the rest; this is no clean environment"
    print(f"{kind}: Python {sys.version_info[0]}.{sys.version_info[1]}, " + ", ".join(
        f"{one.name} {found[one.name.lower().replace('-', '_')]}" for one in wanted), flush=True)
    return python


def run(chapter: str, python: Path, address: str) -> list[str]:
    """Run a chapter from top to bottom in an empty folder; what went wrong."""
    notebook = nbformat.read(CHECKOUT / "notebooks" / f"{chapter}.ipynb", as_version=4)
    for cell in notebook.cells:
        if "bootstrap" in cell.metadata.get("tags", []):
            cell.source = re.sub(r"(?m)^REPOSITORY, REF = .*$", f"REPOSITORY, REF = {address}",
                                 cell.source)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    variables = {name: value for name, value in os.environ.items()
                 if not name.startswith(("CLUSTERBOOK_", "PYTHON", "VIRTUAL_ENV"))}
    variables |= {"COLAB_RELEASE_TAG": "like-colab", "MPLBACKEND": "Agg",
                  "XDG_CACHE_HOME": str(python.parents[1] / "cache"),
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


def trial(kind: str, folder: Path) -> int:
    """Run every chapter in a kind of environment; the number of things that went wrong."""
    git = {"cwd": CHECKOUT, "check": True, "capture_output": True, "text": True}
    commit = subprocess.run(["git", "rev-parse", "HEAD"], **git).stdout.strip()
    if subprocess.run(["git", "status", "--porcelain"], **git).stdout.strip():
        print("what is not committed is not tested: the library comes from the last commit",
              file=sys.stderr)
    subprocess.run(["git", "clone", "--quiet", "--bare", str(CHECKOUT), folder / "address"],
                   check=True)
    address = f'"{(folder / "address").as_uri()}", "{commit}"'
    python, wrong = environment(kind, folder / "environment"), 0
    before = versions(python)
    for chapter in paths.chapters():
        begun = time.perf_counter()
        faults = run(chapter, python, address)
        wrong += bool(faults)
        print(f"    {chapter}: {'failed' if faults else 'every check holds'} "
              f"({time.perf_counter() - begun:.0f} s)", *faults, sep="\n        ", flush=True)
    after = versions(python)
    for name in sorted({*before, *after} - {"clusterbook", "munkres", "pooch"}):
        if before.get(name) != after.get(name):
            wrong += 1
            print(f"    a bootstrap cell changed the environment: {name} "
                  f"{before.get(name, 'absent')} became {after.get(name, 'absent')}")
    return wrong


def main(kinds: list[str]) -> int:
    """Run every chapter in each kind of environment; 1 if anything went wrong."""
    kinds = kinds or ["oldest", "newest"]
    if not set(kinds) <= {"oldest", "newest"}:
        print(__doc__, file=sys.stderr)
        return 2
    wrong = 0
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix="clusterbook-") as folder:
            wrong += trial(kind, Path(folder))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
